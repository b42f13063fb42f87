"""Checks whether a returned report is unchanged since it was written, altered, or unchecked.

Files are checked against the manifest of digests. Without a manifest, `report.json` is checked
against the stored audit, and files that can be recomputed from a checked `report.json` are checked
against it. A file that is missing, or that nothing can check, is not a fault: it counts as
unchecked. Nothing is unpacked to the disk, and links are not followed. The manifest has no key, so
it detects accidents and careless changes. Careful changes are detected on the machine that made the
report, by its stored audit and its access log.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from audit import access_log
from audit.attack.question import question_digest
from audit.errors import AuditError, Message
from audit.foreign import MAX_FILE_BYTES, is_zip, read_zip_members, refuse_errors
from audit.report import export
from audit.report.audit_store import read_documents, read_kept_report
from audit.report.decision import Decision, read_decision_history
from audit.report.report import SCHEMA, AuditReport
from cache.store import Store

KNOWN = (*export.FILE_OF.values(), "measures.json", "README.txt")
MAX_BYTES = 500_000_000
MAX_UPLOADED_BYTES = 3 * MAX_FILE_BYTES
"""Bytes of uploaded files, unpacked: the web process holds them in memory."""
MAX_UPLOADED_VALUES = 10_000_000
"""Values of an uploaded `report.json`, some twenty for each listed name."""
_HTML = "report.html"
_REPORT, _README = "report.json", "README.txt"
Finding = tuple[Literal["holds", "unchecked", "fault"], Message]
"""The result of one check: it holds, could not be checked here, or is a fault."""
State = Literal["unchanged", "altered", "unchecked"]
FileState = Literal["unchanged", "altered", "unchecked", "missing"]
_DIGEST = re.compile("[0-9a-f]{64}")
_LINE = re.compile("([0-9a-f]{64})  ([a-z_A-Z.0-9]{1,40})")
_SEAL = re.compile(rb"(?<![0-9a-f-])[0-9]{1,15}-[0-9a-f]{64}-[0-9a-f]{12}(?![0-9a-f-])")
_NO_REPORT = AuditError(
    "This is no report of an audit, or it has other files in it.",
    where="report",
    do="Give the zip as it was handed over, its unpacked folder, or one of its files.",
)
_TOO_LARGE = AuditError(
    "The report is too large to be checked on a page.",
    where="report",
    do="Check it with the command `python -m audit verify`.",
)
Files = Mapping[str, bytes]


@dataclass
class Check:
    """The results of checking a report and each of its files.

    `files` are the files that are present; `checked` are those known to be unchanged; `altered` are
    those known to be changed. `missing` are absent files of the report, as far as the manifest
    lists them. `report` is what `report.json` says, whether it was altered or not. `is_kept` tells
    whether its audit is kept on this machine; None if no report could be read.
    """

    files: frozenset[str]
    missing: frozenset[str] = frozenset()
    checked: set[str] = field(default_factory=set)
    altered: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    report: AuditReport | None = None
    is_kept: bool | None = None

    @property
    def file_states(self) -> dict[str, FileState]:
        """The state of each file, also of those that are missing, by name."""
        states: dict[str, FileState] = dict.fromkeys(sorted(self.files | self.missing), "unchecked")
        states.update(dict.fromkeys(self.checked, "unchanged"))
        states.update(dict.fromkeys(self.altered, "altered"))
        states.update(dict.fromkeys(self.missing, "missing"))
        return states

    @property
    def decision(self) -> Decision | None:
        """The decision in the report, with its signatures; None if there is none."""
        if self.report is None:
            return None
        try:
            return Decision.model_validate_json(json.dumps(self.report.made.get("decision")))
        except ValueError:
            return None

    @property
    def state(self) -> State:
        """The answer in one word."""
        if self.altered:
            return "altered"
        return "unchecked" if self.missing or self.files - self.checked else "unchanged"

    @property
    def answer(self) -> Message:
        """The answer as a sentence."""
        if self.state == "unchanged":
            return Message("Unchanged since it was written.")
        if self.state == "altered":
            return Message("Altered: {files}.", files=", ".join(sorted(self.altered)))
        n, n_files = len(self.files), len(self.files | self.missing)
        unchecked_files = ", ".join(sorted(self.files - self.checked))
        if not unchecked_files:
            return Message("Not checked: {n} of {of} files are here.", n=n, of=n_files)
        if n == n_files:
            return Message("Not checked: nothing here confirms {files}.", files=unchecked_files)
        return Message(
            "Not checked: {n} of {of} files are here, and nothing here confirms {files}.",
            n=n,
            of=n_files,
            files=unchecked_files,
        )

    def note_held(self, sentence: Message, *files: str) -> None:
        """Note a check that holds, and the files that it shows to be unchanged."""
        self.findings.append(("holds", sentence))
        self.checked |= {*files}

    def note_fault(self, sentence: Message, *files: str) -> None:
        """Note a fault, and the files that were altered."""
        self.findings.append(("fault", sentence))
        self.altered |= {*files}

    def note_unchecked(self, sentence: Message) -> None:
        """Note what cannot be checked here."""
        self.findings.append(("unchecked", sentence))


def check_report(path: Path, *, store: Store) -> Check:
    """Check a zip, a folder, or a file of a report. Raises AuditError for anything else.

    No finding contains a name from the report.
    """
    return _check_files(_read_files(path), store=store)


def check_uploads(uploads: Sequence[tuple[str, bytes]], *, store: Store) -> Check:
    """Check uploaded files, each with its name: one zip, or files of one report; as the above."""
    with refuse_errors(_NO_REPORT):
        files = _read_uploads(uploads)
        json_files = [data for name, data in files.items() if name.endswith(".json")]
        if any(sum(map(d.count, (b"[", b"{", b","))) > MAX_UPLOADED_VALUES for d in json_files):
            raise _TOO_LARGE
        return _check_files(files, store=store)


def _check_files(files: Files, *, store: Store) -> Check:
    listed = _read_manifest(files)
    missing = frozenset({*listed, _REPORT} - {*files}) if listed else frozenset()
    check = Check(frozenset(files), missing)
    _check_manifest(check, files, listed)
    report = check.report = _read_report(check, files)
    if report is not None:
        unreadable = AuditError("report.json cannot be read.")
        for look in (_check_digest, partial(_check_kept, store=store), _check_tables):
            try:
                with refuse_errors(unreadable):
                    look(check, files, report)
            except AuditError as error:
                if error is not unreadable:
                    raise
                check.note_fault(error.message, _REPORT)
    _check_seals(check, files, report)
    return check


def _read_report(check: Check, files: Files) -> AuditReport | None:
    if _REPORT not in files:
        check.note_unchecked(
            Message("report.json is not here, so that nothing is compared with it.")
        )
        return None
    content = _parse_json(files[_REPORT])
    schema = content.get("schema") if isinstance(content, dict) else None
    try:
        with refuse_errors(AuditError("report.json cannot be read.")):
            if not isinstance(content, dict):
                raise ValueError("no record")
            return AuditReport.from_json(content)
    except AuditError as error:
        if isinstance(schema, int) and schema != SCHEMA:
            check.note_unchecked(error.message)
        else:
            check.note_fault(error.message, _REPORT)
    return None


def _read_files(path: Path) -> dict[str, bytes]:
    with refuse_errors(_NO_REPORT):
        if path.is_file() and path.suffix == ".zip":
            if path.stat().st_size > MAX_BYTES or not is_zip(data := path.read_bytes()):
                raise _NO_REPORT
            return _unpack(data, max_bytes=MAX_BYTES)
        folder, begin = path if path.is_dir() else path.parent, ""
        if path.is_dir() and not any((path / name).exists() for name in KNOWN):
            begin = _common_beginning(file_path.name for file_path in path.iterdir())
        elif path != folder and path.name not in KNOWN:  # files that were downloaded one by one
            file_name = next(name for name in KNOWN if path.name.endswith(f"-{name}"))
            begin = path.name.removesuffix(file_name)
        paths_by_name = {name: folder / f"{begin}{name}" for name in KNOWN}
        present = {
            name: file_path for name, file_path in paths_by_name.items() if file_path.exists()
        }
        if path.is_symlink() or any(
            file_path.is_symlink() or not file_path.is_file() for file_path in present.values()
        ):
            raise AuditError("A file of the report is a link.", where="report")
        if (
            not present
            or sum(file_path.stat().st_size for file_path in present.values()) > MAX_BYTES
        ):
            raise _NO_REPORT
        return {name: file_path.read_bytes() for name, file_path in present.items()}


def _unpack(data: bytes, *, max_bytes: int) -> dict[str, bytes]:
    """Return the files of a report's zip, which lie in one folder or in none."""
    members = dict(
        read_zip_members(data, place="report", max_bytes=max_bytes, max_files=2 * len(KNOWN))
    )
    parts = [name.rpartition("/") for name in members]
    files = dict(zip((name for *_, name in parts), members.values(), strict=True))
    folders, is_known = {folder for folder, *_ in parts}, {*files} <= {*KNOWN}
    is_one = len(folders) == 1 and re.fullmatch(r"(?!\.)[^/\\]*", min(folders))
    if not (is_one and is_known):
        raise _NO_REPORT
    return files


def _read_uploads(uploads: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
    uploads = list(dict.fromkeys(uploads))  # a file that was given twice counts once
    if sum(len(data) for _, data in uploads) > MAX_UPLOADED_BYTES:
        raise _TOO_LARGE
    if len(uploads) == 1 and is_zip(uploads[0][1]):
        return _unpack(uploads[0][1], max_bytes=MAX_UPLOADED_BYTES)
    # A browser appends a number to the name of a file that it saves twice.
    contents = {re.sub(r" ?\(\d+\)(?=\.\w+$)", "", name): data for name, data in uploads}
    begin = _common_beginning(contents)
    files = {name.removeprefix(begin): data for name, data in contents.items()}
    if len(files) < len(uploads) or not files or not {*files} <= {*KNOWN}:
        raise _NO_REPORT
    return files


def _common_beginning(file_names: Iterable[str]) -> str:
    """Return the common beginning of the names of files that were downloaded one by one."""
    beginnings = {
        file_name.removesuffix(name)
        for file_name in file_names
        for name in KNOWN
        if file_name.endswith(f"-{name}")
    }
    if len(beginnings) > 1:
        raise AuditError(
            "There are files of several reports in this folder.",
            where="report",
            do="Name one of the files: those that belong to it are found by its name.",
        )
    return next(iter(beginnings), "")


def _read_manifest(files: Files) -> dict[str, str]:
    """Return file -> digest from the manifest; empty if there is no manifest."""
    lines = files.get(export.MANIFEST, b"").decode("ascii", "replace").splitlines()
    return dict((m[2], m[1]) for line in lines if (m := _LINE.fullmatch(line)))


def _check_manifest(check: Check, files: Files, listed: Mapping[str, str]) -> None:
    if export.MANIFEST not in files:
        check.note_unchecked(
            Message("There is no manifest, so that files are not checked by their digests.")
        )
        return
    n_lines = len(files[export.MANIFEST].splitlines())
    if len(listed) != n_lines or not {_REPORT, _HTML} <= {*listed}:
        check.note_fault(Message("The manifest is damaged."), export.MANIFEST)
        return
    file_names = sorted(files.keys() - {export.MANIFEST})
    for name in file_names:
        if listed.get(name) == hashlib.sha256(files[name]).hexdigest():
            check.checked.add(name)
        else:
            check.note_fault(Message("{file}: it does not fit the manifest.", file=name), name)
    if check.altered:
        return
    if check.missing:
        check.note_unchecked(
            Message(
                "{n} of {of} files are here, and fit the manifest.",
                n=len(file_names),
                of=len(listed),
            )
        )
        check.checked.add(export.MANIFEST)
    else:
        check.note_held(Message("All {n} files fit the manifest.", n=len(listed)), export.MANIFEST)


def _check_digest(check: Check, _: Files, report: AuditReport) -> None:
    if question_digest(report.question) == report.digest:
        check.note_held(Message("report.json is of audit {digest}.", digest=report.digest[:12]))
    else:
        check.note_fault(Message("report.json: its digest is not that of its question."), _REPORT)


def _check_tables(check: Check, files: Files, report: AuditReport) -> None:
    """Compare tables with report.json, in which the order of the measures is lost."""
    expected = {
        "names.csv": export.names_csv(report),
        "measures.csv": export.measures_csv(report),
        "names_key.csv": export.names_key(report),
    }
    same = {}
    for name in filter(files.__contains__, expected):
        lines = files[name].decode("utf-8-sig", "replace").splitlines()
        ordered = sorted if name == "measures.csv" else list
        same[name] = ordered(lines) == ordered(expected[name].splitlines())
    if "measures.json" in files:
        same["measures.json"] = _parse_json(files["measures.json"]) == export.measures_json(report)
    for name, is_same in same.items():
        if not is_same:
            _note_difference(check, name)
        elif _REPORT in check.checked:
            check.checked.add(name)
    pages = (export.FILE_OF[kind] for kind in ("html", "html_en", "html_ja", "folder"))
    for name in filter(files.__contains__, pages):
        if report.digest[:12].encode() not in files[name]:
            _note_difference(check, name)


def _note_difference(check: Check, name: str) -> None:
    check.note_fault(Message("{file}: it does not say what report.json says.", file=name), name)


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _check_seals(check: Check, files: Files, report: AuditReport | None) -> None:
    """Check every seal with the access log; files downloaded one by one have their own seals."""
    seals_by_file = {
        export.SEAL: _SEAL.findall(files.get(export.SEAL, b"").strip()),
        _HTML: _SEAL.findall(files.get(_HTML, b"")),
        _REPORT: _SEAL.findall(str(report.made.get("log_seal", "")).encode()) if report else [],
    }
    seals = {
        name: {*filter(None, file_seals)}
        for name, file_seals in seals_by_file.items()
        if name in files
    }
    all_seals = {seal for file_seals in seals.values() for seal in file_seals}
    if (
        export.MANIFEST in files
        and report is not None
        and len(all_seals) != len(set.intersection(*seals.values()))
    ):
        check.note_fault(Message("Its files hold different seals of the access log."), *seals)
        return
    if not all_seals:
        check.note_unchecked(Message("It holds no seal of an access log."))
        return
    reasons = {
        name: {access_log.verify(seal.decode()).reason for seal in file_seals}
        for name, file_seals in seals.items()
    }
    faulty = [name for name, why in reasons.items() if why - {"", "elsewhere"}]
    if faulty:
        check.note_fault(Message("The access log does not fit its seal, or is damaged."), *faulty)
    elif any("elsewhere" in why for why in reasons.values()):
        check.note_unchecked(Message("It is of another machine: its seal fits there only."))
    else:
        sealed = {export.SEAL} & {*files}
        check.note_held(Message("The access log still holds what its seal says."), *sealed)


def _check_kept(check: Check, files: Files, report: AuditReport, *, store: Store) -> None:
    is_digest = _DIGEST.fullmatch(report.digest)
    kept_report = read_kept_report(report.digest, store=store) if is_digest else None
    check.is_kept = kept_report is not None
    if kept_report is None:
        check.note_unchecked(Message("Its audit is not kept on this machine."))
        return
    form = report.made.get("names")
    if _select_shared(kept_report.with_names_as(form) if form else kept_report) != _select_shared(
        report
    ):
        check.note_fault(Message("The audit that is kept here says something else."), _REPORT)
    else:
        check.note_held(Message("The audit that is kept here says the same."), _REPORT)
    documents = read_documents(report.digest, store=store)
    documents_text = files.get("documents.csv", b"").decode("utf-8-sig", "replace")
    if documents and "documents.csv" in files:
        if documents_text != export.documents_csv(documents):
            _note_difference(check, "documents.csv")
        else:
            check.checked.add("documents.csv")
    decision = report.made.get("decision")
    if decision:
        # It may have been kept while another audit of the pair was open.
        other = str(decision.get("audit")) if isinstance(decision, Mapping) else ""
        digests = [report.digest, *filter(_DIGEST.fullmatch, [other])]
        states = [state.plain() for state in read_decision_history(digests, store=store)]
        if decision not in states:
            check.note_fault(Message("Its decision is none that was kept here."), _REPORT)
        elif decision != states[-1]:
            check.note_unchecked(Message("The decision was changed after it was written."))


def _select_shared(report: AuditReport) -> dict[str, Any]:
    """Return the parts of a report that are the same in every copy."""
    values: dict[str, Any] = json.loads(json.dumps(report.to_json()))
    added = ("log_seal", "decision", "names")
    return values | {"made": {k: v for k, v in values["made"].items() if k not in added}}
