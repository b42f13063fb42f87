"""The summary of a corpus with names: what was made, and what was not understood, in counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from audit.deid.fill_masks import FilledNote
from audit.deid.identities import namesakes_expected
from audit.deid.labels import TYPES
from audit.deid.mask_types import TypedNote
from audit.deid.splits import SPLITS, LeakCheck
from audit.deid.translation_step import Translated


@dataclass(frozen=True)
class ChainSummary:
    """Counts of a corpus with names; no name and no text of a note.

    Attributes
    ----------
    n_notes, n_refused, n_patients
        Of the source; patients are those that the source names.
    n_templates
        Notes without masks that got a Japanese header and mentions.
    n_restored
        Masks that were no personal information and hold text again.
    unknown
        Masks that stayed, by category.
    n_marks_left
        Typed placeholders of no known name, which stayed.
    n_passages, n_passages_kept
        Of the translation: asked for, and left in their language.
    n_spans
        By type.
    kinds
        Values by the name of their kind of mask.
    splits
        Notes by split.
    leaks
        What the splits share.
    namesakes_per_100_000
        People of 100,000 who share somebody's full name, on average, by the tables of names.
    digests
        SHA-256 of each file.
    """

    seed: int
    locale: str
    n_notes: int
    n_refused: int
    n_patients: int
    n_templates: int
    n_restored: int
    unknown: Mapping[str, int]
    n_marks_left: int
    n_passages: int
    n_passages_kept: int
    n_spans: Mapping[str, int]
    kinds: Mapping[str, int]
    splits: Mapping[str, int]
    leaks: LeakCheck
    namesakes_per_100_000: float
    digests: Mapping[str, str]

    def plain(self) -> dict[str, object]:
        """Return the summary as plain values for JSON."""
        return {**asdict(self), "leaks": self.leaks.plain()}


class ChainTally:
    """Counts over all notes."""

    def __init__(self) -> None:
        self.n_refused = self.n_templates = 0
        self._n_notes = self._n_restored = self._n_left = 0
        self._n_passages = self._n_kept = 0
        self._unknown: Counter[str] = Counter()
        self._spans: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._splits: Counter[str] = Counter()

    def add_typed(self, note: TypedNote) -> None:
        """Count the masks of a note."""
        self._unknown.update(note.unknown)
        self._n_restored += note.n_restored

    def add(self, note: FilledNote, translated: Translated, *, split: str) -> None:
        """Count the values of a note."""
        self._n_notes += 1
        self._n_left += note.n_left
        self._n_passages += translated.n_passages
        self._n_kept += translated.n_kept
        self._splits[split] += 1
        self._spans.update(span.label for span in note.spans)
        self._kinds.update(span.kind for span in note.spans)

    def summary(
        self,
        *,
        seed: int,
        locale: str,
        n_patients: int,
        leaks: LeakCheck,
        digests: Mapping[str, str],
    ) -> ChainSummary:
        """Return the counts."""
        return ChainSummary(
            seed=seed,
            locale=locale,
            n_notes=self._n_notes,
            n_refused=self.n_refused,
            n_patients=n_patients,
            n_templates=self.n_templates,
            n_restored=self._n_restored,
            unknown=_ranked(self._unknown),
            n_marks_left=self._n_left,
            n_passages=self._n_passages,
            n_passages_kept=self._n_kept,
            n_spans={name: self._spans[name] for name in TYPES},
            kinds=_ranked(self._kinds),
            splits={name: self._splits[name] for name in SPLITS},
            leaks=leaks,
            namesakes_per_100_000=round(namesakes_expected(locale=locale), 3),
            digests=digests,
        )


def summary_bytes(summary: ChainSummary) -> bytes:
    """Return the summary as the content of its file."""
    return (json.dumps(summary.plain(), indent=1, ensure_ascii=False) + "\n").encode()


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
