"""Check that a tokenizer keeps the capitals and accents with which its vocabulary was made.

A cased model whose tokenizer folds capitals reads every name as other pieces, and an audit of it
finds nothing. The fault is invisible from outside: the files load, and the numbers look sound.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal

from pydantic import JsonValue

from audit.errors import AuditError, Message
from audit.models.character_map import CharacterMap, decode_character_map

_MOST_LOST = 0.01
"""Maximum share of the vocabulary that no text can ever produce."""
_FEWEST_WITH_CAPITALS = 0.01
"""If a smaller share of the tokens with letters has a capital, the vocabulary is uncased."""
_FEWEST_WITH_LETTERS = 100
"""With fewer tokens with letters, a vocabulary does not show whether it is cased."""
_SPECIAL = re.compile(r"\[[^\[\]\s]{2,}\]|<[^<>\s]+>")
_INSIDE_A_WORD = "##"
_SPACE_MARK = "▁"
_SPACES_AS_BYTES = "ĠĊĉ"
_LETTERS = re.compile("[A-Za-z\u00c0-\u058f]")  # of scripts in which words begin with a capital
_UNICODE_FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")

Normalizer = Mapping[str, JsonValue] | None
"""A normalizer in the form of tokenizer.json."""
Settings = Mapping[str, JsonValue]


def build_bert_normalizer(settings: Settings) -> Normalizer:
    """Return the normalizer with which transformers builds the tokenizer of a BERT."""
    return {
        "type": "BertNormalizer",
        "lowercase": settings.get("do_lower_case", True),
        "strip_accents": settings.get("strip_accents"),
    }


def build_japanese_normalizer(settings: Settings) -> Normalizer:
    """Return the processing of the tokenizer of a Japanese BERT in the form of a normalizer."""
    is_lower_case = bool(settings.get("do_lower_case", False))
    if not settings.get("do_word_tokenize", True):
        return None
    if settings.get("word_tokenizer_type", "basic") == "basic":
        return {"type": "BertNormalizer", "lowercase": is_lower_case}
    return {"type": "Lowercase"} if is_lower_case else None


def refuse_unfit_case(
    vocabulary: Collection[str],
    normalizer: Normalizer,
    *,
    special: Collection[str],
    is_byte_level: bool,
    make_normalizer: Callable[[Settings], Normalizer] | None,
    settings: Settings,
    place: str,
) -> None:
    """Refuse a tokenizer that folds capitals of its vocabulary, or keeps capitals that it lacks.

    `special` tokens, and tokens in brackets, are ignored. `make_normalizer` builds the normalizer
    from the settings in tokenizer_config.json; it is None if tokenizer.json has the normalizer.
    """
    tokens = [*_strip_tokens(vocabulary, special=special, is_byte_level=is_byte_level)]
    refusal = _explain_misfit(tokens, normalizer)
    if refusal is None:
        return
    if make_normalizer is None:
        is_cased = _explain_misfit(tokens, None) is None
        raise AuditError(
            refusal,
            where=place,
            do='The normalizer in tokenizer.json decides: choose between "lowercase": false (a '
            'cased model) and "lowercase": true (an uncased one). This vocabulary fits {fitting}.',
            fitting="false" if is_cased else "true",
        )
    options: list[dict[str, bool | None]] = [
        {"do_lower_case": False},
        {"do_lower_case": True},
        {"do_lower_case": True, "strip_accents": False},
    ]
    fitting = next(
        (option for option in options if _explain_misfit(tokens, make_normalizer(option)) is None),
        {"do_lower_case": not _folds_case(normalizer)},
    )
    if settings.get("strip_accents") is not None:
        fitting = {"strip_accents": None, **fitting}
    raise AuditError(
        refusal,
        where=place,
        do='Choose in tokenizer_config.json between "do_lower_case": false (a cased model) and '
        '"do_lower_case": true (an uncased one); where it says nothing, {usual} is taken. This '
        "vocabulary fits {fitting}.",
        usual=json.dumps(_folds_case(make_normalizer({}))),
        fitting=json.dumps(fitting, sort_keys=True)[1:-1],
    )


def _strip_tokens(
    vocabulary: Collection[str], *, special: Collection[str], is_byte_level: bool
) -> Iterator[str]:
    """Yield the tokens that stand for text, without the marks for the start or inside of a word."""
    outside = frozenset(special)
    for token in vocabulary:
        if token in outside or _SPECIAL.fullmatch(token) or "\n" in token:
            continue
        if not is_byte_level:
            yield token.removeprefix(_INSIDE_A_WORD).lstrip(_SPACE_MARK)
        # Beyond ASCII a byte-level token is written in other characters than its text.
        elif (text := token.lstrip(_SPACES_AS_BYTES)).isascii() and len(text) > 1:
            yield text


def _explain_misfit(tokens: Sequence[str], normalizer: Normalizer) -> Message | None:
    """Return the reason why a normalizer does not fit a vocabulary; None if it fits."""
    text = "\n".join(tokens)
    folded, plain = (
        _fold(text, normalizer).split("\n"),
        _apply_unicode_forms(text, normalizer).split("\n"),
    )
    n_lost = sum(
        folded_token != plain_token for folded_token, plain_token in zip(folded, plain, strict=True)
    )
    if n_lost > _MOST_LOST * len(tokens):
        return Message(
            "The tokenizer folds capitals or accents away, and {n:,} of the {n_all:,} tokens of "
            "its vocabulary hold some: no text would ever be read as one of them.",
            n=n_lost,
            n_all=len(tokens),
        )
    words = [token for token in tokens if len(token) > 1 and _LETTERS.search(token)]
    n_capitals = sum(token != token.lower() for token in words)
    is_uncased = n_capitals < _FEWEST_WITH_CAPITALS * len(words)
    if len(words) >= _FEWEST_WITH_LETTERS and is_uncased and not _folds_case(normalizer):
        return Message(
            "The tokenizer leaves capitals as they are, and only {n:,} of the {n_all:,} tokens "
            "with letters in its vocabulary hold one: names would be read as something else.",
            n=n_capitals,
            n_all=len(words),
        )
    return None


def _list_components(normalizer: Normalizer) -> Iterator[Mapping[str, JsonValue]]:
    """Yield the components of a normalizer, in their order."""
    if normalizer is not None and normalizer.get("type") == "Sequence":
        parts = normalizer.get("normalizers")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield from _list_components(part)
    elif normalizer is not None:
        yield normalizer


def _folds_case(normalizer: Normalizer) -> bool:
    return any(
        part["type"] == "Lowercase"
        or (part["type"] == "BertNormalizer" and part.get("lowercase"))
        or (part["type"] == "Precompiled" and _read_map(part).replace("A") == "a")
        for part in _list_components(normalizer)
    )


def _apply_unicode_forms(text: str, normalizer: Normalizer) -> str:
    """Return a text in the Unicode forms of a normalizer, without changing its letters."""
    for part in _list_components(normalizer):
        text = _apply_unicode_form(text, part["type"])
        if part["type"] == "Precompiled":
            # SentencePiece's maps are compatibility forms, some of them with folding.
            lines = zip(text.split("\n"), _map_lines(text, part), strict=True)
            text = "\n".join(
                line if line == mapped else unicodedata.normalize("NFKC", line)
                for line, mapped in lines
            )
    return text


def _apply_unicode_form(text: str, kind: JsonValue) -> str:
    """Return a text in a Unicode form; unchanged if a component has another kind."""
    form = next((form for form in _UNICODE_FORMS if form == kind), None)
    return unicodedata.normalize(form, text) if form else text


def _read_map(part: Mapping[str, JsonValue]) -> CharacterMap:
    return decode_character_map(part.get("precompiled_charsmap"))


def _map_lines(text: str, part: Mapping[str, JsonValue]) -> list[str]:
    """Return the lines of a text after a map of characters, which would join them."""
    return _read_map(part).replace(text, besides="\n").split("\n")


def _fold(text: str, normalizer: Normalizer) -> str:
    """Fold the capitals and accents of a text as a normalizer does; lines are kept."""
    for part in _list_components(normalizer):
        kind = part["type"]
        is_bert, is_lower = kind == "BertNormalizer", bool(part.get("lowercase"))
        strips = part.get("strip_accents")
        text = _apply_unicode_form(text, kind)
        if kind == "Precompiled":
            text = "\n".join(_map_lines(text, part))
        if kind == "StripAccents":
            text = text.translate(_list_marks(("Mn", "Mc", "Me")))
        if is_bert and (is_lower if strips is None else strips):
            text = unicodedata.normalize("NFD", text).translate(_list_marks(("Mn",)))
        if kind == "Lowercase" or (is_bert and is_lower):
            text = text.lower()
    return text


@cache
def _list_marks(categories: tuple[str, ...]) -> Mapping[int, None]:
    """Return a table for `str.translate` that deletes the combining marks of some categories."""
    codes = range(0x110000)
    return {code: None for code in codes if unicodedata.category(chr(code)) in categories}
