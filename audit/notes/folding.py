"""Fold a text into the form that finders search, and map what they find back to the source.

The same name is stored in several ways: a letter and its accent may be one character or two (macOS,
PDF), and soft hyphens, zero-width spaces or direction marks may stand inside, invisible to readers.
Finders read only the folded text: Unicode's composed form (NFC) without invisible characters. Their
findings are mapped back, so all offsets are those of the source text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from audit.notes.spans import Span, TaggedDocument

_VARIATIONS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff"
    "\U000e01f0-\U000e0fff"
)
# Together Unicode's Default_Ignorable_Code_Point.
_IGNORABLE = re.compile(f"[{_HIDDEN}{_VARIATIONS}]+")
_HIDDEN_END = re.compile(f"[{_HIDDEN}]+\\Z")
_VOICING = {"\u309b": "\u3099", "\u309c": "\u309a", "\uff9e": "\u3099", "\uff9f": "\u309a"}
_UNUSUAL = re.compile(f"[{_HIDDEN}{_VARIATIONS}{''.join(_VOICING)}]")
_CHUNK = re.compile(r"\s+|\S+")


def _list_kana_with(mark: str) -> str:
    """Return the kana that Unicode composes with a voicing mark."""
    kana = map(chr, range(0x3041, 0x30FF))
    return "".join(
        character for character in kana if len(unicodedata.normalize("NFC", character + mark)) == 1
    )


_VOICED = re.compile(
    "[\u309b\uff9e](?<=[{}].)|[\u309c\uff9f](?<=[{}].)".format(
        *map(_list_kana_with, "\u3099\u309a")
    )
)
"""A separate voicing mark that follows a kana with which Unicode composes it."""


@dataclass(frozen=True)
class FoldedText:
    """A folded text, and the place of each of its characters in the source.

    Character `i` of `text` is `source[starts[i]:ends[i]]`. `starts` and `ends` are empty if text
    and source are the same.
    """

    source: str
    text: str
    starts: Sequence[int] = ()
    ends: Sequence[int] = ()

    @property
    def is_source(self) -> bool:
        """Whether the folded text is the source itself."""
        return not self.starts and len(self.text) == len(self.source)

    def source_place(self, start: int, end: int) -> tuple[int, int]:
        """Return the place of the characters `start` to `end` (exclusive) in the source.

        The place includes invisible characters between them, and the marks on the last character.
        """
        if self.is_source:
            return start, end
        if start < end:
            return self.starts[start], self.ends[end - 1]
        place = self.starts[start] if start < len(self.text) else len(self.source)
        return place, place

    def source_spans(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Return spans of the folded text as spans of the source."""
        if self.is_source:
            return tuple(spans)
        return tuple(Span(*self.source_place(span.start, span.end), span.label) for span in spans)

    def folded_spans(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Return spans of the source as spans of the folded text, cut to whole characters.

        A span without any visible character is left out.
        """
        if self.is_source:
            return tuple(spans)
        places = (
            (bisect_right(self.ends, span.start), bisect_left(self.starts, span.end), span.label)
            for span in spans
        )
        return tuple(Span(*place) for place in places if place[0] < place[1])


def fold_text(text: str) -> FoldedText:
    """Fold a text; a text that needs no folding is returned unchanged, at hardly any cost."""
    if _is_folded(text):
        return FoldedText(text, text)
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for chunk in _CHUNK.finditer(text):  # nothing composes over white space
        for start, end, piece in _fold_pieces(text, *chunk.span()):
            pieces.append(piece)
            if text.startswith(piece, start) and len(piece) == end - start:
                starts.extend(range(start, end))
                ends.extend(range(start + 1, end + 1))
            else:
                starts.extend([start] * len(piece))
                ends.extend([end] * len(piece))
    return FoldedText(text, "".join(pieces), starts, ends)


def fold_document(document: TaggedDocument) -> TaggedDocument:
    """Return a note with its text and spans folded, so that a tagger can learn from it."""
    folded = fold_text(document.text)
    if folded.is_source:
        return document
    return TaggedDocument(document.doc_id, folded.text, patient_id=document.patient_id).with_spans(
        folded.folded_spans(document.spans), unaligned=document.unaligned
    )


def with_text(document: TaggedDocument, text: str) -> TaggedDocument | None:
    """Return a note with its spans moved to another spelling of its text.

    The spelling may be composed differently and have other invisible characters. The result is
    None if the folded texts differ.
    """
    if document.text == text:
        return document
    old, new = fold_text(document.text), fold_text(text)
    if old.text != new.text:
        return None
    spans = new.source_spans(old.folded_spans(document.spans))
    moved = TaggedDocument(document.doc_id, text, patient_id=document.patient_id)
    return moved.with_spans(spans, unaligned=document.unaligned)


def reads_alike(text: str, second_text: str) -> bool:
    """Whether two texts look the same to a reader: equal when folded and split at white space."""
    return text == second_text or _fold_piece(text).split() == _fold_piece(second_text).split()


def _is_folded(text: str) -> bool:
    if text.isascii():
        return True
    if not unicodedata.is_normalized("NFC", text):
        return False
    if _UNUSUAL.search(text) is None:
        return True
    return _IGNORABLE.search(text) is None and _VOICED.search(text) is None


def _fold_piece(text: str) -> str:
    visible_text = _VOICED.sub(lambda match: _VOICING[match[0]], _IGNORABLE.sub("", text))
    return unicodedata.normalize("NFC", visible_text)


def _fold_pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, folded form) of the pieces of a stretch; each piece is folded by itself.

    Invisible characters at the end of a piece are left out, except variation selectors.
    """
    if _is_folded(stretch := text[start:end]):
        yield start, end, stretch
        return
    for match in _compile_clusters().finditer(text, start, end):
        places = [match.span()]
        if match["alone"] and not unicodedata.is_normalized("NFC", match[0]):
            places = [(place, place + 1) for place in range(*match.span())]
        for first, last in places:
            if piece := _fold_piece(text[first:last]):
                hidden = _IGNORABLE.match(text, first, last)
                visible_part = _HIDDEN_END.sub("", text[first:last])
                yield hidden.end() if hidden else first, first + len(visible_part), piece


@cache
def build_mark_class() -> str:
    """Return the members of a regex character class for combining marks."""
    is_mark = [unicodedata.category(chr(code))[0] == "M" for code in range(0x20000)]
    borders = [code for code in range(1, 0x20000) if is_mark[code] != is_mark[code - 1]]
    return "".join(
        f"{chr(first)}-{chr(last - 1)}"
        for first, last in zip(borders[::2], borders[1::2], strict=False)
    )


@cache
def _compile_clusters() -> re.Pattern[str]:
    """Return a pattern for a character and the characters after it that fold together with it.

    These are invisible characters, marks, vowels and finals of Korean syllables, and voicing marks
    of kana. The group `alone` matches as many characters at once as none of these follows.
    """
    joined = (
        f"{build_mark_class()}{_HIDDEN}{_VARIATIONS}\u1160-\u11ff\ud7b0-\ud7ff{''.join(_VOICING)}"
    )
    return re.compile(f"(?P<alone>[^{joined}]+(?![{joined}]))|.[{joined}]*", re.DOTALL)
