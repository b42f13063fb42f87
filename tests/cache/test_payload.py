"""One stored value as bytes: JSON, arrays, seal."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import math
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cache.payload import (
    CorruptValueError,
    canonical_json,
    content_key,
    decode,
    encode,
    seal,
    unseal,
)
from tests.repository import many

QUICK = settings(deadline=None, max_examples=60)
NAMES = st.text(max_size=8).filter(lambda name: name != "$float")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
NUMBERS = hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.floating_dtypes()
ARRAYS = (NUMBERS | hnp.unicode_string_dtypes()).flatmap(lambda kind: hnp.arrays(kind, SHAPES))


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, types and NaN included."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def test_json_and_the_digest_of_a_question_have_one_spelling():
    value = {"b": [1, 1.0, True, None], "a": (float("nan"), -math.inf, "é")}
    expected = rb'{"a":[{"$float":"nan"},{"$float":"-inf"},"\u00e9"],"b":[1,1.0,true,null]}'
    assert canonical_json(value) == expected
    text = b'{"kind":"shard","parts":{"n":100,"seed":7}}'
    key = "shard/" + hashlib.sha256(text).hexdigest()
    assert content_key("shard", {"seed": 7, "n": 100}) == key


@QUICK
@given(JSON_VALUES)
def test_json_survives_the_way_there_and_back(value):
    assert same(decode(encode(arrays={}, meta={"v": value})).meta["v"], value)


def test_what_is_not_json_or_needs_pickle_is_refused():
    for value in ({1: "a"}, {"$float": 1}, np.int64(3), np.zeros(2), b"raw", {"a": {1}}, object()):
        with pytest.raises(TypeError):
            canonical_json(value)
    for array in (np.array([{}]), np.zeros(2, dtype=[("a", "f8")]), np.array(["2026"], "M8")):
        with pytest.raises(TypeError, match="pickle"):
            encode(arrays={"a": array}, meta={})


@QUICK
@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True), ARRAYS, max_size=3))
def test_arrays_survive_and_numpy_reads_the_same(arrays):
    body = encode(arrays=arrays, meta={})
    back = decode(body).arrays
    assert back.keys() == arrays.keys()
    with np.load(io.BytesIO(body), allow_pickle=False) as second:
        for name, array in arrays.items():
            assert back[name].shape == array.shape
            assert back[name].dtype == array.dtype.newbyteorder("<")
            np.testing.assert_array_equal(back[name], array)
            np.testing.assert_array_equal(back[name], second[name])
            back[name].fill(0)  # what was read can be written to


def archive_of(array: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("meta.json", "{}")
        zipped.writestr("a.npy", array)
    return archive.getvalue()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"<f8", b"<f3"),
        (b"<f8", b"|O8"),
        (b"<f8", b"<M8"),
        (b"(2, 3)", b"(2, 4)"),
        (b"(2, 3)", b"(-2,-3)"),
        (b"NUMPY\x01", b"NUMPY\x02"),
        (b"False", b"True "),
    ],
)
def test_an_array_with_another_header_is_refused(old, new):
    data = io.BytesIO()
    np.lib.format.write_array(data, np.arange(6.0).reshape(2, 3))
    array_bytes = data.getvalue()
    assert decode(archive_of(array_bytes)).arrays["a"].shape == (2, 3)
    for bad in (array_bytes.replace(old, new, 1), array_bytes[:-1]):
        with pytest.raises(CorruptValueError):
            decode(archive_of(bad))


@pytest.mark.long
def test_threads_read_arrays_at_once():
    # numpy's own reader of headers fails where other threads go on while it parses, as they do
    # when a collection closes the database of a page that was drawn.
    body = encode(arrays={f"a{n}": np.arange(n) for n in range(20)}, meta={})

    def let_others_go_on(phase: str, info: dict[str, int]) -> None:
        time.sleep(0.0001)

    def read(n: int) -> int:
        gc.set_threshold(20 + n % 97)
        return sum(decode(body).arrays["a19"].tolist())

    threshold = gc.get_threshold()
    gc.callbacks.append(let_others_go_on)
    try:
        with ThreadPoolExecutor(6) as pool:
            assert set(pool.map(read, range(many(1500)))) == {171}
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(let_others_go_on)


def test_equal_content_gives_equal_bytes(monkeypatch):
    square = np.arange(12.0).reshape(3, 4)
    first = encode(arrays={"a": square, "b": np.arange(3)}, meta={"x": 1, "y": [2]})
    monkeypatch.setattr(time, "time", lambda: 2.0e9)
    second = encode(
        arrays={"b": np.arange(3).astype(">i8"), "a": np.asfortranarray(square)},
        meta={"y": (2,), "x": 1},
    )
    assert first == second
    assert first != encode(arrays={"a": square, "b": np.arange(3)}, meta={"x": 1, "y": [3]})


@QUICK
@given(st.binary(max_size=200))
def test_bytes_that_are_no_archive_are_refused(body):
    with pytest.raises(CorruptValueError):
        decode(body)


def test_a_seal_gives_back_key_and_body():
    payload = seal("shard/abc", b"body")
    digest = hashlib.sha256(b"\0\0\0\x09shard/abcbody").digest()
    assert payload == b"kartaud1" + digest + b"\0\0\0\x09shard/abcbody"
    key, body = unseal(payload)
    assert (key, bytes(body)) == ("shard/abc", b"body")


def test_every_flipped_bit_and_every_cut_breaks_the_seal():
    payload = seal("shard/abc", json.dumps({"a": 1}).encode())
    broken = [payload[:n] for n in range(len(payload))]
    for place in range(len(payload)):
        for bit in range(8):
            flipped = bytearray(payload)
            flipped[place] ^= 1 << bit
            broken.append(bytes(flipped))
    for attempt in [*broken, payload + b"\0"]:
        with pytest.raises(CorruptValueError):
            unseal(attempt)
