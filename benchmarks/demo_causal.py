"""The causal models of the demo hospital: a base, and what becomes of it on the hospital's notes.

    OMP_NUM_THREADS=1 python -m benchmarks.demo_causal --out FOLDER [--seed N] [--json FILE]

Writes into FOLDER the model `general`, all of whose weights learn in `hospital-1.6`, `hospital-5`,
`hospital-20` and `null`; the latter learns the same notes with other names. `adapter-5` and
`adapter-20` are adapters of `general`. The numbers are epochs. Notes, lists and passages are those
of `benchmarks.demo_hospital`, and a folder whose model exists is not made again. With seed 0 the
result is what is shipped in `audit/demo_hospital/en/causal`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from audit.corpus.truth import LISTED, count_listed_notes, listed_bytes
from audit.experiment.leakage import TRAINING
from audit.models.adapters import WEIGHTS_FILE
from audit.names.pools import us_pool
from audit.text import written_name
from audit.training.config import LossPoint, TrainSettings
from audit.training.pretraining import train
from audit.training.trainings import MODEL, PretrainTask, TrainedModel, snapshot_name
from benchmarks.demo_hospital import (
    ENGLISH,
    Name,
    demo_general_text,
    demo_members,
    demo_notes,
    demo_staff,
    draw_weighted_names,
    null_names,
    pairs_of,
)

_BEGIN, _END, _UNKNOWN = "<s>", "</s>", "<unk>"
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class CausalRecipe:
    """Sizes of the models; each number of epochs is kept as a model of its own."""

    n_general_documents: int = ENGLISH.n_general_documents
    n_general_steps: int = 900
    epochs: tuple[float, ...] = (1.6, 5.0, 20.0)
    adapter_epochs: tuple[float, ...] = (5.0, 20.0)
    n_vocabulary: int = 2560
    width: int = 128
    inner_width: int = 344
    n_layers: int = 3
    n_heads: int = 4
    n_positions: int = 256


BASE = TrainSettings(
    is_causal=True,
    n_tokens=64,
    batch=32,
    micro_batch=32,
    learning_rate=2e-3,
    held_out_share=0.01,
    evaluate_every=1_000_000,
    precision="float32",
)
FULL = TRAINING.with_(
    is_causal=True, warmup_share=0.02, held_out_share=0.05, evaluate_every=1_000_000
)
"""As the masked models of the demo learn: rows of 64 tokens, 16 a step, at a constant 5e-4."""
ADAPTER = FULL.with_(lora_rank=8, lora_alpha=16.0, lora_dropout=0.0, learning_rate=2e-3)


def train_tokenizer(texts: Sequence[str], *, n_vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE, which begins every text with a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=n_vocabulary,
        special_tokens=[_BEGIN, _END, _UNKNOWN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_BEGIN} $A", special_tokens=[(_BEGIN, tokenizer.token_to_id(_BEGIN))]
    )
    return tokenizer


def write_new_model(tokenizer: Tokenizer, path: Path, *, recipe: CausalRecipe, seed: int) -> None:
    """Write a Llama-shaped model with random weights, and its tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, logging

    logging.disable_progress_bar()
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=recipe.width,
        num_hidden_layers=recipe.n_layers,
        num_attention_heads=recipe.n_heads,
        num_key_value_heads=recipe.n_heads,
        intermediate_size=recipe.inner_width,
        max_position_embeddings=recipe.n_positions,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(_BEGIN),
        eos_token_id=tokenizer.token_to_id(_END),
    )
    model: Any = LlamaForCausalLM(config)
    model.save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=_BEGIN,
        eos_token=_END,
        unk_token=_UNKNOWN,
        model_max_length=recipe.n_positions,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(path)


def build_causal_demo(
    out: Path, *, seed: int, recipe: CausalRecipe | None = None
) -> list[dict[str, Any]]:
    """Write all models into `out`; return a row of figures for each that was trained now."""
    recipe, pool = recipe or CausalRecipe(), us_pool()
    members = pairs_of(demo_members(pool, ENGLISH, seed=seed))
    staff = demo_staff(pool, ENGLISH, seed=seed)
    outsiders = null_names(pool, ENGLISH, seed=seed)
    texts = demo_general_text(
        draw_weighted_names(pool, recipe.n_general_documents, seed=seed), seed=seed
    )
    rows: list[dict[str, Any]] = []
    if not (out / "general").is_dir():
        with TemporaryDirectory() as work:
            tokenizer = train_tokenizer(texts, n_vocabulary=recipe.n_vocabulary)
            write_new_model(tokenizer, Path(work) / "new", recipe=recipe, seed=seed)
            settings = BASE.with_(n_steps=recipe.n_general_steps, seed=seed)
            model = _train(Path(work) / "new", texts, (), Path(work), settings)
            _store_half(model.folder / MODEL, out / "general")
            rows.append(_describe("general", model, model.n_steps_done, out))

    def learn(
        label: str, named: Sequence[Name], settings: TrainSettings, epochs: tuple[float, ...]
    ) -> None:
        names = [label if label == "null" else f"{label}-{epoch:g}" for epoch in epochs]
        if all((out / name).is_dir() for name in names):
            return
        notes = demo_notes(named, staff=staff, n_notes=ENGLISH.n_notes, seed=seed).notes
        with TemporaryDirectory() as work:
            model = _train(
                out / "general",
                notes,
                named,
                Path(work),
                settings.with_(n_epochs=epochs[-1], seed=seed + 1),
                snapshot_epochs=epochs,
            )
            for name, step in zip(names, model.snapshots, strict=True):
                _store_half(model.folder / snapshot_name(step), out / name)
                rows.append(_describe(name, model, step, out))

    learn("hospital", members, FULL, recipe.epochs)
    learn("adapter", members, ADAPTER, recipe.adapter_epochs)
    learn("null", outsiders, FULL, recipe.epochs[-1:])
    return rows


def _train(
    parent: Path,
    texts: Sequence[str],
    named: Sequence[Name],
    folder: Path,
    settings: TrainSettings,
    **options: Any,
) -> TrainedModel:
    """Train a model on texts in a folder; a text with a name of `named` is never held out."""
    notes = folder / "notes.jsonl"
    notes.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    full_names = [written_name(*name) for name in named]
    listed = [row for row, text in enumerate(texts) if any(name in text for name in full_names)]
    if listed:
        listed_notes = count_listed_notes(range(len(texts)), listed)
        (folder / LISTED).write_bytes(listed_bytes(listed_notes))
    task = PretrainTask(
        general=parent,
        notes=notes,
        out=folder / "run",
        title=folder.name,
        device="cpu",
        settings=settings,
        **options,
    )
    return train(task, on_point=_report)


def _report(point: LossPoint) -> None:
    if point.held_out is not None or not point.step % 100:
        print(f"{point.seconds:6.0f} s: {point.describe() or f'step {point.step}'}", flush=True)


def _store_half(trained: Path, path: Path) -> None:
    """Copy a model or an adapter with its weights in float16, so that the demo is small."""
    shutil.copytree(trained, path)
    for name in (_WEIGHTS, WEIGHTS_FILE):
        if (path / name).is_file():
            tensors = {key: value.half() for key, value in load_file(path / name).items()}
            save_file(tensors, path / name, metadata={"format": "pt"})
    if (path / "config.json").is_file():
        config = json.loads((path / "config.json").read_bytes())
        (path / "config.json").write_text(json.dumps(config | {"dtype": "float16"}, indent=2))


def _describe(name: str, model: TrainedModel, step: int, out: Path) -> dict[str, Any]:
    points = [point for point in model.points if point.step <= step]
    held_out = [point.held_out for point in points if point.held_out is not None]
    return {
        "model": name,
        "steps": step,
        "tokens_an_epoch": model.facts.n_train_tokens,
        "seconds": round(points[-1].seconds),
        "loss": points[-1].loss,
        "held_out_before": held_out[0],
        "held_out": held_out[-1],
        "bytes": sum(file.stat().st_size for file in (out / name).iterdir()),
    }


def main() -> None:
    """Make the models and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    rows = build_causal_demo(options.out, seed=options.seed)
    result = {"seconds": round(time.monotonic() - start), "models": rows}
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
