"""One name under the glass: what its score rests on, and where it stands among controls.

Comes in: a row of the table of names, the audit's inspection. Goes out: frozen values.
Undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.attack.decisions import DECISIONS, FLAGGED, NOT_FLAGGED, UNDECIDED
from audit.attack.scores import jackknife
from audit.names.candidates import CANARY, is_canary
from audit.notes.passages import Passage
from audit.report.report import AuditReport, Inspection, name_labels
from audit.stats import Z_95, Estimate, Rate
from audit.text import fold_name, is_unspaced, written_name

N_STRONGEST = 10
NAME_EVIDENCE = {
    1: ("hospital_product", "general_product"),
    2: ("hospital_posterior", "general_posterior"),
}
"""Columns that show a name's evidence with each model, by scenario."""
KINDS = (
    "member", "unknown", "easy", "hard", "recombined", "given", "reference", "planted", "canary",
)  # fmt: skip
"""Kinds of names on a screen, in their order; "planted" and "canary" never existed, and only the
first of them are in the notes."""


@dataclass(frozen=True)
class KindScores:
    """Scores of one kind of names, of `KINDS`.

    Scores that are missing or infinite cannot be drawn and are counted in `n_not_scored`.
    """

    kind: str
    scores: tuple[float, ...]
    n_not_scored: int

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Return the lower quartile, the median and the upper quartile; NaN without a score."""
        if not self.scores:
            return math.nan, math.nan, math.nan
        low, middle, high = np.quantile(self.scores, [0.25, 0.5, 0.75])
        return float(low), float(middle), float(high)


@dataclass(frozen=True)
class StrongName:
    """One of the names that stand out most; its parts are for the masking helper only."""

    name_id: int
    label: str
    first: str
    last: str
    kind: str
    n_mentions: int | None
    hospital: float
    general: float
    score: float
    standard_error: float
    q: float


def name_kinds(names: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the kind of every name of a report, one of `KINDS`."""
    columns = (names["is_member"], names["control_kind"], names["role"])
    return [_kind(*cells) for cells in zip(*columns, strict=True)]


def is_canary_kind(kind: str) -> bool:
    """Whether names of this kind never existed, and belong to no table of patients."""
    return kind in ("planted", CANARY)


def _kind(truth: int | None, control_kind: str, role: str) -> str:
    if truth is None:
        return "unknown"
    if is_canary(truth, control_kind=control_kind, role=role):
        return "planted" if truth else CANARY
    return "member" if truth else control_kind


def kind_scores(names: Mapping[str, Sequence[Any]]) -> tuple[KindScores, ...]:
    """Return the scores of every kind of names on the list, members first."""
    scores: dict[str, list[float]] = {}
    for kind, score in zip(name_kinds(names), names["score"], strict=True):
        scores.setdefault(kind, []).append(number(score))
    return tuple(
        KindScores(
            kind,
            scores=tuple(s for s in found if math.isfinite(s)),
            n_not_scored=sum(not math.isfinite(s) for s in found),
        )
        for kind, found in sorted(scores.items(), key=lambda item: KINDS.index(item[0]))
    )


def strongest_names(report: AuditReport) -> tuple[StrongName, ...]:
    """Return the tested names that stand out, best q first; no controls, no canaries."""
    names = report.names
    hospital, general = (names[column] for column in NAME_EVIDENCE[int(report.scenario["number"])])
    kinds, labels = name_kinds(names), name_labels(names)
    both = enumerate(zip(kinds, report.stands_out, strict=True))
    rows = [row for row, (kind, out) in both if kind in ("member", "unknown") and out]
    rows.sort(key=lambda row: (names["q_value"][row], -number(names["score"][row]), row))
    return tuple(
        StrongName(
            name_id=int(names["name_id"][row]),
            label=labels[row],
            first=names["first_name"][row],
            last=names["last_name"][row],
            kind=kinds[row],
            n_mentions=names["n_mentions"][row],
            hospital=number(hospital[row]),
            general=number(general[row]),
            score=number(names["score"][row]),
            standard_error=number(names["standard_error"][row]),
            q=float(names["q_value"][row]),
        )
        for row in rows[:N_STRONGEST]
    )


def number(value: Any) -> float:
    """Return a number that a report holds; None is NaN, and infinity is written as a word."""
    return math.nan if value is None else float(value)


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
        What each name is called where it is not named, as `audit.report.report.name_labels`.
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


N_BINS = 40


@dataclass(frozen=True, eq=False)
class ModelBlocks:
    """One model's evidence for a name: the mean of each block [b], and over all blocks.

    `mean` has its 95 % interval, 1.96 delete-one-block jackknife standard errors to either side.
    """

    who: str
    values: NDArray[np.float64]
    mean: Estimate


@dataclass(frozen=True, eq=False)
class AmongControls:
    """A name's score among the reference controls that its p-value compares it with.

    Attributes
    ----------
    edges, counts
        [k + 1] and [k]: the histogram of the controls' scores; with `is_log` edges are log10.
    n_at_zero
        With `is_log` the controls whose score is 0, which has no logarithm.
    position, threshold
        The name's score and the score above which it is flagged, on the axis of the edges; -inf:
        a score of 0 where `is_log`; NaN: not scored; inf: no score is high enough.
    below
        Controls with a lower score, of those compared.
    is_unmatched
        Whether they are of every length, because too few have the name's number of word pieces.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    n_at_zero: int
    is_log: bool
    position: float
    threshold: float
    below: Rate
    n_pieces: int
    is_unmatched: bool


@dataclass(frozen=True)
class FittingPassage:
    """A passage that a name fits well.

    Attributes
    ----------
    before, after
        Text around the name's place.
    log_ratio
        Mean of ln p_hospital - ln p_general, nats.
    is_own
        Whether the passage is this name's own; None where the passage does not say whose it is.
    rank
        With an own passage, the name's rank in it among all names, 1 = fits best; else None.
    """

    number: int
    passage_id: str
    before: str
    after: str
    log_ratio: float
    is_own: bool | None
    rank: float | None


@dataclass(frozen=True, eq=False)
class NameDetail:
    """What a reader sees of one name; the parts of the name are for the masking helper only."""

    row: int
    name_id: int
    label: str
    first: str
    last: str
    kind: str
    decision: str
    is_undecided: bool
    role: str
    numbers: Mapping[str, float]
    blocks: tuple[ModelBlocks, ...]
    among: AmongControls | None
    passages: tuple[FittingPassage, ...]


def name_detail(
    table: NameTable, *, row: int, inspection: Inspection | None, report: AuditReport
) -> NameDetail:
    """Return one name's detail; without an inspection only what the report itself holds."""
    numbers = {name: float(column[row]) for name, column in table.numbers.items()}
    name_id = int(numbers["name_id"])
    first, last = table.first[row], table.last[row]
    blocks: tuple[ModelBlocks, ...] = ()
    among: AmongControls | None = None
    passages: tuple[FittingPassage, ...] = ()
    if inspection is not None:
        blocks = tuple(
            _model_blocks(who, getattr(inspection, who)[:, row], counts=inspection.n_per_block)
            for who in ("hospital", "general")
        )
        among = among_controls(
            numbers["score"],
            threshold=numbers["threshold"],
            n_pieces=int(numbers["n_pieces"]),
            is_unmatched=bool(table.is_unmatched[row]),
            is_log=report.fixed_score == "product",
            inspection=inspection,
        )
        passages = _fitting_passages(
            row, name=(first, last), inspection=inspection, ranks=_own_ranks(report, name_id)
        )
    return NameDetail(
        row=row,
        name_id=name_id,
        label=table.labels[row],
        first=first,
        last=last,
        kind=str(table.codes["kind"][row]),
        decision=str(table.codes["decision"][row]),
        is_undecided=str(table.codes["certainty"][row]) == "undecided",
        role=table.roles[str(table.codes["role"][row])],
        numbers=numbers,
        blocks=blocks,
        among=among,
        passages=passages,
    )


def among_controls(
    score: float,
    *,
    threshold: float,
    n_pieces: int,
    is_unmatched: bool,
    is_log: bool,
    inspection: Inspection,
) -> AmongControls | None:
    """Return a score's place among the reference controls; None where there are none to compare.

    Compared are controls of the same number of word pieces, as the p-value does it
    (`audit.attack.decisions.name_p_values`); `is_unmatched` where they are too few to judge.
    """
    pool = inspection.reference_score
    pool = pool[(inspection.reference_n_pieces == n_pieces) & ~np.isnan(pool)]
    if not len(pool):
        return None
    n_below = 0 if math.isnan(score) else int((pool < score).sum())
    drawn = np.log10(pool[pool > 0]) if is_log else pool
    drawn = drawn[np.isfinite(drawn)]
    position, limit = (_place(value, is_log=is_log) for value in (score, threshold))
    within = [value for value in (position, limit) if math.isfinite(value)]
    low, high = _range([*drawn.tolist(), *within])
    counts, edges = np.histogram(drawn, bins=N_BINS, range=(low, high))
    return AmongControls(
        edges=np.asarray(edges, dtype=np.float64),
        counts=np.asarray(counts, dtype=np.int64),
        n_at_zero=int((pool <= 0).sum()) if is_log else 0,
        is_log=is_log,
        position=position,
        threshold=limit,
        below=Rate(n_below, len(pool)),
        n_pieces=n_pieces,
        is_unmatched=is_unmatched,
    )


def _place(score: float, *, is_log: bool) -> float:
    if not is_log or math.isnan(score):
        return score
    return math.log10(score) if score > 0 else -math.inf


def _range(values: list[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _model_blocks(
    who: str, column: NDArray[np.float32], *, counts: NDArray[np.int64]
) -> ModelBlocks:
    values = np.asarray(column, dtype=np.float64)
    found = jackknife(
        lambda sums, n: {"mean": sums["evidence"] / n},
        {"evidence": (values * counts)[:, None]},
        counts=counts,
    )["mean"]
    value, half = float(found.value[0]), Z_95 * float(found.standard_error[0])
    return ModelBlocks(who, values, Estimate(value, value - half, value + half))


def _own_ranks(report: AuditReport, name_id: int) -> dict[str, float]:
    """Return the name's rank in its own passages, by passage."""
    linking = report.details.get("linking") or {}
    return {
        str(line["passage_id"]): float(line["rank"])
        for line in linking.get("rank_by_passage", ())
        if int(line["name_id"]) == name_id
    }


def _fitting_passages(
    row: int, *, name: tuple[str, str], inspection: Inspection, ranks: Mapping[str, float]
) -> tuple[FittingPassage, ...]:
    found = []
    for place, ratio in zip(
        inspection.best_passages[row].tolist(),
        inspection.best_log_ratio[row].tolist(),
        strict=True,
    ):
        if place < 0:
            continue
        passage = inspection.passages[place]
        is_own = _is_owner(passage, row=row, name=name)
        found.append(
            FittingPassage(
                number=place + 1,
                passage_id=passage.passage_id,
                before=passage.left,
                after=passage.right,
                log_ratio=float(ratio),
                is_own=is_own,
                rank=ranks.get(passage.passage_id) if is_own else None,
            )
        )
    return tuple(found)


def _is_owner(passage: Passage, *, row: int, name: tuple[str, str]) -> bool | None:
    owner = passage.owner
    if owner is None:
        return None
    if isinstance(owner, int):
        return owner == row
    return (fold_name(owner[0]), fold_name(owner[1])) == (fold_name(name[0]), fold_name(name[1]))
