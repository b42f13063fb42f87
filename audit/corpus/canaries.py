"""Canaries in a corpus: planted into D_private and D_public alike, the truth moved along.

Comes in: names that nobody carries, a note with its truth. Goes out: a plan, and the same note with
a planted name. Everything that the truth says about the note still stands where it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from audit.corpus.truth import CANARY, NoteTruth, Place
from audit.errors import AuditError
from audit.names.controls import Accepts, Name, draw_names
from audit.names.matching import Pair, pair_of
from audit.names.pools import NamePool
from audit.notes.mention_words import Unnamed
from audit.notes.mentions import examine
from audit.rng import generator
from audit.text import fold_name, is_unspaced, written_name

COUNTS = (1, 2, 4, 8)
_SEXES = (("man", "男性"), ("woman", "女性"))


@dataclass(frozen=True)
class Canary:
    """A name that was planted `n_mentions` times; 0: a twin, left out of the notes.

    `group` is the number of mentions of the planted names it belongs to, and of itself if planted.
    `pair` numbers the pairs of a planted name and its twin.
    """

    first: str
    last: str
    n_mentions: int
    group: int
    pair: int


@dataclass(frozen=True)
class CanaryPlan:
    """Which canary goes into which note: `rows` has the canary's row by the note's position."""

    canaries: tuple[Canary, ...]
    rows: Mapping[int, int]

    @property
    def planted(self) -> tuple[Canary, ...]:
        """Those that are in the notes."""
        return tuple(canary for canary in self.canaries if canary.n_mentions)

    @property
    def twins(self) -> tuple[Canary, ...]:
        """Those that are not."""
        return tuple(canary for canary in self.canaries if not canary.n_mentions)


def absent_names(
    pool: NamePool,
    *,
    n: int,
    seed: int,
    found: Mapping[Pair, int],
    exclude: Sequence[Name] = (),
    accepts: Accepts = lambda first, last: True,
) -> tuple[Name, ...]:
    """Draw n names of the pool that are not in the notes, to be planted or held out."""
    taken = {*found, *(pair_of(*name) for name in exclude)}

    def is_absent(first: str, last: str) -> bool:
        return pair_of(first, last) not in taken and pair_of(last, first) not in taken

    n_drawn = n
    while True:
        drawn = draw_names(pool, n=n_drawn, seed=seed, accepts=is_absent, purpose="canaries")
        good = [name for name in zip(drawn.first, drawn.last, strict=True) if accepts(*name)]
        if len(good) >= n:
            return tuple(good[:n])
        if len(drawn) < n_drawn:
            raise AuditError(
                f"Only {len(good):,} names are left that nobody carries; {n:,} are needed.",
                where="canaries",
                do="Plant fewer names.",
            )
        n_drawn *= 2


def plan_canaries(
    names: Sequence[Name], *, n_notes: int, seed: int, counts: Sequence[int] = COUNTS
) -> CanaryPlan:
    """Decide by chance which names are planted how often, which are twins, and in which notes.

    Parameters
    ----------
    names
        An even number of distinct (first, last) for each of the counts: half are planted, half are
        twins. Names beyond the largest such number are not used.
    n_notes
        Notes of the corpus; a note gets one canary at most.
    counts
        How often names are planted.
    """
    if not counts or min(counts) < 1 or len(set(counts)) != len(counts):
        raise AuditError(
            "The numbers of mentions are not distinct and above zero.", where="canaries"
        )
    if len({fold_name(written_name(*name)) for name in names}) != len(names):
        raise AuditError("Two names are the same.", where="canaries")
    n_pairs = len(names) // (2 * len(counts))
    n_needed = n_pairs * sum(counts)
    if not n_pairs:
        raise AuditError(f"{2 * len(counts)} names are needed at least.", where="canaries")
    if n_needed > n_notes:
        raise AuditError(
            f"{n_needed:,} notes are needed, one for each mention; there are {n_notes:,}.",
            where="canaries",
            do="Plant fewer names, or each less often.",
        )
    order = generator(seed, "canaries/names").permutation(len(names))[: 2 * n_pairs * len(counts)]
    canaries: list[Canary] = []
    rows: list[int] = []
    for place, index in enumerate(order.tolist()):
        count = counts[place // 2 % len(counts)]
        n_mentions = count if place % 2 == 0 else 0
        rows += [place] * n_mentions
        first, last = names[index]
        canaries.append(Canary(first, last, n_mentions, group=count, pair=place // 2))
    chosen = generator(seed, "canaries/notes").permutation(n_notes)[:n_needed].tolist()
    return CanaryPlan(tuple(canaries), dict(sorted(zip(chosen, rows, strict=True))))


@dataclass(frozen=True)
class Planting:
    """How canaries are put into notes.

    Attributes
    ----------
    plan
        Which canary goes into which note.
    is_register, is_blank
        Whether D_public has the places of a register, or `___` for all (MIMIC-IV).
    seed
        Of the sentences.
    """

    plan: CanaryPlan
    is_register: bool
    is_blank: bool
    seed: int

    def placeholder(self, row: int) -> str:
        """Return what stands in D_public for a canary, as its other names are written."""
        canary = self.plan.canaries[row]
        if self.is_register:
            return "[氏名]" if is_unspaced(canary.first + canary.last) else "[NAME]"
        if self.is_blank:
            return "___"
        number = 90_000 + row  # above MIMIC-III's own numbers of a note
        return f"[**Known firstname {number}**] [**Known lastname {number}**]"

    def planted(self, truth: NoteTruth, *, index: int) -> NoteTruth:
        """Return the corpus's `index`-th note with the canary in it that the plan has for it.

        The name takes the place of an unnamed patient ("the patient is a 45-year-old man"); in a
        note without one it begins a sentence of its own.
        """
        row = self.plan.rows.get(index)
        if row is None:
            return truth
        canary = self.plan.canaries[row]
        name, mask = written_name(canary.first, canary.last), self.placeholder(row)
        is_japanese = is_unspaced(canary.first + canary.last)
        start, stop, behind = self._where(truth.private, index, is_japanese=is_japanese)
        places = truth.inserted or ()
        # What a canary replaces holds no placeholder: it lies as far from the last one in both.
        shift = next((p.source_stop - p.stop for p in reversed(places) if p.stop <= start), 0)
        n_longer = len(name) + len(behind) - (stop - start)
        n_public_longer = n_longer + len(mask) - len(name)

        def moved(place: Place) -> Place:
            if place.start < stop or place.start == start < stop:
                return place
            return replace(
                place,
                start=place.start + n_longer,
                stop=place.stop + n_longer,
                source_start=place.source_start + n_public_longer,
                source_stop=place.source_stop + n_public_longer,
            )

        own = Place(
            start, start + len(name), start + shift, start + shift + len(mask),
            category=CANARY, kind="full", role=CANARY, identity=f"{CANARY}:{row}", value=name,
            group=max((place.group for place in places), default=-1) + 1,
        )  # fmt: skip
        inserted = sorted((*map(moved, places), own), key=lambda place: place.start)
        public = truth.public
        return NoteTruth(
            truth.private[:start] + name + behind + truth.private[stop:],
            public[: start + shift] + mask + behind + public[stop + shift :],
            tuple(inserted),
            tuple(map(moved, truth.left)),
            truth.n_malformed,
        )

    def _where(self, text: str, index: int, *, is_japanese: bool) -> tuple[int, int, str]:
        """Return what the name replaces, and what follows it: nothing, or a sentence of its own."""
        rng = generator(self.seed, "canaries/sentence", index)
        age, sex = int(rng.integers(20, 90)), int(rng.integers(2))
        for found in examine(text):
            if isinstance(found, Unnamed) and found.subject_start < found.subject_end:
                start, stop = found.subject_start, found.subject_end
                # A particle stays.
                return start, stop - text[start:stop].endswith(tuple("は、，：:】")), ""
        if is_japanese:
            return 0, 0, f"は{age}歳の{_SEXES[sex][1]}。\n"
        return 0, 0, f" is a {age}-year-old {_SEXES[sex][0]}.\n"


def canary_name(plan: CanaryPlan, person: str) -> Name:
    """Return the (first, last) of a person "canary:ROW"."""
    canary = plan.canaries[int(person.partition(":")[2])]
    return canary.first, canary.last
