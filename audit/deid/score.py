"""Makes a score: both sides read, matched under all criteria, counted, kept whole or not at all.

Comes in: an order and the files that it means. Goes out: the folder of a kept score. What a stopped
run has tagged stays beside it under another name, and the next run of the same order goes on there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from audit.deid.copies import EXACT, CopyingTagger, OutputFiles, added, copies_summary
from audit.deid.matching import (
    ANY,
    COLUMNS,
    CRITERIA,
    MATCHERS,
    MISSED,
    OPTIMAL,
    SPURIOUS,
    CoverageCounts,
    MatchCounts,
    count,
    coverage,
    match,
    match_both,
    n_differing,
    total,
)
from audit.deid.metrics import (
    MEASURES,
    LabelMetrics,
    SeenRecall,
    measured,
    seen_recall,
    surface_forms,
)
from audit.deid.tag import COPIES
from audit.deid.tagger import Tagger, tag_checked
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import GOLD, MAX_LINE_BYTES, PREDICTED, PairedFiles, jsonl_line, read_line
from audit.notes.spans import (
    FIVE_TYPES,
    JAPANESE,
    LabelMap,
    Span,
    TaggedDocument,
    n_overlapping,
    relabelled,
)
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.shelf import Shelf, new_file, now, one_line, write_whole
from audit.stats import N_REPLICATES, BoolArray, Estimate, IntArray, Rate
from audit.tables import write_table

Pair = tuple[TaggedDocument, TaggedDocument]
ShouldStop = Callable[[], bool]

BLIND = ("strict", "label_relaxed")
"""Criteria that are asked once more with all labels made equal: was it found at all?"""


@dataclass(frozen=True)
class CriterionCounts:
    """What one criterion gave: counts by patient, sorted by patient, and the matcher's share.

    `n_differing` golds have another partner, or none, under the other matcher.
    """

    by_patient: tuple[MatchCounts, ...]
    n_differing: int

    @property
    def counts(self) -> MatchCounts:
        """The counts of all patients."""
        return total(self.by_patient)


@dataclass(frozen=True)
class Scored:
    """Counts of a tagger on a set of notes.

    Attributes
    ----------
    criteria
        By name of the criterion.
    blind
        The same with all labels made equal, for the criteria of `BLIND`.
    covered
        Characters and spans that redaction would take out.
    n_documents, n_patients
        What was measured.
    n_duplicates
        Spans that were given twice in one note, on both sides together, and counted once.
    n_overlapping_gold
        Golds that share a character with a gold before them.
    """

    criteria: dict[str, CriterionCounts]
    blind: dict[str, CriterionCounts]
    covered: CoverageCounts
    n_documents: int
    n_patients: int
    n_duplicates: int
    n_overlapping_gold: int


@dataclass
class _Sums:
    """What grows while notes are read."""

    by_patient: dict[tuple[int, str], list[MatchCounts]] = field(default_factory=dict)
    n_differing: int = 0

    def add(
        self,
        golds: Sequence[Span],
        predictions: Sequence[Span],
        *,
        unaligned: Sequence[str],
        criterion: str,
        matcher: str,
        patient: tuple[int, str],
    ) -> None:
        best, in_order = match_both(golds, predictions, criterion=criterion)
        found = best if matcher == OPTIMAL else in_order
        self.n_differing += n_differing(best, in_order)
        counts = self.by_patient.setdefault(patient, [])
        counts.append(count(found, unaligned=unaligned))
        if len(counts) > 50:
            counts[:] = [total(counts)]

    def done(self) -> CriterionCounts:
        by_patient = tuple(total(counts) for _, counts in sorted(self.by_patient.items()))
        return CriterionCounts(by_patient, self.n_differing)


def score_pairs(
    pairs: Iterable[Pair], *, matcher: str = OPTIMAL, should_stop: ShouldStop | None = None
) -> Scored:
    """Score notes, gold beside predicted; neither their order nor that of their spans matters.

    Memory grows with the number of patients, not with the length of the notes.

    Raises
    ------
    AuditError
        If there is no note, or a label has the name of a margin of the matrix.
    AuditCancelled
        If `should_stop` said so; half a score is no score.
    ValueError
        If there is no such matcher.
    """
    if matcher not in MATCHERS:
        raise ValueError(f"{matcher}: no such matcher")
    sums = {name: _Sums() for name in CRITERIA}
    blind = {name: _Sums() for name in BLIND}
    covered = CoverageCounts()
    n_documents = n_duplicates = n_overlaps = 0
    for gold, predicted in pairs:
        if should_stop is not None and should_stop():
            raise AuditCancelled
        _check_labels(gold, predicted)
        patient = gold.patient
        for name in CRITERIA:
            sums[name].add(
                gold.spans, predicted.spans, unaligned=predicted.unaligned, criterion=name,
                matcher=matcher, patient=patient,
            )  # fmt: skip
        golds, predictions = _blind(gold.spans), _blind(predicted.spans)
        unaligned = ["any"] * len(predicted.unaligned)
        for name in BLIND:
            blind[name].add(
                golds, predictions, unaligned=unaligned, criterion=name, matcher=matcher,
                patient=patient,
            )  # fmt: skip
        covered += coverage(gold, predicted=predicted.spans)
        n_documents += 1
        n_duplicates += gold.n_duplicates + predicted.n_duplicates
        n_overlaps += n_overlapping(gold.spans)
    if not n_documents:
        raise AuditError("There is no note to score.", do="Give files with at least one note.")
    return Scored(
        criteria={name: one.done() for name, one in sums.items()},
        blind={name: one.done() for name, one in blind.items()},
        covered=covered,
        n_documents=n_documents,
        n_patients=len(sums[CRITERIA[0]].by_patient),
        n_duplicates=n_duplicates,
        n_overlapping_gold=n_overlaps,
    )


def _blind(spans: Iterable[Span]) -> list[Span]:
    return sorted({Span(span.start, span.end, "any") for span in spans})


def _check_labels(*documents: TaggedDocument) -> None:
    for document in documents:
        labels = {span.label for span in document.spans} | set(document.unaligned)
        if labels & {MISSED, SPURIOUS}:
            raise AuditError(
                "A label is called `missed` or `spurious`, as the margins of the matrix are.",
                do="Give the label another name.",
            )


def score_summary(
    scored: Scored, *, matcher: str, seed: int = 0, n_replicates: int = N_REPLICATES
) -> dict[str, object]:
    """Return measures, confusion matrices and coverage; shares 0-1, null where undefined.

    `criteria[criterion]["labels"][label]` holds precision, recall, f1, complete, clean, exact,
    their `intervals` (95 %, bootstrap over patients) and all counts; `together` the same for all
    labels counted together, `macro` the mean over labels.
    """
    criteria = {
        name: _criterion(one, seed=seed, n_replicates=n_replicates)
        for name, one in scored.criteria.items()
    }
    blind = {}
    for name, one in scored.blind.items():
        metrics = measured(one.by_patient, seed=seed, n_replicates=n_replicates)
        blind[name] = _label(metrics.together)
    return {
        "matcher": matcher,
        "n_documents": scored.n_documents,
        "n_patients": scored.n_patients,
        "n_duplicate_spans": scored.n_duplicates,
        "n_overlapping_gold": scored.n_overlapping_gold,
        "seed": seed,
        "n_replicates": n_replicates,
        "criteria": criteria,
        "type_blind": blind,
        "coverage": coverage_summary(scored.covered),
    }


def _criterion(one: CriterionCounts, *, seed: int, n_replicates: int) -> dict[str, object]:
    metrics = measured(one.by_patient, seed=seed, n_replicates=n_replicates)
    return {
        "labels": {entry.label: _label(entry) for entry in metrics.labels},
        "together": _label(metrics.together),
        "macro": {
            **{name: _number(e.value) for name, e in zip(MEASURES, metrics.macro, strict=True)},
            "intervals": {
                name: _interval(e) for name, e in zip(MEASURES, metrics.macro, strict=True)
            },
        },
        "matrix": matrix_summary(one.counts),
        "n_pairs_differ": one.n_differing,
    }


def matrix_summary(counts: MatchCounts) -> dict[str, object]:
    """Return the confusion matrix: `rows` gold labels and "spurious", `columns` predicted labels
    and "missed".
    """  # noqa: D205
    labels = counts.labels
    rows = zip((*labels, SPURIOUS), counts.matrix(labels), strict=True)
    return {"columns": [*labels, MISSED], "rows": dict(rows)}


def _label(entry: LabelMetrics) -> dict[str, object]:
    summary: dict[str, object] = {
        name: _number(entry.estimate(name).value) for name in MEASURES
    }  # fmt: skip
    summary["intervals"] = {name: _interval(entry.estimate(name)) for name in MEASURES}
    summary |= dict(zip(COLUMNS, entry.counts, strict=True))
    if entry.label in JAPANESE:
        summary["label_ja"] = JAPANESE[entry.label]
    return summary


def coverage_summary(covered: CoverageCounts) -> dict[str, object]:
    """Return what redaction would take out: golds covered whole, characters covered and left."""
    labels = MatchCounts({label: () for label in covered.rows}).labels
    n_text = covered.n_text_chars
    return {
        "labels": {label: _coverage_row(covered, label) for label in labels},
        "together": _coverage_row(covered, ANY),
        "n_text_chars": n_text,
        "n_predicted_chars": covered.n_predicted_chars,
        "n_left_chars": covered.n_left_chars,
        "left_per_1000_chars": 1000 * covered.n_left_chars / n_text if n_text else None,
        "n_over_chars": covered.n_over_chars,
        "over_redaction": _number(Rate(covered.n_over_chars, covered.n_outside_chars).value),
    }


def _coverage_row(covered: CoverageCounts, label: str) -> dict[str, object]:
    n_gold, n_whole, n_chars, n_covered = covered.row(label)
    return {
        "n_gold": n_gold,
        "n_covered_whole": n_whole,
        "covered_whole": _number(Rate(n_whole, n_gold).value),
        "n_gold_chars": n_chars,
        "n_covered_chars": n_covered,
        "covered_chars": _number(Rate(n_covered, n_chars).value),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _interval(estimate: Estimate) -> list[float] | None:
    return None if math.isnan(estimate.low) else [estimate.low, estimate.high]


OTHER_LABEL, OTHER_PLACE = "other label", "other place"
MISSES_KINDS = (MISSED, SPURIOUS, OTHER_LABEL, OTHER_PLACE)
MISSES_CONTEXT_CHARS = 30


@dataclass(frozen=True)
class Miss:
    """One difference between gold and prediction.

    Attributes
    ----------
    kind
        `missed`: a gold without a prediction; `spurious`: a prediction without a gold; `other
        label`: a pair of different labels; `other place`: a pair of one label whose ends differ.
    row, column
        The cell of the confusion matrix it is counted in: row, the gold's label or `spurious`;
        column, the prediction's label or `missed`.
    gold, predicted
        The spans; None where there is none, as with a prediction that has no place in the text.
    gold_text, predicted_text
        What they hold.
    before, after
        Text around both.
    """

    doc_id: str
    patient_id: str | None
    kind: str
    row: str
    column: str
    gold: Span | None
    predicted: Span | None
    gold_text: str
    predicted_text: str
    before: str
    after: str

    def __post_init__(self) -> None:
        """Check the kind against the spans, once."""
        if self.kind not in MISSES_KINDS or (self.gold is None) != (self.kind == SPURIOUS):
            raise ValueError(f"{self.kind}: no such kind, or the gold does not fit it")


def misses_of(
    gold: TaggedDocument,
    *,
    predicted: TaggedDocument,
    criterion: str = "label_relaxed",
    matcher: str = OPTIMAL,
    n_context: int = MISSES_CONTEXT_CHARS,
) -> tuple[Miss, ...]:
    """Return all differences of one note, in the order of the text.

    Under the criterion `label_relaxed` missed and spurious are the margins of the paper's matrix;
    under `strict` every pair whose label or place differs is both missed and spurious.

    Raises
    ------
    ValueError
        If there is no such criterion or matcher.
    """
    found = match(gold.spans, predicted.spans, criterion=criterion, matcher=matcher)
    pairs: list[tuple[Span | None, Span | None]] = [
        pair for pair in found.pairs if pair[0] != pair[1]
    ]
    pairs += [(span, None) for span in found.missed]
    pairs += [(None, span) for span in found.spurious]
    listed = [
        _miss(gold, one, other, n_context=n_context)
        for one, other in sorted(pairs, key=_misses_place)
    ]
    nowhere = [_nowhere(gold, label) for label in predicted.unaligned]
    return tuple(listed + nowhere)


def _misses_place(pair: tuple[Span | None, Span | None]) -> tuple[int, int, bool]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None


def _miss(
    note: TaggedDocument, gold: Span | None, predicted: Span | None, *, n_context: int
) -> Miss:
    spans = [span for span in (gold, predicted) if span is not None]
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    if gold is None:
        kind = SPURIOUS
    elif predicted is None:
        kind = MISSED
    else:
        kind = OTHER_PLACE if gold.label == predicted.label else OTHER_LABEL
    return Miss(
        doc_id=note.doc_id,
        patient_id=note.patient_id,
        kind=kind,
        row=SPURIOUS if gold is None else gold.label,
        column=MISSED if predicted is None else predicted.label,
        gold=gold,
        predicted=predicted,
        gold_text="" if gold is None else note.text[gold.start : gold.end],
        predicted_text="" if predicted is None else note.text[predicted.start : predicted.end],
        before=note.text[max(0, start - n_context) : start],
        after=note.text[end : end + n_context],
    )


def _nowhere(note: TaggedDocument, label: str) -> Miss:
    return Miss(
        note.doc_id, note.patient_id, SPURIOUS, SPURIOUS, label, None, None, "", "", "", ""
    )  # fmt: skip


HEADER = (
    "doc_id", "patient_id", "kind", "gold_label", "predicted_label", "gold_start", "gold_end",
    "predicted_start", "predicted_end", "before", "gold_text", "predicted_text", "after",
)  # fmt: skip


def misses_csv(misses: Iterable[Miss]) -> str:
    """Return misses as CSV in which no cell is a formula."""
    return write_table(HEADER, map(_cells, misses))


def _cells(miss: Miss) -> tuple[object, ...]:
    gold, predicted = miss.gold, miss.predicted
    predicted_label = "" if miss.kind == MISSED else miss.column
    return (
        miss.doc_id, miss.patient_id, miss.kind, gold.label if gold else "", predicted_label,
        gold.start if gold else None, gold.end if gold else None,
        predicted.start if predicted else None, predicted.end if predicted else None,
        miss.before, miss.gold_text, miss.predicted_text, miss.after,
    )  # fmt: skip


def misses_jsonl(misses: Iterable[Miss]) -> Iterator[str]:
    """Yield each miss as a line of JSON, with its line end."""
    for miss in misses:
        yield json.dumps(asdict(miss), ensure_ascii=False) + "\n"


SPANS, INDEX = "spans.jsonl", "spans.npz"
SAME = "same"
SPAN_RECORDS_KINDS = (*MISSES_KINDS, SAME)
"""What stands in the list of misses, and pairs of the same label and place."""
SPAN_RECORDS_CONTEXT_CHARS = 40
MAX_MIDDLE_CHARS = 600

_Pair = tuple[Span | None, Span | None]
_COLUMNS = ("offset", "criteria", "kind", "row", "column", "note")


@dataclass(frozen=True)
class SpanCase:
    """What became of a gold span, a prediction or both.

    Attributes
    ----------
    note
        Number of the note, from 0, in the order of the gold file.
    doc_id, patient_id
        As given: untrusted text.
    kind
        One of `KINDS`.
    row, column
        The cell of the matrix: gold label or `spurious`, predicted label or `missed`.
    gold, predicted
        (start, end) in the note; None where there is none.
    start
        Where `text` begins in the note.
    text
        The spans with some characters around them; cut after a few hundred.
    """

    note: int
    doc_id: str
    patient_id: str | None
    kind: str
    row: str
    column: str
    gold: tuple[int, int] | None
    predicted: tuple[int, int] | None
    start: int
    text: str

    def __post_init__(self) -> None:
        """Check the kind, once."""
        if self.kind not in SPAN_RECORDS_KINDS:
            raise ValueError(f"{self.kind}: no such kind")

    def pieces(self, span: tuple[int, int] | None) -> tuple[str, str, str]:
        """Return the text before, in and behind one of the spans; no span is nothing in it."""
        if span is None:
            return self.text, "", ""
        low, high = (min(max(at - self.start, 0), len(self.text)) for at in span)
        return self.text[:low], self.text[low:high], self.text[high:]

    def as_miss(self) -> Miss:
        """Return it as a line of the list of misses; ValueError for what is the same."""
        gold = None if self.gold is None else Span(*self.gold, self.row)
        predicted = None if self.predicted is None else Span(*self.predicted, self.column)
        spans = [span for span in (gold, predicted) if span is not None]
        whole = (min(s.start for s in spans), max(s.end for s in spans)) if spans else None
        before, _, after = self.pieces(whole)
        return Miss(
            self.doc_id, self.patient_id, self.kind, self.row, self.column, gold, predicted,
            self.pieces(self.gold)[1], self.pieces(self.predicted)[1], before, after,
        )  # fmt: skip


class SpanWriter:
    """Writes the cases of notes, one note after the other."""

    def __init__(self, folder: Path, *, matcher: str = OPTIMAL) -> None:
        self._file = new_file(folder / SPANS)
        self._folder = folder
        self._matcher = matcher
        self._columns = {name: array("q") for name in _COLUMNS}
        self._labels: dict[str, int] = {}
        self._offset = self._n_notes = 0

    def add(self, gold: TaggedDocument, *, predicted: TaggedDocument) -> None:
        """Write the cases of a note."""
        masks: dict[_Pair, int] = {}
        for bit, criterion in enumerate(CRITERIA):
            found = match(gold.spans, predicted.spans, criterion=criterion, matcher=self._matcher)
            pairs: list[_Pair] = [*found.pairs]
            pairs += [(span, None) for span in found.missed]
            pairs += [(None, span) for span in found.spurious]
            for pair in pairs:
                masks[pair] = masks.get(pair, 0) | 1 << bit
        for pair in sorted(masks, key=_span_records_place):
            self._write(_case(gold, pair, number=self._n_notes), criteria=masks[pair])
        every = (1 << len(CRITERIA)) - 1
        for label in predicted.unaligned:
            case = SpanCase(
                self._n_notes, gold.doc_id, gold.patient_id, SPURIOUS, SPURIOUS, label, None, None,
                0, "",
            )  # fmt: skip
            self._write(case, criteria=every)
        self._n_notes += 1

    def close(self) -> None:
        """Finish the file, and write what finds its lines."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        columns: dict[str, Any] = {
            name: np.frombuffer(column, dtype=np.int64) for name, column in self._columns.items()
        }
        with new_file(self._folder / INDEX) as file:
            labels = np.array(list(self._labels), dtype=np.str_)
            np.savez_compressed(file, labels=labels, **columns)

    def _write(self, case: SpanCase, *, criteria: int) -> None:
        line = (json.dumps(asdict(case), ensure_ascii=False) + "\n").encode(
            "utf-8", "surrogatepass"
        )
        values = (
            self._offset, criteria, SPAN_RECORDS_KINDS.index(case.kind), self._label(case.row),
            self._label(case.column), case.note,
        )  # fmt: skip
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)
        self._file.write(line)
        self._offset += len(line)

    def _label(self, label: str) -> int:
        return self._labels.setdefault(label, len(self._labels))


@dataclass(frozen=True, eq=False)
class SpanIndex:
    """Where the cases of a score lie, and which are of which cell; [N] each.

    Attributes
    ----------
    folder
        Of the score.
    labels
        Names of the codes in `row` and `column`.
    offset, criteria, kind, row, column, note
        Byte offset, bits of criteria, place in `KINDS`, codes of the labels, number of the note.
    """

    folder: Path
    labels: tuple[str, ...]
    offset: IntArray
    criteria: IntArray
    kind: IntArray
    row: IntArray
    column: IntArray
    note: IntArray

    def chosen(
        self,
        *,
        criterion: str,
        kinds: Sequence[str] = SPAN_RECORDS_KINDS,
        row: str = "",
        column: str = "",
    ) -> IntArray:
        """Return the numbers of the cases of a criterion, of some kinds, of a row or column."""
        is_chosen = (self.criteria >> CRITERIA.index(criterion)) & 1 == 1
        if set(kinds) != set(SPAN_RECORDS_KINDS):
            is_chosen &= np.isin(self.kind, [SPAN_RECORDS_KINDS.index(kind) for kind in kinds])
        for codes, label in ((self.row, row), (self.column, column)):
            if label:
                code = self.labels.index(label) if label in self.labels else -1
                is_chosen &= codes == code
        return np.flatnonzero(is_chosen).astype(np.int64)

    def of_label(self, label: str, *, among: IntArray) -> IntArray:
        """Return those among the cases whose gold or prediction has a label."""
        code = self.labels.index(label) if label in self.labels else -1
        is_here: BoolArray = (self.row[among] == code) | (self.column[among] == code)
        return np.asarray(among[is_here], dtype=np.int64)

    def readable(self) -> IntArray:
        """Return the numbers of the golds of which a character stands in no prediction.

        Raises
        ------
        AuditError
            If a line cannot be read.
        """
        found: list[int] = []
        numbers = self.chosen(criterion=CRITERIA[-1]).tolist()
        rows = zip(numbers, self.cases(numbers), strict=True)
        for _, of_note in groupby(rows, key=lambda row: row[1].note):
            own = list(of_note)
            taken = {i for _, case in own if case.predicted for i in range(*case.predicted)}
            found += [n for n, case in own if case.gold and not taken.issuperset(range(*case.gold))]
        return np.array(sorted(found), dtype=np.int64)

    def cases(self, numbers: Iterable[int]) -> Iterator[SpanCase]:
        """Read cases, in the order that is asked for.

        Raises
        ------
        AuditError
            If a line cannot be read.
        """
        try:
            with (self.folder / SPANS).open("rb") as file:
                for number in numbers:
                    file.seek(int(self.offset[number]))
                    yield _read(file.readline())
        except (OSError, ValueError, KeyError, TypeError):
            raise AuditError("The spans of this score cannot be read.", where="score") from None


def span_index(folder: Path) -> SpanIndex:
    """Return what finds the cases of a score.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    try:
        with np.load(folder / INDEX, allow_pickle=False) as found:
            columns = [found[name] for name in _COLUMNS]
            labels = tuple(str(label) for label in found["labels"])
    except (OSError, ValueError, KeyError):
        raise AuditError("The spans of this score cannot be read.", where="score") from None
    offset, criteria, kind, row, column, note = columns
    return SpanIndex(folder, labels, offset, criteria, kind, row, column, note)


def _read(line: bytes) -> SpanCase:
    content = json.loads(line.decode("utf-8", "surrogatepass"))
    for side in ("gold", "predicted"):
        content[side] = None if content[side] is None else tuple(content[side])
    return SpanCase(**content)


def _span_records_place(pair: _Pair) -> tuple[int, int, bool, bool, str]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None, pair[1] is None, first.label


def _case(note: TaggedDocument, pair: _Pair, *, number: int) -> SpanCase:
    gold, predicted = pair
    spans = [span for span in pair if span is not None]
    start = max(0, min(span.start for span in spans) - SPAN_RECORDS_CONTEXT_CHARS)
    end = max(span.end for span in spans)
    text = note.text[start : min(end + SPAN_RECORDS_CONTEXT_CHARS, start + MAX_MIDDLE_CHARS)]
    return SpanCase(
        note=number,
        doc_id=note.doc_id,
        patient_id=note.patient_id,
        kind=_kind(gold, predicted),
        row=SPURIOUS if gold is None else gold.label,
        column=MISSED if predicted is None else predicted.label,
        gold=None if gold is None else (gold.start, gold.end),
        predicted=None if predicted is None else (predicted.start, predicted.end),
        start=start,
        text=text,
    )


def _kind(gold: Span | None, predicted: Span | None) -> str:
    if gold is None:
        return SPURIOUS
    if predicted is None:
        return MISSED
    if gold.label != predicted.label:
        return OTHER_LABEL
    return SAME if gold == predicted else OTHER_PLACE


SCORE, PATIENTS = "score.json", "patients.npz"
FORMAT = 1
_NEEDED = (SCORE, PATIENTS, SPANS, INDEX)


@dataclass(frozen=True)
class KeptScore:
    """A score that is kept.

    Attributes
    ----------
    score_id
        12 hexadecimal digits.
    title
        As given: untrusted text; may be empty.
    gold, predicted
        Kind and reference of both sides, as in `audit.deid.score.Source`.
    tagger
        What the tagger calls itself: untrusted text; empty where predictions were given.
    gold_digest
        SHA-256 of the gold notes in any order: two scores with the same one can be compared.
    created
        ISO time stamp in UTC.
    n_documents, n_patients, n_gold
        Of the gold notes.
    path
        The folder.
    content
        All that `score.json` says.
    """

    score_id: str
    title: str
    gold: tuple[str, str]
    predicted: tuple[str, str]
    tagger: str
    gold_digest: str
    created: str
    n_documents: int
    n_patients: int
    n_gold: int
    path: Path
    content: Mapping[str, Any] = field(repr=False, compare=False)


def _read_score(folder: Path) -> KeptScore:
    content = json.loads((folder / SCORE).read_bytes())
    if content["format"] != FORMAT or not all((folder / name).is_file() for name in _NEEDED):
        raise ValueError
    summary = content["summary"]
    return KeptScore(
        score_id=folder.name,
        title=str(content["title"]),
        gold=(str(content["gold"]["kind"]), str(content["gold"]["ref"])),
        predicted=(str(content["predicted"]["kind"]), str(content["predicted"]["ref"])),
        tagger=str(content["tagger"]["name"]),
        gold_digest=str(content["gold_digest"]),
        created=str(content["created"]),
        n_documents=int(summary["n_documents"]),
        n_patients=int(summary["n_patients"]),
        n_gold=int(summary["criteria"][CRITERIA[0]]["together"]["n_gold"]),
        path=folder,
        content=content,
    )


SCORES = Shelf("scores", where="score", read=_read_score)


def write_patients(folder: Path, scored: Scored) -> None:
    """Write the counts by patient, in the order of `Scored`: an array for each criterion."""
    tables: dict[str, Any] = {}
    for name, one in scored.criteria.items():
        labels = sorted({label for counts in one.by_patient for label in counts.rows})
        rows = [[counts.row(label) for label in labels] for counts in one.by_patient]
        shape = (len(one.by_patient), len(labels), len(COLUMNS))
        tables[name] = np.array(rows, dtype=np.int64).reshape(shape)
        tables[f"{name} labels"] = np.array(labels, dtype=np.str_)
    with (folder / PATIENTS).open("wb") as file:
        np.savez_compressed(file, **tables)


def patients_of(score_id: str, *, criterion: str) -> tuple[MatchCounts, ...]:
    """Return the counts by patient, sorted as the score's patients are; without the matrix.

    Raises
    ------
    AuditError
        If there is no such score, or it is damaged.
    """
    path = SCORES.get(score_id).path / PATIENTS
    with SCORES.reading(), np.load(path, allow_pickle=False) as tables:
        table, labels = tables[criterion], [str(x) for x in tables[f"{criterion} labels"]]
    return tuple(_counts(labels, rows.tolist()) for rows in table)


def _counts(labels: Sequence[str], rows: Sequence[Sequence[int]]) -> MatchCounts:
    found: Mapping[str, tuple[int, ...]] = {
        label: tuple(row) for label, row in zip(labels, rows, strict=True) if any(row)
    }
    return MatchCounts(found)


GIVEN, FILE, EXAMPLE = "given", "file", "example"
TAGGER, TAGGED, OUTPUTS = "tagger", "tagged", "outputs"
GOLD_KINDS = (EXAMPLE, GIVEN, FILE)
PREDICTED_KINDS = (TAGGER, TAGGED, GIVEN, OUTPUTS)
LANGUAGES = ("ja", "en")
MAX_REPLICATES = 100_000


@dataclass(frozen=True)
class Source:
    """Where notes with spans come from.

    Attributes
    ----------
    kind
        `given`: kept from an upload; `file`: a registered file; `example`: the tool's own invented
        notes; `tagger`: what a tagger says; `tagged`: a kept tagged set; `outputs`: a model's
        copies of the notes, kept from an upload.
    ref
        The digest of what was given, the identifier of a file, tagger or set, or the language of
        the example.
    """

    kind: str
    ref: str

    def __post_init__(self) -> None:
        """Check the kind, once."""
        if self.kind not in {*GOLD_KINDS, *PREDICTED_KINDS} or not self.ref:
            raise ValueError(f"{self.kind}: no such source of notes")


@dataclass(frozen=True)
class ScoreOrder:
    """What is to be scored.

    Attributes
    ----------
    gold, predicted
        The two sides.
    training
        Notes that the tagger has learned from, for names seen against unseen; None where they are
        not at hand.
    has_five_types
        Whether labels of i2b2 2014, MEDDOCAN and others are mapped to the five types.
    label_map
        More labels: from a label to another, "" leaves its spans out.
    matcher, seed, n_replicates
        As in `audit.deid.score` and its bootstrap.
    title
        What to call the score; makes no other question of it.

    Raises
    ------
    ValueError
        If a side cannot come from there, or there is no such matcher.
    """

    gold: Source
    predicted: Source
    training: Source | None = None
    has_five_types: bool = False
    label_map: Mapping[str, str] = field(default_factory=dict)
    matcher: str = OPTIMAL
    seed: int = 0
    n_replicates: int = N_REPLICATES
    title: str = ""

    def __post_init__(self) -> None:
        """Check that the sides can come from there, once."""
        if self.gold.kind not in GOLD_KINDS or self.predicted.kind not in PREDICTED_KINDS:
            raise ValueError("a side of a score cannot come from there")
        if self.training is not None and self.training.kind not in (GIVEN, FILE):
            raise ValueError("training notes cannot come from there")
        if self.gold.kind == EXAMPLE and self.gold.ref not in LANGUAGES:
            raise ValueError(f"{self.gold.ref}: no example in this language")
        if self.matcher not in MATCHERS or not 1 <= self.n_replicates <= MAX_REPLICATES:
            raise ValueError("no such matcher, or too many replicates")

    @property
    def mapping(self) -> LabelMap | None:
        """The map of labels; None where all stay as they are."""
        if not self.has_five_types and not self.label_map:
            return None
        first = FIVE_TYPES.labels if self.has_five_types else {}
        return LabelMap({**first, **self.label_map})

    def decisive(self) -> dict[str, Any]:
        """Return what makes another question of it: all but the title."""
        return {name: value for name, value in order_to_json(self).items() if name != "title"}


def order_to_json(order: ScoreOrder) -> dict[str, Any]:
    """Return an order as plain values."""
    return {**asdict(order), "label_map": dict(order.label_map)}


def order_from_json(content: Mapping[str, Any]) -> ScoreOrder:
    """Return the order that `order_to_json` wrote.

    Raises
    ------
    AuditError
        If it is none.
    """
    try:
        training = content["training"]
        return ScoreOrder(
            gold=Source(**content["gold"]),
            predicted=Source(**content["predicted"]),
            training=None if training is None else Source(**training),
            **{
                name: content[name]
                for name in (
                    "has_five_types", "label_map", "matcher", "seed", "n_replicates", "title",
                )
            },
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise AuditError("This is no order of a score.", where="order") from None


GOLD_FILE, PREDICTED_FILE, VERBATIM_FILE = "gold.jsonl", "predicted.jsonl", "verbatim.jsonl"
_BATCH_NOTES, _BATCH_CHARS = 32, 100_000
OnBytes = Callable[[int], None]


@dataclass
class Noticed:
    """What was seen while the sides were read.

    Attributes
    ----------
    unknown
        Labels that the map does not know; they were kept.
    n_left_out
        Spans whose label the map leaves out.
    n_duplicates
        Spans that were given twice in one note.
    """

    unknown: set[str] = field(default_factory=set)
    n_left_out: int = 0
    n_duplicates: int = 0


def notes_of(path: Path, *, what: str, on_bytes: OnBytes) -> Iterator[TaggedDocument]:
    """Yield the notes of a JSONL file, one in memory at a time.

    Raises
    ------
    AuditError
        If the file or a line cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
                where = f"{what}, line {number}"
                if len(line) > MAX_LINE_BYTES:
                    raise AuditError("This line is longer than 50 MB.", where=where)
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise AuditError(
                        "This line is not UTF-8.", where=where, do="Save the file as UTF-8."
                    ) from None
                if text.strip():
                    yield read_line(text, what=what, number=number)
                on_bytes(len(line))
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where=what) from None


def write_notes(
    notes: Iterable[TaggedDocument], path: Path, *, by: LabelMap | None, noticed: Noticed
) -> str:
    """Write notes with their labels mapped; return the digest of them all, in any order."""
    digests = []
    with new_file(path) as file:
        for given in notes:
            note = given
            noticed.n_duplicates += note.n_duplicates
            if by is not None:
                mapped = relabelled(note, by=by)
                noticed.unknown |= set(mapped.unknown)
                noticed.n_left_out += mapped.n_left_out
                noticed.n_duplicates += mapped.document.n_duplicates
                note = mapped.document
            line = jsonl_line(note).encode("utf-8", "surrogatepass")
            digests.append(hashlib.sha256(line).digest())
            file.write(line)
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def write_tagged(
    gold: Path, folder: Path, *, tagger: Tagger, on_bytes: OnBytes, should_stop: StopQuestion
) -> None:
    """Write what a tagger says of the gold's texts; what a run before has written stays.

    Batches depend on the notes alone, so that a run which goes on asks the same. Of a tagger that
    writes copies of the notes, how faithful each one is goes into `copies.jsonl`.
    """
    path, copies = folder / PREDICTED_FILE, folder / COPIES
    is_copying = isinstance(tagger, CopyingTagger)
    n_done = _whole_lines(path)
    if is_copying:
        n_done = min(n_done, _whole_lines(copies))
        for grown in (path, copies):
            _whole_lines(grown, at_most=n_done)
    n_seen = 0
    for batch, n_bytes in _batches(gold, n_notes=_n_at_once(tagger)):
        n_seen += len(batch)
        skip = max(0, n_done - (n_seen - len(batch)))
        if skip < len(batch):
            found, lines = _asked(tagger, batch, should_stop=should_stop)
            if is_copying:
                _append(copies, lines[skip:])
            _append(path, [jsonl_line(note) for note in found[skip:]])
        on_bytes(n_bytes)


def _asked(
    tagger: Tagger, notes: Sequence[TaggedDocument], *, should_stop: StopQuestion
) -> tuple[list[TaggedDocument], list[str]]:
    """Return the notes with a tagger's spans, and a line of each copy where it writes copies."""
    if isinstance(tagger, CopyingTagger):
        found = tagger.read(notes, should_stop=should_stop)
        lines = [json.dumps(one.line(), ensure_ascii=False) + "\n" for one in found]
        return [one.document for one in found], lines
    tags = tag_checked(tagger, [note.text for note in notes])
    return [note.with_spans(spans) for note, spans in zip(notes, tags, strict=True)], []


def _n_at_once(tagger: Tagger) -> int:
    return tagger.n_notes_at_once if isinstance(tagger, CopyingTagger) else _BATCH_NOTES


def _append(path: Path, lines: Sequence[str]) -> None:
    with path.open("ab") as file:
        path.chmod(0o600)
        file.write("".join(lines).encode("utf-8", "surrogatepass"))


def _batches(gold: Path, *, n_notes: int) -> Iterator[tuple[list[TaggedDocument], int]]:
    batch: list[TaggedDocument] = []
    n_chars = n_bytes = 0

    def count(n: int) -> None:
        nonlocal n_bytes
        n_bytes += n

    for note in notes_of(gold, what=GOLD, on_bytes=count):
        batch.append(note)
        n_chars += len(note.text)
        if len(batch) >= n_notes or n_chars >= _BATCH_CHARS:
            yield batch, n_bytes
            batch, n_chars, n_bytes = [], 0, 0
    if batch:
        yield batch, n_bytes


def _whole_lines(path: Path, *, at_most: int | None = None) -> int:
    """Return how many lines an earlier run has written; what is behind them is cut off."""
    if not path.is_file():
        return 0
    n_lines = at = 0
    with path.open("rb+") as file:
        for line in file:
            if n_lines == at_most or not line.endswith(b"\n") or not _is_json(line):
                break
            n_lines += 1
            at += len(line)
        file.truncate(at)
    return n_lines


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


TAGGED_FROM = "tagged-from.json"
"""Which tagger has written the predictions of an earlier run, and of which gold notes."""
ABANDONED_SECONDS = 7 * 86400.0


OnCharacters = Callable[[int], None]
Sums = dict[str, float]


def write_outputs(
    gold: Path, outputs: Path, *, folder: Path, on_characters: OnCharacters
) -> OutputFiles:
    """Write what given outputs say of the gold's notes: all that aligns, and exact copies alone.

    Raises
    ------
    AuditError
        As `OutputFiles`.
    """
    files = OutputFiles(gold, outputs)
    with new_file(folder / PREDICTED_FILE) as file:
        for note, predicted in files:
            file.write(jsonl_line(predicted).encode("utf-8", "surrogatepass"))
            on_characters(len(note.text))
    with new_file(folder / VERBATIM_FILE) as file:
        for _, predicted in files.verbatim():
            file.write(jsonl_line(predicted).encode("utf-8", "surrogatepass"))
    return files


def write_exact(gold: Path, predicted: Path, *, copies: Path, folder: Path) -> Sums:
    """Write the predictions of exact copies alone, and return the sums of all copies.

    Raises
    ------
    AuditError
        If a line of the copies cannot be read.
    """
    sums: Sums = {}
    exact: set[str] = set()
    try:
        with copies.open("rb") as lines:
            for line in lines:
                record = json.loads(line.decode("utf-8", "surrogatepass"))
                sums = added(sums, _numbers(record))
                if record["status"] == EXACT:
                    exact.add(str(record["doc_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise AuditError("The tagger's copies cannot be read.", where="predicted notes") from None
    with new_file(folder / VERBATIM_FILE) as file:
        for note, found in PairedFiles(gold, predicted):
            kept = found if note.doc_id in exact else note.with_spans(())
            file.write(jsonl_line(kept).encode("utf-8", "surrogatepass"))
    return sums


def _numbers(record: Mapping[str, Any]) -> Sums:
    """Return a line of `copies.jsonl` as numbers that are added up, as `numbers_of` does."""
    edits, tags, rate = record["edits"], record["tags"], record["error_rate"]
    numbers: Sums = {
        "n_notes": 1,
        "n_windows": record["n_windows"],
        f"status {record['status']}": 1,
        "n_edits": edits["n_inserted"] + edits["n_deleted"] + edits["n_substituted"],
        "n_edits_inside": edits["n_inside"],
        "n_source_chars": edits["n_source_chars"],
        "n_notes_with_rate": int(rate is not None),
        "sum_error_rate": rate or 0.0,
        "n_notes_malformed": int(tags["n_malformed"] > 0),
        "n_malformed": tags["n_malformed"],
        "n_unaligned": len(record["unaligned"]),
    }
    return numbers | {f"tags {name}": n for name, n in tags.items() if name != "n_malformed"}


READING, TAGGING, COMPARING, JUDGING = (
    "reading the gold notes", "tagging the notes", "comparing the spans", "drawing intervals",
)  # fmt: skip


@dataclass(frozen=True)
class ScoreInputs:
    """The files that an order means; `tagger` stands in the place of predictions.

    Attributes
    ----------
    gold, predicted, training
        JSONL files; `predicted` is None where the tagger is asked.
    tagger
        None where predictions are given.
    tagger_name, tagger_digest
        What to write down of it; empty where unknown.
    """

    gold: Path
    predicted: Path | None = None
    training: Path | None = None
    tagger: Tagger | None = None
    tagger_name: str = ""
    tagger_digest: str = ""

    def __post_init__(self) -> None:
        """Check that there is one source of predictions, once."""
        if (self.predicted is None) == (self.tagger is None):
            raise ValueError("a score needs predictions or a tagger, one of the two")


def build_score(
    order: ScoreOrder,
    *,
    inputs: ScoreInputs,
    score_id: str,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Make a score and return its folder.

    Raises
    ------
    AuditError
        If a side cannot be read, the sides do not fit, or the folder cannot be written.
    AuditCancelled
        If the person asked to stop.
    """
    meter = _meter(inputs, progress, should_stop)
    with SCORES.making(score_id, stays=(PREDICTED_FILE, COPIES, TAGGED_FROM)) as folder:
        SCORES.clear_abandoned(seconds=ABANDONED_SECONDS)
        run = _Run(order, inputs, folder=folder, meter=meter, should_stop=should_stop)
        run.read()
        content = run.compare()
        write_whole(folder / SCORE, (json.dumps(content, ensure_ascii=False) + "\n").encode())
        for name in (GOLD_FILE, PREDICTED_FILE, VERBATIM_FILE, COPIES, TAGGED_FROM):
            (folder / name).unlink(missing_ok=True)
    meter.finish(JUDGING)
    return SCORES.place(score_id)


class _Run:
    """One way through the notes of both sides."""

    def __init__(
        self,
        order: ScoreOrder,
        inputs: ScoreInputs,
        *,
        folder: Path,
        meter: Meter,
        should_stop: StopQuestion,
    ) -> None:
        self._order, self._inputs = order, inputs
        self._should_stop = should_stop
        self._folder, self._meter = folder, meter
        self._noticed = Noticed()
        self._copies: Sums | None = None
        self._outputs: OutputFiles | None = None
        self._gold, self._predicted = folder / GOLD_FILE, folder / PREDICTED_FILE
        self._verbatim = folder / VERBATIM_FILE
        self._gold_digest = ""

    def read(self) -> None:
        """Write both sides in one shape."""
        order, inputs = self._order, self._inputs
        by = order.mapping
        self._gold_digest = write_notes(
            notes_of(inputs.gold, what=GOLD, on_bytes=lambda n: self._meter.add(READING, n)),
            self._gold, by=by, noticed=self._noticed,
        )  # fmt: skip
        self._meter.finish(READING)
        on_bytes = self._tagging
        if inputs.tagger is not None:
            self._forget_others_tags(inputs.tagger)
            write_tagged(
                self._gold, self._folder, tagger=inputs.tagger, on_bytes=on_bytes,
                should_stop=self._should_stop,
            )  # fmt: skip
            self._read_copies(self._folder / COPIES)
        elif order.predicted.kind == OUTPUTS:
            assert inputs.predicted is not None
            self._outputs = write_outputs(
                self._gold, inputs.predicted, folder=self._folder, on_characters=on_bytes
            )
            self._copies = self._outputs.sums
        else:
            assert inputs.predicted is not None
            notes = notes_of(inputs.predicted, what=PREDICTED, on_bytes=on_bytes)
            write_notes(notes, self._predicted, by=by, noticed=self._noticed)
            self._read_copies(inputs.predicted.with_name(COPIES))
        self._meter.finish(TAGGING)

    def compare(self) -> dict[str, Any]:
        """Match and count both sides; return what `score.json` says."""
        order = self._order
        files = PairedFiles(self._gold, self._predicted)
        spans = SpanWriter(self._folder, matcher=order.matcher)
        scored = score_pairs(self._recorded(files, spans), matcher=order.matcher)
        spans.close()
        self._meter.finish(COMPARING)
        how = {
            "matcher": order.matcher, "seed": order.seed, "n_replicates": order.n_replicates,
        }  # fmt: skip
        summary = score_summary(scored, **how)  # type: ignore[arg-type]  # by name
        summary["n_duplicate_spans"] = self._noticed.n_duplicates
        write_patients(self._folder, scored)
        content = self._about() | {
            "summary": summary,
            "n_gold_only": (self._outputs or files).n_gold_only,
            "n_predicted_only": (self._outputs or files).n_predicted_only,
            "unknown_labels": sorted(self._noticed.unknown),
            "n_left_out": self._noticed.n_left_out,
            "seen": self._seen(),
        }
        if self._copies is not None:
            verbatim = score_pairs(
                PairedFiles(self._gold, self._verbatim), matcher=order.matcher
            )  # fmt: skip
            content["copies"] = copies_summary(self._copies)
            content["verbatim"] = score_summary(verbatim, **how)  # type: ignore[arg-type]
        return content

    def _about(self) -> dict[str, Any]:
        order, inputs = self._order, self._inputs
        return {
            "format": FORMAT,
            "title": one_line(order.title),
            "created": now(),
            "gold": vars(order.gold),
            "predicted": vars(order.predicted),
            "tagger": {"name": inputs.tagger_name, "digest": inputs.tagger_digest},
            "gold_digest": self._gold_digest,
            "has_five_types": order.has_five_types,
            "label_map": dict(order.label_map),
        }

    def _recorded(self, files: PairedFiles, spans: SpanWriter) -> Iterator[Pair]:
        for gold, predicted in files:
            spans.add(gold, predicted=predicted)
            # Characters are fewer than the bytes that were announced; the end counts the rest.
            self._meter.add(COMPARING, float(len(gold.text)))
            yield gold, predicted

    def _seen(self) -> dict[str, Any] | None:
        """Return recall on names that the training notes held, and on others."""
        if self._inputs.training is None:
            return None
        known = surface_forms(self._training())
        found = seen_recall(
            PairedFiles(self._gold, self._predicted), seen=known, criterion="label_relaxed",
            matcher=self._order.matcher,
        )  # fmt: skip
        return {"n_forms": len(known), "labels": [_seen_line(one) for one in found]}

    def _training(self) -> Iterator[TaggedDocument]:
        assert self._inputs.training is not None
        yield from notes_of(self._inputs.training, what="training notes", on_bytes=lambda n: None)

    def _read_copies(self, copies: Path) -> None:
        """Note how faithful a tagger's copies are; most taggers write none."""
        if self._order.predicted.kind in (TAGGER, TAGGED) and copies.is_file():
            self._copies = write_exact(
                self._gold, self._predicted, copies=copies, folder=self._folder
            )  # fmt: skip

    def _tagging(self, n_bytes: int) -> None:
        self._meter.add(TAGGING, float(n_bytes))

    def _forget_others_tags(self, tagger: Tagger) -> None:
        """Keep the tags of an earlier run only if tagger and gold are the same."""
        now = {"tagger": tagger.digest, "gold": self._gold_digest}
        place = self._folder / TAGGED_FROM
        try:
            is_same = json.loads(place.read_bytes()) == now
        except (OSError, ValueError):
            is_same = False
        if not is_same:
            self._predicted.unlink(missing_ok=True)
            (self._folder / COPIES).unlink(missing_ok=True)
            write_whole(place, json.dumps(now).encode())


def _seen_line(one: SeenRecall) -> dict[str, Any]:
    return {
        "label": one.label,
        "seen": [one.seen.n_hits, one.seen.n_total],
        "unseen": [one.unseen.n_hits, one.unseen.n_total],
    }


def _meter(inputs: ScoreInputs, progress: ProgressListener, should_stop: StopQuestion) -> Meter:
    try:
        size = float(inputs.gold.stat().st_size)
        other = float(inputs.predicted.stat().st_size) if inputs.predicted else size
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where="gold notes") from None
    totals = {READING: size, TAGGING: other, COMPARING: size, JUDGING: 0.2 * size}
    return Meter(totals, listener=progress, should_stop=should_stop)
