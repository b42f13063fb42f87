"""Whether stated errors and intervals are right, and what mass is worth beside counting.

    python -m benchmarks.score_errors coverage [--lists 2000]
    python -m benchmarks.score_errors errors --directory DIR [--runs 30]
    python -m benchmarks.score_errors counting --directory DIR [--documents 500] [--own MODEL CSV]
    python -m benchmarks.score_errors stops --directory DIR [--runs 40]

"coverage" draws scores with a known AUC. "errors" compares the spread over runs with the stated
standard errors. "counting" compares the mass that names get while documents are made with counting
them, in the demo or for the members of a list in a model of one's own; "stops" draws sequential
audits out of the demo's evidence. Evidence is kept in DIR, so a stopped run goes on.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from audit.attack import evidence, prompts, scenarios, scores
from audit.attack import scores as part_scores
from audit.attack.decisions import ComparisonPool, decide
from audit.attack.judgement import find_settled_names
from audit.demo import DemoTask
from audit.home import DEMO_HOSPITAL
from audit.models.forward import Forward
from audit.models.load import load_pair
from audit.names import spelling
from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import N_REFERENCE, reference_controls
from audit.names.pools import us_pool
from audit.progress import Meter, Phase
from audit.stats import assign_blocks, auc, auc_interval
from audit.text import fold_name
from cache.store import Store

POOL = us_pool()
EXPOSURES = ("hospital-1.6", "hospital-5", "hospital-20", "hospital-40")
N_DOCUMENTS, N_INPUTS = 300, 2000


def sums_of(hospital: dict[str, np.ndarray], general: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return both models' sums as `compute_scores` takes them."""
    sums_by_model = {"hospital": hospital, "general": general}
    return {
        f"{model}_{name}": x for model, sums in sums_by_model.items() for name, x in sums.items()
    }


# --- pairs and their evidence -----------------------------------------------------------------


def every_part() -> Candidates:
    """Return names that hold every part of the generator."""
    n = max(len(POOL.first), len(POOL.last))
    pairs = [(POOL.first[i % len(POOL.first)], POOL.last[i % len(POOL.last)]) for i in range(n)]
    return make_candidates(pairs)


def no_meter() -> Meter:
    """Return a meter that tells nobody."""
    return Meter([Phase("evidence", 1.0)], listener=lambda _: None)


def part_evidence(
    store: Store,
    model: Path,
    *,
    scenario: int,
    seed: int = 0,
    n: int = 0,
    n_steps: int = 500,
    is_counted: bool = False,
    own_controls: Candidates | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the evidence of every part by block [b, F + L], and [b] inputs or documents.

    In scenario 1 it is the mass, or where `is_counted` the documents that hold the part. It is that
    of the distinct parts of `own` names instead, whose model need not belong to the demo.
    """
    request = DemoTask(n_documents=N_DOCUMENTS, n_inputs=N_INPUTS, seed=seed).request(scenario)
    request = request.with_(hospital=model, candidates=own_controls or every_part())
    request = request.with_(general=model) if own_controls else request
    pair = load_pair(request.general, model)
    source = evidence.Source(
        pair.hospital,
        Forward(pair.hospital.model),
        "cpu",
        evidence.ResultsShardStore(store),
        no_meter(),
        "evidence",
    )
    names = request.candidates
    if scenario == 2:
        task: Any = scenarios.make_task(request, pair, names)
        shard = evidence.collect(source, task, kind="posterior", n_total=n or N_INPUTS)
        return _by_pool(shard.sum_log_p, task.part_columns), shard.n_inputs
    request = request.with_(generation=request.generation.with_(n_steps=n_steps))
    kind = scenarios.main_passage_kind(request)
    pieces = spelling.part_pieces(names, kind=kind, tokenizer=pair.hospital.tokenizer)
    task = scenarios.make_task(request, pair, names)
    collected = evidence.collect(source, task, kind="generation", n_total=n or N_DOCUMENTS)
    columns = prompts.part_columns([pieces], has_between=[False])
    if is_counted:  # of single word pieces: the documents that hold them
        held_masses = np.zeros((len(collected.documents), collected.mass.shape[1]))
        np.put_along_axis(held_masses, collected.documents, 1.0, axis=1)
        begins = np.cumsum(collected.n_documents) - collected.n_documents
        collected = replace(collected, mass=np.add.reduceat(held_masses, begins, axis=0))
    masses = scenarios._read_part_masses(collected, task, pieces, columns)
    return masses if own_controls else _by_pool(masses, columns), collected.n_documents


def _by_pool(by_column: np.ndarray, columns: np.ndarray) -> np.ndarray:
    first, last = columns[: len(POOL.first), 0], columns[: len(POOL.last), 1]
    return by_column[:, np.concatenate([first, last])]


def total(by_block: np.ndarray, counts: np.ndarray, *, scenario: int) -> np.ndarray:
    """Return the evidence of parts [F + L] that the scores are made of."""
    if scenario == 1:
        return np.asarray(np.log(by_block.sum(axis=0) + 0.5))
    return np.asarray(by_block.sum(axis=0) / counts.sum())


# --- a list, judged ---------------------------------------------------------------------------

FIRST = {fold_name(name): i for i, name in enumerate(POOL.first)}
LAST = {fold_name(name): len(POOL.first) + i for i, name in enumerate(POOL.last)}


def columns_of(names: Candidates) -> np.ndarray:
    """Return [N, 2] places among all parts of the generator."""
    pairs = zip(names.first, names.last, strict=True)
    return np.array([[FIRST[fold_name(f)], LAST[fold_name(last)]] for f, last in pairs])


@cache
def references() -> np.ndarray:
    """Return [R, 2] reference controls as an audit draws them."""
    return columns_of(
        reference_controls(POOL, n_by_pieces={2: N_REFERENCE}, count_pieces=lambda *_: 1, seed=0)
    )


def parts_of(listed: np.ndarray, held_parts: np.ndarray) -> part_scores.NameParts:
    """Describe listed names [N, 2] and reference controls [R, 2] by all parts of the generator."""
    n_parts = len(FIRST) + len(LAST)
    return part_scores.NameParts(
        of_name=np.concatenate([listed, held_parts]),
        log_share=np.log([*POOL.first_share, *POOL.last_share]),
        n_pieces=np.ones(n_parts, dtype=np.int64),
        is_last=np.arange(n_parts) >= len(FIRST),
        is_known=np.ones(n_parts, dtype=np.bool_),
    )


def flagged(names: Candidates, residual: np.ndarray, parts: part_scores.NameParts) -> np.ndarray:
    """Return which of N listed names stand out among the references, by residuals of parts."""
    score, n = part_scores.soft_minimum(*parts.pairs(residual)), len(names)
    n_references = len(score) - n
    pool = ComparisonPool(score[n:], np.zeros(n_references, np.int64), np.full(n_references, -1))
    return decide(
        score[:n],
        standard_errors=np.zeros(n),
        n_blocks=100,
        groups=np.zeros(n, dtype=np.int64),
        is_member=names.is_member,
        pool=pool,
    ).point_flag


# --- intervals and errors ---------------------------------------------------------------------


def coverage(options: argparse.Namespace) -> None:
    """Print how often the AUC's interval holds the true AUC."""
    from scipy.stats import norm

    families: dict[str, Callable[[np.random.Generator, int, int, float], tuple[Any, Any]]] = {
        "binormal": lambda rng, m, n, a: (
            rng.normal(norm.ppf(a) * math.sqrt(2), 1, m),
            rng.normal(size=n),
        ),
        "mixture": lambda rng, m, n, a: (
            rng.normal(size=m)
            + 4 * (rng.random(m) < (a - 0.5) / (norm.cdf(4 / math.sqrt(2)) - 0.5)),
            rng.normal(size=n),
        ),
        "unequal spread": lambda rng, m, n, a: (
            rng.normal(norm.ppf(a) * math.sqrt(10), 3, m),
            rng.normal(size=n),
        ),
    }
    for m, n in ((5, 5), (5, 20), (5, 130), (10, 10), (20, 130), (130, 10), (130, 130)):
        for family, draw in families.items():
            covered = []
            for area in (0.5, 0.75, 0.95):
                rng = np.random.default_rng([m, n, int(100 * area)])
                hits = 0
                for _ in range(options.lists):
                    interval = auc_interval(
                        np.concatenate(draw(rng, m, n, area)), np.arange(m + n) < m
                    )
                    hits += interval.low <= area <= interval.high
                covered.append(f"{hits / options.lists:.3f}")
            print(f"| {m} + {n} | {family} | {' | '.join(covered)} |", flush=True)


def errors(options: argparse.Namespace) -> None:
    """Print the root mean square over names of (spread over runs / stated error)."""
    general = DEMO_HOSPITAL / "en" / "models" / "general"
    names = DemoTask().request(2).candidates
    listed = columns_of(names)
    parts = parts_of(listed, references())
    with Store(options.directory / "store") as store:
        for scenario, sizes in ((2, (100, 500)), (1, (100,))):
            for n in sizes:
                tables: dict[str, list[Any]] = {}
                for seed in range(options.runs):
                    first_run, second_run = (
                        part_evidence(store, model, scenario=scenario, seed=seed, n=n, n_steps=100)
                        for model in (DEMO_HOSPITAL / "en" / "models" / "hospital-5", general)
                    )
                    for name, score in _scores(first_run, second_run, parts, scenario).items():
                        tables.setdefault(name, []).append(score[:, : len(names)])
                for name, runs in tables.items():
                    rms = _error_ratio(runs)
                    print(f"scenario {scenario}, n = {n}, {name}: {rms:.2f}", flush=True)
        chain_errors(options, store)


def chain_errors(options: argparse.Namespace, store: Store) -> None:
    """The same for `chain`, 12 names and 60 inputs."""
    names, rows = every_part().rows(range(12)), []
    request = DemoTask().request(2, hospital="hospital-5").with_(candidates=names)
    pair = load_pair(request.general, request.hospital)
    for seed in range(options.runs):
        task = scenarios.make_task(request.with_(seed=seed), pair, names)
        shards = []
        for loaded in (pair.hospital, pair.general):
            source = evidence.Source(
                loaded,
                Forward(loaded.model),
                "cpu",
                evidence.ResultsShardStore(store),
                no_meter(),
                "evidence",
            )
            shards.append(evidence.collect(source, task, kind="chain", n_total=60))
        sums = [{"p": shard.sum_p, "log_p": shard.sum_log_p} for shard in shards]
        score = scores.compute_scores(
            sums_of(sums[0], sums[1]), counts=shards[0].n_inputs, parts=None
        )["mean_log_ratio"]
        rows.append(score)
    print(f"chain, n = 60, mean_log_ratio: {_error_ratio(rows):.2f}", flush=True)


def _error_ratio(runs: list[Any]) -> float:
    values, stated = (np.array(x) for x in zip(*runs, strict=True))
    has_mass = (values.std(axis=0) > 0) & ~np.isnan(stated).any(axis=0)  # some names have no mass
    ratio = values.var(axis=0, ddof=1)[has_mass] / np.square(stated[:, has_mass]).mean(axis=0)
    return math.sqrt(float(ratio.mean()))


def _scores(first_run: Any, second_run: Any, parts: Any, scenario: int) -> dict[str, Any]:
    nothing = np.zeros((len(first_run[1]), 0))
    if scenario == 2:
        sums = [{"p": nothing, "log_p": x} for x, _ in (first_run, second_run)]
        score_table = scores.compute_scores(
            sums_of(sums[0], sums[1]), counts=first_run[1], parts=parts
        )
        return {name: score_table[name] for name in ("residual", "mean_log_ratio")}
    masses = [
        {"mass": x, "hits": nothing, "full_hits": nothing} for x, _ in (first_run, second_run)
    ]
    score_table = scores.compute_scores(
        sums_of(masses[0], masses[1]), counts=first_run[1], parts=parts
    )
    return {name: score_table[name] for name in ("residual", "half_log_ratio")}


# --- mass against counting ----------------------------------------------------------------------


def equal_documents(mass: np.ndarray, held_parts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return [2, K] how many documents of counting tell as much as one of mass, by part.

    `mass` and `held` [b, K] of K parts. First counting every draw (its error is at least that of
    draws that know nothing of each other), then counting in finished documents (binomial). An error
    is a share of what it is the error of, for the two are not counts of one thing.
    """
    n, total = counts.sum(), mass.sum(axis=0)
    jackknifed = scores.jackknife(
        lambda of, n_here: {"mass": of["mass"] / n_here}, {"mass": mass}, counts=counts
    )["mass"]
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = n * np.square(jackknifed[1] / jackknifed[0])  # of one document
        share = held_parts.sum(axis=0) / n
        efficiency: np.ndarray = np.stack([n / total, (1 - share) / share]) / variance
        return efficiency


def counting(options: argparse.Namespace) -> None:
    """Print what mass saves against counting, and what both find after so many documents."""
    from audit.names.files import read_names

    general = DEMO_HOSPITAL / "en" / "models" / "general"
    names = DemoTask().request(1).candidates
    member = np.array([m is True for m in names.is_member])
    columns = np.unique(columns_of(names)[member])
    with Store(options.directory / "store") as store:
        collection = {"store": store, "scenario": 1, "n": options.documents}
        if options.own:
            model, path = options.own
            own_controls = read_names(path.read_bytes(), subject="names").candidates
            own_controls = own_controls.rows(
                [row for row, m in enumerate(own_controls.is_member) if m]
            )
            (mass, counts), (held_parts, _) = (
                part_evidence(
                    model=model, own_controls=own_controls, is_counted=is_counted, **collection
                )
                for is_counted in (False, True)
            )
            _print_equal(model.name, mass, held_parts, counts)
            return
        for model in ("hospital-40", "hospital-5"):
            ways = [
                [
                    part_evidence(model=folder, is_counted=is_counted, **collection)
                    for folder in (DEMO_HOSPITAL / "en" / "models" / model, general)
                ]
                for is_counted in (False, True)
            ]
            (mass, counts), (held_parts, _) = ways[0][0], ways[1][0]
            _print_equal(model, mass[:, columns], held_parts[:, columns], counts)
            for n in (25, 50, 100, 200, 300, 500, 1000, 2000):
                if n > options.documents:
                    break
                b = int(np.searchsorted(np.cumsum(counts), n)) + 1
                cells = [
                    _compute_aucs(names, member, [x[:b] for x, _ in masses], counts[:b])
                    for masses in ways
                ]
                print(f"| {model} | {n} | {' | '.join(cells)} |", flush=True)


def _print_equal(model: str, mass: np.ndarray, held_parts: np.ndarray, counts: np.ndarray) -> None:
    ratios = equal_documents(mass, held_parts, counts)
    for unit, ratio in zip(("draws", "finished documents"), ratios, strict=True):
        finite_ratios = ratio[np.isfinite(ratio)]
        low, middle, high = np.quantile(finite_ratios, [0.25, 0.5, 0.75])
        print(
            f"{model}: a document of mass is {middle:.1f} ({low:.1f} to {high:.1f}) of "
            f"counting {unit}; {len(finite_ratios)} of {mass.shape[1]} parts",
            flush=True,
        )


def _compute_aucs(
    names: Candidates, member: np.ndarray, masses: list[np.ndarray], counts: np.ndarray
) -> str:
    """Members and controls that stand out, and the AUC, after some blocks."""
    evidence = [total(x, counts, scenario=1) for x in masses]
    parts = parts_of(columns_of(names), references())
    residual = part_scores.compute_residuals(*evidence, parts=parts)
    flags, score = flagged(names, residual, parts), part_scores.soft_minimum(*parts.pairs(residual))
    area = auc(score[: len(names)], member)
    return f"{flags[member].sum()} / {flags[~member].sum()} | {area:.3f}"


# --- sequential audits --------------------------------------------------------------------------


def stops(options: argparse.Namespace) -> None:
    """Print after how many inputs sequential audits end, and how many end wrongly.

    Inputs are drawn from a normal distribution with the demo's own means, and its covariance of all
    parts of both models over blocks of 100 inputs; the means are what endless inputs would say.
    """
    names = DemoTask().request(2).candidates
    listed = columns_of(names)
    parts = parts_of(listed, references())
    look_sizes = evidence.look_sizes(10_000)
    counts = np.bincount(assign_blocks(0, look_sizes[-1]))
    ends_of = {n: int(np.searchsorted(np.cumsum(counts), n)) + 1 for n in look_sizes[:-1]}

    def flags(means: list[np.ndarray]) -> np.ndarray:
        residual = part_scores.compute_residuals(*means, parts=parts)
        return flagged(names, residual, parts)

    def run(masses: list[np.ndarray]) -> tuple[int, np.ndarray | None]:
        """One audit: inputs used, and its decisions where it ended before all of them."""
        for n, b in ends_of.items():
            sums = {"hospital_log_p": masses[0][:b], "general_log_p": masses[1][:b]}
            settled = find_settled_names(
                scores.compute_residual_errors(sums, counts=counts[:b], parts=parts),
                counts=counts[:b],
                listed=names,
                parts=parts,
                n_pieces=np.full(len(parts.of_name), 2),
                n_looks=len(ends_of),
                source="invented",
            )
            if settled.all():
                return n, flags([x[:b].sum(axis=0) / n for x in masses])
        return look_sizes[-1], None

    with Store(options.directory / "store") as store:
        for model in ("null", *EXPOSURES):
            folder = DEMO_HOSPITAL / "en" / "models"
            evidence_pair = [
                part_evidence(store, folder / model_name, scenario=2, n=10_000)[0]
                for model_name in (model, "general")
            ]
            means = [x.sum(axis=0) / 10_000 for x in evidence_pair]
            spread = [(x[-80:] - x[-80:].mean(axis=0)) / math.sqrt(79 * 100) for x in evidence_pair]
            truth, ends, n_wrong = flags(means), list[int](), 0
            for number in range(options.runs):
                rng = np.random.default_rng([number, *model.encode()])
                noise = rng.normal(size=(len(counts), 80)) * np.sqrt(counts)[:, None]
                used, flags_then = run(
                    [
                        counts[:, None] * mean + noise @ deviation
                        for mean, deviation in zip(means, spread, strict=True)
                    ]
                )
                ends.append(used)
                n_wrong += flags_then is not None and bool((flags_then != truth).any())
            stop_counts = ", ".join(f"{ends.count(end)} after {end:,}" for end in sorted(set(ends)))
            print(f"{model}: {stop_counts}; {n_wrong} of {options.runs} ended wrongly", flush=True)


def main() -> None:
    """Run one part and print its table."""
    parts = {"coverage": coverage, "errors": errors, "counting": counting, "stops": stops}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--directory", type=Path, default=Path("out/score-errors"))
    parser.add_argument("--lists", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--own", type=Path, nargs=2, metavar=("MODEL", "CSV"))
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    parts[options.part](options)


if __name__ == "__main__":
    main()
