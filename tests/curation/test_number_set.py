"""The set of numbers: what a set of Python's would say, through its buffer and beyond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus import examine
from audit.corpus.examine import NumberSet


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**64 - 1)), max_size=60))
def test_it_says_what_a_set_says(numbers: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examine, "_MIN_BUFFER", 4)
        found, known = NumberSet(), set[int]()
        for number in numbers:
            assert found.add(number) is (number not in known)
            known.add(number)
        assert len(found) == len(known)
