"""What each command of the command line does: read files, call the engine, say what came out."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from audit import demo as demo_hospital
from audit.corpora.passages import Passages, read_passages
from audit.errors import AuditError
from audit.home import data_home, results_dir
from audit.membership.candidates import Candidates
from audit.membership.names_csv import read_names
from audit.membership.score_file import score_file
from audit.models.registry import model_path
from audit.progress import Progress
from audit.report import AuditReport, write_report
from audit.request import AuditRequest, GenerationSettings, PosteriorSettings
from audit.tables import read_table
from cache.store import Store

MAX_FILE_BYTES = 200_000_000


def run(options: Namespace) -> dict[str, Any]:
    """Audit a pair of models."""
    from audit.run import run_audit, stored_documents

    names = read_names(_bytes(options.names), what="names")
    _say(f"{len(names.candidates)} names read ({names.encoding}).")
    for note in names.notes:
        _say(f"names, row {note.row}: {note.what}")
    candidates = names.candidates
    if options.draw_controls:
        candidates = _with_controls(candidates, n=options.draw_controls, seed=options.seed)
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
    with Store(results_dir()) as store:
        report = run_audit(request, store=store, progress=progress_line())
        documents = stored_documents(report.digest, store=store)
    _say_verdict(report)
    if options.out:
        for path in write_report(report, options.out, documents=documents):
            _say(f"Written: {path.name}")
    return {
        **demo_hospital.report_summary(report),
        "notes": list(report.notes),
        "made": dict(report.made),
    }


def demo(options: Namespace) -> dict[str, Any]:
    """Audit the demo hospital, after making it again if asked to."""
    from audit.run import run_audit

    directory = options.directory or demo_hospital.SHIPPED
    if options.retrain:
        directory = options.directory or data_home() / f"demo-seed-{options.seed}"
        _retrain(directory, seed=options.seed)
    settings = demo_hospital.DemoSettings(seed=options.seed, device=options.device)
    if options.documents is not None:
        settings = replace(settings, n_documents=options.documents)
    if options.inputs is not None:
        settings = replace(settings, n_inputs=options.inputs)
    reports: dict[str, AuditReport] = {}
    with Store(results_dir()) as store:
        for name, how in demo_hospital.demo_audits(all_of_them=options.exposures):
            request = demo_hospital.demo_request(settings=settings, directory=directory, **how)
            _say(f"Demo audit: {name}")
            reports[name] = run_audit(request, store=store, progress=progress_line())
            _say_verdict(reports[name])
        if not options.directory and not options.retrain:
            demo_hospital.remember(reports, store=store)
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


def results(options: Namespace) -> dict[str, Any]:
    """List the kept audits, or write one of them out."""
    from audit.report import AuditReport

    with Store(results_dir()) as store:
        found = [key.removeprefix("audit/") for key in store.keys("audit/")]
        chosen = [digest for digest in found if digest.startswith(options.digest or "")]
        if options.digest and len(chosen) != 1:
            raise AuditError(
                f"{len(chosen)} kept audits begin so.", where="digest",
                do="Give more of its digits; `python -m audit results` lists all.",
            )  # fmt: skip
        reports = [AuditReport.from_json(store.get_record(f"audit/{digest}")) for digest in chosen]
        if options.out and options.digest:
            documents = store.get_record(f"documents/{chosen[0]}")
            write_report(reports[0], options.out, documents=documents)
    rows = [
        {
            "digest": report.digest,
            "at": report.made.get("at"),
            "scenario": report.scenario["number"],
            "general": report.models["general"]["name"],
            "hospital": report.models["hospital"]["name"],
            "n_names": report.n_names,
            "verdict": report.verdict["state"],
        }
        for report in reports
    ]
    for row in sorted(rows, key=lambda r: str(r["at"])):
        _say(f"{row['digest'][:12]}  {row['at']}  scenario {row['scenario']}  {row['general']} -> "
             f"{row['hospital']}  {row['n_names']} names  {row['verdict']}")  # fmt: skip
    return {"audits": rows}


def progress_line() -> Callable[[Progress], None]:
    """Return a listener that keeps one line of stderr up to date, where stderr is a terminal."""
    is_terminal = sys.stderr.isatty()
    last = [0.0]

    def listen(progress: Progress) -> None:
        now = time.monotonic()
        if now - last[0] < (0.5 if is_terminal else 10):
            return
        last[0] = now
        left = "" if progress.seconds_left is None else f", {_duration(progress.seconds_left)} left"
        text = f"{progress.phase}: {100 * progress.share:.0f} %{left}"
        sys.stderr.write(f"\r\x1b[K{text}" if is_terminal else f"{text}\n")
        if is_terminal and progress.share >= 1:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return listen


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


def _with_controls(candidates: Candidates, *, n: int, seed: int) -> Candidates:
    from audit.membership.controls import easy_controls, hard_controls
    from audit.membership.name_pools import pool_for

    members = candidates.rows([i for i, m in enumerate(candidates.is_member) if m is True])
    if not len(members):
        raise AuditError(
            "Controls are drawn against members, and the list has none.", where="names",
            do="Add a column is_member with 1 for the names that are in the notes.",
        )  # fmt: skip
    pool = pool_for(candidates)
    taken = list(zip(candidates.first, candidates.last, strict=True))
    easy = easy_controls(pool, members, n=n, seed=seed, exclude=taken)
    hard = hard_controls(pool, members, n=n, seed=seed, exclude=taken)
    _say(f"Drawn: {len(easy)} easy and {len(hard)} hard controls.")
    return candidates + easy + hard


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


def _say_verdict(report: AuditReport) -> None:
    _say(str(report.verdict["english"]))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
