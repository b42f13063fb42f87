"""The kinds of section that a page is made of: each is drawn by one function, by its words' key.

A key stands for its sentences: `KEY` is the heading, `KEY_below` the sentence under it, `KEY_alt`
what a figure shows, `KEY_do` what to do about it. Text in cells is untrusted, and escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from audit.errors import AuditError
from audit.report.report import KeptAudit, choose_audit, find_other_scenario, read_demo_digests
from audit.tables import write_table
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.access import logged_export, may, may_export, names_in_files
from pages.ui.blocks import Cell
from pages.ui.charts import CONFIG, themed
from pages.ui.form import act
from pages.ui.state import link, words

T = TypeVar("T")
_MIME = {"csv": "text/csv", "jsonl": "application/x-ndjson"}


Columns = Mapping[str | tuple[str, str], Sequence[str | int | Cell]]
"""Column -> its cells. A column's heading is the sentence `KEY_COLUMN`, `column_COLUMN` or COLUMN;
what is none of them is shown as it is. (group, column) stands under the group's heading."""


@dataclass(frozen=True)
class Table:
    """A table: its columns, as `Columns` has them, and its rows.

    In the first `n_merged` columns cells that say the same under each other stand as one.
    """

    header: Sequence[str | tuple[str, str]]
    rows: Sequence[Sequence[str | int | Cell]]
    n_merged: int = 0


def _heading(say: Words, key: str, column: str) -> str:
    keys = (f"{key}_{column}", f"column_{column}", column)
    return next((say.text(one) for one in keys if one in say.sentences), column)


def _plain(cell: Cell) -> str:
    below = cell.below.replace("\n", ", ")
    return f"{cell.text} ({below})" if below else cell.text


@dataclass(frozen=True)
class Place:
    """The audit that the link names, and its neighbours.

    Attributes
    ----------
    kept
        Every kept audit that can be read, own ones before the demo's, the newest first.
    n_unreadable
        Audits that another version of the program wrote.
    audit
        None: nothing is kept, or the link fits no audit.
    other
        The same pair in the other scenario, if it is kept.
    """

    kept: tuple[KeptAudit, ...]
    n_unreadable: int
    audit: KeptAudit | None
    other: KeptAudit | None


def place() -> Place:
    """Return where the link leads; raises as `cached.kept_audits`."""
    (kept, n_unreadable), demo = cached.kept_audits(), read_demo_digests(cached.store())
    # The sidebar's links to pages drop the address's query: the session remembers the audit.
    wanted = st.query_params.get("audit") or st.session_state.get("place_audit", "")
    audit = choose_audit(wanted, audits=kept, demo=demo)
    if audit:
        st.session_state["place_audit"] = audit.digest
    other = find_other_scenario(audit, audits=kept) if audit else None
    return Place(kept, n_unreadable, audit, other)


def page(code: str, draw: Callable[[Words], None]) -> None:
    """Draw a page's title and what is under it; what keeps it from being drawn stands in place."""
    say = words()
    st.title(say.text(f"{code}_title"), anchor=False)
    with refusals(say):
        draw(say)


def page_of_audit(code: str, draw: Callable[[Words, KeptAudit], None]) -> None:
    """Draw a page about one audit; where the link names none, say why and what to do."""

    def found(say: Words) -> None:
        here = place()
        if here.audit is not None:
            draw(say, here.audit)
        elif here.kept:
            empty(say, "wrong_link")
            link("verdict", label=say.text("open_newest"), audit=here.kept[0].digest)
        else:
            empty(say, "need_audit")
            link("verdict", label=say.text("go_to_overview"), audit="")
            link("audit", label=say.text("go_to_run"), audit="")

    page(code, found)


@contextmanager
def refusals(say: Words, *, key: str = "no_data") -> Iterator[None]:
    """Say in plain words, under the heading `key`, what was refused; a fragment needs its own."""
    try:
        yield
    except AuditError as error:
        st.html(blocks.heading(say.text(key), below=error.render(say.language)))


def attempt(say: Words, make: Callable[[], T]) -> T | None:
    """Return what is made; None where that is refused, and then say why in place."""
    try:
        return make()
    except AuditError as error:
        blocks.refused(say, error)
        return None


def head(say: Words, key: str, *, below: str = "", **values: object) -> None:
    """Draw a heading and, where there is one, the sentence under it; both take the values.

    `below` is the key of another sentence than `KEY_below`.
    """
    below = below or f"{key}_below"
    sentence = say.text(below, **values) if below in say.sentences else ""
    st.html(blocks.heading(say.text(key, **values), below=sentence))


def remark(say: Words, key: str, **values: object) -> None:
    """Draw a sentence."""
    st.html(blocks.heading("", below=say.text(key, **values)))


def empty(say: Words, key: str, **values: object) -> None:
    """Say what is not there, and by `KEY_do` what to do about it."""
    st.html(blocks.heading(say.text(key), below=say.text(f"{key}_do", **values)))


def figure(
    say: Words,
    key: str,
    chart: Any,
    *,
    table: Table | Columns,
    audit: str = "",
    of: str = "",
    **values: object,
) -> None:
    """Draw a figure with what it shows in words, and the same as a table and a CSV file.

    `chart` is a plotly figure, `audit` the digest whose log the export goes into; `values` fill
    the alternative text `KEY_alt`. `of` tells figures of one key on one page apart.
    """
    alt = draw_chart(say, key, chart, of=of, **values)
    name = f"{key}_{of}" if of else key
    with st.expander(say.text("as_table"), key=f"{name}_as_table"):
        draw_table(say, key, table, of=of, caption=alt, audit=audit)


def draw_chart(say: Words, key: str, chart: Any, *, of: str = "", **values: object) -> str:
    """Draw a figure whose numbers stand in a table under it; return what it shows, in words."""
    alt = say.text(f"{key}_alt", **values)
    shown = themed(chart, is_dark=st.context.theme.type == "dark")
    st.plotly_chart(shown, config=CONFIG, alt=alt, key=f"{key}_{of}" if of else key)
    return alt


def draw_table(
    say: Words,
    key: str,
    table: Table | Columns,
    *,
    caption: str = "",
    audit: str = "",
    names: str = "masked",
    of: str = "",
    **values: object,
) -> None:
    """Draw a table, and a button that hands out the same as CSV, in which counts are numbers.

    Under it stands the caption: `KEY_caption` with the values, if no other is given. `names` is
    the log's word for how it writes names; `of` tells tables of one key on one page apart.
    """
    caption = caption or say.text(f"{key}_caption", **values)
    if isinstance(table, Mapping):
        table = Table(list(table), list(zip(*table.values(), strict=True)))
    columns = [one if isinstance(one, tuple) else ("", one) for one in table.header]
    header = [tuple(_heading(say, key, part) for part in column) for column in columns]
    rows = [[_cell(one) for one in row] for row in table.rows]
    st.html(blocks.table(header, rows, caption=caption, n_merged=table.n_merged))
    titles = [f"{group}: {text}" if group else text for group, text in header]
    plain = [
        [one if isinstance(one, int) else _plain(_cell(one)) for one in row] for row in table.rows
    ]
    csv_button(say, f"{key}_{of}" if of else key, titles, plain, audit=audit, names=names)


def _cell(one: str | int | Cell) -> Cell:
    return one if isinstance(one, Cell) else Cell(f"{one:,}" if isinstance(one, int) else one)


def csv_button(
    say: Words, key: str, header: Sequence[str], rows: Iterable[Sequence[object]], **options: Any
) -> None:
    """Draw a button for the CSV of what is seen, guarded against formulas; as `file_button`."""
    kept = list(rows)
    file_button(say, key, lambda: write_table(list(header), kept, bom=True).encode(), **options)


def file_button(
    say: Words,
    key: str,
    make: Callable[[], bytes],
    *,
    form: str = "csv",
    audit: str = "",
    label: str = "csv",
    what: str = "",
    name: str = "",
    file_name: str = "",
    help: str | None = None,
    is_disabled: bool = False,
    **counts: int | str,
) -> None:
    """Draw a button for a file which is made once the log has noted it; grey for who may not.

    `form` is the end of the file's name, and what the log says of its format. Log and file say
    `what` it is: the key, if nothing else is given. `name` is the widget's own key where it is not
    `KEY_FORM`, `file_name` the file's where it is not what it is, and of which audit.
    """
    what = what or key.replace("_", "-")
    counts = {"names": "masked"} | counts
    st.download_button(
        say.text(label),
        data=logged_export(make, audit=audit, what=what, format=form, **counts),
        file_name=file_name or f"{what}{f'-{audit[:12]}' if audit else ''}.{form}",
        mime=_MIME.get(form, "application/octet-stream"),
        icon=":material/download:",
        key=name or f"{key}_{form}",
        help=help or say.sentences.get(f"{label}_help"),
        type="tertiary",
        disabled=is_disabled or not may_export(counts),
        on_click="ignore",
    )


def frame(
    say: Words,
    key: str,
    columns: Mapping[str, Sequence[object]],
    *,
    audit: str,
    **counts: int | str,
) -> None:
    """Draw a long table of names that can be sorted, and a button that hands out what is seen.

    Columns are called as those of `Columns`.
    """
    columns = {_heading(say, key, column): values for column, values in columns.items()}
    st.dataframe(columns, hide_index=True, key=key, alt=say.text(key))
    rows, names = list(zip(*columns.values(), strict=True)), names_in_files()
    csv_button(say, key, list(columns), rows, audit=audit, names=names, n_names=len(rows), **counts)


def facts(say: Words, key: str, values: Mapping[str, str], **options: Any) -> None:
    """Draw what is the case, each fact called as a column is; options as of `draw_table`."""
    rows = [(_heading(say, key, fact), value) for fact, value in values.items()]
    draw_table(say, key, Table(("fact", "value"), rows), **options)


def folded(say: Words, key: str, draw: Callable[[], None]) -> None:
    """Fold a section away under its name; it is drawn where it is open, as the link says."""
    box = st.expander(say.text(key), key=key, bind="query-params")
    if box.open:
        with box:
            draw()


@contextmanager
def card(say: Words, key: str, *, number: int) -> Iterator[Callable[[bool], None]]:
    """Draw a card of a form under the heading `KEY`; what is yielded says whether it is ready."""
    with st.container(border=True, key=key):
        place = st.empty()

        def is_done(is_ready: bool) -> None:
            kind, state = ("ready", "step_ready") if is_ready else ("open", "step_missing")
            place.html(
                f'<h2 class="ka-heading ka-step ka-is-{kind}"><b>{number}</b> {say.html(key)}'
                f"<span>{say.html(state)}</span></h2>"
            )

        is_done(False)
        yield is_done


def removal(say: Words, key: str, remove: Callable[[], None], *, leaves: str) -> None:
    """Draw a button that removes something, which asks once more; `leaves` leaves the link too."""
    if not may("removed"):
        return
    with st.popover(say.text(key), icon=":material/delete:", key=key):
        remark(say, f"{key}_why")
        if act(say, f"{key}_now", kind="primary"):
            try:
                remove()
            except AuditError as error:
                blocks.refused(say, error)
                return
            st.query_params.pop(leaves, None)
            st.rerun()


@contextmanager
def details(say: Words, key: str) -> Iterator[None]:
    """Fold away what few need: digests, hashes, symbols."""
    with st.expander(say.text("details"), key=f"{key}_details"):
        yield
