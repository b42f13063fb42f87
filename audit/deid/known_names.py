"""Names that a tagger found once with certainty are found again in all notes of the patient.

Comes in: a note with a tagger's spans, and what is known of its patient by a register. Goes out:
spans that leave no known string readable, and the names that a note tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from audit.deid.borders import with_whole_words
from audit.deid.tagger import Tags
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
from audit.notes.spans import FIVE_TYPES, IDENTIFIER, QUASI_IDENTIFIER, RISK_ORDER, Span
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


def with_known(spans: Tags, found: Iterable[Span]) -> Tags:
    """Return a tagger's spans and those of what is known; what shares characters becomes one.

    A span that is joined has the label that identifies most.
    """
    ranks = {label: rank for rank, label in enumerate(RISK_ORDER)}
    joined: list[Span] = []
    for span in sorted((*spans, *found)):
        if not joined or span.start >= joined[-1].end:
            joined.append(span)
            continue
        last = joined[-1]
        label = min(last.label, span.label, key=lambda one: ranks.get(one, len(ranks)))
        joined[-1] = Span(last.start, max(last.end, span.end), label)
    return tuple(joined)


def found_again(text: str, spans: Tags, *packs: str) -> Tags:
    """Return the spans of a note with all that is known of its patient, in whole words.

    A placeholder of MIMIC (`[**Hospital1 18**]`) stays whole, or is replaced as a whole.
    """
    spans = outside_placeholders(text, spans)
    folded = fold_text(text)
    occurrences = build_patient_finder(*packs).find(SearchedText(folded.text)) if any(packs) else ()
    known_spans = (
        Span(occurrence.start, occurrence.stop, occurrence.label)
        for occurrence in occurrences
        if not occurrence.is_doubtful
    )
    own = folded.folded_spans(spans)
    whole = with_whole_words(folded.text, with_known(own, known_spans))
    # What a tagger found stays as it was where nothing is added to it.
    found = with_known(spans, folded.source_spans(whole))
    return _with_whole_placeholders(found, find_placeholders(text).places)


def outside_placeholders(text: str, spans: Tags) -> Tags:
    """Return a tagger's spans without what they share with placeholders of MIMIC.

    A placeholder whose category is not known may hold anything: a span in it covers all of it.
    """
    places = find_placeholders(text).places
    if not places:
        return spans
    known = [place for place in places if place.kind != "unknown"]
    cut = (part for span in spans for part in _cut(text, span, known))
    return _with_whole_placeholders(tuple(cut), places)


def _cut(text: str, span: Span, places: Iterable[Placeholder]) -> Iterator[Span]:
    """Yield what is left of a span outside of places, where a letter or digit is left."""
    start = span.start
    ends = [(place.start, place.stop) for place in places if place.start < span.end]
    for left, right in (*ends, (span.end, span.end)):
        if right <= start:
            continue
        if any(map(str.isalnum, text[start:left])):
            yield Span(start, left, span.label)
        start = max(start, right)


def _with_whole_placeholders(spans: Tags, places: Sequence[Placeholder]) -> Tags:
    """Return spans that cover each placeholder that they touch from end to end."""
    touched = (
        Span(place.start, place.stop, span.label)
        for place in places
        for span in spans
        if span.start < place.stop and place.start < span.end
    )
    return with_known(spans, touched) if places else spans


def names_in(text: str, spans: Iterable[Span]) -> str:
    """Return, packed, the names among a tagger's spans that are certain.

    These are full names, and parts of names behind a title or a cue.
    """
    shown = fold_text(text)
    folded = fold_characters(shown.text)
    outside = outside_placeholders(text, tuple(spans))
    return pack_pieces(
        piece for span in shown.folded_spans(outside) for piece in _certain(folded, span)
    )


def _certain(folded: str, span: Span) -> Iterator[Piece]:
    label = FIVE_TYPES.map_label(span.label) or span.label
    if label not in (IDENTIFIER, QUASI_IDENTIFIER):
        return
    name, before = (
        folded[span.start : span.end],
        folded[max(0, span.start - _N_BEFORE) : span.start],
    )
    is_cued = bool(
        PATTERNS["TITLE"].search(before)
        or _CUE.search(before)
        or PATTERNS["HONORIFIC"].match(folded, span.end)
        or re.search(f"{PARTS['HONORIFIC']}$", name)
    )
    reader = _read_unspaced if is_unspaced(name) else _read_spaced
    yield from reader(name.strip(), is_full=label == IDENTIFIER, is_cued=is_cued)


def _read_spaced(name: str, *, is_full: bool, is_cued: bool) -> Iterator[Piece]:
    """Yield the parts of a name in Latin letters; of what may be no name it as a whole."""
    if re.search(r"[^\w\s.,'’`-]|[\d_\n]", name) or len(name) > 60:
        return
    words = [one for one in re.findall(r"[^\s,]+|,", name) if fold(one).strip(".") not in _TITLES]
    bare = [fold(word).strip(".") for word in words if word != ","]
    names = [one for one in bare if one not in SELDOM and one not in PARTICLES and len(one) > 1]
    if not names or not all(
        word == "," or word[0].isupper() or one in PARTICLES
        for word, one in zip(words, [fold(w) for w in words], strict=True)
    ):
        return
    if len(bare) == 1:
        if is_cued:
            yield Piece(LAST, words[0])
        return
    if not is_full:
        return
    first, last = split_name(" ".join(words).replace(" ,", ","))
    given, *middle = first.split() or [""]
    while middle and fold(middle[-1]) in PARTICLES:
        last = f"{middle.pop()} {last}"
    is_listed = not english_names().isdisjoint(one.capitalize() for one in bare)
    is_word = any(len(one) > 1 and one in NO_NAMES | GENERIC for one in bare[1:-1])
    if (is_cued or is_listed) and not is_word:
        yield from make_name_pieces(given, last, middle=" ".join(middle), is_sure=is_cued)
    else:
        yield Piece(FULL, " ".join(words).replace(",", ""), False)


def _read_unspaced(name: str, *, is_full: bool, is_cued: bool) -> Iterator[Piece]:
    """Yield the parts of a name in Han or kana; of what may be no name it as a whole."""
    name = re.sub(f"{PARTS['HONORIFIC']}$", "", name)
    is_name = re.fullmatch(rf"[{PARTS['HAN']}{KATA}{HIRA}ｦ-ﾟ]+(?:[ ・=][^\s・=]+)?", name)
    if not is_name or len(name) > 16 or JAPANESE_NO_NAME.search(name):
        return
    is_split = bool(re.search("[ ・=]", name))
    given, surname = split_japanese_name(name) if is_full or is_split else ("", name)
    if not is_full:
        if is_cued and len(name) > 1 and not _NO_NAME_BEFORE_TITLE.fullmatch(name):
            yield Piece(LAST, surname, False)
    elif given and surname and (is_split or surname in JAPANESE_SURNAMES):
        yield from make_name_pieces(given, surname, is_sure=False)
    elif is_cued or not IN_KANA.fullmatch(name):
        yield Piece(FULL, name, False)
