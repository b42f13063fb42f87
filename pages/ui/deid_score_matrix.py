"""The confusion matrix of a score: a click on a cell, or a choice, shows its spans in context."""

from __future__ import annotations

import streamlit as st

from audit.deid.matching import MISSED, SPURIOUS
from audit.deid.metrics import Matrix
from audit.deid.score import HEADLINE_CRITERION, Score
from pages.ui import blocks, charts, linked
from pages.ui.blocks import Cell
from pages.ui.cached import cases
from pages.ui.deid_score_charts import matrix_chart
from pages.ui.deid_score_spans import draw_cases
from pages.ui.deid_score_words import label_name
from pages.ui.language import Words

_CELL, _BOX, _VERSION, _PAGER = (
    "deid_cell", "deid_measures_cell", "deid_measures_matrix_version", "deid_measures_cell",
)  # fmt: skip


def draw(say: Words, view: Score) -> None:
    """Draw the matrix, and the spans of the chosen cell."""
    shown = view.summary.criteria[HEADLINE_CRITERION].matrix
    filled = cells_of(shown)
    st.html(
        blocks.heading(
            say.text("deid_measures_matrix"), below=say.text("deid_measures_matrix_below")
        )
    )
    if not filled:
        st.html(blocks.heading("", below=say.text("deid_measures_no_spans")))
        return
    code = _chosen(filled)
    row, column = _places(code)
    _draw_chart(say, shown, chosen=(row, column))
    with st.expander(say.text("deid_measures_as_table"), key="deid_measures_matrix_table"):
        st.html(matrix_table(say, shown))
    code = _draw_box(say, shown, filled, code=code)
    row, column = _places(code)
    cell = list(shown.rows)[row], shown.columns[column]
    found = [case for case in cases(view.score_id) if (case.row, case.column) == cell]
    draw_cases(say, found, key=_PAGER, score_id=view.score_id)


def cells_of(view: Matrix) -> tuple[str, ...]:
    """Return the codes of the cells that hold something: what is missed first, the largest first.

    A code is the number of the row and of the column: labels do not go into a link.
    """
    order = {MISSED: 0, SPURIOUS: 1}
    found = []
    for r, (row, counts) in enumerate(view.rows.items()):
        for c, (column, n) in enumerate(zip(view.columns, counts, strict=True)):
            if n:
                rank = order.get(column, order.get(row, 3 if row == column else 2))
                found.append((rank, -n if rank else r, r, c))
    return tuple(f"{r}-{c}" for _, _, r, c in sorted(found))


def matrix_table(say: Words, view: Matrix) -> str:
    """Return the matrix as HTML, with the sums of rows and columns."""
    header = [Cell(say.text("deid_measures_matrix_corner"), is_number=False)]
    header += [Cell(label_name(say, column)) for column in view.columns]
    header.append(Cell(say.text("deid_measures_sum")))
    rows = [
        [Cell(label_name(say, row), is_number=False), *(Cell(f"{n:,}") for n in counts),
         Cell(f"{sum(counts):,}")]
        for row, counts in view.rows.items()
    ]  # fmt: skip
    sums = [sum(column) for column in zip(*view.rows.values(), strict=True)]
    last = [Cell(say.text("deid_measures_sum"), is_number=False)]
    last += [Cell(f"{n:,}") for n in (*sums, sum(sums))]
    return blocks.table([header], [*rows, last], caption=say.text("deid_measures_matrix_caption"))


def _draw_chart(say: Words, view: Matrix, *, chosen: tuple[int, int]) -> None:
    version = st.session_state.get(_VERSION, 0)
    key = f"deid_measures_matrix_{version}"
    st.plotly_chart(
        matrix_chart(
            list(view.rows.values()),
            rows=[label_name(say, row) for row in view.rows],
            columns=[label_name(say, column) for column in view.columns],
            chosen=chosen,
            words={"x": say.text("deid_measures_side_predicted"),
                   "y": say.text("deid_measures_side_gold")},
            is_dark=st.context.theme.type == "dark",
        ),
        config=charts.CONFIG,
        key=key,
        on_select=_clicked,
        selection_mode="points",
        alt=say.text("deid_measures_matrix_alt"),
    )  # fmt: skip


def _draw_box(say: Words, view: Matrix, cells: tuple[str, ...], *, code: str) -> str:
    """Draw the choice of a cell, for keyboards and for what a click is too small for."""
    st.session_state[_BOX] = code
    names = list(view.rows)

    def shown(one: str) -> str:
        row, column = _places(one)
        return say.text(
            "deid_measures_cell_name",
            row=label_name(say, names[row]),
            column=label_name(say, view.columns[column]),
            n=f"{view.rows[names[row]][column]:,}",
        )

    # A box of choices shows its options as plain text, never as Markdown.
    found = st.selectbox(
        say.text("deid_measures_cell"), cells, format_func=shown, key=_BOX, on_change=_boxed
    )
    return str(found or code)


def _chosen(cells: tuple[str, ...]) -> str:
    """Return the code of the cell that is shown: the session's, else the link's, else the first."""
    wanted = st.session_state.get(_CELL) or st.query_params.get("cell", "")
    code = wanted if wanted in cells else cells[0]
    st.session_state[_CELL] = code
    st.query_params["cell"] = code
    return code


def _clicked() -> None:
    version = st.session_state.get(_VERSION, 0)
    event = st.session_state.get(f"deid_measures_matrix_{version}")
    points = event["selection"]["points"] if event else []
    if points and points[0].get("customdata"):
        row, column = points[0]["customdata"][:2]
        _take(f"{int(row)}-{int(column)}")


def _boxed() -> None:
    _take(str(st.session_state[_BOX]))


def _take(code: str) -> None:
    state = st.session_state
    state[_CELL] = code
    # The chart is drawn anew: the same cell can then be clicked again.
    state[_VERSION] = state.get(_VERSION, 0) + 1
    linked.turn_to(_PAGER, number=1)


def _places(code: str) -> tuple[int, int]:
    row, _, column = code.partition("-")
    return int(row), int(column)
