"""Speed and memory of the generative tagger: answers a second by batch, and a step of its tuning.

    python benchmarks/deid_generation.py --size 1.3b --batches 1 8 32 --json FILE
    python benchmarks/deid_generation.py --model DIR

Without a directory a Llama with random weights of the given size is made in memory: its speed is
that of a trained one, its text is not. Prompts hold random tokens, and every answer runs to its
limit of 1.5 tokens for one of the note, so that the figures are those of whole copies.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from audit.deid.find.causal_model import CausalModel, load_causal
from audit.deid.find.decoding import GenerationRequest, generate_answers
from audit.deid.learn.tagger_task import TuningSettings
from audit.deid.learn.tuning import CopyLearner, Example
from audit.training.causal_lm import add_adapter
from audit.training.config import Lora
from audit.training.loop import Hardware

# layers, width, inner width, heads, heads of keys
SIZES = {
    "tiny": (2, 64, 128, 4, 2),
    "160m": (12, 768, 3072, 12, 12),
    "1.3b": (16, 2048, 7168, 16, 16),
    "7b": (32, 4096, 11_008, 32, 32),
    "13b": (40, 5120, 13_824, 40, 40),
}
GROWTH = 1.5


def random_model(size: str, *, n_vocabulary: int, n_context: int) -> CausalModel:
    """Return a Llama with random weights, on the GPU in bfloat16 where there is one."""
    n_layers, width, inner, n_heads, n_kept = SIZES[size]
    config = transformers.LlamaConfig(
        vocab_size=n_vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        num_key_value_heads=n_kept,
        max_position_embeddings=n_context,
        bos_token_id=1,
        eos_token_id=2,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    precision = "bfloat16" if device == "cuda" else "float32"
    torch.set_default_dtype(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    model.generation_config = transformers.GenerationConfig(do_sample=False, num_beams=1)
    tokenizer: Any = SimpleNamespace(pad_token_id=0, eos_token_id=2)
    return CausalModel(
        model, tokenizer, Path(size), "", n_context, device, precision, torch.float32
    )


def measured(loaded: CausalModel, work: Any) -> dict[str, float]:
    """Return seconds and the highest memory of a piece of work, in GiB (0 on a CPU)."""
    is_gpu = loaded.device == "cuda"
    if is_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    work()
    if is_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() / 2**30 if is_gpu else 0.0
    return {"seconds": seconds, "peak_gib": peak}


def generation(loaded: CausalModel, *, n_rows: int, n_note: int, n_vocabulary: int) -> Any:
    """Time a batch of whole copies."""
    rng = np.random.default_rng(0)
    n_answer = int(GROWTH * n_note)
    settings = [
        GenerationRequest(tuple(rng.integers(3, n_vocabulary, n_note).tolist()), n_answer)
        for _ in range(n_rows)
    ]

    def work() -> None:
        generate_answers(loaded, settings, stops=[-1], n_tokens=10**12)

    measures = measured(loaded, work)
    n_tokens = n_rows * n_answer
    return measures | {
        "batch": n_rows,
        "note_tokens": n_note,
        "tokens_per_second": n_tokens / measures["seconds"],
        "seconds_per_note": measures["seconds"] / n_rows,
    }


def tuning(loaded: CausalModel, *, n_rows: int, n_note: int, n_vocabulary: int, method: str) -> Any:
    """Time one step of a tuning, the second one."""
    lora = Lora() if method == "lora" else None
    settings = TuningSettings(
        batch=n_rows, micro_batch=1, lora=lora, gradient_checkpointing=n_note > 4000
    )
    model: Any = loaded.model.float() if lora is None else add_adapter(loaded.model, lora, seed=0)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    rng = np.random.default_rng(0)
    rows = [
        Example(
            rng.integers(3, n_vocabulary, n_note, np.int32),
            rng.integers(3, n_vocabulary, int(GROWTH * n_note), np.int32),
        )
        for _ in range(n_rows)
    ]
    learner = CopyLearner(
        model,
        settings=settings,
        pad_id=0,
        hardware=Hardware(loaded.device, loaded.precision),
        n_steps=10,
        rows=rows,
    )
    learner.step(1)
    measures = measured(loaded, lambda: learner.step(2))
    n_tokens = sum(row.n_tokens for row in rows)
    return measures | {
        "how": method,
        "rows": n_rows,
        "note_tokens": n_note,
        "tokens_per_second": n_tokens / measures["seconds"],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--vocabulary", type=int, default=99_584, help="of a random model")
    parser.add_argument("--note-tokens", type=int, default=1000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tuning", nargs="*", choices=("lora", "full"), default=["lora"])
    parser.add_argument("--tuning-rows", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    n_context = 32_768
    loaded = (
        load_causal(options.model)
        if options.model
        else random_model(options.size, n_vocabulary=options.vocabulary, n_context=n_context)
    )
    n_vocabulary = loaded.model.config.vocab_size
    record: dict[str, Any] = {
        "model": options.model.name if options.model else f"random {options.size}",
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "device": torch.cuda.get_device_name(0) if loaded.device == "cuda" else "cpu",
        "precision": loaded.precision,
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "generation": [],
        "tuning": [],
    }
    n_note = options.note_tokens
    generation(loaded, n_rows=1, n_note=16, n_vocabulary=n_vocabulary)  # warms up
    for n_rows in options.batches:
        with suppress(torch.OutOfMemoryError):
            generation_record = generation(
                loaded, n_rows=n_rows, n_note=n_note, n_vocabulary=n_vocabulary
            )
            record["generation"].append(generation_record)
            print(generation_record, flush=True)
    for method in options.tuning:
        with suppress(torch.OutOfMemoryError):
            tuning_record = tuning(
                loaded,
                n_rows=options.tuning_rows,
                n_note=n_note,
                n_vocabulary=n_vocabulary,
                method=method,
            )
            record["tuning"].append(tuning_record)
            print(tuning_record, flush=True)
    text = json.dumps(record, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
