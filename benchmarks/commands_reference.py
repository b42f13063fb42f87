"""Writes docs/commands.md: every command with its options, out of the parser itself.

python -m benchmarks.commands_reference     (make docs)
"""

from __future__ import annotations

from argparse import Action, ArgumentParser, _HelpAction, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

from audit.cli import make_parser

PATH = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
_HEAD = """# Commands

Written by `make docs` out of the command line itself. Every command takes `--help`, and `--json`,
which prints one JSON object on stdout. What is not given has the default of the page's form.
"""
_EVERYWHERE = ("--json",)


def reference() -> str:
    """Return the text of docs/commands.md."""
    return "\n".join(
        [
            _HEAD,
            *(_section(*command_and_title) for command_and_title in _list_commands(make_parser())),
        ]
    )


def options() -> dict[str, set[str]]:
    """Return for each command ("corpus build") the options that it takes."""
    return {
        command.prog.removeprefix("python -m audit "): set(command._option_string_actions)
        for command, _ in _list_commands(make_parser())
    }


def _list_commands(top_parser: ArgumentParser) -> Iterator[tuple[ArgumentParser, str]]:
    """Yield each command's parser and what it does."""
    for action in top_parser._actions:
        if isinstance(action, _SubParsersAction):
            about = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                if any(
                    isinstance(sub_action, _SubParsersAction) for sub_action in command._actions
                ):
                    yield from _list_commands(command)
                else:
                    yield command, about[name]


def _section(command: ArgumentParser, about: str) -> str:
    rows = [_row(action) for action in command._actions if not _is_everywhere(action)]
    table = "| option | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    return f"## `{command.prog}`\n\n{about}\n\n{table}"


def _is_everywhere(action: Action) -> bool:
    return isinstance(action, _HelpAction) or action.option_strings == list(_EVERYWHERE)


def _row(action: Action) -> str:
    names = ", ".join(action.option_strings) or action.dest.upper()
    if action.nargs != 0 and action.option_strings:
        names += f" {_value(action)}"
    needed = " (needed)" if action.required and action.option_strings else ""
    return f"| `{names}` | {_cell(action.help or '')}{needed} |"


def _value(action: Action) -> str:
    if action.choices:
        return " / ".join(str(choice).replace("_", "-") for choice in action.choices)
    metavar = action.metavar or action.dest.upper()
    return metavar if isinstance(metavar, str) else " ".join(metavar)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("%%", "%")


if __name__ == "__main__":
    PATH.write_text(reference(), encoding="utf-8")
