"""Orders of corpora: checked once, the same after JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.corpus.make import CorpusOrder, order_from_json, order_to_json, without_title
from audit.errors import AuditError


def test_an_order_survives_json() -> None:
    order = CorpusOrder(
        notes=Path("n.csv"),
        columns=(("text", "body"),),
        kind="register",
        register_id="notes/r.csv",
        sample=5,
        canary_counts=(1, 8),
        tokenizer=Path("model"),
        title="T",
        has_left=True,
    )
    assert order_from_json(json.loads(json.dumps(order_to_json(order)))) == order
    assert without_title(order) == without_title(CorpusOrder(**{**vars(order), "title": "U"}))
    for wrong in ({}, {**order_to_json(order), "more": 1}, {**order_to_json(order), "columns": 3}):
        with pytest.raises(AuditError):
            order_from_json(wrong)


@pytest.mark.parametrize(
    "choices",
    [
        {"file_id": "a"},
        {"notes": None},
        {"kind": "other"},
        {"kind": "register"},
        {"register": Path("r.csv")},
        {"columns": (("text", "a"), ("text", "b"))},
        {"columns": (("body", "a"),)},
        {"seed": -1},
        {"seed": True},
        {"n_workers": 0},
        {"sample": 0},
        {"canary_counts": (1, 1)},
        {"canary_counts": (0,)},
        {"canary_counts": tuple(range(1, 15))},
        {"n_canaries": -1},
        {"language": "fr"},
        {"title": "t" * 81},
    ],
)
def test_what_cannot_be_made_is_refused(choices: dict[str, Any]) -> None:
    with pytest.raises(AuditError):
        CorpusOrder(**{"notes": Path("n.csv"), **choices})
