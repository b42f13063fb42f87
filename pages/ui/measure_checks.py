"""Checks of the Measures page: calibration, length of the attack, references, canaries."""

from __future__ import annotations

import math

import streamlit as st

from audit.attack.measure_types import (
    CURVE_MEASURES,
    GENERAL_ALONE,
    POPULARITY,
    Exposure,
    ExposureGroup,
)
from audit.names.candidates import OF_HOSPITAL
from audit.report.compare import Comparison
from audit.report.report import AuditReport
from audit.report.threshold import make_calibration
from audit.tables import UNDEFINED, decimal, small
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.access import format_name
from pages.ui.blocks import Cell, estimate_cell, format_moment, share_cell
from pages.ui.charts import Axis, Series, plot, point_series, spread_dots
from pages.ui.display_names import state_name
from pages.ui.form import choose
from pages.ui.place import find_place
from pages.ui.section import (
    Columns,
    Table,
    draw_figure,
    draw_frame,
    draw_heading,
    draw_remark,
    draw_table,
)


def draw(say: Words, report: AuditReport) -> None:
    """Draw each check that this audit has data for, the linked one first; list the missing ones."""
    linked_check = st.query_params.get("check", "")
    reasons = {
        check: CHECKS[check](say, report)
        for check in sorted(CHECKS, key=lambda code: code != linked_check)
    }
    if any(reasons.values()):
        draw_heading(say, "measures_missing")
    for check, why in reasons.items():
        if why:
            text = say.text(f"measures_without_{why}")
            st.html(blocks.line(say.text(f"measures_{check}"), text))


def _calibration(say: Words, report: AuditReport) -> str:
    """Draw the p-values of the listed controls; return the code of the reason if there are none."""
    if report.verdict.control_source in OF_HOSPITAL:
        return "others"
    view = make_calibration(report)
    if view is None:
        return "p" if report.controls_flagged.n_total else "controls"
    draw_heading(say, "measures_calibration")
    expected, p = view.expected.tolist(), view.p.tolist()
    corners, low, high = view.band()
    band, dots, *titles = (
        say.text(f"measures_calibration_{key}") for key in ("band", "controls", "x", "y")
    )
    series = [
        Series(band, corners, corners, low=low, high=high, hover=""),
        Series(dots, expected, p, "dots", hover="%{x:.3f} → %{y:.4f}"),
    ]
    x, y = (Axis(title, range=(-0.01, 1.01)) for title in titles)
    table = {"x": list(map(decimal, expected)), "y": list(map(small, p))}
    chart = plot(series, x=x, y=y)
    draw_figure(say, "measures_calibration", chart, table=table, audit=report.digest)
    draw_remark(say, "measures_calibration_low", k=view.n_low, n=view.n_controls)
    return ""


def _curve(say: Words, report: AuditReport) -> str:
    """Draw a measure against the number of inputs or documents; return a reason if it has none."""
    if not report.has_truth or not report.curve:
        return "curve" if report.has_truth else "truth"
    draw_heading(say, "measures_curve")
    left, right = st.columns(2, gap="large")
    with left:
        stratum = choose(say, "kind", tuple(report.measures.strata), parameter="stratum")
    names = {code: say.text(f"column_{code}") for code in CURVE_MEASURES}
    with right:
        measure = choose(say, "measures_curve_y", names, parameter="measure")
    curve = {point.n: point.strata[stratum].values(measure) for point in report.curve}
    if not any(curve.values()):
        draw_remark(say, "measures_curve_none")
        return ""
    is_auc, ns = measure == "auc", list(curve)
    codes = (report.fixed_score, GENERAL_ALONE, POPULARITY) if is_auc else curve[max(ns)]
    lines = {
        say.text(f"measures_{'score' if is_auc else 'rule'}_{code}"): [
            rates.get(code, math.nan) for rates in curve.values()
        ]
        for code in codes
    }
    series = [
        Series(label, ns, y, "marked", is_attack=not place, hover="%{x:,} → %{y:.3f}")
        for place, (label, y) in enumerate(lines.items())
    ]
    if is_auc:
        chance = say.text("measures_chance")
        series.append(Series(chance, ns, [0.5] * len(ns), dash="longdash", hover=""))
    title = say.text(f"measures_curve_x_{report.attack}")
    x = Axis(title, is_log=True, ticks={float(n): f"{n:,}" for n in ns})
    chart = plot(series[::-1], x=x, y=Axis(names[measure], range=(0, 1.03)))
    table: Columns = {title: ns, **{label: list(map(decimal, y)) for label, y in lines.items()}}
    key = "measures_curve" if is_auc else "measures_curve_rules"
    draw_figure(say, key, chart, table=table, audit=report.digest, measure=names[measure])
    return ""


def _references(say: Words, report: AuditReport) -> str:
    """Draw an audit beside those with another reference; return a reason if there are none."""
    comparisons, n_left_out = cached.references(report, audits=find_place().audits)
    if not comparisons:
        return "references"
    draw_heading(say, "measures_references")
    rows = _reference_rows(say, report, which=say.text("measures_references_own"))
    for comparison in comparisons:
        rows += _reference_rows(say, comparison.other, which=format_moment(comparison.other.at))
    header = ("name", "flagged", "controls", "n", "auc", "alone", "recall", "fpr")
    draw_table(say, "measures_references", Table(header, rows, n_merged=2), audit=report.digest)
    if n_left_out:
        draw_remark(say, "measures_references_more", n=n_left_out)
    draw_heading(say, "measures_references_differences")
    rows = [row for comparison in comparisons for row in _difference_rows(say, comparison)]
    table = Table(("other", "what", "auc_difference", "mcnemar"), rows, n_merged=1)
    draw_table(say, "measures_references_differences", table, audit=report.digest)
    return ""


def _reference_rows(
    say: Words, audit_report: AuditReport, *, which: str
) -> list[list[str | int | Cell]]:
    """Return the results with one reference, a row for each kind of controls."""
    state, flagged = (
        state_name(say, audit_report.verdict.state, rule=audit_report.verdict.rule),
        audit_report.verdict.flagged,
    )
    model_cell = Cell(audit_report.models["general"].name, f"{which} · {state}")
    flagged_cell = Cell(UNDEFINED)
    if flagged.n_total:
        flagged_cell = Cell(
            f"{flagged.n_hits} / {flagged.n_total}", estimate_cell(flagged.interval()).below
        )
    rows: list[list[str | int | Cell]] = []
    for name, stratum in audit_report.measures.table_strata.items():
        held_out = stratum.held_out[audit_report.fixed_score].confusion
        aucs = (stratum.scores[audit_report.fixed_score].auc, stratum.baselines[GENERAL_ALONE].auc)
        rows.append(
            [
                model_cell,
                flagged_cell,
                say.text(f"kind_{name}"),
                f"{stratum.n_members} / {stratum.n_controls}",
                *(estimate_cell(auc, digits=3) for auc in aucs),
                *map(estimate_cell, (held_out.recall, held_out.false_positive_rate)),
            ]
        )
    return rows or [[model_cell, flagged_cell, *[UNDEFINED] * 6]]


def _difference_rows(say: Words, comparison: Comparison) -> list[list[str | int | Cell]]:
    which = f"{comparison.other.models['general'].name} · {format_moment(comparison.other.at)}"
    rows: list[list[str | int | Cell]] = []
    for auc in comparison.aucs:
        auc_label = say.text("measures_references_auc_of", controls=say.text(f"kind_{auc.stratum}"))
        rows.append([which, auc_label, estimate_cell(auc.difference, digits=3), UNDEFINED])
    share = f"{comparison.tested.only_one} / {comparison.tested.only_other}"
    return [
        *rows,
        [which, say.text("measures_references_share"), share, small(comparison.tested.p)],
    ]


def _canaries(say: Words, report: AuditReport) -> str:
    """Draw the exposure of an audit's planted names; return a reason if it has none."""
    view = report.details.canaries
    if view is None:
        return "canaries"
    draw_heading(say, "measures_canaries")
    st.html(blocks.heading("", below=view.sentence(say.language)))
    if not view.is_paired:
        counts = {"planted": view.n_planted, "held_out": view.n_held_out}
        draw_remark(say, "measures_canaries_unpaired", **counts)
    if not view.scores:
        return ""
    fixed = next(iter(view.by_score.values()))
    columns = [
        f"measures_canaries_{column}"
        for column in ("n", "bits", "share", "twins", "twins_p", "general_bits", "by_general")
    ]
    rows = [
        [
            say.text("measures_canaries_all") if group.n_mentions is None else group.n_mentions,
            *_group_cells(group),
            *(_group_cells(general)[1:3] if general else [UNDEFINED] * 2),
        ]
        for group, general in view.by_mentions
    ]
    table, chart = Table(("mentions", *columns), rows), _exposure_chart(say, view)
    draw_figure(say, "measures_canaries", chart, table=table, audit=report.digest)
    limits = {"bits": decimal(fixed.max_bits, digits=2), "p": small(fixed.smallest_p)}
    chance = decimal(fixed.bits_without_leak, digits=2)
    draw_remark(say, "measures_canaries_limit", n=fixed.n_held_out, chance=chance, **limits)
    draw_heading(say, "measures_canaries_scores")
    notes = {
        view.fixed_score: say.text("measures_fixed"),
        GENERAL_ALONE: say.text("measures_baseline"),
    }
    rows = [
        [
            Cell(say.text(f"measures_score_{score}"), notes.get(score, "")),
            *_group_cells(exposure.whole),
        ]
        for score, exposure in view.by_score.items()
    ]
    table = Table(("measures_score", *columns[:5]), rows)
    draw_table(say, "measures_canaries_scores", table, audit=report.digest)
    with st.expander(say.text("measures_canaries_names")):
        _planted_names(say, report, view)
    return ""


def _exposure_chart(say: Words, view: Exposure) -> object:
    """Return a chart with a dot for each planted name, means with intervals, and three limits."""
    fixed, general = next(iter(view.by_score.values())), view.scores.get(GENERAL_ALONE)
    name = {
        key: say.text(f"measures_canaries_{key}")
        for key in ("most", "found", "chance", "one", "general", "attack", "x", "bits")
    }
    n, hover, ends = len(fixed.groups), "%{y:.2f}", (-0.6, len(fixed.groups) - 0.4)
    limits = {
        "most": (fixed.max_bits, "solid"),
        "found": (view.bits_to_be_found, "dash"),
        "chance": (fixed.bits_without_leak, "dot"),
    }
    series = [
        Series(name[key], ends, [bits] * 2, dash=dash, hover="")
        for key, (bits, dash) in limits.items()
        if bits <= fixed.max_bits  # few held-out names may never reach this limit
    ]
    x, y = [], []
    for place, group in enumerate(fixed.groups):
        bits = [canary.bits for canary in view.names if canary.n_mentions == group.n_mentions]
        x += [place + shift for shift in spread_dots(len(bits), width=0.56)]
        y += bits
    series.append(Series(name["one"], x, y, "dots", is_attack=True, hover=hover))
    means = [("general", general, -0.12, "diamond"), ("attack", fixed, 0.12, "circle")]
    for key, exposure, shift, symbol in means:
        if exposure is None:
            continue
        places = [place + shift for place in range(n)]
        mean_bits = [group.bits for group in exposure.groups]
        is_attack = exposure is fixed
        series.append(
            point_series(
                name[key], places, mean_bits, is_attack=is_attack, symbol=symbol, hover=hover
            )
        )
    ticks = {float(place): str(group.n_mentions) for place, group in enumerate(fixed.groups)}
    x_axis = Axis(name["x"], range=ends, ticks=ticks, has_grid=False)
    y_axis = Axis(name["bits"], range=(-0.4, fixed.max_bits * 1.12 + 0.2))
    return plot(series, x=x_axis, y=y_axis)


def _group_cells(group: ExposureGroup) -> list[str | int | Cell]:
    twins = group.above_twin
    above = f"{twins.n_hits} / {twins.n_total}" if twins.n_total else UNDEFINED
    bits, above_twin = estimate_cell(group.bits, digits=2), Cell(above, estimate_cell(twins).below)
    return [group.n_names, bits, share_cell(group.found), above_twin, small(group.above_twin_p)]


def _planted_names(say: Words, report: AuditReport, view: Exposure) -> None:
    names = report.table.loc[[canary.name_id for canary in view.names]]
    fields = ("n_mentions", "score", "bits", "p", "twin_score")
    columns = {
        "number": names["number"].tolist(),
        "name": list(map(format_name, names["first_name"], names["last_name"])),
        **{field: [getattr(canary, field) for canary in view.names] for field in fields},
    }
    draw_frame(say, "measures_canaries_names", columns, audit=report.digest)


CHECKS = {
    "calibration": _calibration,
    "curve": _curve,
    "references": _references,
    "canaries": _canaries,
}
