"""The counts of a tagged set after corrections by hand, and those of the tagger alone."""

from __future__ import annotations

from typing import Any

from audit.deid.corrections import ADDED, REMOVED
from audit.deid.documents import TaggedDocument
from audit.deid.kept_corrections import ByNote
from audit.deid.kept_tagged import TaggedSet
from audit.deid.labels import ordered
from audit.deid.one_note import corrected_note
from audit.deid.tagged_index import TaggedIndex, raw_note_at

_OF_TAGGER = ("n_notes_without_spans", "n_replaced", "n_replaced_by_itself", "spans", "sha256")
Counts = dict[str, dict[str, int]]


def corrected_census(
    tagged: TaggedSet, *, index: TaggedIndex, corrections: ByNote
) -> dict[str, Any]:
    """Return the census of a whole set as its notes are handed out.

    `n_notes_corrected` says how many notes a person changed. Where there are any, the census says
    under `corrections` how many marks were taken away and added, and under `tagger_alone` what the
    tagger's own files hold. Only corrected notes are read.

    Raises
    ------
    AuditError
        If the files of the set or its corrections are damaged.
    """
    own = dict(tagged.census or {})
    if not corrections:
        return own | {"n_notes_corrected": 0}
    spans: Counts = {label: dict(counted) for label, counted in own["spans"].items()}
    totals = {name: int(own.get(name, 0)) for name in _OF_TAGGER[:3]}
    for number, ones in corrections.items():
        before = raw_note_at(tagged, number, index=index)
        after = corrected_note(before, ones, release=tagged.how.release())
        old = tagged.how.release().of(before.document)
        _count(spans, before.document, sign=-1)
        _count(spans, after.document, sign=1)
        new = tagged.how.release().of(after.document)
        totals["n_notes_without_spans"] += (not after.document.spans) - (not before.document.spans)
        totals["n_replaced"] += len(new.replacements) - len(old.replacements)
        totals["n_replaced_by_itself"] += new.n_unchanged - old.n_unchanged
    rest = {name: value for name, value in own.items() if name not in _OF_TAGGER}
    return {
        **rest,
        **totals,
        "spans": {label: spans[label] for label in ordered(spans) if spans[label]["n"]},
        "n_notes_corrected": len(corrections),
        "corrections": {
            f"n_{kind}": sum(
                len(one.spans) for ones in corrections.values() for one in ones if one.kind == kind
            )
            for kind in (REMOVED, ADDED)
        },
        "tagger_alone": {name: own[name] for name in _OF_TAGGER if name in own},
    }


def _count(spans: Counts, document: TaggedDocument, *, sign: int) -> None:
    for span in document.spans:
        counted = spans.setdefault(span.label, {"n": 0, "n_characters": 0})
        counted["n"] += sign
        counted["n_characters"] += sign * span.n_chars
