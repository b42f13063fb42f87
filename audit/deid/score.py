"""What a tagger's score says: notes matched and counted, the record that is kept, two compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from audit.deid.cases import INDEX, SPANS, SpanWriter, span_index
from audit.deid.matching import (
    ANY,
    CRITERIA,
    MISSED,
    OPTIMAL,
    SPURIOUS,
    CoverageCounts,
    MatchCounter,
    MatchCounts,
    Matches,
    coverage,
    match,
)
from audit.deid.metrics import (
    CriterionScore,
    Difference,
    LabelScore,
    Pair,
    compare,
    measured,
)
from audit.errors import AuditError
from audit.notes.spans import IDENTIFIER, Span, TaggedDocument, n_overlapping, ordered
from audit.shelf import Shelf
from audit.stats import N_REPLICATES, Estimate, IntArray, Rate
from audit.task import Record
from audit.text import fold_name

BLIND = ("strict", "label_relaxed")
"""Criteria that are asked once more with all labels made equal: was it found at all?"""
HEADLINE_CRITERION = "label_relaxed"
FEW_PATIENTS = 20
"""Below these a rate says little, and the screen says so."""


@dataclass(frozen=True)
class Scored:
    """Counts of a tagger on a set of notes, by name of the criterion.

    `blind` has those of `BLIND`, with all labels made equal; `covered` what redaction would take
    out. `n_duplicates` spans were given twice in one note, on either side, and counted once;
    `n_overlapping_gold` golds share a character with a gold before them. `seen` has golds by label
    where texts are `known`: of others and of those the found ones and all.
    """

    criteria: dict[str, MatchCounts]
    blind: dict[str, MatchCounts]
    covered: CoverageCounts
    n_documents: int
    n_duplicates: int
    n_overlapping_gold: int
    seen: Mapping[str, IntArray]


def score_pairs(
    pairs: Iterable[Pair],
    *,
    matcher: str = OPTIMAL,
    writer: SpanWriter | None = None,
    known: Collection[str] = (),
) -> Scored:
    """Score notes, gold beside predicted; neither their order nor that of their spans matters.

    Memory grows with the number of patients, not with the length of the notes. `writer` keeps what
    became of each span; `known` are texts of training notes, as `forms` gives them. `AuditError`
    where there is no note, or a label has the name of a margin of the matrix.
    """
    counters, blind = ({name: MatchCounter() for name in names} for names in (CRITERIA, BLIND))
    covered = CoverageCounts()
    seen: defaultdict[str, IntArray] = defaultdict(lambda: np.zeros((2, 2), dtype=np.int64))
    totals = Counter(n_documents=0, n_duplicates=0, n_overlapping_gold=0)
    for gold, predicted in pairs:
        spans = *gold.spans, *predicted.spans
        if {*(span.label for span in spans), *predicted.unaligned} & {MISSED, SPURIOUS}:
            raise AuditError(
                "A label is called `missed` or `spurious`, as the margins of the matrix are.",
                do="Give the label another name.",
            )
        found = _count(counters, gold, predicted, matcher=matcher)
        _count(blind, _blind(gold), _blind(predicted), matcher=matcher)
        if writer:
            writer.add(gold, predicted=predicted, found=found.values())
        for span, form in zip(gold.spans, forms(gold), strict=True) if known else ():
            is_found = span not in found[HEADLINE_CRITERION].missed
            seen[span.label][int(form in known)] += (is_found, 1)
        covered += coverage(gold, predicted=predicted.spans)
        n_duplicates, n_overlaps = (
            gold.n_duplicates + predicted.n_duplicates,
            n_overlapping(gold.spans),
        )
        totals.update(n_documents=1, n_duplicates=n_duplicates, n_overlapping_gold=n_overlaps)
    if not totals["n_documents"]:
        raise AuditError("There is no note to score.", do="Give files with at least one note.")
    return Scored(
        criteria={name: one.counts() for name, one in counters.items()},
        blind={name: one.counts() for name, one in blind.items()},
        covered=covered,
        seen=seen,
        **totals,
    )


def _count(
    counters: Mapping[str, MatchCounter],
    gold: TaggedDocument,
    predicted: TaggedDocument,
    *,
    matcher: str,
) -> dict[str, Matches]:
    """Match a note under each criterion, once, and count what was found."""
    found = {
        name: match(gold.spans, predicted.spans, criterion=name, matcher=matcher)
        for name in counters
    }
    for name, counter in counters.items():
        counter.add(found[name], patient=gold.patient, unaligned=predicted.unaligned)
    return found


def _blind(note: TaggedDocument) -> TaggedDocument:
    spans = sorted({Span(span.start, span.end, "any") for span in note.spans})
    unaligned = ("any",) * len(note.unaligned)
    return replace(note, spans=tuple(spans), unaligned=unaligned)


def forms(note: TaggedDocument) -> list[str]:
    """Return the texts of the spans of a note, folded: names are told as seen by them."""
    return [fold_name(note.text[span.start : span.end]) for span in note.spans]


class LabelCoverage(Record):
    """What redaction would take out of the golds of a label; shares 0-1, None where undefined."""

    n_gold: int
    n_covered_whole: int
    covered_whole: float | None
    n_gold_chars: int
    n_covered_chars: int
    covered_chars: float | None

    @classmethod
    def of(cls, covered: CoverageCounts, label: str) -> LabelCoverage:
        """Return what was counted of a label."""
        n_gold, n_whole, n_chars, n_covered = covered.row(label)
        return cls(
            n_gold=n_gold,
            n_covered_whole=n_whole,
            covered_whole=_share(n_whole, n_gold),
            n_gold_chars=n_chars,
            n_covered_chars=n_covered,
            covered_chars=_share(n_covered, n_chars),
        )

    @property
    def whole(self) -> Rate:
        """Golds that are covered whole."""
        return Rate(self.n_covered_whole, self.n_gold)

    @property
    def characters(self) -> Rate:
        """Gold characters that are covered."""
        return Rate(self.n_covered_chars, self.n_gold_chars)


class CoverageScore(Record):
    """What redaction would take out, and gold characters that stay, per 1,000 of the notes.

    `over_redaction` is the share of the other characters that is taken out for nothing.
    """

    labels: dict[str, LabelCoverage]
    together: LabelCoverage
    n_text_chars: int
    n_predicted_chars: int
    n_left_chars: int
    left_per_1000_chars: float | None
    n_over_chars: int
    over_redaction: float | None

    @classmethod
    def of(cls, covered: CoverageCounts) -> CoverageScore:
        """Return what was counted."""
        n_text, n_over = covered.n_text_chars, covered.n_over_chars
        labels = {
            label: LabelCoverage.of(covered, label) for label in (ANY, *ordered(covered.rows))
        }
        together = labels.pop(ANY)
        n_left = together.n_gold_chars - together.n_covered_chars
        return cls(
            labels=labels,
            together=together,
            n_text_chars=n_text,
            n_predicted_chars=covered.n_predicted_chars,
            n_left_chars=n_left,
            left_per_1000_chars=_share(1000 * n_left, n_text),
            n_over_chars=n_over,
            over_redaction=_share(n_over, covered.n_outside_chars),
        )


def _share(n_hits: int, n_total: int) -> float | None:
    return n_hits / n_total if n_total else None


class SeenRecall(Record):
    """(found, all) golds of a label that stood in the training notes, and of others."""

    label: str
    seen: tuple[int, int]
    unseen: tuple[int, int]


class SeenScore(Record):
    """Recall on names that stood in the training notes (`n_forms` different), and on others."""

    n_forms: int
    labels: tuple[SeenRecall, ...]

    @classmethod
    def of(cls, scored: Scored, *, n_forms: int) -> SeenScore:
        """Return what was counted."""
        rows = [
            SeenRecall(label=label, seen=tuple(seen.tolist()), unseen=tuple(unseen.tolist()))
            for label in ordered(scored.seen)
            for unseen, seen in [scored.seen[label]]
        ]
        return cls(n_forms=n_forms, labels=tuple(rows))


class ScoreSummary(Record):
    """Measures, confusion matrices and coverage; shares 0-1, None where undefined.

    `type_blind` has the criteria of `BLIND` with all labels made equal.
    """

    matcher: str
    n_documents: int
    n_patients: int
    n_duplicate_spans: int
    n_overlapping_gold: int
    seed: int
    n_replicates: int
    criteria: dict[str, CriterionScore]
    type_blind: dict[str, LabelScore]
    coverage: CoverageScore


def score_summary(
    scored: Scored, *, matcher: str, seed: int = 0, n_replicates: int = N_REPLICATES
) -> ScoreSummary:
    """Return the measures of counts, with intervals of a bootstrap over patients."""
    how = {"seed": seed, "n_replicates": n_replicates}
    criteria = {name: measured(one, **how) for name, one in scored.criteria.items()}
    return ScoreSummary(
        matcher=matcher,
        n_documents=scored.n_documents,
        n_patients=len(scored.criteria[HEADLINE_CRITERION].table),
        n_duplicate_spans=scored.n_duplicates,
        n_overlapping_gold=scored.n_overlapping_gold,
        **how,
        criteria=criteria,
        type_blind={name: measured(one, **how).together for name, one in scored.blind.items()},
        coverage=CoverageScore.of(scored.covered),
    )


GIVEN, FILE, EXAMPLE = "given", "file", "example"
TAGGER, TAGGED, OUTPUTS = "tagger", "tagged", "outputs"
GOLD_KINDS = (EXAMPLE, GIVEN, FILE)
PREDICTED_KINDS = (TAGGER, TAGGED, GIVEN, OUTPUTS)


class Source(Record):
    """Where notes with spans come from.

    `kind` is `given`: kept from an upload; `file`: a registered file; `example`: the tool's own
    invented notes; `tagger`: what a tagger says; `tagged`: a kept tagged set; `outputs`: a model's
    copies of the notes, kept from an upload. `ref` is the digest of what was given, the identifier
    of a file, tagger or set, or the language of the example.
    """

    kind: Literal["given", "file", "example", "tagger", "tagged", "outputs"]
    ref: str = Field(min_length=1)


@dataclass(frozen=True)
class Headline:
    """What a reader must know first.

    `label` is `identifier`, or "" for all labels where there is no identifier; `missed` golds are
    touched by no prediction (`share` with its interval), and of `readable` ones at least one
    character would stay; `notes` have at least one that was missed, of all with one. `is_few` says
    that there are too few golds or patients to say much.
    """

    label: str
    missed: Rate
    share: Estimate
    notes: Rate
    readable: Rate
    is_few: bool


SCORE, PATIENTS = "score.json", "patients.npz"
_NEEDED = (PATIENTS, SPANS, INDEX)


class Score(Record):
    """A score as it is kept in `score.json`.

    `title` and the `name` of the tagger are untrusted text. Two scores with the same `gold_digest`,
    of the gold notes in any order, can be compared. `n_gold_only` and `n_predicted_only` are notes
    that one side lacks, `n_left_out` spans that the label map leaves out. `copies` says how a
    model's copies came out, `verbatim` is the score of exact copies alone.
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
    seen: SeenScore | None
    copies: dict[str, Any] | None = None
    verbatim: ScoreSummary | None = None
    score_id: str = Field(default="", exclude=True)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of either side, in the order of tables."""
        return tuple(self.summary.criteria[HEADLINE_CRITERION].labels)

    @property
    def path(self) -> Path:
        """The folder."""
        return SCORES.place(self.score_id)

    @property
    def headline(self) -> Headline:
        """What a reader must know first."""
        found, covered = self.summary.criteria[HEADLINE_CRITERION], self.summary.coverage
        line = found.labels.get(IDENTIFIER)
        label = IDENTIFIER if line is not None and line.n_gold else ANY
        if line is None or not line.n_gold:
            line = found.together
        whole = covered.labels.get(label, covered.together).whole
        recall, missed = line.estimate("recall"), Rate(line.n_missed, line.n_gold)
        return Headline(
            label=label,
            missed=missed,
            share=Estimate(missed.value, 1 - recall.high, 1 - recall.low),
            notes=Rate(line.n_with_gold - line.n_complete, line.n_with_gold),
            readable=Rate(whole.n_total - whole.n_hits, whole.n_total),
            is_few=line.is_few or self.summary.n_patients < FEW_PATIENTS,
        )


def _read_score(folder: Path) -> Score:
    score = Score.read((folder / SCORE).read_bytes(), where="score")
    if not all((folder / name).is_file() for name in _NEEDED):
        raise ValueError
    return score.with_(score_id=folder.name)


SCORES = Shelf("scores", where="score", read=_read_score)


def write_patients(folder: Path, scored: Scored) -> None:
    """Write the counts by patient: an array for each criterion, and its labels."""
    tables: dict[str, Any] = {}
    for name, one in scored.criteria.items():
        tables |= {name: one.table, f"{name} labels": np.array(one.labels)}
    with (folder / PATIENTS).open("wb") as file:
        np.savez_compressed(file, **tables)


def patients_of(score_id: str, *, criterion: str) -> MatchCounts:
    """Return the counts by patient, sorted as the score's patients are; without the matrix."""
    path = SCORES.get(score_id).path / PATIENTS
    with SCORES.reading(), np.load(path, allow_pickle=False) as tables:
        labels = tuple(map(str, tables[f"{criterion} labels"]))
        return MatchCounts(labels, tables[criterion])


@dataclass(frozen=True, eq=False)
class ScoresCompared:
    """Two scores side by side.

    `lines` has by label, all labels together (`ANY`) first: golds, and differences, first minus
    second. `first_only` and `second_only` are numbers of cases, in the index of the score that
    missed them: golds that only one tagger misses; `n_both` golds are missed by both.
    """

    lines: Mapping[str, tuple[int, tuple[Difference, ...]]]
    first_only: IntArray
    second_only: IntArray
    n_both: int

    @property
    def p(self) -> float:
        """Two-sided exact sign test on golds that only one tagger misses; 1 where there is none.

        Differs: golds of one note are taken as independent; `compare` does not.
        """
        from scipy.stats import binomtest

        n = len(self.first_only) + len(self.second_only)
        return float(binomtest(len(self.first_only), n).pvalue) if n else 1.0


def compare_scores(first: str, *, second: str, criterion: str) -> ScoresCompared:
    """Compare two kept scores; AuditError if one is not there, or their gold notes differ."""
    one, other = SCORES.get(first), SCORES.get(second)
    if one.gold_digest != other.gold_digest:
        raise AuditError(
            "These two scores are not of the same gold notes.",
            where="score",
            do="Measure both taggers on the same notes, with the same labels.",
        )
    own, others = (patients_of(score_id, criterion=criterion) for score_id in (first, second))
    how = {"seed": one.summary.seed, "n_replicates": one.summary.n_replicates}
    labels = ordered({*own.labels, *others.labels})
    missed, also = (span_index(side.path).missed(criterion=criterion) for side in (one, other))
    only = [
        np.array(sorted(one[gold] for gold in one.keys() - two.keys()), dtype=np.int64)
        for one, two in ((missed, also), (also, missed))
    ]
    return ScoresCompared(
        lines={
            label: (own.row(label)[0], compare(own, others, label=label, **how))
            for label in sorted(labels, key=bool)
        },
        first_only=only[0],
        second_only=only[1],
        n_both=len(missed) - len(only[0]),
    )


class PublishedDeid(Record):
    """The paper's figures (Yada et al., tables 1, 3 and 6 to 9, figure 2), as printed.

    `percent` and `records` have by criterion and label precision, recall and F1, and complete,
    clean and exact, in percent; `matrix` is figure 2, label-relaxed, with its margins.
    """

    source: str
    n_notes: int
    n_gold: dict[str, int]
    percent: dict[str, dict[str, tuple[float, ...]]]
    records: dict[str, dict[str, tuple[float, ...]]]
    matrix: dict[str, dict[str, int]]

    def recomputed(self, label: str) -> tuple[float, ...]:
        """Return precision, recall and F1 (0-1) of a label from the matrix with its margins.

        recall = (row sum - missed) / row sum, precision = (column sum - spurious) / column sum, F1
        from both unrounded. Source: checked against all 15 numbers of the paper's table 3.
        """
        n_gold = sum(self.matrix[label].values())
        n_predicted = sum(row[label] for row in self.matrix.values())
        recall = (n_gold - self.matrix[label][MISSED]) / n_gold
        precision = (n_predicted - self.matrix[SPURIOUS][label]) / n_predicted
        return precision, recall, 2 * precision * recall / (precision + recall)


@cache
def published_deid() -> PublishedDeid:
    """Return the paper's figures."""
    path = Path(__file__).with_name("published_deid.json")
    return PublishedDeid.read(path.read_bytes(), where=path.name)
