"""Two scores on the same gold notes: differences with interval and p, and what only one misses."""

from __future__ import annotations

import streamlit as st

from audit.deid.score import KeptScore
from audit.deid.score_view import ComparedLabel, ScoresCompared, ScoreView
from audit.stats import Estimate
from pages.ui import blocks, linked
from pages.ui.blocks import Cell
from pages.ui.deid_score_cached import compared, index, scores
from pages.ui.deid_score_report import choose_criterion
from pages.ui.deid_score_spans import draw_cases
from pages.ui.deid_score_words import label_name, p_text, score_name
from pages.ui.language import Words
from pages.ui.measure_choice import choose
from pages.ui.text import UNDEFINED, decimal, decimal_interval

_BOX = "deid_measures_other"
_PAGER = "deid_measures_only"
WHO = ("first", "second")


def draw(say: Words, view: ScoreView) -> None:
    """Draw the choice of another score, and both side by side."""
    st.html(
        blocks.heading(
            say.text("deid_measures_compare"), below=say.text("deid_measures_compare_below")
        )
    )
    kept = view.kept
    others = [
        one for one in scores()
        if one.gold_digest == kept.gold_digest and one.score_id != kept.score_id
    ]  # fmt: skip
    if not others:
        below = say.text("deid_measures_compare_none_do")
        st.html(blocks.heading(say.text("deid_measures_compare_none"), below=below))
        return
    other = _ask_other(say, others)
    criterion = choose_criterion(say)
    found = compared(kept.score_id, second=other.score_id, criterion=criterion)
    st.html(
        blocks.line(say.text("deid_measures_first"), score_name(say, kept))
        + blocks.line(say.text("deid_measures_second"), score_name(say, other))
    )
    st.html(difference_table(say, found))
    split = found.discordant
    st.html(
        blocks.heading(
            say.text("deid_measures_only"),
            below=say.text(
                "deid_measures_only_below",
                first=f"{split.n_second_only:,}",
                second=f"{split.n_first_only:,}",
                both=f"{split.n_neither:,}",
                p=p_text(split.p),
            ),
        )
    )
    who = choose(
        "who",
        WHO,
        label=say.text("deid_measures_only_whose"),
        shown=lambda code: say.text(f"deid_measures_only_{code}"),
    )
    own = kept if who == "first" else other
    numbers = found.first_only if who == "first" else found.second_only
    draw_cases(say, index(own.score_id), numbers, key=f"{_PAGER}_{who}", score_id=own.score_id)


def difference_table(say: Words, found: ScoresCompared) -> str:
    """Return the differences as HTML, in percentage points."""
    header = [Cell("", is_number=False), Cell(say.text("deid_measures_n_gold"))]
    header += [
        Cell(say.text(f"deid_measures_rate_{one.measure}"), say.text("deid_measures_difference"))
        for one in found.lines[0].differences
    ]
    rows = [_row(say, line) for line in found.lines]
    return blocks.table([header], rows, caption=say.text("deid_measures_compare_caption"))


def _row(say: Words, line: ComparedLabel) -> list[Cell]:
    cells = [Cell(label_name(say, line.label), is_number=False), Cell(f"{line.n_gold:,}")]
    for one in line.differences:
        estimate = one.estimate
        interval = decimal_interval(_points(estimate), digits=1)
        below = f"{interval} · p {p_text(one.p)}" if interval != UNDEFINED else ""
        cells.append(Cell(_signed(100 * estimate.value), below))
    return cells


def _points(estimate: Estimate) -> Estimate:
    return Estimate(100 * estimate.value, 100 * estimate.low, 100 * estimate.high)


def _signed(points: float) -> str:
    return decimal(points, digits=1) if not points > 0 else f"+{points:.1f}"


def _ask_other(say: Words, others: list[KeptScore]) -> KeptScore:
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
