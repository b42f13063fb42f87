"""Pieces of a report's HTML: what comes in as text is escaped here, and nowhere later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

Cell = str | tuple[str, str]
"""A cell's text, or its text and a smaller one under it."""


def heading(text: str, *, level: int = 2) -> str:
    """Return a heading."""
    return f"<h{level}>{escape(text)}</h{level}>"


def paragraph(text: str, *, tone: str = "") -> str:
    """Return a paragraph; `tone` is a class of the style sheet."""
    return f'<p class="{tone}">{escape(text)}</p>' if tone else f"<p>{escape(text)}</p>"


def free_text(text: str) -> str:
    """Return text that somebody typed, its line breaks kept."""
    lines = "<br>".join(escape(line) for line in text.splitlines())
    return f'<p class="free">{lines}</p>'


def bullets(lines: Iterable[str]) -> str:
    """Return sentences as a list."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and values as a table of two columns."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="fact">{escape(value)}</td></tr>'
        for name, value in pairs
    )
    return f'<table class="facts"><tbody>{rows}</tbody></table>'


def table(
    header: Sequence[str], rows: Iterable[Sequence[Cell]], *, caption: str = "", n_text: int = 1
) -> str:
    """Return a table whose first `n_text` columns are words, the others numbers."""
    head = "".join(
        f'<th scope="col" class="{_column(place, n_text)}">{escape(name)}</th>'
        for place, name in enumerate(header)
    )
    body = "".join(
        "<tr>" + "".join(_cell(cell, place, n_text) for place, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    below = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table>{below}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(title: str, *, below: str, svg: str, table_title: str, as_table: str) -> str:
    """Return a picture with its title, what it shows, and its numbers as a table."""
    return (
        f"<figure>{heading(title, level=3)}<figcaption>{escape(below)}</figcaption>{svg}"
        f"<details><summary>{escape(table_title)}</summary>{as_table}</details></figure>"
    )


def _cell(cell: Cell, place: int, n_text: int) -> str:
    text, below = (cell, "") if isinstance(cell, str) else cell
    small = f"<small>{escape(below)}</small>" if below else ""
    return f'<td class="{_column(place, n_text)}">{escape(text)}{small}</td>'


def _column(place: int, n_text: int) -> str:
    return "text" if place < n_text else "number"
