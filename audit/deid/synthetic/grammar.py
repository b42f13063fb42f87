r"""Grammars of synthetic notes: rules of alternatives, read from text files beside this one.

A file holds rules. `= name` and lines: each line is an alternative (`\n` breaks a line of the
note). `~ name` and words: each word is one. `== name` and blocks parted by lines of `--`: each
block is one, as it stands. `#` begins a comment line outside of blocks. In an alternative:

    {name}      an alternative of another rule
    {*name 2-5} two to five different alternatives of a rule, one behind the other
    {#1-9}      a number from 1 to 9; {#0.5-9.5} with one decimal
    {@kind}     a value of the note's people and places: gold, unless its type is none
    <a|b|>      one of these, or nothing
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"(=|==|~) ([A-Za-z_][A-Za-z0-9_.]*)")
_TOKEN = re.compile(r"\{[^{}]*\}|[<>|]|[^{}<>|]+")
_REPEAT = re.compile(r"\*(?P<rule>\S+) (?P<low>\d+)-(?P<high>\d+)")
_NUMBER = re.compile(r"#(?P<low>\d+(?:\.\d+)?)-(?P<high>\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """`low` to `high` different alternatives of a rule."""

    rule: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `low` to `high`, in units of its last decimal."""

    low: int
    high: int
    n_decimals: int


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the note's people and places."""

    kind: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several pieces of a template."""

    options: tuple[Template, ...]


Node = Literal | Reference | Number | Value | Choice
Template = tuple[Node, ...]
Grammar = Mapping[str, tuple[Template, ...]]


def template_of(text: str) -> Template:
    """Return an alternative in pieces.

    Raises
    ------
    ValueError
        If brackets do not match, or a slot is none of those above.
    """
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise ValueError(f"braces do not match in {text!r}")
    nodes, rest = _parsed(tokens, is_inner=False)
    if rest:
        raise ValueError(f"a bracket is closed that was not opened in {text!r}")
    return nodes


def _parsed(tokens: list[str], *, is_inner: bool) -> tuple[Template, list[str]]:
    nodes: list[Node] = []
    while tokens:
        token = tokens[0]
        if is_inner and token in "|>":
            break
        if token == ">":
            return tuple(nodes), tokens
        tokens = tokens[1:]
        if token == "<":
            choice, tokens = _choice(tokens)
            nodes.append(choice)
        elif token.startswith("{"):
            nodes.append(_slot(token[1:-1]))
        else:
            nodes.append(Literal(token))
    return tuple(nodes), tokens


def _choice(tokens: list[str]) -> tuple[Choice, list[str]]:
    options: list[Template] = []
    while True:
        option, tokens = _parsed(tokens, is_inner=True)
        options.append(option)
        if not tokens:
            raise ValueError("a bracket is not closed")
        end, tokens = tokens[0], tokens[1:]
        if end == ">":
            return Choice(tuple(options)), tokens


def _slot(text: str) -> Node:
    if text.startswith("@"):
        return Value(text[1:])
    if match := _REPEAT.fullmatch(text):
        return Reference(match["rule"], int(match["low"]), int(match["high"]))
    if match := _NUMBER.fullmatch(text):
        n_decimals = len(match["low"].partition(".")[2])
        low, high = (round(float(match[end]) * 10**n_decimals) for end in ("low", "high"))
        return Number(low, high, n_decimals)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", text):
        raise ValueError(f"{text!r} is no slot")
    return Reference(text, 1, 1)


def rules_of(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the rules of a file: name and alternatives as written.

    Raises
    ------
    ValueError
        If a line stands before the first rule, or a rule has no alternative.
    """
    for sign, name, lines in _sections(text):
        if sign == "==":
            blocks = "\n".join(lines).split("\n--\n")
            found = [block.strip("\n").replace("\\n", "\n") for block in blocks]
        else:
            kept = [line for line in lines if line.strip() and not line.startswith("#")]
            found = [line.replace("\\n", "\n") for line in kept]
            if sign == "~":
                found = " ".join(found).split(" ")
        alternatives = tuple(each for each in found if each)
        if not alternatives:
            raise ValueError(f"{name}: a rule without alternatives")
        yield name, alternatives


def _sections(text: str) -> Iterator[tuple[str, str, list[str]]]:
    sign, name, lines = "", "", list[str]()
    for line in text.split("\n"):
        if head := _HEAD.fullmatch(line):
            if name:
                yield sign, name, lines
            sign, name, lines = head[1], head[2], []
        elif name:
            lines.append(line)
        elif line.strip() and not line.startswith("#"):
            raise ValueError("a line stands before the first rule")
    if name:
        yield sign, name, lines


def grammar_of(texts: Iterable[str]) -> Grammar:
    """Return the rules of some files together.

    Raises
    ------
    ValueError
        If a rule is there twice, or a slot names a rule that is not there.
    """
    grammar: dict[str, tuple[Template, ...]] = {}
    for text in texts:
        for name, alternatives in rules_of(text):
            if name in grammar:
                raise ValueError(f"{name}: this rule is there twice")
            grammar[name] = tuple(template_of(each) for each in alternatives)
    for name, templates in grammar.items():
        missing = {r.rule for t in templates for r in references(t)} - grammar.keys()
        if missing:
            raise ValueError(f"{name}: there is no rule {sorted(missing)}")
    return grammar


def references(template: Template) -> Iterator[Reference]:
    """Yield the references of a template, those inside of choices too."""
    for node in template:
        if isinstance(node, Reference):
            yield node
        elif isinstance(node, Choice):
            for option in node.options:
                yield from references(option)


@functools.cache
def grammar(language: str) -> Grammar:
    """Return the grammar of a language, from its folder."""
    return grammar_of(grammar_texts(language).values())


@functools.cache
def grammar_texts(language: str) -> Mapping[str, str]:
    """Return the files of a language: name and text."""
    folder = Path(__file__).resolve().parent / language
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("notes_*.txt"))}


@functools.cache
def word_list(language: str, name: str) -> tuple[str, ...]:
    """Return the words of a plain list of a language, without comment lines."""
    path = Path(__file__).resolve().parent / language / f"{name}.txt"
    lines = path.read_text("utf-8").splitlines()
    return tuple(word for line in lines if not line.startswith("#") for word in line.split())
