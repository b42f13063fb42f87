"""How a small generative tagger copies notes, freely and held to the note, and what that costs.

    OMP_NUM_THREADS=1 python -m benchmarks.deid_copies --out FOLDER [--json FILE]

Writes into FOLDER short English notes (lines of generated ones), a Llama-shaped model with random
weights, and the generative tagger that `deid train` makes of both; what exists is not made again.
The tagger then reads notes of the styles that it was trained on, of other patients, and notes in
held-out styles.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from audit.cli import main as run_command
from audit.deid.find.causal_model import GenerativeTagger, load_generative
from audit.deid.find.copies import Copies, CopyingTagger
from audit.deid.find.decoding import Answer, generate_answers
from audit.deid.find.tagger import Tagger
from audit.deid.find.taggers import DEFAULT, add_fallback, load_tagger
from audit.deid.measure.score_report import score_pairs, score_summary
from audit.deid.measure.span_matching import OPTIMAL
from audit.notes.formats import GOLD, read_notes, write_jsonl, write_tags
from audit.notes.spans import Span, TaggedDocument, build_document
from benchmarks.demo_causal import CausalRecipe, train_tokenizer, write_new_model
from benchmarks.synthetic.notes import HELD_OUT_STYLES, synthetic_notes

_N_TRAINING, _N_VALIDATION, _N_MEASURED = 16_000, 200, 300
_LINE_CHARS = 20, 120
_RECIPE = CausalRecipe(n_vocabulary=512, n_positions=384)


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


def make_model(
    folder: Path, notes: Iterable[TaggedDocument], *, language: str, recipe: CausalRecipe, seed: int
) -> None:
    """Write a model with random weights, and a tokenizer that was trained on tagged notes."""
    texts = [write_tags(note, language=language) for note in notes]
    tokenizer = train_tokenizer(texts, n_vocabulary=recipe.n_vocabulary)
    write_new_model(tokenizer, folder, recipe=recipe, seed=seed)


def train_tagger(folder: Path, options: Mapping[str, object], *, model: Path | None = None) -> None:
    """Make the tagger of a folder by the project's own command, with further options.

    It is tuned from the folder's own model, or from another one.
    """
    files = {
        "--model": model or folder / "model",
        "--gold": folder / "train.jsonl",
        "--validation": folder / "validation.jsonl",
        "--out": folder / "tagger",
    }
    arguments = [str(part) for option in {**files, **options}.items() for part in option]
    if run_command(["deid", "train", "--kind", "generative", "--device", "cpu", *arguments]):
        raise SystemExit("The training was refused.")


def measure_reading(tagger: Tagger, notes: list[TaggedDocument]) -> dict[str, Any]:
    """Return how notes were copied, what was found in them, and the seconds for a note."""
    began = time.process_time()
    if isinstance(tagger, CopyingTagger):
        n_batch = tagger.n_notes_at_once
        batches = [notes[start : start + n_batch] for start in range(0, len(notes), n_batch)]
        readings = [reading for batch in batches for reading in tagger.read(batch)]
        tags = [reading.tags for reading in readings]
    else:
        readings, tags = [], list(tagger.tag([note.text for note in notes]))
    seconds = (time.process_time() - began) / len(notes)
    pairs = [(note, note.with_spans(spans)) for note, spans in zip(notes, tags, strict=True)]
    summary = score_summary(score_pairs(pairs), matcher=OPTIMAL, n_replicates=1).plain()
    strict, touched = (
        summary["criteria"][name]["together"] for name in ("strict", "label_relaxed")
    )
    copies = Copies()
    for reading in readings:
        copies.add(reading.line())
    facts = copies.summary()
    n_chars = sum(len(note.text) for note in notes)
    return {
        "n_notes": len(notes),
        "n_gold": strict["n_gold"],
        "statuses": facts.statuses,
        "n_uncopied_notes": facts.n_uncopied_notes,
        "uncopied_share": facts.n_uncopied_chars / n_chars,
        "n_tags": facts.tags["n_tags"],
        "n_unaligned": facts.n_unaligned,
        "strict_f1": strict["f1"],
        "strict_recall": strict["recall"],
        "touched": touched["recall"],
        "seconds_per_note": seconds,
    }


def race_batches(tagger: GenerativeTagger, notes: list[TaggedDocument]) -> dict[str, float]:
    """Return the seconds of a note in one batch and alone, and by transformers' own loop."""
    requests = [replace(tagger.make_request(note.text), rule=None) for note in notes]
    stops = tagger.frame.stops
    n_longest = max(len(request.prompt) for request in requests)
    ids = torch.zeros((len(requests), n_longest), dtype=torch.long)
    attended = torch.zeros_like(ids)
    for row, request in enumerate(requests):
        ids[row, n_longest - len(request.prompt) :] = torch.tensor(request.prompt)
        attended[row, n_longest - len(request.prompt) :] = 1

    def ask_together() -> list[Answer]:
        return generate_answers(tagger.loaded, requests, stops=stops)

    def ask_alone() -> list[Answer]:
        return generate_answers(tagger.loaded, requests, stops=stops, n_tokens=1)

    def ask_transformers() -> None:
        with torch.inference_mode():
            tagger.loaded.model.generate(
                input_ids=ids,
                attention_mask=attended,
                do_sample=False,
                max_new_tokens=max(request.n_answer for request in requests),
                eos_token_id=list(stops),
                pad_token_id=0,
            )

    if [a.tokens for a in ask_together()] != [a.tokens for a in ask_alone()]:
        raise SystemExit("Answers in a batch differ from those alone.")
    seconds: dict[str, float] = {}
    for name, ask in (
        ("together", ask_together),
        ("alone", ask_alone),
        ("transformers", ask_transformers),
    ):
        began = time.process_time()
        ask()
        seconds[name] = (time.process_time() - began) / len(requests)
    return seconds


def main() -> None:
    """Make what is missing, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    make_notes(folder)
    if not (folder / "model").is_dir():
        lines = draw_lines(_N_TRAINING, seed=1)
        make_model(folder / "model", lines, language="en", recipe=_RECIPE, seed=0)
    if not (folder / "tagger" / "tagger.json").is_file():
        train_tagger(
            folder,
            {
                "--gen-language": "en",
                "--gen-max-tokens": _RECIPE.n_positions,
                "--gen-epochs": options.epochs,
                "--gen-batch": 16,
                "--gen-micro-batch": 16,
                "--gen-learning-rate": "2e-3",
            },
        )
    held, free = (
        load_generative(folder / "tagger", device="cpu", is_free=is_free)
        for is_free in (False, True)
    )
    taggers: dict[str, Tagger] = {
        "default": load_tagger(DEFAULT),
        "free": free,
        "held": held,
        "free, fallback": add_fallback(free),
        "held, fallback": add_fallback(held),
    }
    figures: dict[str, Any] = {}
    for name in ("seen styles", "held-out styles"):
        notes = [*read_notes(folder / f"{name}.jsonl", GOLD)]
        for tagger_name, tagger in taggers.items():
            figures[f"{name}, {tagger_name}"] = measure_reading(tagger, notes)
            print(name, tagger_name, json.dumps(figures[f"{name}, {tagger_name}"]), flush=True)
        figures[f"{name}, race"] = race_batches(free, notes[:32])
        print(name, json.dumps(figures[f"{name}, race"]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
