"""Commands of audits: run, judge, rank, score, list and check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

from audit import access_log, shards
from audit.attack.measure_types import write_json
from audit.attack.metrics import measure_scores
from audit.attack.question import (
    SCENARIOS,
    SETTINGS,
    AuditRequest,
    Dtype,
    GenerationSettings,
    PosteriorSettings,
    SamplingSettings,
    settings_field,
)
from audit.cli.command_steps import (
    NamesList,
    Seed,
    WhereRun,
    answer_task,
    read_bytes,
    read_name_list,
    say_read,
)
from audit.cli.commands import (
    Dependence,
    FieldsOf,
    Options,
    Result,
    command,
    has,
    is_absent,
    is_given,
)
from audit.demo import DemoTask, report_summary, self_test
from audit.errors import AuditError, Message, catalogue
from audit.executor import use_scheduler
from audit.home import (
    DEMO_HOSPITAL,
    results_dir,
)
from audit.models.inspect import is_causal_model
from audit.models.registry import load_tokenizer, resolve_model_path
from audit.names.candidates import Candidates, ControlSource
from audit.names.controls import with_controls, with_own_controls
from audit.names.letter_case import RECASED
from audit.names.spelling import piece_counter
from audit.notes.passages import Passages, read_passages
from audit.progress import progress_line, say
from audit.rank import RankTask
from audit.rejudge import judge_again
from audit.report import audit_store
from audit.report.compare import MAX_REFERENCES, compare_audits
from audit.report.decision import read_decision
from audit.report.export import bundle_files, write_report
from audit.report.html import ReportChoice
from audit.report.report import (
    AuditReport,
    KeptAudit,
    find_other_scenario,
    find_pair,
    find_reference_audits,
    kept_audit,
)
from audit.report.verify import check_report
from audit.run import AuditTask
from audit.shelf import write_private
from audit.tables import machine_zone, read_table
from cache.store import Store

Scenario = Annotated[
    Literal[1, 2],
    "1: the attacker has the model alone; 2: and de-identified passages of the notes",
]
NumberType = Annotated[
    Dtype, "of the forward pass; auto: bfloat16 where it is faster and gives the same answers"
]
PassagesFile = Annotated[Path | None, "CSV or JSONL of de-identified passages, also as .gz"]
Placeholder = Annotated[
    str, "what stands for the patient's name in the passages, beside [NAME] and the like: ___, <PT>"
]
StatedSource = Annotated[
    ControlSource | None,
    "where the list's controls come from: held_out (patients drawn at random before training), "
    "own (people of the hospital who are in no training note), invented (the names in the "
    "notes were made by the name generator), drawn (the generator's names beside real notes); "
    "what the list says without, else drawn",
]
PageForBrowser = Annotated[
    bool,
    "with --out: also index.html, the audit in both languages with figures and tables that "
    "respond, for a browser without a server",
]
SiblingAudit = Annotated[
    str, "audit, with the same settings, of a model trained by the same recipe on known names"
]

_CAUSAL_ALONE = ("top_p", "header")
"""Settings that only causal models have; the others mean the same for both kinds of models."""
_GENERATED, _MASKED = {*GenerationSettings.model_fields}, {*PosteriorSettings.model_fields}


_OF_SCENARIO = (
    Dependence(_GENERATED - _MASKED, has("scenario", 1), needs="--scenario 1"),
    Dependence(_MASKED - _GENERATED, has("scenario", 2), needs="--scenario 2"),
)


_OF_PASSAGES = Dependence({"placeholder"}, is_given("passages"), needs="--passages")


@command()
def demo(*, options: Annotated[Options, FieldsOf(DemoTask)]) -> Result:
    """Audit the demo hospital."""
    task = DemoTask(**options)
    digests = answer_task(task)
    with Store(results_dir()) as store:
        return {
            name: report_summary(audit_store.read_report(digest, store=store))
            for name, digest in zip(task.requests(), digests, strict=True)
        }


@command(
    *_OF_SCENARIO,
    _OF_PASSAGES,
    Dependence({"top_p"}, has("scenario", 1), needs="--scenario 1"),
    Dependence({"out", "reference", "scheduler"}, is_absent("order"), clashes="--order"),
)
def run(
    *,
    general: Annotated[str, "directory of the general model"],
    hospital: Annotated[str, "directory of the hospital's model"],
    scenario: Scenario,
    names: NamesList,
    generation: Annotated[Options, FieldsOf(GenerationSettings)],
    posterior: Annotated[Options, FieldsOf(PosteriorSettings)],
    causal: Annotated[Options, FieldsOf(SamplingSettings, only=_CAUSAL_ALONE)],
    reference: Annotated[
        tuple[str, ...],
        "also with this model in the general model's place, such as one trained on the "
        "de-identified notes; repeatable",
    ] = (),
    passages: PassagesFile = None,
    placeholder: Placeholder = "",
    draw_controls: Annotated[int, "number of easy and of hard controls to draw"] = 0,
    control_source: StatedSource = None,
    own_controls: Annotated[
        Path | None, "list of people of the hospital who are in no training note: more controls"
    ] = None,
    sibling: SiblingAudit = "",
    out: Annotated[Path | None, "directory for names.csv, measures.json, report.json"] = None,
    order: Annotated[
        Path | None,
        "write an order for the missing shards, for the command `shards`; it holds names",
    ] = None,
    scheduler: Annotated[
        str, "address of a Dask scheduler whose workers make the shards: tls://host:port"
    ] = "",
    seed: Seed = 0,
    dtype: NumberType = "auto",
    device: WhereRun = "auto",
) -> Result:
    """Audit a pair of models."""
    candidates = _state_source(read_name_list(names), control_source, own_controls=own_controls)
    if draw_controls:
        candidates = _draw_controls(candidates, n=draw_controls, hospital=hospital, seed=seed)
    request = AuditRequest(
        scenario_number=scenario,
        general=resolve_model_path(general, option="--general"),
        hospital=resolve_model_path(hospital, option="--hospital"),
        candidates=candidates,
        sibling=_find_audit_digest(sibling, option="--sibling") if sibling else "",
        passages=_read_passages(passages, placeholder=placeholder, scenario=scenario),
        **_make_settings(general, generation, posterior, causal),
        seed=seed,
        dtype=dtype,
        device=device,
    )
    if order:
        access_log.record("exported", what="order", names="full", n_names=len(candidates))
        with Store(results_dir()) as store:
            shards_order = shards.write_order(request, order, store=store)
        return {"order": str(order), "n_shards": len(shards_order.keys)}
    with use_scheduler(scheduler):
        return _audit_with_references(request, reference=reference, out=out)


def _make_settings(
    general: str, generation: Options, posterior: Options, causal: Options
) -> Options:
    """Return the fields of a request with the settings of both scenarios.

    Options of the same name mean the same to masked and to causal models. Those that the models
    have no use for are refused.
    """
    is_causal = is_causal_model(resolve_model_path(general, option="--general"))
    chosen_options = generation | posterior | causal
    fields = {
        settings_field(scenario, is_causal=is_causal): SETTINGS[is_causal, scenario]
        for scenario in SCENARIOS
    }
    used = {name for settings in fields.values() for name in settings.model_fields}
    for name in chosen_options:
        if name not in used:
            raise AuditError(
                "has no effect on models of this kind.",
                where=f"--{name.removeprefix('n_').replace('_', '-')}",
                do="Leave it out.",
            )
    return {
        field: settings(
            **{name: x for name, x in chosen_options.items() if name in settings.model_fields}
        )
        for field, settings in fields.items()
    }


def _read_passages(passages: Path | None, *, placeholder: str, scenario: int) -> Passages | None:
    """Return the passages of a file, which only scenario 2 reads."""
    _say_unread(passages, scenario=scenario)
    if passages is None or scenario != 2:
        return None
    passage_list = read_passages(
        read_bytes(passages, where="--passages"),
        subject="passages",
        file_name=passages.name,
        placeholder=placeholder,
    )
    say_read(passage_list, len(passage_list), content="passages")
    return passage_list


def _say_unread(passages: Path | None, *, scenario: int) -> None:
    """Say that the passages of one scenario are not read in the other."""
    if passages and scenario == 1:
        say("--passages has no effect here: scenario 1 reads none.")


def _draw_controls(listed: Candidates, *, n: int, hospital: str, seed: int) -> Candidates:
    """Return a list with up to n easy and n hard controls appended."""
    count_pieces = piece_counter(load_tokenizer(resolve_model_path(hospital, option="--hospital")))
    candidates = with_controls(
        listed, n_by_kind={"easy": n, "hard": n}, seed=seed, count_pieces=count_pieces
    )
    say(f"Drawn: {len(candidates) - len(listed)} controls.")
    return candidates


def _state_source(
    listed: Candidates, source: ControlSource | None, *, own_controls: Path | None
) -> Candidates:
    """Return a list with own controls appended and the stated source of its controls."""
    if own_controls:
        if source not in (None, "own"):
            raise AuditError("Own controls have the source own.", where="--control-source")
        people = read_name_list(own_controls, where="--own-controls")
        source = "own"
        listed = with_own_controls(listed, people)
    return listed.with_source(source) if source else listed


def _find_audit_digest(text: str, *, option: str) -> str:
    """Return the digest of the stored audit that begins with `text`."""
    with Store(results_dir()) as store:
        digests = audit_store.list_digests(store, start=text)
    if len(digests) != 1:
        raise AuditError(
            "No kept audit, or more than one, begins so.",
            where=option,
            do="Choose one of those that `python -m audit results` lists.",
        )
    return digests[0]


def _audit_with_references(
    request: AuditRequest, *, reference: Sequence[str], out: Path | None
) -> Result:
    """Audit a pair, and again with each reference in place of the general model."""
    paths = [resolve_model_path(model, option="--reference") for model in reference]
    if len(paths) > MAX_REFERENCES:
        raise AuditError("At most {n} can be compared.", where="--reference", n=MAX_REFERENCES)
    report = _run_audit(request, out=out)
    other_reports = []
    for number, path in enumerate(paths, start=1):
        say(f"The same audit with reference {number} in the general model's place.")
        folder = out / f"reference-{number}" if out else None
        other_reports.append(_run_audit(request.with_(general=path), out=folder))
    references = [
        _summarize(comparison.other)
        | {
            "difference": {
                "aucs": write_json(comparison.aucs),
                "flagged": write_json(comparison.tested),
                "p": comparison.tested.p,
            }
        }
        for comparison in (
            compare_audits(report, other_report=other_report) for other_report in other_reports
        )
    ]
    return _summarize(report) | ({"references": references} if references else {})


@command(*_OF_SCENARIO, _OF_PASSAGES)
def rank(
    *,
    general: Annotated[str, "directory of the general model"],
    hospital: Annotated[str, "directory of the hospital's model"],
    scenario: Scenario,
    names: Annotated[Path, "list of candidate names, a million at most: CSV, .xlsx or JSONL"],
    out: Annotated[Path, "CSV of ranks and scores to write"],
    generation: Annotated[Options, FieldsOf(GenerationSettings)],
    posterior: Annotated[Options, FieldsOf(PosteriorSettings)],
    passages: PassagesFile = None,
    placeholder: Placeholder = "",
    control_source: StatedSource = None,
    seed: Seed = 0,
    dtype: NumberType = "auto",
    device: WhereRun = "auto",
) -> Result:
    """Rank a long list by the evidence of an audit with the same options, whatever its list."""
    _say_unread(passages, scenario=scenario)
    task = RankTask(
        scenario_number=scenario,
        general=resolve_model_path(general, option="--general"),
        hospital=resolve_model_path(hospital, option="--hospital"),
        names=names,
        passages=passages,
        placeholder=placeholder,
        control_source=control_source,
        generation=GenerationSettings(**generation),
        posterior=PosteriorSettings(**posterior),
        seed=seed,
        dtype=dtype,
        device=device,
        out=out,
    )
    file, *counts = answer_task(task)
    n_names, n_scored, n_controls, has_p, n_recased = map(int, counts)
    if n_recased:
        say(str(Message(RECASED, n=n_recased, n_names=n_names)))
    say(
        f"{n_names - n_scored:,} of {n_names:,} names are not scored here: they have parts of "
        "several word pieces, one part only, or the word pieces of another name."
    )
    if not has_p:
        say(f"Ranks only: with {n_controls:,} controls none of {n_scored:,} names could stand out.")
    elif control_source in (None, "drawn"):
        say(
            "Unless the list says where its controls come from, p and q compare with the "
            "generator's names: they do not show who is in the notes."
        )
    return {
        "n_names": n_names,
        "n_scored": n_scored,
        "n_controls": n_controls,
        "has_p_values": bool(has_p),
        "file": file,
    }


def _run_audit(request: AuditRequest, *, out: Path | None) -> AuditReport:
    """Run one audit, say its verdict, and write its files."""
    (digest,) = answer_task(AuditTask(request=request))
    with Store(results_dir()) as store:
        report = audit_store.read_report(digest, store=store)
        _say_verdict(report)
        if out:
            _write_audit(report, out, store=store)
    return report


def _write_audit(report: AuditReport, out: Path, *, store: Store) -> None:
    access_log.record("exported", audit=report.digest, names="full")
    documents = audit_store.read_documents(report.digest, store=store)
    write_report(report, out, documents=documents, seal=access_log.log_seal())


def _say_verdict(report: AuditReport) -> None:
    say(report.verdict.in_short("en"))
    say(report.verdict.english)
    words = catalogue("en", "report")
    for code in report.verdict.reasons:
        say(f"Reason: {words.get(f'reason_{code}', code)}")
    if next_step := report.verdict.next_step("en"):
        say(f"What now: {next_step}")
    if planted := report.details.canaries:
        say(planted.english)


@command()
def judge(
    digest: Annotated[str, "beginning of a kept audit's digest"],
    *,
    control_source: StatedSource = None,
    sibling: SiblingAudit = "",
    out: Annotated[Path | None, "directory for names.csv, measures.json, report.json"] = None,
) -> Result:
    """Judge a kept audit again by today's rule, from its kept evidence."""
    own_digest = _find_audit_digest(digest, option="digest")
    sibling_digest = _find_audit_digest(sibling, option="--sibling") if sibling else ""
    with Store(results_dir()) as store:
        old_report = audit_store.read_report(own_digest, store=store)
        report = judge_again(
            own_digest,
            control_source=control_source or old_report.verdict.control_source,
            sibling=sibling_digest or str(old_report.question.get("sibling", "")),
            store=store,
        )
        _say_verdict(report)
        if out:
            _write_audit(report, out, store=store)
    return _summarize(report)


def _summarize(report: AuditReport) -> Result:
    return report_summary(report) | {"notes": list(report.notes), "made": dict(report.made)}


_TRUTH = {"1": True, "0": False, "1.0": True, "0.0": False, "true": True, "false": False}


@command()
def score(
    *,
    scores: Annotated[Path, "CSV with score and is_member"],
    threshold: Annotated[
        float | None, "also count right and wrong answers, with scores above this as members"
    ] = None,
    seed: Seed = 0,
) -> Result:
    """Measure any scores with known truth; needs no model."""
    table = read_table(read_bytes(scores, where="--scores"), subject="scores")
    columns = [name.strip().lower() for name in table.header]
    if not {"score", "is_member"} <= set(columns):
        raise AuditError(
            "The file needs the columns `score` and `is_member`.",
            where="scores",
            do="Write a CSV with a header line, one name a row; is_member is 1 or 0.",
        )
    values, truth = [], []
    for number, row in zip(table.row_numbers, table.rows, strict=True):
        cells = dict(zip(columns, map(str.strip, row), strict=True))
        try:
            values.append(float(cells["score"] or "nan"))
            truth.append(_TRUTH[cells["is_member"].lower()])
        except (ValueError, KeyError):
            raise AuditError(
                "The score is not a number, or is_member is not 1 or 0.",
                where="scores, row {number}",
                number=number,
            ) from None
    return measure_scores(values, truth, threshold=threshold, seed=seed).to_json()


@command()
def selftest(*, device: WhereRun = "auto") -> Result:
    """Say whether this installation can be trusted."""
    with Store(results_dir()) as store:
        checks = self_test(DEMO_HOSPITAL, store=store, device=device, progress=progress_line())
    is_right = all(check.has_passed for check in checks)
    say(f"{'This installation can be trusted' if is_right else 'Do not trust this installation'}.")
    return {
        "passed": is_right,
        "checks": [asdict(check) for check in checks],
        "exit_code": int(not is_right),
    }


@command(
    Dependence({"out"}, is_given("digest"), needs="DIGEST"),
    Dependence({"names", "language", "folder"}, is_given("out"), needs="--out"),
)
def results(
    digest: Annotated[str, "beginning of an audit's digest"] = "",
    *,
    out: Annotated[
        Path | None, "write this audit's report to be signed, its tables and their digests here"
    ] = None,
    names: Annotated[Literal["masked", "pseudonyms", "full"], "with --out"] = "masked",
    language: Annotated[Literal["en", "ja"], "with --out"] = "en",
    folder: PageForBrowser = False,
) -> Result:
    """List kept audits, or write one out."""
    reports, audits = {}, []
    with Store(results_dir()) as store:
        demo = audit_store.read_demo_digests(store).values()
        for kept_digest in audit_store.list_digests(store):
            with suppress(AuditError):  # an audit of another version
                report = audit_store.read_report(kept_digest, store=store)
                reports[report.digest] = report
                audits.append(kept_audit(report, demo=demo))
    audits.sort(key=attrgetter("at"), reverse=True)
    chosen = [line for line in audits if line.digest.startswith(digest)]
    if digest and len(chosen) != 1:
        raise AuditError(
            "{n_chosen} kept audits begin so.",
            where="digest",
            do="Give more of its digits; `python -m audit results` lists all.",
            n_chosen=len(chosen),
        )
    if out and digest:
        (chosen_audit,) = chosen
        choice = ReportChoice(
            language=language,
            names=names,
            is_demo=chosen_audit.is_demo,
            time_zone=machine_zone(),
        )
        files = _make_files(
            chosen_audit, reports, audits=audits, choice=choice, is_folder=folder, store=store
        )
        write_private(files, out)
    rows = [asdict(line) for line in sorted(chosen, key=attrgetter("at"))]
    for row in rows:
        del row["family"]
        row["verdict"] = row.pop("state")
    return {"audits": rows}


def _make_files(
    audit: KeptAudit,
    reports: Mapping[str, AuditReport],
    *,
    audits: Sequence[KeptAudit],
    choice: ReportChoice,
    is_folder: bool,
    store: Store,
) -> dict[str, bytes]:
    """Return the files of one audit, after a line in the access log; `reports` are by digest."""
    access_log.record("exported", audit=audit.digest, names=choice.names)
    pair_digests = [line.digest for line in find_pair(audit, audits=audits)]
    partner = find_other_scenario(audit, audits=audits)
    references = find_reference_audits(audit, audits=audits)[:MAX_REFERENCES]
    report = reports[audit.digest]
    return bundle_files(
        report,
        choice=choice.with_(decision=read_decision(pair_digests, store=store)),
        other=reports[partner.digest] if partner else None,
        references=[
            compare_audits(report, other_report=reports[line.digest]) for line in references
        ],
        documents=audit_store.read_documents(audit.digest, store=store),
        seal=access_log.log_seal(),
        is_folder=is_folder,
    )


@command()
def verify(
    report: Annotated[Path, "zip, unpacked folder, or one of its files, alone or beside others"],
) -> Result:
    """Say that a report is unchanged (exit code 0), altered (1; which file), or not checked (3)."""
    with Store(results_dir()) as store:
        check = check_report(report, store=store)
    say(str(check.answer))
    return {
        "state": check.state,
        "n_files": len(check.files),
        "n_belonging": len(check.files | check.missing),
        "n_checked": len(check.checked),
        "altered": sorted(check.altered),
        "findings": [{"found": kind, "what": str(sentence)} for kind, sentence in check.findings],
        "exit_code": {"unchanged": 0, "altered": 1, "unchecked": 3}[check.state],
    }
