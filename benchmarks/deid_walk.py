"""The paper's measurement with a small generative tagger: notes, training, tables, several seeds.

    OMP_NUM_THREADS=1 python -m benchmarks.deid_walk --out FOLDER [--seeds 1 2 3 4 5] [--json FILE]

A Llama-shaped model of 9.0 million random weights first learns from other notes to copy: that is
the base of all seeds. Each seed has a folder with English synthetic notes of its own, the tagger
that `deid train` makes of base and notes, and `tables.md`, which `deid score --paper` writes. What
exists is not made again, and a training that was stopped goes on. At the end the tables of all
seeds are printed as one: median and range beside what the paper prints.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from audit.cli import main as run_command
from audit.deid.measure.paper_tables import PaperRow, PaperTable, lay_out_tables
from audit.deid.measure.score_report import SCORES
from audit.notes.formats import GOLD, read_notes, write_jsonl
from audit.tables import UNDEFINED, markdown_table, percent
from benchmarks.deid_copies import make_model, train_tagger
from benchmarks.demo_causal import CausalRecipe
from benchmarks.synthetic.notes import synthetic_notes

_TABLES = ("3", "4")
_BASE_SEED = 0
_MODEL = CausalRecipe(
    n_vocabulary=512, width=384, inner_width=1024, n_layers=5, n_heads=6, n_positions=512
)


@dataclass(frozen=True)
class WalkRecipe:
    """Notes, model and training of a walk; `n_rows` notes are a step."""

    n_base_notes: int = 12_800
    n_training_notes: int = 8_000
    n_validation_notes: int = 100
    n_test_notes: int = 500
    n_chars: int = 160
    """Longest note: a random start needs many short copies before it copies at all."""
    model: CausalRecipe = _MODEL
    n_rows: int = 16


def make_notes(folder: Path, recipe: WalkRecipe, *, n: int, seed: int) -> None:
    """Write `n` notes to train on, and others to validate on and to measure on."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {
        "train": n,
        "validation": recipe.n_validation_notes,
        "test": recipe.n_test_notes,
    }
    for i, (name, n_set) in enumerate(sizes.items()):
        path = folder / f"{name}.jsonl"
        if not path.exists():
            notes = synthetic_notes(10 * n_set, seed=10 * seed + i, language="en")
            short_notes = (note for note in notes if len(note.text) <= recipe.n_chars)
            path.write_text(write_jsonl(islice(short_notes, n_set)), encoding="utf-8")


def make_base(folder: Path, recipe: WalkRecipe) -> Path:
    """Return the model that all seeds begin with; it has learned to copy other notes."""
    make_notes(folder, recipe, n=recipe.n_base_notes, seed=_BASE_SEED)
    if not (folder / "model").is_dir():
        notes = read_notes(folder / "train.jsonl", GOLD)
        make_model(folder / "model", notes, language="en", recipe=recipe.model, seed=_BASE_SEED)
    tune(folder, recipe, seed=_BASE_SEED, learning_rate=1.5e-3)
    return folder / "tagger" / "model"


def walk(folder: Path, recipe: WalkRecipe, *, base: Path, seed: int) -> dict[str, Any]:
    """Make what a seed lacks, measure it by one command, and return the command's answer."""
    make_notes(folder, recipe, n=recipe.n_training_notes, seed=seed)
    began = time.process_time()
    tune(folder, recipe, seed=seed, learning_rate=1e-3, base=base)
    trained_seconds = time.process_time() - began
    return score_tagger(folder) | {"seconds_of_training": trained_seconds}


def tune(
    folder: Path,
    recipe: WalkRecipe,
    *,
    seed: int,
    learning_rate: float,
    base: Path | None = None,
) -> None:
    """Make the tagger of a folder by `deid train`, unless it is there."""
    if (folder / "tagger" / "tagger.json").is_file():
        return
    options = {
        "--gen-language": "en",
        "--gen-max-tokens": recipe.model.n_positions,
        "--gen-epochs": 1,
        "--gen-batch": recipe.n_rows,
        "--gen-micro-batch": recipe.n_rows // 2,
        "--gen-learning-rate": learning_rate,
        "--gen-precision": "bfloat16",
        "--gen-seed": seed,
    }
    train_tagger(folder, options, model=base)


def score_tagger(folder: Path) -> dict[str, Any]:
    """Measure the tagger of a folder on its test notes; write the paper's tables beside it."""
    answer = io.StringIO()
    arguments = ["--gold", folder / "test.jsonl", "--tagger", folder / "tagger"]
    with contextlib.redirect_stdout(answer):
        failed = run_command(
            ["deid", "score", *map(str, arguments), "--paper", str(folder / "tables.md"), "--json"]
        )
    if failed:
        raise SystemExit("The measurement was refused.")
    result: dict[str, Any] = json.loads(answer.getvalue())
    return result


def join_tables(tables: Sequence[PaperTable]) -> str:
    """Return one table of the paper for all seeds as Markdown: median and range, in percent."""
    head = ("type", "gold spans", *tables[0].measures)
    rows = [
        join_rows(rows, table=tables[0]) for rows in zip(*(t.rows for t in tables), strict=True)
    ]
    return f"**Table {tables[0].number}**\n\n{markdown_table(head, rows)}\n"


def join_rows(rows: Sequence[PaperRow], *, table: PaperTable) -> tuple[str, ...]:
    """Return a type's cells: gold spans of all seeds, then each rate beside the printed one."""
    cells = [rows[0].label, f"{sum(row.n_gold for row in rows):,}"]
    for i, printed in enumerate(rows[0].printed):
        rates = [rate for row in rows if not math.isnan(rate := row.rates[i].value)]
        seen = f"{percent(median(rates))} ({percent(min(rates))}–{percent(max(rates))})"
        cells.append(f"{seen if rates else UNDEFINED}; paper {table.format_printed(printed)}")
    return tuple(cells)


def main(recipe: WalkRecipe | None = None) -> None:
    """Walk through all seeds, and print the joined tables."""
    recipe = recipe or WalkRecipe()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    answers: dict[int, Mapping[str, Any]] = {}
    base = make_base(options.out / "base", recipe)
    for seed in options.seeds:
        answers[seed] = walk(options.out / f"seed-{seed}", recipe, base=base, seed=seed)
        print(json.dumps({"seed": seed, "copies": answers[seed].get("copies")}), flush=True)
        if options.json:
            options.json.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
    by_seed = [lay_out_tables(SCORES.get(answer["score_id"])) for answer in answers.values()]
    for tables in zip(*by_seed, strict=True):
        if tables[0].number in _TABLES:
            print(join_tables(tables))


if __name__ == "__main__":
    main()
