"""Measures: how well can an attacker tell members from controls?"""

from __future__ import annotations

import math

import streamlit as st

from audit.report.reading import MeasuresView, published_tables
from audit.report.report import KeptAudit
from audit.report.threshold import score_codes
from audit.words import error_text
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
from pages.ui.language import Words
from pages.ui.measure_choice import choose
from pages.ui.mention_chart import mention_chart
from pages.ui.place import audit_or_reason, place, words
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
        view = cached.measures(audit.digest)
        tab = choose(
            "tab",
            TABS,
            label=say.text("measures_view"),
            shown=lambda code: say.text(f"measures_tab_{code}"),
        )
        st.html(blocks.heading("", below=say.text(f"measures_below_{tab}")))
        draw_tab(say, audit, view=view, tab=tab)
    except (cached.AuditError, cached.StoreError) as error:
        st.html(blocks.heading(say.text("no_data"), below=error_text(error, language=say.language)))


def draw_tab(say: Words, audit: KeptAudit, *, view: MeasuresView, tab: str) -> None:
    """Draw one view."""
    if tab in _OWN_FILES:
        _OWN_FILES[tab].draw(say, audit)
    elif tab == "threshold":
        draw_threshold(say, audit, view=view)
    elif tab == "linking":
        draw_linking(say, view)
    elif tab == "calibration":
        draw_calibration(say, view)
    elif not view.has_truth:
        why = say.text("measures_no_truth_do")
        st.html(blocks.heading(say.text("measures_no_truth"), below=why))
    elif tab == "tables":
        draw_tables(say, audit, view=view)
    elif tab == "roc":
        draw_roc(say, audit, view=view)
    elif tab == "mentions":
        draw_mentions(say, audit)
    else:
        draw_curve(say, view)


def draw_tables(say: Words, audit: KeptAudit, *, view: MeasuresView) -> None:
    """Draw rules and scores against each kind of controls, and the paper's tables 1 and 2."""
    st.html(blocks.heading(say.text("measures_rules"), below=say.text("measures_rules_below")))
    st.html(measure_tables.rule_table(say, view))
    st.html(blocks.heading(say.text("measures_scores"), below=say.text("measures_scores_below")))
    st.html(measure_tables.score_table(say, view))
    measure_roles.draw(say, audit)
    other = place().other
    overviews = [cached.overview(one.digest) for one in (audit, other) if one]
    found = paper_table.measured(overviews)
    if not any((controls, attack, "hospital") in found for controls, attack, _ in found):
        return
    published = published_tables()
    st.html(blocks.heading(say.text("paper"), below=say.text("paper_below")))
    st.html(paper_table.table_one(found, published=published, words=say))
    st.html(blocks.heading(say.text("paper_2"), below=say.text("paper_2_below")))
    st.html(paper_table.table_two(found, published=published, words=say))
    st.html(blocks.heading("", below=published.source))


def choose_stratum(say: Words, view: MeasuresView) -> str:
    """Draw the choice of a kind of controls."""
    return choose(
        "stratum",
        view.strata,
        label=say.text("paper_controls"),
        shown=lambda code: say.text("measures_controls" if code == "all" else f"kind_{code}"),
    )


def choose_score(say: Words, audit: KeptAudit) -> str:
    """Draw the choice of a score, the fixed one first."""
    return choose(
        "score",
        score_codes(cached.report(audit.digest)),
        label=say.text("measures_score"),
        shown=lambda code: measure_tables.score_name(say, code),
        is_long=True,
    )


def draw_threshold(say: Words, audit: KeptAudit, *, view: MeasuresView) -> None:
    """Draw the threshold's panel, with the score and the controls it is for."""
    left, right = st.columns(2, gap="large")
    with left:
        score = choose_score(say, audit)
    with right:
        stratum = choose_stratum(say, view) if view.has_truth else "all"
    measure_threshold.panel(say, audit.digest, score=score, stratum=stratum)


def draw_roc(say: Words, audit: KeptAudit, *, view: MeasuresView) -> None:
    """Draw the ROC of one score beside M_general alone and popularity, and read it out."""
    left, right = st.columns(2, gap="large")
    with left:
        score = choose_score(say, audit)
    with right:
        stratum = choose_stratum(say, view)
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
    lines = [line for code in codes for line in view.scores if line.score == code]
    shown = [line for line in lines if line.stratum == stratum]
    cards = [
        blocks.Figures(
            label=say.text(key),
            value=percent(shown[0].tprs[place].value),
            interval=percent_interval(shown[0].tprs[place]),
            others=tuple(
                (measure_tables.score_name(say, line.score), percent(line.tprs[place].value))
                for line in shown[1:]
            ),
        )
        for place, key in enumerate(("measures_tpr_1", "measures_tpr_01"))
    ]
    st.html(blocks.figure_cards(cards))
    if any(math.isnan(tpr.value) for line in shown for tpr in line.tprs):
        n = shown[0].n_controls
        st.html(blocks.heading("", below=say.text("measures_unresolved", n=n)))


def draw_mentions(say: Words, audit: KeptAudit) -> None:
    """Draw detection against the number of mentions."""
    view = cached.overview(audit.digest)
    if not view.mentions:
        why = say.text("measures_no_mentions_do")
        st.html(blocks.heading(say.text("measures_no_mentions"), below=why))
        return
    mention_chart(say, view, key="measures_mentions")


def draw_curve(say: Words, view: MeasuresView) -> None:
    """Draw the AUC against the number of inputs or documents."""
    stratum = choose_stratum(say, view)
    lines = view.curve.get(stratum, ())
    if not lines:
        why = say.text("measures_no_curve_do")
        st.html(blocks.heading(say.text("measures_no_curve"), below=why))
        return
    x = say.text("measures_curve_x_1" if view.scenario == 1 else "measures_curve_x_2")
    figure = measure_charts.curve_chart(
        lines,
        labels=[measure_tables.score_name(say, line.score) for line in lines],
        words={"x": x, "y": say.text("measures_auc")},
    )
    alt = say.text("measures_curve_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="measures_curve")
    with st.expander(say.text("as_table")):
        st.html(measure_tables.curve_table(say, lines, x=x))


def draw_linking(say: Words, view: MeasuresView) -> None:
    """Draw which name fits which passage."""
    linking = view.linking
    if linking is None:
        why = say.text("measures_no_linking_1" if view.scenario == 1 else "measures_no_linking_2")
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


def draw_calibration(say: Words, view: MeasuresView) -> None:
    """Draw the p-values of the listed controls, and say what the test of the whole group found."""
    cohort = view.cohort
    st.html(blocks.heading(say.text(f"measures_cohort_{cohort.group}")))
    sentence = say.text(
        "measures_cohort",
        effect=percent(cohort.effect),
        members=cohort.n_members,
        controls=cohort.n_controls,
        p=measure_tables.p_value(cohort.p),
        left_out=cohort.n_left_out,
    )
    st.html(blocks.heading("", below=sentence))
    st.html(blocks.heading(say.text("measures_qq"), below=say.text("measures_qq_below")))
    found = view.calibration
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
