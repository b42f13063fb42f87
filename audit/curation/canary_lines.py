"""Canaries in a corpus: planted into D_private and D_public alike, the truth moved along.

Comes in: the three lines of a note, the plan. Goes out: three lines. Everything that the truth
says about the note still stands where it says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from audit.corpora.build_batch import json_line
from audit.corpora.canaries import CanaryPlan, PlantedNote, plant_in
from audit.corpora.notes import Note
from audit.curation.corpus_lines import CANARY, NoteLines, note_pair, read_line
from audit.names import is_unspaced

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
