"""The only cache of the app: what the server keeps in memory between reruns.

The key of an answer consists of digests, codes and the states of the files that were read. It never
holds a table, because Streamlit hashes only a sample of a long table.
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
from audit.deid.find.taggers import list_taggers
from audit.deid.measure.leftovers import LEFTOVERS, read_leftovers
from audit.deid.measure.score_report import (
    SCORES,
    Score,
    SpanCase,
    compare_all,
    compare_scores,
    read_cases,
)
from audit.deid.redact.name_places import NameFinder
from audit.deid.sets.incoming_notes import UploadedNotes, keep_outputs, keep_upload
from audit.deid.sets.tagged_sets import (
    CORRECTIONS,
    TAGGED_SETS,
    TaggedSet,
    correct_census,
    corrections_digest,
    corrections_of,
    read_index,
    search_notes,
)
from audit.errors import AuditError
from audit.home import results_dir
from audit.models import convert, registry
from audit.models.model_folder import list_converted_models, list_trained_models
from audit.names import lists
from audit.names.candidates import ControlSource
from audit.names.facts import Spelling, spelling
from audit.notes import read
from audit.notes.passages import normalize_passages, read_passages
from audit.notes.read import NoteFile, NoteSource, inspect_notes, list_note_files
from audit.patients.register import read_register
from audit.progress import ProgressListener
from audit.report import audit_store
from audit.report.compare import MAX_REFERENCES, Comparison, compare_audits
from audit.report.documents import DocumentView, listed_names, make_document_view
from audit.report.name_table import mask_name
from audit.report.report import (
    AuditReport,
    Inspection,
    KeptAudit,
    find_reference_audits,
    kept_audit,
)
from audit.report.threshold import RocView, make_roc_view, rank_names
from audit.run import AuditInputs, find_inputs
from audit.text import written_name
from audit.training.trainings import NotesLoad, measure_notes
from cache.store import Store

P = ParamSpec("P")
R = TypeVar("R")


def _cache_answers(
    n: int, *, name_answer: Callable[..., object] | None = None, ttl: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache a function's last `n` answers by data directory and by `name_answer` of its arguments.

    Without `name_answer` the key consists of the arguments as `_name_argument` returns them.
    """

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        def answer(home: str, name: str, _make: Callable[[], R]) -> R:
            return _make()

        answer.__qualname__ = make.__qualname__  # Streamlit distinguishes its caches by it
        cached_answer = st.cache_resource(show_spinner=False, max_entries=n, ttl=ttl)(answer)

        @wraps(make)
        def look_up(*args: P.args, **options: P.kwargs) -> R:
            argument_names = [
                *map(_name_argument, args),
                *((key, _name_argument(argument)) for key, argument in options.items()),
            ]
            name = name_answer(*args, **options) if name_answer else argument_names
            return cached_answer(str(results_dir()), repr(name), partial(make, *args, **options))

        return look_up

    return decorate


def _name_argument(argument: object) -> object:
    """Return the part of a key for an argument: the digest of bytes, the state of files."""
    match argument:
        case bytes():
            return hashlib.sha256(argument).hexdigest()
        case Path():
            return argument, registry.read_signature(argument)
        case NoteFile():
            return argument.path, _file_state(argument.path)
        case AuditReport():
            return argument.digest
        case KeptCorpus():
            return argument.path, _file_state(argument.path / EXAMINATION)
        case TaggedSet():
            return argument.tagged_id, argument.created
        case lists.KeptNames():
            return argument.digest
        case lists.KeptPassages():
            return _name_argument(argument.data)
    return argument


def _file_state(path: Path) -> str:
    try:
        file_status = path.stat()
    except OSError:
        raise AuditError("The file is not there any more.", where="notes") from None
    return f"{file_status.st_mtime_ns} {file_status.st_size}"


# Audits, by their digests.


@_cache_answers(4)
def store() -> Store:
    """Return the store of results; raises as `kept_audits`."""
    return Store(results_dir())


def kept_audits() -> tuple[tuple[KeptAudit, ...], int]:
    """Return the kept audits (own ones first, each group newest first) and the number unreadable.

    Raises
    ------
    AuditError
        If the data directory cannot be used.
    """
    digests = audit_store.list_digests(store())
    demo_codes, lines = set(audit_store.read_demo_digests(store()).values()), []
    for digest in digests:
        with suppress(AuditError):  # not remembered: running it again makes it readable
            line = _audit_line(digest)
            lines.append(replace(line, is_demo=line.is_demo or digest in demo_codes))
    lines.sort(key=lambda line: (not line.is_demo, line.at, line.digest), reverse=True)
    return tuple(lines), len(digests) - len(lines)


def has_audit() -> bool:
    """Return whether an audit is kept that can be read; raises as `kept_audits`."""
    return bool(kept_audits()[0])


@_cache_answers(2000)
def _audit_line(digest: str) -> KeptAudit:
    return kept_audit(_report(digest))


def _report(digest: str) -> AuditReport:
    return audit_store.read_report(digest, store=store())


report = _cache_answers(16)(_report)  # one beside its references and the other scenario


def _name_by_records(digest: str) -> object:
    # A missing inspection or document record can appear when the audit runs again.
    return digest, audit_store.list_evidence(digest, store=store())


@_cache_answers(4, name_answer=_name_by_records)
def inspection(digest: str) -> Inspection | None:
    """Return the evidence behind an audit's scores, or None if it is not kept."""
    return audit_store.read_inspection(digest, store=store())


@_cache_answers(4, name_answer=_name_by_records)
def documents(digest: str) -> dict[str, tuple[str, ...]]:
    """Return an audit's generated documents by model; empty in scenario 2."""
    return audit_store.read_documents(digest, store=store())


@_cache_answers(8)
def name_finder(digest: str) -> NameFinder:
    """Return the finder of the names that a screen masks: those of an audit's list, and others."""
    return NameFinder(listed_names(report(digest).table))


@_cache_answers(4)
def list_finder(view: lists.KeptNames | None) -> NameFinder:
    """Return the finder for a list that is being chosen; None means no list."""
    return NameFinder(view.candidates if view else None)


@_cache_answers(4, name_answer=_name_by_records)
def marked_documents(digest: str) -> DocumentView | None:
    """Return an audit's documents with marks at listed names; None in scenario 2."""
    return make_document_view(documents(digest), report=report(digest), names=name_finder(digest))


@_cache_answers(20, name_answer=lambda digest, **how: (log_mark(), digest, how))
def access_log(
    digest: str, *, limit: int, without: tuple[str, ...]
) -> tuple[tuple[LogEntry, ...], Verification]:
    """Return an audit's newest lines of the access log, and whether the whole log is intact.

    Lines of the actions `without` are left out. Raises AuditError if the log cannot be read.
    """
    return entries(limit, audit=digest[:12], without=without), verify()


@_cache_answers(8)
def format_names(digest: str, *, is_revealed: bool) -> tuple[str, ...]:
    """Return an audit's names as the screen shows them, in the order of the list; not escaped."""
    table = report(digest).table
    format_name = written_name if is_revealed else mask_name
    return tuple(map(format_name, table["first_name"], table["last_name"]))


ranking = _cache_answers(64)(rank_names)
comparison = _cache_answers(16)(compare_audits)


@_cache_answers(64)
def roc(audit_report: AuditReport, *, score: str, stratum: str) -> RocView:
    """Return the ROC of one score; raises as `rank_names`."""
    return make_roc_view(ranking(audit_report, score=score, stratum=stratum))


def references(
    audit_report: AuditReport, *, audits: tuple[KeptAudit, ...]
) -> tuple[list[Comparison], int]:
    """Compare an audit with the newest that differ only in the reference; also count the rest.

    `audits` are all kept audits, the newest first; raises as `kept_audits`.
    """
    audit = next((line for line in audits if line.digest == audit_report.digest), None)
    reference_audits = find_reference_audits(audit, audits=audits) if audit else ()
    comparisons = [
        comparison(audit_report, other_report=report(reference.digest))
        for reference in reference_audits[:MAX_REFERENCES]
    ]
    return comparisons, len(reference_audits[MAX_REFERENCES:])


# Models, lists and plans that are being chosen. Changes of a folder appear within seconds.


models = _cache_answers(
    4,
    ttl="10s",
    name_answer=lambda: (
        os.environ.get(registry.VARIABLE, ""),
        list(list_trained_models()),
        list(list_converted_models()),
    ),
)(registry.list_model_choices)
find_need = _cache_answers(64)(convert.find_need)
check_pair = _cache_answers(32)(registry.check_pair)


@_cache_answers(8)
def names(code: str) -> lists.KeptNames:
    """Return a kept list; raises as `audit.names.lists.load_names`."""
    return lists.load_names(code, store=store())


@_cache_answers(4)
def passages(code: str) -> lists.KeptPassages:
    """Return kept passages; raises as `audit.names.lists.load_passages`."""
    return lists.load_passages(code, store=store())


def new_names(
    file_bytes: bytes | None,
    *,
    base: str,
    control_bytes: bytes | None,
    kind_sizes: Mapping[str, int],
    model: Path | None,
    progress: ProgressListener,
) -> lists.KeptNames | None:
    """Return the list that this session is making, from a file or the kept list `base`.

    Raises as `audit.names.lists.make_draft`. The session keeps the draft, because a function in
    Streamlit's cache cannot draw the progress.
    """
    key = repr(
        (
            _name_argument(file_bytes),
            base,
            _name_argument(control_bytes),
            kind_sizes,
            _name_argument(model),
        )
    )
    draft_entry: tuple[str, lists.KeptNames | None] = st.session_state.get(
        "draft_of_names", ("", None)
    )
    if draft_entry[0] != key:
        base_candidates = names(base).candidates if base else None
        draft = lists.make_draft(
            file_bytes,
            base=base_candidates,
            own_controls=control_bytes,
            n_by_kind=kind_sizes,
            model=model,
            progress=progress,
        )
        st.session_state["draft_of_names"] = draft_entry = key, draft
    return draft_entry[1]


@_cache_answers(4)
def names_with_source(view: lists.KeptNames, *, source: ControlSource) -> lists.KeptNames:
    """Return a list with the source of its controls, which is not kept yet."""
    line = lists.Line("", view.line.label, "", view.line.n, source)
    return replace(view, candidates=view.candidates.with_source(source), line=line)


@_cache_answers(4)
def new_passages(file_bytes: bytes, *, file_name: str, placeholder: str = "") -> lists.KeptPassages:
    """Return an uploaded file's passages, not kept yet; raises as `read_passages`."""
    jsonl, name = normalize_passages(file_bytes, file_name=file_name, placeholder=placeholder)
    passage_list = read_passages(jsonl, file_name=name)
    return lists.KeptPassages(lists.Line("", "", "", len(passage_list)), passage_list, jsonl, name)


@_cache_answers(16)
def spell_names(view: lists.KeptNames, *, model: Path) -> Spelling:
    """Return how a model's tokenizer spells a list; raises as `audit.names.facts.spelling`."""
    return spelling(view.candidates, model=model)


def _name_plan(
    request: AuditRequest, *, names: lists.KeptNames, passages: lists.KeptPassages | None
) -> object:
    settings = (
        request.scenario_number,
        request.settings,
        request.seed,
        request.dtype,
        request.device,
        request.sibling,
    )
    return [*map(_name_argument, (names, passages, request.general, request.hospital)), *settings]


@_cache_answers(32, name_answer=_name_plan)
def make_plan(
    request: AuditRequest, *, names: lists.KeptNames, passages: lists.KeptPassages | None
) -> plan.Plan:
    """Return the plan of a request about a list and passages, kept or drafts.

    Raises
    ------
    AuditError
        As `audit.attack.plan.make_plan`, or if the data directory cannot be used.
    """
    file_name = passages.file_name if passages else "passages.jsonl"
    return plan.make_plan(request, passages_file=file_name)


@_cache_answers(
    4,
    name_answer=lambda digest: (
        digest,
        *map(store().keys, ("list-line/", "passages-line/")),
        models(),
    ),
)
def request_to_repeat(digest: str) -> AuditInputs:
    """Return the inputs of a kept audit that are still here; raises as `kept_audits`."""
    return find_inputs(report(digest), models=models(), store=store())


# Notes, corpora and trainings, by place and state of their files.

Columns = tuple[tuple[str, str], ...]
"""(field of a note, name of its column), as a person chose them."""
TEXTS = {"private": "private.jsonl", "public": "public.jsonl", "other_names": "private.jsonl"}
"""Source -> the corpus file that gives its amount of text; other names change no length."""
note_files = _cache_answers(4, ttl="10s", name_answer=lambda: os.environ.get(read.VARIABLE, ""))(
    list_note_files
)


@_cache_answers(32)
def note_columns(file: NoteFile) -> NoteSource:
    """Return a file's columns; raises as `inspect_notes`."""
    return inspect_notes(file.path)


@_cache_answers(4)
def survey(file: NoteFile, *, columns: Columns) -> Survey:
    """Return a survey of a file's first notes; raises as `survey_head`."""
    return survey_head(file.path, columns=dict(columns))


@_cache_answers(4)
def register_finder(register: NoteFile) -> RegisterFinder:
    """Return the finder of a register's names in notes; raises as `read_register`."""
    return RegisterFinder.from_register(read_register(register.path))


@_cache_answers(8)
def examination(corpus: KeptCorpus) -> Examination:
    """Return a corpus's examination; raises as `read_examination`."""
    return read_examination(corpus.path)


@_cache_answers(
    32,
    name_answer=lambda corpus, *, source, model: (
        corpus.path,
        source,
        _file_state(corpus.path / TEXTS[source]),
        _name_argument(model),
    ),
)
def text_load(corpus: KeptCorpus, *, source: str, model: Path) -> NotesLoad:
    """Return how many tokens a corpus has for a model; see `measure_notes` for its errors."""
    return measure_notes(corpus.path / TEXTS[source], n_notes=corpus.n_notes, model=model)


# Tagged notes and scores, by their identifiers; uploads, by the digest of their bytes.


def _name_by_corrections(tagged: TaggedSet) -> object:
    path = tagged.path / CORRECTIONS
    return _name_argument(tagged), _file_state(path) if path.exists() else "", tagged.census


taggers = _cache_answers(4, ttl="10s")(list_taggers)
note_index = _cache_answers(8)(read_index)
hits = _cache_answers(16)(search_notes)
corrections = _cache_answers(4, name_answer=_name_by_corrections)(corrections_of)
corrections_state = _cache_answers(4, name_answer=_name_by_corrections)(corrections_digest)
score_comparison = _cache_answers(8)(compare_scores)
score_comparisons = _cache_answers(8)(compare_all)


def whole_sets() -> tuple[TaggedSet, ...]:
    """Return the completed tagged sets, the newest first."""
    return tuple(tagged for tagged in TAGGED_SETS.all() if tagged.is_whole)


@_cache_answers(8, name_answer=_name_by_corrections)
def census(tagged: TaggedSet) -> dict[str, Any]:
    """Return the counts of a whole set, corrected by hand; raises as `correct_census`."""
    return correct_census(tagged, index=note_index(tagged), corrections=corrections(tagged))


def _name_by_leftovers(tagged: TaggedSet) -> object:
    path = tagged.path / LEFTOVERS
    return _name_argument(tagged), _file_state(path) if path.exists() else ""


leftovers = _cache_answers(4, name_answer=_name_by_leftovers)(read_leftovers)


@_cache_answers(4, name_answer=lambda: SCORES.home().stat().st_mtime_ns)
def scores() -> tuple[Score, ...]:
    """Return the kept scores, the newest first."""
    return SCORES.all()


# All spans in context: of 5,000 notes some hundred megabytes.
@_cache_answers(2)
def cases(score_id: str) -> tuple[SpanCase, ...]:
    """Return the case of each span of a score; raises as `read_cases`."""
    return read_cases(SCORES.get(score_id).path)


@_cache_answers(8, ttl="1h")
def read_upload(
    content: bytes, *, name: str, description: str, is_outputs: bool = False
) -> UploadedNotes:
    """Keep uploaded notes and return their summary; raises as `keep_upload`."""
    if is_outputs:
        return keep_outputs(content, subject=description)
    return keep_upload(
        content, name=f"notes{PurePosixPath(name).suffix.lower()}", subject=description
    )
