"""Names in generated documents with their offsets: where each stands, so that it can be marked.

Comes in: documents as text, the listed names. Goes out: stretches of the text as it is written. The
rule is that of `audit.membership.matching`: whole words, whatever the case, width and accents;
where names are written without spaces, wherever their characters stand. Torch-free.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from audit.membership.candidates import Candidates, is_unspaced, make_candidates
from audit.membership.matching import WORD, fold
from audit.report import AuditReport

PARTS = ("full", "first", "last", "either")
"""What of a name a hit is; "either": the first name of some and the last name of others."""

# A character with what is composed with it: combining marks, half-width voicing, Hangul letters.
_HANGUL = "\u1100-\u11ff\uffa0-\uffdc"
_CLUSTER = re.compile(
    f"[{_HANGUL}]+"
    "|.[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u302a-\u302f\u3099\u309a\ufe20-\ufe2f\uff9e\uff9f]*",
    re.DOTALL,
)
_CHUNK = re.compile(r"\s+|\S+")


@dataclass(frozen=True)
class Hit:
    """Characters `start` to `end` of a document are (part of) the names `name_ids`."""

    start: int
    end: int
    part: str
    name_ids: tuple[int, ...]


def listed_names(report: AuditReport) -> Candidates:
    """Return the first and last names of a report's list, by `name_id`; nothing else is filled."""
    names = report.names
    return make_candidates(list(zip(names["first_name"], names["last_name"], strict=True)))


def find_hits(texts: Sequence[str], *, names: Candidates) -> tuple[tuple[Hit, ...], ...]:
    """Return for each document every place of every listed name, in the order of the text.

    Hits may overlap: a full name holds its parts. `marks_of` gives stretches that do not.
    """
    index = _Index(names)
    return tuple(index.find(text) for text in texts)


def marks_of(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return stretches that do not overlap and cover exactly what the hits cover.

    Of hits that begin together the longest is taken; one that begins inside another keeps the part
    that reaches beyond it.
    """
    marks: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end, PARTS.index(hit.part))):
        end = marks[-1].end if marks else 0
        if hit.end > end:
            marks.append(replace(hit, start=max(hit.start, end)))
    return tuple(marks)


def fold_with_offsets(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """Return text as names are compared, and where each of its characters begins and ends in it.

    Where folding cannot be followed character by character, whole words are given as one.
    """
    folded = fold(text)
    if text.isascii():
        return folded, range(len(text)), range(1, len(text) + 1)
    for pattern in (_CLUSTER, _CHUNK):
        pieces = [(m.start(), m.end(), fold(m[0])) for m in pattern.finditer(text)]
        if "".join(piece for _, _, piece in pieces) == folded:
            break
    else:
        pieces = [(0, len(text), folded)]
    starts = [start for start, _, piece in pieces for _ in piece]
    ends = [end for _, end, piece in pieces for _ in piece]
    return folded, starts, ends


class _Index:
    """What to look for: sequences of words by their first word, and runs of characters."""

    def __init__(self, names: Candidates) -> None:
        by_words: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(_by_part)
        by_characters: dict[str, dict[str, list[int]]] = defaultdict(_by_part)
        for row in range(len(names)):
            for part, entry in _entries(names, row):
                if is_unspaced(entry):
                    by_characters[fold(entry).replace(" ", "")][part].append(row)
                elif words := tuple(WORD.findall(fold(entry))):
                    by_words[words][part].append(row)
        self._words = {words: _terms(found) for words, found in by_words.items()}
        self._characters = {run: _terms(found) for run, found in by_characters.items()}
        self._n_words: dict[str, set[int]] = defaultdict(set)
        for words in self._words:
            self._n_words[words[0]].add(len(words))
        self._n_characters: dict[str, set[int]] = defaultdict(set)
        for run in self._characters:
            self._n_characters[run[:1]].add(len(run))

    def find(self, text: str) -> tuple[Hit, ...]:
        """Return every hit in a document."""
        found = [*self._by_words(text), *self._by_characters(text)]
        return tuple(sorted(found, key=lambda hit: (hit.start, -hit.end, hit.part)))

    def _by_words(self, text: str) -> Iterator[Hit]:
        if not self._words:
            return
        folded = fold(text)
        words = WORD.findall(folded)
        if self._n_words.keys().isdisjoint(words):
            return
        places = list(WORD.finditer(folded))
        starts: Sequence[int] = ()
        ends: Sequence[int] = ()
        for at, word in enumerate(words):
            for n_words in self._n_words.get(word, ()):
                terms = self._words.get(tuple(words[at : at + n_words]))
                if terms is None or at + n_words > len(words):
                    continue
                if not starts:
                    _, starts, ends = fold_with_offsets(text)
                start = starts[places[at].start()]
                end = ends[places[at + n_words - 1].end() - 1]
                for part, name_ids in terms:
                    yield Hit(start, end, part, name_ids)

    def _by_characters(self, text: str) -> Iterator[Hit]:
        if not self._characters:
            return
        folded, starts, ends = fold_with_offsets(text)
        kept = [place for place, character in enumerate(folded) if not character.isspace()]
        joined = "".join(folded[place] for place in kept)
        for at, character in enumerate(joined):
            for n_characters in self._n_characters.get(character, ()):
                terms = self._characters.get(joined[at : at + n_characters])
                if terms is None or at + n_characters > len(joined):
                    continue
                for part, name_ids in terms:
                    yield Hit(starts[kept[at]], ends[kept[at + n_characters - 1]], part, name_ids)


def _by_part() -> dict[str, list[int]]:
    return defaultdict(list)


def _entries(names: Candidates, row: int) -> Iterator[tuple[str, str]]:
    """Yield what a name can be found by; a name of one part is found in full."""
    parts = names.parts(row)
    if len(parts) > 1:
        yield from parts
    yield "full", names.separator(row).join(text for _, text in parts)


def _terms(found: dict[str, list[int]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the parts that one stretch of text can be, and whose; full names stand apart."""
    single = {part for part in found if part != "full"}
    rows = sorted({row for part in single for row in found[part]})
    terms = [("full", tuple(found["full"]))] if "full" in found else []
    if single:
        terms.append((single.pop() if len(single) == 1 else "either", tuple(rows)))
    return tuple(terms)
