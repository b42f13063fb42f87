"""The command `results`: kept audits as a list, or one of them as files to hand over."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from audit.access.log import log_seal, record
from audit.console import say
from audit.demo import demo_digests, is_demo
from audit.errors import AuditError
from audit.handover.bundle import SEAL, bundle_files
from audit.handover.report_choice import ReportChoice
from audit.home import results_dir
from audit.report import AuditReport, write_private_files, write_report
from audit.view.kept import KeptAudit, kept_audit, other_scenario, same_but_reference
from audit.view.reference_view import MAX_REFERENCES, ReferenceView, reference_view
from cache.store import Store


def results(options: Namespace) -> dict[str, Any]:
    """List the kept audits, or write one of them out."""
    with Store(results_dir()) as store:
        digests = [key.removeprefix("audit/") for key in store.keys("audit/")]
        chosen = [digest for digest in digests if digest.startswith(options.digest or "")]
        if options.digest and len(chosen) != 1:
            raise AuditError(
                f"{len(chosen)} kept audits begin so.", where="digest",
                do="Give more of its digits; `python -m audit results` lists all.",
            )  # fmt: skip
        reports = [_report(digest, store=store) for digest in chosen]
        demo = demo_digests(store)
        if options.out and options.digest:
            _write(reports[0], options, store=store)
    rows = [
        {
            "digest": report.digest,
            "at": report.made.get("at"),
            "scenario": report.scenario["number"],
            "general": report.models["general"]["name"],
            "hospital": report.models["hospital"]["name"],
            "n_names": report.n_names,
            "verdict": report.verdict["state"],
            "is_demo": is_demo(report, digests=demo),
        }
        for report in reports
    ]
    for row in sorted(rows, key=lambda r: str(r["at"])):
        say(f"{row['digest'][:12]}  {row['at']}  scenario {row['scenario']}  {row['general']} -> "
            f"{row['hospital']}  {row['n_names']} names  {row['verdict']}"
            f"{'  (made-up hospital)' if row['is_demo'] else ''}")  # fmt: skip
    return {"audits": rows}


def _report(digest: str, *, store: Store) -> AuditReport:
    return AuditReport.from_json(store.get_record(f"audit/{digest}"))


def _write(report: AuditReport, options: Namespace, *, store: Store) -> None:
    """Write an audit's files, once the access log has it."""
    documents = store.get_record(f"documents/{report.digest}")
    record("exported", audit=report.digest, names=options.names if options.html else "full")
    if not options.html:
        written = write_report(report, options.out, documents=documents)
        written += write_private_files({SEAL: f"{log_seal()}\n".encode("ascii")}, options.out)
    else:
        demo = demo_digests(store)
        choice = ReportChoice(
            language=options.language,
            names=options.names,
            is_demo=is_demo(report, digests=demo),
        )
        files = bundle_files(
            report, choice=choice, other=_other(report, store=store, demo=demo),
            references=_references(report, store=store), documents=documents, seal=log_seal(),
        )  # fmt: skip
        written = write_private_files(files, options.out)
    for path in written:
        say(f"Written: {path.name}")


def _other(report: AuditReport, *, store: Store, demo: dict[str, str]) -> AuditReport | None:
    """Return the same pair's audit in the other scenario, if it is kept and can be read."""
    own = kept_audit(report, is_demo=is_demo(report, digests=demo))
    found = other_scenario(own, kept=_kept(store, demo=demo), demo=demo)
    return _report(found.digest, store=store) if found else None


def _references(report: AuditReport, *, store: Store) -> ReferenceView | None:
    """Return the audits that differ in the general model alone beside this one; None without."""
    found = same_but_reference(kept_audit(report), kept=_kept(store, demo=demo_digests(store)))
    newest = sorted(found, key=lambda line: line.at, reverse=True)[:MAX_REFERENCES]
    others = [_report(line.digest, store=store) for line in newest]
    return reference_view(report, others=others) if others else None


def _kept(store: Store, *, demo: dict[str, str]) -> list[KeptAudit]:
    kept = []
    for key in store.keys("audit/"):
        try:
            report = _report(key.removeprefix("audit/"), store=store)
            kept.append(kept_audit(report, is_demo=is_demo(report, digests=demo)))
        except AuditError:
            continue  # of another version
    return kept
