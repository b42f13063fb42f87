"""Members by role on the Measures page: patients, staff, or any word of the auditor's."""

from __future__ import annotations

import math

import streamlit as st

from audit.report.report import KeptAudit, RoleLine, Share
from pages.ui import blocks, cached
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, decimal, decimal_interval, percent, percent_interval


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw the table of roles; nothing where the list has none."""
    lines = cached.report(audit.digest).details.roles
    if not lines:
        return
    st.html(blocks.heading(say.text("measures_roles"), below=say.text("measures_roles_below")))
    keys = ["role", "members", "mentions", "auc", "general_auc", "flagged", "general_flagged"]
    if any(line.role_controls_flagged.n_total for line in lines):
        keys.append("own_controls")
    head = [
        blocks.Cell(say.text(f"measures_roles_{key}"), is_number=place > 0)
        for place, key in enumerate(keys)
    ]
    rows = [[_cell(say, line, key) for key in keys] for line in lines]
    caption = say.text("measures_roles_caption", n=lines[0].n_controls)
    st.html(blocks.table([head], rows, caption=caption))


def _cell(say: Words, line: RoleLine, key: str) -> blocks.Cell:
    if key == "role":
        return blocks.Cell(line.role or say.text("measures_roles_none"), is_number=False)
    if key == "members":
        return blocks.Cell(str(line.n_members))
    if key == "mentions":
        median = line.median_mentions
        return blocks.Cell(UNDEFINED if math.isnan(median) else f"{median:g}")
    if key in ("auc", "general_auc"):
        auc = line.auc if key == "auc" else line.general_auc
        return blocks.Cell(decimal(auc.value), _some(decimal_interval(auc)))
    rates = {
        "flagged": line.flagged,
        "general_flagged": line.general_flagged,
        "own_controls": line.role_controls_flagged,
    }
    return _rate(rates[key])


def _rate(rate: Share) -> blocks.Cell:
    if not rate.n_total:
        return blocks.Cell(UNDEFINED)
    text = f"{rate.n_hits} / {rate.n_total} · {percent(rate.value)}"
    return blocks.Cell(text, _some(percent_interval(rate)))


def _some(text: str) -> str:
    return "" if text == UNDEFINED else text
