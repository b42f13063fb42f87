"""Generated documents on a screen: which hold listed names, how often, and a page of them.

Input: an audit's documents, its table of names, its passages. Torch-free. If names are masked, a
search skips every name that the screen masks, because hits would reveal the names letter by
letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from audit.attack.question import MODEL_ROLES
from audit.deid.redact.name_places import NameFinder
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.names.matching import PartIndex
from audit.notes.passages import Passage, find_owner_rows
from audit.report.name_table import ASKED
from audit.report.report import AuditReport, Inspection
from audit.stats import Rate
from audit.text import fold_name

GROUPS = ("candidate", "member", "control", "flagged")
"""Groups of listed names: all; members and names of unknown truth; controls; names that stand out
and are not controls."""
FILTERS = ("all", *GROUPS, "none")
MAX_SEARCHED = 300
"""Maximum number of texts in which one search of masked texts looks for names."""
_NAME = "\ufffc"
"""Replaces a name in a searched text; no keyboard types this character."""

Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Hit:
    """Characters `start` to `end` of a document, which are the "full" names or a "part" of them."""

    start: int
    end: int
    part: str
    name_ids: tuple[int, ...]


def listed_names(table: pd.DataFrame) -> Candidates:
    """Return all names of an audit's list, in the order of its table."""
    return make_candidates(list(zip(table["first_name"], table["last_name"], strict=True)))


def find_hits(texts: Sequence[str], *, index: PartIndex) -> tuple[tuple[Hit, ...], ...]:
    """Return for each document every place of every listed name, in the order of the text.

    Hits may overlap, since a full name contains its parts. `merge_hits` removes overlaps.
    """
    hits_by_text = (
        [Hit(start, end, *term) for start, end, term in index.find_places(t)] for t in texts
    )
    return tuple(
        tuple(sorted(hits, key=lambda h: (h.start, -h.end, h.part))) for hits in hits_by_text
    )


def merge_hits(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return stretches that do not overlap and cover exactly what the hits cover.

    If hits begin together, the longest is kept. A hit that begins inside another is cut to the part
    that reaches beyond it.
    """
    marks: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end, hit.part)):
        end = marks[-1].end if marks else 0
        if hit.end > end:
            marks.append(replace(hit, start=max(hit.start, end)))
    return tuple(marks)


def hide_names(text: str, stretches: Sequence[tuple[int, int]]) -> str:
    """Return a text with every stretch replaced by one character."""
    letters = list(text)
    for start, end in reversed(stretches):
        letters[start:end] = [_NAME]
    return "".join(letters)


@dataclass(frozen=True, eq=False)
class ModelDocuments:
    """The n documents of one model.

    `hits` are all places of all listed names, which may overlap. `has` holds, for each of `GROUPS`,
    whether [n] each document contains a name of the group or a part of one.
    """

    role: str
    texts: tuple[str, ...]
    hits: tuple[tuple[Hit, ...], ...]
    has: Mapping[str, Flags]

    def marks(self, number: int) -> tuple[Hit, ...]:
        """Return the stretches of a document that are names, in order and without overlaps."""
        return merge_hits(self.hits[number])

    def share(self, group: str) -> Rate:
        """Return the share of documents that hold a name of a group."""
        return Rate(int(self.has[group].sum()), len(self.texts))

    def holds(self, text: str, *, is_revealed: bool) -> Flags:
        """Return whether [n] each document holds a folded text.

        Unless `is_revealed`, listed names are skipped; `select_documents` also skips other names.
        """
        return np.array([text in folded for folded in self._folded[is_revealed]], dtype=np.bool_)

    @cached_property
    def _folded(self) -> tuple[list[str], list[str]]:
        """The folded texts with listed names replaced, and the folded full texts."""
        hidden = [
            fold_name(hide_names(text, [(mark.start, mark.end) for mark in self.marks(number)]))
            for number, text in enumerate(self.texts)
        ]
        return hidden, [fold_name(text) for text in self.texts]


@dataclass(frozen=True, eq=False)
class DocumentView:
    """Documents of both models by number; documents k of both began with the same draws."""

    hospital: ModelDocuments
    general: ModelDocuments
    names: NameFinder

    def __len__(self) -> int:
        return len(self.hospital.texts)

    @property
    def models(self) -> tuple[ModelDocuments, ModelDocuments]:
        """Return both models' documents, the hospital's first."""
        return self.hospital, self.general


@dataclass(frozen=True)
class DocumentWish:
    """The documents to show: `group` is one of `FILTERS`, and `text` is searched literally.

    `name_id` selects documents that hold this name or a part of it. Unless `is_revealed`, the
    search skips masked names, because hits would reveal them letter by letter.
    """

    group: str = "all"
    text: str = ""
    name_id: int | None = None
    is_revealed: bool = False


def make_document_view(
    documents: Mapping[str, Sequence[str]], *, report: AuditReport, names: NameFinder
) -> DocumentView | None:
    """Return both models' documents with their listed names; None if there are no documents.

    `names` is the finder of the report's `listed_names`.
    """
    n, table = max((len(texts) for texts in documents.values()), default=0), report.table
    if not n or names.index is None:
        return None
    is_asked = table["kind"].isin(ASKED)
    flagged = is_asked & (table["decision"] == "flagged")
    groups = dict(zip(GROUPS, (is_asked | True, is_asked, ~is_asked, flagged), strict=True))
    models = {}
    for model_role in MODEL_ROLES:
        texts = (*documents.get(model_role, ()), *[""] * (n - len(documents.get(model_role, ()))))
        hits = find_hits(texts, index=names.index)
        name_ids_by_document = [
            sorted({name_id for hit in document_hits for name_id in hit.name_ids})
            for document_hits in hits
        ]
        has = {
            group: np.array(
                [bool(rows.iloc[ids].any()) for ids in name_ids_by_document], dtype=np.bool_
            )
            for group, rows in groups.items()
        }
        models[model_role] = ModelDocuments(model_role, texts, hits, has)
    return DocumentView(**models, names=names)


def select_documents(view: DocumentView, *, wish: DocumentWish) -> Rows:
    """Return the numbers of the documents that fit; ValueError for an unknown filter.

    They are in order, but those in which either document holds a listed name come first. A number
    fits if the document of either model fits; for "none", if neither holds a listed name.
    Raises AuditError if a search of masked documents would have to look for names in too many.
    """
    if wish.group not in FILTERS:
        raise ValueError("there is no such filter")

    def either(holds: Callable[[ModelDocuments], Flags]) -> Flags:
        return holds(view.hospital) | holds(view.general)

    fits = np.ones(len(view), dtype=np.bool_)
    if wish.group == "none":
        fits = ~either(lambda model: model.has["candidate"])
    elif wish.group != "all":
        fits = either(lambda model: model.has[wish.group])
    if (name_id := wish.name_id) is not None:
        fits = fits & either(lambda model: holds_name(model, name_id=name_id))
    if text := fold_name(wish.text):
        holds = {
            model.role: fits & model.holds(text, is_revealed=wish.is_revealed)
            for model in view.models
        }
        if not wish.is_revealed:
            places = [
                (model, n) for model in view.models for n in np.flatnonzero(holds[model.role])
            ]
            texts = [model.texts[n] for model, n in places]
            for (model, n), is_there in zip(
                places, hold_outside_names(texts, text, names=view.names), strict=True
            ):
                holds[model.role][n] = is_there
        fits = fits & either(lambda model: holds[model.role])
    rows = np.flatnonzero(fits)
    has_name = either(lambda model: model.has["candidate"])
    return rows[np.argsort(~has_name[rows], kind="stable")]


def hold_outside_names(texts: Sequence[str], phrase: str, *, names: NameFinder) -> list[bool]:
    """Return whether each text holds a folded phrase outside the names found in the text.

    Raises
    ------
    AuditError
        If there are more than `MAX_SEARCHED` texts, since the finder would have to read each.
    """
    if len(texts) > MAX_SEARCHED:
        raise AuditError(
            "More than {most} texts hold this, and names are masked.",
            where="search",
            do="Type more of what you look for, or reveal names first.",
            most=MAX_SEARCHED,
        )
    hidden = map(hide_names, texts, names.find_names_of_texts(texts))
    return [phrase in fold_name(text) for text in hidden]


def holds_name(documents: ModelDocuments, *, name_id: int) -> Flags:
    """Return whether [n] each document holds the name `name_id` or a part of it."""
    has_name = [any(name_id in hit.name_ids for hit in hits) for hits in documents.hits]
    return np.array(has_name, dtype=np.bool_)


def select_passages(
    inspection: Inspection,
    *,
    table: pd.DataFrame,
    text: str = "",
    masking: NameFinder | None = None,
) -> list[tuple[int, Passage, int | None]]:
    """Return the passages that hold a text (folded, searched literally), in their order.

    Each passage comes with its number, from 1, and the row of its patient's name, if known.
    `masking` finds the names that the search skips. Raises AuditError like `hold_outside_names`.
    """
    owners = find_owner_rows(
        inspection.passages, first=list(table["first_name"]), last=list(table["last_name"])
    )
    numbers, phrase = range(1, len(owners) + 1), fold_name(text)
    rows = list(zip(numbers, inspection.passages, owners, strict=True))
    if not phrase:
        return rows
    sides = [
        (number, side)
        for number, passage, _ in rows
        for side in (passage.left, passage.right)
        if phrase in fold_name(side)
    ]
    matching_numbers = {number for number, _ in sides}
    if masking is not None:
        holds = hold_outside_names([side for _, side in sides], phrase, names=masking)
        matching_numbers = {
            number for (number, _), is_there in zip(sides, holds, strict=True) if is_there
        }
    return [row for row in rows if row[0] in matching_numbers]
