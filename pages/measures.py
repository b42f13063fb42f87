"""Measures: how well can an attacker tell members from controls?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import streamlit as st

from audit.attack.measure_types import Linking, Rule
from audit.attack.question import CAUSAL
from audit.report.compare import DIGESTS, SETTINGS, Comparison
from audit.report.published import PaperRow, paper_rows, published_tables
from audit.report.report import AuditReport, KeptAudit, list_other_audits
from audit.report.threshold import LOW_FPRS
from audit.stats import Estimate
from audit.tables import UNDEFINED, decimal, small
from audit.words import Words
from pages.ui import blocks, cached, measure_checks, measure_threshold, section
from pages.ui.access import format_name
from pages.ui.blocks import (
    Cell,
    estimate_cell,
    format_moment,
    format_percent,
    format_percent_interval,
    share_cell,
)
from pages.ui.charts import Axis, Look, Series, plot, point_series
from pages.ui.display_names import audited_names, state_name
from pages.ui.form import choose, draw_switch
from pages.ui.name_points import hover_text, list_facts, open_clicked_name
from pages.ui.place import draw_audit_page, find_place
from pages.ui.section import (
    Columns,
    Content,
    draw_absence,
    draw_chart,
    draw_figure,
    draw_frame,
    draw_heading,
    draw_remark,
    draw_table,
    fold_details,
)
from pages.ui.state import draw_link

_FLAGS = ["is_flagged", "is_flagged_other"]
_PAIRED = ["number", "name", "kind", "score", "q", _FLAGS[0], "score_other", "q_other", _FLAGS[1]]
"""Columns of the names of two audits."""
_CHANGES = {
    "neither": (False, "circle"),
    "both": (False, "square"),
    "only_other": (True, "triangle-up"),
    "only_one": (True, "triangle-right"),
}
"""Which of two audits flags a name -> whether that is a change, and the symbol of its point."""
_RATES = ("f1", "accuracy", "recall", "precision")


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw the page."""
    tab = choose(say, "measures_tab", tuple(_VIEWS))
    draw_remark(say, f"measures_below_{tab}")
    _VIEWS[tab](say, cached.report(audit.digest))


def draw_mentions(say: Words, report: AuditReport) -> None:
    """Draw the share of names that stand out by number of mentions, and the controls' share."""
    bins, controls = report.mentions, report.controls_flagged
    if not bins:
        draw_absence(say, "measures_no_mentions" if report.has_truth else "measures_no_truth")
        return
    limit, ends = controls.interval(), (-0.5, len(bins) - 0.5)
    shares = [mention_bin.flagged for mention_bin in bins]
    look: Look = {"is_attack": True, "hover": "%{y:.1f} %"}
    series = [point_series(say.text("kind_member"), range(len(bins)), shares, scale=100, **look)]
    rows: list[tuple[str, int, int, Estimate]] = [
        (mention_bin.label, mention_bin.n_names, mention_bin.flagged.n_hits, mention_bin.flagged)
        for mention_bin in bins
    ]
    if controls.n_total:
        name = say.text("mentions_controls")
        y, low, high = ([100 * end] * 2 for end in (limit.value, limit.low, limit.high))
        series.insert(0, Series(name, ends, y, low=low, high=high, dash="dot", hover=""))
        rows.append((name, controls.n_total, controls.n_hits, limit))
    ticks = {
        float(position): f"{mention_bin.label}\n"
        + say.text("mentions_names", n=mention_bin.n_names)
        for position, mention_bin in enumerate(bins)
    }
    x = Axis(say.text("mentions_x"), range=ends, ticks=ticks, has_grid=False)
    y_axis = Axis(say.text("mentions_y"), range=(-4, 104), suffix=" %")
    table = section.Table(
        ("mentions", "n", "flagged", "share", "interval"),
        [
            (label, n, n_flagged, format_percent(share.value), format_percent_interval(share))
            for label, n, n_flagged, share in rows
        ],
    )
    chart = plot(series, x=x, y=y_axis, height=345)
    draw_figure(say, "mentions", chart, table=table, audit=report.digest)
    if not controls.n_total:
        draw_remark(say, "measures_no_limit")


# Two audits, paired by name.


def draw_compare(say: Words, report: AuditReport) -> None:
    """Draw the choice of a second audit, and the comparison."""
    other_audits = {
        audit.digest[:12]: audit for audit in list_other_audits(report, audits=find_place().audits)
    }
    if not other_audits:
        draw_absence(say, "measures_no_other")
        return
    lines = {
        code: say.text(
            "measures_other_line_demo" if audit.is_demo else "measures_other_line",
            at=format_moment(audit.at),
            scenario=audit.scenario,
            **audited_names(say, audit),
        )
        for code, audit in other_audits.items()
    }
    code = choose(say, "measures_other", lines, is_long=True)
    comparison = cached.comparison(report, other_report=cached.report(other_audits[code].digest))
    _draw_verdicts(say, report, comparison)
    counts = {"one": comparison.n_only_one, "other": comparison.n_only_other}
    if comparison.names.empty:
        draw_absence(say, "measures_no_pairs", **counts)
    else:
        n, differs = len(comparison.names), comparison.n_truth_differs
        draw_remark(say, "measures_paired", n=n, differs=differs, **counts)
        _draw_flags(say, comparison, audit=report.digest)
        _draw_aucs(say, comparison, audit=report.digest)
        _draw_pairs(say, report, comparison)
    with st.expander(say.text("measures_settings"), key="measures_settings_all"):
        _draw_settings(say, comparison, audit=report.digest)


def _draw_verdicts(say: Words, report: AuditReport, comparison: Comparison) -> None:
    draw_heading(say, "measures_verdicts")
    rows: list[Sequence[Content]] = []
    for which, audit_report in (("one", report), ("other", comparison.other)):
        state = state_name(say, audit_report.verdict.state, rule=audit_report.verdict.rule)
        source = say.text(f"audit_source_short_{audit_report.verdict.control_source}")
        rate = audit_report.verdict.flagged
        flagged = Cell(UNDEFINED)
        if rate.n_total:
            flagged = Cell(
                f"{rate.n_hits} / {rate.n_total}", format_percent_interval(rate.interval())
            )
        rows.append([say.text(f"measures_setting_{which}"), state, source, flagged])
    header = ("measures_which", "verdict_title", "measures_asked_control_source", "flagged")
    draw_table(say, "measures_verdicts", section.Table(header, rows), audit=report.digest)
    if not comparison.has_one_source:
        st.html(f'<p class="ka-warning">{say.html("measures_sources_differ")}</p>')


def _draw_flags(say: Words, comparison: Comparison, *, audit: str) -> None:
    draw_heading(say, "measures_flags")
    flags_by_key = {"measures_tested": comparison.tested, "kind_all": comparison.controls}
    flags_by_title = {say.text(key): flags for key, flags in flags_by_key.items() if flags.n_names}
    if not flags_by_title:
        draw_remark(say, "measures_no_flags")
        return
    keys = ("both", "only_one", "only_other", "neither")
    counts = {key: [getattr(flags, key) for flags in flags_by_title.values()] for key in keys}
    table: Columns = {
        "kind": [*flags_by_title],
        **counts,
        "mcnemar": [small(flags.p) for flags in flags_by_title.values()],
    }
    draw_table(say, "measures_flags", table, audit=audit)


def _draw_aucs(say: Words, comparison: Comparison, *, audit: str) -> None:
    draw_heading(say, "measures_aucs")
    if not comparison.aucs:
        draw_remark(say, "measures_without_truth")
        return
    rows: list[Sequence[Content]] = [
        [
            say.text(f"kind_{auc.stratum}"),
            auc.n_members,
            auc.n_controls,
            decimal(auc.one),
            decimal(auc.other),
            estimate_cell(auc.difference, digits=3),
        ]
        for auc in comparison.aucs
    ]
    header = ("controls", "n_members", "n_controls", "one", "other", "auc_difference")
    draw_table(say, "measures_aucs", section.Table(header, rows), audit=audit)


def _draw_pairs(say: Words, report: AuditReport, comparison: Comparison) -> None:
    draw_heading(say, "measures_pairs")
    chart = _pairs_chart(say, report, comparison)
    open_clicked_name(report, draw_chart(say, "measures_paired", chart, is_clickable=True))
    is_all = draw_switch(say, "measures_all_names", parameter="all_names")
    names = comparison.names if is_all else comparison.names[comparison.names["is_different"]]
    draw_remark(say, "measures_n_pairs", n=len(names))
    if names.empty:
        return
    kinds = {kind: say.text(f"kind_{kind}") for kind in set(names["kind"])}
    flag_keys = {True: "measures_flag_yes", False: "measures_flag_no", None: "column_missing"}
    flags = {
        flag: [say.text(flag_keys[is_flagged]) for is_flagged in names[flag]] for flag in _FLAGS
    }
    changes = [say.text(f"measures_flags_{change}") for change in names["change"]]
    full = list(map(format_name, names["first_name"], names["last_name"]))
    names = names.assign(name=full, kind=[kinds[kind] for kind in names["kind"]], **flags)
    columns = {column: names[column].tolist() for column in _PAIRED}
    shown = {
        **{column: columns[column] for column in ("number", "name", "kind")},
        "score_here": columns["score"],
        "score_there": columns["score_other"],
        "change": changes,
    }
    draw_frame(say, "measures_pairs", columns, audit=report.digest, shown=shown)


def _pairs_chart(say: Words, report: AuditReport, comparison: Comparison) -> object:
    """Return a chart with a point for each name: its score in this audit and in the other."""
    row_of = dict(zip(report.table["name_id"], report.table.index, strict=True))
    rows = [row_of[name_id] for name_id in comparison.names["name_id"]]
    names = comparison.names
    names = names.assign(facts=pd.Series(list_facts(report, rows), names.index, dtype=object))
    series = []
    for change, (is_attack, symbol) in _CHANGES.items():
        changed = names[names["change"] == change]
        for kind, points in changed.groupby("kind", sort=False):
            one = say.text(f"names_kind_of_{kind}" if kind != "differs" else "kind_differs")
            hover = hover_text(say, one, score="%{x:.3g} → %{y:.3g}")
            series.append(
                Series(
                    say.text(f"measures_flags_{change}"),
                    points["score"].tolist(),
                    points["score_other"].tolist(),
                    form="dots",
                    is_attack=is_attack,
                    symbol=symbol,
                    hover=hover,
                    facts=points["facts"].tolist(),
                    has_legend=kind == changed["kind"].iloc[0],
                )
            )
    x, y = (
        Axis(say.text(f"measures_paired_{which}", score=say.text(f"axis_{score}")))
        for which, score in (("one", report.fixed_score), ("other", comparison.other.fixed_score))
    )
    return plot(series, x=x, y=y)


def _draw_settings(say: Words, comparison: Comparison, *, audit: str) -> None:
    draw_remark(say, "measures_settings_below")
    is_all = draw_switch(say, "measures_all_settings", parameter="all_settings")
    rows: dict[bool, list[tuple[str, ...]]] = {False: [], True: []}
    for key, pair in comparison.settings.items():
        if is_all or pair[0] != pair[1]:
            is_digest = key in DIGESTS
            name = say.text(f"measures_asked_{key}") if key in SETTINGS else key
            texts = (setting[:12] if is_digest else setting for setting in pair)
            if key == "control_source":
                texts = (
                    say.text(f"audit_source_short_{source}") if source else "" for source in pair
                )
            rows[is_digest].append((name, *(text or UNDEFINED for text in texts)))
    header = [f"measures_setting_{key}" for key in ("name", "one", "other")]
    if not any(rows.values()):
        draw_remark(say, "measures_settings_same")
    if rows[False]:
        draw_table(say, "measures_settings", section.Table(header, rows[False]), audit=audit)
    if rows[True]:
        with fold_details(say, "measures_settings"):
            draw_table(say, "measures_digests", section.Table(header, rows[True]), audit=audit)


# Which name fits which passage.


def draw_linking(say: Words, report: AuditReport) -> None:
    """Draw how often a passage's own name fits the passage best."""
    linking = report.details.linking
    if linking is None:
        number, other_audit = report.scenario.number, find_place().other_audit
        draw_absence(say, f"measures_no_linking_{number}")
        if number == 1 and other_audit:
            draw_link(
                "measures",
                label=say.text("measures_open_2"),
                audit=other_audit.digest,
                tab="linking",
            )
        return
    draw_remark(say, "measures_linking_n", passages=linking.n_passages, names=linking.n_names)
    rows: list[Sequence[Content]] = [
        [
            say.text(f"measures_by_{by}"),
            estimate_cell(top_1),
            estimate_cell(top_5),
            decimal(rank, digits=1),
        ]
        for by, top_1, top_5, rank in linking.lines()
    ]
    table = section.Table(("by", "top_1", "top_5", "median_rank"), rows)
    draw_figure(
        say, "measures_linking", _linking_chart(say, linking), table=table, audit=report.digest
    )
    draw_remark(say, "measures_linking_caption")


def _linking_chart(say: Words, linking: Linking) -> object:
    """Return the share of passages whose own name ranks among the first k, beside chance."""
    n, general, (ranks, share) = linking.n_names, linking.general_alone, linking.reached()
    tried, hover = list(range(1, n + 1)), "%{x} → %{y:.1f} %"
    keys = ("chance", "linking_general", "by_hospital_against_general")
    chance, alone, attack = (say.text(f"measures_{key}") for key in keys)
    firsts = [100 * general.top_1, 100 * general.top_5]
    x, y = [*ranks.tolist(), n], [*(100 * share).tolist(), 100]
    series = [
        Series(chance, tried, [100 * k / n for k in tried], hover=hover),
        Series(alone, [1, 5], firsts, "points", hover=hover),
        Series(attack, x, y, "step", is_attack=True, hover=hover),
    ]
    ticks: dict[float, str] = {k: f"{k:,}" for k in (1, 5, 10, 100, 1000, 10_000, n) if k <= n}
    x_axis = Axis(say.text("measures_linking_x"), is_log=True, ticks=ticks)
    y_axis = Axis(say.text("measures_linking_y"), range=(-3, 102), suffix=" %")
    return plot(series, x=x_axis, y=y_axis)


# For the paper.


def draw_paper(say: Words, report: AuditReport) -> None:
    """Draw rules and scores for each kind of controls, roles, and the paper's two tables."""
    if not report.has_truth:
        draw_absence(say, "measures_no_truth")
        return
    draw_heading(say, "measures_rules")
    header = ("controls", "rule", "tp", "fn", "fp", "tn", *_RATES, "fpr", "undecided")
    table = section.Table(header, list(_rules(say, report)), n_merged=1)
    draw_table(say, "measures_rules", table, audit=report.digest)
    draw_heading(say, "measures_scores")
    recalls = [say.text("measures_recall_at", fpr=f"{100 * fpr:g} %") for fpr in LOW_FPRS]
    score_header = ("controls", "measures_score", "auc", *recalls, "missing")
    table = section.Table(score_header, list(_scores(say, report)), n_merged=1)
    draw_table(say, "measures_scores", table, audit=report.digest)
    _draw_roles(say, report)
    _draw_published(say, report)


def _rules(say: Words, report: AuditReport) -> Iterator[list[Content]]:
    for stratum, measures in report.measures.table_strata.items():
        for name, judges, rule in measures.yield_rules(report.fixed_score):
            if judges == "held_out":
                title = Cell(say.text(f"measures_score_{name}"), say.text("measures_held_out"))
            else:
                title = Cell(say.text(f"measures_rule_{name}"))
            rates, near = [*_rates(rule), rule.confusion.false_positive_rate], Cell(UNDEFINED)
            if rule.n_undecided is not None and rule.all_right and rule.all_wrong:
                low, high = rule.all_wrong.tp, rule.all_right.tp
                near = Cell(str(rule.n_undecided), say.text("measures_bounds", low=low, high=high))
            counts, controls = rule.confusion.four, say.text(f"kind_{stratum}")
            yield [controls, title, *counts, *map(estimate_cell, rates), near]


def _rates(rule: Rule) -> list[Estimate]:
    confusion = rule.confusion
    return [rule.f1, confusion.accuracy, confusion.recall, confusion.precision]


def _scores(say: Words, report: AuditReport) -> Iterator[list[Content]]:
    for stratum, measures in report.measures.table_strata.items():
        for score, ranking in measures.rank_scores(report.fixed_score).items():
            note = "measures_fixed" if score == report.fixed_score else ""
            note = "measures_baseline" if score in measures.baselines else note
            title = Cell(say.text(f"measures_score_{score}"), say.text(note) if note else "")
            tprs = (estimate_cell(ranking.tpr(fpr)) for fpr in LOW_FPRS)
            auc, controls = estimate_cell(ranking.auc, digits=3), say.text(f"kind_{stratum}")
            yield [controls, title, auc, *tprs, ranking.n_not_scored]


def _draw_roles(say: Words, report: AuditReport) -> None:
    """Draw members by role; draw nothing if the list has no roles."""
    lines = report.details.roles
    if not lines:
        return
    draw_heading(say, "measures_roles")
    columns: dict[str, Sequence[Content]] = {
        "role": [line.role or say.text("measures_roles_none") for line in lines],
        "n_members": [str(line.n_members) for line in lines],
        "median_mentions": [small(line.median_mentions) for line in lines],
        "auc": [estimate_cell(line.auc, digits=3) for line in lines],
        "general_auc": [estimate_cell(line.general_auc, digits=3) for line in lines],
        "flagged": [share_cell(line.flagged) for line in lines],
        "general_flagged": [share_cell(line.general_flagged) for line in lines],
    }
    if any(line.role_controls_flagged.n_total for line in lines):
        columns["role_controls_flagged"] = [
            share_cell(line.role_controls_flagged) for line in lines
        ]
    draw_table(say, "measures_roles", columns, audit=report.digest, n=lines[0].n_controls)


def _draw_published(say: Words, report: AuditReport) -> None:
    """Draw the paper's tables 1 and 2 beside the results of the audits of this pair."""
    other_audit = find_place().other_audit
    reports = [report, *([cached.report(other_audit.digest)] if other_audit else [])]
    draw_heading(say, "paper")
    if not paper_rows(1, reports):
        draw_remark(say, "paper_no_controls")
        return
    if not other_audit:
        draw_remark(say, "paper_no_other")
    for number, row_kind in ((1, "paper_attack"), (2, "paper_model")):
        if number == 2:
            draw_heading(say, "paper_2")
        rows = [
            _paper_row(say, row, table=number, report=report) for row in paper_rows(number, reports)
        ]
        header = [("", "controls"), ("", row_kind)] + [
            (group, rate) for group in ("paper_here", "paper_there") for rate in (*_RATES, "counts")
        ]
        table = section.Table(header, rows, n_merged=1)
        draw_table(say, f"paper_table_{number}", table, audit=report.digest)
    st.html(blocks.heading("", below=published_tables().source))


def _paper_row(say: Words, row: PaperRow, *, table: int, report: AuditReport) -> list[Content]:
    reached_rule, paper_rates = row.reached, row.published
    label_code = row.model
    if table == 1 and row.attack:
        label_code = row.attack + f"_{CAUSAL}" * report.is_causal
    label = say.text(f"paper_row_{label_code}")
    reached_cells: list[Content] = (
        [*map(estimate_cell, _rates(reached_rule))] if reached_rule else [UNDEFINED] * len(_RATES)
    )
    counts = _counts(reached_rule.confusion.four if reached_rule else None)
    reached_cells.append(Cell(counts, tone="ka-wrap"))
    published = [
        format_percent(getattr(paper_rates, rate)) if paper_rates else UNDEFINED for rate in _RATES
    ]
    published.append(
        _counts(paper_rates.four if paper_rates else None)
        + "*" * bool(paper_rates and paper_rates.implied)
    )
    tones = ["ka-quiet"] * len(_RATES) + ["ka-quiet ka-wrap"]
    quiet = (Cell(text, tone=tone) for text, tone in zip(published, tones, strict=True))
    return [say.text(f"kind_{row.controls}"), label, *reached_cells, *quiet]


def _counts(counts: tuple[int, int, int, int] | None) -> str:
    return UNDEFINED if counts is None else " / ".join(map(str, counts))


_VIEWS = {
    "threshold": measure_threshold.draw,
    "mentions": draw_mentions,
    "compare": draw_compare,
    "linking": draw_linking,
    "paper": draw_paper,
    "checks": measure_checks.draw,
}
"""Views by their code in `?tab=`, the default first."""
draw_audit_page("measures", draw)
