"""Kept trainings: the list, what one will take, and the job "pretrain", from its question on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.cli import main
from audit.corpus.corpora import CORPORA
from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL, HOME_VARIABLE, data_home
from audit.jobs.service import task_class
from audit.models.architectures import parse_config
from audit.models.inspect import ModelSummary, inspect_model
from audit.models.load import load_model
from audit.models.model_folder import find_trained_name
from audit.models.registry import VARIABLE, list_models, load_tokenizer
from audit.shelf import write_whole
from audit.task import Contact
from audit.training import trainings
from audit.training.config import Lora, TrainSettings
from audit.training.trainings import (
    MODELS,
    NotesLoad,
    PretrainTask,
    TrainingFacts,
    TrainingPlan,
    choose_preset,
    find_pair,
    list_presets,
    make_sibling_task,
    make_training_plan,
    measure_notes,
)
from tests.models.make_models import make_bert
from tests.pages.make_trainings import CORPUS_ID, RUN, make_corpus_folder, make_training
from tests.training.make_training import quick, write_listed, write_notes

DEMO = DEMO_HOSPITAL / "en" / "causal" / "general"
QUICK = (
    "--tokens",
    "16",
    "--batch",
    "8",
    "--steps",
    "6",
    "--learning-rate",
    "1e-3",
    "--held-out",
    "0.1",
    "--evaluate-every",
    "3",
    "--precision",
    "float32",
    "--device",
    "cpu",
    "--json",
)


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.delenv(VARIABLE, raising=False)
    write_notes(tmp_path / "notes.jsonl")
    return make_bert(tmp_path / "general", n_positions=32, scale=0.02)


def test_presets_of_causal_models() -> None:
    assert list_presets(is_causal=False) == ("small", "clinicalbert", "scratch")
    assert list_presets(is_causal=True) == ("adapter", "small", "fresh")
    narrow, wide = inspect_model(DEMO), summary(model_type="llama", hidden_size=4096)
    rates = {
        code: [choose_preset(code, parent=m, n_tokens=10**6).learning_rate for m in (narrow, wide)]
        for code in list_presets(is_causal=True)
    }
    assert rates == {"adapter": [2e-3, 2e-4], "small": [5e-4, 2e-5], "fresh": [3e-4, 3e-4]}
    adapter = choose_preset("adapter", parent=narrow, n_tokens=10_000)
    assert adapter.lora == Lora(rank=16, alpha=32.0, dropout=0.05) and adapter.is_causal
    assert (adapter.n_tokens, adapter.n_epochs, adapter.from_scratch) == (128, 10, False)
    assert choose_preset("fresh", parent=wide, n_tokens=1).from_scratch
    # 10,000 tokens are 78 rows of 128; a row adds all its tokens.
    plan = make_training_plan(adapter, parent=narrow, load=NotesLoad(9, 10_000, True, 0.0))
    assert plan.steps_per_epoch == 78 / 32


def test_the_load_of_a_causal_model_by_hand(tmp_path: Path) -> None:
    path, tokenizer = tmp_path / "n.jsonl", load_tokenizer(DEMO)
    texts = ("Mary was seen.\n\nNo pain.", "[**Name**]", "")
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    n_tokens = len(tokenizer(texts[0])["input_ids"]) + 1  # an end token
    assert measure_notes(path, n_notes=3, model=DEMO) == NotesLoad(1, n_tokens, is_exact=True)


def summary(**changes: Any) -> ModelSummary:
    names = {"n_positions": "max_position_embeddings"}
    raw = {"model_type": "bert", "num_attention_heads": 4} | {
        names.get(key, key): value for key, value in changes.items()
    }
    return ModelSummary("m", parse_config(raw, place=""), 1_000, 1_000.0, "BertTokenizer")


def test_what_is_told_of_a_kept_training(parent: Path) -> None:
    folder = make_training(parent)
    facts_path = folder / "training.json"
    facts = TrainingFacts.read(facts_path.read_bytes(), where="x").with_(snapshots=(5, 10))
    write_whole(facts_path, facts.to_bytes())
    (folder / "model-5").mkdir()
    later = make_training(parent, run_id="c" * 12, is_whole=False) / "training.json"
    write_whole(later, facts.with_(created="2027-01-01T00:00:00+00:00").to_bytes())
    new, old = MODELS.all()
    assert (new.run_id, new.is_whole, old.run_id, old.is_whole) == ("c" * 12, False, RUN, True)
    ends = (old.n_steps_done, old.loss, old.held_out, old.first_held_out, old.snapshots)
    assert ends == (20, 4.5, 4.0, 6.0, (5,))
    assert old.n_epochs_done == pytest.approx(20 * 64 / 100)
    assert (MODELS.get(RUN), old.facts) == (old, facts)


@pytest.mark.parametrize("changes", [{"n_threads": 2}, {"n_steps": None}])
def test_a_training_of_another_version_is_refused(parent: Path, changes: dict[str, Any]) -> None:
    path = make_training(parent) / "training.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))
    with pytest.raises(AuditError, match="trained model: This was written by another version"):
        MODELS.get(RUN)
    assert MODELS.all() == ()


def test_a_trained_model_is_listed_with_its_title_and_never_by_a_link(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = data_home() / "models"
    for name in (RUN, "other"):
        make_bert(models / RUN / ("model" if name == RUN else "model-500"))
    facts_path = models / RUN / "training.json"
    facts_path.write_text(json.dumps({"title": "Ward 3,\nfive epochs"}))
    outside = make_bert(tmp_path / "trained" / "x" / "model")
    (models / "unfinished").mkdir()
    (models / "linked-run").symlink_to(outside.parent)
    (models / "linked").mkdir()
    (models / "linked" / "model").symlink_to(outside)
    (model,) = list_models()
    assert model.model_id == f"trained/{RUN}"
    assert (model.path, model.refusal) == (models / RUN / "model", "")
    assert inspect_model(model.path).name == "Ward 3, five epochs"
    names = [
        find_trained_name(models / RUN / folder_name) for folder_name in ("model-500", "checkpoint")
    ]
    assert names == ["Ward 3, five epochs (model-500)", ""]
    for text in ("", "[]", '{"title": null}', '{"title": " "}', "[" * 100_000):
        facts_path.write_text(text)
        assert find_trained_name(models / RUN / "model") == RUN
    # A registered folder cannot take its label.
    monkeypatch.setenv(VARIABLE, str(tmp_path / "trained"))
    assert [m.model_id for m in list_models()] == [f"trained/{RUN}", "trained-2/x/model"]


def test_the_load_by_hand(parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*texts: str) -> Path:
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (tmp_path / "n.jsonl").write_text("".join(lines))
        return tmp_path / "n.jsonl"

    # mary was seen by dr jones .  (7) + [SEP]; a placeholder is dropped; an empty note is none.
    path = write("Mary was seen by Dr Jones.", "[**Name**] pain and pain for 1.", "")
    assert measure_notes(path, n_notes=3, model=parent) == NotesLoad(2, 8 + 7, is_exact=True)
    write_listed(tmp_path, *range(5))
    assert measure_notes(path, n_notes=3, model=parent) == NotesLoad(2, 15, True, free_share=0.75)
    path = write(*["Mary was seen by Dr Jones."] * 100)
    monkeypatch.setattr(trainings, "SAMPLE_BYTES", path.stat().st_size // 10)
    assert measure_notes(path, n_notes=99, model=parent) == NotesLoad(99, 800, False, 0.75)
    for line in ("{", "[]", '{"note": 1}', "7", None):
        path.write_text(f"{line}\n") if line else path.unlink()
        with pytest.raises(AuditError, match="A file of the corpus cannot be read"):
            measure_notes(path, n_notes=1, model=parent)


def test_a_plan_by_hand() -> None:
    settings = TrainSettings(n_tokens=12, batch=4, micro_batch=2, n_epochs=3, held_out_share=0.5)
    load = NotesLoad(9, 1_610, True)
    # 805 tokens are 80 rows of 10 and 5 left over: 20 steps of 4 rows an epoch, 60 for three.
    plan = make_training_plan(settings, parent=summary(), load=load)
    assert plan == TrainingPlan(60, 3.0, 20.0)
    for free, n_rows in ((1.0, 144), (0.1, 144), (0.05, 153), (0.0, 161)):
        tenth_settings = settings.with_(held_out_share=0.1)
        plan_at_share = make_training_plan(
            tenth_settings, parent=summary(), load=replace(load, free_share=free)
        )
        assert plan_at_share.steps_per_epoch == n_rows / 4
    with pytest.raises(AuditError, match="Rows of 12 tokens are longer than the 11"):
        make_training_plan(settings, parent=summary(n_positions=11), load=load)
    with pytest.raises(AuditError, match="do not fill a single row"):
        make_training_plan(settings, parent=summary(), load=replace(load, n_tokens=18))


def test_presets_fit_the_model() -> None:
    short = summary(n_positions=64, hidden_size=256)
    row = TrainSettings(n_tokens=64)
    assert choose_preset("clinicalbert", parent=summary(), n_tokens=1) == TrainSettings()
    assert choose_preset("clinicalbert", parent=short, n_tokens=1) == row
    assert choose_preset("scratch", parent=short, n_tokens=1) == row.with_(
        from_scratch=True, learning_rate=1e-4
    )
    small = row.with_(
        batch=32,
        micro_batch=32,
        n_epochs=10,
        learning_rate=5e-4,
        held_out_share=0.05,
        evaluate_every=1,
        checkpoint_every=50,
    )
    # 5,000 tokens are 80 rows of 62: 2.5 steps of 32 an epoch, 25 for ten.
    assert choose_preset("small", parent=short, n_tokens=5_000) == small
    assert choose_preset("small", parent=summary(), n_tokens=10**9) == small.with_(
        n_tokens=128,
        n_epochs=None,
        n_steps=2_000,
        learning_rate=1e-4,
        evaluate_every=100,
        checkpoint_every=100,
    )


def test_the_parent_is_found_again_by_its_weights(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_training(parent)
    (model,) = MODELS.all()
    make_bert(tmp_path / "a" / "general", seed=1)
    make_bert(tmp_path / "b" / "general", n_positions=32, scale=0.02)  # the parent's copy
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert find_pair(model, models=list_models())["general"] == "b/general"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "a"))
    assert find_pair(model, models=list_models())["general"] == ""


def run_order(order: dict[str, Any], messages: list[str]) -> tuple[str, ...]:
    """Do what an order says, as a job does."""
    contact = Contact(listen=lambda *_: None, should_stop=lambda: False, say=messages.append)
    return task_class("pretrain").from_order(order).run(contact)


def make_file_task(parent: Path, **changes: Any) -> PretrainTask:
    values = {
        "general": parent,
        "settings": quick(),
        "notes": parent.with_name("notes.jsonl"),
        "device": "cpu",
    }
    return PretrainTask(**values | changes)


def make_corpus_task(parent: Path, **changes: Any) -> PretrainTask:
    return make_file_task(parent, notes=None, corpus_id=CORPUS_ID, **changes)


def test_a_question_becomes_a_kept_model_and_is_answered_once(parent: Path) -> None:
    question = make_file_task(parent, title="Ours").question()
    assert (question.kind, question.label, question.device) == ("pretrain", "general", "cpu")
    order, messages = json.loads(json.dumps(question.order)), list[str]()
    (run_id,) = run_order(order, messages)
    (model,) = MODELS.all()
    assert (model.run_id, model.facts.title, model.is_whole) == (run_id, "Ours", True)
    assert model.facts.source == "file" and model.facts.settings == quick()
    assert [messages[0], messages[-1]] == [
        f"Step 0: held-out loss {model.first_held_out:.3f} nats a token.",
        f"Step 12: loss {model.loss:.3f}, held-out loss {model.held_out:.3f} nats a token.",
    ]
    assert run_order(order, messages) == (run_id,) and len(messages) == 4


def test_the_same_question_has_the_same_name_and_others_have_others(parent: Path) -> None:
    make_corpus_folder()

    def get_run_id(task: PretrainTask) -> str:
        return str(task.question().order["run_id"])

    first = get_run_id(make_file_task(parent))
    assert first == get_run_id(make_file_task(parent, title="another title", device="auto"))
    questions = [
        make_file_task(parent, out=out).question() for out in (None, parent.with_name("mine"))
    ]
    assert questions[0].digest != questions[1].digest
    other_tasks = [
        make_file_task(parent, settings=quick(seed=1)),
        make_file_task(parent, snapshot_epochs=(0.5,)),
        make_corpus_task(parent),
        make_corpus_task(parent, source="public"),
        make_corpus_task(parent, source="other_names"),
    ]
    names = {first, *map(get_run_id, other_tasks)}
    for positions in ((1,), (1, 2)):
        write_listed(CORPORA.place(CORPUS_ID), *positions)
        names.add(get_run_id(make_corpus_task(parent)))
    assert len(names) == 8 and first == get_run_id(make_file_task(parent))
    write_notes(parent.with_name("notes.jsonl"), n=41)
    assert get_run_id(make_file_task(parent)) != first


def test_a_corpus_of_listed_patients_alone_with_other_names(parent: Path) -> None:
    folder = make_corpus_folder()
    write_listed(folder, *range(10), n_patients=10)
    messages: list[str] = []
    for source in ("other_names", "public"):
        run_order(make_corpus_task(parent, source=source).question().order, messages)
    nobody = "No patient could be held out, so no loss was measured."
    assert messages == ["Writing the same notes with other names.", nobody, nobody]
    assert (folder / "other_names.jsonl").read_bytes() == (folder / "private.jsonl").read_bytes()
    facts = [model.facts for model in MODELS.all()]
    assert {(training.source, training.corpus_id) for training in facts} == {
        ("other_names", CORPUS_ID),
        ("public", CORPUS_ID),
    }
    for training in facts:
        assert (
            training.n_documents,
            training.n_held_out_documents,
            training.n_listed_patients,
        ) == (40, 0, 10)
    assert (folder / "tokens").is_dir()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus_id": CORPUS_ID}, "one of the two"),
        ({"notes": None}, "one of the two"),
        ({"source": "secret"}, "source"),
        ({"general": Path("none")}, "none: It cannot be read"),
        ({"notes": None, "corpus_id": "f" * 12}, "corpus: This is not kept"),
        ({"notes": Path("gone.jsonl")}, "cannot be read"),
    ],
)
def test_orders_that_cannot_be_are_refused(
    parent: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(AuditError, match=message):
        make_file_task(parent, **changes).question()


def test_the_command(parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        "pretrain",
        "--general",
        str(parent),
        "--notes",
        str(tmp_path / "notes.jsonl"),
        *QUICK,
    )

    def run_pretrain(*more: str) -> dict[str, Any]:
        assert main([*command, *more]) == 0
        return dict(json.loads(capsys.readouterr().out))

    options = ("--out", str(tmp_path / "out"), "--snapshots", "0.1")
    result = run_pretrain(*options)
    assert (result["n_steps"], result["source"]) == (6, "file")
    assert result["settings"]["micro_batch"] == 8  # the largest that divides the batch
    assert load_model(tmp_path / "out" / "model").digest != result["parent_digest"]
    (snapshot,) = result["snapshots"].values()
    load_model(Path(snapshot))
    assert run_pretrain(*options) == result
    run_id = run_pretrain("--title", "Ours")["run_id"]
    assert (MODELS.place(run_id) / "model").is_dir()
    assert main(["jobs", "--json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    states = [(job["kind"], job["state"]) for job in jobs if job["result"] == [run_id]]
    assert states == [("pretrain", "done")]
    for wrong, message in (
        (("--batch", "0"), "must be a whole number"),
        (("--snapshots", "100"), "A snapshot after step"),
    ):
        assert main([*command, "--out", str(tmp_path / "new"), *wrong]) == 2
        assert message in capsys.readouterr().err


def test_a_sibling_is_trained_by_the_recipe_of_a_model_on_other_names(parent: Path) -> None:
    make_corpus_folder()
    messages: list[str] = []
    (run_id,) = run_order(make_corpus_task(parent).question().order, messages)
    hospital = MODELS.get(run_id)
    order = make_sibling_task(hospital, general=parent)
    assert order.source == "other_names" and order.corpus_id == CORPUS_ID
    assert order.settings == hospital.facts.settings
    fewer = make_sibling_task(hospital, general=parent, n_epochs=0.5)
    assert fewer.settings == hospital.facts.settings.with_(n_epochs=0.5)
    with pytest.raises(AuditError, match="a sibling may not have more"):
        make_sibling_task(hospital, general=parent, n_epochs=1000.0)
    other_model = make_bert(parent.with_name("other"), n_positions=32, scale=0.02, seed=5)
    with pytest.raises(AuditError, match="trained from another general model"):
        make_sibling_task(hospital, general=other_model)
    words = ["pretrain", "--general", str(parent), "--sibling-of", run_id, "--device", "cpu"]
    assert main([*words, "--json"]) == 0
    sibling = next(model for model in MODELS.all() if model.facts.source == "other_names")
    assert sibling.facts.settings == hospital.facts.settings and sibling.is_whole
    with pytest.raises(AuditError, match="not trained on the named notes"):
        make_sibling_task(sibling, general=parent)
    assert main([*words, "--learning-rate", "1"]) == 2
