"""Patterns that say in front what they can begin with find the same as without."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.find import rules
from audit.notes import patterns
from audit.notes.patterns import compile_pattern, read_pattern_table

OWN = [
    r"(?<![A-Z])(?:mg|kg|(?:ml)?/h)",
    r"\b(?:a|bc?|)(?=x)",
    r"(?i:[ks]i|ß)+",
    r"(?!ab)[a-c]{0,2}d",
    r"(?<=^)(?P<x>[0-9])(?P=x)",
    r"[^a]b",
    r"\d[a]",
    r"(?>ab|c)d",
    r"a++b",
    r"(?i:é)a",
    r"",
    r"$",
    r"[-\]^]x",
    r"(?:a(?i:b)|(?-i:c))d",
    r"a*?b",
    r"[あ-ん]+|山",
    r"(?i:[+-a]x)",
    r"(?i:[A-_]x)",
    r"(?i:[«-¿]x)",
    r"(?<![0-9])山|b",
    "(?i)ab",
    "(?x) a b",
    r"(a)?(?(1)b|c)",
]
FLAGS = [0, re.IGNORECASE]
TEXTS = st.text(st.sampled_from("abcdxkKsSiIıſμ¿+_\u212a\u0130ßéÉ 019-]^あん山mg/h\n"), max_size=20)


@pytest.mark.parametrize("flags", FLAGS)
@given(TEXTS)
def test_the_same_is_found(flags: int, text: str) -> None:
    for pattern in OWN:
        plain, quick = re.compile(pattern, flags), compile_pattern(pattern, flags)
        assert [m.span() for m in plain.finditer(text)] == [m.span() for m in quick.finditer(text)]


def test_most_rules_are_told_what_they_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = read_pattern_table(rules.__file__)
    entries = [pattern for group in table.values() for _, pattern in group]
    quick = [compile_pattern(pattern).pattern for pattern in entries]
    assert sum(pattern.startswith("(?=[") for pattern in quick) > 0.85 * len(entries)
    monkeypatch.setattr(patterns, "_parser", None)  # of a Python that keeps it elsewhere
    assert [compile_pattern(pattern).pattern for pattern in entries] == entries
