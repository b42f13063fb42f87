"""How the cost of each kind of work grows: measured on small models, fitted, and drawn.

    python -m benchmarks.growth --rounds 3 --picture docs/growth.svg

Every size of every axis is a work of its own; they take turns in one process, and the medians of
processor seconds are fitted by a line in the logarithms of the upper half of sizes, where fixed
costs weigh least: cost ~ size ^ exponent.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from audit.attack.generation import GenerationTask, generate_shard
from audit.attack.posterior import make_posterior_shard
from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.bench.attacks import make_generation_task, make_posterior_task, make_random_model
from audit.bench.corpus_building import write_notes
from audit.bench.machine import describe_machine, use_threads
from audit.bench.race import BenchSettings, race_works
from audit.corpus.make import CorpusTask, make_corpus
from audit.demo import DemoTask
from audit.models.forward import Forward
from audit.names.candidates import make_candidates
from audit.run import run_audit
from cache.store import Store

SMALL = BenchSettings(n_layers=2, width=128, n_vocabulary=2_000)
BASE = BenchSettings()
DOCUMENTS_PER_SHARD = 100
Work = Callable[[], float]
Axis = tuple[str, Sequence[int], Callable[[int], Work]]


def main() -> None:
    """Measure, fit, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--picture", type=Path, help="an SVG")
    parser.add_argument("--largest", type=int, default=6, help="how many sizes of each axis")
    options = parser.parse_args()
    with use_threads(1), TemporaryDirectory() as folder:
        seconds_by_axis = measured(
            axes(Path(folder)), n_rounds=options.rounds, n_sizes=options.largest
        )
    record = {"machine": describe_machine("cpu"), "rounds": options.rounds, "axes": seconds_by_axis}
    print(json.dumps(record, indent=1))
    if options.picture:
        options.picture.write_text(picture(seconds_by_axis), encoding="utf-8")


def axes(folder: Path) -> list[Axis]:
    """Return what grows, its sizes, and the work of a size."""
    small = _forward(SMALL)
    return [
        ("documents", (100, 200, 400, 800, 1600), lambda n: _generated(small, n=n, n_steps=5)),
        ("steps", (5, 10, 20, 40, 80), lambda n: _generated(small, n=100, n_steps=n)),
        (
            "tokens of a document",
            (16, 32, 64, 128, 256),
            lambda n: _generated(small, n=50, n_steps=5, n_tokens=n),
        ),
        ("parameters of the layers", tuple(map(_n_parameters, _SHAPES)), _of_shape),
        ("inputs", (60, 120, 240, 480, 960), lambda n: _posteriors(small, n=n)),
        (
            "names, read in each input",
            (1_000, 4_000, 16_000, 64_000, 256_000),
            lambda n: _posteriors(small, n=60, n_names=n),
        ),
        (
            "names, scenario 1 judged",
            (500, 1_000, 2_000, 4_000, 8_000, 16_000),
            lambda n: _audited(folder, n, scenario=1),
        ),
        (
            "names, scenario 2 judged",
            (500, 1_000, 2_000, 4_000, 8_000, 16_000),
            lambda n: _audited(folder, n, scenario=2),
        ),
        ("kilobytes of notes", (500, 1_000, 2_000, 4_000, 8_000), lambda n: _corpus(folder, n)),
    ]


def measured(
    axes: Sequence[Axis], *, n_rounds: int, n_sizes: int
) -> dict[str, dict[str, list[float] | float]]:
    """Return of each axis its sizes, processor seconds, and the fitted exponent."""
    works = {(name, size): make(size) for name, sizes, make in axes for size in sizes[:n_sizes]}
    keys = {f"{number:03}": key for number, key in enumerate(works)}
    rates = race_works(
        {number: works[key] for number, key in keys.items()}, n_rounds=n_rounds, device="cpu"
    )
    seconds = {key: float(np.median(1 / np.array(rates[number]))) for number, key in keys.items()}
    seconds_by_axis: dict[str, dict[str, list[float] | float]] = {}
    for name, sizes, _ in axes:
        x, y = (
            list(map(float, sizes[:n_sizes])),
            [seconds[name, n_units] for n_units in sizes[:n_sizes]],
        )
        upper = slice(len(x) // 2, None)
        slope, _ = np.polyfit(np.log(x[upper]), np.log(y[upper]), 1)
        seconds_by_axis[name] = {"sizes": x, "cpu_seconds": y, "exponent": float(slope)}
    return seconds_by_axis


def _forward(settings: BenchSettings) -> Forward:
    return Forward(make_random_model(settings))


def _generated(forward: Forward, *, n: int, n_steps: int, n_tokens: int = 32) -> Work:
    settings = SMALL.with_(n_steps=n_steps, n_tokens=n_tokens)
    return _in_shards(forward, make_generation_task(settings), n=n)


def _in_shards(forward: Forward, task: GenerationTask, *, n: int) -> Work:
    def work() -> float:
        for shard, first in enumerate(range(0, n, DOCUMENTS_PER_SHARD)):
            generate_shard(
                forward,
                task,
                shard=shard,
                first=first,
                n=min(n - first, DOCUMENTS_PER_SHARD),
                device="cpu",
                tick=lambda _: None,
            )
        return 1.0

    return work


_SHAPES = ((2, 128), (3, 192), (4, 320), (6, 512), (12, 768))
"""Layers and width."""


def _n_parameters(shape: tuple[int, int]) -> int:
    """Numbers in the matrices of the layers."""
    n_layers, width = shape
    return n_layers * 12 * width**2


def _of_shape(n_parameters: int) -> Work:
    n_layers, width = next(
        model_shape for model_shape in _SHAPES if _n_parameters(model_shape) == n_parameters
    )
    settings = SMALL.with_(n_layers=n_layers, width=width, n_steps=2)
    return _in_shards(_forward(settings), make_generation_task(settings), n=32)


def _posteriors(forward: Forward, *, n: int, n_names: int = 2_860) -> Work:
    task = make_posterior_task(SMALL.with_(n_names=n_names))

    def work() -> float:
        make_posterior_shard(
            forward, task, shard=0, first=0, n=n, device="cpu", tick=lambda _: None
        )
        return 1.0

    return work


def _audited(folder: Path, n: int, *, scenario: int) -> Work:
    """Return a whole audit of the demo's pair with next to no evidence: `n` names of no truth."""
    request = DemoTask().request(scenario)
    candidates = request.candidates
    firsts, lasts = (
        sorted({name_part for name_part in part if name_part})
        for part in (candidates.first, candidates.last)
    )
    pairs = list(product(firsts, lasts))
    short_request = request.with_(
        candidates=make_candidates(pairs[:: len(pairs) // n][:n]),
        generation=GenerationSettings(n_documents=100, n_steps=1),
        posterior=PosteriorSettings(n_inputs=100, n_chain_inputs=0),
        dtype="float32",
    )
    number = count()

    def work() -> float:
        with Store(folder / f"{scenario} {n} {next(number)}") as store:
            run_audit(short_request, store=store)
        return 1.0

    return work


def _corpus(folder: Path, n_kilobytes: int) -> Work:
    notes, number = folder / f"{n_kilobytes}.csv", count()
    write_notes(notes, n_bytes=n_kilobytes * 1_000)

    def work() -> float:
        out = folder / f"corpus {n_kilobytes} {next(number)}"
        make_corpus(CorpusTask(notes=notes, seed=1, canary_counts=(1, 2, 4, 8)), out=out)
        return 1.0

    return work


_WIDE, _HIGH, _ACROSS = 280, 200, 3


def picture(seconds_by_axis: Mapping[str, Mapping[str, list[float] | float]]) -> str:
    """Return an SVG with one log-log panel an axis, all of one scale."""
    n_down = math.ceil(len(seconds_by_axis) / _ACROSS)
    panels = [
        f'<g transform="translate({_WIDE * (i % _ACROSS)},{_HIGH * (i // _ACROSS)})">'
        f"{_panel(name, axis)}</g>"
        for i, (name, axis) in enumerate(seconds_by_axis.items())
    ]
    title = "Processor seconds by size, both logarithmic, with the fitted exponent"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE * _ACROSS} {_HIGH * n_down}" '
        f'font-family="sans-serif" font-size="11" role="img"><title>{title}</title>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(panels)}</svg>\n'
    )


def _panel(name: str, axis: Mapping[str, list[float] | float]) -> str:
    sizes, seconds = np.log10(axis["sizes"]), np.log10(axis["cpu_seconds"])
    left, top = math.floor(sizes.min()), math.ceil(seconds.max())
    decade = 44  # pixels, both ways: a slope of 1 is drawn at 45 degrees
    x, y = 36 + (sizes - left) * decade, 24 + (top - seconds) * decade
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    lines = [f'<text x="36" y="14">{escape(name)}: exponent {axis["exponent"]:.2f}</text>']
    for k in range(6):
        offset = 36 + k * decade
        lines.append(f'<path d="M{offset} 24V{_HIGH - 20}" stroke="#ddd"/>')
        lines.append(
            f'<text x="{offset}" y="{_HIGH - 8}" text-anchor="middle">{_power(left + k)}</text>'
        )
    for k in range(4):
        offset = 24 + k * decade
        lines.append(f'<path d="M36 {offset}H{_WIDE - 4}" stroke="#ddd"/>')
        lines.append(f'<text x="32" y="{offset + 4}" text-anchor="end">{_power(top - k)}</text>')
    lines.append(f'<polyline points="{points}" fill="none" stroke="#b4532a" stroke-width="2"/>')
    dots = zip(x, y, strict=True)
    lines += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="#b4532a"/>' for a, b in dots]
    return "".join(lines)


def _power(k: int) -> str:
    return f"{10.0**k:g}"


if __name__ == "__main__":
    main()
