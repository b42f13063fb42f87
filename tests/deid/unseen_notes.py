"""Hand-written notes with their marks: hospitals that no tagger was made for, clinical values.

Everything in them is fictional. In a file notes stand one after another, each under a line `### x`,
with inline tags or, from the third set on, with ⟦K:marks⟧ of a kind (`KINDS`); one of clinical
values has a sentence a line, the values between ⟦ and ⟧. The second of each was written when
taggers had been mended with the first. `PROXIES` are of other kinds of text than hospitals' notes.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from audit.deid.measure.coverage import FIVE, LETTERS
from audit.errors import catalogue
from audit.notes.formats import scan_tags
from audit.notes.spans import IDENTIFIER, Span, TaggedDocument, build_document

SETS = ("unseen", "unseen_second")
N_NOTES = {
    ("unseen", "ja"): 60,
    ("unseen", "en"): 20,
    ("unseen_second", "ja"): 40,
    ("unseen_second", "en"): 16,
}
N_VALUES = 371
PROXIES = (
    "clinic_en",
    "dialogue_en",
    "radiology_ja",
    "times_places_en",
    "general_ja",
    "encyclopedia_ja",
)
KINDS = {kind: catalogue("en", "policy")[f"letter_{kind}"] for kind in LETTERS}
"""What a mark's letter says of it."""
LABELS = {kind: label for label, (_, kinds) in FIVE.items() for kind in kinds} | {"I": IDENTIFIER}


@cache
def unseen(name: str, language: str) -> tuple[TaggedDocument, ...]:
    """Return the notes of a set in a language."""
    text = (Path(__file__).parent / name / f"{language}.txt").read_text(encoding="utf-8")
    notes = []
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        scanned = scan_tags(body.rstrip("\n"))
        assert scanned.census.total() == scanned.census["n_tags"], title
        notes.append(build_document(title, text=scanned.plain, spans=scanned.spans))
    return tuple(notes)


@cache
def read_marked_notes(name: str, *, by_kind: bool = False) -> tuple[TaggedDocument, ...]:
    """Return the notes of a file with ⟦K:marks⟧, as "third/ja"; by kind with letters as labels."""
    return written_notes(Path(__file__).parent / f"{name}.txt", by_kind=by_kind)


def written_notes(path: Path, *, by_kind: bool = False) -> tuple[TaggedDocument, ...]:
    """Return the notes of any such file; each is of a patient of its own."""
    notes = []
    for part in re.split(r"^### ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        note = marked(body.strip("\n"), patient=title, doc_id=title, by_kind=by_kind)
        notes.append(note)
    return tuple(notes)


def marked(
    text_with_marks: str, *, patient: str | None = "p1", doc_id: str = "1", by_kind: bool = False
) -> TaggedDocument:
    """Return a note written with ⟦Q:marks⟧: the first letters of the types, a kind, or a label."""
    text, spans = "", []
    for place, piece in enumerate(re.split("[⟦⟧]", text_with_marks)):
        if place % 2:
            label, _, piece = piece.partition(":")
            label = label if by_kind else LABELS.get(label, label)
            spans.append(Span(len(text), len(text) + len(piece), label))
        text += piece
    return build_document(doc_id, text=text, spans=spans, patient_id=patient)


@cache
def clinical_sentences() -> tuple[TaggedDocument, ...]:
    """Return sentences with their clinical values marked as `value`."""
    names = ("en", "ja", "second_en", "second_ja")
    files = (Path(__file__).parent / "clinical" / f"{name}.txt" for name in names)
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    return tuple(marked(line.replace("⟦", "⟦value:")) for line in lines)
