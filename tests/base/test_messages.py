"""Messages of the engine: a key and values, English by themselves, Japanese from one catalogue."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import CATALOGUE, AuditError, Message, render_message
from tests.linear_time import assert_linear_time
from tests.repository import REPOSITORY

JAPANESE = json.loads((CATALOGUE / "ja" / "messages.json").read_text(encoding="utf-8"))
PLACE = re.compile(r"\{(\w+)[^{}]*\}")
SHOWN_ON_COMMAND_LINE = re.compile(r"audit/(?:cli/\w+|__main__)\.py")
FROM_OUTSIDE = {
    "Permission denied",
    "Operation not permitted",
    "No such file or directory",
    "File exists",
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Is a directory",
    "Input/output error",
    "Not a directory",
    "File name too long",
    "Too many open files",
    "database is locked",
    "database or disk is full",
}
"""Reasons that the system gives."""
LETTERS = re.compile(r"[ぁ-んァ-ヶ一-鿿]")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for top in ("audit", "cache", "pages"):
        for path in sorted((REPOSITORY / top).rglob("*.py")):
            yield (str(path.relative_to(REPOSITORY)), ast.parse(path.read_text(encoding="utf-8")))


def shown_arguments(call: ast.Call) -> list[ast.expr]:
    """Return the expressions of a call that become messages."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    match ast.unparse(call.func):
        case "AuditError" | "StoreError" | "Failure":
            return [
                *call.args[:1],
                *(named[name] for name in ("what", "where", "do") if name in named),
            ]
        case "RowNote":
            return [*call.args[1:2], *([named["what"]] if "what" in named else [])]
        case "Message":
            return call.args[:1]
        case "notes.append":
            return [one for one in call.args if isinstance(one, ast.Constant | ast.JoinedStr)]
    return []


def constants(value: ast.expr) -> list[str]:
    if isinstance(value, ast.IfExp):
        return constants(value.body) + constants(value.orelse)
    return [value.value] if isinstance(value, ast.Constant) and isinstance(value.value, str) else []


def is_shown(text: str) -> bool:
    """Whether a text has words of the engine's: no option, file or variable."""
    words = PLACE.sub("", text)
    return bool(re.search("[a-z]", words)) and not re.fullmatch(r"--[a-z-]+|\.streamlit/.*", text)


@pytest.mark.long
def test_every_sentence_has_a_translation_and_none_is_put_together_in_the_source():
    n_found, missing, glued = 0, [], []
    for path, tree in modules():
        if SHOWN_ON_COMMAND_LINE.fullmatch(path):
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for value in shown_arguments(call):
                at = f"{path}:{call.lineno}"
                if any(isinstance(node, ast.JoinedStr) for node in ast.walk(value)):
                    glued.append(at)
                for text in constants(value):
                    n_found += 1
                    if text not in JAPANESE and is_shown(text):
                        missing.append((at, text))
    assert n_found > 300  # the reading of the source has not gone blind
    assert missing == []
    assert glued == []


@pytest.mark.long
def test_every_translation_has_a_sentence():
    texts = {
        node.value
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert JAPANESE.keys() - texts - FROM_OUTSIDE == set()


def test_both_languages_have_the_same_places():
    for english, japanese in JAPANESE.items():
        assert Counter(PLACE.findall(english)) == Counter(PLACE.findall(japanese)), english
        assert "{" not in PLACE.sub("", japanese), english
        assert LETTERS.search(japanese) or english.startswith("{"), english
        assert "匿名化" not in japanese
        if english.endswith("."):
            assert japanese.endswith(("。", "}")), japanese


VALUES = st.recursive(
    st.text(max_size=20) | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(st.text(max_size=40), st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_a_message_comes_back_from_json_and_from_another_process(key, values):
    message = Message(key, **values)
    again = Message.read(json.loads(json.dumps(message.dump())))
    assert again == message == pickle.loads(pickle.dumps(message))
    assert again.render("ja") == message.render("ja")
    assert pickle.loads(pickle.dumps(message)).render("ja") == message.render("ja")


def test_values_stay_as_they_are_whatever_they_hold():
    text = "{file}</b>{n_bytes:,}\\1"
    message = Message("The file {file} is missing.", file=text, n_bytes=3)
    assert message == f"The file {text} is missing."
    assert text in message.render("ja")
    assert Message("/data/{x}/y") == "/data/{x}/y"
    assert Message("{x.__class__} {x[0]} {x!r} {x:>99999999}", x="a") == (
        "{x.__class__} {x[0]} {x!r} {x:>99999999}"
    )


@pytest.mark.parametrize(
    "plain", [None, {}, {"key": 1, "values": {}}, {"key": "a", "values": {"b": None}}]
)
def test_what_is_no_message_is_refused(plain):
    with pytest.raises(ValueError, match="not a message"):
        Message.read(plain)


@pytest.mark.parametrize("piece", ["{", "{a", "{a:", "{a}", "}"])
def test_long_and_hostile_texts_stay_as_they_are_in_linear_time(piece):
    text = piece * 100_000
    assert render_message(text, "ja") == text
    assert_linear_time(lambda text: render_message(text, "ja"), piece, 25_000)
    assert_linear_time(lambda text: Message(text, b=1), piece, 25_000)


def test_an_error_joins_place_sentence_and_advice():
    error = AuditError("is unknown.", where="device", do="Choose auto or cpu.")
    assert str(error) == error.render("en") == "device: is unknown. Choose auto or cpu."
    again = pickle.loads(pickle.dumps(error))
    assert again.render("ja") == error.render("ja")
    assert error.render("ja").startswith("計算装置：")
    assert Message.read(error.message.dump()).render("ja") == error.render("ja")
    unknown = AuditError("Nobody knows.", where="Jane and John")
    assert unknown.render("ja") == "Jane and John：Nobody knows."
