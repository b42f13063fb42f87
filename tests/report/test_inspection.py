"""Inspection: the best passages of a name, and what is kept beside a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from audit.notes.passages import Passage
from audit.report.report import Inspection, best_passages, keep_inspection, kept_inspection
from cache.store import Store

PASSAGES = (
    Passage("Mr. ", ("first", "last"), " ", " is a 50 year old", "1", ("Anna", "Berg")),
    Passage("", ("full",), "", "は50歳", "b", 3),
    Passage("left ", ("last", "first"), ", ", "", "c", None),
)


def test_the_best_passages_are_found_by_hand() -> None:
    ratio = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, -1.0]])
    rows, ratios = best_passages(ratio, n_best=2)
    assert rows.tolist() == [[1, 2], [2, -1]]
    assert np.array_equal(ratios, [[3.0, 2.0], [-1.0, np.nan]], equal_nan=True)
    shapes = [best_passages(np.zeros((n, 5)), n_best=4)[1].shape for n in (0, 3, 50)]
    assert shapes == [(5, 0), (5, 3), (5, 4)]


def test_what_is_kept_comes_back_and_another_version_is_as_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, ratios = best_passages(rng.normal(size=(3, 4)))
    made = Inspection(
        n_per_block=np.array([100, 50]),
        hospital=rng.normal(size=(2, 4)).astype(np.float32),
        general=rng.normal(size=(2, 4)).astype(np.float32),
        reference_score=rng.normal(size=6),
        reference_n_pieces=np.arange(6),
        best_passages=rows,
        best_log_ratio=ratios,
        passages=PASSAGES,
    )
    with Store(tmp_path / "results") as store:
        assert kept_inspection("d", store=store) is None
        keep_inspection("d", made, store=store)
        found = kept_inspection("d", store=store)
        assert found is not None and found.passages == PASSAGES
        for name in vars(made).keys() - {"passages"}:
            assert np.array_equal(getattr(found, name), getattr(made, name), equal_nan=True), name
        stored = store.get("inspection/d")
        assert stored is not None
        arrays = {k: v for k, v in stored.arrays.items() if k != "hospital"}
        store.put("inspection/d", arrays=arrays, meta=stored.meta)
        assert kept_inspection("d", store=store) is None
