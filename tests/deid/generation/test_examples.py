"""Windows that fit, and what is trained on: tokens of notes and of the same with tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.generative.model import (
    SPARE,
    Room,
    answer_text,
    frame_of,
    pieces_of,
    room_in,
    text_ids,
)
from audit.deid.generative.training import examples_of
from audit.errors import AuditError
from audit.notes.formats import scan_tags
from audit.notes.spans import Span, tagged
from tests.deid.generation.tiny_model import character_tokenizer, documents


def n_tokens(text: str) -> int:
    """Tokens of a tokenizer that spends three on a character that is no ASCII."""
    return sum(1 if char.isascii() else 3 for char in text)


@given(st.text("aあ\n。 ", max_size=400), st.integers(3, 60), st.integers(0, 50))
def test_windows_fit_and_hold_every_character(text: str, n_note: int, overlap: int) -> None:
    windows = pieces_of(text, n_tokens=n_tokens, room=Room(n_note), overlap=overlap)
    assert all(n_tokens(text[one.start : one.end]) <= n_note for one in windows)
    covered = {i for one in windows for i in range(one.start, one.end)}
    assert covered == set(range(len(text)))


def test_a_note_that_fits_is_one_window() -> None:
    (window,) = pieces_of("ああ", n_tokens=n_tokens, room=Room(6), overlap=5)
    assert (window.start, window.end) == (0, 2)


def test_a_character_that_does_not_fit_is_refused() -> None:
    with pytest.raises(AuditError, match="more tokens than a window"):
        pieces_of("ああ", n_tokens=n_tokens, room=Room(2), overlap=0)


def test_room_by_hand() -> None:
    room = room_in(1000, n_frame=35, growth=2.0)
    assert room.n_note == 300
    assert 35 + 300 + room.n_answer(300) + 1 <= 1000
    assert room.n_answer(1) == 2 + SPARE
    with pytest.raises(AuditError, match="no room"):
        room_in(140, n_frame=35)


def examples(notes, *, n_context: int = 512, overlap: int = 10, n_note: int = 100):  # type: ignore[no-untyped-def]
    tokenizer = character_tokenizer()
    frame = frame_of(tokenizer, language="ja")
    made = examples_of(
        notes, tokenizer=tokenizer, frame=frame, room=Room(n_note), n_context=n_context,
        overlap=overlap, language="ja",
    )  # fmt: skip
    return made, tokenizer, frame


def test_an_example_by_hand() -> None:
    made, tokenizer, frame = examples(documents()[1:2])
    (row,) = made.rows
    assert tuple(row.prompt) == frame.prompt(text_ids(tokenizer, "森様 52歳 電話03-1"))
    written = "<準識別子>森</準識別子>様 52歳 電話<連絡先情報>03-1</連絡先情報>"
    assert row.answer.tolist() == [*text_ids(tokenizer, written), tokenizer.eos_token_id]
    assert made.labels == ("quasi_identifier", "contact")
    assert made.counts == {
        "n_notes": 1, "n_windows": 1, "n_left_out": 0, "n_changed": 0, "n_cut": 0,
    }  # fmt: skip


def test_what_cannot_be_written_is_left_out_and_counted() -> None:
    strange = tagged("x", text="<識別子> 森", spans=[Span(6, 7, "identifier")])
    made, _, _ = examples([*documents(), strange])
    assert (len(made.rows), made.counts["n_notes"], made.counts["n_left_out"]) == (4, 5, 1)
    with pytest.raises(AuditError, match="No note can be trained on"):
        examples([strange])


def test_characters_that_the_tokenizer_does_not_know_are_counted() -> None:
    made, _, _ = examples([*documents(), tagged("x", text="鰻", spans=())])
    assert made.counts["n_changed"] == 1


def test_overlapping_spans_are_flattened() -> None:
    spans = [Span(0, 2, "identifier"), Span(0, 1, "quasi_identifier")]
    made, tokenizer, _ = examples([tagged("x", text="森様", spans=spans)])
    answer = answer_text(tokenizer, made.rows[0].answer)
    assert answer == "<識別子>森様</識別子>"


def test_a_long_note_is_cut_and_no_character_loses_its_label() -> None:
    text = "森様、" * 40
    spans = [Span(3 * i, 3 * i + 1, "quasi_identifier") for i in range(40)]
    made, tokenizer, frame = examples([tagged("x", text=text, spans=spans)], n_note=30)
    assert len(made.rows) > 4
    assert made.room.n_note <= 30
    for row in made.rows:
        note = tokenizer.decode(row.prompt[len(frame.head) : -len(frame.middle)])
        read = scan_tags(answer_text(tokenizer, row.answer))
        assert read.plain == note
        assert len(read.spans) == note.count("森")


def test_a_span_that_the_edge_cuts_is_tagged_as_far_as_it_goes() -> None:
    note = tagged("x", text="あ" * 60, spans=[Span(0, 60, "identifier")])
    made, tokenizer, _ = examples([note], n_note=25, overlap=5)
    assert made.counts["n_cut"] == len(made.rows) > 1
    for row in made.rows:
        assert answer_text(tokenizer, row.answer).startswith("<識別子>")


def test_the_digest_tells_examples_apart() -> None:
    one, other = examples(documents())[0], examples(documents()[:3])[0]
    assert one.digest == examples(documents())[0].digest != other.digest
