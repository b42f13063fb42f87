"""Measures: how well can an attacker tell members from controls?"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import streamlit as st

from audit.report.compare import DIGESTS, SETTINGS, Comparison
from audit.report.published import PaperRow, paper_rows, published_tables
from audit.report.report import (
    AuditReport,
    KeptAudit,
    Linking,
    RoleLine,
    Rule,
    Share,
    others_alike_first,
)
from audit.report.threshold import LOW_FPRS
from audit.tables import UNDEFINED, decimal, small
from pages.ui import blocks, cached, measure_checks, measure_threshold
from pages.ui.access import shown_name
from pages.ui.blocks import Cell, counted, day, measured, percent
from pages.ui.charts import Axis, Series, plot
from pages.ui.measured import controls_name, draw_names, mention_chart, one_of, score_name
from pages.ui.section import Table, details, draw_table, empty, figure, head, page_of_audit, remark
from pages.ui.state import Words, link, place

_RATES = ("f1", "accuracy", "recall", "precision")
_OLD = {
    "tables": ("paper", ""),
    "roc": ("threshold", ""),
    **{check: ("checks", check) for check in measure_checks.CHECKS},
}
"""View of before, as links name it -> the view that has taken its place, and which check."""


def page(say: Words, audit: KeptAudit) -> None:
    """Draw the page."""
    tab, check = _OLD.get(st.query_params.get("tab", ""), ("", ""))
    if tab:
        st.query_params["tab"] = tab
    if check:
        st.query_params["check"] = check
    names = {code: say.text(f"measures_tab_{code}") for code in _VIEWS}
    tab = one_of(say, "tab", names, label="measures_view")
    remark(say, f"measures_below_{tab}")
    _VIEWS[tab](say, cached.report(audit.digest))


def draw_mentions(say: Words, report: AuditReport) -> None:
    """Draw detection against the number of mentions."""
    if report.mentions:
        mention_chart(say, report)
        if not report.controls_flagged.n_total:
            remark(say, "measures_no_limit")
    else:
        empty(say, "measures_no_mentions" if report.has_truth else "measures_no_truth")


# Two audits, paired by name.


def draw_compare(say: Words, report: AuditReport) -> None:
    """Draw the choice of a second audit, and the comparison."""
    others = {one.digest[:12]: one for one in others_alike_first(report, kept=place().kept)}
    if not others:
        empty(say, "measures_no_other")
        return
    lines = {code: _line(say, one) for code, one in others.items()}
    code = one_of(say, "other", lines, label="measures_other", is_long=True)
    found = cached.comparison(report.digest, other=others[code].digest)
    if found.names.empty:
        empty(say, "measures_no_pairs", one=found.n_only_one, other=found.n_only_other)
    else:
        remark(
            say,
            "measures_paired",
            n=len(found.names),
            one=found.n_only_one,
            other=found.n_only_other,
            differs=found.n_truth_differs,
        )
        _draw_flags(say, found, audit=report.digest)
        _draw_aucs(say, found, audit=report.digest)
        _draw_pairs(say, found, audit=report.digest)
    _draw_settings(say, found, audit=report.digest)


def _line(say: Words, line: KeptAudit) -> str:
    key = "measures_other_line_demo" if line.is_demo else "measures_other_line"
    parts = {part: getattr(line, part) for part in ("scenario", "hospital", "general")}
    return say.text(key, at=day(line.at), **parts)


def _draw_flags(say: Words, found: Comparison, *, audit: str) -> None:
    head(say, "measures_flags")
    keys = ("both", "only_one", "only_other", "neither")
    rows = [
        [say.text(key), *(str(getattr(flags, one)) for one in keys), small(flags.p)]
        for key, flags in (("measures_tested", found.tested), ("measures_controls", found.controls))
        if flags.n_names
    ]
    if not rows:
        remark(say, "measures_no_flags")
        return
    header = ["column_kind", *(f"measures_flagged_{key}" for key in keys), "measures_mcnemar"]
    draw_table(say, "measures_flags", Table(header, rows), audit=audit)


def _draw_aucs(say: Words, found: Comparison, *, audit: str) -> None:
    head(say, "measures_aucs")
    if not found.aucs:
        remark(say, "measures_without_truth")
        return
    rows = [
        [controls_name(say, one.stratum), str(one.n_members), str(one.n_controls),
         decimal(one.one), decimal(one.other), measured(one.difference, digits=3)]
        for one in found.aucs
    ]  # fmt: skip
    keys = ("n_members", "n_controls", "auc_one", "auc_other", "auc_difference")
    header = ["paper_controls", *(f"measures_{key}" for key in keys)]
    draw_table(say, "measures_aucs", Table(header, rows), audit=audit)


def _draw_pairs(say: Words, found: Comparison, *, audit: str) -> None:
    head(say, "measures_pairs")
    only = st.toggle(say.text("measures_only_different"), value=True, key="measures_only_different")
    names = found.names[found.names["is_different"]] if only else found.names
    remark(say, "measures_n_pairs", n=len(names))
    if len(names):
        draw_names(say, "measures_pairs", _columns(say, names), audit=audit)


def _columns(say: Words, names: pd.DataFrame) -> dict[str, list[object]]:
    kinds = {kind: say.text(f"kind_{kind}") for kind in set(names["kind"]) - {"differs"}}
    kinds["differs"] = say.text("measures_kind_differs")
    said = {True: "measures_flag_yes", False: "measures_flag_no", None: "column_missing"}
    flag_words = {flag: say.text(key) for flag, key in said.items()}
    table: dict[str, list[object]] = {
        say.text("column_number"): names["number"].tolist(),
        say.text("column_name"): list(map(shown_name, names["first_name"], names["last_name"])),
        say.text("column_kind"): [kinds[kind] for kind in names["kind"]],
    }
    for behind, of in (("", "one"), ("_other", "other")):
        table[say.text(f"measures_score_of_{of}")] = names[f"score{behind}"].tolist()
        table[say.text(f"measures_q_of_{of}")] = names[f"q{behind}"].tolist()
        flags = names[f"is_flagged{behind}"]
        table[say.text(f"measures_flag_of_{of}")] = [flag_words[flag] for flag in flags]
    return table


def _draw_settings(say: Words, found: Comparison, *, audit: str) -> None:
    head(say, "measures_settings")
    label = say.text("measures_only_different_settings")
    only = st.toggle(label, value=True, key="measures_only_different_settings")
    shown = {k: pair for k, pair in found.settings.items() if not only or pair[0] != pair[1]}
    if not shown:
        remark(say, "measures_settings_same")
        return
    header = [f"measures_setting_{key}" for key in ("name", "one", "other")]
    rows: dict[bool, list[tuple[str, ...]]] = {False: [], True: []}
    for key, pair in shown.items():
        is_digest = key in DIGESTS
        name = say.text(f"measures_asked_{key}") if key in SETTINGS else key
        texts = (value[:12] if is_digest else value for value in pair)
        rows[is_digest].append((name, *(text or UNDEFINED for text in texts)))
    if rows[False]:
        draw_table(say, "measures_settings", Table(header, rows[False], 3), audit=audit)
    if rows[True]:
        with details(say, "measures_settings"):
            draw_table(say, "measures_digests", Table(header, rows[True], 3), audit=audit)


# Which name fits which passage.


def draw_linking(say: Words, report: AuditReport) -> None:
    """Draw how often a passage's own name fits it best."""
    linking = report.details.linking
    if linking is None:
        number, other = report.scenario.number, place().other
        empty(say, f"measures_no_linking_{number}")
        if number == 1 and other:
            link("measures", label=say.text("measures_open_2"), audit=other.digest, tab="linking")
        return
    remark(say, "measures_linking_n", passages=linking.n_passages, names=linking.n_names)
    rows = [
        [say.text(f"measures_by_{by}"), measured(top_1), measured(top_5), decimal(rank, digits=1)]
        for by, top_1, top_5, rank in linking.lines()
    ]
    keys = ("linked_by", "top_1", "top_5", "median_rank")
    table = Table([f"measures_{key}" for key in keys], rows)
    figure(say, "measures_linking", _linking_chart(say, linking), table=table, audit=report.digest)
    remark(say, "measures_linking_caption")


def _linking_chart(say: Words, linking: Linking) -> object:
    """The share of passages whose own name is among the first so many, beside chance."""
    n, general, (ranks, share) = linking.n_names, linking.general_alone, linking.reached()
    tried, hover = list(range(1, n + 1)), "%{x} → %{y:.1f} %"
    firsts = [100 * general.top_1, 100 * general.top_5]
    names = [say.text(f"measures_{key}") for key in
             ("chance", "linking_general", "by_hospital_against_general")]  # fmt: skip
    series = [
        Series(names[0], tried, [100 * k / n for k in tried], hover=hover),
        Series(names[1], [1, 5], firsts, "points", hover=hover),
        Series(names[2], [*ranks.tolist(), n], [*(100 * share).tolist(), 100], "step",
               is_attack=True, hover=hover),
    ]  # fmt: skip
    ticks = {k: f"{k:,}" for k in (1, 5, 10, 100, 1000, 10_000, n) if k <= n}
    x = Axis(say.text("measures_linking_x"), is_log=True, ticks=ticks)
    return plot(series, x=x, y=Axis(say.text("measures_linking_y"), range=(-3, 102), suffix=" %"))


# For the paper.


def draw_paper(say: Words, report: AuditReport) -> None:
    """Draw rules and scores against each kind of controls, roles, and the paper's two tables."""
    if not report.has_truth:
        empty(say, "measures_no_truth")
        return
    head(say, "measures_rules")
    counts, rates = ("tp", "fn", "fp", "tn"), (f"rate_{rate}" for rate in _RATES)
    names = [*(f"measures_{count}" for count in counts), *rates]
    header = ["paper_controls", "measures_rule", *names, "measures_rate_fpr", "measures_undecided"]
    table = Table(header, list(_rules(say, report)), 2, n_merged=1)
    draw_table(say, "measures_rules", table, audit=report.digest)
    head(say, "measures_scores")
    recalls = [say.text("measures_recall_at", fpr=f"{100 * fpr:g} %") for fpr in LOW_FPRS]
    header = ["paper_controls", "measures_score", "measures_auc", *recalls, "measures_not_scored"]
    table = Table(header, list(_scores(say, report)), 2, n_merged=1)
    draw_table(say, "measures_scores", table, audit=report.digest)
    _draw_roles(say, report)
    _draw_published(say, report)


def _rules(say: Words, report: AuditReport) -> Iterator[list[str | Cell]]:
    for stratum, one in report.measures.shown.items():
        for name, judges, rule in one.judged(report.fixed_score):
            if judges == "held_out":
                title = Cell(score_name(say, name), say.text("measures_held_out"))
            else:
                title = Cell(say.text(f"measures_rule_{name}"))
            rates, near = [*_rates(rule), rule.confusion.false_positive_rate], Cell(UNDEFINED)
            if rule.n_undecided is not None and rule.all_right and rule.all_wrong:
                low, high = rule.all_wrong.tp, rule.all_right.tp
                near = Cell(str(rule.n_undecided), say.text("measures_bounds", low=low, high=high))
            counts = map(str, rule.confusion.four)
            yield [controls_name(say, stratum), title, *counts, *map(measured, rates), near]


def _rates(rule: Rule) -> list[Share]:
    found = rule.confusion
    return [rule.f1, found.accuracy, found.recall, found.precision]


def _scores(say: Words, report: AuditReport) -> Iterator[list[str | Cell]]:
    for stratum, one in report.measures.shown.items():
        for score, ranking in one.ranked(report.fixed_score).items():
            note = "measures_fixed" if score == report.fixed_score else ""
            note = "measures_baseline" if score in one.baselines else note
            title = Cell(score_name(say, score), say.text(note) if note else "")
            tprs = (measured(ranking.tpr(fpr)) for fpr in LOW_FPRS)
            auc, n = measured(ranking.auc, digits=3), str(ranking.n_not_scored)
            yield [controls_name(say, stratum), title, auc, *tprs, n]


def _draw_roles(say: Words, report: AuditReport) -> None:
    """Draw members by role; nothing where the list has no roles."""
    lines = report.details.roles
    if not lines:
        return
    head(say, "measures_roles")
    keys = ["role", "members", "mentions", "auc", "general_auc", "flagged", "general_flagged"]
    if any(line.role_controls_flagged.n_total for line in lines):
        keys.append("own_controls")
    rows = [_role(say, line)[: len(keys)] for line in lines]
    table = Table([f"measures_roles_{key}" for key in keys], rows)
    draw_table(say, "measures_roles", table, audit=report.digest, n=lines[0].n_controls)


def _role(say: Words, line: RoleLine) -> list[str | Cell]:
    aucs, rates = (line.auc, line.general_auc), (line.flagged, line.general_flagged)
    return [
        line.role or say.text("measures_roles_none"),
        str(line.n_members),
        small(line.median_mentions),
        *(measured(auc, digits=3) for auc in aucs),
        *map(counted, (*rates, line.role_controls_flagged)),
    ]


def _draw_published(say: Words, report: AuditReport) -> None:
    """Draw the paper's tables 1 and 2 with what the audits of this pair reach beside them."""
    other = place().other
    reports = [report, *([cached.report(other.digest)] if other else [])]
    head(say, "paper")
    if not paper_rows(1, reports):
        remark(say, "paper_no_controls")
        return
    if not other:
        remark(say, "paper_no_other")
    rates = [*(f"rate_{rate}" for rate in _RATES), "TP / FN / FP / TN"]
    groups = (("", 2), (say.text("paper_here"), 5), (say.text("paper_there"), 5))
    for number, what in ((1, "paper_attack"), (2, "paper_model")):
        if number == 2:
            head(say, "paper_2")
        rows = [_paper_row(say, row, table=number) for row in paper_rows(number, reports)]
        header = ["paper_controls", what, *rates, *rates]
        table = Table(header, rows, 2, n_merged=1, groups=groups)
        draw_table(say, f"paper_table_{number}", table, audit=report.digest)
    st.html(blocks.heading("", below=published_tables().source))


def _paper_row(say: Words, row: PaperRow, *, table: int) -> list[str | Cell]:
    here, there = row.here, row.there
    label = say.text(f"paper_row_{row.model if table == 2 or not row.attack else row.attack}")
    found = [*map(measured, _rates(here))] if here else [UNDEFINED] * len(_RATES)
    found.append(_counts(here.confusion.four if here else None))
    published = [percent(getattr(there, rate)) if there else UNDEFINED for rate in _RATES]
    published.append(_counts(there.four if there else None) + "*" * bool(there and there.implied))
    quiet = (Cell(text, tone="ka-quiet") for text in published)
    return [controls_name(say, row.controls), label, *found, *quiet]


def _counts(counts: tuple[int, int, int, int] | None) -> str:
    return UNDEFINED if counts is None else " / ".join(map(str, counts))


_VIEWS = {
    "threshold": measure_threshold.draw, "mentions": draw_mentions, "compare": draw_compare,
    "linking": draw_linking, "paper": draw_paper, "checks": measure_checks.draw,
}  # fmt: skip
"""Views by their code in `?tab=`, the usual one first."""
page_of_audit("measures", page)
