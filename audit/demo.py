"""The demo: audits of the demo hospital's models, with the pictures they are there to teach.

Comes in: a store. Goes out: reports of both scenarios and a summary. The demo's models and lists
are shipped (`audit/demo_hospital`), made by `demo_build.py`. Torch-free until it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.attack.question import (
    JAPANESE_PROMPT,
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
)
from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL
from audit.models.inspect import model_digest
from audit.names.files import read_names
from audit.notes.passages import read_passages
from audit.report.report import AuditReport

HOSPITAL = "hospital-40"
EXPOSURES = ("hospital-1.6", "hospital-5", "hospital-20")
REMEMBERED = "demo/digests"
N_DOCUMENTS = 300
N_INPUTS = 2000
"""The Japanese notes' way of naming a patient; ten masks hold service, heading and name."""


@dataclass(frozen=True)
class DemoSettings:
    """Sizes of a demo run: small enough for a first result within a minute on two cores."""

    n_documents: int = N_DOCUMENTS
    n_inputs: int = N_INPUTS
    n_chain_inputs: int = 0
    seed: int = 0
    device: str = "auto"


def demo_request(
    scenario: int,
    *,
    settings: DemoSettings | None = None,
    hospital: str = HOSPITAL,
    language: str = "en",
    directory: Path = DEMO_HOSPITAL,
) -> AuditRequest:
    """Return the request that audits one of the demo's hospital models.

    Parameters
    ----------
    hospital
        Folder of the model: "hospital-1.6", ..., "hospital-40", "null", or "general".
    language
        "en" or "ja".
    """
    settings = settings or DemoSettings()
    folder = directory / language
    try:
        names = read_names((folder / "names.csv").read_bytes(), what="demo names").candidates
        passages = read_passages(
            (folder / "passages.jsonl").read_bytes(),
            what="demo passages",
            file_name="passages.jsonl",
        )
    except OSError:
        raise AuditError(
            "The demo's files are missing.", do="Make them with: python -m audit demo --retrain"
        ) from None
    generation = GenerationSettings(n_documents=settings.n_documents)
    if language == "ja":
        generation = GenerationSettings(n_documents=settings.n_documents, prompt=JAPANESE_PROMPT)
    return AuditRequest(
        scenario_number=scenario,
        general=folder / "models" / "general",
        hospital=folder / "models" / hospital,
        candidates=names,
        passages=passages if scenario == 2 else None,
        generation=generation,
        posterior=PosteriorSettings(
            n_inputs=settings.n_inputs, n_chain_inputs=settings.n_chain_inputs
        ),
        seed=settings.seed,
        device=settings.device,
    )


def demo_audits(*, all_of_them: bool) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the demo's audits as (name, arguments of `demo_request`), the headline ones first."""
    audits: list[tuple[str, dict[str, Any]]] = [
        ("masked_lm", {"scenario": 2}),
        ("generation", {"scenario": 1}),
    ]
    if all_of_them:
        for hospital in (*EXPOSURES, "null"):
            audits.append((f"masked_lm {hospital}", {"scenario": 2, "hospital": hospital}))
            audits.append((f"generation {hospital}", {"scenario": 1, "hospital": hospital}))
        audits.append(("masked_lm ja", {"scenario": 2, "language": "ja"}))
    return tuple(audits)


def remember(reports: Mapping[str, AuditReport], *, store: Any) -> None:
    """Note which kept audits are the demo's, so that every screen can say so."""
    known = demo_digests(store)
    store.put_record(REMEMBERED, known | {name: report.digest for name, report in reports.items()})


def demo_digests(store: Any) -> dict[str, str]:
    """Return the digests of the demo's audits by name; empty before the first demo run."""
    found = store.get_record(REMEMBERED)
    return dict(found) if isinstance(found, dict) else {}


def is_demo(report: AuditReport, *, digests: Mapping[str, str]) -> bool:
    """Whether an audit is of a made-up hospital: one of the demo's, or of a model shipped for it.

    The shipped model is known by its weights, so that an audit of the demo is known as such while
    the demo still runs, and when somebody asks it by hand. `digests` are those of `demo_digests`.
    """
    return report.digest in digests.values() or report.models["hospital"].digest in _shipped()


@functools.cache
def _shipped() -> frozenset[str]:
    """Return the digests of all models of the demo hospital."""
    folders = [folder for folder in DEMO_HOSPITAL.glob("*/models/*") if folder.is_dir()]
    return frozenset(map(model_digest, folders))


def demo_summary(reports: Mapping[str, AuditReport]) -> dict[str, Any]:
    """Return what `demo --json` prints: for each audit, by stratum, each rule and score.

    Beside every figure of the attack stand the same attack on M_general and the trivial guesses.
    """
    return {name: report_summary(report) for name, report in reports.items()}


def report_summary(report: AuditReport) -> dict[str, Any]:
    """Return one report's headline figures as plain values."""
    strata = {}
    whole = report.to_json()
    for stratum, measured in whole["measures"]["strata"].items():
        strata[stratum] = {
            "rules": {name: _rule(rule) for name, rule in measured["rules"].items()},
            "rules_on_general": {
                name: _rule(rule) for name, rule in measured["baseline_rules"].items()
            },
            "scores": {name: _ranking(score) for name, score in measured["scores"].items()},
            "held_out": {name: _rule(rule) for name, rule in measured["held_out"].items()},
            "trivial_guesses": {
                "always_member": _rule(measured["always_member"]),
                **{name: _ranking(score) for name, score in measured["baselines"].items()},
            },
        }
    return {
        "digest": report.digest,
        "scenario": report.scenario.number,
        "general": report.models["general"].name,
        "hospital": report.models["hospital"].name,
        "fixed_score": report.fixed_score,
        "verdict": report.verdict.state,
        "sentence": report.verdict.english,
        "sentence_ja": report.verdict.japanese,
        "strata": strata,
        "mentions": whole["mentions"],
        "cohort": whole["cohort"],
        "canaries": whole["details"].get("canaries"),
        "roles": whole["details"].get("roles") or [],
    }


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    counts = rule["confusion"]
    return {key: counts[key] for key in ("tp", "fn", "fp", "tn")} | {
        "f1": rule["f1"]["value"],
        **{key: counts[key]["value"] for key in ("accuracy", "precision", "recall")},
    }


def _ranking(score: Mapping[str, Any]) -> dict[str, Any]:
    auc = score["auc"]
    return {
        "auc": auc["value"],
        "auc_low": auc["low"],
        "auc_high": auc["high"],
        "tpr_at_fpr": {fpr: tpr["value"] for fpr, tpr in score["tpr_at_fpr"].items()},
        "n_not_scored": score["n_not_scored"],
    }
