"""Scores: both models' evidence on a name as one number, higher for names from the notes.

`SCORES` lists all of them. A new score is a function of `Sums`, a row there, and its words
(`measures_score_NAME` of the pages); columns of names.csv, measures, curve and report follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from audit.attack.measure_types import GENERAL_ALONE, POPULARITY, Details
from audit.names.candidates import Candidates
from audit.names.pools import NamePool
from audit.stats import BoolArray, FloatArray, IntArray
from audit.text import fold_name

Columns = Mapping[str, FloatArray]

_QUADRATIC_FROM, _LINEAR_FROM = 60, 15
"""Fewest reference parts for squares and for slopes in the fit; with fewer, h - g is centred."""
_MEAN_ABSOLUTE = 1.2533141373155003  # standard deviation over mean absolute deviation, normal
_SCALE_BETWEEN = (1 / 3, 5.0)
"""Bounds of a part's scale, in medians of all scales: a fitted line may reach zero."""


@dataclass(frozen=True, eq=False)
class NameParts:
    """N names (listed ones, then reference controls) as pairs of U distinct parts."""

    of_name: IntArray  # [N, 2] column of the first and of the last part; -1: the name has none.
    # [U] ln of the share of people who carry the part (nats); a part that the generator does not
    # know counts as its rarest.
    log_share: FloatArray
    n_pieces: IntArray  # [U] word pieces.
    is_last: BoolArray  # [U] whether it is a last name.
    is_known: BoolArray  # [U] whether the generator knows the part; fits use only these.

    def pairs(self, by_part: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a quantity of parts [..., U] for each name's first and last part; NaN: none."""
        padded = np.concatenate([by_part, np.full((*by_part.shape[:-1], 1), np.nan)], axis=-1)
        return padded[..., self.of_name[:, 0]], padded[..., self.of_name[:, 1]]

    def sum_parts(self, by_part: FloatArray) -> FloatArray:
        """Add up a quantity of parts [..., U] to one of names [..., N]; NaN: without any part."""
        return combine_parts(*self.pairs(by_part), np.add)

    def roles(self) -> list[BoolArray]:
        """Return which parts [U] are first names, and which are last names."""
        return [~self.is_last, self.is_last]


def combine_parts(
    first: FloatArray, last: FloatArray, combine: Callable[[FloatArray, FloatArray], FloatArray]
) -> FloatArray:
    """Combine the values of two parts; a name of one part has that part's value."""
    with np.errstate(invalid="ignore"):
        pair_scores = combine(first, last)
    return np.where(np.isnan(first), last, np.where(np.isnan(last), first, pair_scores))


def describe_parts(
    names: Candidates, *, columns: IntArray, n_pieces: IntArray, pool: NamePool
) -> NameParts:
    """Describe the parts of N names by the generator's shares.

    `columns` [N, 2] are those of `prompts.part_columns`, `n_pieces` [N, 2] the word pieces of each
    name's first and last part.
    """
    used, first_places = np.unique(columns, return_index=True)
    row, role = np.divmod(first_places[used >= 0], 2)
    texts, shares = (names.first, names.last), (pool.first_shares, pool.last_shares)
    share = np.array(
        [
            shares[k].get(fold_name(texts[k][i]), math.nan)
            for i, k in zip(row.tolist(), role.tolist(), strict=True)
        ]
    )
    rarest = np.array([min(role_shares.values()) for role_shares in shares])[role]
    is_known = ~np.isnan(share)
    return NameParts(
        of_name=columns,
        log_share=np.log(np.where(is_known, share, rarest)),
        n_pieces=n_pieces[row, role],
        is_last=role == 1,
        is_known=is_known,
    )


def compute_residuals(hospital: FloatArray, general: FloatArray, *, parts: NameParts) -> FloatArray:
    """Return each part's studentised residual [U] of M_hospital's evidence on M_general's.

    For each role, M_hospital's evidence is regressed on M_general's, on the log share (with squares
    and product) and on the number of word pieces, over all parts that the generator knows, listed
    ones included. The absolute residuals, regressed on the same terms, give the scale. Outside the
    range of the known parts a change of M_general's evidence carries over one to one. Evidence [U]
    is ln p, or ln (mass + 1/2).

    Listed parts belong to the fit, because a list of the commonest names would otherwise lie
    outside it (docs/decisions/scores.md). Reference controls, against which names are ranked, have
    no tested part.
    """
    residual = np.full(len(hospital), np.nan)
    for rows in parts.roles():
        if parts.is_known[rows].sum() >= 2:
            residual[rows] = _studentise(
                hospital[rows],
                general[rows],
                parts.log_share[rows],
                parts.n_pieces[rows].astype(np.float64),
                fitted=parts.is_known[rows],
            )
    return residual


def compute_pair_residuals(
    hospital: FloatArray, general: FloatArray, *, parts: NameParts, n_fitted: int | None = None
) -> FloatArray:
    """Return each name's studentised residual [N] from evidence of the pair of its parts [N].

    The regression is that of `compute_residuals`, over names in place of parts: on M_general's
    evidence, on the log share of people who carry the name, and on the number of word pieces. Only
    the first `n_fitted` names belong to the fit, by default all.
    """
    is_there = parts.of_name >= 0
    columns = np.where(is_there, parts.of_name, 0)
    is_scored = is_there.any(axis=1) & np.isfinite(hospital) & np.isfinite(general)
    is_fitted = (parts.is_known[columns] | ~is_there).all(axis=1) & is_scored
    is_fitted[n_fitted:] &= n_fitted is None
    residual = np.full(len(hospital), np.nan)
    if is_fitted.sum() >= 2:
        residual[is_scored] = _studentise(
            hospital[is_scored],
            general[is_scored],
            np.where(is_there, parts.log_share[columns], 0.0).sum(axis=1)[is_scored],
            np.where(is_there, parts.n_pieces[columns], 0).sum(axis=1)[is_scored].astype(float),
            fitted=is_fitted[is_scored],
        )
    return residual


def average_by_part(by_role: FloatArray, parts: NameParts) -> FloatArray:
    """Return the mean [..., U] of each part's evidence over the names that carry the part.

    `by_role` [..., 2, N] is evidence of the first and of the last name, given what stands before.
    """
    means = np.full((*by_role.shape[:-2], len(parts.log_share)), np.nan)
    for role in (0, 1):
        columns = parts.of_name[:, role]
        is_used = (columns >= 0) & np.isfinite(by_role[..., role, :]).all(
            axis=tuple(range(by_role.ndim - 2))
        )
        used = columns[is_used]
        counts = np.bincount(used, minlength=len(parts.log_share))
        is_carried = counts > 0
        flat = by_role[..., role, :][..., is_used].reshape(-1, len(used))
        sums = np.stack(
            [np.bincount(used, weights=row, minlength=len(parts.log_share)) for row in flat]
        ).reshape(*by_role.shape[:-2], -1)
        means[..., is_carried] = sums[..., is_carried] / counts[is_carried]
    return means


def _studentise(
    hospital: FloatArray,
    general: FloatArray,
    share: FloatArray,
    pieces: FloatArray,
    *,
    fitted: BoolArray,
) -> FloatArray:
    """Return the studentised residuals [u] of one role's parts, or of names."""
    n_fitted = int(fitted.sum())
    columns, beyond = [np.ones(len(hospital))], general
    if n_fitted >= _LINEAR_FROM:
        g, s = (_standardise(x, fitted) for x in (general, share))
        columns += [g, s, pieces - pieces[fitted].mean()]  # equal numbers of pieces have no slope
        beyond = general - np.clip(general, general[fitted].min(), general[fitted].max())
        if n_fitted >= _QUADRATIC_FROM:
            columns += [g * g, s * s, g * s]
    basis = np.stack(columns, axis=1)  # [u, k]

    def fit(target: FloatArray) -> FloatArray:
        prediction: FloatArray = (
            basis @ np.linalg.lstsq(basis[fitted], target[fitted], rcond=None)[0]
        )
        return prediction

    residual = hospital - beyond - fit(hospital - beyond)
    scale = fit(np.abs(residual)) * _MEAN_ABSOLUTE
    middle = float(np.median(scale[fitted]))
    if middle <= 0:
        return np.where(residual == 0, 0.0, np.nan)
    low, high = _SCALE_BETWEEN
    return np.asarray(residual / np.clip(scale, low * middle, high * middle), dtype=np.float64)


def _standardise(x: FloatArray, fitted: BoolArray) -> FloatArray:
    """Standardise by the fitted parts, clipped to their range."""
    fitted_x = x[fitted]
    return np.asarray(
        (np.clip(x, fitted_x.min(), fitted_x.max()) - fitted_x.mean()) / (fitted_x.std() or 1.0)
    )


def soft_minimum(first: FloatArray, last: FloatArray) -> FloatArray:
    """Return -ln(e^-first + e^-last): near the smaller of the two; one part keeps its value."""
    return combine_parts(first, last, lambda a, b: -np.logaddexp(-a, -b))


def merge_blocks(counts: IntArray) -> IntArray:
    """Return where each of about 20 larger blocks of equal size begins, for display."""
    n_before = np.cumsum(counts) - counts
    group = n_before * 20 // max(int(counts.sum()), 1)
    begins: IntArray = np.unique(group, return_index=True)[1]
    return begins


@dataclass(frozen=True, eq=False)
class Sums:
    """Both models' evidence summed over n inputs or documents, from which scores are computed."""

    totals: Columns  # As in `compute_scores`, summed over all blocks.
    n: float  # Inputs or documents in these sums, and in the whole run.
    n_run: float
    parts: NameParts | None  # None: `chain`, whose evidence is of whole listed names.

    @cached_property
    def evidence(self) -> list[FloatArray]:
        """Mean ln p, or ln (mass + 1/2), of M_hospital and M_general by part [U].

        Masses are scaled to the whole run, so that one half counts the same without a block as with
        it. Source: Haldane 1956 and Anscombe 1956 (doi:10.1093/biomet/43.3-4.461) for the one half.
        """
        return [
            np.log(self.totals[f"{model_role}_mass"] * (self.n_run / self.n) + 0.5)
            if f"{model_role}_mass" in self.totals
            else self.totals[f"{model_role}_log_p"] / self.n
            for model_role in ("hospital", "general")
        ]

    @cached_property
    def by_name(self) -> list[FloatArray]:
        """The evidence of names [N]: of the pair of their parts where a model gives it."""
        if "hospital_pair_log_p" in self.totals:
            return [self.totals[f"{role}_pair_log_p"] / self.n for role in ("hospital", "general")]
        return [
            by_part if self.parts is None else self.parts.sum_parts(by_part)
            for by_part in self.evidence
        ]

    @cached_property
    def residual(self) -> FloatArray:
        """`compute_residuals` [U]."""
        return compute_residuals(*self.evidence, parts=self.name_parts)

    @property
    def name_parts(self) -> NameParts:
        """The parts of evidence by part; `chain` has none."""
        assert self.parts is not None
        return self.parts

    def mean(self, name: str) -> FloatArray:
        """Return a sum per input or document."""
        return self.totals[name] / self.n

    def masses(self, model_role: str) -> tuple[FloatArray, FloatArray]:
        """Return the mass per document of each name's first and last part [N]; NaN: none."""
        return self.name_parts.pairs(self.mean(f"{model_role}_mass"))


def _difference(s: Sums) -> FloatArray:
    """Return mean(p_h - p_g), the paper's score."""
    return (s.totals["hospital_p"] - s.totals["general_p"]) / s.n


def _log_ratio(s: Sums) -> FloatArray:
    """Return ln mean p_h - ln mean p_g."""
    return np.asarray(np.log(s.totals["hospital_p"]) - np.log(s.totals["general_p"]))


def _mean_log_ratio(s: Sums) -> FloatArray:
    """Return mean(ln p_h - ln p_g)."""
    return s.by_name[0] - s.by_name[1]


def _half_log_ratio(s: Sums) -> FloatArray:
    """Return ln (M_h + 1/2) / (M_g + 1/2) summed over the parts; M is the mass of the run."""
    return s.name_parts.sum_parts(s.evidence[0] - s.evidence[1])


def _product(s: Sums, model_role: str) -> FloatArray:
    """Return m_first m_last per document; a name of one part has that part's mass."""
    return combine_parts(*s.masses(model_role), np.multiply)


def _minimum(s: Sums, model_role: str) -> FloatArray:
    return np.asarray(np.fmin(*s.masses(model_role)))


def _against_general(s: Sums, score: Callable[[Sums, str], FloatArray]) -> FloatArray:
    """Return the log ratio; NaN if M_general's mass is zero."""
    hospital, general = score(s, "hospital"), score(s, "general")
    return np.where(general > 0, np.log(hospital) - np.log(general), math.nan)


def _residual(s: Sums) -> FloatArray:
    return soft_minimum(*s.name_parts.pairs(s.residual))


def _pair_residual(s: Sums) -> FloatArray:
    return compute_pair_residuals(*s.by_name, parts=s.name_parts)


def _part_log_ratio(s: Sums) -> FloatArray:
    """Return the smaller of both parts' log ratios (nats), minus the median of the role.

    The median is that of the parts that the generator knows.
    """
    parts, shift = s.name_parts, s.evidence[0] - s.evidence[1]
    for role in parts.roles():
        known_shift = shift[role & parts.is_known]
        shift = np.where(role, shift - (np.median(known_shift) if len(known_shift) else 0.0), shift)
    return np.asarray(np.fmin(*parts.pairs(shift)))


@dataclass(frozen=True)
class ScoreKind:
    """One way to measure how much a name looks like one from the notes."""

    name: str  # In measures, curve and report.
    scenarios: tuple[int, ...]  # Of 1 and 2.
    formula: Callable[[Sums], FloatArray]  # From sums to the score [N].
    # "parts": evidence by part, which reference controls have too; "listed": evidence of whole
    # names, which only listed names have; "chain": the same by `chain`; "pairs": evidence of the
    # pair of both parts, which causal models give for reference controls too; "recall": the chance
    # of whole names after the prompt, which they give too.
    needs: Literal["parts", "listed", "chain", "pairs", "recall"] = "parts"
    # Whether it is measured, higher being more member-like; if not, it is only a column of names.
    is_ranked: bool = True
    column: str = ""  # Of names.csv, where that is not `name`; these columns come last.
    is_count: bool = False  # Whether names.csv has the number of documents, not their share.
    is_log: bool = False  # Whether charts show its logarithm.
    rule: str = ""  # The paper's yes/no rule "above 0", and that of M_general alone.
    general_rule: str = ""


SCORES: tuple[ScoreKind, ...] = (
    ScoreKind(
        "hits",
        (1,),
        lambda s: s.mean("hospital_hits"),
        "listed",
        column="hospital_hits",
        is_count=True,
        rule="name_occurs",
    ),
    ScoreKind(
        "full_hits",
        (1,),
        lambda s: s.mean("hospital_full_hits"),
        "listed",
        column="hospital_full_hits",
        is_count=True,
        rule="full_name_occurs",
    ),
    ScoreKind(
        "general_hits",
        (1,),
        lambda s: s.mean("general_hits"),
        "listed",
        is_ranked=False,
        column="general_hits",
        is_count=True,
        general_rule="name_occurs_general",
    ),
    ScoreKind(
        "general_full_hits",
        (1,),
        lambda s: s.mean("general_full_hits"),
        "listed",
        is_ranked=False,
        column="general_full_hits",
        is_count=True,
        general_rule="full_name_occurs_general",
    ),
    ScoreKind(
        "product", (1,), lambda s: _product(s, "hospital"), column="hospital_product", is_log=True
    ),
    ScoreKind(
        "minimum", (1,), lambda s: _minimum(s, "hospital"), column="hospital_minimum", is_log=True
    ),
    ScoreKind(
        "general_product", (1,), lambda s: _product(s, "general"), is_ranked=False, is_log=True
    ),
    ScoreKind("general_minimum", (1,), lambda s: _minimum(s, "general"), is_ranked=False),
    ScoreKind("product_log_ratio", (1,), lambda s: _against_general(s, _product)),
    ScoreKind("minimum_log_ratio", (1,), lambda s: _against_general(s, _minimum)),
    ScoreKind("half_log_ratio", (1,), _half_log_ratio),
    ScoreKind("hospital_recall", (1,), lambda s: s.mean("hospital_p"), "recall", is_log=True),
    ScoreKind(
        "general_recall",
        (1,),
        lambda s: s.mean("general_p"),
        "recall",
        is_ranked=False,
        is_log=True,
    ),
    ScoreKind("difference", (2,), _difference, "listed", rule="difference_above_zero"),
    ScoreKind("log_ratio", (2,), _log_ratio, "listed"),
    ScoreKind("mean_log_ratio", (2,), _mean_log_ratio),
    ScoreKind("hospital_posterior", (2,), lambda s: s.mean("hospital_p"), "listed", is_log=True),
    ScoreKind("general_posterior", (2,), lambda s: s.mean("general_p"), "listed", is_ranked=False),
    ScoreKind("general_mean_log", (2,), lambda s: s.by_name[1], is_ranked=False),
    ScoreKind("pair_residual", (2,), _pair_residual, "pairs"),
    ScoreKind("residual", (1, 2), _residual),
    ScoreKind("residual_minimum", (1, 2), lambda s: np.fmin(*s.name_parts.pairs(s.residual))),
    ScoreKind("residual_sum", (1, 2), lambda s: s.name_parts.sum_parts(s.residual)),
    ScoreKind("part_log_ratio", (1, 2), _part_log_ratio),
    ScoreKind("chain_difference", (2,), _difference, "chain"),
    ScoreKind("chain_log_ratio", (2,), _log_ratio, "chain"),
    ScoreKind("chain_mean_log_ratio", (2,), _mean_log_ratio, "chain"),
    ScoreKind(
        "chain_hospital_posterior", (2,), lambda s: s.mean("hospital_p"), "chain", is_ranked=False
    ),
    ScoreKind(
        "chain_general_posterior", (2,), lambda s: s.mean("general_p"), "chain", is_ranked=False
    ),
    ScoreKind("chain_general_mean_log", (2,), lambda s: s.by_name[1], "chain", is_ranked=False),
)
"""Every score, in the order of names.csv."""

FIXED_SCORE, PAIR_SCORE = "residual", "pair_residual"
"""The score chosen beforehand, for names and for the group (docs/decisions/scores.md); the second
where evidence is of the pair of both parts."""
GENERAL_SCORE = {1: "general_product", 2: "general_mean_log"}
"""Scenario -> the score of the same attack with M_general alone."""


def list_scores(scenario: int) -> tuple[ScoreKind, ...]:
    """Return the scores of a scenario."""
    return tuple(kind for kind in SCORES if scenario in kind.scenarios)


def find_score_kind(name: str, *, scenario: int) -> ScoreKind | None:
    """Return the score with this name; None if it belongs to another version."""
    return next((kind for kind in list_scores(scenario) if kind.name == name), None)


def compute_scores(
    sums: Columns,
    *,
    counts: IntArray,
    parts: NameParts | None,
    with_errors: bool = True,
    only: Collection[str] = (),
) -> dict[str, FloatArray]:
    """Compute every score that both models' block sums allow, each as `jackknife` returns it.

    `only` restricts the scores to those with these names.

    `sums` are by block, of "hospital" and of "general". Scenario 1: "hospital_mass" [b, U], the
    Rao-Blackwell mass of each part; of listed names [b, n_listed] "hospital_hits", documents with
    either part, and "hospital_full_hits", with both side by side. Scenario 2: "hospital_p" [b,
    n_listed] of whole names, "hospital_log_p" [b, U] of parts, or of `chain` (`parts` None) [b,
    n_listed] of whole names; "hospital_pair_log_p" [b, N] of the pair of both parts, if the models
    give it. `counts` [b] are inputs or documents of each block.
    """
    scenario, n_run = 1 if "hospital_mass" in sums else 2, float(counts.sum())
    needs = {"chain"} if parts is None else {"parts", "listed"}
    needs |= {"pairs"} if "hospital_pair_log_p" in sums else set()
    kinds = [k for k in list_scores(scenario) if k.needs in needs and (not only or k.name in only)]

    def formulas(columns: Columns, n: float) -> Columns:
        model_sums = Sums(columns, n, n_run, parts)
        return {kind.name: kind.formula(model_sums) for kind in kinds}

    return jackknife(formulas, sums, counts=counts, with_errors=with_errors)


def compute_recall(chances: Columns) -> dict[str, FloatArray]:
    """Return the scores that need "recall", without errors, from "hospital_p", "general_p" [1, N].

    They are exact, so they have no error of sampling.
    """
    sums = Sums({name: column[0] for name, column in chances.items()}, 1.0, 1.0, None)
    return {
        kind.name: np.stack([kind.formula(sums), np.zeros(chances["hospital_p"].shape[1])])
        for kind in list_scores(1)
        if kind.needs == "recall"
    }


def jackknife(
    formulas: Callable[[Columns, float], Columns],
    sums: Columns,
    *,
    counts: IntArray,
    with_errors: bool = True,
) -> dict[str, FloatArray]:
    """Evaluate scores of block sums [b, K], and their delete-one-block jackknife errors.

    `formulas` turns totals (name -> [K]) and their count into scores (formula -> [N]); `counts` [b]
    of inputs or documents may differ by block. Each score is returned as [2, N], value and standard
    error; NaN: not scored, or fewer than two blocks.
    """
    total, n = {name: block.sum(axis=0) for name, block in sums.items()}, float(counts.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        value = formulas(total, n)
        scores = {name: np.stack([x, np.full_like(x, math.nan)]) for name, x in value.items()}
        if len(counts) < 2 or not with_errors:
            return scores
        # With e_j = value - value without block j and h_j = n / n_j, the variance is the mean over
        # blocks of ((h_j - 1) e_j - D)^2 / (h_j - 1), where D = sum of (1 - 1 / h_j) e_j.
        added = {name: np.zeros((3, *x.shape)) for name, x in value.items()}
        weights = 0.0
        for j, n_here in enumerate(counts.tolist()):
            h = n / n_here
            weights += 1 / (h - 1)
            for name, x in formulas({k: total[k] - sums[k][j] for k in sums}, n - n_here).items():
                e = value[name] - x
                added[name] += [(1 - 1 / h) * e, (h - 1) * e**2, e]
        for name, (d, squares, deviation) in added.items():
            error = np.sqrt((squares - 2 * d * deviation + d**2 * weights) / len(counts))
            scores[name][1] = np.where(np.isfinite(value[name]), error, math.nan)
    return scores


def compute_residual_errors(sums: Columns, *, counts: IntArray, parts: NameParts) -> FloatArray:
    """Return `compute_residuals` of scenario 2's block sums, and their errors [2, U]."""
    by_part = {name: sums[name] for name in ("hospital_log_p", "general_log_p")}

    def residual(totals: Columns, n: float) -> Columns:
        return {"residual": Sums(totals, n, n, parts).residual}

    return jackknife(residual, by_part, counts=counts)["residual"]


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Scores of N listed names followed by R reference controls."""

    listed: Candidates
    # [N] share of people who carry the name, 0-1; NaN where the generator does not know it.
    popularity: FloatArray
    scenario: int
    # Name of a score -> its values and standard errors [2, N + R]; of those that need "listed" or
    # "chain" [2, N] only.
    scores: Columns
    n_pieces: IntArray  # [N + R] word pieces of each name.
    parts: NameParts  # All N + R names as pairs of U parts.
    # [U] what M_hospital adds to M_general and popularity (`compute_residuals`).
    part_residual: FloatArray
    block_counts: IntArray  # [b] inputs or documents of each block.
    # Number of blocks -> the scores that this many blocks would have given, without errors.
    prefix_scores: Callable[[int], Columns]
    # What only this scenario reports.
    details: Details = field(default_factory=Details)
    # Scenario 1: texts of M_hospital and M_general.
    documents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # "hospital" and "general" -> [s, N] mean evidence by some 20 larger blocks, as `Inspection` has
    # it, and [s] the inputs or documents of each.
    block_evidence: Columns = field(default_factory=dict)
    block_evidence_counts: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    n_chain_inputs: int = 0
    # False if M_hospital has no evidence of the listed names, or the same as M_general.
    has_evidence: bool = True
    # [P, N] mean of ln p_hospital - ln p_general by passage; P = 0 in scenario 1.
    passage_log_ratio: FloatArray | None = None
    # "hospital" and "general" -> [2, N + R] mean ln p of the first and the last name, given what is
    # written before; empty where evidence is not of the pair of both parts.
    pair_evidence: Columns = field(default_factory=dict)

    @property
    def kinds(self) -> list[ScoreKind]:
        """The kinds of scores that this attack has."""
        return [kind for kind in list_scores(self.scenario) if kind.name in self.scores]

    @property
    def fixed_score(self) -> str:
        """Name of the score that names and the group are judged by."""
        return PAIR_SCORE if PAIR_SCORE in self.scores else FIXED_SCORE

    @property
    def general_score(self) -> str:
        """Name of the score of M_general alone."""
        return GENERAL_SCORE[self.scenario]

    def listed_scores(self, name: str) -> FloatArray:
        """Return one score of the listed names [N]."""
        return self.scores[name][0, : len(self.listed)]

    def rankings(self) -> dict[str, FloatArray]:
        """Return all that listed names [N] are ranked by: scores, M_general alone, popularity."""
        columns = {
            kind.name: self.listed_scores(kind.name) for kind in self.kinds if kind.is_ranked
        }
        return columns | {
            GENERAL_ALONE: self.listed_scores(self.general_score),
            POPULARITY: self.popularity,
        }

    def score_namesakes(self, row: int, role: int, others: IntArray) -> FloatArray:
        """Return the fixed score of namesakes [C] of a name: its part of a role, with other parts.

        `others` [C] are the rows of names from which the other part is taken.
        """
        parts = self.parts
        if not self.pair_evidence:
            residuals = np.append(self.part_residual, math.nan)
            return soft_minimum(
                np.full(len(others), residuals[parts.of_name[row, role]]),
                residuals[parts.of_name[others, 1 - role]],
            )
        columns = np.full((len(others), 2), parts.of_name[row, role])
        columns[:, 1 - role] = parts.of_name[others, 1 - role]
        evidence = []
        for model_role in ("hospital", "general"):
            by_role = self.pair_evidence[model_role]
            namesakes = by_role[role, row] + by_role[1 - role, others]
            evidence.append(np.concatenate([by_role.sum(axis=0), namesakes]))
        extended = replace(parts, of_name=np.concatenate([parts.of_name, columns]))
        n = len(parts.of_name)
        return compute_pair_residuals(*evidence, parts=extended, n_fitted=n)[n:]

    def select_names(self, rows: IntArray) -> AttackResult:
        """Return the result of some listed names, followed by all reference controls."""
        n = len(self.listed)
        name_rows = np.concatenate([rows, np.arange(n, len(self.n_pieces))])

        def select_columns(scores: Columns) -> Columns:
            return {
                name: score[:, rows if score.shape[1] == n else name_rows]
                for name, score in scores.items()
            }

        return replace(
            self,
            listed=self.listed.rows(rows.tolist()),
            popularity=self.popularity[rows],
            scores=select_columns(self.scores),
            n_pieces=self.n_pieces[name_rows],
            parts=replace(self.parts, of_name=self.parts.of_name[name_rows]),
            prefix_scores=lambda n_blocks: select_columns(self.prefix_scores(n_blocks)),
            pair_evidence={
                role: by_role[:, name_rows] for role, by_role in self.pair_evidence.items()
            },
        )
