"""A new score: gold, predictions, labels, the button; each card says what is still missing."""

from __future__ import annotations

import streamlit as st

from audit.deid.given import GivenNotes
from audit.deid.matching import MATCHERS
from audit.deid.score import Source
from audit.deid.scoring import ScoreTask
from audit.errors import AuditError
from audit.foreign import decode_text
from audit.notes.spans import TYPES, LabelMap, read_label_map
from audit.shelf import MAX_TITLE_CHARS
from pages.ui import blocks
from pages.ui.deid_score_job import start
from pages.ui.deid_score_sides import ask_gold, ask_predicted, ask_training
from pages.ui.language import Words
from pages.ui.setup_choice import note_upload, refused, step

_MAX_MAP_MB = 1
_MAX_SEED = 2**31 - 1


def draw_ask(say: Words) -> None:
    """Draw the cards, and start the job at the button."""
    with st.container(border=True, key="deid_measures_card_gold"):
        place = st.empty()
        gold, given_gold = ask_gold(say)
        _step(say, place, "1", "gold", is_ready=gold is not None)
    with st.container(border=True, key="deid_measures_card_predicted"):
        place = st.empty()
        predicted, given_predicted = ask_predicted(say)
        _step(say, place, "2", "predicted", is_ready=predicted is not None)
    found = [one for one in (given_gold, given_predicted) if one is not None]
    with st.container(border=True, key="deid_measures_card_labels"):
        place = st.empty()
        mapping = ask_labels(say, found)
        matcher, seed, training = ask_details(say)
        _step(say, place, "3", "labels", is_ready=mapping is not None)
    if gold is None or predicted is None or mapping is None:
        return
    has_five_types, given_map = mapping
    _draw_start(
        say,
        ScoreTask(
            gold=gold,
            predicted=predicted,
            training=training,
            has_five_types=has_five_types,
            label_map=dict(given_map.labels) if given_map else {},
            matcher=matcher,
            seed=seed,
        ),
    )


def ask_labels(say: Words, found: list[GivenNotes]) -> tuple[bool, LabelMap | None] | None:
    """Ask how labels are mapped; None while a map of one's own cannot be read."""
    foreign = sorted({label for one in found for label, _ in one.labels} - set(TYPES))
    has_five_types = st.checkbox(
        say.text("deid_measures_five_types"),
        key="deid_measures_five_types",
        help=say.text("deid_measures_five_types_help"),
        value=True,
    )
    file = st.file_uploader(
        say.text("deid_measures_file_map"),
        type="json",
        key="deid_measures_file_map",
        max_upload_size=_MAX_MAP_MB,
    )
    given: LabelMap | None = None
    if file is not None:
        note_upload(file, what="labels")
        try:
            text, _ = decode_text(file.getvalue(), what="label map")
            given = read_label_map(text, what="label map")
        except AuditError as error:
            refused(say, error)
            return None
    order = ScoreTask(
        gold=Source(kind="example", ref="ja"), predicted=Source(kind="tagger", ref="rules"),
        has_five_types=bool(has_five_types), label_map=dict(given.labels) if given else {},
    )  # fmt: skip
    by = order.mapping
    unknown = [label for label in foreign if by is None or by.of(label) is None]
    if unknown:
        labels = ", ".join(unknown[:40])
        below = say.text("deid_measures_unknown", n=len(unknown), labels=labels)
        st.html(blocks.heading("", below=below))
    return bool(has_five_types), given


def ask_details(say: Words) -> tuple[str, int, Source | None]:
    """Ask for matcher, seed and training notes, out of the way."""
    with st.expander(say.text("deid_measures_details"), key="deid_measures_details"):
        matcher = st.radio(
            say.text("deid_measures_matcher"),
            MATCHERS,
            format_func=lambda code: say.text(f"deid_measures_matcher_{code}"),
            key="deid_measures_matcher",
        )
        seed = st.number_input(
            say.text("deid_measures_seed"), min_value=0, max_value=_MAX_SEED, step=1,
            key="deid_measures_seed",
        )  # fmt: skip
        training, _ = ask_training(say)
    return str(matcher or MATCHERS[0]), int(seed or 0), training


def _draw_start(say: Words, order: ScoreTask) -> None:
    title, button = st.columns([3, 1], vertical_alignment="bottom")
    label = title.text_input(
        say.text("deid_measures_score_title"),
        key="deid_measures_score_title",
        max_chars=MAX_TITLE_CHARS,
        help=say.text("deid_measures_score_title_help"),
    )
    if button.button(
        say.text("deid_measures_start"), key="deid_measures_start", type="primary", width="stretch"
    ):
        try:
            start(order.with_(title=label or ""))
        except AuditError as error:
            refused(say, error)
            return
        st.rerun()


def _step(say: Words, place: st.delta_generator.DeltaGenerator, letter: str, what: str, *,
          is_ready: bool) -> None:  # fmt: skip
    state = say.text("setup_ready" if is_ready else "setup_missing")
    with place.container():
        step(letter, say.text(f"deid_measures_step_{what}"), is_ready=is_ready, state=state)
