from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from audit.errors import AuditError
from audit.models.inspect import read_header

QUICK = settings(max_examples=30, deadline=None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("header") / "whole.safetensors"
    save_file({"a": np.ones((3, 2), np.float32), "b": np.zeros(5, np.float16)}, path)
    return path


def test_header_by_hand(tmp_path: Path) -> None:
    header = b'{"x": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}'
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    (tensor,) = read_header(path, where="x")
    assert (tensor.name, tensor.dtype, tensor.shape, tensor.file) == ("x", "F32", (1, 2), path.name)


@given(
    shapes=st.dictionaries(
        st.text("abc.", min_size=1, max_size=6),
        st.lists(st.integers(1, 4), max_size=3),
        min_size=1,
        max_size=4,
    )
)
@QUICK
def test_headers_equal_those_of_the_safetensors_library(
    tmp_path_factory: pytest.TempPathFactory, shapes: dict[str, list[int]]
) -> None:
    path = tmp_path_factory.mktemp("header") / "x.safetensors"
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, path)
    ours = {t.name: (t.shape, t.dtype) for t in read_header(path, where="x")}
    with safe_open(path, "np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        theirs = {n: (tuple(s.get_shape()), s.get_dtype()) for n, s in slices.items()}
    assert ours == theirs


@given(share=st.floats(0, 1, exclude_max=True))
@QUICK
def test_every_cut_of_a_file_is_noticed(whole: Path, share: float) -> None:
    data = whole.read_bytes()
    cut = whole.parent / "cut.safetensors"
    cut.write_bytes(data[: math.floor(share * len(data))])
    with pytest.raises(AuditError):
        read_header(cut, where="x")
