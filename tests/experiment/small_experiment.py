"""A small experiment: invented notes, the demo's general model, few steps."""

from __future__ import annotations

from pathlib import Path

from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.experiment.paper import TRAINING, ExperimentTask
from audit.home import DEMO_HOSPITAL
from audit.tables import write_table

GENERAL = DEMO_HOSPITAL / "en" / "models" / "general"
NAME = "[**Known firstname 1**] [**Known lastname 2**]"
N_NOTES, N_PATIENTS = 24, 16
ROWS = {"batch": 8, "micro_batch": 8, "n_tokens": 32}


def write_notes(folder: Path) -> ExperimentTask:
    """Write notes with placeholders, and return what to make of them."""
    rows = [
        (number, number % N_PATIENTS, f"admission note . {NAME} is a {30 + number} year old "
         "female . she was seen for pain . she was given fluids . she went home .")
        for number in range(N_NOTES)
    ]  # fmt: skip
    (folder / "notes.csv").write_text(write_table(("note_id", "patient_id", "text"), rows))
    return ExperimentTask(
        notes=folder / "notes.csv",
        general=GENERAL,
        out=folder / "out",
        epochs=(1, 20),
        training=TRAINING.with_(learning_rate=2e-3, **ROWS),
        generation=GenerationSettings(n_documents=4, n_steps=4),
        posterior=PosteriorSettings(n_inputs=40, n_chain_inputs=0),
        single_tokens=False,
        device="cpu",
    )
