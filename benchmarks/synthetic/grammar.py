"""Writes a note from a grammar: pieces of text, each gold of a type or none."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from audit.names.people import draw, parse_rules

T = TypeVar("T")
_FOLDER = Path(__file__).resolve().parent


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

    def word(self, name: str) -> str:
        """Return a word of a list of `words`."""
        return self.pick(words(name))

    def form(self, name: str, /, **fields: object) -> str:
        """Return fields written in one of the ways of a list of `words`."""
        return self.word(name).format(**fields)

    def filled(self, form: str, *, letters: str = "") -> str:
        """Return a form in which each `#` is a digit and each `?` one of the letters."""

        def draw_character(match: re.Match[str]) -> str:
            n = len(match[0])
            return self.pick(letters) if match[0] == "?" else f"{self.between(0, 10**n - 1):0{n}}"

        return re.sub(r"#+|\?", draw_character, form)


_TOKEN = re.compile(r"\{[^{}]*\}|[<>|]|[^{}<>|]+")
_SLOT = re.compile(
    r"@(?P<value>.+)|\*(?P<rule>\S+) (?P<least>\d+)-(?P<most>\d+)"
    r"|#(?P<low>\d+(?:\.\d+)?)-(?P<high>\d+(?:\.\d+)?)|(?P<one>[A-Za-z_][A-Za-z0-9_.]*)"
)


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


Node = str | Reference | Number | Value | Choice
"""A piece of an alternative: text stands as it is."""
Template = tuple[Node, ...]
Grammar = Mapping[str, tuple[Template, ...]]


def template_of(text: str) -> Template:
    """Return an alternative in pieces."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise ValueError(f"braces do not match in {text!r}")
    open_choices: list[list[list[Node]]] = [[[]]]
    for token in tokens:
        options = open_choices[-1]
        if token == "<":
            open_choices.append([[]])
        elif token == "|" and len(open_choices) > 1:
            options.append([])
        elif token == ">" and len(open_choices) > 1:
            open_choices.pop()
            open_choices[-1][-1].append(Choice(tuple(map(tuple, options))))
        elif token == ">":
            raise ValueError(f"a bracket is closed that was not opened in {text!r}")
        else:
            options[-1].append(_slot(token[1:-1]) if token[0] == "{" else token)
    if len(open_choices) > 1:
        raise ValueError(f"a bracket is not closed in {text!r}")
    return tuple(open_choices[0][0])


def _slot(text: str) -> Node:
    match = _SLOT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no slot")
    if match["value"]:
        return Value(match["value"])
    if match["low"]:
        n_decimals = len(match["low"].partition(".")[2])
        low, high = (round(float(match[end]) * 10**n_decimals) for end in ("low", "high"))
        return Number(low, high, n_decimals)
    return Reference(match["rule"] or text, int(match["least"] or 1), int(match["most"] or 1))


def grammar_of(texts: Iterable[str]) -> Grammar:
    """Return the rules of some files together."""
    grammar: dict[str, tuple[Template, ...]] = {}
    for text in texts:
        for name, alternatives in parse_rules(text):
            if name in grammar or not alternatives:
                raise ValueError(f"{name}: this rule is there twice, or has no alternatives")
            grammar[name] = tuple(map(template_of, alternatives))
    return grammar


@functools.cache
def grammar(language: str) -> Grammar:
    """Return the grammar of a language, from its folder."""
    paths = sorted((_FOLDER / language).glob("notes_*.txt"))
    return grammar_of(path.read_text("utf-8") for path in paths)


@functools.cache
def words(name: str) -> tuple[str, ...]:
    """Return a list of words by language and name, as "ja/towns"; in a file, _ is a blank.

    Where there is no such file it is a rule of the `values.txt` beside it.
    """
    path = _FOLDER / f"{name}.txt"
    if not path.exists():
        return dict(parse_rules(path.with_name("values.txt").read_text("utf-8")))[path.stem]
    lines = path.read_text("utf-8").splitlines()
    listed_words = (word for line in lines if not line.startswith("#") for word in line.split())
    return tuple(word.replace("_", " ") for word in listed_words)


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
        value_of: Callable[[str], Piece],
        field: str = "",
        joiner: str = "",
    ) -> None:
        self._grammar, self._dice, self._value_of = grammar, dice, value_of
        self._field, self._joiner = field, joiner
        self._used: set[tuple[str, int]] = set()
        self.pieces: list[Piece] = []

    def write(self, rule: str, *, depth: int = 0) -> None:
        """Write one alternative of a rule, or of the rule of that name for the note's field."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"{rule}: rules without an end")
        own_rule = f"{rule}.{self._field}"
        rule = own_rule if own_rule in self._grammar else rule
        alternatives = self._grammar[rule]
        for _ in range(_N_TRIES):
            place = self._dice.between(0, len(alternatives) - 1)
            if (rule, place) not in self._used:
                break
        self._used.add((rule, place))
        self._expand(alternatives[place], depth)

    def _expand(self, template: Template, depth: int) -> None:
        dice, pieces = self._dice, self.pieces
        for node in template:
            if isinstance(node, str):
                pieces.append(Piece(node))
            elif isinstance(node, Value):
                pieces.append(self._value_of(node.kind))
            elif isinstance(node, Choice):
                self._expand(dice.pick(node.options), depth)
            elif isinstance(node, Number):
                number = dice.between(node.low, node.high) / 10**node.n_decimals
                pieces.append(Piece(f"{number:.{node.n_decimals}f}"))
            else:
                for place in range(dice.between(node.low, node.high)):
                    if place and self._joiner and not pieces[-1].text.endswith("\n"):
                        pieces.append(Piece(self._joiner))
                    self.write(node.rule, depth=depth + 1)
