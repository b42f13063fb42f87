"""Reports from made-up scores, judged by the engine's own judgement; no model and no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from audit.attack.judgement import judge
from audit.attack.question import CAUSAL, SCENARIOS, SETTINGS
from audit.attack.scores import FIXED_SCORE
from audit.home import results_dir
from audit.names.candidates import Candidates, ControlSource, make_candidates
from audit.notes.passages import Passage
from audit.report.audit_store import keep_demo_digests, keep_report
from audit.report.report import AuditReport, Inspection, find_best_passages
from cache.store import Store
from tests.attack.planted_table import SCORES, given_attack

Reports = dict[str, AuditReport]
"""The demo's two, by attack."""
N_PER_KIND = 24
N_REFERENCE = 600


def _numbered(first: str, last: str, *numbers: int) -> list[tuple[str, str]]:
    return [(f"{first}{i}", f"{last}{i}") for i in numbers]


MEMBERS = [
    *_numbered("Sophia", "Wright", *range(12)),
    *_numbered("Emil", "Zorn", *range(12, N_PER_KIND)),
]
EASY = [
    *_numbered("Emil", "Zorn", *range(8)),
    *_numbered("Sophia", "Wright", *range(30, 46)),
]
"""Spelt so much like the members that no guard tells them apart."""


def make_names(
    *, has_truth: bool = True, members: Sequence[tuple[str, str]] = MEMBERS
) -> Candidates:
    """Return members with 1 to 12 mentions, easy and hard controls; or members of unknown truth."""
    n_mentions = [(1, 1, 2, 3, 6, 12)[i % 6] for i in range(len(members))]
    if not has_truth:
        return make_candidates(members)
    hard = [(first, f"Other{i}") for i, (first, _) in enumerate(members)]
    return (
        make_candidates(members, is_member=True, n_mentions=n_mentions)
        + make_candidates(EASY, is_member=False, control_kind="easy")
        + make_candidates(hard, is_member=False, control_kind="hard")
    )


def make_reference_reports(*generals: str, **how: Any) -> list[AuditReport]:
    """Return one report for each general model, otherwise asked alike; the first leaks most."""
    reports = [
        make_report(general=general, leak=4.0 - place, at=f"2026-11-2{place}T10:00:00", **how)
        for place, general in enumerate(generals)
    ]
    return [
        report.changed(question={"scenario": 2, "general": general, "hospital": "digest"})
        for report, general in zip(reports, generals, strict=True)
    ]


def make_special_names(n_canaries: int = 24) -> Candidates:
    """Return `make_names` with roles, and canaries planted 1, 2, 4 and 8 times with their twins."""
    names = make_names()
    names = replace(names, role=("patient", "staff", "staff") * N_PER_KIND)
    planted = make_candidates(
        [(f"Nevah{i}", f"Was{i}") for i in range(n_canaries)],
        is_member=True,
        n_mentions=[2 ** (i % 4) for i in range(n_canaries)],
    )
    twins = [(f"Neither{i}", f"Is{i}") for i in range(n_canaries)]
    planted += make_candidates(twins, is_member=False, control_kind="canary")
    return names + replace(planted, role=("canary",) * 2 * n_canaries)


def make_report(
    scenario: int = 2,
    *,
    leak: float = 4.0,
    has_truth: bool = True,
    hospital: str = "hospital-40",
    members: Sequence[tuple[str, str]] = MEMBERS,
    at: str = "2026-11-20T10:00:00+00:00",
    notes: Sequence[str] = (),
    names: Candidates | None = None,
    general: str = "general",
    control_source: ControlSource = "invented",
) -> AuditReport:
    """Return a report in which members score `leak` standard deviations above controls."""
    names = names or make_names(has_truth=has_truth, members=members)
    names = replace(names, row=tuple(range(2, len(names) + 2)))  # as read from a file
    rng = np.random.default_rng(scenario)
    n, is_member = len(names), np.array([m is not False for m in names.is_member])
    planted = np.concatenate([leak * is_member, np.zeros(N_REFERENCE)])
    scores = {}
    for formula in SCORES[scenario]:
        value = rng.normal(size=n + N_REFERENCE)
        if not formula.startswith("general"):
            value = value + planted
        if formula != "residual" and (scenario == 1 or formula.endswith("posterior")):
            value = np.where(value < -1, 0.0, np.exp(value) * 1e-4)
        scores[formula] = np.stack([value, np.full(n + N_REFERENCE, 0.05)])
    attack = given_attack(
        names, scores, scenario=scenario, n_reference=N_REFERENCE, counts=[50] * 20
    )
    judged = judge(attack, control_source=control_source, seed=0)
    details = judged.details.to_json()
    details.pop("null_check", None)
    text = f"{scenario} {leak} {has_truth} {hospital} {at}" + general.removeprefix("general")
    return AuditReport.from_parts(
        digest=sha256(text.encode()).hexdigest(),
        question={"scenario": scenario},
        scenario=SCENARIOS[scenario].plain(),
        models={"general": {"name": general}, "hospital": {"name": hospital}},
        candidates={"n_names": n, "n_reference": N_REFERENCE},
        fixed_score=FIXED_SCORE,
        columns=list(judged.names),
        notes=list(notes),
        made={"at": at},
        names=judged.names,
        measures=judged.measures,
        verdict=judged.verdict,
        curve=judged.curve,
        mentions=judged.mentions,
        details=details,
    )


def make_causal_report(scenario: int) -> AuditReport:
    """Return `make_report` as one of causal models; in scenario 1 every other member is written."""
    report = make_report(scenario)
    names, settings = dict(report.names), SETTINGS[True, scenario]()
    if scenario == 1:
        is_written = [
            bool(truth) and place % 2 == 0 for place, truth in enumerate(names["is_member"])
        ]
        names["hospital_recall"] = [0.01 if is_there else 0.0 for is_there in is_written]
        names["general_recall"] = [0.0] * len(is_written)
    return report.changed(
        digest=sha256(f"causal {report.digest}".encode()).hexdigest(),
        question={"scenario": scenario, "kind": CAUSAL, "settings": settings.plain()},
        names=names,
        columns=list(names),
    )


def bare_report(**parts: Any) -> AuditReport:
    """Return a report that says nothing but what is given, and that a leak was found."""
    bare: dict[str, Any] = {
        "question": {},
        "models": {},
        "candidates": {},
        "details": {},
        "made": {},
        "curve": (),
        "mentions": (),
        "notes": (),
        "verdict": {"state": "leak_found"},
        "columns": list(parts["names"]),
    }
    return AuditReport.from_parts(**bare | parts)


def keep(
    *reports: AuditReport,
    inspection: Inspection | None = None,
    documents: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Keep reports where the app looks for them, and what lies behind the last of them."""
    with Store(results_dir()) as store:
        for report in reports[:-1]:
            keep_report(report, store=store)
        keep_report(reports[-1], inspection=inspection, documents=documents, store=store)


def keep_demo(reports: Reports) -> None:
    """Keep two reports as `python -m audit demo` does."""
    keep(*reports.values())
    with Store(results_dir()) as store:
        digests = {name: report.digest for name, report in reports.items()}
        keep_demo_digests(digests, store=store)


def make_inspection(
    report: AuditReport, *, n_blocks: int = 10, passages: Sequence[Passage] = ()
) -> Inspection:
    """Return what could lie behind a report: blocks around its numbers, controls of two pieces."""
    rng, n = np.random.default_rng(1), report.n_names
    is_member = np.array([m != 0 for m in report.names["is_member"]])
    general = rng.normal(-12, 0.2, size=(n_blocks, n))
    hospital = general + 4.0 * is_member + rng.normal(0, 0.1, size=(n_blocks, n))
    if report.scenario.number == 1:
        hospital, general = np.exp(hospital), np.where(is_member, 0.0, np.exp(general))
    rows, ratios = find_best_passages(rng.normal(size=(len(passages), n)))
    return Inspection(
        n_per_block=np.full(n_blocks, 100),
        hospital=hospital.astype(np.float32),
        general=general.astype(np.float32),
        reference_score=np.exp(rng.normal(-9, 1, size=N_REFERENCE))
        if report.scenario.number == 1
        else rng.normal(size=N_REFERENCE),
        reference_n_pieces=np.full(N_REFERENCE, 2),
        best_passages=rows,
        best_log_ratio=ratios,
        passages=tuple(passages),
    )
