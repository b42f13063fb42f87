"""The benchmarks on models of no size: what they tell is there, is counted, and can fall."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch

from audit.bench import attacks
from audit.bench.race import BenchSettings
from audit.models.forward import Forward
from audit.text import fold_name
from benchmarks.demo_profile import sampled, shares
from benchmarks.growth import picture

pytestmark = pytest.mark.usefixtures("home")
LAYERS, WIDTH, VOCABULARY, LENGTH = 2, 64, 512, 24
SMALL = (
    "--layers",
    LAYERS,
    "--width",
    WIDTH,
    "--vocabulary",
    VOCABULARY,
    "--length",
    LENGTH,
    "--rounds",
    1,
    "--batch",
    4,
)
RATES = ("median_per_second", "low_per_second", "high_per_second", "gflop_per_unit")


def run_benchmark(run, benchmark, *options):
    reply = run("bench", benchmark, *SMALL, *options)
    assert reply["code"] == 0, reply["said"]
    return reply


@pytest.mark.long
def test_names_after_a_passage_are_raced_and_agree_with_one_at_a_time(run):
    reply = run("bench", "causal", *SMALL[:-2], "--names", 60)
    assert reply["code"] == 0, reply["said"]
    assert 40 <= reply["n_names"] <= 80
    assert reply["n_tokens"] < 3 * reply["n_names"] + LENGTH
    assert reply["ratio_low"] <= reply["ratio"] <= reply["ratio_high"]
    assert reply["fraction_of_packed_peak"] > 0
    assert reply["max_log_p_error"] < 1e-4


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--checkpointed",), ("--dtype", "bfloat16")])
def test_a_tuning_is_raced_and_learns_as_the_plain_one(run, options):
    reply = run("bench", "tuning", *SMALL, *options)
    assert reply["code"] == 0, reply["said"]
    n_steps = len(reply["losses"]["baseline"])
    assert n_steps == len(reply["losses"]["product"]) == 3  # at first, counted, timed
    assert reply["losses"]["product"][0] == pytest.approx(math.log(VOCABULARY), rel=0.05)
    within = 0.02 if "bfloat16" in options else 1e-4
    assert reply["largest_difference_of_losses"] < within
    assert 4 * 4 <= reply["n_tokens"] <= 4 * LENGTH / 2
    assert reply["peak_gb"] == 0 and 1e-4 < reply["estimated_gb"] < 0.1
    assert 0 < reply["ratio_low"] <= reply["ratio"] <= reply["ratio_high"]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("benchmark", ["generation", "posterior", "pretrain"])
def test_every_figure_is_there(run, benchmark, dtype):
    reply = run_benchmark(run, benchmark, "--dtype", dtype)
    figures = [
        reply[name]
        for name in (
            "ratio",
            "ratio_low",
            "ratio_high",
            "fraction_of_peak",
            "fraction_of_packed_peak",
        )
    ]
    figures += [reply[side][name] for side in ("baseline", "product") for name in RATES]
    figures += [
        reply["peak_gflop_per_second"][precision] for precision in ("float32", "bfloat16", "packed")
    ]
    if benchmark == "pretrain":
        figures.append(reply["largest_difference_of_losses"])
    else:
        figures += [reply["max_logit_error"], reply["total_variation"]]
    assert all(math.isfinite(x) and x > 0 for x in figures)
    assert reply["ratio_low"] <= reply["ratio"] <= reply["ratio_high"]
    assert reply["machine"]["processor"]
    assert reply["settings"]["dtype"] == dtype
    assert reply["product"]["gflop_per_unit"] < reply["baseline"]["gflop_per_unit"]


@pytest.mark.slow
def test_both_trainings_learn_alike(run):
    reply = run(
        "bench",
        "pretrain",
        "--layers",
        2,
        "--width",
        128,
        "--vocabulary",
        2000,
        "--rounds",
        4,
        "--batch",
        8,
    )
    losses = reply["losses"]
    assert losses["baseline"][0] - losses["baseline"][-1] > 0.5
    assert reply["largest_difference_of_losses"] < 0.25


@pytest.mark.long
def test_operations_are_those_of_the_model(run):
    reply = run_benchmark(run, "generation", "--steps", 1)
    body = LENGTH * 24 * WIDTH**2 + 4 * LENGTH**2 * WIDTH
    head = 2 * WIDTH**2 + 2 * WIDTH * VOCABULARY
    assert reply["baseline"]["gflop_per_unit"] * 1e9 == LAYERS * body + LENGTH * head
    # The last layer is that of one token, whose one head looks at all tokens.
    last = 24 * WIDTH**2 + 4 * LENGTH * WIDTH
    # Queries, keys and values of the first layer: of all tokens once, of two at each step.
    again = 2 * 6 * WIDTH**2
    once = (LAYERS - 1) * body + last + head
    assert reply["product"]["gflop_per_unit"] * 1e9 == once + again
    limit = once + again - LENGTH * 6 * WIDTH**2 * 3 / 4  # less where a position is picked again
    assert (
        run_benchmark(run, "generation", "--steps", 4)["product"]["gflop_per_unit"] * 1e9 <= limit
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "shard"),
    [("generation", "generate_shard"), ("posterior", "make_posterior_shard")],
)
def test_a_slower_product_has_a_lower_ratio(run, monkeypatch, benchmark, shard):
    old_ratio = run_benchmark(run, benchmark)["ratio"]
    make_shard = getattr(attacks, shard)

    def make_8_times(*arguments, **options):
        for _ in range(8):
            make_shard(*arguments, **options)

    monkeypatch.setattr(attacks, shard, make_8_times)
    assert run_benchmark(run, benchmark)["ratio"] < old_ratio


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["generation", "posterior"])
def test_a_product_that_says_something_else_is_seen(run, monkeypatch, benchmark):
    compute_logits = Forward.logits

    def changed(self, ids, **options):
        logits = compute_logits(self, ids, **options).clone()
        logits[..., 7] += 3
        return logits

    assert run_benchmark(run, benchmark)["max_logit_error"] < 5e-5
    monkeypatch.setattr(Forward, "logits", changed)
    reply = run_benchmark(run, benchmark)
    assert reply["max_logit_error"] == pytest.approx(3, abs=1e-3)
    assert reply["total_variation"] > 1e-3


def test_time_is_told_by_who_spent_it():
    settings = BenchSettings(n_layers=1, width=64, n_vocabulary=512)
    forward = Forward(attacks.make_random_model(settings))
    ids = torch.full((64, 32), 200)
    with sampled() as spent:
        began = time.process_time()
        while time.process_time() - began < 0.2:
            forward.logits(ids, positions=ids[:, :1] * 0)
        began = time.process_time()
        while time.process_time() - began < 0.1:
            fold_name("Émilie de la Tour")
    time_shares = shares(spent)
    forward_share, text_share = (time_shares.parts[part] for part in ("forward", "audit/text.py"))
    assert forward_share > text_share > 0
    assert sum(time_shares.parts.values()) == pytest.approx(1, abs=1e-3)


def test_growth_is_fitted_and_drawn():
    growth = {"sizes": [1.0, 10.0, 100.0], "cpu_seconds": [0.01, 0.1, 1.0], "exponent": 1.0}
    chart = ElementTree.fromstring(picture({"notes": growth, "names": growth}))
    lines = [e.get("points") for e in chart.iter() if e.tag.endswith("polyline")]
    assert len(lines) == 2
    points = [tuple(map(float, point.split(","))) for point in lines[0].split()]
    # Ten times the size and ten times the seconds is as far to the right as up.
    assert [b[0] - a[0] for a, b in pairwise(points)] == [a[1] - b[1] for a, b in pairwise(points)]
    assert any(e.text == "notes: exponent 1.00" for e in chart.iter())


@pytest.mark.long
def test_paper_scale_is_the_rate_carried_forward(run):
    reply = run_benchmark(run, "generation")
    paper, product = reply["paper_scale"], reply["product"]
    assert paper["seconds"] == pytest.approx(5_000_000 / product["median_per_second"])
    floor = 5_000_000 * product["gflop_per_unit"] / 790e3
    assert paper["floor_seconds_at_790_tflops"] == pytest.approx(floor)


@pytest.mark.parametrize("benchmark", ["generation", "posterior", "pretrain"])
def test_without_a_gpu_its_benchmark_is_refused(run, monkeypatch, benchmark):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    reply = run("bench", benchmark, *SMALL, "--device", "cuda")
    assert reply["code"] == 2
    assert "No CUDA device is available." in reply["said"]


@pytest.mark.gpu
@pytest.mark.parametrize("benchmark", ["generation", "posterior"])
def test_a_gpu_is_measured_by_the_same_code(run, benchmark):
    reply = run_benchmark(run, benchmark, "--device", "cuda", "--dtype", "bfloat16")
    assert reply["machine"]["gpu"]
    assert reply["ratio"] > 0


@pytest.mark.slow
def test_a_corpus_is_timed_beside_other_readers_of_its_file(run):
    reply = run("bench", "corpus", "--megabytes", 1)
    assert reply["code"] == 0, reply["said"]
    rows = reply["rows"]
    assert set(rows) == {"wc", "gzip", "corpus", "canaries", "two_workers"}
    assert all(row["megabytes_per_second"] > 0 for row in rows.values())
    assert rows["corpus"]["n_notes"] == rows["canaries"]["n_notes"] == reply["n_notes"]
    assert (
        rows["corpus"]["private"] != rows["canaries"]["private"] == rows["two_workers"]["private"]
    )
