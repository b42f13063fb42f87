"""What the server keeps in memory between reruns: the only cache of the app.

An answer is named by what it is of (digests, codes) and by the state of the files that it was read
from, never by a table: Streamlit hashes only a sample of a long one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path, PurePosixPath
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from audit.access_log import LogEntry, Verification, entries, log_mark, verify
from audit.attack import plan
from audit.attack.question import AuditRequest
from audit.corpus.corpora import KeptCorpus
from audit.corpus.examine import Examination, read_examination
from audit.corpus.identified import RegisterFinder
from audit.corpus.preview import Survey, survey_head
from audit.corpus.truth import EXAMINATION
from audit.deid.incoming_notes import UploadedNotes, keep_outputs, keep_upload
from audit.deid.leftovers import LEFTOVERS, read_leftovers
from audit.deid.name_places import NameFinder
from audit.deid.score_report import (
    SCORES,
    Score,
    SpanCase,
    compare_all,
    compare_scores,
    read_cases,
)
from audit.deid.tagged_sets import (
    CORRECTIONS,
    TAGGED_SETS,
    TaggedSet,
    correct_census,
    corrections_digest,
    corrections_of,
    read_index,
    search_notes,
)
from audit.deid.taggers import list_taggers
from audit.errors import AuditError
from audit.home import results_dir
from audit.models import registry
from audit.models.inspect import list_trained_models
from audit.names import lists
from audit.names.candidates import ControlSource
from audit.names.facts import Spelling, spelling
from audit.notes import read
from audit.notes.passages import normalize_passages, read_passages
from audit.notes.read import NoteFile, NoteSource, inspect_notes, list_note_files
from audit.patients.register import read_register
from audit.progress import ProgressListener
from audit.report.compare import MAX_REFERENCES, Comparison, compare_audits
from audit.report.documents import DocumentView, listed_names, make_document_view
from audit.report.name_table import mask_name
from audit.report.report import (
    AuditReport,
    Inspection,
    KeptAudit,
    find_reference_audits,
    kept_audit,
    read_demo_digests,
    read_inspection,
)
from audit.report.threshold import RocView, make_roc_view, rank_names
from audit.run import AuditInputs, find_inputs
from audit.text import written_name
from audit.training.trainings import NotesLoad, measure_notes
from cache.store import Store

P = ParamSpec("P")
R = TypeVar("R")


def _kept(
    n: int, *, of: Callable[..., object] | None = None, ttl: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep a function's last `n` answers, by data directory and by what `of` its arguments says.

    Without `of` the answer is named by its arguments, as `_name` has each.
    """

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        def answer(home: str, name: str, _make: Callable[[], R]) -> R:
            return _make()

        answer.__qualname__ = make.__qualname__  # by which Streamlit tells its caches apart
        kept = st.cache_resource(show_spinner=False, max_entries=n, ttl=ttl)(answer)

        @wraps(make)
        def asked(*args: P.args, **options: P.kwargs) -> R:
            named = [*map(_name, args), *((key, _name(one)) for key, one in options.items())]
            name = of(*args, **options) if of else named
            return kept(str(results_dir()), repr(name), partial(make, *args, **options))

        return asked

    return decorate


def _name(value: object) -> object:
    """What an argument's answer is named by: the digest of bytes, the state of files."""
    match value:
        case bytes():
            return hashlib.sha256(value).hexdigest()
        case Path():
            return value, registry.read_signature(value)
        case NoteFile():
            return value.path, _state(value.path)
        case AuditReport():
            return value.digest
        case KeptCorpus():
            return value.path, _state(value.path / EXAMINATION)
        case TaggedSet():
            return value.tagged_id, value.created
        case lists.KeptNames():
            return value.digest
        case lists.KeptPassages():
            return _name(value.data)
    return value


def _state(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there any more.", where="notes") from None
    return f"{found.st_mtime_ns} {found.st_size}"


# Audits, by their digests.


@_kept(4)
def store() -> Store:
    """Return the store of results; raises as `kept_audits`."""
    return Store(results_dir())


def kept_audits() -> tuple[tuple[KeptAudit, ...], int]:
    """Return the kept audits, own ones first, the newest first, and how many cannot be read.

    Raises
    ------
    AuditError
        If the data directory cannot be used.
    """
    digests = [key.removeprefix("audit/") for key in store().keys("audit/")]
    of_demo, found = set(read_demo_digests(store()).values()), []
    for digest in digests:
        with suppress(AuditError):  # not remembered: running it again makes it readable
            line = _line(digest)
            found.append(replace(line, is_demo=line.is_demo or digest in of_demo))
    found.sort(key=lambda line: (not line.is_demo, line.at, line.digest), reverse=True)
    return tuple(found), len(digests) - len(found)


@_kept(2000)
def _line(digest: str) -> KeptAudit:
    return kept_audit(_report(digest))


def _report(digest: str) -> AuditReport:
    record = store().get_record(f"audit/{digest}")
    if record is None:
        raise AuditError("This result is damaged.", do="Run the audit again.")
    return AuditReport.from_json(record)


report = _kept(16)(_report)  # one beside its references and the other scenario


def _behind(digest: str) -> object:
    # What lies behind an audit and is not there yet can come, by running the audit again.
    return digest, *(store().keys(f"{what}/{digest}") for what in ("inspection", "documents"))


@_kept(4, of=_behind)
def inspection(digest: str) -> Inspection | None:
    """Return what lies behind an audit's scores; None where it is not kept."""
    return read_inspection(digest, store=store())


@_kept(4, of=_behind)
def documents(digest: str) -> dict[str, tuple[str, ...]]:
    """Return an audit's generated documents by model; empty in scenario 2."""
    found = store().get_record(f"documents/{digest}") or {}
    return {who: tuple(texts) for who, texts in found.items()}


@_kept(8)
def name_finder(digest: str) -> NameFinder:
    """Return what finds the names that a screen masks: all of an audit's list, and others."""
    return NameFinder(listed_names(report(digest).table))


@_kept(4)
def list_finder(view: lists.KeptNames | None) -> NameFinder:
    """Return the same of a list that is being chosen; None: names of no list."""
    return NameFinder(view.candidates if view else None)


@_kept(4, of=_behind)
def marked_documents(digest: str) -> DocumentView | None:
    """Return an audit's documents with the listed names found in them; None in scenario 2."""
    return make_document_view(documents(digest), report=report(digest), names=name_finder(digest))


@_kept(20, of=lambda digest, **how: (log_mark(), digest, how))
def access_log(
    digest: str, *, limit: int, without: tuple[str, ...]
) -> tuple[tuple[LogEntry, ...], Verification]:
    """Return an audit's newest lines in the access log, and whether the whole log fits.

    Lines of the actions `without` are left out; raises AuditError if it cannot be read.
    """
    return entries(limit, audit=digest[:12], without=without), verify()


@_kept(8)
def shown_names(digest: str, *, is_revealed: bool) -> tuple[str, ...]:
    """Return an audit's names as the screen shows them, in the order of the list; not escaped."""
    table = report(digest).table
    shown = written_name if is_revealed else mask_name
    return tuple(map(shown, table["first_name"], table["last_name"]))


ranked = _kept(64)(rank_names)
comparison = _kept(16)(compare_audits)


@_kept(64)
def roc(of: AuditReport, *, score: str, stratum: str) -> RocView:
    """Return the ROC of one score; raises as `ranked_names`."""
    return make_roc_view(ranked(of, score=score, stratum=stratum))


def references(of: AuditReport, *, kept: tuple[KeptAudit, ...]) -> tuple[list[Comparison], int]:
    """Return an audit beside the newest that differ in the reference alone, and how many are left.

    `kept` are all kept audits, the newest first; raises as `kept_audits`.
    """
    own = next((line for line in kept if line.digest == of.digest), None)
    others = find_reference_audits(own, audits=kept) if own else ()
    found = [comparison(of, other=report(one.digest)) for one in others[:MAX_REFERENCES]]
    return found, len(others[MAX_REFERENCES:])


# Models, lists and plans that are being chosen. A folder that has changed is seen within seconds.


models = _kept(
    4, ttl="10s", of=lambda: (os.environ.get(registry.VARIABLE, ""), list(list_trained_models()))
)(registry.list_model_choices)
check = _kept(32)(registry.check_pair)


@_kept(8)
def names(code: str) -> lists.KeptNames:
    """Return a kept list; raises as `audit.names.lists.load_names`."""
    return lists.load_names(code, store=store())


@_kept(4)
def passages(code: str) -> lists.KeptPassages:
    """Return kept passages; raises as `audit.names.lists.load_passages`."""
    return lists.load_passages(code, store=store())


def new_names(
    data: bytes | None,
    *,
    base: str,
    own: bytes | None,
    wanted: Mapping[str, int],
    model: Path | None,
    progress: ProgressListener,
) -> lists.KeptNames | None:
    """Return the list that this session is making, from a file or the kept list `base`.

    Raises as `audit.names.lists.make_draft`. Who draws the progress cannot be within what Streamlit
    keeps: the session does.
    """
    key = repr((_name(data), base, _name(own), wanted, _name(model)))
    made: tuple[str, lists.KeptNames | None] = st.session_state.get("draft_of_names", ("", None))
    if made[0] != key:
        known = names(base).candidates if base else None
        draft = lists.make_draft(
            data, base=known, own_controls=own, n_by_kind=wanted, model=model, progress=progress
        )
        st.session_state["draft_of_names"] = made = key, draft
    return made[1]


@_kept(4)
def stated_names(view: lists.KeptNames, *, source: ControlSource) -> lists.KeptNames:
    """Return a list that says where its controls come from, not kept yet."""
    line = lists.Line("", view.line.label, "", view.line.n, source)
    return replace(view, candidates=view.candidates.with_source(source), line=line)


@_kept(4)
def new_passages(data: bytes, *, file_name: str, placeholder: str = "") -> lists.KeptPassages:
    """Return an uploaded file's passages, not kept yet; raises as `read_passages`."""
    plain, name = normalize_passages(data, file_name=file_name, placeholder=placeholder)
    found = read_passages(plain, file_name=name)
    return lists.KeptPassages(lists.Line("", "", "", len(found)), found, plain, name)


@_kept(16)
def spelt(view: lists.KeptNames, *, model: Path) -> Spelling:
    """Return how a model's tokenizer spells a list; raises as `audit.names.facts.spelling`."""
    return spelling(view.candidates, model=model)


def _planned(
    asked: AuditRequest, *, names: lists.KeptNames, passages: lists.KeptPassages | None
) -> object:
    settings = (
        asked.scenario_number,
        asked.settings,
        asked.seed,
        asked.dtype,
        asked.device,
        asked.sibling,
    )
    return [*map(_name, (names, passages, asked.general, asked.hospital)), *settings]


@_kept(32, of=_planned)
def make_plan(
    request: AuditRequest, *, names: lists.KeptNames, passages: lists.KeptPassages | None
) -> plan.Plan:
    """Return the plan of a request about a list and passages, be they kept or still being made.

    Raises
    ------
    AuditError
        As `audit.attack.plan.make_plan`, or if the data directory cannot be used.
    """
    file_name = passages.file_name if passages else "passages.jsonl"
    return plan.make_plan(request, passages_file=file_name)


@_kept(
    4, of=lambda digest: (digest, *map(store().keys, ("list-line/", "passages-line/")), models())
)
def asked_again(digest: str) -> AuditInputs:
    """Return what a kept audit was asked about, as far as it is here; raises as `kept_audits`."""
    return find_inputs(report(digest), models=models(), store=store())


# Notes, corpora and trainings, by place and state of their files.

Columns = tuple[tuple[str, str], ...]
"""(field of a note, name of its column), where a person said so."""
TEXTS = {"private": "private.jsonl", "public": "public.jsonl", "other_names": "private.jsonl"}
"""Which file of a corpus says how much text a source has: notes with other names are as long."""
note_files = _kept(4, ttl="10s", of=lambda: os.environ.get(read.VARIABLE, ""))(list_note_files)


@_kept(32)
def note_columns(file: NoteFile) -> NoteSource:
    """Return a file's columns; raises as `inspect_notes`."""
    return inspect_notes(file.path)


@_kept(4)
def survey(file: NoteFile, *, columns: Columns) -> Survey:
    """Return what stands in a file's first notes; raises as `survey_head`."""
    return survey_head(file.path, columns=dict(columns))


@_kept(4)
def finder(register: NoteFile) -> RegisterFinder:
    """Return a register ready to be looked for in notes; raises as `read_register`."""
    return RegisterFinder.from_register(read_register(register.path))


@_kept(8)
def examination(corpus: KeptCorpus) -> Examination:
    """Return a corpus's examination; raises as `read_examination`."""
    return read_examination(corpus.path)


@_kept(
    32,
    of=lambda corpus, *, source, model: (
        corpus.path,
        source,
        _state(corpus.path / TEXTS[source]),
        _name(model),
    ),
)
def text_load(corpus: KeptCorpus, *, source: str, model: Path) -> NotesLoad:
    """Return how many tokens a corpus has for a model; raises as `notes_load`."""
    return measure_notes(corpus.path / TEXTS[source], n_notes=corpus.n_notes, model=model)


# Tagged notes and scores, by their identifiers; what was given, by the digest of its bytes.


def _corrected(tagged: TaggedSet) -> object:
    path = tagged.path / CORRECTIONS
    return _name(tagged), _state(path) if path.exists() else "", tagged.census


taggers = _kept(4, ttl="10s")(list_taggers)
note_index = _kept(8)(read_index)
hits = _kept(16)(search_notes)
corrections = _kept(4, of=_corrected)(corrections_of)
corrections_state = _kept(4, of=_corrected)(corrections_digest)
compared = _kept(8)(compare_scores)
all_compared = _kept(8)(compare_all)


def marked_sets() -> tuple[TaggedSet, ...]:
    """Return the tagged sets that are whole, the newest first."""
    return tuple(one for one in TAGGED_SETS.all() if one.is_whole)


@_kept(8, of=_corrected)
def census(tagged: TaggedSet) -> dict[str, Any]:
    """Return the counts of a whole set, corrected by hand; raises as `correct_census`."""
    return correct_census(tagged, index=note_index(tagged), corrections=corrections(tagged))


def _looked_over(tagged: TaggedSet) -> object:
    path = tagged.path / LEFTOVERS
    return _name(tagged), _state(path) if path.exists() else ""


leftovers = _kept(4, of=_looked_over)(read_leftovers)


@_kept(4, of=lambda: SCORES.home().stat().st_mtime_ns)
def scores() -> tuple[Score, ...]:
    """Return the kept scores, the newest first."""
    return SCORES.all()


# All spans in context: of 5,000 notes some hundred megabytes.
@_kept(2)
def cases(score_id: str) -> tuple[SpanCase, ...]:
    """Return what became of a score's spans; raises as `read_cases`."""
    return read_cases(SCORES.get(score_id).path)


@_kept(8, ttl="1h")
def given(content: bytes, *, name: str, what: str, is_outputs: bool = False) -> UploadedNotes:
    """Keep what was uploaded and say what is in it; raises as `keep_upload`."""
    if is_outputs:
        return keep_outputs(content, subject=what)
    return keep_upload(content, name=f"notes{PurePosixPath(name).suffix.lower()}", subject=what)
