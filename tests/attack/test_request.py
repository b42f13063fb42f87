"""Questions: what their digest hangs on, what is refused, and their way through a file."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.question import (
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    question_digest,
)
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.notes.passages import read_passages
from tests.small_audit import Models, models

__all__ = ["models"]

NAMES = make_candidates(
    [("Mary", "Smith"), ("", "佐藤")], is_member=True, n_mentions=[3, None]
) + make_candidates([("Al", "Bo")], is_member=False, control_kind="easy")
PASSAGES = read_passages(
    b"text,first_name,last_name\nmr [NAME] was seen,Mary,Smith\n[FIRST] [LAST] is well,,\nno,,\n"
)
OTHER: dict[str, dict[str, Any]] = {
    "generation": {
        "n_documents": 9_999,
        "n_steps": 499,
        "n_tokens": 31,
        "top_k": 99,
        "temperature": 1.5,
        "prompt": "mr [MASK]",
        "is_remasked": False,
    },
    "posterior": {
        "n_inputs": 9_999,
        "n_chain_inputs": 0,
        "is_dropout_on": False,
        "micro_batch": 31,
        "max_tokens": 128,
        "max_chain_rows": 99,
        "is_sequential": True,
    },
}


def request_of(models: Models, scenario: int = 1, **changes: Any) -> AuditRequest:
    request = AuditRequest(
        scenario_number=scenario,
        general=models.general,
        hospital=models.hospital,
        candidates=NAMES,
        passages=PASSAGES,
    )
    return request.with_(**changes)


def digest(request: AuditRequest) -> str:
    return question_digest(request.question())


@pytest.mark.parametrize("scenario", [1, 2])
def test_every_part_of_a_question_changes_its_digest_and_nothing_else_does(
    models: Models, scenario: int, tmp_path: Path
) -> None:
    request = request_of(models, scenario)
    copy = shutil.copytree(models.hospital, tmp_path / "a copy elsewhere")
    other_passages = read_passages(b"text\nmr [NAME] was ill\n")
    same: list[dict[str, Any]] = [
        {},
        {"device": "cpu"},
        {"device": "cuda"},
        {"hospital": copy},
        *({"passages": passages} for passages in (other_passages, None) if scenario == 1),
    ]
    changed: list[dict[str, Any]] = [
        {"seed": 1},
        {"dtype": "bfloat16"},
        {"candidates": NAMES.rows([1, 0, 2])},
        {"candidates": NAMES.rows([0])},
        {"scenario_number": 3 - scenario},
        {"hospital": models.other_hospital},
        {"general": models.hospital, "hospital": models.general},
        *({"passages": passages} for passages in (other_passages,) if scenario == 2),
    ]
    for number, (kind, values) in enumerate(OTHER.items(), start=1):
        usual = getattr(request, kind)
        assert set(values) == set(type(usual).model_fields)
        # Settings of the other scenario are no part of the question.
        (changed if number == scenario else same).extend(
            {kind: usual.with_(**{name: value})} for name, value in values.items()
        )
    assert {digest(request.with_(**change)) for change in same} == {digest(request)}
    digests = {digest(request.with_(**change)) for change in changed}
    assert len(digests) == len(changed) and digest(request) not in digests
    assert request.audit_digest() == digest(request) and len(digest(request)) == 64


def test_every_column_of_a_list_changes_its_digest() -> None:
    base = make_candidates([("A", "B"), ("C", "D")], is_member=False, control_kind="easy")
    other_values: dict[str, tuple[Any, ...]] = {
        "first": ("A", "X"),
        "last": ("B", "X"),
        "control_kind": ("easy", "hard"),
        "role": ("", "staff"),
        "sex": ("", "F"),
        "n_mentions": (None, 1),
        "row": (2, 4),
        "is_kind_guessed": (False, True),
        "is_recased": (True, False),
        "control_source": ("own", "own"),
        "n_others_first": (1, None),
        "n_others_last": (None, 0),
    }
    changed = [replace(base, **{name: column}) for name, column in other_values.items()]
    changed.append(replace(base, is_member=(False, None), control_kind=("easy", "")))
    assert {*other_values, "is_member"} == {f.name for f in fields(Candidates)}
    digests = {names.digest() for names in (base, *changed)}
    assert len(digests) == 1 + len(changed)
    names, moved = make_candidates([("Ann", "Lee")]), make_candidates([("An", "nLee")])
    assert names.digest() != moved.digest()


def test_a_question_is_plain_json_without_names_or_paths(models: Models) -> None:
    request = request_of(models, 2)
    question = request.question()
    text = json.dumps(question)
    assert not any(
        secret in text for secret in ("Mary", "Smith", "well", str(models.other_hospital))
    )
    assert [question[key] for key in ("scenario", "n_rows_left_out", "seed")] == [2, 1, 0]
    assert question["settings"] == PosteriorSettings().plain()
    assert (request.scenario.number, request.scenario.resource) == (2, "{ D_public }")


@pytest.mark.parametrize("scenario", [1, 2])
def test_one_model_twice_is_no_question(models: Models, scenario: int) -> None:
    request = request_of(models, scenario)
    with pytest.raises(AuditError, match="M_general and M_hospital are the same model"):
        request.with_(hospital=request.general).question()
    with pytest.raises(AuditError, match="the same model"):
        request.question(digest_of=lambda folder: "one digest")


def asked_of(**changes: Any) -> AuditRequest:
    return request_of(Models(Path("g"), Path("h"), Path("o")), **changes)


@pytest.mark.parametrize(
    ("make", "changes", "reason"),
    [
        (asked_of, {"scenario_number": 3}, "scenario: must be a whole number from 1 to 2"),
        (asked_of, {"scenario_number": 2, "passages": None}, "passages: Scenario 2 needs"),
        (asked_of, {"candidates": NAMES.rows([])}, "names: The list has no names"),
        (asked_of, {"dtype": "int8"}, "dtype: must be 'auto', 'float32' or 'bfloat16'"),
        (asked_of, {"device": "tpu"}, "device: must be 'auto', 'cpu' or 'cuda'"),
        *((asked_of, {"seed": n}, "seed: must be a whole number") for n in (-1, 2**63, True, 1.0)),
        *(
            (GenerationSettings, {name: n}, f"{field}: must be a whole number")
            for name, field, n in (
                ("n_documents", "documents", 0),
                ("n_steps", "steps", 0),
                ("n_steps", "steps", 2.5),
                ("n_tokens", "tokens", 2),
                ("top_k", "top k", 0),
            )
        ),
        *(
            (GenerationSettings, {"temperature": t}, "temperature: must be (more than 0|a finite)")
            for t in (0.0, math.nan, math.inf)
        ),
        *((GenerationSettings, {"prompt": p}, r"prompt: has no \[MASK\]") for p in ("[mask]", "")),
        *(
            (PosteriorSettings, {name: n}, f"{field}: must be a whole number")
            for name, field, n in (
                ("n_inputs", "inputs", 0),
                ("n_chain_inputs", "chain inputs", -1),
                ("micro_batch", "micro-batch", 0),
                ("max_chain_rows", "max chain rows", -1),
                ("max_tokens", "max tokens", 11),
            )
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(
    make: Callable[..., Any], changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AuditError, match=reason):
        make(**changes)


# --- through a file ---


def full_request(**changes: Any) -> AuditRequest:
    options = asked_of(
        scenario=2,
        generation=GenerationSettings(n_documents=7, temperature=0.5),
        posterior=PosteriorSettings(n_inputs=9, is_dropout_on=False),
        seed=2**62,
        dtype="bfloat16",
        device="cpu",
    )
    return options.with_(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scenario_number": 1, "passages": None, "device": "auto"},
        {"passages": read_passages(b'{"text": "[NAME] x", "name_id": 1}', file_name="a.jsonl")},
    ],
)
def test_a_request_comes_back_as_it_was(changes: dict[str, Any]) -> None:
    request = full_request(**changes)
    again = AuditRequest.read(request.to_bytes(), where="request")
    assert repr(again) == repr(request)
    assert again.candidates.digest() == request.candidates.digest()


@given(names=st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_any_name_comes_back(names: list[tuple[str, str]]) -> None:
    test_a_request_comes_back_as_it_was({"candidates": make_candidates(names)})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 2),
        ("extra", 1),
        ("general", None),
        ("device", "tpu"),
        ("scenario_number", True),
        ("threshold", 0.5),
        ("dtype", ["float32"]),
        ("candidates.first", ["Mary"]),
        ("candidates.first.0", 3),
        ("candidates.is_member.0", 1),
        ("candidates.n_mentions.0", 1.5),
        ("candidates.extra", []),
        ("passages.notes.0", {"row": 1}),
        ("passages.passages.0.owner", ["a"]),
        ("passages.passages.0.slots", [1]),
        ("passages.passages", [[]]),
        ("generation", []),
        ("posterior.n_inputs", 0),
        ("posterior.n_inputs", "9"),
    ],
)
def test_what_is_no_request_is_refused_without_a_name(path: str, value: object) -> None:
    plain: Any = json.loads(full_request().to_bytes())
    place, steps = plain, [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps[:-1]:
        place = place[step]
    place[steps[-1]] = value
    with pytest.raises(AuditError) as refused:
        AuditRequest.read(json.dumps(plain), where="request")
    assert not any(part in str(refused.value) for part in ("Mary", "Smith"))
    with pytest.raises(AuditError, match="request"):
        AuditRequest.read(json.dumps([None]), where="request")
