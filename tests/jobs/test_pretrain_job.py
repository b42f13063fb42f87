"""The job "pretrain": its order, its name, and a training that comes of it."""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from audit.corpus.truth import ListedNotes, listed_bytes
from audit.errors import AuditError
from audit.task import Contact
from audit.training import kept
from audit.training.kept import MODELS, PretrainTask
from tests.models.make_models import make_bert
from tests.training.make_training import quick, write_notes

CORPUS = "0123456789ab"


@dataclass(frozen=True)
class Corpus:
    corpus_id: str
    path: Path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A home, a model, notes, and a corpus of which only the place is known."""
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    make_bert(tmp_path / "general", n_positions=32, scale=0.02)
    write_notes(tmp_path / "notes.jsonl")

    def kept_corpus(corpus_id):
        if corpus_id != CORPUS:
            raise AuditError("There is no such corpus.")
        return Corpus(corpus_id, tmp_path / "corpus")

    monkeypatch.setattr(kept, "CORPORA", SimpleNamespace(get=kept_corpus))
    return tmp_path


def contact(said: list[str] | None = None, *, stop: bool = False) -> Contact:
    said = [] if said is None else said
    return Contact(report=lambda *_: None, should_stop=lambda: stop, say=said.append)


def run_id_of(task):
    return task.question().order["run_id"]


def of_file(place, **changes):
    values = {"general": place / "general", "settings": quick(), "notes": place / "notes.jsonl",
              "device": "cpu"}  # fmt: skip
    return PretrainTask(**values | changes)


def test_an_order_becomes_a_kept_model_and_is_answered_once(place):
    question = of_file(place, title="Ours").question()
    assert question.kind == "pretrain" and question.label == "general"
    order = json.loads(json.dumps(question.order))
    said = []
    (run_id,) = PretrainTask.answer(order, contact(said))
    (model,) = MODELS.all()
    assert (model.run_id, model.title, model.is_whole) == (run_id, "Ours", True)
    assert model.facts.source == "file" and model.facts.settings == quick()
    assert [text.split(":")[0] for text in said] == ["Step 0", "Step 4", "Step 8", "Step 12"]
    again: list[str] = []
    assert PretrainTask.answer(order, contact(again)) == (run_id,)
    assert again == []


def test_the_same_question_has_the_same_name_and_others_have_others(place):
    first = run_id_of(of_file(place))
    assert first == run_id_of(of_file(place, title="another title"))
    corpus = {"notes": None, "corpus_id": CORPUS}
    others = [
        of_file(place, settings=quick(seed=1)),
        of_file(place, snapshot_epochs=(0.5,)),
        of_file(place, **corpus),
        of_file(place, **corpus, source="public"),
        of_file(place, **corpus, source="other_names"),
        of_file(place, **corpus, source="other_names", other_names_seed=1),
    ]
    assert len({first, *map(run_id_of, others)}) == 7
    write_notes(place / "notes.jsonl", n=41)
    assert run_id_of(of_file(place)) != first


def test_the_notes_of_a_corpus_are_found_by_their_kind(place, monkeypatch):
    for source, file in (("private", "private.jsonl"), ("public", "public.jsonl")):
        order = of_file(place, notes=None, corpus_id=CORPUS, source=source)
        assert order.notes_file == place / "corpus" / file
        assert order.with_(run_id="0" * 12).folder.name == "0" * 12
        assert order.listed is None


def listed(place, *notes):
    """Write which notes of the corpus hold a listed name."""
    found = ListedNotes(40, 20, len(notes), array("I", notes))
    (place / "corpus").mkdir(exist_ok=True)
    (place / "corpus" / "listed.json").write_bytes(listed_bytes(found))


def test_who_is_listed_is_part_of_a_corpus_question_and_order(place):
    of_corpus = of_file(place, notes=None, corpus_id=CORPUS)
    ids = {run_id_of(of_corpus), run_id_of(of_file(place))}
    for notes in ((1,), (1, 2)):
        listed(place, *notes)
        ids.add(run_id_of(of_corpus))
    assert len(ids) == 4
    assert run_id_of(of_file(place)) in ids
    for source in ("private", "public"):
        assert of_corpus.with_(source=source).listed == place / "corpus" / "listed.json"


def test_a_corpus_of_listed_patients_alone_is_trained_on_and_said_so(place):
    listed(place, *range(20))
    write_notes(place / "corpus" / "private.jsonl")
    said = []
    order = of_file(place, notes=None, corpus_id=CORPUS).question().order
    PretrainTask.answer(order, contact(said))
    assert [text.split(":")[0] for text in said] == ["Every patient is on the candidate list"]
    (model,) = MODELS.all()
    assert (model.facts.n_held_out_documents, model.facts.n_listed_patients) == (0, 20)
    assert model.is_whole and model.held_out is None
    assert (place / "corpus" / "tokens").is_dir()
    assert (model.facts.source, model.facts.corpus_id) == ("private", CORPUS)


def test_a_folder_of_ones_own_is_taken(place):
    order = of_file(place, out=place / "mine").with_(run_id="0" * 12)
    assert order.folder == place / "mine"
    one, other = (of_file(place, out=out).question() for out in (None, place / "mine"))
    assert one.digest != other.digest


def test_orders_that_cannot_be_are_refused(place):
    with pytest.raises(AuditError, match="one of the two"):
        of_file(place, corpus_id=CORPUS)
    with pytest.raises(AuditError, match="one of the two"):
        of_file(place, notes=None)
    with pytest.raises(AuditError, match="source"):
        of_file(place, notes=None, corpus_id=CORPUS, source="secret")
    with pytest.raises(AuditError, match="no such corpus"):
        of_file(place, notes=None, corpus_id="ffffffffffff").question()
    with pytest.raises(AuditError):
        of_file(place, general=place / "nothing").question()
    with pytest.raises(AuditError, match="cannot be read"):
        of_file(place, notes=place / "gone.jsonl").question()


def test_a_folder_of_notes_has_no_list(place, monkeypatch):
    monkeypatch.chdir(place)
    listed(place, 1)
    for folder in (Path(), place / "corpus", Path("/")):
        assert of_file(place, notes=folder).listed is None
