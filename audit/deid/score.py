"""What a tagger's score says: notes matched and counted, the record that is kept, two compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from audit.deid.cases import INDEX, SPANS, span_index
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
    match_both,
    n_differing,
    total,
)
from audit.deid.metrics import (
    Difference,
    Discordant,
    LabelScore,
    Measured,
    SeenRecall,
    compare,
    f1,
    measured,
)
from audit.errors import AuditCancelled, AuditError
from audit.notes.spans import IDENTIFIER, TYPES, Span, TaggedDocument, n_overlapping, ordered
from audit.shelf import Shelf
from audit.stats import N_REPLICATES, Estimate, IntArray, Rate
from audit.task import Record

Pair = tuple[TaggedDocument, TaggedDocument]

BLIND = ("strict", "label_relaxed")
"""Criteria that are asked once more with all labels made equal: was it found at all?"""
HEADLINE_CRITERION = "label_relaxed"
FEW_PATIENTS = 20
"""Below these a rate says little, and the screen says so."""


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
    """Counts of a tagger on a set of notes, by name of the criterion.

    Attributes
    ----------
    blind
        With all labels made equal, for the criteria of `BLIND`.
    covered
        Characters and spans that redaction would take out.
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
    """What one criterion counts while notes are read."""

    criterion: str
    matcher: str
    by_patient: dict[tuple[int, str], list[MatchCounts]] = field(default_factory=dict)
    n_differing: int = 0

    def add(
        self, golds: Sequence[Span], predictions: Sequence[Span], *, unaligned: Sequence[str],
        patient: tuple[int, str],
    ) -> None:  # fmt: skip
        best, in_order = match_both(golds, predictions, criterion=self.criterion)
        self.n_differing += n_differing(best, in_order)
        counts = self.by_patient.setdefault(patient, [])
        found = best if self.matcher == OPTIMAL else in_order
        counts.append(count(found, unaligned=unaligned))
        if len(counts) > 50:
            counts[:] = [total(counts)]

    def done(self) -> CriterionCounts:
        by_patient = tuple(total(counts) for _, counts in sorted(self.by_patient.items()))
        return CriterionCounts(by_patient, self.n_differing)


def score_pairs(
    pairs: Iterable[Pair],
    *,
    matcher: str = OPTIMAL,
    should_stop: Callable[[], bool] = lambda: False,
) -> Scored:
    """Score notes, gold beside predicted; neither their order nor that of their spans matters.

    Memory grows with the number of patients, not with the length of the notes. `AuditError` where
    there is no note, or a label has the name of a margin of the matrix; `AuditCancelled` if
    `should_stop` said so: half a score is no score.
    """
    if matcher not in MATCHERS:
        raise ValueError(f"{matcher}: no such matcher")
    sums = {name: _Sums(name, matcher) for name in CRITERIA}
    blind = {name: _Sums(name, matcher) for name in BLIND}
    covered = CoverageCounts()
    n_documents = n_duplicates = n_overlaps = 0
    for gold, predicted in pairs:
        if should_stop():
            raise AuditCancelled
        _check_labels(gold, predicted)
        for one in sums.values():
            one.add(
                gold.spans, predicted.spans, unaligned=predicted.unaligned, patient=gold.patient
            )  # fmt: skip
        golds, predictions = _blind(gold.spans), _blind(predicted.spans)
        for one in blind.values():
            one.add(
                golds, predictions, unaligned=["any"] * len(predicted.unaligned),
                patient=gold.patient,
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
        if {*(span.label for span in document.spans), *document.unaligned} & {MISSED, SPURIOUS}:
            raise AuditError(
                "A label is called `missed` or `spurious`, as the margins of the matrix are.",
                do="Give the label another name.",
            )


class Matrix(Record):
    """A confusion matrix: gold labels and `spurious`, by predicted labels and `missed`."""

    columns: tuple[str, ...]
    rows: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, counts: MatchCounts) -> Matrix:
        """Return the matrix of counts."""
        labels = counts.labels
        rows = zip((*labels, SPURIOUS), map(tuple, counts.matrix(labels)), strict=True)
        return cls(columns=(*labels, MISSED), rows=dict(rows))


class CriterionScore(Measured):
    """What one criterion says; `n_pairs_differ` golds have another partner with other matchers."""

    matrix: Matrix
    n_pairs_differ: int


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
        n_text = covered.n_text_chars
        labels = ordered(label for label in covered.rows if label != ANY)
        return cls(
            labels={label: LabelCoverage.of(covered, label) for label in labels},
            together=LabelCoverage.of(covered, ANY),
            n_text_chars=n_text,
            n_predicted_chars=covered.n_predicted_chars,
            n_left_chars=covered.n_left_chars,
            left_per_1000_chars=1000 * covered.n_left_chars / n_text if n_text else None,
            n_over_chars=covered.n_over_chars,
            over_redaction=_share(covered.n_over_chars, covered.n_outside_chars),
        )


def _share(n_hits: int, n_total: int) -> float | None:
    return n_hits / n_total if n_total else None


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
    found = {name: measured(one.by_patient, **how) for name, one in scored.criteria.items()}
    blind = {name: measured(one.by_patient, **how) for name, one in scored.blind.items()}
    return ScoreSummary(
        matcher=matcher,
        n_documents=scored.n_documents,
        n_patients=scored.n_patients,
        n_duplicate_spans=scored.n_duplicates,
        n_overlapping_gold=scored.n_overlapping_gold,
        **how,
        criteria={
            name: CriterionScore(
                labels=one.labels,
                together=one.together,
                macro=one.macro,
                matrix=Matrix.of(scored.criteria[name].counts),
                n_pairs_differ=scored.criteria[name].n_differing,
            )
            for name, one in found.items()
        },
        type_blind={name: one.together for name, one in blind.items()},
        coverage=CoverageScore.of(scored.covered),
    )


GIVEN, FILE, EXAMPLE = "given", "file", "example"
TAGGER, TAGGED, OUTPUTS = "tagger", "tagged", "outputs"
GOLD_KINDS = (EXAMPLE, GIVEN, FILE)
PREDICTED_KINDS = (TAGGER, TAGGED, GIVEN, OUTPUTS)


class Source(Record):
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
    ref: str = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Source:
        if self.kind not in {*GOLD_KINDS, *PREDICTED_KINDS}:
            raise ValueError("there is no such source of notes")
        return self


class SeenScore(Record):
    """Recall on names that stood in the training notes (`n_forms` different), and on others."""

    n_forms: int
    labels: tuple[SeenRecall, ...]


@dataclass(frozen=True)
class Headline:
    """What a reader must know first.

    Attributes
    ----------
    label
        `identifier`, or "" for all labels where there is no identifier.
    missed, share
        Golds that no prediction touches, of all golds; that share with its interval.
    notes
        Notes in which at least one was missed, of all notes with one.
    readable
        Golds of which at least one character would stay in the text, of all golds.
    is_few
        Whether there are too few golds or patients to say much.
    """

    label: str
    missed: Rate
    share: Estimate
    notes: Rate
    readable: Rate
    is_few: bool


SCORE, PATIENTS = "score.json", "patients.npz"
FORMAT = 1
_NEEDED = (SCORE, PATIENTS, SPANS, INDEX)


class Score(Record):
    """A score as it is kept in `score.json`.

    Attributes
    ----------
    title
        As given: untrusted text; may be empty.
    created
        ISO time stamp in UTC.
    tagger
        `name`, what the tagger calls itself (untrusted text), and `digest`; empty where unknown.
    gold_digest
        SHA-256 of the gold notes in any order: two scores with the same one can be compared.
    n_gold_only, n_predicted_only
        Notes that one side lacks.
    unknown_labels, n_left_out
        Labels that the map does not know, and spans that it leaves out.
    seen
        None where the training notes are not known.
    copies, verbatim
        How a model's copies came out, and the score of exact copies alone; None without copies.
    score_id
        12 hexadecimal digits, the name of its folder.
    """

    format: int = FORMAT
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
    def n_gold(self) -> int:
        """Golds of all labels."""
        return self.summary.criteria[CRITERIA[0]].together.n_gold

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
        named = found.labels.get(IDENTIFIER)
        has_names = named is not None and named.n_gold > 0
        line = named if named is not None and has_names else found.together
        whole = (covered.labels[IDENTIFIER] if has_names else covered.together).whole
        recall = line.estimate("recall")
        missed = Rate(line.n_missed, line.n_gold)
        return Headline(
            label=IDENTIFIER if has_names else ANY,
            missed=missed,
            share=Estimate(missed.value, 1 - recall.high, 1 - recall.low),
            notes=Rate(line.n_with_gold - line.n_complete, line.n_with_gold),
            readable=Rate(whole.n_total - whole.n_hits, whole.n_total),
            is_few=line.is_few or self.summary.n_patients < FEW_PATIENTS,
        )


def _read_score(folder: Path) -> Score:
    score = Score.read((folder / SCORE).read_bytes(), where="score")
    if score.format != FORMAT or not all((folder / name).is_file() for name in _NEEDED):
        raise ValueError
    return score.model_copy(update={"score_id": folder.name})


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
    """Return the counts by patient, sorted as the score's patients are; without the matrix."""
    path = SCORES.get(score_id).path / PATIENTS
    with SCORES.reading(), np.load(path, allow_pickle=False) as tables:
        table, labels = tables[criterion], [str(x) for x in tables[f"{criterion} labels"]]
    return tuple(
        MatchCounts(
            {
                label: tuple(row)
                for label, row in zip(labels, rows.tolist(), strict=True)
                if any(row)
            }
        )
        for rows in table
    )


@dataclass(frozen=True, eq=False)
class ScoresCompared:
    """Two scores side by side.

    Attributes
    ----------
    lines
        By label, all labels together (`ANY`) first: golds, and differences, first minus second.
    discordant
        Golds by which of the two found them.
    first_only, second_only
        Numbers of the cases, in the index of the score that missed them: golds that only the first
        tagger misses, and that only the second one misses.
    """

    lines: Mapping[str, tuple[int, tuple[Difference, ...]]]
    discordant: Discordant
    first_only: IntArray
    second_only: IntArray


def compare_scores(first: str, *, second: str, criterion: str) -> ScoresCompared:
    """Compare two kept scores; AuditError if one is not there, or their gold notes differ."""
    one, other = SCORES.get(first), SCORES.get(second)
    if one.gold_digest != other.gold_digest:
        raise AuditError(
            "These two scores are not of the same gold notes.",
            where="score",
            do="Measure both taggers on the same notes, with the same labels.",
        )
    counts = [patients_of(score_id, criterion=criterion) for score_id in (first, second)]
    seed, n = one.summary.seed, one.summary.n_replicates
    labels = ordered({label for side in counts for c in side for label in c.rows} - {ANY})
    missed = [span_index(side.path).missed(criterion=criterion) for side in (one, other)]
    first_only = [number for key, number in missed[0].items() if key not in missed[1]]
    second_only = [number for key, number in missed[1].items() if key not in missed[0]]
    n_both_missed = len(missed[0]) - len(first_only)
    return ScoresCompared(
        lines={
            label: (
                sum(c.row(label)[0] for c in counts[0]),
                compare(*counts, label=label, seed=seed, n_replicates=n),
            )
            for label in (ANY, *labels)
        },
        discordant=Discordant(
            n_first_only=len(second_only),
            n_second_only=len(first_only),
            n_both=one.n_gold - len(first_only) - len(second_only) - n_both_missed,
            n_neither=n_both_missed,
        ),
        first_only=np.array(sorted(first_only), dtype=np.int64),
        second_only=np.array(sorted(second_only), dtype=np.int64),
    )


@dataclass(frozen=True)
class PublishedType:
    """What the paper prints of one of the five types, in percent as printed, by criterion.

    `printed` has precision, recall and F1, `records` complete, clean and exact; `recomputed` is
    precision, recall and F1 of the Label-Relaxed criterion from the matrix of figure 2, 0-1.
    """

    label: str
    n_gold: int
    printed: Mapping[str, tuple[float, ...]]
    records: Mapping[str, tuple[float, ...]]
    recomputed: tuple[float, ...]


@dataclass(frozen=True)
class PublishedDeid:
    """The paper's figures: types in the order of tables, the Label-Relaxed matrix, the source.

    `matrix` is by row (gold label or `spurious`), then column (predicted label or `missed`).
    """

    source: str
    n_notes: int
    types: tuple[PublishedType, ...]
    matrix: Mapping[str, Mapping[str, int]]


@cache
def published_deid() -> PublishedDeid:
    """Return the paper's figures (Yada et al., tables 1, 3 and 6 to 9, figure 2)."""
    path = Path(__file__).resolve().parent / "published_deid.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    matrix: Mapping[str, Mapping[str, int]] = facts["matrix"]
    types = tuple(
        PublishedType(
            label=label,
            n_gold=facts["n_gold"][label],
            printed={name: tuple(facts["percent"][name][label]) for name in CRITERIA},
            records={name: tuple(facts["records"][name][label]) for name in CRITERIA},
            recomputed=_recomputed(matrix, label=label),
        )
        for label in TYPES
    )
    return PublishedDeid(facts["source"], facts["n_notes"], types, matrix)


def _recomputed(matrix: Mapping[str, Mapping[str, int]], *, label: str) -> tuple[float, ...]:
    """Return precision, recall and F1 of a label from a confusion matrix with margins.

    recall = (row sum - missed) / row sum, precision = (column sum - spurious) / column sum, F1 from
    both unrounded. Source: checked against all 15 numbers of the paper's table 3.
    """
    n_gold = sum(matrix[label].values())
    n_predicted = sum(row[label] for row in matrix.values())
    precision = (n_predicted - matrix[SPURIOUS][label]) / n_predicted
    recall = (n_gold - matrix[label][MISSED]) / n_gold
    return precision, recall, float(f1(np.array([precision]), np.array([recall]))[0])
