"""Canaries: invented names planted in notes a known number of times, with twins left out.

Comes in: notes, names that nobody carries in them, how often to plant each. Goes out: the notes
with the names in, and where. Planted names and twins come from one shuffled list, so that without
leakage any score ranks them alike: that makes ranks exact tests.

A name takes the place of "The patient" in "The patient is a 70-year-old man" where the note has
such words, as a patient who is named would; else a sentence is put before the note.

Source: Carlini et al. 2019, "The Secret Sharer", section 4 (canaries). Differs: names in clinical
sentences instead of random digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from audit.corpora.mention_record import Unnamed
from audit.corpora.mentions import examine
from audit.corpora.notes import Note
from audit.errors import AuditError
from audit.names import fold_name, is_unspaced, written_name
from audit.randomness import generator

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
    """Which canary goes into which note: `notes` holds (index of the note, row of the canary)."""

    canaries: tuple[Canary, ...]
    notes: tuple[tuple[int, int], ...]

    @property
    def planted(self) -> tuple[Canary, ...]:
        """Those that are in the notes."""
        return tuple(canary for canary in self.canaries if canary.n_mentions)

    @property
    def twins(self) -> tuple[Canary, ...]:
        """Those that are not."""
        return tuple(canary for canary in self.canaries if not canary.n_mentions)


@dataclass(frozen=True)
class PlantedNote:
    """A note after planting.

    Attributes
    ----------
    note
        With the changed text; the very note where nothing was planted.
    canary
        The canary's row; -1 where nothing was planted.
    start, end
        Offsets of the name in the new text.
    old_start, old_end
        Offsets in the old text of what it replaced.
    n_inserted
        Characters of the new text that stand for `old_start` to `old_end`.
    """

    note: Note
    canary: int
    start: int
    end: int
    old_start: int
    old_end: int
    n_inserted: int

    def moved(self, at: int) -> int:
        """Return where an offset of the old text lies in the new one."""
        if self.canary < 0 or at < self.old_end or at == self.old_start < self.old_end:
            return at
        return at + self.n_inserted - (self.old_end - self.old_start)


def plan_canaries(
    names: Sequence[tuple[str, str]],
    *,
    n_notes: int,
    seed: int,
    counts: Sequence[int] = COUNTS,
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

    Raises
    ------
    AuditError
        If there are too few names or notes, names repeat, or a count is not positive.
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
        canaries.append(
            Canary(names[index][0], names[index][1], n_mentions, group=count, pair=place // 2)
        )
    chosen = generator(seed, "canaries/notes").permutation(n_notes)[:n_needed].tolist()
    return CanaryPlan(tuple(canaries), tuple(sorted(zip(chosen, rows, strict=True))))


def planted(
    notes: Iterable[Note], *, plan: CanaryPlan, seed: int, placeholder: str = ""
) -> Iterator[PlantedNote]:
    """Yield all notes in order, with the canaries in.

    Parameters
    ----------
    placeholder
        What to write in the name's place, as in D_public: "[NAME]"; the name itself if "".

    Raises
    ------
    AuditError
        At the end, if there were fewer notes than planned.
    """
    wanted: Mapping[int, int] = dict(plan.notes)
    n_seen = 0
    for index, note in enumerate(notes):
        n_seen += 1
        row = wanted.get(index)
        if row is None:
            yield PlantedNote(note, -1, 0, 0, 0, 0, 0)
        else:
            yield plant_in(
                note, plan=plan, row=row, index=index, seed=seed, placeholder=placeholder
            )
    if plan.notes and n_seen <= plan.notes[-1][0]:
        raise AuditError("There are fewer notes than were planned for.", where="canaries")


def plant_in(
    note: Note, *, plan: CanaryPlan, row: int, index: int, seed: int, placeholder: str = ""
) -> PlantedNote:
    """Return one note, the corpus's `index`-th, with the plan's canary `row` in it."""
    canary = plan.canaries[row]
    name = placeholder or written_name(canary.first, canary.last)
    is_japanese = is_unspaced(canary.first + canary.last)
    rng = generator(seed, "canaries/sentence", index)
    drawn = int(rng.integers(20, 90)), int(rng.integers(2))
    return _planted(note, name, row, is_japanese, drawn)


def _planted(
    note: Note, name: str, row: int, is_japanese: bool, drawn: tuple[int, int]
) -> PlantedNote:
    text = note.text
    subject = next(
        (
            found
            for found in examine(text)
            if isinstance(found, Unnamed) and found.subject_start < found.subject_end
        ),
        None,
    )
    age, sex = drawn
    if subject is not None:
        start, end, before, behind = subject.subject_start, subject.subject_end, "", ""
        if text[start:end].endswith(("は", "、", "，", "：", ":", "】")):
            end -= 1  # the particle stays
    elif is_japanese:
        start = end = 0
        before, behind = "", f"は{age}歳の{_SEXES[sex][1]}。\n"
    else:
        start = end = 0
        before, behind = "", f" is a {age}-year-old {_SEXES[sex][0]}.\n"
    new = before + name + behind
    return PlantedNote(
        note=replace(note, text=text[:start] + new + text[end:]),
        canary=row,
        start=start + len(before),
        end=start + len(before) + len(name),
        old_start=start,
        old_end=end,
        n_inserted=len(new),
    )
