"""What a tagger's score says: notes matched and counted, what is kept of it, two compared.

What became of each span is kept too, to be looked up, and listed as misses.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from audit.deid.policy import ALL_OUT, Policy
from audit.deid.release import SORTS, kinds_of
from audit.deid.span_matching import (
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
)
from audit.deid.span_metrics import (
    CriterionScore,
    Kept,
    LabelScore,
    Pair,
    Shares,
    compare,
    compare_shares,
    measured,
)
from audit.errors import AuditError
from audit.foreign import refusing
from audit.notes.spans import IDENTIFIER, TYPES, Span, TaggedDocument, order_labels
from audit.shelf import Shelf
from audit.stats import N_REPLICATES, Estimate, IntArray, Rate
from audit.tables import write_table
from audit.task import Record

OTHER_LABEL, OTHER_PLACE, SAME = "other label", "other place", "same"
MISSES = (MISSED, SPURIOUS, OTHER_LABEL, OTHER_PLACE)
"""A gold without a prediction, a prediction without a gold, pairs of different labels, pairs of one
label whose ends differ."""
SPANS = "spans.jsonl"
_OLDER_INDEX, _OLDER_BIT = "spans.npz", 4
"""Beside the spans of older scores, which have a line of each criterion's matching."""
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
    """What became of a gold span, a prediction or both, label-relaxed; a line of `SPANS`.

    `note` is the number of the note, from 0, in the order of the gold file; `row` and `column` are
    the cell of the matrix: gold label or `spurious`, predicted label or `missed`. `gold` and
    `predicted` are (start, end) in the note; None where there is none, as with a prediction that
    has no place. `text` has the spans with some characters around them, cut after a few hundred;
    it begins at `start`.
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

    def pieces(self, span: _Place | None) -> tuple[str, str, str]:
        """Return the text before, in and behind one of the spans; no span is nothing in it."""
        if span is None:
            return self.text, "", ""
        low, high = (min(max(at - self.start, 0), len(self.text)) for at in span)
        return self.text[:low], self.text[low:high], self.text[high:]

    def closed(self) -> SpanCase:
        """Return the case without its text and the names of note and patient."""
        return replace(self, doc_id=f"note {self.note + 1}", patient_id=None, text="")

    def cells(self) -> tuple[Any, ...]:
        """Return its row in the list of misses, as `HEADER` has it."""
        spans = [span for span in (self.gold, self.predicted) if span]
        whole = (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None
        before, _, after = self.pieces(whole)
        return (
            self.doc_id,
            self.patient_id,
            self.kind,
            self.row if self.gold else None,
            None if self.kind == MISSED else self.column,
            *(self.gold or (None, None)),
            *(self.predicted or (None, None)),
            before,
            self.pieces(self.gold)[1],
            self.pieces(self.predicted)[1],
            after,
        )


def _order(pair: _Pair) -> tuple[int, int, bool, bool, str]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None, pair[1] is None, first.label


def cases_of(
    gold: TaggedDocument, *, unaligned: Iterable[str], found: Matches, number: int
) -> list[SpanCase]:
    """Return what became of all spans of a note, in its order; those without a place at last."""
    missed: list[_Pair] = [(span, None) for span in found.missed]
    pairs = [*found.pairs, *missed, *((None, span) for span in found.spurious)]
    cases = [_case(gold, pair, number=number) for pair in sorted(pairs, key=_order)]
    return cases + [_case(gold, (None, None), number=number, label=label) for label in unaligned]


def _case(note: TaggedDocument, pair: _Pair, *, number: int, label: str = MISSED) -> SpanCase:
    """Return the case of a pair, or of a prediction of this label without a place."""
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
    """Return the cases of a kept score; AuditError where they cannot be read."""
    with refusing(AuditError("The spans of this score cannot be read.", where="score")):
        lines = (folder / SPANS).read_bytes().splitlines()
        if (folder / _OLDER_INDEX).is_file():
            with (folder / _OLDER_INDEX).open("rb") as file:
                older = np.load(file, allow_pickle=False)["criteria"]
            places = np.flatnonzero(older & _OLDER_BIT)
            lines = [lines[place] for place in places.tolist()]
        found = []
        for line in lines:
            content = json.loads(line.decode("utf-8", "surrogatepass"))
            for side in ("gold", "predicted"):
                content[side] = content[side] and tuple(content[side])
            found.append(SpanCase(**content))
        return tuple(found)


def readable_of(cases: Sequence[SpanCase]) -> tuple[SpanCase, ...]:
    """Return the golds of which a character stands in no prediction; notes stay together."""
    found: list[SpanCase] = []
    for _, group in groupby(cases, key=lambda case: case.note):
        own = list(group)
        taken = {i for case in own if case.predicted for i in range(*case.predicted)}
        found += [one for one in own if one.gold and not taken.issuperset(range(*one.gold))]
    return tuple(found)


BLIND = ("strict", "label_relaxed")
"""Criteria that are asked once more with all labels made equal: was it found at all?"""
HEADLINE_CRITERION = "label_relaxed"
FEW_PATIENTS = 20
"""Below these a rate says little, and the screen says so."""


@dataclass(frozen=True)
class Scored:
    """Counts of a tagger on a set of notes, by name of the criterion.

    `blind` has those of `BLIND`, with all labels made equal; `covered` what redaction would take
    out, in all and `by_patient`, sorted. `n_duplicates` spans were given twice in one note, on
    either side, and counted once. `kinds` are golds by what stands there, as placeholders have it.
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
) -> Scored:
    """Score notes, gold beside predicted; neither their order nor that of their spans matters.

    Memory grows with the number of patients, not with the length of the notes. `on_case` is told
    what became of each span. `AuditError` where there is no note, or a label has the name of a
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
        found = {name: one.add(gold, predicted) for name, one in counters.items()}
        for one in blind.values():
            one.add(_blind(gold), _blind(predicted))
        if on_case:
            headline, unaligned = found[HEADLINE_CRITERION], predicted.unaligned
            cases = cases_of(gold, unaligned=unaligned, found=headline, number=n_documents)
            for case in cases:
                on_case(case)
        covered[gold.patient] += coverage(gold, predicted=predicted.spans)
        kinds.update(kind for _, kind in kinds_of(gold))
        n_documents += 1
        n_duplicates += gold.n_duplicates + predicted.n_duplicates
    if not n_documents:
        raise AuditError("There is no note to score.", do="Give files with at least one note.")
    return Scored(
        criteria={name: one.counts() for name, one in counters.items()},
        blind={name: one.counts() for name, one in blind.items()},
        covered=sum(covered.values(), CoverageCounts()),
        n_documents=n_documents,
        n_duplicates=n_duplicates,
        kinds=kinds,
        by_patient=tuple(covered[patient] for patient in sorted(covered)),
    )


def _blind(note: TaggedDocument) -> TaggedDocument:
    spans = sorted({Span(span.start, span.end, "any") for span in note.spans})
    unaligned = ("any",) * len(note.unaligned)
    return replace(note, spans=tuple(spans), unaligned=unaligned)


class LabelCoverage(Kept):
    """What redaction would take out of the golds of a label."""

    n_gold: int
    n_covered_whole: int
    n_gold_chars: int
    n_covered_chars: int

    @classmethod
    def of(cls, covered: CoverageCounts, label: str) -> LabelCoverage:
        """Return what was counted of a label."""
        return cls(**dict(zip(cls.model_fields, covered.row(label), strict=True)))

    @property
    def whole(self) -> Rate:
        """Golds that are covered whole."""
        return Rate(self.n_covered_whole, self.n_gold)

    @property
    def characters(self) -> Rate:
        """Gold characters that are covered."""
        return Rate(self.n_covered_chars, self.n_gold_chars)


class CoverageScore(Kept):
    """What redaction would take out, and gold characters that stay, per 1,000 of the notes.

    `over_redaction` is the share 0-1 of the other characters that is taken out for nothing; None
    where undefined.
    """

    labels: dict[str, LabelCoverage]
    together: LabelCoverage
    n_text_chars: int
    left_per_1000_chars: float | None
    n_over_chars: int
    over_redaction: float | None

    @classmethod
    def of(cls, covered: CoverageCounts) -> CoverageScore:
        """Return what was counted."""
        n_text, n_over = covered.n_text_chars, covered.n_over_chars
        together = LabelCoverage.of(covered, ANY)
        n_left = together.n_gold_chars - together.n_covered_chars
        n_outside = covered.n_outside_chars
        return cls(
            labels={
                x: LabelCoverage.of(covered, x) for x in order_labels(covered.rows) if x != ANY
            },
            together=together,
            n_text_chars=n_text,
            left_per_1000_chars=1000 * n_left / n_text if n_text else None,
            n_over_chars=n_over,
            over_redaction=n_over / n_outside if n_outside else None,
        )


class ScoreSummary(Kept):
    """Measures, confusion matrices and coverage; shares 0-1, None where undefined.

    `type_blind` has the criteria of `BLIND` with all labels made equal; `kinds` are golds by what
    stands there, empty in older scores.
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
    kinds: dict[str, int] = Field(default_factory=dict)

    @property
    def unseen(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Types and kinds of which there is no gold, so that nothing is known about them.

        Both are empty where golds have labels that are none of the five types.
        """
        labels = self.criteria[HEADLINE_CRITERION].labels
        seen = {label for label, line in labels.items() if line.n_gold}
        if not seen <= {*TYPES}:
            return (), ()
        kinds = tuple(kind for kind in SORTS if self.kinds and kind not in self.kinds)
        return tuple(label for label in TYPES if label not in seen), kinds


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
        **how,
        criteria=criteria,
        type_blind={name: measured(one, **how).together for name, one in scored.blind.items()},
        coverage=CoverageScore.of(scored.covered),
        kinds=dict(sorted(scored.kinds.items())),
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


class Score(Kept):
    """A score as it is kept in `score.json`.

    `title` and the `name` of the tagger are untrusted text. Two scores with the same `gold_digest`,
    of the gold notes in any order, can be compared. `n_gold_only` and `n_predicted_only` are notes
    that one side lacks, `n_left_out` spans that the label map leaves out. What the `policy`
    leaves in a text counts on neither side. `seconds` is what the tagger took, once loaded; None
    where it was not asked in one go. `copies` says how a model's copies came out, `verbatim` is
    the score of exact copies alone.
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
        label, line = IDENTIFIER, found.labels.get(IDENTIFIER)
        if line is None or not line.n_gold:
            label, line = ANY, found.together
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
    if not all((folder / name).is_file() for name in (PATIENTS, SPANS)):
        raise ValueError
    return score.with_(score_id=folder.name)


SCORES = Shelf("scores", where="score", read=_read_score)


_COVERED = "covered"


def _covered(counts: CoverageCounts) -> list[tuple[int, int]]:
    """Return golds and full names that are covered whole, and what is taken out for nothing."""
    whole = [(counts.row(label)[1], counts.row(label)[0]) for label in (ANY, IDENTIFIER)]
    return [*whole, (counts.n_over_chars, counts.n_outside_chars)]


def write_patients(folder: Path, scored: Scored) -> None:
    """Write the counts by patient: an array for each criterion, and its labels."""
    tables: dict[str, Any] = {}
    for name, one in scored.criteria.items():
        tables |= {name: one.table, f"{name} labels": np.array(one.labels)}
    tables[_COVERED] = np.array([_covered(one) for one in scored.by_patient])
    np.savez_compressed(folder / PATIENTS, **tables)


def patients_of(score_id: str, *, criterion: str) -> MatchCounts:
    """Return the counts by patient, sorted as the score's patients are; without the matrix."""
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
"""What taggers are compared by: golds, and full names, of which something is found, under any
label; golds found as they are; finds that touch a gold; golds, and full names, that lie whole
inside the finds; and of what is nobody's the characters that are taken out."""


def shares_of(score_id: str) -> IntArray:
    """Return hits and totals of `SHARES` by patient [P, shares, 2].

    Those of characters are zeros in scores of older versions, which did not count them by patient.
    """
    found, strict = (patients_of(score_id, criterion=x) for x in (HEADLINE_CRITERION, "strict"))
    columns = [
        *(
            (of.of(label)[:, 0], of.of(label)[:, 2])
            for of, label in ((found, ANY), (found, IDENTIFIER), (strict, ANY))
        ),
        (found.of(ANY)[:, 1], found.of(ANY)[:, 3]),
    ]
    counted = np.array([(total - wrong, total) for total, wrong in columns]).transpose(2, 0, 1)
    with SCORES.reading(), np.load(SCORES.get(score_id).path / PATIENTS) as tables:
        is_there = _COVERED in tables
        rest = tables[_COVERED] if is_there else np.zeros((len(counted), 3, 2), dtype=np.int64)
    return np.concatenate([counted, rest], axis=1)


@dataclass(frozen=True)
class Compared:
    """Scores of the same gold notes side by side, in the order of `SHARES`.

    `counts` are what the shares of each score were counted from.
    """

    scores: tuple[Score, ...]
    counts: tuple[tuple[Rate, ...], ...]
    shares: Shares


def compare_all(score_ids: Sequence[str]) -> Compared:
    """Compare kept scores; AuditError if one is not there, or their gold notes differ."""
    scores = tuple(map(SCORES.get, score_ids))
    if len({one.gold_digest for one in scores}) > 1:
        raise _other_gold()
    table = np.stack(list(map(shares_of, score_ids)), axis=1)
    how = scores[0].summary
    sums = table.sum(axis=0).tolist()
    return Compared(
        scores,
        tuple(tuple(Rate(*pair) for pair in side) for side in sums),
        compare_shares(table, seed=how.seed, n_replicates=how.n_replicates),
    )


def _other_gold() -> AuditError:
    return AuditError(
        "These two scores are not of the same gold notes.",
        where="score",
        do="Measure both taggers on the same notes, with the same labels.",
    )


@dataclass(frozen=True, eq=False)
class ScoresCompared:
    """Two scores side by side.

    `lines` has by label, all labels together (`ANY`) first: golds, and what `compare` says.
    `first_only` and `second_only` are golds that only one tagger misses altogether, as the cases of
    the score that missed them; `n_both` golds are missed by both.
    """

    lines: Mapping[str, tuple[int, tuple[Estimate, ...]]]
    first_only: tuple[SpanCase, ...]
    second_only: tuple[SpanCase, ...]
    n_both: int


def compare_scores(first: str, *, second: str, criterion: str) -> ScoresCompared:
    """Compare two kept scores; AuditError if one is not there, or their gold notes differ."""
    sides = one, other = SCORES.get(first), SCORES.get(second)
    if one.gold_digest != other.gold_digest:
        raise _other_gold()
    own, others = (patients_of(score_id, criterion=criterion) for score_id in (first, second))
    how = {"seed": one.summary.seed, "n_replicates": one.summary.n_replicates}
    missed, also = (
        {(x.doc_id, x.gold, x.row): x for x in read_cases(side.path) if x.kind == MISSED}
        for side in sides
    )
    return ScoresCompared(
        lines={
            label: (own.row(label)[0], compare(own, others, label=label, **how))
            for label in (ANY, *order_labels({*own.labels, *others.labels} - {ANY}))
        },
        first_only=tuple(missed[gold] for gold in missed if gold not in also),
        second_only=tuple(also[gold] for gold in also if gold not in missed),
        n_both=len(missed.keys() & also.keys()),
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


@cache
def published_deid() -> PublishedDeid:
    """Return the paper's figures."""
    path = Path(__file__).with_name("published_deid.json")
    return PublishedDeid.read(path.read_bytes(), where=path.name)
