"""Builds identified notes with a register of patients: D_private unchanged, D_public masked.

Input: a note, and the register's rows of its patient. Output: where these stand in the note, and
their marks in D_public. D_public still holds what a register does not know: staff, other dates, and
the relatives and places that it does not list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.corpus.truth import NoteTruth, Place
from audit.errors import AuditError
from audit.notes.folding import FoldedText, fold_text
from audit.notes.read import Note
from audit.notes.spans import CONTACT, LINKAGE_CODE, PERSONAL_ID_CODE, QUASI_IDENTIFIER
from audit.patients.finder import (
    ADDRESS,
    BIRTH,
    FIRST,
    FULL,
    INITIALS,
    LAST,
    MIDDLE,
    FullNames,
    Occurrence,
    Part,
    SearchedText,
    build_patient_finder,
)
from audit.patients.register import PatientRegister
from audit.shelf import JSON
from audit.text import is_unspaced

_MARKS = {
    FIRST: ("[FIRST]", "[名]"),
    MIDDLE: ("[MIDDLE]", "[氏名]"),
    LAST: ("[LAST]", "[姓]"),
    FULL: ("[NAME]", "[氏名]"),
    INITIALS: ("[NAME]", "[氏名]"),
    BIRTH: ("[DATE]", "[生年月日]"),
    ADDRESS: ("[PLACE]", "[住所]"),
    CONTACT: ("[CONTACT]", "[連絡先]"),
    LINKAGE_CODE: ("[ID]", "[番号]"),
    PERSONAL_ID_CODE: ("[ID]", "[番号]"),
    QUASI_IDENTIFIER: ("[PLACE]", "[郵便番号]"),
}
"""Marks in D_public for a part of a kind: in spaced and in unspaced script."""
_KINDS = {
    CONTACT: "contact",
    LINKAGE_CODE: "identifier",
    PERSONAL_ID_CODE: "identifier",
    QUASI_IDENTIFIER: "zipcode",
}
_NAME_KINDS = frozenset({FIRST, MIDDLE, LAST, FULL, INITIALS})


@dataclass(frozen=True)
class _Mention:
    """Parts that stand together, with the keys of their person and of namesakes."""

    parts: tuple[Part, ...]
    keys: tuple[str, ...]
    role: str = "patient"

    @property
    def n_chars(self) -> int:
        """Number of characters from the first to the last."""
        return self.parts[-1].stop - self.parts[0].start


@dataclass(frozen=True)
class RegisterFinder:
    """A register, prepared for searching notes."""

    register: PatientRegister
    full_names: FullNames

    @classmethod
    def from_register(cls, register: PatientRegister) -> RegisterFinder:
        """Return the finder of a register; raise an AuditError if it has no full name."""
        if not register.people:
            raise AuditError(
                "No row has an id and a name.",
                where="register",
                do="Write patient_id,first_name,last_name,sex,birth_date.",
            )
        names = (
            (patient, person.first, person.last)
            for patient, people in register.people.items()
            for person in people
        )
        return cls(register, FullNames(names))

    def make_truth(self, note: Note) -> NoteTruth:
        """Return a note in both corpora."""
        pieces = self.register.pieces.get(note.patient_id, "")
        return mask_registered(note, pieces=pieces, full_names=self.full_names)


def registered_people(register: PatientRegister) -> Iterator[dict[str, JSON]]:
    """Yield the records of `people.jsonl` for the patients with a full name."""
    for patient, people in register.people.items():
        names = dict.fromkeys((person.first, person.middle, person.last) for person in people)
        yield {
            "patient_id": patient,
            "names": [list(name) for name in names],
            "sex": next((person.sex for person in people if person.sex), ""),
        }


def mask_registered(note: Note, *, pieces: str, full_names: FullNames) -> NoteTruth:
    """Return a note in both corpora, with marks in D_public for everything in the register.

    `pieces` are the packed rows of the note's own patient, "" for none; other patients are found by
    their full names. A name of several patients belongs to the note's own patient if possible, else
    to the first of them.
    """
    text, patient = note.text, note.patient_id
    folded = fold_text(text)
    searched = SearchedText(folded.text)
    mentions = [
        _Mention(
            (Part(*folded.source_place(start, stop), FULL),),
            tuple(f"patient:{owner}" for owner in owners),
        )
        for start, stop, owners in full_names.find(searched)
        if patient not in owners
    ]
    if pieces:
        mentions += (
            _own_mention(folded, occurrence, patient)
            for occurrence in build_patient_finder(pieces).find(searched)
        )
    places, public = _mask_mentions(text, _separate_mentions(mentions, len(text)))
    return NoteTruth(text, public, places, chart_time=note.chart_time)


def _own_mention(folded: FoldedText, occurrence: Occurrence, patient: str) -> _Mention:
    """Return an occurrence as a mention.

    A relative's name is one part, because no list has it; a full name without spaces is one part,
    too.
    """
    text = folded.source
    start, stop = folded.source_place(occurrence.start, occurrence.stop)
    kinds = {part.kind for part in occurrence.parts}
    if not occurrence.is_own:
        key = f"relative:{patient}/{text[start:stop].casefold()}"
        return _Mention((Part(start, stop, FULL),), (key,), "relative")
    parts = tuple(
        Part(
            *folded.source_place(part.start, part.stop),
            INITIALS if part.kind.endswith(INITIALS) else part.kind,
        )
        for part in occurrence.parts
    )
    if {FIRST, LAST} <= kinds and all(is_unspaced(text[p.start : p.stop]) for p in parts):
        parts = (Part(start, stop, FULL),)
    return _Mention(parts, (f"patient:{patient}",))


def _separate_mentions(mentions: Sequence[_Mention], n_chars: int) -> list[_Mention]:
    """Return mentions that share no character, in order.

    If two mentions overlap, the longer one stays whole and the other keeps its remaining
    characters.
    """
    is_taken = bytearray(n_chars)
    separate = list[_Mention]()
    for mention in sorted(mentions, key=lambda mention: (-mention.n_chars, mention.parts)):
        parts = list[Part]()
        for part in mention.parts:
            parts += _free_parts(part, is_taken)
        if parts:
            separate.append(_Mention(tuple(parts), mention.keys, mention.role))
        for part in parts:
            is_taken[part.start : part.stop] = b"\1" * (part.stop - part.start)
    return sorted(separate, key=lambda mention: mention.parts)


def _free_parts(part: Part, is_taken: bytearray) -> Iterator[Part]:
    """Yield the stretches of a part that are not taken."""
    position = part.start
    while (start := is_taken.find(0, position, part.stop)) >= 0:
        stop = is_taken.find(1, start, part.stop)
        position = part.stop if stop < 0 else stop
        yield Part(start, position, part.kind)


def _mask_mentions(text: str, mentions: Sequence[_Mention]) -> tuple[tuple[Place, ...], str]:
    """Return the places of mentions in both texts, and the text with marks for them."""
    parts = ((part, group) for group, mention in enumerate(mentions) for part in mention.parts)
    public, end = "", 0
    places: list[Place] = []
    for (start, stop, kind), group in sorted(parts):
        mention = mentions[group]
        value = text[start:stop]
        mark = _MARKS[kind][is_unspaced(value)]
        public += text[end:start]
        category = "+".join(
            _KINDS.get(mention_part.kind, mention_part.kind) for mention_part in mention.parts
        )
        places.append(
            Place(
                start,
                stop,
                len(public),
                len(public) + len(mark),
                category=category,
                kind=_KINDS.get(kind, kind),
                role=mention.role,
                identity=mention.keys[0],
                value=value,
                group=group if kind in _NAME_KINDS else -1,
                namesakes=mention.keys[1:],
            )
        )
        public += mark
        end = stop
    return tuple(places), public + text[end:]
