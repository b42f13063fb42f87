"""The command line: python -m audit demo | run | score | selftest | results | jobs and more.

A command is a function of `COMMANDS`, named "group_command" or "command". Its parameters are its
options, those before the star without a flag; its docstring is its help. A parameter that is
annotated with `FieldsOf` takes the fields of a task, or of settings, that were given.

The same calls as the pages. With `--json` one JSON object goes to stdout; progress and words go to
stderr. Exit code 0, or 2 with one plain paragraph for bad input, or 130 after Ctrl-C.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
from argparse import SUPPRESS, ArgumentParser
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from audit.access_log import entries, log_seal, record, verify
from audit.attack.metrics import plain, score_file
from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.attack.verdict import REASONS
from audit.corpus.examine import mentions_in, read_examination
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
from audit.deid.cases import SpanCase, misses_csv, misses_jsonl
from audit.deid.copies import PREDICTIONS, align_outputs, read_copies
from audit.deid.generative.config import GenerativeFacts, Lora, TuningSettings
from audit.deid.generative.model import LocalModel
from audit.deid.given import SPANS, annotated_notes, as_jsonl, notes_to_tag
from audit.deid.metrics import Pair
from audit.deid.network.config import TaggerFacts, TaggerSettings
from audit.deid.pipeline import ChainOrder, build_named
from audit.deid.release import Release
from audit.deid.score import ScoreSummary, score_pairs, score_summary
from audit.deid.tag import REDACTED, tag_notes
from audit.deid.tagger import TAGGER, Tagger
from audit.deid.taggers import (
    DEFAULT,
    RULES,
    TRAINED,
    known_taggers,
    load_tagger,
    load_tagger_folder,
)
from audit.deid.tasks import TaggerTask
from audit.demo import DemoTask, report_summary, self_test
from audit.errors import AuditCancelled, AuditError, Message
from audit.experiment.leakage import (
    FILES,
    LEAKAGE,
    LEAKAGE_JSON,
    LEAKAGE_MD,
    LeakageTask,
    quick,
)
from audit.experiment.paper import (
    TABLES_JSON,
    TABLES_MD,
    TRAINING,
    ExperimentTask,
)
from audit.foreign import decode_text
from audit.home import DEMO_HOSPITAL, results_dir, stay_offline
from audit.jobs import service
from audit.jobs.here import answer_here, waits_for_text
from audit.jobs.table import Job
from audit.jobs.worker import work
from audit.models.registry import model_path, tokenizer
from audit.names.candidates import GUESSED_KINDS, guessed_kinds
from audit.names.controls import with_controls
from audit.names.files import names_file, read_names
from audit.names.people import ENGLISH, JAPANESE
from audit.names.spelling import piece_counter
from audit.notes.formats import GOLD, PREDICTED, Format, PairedFiles, flattened, write_files
from audit.notes.passages import Passages, read_passages
from audit.notes.read import FIELDS, open_notes
from audit.notes.spans import (
    FIVE_TYPES,
    IDENTIFIER,
    LabelMap,
    n_overlapping,
    read_label_map,
    relabelled,
)
from audit.progress import duration, progress_line, say
from audit.report.compare import MAX_REFERENCES, compare_references
from audit.report.export import SEAL, bundle_files, write_report
from audit.report.html import ReportChoice
from audit.report.report import (
    AuditReport,
    KeptAudit,
    demo_digests,
    is_demo,
    kept_audit,
    other_scenario,
    same_but_reference,
)
from audit.run import AuditTask
from audit.shelf import whole_folder, write_private, write_whole
from audit.stats import N_REPLICATES
from audit.tables import read_table, write_table
from audit.task import Columns, Device, Record, Task, queue_of
from audit.training.config import TrainSettings, largest_pass
from audit.training.kept import MODEL, MODELS, PretrainTask, snapshot_name
from cache.store import Store

Given: TypeAlias = dict[str, Any]
"""Option -> value, of those that were given: the others have the default of what takes them."""
Result: TypeAlias = dict[str, Any]
_KEPT = "kept"
"""In place of a folder: what is made is kept on this installation."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    stay_offline()
    try:
        given = parsed(arguments)
        result = called(given)
    except AuditError as error:
        say(str(error))
        return 2
    except (AuditCancelled, KeyboardInterrupt):
        say("Stopped. Everything finished so far is kept; the same command goes on from there.")
        return 130
    if given["json"]:
        sys.stdout.write(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")
    return int(result.get("exit_code", 0))


@dataclass(frozen=True)
class FieldsOf:
    """The fields of a record that are options: `only` these, or those with a description if any.

    An option is called as its field without `n_`, `is_` or `has_`, or as the record's `flags` say;
    where several records of a command have a field of one name, one option serves them all.
    """

    record: type[Record]
    only: Collection[str] = ()
    prefix: str = ""

    def fields(self) -> dict[str, FieldInfo]:
        """Return the fields by the names that their values have among what was given."""
        known = self.record.model_fields
        only = self.only or [name for name in known if known[name].description] or known
        return {self.prefix + name: known[name] for name in known if name in only}

    def chosen(self, given: Given) -> Given:
        """Return the values of the record's fields that were given."""
        return {n.removeprefix(self.prefix): given[n] for n in self.fields() if n in given}


def parser() -> ArgumentParser:
    """Return the parser of all commands."""
    top = ArgumentParser(
        prog="python -m audit", description="May this language model leave the building?"
    )
    groups = {"": top.add_subparsers(required=True, metavar="COMMAND")}
    for group, about in GROUPS.items():
        parts = groups[""].add_parser(group, help=about)
        groups[group] = parts.add_subparsers(required=True, metavar="WHAT")
    for command in COMMANDS:
        group, _, name = command.__name__.rpartition("_")
        about = (command.__doc__ or "").partition("\n")[0]
        one = groups[group].add_parser(name, help=about, argument_default=SUPPRESS)
        known: set[str] = set()
        for field_name, flag, field in _options_of(command):
            if field_name not in known:
                known.add(field_name)
                named: Given = {"dest": field_name} if flag.startswith("--") else {}
                one.add_argument(flag, help=field.description, **named, **_how(field, flag=flag))
        one.add_argument(
            "--json", action="store_true", default=False, help="print one JSON object on stdout"
        )
        one.set_defaults(command=command)
    return top


def called(given: Given) -> Result:
    """Call the command that was parsed and return its result."""
    command = given["command"]
    hints = get_type_hints(command, include_extras=True)
    arguments = {}
    for name in inspect.signature(command).parameters:
        marks = get_args(hints[name])
        if marks and isinstance(marks[-1], FieldsOf):
            arguments[name] = marks[-1].chosen(given)
        elif name in given:
            arguments[name] = given[name]
    result: Result = command(**arguments)
    return result


def parsed(arguments: Sequence[object] | None = None) -> Given:
    """Return the command and what was given to it."""
    words = None if arguments is None else [str(word) for word in arguments]
    given = vars(parser().parse_args(words))
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}


def _options_of(command: Callable[..., Any]) -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield name, flag, and kind of each option of a command."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, mark = get_args(hints[name]) if _is(hints[name], Annotated) else (hints[name], None)
        if isinstance(mark, FieldsOf):
            for field_name, field in mark.fields().items():
                own = field_name.removeprefix(mark.prefix)
                flag = "--" + mark.prefix + re.sub("^(n|is|has)_", "", own).replace("_", "-")
                yield field_name, mark.record.flags.get(own, flag), field
        elif name != "json":
            is_bare = parameter.default is parameter.empty
            default = PydanticUndefined if is_bare else parameter.default
            is_flag = parameter.kind is parameter.KEYWORD_ONLY
            flag = f"--{name.replace('_', '-')}" if is_flag else name
            yield name, flag, FieldInfo(annotation=kind, default=default, description=mark)


def _how(field: FieldInfo, *, flag: str) -> dict[str, Any]:
    """Return how the values of an option are read: from its type, and its examples."""
    kind = _without_none(field.annotation)
    if kind is bool:
        return {"action": "store_false" if field.default else "store_true"}
    if kind is Path and flag == "--out":
        return {"type": _kept_or_place, "required": field.is_required()}
    if not flag.startswith("--"):
        return _reader(kind) | ({} if field.is_required() else {"nargs": "?"})
    if not _is(kind, tuple):
        return _reader(kind) | {"required": field.is_required()}
    one = _without_none(get_args(kind)[0])
    if field.examples:
        return {"type": _listed(one, flag=flag), "metavar": field.examples[0]}
    return _reader(one) | {"action": "append"}


def _reader(kind: Any) -> dict[str, Any]:
    if _is(kind, Literal):
        first = type(get_args(kind)[0])
        return {
            "choices": get_args(kind),
            "type": first if first is int else lambda text: text.replace("-", "_"),
        }
    if _is(kind, tuple):
        return {"type": _column, "metavar": "FIELD=NAME"}
    return {"type": _place if kind is Path else kind}


def _is(kind: Any, origin: Any) -> bool:
    return get_origin(kind) is origin


def _without_none(kind: Any) -> Any:
    """Return the type that `kind | None`, or an annotated one, is about."""
    if get_origin(kind) in (UnionType, Union):
        kind = next(one for one in get_args(kind) if one is not type(None))
    return get_args(kind)[0] if _is(kind, Annotated) else kind


def _place(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _kept_or_place(text: str) -> Path | None:
    return None if text == _KEPT else _place(text)


def _column(text: str) -> tuple[str, str]:
    field, sign, name = text.partition("=")
    if not (sign and name) or field not in FIELDS:
        raise AuditError(
            "This is no FIELD=NAME.", where="--column",
            do="Fields are {fields}; as text=body.",
        fields=', '.join(FIELDS))  # fmt: skip
    return field, name


def _listed(kind: type[Any], *, flag: str) -> Callable[[str], tuple[Any, ...]]:
    def read(text: str) -> tuple[Any, ...]:
        try:
            return tuple(kind(part.strip()) for part in text.split(",") if part.strip())
        except ValueError:
            what = "whole numbers" if kind is int else "numbers"
            raise AuditError(
                "These are no {subject} with commas between.",
                where=flag,
                do="As 1,2,4,8.",
                subject=what,
            ) from None

    return read


def _answered(task: Task) -> tuple[str, ...]:
    """Return what came of a task, done here if need be; what is kept is returned at once.

    A job is registered, so that the pages and other commands see it; it waits for its turn.
    """
    service.recover()
    question = task.question()
    if known := task.kept(question):
        say("Answered before; nothing is computed.")
        return known
    return answer_here(question, progress=progress_line(), say=say)


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise AuditError("The file is too large.", where=path.name, do="At most 200 MB.")
        return path.read_bytes()
    except OSError as error:
        raise AuditError(
            "Cannot be read ({strerror}).", where=path.name, strerror=error.strerror
        ) from None


MAX_FILE_BYTES = 200_000_000
Seed = Annotated[int, "of all that is drawn"]


def demo(*, given: Annotated[Given, FieldsOf(DemoTask)]) -> Result:
    """Audit the demo hospital."""
    task = DemoTask(**given)
    digests = _answered(task)
    with Store(results_dir()) as store:
        return {
            name: report_summary(_report(digest, store=store))
            for name, digest in zip(task.requests(), digests, strict=True)
        }


def run(
    *,
    general: Annotated[str, "directory of the general model"],
    hospital: Annotated[str, "directory of the hospital's model"],
    scenario: Literal[1, 2],
    names: Annotated[Path, "CSV of candidate names"],
    generation: Annotated[Given, FieldsOf(GenerationSettings)],
    posterior: Annotated[Given, FieldsOf(PosteriorSettings)],
    asked: Annotated[Given, FieldsOf(AuditRequest, only=("threshold", "dtype"))],
    reference: Annotated[
        tuple[str, ...],
        "also with this model in the general model's place, such as one trained on the "
        "de-identified notes; repeatable",
    ] = (),
    passages: Annotated[Path | None, "CSV or JSONL of de-identified passages"] = None,
    draw_controls: Annotated[int, "draw so many easy and hard controls"] = 0,
    out: Annotated[Path | None, "directory for names.csv, measures.json, report.json"] = None,
    seed: Seed = 0,
    device: Device = "auto",
) -> Result:
    """Audit a pair of models."""
    listed = read_names(_bytes(names), what="names")
    say(f"{len(listed.candidates)} names read ({listed.encoding}).")
    for note in listed.notes:
        say(f"names, row {note.row}: {note.what}")
    candidates = listed.candidates
    if draw_controls:
        spelt = piece_counter(tokenizer(model_path(hospital, where="--hospital")))
        n_each = {"n_easy": draw_controls, "n_hard": draw_controls}
        candidates = with_controls(candidates, **n_each, seed=seed, count_pieces=spelt)
        say(f"Drawn: {len(candidates) - len(listed.candidates)} controls.")
    if kinds := guessed_kinds(candidates):
        say(Message(GUESSED_KINDS, **kinds))
    request = AuditRequest(
        scenario_number=scenario,
        general=model_path(general, where="--general"),
        hospital=model_path(hospital, where="--hospital"),
        candidates=candidates,
        passages=_passages(passages) if passages and scenario == 2 else None,
        generation=GenerationSettings(**generation),
        posterior=PosteriorSettings(**posterior),
        seed=seed,
        device=device,
        **asked,
    )
    paths = [model_path(one, where="--reference") for one in reference]
    if len(paths) > MAX_REFERENCES:
        raise AuditError("At most {n} can be compared.", where="--reference", n=MAX_REFERENCES)
    report = _audited(request, out=out)
    others = []
    for number, path in enumerate(paths, start=1):
        say(f"The same audit with reference {number} in the general model's place.")
        folder = out / f"reference-{number}" if out else None
        others.append(_audited(request.with_(general=path), out=folder))
    beside = {"references": _beside(report, others)} if others else {}
    return _summary(report) | beside


def _passages(path: Path) -> Passages:
    passages = read_passages(_bytes(path), what="passages", file_name=path.name)
    say(f"{len(passages)} passages read ({passages.encoding}).")
    for note in passages.notes[:20]:
        say(f"passages, row {note.row}: {note.what}")
    return passages


def _audited(request: AuditRequest, *, out: Path | None) -> AuditReport:
    """Answer one question, say its verdict, and write its files."""
    (digest,) = _answered(AuditTask(request=request))
    with Store(results_dir()) as store:
        report = _report(digest, store=store)
        documents = store.get_record(f"documents/{digest}") or {}
    say(report.verdict.english)
    for code in report.verdict.reasons:
        say(f"Reason: {REASONS.get(code, code)}")
    if now := report.verdict.now("en"):
        say(f"What now: {now}")
    for note in report.notes:
        say(f"Note: {note}")
    if planted := report.details.canaries:
        say(planted.english)
    if out:
        _say_written(write_report(report, out, documents=documents))
    return report


def _report(digest: str, *, store: Store) -> AuditReport:
    kept = store.get_record(f"audit/{digest}")
    if kept is None:
        raise AuditError("The result is damaged.", do="Run the same command again.")
    return AuditReport.from_json(kept)


def _say_written(paths: Iterable[Path]) -> None:
    for path in paths:
        say(f"Written: {path.name}")


def _summary(report: AuditReport) -> Result:
    told = {"notes": list(report.notes), "made": dict(report.made)}
    return report_summary(report) | told


def _beside(report: AuditReport, others: list[AuditReport]) -> list[Result]:
    """Return each reference's audit, and this one's differences from it, paired by name."""
    found = compare_references(report, others=others)
    for one in (report, *(beside.other for beside in found)):
        for name, stratum in one.measures.shown.items():
            auc = stratum.scores[one.fixed_score].auc
            say(f"{one.models['general'].name}: AUC {auc.value:.3f} ({auc.low:.3f} to "
                f"{auc.high:.3f}), {name} controls, {stratum.n_members} members, "
                f"{stratum.n_controls} controls")  # fmt: skip
    return [
        _summary(other)
        | {
            "difference": {
                "digest": other.digest,
                "name": other.models["general"].name,
                "aucs": plain(beside.aucs),
                "flagged": plain(beside.tested.difference),
                "p": beside.tested.p,
            }
        }
        for other, beside in zip(others, found, strict=True)
    ]


_TRUTH = {"1": True, "0": False, "1.0": True, "0.0": False, "true": True, "false": False}


def score(
    *,
    scores: Annotated[Path, "CSV with score and is_member"],
    threshold: float | None = None,
    seed: Seed = 0,
) -> Result:
    """Measure any scores with known truth; needs no model."""
    table = read_table(_bytes(scores), what="scores")
    columns = [name.strip().lower() for name in table.header]
    if not {"score", "is_member"} <= set(columns):
        raise AuditError(
            "The file needs the columns `score` and `is_member`.", where="scores",
            do="Write a CSV with a header line, one name a row; is_member is 1 or 0.",
        )  # fmt: skip
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
    result = score_file(values, truth, threshold=threshold, seed=seed)
    say(f"AUC {result['auc']:.6f} ({result['auc_low']:.3f} to {result['auc_high']:.3f})")
    tprs: Any = result["tpr_at_fpr"]
    for fpr, tpr in tprs.items():
        say(f"TPR at FPR <= {fpr}: {'not resolvable' if tpr is None else f'{tpr:.4f}'}")
    return result


def selftest(
    *,
    directory: Annotated[Path, "demo files to test with"] = DEMO_HOSPITAL,
    seed: Seed = 0,
    device: Device = "auto",
) -> Result:
    """Say whether this installation can be trusted."""
    with Store(results_dir()) as store:
        checks = self_test(
            directory, store=store, seed=seed, device=device, progress=progress_line()
        )
    for check in checks:
        say(f"{'passed' if check.has_passed else 'FAILED'}  {check.name}: {check.found}")
    is_right = all(check.has_passed for check in checks)
    say(f"{'This installation can be trusted' if is_right else 'Do not trust this installation'}.")
    return {
        "passed": is_right, "checks": [asdict(check) for check in checks],
        "exit_code": int(not is_right),
    }  # fmt: skip


def results(
    digest: Annotated[str, "beginning of an audit's digest"] = "",
    *,
    out: Annotated[Path | None, "write this audit's files here"] = None,
    html: Annotated[
        bool, "write the report to be signed, with its tables and a manifest of digests"
    ] = False,
    names: Annotated[Literal["masked", "pseudonyms", "full"], "with --html"] = "masked",
    language: Annotated[Literal["en", "ja"], "with --html"] = "en",
) -> Result:
    """List kept audits, or write one out."""
    reports = {}
    with Store(results_dir()) as store:
        for name in (key.removeprefix("audit/") for key in store.keys("audit/")):
            with suppress(AuditError):  # of another version
                reports[name] = _report(name, store=store)
        demo = demo_digests(store)
        chosen = [one for one in reports if one.startswith(digest)]
        if digest and len(chosen) != 1:
            raise AuditError(
                "{n_chosen} kept audits begin so.", where="digest",
                do="Give more of its digits; `python -m audit results` lists all.",
            n_chosen=len(chosen))  # fmt: skip
        documents = store.get_record(f"documents/{chosen[0]}") if digest else None
    lines = {
        name: kept_audit(report, is_demo=is_demo(report, digests=demo))
        for name, report in reports.items()
    }
    if out and digest:
        report = reports[chosen[0]]
        record("exported", audit=report.digest, names=names if html else "full")
        files = {SEAL: f"{log_seal()}\n".encode("ascii")}
        if html:
            choice = ReportChoice(
                language=language, names=names, is_demo=lines[report.digest].is_demo
            )
            files = _bundle(report, choice, kept=lines, reports=reports, documents=documents)
        else:
            _say_written(write_report(report, out, documents=documents))
        _say_written(write_private(files, out))
    rows = []
    for line in sorted((lines[one] for one in chosen), key=lambda line: line.at):
        told = asdict(line)
        verdict = told.pop("state")
        del told["family"]
        rows.append({**told, "verdict": verdict})
        say(f"{line.digest[:12]}  {line.at}  scenario {line.scenario}  {line.general} -> "
            f"{line.hospital}  {line.n_names} names  {verdict}"
            f"{'  (made-up hospital)' if line.is_demo else ''}")  # fmt: skip
    return {"audits": rows}


def _bundle(
    report: AuditReport,
    choice: ReportChoice,
    *,
    kept: dict[str, KeptAudit],
    reports: dict[str, AuditReport],
    documents: Any,
) -> dict[str, bytes]:
    """Return the files of a report, beside the audits that belong to it."""
    own = kept[report.digest]
    with Store(results_dir()) as store:
        other = other_scenario(own, kept=kept.values(), demo=demo_digests(store))
    found = same_but_reference(own, kept=list(kept.values()))
    newest = sorted(found, key=lambda line: line.at, reverse=True)[:MAX_REFERENCES]
    others = [reports[line.digest] for line in newest]
    return bundle_files(
        report,
        choice=choice,
        other=reports[other.digest] if other else None,
        references=compare_references(report, others=others),
        documents=documents,
        seal=log_seal(),
    )


_WATCH_SECONDS = 1.0
JobId = Annotated[str, "the job's id, or the beginning of it"]


def jobs(*, watch: Annotated[bool, "until nothing waits or runs any more"] = False) -> Result:
    """List what waits, runs and has ended."""
    while True:
        service.recover()
        found = service.jobs()
        active = [job for job in found if job.is_active]
        if not (watch and active):
            return {"jobs": [_told(job) for job in reversed(found)][::-1]}
        for job in reversed(active):
            _told(job)
        time.sleep(_WATCH_SECONDS)


def cancel(job: JobId) -> Result:
    """Stop a job; what is finished is kept."""
    return _told(service.cancel(job))


def resume(job: JobId) -> Result:
    """Let a job go on where it stopped, in the background."""
    return _told(service.resume(job))


def worker(*, device: Device = "auto") -> Result:
    """Do the jobs of a device here, until none has come for some minutes."""
    queue = queue_of(device)
    if not work(queue):
        say(f"There is a worker for {queue} already.")
    return {"device": queue}


def _told(job: Job) -> Result:
    """Say a job's line and return the job as plain values."""
    is_running = job.state == "running"
    wait = service.waits_for(job)
    parts = (
        job.job_id,
        job.created,
        job.state + (f"  {100 * job.share:.0f} %" if is_running else "")
        + ("" if job.seconds_left is None else f", {duration(job.seconds_left)} left"),
        job.phase if is_running else "",
        f"scenario {job.scenario}" if job.scenario else job.kind,
        job.label,
        job.device,
        f"waits for {waits_for_text(wait)}" if wait else "",
        " ".join(digest[:12] for digest in job.result),
        job.failure.what if job.failure else "",
    )  # fmt: skip
    say("  ".join(part for part in parts if part))
    told = asdict(job) | {"part": dict(job.part), "stage": job.stage}
    if job.failure:
        told["failure"]["settings"] = dict(job.failure.settings)
    return told


_REASONS = {
    "changed": "it was changed, or is no line of this log",
    "order": "it does not follow the line before it: a line is missing, moved, or added",
    "unfinished": "it was never finished; the next line that is written takes its place",
    "missing": "Lines at the end are missing.",
    "head": "The head, which says how many lines there are, is missing or does not fit.",
    "seal": "It does not hold what the seal says it held: it was put back to an older state, or "
    "written anew.",
}


def log(
    what: Literal["verify", "show"],
    *,
    limit: Annotated[int, "lines of `show`, the newest"] = 50,
    audit: Annotated[str, "only lines of this audit: digits of its digest"] = "",
    seal: Annotated[str, "`verify`: of a report; what the log held then it must still hold"] = "",
) -> Result:
    """Say whether the access log is whole (exit code 1 where it is not), or show its lines."""
    if what == "show":
        found = entries(limit, audit=audit)
        for entry in reversed(found):
            counts = " ".join(f"{key}={value}" for key, value in entry.counts.items())
            parts = (str(entry.number), entry.at, entry.who, entry.action, entry.audit or "-")
            say("  ".join(filter(None, (*parts, counts))))
        return {"entries": [e.model_dump(exclude={"previous", "mac"}) for e in found]}
    result = verify(seal)
    now = log_seal() if result.is_intact else ""
    if result.is_intact:
        say(f"The access log is whole: {result.n_lines} lines.")
        say("It holds what the seal says." if seal else f"Its seal: {now}")
    elif result.first_bad_line is None:
        say(f"The access log is NOT whole. {_REASONS[result.reason]}")
    else:
        say(f"The access log is NOT whole: line {result.first_bad_line} does not fit; "
            f"{_REASONS[result.reason]}.")  # fmt: skip
    return asdict(result) | {"seal": now, "exit_code": int(not result.is_intact)}


CorpusName = Annotated[str, "identifier or folder of a corpus"]


def corpus_build(*, given: Annotated[Given, FieldsOf(CorpusTask)]) -> Result:
    """Make D_private, D_public, the truth, and the lists."""
    task = CorpusTask(**given)
    (corpus_id,) = _answered(task)
    corpus = CORPORA.at(task.out) if task.out else CORPORA.get(corpus_id)
    return _examined(corpus) | {"folder": str(corpus.path)}


def corpus_mentions(
    *,
    corpus: CorpusName = "",
    notes: Annotated[Path | None, "file or folder of notes of which no truth is known"] = None,
    names: Annotated[bool, "with --notes: the names themselves"] = False,
    column: Annotated[Columns, "as text=body"] = (),
    json: bool = False,
) -> Result:
    """Say who is named beside an age, and how often."""
    if names and corpus:
        raise AuditError(
            "It goes with --notes.",
            where="--names",
            do="The names of a corpus are listed by `corpus candidates`.",
        )
    if notes is None or corpus:
        _one_of(corpus, notes, where="--corpus, --notes")
        return _examined(find_corpus(corpus))
    coverage, n_refused, mentions = mentions_in(notes, columns=dict(column), with_names=names)
    for form, n in coverage.by_form:
        say(f"{form}: {n:,}")
    say(f"{coverage.n_mentions:,} mentions in {coverage.n_notes:,} notes.")
    if names and not json:
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


def corpus_candidates(
    *,
    corpus: CorpusName,
    out: Annotated[Path | None, "folder for names.csv and passages.jsonl"] = None,
    controls: Annotated[str, "kinds with commas between: easy,hard,recombined"] = "easy,hard",
    roles: Annotated[str, "roles of members with commas between"] = ",".join(ROLES),
    keep: Annotated[bool, "for the pages too"] = False,
) -> Result:
    """Write the list of names and the passages, or keep them for the pages, or both."""
    found = find_corpus(corpus)
    asked = {"controls": _words(controls), "roles": _words(roles)}
    candidates = list_of(found, **asked)
    passages = passages_for(found, candidates, seed=found.seed)
    n_members = sum(m is True for m in candidates.is_member)
    n_passages = passages.count(b"\n")
    result: Result = {
        "n_names": len(candidates),
        "n_members": n_members,
        "by_kind": dict(sorted(Counter(filter(None, candidates.control_kind)).items())),
        "by_role": dict(sorted(Counter(filter(None, candidates.role)).items())),
        "n_passages": n_passages,
    }
    if out is not None:
        files = {"names.csv": names_file(candidates), "passages.jsonl": passages}
        result["files"] = [str(path) for path in write_private(files, out)]
    if keep:
        with Store(results_dir()) as store:
            result["names"], result["passages"] = keep_lists(found, **asked, store=store)
    say(f"{len(candidates):,} names, {n_members:,} of them in the notes; {n_passages:,} passages.")
    return result


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, text.replace(" ", "").split(","))))


def corpus_check(*, corpus: CorpusName, names: Annotated[Path, "CSV of candidate names"]) -> Result:
    """Say whether a control of a list occurs in D_private."""
    found = find_corpus(corpus)
    candidates = read_names(_bytes(names)).candidates
    check_controls(found, candidates)
    members = candidates.rows([i for i, m in enumerate(candidates.is_member) if m is True])
    n_found = len(full_names_in(found, members)) if len(members) else 0
    say(f"No control occurs in D_private; {n_found:,} of {len(members):,} members do in full.")
    return {"n_names": len(candidates), "n_members": len(members), "n_members_in_full": n_found}


def corpus_list() -> Result:
    """List the corpora that are kept here."""
    corpora = CORPORA.all()
    for one in corpora:
        say(f"{one.corpus_id}  {one.created}  {one.kind}  {one.n_notes:,} notes  "
            f"{one.title or one.source}")  # fmt: skip
    return {"corpora": [corpus_line(one) for one in corpora]}


def corpus_forget(corpus: Annotated[str, "its identifier"]) -> Result:
    """Remove a kept corpus with all of its files."""
    CORPORA.forget(corpus)
    say("Removed.")
    return {"forgotten": corpus}


def _one_of(*given: object, where: str) -> None:
    if sum(1 for one in given if one) != 1:
        raise AuditError("Give one of the two.", where=where)


def _examined(corpus: KeptCorpus) -> Result:
    """Say what was counted in a corpus, and return it as plain values."""
    found = read_examination(corpus.path)
    coverage = found.coverage
    kinds = [
        (f"{c.control_kind or c.role}{' twins' if c.control_kind == 'canary' else ''}", c.n)
        for c in found.candidates
    ]
    unknown = [(count.category, count.n) for count in found.unknown[:20]]
    for line in (
        f"{found.n_notes:,} notes, {found.n_patients:,} patients; "
        f"{found.n_refused:,} rows refused.",
        f"Placeholders not understood: {_counts(unknown)}.",
        f"{coverage.n_mentions:,} mentions ({_counts(coverage.by_form)}); "
        f"{coverage.n_elsewhere:,} names of patients stand elsewhere.",
        f"{found.n_positives:,} names, {found.n_patterns:,} patterns, "
        f"{found.n_occurrences:,} occurrences.",
        f"Patterns per name (table 3): {_counts(found.pattern_table)}",
        f"Occurrences per name (table 4): {_counts(found.mention_table)}",
        f"Candidates: {_counts(kinds)}.",
        f"The corpus: {corpus.corpus_id or corpus.path}",
    ):
        say(line)
    counted = coverage.plain() | {
        "forms": dict(coverage.by_form),
        "reasons": dict(coverage.by_reason),
        "n_by_role": dict(coverage.n_by_role),
        "n_mentions": coverage.n_mentions,
        "n_elsewhere": coverage.n_elsewhere,
    }
    whole = {"coverage": counted, "n_patterns": found.n_patterns, "corpus": corpus_line(corpus)}
    del (told := found.plain())["format"]
    return told | whole | {"n_occurrences": found.n_occurrences}


def _counts(pairs: Iterable[tuple[object, int]]) -> str:
    return ", ".join(f"{name}: {n:,}" for name, n in pairs) or "none"


def pretrain(
    *,
    general: Annotated[str, "directory of the model to start from"],
    given: Annotated[Given, FieldsOf(PretrainTask)],
    trained: Annotated[Given, FieldsOf(TrainSettings)],
) -> Result:
    """Train a model further on notes, or from scratch; goes on where it stopped."""
    task = PretrainTask(
        general=model_path(general, where="--general"),
        settings=TrainSettings(**_with_pass(trained, usual=TrainSettings())),
        **given,
    )
    (run_id,) = _answered(task)
    folder = task.with_(run_id=run_id).folder
    found = MODELS.at(folder)
    told = {
        "run_id": run_id,
        "model": str(folder / MODEL),
        "n_steps": found.n_steps_done,
        "n_epochs": found.n_epochs_done,
        "loss": found.loss,
        "held_out_loss_before": found.first_held_out,
        "held_out_loss": found.held_out,
        "unigram_loss": found.facts.unigram_loss,
    }
    _say_values(told)
    snapshots = {str(step): str(folder / snapshot_name(step)) for step in found.snapshots}
    return found.facts.plain() | told | {"snapshots": snapshots}


def _say_values(values: Given) -> None:
    """Say the figures and texts of a result, one a line; those that are undefined are left out."""
    for name, value in values.items():
        if isinstance(value, str | int | float):
            shown = f"{value:.4g}" if isinstance(value, float) else value
            say(f"{name.replace('_', ' ')}: {shown}")


def _with_pass(given: Given, *, usual: TrainSettings) -> Given:
    """Return settings with a forward pass that divides the step, unless one was given."""
    return {"micro_batch": largest_pass(given.get("batch", usual.batch))} | given


_TRAINED = ("n_tokens", "batch", "micro_batch", "precision", "learning_rate", "from_scratch")


def experiment(
    *,
    general: Annotated[str, "directory of M_general"] = "",
    notes: Annotated[Path | None, "notes with placeholders"] = None,
    given: Annotated[Given, FieldsOf(ExperimentTask)],
    trained: Annotated[Given, FieldsOf(TrainSettings, only=_TRAINED)],
    generation: Annotated[Given, FieldsOf(GenerationSettings, only=("n_documents", "n_steps"))],
    posterior: Annotated[Given, FieldsOf(PosteriorSettings, only=("n_inputs", "n_chain_inputs"))],
    deid: Annotated[
        bool, "attack models of the demo hospital's notes, raw and de-identified"
    ] = False,
    leaked: Annotated[Given, FieldsOf(LeakageTask)],
    quick: Annotated[bool, "with --deid: fewer arms and epochs, done in minutes"] = False,
) -> Result:
    """Do the experiment of the paper, or with --deid on leakage, from notes to tables."""
    if deid:
        return _leakage(leakage_task(leaked, is_quick=quick), out=given["out"])
    if notes is None or not general:
        raise AuditError("Notes and a general model are needed.", where="experiment",
                         do="Give --notes and --general, or --deid.")  # fmt: skip
    task = ExperimentTask(
        **given,
        general=model_path(general, where="--general"),
        training=TRAINING.with_(**_with_pass(trained, usual=TRAINING)),
        generation=GenerationSettings(**generation),
        posterior=PosteriorSettings(**Given(n_chain_inputs=0) | posterior),
    )
    _answered(task)
    say((task.out / TABLES_MD).read_text(encoding="utf-8"))
    say(f"Written: {TABLES_JSON}, {TABLES_MD}")
    result: Result = json.loads((task.out / TABLES_JSON).read_text(encoding="utf-8"))
    return result


def _leakage(task: LeakageTask, *, out: Path) -> Result:
    (kept_as,) = _answered(task)
    files = LEAKAGE.get(kept_as).tables.files()
    write_private(files, out)
    say(files[LEAKAGE_MD].decode())
    say(f"Written: {', '.join(FILES)}; kept as {kept_as}")
    result: Result = json.loads(files[LEAKAGE_JSON])
    return result


def leakage_task(given: Given, *, is_quick: bool) -> LeakageTask:
    """Return the task that options ask for; without a tagger, with those that are shipped."""
    known = {tagger.tagger_id for tagger in known_taggers()}
    usual = LeakageTask(taggers=tuple(one for one in (RULES, DEFAULT) if one in known))
    if "epochs" in given:
        given |= {"epochs": given["epochs"][-1]}
    return (quick(usual) if is_quick else usual).with_(**given)


def deid_build(
    *,
    notes: Annotated[Path, "discharge.csv(.gz), NOTEEVENTS.csv(.gz), CSV, JSONL, Parquet, or a "
                     "folder of .txt"],
    out: Annotated[Path, "a new folder"],
    names: Annotated[Literal["ja", "en"], "language of names"] = "ja",
    seed: Seed = 0,
    typer: Annotated[
        Path | None, "directory of a causal language model that types masks; rules without"
    ] = None,
    translator: Annotated[
        Path | None, "directory of a causal language model that translates into Japanese"
    ] = None,
) -> Result:  # fmt: skip
    """Make a corpus with names and spans from masked notes."""
    order = ChainOrder(
        seed=seed,
        locale={"ja": JAPANESE, "en": ENGLISH}[names],
        typer=LocalModel(typer) if typer else None,
        translator=LocalModel(translator, max_new_tokens=2048) if translator else None,
    )
    summary = build_named(open_notes(notes), out=out, order=order, progress=progress_line())
    n_spans, n_unknown = sum(summary["n_spans"].values()), sum(summary["unknown"].values())
    say(f"{summary['n_notes']} notes with {n_spans} values; "
        f"{n_unknown} masks were not understood and stayed.")  # fmt: skip
    leaks = summary["leaks"]
    if leaks["n_shared_texts"]:
        say(f"Splits share {leaks['n_shared_texts']} texts.")
    return summary


def deid_tag(
    *,
    tagger: Annotated[str, "rules, default, trained/ID, or the folder of a tagger"] = DEFAULT,
    notes: Annotated[
        Path,
        "CSV, JSONL, Parquet, i2b2 XML, CoNLL, one .txt, or a folder of texts or annotated notes",
    ],
    out: Annotated[Path, "a new folder"],
    mode: Literal["placeholder", "surrogate", "mask"] = "placeholder",
    seed: Annotated[int, "of the surrogates"] = 0,
    device: Device = "auto",
) -> Result:
    """Find personal information in notes and take it out."""
    started = time.monotonic()
    census = tag_notes(
        notes_to_tag(notes),
        tagger=_tagger(tagger, device=device),
        out=out,
        release=Release(mode=mode, seed=seed),
        progress=progress_line(),
    )
    n_spans = sum(entry["n"] for entry in census["spans"].values())
    seconds = time.monotonic() - started
    say(f"{n_spans} spans in {census['n_notes']} notes, in {seconds:.1f} s.")
    if census["n_refused"]:
        say(f"{census['n_refused']} rows are no notes and were left out.")
    if n_foreign := census["n_notes_of_no_language"]:
        say(f"{n_foreign} notes are neither in Japanese nor in English: the taggers that are "
            "shipped know\nno other language and miss most of what stands in such "
            "notes.")  # fmt: skip
    _say_copies(census.get("copies"))
    say(f"{SPANS} holds the notes as they were; {REDACTED} holds what a tagger left of them,\n"
        "with all that it missed: measure it with `deid score` before anything is given "
        "away.")  # fmt: skip
    return census


def _tagger(name: str, *, device: Device) -> Tagger:
    """Return the tagger that is meant: an identifier comes before a folder of that name."""
    if name in (RULES, DEFAULT) or name.startswith(TRAINED):
        return load_tagger(name, device=device)
    if not (Path(name) / TAGGER).is_file():
        raise AuditError(
            "There is no such tagger.",
            where="--tagger",
            do="Give rules, default, trained/ID, or a folder with tagger.json.",
        )
    return load_tagger_folder(Path(name), device=device)


def _say_copies(copies: Result | None) -> None:
    """Say how faithful a model's copies are, n beside every rate."""
    if copies and copies["n_notes"]:
        shares = ", ".join(
            f"{name} {copies[name]['n']} of {copies[name]['of']}"
            for name in ("faithful", "truncated", "malformed")
        )
        say(f"Copies: {shares}; character error rate {copies['pooled_error_rate'] or 0:.4f}; "
            f"{copies['n_unaligned']} tagged spans without a place in their note.")  # fmt: skip


def deid_convert(
    *,
    notes: Annotated[
        Path, "JSONL, i2b2 XML, CoNLL, a text with tags, or a folder of these or of brat"
    ],
    out: Annotated[Path, "a new folder"],
    to: Format,
) -> Result:
    """Write annotated notes in another form."""
    found = annotated_notes(notes).all()
    is_flat = to in ("conll", "inline")
    crossed = [is_flat and n_overlapping(note.spans) > 0 for note in found]
    files = write_files(
        [flattened(note) if each else note for note, each in zip(found, crossed, strict=True)],
        form=to,
    )
    with whole_folder(out, where="--out") as folder:
        n_files = len(write_private(dict(files), folder))
    say(f"{len(found)} notes in {n_files} files.")
    if any(crossed):
        say(f"{sum(crossed)} notes had spans that overlap: the longest stay whole.")
    n_patients = sum(note.patient_id is not None for note in found)
    if n_patients and to in ("brat", "i2b2", "inline"):
        say(f"{n_patients} notes belong to a patient, which this form does not say.")
    return {"n_notes": len(found), "n_files": n_files, "n_flattened": sum(crossed)}


_FROM_SCRATCH = {"learning_rate": 2e-3, "n_tokens": 192, "n_epochs": 3.0}
_FROM_ENCODER = {"learning_rate": 5e-5, "n_tokens": 512, "overlap": 128, "n_epochs": 3.0}
_TOKEN_SETTINGS = (
    "n_epochs", "n_tokens", "overlap", "batch", "micro_batch", "learning_rate", "hidden_share",
    "recall_weight", "scheme",
)  # fmt: skip


def deid_train(
    *,
    kind: Literal["token", "generative"] = "token",
    given: Annotated[Given, FieldsOf(TaggerTask)],
    encoder: Annotated[Path | None, "directory of an encoder to start from"] = None,
    scratch: Annotated[bool, "a small network of characters (the default)"] = False,
    trained: Annotated[Given, FieldsOf(TaggerSettings, only=_TOKEN_SETTINGS)],
    train_seed: Annotated[int, "of weights, order and noise"] = 0,
    model: Annotated[Path | None, "generative: directory of a causal language model"] = None,
    tuned: Annotated[Given, FieldsOf(TuningSettings, prefix="gen-")],
    lora: Annotated[
        bool, "generative: tune an adapter (needs peft) and merge it into the model"
    ] = False,
    adapted: Annotated[Given, FieldsOf(Lora, prefix="lora-")],
) -> Result:
    """Train a tagger; goes on where it stopped."""
    if encoder and scratch:
        _one_of(encoder, scratch, where="--encoder, --scratch")
    facts_of: type[GenerativeFacts] | type[TaggerFacts] = TaggerFacts
    settings: TaggerSettings | TuningSettings
    if kind == "generative":
        if model is None:
            raise AuditError("Which model shall be tuned?", where="--model", do="Give a directory.")
        settings = TuningSettings(**tuned, lora=Lora(**adapted) if lora else None)
        facts_of = GenerativeFacts
    else:
        settings = _token_settings(trained, seed=train_seed, is_from_scratch=encoder is None)
    task = TaggerTask(settings=settings, start=model or encoder, **given)
    (tagger_id,) = _answered(task)
    folder = task.with_(tagger_id=tagger_id).folder
    facts: Any = facts_of.of_folder(folder)
    _say_values(facts.training | facts.measured)
    say(f"The tagger: {folder if task.out else tagger_id}")
    return {
        "tagger_id": None if task.out else tagger_id,
        "directory": str(folder),
        "digest": facts.digest(),
        "measured": dict(facts.measured),
        "training": dict(facts.training),
    } | ({} if kind == "generative" else {"bias": facts.bias})


def _token_settings(given: Given, *, seed: int, is_from_scratch: bool) -> TaggerSettings:
    """Return the settings that options say, the others as they suit what is trained."""
    values: Given = dict(_FROM_SCRATCH if is_from_scratch else _FROM_ENCODER)
    usual = TaggerSettings()
    if "batch" in given:
        values["micro_batch"] = min(given["batch"], usual.micro_batch)
    if "n_tokens" in given:
        values["overlap"] = min(values.get("overlap", usual.overlap), given["n_tokens"] // 4)
    return TaggerSettings(**values | given, seed=seed)


_MAX_REPLICATES = 100_000
_MAX_SHOWN = 20


def deid_score(
    *,
    gold: Annotated[Path, "JSONL, i2b2 XML, CoNLL, or a folder of these or of brat"],
    pred: Annotated[
        Path | None, "the same notes, in any of these forms, or the folder of `deid tag`"
    ] = None,
    outputs: Annotated[
        Path | None, "JSONL of a model's own texts with tags: doc_id, output"
    ] = None,
    matcher: Literal["optimal", "document_order"] = "optimal",
    five_types: Annotated[
        bool, "map labels of i2b2 2014, MEDDOCAN and others to the five types"
    ] = False,
    label_map: Annotated[Path | None, "JSON object from label to type"] = None,
    replicates: Annotated[int, "of the bootstrap"] = N_REPLICATES,
    seed: Seed = 0,
    misses: Annotated[
        Path | None, "write every miss: FILE.csv or FILE.jsonl (holds text of notes)"
    ] = None,
) -> Result:
    """Measure predicted spans against gold spans."""
    _one_of(pred, outputs, where="--pred, --outputs")
    if not 1 <= replicates <= _MAX_REPLICATES:
        raise AuditError("Choose 1 to 100,000 replicates.", where="--replicates")
    if misses and misses.suffix.lower() not in (".csv", ".jsonl"):
        raise AuditError("The name of the file ends in .csv or .jsonl.", where="--misses")
    by = _label_map(label_map, has_five_types=five_types)
    unknown: set[str] = set()
    missed: list[SpanCase] = []

    def scored(
        pairs: Iterable[Pair], *, on_case: Callable[[SpanCase], object] | None = None
    ) -> ScoreSummary:
        mapped = _mapped(pairs, by=by, unknown=unknown)
        found = score_pairs(mapped, matcher=matcher, on_case=on_case)
        return score_summary(found, matcher=matcher, seed=seed, n_replicates=replicates)

    with TemporaryDirectory(prefix="kart-score-") as name:
        golds = as_jsonl(gold, Path(name), what=GOLD)
        folder = Path(name)
        n_without_gold = align_outputs(golds, outputs, folder=folder) if outputs else 0
        copies = read_copies(folder) if outputs else None
        predictions = as_jsonl(pred, folder, what=PREDICTED) if pred else folder / PREDICTIONS
        files = PairedFiles(golds, predictions)
        score = scored(files, on_case=missed.append if misses else None)
        exact = scored(copies.verbatim(files)) if copies else None
        files.n_predicted_only += n_without_gold
    if unknown and five_types:
        raise AuditError(
            "{n_unknown} labels belong to none of the five types: {unknown}",
            where="--five-types",
            do="Say what they are with --label-map FILE.json; null leaves a label out.",
            n_unknown=len(unknown),
            unknown=_shown(unknown),
        )
    if misses:
        _write_misses(misses, missed)
    told = copies.summary() if copies else None
    return _score_told(score, files=files, unknown=unknown, copies=told, exact=exact)


def _score_told(
    score: ScoreSummary,
    *,
    files: PairedFiles,
    unknown: set[str],
    copies: Result | None,
    exact: ScoreSummary | None,
) -> Result:
    counted = (
        (files.n_gold_only, "notes were not predicted: their spans count as missed."),
        (files.n_predicted_only, "predicted notes have no gold and were left out."),
        (len(unknown), f"labels are not in the map and were kept: {_shown(unknown)}"),
    )
    notes = [f"{n} {what}" for n, what in counted if n]
    for note in notes:
        say(note)
    _say_score(score)
    result = score.plain() | {"notes": notes}
    if exact:
        result |= {"verbatim": exact.plain(), "copies": copies}
        _say_copies(copies)
        say("Of copies that are exact alone, all others counted as without a span:")
        _say_score(exact)
    return result


def _write_misses(path: Path, missed: list[SpanCase]) -> None:
    is_table = path.suffix.lower() == ".csv"
    text = misses_csv(missed) if is_table else "".join(misses_jsonl(missed))
    # Half a surrogate pair, which is no UTF-8, becomes a question mark.
    write_whole(path, text.encode("utf-8", "replace"))


def _shown(labels: Collection[str]) -> str:
    return ", ".join(sorted(labels)[:_MAX_SHOWN]) + (" ..." if len(labels) > _MAX_SHOWN else "")


def _label_map(path: Path | None, *, has_five_types: bool) -> LabelMap | None:
    if path is None:
        return FIVE_TYPES if has_five_types else None
    text, _ = decode_text(_bytes(path), what="--label-map")
    given = read_label_map(text, what="--label-map")
    return LabelMap({**FIVE_TYPES.labels, **given.labels}) if has_five_types else given


def _mapped(pairs: Iterable[Pair], *, by: LabelMap | None, unknown: set[str]) -> Iterator[Pair]:
    for pair in pairs:
        if by is None:
            yield pair
            continue
        gold, predicted = (relabelled(document, by=by) for document in pair)
        unknown.update(gold.unknown, predicted.unknown)
        yield gold.document, predicted.document


_COLUMNS = ("precision", "recall", "f1", "complete", "clean", "exact", "n_gold", "n_predicted")


def _say_score(summary: ScoreSummary) -> None:
    say(f"{summary.n_documents} notes of {summary.n_patients} patients.")
    is_named = IDENTIFIER in summary.coverage.labels
    covered = summary.coverage.labels[IDENTIFIER] if is_named else summary.coverage.together
    n_readable = covered.n_gold - covered.n_covered_whole
    what = "identifiers" if is_named else "personal items"
    say(f"{n_readable} of {covered.n_gold} {what} are still readable, in whole or in part.")
    for criterion, one in summary.criteria.items():
        say(f"{criterion:<28}" + "".join(f"{name:>12}" for name in _COLUMNS)[1:])
        for label, entry in (*one.labels.items(), ("all labels", one.together)):
            cells = (getattr(entry, name) for name in _COLUMNS)
            shown = (f"{x:.4f}" if isinstance(x, float) else "n/a" if x is None else x
                     for x in cells)  # fmt: skip
            say(f"  {label:<26}" + "".join(f"{cell:>12}" for cell in shown)[1:])


GROUPS = {
    "corpus": "from notes to what an audit needs",
    "deid": "de-identification: make a corpus, train a tagger, tag notes, measure a tagger",
}
COMMANDS: tuple[Callable[..., Result], ...] = (
    demo, run, score, selftest, results, jobs, cancel, resume, worker, log, corpus_build,
    corpus_mentions, corpus_candidates, corpus_check, corpus_list, corpus_forget, pretrain,
    experiment, deid_score, deid_build, deid_tag, deid_convert, deid_train,
)  # fmt: skip
