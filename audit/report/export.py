"""The files of one audit for others: report, tables, digests, as a zip or in a directory.

Only the full form contains names: only it includes `names_key.csv` (which pseudonym is which name)
and, in scenario 1, `documents.csv` (the generated documents, which can contain names).
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.errors import catalogue
from audit.report.compare import Comparison
from audit.report.html import ReportChoice, folder_html, report_html
from audit.report.name_table import name_labels
from audit.report.report import AuditReport
from audit.shelf import write_private
from audit.tables import write_table
from audit.words import LANGUAGES, Language

_IN_MEASURES = (
    "digest",
    "scenario",
    "fixed_score",
    "verdict",
    "measures",
    "curve",
    "mentions",
    "details",
    "candidates",
)


_MEASURE_COLUMNS = ("measure", "value", "low", "high", "n_hits", "n_total")


def names_csv(report: AuditReport) -> str:
    """Return the per-name table as CSV, guarded against formulas; undefined numbers are empty."""
    columns = (report.names[name] for name in report.columns)
    rows = zip(*([("" if x is None else x) for x in column] for column in columns), strict=True)
    return write_table(report.columns, rows)


def measures_json(report: AuditReport) -> dict[str, Any]:
    """Return the content of `measures.json`: verdict, measures and curve."""
    report_values = report.to_json()
    return {key: report_values[key] for key in _IN_MEASURES} | {"notes": [*map(str, report.notes)]}


def write_report(
    report: AuditReport,
    out: Path,
    *,
    documents: Mapping[str, Sequence[str]] | None = None,
    seal: str = "",
) -> tuple[Path, ...]:
    """Write `names.csv`, `measures.json`, `report.json`, and `documents.csv` in scenario 1.

    `seal` is the seal of the access log, as for `bundle_files`.
    """
    contents = {
        "names.csv": names_csv(report),
        "measures.json": _json(measures_json(report), indent=1),
        "report.json": _json(report.to_json(), indent=1),
    }
    if documents:
        contents["documents.csv"] = documents_csv(documents)
    if seal:
        contents[SEAL] = f"{seal}\n"
    return write_private({name: t.encode("utf-8") for name, t in contents.items()}, out)


def measures_csv(report: AuditReport) -> str:
    """Return every figure of `measures.json` with an interval as CSV, named by its place."""
    lines = (
        (" / ".join(place), *(figure.get(column) for column in _MEASURE_COLUMNS[1:]))
        for place, figure in _with_interval(measures_json(report))
    )
    return write_table(_MEASURE_COLUMNS, lines)


def _with_interval(part: Any, *place: str) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the figures of a part with their places; records of a list get a name as place."""
    if isinstance(part, list):
        part = {_name_record(record): record for record in part if isinstance(record, Mapping)}
    if isinstance(part, Mapping):
        if "low" in part:
            yield place, part
        else:
            for name, inner in part.items():
                yield from _with_interval(inner, *place, name)


def _name_record(record: Mapping[str, Any]) -> str:
    names = (str(record[key]) for key in ("role", "n", "from", "n_mentions") if key in record)
    return next(names, "")


MANIFEST = "MANIFEST.sha256"
SEAL = "log_seal.txt"
_MARK = "\ufeff"  # Excel needs it for text beyond ASCII
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip, so that bytes stay the same
FILE_OF = {
    "html": "report.html",
    "html_en": "report_en.html",
    "html_ja": "report_ja.html",
    "folder": "index.html",
    "columns": "columns.csv",
    "names": "names.csv",
    "measures": "measures.csv",
    "json": "report.json",
    "documents": "documents.csv",
    "key": "names_key.csv",
    "seal": SEAL,
    "manifest": MANIFEST,
}


def bundle_files(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: Sequence[Comparison] = (),
    documents: Mapping[str, Sequence[str]] | None = None,
    seal: str = "",
    is_folder: bool = False,
) -> dict[str, bytes]:
    """Return the files by name, in the order of their names, the manifest last.

    With `is_folder`, `index.html` shows the audit in a browser without a server (`folder_html`).
    The report then stands there in every language, and `columns.csv` explains the tables in both.

    `other`, `references` and `seal` are the arguments of `report_html`. `documents` are generated
    documents by model; only the full form includes them. The seal later shows whether the log was
    reset to an older state.
    """
    released_report = report.with_names_as(choice.names)
    report_values = released_report.to_json()
    additions: dict[str, Any] = {"log_seal": seal} if seal else {}
    if choice.decision.at:
        additions["decision"] = choice.decision.plain()
    report_values = report_values | {"made": report_values["made"] | additions}
    parts: dict[str, Any] = {"other": other, "references": references, "seal": seal}
    texts = {
        "report.html": report_html(report, choice=choice, **parts),
        "names.csv": _MARK + names_csv(released_report),
        "measures.csv": measures_csv(released_report),
        "measures.json": _json(measures_json(released_report), sort_keys=True),
        "report.json": _json(report_values, sort_keys=True),
    }
    if is_folder:
        texts["index.html"] = folder_html(report, choice=choice, **parts)
        texts["columns.csv"] = _MARK + columns_csv(released_report)
        for language in _order_languages(choice)[1:]:
            other_choice = choice.with_(language=language)
            texts[f"report_{language}.html"] = report_html(report, choice=other_choice, **parts)
    if seal:
        texts[SEAL] = f"{seal}\n"
    if choice.names == "full":
        texts["names_key.csv"] = _MARK + names_key(report)
        if documents:
            texts["documents.csv"] = _MARK + documents_csv(documents)
    languages = _order_languages(choice) if is_folder else [choice.language]
    file_names = {*texts, MANIFEST}
    texts["README.txt"] = "\n".join(
        _readme(report, choice=choice.with_(language=language), file_names=file_names)
        for language in languages
    )
    files = {name: text.encode("utf-8") for name, text in sorted(texts.items())}
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    return files | {MANIFEST: "".join(lines).encode("ascii")}  # in the format of `sha256sum`


def bundle(files: Mapping[str, bytes], *, folder: str) -> bytes:
    """Return files as one zip with a folder of their own, with the same bytes each time."""
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


def names_key(report: AuditReport) -> str:
    """Return the pseudonym and the name of everybody listed, as CSV."""
    names = report.names
    rows = zip(name_labels(names), names["first_name"], names["last_name"], strict=True)
    return write_table(["pseudonym", "first_name", "last_name"], rows)


def columns_csv(report: AuditReport) -> str:
    """Return what each column of `names.csv` and `measures.csv` means in every language, as CSV."""
    meanings = {language: catalogue(language, "columns") for language in LANGUAGES}
    rows = (
        (file, column, *(meanings[language].get(column, "") for language in LANGUAGES))
        for file, columns in (("names.csv", report.columns), ("measures.csv", _MEASURE_COLUMNS))
        for column in columns
    )
    return write_table(("file", "column", *LANGUAGES), rows)


def _order_languages(choice: ReportChoice) -> list[Language]:
    """Return all languages, the chosen one first."""
    return sorted(LANGUAGES, key=lambda code: code != choice.language)


def documents_csv(documents: Mapping[str, Sequence[str]]) -> str:
    """Return generated documents by model as CSV."""
    models = sorted(documents.items())
    rows = ((number, model, text) for model, texts in models for number, text in enumerate(texts))
    return write_table(["document_id", "model", "text"], rows)


def _readme(report: AuditReport, *, choice: ReportChoice, file_names: set[str]) -> str:
    words = catalogue(choice.language, "report")
    lines = [
        words[f"readme_{file_kind}"] for file_kind, name in FILE_OF.items() if name in file_names
    ]
    head = (words["readme_title"], report.digest, "", words[f"names_{choice.names}"], "")
    return "\n".join((*head, *lines, "", words["readme_care"], ""))


def _json(value: object, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, **options) + "\n"
