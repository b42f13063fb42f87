"""A question for the table of jobs: what is asked, and where in the queue it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Question:
    """What a job is about: its place in the table, and the order that holds names.

    Attributes
    ----------
    kind, label, scenario, device
        As in `Job`.
    digest
        Names the question: two that are equal are answered once.
    audits
        Digests of the audits that will answer it; empty for kinds that make none.
    order
        What `KINDS[kind]` needs.
    """

    kind: str
    label: str
    scenario: int
    device: str
    digest: str
    audits: tuple[str, ...]
    order: Mapping[str, Any]
