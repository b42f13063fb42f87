"""Scores that are given, of lists whose members stand out as far as a test asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from audit.attack.scores import AttackResult, Columns, NameParts, soft_minimum
from audit.names.candidates import CONTROL_KINDS, Candidates, make_candidates

N_MEMBERS = 60
N_CONTROLS = 60
N_REFERENCE = 3000
MENTIONS = [1] * 30 + [2] * 10 + [3] * 5 + [4] * 5 + [6] * 6 + [25] * 4


def spelt(n: int, *, seed: int) -> list[str]:
    """Return n different words that are spelt alike, whatever the seed."""
    rng = np.random.default_rng(seed)
    words: dict[str, None] = {}
    while len(words) < n:
        letters = zip(rng.choice(list("bdgklmnrst"), 4), rng.choice(list("aeiou"), 4), strict=True)
        words["".join(map("".join, letters)).title()] = None
    return list(words)


_WORDS = spelt(N_MEMBERS + N_CONTROLS * len(CONTROL_KINDS), seed=7)
FIRST_NAMES = {
    kind: _WORDS[begin : begin + N_CONTROLS]
    for begin, kind in zip(
        range(0, len(_WORDS), N_CONTROLS), ("member", *CONTROL_KINDS), strict=True
    )
}
LAST_NAMES = spelt(len(_WORDS), seed=8)
SHARES = {first: i / 1000 for i, first in enumerate(FIRST_NAMES["member"])} | {
    first: 0.03 for kind in CONTROL_KINDS for first in FIRST_NAMES[kind]
}
"""Popularity by first name."""
SCORES = {
    1: (
        "residual",
        "product",
        "minimum",
        "product_log_ratio",
        "minimum_log_ratio",
        "hits",
        "full_hits",
        "general_product",
        "general_minimum",
        "general_hits",
        "general_full_hits",
    ),
    2: (
        "residual",
        "difference",
        "log_ratio",
        "mean_log_ratio",
        "hospital_posterior",
        "general_posterior",
        "general_mean_log",
    ),
}


def given_attack(
    listed: Candidates,
    scores: Columns,
    *,
    scenario: int = 2,
    n_reference: int = 0,
    by_part: np.ndarray | None = None,
    counts: Sequence[int] = (*[100] * 9, 50),
    prefix_scores: Callable[[int], Columns] | None = None,
) -> AttackResult:
    """An attack of a list whose scores are given.

    Every name has two parts of its own, each with the evidence that `residual` is made of.
    """
    residual = scores.get("residual", next(iter(scores.values())))[0]
    return AttackResult(
        listed=listed,
        popularity=np.array([SHARES.get(first, math.nan) for first in listed.first]),
        scenario=scenario,
        scores=scores,
        n_pieces=np.full(len(residual), 2),
        parts=own_parts(len(residual) - n_reference, n_reference),
        part_residual=np.tile(residual + math.log(2), 2) if by_part is None else by_part,
        block_counts=np.array(counts),
        prefix_scores=prefix_scores or (lambda _: scores),
    )


def set_residual(attack: AttackResult, row: int, value: float) -> None:
    """Give one name a residual."""
    attack.scores["residual"][0, row] = value
    attack.part_residual[attack.parts.of_name[row]] = value + math.log(2)


def listed(kinds: tuple[str, ...] = ("easy",)) -> Candidates:
    last_names = dict(zip(_WORDS, LAST_NAMES, strict=True))

    def full_names(kind: str) -> list[tuple[str, str]]:
        return [(first, last_names[first]) for first in FIRST_NAMES[kind]]

    result = make_candidates(full_names("member"), is_member=True, n_mentions=MENTIONS)
    for kind in kinds:
        controls = full_names(kind)
        result += make_candidates(controls, is_member=False, control_kind=kind)
    return result


def table(
    candidates: Candidates,
    *,
    scenario: int,
    effect: float,
    general_effect: float = 0.0,
    seed: int = 0,
) -> AttackResult:
    """Normal scores; members are `effect` standard deviations higher, in M_general alone too.

    After b of ten blocks they are a bth part as clear.
    """
    n = len(candidates)
    rng = np.random.default_rng(seed)
    noise = {name: rng.normal(size=n + N_REFERENCE) for name in SCORES[scenario]}
    is_member = np.array([*(m is True for m in candidates.is_member), *[False] * N_REFERENCE])
    by_part = rng.normal(size=(2, n + N_REFERENCE))
    noise["residual"] = soft_minimum(*by_part)

    def score_prefix(n_blocks: int) -> Columns:
        result = {}
        for name in SCORES[scenario]:
            size = general_effect if name.startswith("general") else effect * n_blocks / 10
            value = noise[name] + size * is_member
            if "hits" in name:
                value = np.where(np.arange(n + N_REFERENCE) < n, (value > 1) / 950, math.nan)
            result[name] = np.stack([value, np.full_like(value, 0.1)])
        return result

    return given_attack(
        candidates,
        score_prefix(10),
        scenario=scenario,
        n_reference=N_REFERENCE,
        by_part=(by_part + effect * is_member).ravel(),
        prefix_scores=score_prefix,
    )


def parts_of(of_name: Any, is_last: Any, **known: Any) -> NameParts:
    """Parts of one piece, all in the generator and equally frequent there, of no reference name."""
    last = np.array(is_last, dtype=bool)
    n = len(last)
    fields: dict[str, Any] = {
        "log_share": np.zeros(n),
        "n_pieces": np.ones(n, dtype=np.int64),
        "is_known": np.ones(n, dtype=bool),
    }
    return NameParts(of_name=np.array(of_name), is_last=last, **fields | known)


def own_parts(n: int, n_reference: int) -> NameParts:
    """Every name's first and last part are its own: columns 0 to N - 1, then N to 2 N - 1."""
    n_names = n + n_reference
    columns = np.arange(2 * n_names)
    return parts_of(columns.reshape(2, n_names).T, columns >= n_names)
