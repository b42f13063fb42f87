"""Measuring a token classifier while it is trained: precision, recall and F by our own matching."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from audit.deid.counts import ANY, COLUMNS
from audit.deid.documents import TaggedDocument
from audit.deid.labels import FIVE_TYPES, TYPES, relabelled
from audit.deid.score import Pair, score_pairs
from audit.deid.tagger import Tags
from audit.deid.token.reading import Tokens
from audit.deid.token.scheme import TagScheme
from audit.deid.token.token_model import TokenModel
from audit.deid.token.token_tagger import scores_of, spans_from
from audit.deid.token.viterbi import Scores

CRITERION = "strict"
_ROWS = dict(zip(COLUMNS, range(len(COLUMNS)), strict=True))


@dataclass(frozen=True)
class Figures:
    """What a tagger reaches on some notes, all types together.

    Attributes
    ----------
    n_gold, n_predicted, n_missed, n_spurious
        Spans, by the strict criterion: same place and same type.
    beta
        How much more recall weighs than precision in `f`.
    """

    n_gold: int
    n_predicted: int
    n_missed: int
    n_spurious: int
    beta: float = 1.0

    @property
    def recall(self) -> float | None:
        """Share of the golds that are found; None without any."""
        return (self.n_gold - self.n_missed) / self.n_gold if self.n_gold else None

    @property
    def precision(self) -> float | None:
        """Share of the predictions that are right; None without any."""
        right = self.n_predicted - self.n_spurious
        return right / self.n_predicted if self.n_predicted else None

    @property
    def f(self) -> float:
        """The F measure with `beta` (van Rijsbergen 1979); 0 where nothing is right."""
        recall, precision = self.recall or 0.0, self.precision or 0.0
        weighted = self.beta**2 * precision + recall
        return (1 + self.beta**2) * precision * recall / weighted if weighted else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return counts and measures as plain values."""
        found = {"precision": self.precision, "recall": self.recall, "f": self.f}
        return {"criterion": CRITERION, **asdict(self), **found}


def figures_of(pairs: Iterable[Pair], *, beta: float = 1.0) -> Figures:
    """Return the figures of notes, gold beside predicted."""
    row = score_pairs(pairs).criteria[CRITERION].counts.row(ANY)
    return Figures(
        n_gold=row[_ROWS["n_gold"]],
        n_predicted=row[_ROWS["n_predicted"]],
        n_missed=row[_ROWS["n_missed"]],
        n_spurious=row[_ROWS["n_spurious"]],
        beta=beta,
    )


def predicted(documents: Sequence[TaggedDocument], tags: Sequence[Tags]) -> list[Pair]:
    """Return annotated notes beside what was found in them."""
    return [(gold, gold.with_spans(spans)) for gold, spans in zip(documents, tags, strict=True)]


class Examiner:
    """Measures a model on notes that it does not learn from.

    Parameters
    ----------
    documents
        Annotated notes.
    size, overlap
        Of rows, in tokens.
    """

    def __init__(
        self,
        documents: Sequence[TaggedDocument],
        *,
        model: TokenModel,
        scheme: TagScheme,
        size: int,
        overlap: int,
    ) -> None:
        self._documents, self._scheme = documents, scheme
        self._size, self._overlap = size, overlap
        self._notes: list[Tokens] = model.reader.read([one.text for one in documents])

    @property
    def n_tokens(self) -> int:
        """How many tokens are read for one measurement."""
        return sum(len(note) for note in self._notes)

    def scores(self, model: TokenModel) -> list[Scores]:
        """Return the scores of the notes' tokens."""
        model.module.eval()
        return scores_of(self._notes, model=model, size=self._size, overlap=self._overlap)

    def figures(self, scores: Sequence[Scores], *, bias: float, beta: float) -> Figures:
        """Return the figures with a bias."""
        tags = spans_from(scores, notes=self._notes, scheme=self._scheme, bias=bias)
        return figures_of(predicted(self._documents, tags), beta=beta)

    def best_bias(
        self, scores: Sequence[Scores], *, biases: Iterable[float], beta: float
    ) -> tuple[float, Figures]:
        """Return the bias with the highest F, of equals that nearest to 0, and the figures."""
        tried = [(bias, self.figures(scores, bias=bias, beta=beta)) for bias in biases]
        return max(tried, key=lambda one: (one[1].f, -abs(one[0])))


def in_five_types(
    documents: Iterable[TaggedDocument],
) -> tuple[list[TaggedDocument], tuple[str, ...]]:
    """Return notes with labels mapped to the five types, and the labels that are none of them.

    Spans of those labels are left out.
    """
    found: list[TaggedDocument] = []
    unknown: set[str] = set()
    for document in documents:
        mapped = relabelled(document, by=FIVE_TYPES)
        unknown.update(mapped.unknown)
        kept = [span for span in mapped.document.spans if span.label in TYPES]
        found.append(document.with_spans(kept))
    return found, tuple(sorted(unknown))
