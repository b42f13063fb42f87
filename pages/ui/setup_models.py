"""Cards A and B: the general model and the hospital's, and what differs between them."""

from __future__ import annotations

import streamlit as st

from audit.errors import AuditError, written
from audit.models.registry import VARIABLE, PairCheck, RegisteredModel, known_digest
from pages.ui import blocks, cached
from pages.ui.blocks import refused, step
from pages.ui.language import Words
from pages.ui.setup_choice import Pair, model_name, picker

_LETTERS = {"general": "A", "hospital": "B"}


def draw_models(say: Words, pair: Pair) -> bool:
    """Draw both cards and the comparison; say whether the pair can be audited."""
    left, right = st.columns(2, gap="large")
    with left, st.container(border=True, key="card_general"):
        draw_model(say, "general", model=pair.general)
    with right, st.container(border=True, key="card_hospital"):
        draw_model(say, "hospital", model=pair.hospital)
    draw_folders(say)
    if pair.general is None or pair.hospital is None:
        return False
    try:
        found = cached.check(pair.general.path, pair.hospital.path)
    except AuditError as error:
        refused(say, error)
        return False
    draw_pair(say, found)
    return not found.refusal


def draw_model(say: Words, field: str, *, model: RegisteredModel | None) -> None:
    """Draw the card of one model."""
    state = say.text("setup_ready" if model else "setup_missing")
    step(_LETTERS[field], say.text(f"setup_{field}_card"), is_ready=model is not None, state=state)
    st.html(blocks.heading("", below=say.text(f"setup_{field}_below")))
    usable = [one.model_id for one in cached.models() if not one.refusal]
    picker(
        field,
        usable,
        label=say.text(f"setup_{field}_card"),
        say=say,
        shown=lambda model_id: model_name(say, model_id, among=cached.models()),
    )
    if model is None or model.summary is None:
        return
    facts = model.summary
    rows = [
        (say.text("setup_trait_architecture"), facts.config.architecture),
        (say.text("setup_layers_width"), f"{facts.config.n_layers} × {facts.config.hidden_size}"),
        (say.text("setup_trait_vocab_size"), f"{facts.config.vocab_size:,}"),
        (say.text("setup_trait_n_parameters"), f"{facts.n_parameters:,}"),
        (say.text("setup_trait_n_positions"), f"{facts.config.n_positions:,}"),
        (say.text("setup_trait_tokenizer"), facts.tokenizer),
        (say.text("setup_digest"), digest_of(say, model)),
    ]
    header = [say.text("setup_column_fact"), say.text("setup_column_value")]
    st.html(blocks.simple_table(header, rows, caption=say.text("setup_model_caption"), n_text=2))


def digest_of(say: Words, model: RegisteredModel) -> str:
    """Return the first digits of a model's digest; "" where it cannot be read any more."""
    try:
        with st.spinner(say.text("setup_digest_wait")):
            return known_digest(model.path)[:12]
    except AuditError as error:
        refused(say, error)
        return ""


def draw_folders(say: Words) -> None:
    """Say where models are looked for, and which of those found there are refused."""
    models = cached.models()
    is_registered = any(not model.model_id.startswith("demo:") for model in models)
    if not is_registered:
        st.html(blocks.heading(say.text("setup_no_folder"), below=say.text("setup_no_folder_do")))
        st.code(f"{VARIABLE}=DIR python -m streamlit run app.py", language="bash")
    refusals = [model for model in models if model.refusal]
    if not refusals:
        return
    with st.expander(say.text("setup_refused_models", n=len(refusals)), key="refused_models"):
        rows = [
            (model_name(say, one.model_id, among=models), written(one.refusal, say.language))
            for one in refusals
        ]
        header = [say.text("setup_column_model"), say.text("setup_column_reason")]
        caption = say.text("setup_refused_caption")
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))


def draw_pair(say: Words, found: PairCheck) -> None:
    """Draw what differs between the two models, or that they cannot be compared."""
    if found.refusal:
        why = written(found.refusal, say.language)
        st.html(blocks.heading(say.text("setup_pair_refused"), below=why))
    elif found.is_one_directory:
        st.html(blocks.heading(say.text("setup_pair_same"), below=say.text("setup_pair_same_do")))
    else:
        st.html(blocks.heading(say.text("setup_pair_fits"), below=say.text("setup_pair_below")))
    different = {code for code, values in found.traits.items() if len(set(values)) > 1}
    label = say.text("setup_differences", n=len(different))
    with st.expander(label, key="differences", expanded=bool(found.refusal)):
        rows = [
            (
                say.text(f"setup_trait_{code}"),
                *map(shown_trait, found.traits[code]),
                say.text("setup_differs" if code in different else "setup_equal"),
            )
            for code in sorted(found.traits, key=lambda code: code not in different)
        ]
        columns = ("fact", "general", "hospital", "compared")
        header = [say.text(f"setup_column_{column}") for column in columns]
        caption = say.text("setup_pair_caption")
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=4))


def shown_trait(value: str | float) -> str:
    """Return a fact of a model as text."""
    return f"{value:,}" if isinstance(value, int) else str(value)
