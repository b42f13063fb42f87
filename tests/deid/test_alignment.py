"""Tags in a model's output, and spans brought back from careless copies to the note."""

from __future__ import annotations

import random
import re
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.find.copies import align, align_output, fold
from audit.deid.measure.scoring import EXAMPLES
from audit.deid.sets.incoming_notes import annotated_notes
from audit.notes.formats import scan_tags, write_tags
from audit.notes.spans import JAPANESE, Span, TaggedDocument
from tests.deid.unseen_notes import marked

Group = list[tuple[str, Span | None]]
"""A line in pieces, some of which are spans of the note."""


def lines_of(note: TaggedDocument) -> list[Group]:
    groups: list[Group] = [[]]
    position = 0
    for span in (*note.spans, None):
        before, newline, rest = note.text[position : span and span.start].rpartition("\n")
        if newline:
            groups[-1].append((before + newline, None))
            groups.append([])
        groups[-1].append((rest, None))
        if span:
            groups[-1].append((note.text[span.start : span.end], span))
            position = span.end
    return groups


def edited(text: str, rng: random.Random) -> str:
    return "".join(
        char if rng.random() >= 0.02 else rng.choice(["", "あ", char + "1"]) for char in text
    )


def copied(groups: list[Group], change: Callable[[str], str] = str) -> tuple[str, set[Span]]:
    """Return a careless copy with its tags, and the spans that are in it still."""
    pieces = [(change(text), span) for group in groups for text, span in group]
    output = "".join(
        f"<{JAPANESE[span.label]}>{text}</{JAPANESE[span.label]}>" if span else text
        for text, span in pieces
    )
    return output, {span for text, span in pieces if span and text.strip()}


@pytest.mark.parametrize(
    ("copy", "share"),
    [
        (lambda groups, rng: copied(groups), 1.0),
        (lambda groups, rng: copied(groups, lambda x: unicodedata.normalize("NFKC", x)), 0.995),
        (lambda groups, rng: copied(groups, lambda x: re.sub(r"\s+", " ", x)), 0.995),
        (lambda groups, rng: copied(groups, lambda x: edited(x, rng)), 0.98),
        (lambda groups, rng: copied([g for g in groups if rng.random() > 0.15]), 0.99),
        (
            lambda groups, rng: copied([x for g in groups for x in [g] * rng.choice((1, 1, 2))]),
            0.995,
        ),
        (lambda groups, rng: ("以下に示します。\n" + copied(groups)[0], copied(groups)[1]), 0.995),
    ],
    ids=("exact", "NFKC", "spaces", "2 % edits", "dropped", "repeated", "preamble"),
)
def test_spans_of_careless_copies_come_back_with_exact_offsets(copy, share) -> None:
    rng = random.Random(7)
    n_kept = n_back = 0
    for note in annotated_notes(EXAMPLES / "ja.jsonl").read_all()[:60]:
        output, kept_spans = copy(lines_of(note), rng)
        n_kept += len(kept_spans)
        n_back += len(kept_spans & set(align_output(output, note.text).spans))
        assert align_output(write_tags(note), note.text).spans == note.spans
    assert n_kept > 500 and n_back / n_kept >= share


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from("<>/＜＞識別子準 a山ｶﾞ\n"), max_size=40),
    st.text("abc 山ガ　", max_size=30),
)
def test_anything_is_scanned_and_aligned(first: str, second: str) -> None:
    alignment = scan_tags(first)
    assert all(alignment.plain[s.start : s.end].strip() for s in alignment.spans)
    align_output(first, second)
    copy, source = fold(first), fold(second)
    a = b = 0
    for block in align(copy.chars, source.chars):
        assert (block.a, block.b) == (a, b)
        if block.is_equal:
            assert copy.chars[a : block.a_end] == source.chars[b : block.b_end]
        a, b = block.a_end, block.b_end
    assert (a, b) == (len(copy.chars), len(source.chars))


@pytest.mark.parametrize("line", ["血液検査で異常なし．\n", "あ" * 10])
def test_long_repetitive_notes_are_quick(line: str) -> None:
    rng = random.Random(5)
    note = marked("".join(f"{line * 3}氏名:⟦I:足立{i}⟧ {line}" for i in range(800)))
    output, kept_spans = copied(lines_of(note), lambda x: edited(x, rng))
    begin = time.process_time()
    alignment = align_output(output, note.text)
    assert time.process_time() - begin < 20
    assert len(kept_spans & set(alignment.spans)) >= 0.98 * len(kept_spans)
