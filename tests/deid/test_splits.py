"""Splits: no patient is in two, sizes are kept, and a leak that is there is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.pipeline import (
    REST,
    SPLITS,
    TEST,
    TRAIN,
    VALIDATION,
    LeakCounter,
    SplitSizes,
    split_notes,
    usual_sizes,
)
from audit.errors import AuditError


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.integers(0, 5))
def test_no_patient_is_in_two_splits(owners: list[int], seed: int) -> None:
    single = [owners.count(owner) == 1 for owner in owners]
    sizes = SplitSizes(sum(single) // 3, sum(single) // 3, len(owners) // 4)
    split = [SPLITS[i] for i in split_notes(len(owners), single=single, sizes=sizes, seed=seed)]
    counts = [split.count(name) for name in (VALIDATION, TEST, TRAIN)]
    assert counts == [sizes.n_validation, sizes.n_test, sizes.n_train]
    for owner in set(owners):
        places = {split[i] for i, other in enumerate(owners) if other == owner}
        assert len(places) == 1 or places <= {TRAIN, REST}


def test_sizes_are_the_papers_where_there_are_enough() -> None:
    assert usual_sizes(n_notes=281_993, n_single=90_000) == SplitSizes(5000, 5000, 50_000)
    assert usual_sizes(n_notes=341, n_single=341) == SplitSizes(34, 34, 273)


def test_too_few_notes_are_refused() -> None:
    with pytest.raises(AuditError, match="only 1 are of patients"):
        split_notes(3, single=[True, False, False], sizes=SplitSizes(1, 1, 0), seed=1)
    with pytest.raises(AuditError, match="only 2 are left"):
        split_notes(3, single=[True, False, False], sizes=SplitSizes(1, 0, 3), seed=1)


def _counted(*rows: tuple[str, str, str, str, str]) -> LeakCounter:
    counter = LeakCounter()
    for split, patient, doc_id, text, name in rows:
        counter.add(split, patient=patient, doc_id=doc_id, text=text, names=[name])
    return counter


def test_clean_splits_are_clean_and_namesakes_are_counted() -> None:
    check = _counted(
        (TRAIN, "p1", "d1", "one", "佐藤 花子"), (TEST, "p2", "d2", "two", "佐藤花子"),
        (VALIDATION, "p3", "d3", "three", "Ann Lee"), (REST, "p2", "d2", "two", "Ann Lee"),
    ).check()  # fmt: skip
    assert check.is_clean
    assert (check.n_names, check.n_seen_names) == (2, 1)


def test_every_leak_is_seen() -> None:
    check = _counted(
        (TRAIN, "p1", "d1", "one", "a"), (TEST, "p1", "d1", "one", "b"),
        (VALIDATION, "p9", "d9", "one", "c"),
    ).check()  # fmt: skip
    assert (check.n_shared_patients, check.n_shared_notes, check.n_shared_texts) == (1, 1, 1)
    assert not check.is_clean
    assert check.plain()["is_clean"] is False
