"""Pieces of HTML: cards and tables, and headings that are drawn at once. Text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import streamlit as st

from audit.errors import AuditError
from audit.report.report import Share
from audit.stats import Estimate
from audit.words import Words
from pages.ui.text import (
    UNDEFINED,
    decimal,
    decimal_interval,
    escaped,
    percent,
    percent_interval,
)

_DAY = re.compile(r"\d{4}-\d\d")


@dataclass(frozen=True)
class Cell:
    """A table cell: a main text and a smaller one under it."""

    text: str
    below: str = ""
    is_number: bool = True
    n_columns: int = 1
    n_rows: int = 1
    tone: str = ""


@dataclass(frozen=True)
class Verdict:
    """A verdict; `state` chooses the card's look, the heading says it in words."""

    state: str
    eyebrow: str
    heading: str
    sentence: str
    footer: str


@dataclass(frozen=True)
class Figures:
    """A headline figure: what it is, its value, its interval, and others' as (who, value)."""

    label: str
    value: str
    interval: str
    others: tuple[tuple[str, str], ...]


def verdict(say: Words, key: str, *, state: str, **values: object) -> Verdict:
    """Return a verdict in the sentences `KEY_eyebrow`, `_heading`, `_sentence` and `_footer`.

    A sentence that is not there stays empty; all take the values.
    """
    parts = ("eyebrow", "heading", "sentence", "footer")
    texts = {
        part: say.text(f"{key}_{part}", **values) if f"{key}_{part}" in say.sentences else ""
        for part in parts
    }
    return Verdict(state, **texts)


def verdict_cards(cards: Iterable[Verdict]) -> str:
    """Return verdicts as cards beside each other, the first one the larger."""
    return f'<div class="ka-verdicts">{"".join(map(_verdict_card, cards))}</div>'


def _verdict_card(card: Verdict) -> str:
    return (
        f'<section class="ka-verdict ka-{escaped(card.state)}">'
        f'<p class="ka-eyebrow">{escaped(card.eyebrow)}</p>'
        f'<p class="ka-state" role="heading" aria-level="2">{escaped(card.heading)}</p>'
        f'<p class="ka-sentence">{escaped(card.sentence)}</p>'
        f'<p class="ka-footer">{escaped(card.footer)}</p></section>'
    )


def figure_cards(cards: Iterable[Figures]) -> str:
    """Return headline figures as cards beside each other."""
    pieces = []
    for card in cards:
        lines = "".join(
            f"<div><dt>{escaped(who)}</dt><dd>{escaped(what)}</dd></div>"
            for who, what in card.others
        )
        pieces.append(
            f'<div class="ka-card"><p class="ka-label">{escaped(card.label)}</p>'
            f'<p class="ka-value">{escaped(card.value)}</p>'
            f'<p class="ka-interval">{escaped(card.interval)}</p><dl>{lines}</dl></div>'
        )
    return f'<div class="ka-cards">{"".join(pieces)}</div>'


def table(header: Sequence[Sequence[Cell]], rows: Sequence[Sequence[Cell]], *, caption: str) -> str:
    """Return a table; the caption is what a screen reader announces."""
    head = "".join(_row(cells, tag="th") for cells in header)
    body = "".join(_row(cells, tag="td") for cells in rows)
    return (
        f'<div class="ka-scroll"><table class="ka-table"><caption>{escaped(caption)}</caption>'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def simple_table(
    header: Sequence[str | tuple[str, str]],
    rows: Iterable[Sequence[str | Cell]],
    *,
    caption: str,
    n_text: int | None = None,
    n_merged: int = 0,
) -> str:
    """Return a table of (group, heading) columns, or of headings alone.

    The first `n_text` columns are words and the others numbers; without it, those whose every cell
    is one. In the first `n_merged` columns cells that say the same stand as one.
    """
    titles = [one if isinstance(one, tuple) else ("", one) for one in header]
    made = [[one if isinstance(one, Cell) else Cell(one) for one in row] for row in rows]
    kinds = [
        place >= n_text if n_text is not None else all(_is_number(row[place].text) for row in made)
        for place in range(len(titles))
    ]
    above, first = [], set()
    for group, members in groupby(enumerate(titles), key=lambda one: one[1][0]):
        places = [place for place, _ in members]
        first |= {places[0]} if group else set()
        tone = "ka-group" if group else ""
        above.append(Cell(group, n_columns=len(places), tone=tone, is_number=False))

    def cells(row: Sequence[Cell]) -> list[Cell]:
        return [
            replace(
                cell,
                is_number=kinds[place],
                tone=f"{cell.tone} ka-first".strip() if place in first else cell.tone,
            )
            for place, cell in enumerate(row)
        ]

    heads = [above] if first else []
    heads.append(cells([Cell(text) for _, text in titles]))
    return table(heads, _merged(list(map(cells, made)), n=n_merged), caption=caption)


def _is_number(text: str) -> bool:
    return not _DAY.match(text) and not any(map(str.isalpha, text))


def _merged(rows: Sequence[Sequence[Cell]], *, n: int) -> list[list[Cell]]:
    """Rows in which a cell of the first `n` columns spans the rows that begin as its own does."""
    found = [list(row[n:]) for row in rows]
    for place in reversed(range(n)):
        at = 0
        for _, alike in groupby(rows, key=lambda row, place=place: row[: place + 1]):
            n_rows = len(list(alike))
            found[at].insert(0, replace(rows[at][place], n_rows=n_rows))
            at += n_rows
    return found


def measured(of: Estimate, *, digits: int | None = None) -> Cell:
    """Return an estimate with its interval under it: in percent, or with so many digits."""
    if digits is None:
        text, below = percent(of.value), percent_interval(of)
    else:
        text, below = decimal(of.value, digits=digits), decimal_interval(of, digits=digits)
    return Cell(text, below if below != UNDEFINED else "")


def counted(of: Share) -> Cell:
    """Return a rate with its counts, its interval under it; "—" of nothing."""
    share = measured(of)
    text = f"{of.n_hits} / {of.n_total} · {share.text}" if of.n_total else UNDEFINED
    return replace(share, text=text)


def bullet_list(lines: Iterable[str]) -> str:
    """Return sentences as a list."""
    return f'<ul class="ka-list">{"".join(f"<li>{escaped(line)}</li>" for line in lines)}</ul>'


def line(strong: str, rest: str, *, is_strong: bool = False) -> str:
    """Return one line of a list: what counts, then what it is about."""
    tone = " ka-here" if is_strong else ""
    return f'<p class="ka-line{tone}"><strong>{escaped(strong)}</strong> {escaped(rest)}</p>'


def ribbon(text: str, *, below: str) -> str:
    """Return the ribbon of a page that shows nothing real, with the sentence that says why."""
    return (
        f'<p class="ka-ribbon" role="note"><strong>{escaped(text)}</strong> '
        f"<span>{escaped(below)}</span></p>"
    )


def heading(text: str, *, below: str = "") -> str:
    """Return a section's heading, with a sentence under it."""
    sentence = f'<p class="ka-below">{escaped(below)}</p>' if below else ""
    title = f'<h2 class="ka-heading">{escaped(text)}</h2>' if text else ""
    return title + sentence


def step(letter: str, title: str, *, is_ready: bool, state: str) -> None:
    """Draw a card's heading: its letter, what it is, and in words whether it is done."""
    kind = "ka-is-ready" if is_ready else "ka-is-open"
    st.html(
        f'<h2 class="ka-heading ka-step {kind}"><b>{escaped(letter)}</b> {escaped(title)}'
        f"<span>{escaped(state)}</span></h2>"
    )


def refused(say: Words, error: AuditError) -> None:
    """Show why something cannot be used, and what to do."""
    st.html(
        f'<p class="ka-refused" role="alert"><b>{say.html("refused")}</b> '
        f"{escaped(error.written(say.language))}</p>"
    )


def _row(cells: Sequence[Cell], *, tag: str) -> str:
    return f"<tr>{''.join(_cell(cell, tag=tag) for cell in cells)}</tr>"


def _cell(cell: Cell, *, tag: str) -> str:
    classes = " ".join(filter(None, ("ka-number" if cell.is_number else "ka-text", cell.tone)))
    spans = f' colspan="{cell.n_columns}"' if cell.n_columns > 1 else ""
    spans += f' rowspan="{cell.n_rows}"' if cell.n_rows > 1 else ""
    below = f"<small>{escaped(cell.below)}</small>" if cell.below else ""
    return f'<{tag} class="{classes}"{spans}>{escaped(cell.text)}{below}</{tag}>'
