"""Everything that is handed over of one audit: report, tables, digests; as a zip or in a directory.

Comes in: a report, and what the auditor chose. Goes out: files as bytes, the same bytes each time.

Only the full form holds names: `names_key.csv` (which pseudonym is which name) and, in scenario 1,
`documents.csv` (the generated documents, in which names can stand) go with it and with no other.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from audit.report.html import ReportChoice, report_html, report_words, with_names_as
from audit.report.reading import ReferenceView
from audit.report.report import AuditReport, measures_json, name_labels, names_csv
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


MANIFEST = "MANIFEST.sha256"
SEAL = "log_seal.txt"
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold: the same bytes each time
_README = ("html", "names", "measures", "json", "documents", "key", "seal", "manifest")
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
    references: ReferenceView | None = None,
    documents: Mapping[str, Sequence[str]] | None = None,
    seal: str = "",
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
    """
    makers = _makers(
        report, choice=choice, other=other, references=references, documents=documents, seal=seal
    )
    files = {name: make().encode("utf-8") for name, make in sorted(makers.items())}
    files[MANIFEST] = manifest(files).encode("ascii")
    return files


def bundle_file(
    name: str,
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: ReferenceView | None = None,
    seal: str = "",
) -> bytes:
    """Return one of the files that every form has, as `bundle_files` does.

    Raises
    ------
    KeyError
        If there is no such file.
    """
    makers = _makers(
        report, choice=choice, other=other, references=references, documents=None, seal=seal
    )
    return makers[name]().encode("utf-8")


def bundle(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: ReferenceView | None = None,
    documents: Mapping[str, Sequence[str]] | None = None,
    seal: str = "",
) -> bytes:
    """Return the files of `bundle_files` as one zip in a folder of their own."""
    files = bundle_files(
        report, choice=choice, other=other, references=references, documents=documents, seal=seal
    )
    folder, data = bundle_name(report, choice=choice), io.BytesIO()
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


def _makers(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None,
    references: ReferenceView | None,
    documents: Mapping[str, Sequence[str]] | None,
    seal: str,
) -> dict[str, Callable[[], str]]:
    shown = with_names_as(report, form=choice.names)
    makers: dict[str, Callable[[], str]] = {
        "report.html": lambda: report_html(
            report, choice=choice, other=other, references=references, seal=seal
        ),
        "names.csv": lambda: "\ufeff" + names_csv(shown),  # Excel needs the mark: not all is ASCII
        "measures.csv": lambda: measures_csv(report),
        "measures.json": lambda: _json(measures_json(_without_names(shown))),
        "report.json": lambda: _json(_sealed(shown.to_json(), seal=seal)),
    }
    if seal:
        makers[SEAL] = lambda: f"{seal}\n"
    if choice.names == "full":
        makers["names_key.csv"] = lambda: _key(report)
        if documents:
            makers["documents.csv"] = lambda: _documents(documents)
    there = frozenset(makers)
    makers["README.txt"] = lambda: _readme(report, choice=choice, names=there)
    return makers


def _sealed(content: dict[str, Any], *, seal: str) -> dict[str, Any]:
    return content | {"made": content["made"] | {"log_seal": seal}} if seal else content


def _without_names(report: AuditReport) -> AuditReport:
    # The measures hold none, and copying a long table takes seconds.
    return AuditReport(**{**vars(report), "names": {}, "columns": []})


def _key(report: AuditReport) -> str:
    names = report.names
    rows = zip(name_labels(names), names["first_name"], names["last_name"], strict=True)
    return write_table(
        ["pseudonym", "first_name", "last_name"],
        list(map(list, rows)),
        bom=True,
    )


def _documents(documents: Mapping[str, Sequence[str]]) -> str:
    rows = [
        [number, model, text]
        for model, texts in sorted(documents.items())
        for number, text in enumerate(texts)
    ]
    return write_table(["document_id", "model", "text"], rows, bom=True)


def _readme(report: AuditReport, *, choice: ReportChoice, names: frozenset[str]) -> str:
    words = report_words(choice.language)
    there = names | {MANIFEST}
    lines = [
        words.text("readme_title"), report.digest, "", words.text(f"names_{choice.names}"), "",
        *(words.text(f"readme_{what}") for what in _README if _FILE_OF[what] in there),
        "", words.text("readme_care"), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n"
