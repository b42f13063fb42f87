"""Tags in a model's output: read by a tolerant scanner, and every malformed one counted.

Notes hold `<5 mg/dL` and full-width brackets, so this is no XML: only the tags of known labels are
tags, everything else stays text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields

from audit.deid.documents import MAX_LABEL_CHARS, Span, TaggedDocument, n_overlapping
from audit.deid.labels import JAPANESE, NAMES, folded, known_label
from audit.errors import AuditError

MAX_SPAN_CHARS = 200
"""A tag that is closed later than this is taken as not closed: nothing personal is that long."""

_UNKNOWN = re.compile(r"[<＜]\s?[/／]?\s?([^\W\d_][\w-]{0,39})\s?[>＞]")


@dataclass(frozen=True)
class TagCensus:
    """How many tags of an output were malformed, by kind.

    Attributes
    ----------
    n_tags
        Pairs of tags that were read, malformed or not.
    n_unclosed
        Opened and never closed: they end at the next tag or at the end of their line.
    n_stray
        Closed and never opened: left out.
    n_crossing
        Closed under another label than opened: the innermost open tag is closed, under its own.
    n_nested
        Inside another tag.
    n_unknown
        Of no known label: they stay text.
    n_empty
        Around nothing but white space: left out.
    """

    n_tags: int = 0
    n_unclosed: int = 0
    n_stray: int = 0
    n_crossing: int = 0
    n_nested: int = 0
    n_unknown: int = 0
    n_empty: int = 0

    @property
    def n_malformed(self) -> int:
        """All malformed tags together."""
        n_all: int = sum(getattr(self, f.name) for f in fields(self))
        return n_all - self.n_tags

    def __add__(self, other: TagCensus) -> TagCensus:
        """Count two outputs together."""
        return TagCensus(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class ScannedTags:
    """An output without its tags, the spans on it, and the census. Spans may be nested."""

    plain: str
    spans: tuple[Span, ...]
    census: TagCensus


@dataclass
class _Open:
    """A tag that was opened, and where it was closed."""

    label: str
    start: int
    end: int | None = None  # None: not closed
    is_crossing: bool = False


def scan_tags(output: str, *, source: str = "", labels: Collection[str] = ()) -> ScannedTags:
    """Read the tags of an output.

    Parameters
    ----------
    output
        What the model wrote.
    source
        The note it should have copied: what looks like a tag there is no unknown tag.
    labels
        Labels beside the five types.
    """
    pattern = _pattern(labels)
    plain: list[str] = []
    at = n_plain = 0
    opened: list[_Open] = []
    stack: list[_Open] = []
    marks: list[int] = []  # where tags stood in the plain text
    n_stray = 0
    owed: Counter[str] = Counter()
    for tag in pattern.finditer(output):
        plain.append(output[at : tag.start()])
        n_plain += tag.start() - at
        at = tag.end()
        label = known_label(tag[2])
        if not tag[1]:
            stack.append(_Open(label, n_plain))
            opened.append(stack[-1])
            marks.append(n_plain)
            continue
        while stack and n_plain - stack[-1].start > MAX_SPAN_CHARS:
            stack.pop()
        marks.append(n_plain)
        if not stack:
            n_stray += 1
            continue
        closed = stack.pop()
        closed.end = n_plain
        if closed.label == label:
            continue
        if owed[label]:  # the other half of a crossing that is counted
            owed[label] -= 1
        else:
            closed.is_crossing = True
            owed[closed.label] += 1
    plain.append(output[at:])
    text = "".join(plain)
    expected = _normal(source)
    spans, n_unclosed, n_nested, n_empty = _ends(opened, text=text, marks=marks)
    census = TagCensus(
        n_tags=len(opened),
        n_unclosed=n_unclosed,
        n_stray=n_stray,
        n_crossing=sum(tag.is_crossing for tag in opened),
        n_nested=n_nested,
        n_unknown=sum(_normal(tag[0]) not in expected for tag in _UNKNOWN.finditer(text)),
        n_empty=n_empty,
    )
    return ScannedTags(text, tuple(sorted(set(spans))), census)


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _pattern(labels: Iterable[str]) -> re.Pattern[str]:
    known = {*NAMES, *labels}
    spelled = sorted({form for label in known for form in (label, folded(label))}, key=len)
    names = "|".join(re.escape(label).replace("_", r"[_\s-]") for label in reversed(spelled))
    return re.compile(rf"[<＜]\s*([/／]?)\s*({names})\s*[>＞]", re.IGNORECASE)


def _ends(opened: list[_Open], *, text: str, marks: list[int]) -> tuple[list[Span], int, int, int]:
    spans: list[Span] = []
    n_unclosed = n_nested = n_empty = 0
    reached = 0  # end of the closed tags so far
    following = iter(marks)
    after = next(following, None)
    for tag in opened:
        while after is not None and after <= tag.start:
            after = next(following, None)
        end = tag.end
        if end is None:
            n_unclosed += 1
            line_end = text.find("\n", tag.start)
            ends = [len(text), *(x for x in (line_end, after) if x is not None and x >= 0)]
            end = min(*ends, tag.start + MAX_SPAN_CHARS)
        else:
            n_nested += tag.start < reached and not tag.is_crossing
            reached = max(reached, end)
        if text[tag.start : end].strip():
            spans.append(Span(tag.start, end, tag.label))
        else:
            n_empty += 1
    return spans, n_unclosed, n_nested, n_empty


def write_tags(document: TaggedDocument, *, language: str = "ja") -> str:
    """Return a note with each span wrapped in a tag of its label: what a tagger learns to write.

    Raises
    ------
    AuditError
        If spans overlap, or the note itself holds something that would be read as a tag.
    """
    if n_overlapping(document.spans):
        raise AuditError(
            "Spans of a note overlap, and inline tags cannot say so.",
            do="Flatten the spans first, or choose another format.",
        )
    labels = {span.label for span in document.spans}
    if any(set(label) & set("<>＜＞/／") or len(label) > MAX_LABEL_CHARS for label in labels):
        raise AuditError("A label holds a bracket or a slash, and inline tags cannot say so.")
    pieces, at = [], 0
    for span in document.spans:
        name = JAPANESE.get(span.label, span.label) if language == "ja" else span.label
        pieces += [document.text[at : span.start], f"<{name}>"]
        pieces += [document.text[span.start : span.end], f"</{name}>"]
        at = span.end
    written = "".join([*pieces, document.text[at:]])
    back = scan_tags(written, labels=labels)
    if back.plain != document.text or back.spans != document.spans:
        raise AuditError(
            "A note cannot be written with inline tags: it holds something that reads as a tag, or "
            "a span is white space or too long.",
            do="Choose another format.",
        )
    return written
