"""Kept sets of tagged notes: read note by note, searched, corrected by hand, exported as files.

Output: the texts to hand over, and the spans in every format, as bytes. A note that a format cannot
express is left out and listed in the zip's `left_out.csv`, never dropped silently.
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
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer

from audit.deid.find.copies import OUTPUTS, CopiesSummary
from audit.deid.find.known_names import add_known_names, read_certain_names
from audit.deid.find.rules import find_clinical_places
from audit.deid.find.tagger import Tagger, tag_and_check
from audit.deid.redact.keys import KEY, read_key
from audit.deid.redact.kinds import Kind, group_of, span_of_group
from audit.deid.redact.persons import Names, PatientNames, read_people, split_spaced_name
from audit.deid.redact.policy import ALL_OUT, Policy
from audit.deid.redact.release import SURROGATE, Release, Replacement
from audit.deid.sets.incoming_notes import SPANS, check_lone_note
from audit.deid.sets.tagging import (
    CENSUS,
    FALLBACK,
    REDACTED,
    Uncopied,
    arrange_counts,
    count_note,
)
from audit.errors import AuditCancelled, AuditError
from audit.home import check_change_allowed
from audit.notes.formats import flatten_spans, format_jsonl_line, read_line, write_files
from audit.notes.language import language_of
from audit.notes.spans import Span, TaggedDocument, count_overlapping, merge_spans
from audit.patients.finder import build_patient_finder
from audit.patients.register import pack_people
from audit.progress import StopQuestion
from audit.shelf import (
    Shelf,
    json_line,
    json_page,
    make_time_stamp,
    one_line,
    take_lock,
    write_whole,
)
from audit.stats import IntArray
from audit.tables import write_table
from audit.task import Record

REMOVED: Final = "removed"
ADDED: Final = "added"
UNDONE: Final = "undone"
MAX_TYPED_CHARS = 100_000
"""The longest text that is tagged in the browser."""
LETTERS = "[0-9A-Za-zÀ-ÖØ-öø-ʯᴀ-ᴥᵫ-ᶚḀ-ỿⱠ-ⱻꜢ-ꝯꝱ-ꞇꬰ-ꭚ]"
"""The letters and digits of words in scripts that separate words, as a pattern."""
"""The letters and digits of words in scripts that separate words, as a pattern."""

_Written = Annotated[
    Span,
    BeforeValidator(lambda span: Span(*span) if isinstance(span, list | tuple) else span),
    PlainSerializer(lambda span: [x for x in astuple(span) if x != ""]),
]


class Correction(Record):
    """One change by a person in the marks of one note, which has a `number` in the set, from 0.

    `spans` were removed or added, as `kind` says; added spans replace those in `gone`. A correction
    of several notes at once has the same `batch` in all of them. `UNDONE` takes back the last
    correction of the note, or, with a batch, that of every note whose last correction has this
    batch. `who` is the name in the access log, `at` an ISO time stamp in UTC.
    """

    number: int = Field(default=0, ge=0)
    kind: Literal["removed", "added", "undone"]
    spans: tuple[_Written, ...] = ()
    gone: tuple[_Written, ...] = ()
    batch: str = Field(default="", max_length=32)
    who: str
    at: str = Field(default_factory=make_time_stamp)


ByNote = Mapping[int, tuple[Correction, ...]]
"""The corrections of each note, by its number, in the order in which they were made; not empty."""


def apply_corrections(
    document: TaggedDocument, corrections: Iterable[Correction]
) -> TaggedDocument:
    """Return a note with its marks after the corrections, applied in order."""
    spans = set(document.spans)
    for correction in corrections:
        if max((span.end for span in correction.spans), default=0) > len(document.text):
            raise AuditError("A correction does not fit its note.", where="corrections")
        changed_spans = {*correction.spans}
        spans = (
            spans - changed_spans
            if correction.kind == REMOVED
            else (spans - {*correction.gone}) | changed_spans
        )
    return replace(document, spans=tuple(sorted(spans)))


@dataclass(frozen=True)
class Wish:
    """A person's wish for a text in a note: a mark of a `group` on it, or no mark ("").

    The groups are those of `kinds.GROUPS`. The wish applies to the `place` (start, end) alone, or
    to every place where `text` stands.
    """

    group: str
    text: str = ""
    place: tuple[int, int] | None = None


def make_correction(
    document: TaggedDocument, wish: Wish, *, user: str, number: int = 0, batch: str = ""
) -> Correction | None:
    """Return the correction that fulfils a wish in a note; None if nothing needs to change.

    A new mark replaces the marks inside it. No mark is made inside a larger one, and a mark that
    overlaps the new one in part stays, so that marking never uncovers text. A mark of the group
    stays as it is. A wish without a group
    removes the marks that overlap its place, and the marks on exactly its text.
    """
    text, places = document.text, set(_find_places(document.text, wish.text))
    chosen_places = set() if wish.place is None else {_trim_place(text, *wish.place)}
    gone: set[Span] = set()
    new_spans: set[Span] = set()
    if wish.group:
        for start, end in places | chosen_places:
            inside = {span for span in document.spans if start <= span.start and span.end <= end}
            if _is_covered(start, end, inside) or not _is_covered(start, end, document.spans):
                gone |= inside
                new_spans.add(_find_or_make_span(text, start, end, group=wish.group, spans=inside))
        gone, new_spans = gone - new_spans, new_spans - gone
    else:
        gone = {
            span
            for span in document.spans
            if (span.start, span.end) in places
            or any(span.start < end and start < span.end for start, end in chosen_places)
        }
    if not gone and not new_spans:
        return None
    return Correction(
        number=number,
        kind=ADDED if new_spans else REMOVED,
        batch=batch,
        who=user,
        spans=tuple(sorted(new_spans or gone)),
        gone=tuple(sorted(gone if new_spans else ())),
    )


def _find_or_make_span(
    text: str, start: int, end: int, *, group: str, spans: Iterable[Span]
) -> Span:
    """Return the span of exactly this place and group, or a new one."""
    same_spans = (span for span in sorted(spans) if (span.start, span.end) == (start, end))
    of_group = (span for span in same_spans if group_of(text, span) == group)
    return next(of_group, None) or span_of_group(text, start, end, group=group)


def _is_covered(start: int, end: int, spans: Iterable[Span]) -> bool:
    return any(first <= start and end <= last for first, last in merge_spans(spans))


def _find_places(text: str, phrase: str) -> Iterator[tuple[int, int]]:
    """Yield the places of a phrase in a text; white space around the phrase is ignored.

    A phrase that begins or ends with a Latin letter or digit is only found as a whole word: "Ann"
    is not found in "Annual".
    """
    phrase = phrase.strip()
    if phrase:
        no_letter_before = f"(?<!{LETTERS})" if re.match(LETTERS, phrase) else ""
        no_letter_behind = f"(?!{LETTERS})" if re.match(LETTERS, phrase[-1:]) else ""
        for place in re.finditer(no_letter_before + re.escape(phrase) + no_letter_behind, text):
            yield place.span()


def _trim_place(text: str, start: int, end: int) -> tuple[int, int]:
    stretch = text[start:end] if 0 <= start < end <= len(text) else ""
    if not stretch.strip():
        raise AuditError("There is no such place in the note.", where="corrections")
    start += len(stretch) - len(stretch.lstrip())
    return start, start + len(stretch.strip())


def no_change_error() -> AuditError:
    """Return the error for a wish that changes nothing."""
    return AuditError(
        "Nothing is changed: the text does not stand there in this way of writing, or it is marked "
        "so already.",
        where="corrections",
        do="Copy the text out of the note; within a larger mark, take that away first.",
    )


@dataclass(frozen=True)
class ReleasedNote:
    """A note with its spans after corrections by hand, and its released text.

    `row` is the number of the note in its source. `replacements` are empty if the released text
    cannot be reproduced. `corrections` are in the order in which they were made. `left` has the
    number of marks of each kind that a policy left in a text that was tagged at once.
    """

    row: int
    document: TaggedDocument
    released: str
    replacements: tuple[Replacement, ...]
    corrections: tuple[Correction, ...] = ()
    left: Mapping[Kind, int] = field(default_factory=dict)


def tag_text(
    text: str, *, tagger: Tagger, release: Release, policy: Policy = ALL_OUT
) -> ReleasedNote:
    """Tag one text at once; a name that is found in one place of it is marked in all places."""
    if len(text) > MAX_TYPED_CHARS:
        raise AuditError(
            "The text has more than {max_typed_chars:,} characters.",
            where="notes",
            do="Put it into a file.",
            max_typed_chars=MAX_TYPED_CHARS,
        )
    try:
        note = check_lone_note(text)
        text = note.text
        (spans,) = tag_and_check(tagger, [text])
        for pack in (read_certain_names(text, spans), *map(pack_people, note.named_people)):
            spans = add_known_names(text, spans, pack)
        document, left = policy.apply(TaggedDocument("1", text, spans))
        return replace(release_note(document, row=1, release=release), left=left)
    finally:  # the screen promises that the text is kept nowhere
        for memory in (
            find_clinical_places,
            build_patient_finder,
            pack_people,
            read_people,
            split_spaced_name,
        ):
            memory.cache_clear()


def release_note(
    document: TaggedDocument,
    *,
    row: int,
    release: Release,
    earlier_text: str | None = None,
    corrections: Sequence[Correction] = (),
    names: Names | None = None,
) -> ReleasedNote:
    """Return a note with its corrections by hand, and its released text.

    `names` are the patient's names, as in `Release.redact`. Without corrections the text that was
    released earlier (`earlier_text`) is returned; if the text would be different today, its
    replacements are not returned.
    """
    document = apply_corrections(document, corrections)
    redacted = release.redact(document, names=names)
    if earlier_text is not None and not corrections and earlier_text != redacted.text:
        return ReleasedNote(row, document, earlier_text, ())
    return ReleasedNote(row, document, redacted.text, redacted.replacements, tuple(corrections))


ASKED, INPUT, RESULT, INDEX = "tagged.json", "input", "result", "index.npy"
NAMES = "names.jsonl"
"""The file with the names in the notes of each patient, in a set with surrogates."""
REGISTER = "register"
"""The register that was uploaded with the notes, as `OUTPUTS` are copies of them; all three are
removed once all notes are tagged."""


class TaggedSet(Record):
    """A set of notes to be marked by a tagger; its `tagged.json` has the fields of the question.

    The title is untrusted text; the tagger is as in `KnownTagger`. `census` has the counts of
    `tag_notes`, or None while the set is incomplete. Equal questions have the same folder name.
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
        """The identifier of the set."""
        return self.path.name

    @property
    def is_whole(self) -> bool:
        """Whether all notes are tagged and indexed."""
        return self.census is not None

    @property
    def n_notes(self) -> int:
        """The number of tagged notes; 0 while the set is incomplete."""
        return int(self.census["n_notes"]) if self.census else 0

    @property
    def copies(self) -> CopiesSummary | None:
        """How faithful the model's copies are; None if its tagger writes none."""
        copies = (self.census or {}).get("copies")
        return CopiesSummary(**copies) if copies else None

    @property
    def spans_path(self) -> Path:
        """The private file of notes with spans, which `deid score --pred` can read."""
        return self.path / RESULT / SPANS


def _read_set(folder: Path) -> TaggedSet:
    tagged = TaggedSet.model_validate_json((folder / ASKED).read_bytes())
    census = None
    if (folder / INDEX).is_file():
        census = json.loads((folder / RESULT / CENSUS).read_bytes())
        [
            int(census["n_notes"]),
            *(int(span_counts["n"]) for span_counts in census["spans"].values()),
        ]
        if "copies" in census:
            CopiesSummary.model_validate(census["copies"])
    release = tagged.how.with_(key=read_key(folder)) if tagged.how.key else tagged.how
    return tagged.with_(path=folder, census=census, how=release)


TAGGED_SETS = Shelf("tagged", label="tagged notes", read=_read_set)


def begin_set(
    tagged_id: str,
    *,
    release: Release,
    notes: bytes | None = None,
    register: bytes | None = None,
    outputs: bytes | None = None,
    title: str = "",
    **fields: Any,
) -> TaggedSet:
    """Make the folder of a set with its key and the uploaded files, unless it exists already.

    `fields` are `source`, `tagger_id`, `tagger_digest`, `policy` and `uncopied` of the set.
    """
    if (TAGGED_SETS.place(tagged_id) / ASKED).is_file():
        return TAGGED_SETS.get(tagged_id)
    record = TaggedSet(
        title=one_line(title), created=make_time_stamp(), how=release, **fields
    ).plain()
    content_by_name = {
        INPUT: notes,
        REGISTER: register,
        OUTPUTS: outputs,
        KEY: release.key.secret if release.key else None,
    }
    files = {name: content for name, content in content_by_name.items() if content is not None}
    return TAGGED_SETS.keep_files(tagged_id, files | {ASKED: json_page(record)})


CORRECTIONS = "corrections.jsonl"


def corrections_of(tagged: TaggedSet) -> ByNote:
    """Return the corrections of a set that were not undone."""
    corrections: dict[int, list[Correction]] = {}
    with TAGGED_SETS.reading():
        lines = _read_corrections(tagged).splitlines()
        all_corrections = [Correction.model_validate_json(line) for line in lines]
    for correction in all_corrections:
        if correction.kind != UNDONE:
            corrections.setdefault(correction.number, []).append(correction)
            continue
        batches = [
            note_corrections
            for note_corrections in corrections.values()
            if note_corrections and note_corrections[-1].batch == correction.batch
        ]
        for note_corrections in (
            batches if correction.batch else [corrections.get(correction.number, [])]
        ):
            del note_corrections[-1:]
    return {
        number: tuple(note_corrections)
        for number, note_corrections in sorted(corrections.items())
        if note_corrections
    }


def corrections_digest(tagged: TaggedSet) -> str:
    """Return the SHA-256 of the corrections of a set; "" if there are none, or all were undone."""
    if not corrections_of(tagged):
        return ""
    return hashlib.sha256(_read_corrections(tagged)).hexdigest()


def keep_corrections(tagged: TaggedSet, corrections: Sequence[Correction]) -> None:
    """Append corrections, undoing ones included; they are on the disk when this returns."""
    check_change_allowed()
    TAGGED_SETS.get(tagged.tagged_id)
    lock = take_lock(
        tagged.path, is_folder=True, waits=True
    )  # two windows may correct the same notes
    assert lock is not None
    with lock:
        new_lines = b"".join(correction.to_bytes() + b"\n" for correction in corrections)
        write_whole(tagged.path / CORRECTIONS, _read_corrections(tagged) + new_lines)


def correct_set(
    tagged: TaggedSet, wish: Wish, *, number: int, user: str, is_everywhere: bool
) -> int:
    """Correct one note of a set, or every note with the wish's text; return how many changed.

    The place of the wish belongs to note `number`. Raises AuditError if nothing changes.
    """
    changes = plan_corrections(tagged, wish, number=number, user=user, is_everywhere=is_everywhere)
    if not changes:
        raise no_change_error()
    keep_corrections(tagged, changes)
    return len(changes)


def plan_corrections(
    tagged: TaggedSet, wish: Wish, *, number: int, user: str, is_everywhere: bool
) -> list[Correction]:
    """Return the corrections that `correct_set` would keep, one for each note that changes."""
    corrections, batch = corrections_of(tagged), secrets.token_hex(8) if is_everywhere else ""
    elsewhere, wanted_bytes = replace(wish, place=None), json_text(wish.text.strip())
    new_corrections = []
    for n, (line, _) in enumerate(_read_lines(tagged.path)):
        if n != number and not (is_everywhere and wanted_bytes in line):
            continue
        with TAGGED_SETS.reading():
            document = apply_corrections(_read_document(line), corrections.get(n, ()))
        note_wish = wish if n == number else elsewhere
        new_corrections.append(
            make_correction(document, note_wish, user=user, number=n, batch=batch)
        )
    return [correction for correction in new_corrections if correction is not None]


def undo_correction(tagged: TaggedSet, number: int, *, user: str) -> None:
    """Take back the last correction of a note, in all notes of its batch where it is the last."""
    corrections = corrections_of(tagged).get(number, ())
    if corrections:
        batch = corrections[-1].batch
        keep_corrections(tagged, [Correction(number=number, kind=UNDONE, batch=batch, who=user)])


def _read_corrections(tagged: TaggedSet) -> bytes:
    path = tagged.path / CORRECTIONS
    return path.read_bytes() if path.exists() else b""


MAX_HITS = 10_000
NO_NAMES = -1
_SPANS_FOLLOW = b', "spans": ['


def write_index(folder: Path, *, should_stop: StopQuestion = lambda: False) -> None:
    """Write the index of the set in a folder atomically."""
    rows, patients, names = [], [], PatientNames()
    is_surrogate = _read_set(folder).how.mode == SURROGATE
    place = place_released = 0
    for line, released in _read_lines(folder):
        if should_stop():
            raise AuditCancelled
        note = json.loads(line)
        rows.append((place, place_released, len(note["spans"])))
        patients.append(note.get("patient_id") if is_surrogate else None)
        if patients[-1]:
            names.add(_read_document(line))
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
    """Write the names of each patient; return the offset of the line of each patient."""
    lines, place_of, place = list[bytes](), dict[str | None, int](), 0
    for patient in dict.fromkeys(patients):
        if (patient_names := names.get_names(patient)) is not None:
            lines.append(json_line(patient_names.to_record()))
            place_of[patient] = place
            place += len(lines[-1])
    write_whole(folder / NAMES, b"".join(lines))
    return place_of


def read_index(tagged: TaggedSet) -> IntArray:
    """Return the index of a complete set [N, 4], mapped into memory.

    The columns are the offsets of the note's line in `spans.jsonl` and in `redacted.jsonl`, its
    number of spans, and the offset of its patient's line in `names.jsonl`, or `NO_NAMES`.
    """
    with TAGGED_SETS.reading():
        rows = np.load(tagged.path / INDEX, mmap_mode="r", allow_pickle=False)
        if rows.ndim != 2 or rows.shape[1] != 4 or rows.dtype != np.int64:
            raise ValueError
        return np.asanyarray(rows)


def note_at(
    tagged: TaggedSet, number: int, *, index: IntArray, corrections: ByNote | None = None
) -> ReleasedNote:
    """Return the note with this number, from 0, after corrections; read only its own lines.

    `corrections` are those of the set: None reads them, and {} returns the note as it was tagged.
    """
    set_corrections = corrections_of(tagged) if corrections is None else corrections
    places = zip((SPANS, REDACTED), index[number, :2].tolist(), strict=True)
    line, released = (_line_at(tagged, name, place) for name, place in places)
    note_corrections, names = set_corrections.get(number, ()), _names_at(tagged, index, number)
    return _make_note(line, released, tagged=tagged, corrections=note_corrections, names=names)


def _names_at(tagged: TaggedSet, index: IntArray, number: int) -> Names | None:
    """Return the names of the patient of a note; None if the set does not keep them."""
    place = int(index[number, 3])
    if place == NO_NAMES:
        return None
    with TAGGED_SETS.reading(), (tagged.path / NAMES).open("rb") as file:
        file.seek(place)
        return Names.from_record(json.loads(file.readline()))


def _line_at(tagged: TaggedSet, name: str, place: int) -> bytes:
    with TAGGED_SETS.reading(), (tagged.path / RESULT / name).open("rb") as file:
        file.seek(place)
        return file.readline()


def read_notes(tagged: TaggedSet) -> Iterator[ReleasedNote]:
    """Yield every note of a set after corrections, one at a time; errors are as in `note_at`."""
    corrections, index = corrections_of(tagged), read_index(tagged)
    for number, lines in enumerate(_read_lines(tagged.path)):
        note_corrections, names = corrections.get(number, ()), _names_at(tagged, index, number)
        yield _make_note(*lines, tagged=tagged, corrections=note_corrections, names=names)


def marked_notes(tagged: TaggedSet) -> Iterator[tuple[int, TaggedDocument]]:
    """Yield (row, note) for every note of a set, with its marks after corrections."""
    corrections = corrections_of(tagged)
    for number, (line, released) in enumerate(_read_lines(tagged.path)):
        with TAGGED_SETS.reading():
            document, row = _read_document(line), int(json.loads(released)["row"])
        yield row, apply_corrections(document, corrections.get(number, ()))


def search_notes(tagged: TaggedSet, *, text: str) -> tuple[int, ...]:
    """Return the numbers of the notes whose name or text contains exactly this text.

    It returns at most `MAX_HITS` and reads the file once, one line at a time.
    """
    wanted_bytes = json_text(text)
    hits: list[int] = []
    for number, (line, _) in enumerate(_read_lines(tagged.path)):
        if len(hits) < MAX_HITS and wanted_bytes in line.rpartition(_SPANS_FOLLOW)[0]:
            record = json.loads(line)
            if text in record["text"] or text in str(record["doc_id"]):
                hits.append(number)
    return tuple(hits)


def json_text(text: str) -> bytes:
    """Return a text as it is escaped in a line of JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def choose_notes(
    index: IntArray,
    *,
    only: str = "all",
    hits: Sequence[int] | None = None,
    corrections: ByNote | None = None,
) -> IntArray:
    """Return the numbers of "all" notes, those "with" marks, "without" any, or "corrected" by hand.

    The choice is among the numbers `hits`, ascending, or among all notes if None. The corrections
    of the set change the number of marks of a note.
    """
    numbers = np.arange(len(index)) if hits is None else np.array(hits, dtype=np.int64)
    if only == "all":
        return numbers
    if only == "corrected":
        return numbers[np.isin(numbers, list(corrections or ()))]
    n_spans = np.array(index[:, 2])
    for number, note_corrections in (corrections or {}).items():
        n_spans[number] += sum(
            len(x.spans) * (1 if x.kind == ADDED else -1) - len(x.gone) for x in note_corrections
        )
    return np.compress((n_spans[numbers] > 0) == (only == "with"), numbers)


def _make_note(
    line: bytes,
    released: bytes,
    *,
    tagged: TaggedSet,
    corrections: Sequence[Correction],
    names: Names | None,
) -> ReleasedNote:
    with TAGGED_SETS.reading():
        document = _read_document(line)
        record = json.loads(released)
        row, released_text = int(record["row"]), str(record["text"])
    return release_note(
        document,
        row=row,
        release=tagged.how,
        earlier_text=released_text,
        corrections=corrections,
        names=names,
    )


def _read_document(line: bytes) -> TaggedDocument:
    return read_line(line.decode(), subject="tagged notes", number=1)


def _read_lines(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    paths = [folder / RESULT / name for name in (SPANS, REDACTED)]
    with TAGGED_SETS.reading(), paths[0].open("rb") as spans, paths[1].open("rb") as redacted:
        yield from zip(spans, redacted, strict=True)


def correct_census(tagged: TaggedSet, *, index: IntArray, corrections: ByNote) -> dict[str, Any]:
    """Return the census of a complete set after corrections; only corrected notes are read.

    It has the digest of the file that may be released, unless a person corrected notes: then the
    exported texts differ from that file.
    """
    census = dict(tagged.census or {}) | tagged.how.describe()
    census["sha256"] = {name: census["sha256"][name] for name in (REDACTED,)}
    counts = Counter({name: n for name, n in census.items() if isinstance(n, int)})
    for label, of_label in census["spans"].items():
        counts.update({f"n {label}": of_label["n"], f"chars {label}": of_label["n_characters"]})
    for number, note_corrections in corrections.items():
        document = _read_document(_line_at(tagged, SPANS, int(index[number, 0])))
        corrected_document = apply_corrections(document, note_corrections)
        counts.update(count_note(corrected_document))
        counts.subtract(count_note(document))
    if corrections:
        census.pop("sha256", None)
    return census | arrange_counts(counts) | {"n_notes_corrected": len(corrections)}


def census_of(note: ReleasedNote) -> dict[str, Any]:
    """Return the counts of a single note after corrections, in the form of a set's census."""
    counts = count_note(note.document, is_foreign=not language_of(note.document.text))
    return arrange_counts(counts) | {"n_notes_corrected": int(bool(note.corrections))}


RELEASED = ("text", "jsonl", "csv")
"""The forms with released texts, under the numbers of their rows."""
PRIVATE = ("spans", "brat", "i2b2", "conll", "inline")
"""The forms with the original notes and their spans."""
EXPORTED_CENSUS = "census"
MAX_EXPORT_BYTES = 200_000_000
"""Larger sets are not exported: a file for the browser is made in memory."""

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
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip: the bytes are the same each time


def export_name(form: str, *, n_notes: int) -> str:
    """Return the name of an exported file; it reveals nothing about the notes."""
    return "redacted-texts.zip" if form == "text" and n_notes != 1 else _FILES[form]


def export_notes(notes: Iterable[ReleasedNote], *, form: str, n_notes: int) -> bytes:
    """Return the file of a form of `RELEASED` or `PRIVATE`; several texts become a zip.

    The notes are in the order of their rows; inline tags are in the language of each note.
    """
    if form == "csv":
        rows = [(note.row, note.released) for note in notes]
        return write_table(("row", "text"), rows, bom=True).encode()
    if not export_name(form, n_notes=n_notes).endswith(".zip"):
        return b"".join(content for note in notes for content in _files(note, form).values())
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


def _files(note: ReleasedNote, form: str) -> dict[str, bytes]:
    """Return the files of a note in a form, as bytes by name."""
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
