"""Mentions in notes of which no truth is known: what is found, where, and in which form.

Comes in: a file of notes. Goes out: counts, and one plain record a mention; names only if they are
asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.corpora.mention_coverage import NO_NOTES, MentionCoverage, coverage_of
from audit.corpora.mention_record import Mention
from audit.corpora.mention_truth import NotePair
from audit.corpora.mentions import examine
from audit.corpora.notes import open_notes
from audit.tables import RowNote

MAX_MENTIONS = 200_000


@dataclass(frozen=True, eq=False)
class FoundMentions:
    """What was found.

    Attributes
    ----------
    coverage
        Of all notes.
    n_refused
        Rows that are no notes.
    mentions
        Plain records: row, note_id, start, end, name_start, name_end, form, sex, age and whether it
        is a placeholder's; first and last name if they were asked for.
    n_left_out
        Mentions beyond the first 200,000.
    """

    coverage: MentionCoverage
    n_refused: int
    mentions: tuple[dict[str, Any], ...]
    n_left_out: int


def mentions_in(
    path: Path, *, columns: Mapping[str, str] | None = None, with_names: bool = False
) -> FoundMentions:
    """Find the mentions in a file of notes.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    coverage, n_refused = NO_NOTES, 0
    records: list[dict[str, Any]] = []
    for note in open_notes(path, columns=columns).read():
        if isinstance(note, RowNote):
            n_refused += 1
            continue
        found = tuple(examine(note.text))
        coverage += coverage_of(NotePair(note.note_id, note.text, note.text), examined=found)
        mentions = [each for each in found if isinstance(each, Mention)]
        for mention in mentions[: MAX_MENTIONS - len(records)]:
            place = {"row": note.row, "note_id": note.note_id}
            records.append(place | _record(mention, with_names=with_names))
    return FoundMentions(
        coverage, n_refused, tuple(records), coverage.n_mentions - len(records)
    )  # fmt: skip


def _record(mention: Mention, *, with_names: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "start": mention.start,
        "end": mention.end,
        "name_start": mention.name_start,
        "name_end": mention.name_end,
        "form": mention.form,
        "sex": mention.sex,
        "age_years": None if math.isnan(mention.age_years) else mention.age_years,
        "is_full": mention.is_full,
        "is_placeholder": mention.is_placeholder,
    }
    return record | ({"first": mention.first, "last": mention.last} if with_names else {})
