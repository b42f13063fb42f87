"""A new measurement of a de-identifier: gold, prediction and labels, a card for each."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.deid.given import MAX_UPLOAD_MB, GivenNotes
from audit.deid.score import (
    EXAMPLE,
    FILE,
    GIVEN,
    GOLD_KINDS,
    OUTPUTS,
    PREDICTED_KINDS,
    TAGGED,
    TAGGER,
    Source,
)
from audit.deid.scoring import LANGUAGES, ScoreTask, of_no_type
from audit.errors import AuditError
from audit.foreign import decode_text
from audit.notes.spans import TYPES, LabelMap, read_label_map
from audit.shelf import MAX_TITLE_CHARS
from audit.words import Words
from pages.ui import cached
from pages.ui.access import may_or_say, note_upload
from pages.ui.blocks import day, refused
from pages.ui.called import file_code, file_names, tagger_name
from pages.ui.form import ask, pick
from pages.ui.section import Table, card, draw_table, remark

_TYPES = ["jsonl", "zip", "xml", "conll", "bio", "iob", "txt"]
_MAX_MAP_MB, _MAX_LABELS = 1, 40
_USUAL = ScoreTask(
    gold=Source(kind=EXAMPLE, ref=LANGUAGES[0]), predicted=Source(kind=TAGGER, ref="rules")
)
Side = tuple[Source | None, GivenNotes | None]


def draw_ask(say: Words) -> ScoreTask | None:
    """Draw the cards and the button; return what is asked once it is pressed."""
    if not may_or_say("ran", say):
        return None
    sides: dict[str, Side] = {}
    for number, side in enumerate(("gold", "predicted"), start=1):
        with card(say, f"deid_measures_step_{side}", number=number) as is_done:
            sides[side] = _ask_side(say, side)
            is_done(sides[side][0] is not None)
    gold, predicted = (source for source, _ in sides.values())
    with card(say, "deid_measures_step_labels", number=3) as is_done:
        usual = _USUAL.with_(gold=gold or _USUAL.gold, predicted=predicted or _USUAL.predicted)
        task = _ask_labels(say, [found for _, found in sides.values() if found], usual=usual)
        with st.expander(say.text("deid_measures_details"), key="deid_measures_details"):
            fields = ("matcher", "seed")
            how = ask(say, _USUAL, words="deid_measures", fields=fields, key="deid_score")
        is_done(task is not None)
    if gold is None or predicted is None or task is None:
        return None
    title, button = st.columns([3, 1], vertical_alignment="bottom")
    label = title.text_input(
        say.text("deid_measures_score_title"), key="deid_measures_score_title",
        max_chars=MAX_TITLE_CHARS, help=say.text("deid_measures_score_title_help"),
    )  # fmt: skip
    is_asked = button.button(
        say.text("deid_measures_start"), key="deid_measures_start", type="primary", width="stretch"
    )
    return task.with_(title=label or "", **how) if is_asked else None


def _ask_side(say: Words, side: str) -> Side:
    """Draw where gold notes or predictions come from; (None, None) until it is chosen."""
    kinds: Sequence[str] = GOLD_KINDS if side == "gold" else PREDICTED_KINDS
    key = f"deid_score_{side}_kind"
    if st.query_params.get("tagged"):  # no example is gold for notes of somebody's own
        st.session_state.setdefault(key, GIVEN if side == "gold" else TAGGED)
    kind = st.segmented_control(
        say.text(f"deid_measures_from_{side}"), kinds, key=key, required=True,
        format_func=lambda code: say.text(f"deid_measures_side_{side}_{code}"),
        default=None if key in st.session_state else kinds[0],
    )  # fmt: skip
    if kind in (GIVEN, OUTPUTS):
        return _ask_upload(say, "outputs" if kind == OUTPUTS else side)
    if kind == EXAMPLE:
        code = st.segmented_control(
            say.text("deid_measures_example_language"), LANGUAGES, key="deid_score_example",
            format_func=lambda one: say.text(f"called_example_{one}"), required=True,
            default=say.language,
        )  # fmt: skip
        remark(say, "deid_measures_example_below")
        return Source(kind=EXAMPLE, ref=str(code or LANGUAGES[0])), None
    if kind == FILE:
        return _ask_file(say, f"{side}_file"), None
    if kind == TAGGED:
        return _ask_set(say), None
    names = {one.tagger_id: tagger_name(say, one.tagger_id) for one in cached.taggers()}
    code = pick(say, "tagger", names, label=say.text("deid_measures_box_tagger"),
                usual=next(iter(names)))  # fmt: skip
    return (Source(kind=TAGGER, ref=code) if code else None), None


def _ask_file(say: Words, what: str) -> Source | None:
    files = {
        file_code(one): one for one in cached.note_files()
        if one.kind == "jsonl" and one.file_id.lower().endswith((".jsonl", ".ndjson"))
    }  # fmt: skip
    if not files:
        remark(say, "deid_measures_no_files")
        return None
    names = file_names(say, tuple(files.values()))
    code = pick(say, what, names, label=say.text("deid_measures_box_gold_file"))
    return Source(kind=FILE, ref=files[code].file_id) if code else None


def _ask_set(say: Words) -> Source | None:
    names = {
        one.tagged_id: say.text(
            "deid_measures_set_name", name=one.title or tagger_name(say, one.tagger_id),
            n=f"{one.n_notes:,}", at=day(one.created),
        )
        for one in cached.marked_sets()
    }  # fmt: skip
    if not names:
        remark(say, "deid_measures_no_sets")
        return None
    code = pick(say, "tagged", names, label=say.text("deid_measures_box_tagged"),
                usual=next(iter(names)) if len(names) == 1 else "")  # fmt: skip
    remark(say, "deid_measures_set_below")
    return Source(kind=TAGGED, ref=code) if code else None


def _ask_upload(say: Words, side: str) -> Side:
    remark(say, f"deid_measures_{side}_file_below")
    is_outputs = side == "outputs"
    file = st.file_uploader(
        say.text(f"deid_measures_file_{side}"), type=["jsonl"] if is_outputs else _TYPES,
        key=f"deid_score_file_{side}", max_upload_size=MAX_UPLOAD_MB,
    )  # fmt: skip
    if file is None:
        return None, None
    note_upload(file, what=side)
    what = "gold notes" if side == "gold" else "predicted notes"
    try:
        found = cached.given(file.getvalue(), name=file.name, what=what, is_outputs=is_outputs)
    except AuditError as error:
        refused(say, error)
        return None, None
    if is_outputs:
        remark(say, "deid_measures_given_outputs", notes=f"{found.n_notes:,}")
    else:
        counts = {key: f"{getattr(found, f'n_{key}'):,}" for key in ("notes", "spans", "patients")}
        header = [say.text("deid_measures_label"), say.text("deid_measures_n_spans")]
        rows = [(label, f"{n:,}") for label, n in found.labels[:_MAX_LABELS]]
        caption = say.text("deid_measures_given", **counts)
        draw_table(say, f"deid_given_{side}", Table(header, rows), caption=caption, has_csv=False)
    return Source(kind=OUTPUTS if is_outputs else GIVEN, ref=found.digest), found


def _ask_labels(say: Words, found: list[GivenNotes], *, usual: ScoreTask) -> ScoreTask | None:
    """Ask how labels are mapped; None while a map cannot be read, or the five types lack one."""
    has_five_types = st.checkbox(
        say.text("deid_measures_five_types"), key="deid_measures_five_types", value=True,
        help=say.text("deid_measures_five_types_help"),
    )  # fmt: skip
    file = st.file_uploader(
        say.text("deid_measures_file_map"), type="json", key="deid_measures_file_map",
        max_upload_size=_MAX_MAP_MB,
    )  # fmt: skip
    given: LabelMap | None = None
    try:
        if file is not None:
            note_upload(file, what="labels")
            text, _ = decode_text(file.getvalue(), what="label map")
            given = read_label_map(text, what="label map")
        label_map = dict(given.labels) if given else {}
        task = usual.with_(has_five_types=bool(has_five_types), label_map=label_map)
        foreign = sorted({label for one in found for label, _ in one.labels} - set(TYPES))
        by = task.mapping
        unknown = [label for label in foreign if by is None or by.of(label) is None]
        if unknown and has_five_types:
            raise of_no_type(unknown)
    except AuditError as error:
        refused(say, error)
        return None
    if unknown:
        labels = ", ".join(unknown[:_MAX_LABELS])
        remark(say, "deid_measures_unknown", n=len(unknown), labels=labels)
    return task
