"""Of every option of every command it is asked whether it has an effect.

An option reaches its command, which uses it; one that is a field of a record is read by the code
that does the work, checks of the field aside. An option that another one would make idle is
refused. That each question can be answered with no is shown on planted options that do nothing.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import pytest
from cyclopts import Token
from pydantic import Field, model_validator

from audit.cli.command_line import parse_words
from audit.cli.commands import Command, FieldsOf, Option, Options
from audit.errors import AuditError
from audit.task import Record
from benchmarks.commands_reference import commands, options
from tests.repository import REPOSITORY

Reads = set[tuple[str, str]]
"""(name of what is read from, field)"""

WORK: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "DemoTask": (("audit/demo.py",), ("self",)),
    "GenerationSettings": (
        (
            "audit/attack/scenarios.py",
            "audit/attack/generation.py",
            "audit/attack/prompts.py",
            "audit/attack/question.py",
        ),
        ("settings", "generation"),
    ),
    "SamplingSettings": (
        ("audit/attack/scenarios.py", "audit/attack/question.py"),
        ("settings", "sampling"),
    ),
    "PosteriorSettings": (
        (
            "audit/attack/scenarios.py",
            "audit/attack/posterior.py",
            "audit/attack/judgement.py",
            "audit/attack/evidence.py",
            "audit/attack/plan.py",
        ),
        ("settings", "posterior"),
    ),
    "CorpusTask": (
        ("audit/corpus/make.py", "audit/corpus/build.py", "audit/corpus/batches.py"),
        ("self", "task", "asked", "order"),
    ),
    "PretrainTask": (
        (
            "audit/training/trainings.py",
            "audit/training/pretraining.py",
            "audit/training/tokens.py",
        ),
        ("self", "task", "order"),
    ),
    "TrainSettings": (
        (
            "audit/training/pretraining.py",
            "audit/training/masked_lm.py",
            "audit/training/notes_learner.py",
            "audit/training/framing.py",
            "audit/training/loop.py",
            "audit/training/tokens.py",
            "audit/training/trainings.py",
            "audit/training/config.py",
        ),
        ("self", "settings"),
    ),
    "ConvertTask": (("audit/models/convert.py",), ("self", "task")),
    "ExperimentTask": (("audit/experiment/paper.py",), ("self", "task", "order")),
    "TaggerAuditTask": (("audit/experiment/tagger_audit.py",), ("self", "order")),
    "ServerSettings": (("audit/deid/find/elsewhere.py",), ("self", "settings")),
    "ScoreTask": (("audit/deid/measure/scoring.py",), ("self", "task")),
    "TaggerTask": (
        (
            "audit/deid/learn/tagger_task.py",
            "audit/deid/learn/training.py",
            "audit/deid/learn/tuning.py",
        ),
        ("self", "task"),
    ),
    "TaggerSettings": (
        (
            "audit/deid/learn/training.py",
            "audit/training/loop.py",
            "audit/deid/learn/tagger_task.py",
        ),
        ("self", "settings"),
    ),
    "TuningSettings": (
        (
            "audit/deid/learn/tuning.py",
            "audit/training/loop.py",
            "audit/deid/learn/tagger_task.py",
            "audit/training/config.py",
        ),
        ("self", "settings"),
    ),
    "Lora": (("audit/training/causal_lm.py",), ("lora",)),
    "LeakageTask": (("audit/experiment/leakage.py",), ("self", "order")),
    "BenchSettings": (
        (
            "audit/bench/race.py",
            "audit/bench/machine.py",
            "audit/bench/attacks.py",
            "audit/bench/pretrain.py",
            "audit/bench/tagger_tuning.py",
        ),
        ("self", "settings"),
    ),
}
"""Record -> the files that do its work, and what the record is called in them."""
KEPT_AS_THEY_ARE = {
    "Periods": "each kind of kept thing is a field, and `purge` goes through all of them"
}
"""Records whose fields are no settings of any work."""


COMMANDS = tuple(commands())
EVERY = [(command, option) for command in COMMANDS for option in command.options]


def record_of(command: Command, option: Option) -> type[Record]:
    """Return the record of which an option is a field."""
    hint = get_type_hints(command.function, include_extras=True)[option.parameter]
    assert get_origin(hint) is Annotated
    mark = get_args(hint)[1]
    assert isinstance(mark, FieldsOf)
    return mark.record


def names_used(command: Command) -> set[str]:
    """Return the parameters that the body of a command uses."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(command.function)))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    return {
        node.id
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


class _Reader(ast.NodeVisitor):
    """Collects what is read in a file; what a check or a description of a field reads is none."""

    def __init__(self) -> None:
        self.reads: Reads = set()
        self._class = ""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer_class, self._class = self._class, node.name
        self.generic_visit(node)
        self._class = outer_class

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        decorators = {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}
        if decorators.isdisjoint(("model_validator", "field_validator")):
            self.generic_visit(node)
        if "getattr" in {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}:
            self.reads |= {
                ("self", child.value)
                for child in ast.walk(node)
                if isinstance(child, ast.Constant) and isinstance(child.value, str)
            }

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            owner = node.value
            name = getattr(owner, "id", getattr(owner, "attr", ""))
            self.reads.add((f"self of {self._class}" if name == "self" else name, node.attr))
        self.generic_visit(node)


@cache
def reads_of(path: Path) -> frozenset[tuple[str, str]]:
    reader = _Reader()
    reader.visit(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(reader.reads)


def is_read(record: type[Record], field: str, *, paths: tuple[Path, ...], names: Any) -> bool:
    """Whether the code that does the work of a record reads one of its fields."""
    reads = {read for path in paths for read in reads_of(path)}
    owners = {name for name in names if name != "self"}
    if "self" in names:
        classes = [base.__name__ for base in record.__mro__ if issubclass(base, Record)]
        owners |= {"self", *(f"self of {name}" for name in classes if name != "Record")}
    return any((owner, field) in reads for owner in owners)


def value_of(option: Option) -> list[str]:
    """Return words that give an option another value than its default."""
    if option.is_switch:
        return [option.flag]
    if option.choices:
        word = next(word for word in option.choices if word != option.shown_default)
    elif option.metavar == "FIELD=NAME":
        word = "text=body"
    elif option.field.examples:
        word = "0.5" if "float" in str(option.kind) else "1"
    else:
        word = next(word for word in WORDS if reads_as_another(option, word))
    return [f"{option.flag}={word}"] if option.flag.startswith("--") else [word]


WORDS = ("[MASK] x", "7", "64", "512", "0.5", "0.2", "0.001")


def reads_as_another(option: Option, word: str) -> bool:
    """Whether an option takes a word, and it is not its default."""
    try:
        return bool(option.read((Token(value=word),)) != option.default)
    except AuditError:
        return False


def words_of(command: Command) -> list[str]:
    """Return the words of a command with all that it cannot do without."""
    group, _, name = command.__name__.rpartition("_")
    needed: list[str] = []
    for option in command.options:
        if option.is_required:
            needed += value_of(option)
    return [*filter(None, (group, name)), *needed]


def options_in(words: list[str]) -> Options:
    return parse_words(words)[1]


def test_every_command_and_option_of_the_parser_is_asked() -> None:
    flags_by_command: dict[str, set[str]] = {}
    for command, option in EVERY:
        group, _, name = command.__name__.rpartition("_")
        flags_by_command.setdefault(" ".join(filter(None, (group, name))), set()).add(option.flag)
    everywhere = {"-h", "--help", "--json"}
    for name, flags in options().items():
        assert flags - everywhere <= flags_by_command.get(name, set()), name


@pytest.mark.parametrize(
    ("command", "option"), EVERY, ids=[f"{c.__name__} {o.flag}" for c, o in EVERY]
)
def test_an_option_has_an_effect(command: Command, option: Option) -> None:
    words = words_of(command)
    option_words = value_of(option) if option.flag.startswith("--") else []
    plain, options = (options_in([*words, *extra_words]) for extra_words in ([], option_words))
    if not option_words and option.dest not in plain:
        options = options_in([*words, "other"])
    if option.dest not in plain:
        assert command.collect_arguments(options) != command.collect_arguments(plain), (
            "it does not reach the command"
        )
    assert option.dest in options
    assert option.parameter in names_used(command), "the command does not use it"
    if option.field_name:
        record = record_of(command, option)
        if record.__name__ in KEPT_AS_THEY_ARE:
            return
        files, names = WORK[record.__name__]
        paths = tuple(REPOSITORY / file for file in files)
        assert is_read(record, option.field_name, paths=paths, names=names), "nothing reads it"


class PlantedTask(Record):
    """A task of which one field is checked and written down, but read by no work."""

    flags: ClassVar = {}

    alive: int = Field(default=0, description="read")
    dead: int = Field(default=0, description="read by a check alone")

    @model_validator(mode="after")
    def _check(self) -> PlantedTask:
        assert self.dead >= 0
        return self

    def work(self) -> object:
        return self.alive, self.plain()


@Command
def planted(
    *, used: int = 0, dead: int = 0, fields: Annotated[Options, FieldsOf(PlantedTask)]
) -> Any:
    """Use one of two options."""
    return used, PlantedTask(**fields).work()


def test_a_planted_option_that_does_nothing_is_found() -> None:
    assert [option.flag for option in planted.options] == [
        "--used",
        "--dead",
        "--alive",
        "--dead",
    ]
    assert "used" in names_used(planted) and "dead" not in names_used(planted)
    paths = (Path(__file__),)
    assert is_read(PlantedTask, "alive", paths=paths, names=("self",))
    assert not is_read(PlantedTask, "dead", paths=paths, names=("self",))


IDLE = (
    ("deid train --gold g --kind generative --model m", "--lora-rank 16", "--lora"),
    ("deid train --gold g --kind generative --model m", "--lora-alpha 8", "--lora"),
    ("deid train --gold g --kind generative --model m", "--lora-dropout 0.1", "--lora"),
    ("deid train --gold g --kind generative --model m", "--epochs 2", "--kind token"),
    ("deid train --gold g --kind generative --model m", "--encoder e", "--kind token"),
    ("deid train --gold g", "--lora", "--kind generative"),
    ("deid train --gold g", "--model m", "--kind generative"),
    ("deid train --gold g", "--gen-epochs 2", "--kind generative"),
    ("deid train --gold g", "--gradient-checkpointing", "--kind generative"),
    ("deid tag --notes n --out o", "--seed 3", "--mode surrogate"),
    ("deid tag --notes n --out o --mode mask", "--seed 3", "--mode surrogate"),
    ("run --general g --hospital h --names n --scenario 1", "--inputs 3", "--scenario 2"),
    ("run --general g --hospital h --names n --scenario 2", "--documents 3", "--scenario 1"),
    ("run --general g --hospital h --names n --scenario 2 --order o", "--out d", "--order"),
    ("run --general g --hospital h --names n --scenario 2", "--placeholder ___", "--passages"),
    ("rank --general g --hospital h --names n --out o --scenario 2", "--placeholder ___", "--pass"),
    (
        "rank --general g --hospital h --names n --out o --scenario 1",
        "--no-dropout",
        "--scenario 2",
    ),
    ("results", "--out d", "DIGEST"),
    ("results abc", "--names full", "--out"),
    ("log verify", "--limit 3", "show"),
    ("log show", "--seal s", "verify"),
    ("corpus build --notes n", "--canary-names 3", "--canaries"),
    ("pretrain --general g --notes n", "--source public", "--corpus"),
    ("pretrain --general g --corpus c", "--column text=body", "--notes"),
    ("pretrain --general g --notes n --epochs 2", "--steps 9", "--epochs"),
    ("pretrain --general g --notes n --held-out 0", "--evaluate-every 9", "--held-out 0"),
    ("pretrain --general g --notes n", "--lora-alpha 8", "--lora-rank"),
    ("pretrain --general g --notes n", "--lora-dropout 0", "--lora-rank"),
)


@pytest.mark.parametrize(("words", "option", "needed_option"), IDLE)
def test_an_option_that_would_be_ignored_is_refused(
    words: str, option: str, needed_option: str
) -> None:
    command, options = parse_words([*words.split(), *option.split()])
    with pytest.raises(AuditError, match="has no effect here") as refused:
        command(**options)
    assert option.split()[0] in str(refused.value) and needed_option in str(refused.value)
    command, options = parse_words(words.split())
    assert isinstance(command, Command)
    command.refuse_idle(options)


def test_what_depends_on_another_is_an_option() -> None:
    for command in COMMANDS:
        names = {name for o in command.options for name in (o.parameter, o.field_name, o.dest)}
        for dependence in command.dependences:
            assert names >= set(dependence.parts), command.__name__
