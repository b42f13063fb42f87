"""What the server keeps in memory between reruns: the only cache of the app.

An answer is named by what it is of (digests, codes) and by the state of the files that it was read
from, never by a table: Streamlit hashes only a sample of a long one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path, PurePosixPath
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from audit.access_log import LogEntry, Verification, entries, log_mark, verify
from audit.attack import plan
from audit.attack.question import AuditRequest
from audit.corpus.examine import Examination, read_examination
from audit.corpus.kept import KeptCorpus
from audit.corpus.preview import Survey, survey_head
from audit.corpus.register import MentionFinder, read_register
from audit.corpus.truth import EXAMINATION
from audit.deid.given import GivenNotes, keep_given, keep_outputs
from audit.deid.score import SCORES, Score, ScoresCompared, SpanCase, compare_scores, read_cases
from audit.deid.tagged import (
    CORRECTIONS,
    TAGGED_SETS,
    ByNote,
    TaggedSet,
    corrected_census,
    corrections_of,
    notes_with,
    read_index,
)
from audit.deid.taggers import KnownTagger, known_taggers
from audit.errors import AuditError
from audit.foreign import file_bytes
from audit.home import results_dir
from audit.models import registry
from audit.models.inspect import trained_models
from audit.models.registry import RegisteredModel
from audit.names import lists
from audit.names.candidates import Candidates
from audit.names.facts import NameFacts, Spelling, name_facts, spelling
from audit.names.lists import Draft, make_draft
from audit.notes import read
from audit.notes.passages import is_jsonl, read_passages
from audit.notes.read import NoteFile, NoteSource, columns_of, list_note_files
from audit.progress import ProgressListener
from audit.report.compare import MAX_REFERENCES, Comparison, compare_audits, compare_references
from audit.report.documents import DocumentView, document_view
from audit.report.names import masked_name
from audit.report.report import (
    AuditReport,
    Inspection,
    KeptAudit,
    demo_digests,
    is_demo,
    kept_audit,
    kept_inspection,
    same_but_reference,
)
from audit.report.threshold import RankedNames, RocView, ranked_names, roc_view
from audit.run import Again, ask_again
from audit.stats import IntArray
from audit.tables import RowNote
from audit.text import written_name
from audit.training.kept import NotesLoad, notes_load
from cache.store import Store

P = ParamSpec("P")
R = TypeVar("R")


def _kept(
    n: int, *, of: Callable[..., object] | None = None, ttl: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep a function's last `n` answers, by data directory and by what `of` its arguments says.

    Without `of` the arguments name the answer themselves.
    """

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        def answer(home: str, name: str, _make: Callable[[], R]) -> R:
            return _make()

        answer.__qualname__ = make.__qualname__  # by which Streamlit tells its caches apart
        kept = st.cache_resource(show_spinner=False, max_entries=n, ttl=ttl)(answer)

        @wraps(make)
        def asked(*args: P.args, **options: P.kwargs) -> R:
            name = of(*args, **options) if of else (args, options)
            return kept(str(results_dir()), repr(name), partial(make, *args, **options))

        return asked

    return decorate


def _state(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there any more.", where="notes") from None
    return f"{found.st_mtime_ns} {found.st_size}"


def _sha256(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


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
    found = [line for digest in digests if (line := _line_or_none(digest)) is not None]
    of_demo = set(demo_audits().values())
    found = [replace(line, is_demo=line.is_demo or line.digest in of_demo) for line in found]
    found.sort(key=lambda line: (not line.is_demo, line.at, line.digest), reverse=True)
    return tuple(found), len(digests) - len(found)


def demo_audits() -> dict[str, str]:
    """Return the digests of the demo's audits by name; raises as `kept_audits`."""
    return demo_digests(store())


def _line_or_none(digest: str) -> KeptAudit | None:
    try:
        return _line(digest)
    except AuditError:
        return None  # not remembered: running it again makes it readable


@_kept(2000)
def _line(digest: str) -> KeptAudit:
    found = _report(digest)
    return kept_audit(found, is_demo=is_demo(found, digests={}))


def _report(digest: str) -> AuditReport:
    record = store().get_record(f"audit/{digest}")
    if record is None:
        raise AuditError("This result is damaged.", do="Run the audit again.")
    return AuditReport.from_json(record)


@_kept(8)
def report(digest: str) -> AuditReport:
    """Return a kept audit's report; raises as `kept_audits`."""
    return _report(digest)


# What lies behind an audit and is not there yet can come, by running the audit again.
@_kept(4, of=lambda digest: (digest, store().keys(f"inspection/{digest}")))
def inspection(digest: str) -> Inspection | None:
    """Return what lies behind an audit's scores; None where it is not kept."""
    return kept_inspection(digest, store=store())


@_kept(4, of=lambda digest: (digest, store().keys(f"documents/{digest}")))
def documents(digest: str) -> dict[str, tuple[str, ...]]:
    """Return an audit's generated documents by model; empty in scenario 2."""
    found = store().get_record(f"documents/{digest}") or {}
    return {who: tuple(texts) for who, texts in found.items()}


@_kept(4, of=lambda digest: (digest, store().keys(f"documents/{digest}")))
def marked_documents(digest: str) -> DocumentView | None:
    """Return an audit's documents with the listed names found in them; None in scenario 2."""
    return document_view(documents(digest), report=report(digest))


@_kept(20, of=lambda digest, **how: (log_mark(), digest, how))
def access_log(
    digest: str, *, limit: int, without: tuple[str, ...]
) -> tuple[tuple[LogEntry, ...], Verification]:
    """Return an audit's newest lines in the access log, and whether the whole log fits.

    Lines of the actions `without` are left out.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    return entries(limit, audit=digest[:12], without=without), verify()


@_kept(8)
def shown_names(digest: str, *, is_revealed: bool) -> tuple[str, ...]:
    """Return an audit's names as the screen shows them, in the order of the list; not escaped."""
    table = report(digest).table
    shown = written_name if is_revealed else masked_name
    return tuple(map(shown, table["first_name"], table["last_name"]))


@_kept(64)
def ranked(digest: str, *, score: str, stratum: str) -> RankedNames:
    """Return an audit's names with one score; ValueError where it has no such score or stratum."""
    return ranked_names(report(digest), score=score, stratum=stratum)


@_kept(64)
def roc(digest: str, *, score: str, stratum: str) -> RocView:
    """Return the ROC of one score; raises as `ranked`."""
    return roc_view(ranked(digest, score=score, stratum=stratum))


@_kept(4)
def comparison(digest: str, *, other: str) -> Comparison:
    """Return two kept audits paired by name; raises as `kept_audits`."""
    return compare_audits(report(digest), other=report(other))


def references(digest: str, *, kept: tuple[KeptAudit, ...]) -> tuple[list[Comparison], int]:
    """Return an audit beside the newest that differ in the reference alone, and how many are left.

    `kept` are all kept audits, the newest first; raises as `kept_audits`.
    """
    own = next((line for line in kept if line.digest == digest), None)
    others = [o.digest for o in same_but_reference(own, kept=kept)] if own else []
    return _references(digest, others[:MAX_REFERENCES]), len(others[MAX_REFERENCES:])


@_kept(8)
def _references(digest: str, others: list[str]) -> list[Comparison]:
    return compare_references(report(digest), others=[_report(other) for other in others])


# Models, lists and plans that are being chosen, by codes, digests of bytes, and states of files.


_DRAFT = "draft_of_names"


@dataclass(frozen=True, eq=False)
class ListView:
    """A list on the screen, kept or still being made; `key` stands for its content."""

    key: str
    line: lists.Line
    candidates: Candidates
    facts: NameFacts
    notes: tuple[RowNote, ...]
    encoding: str
    draft: Draft | None = None


@_kept(4, ttl="10s", of=lambda: (os.environ.get(registry.VARIABLE, ""), list(trained_models())))
def models() -> tuple[RegisteredModel, ...]:
    """Return the models that can be chosen; a folder that has changed is seen within seconds."""
    return registry.model_choices()


@_kept(32, of=lambda *models: [(model, registry.signature(model)) for model in models])
def check(general: Path, hospital: Path) -> registry.PairCheck:
    """Return what differs between two models; raises `AuditError` if one cannot be read."""
    return registry.check_pair(general, hospital)


@_kept(8)
def names(code: str) -> ListView:
    """Return a kept list; raises as `audit.names.lists.kept_names`."""
    found = lists.kept_names(code, store=store())
    return ListView(
        key=f"{results_dir()} {code}",
        line=found.line,
        candidates=found.candidates,
        facts=name_facts(found.candidates),
        notes=(),
        encoding="",
    )


@_kept(4)
def passages(code: str) -> lists.KeptPassages:
    """Return kept passages; raises as `audit.names.lists.kept_passages`."""
    return lists.kept_passages(code, store=store())


def new_names(
    data: bytes | None,
    *,
    base: str,
    wanted: Mapping[str, int],
    model: Path | None,
    progress: ProgressListener,
) -> ListView | None:
    """Return the list that this session is making, from a file or the kept list `base`.

    Raises so too. Who draws the progress cannot be within what Streamlit keeps: the session does.
    """
    key = repr((_sha256(data), base, wanted, model and registry.signature(model)))
    made: ListView | None = st.session_state.get(_DRAFT)
    if made is not None and made.key == key:
        return made
    known = names(base).candidates if base else None
    draft = make_draft(data, base=known, wanted=wanted, model=model, progress=progress)
    if draft is None:
        return None
    line, facts = lists.Line("", "", "", len(draft.candidates)), name_facts(draft.candidates)
    st.session_state[_DRAFT] = made = ListView(
        key, line, draft.candidates, facts, draft.notes, draft.encoding, draft
    )
    return made


@_kept(4, of=lambda data, *, file_name: (_sha256(data), is_jsonl(data, file_name=file_name)))
def new_passages(data: bytes, *, file_name: str) -> lists.KeptPassages:
    """Return an uploaded file's passages, not kept yet; raises as `read_passages`."""
    name = "passages.jsonl" if is_jsonl(data, file_name=file_name) else "passages.csv"
    found = read_passages(data, file_name=name)
    return lists.KeptPassages(lists.Line("", "", "", len(found)), found, data, name)


@_kept(16, of=lambda view, *, model: (view.key, model, registry.signature(model)))
def spelt(view: ListView, *, model: Path) -> Spelling:
    """Return how a model's tokenizer spells a list; raises as `audit.names.facts.spelling`."""
    return spelling(view.candidates, model=model)


def make_plan(
    request: AuditRequest, *, names: ListView, passages: lists.KeptPassages | None
) -> plan.Plan:
    """Return the plan of a request about a list and passages, be they kept or still being made.

    Raises
    ------
    AuditError
        As `audit.attack.plan.make_plan`, or if the data directory cannot be used.
    """
    pair = (request.general, request.hospital)
    key = repr((
        names.key, passages and _sha256(passages.data), pair, list(map(registry.signature, pair)),
        request.scenario_number, request.settings, request.seed, request.dtype, request.device,
    ))  # fmt: skip
    file_name = passages.file_name if passages else "passages.jsonl"
    return _plan(request, key=key, passages_file=file_name)


@_kept(32, of=lambda request, *, key, passages_file: (key, passages_file))
def _plan(request: AuditRequest, *, key: str, passages_file: str) -> plan.Plan:
    return plan.make_plan(request, passages_file=passages_file)


@_kept(
    4, of=lambda digest: (digest, *map(store().keys, ("list-line/", "passages-line/")), models())
)
def asked_again(digest: str) -> Again:
    """Return what a kept audit was asked about, as far as it is here; raises as `kept_audits`."""
    return ask_again(report(digest), models=models(), store=store())


# Notes, corpora and trainings, by place and state of their files.

Columns = tuple[tuple[str, str], ...]
"""(field of a note, name of its column), where a person said so."""
TEXTS = {"private": "private.jsonl", "public": "public.jsonl", "other_names": "private.jsonl"}
"""Which file of a corpus says how much text a source has: notes with other names are as long."""


@_kept(4, ttl="10s", of=lambda: os.environ.get(read.VARIABLE, ""))
def note_files() -> tuple[NoteFile, ...]:
    """Return the files of notes; a folder that has changed is seen within seconds."""
    return list_note_files()


@_kept(32, of=lambda file: (file.path, _state(file.path)))
def note_columns(file: NoteFile) -> NoteSource:
    """Return a file's columns; raises as `columns_of`."""
    return columns_of(file.path)


@_kept(4, of=lambda file, *, columns: (file.path, _state(file.path), columns))
def survey(file: NoteFile, *, columns: Columns) -> Survey:
    """Return what stands in a file's first notes; raises as `survey_head`."""
    return survey_head(file.path, columns=dict(columns))


@_kept(4, of=lambda register: (register.path, _state(register.path)))
def finder(register: NoteFile) -> MentionFinder:
    """Return the finder of a register's patients; raises as `read_register`."""
    return MentionFinder(read_register(file_bytes(register.path)))


@_kept(8, of=lambda corpus: (corpus.path, _state(corpus.path / EXAMINATION)))
def examination(corpus: KeptCorpus) -> Examination:
    """Return a corpus's examination; raises as `read_examination`."""
    return read_examination(corpus.path)


@_kept(
    32,
    of=lambda corpus, *, source, model: (
        corpus.path, source, _state(corpus.path / TEXTS[source]), model, registry.signature(model)
    ),
)  # fmt: skip
def text_load(corpus: KeptCorpus, *, source: str, model: Path) -> NotesLoad:
    """Return how many tokens a corpus has for a model; raises as `notes_load`."""
    return notes_load(corpus.path / TEXTS[source], n_notes=corpus.n_notes, model=model)


# Tagged notes and scores, by their identifiers; what was given, by the digest of its bytes.


@_kept(4, ttl="10s")
def taggers() -> tuple[KnownTagger, ...]:
    """Return the taggers that can be chosen."""
    return known_taggers()


def marked_sets() -> tuple[TaggedSet, ...]:
    """Return the tagged sets that are whole, the newest first."""
    return tuple(one for one in TAGGED_SETS.all() if one.is_whole)


@_kept(8, of=lambda tagged: (tagged.tagged_id, tagged.created))
def note_index(tagged: TaggedSet) -> IntArray:
    """Return the index of a whole set; raises as `read_index`."""
    return read_index(tagged)


@_kept(16, of=lambda tagged, *, text: (tagged.tagged_id, tagged.created, text))
def hits(tagged: TaggedSet, *, text: str) -> tuple[int, ...]:
    """Return the numbers of the notes that hold a text; raises as `notes_with`."""
    return notes_with(tagged, text=text)


def _corrected(tagged: TaggedSet) -> str:
    path = tagged.path / CORRECTIONS
    return f"{tagged.tagged_id} {tagged.created} {_state(path) if path.exists() else ''}"


@_kept(4, of=_corrected)
def corrections(tagged: TaggedSet) -> ByNote:
    """Return the corrections of a set that hold; raises as `corrections_of`."""
    return corrections_of(tagged)


@_kept(8, of=lambda tagged: (_corrected(tagged), tagged.census))
def census(tagged: TaggedSet) -> dict[str, Any]:
    """Return the counts of a whole set, corrected by hand; raises as `corrected_census`."""
    return corrected_census(tagged, index=note_index(tagged), corrections=corrections(tagged))


@_kept(4, of=lambda: SCORES.home().stat().st_mtime_ns)
def scores() -> tuple[Score, ...]:
    """Return the kept scores, the newest first."""
    return SCORES.all()


# All spans in context: of 5,000 notes some hundred megabytes.
@_kept(2)
def cases(score_id: str) -> tuple[SpanCase, ...]:
    """Return what became of a score's spans; raises as `read_cases`."""
    return read_cases(SCORES.get(score_id).path)


@_kept(8)
def compared(first: str, *, second: str, criterion: str) -> ScoresCompared:
    """Return two scores compared; raises as `compare_scores`."""
    return compare_scores(first, second=second, criterion=criterion)


@_kept(8, ttl="1h", of=lambda content, **how: (_sha256(content), how))
def given(content: bytes, *, name: str, what: str, is_outputs: bool = False) -> GivenNotes:
    """Keep what was uploaded and say what is in it; raises as `keep_given`."""
    if is_outputs:
        return keep_outputs(content, what=what)
    return keep_given(content, name=f"notes{PurePosixPath(name).suffix.lower()}", what=what)
