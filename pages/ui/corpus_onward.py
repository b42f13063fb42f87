"""On from a kept corpus: to an audit with its list and passages, to a training, to files."""

from __future__ import annotations

from collections.abc import Sequence, Set

import streamlit as st

from audit.corpus.candidate_lists import CONTROLS, MEMBERS, ROLES, keep_lists, list_of, passages_for
from audit.corpus.kept import CORPORA, KeptCorpus
from audit.errors import AuditError
from audit.models.inspect import LABEL
from audit.names.files import names_file
from audit.training.kept import MODELS, TrainedModel
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.language import Words, go_to
from pages.ui.logged import logged_export
from pages.ui.reveal import is_revealed
from pages.ui.setup_choice import choose, codes_for_link
from pages.ui.train_names import general_id

USUAL = ("easy", "hard")
Chosen = tuple[str, ...]


def draw_onward(say: Words, corpus: KeptCorpus) -> None:
    """Draw the ways on from a corpus."""
    st.html(blocks.heading(say.text("corpus_onward"), below=say.text("corpus_onward_below")))
    left, right = st.columns(2, gap="large")
    with left, st.container(border=True, key="corpus_card_train"):
        st.html(blocks.heading(say.text("corpus_train"), below=say.text("corpus_train_below")))
        if st.button(
            say.text("corpus_train_go"), key="corpus_train_go", icon=":material/model_training:"
        ):
            go_to("train", corpus=corpus.corpus_id)
    with right, st.container(border=True, key="corpus_card_audit"):
        st.html(blocks.heading(say.text("corpus_audit"), below=say.text("corpus_audit_below")))
        draw_lists(say, corpus)


def draw_lists(say: Words, corpus: KeptCorpus) -> None:
    """Draw which names the list shall have, and what can be done with it."""
    listed = cached.examination(corpus).candidates
    there = {one.role for one in listed if not one.control_kind and one.n}
    kinds = {one.control_kind for one in listed if one.n}
    roles = pills(say, "roles", MEMBERS, there=there, usual=ROLES)
    controls = pills(say, "controls", CONTROLS, there=kinds, usual=USUAL)
    for chosen, which in ((roles, "roles"), (controls, "controls")):
        if not chosen:
            st.html(blocks.heading("", below=say.text(f"corpus_{which}_none")))
            return
    if st.button(
        say.text("corpus_audit_go"),
        key="corpus_audit_go",
        type="primary",
        icon=":material/arrow_forward:",
    ):
        keep(say, corpus, controls=controls, roles=roles)
    draw_downloads(say, corpus, controls=controls, roles=roles)


def pills(
    say: Words, which: str, options: Sequence[str], *, there: Set[str], usual: Sequence[str]
) -> Chosen:
    """Draw a choice among the codes that the corpus has, and return those chosen in order."""
    options = [code for code in options if code in there]
    chosen = st.pills(
        say.text(f"corpus_{which}"),
        options,
        selection_mode="multi",
        default=[code for code in usual if code in there],
        format_func=lambda code: say.text(f"corpus_{which}_{code}"),
        key=f"corpus_{which}_{'_'.join(options)}",
        help=say.text(f"corpus_{which}_help"),
    )
    return tuple(code for code in options if code in chosen)


def keep(say: Words, corpus: KeptCorpus, *, controls: Chosen, roles: Chosen) -> None:
    """Keep list and passages, choose both for the next audit, and go to Models and names."""
    try:
        with st.spinner(say.text("corpus_keeping")):
            names, passages = keep_lists(
                corpus, controls=controls, roles=roles, store=cached.store()
            )
    except AuditError as error:
        refused(say, error)
        return
    choose("names", names)
    choose("passages", passages)
    if hospital := trained_on(corpus):
        choose("general", general_id(hospital, among=cached.models()))
        choose("hospital", f"{LABEL}/{hospital.run_id}")
    go_to("setup", **codes_for_link())


def trained_on(corpus: KeptCorpus) -> TrainedModel | None:
    """Return the newest model that was trained on a corpus's notes with names."""
    return next(
        (
            model
            for model in MODELS.all()
            if model.is_whole
            and model.facts.source == "private"
            and model.facts.corpus_id == corpus.corpus_id
        ),
        None,
    )


def draw_downloads(say: Words, corpus: KeptCorpus, *, controls: Chosen, roles: Chosen) -> None:
    """Draw the files to take away; those with real names only once names are revealed."""

    def names() -> bytes:
        return names_file(list_of(corpus, controls=controls, roles=roles))

    def passages() -> bytes:
        return passages_for(corpus, list_of(corpus, controls=controls, roles=roles))

    with st.expander(say.text("corpus_files"), key="corpus_files"):
        is_hidden = corpus.kind == "register" and not is_revealed()
        what = "hidden" if is_hidden else corpus.kind
        st.html(blocks.heading("", below=say.text(f"corpus_files_{what}")))
        for code, make, file_name in (
            ("names", names, "names.csv"),
            ("passages", passages, "passages.jsonl"),
        ):
            st.download_button(
                say.text(f"corpus_file_{code}"),
                data=logged_export(make, what=f"corpus-{code}"),
                file_name=file_name,
                mime="text/csv" if code == "names" else "application/octet-stream",
                icon=":material/download:",
                key=f"corpus_download_{code}",
                on_click="ignore",
                disabled=is_hidden,
            )


def draw_forget(say: Words, corpus: KeptCorpus) -> None:
    """Draw the button that removes the corpus, which asks once more."""
    with st.popover(say.text("corpus_forget"), key="corpus_forget"):
        st.html(blocks.heading("", below=say.text("corpus_forget_why")))
        if not st.button(say.text("corpus_forget_now"), key="corpus_forget_now", type="primary"):
            return
        try:
            CORPORA.forget(corpus.corpus_id)
        except AuditError as error:
            refused(say, error)
            return
        st.query_params.pop("corpus", None)
        st.rerun()
