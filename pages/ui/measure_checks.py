"""Checks of the Measures page: calibration, length of the attack, references, canaries."""

from __future__ import annotations

import math

import streamlit as st

from audit.attack.scores import GENERAL_ALONE, POPULARITY
from audit.names.candidates import OF_HOSPITAL
from audit.report.compare import Comparison
from audit.report.report import CURVE_MEASURES, AuditReport, Exposure, ExposureGroup
from audit.report.threshold import make_calibration
from audit.tables import UNDEFINED, decimal, small
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.access import shown_name
from pages.ui.blocks import Cell, counted, day, measured
from pages.ui.charts import Axis, Series, plot, points, spread
from pages.ui.display_names import state_name
from pages.ui.form import choose
from pages.ui.section import Table, draw_table, figure, frame, head, place, remark


def draw(say: Words, report: AuditReport) -> None:
    """Draw each check that this audit has something for, the one asked for first, and the rest."""
    asked = st.query_params.get("check", "")
    found = {
        check: CHECKS[check](say, report) for check in sorted(CHECKS, key=lambda one: one != asked)
    }
    if any(found.values()):
        head(say, "measures_missing")
    for check, why in found.items():
        if why:
            text = say.text(f"measures_without_{why}")
            st.html(blocks.line(say.text(f"measures_{check}"), text))


def _calibration(say: Words, report: AuditReport) -> str:
    """Draw the p-values of the listed controls; return why there are none."""
    if report.verdict.control_source in OF_HOSPITAL:
        return "others"
    found = make_calibration(report)
    if found is None:
        return "p" if report.controls_flagged.n_total else "controls"
    head(say, "measures_calibration")
    expected, p = found.expected.tolist(), found.p.tolist()
    corners, low, high = found.band()
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
    figure(say, "measures_calibration", chart, table=table, audit=report.digest)
    remark(say, "measures_calibration_low", k=found.n_low, n=found.n_controls)
    return ""


def _curve(say: Words, report: AuditReport) -> str:
    """Draw a measure against the number of inputs or documents; return why there is none."""
    if not report.has_truth or not report.curve:
        return "curve" if report.has_truth else "truth"
    head(say, "measures_curve")
    left, right = st.columns(2, gap="large")
    with left:
        stratum = choose(say, "kind", tuple(report.measures.strata), what="stratum")
    names = {code: say.text(f"column_{code}") for code in CURVE_MEASURES}
    with right:
        measure = choose(say, "measures_curve_y", names, what="measure")
    curve = {point.n: point.strata[stratum].values(measure) for point in report.curve}
    if not any(curve.values()):
        remark(say, "measures_curve_none")
        return ""
    is_auc, ns = measure == "auc", list(curve)
    codes = (report.fixed_score, GENERAL_ALONE, POPULARITY) if is_auc else curve[max(ns)]
    lines = {
        say.text(f"measures_{'score' if is_auc else 'rule'}_{code}"): [
            one.get(code, math.nan) for one in curve.values()
        ]
        for code in codes
    }
    series = [
        Series(label, ns, y, "marked", is_attack=not at, hover="%{x:,} → %{y:.3f}")
        for at, (label, y) in enumerate(lines.items())
    ]
    if is_auc:
        chance = say.text("measures_chance")
        series.append(Series(chance, ns, [0.5] * len(ns), dash="longdash", hover=""))
    title = say.text(f"measures_curve_x_{report.scenario.number}")
    x = Axis(title, is_log=True, ticks={n: f"{n:,}" for n in ns})
    chart = plot(series[::-1], x=x, y=Axis(names[measure], range=(0, 1.03)))
    table = {title: ns, **{label: list(map(decimal, y)) for label, y in lines.items()}}
    key = "measures_curve" if is_auc else "measures_curve_rules"
    figure(say, key, chart, table=table, audit=report.digest, measure=names[measure])
    return ""


def _references(say: Words, report: AuditReport) -> str:
    """Draw an audit beside those that differ in the reference alone; return why there are none."""
    found, n_left_out = cached.references(report, kept=place().kept)
    if not found:
        return "references"
    head(say, "measures_references")
    rows = _reached(say, report, which=say.text("measures_references_own"))
    for one in found:
        rows += _reached(say, one.other, which=day(one.other.at))
    header = ("name", "flagged", "controls", "n", "auc", "alone", "recall", "fpr")
    draw_table(say, "measures_references", Table(header, rows, n_merged=2), audit=report.digest)
    if n_left_out:
        remark(say, "measures_references_more", n=n_left_out)
    head(say, "measures_references_differences")
    rows = [row for one in found for row in _differences(say, one)]
    table = Table(("other", "what", "auc_difference", "mcnemar"), rows, n_merged=1)
    draw_table(say, "measures_references_differences", table, audit=report.digest)
    return ""


def _reached(say: Words, one: AuditReport, *, which: str) -> list[list[str | int | Cell]]:
    """What the attack reaches with one reference, a row for each kind of controls."""
    state, flagged = state_name(say, one.verdict.state, rule=one.verdict.rule), one.verdict.flagged
    who = Cell(one.models["general"].name, f"{which} · {state}")
    out = Cell(UNDEFINED)
    if flagged.n_total:
        out = Cell(f"{flagged.n_hits} / {flagged.n_total}", measured(flagged.interval()).below)
    rows: list[list[str | int | Cell]] = []
    for name, stratum in one.measures.table_strata.items():
        held_out = stratum.held_out[one.fixed_score].confusion
        aucs = (stratum.scores[one.fixed_score].auc, stratum.baselines[GENERAL_ALONE].auc)
        rows.append(
            [
                who,
                out,
                say.text(f"kind_{name}"),
                f"{stratum.n_members} / {stratum.n_controls}",
                *(measured(auc, digits=3) for auc in aucs),
                *map(measured, (held_out.recall, held_out.false_positive_rate)),
            ]
        )
    return rows or [[who, out, *[UNDEFINED] * 6]]


def _differences(say: Words, one: Comparison) -> list[list[str | int | Cell]]:
    which = f"{one.other.models['general'].name} · {day(one.other.at)}"
    rows: list[list[str | int | Cell]] = []
    for auc in one.aucs:
        of = say.text("measures_references_auc_of", controls=say.text(f"kind_{auc.stratum}"))
        rows.append([which, of, measured(auc.difference, digits=3), UNDEFINED])
    share = f"{one.tested.only_one} / {one.tested.only_other}"
    return [*rows, [which, say.text("measures_references_share"), share, small(one.tested.p)]]


def _canaries(say: Words, report: AuditReport) -> str:
    """Draw what the planted names of an audit show; return why it has none."""
    view = report.details.canaries
    if view is None:
        return "canaries"
    head(say, "measures_canaries")
    st.html(blocks.heading("", below=view.sentence(say.language)))
    if not view.is_paired:
        counts = {"planted": view.n_planted, "held_out": view.n_held_out}
        remark(say, "measures_canaries_unpaired", **counts)
    if not view.scores:
        return ""
    fixed = next(iter(view.by_score.values()))
    columns = ("n", "bits", "share", "twins", "twins_p", "general_bits", "by_general")
    columns = [f"measures_canaries_{column}" for column in columns]
    rows = [
        [
            say.text("measures_canaries_all") if one.n_mentions is None else one.n_mentions,
            *_group(one),
            *(_group(general)[1:3] if general else [UNDEFINED] * 2),
        ]
        for one, general in view.by_mentions
    ]
    table, chart = Table(("mentions", *columns), rows), _exposure_chart(say, view)
    figure(say, "measures_canaries", chart, table=table, audit=report.digest)
    limits = {"bits": decimal(fixed.max_bits, digits=2), "p": small(fixed.smallest_p)}
    chance = decimal(fixed.bits_without_leak, digits=2)
    remark(say, "measures_canaries_limit", n=fixed.n_held_out, chance=chance, **limits)
    head(say, "measures_canaries_scores")
    notes = {
        view.fixed_score: say.text("measures_fixed"),
        GENERAL_ALONE: say.text("measures_baseline"),
    }
    rows = [
        [Cell(say.text(f"measures_score_{score}"), notes.get(score, "")), *_group(one.whole)]
        for score, one in view.by_score.items()
    ]
    table = Table(("measures_score", *columns[:5]), rows)
    draw_table(say, "measures_canaries_scores", table, audit=report.digest)
    with st.expander(say.text("measures_canaries_names")):
        _planted_names(say, report, view)
    return ""


def _exposure_chart(say: Words, view: Exposure) -> object:
    """One dot a planted name, the mean of each number with its interval, and three limits."""
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
        if bits <= fixed.max_bits  # so few held-out names may find nobody
    ]
    x, y = [], []
    for at, group in enumerate(fixed.groups):
        bits = [one.bits for one in view.names if one.n_mentions == group.n_mentions]
        x += [at + shift for shift in spread(len(bits), width=0.56)]
        y += bits
    series.append(Series(name["one"], x, y, "dots", is_attack=True, hover=hover))
    means = [("general", general, -0.12, "diamond"), ("attack", fixed, 0.12, "circle")]
    for key, one, shift, symbol in means:
        if one is None:
            continue
        places, bits = [at + shift for at in range(n)], [group.bits for group in one.groups]
        looks = {"is_attack": one is fixed, "symbol": symbol, "hover": hover}
        series.append(points(name[key], places, bits, **looks))
    ticks = {float(at): str(group.n_mentions) for at, group in enumerate(fixed.groups)}
    x_axis = Axis(name["x"], range=ends, ticks=ticks, has_grid=False)
    y_axis = Axis(name["bits"], range=(-0.4, fixed.max_bits * 1.12 + 0.2))
    return plot(series, x=x_axis, y=y_axis)


def _group(group: ExposureGroup) -> list[str | int | Cell]:
    twins = group.above_twin
    above = f"{twins.n_hits} / {twins.n_total}" if twins.n_total else UNDEFINED
    bits, above_twin = measured(group.bits, digits=2), Cell(above, measured(twins).below)
    return [group.n_names, bits, counted(group.found), above_twin, small(group.above_twin_p)]


def _planted_names(say: Words, report: AuditReport, view: Exposure) -> None:
    names = report.table.loc[[one.name_id for one in view.names]]
    fields = ("n_mentions", "score", "bits", "p", "twin_score")
    columns = {
        "number": names["number"].tolist(),
        "name": list(map(shown_name, names["first_name"], names["last_name"])),
        **{field: [getattr(one, field) for one in view.names] for field in fields},
    }
    frame(say, "measures_canaries_names", columns, audit=report.digest)


CHECKS = {
    "calibration": _calibration,
    "curve": _curve,
    "references": _references,
    "canaries": _canaries,
}
