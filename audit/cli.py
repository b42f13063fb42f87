"""What `python -m audit experiment --deid` does: leakage against missed names, as files."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from argparse import SUPPRESS, Namespace
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from audit import demo as demo_hospital
from audit.access_log import LogEntry, entries, log_seal, record, verify
from audit.attack.metrics import plain
from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.attack.scores import score_file
from audit.attack.verdict import REASONS
from audit.corpus.candidate_lists import CONTROLS, MEMBERS
from audit.corpus.examine import Examination, mentions_in, read_examination
from audit.corpus.kept import (
    CORPORA,
    ROLES,
    KeptCorpus,
    check_controls,
    corpus_line,
    find_corpus,
    full_names_in,
    keep_lists,
    list_of,
    passages_for,
)
from audit.corpus.make import CorpusTask
from audit.deid.cases import misses_csv, misses_jsonl, misses_of
from audit.deid.copies import PREDICTIONS, align_outputs, copies_summary, read_copies
from audit.deid.generative.config import (
    GenerativeFacts,
    Lora,
    TuningSettings,
)
from audit.deid.generative.model import LocalModel
from audit.deid.given import annotated_notes, as_jsonl, notes_to_tag
from audit.deid.masks import ModelTranslation, ModelTyper, NoTranslation, RuleTyper
from audit.deid.matching import MATCHERS, OPTIMAL
from audit.deid.metrics import Pair
from audit.deid.network.config import TaggerFacts, TaggerSettings
from audit.deid.pipeline import AskedModel, ChainOrder, SplitSizes, build_named
from audit.deid.release import FROM_TEXT, MODES, PLACEHOLDER, SURROGATE, Surrogates
from audit.deid.release import LANGUAGES as RELEASE_LANGUAGES
from audit.deid.score import ScoreSummary, score_pairs, score_summary
from audit.deid.tag import REDACTED, SPANS, Release, tag_notes
from audit.deid.tagger import TAGGER, Tagger
from audit.deid.taggers import (
    DEFAULT,
    RULES,
    SHIPPED,
    TRAINED,
    known_taggers,
    load_tagger,
    load_tagger_folder,
)
from audit.deid.tasks import TaggerTask
from audit.demo import demo_digests, is_demo
from audit.errors import AuditError
from audit.experiment.leakage_tables import (
    FILES,
    LEAKAGE_JSON,
    LEAKAGE_MD,
    LeakageTask,
    kept_files,
    quick,
)
from audit.experiment.paper_tables import (
    GENERAL_TRAINING,
    TABLES_JSON,
    TABLES_MD,
    TRAINING,
    ExperimentTask,
)
from audit.foreign import decode_text
from audit.home import DEMO_HOSPITAL, data_home, results_dir
from audit.jobs import service
from audit.jobs.here import answer_here, waits_for_text
from audit.jobs.kinds import AuditTask, DemoTask
from audit.jobs.table import Job
from audit.jobs.worker import work
from audit.models.registry import model_path, tokenizer
from audit.names.candidates import GUESSED_KINDS, guessed_kinds
from audit.names.controls import with_controls
from audit.names.files import names_file, read_names
from audit.names.people import ENGLISH, JAPANESE
from audit.names.spelling import piece_counter
from audit.notes.formats import FORMATS, GOLD, PREDICTED, PairedFiles, flattened, write_files
from audit.notes.passages import Passages, read_passages
from audit.notes.read import FIELDS, open_notes
from audit.notes.spans import (
    FIVE_TYPES,
    IDENTIFIER,
    LabelMap,
    TaggedDocument,
    n_overlapping,
    read_label_map,
    relabelled,
)
from audit.progress import Meter, Progress, duration, progress_line, say
from audit.progress import say as _say
from audit.report.compare import MAX_REFERENCES, References, compare_references
from audit.report.export import SEAL, bundle_files, write_report
from audit.report.html import ReportChoice
from audit.report.report import (
    AuditReport,
    KeptAudit,
    kept_audit,
    other_scenario,
    same_but_reference,
)
from audit.shelf import whole_file, whole_folder, write_private
from audit.stats import N_REPLICATES
from audit.tables import read_table, write_table
from audit.task import Question, Record, queue_of
from audit.training.config import TrainSettings, largest_pass
from audit.training.kept import MODEL, PretrainTask, TrainedModel, read_training, snapshot_name
from cache.store import Store

_KEPT = "kept"
"""In place of a folder: what is made is kept on this installation."""


def add_options(
    parser: Any,
    record: type[Record],
    *,
    but: Collection[str] = (),
    only: Collection[str] | None = None,
    prefix: str = "",
) -> None:
    """Add an option for every field of a task, or of settings, that has a description.

    What is not given stays out of the parsed options, so that the record's own default holds.
    """
    for name, field in record.model_fields.items():
        if field.description and name not in but and (only is None or name in only):
            flag = _flag(record, name, prefix=prefix)
            parser.add_argument(
                flag, dest=prefix + name, default=SUPPRESS, help=field.description,
                **_how(name, field, flag=flag),
            )  # fmt: skip


def chosen(options: Namespace, record: type[Record], *, prefix: str = "") -> dict[str, Any]:
    """Return the fields of a record that options give."""
    fields = [name for name, field in record.model_fields.items() if field.description]
    given = {name: vars(options)[prefix + name] for name in fields if prefix + name in options}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}


def _flag(record: type[Record], name: str, *, prefix: str) -> str:
    return record.flags.get(name) or f"--{prefix}" + re.sub("^(n|is|has)_", "", name).replace(
        "_", "-"
    )


def _how(name: str, field: FieldInfo, *, flag: str) -> dict[str, Any]:
    """Return how the values of a field are read: from its type, and its examples."""
    kind = _without_none(field.annotation)
    if kind is bool:
        return {"action": "store_false" if field.default else "store_true"}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind), "type": lambda text: text.replace("-", "_")}
    if get_origin(kind) is not tuple:
        reader = kind if kind is not Path else _kept_or_place if name == "out" else place
        return {"type": reader, "required": field.is_required()}
    one = _without_none(get_args(kind)[0])
    if field.examples:
        return {"type": _numbers(one, flag=flag), "metavar": field.examples[0]}
    if get_origin(one) is tuple:
        return {"type": column_pair, "action": "append", "metavar": "FIELD=NAME"}
    choices = {"choices": get_args(one)} if get_origin(one) is Literal else {}
    kind_of_one = type(choices["choices"][0]) if choices else place if one is Path else one
    return {"type": kind_of_one, "action": "append", **choices}


def _without_none(kind: Any) -> Any:
    """Return the type that `kind | None`, or an annotated one, is about."""
    if get_origin(kind) in (UnionType, Union):
        kind = next(one for one in get_args(kind) if one is not type(None))
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def place(text: str) -> Path:
    """Return the whole path that a person wrote."""
    return Path(text).expanduser().absolute()


def _kept_or_place(text: str) -> Path | None:
    return None if text == _KEPT else place(text)


def column_pair(text: str) -> tuple[str, str]:
    """Return field and column of "field=column"."""
    field, sign, name = text.partition("=")
    if not (sign and name) or field not in FIELDS:
        raise AuditError(
            "This is no FIELD=NAME.", where="--column",
            do=f"Fields are {', '.join(FIELDS)}; as text=body.",
        )  # fmt: skip
    return field, name


def _numbers(kind: type[Any], *, flag: str) -> Callable[[str], tuple[Any, ...]]:
    def read(text: str) -> tuple[Any, ...]:
        try:
            return tuple(kind(part) for part in text.split(",") if part.strip())
        except ValueError:
            what = "whole numbers" if kind is int else "numbers"
            raise AuditError(
                f"These are no {what} with commas between.", where=flag, do="As 1,2,4,8."
            ) from None

    return read


_WATCH_SECONDS = 1.0


def answered(question: Question) -> tuple[str, ...]:
    """Return the digests of the audits that answer a question, computed here if need be.

    What is kept is returned at once. Otherwise a job is registered, so that the pages and other
    commands see it; it waits for its turn and runs in this process.
    """
    service.recover()
    if known := service.kept_answer(question):
        say("Answered before; nothing is computed.")
        return known
    return answer_here(question, progress=progress_line(), say=say)


def kept_report(digest: str, *, store: Store) -> AuditReport:
    """Return a kept audit's report."""
    record = store.get_record(f"audit/{digest}")
    if record is None:
        raise AuditError("The result is damaged.", do="Run the same command again.")
    return AuditReport.from_json(record)


def jobs(options: Namespace) -> dict[str, Any]:
    """List the jobs; with --watch until none is left that waits or runs."""
    service.recover()
    found = service.jobs()
    while options.watch and any(job.is_active for job in found):
        for job in reversed(found):
            if job.is_active:
                say(_job_commands_line(job))
        time.sleep(_WATCH_SECONDS)
        service.recover()
        found = service.jobs()
    for job in reversed(found):
        say(_job_commands_line(job))
    return {"jobs": [_job_commands_plain(job) for job in found]}


def cancel(options: Namespace) -> dict[str, Any]:
    """Stop a job; what is finished is kept."""
    return _said(service.cancel(options.job))


def resume(options: Namespace) -> dict[str, Any]:
    """Let a job go on where it stopped, in the background."""
    return _said(service.resume(options.job))


def worker(options: Namespace) -> dict[str, Any]:
    """Do the jobs of a device here, until none has come for some minutes."""
    device = queue_of(options.device)
    if not work(device):
        say(f"There is a worker for {device} already.")
    return {"device": device}


def _said(job: Job) -> dict[str, Any]:
    say(_job_commands_line(job))
    return _job_commands_plain(job)


def _job_commands_plain(job: Job) -> dict[str, Any]:
    failure = None if job.failure is None else asdict(job.failure)
    if failure is not None:
        failure["settings"] = dict(failure["settings"])
    return asdict(job) | {
        "failure": failure, "part": dict(job.part), "result": list(job.result),
        "stage": job.stage,
    }  # fmt: skip


def _job_commands_line(job: Job) -> str:
    what = f"scenario {job.scenario}" if job.scenario else job.kind
    how_far = f"  {100 * job.share:.0f} %" if job.state == "running" else ""
    left = "" if job.seconds_left is None else f", {duration(job.seconds_left)} left"
    phase = f"  {job.phase}" if job.state == "running" else ""
    why = f"  {job.failure.what}" if job.failure else ""
    wait = service.waits_for(job)
    waits = "" if wait is None else f"  waits for {waits_for_text(wait)}"
    answers = "  " + " ".join(digest[:12] for digest in job.result) if job.result else ""
    return (
        f"{job.job_id}  {job.created}  {job.state}{how_far}{left}{phase}  {what}  {job.label}  "
        f"{job.device}{waits}{answers}{why}"
    )


def results(options: Namespace) -> dict[str, Any]:
    """List the kept audits, or write one of them out."""
    with Store(results_dir()) as store:
        digests = [key.removeprefix("audit/") for key in store.keys("audit/")]
        chosen = [digest for digest in digests if digest.startswith(options.digest or "")]
        if options.digest and len(chosen) != 1:
            raise AuditError(
                f"{len(chosen)} kept audits begin so.", where="digest",
                do="Give more of its digits; `python -m audit results` lists all.",
            )  # fmt: skip
        reports = [_result_commands_report(digest, store=store) for digest in chosen]
        demo = demo_digests(store)
        if options.out and options.digest:
            _write(reports[0], options, store=store)
    rows = [
        {
            "digest": report.digest,
            "at": report.made.get("at"),
            "scenario": report.scenario.number,
            "general": report.models["general"].name,
            "hospital": report.models["hospital"].name,
            "n_names": report.n_names,
            "verdict": report.verdict.state,
            "is_demo": is_demo(report, digests=demo),
        }
        for report in reports
    ]
    for row in sorted(rows, key=lambda r: str(r["at"])):
        say(f"{str(row['digest'])[:12]}  {row['at']}  scenario {row['scenario']}  "
            f"{row['general']} -> {row['hospital']}  {row['n_names']} names  {row['verdict']}"
            f"{'  (made-up hospital)' if row['is_demo'] else ''}")  # fmt: skip
    return {"audits": rows}


def _result_commands_report(digest: str, *, store: Store) -> AuditReport:
    return AuditReport.from_json(store.get_record(f"audit/{digest}"))


def _write(report: AuditReport, options: Namespace, *, store: Store) -> None:
    """Write an audit's files, once the access log has it."""
    documents = store.get_record(f"documents/{report.digest}")
    record("exported", audit=report.digest, names=options.names if options.html else "full")
    if not options.html:
        written = write_report(report, options.out, documents=documents)
        written += write_private({SEAL: f"{log_seal()}\n".encode("ascii")}, options.out)
    else:
        demo = demo_digests(store)
        choice = ReportChoice(
            language=options.language,
            names=options.names,
            is_demo=is_demo(report, digests=demo),
        )
        files = bundle_files(
            report, choice=choice, other=_other(report, store=store, demo=demo),
            references=_references(report, store=store), documents=documents, seal=log_seal(),
        )  # fmt: skip
        written = write_private(files, options.out)
    for path in written:
        say(f"Written: {path.name}")


def _other(report: AuditReport, *, store: Store, demo: dict[str, str]) -> AuditReport | None:
    """Return the same pair's audit in the other scenario, if it is kept and can be read."""
    own = kept_audit(report, is_demo=is_demo(report, digests=demo))
    found = other_scenario(own, kept=_kept(store, demo=demo), demo=demo)
    return _result_commands_report(found.digest, store=store) if found else None


def _references(report: AuditReport, *, store: Store) -> References | None:
    """Return the audits that differ in the general model alone beside this one; None without."""
    found = same_but_reference(kept_audit(report), kept=_kept(store, demo=demo_digests(store)))
    newest = sorted(found, key=lambda line: line.at, reverse=True)[:MAX_REFERENCES]
    others = [_result_commands_report(line.digest, store=store) for line in newest]
    return compare_references(report, others=others) if others else None


def _kept(store: Store, *, demo: dict[str, str]) -> list[KeptAudit]:
    kept = []
    for key in store.keys("audit/"):
        try:
            report = _result_commands_report(key.removeprefix("audit/"), store=store)
            kept.append(kept_audit(report, is_demo=is_demo(report, digests=demo)))
        except AuditError:
            continue  # of another version
    return kept


_REASONS = {
    "changed": "it was changed, or is no line of this log",
    "order": "it does not follow the line before it: a line is missing, moved, or added",
    "unfinished": "it was never finished; the next line that is written takes its place",
    "missing": "Lines at the end are missing.",
    "head": "The head, which says how many lines there are, is missing or does not fit.",
    "seal": "It does not hold what the seal says it held: it was put back to an older state, or "
    "written anew.",
}


def log_command(options: Namespace) -> dict[str, Any]:
    """Say whether the log is whole (`what` is "verify"), or show its newest lines ("show").

    `options` has `what`, for "show" `limit` and `audit` (digits of an audit, or ""), for "verify"
    `seal` (of a report, or ""). The result's `exit_code` is 1 where the log is not whole.

    Raises
    ------
    AuditError
        If the log cannot be read, or the seal is none.
    """
    if options.what == "show":
        found = entries(options.limit, audit=options.audit or "")
        for entry in reversed(found):
            _log_command_say(_log_command_line(entry))
        return {"entries": [{**asdict(e), "counts": dict(e.counts)} for e in found]}
    result = verify(options.seal or "")
    now = log_seal() if result.is_intact else ""
    if result.is_intact:
        _log_command_say(f"The access log is whole: {result.n_lines} lines.")
        _log_command_say("It holds what the seal says." if options.seal else f"Its seal: {now}")
    elif result.first_bad_line is None:
        _log_command_say(f"The access log is NOT whole. {_REASONS[result.reason]}")
    else:
        _log_command_say(
            f"The access log is NOT whole: line {result.first_bad_line} does not fit; "
            f"{_REASONS[result.reason]}."
        )
    return {**asdict(result), "seal": now, "exit_code": 0 if result.is_intact else 1}


def _log_command_line(entry: LogEntry) -> str:
    counts = " ".join(f"{key}={value}" for key, value in entry.counts)
    parts = (str(entry.number), entry.at, entry.who, entry.action, entry.audit or "-", counts)
    return "  ".join(part for part in parts if part)


def _log_command_say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


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
            others.append(_audited(request.with_(general=path), out=folder))
        result["references"] = _beside(report, others)
    return result


def _audited(request: AuditRequest, *, out: Path | None) -> AuditReport:
    """Answer one question, say its verdict, and write its files."""
    (digest,) = answered(AuditTask(request=request).question())
    with Store(results_dir()) as store:
        report = kept_report(digest, store=store)
        documents = store.get_record(f"documents/{digest}") or {}
    _say(report.verdict.english)
    for code in report.verdict.reasons:
        _say(f"Reason: {REASONS.get(code, code)}")
    if now := report.verdict.now("en"):
        _say(f"What now: {now}")
    for note in report.notes:
        _say(f"Note: {note}")
    if planted := report.details.canaries:
        _say(planted.english)
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
    view = compare_references(report, others=others)
    for one in (report, *view.others):
        for name, stratum in one.measures.shown.items():
            auc = stratum.scores[one.fixed_score].auc
            _say(f"{one.models['general'].name}: AUC {auc.value:.3f} ({auc.low:.3f} to "
                 f"{auc.high:.3f}), {name} controls, {stratum.n_members} members, "
                 f"{stratum.n_controls} controls")  # fmt: skip
    return [
        {
            **_summary(other),
            "difference": {
                "digest": other.digest,
                "name": other.models["general"].name,
                "aucs": plain(found.aucs),
                "flagged": plain(found.tested.difference),
                "p": found.tested.p,
            },
        }
        for other, found in zip(others, view.found, strict=True)
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
    task = DemoTask(settings=settings, all_of_them=options.exposures, directory=directory)
    digests = answered(task.question())
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
            options.directory or DEMO_HOSPITAL, store=store, seed=options.seed,
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
    return settings if options.prompt is None else settings.with_(prompt=options.prompt)


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


def add_corpus(commands_of: Any) -> None:
    """Add the commands' parsers."""
    corpus = commands_of.add_parser("corpus", help="from notes to what an audit needs")
    whats = corpus.add_subparsers(required=True, metavar="WHAT")
    _add_build(whats)
    mentions = whats.add_parser("mentions", help="who is named beside an age, and how often")
    of = mentions.add_mutually_exclusive_group(required=True)
    of.add_argument("--corpus", help="identifier or folder of a corpus")
    of.add_argument("--notes", type=Path, help="file or folder of notes of which no truth is known")
    mentions.add_argument("--names", action="store_true", help="with --notes: the names themselves")
    mentions.add_argument("--column", type=column_pair, action="append", default=[],
                          metavar="FIELD=NAME", help="as text=body")  # fmt: skip
    mentions.set_defaults(command=mentions_command)
    candidates = whats.add_parser("candidates", help="the list of names and the passages")
    candidates.add_argument("--corpus", required=True, help="identifier or folder of a corpus")
    candidates.add_argument("--out", type=Path, help="folder for names.csv and passages.jsonl")
    candidates.add_argument("--controls", default="easy,hard", metavar=",".join(CONTROLS))
    candidates.add_argument("--roles", default=",".join(ROLES), metavar=",".join(MEMBERS))
    candidates.add_argument("--keep", action="store_true", help="for the pages too")
    candidates.set_defaults(command=candidates_command)
    check = whats.add_parser("check", help="does a control of a list occur in D_private?")
    check.add_argument("--corpus", required=True, help="identifier or folder of a corpus")
    check.add_argument("--names", type=Path, required=True, help="CSV of candidate names")
    check.set_defaults(command=check_command)
    listed = whats.add_parser("list", help="the corpora that are kept here")
    listed.set_defaults(command=list_command)
    forget = whats.add_parser("forget", help="remove a kept corpus with all of its files")
    forget.add_argument("corpus", help="its identifier")
    forget.set_defaults(command=forget_command)
    for command in (mentions, candidates, check, listed, forget):
        command.add_argument("--json", action="store_true", help="print one JSON object on stdout")


def _add_build(whats: Any) -> None:
    build = whats.add_parser("build", help="D_private, D_public, the truth, and the lists")
    add_options(build, CorpusTask)
    build.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    build.set_defaults(command=corpus_commands_build_command)


def corpus_commands_build_command(options: Namespace) -> dict[str, Any]:
    """Make a corpus."""
    task = CorpusTask(**chosen(options, CorpusTask))
    (corpus_id,) = answered(task.question())
    corpus = CORPORA.at(task.out) if task.out else CORPORA.get(corpus_id)
    found = read_examination(corpus.path)
    for line in _corpus_commands_report(corpus, found):
        say(line)
    return {
        "corpus": corpus_line(corpus),
        "folder": str(corpus.path),
        **_corpus_commands_plain(found),
    }


def mentions_command(options: Namespace) -> dict[str, Any]:
    """Say who is mentioned: the examination of a corpus, or what is found in plain notes."""
    if options.corpus is not None:
        if options.names:
            raise AuditError(
                "It goes with --notes.",
                where="--names",
                do="The names of a corpus are listed by `corpus candidates`.",
            )
        corpus = find_corpus(options.corpus)
        found = read_examination(corpus.path)
        for line in _corpus_commands_report(corpus, found):
            say(line)
        return {"corpus": corpus_line(corpus), **_corpus_commands_plain(found)}
    coverage, n_refused, mentions = mentions_in(
        options.notes.expanduser(), columns=dict(options.column), with_names=options.names
    )
    for form, n in coverage.by_form:
        say(f"{form}: {n:,}")
    say(f"{coverage.n_mentions:,} mentions in {coverage.n_notes:,} notes.")
    if options.names and not options.json:
        named = ((one["first"], one["last"]) for one in mentions if not one["is_placeholder"])
        rows = [(*name, n) for name, n in Counter(named).most_common() if any(name)]
        sys.stdout.write(write_table(("first", "last", "n_mentions"), rows))
    return {
        "n_notes": coverage.n_notes,
        "n_refused": n_refused,
        "n_mentions": coverage.n_mentions,
        "by_form": dict(coverage.by_form),
        "without_a_mention": dict(coverage.by_reason),
        "n_left_out": coverage.n_mentions - len(mentions),
        "mentions": list(mentions),
    }


def candidates_command(options: Namespace) -> dict[str, Any]:
    """Write the list and the passages of a corpus, or keep them for the pages, or both."""
    corpus = find_corpus(options.corpus)
    controls, roles = _words(options.controls), _words(options.roles)
    candidates = list_of(corpus, controls=controls, roles=roles)
    passages = passages_for(corpus, candidates, seed=corpus.seed)
    result: dict[str, Any] = {
        "n_names": len(candidates),
        "n_members": sum(m is True for m in candidates.is_member),
        "by_kind": {
            kind: candidates.control_kind.count(kind)
            for kind in sorted(set(candidates.control_kind) - {""})
        },
        "by_role": {
            role: candidates.role.count(role) for role in sorted(set(candidates.role) - {""})
        },
        "n_passages": passages.count(b"\n"),
    }
    if options.out is not None:
        files = {"names.csv": names_file(candidates), "passages.jsonl": passages}
        written = write_private(files, options.out.expanduser())
        result["files"] = [str(path) for path in written]
    if options.keep:
        with Store(results_dir()) as store:
            names, texts = keep_lists(corpus, controls=controls, roles=roles, store=store)
        result |= {"names": names, "passages": texts}
    say(f"{result['n_names']:,} names, {result['n_members']:,} of them in the notes; "
        f"{result['n_passages']:,} passages.")  # fmt: skip
    return result


def check_command(options: Namespace) -> dict[str, Any]:
    """Check a list of names against D_private."""
    corpus = find_corpus(options.corpus)
    try:
        candidates = read_names(options.names.expanduser().read_bytes()).candidates
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="--names") from None
    check_controls(corpus, candidates)
    members = candidates.rows([i for i, m in enumerate(candidates.is_member) if m is True])
    n_found = len(full_names_in(corpus, members)) if len(members) else 0
    say(f"No control occurs in D_private; {n_found:,} of {len(members):,} members do in full.")
    return {"n_names": len(candidates), "n_members": len(members), "n_members_in_full": n_found}


def list_command(options: Namespace) -> dict[str, Any]:
    """List the kept corpora."""
    corpora = CORPORA.all()
    for corpus in corpora:
        say(f"{corpus.corpus_id}  {corpus.created}  {corpus.kind}  {corpus.n_notes:,} notes  "
            f"{corpus.title or corpus.source}")  # fmt: skip
    return {"corpora": [corpus_line(corpus) for corpus in corpora]}


def forget_command(options: Namespace) -> dict[str, Any]:
    """Remove a kept corpus."""
    CORPORA.forget(options.corpus)
    say("Removed.")
    return {"forgotten": options.corpus}


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _corpus_commands_plain(found: Examination) -> dict[str, Any]:
    return found.model_dump(mode="json", exclude={"format"}) | {
        "coverage": found.coverage.plain()
        | {
            "forms": dict(found.coverage.by_form),
            "reasons": dict(found.coverage.by_reason),
            "n_by_role": dict(found.coverage.n_by_role),
            "n_mentions": found.coverage.n_mentions,
            "n_elsewhere": found.coverage.n_elsewhere,
        },
        "n_patterns": found.n_patterns,
        "n_occurrences": found.n_occurrences,
    }


def _corpus_commands_report(corpus: KeptCorpus, found: Examination) -> list[str]:
    table_3 = "  ".join(f"{count}:{n}" for count, n in found.pattern_table)
    table_4 = "  ".join(f"{count}:{n}" for count, n in found.mention_table)
    forms = ", ".join(f"{form} {n:,}" for form, n in found.coverage.by_form)
    unknown = ", ".join(f"{count.category} {count.n:,}" for count in found.unknown[:20])
    kinds = ", ".join(
        f"{c.control_kind or c.role}{' twins' if c.control_kind == 'canary' else ''} {c.n:,}"
        for c in found.candidates
    )
    return [
        f"{found.n_notes:,} notes, {found.n_patients:,} patients; "
        f"{found.n_refused:,} rows refused.",
        f"Placeholders not understood: {unknown or 'none'}.",
        f"{found.coverage.n_mentions:,} mentions ({forms or 'none'}); "
        f"{found.coverage.n_elsewhere:,} names of patients stand elsewhere.",
        f"{found.n_positives:,} names, {found.n_patterns:,} patterns, "
        f"{found.n_occurrences:,} occurrences.",
        f"Patterns per name (table 3): {table_3 or 'none'}",
        f"Occurrences per name (table 4): {table_4 or 'none'}",
        f"Candidates: {kinds or 'none'}.",
        f"The corpus: {corpus.corpus_id or corpus.path}",
    ]


def add_pretrain(commands_of: Any) -> None:
    """Add the command's parser."""
    command = commands_of.add_parser(
        "pretrain", help="train a model further on notes, or from scratch; goes on where it stopped"
    )
    command.add_argument("--general", required=True, help="directory of the model to start from")
    add_options(command, PretrainTask)
    add_options(command, TrainSettings)
    command.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    command.set_defaults(command=pretrain)


def pretrain(options: Namespace) -> dict[str, Any]:
    """Train a model, or go on with its training."""
    settings = chosen(options, TrainSettings)
    settings.setdefault("micro_batch", largest_pass(settings.get("batch", TrainSettings().batch)))
    task = PretrainTask(
        general=model_path(options.general, where="--general"),
        settings=TrainSettings(**settings),
        **chosen(options, PretrainTask),
    )
    (run_id,) = answered(task.question())
    folder = task.with_(run_id=run_id).folder
    trained = read_training(folder)
    if trained is None:
        raise AuditError("There is no such training.", where="trained model")
    say(_sentence(trained))
    say(f"The model: {folder / MODEL}")
    return summary(trained, folder=folder, run_id=run_id)


def summary(trained: TrainedModel, *, folder: Path, run_id: str) -> dict[str, Any]:
    """Return what came of a training as plain values."""
    facts = trained.facts
    return {
        "run_id": run_id,
        "model": str(folder / MODEL),
        "snapshots": {str(s): str(folder / snapshot_name(s)) for s in trained.snapshots},
        "parent": facts.parent,
        "parent_digest": facts.parent_digest,
        "source": facts.source,
        "corpus_id": facts.corpus_id,
        "n_steps": trained.n_steps_done,
        "n_epochs": trained.n_epochs_done,
        "n_train_tokens": facts.n_train_tokens,
        "n_documents": facts.n_documents,
        "n_held_out_documents": facts.n_held_out_documents,
        "n_listed_patients": facts.n_listed_patients,
        "loss": trained.loss,
        "held_out_loss_before": trained.first_held_out,
        "held_out_loss": trained.held_out,
        "unigram_loss": facts.unigram_loss,
        "precision": facts.precision,
        "device": facts.device,
        "kernels": facts.kernels,
        "versions": dict(facts.versions),
        "settings": facts.settings.plain(),
    }


def _sentence(trained: TrainedModel) -> str:
    facts = trained.facts
    text = f"{trained.n_steps_done} steps, {trained.n_epochs_done:.2f} epochs"
    if trained.held_out is None or facts.unigram_loss is None:
        return f"{text}."
    return (
        f"{text}; held-out loss {trained.first_held_out:.3f} before, {trained.held_out:.3f} after "
        f"(guessing by frequency: {facts.unigram_loss:.3f}) nats a token."
    )


N_TRIES = 10_000
"""Documents of scenario 1 and inputs of scenario 2, as in the paper."""
_ROWS = ("n_tokens", "batch", "micro_batch", "precision")
_TRAINED = (*_ROWS, "learning_rate", "from_scratch")


def add_experiment(commands_of: Any) -> None:
    """Add `python -m audit experiment`."""
    command = commands_of.add_parser(
        "experiment", help="corpus, models and both attacks of the paper, from notes to tables"
    )
    add = command.add_argument
    add("--general", help="directory of M_general")
    add_options(command, ExperimentTask, but=("notes",))
    add("--notes", type=place, help="notes with placeholders")
    add_options(command, TrainSettings, only=_TRAINED)
    add("--general-steps", type=int, default=GENERAL_TRAINING.n_steps)
    add("--general-learning-rate", type=float, default=GENERAL_TRAINING.learning_rate)
    add("--general-head-learning-rate", type=float, default=None,
        help="of its masked-LM head, where that is new")  # fmt: skip
    add("--steps", type=int, default=500, help="of a document")
    add("--chain-inputs", type=int, default=0, help="inputs of `chain`")
    deid = command.add_argument_group("leakage against missed names")
    deid.add_argument("--deid", action="store_true", help="attack models of the demo hospital's "
                      "notes, raw and de-identified")  # fmt: skip
    add_options(deid, LeakageTask, but=("epochs", "seed", "device"))
    deid.add_argument("--quick", action="store_true", help="fewer arms and epochs, done in minutes")
    add("--json", action="store_true", help="print one JSON object on stdout")
    command.set_defaults(command=experiment)


def experiment(options: Namespace) -> dict[str, Any]:
    """Do the experiment as a registered job, and print its tables."""
    if options.deid:
        return leakage(options)
    task = experiment_task(options)
    answered(task.question())
    say((task.out / TABLES_MD).read_text(encoding="utf-8"))
    say(f"Written: {TABLES_JSON}, {TABLES_MD}")
    result: dict[str, Any] = json.loads((task.out / TABLES_JSON).read_text(encoding="utf-8"))
    return result


def experiment_task(options: Namespace) -> ExperimentTask:
    """Return the task that the options ask for."""
    if options.notes is None or options.general is None:
        raise AuditError("Notes and a general model are needed.", where="experiment",
                         do="Give --notes and --general, or --deid.")  # fmt: skip
    given = chosen(options, TrainSettings)
    trained = {name: given[name] for name in _TRAINED if name in given}
    trained.setdefault("micro_batch", largest_pass(trained.get("batch", TRAINING.batch)))
    rows = {name: value for name, value in trained.items() if name in _ROWS}
    n_documents, n_inputs = (vars(options).get(n, N_TRIES) for n in ("n_documents", "n_inputs"))
    return ExperimentTask(
        **chosen(options, ExperimentTask),
        general=model_path(options.general, where="--general"),
        training=TRAINING.with_(**trained),
        general_training=GENERAL_TRAINING.with_(
            **rows,
            n_steps=options.general_steps,
            learning_rate=options.general_learning_rate,
            head_learning_rate=options.general_head_learning_rate,
        ),
        generation=GenerationSettings(n_documents=n_documents, n_steps=options.steps),
        posterior=PosteriorSettings(n_inputs=n_inputs, n_chain_inputs=options.chain_inputs),
    )


def leakage(options: Namespace) -> dict[str, Any]:
    """Do the experiment on leakage as a registered job, and write its tables."""
    (kept_as,) = answered(leakage_task(options).question())
    files = kept_files(kept_as)
    write_private(files, options.out)
    say(files[LEAKAGE_MD].decode())
    say(f"Written: {', '.join(FILES)}; kept as {kept_as}")
    result: dict[str, Any] = json.loads(files[LEAKAGE_JSON])
    return result


def leakage_task(options: Namespace) -> LeakageTask:
    """Return the task that the options ask for; without a tagger, with those that are shipped."""
    known = {tagger.tagger_id for tagger in known_taggers()}
    usual = LeakageTask(taggers=tuple(one for one in (RULES, DEFAULT) if one in known))
    given = chosen(options, LeakageTask)
    if "epochs" in given:
        given["epochs"] = given["epochs"][-1]
    return (quick(usual) if options.quick else usual).with_(**given)


_LOCALES = {"ja": JAPANESE, "en": ENGLISH}


def add_build(parts: Any) -> None:
    """Add the command to those of `deid`."""
    build = parts.add_parser("build", help="from masked notes to a corpus with names and spans")
    build.add_argument("--notes", type=Path, required=True, help="discharge.csv(.gz), NOTEEVENTS."
                       "csv(.gz), CSV, JSONL, Parquet, or a folder of .txt")  # fmt: skip
    build.add_argument("--out", type=Path, required=True, help="a new folder")
    build.add_argument("--names", choices=tuple(_LOCALES), default="ja", help="language of names")
    build.add_argument("--seed", type=int, default=0)
    build.add_argument("--typer", type=Path, metavar="DIR",
                       help="causal language model that types masks; rules without")  # fmt: skip
    build.add_argument("--translator", type=Path, metavar="DIR",
                       help="causal language model that translates into Japanese")  # fmt: skip
    build.add_argument("--no-template", action="store_true",
                       help="notes without masks stay as they are")  # fmt: skip
    for split, what in (("validation", 5000), ("test", 5000), ("train", 50000)):
        build.add_argument(f"--{split}", type=int, help=f"notes; {what} or less without it")
    build.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    build.set_defaults(command=deid_build_commands_build_command)


def deid_build_commands_build_command(options: Namespace) -> dict[str, Any]:
    """Make a corpus with names."""
    sizes = (options.validation, options.test, options.train)
    given = [size for size in sizes if size is not None]
    if len(given) not in (0, len(sizes)) or any(size < 0 for size in given):
        raise AuditError(
            "Give all three sizes or none, none of them negative.",
            where="--validation, --test, --train",
        )
    typing = None if options.typer is None else _asked(LocalModel(options.typer))
    translating = (
        None
        if options.translator is None
        else _asked(LocalModel(options.translator, max_new_tokens=2048))
    )
    order = ChainOrder(
        seed=options.seed,
        locale=_LOCALES[options.names],
        has_template=not options.no_template,
        sizes=SplitSizes(*given) if given else None,
        typer=RuleTyper() if typing is None else ModelTyper(typing),
        translator=NoTranslation() if translating is None else ModelTranslation(translating),
        models=tuple(model for model in (typing, translating) if model is not None),
    )
    source = open_notes(options.notes.expanduser())
    out = options.out.expanduser().absolute()
    summary = build_named(source, out=out, order=order, progress=progress_line())
    n_spans = sum(summary.n_spans.values())
    say(f"{summary.n_notes} notes with {n_spans} values; {sum(summary.unknown.values())} masks "
         "were not understood and stayed.")  # fmt: skip
    if not summary.leaks.is_clean:
        say(f"Splits share {summary.leaks.n_shared_patients} patients and "
             f"{summary.leaks.n_shared_texts} texts.")  # fmt: skip
    return summary.plain()


def _asked(model: LocalModel) -> AskedModel:
    return AskedModel(model, digest=model.digest, n_at_once=model.n_batch)


def add_generative_options(parser: Any) -> None:
    """Add the settings of a tuning, each with the prefix `--gen-`, and the adapter's."""
    group = parser.add_argument_group("with --kind generative")
    group.add_argument("--model", type=place, help="directory of a causal language model")
    add_options(group, TuningSettings, but=("gradient_checkpointing",), prefix="gen-")
    add_options(group, Lora, but=("targets",), prefix="lora-")
    group.add_argument("--lora", action="store_true", help="tune an adapter (needs peft) and merge "
                       "it into the model")  # fmt: skip
    group.add_argument("--lora-targets", default="all-linear", metavar="A,B",
                       help="modules that get an adapter")  # fmt: skip
    group.add_argument("--gradient-checkpointing", action="store_true",
                       help="less memory, a third more time")  # fmt: skip


def tuning_settings(options: Namespace) -> TuningSettings:
    """Return the settings that options say."""
    lora = None
    if options.lora:
        targets = tuple(part.strip() for part in options.lora_targets.split(",") if part.strip())
        lora = Lora(**chosen(options, Lora, prefix="lora-") | {"targets": targets})
    return TuningSettings(
        **chosen(options, TuningSettings, prefix="gen-")
        | {"gradient_checkpointing": options.gradient_checkpointing, "lora": lora}
    )


def _deid_generate_commands_tell(facts: GenerativeFacts) -> None:
    told, measured = facts.training, facts.measured
    _say(f"{told['n_steps']} steps on {told['n_windows']} windows of {told['n_notes']} notes; loss "
         f"{measured['loss']:.4f} nats a token.")  # fmt: skip
    if measured["validation"] is not None:
        _say(f"Validation loss {measured['first_validation']:.4f} before, "
             f"{measured['validation']:.4f} after.")  # fmt: skip
    if told["n_left_out"]:
        _say(f"{told['n_left_out']} windows cannot be written with tags and were left out.")
    if told["n_changed"]:
        _say(f"{told['n_changed']} windows are not given back by the tokenizer as they were: their "
             "copies cannot be exact.")  # fmt: skip


def tell_copies(copies: Mapping[str, Any]) -> None:
    """Say how faithful a model's copies are, n beside every rate."""
    if not copies["n_notes"]:
        return
    shares = ", ".join(
        f"{name} {copies[name]['n']} of {copies[name]['of']}"
        for name in ("faithful", "truncated", "malformed")
    )
    _say(f"Copies: {shares}; mean character error rate {copies['error_rate'] or 0:.4f}; "
         f"{copies['n_unaligned']} tagged spans without a place in their note.")  # fmt: skip


DeidTagCommandsPair = tuple[TaggedDocument, TaggedDocument]


def add_tag(parts: Any) -> None:
    """Add `deid tag` to the command line."""
    tag = parts.add_parser("tag", help="find personal information in notes and take it out")
    tag.add_argument("--tagger", default=DEFAULT, help="rules, default, trained/ID, or the folder "
                     "of a tagger")  # fmt: skip
    tag.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    tag.add_argument("--notes", type=Path, required=True, help="CSV, JSONL, Parquet, i2b2 XML, "
                     "CoNLL, one .txt, or a folder of texts or annotated notes")  # fmt: skip
    tag.add_argument("--out", type=Path, required=True, help="a new folder")
    tag.add_argument("--mode", choices=MODES, default=PLACEHOLDER)
    tag.add_argument("--language", choices=RELEASE_LANGUAGES, default=FROM_TEXT, help="of the "
                     "placeholders: text for that of each note (default)")  # fmt: skip
    tag.add_argument("--seed", type=int, default=0, help="of the surrogates")
    tag.add_argument("--keep-outputs", action="store_true", help="of a model that writes copies: "
                     "keep them too (hold the text of notes)")  # fmt: skip
    tag.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    tag.set_defaults(command=tag_command)


def add_convert(parts: Any) -> None:
    """Add `deid convert` to the command line."""
    convert = parts.add_parser("convert", help="annotated notes from any form into any other")
    convert.add_argument("--notes", type=Path, required=True, help="JSONL, i2b2 XML, CoNLL, a text "
                         "with tags, or a folder of these or of brat")  # fmt: skip
    convert.add_argument("--out", type=Path, required=True, help="a new folder")
    convert.add_argument("--to", choices=FORMATS, required=True)
    convert.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    convert.set_defaults(command=convert_command)


def add_misses(score: Any) -> None:
    """Add the list of misses to `deid score`."""
    score.add_argument("--misses", type=Path, help="write every miss: FILE.csv or FILE.jsonl "
                       "(holds text of notes)")  # fmt: skip


def tag_command(options: Namespace) -> dict[str, Any]:
    """Tag a file of notes."""
    started = time.monotonic()
    surrogates = Surrogates(options.seed) if options.mode == SURROGATE else None
    release = Release(
        mode=options.mode,
        surrogate=surrogates,
        surrogate_digest=surrogates.digest if surrogates else "",
        language=options.language,
    )
    census = tag_notes(
        notes_to_tag(options.notes),
        tagger=_tagger(options),
        out=options.out,
        release=release,
        keep_outputs=options.keep_outputs,
        progress=progress_line(),
    )
    seconds = time.monotonic() - started
    n_spans = sum(entry["n"] for entry in census["spans"].values())
    _say(f"{n_spans} spans in {census['n_notes']} notes, in {seconds:.1f} s.")
    if census["n_refused"]:
        _say(f"{census['n_refused']} rows are no notes and were left out.")
    if census["n_notes_of_no_language"]:
        n_foreign = census["n_notes_of_no_language"]
        _say(f"{n_foreign} notes are neither in Japanese nor in English: the taggers that are ")
        _say("shipped know no other language and miss most of what stands in such notes.")
    if census["n_replaced_by_itself"]:
        _say(f"{census['n_replaced_by_itself']} replacements are equal to what they replace.")
    if "copies" in census:
        tell_copies(census["copies"])
    _say(f"{SPANS} holds the notes as they were; {REDACTED} holds what a tagger left of them, ")
    _say("with all that it missed: measure it with `deid score` before anything is given away.")
    return census


def convert_command(options: Namespace) -> dict[str, Any]:
    """Write annotated notes in another form."""
    notes, n_flattened, n_patients, n_files = [], 0, 0, 0
    for note in annotated_notes(options.notes).documents(is_strict=True):
        assert isinstance(note, TaggedDocument)
        is_flat = options.to in ("conll", "inline") and n_overlapping(note.spans) > 0
        n_flattened += is_flat
        n_patients += note.patient_id is not None
        notes.append(flattened(note) if is_flat else note)
    if not notes:
        raise AuditError("There is no note in it.", where="notes")
    with whole_folder(options.out, where="--out") as folder:
        for name, content in write_files(notes, form=options.to).items():
            (folder / name).write_bytes(content)
            n_files += 1
    _say(f"{len(notes)} notes in {n_files} files.")
    if n_flattened:
        _say(f"{n_flattened} notes had spans that overlap: the longest stay whole.")
    if n_patients and options.to in ("brat", "i2b2", "inline"):
        _say(f"{n_patients} notes belong to a patient, which this form does not say.")
    return {"n_notes": len(notes), "n_files": n_files, "n_flattened": n_flattened}


def _tagger(options: Namespace) -> Tagger:
    """Return the tagger that is meant: an identifier comes before a folder of that name."""
    name: str = options.tagger
    if name in (RULES, DEFAULT) or name.startswith(TRAINED):
        return load_tagger(name, device=options.device)
    if not (Path(name) / TAGGER).is_file():
        raise AuditError(
            "There is no such tagger.",
            where="--tagger",
            do="Give rules, default, trained/ID, or a folder with tagger.json.",
        )
    return load_tagger_folder(Path(name), device=options.device)


@contextmanager
def listing_misses(
    path: Path | None, pairs: Iterable[DeidTagCommandsPair]
) -> Iterator[Iterable[DeidTagCommandsPair]]:
    """Pass notes on and write what differs in them; the file appears when the block ends well."""
    if path is None:
        yield pairs
        return
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise AuditError("The name of the file ends in .csv or .jsonl.", where="--misses")
    try:
        # Half a surrogate pair, which is no UTF-8, becomes a question mark.
        with whole_file(path) as binary:
            file = TextIOWrapper(binary, encoding="utf-8", errors="replace", newline="")
            is_table = path.suffix.lower() == ".csv"
            if is_table:
                file.write(misses_csv(()))
            yield _passed_on(pairs, file, is_table=is_table)
            file.flush()
            file.detach()
    except OSError as error:
        raise AuditError(f"Cannot be written ({error.strerror}).", where="--misses") from None


def _passed_on(
    pairs: Iterable[DeidTagCommandsPair], file: Any, *, is_table: bool
) -> Iterator[DeidTagCommandsPair]:
    for gold, predicted in pairs:
        misses = misses_of(gold, predicted=predicted)
        if misses and is_table:
            file.write(misses_csv(misses).partition("\n")[2])
        elif misses:
            file.writelines(misses_jsonl(misses))
        yield gold, predicted


TOKEN, GENERATIVE = "token", "generative"
_FROM_SCRATCH = {"learning_rate": 2e-3, "n_tokens": 192, "n_epochs": 3.0}
_FROM_ENCODER = {"learning_rate": 5e-5, "n_tokens": 512, "overlap": 128, "n_epochs": 3.0}
_TOKEN_SETTINGS = (
    "n_epochs", "n_tokens", "overlap", "batch", "micro_batch", "learning_rate", "hidden_share",
    "recall_weight", "scheme",
)  # fmt: skip


def add_train(parts: Any) -> None:
    """Add `deid train` to the command line."""
    train = parts.add_parser("train", help="train a tagger; goes on where it stopped")
    add = train.add_argument
    add("--kind", choices=(TOKEN, GENERATIVE), default=TOKEN)
    add_options(train, TaggerTask)
    add("--default", action="store_true", help="make the shipped tagger again")
    add("--measure-again", action="store_true", help="with --default: train nothing, measure anew, "
        "as after a change of the rules")  # fmt: skip
    start = train.add_mutually_exclusive_group()
    start.add_argument("--encoder", type=place, help="directory of an encoder to start from")
    start.add_argument("--scratch", action="store_true", help="a small network of characters "
                       "(the default)")  # fmt: skip
    add_options(train, TaggerSettings, only=_TOKEN_SETTINGS)
    add("--train-seed", type=int, default=0, help="of weights, order and noise")
    add_generative_options(train)
    add("--json", action="store_true", help="print one JSON object on stdout")
    train.set_defaults(command=train_command)


def train_command(options: Namespace) -> dict[str, Any]:
    """Train a tagger, or go on with its training."""
    if options.default:
        return _default(options)
    is_generative = options.kind == GENERATIVE
    if is_generative and options.model is None:
        raise AuditError("Which model shall be tuned?", where="--model", do="Give a directory.")
    task = TaggerTask(
        settings=tuning_settings(options) if is_generative else token_settings(options),
        start=options.model if is_generative else options.encoder,
        **chosen(options, TaggerTask),
    )
    (tagger_id,) = answered(task.question())
    folder = task.with_(tagger_id=tagger_id).folder
    kind: type[GenerativeFacts] | type[TaggerFacts] = (
        GenerativeFacts if is_generative else TaggerFacts
    )
    facts: Any = kind.of_folder(folder)
    if is_generative:
        _deid_generate_commands_tell(facts)
    else:
        measured = facts.measured
        recall, precision = (_rate_shown(measured[key]) for key in ("recall", "precision"))
        _say(f"Recall {recall}, precision {precision} (strict, {measured['n_gold']} spans of "
             f"{facts.training['n_validation_notes']} notes of the same "
             "kind as those it learned from).")  # fmt: skip
    _say(f"The tagger: {folder if task.out else tagger_id}")
    bias = {} if is_generative else {"bias": facts.bias}
    return {
        "tagger_id": None if task.out else tagger_id,
        "directory": str(folder),
        "digest": facts.digest(),
        **bias,
        "measured": dict(facts.measured),
        "training": dict(facts.training),
    }


def _default(options: Namespace) -> dict[str, Any]:
    from audit.deid.network.training import DefaultRecipe, make_default, measure_again

    out = chosen(options, TaggerTask).get("out") or SHIPPED
    if options.measure_again:
        return _told(measure_again(out))
    recipe = DefaultRecipe(seed=options.train_seed)
    if "n_epochs" in options:
        recipe = replace(recipe, n_epochs=options.n_epochs)
    work = out.parent / f".{out.name}.training"
    how = make_default(work, out=out, recipe=recipe, progress=progress_line())
    shutil.rmtree(work, ignore_errors=True)
    return _told(how)


def _told(how: dict[str, Any]) -> dict[str, Any]:
    for name, by_language in how["held_out"].items():
        for language, one in by_language.items():
            figures = one["strict"]["all"]
            _say(f"{name}, {language}: recall {_rate_shown(figures['recall'])}, precision "
                 f"{_rate_shown(figures['precision'])} (strict, {figures['n_gold']} spans of "
                 f"{one['n_notes']} notes of other styles).")  # fmt: skip
    return how


def token_settings(options: Namespace) -> TaggerSettings:
    """Return the settings that options say, the others as they suit what is trained."""
    values: dict[str, Any] = dict(_FROM_SCRATCH if options.encoder is None else _FROM_ENCODER)
    given = chosen(options, TaggerSettings)
    usual = TaggerSettings()
    if "batch" in given:
        values["micro_batch"] = min(given["batch"], usual.micro_batch)
    if "n_tokens" in given:
        values["overlap"] = min(values.get("overlap", usual.overlap), given["n_tokens"] // 4)
    return TaggerSettings(**values | given, seed=options.train_seed)


def _rate_shown(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


_MAX_REPLICATES = 100_000
_MAX_SHOWN = 20
_COMPARING = "comparing the spans"


def add_deid(commands_of: Any) -> None:
    """Add the command and its parts to the command line."""
    deid = commands_of.add_parser("deid", help="de-identification: make a corpus, measure a tagger")
    parts = deid.add_subparsers(required=True, metavar="WHAT")
    score = parts.add_parser("score", help="predicted spans against gold spans")
    score.add_argument("--gold", type=Path, required=True, help="JSONL, i2b2 XML, CoNLL, or a "
                       "folder of these or of brat")  # fmt: skip
    sides = score.add_mutually_exclusive_group(required=True)
    sides.add_argument("--pred", type=Path, help="the same notes, in any of these forms, or the "
                       "folder of `deid tag`")  # fmt: skip
    sides.add_argument("--outputs", type=Path, help="JSONL of a model's own texts with tags: "
                       "doc_id, output")  # fmt: skip
    score.add_argument("--matcher", choices=MATCHERS, default=OPTIMAL)
    score.add_argument("--five-types", action="store_true", help="map labels of i2b2 2014, "
                       "MEDDOCAN and others to the five types")  # fmt: skip
    score.add_argument("--label-map", type=Path, help="JSON object from label to type")
    score.add_argument("--replicates", type=int, default=N_REPLICATES, help="of the bootstrap")
    score.add_argument("--seed", type=int, default=0)
    score.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    add_misses(score)
    score.set_defaults(command=score_command)
    add_build(parts)
    add_tag(parts)
    add_convert(parts)
    add_train(parts)


def score_command(options: Namespace) -> dict[str, Any]:
    """Measure predicted spans against gold spans."""
    if not 1 <= options.replicates <= _MAX_REPLICATES:
        raise AuditError("Choose 1 to 100,000 replicates.", where="--replicates")
    with TemporaryDirectory(prefix="kart-score-") as folder:
        return _scored(options, Path(folder))


def _scored(options: Namespace, folder: Path) -> dict[str, Any]:
    by = _label_map(options)
    gold = as_jsonl(options.gold, folder, what=GOLD)
    n_without_gold = 0
    if options.outputs:
        n_without_gold = align_outputs(gold, options.outputs, folder=folder)
    files = PairedFiles(
        gold,
        folder / PREDICTIONS if options.outputs else as_jsonl(options.pred, folder, what=PREDICTED),
    )
    unknown: set[str] = set()
    metered = _metered(_mapped(files, by=by, unknown=unknown), gold=gold)
    with listing_misses(options.misses, metered) as pairs:
        scored = score_pairs(pairs, matcher=options.matcher)
        if unknown and options.five_types:
            raise _unknown(unknown)
    how = {"matcher": options.matcher, "seed": options.seed, "n_replicates": options.replicates}
    score = score_summary(scored, **how)
    summary = score.plain()
    n_without_gold += files.n_predicted_only
    notes = list(_notes(files.n_gold_only, n_without_gold, unknown=unknown))
    for note in notes:
        _say(note)
    _deid_commands_tell(score)
    if options.outputs:
        copies = read_copies(folder)
        exact_only = _mapped(copies.verbatim(files), by=by, unknown=unknown)
        exact = score_summary(score_pairs(exact_only, matcher=options.matcher), **how)
        summary |= {"verbatim": exact.plain(), "copies": copies_summary(copies.sums)}
        tell_copies(summary["copies"])
        _say("Of copies that are exact alone, all others counted as without a span:")
        _deid_commands_tell(exact)
    return {**summary, "notes": notes}


def _unknown(labels: Iterable[str]) -> AuditError:
    names = sorted(labels)
    shown = ", ".join(names[:_MAX_SHOWN]) + (" ..." if len(names) > _MAX_SHOWN else "")
    return AuditError(
        f"{len(names)} labels belong to none of the five types: {shown}",
        where="--five-types",
        do="Say what they are with --label-map FILE.json; null leaves a label out.",
    )


def _label_map(options: Namespace) -> LabelMap | None:
    if options.label_map is None:
        return FIVE_TYPES if options.five_types else None
    try:
        content = options.label_map.read_bytes()
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where="--label-map") from None
    text, _ = decode_text(content, what="--label-map")
    given = read_label_map(text, what="--label-map")
    return LabelMap({**FIVE_TYPES.labels, **given.labels}) if options.five_types else given


def _mapped(
    files: Iterable[Pair], *, by: LabelMap | None, unknown: set[str]
) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
    for pair in files:
        if by is None:
            yield pair
            continue
        gold, predicted = (relabelled(document, by=by) for document in pair)
        unknown.update(gold.unknown, predicted.unknown)
        yield gold.document, predicted.document


def _metered(pairs: Iterable[Pair], *, gold: Path) -> Iterator[Pair]:
    """Pass notes on, and say how far they are; the unit is bytes of the gold file."""
    size = float(gold.stat().st_size) if gold.is_file() else 1.0
    meter = Meter({_COMPARING: size}, listener=progress_line(), should_stop=lambda: False)
    for note, predicted in pairs:
        yield note, predicted
        meter.add(_COMPARING, float(len(note.text.encode("utf-8", "surrogatepass"))))
    meter.finish(_COMPARING)


def _notes(n_gold_only: int, n_without_gold: int, *, unknown: set[str]) -> Iterator[str]:
    if n_gold_only:
        yield f"{n_gold_only} notes were not predicted: their spans count as missed."
    if n_without_gold:
        yield f"{n_without_gold} predicted notes have no gold and were left out."
    if unknown:
        names = ", ".join(sorted(unknown))
        yield f"{len(unknown)} labels are not in the map and were kept: {names}"


def _deid_commands_tell(summary: ScoreSummary) -> None:
    _say(f"{summary.n_documents} notes of {summary.n_patients} patients.")
    covered = summary.coverage.labels.get(IDENTIFIER, summary.coverage.together)
    n_readable = covered.n_gold - covered.n_covered_whole
    what = "identifiers" if IDENTIFIER in summary.coverage.labels else "personal items"
    _say(f"{n_readable} of {covered.n_gold} {what} are still readable, in whole or in part.")
    head = ("precision", "recall", "f1", "complete", "clean", "exact", "n_gold", "n_predicted")
    for criterion, one in summary.criteria.items():
        _say(f"{criterion:<28}" + " ".join(f"{name:>11}" for name in head))
        for label, entry in (*one.labels.items(), ("all labels", one.together)):
            _say(
                f"  {label:<26}"
                + " ".join(f"{_deid_commands_shown(getattr(entry, name)):>11}" for name in head)
            )


def _deid_commands_shown(value: float | None) -> str:
    if value is None:
        return "n/a"
    return str(value) if isinstance(value, int) else f"{value:.4f}"
