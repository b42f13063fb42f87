"""Two scores on the same gold notes: differences with interval and p, and what only one misses."""

from __future__ import annotations

import streamlit as st

from audit.deid.metrics import ENTITY
from audit.deid.score import Score, ScoresCompared
from audit.stats import Estimate
from pages.ui import blocks, linked
from pages.ui.blocks import Cell
from pages.ui.cached import compared, scores
from pages.ui.deid_score_names import score_name
from pages.ui.deid_score_report import choose_criterion
from pages.ui.deid_score_spans import draw_cases
from pages.ui.deid_score_words import label_name
from pages.ui.language import Words
from pages.ui.measure_choice import choose
from pages.ui.text import UNDEFINED, decimal, decimal_interval

_BOX = "deid_measures_other"
_PAGER = "deid_measures_only"
WHO = ("first", "second")


def draw(say: Words, view: Score) -> None:
    """Draw the choice of another score, and both side by side."""
    st.html(
        blocks.heading(
            say.text("deid_measures_compare"), below=say.text("deid_measures_compare_below")
        )
    )
    others = [
        one for one in scores()
        if one.gold_digest == view.gold_digest and one.score_id != view.score_id
    ]  # fmt: skip
    if not others:
        below = say.text("deid_measures_compare_none_do")
        st.html(blocks.heading(say.text("deid_measures_compare_none"), below=below))
        return
    other = _ask_other(say, others)
    criterion = choose_criterion(say)
    found = compared(view.score_id, second=other.score_id, criterion=criterion)
    st.html(
        blocks.line(say.text("deid_measures_first"), score_name(say, view))
        + blocks.line(say.text("deid_measures_second"), score_name(say, other))
    )
    st.html(difference_table(say, found))
    st.html(
        blocks.heading(
            say.text("deid_measures_only"),
            below=say.text(
                "deid_measures_only_below",
                first=f"{len(found.first_only):,}",
                second=f"{len(found.second_only):,}",
                both=f"{found.n_both:,}",
            ),
        )
    )
    who = choose(
        "who",
        WHO,
        label=say.text("deid_measures_only_whose"),
        shown=lambda code: say.text(f"deid_measures_only_{code}"),
    )
    own = view if who == "first" else other
    cases = found.first_only if who == "first" else found.second_only
    draw_cases(say, cases, key=f"{_PAGER}_{who}", score_id=own.score_id)


def difference_table(say: Words, found: ScoresCompared) -> str:
    """Return the differences as HTML, in percentage points."""
    header = [Cell("", is_number=False), Cell(say.text("deid_measures_n_gold"))]
    header += [
        Cell(say.text(f"deid_measures_rate_{measure}"), say.text("deid_measures_difference"))
        for measure in ENTITY
    ]
    rows = [_row(say, label, *line) for label, line in found.lines.items()]
    return blocks.table([header], rows, caption=say.text("deid_measures_compare_caption"))


def _row(say: Words, label: str, n_gold: int, differences: tuple[Estimate, ...]) -> list[Cell]:
    cells = [Cell(label_name(say, label), is_number=False), Cell(f"{n_gold:,}")]
    for estimate in differences:
        interval = decimal_interval(_points(estimate), digits=1)
        below = interval if interval != UNDEFINED else ""
        cells.append(Cell(_signed(100 * estimate.value), below))
    return cells


def _points(estimate: Estimate) -> Estimate:
    return Estimate(100 * estimate.value, 100 * estimate.low, 100 * estimate.high)


def _signed(points: float) -> str:
    return decimal(points, digits=1) if not points > 0 else f"+{points:.1f}"


def _ask_other(say: Words, others: list[Score]) -> Score:
    by_id = {one.score_id: one for one in others}
    if st.session_state.get(_BOX) not in by_id:
        asked = st.query_params.get("other", "")
        st.session_state[_BOX] = asked if asked in by_id else next(iter(by_id))
    code = st.selectbox(
        say.text("deid_measures_other"),
        list(by_id),
        format_func=lambda score_id: score_name(say, by_id[score_id]),
        key=_BOX,
        on_change=_first_page,
    )
    st.query_params["other"] = str(code)
    return by_id[str(code)]


def _first_page() -> None:
    for who in WHO:
        linked.turn_to(f"{_PAGER}_{who}", number=1)
