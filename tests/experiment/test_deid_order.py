from __future__ import annotations

import json

import pytest

from audit.errors import AuditError
from audit.experiment.leakage_tables import LeakageOrder, leakage_order_from_json, quick


def test_an_order_survives_json():
    order = LeakageOrder(language="ja", taggers=("rules",), shares=(0.2,), scenarios=(2, 1))
    assert leakage_order_from_json(json.loads(json.dumps(order.to_json()))) == order


def test_raw_and_perfect_come_first_and_every_share_is_missed_in_both_ways():
    codes = [arm.code for arm in LeakageOrder(taggers=("rules",), shares=(0.01, 0.5)).arms]
    assert codes == [
        "raw", "perfect", "tagger rules", "mentions 1 %", "mentions 50 %", "patients 1 %",
        "patients 50 %",
    ]  # fmt: skip


def test_the_quick_form_asks_less_of_the_same_taggers():
    order = LeakageOrder(taggers=("rules",), language="ja", seed=5)
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
        LeakageOrder(**wrong)
    assert refused.value.where == where


@pytest.mark.parametrize("wrong", [{}, {"language": "en"}, {**LeakageOrder().to_json(), "x": 1}])
def test_an_order_of_another_kind_is_refused(wrong):
    with pytest.raises(AuditError, match="cannot be read"):
        leakage_order_from_json(wrong)
