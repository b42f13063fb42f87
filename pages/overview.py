"""Overview: may this model leave the building? The verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from audit.attack.decisions import ALPHA
from audit.errors import written
from audit.report.names import N_STRONGEST, kind_scores, strongest_names
from audit.report.report import AuditReport, Ranking
from pages.ui import blocks, cached, charts
from pages.ui.language import Words, link, words
from pages.ui.mention_chart import mention_chart
from pages.ui.place import Place, place
from pages.ui.reveal import is_revealed, shown_name
from pages.ui.start import recent_audits, start_cards
from pages.ui.text import day, decimal, decimal_interval, percent, percent_interval, small


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("overview_title"), anchor=False)
    try:
        here = place()
        if here.audit is None:
            draw_nothing(say, here)
            return
        report = cached.report(here.audit.digest)
        other = cached.report(here.other.digest) if here.other else None
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))
        return
    draw_verdicts(say, report, other)
    if planted := report.details.canaries:
        st.html(blocks.heading("", below=planted.sentence(say.language)))
    st.html(blocks.figure_cards(headline_cards(say, report)))
    draw_charts(say, report)
    draw_names_and_limits(say, report)
    link("measures", label=say.text("paper_link"), audit=report.digest)
    recent_audits(say, here.kept, shown=report.digest)
    start_cards(say)
    if report.notes:
        with st.expander(say.text("notes")):
            st.html(blocks.bullet_list(written(one, say.language) for one in report.notes))


def draw_nothing(say: Words, here: Place) -> None:
    """Say what to do where there is no audit to show."""
    if here.kept:
        st.html(blocks.heading(say.text("wrong_link"), below=say.text("wrong_link_do")))
        newest = here.kept[0]
        link("overview", label=say.text("open_newest"), audit=newest.digest)
        return
    if here.n_unreadable:
        below = say.text("unreadable_do", n=here.n_unreadable)
        st.html(blocks.heading(say.text("unreadable"), below=below))
    else:
        st.html(blocks.heading(say.text("empty"), below=say.text("empty_why")))
    start_cards(say)


def draw_verdicts(say: Words, report: AuditReport, other: AuditReport | None) -> None:
    """Draw the verdict, and the other scenario's beside it."""
    beside = verdict(say, other) if other else no_verdict(say, report)
    st.html(blocks.verdict_cards([verdict(say, report), beside]))
    if other:
        link(
            "overview", label=say.text(f"open_scenario_{other.scenario.number}"), audit=other.digest
        )
    if now := report.verdict.now(say.language):
        st.html(blocks.heading(say.text("what_now"), below=now))


def verdict(say: Words, report: AuditReport) -> blocks.Verdict:
    """Return a verdict in the reader's words."""
    return blocks.Verdict(
        state=report.verdict.state,
        eyebrow=say.text(f"scenario_{report.scenario.number}"),
        heading=say.text(f"state_{report.verdict.state}"),
        sentence=report.verdict.facts(say.language),
        footer=say.text(
            "audit_footer",
            hospital=report.models["hospital"].name,
            general=report.models["general"].name,
            at=day(report.at),
            digest=report.digest[:12],
        ),
    )


def no_verdict(say: Words, report: AuditReport) -> blocks.Verdict:
    """Return the card of a scenario that has not been run."""
    return blocks.Verdict(
        state="missing",
        eyebrow=say.text("scenario_2" if report.scenario.number == 1 else "scenario_1"),
        heading=say.text("no_other"),
        sentence=say.text("no_other_do"),
        footer="",
    )


def headline_cards(say: Words, report: AuditReport) -> list[blocks.Figures]:
    """Return the headline figures, each with what M_general and trivial guesses reach."""
    cards = []
    strata = report.measures.strata
    for name in ("easy", "hard") if "easy" in strata else ("all",):
        if name in strata:
            cards.append(auc_card(say, name, report.headline(name)))
    flagged, controls = report.verdict.flagged, report.controls_flagged
    cards.append(
        blocks.Figures(
            label=say.text("card_flagged"),
            value=say.text("k_of_n", k=flagged.n_hits, n=flagged.n_total),
            interval=percent_interval(flagged.interval()),
            others=(
                (
                    say.text("who_controls"),
                    say.text("k_of_n", k=controls.n_hits, n=controls.n_total),
                ),
                (say.text("who_reference"), str(report.candidates.n_reference)),
            ),
        )
    )
    if "all" in strata:
        attack, *others = ((who, one.tpr(0.01)) for who, one in report.headline("all").items())
        cards.append(
            blocks.Figures(
                label=say.text("card_tpr"),
                value=percent(attack[1].value),
                interval=percent_interval(attack[1]),
                others=tuple((say.text(f"who_{who}"), percent(tpr.value)) for who, tpr in others),
            )
        )
    return cards


def auc_card(say: Words, stratum: str, rankings: Mapping[str, Ranking]) -> blocks.Figures:
    """Return the AUC against one kind of controls, with its comparisons."""
    attack, *others = ((who, ranking.auc) for who, ranking in rankings.items())
    return blocks.Figures(
        label=say.text(f"card_auc_{stratum}"),
        value=decimal(attack[1].value),
        interval=decimal_interval(attack[1]),
        others=tuple(
            (
                say.text(f"who_{who}"),
                f"{decimal(auc.value, digits=2)} ({decimal_interval(auc, digits=2)})",
            )
            for who, auc in others
        ),
    )


def draw_charts(say: Words, report: AuditReport) -> None:
    """Draw scores by kind of names, and detection against mentions where mentions are known."""
    left, right = st.columns(2, gap="large") if report.mentions else (st.container(), None)
    with left:
        draw_scores(say, report)
    if right:
        with right:
            draw_mentions(say, report)


def draw_scores(say: Words, report: AuditReport) -> None:
    """Draw one dot per name."""
    st.html(blocks.heading(say.text("scores_title"), below=say.text("scores_below")))
    kinds = kind_scores(report.table)
    labels = {
        kind.kind: say.text("kind_n", kind=say.text(f"kind_{kind.kind}"), n=len(kind.scores))
        for kind in kinds
    }
    figure = charts.scores_by_kind(
        kinds,
        labels=labels,
        axis=say.text(f"axis_{report.fixed_score}"),
    )
    st.plotly_chart(figure, config=charts.CONFIG, alt=say.text("scores_alt"), key="scores")
    with st.expander(say.text("as_table")):
        rows = [
            (
                say.text(f"kind_{kind.kind}"),
                str(len(kind.scores)),
                str(kind.n_not_scored),
                *(small(value) for value in kind.quartiles),
            )
            for kind in kinds
        ]
        header = [say.text(f"column_{c}") for c in ("kind", "n", "missing", "q1", "median", "q3")]
        st.html(blocks.simple_table(header, rows, caption=say.text(f"axis_{report.fixed_score}")))


def draw_mentions(say: Words, report: AuditReport) -> None:
    """Draw detection against the number of mentions, with what it asks."""
    st.html(blocks.heading(say.text("mentions_title"), below=say.text("mentions_below")))
    mention_chart(say, report, key="mentions")


def draw_names_and_limits(say: Words, report: AuditReport) -> None:
    """Draw who stands out most, or that nobody does; what the audit shows and does not show."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        if len(strongest_names(report.table)):
            draw_strongest(say, report)
        else:
            below = say.text("strongest_none_below", alpha=f"{ALPHA:g}")
            st.html(blocks.heading(say.text("strongest_none"), below=below))
        link("names", label=say.text("strongest_more"), audit=report.digest)
    with right:
        st.html(
            blocks.heading(say.text("limits"))
            + blocks.bullet_list(say.text(f"limits_{i}") for i in (1, 2, 3))
        )


def draw_strongest(say: Words, report: AuditReport) -> None:
    """Draw the names that stand out most, masked."""
    below = say.text("strongest_revealed" if is_revealed() else "strongest_below")
    st.html(blocks.heading(say.text("strongest"), below=below))
    rows = [
        (
            name.number,
            shown_name(name.first_name, name.last_name),
            say.text(f"kind_{name.kind}_one"),
            decimal(name.n_mentions, digits=0) if name.n_mentions >= 0 else "",
            small(name.general),
            small(name.hospital),
            decimal(name.q),
        )
        for name in strongest_names(report.table)[:N_STRONGEST].itertuples()
    ]
    columns = ("number", "name", "in_notes", "mentions", "general", "hospital", "q")
    header = [say.text(f"column_{c}") for c in columns]
    caption = say.text(f"strongest_caption_{report.scenario.number}")
    st.html(blocks.simple_table(header, rows, caption=caption, n_text=3))


page()
