"""The demo's notes, general texts and vocabulary, English and Japanese: invented sentences.

Comes in: names, a seed. Goes out: notes with as many passages and mentions a name as the paper's
tables 3 and 4 have, and what a general model is trained on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from audit.corpus.examine import MENTIONS_PER_NAME, PATTERNS_PER_NAME

_JAPANESE_PATTERNS = {2: 4, 1: 16}
_JAPANESE_MENTIONS = {8: 1, 4: 2, 3: 2, 2: 5, 1: 10}
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_FIELD = re.compile(r"\{(\w+?)(\d?)\}")
_NUMBERS = {"age": (18, 90), "year": (1990, 2020), "day": (1, 29)}
_PRONOUNS = {"he": "he", "his": "his"}


@dataclass(frozen=True)
class Pattern:
    """One patient-name pattern: a passage, cut where the name stands (section 3.4)."""

    owner: int
    left: str
    right: str


@dataclass(frozen=True)
class DemoHospital:
    """Notes and the truth about them; `n_mentions[i]` counts the notes that hold name i."""

    notes: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    n_mentions: tuple[int, ...]


@dataclass(frozen=True)
class Language:
    """Words and templates of one language.

    `openings` begin a note, `sentences` follow, `general` are of a general text. `heading` stands
    before the subject (with a name five tokens, as the prompt of appendix B asks), `named` behind
    a name; `unnamed` are subjects without one.
    """

    words: Mapping[str, Sequence[str]]
    openings: Sequence[str]
    sentences: Sequence[str]
    general: Sequence[str]
    heading: str
    named: str
    unnamed: Sequence[str]

    @property
    def is_japanese(self) -> bool:
        """Whether nothing stands between words and sentences."""
        return self is LANGUAGES["ja"]

    @property
    def templates(self) -> tuple[str, ...]:
        """All templates of notes and general texts."""
        return (*self.general, *self.openings, *self.sentences, self.heading, self.named,
                *self.unnamed)  # fmt: skip


LANGUAGES = {
    code: Language(**values)
    for code, values in json.loads(
        Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    ).items()
}


def fill(
    template: str,
    *,
    rng: np.random.Generator,
    words: Mapping[str, Sequence[str]],
    given: Mapping[str, str],
) -> str:
    """Fill a template's fields from `given`, else by draws from `words`; `{x2}` draws as `{x}`."""

    def value(match: re.Match[str]) -> str:
        name, number = match.groups()
        if name + number in given:
            return given[name + number]
        if name in _NUMBERS:
            return str(rng.integers(*_NUMBERS[name]))
        return words[name][int(rng.integers(len(words[name])))]

    return _FIELD.sub(value, template)


def demo_notes(
    names: Sequence[tuple[str, str]],
    *,
    staff: Sequence[str],
    language: str = "en",
    n_notes: int = 1000,
    seed: int,
) -> DemoHospital:
    """Write the notes of a demo hospital.

    Parameters
    ----------
    names
        (first, last) of the patients who are named, in order of `name_id`; as many as the
        language's tables of passages and mentions ask for.
    staff
        Last names of doctors, who are named in many notes.
    language
        "en" or "ja".
    n_notes
        Notes in all; those without a named patient say "the patient".
    """
    spec = LANGUAGES[language]
    tables: tuple[Mapping[int, int], ...] = (PATTERNS_PER_NAME, MENTIONS_PER_NAME)
    if spec.is_japanese:
        tables = (_JAPANESE_PATTERNS, _JAPANESE_MENTIONS)
    n_patterns, n_mentions = (
        [count for count in sorted(table, reverse=True) for _ in range(table[count])]
        for table in tables
    )
    if len(names) != len(n_patterns):
        raise ValueError(f"{len(names)} names; the tables ask for {len(n_patterns)}")
    rng = np.random.default_rng([seed, 1])
    words = {**spec.words, "staff": staff}
    is_a = "" if spec.is_japanese else " is a"
    patterns: list[Pattern] = []
    notes: list[str] = []
    counts = [0] * len(names)
    # Which name is mentioned most is up to chance.
    for rank, owner in enumerate(rng.permutation(len(names)).tolist()):
        passages = (_passage(spec, words, rng) for _ in range(n_patterns[rank]))
        own = [Pattern(owner, left, is_a + right) for left, right in passages]
        patterns += own
        counts[owner] = n_mentions[rank]
        first, last = names[owner]
        name = f"{last}{first}" if spec.is_japanese else f"{first} {last}"
        for mention in range(n_mentions[rank]):
            chosen = own[mention] if mention < len(own) else own[int(rng.integers(len(own)))]
            notes.append(_note(chosen.left + name + chosen.right, spec, words, rng))
    while len(notes) < n_notes:
        left, right = _passage(spec, words, rng)
        subject = spec.unnamed[int(rng.integers(len(spec.unnamed)))]
        notes.append(_note(left + subject + right, spec, words, rng))
    shuffled = tuple(notes[i] for i in rng.permutation(len(notes)))
    return DemoHospital(notes=shuffled, patterns=tuple(patterns), n_mentions=tuple(counts))


def passage_text(pattern: Pattern) -> str:
    """Return a passage as D_public has it: the name replaced by the placeholder [NAME]."""
    return f"{pattern.left}[NAME]{pattern.right}"


def _passage(
    spec: Language, words: Mapping[str, Sequence[str]], rng: np.random.Generator
) -> tuple[str, str]:
    """Return what stands before and after the subject of the five sentences."""
    sex = words["sex"][int(rng.integers(2))]
    is_male = sex in ("male", "男性")
    given = {"sex": sex, "he": "he" if is_male else "she", "his": "his" if is_male else "her"}

    def draw(template: str) -> str:
        return fill(template, rng=rng, words=words, given=given)

    chosen = rng.choice(len(spec.sentences), size=4, replace=False)
    rest = [draw(spec.sentences[k]) for k in chosen]
    if spec.is_japanese:
        return draw(spec.heading), "".join([draw(spec.named), *rest])
    opening = draw(spec.openings[int(rng.integers(len(spec.openings)))])
    left = f"{opening} " if rng.random() < 0.3 else ""
    return left + draw(spec.heading), " ".join(["", draw(spec.named), *rest])


def _note(
    passage: str, spec: Language, words: Mapping[str, Sequence[str]], rng: np.random.Generator
) -> str:
    """Put a passage between the beginning and the end of a note of its own."""

    def drawn(templates: Sequence[str], chosen: np.ndarray) -> Iterator[str]:
        return (fill(templates[k], rng=rng, words=words, given=_PRONOUNS) for k in chosen)

    n_before = int(rng.integers(1, 3)) if rng.random() < 0.3 else 0  # most begin with the service
    before = rng.choice(len(spec.openings), size=n_before, replace=False)
    after = rng.choice(len(spec.sentences), size=int(rng.integers(1, 4)), replace=False)
    sentences = [*drawn(spec.openings, before), passage, *drawn(spec.sentences, after)]
    return ("" if spec.is_japanese else " ").join(sentences)


def demo_general_text(
    names: Sequence[tuple[str, str]], *, language: str = "en", seed: int
) -> tuple[str, ...]:
    """Write one short general document per name, in which most names occur in ordinary sentences.

    Parameters
    ----------
    names
        (first, last) of the people who occur, drawn with the generator's weights, repeats kept.
    """
    spec = LANGUAGES[language]
    general = [*spec.general, *(() if spec.is_japanese else spec.sentences)]
    rng = np.random.default_rng([seed, 2])
    documents = []
    for i, (first, last) in enumerate(names):
        first2, last2 = names[(i * 7 + 1) % len(names)]
        given = {"first": first, "last": last, "first2": first2, "last2": last2, "staff": last2}
        given |= _PRONOUNS
        if not spec.is_japanese:
            given["named"] = fill(spec.named, rng=rng, words=spec.words, given=given)
        chosen = rng.choice(len(general), size=3)
        sentences = [fill(general[k], rng=rng, words=spec.words, given=given) for k in chosen]
        documents.append(("" if spec.is_japanese else " ").join(sentences))
    return tuple(documents)


def demo_vocabulary(parts: Sequence[str], *, language: str = "en") -> tuple[str, ...]:
    """Return the WordPiece vocabulary of the demo, special tokens first.

    English: every word, and every name part in `parts`, is one token; letters and their
    continuations keep everything else spellable. Japanese: Han and kana are single characters
    (BERT's tokenizer splits them), so names have several pieces.
    """
    spec = LANGUAGES[language]
    numbers = [str(number) for number in (*range(100), *range(*_NUMBERS["year"]))]
    found = [*numbers, "he", "she", "his", "her"]
    for text in chain((_FIELD.sub(" ", one) for one in spec.templates), *spec.words.values()):
        found += text.split()
    if spec.is_japanese:
        letters = sorted({*"".join(found), *"".join(parts)})
        words = [*letters, *(f"##{letter}" for letter in letters), *numbers]
    else:
        letters = list("abcdefghijklmnopqrstuvwxyz0123456789")
        words = sorted({word.lower() for word in found}) + [part.lower() for part in parts]
        words += [*letters, *(f"##{letter}" for letter in letters), *".,:;'-/()"]
    return tuple(dict.fromkeys((*_SPECIAL_TOKENS, *words)))
