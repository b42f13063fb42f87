"""Small trainings made in the test: notes of a made-up language, a tiny model, quick settings."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

from audit.corpus.truth import ListedNotes, listed_bytes
from audit.training.config import TrainSettings
from audit.training.trainings import PretrainTask
from tests.models.make_models import WORDS, make_bert

PLAIN = [word for word in WORDS if word.isalpha()]


def write_notes(path: Path, *, n: int = 40, n_patients: int = 20, seed: int = 0) -> Path:
    """Write notes as JSONL in which every word is followed by one and the same."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as handle:
        for number in range(n):
            start = rng.randrange(len(PLAIN))
            words = [PLAIN[(start + k) % len(PLAIN)] for k in range(rng.randrange(20, 60))]
            note = {
                "note_id": str(number),
                "patient_id": f"P{number % n_patients}",
                "text": " ".join(words) + ".",
            }
            handle.write(json.dumps(note) + "\n")
    return path


def write_listed(folder: Path, *positions: int, n_notes: int = 40, n_patients: int = 20) -> Path:
    """Write which of the notes in a folder hold a listed name."""
    folder.mkdir(exist_ok=True)
    n_listed = min(len(positions), n_patients)
    listed = ListedNotes(n_notes, n_patients, n_listed, array("I", positions))
    (folder / "listed.json").write_bytes(listed_bytes(listed))
    return folder / "listed.json"


def quick(**changes: Any) -> TrainSettings:
    values: dict[str, Any] = {
        "n_tokens": 16,
        "batch": 8,
        "micro_batch": 4,
        "n_steps": 12,
        "learning_rate": 1e-3,
        "held_out_share": 0.1,
        "evaluate_every": 4,
        "checkpoint_every": 4,
        "precision": "float32",
    }
    return TrainSettings(**values | changes)


def make_order(
    folder: Path, *, out: str = "run", order: Any = None, **settings: Any
) -> PretrainTask:
    """Return an order on a tiny model and notes in `folder`, both made if they are not there."""
    general, notes = folder / "general", folder / "notes.jsonl"
    if not general.exists():
        make_bert(general, n_positions=32, scale=0.02)
    if not notes.exists():
        write_notes(notes)
    values = {"device": "cpu"} | (order or {})
    return PretrainTask(
        general=general, notes=notes, out=folder / out, settings=quick(**settings), **values
    )


def run_in_processes(
    *command: object, n_processes: int, home: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command of the program in so many processes, as torchrun starts them."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    words = [*start, n_processes, "-m", "audit", *command, "--json"]
    environment = os.environ | {"KART_AUDIT_HOME": str(home), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        list(map(str, words)), env=environment, capture_output=True, text=True, check=False
    )
