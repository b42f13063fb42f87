"""Hostile input by the thousand: how much of it ends in a traceback, a wrong value or a loss.

python -m benchmarks.hostile_inputs [--tables 20000] [--notes 20000] [--models 130] [--log 2500]
    [--tokenizers 600] [--causal 300] [--seed 0]

Each input is made from the seed. It must be refused in words, or read as an independent reader
reads it; of a file of notes every row that was not touched must be read, or named as left out. An
access log that was tampered with must be seen. A model folder with a hostile tokenizer must be
read, or refused, within 10 seconds of a processor, and so must a causal model or an adapter with a
hostile file. Prints a table; exits with 1 where anything fails.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from audit import access_log
from audit.errors import AuditError
from audit.home import HOME_VARIABLE, data_home
from audit.names.files import read_names
from audit.notes.passages import read_passages
from audit.notes.read import Note, open_notes
from audit.patients.register import read_register
from audit.tables import Table, read_table

CELLS = (
    "",
    " ",
    "NA",
    "None",
    "007",
    "1e5",
    "=1+1",
    "@SUM(A1)",
    "-1",
    "a,b",
    "a;b",
    "a\tb",
    'say "x"',
    '"',
    '""',
    "two\nlines",
    "two\r\nlines",
    "cr\ronly",
    "氏名",
    "高橋健一",
    "é",
    "ﾃｽﾄ",
    "😀",
    "\u200b",
    "\ufeff",
    "'",
    "\\",
    "\\n",
    "null",
    "true",
    "{}",
    "[NAME]",
    "x" * 300,
    "\x1f",
    "\x7f",
    "1",
    "0",
    "Anna",
    "Müller",
    "O'Neil",
    "<b>",
    "%s",
    "{0}",
    "\u2028",
    "\x85",
)
HEADINGS = (
    "name",
    "first_name",
    "last_name",
    "is_member",
    "text",
    "note_id",
    "patient_id",
    "control_kind",
    "role",
    "n_mentions",
    "氏名",
    "birth_date",
    "sex",
    "a",
    "b",
    "本文",
)
BYTES = (
    b'"',
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\x80",
    b"\xe3\x81",
    b"\xef\xbb\xbf",
    b"\x1b$B",
    b'""',
    b'"\n"',
    b"\\",
    b"{",
    b"}",
    b"[" * 50,
    b"9" * 400,
    b"1e999",
    b"NaN",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
    b"\\ud800",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x85",
    b"'",
)
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "cp932", "utf-16", "latin-1", "euc_jp")
Told = Counter[str]
T = TypeVar("T")


def damaged(data: bytes, *, rng: random.Random, n_times: int) -> bytes:
    """Return bytes with some changed, put in, taken out, doubled or cut off."""
    damaged_data = bytearray(data)
    for _ in range(n_times):
        position = rng.randrange(len(damaged_data) + 1)
        end = min(len(damaged_data), position + rng.choice((1, 1, 1, 2, 9)))
        damage = rng.randrange(6)
        if damage == 0 and position < len(damaged_data):
            damaged_data[position] = rng.randrange(256)
        elif damage in (1, 2):
            damaged_data[position:position] = rng.choice(BYTES)
        elif damage == 3:
            del damaged_data[position:end]
        elif damage == 4:
            damaged_data[position:position] = damaged_data[position:end]
        elif len(damaged_data) > 1 and rng.random() < 0.2:
            del damaged_data[position:]
    return bytes(damaged_data)


def plain_rows(text: str, delimiter: str) -> list[list[str]] | None:
    """Read CSV one character at a time, independently of the standard library; None if broken."""
    rows: list[list[str]] = []
    cells: list[str] = []
    cell, state, i = "", "start", 0
    while i < len(text):
        char, i = text[i], i + 1
        if state == "quoted":
            if char != '"':
                cell += char
            elif text[i : i + 1] == '"':
                cell, i = cell + '"', i + 1
            else:
                state = "closed"
        elif char == '"' and state == "start":
            state = "quoted"
        elif char == delimiter:
            cells, cell, state = [*cells, cell], "", "start"
        elif char in "\r\n":
            i += char == "\r" and text[i : i + 1] == "\n"
            is_blank = state == "start" and not cells
            rows.append([] if is_blank else [*cells, cell])
            cells, cell, state = [], "", "start"
        elif state == "closed":
            return None
        else:
            cell, state = cell + char, "plain"
    if state == "quoted":
        return None
    return rows if state == "start" and not cells else [*rows, [*cells, cell]]


def is_table_right(table: Table, text: str) -> bool:
    """Whether an independent reader finds the same cells, for one of the delimiters."""
    for delimiter in ",;\t":
        rows = plain_rows(text, delimiter)
        if rows and without_blanks(map(str.strip, rows[0]), n_least=0) == table.header:
            n = len(table.header)
            header = [
                (number, without_blanks(row, n_least=n))
                for number, row in enumerate(rows[1:], start=2)
                if row
            ]
            if header == list(zip(table.row_numbers, table.rows, strict=True)):
                return True
    return False


def without_blanks(cells: Iterable[str], *, n_least: int) -> tuple[str, ...]:
    """Return cells without the blank ones at the end, but for the first `n_least`."""
    kept_cells = list(cells)
    while len(kept_cells) > n_least and not kept_cells[-1].strip():
        kept_cells.pop()
    return tuple(kept_cells)


def written_table(rng: random.Random) -> tuple[str, list[list[str]], str]:
    """Return a table as text, its rows, and its encoding."""
    n_columns = rng.randint(1, 6)
    header = rng.sample(HEADINGS, n_columns)
    rows = [[rng.choice(CELLS) for _ in header] for _ in range(rng.randint(0, 8))]
    rows = [row if row != [""] else ["x"] for row in rows]
    delimiter, end = rng.choice(",;\t"), rng.choice(("\n", "\r\n"))

    def quote_cell(cell: str) -> str:
        is_plain = not re.search('[",;\t\r\n]', cell) and rng.random() < 0.7
        return cell if is_plain else '"' + cell.replace('"', '""') + '"'

    text = end.join(delimiter.join(map(quote_cell, row)) for row in [header, *rows])
    return text + end * rng.randint(0, 2), rows, rng.choice(ENCODINGS)


def try_table(rng: random.Random, outcomes: Told, folder: Path) -> None:
    """Read one hostile table."""
    text, rows, encoding = written_table(rng)
    data = text.encode(encoding, errors="replace")
    is_damaged = rng.random() < 0.7
    if is_damaged:
        data = damaged(data, rng=rng, n_times=rng.randint(1, 4))
    path = folder / "register.csv"
    path.write_bytes(data)
    for read in (
        partial(read_names, data),
        partial(read_passages, data),
        partial(read_register, path),
    ):
        _, is_refused = attempt(read, outcomes)
        outcomes["other doors refused"] += is_refused
    table, is_refused = attempt(lambda: read_table(data, subject="table"), outcomes)
    outcomes["refused" if is_refused else "read"] += 1
    if table is None:
        is_good = not is_damaged and encoding in ("utf-8", "utf-8-sig") and "\0" not in text
        outcomes["lost"] += is_good and is_refused and not has_tie(text)
        return
    codecs = {"UTF-8": "utf-8", "UTF-8 with BOM": "utf-8-sig", "UTF-16": "utf-16"}
    codec = codecs.get(table.encoding, "cp932")
    outcomes["wrong"] += not is_table_right(table, data.decode(codec))
    if not is_damaged and encoding.startswith("utf-8"):
        outcomes["wrong"] += list(map(list, table.rows)) != rows


def has_tie(text: str) -> bool:
    """Whether a header of one column, or of another mark in equal number, tells no delimiter."""
    first = re.sub('"[^"]*"', "", re.split("[\r\n]", text, maxsplit=1)[0])
    counts = sorted((first.count(mark) for mark in ",;\t"), reverse=True)
    return counts[0] == counts[1] != 0 or counts[0] == 0


def note_lines(rng: random.Random, *, is_csv: bool, n_notes: int) -> list[tuple[str, str, bytes]]:
    """Return identifier, text and line of notes."""
    problems = []
    for n in range(n_notes):
        text = f"note {n} " + " ".join(rng.choice(CELLS[2:]) for _ in range(rng.randint(1, 4)))
        text = text.strip().replace("\0", "")
        if is_csv:
            line = f'{n},p{n % 3},"' + text.replace('"', '""') + '"\n'
        else:
            line = json.dumps({"note_id": n, "patient_id": f"p{n % 3}", "text": text}) + "\n"
        problems.append((str(n), text, line.encode()))
    return problems


def try_notes(rng: random.Random, outcomes: Told, folder: Path) -> None:
    """Read a file of notes of which some rows are damaged, or a packed one that is."""
    is_csv = rng.random() < 0.6
    notes = note_lines(rng, is_csv=is_csv, n_notes=rng.randint(3, 12))
    touched = set(rng.sample(range(len(notes)), rng.randint(0, 2)))
    lines = [
        damaged(line[:-1], rng=rng, n_times=rng.randint(1, 3)) + b"\n" if n in touched else line
        for n, (_, _, line) in enumerate(notes)
    ]
    data = (b"note_id,patient_id,text\n" if is_csv else b"") + b"".join(lines)
    is_packed = rng.random() < 0.15
    path = folder / ("notes.csv" if is_csv else "notes.jsonl")
    path.write_bytes(packed(data, rng=rng) if is_packed else data)
    rows, is_refused = attempt(lambda: list(open_notes(path).read()), outcomes)
    outcomes["refused" if is_refused else "read"] += 1
    if rows is None:
        outcomes["lost"] += is_refused and not touched and not is_packed
        return
    read = Counter((row.note_id, row.text) for row in rows if isinstance(row, Note))
    note_ids = {note_id for note_id, _ in read}
    for n, (note_id, text, _) in enumerate(notes):
        if n not in touched and (note_id, text) not in read:
            outcomes["wrong" if note_id in note_ids else "lost"] += 1


def packed(data: bytes, *, rng: random.Random) -> bytes:
    """Return bytes as a gzip file, mostly a damaged one."""
    compressed = gzip.compress(data, mtime=0)
    return damaged(compressed, rng=rng, n_times=rng.randint(0, 2))


def attempt(call: Callable[[], T], outcomes: Told) -> tuple[T | None, bool]:
    """Return what a call gives and whether it was refused; count and print any other end."""
    try:
        return call(), False
    except AuditError:
        return None, True
    except Exception:  # noqa: BLE001  # this is what is looked for
        outcomes["tracebacks"] += 1
        if outcomes["tracebacks"] <= 3:
            traceback.print_exc()
        return None, False


def try_models(n_models: int, *, seed: int, outcomes: Told, folder: Path) -> None:
    """Inspect, list and load hostile model folders."""
    from audit.models.inspect import compute_model_digest, inspect_model
    from audit.models.load import load_model
    from audit.models.registry import VARIABLE, list_models
    from tests.models.hostile_models import BEFORE_LOADING, WHILE_LOADING
    from tests.models.make_models import make_bert

    rng = random.Random(seed)
    root = folder / "models"
    good = make_bert(root / "good")
    cases = [*BEFORE_LOADING.values(), *WHILE_LOADING.values()]
    for n in range(n_models):
        # Each in a folder of its own: some spoil what lies beside the model.
        copy = Path(shutil.copytree(good, root / str(n) / "model"))
        if n % 4 != 3 and cases:
            cases.pop(0)(copy)
        else:
            name = rng.choice(
                (
                    "config.json",
                    "tokenizer_config.json",
                    "vocab.txt",
                    "model.safetensors",
                    "tokenizer.json",
                )
            )
            path = copy / name
            text = path.read_bytes() if path.exists() else b'{"model":{"type":"WordPiece"}}'
            head = 3000 if name == "model.safetensors" else len(text)
            path.write_bytes(damaged(text[:head], rng=rng, n_times=rng.randint(1, 5)) + text[head:])
        _, is_refused = attempt(partial(inspect_model, copy), outcomes)
        loaded, is_unloaded = attempt(partial(load_model, copy), outcomes)
        outcomes["refused" if is_refused or is_unloaded else "read"] += 1
        if loaded is not None:
            outcomes["wrong"] += is_refused or loaded.digest != compute_model_digest(copy)
            outcomes["wrong"] += not are_weights_of(loaded.model, copy)
    os.environ[VARIABLE] = str(root)
    listed, _ = attempt(list_models, outcomes)
    names = {model.model_id for model in listed or ()}
    is_there = {
        f"models/{n}/model"
        for n in range(n_models)
        if (root / str(n) / "model" / "config.json").is_file()
    }
    outcomes["lost"] += len(is_there | {"models/good"}) - len(names & (is_there | {"models/good"}))


HUNG_SECONDS = 10
"""Of a processor, for a look at a folder, and for building its tokenizer and using it."""
STOPPED = "stopped at a limit"


def try_tokenizers(n_folders: int, *, seed: int, outcomes: Told, folder: Path) -> None:
    """Inspect model folders with hostile tokenizers, and build what is not refused."""
    from audit.models.inspect import inspect_model
    from audit.models.limited import call_limited
    from benchmarks.hostile_tokenizers import split_texts, write_hostile
    from tests.models.make_models import make_bert

    good = make_bert(folder / "good")
    for n in range(n_folders):
        copy = Path(shutil.copytree(good, folder / "model"))
        write_hostile(copy, n=n, rng=random.Random(f"{seed} tokenizers {n}"))
        start = time.process_time()
        _, is_refused = attempt(partial(inspect_model, copy), outcomes)
        seconds = time.process_time() - start
        if not is_refused:
            try:
                seconds = max(seconds, call_limited(split_texts, copy, place=STOPPED))
            except AuditError as error:
                is_refused = True
                outcomes["hung"] += error.where == STOPPED  # at a limit, not by what its files say
            except RuntimeError as error:
                outcomes["tracebacks"] += 1
                print(error, file=sys.stderr)
        outcomes["slowest, ms"] = max(outcomes["slowest, ms"], round(1000 * seconds))
        outcomes["hung"] += seconds > HUNG_SECONDS
        outcomes["refused" if is_refused else "read"] += 1
        shutil.rmtree(copy)


def try_causal(n_folders: int, *, seed: int, outcomes: Told, folder: Path) -> None:
    """List hostile causal models and adapters, and load and use what is not refused."""
    from audit.models.limited import call_limited
    from audit.models.registry import VARIABLE, list_models
    from benchmarks.hostile_causal import ADAPTER, BASE, use_models, write_hostile
    from tests.models.make_causal import CAUSAL, make_adapter, make_causal

    os.environ[VARIABLE] = str(folder / "models")
    for name in CAUSAL:
        good = make_causal(folder / "good" / name / BASE, name)
        make_adapter(folder / "good" / name / ADAPTER, good)
    names = [*CAUSAL]
    for n in range(n_folders):
        rng = random.Random(f"{seed} causal {n}")
        copy = Path(shutil.copytree(folder / "good" / rng.choice(names), folder / "models" / "one"))
        write_hostile(copy, n=n, rng=rng)
        start, n_read = time.process_time(), 0
        models, _ = attempt(list_models, outcomes)
        outcomes["lost"] += len(models or ()) < 2
        seconds = time.process_time() - start
        try:
            n_read, is_wrong, duration = call_limited(use_models, copy, place=STOPPED)
            outcomes["wrong"] += is_wrong
            seconds = max(seconds, duration)
        except AuditError as error:
            outcomes["hung"] += error.where == STOPPED
        except RuntimeError as error:
            outcomes["tracebacks"] += 1
            print(f"causal {n} of seed {seed} failed:", error, file=sys.stderr)
        outcomes["slowest, ms"] = max(outcomes["slowest, ms"], round(1000 * seconds))
        outcomes["hung"] += seconds > HUNG_SECONDS
        # The base of a hostile adapter is read all the same.
        outcomes["refused" if n_read < 2 else "read"] += 1
        shutil.rmtree(copy)


def are_weights_of(model: object, folder: Path) -> bool:
    """Whether a loaded model holds the numbers that the format's own reader finds in its files."""
    from safetensors.torch import load_file

    weights = model.state_dict()  # type: ignore[attr-defined]
    stored = {k: v for path in folder.glob("*.safetensors") for k, v in load_file(path).items()}
    return all(weights[name].equal(tensor) for name, tensor in stored.items() if name in weights)


def try_log(rng: random.Random, outcomes: Told, folder: Path) -> None:
    """Tamper with an access log of some lines, and look whether it is seen."""
    access = folder / "access"
    state: dict[str, bytes] = {path.name: path.read_bytes() for path in access.iterdir()}
    seal = (access / "seal").read_text()
    lines = state["log.jsonl"].splitlines(keepends=True)
    damage = rng.randrange(8)
    first_line, second_line = rng.sample(range(len(lines)), 2)
    if damage == 0:
        lines[first_line], lines[second_line] = lines[second_line], lines[first_line]
    elif damage == 1:
        del lines[first_line]
    elif damage == 2:
        lines[first_line:first_line] = [lines[second_line]]
    elif damage == 3:  # a seal of its own, of another log
        lines[first_line] = re.sub(
            rb'"mac":"[0-9a-f]{8}', b'"mac":"%08x' % rng.getrandbits(32), lines[first_line]
        )
    changed = b"".join(lines)
    head = state["head.json"]
    if damage == 4:
        changed = damaged(changed, rng=rng, n_times=1)
    elif damage == 5:
        head = damaged(head, rng=rng, n_times=1)
    elif damage == 6:  # an older head and the log cut to match: no key is needed
        head = (access / "old_head").read_bytes()
        changed = (access / "old_log").read_bytes()
    elif damage == 7:
        (access / "key").write_bytes(damaged(state["key"], rng=rng, n_times=1))
    is_same = (changed, head, (access / "key").read_bytes()) == (
        state["log.jsonl"],
        state["head.json"],
        state["key"],
    )
    (access / "log.jsonl").write_bytes(changed)
    (access / "head.json").write_bytes(head)
    verification, is_refused = attempt(lambda: access_log.verify(seal), outcomes)
    attempt(access_log.entries, outcomes)
    is_seen = is_refused or (verification is not None and not verification.is_intact)
    outcomes["refused" if is_seen else "read"] += 1
    outcomes["lost"] += not is_seen and not is_same
    outcomes["wrong"] += is_seen and is_same
    for name in ("log.jsonl", "head.json", *(["key"] if damage == 7 else [])):
        (access / name).write_bytes(state[name])


def make_log(folder: Path) -> None:
    """Write a log of 12 lines into the data directory, with an older state of it beside."""
    os.environ[HOME_VARIABLE] = str(folder)
    for n in range(12):
        access_log.record("exported", who="anna", n_names=n)
        if n == 7:
            access = data_home() / "access"
            (access / "old_head").write_bytes((access / "head.json").read_bytes())
            (access / "old_log").write_bytes((access / "log.jsonl").read_bytes())
    (data_home() / "access" / "seal").write_text(access_log.log_seal())


def run(kind: str, n_inputs: int, *, seed: int, folder: Path) -> Told:
    """Try `n_inputs` of a kind ("tables", "models" ...); return what came of them."""
    outcomes: Told = Counter()
    whole_kinds = {"models": try_models, "tokenizers": try_tokenizers, "causal": try_causal}
    if kind in whole_kinds:
        try_all = whole_kinds[kind]
        try_all(n_inputs, seed=seed, outcomes=outcomes, folder=folder)
        return outcomes
    if kind == "log":
        make_log(folder)
    try_input = {"tables": try_table, "notes": try_notes, "log": try_log}[kind]
    for n in range(n_inputs):
        n_failures = outcomes["lost"] + outcomes["wrong"] + outcomes["tracebacks"]
        try_input(random.Random(f"{seed} {kind} {n}"), outcomes, folder)
        if outcomes["lost"] + outcomes["wrong"] + outcomes["tracebacks"] > n_failures:
            print(f"{kind} {n} of seed {seed} failed", file=sys.stderr)
    return outcomes


def main() -> int:
    """Print a table of what came of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    counts = {
        "tables": 20_000,
        "notes": 20_000,
        "models": 130,
        "log": 2_500,
        "tokenizers": 600,
        "causal": 300,
    }
    for kind, n_inputs in counts.items():
        parser.add_argument(f"--{kind}", type=int, default=n_inputs)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| input | n | read | refused or seen | tracebacks | wrong | lost | hung | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    n_failures = 0
    for kind in counts:
        n_inputs, start = getattr(options, kind), time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            outcomes = run(kind, n_inputs, seed=options.seed, folder=Path(folder))
        figures = [
            outcomes[key] for key in ("read", "refused", "tracebacks", "wrong", "lost", "hung")
        ]
        n_failures += sum(figures[2:])
        cells = [kind, n_inputs, *figures, round(time.perf_counter() - start)]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 1 if n_failures else 0


if __name__ == "__main__":
    sys.exit(main())
