"""Scenario 2 from end to end: `run_audit` on a small pair of models."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from audit.attack.attacks import with_reference
from audit.attack.posterior import draw_inputs
from audit.attack.verdict import State
from audit.cli import main
from audit.errors import AuditError
from audit.models.load import load_pair
from audit.names.candidates import Candidates
from audit.names.pools import us_pool
from audit.report.export import names_csv, write_report
from audit.report.report import AuditReport
from audit.run import run_audit
from cache.store import Store
from tests.attack.masking_pair import LISTED, PASSAGES, UNKNOWN, folders, numbers, request_of, store
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
    studentised,
)
from tests.small_audit import same_answer

__all__ = ["folders", "store"]
COLUMNS = (
    "name_id", "first_name", "last_name", "is_member", "control_kind", "n_pieces", "score",
    "standard_error", "p_value", "q_value", "decision", "hospital_posterior", "general_posterior",
    "difference", "log_ratio", "mean_log_ratio",
)  # fmt: skip


@pytest.fixture(scope="module")
def report(folders: dict[str, Path], store: Store) -> AuditReport:
    return run_audit(request_of(folders), store=store)


def test_every_score_of_whole_names_is_the_slow_references(
    report: AuditReport, folders: dict[str, Path]
) -> None:
    passages = PASSAGES.passages
    plain = {who: plain_model(folders[who]) for who in folders}
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
                who[0]: [log_of(plain[who], p, name) if is_known else math.nan for p in passages]
                for who in plain
            }
            inputs = [
                {f"l_{who}": logs[who][p] for who in "hg"}
                | {f"p_{who}": math.exp(logs[who][p]) for who in "hg"}
                for block in draws[prefix]
                for p in block
            ]
            for score, statistic in SCORES.items():
                value = statistic(inputs)
                found = numbers(report, prefix + score)[row]
                largest = max(max(math.exp(x) for x in side) for side in logs.values())
                is_log = score in ("log_ratio", "mean_log_ratio", "general_mean_log")
                allowed = {"abs": 1e-6 if is_log else 1e-6 * largest, "rel": 1e-6, "nan_ok": True}
                assert found == pytest.approx(value, **allowed)


PartAt = tuple[str, str, bool]
"""Role and text of a part of one piece, and whether another part stands beside it."""


def parts_at(names: Candidates) -> tuple[dict[PartAt, int], list[tuple[str, str]], list[list[int]]]:
    """Number the parts of all names, with an example of each; and the listed names' parts [N][2].

    All are of one piece, so that a part's masks are told by its role and by whether it is alone.
    """
    at: dict[PartAt, int] = {}
    example: list[tuple[str, str]] = []
    of_name: list[list[int]] = [[-1, -1] for _ in range(len(LISTED))]
    for row, name in enumerate(zip(names.first, names.last, strict=True)):
        for k, role in enumerate(("first", "last")):
            if not name[k] or name == UNKNOWN:
                continue
            key = (role, name[k].lower(), all(name))
            if key not in at:
                at[key] = len(at)
                example.append(name)
            if row < len(LISTED):
                of_name[row][k] = at[key]
    return at, example, of_name


def test_scores_by_part_and_the_error_of_the_fixed_one_are_the_slow_references(
    report: AuditReport, folders: dict[str, Path]
) -> None:
    passages, pool = PASSAGES.passages, us_pool()
    plain = {who[0]: plain_model(folders[who]) for who in folders}
    pair = load_pair(folders["general"], folders["hospital"])
    names = with_reference(request_of(folders), pair, pool=pool)[0]  # listed ones, then controls
    at, example, of_name = parts_at(names)
    logs = {
        who: [
            [log_by_role(plain[who], passage, name)[role] for passage in passages]
            for (role, _, _), name in zip(at, example, strict=True)
        ]
        for who in plain
    }
    shares = {"first": pool.first_shares, "last": pool.last_shares}
    log_share = [math.log(shares[role][text]) for role, text, _ in at]
    roles = {r: [k for (role, _, _), k in at.items() if role == r] for r in ("first", "last")}

    def parts_after(inputs: list[int]) -> list[tuple[float, float]]:
        """Each part's residual and centred shift on these inputs."""
        h, g = ([sum(of_part[p] for p in inputs) / len(inputs) for of_part in logs[who]]
                for who in "hg")  # fmt: skip
        found = [(math.nan, math.nan)] * len(at)
        for rows in roles.values():
            residual = studentised(
                [h[k] for k in rows], [g[k] for k in rows],
                log_share=[log_share[k] for k in rows], n_pieces=[1] * len(rows),
                is_known=[True] * len(rows),
            )  # fmt: skip
            middle = float(np.median([h[k] - g[k] for k in rows]))
            for k, value in zip(rows, residual, strict=True):
                found[k] = (value, h[k] - g[k] - middle)
        return found

    def scores_after(inputs: list[int]) -> np.ndarray:
        found = [*parts_after(inputs), (math.nan, math.nan)]
        by_name = [part_scores(*(found[k] for k in pair_of)) for pair_of in of_name]
        return np.array([[one[name] for name in PART_SCORES] for one in by_name])

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
    by_part = [*parts_after([p for block in blocks for p in block]), (math.nan, math.nan)]
    for k, column in enumerate(("first_residual", "last_residual")):
        expected = [by_part[pair_of[k]][0] for pair_of in of_name]
        np.testing.assert_allclose(numbers(report, column), expected, **close)


def test_the_table_has_the_columns_promised_and_csv_and_pandas_read_it(
    report: AuditReport, tmp_path: Path
) -> None:
    write_report(report, tmp_path / "out")
    text = (tmp_path / "out" / "names.csv").read_text(encoding="utf-8")
    assert text == names_csv(report)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert set(COLUMNS) <= set(rows[0])
    assert [row["name_id"] for row in rows] == [str(k) for k in range(len(LISTED))]
    assert [row["last_name"] for row in rows] == list(LISTED.last)
    assert rows[12]["score"] == rows[12]["p_value"] == rows[12]["difference"] == ""
    table = pd.read_csv(tmp_path / "out" / "names.csv")
    for column in ("score", "standard_error", "p_value", "q_value", "difference", "log_ratio"):
        assert table[column].dtype == np.float64
        assert np.isnan(table[column][12])
        # The generator has too few last names that these models can spell to judge one alone.
        is_judged = column not in ("p_value", "q_value")
        assert np.isfinite(table[column].drop(index=[12] if is_judged else [12, 13])).all()
        np.testing.assert_allclose(table[column], numbers(report, column))
    assert table["is_member"].tolist() == [1] * 6 + [0] * 6 + [1, 0]
    assert table["control_kind"].fillna("").tolist() == [""] * 6 + ["easy"] * 6 + ["", "given"]
    assert table["n_pieces"].drop(index=12).tolist() == [2] * 12 + [1]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "names.csv", "measures.json", "report.json",
    }  # fmt: skip


def test_a_name_that_cannot_be_spelled_has_no_number_anywhere_and_is_counted(
    report: AuditReport,
) -> None:
    about = {"name_id", "first_name", "last_name", "is_member", "control_kind", "role",
             "n_mentions", "popularity", "n_pieces", "threshold", "is_unmatched"}  # fmt: skip
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
    said = "1 names are not judged: the generator has fewer than 200 names of as many word pieces"
    assert any(note.startswith(said) for note in report.notes)


def test_the_report_holds_measures_linking_curve_and_counts(report: AuditReport) -> None:
    assert report.fixed_score == "residual"
    assert report.candidates.n_members == 7
    assert report.candidates.n_controls == 7
    assert report.candidates.by_kind == {"easy": 6, "given": 1}
    assert report.candidates.n_reference >= 2600
    assert set(report.measures.strata) >= {"all", "easy"}
    everyone = report.measures.strata["all"]
    assert {"difference", "log_ratio", "mean_log_ratio", "chain_mean_log_ratio"} <= set(
        everyone.scores
    )
    assert "difference_above_zero" in everyone.rules
    points = [point.n for point in report.curve]
    assert points == sorted(set(points))
    assert points[-1] == 230
    assert set(points) <= {*range(1, 41), *range(45, 231, 5)}  # whole blocks of inputs
    # The last point of the curve is the whole run.
    last = report.curve[-1].strata["all"].auc["residual"]
    assert last == pytest.approx(everyone.scores["residual"].auc.value)
    assert report.verdict.state in get_args(State)
    for p, q in zip(numbers(report, "p_value"), numbers(report, "q_value"), strict=True):
        assert math.isnan(p) or 0 < p <= q <= 1
    assert report.scenario.number == 2
    assert report.models["hospital"].digest != report.models["general"].digest


def test_linking_ranks_the_scored_owners_by_the_reports_own_passages(report: AuditReport) -> None:
    linking = report.details.linking
    # Five passages: one without owner, one whose owner cannot be spelled.
    assert linking is not None
    assert [one.passage_id for one in linking.rank_by_passage] == ["1", "2", "3"]
    assert [one.name_id for one in linking.rank_by_passage] == [0, 1, 2]
    assert linking.n_names == 13
    assert all(1 <= one.rank <= 13 for one in linking.rank_by_passage)


def test_the_same_question_again_is_answered_from_the_store(
    report: AuditReport, folders: dict[str, Path], store: Store, tmp_path: Path
) -> None:
    again = run_audit(request_of(folders), store=store, should_stop=lambda: True)
    assert again.to_json() == report.to_json()
    with Store(tmp_path / "fresh") as fresh:
        anew = run_audit(request_of(folders), store=fresh)
    assert same_answer(anew, report)
    assert anew.made != report.made


def test_with_dropout_a_fresh_store_gives_the_same_bytes(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    asked = request_of(folders, is_dropout_on=True, n_inputs=110, n_chain_inputs=3)
    reports = []
    for name in ("one", "other"):
        with Store(tmp_path / name) as fresh:
            reports.append(run_audit(asked, store=fresh))
    assert same_answer(*reports)


REFUSED = "M_general and M_hospital are the same model: nothing is compared, so nothing is judged."


def test_one_model_twice_is_refused_before_anything_is_read(
    folders: dict[str, Path], store: Store, tmp_path: Path
) -> None:
    moved = shutil.copytree(folders["general"], tmp_path / "the same elsewhere")
    for hospital in (folders["general"], moved):
        twice = {"hospital": hospital, "general": folders["general"]}
        with pytest.raises(AuditError, match="are the same model") as refused:
            run_audit(request_of(twice), store=store, progress=pytest.fail)
        assert refused.value.where == "models"
        assert REFUSED in str(refused.value)
        assert "before and the model after training" in str(refused.value)


@pytest.mark.parametrize("is_dropout_on", [True, False])
def test_models_of_equal_evidence_are_refused_whatever_their_digests(
    folders: dict[str, Path], tmp_path: Path, is_dropout_on: bool
) -> None:
    other = shutil.copytree(folders["general"], tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    config["layer_norm_eps"] = config.get("layer_norm_eps", 1e-12) * (1 + 1e-9)
    (other / "config.json").write_text(json.dumps(config))
    asked = request_of(
        {"hospital": other, "general": folders["general"]}, is_dropout_on=is_dropout_on,
        n_inputs=50, n_chain_inputs=0,
    )  # fmt: skip
    question = asked.question()
    assert question["hospital"] != question["general"]
    with Store(tmp_path / "store") as store, pytest.raises(AuditError, match="are the same model"):
        run_audit(asked, store=store)


def test_the_command_line_says_why_one_model_twice_is_refused(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    (tmp_path / "names.csv").write_text("first_name,last_name\nJohn,Smith\n")
    (tmp_path / "passages.csv").write_text("text\nmr [NAME] was seen\n")
    model = str(folders["general"])
    arguments = ["run", "--general", model, "--hospital", model, "--names",
                 str(tmp_path / "names.csv"), "--json"]  # fmt: skip
    for more in (
        ["--scenario", "1"],
        ["--scenario", "2", "--passages", str(tmp_path / "passages.csv")],
    ):
        assert main([*arguments, *more]) == 2
        said = capsys.readouterr()
        assert REFUSED in said.err
        assert "Traceback" not in said.err
        assert said.out == ""


def without_truth(candidates: Candidates) -> Candidates:
    n = len(candidates)
    return replace(
        candidates, is_member=(None,) * n, control_kind=("",) * n, n_mentions=(None,) * n
    )


def test_without_truth_there_are_p_and_q_and_no_confusion_table(
    report: AuditReport, folders: dict[str, Path], store: Store
) -> None:
    found = run_audit(request_of(folders, candidates=without_truth(LISTED)), store=store)
    assert found.measures.strata == {}
    assert list(found.curve) == []
    assert list(found.mentions) == []
    assert set(found.names["is_member"]) == {None}
    assert found.cohort.group == "unknown"
    assert "null_check" not in found.details
    for column in ("p_value", "q_value"):
        assert np.isfinite(np.delete(numbers(found, column), [12, 13])).all()
    # Truth plays no part in what the models say of a name.
    for column in ("hospital_posterior", "log_ratio", "chain_log_ratio"):
        np.testing.assert_array_equal(numbers(found, column), numbers(report, column))


def test_which_of_the_tested_names_are_members_plays_no_part_in_scores_and_p(
    report: AuditReport, folders: dict[str, Path], store: Store
) -> None:
    asked = replace(LISTED, is_member=tuple(m and None for m in LISTED.is_member))
    found = run_audit(request_of(folders, candidates=asked), store=store)
    assert found.candidates.n_unknown == 7
    for column in ("score", "standard_error", "p_value", "q_value", "chain_log_ratio"):
        np.testing.assert_array_equal(numbers(found, column), numbers(report, column))
