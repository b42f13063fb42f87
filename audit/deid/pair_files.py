"""Two JSONL files of the same notes, gold and predicted, read side by side in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from audit.deid.documents import TaggedDocument
from audit.deid.format_jsonl import read_line
from audit.errors import AuditError

GOLD, PREDICTED = "gold notes", "predicted notes"
MAX_LINE_BYTES = 50_000_000


@dataclass
class PairedFiles:
    """The notes of two files; after iteration the attributes say what did not fit.

    Attributes
    ----------
    n_gold_only
        Notes of the gold file that were not predicted: every span there counts as missed.
    n_predicted_only
        Notes without gold: they cannot be judged and are left out.
    """

    gold: Path
    predicted: Path
    n_gold_only: int = field(default=0, init=False)
    n_predicted_only: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
        """Yield (gold, predicted) in the order of the gold file.

        Raises
        ------
        AuditError
            If a file cannot be read, a note is there twice, the texts of a note differ, or the
            files have no note in common.
        """
        with opened(self.gold, GOLD) as golds, opened(self.predicted, PREDICTED) as predictions:
            places = _places(predictions)
            n_predicted, n_common = len(places), 0
            self.n_gold_only = 0
            seen: set[str] = set()
            for number, line, _ in numbered_lines(golds, what=GOLD):
                gold = read_line(line, what=GOLD, number=number)
                refuse_twice(gold.doc_id, seen, where=f"{GOLD}, line {number}")
                place = places.pop(gold.doc_id, None)
                if place is None:
                    self.n_gold_only += 1
                    yield gold, gold.with_spans(())
                    continue
                n_common += 1
                yield gold, _predicted(predictions, place, gold=gold)
            self.n_predicted_only = len(places)
            if not seen:
                raise AuditError(
                    "There is no note to score.",
                    where="gold notes",
                    do="Give files with at least one note.",
                )
            if n_predicted and not n_common:
                raise AuditError(
                    "The two files have no note in common.",
                    where="predicted notes",
                    do="Give every note the same `doc_id` in both files.",
                )


def _predicted(file: BinaryIO, place: tuple[int, int], *, gold: TaggedDocument) -> TaggedDocument:
    number, offset = place
    if file.tell() != offset:
        file.seek(offset)
    document = read_line(
        _decoded(file.readline(), PREDICTED, number), what=PREDICTED, number=number
    )
    if document.text != gold.text:
        raise AuditError(
            "The text of this note is not that of the gold file, so offsets mean something else.",
            where=f"{PREDICTED}, line {number}",
            do="Give the source text in both files, without any change.",
        )
    return document


def _places(file: BinaryIO) -> dict[str, tuple[int, int]]:
    """Return for each note the number of its line and where in the file that begins."""
    places: dict[str, tuple[int, int]] = {}
    seen: set[str] = set()
    for number, line, offset in numbered_lines(file, what=PREDICTED):
        doc_id = read_line(line, what=PREDICTED, number=number).doc_id
        refuse_twice(doc_id, seen, where=f"{PREDICTED}, line {number}")
        places[doc_id] = number, offset
    return places


def refuse_twice(doc_id: str, seen: set[str], *, where: str) -> None:
    """Take a note's name into those that were seen.

    Raises
    ------
    AuditError
        If it was there before.
    """
    if doc_id in seen:
        raise AuditError(
            "This note is there twice.", where=where, do="Give every note a `doc_id` of its own."
        )
    seen.add(doc_id)


def numbered_lines(file: BinaryIO, *, what: str) -> Iterator[tuple[int, str, int]]:
    """Yield each line that is not blank: its number from 1, its text, where it begins in bytes.

    Raises
    ------
    AuditError
        If a line is too long or no UTF-8.
    """
    offset = 0
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise AuditError("This line is longer than 50 MB.", where=f"{what}, line {number}")
        if line.strip():
            yield number, _decoded(line, what, number), offset
        offset += len(line)


def _decoded(line: bytes, what: str, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise AuditError(
            "This line is not UTF-8.", where=f"{what}, line {number}", do="Save the file as UTF-8."
        ) from None


def opened(path: Path, what: str) -> BinaryIO:
    """Open a file to be read.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where=what) from None
