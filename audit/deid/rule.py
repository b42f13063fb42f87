"""What a rule is: a pattern over folded text, a type, a weight, and a check of what was found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from audit.deid.documents import Span

CUED, SHAPED, LOOSE = 3, 2, 1
"""Weights: a cue stands beside it, its shape alone tells it, it is a guess of its surroundings."""

_FOLD = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_FOLD |= dict.fromkeys(map(ord, "\u3000\u00a0\u2002\u2003\u2009\u202f\t"), ord(" "))
_FOLD |= dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff70"), ord("-"))
_FOLD |= {ord("⼀"): ord("一"), ord("⽉"): ord("月"), ord("⽇"): ord("日"), ord("⽣"): ord("生")}
_FOLD |= {ord("⽐"): ord("比"), ord("⼈"): ord("人"), ord("⽒"): ord("氏"), ord("⼥"): ord("女")}

HAN = r"\u3005\u3006\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaffヶ"
KATA = "ァ-ヴー"
HIRA = "ぁ-ゖ"
KANJI_NUMBER = "〇一二三四五六七八九十百"

Check = Callable[[re.Match[str]], bool]


def folded_text(text: str) -> str:
    """Return a text of the same length, in which rules are looked for.

    Full-width letters, digits and signs become plain ones, all blanks but line ends become spaces,
    dashes become hyphens, and radicals that stand for a character become it. Offsets stay.
    """
    return text if text.isascii() and "\t" not in text else text.translate(_FOLD)


@dataclass(frozen=True, order=True)
class Found:
    """One find: the span, and the weight of the rule that made it."""

    span: Span
    weight: int


@dataclass(frozen=True)
class Rule:
    """A pattern and what it finds.

    Parameters
    ----------
    name
        What the rule is called.
    label
        The type of what it finds: the group `value` of the pattern, or the whole match.
    pattern
        Over folded text.
    weight
        Which of two finds stays where they share characters: the heavier, then the longer.
    check
        Whether a match is a find.
    signs
        Where given, the text must hold one of them for the pattern to be tried.
    """

    name: str
    label: str
    pattern: re.Pattern[str]
    weight: int = SHAPED
    check: Check | None = None
    signs: tuple[str, ...] = ()

    def find(self, folded: str) -> Iterator[Found]:
        """Yield the finds in a folded text."""
        if self.signs and not any(sign in folded for sign in self.signs):
            return
        has_value = "value" in self.pattern.groupindex
        for match in self.pattern.finditer(folded):
            start, end = match.span("value") if has_value else match.span()
            if start < end and (self.check is None or self.check(match)):
                yield Found(Span(start, end, self.label), self.weight)

    @property
    def wording(self) -> str:
        """All that decides its finds but the check, as text."""
        check = self.check.__name__ if self.check else ""
        flags = self.pattern.flags
        return f"{self.name}|{self.label}|{self.pattern.pattern}|{flags}|{self.weight}|{check}"


def rule(
    name: str,
    label: str,
    pattern: str,
    *,
    weight: int = SHAPED,
    check: Check | None = None,
    signs: str = "",
    ignore_case: bool = False,
) -> Rule:
    """Return a rule; `signs` are separated by blanks."""
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    return Rule(name, label, compiled, weight, check, tuple(signs.split()))


def strongest(found: Iterable[Found]) -> tuple[Span, ...]:
    """Return the finds that stay, sorted; no two share a character.

    The heavier of two stays, then the longer, then the one that begins first.
    """
    kept: list[Span] = []
    order = sorted(
        set(found), key=lambda f: (-f.weight, -f.span.n_chars, f.span.start, f.span.label)
    )
    taken: set[int] = set()
    for each in order:
        places = range(each.span.start, each.span.end)
        if taken.isdisjoint(places):
            taken.update(places)
            kept.append(each.span)
    return tuple(sorted(kept))
