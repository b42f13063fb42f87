"""What a policy and a tagger together reach: the 18 identifiers of HIPAA, and the five types.

For each: what the policy does with it, how the tagger can find it at all, and the share of it that
was found in notes written by hand, where that was measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.deid.kinds import KINDS, Kind
from audit.deid.policy import Policy
from audit.deid.taggers import (
    DEFAULT,
    HAND_WRITTEN,
    LANGUAGES,
    RULES,
    SHIPPED,
    KnownTagger,
)
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
)
from audit.stats import Rate
from audit.tables import UNDEFINED, percent, percent_interval
from audit.words import catalogue

_CONTACTS: tuple[Kind, ...] = ("telephone", "fax", "email", "web_address", "ip_address")
_RECORDS: tuple[Kind, ...] = ("record_number", "account", "vehicle", "device", "other_id")
_PUBLIC: tuple[Kind, ...] = ("social_security", "health_plan", "licence", "other_id")
_QUASI = tuple(kind for kind in KINDS if kind not in (*_CONTACTS, *_RECORDS, *_PUBLIC))
_REGISTER = (
    "names",
    "geography",
    "dates",
    "telephone",
    "email",
    "record_number",
    "health_plan",
    IDENTIFIER,
    QUASI_IDENTIFIER,
    CONTACT,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
)
"""What a register of patients can hold."""
_NO_RULE = ("vehicle",)
HIPAA: dict[str, tuple[tuple[Kind, ...], str]] = {
    "names": (("name",), "NS"),
    "geography": (("place", "organisation", "postcode"), "GO"),
    "dates": (("date", "time", "age_above_89"), "DTA"),
    "telephone": (("telephone",), "C"),
    "fax": (("fax",), "C"),
    "email": (("email",), "C"),
    "social_security": (("social_security",), "P"),
    "record_number": (("record_number",), "L"),
    "health_plan": (("health_plan",), "P"),
    "account": (("account",), "L"),
    "licence": (("licence",), "P"),
    "vehicle": (("vehicle",), ""),
    "device": (("device",), ""),
    "web_address": (("web_address",), "C"),
    "ip_address": (("ip_address",), "C"),
    "biometric": ((), ""),
    "photographs": ((), ""),
    "other": (("other_id", "other"), "QL"),
}
"""The identifiers of 45 CFR 164.514(b)(2)(i), A to R: the kinds of each, and the letters of the
gold marks that measure it (see `LETTERS`)."""
FIVE: dict[str, tuple[tuple[Kind, ...], str]] = {
    IDENTIFIER: (("name",), "N"),
    QUASI_IDENTIFIER: (_QUASI, "SDTAXGOJQ"),
    PERSONAL_ID_CODE: (_PUBLIC, "P"),
    LINKAGE_CODE: (_RECORDS, "L"),
    CONTACT: (_CONTACTS, "C"),
}
LETTERS = "NSDTAXGOJQPLC"
"""Gold marks of the hand-written notes: full Name, part of a name (S), Date, Time of day, Age,
seX, Geography, Organisation, Job, Q for others, Public number, record number (L), Contact."""


@dataclass(frozen=True)
class Found:
    """What was found of the gold marks of a letter: with a character at least, and whole."""

    letter: str
    n_gold: int
    n_touched: int
    n_covered: int

    @property
    def touched(self) -> Rate:
        """The share of which at least a character was found."""
        return Rate(self.n_touched, self.n_gold)


@dataclass(frozen=True)
class Covered:
    """One row: an identifier, by its code in `HIPAA` or `FIVE`.

    `does` is "take out", "leave" or "part"; "none" where no text can hold it. `left` are its kinds
    that the policy leaves in, `ways` how a tagger can find it ("rules", "network", "register"),
    `measured` what was found by language: nothing where that is not known.
    """

    code: str
    does: str
    left: tuple[Kind, ...]
    ways: tuple[str, ...]
    measured: Mapping[str, tuple[Found, ...]]


def coverage(policy: Policy, *, tagger: KnownTagger) -> tuple[Covered, ...]:
    """Return what a policy and a tagger reach: the rows of `HIPAA`, then those of `FIVE`."""
    measured = _measured(tagger)
    rows = []
    for code, (kinds, letters) in (*HIPAA.items(), *FIVE.items()):
        left = tuple(kind for kind in kinds if kind in policy.left)
        does = "none" if not kinds else "part" if left else "take out"
        found = {
            language: tuple(one for one in of if one.letter in letters)
            for language, of in measured.items()
        }
        can = {
            "rules": tagger.has_rules and code not in _NO_RULE,
            "network": tagger.kind != RULES,
            "register": code in _REGISTER,
        }
        ways = tuple(way for way, is_one in can.items() if kinds and is_one)
        does = "leave" if left and left == kinds else does
        rows.append(Covered(code, does, left, ways, {k: v for k, v in found.items() if v}))
    return tuple(rows)


def _measured(tagger: KnownTagger) -> dict[str, tuple[Found, ...]]:
    """Return what was found by language, where these very rules and weights were measured."""
    content = json.loads((SHIPPED / HAND_WRITTEN).read_bytes())
    if tagger.tagger_id != DEFAULT or content["digest"] != tagger.digest:
        return {}
    of = content.get("by_kind", {})
    return {
        language: tuple(
            Found(letter, **of[language][letter]) for letter in LETTERS if letter in of[language]
        )
        for language in LANGUAGES
        if language in of
    }


def told(rows: Sequence[Covered], *, language: str) -> list[dict[str, str]]:
    """Return rows in words: identifier, what is done, how it is found, what was found."""
    say = catalogue(language, "policy")

    def found(row: Covered, of: str) -> str:
        return "; ".join(
            say["found"].format(
                what=say[f"letter_{one.letter}"],
                n_gold=one.n_gold,
                share=percent(one.touched.value),
                interval=percent_interval(one.touched.interval()),
                whole=percent(Rate(one.n_covered, one.n_gold).value),
            )
            for one in row.measured.get(of, ())
        ) or (say["not_measured"] if row.does != "none" else UNDEFINED)

    def does(row: Covered) -> str:
        left = say["list"].join(say[f"kind_{kind}"] for kind in row.left)
        return say[f"does_{row.does.replace(' ', '_')}"].format(left=left)

    return [
        {
            "identifier": say[f"row_{row.code}"],
            "does": does(row),
            "ways": say["list"].join(say[f"way_{way}"] for way in row.ways) or say["way_none"],
            **{of: found(row, of) for of in LANGUAGES},
        }
        for row in rows
    ]
