"""Synthetic clinical notes with gold spans, Japanese and English, from grammars of this project.

Comes in: how many, a seed, a language, styles. Goes out: documents of which every span is known.
Labels are the five types of `audit.notes.spans`, with the borders that `deid build` has: a title
(さん, 様, 先生, Dr.) is outside, 歳 and 男性 are inside, 〒 is outside, a hospital is one span,
a day with its year is one span. A department (内科) is none, a ward or room with a number is.
The kinds of values are the slots of the two casts in `people.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.notes.spans import CONTACT, Span, TaggedDocument, build_document
from benchmarks.synthetic.grammar import Dice, Piece, Writer, grammar
from benchmarks.synthetic.people import WIDE, EnglishCast, JapaneseCast, patient_facts

_STOPS = (
    *("", "", "", "", "、，", "、，。．", "、，。．", "、,。.", "、 ", "。\n"),
    *("：:", "：:（(）)", "：:（(）)　 ", "　 ", "：＝", "：　"),
)
_WIDE_SHARE, _WIDE_LETTERS_SHARE, _SLIPS_SHARE = 0.16, 0.08, 0.12
_WIDE_DIGITS = {code: wide for code, wide in WIDE.items() if chr(code).isdigit()}
_LOST = 0.15
_SLIPS = 0.006
_SMALL, _CAPITALS = 8, 5
_LIKE = str.maketrans("ーロカ二一間問術述大太氏民者著科料", "一口力ニー問間述術太大民氏著者料科")


def surfaced(
    pieces: list[Piece], *, dice: Dice, is_japanese: bool, is_wide: bool = False
) -> tuple[str, list[Span]]:
    """Return the text of a note in one hospital's ways, and its spans.

    Some wide English notes are all in small letters, or all in capitals.
    """
    table = _table(dice) if is_japanese else {}
    wide: dict[int, int] = {}
    if is_japanese and dice.chance(_WIDE_SHARE):
        wide = WIDE if dice.chance(_WIDE_LETTERS_SHARE / _WIDE_SHARE) else _WIDE_DIGITS
    slips = _SLIPS if dice.chance(_SLIPS_SHARE) else 0.0
    is_dense = dice.chance(_LOST)
    text, spans = "", list[Span]()
    for piece in pieces:
        words = piece.text
        if not piece.label:
            words = words.translate(table)
            if is_dense:
                words = words.replace(" ", "") if is_japanese else words.replace("  ", " ")
            if slips:
                words = _slipped(words, dice=dice, share=slips, is_japanese=is_japanese)
        if wide and not (piece.label == CONTACT and "example" in words):
            words = words.translate(wide)
        if piece.label and words:
            spans.append(Span(len(text), len(text) + len(words), piece.label))
        text += words
    return (_cased(text, dice=dice) if is_wide and not is_japanese else text), spans


def _cased(text: str, *, dice: Dice) -> str:
    share = dice.between(0, 99)
    changed = text.lower() if share < _SMALL else text.upper()
    # A letter may become two in the other case: spans would no longer stand where they do.
    return changed if share < _SMALL + _CAPITALS and len(changed) == len(text) else text


def _table(dice: Dice) -> dict[int, str]:
    signs = dice.pick(_STOPS)
    if signs == "。\n":
        return {ord("。"): "。\n"}
    return {ord(old): new for old, new in zip(signs[::2], signs[1::2], strict=True)}


def _slipped(words: str, *, dice: Dice, share: float, is_japanese: bool) -> str:
    if not words.strip() or not dice.chance(min(1.0, share * len(words))):
        return words
    place = dice.between(0, len(words) - 1)
    left_words, word, right_words = words[:place], words[place], words[place + 1 :]
    if word in "\n{}" or word.isdigit():
        return words
    kind = dice.between(0, 3)
    if kind == 0:
        return left_words + right_words
    if kind == 1 and right_words and right_words[0] != "\n":
        return left_words + right_words[0] + word + right_words[1:]
    if kind == 2 and is_japanese:
        return left_words + word.translate(_LIKE) + right_words
    return left_words + word + word + right_words


_STYLE, _HELD_OUT = "style.", "held_out."
LANGUAGES = ("ja", "en")
_CASTS: dict[str, type[JapaneseCast | EnglishCast]] = {"ja": JapaneseCast, "en": EnglishCast}
_MORE_NOTES = (1, 1, 1, 1, 1, 1, 1, 2, 2, 3)


def styles_of(language: str) -> tuple[str, ...]:
    """Return all styles of a language, those for training first."""
    if language not in LANGUAGES:
        raise ValueError(f"{language}: no notes in this language")
    return TRAIN_STYLES[language] + HELD_OUT_STYLES[language]


def _named(prefix: str) -> dict[str, tuple[str, ...]]:
    return {
        language: tuple(
            sorted(
                name.removeprefix(prefix) for name in grammar(language) if name.startswith(prefix)
            )
        )
        for language in LANGUAGES
    }


TRAIN_STYLES = _named(_STYLE)
"""By language: the styles that the default tagger is trained on."""

HELD_OUT_STYLES = _named(_HELD_OUT)
"""By language: styles in other words and layouts, of other patients, for measuring."""


def synthetic_notes(
    n: int, *, seed: int, language: str = "ja", styles: Sequence[str] | None = None
) -> Iterator[TaggedDocument]:
    """Yield so many notes, the same for the same seed; some patients have two or three.

    Parameters
    ----------
    styles
        Some of `styles_of(language)`; those for training by default.
    """
    style_names = styles_of(language)
    chosen = TRAIN_STYLES[language] if styles is None else tuple(styles)
    if not chosen or not set(chosen) <= set(style_names):
        raise ValueError("there is no such style of notes")
    place = patient = 0
    while place < n:
        dice = Dice(seed, "synthetic notes of a patient", language, str(patient))
        for _ in range(min(dice.pick(_MORE_NOTES), n - place)):
            style = dice.pick(chosen)
            yield _note(style, patient, place=place, seed=seed, language=language)
            place += 1
        patient += 1


def _note(style: str, patient: int, *, place: int, seed: int, language: str) -> TaggedDocument:
    # Held-out styles have people of their own.
    group = "held out" if style in HELD_OUT_STYLES[language] else "train"
    key = f"{language}/{group}/{patient}"
    note = f"{key}/{place}/{style}"
    dice = Dice(seed, "synthetic note", note)
    is_wide = group == "train"
    facts = patient_facts(seed, key, language=language, is_wide=is_wide)
    cast = _CASTS[language](facts, seed=seed, note=note)
    joiner = " " if language == "en" else ""
    writer = Writer(
        grammar(language), dice=dice, value_of=cast.value, field=cast.field, joiner=joiner
    )
    writer.write((_HELD_OUT if group == "held out" else _STYLE) + style)
    text, spans = surfaced(writer.pieces, dice=dice, is_japanese=language == "ja", is_wide=is_wide)
    return build_document(
        f"{style}-{place:06d}", text=text, spans=spans, patient_id=f"{group[0]}{patient:06d}"
    )
