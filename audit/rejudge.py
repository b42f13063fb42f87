"""Judge a kept audit again: by today's rule, with another control source or another sibling.

Only the evidence that is stored beside the report is needed; no model is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from audit.attack.judgement import decide_list
from audit.attack.measure_types import RULE_VERSION
from audit.attack.question import MODEL_ROLES, question_digest
from audit.attack.scores import (
    GENERAL_SCORE,
    AttackResult,
    NameParts,
    find_score_kind,
)
from audit.errors import AuditError, Message
from audit.home import results_dir
from audit.names.candidates import GUESSED_KINDS, Candidates, ControlSource, make_candidates
from audit.names.lists import find_names_code, load_names
from audit.report.audit_store import (
    find_complete_report,
    keep_report,
    read_documents,
    read_inspection,
)
from audit.report.report import AuditReport, Inspection
from audit.run import read_sibling_records
from audit.stats import FloatArray, IntArray
from audit.task import SHORT, Contact, Question, Task
from audit.text import fold_name
from cache.store import Store

_JUDGED_AGAIN = (
    "This audit was judged again from its kept evidence; before, it was judged by the rule of "
    "version {rule}."
)


class JudgeTask(Task):
    """A task that judges a stored audit again."""

    job = "judge"

    audit: str  # a digest, as is `sibling`
    control_source: ControlSource
    sibling: str = ""

    def question(self) -> Question:
        """Return the question; its digest is that of the new report."""
        with Store(results_dir()) as store:
            report, _ = _read_audit(self.audit, store=store)
        question = _make_question(report, control_source=self.control_source, sibling=self.sibling)
        digest = question_digest(question)
        label = " → ".join(report.models[model_role].name for model_role in MODEL_ROLES)
        return Question(
            self.job, label, report.scenario.number, SHORT, digest, (digest,), self.plain()
        )

    @classmethod
    def read_answer(cls, question: Question) -> tuple[str, ...]:
        """Return the digest of the new report if it is stored already."""
        with Store(results_dir()) as store:
            is_kept = find_complete_report(question.digest, store=store) is not None
        return question.audits if is_kept else ()

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Judge the audit; return the digest of the new report."""
        with Store(results_dir()) as store:
            report = judge_again(
                self.audit, control_source=self.control_source, sibling=self.sibling, store=store
            )
        return (report.digest,)


def judge_again(
    digest: str, *, control_source: ControlSource, sibling: str = "", store: Store
) -> AuditReport:
    """Judge the scores of a stored audit again, and store the new report beside the old one.

    `sibling` is the digest of a stored audit whose names are known. Raises AuditError if the audit
    is not stored completely, or if it compared a model with itself.
    """
    report, inspection = _read_audit(digest, store=store)
    question = _make_question(report, control_source=control_source, sibling=sibling)
    earlier_report = find_complete_report(question_digest(question), store=store)
    if earlier_report is not None:
        return earlier_report
    attack = read_attack(report, inspection, store=store)
    judgement = decide_list(
        attack,
        control_source=control_source,
        seed=int(question.get("seed", 0)),
        sibling=read_sibling_records(sibling, question, store=store),
    )
    note = Message(_JUDGED_AGAIN, rule=report.verdict.rule)
    report_json = report.to_json()
    details = {
        name: part
        for name, part in report_json["details"].items()
        if name not in ("roles", "doses")
    }
    new_report = report.changed(
        digest=question_digest(question),
        question=question,
        verdict=judgement.verdict,
        mentions=judgement.mentions,
        names=report_json["names"] | judgement.names,
        columns=list(dict.fromkeys([*report_json["columns"], *judgement.names])),
        details=details | judgement.details.to_json(),
        notes=[*report_json["notes"], note.dump()],
    )
    documents = read_documents(digest, store=store)
    keep_report(new_report, inspection=inspection, documents=documents, store=store)
    return new_report


def _read_audit(digest: str, *, store: Store) -> tuple[AuditReport, Inspection]:
    report = find_complete_report(digest, store=store)
    inspection = read_inspection(digest, store=store)
    if report is None or inspection is None:
        raise AuditError(
            "This audit is not kept here.",
            where="audit",
            do="Choose one of those that `python -m audit results` lists.",
        )
    if report.verdict.state == "not_compared":
        raise AuditError(
            "This audit compared a model with itself: there is nothing to judge.",
            do="Choose the model before the hospital's notes, and the model after them.",
        )
    return report, inspection


def _make_question(report: AuditReport, *, control_source: str, sibling: str) -> dict[str, Any]:
    """Return the question of an audit that is judged by today's rule."""
    return dict(report.question) | {
        "control_source": control_source,
        "sibling": sibling,
        "judged_by_rule": RULE_VERSION,
    }


def read_attack(report: AuditReport, inspection: Inspection, *, store: Store) -> AttackResult:
    """Return all that judging needs: the stored scores of names and parts, and the list."""
    listed = read_list(report, store=store)
    parts, part_residual = _read_parts(report, inspection, listed)
    n_reference = len(inspection.reference_score)
    general = inspection.reference_general
    if len(general) != n_reference:
        general = np.full(n_reference, math.nan)
    general_score = GENERAL_SCORE[report.scenario.number]
    scores = {
        report.fixed_score: _with_references(
            [report.names["score"], report.names["standard_error"]], inspection.reference_score
        ),
        general_score: _with_references([_general_scores(report), [None] * len(listed)], general),
    }
    listed_pieces = np.array(report.names["n_pieces"], dtype=np.int64)
    return AttackResult(
        listed=listed,
        popularity=_to_floats(report.names["popularity"]),
        scenario=report.scenario.number,
        scores=scores,
        n_pieces=np.concatenate([listed_pieces, inspection.reference_n_pieces]),
        parts=parts,
        part_residual=part_residual,
        block_counts=np.asarray(inspection.n_per_block),
        prefix_scores=lambda _: scores,
        has_evidence="no_evidence" not in report.verdict.reasons,
        pair_evidence=inspection.pair_evidence,
    )


def read_list(report: AuditReport, *, store: Store) -> Candidates:
    """Return the audited list from the store, or else from the report's table of names."""
    code = find_names_code(str(report.question.get("candidates", "")), store=store)
    if code:
        return load_names(code, store=store).candidates
    names = report.names
    n = report.n_names
    listed = make_candidates(list(zip(names["first_name"], names["last_name"], strict=True)))
    has_guessed_kinds = any(note.key == GUESSED_KINDS for note in report.notes)
    return Candidates(
        first=listed.first,
        last=listed.last,
        is_member=tuple(None if truth is None else bool(truth) for truth in names["is_member"]),
        control_kind=tuple(names["control_kind"]),
        role=tuple(names["role"]),
        sex=listed.sex,
        n_mentions=tuple(names["n_mentions"]),
        is_kind_guessed=tuple(has_guessed_kinds and truth == 0 for truth in names["is_member"]),
        n_others_first=tuple(names.get("n_others_first", (None,) * n)),
        n_others_last=tuple(names.get("n_others_last", (None,) * n)),
    )


def _general_scores(report: AuditReport) -> list[float | None]:
    """Return the scores of the listed names by M_general alone."""
    name = GENERAL_SCORE[report.scenario.number]
    kind = find_score_kind(name, scenario=report.scenario.number)
    column = kind.column if kind is not None and kind.column else name
    return list(report.names.get(column, [None] * report.n_names))


def _read_parts(
    report: AuditReport, inspection: Inspection, listed: Candidates
) -> tuple[NameParts, FloatArray]:
    """Return the parts of all names, and what M_hospital adds to M_general on each [U].

    Audits of rule 1 stored no parts of their reference controls. Here each of these controls gets
    two parts of its own, without a residual.
    """
    n, n_reference = len(listed), len(inspection.reference_score)
    if len(inspection.part_columns) == n + n_reference:
        parts = NameParts(
            of_name=inspection.part_columns.astype(np.int64),
            log_share=inspection.part_log_share,
            n_pieces=inspection.part_n_pieces,
            is_last=inspection.part_is_last,
            is_known=np.ones(len(inspection.part_residual), dtype=np.bool_),
        )
        return parts, inspection.part_residual
    places: dict[tuple[int, str], int] = {}
    columns: IntArray = np.full((n, 2), -1)
    residual: list[float] = []
    residuals = (report.names["first_residual"], report.names["last_residual"])
    for role, texts in enumerate((listed.first, listed.last)):
        for row, text in enumerate(texts):
            if text:
                columns[row, role] = places.setdefault((role, fold_name(text)), len(places))
            if len(residual) < len(places):
                residual.append(_to_floats([residuals[role][row]])[0])
    reference_columns = len(places) + np.arange(2 * n_reference).reshape(n_reference, 2)
    n_parts = len(places) + 2 * n_reference
    parts = NameParts(
        of_name=np.concatenate([columns, reference_columns]),
        log_share=np.zeros(n_parts),
        n_pieces=np.ones(n_parts, dtype=np.int64),
        is_last=np.array([*(role == 1 for role, _ in places), *[False, True] * n_reference]),
        is_known=np.ones(n_parts, dtype=np.bool_),
    )
    return parts, np.concatenate([residual, np.full(2 * n_reference, math.nan)])


def _with_references(listed: Sequence[Sequence[float | None]], reference: FloatArray) -> FloatArray:
    """Return a score and its standard error [2, N + R]; references have no standard error."""
    errors = np.full(len(reference), math.nan)
    return np.stack(
        [
            np.concatenate([_to_floats(column), reference_numbers])
            for column, reference_numbers in zip(listed, (reference, errors), strict=True)
        ]
    )


def _to_floats(column: Sequence[float | None]) -> FloatArray:
    return np.array([math.nan if number is None else number for number in column], dtype=np.float64)
