"""Detection against mentions: the chart and its table, for every page that shows them."""

from __future__ import annotations

import streamlit as st

from audit.report.report import AuditReport
from pages.ui import blocks, charts
from pages.ui.language import Words
from pages.ui.text import percent, percent_interval


def mention_chart(say: Words, report: AuditReport, *, key: str) -> None:
    """Draw the share of names that stand out against how often they occur."""
    texts = {name: say.sentences[f"mentions_{name}"] for name in ("x", "y", "controls", "names")}
    figure = charts.leak_by_mentions(
        report.mentions, controls=report.controls_flagged.interval(), words=texts
    )
    alt = say.text("mentions_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key=key)
    with st.expander(say.text("as_table")):
        rows = [
            (
                found.label,
                str(found.n_names),
                str(found.flagged.n_hits),
                percent(found.flagged.value),
                percent_interval(found.flagged),
            )
            for found in report.mentions
        ]
        columns = ("mentions", "n", "flagged", "share", "interval")
        header = [say.text(f"column_{column}") for column in columns]
        st.html(blocks.simple_table(header, rows, caption=alt))
