"""Long lists ranked by what one run keeps of its vocabulary: no pass, and an audit's own ranks."""

from __future__ import annotations

import csv
import io
import stat
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from audit.errors import AuditError
from audit.names import spelling
from audit.names.candidates import Candidates, make_candidates
from audit.names.files import encode_names_csv
from audit.names.pools import us_pool
from audit.rank import Ranking, RankTask, rank_names, write_ranking
from audit.task import Contact
from cache.store import Store
from tests.one_thread import one_thread
from tests.small_audit import answer, finished, models, request_of, shard_kinds, small

pytestmark = pytest.mark.long

__all__ = ["finished", "models", "one_thread", "shard_kinds", "small"]
QUIET = Contact(listen=lambda _: None, should_stop=lambda: False, say=lambda _: None)
SCENARIOS = pytest.mark.parametrize("scenario", [1, 2])


def other_names(n: int = 40, *, begin: int = 15) -> Candidates:
    """Names of single pieces that are not those of the small audits' list."""
    pool = us_pool()
    return make_candidates([(pool.first[begin + i], pool.last[58 - i]) for i in range(n)])


def ranked(request, directory: Path) -> Ranking:
    with Store(directory) as store:
        return rank_names(request, store=store, contact=QUIET)


@SCENARIOS
def test_one_run_serves_another_list_without_a_pass_and_ranks_it_as_its_own_audit_does(
    models, finished, tmp_path, shard_kinds, scenario
):
    names = other_names()
    request = request_of(models, scenario, candidates=names)
    shard_kinds.clear()
    ranking = ranked(request, finished[scenario][1])
    assert shard_kinds == [] and ranking.is_scored.all()
    report = answer(request, tmp_path)
    assert shard_kinds
    # Sums of the vocabulary are kept in single precision in scenario 2.
    close = {"rtol": 1e-9} if scenario == 1 else {"rtol": 1e-3, "atol": 1e-4}
    for name in ("residual", "part_log_ratio"):
        expected = np.array(report.names[name], dtype=float)
        np.testing.assert_allclose(ranking.attack.listed_scores(name), expected, **close)
    score = np.array(report.names["score"], dtype=float)
    assert ranking.rank.tolist() == rankdata(-score, method="min").tolist()
    error = np.array(report.names["standard_error"], dtype=float)
    errors = ranking.attack.scores["residual"][1, : len(names)]
    if scenario == 1:
        np.testing.assert_allclose(errors, error, rtol=1e-9)
    else:  # of coarser blocks
        assert np.median(np.abs(np.log(errors / error))) < 0.3


@SCENARIOS
def test_evidence_that_is_not_there_is_made_once(models, tmp_path, shard_kinds, scenario):
    request = request_of(models, scenario, candidates=other_names())
    first = ranked(request, tmp_path)
    n_made = len(shard_kinds)
    assert n_made == (10 if scenario == 1 else 8)
    again = ranked(request.with_(candidates=other_names(20, begin=0)), tmp_path)
    assert len(shard_kinds) == n_made and len(again.names) == 20 and len(first.names) == 40


@SCENARIOS
def test_names_of_several_pieces_or_in_scenario_2_of_one_part_are_not_scored(
    models, finished, scenario
):
    pool = us_pool()
    extra_names = [("Anna", "Smithson"), ("", pool.last[3]), (pool.first[4], "")]
    names = make_candidates(extra_names) + other_names()
    ranking = ranked(request_of(models, scenario, candidates=names), finished[scenario][1])
    assert ranking.is_scored[:3].tolist() == [False, scenario == 1, scenario == 1]
    assert ranking.is_scored[3:].all()
    only = request_of(models, scenario, candidates=make_candidates(extra_names[:1]))
    with pytest.raises(AuditError, match="No name of the list has parts of one word piece each"):
        ranked(only, finished[scenario][1])


def test_p_values_stand_only_where_the_controls_could_show_somebody(models, finished, monkeypatch):
    request, directory = request_of(models, 1, candidates=other_names()), finished[1][1]
    few = ranked(request, directory)
    report_p = few.decisions.p
    assert few.counts == (40, 40, len(few.attack.n_pieces) - 40, 1, 0)
    assert few.counts[2] >= 40 * 20 and np.isfinite(report_p).all()
    monkeypatch.setattr("audit.attack.scenarios.N_REFERENCE", 15)
    monkeypatch.setattr("audit.attack.scenarios.MIN_REFERENCE", 15)
    assert ranked(request, directory).decisions is None


def test_the_file_is_private_guarded_and_in_order(models, finished, tmp_path):
    names = make_candidates([("=Anna", "Smithson")]) + other_names()
    ranking = ranked(request_of(models, 1, candidates=names), finished[1][1])
    write_ranking(ranking, tmp_path / "ranks.csv")
    assert stat.S_IMODE((tmp_path / "ranks.csv").stat().st_mode) == 0o600
    rows = list(csv.DictReader(io.StringIO((tmp_path / "ranks.csv").read_text())))
    assert len(rows) == 41
    assert rows[-1]["first_name"] == "'=Anna" and rows[-1]["rank"] == rows[-1]["score"] == ""
    scores = [float(row["score"]) for row in rows[:-1]]
    assert scores == sorted(scores, reverse=True) and rows[0]["rank"] == "1"
    assert all(row["p_value"] and row["q_value"] for row in rows[:-1])


def test_a_task_reads_its_list_by_the_rules_of_all_lists(models, tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    request = request_of(models, 1)
    same = ("general", "hospital", "generation", "device")
    task = RankTask(
        scenario_number=1,
        names=tmp_path / "names.csv",
        out=tmp_path / "ranks.csv",
        **{name: getattr(request, name) for name in same},
    )
    with pytest.raises(AuditError):
        task.question()
    task.names.write_text("first_name,last_name\nAnn\n")
    with pytest.raises(AuditError, match="row 2"):
        task.run(QUIET)
    task.names.write_bytes(encode_names_csv(other_names()))
    file, *counts = task.run(QUIET)
    assert (file, counts[:2], counts[3]) == (str(task.out), ["40", "40"], "1")
    assert task.question().digest == task.with_(device="auto").question().digest
    assert task.question().digest != task.with_(seed=1).question().digest


def test_a_control_of_several_pieces_in_some_passages_moves_no_other_name(
    models, finished, monkeypatch
):
    request, directory = request_of(models, 2, candidates=other_names()), finished[2][1]
    first_ranking = ranked(request, directory)
    spell, n_listed = spelling.part_pieces, first_ranking.counts[1]

    def spelled(names, **how):
        pieces = spell(names, **how)
        if len(names) > n_listed:
            pieces.n_pieces[n_listed, 0] = 2
        return pieces

    monkeypatch.setattr(spelling, "part_pieces", spelled)
    second_ranking = ranked(request, directory)
    for name in ("residual", "part_log_ratio"):
        expected = first_ranking.attack.listed_scores(name)
        np.testing.assert_allclose(second_ranking.attack.listed_scores(name), expected, atol=0.3)
    assert second_ranking.counts == first_ranking.counts
