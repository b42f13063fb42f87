"""Measures: how well can an attacker tell members from controls?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import streamlit as st

from audit.report.compare import DIGESTS, SETTINGS, Comparison
from audit.report.published import PaperRow, paper_rows, published_tables
from audit.report.report import AuditReport, KeptAudit, Linking, Rule, Share, list_other_audits
from audit.report.threshold import LOW_FPRS
from audit.tables import UNDEFINED, decimal, small
from pages.ui import blocks, cached, measure_checks, measure_threshold, section
from pages.ui.access import shown_name
from pages.ui.blocks import Cell, counted, day, measured, percent, percent_interval
from pages.ui.charts import Axis, Series, plot, points
from pages.ui.display_names import state_name
from pages.ui.form import choose, switch
from pages.ui.section import details, draw_table, empty, figure, frame, head, page_of_audit, remark
from pages.ui.state import Words, link

_FLAGS = ["is_flagged", "is_flagged_other"]
_PAIRED = ["number", "name", "kind", "score", "q", _FLAGS[0], "score_other", "q_other", _FLAGS[1]]
"""Columns of the names of two audits."""
_RATES = ("f1", "accuracy", "recall", "precision")


def page(say: Words, audit: KeptAudit) -> None:
    """Draw the page."""
    tab = choose(say, "measures_tab", tuple(_VIEWS))
    remark(say, f"measures_below_{tab}")
    _VIEWS[tab](say, cached.report(audit.digest))


def draw_mentions(say: Words, report: AuditReport) -> None:
    """Draw the share of names that stand out against how often they occur, and the controls'."""
    bins, controls = report.mentions, report.controls_flagged
    if not bins:
        empty(say, "measures_no_mentions" if report.has_truth else "measures_no_truth")
        return
    limit, ends = controls.interval(), (-0.5, len(bins) - 0.5)
    shares = [one.flagged for one in bins]
    looks = {"scale": 100, "is_attack": True, "hover": "%{y:.1f} %"}
    series = [points(say.text("kind_member"), range(len(bins)), shares, **looks)]
    rows = [(one.label, one.n_names, one.flagged.n_hits, one.flagged) for one in bins]
    if controls.n_total:
        name = say.text("mentions_controls")
        y, low, high = ([100 * end] * 2 for end in (limit.value, limit.low, limit.high))
        series.insert(0, Series(name, ends, y, low=low, high=high, dash="dot", hover=""))
        rows.append((name, controls.n_total, controls.n_hits, limit))
    ticks = {
        float(at): f"{one.label}\n" + say.text("mentions_names", n=one.n_names)
        for at, one in enumerate(bins)
    }
    x = Axis(say.text("mentions_x"), range=ends, ticks=ticks, has_grid=False)
    y_axis = Axis(say.text("mentions_y"), range=(-4, 104), suffix=" %")
    table = section.Table(
        ("mentions", "n", "flagged", "share", "interval"),
        [(*row, percent(share.value), percent_interval(share)) for *row, share in rows],
    )
    chart = plot(series, x=x, y=y_axis, height=345)
    figure(say, "mentions", chart, table=table, audit=report.digest)
    if not controls.n_total:
        remark(say, "measures_no_limit")


# Two audits, paired by name.


def draw_compare(say: Words, report: AuditReport) -> None:
    """Draw the choice of a second audit, and the comparison."""
    others = {
        one.digest[:12]: one for one in list_other_audits(report, audits=section.place().kept)
    }
    if not others:
        empty(say, "measures_no_other")
        return
    lines = {
        code: say.text(
            "measures_other_line_demo" if one.is_demo else "measures_other_line",
            at=day(one.at),
            scenario=one.scenario,
            hospital=one.hospital,
            general=one.general,
        )
        for code, one in others.items()
    }
    code = choose(say, "measures_other", lines, is_long=True)
    found = cached.comparison(report, other=cached.report(others[code].digest))
    _draw_verdicts(say, report, found)
    counts = {"one": found.n_only_one, "other": found.n_only_other}
    if found.names.empty:
        empty(say, "measures_no_pairs", **counts)
    else:
        n, differs = len(found.names), found.n_truth_differs
        remark(say, "measures_paired", n=n, differs=differs, **counts)
        _draw_flags(say, found, audit=report.digest)
        _draw_aucs(say, found, audit=report.digest)
        _draw_pairs(say, found, audit=report.digest)
    _draw_settings(say, found, audit=report.digest)


def _draw_verdicts(say: Words, report: AuditReport, found: Comparison) -> None:
    head(say, "measures_verdicts")
    rows = []
    for which, one in (("one", report), ("other", found.other)):
        state = state_name(say, one.verdict.state, rule=one.verdict.rule)
        source = say.text(f"audit_source_short_{one.verdict.control_source}")
        rate = one.verdict.flagged
        flagged = Cell(UNDEFINED)
        if rate.n_total:
            flagged = Cell(f"{rate.n_hits} / {rate.n_total}", percent_interval(rate.interval()))
        rows.append([say.text(f"measures_setting_{which}"), state, source, flagged])
    header = ("measures_which", "verdict_title", "measures_asked_control_source", "flagged")
    draw_table(say, "measures_verdicts", section.Table(header, rows), audit=report.digest)
    if not found.has_one_source:
        st.html(f'<p class="ka-refused">{say.html("measures_sources_differ")}</p>')


def _draw_flags(say: Words, found: Comparison, *, audit: str) -> None:
    head(say, "measures_flags")
    every = {"measures_tested": found.tested, "kind_all": found.controls}
    shown = {say.text(key): flags for key, flags in every.items() if flags.n_names}
    if not shown:
        remark(say, "measures_no_flags")
        return
    keys = ("both", "only_one", "only_other", "neither")
    counts = {key: [getattr(flags, key) for flags in shown.values()] for key in keys}
    table = {"kind": [*shown], **counts, "mcnemar": [small(one.p) for one in shown.values()]}
    draw_table(say, "measures_flags", table, audit=audit)


def _draw_aucs(say: Words, found: Comparison, *, audit: str) -> None:
    head(say, "measures_aucs")
    if not found.aucs:
        remark(say, "measures_without_truth")
        return
    rows = [
        [
            say.text(f"kind_{one.stratum}"),
            one.n_members,
            one.n_controls,
            decimal(one.one),
            decimal(one.other),
            measured(one.difference, digits=3),
        ]
        for one in found.aucs
    ]
    header = ("controls", "n_members", "n_controls", "one", "other", "auc_difference")
    draw_table(say, "measures_aucs", section.Table(header, rows), audit=audit)


def _draw_pairs(say: Words, found: Comparison, *, audit: str) -> None:
    head(say, "measures_pairs")
    is_all = switch(say, "measures_all_names", what="all_names")
    names = found.names if is_all else found.names[found.names["is_different"]]
    remark(say, "measures_n_pairs", n=len(names))
    if names.empty:
        return
    kinds = {kind: say.text(f"kind_{kind}") for kind in set(names["kind"])}
    said = {True: "measures_flag_yes", False: "measures_flag_no", None: "column_missing"}
    flags = {flag: [say.text(said[one]) for one in names[flag]] for flag in _FLAGS}
    full = list(map(shown_name, names["first_name"], names["last_name"]))
    names = names.assign(name=full, kind=[kinds[kind] for kind in names["kind"]], **flags)
    frame(say, "measures_pairs", names[_PAIRED].to_dict("list"), audit=audit)


def _draw_settings(say: Words, found: Comparison, *, audit: str) -> None:
    head(say, "measures_settings")
    is_all = switch(say, "measures_all_settings", what="all_settings")
    rows: dict[bool, list[tuple[str, ...]]] = {False: [], True: []}
    for key, pair in found.settings.items():
        if is_all or pair[0] != pair[1]:
            is_digest = key in DIGESTS
            name = say.text(f"measures_asked_{key}") if key in SETTINGS else key
            texts = (value[:12] if is_digest else value for value in pair)
            if key == "control_source":
                texts = (say.text(f"audit_source_short_{one}") if one else "" for one in pair)
            rows[is_digest].append((name, *(text or UNDEFINED for text in texts)))
    header = [f"measures_setting_{key}" for key in ("name", "one", "other")]
    if not any(rows.values()):
        remark(say, "measures_settings_same")
    if rows[False]:
        draw_table(say, "measures_settings", section.Table(header, rows[False]), audit=audit)
    if rows[True]:
        with details(say, "measures_settings"):
            draw_table(say, "measures_digests", section.Table(header, rows[True]), audit=audit)


# Which name fits which passage.


def draw_linking(say: Words, report: AuditReport) -> None:
    """Draw how often a passage's own name fits it best."""
    linking = report.details.linking
    if linking is None:
        number, other = report.scenario.number, section.place().other
        empty(say, f"measures_no_linking_{number}")
        if number == 1 and other:
            link("measures", label=say.text("measures_open_2"), audit=other.digest, tab="linking")
        return
    remark(say, "measures_linking_n", passages=linking.n_passages, names=linking.n_names)
    rows = [
        [say.text(f"measures_by_{by}"), measured(top_1), measured(top_5), decimal(rank, digits=1)]
        for by, top_1, top_5, rank in linking.lines()
    ]
    table = section.Table(("by", "top_1", "top_5", "median_rank"), rows)
    figure(say, "measures_linking", _linking_chart(say, linking), table=table, audit=report.digest)
    remark(say, "measures_linking_caption")


def _linking_chart(say: Words, linking: Linking) -> object:
    """The share of passages whose own name is among the first so many, beside chance."""
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
    ticks = {k: f"{k:,}" for k in (1, 5, 10, 100, 1000, 10_000, n) if k <= n}
    x_axis = Axis(say.text("measures_linking_x"), is_log=True, ticks=ticks)
    y_axis = Axis(say.text("measures_linking_y"), range=(-3, 102), suffix=" %")
    return plot(series, x=x_axis, y=y_axis)


# For the paper.


def draw_paper(say: Words, report: AuditReport) -> None:
    """Draw rules and scores against each kind of controls, roles, and the paper's two tables."""
    if not report.has_truth:
        empty(say, "measures_no_truth")
        return
    head(say, "measures_rules")
    header = ("controls", "rule", "tp", "fn", "fp", "tn", *_RATES, "fpr", "undecided")
    table = section.Table(header, list(_rules(say, report)), n_merged=1)
    draw_table(say, "measures_rules", table, audit=report.digest)
    head(say, "measures_scores")
    recalls = [say.text("measures_recall_at", fpr=f"{100 * fpr:g} %") for fpr in LOW_FPRS]
    header = ("controls", "measures_score", "auc", *recalls, "missing")
    table = section.Table(header, list(_scores(say, report)), n_merged=1)
    draw_table(say, "measures_scores", table, audit=report.digest)
    _draw_roles(say, report)
    _draw_published(say, report)


def _rules(say: Words, report: AuditReport) -> Iterator[list[str | int | Cell]]:
    for stratum, one in report.measures.table_strata.items():
        for name, judges, rule in one.yield_rules(report.fixed_score):
            if judges == "held_out":
                title = Cell(say.text(f"measures_score_{name}"), say.text("measures_held_out"))
            else:
                title = Cell(say.text(f"measures_rule_{name}"))
            rates, near = [*_rates(rule), rule.confusion.false_positive_rate], Cell(UNDEFINED)
            if rule.n_undecided is not None and rule.all_right and rule.all_wrong:
                low, high = rule.all_wrong.tp, rule.all_right.tp
                near = Cell(str(rule.n_undecided), say.text("measures_bounds", low=low, high=high))
            counts, controls = rule.confusion.four, say.text(f"kind_{stratum}")
            yield [controls, title, *counts, *map(measured, rates), near]


def _rates(rule: Rule) -> list[Share]:
    found = rule.confusion
    return [rule.f1, found.accuracy, found.recall, found.precision]


def _scores(say: Words, report: AuditReport) -> Iterator[list[str | int | Cell]]:
    for stratum, one in report.measures.table_strata.items():
        for score, ranking in one.rank_scores(report.fixed_score).items():
            note = "measures_fixed" if score == report.fixed_score else ""
            note = "measures_baseline" if score in one.baselines else note
            title = Cell(say.text(f"measures_score_{score}"), say.text(note) if note else "")
            tprs = (measured(ranking.tpr(fpr)) for fpr in LOW_FPRS)
            auc, controls = measured(ranking.auc, digits=3), say.text(f"kind_{stratum}")
            yield [controls, title, auc, *tprs, ranking.n_not_scored]


def _draw_roles(say: Words, report: AuditReport) -> None:
    """Draw members by role; nothing where the list has no roles."""
    lines = report.details.roles
    if not lines:
        return
    head(say, "measures_roles")
    auc, numbers = partial(measured, digits=3), {"n_members": str, "median_mentions": small}
    shares = dict.fromkeys(("flagged", "general_flagged", "role_controls_flagged"), counted)
    if not any(one.role_controls_flagged.n_total for one in lines):
        shares.pop("role_controls_flagged")
    shown = {"role": str, **numbers, "auc": auc, "general_auc": auc, **shares}
    columns = {field: [show(getattr(one, field)) for one in lines] for field, show in shown.items()}
    columns["role"] = [role or say.text("measures_roles_none") for role in columns["role"]]
    draw_table(say, "measures_roles", columns, audit=report.digest, n=lines[0].n_controls)


def _draw_published(say: Words, report: AuditReport) -> None:
    """Draw the paper's tables 1 and 2 with what the audits of this pair reach beside them."""
    other = section.place().other
    reports = [report, *([cached.report(other.digest)] if other else [])]
    head(say, "paper")
    if not paper_rows(1, reports):
        remark(say, "paper_no_controls")
        return
    if not other:
        remark(say, "paper_no_other")
    for number, what in ((1, "paper_attack"), (2, "paper_model")):
        if number == 2:
            head(say, "paper_2")
        rows = [_paper_row(say, row, table=number) for row in paper_rows(number, reports)]
        header = [("", "controls"), ("", what)] + [
            (group, rate) for group in ("paper_here", "paper_there") for rate in (*_RATES, "counts")
        ]
        table = section.Table(header, rows, n_merged=1)
        draw_table(say, f"paper_table_{number}", table, audit=report.digest)
    st.html(blocks.heading("", below=published_tables().source))


def _paper_row(say: Words, row: PaperRow, *, table: int) -> list[str | int | Cell]:
    here, there = row.reached, row.published
    label = say.text(f"paper_row_{row.model if table == 2 or not row.attack else row.attack}")
    found = [*map(measured, _rates(here))] if here else [UNDEFINED] * len(_RATES)
    found.append(_counts(here.confusion.four if here else None))
    published = [percent(getattr(there, rate)) if there else UNDEFINED for rate in _RATES]
    published.append(_counts(there.four if there else None) + "*" * bool(there and there.implied))
    quiet = (Cell(text, tone="ka-quiet") for text in published)
    return [say.text(f"kind_{row.controls}"), label, *found, *quiet]


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
"""Views by their code in `?tab=`, the usual one first."""
page_of_audit("measures", page)
