"""Canaries in a corpus: planted into D_private and D_public alike, the truth moved along.

Comes in: the three lines of a note, the plan. Goes out: three lines. Everything that the truth
says about the note still stands where it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit.corpus.build import json_line
from audit.corpus.truth import CANARY, NoteLines, note_pair, read_line
from audit.errors import AuditError
from audit.notes.mention_words import Unnamed
from audit.notes.mentions import examine
from audit.notes.read import Note
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


# Truth record of each kind: its list of places, and the keys of their offsets in D_public.
_PLACES = {
    "dummy": (("inserted", "left"), ("source_start", "source_stop")),
    "register": (("mentions",), ("public_start", "public_stop")),
}


@dataclass(frozen=True)
class Planting:
    """The plan, and how names are written in D_public.

    Attributes
    ----------
    plan
        Which canary goes into which note.
    kind
        Of the corpus.
    is_blank
        Whether D_public writes `___` for every placeholder (MIMIC-IV).
    seed
        Of the sentences.
    """

    plan: CanaryPlan
    kind: str
    is_blank: bool
    seed: int

    def placeholder(self, row: int) -> str:
        """Return what stands in D_public for a canary, as its other names are written."""
        canary = self.plan.canaries[row]
        if self.kind == "register":
            return "[氏名]" if is_unspaced(canary.first + canary.last) else "[NAME]"
        if self.is_blank:
            return "___"
        number = 90_000 + row  # above MIMIC-III's own numbers of a note
        return f"[**Known firstname {number}**] [**Known lastname {number}**]"


def plant_lines(lines: NoteLines, *, row: int, planting: Planting) -> NoteLines:
    """Return the lines of a note with the plan's canary `row` in it."""
    private, public = read_line(lines.private), read_line(lines.public)
    truth = read_line(lines.truth) if lines.truth else _nothing(private, kind=planting.kind)
    pair = note_pair(private, public, truth, kind=planting.kind)
    note = Note("", "", "", "", "", text=pair.private, row=int(private["row"]))
    planted = plant_in(
        note, plan=planting.plan, row=row, index=lines.index, seed=planting.seed
    )  # fmt: skip
    name = planted.note.text[planted.start : planted.end]
    # What a canary replaces holds no placeholder: it lies as far from the last one in both texts.
    shift = next(
        (p.public_end - p.end for p in reversed(pair.pieces) if p.end <= planted.old_start), 0
    )
    place = planting.placeholder(row)
    other = _in_public(planted, shift=shift, n_longer=len(place) - len(name))
    sentence = planted.note.text[planted.old_start : planted.old_start + planted.n_inserted]
    before = planted.start - planted.old_start
    sentence = sentence[:before] + place + sentence[before + len(name) :]
    text = pair.public[: other.old_start] + sentence + pair.public[other.old_end :]
    truth = _moved(truth, planted, other, kind=planting.kind)
    _add(truth, planted, other, name=name, planting=planting)
    return replace(
        lines,
        private=json_line(private | {"text": planted.note.text}),
        public=json_line(public | {"text": text}),
        truth=json_line(truth),
    )


def _nothing(private: dict[str, Any], *, kind: str) -> dict[str, Any]:
    row, note_id, patient = private["row"], private["note_id"], private["patient_id"]
    if kind == "register":
        return {"row": row, "note_id": note_id, "patient_id": patient, "mentions": []}
    key = f"patient:{patient}" if patient else f"note:{row}"
    return {"row": row, "note_id": note_id, "patient": key, "inserted": [], "left": [],
            "n_malformed": 0}  # fmt: skip


def _in_public(planted: PlantedNote, *, shift: int, n_longer: int) -> PlantedNote:
    """Return the same change as it is in D_public."""
    return replace(
        planted,
        start=planted.start + shift,
        end=planted.end + shift + n_longer,
        old_start=planted.old_start + shift,
        old_end=planted.old_end + shift,
        n_inserted=planted.n_inserted + n_longer,
    )


def _moved(
    truth: dict[str, Any], private: PlantedNote, public: PlantedNote, *, kind: str
) -> dict[str, Any]:
    lists, public_keys = _PLACES[kind]
    moves = {key: private.moved for key in ("start", "stop")}
    moves |= {key: public.moved for key in public_keys}
    places = {
        name: [
            place | {key: move(place[key]) for key, move in moves.items()} for place in truth[name]
        ]
        for name in lists
    }
    return truth | places


def _add(
    truth: dict[str, Any],
    private: PlantedNote,
    public: PlantedNote,
    *,
    name: str,
    planting: Planting,
) -> None:
    lists, public_keys = _PLACES[planting.kind]
    places = truth[lists[0]]
    person = f"{CANARY}:{private.canary}"
    place: dict[str, object] = {
        "start": private.start,
        "stop": private.end,
        public_keys[0]: public.start,
        public_keys[1]: public.end,
    }
    if planting.kind == "dummy":
        group = max((found["group"] for found in places), default=-1) + 1
        place |= {"category": CANARY, "kind": "full", "role": CANARY, "identity": person,
                  "value": name, "group": group}  # fmt: skip
    else:
        number = max((found["mention"] for found in places), default=-1) + 1
        place |= {"kind": "full", "form": CANARY, "mention": number, "patient_ids": [person],
                  "is_own": False}  # fmt: skip
    places.append(place)
    places.sort(key=lambda found: found["start"])


def canary_name(plan: CanaryPlan, person: str) -> tuple[str, str]:
    """Return the (first, last) of a person "canary:ROW"."""
    canary = plan.canaries[int(person.partition(":")[2])]
    return canary.first, canary.last
