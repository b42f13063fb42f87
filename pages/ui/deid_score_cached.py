"""What the De-identification measures page keeps in memory: scores, their spans, what was given.

Keys hold the data directory, so that another one is another answer.
"""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

import streamlit as st

from audit.deid.cases import SpanCase, read_cases
from audit.deid.given import GivenNotes, keep_given, keep_outputs
from audit.deid.score import SCORES, Score, ScoresCompared, compare_scores
from audit.deid.tagged import TAGGED_SETS, TaggedSet
from audit.deid.taggers import KnownTagger, known_taggers
from audit.home import data_home


def scores() -> tuple[Score, ...]:
    """Return the kept scores, the newest first."""
    folder = SCORES.home()
    return _scores(str(folder), folder.stat().st_mtime_ns)


def cases(score_id: str) -> tuple[SpanCase, ...]:
    """Return what became of a score's spans; raises as `read_cases`."""
    return _cases(str(data_home()), score_id)


def compared(first: str, *, second: str, criterion: str) -> ScoresCompared:
    """Return two scores compared; raises as `compare_scores`."""
    return _compared(str(data_home()), first, second, criterion)


def given(content: bytes, *, name: str, what: str, is_outputs: bool = False) -> GivenNotes:
    """Keep what was uploaded and say what is in it; raises as `keep_given`."""
    digest = hashlib.sha256(content).hexdigest()
    ending = PurePosixPath(name).suffix.lower()
    return _given(str(data_home()), digest, f"notes{ending}", what, is_outputs, _content=content)


def taggers() -> tuple[KnownTagger, ...]:
    """Return the taggers that can be chosen."""
    return _taggers(str(data_home()))


def marked_sets() -> tuple[TaggedSet, ...]:
    """Return the tagged sets that are whole, the newest first."""
    return tuple(one for one in TAGGED_SETS.all() if one.is_whole)


@st.cache_resource(show_spinner=False, max_entries=4)
def _scores(folder: str, mark: int) -> tuple[Score, ...]:
    return SCORES.all()


# All spans in context: of 5,000 notes some hundred megabytes.
@st.cache_resource(show_spinner=False, max_entries=2)
def _cases(home: str, score_id: str) -> tuple[SpanCase, ...]:
    return read_cases(SCORES.get(score_id).path)


@st.cache_resource(show_spinner=False, max_entries=8)
def _compared(home: str, first: str, second: str, criterion: str) -> ScoresCompared:
    return compare_scores(first, second=second, criterion=criterion)


# The bytes are named by their digest: Streamlit is not to hash them again at every rerun.
@st.cache_resource(show_spinner=False, max_entries=8, ttl="1h")
def _given(
    home: str, digest: str, name: str, what: str, is_outputs: bool, *, _content: bytes
) -> GivenNotes:
    if is_outputs:
        return keep_outputs(_content, what=what)
    return keep_given(_content, name=name, what=what)


@st.cache_resource(show_spinner=False, max_entries=4, ttl="10s")
def _taggers(home: str) -> tuple[KnownTagger, ...]:
    return known_taggers()
