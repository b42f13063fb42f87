"""Known names: a name that is certain in one note is found in all notes of the patient.

Comes in: a note with a tagger's spans, and the patient's entry in a register. Goes out: spans that
cover every known string, and the names that are certain in a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from audit.deid.find.borders import extend_to_words
from audit.names.matching import fold
from audit.names.pools import english_names
from audit.notes.folding import fold_text
from audit.notes.mention_words import (
    GENERIC,
    JAPANESE_NO_NAME,
    JAPANESE_SURNAMES,
    NO_NAMES,
    WORDS,
)
from audit.notes.mentions_ja import split_japanese_name
from audit.notes.patterns import HIRA, KATA, fold_characters, read_pattern_table
from audit.notes.placeholders import Placeholder, find_placeholders
from audit.notes.spans import FIVE_TYPES, IDENTIFIER, QUASI_IDENTIFIER, RISK_ORDER, Span, Tags
from audit.patients.finder import (
    FULL,
    IN_KANA,
    LAST,
    PARTICLES,
    PARTS,
    PATTERNS,
    SELDOM,
    Piece,
    SearchedText,
    build_patient_finder,
    make_name_pieces,
    pack_pieces,
)
from audit.text import is_unspaced, split_name

_OWN_PARTS, _ = read_pattern_table(__file__)
_CUE, _NO_NAME_BEFORE_TITLE = (
    re.compile(_OWN_PARTS[name]) for name in ("CUE", "NO_NAME_BEFORE_TITLE")
)
_TITLES = WORDS["titles"] | WORDS["suffixes"]
_N_BEFORE = 24


def join_spans(spans: Tags, known_spans: Iterable[Span]) -> Tags:
    """Return a tagger's spans and those of known names; spans that share characters are joined.

    A joined span has the label that identifies a person most.
    """
    ranks = {label: rank for rank, label in enumerate(RISK_ORDER)}
    joined: list[Span] = []
    for span in sorted((*spans, *known_spans)):
        if not joined or span.start >= joined[-1].end:
            joined.append(span)
            continue
        last = joined[-1]
        label = min(last.label, span.label, key=lambda candidate: ranks.get(candidate, len(ranks)))
        joined[-1] = Span(last.start, max(last.end, span.end), label)
    return tuple(joined)


def add_known_names(text: str, spans: Tags, *packs: str) -> Tags:
    """Return the spans of a note and those of its patient's known names, in whole words.

    `packs` are names that `pack_pieces` packed. A MIMIC placeholder (`[**Hospital1 18**]`) is
    covered whole or not at all.
    """
    spans = cut_out_placeholders(text, spans)
    folded = fold_text(text)
    occurrences = build_patient_finder(*packs).find(SearchedText(folded.text)) if any(packs) else ()
    known_spans = (
        Span(occurrence.start, occurrence.stop, occurrence.label)
        for occurrence in occurrences
        if not occurrence.is_doubtful
    )
    tagger_spans = folded.folded_spans(spans)
    word_spans = extend_to_words(folded.text, join_spans(tagger_spans, known_spans))
    # A tagger's span stays as it was where nothing is added to it.
    joined_spans = join_spans(spans, folded.source_spans(word_spans))
    return _cover_placeholders(joined_spans, find_placeholders(text).places)


def cut_out_placeholders(text: str, spans: Tags) -> Tags:
    """Return a tagger's spans without the characters that they share with MIMIC placeholders.

    A placeholder of an unknown category may hold anything: a span in it is extended to all of it.
    """
    placeholders = find_placeholders(text).places
    if not placeholders:
        return spans
    known_placeholders = [
        placeholder for placeholder in placeholders if placeholder.kind != "unknown"
    ]
    span_parts = (part for span in spans for part in _cut_span(text, span, known_placeholders))
    return _cover_placeholders(tuple(span_parts), placeholders)


def _cut_span(text: str, span: Span, placeholders: Iterable[Placeholder]) -> Iterator[Span]:
    """Yield the parts of a span outside the placeholders that hold a letter or digit."""
    start = span.start
    ends = [
        (placeholder.start, placeholder.stop)
        for placeholder in placeholders
        if placeholder.start < span.end
    ]
    for left, right in (*ends, (span.end, span.end)):
        if right <= start:
            continue
        if any(map(str.isalnum, text[start:left])):
            yield Span(start, left, span.label)
        start = max(start, right)


def _cover_placeholders(spans: Tags, placeholders: Sequence[Placeholder]) -> Tags:
    """Return spans that cover from end to end every placeholder that they touch."""
    touched = (
        Span(placeholder.start, placeholder.stop, span.label)
        for placeholder in placeholders
        for span in spans
        if span.start < placeholder.stop and placeholder.start < span.end
    )
    return join_spans(spans, touched) if placeholders else spans


def read_certain_names(text: str, spans: Iterable[Span]) -> str:
    """Return the certain names among a tagger's spans, packed.

    Full names are certain, and parts of names behind a title or a cue.
    """
    folded = fold_text(text)
    search_text = fold_characters(folded.text)
    outer_spans = cut_out_placeholders(text, tuple(spans))
    return pack_pieces(
        piece
        for span in folded.folded_spans(outer_spans)
        for piece in _find_certain_pieces(search_text, span)
    )


def _find_certain_pieces(folded: str, span: Span) -> Iterator[Piece]:
    label = FIVE_TYPES.map_label(span.label) or span.label
    if label not in (IDENTIFIER, QUASI_IDENTIFIER):
        return
    name, text_before = (
        folded[span.start : span.end],
        folded[max(0, span.start - _N_BEFORE) : span.start],
    )
    is_cued = bool(
        PATTERNS["TITLE"].search(text_before)
        or _CUE.search(text_before)
        or PATTERNS["HONORIFIC"].match(folded, span.end)
        or re.search(f"{PARTS['HONORIFIC']}$", name)
    )
    reader = _read_unspaced if is_unspaced(name) else _read_spaced
    yield from reader(name.strip(), is_full=label == IDENTIFIER, is_cued=is_cued)


def _read_spaced(name: str, *, is_full: bool, is_cued: bool) -> Iterator[Piece]:
    """Yield the parts of a name in Latin letters, or the name whole if its parts are uncertain."""
    if re.search(r"[^\w\s.,'’`-]|[\d_\n]", name) or len(name) > 60:
        return
    words = [
        word for word in re.findall(r"[^\s,]+|,", name) if fold(word).strip(".") not in _TITLES
    ]
    folded_words = [fold(word).strip(".") for word in words if word != ","]
    names = [
        folded_word
        for folded_word in folded_words
        if folded_word not in SELDOM and folded_word not in PARTICLES and len(folded_word) > 1
    ]
    if not names or not all(
        word == "," or word[0].isupper() or folded_word in PARTICLES
        for word, folded_word in zip(words, [fold(w) for w in words], strict=True)
    ):
        return
    if len(folded_words) == 1:
        if is_cued:
            yield Piece(LAST, words[0])
        return
    if not is_full:
        return
    first, last = split_name(" ".join(words).replace(" ,", ","))
    given_name, *middle = first.split() or [""]
    while middle and fold(middle[-1]) in PARTICLES:
        last = f"{middle.pop()} {last}"
    is_listed = not english_names().isdisjoint(word.capitalize() for word in folded_words)
    is_word = any(len(word) > 1 and word in NO_NAMES | GENERIC for word in folded_words[1:-1])
    if (is_cued or is_listed) and not is_word:
        yield from make_name_pieces(given_name, last, middle=" ".join(middle), is_sure=is_cued)
    else:
        yield Piece(FULL, " ".join(words).replace(",", ""), False)


def _read_unspaced(name: str, *, is_full: bool, is_cued: bool) -> Iterator[Piece]:
    """Yield the parts of a name in Han or kana, or the name whole if its parts are uncertain."""
    name = re.sub(f"{PARTS['HONORIFIC']}$", "", name)
    is_name = re.fullmatch(rf"[{PARTS['HAN']}{KATA}{HIRA}ｦ-ﾟ]+(?:[ ・=][^\s・=]+)?", name)
    if not is_name or len(name) > 16 or JAPANESE_NO_NAME.search(name):
        return
    is_split = bool(re.search("[ ・=]", name))
    given_name, surname = split_japanese_name(name) if is_full or is_split else ("", name)
    if not is_full:
        if is_cued and len(name) > 1 and not _NO_NAME_BEFORE_TITLE.fullmatch(name):
            yield Piece(LAST, surname, False)
    elif given_name and surname and (is_split or surname in JAPANESE_SURNAMES):
        yield from make_name_pieces(given_name, surname, is_sure=False)
    elif is_cued or not IN_KANA.fullmatch(name):
        yield Piece(FULL, name, False)
