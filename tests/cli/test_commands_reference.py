"""The reference of commands is that of the program, and what documents show can be typed."""

from __future__ import annotations

import re
import shlex

import pytest

from benchmarks.commands_reference import PATH, options, reference
from tests.repository import REPOSITORY

DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
COMMAND = re.compile(r"python -m audit ((?:[^\n`#;|]|\\\n)+)")


def commands() -> list[tuple[str, str]]:
    rows = []
    for path in DOCUMENTS:
        if path == PATH:
            continue
        for command in COMMAND.findall(path.read_text(encoding="utf-8").replace("\\\n", " ")):
            words = command.replace("...", "").strip()
            if not re.search(r"[|…]|^demo / ", words):
                rows.append((path.name, words))
    return rows


def test_the_reference_is_that_of_the_parser():
    assert PATH.read_text(encoding="utf-8") == reference(), "run: make docs"


def test_documents_show_commands():
    assert len(commands()) > 30


@pytest.mark.parametrize(("document", "command"), commands())
def test_a_command_that_a_document_shows_has_these_options(document, command):
    words = shlex.split(command)
    flags = options()
    name = max(
        (candidate for candidate in flags if words[: len(candidate.split())] == candidate.split()),
        key=len,
    )
    assert {word for word in words if word.startswith("--")} <= flags[name], document


def test_paths_that_documents_name_are_there():
    named = re.compile(r"`((?:audit|pages|cache|tests|benchmarks|docs)/[\w./-]+)`")
    for path in DOCUMENTS:
        for name in named.findall(path.read_text(encoding="utf-8")):
            assert (REPOSITORY / name).exists(), f"{path.name}: {name}"
