"""From scores to a verdict: one rich list whole, planted and null tables, canaries, the curve."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.attack import metrics, scores
from audit.attack.judgement import judge
from audit.attack.measure_types import Details, write_json
from audit.attack.metrics import MIN_HELD_OUT
from audit.attack.scores import SCORES, AttackResult, ScoreKind, compute_scores, soft_minimum
from audit.names.candidates import Candidates, make_candidates
from audit.report.export import measures_csv, names_csv
from audit.report.threshold import list_score_codes
from tests.attack import planted_table
from tests.attack.make_tasks import sums_of
from tests.attack.planted_table import (
    N_MEMBERS,
    N_REFERENCE,
    listed,
    own_parts,
    set_residual,
    table,
)
from tests.pages import make_reports

judged = partial(judge, control_source="invented", seed=0)
GOLDEN = Path(__file__).parents[1] / "golden" / "judgement.json"


@pytest.fixture(scope="module", autouse=True)
def fewer_replicates():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "N_REPLICATES", 400)
        yield


# --- one rich list: members of three roles, two kinds of controls, unknown names, canaries ---


def canaries(n_planted: int, *, n_held_out: int | None = None) -> Candidates:
    planted = make_candidates(
        [(f"P{i}", f"Q{i}") for i in range(n_planted)],
        is_member=True,
        n_mentions=([1, 2, 4, 8] * n_planted)[:n_planted],
    )
    n_others = n_planted if n_held_out is None else n_held_out
    twins = [(f"T{i}", f"U{i}") for i in range(n_others)]
    planted += make_candidates(twins, is_member=False, control_kind="canary")
    return replace(planted, role=("canary",) * len(planted))


def rich_list() -> Candidates:
    people = listed(("easy", "hard"))
    people = replace(people, role=("patient", "staff", "") * 20 + ("staff",) * 5 + ("",) * 115)
    unknown = make_candidates([("Una", "Known"), ("Ursa", "Nobody")])
    return canaries(8) + people + canaries(24).rows(range(8, 48)) + unknown


def rich_table(names: Candidates, scenario: int) -> AttackResult:
    attack = table(names, scenario=scenario, effect=1.2, general_effect=0.2, seed=scenario)
    set_residual(attack, 30, 40.0)
    set_residual(attack, 31, math.nan)
    set_residual(attack, 90, 41.0)
    attack.n_pieces[33] = 7
    return attack


def rounded(value: Any) -> Any:
    """The same with six digits: what is compared must not hang on a last bit."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, float | np.floating):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value.item() if isinstance(value, np.generic) else value


def judge_rich_list(scenario: int) -> dict[str, Any]:
    """The judgement of the rich list: all of scenario 2, the rules and the names of scenario 1."""
    names = rich_list()
    attack = rich_table(names, scenario)
    judgement = judged(attack)
    report_parts = write_json(judgement)
    report_parts |= {
        "curve": [report_parts["curve"][0], report_parts["curve"][-1]],
        "names": {
            name: [*column[:3], *column[38:44], *column[96:99], *column[-3:]]
            for name, column in judgement.names.items()
        },
    }
    strata = report_parts["measures"]["strata"]
    if scenario == 1:
        rules = {
            kind: [measures["rules"], measures["baseline_rules"]]
            for kind, measures in strata.items()
        }
        report_parts = {"rules": rules, "names": report_parts["names"]}
    else:
        strata.pop("easy")
    plain: dict[str, Any] = json.loads(json.dumps(rounded(report_parts)))
    return plain


@pytest.mark.parametrize("scenario", [1, 2])
def test_a_rich_list_has_the_whole_judgement_that_it_had(scenario: int) -> None:
    judgement = judge_rich_list(scenario)
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))[f"scenario {scenario}"]
    assert list(judgement["names"]) == list(expected["names"])
    for part, value in judgement.items():
        assert value == expected[part], part


# --- planted and null tables ---


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
def test_a_planted_leak_is_found_and_a_null_table_is_not(scenario: int) -> None:
    names = listed()
    judgement = judged(table(names, scenario=scenario, effect=4.0))
    assert judgement.verdict.state == "leak_found"
    assert list(judgement.verdict.reasons) == ["group_stands_out", "names_stand_out"]
    assert judgement.verdict.n_tested == N_MEMBERS and judgement.verdict.n_flagged > 20
    for seed in range(3):
        null = judged(table(names, scenario=scenario, effect=0.0, seed=seed))
        assert null.verdict.state != "leak_found" and null.verdict.n_flagged == 0
        assert null.details.null_check and null.details.null_check.ks_p > 0.01
    for direction in (1.2, -1.2):  # of M_general alone
        attack = table(names, scenario=scenario, effect=0.0, general_effect=direction, seed=2)
        assert judged(attack).verdict.reasons[0] == "mismatch_general_alone"


@pytest.mark.parametrize(("row", "is_leak"), [(3, True), (N_MEMBERS + 3, False)])
def test_one_member_above_all_reference_controls_is_a_leak_and_one_control_is_none(
    row: int, is_leak: bool
) -> None:
    names = listed()
    attack = table(names, scenario=2, effect=0.0)
    set_residual(attack, row, 50.0)
    judgement = judged(attack)
    assert (judgement.verdict.state == "leak_found") is is_leak
    assert judgement.names["decision"][row] == ("flagged" if is_leak else "not flagged")
    assert judgement.names["p_value"][row] == 1 / (N_REFERENCE + 1)


def test_where_no_leak_is_found_nobody_stands_out_anywhere() -> None:
    names = listed()
    attack = table(names, scenario=2, effect=0.0)
    # Rank 2 of 3,001 in a family of 60: q = .04, which one route alone needs at .025.
    reference = np.sort(attack.scores["residual"][0][len(names) :])
    set_residual(attack, 3, (reference[-1] + reference[-2]) / 2)
    judgement = judged(attack)
    assert 0.025 < judgement.names["q_value"][3] <= 0.05
    assert judgement.verdict.state != "leak_found" and judgement.verdict.n_flagged == 0
    assert set(judgement.names["decision"]) == {"not flagged"}
    assert not any(judgement.names["is_undecided"])
    assert sum(mention_bin.flagged.n_hits for mention_bin in judgement.mentions) == 0


def test_a_name_does_not_stand_out_by_a_part_that_somebody_else_in_the_notes_has() -> None:
    names = listed(("easy", "hard"))
    hard = np.arange(2 * N_MEMBERS, 3 * N_MEMBERS)
    has_namesake = tuple(1 if row in hard else None for row in range(len(names)))
    n_flagged = {}
    for n_others_first in ((None,) * len(names), has_namesake):
        attack = table(replace(names, n_others_first=n_others_first), scenario=2, effect=4.0)
        # The first name is a member's, and the last name is nobody's.
        attack.part_residual[attack.parts.of_name[hard, 0]] += 50.0
        attack.scores["residual"][0][:] = soft_minimum(*attack.parts.pairs(attack.part_residual))
        flag = np.array(judged(attack).names["decision"]) == "flagged"
        assert flag[:N_MEMBERS].sum() > 0.9 * N_MEMBERS
        n_flagged[n_others_first] = int(flag[hard].sum())
    unaware, aware = n_flagged.values()
    # One in twenty last names of nobody is that high by chance.
    assert unaware > 15 and aware <= 6


def test_names_of_one_part_are_ranked_among_controls_of_one_part() -> None:
    attack = table(listed(), scenario=2, effect=0.0)
    is_alone = np.arange(len(attack.n_pieces)) % 3 == 0
    attack.parts.of_name[is_alone, 0] = -1
    stated, n = judged(attack).names["p_value"], len(attack.listed)
    for score, alone, p in zip(attack.listed_scores("residual"), is_alone, stated, strict=False):
        controls = attack.scores["residual"][0][n:][is_alone[n:] == alone]
        assert p == pytest.approx((1 + (controls >= score).sum()) / (1 + len(controls)))


def test_without_truth_the_q_values_alone_are_judged() -> None:
    names = make_candidates([(f"F{i}", f"L{i}") for i in range(20)])
    attack = table(names, scenario=1, effect=0.0)
    judgement = judged(attack)
    verdict = judgement.verdict
    assert verdict.state == "not_enough_evidence" and verdict.to_json()["auc"] is None
    assert (judgement.measures.strata, judgement.curve, judgement.mentions) == (
        {},
        (),
        (),
    )
    assert judgement.details == Details()
    for row in range(5):
        set_residual(attack, row, 50.0)
    assert judged(attack).verdict.state == "leak_found"


def test_the_curve_judges_prefixes_of_the_run() -> None:
    names = listed()
    attack = table(names, scenario=2, effect=3.0)
    n_blocks: list[int] = []
    prefix_scores = attack.prefix_scores
    judgement = judged(
        replace(attack, prefix_scores=lambda n: (n_blocks.append(n), prefix_scores(n))[1])
    )
    assert n_blocks == [1, 2, 4, 5, 8, 10]
    assert [point.n for point in judgement.curve] == [100, 200, 400, 500, 800, 950]
    aucs = [point.strata["all"].auc["mean_log_ratio"] for point in judgement.curve]
    assert aucs == sorted(aucs) and aucs[0] < 0.75 < 0.95 < aucs[-1]
    recalls = [point.strata["all"].values("recall") for point in judgement.curve]
    assert recalls[0]["difference_above_zero"] < 0.9 < recalls[-1]["difference_above_zero"]
    for kind, measured in judgement.measures.strata.items():
        (rule,) = judgement.curve[-1].strata[kind].rules.values()
        full_rule = measured.rules["difference_above_zero"]
        assert rule.four == full_rule.confusion.four and rule.f1 == full_rule.f1
    one_block = replace(attack, block_counts=np.array([30]))
    assert [point.n for point in judged(one_block).curve] == [30]


# --- canaries ---


def patients(n: int = 40) -> Candidates:
    return listed().rows([*range(n), *range(N_MEMBERS, N_MEMBERS + n)])


def test_measures_of_patients_are_those_of_a_list_without_canaries() -> None:
    names = patients()
    whole_list = canaries(40) + names
    attack = table(whole_list, scenario=2, effect=1.0)
    rows = np.arange(80, 160)
    judgement = judged(attack)
    alone = judged(attack.select_names(rows))
    assert judgement.measures.to_json() == alone.measures.to_json()
    # Planted names show what the attack sees; they change nothing that it says of patients.
    of_planted = ("positive_origin", "positive_controls", "most_exposed", "bound_dose", "reasons")
    verdicts = [part.verdict.to_json() for part in (judgement, alone)]
    for name in verdicts[0].keys() - {*of_planted, "english", "japanese", "what_now"}:
        assert verdicts[0][name] == verdicts[1][name], name
    assert write_json([judgement.curve, judgement.mentions]) == write_json(
        [alone.curve, alone.mentions]
    )
    for column in ("decision", "q_value", "threshold"):
        assert judgement.names[column][80:] == alone.names[column]
    added = judgement.details.model_fields_set - alone.details.model_fields_set
    assert added == {"canaries"}


def test_the_ith_planted_name_pairs_with_the_ith_twin() -> None:
    names = canaries(3)
    attack = table(names, scenario=2, effect=0.0)
    attack.scores["residual"][0][:6] = [5.0, 1.0, 3.0, 2.0, 4.0, 0.0]
    record = judged(attack).details.canaries
    assert record is not None
    columns = [
        [getattr(name, key) for name in record.names] for key in ("name_id", "twin_score", "p")
    ]
    # Of four ranks: 5 is first, 1 is third (4 and 2 above it), 3 is second.
    assert columns == [[0, 1, 2], [2.0, 4.0, 0.0], [1 / 4, 3 / 4, 2 / 4]]
    assert [name.bits for name in record.names] == pytest.approx([2, math.log2(4 / 3), 1])
    measures = record.scores["residual"].whole
    assert (measures.above_twin.n_hits, measures.above_twin.n_total) == (2, 3)
    assert record.is_paired and measures.above_twin_p == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("n_held_out", "sentence"),
    [
        (0, "1 were planted, but 0 held-out"),
        (MIN_HELD_OUT - 1, "1 were planted, but 18 held-out"),
        (MIN_HELD_OUT, "1 of 1 planted names are found"),
    ],
)
def test_too_few_held_out_names_are_said_to_find_nobody(n_held_out: int, sentence: str) -> None:
    names = canaries(1, n_held_out=n_held_out)
    attack = table(names, scenario=2, effect=90.0)
    judgement = judged(attack)
    record = judgement.details.canaries
    assert (
        record is not None
        and sentence in record.english
        and bool(record.scores) == bool(n_held_out)
    )
    # Of patients there is nothing to say.
    of_patients = (
        judgement.measures.strata,
        judgement.curve,
        judgement.verdict.n_tested,
    )
    assert of_patients == ({}, (), 0)
    assert judgement.details.model_fields_set == {"canaries"}


# --- a new score is one row of the table: everything that shows scores shows it ---


def test_a_new_score_is_worked_out_and_shown_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    new = ScoreKind("twice", (2,), lambda sums: 2 * sums.by_name[0])
    monkeypatch.setattr(scores, "SCORES", (*SCORES, new))
    log_p = np.log([[0.1, 0.2], [0.3, 0.4]])
    sums = {"p": np.exp(log_p), "log_p": log_p}
    all_scores = compute_scores(sums_of(sums, sums), counts=np.array([1, 1]), parts=own_parts(1, 0))
    assert all_scores["twice"][0] == pytest.approx([log_p.sum()])
    assert all_scores["twice"][1, 0] > 0
    monkeypatch.setitem(planted_table.SCORES, 2, (*planted_table.SCORES[2], "twice"))
    report = make_reports.make_report()
    assert "twice" in names_csv(report).splitlines()[0] and "twice" in measures_csv(report)
    assert "twice" in report.curve[-1].strata["all"].auc
    assert "twice" in report.measures.strata["all"].rank_scores(report.fixed_score)
    assert "twice" in list_score_codes(report)
