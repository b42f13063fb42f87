"""Kept sets of tagged notes: read note by note, searched, corrected by hand, handed out as files.

Goes out: the texts to hand over, and the spans in every format, as bytes. What a format cannot
say of a note is left out and listed in the zip's `left_out.csv`, never dropped silently.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import secrets
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer

from audit.deid.copies import json_line
from audit.deid.incoming_notes import SPANS, whole_note
from audit.deid.keys import KEY, read_key
from audit.deid.kinds import Kind
from audit.deid.known_names import add_known_names, read_certain_names
from audit.deid.persons import Names, PatientNames, read_people, split_spaced_name
from audit.deid.policy import ALL_OUT, Policy
from audit.deid.release import SURROGATE, Release, Replacement, language_of
from audit.deid.rules import find_clinical_places
from audit.deid.tagger import Tagger, tag_and_check
from audit.deid.tagging import (
    CENSUS,
    FALLBACK,
    REDACTED,
    Uncopied,
    census_file,
    counted,
    told,
)
from audit.errors import AuditCancelled, AuditError
from audit.home import changing
from audit.notes.formats import flatten_spans, format_jsonl_line, read_line, write_files
from audit.notes.spans import Span, TaggedDocument, count_overlapping, merge_spans
from audit.patients.finder import build_patient_finder
from audit.patients.register import pack_people
from audit.progress import StopQuestion
from audit.shelf import Shelf, now, one_line, taken, write_whole
from audit.stats import IntArray
from audit.tables import write_table
from audit.task import Record

REMOVED: Final = "removed"
ADDED: Final = "added"
UNDONE: Final = "undone"
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

    `spans` are those that went, or came, by `kind`; `gone` those in whose place they came. What was
    corrected in several notes at once has one `batch` in all of them. `UNDONE` takes the last
    correction of the note back; with a batch, that of every note whose last it is. `who` is as the
    access log has it, `at` an ISO time stamp in UTC.
    """

    number: int = Field(default=0, ge=0)
    kind: Literal["removed", "added", "undone"]
    spans: tuple[_Written, ...] = ()
    gone: tuple[_Written, ...] = ()
    batch: str = Field(default="", max_length=32)
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
        new = {*one.spans}
        spans = spans - new if one.kind == REMOVED else (spans - {*one.gone}) | new
    return replace(document, spans=tuple(sorted(spans)))


@dataclass(frozen=True)
class Wish:
    """What a person wants of a text in a note: that a mark of type `label` is on it, or none ("").

    It is meant at its `place` (start, end) alone, or everywhere where `text` stands.
    """

    label: str
    text: str = ""
    place: tuple[int, int] | None = None


def correction_for(
    document: TaggedDocument, wish: Wish, *, who: str, number: int = 0, batch: str = ""
) -> Correction | None:
    """Return the correction that makes a wish true of a note; None where nothing is to be changed.

    A new mark takes the place of those inside it; within a larger one none is made, and one that
    shares a part of it stays: to mark uncovers nothing. What has no type loses the marks that
    share a part of the place, or that are on just this text.
    """
    text, places = document.text, set(_places(document.text, wish.text))
    here = set() if wish.place is None else {_trimmed(text, *wish.place)}
    gone: set[Span] = set()
    come: set[Span] = set()
    if wish.label:
        for start, end in places | here:
            inside = {one for one in document.spans if start <= one.start and one.end <= end}
            if _is_covered(start, end, inside) or not _is_covered(start, end, document.spans):
                gone |= inside
                come.add(Span(start, end, wish.label))
        gone, come = gone - come, come - gone
    else:
        gone = {
            one
            for one in document.spans
            if (one.start, one.end) in places
            or any(one.start < end and start < one.end for start, end in here)
        }
    if not gone and not come:
        return None
    return Correction(
        number=number,
        kind=ADDED if come else REMOVED,
        batch=batch,
        who=who,
        spans=tuple(sorted(come or gone)),
        gone=tuple(sorted(gone if come else ())),
    )


def _is_covered(start: int, end: int, spans: Iterable[Span]) -> bool:
    return any(first <= start and end <= last for first, last in merge_spans(spans))


def _places(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Yield where a text stands, white space around it aside.

    One that begins or ends with a Latin letter or digit is only found as a whole word: "Ann" is
    not found in "Annual".
    """
    wanted = wanted.strip()
    if wanted:
        before = f"(?<!{_LATIN})" if re.match(_LATIN, wanted) else ""
        behind = f"(?!{_LATIN})" if re.match(_LATIN, wanted[-1:]) else ""
        for place in re.finditer(before + re.escape(wanted) + behind, text):
            yield place.span()


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    stretch = text[start:end] if 0 <= start < end <= len(text) else ""
    if not stretch.strip():
        raise AuditError("There is no such place in the note.", where="corrections")
    start += len(stretch) - len(stretch.lstrip())
    return start, start + len(stretch.strip())


def nothing_to_correct() -> AuditError:
    """Return the error for a wish that changes nothing."""
    return AuditError(
        "Nothing is changed: the text does not stand there in this way of writing, or it is marked "
        "so already.",
        where="corrections",
        do="Copy the text out of the note; within a larger mark, take that away first.",
    )


@dataclass(frozen=True)
class OneNote:
    """A note with its spans, corrected by hand where somebody did, and the text that was released.

    `row` is the note's number in its source; `replacements` are empty where the released text
    cannot be made again; `corrections` stand in the order in which they were made; `left` says how
    many marks of each kind a policy left in a text that was tagged at once.
    """

    row: int
    document: TaggedDocument
    released: str
    replacements: tuple[Replacement, ...]
    corrections: tuple[Correction, ...] = ()
    left: Mapping[Kind, int] = field(default_factory=dict)


def tagged_text(
    text: str, *, tagger: Tagger, release: Release, policy: Policy = ALL_OUT
) -> OneNote:
    """Tag one text at once; a name that is found in it is found wherever it stands there."""
    if len(text) > MAX_TYPED_CHARS:
        raise AuditError(
            "The text has more than {max_typed_chars:,} characters.",
            where="notes",
            do="Put it into a file.",
            max_typed_chars=MAX_TYPED_CHARS,
        )
    try:
        note = whole_note(text)
        text = note.text
        (spans,) = tag_and_check(tagger, [text])
        for pack in (read_certain_names(text, spans), *map(pack_people, note.named_people)):
            spans = add_known_names(text, spans, pack)
        document, left = policy.applied(TaggedDocument("1", text, spans))
        return replace(released_note(document, row=1, release=release), left=left)
    finally:  # the page says that it is kept nowhere
        for memory in (
            find_clinical_places,
            build_patient_finder,
            pack_people,
            read_people,
            split_spaced_name,
        ):
            memory.cache_clear()


def released_note(
    document: TaggedDocument,
    *,
    row: int,
    release: Release,
    kept: str | None = None,
    corrections: Sequence[Correction] = (),
    names: Names | None = None,
) -> OneNote:
    """Return a note with its corrections by hand, and its released text.

    `names` is what is known of the patient, as `Release.of` takes it. What was released before
    (`kept`) stays where nobody corrected anything, and where another text would be made today its
    replacements are not marked.
    """
    document = corrected(document, corrections)
    redacted = release.of(document, names=names)
    if kept is not None and not corrections and kept != redacted.text:
        return OneNote(row, document, kept, ())
    return OneNote(row, document, redacted.text, redacted.replacements, tuple(corrections))


ASKED, INPUT, RESULT, INDEX = "tagged.json", "input", "result", "index.npy"
NAMES = "names.jsonl"
"""What the notes of each patient say of names, of a set with surrogates."""
REGISTER = "register"
"""The register that was handed in with the notes; removed with them once all are tagged."""


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
    policy: Policy = ALL_OUT
    uncopied: Uncopied = FALLBACK
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
    how = asked.how.with_(key=read_key(folder)) if asked.how.key else asked.how
    return asked.with_(path=folder, census=census, how=how)


TAGGED_SETS = Shelf("tagged", where="tagged notes", read=_read_set)


def begin_set(
    tagged_id: str,
    *,
    how: Release,
    given: bytes | None = None,
    register: bytes | None = None,
    title: str = "",
    **asked: Any,
) -> TaggedSet:
    """Make the folder of a set, with its key and what was handed in; one that is there stays.

    `asked` are `source`, `tagger_id`, `tagger_digest`, `policy` and `uncopied` of the set.
    """
    if (TAGGED_SETS.place(tagged_id) / ASKED).is_file():
        return TAGGED_SETS.get(tagged_id)
    record = TaggedSet(title=one_line(title), created=now(), how=how, **asked).plain()
    handed_in = {INPUT: given, REGISTER: register, KEY: how.key.secret if how.key else None}
    files = {name: data for name, data in handed_in.items() if data is not None}
    return TAGGED_SETS.put(tagged_id, files | {ASKED: census_file(record)})


CORRECTIONS = "corrections.jsonl"


def corrections_of(tagged: TaggedSet) -> ByNote:
    """Return the corrections of a set that hold."""
    found: dict[int, list[Correction]] = {}
    with TAGGED_SETS.reading():
        lines = _corrections(tagged).splitlines()
        made = [Correction.model_validate_json(line) for line in lines]
    for one in made:
        if one.kind != UNDONE:
            found.setdefault(one.number, []).append(one)
            continue
        same = [own for own in found.values() if own and own[-1].batch == one.batch]
        for own in same if one.batch else [found.get(one.number, [])]:
            del own[-1:]
    return {number: tuple(ones) for number, ones in sorted(found.items()) if ones}


def corrections_digest(tagged: TaggedSet) -> str:
    """Return the SHA-256 of the corrections of a set; "" where none holds."""
    if not corrections_of(tagged):
        return ""
    return hashlib.sha256(_corrections(tagged)).hexdigest()


def keep_corrections(tagged: TaggedSet, corrections: Sequence[Correction]) -> None:
    """Add corrections, or what undoes one; they are on the disk when this returns."""
    changing()
    TAGGED_SETS.get(tagged.tagged_id)
    lock = taken(tagged.path, is_folder=True, waits=True)  # two windows may correct the same notes
    assert lock is not None
    with lock:
        new = b"".join(one.written() + b"\n" for one in corrections)
        write_whole(tagged.path / CORRECTIONS, _corrections(tagged) + new)


def correct_set(
    tagged: TaggedSet, wish: Wish, *, number: int, who: str, is_everywhere: bool
) -> int:
    """Correct one note of a set, or every note where the wish's text stands; return in how many.

    The place of the wish is one of note `number`. Raises AuditError where nothing is changed.
    """
    kept, batch = corrections_of(tagged), secrets.token_hex(8) if is_everywhere else ""
    elsewhere, known = replace(wish, place=None), json_text(wish.text.strip())
    made = []
    for n, (line, _) in enumerate(_lines(tagged.path)):
        if n != number and not (is_everywhere and known in line):
            continue
        with TAGGED_SETS.reading():
            own = corrected(_document(line), kept.get(n, ()))
        asked = wish if n == number else elsewhere
        made.append(correction_for(own, asked, who=who, number=n, batch=batch))
    found = [one for one in made if one is not None]
    if not found:
        raise nothing_to_correct()
    keep_corrections(tagged, found)
    return len(found)


def undo_correction(tagged: TaggedSet, number: int, *, who: str) -> None:
    """Take the last correction of a note back; one of several notes in all whose last it is."""
    made = corrections_of(tagged).get(number, ())
    if made:
        batch = made[-1].batch
        keep_corrections(tagged, [Correction(number=number, kind=UNDONE, batch=batch, who=who)])


def _corrections(tagged: TaggedSet) -> bytes:
    path = tagged.path / CORRECTIONS
    return path.read_bytes() if path.exists() else b""


MAX_HITS = 10_000
NO_NAMES = -1
_SPANS_FOLLOW = b', "spans": ['


def write_index(folder: Path, *, should_stop: StopQuestion = lambda: False) -> None:
    """Write the index of the set in a folder, whole or not at all."""
    rows, patients, names = [], [], PatientNames()
    is_surrogate = _read_set(folder).how.mode == SURROGATE
    place = place_released = 0
    for line, released in _lines(folder):
        if should_stop():
            raise AuditCancelled
        note = json.loads(line)
        rows.append((place, place_released, len(note["spans"])))
        patients.append(note.get("patient_id") if is_surrogate else None)
        if patients[-1]:
            names.add(_document(line))
        place += len(line)
        place_released += len(released)
    place_of = _write_names(folder, names, patients=patients)
    table = [
        (*row, place_of.get(patient, NO_NAMES)) for row, patient in zip(rows, patients, strict=True)
    ]
    buffer = io.BytesIO()
    np.save(buffer, np.array(table, dtype=np.int64).reshape(-1, 4), allow_pickle=False)
    write_whole(folder / INDEX, buffer.getvalue())


def _write_names(
    folder: Path, names: PatientNames, *, patients: Iterable[str | None]
) -> dict[str | None, int]:
    """Write what is known of each patient; returns the bytes before the line of each."""
    lines, place_of, place = list[bytes](), dict[str | None, int](), 0
    for patient in dict.fromkeys(patients):
        if (known := names.get_names(patient)) is not None:
            lines.append(json_line(known.to_record()))
            place_of[patient] = place
            place += len(lines[-1])
    write_whole(folder / NAMES, b"".join(lines))
    return place_of


def read_index(tagged: TaggedSet) -> IntArray:
    """Return the index of a whole set [N, 4], mapped into memory; of older ones [N, 3].

    For each note the bytes before its line in `spans.jsonl` and in `redacted.jsonl`, its spans, and
    the bytes before its patient's line in `names.jsonl`, or `NO_NAMES`. Older sets lack that file.
    """
    with TAGGED_SETS.reading():
        rows = np.load(tagged.path / INDEX, mmap_mode="r", allow_pickle=False)
        if rows.ndim != 2 or rows.shape[1] not in (3, 4) or rows.dtype != np.int64:
            raise ValueError
        return np.asanyarray(rows)


def note_at(
    tagged: TaggedSet, number: int, *, index: IntArray, corrections: ByNote | None = None
) -> OneNote:
    """Return the note of this number, from 0, corrected by hand; only its own lines are read.

    The corrections are those of the set; None reads them, {} leaves the note as the tagger did.
    """
    kept = corrections_of(tagged) if corrections is None else corrections
    places = zip((SPANS, REDACTED), index[number, :2].tolist(), strict=True)
    line, released = (_line_at(tagged, name, place) for name, place in places)
    fixed, names = kept.get(number, ()), _names_at(tagged, index, number)
    return _note(line, released, tagged=tagged, corrections=fixed, names=names)


def _names_at(tagged: TaggedSet, index: IntArray, number: int) -> Names | None:
    """Return what is known of the patient of a note; None where the set does not keep it."""
    place = int(index[number, 3]) if index.shape[1] > 3 else NO_NAMES
    path = tagged.path / NAMES
    if place == NO_NAMES or not path.is_file():
        return None
    with TAGGED_SETS.reading(), path.open("rb") as file:
        file.seek(place)
        return Names.from_record(json.loads(file.readline()))


def _line_at(tagged: TaggedSet, name: str, place: int) -> bytes:
    with TAGGED_SETS.reading(), (tagged.path / RESULT / name).open("rb") as file:
        file.seek(place)
        return file.readline()


def notes_of(tagged: TaggedSet) -> Iterator[OneNote]:
    """Yield every note of a set, corrected by hand, one at a time; raises as `note_at`."""
    corrections, index = corrections_of(tagged), read_index(tagged)
    for number, lines in enumerate(_lines(tagged.path)):
        fixed, names = corrections.get(number, ()), _names_at(tagged, index, number)
        yield _note(*lines, tagged=tagged, corrections=fixed, names=names)


def marked_notes(tagged: TaggedSet) -> Iterator[tuple[int, TaggedDocument]]:
    """Yield the row of every note of a set, and the note with its marks, corrected by hand."""
    kept = corrections_of(tagged)
    for number, (line, released) in enumerate(_lines(tagged.path)):
        with TAGGED_SETS.reading():
            document, row = _document(line), int(json.loads(released)["row"])
        yield row, corrected(document, kept.get(number, ()))


def notes_with(tagged: TaggedSet, *, text: str) -> tuple[int, ...]:
    """Return the numbers of the notes whose name or text holds a text, as it is written.

    At most `MAX_HITS` of them; reads the file once and one line at a time.
    """
    wanted = json_text(text)
    hits: list[int] = []
    for number, (line, _) in enumerate(_lines(tagged.path)):
        if len(hits) < MAX_HITS and wanted in line.rpartition(_SPANS_FOLLOW)[0]:
            record = json.loads(line)
            if text in record["text"] or text in str(record["doc_id"]):
                hits.append(number)
    return tuple(hits)


def json_text(text: str) -> bytes:
    """Return a text as it stands in a line of JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


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
        n_spans[number] += sum(
            len(x.spans) * (1 if x.kind == ADDED else -1) - len(x.gone) for x in ones
        )
    return np.compress((n_spans[numbers] > 0) == (only == "with"), numbers)


def _note(
    line: bytes,
    released: bytes,
    *,
    tagged: TaggedSet,
    corrections: Sequence[Correction],
    names: Names | None,
) -> OneNote:
    with TAGGED_SETS.reading():
        document = _document(line)
        record = json.loads(released)
        row, kept = int(record["row"]), str(record["text"])
    return released_note(
        document, row=row, release=tagged.how, kept=kept, corrections=corrections, names=names
    )


def _document(line: bytes) -> TaggedDocument:
    return read_line(line.decode(), subject="tagged notes", number=1)


def _lines(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    paths = [folder / RESULT / name for name in (SPANS, REDACTED)]
    with TAGGED_SETS.reading(), paths[0].open("rb") as spans, paths[1].open("rb") as redacted:
        yield from zip(spans, redacted, strict=True)


def corrected_census(tagged: TaggedSet, *, index: IntArray, corrections: ByNote) -> dict[str, Any]:
    """Return the census of a whole set as its notes are handed out; only corrected ones are read.

    It has the digests of what may be released, and where a person changed notes none: those are of
    the tagger's own files.
    """
    own = dict(tagged.census or {}) | tagged.how.described()
    own["sha256"] = {name: own["sha256"][name] for name in (REDACTED,)}
    counts = Counter({name: n for name, n in own.items() if isinstance(n, int)})
    for label, of_label in own["spans"].items():
        counts.update({f"n {label}": of_label["n"], f"chars {label}": of_label["n_characters"]})
    for number, ones in corrections.items():
        document = _document(_line_at(tagged, SPANS, int(index[number, 0])))
        after = corrected(document, ones)
        counts.update(counted(after))
        counts.subtract(counted(document))
    if corrections:
        own.pop("sha256", None)
    return own | told(counts) | {"n_notes_corrected": len(corrections)}


def census_of(note: OneNote) -> dict[str, Any]:
    """Return what was counted in a single note, corrected by hand, as a set's census has it."""
    counts = counted(note.document, is_foreign=not language_of(note.document.text))
    return told(counts) | {"n_notes_corrected": int(bool(note.corrections))}


RELEASED = ("text", "jsonl", "csv")
"""The texts as they may be released, under the numbers of their rows."""
PRIVATE = ("spans", "brat", "i2b2", "conll", "inline")
"""The notes as they were, with their spans."""
EXPORTED_CENSUS = "census"
MAX_EXPORT_BYTES = 200_000_000
"""Larger sets stay on the disk: a file for a browser is made in memory."""

_FILES = {
    "text": "redacted.txt",
    "jsonl": "redacted.jsonl",
    "csv": "redacted.csv",
    "spans": "spans.jsonl",
    "brat": "spans-brat.zip",
    "i2b2": "spans-i2b2.zip",
    "conll": "spans.conll",
    "inline": "spans-inline.zip",
    EXPORTED_CENSUS: "census.json",
}
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
        return {"": format_jsonl_line(document).encode()}
    if form in ("conll", "inline") and count_overlapping(document.spans):
        document = flatten_spans(document)
    return write_files([document], form=form, language=language_of(document.text) or "en")
