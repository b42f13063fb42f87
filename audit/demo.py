"""The audits of the demo hospital, and the self-test.

The demo's models and lists are shipped (`audit/demo_hospital`) and made by
`benchmarks/demo_hospital.py`. The self-test checks an installation: it must find a planted leak,
and none in a null pair (M_general further trained on the same notes with other names).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from audit.attack.plan import list_phases
from audit.attack.question import (
    DEMO_CAUSAL_PROMPT,
    JAPANESE_PROMPT,
    AuditRequest,
    ContinuationSettings,
    GenerationSettings,
    PosteriorSettings,
    SamplingSettings,
    equal_models_error,
)
from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL, results_dir
from audit.names.files import read_names
from audit.notes.passages import read_passages
from audit.progress import Meter, ProgressListener, combine_phases
from audit.report.audit_store import keep_demo_digests, read_demo_digests
from audit.report.report import AuditReport
from audit.run import AuditTask, import_engine, run_audit
from audit.task import MAX_SEED, Contact, Device, Question, Task, queue_of
from cache.store import Store

HOSPITAL = "hospital-40"
SIBLING = "hospital-20"
EXPOSURES = ("hospital-1.6", "hospital-5", "hospital-20")
CAUSAL_HOSPITAL, CAUSAL_SIBLING = "hospital-20", "hospital-5"
CAUSAL_EXPOSURES = ("hospital-1.6", "hospital-5", "adapter-5", "adapter-20")


_N_CAUSAL_PASSAGES = 40


class DemoTask(Task):
    """The audits of the demo hospital: sizes for a first result within a minute on two cores."""

    job = "demo"
    is_awaited = True
    flags: ClassVar = {"all_of_them": "--exposures"}

    n_documents: int = Field(default=300, description="documents of scenario 1")
    n_inputs: int = Field(default=2000, description="inputs of scenario 2")
    language: Literal["en", "ja"] = Field(default="en", description="of the demo hospital")
    is_causal: bool = Field(
        default=False, description="the causal models of the English hospital, and its adapters"
    )
    all_of_them: bool = Field(
        default=False,
        description="also the other exposures, the null pair and the Japanese hospital",
    )
    directory: Path | None = None
    """The folder of another demo hospital than the shipped one, for self-test and benchmarks."""
    seed: int = Field(default=0, ge=0, le=MAX_SEED, description="of all that is drawn")
    device: Device = Field(default="auto", description="where models run")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.is_causal and self.language != "en":
            raise AuditError(
                "The demo hospital has causal models in English only.",
                where="language",
                do="Choose English.",
            )
        return self

    def request(self, scenario: int, *, hospital: str = "", language: str = "en") -> AuditRequest:
        """Return the request that audits one of the demo's hospital models, in "en" or "ja".

        `hospital` is its folder: "hospital-1.6", "null", "general" and others, and "adapter-5" and
        "adapter-20" of the causal ones; without it, the one that saw the notes most often.
        """
        folder = (self.directory or DEMO_HOSPITAL) / language
        models = folder / ("causal" if self.is_causal else "models")
        hospital = hospital or (CAUSAL_HOSPITAL if self.is_causal else HOSPITAL)
        names, passages = (
            (folder / file_name).read_bytes() for file_name in ("names.csv", "passages.jsonl")
        )
        prompt: dict[str, Any] = {"prompt": JAPANESE_PROMPT} if language == "ja" else {}
        passage_set = read_passages(passages, subject="demo passages", file_name="passages.jsonl")
        candidates = read_names(names, subject="demo names").candidates.with_source("invented")
        return AuditRequest(
            scenario_number=scenario,
            general=models / "general",
            hospital=models / hospital,
            candidates=candidates,
            passages=passage_set if scenario == 2 else None,
            generation=GenerationSettings(n_documents=self.n_documents, **prompt),
            posterior=PosteriorSettings(n_inputs=self.n_inputs, n_chain_inputs=0),
            sampling=SamplingSettings(n_documents=self.n_documents, prompt=DEMO_CAUSAL_PROMPT),
            continuation=ContinuationSettings(n_inputs=min(self.n_inputs, _N_CAUSAL_PASSAGES)),
            seed=self.seed,
            device=self.device,
        )

    def requests(self) -> dict[str, AuditRequest]:
        """Return the demo's audits by name, the headline ones first."""
        names = (
            {2: "continuation", 1: "sampling"}
            if self.is_causal
            else {2: "masked_lm", 1: "generation"}
        )
        end = "" if self.language == "en" else f" {self.language}"
        audits = {
            f"{name}{end}": self.request(scenario, language=self.language)
            for scenario, name in names.items()
        }
        if not self.all_of_them:
            return audits
        for hospital in (*(CAUSAL_EXPOSURES if self.is_causal else EXPOSURES), "null"):
            for scenario, name in names.items():
                audits[f"{name} {hospital}"] = self.request(scenario, hospital=hospital)
        sibling = CAUSAL_SIBLING if self.is_causal else SIBLING
        for name in names.values():
            # The null pair's sibling is a model of the same recipe whose names are known.
            sibling_digest = audits[f"{name} {sibling}"].audit_digest()
            audits[f"{name} null"] = audits[f"{name} null"].with_(sibling=sibling_digest)
        if not self.is_causal:
            audits["masked_lm ja"] = self.request(2, language="ja")
        return audits

    def question(self) -> Question:
        """Return the question that the demo's audits answer."""
        requests = tuple(self.requests().values())
        digests = tuple(request.audit_digest() for request in requests)
        label = f"{requests[0].general.name} → {requests[0].hospital.name}"
        return self.make_question(
            label=label, about=digests, device=queue_of(self.device), audits=digests
        )

    @classmethod
    def read_answer(cls, question: Question) -> tuple[str, ...]:
        """Return the digests of the demo's audits if all are kept and noted as the demo's."""
        with Store(results_dir()) as store:
            demo_audits = set(read_demo_digests(store).values())
        return AuditTask.read_answer(question) if set(question.audits) <= demo_audits else ()

    @classmethod
    def import_engine(cls) -> None:
        """Import torch and all that an audit needs, which takes seconds."""
        import_engine()

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Audit the demo hospital, and record which audits belong to the demo."""
        requests = self.requests()
        meter = Meter(
            [
                combine_phases(name, list_phases(audit_request), kind="audit")
                for name, audit_request in requests.items()
            ],
            listener=contact.listen,
        )
        digests: list[str] = []
        with Store(results_dir()) as store:
            for name, request in requests.items():
                contact.say(f"Demo audit, of a made-up hospital: {name}")
                report = run_audit(
                    request,
                    store=store,
                    progress=meter.make_listener(name),
                    should_stop=contact.should_stop,
                )
                meter.finish(name)
                contact.say(f"{report.verdict.in_short('en')} {report.verdict.english}")
                keep_demo_digests({name: report.digest}, store=store)
                digests.append(report.digest)
        return tuple(digests)


def report_summary(report: AuditReport) -> dict[str, Any]:
    """Return one report's headline figures as plain values: each rule and score, by stratum.

    It also has the figures of the same attack on M_general and of trivial guesses.
    """
    report_fields = report.to_json()
    strata = {
        name: {
            "rules": _shorten_each(_shorten_rule, measured["rules"]),
            "rules_on_general": _shorten_each(_shorten_rule, measured["baseline_rules"]),
            "scores": _shorten_each(_shorten_ranking, measured["scores"]),
            "held_out": _shorten_each(_shorten_rule, measured["held_out"]),
            "trivial_guesses": {"always_member": _shorten_rule(measured["always_member"])}
            | _shorten_each(_shorten_ranking, measured["baselines"]),
        }
        for name, measured in report_fields["measures"]["strata"].items()
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
        "mentions": report_fields["mentions"],
        "canaries": report_fields["details"].get("canaries"),
        "roles": report_fields["details"].get("roles") or [],
    }


def _shorten_each(shorten: Any, measures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: shorten(measure) for name, measure in measures.items()}


def _shorten_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    counts = rule["confusion"]
    return {key: counts[key] for key in ("tp", "fn", "fp", "tn")} | {
        "f1": rule["f1"]["value"],
        **{key: counts[key]["value"] for key in ("accuracy", "precision", "recall")},
    }


def _shorten_ranking(score: Mapping[str, Any]) -> dict[str, Any]:
    auc = score["auc"]
    return {
        "auc": auc["value"],
        "auc_low": auc["low"],
        "auc_high": auc["high"],
        "tpr_at_fpr": {fpr: tpr["value"] for fpr, tpr in score["tpr_at_fpr"].items()},
        "n_not_scored": score["n_not_scored"],
    }


MIN_NULL_P = 0.01
"""By chance a correct installation fails the null check in one of a hundred demos. The demo's seeds
are fixed, so a given release either always passes or never does."""


@dataclass(frozen=True)
class Check:
    """One check of the self-test and its finding."""

    name: str
    has_passed: bool
    found: str


def self_test(
    directory: Path, *, store: Store, device: Device, progress: ProgressListener
) -> tuple[Check, ...]:
    """Audit the planted, the null and the identical pair; trust only if every check passed."""
    task = DemoTask(n_documents=200, n_inputs=1000, device=device, directory=directory)
    checks = []
    for hospital, case in ((HOSPITAL, "planted leak"), ("null", "null pair")):
        for scenario in (2, 1):
            request = task.request(scenario, hospital=hospital)
            report = run_audit(request, store=store, progress=progress)
            has_passed, finding = (_check_planted if hospital == HOSPITAL else _check_null)(report)
            checks.append(Check(f"{case}, scenario {scenario}", has_passed, finding))
    try:
        finding = run_audit(task.request(2, hospital="general"), store=store).verdict.state
    except AuditError as refused:
        finding = str(refused)
    return (*checks, Check("same model twice", finding == str(equal_models_error()), finding))


def _check_planted(report: AuditReport) -> tuple[bool, str]:
    """Check that a planted leak is found, with intervals above one half for all controls."""
    aucs = {
        kind: report.measures.strata[kind].scores[report.fixed_score].auc
        for kind in ("easy", "hard")
    }
    state = report.verdict.state
    auc_text = ", ".join(
        f"{k} {a.value:.3f} ({a.low:.3f} to {a.high:.3f})" for k, a in aucs.items()
    )
    is_above = all(auc.low > 0.5 for auc in aucs.values())
    return state == "leak_found" and is_above, f"{state}; AUC {auc_text}"


def _check_null(report: AuditReport) -> tuple[bool, str]:
    """Check that listed members, who are not in the null pair's notes, score like controls."""
    null_check, n_flagged = report.details.null_check, report.verdict.n_flagged
    p = null_check.ks_p if null_check else math.nan
    summary = f"{n_flagged} names flagged; Kolmogorov-Smirnov p = {p:.3f}"
    return p > MIN_NULL_P and n_flagged == 0, summary
