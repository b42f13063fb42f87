"""Where to begin: the demonstration at one click, an audit of one's own pair in three steps."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.report.report import KeptAudit
from pages.ui import blocks
from pages.ui.language import Words, link
from pages.ui.text import day

N_RECENT = 8


def start_cards(say: Words) -> None:
    """Draw the two ways to begin, side by side."""
    from pages.ui.job_line import run_demo_button

    demo, own = st.columns(2, gap="large")
    with demo, st.container(border=True):
        st.html(blocks.heading(say.text("start_demo"), below=say.text("start_demo_why")))
        run_demo_button(say, key="run_demo")
        st.html(blocks.heading("", below=say.text("start_demo_command")))
        st.code("python -m audit demo", language="bash")
    with own, st.container(border=True):
        st.html(
            blocks.heading(say.text("start_own"), below=say.text("start_own_why"))
            + blocks.bullet_list(say.text(f"start_own_{i}") for i in (1, 2, 3))
        )
        link(
            "setup",
            label=say.text("start_own_go"),
            audit="",
            icon=":material/arrow_forward:",
        )


def recent_audits(say: Words, kept: Sequence[KeptAudit], *, shown: str) -> None:
    """Draw the newest kept audits, each with its verdict and a link; `shown` is marked."""
    st.html(blocks.heading(say.text("recent"), below=say.text("recent_below", n=len(kept))))
    for line in kept[:N_RECENT]:
        words, opening = st.columns([6, 1], vertical_alignment="center")
        is_shown = line.digest == shown
        with words:
            st.html(
                blocks.line(
                    say.text(f"state_{line.state}"),
                    say.text(
                        "recent_line_demo" if line.is_demo else "recent_line",
                        hospital=line.hospital,
                        general=line.general,
                        scenario=line.scenario,
                        n=line.n_names,
                        at=day(line.at),
                        digest=line.digest[:12],
                    ),
                    is_strong=is_shown,
                )
            )
        with opening:
            if is_shown:
                st.html(blocks.heading("", below=say.text("recent_shown")))
            else:
                link("overview", label=say.text("recent_open"), audit=line.digest)
