"""What is shown as HTML: text, cards, tables; text is untrusted, escaped here.

Text of notes is shown through `note_text` alone, names of people and of models only through these.
Markdown in a name would make a browser fetch a foreign image, HTML would be worse: so text goes
into `st.html` through `escaped`, into a Streamlit label through `plain`, into a chart through
`escaped` too (plotly reads a few tags).
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import streamlit as st

from audit.errors import AuditError
from audit.report.report import Share
from audit.stats import Estimate
from audit.tables import UNDEFINED, decimal, decimal_interval
from audit.words import Words
from pages.ui.state import words

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&=^@/])")
_NUMBER = re.compile("[-+\N{MINUS SIGN}]?[0-9][0-9,.]*(?![0-9,.A-Za-z-])")
"""What a count begins with, as "3 of 40"; neither a day nor a name as "3b"."""


def escaped(text: str) -> str:
    """Return text as HTML that shows it as it is."""
    return html.escape(text)


def told(message: str) -> str:
    """Return a message as HTML in which what stands between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escaped(message))


def plain(text: str) -> str:
    """Return text as Markdown that shows it as it is, in one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def percent(share: float) -> str:
    """Return a fraction as percent with one decimal."""
    return UNDEFINED if math.isnan(share) else f"{100 * share:.1f} %"


def percent_interval(estimate: Estimate) -> str:
    """Return a fraction's interval as percent."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return UNDEFINED
    low, high = (f"{100 * bound:.1f}" for bound in (estimate.low, estimate.high))
    return f"{low} – {high} %".replace("-", "\N{MINUS SIGN}")


def day(moment: str) -> str:
    """Return the date and minute of an ISO time stamp."""
    return moment[:16].replace("T", " ")


@dataclass(frozen=True)
class Cell:
    """A table cell: a main text and a smaller one under it."""

    text: str
    below: str = ""
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
"""What stands before the words of a verdict's state."""


def state_mark(state: str) -> str:
    """Return a state's mark as HTML, which screen readers pass over; "" for other states."""
    mark = STATE_MARKS.get(state, "")
    tone = f"ka-sign ka-{escaped(state)}"
    return f'<span class="{tone}" aria-hidden="true">{mark}</span>' if mark else ""


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


def verdict_cards(cards: Iterable[Verdict]) -> str:
    """Return verdicts as cards beside each other, the first one the larger."""
    return f'<div class="ka-verdicts">{"".join(map(_verdict_card, cards))}</div>'


def _verdict_card(card: Verdict) -> str:
    return (
        f'<section class="ka-verdict ka-{escaped(card.state)}">'
        f'<p class="ka-eyebrow">{state_mark(card.state)}{escaped(card.eyebrow)}</p>'
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


def table(
    header: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Cell]],
    *,
    caption: str,
    n_merged: int = 0,
) -> str:
    """Return a table of (group, heading) columns; the caption is what a screen reader announces.

    Columns whose every cell is a number, or begins with one, stand to the right. In the first
    `n_merged` columns cells that say the same stand as one.
    """
    is_number = [all(_is_number(row[at].text) for row in rows) for at in range(len(header))]
    above, first = [], set()
    for group, members in groupby(enumerate(header), key=lambda one: one[1][0]):
        places = [place for place, _ in members]
        first |= {places[0]} if group else set()
        above.append(Cell(group, n_columns=len(places), tone="ka-text" + " ka-group" * bool(group)))

    def cells(row: Sequence[Cell]) -> list[Cell]:
        looks = zip(row, is_number, strict=True)
        return [
            replace(
                cell,
                tone=f"{'ka-number' if is_right else 'ka-text'} {cell.tone}".strip()
                + " ka-first" * (place in first),
            )
            for place, (cell, is_right) in enumerate(looks)
        ]

    heads = [above] * bool(first) + [cells([Cell(text) for _, text in header])]
    head, body = (
        "".join(f"<tr>{''.join(_cell(cell, tag=tag) for cell in line)}</tr>" for line in lines)
        for tag, lines in (("th", heads), ("td", _merged(list(map(cells, rows)), n=n_merged)))
    )
    return (
        f'<div class="ka-scroll"><table class="ka-table"><caption>{escaped(caption)}</caption>'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _is_number(text: str) -> bool:
    if _NUMBER.match(text):
        return True
    return not re.match(r"\d{4}-\d\d", text) and not any(map(str.isalpha, text))


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


def _cell(cell: Cell, *, tag: str) -> str:
    spans = f' colspan="{cell.n_columns}"' if cell.n_columns > 1 else ""
    spans += f' rowspan="{cell.n_rows}"' if cell.n_rows > 1 else ""
    below = f"<small>{escaped(cell.below)}</small>" if cell.below else ""
    return f'<{tag} class="{cell.tone}"{spans}>{escaped(cell.text)}{below}</{tag}>'


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


def line(strong: str, rest: str, *, is_strong: bool = False, state: str = "") -> str:
    """Return one line of a list: what counts, then what it is about; `state` is a verdict's."""
    tone = " ka-here" if is_strong else ""
    text = f"{state_mark(state)}<strong>{escaped(strong)}</strong> {escaped(rest)}"
    return f'<p class="ka-line{tone}">{text}</p>'


def heading(text: str, *, below: str = "") -> str:
    """Return a section's heading, with a sentence under it."""
    sentence = f'<p class="ka-below">{escaped(below)}</p>' if below else ""
    title = f'<h2 class="ka-heading">{escaped(text)}</h2>' if text else ""
    return title + sentence


def refused(say: Words, error: AuditError) -> None:
    """Show why something cannot be used, and what to do."""
    st.html(
        f'<p class="ka-refused" role="alert"><b>{say.html("refused")}</b> '
        f"{told(error.render(say.language))}</p>"
    )


def unforeseen(_: Exception) -> bool:
    """Say in the reader's words that the program made a mistake; the server's log says where."""
    st.html(f'<p class="ka-refused ka-unforeseen" role="alert">{words().html("unforeseen")}</p>')
    return True
