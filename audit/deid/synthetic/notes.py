"""Synthetic clinical notes with gold spans, Japanese and English, from grammars of this project.

Comes in: how many, a seed, a language, styles. Goes out: documents of which every span is known.
Labels are the five types of `audit.deid.labels`, with the borders that `deid build` has: a title
(さん, 様, 先生, Dr.) is outside, 歳 and 男性 are inside, 〒 is outside, a hospital is one span,
a day with its year is one span. A department (内科) is none, a ward or room with a number is.
The values' kinds are the slots of `cast_ja` and `cast_en`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.deid.documents import TaggedDocument, tagged
from audit.deid.synthetic.cast_en import EnglishCast
from audit.deid.synthetic.cast_ja import JapaneseCast
from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.grammar import grammar
from audit.deid.synthetic.patients import patient_facts
from audit.deid.synthetic.surface import surfaced
from audit.deid.synthetic.writer import Writer

_STYLE, _HELD_OUT = "style.", "held_out."
LANGUAGES = ("ja", "en")
_CASTS: dict[str, type[JapaneseCast | EnglishCast]] = {"ja": JapaneseCast, "en": EnglishCast}
_MORE_NOTES = (1, 1, 1, 1, 1, 1, 1, 2, 2, 3)


def styles_of(language: str) -> tuple[str, ...]:
    """Return all styles of a language, those for training first.

    Raises
    ------
    ValueError
        If there are no notes in this language.
    """
    if language not in LANGUAGES:
        raise ValueError(f"{language}: no notes in this language")
    return TRAIN_STYLES[language] + HELD_OUT_STYLES[language]


def _named(language: str, prefix: str) -> tuple[str, ...]:
    names = (name for name in grammar(language) if name.startswith(prefix))
    return tuple(sorted(name.removeprefix(prefix) for name in names))


TRAIN_STYLES = {language: _named(language, _STYLE) for language in LANGUAGES}
"""By language: the styles that the default tagger is trained on."""

HELD_OUT_STYLES = {language: _named(language, _HELD_OUT) for language in LANGUAGES}
"""By language: styles in other words and layouts, of other patients, for measuring."""


def synthetic_notes(
    n: int, *, seed: int, language: str = "ja", styles: Sequence[str] | None = None
) -> Iterator[TaggedDocument]:
    """Yield so many notes, the same for the same seed; some patients have two or three.

    Parameters
    ----------
    styles
        Some of `styles_of(language)`; those for training by default.

    Raises
    ------
    ValueError
        If there are no notes in this language, or there is no such style.
    """
    known = styles_of(language)
    chosen = TRAIN_STYLES[language] if styles is None else tuple(styles)
    if not chosen or not set(chosen) <= set(known):
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
    return tagged(
        f"{style}-{place:06d}", text=text, spans=spans, patient_id=f"{group[0]}{patient:06d}"
    )
