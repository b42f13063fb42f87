"""Canaries in a corpus: planted into D_private and D_public alike, the truth moved along.

Comes in: names that nobody carries, a note with its truth. Goes out: a plan, and the same note with
a planted name. Everything that the truth says about the note still stands where it says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from audit.corpus.truth import CANARY, NoteTruth, Place
from audit.errors import AuditError
from audit.names.candidates import Accepts, Candidates, Name, make_candidates
from audit.names.controls import draw_names
from audit.names.matching import Pair, is_absent
from audit.names.pools import NamePool
from audit.notes.mention_words import Unnamed
from audit.notes.mentions import examine_ages
from audit.rng import generator
from audit.text import is_unspaced, written_name

_SEXES = (("man", "男性"), ("woman", "女性"))


class Canary(NamedTuple):
    """A name that was planted `n_mentions` times; 0: the twin of the one before, left out."""

    first: str
    last: str
    n_mentions: int


@dataclass(frozen=True)
class CanaryPlan:
    """Which canary goes into which note: `rows` has the canary's row by the note's position."""

    canaries: tuple[Canary, ...] = ()
    rows: Mapping[int, int] = field(default_factory=dict)


def absent_names(
    pool: NamePool, *, n: int, seed: int, taken: Collection[Pair], accepts: Accepts | None = None
) -> tuple[Name, ...]:
    """Draw n names of the pool that are none of those taken, to be planted or held out."""

    def will_do(first: str, last: str) -> bool:
        return is_absent(taken, first, last) and (not accepts or accepts(first, last))

    drawn = draw_names(pool, n=n, seed=seed, accepts=will_do, purpose="canaries")
    if len(drawn) < n:
        raise AuditError(
            "Only {n_drawn:,} names are left that nobody carries; {n:,} are needed.",
            where="canaries",
            do="Plant fewer names.",
            n_drawn=len(drawn),
            n=n,
        )
    return tuple(zip(drawn.first, drawn.last, strict=True))


def plan_canaries(
    names: Sequence[Name], *, n_notes: int, seed: int, counts: Sequence[int]
) -> CanaryPlan:
    """Decide by chance which names are planted how often, which are twins, and in which notes.

    Of the distinct names an even number is used for each of the distinct counts above 0: half are
    planted, half are twins. A note gets one canary at most.
    """
    n_pairs = len(names) // (2 * len(counts))
    n_needed = n_pairs * sum(counts)
    if n_needed > n_notes:
        raise AuditError(
            "{n_needed:,} notes are needed, one for each mention; there are {n_notes:,}.",
            where="canaries",
            do="Plant fewer names, or each less often.",
            n_needed=n_needed,
            n_notes=n_notes,
        )
    order = generator(seed, "canaries/names").permutation(len(names))[: 2 * n_pairs * len(counts)]
    canaries = []
    for place, index in enumerate(order.tolist()):
        n_mentions = 0 if place % 2 else counts[place // 2 % len(counts)]
        first, last = names[index]
        canaries.append(Canary(first, last, n_mentions))
    rows = [row for row, canary in enumerate(canaries) for _ in range(canary.n_mentions)]
    chosen = generator(seed, "canaries/notes").permutation(n_notes)[:n_needed].tolist()
    return CanaryPlan(tuple(canaries), dict(zip(chosen, rows, strict=True)))


def canary_candidates(plan: CanaryPlan) -> Candidates:
    """Return planted names as members and twins as controls; the i-th of both are a pair."""
    ordered = sorted(plan.canaries, key=lambda canary: not canary.n_mentions)
    n_mentions = tuple(canary.n_mentions for canary in ordered)
    return replace(
        make_candidates([canary[:2] for canary in ordered], n_mentions=n_mentions),
        is_member=tuple(n > 0 for n in n_mentions),
        control_kind=tuple("" if n else "canary" for n in n_mentions),
        role=("canary",) * len(ordered),
    )


@dataclass(frozen=True)
class Planting:
    """How canaries are put into notes; `seed` is that of sentences of their own.

    `is_register`, `is_blank`: D_public has the places of a register, or `___` for all (MIMIC-IV).
    """

    plan: CanaryPlan
    is_register: bool
    is_blank: bool
    seed: int

    def planted(self, truth: NoteTruth, *, index: int) -> NoteTruth:
        """Return the corpus's `index`-th note with the canary in it that the plan has for it.

        The name takes the place of an unnamed patient ("the patient is a 45-year-old man"); in a
        note without one it begins a sentence of its own.
        """
        if index not in self.plan.rows:
            return truth
        row = self.plan.rows[index]
        canary = self.plan.canaries[row]
        name = written_name(canary.first, canary.last)
        mask = self._mask(row, is_japanese=is_unspaced(name))
        start, stop, behind = self._where(truth.private, index, is_japanese=is_unspaced(name))
        places = truth.inserted
        # What a canary replaces holds no placeholder: it lies as far from the last one in both.
        shift = truth.in_public(start) - start
        n_longer = len(name + behind) - (stop - start)
        n_public_longer = len(mask + behind) - (stop - start)

        def moved(place: Place) -> Place:
            if place.start < stop:
                return place
            return place._replace(
                start=place.start + n_longer,
                stop=place.stop + n_longer,
                source_start=place.source_start + n_public_longer,
                source_stop=place.source_stop + n_public_longer,
            )

        own = Place(
            start,
            start + len(name),
            start + shift,
            start + shift + len(mask),
            category=CANARY,
            kind="full",
            role=CANARY,
            identity=f"{CANARY}:{row}",
            value=name,
            group=max((place.group for place in places), default=-1) + 1,
        )
        return replace(
            truth,
            private=truth.private[:start] + name + behind + truth.private[stop:],
            public=truth.public[: start + shift] + mask + behind + truth.public[stop + shift :],
            inserted=tuple(sorted((*map(moved, places), own), key=lambda place: place.start)),
            left=tuple(map(moved, truth.left)),
        )

    def _mask(self, row: int, *, is_japanese: bool) -> str:
        """Return what stands in D_public for a canary, as its other names are written."""
        if self.is_register:
            return "[氏名]" if is_japanese else "[NAME]"
        number = 90_000 + row  # above MIMIC-III's own numbers of a note
        marks = f"[**Known firstname {number}**] [**Known lastname {number}**]"
        return "___" if self.is_blank else marks

    def _where(self, text: str, index: int, *, is_japanese: bool) -> tuple[int, int, str]:
        """Return what the name replaces, and what follows it: nothing, or a sentence of its own."""
        for found in examine_ages(text):
            if isinstance(found, Unnamed) and found.subject_start < found.subject_end:
                start, stop = found.subject_start, found.subject_end
                # A particle stays.
                return start, stop - text[start:stop].endswith(tuple("は、，：:】")), ""
        rng = generator(self.seed, "canaries/sentence", index)
        age, sexes = int(rng.integers(20, 90)), _SEXES[int(rng.integers(2))]
        if is_japanese:
            return 0, 0, f"は{age}歳の{sexes[1]}。\n"
        return 0, 0, f" is a {age}-year-old {sexes[0]}.\n"
