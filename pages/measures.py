"""Measures: how well can an attacker tell members from controls?"""

from __future__ import annotations

import math

import streamlit as st

from audit.report.published import published_tables
from audit.report.report import CURVE_MEASURES, AuditReport, KeptAudit
from audit.report.threshold import calibration, score_codes, strata_of
from pages.ui import (
    blocks,
    cached,
    charts,
    measure_charts,
    measure_compare,
    measure_exposure,
    measure_references,
    measure_roles,
    measure_tables,
    measure_threshold,
    paper_table,
)
from pages.ui.language import Words, words
from pages.ui.measure_choice import choose
from pages.ui.mention_chart import mention_chart
from pages.ui.place import audit_or_reason, place
from pages.ui.text import decimal, percent, percent_interval

TABS = (
    "tables", "threshold", "roc", "mentions", "canaries", "curve", "linking", "calibration",
    "references", "compare",
)  # fmt: skip
"""Codes of the views, as they stand in `?tab=`."""
_OWN_FILES = {
    "canaries": measure_exposure, "references": measure_references, "compare": measure_compare,
}  # fmt: skip


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("measures_title"), anchor=False)
    try:
        audit = audit_or_reason(say)
        if audit is None:
            return
        report = cached.report(audit.digest)
        tab = choose(
            "tab",
            TABS,
            label=say.text("measures_view"),
            shown=lambda code: say.text(f"measures_tab_{code}"),
        )
        st.html(blocks.heading("", below=say.text(f"measures_below_{tab}")))
        draw_tab(say, audit, report=report, tab=tab)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def draw_tab(say: Words, audit: KeptAudit, *, report: AuditReport, tab: str) -> None:
    """Draw one view."""
    if tab in _OWN_FILES:
        _OWN_FILES[tab].draw(say, audit)
    elif tab == "threshold":
        draw_threshold(say, audit, report=report)
    elif tab == "linking":
        draw_linking(say, report)
    elif tab == "calibration":
        draw_calibration(say, report)
    elif not report.has_truth:
        why = say.text("measures_no_truth_do")
        st.html(blocks.heading(say.text("measures_no_truth"), below=why))
    elif tab == "tables":
        draw_tables(say, audit, report=report)
    elif tab == "roc":
        draw_roc(say, audit, report=report)
    elif tab == "mentions":
        draw_mentions(say, audit)
    else:
        draw_curve(say, report)


def draw_tables(say: Words, audit: KeptAudit, *, report: AuditReport) -> None:
    """Draw rules and scores against each kind of controls, and the paper's tables 1 and 2."""
    st.html(blocks.heading(say.text("measures_rules"), below=say.text("measures_rules_below")))
    st.html(measure_tables.rule_table(say, report))
    st.html(blocks.heading(say.text("measures_scores"), below=say.text("measures_scores_below")))
    st.html(measure_tables.score_table(say, report))
    measure_roles.draw(say, audit)
    other = place().other
    found = paper_table.measured([cached.report(one.digest) for one in (audit, other) if one])
    if not any((controls, attack, "hospital") in found for controls, attack, _ in found):
        return
    published = published_tables()
    st.html(blocks.heading(say.text("paper"), below=say.text("paper_below")))
    st.html(paper_table.table_one(found, published=published, words=say))
    st.html(blocks.heading(say.text("paper_2"), below=say.text("paper_2_below")))
    st.html(paper_table.table_two(found, published=published, words=say))
    st.html(blocks.heading("", below=published.source))


def choose_stratum(say: Words, report: AuditReport) -> str:
    """Draw the choice of a kind of controls."""
    return choose(
        "stratum",
        strata_of(report),
        label=say.text("paper_controls"),
        shown=lambda code: say.text("measures_controls" if code == "all" else f"kind_{code}"),
    )


def choose_score(say: Words, report: AuditReport) -> str:
    """Draw the choice of a score, the fixed one first."""
    return choose(
        "score",
        score_codes(report),
        label=say.text("measures_score"),
        shown=lambda code: measure_tables.score_name(say, code),
        is_long=True,
    )


def draw_threshold(say: Words, audit: KeptAudit, *, report: AuditReport) -> None:
    """Draw the threshold's panel, with the score and the controls it is for."""
    left, right = st.columns(2, gap="large")
    with left:
        score = choose_score(say, report)
    with right:
        stratum = choose_stratum(say, report) if report.has_truth else "all"
    measure_threshold.panel(say, audit.digest, score=score, stratum=stratum)


def draw_roc(say: Words, audit: KeptAudit, *, report: AuditReport) -> None:
    """Draw the ROC of one score beside M_general alone and popularity, and read it out."""
    left, right = st.columns(2, gap="large")
    with left:
        score = choose_score(say, report)
    with right:
        stratum = choose_stratum(say, report)
    axes = choose(
        "axes",
        ("log", "linear"),
        label=say.text("measures_axes"),
        shown=lambda code: say.text(f"measures_axes_{code}"),
    )
    codes = list(dict.fromkeys((score, "general_alone", "popularity")))
    curves = [cached.roc(audit.digest, score=code, stratum=stratum) for code in codes]
    figure = measure_charts.roc_chart(
        curves,
        labels=[measure_tables.score_name(say, code) for code in codes],
        words={key: say.sentences[f"measures_roc_{key}"] for key in ("x", "y", "chance", "at")},
        is_log=axes == "log",
    )
    alt = say.text("measures_roc_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="measures_roc")
    with st.expander(say.text("as_table")):
        for curve in curves:
            st.html(measure_tables.roc_table(say, curve))
    measured = report.measures.strata[stratum]
    rankings = measured.ranked(report.fixed_score)
    tprs = {fpr: [rankings[code].tpr(fpr) for code in codes] for fpr in measure_tables.LOW_FPRS}
    cards = [
        blocks.Figures(
            label=say.text(key),
            value=percent(own.value),
            interval=percent_interval(own),
            others=tuple(
                (measure_tables.score_name(say, code), percent(tpr.value))
                for code, tpr in zip(codes[1:], others, strict=True)
            ),
        )
        for key, (own, *others) in zip(
            ("measures_tpr_1", "measures_tpr_01"), tprs.values(), strict=True
        )
    ]
    st.html(blocks.figure_cards(cards))
    if any(math.isnan(tpr.value) for found in tprs.values() for tpr in found):
        below = say.text("measures_unresolved", n=measured.n_controls)
        st.html(blocks.heading("", below=below))


def draw_mentions(say: Words, audit: KeptAudit) -> None:
    """Draw detection against the number of mentions."""
    report = cached.report(audit.digest)
    if not report.mentions:
        why = say.text("measures_no_mentions_do")
        st.html(blocks.heading(say.text("measures_no_mentions"), below=why))
        return
    mention_chart(say, report, key="measures_mentions")


def draw_curve(say: Words, report: AuditReport) -> None:
    """Draw a measure against the number of inputs or documents."""
    stratum = choose_stratum(say, report)
    names = {code: say.text("measures_auc" if code == "auc" else f"rate_{code}")
             for code in CURVE_MEASURES}  # fmt: skip
    measure = choose(
        "measure", CURVE_MEASURES, label=say.text("measures_curve_y"), shown=names.__getitem__
    )
    curve = {point.n: point.strata[stratum].values(measure) for point in report.curve}
    if not any(curve.values()):
        why = say.text("measures_no_curve_do")
        st.html(blocks.heading(say.text("measures_no_curve"), below=why))
        return
    if measure == "auc":
        codes = (report.fixed_score, "general_alone", "popularity")
        labels = {code: measure_tables.score_name(say, code) for code in codes}
        alt = say.text("measures_curve_alt")
    else:
        labels = {code: say.text(f"measures_rule_{code}") for code in curve[max(curve)]}
        alt = say.text("measures_curve_alt_rules", measure=names[measure])
    x = say.text("measures_curve_x_1" if report.scenario.number == 1 else "measures_curve_x_2")
    figure = measure_charts.curve_chart(
        curve, labels=labels, words={"x": x, "y": names[measure]}, has_chance=measure == "auc"
    )
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="measures_curve")
    with st.expander(say.text("as_table")):
        st.html(measure_tables.curve_table(curve, labels=labels, x=x, caption=alt))


def draw_linking(say: Words, report: AuditReport) -> None:
    """Draw which name fits which passage."""
    linking = report.details.linking
    if linking is None:
        why = say.text(
            "measures_no_linking_1" if report.scenario.number == 1 else "measures_no_linking_2"
        )
        st.html(blocks.heading(say.text("measures_no_linking"), below=why))
        return
    n_passages, n_names = linking.n_passages, linking.n_names
    sentence = say.text("measures_linking_n", passages=n_passages, names=n_names)
    st.html(blocks.heading("", below=sentence))
    keys = ("x", "y", "attack", "general", "chance")
    texts = {key: say.sentences[f"measures_linking_{key}"] for key in keys}
    figure = measure_charts.linking_chart(linking, words=texts)
    alt = say.text("measures_linking_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="measures_linking")
    st.html(measure_tables.linking_table(say, linking))


def draw_calibration(say: Words, report: AuditReport) -> None:
    """Draw the p-values of the listed controls."""
    st.html(blocks.heading(say.text("measures_qq"), below=say.text("measures_qq_below")))
    found = calibration(report)
    if found is None:
        st.html(blocks.heading("", below=say.text("measures_no_controls_do")))
        return
    texts = {key: say.sentences[f"measures_qq_{key}"] for key in ("x", "y", "band", "controls")}
    figure = measure_charts.calibration_chart(found, words=texts)
    alt = say.text("measures_qq_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="measures_qq")
    st.html(
        blocks.heading("", below=say.text("measures_qq_low", k=found.n_low, n=found.n_controls))
    )
    with st.expander(say.text("as_table")):
        pairs = zip(found.expected.tolist(), found.p.tolist(), strict=True)
        rows = [(decimal(expected), measure_tables.p_value(p)) for expected, p in pairs]
        header = [texts["x"], texts["y"]]
        st.html(blocks.simple_table(header, rows, caption=alt, n_text=0))


page()
