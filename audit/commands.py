"""What each command of the command line does: read files, call the engine, say what came out."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from audit import demo as demo_hospital
from audit.console import progress_line
from audit.console import say as _say
from audit.corpora.passages import Passages, read_passages
from audit.errors import AuditError
from audit.home import data_home, results_dir
from audit.job_commands import answered, kept_report
from audit.jobs.kinds import demo_order
from audit.jobs.service import audit_question, demo_question
from audit.membership.candidates import GUESSED_KINDS, guessed_kinds
from audit.membership.controls import with_controls
from audit.membership.names_csv import read_names
from audit.membership.plain import plain
from audit.membership.prompts import piece_counter
from audit.membership.score_file import score_file
from audit.membership.verdict import REASONS
from audit.models.registry import model_path
from audit.prepare.pair_check import tokenizer
from audit.progress import Progress
from audit.report import AuditReport, write_report
from audit.request import AuditRequest, GenerationSettings, PosteriorSettings
from audit.tables import read_table
from audit.view.reference_view import MAX_REFERENCES, reference_view
from cache.store import Store

MAX_FILE_BYTES = 200_000_000


def run(options: Namespace) -> dict[str, Any]:
    """Audit a pair of models."""
    names = read_names(_bytes(options.names), what="names")
    _say(f"{len(names.candidates)} names read ({names.encoding}).")
    for note in names.notes:
        _say(f"names, row {note.row}: {note.what}")
    candidates = names.candidates
    if options.draw_controls:
        n_given, n = len(candidates), options.draw_controls
        spelt = tokenizer(model_path(options.hospital, where="--hospital"))
        candidates = with_controls(
            candidates, n_easy=n, n_hard=n, seed=options.seed, count_pieces=piece_counter(spelt)
        )
        _say(f"Drawn: {len(candidates) - n_given} controls.")
    if kinds := guessed_kinds(candidates):
        _say(GUESSED_KINDS.format(**kinds))
    request = AuditRequest(
        scenario_number=options.scenario,
        general=model_path(options.general, where="--general"),
        hospital=model_path(options.hospital, where="--hospital"),
        candidates=candidates,
        passages=_passages(options.passages) if options.scenario == 2 else None,
        generation=_generation_settings(options),
        posterior=PosteriorSettings(
            n_inputs=options.inputs,
            n_chain_inputs=options.chain_inputs,
            is_dropout_on=not options.no_dropout,
            micro_batch=options.micro_batch,
            max_tokens=options.max_tokens,
        ),
        seed=options.seed,
        threshold=options.threshold,
        dtype=options.dtype,
        device=options.device,
    )
    paths = [model_path(one, where="--reference") for one in options.reference or ()]
    if len(paths) > MAX_REFERENCES:
        raise AuditError(f"At most {MAX_REFERENCES} can be compared.", where="--reference")
    report = _audited(request, out=options.out)
    result = _summary(report)
    if paths:
        out: Path | None = options.out
        others = []
        for number, path in enumerate(paths, start=1):
            _say(f"The same audit with reference {number} in the general model's place.")
            folder = out / f"reference-{number}" if out else None
            others.append(_audited(replace(request, general=path), out=folder))
        result["references"] = _beside(report, others)
    return result


def _audited(request: AuditRequest, *, out: Path | None) -> AuditReport:
    """Answer one question, say its verdict, and write its files."""
    (digest,) = answered(audit_question(request))
    with Store(results_dir()) as store:
        report = kept_report(digest, store=store)
        documents = store.get_record(f"documents/{digest}") or {}
    _say(str(report.verdict["english"]))
    for code in report.verdict["reasons"]:
        _say(f"Reason: {REASONS.get(code, code)}")
    if now := report.verdict.get("what_now"):
        _say(f"What now: {now['english']}")
    for note in report.notes:
        _say(f"Note: {note}")
    if canaries := report.details.get("canaries"):
        _say(str(canaries["english"]))
    if out:
        for path in write_report(report, out, documents=documents):
            _say(f"Written: {path.name}")
    return report


def _summary(report: AuditReport) -> dict[str, Any]:
    return {
        **demo_hospital.report_summary(report),
        "notes": list(report.notes),
        "made": dict(report.made),
    }


def _beside(report: AuditReport, others: list[AuditReport]) -> list[dict[str, Any]]:
    """Return each reference's audit, and this one's differences from it, paired by name."""
    view = reference_view(report, others=others)
    for line in view.lines:
        for one in line.strata:
            interval = f"{one.auc.low:.3f} to {one.auc.high:.3f}"
            _say(f"{line.name}: AUC {one.auc.value:.3f} ({interval}), {one.stratum} controls, "
                 f"{one.n_members} members, {one.n_controls} controls")  # fmt: skip
    return [
        {**_summary(other), "difference": plain(difference)}
        for other, difference in zip(others, view.differences, strict=True)
    ]


def demo(options: Namespace) -> dict[str, Any]:
    """Audit the demo hospital, after making it again if asked to."""
    directory: Path | None = options.directory
    if options.retrain:
        directory = options.directory or data_home() / f"demo-seed-{options.seed}"
        _retrain(directory, seed=options.seed)
    settings = demo_hospital.DemoSettings(seed=options.seed, device=options.device)
    if options.documents is not None:
        settings = replace(settings, n_documents=options.documents)
    if options.inputs is not None:
        settings = replace(settings, n_inputs=options.inputs)
    order = demo_order(settings, all_of_them=options.exposures, directory=directory)
    digests = answered(demo_question(order))
    names = [name for name, _ in demo_hospital.demo_audits(all_of_them=options.exposures)]
    with Store(results_dir()) as store:
        reports = {n: kept_report(d, store=store) for n, d in zip(names, digests, strict=True)}
    return demo_hospital.demo_summary(reports)


def score(options: Namespace) -> dict[str, Any]:
    """Measure any scores with known truth; needs no model."""
    table = read_table(_bytes(options.scores), what="scores")
    columns = {name.strip().lower(): i for i, name in enumerate(table.header)}
    if "score" not in columns or "is_member" not in columns:
        raise AuditError(
            "The file needs the columns `score` and `is_member`.", where="scores",
            do="Write a CSV with a header line, one name a row; is_member is 1 or 0.",
        )  # fmt: skip
    values, truth = [], []
    for number, row in zip(table.row_numbers, table.rows, strict=True):
        values.append(_number(row[columns["score"]], row=number))
        truth.append(_truth(row[columns["is_member"]], row=number))
    result = score_file(values, truth, threshold=options.threshold, seed=options.seed)
    _say(f"AUC {result['auc']:.6f} ({result['auc_low']:.3f} to {result['auc_high']:.3f})")
    tprs: Any = result["tpr_at_fpr"]
    for fpr, tpr in tprs.items():
        _say(f"TPR at FPR <= {fpr}: {'not resolvable' if tpr is None else f'{tpr:.4f}'}")
    return result


def selftest(options: Namespace) -> dict[str, Any]:
    """Say whether this installation can be trusted."""
    from audit.selftest import self_test

    with Store(results_dir()) as store:
        result = self_test(
            options.directory or demo_hospital.SHIPPED, store=store, seed=options.seed,
            device=options.device, progress=progress_line(),
        )  # fmt: skip
    for check in result.checks:
        _say(f"{'passed' if check.has_passed else 'FAILED'}  {check.name}: {check.found}")
    _say(
        "This installation can be trusted."
        if result.has_passed
        else "Do not trust this installation."
    )
    return {
        "passed": result.has_passed,
        "checks": [asdict(check) for check in result.checks],
        "exit_code": 0 if result.has_passed else 1,
    }


def _retrain(directory: Path, *, seed: int) -> None:
    from audit.demo_build import ENGLISH, JAPANESE, build_demo

    for recipe in (ENGLISH, JAPANESE):
        line = progress_line()

        def report(
            what: str, step: int, n_steps: int, line: Any = line, recipe: Any = recipe
        ) -> None:
            line(Progress(f"{recipe.language}: training {what}", step, n_steps, None))

        build_demo(directory / recipe.language, recipe=recipe, seed=seed, report=report)
    _say(f"Made again, seed {seed}: {directory.name}")


def _generation_settings(options: Namespace) -> GenerationSettings:
    settings = GenerationSettings(
        n_documents=options.documents,
        n_steps=options.steps,
        n_tokens=options.tokens,
        top_k=options.top_k,
        temperature=options.temperature,
        is_remasked=not options.keep_sampled,
    )
    return settings if options.prompt is None else replace(settings, prompt=options.prompt)


def _passages(path: Path | None) -> Passages | None:
    if path is None:
        return None
    passages = read_passages(_bytes(path), what="passages", file_name=path.name)
    _say(f"{len(passages)} passages read ({passages.encoding}).")
    for note in passages.notes[:20]:
        _say(f"passages, row {note.row}: {note.what}")
    return passages


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise AuditError("The file is too large.", where=path.name, do="At most 200 MB.")
        return path.read_bytes()
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where=path.name) from None


def _number(cell: str, *, row: int) -> float:
    if not cell.strip():
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        raise AuditError("The score is not a number.", where=f"scores, row {row}") from None


def _truth(cell: str, *, row: int) -> bool:
    known = {"1": True, "0": False, "1.0": True, "0.0": False, "true": True, "false": False}
    if cell.strip().lower() not in known:
        raise AuditError("is_member must be 1 or 0.", where=f"scores, row {row}")
    return known[cell.strip().lower()]
