"""Generated documents on a screen: which hold listed names, how often, and a page of them.

Comes in: an audit's documents, its table of names, its passages. Torch-free.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from audit.names.candidates import Candidates, make_candidates
from audit.names.matching import WORD, fold
from audit.notes.passages import Passage
from audit.report.names import ASKED
from audit.report.report import AuditReport, Inspection
from audit.stats import Rate
from audit.text import fold_name, is_unspaced

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


WHO = ("hospital", "general")
GROUPS = ("candidate", "member", "control", "flagged")
"""Listed names by group: all, members and names of unknown truth, controls, and those names that
stand out and are no controls."""
FILTERS = ("all", *GROUPS, "none")
PER_PAGE = 10

Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ModelDocuments:
    """The n documents of one model.

    Attributes
    ----------
    hits
        Every place of every listed name; they may overlap.
    has
        For each of `GROUPS` whether [n] a document holds a name of it, whole or in part.
    """

    who: str
    texts: tuple[str, ...]
    hits: tuple[tuple[Hit, ...], ...]
    has: Mapping[str, Flags]
    _folded: tuple[str, ...] = field(repr=False)
    _folded_masked: tuple[str, ...] = field(repr=False)

    def marks(self, number: int) -> tuple[Hit, ...]:
        """Return the stretches of a document that are names: in order, not overlapping."""
        return marks_of(self.hits[number])

    def share(self, group: str) -> Rate:
        """Return how many documents hold a name of a group."""
        return Rate(int(self.has[group].sum()), len(self.texts))


@dataclass(frozen=True, eq=False)
class DocumentView:
    """Documents of both models by number: document k of both began with the same draws."""

    hospital: ModelDocuments
    general: ModelDocuments

    def __len__(self) -> int:
        return len(self.hospital.texts)

    @property
    def models(self) -> tuple[ModelDocuments, ModelDocuments]:
        """Return both models' documents, the hospital's first."""
        return self.hospital, self.general


@dataclass(frozen=True)
class DocumentWish:
    """Which documents to show: `group` is one of `FILTERS`, `text` is searched as it stands.

    `name_id` asks for documents that hold (a part of) this name. Unless `is_revealed` the search
    passes over what is masked: it would tell the names letter by letter.
    """

    group: str = "all"
    text: str = ""
    name_id: int | None = None
    is_revealed: bool = False


def document_view(
    documents: Mapping[str, Sequence[str]], *, report: AuditReport
) -> DocumentView | None:
    """Return both models' documents with the listed names found; None where there are none."""
    n, table = max((len(texts) for texts in documents.values()), default=0), report.table
    if not n:
        return None
    pairs = zip(table["first_name"], table["last_name"], strict=True)
    names, groups = make_candidates(list(pairs)), _groups(table)
    models = []
    for who in WHO:
        texts = (*documents.get(who, ()), *[""] * (n - len(documents.get(who, ()))))
        hits = find_hits(texts, names=names)
        models.append(
            ModelDocuments(
                who=who,
                texts=texts,
                hits=hits,
                has={group: _holds(hits, mask) for group, mask in groups.items()},
                _folded=tuple(map(fold_name, texts)),
                _folded_masked=tuple(map(_folded_masked, texts, hits)),
            )
        )
    return DocumentView(*models)


def select_documents(view: DocumentView, *, wish: DocumentWish) -> Rows:
    """Return the numbers of the documents that fit, in their order.

    A number fits if the document of either model does; "none": if both hold no listed name.

    Raises
    ------
    ValueError
        If there is no such filter.
    """
    if wish.group not in FILTERS:
        raise ValueError("there is no such filter")
    fits = np.ones(len(view), dtype=np.bool_)
    if wish.group == "none":
        fits = ~(view.hospital.has["candidate"] | view.general.has["candidate"])
    elif wish.group != "all":
        fits = view.hospital.has[wish.group] | view.general.has[wish.group]
    if wish.name_id is not None:
        fits = fits & (
            holds_name(view.hospital, name_id=wish.name_id)
            | holds_name(view.general, name_id=wish.name_id)
        )
    if wanted := fold_name(wish.text):
        texts = [m._folded if wish.is_revealed else m._folded_masked for m in view.models]
        pairs = zip(*texts, strict=True)
        fits = fits & np.array([wanted in one or wanted in other for one, other in pairs])
    return np.flatnonzero(fits)


def holds_name(documents: ModelDocuments, *, name_id: int) -> Flags:
    """Return whether [n] a document holds the name `name_id`, whole or in part."""
    return np.array(
        [any(name_id in hit.name_ids for hit in hits) for hits in documents.hits], dtype=np.bool_
    )


def n_pages(n_rows: int) -> int:
    """Return how many pages so many rows fill, at least one."""
    return max(1, -(-n_rows // PER_PAGE))


def page_number(text: str, *, n_rows: int) -> int:
    """Return the page that a link asks for, from 1; one that there is not gives the nearest."""
    wanted = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1
    return min(max(1, wanted), n_pages(n_rows))


def page_rows(rows: Rows, *, page: int) -> Rows:
    """Return the rows of a page, from 1."""
    return rows[(page - 1) * PER_PAGE : page * PER_PAGE]


def next_hit(view: DocumentView, *, rows: Rows, after: int) -> tuple[int, int] | None:
    """Return the next document of the rows in which the hospital model wrote a listed name.

    Searched are numbers above `after`, then from the start; returned are the document's number and
    its page. None where there is none.
    """
    places = np.flatnonzero(view.hospital.has["candidate"][rows])
    if not len(places):
        return None
    later = places[rows[places] > after]
    place = int(later[0] if len(later) else places[0])
    return int(rows[place]), place // PER_PAGE + 1


def listed_passages(
    inspection: Inspection, *, table: pd.DataFrame, text: str = ""
) -> list[tuple[int, Passage, int | None]]:
    """Return the passages that hold a text (folded, as it stands), in their order.

    Each with its number from 1, and the row of the name whose it is where that is known.
    """
    parts = zip(table["first_name"], table["last_name"], strict=True)
    row_of = {(fold_name(first), fold_name(last)): row for row, (first, last) in enumerate(parts)}
    wanted, found = fold_name(text), []
    for number, passage in enumerate(inspection.passages, start=1):
        if wanted and wanted not in fold_name(f"{passage.left}\n{passage.right}"):
            continue
        owner = passage.owner
        if isinstance(owner, tuple):
            owner = row_of.get((fold_name(owner[0]), fold_name(owner[1])))
        found.append((number, passage, owner if owner is None or owner < len(table) else None))
    return found


def _folded_masked(text: str, hits: Sequence[Hit]) -> str:
    """Return what stands outside the names, folded; a sign that no keyboard has for each name."""
    pieces, end = [], 0
    for mark in marks_of(hits):
        pieces.append(text[end : mark.start])
        end = mark.end
    return fold_name("\ufffc".join([*pieces, text[end:]]))


def _groups(table: pd.DataFrame) -> dict[str, Flags]:
    """Return for each of `GROUPS` whether [N] a name belongs to it."""
    is_asked = table["kind"].isin(ASKED).to_numpy()
    flagged = is_asked & (table["decision"] == "flagged").to_numpy()
    return {
        "candidate": np.ones(len(table), dtype=np.bool_),
        "member": is_asked,
        "control": ~is_asked,
        "flagged": flagged,
    }


def _holds(hits: Sequence[tuple[Hit, ...]], group: Flags) -> Flags:
    # Hits of one stretch share their tuple of names, so that each is looked up once.
    known: dict[int, bool] = {}

    def is_in_group(names: tuple[int, ...]) -> bool:
        if id(names) not in known:
            known[id(names)] = bool(group[list(names)].any())
        return known[id(names)]

    return np.array([any(is_in_group(hit.name_ids) for hit in found) for found in hits], np.bool_)
