"""The examination of a corpus: who is named in it and how often, as counts only.

Comes in: `examination.json` of a corpus's folder. Goes out: one frozen value, to be shown before
any model is trained. Holds no name and no text.

Source: Nakamura et al., section 3.4 and appendix A (tables 3 and 4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from audit.corpora.build_summary import CategoryCount
from audit.corpora.mention_coverage import MentionCoverage
from audit.errors import AuditError

EXAMINATION = "examination.json"
FORMAT = 1


@dataclass(frozen=True)
class CountOf:
    """How many names (or people, or rows) have a number, or a reason, of theirs."""

    what: str
    n: int


@dataclass(frozen=True)
class ListedNames:
    """Names of the candidate list of one kind: members have no control kind."""

    control_kind: str
    role: str
    n: int


@dataclass(frozen=True)
class Examination:
    """What was counted in a corpus.

    Attributes
    ----------
    coverage
        Mentions by form, ages without one by reason, names that stand elsewhere.
    n_refused, refused
        Rows of the source that are no notes, and how many for each reason.
    n_patients, n_named_patients
        Patients of the corpus, and those whose first and last name stand together somewhere.
    inserted, unknown
        Placeholders that were replaced and those that were not understood, by category; empty for
        a corpus with a register.
    n_malformed
        Placeholders that are opened and never closed.
    doubts
        A corpus with a register: places that look like names and were left, by reason.
    pattern_table, mention_table
        Tables 3 and 4: (count, number of names with it), the highest count first.
    n_positives, n_not_one_token
        Names of patients with a pattern; and those that were left out because a part is no single
        token of the general model.
    n_listed_positives
        How many of the positives the candidate list has: 20,000 at most are drawn.
    candidates
        Names of the candidate list by kind and role.
    carriers
        For each role, (people who carry a positive's name, number of such names), fewest people
        first.
    canaries
        (mentions, planted names with it); as many twins were left out.
    n_passages
        Distinct patterns, each with its passage of D_public.
    """

    coverage: MentionCoverage
    n_refused: int
    refused: tuple[CountOf, ...]
    n_patients: int
    n_named_patients: int
    inserted: tuple[CategoryCount, ...]
    unknown: tuple[CategoryCount, ...]
    n_malformed: int
    doubts: tuple[CountOf, ...]
    pattern_table: tuple[tuple[int, int], ...]
    mention_table: tuple[tuple[int, int], ...]
    n_positives: int
    n_listed_positives: int
    n_not_one_token: int
    candidates: tuple[ListedNames, ...]
    carriers: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    canaries: tuple[tuple[int, int], ...]
    n_passages: int

    def __post_init__(self) -> None:
        """Check that the tables are of the same names."""
        sizes = {sum(n for _, n in table) for table in (self.pattern_table, self.mention_table)}
        if sizes != {self.n_positives} or self.n_listed_positives > self.n_positives:
            raise ValueError("the tables do not count the positives")

    @property
    def n_notes(self) -> int:
        """Notes of the corpus."""
        return self.coverage.n_notes

    @property
    def n_patterns(self) -> int:
        """Distinct patient-name patterns (the paper has 158)."""
        return sum(count * n for count, n in self.pattern_table)

    @property
    def n_occurrences(self) -> int:
        """Occurrences of patterns (the paper has 232)."""
        return sum(count * n for count, n in self.mention_table)


def examination_bytes(examination: Examination) -> bytes:
    """Return an examination as JSON."""
    content = {"format": FORMAT, **asdict(examination)}
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def read_examination(folder: Path) -> Examination:
    """Read the examination of a corpus.

    Raises
    ------
    AuditError
        If the folder has none of this version.
    """
    try:
        content = json.loads((folder / EXAMINATION).read_bytes())
        if content.pop("format") != FORMAT:
            raise ValueError
        return examination_from_json(content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise AuditError(
            "The corpus has no examination that can be read.",
            where="corpus",
            do="Build the corpus again.",
        ) from None


def examination_from_json(content: Mapping[str, Any]) -> Examination:
    """Return an examination from its plain values."""
    coverage = {name: _frozen(value) for name, value in content["coverage"].items()}
    lists = {
        "refused": CountOf,
        "doubts": CountOf,
        "inserted": CategoryCount,
        "unknown": CategoryCount,
        "candidates": ListedNames,
    }
    values: dict[str, Any] = {
        name: tuple(lists[name](**item) for item in value) if name in lists else _frozen(value)
        for name, value in content.items()
        if name != "coverage"
    }
    return Examination(coverage=MentionCoverage(**coverage), **values)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
