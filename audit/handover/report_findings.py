"""Sections 5 and 6 of a report: results with their comparisons, and the checks on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from audit.handover.name_forms import NameForm, shown_name
from audit.handover.report_blocks import Cell, bullets, heading, paragraph, table
from audit.handover.report_canaries import canaries_part
from audit.handover.report_figures import aucs_figure, mentions_figure, scores_figure
from audit.handover.report_language import ReportWords
from audit.handover.report_opening import figure_rows, figure_table
from audit.handover.report_references import references_part
from audit.handover.report_roles import roles_part
from audit.report import AuditReport, name_labels
from audit.translation import in_language
from audit.view.name_view import NAME_EVIDENCE, name_kinds, number
from audit.view.overview import Overview, estimate
from audit.view.reference_view import ReferenceView
from audit.written_numbers import decimal, percent, percent_interval, small

MAX_NAMES = 50
"""Names that stand out and are printed; the others are in names.csv."""
_RATES = ("f1", "accuracy", "recall", "precision")


def results_section(
    report: AuditReport,
    view: Overview,
    *,
    references: ReferenceView | None,
    words: ReportWords,
) -> str:
    """Return section 5 without its names: rankings, figures, rules, roles, references, canaries."""
    parts = [heading(words.text("results"))]
    if view.strata:
        parts.append(figure_table(figure_rows(view.strata, words=words), words=words))
    else:
        parts.append(paragraph(words.text("no_truth")))
    parts += [
        scores_figure(view, words=words),
        aucs_figure(view, words=words),
        mentions_figure(view, words=words),
        _rules(report, words=words),
        roles_part(report, words=words),
        references_part(references, words=words),
        canaries_part(report, words=words),
    ]
    return "".join(parts)


def names_section(report: AuditReport, *, form: NameForm, words: ReportWords) -> str:
    """Return the names that stand out, at most `MAX_NAMES`, the smallest q first."""
    title = heading(words.text("standing_out"), level=3)
    rows = standing_out(report)
    if not rows:
        return title + paragraph(words.text("standing_out_none"))
    scenario = int(report.scenario["number"])
    names, (hospital, general) = report.names, NAME_EVIDENCE[int(report.scenario["number"])]
    labels, cells = name_labels(names), []
    for row in rows[:MAX_NAMES]:
        truth = "truth_unknown" if names["is_member"][row] is None else "truth_yes"
        mentions = names["n_mentions"][row]
        who = names["first_name"][row], names["last_name"][row]
        cells.append(
            (
                labels[row],
                shown_name(labels[row], *who, form=form),
                words.text(truth),
                "" if mentions is None else str(mentions),
                small(number(names[general][row])),
                small(number(names[hospital][row])),
                small(number(names["score"][row])),
                small(number(names["standard_error"][row])),
                decimal(number(names["p_value"][row]), digits=4),
                decimal(number(names["q_value"][row]), digits=4),
            )
        )
    columns = (
        "number", "name", "truth", "mentions", "general", "hospital", "score", "error", "p", "q",
    )  # fmt: skip
    return (
        title
        + paragraph(words.text("standing_out_below", shown=len(cells), n=len(rows)), tone="soft")
        + table(
            [words.text(f"column_{column}") for column in columns],
            cells,
            caption=words.text(f"evidence_{scenario}"),
            n_text=3,
        )
    )


def standing_out(report: AuditReport) -> list[int]:
    """Return the rows of the tested names that stand out, the smallest q first."""
    names = report.names
    rows = [
        row
        for row, (kind, out) in enumerate(zip(name_kinds(names), report.stands_out, strict=True))
        if kind in ("member", "unknown") and out
    ]
    return sorted(rows, key=lambda row: (names["q_value"][row], -number(names["score"][row]), row))


def diagnostics_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 6: why this verdict, the checks, the engine's notes."""
    reasons = [
        words.text_or(f"reason_{code}", str(code)) for code in report.verdict.get("reasons", ())
    ]
    told = [in_language(str(one), language=words.language) for one in report.notes]
    notes = (
        paragraph(words.text("notes"), tone="soft") + bullets(told)
        if told
        else paragraph(words.text("no_notes"), tone="soft")
    )
    return "".join(
        (
            heading(words.text("diagnostics")),
            heading(words.text("reasons"), level=3),
            bullets(reasons),
            bullets(_checks(report, words=words)),
            notes,
        )
    )


def rules_of(report: AuditReport) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield (controls, rule, what it reaches) of every yes/no rule, the guess last."""
    for stratum, measured in report.measures["strata"].items():
        held_out = measured["held_out"]
        found = {
            **measured["rules"],
            **measured["baseline_rules"],
            "held_out": held_out.get(report.fixed_score),
            "held_out_general": held_out.get("general_alone"),
            "always_member": measured["always_member"],
        }
        for rule, reached in found.items():
            if reached is not None:
                yield stratum, rule, reached


def _rules(report: AuditReport, *, words: ReportWords) -> str:
    by_stratum: dict[str, list[list[Cell]]] = {}
    for stratum, rule, reached in rules_of(report):
        counts = reached["confusion"]
        cells: list[Cell] = [
            words.text_or(f"rule_{rule}", rule),
            " / ".join(str(counts[key]) for key in ("tp", "fn", "fp", "tn")),
        ]
        for rate in (*_RATES, "false_positive_rate"):
            found = estimate(reached["f1"] if rate == "f1" else counts[rate])
            cells.append((percent(found.value), percent_interval(found)))
        by_stratum.setdefault(stratum, []).append(cells)
    if not by_stratum:
        return ""
    header = [words.text(key) for key in ("rule", "counts")]
    header += [words.text(f"rate_{rate}") for rate in (*_RATES, "fpr")]
    tables = "".join(
        paragraph(f"{words.text('against')}: {words.text(f'stratum_{stratum}')}", tone="strong")
        + table(header, rows, caption=words.text("rules_caption"))
        for stratum, rows in by_stratum.items()
    )
    return (
        heading(words.text("rules"), level=3)
        + paragraph(words.text("rules_below"), tone="soft")
        + f'<div class="rules">{tables}</div>'
    )


def _checks(report: AuditReport, *, words: ReportWords) -> Iterator[str]:
    cohort, total = report.cohort, report.n_names
    if cohort.get("p") is not None:
        p, effect = small(number(cohort["p"])), percent(number(cohort.get("effect")))
        yield words.text("check_cohort", p=p, effect=effect)
    if check := report.details.get("null_check"):
        yield words.text(
            "check_ks",
            statistic=decimal(number(check["ks_statistic"])),
            p=small(number(check["ks_p"])),
        )
    if (linking := report.details.get("linking")) and linking.get("n_passages"):
        yield words.text(
            "check_linking",
            attack=percent(number(linking["hospital_against_general"]["top_1"])),
            general=percent(number(linking["general_alone"]["top_1"])),
            chance=percent(number(linking["chance"]["top_1"])),
            n=linking["n_passages"],
        )
    names = report.names
    yield words.text("check_not_scored", n=names["score"].count(None), total=total)
    undecided = sum(map(bool, names.get("is_undecided", ())))
    yield words.text("check_undecided", n=undecided, total=total)
    yield words.text("check_unmatched", n=sum(map(bool, names["is_unmatched"])), total=total)
