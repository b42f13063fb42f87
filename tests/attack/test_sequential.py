"""A sequential audit: it ends where no decision can change, and says no other than a fixed one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from audit.attack import judgement
from audit.attack.decisions import ComparisonPool, decide
from audit.attack.evidence import look_sizes
from audit.attack.judgement import find_settled_names
from audit.attack.scores import (
    NameParts,
    compute_residual_errors,
    compute_residuals,
    soft_minimum,
)
from audit.names.candidates import Candidates, make_candidates
from audit.progress import Progress
from audit.report.report import AuditReport
from audit.stats import BoolArray, FloatArray, assign_blocks
from tests.attack.planted_table import own_parts
from tests.one_thread import one_thread
from tests.small_audit import answer, models, request_of, same_answer, shard_kinds, small

pytestmark = pytest.mark.long

__all__ = ["models", "one_thread", "shard_kinds", "small"]

N_MEMBERS, N_CONTROLS, N_REFERENCE = 20, 10, 400
N_LISTED = N_MEMBERS + N_CONTROLS
LISTED: Candidates = make_candidates(
    [(f"F{i}", f"L{i}") for i in range(N_MEMBERS)], is_member=True
) + make_candidates(
    [(f"E{i}", f"M{i}") for i in range(N_CONTROLS)], is_member=False, control_kind="easy"
)
PARTS: NameParts = own_parts(N_LISTED, N_REFERENCE)
PIECES = np.full(N_LISTED + N_REFERENCE, 2)


def test_looks_are_doubled_shards_and_all():
    assert look_sizes(1) == (1,) and look_sizes(200) == (200,)  # a shard of `small` has 200 inputs
    assert look_sizes(201) == (200, 201)
    assert look_sizes(800) == (200, 400, 800)
    assert look_sizes(2000) == (200, 400, 800, 1600, 2000)


# --- the bound ---


@dataclass(frozen=True)
class World:
    """What both models would say of each part [U] after endless inputs."""

    general: FloatArray
    hospital: FloatArray

    @classmethod
    def draw(cls, rng: np.random.Generator) -> World:
        """Members stand out by anything between nothing and much: some lie near the threshold."""
        n_names = N_LISTED + N_REFERENCE
        general = rng.normal(-8, 1, size=2 * n_names)
        shift = np.zeros((2, n_names))
        shift[:, :N_MEMBERS] = rng.choice([0.0, 1.5, 3.0], size=N_MEMBERS)
        return cls(general, general + shift.ravel() + rng.normal(0, 0.5, size=2 * n_names))

    def sums(self, n: int, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Block sums of n inputs; they move all parts alike, and the noise has a long tail."""
        counts = np.bincount(assign_blocks(0, n)).astype(float)[:, None]
        alike = rng.normal(0, np.sqrt(counts))
        sums = {}
        for model in ("general", "hospital"):
            mean = getattr(self, model)
            tail = rng.gamma(counts, size=(len(counts), len(mean))) - counts
            sums[f"{model}_log_p"] = counts * mean + alike + 0.5 * tail
        return sums

    def flags(self) -> BoolArray:
        """The decision of each listed name, as an audit makes it."""
        residual = compute_residuals(self.hospital, self.general, parts=PARTS)
        score = soft_minimum(*PARTS.pairs(residual))
        n_references = len(score) - N_LISTED
        return decide(
            score[:N_LISTED],
            standard_errors=np.zeros(N_LISTED),
            n_blocks=9,
            groups=PIECES[:N_LISTED],
            is_member=LISTED.is_member,
            pool=ComparisonPool(score[N_LISTED:], PIECES[N_LISTED:], np.full(n_references, -1)),
        ).point_flag


def run(world: World, n_total: int, rng: np.random.Generator) -> tuple[int, BoolArray | None]:
    """One sequential audit: inputs used, and its decisions where it ended before all of them."""
    looks, sums, counts = look_sizes(n_total), dict[str, FloatArray](), np.zeros(0, dtype=np.int64)
    all_sums = world.sums(n_total, rng)
    for n in looks[:-1]:
        counts = np.bincount(assign_blocks(0, n))
        sums = {name: block[: len(counts)] for name, block in all_sums.items()}
        settled = find_settled_names(
            compute_residual_errors(sums, counts=counts, parts=PARTS),
            counts=counts,
            listed=LISTED,
            parts=PARTS,
            n_pieces=PIECES,
            n_looks=len(looks) - 1,
            source="invented",
        )
        if settled.all():
            hospital, general = (
                sums[f"{model}_log_p"].sum(axis=0) / n for model in ("hospital", "general")
            )
            return n, World(general, hospital).flags()
    return n_total, None


def wrong_and_early(n_runs: int, *, seed: int) -> tuple[int, int]:
    """How many runs end with another decision than that of endless inputs; how many end early."""
    n_wrong = n_early = 0
    for number in range(n_runs):
        rng = np.random.default_rng([seed, number])
        world = World.draw(rng)
        _, flags = run(world, 6400, rng)
        n_early += flags is not None
        n_wrong += flags is not None and bool((flags != world.flags()).any())
    return n_wrong, n_early


@pytest.mark.slow
def test_few_runs_end_with_another_decision_than_endless_inputs_give(monkeypatch):
    n_wrong, n_early = wrong_and_early(20, seed=1)
    assert n_early >= 6 and n_wrong == 0
    # Without a bound (intervals of no width) the same runs all end at once, and some are wrong.
    n_intervals = 2 * len(PARTS.log_share) * (len(look_sizes(6400)) - 1)
    monkeypatch.setattr(judgement, "UNSETTLED_RATE", n_intervals / 2)
    n_wrong, n_early = wrong_and_early(20, seed=1)
    assert n_early == 20 and n_wrong >= 1


@pytest.mark.slow
def test_wrong_ends_stay_below_the_stated_rate():
    n_wrong, n_early = wrong_and_early(300, seed=2)
    assert n_early >= 60
    assert n_wrong <= 300 * judgement.UNSETTLED_RATE


def test_who_is_settled_hangs_on_the_error():
    world = World.draw(np.random.default_rng(3))
    residual = compute_residuals(world.hospital, world.general, parts=PARTS)
    arguments = {
        "counts": np.full(50, 20),
        "listed": LISTED,
        "parts": PARTS,
        "n_pieces": PIECES,
        "n_looks": 4,
        "source": "invented",
    }
    n_settled = [
        find_settled_names(np.stack([residual, np.full_like(residual, error)]), **arguments).sum()
        for error in (0.0, 0.02, 0.1, 1.0)
    ]
    assert n_settled[0] == N_LISTED and n_settled == sorted(n_settled, reverse=True)
    assert n_settled[-1] < N_LISTED - world.flags().sum() / 2
    unknown = np.stack([residual, np.full_like(residual, np.nan)])
    assert not find_settled_names(unknown, **arguments).any()


# --- a whole audit ---


def sequential(models, n_inputs: int = 800):
    request = request_of(models, 2)
    return request.with_(
        posterior=request.posterior.with_(n_inputs=n_inputs, is_sequential=True, n_chain_inputs=5)
    )


def fixed(models, n_inputs: int):
    request = request_of(models, 2)
    return request.with_(posterior=request.posterior.with_(n_inputs=n_inputs, n_chain_inputs=5))


def answer_of(report: AuditReport) -> AuditReport:
    """The same without what the question and its end say."""
    plain = report.to_json()
    details = {name: detail for name, detail in plain["details"].items() if name != "stop"}
    notes = [note for note in plain["notes"] if "inputs" not in note["key"]]
    return AuditReport.from_json(
        plain | {"digest": "", "question": {}, "details": details, "notes": notes}
    )


def test_an_audit_that_ended_early_is_the_one_of_so_many_inputs(models, tmp_path, shard_kinds):
    reports: list[Progress] = []
    report = answer(sequential(models), tmp_path, progress=reports.append)
    stop = report.to_json()["details"]["stop"]
    assert stop == {"n_inputs": 200, "n_allowed": 800, "n_open": 0}
    assert shard_kinds == ["posterior"] * 2 + ["chain"] * 2
    assert any(
        "Stopped after 200 of at most 800 inputs (75 % saved)" in str(note) for note in report.notes
    )
    shares = [progress.share for progress in reports]
    assert shares == sorted(shares) and shares[-1] == 1
    of_evidence = [
        progress.share for progress in reports if progress.phase.endswith(("posteriors", "chain"))
    ]
    assert of_evidence[-1] < 1
    shard_kinds.clear()
    same = answer(fixed(models, 200), tmp_path)
    assert not shard_kinds  # its shards are there
    assert same_answer(answer_of(report), answer_of(same))
    assert same.digest != report.digest


def test_an_audit_that_never_settles_takes_every_input_once(
    models, tmp_path, shard_kinds, monkeypatch
):
    monkeypatch.setattr(judgement, "UNSETTLED_RATE", 1e-300)
    reports: list[Progress] = []
    report = answer(sequential(models, 500), tmp_path, progress=reports.append)
    assert shard_kinds == ["posterior"] * 6 + ["chain"] * 2
    stop = report.to_json()["details"]["stop"]
    assert stop["n_inputs"] == stop["n_allowed"] == 500 and stop["n_open"] > 0
    assert any("All 500 inputs were used" in str(note) for note in report.notes)
    assert all(earlier.share <= later.share for earlier, later in pairwise(reports))
    assert same_answer(answer_of(report), answer_of(answer(fixed(models, 500), tmp_path)))
    assert len(shard_kinds) == 8


def test_an_audit_of_one_shard_never_looked_and_says_nothing_of_open_names(models, tmp_path):
    report = answer(sequential(models, 200), tmp_path)
    assert "stop" not in report.to_json()["details"]
    assert not any("inputs were used" in str(note) for note in report.notes)
