"""Jobs that tag notes, on the page that asked: started, followed, and what came of them."""

from __future__ import annotations

import streamlit as st

from audit.deid.release import Release
from audit.deid.tagged import TAGGED_SETS
from audit.deid.taggers import KnownTagger
from audit.deid.tasks import NotesToTag, TaggingTask, tagging_task
from pages.ui import blocks
from pages.ui.followed_jobs import FollowedJobs
from pages.ui.language import Words


def start(notes: NotesToTag, *, tagger: KnownTagger, how: Release, title: str = "") -> None:
    """Ask for notes to be tagged and follow the job; a set that is there already is shown.

    Raises
    ------
    AuditError
        If the notes cannot be read, or as `service.ask`.
    """
    task = tagging_task(notes, tagger=tagger, how=how, title=title)
    if TAGGED_SETS.get(task.tagged_id).is_whole:
        show(task.tagged_id)
    else:
        JOBS.start(task.question())


def show(tagged_id: str) -> None:
    """Let the page show a kept set from its next run on."""
    for field in ("view", "note"):
        st.query_params.pop(field, None)
    st.query_params["tagged"] = tagged_id


def _done(say: Words, tagged_id: str) -> None:
    show(tagged_id)
    st.html(blocks.heading(say.text("deidentify_done"), below=say.text("deidentify_done_below")))


JOBS = FollowedJobs(
    kind=TaggingTask.job, page="deidentify", see="deidentify_see_job", on_done=_done
)
