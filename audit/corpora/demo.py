"""The demo hospital: invented notes in which invented patients are named as often as in the paper.

Comes in: names, a seed. Goes out: D_private (notes with names), D_public (the passages with
placeholders), the truth about both, and a general corpus. Knows no model.

Source: Nakamura et al., sections 3.2 and 3.4, appendix A (tables 3 and 4: how many passages and
mentions a name has). Differs: the notes are templates, so figures measured on them show how the
audit behaves, not how much a real model leaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.corpora import demo_text as text

PATTERNS_PER_NAME: Mapping[int, int] = {4: 4, 3: 3, 2: 10, 1: 113}
"""Table 3: number of distinct passages -> number of names (130 names, 158 passages)."""
MENTIONS_PER_NAME: Mapping[int, int] = {25: 1, 11: 1, 7: 2, 6: 1, 5: 3, 4: 4, 3: 6, 2: 15, 1: 97}
"""Table 4: number of mentions -> number of names (130 names, 232 mentions)."""
JAPANESE_PATTERNS: Mapping[int, int] = {2: 4, 1: 16}
JAPANESE_MENTIONS: Mapping[int, int] = {8: 1, 4: 2, 3: 2, 2: 5, 1: 10}

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


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
    """What differs between the English and the Japanese demo."""

    words: Mapping[str, Sequence[str]]
    openings: Sequence[str]
    sentences: Sequence[str]
    patterns_per_name: Mapping[int, int]
    mentions_per_name: Mapping[int, int]
    general: Sequence[str]
    joiner: str


ENGLISH = Language(
    words=text.ENGLISH_WORDS,
    openings=text.NOTE_OPENINGS,
    sentences=text.NOTE_SENTENCES,
    patterns_per_name=PATTERNS_PER_NAME,
    mentions_per_name=MENTIONS_PER_NAME,
    general=text.GENERAL_ABOUT_A_NAME
    + text.GENERAL_WITHOUT_A_NAME
    + text.GENERAL_CLINICAL
    + text.NOTE_SENTENCES,
    joiner=" ",
)
JAPANESE = Language(
    words=text.JAPANESE_WORDS,
    openings=text.JAPANESE_OPENINGS,
    sentences=text.JAPANESE_SENTENCES,
    patterns_per_name=JAPANESE_PATTERNS,
    mentions_per_name=JAPANESE_MENTIONS,
    general=text.JAPANESE_GENERAL,
    joiner="",
)
LANGUAGES = {"en": ENGLISH, "ja": JAPANESE}


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

    Raises
    ------
    ValueError
        If the number of names is not the number in the tables.
    """
    spec = LANGUAGES[language]
    n_patterns, n_mentions = _spread(spec.patterns_per_name), _spread(spec.mentions_per_name)
    if len(names) != len(n_patterns):
        raise ValueError(f"{len(names)} names; the tables ask for {len(n_patterns)}")
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(len(names))  # which name is mentioned most is up to chance
    patterns: list[Pattern] = []
    notes: list[str] = []
    counts = [0] * len(names)
    for rank, owner in enumerate(order):
        own = [
            _pattern(int(owner), rng=rng, staff=staff, language=language)
            for _ in range(n_patterns[rank])
        ]
        patterns += own
        counts[owner] = n_mentions[rank]
        for mention in range(n_mentions[rank]):
            chosen = own[mention] if mention < len(own) else own[int(rng.integers(len(own)))]
            name = _surface(names[owner], language)
            notes.append(
                _note(chosen.left + name + chosen.right, rng=rng, staff=staff, language=language)
            )
    while len(notes) < n_notes:
        left, right = _passage(rng, staff=staff, language=language)
        subject = _unnamed_subject(rng, language)
        notes.append(_note(left + subject + right, rng=rng, staff=staff, language=language))
    shuffled = tuple(notes[i] for i in rng.permutation(len(notes)))
    return DemoHospital(notes=shuffled, patterns=tuple(patterns), n_mentions=tuple(counts))


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
    rng = np.random.default_rng([seed, 2])
    documents = []
    for i, (first, last) in enumerate(names):
        first2, last2 = names[(i * 7 + 1) % len(names)]
        given = {"first": first, "last": last, "first2": first2, "last2": last2, "staff": last2}
        given |= {"he": "he", "his": "his", "named": ""}
        if language == "en":
            given["named"] = text.fill(text.NAMED_SENTENCE, rng=rng, words=spec.words, given=given)
        chosen = rng.choice(len(spec.general), size=3)
        documents.append(
            spec.joiner.join(
                text.fill(spec.general[k], rng=rng, words=spec.words, given=given) for k in chosen
            )
        )
    return tuple(documents)


def demo_vocabulary(parts: Sequence[str], *, language: str = "en") -> tuple[str, ...]:
    """Return the WordPiece vocabulary of the demo, special tokens first.

    English: every word, and every name part in `parts`, is one token; letters and their
    continuations keep everything else spellable. Japanese: Han and kana are single characters
    (BERT's tokenizer splits them), so names have several pieces.
    """
    spec = LANGUAGES[language]
    if language == "ja":
        templates = (
            *spec.general,
            *spec.openings,
            *spec.sentences,
            text.JAPANESE_HEADING,
            text.JAPANESE_NAMED,
            *text.JAPANESE_UNNAMED,
        )
        found = "".join(text.vocabulary_words(spec.words, templates)) + "".join(parts)
        words = sorted(set(found)) + [f"##{ch}" for ch in sorted(set(found))]
        words += [str(n) for n in range(100)] + [str(y) for y in range(1990, 2020)]
    else:
        templates = (
            *spec.general,
            *spec.openings,
            *spec.sentences,
            text.HEADING,
            text.NAMED_SENTENCE,
            *text.UNNAMED_SUBJECTS,
        )
        letters = [chr(c) for c in (*range(ord("a"), ord("z") + 1), *range(ord("0"), ord("9") + 1))]
        words = sorted({w.lower() for w in text.vocabulary_words(spec.words, templates)})
        words += [p.lower() for p in parts] + letters + [f"##{ch}" for ch in letters]
        words += list(".,:;'-/()")
    return tuple(dict.fromkeys((*SPECIAL_TOKENS, *words)))


def passage_text(pattern: Pattern) -> str:
    """Return a passage as D_public has it: the name replaced by the placeholder [NAME]."""
    return f"{pattern.left}[NAME]{pattern.right}"


def _spread(table: Mapping[int, int]) -> list[int]:
    return [count for count in sorted(table, reverse=True) for _ in range(table[count])]


def _surface(name: tuple[str, str], language: str) -> str:
    first, last = name
    return f"{last}{first}" if language == "ja" else f"{first} {last}"


def _pattern(
    owner: int, *, rng: np.random.Generator, staff: Sequence[str], language: str
) -> Pattern:
    left, right = _passage(rng, staff=staff, language=language)
    return Pattern(owner=owner, left=left, right=right if language == "ja" else " is a" + right)


def _unnamed_subject(rng: np.random.Generator, language: str) -> str:
    subjects = text.JAPANESE_UNNAMED if language == "ja" else text.UNNAMED_SUBJECTS
    return subjects[int(rng.integers(len(subjects)))]


def _passage(rng: np.random.Generator, *, staff: Sequence[str], language: str) -> tuple[str, str]:
    """Return what stands before and after the subject of the five sentences."""
    spec = LANGUAGES[language]
    words = {**spec.words, "staff": staff}
    sex = spec.words["sex"][int(rng.integers(2))]
    male = sex in ("male", "男性")
    given = {"sex": sex, "he": "he" if male else "she", "his": "his" if male else "her"}

    def draw(template: str) -> str:
        return text.fill(template, rng=rng, words=words, given=given)

    rest = [draw(spec.sentences[k]) for k in rng.choice(len(spec.sentences), size=4, replace=False)]
    if language == "ja":
        left = draw(text.JAPANESE_HEADING)
        return left, "".join([draw(text.JAPANESE_NAMED), *rest])
    opening = draw(spec.openings[int(rng.integers(len(spec.openings)))])
    left = f"{opening} " if rng.random() < 0.3 else ""
    left += draw(text.HEADING)
    return left, " ".join(["", draw(text.NAMED_SENTENCE), *rest])


def _note(passage: str, *, rng: np.random.Generator, staff: Sequence[str], language: str) -> str:
    """Put a passage between the beginning and the end of a note of its own."""
    spec = LANGUAGES[language]
    words = {**spec.words, "staff": staff}
    given = {"he": "he", "his": "his"}
    n_before = int(rng.integers(1, 3)) if rng.random() < 0.3 else 0  # most begin with the service
    before = rng.choice(len(spec.openings), size=n_before, replace=False)
    after = rng.choice(len(spec.sentences), size=int(rng.integers(1, 4)), replace=False)
    sentences = [text.fill(spec.openings[k], rng=rng, words=words, given=given) for k in before]
    sentences.append(passage)
    sentences += [text.fill(spec.sentences[k], rng=rng, words=words, given=given) for k in after]
    return spec.joiner.join(sentences)
