"""What the Corpus page's tests share: a home without workers, the page, a small corpus."""

from __future__ import annotations

import shutil
from pathlib import Path

from streamlit.testing.v1 import AppTest

from audit.corpus.kept import CORPORA, KeptCorpus
from audit.corpus.make import CorpusTask, make_corpus
from benchmarks.example_notes import example_csv

CORPUS_ID = "0c0c0c0c0c0c"
TITLE = "What is in the notes, and whose names?"
NAMED = "Grace Hopper is a 70-year-old woman with a cough. Mrs. Hopper was seen. Plan: home.\n"


def made_corpus(folder: Path) -> Path:
    """Build a small corpus of the example notes, with canaries, in a folder."""
    notes = folder / "notes.csv"
    notes.write_bytes(example_csv(n_patients=30))
    order = CorpusTask(
        notes=notes, seed=2, title="Ward <b>3</b>", canary_counts=(1, 2), n_canaries=3
    )
    return make_corpus(order, out=folder / "corpus")


def keep(made: Path) -> KeptCorpus:
    """Put a corpus among those that are kept."""
    shutil.copytree(made, CORPORA.place(CORPUS_ID))
    return CORPORA.get(CORPUS_ID)


def write_identified(folder: Path) -> None:
    """Write identified notes and a register of their patients into a registered folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.csv").write_text(f'patient_id,text\n1,"{NAMED}"\n')
    (folder / "people.csv").write_text("patient_id,first_name,last_name,sex\n1,Grace,Hopper,F\n")


def choose_file(app: AppTest, part: str) -> AppTest:
    """Choose the file of notes whose name on the screen holds these words."""
    box = app.selectbox(key="corpus_file")
    box.select_index(next(i for i, name in enumerate(box.options) if part in name)).run()
    assert not app.exception
    return app
