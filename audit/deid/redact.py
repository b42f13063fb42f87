"""Redaction: the note with its spans replaced. What is released is always source + replacements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from audit.corpora.mention_words import word_set
from audit.deid.documents import Span, TaggedDocument
from audit.deid.labels import RISK_ORDER
from audit.deid.what_stood import Mark, kind_of, mark_of

PLACEHOLDER, SURROGATE, MASK = "placeholder", "surrogate", "mask"
MODES = (PLACEHOLDER, SURROGATE, MASK)
MASK_CHAR = "■"
VERSION = 2  # of what takes a mark's place
FROM_TEXT = "text"
"""The language of placeholders that each note decides itself."""
LANGUAGES = (FROM_TEXT, "ja", "en")

_WORDS = {
    "name": ("氏名", "NAME"), "date": ("日付", "DATE"), "age": ("年齢", "AGE"),
    "sex": ("性別", "SEX"), "place": ("場所", "PLACE"), "id": ("番号", "ID"),
    "contact": ("連絡先", "CONTACT"), "other": ("その他", "OTHER"),
}  # fmt: skip
_ENGLISH = word_set(
    """
    the of and with was is are to in no for on not at has had this that from by she he her his
    patient were be as or
    """
)
_NOT_ENGLISH = word_set(
    """
    der die das und ist mit nicht wurde eine einen dem den bei el la los las del con en que por
    para una le les des est avec pas dans il della di che per non het een van op voor met os com
    não uma og och av till på ett med ikke
    """
)
_KANA = re.compile(r"[ぁ-ゖァ-ヺｦ-ﾟ]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_WORD = re.compile(r"[^\W\d_]+")
_MIN_FOREIGN = 3


def language_of(text: str) -> str:
    """Return "ja" or "en", in which language a note is written; "" where it is in neither.

    Kana or Chinese characters are Japanese; Latin letters are English but for those texts in which
    small words of other languages are more than those of English.
    """
    if _KANA.search(text) or _HAN.search(text):
        return "ja"
    words = [word.casefold() for word in _WORD.findall(text)]
    n_english, n_other = (sum(w in known for w in words) for known in (_ENGLISH, _NOT_ENGLISH))
    n_latin = sum(word[0] < "\u0250" for word in words)
    if 2 * n_latin < len(words) or n_other >= max(_MIN_FOREIGN, n_english + 1):
        return ""
    return "en"


@dataclass(frozen=True)
class MarkedNote:
    """What surrogates are wanted for: the marks of a note, and whose note it is."""

    text: str
    patient: tuple[int, str]
    marks: tuple[Mark, ...]
    language: str


Surrogate = Callable[[MarkedNote], Sequence[str]]
"""Gives the texts that take the places of the marks: of one patient always from the same person."""


@dataclass(frozen=True)
class Replacement:
    """A stretch of the source, `start` to `end`, and what stands in its place.

    `new_start` and `new_end` are offsets in the released text; `labels` are those of all spans that
    were joined here, `label` the one that names it.
    """

    start: int
    end: int
    label: str
    labels: tuple[str, ...]
    text: str
    new_start: int

    @property
    def new_end(self) -> int:
        """Where the replacement ends in the released text."""
        return self.new_start + len(self.text)


@dataclass(frozen=True)
class Redacted:
    """A note as it may be released, and what was replaced in it.

    `n_unchanged` replacements are equal to what they replace: a surrogate that hides nothing.
    `language` is that of the note, as `language_of` says it.
    """

    text: str
    replacements: tuple[Replacement, ...]
    n_unchanged: int
    language: str


def redact(
    document: TaggedDocument,
    *,
    mode: str = PLACEHOLDER,
    surrogate: Surrogate | None = None,
    language: str = FROM_TEXT,
) -> Redacted:
    """Return the note with every character of every span replaced.

    Spans that overlap are replaced as one stretch, named after the longest of them, then by risk.
    `placeholder` puts what stood there in brackets, in the language of the note unless another is
    given, `surrogate` asks the function, `mask` puts a square for each character and keeps line
    ends, so that offsets stay.

    Raises
    ------
    ValueError
        If there is no such mode, or no function for surrogates.
    """
    if mode not in MODES or (mode == SURROGATE) != (surrogate is not None):
        raise ValueError(f"{mode}: no such mode, or it and the surrogate function do not fit")
    text = document.text
    stretches = [
        (spans[0].start, max(span.end for span in spans), min(spans, key=_priority).label, spans)
        for spans in _joined(document.spans)
    ]
    marks = tuple(
        mark_of(text, start=start, end=end, label=label) for start, end, label, _ in stretches
    )
    own = language_of(text)
    words = (own or "en") if language == FROM_TEXT else language
    if surrogate is not None:
        note = MarkedNote(text, document.patient, marks, words)
        new = list(surrogate(note)) if marks else []
    elif mode == MASK:
        new = ["".join(c if c in "\r\n" else MASK_CHAR for c in mark.text) for mark in marks]
    else:
        new = [placeholder(mark, language=words) for mark in marks]
    pieces: list[str] = []
    replacements = []
    at = n_released = 0
    for (start, end, label, spans), value in zip(stretches, new, strict=True):
        pieces += [text[at:start], value]
        n_released += start - at
        labels = tuple(sorted({span.label for span in spans}))
        replacements.append(Replacement(start, end, label, labels, value, n_released))
        n_released += len(value)
        at = end
    pieces.append(text[at:])
    n_unchanged = sum(r.text == text[r.start : r.end] for r in replacements)
    return Redacted("".join(pieces), tuple(replacements), n_unchanged, own)


def placeholder(mark: Mark, *, language: str) -> str:
    """Return what stands for a mark: 【氏名】 or [NAME]; of a label unknown here the label."""
    japanese, english = _WORDS.get(kind_of(mark), (mark.label, mark.label.upper()))
    return f"【{japanese}】" if language == "ja" else f"[{english}]"


def is_placeholder(text: str) -> bool:
    """Whether a replacement is a placeholder, which says itself what stood there."""
    return text[:1] + text[-1:] in ("【】", "[]")


def _joined(spans: Iterable[Span]) -> list[list[Span]]:
    """Return spans in groups that share characters; spans that only touch stay apart."""
    groups: list[list[Span]] = []
    reached = 0
    for span in sorted(spans):
        if groups and span.start < reached:
            groups[-1].append(span)
        else:
            groups.append([span])
        reached = max(reached, span.end)
    return groups


def _priority(span: Span) -> tuple[int, int, int, str]:
    risk = RISK_ORDER.index(span.label) if span.label in RISK_ORDER else len(RISK_ORDER)
    return -span.n_chars, risk, span.start, span.label
