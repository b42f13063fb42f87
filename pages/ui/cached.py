"""What the server keeps in memory between reruns: the only `st.cache_*` of the app.

Keys are digests, never tables: Streamlit hashes only a sample of a long table.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import streamlit as st

from audit.access_log import LogEntry, Verification, entries, log_mark, verify
from audit.errors import AuditError
from audit.home import data_home, results_dir
from audit.report.compare import (
    MAX_REFERENCES,
    Comparison,
    compare_audits,
    compare_references,
)
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
from audit.report.threshold import (
    RankedNames,
    RocView,
    ranked_names,
    roc_view,
)
from audit.text import written_name
from cache.store import Store

__all__ = [
    "AuditError", "access_log", "demo_audits", "documents", "inspection",
    "kept_audits", "marked_documents", "report", "shown_names", "store",
]  # fmt: skip


def kept_audits() -> tuple[tuple[KeptAudit, ...], int]:
    """Return the kept audits, own ones first, the newest first, and how many cannot be read.

    Raises
    ------
    AuditError
        If the data directory cannot be used.
    """
    directory = str(results_dir())
    digests = [key.removeprefix("audit/") for key in _store(directory).keys("audit/")]
    found = [line for digest in digests if (line := _line_or_none(directory, digest)) is not None]
    of_demo = set(demo_audits().values())
    found = [replace(line, is_demo=line.is_demo or line.digest in of_demo) for line in found]
    found.sort(key=lambda line: (not line.is_demo, line.at, line.digest), reverse=True)
    return tuple(found), len(digests) - len(found)


def demo_audits() -> dict[str, str]:
    """Return the digests of the demo's audits by name; raises as `kept_audits`."""
    return demo_digests(_store(str(results_dir())))


def report(digest: str) -> AuditReport:
    """Return a kept audit's report; raises as `kept_audits`."""
    return _kept_report(str(results_dir()), digest)


def inspection(digest: str) -> Inspection | None:
    """Return what lies behind an audit's scores; None where it is not kept."""
    return _inspection(str(results_dir()), digest, _is_kept(f"inspection/{digest}"))


def documents(digest: str) -> dict[str, tuple[str, ...]]:
    """Return an audit's generated documents by model; empty in scenario 2."""
    return _documents(str(results_dir()), digest, _is_kept(f"documents/{digest}"))


def access_log(digest: str, *, limit: int) -> tuple[tuple[LogEntry, ...], Verification]:
    """Return an audit's newest lines in the access log, and whether the whole log fits.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    return _access_log(str(data_home()), log_mark(), digest[:12], limit)


def shown_names(digest: str, *, is_revealed: bool) -> tuple[str, ...]:
    """Return an audit's names as the screen shows them, in the order of the list; not escaped."""
    return _shown_names(str(results_dir()), digest, is_revealed)


def marked_documents(digest: str) -> DocumentView | None:
    """Return an audit's documents with the listed names found in them; None in scenario 2."""
    return _marked_documents(str(results_dir()), digest, _is_kept(f"documents/{digest}"))


def ranked(digest: str, *, score: str, stratum: str) -> RankedNames:
    """Return an audit's names with one score; ValueError where it has no such score or stratum."""
    return _ranked(str(results_dir()), digest, score, stratum)


def roc(digest: str, *, score: str, stratum: str) -> RocView:
    """Return the ROC of one score; raises as `ranked`."""
    return _roc(str(results_dir()), digest, score, stratum)


def comparison(digest: str, *, other: str) -> Comparison:
    """Return two kept audits paired by name; raises as `kept_audits`."""
    return _comparison(str(results_dir()), digest, other)


def references(digest: str, *, kept: tuple[KeptAudit, ...]) -> tuple[list[Comparison], int]:
    """Return an audit beside the newest that differ in the reference alone, and how many are left.

    `kept` are all kept audits, the newest first; raises as `kept_audits`.
    """
    own = next((line for line in kept if line.digest == digest), None)
    others = tuple(o.digest for o in same_but_reference(own, kept=kept)) if own else ()
    shown = others[:MAX_REFERENCES]
    return _references(str(results_dir()), digest, shown), len(others) - len(shown)


def store() -> Store:
    """Return the store of results; raises as `kept_audits`."""
    return _store(str(results_dir()))


def _is_kept(key: str) -> bool:
    # Part of a cache's key: what is not there yet can come, by running the audit again.
    return bool(store().keys(key))


@st.cache_resource(show_spinner=False, max_entries=20)
def _access_log(
    directory: str, mark: str, audit: str, limit: int
) -> tuple[tuple[LogEntry, ...], Verification]:
    return entries(limit, audit=audit), verify()


@st.cache_resource(show_spinner=False, max_entries=8)
def _kept_report(directory: str, digest: str) -> AuditReport:
    return _report(directory, digest)


@st.cache_resource(show_spinner=False, max_entries=4)
def _inspection(directory: str, digest: str, is_kept: bool) -> Inspection | None:
    return kept_inspection(digest, store=_store(directory))


@st.cache_resource(show_spinner=False, max_entries=4)
def _documents(directory: str, digest: str, is_kept: bool) -> dict[str, tuple[str, ...]]:
    found = _store(directory).get_record(f"documents/{digest}") or {}
    return {who: tuple(texts) for who, texts in found.items()}


@st.cache_resource(show_spinner=False, max_entries=8)
def _shown_names(directory: str, digest: str, is_revealed: bool) -> tuple[str, ...]:
    table = _kept_report(directory, digest).table
    shown = written_name if is_revealed else masked_name
    return tuple(map(shown, table["first_name"], table["last_name"]))


@st.cache_resource(show_spinner=False, max_entries=4)
def _marked_documents(directory: str, digest: str, is_kept: bool) -> DocumentView | None:
    found = _documents(directory, digest, is_kept)
    return document_view(found, report=_kept_report(directory, digest))


@st.cache_resource(show_spinner=False, max_entries=64)
def _ranked(directory: str, digest: str, score: str, stratum: str) -> RankedNames:
    return ranked_names(_kept_report(directory, digest), score=score, stratum=stratum)


@st.cache_resource(show_spinner=False, max_entries=64)
def _roc(directory: str, digest: str, score: str, stratum: str) -> RocView:
    return roc_view(_ranked(directory, digest, score, stratum))


@st.cache_resource(show_spinner=False, max_entries=4)
def _comparison(directory: str, digest: str, other: str) -> Comparison:
    return compare_audits(_kept_report(directory, digest), other=_kept_report(directory, other))


@st.cache_resource(show_spinner=False, max_entries=8)
def _references(directory: str, digest: str, others: tuple[str, ...]) -> list[Comparison]:
    shown = [_report(directory, other) for other in others]
    return compare_references(_kept_report(directory, digest), others=shown)


@st.cache_resource(show_spinner=False, max_entries=4)
def _store(directory: str) -> Store:
    return Store(Path(directory))


def _line_or_none(directory: str, digest: str) -> KeptAudit | None:
    try:
        return _line(directory, digest)
    except AuditError:
        return None  # not remembered: running it again makes it readable


@st.cache_resource(show_spinner=False, max_entries=2000)
def _line(directory: str, digest: str) -> KeptAudit:
    report = _report(directory, digest)
    return kept_audit(report, is_demo=is_demo(report, digests={}))


def _report(directory: str, digest: str) -> AuditReport:
    record = _store(directory).get_record(f"audit/{digest}")
    if record is None:
        raise AuditError("This result is damaged.", do="Run the audit again.")
    return AuditReport.from_json(record)
