"""Which tagger reads the notes, and what takes the place of a mark; both are codes in the link."""

from __future__ import annotations

import streamlit as st

from audit.deid.release import MODES, PLACEHOLDER, SURROGATE, Release
from audit.deid.taggers import LABELS, TAGGERS, TRAINED, KnownTagger, known_taggers, shipped_figures
from pages.ui import blocks
from pages.ui.language import Words
from pages.ui.text import percent, percent_interval

_MAX_SEED = 2**31 - 1
_TAGGER, _MODE, _SEED = "deidentify_tagger", "deidentify_mode", "deidentify_seed"


def tagger_name(say: Words, tagger_id: str) -> str:
    """Return what a tagger is called; its title is untrusted text."""
    if tagger_id in ("rules", "default"):
        return say.text(f"deidentify_tagger_{tagger_id}")
    code = tagger_id.rpartition("/")[2]
    title = next((one.title for one in known_taggers() if one.tagger_id == tagger_id), "")
    return say.text("deidentify_tagger_trained", title=title or tagger_id, code=code[:4])


def ask_tagger(say: Words) -> KnownTagger:
    """Draw the choice of a tagger, with what it is, and return it."""
    taggers = {one.tagger_id: one for one in known_taggers()}
    asked = st.session_state.get(_TAGGER) or st.query_params.get("tagger", "")
    st.session_state[_TAGGER] = asked if asked in taggers else next(iter(taggers))
    # A box of choices shows its options as plain text, never as Markdown.
    code = st.selectbox(
        say.text("deidentify_tagger"),
        list(taggers),
        format_func=lambda tagger_id: tagger_name(say, tagger_id),
        key=_TAGGER,
        on_change=_to_link,
        args=(_TAGGER, "tagger"),
    )
    tagger = taggers[code or next(iter(taggers))]
    st.html(blocks.heading("", below=say.text(f"deidentify_about_{tagger.kind}")))
    draw_figures(say, tagger.tagger_id)
    st.html(blocks.heading("", below=say.text("deidentify_unmeasured")))
    return tagger


def draw_figures(say: Words, tagger_id: str) -> None:
    """Draw what was measured of a tagger, if anything was."""
    found = shipped_figures(tagger_id)
    if not found:
        if tagger_id.startswith(TRAINED):
            draw_validation(say, tagger_id)
        return
    rows = []
    for language in dict.fromkeys(one.language for one in found):
        own = {one.label: one for one in found if one.language == language}
        notes = say.text(f"deidentify_figures_hand_{language}", n=own[LABELS[0]].n_notes)
        rows += [[blocks.Cell(notes, is_number=False, n_columns=len(LABELS))], []]
        for label in LABELS:
            one = own[label]
            of = say.text("deidentify_figures_of", n=f"{one.n_gold:,}")
            below = f"{percent_interval(one.found)} · {of}"
            rows[-1].append(blocks.Cell(percent(one.found.value), below=below))
    header = [blocks.Cell(say.text(f"deidentify_figures_{label}")) for label in LABELS]
    st.html(blocks.table([header], rows, caption=say.text("deidentify_figures_caption")))


def draw_validation(say: Words, tagger_id: str) -> None:
    """Draw what a tagger that was trained here reached on its own validation notes."""
    counts = next((one.validation for one in TAGGERS.all() if one.tagger_id == tagger_id), None)
    if counts is None or not counts["n_gold"]:
        return
    numbers = {name: f"{n:,}" for name, n in counts.items()}
    share = percent(counts["n_found"] / counts["n_gold"])
    text = say.text("deidentify_validation", share=share, **numbers)
    st.html(blocks.heading("", below=text))


def ask_release(say: Words) -> Release:
    """Draw what takes the place of a mark, and return it."""
    state = st.session_state
    asked = state.get(_MODE) or st.query_params.get("mode", "")
    state[_MODE] = asked if asked in MODES else PLACEHOLDER
    mode = st.radio(
        say.text("deidentify_mode"),
        MODES,
        format_func=lambda code: say.text(f"deidentify_mode_{code}"),
        captions=[say.text(f"deidentify_mode_{code}_help") for code in MODES],
        key=_MODE,
        on_change=_to_link,
        args=(_MODE, "mode"),
    )
    seed = 0
    if mode == SURROGATE:
        seed = int(
            st.number_input(
                say.text("deidentify_seed"), min_value=0, max_value=_MAX_SEED, step=1, key=_SEED,
                help=say.text("deidentify_seed_help"), persist_state="session",
            )
        )  # fmt: skip
    return Release(mode=mode or PLACEHOLDER, seed=seed)


def _to_link(key: str, field: str) -> None:
    st.query_params[field] = st.session_state[key]
