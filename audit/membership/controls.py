"""Controls: names that are not in the notes, drawn from the same weighted generator as any other.

Comes in: a pool of names with their shares, members, a seed. Goes out: `Candidates`. Knows no
model; what a tokenizer has to say comes in as a function.

Easy and hard controls are matched to members (`matched_controls.py`). Every other draw is the
beginning of one seeded order of all full names of the pool. The order is that of drawing without
replacement with the names' shares as weights (exponential keys divided by weight; Efraimidis and
Spirakis 2006, doi:10.1016/j.ipl.2005.11.003). Leaving out names that do not qualify conditions the
draw exactly, and a longer draw begins with the shorter one.

Source: Nakamura et al., section 3.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.membership.candidates import (
    Candidates,
    make_candidates,
)
from audit.membership.decisions import MIN_CONTROLS
from audit.membership.matched_controls import Accepts as Accepts
from audit.membership.matched_controls import CountPieces, matched_controls
from audit.membership.matched_controls import Name as Name
from audit.membership.name_pools import NamePool, with_popularity
from audit.names import fold_name, written_name
from audit.randomness import generator

MAX_RECOMBINED_PARTS = 1_000
MAX_DRAWN = 5_000


def draw_names(
    pool: NamePool,
    *,
    n: int,
    seed: int,
    exclude: Iterable[Name] = (),
    accepts: Accepts | None = None,
    purpose: str = "names",
) -> Candidates:
    """Draw n distinct full names with unknown membership; fewer where the pool has no more.

    `purpose` names the stream: the same seed with another purpose gives another draw.
    """
    names = _take(_ordered(pool, seed=seed, purpose=purpose), n, exclude=exclude, accepts=accepts)
    return with_popularity(make_candidates(names), pool=pool)


def easy_controls(
    pool: NamePool | None,
    members: Candidates,
    *,
    n: int,
    seed: int,
    exclude: Iterable[Name] = (),
    accepts: Accepts | None = None,
    count_pieces: CountPieces | None = None,
) -> Candidates:
    """Draw n matched controls of which neither part is any part of a member's name (section 3.4).

    Parameters as of `matched_controls`.
    """
    return matched_controls(
        members, n=n, seed=seed, kind="easy", pool=pool, exclude=exclude, accepts=accepts,
        count_pieces=count_pieces,
    ).controls  # fmt: skip


def hard_controls(
    pool: NamePool | None,
    members: Candidates,
    *,
    n: int,
    seed: int,
    exclude: Iterable[Name] = (),
    accepts: Accepts | None = None,
    count_pieces: CountPieces | None = None,
) -> Candidates:
    """Draw n matched controls of which exactly one part is that of a member's name (section 3.4).

    Parameters as of `matched_controls`.
    """
    return matched_controls(
        members, n=n, seed=seed, kind="hard", pool=pool, exclude=exclude, accepts=accepts,
        count_pieces=count_pieces,
    ).controls  # fmt: skip


def recombined_controls(
    members: Candidates,
    *,
    n: int,
    seed: int,
    pool: NamePool | None = None,
    exclude: Iterable[Name] = (),
    accepts: Accepts | None = None,
) -> Candidates:
    """Draw n controls made of one member's first and another's last name, never a member's own.

    Every pair is as likely as any other. From lists with more, 1,000 first and 1,000 last names are
    drawn first. `pool` gives the popularity (default: the one that fits the members).
    """
    whole = [row for row, m in enumerate(members.is_member) if m and len(members.parts(row)) == 2]
    rng = generator(seed, "controls/recombined")
    firsts = _distinct(members.first[row] for row in whole)
    lasts = _distinct(members.last[row] for row in whole)
    firsts = [firsts[i] for i in rng.permutation(len(firsts))[:MAX_RECOMBINED_PARTS]]
    lasts = [lasts[i] for i in rng.permutation(len(lasts))[:MAX_RECOMBINED_PARTS]]
    pairs = rng.permutation(len(firsts) * len(lasts)).tolist()
    ordered = ((firsts[pair // len(lasts)], lasts[pair % len(lasts)]) for pair in pairs)
    names = _take(ordered, n, exclude=[*_names(members), *exclude], accepts=accepts)
    controls = make_candidates(names, is_member=False, control_kind="recombined")
    return with_popularity(controls, pool=pool)


def with_controls(
    candidates: Candidates,
    *,
    n_easy: int,
    n_hard: int,
    n_recombined: int = 0,
    seed: int,
    count_pieces: CountPieces | None = None,
) -> Candidates:
    """Return the list followed by controls drawn against its members (section 3.4).

    Easy and hard ones are matched to the members, as `matched_controls` says: `match_quality` of
    what comes back counts for whom there was nobody. None of the drawn names is on the list, and no
    part of an easy or hard one was planted. Fewer come where the generator has no more.

    Raises
    ------
    AuditError
        If a number is out of bounds, or the list has no members.
    """
    for what, n in (("easy", n_easy), ("hard", n_hard), ("recombined", n_recombined)):
        if not 0 <= n <= MAX_DRAWN:
            raise AuditError(f"must be from 0 to {MAX_DRAWN:,}.", where=f"{what} controls")
    if not n_easy + n_hard + n_recombined:
        return without_popularity(candidates)
    patients = candidates.without_canaries()
    members = patients.rows([i for i, m in enumerate(patients.is_member) if m is True])
    if not len(members):
        raise AuditError(
            "Controls are drawn against members, and the list has none.",
            where="names",
            do="Add a column is_member with 1 for the names that are in the notes.",
        )
    taken = list(zip(candidates.first, candidates.last, strict=True))
    planted = _planted_parts(candidates)

    def accepts(first: str, last: str) -> bool:
        return not planted & {fold_name(first), fold_name(last)}

    easy, hard = (
        matched_controls(
            members, n=n, seed=seed, kind=kind, exclude=taken, accepts=accepts,
            count_pieces=count_pieces,
        ).controls
        for kind, n in (("easy", n_easy), ("hard", n_hard))
    )  # fmt: skip
    recombined = recombined_controls(members, n=n_recombined, seed=seed, exclude=taken)
    drawn = easy + hard + recombined
    return without_popularity(candidates + drawn)


def _planted_parts(candidates: Candidates) -> frozenset[str]:
    rows = [i for i, m in enumerate(candidates.is_member) if m and candidates.is_canary(i)]
    return frozenset(fold_name(part) for i in rows for _, part in candidates.parts(i))


def without_popularity(candidates: Candidates) -> Candidates:
    """Return the same names with unknown popularity, as they are in a question."""
    return replace(candidates, popularity=(math.nan,) * len(candidates))


def reference_controls(
    pool: NamePool,
    *,
    n_by_pieces: Mapping[int, int],
    count_pieces: Callable[[str, str], int],
    exclude: Iterable[Name] = (),
    tested_parts: frozenset[str] = frozenset(),
    n_least: int = 0,
    seed: int,
) -> Candidates:
    """Draw the controls against which p-values are ranked: names of given numbers of word pieces.

    A name that shares a part with a tested one is no clean control: if the model knows the tested
    name it knows that part too. So names that share none come first, as many as are asked for;
    those that share one part only as far as `n_least` is not reached, and those of two tested parts
    as far as fewer than `MIN_CONTROLS` are there.

    Parameters
    ----------
    pool
        Where to draw from.
    n_by_pieces
        How many names to draw for each total number of word pieces; fewer come where the pool has
        fewer.
    count_pieces
        Word pieces of a part, given its role ("first" or "last") and its text.
    exclude
        Full names, (first, last), that must not come: those in the notes and on the list.
    tested_parts
        Parts of members' and unknown names, folded.
    seed
        Of the draw.

    Returns
    -------
    Candidates
        In the order of `n_by_pieces`; each group in the order drawn.
    """
    first_pieces = np.array([count_pieces("first", part) for part in pool.first])
    last_pieces = np.array([count_pieces("last", part) for part in pool.last])
    pieces = (first_pieces[:, None] + last_pieces[None, :]).ravel()  # [F * L]
    excluded = tuple(exclude)
    is_tested = [
        np.array([fold_name(part) in tested_parts for part in of_role])
        for of_role in (pool.first, pool.last)
    ]
    n_shared = np.add.outer(*(x.astype(np.int64) for x in is_tested)).ravel()  # [F * L]
    order = _order(pool, seed=seed, purpose="reference")  # [F * L]
    names: list[Name] = []
    for n_pieces, n in n_by_pieces.items():
        group: list[Name] = []
        for shared, wanted in ((0, n), (1, min(n, n_least)), (2, min(n, MIN_CONTROLS))):
            here = order[(pieces[order] == n_pieces) & (n_shared[order] == shared)]
            missing = max(0, wanted - len(group))
            group += _take(_spelled(pool, here), missing, exclude=excluded, accepts=None)
        names += group
    return with_popularity(
        make_candidates(names, is_member=False, control_kind="reference"), pool=pool
    )


def _order(pool: NamePool, *, seed: int, purpose: str) -> NDArray[np.int64]:
    # [F * L] indices first * L + last, in the order of drawing without replacement.
    share = np.outer(pool.first_share, pool.last_share).ravel()
    keys = -np.log1p(-generator(seed, f"controls/{purpose}").random(share.size)) / share
    return np.argsort(keys, kind="stable")


def _spelled(pool: NamePool, order: np.ndarray) -> Iterator[Name]:
    for index in order.tolist():
        yield pool.first[index // len(pool.last)], pool.last[index % len(pool.last)]


def _ordered(pool: NamePool, *, seed: int, purpose: str) -> Iterator[Name]:
    return _spelled(pool, _order(pool, seed=seed, purpose=purpose))


def _take(
    names: Iterable[Name], n: int, *, exclude: Iterable[Name], accepts: Accepts | None
) -> list[Name]:
    seen = {fold_name(written_name(first, last)) for first, last in exclude}
    taken: list[Name] = []
    for first, last in names:
        if len(taken) >= n:
            break
        key = fold_name(written_name(first, last))
        if key in seen or (accepts is not None and not accepts(first, last)):
            continue
        seen.add(key)
        taken.append((first, last))
    return taken


def _names(candidates: Candidates) -> list[Name]:
    return list(zip(candidates.first, candidates.last, strict=True))


def _distinct(parts: Iterable[str]) -> Sequence[str]:
    return list({fold_name(part): part for part in parts}.values())


def part_controls(
    pool: NamePool,
    *,
    role: str,
    n_by_pieces: Mapping[int, int],
    count_pieces: Callable[[str, str], int],
    tested_parts: frozenset[str],
    seed: int,
) -> Candidates:
    """Draw controls of one part alone, for listed names of which only that part is known.

    Parameters as in `reference_controls`; `role` is "first" or "last". Names in Han or kana that
    cannot be split are written in one part: their controls are whole names of the generator.
    """
    texts, shares = getattr(pool, role), getattr(pool, f"{role}_share")
    keys = -np.log1p(-generator(seed, f"controls/{role} alone").random(len(texts))) / shares
    order = [i for i in np.argsort(keys, kind="stable") if fold_name(texts[i]) not in tested_parts]
    names: list[Name] = []
    for n_pieces, n in n_by_pieces.items():
        here = [texts[i] for i in order if count_pieces(role, texts[i]) == n_pieces][:n]
        names += [(text, "") if role == "first" else ("", text) for text in here]
    return make_candidates(names, is_member=False, control_kind="reference")
