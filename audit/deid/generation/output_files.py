"""A model's own texts beside the gold notes: its tags brought back to the notes, one by one.

`{"doc_id", "output"}` a line; or, where a note was read in windows, `{"doc_id", "outputs":
[{"start", "end", "output"}]}` as in the `copies.jsonl` of `deid tag --keep-outputs`. Torch-free.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from audit.deid.alignment import EXACT
from audit.deid.documents import TaggedDocument
from audit.deid.format_jsonl import read_line
from audit.deid.generation.copies import CopyReading, Piece, added, numbers_of, read_pieces
from audit.deid.pair_files import GOLD, PREDICTED, numbered_lines, opened, refuse_twice
from audit.deid.windows import Window
from audit.errors import AuditError

_SHAPE = "A line is a JSON object with `doc_id` and `output`."


@dataclass
class OutputFiles:
    """The notes of two files; after iteration the attributes say what did not fit.

    Attributes
    ----------
    n_gold_only
        Notes of the gold file without an output: every span there counts as missed.
    n_predicted_only
        Outputs without gold: they cannot be judged and are left out.
    sums
        How faithful the copies are, for `copies_summary`.
    """

    gold: Path
    outputs: Path
    n_gold_only: int = field(default=0, init=False)
    n_predicted_only: int = field(default=0, init=False)
    sums: dict[str, float] = field(default_factory=dict, init=False)
    _not_exact: set[str] = field(default_factory=set, init=False, repr=False)

    def __iter__(self) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
        """Yield (gold, note with the spans of its copy) in the order of the gold file.

        Raises
        ------
        AuditError
            If a file cannot be read, a note is there twice, or the files have none in common.
        """
        self.n_gold_only, self.sums, self._not_exact = 0, {}, set()
        for gold, reading in self._readings():
            if reading is None:
                self.n_gold_only += 1
                self._not_exact.add(gold.doc_id)
                yield gold, gold.with_spans(())
                continue
            self.sums = added(self.sums, numbers_of(reading))
            if reading.status != EXACT:
                self._not_exact.add(gold.doc_id)
            yield gold, reading.document

    def verbatim(self) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
        """Yield the same after a whole iteration, without the spans of copies that are not exact.

        Raises
        ------
        AuditError
            As iteration.
        """
        for gold, reading in self._readings(without=self._not_exact):
            yield gold, gold.with_spans(()) if reading is None else reading.verbatim

    def _readings(
        self, *, without: set[str] | None = None
    ) -> Iterator[tuple[TaggedDocument, CopyReading | None]]:
        left_out = without or set()
        labels = self._labels()
        with opened(self.gold, GOLD) as golds, opened(self.outputs, PREDICTED) as outputs:
            places = _places(outputs)
            n_outputs, n_common = len(places), 0
            seen: set[str] = set()
            for number, line, _ in numbered_lines(golds, what=GOLD):
                gold = read_line(line, what=GOLD, number=number)
                refuse_twice(gold.doc_id, seen, where=f"{GOLD}, line {number}")
                place = places.pop(gold.doc_id, None)
                n_common += place is not None
                if place is None or gold.doc_id in left_out:
                    yield gold, None
                else:
                    pieces = _pieces(outputs, place, note=gold)
                    yield gold, read_pieces(gold, pieces, labels=labels)
            self.n_predicted_only = len(places)
        if n_outputs and seen and not n_common:
            raise AuditError(
                "The two files have no note in common.",
                where="predicted notes",
                do="Give every note the same `doc_id` in both files.",
            )

    def _labels(self) -> set[str]:
        """Return the gold's labels: their tags are known, whatever they are called."""
        with opened(self.gold, GOLD) as golds:
            return {
                span.label
                for number, line, _ in numbered_lines(golds, what=GOLD)
                for span in read_line(line, what=GOLD, number=number).spans
            }


def _places(file: BinaryIO) -> dict[str, tuple[int, int]]:
    """Return for each note the number of its line and where in the file that begins."""
    places: dict[str, tuple[int, int]] = {}
    seen: set[str] = set()
    for number, line, offset in numbered_lines(file, what=PREDICTED):
        where = f"{PREDICTED}, line {number}"
        doc_id = _record(line, where=where).get("doc_id")
        if isinstance(doc_id, bool) or not isinstance(doc_id, str | int) or doc_id == "":
            raise AuditError("This line has no `doc_id`.", where=where, do=_SHAPE)
        refuse_twice(str(doc_id), seen, where=where)
        places[str(doc_id)] = number, offset
    return places


def _pieces(file: BinaryIO, place: tuple[int, int], *, note: TaggedDocument) -> list[Piece]:
    number, offset = place
    file.seek(offset)
    where = f"{PREDICTED}, line {number}"
    record = _record(file.readline().decode("utf-8-sig"), where=where)
    n_chars = len(note.text)
    if "outputs" not in record:
        given = [{"start": 0, "end": n_chars, "output": record["output"]}] if n_chars else []
    else:
        given = record["outputs"]
    try:
        pieces = [Piece(Window(one["start"], one["end"]), one["output"]) for one in given]
        windows = [piece.window for piece in pieces]
        if windows != sorted(windows) or any(one.end > n_chars for one in windows):
            raise ValueError("out of order, or behind the note")
        if not all(_is_plain(piece) for piece in pieces):
            raise ValueError("offsets or output of another type")
    except (ValueError, KeyError, TypeError):
        raise AuditError(
            "The windows of this line do not fit its note.",
            where=where,
            do="Give each window `start`, `end` and `output`, in the order of the note.",
        ) from None
    return pieces


def _is_plain(piece: Piece) -> bool:
    offsets = (piece.window.start, piece.window.end)
    return all(type(at) is int for at in offsets) and isinstance(piece.output, str)


def _record(line: str, *, where: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise AuditError("This line is no JSON object.", where=where, do=_SHAPE)
    is_list = isinstance(record.get("outputs"), list)
    if not is_list and not isinstance(record.get("output"), str):
        raise AuditError("This line has no `output`.", where=where, do=_SHAPE)
    return record
