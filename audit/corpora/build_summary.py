"""The summary of a corpus: what was built, counted by category, and what was not understood."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from audit.errors import AuditError

PRIVATE, PUBLIC, TRUTH = "private.jsonl", "public.jsonl", "truth.jsonl"
PEOPLE, REFUSED, SUMMARY = "people.jsonl", "refused.jsonl", "summary.json"
FORMAT = 1
MAX_CATEGORIES = 5_000
OTHERS = "(others)"


@dataclass(frozen=True)
class CategoryCount:
    """How often a category occurs, what stands for it, and the row where it occurs first."""

    category: str
    kind: str
    n: int
    first_row: int


@dataclass(frozen=True)
class CorpusSummary:
    """What a build gave.

    Attributes
    ----------
    source_kind
        "csv", "jsonl", "parquet" or "folder".
    seed
        Of the identities.
    has_blanks
        Whether `___` was taken for a placeholder: it is where no note has `[** ... **]`.
    n_notes, n_refused
        Rows that became notes, and rows that were refused (each in `refused.jsonl`).
    n_patients, n_named_patients
        With an id; and how many of them are named, first and last name together.
    n_inserted, n_left, n_malformed
        Placeholders replaced; those of unknown category, which stay; openings never closed.
    replaced, unknown
        By category, most frequent first.
    digests
        File -> SHA-256.
    faker
        Version of the names' source: another one may give other identities.
    """

    source_kind: str
    seed: int
    has_blanks: bool
    n_notes: int
    n_refused: int
    n_patients: int
    n_named_patients: int
    n_inserted: int
    n_left: int
    n_malformed: int
    replaced: tuple[CategoryCount, ...]
    unknown: tuple[CategoryCount, ...]
    digests: Mapping[str, str]
    faker: str


class CategoryCounter:
    """Counts categories; beyond 5,000 different ones they are counted together."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], int] = {}

    def add(self, category: str, kind: str, *, row: int, n: int = 1) -> None:
        """Count `n` places of a category, the first of them in this row."""
        key = (category, kind)
        if key not in self._counts and len(self._counts) >= MAX_CATEGORIES:
            key = (OTHERS, kind)
        self._counts[key] += n
        self._first.setdefault(key, row)

    def merge(self, counts: tuple[CategoryCount, ...]) -> None:
        """Add the counts of a later part."""
        for count in counts:
            self.add(count.category, count.kind, row=count.first_row, n=count.n)

    def counts(self) -> tuple[CategoryCount, ...]:
        """Return the counts in the order of their first place."""
        return tuple(
            CategoryCount(category, kind, n, self._first[category, kind])
            for (category, kind), n in self._counts.items()
        )

    def ranked(self) -> tuple[CategoryCount, ...]:
        """Return the counts, most frequent first, then by name."""
        return tuple(sorted(self.counts(), key=lambda c: (-c.n, c.category, c.kind)))


def summary_bytes(summary: CorpusSummary) -> bytes:
    """Return the summary as JSON."""
    content = {"format": FORMAT, **asdict(summary)}
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def read_summary(folder: Path) -> CorpusSummary:
    """Read the summary of a built corpus.

    Raises
    ------
    AuditError
        If the folder is no whole corpus of this version.
    """
    try:
        content = json.loads((folder / SUMMARY).read_bytes())
        if content.pop("format") != FORMAT:
            raise ValueError
        for name in ("replaced", "unknown"):
            content[name] = tuple(CategoryCount(**count) for count in content[name])
        return CorpusSummary(**content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise AuditError("This is no built corpus.", where="corpus folder") from None
