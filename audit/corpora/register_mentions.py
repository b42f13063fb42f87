"""Mentions of registered patients in a note: the note's own patient in all forms, others in full.

Comes in: a text, whose it is, the register. Goes out: places with their form, and what looks like a
name and was not found, or was found and may be a common word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from audit.corpora.register import (
    Register,
    Registered,
    Word,
    birth_forms,
    full_name_index,
    name_words,
    words_of,
)

_GAP = re.compile(r"\.?\s*,?\s*(?:[^\W\d_]\.?\s+)?")
_MAX_GAP_CHARS = 6
_MAX_PARTICLE_CHARS = 3
_TITLED = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss|Drs?|Prof)\.?\s+([A-Z][^\W\d_]+(?:['’\-][^\W\d_]+)*)"
    r"|([\u4e00-\u9fff々]{1,4})(?=さん|様|氏|先生|医師)"
)
_HONORIFIC = r"(?=\s*(?:さん|さま|様|氏|殿|君|くん|ちゃん))"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a name in a text: "first", "middle", "last", "full" or "birth"."""

    start: int
    stop: int
    kind: str


@dataclass(frozen=True, slots=True)
class NameMention:
    """One place where somebody is named.

    Attributes
    ----------
    parts
        In order; a gap between two of them stays in the text.
    form
        The kinds of the parts, joined by "+".
    patient_ids
        Who is called so: several where patients share a name.
    is_own
        Whether it is the note's own patient.
    """

    parts: tuple[Part, ...]
    form: str
    patient_ids: tuple[str, ...]
    is_own: bool


@dataclass(frozen=True, slots=True)
class Doubt:
    """A place that was left as it is.

    `why`: "lower_case" (a part of the patient's name, written like a common word), "part_of_name"
    (one word of several), "first_alone" (of a name written without spaces), "titled" (after a
    title, not in the register).
    """

    start: int
    stop: int
    why: str


@dataclass(frozen=True)
class NoteMentions:
    """What was found in a note, in order, and what was left."""

    mentions: tuple[NameMention, ...]
    doubts: tuple[Doubt, ...]


class MentionFinder:
    """Finds the patients of a register in notes."""

    def __init__(self, register: Register) -> None:
        self._patients = register.by_patient()
        self._full = full_name_index(register.rows)
        self._longest = max(map(len, self._full), default=0)
        self._starts = {key[0] for key in self._full}
        self._unspaced: dict[str, tuple[str, ...]] = {}
        for row in register.rows:
            if row.is_unspaced:
                for between in ("", " ", "\u3000"):
                    name = row.last + between + row.first
                    ids = dict.fromkeys((*self._unspaced.get(name, ()), row.patient_id))
                    self._unspaced[name] = tuple(ids)
        self._lengths = sorted({len(name) for name in self._unspaced}, reverse=True)
        self._unspaced_starts = {name[0] for name in self._unspaced}

    def is_known(self, patient_id: str) -> bool:
        """Whether the register has this patient."""
        return patient_id in self._patients

    def find(self, text: str, *, patient_id: str) -> NoteMentions:
        """Find who is named in a note of this patient ("" or unknown: others only)."""
        words = words_of(text)
        taken = bytearray(len(text))
        mentions: list[NameMention] = []
        doubts: list[Doubt] = []
        for found in self._full_names(text, words, patient_id):
            _take(found, taken, mentions)
        for row in self._patients.get(patient_id, ()):
            for own in _own_parts(text, words, row, doubts):
                _take(NameMention(own, _form(own), (patient_id,), True), taken, mentions)
        for match in _TITLED.finditer(text):
            group = 1 if match[1] else 2
            if not any(taken[match.start(group) : match.end(group)]):
                doubts.append(Doubt(match.start(group), match.end(group), "titled"))
        left = {d for d in doubts if not any(taken[d.start : d.stop])}
        return NoteMentions(
            tuple(sorted(mentions, key=lambda m: m.parts[0].start)),
            tuple(sorted(left, key=lambda d: (d.start, d.stop, d.why))),
        )

    def _full_names(self, text: str, words: list[Word], patient_id: str) -> Iterator[NameMention]:
        own = {name_words(row.first) for row in self._patients.get(patient_id, ())}
        for index, word in enumerate(words):
            if word.folded not in self._starts:
                continue
            for n in range(min(self._longest, len(words) - index), 1, -1):
                span = words[index : index + n]
                ids = self._full.get(tuple(w.folded for w in span))
                # The own patient's names are found part by part, so that the parts are known.
                if ids and _is_joined(text, span) and not (patient_id in ids and own):
                    yield NameMention((_part(span, "full"),), "full", ids, False)
                    break
        for start, stop, ids in self._unspaced_names(text):
            is_own = patient_id in ids
            part = Part(start, stop, "full")
            yield NameMention((part,), "full", (patient_id,) if is_own else ids, is_own)

    def _unspaced_names(self, text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        start = 0
        while start < len(text) and self._lengths:
            stop = start + 1
            if text[start] in self._unspaced_starts:
                for length in self._lengths:
                    ids = self._unspaced.get(text[start : start + length])
                    if ids:
                        stop = start + length
                        yield start, stop, ids
                        break
            start = stop


def _take(found: NameMention, taken: bytearray, mentions: list[NameMention]) -> None:
    if any(any(taken[part.start : part.stop]) for part in found.parts):
        return
    for part in found.parts:
        taken[part.start : part.stop] = b"\1" * (part.stop - part.start)
    mentions.append(found)


def _own_parts(
    text: str, words: list[Word], row: Registered, doubts: list[Doubt]
) -> list[tuple[Part, ...]]:
    births: list[tuple[Part, ...]] = [(part,) for part in _births(text, row)]
    if row.is_unspaced:
        return births + _unspaced_parts(text, row, doubts)
    return births + _spaced_parts(text, words, row, doubts)


def _unspaced_parts(text: str, row: Registered, doubts: list[Doubt]) -> list[tuple[Part, ...]]:
    if len(row.first) > 1:
        for match in re.finditer(re.escape(row.first), text):
            doubts.append(Doubt(match.start(), match.end(), "first_alone"))
    found = re.finditer(re.escape(row.last) + _HONORIFIC, text)
    return [(Part(match.start(), match.end(), "last"),) for match in found]


def _spaced_parts(
    text: str, words: list[Word], row: Registered, doubts: list[Doubt]
) -> list[tuple[Part, ...]]:
    parts: list[Part] = []
    capitals: set[Part] = set()
    for kind, name in (("last", row.last), ("first", row.first), ("middle", row.middle)):
        wanted = name_words(name)
        for span in _spans(words, wanted):
            if _is_joined(text, span):
                parts.append(_part(span, kind))
                if any(word.is_capital for word in span) and sum(map(len, wanted)) > 1:
                    capitals.add(parts[-1])
        if len(wanted) > 1:
            single = {word for word in wanted if len(word) > _MAX_PARTICLE_CHARS}
            doubts += [
                Doubt(word.start, word.stop, "part_of_name")
                for word in words
                if word.folded in single and word.is_capital
            ]
    found: list[tuple[Part, ...]] = []
    for run in _runs(text, sorted(parts, key=lambda part: (part.start, -part.stop))):
        kinds = {part.kind for part in run}
        if {"first", "last"} <= kinds or (capitals & set(run) and kinds != {"middle"}):
            found.append(run)
        else:
            doubts.extend(Doubt(part.start, part.stop, "lower_case") for part in run)
    return found


def _spans(words: list[Word], wanted: tuple[str, ...]) -> Iterator[list[Word]]:
    for index, word in enumerate(words):
        if wanted and word.folded == wanted[0]:
            span = words[index : index + len(wanted)]
            if tuple(word.folded for word in span) == wanted:
                yield span


def _runs(text: str, parts: list[Part]) -> Iterator[tuple[Part, ...]]:
    run: list[Part] = []
    for part in parts:
        if run and part.start < run[-1].stop:  # the same word as first and last name
            continue
        if run and not _joins(text, run, part):
            yield tuple(run)
            run = []
        run.append(part)
    if run:
        yield tuple(run)


def _joins(text: str, run: list[Part], part: Part) -> bool:
    gap = part.start - run[-1].stop
    if gap > _MAX_GAP_CHARS or part.kind in {other.kind for other in run}:
        return False
    gap_text = _GAP.fullmatch(text, run[-1].stop, part.start)
    # A full stop ends a sentence, unless it belongs to an initial.
    is_initial = run[-1].stop - run[-1].start == 1
    return gap_text is not None and (is_initial or not gap_text[0].startswith("."))


def _is_joined(text: str, span: list[Word]) -> bool:
    return all(
        b.start - a.stop <= _MAX_GAP_CHARS and _GAP.fullmatch(text, a.stop, b.start)
        for a, b in pairwise(span)
    )


def _part(span: list[Word], kind: str) -> Part:
    return Part(span[0].start, span[-1].stop, kind)


def _births(text: str, row: Registered) -> Iterator[Part]:
    if row.birth is None:
        return
    pattern = "|".join(map(re.escape, birth_forms(row.birth)))
    for match in re.finditer(rf"(?<!\d)(?:{pattern})(?!\d)", text):
        yield Part(match.start(), match.end(), "birth")


def _form(parts: tuple[Part, ...]) -> str:
    return "+".join(part.kind for part in parts)
