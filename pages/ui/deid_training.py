"""The form that trains the default tagger further on own annotated notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from audit.deid.find.taggers import DEFAULT
from audit.deid.learn.tagger_task import FROM_TAGGER, TaggerTask, make_token_settings
from audit.deid.sets.incoming_notes import MAX_UPLOAD_MB, UploadedNotes, upload_path
from audit.notes.spans import FIVE_TYPES, TYPES, fold_label
from audit.words import Words
from pages.ui import cached
from pages.ui.access import may_or_explain
from pages.ui.deid_score import GOLD_TYPES
from pages.ui.display_names import label_name
from pages.ui.form import ask_line, draw_button, upload
from pages.ui.running import FollowedJobs
from pages.ui.section import Table, attempt, draw_heading, draw_remark, draw_table
from pages.ui.state import draw_link

LEFT_OUT = "left_out"
"""Choice for a label whose spans are left out."""
_MAX_LABELS = 40


def draw(say: Words) -> None:
    """Draw the running trainings, and the form of a new one."""
    JOBS.draw(say)
    if not may_or_explain("ran", say):
        return
    draw_heading(say, "deid_train_new")
    notes = _ask_notes(say)
    if notes is None:
        return
    chosen = _ask_labels(say, notes)
    title = ask_line(say, "deid_train_title")
    if None in chosen.values():
        draw_remark(say, "deid_train_labels_missing")
    elif draw_button(say, "deid_train_start", kind="primary", icon="play_arrow"):
        label_map = {label: name or "" for label, name in chosen.items()}
        attempt(say, lambda: _start(notes, label_map=label_map, title=title))


def _start(notes: UploadedNotes, *, label_map: Mapping[str, str], title: str) -> None:
    task = TaggerTask(
        settings=make_token_settings({}, defaults=FROM_TAGGER),
        base=DEFAULT,
        gold=(upload_path(notes.digest),),
        label_map=dict(label_map),
        title=" ".join(title.split()),
    )
    JOBS.start(task.question(), n_notes=notes.n_notes)
    st.rerun()


def _ask_notes(say: Words) -> UploadedNotes | None:
    """Draw the upload of annotated notes, and their counts."""
    files = upload(say, "deid_train_file", GOLD_TYPES, max_mb=MAX_UPLOAD_MB, file_kind="gold")
    if not files:
        return None
    name, content = files[0].name, files[0].getvalue()
    notes = attempt(
        say, lambda: cached.read_upload(content, name=name, description="annotated notes")
    )
    if notes is not None:
        counts = {key: f"{getattr(notes, f'n_{key}'):,}" for key in ("notes", "spans", "patients")}
        table = Table(("deid_measures_label", "deid_measures_n_spans"), notes.labels[:_MAX_LABELS])
        draw_table(say, "deid_train_given", table, **counts)
    return notes


def _ask_labels(say: Words, notes: UploadedNotes) -> dict[str, str | None]:
    """Draw a choice for each unknown label: a type, "" to leave it out, None until chosen."""
    unknown = {label: n for label, n in notes.labels if FIVE_TYPES.map_label(label) is None}
    if unknown:
        draw_heading(say, "deid_train_labels")
    return {fold_label(label): _ask_label(say, label, n_spans=n) for label, n in unknown.items()}


def _ask_label(say: Words, label: str, *, n_spans: int) -> str | None:
    # The label is untrusted text: it stands above the list, escaped, and not in its name.
    draw_remark(say, "deid_train_label", n=f"{n_spans:,}", label=label)
    options: Sequence[str] = (*TYPES, LEFT_OUT)
    code = st.selectbox(
        say.text("deid_train_label_type"),
        options,
        index=None,
        format_func=lambda code: (
            say.text("deid_train_left_out") if code == LEFT_OUT else label_name(say, code)
        ),
        key=f"deid_train_label_{fold_label(label)}",
        placeholder=say.text("pick_none"),
        label_visibility="collapsed",
    )
    return "" if code == LEFT_OUT else code


def _show_result(say: Words, tagger_id: str) -> None:
    draw_heading(say, "deid_train_done")
    label = say.text("deid_train_use")
    draw_link(
        "deidentify", label=label, icon=":material/arrow_forward:", tab="paste", tagger=tagger_id
    )


JOBS = FollowedJobs(kind=TaggerTask.job, page="deid_train", on_done=_show_result)
