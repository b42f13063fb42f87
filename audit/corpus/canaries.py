"""Plants canaries into D_private and D_public alike, and moves the places of the truth.

Input: names that nobody carries, a note with its truth. Output: a plan, and the same note with a
planted name. All places in the truth of the note remain correct.
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
    """A name that is planted `n_mentions` times; 0: the twin of the canary before, left out."""

    first: str
    last: str
    n_mentions: int


@dataclass(frozen=True)
class CanaryPlan:
    """A plan of canaries: `rows` has the row of the canary by the position of its note."""

    canaries: tuple[Canary, ...] = ()
    rows: Mapping[int, int] = field(default_factory=dict)


def draw_absent_names(
    pool: NamePool,
    *,
    n: int,
    seed: int,
    used_pairs: Collection[Pair],
    accepts: Accepts | None = None,
) -> tuple[Name, ...]:
    """Draw n names of the pool, none of them in `used_pairs`, to be planted or held out."""

    def is_acceptable(first: str, last: str) -> bool:
        return is_absent(used_pairs, first, last) and (not accepts or accepts(first, last))

    names = draw_names(pool, n=n, seed=seed, accepts=is_acceptable, purpose="canaries")
    if len(names) < n:
        raise AuditError(
            "Only {n_drawn:,} names are left that nobody carries; {n:,} are needed.",
            where="canaries",
            do="Plant fewer names.",
            n_drawn=len(names),
            n=n,
        )
    return tuple(zip(names.first, names.last, strict=True))


def plan_canaries(
    names: Sequence[Name], *, n_notes: int, seed: int, counts: Sequence[int]
) -> CanaryPlan:
    """Draw the names to plant, their numbers of mentions, their twins and their notes.

    Each of the distinct counts above 0 gets the same even number of distinct names: half are
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
    """Return planted names as members and twins as controls; the i-th ones of both form a pair."""
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
    """How canaries are planted into notes; `seed` is for the sentences added for them.

    `is_register`: D_public has the marks of a register. `is_blank`: D_public has `___` in all
    places (MIMIC-IV).
    """

    plan: CanaryPlan
    is_register: bool
    is_blank: bool
    seed: int

    def plant_canary(self, truth: NoteTruth, *, index: int) -> NoteTruth:
        """Return note `index` of the corpus with its canary of the plan.

        The name replaces an unnamed patient ("the patient is a 45-year-old man"); in a note without
        one it begins a new sentence at the start of the note.
        """
        if index not in self.plan.rows:
            return truth
        row = self.plan.rows[index]
        canary = self.plan.canaries[row]
        name = written_name(canary.first, canary.last)
        mask = self._public_mask(row, is_japanese=is_unspaced(name))
        start, stop, ending = self._find_place(truth.private, index, is_japanese=is_unspaced(name))
        places = truth.inserted
        # The replaced text holds no placeholder: in it, both texts have a constant offset.
        shift = truth.in_public(start) - start
        n_longer = len(name + ending) - (stop - start)
        n_public_longer = len(mask + ending) - (stop - start)

        def move_place(place: Place) -> Place:
            if place.start < stop:
                return place
            return place._replace(
                start=place.start + n_longer,
                stop=place.stop + n_longer,
                source_start=place.source_start + n_public_longer,
                source_stop=place.source_stop + n_public_longer,
            )

        canary_place = Place(
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
            private=truth.private[:start] + name + ending + truth.private[stop:],
            public=truth.public[: start + shift] + mask + ending + truth.public[stop + shift :],
            inserted=tuple(
                sorted((*map(move_place, places), canary_place), key=lambda place: place.start)
            ),
            left=tuple(map(move_place, truth.left)),
        )

    def _public_mask(self, row: int, *, is_japanese: bool) -> str:
        """Return the mark of a canary in D_public, in the form of its other marks for names."""
        if self.is_register:
            return "[氏名]" if is_japanese else "[NAME]"
        number = 90_000 + row  # above the numbers that MIMIC-III uses in a note
        marks = f"[**Known firstname {number}**] [**Known lastname {number}**]"
        return "___" if self.is_blank else marks

    def _find_place(self, text: str, index: int, *, is_japanese: bool) -> tuple[int, int, str]:
        """Return what the name replaces, and the text to add after it: "" or a new sentence."""
        for finding in examine_ages(text):
            if isinstance(finding, Unnamed) and finding.subject_start < finding.subject_end:
                start, stop = finding.subject_start, finding.subject_end
                # The particle after the subject stays.
                return start, stop - text[start:stop].endswith(tuple("は、，：:】")), ""
        rng = generator(self.seed, "canaries/sentence", index)
        age, sexes = int(rng.integers(20, 90)), _SEXES[int(rng.integers(2))]
        if is_japanese:
            return 0, 0, f"は{age}歳の{sexes[1]}。\n"
        return 0, 0, f" is a {age}-year-old {sexes[0]}.\n"
