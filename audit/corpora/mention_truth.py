"""What is known about a note: its text in D_private and in D_public, and whose name stands where.

Comes in: records of the truth files that the corpus builders write. Goes out: frozen pairs of
texts with names and with the places where the two differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """A part of the text that differs: its offsets in D_private and in D_public."""

    start: int
    end: int
    public_start: int
    public_end: int


@dataclass(frozen=True)
class TrueName:
    """A person's name in D_private: offsets, whose it is, and the person's role."""

    start: int
    end: int
    person: str
    role: str


@dataclass(frozen=True)
class NotePair:
    """A note in both corpora.

    Attributes
    ----------
    note_id
        As in the corpus.
    private, public
        The text with names and with placeholders; the same text where only one is at hand.
    pieces
        Where the two differ, in order.
    names
        The names in `private`, in order; None where the truth is not known: then a mention belongs
        to whom it names.
    """

    note_id: str
    private: str
    public: str
    pieces: tuple[Piece, ...] = ()
    names: tuple[TrueName, ...] | None = None


@dataclass(frozen=True)
class _Place:
    piece: Piece
    group: int
    person: str
    role: str


def pair_from_truth(
    record: Mapping[str, object], *, note_id: str, private: str, public: str
) -> NotePair:
    """Read a record of the truth file of `audit.corpora.build`: dummy identities put in.

    Names of one person that stand together are one name; initials belong to it.
    """
    places = [
        _Place(
            piece=_piece(place, "source_start", "source_stop"),
            group=_whole(place["group"]),
            person=str(place["identity"]),
            role=str(place["role"]),
        )
        for place in _records(record.get("inserted"))
    ]
    return _pair(places, note_id=note_id, private=private, public=public)


def pair_from_register(
    record: Mapping[str, object] | None, *, note_id: str, private: str, public: str
) -> NotePair:
    """Read a record of the truth file of `audit.corpora.register_build`: real names taken out.

    None where the file has no record of the note: it names nobody of the register. A name that
    several patients carry is the note's own patient's, else the first one's.
    """
    places = []
    for place in _records((record or {}).get("mentions")):
        people = place["patient_ids"]
        named = [str(person) for person in people] if isinstance(people, Sequence) else []
        own = str((record or {}).get("patient_id", ""))
        places.append(
            _Place(
                piece=_piece(place, "public_start", "public_stop"),
                group=-1 if place["kind"] == "birth" else _whole(place["mention"]),
                person=own if place["is_own"] or not named else named[0],
                role="patient",
            )
        )
    return _pair(places, note_id=note_id, private=private, public=public)


def _pair(places: Iterable[_Place], *, note_id: str, private: str, public: str) -> NotePair:
    ordered = sorted(places, key=lambda place: place.piece.start)
    groups: dict[tuple[int, str], list[_Place]] = {}
    for place in ordered:
        if place.group >= 0:
            groups.setdefault((place.group, place.person), []).append(place)
    names = [
        TrueName(
            start=min(place.piece.start for place in group),
            end=max(place.piece.end for place in group),
            person=person,
            role=group[0].role,
        )
        for (_, person), group in groups.items()
    ]
    names.sort(key=lambda name: name.start)
    return NotePair(note_id, private, public, tuple(place.piece for place in ordered), tuple(names))


def _piece(place: Mapping[str, object], public_start: str, public_stop: str) -> Piece:
    keys = ("start", "stop", public_start, public_stop)
    return Piece(*(_whole(place[key]) for key in keys))


def _records(value: object) -> list[Mapping[str, object]]:
    places = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return [place for place in places if isinstance(place, Mapping)]


def _whole(value: object) -> int:
    return int(str(value))
