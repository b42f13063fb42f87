"""Sections 7 to 11 of a report: limits, recommendation, sign-off, reproduction, glossary."""

from __future__ import annotations

import shlex
from html import escape

from audit.handover.report_blocks import bullets, facts, free_text, heading, paragraph
from audit.handover.report_choice import RECOMMENDATIONS, SignOff
from audit.handover.report_language import ReportWords
from audit.report import AuditReport

_OPTIONS = {
    "n_documents": "--documents",
    "n_steps": "--steps",
    "n_tokens": "--tokens",
    "top_k": "--top-k",
    "temperature": "--temperature",
    "prompt": "--prompt",
    "n_inputs": "--inputs",
    "n_chain_inputs": "--chain-inputs",
    "micro_batch": "--micro-batch",
    "max_tokens": "--max-tokens",
}
_GLOSSARY = ("member", "control", "auc", "tpr", "q", "undecided", "general", "interval")


def limits_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 7: attacks not tried, and what "not found" means."""
    attack = words.text(f"attack_{int(report.scenario['number'])}")
    sentences = [words.text("limit_tried", attack=attack)]
    sentences += [words.text(f"limit_{key}") for key in ("untried", "none", "role", "list", "deid")]
    return heading(words.text("limits")) + bullets(sentences)


def recommendation_section(sign_off: SignOff, *, words: ReportWords) -> str:
    """Return section 8: the scale, the auditor's choice on it, and the reasons."""
    boxes = "".join(
        f'<li class="{"chosen" if code == sign_off.recommendation else "open-box"}">'
        f'<span aria-hidden="true">{"☒" if code == sign_off.recommendation else "☐"}</span> '
        f"{escape(words.text(f'recommend_{code}'))}</li>"
        for code in RECOMMENDATIONS
    )
    reasons = (
        free_text(sign_off.reasons)
        if sign_off.reasons.strip()
        else paragraph(words.text("no_reasons"), tone="soft")
    )
    return "".join(
        (
            heading(words.text("recommendation")),
            paragraph(words.text("recommendation_why"), tone="soft"),
            f'<ul class="scale">{boxes}</ul>',
            "" if sign_off.recommendation else paragraph(words.text("no_recommendation")),
            heading(words.text("reasons_given"), level=3),
            reasons,
        )
    )


def sign_off_section(sign_off: SignOff, *, seal: str = "", words: ReportWords) -> str:
    """Return section 9: a line to sign for each of the two, and what the access log held then."""
    rows = "".join(
        f'<tr><th scope="row">{escape(words.text(role))}</th>'
        f'<td class="sign">{escape(name)}</td><td class="sign"></td><td class="sign"></td></tr>'
        for role, name in (("auditor", sign_off.auditor), ("officer", sign_off.officer))
    )
    header = "".join(
        f'<th scope="col">{escape(text)}</th>'
        for text in ("", words.text("column_name"), words.text("signature"), words.text("date"))
    )
    return (
        f'<section class="keep">{heading(words.text("sign_off"))}<table class="signatures">'
        f"<thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"
        f"{paragraph(words.text('log_seal', seal=seal), tone='soft') if seal else ''}</section>"
    )


def reproduction_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 10: the command, the digests."""
    question = report.question
    pairs = [(words.text("audit_digest"), report.digest)]
    if "evidence_version" in question:
        pairs.append((words.text("evidence_version"), str(question["evidence_version"])))
    return "".join(
        (
            heading(words.text("reproduction")),
            paragraph(words.text("reproduce")),
            f"<pre>{escape(command_of(report))}</pre>",
            paragraph(words.text("reproduce_files"), tone="soft"),
            facts(pairs),
            paragraph(words.text("report_check"), tone="soft"),
        )
    )


def glossary_section(*, words: ReportWords) -> str:
    """Return section 11."""
    return heading(words.text("glossary")) + bullets(
        words.text(f"gloss_{key}") for key in _GLOSSARY
    )


def command_of(report: AuditReport) -> str:
    """Return the command that asks the same question; directories and files are placeholders."""
    scenario, question = int(report.scenario["number"]), report.question
    parts = ["python", "-m", "audit", "run", "--scenario", str(scenario)]
    parts += ["--general", "GENERAL", "--hospital", "HOSPITAL", "--names", "names.csv"]
    if scenario == 2:
        parts += ["--passages", "passages.jsonl"]
    settings = question.get("settings", {})
    for key, option in _OPTIONS.items():
        if key in settings:
            parts += [option, str(settings[key])]
    parts += ["--keep-sampled"] if settings.get("is_remasked") is False else []
    parts += ["--no-dropout"] if settings.get("is_dropout_on") is False else []
    for key in ("seed", "dtype", "threshold"):
        if question.get(key) is not None:
            parts.append(f"--{key}={question[key]}")
    return shlex.join([*parts, "--out", "results"])
