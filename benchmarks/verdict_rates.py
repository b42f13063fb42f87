"""How often the verdict is wrong, and how often it finds a planted leak: rates with intervals.

    python benchmarks/verdict_rates.py nulls --directory DIR [--lists 400] [--pairs 5]
    python benchmarks/verdict_rates.py leaks --directory DIR
    python benchmarks/verdict_rates.py coverage [--lists 2000]
    python benchmarks/verdict_rates.py errors --directory DIR [--runs 30]

"nulls" trains null pairs (the demo's M_general, further trained on notes with other names; minutes
each), takes the evidence of every part that the name generator knows, and judges lists of names
that were in no notes. "leaks" trains hospital models in the same way and judges the demo's list.
"coverage" draws scores with a known AUC. "errors" compares the spread over runs with the stated
standard errors. Trainings, evidence and finished cases are kept in DIR, so a stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from audit.attack import attacks, evidence, prompts, scores
from audit.attack import scores as part_scores
from audit.attack.attacks import MIN_REFERENCE, REFERENCE_PER_NAME
from audit.attack.cohort import relabelling_test
from audit.attack.decisions import decide
from audit.attack.verdict import Ranked, give_verdict
from audit.demo import DemoTask
from audit.home import DEMO_HOSPITAL
from audit.models.load import load_pair
from audit.names import spelling
from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import reference_controls
from audit.names.pools import us_pool
from audit.progress import Meter
from audit.stats import Rate, auc_interval
from audit.text import fold_name
from benchmarks import demo_hospital
from cache.store import Store

POOL = us_pool()
WORDS = ("Pain", "Care", "Little", "Long", "Young", "Black", "White", "Brown", "Green", "Hill",
         "Small", "Strong", "Short", "Hand", "Church", "Day", "Price", "Wise", "Love", "Fields",
         "Waters", "Woods", "Rivers", "Stone")  # fmt: skip
EXPOSURES = ("hospital-1.6", "hospital-5", "hospital-20", "hospital-40")
N_DOCUMENTS, N_INPUTS = 300, 2000


def sums_of(hospital: dict[str, np.ndarray], general: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return both models' sums as `all_scores` takes them."""
    both = {"hospital": hospital, "general": general}
    return {f"{who}_{name}": x for who, sums in both.items() for name, x in sums.items()}


# --- pairs and their evidence -----------------------------------------------------------------


def train(folder: Path, *, seed: int, is_null: bool) -> None:
    """Further train the demo's M_general on notes with the list's names, or with other ones."""
    recipe, source = demo_hospital.ENGLISH, DEMO_HOSPITAL / "en" / "models" / "general"
    members = demo_hospital.demo_members(POOL, recipe, seed=seed)
    listed = members + demo_hospital.demo_controls(POOL, recipe, seed=seed)
    named = list(zip(members.first, members.last, strict=True))
    if is_null:
        named = demo_hospital.null_names(POOL, recipe, seed=seed)
    hospital = demo_hospital.demo_notes(
        named, language="en", n_notes=recipe.n_notes,
        staff=demo_hospital.demo_staff(POOL, recipe, seed=seed), seed=seed,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    if not is_null:
        demo_hospital._write_names(folder / "names.csv", listed, hospital.n_mentions)
        demo_hospital._write_passages(folder / "passages.jsonl", hospital)
    demo_hospital.train_hospital(
        hospital.notes, recipe, folder, seed=seed, general=source,
        label="null" if is_null else "hospital",
    )  # fmt: skip


def pair_folder(directory: Path, seed: int, *, is_null: bool) -> Path:
    """Return the folder of a trained pair's models; made where it is not there. Seed 0: shipped."""
    if seed == 0:
        return DEMO_HOSPITAL / "en"
    folder = directory / f"seed-{seed}" / "en"
    last = "null" if is_null else EXPOSURES[-1]
    if not (folder / "models" / last / "config.json").is_file():
        train(folder, seed=seed, is_null=is_null)
    return folder


def every_part() -> Candidates:
    """Return names that hold every part of the generator."""
    n = max(len(POOL.first), len(POOL.last))
    pairs = [(POOL.first[i % len(POOL.first)], POOL.last[i % len(POOL.last)]) for i in range(n)]
    return make_candidates(pairs)


def part_evidence(
    store: Store, model: Path, *, scenario: int, seed: int = 0, n: int = 0, n_steps: int = 500
) -> tuple[np.ndarray, np.ndarray]:
    """Return the evidence of every part by block [b, F + L], and [b] inputs or documents."""
    request = DemoTask(n_documents=N_DOCUMENTS, n_inputs=N_INPUTS, seed=seed).request(scenario)
    request = request.with_(hospital=model, candidates=every_part())
    pair = load_pair(request.general, model)
    meter = Meter({"evidence": 1.0}, listener=lambda _: None, should_stop=lambda: False)
    source = evidence.Source(pair.hospital, "cpu", "float32", store, meter, "evidence")
    names = request.candidates
    if scenario == 2:
        task: Any = attacks.task_of(request, pair, names)
        shard = evidence.collect(source, task, kind="posterior", n_total=n or N_INPUTS)
        return _by_pool(shard.sum_log_p, task.part_columns), shard.n_inputs
    request = request.with_(generation=request.generation.with_(n_steps=n_steps))
    kind = attacks.main_lead(request)
    pieces = spelling.part_pieces(names, kind=kind, tokenizer=pair.hospital.tokenizer)
    task = attacks.task_of(request, pair, names)
    made = evidence.collect(source, task, kind="generation", n_total=n or N_DOCUMENTS)
    columns = prompts.part_columns([pieces], has_between=[False])
    return _by_pool(attacks._part_masses(made, task, pieces, columns), columns), made.n_documents


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
def all_references() -> np.ndarray:
    """Return [60,000, 2] reference controls in the order in which an audit draws them."""
    return columns_of(
        reference_controls(POOL, n_by_pieces={2: 60_000}, count_pieces=lambda *_: 1, seed=0)
    )


def references(tested: np.ndarray) -> np.ndarray:
    """Return [R, 2] the first reference controls that share no part with the tested names."""
    n = max(MIN_REFERENCE, REFERENCE_PER_NAME * len(tested))
    held = all_references()
    return held[~np.isin(held, tested).any(axis=1)][:n]


def judged(
    names: Candidates, hospital: np.ndarray, general: np.ndarray, *, n_relabelled: int, seed: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Judge a list by the product's own functions; return the verdict and who has q <= 0.05 [N]."""
    tested = np.array([m is not False for m in names.is_member])
    listed = columns_of(names)
    held = references(listed[tested])
    n_parts = len(hospital)
    parts = part_scores.NameParts(
        of_name=np.concatenate([listed, held]),
        log_share=np.log([*POOL.first_share, *POOL.last_share]),
        n_pieces=np.ones(n_parts, dtype=np.int64), is_last=np.arange(n_parts) >= len(FIRST),
        is_known=np.ones(n_parts, dtype=np.bool_),
        n_reference=np.bincount(held.ravel(), minlength=n_parts),
    )  # fmt: skip
    residual = part_scores.part_residuals(hospital, general, parts=parts)
    limits = part_scores.part_limits(residual, parts=parts)
    score = part_scores.both_parts(*parts.pairs(residual), limits=limits)
    n = len(names)
    decisions = decide(
        score[:n], standard_error=np.zeros(n), n_blocks=100, group=np.zeros(n),
        is_member=names.is_member, reference_scores=score[n:],
        reference_group=np.zeros(len(held)),
        limit=part_scores.name_limits(*parts.pairs(residual), limits=limits)[:n],
        part_p=part_scores.part_p_values(residual, parts=parts)[:n],
    )  # fmt: skip
    ranked = None
    if names.has_truth:
        member = np.array([m is True for m in names.is_member])
        alone = parts.whole(general)[:n]
        clusters = (listed[:, 0], listed[:, 1])
        relabelled = relabelling_test(
            listed, member, by_part=residual, parts=parts, seed=seed, n_relabelled=n_relabelled
        )
        ranked = Ranked(
            int(member.sum()), int((~member).sum()),
            auc_interval(score[:n], member, clusters=clusters),
            auc_interval(alone, member, clusters=clusters),
            relabelled["p"], relabelled["smallest_auc"],
        )  # fmt: skip
    verdict = give_verdict(
        float(np.nanmin(decisions.q[tested])), n_tested=int(tested.sum()),
        n_flagged=int(decisions.point_flag[tested].sum()), ranked=ranked,
    )  # fmt: skip
    return verdict, decisions.point_flag if verdict["state"] == "leak_found" else decisions.q < 0


Name = tuple[str, str]


class Drawer:
    """Draws names that are in no notes: of a list of 130, one in four would else hold one."""

    def __init__(self, rng: np.random.Generator, in_notes: frozenset[Name]) -> None:
        self.rng, self._in_notes = rng, in_notes

    def names(self, n: int, *, taken: list[Name] | None = None) -> list[Name]:
        """Draw n distinct names as the generator weighs them, none of them taken."""
        found: dict[Name, None] = {}
        while len(found) < n:
            first = POOL.first[self.rng.choice(len(POOL.first), p=POOL.first_share)]
            name = (first, POOL.last[self.rng.choice(len(POOL.last), p=POOL.last_share)])
            if name not in self._in_notes and name not in (taken or ()):
                found[name] = None
        return list(found)

    def with_surnames(self, n: int, last: list[str]) -> list[Name]:
        """Draw n different first names, each with the next of the surnames."""
        found: dict[str, Name] = {}
        while len(found) < n:
            first = str(self.rng.choice(POOL.first, p=POOL.first_share))
            name = (first, last[len(found) % len(last)])
            if first not in found and name not in self._in_notes:
                found[first] = name
        return list(found.values())

    def outside(self, names: list[Name]) -> list[Name]:
        """Return the names that are in no notes."""
        return [name for name in names if name not in self._in_notes]


def a_list(members: list[Name], n_controls: int, draw: Drawer) -> Candidates:
    """Return members, and controls as the generator gives them."""
    others = draw.names(n_controls, taken=members)
    return make_candidates(members, is_member=True) + make_candidates(
        others, is_member=False, control_kind="given"
    )


def surnames(k: int) -> Callable[[Drawer], Candidates]:
    """Return how to draw a list whose 40 members share k surnames."""

    def make(draw: Drawer) -> Candidates:
        last = draw.rng.choice(POOL.last, size=k, replace=False, p=POOL.last_share)
        return a_list(draw.with_surnames(40, [str(name) for name in last]), 80, draw)

    return make


def common(draw: Drawer) -> Candidates:
    """Return the 40 commonest names against others."""
    share = {
        (first, last): POOL.first_shares[fold_name(first)] * POOL.last_shares[fold_name(last)]
        for first in sorted(POOL.first, key=lambda x: -POOL.first_shares[fold_name(x)])[:20]
        for last in sorted(POOL.last, key=lambda x: -POOL.last_shares[fold_name(x)])[:20]
    }
    return a_list(draw.outside(sorted(share, key=lambda name: -share[name]))[:40], 80, draw)


def words(draw: Drawer) -> Candidates:
    """Return 16 names whose surnames are words."""
    known = [word for word in WORDS if fold_name(word) in LAST]
    draw.rng.shuffle(known)
    return a_list(draw.with_surnames(16, known), 80, draw)


CASES: dict[str, Callable[[Drawer], Candidates]] = {
    "Faker, 130 + 260": lambda draw: a_list(draw.names(130), 260, draw),
    "Faker, 40 + 80": lambda draw: a_list(draw.names(40), 80, draw),
    "Faker, 3 + 260": lambda draw: a_list(draw.names(3), 260, draw),
    "Faker, 130 of unknown truth": lambda draw: make_candidates(draw.names(130)),
    "1 surname, 40 + 80": surnames(1),
    "3 surnames, 40 + 80": surnames(3),
    "10 surnames, 40 + 80": surnames(10),
    "40 commonest names + 80": common,
    "16 surnames that are words + 80": words,
}


def nulls(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Judge lists of names that are in no notes."""
    with Store(options.directory / "store") as store:
        for pair in range(options.pairs):
            folder = pair_folder(options.directory, pair, is_null=True)
            for scenario in (2, 1):
                both = [
                    total(*part_evidence(store, model, scenario=scenario), scenario=scenario)
                    for model in (
                        folder / "models" / "null",
                        DEMO_HOSPITAL / "en" / "models" / "general",
                    )
                ]
                for case, make in CASES.items():
                    yield from _case(options, pair, scenario, case, make, both)


def _case(
    options: argparse.Namespace, pair: int, scenario: int, case: str,
    make: Callable[[Drawer], Candidates], both: list[np.ndarray],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    path = options.directory / f"null-{pair}-{scenario}-{case}-{options.lists}.json"
    if not path.is_file():
        in_notes = demo_hospital.null_names(POOL, demo_hospital.ENGLISH, seed=pair)
        draw = Drawer(np.random.default_rng([pair, scenario, *case.encode()]), frozenset(in_notes))
        rows = []
        for number in range(options.lists):
            verdict, flags = judged(make(draw), *both, n_relabelled=options.relabelled, seed=number)
            rows.append([verdict["state"], int(flags.sum())])
        path.write_text(json.dumps(rows))
    states = [state for state, _ in json.loads(path.read_text())]
    yield {"scenario": scenario, "case": case, "states": states}


def leaks(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Judge the demo's list on hospital models, one training seed after the other."""
    with Store(options.directory / "store") as store:
        for seed in range(options.pairs):
            folder = pair_folder(options.directory, seed, is_null=False)
            for exposure in EXPOSURES:
                for scenario in (2, 1):
                    yield _leak(store, folder, exposure, scenario, options.relabelled)


def _leak(
    store: Store, folder: Path, exposure: str, scenario: int, n_relabelled: int
) -> dict[str, Any]:
    from audit.names.files import read_names

    names = read_names((folder / "names.csv").read_bytes(), what="names").candidates
    both = [
        total(*part_evidence(store, model, scenario=scenario), scenario=scenario)
        for model in (folder / "models" / exposure, DEMO_HOSPITAL / "en" / "models" / "general")
    ]
    verdict, flags = judged(names, *both, n_relabelled=n_relabelled, seed=0)
    member = np.array([m is True for m in names.is_member])
    return {
        "scenario": scenario, "case": exposure, "states": [verdict["state"]],
        "auc": verdict["auc"]["value"],
        "members": int(flags[member].sum()), "controls": int(flags[~member].sum()),
    }  # fmt: skip


# --- intervals and errors ---------------------------------------------------------------------


def coverage(options: argparse.Namespace) -> None:
    """Print how often the AUC's interval holds the true AUC."""
    from scipy.stats import norm

    families: dict[str, Callable[[np.random.Generator, int, int, float], tuple[Any, Any]]] = {
        "binormal": lambda rng, m, n, a: (
            rng.normal(norm.ppf(a) * math.sqrt(2), 1, m), rng.normal(size=n)),
        "mixture": lambda rng, m, n, a: (
            rng.normal(size=m)
            + 4 * (rng.random(m) < (a - 0.5) / (norm.cdf(4 / math.sqrt(2)) - 0.5)),
            rng.normal(size=n)),
        "unequal spread": lambda rng, m, n, a: (
            rng.normal(norm.ppf(a) * math.sqrt(10), 3, m), rng.normal(size=n)),
    }  # fmt: skip
    for m, n in ((5, 5), (5, 20), (5, 130), (10, 10), (20, 130), (130, 10), (130, 130)):
        for family, draw in families.items():
            covered = []
            for area in (0.5, 0.75, 0.95):
                rng = np.random.default_rng([m, n, int(100 * area)])
                hits = 0
                for _ in range(options.lists):
                    found = auc_interval(
                        np.concatenate(draw(rng, m, n, area)), np.arange(m + n) < m
                    )
                    hits += found.low <= area <= found.high
                covered.append(f"{hits / options.lists:.3f}")
            print(f"| {m} + {n} | {family} | {' | '.join(covered)} |", flush=True)


def errors(options: argparse.Namespace) -> None:
    """Print the root mean square over names of (spread over runs / stated error)."""
    general = DEMO_HOSPITAL / "en" / "models" / "general"
    names = DemoTask().request(2).candidates
    listed = columns_of(names)
    held = references(listed[:130])
    parts = part_scores.NameParts(
        np.concatenate([listed, held]), np.log([*POOL.first_share, *POOL.last_share]),
        np.ones(len(FIRST) + len(LAST), dtype=np.int64),
        np.arange(len(FIRST) + len(LAST)) >= len(FIRST),
        np.ones(len(FIRST) + len(LAST), dtype=np.bool_),
        np.bincount(held.ravel(), minlength=len(FIRST) + len(LAST)),
    )  # fmt: skip
    with Store(options.directory / "store") as store:
        for scenario, sizes in ((2, (100, 500)), (1, (100,))):
            for n in sizes:
                found: dict[str, list[Any]] = {}
                for seed in range(options.runs):
                    one, other = (
                        part_evidence(store, model, scenario=scenario, seed=seed, n=n, n_steps=100)
                        for model in (DEMO_HOSPITAL / "en" / "models" / "hospital-5", general)
                    )
                    for name, score in _scores(one, other, parts, scenario).items():
                        found.setdefault(name, []).append(score[:, : len(names)])
                for name, runs in found.items():
                    rms = _error_ratio(runs)
                    print(f"scenario {scenario}, n = {n}, {name}: {rms:.2f}", flush=True)
        chain_errors(options, store)


def chain_errors(options: argparse.Namespace, store: Store) -> None:
    """The same for `chain`, 12 names and 60 inputs."""
    names, found = every_part().rows(range(12)), []
    request = DemoTask().request(2, hospital="hospital-5").with_(candidates=names)
    pair = load_pair(request.general, request.hospital)
    for seed in range(options.runs):
        task = attacks.task_of(request.with_(seed=seed), pair, names)
        shards = []
        for loaded in (pair.hospital, pair.general):
            meter = Meter({"chain": 1.0}, listener=lambda _: None, should_stop=lambda: False)
            source = evidence.Source(loaded, "cpu", "float32", store, meter, "chain")
            shards.append(evidence.collect(source, task, kind="chain", n_total=60))
        sums = [{"p": shard.sum_p, "log_p": shard.sum_log_p} for shard in shards]
        score = scores.all_scores(sums_of(sums[0], sums[1]), counts=shards[0].n_inputs, parts=None)[
            "mean_log_ratio"
        ]
        found.append(score)
    print(f"chain, n = 60, mean_log_ratio: {_error_ratio(found):.2f}", flush=True)


def _error_ratio(runs: list[Any]) -> float:
    values, stated = (np.array(x) for x in zip(*runs, strict=True))
    seen = (values.std(axis=0) > 0) & ~np.isnan(stated).any(axis=0)  # some names have no mass
    ratio = values.var(axis=0, ddof=1)[seen] / np.square(stated[:, seen]).mean(axis=0)
    return math.sqrt(float(ratio.mean()))


def _scores(one: Any, other: Any, parts: Any, scenario: int) -> dict[str, Any]:
    nothing = np.zeros((len(one[1]), 0))
    if scenario == 2:
        sums = [{"p": nothing, "log_p": x} for x, _ in (one, other)]
        found = scores.all_scores(sums_of(sums[0], sums[1]), counts=one[1], parts=parts)
        return {name: found[name] for name in ("residual", "mean_log_ratio")}
    masses = [{"mass": x, "hits": nothing, "full_hits": nothing} for x, _ in (one, other)]
    found = scores.all_scores(sums_of(masses[0], masses[1]), counts=one[1], parts=parts)
    return {name: found[name] for name in ("residual", "half_log_ratio")}


def main() -> None:
    """Run one part and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("nulls", "leaks", "coverage", "errors"))
    parser.add_argument("--directory", type=Path, default=Path("out/verdict-rates"))
    parser.add_argument("--lists", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--relabelled", type=int, default=499)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.part == "coverage":
        coverage(options)
    elif options.part == "errors":
        errors(options)
    else:
        rows = list((nulls if options.part == "nulls" else leaks)(options))
        for key in dict.fromkeys((-row["scenario"], row["case"]) for row in rows):
            same = [row for row in rows if (-row["scenario"], row["case"]) == key]
            print_case(-key[0], key[1], same)


def print_case(scenario: int, case: str, rows: list[dict[str, Any]]) -> None:
    """Print one line: share of each state with its interval, and what was found."""
    states = [state for row in rows for state in row["states"]]
    cells = []
    for state in ("leak_found", "none_found_at_this_power", "ill_matched", "not_enough_evidence"):
        rate = Rate(states.count(state), len(states))
        high = rate.interval().high
        cells.append(f"{rate.n_hits}/{rate.n_total} = {rate.value:.3f} (to {high:.3f})")
    if "auc" in rows[0]:
        for key in ("auc", "members", "controls"):
            values = sorted(row[key] for row in rows)
            cells.append(f"{key} {values[len(values) // 2]:.3g} ({values[0]:.3g}-{values[-1]:.3g})")
    print(f"| {scenario} | {case} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
