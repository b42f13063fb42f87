"""The names of a report as a table that can be filtered, searched and sorted, 10,000 at once.

Comes in: a report's per-name columns. Goes out: columns as arrays, and the rows that fit a wish,
with the number of names behind every further choice. Undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from audit.membership.decisions import DECISIONS, FLAGGED, NOT_FLAGGED, UNDECIDED
from audit.names import fold_name, is_unspaced, written_name
from audit.rates import Z_95
from audit.report import AuditReport, name_labels
from audit.view.name_view import KINDS, NAME_EVIDENCE, name_kinds, number

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

DECISION_CODES = tuple(word.replace(" ", "_") for word in DECISIONS)
MENTION_BINS = ("unknown", "0", "1", "2", "3-4", "5-9", "10up")
SCRIPTS = ("latin", "japanese", "other")
CERTAINTIES = ("clear", "undecided")
FACETS = ("kind", "decision", "certainty", "mentions", "script", "role")
NUMBERS = (
    "name_id", "n_mentions", "n_pieces", "popularity", "general", "hospital", "log10_ratio",
    "score", "standard_error", "low", "high", "p", "q", "threshold",
)  # fmt: skip
"""Columns of numbers, by which a table can be sorted."""
_MENTION_STARTS = (0, 1, 2, 3, 5, 10)
_NUMBER = re.compile(r"(?:([pl])-?)?(\d{1,9})")


@dataclass(frozen=True, eq=False)
class NameTable:
    """N names of one report, in the order of the list.

    Attributes
    ----------
    first, last
        The parts of the names, for the masking helper only.
    labels
        What each name is called where it is not named, as `audit.report.name_labels`.
    numbers
        One column [N] of floats for each of `NUMBERS`: evidence of both models (a probability in
        scenario 2, the product of the masses of both parts in scenario 1) and log10 of their ratio;
        score with its standard error and 95 % interval; p, q and the name's threshold.
    codes
        One column of codes [N] for each of `FACETS`.
    choices
        For each facet the codes that occur, in a fixed order.
    roles
        Code of a role -> the auditor's own word for it (untrusted).
    is_unmatched
        [N] whether there are too few comparable controls to judge the name.
    """

    scenario: int
    fixed_score: str
    first: tuple[str, ...]
    last: tuple[str, ...]
    labels: tuple[str, ...]
    numbers: Mapping[str, Floats]
    codes: Mapping[str, NDArray[np.str_]]
    choices: Mapping[str, tuple[str, ...]]
    roles: Mapping[str, str]
    is_unmatched: NDArray[np.bool_]
    _texts: tuple[str, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.first)

    def row_of(self, name_id: str) -> int | None:
        """Return the row of a name that a link gives; None if there is none."""
        if not re.fullmatch("[0-9]{1,9}", name_id):
            return None
        rows = np.flatnonzero(self.numbers["name_id"] == int(name_id))
        return int(rows[0]) if len(rows) else None


@dataclass(frozen=True)
class Wish:
    """Which names to show, in which order.

    `chosen` holds for a facet the codes of which one must fit; a facet without codes lets all pass.
    `text` is a number such as P-0012, or 12; only where `is_revealed` it can be part of a name, for
    a search among masked names would tell them letter by letter. Names whose number is missing come
    last.
    """

    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    text: str = ""
    sort: str = "score"
    is_descending: bool = True
    is_revealed: bool = False


@dataclass(frozen=True, eq=False)
class Selection:
    """The rows that fit a wish, in its order.

    `counts` gives for each code of each facet how many names would be left if it alone were chosen
    there, everything else as it is.
    """

    rows: Rows
    counts: Mapping[str, Mapping[str, int]]


def name_table(report: AuditReport) -> NameTable:
    """Return the table of a report's names."""
    names, scenario = report.names, int(report.scenario["number"])
    first, last = tuple(names["first_name"]), tuple(names["last_name"])
    hospital, general = (_floats(names[column]) for column in NAME_EVIDENCE[scenario])
    score, error = _floats(names["score"]), _floats(names["standard_error"])
    numbers = {
        "name_id": _floats(names["name_id"]),
        "n_mentions": _floats(names["n_mentions"]),
        "n_pieces": _floats(names["n_pieces"]),
        "popularity": _floats(names["popularity"]),
        "general": general,
        "hospital": hospital,
        "log10_ratio": _log10_ratio(hospital, general),
        "score": score,
        "standard_error": error,
        "low": score - Z_95 * error,
        "high": score + Z_95 * error,
        "p": _floats(names["p_value"]),
        "q": _floats(names["q_value"]),
        "threshold": _floats(names["threshold"]),
    }
    words = sorted(set(names["role"]) - {""})
    roles = {"none": "", **{f"r{i}": word for i, word in enumerate(words)}}
    code_of_role = {word: code for code, word in roles.items()}
    decisions, is_undecided = _decisions(report)
    codes = {
        "kind": np.array(name_kinds(names), dtype=np.str_),
        "decision": np.array([word.replace(" ", "_") for word in decisions], dtype=np.str_),
        "certainty": np.array([CERTAINTIES[bool(u)] for u in is_undecided], dtype=np.str_),
        "mentions": _mention_bins(numbers["n_mentions"]),
        "script": np.array([script(f + la) for f, la in zip(first, last, strict=True)], np.str_),
        "role": np.array([code_of_role[role] for role in names["role"]], dtype=np.str_),
    }
    order = {
        "kind": KINDS, "decision": DECISION_CODES, "certainty": CERTAINTIES,
        "mentions": MENTION_BINS, "script": SCRIPTS, "role": tuple(roles),
    }  # fmt: skip
    return NameTable(
        scenario=scenario,
        fixed_score=report.fixed_score,
        first=first,
        last=last,
        labels=name_labels(names),
        numbers=MappingProxyType(numbers),
        codes=MappingProxyType(codes),
        choices={
            facet: tuple(code for code in order[facet] if code in set(codes[facet].tolist()))
            for facet in FACETS
        },
        roles=roles,
        is_unmatched=np.array(names["is_unmatched"], dtype=np.bool_),
        _texts=tuple(_search_text(f, la) for f, la in zip(first, last, strict=True)),
    )


def _decisions(report: AuditReport) -> tuple[list[str], list[bool]]:
    """Return the point decisions, and who is close to the threshold; in older reports one word."""
    words = report.names["decision"]
    if "is_undecided" in report.names:
        return words, report.names["is_undecided"]
    point = [
        FLAGGED if out else NOT_FLAGGED if word in (FLAGGED, UNDECIDED) else word
        for word, out in zip(words, report.stands_out, strict=True)
    ]
    return point, [word == UNDECIDED for word in words]


def select(table: NameTable, *, wish: Wish) -> Selection:
    """Return the rows that fit a wish, and how many names each further choice would leave.

    Codes that do not occur are left out, as if they had not been wished for.

    Raises
    ------
    ValueError
        If the column to sort by is none of `NUMBERS`.
    """
    if wish.sort not in NUMBERS:
        raise ValueError("there is no such column to sort by")
    fits_text = _fits_text(table, wish.text, is_revealed=wish.is_revealed)
    fits = {facet: _fits_facet(table, facet, wish.chosen.get(facet, ())) for facet in FACETS}
    counts: dict[str, dict[str, int]] = {}
    for facet in FACETS:
        others = fits_text.copy()
        for other, rows in fits.items():
            if other != facet:
                others &= rows
        column = table.codes[facet][others]
        counts[facet] = {code: int((column == code).sum()) for code in table.choices[facet]}
    shown = fits_text
    for rows in fits.values():
        shown = shown & rows
    return Selection(_sorted(table, np.flatnonzero(shown), wish=wish), counts)


def script(text: str) -> str:
    """Return the script of a name: "japanese" (Han, kana), "latin" or "other"."""
    if is_unspaced(text):
        return "japanese"
    letters = [c for c in unicodedata.normalize("NFKC", text) if c.isalpha()]
    is_latin = all(unicodedata.name(c, "").startswith("LATIN") for c in letters)
    return "latin" if letters and is_latin else "other"


def is_number(text: str) -> bool:
    """Whether a text to search for is the number of a name."""
    return _NUMBER.fullmatch(fold_name(text)) is not None


def _fits_text(table: NameTable, text: str, *, is_revealed: bool) -> NDArray[np.bool_]:
    wanted = fold_name(text)
    if not wanted:
        return np.ones(len(table), dtype=np.bool_)
    if found := _NUMBER.fullmatch(wanted):
        letters = found[1].upper() if found[1] else "PL"
        labels = {f"{letter}-{int(found[2]):04d}" for letter in letters}
        return np.array([label in labels for label in table.labels], dtype=np.bool_)
    if not is_revealed:
        return np.zeros(len(table), dtype=np.bool_)
    return np.array([wanted in written for written in table._texts], dtype=np.bool_)


def _fits_facet(table: NameTable, facet: str, chosen: tuple[str, ...]) -> NDArray[np.bool_]:
    known = [code for code in chosen if code in table.choices[facet]]
    if not known:
        return np.ones(len(table), dtype=np.bool_)
    return np.asarray(np.isin(table.codes[facet], known))


def _sorted(table: NameTable, rows: Rows, *, wish: Wish) -> Rows:
    column = table.numbers[wish.sort][rows]
    keys = -column if wish.is_descending else column
    return np.asarray(rows[np.argsort(keys, kind="stable")], dtype=np.int64)  # NaN sorts last


def _search_text(first: str, last: str) -> str:
    """Return both orders of a name, folded, so that either can be typed."""
    orders = (written_name(first, last), f"{first} {last}", f"{last} {first}", f"{last}, {first}")
    return fold_name("\n".join(orders))


def _mention_bins(n_mentions: Floats) -> NDArray[np.str_]:
    place = np.searchsorted(_MENTION_STARTS, n_mentions, side="right")
    return np.array(MENTION_BINS)[np.where(np.isnan(n_mentions), 0, place)]


def _log10_ratio(hospital: Floats, general: Floats) -> Floats:
    is_defined = (hospital > 0) & (general > 0)
    ratio = np.full(len(hospital), np.nan)
    ratio[is_defined] = np.log10(hospital[is_defined]) - np.log10(general[is_defined])
    return ratio


def _floats(column: list[object]) -> Floats:
    return np.array([number(value) for value in column], dtype=np.float64)
