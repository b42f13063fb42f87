"""From the words of a command line to its exit code.

A command is a function with the decorator `command` in one of the modules of `ROOMS`, named
"group_command" or "command". It returns values of JSON: with `--json` they go to stdout as one
object, otherwise as text for a person to stderr, where progress and sentences go too. The exit code
is 0, or 2 with one plain paragraph for bad input, or 130 after Ctrl-C.

A module is imported when one of its commands is asked for, so that help and short commands need not
wait for the others.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import cyclopts
from cyclopts import App, CycloptsError

from audit.errors import AuditCancelled, AuditError
from audit.home import stay_offline
from audit.progress import say
from audit.shelf import clear_scratch

if TYPE_CHECKING:
    from audit.cli.commands import Options, Result

PROGRAM = "python -m audit"
GROUPS = {
    "corpus": "From notes to what an audit needs.",
    "models": "Prepare models for an audit.",
    "shards": "Make an audit's shards by jobs that do not talk to each other.",
    "deid": "De-identification: make a corpus, train a tagger, tag notes, measure a tagger.",
    "bench": "What the engine costs on this machine, beside the plain way of doing the same.",
}
ROOMS = (
    "audit_commands",
    "shard_commands",
    "job_commands",
    "corpus_commands",
    "training_commands",
    "model_commands",
    "deid_commands",
    "deid_score_commands",
    "store_commands",
    "bench_commands",
)
"""Modules of commands."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    stay_offline()
    clear_scratch()
    try:
        command, options = parse_words(sys.argv[1:] if arguments is None else arguments)
        is_json = options.pop("json", False)
        result = command(**options)
    except AuditError as error:
        say(str(error))
        return 2
    except (AuditCancelled, KeyboardInterrupt):
        say("Stopped. Everything finished so far is kept; the same command goes on from there.")
        return 130
    if result is None:  # of --help
        return 0
    if is_json:
        sys.stdout.write(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        from audit.cli.printing import format_result

        say("\n".join(format_result(result)))
    return int(result.get("exit_code", 0))


def call_command(words: Sequence[str | Path]) -> Result:
    """Return the values of the command that some words stand for."""
    command, options = parse_words(words)
    return command(**options) or {}


def parse_words(words: Sequence[str | Path]) -> tuple[Callable[..., Result | None], Options]:
    """Return the command, or the help, and the options that are given.

    Raises AuditError if the words cannot be read.
    """
    texts = list(map(str, words))
    if texts[:1] == ["shards"] and texts[1:] and texts[1] not in ("make", "merge", "-h", "--help"):
        texts.insert(1, "make")
    try:
        command, bound, _ = make_app().parse_args(texts, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise _refusal(error, texts) from None
    if not texts or (len(texts) == 1 and texts[0] in GROUPS):
        raise AuditError(
            "Which command?", do="`{help}` lists all.", help=" ".join((PROGRAM, *texts, "--help"))
        )
    return command, dict(bound.arguments)


def make_app() -> App:
    """Return the parser of all commands."""
    app = App(
        name=PROGRAM,
        help="May this language model leave the building? `python -m streamlit run app.py` starts "
        "the app; the commands do the same work without it.",
        help_flags=["--help", "-h"],
        version_flags=[],
        help_format="plaintext",
        default_parameter=cyclopts.Parameter(negative=(), allow_repeating=True),
    )
    groups = {"": app}
    for group, about in GROUPS.items():
        groups[group] = App(name=group, help=about)
        app.command(groups[group])
    for number, (path, function_name, about) in enumerate(list_commands()):
        group, _, name = function_name.rpartition("_")
        groups[group].command(f"{path}:{function_name}", name=name, help=about, sort_key=number)
    return app


def list_commands() -> Iterator[tuple[str, str, str]]:
    """Yield module, function and help text of each command, without importing any."""
    for room in ROOMS:
        tree = ast.parse(Path(__file__).with_name(f"{room}.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                yield f"{__package__}.{room}", node.name, ast.get_docstring(node) or ""


def _refusal(error: CycloptsError, words: Sequence[str]) -> AuditError:
    """Return the error of a command line that cannot be read. It repeats no word of it."""
    helpful = " ".join((PROGRAM, *(error.command_chain or ()), "--help"))
    if error.argument:
        sentence = "needs a value." if getattr(error, "keyword", "") else "must be given."
        if not isinstance(error, cyclopts.MissingArgumentError):
            sentence = "takes no value."
        return AuditError(
            sentence, where=error.argument.name, do="`{help}` says more.", help=helpful
        )
    refused = next(iter(error.unused_tokens or ()), "")
    sentence = "is one too many."
    names: list[str] = []
    if isinstance(error, cyclopts.UnknownOptionError):
        refused, sentence = error.token.keyword or error.token.value, "There is no such option."
        names = [name for argument in error.argument_collection for name in argument.names]
    elif isinstance(error, cyclopts.UnknownCommandError):
        sentence, names = "There is no such command.", list(error.app or ())
    near = get_close_matches(refused, names, n=1)
    return AuditError(
        sentence,
        where="word {number}",
        do="The nearest is {near}; `{help}` lists all." if near else "`{help}` lists all.",
        number=next((n for n, word in enumerate(words, 1) if word.startswith(refused)), 0),
        near="".join(near),
        help=helpful,
    )
