"""Requests as JSON: the same question comes back, and nothing else does."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.question import (
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
)
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.notes.passages import read_passages
from audit.run import run_audit
from cache.store import Store
from tests.models.make_models import WORDS, make_bert

PASSAGES = b"""text,first_name,last_name
mr [NAME] was seen,Mary,Smith
[FIRST] [LAST] is well,,
nothing here,,
"""


def request_of(candidates: Candidates | None = None, **changes: Any) -> AuditRequest:
    names = make_candidates(
        [("Mary", "Smith"), ("", "佐藤")], is_member=True, n_mentions=[3, None]
    ) + make_candidates([("Al", "Bo")], is_member=False, control_kind="easy", popularity=[0.25])
    return AuditRequest(
        **{
            "scenario_number": 2,
            "general": Path("/models/general"),
            "hospital": Path("/models/hospital"),
            "candidates": candidates or names,
            "passages": read_passages(PASSAGES),
            "generation": GenerationSettings(n_documents=7, temperature=0.5),
            "posterior": PosteriorSettings(n_inputs=9, is_dropout_on=False),
            "seed": 2**62,
            "threshold": 0.1,
            "dtype": "bfloat16",
            "device": "cpu",
        }
        | changes
    )


def through_file(request: AuditRequest) -> AuditRequest:
    return AuditRequest.read(request.written(), where="request")


def same(one: AuditRequest, other: AuditRequest) -> bool:
    plain, again = dict(vars(one)), dict(vars(other))
    columns, others = plain.pop("candidates"), again.pop("candidates")
    return plain == again and repr(columns) == repr(others)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scenario_number": 1, "passages": None, "threshold": None, "device": "auto"},
        {"passages": read_passages(b'{"text": "[NAME] x", "name_id": 1}', file_name="a.jsonl")},
    ],
)
def test_a_request_comes_back_as_it_was(changes: dict[str, Any]) -> None:
    request = request_of(**changes)
    again = through_file(request)
    assert same(again, request)
    assert again.candidates.digest() == request.candidates.digest()
    if request.passages:
        assert again.passages is not None
        assert again.passages.digest() == request.passages.digest()


@given(
    names=st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1, max_size=5),
    popularity=st.floats(0, 1) | st.just(math.nan),
)
@settings(max_examples=50, deadline=None)
def test_any_name_comes_back(names: list[tuple[str, str]], popularity: float) -> None:
    candidates = make_candidates(names, popularity=[popularity] * len(names))
    again = through_file(request_of(candidates)).candidates
    assert repr(again) == repr(candidates)


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    plain = copy.deepcopy(json.loads(request_of().written()))
    place: Any = plain
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return plain  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("extra",), 1),
        (("general",), None),
        (("device",), "tpu"),
        (("scenario_number",), True),
        (("threshold",), "0"),
        (("dtype",), ["float32"]),
        (("candidates", "first"), ["Mary"]),
        (("candidates", "first", 0), 3),
        (("candidates", "is_member", 0), 1),
        (("candidates", "n_mentions", 0), 1.5),
        (("candidates", "extra"), []),
        (("passages", "notes", 0), {"row": 1}),
        (("passages", "passages", 0, "owner"), ["a"]),
        (("passages", "passages", 0, "slots"), [1]),
        (("passages", "passages"), [[]]),
        (("generation",), []),
        (("posterior", "n_inputs"), 0),
        (("posterior", "n_inputs"), "9"),
    ],
)
def test_what_is_no_request_is_refused(path: tuple[str | int, ...], value: object) -> None:
    with pytest.raises(AuditError) as refused:
        AuditRequest.read(json.dumps(changed(path, value)), where="request")
    assert "Mary" not in str(refused.value)
    assert "Smith" not in str(refused.value)


@pytest.mark.parametrize("value", [None, [], "x", {}, {"version": 1}])
def test_what_is_not_even_an_object_is_refused(value: object) -> None:
    with pytest.raises(AuditError, match="request"):
        AuditRequest.read(json.dumps(value), where="request")


def test_the_digest_is_that_of_the_audit(tmp_path: Path) -> None:
    request = request_of(
        general=make_bert(tmp_path / "general", seed=1, words=WORDS),
        hospital=make_bert(tmp_path / "hospital", seed=2, words=WORDS),
        candidates=make_candidates([("mary", "smith"), ("john", "brown")]),
        posterior=PosteriorSettings(n_inputs=20, n_chain_inputs=0),
        dtype="float32",
    )
    with Store(tmp_path / "results") as store:
        report = run_audit(through_file(request), store=store)
    assert request.audit_digest() == report.digest
