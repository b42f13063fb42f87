"""The score of a tagger: its counts, its measures, its record on the disk, and comparisons.

The case of each span is kept too, to be looked up and to be listed as a miss.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from audit.deid.find.copies import OUTPUTS, CopiesSummary
from audit.deid.measure.span_matching import (
    ANY,
    CRITERIA,
    MISSED,
    OPTIMAL,
    SPURIOUS,
    CoverageCounts,
    MatchCounter,
    MatchCounts,
    Matches,
    count_coverage,
)
from audit.deid.measure.span_metrics import (
    CriterionScore,
    LabelScore,
    Pair,
    Shares,
    compare,
    compare_shares,
    measure_counts,
)
from audit.deid.redact.policy import ALL_OUT, Policy
from audit.deid.redact.release import SORTS, kinds_of
from audit.errors import AuditError
from audit.foreign import refuse_errors
from audit.notes.spans import IDENTIFIER, TYPES, Span, TaggedDocument, order_labels
from audit.shelf import Shelf
from audit.stats import N_REPLICATES, Estimate, IntArray, Rate
from audit.tables import write_table
from audit.task import Record

OTHER_LABEL, OTHER_PLACE, SAME = "other label", "other place", "same"
MISSES = (MISSED, SPURIOUS, OTHER_LABEL, OTHER_PLACE)
"""A gold without a prediction, a prediction without a gold, a pair with different labels, a pair
with one label but different ends."""
SPANS = "spans.jsonl"
_CONTEXT_CHARS, _MAX_TEXT_CHARS = 40, 600
HEADER = (
    "doc_id",
    "patient_id",
    "kind",
    "gold_label",
    "predicted_label",
    "gold_start",
    "gold_end",
    "predicted_start",
    "predicted_end",
    "before",
    "gold_text",
    "predicted_text",
    "after",
)

_Pair = tuple[Span | None, Span | None]
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SpanCase:
    """The outcome of a gold span, a prediction or a pair, label-relaxed; a line of `SPANS`.

    `note` is the number of the note, from 0, in the order of the gold file. `row` and `column` are
    the cell of the matrix: gold label or `spurious`, predicted label or `missed`. `gold` and
    `predicted` are (start, end) in the note, or None if there is no such span or it has no place.
    `text` is the spans with some characters around them, cut after a few hundred; it begins at
    `start`.
    """

    note: int
    doc_id: str
    patient_id: str | None
    kind: str
    row: str
    column: str
    gold: _Place | None
    predicted: _Place | None
    start: int
    text: str

    def split_text(self, span: _Place | None) -> tuple[str, str, str]:
        """Return the text before, in and behind a span; without a span all text is before it."""
        if span is None:
            return self.text, "", ""
        low, high = (min(max(position - self.start, 0), len(self.text)) for position in span)
        return self.text[:low], self.text[low:high], self.text[high:]

    def without_text(self) -> SpanCase:
        """Return the case without its text and the names of note and patient."""
        return replace(self, doc_id=f"note {self.note + 1}", patient_id=None, text="")

    def cells(self) -> tuple[Any, ...]:
        """Return the row of the case in the list of misses, in the columns of `HEADER`."""
        spans = [span for span in (self.gold, self.predicted) if span]
        full_extent = (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None
        text_before, _, text_after = self.split_text(full_extent)
        return (
            self.doc_id,
            self.patient_id,
            self.kind,
            self.row if self.gold else None,
            None if self.kind == MISSED else self.column,
            *(self.gold or (None, None)),
            *(self.predicted or (None, None)),
            text_before,
            self.split_text(self.gold)[1],
            self.split_text(self.predicted)[1],
            text_after,
        )


def _sort_key(pair: _Pair) -> tuple[int, int, bool, bool, str]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None, pair[1] is None, first.label


def cases_of(
    gold: TaggedDocument, *, unaligned: Iterable[str], matches: Matches, number: int
) -> list[SpanCase]:
    """Return the cases of all spans of a note, in its order; those without a place come last."""
    missed: list[_Pair] = [(span, None) for span in matches.missed]
    pairs = [*matches.pairs, *missed, *((None, span) for span in matches.spurious)]
    cases = [_case(gold, pair, number=number) for pair in sorted(pairs, key=_sort_key)]
    return cases + [_case(gold, (None, None), number=number, label=label) for label in unaligned]


def _case(note: TaggedDocument, pair: _Pair, *, number: int, label: str = MISSED) -> SpanCase:
    """Return the case of a pair, or of a prediction with this label that has no place."""
    gold, predicted = pair
    spans = [span for span in pair if span is not None]
    start = max(0, min((span.start for span in spans), default=0) - _CONTEXT_CHARS)
    end = max((span.end + _CONTEXT_CHARS for span in spans), default=0)
    if gold is None or predicted is None:
        kind = SPURIOUS if gold is None else MISSED
    elif gold.label != predicted.label:
        kind = OTHER_LABEL
    else:
        kind = SAME if gold == predicted else OTHER_PLACE
    return SpanCase(
        note=number,
        doc_id=note.doc_id,
        patient_id=note.patient_id,
        kind=kind,
        row=gold.label if gold else SPURIOUS,
        column=predicted.label if predicted else label,
        gold=(gold.start, gold.end) if gold else None,
        predicted=(predicted.start, predicted.end) if predicted else None,
        start=start,
        text=note.text[start : min(end, start + _MAX_TEXT_CHARS)],
    )


def misses_csv(cases: Iterable[SpanCase]) -> str:
    """Return the misses among cases as CSV in which no cell is a formula."""
    return write_table(HEADER, [case.cells() for case in cases if case.kind != SAME])


def read_cases(folder: Path) -> tuple[SpanCase, ...]:
    """Return the cases of a kept score; AuditError if they cannot be read."""
    with refuse_errors(AuditError("The spans of this score cannot be read.", where="score")):
        cases = []
        for line in (folder / SPANS).read_bytes().splitlines():
            content = json.loads(line.decode("utf-8", "surrogatepass"))
            for side in ("gold", "predicted"):
                content[side] = content[side] and tuple(content[side])
            cases.append(SpanCase(**content))
        return tuple(cases)


def find_readable(cases: Sequence[SpanCase]) -> tuple[SpanCase, ...]:
    """Return the golds with a character that no prediction covers; cases are grouped by note."""
    readable_cases: list[SpanCase] = []
    for _, group in groupby(cases, key=lambda case: case.note):
        note_cases = list(group)
        predicted_positions = {
            i for case in note_cases if case.predicted for i in range(*case.predicted)
        }
        readable_cases += [
            case
            for case in note_cases
            if case.gold and not predicted_positions.issuperset(range(*case.gold))
        ]
    return tuple(readable_cases)


BLIND = ("strict", "label_relaxed")
"""Criteria that are counted again with all labels made equal, to see what was found at all."""
HEADLINE_CRITERION = "label_relaxed"
FEW_PATIENTS = 20
"""Below this number of patients a rate says little, and the screen says so."""


@dataclass(frozen=True)
class ScoreCounts:
    """Counts of a tagger on a set of notes, by name of the criterion.

    `blind` has the counts of `BLIND`, with all labels made equal. `covered` is what redaction would
    take out, in total and `by_patient`, sorted. `n_duplicates` spans occurred twice in one note, on
    either side, and were counted once. `kinds` counts the golds by sort, as placeholders name it.
    """

    criteria: dict[str, MatchCounts]
    blind: dict[str, MatchCounts]
    covered: CoverageCounts
    n_documents: int
    n_duplicates: int
    kinds: Mapping[str, int]
    by_patient: tuple[CoverageCounts, ...] = ()


def score_pairs(
    pairs: Iterable[Pair],
    *,
    matcher: str = OPTIMAL,
    on_case: Callable[[SpanCase], object] | None = None,
) -> ScoreCounts:
    """Score pairs of gold and predicted notes; the order of notes and spans does not matter.

    Memory grows with the number of patients, not with the length of the notes. `on_case` receives
    the case of each span. Raises `AuditError` if there is no note, or if a label has the name of a
    margin of the matrix.
    """
    counters, blind = (
        {name: MatchCounter(name, matcher=matcher) for name in names} for names in (CRITERIA, BLIND)
    )
    covered: defaultdict[tuple[int, str], CoverageCounts] = defaultdict(CoverageCounts)
    kinds = Counter[str]()
    n_documents = n_duplicates = 0
    for gold, predicted in pairs:
        spans = *gold.spans, *predicted.spans
        if {*(span.label for span in spans), *predicted.unaligned} & {MISSED, SPURIOUS}:
            raise AuditError(
                "A label is called `missed` or `spurious`, as the margins of the matrix are.",
                do="Give the label another name.",
            )
        matches = {name: counter.add(gold, predicted) for name, counter in counters.items()}
        for counter in blind.values():
            counter.add(_equalise_labels(gold), _equalise_labels(predicted))
        if on_case:
            headline, unaligned = matches[HEADLINE_CRITERION], predicted.unaligned
            cases = cases_of(gold, unaligned=unaligned, matches=headline, number=n_documents)
            for case in cases:
                on_case(case)
        covered[gold.patient] += count_coverage(gold, predicted=predicted.spans)
        kinds.update(kind for _, kind in kinds_of(gold))
        n_documents += 1
        n_duplicates += gold.n_duplicates + predicted.n_duplicates
    if not n_documents:
        raise AuditError("There is no note to score.", do="Give files with at least one note.")
    return ScoreCounts(
        criteria={name: counter.counts() for name, counter in counters.items()},
        blind={name: counter.counts() for name, counter in blind.items()},
        covered=sum(covered.values(), CoverageCounts()),
        n_documents=n_documents,
        n_duplicates=n_duplicates,
        kinds=kinds,
        by_patient=tuple(covered[patient] for patient in sorted(covered)),
    )


def _equalise_labels(note: TaggedDocument) -> TaggedDocument:
    spans = sorted({Span(span.start, span.end, "any") for span in note.spans})
    unaligned = ("any",) * len(note.unaligned)
    return replace(note, spans=tuple(spans), unaligned=unaligned)


class LabelCoverage(Record):
    """How much of the golds of a label redaction would take out."""

    n_gold: int
    n_covered_whole: int
    n_gold_chars: int
    n_covered_chars: int

    @classmethod
    def from_counts(cls, covered: CoverageCounts, label: str) -> LabelCoverage:
        """Return the counts of a label."""
        return cls(**dict(zip(cls.model_fields, covered.row(label), strict=True)))

    @property
    def whole_spans(self) -> Rate:
        """The share of golds that are covered in full."""
        return Rate(self.n_covered_whole, self.n_gold)

    @property
    def characters(self) -> Rate:
        """The share of gold characters that are covered."""
        return Rate(self.n_covered_chars, self.n_gold_chars)


class CoverageScore(Record):
    """What redaction would take out, and how many gold characters stay per 1,000 of the notes.

    `over_redaction` is the share 0-1 of the other characters that would be taken out needlessly;
    None if undefined.
    """

    labels: dict[str, LabelCoverage]
    together: LabelCoverage
    n_text_chars: int
    left_per_1000_chars: float | None
    n_over_chars: int
    over_redaction: float | None

    @classmethod
    def from_counts(cls, covered: CoverageCounts) -> CoverageScore:
        """Return the score of these counts."""
        n_text, n_over = covered.n_text_chars, covered.n_over_chars
        together = LabelCoverage.from_counts(covered, ANY)
        n_left = together.n_gold_chars - together.n_covered_chars
        n_outside = covered.n_outside_chars
        return cls(
            labels={
                x: LabelCoverage.from_counts(covered, x)
                for x in order_labels(covered.rows)
                if x != ANY
            },
            together=together,
            n_text_chars=n_text,
            left_per_1000_chars=1000 * n_left / n_text if n_text else None,
            n_over_chars=n_over,
            over_redaction=n_over / n_outside if n_outside else None,
        )


class ScoreSummary(Record):
    """Measures, confusion matrices and coverage; shares are 0-1, or None if undefined.

    `type_blind` has the criteria of `BLIND` with all labels made equal. `kinds` counts the golds by
    sort.
    """

    matcher: str
    n_documents: int
    n_patients: int
    n_duplicate_spans: int
    seed: int
    n_replicates: int
    criteria: dict[str, CriterionScore]
    type_blind: dict[str, LabelScore]
    coverage: CoverageScore
    kinds: dict[str, int]

    @property
    def unseen(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Types and kinds without a gold, about which the score says nothing.

        Both are empty if golds have labels other than the five types.
        """
        labels = self.criteria[HEADLINE_CRITERION].labels
        labels_with_gold = {label for label, line in labels.items() if line.n_gold}
        if not labels_with_gold <= {*TYPES}:
            return (), ()
        kinds = tuple(kind for kind in SORTS if kind not in self.kinds)
        return tuple(label for label in TYPES if label not in labels_with_gold), kinds


def score_summary(
    scored: ScoreCounts, *, matcher: str, seed: int = 0, n_replicates: int = N_REPLICATES
) -> ScoreSummary:
    """Return the measures of counts, with intervals of a bootstrap over patients."""
    bootstrap = {"seed": seed, "n_replicates": n_replicates}
    criteria = {
        name: measure_counts(counts, **bootstrap) for name, counts in scored.criteria.items()
    }
    return ScoreSummary(
        matcher=matcher,
        n_documents=scored.n_documents,
        n_patients=len(scored.criteria[HEADLINE_CRITERION].table),
        n_duplicate_spans=scored.n_duplicates,
        **bootstrap,
        criteria=criteria,
        type_blind={
            name: measure_counts(counts, **bootstrap).together
            for name, counts in scored.blind.items()
        },
        coverage=CoverageScore.from_counts(scored.covered),
        kinds=dict(sorted(scored.kinds.items())),
    )


SourceKind = Literal["given", "file", "example", "tagger", "tagged", "outputs"]
GIVEN: Final = "given"
FILE: Final = "file"
EXAMPLE: Final = "example"
TAGGER: Final = "tagger"
TAGGED: Final = "tagged"
GOLD_KINDS: tuple[SourceKind, ...] = (EXAMPLE, GIVEN, FILE)
PREDICTED_KINDS: tuple[SourceKind, ...] = (TAGGER, TAGGED, GIVEN, OUTPUTS)


class Source(Record):
    """The source of notes with spans.

    `kind` is `given`: a kept upload; `file`: a registered file; `example`: the tool's own invented
    notes; `tagger`: the answers of a tagger; `tagged`: a kept tagged set; `outputs`: a kept upload
    with a model's copies of the notes. `ref` is the digest of the upload, the identifier of a file,
    tagger or set, or the language of the example.
    """

    kind: SourceKind
    ref: str = Field(min_length=1)


@dataclass(frozen=True)
class Headline:
    """The figures that a reader must know first.

    `label` is `identifier`, or "" for all labels if there is no identifier. `missed` is the rate of
    golds that no prediction touches (`share` with its interval), `readable` the rate of golds of
    which at least one character would stay, and `notes` the rate of notes with a missed gold among
    notes with a gold. `is_few` says that there are too few golds or patients for a firm statement.
    """

    label: str
    missed: Rate
    share: Estimate
    notes: Rate
    readable: Rate
    is_few: bool


SCORE, PATIENTS = "score.json", "patients.npz"


class Score(Record):
    """A score as it is kept in `score.json`.

    `title` and the `name` of the tagger are untrusted text. Two scores can be compared if they have
    the same `gold_digest`, which does not depend on the order of the gold notes. `n_gold_only` and
    `n_predicted_only` count the notes that one side lacks, `n_left_out` the spans that the label
    map leaves out. Marks that the `policy` leaves in a text count on neither side. `seconds` is the
    time of the tagger without loading it; None if it did not tag all notes in one run. `copies`
    describes a model's copies; `verbatim` is the score of exact copies alone.
    """

    format: Literal[1] = 1
    title: str
    created: str
    gold: Source
    predicted: Source
    tagger: dict[str, str]
    gold_digest: str
    has_five_types: bool
    label_map: dict[str, str]
    summary: ScoreSummary
    n_gold_only: int
    n_predicted_only: int
    unknown_labels: tuple[str, ...]
    n_left_out: int
    policy: Policy = ALL_OUT
    seconds: float | None = None
    copies: CopiesSummary | None = None
    verbatim: ScoreSummary | None = None
    score_id: str = Field(default="", exclude=True)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of both sides, in the order of tables."""
        return tuple(self.summary.criteria[HEADLINE_CRITERION].labels)

    @property
    def path(self) -> Path:
        """The folder of the score."""
        return SCORES.place(self.score_id)

    @property
    def headline(self) -> Headline:
        """What a reader must know first."""
        criterion_score, covered = self.summary.criteria[HEADLINE_CRITERION], self.summary.coverage
        label, line = IDENTIFIER, criterion_score.labels.get(IDENTIFIER)
        if line is None or not line.n_gold:
            label, line = ANY, criterion_score.together
        whole_rate = covered.labels.get(label, covered.together).whole_spans
        recall, missed = line.estimate("recall"), Rate(line.n_missed, line.n_gold)
        return Headline(
            label=label,
            missed=missed,
            share=Estimate(missed.value, 1 - recall.high, 1 - recall.low),
            notes=Rate(line.n_with_gold - line.n_complete, line.n_with_gold),
            readable=Rate(whole_rate.n_total - whole_rate.n_hits, whole_rate.n_total),
            is_few=line.is_few or self.summary.n_patients < FEW_PATIENTS,
        )


def _read_score(folder: Path) -> Score:
    score = Score.model_validate_json((folder / SCORE).read_bytes())
    if not all((folder / name).is_file() for name in (PATIENTS, SPANS)):
        raise ValueError
    return score.with_(score_id=folder.name)


SCORES = Shelf("scores", label="score", read=_read_score)


_COVERED = "covered"


def _coverage_shares(counts: CoverageCounts) -> list[tuple[int, int]]:
    """Return (hits, total) of golds and full names covered in full, and of needless characters."""
    whole_counts = [(counts.row(label)[1], counts.row(label)[0]) for label in (ANY, IDENTIFIER)]
    return [*whole_counts, (counts.n_over_chars, counts.n_outside_chars)]


def write_patients(folder: Path, scored: ScoreCounts) -> None:
    """Write the counts by patient: an array for each criterion, and its labels."""
    tables: dict[str, Any] = {}
    for name, counts in scored.criteria.items():
        tables |= {name: counts.table, f"{name} labels": np.array(counts.labels)}
    tables[_COVERED] = np.array([_coverage_shares(counts) for counts in scored.by_patient])
    np.savez_compressed(folder / PATIENTS, **tables)


def read_patient_counts(score_id: str, *, criterion: str) -> MatchCounts:
    """Return the counts by patient, in the order of the score's patients; without the matrix."""
    path = SCORES.get(score_id).path / PATIENTS
    with SCORES.reading(), np.load(path, allow_pickle=False) as tables:
        labels = tuple(map(str, tables[f"{criterion} labels"]))
        return MatchCounts(labels, tables[criterion])


SHARES = (
    "touched",
    "names_touched",
    "strict_recall",
    "precision",
    "covered",
    "names_covered",
    "harmless",
)
"""The shares by which taggers are compared: golds and full names that a prediction of any label
touches; golds that are found exactly; predictions that touch a gold; golds and full names that
predictions cover in full; and characters outside of golds that are taken out."""


def count_shares(score_id: str) -> IntArray:
    """Return hits and totals of `SHARES` by patient [P, shares, 2]."""
    headline, strict = (
        read_patient_counts(score_id, criterion=x) for x in (HEADLINE_CRITERION, "strict")
    )
    columns = [
        *(
            (counts.by_patient(label)[:, 0], counts.by_patient(label)[:, 2])
            for counts, label in ((headline, ANY), (headline, IDENTIFIER), (strict, ANY))
        ),
        (headline.by_patient(ANY)[:, 1], headline.by_patient(ANY)[:, 3]),
    ]
    shares = np.array([(total - wrong, total) for total, wrong in columns]).transpose(2, 0, 1)
    with SCORES.reading(), np.load(SCORES.get(score_id).path / PATIENTS) as tables:
        return np.concatenate([shares, tables[_COVERED]], axis=1)


@dataclass(frozen=True)
class Comparison:
    """Scores on the same gold notes side by side, in the order of `SHARES`.

    `counts` are the rates from which the shares of each score were computed.
    """

    scores: tuple[Score, ...]
    counts: tuple[tuple[Rate, ...], ...]
    shares: Shares


def compare_all(score_ids: Sequence[str]) -> Comparison:
    """Compare kept scores; AuditError if one is not there, or their gold notes differ."""
    scores = tuple(map(SCORES.get, score_ids))
    if len({score.gold_digest for score in scores}) > 1:
        raise _different_gold_error()
    table = np.stack(list(map(count_shares, score_ids)), axis=1)
    summary = scores[0].summary
    sums = table.sum(axis=0).tolist()
    return Comparison(
        scores,
        tuple(tuple(Rate(*pair) for pair in side) for side in sums),
        compare_shares(table, seed=summary.seed, n_replicates=summary.n_replicates),
    )


def _different_gold_error() -> AuditError:
    return AuditError(
        "These two scores are not of the same gold notes.",
        where="score",
        do="Measure both taggers on the same notes, with the same labels.",
    )


@dataclass(frozen=True, eq=False)
class ScoreComparison:
    """Two scores side by side.

    `lines` has for each label, with all labels together (`ANY`) first, the number of golds and the
    result of `compare`. `first_only` and `second_only` are golds that only one tagger misses
    altogether, as cases of its score; both taggers miss `n_both` golds.
    """

    lines: Mapping[str, tuple[int, tuple[Estimate, ...]]]
    first_only: tuple[SpanCase, ...]
    second_only: tuple[SpanCase, ...]
    n_both: int


def compare_scores(first: str, *, second: str, criterion: str) -> ScoreComparison:
    """Compare two kept scores; AuditError if one is not there, or their gold notes differ."""
    sides = first_score, second_score = SCORES.get(first), SCORES.get(second)
    if first_score.gold_digest != second_score.gold_digest:
        raise _different_gold_error()
    first_counts, second_counts = (
        read_patient_counts(score_id, criterion=criterion) for score_id in (first, second)
    )
    bootstrap = {"seed": first_score.summary.seed, "n_replicates": first_score.summary.n_replicates}
    missed_by_first, missed_by_second = (
        {(x.doc_id, x.gold, x.row): x for x in read_cases(side.path) if x.kind == MISSED}
        for side in sides
    )
    return ScoreComparison(
        lines={
            label: (
                first_counts.row(label)[0],
                compare(first_counts, second_counts, label=label, **bootstrap),
            )
            for label in (ANY, *order_labels({*first_counts.labels, *second_counts.labels} - {ANY}))
        },
        first_only=tuple(
            missed_by_first[gold] for gold in missed_by_first if gold not in missed_by_second
        ),
        second_only=tuple(
            missed_by_second[gold] for gold in missed_by_second if gold not in missed_by_first
        ),
        n_both=len(missed_by_first.keys() & missed_by_second.keys()),
    )
