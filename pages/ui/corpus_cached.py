"""What the server keeps in memory of notes and corpora, by place and age of the files."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from audit.corpus.examine import Examination, read_examination
from audit.corpus.kept import KeptCorpus
from audit.corpus.preview import Survey, survey_head
from audit.corpus.register import MentionFinder, read_register
from audit.corpus.truth import EXAMINATION
from audit.errors import AuditError
from audit.foreign import file_bytes
from audit.home import data_home
from audit.notes.read import VARIABLE, NoteFile, NoteSource, columns_of, list_note_files

Columns = tuple[tuple[str, str], ...]
"""(field of a note, name of its column), where a person said so."""


def files() -> tuple[NoteFile, ...]:
    """Return the files of notes; a folder that has changed is seen within seconds."""
    return _files(str(data_home()), os.environ.get(VARIABLE, ""))


def columns(file: NoteFile) -> NoteSource:
    """Return a file's columns; raises as `columns_of`."""
    return _columns(str(file.path), _mark(file.path))


def survey(file: NoteFile, *, columns: Columns) -> Survey:
    """Return what stands in a file's first notes; raises as `survey_head`."""
    return _survey(str(file.path), _mark(file.path), columns)


def finder(register: NoteFile) -> MentionFinder:
    """Return the finder of a register's patients; raises as `read_register`."""
    return _finder(str(register.path), _mark(register.path))


def examination(corpus: KeptCorpus) -> Examination:
    """Return a corpus's examination; raises as `read_examination`."""
    return _examination(str(corpus.path), _mark(corpus.path / EXAMINATION))


def _mark(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there any more.", where="notes") from None
    return f"{found.st_mtime_ns} {found.st_size}"


@st.cache_resource(show_spinner=False, ttl="10s", max_entries=4)
def _files(home: str, folders: str) -> tuple[NoteFile, ...]:
    return list_note_files()


@st.cache_resource(show_spinner=False, max_entries=32)
def _columns(path: str, mark: str) -> NoteSource:
    return columns_of(Path(path))


@st.cache_resource(show_spinner=False, max_entries=4)
def _survey(path: str, mark: str, columns: Columns) -> Survey:
    return survey_head(Path(path), columns=dict(columns))


@st.cache_resource(show_spinner=False, max_entries=4)
def _finder(path: str, mark: str) -> MentionFinder:
    return MentionFinder(read_register(file_bytes(Path(path))))


@st.cache_resource(show_spinner=False, max_entries=8)
def _examination(path: str, mark: str) -> Examination:
    return read_examination(Path(path))
