"""The store of audits: what is kept of an audit, under which keys, and how it is read.

No other file knows the keys. A report that is damaged or of another version is refused by
`read_report`; `find_complete_report` returns None for it, since the audit can be run again.
Torch-free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from audit.errors import AuditError
from audit.notes.passages import Passage
from audit.report.report import AuditReport, Inspection
from cache.store import Store

KINDS = ("audit", "documents", "inspection", "finished", "decision")
"""Kinds of records of an audit; a record's key is its kind and the digest of the audit."""
_DEMO = "demo/digests"
_PASSAGES = TypeAdapter(tuple[Passage, ...])


def list_digests(store: Store, *, start: str = "") -> list[str]:
    """Return the digests of the kept audits that begin with `start`, sorted."""
    return [key.partition("/")[2] for key in store.keys(f"audit/{start}")]


def is_kept(digest: str, *, store: Store) -> bool:
    """Return whether an audit's report is kept; it is not read."""
    return bool(store.keys(f"audit/{digest}"))


def keep_report(
    report: AuditReport,
    *,
    inspection: Inspection | None = None,
    documents: Mapping[str, Sequence[str]] | None = None,
    store: Store,
) -> None:
    """Store an audit, the report last: if the report is there, everything else is there too."""
    if documents:
        texts = {model_role: list(model_texts) for model_role, model_texts in documents.items()}
        store.put_record(f"documents/{report.digest}", texts)
    if inspection is not None:
        keep_inspection(report.digest, inspection, store=store)
    store.put_record(f"audit/{report.digest}", report.to_json())


def read_kept_report(digest: str, *, store: Store) -> AuditReport | None:
    """Return a kept report, or None; raises AuditError if it is of another version."""
    record = store.get_record(f"audit/{digest}")
    return None if record is None else AuditReport.from_json(record)


def read_report(digest: str, *, store: Store) -> AuditReport:
    """Return a kept report; raises AuditError if it is damaged or of another version."""
    report = read_kept_report(digest, store=store)
    if report is None:
        raise AuditError("This result is damaged.", do="Run the audit again.")
    return report


def find_complete_report(digest: str, *, store: Store) -> AuditReport | None:
    """Return a report if it is kept with all its evidence and this version can read it.

    `run_audit` returns a new report in this form too: equal files need equal order, and the store
    sorts.
    """
    if read_inspection(digest, store=store) is None:
        return None
    try:
        report = read_kept_report(digest, store=store)
    except AuditError:
        return None  # of another version: it is made again from the stored evidence
    needs_documents = report is not None and report.scenario.number == 1
    return None if needs_documents and not read_documents(digest, store=store) else report


def read_question(digest: str, *, store: Store) -> Mapping[str, Any]:
    """Return the question of an audit of any version; empty if its record is damaged."""
    record = store.get_record(f"audit/{digest}") or {}
    question: Mapping[str, Any] = record.get("question") or {}
    return question


def read_documents(digest: str, *, store: Store) -> dict[str, tuple[str, ...]]:
    """Return an audit's generated documents by model; empty in scenario 2."""
    texts_by_model = store.get_record(f"documents/{digest}") or {}
    return {model_role: tuple(texts) for model_role, texts in texts_by_model.items()}


def keep_inspection(digest: str, inspection: Inspection, *, store: Store) -> None:
    """Store an audit's inspection beside its report."""
    arrays = dict(vars(inspection))
    passages = _PASSAGES.dump_python(arrays.pop("passages"), mode="json")
    store.put(f"inspection/{digest}", arrays=arrays, meta={"passages": passages})


def read_inspection(digest: str, *, store: Store) -> Inspection | None:
    """Return an audit's inspection; None if there is none or it is of another version."""
    stored = store.get(f"inspection/{digest}")
    if stored is None:
        return None
    try:
        passages = _PASSAGES.validate_python(stored.meta.get("passages", ()))
        return Inspection(**stored.arrays, passages=passages)
    except (ValueError, TypeError):
        return None


def list_evidence(digest: str, *, store: Store) -> tuple[str, ...]:
    """Return the kinds of evidence that are kept of an audit: inspection, documents."""
    kinds = ("inspection", "documents")
    return tuple(kind for kind in kinds if store.keys(f"{kind}/{digest}"))


def keep_finished_size(digest: str, model_role: str, setting: str, n: int, *, store: Store) -> None:
    """Store that a model has finished `n` of what a setting counts; M_hospital is the last."""
    if model_role != "hospital":
        return
    sizes = store.get_record(f"finished/{digest}") or {}
    if n > sizes.get(setting, 0):
        store.put_record(f"finished/{digest}", sizes | {setting: n})


def read_finished_sizes(digest: str, *, store: Store) -> dict[str, int]:
    """Return how many documents or inputs of an audit both models have finished, by setting.

    An audit of these sizes costs next to nothing, because its shards are stored. Empty if nothing
    is finished.
    """
    sizes: dict[str, int] = store.get_record(f"finished/{digest}") or {}
    return {"n_chain_inputs": 0} | sizes if "n_inputs" in sizes else sizes


def keep_decision_states(digest: str, states: Sequence[str], *, store: Store) -> None:
    """Store every state of the decision on an audit, as JSON, the newest last."""
    store.put_record(f"decision/{digest}", list(states))


def read_decision_states(digest: str, *, store: Store) -> tuple[str, ...]:
    """Return every state of the decision on an audit, as JSON; () if there is none."""
    return tuple(store.get_record(f"decision/{digest}") or ())


def keep_demo_digests(digests: Mapping[str, str], *, store: Store) -> None:
    """Record by name which audits belong to the demo, beside those recorded before."""
    store.put_record(_DEMO, read_demo_digests(store) | dict(digests))


def read_demo_digests(store: Store) -> dict[str, str]:
    """Return the digests of the demo's audits by name; empty before the first demo run."""
    return dict(store.get_record(_DEMO) or {})
