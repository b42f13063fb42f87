"""Generated documents on a screen: which hold listed names, how often, and a page of them.

Comes in: an audit's documents, its table of names, its passages. Goes out: frozen values: marked
documents of both models side by side, counts with intervals, rows that fit a wish. Torch-free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audit.inspection import Inspection
from audit.names import fold_name
from audit.rates import Rate
from audit.report import AuditReport
from audit.view.name_hits import Hit, find_hits, listed_names, marks_of
from audit.view.name_table import NameTable

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


@dataclass(frozen=True)
class MarkedDocument:
    """One document and the stretches of it that are names: in order, not overlapping."""

    who: str
    text: str
    marks: tuple[Hit, ...]


@dataclass(frozen=True)
class DocumentPair:
    """Document `number` of both models, the hospital's first."""

    number: int
    documents: tuple[MarkedDocument, ...]


@dataclass(frozen=True)
class ListedPassage:
    """A passage around the place of a name; `owner` is the name's number where that is known.

    `number` counts the passages from 1; `passage_id` is the hospital's own and may name somebody.
    """

    number: int
    passage_id: str
    before: str
    after: str
    owner: int | None


def document_view(
    documents: Mapping[str, Sequence[str]], *, report: AuditReport, table: NameTable
) -> DocumentView | None:
    """Return both models' documents with the listed names found; None where there are none."""
    n = max((len(texts) for texts in documents.values()), default=0)
    if not n:
        return None
    names, groups = listed_names(report), _groups(table)
    hospital, general = (_model(who, documents.get(who, ()), n=n) for who in WHO)
    found = {who: find_hits(texts, names=names) for who, texts in (hospital, general)}
    return DocumentView(
        *(
            ModelDocuments(
                who=who,
                texts=texts,
                hits=found[who],
                has={group: _holds(found[who], mask) for group, mask in groups.items()},
                _folded=tuple(map(fold_name, texts)),
                _folded_masked=tuple(map(_folded_masked, texts, found[who])),
            )
            for who, texts in (hospital, general)
        )
    )


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


def marked_pairs(view: DocumentView, *, numbers: Sequence[int]) -> tuple[DocumentPair, ...]:
    """Return documents by their numbers, with their marks."""
    return tuple(
        DocumentPair(
            number=int(number),
            documents=tuple(
                MarkedDocument(model.who, model.texts[number], marks_of(model.hits[number]))
                for model in view.models
            ),
        )
        for number in numbers
    )


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
    inspection: Inspection, *, table: NameTable, text: str = ""
) -> tuple[ListedPassage, ...]:
    """Return the passages that hold a text (folded, as it stands), in their order."""
    row_of = {
        (fold_name(first), fold_name(last)): row
        for row, (first, last) in enumerate(zip(table.first, table.last, strict=True))
    }
    wanted = fold_name(text)
    found = []
    for number, passage in enumerate(inspection.passages, start=1):
        if wanted and wanted not in fold_name(f"{passage.left}\n{passage.right}"):
            continue
        owner = passage.owner
        if isinstance(owner, tuple):
            owner = row_of.get((fold_name(owner[0]), fold_name(owner[1])))
        elif owner is not None and owner >= len(table):
            owner = None
        found.append(ListedPassage(number, passage.passage_id, passage.left, passage.right, owner))
    return tuple(found)


def _model(who: str, texts: Sequence[str], *, n: int) -> tuple[str, tuple[str, ...]]:
    return who, (*texts, *[""] * (n - len(texts)))


def _folded_masked(text: str, hits: Sequence[Hit]) -> str:
    """Return what stands outside the names, folded; a sign that no keyboard has for each name."""
    pieces, end = [], 0
    for mark in marks_of(hits):
        pieces.append(text[end : mark.start])
        end = mark.end
    return fold_name("\ufffc".join([*pieces, text[end:]]))


def _groups(table: NameTable) -> dict[str, Flags]:
    """Return for each of `GROUPS` whether [N] a name belongs to it."""
    kind = table.codes["kind"]
    is_control = ~np.isin(kind, ("member", "unknown", "planted"))
    return {
        "candidate": np.ones(len(table), dtype=np.bool_),
        "member": ~is_control,
        "control": is_control,
        "flagged": ~is_control & (table.codes["decision"] == "flagged"),
    }


def _holds(hits: Sequence[tuple[Hit, ...]], group: Flags) -> Flags:
    # Hits of one stretch share their tuple of names, so that each is looked up once.
    known: dict[int, bool] = {}

    def is_in_group(names: tuple[int, ...]) -> bool:
        if id(names) not in known:
            known[id(names)] = bool(group[list(names)].any())
        return known[id(names)]

    return np.array([any(is_in_group(hit.name_ids) for hit in found) for found in hits], np.bool_)
