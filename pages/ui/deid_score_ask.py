"""A new score: gold, predictions, labels, the button; each card says what is still missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from audit.deid.given import MAX_UPLOAD_MB, GivenNotes
from audit.deid.matching import MATCHERS
from audit.deid.score import (
    EXAMPLE,
    FILE,
    GIVEN,
    GOLD_KINDS,
    OUTPUTS,
    PREDICTED_KINDS,
    TAGGED,
    Source,
)
from audit.deid.scoring import LANGUAGES, ScoreTask, of_no_type
from audit.errors import AuditError
from audit.foreign import decode_text
from audit.notes.read import NoteFile
from audit.notes.spans import TYPES, LabelMap, read_label_map
from audit.shelf import MAX_TITLE_CHARS
from pages.ui import blocks, cached
from pages.ui.blocks import refused, step
from pages.ui.cached import given, marked_sets, taggers
from pages.ui.corpus_choice import code_of, file_name
from pages.ui.deid_score_job import start
from pages.ui.deid_score_names import tagger_name
from pages.ui.language import Words
from pages.ui.logged import note_upload
from pages.ui.text import day, plain

_TYPES = ["jsonl", "zip", "xml", "conll", "bio", "iob", "txt"]
Side = tuple[Source | None, GivenNotes | None]


def ask_gold(say: Words) -> Side:
    """Draw the choice of the gold notes; (None, None) until it is made."""
    kind = _ask_kind(say, "gold", GOLD_KINDS)
    if kind == EXAMPLE:
        code = st.segmented_control(
            say.text("deid_measures_example_language"),
            LANGUAGES,
            format_func=lambda one: say.text(f"deid_measures_example_{one}"),
            key="deid_score_example",
            default="ja" if say.language == "ja" else "en",
            required=True,
        )
        st.html(blocks.heading("", below=say.text("deid_measures_example_below")))
        return Source(kind=EXAMPLE, ref=str(code or "ja")), None
    if kind == GIVEN:
        return _ask_upload(say, "gold", below=say.text("deid_measures_gold_file_below"))
    return _ask_file(say, "gold"), None


def ask_predicted(say: Words) -> Side:
    """Draw the choice of the predictions; (None, None) until it is made."""
    asked = st.query_params.get("tagged", "")
    if asked and "deid_score_predicted_kind" not in st.session_state:
        st.session_state["deid_score_predicted_kind"] = TAGGED
    kind = _ask_kind(say, "predicted", PREDICTED_KINDS)
    if kind == TAGGED:
        return _ask_set(say, asked=asked), None
    if kind == GIVEN:
        return _ask_upload(say, "predicted", below=say.text("deid_measures_predicted_file_below"))
    if kind == OUTPUTS:
        return _ask_upload(say, "outputs", below=say.text("deid_measures_outputs_below"))
    ids = [one.tagger_id for one in taggers()]
    code = _box(say, "tagger", ids, shown=lambda one: tagger_name(say, one))
    return (Source(kind=kind, ref=code) if code else None), None


def labels_table(say: Words, found: GivenNotes) -> str:
    """Return what is in a file that was given, as HTML."""
    rows = [(label, f"{n:,}") for label, n in found.labels[:40]]
    header = [say.text("deid_measures_label"), say.text("deid_measures_n_spans")]
    caption = say.text(
        "deid_measures_given",
        notes=f"{found.n_notes:,}",
        spans=f"{found.n_spans:,}",
        patients=f"{found.n_patients:,}",
    )
    return blocks.simple_table(header, rows, caption=caption)


def _ask_kind(say: Words, side: str, kinds: Sequence[str]) -> str:
    kind = st.segmented_control(
        say.text(f"deid_measures_from_{side}"),
        kinds,
        format_func=lambda code: say.text(f"deid_measures_side_{side}_{code}"),
        key=f"deid_score_{side}_kind",
        default=None if f"deid_score_{side}_kind" in st.session_state else kinds[0],
        required=True,
    )
    return str(kind or kinds[0])


def _ask_upload(say: Words, side: str, *, below: str) -> Side:
    st.html(blocks.heading("", below=below))
    is_outputs = side == "outputs"
    file = st.file_uploader(
        say.text(f"deid_measures_file_{side}"),
        type=["jsonl"] if is_outputs else _TYPES,
        key=f"deid_score_file_{side}",
        max_upload_size=MAX_UPLOAD_MB,
    )
    if file is None:
        return None, None
    note_upload(file, what=side)
    what = "gold notes" if side == "gold" else "predicted notes"
    try:
        found = given(file.getvalue(), name=file.name, what=what, is_outputs=is_outputs)
    except AuditError as error:
        refused(say, error)
        return None, None
    if is_outputs:
        counted = say.text("deid_measures_given_outputs", notes=f"{found.n_notes:,}")
        st.html(blocks.heading("", below=counted))
    else:
        st.html(labels_table(say, found))
    return Source(kind=OUTPUTS if is_outputs else GIVEN, ref=found.digest), found


def _ask_file(say: Words, side: str) -> Source | None:
    files = {
        code_of(one): one for one in cached.note_files()
        if one.kind == "jsonl" and one.file_id.lower().endswith((".jsonl", ".ndjson"))
    }  # fmt: skip
    if not files:
        st.html(blocks.heading("", below=say.text("deid_measures_no_files")))
        return None

    def shown(code: str) -> str:
        one: NoteFile = files[code]
        return file_name(say, one)

    code = _box(say, f"{side}_file", list(files), shown=shown)
    return Source(kind=FILE, ref=files[code].file_id) if code else None


def _ask_set(say: Words, *, asked: str) -> Source | None:
    sets = {one.tagged_id: one for one in marked_sets()}
    if not sets:
        st.html(blocks.heading("", below=say.text("deid_measures_no_sets")))
        return None
    if asked in sets and "deid_score_tagged" not in st.session_state:
        st.session_state["deid_score_tagged"] = asked

    def shown(code: str) -> str:
        one = sets[code]
        name = one.title or tagger_name(say, one.tagger_id)
        return say.text(
            "deid_measures_set_name", name=name, n=f"{one.n_notes:,}", at=day(one.created)
        )

    code = _box(say, "tagged", list(sets), shown=shown)
    st.html(blocks.heading("", below=say.text("deid_measures_set_below")))
    return Source(kind=TAGGED, ref=code) if code else None


def _box(say: Words, what: str, options: list[str], *, shown: Callable[[str], str]) -> str:
    # A box of choices shows its options as plain text, never as Markdown.
    code = st.selectbox(
        plain(say.text(f"deid_measures_box_{what}")),
        options,
        index=0 if len(options) == 1 or what == "tagger" else None,
        format_func=shown,
        key=f"deid_score_{what}",
        placeholder=say.text("setup_choose"),
    )
    return str(code or "")


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
        matcher, seed = ask_details(say)
        _step(say, place, "3", "labels", is_ready=mapping is not None)
    if gold is None or predicted is None or mapping is None:
        return
    has_five_types, given_map = mapping
    _draw_start(
        say,
        ScoreTask(
            gold=gold,
            predicted=predicted,
            has_five_types=has_five_types,
            label_map=dict(given_map.labels) if given_map else {},
            matcher=matcher,
            seed=seed,
        ),
    )


def ask_labels(say: Words, found: list[GivenNotes]) -> tuple[bool, LabelMap | None] | None:
    """Ask how labels are mapped; None while a map cannot be read, or the five types lack one."""
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
    if unknown and has_five_types:
        refused(say, of_no_type(unknown))
        return None
    if unknown:
        labels = ", ".join(unknown[:40])
        below = say.text("deid_measures_unknown", n=len(unknown), labels=labels)
        st.html(blocks.heading("", below=below))
    return bool(has_five_types), given


def ask_details(say: Words) -> tuple[str, int]:
    """Ask for matcher and seed, out of the way."""
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
    return str(matcher or MATCHERS[0]), int(seed or 0)


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
