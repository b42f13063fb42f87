"""Text, cards and tables as HTML. All text is untrusted and is escaped here.

Pages show text of notes only through `note_text`, and names of people and models only through this
module. Markdown in a name could make a browser fetch a foreign image, and HTML could do worse. So
`escape_html` prepares text for `st.html` and for charts (plotly reads a few tags), and
`escape_markdown` prepares it for Streamlit labels.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

import streamlit as st

from audit import tables
from audit.errors import AuditError
from audit.stats import Estimate, Share
from audit.tables import UNDEFINED, decimal, decimal_interval
from audit.words import Words
from pages.ui.state import words

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&=^@/])")
_NUMBER = re.compile("[-+\N{MINUS SIGN}]?[0-9][0-9,.]*(?![0-9,.A-Za-z-])")
"""The beginning of a count such as "3 of 40", but not of a date or of a name such as "3b"."""


def escape_html(text: str) -> str:
    """Escape text for HTML."""
    return html.escape(text)


def message_html(message: str) -> str:
    """Return a message as HTML in which text between backticks is marked as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape_html(message))


def escape_markdown(text: str) -> str:
    """Escape text for Markdown, and join its lines."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


format_percent = tables.percent
format_percent_interval = tables.percent_interval


def format_moment(moment: str, *, has_zone: bool = True) -> str:
    """Format an ISO time stamp as date, hour and minute of the reader's time zone."""
    return tables.format_moment(moment, zone=reader_zone(), has_zone=has_zone)


def reader_zone() -> str:
    """Return the time zone that the browser names, or UTC."""
    return st.context.timezone or "UTC"


@dataclass(frozen=True)
class Cell:
    """A table cell: a main text, a smaller one under it, and one behind a question mark."""

    text: str
    below: str = ""
    hint: str = ""
    n_columns: int = 1
    n_rows: int = 1
    tone: str = ""


STATE_MARKS = {
    "leak_found": "\N{BLACK SQUARE}",
    "membership_not_shown": "\N{SQUARE WITH LEFT HALF BLACK}",
    "none_found": "\N{WHITE SQUARE}",
    "not_enough_evidence": "?",
    "ill_matched": "\N{NOT EQUAL TO}",
    "not_compared": "=",
}
"""State of a verdict -> the mark before its words."""


def state_mark(state: str) -> str:
    """Return a state's mark as HTML that screen readers skip; "" for other states."""
    mark = STATE_MARKS.get(state, "")
    tone = f"ka-sign ka-{escape_html(state)}"
    return f'<span class="{tone}" aria-hidden="true">{mark}</span>' if mark else ""


@dataclass(frozen=True)
class Verdict:
    """A verdict; `state` sets the look of its card, the heading states it in words."""

    state: str
    eyebrow: str
    heading: str
    sentence: str
    footer: str


@dataclass(frozen=True)
class Figures:
    """A headline figure with its interval; comparisons are (source, value) pairs."""

    label: str
    value: str
    interval: str
    comparisons: tuple[tuple[str, str], ...]


def verdict_cards(cards: Iterable[Verdict]) -> str:
    """Return verdicts as cards beside each other, the first one the larger."""
    return f'<div class="ka-verdicts">{"".join(map(_verdict_card, cards))}</div>'


def _verdict_card(card: Verdict) -> str:
    return (
        f'<section class="ka-verdict ka-{escape_html(card.state)}">'
        f'<p class="ka-eyebrow">{state_mark(card.state)}{escape_html(card.eyebrow)}</p>'
        f'<p class="ka-state" role="heading" aria-level="2">{escape_html(card.heading)}</p>'
        f'<p class="ka-sentence">{escape_html(card.sentence)}</p>'
        f'<p class="ka-footer">{escape_html(card.footer)}</p></section>'
    )


def figure_cards(cards: Iterable[Figures]) -> str:
    """Return headline figures as cards beside each other."""
    pieces = []
    for card in cards:
        lines = "".join(
            f"<div><dt>{escape_html(source)}</dt><dd>{escape_html(figure)}</dd></div>"
            for source, figure in card.comparisons
        )
        pieces.append(
            f'<div class="ka-card"><p class="ka-label">{escape_html(card.label)}</p>'
            f'<p class="ka-value">{escape_html(card.value)}</p>'
            f'<p class="ka-interval">{escape_html(card.interval)}</p><dl>{lines}</dl></div>'
        )
    return f'<div class="ka-cards">{"".join(pieces)}</div>'


def table(
    header: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Cell]],
    *,
    caption: str,
    n_merged: int = 0,
) -> str:
    """Return a table of (group, heading) columns; a screen reader announces it by the caption.

    A column is aligned right if each of its cells is a number or begins with one. In the first
    `n_merged` columns, equal cells below each other are merged.
    """
    is_number = [all(_is_number(row[column].text) for row in rows) for column in range(len(header))]
    group_cells, first_places = [], set()
    for group, members in groupby(
        enumerate(header), key=lambda numbered_column: numbered_column[1][0]
    ):
        places = [place for place, _ in members]
        first_places |= {places[0]} if group else set()
        group_cells.append(
            Cell(group, n_columns=len(places), tone="ka-text" + " ka-group" * bool(group))
        )

    def style_cells(row: Sequence[Cell]) -> list[Cell]:
        looks = zip(row, is_number, strict=True)
        return [
            replace(
                cell,
                tone=f"{'ka-number' if is_right else 'ka-text'} {cell.tone}".strip()
                + " ka-first" * (place in first_places),
            )
            for place, (cell, is_right) in enumerate(looks)
        ]

    heads = [group_cells] * bool(first_places) + [style_cells([Cell(text) for _, text in header])]
    head, body = (
        "".join(f"<tr>{''.join(_cell_html(cell, tag=tag) for cell in line)}</tr>" for line in lines)
        for tag, lines in (
            ("th", heads),
            ("td", _merge_cells(list(map(style_cells, rows)), n=n_merged)),
        )
    )
    return (
        f'<div class="ka-scroll"><table class="ka-table" aria-label="{escape_html(caption)}">'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _is_number(text: str) -> bool:
    if _NUMBER.match(text):
        return True
    return not re.match(r"\d{4}-\d\d", text) and not any(map(str.isalpha, text))


def _merge_cells(rows: Sequence[Sequence[Cell]], *, n: int) -> list[list[Cell]]:
    """Merge each cell of the first `n` columns with the equal cells of the rows below it."""
    merged_rows = [list(row[n:]) for row in rows]
    for place in reversed(range(n)):
        row_number = 0
        for _, alike in groupby(rows, key=itemgetter(slice(place + 1))):
            n_rows = len(list(alike))
            merged_rows[row_number].insert(0, replace(rows[row_number][place], n_rows=n_rows))
            row_number += n_rows
    return merged_rows


def _cell_html(cell: Cell, *, tag: str) -> str:
    spans = f' colspan="{cell.n_columns}"' if cell.n_columns > 1 else ""
    spans += f' rowspan="{cell.n_rows}"' if cell.n_rows > 1 else ""
    below = f"<small>{escape_html(cell.below)}</small>" if cell.below else ""
    content = f"{escape_html(cell.text)}{below}{fold(cell.hint)}"
    return f'<{tag} class="{cell.tone}"{spans}>{content}</{tag}>'


def estimate_cell(estimate: Estimate, *, digits: int | None = None) -> Cell:
    """Return a cell with an estimate and its interval, in percent or with `digits` digits."""
    if digits is None:
        text, below = format_percent(estimate.value), format_percent_interval(estimate)
    else:
        text, below = (
            decimal(estimate.value, digits=digits),
            decimal_interval(estimate, digits=digits),
        )
    return Cell(text, below if below != UNDEFINED else "")


def share_cell(share: Share) -> Cell:
    """Return a cell with a rate, its counts and its interval; "—" if the total is zero."""
    percent_cell = estimate_cell(share)
    text = f"{share.n_hits} / {share.n_total} · {percent_cell.text}" if share.n_total else UNDEFINED
    return replace(percent_cell, text=text)


def bullet_list(lines: Iterable[str]) -> str:
    """Return sentences as a list."""
    return f'<ul class="ka-list">{"".join(f"<li>{escape_html(line)}</li>" for line in lines)}</ul>'


def line(strong: str, rest: str, *, is_strong: bool = False, state: str = "") -> str:
    """Return one line of a list, its main point in bold; `state` is a verdict's."""
    tone = " ka-here" if is_strong else ""
    text = f"{state_mark(state)}<strong>{escape_html(strong)}</strong> {escape_html(rest)}"
    return f'<p class="ka-line{tone}">{text}</p>'


def heading(text: str, *, below: str = "", hint: str = "") -> str:
    """Return a section's heading, with a sentence under it and one behind a question mark."""
    sentence = f'<p class="ka-below">{escape_html(below)}</p>' if below else ""
    title = f'<h2 class="ka-heading">{escape_html(text)}</h2>' if text else ""
    if hint and title:
        title = f'<div class="ka-headed">{title}{fold(hint)}</div>'
    elif hint:
        sentence = f'<div class="ka-headed">{sentence}{fold(hint)}</div>'
    return title + sentence


def fold(text: str) -> str:
    """Return a question mark that unfolds a text; "" without a text."""
    mark = f'<summary title="{words().html("explain")}">?</summary>'
    return f'<details class="ka-fold">{mark}<p>{escape_html(text)}</p></details>' if text else ""


def draw_refusal(say: Words, error: AuditError) -> None:
    """Draw why something cannot be used, and what to do."""
    st.html(
        f'<p class="ka-refused" role="alert"><b>{say.html("refused")}</b> '
        f"{message_html(error.render(say.language))}</p>"
    )


def draw_unforeseen_error(_: Exception) -> bool:
    """Draw in the reader's language that the program failed; the server's log says where."""
    st.html(f'<p class="ka-refused ka-unforeseen" role="alert">{words().html("unforeseen")}</p>')
    return True
