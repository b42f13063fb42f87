from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path

import pytest

from audit.attack.question import (
    DEFAULT_PROMPT,
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    question_digest,
)
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.notes.passages import read_passages
from tests.models.make_models import make_bert

NAMES = make_candidates([("John", "Smith"), ("Mary", "Jones")], is_member=True)
PASSAGES = read_passages(b"text\nmr [NAME] was seen\n[NAME] is a patient\n")
OTHER_GENERATION = {
    "n_documents": 9_999, "n_steps": 499, "n_tokens": 31, "top_k": 99, "temperature": 1.5,
    "prompt": "mr [MASK]", "is_remasked": False,
}  # fmt: skip
OTHER_POSTERIOR = {
    "n_inputs": 9_999, "n_chain_inputs": 0, "is_dropout_on": False, "micro_batch": 31,
    "max_tokens": 128,
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    return make_bert(folder / "general"), make_bert(folder / "hospital", seed=1)


def request_of(folders: tuple[Path, Path], scenario: int = 1, **changes) -> AuditRequest:
    request = AuditRequest(
        scenario_number=scenario, general=folders[0], hospital=folders[1], candidates=NAMES,
        passages=PASSAGES,
    )  # fmt: skip
    return request.with_(**changes)


def digest(request: AuditRequest) -> str:
    return question_digest(request.question())


def test_the_same_question_has_the_same_digest(folders):
    assert digest(request_of(folders)) == digest(request_of(folders))
    assert len(digest(request_of(folders))) == 64


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_device_is_no_part_of_the_question(folders, scenario):
    digests = {digest(request_of(folders, scenario, device=d)) for d in ("auto", "cpu", "cuda")}
    assert len(digests) == 1


@pytest.mark.parametrize("scenario", [1, 2])
@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1}, {"threshold": 0.0}, {"threshold": 0.5}, {"dtype": "bfloat16"},
        {"candidates": NAMES.rows([1, 0])}, {"candidates": NAMES.rows([0])},
    ],
    ids=str,
)  # fmt: skip
def test_every_part_of_a_request_changes_its_digest(folders, scenario, changes):
    assert digest(request_of(folders, scenario)) != digest(request_of(folders, scenario, **changes))


def test_every_setting_changes_the_digest_of_its_own_scenario_alone(folders):
    for scenario, settings, other, name in (
        (1, GenerationSettings(), OTHER_GENERATION, "generation"),
        (2, PosteriorSettings(), OTHER_POSTERIOR, "posterior"),
    ):
        assert set(other) == set(type(settings).model_fields)
        for field, value in other.items():
            changed = {name: settings.with_(**{field: value})}
            before, after = (
                digest(request_of(folders, scenario, **c)) for c in ({name: settings}, changed)
            )
            assert before != after, field
            elsewhere = 3 - scenario
            assert digest(request_of(folders, elsewhere)) == digest(
                request_of(folders, elsewhere, **changed)
            )


def test_scenario_models_and_their_roles_change_the_digest(folders, tmp_path):
    general, hospital = folders
    other = make_bert(tmp_path / "hospital", seed=2)
    digests = [
        digest(request_of(folders)),
        digest(request_of(folders, 2)),
        digest(request_of((hospital, general))),
        digest(request_of((general, other))),
    ]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("scenario", [1, 2])
def test_one_model_twice_is_no_question(folders, tmp_path, scenario):
    copy = make_bert(tmp_path / "copy")
    for hospital in (folders[0], copy):
        request = request_of((folders[0], hospital), scenario)
        with pytest.raises(AuditError, match="M_general and M_hospital are the same model"):
            request.question()
        with pytest.raises(AuditError, match="the same model"):
            request.question(digest_of=lambda folder: "one digest")


def test_a_copy_of_a_model_elsewhere_is_the_same_model(folders, tmp_path):
    copy = make_bert(tmp_path / "another-name", seed=1)
    assert digest(request_of(folders)) == digest(request_of((folders[0], copy)))


def test_passages_are_part_of_the_question_in_scenario_2_alone(folders):
    other = read_passages(b"text\nmr [NAME] was ill\n")
    assert digest(request_of(folders, 2)) != digest(request_of(folders, 2, passages=other))
    assert digest(request_of(folders)) == digest(request_of(folders, passages=other))
    assert digest(request_of(folders)) == digest(request_of(folders, passages=None))


def test_every_column_of_a_list_changes_its_digest():
    base = make_candidates([("A", "B"), ("C", "D")], is_member=False, control_kind="easy")
    other: dict[str, tuple] = {
        "first": ("A", "X"), "last": ("B", "X"), "control_kind": ("easy", "hard"),
        "role": ("", "staff"), "sex": ("", "F"), "n_mentions": (None, 1), "popularity": (0.5, 0.5),
        "row": (2, 4), "is_kind_guessed": (False, True),
    }  # fmt: skip
    changed = [replace(base, **{name: column}) for name, column in other.items()]
    changed.append(replace(base, is_member=(False, None), control_kind=("easy", "")))
    assert {*other, "is_member"} == {f.name for f in fields(Candidates)}
    digests = {names.digest() for names in (base, *changed)}
    assert len(digests) == 1 + len(changed)


def test_rows_that_only_count_the_names_add_nothing_to_the_digest():
    base = make_candidates([("A", "B"), ("C", "D")])
    assert replace(base, row=(2, 3)).digest() == base.digest()
    assert replace(base, row=(2, None)).digest() != base.digest()


def test_a_part_that_moves_to_its_neighbour_changes_the_digest():
    one, other = make_candidates([("Ann", "Lee")]), make_candidates([("An", "nLee")])
    assert one.digest() != other.digest()


def test_a_question_is_plain_json_without_names_or_paths(folders):
    question = request_of(folders, 2, threshold=0.5).question()
    text = json.dumps(question)
    for secret in ("John", "Smith", "patient", str(folders[0].parent)):
        assert secret not in text


def test_defaults_are_those_of_the_paper():
    generation, posterior = GenerationSettings(), PosteriorSettings()
    assert (generation.n_documents, generation.n_steps, generation.n_tokens) == (10_000, 500, 32)
    assert (generation.top_k, generation.temperature, generation.is_remasked) == (100, 1.0, True)
    assert DEFAULT_PROMPT.count("[MASK]") == 6
    assert (posterior.n_inputs, posterior.is_dropout_on) == (10_000, True)
    assert posterior.n_chain_inputs == 200


def test_a_request_knows_its_scenario_and_settings(folders):
    for number, settings in ((1, GenerationSettings()), (2, PosteriorSettings())):
        request = request_of(folders, number)
        assert request.scenario.number == number
        assert request.settings == settings


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scenario_number": 3}, "scenario: must be 1 or 2"),
        ({"scenario_number": 2, "passages": None}, "passages: Scenario 2 needs the passages"),
        ({"candidates": NAMES.rows([])}, "names: The list has no names"),
        ({"dtype": "int8"}, "dtype: is unknown"),
        ({"seed": -1}, "seed: must be a whole number"),
        ({"seed": 2**63}, "seed: must be a whole number"),
        ({"seed": True}, "seed: must be a whole number"),
        ({"seed": 1.0}, "seed: must be a whole number"),
    ],
)
def test_a_request_that_cannot_be_asked_is_refused(changes, reason):
    with pytest.raises(AuditError, match=reason):
        request_of((Path("g"), Path("h")), **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_documents": 0}, "documents: must be a whole number"),
        ({"n_steps": 0}, "steps: must be a whole number"),
        ({"n_steps": 2.5}, "steps: must be a whole number"),
        ({"n_tokens": 2}, "tokens: must be a whole number"),
        ({"top_k": 0}, "top k: must be a whole number"),
        ({"temperature": 0.0}, "temperature: must be above 0"),
        ({"temperature": math.nan}, "temperature: must be above 0"),
        ({"temperature": math.inf}, "temperature: must be above 0"),
        ({"prompt": "mr [mask]"}, r"prompt: has no \[MASK\]"),
        ({"prompt": ""}, r"prompt: has no \[MASK\]"),
    ],
)
def test_settings_of_scenario_1_that_no_run_can_have_are_refused(changes, reason):
    with pytest.raises(AuditError, match=reason):
        GenerationSettings(**changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_inputs": 0}, "inputs: must be a whole number"),
        ({"n_chain_inputs": -1}, "chain inputs: must be a whole number"),
        ({"micro_batch": 0}, "micro-batch: must be a whole number"),
        ({"max_tokens": 11}, "max tokens: must be a whole number"),
    ],
)
def test_settings_of_scenario_2_that_no_run_can_have_are_refused(changes, reason):
    with pytest.raises(AuditError, match=reason):
        PosteriorSettings(**changes)
