"""What several pages say of an audit's measures: names of scores and controls, and mentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from audit.report.report import AuditReport
from audit.words import Words
from pages.ui.blocks import percent, percent_interval
from pages.ui.charts import Axis, Series, plot, points
from pages.ui.section import Table, figure, frame
from pages.ui.state import choose


def score_name(say: Words, score: str) -> str:
    """Return a score's name in words, with its unit."""
    return say.text(f"measures_score_{score}")


def controls_name(say: Words, stratum: str) -> str:
    """Return what a kind of controls is called; "all" are all that are listed."""
    return say.text("measures_controls" if stratum == "all" else f"kind_{stratum}")


def one_of(
    say: Words, what: str, names: Mapping[str, str], *, label: str, is_long: bool = False
) -> str:
    """Draw a choice among codes by their names, the usual one first; `?what=` carries it."""
    shown = names.__getitem__
    return choose(what, list(names), label=say.text(label), shown=shown, is_long=is_long)


def choose_stratum(say: Words, strata: tuple[str, ...]) -> str:
    """Draw the choice of a kind of controls."""
    names = {code: controls_name(say, code) for code in strata}
    return one_of(say, "stratum", names, label="paper_controls")


def mention_chart(say: Words, report: AuditReport) -> None:
    """Draw the share of names that stand out against how often they occur, and the controls'."""
    bins, controls = report.mentions, report.controls_flagged
    limit, ends = controls.interval(), (-0.5, len(bins) - 0.5)
    series = [
        points(
            say.text("kind_member"),
            range(len(bins)),
            [one.flagged for one in bins],
            scale=100,
            is_attack=True,
            hover="%{y:.1f} %",
        )
    ]
    rows = [(one.label, one.n_names, one.flagged.n_hits, one.flagged) for one in bins]
    if controls.n_total:
        y, low, high = ([100 * end] * 2 for end in (limit.value, limit.low, limit.high))
        flat = Series(
            say.text("mentions_controls"), ends, y, low=low, high=high, dash="dot", hover=""
        )
        series.insert(0, flat)
        rows.append((flat.name, controls.n_total, controls.n_hits, limit))
    ticks = {
        float(at): f"{one.label}\n" + say.text("mentions_names", n=one.n_names)
        for at, one in enumerate(bins)
    }
    chart = plot(
        series,
        x=Axis(say.text("mentions_x"), range=ends, ticks=ticks, has_grid=False),
        y=Axis(say.text("mentions_y"), range=(-4, 104), suffix=" %"),
        height=345,
    )
    columns = ("mentions", "n", "flagged", "share", "interval")
    table = Table(
        [f"column_{column}" for column in columns],
        [
            (who, str(n), str(k), percent(share.value), percent_interval(share))
            for who, n, k, share in rows
        ],
    )
    figure(say, "mentions", chart, table=table, audit=report.digest)


def draw_names(
    say: Words, key: str, columns: Mapping[str, Sequence[object]], *, audit: str
) -> None:
    """Draw a table of names as they are shown; its CSV says in the log how that is."""
    frame(say, key, columns, audit=audit)
