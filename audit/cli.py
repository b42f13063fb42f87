"""The command line: python -m audit demo | run | score | selftest | results | jobs and more.

A command is a function of `COMMANDS`, named "group_command" or "command". Its parameters are its
options; those before the star have no flag. Its docstring is its help. A parameter annotated with
`FieldsOf` receives the given fields of a task or of settings.

Commands make the same calls as the pages. A command returns values of JSON: with `--json` they go
to stdout as one object, otherwise `format_result` writes them as text for a person to stderr, where
progress and sentences go too. The exit code is 0, or 2 with one plain paragraph for bad input, or
130 after Ctrl-C.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isnan
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import pandas as pd
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from audit import access_log, shards
from audit.attack.measure_types import write_json
from audit.attack.metrics import measure_scores
from audit.attack.question import AuditRequest, Dtype, GenerationSettings, PosteriorSettings
from audit.backup import back_up
from audit.backup import restore as put_back
from audit.bench.race import BenchSettings
from audit.corpus.candidate_lists import ROLES, count_control_mentions, read_list, select_passages
from audit.corpus.corpora import CORPORA, KeptCorpus, corpus_line, find_corpus
from audit.corpus.examine import HeldOutCounts, read_examination
from audit.corpus.make import CorpusTask
from audit.corpus.other_names import make_sibling_list
from audit.corpus.own_controls import OwnControls, add_own_controls
from audit.deid.find.causal_model import LocalModel
from audit.deid.find.rules import RuleTagger
from audit.deid.find.tagger import TAGGER
from audit.deid.find.tagger_facts import GenerativeFacts, TaggerFacts
from audit.deid.find.taggers import (
    DEFAULT,
    RULES,
    TAGGER_SEPARATOR,
    combined_digest,
    find_tagger,
    list_taggers,
    load_tagger,
)
from audit.deid.invent.pipeline import build_named
from audit.deid.learn.tagger_task import (
    FROM_ENCODER,
    FROM_SCRATCH,
    FROM_TAGGER,
    Lora,
    TaggerSettings,
    TaggerTask,
    TuningSettings,
    make_token_settings,
)
from audit.deid.measure import leftovers
from audit.deid.measure.coverage import describe_rows, list_coverage
from audit.deid.measure.score_report import (
    SCORES,
    SHARES,
    ScoreSummary,
    Source,
    compare_all,
    misses_csv,
    read_cases,
)
from audit.deid.measure.scoring import ScoreTask
from audit.deid.redact.policy import ALL_OUT, find_policy
from audit.deid.redact.release import SURROGATE, Release
from audit.deid.sets import incoming_notes as handed_in
from audit.deid.sets.releases import RELEASES, list_releases, record_release, release_sharing_key
from audit.deid.sets.tagging import (
    CENSUS,
    FALLBACK,
    REDACTED,
    UNCOPIED,
    WITHHOLD,
    Uncopied,
    tag_notes,
)
from audit.demo import DemoTask, report_summary, self_test
from audit.errors import AuditCancelled, AuditError, Message
from audit.executor import SCHEDULER_VARIABLE, count_cores
from audit.experiment import leakage, paper
from audit.foreign import decode_text, locate_errors, read_file_bytes, refuse_errors
from audit.home import (
    DEMO_HOSPITAL,
    SECRETS,
    data_home,
    forget_login,
    had_login,
    is_open_to_others,
    results_dir,
    stay_offline,
)
from audit.jobs import service
from audit.jobs.foreground import answer_here
from audit.models.convert import ConvertTask
from audit.models.inspect import compute_model_digest, read_model_files
from audit.models.registry import load_tokenizer, resolve_model_path
from audit.names.candidates import Candidates, ControlSource
from audit.names.controls import with_controls, with_own_controls
from audit.names.files import encode_names_csv, read_names
from audit.names.letter_case import RECASED, report_letter_case
from audit.names.people import ENGLISH, JAPANESE
from audit.names.spelling import piece_counter
from audit.notes.formats import GOLD, PREDICTED, Format, flatten_spans, write_files
from audit.notes.passages import Passages, read_passages
from audit.notes.read import FIELDS, NoteSource, open_notes
from audit.notes.spans import IDENTIFIER, TaggedDocument, read_label_map
from audit.patients.register import read_register
from audit.progress import progress_line, say
from audit.rank import RankTask
from audit.rejudge import judge_again
from audit.report import audit_store
from audit.report.audit_store import read_finished_sizes
from audit.report.compare import MAX_REFERENCES, compare_audits
from audit.report.decision import read_decision
from audit.report.export import bundle_files, write_report
from audit.report.html import ReportChoice
from audit.report.report import (
    AuditReport,
    find_other_scenario,
    find_reference_audits,
    kept_audit,
)
from audit.report.verify import check_report
from audit.retention import KINDS, Periods, periods, set_periods
from audit.retention import purge as purge_kinds
from audit.run import AuditTask
from audit.shelf import clear_scratch, is_code, whole_folder, write_private, write_whole
from audit.stats import Estimate
from audit.tables import read_table
from audit.task import MAX_SEED, Device, Record, Task
from audit.training.config import TrainSettings, find_largest_pass, read_process_number
from audit.training.trainings import MODEL, MODELS, PretrainTask, make_sibling_task, snapshot_name
from audit.words import catalogue
from cache.store import Store

Options: TypeAlias = dict[str, Any]
"""Option -> value, only for given options; the other options keep their defaults."""
Result: TypeAlias = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    stay_offline()
    clear_scratch()
    try:
        options = parse_options(arguments)
        result = call_command(options)
    except AuditError as error:
        say(str(error))
        return 2
    except (AuditCancelled, KeyboardInterrupt):
        say("Stopped. Everything finished so far is kept; the same command goes on from there.")
        return 130
    if options["json"]:
        sys.stdout.write(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        say("\n".join(format_result(result)))
    return int(result.get("exit_code", 0))


_MAX_ROWS = 60
_SHOWN = {
    "jobs": (
        "job_id",
        "created",
        "state",
        "share",
        "stage",
        "kind",
        "scenario",
        "label",
        "device",
        "n_before",
    ),
    "audits": ("digest", "at", "scenario", "general", "hospital", "n_names", "verdict", "is_demo"),
}
"""Columns that a table shows of long records."""


def format_result(result: Result, *, prefix: str = "") -> Iterator[str]:
    """Yield a result as lines of text: values by name, and records of equal fields as tables.

    Values nested in the rows of a table appear only with `--json`.
    """
    for name, value in result.items():
        title = prefix + name.replace("_", " ")
        if records := _list_records(value):
            yield f"{title}:\n{_format_table(records, columns=_SHOWN.get(name, ()))}"
        elif isinstance(value, Mapping | list | tuple) and not value:
            yield f"{title}: none"
        elif isinstance(value, Mapping):
            flat = {key: cell for key, cell in value.items() if pd.api.types.is_scalar(cell)}
            if flat:
                cells = (f"{key} {_format_cell(cell)}" for key, cell in flat.items())
                yield f"{title}: {', '.join(cells)}"
            nested = {key: cell for key, cell in value.items() if key not in flat}
            yield from format_result(nested, prefix=f"{title}, ")
        elif isinstance(value, list | tuple):
            yield f"{title}: {'; '.join(map(_format_cell, value))}"
        elif value not in (None, ""):
            yield f"{title}: {_format_cell(value)}"


def _list_records(value: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a value that is a table: a list of records, or records by a name."""
    if isinstance(value, Mapping):
        records = [record for record in value.values() if isinstance(record, Mapping)]
        is_alike = (
            len(records) == len(value) and len({frozenset(record) for record in records}) == 1
        )
        is_table = is_alike and any(map(pd.api.types.is_scalar, records[0].values()))
        return [{"": key, **record} for key, record in value.items()] if is_table else []
    listed = value if isinstance(value, list | tuple) else ()
    return [record for record in listed if isinstance(record, Mapping)]


def _format_cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _format_table(records: Sequence[Mapping[str, Any]], *, columns: Sequence[str] = ()) -> str:
    flat = [name for name, cell in records[0].items() if pd.api.types.is_scalar(cell)]
    frame = pd.DataFrame(records, columns=list(columns or flat))
    text: str = frame.to_string(
        index=False, na_rep="", float_format="{:.4g}".format, max_rows=_MAX_ROWS
    )
    return text


@dataclass(frozen=True)
class FieldsOf:
    """The fields of a record that are options: `only`, else those with a description, else all.

    An option has the name of its field without `n_`, `is_` or `has_`, or the name in the record's
    `flags`. If several records of a command have a field of the same name, they share one option.
    """

    record: type[Record]
    only: Collection[str] = ()
    prefix: str = ""

    def options(self) -> Iterator[tuple[str, str, FieldInfo]]:
        """Yield field name, flag and field of each option."""
        fields = self.record.model_fields
        only = self.only or [name for name in fields if fields[name].description] or fields
        for name in filter(only.__contains__, fields):
            flag = "--" + self.prefix + re.sub("^(n|is|has)_", "", name).replace("_", "-")
            yield name, self.record.flags.get(name, flag), fields[name]


@dataclass(frozen=True)
class Option:
    """One option of a command: a parameter, or a field that a parameter receives."""

    parameter: str
    field_name: str
    dest: str
    flag: str
    field: FieldInfo


def make_parser() -> ArgumentParser:
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
        command_parser = groups[group].add_parser(name, help=about, argument_default=SUPPRESS)
        options: dict[str, Option] = {}
        for option in _list_options(command):
            options.setdefault(option.dest, option)
        for option in options.values():
            destination: Options = {"dest": option.dest} if option.flag.startswith("--") else {}
            command_parser.add_argument(
                option.flag,
                help=option.field.description,
                **destination,
                **_describe_argument(option),
            )
        command_parser.add_argument(
            "--json", action="store_true", default=False, help="print one JSON object on stdout"
        )
        command_parser.set_defaults(command=command)
    return top


def call_command(options: Options) -> Result:
    """Call the command that was parsed and return its result."""
    refuse_idle(options)
    result: Result = options["command"](**collect_arguments(options))
    return result


@dataclass(frozen=True)
class Dependence:
    """Options of a command that have an effect only with `needs`, or only without `clashes`.

    `parts` are parameters or fields; `has_effect` says whether the given options let them work.
    """

    parts: Collection[str]
    has_effect: Callable[[Options], bool]
    needs: str = ""
    clashes: str = ""


def refuse_idle(options: Options) -> None:
    """Refuse an option that has no effect together with the other given options."""
    for dependence in DEPENDENT.get(options["command"].__name__, ()):
        if dependence.has_effect(options):
            continue
        for option in _list_options(options["command"]):
            names = {option.parameter, option.field_name, option.dest}
            if option.dest in options and not names.isdisjoint(dependence.parts):
                do = (
                    "Leave {flag} or {other} out."
                    if dependence.clashes
                    else ("Add {other}, or leave {flag} out.")
                )
                raise AuditError(
                    "has no effect here.",
                    where=option.flag,
                    do=do,
                    flag=option.flag,
                    other=dependence.clashes or dependence.needs,
                )


def collect_arguments(options: Options) -> Options:
    """Return the arguments with which to call the parsed command."""
    arguments: Options = {}
    for option in _list_options(options["command"]):
        if option.field_name:
            arguments.setdefault(option.parameter, {})
        if option.dest in options:
            target = arguments[option.parameter] if option.field_name else arguments
            target[option.field_name or option.parameter] = options[option.dest]
    return arguments


def parse_options(arguments: Sequence[object] | None = None) -> Options:
    """Return the command and its given options."""
    words = [str(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    if words[:1] == ["shards"] and words[1:] and words[1] not in ("make", "merge", "-h", "--help"):
        words.insert(1, "make")
    options = vars(make_parser().parse_args(words))
    if not 0 <= (options.get("seed") or 0) <= MAX_SEED:
        raise AuditError(
            "must be a whole number from {low} to {high}.", where="seed", low=0, high=MAX_SEED
        )
    return {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}


def _list_options(command: Callable[..., Any]) -> Iterator[Option]:
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        kind, mark = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
        if isinstance(mark, FieldsOf):
            for field_name, flag, field in mark.options():
                yield Option(name, field_name, mark.prefix + field_name, flag, field)
        else:
            is_bare = parameter.default is parameter.empty
            default = PydanticUndefined if is_bare else parameter.default
            is_flag = parameter.kind is parameter.KEYWORD_ONLY
            flag = f"--{name.replace('_', '-')}" if is_flag else name
            field = FieldInfo(annotation=kind, default=default, description=mark)
            yield Option(name, "", name, flag, field)


def _describe_argument(option: Option) -> dict[str, Any]:
    """Return the parser's arguments for an option, from its type and its examples."""
    field, kind = option.field, _without_none(option.field.annotation)
    if kind is bool:
        return {"action": "store_false" if field.default else "store_true"}
    if not option.flag.startswith("--"):
        return _describe_reader(kind) | ({} if field.is_required() else {"nargs": "?"})
    if get_origin(kind) is not tuple:
        return _describe_reader(kind) | {"required": field.is_required()}
    item_kind = _without_none(get_args(kind)[0])
    if field.examples:
        return {"type": _make_list_reader(item_kind), "metavar": field.examples[0]}
    return _describe_reader(item_kind) | {"action": "append"}


def _describe_reader(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is Literal:
        first = type(get_args(kind)[0])
        return {
            "choices": get_args(kind),
            "type": first if first is int else lambda text: text.replace("-", "_"),
        }
    if get_origin(kind) is tuple:
        return {"type": _parse_column, "metavar": "FIELD=NAME"}
    return {"type": _make_absolute if kind is Path else kind}


def _without_none(kind: Any) -> Any:
    """Return the type inside `kind | None` or inside an annotated type."""
    if get_origin(kind) in (UnionType, Union):
        kind = next(part for part in get_args(kind) if part is not type(None))
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _make_absolute(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _parse_column(text: str) -> tuple[str, str]:
    field, sign, name = text.partition("=")
    if not (sign and name) or field not in FIELDS:
        raise ArgumentTypeError(f"no FIELD=NAME; fields are {', '.join(FIELDS)}")
    return field, name


def _make_list_reader(kind: type[Any]) -> Callable[[str], tuple[Any, ...]]:
    def numbers(text: str) -> tuple[Any, ...]:
        return tuple(kind(part.strip()) for part in text.split(",") if part.strip())

    return numbers


def _answer(task: Task) -> tuple[str, ...]:
    """Return the results of a task: stored ones at once, otherwise after doing the work here.

    The work is registered as a job, which pages and other commands see, and waits for its turn.
    """
    service.recover()
    question = task.question()
    if answer := task.read_answer(question):
        say("Answered before; nothing is computed.")
        return answer
    return answer_here(question, progress=progress_line(), say=say)


def _read_bytes(path: Path) -> bytes:
    with locate_errors(path.name):
        return read_file_bytes(path)


Seed = Annotated[int, "seed of all random draws"]
NamesList = Annotated[Path, "list of candidate names: CSV, .xlsx or JSONL"]
PassagesFile = Annotated[Path | None, "CSV or JSONL of de-identified passages, also as .gz"]
Placeholder = Annotated[
    str, "what stands for the patient's name in the passages, beside [NAME] and the like: ___, <PT>"
]


def demo(*, options: Annotated[Options, FieldsOf(DemoTask)]) -> Result:
    """Audit the demo hospital."""
    task = DemoTask(**options)
    digests = _answer(task)
    with Store(results_dir()) as store:
        return {
            name: report_summary(audit_store.read_report(digest, store=store))
            for name, digest in zip(task.requests(), digests, strict=True)
        }


StatedSource = Annotated[
    ControlSource | None,
    "where the list's controls come from: held_out (patients drawn at random before training), "
    "own (people of the hospital who are in no training note), invented (the names in the "
    "notes were made by the name generator), drawn (the generator's names beside real notes); "
    "what the list says without, else drawn",
]
SiblingAudit = Annotated[
    str, "audit, with the same settings, of a model trained by the same recipe on known names"
]


def run(
    *,
    general: Annotated[str, "directory of the general model"],
    hospital: Annotated[str, "directory of the hospital's model"],
    scenario: Literal[1, 2],
    names: NamesList,
    generation: Annotated[Options, FieldsOf(GenerationSettings)],
    posterior: Annotated[Options, FieldsOf(PosteriorSettings)],
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
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> Result:
    """Audit a pair of models."""
    if scheduler:
        os.environ[SCHEDULER_VARIABLE] = scheduler
    candidates = _state_source(_read_names(names), control_source, own_controls=own_controls)
    if draw_controls:
        candidates = _draw_controls(candidates, n=draw_controls, hospital=hospital, seed=seed)
    request = AuditRequest(
        scenario_number=scenario,
        general=resolve_model_path(general, option="--general"),
        hospital=resolve_model_path(hospital, option="--hospital"),
        candidates=candidates,
        sibling=_find_audit_digest(sibling, option="--sibling") if sibling else "",
        passages=_read_passages(passages, placeholder=placeholder, scenario=scenario),
        generation=GenerationSettings(**generation),
        posterior=PosteriorSettings(**posterior),
        seed=seed,
        dtype=dtype,
        device=device,
    )
    if order:
        access_log.record("exported", what="order", names="full", n_names=len(candidates))
        with Store(results_dir()) as store:
            shards_order = shards.write_order(request, order, store=store)
        return {"order": str(order), "n_shards": len(shards_order.keys)}
    return _audit_with_references(request, reference=reference, out=out)


def _read_passages(passages: Path | None, *, placeholder: str, scenario: int) -> Passages | None:
    """Return the passages of a file, which only scenario 2 reads."""
    _say_unread(passages, scenario=scenario)
    if passages is None or scenario != 2:
        return None
    passage_list = read_passages(
        _read_bytes(passages), subject="passages", file_name=passages.name, placeholder=placeholder
    )
    _say_read(passage_list, len(passage_list), content="passages")
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
        people = _read_names(own_controls)
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


def rank(
    *,
    general: Annotated[str, "directory of the general model"],
    hospital: Annotated[str, "directory of the hospital's model"],
    scenario: Literal[1, 2],
    names: Annotated[Path, "list of candidate names, a million at most: CSV, .xlsx or JSONL"],
    out: Annotated[Path, "CSV of ranks and scores to write"],
    generation: Annotated[Options, FieldsOf(GenerationSettings)],
    posterior: Annotated[Options, FieldsOf(PosteriorSettings)],
    passages: PassagesFile = None,
    placeholder: Placeholder = "",
    control_source: StatedSource = None,
    seed: Seed = 0,
    dtype: Dtype = "auto",
    device: Device = "auto",
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
    file, *counts = _answer(task)
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


def _read_names(path: Path) -> Candidates:
    listed = read_names(_read_bytes(path), subject="names")
    _say_read(listed, len(listed.candidates), content="names")
    for note in report_letter_case(listed.candidates):
        say(str(note))
    return listed.candidates


def _say_read(listed: Any, n: int, *, content: str) -> None:
    say(f"{n} {content} read ({listed.encoding}).")
    for note in listed.notes[:20]:
        say(f"{content}, row {note.row}: {note.what}")


def _run_audit(request: AuditRequest, *, out: Path | None) -> AuditReport:
    """Run one audit, say its verdict, and write its files."""
    (digest,) = _answer(AuditTask(request=request))
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


Order = Annotated[Path, "order file that `run --order` wrote"]


def shards_make(
    order: Order,
    *,
    part: Annotated[str, "which part of how many, such as 3/8"] = "1/1",
    folder: Annotated[Path | None, "folder of the shards; ORDER.shards if not given"] = None,
) -> Result:
    """Make a part of an order's shards, one file each."""
    number, sign, n_parts = part.partition("/")
    if not (sign and number.isdecimal() and n_parts.isdecimal()):
        number = n_parts = "0"
    n_shards = shards.make_part(
        order,
        part=int(number),
        n_parts=int(n_parts),
        folder=folder or _choose_folder(order),
        progress=progress_line(),
    )
    return {"n_shards": n_shards, "folder": str(folder or _choose_folder(order))}


def shards_merge(order: Order, *, folder: Annotated[Path | None, "as in `make`"] = None) -> Result:
    """Take the shards of an order into the results; exit code 1 where a file is damaged."""
    with Store(results_dir()) as store:
        merged = shards.merge_shards(order, folder=folder or _choose_folder(order), store=store)
    if merged.refused:
        say("Damaged files were refused; their parts make them anew.")
    return asdict(merged) | {"exit_code": int(bool(merged.refused))}


def _choose_folder(order: Path) -> Path:
    return order.with_name(f"{order.name}.shards")


_TRUTH = {"1": True, "0": False, "1.0": True, "0.0": False, "true": True, "false": False}


def score(
    *,
    scores: Annotated[Path, "CSV with score and is_member"],
    threshold: float | None = None,
    seed: Seed = 0,
) -> Result:
    """Measure any scores with known truth; needs no model."""
    table = read_table(_read_bytes(scores), subject="scores")
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


def selftest(*, device: Device = "auto") -> Result:
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


def results(
    digest: Annotated[str, "beginning of an audit's digest"] = "",
    *,
    out: Annotated[
        Path | None, "write this audit's report to be signed, its tables and their digests here"
    ] = None,
    names: Annotated[Literal["masked", "pseudonyms", "full"], "with --out"] = "masked",
    language: Annotated[Literal["en", "ja"], "with --out"] = "en",
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
        access_log.record("exported", audit=chosen_audit.digest, names=names)
        decision = read_decision(chosen_audit.digest, store=store)
        partner = find_other_scenario(chosen_audit, audits=audits)
        reference_reports = [
            reports[audit.digest] for audit in find_reference_audits(chosen_audit, audits=audits)
        ]
        files = bundle_files(
            reports[chosen_audit.digest],
            choice=ReportChoice(
                language=language, names=names, is_demo=chosen_audit.is_demo, decision=decision
            ),
            other=reports[partner.digest] if partner else None,
            references=[
                compare_audits(reports[chosen_audit.digest], other_report=reference_report)
                for reference_report in reference_reports[:MAX_REFERENCES]
            ],
            documents=audit_store.read_documents(chosen_audit.digest, store=store),
            seal=access_log.log_seal(),
        )
        write_private(files, out)
    rows = [asdict(line) for line in sorted(chosen, key=attrgetter("at"))]
    for row in rows:
        del row["family"]
        row["verdict"] = row.pop("state")
    return {"audits": rows}


JobId = Annotated[str, "the job's id, or the beginning of it"]


def jobs() -> Result:
    """List what waits, runs and has ended; `--json` says what both models of an audit finished."""
    service.recover()
    with Store(results_dir()) as store:
        job_rows = [
            asdict(job)
            | {
                "stage": job.stage,
                "finished": read_finished_sizes(job.question, store=store),
            }
            for job in service.jobs()
        ]
    return {"jobs": job_rows}


def cancel(job: JobId) -> Result:
    """Stop a job; what is finished is kept."""
    return asdict(service.cancel(job))


def resume(job: JobId) -> Result:
    """Let a job go on where it stopped, in the background."""
    return asdict(service.resume(job))


_REASONS = {
    "changed": "The line was changed, or is no line of this log.",
    "order": "The line does not follow the one before it: one is missing, moved, or added.",
    "unfinished": "The line was never finished; the next that is written takes its place.",
    "missing": "Lines at the end are missing.",
    "head": "The head, which says how many lines there are, is missing or does not fit.",
    "seal": "It does not hold what the seal says it held: it was put back to an older state, or "
    "written anew.",
    "elsewhere": "The seal is of another machine's log: it can be checked there only.",
}


def log(
    what: Literal["verify", "show"],
    *,
    limit: Annotated[int, "`show`: number of lines, the newest"] = 50,
    audit: Annotated[str, "only lines of this audit: digits of its digest"] = "",
    seal: Annotated[
        str, "`verify`: seal of a report; the log must still hold what it held then"
    ] = "",
) -> Result:
    """Say whether the access log is whole (exit code 1 where it is not), or show its lines."""
    if what == "show":
        entries = access_log.entries(limit, audit=audit)
        return {"entries": [e.model_dump(exclude={"previous", "mac"}) for e in entries]}
    result = access_log.verify(seal)
    seal_now = access_log.log_seal() if result.is_intact else ""
    why = _REASONS.get(result.reason, "")
    say(f"The access log is {'whole' if result.is_intact else 'NOT whole'}. {why}")
    return asdict(result) | {"seal": seal_now, "exit_code": int(not result.is_intact)}


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


def login(
    what: Literal["show", "drop"],
    *,
    yes: Annotated[
        bool, "`drop`: everybody who reaches the app's port shall be an auditor"
    ] = False,
) -> Result:
    """Say whether the app serves this data directory with a login only, or give that up."""
    if what == "drop":
        if not yes:
            raise AuditError(
                "Without a login everybody who reaches the app's port is an auditor.",
                where="login",
                do="Give --yes if this is wanted; it is written into the access log.",
            )
        access_log.record("login_dropped")
        forget_login()
    path = data_home() / SECRETS
    mode = f"{path.stat().st_mode & 0o777:o}" if path.exists() else ""
    if mode and is_open_to_others(path):
        say(f"{path}: other accounts can read it. Close it: chmod 600 {path}")
    return {"needs_login": had_login(), "secrets": str(path) if mode else "", "mode": mode}


def backup(out: Annotated[Path, "a new file; it holds keys, names and notes"]) -> Result:
    """Write all that is kept into one file, while the app runs."""
    return {"n_files": back_up(out), "file": str(out)}


def restore(
    file: Annotated[Path, "file that `backup` wrote"],
    *,
    force: Annotated[bool, "move a data directory that is not empty aside"] = False,
) -> Result:
    """Put a backup in the place of the data directory, once every file of it is checked."""
    n_files, old = put_back(file, is_forced=force)
    return {"n_files": n_files, "before": str(old or "")}


def retention(*, options: Annotated[Options, FieldsOf(Periods)]) -> Result:
    """Show or set how many days each kind of kept thing stays (0: until somebody removes it)."""
    return {"days": (set_periods(**options) if options else periods()).plain()}


def purge(
    *,
    kind: Annotated[str, f"one of {', '.join(KINDS)}"] = "",
    older_than: Annotated[int | None, "days, instead of the set periods"] = None,
    dry_run: Annotated[bool, "only say what would be removed"] = False,
) -> Result:
    """Remove what is past its period; what is in use, or rested on, and the demo stay."""
    if kind and kind not in KINDS:
        raise AuditError("must be {expected}.", where="--kind", expected=" / ".join(KINDS))
    if older_than is not None and older_than < 0:
        raise AuditError("must be at least {ge}.", where="--older-than", ge=0)
    days = periods().plain() if older_than is None else dict.fromkeys(KINDS, older_than)
    is_set = older_than is not None
    due = {thing: n for thing, n in days.items() if kind in ("", thing) and (n or is_set)}
    if not due:
        say("No period is set: `python -m audit retention` sets one, or give --older-than.")
    return {"purged": [asdict(purged) for purged in purge_kinds(due, is_dry=dry_run)]}


CorpusName = Annotated[str, "identifier or folder of a corpus"]


def corpus_build(*, options: Annotated[Options, FieldsOf(CorpusTask)]) -> Result:
    """Make D_private, D_public, the truth, and the lists."""
    task = CorpusTask(**options)
    if task.out:
        access_log.record("exported", what="corpus", names="full")
    (corpus_id,) = _answer(task)
    _say_patients(open_notes(task.notes, columns=dict(task.columns)).has_patients)
    corpus = CORPORA.read_folder(task.out) if task.out else CORPORA.get(corpus_id)
    return _describe_corpus(corpus) | {"folder": str(corpus.path)}


def _say_patients(has_patients: bool) -> None:
    """Say so if notes do not name their patients."""
    if not has_patients:
        say(
            "No patient column was found: each note counts as that of a patient of its own. The "
            "column is called\npatient_id, subject_id, person_id, PAT_ID, mrn, 患者番号 ..., or "
            "--column patient_id=NAME where there is that option."
        )


def corpus_mentions(*, corpus: CorpusName) -> Result:
    """Say who is named beside an age, and how often."""
    examination = _describe_corpus(find_corpus(corpus))
    _say_patients(bool(examination["n_patients"]))
    return examination


def corpus_candidates(
    *,
    corpus: CorpusName,
    out: Annotated[Path, "folder for names.csv and passages.jsonl"],
    controls: Annotated[
        str,
        "kinds of controls, with commas between: held_out,easy,hard,recombined; without it "
        "held_out if people were held out, else easy,hard",
    ] = "",
    own_controls_from: Annotated[
        Path | None,
        "register of patients: those who are in no training note of identified notes are controls",
    ] = None,
    roles: Annotated[str, "roles of members, with commas between"] = ",".join(ROLES),
    other_names: Annotated[
        bool, "make the list for a sibling model, from the notes with other names"
    ] = False,
) -> Result:
    """Write the list of names and the passages."""
    kept_corpus = find_corpus(corpus)
    if other_names:
        dropped: dict[str, int] = {}
        candidates, passages = make_sibling_list(kept_corpus)
    else:
        candidates, dropped = _make_corpus_list(
            kept_corpus,
            kinds=_split_words(controls),
            roles=_split_words(roles),
            register=own_controls_from,
        )
        passages = select_passages(kept_corpus, candidates)
    files = {"names.csv": encode_names_csv(candidates), "passages.jsonl": passages}
    log_fields = {"corpus": kept_corpus.corpus_id} if kept_corpus.corpus_id else {}
    access_log.record(
        "exported", what="candidates", names="full", n_names=len(candidates), **log_fields
    )
    return {
        "n_names": len(candidates),
        "n_members": sum(m is True for m in candidates.is_member),
        "by_kind": dict(sorted(Counter(filter(None, candidates.control_kind)).items())),
        "by_role": dict(sorted(Counter(filter(None, candidates.role)).items())),
        "control_source": candidates.source,
        "left_out": dropped,
        "n_passages": passages.count(b"\n"),
        "files": [str(path) for path in write_private(files, out)],
    }


def _make_corpus_list(
    corpus: KeptCorpus, *, kinds: tuple[str, ...], roles: tuple[str, ...], register: Path | None
) -> tuple[Candidates, dict[str, int]]:
    """Return the list of a corpus, and the numbers of names left out."""
    if register is None:
        candidates = read_list(corpus, controls=kinds or None, roles=roles)
        held_out = read_examination(corpus.path).held_out
        return candidates, _say_left_out(held_out) if candidates.source == "held_out" else {}
    if "held_out" in kinds:
        raise AuditError(
            "A list has held-out controls or own ones.",
            where="--controls",
            do="Leave held_out or --own-controls-from out.",
        )
    listed = read_list(corpus, controls=kinds, roles=roles)
    own_controls = add_own_controls(corpus, listed, register)
    return own_controls.candidates, _say_left_out(own_controls)


def _say_left_out(dropped: OwnControls | HeldOutCounts | None) -> dict[str, int]:
    """Return the numbers of names left out of a list, and say why."""
    if dropped is None:
        return {}
    numbers = {"members": dropped.n_dropped_members, "controls": dropped.n_dropped_controls}
    say(
        "Left out, because somebody else's training notes hold the full name: "
        f"{dropped.n_dropped_members:,} members and {dropped.n_dropped_controls:,} controls."
    )
    if isinstance(dropped, OwnControls):
        numbers["households"] = dropped.n_dropped_households
        say(
            f"Left out, because they live with somebody who has training notes: "
            f"{dropped.n_dropped_households:,} people."
        )
    return numbers


def corpus_check(*, corpus: CorpusName, names: NamesList) -> Result:
    """Say which controls of a list stand in D_private, by their rows."""
    candidates = _read_names(names)
    occurrences = count_control_mentions(find_corpus(corpus), candidates)
    n_controls = candidates.is_member.count(False)
    do = " They are no controls: take them off the list." if occurrences else ""
    say(
        f"{len(occurrences):,} of {n_controls:,} controls stand in D_private with their full name."
        f"{do}"
    )
    return {
        "n_controls": n_controls,
        "n_found": len(occurrences),
        "found": [
            {"row": candidates.row[row], "n_occurrences": n} for row, n in occurrences.items()
        ],
    }


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, text.replace(" ", "").split(","))))


def corpus_list() -> Result:
    """List the corpora that are kept here."""
    return {"corpora": [corpus_line(kept_corpus) for kept_corpus in CORPORA.all()]}


def corpus_forget(corpus: Annotated[str, "its identifier"]) -> Result:
    """Remove a kept corpus with all of its files."""
    CORPORA.forget(corpus)
    return {"forgotten": corpus}


def _describe_corpus(corpus: KeptCorpus) -> Result:
    """Return the counts of a corpus as JSON values."""
    examination = read_examination(corpus.path)
    coverage = examination.coverage
    counted = coverage.plain() | {
        "forms": dict(coverage.by_form),
        "reasons": dict(coverage.by_reason),
        "n_by_role": dict(coverage.n_by_role),
        "n_mentions": coverage.n_mentions,
        "n_elsewhere": coverage.n_elsewhere,
    }
    return examination.plain() | {
        "coverage": counted,
        "carriers": dict(examination.carriers),
        "n_patients": examination.n_patients or None,  # unknown, not none
        "n_patterns": examination.n_patterns,
        "n_occurrences": examination.n_occurrences,
        "corpus": corpus_line(corpus),
    }


def pretrain(
    *,
    general: Annotated[str, "directory of the model to start from"],
    options: Annotated[Options, FieldsOf(PretrainTask)],
    trained: Annotated[Options, FieldsOf(TrainSettings)],
    sibling_of: Annotated[
        str,
        "identifier or folder of a trained model: train by its recipe, in as many passes or fewer "
        "(--epochs), on its corpus with other names; its audit shows what the attack would see",
    ] = "",
) -> Result:
    """Train a model further on notes, or from scratch; goes on where it stopped."""
    start = resolve_model_path(general, option="--general")
    if sibling_of:
        model = (
            MODELS.get(sibling_of) if is_code(sibling_of) else MODELS.read_folder(Path(sibling_of))
        )
        n_epochs = trained.get("n_epochs")
        task = make_sibling_task(model, general=start, n_epochs=n_epochs).with_(**options)
    else:
        settings = TrainSettings(**_choose_pass(trained, defaults=TrainSettings()))
        task = PretrainTask(general=start, settings=settings, **options)
    if read_process_number()[0]:  # of several processes, only the first answers and reports
        task.help()
        raise SystemExit(0)
    (run_id,) = _answer(task)
    folder = task.with_(run_id=run_id).folder
    trained_model = MODELS.read_folder(folder)
    return trained_model.facts.plain() | {
        "run_id": run_id,
        "model": str(folder / MODEL),
        "n_steps": trained_model.n_steps_done,
        "n_epochs": trained_model.n_epochs_done,
        "loss": trained_model.loss,
        "held_out_loss_before": trained_model.first_held_out,
        "held_out_loss": trained_model.held_out,
        "unigram_loss": trained_model.facts.unigram_loss,
        "snapshots": {
            str(step): str(folder / snapshot_name(step)) for step in trained_model.snapshots
        },
    }


def _choose_pass(options: Options, *, defaults: TrainSettings) -> Options:
    """Return settings with a forward pass that divides the step, unless one was given.

    If possible, all processes get the same number of passes.
    """
    batch, n_processes = options.get("batch", defaults.batch), read_process_number()[1]
    share = batch // n_processes if batch % n_processes == 0 else batch
    return {"micro_batch": find_largest_pass(share)} | options


def models_convert(
    model: Annotated[
        str, "directory of a model with pytorch_model.bin, in shards, or without a head"
    ],
    *,
    out: Annotated[Path, "a new folder"],
    options: Annotated[Options, FieldsOf(ConvertTask, only=("head_from", "model_type"))],
) -> Result:
    """Write a copy of a model that can be audited, with its weights in one safetensors file."""
    if "head_from" in options:
        options["head_from"] = resolve_model_path(str(options["head_from"]), option="--head-from")
    task = ConvertTask(source=resolve_model_path(model, option="model"), out=out, **options)
    _answer(task)
    files = read_model_files(out)
    assert files.conversion is not None
    return {"model": str(out), "digest": compute_model_digest(out)} | files.conversion.plain()


_TRAINED = ("n_tokens", "batch", "micro_batch", "precision", "learning_rate", "from_scratch")


def experiment(
    *,
    general: Annotated[str, "directory of M_general"],
    notes: Annotated[Path, "notes with placeholders"],
    options: Annotated[Options, FieldsOf(paper.ExperimentTask)],
    trained: Annotated[Options, FieldsOf(TrainSettings, only=_TRAINED)],
    generation: Annotated[Options, FieldsOf(GenerationSettings, only=("n_documents", "n_steps"))],
    posterior: Annotated[Options, FieldsOf(PosteriorSettings, only=("n_inputs", "n_chain_inputs"))],
) -> Result:
    """Do the experiment of the paper, from notes to tables."""
    task = paper.ExperimentTask(
        **options | {"notes": notes},
        general=resolve_model_path(general, option="--general"),
        training=paper.TRAINING.with_(**_choose_pass(trained, defaults=paper.TRAINING)),
        generation=GenerationSettings(**generation),
        posterior=PosteriorSettings(**Options(n_chain_inputs=0) | posterior),
    )
    _answer(task)
    say((task.out / paper.TABLES_MD).read_text(encoding="utf-8"))
    result: Result = json.loads((task.out / paper.TABLES_JSON).read_text(encoding="utf-8"))
    return result


def deid_leakage(
    *,
    out: Annotated[Path, "folder for the tables"],
    options: Annotated[Options, FieldsOf(leakage.LeakageTask)],
    quick: Annotated[bool, "fewer arms and epochs; takes minutes"] = False,
) -> Result:
    """Attack models of the demo hospital's notes, raw and de-identified."""
    (kept_as,) = _answer(make_leakage_task(options, is_quick=quick))
    files = leakage.LEAKAGE.get(kept_as).tables.files()
    write_private(files, out)
    say(files[leakage.LEAKAGE_MD].decode())
    result: Result = json.loads(files[leakage.LEAKAGE_JSON])
    return result | {"kept_as": kept_as}


def make_leakage_task(options: Options, *, is_quick: bool) -> leakage.LeakageTask:
    """Return the task of the given options; without a tagger, it uses the shipped ones."""
    defaults = leakage.LeakageTask(taggers=(RULES, DEFAULT))
    return (leakage.make_quick_order(defaults) if is_quick else defaults).with_(**options)


def deid_build(
    *,
    notes: Annotated[
        Path, "discharge.csv(.gz), NOTEEVENTS.csv(.gz), CSV, JSONL, Parquet, or a folder of .txt"
    ],
    out: Annotated[Path, "a new folder"],
    names: Annotated[Literal["ja", "en"], "language of names"] = "ja",
    seed: Seed = 0,
    typer: Annotated[
        Path | None, "directory of a causal language model that types masks; rules without"
    ] = None,
    translator: Annotated[
        Path | None, "directory of a causal language model that translates into Japanese"
    ] = None,
) -> Result:
    """Make a corpus with names and spans from masked notes."""
    return build_named(
        open_notes(notes),
        folder=out,
        seed=seed,
        locale={"ja": JAPANESE, "en": ENGLISH}[names],
        typer=LocalModel(typer) if typer else None,
        translator=LocalModel(translator, max_new_tokens=2048) if translator else None,
        progress=progress_line(),
    )


PolicyName = Annotated[
    str, "which marks are taken out: five-types (all), safe-harbor, or a JSON file of `deid policy`"
]


Beside = Annotated[
    tuple[str, ...],
    "another tagger that is asked too: what either finds is marked; repeatable, or with commas",
]


def deid_policy(
    policy: Annotated[str, "five-types, safe-harbor or a JSON file"] = ALL_OUT.title,
    *,
    tagger: Annotated[str, "rules, default or trained/ID; several: rules+trained/ID"] = DEFAULT,
) -> Result:
    """Say what a policy takes out, what a tagger can find of it, and what was measured."""
    stated_policy = find_policy(policy)
    rows = describe_rows(
        list_coverage(stated_policy, tagger=find_tagger(_join_tagger_ids(tagger))), language="en"
    )
    return {
        "coverage": rows,
        "policy": stated_policy.as_file().decode(),
    }


def deid_tag(
    *,
    tagger: Annotated[
        str,
        "rules, default, trained/ID, one of installed packages, or the folder of a tagger; "
        "several as one: default+ginza",
    ] = DEFAULT,
    notes: Annotated[
        Path,
        "CSV, JSONL, Parquet, FHIR (JSON), i2b2 XML, CoNLL, one .txt or .html, or a folder of such",
    ],
    out: Annotated[Path, "a new folder"],
    register: Annotated[
        Path | None,
        "CSV, JSONL or Parquet: what is known of patients, and is found in their notes",
    ] = None,
    beside: Beside = (),
    uncopied: Annotated[
        Uncopied,
        "of a tagger that writes copies: what it did not copy of a note the default tagger marks, "
        "or the note is left out of what is released",
    ] = FALLBACK,
    mode: Literal["placeholder", "surrogate", "mask"] = "placeholder",
    policy: PolicyName = ALL_OUT.title,
    key_of: Annotated[
        str,
        "surrogates from the key of this release of `deid releases`: a patient has the same ones "
        "and the same shift of dates in both, so that whoever has both can link them; a new random "
        "key without",
    ] = "",
    seed: Annotated[
        int | None,
        "for tests only: of the surrogates. It is public: anybody with the program can compute "
        "names, dates and numbers from such a release",
    ] = None,
    workers: Annotated[
        int, "processes that tag many notes with rules or a network of words; 0: one a core, to 8"
    ] = 0,
    device: Device = "auto",
) -> Result:
    """Find personal information in notes and take it out."""
    stated = find_policy(policy)
    requested_release = release_sharing_key(key_of) if key_of else Release(mode=mode, seed=seed)
    tagger_id = _join_tagger_ids(tagger, other_names=beside)
    _refuse_nothing_to_withhold(tagger_id, uncopied)
    with record_release(out, requested_release) as (release_id, release):
        census = tag_notes(
            _notes_to_tag(notes),
            tagger=load_tagger(tagger_id, device=device),
            folder=out,
            release=release,
            policy=stated,
            register=read_register(register) if register else None,
            uncopied=uncopied,
            n_workers=workers or count_cores(),
            progress=progress_line(),
        )
    _say_tagged(census, release_id, release)
    return census


def _notes_to_tag(path: Path) -> NoteSource | handed_in.AnnotatedNotes:
    """Return the notes of a path; say so if a table of notes does not name their patients."""
    source = handed_in.notes_to_tag(path)
    if isinstance(source, NoteSource):
        _say_patients(source.has_patients)
    return source


def _say_tagged(census: Mapping[str, Any], release_id: str, release: Release) -> None:
    """Say what the user must know about the released notes."""
    _say_release(release_id, release)
    if n_without := census.get("register", {}).get("n_notes_without_row"):
        say(f"{n_without} notes are of a patient whom the register does not know, or of none.")
    if n_foreign := census["n_notes_of_no_language"]:
        say(
            f"{n_foreign} notes are neither in Japanese nor in English: the taggers that are "
            "shipped know\nno other language and miss most of what stands in such "
            "notes."
        )
    _say_uncopied(census.get("uncopied"))
    say(
        f"{handed_in.SPANS} holds the notes as they were; {REDACTED} holds what a tagger left of "
        "them,\nwith all that it missed: measure it with `deid score` before anything is given "
        "away."
    )


def _refuse_nothing_to_withhold(tagger_id: str, uncopied: Uncopied) -> None:
    if uncopied == WITHHOLD and not find_tagger(tagger_id).writes_copies:
        raise AuditError(
            "No tagger that was named writes copies: there is nothing to withhold.",
            where="--uncopied",
            do="Name a generative tagger, or leave the option out.",
        )


def _say_release(release_id: str, release: Release) -> None:
    if release.is_reversible:
        say(
            "A seed is public: anybody who has this program can compute the names, dates and "
            "record numbers\nfrom these surrogates. Do not hand them out."
        )
    elif release_id:
        say(f"This is release {release_id}; its key stays in the data directory.")


def deid_releases(
    *, tagged: Annotated[Path | None, "folder of `deid tag`: say whether it is reversible"] = None
) -> Result:
    """List the releases with surrogates, and say which of them can be reversed."""
    rows = [asdict(kept_release) for kept_release in list_releases()]
    if tagged:
        with refuse_errors(AuditError("This is no folder of `deid tag`.", where="--tagged")):
            census = json.loads(read_file_bytes(tagged / CENSUS))
            has_key = census.get("surrogates", {}).get("reversible") is False
            is_reversible = census["mode"] == SURROGATE and not has_key
        rows.append(
            {
                "identifier": "",
                "title": tagged.resolve().name,
                "created": "",
                "is_kept": False,
                "is_reversible": is_reversible,
                "linked": (),
            }
        )
    if rows:
        say(
            _format_table(
                [row | {"linked": " ".join(row["linked"])} for row in rows], columns=tuple(rows[0])
            )
        )
    if n_reversible := sum(row["is_reversible"] for row in rows):
        say(
            f"{n_reversible} can be reversed: the surrogates come from a public seed, so that "
            "anybody who has this\nprogram can compute true names, dates and record numbers from "
            "them. Tell whoever has a copy to\ndelete it and to confirm that, and call back what "
            "was passed on; make a new release, which has\na secret key, and then remove this "
            "one."
        )
    return {"releases": rows}


def _say_uncopied(counts: Mapping[str, Any] | None) -> None:
    """Say how many notes a tagger did not copy completely, and what happened to them."""
    if not counts or not counts["n_notes"]:
        return
    outcome = (
        f"They are withheld: they stand neither in {REDACTED} nor in {handed_in.SPANS}"
        if counts["n_withheld"]
        else "The default tagger marked these parts"
    )
    say(
        f"{counts['n_notes']} notes were not copied whole ({counts['n_characters']} characters). "
        f"{outcome}. {UNCOPIED} lists them."
    )


def deid_leftovers(
    *,
    tagged: Annotated[Path, "folder of `deid tag`"],
    k: Annotated[int, "count patients in groups below this; terms of so many notes are rare"] = 5,
    out: Annotated[Path | None, "write who is singled out: a CSV (holds text of notes)"] = None,
) -> Result:
    """Find what stays readable in tagged notes and singles somebody out."""
    with locate_errors("--tagged"):
        n_bytes = (tagged / handed_in.SPANS).stat().st_size
    names: dict[int, str] = {}

    def notes() -> Iterator[tuple[int, TaggedDocument]]:
        for row, document in leftovers.read_tagged_folder(tagged):
            names[row] = document.doc_id
            yield row, document

    remains = leftovers.find_leftovers(notes(), k=k, n_bytes=n_bytes, progress=progress_line())
    if out:
        access_log.record("exported", what="leftovers", names="full")
        csv_text = leftovers.leftovers_csv(remains, names=names)
        write_whole(out, csv_text.encode("utf-8", "replace"))
    say(
        f"{remains.n_singled} of {remains.n_patients} patients have a combination of what is left "
        f"that nobody else of the set has; {remains.n_below} one that fewer than {k} share. Who is "
        "unique in a set need not be so outside: this is\nan upper bound of the risk. What no rule "
        "or list knows is not counted."
    )
    return remains.counts()


def deid_convert(
    *,
    notes: Annotated[
        Path, "JSONL, i2b2 XML, CoNLL, a text with tags, or a folder of these or of brat"
    ],
    out: Annotated[Path, "a new folder"],
    to: Format,
) -> Result:
    """Write annotated notes in another form; of spans that overlap the longest stay whole."""
    documents = handed_in.annotated_notes(notes).read_all()
    converted = list(map(flatten_spans, documents)) if to in ("conll", "inline") else documents
    with whole_folder(out, place="--out") as folder:
        n_files = len(write_private(dict(write_files(converted, form=to)), folder))
    n_flattened = sum(
        document is not original for document, original in zip(converted, documents, strict=True)
    )
    return {"n_notes": len(documents), "n_files": n_files, "n_flattened": n_flattened}


def deid_train(
    *,
    kind: Literal["token", "generative"] = "token",
    options: Annotated[Options, FieldsOf(TaggerTask)],
    encoder: Annotated[
        Path | None, "directory of an encoder to start from; without it a small network"
    ] = None,
    trained: Annotated[Options, FieldsOf(TaggerSettings)],
    model: Annotated[Path | None, "generative: directory of a causal language model"] = None,
    tuned: Annotated[Options, FieldsOf(TuningSettings, prefix="gen-")],
    lora: Annotated[
        bool, "generative: tune an adapter (needs peft) and merge it into the model"
    ] = False,
    adapted: Annotated[Options, FieldsOf(Lora, prefix="lora-")],
    label_map: Annotated[Path | None, "JSON object from label to type"] = None,
) -> Result:
    """Train a tagger; goes on where it stopped."""
    settings: TaggerSettings | TuningSettings
    if kind == "generative":
        if model is None:
            raise AuditError("Which model shall be tuned?", where="--model", do="Give a directory.")
        settings = TuningSettings(**tuned, lora=Lora(**adapted) if lora else None)
    else:
        if options.get("base"):
            options["base"] = _find_tagger_id(options["base"])
        defaults = FROM_TAGGER if options.get("base") else FROM_ENCODER if encoder else FROM_SCRATCH
        settings = make_token_settings(trained, defaults=defaults)
    options |= _read_label_map(label_map)
    task = TaggerTask(settings=settings, start=model or encoder, **options)
    (tagger_id,) = _answer(task)
    folder = task.with_(tagger_id=tagger_id).folder
    facts_of: Any = GenerativeFacts if kind == "generative" else TaggerFacts
    facts = facts_of.of_folder(folder)
    return {
        "tagger_id": None if task.out else tagger_id,
        "directory": str(folder),
        "digest": _tagger_digest(facts),
        "measured": dict(facts.measured),
        "training": dict(facts.training),
    }


def _tagger_digest(facts: GenerativeFacts | TaggerFacts) -> str:
    """Return the digest of a trained model, combined with that of rules beside it."""
    digest = facts.digest()
    is_beside = isinstance(facts, TaggerFacts) and facts.has_rules
    return combined_digest(RuleTagger().digest, digest) if is_beside else digest


_MAX_SHOWN = 20
_MEASURED = (
    "precision",
    "recall",
    "f1",
    "complete",
    "clean",
    "exact",
    "n_gold",
    "n_predicted",
)


def deid_score(
    *,
    gold: Annotated[Path, "JSONL, i2b2 XML, CoNLL, or a folder of these or of brat"],
    pred: Annotated[
        Path | None, "the same notes, in any of these forms, or the folder of `deid tag`"
    ] = None,
    outputs: Annotated[
        Path | None, "JSONL of a model's own texts with tags: doc_id, output"
    ] = None,
    options: Annotated[Options, FieldsOf(ScoreTask)],
    policy: PolicyName = ALL_OUT.title,
    label_map: Annotated[Path | None, "JSON object from label to type"] = None,
    misses: Annotated[Path | None, "write every miss: a CSV (holds text of notes)"] = None,
) -> Result:
    """Measure predicted spans against gold spans."""
    if (pred is None) == (outputs is None):
        raise AuditError("Give one of the two.", where="--pred, --outputs")
    options |= _read_label_map(label_map)
    golds = Source(kind="given", ref=handed_in.keep_path(gold, subject=GOLD))
    if outputs:
        copies = handed_in.keep_outputs(_read_bytes(outputs), subject=PREDICTED)
        predicted = Source(kind="outputs", ref=copies.digest)
    else:
        predicted = Source(kind="given", ref=handed_in.keep_path(pred or Path(), subject=PREDICTED))
    stated = find_policy(policy)
    task = ScoreTask(gold=golds, predicted=predicted, policy=stated, **options)
    (score_id,) = _answer(task)
    score = SCORES.get(score_id)
    if misses:
        access_log.record("exported", what="misses", names="full")
        # Half a surrogate pair, which is no UTF-8, becomes a question mark.
        write_whole(misses, misses_csv(read_cases(score.path)).encode("utf-8", "replace"))
    _say_score(score.summary)
    unknown = ", ".join(score.unknown_labels[:_MAX_SHOWN])
    counted = (
        (score.n_gold_only, "notes were not predicted: their spans count as missed."),
        (score.n_predicted_only, "predicted notes have no gold and were left out."),
        (len(score.unknown_labels), f"labels are not in the map and were kept: {unknown}"),
    )
    unseen = [
        f"No gold is of these {level}, so nothing is known about them: {', '.join(names)}"
        for level, names in zip(("types", "kinds"), score.summary.unseen, strict=True)
        if names
    ]
    for line in unseen:
        say(line)
    result = score.summary.plain() | {
        "notes": [*(f"{n} {sentence}" for n, sentence in counted if n), *unseen],
        "score_id": score_id,
        "kept": "The score is kept with the text around its spans. The page of measures removes it,"
        f" and so does `python -m audit deid forget {score_id}`.",
    }
    if score.verbatim and score.copies:
        say("Of copies that are exact alone, all others counted as without a span:")
        _say_score(score.verbatim)
        result |= {"verbatim": score.verbatim.plain(), "copies": score.copies.plain()}
    return result


def deid_compare(
    *,
    gold: Annotated[Path, "as of `score`"],
    tagger: Annotated[
        tuple[str, ...],
        "rules, default, trained/ID, one of installed packages (ginza, spacy, presidio), the "
        "folder of a tagger, several as one (default+ginza), or predicted notes as of `score`; "
        "once each",
    ] = (),
    beside: Beside = (),
    options: Annotated[Options, FieldsOf(ScoreTask)],
    label_map: Annotated[Path | None, "JSON object from label to type"] = None,
) -> Result:
    """Measure several taggers on the same gold notes, and what they differ by."""
    if len(set(tagger)) < max(len(tagger), 2):
        raise AuditError("Give two taggers or more, each once.", where="--tagger")
    options |= _read_label_map(label_map)
    golds = Source(kind="given", ref=handed_in.keep_path(gold, subject=GOLD))
    score_ids: list[str] = []
    for tagger_name in tagger:
        say(tagger_name)
        predicted = _find_predictions(tagger_name, other_names=beside)
        title = "" if predicted.kind == "tagger" else Path(tagger_name).name
        task = ScoreTask(gold=golds, predicted=predicted, title=title, **options)
        score_ids += _answer(task)
    comparison = compare_all(score_ids)
    sides, rows = (
        {},
        zip(tagger, comparison.scores, comparison.counts, comparison.shares.sides, strict=True),
    )
    for name, score, counts, shares in rows:
        n_notes, seconds = score.summary.n_documents, score.seconds
        sides[name] = _format_shares(shares) | {
            "seconds": seconds,
            "notes_per_second": n_notes / seconds if seconds else None,
            "score_id": score.score_id,
            "counts": {
                share_name: [x.n_hits, x.n_total]
                for share_name, x in zip(SHARES, counts, strict=True)
            },
        }
    differences = {}
    for (first, second), values in comparison.shares.differences.items():
        clear = [
            share_name
            for share_name, x in zip(SHARES, values, strict=True)
            if x.low > 0 or x.high < 0
        ]
        name = f"{tagger[first]} - {tagger[second]}"
        differences[name] = _format_shares(values) | {
            "told_apart_by": ", ".join(clear) or "nothing"
        }
    return {"taggers": sides, "differences": differences}


def _join_tagger_ids(name: str, *, other_names: Sequence[str] = ()) -> str:
    """Return the joint identifier of taggers, given by their names or folders.

    `other_names` may hold several names with commas between them.
    """
    names = [
        name,
        *(other_name for listed in other_names for other_name in listed.split(",") if other_name),
    ]
    return TAGGER_SEPARATOR.join(map(_find_tagger_id, names))


def _find_tagger_id(name: str) -> str:
    path = _make_absolute(name)
    if _is_tagger_id(name):
        return name
    if (path / TAGGER).is_file():
        return str(path)
    is_one = TAGGER_SEPARATOR not in name
    return (
        name
        if is_one
        else TAGGER_SEPARATOR.join(map(_find_tagger_id, name.split(TAGGER_SEPARATOR)))
    )


def _is_tagger_id(name: str) -> bool:
    return any(name == tagger.tagger_id for tagger in list_taggers())


def _find_predictions(name: str, *, other_names: Sequence[str]) -> Source:
    """Return the source of predictions: a tagger by name or folder, or notes with spans."""
    path = _make_absolute(name)
    if not _is_tagger_id(name) and path.exists() and not (path / TAGGER).is_file():
        if other_names:
            raise AuditError(
                "No tagger can stand beside notes that were predicted before.",
                where="--beside",
                do="Name taggers alone, or leave the option out.",
            )
        return Source(kind="given", ref=handed_in.keep_path(path, subject=PREDICTED))
    return Source(kind="tagger", ref=_join_tagger_ids(name, other_names=other_names))


def _format_shares(estimates: Sequence[Estimate]) -> Result:
    """Return shares or their differences for a table; intervals appear only with `--json`."""
    named_estimates = list(zip(SHARES, estimates, strict=True))
    values = {
        name: None if isnan(estimate.value) else estimate.value
        for name, estimate in named_estimates
    }
    bounded = {name: estimate for name, estimate in named_estimates if not isnan(estimate.low)}
    return values | {
        "intervals": {name: [estimate.low, estimate.high] for name, estimate in bounded.items()}
    }


def _read_label_map(path: Path | None) -> Options:
    if path is None:
        return {}
    text, _ = decode_text(_read_bytes(path), subject="--label-map")
    return {"label_map": dict(read_label_map(text, subject="--label-map").labels)}


def deid_forget(identifier: Annotated[str, "of a score, or of a release of `deid tag`"]) -> Result:
    """Remove a kept score, and what was handed in days ago; or the key of a release."""
    is_release = RELEASES.place(identifier).is_dir()
    (RELEASES if is_release else SCORES).forget(identifier)
    handed_in.clear_uploads()
    return {"forgotten": identifier}


def _say_score(summary: ScoreSummary) -> None:
    is_named = IDENTIFIER in summary.coverage.labels
    covered = summary.coverage.labels[IDENTIFIER] if is_named else summary.coverage.together
    n_readable = covered.n_gold - covered.n_covered_whole
    items = "identifiers" if is_named else "personal items"
    say(f"{n_readable} of {covered.n_gold} {items} are still readable, in whole or in part.")
    for criterion, criterion_scores in summary.criteria.items():
        labels = (*criterion_scores.labels.items(), ("all labels", criterion_scores.together))
        rows = [{criterion: label} | entry.plain() for label, entry in labels]
        say(_format_table(rows, columns=(criterion, *_MEASURED)))


_OF_POSTERIOR = tuple(name for name in BenchSettings.model_fields if name != "n_steps")
_OF_GENERATION = tuple(name for name in BenchSettings.model_fields if name != "n_names")
_OF_TRAINING = tuple(name for name in _OF_POSTERIOR if name != "n_names")


def bench_generation(
    *, options: Annotated[Options, FieldsOf(BenchSettings, only=_OF_GENERATION)]
) -> Result:
    """Race scenario 1 against the published sampler's way, on a model with random weights."""
    from audit.bench.attacks import measure_generation

    return measure_generation(BenchSettings(**options))


def bench_posterior(
    *, options: Annotated[Options, FieldsOf(BenchSettings, only=_OF_POSTERIOR)]
) -> Result:
    """Race scenario 2 against the plain way, dropout on."""
    from audit.bench.attacks import measure_posterior

    return measure_posterior(BenchSettings(**options))


def bench_pretrain(
    *, options: Annotated[Options, FieldsOf(BenchSettings, only=_OF_TRAINING)]
) -> Result:
    """Race pre-training against the plain float32 loop."""
    from audit.bench.pretrain import measure_pretraining

    return measure_pretraining(BenchSettings(**options))


def bench_corpus(*, megabytes: Annotated[int, "of notes"] = 10) -> Result:
    """Time making a corpus beside `wc` and `gzip` of the same file."""
    from audit.bench.corpus_building import measure_corpora

    return measure_corpora(megabytes)


def _is_given(name: str) -> Callable[[Options], bool]:
    return lambda options: name in options


def _is_not_given(name: str) -> Callable[[Options], bool]:
    return lambda options: name not in options


def _has(name: str, value: object) -> Callable[[Options], bool]:
    return lambda options: options.get(name) == value


_GENERATED, _MASKED = {*GenerationSettings.model_fields}, {*PosteriorSettings.model_fields}
_OF_SCENARIO = (
    Dependence(_GENERATED - _MASKED, _has("scenario", 1), needs="--scenario 1"),
    Dependence(_MASKED - _GENERATED, _has("scenario", 2), needs="--scenario 2"),
)
_OF_PASSAGES = Dependence({"placeholder"}, _is_given("passages"), needs="--passages")
DEPENDENT: Mapping[str, tuple[Dependence, ...]] = {
    "run": (
        *_OF_SCENARIO,
        _OF_PASSAGES,
        Dependence({"out", "reference", "scheduler"}, _is_not_given("order"), clashes="--order"),
    ),
    "rank": (*_OF_SCENARIO, _OF_PASSAGES),
    "results": (
        Dependence({"out"}, _is_given("digest"), needs="DIGEST"),
        Dependence({"names", "language"}, _is_given("out"), needs="--out"),
    ),
    "log": (
        Dependence({"limit", "audit"}, _has("what", "show"), needs="show"),
        Dependence({"seal"}, _has("what", "verify"), needs="verify"),
    ),
    "login": (Dependence({"yes"}, _has("what", "drop"), needs="drop"),),
    "corpus_candidates": (
        Dependence(
            {"controls", "own_controls_from", "roles"},
            _is_not_given("other_names"),
            clashes="--other-names",
        ),
    ),
    "corpus_build": (Dependence({"n_canaries"}, _is_given("canary_counts"), needs="--canaries"),),
    "pretrain": (
        Dependence(
            {
                "corpus_id",
                "source",
                "notes",
                "columns",
                *TrainSettings.model_fields.keys() - {"n_epochs"},
            },
            _is_not_given("sibling_of"),
            clashes="--sibling-of",
        ),
        Dependence({"source"}, _is_given("corpus_id"), needs="--corpus"),
        Dependence({"columns"}, _is_given("notes"), needs="--notes"),
        Dependence({"n_steps"}, _is_not_given("n_epochs"), clashes="--epochs"),
        Dependence(
            {"evaluate_every"},
            lambda options: options.get("held_out_share") != 0,
            clashes="--held-out 0",
        ),
    ),
    "deid_tag": (
        Dependence({"seed", "key_of"}, _has("mode", SURROGATE), needs="--mode surrogate"),
        Dependence({"seed"}, _is_not_given("key_of"), clashes="--key-of"),
    ),
    "deid_train": (
        Dependence({"adapted"}, _is_given("lora"), needs="--lora"),
        Dependence(
            {"model", "tuned", "lora"},
            _has("kind", GenerativeFacts.kind),
            needs="--kind generative",
        ),
        Dependence({"encoder"}, _is_not_given("base"), clashes="--from"),
        Dependence(
            {"encoder", "trained", "base", "label_map"},
            lambda options: options.get("kind", TaggerFacts.kind) == TaggerFacts.kind,
            needs="--kind token",
        ),
    ),
}
"""Command -> options that are refused if, without another option, they have no effect."""

GROUPS = {
    "bench": "what the engine costs on this machine, beside the plain way of doing the same",
    "models": "prepare models for an audit",
    "corpus": "from notes to what an audit needs",
    "shards": "make an audit's shards by jobs that do not talk to each other",
    "deid": "de-identification: make a corpus, train a tagger, tag notes, measure a tagger",
}
COMMANDS: tuple[Callable[..., Result], ...] = (
    demo,
    run,
    rank,
    judge,
    shards_make,
    shards_merge,
    score,
    selftest,
    results,
    verify,
    jobs,
    cancel,
    resume,
    log,
    login,
    backup,
    restore,
    retention,
    purge,
    corpus_build,
    corpus_mentions,
    corpus_candidates,
    corpus_check,
    corpus_list,
    corpus_forget,
    pretrain,
    models_convert,
    experiment,
    deid_score,
    deid_compare,
    deid_forget,
    deid_build,
    deid_tag,
    deid_releases,
    deid_policy,
    deid_leftovers,
    deid_convert,
    deid_train,
    deid_leakage,
    bench_generation,
    bench_posterior,
    bench_pretrain,
    bench_corpus,
)
