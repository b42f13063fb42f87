from __future__ import annotations

import json

import pytest

from audit.errors import AuditError
from audit.experiment.leakage_tables import LeakageTask, quick


def test_an_order_survives_json():
    order = LeakageTask(language="ja", taggers=("rules",), shares=(0.2,), scenarios=(2, 1))
    assert LeakageTask.ordered(json.loads(json.dumps(order.plain()))) == order


def test_raw_and_perfect_come_first_and_every_share_is_missed_in_both_ways():
    codes = [arm.code for arm in LeakageTask(taggers=("rules",), shares=(0.01, 0.5)).arms]
    assert codes == [
        "raw", "perfect", "tagger rules", "mentions 1 %", "mentions 50 %", "patients 1 %",
        "patients 50 %",
    ]  # fmt: skip


def test_the_quick_form_asks_less_of_the_same_taggers():
    order = LeakageTask(taggers=("rules",), language="ja", seed=5)
    short = quick(order)
    assert (short.taggers, short.language, short.seed) == (("rules",), "ja", 5)
    assert len(short.arms) < len(order.arms)
    assert short.epochs < order.epochs


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"language": "fr"}, "language"),
        ({"mode": "blur"}, "mode"),
        ({"device": "tpu"}, "device"),
        ({"shares": (0.5, 0.1)}, "shares"),
        ({"shares": (0.0,)}, "shares"),
        ({"shares": (1.0,)}, "shares"),
        ({"shares": (float("nan"),)}, "shares"),
        ({"units": ("words",)}, "units"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": float("inf")}, "epochs"),
        ({"scenarios": ()}, "scenario"),
        ({"scenarios": (3,)}, "scenario"),
        ({"scenarios": (2, 2)}, "tagger or scenario"),
        ({"taggers": ("rules", "rules")}, "tagger or scenario"),
        ({"n_inputs": 0}, "inputs"),
        ({"n_documents": 0}, "documents"),
    ],
)
def test_what_cannot_be_is_refused(wrong, where):
    with pytest.raises(AuditError) as refused:
        LeakageTask(**wrong)
    assert where in refused.value.where


@pytest.mark.parametrize("wrong", [{"language": 1}, {**LeakageTask().plain(), "x": 1}])
def test_an_order_of_another_kind_is_refused(wrong):
    with pytest.raises(AuditError, match="cannot be read"):
        LeakageTask.ordered(wrong)
