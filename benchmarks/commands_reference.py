"""Writes docs/commands.md: every command with its options, out of the command line itself.

python -m benchmarks.commands_reference     (make docs)
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from audit.cli.command_line import PROGRAM, list_commands
from audit.cli.commands import Command, Option

PATH = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
_HEAD = f"""# Commands

Written by `make docs` out of the command line itself. Every command takes `--help`, and `--json`,
which prints one JSON object on stdout. `{PROGRAM} --version` says which version this is. The last
column is what counts where an option is left out: *needed* means that it must be given, *none* that
there is no value, and *off* is a switch that was not given.
"""


def reference() -> str:
    """Return the text of docs/commands.md."""
    return "\n".join([_HEAD, *map(_section, commands())])


def commands() -> Iterator[Command]:
    """Yield the commands in the order of their help."""
    for module, name, _ in list_commands():
        yield getattr(import_module(module), name)


def options() -> dict[str, set[str]]:
    """Return for each command ("corpus build") the options that it takes."""
    return {
        command.__name__.replace("_", " "): {option.flag for option in command.options}
        | {"--json", "--help"}
        for command in commands()
    }


def _section(command: Command) -> str:
    rows = {option.dest: _row(option) for option in reversed(command.options)}
    lines = ["| option | | without it |", "|---|---|---|", *reversed(rows.values()), ""]
    about = (command.__doc__ or "").strip()
    title = f"## `{PROGRAM} {command.__name__.replace('_', ' ')}`"
    return "\n".join([title, "", about, "", *(lines if rows else ())])


def _row(option: Option) -> str:
    flag = option.flag if option.flag.startswith("--") else option.flag.upper()
    if flag == option.flag and not option.is_switch:
        flag += f" {option.metavar}"
    default = "*needed*" if option.is_required else option.shown_default
    cells = (f"`{flag}`", option.field.description or "", default)
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


if __name__ == "__main__":
    PATH.write_text(reference(), encoding="utf-8")
