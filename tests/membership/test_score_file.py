"""Measures of a plain column of scores."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from audit.attack.metrics import score_file
from audit.errors import AuditError

LOSSES = Path(__file__).parents[2].parent / "shared" / "data" / "clinical_mlm_losses"


def test_five_names_by_hand():
    # members 3, 1; controls 2, 1, 0; above 1: one member, one control
    result = score_file([3, 1, 2, 1, 0], [1, 1, 0, 0, 0], threshold=1.0, seed=1)
    assert result["auc"] == 0.75
    assert result["auc_low"] < 0.75 < result["auc_high"]
    assert [result[k] for k in ("tp", "fn", "fp", "tn")] == [1, 1, 1, 2]
    assert [result[k] for k in ("f1", "precision", "recall")] == [0.5, 0.5, 0.5]
    assert result["accuracy"] == 0.6
    # One of three controls is 33 %: finer rates are not resolvable.
    assert result["tpr_at_fpr"] == {"0.1": None, "0.01": None, "0.001": None}
    json.dumps(result, allow_nan=False)


def test_without_a_threshold_there_is_no_confusion():
    assert "tp" not in score_file([1, 0], [1, 0], seed=1)


def test_unscored_rows_are_left_out_of_every_number():
    result = score_file([3, math.nan, 1, math.nan], [1, 1, 0, 0], threshold=2.0, seed=1)
    assert (result["n_members"], result["n_controls"], result["n_not_scored"]) == (1, 1, 2)
    assert [result[k] for k in ("tp", "fn", "fp", "tn")] == [1, 0, 0, 1]


def test_undefined_precision_is_none():
    result = score_file([1, 0], [1, 0], threshold=5.0, seed=1)
    assert result["precision"] is None
    assert result["f1"] == 0.0


@pytest.mark.parametrize(
    ("scores", "truth", "what"),
    [([1, 2], [1, 1], "controls"), ([1, math.nan], [0, 1], "members"), ([], [], "members")],
)
def test_a_file_with_one_kind_of_rows_is_refused_in_words(scores, truth, what):
    with pytest.raises(AuditError, match=f"no {what} with a score"):
        score_file(scores, truth, seed=1)


@pytest.mark.skipif(not LOSSES.is_dir(), reason="the shared data folder is not beside the checkout")
def test_published_losses_give_the_known_numbers():
    columns = {path.stem: np.loadtxt(path) for path in LOSSES.glob("*.txt")}
    members = columns["members_reference"] - columns["members_target"]
    controls = columns["nonmembers_reference"] - columns["nonmembers_target"]
    scores = np.concatenate([members, controls])
    result = score_file(scores, np.arange(len(scores)) < len(members), threshold=0.0, seed=1)
    assert result["auc"] == pytest.approx(0.928009, abs=5e-7)
    assert result["auc_low"] < result["auc"] < result["auc_high"]
    assert result["tpr_at_fpr"] == pytest.approx(
        {"0.1": 0.8099, "0.01": 0.6045, "0.001": 0.3721}, abs=5e-5
    )
    assert [result[k] for k in ("tp", "fn", "fp", "tn")] == [13701, 282, 1054, 664]
    assert result["f1"] == pytest.approx(0.954, abs=5e-4)
