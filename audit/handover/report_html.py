"""The report as one HTML file that is read, printed and signed without the program.

Comes in: a report, and what the auditor chose. Goes out: HTML without a script and without any
address to fetch, with its pictures in it, for light and dark screens and for A4 paper. Numbers come
from the report only. Everything that is not ours is escaped, and the file's own content security
policy lets nothing run and nothing be fetched, even if something were not.
"""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path

from audit.handover.report_blocks import paragraph
from audit.handover.report_choice import ReportChoice
from audit.handover.report_closing import (
    glossary_section,
    limits_section,
    recommendation_section,
    reproduction_section,
    sign_off_section,
)
from audit.handover.report_findings import diagnostics_section, names_section, results_section
from audit.handover.report_language import ReportWords, report_words
from audit.handover.report_opening import (
    method_section,
    scenario_section,
    scope_section,
    verdict_section,
)
from audit.report import AuditReport
from audit.view.overview import Overview, overview_of
from audit.view.reference_view import ReferenceView
from audit.written_numbers import moment

_STYLE = Path(__file__).resolve().parent / "report_words" / "style.css"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def report_html(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: ReferenceView | None = None,
    seal: str = "",
) -> str:
    """Return the whole file.

    Parameters
    ----------
    choice
        Language, form of the names, sections and sign-off.
    other
        The audit of the same pair in the other scenario, if it is kept: its verdict is printed too.
    references
        The audits that differ in the reference alone, if there are any.
    seal
        The access log's; it is printed where the report is signed.

    Raises
    ------
    KeyError
        If the report is not of this program's making.
    """
    words = report_words(choice.language)
    view = overview_of(report)
    beside = overview_of(other) if other is not None else None
    title = escape(f"{words.text('title')} · {report.digest[:12]}")
    parts = _sections(
        report, view, other=beside, references=references, choice=choice, seal=seal, words=words
    )
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="{words.language}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>\n{_style()}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _sections(
    report: AuditReport,
    view: Overview,
    *,
    other: Overview | None,
    references: ReferenceView | None,
    choice: ReportChoice,
    seal: str,
    words: ReportWords,
) -> list[str]:
    wanted, sign_off = choice.sections, choice.sign_off
    return [
        _opening(view, choice=choice, words=words),
        verdict_section(report, view, other=other, words=words),
        '<div class="page"></div>',
        scope_section(report, words=words),
        scenario_section(report, words=words),
        method_section(report, words=words),
        results_section(report, view, references=references, words=words)
        if "results" in wanted
        else "",
        names_section(report, form=choice.names, words=words) if "names" in wanted else "",
        diagnostics_section(report, words=words) if "diagnostics" in wanted else "",
        limits_section(report, words=words),
        recommendation_section(sign_off, words=words),
        sign_off_section(sign_off, seal=seal, words=words),
        reproduction_section(report, words=words) if "reproduction" in wanted else "",
        glossary_section(words=words) if "glossary" in wanted else "",
    ]


def _opening(view: Overview, *, choice: ReportChoice, words: ReportWords) -> str:
    meta = words.text(
        "meta",
        hospital=view.hospital,
        general=view.general,
        digest=view.digest[:12],
        at=moment(view.at),
    )
    names = words.text(f"names_{choice.names}")
    return "".join(
        (
            f"<header><h1>{escape(words.text('title'))}</h1>",
            paragraph(words.text("subtitle"), tone="lead"),
            paragraph(meta, tone="soft"),
            paragraph(names, tone="warn" if choice.names == "full" else "soft"),
            paragraph(words.text("demo"), tone="warn") if choice.is_demo else "",
            "</header>",
        )
    )


@cache
def _style() -> str:
    return _STYLE.read_text(encoding="utf-8")
