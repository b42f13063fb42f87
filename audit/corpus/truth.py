"""Notes of a corpus that hold a listed name: whose patients a training must not hold out.

Comes in: `listed.json` of a corpus's folder, or positions. Goes out: the other one. A position
counts from 0 in `private.jsonl`, and is the same in the corpus's other files of notes.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from audit.corpus.build import PRIVATE, PUBLIC, TRUTH
from audit.errors import AuditError
from audit.notes.mention_words import FORMS, PLACEHOLDER, REASONS, Mention, Unnamed
from audit.notes.mentions import examine, find_mentions
from audit.notes.passages import Passage
from audit.notes.placeholders import find_name_slot
from audit.notes.sentences import end_of_sentences, start_of_sentence


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
    """Read a record of the truth file of `audit.corpus.build`: dummy identities put in.

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
    """Read a record of the truth file of `audit.corpus.register`: real names taken out.

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


N_SENTENCES = 5


@dataclass(frozen=True)
class NamePattern:
    """One patient-name pattern.

    Attributes
    ----------
    note_id
        Where it is.
    person
        The register's or the truth file's key; "" where the truth is not known.
    role
        "patient", "staff" ...; "" where not known.
    first, last
        As in the text.
    form
        Of the mention.
    text
        The sentences of D_private with single spaces: two patterns with the same text are one.
    passage
        The same sentences of D_public, with the place of the name.
    """

    note_id: str
    person: str
    role: str
    first: str
    last: str
    form: str
    text: str
    passage: Passage


def patterns_of(
    note: NotePair,
    *,
    n_sentences: int = N_SENTENCES,
    n_left_sentences: int = 0,
    known: Collection[str] = (),
    people: Mapping[str, tuple[str, str]] | None = None,
    mentions: Sequence[Mention] | None = None,
) -> Iterator[NamePattern]:
    """Yield the patterns of a note: its mentions with first and last name whose owner is known.

    Parameters
    ----------
    n_sentences
        Sentences from the mention on.
    n_left_sentences
        1: with the beginning of the mention's sentence (what stands before the name moves it to
        the position it had in training). 0: from the mention on, as in the paper.
    known
        As in `find_mentions`.
    people
        (first, last) of each person of the truth; the name as it is in the text where not given.
    mentions
        What `find_mentions` gives for `private`, where that is at hand already.
    """
    for mention in find_mentions(note.private, known=known) if mentions is None else mentions:
        if not mention.is_full or mention.is_placeholder:
            continue
        owner = owner_of(mention, note.names)
        if note.names is not None and owner is None:
            continue
        end = end_of_sentences(note.private, start=mention.start, n=n_sentences)
        start = mention.start
        if n_left_sentences:
            start = start_of_sentence(note.private, at=mention.start)
        places = [_public(note.pieces, at) for at in (start, mention.name_start)]
        places += [_public(note.pieces, at, is_end=True) for at in (mention.name_end, end)]
        first, last = mention.first, mention.last
        if owner is not None and people is not None and owner.person in people:
            first, last = people[owner.person]
        yield NamePattern(
            note_id=note.note_id,
            person=owner.person if owner else "",
            role=owner.role if owner else "",
            first=first,
            last=last,
            form=mention.form,
            text=" ".join(note.private[start:end].split()),
            passage=_passage(note, mention, places, owner=(first, last)),
        )


def owner_of(mention: Mention, names: Sequence[TrueName] | None) -> TrueName | None:
    """Return the true name that a mention's name overlaps; None where there is none."""
    for name in names or ():
        if name.start < mention.name_end and mention.name_start < name.end:
            return name
    return None


def _public(pieces: Sequence[Piece], at: int, *, is_end: bool = False) -> int:
    """Return the offset in D_public of an offset in D_private; of a piece its beginning or end."""
    index = bisect_right(pieces, at, key=lambda piece: piece.start) - 1
    if index >= 0 and is_end and pieces[index].start == at:
        index -= 1
    if index < 0:
        return at
    piece = pieces[index]
    if at >= piece.end:
        return piece.public_end + at - piece.end
    return piece.public_end if is_end else piece.public_start


def _passage(
    note: NotePair,
    mention: Mention,
    places: Sequence[int],
    *,
    owner: tuple[str, str] | int | None,
) -> Passage:
    start, name_start, name_end, end = places
    # What is left and right of the name is cleaned as the reader of passages does it; a name
    # placeholder on the left must not be taken for the patient's.
    left = PLACEHOLDER.sub("[**x**]", note.public[start:name_start])
    before = find_name_slot(f"{left}[NAME]")
    behind = find_name_slot(f"[NAME]{note.public[name_end:end]}")
    between = note.private[mention.name_start : mention.name_end]
    return Passage(
        left=before.left if before else "",
        slots=mention.roles,
        separator=_separator(between, mention),
        right=behind.right if behind else "",
        passage_id=note.note_id,
        owner=owner,
    )


def _separator(written: str, mention: Mention) -> str:
    if mention.roles == ("full",):
        return ""
    if "," in written:
        return ", "
    if "\u3000" in written:
        return "\u3000"
    if mention.form.startswith("ja_") and " " not in written:
        return "・" if "・" in written else ""
    return " "


@dataclass(frozen=True)
class MentionCoverage:
    """Counts over notes; two of them add up with +.

    Attributes
    ----------
    n_notes, n_notes_with_mention
        Notes read, and those with a mention at least.
    forms
        Mentions for each of `FORMS`.
    reasons
        Ages without a mention for each of `REASONS`.
    n_full
        Mentions with first and last name, or a placeholder for the whole name.
    n_placeholder
        Mentions whose name is a placeholder.
    n_by_role
        (role, mentions) of people that the truth knows, sorted; empty where it is not known.
    n_of_nobody
        Mentions that are no name of the truth.
    n_true_names, n_true_names_mentioned
        Names of patients in the notes according to the truth, and those that are a mention's: the
        others stand elsewhere.
    """

    n_notes: int
    n_notes_with_mention: int
    forms: tuple[int, ...]
    reasons: tuple[int, ...]
    n_full: int
    n_placeholder: int
    n_by_role: tuple[tuple[str, int], ...]
    n_of_nobody: int
    n_true_names: int
    n_true_names_mentioned: int

    def __post_init__(self) -> None:
        """Check the columns against the lists."""
        if len(self.forms) != len(FORMS) or len(self.reasons) != len(REASONS):
            raise ValueError("one count for each form and reason")
        if self.n_true_names_mentioned > self.n_true_names or self.n_full > self.n_mentions:
            raise ValueError("a part is larger than the whole")

    @property
    def n_mentions(self) -> int:
        """Mentions of all forms."""
        return sum(self.forms)

    @property
    def n_elsewhere(self) -> int:
        """Patients' names that stand elsewhere than in a mention."""
        return self.n_true_names - self.n_true_names_mentioned

    @property
    def by_form(self) -> tuple[tuple[str, int], ...]:
        """(form, mentions), forms that do not occur left out."""
        return tuple((form, n) for form, n in zip(FORMS, self.forms, strict=True) if n)

    @property
    def by_reason(self) -> tuple[tuple[str, int], ...]:
        """(reason, ages without a mention)."""
        return tuple(zip(REASONS, self.reasons, strict=True))

    def __add__(self, other: MentionCoverage) -> MentionCoverage:
        roles = Counter(dict(self.n_by_role)) + Counter(dict(other.n_by_role))
        return MentionCoverage(
            n_notes=self.n_notes + other.n_notes,
            n_notes_with_mention=self.n_notes_with_mention + other.n_notes_with_mention,
            forms=tuple(map(sum, zip(self.forms, other.forms, strict=True))),
            reasons=tuple(map(sum, zip(self.reasons, other.reasons, strict=True))),
            n_full=self.n_full + other.n_full,
            n_placeholder=self.n_placeholder + other.n_placeholder,
            n_by_role=tuple(sorted(roles.items())),
            n_of_nobody=self.n_of_nobody + other.n_of_nobody,
            n_true_names=self.n_true_names + other.n_true_names,
            n_true_names_mentioned=self.n_true_names_mentioned + other.n_true_names_mentioned,
        )


NO_NOTES = MentionCoverage(0, 0, (0,) * len(FORMS), (0,) * len(REASONS), 0, 0, (), 0, 0, 0)
"""The coverage of no notes, to begin a sum with."""


def coverage_of(
    note: NotePair,
    *,
    known: Collection[str] = (),
    examined: Sequence[Mention | Unnamed] | None = None,
) -> MentionCoverage:
    """Return the coverage of one note; mentions are looked for in `private`.

    `examined` is what `examine` gives for it, where that is at hand already.
    """
    forms: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    roles: Counter[str] = Counter()
    mentioned: set[tuple[int, int]] = set()
    n_full = n_placeholder = n_of_nobody = 0
    for found in examine(note.private, known=known) if examined is None else examined:
        if not isinstance(found, Mention):
            reasons[found.reason] += 1
            continue
        forms[found.form] += 1
        n_full += found.is_full
        n_placeholder += found.is_placeholder
        owner = owner_of(found, note.names)
        if owner is not None:
            roles[owner.role] += 1
            mentioned.add((owner.start, owner.end))
        elif note.names is not None:
            n_of_nobody += 1
    patients = [name for name in note.names or () if name.role in ("patient", "")]
    return MentionCoverage(
        n_notes=1,
        n_notes_with_mention=int(bool(forms)),
        forms=tuple(forms[form] for form in FORMS),
        reasons=tuple(reasons[reason] for reason in REASONS),
        n_full=n_full,
        n_placeholder=n_placeholder,
        n_by_role=tuple(sorted(roles.items())),
        n_of_nobody=n_of_nobody,
        n_true_names=len(patients),
        n_true_names_mentioned=sum((n.start, n.end) in mentioned for n in patients),
    )


def coverage(notes: Iterable[NotePair], *, known: Collection[str] = ()) -> MentionCoverage:
    """Return the coverage of a corpus, read once."""
    total = NO_NOTES
    for note in notes:
        total += coverage_of(note, known=known)
    return total


CANARY = "canary"
"""Role of a planted name; the person is "canary:ROW", the row of the list of canaries."""

_ROW = re.compile(rb'\{"row": (\d+)')
_BATCH_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class NoteLines:
    """One note of a corpus: `index` counts from 0; `truth` is empty where nothing was replaced."""

    index: int
    private: bytes
    public: bytes
    truth: bytes

    @property
    def n_bytes(self) -> int:
        """Of all three lines."""
        return len(self.private) + len(self.public) + len(self.truth)


def note_lines(folder: Path, *, on_bytes: Callable[[int], None]) -> Iterator[NoteLines]:
    """Go through the notes of a corpus; `on_bytes` is told the bytes of each.

    Raises
    ------
    AuditError
        If the files do not belong together.
    """
    with (
        (folder / PRIVATE).open("rb") as private,
        (folder / PUBLIC).open("rb") as public,
        (folder / TRUTH).open("rb") as truth,
    ):
        known = truth.readline()
        for index, line in enumerate(private):
            other, row = public.readline(), row_of(line)
            if row_of(other) != row:
                raise _mixed()
            is_known = bool(known) and row_of(known) == row
            found = NoteLines(index, line, other, known if is_known else b"")
            yield found
            on_bytes(found.n_bytes)
            if is_known:
                known = truth.readline()
        if known or public.readline():
            raise _mixed()


def batches(lines: Iterable[NoteLines]) -> Iterator[tuple[NoteLines, ...]]:
    """Put notes together to about a megabyte."""
    found: list[NoteLines] = []
    n_bytes = 0
    for line in lines:
        found.append(line)
        n_bytes += line.n_bytes
        if n_bytes >= _BATCH_BYTES:
            yield tuple(found)
            found, n_bytes = [], 0
    if found:
        yield tuple(found)


def text_lines(path: Path, *, on_bytes: Callable[[int], None]) -> Iterator[tuple[bytes, ...]]:
    """Go through the lines of one file in batches of about a megabyte."""
    found: list[bytes] = []
    n_bytes = 0
    with path.open("rb") as file:
        for line in file:
            found.append(line)
            n_bytes += len(line)
            if n_bytes >= _BATCH_BYTES:
                yield tuple(found)
                on_bytes(n_bytes)
                found, n_bytes = [], 0
    if found:
        yield tuple(found)
        on_bytes(n_bytes)


def corpus_bytes(folder: Path) -> int:
    """Return the bytes of the three files of lines."""
    return sum((folder / name).stat().st_size for name in (PRIVATE, PUBLIC, TRUTH))


def row_of(line: bytes) -> int:
    """Return the number of the row that a line is about; -1 where it names none."""
    match = _ROW.match(line)
    return int(match[1]) if match else -1


def note_pair(
    private: dict[str, Any], public: dict[str, Any], truth: dict[str, Any] | None, *, kind: str
) -> NotePair:
    """Return a note of a corpus of one of `KINDS` with what is known about it."""
    texts = {"private": str(private["text"]), "public": str(public["text"])}
    note_id = str(private["row"])
    if kind == "dummy":
        return pair_from_truth(truth or {}, note_id=note_id, **texts)
    pair = pair_from_register(truth, note_id=note_id, **texts)
    if not any(name.person.startswith(f"{CANARY}:") for name in pair.names or ()):
        return pair
    names = tuple(
        replace(name, role=CANARY) if name.person.startswith(f"{CANARY}:") else name
        for name in pair.names or ()
    )
    return replace(pair, names=names)


def read_line(line: bytes) -> dict[str, Any]:
    """Return what a line says."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise _mixed()
    return found


def _mixed() -> AuditError:
    return AuditError(
        "The files of the corpus do not belong together.",
        where="corpus",
        do="Build the corpus again.",
    )


LISTED = "listed.json"
_COUNTS = ("n_notes", "n_patients", "n_listed_patients")


@dataclass(frozen=True, eq=False)
class ListedNotes:
    """Where listed names stand.

    Attributes
    ----------
    n_notes
        Of the corpus.
    n_patients, n_listed_patients
        Patients, a note of nobody counting as one; and those of them with a listed note.
    notes
        Positions of the notes that hold a passage of a listed name or a planted canary, rising,
        as 4-byte numbers.
    """

    n_notes: int
    n_patients: int
    n_listed_patients: int
    notes: array[int]

    def __post_init__(self) -> None:
        """Check that positions rise and lie in the corpus, and that counts fit each other."""
        is_rising = all(a < b for a, b in pairwise(self.notes))
        is_inside = not self.notes or self.notes[-1] < self.n_notes
        if not (is_rising and is_inside):
            raise ValueError("positions rise from 0 to n_notes - 1")
        least = 1 if self.notes else 0
        if not least <= self.n_listed_patients <= min(self.n_patients, len(self.notes)):
            raise ValueError("listed patients are some of the patients of listed notes")

    @property
    def digest(self) -> str:
        """SHA-256 of the positions."""
        return hashlib.sha256(_joined(self.notes)).hexdigest()

    @property
    def free_share(self) -> float:
        """Share of the patients that may be held out; 0 without any patient."""
        return 1 - self.n_listed_patients / self.n_patients if self.n_patients else 0.0


def listed_bytes(listed: ListedNotes) -> bytes:
    """Return what `listed.json` holds."""
    head = json.dumps({name: getattr(listed, name) for name in _COUNTS}).removesuffix("}")
    return f'{head}, "notes": ['.encode() + _joined(listed.notes) + b"]}\n"


def read_listed(path: Path) -> ListedNotes:
    """Return what a `listed.json` says.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    try:
        content = json.loads(path.read_bytes())
        n_notes, n_patients, n_listed = (content[name] for name in _COUNTS)
        if any(type(count) is not int for count in (n_notes, n_patients, n_listed)):
            raise TypeError
        return ListedNotes(n_notes, n_patients, n_listed, array("I", content["notes"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise AuditError(
            "A file of the corpus cannot be read.", where="corpus", do="Build the corpus again."
        ) from None


def listed_file(notes: Path) -> Path | None:
    """Return the `listed.json` beside a corpus's file of notes; None where there is none."""
    path = notes.with_name(LISTED)
    return path if path.is_file() else None


def _joined(notes: array[int]) -> bytes:
    return ", ".join(map(str, notes)).encode()
