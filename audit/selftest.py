"""Self-test: does this installation find a planted leak, and none where there is none?

Comes in: the demo's models, one with a planted leak, one null pair (M_general further trained on
the same notes with other names). Goes out: checks, each passed or not, with what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from audit.attack.question import equal_models
from audit.attack.verdict import State
from audit.demo import HOSPITAL, DemoSettings, demo_request
from audit.errors import AuditError
from audit.progress import ProgressListener
from audit.report.report import AuditReport
from audit.run import run_audit
from cache.store import Store

LEAK_FOUND: State = "leak_found"
N_INPUTS = 1000
N_DOCUMENTS = 200
MIN_NULL_P = 0.01
"""A right installation fails the null check by chance in one of a hundred demos; the demo's seeds
are fixed, so a given release either passes or does not."""


@dataclass(frozen=True)
class Check:
    """One check and what was found."""

    name: str
    has_passed: bool
    found: str


def self_test(
    directory: Path, *, store: Store, seed: int, device: str, progress: ProgressListener
) -> tuple[Check, ...]:
    """Run the planted, the null and the identical pair; trusted only if every check passed."""
    settings = DemoSettings(n_documents=N_DOCUMENTS, n_inputs=N_INPUTS, seed=seed, device=device)

    def report(scenario: int, hospital: str) -> AuditReport:
        request = demo_request(scenario, settings=settings, hospital=hospital, directory=directory)
        return run_audit(request, store=store, progress=progress)

    return (
        _planted("planted leak, scenario 2", report(2, HOSPITAL)),
        _planted("planted leak, scenario 1", report(1, HOSPITAL)),
        _null("null pair, scenario 2", report(2, "null")),
        _null("null pair, scenario 1", report(1, "null")),
        _identical("same model twice", lambda: report(2, "general")),
    )


def _planted(name: str, report: AuditReport) -> Check:
    """A planted leak must be found, with an interval above one half on hard controls too."""
    aucs = {
        kind: report.measures.strata[kind].scores[report.fixed_score].auc
        for kind in ("easy", "hard")
    }
    state = report.verdict.state
    has_passed = state == LEAK_FOUND and all(auc.low > 0.5 for auc in aucs.values())
    shown = ", ".join(f"{k} {a.value:.3f} ({a.low:.3f} to {a.high:.3f})" for k, a in aucs.items())
    return Check(name, has_passed, f"{state}; AUC {shown}")


def _null(name: str, report: AuditReport) -> Check:
    """Members of the list were not in the null pair's notes: they must score like controls."""
    found, n_flagged = report.details.null_check, report.verdict.n_flagged
    p = found.ks_p if found else math.nan
    has_passed = p > MIN_NULL_P and n_flagged == 0
    return Check(name, has_passed, f"{n_flagged} names flagged; Kolmogorov-Smirnov p = {p:.3f}")


def _identical(name: str, audit: Callable[[], AuditReport]) -> Check:
    """A model compared with itself must not be judged."""
    try:
        state = audit().verdict.state
    except AuditError as refused:
        return Check(name, str(refused) == str(equal_models()), str(refused))
    return Check(name, False, state)
