"""Measures of any scores with truth: no model, no names, one flat dictionary."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.attack.decisions import confusion, critical_score, rank_p_values
from audit.errors import AuditError
from audit.names.candidates import Candidates
from audit.names.pools import NamePool
from audit.stats import BoolArray, FloatArray, bootstrap_ranking
from audit.text import fold_name

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

_QUADRATIC_FROM, _LINEAR_FROM = 60, 15
"""Reference parts from which the fit has squares, and a slope; with fewer h - g is centred."""
_MEAN_ABSOLUTE = 1.2533141373155003  # standard deviation over mean absolute deviation, normal
_HELD = 0.1
"""Share of what a part lacks that a name held at its limit lies below it."""
_SCALE_BETWEEN = (1 / 3, 5.0)
"""Bounds of a part's scale, in medians of all scales: a fitted line may reach zero."""


@dataclass(frozen=True, eq=False)
class NameParts:
    """N names (listed ones, then reference controls) as pairs of U distinct parts.

    Attributes
    ----------
    of_name
        [N, 2] column of the first and of the last part; -1: the name has none.
    log_share
        [U] ln of the share of people who carry the part (nats); a part that the generator does not
        know counts as its rarest.
    n_pieces
        [U] word pieces.
    is_last
        [U] whether it is a last name.
    is_known
        [U] whether the generator knows the part: those that a fit is made on.
    n_reference
        [U] reference controls that hold the part.
    """

    of_name: Ids
    log_share: Floats
    n_pieces: Ids
    is_last: NDArray[np.bool_]
    is_known: NDArray[np.bool_]
    n_reference: Ids

    def whole(self, by_part: Floats) -> Floats:
        """Add up a quantity of parts [..., U] to one of names [..., N]; NaN: without any part."""
        nothing = np.zeros((*by_part.shape[:-1], 1))
        total = np.concatenate([by_part, nothing], axis=-1)[..., self.of_name].sum(axis=-1)
        total[..., (self.of_name < 0).all(axis=1)] = np.nan
        return np.asarray(total, dtype=np.float64)

    def pairs(self, by_part: Floats) -> tuple[Floats, Floats]:
        """Return a quantity of parts [U] for each name's first and last part [N]; NaN: none."""
        padded = np.append(by_part, np.nan)
        return padded[self.of_name[:, 0]], padded[self.of_name[:, 1]]


def name_parts(
    names: Candidates, *, columns: Ids, n_pieces: Ids, pool: NamePool, n_listed: int
) -> NameParts:
    """Describe the parts of N names by what the generator says of them.

    Parameters
    ----------
    columns
        [N, 2], as `prompts.part_columns` gives them.
    n_pieces
        [N, 2] word pieces of each name's first and last part.
    n_listed
        Names before the reference controls.
    """
    n_parts = int(columns.max(initial=-1)) + 1
    log_share, pieces = np.zeros(n_parts), np.zeros(n_parts, dtype=np.int64)
    is_last, is_known = np.zeros((2, n_parts), dtype=np.bool_)
    for role, (texts, shares) in enumerate(
        ((names.first, pool.first_shares), (names.last, pool.last_shares))
    ):
        rarest = min(shares.values())
        used, rows = np.unique(columns[:, role], return_index=True)
        for column, row in zip(used.tolist(), rows.tolist(), strict=True):
            if column >= 0:
                share = shares.get(fold_name(texts[row]))
                log_share[column], is_known[column] = np.log(share or rarest), share is not None
                pieces[column], is_last[column] = n_pieces[row, role], bool(role)
    held = columns[n_listed:]
    n_reference = np.bincount(held[held >= 0], minlength=n_parts)
    return NameParts(columns, log_share, pieces, is_last, is_known, n_reference)


def part_residuals(hospital: Floats, general: Floats, *, parts: NameParts) -> Floats:
    """Return each part's studentised residual [U] of M_hospital's evidence on M_general's.

    Among all parts of the same role that the generator knows, those of the list too, M_hospital's
    evidence is regressed on M_general's, on the log share (squares and product too) and on the word
    pieces; the absolute residuals on the same give the scale. Beyond the known parts' range a
    change of M_general's evidence is carried over one to one. Evidence [U] is ln p, or
    ln (mass + 1/2).

    Listed parts belong to the fit, for a list of the commonest names would else lie beyond it
    (docs/decisions.md); reference controls, against which names are ranked, have no tested part.
    """
    residual = np.full(len(hospital), np.nan)
    for role in (False, True):
        rows = parts.is_last == role
        if rows.any():
            residual[rows] = _studentised(
                hospital[rows], general[rows], log_share=parts.log_share[rows],
                n_pieces=parts.n_pieces[rows].astype(np.float64), fitted=parts.is_known[rows],
            )  # fmt: skip
    return residual


def soft_minimum(first: Floats, last: Floats) -> Floats:
    """Return -ln(e^-first + e^-last): near the smaller of the two; one part alone is its own."""
    with np.errstate(invalid="ignore"):  # NaN, or both infinite
        both: Floats = -np.logaddexp(-first, -last)
    return np.where(np.isnan(first), last, np.where(np.isnan(last), first, both))


def part_limits(residual: Floats, *, parts: NameParts) -> tuple[float, float]:
    """Return the residuals beyond which 5 % of the reference controls' first and last parts lie.

    Infinite with fewer than 19 of them: then no part can be told from theirs.
    """
    first, last = (
        critical_score(
            residual[(parts.n_reference > 0) & (parts.is_last == role)], n_flagged=1, n_tested=1
        )
        for role in (False, True)
    )
    return first, last


def both_parts(first: Floats, last: Floats, *, limits: tuple[float, float]) -> Floats:
    """Return the score of names out of their parts' residuals [..., N]: the soft minimum.

    Where a part does not lie beyond its limit the name is held at `name_limits`, less a tenth of
    what the part lacks: one part that is known, however well, and another that is nobody's do not
    make a name. The tenth tells, within the score's own error, who fails narrowly.
    """
    score, limit = soft_minimum(first, last), name_limits(first, last, limits=limits)
    if not np.isfinite(limits).all():
        return score
    lack = np.fmin(first - limits[0], last - limits[1])
    return np.where(lack > 0, score, np.minimum(score, limit + _HELD * lack))


def name_limits(first: Floats, last: Floats, *, limits: tuple[float, float]) -> Floats:
    """Return the score of names [..., N] whose parts lie just at their limits."""
    at = (
        np.where(np.isnan(x), np.nan, limit) for x, limit in zip((first, last), limits, strict=True)
    )
    return soft_minimum(*at)


def part_p_values(residual: Floats, *, parts: NameParts) -> Floats:
    """Return the larger of both parts' p-values [N], each ranked among the references' parts."""
    p = np.full(len(residual), np.nan)
    for role in (False, True):
        rows = parts.is_last == role
        references = residual[rows & (parts.n_reference > 0)]
        p[rows] = rank_p_values(residual[rows], controls=references)
    return np.asarray(np.fmax(*parts.pairs(p)))


def part_score_columns(hospital: Floats, general: Floats, *, parts: NameParts) -> dict[str, Floats]:
    """Return the scores by part, of N names.

    `residual`: `both_parts` of `part_residuals`; `residual_minimum` and
    `residual_sum` the plain minimum and the sum; `part_log_ratio` the minimum over parts of
    M_hospital's evidence less M_general's (nats), each part less the median of known parts.
    """
    residual = part_residuals(hospital, general, parts=parts)
    first, last = parts.pairs(residual)
    limits = part_limits(residual, parts=parts)
    shift = hospital - general
    for role in (False, True):
        rows = parts.is_last == role
        known = shift[rows & parts.is_known]
        shift = np.where(rows, shift - (np.median(known) if len(known) else 0.0), shift)
    by_first, by_last = parts.pairs(shift)
    return {
        "residual": both_parts(first, last, limits=limits),
        "residual_minimum": np.fmin(first, last),
        "residual_sum": np.where(np.isnan(first), last, first + np.nan_to_num(last)),
        "part_log_ratio": np.fmin(by_first, by_last),
    }


def _studentised(
    hospital: Floats,
    general: Floats,
    *,
    log_share: Floats,
    n_pieces: Floats,
    fitted: NDArray[np.bool_],
) -> Floats:
    """Residuals [u] of one role's parts."""
    n_fitted = int(fitted.sum())
    if n_fitted < 2:
        return np.full(len(hospital), np.nan)
    columns, beyond = [np.ones(len(hospital))], general
    if n_fitted >= _LINEAR_FROM:
        g, s = (_standard(x, fitted) for x in (general, log_share))
        columns += [g, s, n_pieces - n_pieces[fitted].mean()]  # pieces of one number have no slope
        beyond = general - np.clip(general, general[fitted].min(), general[fitted].max())
        if n_fitted >= _QUADRATIC_FROM:
            columns += [g * g, s * s, g * s]
    basis = np.stack(columns, axis=1)  # [u, k]

    def fit(target: Floats) -> Floats:
        found: Floats = basis @ np.linalg.lstsq(basis[fitted], target[fitted], rcond=None)[0]
        return found

    residual = hospital - beyond - fit(hospital - beyond)
    scale = fit(np.abs(residual)) * _MEAN_ABSOLUTE
    middle = float(np.median(scale[fitted]))
    if middle <= 0:
        return np.where(residual == 0, 0.0, np.nan)
    low, high = _SCALE_BETWEEN
    return np.asarray(residual / np.clip(scale, low * middle, high * middle), dtype=np.float64)


def _standard(x: Floats, fitted: NDArray[np.bool_]) -> Floats:
    """Standardise by the fitted parts, and hold within their range."""
    here = x[fitted]
    return np.asarray((np.clip(x, here.min(), here.max()) - here.mean()) / (here.std() or 1.0))


Columns = dict[str, Floats]
Formulas = Callable[[Columns, float], Columns]

DRAW = 100
"""Inputs or documents whose randomness is drawn together."""


def shown_blocks(counts: Ids, *, n_shown: int = 20) -> Ids:
    """Return where each of about `n_shown` blocks of equal size begins, for a reader's eye."""
    before = np.cumsum(counts) - counts
    group = before * n_shown // max(int(counts.sum()), 1)
    found: Ids = np.unique(group, return_index=True)[1]
    return found


@dataclass(frozen=True, eq=False)
class Score:
    """A score [N] and its standard error [N]; NaN: not scored, or fewer than two blocks."""

    value: Floats
    standard_error: Floats


@dataclass(frozen=True, eq=False)
class PosteriorSums:
    """Scenario-2 evidence of one model: block sums of p [b, n_listed] and of ln p by part [b, U].

    Of `chain`, ln p [b, n_listed] is of whole names.
    """

    sum_p: Floats
    sum_log_p: Floats


@dataclass(frozen=True, eq=False)
class MassSums:
    """Scenario-1 evidence of one model, by block.

    `mass` [b, U] is the Rao-Blackwell mass of each part. Of listed names [b, n_listed], `hits`
    counts documents with either part, `full_hits` with both side by side.
    """

    mass: Floats
    hits: Floats
    full_hits: Floats


def jackknife(
    formulas: Formulas, sums: Columns, *, counts: Ids, with_errors: bool = True
) -> dict[str, Score]:
    """Evaluate scores of block sums, and their delete-one-block jackknife errors.

    Parameters
    ----------
    formulas
        From totals (name -> [K]) and their count to the scores (formula -> [N]).
    sums
        Name -> [b, K] block sums.
    counts
        [b] inputs or documents of each block, which may differ.
    """
    total, n_blocks = {name: block.sum(axis=0) for name, block in sums.items()}, len(counts)
    n = float(counts.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        value = formulas(total, n)
        if n_blocks < 2 or not with_errors:
            return {name: Score(x, np.full_like(x, math.nan)) for name, x in value.items()}
        # With e_j = value - value without block j and h_j = n / n_j, the variance is the mean over
        # blocks of ((h_j - 1) e_j - D)^2 / (h_j - 1), where D = sum of (1 - 1 / h_j) e_j.
        shift, squares, plain, weights = (
            {name: np.zeros_like(x) for name, x in value.items()} for _ in range(4)
        )
        for j, n_here in enumerate(counts.tolist()):
            without = formulas({k: total[k] - sums[k][j] for k in sums}, n - n_here)
            h = n / n_here
            for name, x in value.items():
                e = x - without[name]
                shift[name] = shift[name] + (1 - 1 / h) * e
                squares[name] = squares[name] + (h - 1) * e**2
                plain[name] = plain[name] + e
                weights[name] = weights[name] + 1 / (h - 1)
        errors = {
            name: np.sqrt((squares[name] - 2 * d * plain[name] + d**2 * weights[name]) / n_blocks)
            for name, d in shift.items()
        }
    return {
        name: Score(x, np.where(np.isfinite(x), errors[name], math.nan))
        for name, x in value.items()
    }


def posterior_scores(
    hospital: PosteriorSums,
    *,
    general: PosteriorSums,
    counts: Ids,
    parts: NameParts | None,
    with_errors: bool = True,
) -> dict[str, Score]:
    """Return the scenario-2 scores (spec of scores, section 4.2).

    `difference` = mean(p_h - p_g), the paper's; `log_ratio` = ln mean p_h - ln mean p_g;
    `mean_log_ratio` = mean(ln p_h - ln p_g); also `hospital_posterior`, `general_posterior` (means
    of p), and `general_mean_log` = mean ln p_g: what M_general alone says. Those of p are of listed
    names. With `parts` come the scores of `part_scores.part_score_columns`; None: `chain`, whose
    evidence is of whole listed names.
    """
    sums = {
        "p_h": hospital.sum_p,
        "p_g": general.sum_p,
        "l_h": hospital.sum_log_p,
        "l_g": general.sum_log_p,
    }

    def formulas(s: Columns, n: float) -> Columns:
        mean_h, mean_g = s["l_h"] / n, s["l_g"] / n
        whole_h, whole_g = (x if parts is None else parts.whole(x) for x in (mean_h, mean_g))
        found = {
            "difference": (s["p_h"] - s["p_g"]) / n,
            "log_ratio": np.log(s["p_h"]) - np.log(s["p_g"]),
            "mean_log_ratio": whole_h - whole_g,
            "hospital_posterior": s["p_h"] / n,
            "general_posterior": s["p_g"] / n,
            "general_mean_log": whole_g,
        }
        return found if parts is None else found | part_score_columns(mean_h, mean_g, parts=parts)

    return jackknife(formulas, sums, counts=counts, with_errors=with_errors)


def generation_scores(
    hospital: MassSums,
    *,
    general: MassSums,
    counts: Ids,
    parts: NameParts,
    with_errors: bool = True,
) -> dict[str, Score]:
    """Return the scenario-1 scores.

    With m_first, m_last the mass per document: `product` = m_first m_last and `minimum` =
    min(m_first, m_last) of M_hospital; `product_log_ratio` and `minimum_log_ratio` their logarithm
    against M_general's (NaN where M_general's is zero). With M the mass of the whole run,
    `half_log_ratio` = sum over both parts of ln (M_h + 1/2) / (M_g + 1/2), defined everywhere: the
    log ratio of counts after Haldane 1956 and Anscombe 1956 (doi:10.1093/biomet/43.3-4.461), and
    the scores of `part_scores.part_score_columns` on ln (M + 1/2). A name of one part has that
    part's mass. `hits` and `full_hits` are shares of documents, of listed names; `general_*` the
    same of M_general.
    """
    sums = {
        f"{field}_{model}": getattr(source, field)
        for model, source in (("h", hospital), ("g", general))
        for field in ("mass", "hits", "full_hits")
    }
    n_all = float(counts.sum())

    def formulas(s: Columns, n: float) -> Columns:
        found: Columns = {}
        for model in ("h", "g"):
            first, last = parts.pairs(s[f"mass_{model}"] / n)
            product = np.where(np.isnan(first), last, np.where(np.isnan(last), first, first * last))
            prefix = "general_" if model == "g" else ""
            found |= {
                f"{prefix}product": product,
                f"{prefix}minimum": np.fmin(first, last),
                f"{prefix}hits": s[f"hits_{model}"] / n,
                f"{prefix}full_hits": s[f"full_hits_{model}"] / n,
            }
        for name in ("product", "minimum"):
            below = found[f"general_{name}"]
            ratio = np.log(found[name]) - np.log(below)
            found[f"{name}_log_ratio"] = np.where(below > 0, ratio, math.nan)
        # Masses of the whole run, so that one half is as much without a block as with it.
        log_h, log_g = (np.log(s[f"mass_{model}"] * (n_all / n) + 0.5) for model in ("h", "g"))
        found["half_log_ratio"] = parts.whole(log_h - log_g)
        return found | part_score_columns(log_h, log_g, parts=parts)

    return jackknife(formulas, sums, counts=counts, with_errors=with_errors)


def score_file(
    scores: ArrayLike, is_member: ArrayLike, *, seed: int, threshold: float | None = None
) -> dict[str, object]:
    """Return AUC, TPR at FPR and, with a threshold, the confusion table of a column of scores.

    Higher scores are more member-like; NaN scores are left out and counted; flagged is
    score > threshold. A number that is undefined, or that so few controls cannot resolve, is None.

    Parameters
    ----------
    scores, is_member
        Columns [N]; truth is True or 1 for a member, False or 0 for a control.

    Raises
    ------
    AuditError
        If there are no scored members or no scored controls.
    """
    score = np.asarray(scores, dtype=np.float64)
    member = np.asarray(is_member, dtype=np.bool_)
    ranking = bootstrap_ranking(score, member, seed=seed)
    for n_names, kind, value in (
        (ranking.n_members, "members", 1),
        (ranking.n_controls, "controls", 0),
    ):
        if not n_names:
            raise AuditError(
                f"There are no {kind} with a score.",
                where="is_member",
                do=f"Give at least one row with is_member = {value} and a number as its score.",
            )
    numbers: dict[str, float] = {
        "n_members": ranking.n_members,
        "n_controls": ranking.n_controls,
        "n_not_scored": ranking.n_not_scored,
        "auc": ranking.auc.value,
        "auc_low": ranking.auc.low,
        "auc_high": ranking.auc.high,
    }
    if threshold is not None:
        numbers |= {"threshold": threshold, **_at_threshold(score, member, threshold)}
    tpr = {f"{fpr:g}": estimate for fpr, estimate in ranking.tpr_at_fpr}
    return {
        **_without_nan(numbers),
        "tpr_at_fpr": _without_nan({key: x.value for key, x in tpr.items()}),
        "tpr_at_fpr_low": _without_nan({key: x.low for key, x in tpr.items()}),
        "tpr_at_fpr_high": _without_nan({key: x.high for key, x in tpr.items()}),
    }


def _at_threshold(score: FloatArray, member: BoolArray, threshold: float) -> dict[str, float]:
    is_scored = ~np.isnan(score)
    counts = confusion(score[is_scored] > threshold, member[is_scored])
    return {
        "tp": counts.tp,
        "fn": counts.fn,
        "fp": counts.fp,
        "tn": counts.tn,
        "f1": counts.f1,
        "accuracy": counts.accuracy.value,
        "precision": counts.precision.value,
        "recall": counts.recall.value,
    }


def _without_nan(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {key: None if math.isnan(x) else x for key, x in numbers.items()}
