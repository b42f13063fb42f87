"""What the server keeps in memory between reruns: the only `st.cache_*` of the app.

Keys are digests, never tables: Streamlit hashes only a sample of a long table.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from audit.demo import demo_digests
from audit.errors import AuditError
from audit.home import results_dir
from audit.inspection import Inspection, kept_inspection
from audit.kept import KeptAudit, kept_audit
from audit.overview import Overview, overview_of
from audit.report import AuditReport
from cache.store import Store, StoreError

__all__ = [
    "AuditError", "StoreError", "demo_audits", "documents", "inspection", "kept_audits",
    "overview", "report", "store",
]  # fmt: skip


def kept_audits() -> tuple[tuple[KeptAudit, ...], int]:
    """Return the kept audits, the newest first, and how many this version cannot read.

    Raises
    ------
    AuditError, StoreError
        If the data directory cannot be used.
    """
    directory = str(results_dir())
    digests = [key.removeprefix("audit/") for key in _store(directory).keys("audit/")]
    found = [line for digest in digests if (line := _line(directory, digest)) is not None]
    found.sort(key=lambda line: (line.at, line.digest), reverse=True)
    return tuple(found), len(digests) - len(found)


def demo_audits() -> dict[str, str]:
    """Return the digests of the demo's audits by name; raises as `kept_audits`."""
    return demo_digests(_store(str(results_dir())))


def overview(digest: str) -> Overview:
    """Return what the Overview page says of a kept audit; raises as `kept_audits`."""
    return _overview(str(results_dir()), digest)


def report(digest: str) -> AuditReport:
    """Return a kept audit's report; raises as `kept_audits`."""
    return _kept_report(str(results_dir()), digest)


def inspection(digest: str) -> Inspection | None:
    """Return what lies behind an audit's scores; None where it is not kept."""
    return _inspection(str(results_dir()), digest)


def documents(digest: str) -> dict[str, tuple[str, ...]]:
    """Return an audit's generated documents by model; empty in scenario 2."""
    return _documents(str(results_dir()), digest)


def store() -> Store:
    """Return the store of results; raises as `kept_audits`."""
    return _store(str(results_dir()))


@st.cache_resource(show_spinner=False, max_entries=8)
def _kept_report(directory: str, digest: str) -> AuditReport:
    return _report(directory, digest)


@st.cache_resource(show_spinner=False, max_entries=4)
def _inspection(directory: str, digest: str) -> Inspection | None:
    return kept_inspection(digest, store=_store(directory))


@st.cache_resource(show_spinner=False, max_entries=4)
def _documents(directory: str, digest: str) -> dict[str, tuple[str, ...]]:
    found = _store(directory).get_record(f"documents/{digest}") or {}
    return {who: tuple(texts) for who, texts in found.items()}


@st.cache_resource(show_spinner=False, max_entries=4)
def _store(directory: str) -> Store:
    return Store(Path(directory))


@st.cache_resource(show_spinner=False, max_entries=2000)
def _line(directory: str, digest: str) -> KeptAudit | None:
    # An audit is immutable, and a version of the program reads it or does not.
    try:
        return kept_audit(_report(directory, digest))
    except AuditError:
        return None


@st.cache_resource(show_spinner=False, max_entries=50)
def _overview(directory: str, digest: str) -> Overview:
    return overview_of(_report(directory, digest))


def _report(directory: str, digest: str) -> AuditReport:
    record = _store(directory).get_record(f"audit/{digest}")
    if record is None:
        raise AuditError("This result is damaged.", do="Run the audit again.")
    return AuditReport.from_json(record)
