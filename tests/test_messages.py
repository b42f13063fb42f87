"""Messages of the engine: a key and values, English by themselves, another language at the edge."""

from __future__ import annotations

import json
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import AuditError, Message, written

VALUES = st.recursive(
    st.text(max_size=20) | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(st.text(max_size=40), st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_a_message_comes_back_from_json_and_from_another_process(
    key: str, values: dict[str, object]
) -> None:
    message = Message(key, **values)
    again = Message.read(json.loads(json.dumps(message.plain())))
    assert again == message == pickle.loads(pickle.dumps(message))
    assert (
        again.written("ja")
        == message.written("ja")
        == pickle.loads(pickle.dumps(message)).written("ja")
    )


def test_values_stay_as_they_are_whatever_they_hold() -> None:
    text = "{file}</b>{n_bytes:,}\\1"
    message = Message("The file {file} is missing.", file=text, n_bytes=3)
    assert message == f"The file {text} is missing."
    assert text in message.written("ja")
    assert Message("/data/{x}/y") == "/data/{x}/y"
    assert Message("{x.__class__} {x[0]} {x!r} {x:>99999999}", x="a") == (
        "{x.__class__} {x[0]} {x!r} {x:>99999999}"
    )


@pytest.mark.parametrize(
    "plain",
    [
        None,
        3,
        [],
        {},
        {"key": 1, "values": {}},
        {"key": "a"},
        {"key": "a", "values": []},
        {"key": "a", "values": {"b": None}},
    ],
)
def test_what_is_no_message_is_refused(plain: object) -> None:
    with pytest.raises(ValueError, match="not a message"):
        Message.read(plain)


def test_long_and_hostile_texts_are_cheap() -> None:
    begun = time.process_time()
    for piece in ("{", "{a", "{a:", "{a}", "}"):
        text = piece * 100_000
        assert written(text, "ja") == text
        assert Message(text, b=1) == text
    assert time.process_time() - begun < 2


def test_an_error_joins_place_sentence_and_advice() -> None:
    error = AuditError("is unknown.", where="device", do="Choose auto or cpu.")
    assert str(error) == error.written("en") == "device: is unknown. Choose auto or cpu."
    again = pickle.loads(pickle.dumps(error))
    assert again.written("ja") == error.written("ja")
    assert Message.read(error.message.plain()).written("ja") == error.written("ja")
