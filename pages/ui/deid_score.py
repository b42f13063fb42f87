"""A new measurement of a de-identifier: gold, prediction and labels, a card for each."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.deid.incoming_notes import MAX_UPLOAD_MB, UploadedNotes
from audit.deid.score_report import (
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
from audit.deid.scoring import LANGUAGES, ScoreTask, unknown_labels_error
from audit.foreign import decode_text
from audit.notes.spans import TYPES, read_label_map
from audit.words import Words
from pages.ui import cached
from pages.ui.access import may_or_say
from pages.ui.blocks import day
from pages.ui.display_names import file_code, file_names, tagger_name
from pages.ui.form import act, ask, ask_line, choose, pick, tick, upload
from pages.ui.section import Table, attempt, card, draw_table, remark

_FILES = (".jsonl", ".ndjson")
GOLD_TYPES = ["jsonl", "zip", "xml", "conll", "bio", "iob", "txt"]
_MAX_LABELS = 40
_USUAL = ScoreTask(
    gold=Source(kind=EXAMPLE, ref=LANGUAGES[0]), predicted=Source(kind=TAGGER, ref="rules")
)
Side = tuple[Source | None, UploadedNotes | None]


def draw_ask(say: Words) -> ScoreTask | None:
    """Draw the cards and the button; return what is asked once it is pressed."""
    if not may_or_say("ran", say):
        return None
    if st.query_params.get("tagged"):  # no example is gold for notes of somebody's own
        st.query_params.setdefault("predicted", TAGGED)
        st.query_params.setdefault("gold", GIVEN)
    sides: dict[str, Side] = {}
    kinds = {"gold": GOLD_KINDS, "predicted": PREDICTED_KINDS}
    for number, side in enumerate(kinds, start=1):
        with card(say, f"deid_measures_step_{side}", number=number) as is_done:
            sides[side] = _ask_side(say, side, kinds[side])
            is_done(sides[side][0] is not None)
    gold, predicted = (source for source, _ in sides.values())
    with card(say, "deid_measures_step_labels", number=3) as is_done:
        usual = _USUAL.with_(gold=gold or _USUAL.gold, predicted=predicted or _USUAL.predicted)
        found = [found for _, found in sides.values() if found]
        task = attempt(say, lambda: _ask_labels(say, found, usual=usual))
        with st.expander(say.text("deid_measures_details"), key="deid_measures_details"):
            fields = ("matcher", "seed")
            how = ask(say, _USUAL, words="deid_measures", fields=fields, key="deid_score")
        is_done(task is not None)
    if gold is None or predicted is None or task is None:
        return None
    title, button = st.columns([3, 1], vertical_alignment="bottom")
    with title:
        how["title"] = ask_line(say, "deid_measures_score_title")
    with button:
        is_asked = act(say, "deid_measures_start", kind="primary", is_wide=True)
    return task.with_(**how) if is_asked else None


def _ask_side(say: Words, side: str, kinds: Sequence[str]) -> Side:
    """Draw where gold notes or predictions come from; (None, None) until it is chosen."""
    kind = choose(say, f"deid_measures_from_{side}", kinds)
    if kind in (GIVEN, OUTPUTS):
        return _ask_upload(say, "outputs" if kind == OUTPUTS else side)
    if kind == EXAMPLE:
        languages = sorted(LANGUAGES, key=lambda one: one != say.language)
        examples = {one: say.text(f"called_example_{one}") for one in languages}
        code = choose(say, "deid_measures_example", examples)
        remark(say, "deid_measures_example_below")
        return Source(kind=EXAMPLE, ref=code), None
    refs: dict[str, str] = {}
    if kind == FILE:
        files = [one for one in cached.note_files() if one.file_id.lower().endswith(_FILES)]
        files = [one for one in files if one.kind == "jsonl"]
        names, refs = file_names(say, tuple(files)), {file_code(x): x.file_id for x in files}
    elif kind == TAGGED:
        names = {
            one.tagged_id: say.text(
                "deid_measures_set_name",
                name=one.title or tagger_name(say, one.tagger_id),
                n=f"{one.n_notes:,}",
                at=day(one.created),
            )
            for one in cached.marked_sets()
        }
    else:
        names = {one.tagger_id: tagger_name(say, one.tagger_id) for one in cached.taggers()}
    if not names:
        remark(say, f"deid_measures_no_{kind}")
        return None, None
    usual = next(iter(names)) if kind == TAGGER or len(names) == 1 else ""
    what = f"{side}_file" if kind == FILE else kind
    code = pick(say, f"deid_measures_box_{kind}", names, what=what, usual=usual)
    if kind == TAGGED:
        remark(say, "deid_measures_set_below")
    return (Source(kind=kind, ref=refs.get(code, code)) if code else None), None


def _ask_upload(say: Words, side: str) -> Side:
    remark(say, f"deid_measures_{side}_file_below")
    is_outputs = side == "outputs"
    files = upload(
        say,
        f"deid_measures_file_{side}",
        ["jsonl"] if is_outputs else GOLD_TYPES,
        most_mb=MAX_UPLOAD_MB,
        what=side,
        name=f"deid_score_file_{side}",
    )
    if not files:
        return None, None
    how = {"what": "gold notes" if side == "gold" else "predicted notes", "is_outputs": is_outputs}
    found = attempt(say, lambda: cached.given(files[0].getvalue(), name=files[0].name, **how))
    if found is None:
        return None, None
    if is_outputs:
        remark(say, "deid_measures_given_outputs", notes=f"{found.n_notes:,}")
    else:
        counts = {key: f"{getattr(found, f'n_{key}'):,}" for key in ("notes", "spans", "patients")}
        header = ("deid_measures_label", "deid_measures_n_spans")
        table = Table(header, found.labels[:_MAX_LABELS])
        draw_table(say, "deid_measures_given", table, of=side, **counts)
    return Source(kind=OUTPUTS if is_outputs else GIVEN, ref=found.digest), found


def _ask_labels(say: Words, found: list[UploadedNotes], *, usual: ScoreTask) -> ScoreTask:
    """Ask how labels are mapped.

    Raises
    ------
    AuditError
        If the map cannot be read, or a label has none of the five types.
    """
    has_five_types = tick(say, "deid_measures_five_types", is_on=True, is_box=True)
    label_map: dict[str, str] = {}
    for file in upload(say, "deid_measures_file_map", ["json"], most_mb=1, what="labels"):
        text, _ = decode_text(file.getvalue(), what="label map")
        label_map = dict(read_label_map(text, subject="label map").labels)
    task = usual.with_(has_five_types=has_five_types, label_map=label_map)
    foreign = sorted({label for one in found for label, _ in one.labels} - set(TYPES))
    unknown = [
        one for one in foreign if task.mapping is None or task.mapping.map_label(one) is None
    ]
    if unknown and has_five_types:
        raise unknown_labels_error(unknown)
    if unknown:
        labels = ", ".join(unknown[:_MAX_LABELS])
        remark(say, "deid_measures_unknown", n=len(unknown), labels=labels)
    return task
