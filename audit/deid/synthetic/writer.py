"""Writes a note from a grammar: pieces of text, each gold of a type or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.grammar import Choice, Grammar, Literal, Number, Reference, Template

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
