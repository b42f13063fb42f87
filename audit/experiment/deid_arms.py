"""The arms of a leakage experiment: which spans each replaces, and which names it leaves.

Comes in: notes with gold spans, an arm, a de-identifier. Goes out: the notes that a model is
trained on, and which mentions of patients are left whole, in part or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.deid.coverage import CoverageCounts, coverage
from audit.deid.documents import Span, TaggedDocument, merged
from audit.deid.redact import SURROGATE, redact
from audit.deid.surrogate_text import Surrogates
from audit.deid.tagger import Tagger, tag_checked
from audit.errors import AuditCancelled
from audit.experiment.deid_notes import HospitalNotes, Mention
from audit.experiment.deid_order import MENTIONS, PATIENTS, PERFECT, RAW, Arm
from audit.progress import StopQuestion
from audit.randomness import generator

WHOLE, PART, MISSED = "whole", "part", "missed"
"""How much of a name is covered by what is replaced."""

_NOTES_PER_BATCH = 64

Spans = tuple[tuple[Span, ...], ...]
"""Of each note, what is replaced."""


@dataclass(frozen=True)
class NameMisses:
    """What an arm leaves of the names in the notes.

    Attributes
    ----------
    mentions
        Of each mention of a patient, in the order of `HospitalNotes.mentions`: `WHOLE`, `PART` or
        `MISSED`.
    is_exposed
        [patients] Whether anything is left of one of the patient's mentions.
    n_staff, n_staff_whole
        Mentions of doctors, and those that are replaced whole.
    coverage
        Of all names, as `deid score` counts it.
    """

    mentions: tuple[str, ...]
    is_exposed: tuple[bool, ...]
    n_staff: int
    n_staff_whole: int
    coverage: CoverageCounts

    @property
    def n_exposed(self) -> int:
        """How many patients of whose name something is left."""
        return sum(self.is_exposed)

    @property
    def n_left(self) -> int:
        """How many mentions are not replaced whole."""
        return len(self.mentions) - self.mentions.count(WHOLE)


def replaced_spans(
    notes: HospitalNotes,
    *,
    arm: Arm,
    tagger: Tagger | None,
    seed: int,
    should_stop: StopQuestion = lambda: False,
) -> Spans:
    """Return what an arm replaces in each note.

    Shares are nested: who is missed at 1 % is missed at 5 % too.

    Parameters
    ----------
    tagger
        The de-identifier of an arm of that kind; None for the others.

    Raises
    ------
    AuditCancelled
        If `should_stop` said so.
    """
    if arm.kind == RAW:
        return ((),) * len(notes.documents)
    if tagger is not None:
        return _tagged(notes, tagger=tagger, should_stop=should_stop)
    gold = tuple(document.spans for document in notes.documents)
    if arm.kind == PERFECT:
        return gold
    left = set(missed_at_random(notes, unit=arm.kind, share=arm.share, seed=seed))
    kept: list[set[Span]] = [set() for _ in gold]
    for number in left:
        mention = notes.mentions[number]
        kept[mention.note].add(mention.span)
    return tuple(
        tuple(span for span in spans if span not in stays)
        for spans, stays in zip(gold, kept, strict=True)
    )


def missed_at_random(
    notes: HospitalNotes, *, unit: str, share: float, seed: int
) -> tuple[int, ...]:
    """Return which mentions stay, by number: a share of all, or those of a share of patients.

    At least one mention or patient is drawn.
    """
    if unit not in (MENTIONS, PATIENTS):
        raise ValueError(f"{unit}: nothing is missed by that")
    n = len(notes.mentions) if unit == MENTIONS else notes.n_patients
    order = generator(seed, f"missed {unit}").permutation(n)
    drawn = {int(i) for i in order[: max(1, round(share * n))]}
    if unit == MENTIONS:
        return tuple(sorted(drawn))
    return tuple(i for i, mention in enumerate(notes.mentions) if mention.owner in drawn)


def released_texts(notes: HospitalNotes, spans: Spans, *, mode: str, seed: int) -> tuple[str, ...]:
    """Return the notes with their spans replaced: always source + replacements."""
    surrogate = Surrogates(seed) if mode == SURROGATE else None
    return tuple(
        redact(
            document.with_spans(found), mode=mode, surrogate=surrogate, language=notes.language
        ).text
        for document, found in zip(notes.documents, spans, strict=True)
    )


def name_misses(notes: HospitalNotes, spans: Spans) -> NameMisses:
    """Return which names are left in the notes once the spans are replaced."""
    by_note: dict[int, list[Mention]] = {}
    for mention in notes.mentions:
        by_note.setdefault(mention.note, []).append(mention)
    found: dict[Mention, str] = {}
    covered = CoverageCounts()
    n_staff = n_staff_whole = 0
    for number, (document, given) in enumerate(zip(notes.documents, spans, strict=True)):
        covered += coverage(document, predicted=given)
        own = by_note.get(number, [])
        found |= {mention: _covered(mention.span, given) for mention in own}
        staff = [s for s in document.spans if s not in {mention.span for mention in own}]
        n_staff += len(staff)
        n_staff_whole += sum(_covered(span, given) == WHOLE for span in staff)
    states = tuple(found[mention] for mention in notes.mentions)
    left = {m.owner for m, s in zip(notes.mentions, states, strict=True) if s != WHOLE}
    is_exposed = tuple(owner in left for owner in range(notes.n_patients))
    return NameMisses(states, is_exposed, n_staff, n_staff_whole, covered)


def _covered(name: Span, replaced: Sequence[Span]) -> str:
    n = sum(max(0, min(name.end, e) - max(name.start, s)) for s, e in merged(replaced))
    if n == name.n_chars:
        return WHOLE
    return PART if n else MISSED


def _tagged(notes: HospitalNotes, *, tagger: Tagger, should_stop: StopQuestion) -> Spans:
    return tuple(
        spans
        for batch in _batches(notes.documents)
        for spans in _asked(tagger, batch, should_stop=should_stop)
    )


def _asked(tagger: Tagger, batch: Sequence[TaggedDocument], *, should_stop: StopQuestion) -> Spans:
    if should_stop():
        raise AuditCancelled
    return tag_checked(tagger, [document.text for document in batch])


def _batches(documents: Sequence[TaggedDocument]) -> Iterator[Sequence[TaggedDocument]]:
    for start in range(0, len(documents), _NOTES_PER_BATCH):
        yield documents[start : start + _NOTES_PER_BATCH]
