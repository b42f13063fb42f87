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

from audit.attack.metrics import GENERAL_ALONE
from audit.report.compare import References
from audit.report.html import ReportChoice, report_html
from audit.report.names import name_labels
from audit.report.report import AuditReport, Share, Stratum
from audit.shelf import write_private
from audit.stats import Estimate
from audit.tables import write_table
from audit.words import catalogue

MEASURE_COLUMNS = (
    "controls", "kind", "name", "measure", "value", "low", "high", "n_hits", "n_total",
    "n_members", "n_controls",
)  # fmt: skip
_IN_MEASURES = (
    "digest", "scenario", "fixed_score", "verdict", "measures", "cohort", "curve", "mentions",
    "details", "candidates",
)  # fmt: skip
Line = tuple[str | float | int | None, ...]


def names_csv(report: AuditReport) -> str:
    """Return the per-name table as CSV, guarded against formulas; undefined numbers are empty."""
    columns = (report.names[name] for name in report.columns)
    rows = zip(*([("" if x is None else x) for x in column] for column in columns), strict=True)
    return write_table(report.columns, rows)


def measures_json(report: AuditReport) -> dict[str, Any]:
    """Return what `measures.json` holds: verdict, measures, cohort test and curve."""
    kept = report.to_json()
    return {key: kept[key] for key in _IN_MEASURES} | {"notes": [*map(str, report.notes)]}


def write_report(
    report: AuditReport, out: Path, *, documents: Mapping[str, Sequence[str]] | None = None
) -> tuple[Path, ...]:
    """Write `names.csv`, `measures.json`, `report.json`, and `documents.csv` in scenario 1.

    Raises
    ------
    AuditError
        If the directory cannot be written.
    """
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
    return write_table(MEASURE_COLUMNS, _measures(report))


def _measures(report: AuditReport) -> Iterator[Line]:
    for controls, one in report.measures.strata.items():
        sizes = (one.n_members, one.n_controls)
        for kind, name, measure, *cells in (*_judged(one), *_ranked(one)):
            yield controls, kind, name, measure, *cells, *sizes
    for role in report.details.roles:
        for measure in ("auc", "general_auc", "flagged", "general_flagged"):
            found = _cells(getattr(role, measure))
            yield "all", "role", role.role, measure, *found, role.n_members, role.n_controls
    planted = report.details.canaries
    for score, measured in planted.scores.items() if planted else ():
        who = ("canary", "baseline" if score == GENERAL_ALONE else "score", score)
        for group in (*measured.groups, measured.whole):
            for attribute in ("bits", "found", "above_twin"):
                measure = "exposure_bits" if attribute == "bits" else attribute
                name = f"{measure}_{group.n_mentions or 'all'}"
                found = _cells(getattr(group, attribute))
                yield *who, name, *found, group.n_names, measured.n_held_out


def _judged(one: Stratum) -> Iterator[Line]:
    kinds = [("rule", one.rules), ("baseline_rule", one.baseline_rules), ("held_out", one.held_out)]
    kinds.append(("guess", {"always_member": one.always_member}))
    kinds += [("rule", {"free_threshold": one.free})] if one.free else []
    for kind, name, rule in ((k, name, rule) for k, rules in kinds for name, rule in rules.items()):
        counts = rule.confusion
        yield kind, name, "f1", *_cells(rule.f1)
        for rate in ("recall", "false_positive_rate", "precision", "accuracy"):
            yield kind, name, rate, *_cells(getattr(counts, rate))
        for count in ("tp", "fn", "fp", "tn"):
            yield kind, name, count, getattr(counts, count), *[None] * 4


def _ranked(one: Stratum) -> Iterator[Line]:
    for kind, rankings in (("score", one.scores), ("baseline", one.baselines)):
        for name, ranking in rankings.items():
            yield kind, name, "auc", *_cells(ranking.auc)
            for fpr, tpr in ranking.tpr_at_fpr.items():
                yield kind, name, f"tpr_at_fpr_{fpr}", *_cells(tpr)


def _cells(found: Estimate) -> Line:
    counts = (found.n_hits, found.n_total) if isinstance(found, Share) else (None, None)
    return found.value, found.low, found.high, *counts


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
    references: References | None = None,
    documents: Mapping[str, Sequence[str]] | None = None,
    seal: str = "",
    only: str = "",
) -> dict[str, bytes]:
    """Return the files by name, in the order of their names.

    Parameters
    ----------
    choice
        Language, form of the names, sections and sign-off.
    other
        The audit of the same pair in the other scenario, if it is kept.
    references
        The audits that differ in the reference alone, if there are any; the HTML shows them.
    documents
        Generated documents by model; only the full form takes them.
    seal
        The access log's, so that it can be told later whether the log was put back; "" for none.
    only
        The one file that is wanted; KeyError if there is none of that name.
    """
    shown = report.with_names_as(choice.names)
    sealed, key = shown.to_json(), ["pseudonym", "first_name", "last_name"]
    if seal:
        sealed = sealed | {"made": sealed["made"] | {"log_seal": seal}}
    names = (name_labels(report.names), report.names["first_name"], report.names["last_name"])
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
        makers["names_key.csv"] = lambda: write_table(key, zip(*names, strict=True), bom=True)
        if documents:
            makers["documents.csv"] = lambda: _MARK + _documents(documents)
    makers["README.txt"] = lambda: _readme(report, choice=choice, there={*makers, MANIFEST})
    if only:
        return {only: makers[only]().encode("utf-8")}
    files = {name: make().encode("utf-8") for name, make in sorted(makers.items())}
    return files | {MANIFEST: manifest(files).encode("ascii")}


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


def manifest(files: Mapping[str, bytes]) -> str:
    """Return the digests of files as `sha256sum` writes and checks them."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in sorted(files.items())
    )


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
