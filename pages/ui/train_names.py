"""What trainings and their notes are called on the screen; all of it is untrusted text."""

from __future__ import annotations

from audit.corpus.kept import CORPORA, KeptCorpus
from audit.models.registry import RegisteredModel
from audit.training.kept import TrainedModel, parent_of
from pages.ui.language import Words
from pages.ui.text import day, decimal


def training_name(say: Words, model: TrainedModel) -> str:
    """Return what a training is called on the screen; untrusted text."""
    return model.title or say.text("train_untitled", at=day(model.facts.created))


def notes_name(say: Words, model: TrainedModel) -> str:
    """Return which notes a model learned from, on the screen; untrusted text."""
    source = say.text(f"train_source_{model.facts.source}")
    corpus = corpus_of(model)
    if corpus is None:
        return source
    name = corpus.title or corpus.source
    return say.text("train_notes_of", source=source, corpus=name)


def corpus_of(model: TrainedModel) -> KeptCorpus | None:
    """Return the corpus that a model was trained on, if it is still kept."""
    wanted = model.facts.corpus_id
    return next((c for c in CORPORA.all() if wanted and c.corpus_id == wanted), None)


def start_name(say: Words, name: str, *, from_scratch: bool) -> str:
    """Return what a training starts from, on the screen; untrusted text."""
    return say.text("train_fact_scratch", name=name) if from_scratch else name


def epochs_text(n_epochs: float) -> str:
    """Return a number of passes over the notes."""
    return f"{n_epochs:,.0f}" if n_epochs >= 10 else decimal(n_epochs, digits=2)


def general_id(model: TrainedModel, *, among: tuple[RegisteredModel, ...]) -> str:
    """Return the identifier of the model that a training started from; "" where it is gone."""
    parent = parent_of(model, among=among)
    return parent.model_id if parent is not None else ""
