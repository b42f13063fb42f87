"""The generative tagger: a step by hand, tuning to the same bytes, greedy answers, the job."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from audit.cli import main
from audit.deid.find import causal_model as tagging
from audit.deid.find.causal_model import (
    CausalModel,
    GenerativeTagger,
    count_answer_tokens,
    encode_text,
    load_causal,
    load_generative,
    make_tagger,
)
from audit.deid.find.decoding import GenerationRequest, generate_answers
from audit.deid.find.tagger_facts import GenerativeFacts
from audit.deid.find.taggers import find_trained_tagger, list_taggers, load_tagger
from audit.deid.learn.tagger_task import TaggerTask, TuningSettings
from audit.deid.learn.tuning import CopyLearner, Example
from audit.errors import AuditCancelled, AuditError
from audit.jobs.service import KINDS
from audit.notes.formats import read_jsonl
from audit.notes.spans import TaggedDocument
from audit.training.config import Lora, LossPoint, read_losses
from audit.training.loop import Hardware, Learner
from tests.deid.generation.tiny_model import (
    TEXTS,
    documents,
    line_of,
    order,
    tuned,
    write_gold,
    write_model,
)
from tests.deid.token.make_notes import quick
from tests.models.make_causal import CAUSAL, make_causal

FULL = {"n_epochs": 70.0}
LORA = {
    "n_epochs": 100.0,
    "learning_rate": 1e-2,
    "lora": Lora(rank=32, alpha=64.0, dropout=0.0),
}
SHORT: dict[str, Any] = {"n_epochs": 6.0, "checkpoint_every": 2, "micro_batch": 2}
ROWS = tuple(
    Example(np.array(prompt), np.array(answer))
    for prompt, answer in (
        ([1, 5, 6], [7, 8, 2]),
        ([1, 9, 10, 11, 12], [13, 2]),
        ([4], [14, 15, 16, 2]),
    )
)


def learner(path: Path, *, kind: str = "llama", **settings: object) -> CopyLearner:
    loaded = load_causal(write_model(path, kind=kind), device="cpu", is_frozen=False)
    all_settings = {"batch": 3, "micro_batch": 3, "clip": 1e6, "weight_decay": 0.0} | settings
    return CopyLearner(
        loaded.model,
        settings=TuningSettings(**all_settings),
        pad_id=0,  # type: ignore[arg-type]
        hardware=Hardware("cpu", "float32"),
        n_steps=10,
        rows=ROWS,
    )


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_loss_by_hand_whatever_the_padding_and_the_passes(tmp_path: Path, kind: str) -> None:
    whole_batch, single_rows = (
        learner(tmp_path / str(n), kind=kind, micro_batch=n) for n in (3, 1)
    )
    total, n = 0.0, 0
    for row in ROWS:
        ids = torch.tensor([[*row.prompt, *row.answer]])
        with torch.no_grad():
            log_probabilities = torch.log_softmax(
                whole_batch.model(input_ids=ids).logits[0].double(), dim=-1
            )
        for i, token in enumerate(row.answer, start=len(row.prompt)):
            total, n = total - float(log_probabilities[i - 1, token]), n + 1
    for copy_learner in (whole_batch, single_rows):
        assert copy_learner.compute_mean_loss(ROWS) == pytest.approx(total / n, rel=1e-5)
    losses = [copy_learner.step(5)[0].item() for copy_learner in (whole_batch, single_rows)]
    if kind == "llama":  # without dropout
        assert losses == pytest.approx([total / n] * 2, rel=1e-5)
        gradients = [
            [p.grad for p in copy_learner.model.parameters()]
            for copy_learner in (whole_batch, single_rows)
        ]
        for whole_gradient, parts_gradient in zip(*gradients, strict=True):
            torch.testing.assert_close(whole_gradient, parts_gradient, atol=1e-6, rtol=1e-4)


@pytest.mark.long
def test_tuned_with_lora_it_copies_its_notes_and_is_an_ordinary_model_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    model = write_model(tmp_path / "m", with_chat=True)
    task = order(tmp_path, model, **LORA).with_(validation=(tmp_path / "gold.jsonl",))
    facts, folder = tuned(task), task.folder
    tagger = load_generative(folder, device="cpu")
    readings = tagger.read(documents())
    assert [(reading.status, reading.document) for reading in readings] == [
        ("exact", d) for d in documents()
    ]
    assert tagger.tag(TEXTS) == tuple(d.spans for d in documents())
    assert facts == tagger.facts == GenerativeFacts.of_folder(folder)
    assert {path.name for path in folder.iterdir()} == {
        "tagger.json",
        "model",
        "losses.jsonl",
        "training.json",
    }
    tuned_weights, start_weights = (
        load_file(directory / "model.safetensors") for directory in (folder / "model", model)
    )
    assert tuned_weights.keys() == start_weights.keys()
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    points = read_losses(folder)
    assert facts.measured == {
        "loss": points[-1].loss,
        "first_validation": points[0].held_out,
        "validation": points[-1].held_out,
    }
    assert facts.measured["validation"] < 0.3 * facts.measured["first_validation"]
    assert facts.training["settings"] == task.settings.plain()
    assert facts.training["base"] == load_causal(model, device="cpu").digest
    assert [facts.training[f"n_{name}"] for name in ("steps", "notes", "windows", "left_out")] == [
        100,
        4,
        4,
        0,
    ]
    assert (facts.title, facts.n_note_tokens, facts.max_tokens, facts.language) == (
        "tiny",
        16,
        512,
        "ja",
    )
    again: list[LossPoint] = []
    assert tuned(task, on_point=again.append) == facts and again == []


@pytest.mark.long
@pytest.mark.parametrize("lora", [None, Lora(rank=4, dropout=0.2)])
def test_stopped_and_gone_on_the_weights_are_the_same(tmp_path: Path, lora: Lora | None) -> None:
    model = write_model(tmp_path / "m")
    whole_task, stopped_task = (
        order(tmp_path, model, out=name, **SHORT | {"lora": lora}) for name in "ab"
    )
    n_steps = tuned(whole_task).training["n_steps"]
    steps: list[int] = []
    with pytest.raises(AuditCancelled):
        tuned(
            stopped_task,
            should_stop=lambda: bool(steps) and steps[-1] >= 3,
            on_point=lambda point: steps.append(point.step),
        )
    assert steps == [0, 1, 2, 3]
    tuned(stopped_task, on_point=lambda point: steps.append(point.step))
    assert steps == list(range(n_steps + 1))  # nothing was done twice
    weights = [task.folder / "model" / "model.safetensors" for task in (whole_task, stopped_task)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert (
        len(
            {GenerativeFacts.of_folder(task.folder).digest() for task in (whole_task, stopped_task)}
        )
        == 1
    )
    with pytest.raises(AuditError, match="The folder holds another training"):
        tuned(order(tmp_path, model, out="a", **SHORT | {"lora": lora, "seed": 1}))


def test_gradient_checkpointing_two_formats_and_tags_in_english(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (tmp_path / "note.txt").write_text("<準識別子>森</準識別子>様", "utf-8")
    gold = (write_gold(tmp_path / "one.jsonl", documents()[:2]), tmp_path / "note.txt")
    tasks = [
        order(
            tmp_path, model, out=name, gradient_checkpointing=name == "b", language="en", **SHORT
        ).with_(gold=gold)
        for name in "ab"
    ]
    plain, checkpointed = (tuned(task) for task in tasks)
    assert plain.measured["loss"] == pytest.approx(checkpointed.measured["loss"], rel=1e-4)
    assert plain.training["n_notes"] == 3
    assert load_generative(tasks[0].folder, device="cpu").facts.language == "en"


def test_what_cannot_be_tuned_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_model(tmp_path / "m")
    task = order(tmp_path, model, **SHORT)
    none = tmp_path / "none.jsonl"
    for wrong, message in (
        (task.with_(gold=(none,)), "is not there"),
        (task.with_(settings=TuningSettings(max_tokens=64)), "no room"),
    ):
        with pytest.raises(AuditError, match=message):
            tuned(wrong)
    with monkeypatch.context() as patch, pytest.raises(AuditError, match="no longer a number"):
        patch.setattr(Learner, "step", lambda *_: torch.full((2,), float("nan")))
        tuned(order(tmp_path, model, out="nan", **SHORT))
    for changes in (
        {"batch": 3, "micro_batch": 2},
        {"seed": -1},
        {"schedule": "up"},
        {"what": 1},
        {"n_epochs": float("nan")},
        {"lora": {"rank": 0}},
        {"max_tokens": 63},
        {"overlap": -1},
    ):
        with pytest.raises(AuditError):
            TuningSettings(**changes)
    settings = TuningSettings(lora=Lora(rank=4), learning_rate=1e-3)
    assert TuningSettings.read(settings.to_bytes(), where="x") == settings
    rates = [
        case.highest_rate for case in (TuningSettings(), TuningSettings(lora=Lora()), settings)
    ]
    assert rates == [2e-5, 2e-4, 1e-3]
    assert [TuningSettings(batch=4, micro_batch=1).n_steps(n) for n in (1, 4, 5)] == [1, 2, 3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned")
    task = order(path, write_model(path / "m"), **FULL)
    tuned(task)
    return task.folder


@pytest.fixture
def tagger(folder: Path) -> GenerativeTagger:
    return load_generative(folder, device="cpu")


def by_hand(loaded: CausalModel, request: GenerationRequest, stops: Sequence[int]) -> list[int]:
    """The most likely token, again and again, without a cache."""
    ids, answer = list(request.prompt), list[int]()
    while len(answer) < request.n_answer:
        with torch.no_grad():
            token = int(loaded.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
        if token in stops:
            break
        answer.append(token)
        ids.append(token)
    return answer


@pytest.mark.long
def test_answers_are_a_greedy_loop_s_together_alone_and_in_halves(
    tagger: GenerativeTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*TEXTS, "森", "足立 5/3 受診 電話 99"]
    notes = [encode_text(tagger.loaded.tokenizer, text) for text in texts]
    requests = [
        GenerationRequest(tagger.frame.prompt(n), count_answer_tokens(len(n))) for n in notes
    ]
    requests[0] = replace(requests[0], n_answer=5)  # each has a limit of its own
    stops, sizes = tagger.frame.stops, list[int]()
    expected = [by_hand(tagger.loaded, request, stops) for request in requests]
    assert len(expected[0]) == 5
    real = tagger.loaded.model.forward

    def small(ids: Any, **inputs: Any) -> Any:
        sizes.append(len(ids))
        if len(ids) > max_rows:
            raise torch.OutOfMemoryError
        return real(ids, **inputs)

    # The loop asks the signature which arguments the model takes.
    small.__signature__ = inspect.signature(real)  # type: ignore[attr-defined]
    monkeypatch.setattr(tagger.loaded.model, "forward", small)
    n_forwards = [
        len(answer) + (len(answer) < r.n_answer)
        for answer, r in zip(expected, requests, strict=True)
    ]
    for limit, n_tokens, begun_sizes in (
        (9, 10**6, [6]),
        (9, 1, [1] * 6),
        (2, 10**6, [6, 3, 1, 2, 3, 1, 2]),
    ):
        max_rows = limit
        sizes.clear()
        answers = generate_answers(tagger.loaded, requests, stops=stops, n_tokens=n_tokens)
        assert [answer.tokens for answer in answers] == expected
        n_refused = len(begun_sizes) - len([n for n in begun_sizes if n <= limit])
        assert sum(n for n in sizes if n <= limit) == sum(n_forwards), "nobody waits for the others"
        assert sizes[0] == begun_sizes[0] and sum(n > limit for n in sizes) == n_refused
    max_rows = 0
    with pytest.raises(AuditError, match="Memory ran out with a single window"):
        generate_answers(tagger.loaded, requests[:1], stops=stops, n_tokens=1)


@pytest.mark.parametrize("name", CAUSAL)
def test_every_kind_of_model_answers_in_a_batch_as_alone(name: str, tmp_path: Path) -> None:
    loaded = load_causal(make_causal(tmp_path / "m", name), device="cpu")
    requests = [GenerationRequest(tuple(range(5, 5 + n)), 6 + n) for n in (3, 9, 14, 5)]
    # Many tokens end an answer, so the rows leave the batch at different times.
    stops = range(0, loaded.model.config.get_text_config().vocab_size, 9)
    answers = generate_answers(loaded, requests, stops=stops)
    assert [answer.tokens for answer in answers] == [
        by_hand(loaded, request, stops) for request in requests
    ]


def test_a_long_note_is_read_in_windows_and_it_tells_how_far_it_is(
    tagger: GenerativeTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, shares = "\n".join(TEXTS[:3]), list[float]()
    monkeypatch.setitem(tagging._TOKENS_AT_ONCE, "cpu", 1)
    notes = [TaggedDocument("long", text), TaggedDocument("a", ""), TaggedDocument("b", " \n")]
    reading, *empty_readings = tagger.read(notes, on_share=shares.append)
    assert [(empty.status, empty.tags) for empty in empty_readings] == [("exact", ())] * 2
    n_tokens = len(encode_text(tagger.loaded.tokenizer, text))
    assert reading.edits["n_source_chars"] > len(text) and n_tokens > tagger.n_note, "windows"
    assert shares == sorted(shares) and len(shares) > 10
    assert 0 < shares[0] < 0.1 and shares[-1] == 1.0
    with pytest.raises(AuditCancelled):
        tagger.read(documents(), should_stop=lambda: True)


def test_models_and_facts_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", kind="gpt2", n_positions=400)
    loaded = load_causal(model, device="cpu")
    tagger = make_tagger(loaded, GenerativeFacts(model=loaded.digest), is_free=True)
    (reading,) = tagger.read(documents()[:1])
    assert reading.status != "exact" and reading.document.text == TEXTS[0]
    assert (tagger.facts.growth, tagger.loaded.n_context) == (2.0, 400)
    with pytest.raises(AuditError, match="no room"):
        make_tagger(loaded, GenerativeFacts(model="", max_tokens=100))
    facts = GenerativeFacts(title="a", model="0" * 64)
    assert facts.digest() == facts.with_(title="b").digest() != facts.with_(overlap=3).digest()
    with pytest.raises(AuditError, match="must be"):
        GenerativeFacts(title="", model="", language="de")  # type: ignore[arg-type]
    copied = shutil.copytree(folder, tmp_path / "copy")
    write_model(copied / "model")
    with pytest.raises(AuditError, match=r"is not the one that tagger.json describes"):
        load_generative(copied, device="cpu")
    config = json.loads((model / "config.json").read_text())
    for name, content, message in (
        ("adapter_config.json", {"base_model_name_or_path": "elsewhere"}, "holds an adapter"),
        ("adapter_config.json", None, None),
        ("config.json", config | {"n_layer": 3}, "lacks tensors"),
        ("config.json", {}, "cannot be loaded as a causal language model"),
        ("model.safetensors", None, "no safetensors weights"),
        ("config.json", None, "no model"),
    ):
        (model / name).unlink(missing_ok=True)
        if content is not None:
            (model / name).write_text(json.dumps(content))
        if message:
            with pytest.raises(AuditError, match=message):
                load_causal(model, device="cpu")


@pytest.fixture
def small_task(tmp_path: Path) -> TaggerTask:
    return order(tmp_path, write_model(tmp_path / "m"), **SHORT).with_(out=None)


@pytest.mark.parametrize("label", ["m", "characters"])
def test_other_notes_settings_models_or_places_are_another_question(
    small_task: TaggerTask, tmp_path: Path, label: str
) -> None:
    other_changes: dict[str, Any] = {"start": write_model(tmp_path / "n")}
    if label == "characters":
        small_task, other_changes = small_task.with_(settings=quick(), start=None), {}
    question = small_task.with_(title="山田's").question()
    assert json.loads(json.dumps(dict(question.order))) == question.order
    assert (question.kind, question.label) == ("tagger", label) and "tagger" in KINDS
    changes = {
        "settings": small_task.settings.with_(seed=1),
        "validation": (),
        "out": Path("/o"),
    } | other_changes
    changed_tasks = [
        small_task,
        *(small_task.with_(**{name: change}) for name, change in changes.items()),
    ]
    digests = [changed_task.question().digest for changed_task in changed_tasks]
    assert len({*digests}) == len(changed_tasks) and question.digest == digests[0]
    write_gold(small_task.gold[0], documents()[:2])
    assert small_task.question().digest not in digests
    for wrong, message in (
        ({"gold": (Path("none"),)}, "cannot be read"),
        ({"start": tmp_path}, "no model directory"),
        ({"gold": ()}, "gold notes"),
        ({"title": "x" * 300}, "title"),
    ):
        with pytest.raises(AuditError, match=message):
            small_task.with_(**wrong).question()
    if label == "m":
        with pytest.raises(AuditError, match="no model directory"):
            small_task.with_(start=None).question()


@pytest.mark.long
def test_the_command_from_gold_notes_to_the_score_of_copies(
    small_task: TaggerTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_deid(*options: object, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["deid", *map(str, options), "--json"]) == code
        captured = capsys.readouterr()
        return {"said": captured.err} if code else dict(json.loads(captured.out))

    gold, model, folder = small_task.gold[0], small_task.start, tmp_path / "out"
    tune = ("train", "--kind", "generative", "--gold", gold, "--model", model, "--device", "cpu")
    report = run_deid(
        *tune,
        "--validation",
        gold,
        "--gen-epochs",
        70,
        "--gen-batch",
        4,
        "--gen-micro-batch",
        4,
        "--gen-learning-rate",
        "3e-3",
    )
    tagger = find_trained_tagger(report["tagger_id"])
    assert (tagger.kind, tagger.points[-1].step) == ("generative", 70)
    assert GenerativeFacts.of_folder(Path(report["directory"])).digest() == report["digest"]
    assert load_tagger(tagger.tagger_id, device="cpu").digest == tagger.digest != report["digest"]
    assert list_taggers()[-1] == tagger and report["training"]["n_windows"] == 4
    notes = tmp_path / "notes.jsonl"
    lines = (line_of(doc_id=f"d{i}", text=text) for i, text in enumerate(TEXTS))
    notes.write_text("".join(lines), "utf-8")
    census = run_deid(
        "tag", "--tagger", report["tagger_id"], "--notes", notes, "--out", folder, "--device", "cpu"
    )
    assert census["copies"]["statuses"]["exact"] == census["copies"]["n_notes"] == 4
    released = (folder / "spans.jsonl").read_text("utf-8")
    assert [note.spans for note in read_jsonl(released, subject="x")] == [
        d.spans for d in documents()
    ]
    assert "--pred, --outputs" in run_deid("score", "--gold", gold, code=2)["said"]
    wrong = run_deid("train", "--kind", "generative", "--gold", gold, code=2)
    assert "Which model" in wrong["said"]
    wrong = run_deid(*tune, "--lora-rank", 4, code=2)
    assert "Add --lora, or leave --lora-rank out" in wrong["said"]
    report = run_deid(
        *tune,
        "--out",
        tmp_path / "o",
        "--lora",
        "--lora-rank",
        4,
        "--gen-epochs",
        2,
        "--gen-learning-rate",
        "1e-2",
    )
    assert (report["training"]["n_notes"], report["training"]["n_held_out"]) == (3, 1), "kept apart"
    assert report["tagger_id"] is None
    assert report["training"]["settings"]["lora"]["rank"] == 4
    assert report["measured"]["validation"] < report["measured"]["first_validation"]
