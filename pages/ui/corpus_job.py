"""Jobs that build corpora, on the page that asked: started, followed, and what came of them."""

from __future__ import annotations

import streamlit as st

from audit.corpus.make import CorpusTask
from pages.ui import blocks, corpus_choice
from pages.ui.followed_jobs import FollowedJobs
from pages.ui.language import Words


def start(order: CorpusTask) -> None:
    """Ask for a corpus and follow its job; raises `AuditError` as `service.ask`."""
    JOBS.start(order.question(), seed=order.seed)


def show(say: Words, corpus_id: str) -> None:
    """Say that a corpus is built, and show it."""
    corpus_choice.show_corpus(corpus_id)
    st.html(blocks.heading(say.text("corpus_built"), below=say.text("corpus_built_below")))


JOBS = FollowedJobs(kind=CorpusTask.job, page="corpus", see="corpus_see_job", on_done=show)
