"""Scenario 2 from end to end: `run_audit` on a small pair of models."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.attack.posterior import draw_inputs
from audit.attack.question import AuditRequest, PosteriorSettings
from audit.attack.scenarios import add_references
from audit.models.load import load_pair
from audit.names.candidates import Candidates, make_candidates
from audit.names.pools import us_pool
from audit.notes.passages import Passages, read_passages
from audit.report.report import AuditReport
from audit.run import run_audit
from cache.store import Store
from tests.reference_masking import (
    PART_SCORES,
    SCORES,
    can_be_scored,
    log_by_role,
    log_chain,
    log_product,
    make_task,
    part_scores,
    plain_model,
    score_with_error,
    slow_parts,
)
from tests.small_audit import Models, models

__all__ = ["models"]
FIRSTS, LASTS = us_pool().first[:60], us_pool().last[:60]
MEMBERS = [(FIRSTS[k], LASTS[k]) for k in range(6)]
CONTROLS = [(FIRSTS[k], LASTS[k]) for k in range(10, 16)]
UNKNOWN = ("Zq", LASTS[3])
LISTED = (
    make_candidates(MEMBERS, is_member=True, n_mentions=[1, 1, 2, 3, 5, 12])
    + make_candidates(CONTROLS, is_member=False, control_kind="easy")
    + make_candidates([UNKNOWN], is_member=True)
    + make_candidates([("", LASTS[8])], is_member=False, control_kind="given")
)


def passages_of(*records: dict[str, Any]) -> Passages:
    return read_passages("\n".join(map(json.dumps, records)).encode())


PASSAGES = passages_of(
    {"text": "[NAME] was seen by dr jones for pain.", "name_id": 0},
    {"text": "the patient [NAME] was in pain.", "name_id": 1},
    {"text": "[FIRST] [LAST] was seen.", "name_id": 2},
    {"text": "in and of [LAST], [FIRST] was seen by [HOSPITAL].", "name_id": 12},
    {"text": "mrs [NAME] was seen."},
)


@pytest.fixture(scope="module")
def folders(models: Models) -> dict[str, Path]:
    return {"hospital": models.hospital, "general": models.general}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


def request_of(
    folders: dict[str, Path],
    *,
    candidates: Candidates = LISTED,
    passages: Passages = PASSAGES,
    **settings: Any,
) -> AuditRequest:
    fixed_settings = {
        "n_inputs": 230,
        "n_chain_inputs": 20,
        "is_dropout_on": False,
        "micro_batch": 64,
    }
    return AuditRequest(
        scenario_number=2,
        candidates=candidates,
        passages=passages,
        seed=5,
        device="cpu",
        dtype="float32",
        posterior=PosteriorSettings(**{**fixed_settings, **settings}),
        **folders,
    )


def numbers(report: AuditReport, column: str) -> list[float]:
    return [math.nan if x is None else float(x) for x in report.names[column]]


@pytest.fixture(scope="module")
def report(folders: dict[str, Path], store: Store) -> AuditReport:
    return run_audit(request_of(folders), store=store)


def test_every_score_of_whole_names_is_the_slow_references(
    report: AuditReport, folders: dict[str, Path]
) -> None:
    passages = PASSAGES.passages
    plain = {model: plain_model(folders[model]) for model in folders}
    names = list(zip(LISTED.first, LISTED.last, strict=True))
    task = make_task(plain["hospital"].tokenizer, passages, names, seed=5)
    log_p = {"": log_product, "chain_": log_chain}
    draws = {
        "": draw_inputs(task, first=0, n_inputs=230),
        "chain_": draw_inputs(task, first=0, n_inputs=20, purpose="chain inputs"),
    }
    for row, name in enumerate(names):
        is_known = can_be_scored(plain["hospital"], passages, name)
        assert is_known == (name != UNKNOWN)
        for prefix, log_of in log_p.items():
            logs = {
                model[0]: [
                    log_of(plain[model], p, name) if is_known else math.nan for p in passages
                ]
                for model in plain
            }
            inputs = [
                {f"l_{model}": logs[model][p] for model in "hg"}
                | {f"p_{model}": math.exp(logs[model][p]) for model in "hg"}
                for block in draws[prefix]
                for p in block
            ]
            for score, statistic in SCORES.items():
                value = statistic(inputs)
                audit_score = numbers(report, prefix + score)[row]
                largest = max(max(math.exp(x) for x in side) for side in logs.values())
                is_log = score in ("log_ratio", "mean_log_ratio", "general_mean_log")
                allowed = {"abs": 1e-6 if is_log else 1e-6 * largest, "rel": 1e-6, "nan_ok": True}
                assert audit_score == pytest.approx(value, **allowed)


PartAt = tuple[str, str, bool]
"""Role and text of a part of one piece, and whether another part stands beside it."""


def parts_at(names: Candidates) -> tuple[dict[PartAt, int], list[tuple[str, str]], list[list[int]]]:
    """Number the parts of all names, with an example of each; and the listed names' parts [N][2].

    All are of one piece, so that a part's masks are told by its role and by whether it is alone.
    """
    columns: dict[PartAt, int] = {}
    example: list[tuple[str, str]] = []
    of_name: list[list[int]] = [[-1, -1] for _ in range(len(LISTED))]
    for row, name in enumerate(zip(names.first, names.last, strict=True)):
        for k, role in enumerate(("first", "last")):
            if not name[k] or name == UNKNOWN:
                continue
            key = (role, name[k].lower(), all(name))
            if key not in columns:
                columns[key] = len(columns)
                example.append(name)
            if row < len(LISTED):
                of_name[row][k] = columns[key]
    return columns, example, of_name


@pytest.mark.long
def test_scores_by_part_and_the_error_of_the_fixed_one_are_the_slow_references(
    report: AuditReport, folders: dict[str, Path]
) -> None:
    passages, pool = PASSAGES.passages, us_pool()
    plain = {model[0]: plain_model(folders[model]) for model in folders}
    pair = load_pair(folders["general"], folders["hospital"])
    names = add_references(request_of(folders), pair, pool=pool)  # listed ones, then controls
    columns, example, of_name = parts_at(names)
    logs = {
        model: [
            [log_by_role(plain[model], passage, name)[role] for passage in passages]
            for (role, _, _), name in zip(columns, example, strict=True)
        ]
        for model in plain
    }
    shares = {"first": pool.first_shares, "last": pool.last_shares}
    log_share = [math.log(shares[role][text]) for role, text, _ in columns]
    is_last = [role == "last" for role, _, _ in columns]

    def parts_after(inputs: list[int]) -> list[tuple[float, float]]:
        """Each part's residual and centred shift on these inputs, and at the end what none has."""
        h, g = (
            [sum(of_part[p] for p in inputs) / len(inputs) for of_part in logs[model]]
            for model in "hg"
        )
        part_scores = slow_parts(
            h,
            g,
            is_last=is_last,
            log_share=log_share,
            n_pieces=[1] * len(columns),
            is_known=[True] * len(columns),
        )
        return [*part_scores, (math.nan, math.nan)]

    def scores_after(inputs: list[int]) -> np.ndarray:
        values_of_parts = parts_after(inputs)
        by_name = [part_scores(*(values_of_parts[k] for k in pair_of)) for pair_of in of_name]
        return np.array([[name_scores[name] for name in PART_SCORES] for name_scores in by_name])

    task = make_task(
        plain["h"].tokenizer, passages, list(zip(LISTED.first, LISTED.last, strict=True)), seed=5
    )
    blocks = [block.tolist() for block in draw_inputs(task, first=0, n_inputs=230)]
    value, error = score_with_error(scores_after, blocks)
    close = {"rtol": 1e-3, "atol": 1e-3}  # float32 evidence, divided by a small scale
    for column, name in enumerate(PART_SCORES):
        np.testing.assert_allclose(numbers(report, name), value[:, column], **close, err_msg=name)
    assert report.fixed_score == PART_SCORES[0] == "residual"
    np.testing.assert_array_equal(numbers(report, "score"), numbers(report, "residual"))
    np.testing.assert_allclose(numbers(report, "standard_error"), error[:, 0], **close)
    by_part = parts_after([p for block in blocks for p in block])
    for k, column in enumerate(("first_residual", "last_residual")):
        expected = [by_part[pair_of[k]][0] for pair_of in of_name]
        np.testing.assert_allclose(numbers(report, column), expected, **close)


def test_a_name_that_cannot_be_spelled_has_no_number_anywhere_and_is_counted(
    report: AuditReport,
) -> None:
    about = {
        "name_id",
        "first_name",
        "last_name",
        "is_member",
        "control_kind",
        "role",
        "n_mentions",
        "popularity",
        "n_pieces",
        "threshold",
        "is_unmatched",
    }
    left = {column: report.names[column][12] for column in report.names if column not in about}
    assert left.pop("decision") == "not scored" and left.pop("is_undecided") is False
    assert "chain_log_ratio" in left
    assert set(left.values()) == {None}
    assert "1 of 14 names could not be scored." in report.notes


def test_a_name_with_too_few_comparable_controls_has_a_score_and_is_not_judged(
    report: AuditReport,
) -> None:
    assert LISTED.parts(13) == (("last", LISTED.last[13]),)
    judged = {column: report.names[column][13] for column in ("p_value", "q_value", "decision")}
    assert judged == {"p_value": None, "q_value": None, "decision": "not judged"}
    assert report.names["score"][13] == report.names["last_residual"][13] is not None
    assert report.names["first_residual"][13] is None
    assert report.names["is_unmatched"] == [False] * 13 + [True]
    expected_note = (
        "1 names are not judged: there are fewer than 200 controls of as many word pieces"
    )
    assert any(note.startswith(expected_note) for note in report.notes)


# --- little to go on: one passage, no name to be spelled, names of one part ---


def test_one_passage_and_one_input_have_scores_and_no_error(
    folders: dict[str, Path], store: Store
) -> None:
    passages = passages_of({"text": "the patient [NAME] was seen.", "name_id": 4})
    report = run_audit(
        request_of(folders, passages=passages, n_inputs=1, n_chain_inputs=0),
        store=store,
    )
    assert np.isfinite(np.delete(numbers(report, "score"), 12)).all()
    assert np.isnan(numbers(report, "standard_error")).all()
    assert "chain_log_ratio" not in report.names
    assert [point.n for point in report.curve] == [1]
    assert report.details.linking.n_passages == 1


def test_a_list_of_which_no_name_can_be_spelled_has_no_scores(
    folders: dict[str, Path], store: Store
) -> None:
    names = make_candidates([("Zq", "Smith"), ("Qz", "Jones")])
    request = request_of(folders, candidates=names, n_inputs=100, n_chain_inputs=2)
    report = run_audit(request, store=store)
    assert np.isnan(numbers(report, "score")).all()
    assert report.names["decision"] == ["not scored"] * 2
    assert "2 of 2 names could not be scored." in report.notes
