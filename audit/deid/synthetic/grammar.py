"""Writes a note from a grammar: pieces of text, each gold of a type or none."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from audit.names.people import draw

T = TypeVar("T")


class Dice:
    """A stream of draws for one place, the same in every process.

    Only `random.Random.random` is asked, whose numbers for a seed Python keeps from version to
    version.
    """

    def __init__(self, seed: int, purpose: str, *keys: str) -> None:
        self._next = random.Random(draw(seed, purpose, *keys)).random

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of some choices."""
        return choices[int(self._next() * len(choices))]

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + int(self._next() * (high - low + 1))

    def chance(self, share: float) -> bool:
        """Whether something happens that happens in this share (0-1) of places."""
        return self._next() < share

    def number(self) -> int:
        """Return a number of 53 bits, for functions that take a drawn number."""
        return int(self._next() * 2**53)


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
    """Return an alternative in pieces."""
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
    """Yield the rules of a file: name and alternatives as written."""
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
    """Return the rules of some files together."""
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


ValueOf = Callable[[str], "Piece"]
_MAX_DEPTH = 40
_N_TRIES = 6


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a note: `label` is one of the five types, or "" for what is none."""

    text: str
    label: str = ""


class Writer:
    """Expands templates into pieces; in one note no sentence stands twice if others are left.

    `field` is a field of medicine: its own words and sentences come before the general ones.
    `joiner` stands between the sentences of a series.
    """

    def __init__(
        self,
        grammar: Grammar,
        *,
        dice: Dice,
        value_of: ValueOf,
        field: str = "",
        joiner: str = "",
    ) -> None:
        self._joiner = joiner
        self._grammar = grammar
        self._field = field
        self._dice = dice
        self._value_of = value_of
        self._used: set[tuple[str, int]] = set()
        self.pieces: list[Piece] = []

    def write(self, rule: str, *, depth: int = 0) -> None:
        """Write one alternative of a rule, or of the rule of that name for the note's field.

        Raises
        ------
        ValueError
            If rules name each other without an end.
        """
        if depth > _MAX_DEPTH:
            raise ValueError(f"{rule}: rules without an end")
        self._expand(self._alternative(rule), depth)

    def _alternative(self, rule: str) -> Template:
        own = f"{rule}.{self._field}"
        rule = own if own in self._grammar else rule
        alternatives = self._grammar[rule]
        for _ in range(_N_TRIES):
            place = self._dice.between(0, len(alternatives) - 1)
            if (rule, place) not in self._used:
                break
        self._used.add((rule, place))
        return alternatives[place]

    def _expand(self, template: Template, depth: int) -> None:
        dice = self._dice
        for node in template:
            if isinstance(node, Literal):
                self.pieces.append(Piece(node.text))
            elif isinstance(node, Reference):
                for place in range(dice.between(node.low, node.high)):
                    if place and self._joiner and not self.pieces[-1].text.endswith("\n"):
                        self.pieces.append(Piece(self._joiner))
                    self.write(node.rule, depth=depth + 1)
            elif isinstance(node, Choice):
                self._expand(dice.pick(node.options), depth)
            elif isinstance(node, Number):
                number = dice.between(node.low, node.high)
                text = f"{number / 10**node.n_decimals:.{node.n_decimals}f}"
                self.pieces.append(Piece(text))
            else:
                self.pieces.append(self._value_of(node.kind))
