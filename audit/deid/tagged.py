"""Kept sets of tagged notes: read note by note, searched, corrected by hand, handed out as files.

Goes out: the texts to hand over, and the spans in every format, as bytes. What a format cannot
say of a note is left out and listed in the zip's `left_out.csv`, never dropped silently.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer

from audit.deid.copies import json_line
from audit.deid.given import SPANS, whole_note
from audit.deid.release import Release, Replacement, language_of
from audit.deid.tag import CENSUS, REDACTED, census_file, counted, told
from audit.deid.tagger import Tagger, tag_checked
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import flattened, jsonl_line, read_line, write_files
from audit.notes.spans import Span, TaggedDocument, merged, n_overlapping
from audit.progress import StopQuestion
from audit.shelf import Shelf, now, one_line, taken, write_whole
from audit.stats import IntArray
from audit.tables import write_table
from audit.task import Record

REMOVED, ADDED, UNDONE = "removed", "added", "undone"
MAX_TYPED_CHARS = 100_000
"""Of a text that is tagged in the page."""
# A Latin letter or an ASCII digit: what a word is made of in the languages that have words.
_LATIN = "[0-9A-Za-zÀ-ÖØ-öø-ʯᴀ-ᴥᵫ-ᶚḀ-ỿⱠ-ⱻꜢ-ꝯꝱ-ꞇꬰ-ꭚ]"

_Written = Annotated[
    Span,
    BeforeValidator(lambda span: Span(*span) if isinstance(span, list | tuple) else span),
    PlainSerializer(lambda span: [span.start, span.end, span.label]),
]


class Correction(Record):
    """What a person changed in the marks of one note (its number in the set, from 0), at once.

    `spans` are those that went, or came, by `kind`; `UNDONE` takes the last correction of the note
    back. `who` is as the access log has it, `at` an ISO time stamp in UTC.
    """

    number: int = Field(default=0, ge=0)
    kind: Literal["removed", "added", "undone"]
    spans: tuple[_Written, ...] = ()
    who: str
    at: str = Field(default_factory=now)


ByNote = Mapping[int, tuple[Correction, ...]]
"""Number of a note -> its corrections, in the order in which they were made; none is empty."""


def corrected(document: TaggedDocument, corrections: Iterable[Correction]) -> TaggedDocument:
    """Return a note with its marks as they are after the corrections, in their order."""
    spans = set(document.spans)
    for one in corrections:
        if max((span.end for span in one.spans), default=0) > len(document.text):
            raise AuditError("A correction does not fit its note.", where="corrections")
        spans = spans - {*one.spans} if one.kind == REMOVED else spans | {*one.spans}
    return replace(document, spans=tuple(sorted(spans)))


def same_marks(document: TaggedDocument, span: Span) -> tuple[Span, ...]:
    """Return the marks of a note that cover the same text under the same label as one of them."""
    text = document.text
    wanted = text[span.start : span.end], span.label
    return tuple(x for x in document.spans if (text[x.start : x.end], x.label) == wanted)


def missing_marks(document: TaggedDocument, *, text: str, label: str) -> tuple[Span, ...]:
    """Return marks for all places of a text that are not wholly marked yet.

    A text that begins or ends with a Latin letter or digit is only found as a whole word: "Ann" is
    not found in "Annual". White space around it does not count.
    """
    wanted = text.strip()
    before = f"(?<!{_LATIN})" if re.match(_LATIN, wanted) else ""
    behind = f"(?!{_LATIN})" if re.match(_LATIN, wanted[-1:]) else ""
    places = re.finditer(before + re.escape(wanted) + behind, document.text)
    found = [Span(*place.span(), label) for place in places] if wanted else []
    if not found:
        raise AuditError(
            "This text does not stand in the note in this way of writing.",
            where="corrections",
            do="Copy it out of the note; for a part of a word, give its offsets.",
        )
    return _unmarked(document, found)


def mark_between(document: TaggedDocument, *, start: int, end: int, label: str) -> tuple[Span, ...]:
    """Return the mark of the characters `start` to `end` (exclusive) of a note."""
    if not 0 <= start < end <= len(document.text):
        raise AuditError(
            "The note has characters 0 to {n_text:,}; the end is behind the start.",
            where="corrections",
            n_text=len(document.text),
        )
    return _unmarked(document, [Span(start, end, label)])


def _unmarked(document: TaggedDocument, spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans that marks do not cover whole; AuditError where there is none."""
    marked = merged(document.spans)
    found = [x for x in spans if not any(s <= x.start and x.end <= end for s, end in marked)]
    if not found:
        raise AuditError(
            "This is marked already.",
            where="corrections",
            do="Take the mark away first to change its type.",
        )
    return tuple(found)


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
    if len(text) > MAX_TYPED_CHARS:
        raise AuditError(
            "The text has more than {max_typed_chars:,} characters.",
            where="notes",
            do="Put it into a file.",
            max_typed_chars=MAX_TYPED_CHARS,
        )
    (spans,) = tag_checked(tagger, [whole_note(text)])
    return released_note(TaggedDocument("1", text, spans), row=1, release=release)


def released_note(
    document: TaggedDocument,
    *,
    row: int,
    release: Release,
    kept: str | None = None,
    corrections: Sequence[Correction] = (),
) -> OneNote:
    """Return a note with its corrections by hand, and its released text.

    What was released before (`kept`) stays where nobody corrected anything, and where another text
    would be made today its replacements are not marked.
    """
    document = corrected(document, corrections)
    redacted = release.of(document)
    if kept is not None and not corrections and kept != redacted.text:
        return OneNote(row, document, kept, ())
    return OneNote(row, document, redacted.text, redacted.replacements, tuple(corrections))


ASKED, INPUT, RESULT, INDEX = "tagged.json", "input", "result", "index.npy"


class TaggedSet(Record):
    """A set of notes that a tagger was asked to mark, as `tagged.json` has it.

    The title is untrusted; the tagger is as in `KnownTagger`; `census` is what `tag_notes` counted,
    None while the set is not whole; the name of the folder is the same for the same question.
    """

    format: Literal[1] = 1
    title: str
    source: Literal["pasted", "uploaded", "registered"]
    tagger_id: str
    tagger_digest: str
    how: Release
    created: str
    census: dict[str, Any] | None = Field(default=None, exclude=True)
    path: Path = Field(default=Path(), exclude=True)

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
    def spans_path(self) -> Path:
        """The notes with their spans: what `deid score --pred` reads; private."""
        return self.path / RESULT / SPANS


def _read_set(folder: Path) -> TaggedSet:
    asked = TaggedSet.read((folder / ASKED).read_bytes(), where="tagged notes")
    census = None
    if (folder / INDEX).is_file():
        census = json.loads((folder / RESULT / CENSUS).read_bytes())
        [int(census["n_notes"]), *(int(counted["n"]) for counted in census["spans"].values())]
    return asked.with_(path=folder, census=census)


TAGGED_SETS = Shelf("tagged", where="tagged notes", read=_read_set)


def begin_set(
    tagged_id: str, *, given: bytes | None = None, title: str = "", **asked: Any
) -> TaggedSet:
    """Make the folder of a set, with the notes that were handed in; one that is there stays.

    `asked` are `source`, `tagger_id`, `tagger_digest` and `how` of the set.
    """
    if (TAGGED_SETS.place(tagged_id) / ASKED).is_file():
        return TAGGED_SETS.get(tagged_id)
    record = TaggedSet(title=one_line(title), created=now(), **asked).plain()
    files = {} if given is None else {INPUT: given}
    return TAGGED_SETS.put(tagged_id, files | {ASKED: census_file(record)})


CORRECTIONS = "corrections.jsonl"


def corrections_of(tagged: TaggedSet) -> ByNote:
    """Return the corrections of a set that hold."""
    found: dict[int, list[Correction]] = {}
    with TAGGED_SETS.reading():
        lines = _corrections(tagged).splitlines()
        made = [Correction.model_validate_json(line) for line in lines]
    for one in made:
        own = found.setdefault(one.number, [])
        if one.kind != UNDONE:
            own.append(one)
        elif own:
            own.pop()
    return {number: tuple(ones) for number, ones in sorted(found.items()) if ones}


def keep_correction(tagged: TaggedSet, correction: Correction) -> None:
    """Add a correction, or what undoes one; it is on the disk when this returns."""
    TAGGED_SETS.get(tagged.tagged_id)
    lock = taken(tagged.path, is_folder=True, waits=True)  # two windows may correct the same notes
    assert lock is not None
    with lock:
        lines = _corrections(tagged) + correction.written() + b"\n"
        write_whole(tagged.path / CORRECTIONS, lines)


def _corrections(tagged: TaggedSet) -> bytes:
    path = tagged.path / CORRECTIONS
    return path.read_bytes() if path.exists() else b""


MAX_HITS = 10_000
_SPANS_FOLLOW = b', "spans": ['


def write_index(folder: Path, *, should_stop: StopQuestion = lambda: False) -> None:
    """Write the index of the set in a folder, whole or not at all."""
    rows = []
    place = place_released = 0
    for line, released in _lines(folder):
        if should_stop():
            raise AuditCancelled
        rows.append((place, place_released, len(json.loads(line)["spans"])))
        place += len(line)
        place_released += len(released)
    buffer = io.BytesIO()
    np.save(buffer, np.array(rows, dtype=np.int64).reshape(-1, 3), allow_pickle=False)
    write_whole(folder / INDEX, buffer.getvalue())


def read_index(tagged: TaggedSet) -> IntArray:
    """Return the index of a whole set [N, 3], mapped into memory.

    For each note the bytes before its line in `spans.jsonl` and in `redacted.jsonl`, and its spans.
    """
    with TAGGED_SETS.reading():
        rows = np.load(tagged.path / INDEX, mmap_mode="r", allow_pickle=False)
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype != np.int64:
            raise ValueError
        return np.asanyarray(rows)


def note_at(
    tagged: TaggedSet, number: int, *, index: IntArray, corrections: ByNote | None = None
) -> OneNote:
    """Return the note of this number, from 0, corrected by hand; only its own lines are read.

    The corrections are those of the set; None reads them, {} leaves the note as the tagger did.
    """
    kept = corrections_of(tagged) if corrections is None else corrections
    lines = []
    for name, place in zip((SPANS, REDACTED), index[number, :2].tolist(), strict=True):
        with TAGGED_SETS.reading(), (tagged.path / RESULT / name).open("rb") as file:
            file.seek(place)
            lines.append(file.readline())
    return _note(*lines, tagged=tagged, corrections=kept.get(number, ()))


def notes_of(tagged: TaggedSet) -> Iterator[OneNote]:
    """Yield every note of a set, corrected by hand, one at a time; raises as `note_at`."""
    corrections = corrections_of(tagged)
    for number, lines in enumerate(_lines(tagged.path)):
        yield _note(*lines, tagged=tagged, corrections=corrections.get(number, ()))


def notes_with(tagged: TaggedSet, *, text: str) -> tuple[int, ...]:
    """Return the numbers of the notes whose name or text holds a text, as it is written.

    At most `MAX_HITS` of them; reads the file once and one line at a time.
    """
    wanted = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    hits: list[int] = []
    for number, (line, _) in enumerate(_lines(tagged.path)):
        if len(hits) < MAX_HITS and wanted in line.rpartition(_SPANS_FOLLOW)[0]:
            record = json.loads(line)
            if text in record["text"] or text in str(record["doc_id"]):
                hits.append(number)
    return tuple(hits)


def chosen_notes(
    index: IntArray,
    *,
    only: str = "all",
    hits: Sequence[int] | None = None,
    corrections: ByNote | None = None,
) -> IntArray:
    """Return the numbers of "all" notes, those "with" marks, "without" any, or "corrected" by hand.

    `hits` are numbers out of which to choose, ascending; None for every note. The corrections of
    the set change how many marks a note has.
    """
    numbers = np.arange(len(index)) if hits is None else np.array(hits, dtype=np.int64)
    if only == "all":
        return numbers
    if only == "corrected":
        return numbers[np.isin(numbers, list(corrections or ()))]
    n_spans = np.array(index[:, 2])
    for number, ones in (corrections or {}).items():
        n_spans[number] += sum(len(x.spans) * (1 if x.kind == ADDED else -1) for x in ones)
    return np.compress((n_spans[numbers] > 0) == (only == "with"), numbers)


def _note(
    line: bytes, released: bytes, *, tagged: TaggedSet, corrections: Sequence[Correction]
) -> OneNote:
    with TAGGED_SETS.reading():
        document = read_line(line.decode(), what="tagged notes", number=1)
        record = json.loads(released)
        row, kept = int(record["row"]), str(record["text"])
    return released_note(document, row=row, release=tagged.how, kept=kept, corrections=corrections)


def _lines(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    paths = [folder / RESULT / name for name in (SPANS, REDACTED)]
    with TAGGED_SETS.reading(), paths[0].open("rb") as spans, paths[1].open("rb") as redacted:
        yield from zip(spans, redacted, strict=True)


def corrected_census(tagged: TaggedSet, *, index: IntArray, corrections: ByNote) -> dict[str, Any]:
    """Return the census of a whole set as its notes are handed out; only corrected ones are read.

    Where a person changed notes it has no digests: those are of the tagger's own files.
    """
    own = dict(tagged.census or {})
    counts = Counter({name: n for name, n in own.items() if isinstance(n, int)})
    for label, of_label in own["spans"].items():
        counts.update({f"n {label}": of_label["n"], f"chars {label}": of_label["n_characters"]})
    for number, ones in corrections.items():
        document = note_at(tagged, number, index=index, corrections={}).document
        after = corrected(document, ones)
        counts.update(counted(after, tagged.how.of(after)))
        counts.subtract(counted(document, tagged.how.of(document)))
    if corrections:
        own.pop("sha256", None)
    return own | told(counts) | {"n_notes_corrected": len(corrections)}


def census_of(note: OneNote, *, release: Release) -> dict[str, Any]:
    """Return what was counted in a single note, corrected by hand, as a set's census has it."""
    counts = counted(note.document, release.of(note.document))
    return told(counts) | {"n_notes_corrected": int(bool(note.corrections))}


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


def exported(notes: Iterable[OneNote], *, form: str, n_notes: int) -> bytes:
    """Return the file of a form of `RELEASED` or `PRIVATE`; one text is a file, several are a zip.

    The notes stand in the order of their rows; inline tags are in the language of each.
    """
    if form == "csv":
        rows = [(note.row, note.released) for note in notes]
        return write_table(("row", "text"), rows, bom=True).encode()
    if not export_name(form, n_notes=n_notes).endswith(".zip"):
        return b"".join(data for note in notes for data in _files(note, form).values())
    buffer = io.BytesIO()
    left_out: list[tuple[int, str]] = []
    with zipfile.ZipFile(buffer, "w") as folder:

        def add(files: Mapping[str, bytes]) -> None:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name, date_time=_TIME)
                entry.external_attr = 0o600 << 16
                folder.writestr(entry, content, zipfile.ZIP_DEFLATED)

        for note in notes:
            try:
                add(_files(note, form))
            except AuditError as error:
                left_out.append((note.row, error.what))
        if left_out:
            add({_LEFT_OUT: write_table(("row", "why"), left_out, bom=True).encode()})
    return buffer.getvalue()


def _files(note: OneNote, form: str) -> dict[str, bytes]:
    """Return the files of a note in a form: from name to bytes."""
    document = note.document
    if form == "text":
        return {f"note-{note.row}.txt": note.released.encode()}
    if form == "jsonl":
        return {"": json_line({"row": note.row, "text": note.released})}
    if form == "spans":
        return {"": jsonl_line(document).encode()}
    if form in ("conll", "inline") and n_overlapping(document.spans):
        document = flattened(document)
    return write_files([document], form=form, language=language_of(document.text) or "en")
