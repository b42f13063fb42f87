"""The parts of a name that was found: which token is the first name, which the last.

Comes in: the tokens of a name. Goes out: the name with its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from audit.corpora.mention_tokens import Token
from audit.corpora.mention_words import PARTICLES

_STUB = re.compile(r"(?:\w|(\w)\1+|abc\w*|xyz\w*)\Z", re.IGNORECASE)


@dataclass(frozen=True)
class FoundName:
    """A name and its place: parts as in `Mention`, `first_token` its first token's index."""

    first: str
    last: str
    roles: tuple[str, ...]
    title: str
    start: int
    end: int
    is_placeholder: bool
    is_capitals: bool
    first_token: int

    @property
    def n_parts(self) -> int:
        """1 for a lone first or last name, 2 for a full name."""
        return 2 if self.roles == ("full",) else len(self.roles)

    @property
    def is_stub(self) -> bool:
        """Whether letters stand in the name's place: "A", "XX", "ABC"."""
        return not self.is_placeholder and bool(_STUB.match(self.last or self.first))


def is_particle(token: Token) -> bool:
    """Whether a token is "van", "de" ...: a part of a last name in small letters."""
    return token.kind == "word" and token.folded in PARTICLES


def named(
    items: Sequence[Token],
    given: Sequence[Token],
    *,
    title: str,
    first_token: int,
    is_reversed: bool,
) -> FoundName:
    """Return the name that tokens make; `given` are those behind the comma of "Last, First"."""
    everything = [*items, *given]
    is_placeholder = any(item.kind == "placeholder" for item in everything)
    if is_reversed:
        words = [item.text for item in given if item.kind != "initial"] or [given[0].text]
        first, last = words[0], " ".join(item.text for item in items)
        roles: tuple[str, ...] = ("last", "first")
    elif is_placeholder:
        first, last = "", ""
        roles = _placeholder_roles(items, title=title)
    else:
        first, last = _split(items, title=title)
        roles = ("first", "last") if first else ("last",)
    if is_placeholder:
        first, last = "", ""
    return FoundName(
        first=first,
        last=last,
        roles=roles,
        title=title,
        start=everything[0].start,
        end=everything[-1].end,
        is_placeholder=is_placeholder,
        is_capitals=all(i.is_capitals for i in everything if i.kind == "word"),
        first_token=first_token,
    )


def _split(items: Sequence[Token], *, title: str) -> tuple[str, str]:
    particle = next((n for n, i in enumerate(items) if n and is_particle(i)), None)
    if particle is not None and particle < len(items) - 1:
        return items[0].text, " ".join(item.text for item in items[particle:])
    is_joined = is_particle(items[0]) and (bool(title) or items[0].text.islower())
    if is_joined and len(items) > 1:  # "Mr. De Luca", but "Al Roe"
        return "", " ".join(item.text for item in items)
    return (items[0].text if len(items) > 1 else "", items[-1].text)


def _placeholder_roles(items: Sequence[Token], *, title: str) -> tuple[str, ...]:
    roles = [i.role if i.kind == "placeholder" else "blank" for i in items if i.kind != "initial"]
    roles = [role for role in roles if role != "initial"]
    if "full" in roles or roles == ["blank"]:
        return ("last",) if title and "full" not in roles else ("full",)
    named = [role for role in roles if role in ("first", "last")]
    if len(set(named)) == 2:
        return tuple(dict.fromkeys(named))
    if named and len(roles) == 1:
        return (named[0],)
    return ("last", "first") if named == ["last"] and roles[0] == "last" else ("first", "last")
