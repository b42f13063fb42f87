"""The generative tagger: a step by hand, tuning to the same bytes, greedy answers, the job."""

from __future__ import annotations

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
from audit.deid.generative import causal_model as tagging
from audit.deid.generative.causal_model import (
    Asked,
    CausalModel,
    GenerativeTagger,
    answer_tokens,
    generated,
    load_causal,
    load_generative,
    tagger_of,
    text_ids,
)
from audit.deid.generative.tuning import CopyLearner, Example
from audit.deid.tagger_config import GenerativeFacts, Lora, TuningSettings
from audit.deid.taggers import known_taggers, load_tagger, trained_tagger
from audit.deid.tasks import TaggerTask
from audit.errors import AuditCancelled, AuditError
from audit.jobs.service import KINDS
from audit.notes.formats import read_jsonl
from audit.notes.spans import TaggedDocument
from audit.training.config import LossPoint, read_losses
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
    given = {"batch": 3, "micro_batch": 3, "clip": 1e6, "weight_decay": 0.0} | settings
    return CopyLearner(
        loaded.model,
        settings=TuningSettings(**given),
        pad_id=0,  # type: ignore[arg-type]
        hardware=Hardware("cpu", "float32"),
        n_steps=10,
        rows=ROWS,
    )


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_loss_by_hand_whatever_the_padding_and_the_passes(tmp_path: Path, kind: str) -> None:
    whole, parts = (learner(tmp_path / str(n), kind=kind, micro_batch=n) for n in (3, 1))
    total, n = 0.0, 0
    for row in ROWS:
        ids = torch.tensor([[*row.prompt, *row.answer]])
        with torch.no_grad():
            said = torch.log_softmax(whole.model(input_ids=ids).logits[0].double(), dim=-1)
        for i, token in enumerate(row.answer, start=len(row.prompt)):
            total, n = total - float(said[i - 1, token]), n + 1
    for one in (whole, parts):
        assert one.loss_of(ROWS) == pytest.approx(total / n, rel=1e-5)
    losses = [one.step(5)[0].item() for one in (whole, parts)]
    if kind == "llama":  # without dropout
        assert losses == pytest.approx([total / n] * 2, rel=1e-5)
        gradients = [[p.grad for p in one.model.parameters()] for one in (whole, parts)]
        for one_grad, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one_grad, other, atol=1e-6, rtol=1e-4)


@pytest.mark.long
def test_tuned_with_lora_it_copies_its_notes_and_is_an_ordinary_model_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    model = write_model(tmp_path / "m", with_chat=True)
    asked = order(tmp_path, model, **LORA).with_(validation=(tmp_path / "gold.jsonl",))
    told, made = tuned(asked), asked.folder
    tagger = load_generative(made, device="cpu")
    readings = tagger.read(documents())
    assert [(one.status, one.document) for one in readings] == [("exact", d) for d in documents()]
    assert tagger.tag(TEXTS) == tuple(d.spans for d in documents())
    assert told == tagger.facts == GenerativeFacts.of_folder(made)
    assert {path.name for path in made.iterdir()} == {
        "tagger.json",
        "model",
        "losses.jsonl",
        "training.json",
    }
    plain, before = (load_file(one / "model.safetensors") for one in (made / "model", model))
    assert plain.keys() == before.keys()
    for path in made.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    points = read_losses(made)
    assert told.measured == {
        "loss": points[-1].loss,
        "first_validation": points[0].held_out,
        "validation": points[-1].held_out,
    }
    assert told.measured["validation"] < 0.3 * told.measured["first_validation"]
    assert told.training["settings"] == asked.settings.plain()
    assert told.training["base"] == load_causal(model, device="cpu").digest
    assert [told.training[f"n_{name}"] for name in ("steps", "notes", "windows", "left_out")] == [
        100,
        4,
        4,
        0,
    ]
    assert (told.title, told.n_note_tokens, told.max_tokens, told.language) == (
        "tiny",
        16,
        512,
        "ja",
    )
    again: list[LossPoint] = []
    assert tuned(asked, on_point=again.append) == told and again == []


@pytest.mark.long
@pytest.mark.parametrize("lora", [None, Lora(rank=4, dropout=0.2)])
def test_stopped_and_gone_on_the_weights_are_the_same(tmp_path: Path, lora: Lora | None) -> None:
    model = write_model(tmp_path / "m")
    whole, asked = (order(tmp_path, model, out=out, **SHORT | {"lora": lora}) for out in "ab")
    n_steps = tuned(whole).training["n_steps"]
    seen: list[int] = []
    with pytest.raises(AuditCancelled):
        tuned(
            asked,
            should_stop=lambda: bool(seen) and seen[-1] >= 3,
            on_point=lambda point: seen.append(point.step),
        )
    assert seen == [0, 1, 2, 3]
    tuned(asked, on_point=lambda point: seen.append(point.step))
    assert seen == list(range(n_steps + 1))  # nothing was done twice
    weights = [one.folder / "model" / "model.safetensors" for one in (whole, asked)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert len({GenerativeFacts.of_folder(made.folder).digest() for made in (whole, asked)}) == 1
    with pytest.raises(AuditError, match="The folder holds another training"):
        tuned(order(tmp_path, model, out="a", **SHORT | {"lora": lora, "seed": 1}))


def test_gradient_checkpointing_two_formats_and_tags_in_english(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (tmp_path / "note.txt").write_text("<準識別子>森</準識別子>様", "utf-8")
    gold = (write_gold(tmp_path / "one.jsonl", documents()[:2]), tmp_path / "note.txt")
    asked = [
        order(
            tmp_path, model, out=name, gradient_checkpointing=name == "b", language="en", **SHORT
        ).with_(gold=gold)
        for name in "ab"
    ]
    plain, other = (tuned(one) for one in asked)
    assert plain.measured["loss"] == pytest.approx(other.measured["loss"], rel=1e-4)
    assert plain.training["n_notes"] == 3
    assert load_generative(asked[0].folder, device="cpu").facts.language == "en"


def test_what_cannot_be_tuned_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_model(tmp_path / "m")
    asked = order(tmp_path, model, **SHORT)
    none = tmp_path / "none.jsonl"
    for wrong, said in (
        (asked.with_(gold=(none,)), "is not there"),
        (asked.with_(settings=TuningSettings(max_tokens=64)), "no room"),
    ):
        with pytest.raises(AuditError, match=said):
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
    assert TuningSettings.read(settings.written(), where="x") == settings
    rates = [one.highest_rate for one in (TuningSettings(), TuningSettings(lora=Lora()), settings)]
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


def by_hand(loaded: CausalModel, asked: Asked, stops: Sequence[int]) -> list[int]:
    """The most likely token, again and again, without a cache."""
    ids, answer = list(asked.prompt), list[int]()
    while len(answer) < asked.n_answer:
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
    notes = [text_ids(tagger.loaded.tokenizer, text) for text in texts]
    asked = [Asked(tagger.frame.prompt(n), answer_tokens(len(n))) for n in notes]
    asked[0] = replace(asked[0], n_answer=5)  # each has a limit of its own
    stops, sizes = tagger.frame.stops, list[int]()
    expected = [by_hand(tagger.loaded, one, stops) for one in asked]
    assert len(expected[0]) == 5
    real = tagger.loaded.model.generate

    def small(**given: Any) -> Any:
        sizes.append(len(given["input_ids"]))
        if len(given["input_ids"]) > most:
            raise torch.OutOfMemoryError
        return real(**given)

    monkeypatch.setattr(tagger.loaded.model, "generate", small)
    for limit, n_tokens, seen in (
        (9, 10**6, [6]),
        (9, 1, [1] * 6),
        (2, 10**6, [6, 3, 1, 2, 3, 1, 2]),
    ):
        most = limit
        sizes.clear()
        assert generated(tagger.loaded, asked, stops=stops, n_tokens=n_tokens) == expected
        assert sizes == seen
    most = 0
    with pytest.raises(AuditError, match="Memory ran out with a single window"):
        generated(tagger.loaded, asked[:1], stops=stops, n_tokens=1)


def test_a_long_note_is_read_in_windows_and_it_tells_how_far_it_is(
    tagger: GenerativeTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, shares = "\n".join(TEXTS[:3]), list[float]()
    monkeypatch.setitem(tagging._TOKENS_AT_ONCE, "cpu", 1)
    notes = [TaggedDocument("long", text), TaggedDocument("a", ""), TaggedDocument("b", " \n")]
    reading, *others = tagger.read(notes, on_share=shares.append)
    assert [(one.status, one.tags) for one in others] == [("exact", ())] * 2
    n_tokens = len(text_ids(tagger.loaded.tokenizer, text))
    assert reading.edits["n_source_chars"] > len(text) and n_tokens > tagger.n_note, "windows"
    assert shares == sorted(shares) and len(shares) > 10
    assert 0 < shares[0] < 0.1 and shares[-1] == 1.0
    with pytest.raises(AuditCancelled):
        tagger.read(documents(), should_stop=lambda: True)


def test_models_and_facts_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", kind="gpt2", n_positions=400)
    loaded = load_causal(model, device="cpu")
    tagger = tagger_of(loaded, GenerativeFacts(model=loaded.digest))
    (reading,) = tagger.read(documents()[:1])
    assert reading.status != "exact" and reading.document.text == TEXTS[0]
    assert (tagger.facts.growth, tagger.loaded.n_context) == (2.0, 400)
    with pytest.raises(AuditError, match="no room"):
        tagger_of(loaded, GenerativeFacts(model="", max_tokens=100))
    facts = GenerativeFacts(title="a", model="0" * 64)
    assert facts.digest() == facts.with_(title="b").digest() != facts.with_(overlap=3).digest()
    with pytest.raises(AuditError, match="must be"):
        GenerativeFacts(title="", model="", language="de")  # type: ignore[arg-type]
    copied = shutil.copytree(folder, tmp_path / "copy")
    write_model(copied / "model")
    with pytest.raises(AuditError, match=r"is not the one that tagger.json describes"):
        load_generative(copied, device="cpu")
    config = json.loads((model / "config.json").read_text())
    for name, content, said in (
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
        if said:
            with pytest.raises(AuditError, match=said):
                load_causal(model, device="cpu")


@pytest.fixture
def asked(tmp_path: Path) -> TaggerTask:
    return order(tmp_path, write_model(tmp_path / "m"), **SHORT).with_(out=None)


@pytest.mark.parametrize("label", ["m", "characters"])
def test_other_notes_settings_models_or_places_are_another_question(
    asked: TaggerTask, tmp_path: Path, label: str
) -> None:
    others: dict[str, Any] = {"start": write_model(tmp_path / "n")}
    if label == "characters":
        asked, others = asked.with_(settings=quick(), start=None), {}
    question = asked.with_(title="山田's").question()
    assert json.loads(json.dumps(dict(question.order))) == question.order
    assert (question.kind, question.label) == ("tagger", label) and "tagger" in KINDS
    changes = {
        "settings": asked.settings.with_(seed=1),
        "validation": (),
        "out": Path("/o"),
    } | others
    changed = [asked, *(asked.with_(**{name: value}) for name, value in changes.items())]
    digests = [one.question().digest for one in changed]
    assert len({*digests}) == len(changed) and question.digest == digests[0]
    write_gold(asked.gold[0], documents()[:2])
    assert asked.question().digest not in digests
    for wrong, said in (
        ({"gold": (Path("none"),)}, "cannot be read"),
        ({"start": tmp_path}, "no model directory"),
        ({"gold": ()}, "gold notes"),
        ({"title": "x" * 300}, "title"),
    ):
        with pytest.raises(AuditError, match=said):
            asked.with_(**wrong).question()
    if label == "m":
        with pytest.raises(AuditError, match="no model directory"):
            asked.with_(start=None).question()


@pytest.mark.long
def test_the_command_from_gold_notes_to_the_score_of_copies(
    asked: TaggerTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def deid(*options: object, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["deid", *map(str, options), "--json"]) == code
        captured = capsys.readouterr()
        return {"said": captured.err} if code else dict(json.loads(captured.out))

    gold, model, out = asked.gold[0], asked.start, tmp_path / "out"
    tune = ("train", "--kind", "generative", "--gold", gold, "--model", model, "--device", "cpu")
    told = deid(
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
    kept = trained_tagger(told["tagger_id"])
    assert (kept.kind, kept.points[-1].step) == ("generative", 70)
    assert GenerativeFacts.of_folder(Path(told["directory"])).digest() == told["digest"]
    assert load_tagger(kept.tagger_id, device="cpu").digest == kept.digest != told["digest"]
    assert known_taggers()[-1] == kept and told["training"]["n_windows"] == 4
    notes = tmp_path / "notes.jsonl"
    lines = (line_of(doc_id=f"d{i}", text=text) for i, text in enumerate(TEXTS))
    notes.write_text("".join(lines), "utf-8")
    census = deid(
        "tag", "--tagger", told["tagger_id"], "--notes", notes, "--out", out, "--device", "cpu"
    )
    assert census["copies"]["statuses"]["exact"] == census["copies"]["n_notes"] == 4
    released = (out / "spans.jsonl").read_text("utf-8")
    assert [one.spans for one in read_jsonl(released, subject="x")] == [
        d.spans for d in documents()
    ]
    assert "--pred, --outputs" in deid("score", "--gold", gold, code=2)["said"]
    wrong = deid("train", "--kind", "generative", "--gold", gold, code=2)
    assert "Which model" in wrong["said"]
    wrong = deid(*tune, "--lora-rank", 4, code=2)
    assert "Add --lora, or leave --lora-rank out" in wrong["said"]
    told = deid(
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
    assert (told["training"]["n_notes"], told["training"]["n_held_out"]) == (3, 1), "kept apart"
    assert told["tagger_id"] is None
    assert told["training"]["settings"]["lora"]["rank"] == 4
    assert told["measured"]["validation"] < told["measured"]["first_validation"]
