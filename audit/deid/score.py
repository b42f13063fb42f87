"""Scoring a tagger: gold and predicted notes side by side, all criteria in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from audit.deid.counts import MISSED, SPURIOUS, MatchCounts, count, total
from audit.deid.coverage import CoverageCounts, coverage
from audit.deid.documents import Span, TaggedDocument, n_overlapping
from audit.deid.matching import CRITERIA, MATCHERS, OPTIMAL, match_both, n_differing
from audit.errors import AuditCancelled, AuditError

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
