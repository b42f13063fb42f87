"""A report that comes back: whether its files, its numbers, its seal and its audit are unchanged.

Nothing is unpacked to the disk and no link is followed. The manifest has no key: it finds accidents
and careless changes. What was changed with care is found where the report was made, by the kept
audit and by the access log.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from audit import access_log
from audit.attack.question import question_digest
from audit.errors import AuditError, Message
from audit.foreign import is_zip, refusing, zip_members
from audit.report import export
from audit.report.decision import decision_history
from audit.report.report import AuditReport
from cache.store import Store

KNOWN = (*export.FILE_OF.values(), "measures.json", "README.txt")
MAX_BYTES = 500_000_000
_HTML = "report.html"
Finding = tuple[Literal["holds", "unchecked", "fault"], Message]
"""One thing that was looked at: it holds, could not be checked here, or is a fault."""
_LINE = re.compile("([0-9a-f]{64})  ([a-z_A-Z.0-9]{1,40})")
_NO_REPORT = AuditError(
    "This is no report of an audit, or it has other files in it.",
    where="report",
    do="Give the zip as it was handed over, its unpacked folder, or report.json in it.",
)
Files = Mapping[str, bytes]


def check_report(path: Path, *, store: Store) -> tuple[Finding, ...]:
    """Return all that was found of a zip, a folder, or a file of it; AuditError if it is neither.

    Names that a report holds are in no finding.
    """
    files = _files(path)
    found = [*_manifest(files, is_whole=path.suffix == ".zip" or "README.txt" in files)]
    try:
        with refusing(AuditError("report.json is missing, or cannot be read.")):
            report = AuditReport.from_json(json.loads(files["report.json"]))
            for check in (_digest, _tables, _seal, partial(_kept, store=store)):
                found += check(files, report)
    except AuditError as error:
        found.append(("fault", error.message))
    return tuple(found)


def _files(path: Path) -> dict[str, bytes]:
    with refusing(_NO_REPORT):
        if path.is_file() and path.suffix == ".zip":
            if path.stat().st_size > MAX_BYTES or not is_zip(data := path.read_bytes()):
                raise _NO_REPORT
            members = dict(
                zip_members(data, where="report", max_bytes=MAX_BYTES, max_files=2 * len(KNOWN))
            )
            parts = [name.rpartition("/") for name in members]
            files = dict(zip((name for *_, name in parts), members.values(), strict=True))
            folders, is_known = {folder for folder, *_ in parts}, {*files} <= {*KNOWN}
            is_one = len(folders) == 1 and re.fullmatch(r"(?!\.)[^/\\]*", min(folders))
            if not (is_one and is_known):
                raise _NO_REPORT
            return files
        folder, begin = path if path.is_dir() else path.parent, ""
        if path != folder and path.name not in KNOWN:  # files that were handed over one by one
            known = next(name for name in KNOWN if path.name.endswith(f"-{name}"))
            begin = path.name.removesuffix(known)
        named = {name: folder / f"{begin}{name}" for name in KNOWN}
        there = {name: one for name, one in named.items() if one.exists()}
        if path.is_symlink() or any(o.is_symlink() or not o.is_file() for o in there.values()):
            raise AuditError("A file of the report is a link.", where="report")
        if not there or sum(one.stat().st_size for one in there.values()) > MAX_BYTES:
            raise _NO_REPORT
        return {name: one.read_bytes() for name, one in there.items()}


def _manifest(files: Files, *, is_whole: bool) -> Iterator[Finding]:
    if export.MANIFEST not in files:
        said = Message("There is no manifest, so that files are not checked by their digests.")
        yield "fault" if is_whole else "unchecked", said
        return
    lines = files[export.MANIFEST].decode("ascii", "replace").splitlines()
    listed = dict((m[2], m[1]) for line in lines if (m := _LINE.fullmatch(line)))
    wrong = [
        name
        for name in sorted({*listed, *files} - {export.MANIFEST})
        if name not in files or listed.get(name) != hashlib.sha256(files[name]).hexdigest()
    ]
    for name in wrong:
        shown = name if name in KNOWN else "?"
        yield "fault", Message("{file}: it does not fit the manifest.", file=shown)
    if len(listed) != len(lines):
        yield "fault", Message("The manifest is damaged.")
    elif not wrong:
        yield "holds", Message("All {n} files fit the manifest.", n=len(listed))


def _digest(_: Files, report: AuditReport) -> Iterator[Finding]:
    if question_digest(report.question) == report.digest:
        yield "holds", Message("report.json is of audit {digest}.", digest=report.digest[:12])
    else:
        yield "fault", Message("report.json: its digest is not that of its question.")


def _tables(files: Files, report: AuditReport) -> Iterator[Finding]:
    """Compare what follows from report.json, which has lost the order of the measures."""
    written = {
        "names.csv": export.names_csv(report),
        "measures.csv": export.measures_csv(report),
        "names_key.csv": export.names_key(report),
    }
    for name in filter(files.__contains__, written):
        lines = files[name].decode("utf-8-sig", "replace").splitlines()
        ordered = sorted if name == "measures.csv" else list
        if ordered(lines) != ordered(written[name].splitlines()):
            yield _differs(name)
    if "measures.json" in files and _json(files["measures.json"]) != export.measures_json(report):
        yield _differs("measures.json")
    if _HTML in files and report.digest[:12].encode() not in files[_HTML]:
        yield _differs(_HTML)


def _differs(name: str) -> Finding:
    return "fault", Message("{file}: it does not say what report.json says.", file=name)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _seal(files: Files, report: AuditReport) -> Iterator[Finding]:
    told = files.get(export.SEAL, b"").decode("ascii", "replace").strip()
    seals = {str(report.made.get("log_seal", "")), told} - {""}
    own = next(iter(seals), "")
    if len(seals) > 1 or (_HTML in files and own.encode() not in files[_HTML]):
        yield "fault", Message("Its files hold different seals of the access log.")
    elif not own:
        yield "unchecked", Message("It holds no seal of an access log.")
    else:
        why = access_log.verify(own).reason
        if why == "elsewhere":
            yield "unchecked", Message("It is of another machine: its seal fits there only.")
        elif why:
            yield "fault", Message("The access log does not fit its seal, or is damaged.")
        else:
            yield "holds", Message("The access log still holds what its seal says.")


def _kept(files: Files, report: AuditReport, *, store: Store) -> Iterator[Finding]:
    record = store.get_record(f"audit/{report.digest}")
    if record is None:
        yield "unchecked", Message("Its audit is not kept on this machine.")
        return
    form = report.made.get("names")
    kept = AuditReport.from_json(record)
    if _said(kept.with_names_as(form) if form else kept) != _said(report):
        yield "fault", Message("The audit that is kept here says something else.")
    else:
        yield "holds", Message("The audit that is kept here says the same.")
    documents = store.get_record(f"documents/{report.digest}")
    told = files.get("documents.csv", b"").decode("utf-8-sig", "replace")
    if documents and told and told != export.documents_csv(documents):
        yield _differs("documents.csv")
    decision = report.made.get("decision")
    if decision:
        states = [one.plain() for one in decision_history(report.digest, store=store)]
        if decision not in states:
            yield "fault", Message("Its decision is none that was kept here.")
        elif decision != states[-1]:
            yield "unchecked", Message("The decision was changed after it was written.")


def _said(report: AuditReport) -> dict[str, Any]:
    """Return what a report says, without what each copy of it adds."""
    whole: dict[str, Any] = json.loads(json.dumps(report.to_json()))
    added = ("log_seal", "decision", "names")
    return whole | {"made": {k: v for k, v in whole["made"].items() if k not in added}}
