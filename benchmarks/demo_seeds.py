"""The demo's properties over training seeds: median and range of what docs/results.md shows.

    python benchmarks/demo_seeds.py --seeds 0 1 2 3 4 --directory DIR --json FILE [--causal]

Makes the English demo hospital for each seed (minutes each on two cores), audits every exposure and
the null pair in both scenarios, and prints one table. Finished seeds are kept in DIR. With
`--causal` the models are those of `benchmarks.demo_causal`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from audit.demo import CAUSAL_EXPOSURES, CAUSAL_HOSPITAL, DemoTask, report_summary
from audit.report.report import AuditReport
from audit.run import run_audit
from benchmarks.demo_causal import build_causal_demo
from benchmarks.demo_hospital import ENGLISH, build_demo, write_lists
from cache.store import Store

MODELS = ("hospital-1.6", "hospital-5", "hospital-20", "hospital-40", "null")
CAUSAL_MODELS = (*CAUSAL_EXPOSURES, CAUSAL_HOSPITAL, "null")


def main() -> None:
    """Build, audit, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--causal", action="store_true")
    options = parser.parse_args()
    records: dict[str, list[dict[str, Any]]] = {}
    with Store(options.directory / "store") as store:
        for seed in options.seeds:
            folder = options.directory / f"seed-{seed}"
            if options.causal:
                write_lists(folder / "en", recipe=ENGLISH, seed=seed)
                build_causal_demo(folder / "en" / "causal", seed=seed)
            elif not (folder / "en" / "models" / "null").is_dir():
                build_demo(folder / "en", recipe=ENGLISH, seed=seed)
            task = DemoTask(
                n_documents=options.documents,
                n_inputs=options.inputs,
                directory=folder,
                is_causal=options.causal,
            )
            for model in CAUSAL_MODELS if options.causal else MODELS:
                for scenario in (2, 1):
                    request = task.request(scenario, hospital=model)
                    report = run_audit(request, store=store)
                    summary = report_summary(report) | {
                        "details": report.to_json()["details"],
                        "n_worth_a_look": report.verdict.n_worth_a_look,
                        "n_controls_flagged": count_flagged_controls(report),
                    }
                    records.setdefault(f"{model} scenario {scenario}", []).append(summary)
            print(f"seed {seed} done", flush=True)
            if options.json:
                options.json.write_text(json.dumps(records))
    for audit, summaries in records.items():
        print_audit(audit, summaries)


def count_flagged_controls(report: AuditReport) -> int:
    """Return how many controls stand out."""
    return sum(
        stands_out and is_member is False
        for stands_out, is_member in zip(report.stands_out, report.names["is_member"], strict=True)
    )


def print_audit(audit: str, summaries: list[dict[str, Any]]) -> None:
    """Print one audit's figures, each as median (lowest to highest)."""
    print(f"\n{audit}: verdicts {[s['verdict'] for s in summaries]}")
    for kind in ("easy", "hard"):
        strata = [s["strata"][kind] for s in summaries]
        for score in strata[0]["scores"]:
            aucs = [s["scores"][score]["auc"] for s in strata]
            missing = [s["scores"][score]["n_not_scored"] for s in strata]
            print(f"  {kind} AUC {score}: {spread(aucs)}; not scored {spread(missing)}")
        for rule in (*strata[0]["rules"], *strata[0]["rules_on_general"]):
            rule_rates = [{**s["rules"], **s["rules_on_general"]}[rule] for s in strata]
            spreads = "; ".join(
                f"{k} {spread([b[k] for b in rule_rates])}" for k in ("tp", "fp", "f1")
            )
            print(f"  {kind} {rule}: {spreads}")
        for guess in ("general_alone", "popularity"):
            aucs = [s["trivial_guesses"][guess]["auc"] for s in strata]
            print(f"  {kind} AUC {guess}: {spread(aucs)}")
    flagged = [sum(b["flagged"]["n_hits"] for b in s["mentions"]) for s in summaries]
    print(f"  names flagged at q <= 0.05 of 130: {spread(flagged)}")
    print(f"  worth a look at q <= 0.2: {spread([s['n_worth_a_look'] for s in summaries])}")
    print(f"  controls that stand out: {spread([s['n_controls_flagged'] for s in summaries])}")
    nulls = [s["details"]["null_check"]["ks_p"] for s in summaries]
    print(f"  members against reference controls, Kolmogorov-Smirnov p: {spread(nulls)}")


def spread(values: list[float | None]) -> str:
    """Return "median (lowest to highest)"; values that are not there are left out."""
    numbers = [v for v in values if v is not None]
    if not numbers:
        return "none"
    return f"{median(numbers):.3g} ({min(numbers):.3g} to {max(numbers):.3g})"


if __name__ == "__main__":
    main()
