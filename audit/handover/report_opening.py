"""Sections 1 to 4 of a report: the verdict, what was audited, the attacker, the method."""

from __future__ import annotations

import re

from audit.handover.report_blocks import Cell, bullets, facts, heading, paragraph, table
from audit.handover.report_language import ReportWords
from audit.membership.decisions import MIN_CONTROLS
from audit.report import AuditReport
from audit.view.overview import Overview, StratumFigures
from audit.written_numbers import (
    UNDEFINED,
    decimal,
    decimal_interval,
    moment,
    percent,
    percent_interval,
)


def verdict_section(
    report: AuditReport, view: Overview, *, other: Overview | None, words: ReportWords
) -> str:
    """Return section 1: the state, its sentence, the figures it rests on, the other scenario."""
    flagged, controls = view.flagged, view.controls_flagged
    pairs = [
        (
            words.text(key),
            words.text(
                "k_of_n", k=rate.n_hits, n=rate.n_total, interval=percent_interval(rate.interval())
            ),
        )
        for key, rate in (("flagged", flagged), ("flagged_controls", controls))
        if rate.n_total
    ]
    canaries = view.canaries_japanese if words.language == "ja" else view.canaries_english
    smallest = report.verdict.get("smallest_detectable_auc")
    if smallest is not None:
        pairs.append((words.text("smallest_auc"), decimal(float(smallest))))
    return "".join(
        (
            heading(words.text("verdict")),
            _verdict_card(view, words=words),
            _headline_table(view, words=words),
            facts(pairs),
            _what_now(view, words=words),
            paragraph(canaries) if canaries else "",
            _other_verdict(other, words=words),
        )
    )


def scope_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 2: models, lists, dates, hardware and software."""
    columns = ("name", "kind", "size", "digest")
    rows: list[list[Cell]] = []
    for who in ("general", "hospital"):
        facts_of = report.models[who]
        rows.append(
            [
                words.text(f"model_{who}"),
                str(facts_of["name"]),
                str(facts_of.get("architecture", UNDEFINED)),
                f"{facts_of['n_parameters']:,}" if "n_parameters" in facts_of else UNDEFINED,
                str(facts_of.get("digest", UNDEFINED)),
            ]
        )
    header = [words.text("model_role"), *(words.text(f"model_{column}") for column in columns)]
    return "".join(
        (
            heading(words.text("scope")),
            table(header, rows, n_text=5),
            facts(_list_facts(report, words=words)),
            paragraph(words.text("how_chosen"), tone="soft"),
            facts(_run_facts(report, words=words)),
        )
    )


def scenario_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 3: the attacker in words and as the KART tuple."""
    tuple_ = report.scenario
    number = int(tuple_["number"])
    rows = [
        (words.text("kart_k"), str(tuple_["knowledge"]), words.text("kart_k_words")),
        (words.text("kart_a"), str(tuple_["anonymization"]), words.text("kart_a_words")),
        (words.text("kart_r"), str(tuple_["resource"]), words.text(f"kart_r_words_{number}")),
        (words.text("kart_t"), str(tuple_["target"]), words.text("kart_t_words")),
    ]
    header = [words.text(f"kart_{column}") for column in ("parameter", "symbol", "meaning")]
    return "".join(
        (
            heading(words.text("scenario")),
            paragraph(words.text(f"scenario_{number}"), tone="strong"),
            paragraph(words.text(f"who_{number}")),
            table(header, rows, n_text=3),
        )
    )


def method_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 4: the score, p and q, the rule of the verdict, every setting."""
    number = int(report.scenario["number"])
    settings = report.question.get("settings", {})
    score = words.text_or(f"method_score_{report.fixed_score}", "")  # of older versions too
    sentences = (
        words.text(f"method_{number}"),
        *([score] if score else ()),
        words.text("method_p", min_controls=MIN_CONTROLS),
        words.text("method_thresholds"),
        words.text("method_intervals"),
    )
    shown = "" if not settings else heading(words.text("settings"), level=3) + table(
        [words.text("setting"), words.text("value")],
        [(str(key), str(value)) for key, value in sorted(settings.items())],
        n_text=2,
    )  # fmt: skip
    return heading(words.text("method")) + bullets(sentences) + shown


def sentence_of(view: Overview, *, words: ReportWords) -> str:
    """Return what the verdict says behind its state, in the report's language."""
    whole = view.japanese if words.language == "ja" else view.english
    rest = re.split("：|: ", whole, maxsplit=1)[-1]
    return (rest[:1].upper() + rest[1:]).replace(" %", "\N{NO-BREAK SPACE}%")


def figure_rows(strata: tuple[StratumFigures, ...], *, words: ReportWords) -> list[list[Cell]]:
    """Return AUC and TPR at an FPR of 1 % of attack, general model and popularity, by stratum."""
    rows: list[list[Cell]] = []
    for stratum in strata:
        controls = words.text(f"stratum_{stratum.stratum}")
        by_who = {ranking.who: ranking for ranking in stratum.rankings}
        aucs: list[Cell] = [words.text("figure_auc", controls=controls)]
        tprs: list[Cell] = [words.text("figure_tpr", controls=controls)]
        for who in ("attack", "general_alone", "popularity"):
            ranking = by_who.get(who)
            if ranking is None:
                aucs.append(UNDEFINED)
                tprs.append(UNDEFINED)
                continue
            aucs.append((decimal(ranking.auc.value), decimal_interval(ranking.auc)))
            tprs.append((percent(ranking.tpr.value), percent_interval(ranking.tpr)))
        rows += [aucs, tprs]
    return rows


def figure_table(rows: list[list[Cell]], *, words: ReportWords) -> str:
    """Return rows of `figure_rows` as a table."""
    columns = ("figure", "this_attack", "general_alone", "popularity")
    return table(
        [words.text(column) for column in columns], rows, caption=words.text("figures_caption")
    )


def _verdict_card(view: Overview, *, words: ReportWords) -> str:
    return (
        f'<section class="card {view.state.split("_")[0]}">'
        + paragraph(words.text(f"scenario_{view.scenario}"), tone="soft")
        + paragraph(words.text(f"state_{view.state}"), tone="state")
        + paragraph(sentence_of(view, words=words))
        + "</section>"
    )


def _what_now(view: Overview, *, words: ReportWords) -> str:
    now = view.now_japanese if words.language == "ja" else view.now_english
    return heading(words.text("what_now"), level=3) + paragraph(now) if now else ""


def _headline_table(view: Overview, *, words: ReportWords) -> str:
    if not view.strata:
        return paragraph(words.text("no_truth"))
    whole = tuple(s for s in view.strata if s.stratum == "all") or view.strata[:1]
    return figure_table(figure_rows(whole, words=words), words=words)


def _other_verdict(other: Overview | None, *, words: ReportWords) -> str:
    title = heading(words.text("other"), level=3)
    if other is None:
        return title + paragraph(words.text("other_missing"))
    below = words.text("other_below", digest=other.digest[:12], at=moment(other.at))
    return title + _verdict_card(other, words=words) + paragraph(below, tone="soft")


def _list_facts(report: AuditReport, *, words: ReportWords) -> list[tuple[str, str]]:
    counts, question = report.candidates, report.question
    pairs = [
        (words.text(key), f"{counts[key]:,}")
        for key in ("n_names", "n_members", "n_unknown", "n_controls", "n_canaries", "n_reference")
        if key in counts
    ]
    if kinds := counts.get("by_kind"):
        parts = [
            words.text("control_kind", kind=words.text(f"kind_{kind}"), n=n)
            for kind, n in kinds.items()
        ]
        pairs.append((words.text("controls_by_kind"), " · ".join(parts)))
    for key, label in (
        ("candidates", "names_digest"),
        ("passages", "passages_digest"),
        ("name_pool", "pool_digest"),
    ):
        if question.get(key):
            pairs.append((words.text(label), str(question[key])))
    if question.get("passages"):
        pairs.append((words.text("rows_left_out"), str(question.get("n_rows_left_out", 0))))
    return pairs


def _run_facts(report: AuditReport, *, words: ReportWords) -> list[tuple[str, str]]:
    made, question = report.made, report.question
    hardware = " ".join(str(made[key]) for key in ("device", "device_name") if made.get(key))
    software = " · ".join(
        f"{name} {made[name]}" for name in ("torch", "transformers", "numpy") if made.get(name)
    )
    pairs = [
        (words.text("ran_at"), moment(str(made.get("at", "")))),
        (words.text("hardware"), hardware or UNDEFINED),
        (words.text("software"), software or UNDEFINED),
    ]
    if "seconds" in made:
        pairs.append((words.text("seconds"), f"{float(made['seconds']):,.0f}"))
    pairs += [(words.text(key), str(question[key])) for key in ("seed", "dtype") if key in question]
    return pairs
