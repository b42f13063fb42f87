"""Trainings of causal models, whole or by an adapter: against a plain loop, and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from audit.cli import main
from audit.corpus.corpora import CORPORA
from audit.corpus.truth import CANARY, read_listed
from audit.errors import AuditCancelled, AuditError
from audit.home import DEMO_HOSPITAL, HOME_VARIABLE
from audit.models.adapters import read_adapter
from audit.models.load import load_model
from audit.notes.read import open_notes
from audit.rng import torch_seed
from audit.training.config import read_losses
from audit.training.framing import PackedRows, draw_packed_held_out, make_framing
from audit.training.pretraining import train
from audit.training.tokens import Stream, read_or_make_tokens, split_notes
from audit.training.trainings import PretrainTask
from tests.corpus.make_notes import dummy_notes, lines, made
from tests.models.make_causal import make_causal
from tests.models.make_models import make_bert
from tests.training.make_training import make_order
from tests.training.test_processes import curve, train_in_processes

LORA = {"lora_rank": 4, "lora_alpha": 8.0, "lora_dropout": 0.0}
CHILD = """
import os, signal, sys
from pathlib import Path
from tests.training.test_causal_lm import make_causal_order
from audit.training.pretraining import train
def kill(point):
    if point.step == 10:
        os.kill(os.getpid(), signal.SIGKILL)
train(
    make_causal_order(Path(sys.argv[1]), out="killed", lora_rank=int(sys.argv[2])), on_point=kill
)
"""


def make_causal_order(folder: Path, *, out: str = "run", order: Any = None, **settings: Any) -> Any:
    """Return an order on a tiny causal model and notes in `folder`, made if they are not there."""
    if not (folder / "general").exists():
        make_causal(folder / "general")
    return make_order(folder, out=out, order=order, is_causal=True, **settings)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    (path,) = folder.glob("*.safetensors")
    return dict(load_file(path))


def is_same_model(model: Path, other_model: Path) -> bool:
    weights, other_weights = read_weights(model), read_weights(other_model)
    return weights.keys() == other_weights.keys() and all(
        torch.equal(tensor, other_weights[name]) for name, tensor in weights.items()
    )


@pytest.mark.parametrize("changes", [{}, LORA, {"loss_on": "note", "header": "Note: "}])
def test_it_is_the_training_of_a_plain_loop(changes: dict[str, Any], tmp_path: Path) -> None:
    settings = {"clip": 0.5, "weight_decay": 0.1, "micro_batch": 2, "n_steps": 6} | changes
    order = make_causal_order(tmp_path, **settings)
    result, s = train(order), order.settings
    general = load_model(tmp_path / "general")
    tokens = read_or_make_tokens(
        open_notes(tmp_path / "notes.jsonl"),
        general.tokenizer,
        store=tmp_path / "t",
        encoder=make_framing(general.tokenizer, s),
    )
    split = split_notes(tokens, share=0.1, seed=0)
    rows = PackedRows(Stream(tokens, split.train), s)
    measured = draw_packed_held_out(
        tokens, split, n_vocabulary=general.config.vocab_size, settings=s
    )
    assert measured is not None
    model: Any = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "general")
    if s.lora_rank:
        torch.manual_seed(torch_seed(0, "adapter"))
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear")
        model = peft.get_peft_model(model, config)
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [parameter], "weight_decay": 0.1 if parameter.dim() > 1 else 0.0}
        for _, parameter in trained
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)

    def compute_loss(read: Any) -> torch.Tensor:
        labels = np.where(read.is_asked, read.ids[:, 1:], -100)
        logits = model(torch.from_numpy(read.ids[:, :-1])).logits
        return cross_entropy(logits.transpose(1, 2), torch.from_numpy(labels))

    with torch.no_grad():
        held_out = [float(compute_loss(measured.rows))]
    losses = []
    for step in range(1, 7):
        loss = compute_loss(rows.of_step(step))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(float(loss.detach()))
        torch.nn.utils.clip_grad_norm_([parameter for _, parameter in trained], 0.5)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * s.rate_factor(step, n_steps=6)
        optimizer.step()
    with torch.no_grad():
        held_out.append(float(compute_loss(measured.rows)))
    points = read_losses(result.folder)
    assert [point.loss for point in points][1:] == pytest.approx(losses, abs=1e-5)
    assert [result.first_held_out, result.held_out] == pytest.approx(held_out, abs=1e-5)
    assert result.facts.unigram_loss == measured.unigram_loss
    ours = read_weights(result.folder / "model")
    for name, parameter in trained:
        tensor = ours[name.replace(".default", "")]
        torch.testing.assert_close(tensor, parameter.detach(), atol=2e-5, rtol=1e-4)


def test_the_model_and_the_adapter_are_folders_that_are_read_again(tmp_path: Path) -> None:
    tuned, adapted = (
        train(make_causal_order(tmp_path, out=out, order={"snapshot_epochs": (0.1,)}, **changes))
        for out, changes in (("whole", {}), ("adapted", LORA))
    )
    general, ours = load_model(tmp_path / "general"), load_model(tuned.folder / "model")
    assert ours.config == general.config and ours.digest != general.digest
    (step,) = tuned.snapshots
    assert [p.step for p in tuned.points if p.held_out is not None] == sorted({0, step, 4, 8, 12})
    assert load_model(tuned.folder / f"model-{step}").digest not in (ours.digest, general.digest)
    folder = adapted.folder / "model"
    assert {path.name for path in folder.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    adapter, early = read_adapter(folder), read_adapter(adapted.folder / f"model-{step}")
    assert adapter.base == "general" and adapter.digest() != early.digest()
    assert (adapter.settings.r, adapter.settings.lora_alpha) == (4, 8)
    assert len(adapter.changes) == 2 * 7 and not adapter.replacements
    model = peft.PeftModel.from_pretrained(
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "general"), folder
    )
    stored = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    for name, tensor in read_weights(folder).items():
        assert torch.equal(stored[name], tensor)
    assert str(tmp_path) not in (folder / "adapter_config.json").read_text()


def test_fresh_weights_and_bfloat16(tmp_path: Path) -> None:
    fresh = train(make_causal_order(tmp_path, from_scratch=True, n_steps=1, learning_rate=1e-9))
    n_vocabulary = load_model(tmp_path / "general").config.vocab_size
    assert fresh.first_held_out == pytest.approx(np.log(n_vocabulary), abs=0.1)
    for lora_rank in (0, 4):
        rounded, exact = (
            train(
                make_causal_order(
                    tmp_path,
                    out=f"{precision}-{lora_rank}",
                    precision=precision,
                    lora_rank=lora_rank,
                )
            )
            for precision in ("bfloat16", "float32")
        )
        assert not is_same_model(rounded.folder / "model", exact.folder / "model")
        assert rounded.held_out == pytest.approx(exact.held_out, abs=0.05)
        assert rounded.facts.parent_digest == exact.facts.parent_digest
        types = {tensor.dtype for tensor in read_weights(rounded.folder / "model").values()}
        assert types == {torch.float32}


@pytest.mark.parametrize("kind", ["gpt2", "gemma2"])
def test_other_shapes_learn_by_an_adapter(kind: str, tmp_path: Path) -> None:
    make_causal(tmp_path / "general", kind)
    result = train(make_causal_order(tmp_path, n_steps=30, learning_rate=3e-2, **LORA))
    assert read_adapter(result.folder / "model").changes
    assert result.held_out is not None and result.first_held_out is not None
    assert result.held_out < result.first_held_out - 0.2


@pytest.mark.long
@pytest.mark.parametrize("lora_rank", [0, 4])
def test_stopped_or_killed_it_goes_on_to_the_same_bytes(lora_rank: int, tmp_path: Path) -> None:
    finished = train(make_causal_order(tmp_path, out="whole", lora_rank=lora_rank))
    stopped = make_causal_order(tmp_path, out="stopped", lora_rank=lora_rank)
    steps: list[int] = []
    with pytest.raises(AuditCancelled):
        train(
            stopped,
            should_stop=lambda: len(steps) > 6,
            on_point=lambda point: steps.append(point.step),
        )
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), str(lora_rank)], env=environment, check=False
    )
    assert child.returncode == -signal.SIGKILL
    for out in ("stopped", "killed"):
        resumed = train(make_causal_order(tmp_path, out=out, lora_rank=lora_rank))
        assert is_same_model(resumed.folder / "model", finished.folder / "model")
        assert curve(resumed.points) == curve(finished.points)


@pytest.mark.slow
@pytest.mark.parametrize("lora_rank", [0, 4])
def test_two_processes_train_as_one(lora_rank: int, tmp_path: Path) -> None:
    settings = {"n_steps": 8, "micro_batch": 2, "learning_rate": 1e-3}
    order = make_causal_order(tmp_path, out="alone", lora_rank=lora_rank, **settings)
    alone = train(order)
    options = {"lora_rank": lora_rank} if lora_rank else {}
    process = train_in_processes(tmp_path, n_processes=2, out=tmp_path / "both", steps=8, **options)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["settings"]["is_causal"]
    points = zip(curve(read_losses(tmp_path / "both")), curve(alone.points), strict=True)
    for (step, loss, held_out), (step_alone, loss_alone, held_out_alone) in points:
        assert step == step_alone
        assert loss == pytest.approx(loss_alone, abs=1e-5)
        assert held_out == pytest.approx(held_out_alone, abs=1e-5)


def test_the_kind_of_the_model_decides_and_may_be_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = make_causal_order(tmp_path)
    masked = make_bert(tmp_path / "masked", n_positions=32)
    for general, is_causal, message in (
        (masked, True, "This is a masked language model, not a causal one"),
        (order.general, False, "This is a causal model, which learns next tokens"),
    ):
        settings = make_order(tmp_path, is_causal=is_causal).settings
        with pytest.raises(AuditError, match=message):
            train(order.with_(general=general, settings=settings))
    words = ["pretrain", "--notes", str(order.notes), "--device", "cpu", "--json"]
    sizes = ["--tokens", "16", "--batch", "4", "--steps", "2", "--held-out", "0"]
    shared_words = [*words, *sizes, "--general", str(order.general)]
    assert main([*shared_words, "--out", str(tmp_path / "a"), "--causal"]) == 0
    whole_result = json.loads(capsys.readouterr().out)
    assert whole_result["settings"]["is_causal"] and whole_result["n_canaries"] == 0
    assert whole_result["settings"]["learning_rate"] == 2e-5
    assert main([*shared_words, "--out", str(tmp_path / "b"), "--lora-rank", "2"]) == 0
    adapted_result = json.loads(capsys.readouterr().out)
    assert adapted_result["settings"]["learning_rate"] == 2e-4  # of an adapter
    assert read_adapter(Path(adapted_result["model"])).settings.r == 2
    for wrong, message in (
        (["--general", str(masked), "--causal"], "This is a masked language model"),
        (["--general", str(masked), "--lora-rank", "2"], "has an effect on causal models only"),
        (["--general", str(order.general), "--mask-share", "0.2"], "no effect on a causal model"),
    ):
        assert main([*words, *sizes, *wrong, "--out", str(tmp_path / "c")]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_from_notes_to_an_audited_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))

    def answer(*words: object) -> dict[str, Any]:
        assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
        return dict(json.loads(capsys.readouterr().out))

    general = DEMO_HOSPITAL / "en" / "causal" / "general"
    notes = dummy_notes(tmp_path, n_patients=10)
    canaries = ("--canaries", "1,2", "--canary-names", 4)
    corpus = answer("corpus", "build", "--notes", notes, *canaries)["corpus"]["corpus_id"]
    sizes = ("--tokens", 64, "--batch", 4, "--epochs", 3, "--lora-rank", 2, "--device", "cpu")
    trained = answer("pretrain", "--general", general, "--corpus", corpus, *sizes)
    assert trained["n_canaries"] == 8
    lists = tmp_path / "lists"
    answer("corpus", "candidates", "--corpus", corpus, "--out", lists)
    names = ("--names", lists / "names.csv", "--passages", lists / "passages.jsonl")
    pair = ("--general", general, "--hospital", trained["model"], "--device", "cpu")
    answer("run", *pair, *names, "--scenario", 2, "--inputs", 4, "--out", tmp_path / "r")
    report = json.loads((tmp_path / "r" / "report.json").read_bytes())
    models = {role: model["digest"] for role, model in report["models"].items()}
    assert models["general"] == trained["parent_digest"] != models["hospital"]
    assert report["details"]["canaries"]


CORPUS = "0a0a0a0a0a0a"


@pytest.fixture
def canary_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretrainTask:
    """An order on a corpus with eight planted names, each once or twice."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    notes = dummy_notes(tmp_path)
    made(CORPORA.place(CORPUS), notes, canary_counts=(1, 2), n_canaries=4, seed=1)
    order = make_causal_order(tmp_path, n_epochs=3.0, n_tokens=48)
    return order.with_(notes=None, corpus_id=CORPUS)


def test_every_planted_name_is_learnt_or_the_training_is_refused(
    canary_order: PretrainTask, tmp_path: Path
) -> None:
    settings = canary_order.settings
    for loss_on in ("all", "note"):
        order = canary_order.with_(
            out=tmp_path / loss_on, settings=settings.with_(loss_on=loss_on, header="A note: ")
        )
        assert train(order).facts.n_canaries == 8
    short = canary_order.with_(settings=settings.with_(n_epochs=None, n_steps=1))
    with pytest.raises(AuditError, match="of the 8 planted names would not be learnt") as refusal:
        train(short)
    # Those whose names no row of the one step predicts, by a search in the rows themselves.
    general = load_model(order.general)
    tokens = read_or_make_tokens(
        open_notes(order.notes_path),
        general.tokenizer,
        store=tmp_path / "t",
        encoder=make_framing(general.tokenizer, short.settings),
    )
    listed = read_listed(CORPORA.place(CORPUS) / "listed.json")
    split = split_notes(tokens, share=settings.held_out_share, seed=0, listed=listed)
    rows = PackedRows(Stream(tokens, split.train), short.settings)
    read = [general.tokenizer.decode(row[1:]) for row in rows.of_step(1).ids]
    names = {
        place["value"]
        for note in lines(CORPORA.place(CORPUS) / "truth.jsonl")
        for place in note["inserted"]
        if place["role"] == CANARY
    }
    n_missed = sum(not any(name in text for text in read) for name in names)
    assert n_missed and str(refusal.value).startswith(f"canaries: {n_missed} of the 8")
    assert not any(name in str(refusal.value) for name in names)
    # Notes with other names or none have no planted names.
    public_order = canary_order.with_(
        source="public", settings=short.settings, out=tmp_path / "public"
    )
    assert train(public_order).facts.n_canaries == 0
