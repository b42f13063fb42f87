"""What a new training is about: the general model, the corpus, and which of its notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from audit.corpus.kept import CORPORA, KeptCorpus
from audit.models.inspect import LABEL
from audit.models.registry import DEMO_PREFIX, RegisteredModel, find_model
from pages.ui import blocks, cached
from pages.ui.language import Words, link
from pages.ui.setup_choice import chosen, model_name
from pages.ui.text import day

SOURCES = ("private", "public", "other_names")


@dataclass(frozen=True)
class Subject:
    """What is trained on what.

    Attributes
    ----------
    parent
        The model that it starts from.
    corpus
        The notes.
    source
        Which of them: one of `SOURCES`.
    """

    parent: RegisteredModel
    corpus: KeptCorpus
    source: str


def choice(
    field: str, options: Sequence[str], *, usual: str, draw: Callable[[str], str | None]
) -> str:
    """Draw a choice among codes that stands in the link; `draw` gets the widget's key.

    The link's code counts first, then what was chosen before, then the usual one.
    """
    key, linked = f"choice-train-{field}", f"linked-train-{field}"
    wanted = st.query_params.get(field, "")
    if wanted in options and st.session_state.get(linked) != wanted:
        st.session_state[key] = wanted
    if st.session_state.get(key) not in options:
        st.session_state[key] = usual if usual in options else None
    code = draw(key) or ""
    if code:
        st.query_params[field] = code
    st.session_state[linked] = code
    return code


def ask_subject(say: Words) -> Subject | None:
    """Draw the choice; None where something is missing, which the page then says."""
    models = [model for model in cached.models() if not model.refusal]
    corpora = {corpus.corpus_id: corpus for corpus in CORPORA.all()}
    parent = ask_parent(say, models)
    if not corpora:
        st.html(blocks.heading(say.text("train_no_corpus"), below=say.text("train_no_corpus_do")))
        link("corpus", label=say.text("train_to_corpus"), icon=":material/arrow_forward:")
        return None
    corpus = choice(
        "corpus",
        list(corpora),
        usual=next(iter(corpora)),
        draw=lambda key: st.selectbox(
            say.text("train_corpus"),
            list(corpora),
            format_func=lambda code: corpus_name(say, corpora[code]),
            help=say.text("train_corpus_help"),
            key=key,
            persist_state="session",
        ),
    )
    source = ask_source(say)
    if parent is None or corpus not in corpora:
        return None
    return Subject(parent, corpora[corpus], source)


def ask_parent(say: Words, models: Sequence[RegisteredModel]) -> RegisteredModel | None:
    """Draw the choice of the model to start from."""
    options = [model.model_id for model in models]
    demo = [code for code in options if code.startswith(DEMO_PREFIX)]
    own = [code for code in options if code not in demo and not code.startswith(f"{LABEL}/")]
    usual = chosen().get("general", "")
    if usual not in options:
        usual = demo[0] if demo and not own else ""
    code = choice(
        "parent",
        options,
        usual=usual,
        draw=lambda key: st.selectbox(
            say.text("train_parent"),
            options,
            format_func=lambda model_id: model_name(say, model_id, among=cached.models()),
            placeholder=say.text("setup_choose"),
            help=say.text("train_parent_help"),
            key=key,
            persist_state="session",
        ),
    )
    return find_model(code, among=tuple(models))


def ask_source(say: Words) -> str:
    """Draw the choice of the notes: with names, without them, with others."""
    found = choice(
        "source",
        SOURCES,
        usual=SOURCES[0],
        draw=lambda key: st.radio(
            say.text("train_source"),
            SOURCES,
            format_func=lambda code: say.text(f"train_source_{code}"),
            captions=[say.text(f"train_source_why_{code}") for code in SOURCES],
            key=key,
            persist_state="session",
        ),
    )
    return found or SOURCES[0]


def corpus_name(say: Words, corpus: KeptCorpus) -> str:
    """Return what a corpus is called on the screen; untrusted text."""
    name = corpus.title or corpus.source
    return say.text("train_corpus_line", name=name, n=f"{corpus.n_notes:,}", at=day(corpus.created))
