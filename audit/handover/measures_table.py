"""Every measure of a report as one long table: a line per controls, rule or score, and measure.

Comes in: a report. Goes out: CSV text; undefined numbers are empty. Torch-free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from audit.report import AuditReport
from audit.tables import write_table

MEASURE_COLUMNS = (
    "controls", "kind", "name", "measure", "value", "low", "high", "n_hits", "n_total",
    "n_members", "n_controls",
)  # fmt: skip
_RATES = ("recall", "false_positive_rate", "precision", "accuracy")
_COUNTS = ("tp", "fn", "fp", "tn")
Line = tuple[str | float | int | None, ...]


def measures_csv(report: AuditReport) -> str:
    """Return every rule, score and baseline with intervals and counts, as CSV.

    `kind` is "rule", "baseline_rule", "guess", "held_out", "score" or "baseline"; `measure` of a
    score is "auc" or "tpr_at_fpr_0.01", of a rule a rate, "f1", or a count. Members of one role
    have the kind "role"; planted names stand beside the controls "canary", and their measures end
    with how often they were planted, or "all".
    """
    lines = [line for part in report.measures["strata"].items() for line in _stratum(*part)]
    lines += [line for role in report.details.get("roles") or () for line in _role(role)]
    lines += _canaries(report.details.get("canaries") or {})
    return write_table(MEASURE_COLUMNS, lines)


def _stratum(name: str, measured: Mapping[str, Any]) -> Iterator[Line]:
    sizes = (measured["n_members"], measured["n_controls"])
    for kind, key in (
        ("rule", "rules"), ("baseline_rule", "baseline_rules"), ("held_out", "held_out"),
    ):  # fmt: skip
        for rule, reached in measured[key].items():
            yield from _rule((name, kind, rule), reached, sizes)
    yield from _rule((name, "guess", "always_member"), measured["always_member"], sizes)
    if measured.get("free"):
        yield from _rule((name, "rule", "free_threshold"), measured["free"], sizes)
    for kind, key in (("score", "scores"), ("baseline", "baselines")):
        for score, ranking in measured[key].items():
            yield from _ranking((name, kind, score), ranking, sizes)


def _role(role: Mapping[str, Any]) -> Iterator[Line]:
    who, sizes = ("all", "role", role["role"]), (role["n_members"], role["n_controls"])
    for measure in ("auc", "general_auc"):
        yield (*who, measure, *_estimate(role[measure]), None, None, *sizes)
    for measure in ("flagged", "general_flagged"):
        yield (*who, measure, *_counted(role[measure]), *sizes)


def _canaries(record: Mapping[str, Any]) -> Iterator[Line]:
    for score, measured in (record.get("scores") or {}).items():
        who = ("canary", "baseline" if score == "general_alone" else "score", score)
        for group in (*measured["groups"], measured["all"]):
            sizes, count = (group["n_names"], measured["n_held_out"]), group["n_mentions"] or "all"
            bits = _estimate(group["bits"])
            yield (*who, f"exposure_bits_{count}", *bits, None, None, *sizes)
            for measure in ("found", "above_twin"):
                yield (*who, f"{measure}_{count}", *_counted(group[measure]), *sizes)


def _counted(rate: Mapping[str, Any]) -> tuple[float | int | None, ...]:
    return (*_estimate(rate), rate["n_hits"], rate["n_total"])


def _rule(who: tuple[str, str, str], reached: Any, sizes: tuple[int, int]) -> Iterator[Line]:
    if not reached:
        return
    counts = reached["confusion"]
    yield (*who, "f1", *_estimate(reached["f1"]), None, None, *sizes)
    for rate in _RATES:
        found = counts[rate]
        yield (*who, rate, *_estimate(found), found["n_hits"], found["n_total"], *sizes)
    for count in _COUNTS:
        yield (*who, count, counts[count], None, None, None, None, *sizes)


def _ranking(who: tuple[str, str, str], ranking: Any, sizes: tuple[int, int]) -> Iterator[Line]:
    yield (*who, "auc", *_estimate(ranking["auc"]), None, None, *sizes)
    for fpr, found in ranking["tpr_at_fpr"].items():
        yield (*who, f"tpr_at_fpr_{fpr}", *_estimate(found), None, None, *sizes)


def _estimate(record: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    return record.get("value"), record.get("low"), record.get("high")
