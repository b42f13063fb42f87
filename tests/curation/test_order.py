"""Orders of corpora: checked once, the same after JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.corpus.make import CorpusTask
from audit.errors import AuditError


def test_an_order_survives_json() -> None:
    order = CorpusTask(
        notes=Path("n.csv"),
        columns=(("text", "body"),),
        register_id="notes/r.csv",
        sample=5,
        canary_counts=(1, 8),
        tokenizer=Path("model"),
        title="T",
        has_left=True,
    )
    assert CorpusTask.ordered(json.loads(json.dumps(order.plain()))) == order
    assert order.kind == "register"
    for wrong in ({}, {**order.plain(), "more": 1}, {**order.plain(), "columns": 3}):
        with pytest.raises(AuditError):
            CorpusTask.ordered(wrong)


@pytest.mark.parametrize(
    "choices",
    [
        {"file_id": "a"},
        {"notes": None},
        {"kind": "other"},
        {"kind": "register"},
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
        CorpusTask(**{"notes": Path("n.csv"), **choices})
