"""Files of tagged notes: the texts to hand over, and the spans in every format, as bytes.

Comes in: notes one by one. Goes out: one file, or a zip of a file each note. What a format cannot
say of a note is left out and listed in the zip's `left_out.csv`, never dropped silently.
"""

from __future__ import annotations

import io
import json
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from audit.deid.copies import COPIES, STATUSES
from audit.deid.release import FROM_TEXT, Redacted, Release, Replacement, language_of
from audit.deid.tag import CENSUS, REDACTED, REFUSED, SPANS
from audit.deid.tagger import Tagger, tag_checked
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import flattened, jsonl_line, read_line, write_files
from audit.notes.read import is_whole
from audit.notes.spans import TYPES, Span, TaggedDocument, n_overlapping, ordered
from audit.progress import StopQuestion
from audit.shelf import Shelf, now, one_line, taken, write_whole
from audit.tables import write_table
from audit.task import Record

REMOVED, ADDED = "removed", "added"
KINDS = (REMOVED, ADDED)
MAX_SPANS = 1_000
"""Of one correction: a single letter "everywhere" is no correction."""
_WHERE = "corrections"


@dataclass(frozen=True)
class Correction:
    """What a person changed in the marks of one note (its number in the set, from 0), at once.

    `spans` are those that went, or came, by `kind`: sorted, at least one. `who` is as the access
    log has it, `at` an ISO time stamp in UTC.
    """

    number: int
    kind: str
    spans: tuple[Span, ...]
    who: str
    at: str

    def __post_init__(self) -> None:
        """Check the values, once."""
        if self.number < 0 or self.kind not in KINDS:
            raise ValueError("no such note or kind")
        if not 0 < len(self.spans) <= MAX_SPANS or list(self.spans) != sorted(set(self.spans)):
            raise ValueError("no spans, too many, or they are not sorted")


def corrected(document: TaggedDocument, corrections: Iterable[Correction]) -> TaggedDocument:
    """Return a note with its marks as they are after the corrections, in their order."""
    spans = set(document.spans)
    for one in corrections:
        if max(span.end for span in one.spans) > len(document.text):
            raise AuditError("A correction does not fit its note.", where=_WHERE)
        if one.kind == REMOVED:
            spans -= set(one.spans)
        else:
            spans |= set(one.spans)
    return replace(document, spans=tuple(sorted(spans)))


def same_marks(document: TaggedDocument, span: Span) -> tuple[Span, ...]:
    """Return the marks of a note that cover the same text under the same label as one of them."""
    text = document.text[span.start : span.end]
    return tuple(
        one
        for one in document.spans
        if one.label == span.label and document.text[one.start : one.end] == text
    )


def missing_marks(
    document: TaggedDocument, *, text: str, label: str, is_everywhere: bool
) -> tuple[Span, ...]:
    """Return marks for all places of a text, or the first one, that are not wholly marked yet.

    A text that begins or ends with a Latin letter or digit is only found as a whole word: "Ann" is
    not found in "Annual". White space around it does not count.
    """
    _check_type(label)
    wanted = text.strip()
    if not wanted:
        raise AuditError("No text was given.", where=_WHERE)
    found = [Span(start, start + len(wanted), label) for start in _places(document.text, wanted)]
    if not found:
        raise AuditError(
            "This text does not stand in the note in this way of writing.",
            where=_WHERE,
            do="Copy it out of the note; for a part of a word, give its offsets.",
        )
    unmarked = [span for span in found if not _is_marked(document, span)]
    if not unmarked:
        raise _marked_already()
    if is_everywhere and len(unmarked) > MAX_SPANS:
        raise AuditError(
            f"This text stands in the note more than {MAX_SPANS:,} times.", where=_WHERE
        )
    return tuple(unmarked) if is_everywhere else (unmarked[0],)


def mark_between(document: TaggedDocument, *, start: int, end: int, label: str) -> tuple[Span, ...]:
    """Return the mark of the characters `start` to `end` (exclusive) of a note."""
    _check_type(label)
    if not 0 <= start < end <= len(document.text):
        raise AuditError(
            f"The note has characters 0 to {len(document.text):,}; the end is behind the start.",
            where=_WHERE,
        )
    span = Span(start, end, label)
    if _is_marked(document, span):
        raise _marked_already()
    return (span,)


def _check_type(label: str) -> None:
    if label not in TYPES:
        raise ValueError("no such type")


def _places(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        is_begun = at > 0 and _is_latin(text[at - 1]) and _is_latin(wanted[0])
        goes_on = end < len(text) and _is_latin(text[end]) and _is_latin(wanted[-1])
        is_whole = not is_begun and not goes_on
        if is_whole:
            yield at
        at = text.find(wanted, end if is_whole else at + 1)


def _is_latin(char: str) -> bool:
    if char.isascii():
        return char.isalnum()
    return char.isalpha() and unicodedata.name(char, "").startswith("LATIN")


def _is_marked(document: TaggedDocument, span: Span) -> bool:
    reached = span.start
    for one in document.spans:  # sorted by where they begin
        if one.start > reached:
            break
        reached = max(reached, one.end)
    return reached >= span.end


def _marked_already() -> AuditError:
    return AuditError(
        "This is marked already.",
        where=_WHERE,
        do="Take the mark away first to change its type.",
    )


MAX_TYPED_CHARS = 100_000


@dataclass(frozen=True)
class OneNote:
    """A note with its spans, corrected by hand where somebody did, and the text that was released.

    `row` is the note's number in its source; `replacements` are empty where the released text
    cannot be made again; `corrections` stand in the order in which they were made.
    """

    row: int
    document: TaggedDocument
    released: str
    replacements: tuple[Replacement, ...]
    corrections: tuple[Correction, ...] = ()


def tagged_text(text: str, *, tagger: Tagger, release: Release) -> OneNote:
    """Tag one text at once."""
    if not text.strip():
        raise AuditError("The note is empty.", where="notes")
    if len(text) > MAX_TYPED_CHARS:
        raise AuditError(
            f"The text has more than {MAX_TYPED_CHARS:,} characters.",
            where="notes",
            do="Put it into a file.",
        )
    if not is_whole(text):
        raise AuditError(
            "The note holds a NUL character or bytes outside its encoding.", where="notes"
        )
    (spans,) = tag_checked(tagger, [text])
    return released_note(TaggedDocument("1", text, spans), row=1, release=release)


def released_note(
    document: TaggedDocument, *, row: int, release: Release, kept: str | None = None
) -> OneNote:
    """Return a note with its released text.

    What was released before (`kept`) stays, and where another text would be made today its
    replacements are not marked.
    """
    redacted: Redacted = release.of(document)
    if kept is not None and kept != redacted.text:
        return OneNote(row, document, kept, ())
    return OneNote(row, document, redacted.text, redacted.replacements)


def corrected_note(
    note: OneNote, corrections: Sequence[Correction], *, release: Release
) -> OneNote:
    """Return a note with corrections by hand, its released text made anew; as it is without any."""
    if not corrections:
        return note
    document = corrected(note.document, corrections)
    redacted = release.of(document)
    return OneNote(note.row, document, redacted.text, redacted.replacements, tuple(corrections))


SOURCES = ("pasted", "uploaded", "registered")
ASKED, INPUT, RESULT, INDEX = "tagged.json", "input", "result", "index.npy"


class TaggedSet(Record):
    """A set of notes that a tagger was asked to mark, as `tagged.json` has it.

    Attributes
    ----------
    title
        As given, untrusted; may be empty.
    tagger_id, tagger_digest
        As in `audit.deid.taggers.KnownTagger`.
    created
        ISO time stamp in UTC.
    census
        What `tag_notes` counted; None while the set is not whole.
    path
        The folder; its name, 12 hexadecimal digits, is the same for the same question.
    """

    format: int = Field(default=1, ge=1, le=1)
    title: str
    source: str
    tagger_id: str
    tagger_digest: str
    how: Release
    created: str
    census: dict[str, Any] | None = Field(default=None, exclude=True)
    path: Path = Field(default=Path(), exclude=True)

    @model_validator(mode="after")
    def _check(self) -> TaggedSet:
        if self.source not in SOURCES:
            raise ValueError("notes cannot come from there")
        return self

    @property
    def tagged_id(self) -> str:
        """The identifier."""
        return self.path.name

    @property
    def is_whole(self) -> bool:
        """Whether all notes are tagged and can be looked up."""
        return self.census is not None

    @property
    def n_notes(self) -> int:
        """Notes that were tagged; 0 while the set is not whole."""
        return int(self.census["n_notes"]) if self.census else 0

    @property
    def n_spans(self) -> dict[str, int]:
        """Spans by label, the five types first."""
        spans = self.census["spans"] if self.census else {}
        return {str(label): int(counted["n"]) for label, counted in spans.items()}

    @property
    def spans_path(self) -> Path:
        """The notes with their spans: what `deid score --pred` reads; private."""
        return self.path / RESULT / SPANS

    @property
    def redacted_path(self) -> Path:
        """The notes as they may be released."""
        return self.path / RESULT / REDACTED

    @property
    def refused_path(self) -> Path:
        """The rows that were no notes."""
        return self.path / RESULT / REFUSED


def _read_set(folder: Path) -> TaggedSet:
    asked = TaggedSet.read((folder / ASKED).read_bytes(), where=_SET)
    census = None
    if (folder / INDEX).is_file():
        census = json.loads((folder / RESULT / CENSUS).read_bytes())
        int(census["n_notes"])
        {label: int(counted["n"]) for label, counted in census["spans"].items()}
    return asked.model_copy(update={"path": folder, "census": census})


TAGGED_SETS = Shelf("tagged", where="tagged notes", read=_read_set)


def begin_set(
    tagged_id: str,
    *,
    source: str,
    tagger_id: str,
    tagger_digest: str,
    how: Release,
    title: str = "",
    given: bytes | None = None,
) -> TaggedSet:
    """Make the folder of a set, with the notes that were handed in; one that is there stays."""
    if (TAGGED_SETS.place(tagged_id) / ASKED).is_file():
        return TAGGED_SETS.get(tagged_id)
    asked = TaggedSet(
        title=one_line(title),
        source=source,
        tagger_id=tagger_id,
        tagger_digest=tagger_digest,
        how=how,
        created=now(),
    )
    record = (json.dumps(asked.plain(), ensure_ascii=False, indent=1) + "\n").encode()
    files = {} if given is None else {INPUT: given}
    return TAGGED_SETS.put(tagged_id, files | {ASKED: record})


CORRECTIONS = "corrections.jsonl"
MAX_LINES = 50_000
_UNDONE = "undone"
ByNote = Mapping[int, tuple[Correction, ...]]
"""Number of a note -> its corrections, in the order in which they were made; none is empty."""


def corrections_of(tagged: TaggedSet) -> ByNote:
    """Return the corrections of a set that hold."""
    try:
        return _holding(_data(tagged))
    except (ValueError, KeyError, TypeError, IndexError):
        raise AuditError("The corrections are damaged.", where=_WHERE) from None


def corrections_stamp(tagged: TaggedSet) -> tuple[int, int]:
    """Return what changes with every correction of a set: the file's size and time."""
    try:
        found = (tagged.path / CORRECTIONS).stat()
    except OSError:
        return (0, 0)
    return (found.st_size, found.st_mtime_ns)


def keep_correction(tagged: TaggedSet, correction: Correction) -> None:
    """Add a correction; it is on the disk when this returns."""
    if correction.number >= tagged.n_notes:
        raise ValueError("no such note")
    line = {
        "number": correction.number,
        "kind": correction.kind,
        "spans": [[span.start, span.end, span.label] for span in correction.spans],
        "who": correction.who,
        "at": correction.at,
    }
    _append(tagged, line)


def undo_correction(tagged: TaggedSet, number: int, *, who: str) -> None:
    """Take back the last correction of a note that holds; nothing happens where there is none."""
    _append(tagged, {"number": number, "kind": _UNDONE, "who": who, "at": now()})


def _append(tagged: TaggedSet, line: Mapping[str, Any]) -> None:
    with _alone(tagged):
        data = _data(tagged)
        if data.count(b"\n") >= MAX_LINES:
            raise AuditError(
                f"These notes have {MAX_LINES:,} corrections; there is room for no more.",
                where=_WHERE,
            )
        text = json.dumps(line, ensure_ascii=False) + "\n"
        write_whole(tagged.path / CORRECTIONS, data + text.encode())


def _holding(data: bytes) -> dict[int, tuple[Correction, ...]]:
    found: dict[int, list[Correction]] = {}
    for line in data.splitlines():
        record = json.loads(line)
        number = int(record["number"])
        if record["kind"] == _UNDONE:
            if found.get(number):
                found[number].pop()
            continue
        spans = tuple(Span(int(s), int(e), str(label)) for s, e, label in record["spans"])
        rest = (str(record[name]) for name in ("who", "at"))
        found.setdefault(number, []).append(Correction(number, str(record["kind"]), spans, *rest))
    return {number: tuple(ones) for number, ones in sorted(found.items()) if ones}


def _data(tagged: TaggedSet) -> bytes:
    try:
        return (tagged.path / CORRECTIONS).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError:
        raise AuditError("The corrections are damaged.", where=_WHERE) from None


@contextmanager
def _alone(tagged: TaggedSet) -> Iterator[None]:
    """Hold the set's folder while a line is added: two windows may correct the same notes."""
    if not tagged.path.is_dir():
        TAGGED_SETS.get(tagged.tagged_id)
    lock = taken(tagged.path, is_folder=True, waits=True)
    assert lock is not None
    with lock:
        yield


MAX_HITS = 10_000
_SET = "tagged notes"
_SPANS_FOLLOW = b', "spans": ['
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TaggedIndex:
    """Where the N notes of a set stand.

    `at` (N, 2) are bytes before the note's line in `spans.jsonl` and in `redacted.jsonl`; `n_spans`
    (N,) the spans of the note.
    """

    at: Numbers
    n_spans: Numbers

    def __len__(self) -> int:
        """Return how many notes there are."""
        return len(self.at)


def write_index(folder: Path, *, should_stop: StopQuestion = lambda: False) -> None:
    """Write the index of the set in a folder, whole or not at all."""
    rows = []
    place, place_released = 0, 0
    for line, released in _lines(folder):
        if should_stop():
            raise AuditCancelled
        spans = json.loads(line)["spans"]
        rows.append((place, place_released, len(spans)))
        place += len(line)
        place_released += len(released)
    buffer = io.BytesIO()
    np.save(buffer, np.array(rows, dtype=np.int64).reshape(-1, 3), allow_pickle=False)
    write_whole(folder / INDEX, buffer.getvalue())


def read_index(tagged: TaggedSet) -> TaggedIndex:
    """Return the index of a whole set, mapped into memory."""
    try:
        rows = np.load(tagged.path / INDEX, mmap_mode="r", allow_pickle=False)
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype != np.int64:
            raise ValueError
    except (OSError, ValueError):
        raise _damaged() from None
    return TaggedIndex(rows[:, :2], rows[:, 2])


def note_at(
    tagged: TaggedSet, number: int, *, index: TaggedIndex, corrections: ByNote | None = None
) -> OneNote:
    """Return the note of this number, from 0, corrected by hand; only its own lines are read.

    The corrections are those of the set; None reads them.
    """
    kept = corrections_of(tagged) if corrections is None else corrections
    note = raw_note_at(tagged, number, index=index)
    return corrected_note(note, kept.get(number, ()), release=tagged.how)


def raw_note_at(tagged: TaggedSet, number: int, *, index: TaggedIndex) -> OneNote:
    """Return a note as the tagger left it; raises as `note_at`."""
    place, place_released = (int(value) for value in index.at[number])
    return _note(
        _line_at(tagged.spans_path, place), _line_at(tagged.redacted_path, place_released),
        tagged=tagged,
    )  # fmt: skip


def notes_of(tagged: TaggedSet) -> Iterator[OneNote]:
    """Yield every note of a set, corrected by hand, one at a time; raises as `note_at`."""
    corrections = corrections_of(tagged)
    release = tagged.how
    for number, (line, released) in enumerate(_lines(tagged.path)):
        note = _note(line, released, tagged=tagged)
        yield corrected_note(note, corrections.get(number, ()), release=release)


def notes_with(tagged: TaggedSet, *, text: str) -> tuple[int, ...]:
    """Return the numbers of the notes whose name or text holds a text, as it is written.

    At most `MAX_HITS` of them; reads the file once and one line at a time.
    """
    wanted = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    hits: list[int] = []
    for number, (line, _) in enumerate(_lines(tagged.path)):
        if wanted not in line.rpartition(_SPANS_FOLLOW)[0]:
            continue
        record = json.loads(line)
        if text in record["text"] or text in str(record["doc_id"]):
            hits.append(number)
            if len(hits) == MAX_HITS:
                break
    return tuple(hits)


def chosen_notes(
    index: TaggedIndex,
    *,
    only: str = "all",
    hits: Sequence[int] | None = None,
    corrections: ByNote | None = None,
) -> Numbers:
    """Return the numbers of "all" notes, those "with" marks, "without" any, or "corrected" by hand.

    `hits` are numbers out of which to choose, ascending; None for every note. The corrections of
    the set change how many marks a note has.
    """
    numbers = np.arange(len(index)) if hits is None else np.array(hits, dtype=np.int64)
    if only == "all":
        return numbers
    if only == "corrected":
        is_chosen = np.isin(numbers, list(corrections or ()))
    else:
        n_spans = np.array(index.n_spans)
        for number, ones in (corrections or {}).items():
            n_spans[number] += sum(
                len(one.spans) * (1 if one.kind == ADDED else -1) for one in ones
            )
        is_chosen = (n_spans[numbers] > 0) == (only == "with")
    chosen: Numbers = np.compress(is_chosen, numbers)
    return chosen


def _note(line: bytes, released: bytes, *, tagged: TaggedSet) -> OneNote:
    try:
        document: TaggedDocument = read_line(line.decode(), what=_SET, number=1)
        record = json.loads(released)
        row, kept = int(record["row"]), str(record["text"])
    except (ValueError, KeyError, TypeError):
        raise _damaged() from None
    return released_note(document, row=row, release=tagged.how, kept=kept)


def _lines(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    result = folder / RESULT
    try:
        with (result / SPANS).open("rb") as spans, (result / REDACTED).open("rb") as redacted:
            try:
                yield from zip(spans, redacted, strict=True)
            except ValueError:
                raise _damaged() from None
    except OSError:
        raise _damaged() from None


def _line_at(path: Path, place: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(place)
            return file.readline()
    except OSError:
        raise _damaged() from None


def _damaged() -> AuditError:
    return AuditError("These tagged notes are damaged.", where=_SET)


_OF_TAGGER = ("n_notes_without_spans", "n_replaced", "n_replaced_by_itself", "spans", "sha256")
Counts = dict[str, dict[str, int]]


def corrected_census(
    tagged: TaggedSet, *, index: TaggedIndex, corrections: ByNote
) -> dict[str, Any]:
    """Return the census of a whole set as its notes are handed out.

    `n_notes_corrected` says how many notes a person changed. Where there are any, the census says
    under `corrections` how many marks were taken away and added, and under `tagger_alone` what the
    tagger's own files hold. Only corrected notes are read.
    """
    own = dict(tagged.census or {})
    if not corrections:
        return own | {"n_notes_corrected": 0}
    spans: Counts = {label: dict(counted) for label, counted in own["spans"].items()}
    totals = {name: int(own.get(name, 0)) for name in _OF_TAGGER[:3]}
    for number, ones in corrections.items():
        before = raw_note_at(tagged, number, index=index)
        after = corrected_note(before, ones, release=tagged.how)
        old = tagged.how.of(before.document)
        _count(spans, before.document, sign=-1)
        _count(spans, after.document, sign=1)
        new = tagged.how.of(after.document)
        totals["n_notes_without_spans"] += (not after.document.spans) - (not before.document.spans)
        totals["n_replaced"] += len(new.replacements) - len(old.replacements)
        totals["n_replaced_by_itself"] += new.n_unchanged - old.n_unchanged
    rest = {name: value for name, value in own.items() if name not in _OF_TAGGER}
    return {
        **rest,
        **totals,
        "spans": {label: spans[label] for label in ordered(spans) if spans[label]["n"]},
        "n_notes_corrected": len(corrections),
        "corrections": {
            f"n_{kind}": sum(
                len(one.spans) for ones in corrections.values() for one in ones if one.kind == kind
            )
            for kind in (REMOVED, ADDED)
        },
        "tagger_alone": {name: own[name] for name in _OF_TAGGER if name in own},
    }


def _count(spans: Counts, document: TaggedDocument, *, sign: int) -> None:
    for span in document.spans:
        counted = spans.setdefault(span.label, {"n": 0, "n_characters": 0})
        counted["n"] += sign
        counted["n_characters"] += sign * span.n_chars


Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CopyOfNote:
    """How a copy relates to its note.

    `error_rate` is edited characters over those of the note, None for an empty note; `n_unaligned`
    marks of the copy have no place in the note; `n_malformed` tags were not well written.
    """

    status: str
    error_rate: float | None
    n_unaligned: int
    n_malformed: int

    def __post_init__(self) -> None:
        """Check the status, once."""
        if self.status not in STATUSES:
            raise ValueError("no such status")


def copy_places(tagged: TaggedSet) -> Places:
    """Return (N,) bytes before each note's line; empty where the tagger wrote no copies."""
    path = tagged.path / RESULT / COPIES
    if not path.is_file():
        return np.empty(0, dtype=np.int64)
    try:
        with path.open("rb") as lines:
            ends = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    except OSError:
        raise _copies_damaged() from None
    if len(ends) != tagged.n_notes + 1:
        raise _copies_damaged()
    return ends[:-1]


def copy_at(tagged: TaggedSet, number: int, *, places: Places) -> CopyOfNote | None:
    """Return how faithful the copy of a note is; None where the tagger wrote none."""
    if not len(places):
        return None
    try:
        with (tagged.path / RESULT / COPIES).open("rb") as file:
            file.seek(int(places[number]))
            record = json.loads(file.readline().decode("utf-8", "surrogatepass"))
        rate = record["error_rate"]
        return CopyOfNote(
            str(record["status"]),
            None if rate is None else float(rate),
            len(record["unaligned"]),
            int(record["tags"]["n_malformed"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise _copies_damaged() from None


def _copies_damaged() -> AuditError:
    return AuditError("The tagger's copies cannot be read.", where="tagged notes")


RELEASED = ("text", "jsonl", "csv")
"""The texts as they may be released, under the numbers of their rows."""
PRIVATE = ("spans", "brat", "i2b2", "conll", "inline")
"""The notes as they were, with their spans."""
EXPORTED_CENSUS = "census"
MAX_EXPORT_BYTES = 200_000_000
"""Larger sets stay on the disk: a file for a browser is made in memory."""

_FILES = {
    "text": "redacted.txt", "jsonl": "redacted.jsonl", "csv": "redacted.csv",
    "spans": "spans.jsonl", "brat": "spans-brat.zip", "i2b2": "spans-i2b2.zip",
    "conll": "spans.conll", "inline": "spans-inline.zip", EXPORTED_CENSUS: "census.json",
}  # fmt: skip
_LEFT_OUT = "left_out.csv"
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold: the same bytes each time


def export_name(form: str, *, n_notes: int) -> str:
    """Return the name of a file; it says nothing about the notes."""
    return "redacted-texts.zip" if form == "text" and n_notes != 1 else _FILES[form]


def exported(notes: Iterable[OneNote], *, form: str, n_notes: int, language: str) -> bytes:
    """Return the file of a form of `RELEASED` or `PRIVATE`; one text is a file, several are a zip.

    The notes stand in the order of their rows; `language` is that of inline tags.
    """
    if form == "text" and n_notes == 1:
        return "".join(note.released for note in notes).encode()
    if form == "jsonl":
        return b"".join(_json({"row": note.row, "text": note.released}) for note in notes)
    if form == "csv":
        rows = [(note.row, note.released) for note in notes]
        return write_table(("row", "text"), rows, bom=True).encode()
    if form == "spans":
        return b"".join(jsonl_line(note.document).encode() for note in notes)
    if form == "conll":
        return b"".join(
            content for note in notes for content in _files(note, form, language).values()
        )
    if form not in ("text", "brat", "i2b2", "inline"):
        raise ValueError(f"{form}: no such form")
    return _zip(notes, form=form, language=language)


def census_of(note: OneNote) -> dict[str, Any]:
    """Return what was counted in a single note, as the census of a set counts it.

    Counts are those after corrections by hand.
    """
    labels = ordered(span.label for span in note.document.spans)
    spans = {label: [s for s in note.document.spans if s.label == label] for label in labels}
    return {
        "n_notes": 1,
        "n_characters": len(note.document.text),
        "n_notes_without_spans": int(not note.document.spans),
        "n_replaced": len(note.replacements),
        "n_notes_of_no_language": int(not language_of(note.document.text)),
        "spans": {
            label: {"n": len(found), "n_characters": sum(span.n_chars for span in found)}
            for label, found in spans.items()
        },
        "n_notes_corrected": int(bool(note.corrections)),
    }


def census_file(census: Mapping[str, Any]) -> bytes:
    """Return a census as a file."""
    return (json.dumps(census, ensure_ascii=False, indent=1) + "\n").encode()


def _zip(notes: Iterable[OneNote], *, form: str, language: str) -> bytes:
    buffer = io.BytesIO()
    left_out: list[tuple[int, str]] = []
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as folder:
        for note in notes:
            try:
                files = _files(note, form, language)
            except AuditError as error:
                left_out.append((note.row, error.what))
                continue
            for name, content in files.items():
                _add(folder, name, content)
        if left_out:
            _add(folder, _LEFT_OUT, write_table(("row", "why"), left_out, bom=True).encode())
    return buffer.getvalue()


def _files(note: OneNote, form: str, language: str) -> dict[str, bytes]:
    if form == "text":
        return {f"note-{note.row}.txt": note.released.encode()}
    document = note.document
    if form in ("conll", "inline") and n_overlapping(document.spans):
        document = flattened(document)
    own = language_of(document.text) if language == FROM_TEXT else language
    return write_files([document], form=form, language=own)


def _add(folder: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    folder.writestr(entry, content)


def _json(record: Mapping[str, object]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()
