"""The kinds of section that a page is made of: each is drawn by one function, by its words' key.

A key stands for its sentences: `KEY` is the heading, `KEY_below` the sentence under it, `KEY_hint`
one behind a question mark, `KEY_alt` what a figure shows, `KEY_do` what to do about it. Text in
cells is untrusted, and escaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from audit.errors import AuditError
from audit.tables import Cells, write_table
from audit.words import Words
from pages.ui import blocks
from pages.ui.access import logged_export, may, may_export, name_form
from pages.ui.blocks import Cell
from pages.ui.charts import CONFIG, apply_theme
from pages.ui.component import draw_component
from pages.ui.form import draw_button
from pages.ui.state import words

T = TypeVar("T")
_MIME = {"csv": "text/csv", "jsonl": "application/x-ndjson"}


Content = str | int | Cell
Column = str | tuple[str, str]
Columns = Mapping[str, Sequence[Content]]
"""Column -> its cells. A column's heading is the sentence `KEY_COLUMN`, `column_COLUMN` or COLUMN;
a column without a sentence is shown as it is. (group, column) stands under the group's heading."""


@dataclass(frozen=True)
class Table:
    """A table: its columns, as `Columns` has them, and its rows.

    In the first `n_merged` columns, equal cells below each other are merged.
    """

    header: Sequence[Column]
    rows: Sequence[Sequence[Content]]
    n_merged: int = 0


ColumnName = TypeVar("ColumnName", bound=Column)


def make_table(columns: Mapping[ColumnName, Sequence[Content]]) -> Table:
    """Return the table of columns of one length, some of which may stand under a group."""
    return Table(list(columns), list(zip(*columns.values(), strict=True)))


def _column_heading(say: Words, key: str, column: str) -> str:
    keys = (f"{key}_{column}", f"column_{column}", column)
    return next(
        (say.text(candidate_key) for candidate_key in keys if candidate_key in say.sentences),
        column,
    )


def _cell_text(cell: Cell) -> str:
    below = (cell.below or cell.hint).replace("\n", ", ")
    return f"{cell.text} ({below})" if below else cell.text


def draw_page(
    code: str,
    draw: Callable[[Words], None],
    *,
    draw_beside: Callable[[Words], object] | None = None,
) -> None:
    """Draw a page's title and its content, or the error that prevents the content.

    `draw_beside` draws a choice in the line of the title.
    """
    say = words()
    if draw_beside is None:
        st.title(say.text(f"{code}_title"), anchor=False)
    else:
        with st.container(horizontal=True, vertical_alignment="center", key=f"{code}_head"):
            st.title(say.text(f"{code}_title"), anchor=False, width="content")
            draw_beside(say)
    with show_refusals(say):
        draw(say)


@contextmanager
def show_refusals(say: Words, *, key: str = "no_data") -> Iterator[None]:
    """Draw an `AuditError` under the heading `key`; each fragment needs its own such context."""
    try:
        yield
    except AuditError as error:
        st.html(blocks.heading(say.text(key), below=error.render(say.language)))


def attempt(say: Words, make: Callable[[], T]) -> T | None:
    """Return the result of `make`; on an `AuditError` draw the reason and return None."""
    try:
        return make()
    except AuditError as error:
        blocks.draw_refusal(say, error)
        return None


def draw_heading(say: Words, key: str, *, below: str = "", **values: object) -> None:
    """Draw a heading and the sentence under it, if there is one; the values fill all sentences.

    `below` is the key of the sentence if it is not `KEY_below`. The sentence `KEY_hint` stands
    behind a question mark.
    """
    keys = (below or f"{key}_below", f"{key}_hint")
    sentence, hint = (say.text(k, **values) if k in say.sentences else "" for k in keys)
    st.html(blocks.heading(say.text(key, **values), below=sentence, hint=hint))


def draw_remark(say: Words, key: str, **values: object) -> None:
    """Draw a sentence, and the sentence `KEY_hint` behind a question mark."""
    hint = say.sentences.get(f"{key}_hint", "")
    st.html(blocks.heading("", below=say.text(key, **values), hint=hint))


def draw_absence(say: Words, key: str, **values: object) -> None:
    """Draw what is missing, and the sentence `KEY_do` about what to do."""
    st.html(blocks.heading(say.text(key), below=say.text(f"{key}_do", **values)))


def draw_figure(
    say: Words,
    key: str,
    chart: Any,
    *,
    table: Table | Columns,
    audit: str = "",
    variant: str = "",
    is_clickable: bool = False,
    **values: object,
) -> Sequence[Any]:
    """Draw a figure with an alternative text, and its numbers as a table and a CSV file.

    `chart` is a plotly figure, `audit` the digest whose log the export goes into; `values` fill
    the alternative text `KEY_alt`. `variant` distinguishes figures of one key on one page. Returns
    the facts of the clicked point (see `charts.Series`), none by default.
    """
    name = f"{key}_{variant}" if variant else key
    texts = _table_texts(say, key, table)

    def draw_csv() -> None:
        draw_csv_button(say, name, texts.titles, texts.csv_rows, audit=audit)

    clicked_facts = draw_chart(
        say, key, chart, variant=variant, draw_file=draw_csv, is_clickable=is_clickable, **values
    )
    with st.expander(say.text("as_table"), key=f"{name}_as_table"):
        alt = say.text(f"{key}_alt", **values)
        st.html(blocks.table(texts.header, texts.rows, caption=alt, n_merged=texts.n_merged))
    return clicked_facts


def draw_chart(
    say: Words,
    key: str,
    chart: Any,
    *,
    variant: str = "",
    draw_file: Callable[[], None] = lambda: None,
    is_clickable: bool = False,
    **values: object,
) -> Sequence[Any]:
    """Draw a figure and the buttons for its files; return the facts of the clicked point.

    The browser itself makes the pictures (SVG, PNG) of what it shows; `draw_file` draws the button
    for the numbers, unless they stand in a table under the figure.
    """
    name = f"{key}_{variant}" if variant else key
    themed_chart = apply_theme(chart, is_dark=st.context.theme.type == "dark")
    looks: dict[str, Any] = {
        "config": CONFIG,
        "alt": say.text(f"{key}_alt", **values),
        "key": name,
    }
    facts: Sequence[Any] = ()
    with st.container(key=f"ka_figure_{name}"):
        if is_clickable:
            themed_chart.update_xaxes(fixedrange=True).update_yaxes(fixedrange=True)
            event = st.plotly_chart(
                themed_chart, on_select="rerun", selection_mode="points", **looks
            )
            points = event["selection"]["points"]
            facts = points[0].get("customdata", ()) if points else ()
        else:
            st.plotly_chart(themed_chart, **looks)
        with st.container(
            horizontal=True, horizontal_alignment="right", gap=None, key=f"ka_files_{name}"
        ):
            _draw_pictures(say, name)
            draw_file()
    return facts


def _draw_pictures(say: Words, name: str) -> None:
    """Draw the buttons that save the figure `name` as a picture."""
    draw_component(
        "picture",
        key=f"{name}_pictures",
        data={
            "figure": f"ka_figure_{name}",
            "name": name.replace("_", "-"),
            "titles": {form: say.text(f"picture_{form}") for form in ("svg", "png")},
        },
    )


@dataclass(frozen=True)
class _TableTexts:
    """A table as the screen shows it, and as its CSV file holds it: with counts as numbers."""

    header: list[tuple[str, str]]
    rows: list[list[Cell]]
    n_merged: int
    titles: list[str]
    csv_rows: list[list[str | int]]


def _table_texts(say: Words, key: str, table: Table | Columns) -> _TableTexts:
    if isinstance(table, Mapping):
        table = make_table(table)
    columns = [heading if isinstance(heading, tuple) else ("", heading) for heading in table.header]
    header = [
        (_column_heading(say, key, group), _column_heading(say, key, column))
        for group, column in columns
    ]
    return _TableTexts(
        header,
        rows=[[_make_cell(cell) for cell in row] for row in table.rows],
        n_merged=table.n_merged,
        titles=[f"{group}: {text}" if group else text for group, text in header],
        csv_rows=[
            [cell if isinstance(cell, int) else _cell_text(_make_cell(cell)) for cell in row]
            for row in table.rows
        ],
    )


def draw_table(
    say: Words,
    key: str,
    table: Table | Columns,
    *,
    caption: str = "",
    audit: str = "",
    names: str = "masked",
    variant: str = "",
    **values: object,
) -> None:
    """Draw a table with a button for the same table as CSV, in which counts are plain numbers.

    The caption stands behind a question mark, unless it is a sentence of counts, `KEY_counts`,
    which everybody reads. It is `KEY_caption` filled with the values unless another one is given.
    `names` is the log's word for the form of the names; `variant` distinguishes tables of one key
    on one page.
    """
    counts = say.text(f"{key}_counts", **values) if f"{key}_counts" in say.sentences else ""
    caption = caption or counts or say.text(f"{key}_caption", **values)
    above = blocks.heading("", below=counts) if counts else blocks.fold(caption)
    name, texts = f"{key}_{variant}" if variant else key, _table_texts(say, key, table)
    with st.container(key=f"ka_table_{name}"):
        st.html(
            f'<div class="ka-over">{above}</div>'
            + blocks.table(texts.header, texts.rows, caption=caption, n_merged=texts.n_merged)
        )
        draw_csv_button(say, name, texts.titles, texts.csv_rows, audit=audit, names=names)


def _make_cell(content: Content) -> Cell:
    return (
        content
        if isinstance(content, Cell)
        else Cell(f"{content:,}" if isinstance(content, int) else content)
    )


def draw_csv_button(
    say: Words, key: str, header: Sequence[str], rows: Iterable[Cells], **options: Any
) -> None:
    """Draw a button for rows as CSV, guarded against formulas; options of `draw_file_button`."""
    row_list = list(rows)
    draw_file_button(
        say, key, lambda: write_table(list(header), row_list, bom=True).encode(), **options
    )


def draw_file_button(
    say: Words,
    key: str,
    make: Callable[[], bytes],
    *,
    form: str = "csv",
    audit: str = "",
    label: str = "csv",
    file_kind: str = "",
    name: str = "",
    file_name: str = "",
    help: str | None = None,
    is_disabled: bool = False,
    **counts: int | str,
) -> None:
    """Draw a button for a file that is made after its log line; grey for who may not export.

    `form` is the ending of the file's name and its format in the log. `file_kind` names the content
    in the log and in the file's name; by default it is the key. `name` is the widget's key, by
    default `KEY_FORM`; `file_name` is by default made of `file_kind` and the audit's digest.
    """
    file_kind = file_kind or key.replace("_", "-")
    counts = {"names": "masked", **counts}
    st.download_button(
        say.text(label),
        data=logged_export(make, audit=audit, what=file_kind, format=form, **counts),
        file_name=file_name or f"{file_kind}{f'-{audit[:12]}' if audit else ''}.{form}",
        mime=_MIME.get(form, "application/octet-stream"),
        icon=":material/download:",
        key=name or f"{key}_{form}",
        help=help or say.sentences.get(f"{label}_help"),
        type="tertiary",
        disabled=is_disabled or not may_export(counts),
        on_click="ignore",
    )


def draw_frame(
    say: Words,
    key: str,
    columns: Mapping[str, Cells],
    *,
    audit: str,
    shown: Mapping[str, Cells] | None = None,
    **counts: int | str,
) -> None:
    """Draw a long table of names that can be sorted, and a button for the same rows as CSV.

    The headings of the columns are those of `Columns`. `shown` holds the columns of the screen if
    they are others than those of the file.
    """
    headings = [_column_heading(say, key, column) for column in columns]
    rows, names = list(zip(*columns.values(), strict=True)), name_form()
    frame = {
        _column_heading(say, key, column): cells for column, cells in (shown or columns).items()
    }
    config: dict[str, Any] = {
        heading: st.column_config.Column(width=text_width([heading, *map(str, cells)]))
        for heading, cells in frame.items()
        if all(isinstance(cell, str) for cell in cells)
    }
    with st.container(key=f"ka_table_{key}"):
        draw_csv_button(
            say, key, headings, rows, audit=audit, names=names, n_names=len(rows), **counts
        )
        st.dataframe(frame, column_config=config, hide_index=True, key=key, alt=say.text(key))


def text_width(texts: Iterable[str]) -> int:
    """Return the width in pixels of a table's column that cuts none of these texts.

    Streamlit itself measures only the first rows.
    """

    def width_of(letter: str) -> float:
        if unicodedata.east_asian_width(letter) in "WF":
            return 14.5
        return 9.5 if letter.isupper() or letter.isdigit() else 7.5

    return 20 + round(max(sum(map(width_of, text)) for text in texts))


def draw_facts(say: Words, key: str, facts: Mapping[str, str], **options: Any) -> None:
    """Draw facts as a table of two columns; `facts` are named as columns are."""
    rows = [(_column_heading(say, key, fact), sentence) for fact, sentence in facts.items()]
    draw_table(say, key, Table(("fact", "value"), rows), **options)


def draw_folded_section(say: Words, key: str, draw: Callable[[], None]) -> None:
    """Draw a section that can be folded; its content is drawn only if the link opens it."""
    box = st.expander(say.text(key), key=key, bind="query-params")
    if box.open:
        with box:
            draw()


@contextmanager
def draw_step_card(say: Words, key: str, *, number: int) -> Iterator[Callable[[bool], None]]:
    """Draw a card of a form under the heading `KEY`; yield a function that marks it as ready."""
    with st.container(border=True, key=key):
        place = st.empty()

        def mark_step(is_ready: bool) -> None:
            kind, state = ("ready", "step_ready") if is_ready else ("open", "step_missing")
            place.html(
                f'<h2 class="ka-heading ka-step ka-is-{kind}"><b>{number}</b> {say.html(key)}'
                f"<span>{say.html(state)}</span></h2>"
            )

        mark_step(False)
        yield mark_step


def draw_removal(say: Words, key: str, remove: Callable[[], None], *, leaves: str) -> None:
    """Draw a button that removes something after a confirmation.

    The removal also drops the query parameter `leaves`.
    """
    if not may("removed"):
        return
    with st.popover(say.text(key), icon=":material/delete:", key=key):
        draw_remark(say, f"{key}_why")
        if draw_button(say, f"{key}_now", kind="primary"):
            try:
                remove()
            except AuditError as error:
                blocks.draw_refusal(say, error)
                return
            st.query_params.pop(leaves, None)
            st.rerun()


@contextmanager
def fold_details(say: Words, key: str) -> Iterator[None]:
    """Draw what few readers need (digests, hashes, symbols) in a folded section."""
    with st.expander(say.text("details"), key=f"{key}_details"):
        yield
