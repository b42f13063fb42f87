"""The form of a new measurement of a de-identifier: gold, predictions and labels."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.deid.find.copies import OUTPUTS
from audit.deid.find.tagger_facts import LANGUAGES
from audit.deid.measure.score_report import (
    EXAMPLE,
    FILE,
    GIVEN,
    GOLD_KINDS,
    PREDICTED_KINDS,
    TAGGED,
    TAGGER,
    Source,
    SourceKind,
)
from audit.deid.measure.scoring import ScoreTask, unknown_labels_error
from audit.deid.sets.incoming_notes import MAX_UPLOAD_MB, UploadedNotes
from audit.foreign import decode_text
from audit.notes.spans import TYPES, read_label_map
from audit.words import Words
from pages.ui import cached
from pages.ui.access import may_or_explain
from pages.ui.blocks import format_moment
from pages.ui.display_names import file_code, file_names, tagger_name
from pages.ui.form import ask_fields, ask_line, choose, draw_button, draw_toggle, pick, upload
from pages.ui.section import Table, attempt, draw_remark, draw_step_card, draw_table

_FILES = (".jsonl", ".ndjson")
GOLD_TYPES = ["jsonl", "zip", "xml", "conll", "bio", "iob", "txt"]
_MAX_LABELS = 40
_DEFAULTS = ScoreTask(
    gold=Source(kind=EXAMPLE, ref=LANGUAGES[0]), predicted=Source(kind=TAGGER, ref="rules")
)
Side = tuple[Source | None, UploadedNotes | None]


def draw_ask(say: Words) -> ScoreTask | None:
    """Draw the cards and the button; return the task once the button is pressed."""
    if not may_or_explain("ran", say):
        return None
    if st.query_params.get("tagged"):  # an example is never gold for own notes
        st.query_params.setdefault("predicted", TAGGED)
        st.query_params.setdefault("gold", GIVEN)
    sides: dict[str, Side] = {}
    kinds = {"gold": GOLD_KINDS, "predicted": PREDICTED_KINDS}
    for number, side in enumerate(kinds, start=1):
        with draw_step_card(say, f"deid_measures_step_{side}", number=number) as is_done:
            sides[side] = _ask_side(say, side, kinds[side])
            is_done(sides[side][0] is not None)
    gold, predicted = (source for source, _ in sides.values())
    with draw_step_card(say, "deid_measures_step_labels", number=3) as is_done:
        defaults = _DEFAULTS.with_(
            gold=gold or _DEFAULTS.gold, predicted=predicted or _DEFAULTS.predicted
        )
        given_notes = [side_notes for _, side_notes in sides.values() if side_notes]
        task = attempt(say, lambda: _ask_labels(say, given_notes, defaults=defaults))
        with st.expander(say.text("deid_measures_details"), key="deid_measures_details"):
            fields = ("matcher", "seed")
            options = ask_fields(
                say, _DEFAULTS, words="deid_measures", fields=fields, key="deid_score"
            )
        is_done(task is not None)
    if gold is None or predicted is None or task is None:
        return None
    title, button = st.columns([3, 1], vertical_alignment="bottom")
    with title:
        options["title"] = ask_line(say, "deid_measures_score_title")
    with button:
        is_asked = draw_button(say, "deid_measures_start", kind="primary", is_wide=True)
    return task.with_(**options) if is_asked else None


def _ask_side(say: Words, side: str, kinds: Sequence[SourceKind]) -> Side:
    """Draw the choice of gold notes or predictions; return (None, None) until one is chosen."""
    kind = choose(say, f"deid_measures_from_{side}", kinds)
    if kind in (GIVEN, OUTPUTS):
        return _ask_upload(say, "outputs" if kind == OUTPUTS else side)
    if kind == EXAMPLE:
        languages = sorted(LANGUAGES, key=lambda code: code != say.language)
        examples = {code: say.text(f"called_example_{code}") for code in languages}
        code = choose(say, "deid_measures_example", examples)
        return Source(kind=EXAMPLE, ref=code), None
    refs: dict[str, str] = {}
    if kind == FILE:
        files = [file for file in cached.note_files() if file.file_id.lower().endswith(_FILES)]
        files = [file for file in files if file.kind == "jsonl"]
        names, refs = file_names(say, tuple(files)), {file_code(x): x.file_id for x in files}
    elif kind == TAGGED:
        names = {
            tagged.tagged_id: say.text(
                "deid_measures_set_name",
                name=tagged.title or tagger_name(say, tagged.tagger_id),
                n=f"{tagged.n_notes:,}",
                at=format_moment(tagged.created),
            )
            for tagged in cached.whole_sets()
        }
    else:
        names = {
            tagger.tagger_id: tagger_name(say, tagger.tagger_id) for tagger in cached.taggers()
        }
    if not names:
        draw_remark(say, f"deid_measures_no_{kind}")
        return None, None
    default = next(iter(names)) if kind == TAGGER or len(names) == 1 else ""
    parameter = f"{side}_file" if kind == FILE else kind
    ref = pick(say, f"deid_measures_box_{kind}", names, parameter=parameter, default=default)
    return (Source(kind=kind, ref=refs.get(ref, ref)) if ref else None), None


def _ask_upload(say: Words, side: str) -> Side:
    is_outputs = side == "outputs"
    files = upload(
        say,
        f"deid_measures_file_{side}",
        ["jsonl"] if is_outputs else GOLD_TYPES,
        max_mb=MAX_UPLOAD_MB,
        file_kind=side,
        name=f"deid_score_file_{side}",
    )
    if not files:
        return None, None
    notes = attempt(
        say,
        lambda: cached.read_upload(
            files[0].getvalue(),
            name=files[0].name,
            description="gold notes" if side == "gold" else "predicted notes",
            is_outputs=is_outputs,
        ),
    )
    if notes is None:
        return None, None
    if is_outputs:
        draw_remark(say, "deid_measures_given_outputs", notes=f"{notes.n_notes:,}")
    else:
        counts = {key: f"{getattr(notes, f'n_{key}'):,}" for key in ("notes", "spans", "patients")}
        header = ("deid_measures_label", "deid_measures_n_spans")
        table = Table(header, notes.labels[:_MAX_LABELS])
        draw_table(say, "deid_measures_given", table, variant=side, **counts)
    return Source(kind=OUTPUTS if is_outputs else GIVEN, ref=notes.digest), notes


def _ask_labels(say: Words, given_notes: list[UploadedNotes], *, defaults: ScoreTask) -> ScoreTask:
    """Draw how labels are mapped, and return the task with the map.

    Raises
    ------
    AuditError
        If the map cannot be read, or a label has none of the five types.
    """
    has_five_types = draw_toggle(say, "deid_measures_five_types", is_on=True, is_box=True)
    label_map: dict[str, str] = {}
    for file in upload(say, "deid_measures_file_map", ["json"], max_mb=1, file_kind="labels"):
        text, _ = decode_text(file.getvalue(), subject="label map")
        label_map = dict(read_label_map(text, subject="label map").labels)
    task = defaults.with_(has_five_types=has_five_types, label_map=label_map)
    foreign = sorted({label for notes in given_notes for label, _ in notes.labels} - set(TYPES))
    unknown = [
        label for label in foreign if task.mapping is None or task.mapping.map_label(label) is None
    ]
    if unknown and has_five_types:
        raise unknown_labels_error(unknown)
    if unknown:
        labels = ", ".join(unknown[:_MAX_LABELS])
        draw_remark(say, "deid_measures_unknown", n=len(unknown), labels=labels)
    return task
