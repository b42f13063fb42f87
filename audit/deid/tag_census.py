"""The census of a tagging run: what was found, replaced and refused, in counts and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit.deid.generation.copies import copies_summary
from audit.deid.labels import ordered
from audit.deid.tag_state import TagCounts
from audit.deid.tagger import Tagger


def census_of(
    counts: TagCounts, *, tagger: Tagger, mode: str, paths: Sequence[Path]
) -> dict[str, Any]:
    """Return the counts of a run as plain values, with the SHA-256 of each file of `paths`."""
    census = {
        "tagger": {"name": tagger.name, "digest": tagger.digest, "labels": list(tagger.labels)},
        "mode": mode,
        "n_notes": counts.n_notes,
        "n_refused": counts.n_refused,
        "n_characters": counts.n_chars,
        "n_notes_without_spans": counts.n_notes_without,
        "n_replaced": counts.n_replaced,
        "n_replaced_by_itself": counts.n_unchanged,
        "n_notes_of_no_language": counts.n_no_language,
        "spans": {
            label: {"n": counts.n_spans[label], "n_characters": counts.n_span_chars[label]}
            for label in ordered(counts.n_spans)
        },
        "sha256": {path.name: _digest(path) for path in paths},
    }
    return census | ({"copies": copies_summary(counts.copies)} if counts.copies else {})


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
