"""Copies of tagged notes as a careless model would write them, and Japanese notes to copy."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audit.notes.spans import JAPANESE, Span, TaggedDocument, tagged

NAMES = ["足立志保", "山田太郎", "佐々木", "高橋ゆみ子", "ﾔﾏﾀﾞ ﾊﾅｺ", "斉藤", "Ｋ．Ｍ．", "田中一"]
VALUES = {
    "identifier": NAMES,
    "quasi_identifier": [
        "７０歳",
        "2021年3月4日",
        "令和３年５月",
        "東京都文京区本郷７丁目",
        "男性",
    ],
    "linkage_code": ["12345678", "ID-00921", "Ａ１２３"],
    "contact": ["03-5841-1111", "０９０－１２３４－５６７８"],
    "personal_id_code": ["123456789018", "06139999"],
}
TEMPLATES = {
    "identifier": ["氏名:{}", "主治医の{}医師より紹介．", "{}さんは来院した．"],
    "quasi_identifier": ["{}に入院となった．", "患者は{}である．"],
    "linkage_code": ["カルテ番号：{}", "（ID {}）"],
    "contact": ["電話 {}", "連絡先は{}とのこと．"],
    "personal_id_code": ["保険者番号 {}"],
}


def note_with_names(text: str, *, doc_id: str, rng: random.Random) -> TaggedDocument:
    """Put a line with personal information before every few sentences of a note."""
    out, spans, n = "", [], 0
    for sentence in re.findall(r"[^．。\n]*[．。\n]?", text):
        if rng.random() < 0.4:
            label = rng.choice(list(VALUES))
            before, after = rng.choice(TEMPLATES[label]).split("{}")
            value = rng.choice(VALUES[label])
            n = len(out) + len(before)
            spans.append(Span(n, n + len(value), label))
            out += before + value + after + rng.choice(["\n", " ", ""])
        out += sentence
    return tagged(doc_id, text=out, spans=spans)


Piece = tuple[str, str | None]  # text, and its label if it is a span
"""A tagged note as a list of pieces, so that text can be changed and tags kept."""


def pieces_of(document: TaggedDocument) -> list[Piece]:
    pieces, at = [], 0
    for span in document.spans:
        pieces.append((document.text[at : span.start], None))
        pieces.append((document.text[span.start : span.end], span.label))
        at = span.end
    return [*pieces, (document.text[at:], None)]


def joined(pieces: Sequence[Piece]) -> str:
    return "".join(
        f"<{JAPANESE[label]}>{text}</{JAPANESE[label]}>" if label else text
        for text, label in pieces
    )


@dataclass(frozen=True)
class Copied:
    """An output, and which spans of the note are in it."""

    output: str
    kept: tuple[Span, ...]


Perturb = Callable[[TaggedDocument, random.Random], Copied]


def _all(document: TaggedDocument, pieces: Sequence[Piece]) -> Copied:
    kept = [s for s, (text, _) in zip(document.spans, pieces[1::2], strict=True) if text.strip()]
    return Copied(joined(pieces), tuple(kept))


def unchanged(document: TaggedDocument, rng: random.Random) -> Copied:
    return _all(document, pieces_of(document))


def normalised(document: TaggedDocument, rng: random.Random) -> Copied:
    pieces = [(unicodedata.normalize("NFKC", text), label) for text, label in pieces_of(document)]
    return _all(document, pieces)


def space_folded(document: TaggedDocument, rng: random.Random) -> Copied:
    return _all(document, [(re.sub(r"\s+", " ", t), label) for t, label in pieces_of(document)])


def edited(document: TaggedDocument, rng: random.Random, *, share: float = 0.02) -> Copied:
    def change(text: str) -> str:
        out = []
        for char in text:
            if rng.random() >= share:
                out.append(char)
                continue
            other = rng.choice(document.text)
            out.append(rng.choice(["", other, char + other]))
        return "".join(out)

    return _all(document, [(change(text), label) for text, label in pieces_of(document)])


def _sentences(document: TaggedDocument) -> list[list[tuple[str, str | None, Span | None]]]:
    """Pieces in groups that end where a sentence ends outside a span."""
    groups: list[list[tuple[str, str | None, Span | None]]] = [[]]
    spans = iter(document.spans)
    for text, label in pieces_of(document):
        if label:
            groups[-1].append((text, label, next(spans)))
            continue
        for part in re.findall(r"[^．。\n]*[．。\n]|[^．。\n]+", text):
            groups[-1].append((part, None, None))
            if part[-1] in "．。\n":
                groups.append([])
    return [group for group in groups if group]


def _from_groups(groups) -> Copied:
    flat = [piece for group in groups for piece in group]
    kept = tuple(sorted({span for _, _, span in flat if span is not None}))
    return Copied(joined([(text, label) for text, label, _ in flat]), kept)


def dropped(document: TaggedDocument, rng: random.Random) -> Copied:
    groups = [group for group in _sentences(document) if rng.random() >= 0.15]
    return _from_groups(groups)


def repeated(document: TaggedDocument, rng: random.Random) -> Copied:
    groups = []
    for group in _sentences(document):
        groups += [group] * (2 if rng.random() < 0.1 else 1)
    return _from_groups(groups)


def with_preamble(document: TaggedDocument, rng: random.Random) -> Copied:
    copied = unchanged(document, rng)
    return Copied("以下に個人識別情報を抽出した結果を示します。\n" + copied.output, copied.kept)


PERTURBATIONS: dict[str, Perturb] = {
    "none": unchanged,
    "nfkc": normalised,
    "space folded": space_folded,
    "2 % edits": edited,
    "15 % of sentences dropped": dropped,
    "10 % of segments repeated": repeated,
    "preamble": with_preamble,
}
