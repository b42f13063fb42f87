"""Small kept corpora and trainings for the tests of pages; names and notes are invented."""

from __future__ import annotations

import json
from pathlib import Path

from audit.corpus.corpora import CORPORA, describe_corpus
from audit.corpus.truth import CANDIDATES, CORPUS, EXAMINATION
from audit.models.inspect import compute_model_digest, inspect_model
from audit.shelf import write_whole
from audit.training.config import LossPoint, TrainSettings, append_point
from audit.training.trainings import MODELS, TRAINING, TrainingFacts
from tests.models.make_models import make_bert

CORPUS_ID, RUN = "0a0a0a0a0a0a", "1b1b1b1b1b1b"
NOTE = "the patient was seen today. mary smith is a 70 year old woman with a cough."


def make_corpus_folder() -> Path:
    """Write a corpus of which nobody reads the lists."""
    folder = CORPORA.place(CORPUS_ID)
    folder.mkdir(parents=True, mode=0o700)
    notes = [{"note_id": str(i), "patient_id": str(i % 10), "text": NOTE} for i in range(40)]
    for name in ("private.jsonl", "public.jsonl"):
        (folder / name).write_text("".join(json.dumps(note) + "\n" for note in notes))
    for name in ("truth.jsonl", "people.jsonl", "passages.jsonl", EXAMINATION, CANDIDATES):
        (folder / name).write_text("")
    content = describe_corpus(
        title="Ward <3>", kind="dummy", source="notes.csv", seed=0, n_notes=40, n_patients=10
    )
    (folder / CORPUS).write_bytes(content)
    return folder


def make_training(
    parent: Path,
    *,
    run_id: str = RUN,
    is_whole: bool = True,
    settings: TrainSettings | None = None,
    held_out: tuple[float, ...] = (6.0, 5.0, 4.0),
) -> Path:
    """Write a training of a parent on the corpus, with a curve and, if it is whole, a model."""
    folder = MODELS.place(run_id)
    folder.mkdir(parents=True, mode=0o700)
    facts = TrainingFacts(
        title="Ten <b>passes",
        parent=inspect_model(parent).name,
        parent_digest=compute_model_digest(parent),
        corpus_id=CORPUS_ID,
        source="private",
        settings=settings or TrainSettings(n_steps=20),
        n_steps=20,
        n_documents=38,
        n_train_tokens=12_600,
        n_held_out_documents=2,
        unigram_loss=5.5,
        key="0" * 64,
        precision="float32",
        device="cpu",
        kernels="mkl",
        versions={},
        created="2026-11-21T10:00:00+00:00",
        header=settings.header if settings else "",
    )
    write_whole(folder / TRAINING, facts.to_bytes())
    for step, value in zip((0, 10, 20), held_out, strict=False):
        loss = 6.5 - step / 10 if step else None
        append_point(folder, LossPoint(step=step, loss=loss, held_out=value, seconds=step))
    if is_whole:
        make_bert(folder / "model")
    return folder
