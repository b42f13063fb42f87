"""Policies: which kinds of what a tagger found are taken out, and which are left in the text.

A policy leaves a mark only where type, form and cues tell its kind: what is not told is taken out.
It acts on the marks of any tagger; what a tagger misses stays in the text whatever a policy says.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from audit.deid.kinds import (
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
from audit.foreign import decode_text, file_bytes
from audit.notes.spans import Span, TaggedDocument
from audit.task import Record

TAKE_OUT: Final = "take out"
LEAVE: Final = "leave"


class Policy(Record):
    """What is done with each kind of `KINDS`; one that is not named is taken out.

    Of ages up to 89 that are left, those above `age_above` are taken out all the same.
    """

    title: str = Field(default="", max_length=200)
    """What its maker calls it: untrusted text, but for those that are ready-made."""
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
    def left(self) -> frozenset[str]:
        """The kinds that are left in the text."""
        return frozenset(kind for kind, what in self.kinds.items() if what == LEAVE)

    def file(self) -> bytes:
        """Return the policy as a file with every kind named, to start one's own from."""
        whole = self.with_(kinds={kind: self.kinds.get(kind, TAKE_OUT) for kind in KINDS})
        return (json.dumps(whole.plain(), ensure_ascii=False, indent=1) + "\n").encode()

    @property
    def is_ready_made(self) -> bool:
        """Whether it is what the ready-made policy of its title is: anybody can write a title."""
        known = READY.get(self.title)
        return known is not None and known.decisive() == self.decisive()

    def decisive(self) -> list[Any]:
        """Return what decides which marks are left; nothing where none is."""
        return [VERSION, sorted(self.left), self.age_above] if self.left else []

    def leaves(self, text: str, span: Span) -> Kind | None:
        """Return the kind of a mark that is left in the text; None for one that is taken out."""
        mark = mark_of(text, span).fold()
        kind = kind_at(mark)
        if kind not in self.left or not is_certain_kind(mark, kind):
            return None
        if kind == "place" and "name" not in self.left and may_be_surname(mark):
            return None
        return None if kind == "age" and (read_age(mark.folded) or 0) > self.age_above else kind

    def applied(self, note: TaggedDocument) -> tuple[TaggedDocument, Counter[Kind]]:
        """Return a note with the marks that are taken out, and how many of each kind are left."""
        if not self.left:
            return note, Counter()
        kinds = [self.leaves(note.text, span) for span in note.spans]
        pairs = zip(note.spans, kinds, strict=True)
        taken = tuple(span for span, kind in pairs if kind is None)
        return replace(note, spans=taken), Counter(filter(None, kinds))


ALL_OUT = Policy(title="five-types")
"""All that a tagger marks is taken out: the five types of the paper."""
SAFE_HARBOR = Policy(
    title="safe-harbor",
    kinds={kind: LEAVE for kind in ("year", "age", "sex", "state", "profession")},
)
"""What 45 CFR 164.514(b)(2) lists is taken out, and whatever is not told to be something else."""
READY = {one.title: one for one in (ALL_OUT, SAFE_HARBOR)}
"""The ready-made policies by name, the usual one first."""


def read_policy(data: bytes, *, where: str) -> Policy:
    """Return the policy of a JSON file."""
    return Policy.read(decode_text(data, what=where)[0], where=where)


def policy_of(name: str) -> Policy:
    """Return a ready-made policy by its name, or that of a JSON file."""
    if name in READY:
        return READY[name]
    try:
        data = file_bytes(Path(name))
    except OSError:
        raise AuditError(
            "There is no such policy.",
            where="policy",
            do="Choose {names}, or give a JSON file.",
            names=", ".join(READY),
        ) from None
    return read_policy(data, where=Path(name).name)
