"""What a command line says: help with defaults, errors that repeat nothing, the version."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from audit.cli import main
from audit.cli.commands import Command, Option
from benchmarks.commands_reference import commands
from tests.repository import REPOSITORY

CANARY = "Jane Zebra"
COMMANDS = tuple(commands())
TAKE_ANY_TEXT = {
    "backup out",
    "deid_leakage --out",
    "deid_selfaudit --out",
    "deid_selfaudit --prompt",
}
"""Options that take any text, in commands that need nothing else and would do their work."""
OPTIONS = [
    (command, option)
    for command in COMMANDS
    for option in command.options
    if f"{command.__name__} {option.flag}" not in TAKE_ANY_TEXT
]


def words_with(command: Command, canary: Option) -> list[str]:
    """Return a command line in which one option has a bad value, and the others that it needs."""
    words = command.__name__.split("_", 1) if "_" in command.__name__ else [command.__name__]
    for option in command.options:
        is_named = option.flag.startswith("--")
        if option is canary:
            joined = f"{option.flag}={CANARY}"
            words += [joined] if option.is_switch else [option.flag, CANARY][not is_named :]
        elif option.is_required:
            word = next(iter(option.choices), "absent")
            words += [option.flag, word] if is_named else [word]
    return words


@pytest.mark.parametrize(
    ("command", "option"), OPTIONS, ids=[f"{c.__name__} {o.flag}" for c, o in OPTIONS]
)
def test_no_error_repeats_a_value(
    command: Command,
    option: Option,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(words_with(command, option))
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert "Jane" not in err and "\n\n" not in err and "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS, ids=[command.__name__ for command in COMMANDS])
def test_help_describes_every_option_and_shows_its_default(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    words = command.__name__.split("_", 1) if "_" in command.__name__ else [command.__name__]
    assert main([*words, "--help"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    for option in {option.dest: option for option in reversed(command.options)}.values():
        name = option.flag if option.flag.startswith("--") else option.flag.upper()
        (line,) = [line for line in lines if re.search(rf"│[ *]+{name}(?![\w-])", line)]
        assert option.field.description and option.field.description in line
        state = "[required]" if option.is_required else f"[default: {option.shown_default}]"
        assert state in line
    assert any("--json" in line and "[default: off]" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Which command? `python -m audit --help` lists all."),
        (["deid"], "Which command? `python -m audit deid --help` lists all."),
        (["rnu"], "word 1: There is no such command. The nearest is run;"),
        (["deid", CANARY], "word 2: There is no such command. `python -m audit deid --help`"),
        (["jobs", CANARY], "word 2: is one too many."),
        (["jobs", f"--{CANARY}"], "word 2: There is no such option."),
        (["log", "show", "--limt=3"], "word 3: There is no such option. The nearest is --limit;"),
        (["log", "show", "--limit"], "--limit: needs a value."),
        (["log", "show", "--limit", "x"], "--limit: must be a whole number."),
        (["log", "show", "--json=x"], "--json: takes no value."),
        (["score"], "--scores: must be given."),
        (["pretrain", "--general", "g", "--snapshots", "1,x"], "--snapshots: must be a number."),
    ],
)
def test_a_command_line_that_cannot_be_read_is_refused_in_a_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith(sentence) and CANARY not in err


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )


def test_the_version_needs_no_package() -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    process = run_python("-S", "-m", "audit", "--version")  # without installed packages
    assert process.stdout == f"kart-audit {version}\n"


def test_help_imports_no_room() -> None:
    timings = run_python("-X", "importtime", "-m", "audit", "--help").stderr
    imported = {line.rpartition("|")[2].strip() for line in timings.splitlines()}
    assert "audit.cli.command_line" in imported
    assert imported.isdisjoint({"torch", "transformers", "pandas", "audit.deid", "audit.corpus"})
