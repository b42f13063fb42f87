"""Cards of generated documents: both models beside each other, the listed names in them marked."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from audit.report.documents import DocumentView, Hit
from pages.ui.language import Words
from pages.ui.marks import MarkLabel, marked
from pages.ui.text import escaped


def mark_label(
    say: Words, hit: Hit, *, table: pd.DataFrame, wanted: int | None = None
) -> MarkLabel:
    """Return the words beside a mark: what of a name it is, whose, and whether it stands out.

    Of several names `wanted` comes first, then those that stand out, then other tested names.
    """
    order = ("flagged", "member", "control")
    names = sorted(
        hit.name_ids, key=lambda i: (i != wanted, order.index(name_tone(table, name_id=i)), i)
    )
    tone = name_tone(table, name_id=names[0])
    numbers = table["number"][names[0]] + (f" +{len(names) - 1}" if len(names) > 1 else "")
    part = say.text(f"documents_part_{hit.part}")
    return MarkLabel(say.text(f"documents_mark_{tone}", part=part, numbers=numbers), tone)


def name_tone(table: pd.DataFrame, *, name_id: int) -> str:
    """Return whether a name stands out ("flagged"), is tested ("member"), or a "control"."""
    if table["kind"][name_id] not in ("member", "unknown"):
        return "control"
    return "flagged" if table["decision"][name_id] == "flagged" else "member"


def pair_cards(
    say: Words,
    view: DocumentView,
    *,
    numbers: Sequence[int],
    table: pd.DataFrame,
    wanted: int | None,
    is_revealed: bool,
) -> str:
    """Return documents as HTML, a card a number."""
    cards = []
    for number in numbers:
        title = say.text("documents_one", number=number)
        columns = []
        for model in view.models:
            text = marked(
                model.texts[number],
                marks=model.marks(number),
                label=lambda hit: mark_label(say, hit, table=table, wanted=wanted),
                is_revealed=is_revealed,
            )
            who = escaped(say.text(f"column_{model.who}"))
            columns.append(f'<div><h3>{who}</h3><p class="ka-document">{text}</p></div>')
        cards.append(
            f'<section class="ka-pair"><p>{escaped(title)}</p>'
            f"<div>{''.join(columns)}</div></section>"
        )
    return "".join(cards)
