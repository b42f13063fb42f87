"""What a policy and a tagger cover together: the 18 identifiers of HIPAA, and the five types.

Each row shows what the policy does with an identifier, how the tagger can find it, and the measured
share that the tagger found in hand-written notes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.deid.find.tagger_facts import LANGUAGES
from audit.deid.find.taggers import (
    DEFAULT,
    HAND_WRITTEN,
    RULES,
    SHIPPED,
    KnownTagger,
)
from audit.deid.redact.kinds import KINDS, Kind
from audit.deid.redact.policy import Policy
from audit.errors import catalogue
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
)
from audit.stats import Rate
from audit.tables import UNDEFINED, percent, percent_interval

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
"""The identifiers that a register of patients can contain."""
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
"""The identifiers of 45 CFR 164.514(b)(2)(i), A to R: their kinds, and the letters of the gold
marks on which they are measured (see `LETTERS`)."""
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
class MarkCounts:
    """Gold marks of one letter: how many were found with at least one character, and in full."""

    letter: str
    n_gold: int
    n_touched: int
    n_covered: int

    @property
    def touched(self) -> Rate:
        """The share of the marks of which at least one character was found."""
        return Rate(self.n_touched, self.n_gold)


@dataclass(frozen=True)
class CoverageRow:
    """One row: an identifier, by its code in `HIPAA` or `FIVE`.

    `action` is "take out", "leave" or "part", or "none" if no text can contain the identifier.
    `kinds_left` are its kinds that the policy leaves in, `ways` the methods with which the tagger
    can find it ("rules", "network", "register"). `measured` has the counts by language and is empty
    without a measurement.
    """

    code: str
    action: str
    kinds_left: tuple[Kind, ...]
    ways: tuple[str, ...]
    measured: Mapping[str, tuple[MarkCounts, ...]]


def list_coverage(policy: Policy, *, tagger: KnownTagger) -> tuple[CoverageRow, ...]:
    """Return what a policy and a tagger cover: the rows of `HIPAA`, then those of `FIVE`."""
    measured = _read_measured(tagger)
    rows = []
    for code, (kinds, letters) in (*HIPAA.items(), *FIVE.items()):
        kinds_left = tuple(kind for kind in kinds if kind in policy.kinds_left)
        action = "none" if not kinds else "part" if kinds_left else "take out"
        language_counts = {
            language: tuple(
                mark_counts for mark_counts in all_counts if mark_counts.letter in letters
            )
            for language, all_counts in measured.items()
        }
        is_reached = {
            "rules": tagger.has_rules and code not in _NO_RULE,
            "network": tagger.kind != RULES,
            "register": code in _REGISTER,
        }
        ways = tuple(method for method, is_open in is_reached.items() if kinds and is_open)
        action = "leave" if kinds_left and kinds_left == kinds else action
        rows.append(
            CoverageRow(
                code, action, kinds_left, ways, {k: v for k, v in language_counts.items() if v}
            )
        )
    return tuple(rows)


def _read_measured(tagger: KnownTagger) -> dict[str, tuple[MarkCounts, ...]]:
    """Return the counts by language, if exactly these rules and weights were measured."""
    content = json.loads((SHIPPED / HAND_WRITTEN).read_bytes())
    if tagger.tagger_id != DEFAULT or content["digest"] != tagger.digest:
        return {}
    counts_by_language = content["by_kind"]
    return {
        language: tuple(
            MarkCounts(letter, **counts_by_language[language][letter])
            for letter in LETTERS
            if letter in counts_by_language[language]
        )
        for language in LANGUAGES
        if language in counts_by_language
    }


def describe_rows(rows: Sequence[CoverageRow], *, language: str) -> list[dict[str, str]]:
    """Return rows in words: identifier, action, methods, and what was found by language."""
    say = catalogue(language, "policy")

    def describe_counts(row: CoverageRow, code: str) -> str:
        return "; ".join(
            say["found"].format(
                what=say[f"letter_{mark_counts.letter}"],
                n_gold=mark_counts.n_gold,
                share=percent(mark_counts.touched.value),
                interval=percent_interval(mark_counts.touched.interval()),
                whole=percent(Rate(mark_counts.n_covered, mark_counts.n_gold).value),
            )
            for mark_counts in row.measured.get(code, ())
        ) or (say["not_measured"] if row.action != "none" else UNDEFINED)

    def describe_action(row: CoverageRow) -> str:
        kinds_left = say["list"].join(say[f"kind_{kind}"] for kind in row.kinds_left)
        return say[f"does_{row.action.replace(' ', '_')}"].format(left=kinds_left)

    return [
        {
            "identifier": say[f"row_{row.code}"],
            "does": describe_action(row),
            "ways": say["list"].join(say[f"way_{method}"] for method in row.ways)
            or say["way_none"],
            **{language_code: describe_counts(row, language_code) for language_code in LANGUAGES},
        }
        for row in rows
    ]
