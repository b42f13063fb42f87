"""Policies: which kinds of marks are taken out of a text, and which are left in it.

A policy leaves a mark only if its type, form and cues show its kind; a mark of unclear kind is
taken out. A policy acts on the marks of any tagger. Whatever a tagger misses stays in the text
under every policy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from audit.deid.redact.kinds import (
    KINDS,
    OLDEST,
    VERSION,
    Kind,
    is_certain_kind,
    kind_at,
    mark_of,
    may_be_surname,
    read_age,
)
from audit.errors import AuditError
from audit.foreign import decode_text, read_file_bytes
from audit.notes.spans import Span, TaggedDocument
from audit.shelf import json_page
from audit.task import Record

TAKE_OUT: Final = "take out"
LEAVE: Final = "leave"


class Policy(Record):
    """The decision for each kind of `KINDS`; a kind that is not named is taken out.

    Ages above `age_above` are taken out even if ages are left.
    """

    title: str = Field(default="", max_length=200)
    """The name that its author gave it: untrusted text, except for ready-made policies."""
    kinds: dict[str, Literal["take out", "leave"]] = Field(default_factory=dict)
    age_above: int = Field(default=OLDEST, ge=0, le=OLDEST)

    @model_validator(mode="after")
    def _check(self) -> Policy:
        if unknown := self.kinds.keys() - set(KINDS):
            raise AuditError(
                "There is no kind called {kind}.",
                where="kinds",
                do="Kinds are {kinds}.",
                kind=min(unknown)[:40],
                kinds=", ".join(KINDS),
            )
        return self

    @property
    def kinds_left(self) -> frozenset[str]:
        """The kinds that the policy leaves in the text."""
        return frozenset(kind for kind, decision in self.kinds.items() if decision == LEAVE)

    def as_file(self) -> bytes:
        """Return the policy as a JSON file that names every kind, as a start for a new policy."""
        full_policy = self.with_(kinds={kind: self.kinds.get(kind, TAKE_OUT) for kind in KINDS})
        return json_page(full_policy.plain())

    @property
    def is_ready_made(self) -> bool:
        """Whether it equals the ready-made policy of its title; the title alone proves nothing."""
        ready_policy = READY.get(self.title)
        return ready_policy is not None and ready_policy.decisive() == self.decisive()

    def decisive(self) -> list[Any]:
        """Return the settings that decide which marks are left; an empty list if none are left."""
        return [VERSION, sorted(self.kinds_left), self.age_above] if self.kinds_left else []

    def leaves(self, text: str, span: Span) -> Kind | None:
        """Return the kind of a mark that the policy leaves in the text; None if it takes it out."""
        mark = mark_of(text, span).fold()
        kind = kind_at(mark)
        if kind not in self.kinds_left or not is_certain_kind(mark, kind):
            return None
        if kind == "place" and "name" not in self.kinds_left and may_be_surname(mark):
            return None
        return None if kind == "age" and (read_age(mark.folded) or 0) > self.age_above else kind

    def apply(self, note: TaggedDocument) -> tuple[TaggedDocument, Counter[Kind]]:
        """Return the note with only the marks to take out, and how many of each kind are left."""
        if not self.kinds_left:
            return note, Counter()
        kinds = [self.leaves(note.text, span) for span in note.spans]
        pairs = zip(note.spans, kinds, strict=True)
        spans = tuple(span for span, kind in pairs if kind is None)
        return replace(note, spans=spans), Counter(filter(None, kinds))


ALL_OUT = Policy(title="five-types")
"""Every mark of a tagger is taken out: the five types of the paper."""
SAFE_HARBOR = Policy(
    title="safe-harbor",
    kinds={kind: LEAVE for kind in ("year", "age", "sex", "state", "profession")},
)
"""Everything that 45 CFR 164.514(b)(2) lists is taken out, and every mark of unclear kind."""
READY = {policy.title: policy for policy in (ALL_OUT, SAFE_HARBOR)}
"""The ready-made policies by name, the default first."""


def read_policy(content: bytes, *, place: str) -> Policy:
    """Return the policy in the content of a JSON file."""
    return Policy.read(decode_text(content, subject=place)[0], where=place)


def find_policy(name: str) -> Policy:
    """Return the ready-made policy of this name, or the policy in the JSON file at this path."""
    if name in READY:
        return READY[name]
    try:
        content = read_file_bytes(Path(name))
    except OSError:
        raise AuditError(
            "There is no such policy.",
            where="policy",
            do="Choose {names}, or give a JSON file.",
            names=", ".join(READY),
        ) from None
    return read_policy(content, place=Path(name).name)
