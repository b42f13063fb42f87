"""Notes with spans: the characters of a text that are personal information, and their types.

Offsets count code points of the source text; intervals are half open, as in Python slices.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from audit.errors import AuditError
from audit.foreign import parse_json_value
from audit.text import word_lists

MAX_LABEL_CHARS = 100
_MAX_LABELS = 10_000
_MAX_NAMED = 20
"""How many labels of a label map a message names."""


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """The characters `start` to `end` (exclusive) of a text, and their label.

    `kind` is the kind of text (of `audit.deid.redact.kinds`) that a person says it is; "" leaves
    the kind to the form and the cues.

    Raises ValueError if the span is empty or begins before the text, or if the label is empty, too
    long, or holds white space or characters that cannot be printed.
    """

    start: int
    end: int
    label: str
    kind: str = ""

    def __post_init__(self) -> None:
        """Check offsets and label, once."""
        if not 0 <= self.start < self.end:
            raise ValueError(f"a span goes from {self.start} to {self.end}")
        label = self.label
        if not 0 < len(label) <= MAX_LABEL_CHARS or not label.isprintable() or " " in label:
            raise ValueError("a label is empty, too long, or holds white space")

    @property
    def n_chars(self) -> int:
        """The number of characters that it covers."""
        return self.end - self.start

    def to_fields(self) -> dict[str, int | str]:
        """Return what a file of annotated notes holds of it: start, end and label."""
        return {"start": self.start, "end": self.end, "label": self.label}

    def overlap(self, span: Span) -> int:
        """Return how many characters two spans share."""
        return max(0, min(self.end, span.end) - max(self.start, span.start))


Tags = tuple[Span, ...]
"""Spans of one text: inside it, sorted, none sharing a character with another."""


@dataclass(frozen=True)
class TaggedDocument:
    """A note and its spans, which are sorted and unique, and may overlap.

    `patient_id` is None if it is unknown. `n_duplicates` counts duplicate spans that were left out.
    `unaligned` holds the labels of predictions without a place in the text, which are spurious.
    """

    doc_id: str
    text: str
    spans: tuple[Span, ...] = ()
    patient_id: str | None = None
    n_duplicates: int = 0
    unaligned: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the spans against the text, once."""
        if list(self.spans) != sorted(set(self.spans)):
            raise ValueError("spans are not sorted, or one is there twice")
        last = max((span.end for span in self.spans), default=0)
        if last > len(self.text):
            raise ValueError(f"a span ends at {last}, the text at {len(self.text)}")

    @property
    def patient(self) -> tuple[int, str]:
        """The key of the patient; a note of an unknown patient has a key of its own."""
        return (0, self.doc_id) if self.patient_id is None else (1, self.patient_id)

    def with_spans(self, spans: Iterable[Span], *, unaligned: Iterable[str] = ()) -> TaggedDocument:
        """Return the note with other spans, given in any order; duplicates are counted."""
        all_spans = list(spans)
        unique_spans = tuple(sorted(set(all_spans)))
        n_twice, lost = len(all_spans) - len(unique_spans), tuple(sorted(unaligned))
        return replace(self, spans=unique_spans, n_duplicates=n_twice, unaligned=lost)


def build_document(
    doc_id: str,
    *,
    text: str,
    spans: Iterable[Span],
    patient_id: str | None = None,
    unaligned: Iterable[str] = (),
) -> TaggedDocument:
    """Build a document from spans in any order; duplicates are counted and left out."""
    document = TaggedDocument(doc_id, text, patient_id=patient_id)
    return document.with_spans(spans, unaligned=unaligned)


def count_overlapping(spans: Iterable[Span]) -> int:
    """Return how many spans share a character with an earlier span."""
    n, reached = 0, 0
    for span in sorted(spans):
        n += span.start < reached
        reached = max(reached, span.end)
    return n


def merge_spans(spans: Iterable[Span]) -> tuple[tuple[int, int], ...]:
    """Return the union of spans as stretches (start, end) that neither overlap nor touch."""
    stretches: list[tuple[int, int]] = []
    for span in sorted(spans):
        if stretches and span.start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(stretches[-1][1], span.end))
        else:
            stretches.append((span.start, span.end))
    return tuple(stretches)


def drop_overlaps(spans: Iterable[Span], *, prior_spans: Iterable[Span] = ()) -> Tags:
    """Return the spans, sorted, that share no character with a prior or an earlier span."""
    chosen = list(prior_spans)
    taken_places = {place for span in chosen for place in range(span.start, span.end)}
    for span in spans:
        places = range(span.start, span.end)
        if taken_places.isdisjoint(places):
            taken_places.update(places)
            chosen.append(span)
    return tuple(sorted(chosen))


IDENTIFIER = "identifier"
QUASI_IDENTIFIER = "quasi_identifier"
PERSONAL_ID_CODE = "personal_id_code"
LINKAGE_CODE = "linkage_code"
CONTACT = "contact"

TYPES = (IDENTIFIER, QUASI_IDENTIFIER, PERSONAL_ID_CODE, LINKAGE_CODE, CONTACT)
"""In the order of the paper's section 2.2."""

JAPANESE = {
    IDENTIFIER: "識別子",
    QUASI_IDENTIFIER: "準識別子",
    PERSONAL_ID_CODE: "個人識別符号",
    LINKAGE_CODE: "連結符号",
    CONTACT: "連絡先情報",
}

RISK_ORDER = (IDENTIFIER, PERSONAL_ID_CODE, CONTACT, LINKAGE_CODE, QUASI_IDENTIFIER)
"""Types in order of precedence for overlapping spans: the most identifying type comes first."""

NAMES: dict[str, str] = {name: name for name in TYPES}
NAMES |= {japanese: name for name, japanese in JAPANESE.items()}
NAMES |= {"連絡先": CONTACT, "contact_information": CONTACT, "contact_info": CONTACT}
"""All accepted names of the types, in the form of `fold_label`, and the type of each."""

FOREIGN: dict[str, str] = {
    label: name
    for name, labels in word_lists(Path(__file__).with_name("labels.txt")).items()
    for label in labels
}
"""Labels of i2b2 2014, MEDDOCAN and others, in the form of `fold_label`, and the type of each.

Differs: the paper has one corpus and one label set. A person's name counts as an identifier, since
these label sets do not tell a full name from a surname.
"""


def fold_label(label: str) -> str:
    """Return the form in which labels are compared: NFKC, no case, words joined by underscores."""
    return "_".join(unicodedata.normalize("NFKC", label).casefold().replace("-", " ").split())


def normalize_label(label: str) -> str:
    """Return the English name of one of the five types; join the words of any other label."""
    return NAMES.get(fold_label(label)) or "_".join(label.split())


@dataclass(frozen=True)
class LabelMap:
    """A map from labels, in the form of `fold_label`, to others; "" leaves their spans out."""

    labels: Mapping[str, str]

    def map_label(self, label: str) -> str | None:
        """Return the new label; None if the map does not have the label."""
        name = normalize_label(label)
        return name if name in TYPES else self.labels.get(fold_label(label))


FIVE_TYPES = LabelMap(FOREIGN)
"""The map that comes with the tool."""


@dataclass(frozen=True)
class RelabelledDocument:
    """A document with mapped labels.

    `n_left_out` counts spans whose label maps to ""; `unknown` holds the labels that the map lacks.
    """

    document: TaggedDocument
    n_left_out: int
    unknown: tuple[str, ...]


def relabel_document(document: TaggedDocument, *, by: LabelMap) -> RelabelledDocument:
    """Return a document with its labels mapped; a span with an unknown label keeps it."""
    labels = {span.label for span in document.spans}
    unknown = sorted(label for label in labels if by.map_label(label) is None)
    new = {
        label: label if (to := by.map_label(label)) is None else to
        for label in labels.union(document.unaligned)
    }
    spans = [Span(s.start, s.end, new[s.label]) for s in document.spans if new[s.label]]
    lost = filter(None, (new[label] for label in document.unaligned))
    mapped = document.with_spans(spans, unaligned=lost)
    return RelabelledDocument(mapped, len(document.spans) - len(spans), tuple(unknown))


def make_type_error(counts: Mapping[str, int]) -> AuditError:
    """Return the error for spans whose labels are none of the five types, from counts by label."""
    frequent = sorted(counts, key=lambda label: (-counts[label], label))
    named = ", ".join(f"{label} ({counts[label]:,})" for label in frequent[:_MAX_NAMED])
    return AuditError(
        "{n_spans} spans are labelled {labels}, which is none of the five types.",
        where="label map",
        do="Say in a label map which of the five types a label is; null leaves its spans out.",
        n_spans=sum(counts.values()),
        labels=f"{named} ..." if len(frequent) > _MAX_NAMED else named,
    )


def read_label_map(text: str, *, subject: str) -> LabelMap:
    """Read a map: a JSON object from label to type; null or "" leaves the label's spans out."""
    refusal = AuditError(
        "This is no JSON object from label to type.",
        where=subject,
        do='Write one line a label, as in "PATIENT": "identifier", between braces.',
    )
    if text.count(",") >= _MAX_LABELS:
        raise refusal
    labels = parse_json_value(text, refusal=refusal)
    if not isinstance(labels, dict) or not all(
        value is None or (isinstance(value, str) and len(value) <= MAX_LABEL_CHARS)
        for value in labels.values()
    ):
        raise refusal
    return LabelMap(
        {fold_label(key): normalize_label(str(value or "")) for key, value in labels.items()}
    )


def order_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels in the order of tables: the five types, then other labels alphabetically."""
    rank = {name: i for i, name in enumerate(TYPES)}
    return tuple(sorted(set(labels), key=lambda label: (rank.get(label, len(rank)), label)))
