"""Synthetic clinical notes with gold spans, of nobody: what the default tagger is made of.

`python -m benchmarks.synthetic` writes the example that is shipped
(`audit/deid/measure/example`): notes of styles that the default tagger has not learned from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from audit.notes.spans import TaggedDocument
from benchmarks.synthetic.notes import (
    HELD_OUT_STYLES,
    TRAIN_STYLES,
    styles_of,
    synthetic_notes,
)

__all__ = ["HELD_OUT_STYLES", "TRAIN_STYLES", "example", "in_turn", "styles_of", "synthetic_notes"]
N_EXAMPLE, EXAMPLE_SEED = 200, 20261122


def in_turn(
    n: int,
    *,
    seed: int,
    languages: Sequence[str],
    is_held_out: bool = False,
) -> Iterator[TaggedDocument]:
    """Yield synthetic notes, as many of each language, in turn; of held-out styles if asked."""
    styles = HELD_OUT_STYLES if is_held_out else TRAIN_STYLES
    styled_languages = [language for language in languages if language in styles]
    for number, language in enumerate(styled_languages):
        share = n // len(styled_languages) + (number < n % len(styled_languages))
        notes = synthetic_notes(share, seed=seed, language=language, styles=styles[language])
        yield from (replace(note, doc_id=f"{language}/{note.doc_id}") for note in notes)


def example(language: str) -> tuple[TaggedDocument, ...]:
    """Return the notes of the example."""
    styles = HELD_OUT_STYLES[language]
    return tuple(synthetic_notes(N_EXAMPLE, seed=EXAMPLE_SEED, language=language, styles=styles))
