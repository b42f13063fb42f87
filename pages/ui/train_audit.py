"""From a trained model to an audit of it: the pair, the list and the passages are chosen."""

from __future__ import annotations

import streamlit as st

from audit.corpus.candidate_lists import keep_lists
from audit.errors import AuditError
from audit.models.inspect import LABEL
from audit.training.kept import MODELS, TrainedModel
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.language import Words, go_to
from pages.ui.setup_choice import choose, codes_for_link
from pages.ui.train_names import corpus_of, general_id

CONTROLS = ("easy", "hard")


def draw_ways_on(say: Words, model: TrainedModel) -> None:
    """Draw the button that leads to an audit, by what the model learned from."""
    is_hospital = model.facts.source in ("private", "file")
    kind = "hospital" if is_hospital else "reference"
    hospital = model if is_hospital else hospital_beside(model)
    st.html(blocks.heading("", below=say.text(f"train_audit_{kind}_why")))
    if hospital is None:
        st.html(blocks.heading("", below=say.text("train_audit_no_hospital")))
        return
    if not st.button(
        say.text(f"train_audit_{kind}"), key=f"train_audit_{model.run_id}", type="primary",
        icon=":material/fact_check:",
    ):  # fmt: skip
        return
    parent = general_id(hospital, among=cached.models())
    choose("general", parent if is_hospital else f"{LABEL}/{model.run_id}")
    choose("hospital", f"{LABEL}/{hospital.run_id}")
    with st.spinner(say.text("train_audit_wait")):
        if choose_lists(say, hospital):
            go_to("setup", **codes_for_link())


def hospital_beside(reference: TrainedModel) -> TrainedModel | None:
    """Return the newest hospital's model of the corpus that a reference was trained on."""
    return next(
        (
            model
            for model in MODELS.all()
            if model.is_whole
            and model.facts.source == "private"
            and model.facts.corpus_id == reference.facts.corpus_id
        ),
        None,
    )


def choose_lists(say: Words, model: TrainedModel) -> bool:
    """Choose the names and passages of the model's corpus; False where that was refused."""
    corpus = corpus_of(model)
    if corpus is None:
        choose("names", "")  # a list of other notes would not fit
        choose("passages", "")
        return True
    try:
        names, passages = keep_lists(corpus, controls=CONTROLS, store=cached.store())
    except AuditError as error:
        refused(say, error)
        return False
    choose("names", names)
    choose("passages", passages)
    return True
