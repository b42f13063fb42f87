"""Scores by part: a name counts by what M_hospital adds to M_general and popularity in both parts.

A sum over a name's parts is ruled by one strongly shifted part: a surname that is a word of
medicine, a first name that the notes made likelier. So each part is first compared with parts that
M_general and the name generator rate alike, and a name then needs *both* of its parts. Comes in:
evidence by part of both models. Goes out: one score a name, and the parts' own for the relabelling
test. Knows no model and no text. Legend: N names, U distinct parts.

Differs: the paper adds up whole names (section 4.2) and counts either part (section 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.membership.candidates import Candidates
from audit.membership.decisions import critical_score, rank_p_values
from audit.membership.name_pools import NamePool
from audit.names import fold_name

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
