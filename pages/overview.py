"""Overview: may this model leave the building? The verdict first, then what it rests on."""

from __future__ import annotations

import streamlit as st

from audit.attack.decisions import ALPHA
from audit.report.reading import Overview, StratumFigures
from audit.words import error_text, in_language
from pages.ui import blocks, cached, charts
from pages.ui.language import Words
from pages.ui.mention_chart import mention_chart
from pages.ui.place import Place, link, place, words
from pages.ui.reveal import is_revealed, shown_name
from pages.ui.start import recent_audits, start_cards
from pages.ui.text import (
    day,
    decimal,
    decimal_interval,
    percent,
    percent_interval,
    sentence_after_colon,
    small,
)


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("overview_title"), anchor=False)
    try:
        here = place()
        if here.audit is None:
            draw_nothing(say, here)
            return
        view = cached.overview(here.audit.digest)
        other = cached.overview(here.other.digest) if here.other else None
    except (cached.AuditError, cached.StoreError) as error:
        st.html(blocks.heading(say.text("no_data"), below=error_text(error, language=say.language)))
        return
    draw_verdicts(say, view, other)
    if canaries := view.canaries_japanese if say.language == "ja" else view.canaries_english:
        st.html(blocks.heading("", below=canaries))
    st.html(blocks.figure_cards(headline_cards(say, view)))
    draw_charts(say, view)
    draw_names_and_limits(say, view)
    link("measures", label=say.text("paper_link"), audit=view.digest)
    recent_audits(say, here.kept, shown=view.digest)
    start_cards(say)
    if view.notes:
        with st.expander(say.text("notes")):
            st.html(
                blocks.bullet_list(in_language(one, language=say.language) for one in view.notes)
            )


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


def draw_verdicts(say: Words, view: Overview, other: Overview | None) -> None:
    """Draw the verdict, and the other scenario's beside it."""
    beside = verdict(say, other) if other else no_verdict(say, view)
    st.html(blocks.verdict_cards([verdict(say, view), beside]))
    if other:
        link("overview", label=say.text(f"open_scenario_{other.scenario}"), audit=other.digest)
    now = view.now_japanese if say.language == "ja" else view.now_english
    if now:
        st.html(blocks.heading(say.text("what_now"), below=now))


def verdict(say: Words, view: Overview) -> blocks.Verdict:
    """Return a verdict in the reader's words."""
    return blocks.Verdict(
        state=view.state,
        eyebrow=say.text(f"scenario_{view.scenario}"),
        heading=say.text(f"state_{view.state}"),
        sentence=sentence_after_colon(view.japanese if say.language == "ja" else view.english),
        footer=say.text(
            "audit_footer",
            hospital=view.hospital,
            general=view.general,
            at=day(view.at),
            digest=view.digest[:12],
        ),
    )


def no_verdict(say: Words, view: Overview) -> blocks.Verdict:
    """Return the card of a scenario that has not been run."""
    return blocks.Verdict(
        state="missing",
        eyebrow=say.text("scenario_2" if view.scenario == 1 else "scenario_1"),
        heading=say.text("no_other"),
        sentence=say.text("no_other_do"),
        footer="",
    )


def headline_cards(say: Words, view: Overview) -> list[blocks.Figures]:
    """Return the headline figures, each with what M_general and trivial guesses reach."""
    cards = []
    for name in ("easy", "hard") if view.stratum("easy") else ("all",):
        if stratum := view.stratum(name):
            cards.append(auc_card(say, stratum))
    flagged = view.flagged
    controls = view.controls_flagged
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
                (say.text("who_reference"), str(view.n_reference)),
            ),
        )
    )
    if stratum := view.stratum("all"):
        attack, *others = stratum.rankings
        cards.append(
            blocks.Figures(
                label=say.text("card_tpr"),
                value=percent(attack.tpr.value),
                interval=percent_interval(attack.tpr),
                others=tuple((say.text(f"who_{r.who}"), percent(r.tpr.value)) for r in others),
            )
        )
    return cards


def auc_card(say: Words, stratum: StratumFigures) -> blocks.Figures:
    """Return the AUC against one kind of controls, with its comparisons."""
    attack, *others = stratum.rankings
    return blocks.Figures(
        label=say.text(f"card_auc_{stratum.stratum}"),
        value=decimal(attack.auc.value),
        interval=decimal_interval(attack.auc),
        others=tuple(
            (
                say.text(f"who_{r.who}"),
                f"{decimal(r.auc.value, digits=2)} ({decimal_interval(r.auc, digits=2)})",
            )
            for r in others
        ),
    )


def draw_charts(say: Words, view: Overview) -> None:
    """Draw scores by kind of names, and detection against mentions where mentions are known."""
    left, right = st.columns(2, gap="large") if view.mentions else (st.container(), None)
    with left:
        draw_scores(say, view)
    if right:
        with right:
            draw_mentions(say, view)


def draw_scores(say: Words, view: Overview) -> None:
    """Draw one dot per name."""
    st.html(blocks.heading(say.text("scores_title"), below=say.text("scores_below")))
    labels = {
        kind.kind: say.text("kind_n", kind=say.text(f"kind_{kind.kind}"), n=len(kind.scores))
        for kind in view.kinds
    }
    figure = charts.scores_by_kind(
        view.kinds,
        labels=labels,
        axis=say.text(f"axis_{view.fixed_score}"),
        is_log=view.is_log,
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
            for kind in view.kinds
        ]
        header = [say.text(f"column_{c}") for c in ("kind", "n", "missing", "q1", "median", "q3")]
        st.html(blocks.simple_table(header, rows, caption=say.text(f"axis_{view.fixed_score}")))


def draw_mentions(say: Words, view: Overview) -> None:
    """Draw detection against the number of mentions, with what it asks."""
    st.html(blocks.heading(say.text("mentions_title"), below=say.text("mentions_below")))
    mention_chart(say, view, key="mentions")


def draw_names_and_limits(say: Words, view: Overview) -> None:
    """Draw who stands out most, or that nobody does; what the audit shows and does not show."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        if view.strongest:
            draw_strongest(say, view)
        else:
            below = say.text("strongest_none_below", alpha=f"{ALPHA:g}")
            st.html(blocks.heading(say.text("strongest_none"), below=below))
        link("names", label=say.text("strongest_more"), audit=view.digest)
    with right:
        st.html(
            blocks.heading(say.text("limits"))
            + blocks.bullet_list(say.text(f"limits_{i}") for i in (1, 2, 3))
        )


def draw_strongest(say: Words, view: Overview) -> None:
    """Draw the names that stand out most, masked."""
    below = say.text("strongest_revealed" if is_revealed() else "strongest_below")
    st.html(blocks.heading(say.text("strongest"), below=below))
    rows = [
        (
            name.label,
            shown_name(name.first, name.last),
            say.text(f"kind_{name.kind}_one"),
            "" if name.n_mentions is None else str(name.n_mentions),
            small(name.general),
            small(name.hospital),
            decimal(name.q),
        )
        for name in view.strongest
    ]
    columns = ("number", "name", "in_notes", "mentions", "general", "hospital", "q")
    header = [say.text(f"column_{c}") for c in columns]
    caption = say.text(f"strongest_caption_{view.scenario}")
    st.html(blocks.simple_table(header, rows, caption=caption, n_text=3))


page()
