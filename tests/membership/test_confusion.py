"""Confusion counts against the paper's tables, hand counts, properties and scikit-learn."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
)

from audit.attack.decisions import Confusion, confusion, f1_interval

TABLES = json.loads(
    (Path(__file__).parents[1] / "golden" / "kart_tables.json").read_text(encoding="utf-8")
)
PUBLISHED = [row for table in ("table1", "table2") for row in TABLES[table] if "tp" in row]

quick = settings(deadline=None, max_examples=40)
counts = st.builds(Confusion, *[st.integers(0, 60)] * 4)


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['negatives']}-{row['f1']}")
def test_published_counts_give_the_published_rates(row):
    table = Confusion(row["tp"], row["fn"], row["fp"], row["tn"])
    assert (table.n_members, table.n_controls) == (TABLES["n_members"], TABLES["n_negatives"])
    assert round(table.f1, 4) == row["f1"]
    assert round(table.accuracy.value, 4) == row["accuracy"]
    assert round(table.recall.value, 4) == row["recall"]
    assert round(table.precision.value, 4) == row["precision"]


def test_six_published_rows_have_counts():
    assert len(PUBLISHED) == 6


@quick
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_counts_and_rates_equal_sklearns(rows):
    flagged, is_member = (np.array(column) for column in zip(*rows, strict=True))
    table = confusion(flagged, is_member)
    tn, fp, fn, tp = confusion_matrix(is_member, flagged, labels=[False, True]).ravel()
    assert (table.tp, table.fn, table.fp, table.tn) == (tp, fn, fp, tn)
    assert table.accuracy.value == pytest.approx(accuracy_score(is_member, flagged))
    for ours, theirs in (
        (table.recall.value, recall_score),
        (table.precision.value, precision_score),
        (table.f1, f1_score),
    ):
        expected = theirs(is_member, flagged, zero_division=np.nan)
        assert ours == pytest.approx(expected, nan_ok=True)


def test_nothing_judged_has_no_rates():
    nothing = Confusion(0, 0, 0, 0)
    assert math.isnan(nothing.f1)
    assert math.isnan(nothing.accuracy.value)
    assert math.isnan(f1_interval(nothing, seed=1).low)


def test_unequal_columns_are_refused():
    with pytest.raises(ValueError, match="two columns"):
        confusion([True], [True, False])


def test_f1_interval_equals_a_plain_bootstrap_over_names():
    table = Confusion(40, 90, 30, 100)
    flagged = np.repeat([True, False, True, False], [40, 90, 30, 100])
    is_member = np.arange(260) < 130
    rng = np.random.default_rng(2)
    f1 = []
    for _ in range(2000):
        rows = np.concatenate([rng.integers(0, 130, 130), rng.integers(130, 260, 130)])
        f1.append(confusion(flagged[rows], is_member[rows]).f1)
    interval = f1_interval(table, seed=1)
    assert interval.value == pytest.approx(0.4)
    assert [interval.low, interval.high] == pytest.approx(
        np.quantile(f1, [0.025, 0.975]), abs=0.015
    )


def test_always_member_has_no_sampling_error():
    interval = f1_interval(Confusion(130, 0, 130, 0), seed=1)
    assert interval.low == interval.value == interval.high == pytest.approx(2 / 3)


def test_a_rule_never_wrong_on_a_short_list_is_not_certain():
    # Wilson for 3 of 3: from 3 / (3 + z^2) = .4385. Worst case: 1.3155 hits, 1.6845 false alarms.
    interval = f1_interval(Confusion(3, 0, 0, 3), seed=1)
    assert interval.value == interval.high == 1.0
    hits = 3 * 3 / (3 + 3.841459)
    assert interval.low == pytest.approx(2 * hits / (3 + hits + (3 - hits)), abs=1e-6)


@quick
@given(counts)
def test_f1_interval_contains_f1_up_to_the_bootstraps_own_bias(table):
    interval = f1_interval(table, seed=1, n_replicates=400)
    if math.isnan(table.f1):
        assert math.isnan(interval.low)
    else:
        assert 0 <= interval.low <= interval.high <= 1
        assert interval.low - 1e-9 <= table.f1 <= interval.high + 1e-9
