"""How a small generative tagger copies notes, freely and held to the note, and what that costs.

    OMP_NUM_THREADS=1 python -m benchmarks.deid_copies --out FOLDER [--json FILE]

Writes into FOLDER short English notes (lines of generated ones), a Llama-shaped model with random
weights, and the generative tagger that `deid train` makes of both; what exists is not made again.
The tagger then reads notes of the styles that it was trained on, of other patients, and notes in
held-out styles.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers

from audit.cli import main as run_command
from audit.notes.formats import write_jsonl, write_tags
from audit.notes.spans import Span, TaggedDocument, build_document
from benchmarks.demo_causal import train_tokenizer
from benchmarks.synthetic.notes import HELD_OUT_STYLES, synthetic_notes

_N_TRAINING, _N_VALIDATION, _N_MEASURED = 16_000, 200, 300
_LINE_CHARS = 20, 120
_N_VOCABULARY = 512
_N_CONTEXT = 384
_WIDTH, _INNER_WIDTH, _N_LAYERS, _N_HEADS = 128, 344, 3, 4


def draw_lines(n: int, *, seed: int, styles: Sequence[str] | None = None) -> list[TaggedDocument]:
    """Return lines of generated notes as notes of their own."""
    lines: list[TaggedDocument] = []
    for note in synthetic_notes(10 * n, seed=seed, language="en", styles=styles):
        for match in re.finditer(r"[^\n]+", note.text):
            start, end = match.span()
            spans = [
                Span(span.start - start, span.end - start, span.label)
                for span in note.spans
                if start <= span.start and span.end <= end
            ]
            if _LINE_CHARS[0] <= end - start <= _LINE_CHARS[1]:
                lines.append(
                    build_document(
                        f"n{len(lines)}", text=match[0], spans=spans, patient_id=note.patient_id
                    )
                )
            if len(lines) == n:
                return lines
    raise ValueError("too few lines")


def make_notes(folder: Path) -> None:
    """Write the notes to train on, and two sets to measure on."""
    held_out = HELD_OUT_STYLES["en"]
    sets = {
        "train": (_N_TRAINING, 1, None),
        "validation": (_N_VALIDATION, 2, None),
        "seen styles": (_N_MEASURED, 3, None),
        "held-out styles": (_N_MEASURED, 3, held_out),
    }
    for name, (n, seed, styles) in sets.items():
        path = folder / f"{name}.jsonl"
        if not path.exists():
            lines = draw_lines(n, seed=seed, styles=styles)
            path.write_text(write_jsonl(lines), encoding="utf-8")


def make_model(folder: Path, notes: list[TaggedDocument]) -> None:
    """Write a model with random weights, and a tokenizer that was trained on tagged notes."""
    texts = [write_tags(note, language="en") for note in notes]
    tokenizer = train_tokenizer(texts, n_vocabulary=_N_VOCABULARY)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=_WIDTH,
        intermediate_size=_INNER_WIDTH,
        num_hidden_layers=_N_LAYERS,
        num_attention_heads=_N_HEADS,
        num_key_value_heads=_N_HEADS,
        max_position_embeddings=_N_CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id("<s>"),
        eos_token_id=tokenizer.token_to_id("</s>"),
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def train_tagger(folder: Path, *, n_epochs: float) -> None:
    """Make the tagger by the project's own command."""
    options = {
        "--kind": "generative",
        "--model": folder / "model",
        "--gold": folder / "train.jsonl",
        "--validation": folder / "validation.jsonl",
        "--out": folder / "tagger",
        "--gen-language": "en",
        "--gen-max-tokens": _N_CONTEXT,
        "--gen-epochs": n_epochs,
        "--gen-batch": 16,
        "--gen-micro-batch": 16,
        "--gen-learning-rate": "2e-3",
        "--device": "cpu",
    }
    arguments = [str(part) for option in options.items() for part in option]
    if run_command(["deid", "train", *arguments]):
        raise SystemExit("The training was refused.")


def main() -> None:
    """Make what is missing, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=float, default=3.0)
    options = parser.parse_args()
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    make_notes(folder)
    if not (folder / "model").is_dir():
        make_model(folder / "model", draw_lines(_N_TRAINING, seed=1))
    if not (folder / "tagger" / "tagger.json").is_file():
        train_tagger(folder, n_epochs=options.epochs)


if __name__ == "__main__":
    main()
