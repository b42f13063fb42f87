"""A kept corpus: who is named in it and how, what was not understood, which rows were refused."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from audit.corpus.examine import Examination, ListedNames
from audit.corpus.kept import KeptCorpus
from audit.errors import written
from pages.ui import blocks, cached, charts
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.corpus_look import draw_categories
from pages.ui.corpus_view import CountBin, CountView, beside_paper, refused_rows
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, day, escaped, percent


def count_chart(view: CountView, *, x: str, y: str, labels: tuple[str, str]) -> go.Figure:
    """Return the share of names in each bin: this corpus rust, the paper grey and hatched."""
    ticks = [bin_label(one) for one in view.bins]
    figure = go.Figure()
    for shares, label, colour, pattern in (
        ([one.here for one in view.bins], labels[0], RUST, ""),
        ([one.paper for one in view.bins], labels[1], GREY, "/"),
    ):
        figure.add_bar(
            x=ticks,
            y=[100 * share for share in shares],
            name=escaped(label),
            marker={"color": colour, "pattern": {"shape": pattern, "size": 5, "solidity": 0.25}},
            hovertemplate="%{x}: %{y:.1f} %<extra></extra>",
        )
    figure.update_xaxes(title=x, type="category", showgrid=False)
    figure.update_yaxes(
        title=y, gridcolor=LINE, zeroline=False, ticksuffix=" %", rangemode="tozero"
    )
    return figure.update_layout(
        barmode="group",
        height=300,
        margin={"l": 10, "r": 16, "t": 30, "b": 10},
        font={"size": 13},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )


def bin_label(one: CountBin) -> str:
    """Return the bounds of a bin: "1", "6–10" or "101+"."""
    if one.high is None:
        return f"{one.low}+"
    return str(one.low) if one.low == one.high else f"{one.low}–{one.high}"


_MAX_ROWS = 200
PARTS = ("coverage", "tables", "names", "left")


def draw_report(say: Words, corpus: KeptCorpus) -> None:
    """Draw all that was counted."""
    found = cached.examination(corpus)
    draw_facts(say, corpus, found)
    draw_cards(say, found)
    coverage, tables, names, left = st.tabs([say.text(f"corpus_part_{part}") for part in PARTS])
    with coverage:
        draw_coverage(say, found)
    with tables:
        draw_tables(say, found)
    with names:
        draw_candidates(say, found)
        draw_carriers(say, found)
    with left:
        draw_left(say, corpus, found)


def draw_facts(say: Words, corpus: KeptCorpus, found: Examination) -> None:
    """Draw what the corpus is, and in one sentence what its names are."""
    title = corpus.title or corpus.source
    st.html(blocks.heading(title, below=say.text(f"corpus_is_{corpus.kind}")))
    rows = [
        (say.text("corpus_fact_source"), corpus.source),
        (say.text("corpus_fact_built"), day(corpus.created)),
        (say.text("corpus_fact_seed"), str(corpus.seed)),
        (say.text("corpus_fact_notes"), f"{found.n_notes:,}"),
        (say.text("corpus_fact_patients"), f"{found.n_patients:,}"),
    ]
    if corpus.kind == "dummy":
        n_inserted = sum(one.n for one in found.inserted)
        rows.append((say.text("corpus_fact_inserted"), f"{n_inserted:,}"))
    rows.append((say.text("corpus_fact_unknown"), f"{n_unknown(found):,}"))
    rows.append((say.text("corpus_fact_refused"), f"{found.n_refused:,}"))
    header = [say.text("setup_column_fact"), say.text("setup_column_value")]
    with st.container(key="corpus_facts"):
        caption = say.text("corpus_facts_caption")
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))


def n_unknown(found: Examination) -> int:
    """Return how many places were not understood and left as they were."""
    return sum(one.n for one in found.unknown) + found.n_malformed


def draw_cards(say: Words, found: Examination) -> None:
    """Draw the headline figures, each with the number it is a share of."""
    coverage = found.coverage
    cards = [
        blocks.Figures(
            say.text("corpus_card_mentions"),
            f"{coverage.n_mentions:,}",
            say.text(
                "corpus_card_mentions_of",
                n=f"{coverage.n_notes_with_mention:,}",
                of=f"{coverage.n_notes:,}",
            ),
            ((say.text("corpus_card_full"), f"{coverage.n_full:,}"),),
        ),
        blocks.Figures(
            say.text("corpus_card_elsewhere"),
            f"{coverage.n_elsewhere:,}",
            say.text("corpus_card_elsewhere_of", of=f"{coverage.n_true_names:,}"),
            ((say.text("corpus_card_beside_age"), f"{coverage.n_true_names_mentioned:,}"),),
        ),
        blocks.Figures(
            say.text("corpus_card_positives"),
            f"{found.n_positives:,}",
            say.text(
                "corpus_card_positives_of",
                patterns=f"{found.n_patterns:,}",
                mentions=f"{found.n_occurrences:,}",
            ),
            ((say.text("corpus_card_not_one_token"), f"{found.n_not_one_token:,}"),),
        ),
    ]
    st.html(blocks.figure_cards(cards))


def draw_coverage(say: Words, found: Examination) -> None:
    """Draw what the mention finder found by form, and which ages it left and why."""
    coverage = found.coverage
    left, right = st.columns(2, gap="large")
    with left:
        st.html(blocks.heading(say.text("corpus_forms"), below=say.text("corpus_forms_below")))
        rows = [(say.text(f"corpus_form_{form}"), f"{n:,}") for form, n in coverage.by_form]
        rows.append((say.text("corpus_all"), f"{coverage.n_mentions:,}"))
        header = [say.text("corpus_column_form"), say.text("corpus_column_mentions")]
        st.html(blocks.simple_table(header, rows, caption=say.text("corpus_forms_caption")))
    with right:
        st.html(blocks.heading(say.text("corpus_reasons"), below=say.text("corpus_reasons_below")))
        rows = [(say.text(f"corpus_reason_{code}"), f"{n:,}") for code, n in coverage.by_reason]
        header = [say.text("corpus_column_reason"), say.text("corpus_column_ages")]
        st.html(blocks.simple_table(header, rows, caption=say.text("corpus_reasons_caption")))
    if coverage.n_by_role:
        rows = [(role_name(say, role), f"{n:,}") for role, n in coverage.n_by_role]
        rows.append((say.text("corpus_of_nobody"), f"{coverage.n_of_nobody:,}"))
        header = [say.text("corpus_column_whose"), say.text("corpus_column_mentions")]
        st.html(blocks.simple_table(header, rows, caption=say.text("corpus_roles_caption")))


def draw_tables(say: Words, found: Examination) -> None:
    """Draw tables 3 and 4 of the paper beside this corpus's."""
    st.html(blocks.heading("", below=say.text("corpus_tables_below")))
    for which, table in (("patterns", found.pattern_table), ("mentions", found.mention_table)):
        draw_table(say, beside_paper(table, which=which), which=which)


def draw_table(say: Words, view: CountView, *, which: str) -> None:
    """Draw one table as a chart and as a table."""
    title, below = say.text(f"corpus_table_{which}"), say.text(f"corpus_table_{which}_below")
    st.html(blocks.heading(title, below=below))
    if not view.bins:
        st.html(blocks.heading("", below=say.text("corpus_no_names")))
        return
    axis = say.text(f"corpus_axis_{which}")
    labels = (say.text("corpus_this"), say.text("corpus_paper"))
    figure = count_chart(view, x=axis, y=say.text("corpus_axis_share"), labels=labels)
    alt = say.text(f"corpus_table_{which}_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key=f"corpus_chart_{which}")
    with st.expander(say.text("as_table"), key=f"corpus_chart_{which}_table"):
        rows = [
            (
                f"{row.count:,}",
                f"{row.n_here:,}",
                percent(row.n_here / view.n_names),
                f"{row.n_paper:,}",
                percent(row.n_paper / view.n_paper_names),
            )
            for row in view.rows
        ]
        rows.append(
            (say.text("corpus_all"), f"{view.n_names:,}", "", f"{view.n_paper_names:,}", "")
        )
        header = [axis, labels[0], say.text("column_share"), labels[1], say.text("column_share")]
        caption = say.text(
            "corpus_table_caption",
            n=f"{view.n_names:,}",
            total=f"{view.n_total:,}",
            n_paper=f"{view.n_paper_names:,}",
            total_paper=f"{view.n_paper_total:,}",
        )
        st.html(blocks.simple_table(header, rows, caption=caption))


def draw_candidates(say: Words, found: Examination) -> None:
    """Draw the candidate list by kind and role, and the canaries by how often they were planted."""
    st.html(blocks.heading(say.text("corpus_list"), below=say.text("corpus_list_below")))
    rows = [
        (kind_name(say, one), role_name(say, one.role), f"{one.n:,}") for one in found.candidates
    ]
    header = [say.text("column_kind"), say.text("corpus_column_role"), say.text("column_n")]
    st.html(blocks.simple_table(header, rows, caption=say.text("corpus_list_caption"), n_text=2))
    if found.n_listed_positives < found.n_positives:
        values = {"k": f"{found.n_listed_positives:,}", "n": f"{found.n_positives:,}"}
        st.html(blocks.heading("", below=say.text("corpus_list_drawn", **values)))
    if found.canaries:
        st.html(
            blocks.heading(
                say.text("corpus_canaries_title"), below=say.text("corpus_canaries_below")
            )
        )
        rows = [(f"{count:,}", f"{n:,}", f"{n:,}") for count, n in found.canaries]
        header = [
            say.text("column_mentions"),
            say.text("corpus_column_planted"),
            say.text("corpus_column_twins"),
        ]
        caption = say.text("corpus_canaries_caption")
        st.html(blocks.simple_table(header, rows, caption=caption))


def draw_carriers(say: Words, found: Examination) -> None:
    """Draw how many people of each role carry the names of the list's patients."""
    if not any(table for _, table in found.carriers):
        return
    st.html(blocks.heading(say.text("corpus_carriers"), below=say.text("corpus_carriers_below")))
    tables = [dict(table) for _, table in found.carriers]
    rows = [
        (f"{count:,}", *(f"{table.get(count, 0):,}" for table in tables))
        for count in sorted({count for table in tables for count in table})[:_MAX_ROWS]
    ]
    header = [say.text("corpus_column_people")]
    header += [role_name(say, role) for role, _ in found.carriers]
    st.html(blocks.simple_table(header, rows, caption=say.text("corpus_carriers_caption")))


def draw_left(say: Words, corpus: KeptCorpus, found: Examination) -> None:
    """Draw what was inserted by category, what was not understood, and which rows were refused."""
    if corpus.kind == "dummy":
        is_all = not found.unknown and not found.n_malformed
        below = say.text("corpus_unknown_none" if is_all else "corpus_unknown_below")
        st.html(blocks.heading(say.text("corpus_unknown"), below=below))
        if found.n_malformed:
            n = f"{found.n_malformed:,}"
            st.html(blocks.heading("", below=say.text("corpus_malformed", n=n)))
        if found.unknown:
            draw_categories(say, found.unknown, key="unknown")
        with st.expander(say.text("corpus_inserted", n=len(found.inserted)), key="corpus_inserted"):
            draw_categories(say, found.inserted, key="inserted")
    draw_refused(say, corpus, found)


def draw_refused(say: Words, corpus: KeptCorpus, found: Examination) -> None:
    """Draw the rows that became no notes."""
    title = say.text("corpus_refused", n=f"{found.n_refused:,}")
    if not found.n_refused:
        st.html(blocks.heading(title, below=say.text("corpus_refused_none")))
        return
    st.html(blocks.heading(title, below=say.text("corpus_refused_below")))
    rows = refused_rows(corpus.path, limit=_MAX_ROWS)
    header = [say.text("setup_column_row"), say.text("setup_column_remark")]
    lines = [(f"{one.row:,}", written(one.what, say.language)) for one in rows]
    caption = say.text("setup_notes_caption", shown=len(lines), n=f"{found.n_refused:,}")
    st.html(blocks.simple_table(header, lines, caption=caption, n_text=2))


def kind_name(say: Words, one: ListedNames) -> str:
    """Return what names of a list are called."""
    if one.control_kind == "matched":
        return say.text("corpus_matched")
    if one.control_kind:
        return say.text(f"kind_{one.control_kind}")
    return say.text("kind_planted" if one.role == "canary" else "kind_member")


def role_name(say: Words, role: str) -> str:
    """Return what a role is called; a role that is not known as it is (untrusted text)."""
    if not role:
        return UNDEFINED
    known = f"corpus_role_{role}"
    return say.text(known) if known in say.sentences else role
