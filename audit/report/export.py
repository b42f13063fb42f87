"""Everything that is handed over of one audit: report, tables, digests; as a zip or in a directory.

Only the full form holds names: `names_key.csv` (which pseudonym is which name) and, in scenario 1,
`documents.csv` (the generated documents, in which names can stand) go with it and with no other.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.attack.scores import GENERAL_ALONE
from audit.report.compare import Comparison
from audit.report.html import ReportChoice, report_html
from audit.report.names import name_labels
from audit.report.report import AuditReport, Stratum
from audit.shelf import write_private
from audit.stats import Estimate
from audit.tables import write_table
from audit.words import catalogue

MEASURE_COLUMNS = (
    "controls", "kind", "name", "measure", "value", "low", "high", "n_hits", "n_total",
    "n_members", "n_controls",
)  # fmt: skip
_IN_MEASURES = (
    "digest", "scenario", "fixed_score", "verdict", "measures", "curve", "mentions",
    "details", "candidates",
)  # fmt: skip
_OF_COUNTS = (
    "recall", "false_positive_rate", "precision", "accuracy", "tp", "fn", "fp", "tn",
)  # fmt: skip


def names_csv(report: AuditReport) -> str:
    """Return the per-name table as CSV, guarded against formulas; undefined numbers are empty."""
    columns = (report.names[name] for name in report.columns)
    rows = zip(*([("" if x is None else x) for x in column] for column in columns), strict=True)
    return write_table(report.columns, rows)


def measures_json(report: AuditReport) -> dict[str, Any]:
    """Return what `measures.json` holds: verdict, measures and curve."""
    kept = report.to_json()
    return {key: kept[key] for key in _IN_MEASURES} | {"notes": [*map(str, report.notes)]}


def write_report(
    report: AuditReport, out: Path, *, documents: Mapping[str, Sequence[str]] | None = None
) -> tuple[Path, ...]:
    """Write `names.csv`, `measures.json`, `report.json`, and `documents.csv` in scenario 1."""
    contents = {
        "names.csv": names_csv(report),
        "measures.json": _json(measures_json(report), indent=1),
        "report.json": _json(report.to_json(), indent=1),
    }
    if documents:
        contents["documents.csv"] = _documents(documents)
    return write_private({name: t.encode("utf-8") for name, t in contents.items()}, out)


def measures_csv(report: AuditReport) -> str:
    """Return every rule, score and baseline with intervals and counts, as CSV.

    `kind` is "rule", "baseline_rule", "guess", "held_out", "score" or "baseline"; `measure` of a
    score is "auc" or "tpr_at_fpr_0.01", of a rule a rate, "f1", or a count. Members of one role
    have the kind "role"; planted names stand beside the controls "canary", and their measures end
    with how often they were planted, or "all".
    """
    lines = (
        (*what, getattr(found, "value", found),
         *(getattr(found, key, None) for key in ("low", "high", "n_hits", "n_total")), *sizes)
        for *what, found, sizes in _measures(report)
    )  # fmt: skip
    return write_table(MEASURE_COLUMNS, lines)


def _measures(report: AuditReport) -> Iterator[tuple[Any, ...]]:
    """Yield (controls, kind, name, measure, what was found, sizes of both groups)."""
    for controls, one in report.measures.strata.items():
        sizes = (one.n_members, one.n_controls)
        yield from ((controls, *line, sizes) for line in (*_judged(one), *_ranked(one)))
    for role in report.details.roles:
        sizes = (role.n_members, role.n_controls)
        for measure in ("auc", "general_auc", "flagged", "general_flagged"):
            yield "all", "role", role.role, measure, getattr(role, measure), sizes
    planted = report.details.canaries
    for score, measured in planted.scores.items() if planted else ():
        kind = "baseline" if score == GENERAL_ALONE else "score"
        for group in (*measured.groups, measured.whole):
            times, sizes = group.n_mentions or "all", (group.n_names, measured.n_held_out)
            found = {"exposure_bits": group.bits, "found": group.found,
                     "above_twin": group.above_twin}  # fmt: skip
            for measure, one_found in found.items():
                yield "canary", kind, score, f"{measure}_{times}", one_found, sizes


def _judged(one: Stratum) -> Iterator[tuple[str, str, str, Estimate | int]]:
    kinds = [("rule", one.rules), ("baseline_rule", one.baseline_rules), ("held_out", one.held_out)]
    kinds.append(("guess", {"always_member": one.always_member}))
    for kind, rules in kinds:
        for name, rule in rules.items():
            yield kind, name, "f1", rule.f1
            for measure in _OF_COUNTS:
                yield kind, name, measure, getattr(rule.confusion, measure)


def _ranked(one: Stratum) -> Iterator[tuple[str, str, str, Estimate]]:
    for kind, rankings in (("score", one.scores), ("baseline", one.baselines)):
        for name, ranking in rankings.items():
            yield kind, name, "auc", ranking.auc
            for fpr, tpr in ranking.tpr_at_fpr.items():
                yield kind, name, f"tpr_at_fpr_{fpr}", tpr


MANIFEST = "MANIFEST.sha256"
SEAL = "log_seal.txt"
_MARK = "\ufeff"  # Excel needs it: not all is ASCII
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold: the same bytes each time
_FILE_OF = {
    "html": "report.html", "names": "names.csv", "measures": "measures.csv",
    "json": "report.json", "documents": "documents.csv", "key": "names_key.csv",
    "seal": SEAL, "manifest": MANIFEST,
}  # fmt: skip


def bundle_files(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: Sequence[Comparison] = (),
    documents: Mapping[str, Sequence[str]] | None = None,
    seal: str = "",
    only: str = "",
) -> dict[str, bytes]:
    """Return the files by name, in the order of their names; of `only` one that file alone.

    `other`, `references` and `seal` as `report_html` takes them; `documents` are generated ones by
    model, which only the full form takes. The seal can tell later whether the log was put back.
    """
    shown = report.with_names_as(choice.names)
    sealed = shown.to_json()
    if seal:
        sealed = sealed | {"made": sealed["made"] | {"log_seal": seal}}
    makers: dict[str, Callable[[], str]] = {
        "report.html": lambda: report_html(
            report, choice=choice, other=other, references=references, seal=seal
        ),
        "names.csv": lambda: _MARK + names_csv(shown),
        "measures.csv": lambda: measures_csv(report),
        "measures.json": lambda: _json(measures_json(shown), sort_keys=True),
        "report.json": lambda: _json(sealed, sort_keys=True),
    }
    if seal:
        makers[SEAL] = lambda: f"{seal}\n"
    if choice.names == "full":
        makers["names_key.csv"] = lambda: _MARK + _names_key(report)
        if documents:
            makers["documents.csv"] = lambda: _MARK + _documents(documents)
    makers["README.txt"] = lambda: _readme(report, choice=choice, there={*makers, MANIFEST})
    if only:
        return {only: makers[only]().encode("utf-8")}
    files = {name: make().encode("utf-8") for name, make in sorted(makers.items())}
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    return files | {MANIFEST: "".join(lines).encode("ascii")}  # as `sha256sum` checks it


def bundle(files: Mapping[str, bytes], *, folder: str) -> bytes:
    """Return files as one zip in a folder of their own, the same bytes each time."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(f"{folder}/{name}", _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o100600 << 16
            archive.writestr(entry, content)
    return data.getvalue()


def bundle_name(report: AuditReport, *, choice: ReportChoice) -> str:
    """Return the name of the folder, and of the zip without its ending."""
    return f"audit-{report.digest[:12]}-{choice.names}-{choice.language}"


def _names_key(report: AuditReport) -> str:
    names = report.names
    rows = zip(name_labels(names), names["first_name"], names["last_name"], strict=True)
    return write_table(["pseudonym", "first_name", "last_name"], rows)


def _documents(documents: Mapping[str, Sequence[str]]) -> str:
    models = sorted(documents.items())
    rows = ((number, model, text) for model, texts in models for number, text in enumerate(texts))
    return write_table(["document_id", "model", "text"], rows)


def _readme(report: AuditReport, *, choice: ReportChoice, there: set[str]) -> str:
    words = catalogue(choice.language, "report")
    told = [words[f"readme_{what}"] for what, name in _FILE_OF.items() if name in there]
    head = (words["readme_title"], report.digest, "", words[f"names_{choice.names}"], "")
    return "\n".join((*head, *told, "", words["readme_care"], ""))


def _json(value: object, **how: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, **how) + "\n"
