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


def measured(run, what, *more):
    found = run("bench", what, *SMALL, *more)
    assert found["code"] == 0, found["said"]
    return found


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("what", ["generation", "posterior", "pretrain"])
def test_every_figure_is_there(run, what, dtype):
    found = measured(run, what, "--dtype", dtype)
    figures = [
        found[name]
        for name in (
            "ratio",
            "ratio_low",
            "ratio_high",
            "fraction_of_peak",
            "fraction_of_packed_peak",
        )
    ]
    figures += [found[who][name] for who in ("baseline", "product") for name in RATES]
    figures += [found["peak_gflop_per_second"][one] for one in ("float32", "bfloat16", "packed")]
    if what == "pretrain":
        figures.append(found["largest_difference_of_losses"])
    else:
        figures += [found["max_logit_error"], found["total_variation"]]
    assert all(math.isfinite(x) and x > 0 for x in figures)
    assert found["ratio_low"] <= found["ratio"] <= found["ratio_high"]
    assert found["machine"]["processor"]
    assert found["settings"]["dtype"] == dtype
    assert found["product"]["gflop_per_unit"] < found["baseline"]["gflop_per_unit"]


@pytest.mark.slow
def test_both_trainings_learn_alike(run):
    found = run(
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
    losses = found["losses"]
    assert losses["baseline"][0] - losses["baseline"][-1] > 0.5
    assert found["largest_difference_of_losses"] < 0.25


@pytest.mark.long
def test_operations_are_those_of_the_model(run):
    found = measured(run, "generation", "--steps", 1)
    body = LENGTH * 24 * WIDTH**2 + 4 * LENGTH**2 * WIDTH
    head = 2 * WIDTH**2 + 2 * WIDTH * VOCABULARY
    assert found["baseline"]["gflop_per_unit"] * 1e9 == LAYERS * body + LENGTH * head
    # The last layer is that of one token, whose one head looks at all tokens.
    last = 24 * WIDTH**2 + 4 * LENGTH * WIDTH
    # Queries, keys and values of the first layer: of all tokens once, of two at each step.
    again = 2 * 6 * WIDTH**2
    once = (LAYERS - 1) * body + last + head
    assert found["product"]["gflop_per_unit"] * 1e9 == once + again
    most = once + again - LENGTH * 6 * WIDTH**2 * 3 / 4  # less where a position is picked again
    assert measured(run, "generation", "--steps", 4)["product"]["gflop_per_unit"] * 1e9 <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "shard"), [("generation", "generate_shard"), ("posterior", "make_posterior_shard")]
)
def test_a_slower_product_has_a_lower_ratio(run, monkeypatch, what, shard):
    before = measured(run, what)["ratio"]
    made = getattr(attacks, shard)

    def made_8_times(*given, **named):
        for _ in range(8):
            made(*given, **named)

    monkeypatch.setattr(attacks, shard, made_8_times)
    assert measured(run, what)["ratio"] < before


@pytest.mark.slow
@pytest.mark.parametrize("what", ["generation", "posterior"])
def test_a_product_that_says_something_else_is_seen(run, monkeypatch, what):
    asked = Forward.logits

    def changed(self, ids, **named):
        logits = asked(self, ids, **named).clone()
        logits[..., 7] += 3
        return logits

    assert measured(run, what)["max_logit_error"] < 5e-5
    monkeypatch.setattr(Forward, "logits", changed)
    found = measured(run, what)
    assert found["max_logit_error"] == pytest.approx(3, abs=1e-3)
    assert found["total_variation"] > 1e-3


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
    found = shares(spent)
    forward_share, text_share = (found["parts"][one] for one in ("forward", "audit/text.py"))
    assert forward_share > text_share > 0
    assert sum(found["parts"].values()) == pytest.approx(1, abs=1e-3)


def test_growth_is_fitted_and_drawn():
    one = {"sizes": [1.0, 10.0, 100.0], "cpu_seconds": [0.01, 0.1, 1.0], "exponent": 1.0}
    drawn = ElementTree.fromstring(picture({"notes": one, "names": one}))
    lines = [e.get("points") for e in drawn.iter() if e.tag.endswith("polyline")]
    assert len(lines) == 2
    points = [tuple(map(float, point.split(","))) for point in lines[0].split()]
    # Ten times the size and ten times the seconds is as far to the right as up.
    assert [b[0] - a[0] for a, b in pairwise(points)] == [a[1] - b[1] for a, b in pairwise(points)]
    assert any(e.text == "notes: exponent 1.00" for e in drawn.iter())


@pytest.mark.long
def test_paper_scale_is_the_rate_carried_forward(run):
    found = measured(run, "generation")
    paper, product = found["paper_scale"], found["product"]
    assert paper["seconds"] == pytest.approx(5_000_000 / product["median_per_second"])
    floor = 5_000_000 * product["gflop_per_unit"] / 790e3
    assert paper["floor_seconds_at_790_tflops"] == pytest.approx(floor)


@pytest.mark.parametrize("what", ["generation", "posterior", "pretrain"])
def test_without_a_gpu_its_benchmark_is_refused(run, monkeypatch, what):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = run("bench", what, *SMALL, "--device", "cuda")
    assert found["code"] == 2
    assert "No CUDA device is available." in found["said"]


@pytest.mark.gpu
@pytest.mark.parametrize("what", ["generation", "posterior"])
def test_a_gpu_is_measured_by_the_same_code(run, what):
    found = measured(run, what, "--device", "cuda", "--dtype", "bfloat16")
    assert found["machine"]["gpu"]
    assert found["ratio"] > 0


@pytest.mark.slow
def test_a_corpus_is_timed_beside_other_readers_of_its_file(run):
    found = run("bench", "corpus", "--megabytes", 1)
    assert found["code"] == 0, found["said"]
    rows = found["rows"]
    assert set(rows) == {"wc", "gzip", "corpus", "canaries", "two_workers"}
    assert all(row["megabytes_per_second"] > 0 for row in rows.values())
    assert rows["corpus"]["n_notes"] == rows["canaries"]["n_notes"] == found["n_notes"]
    assert (
        rows["corpus"]["private"] != rows["canaries"]["private"] == rows["two_workers"]["private"]
    )
