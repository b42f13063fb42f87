"""The table of names: the definition of every column, who may see it, and filters for readers.

`names.csv`, the pages' table, a name's detail and the HTML report all read this DataFrame. For one
name this module also gives the evidence behind its score and its place among the controls.
Torch-free.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from audit.attack.decisions import DECISIONS
from audit.attack.exposure import count_tries
from audit.attack.measure_types import number
from audit.attack.scores import jackknife
from audit.names.candidates import CANARY, is_canary
from audit.notes.passages import Passage
from audit.stats import Z_95, Estimate, FloatArray, Rate
from audit.text import fold_name, is_unspaced, written_name

NameForm = Literal["masked", "pseudonyms", "full"]
NAME_FORMS: tuple[NameForm, ...] = ("masked", "pseudonyms", "full")
_FULL: tuple[NameForm, ...] = ("full",)
N_STRONGEST = 10
KINDS = (
    "member",
    "unknown",
    "held_out",
    "own",
    "given",
    "easy",
    "hard",
    "recombined",
    "reference",
    "planted",
    "canary",
)
"""Kinds of names in their order on a screen. Names of the kinds "planted" and "canary" are
invented; only planted names are in the notes."""
ASKED = ("member", "unknown", "planted")
"""Kinds of names that an attack should find; all others are controls."""
DECISION_CODES = tuple(word.replace(" ", "_") for word in DECISIONS)
MENTION_BINS = ("unknown", "0", "1", "2", "3-4", "5-9", "10up")
CERTAINTIES = ("clear", "undecided")
FACETS = ("kind", "decision", "certainty", "mentions", "role")
_MENTION_STARTS = (0, 1, 2, 3, 5, 10)
_EVIDENCE = {
    1: ("hospital_product", "general_product"),
    2: ("hospital_posterior", "general_posterior"),
}
"""Columns that show a name's evidence with each model, by scenario."""
SUCCESSES = {"tries_50": 0.5, "tries_95": 0.95}
"""Column of the table -> the probability with which so many tries write the name."""


@dataclass(frozen=True)
class Column:
    """One column of the table of names.

    `dtype` is "text", "number" (float64, NaN if unknown), "flag" (bool), or "facet": one of few
    categories, of which those that occur are in a fixed order. `forms` are the forms of names in
    which the column is visible; in other forms a name shows its initials or nothing, and values
    that nearly identify a name are empty. `kept_as` is the column's name in `names.csv` and in the
    report's JSON; "" if it is derived from other columns.
    """

    name: str
    dtype: Literal["text", "number", "flag", "facet"]
    meaning: str
    forms: tuple[NameForm, ...] = NAME_FORMS
    kept_as: str = ""


COLUMNS = (
    Column("name_id", "number", "place in the list", kept_as="name_id"),
    Column("file_row", "number", "row of the auditor's own file", kept_as="file_row"),
    Column("first_name", "text", "first name", _FULL, "first_name"),
    Column("last_name", "text", "last name", _FULL, "last_name"),
    Column("is_member", "number", "1: in the notes, 0: a control", kept_as="is_member"),
    Column("control_kind", "text", "kind of a control", kept_as="control_kind"),
    Column("role_name", "text", "role, in the auditor's own word", kept_as="role"),
    Column("n_mentions", "number", "times in the notes", kept_as="n_mentions"),
    # A share in a public table of names tells a name.
    Column("popularity", "number", "share of people of that name", _FULL, "popularity"),
    Column("n_pieces", "number", "word pieces", kept_as="n_pieces"),
    Column("score", "number", "score fixed beforehand", kept_as="score"),
    Column("standard_error", "number", "its Monte-Carlo error", kept_as="standard_error"),
    Column("p", "number", "rank p-value among reference controls", kept_as="p_value"),
    Column("q", "number", "Benjamini-Hochberg", kept_as="q_value"),
    Column("decision", "facet", "point decision, one of DECISION_CODES", kept_as="decision"),
    Column("is_undecided", "flag", "close to its threshold", kept_as="is_undecided"),
    Column("threshold", "number", "score above which it stands out", kept_as="threshold"),
    Column("is_unmatched", "flag", "too few controls like it", kept_as="is_unmatched"),
    Column(
        "n_others_first",
        "number",
        "notes that name somebody else with the same first part",
        kept_as="n_others_first",
    ),
    Column(
        "n_others_last",
        "number",
        "notes that name somebody else with the same last part",
        kept_as="n_others_last",
    ),
    Column("number", "text", "what it is called where it is not named: P-0088 or L-0131"),
    Column("kind", "facet", "one of KINDS"),
    Column("is_control", "flag", "a listed control; canaries are none"),
    Column("stands_out", "flag", "what every count of such names is made of"),
    Column("certainty", "facet", "one of CERTAINTIES"),
    Column("mentions", "facet", "one of MENTION_BINS"),
    Column("role", "facet", "code of the role: r0, r1, ... or none"),
    Column("hospital", "number", "evidence of M_hospital (product of masses, or probability)"),
    Column("general", "number", "the same of M_general"),
    Column("log10_ratio", "number", "log10 of hospital / general"),
    # Of causal models in scenario 1; infinite where the sampler never writes the name.
    *(
        Column(tries, "number", "documents of M_hospital to read the name in")
        for tries in SUCCESSES
    ),
    Column("low", "number", "95 % interval of the score"),
    Column("high", "number", "95 % interval of the score"),
)
"""Every column except the scores. Each further column of a report is a score: a "number" that all
forms may see."""
NUMBERS = tuple(column.name for column in COLUMNS if column.dtype == "number")


def numbers(column: Sequence[Any]) -> FloatArray:
    """Return a column of numbers from a report's JSON."""
    return np.array([number(value) for value in column], dtype=np.float64)


def name_table(
    names: Mapping[str, Sequence[Any]], *, scenario: int, stands_out: Sequence[bool]
) -> pd.DataFrame:
    """Return the table of a report's names, in the order of the list.

    `names` are the columns in the report's JSON. `stands_out` [N] comes from the verdict; it is
    false for every name if no leak is found.
    """
    columns_by_key = {column.kept_as: column for column in COLUMNS if column.kept_as}
    table: dict[str, Any] = {}
    for key, column in names.items():
        definition = columns_by_key.get(key, Column(key, "number", "a score"))
        dtype = np.bool_ if definition.dtype == "flag" else object
        table[definition.name] = (
            numbers(column) if definition.dtype == "number" else np.array(column, dtype)
        )
    for definition in COLUMNS:
        is_kept_number = definition.dtype == "number" and definition.kept_as
        if is_kept_number and definition.name not in table:  # an audit of rule 1
            table[definition.name] = np.full(len(names["name_id"]), math.nan)
    words, n_mentions = table["decision"], table["n_mentions"]
    kinds, half = name_kinds(names), Z_95 * table["standard_error"]
    hospital, general = (table[column] for column in _EVIDENCE[scenario])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log10(hospital) - np.log10(general)
    roles = sorted(set(names["role"]) - {""})
    code_of = {"": "none"} | {word: f"r{place}" for place, word in enumerate(roles)}
    bins = np.searchsorted(_MENTION_STARTS, n_mentions, side="right")
    facets: dict[str, tuple[Any, tuple[str, ...]]] = {
        "kind": (kinds, KINDS),
        "decision": ([word.replace(" ", "_") for word in words], DECISION_CODES),
        "certainty": (np.where(table["is_undecided"], *reversed(CERTAINTIES)), CERTAINTIES),
        "mentions": (
            np.array(MENTION_BINS)[np.where(np.isnan(n_mentions), 0, bins)],
            MENTION_BINS,
        ),
        "role": ([code_of[word] for word in names["role"]], tuple(code_of.values())),
    }
    table |= {
        "number": name_labels(names),
        "is_control": [kind not in (*ASKED, CANARY) for kind in kinds],
        "stands_out": np.array(stands_out, dtype=np.bool_),
        "hospital": hospital,
        "general": general,
        "log10_ratio": np.where((hospital > 0) & (general > 0), ratio, np.nan),
        **_count_table_tries(table.get("hospital_recall", np.full(len(kinds), math.nan))),
        "low": table["score"] - half,
        "high": table["score"] + half,
    }
    for facet, (codes, order) in facets.items():
        occurring = set(codes)
        table[facet] = pd.Categorical(codes, [code for code in order if code in occurring])
    return pd.DataFrame(table)


def _count_table_tries(chances: FloatArray) -> dict[str, FloatArray]:
    return {
        column: np.array([count_tries(chance, success=success) for chance in chances.tolist()])
        for column, success in SUCCESSES.items()
    }


@dataclass(frozen=True)
class Tries:
    """How many documents it takes to read a name right after the prompt, by column of `SUCCESSES`.

    `source` is "hospital" or "general" for a model's tries to write the name itself, and "controls"
    for the median over the listed controls with the hospital's model. Infinity: never written.
    """

    source: Literal["hospital", "general", "controls"]
    numbers: Mapping[str, float]


def list_tries(table: pd.DataFrame, name: pd.Series) -> tuple[Tries, ...]:
    """Return the tries for a name (a row of the table); () if no causal model wrote documents."""
    if math.isnan(name["tries_50"]):
        return ()
    controls = table.loc[table["is_control"] & table["tries_50"].notna(), list(SUCCESSES)]
    general = _count_table_tries(np.array([name["general_recall"]]))
    tries = [
        Tries("hospital", {column: float(name[column]) for column in SUCCESSES}),
        Tries("general", {column: float(number) for column, (number,) in general.items()}),
    ]
    if len(controls):
        medians = {column: float(np.median(controls[column])) for column in SUCCESSES}
        tries.append(Tries("controls", medians))
    return tuple(tries)


def name_labels(names: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the pseudonym of each name of a report's table.

    "P-0088" is row 88 of the auditor's own file, as a spreadsheet counts. "L-0131" is `name_id` 131
    and has no such row: it was drawn, or comes from a corpus.
    """
    rows = zip(names["name_id"], names["file_row"], strict=True)
    return [f"L-{i:04d}" if row is None else f"P-{row:04d}" for i, row in rows]


def name_kinds(names: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the kind of every name of a report, one of `KINDS`."""
    kinds = []
    for truth, kind, role in zip(
        names["is_member"], names["control_kind"], names["role"], strict=True
    ):
        member = "planted" if is_canary(truth, control_kind=kind, role=role) else "member"
        kinds.append("unknown" if truth is None else member if truth else kind)
    return kinds


def mask_name(first: str, last: str) -> str:
    """Return the initials of a name with stars, in the order in which the name is written."""
    parts = [_mask_part(first), _mask_part(last)]
    return " ".join(filter(None, parts[:: -1 if is_unspaced(first + last) else 1]))


def _mask_part(part: str) -> str:
    """Return a part's initial and stars; a part of one character is hidden completely."""
    return f"{part[0]}***" if len(part) > 1 else "***" if part else ""


def format_name(label: str, first: str, last: str, *, form: NameForm) -> str:
    """Return one name in a form; not escaped. `label` is its pseudonym."""
    if form == "full":
        return written_name(first, last)
    return mask_name(first, last) if form == "masked" else label


def select_visible(names: Mapping[str, Sequence[Any]], *, form: NameForm) -> dict[str, list[Any]]:
    """Return the columns of a report's JSON as a reader of one form of names may see them."""
    hidden = {column.kept_as for column in COLUMNS if form not in column.forms}
    n = len(names["name_id"])
    visible = {key: [None] * n if key in hidden else list(cells) for key, cells in names.items()}
    if form == "masked":
        for key in ("first_name", "last_name"):
            visible[key] = [_mask_part(part) for part in names[key]]
    elif form == "pseudonyms":
        visible |= {"first_name": name_labels(names), "last_name": [""] * n}
    return visible


@dataclass(frozen=True)
class KindScores:
    """Scores of one kind of names, of `KINDS`, and the row of each name in the table.

    Missing and infinite scores cannot be drawn; `n_not_scored` counts them.
    """

    kind: str
    scores: tuple[float, ...]
    n_not_scored: int
    rows: tuple[int, ...] = ()

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Return the lower quartile, the median and the upper quartile; NaN without a score."""
        low, middle, high = np.quantile(self.scores or [math.nan], [0.25, 0.5, 0.75]).tolist()
        return low, middle, high


def kind_scores(table: pd.DataFrame) -> tuple[KindScores, ...]:
    """Return the scores of every kind of names on the list, members first."""
    kinds = []
    for kind, scores in table.groupby("kind", observed=True)["score"]:
        finite = scores[np.isfinite(scores)]
        n_not_scored, rows = len(scores) - len(finite), tuple(finite.index)
        kinds.append(KindScores(str(kind), tuple(finite), n_not_scored, rows))
    return tuple(kinds)


def select_strongest_names(table: pd.DataFrame) -> pd.DataFrame:
    """Return the tested names that stand out or are worth a look, the smallest q first.

    Controls and canaries are not among them.
    """
    is_strong = table["stands_out"] | (table["decision"] == "worth_a_look")
    tested = table[is_strong & table["kind"].isin(("member", "unknown"))]
    return tested.sort_values(["q", "score"], ascending=[True, False], kind="stable")


_NUMBER = re.compile(r"(?:([pl])-?)?(\d{1,9})")


@dataclass(frozen=True)
class Wish:
    """The names to show, and their order.

    `chosen` maps a facet to codes of which one must fit; a facet without codes admits all names.
    `text` is a number such as P-0012 or 12. Only with `is_revealed` it can be part of a name, since
    a search among masked names would reveal them letter by letter. Names without a value in the
    column `sort` come last.
    """

    chosen: Mapping[str, Sequence[str]] = field(default_factory=dict)
    text: str = ""
    sort: str = "score"
    is_descending: bool = True
    is_revealed: bool = False


def select_names(table: pd.DataFrame, *, wish: Wish) -> pd.DataFrame:
    """Return the names that fit a wish, in its order.

    Codes that do not occur are ignored. Raises ValueError if the column to sort by is not one of
    `NUMBERS`.
    """
    if wish.sort not in NUMBERS:
        raise ValueError("there is no such column to sort by")
    fits = _fits_text(table, wish)
    for facet, codes in wish.chosen.items():
        if occurring := set(codes) & set(table[facet].cat.categories):
            fits = fits & table[facet].isin(occurring)
    return table[fits].sort_values(wish.sort, ascending=not wish.is_descending, kind="stable")


def is_number(text: str) -> bool:
    """Return whether a searched text is the number of a name."""
    return _NUMBER.fullmatch(fold_name(text)) is not None


def find_row(table: pd.DataFrame, name_id: str) -> int | None:
    """Return the row of the name whose id is in a link; None if there is none."""
    if not re.fullmatch("[0-9]{1,9}", name_id):
        return None
    rows = np.flatnonzero(table["name_id"] == int(name_id)).tolist()
    return rows[0] if rows else None


def _fits_text(table: pd.DataFrame, wish: Wish) -> pd.Series:
    """Return which names [N] hold all words of a text, in any order."""
    phrase = fold_name(wish.text)
    if number_match := _NUMBER.fullmatch(phrase):
        letters = (number_match[1] or "pl").upper()
        return table["number"].isin([f"{letter}-{int(number_match[2]):04d}" for letter in letters])
    if not phrase or not wish.is_revealed:
        return pd.Series(not phrase, index=table.index)
    parts = zip(table["first_name"], table["last_name"], strict=True)
    names = [fold_name(f"{written_name(first, last)} {first} {last}") for first, last in parts]
    words = phrase.replace(",", " ").split()
    fits = [all(word in name for word in words) for name in names]
    return pd.Series(fits, index=table.index)


N_BINS = 40


@dataclass(frozen=True, eq=False)
class AmongControls:
    """A name's score among the reference controls with which its p-value compares it.

    Attributes
    ----------
    edges, counts
        [k + 1] and [k]: the histogram of the controls' scores.
    position, threshold
        The name's score (NaN if it has none), and the score above which it is flagged (inf if no
        score is high enough).
    below
        Share of the compared controls with a lower score.
    """

    edges: FloatArray
    counts: NDArray[np.int64]
    position: float
    threshold: float
    below: Rate


@dataclass(frozen=True)
class FittingPassage:
    """A passage that a name fits well: row `place` of the audit's passages.

    `log_ratio` is the mean of ln p_hospital - ln p_general, in nats. `is_own` is None if the
    passage does not name its patient.
    """

    place: int
    passage: Passage
    log_ratio: float
    is_own: bool | None


def block_mean(evidence: NDArray[np.float32], *, n_per_block: NDArray[np.int64]) -> Estimate:
    """Return the mean of one model's evidence [b] for a name, with its 95 % interval.

    The interval extends 1.96 delete-one-block jackknife standard errors to either side.
    """
    values = np.asarray(evidence, dtype=np.float64)
    mean_and_error = jackknife(
        lambda sums, n: {"mean": sums["evidence"] / n},
        {"evidence": (values * n_per_block)[:, None]},
        counts=n_per_block,
    )["mean"]
    value, half = float(mean_and_error[0, 0]), Z_95 * float(mean_and_error[1, 0])
    return Estimate(value, value - half, value + half)


def place_among_controls(
    score: float, *, threshold: float, controls: FloatArray
) -> AmongControls | None:
    """Return a score's place among reference controls with equally many word pieces.

    The p-value makes the same comparison (`audit.attack.decisions.name_p_values`). Returns None if
    no control has a score.
    """
    pool = controls[~np.isnan(controls)]
    if not len(pool):
        return None
    finite_scores = [
        score_limit for score_limit in (score, threshold, *pool) if math.isfinite(score_limit)
    ]
    counts, edges = np.histogram(pool, bins=N_BINS, range=(min(finite_scores), max(finite_scores)))
    below = Rate(int((pool < score).sum()), len(pool))
    return AmongControls(edges, counts.astype(np.int64), score, threshold, below)


def list_fitting_passages(
    passages: Sequence[Passage], *, places: Sequence[int], ratios: Sequence[float], name: pd.Series
) -> list[FittingPassage]:
    """Return the passages that a name (a row of the table) fits best; skip places below 0."""
    own_parts = tuple(fold_name(name[part]) for part in ("first_name", "last_name"))
    fitting = []
    for place, ratio in zip(places, ratios, strict=True):
        if place >= 0:
            owner = passages[place].owner
            is_own: bool | None = None
            if isinstance(owner, tuple):
                is_own = own_parts == tuple(map(fold_name, owner))
            elif owner is not None:
                is_own = owner == int(name["name_id"])
            fitting.append(FittingPassage(place, passages[place], float(ratio), is_own))
    return fitting
