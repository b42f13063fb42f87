"""Hostile input by the thousand: how much of it ends in a traceback, a wrong value or a loss.

python -m benchmarks.hostile_inputs [--tables 20000] [--notes 20000] [--models 130] [--log 2500]
    [--tokenizers 600] [--seed 0]

Each input is made from the seed. It must be refused in words, or read as an independent reader
reads it; of a file of notes every row that was not touched must be read, or named as left out. An
access log that was tampered with must be seen. A model folder with a hostile tokenizer must be
read, or refused, within 10 seconds of a processor. Prints a table; exits with 1 where anything
fails.
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
    found = bytearray(data)
    for _ in range(n_times):
        at = rng.randrange(len(found) + 1)
        end = min(len(found), at + rng.choice((1, 1, 1, 2, 9)))
        what = rng.randrange(6)
        if what == 0 and at < len(found):
            found[at] = rng.randrange(256)
        elif what in (1, 2):
            found[at:at] = rng.choice(BYTES)
        elif what == 3:
            del found[at:end]
        elif what == 4:
            found[at:at] = found[at:end]
        elif len(found) > 1 and rng.random() < 0.2:
            del found[at:]
    return bytes(found)


def plain_rows(text: str, delimiter: str) -> list[list[str]] | None:
    """Read CSV one character at a time, independently of the standard library; None if broken."""
    rows, cells, cell, state, i = [], [], "", "start", 0
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
            kept = [
                (number, without_blanks(row, n_least=n))
                for number, row in enumerate(rows[1:], start=2)
                if row
            ]
            if kept == list(zip(table.row_numbers, table.rows, strict=True)):
                return True
    return False


def without_blanks(cells: Iterable[str], *, n_least: int) -> tuple[str, ...]:
    """Return cells without the blank ones at the end, but for the first `n_least`."""
    kept = list(cells)
    while len(kept) > n_least and not kept[-1].strip():
        kept.pop()
    return tuple(kept)


def written_table(rng: random.Random) -> tuple[str, list[list[str]], str]:
    """Return a table as text, its rows, and its encoding."""
    n_columns = rng.randint(1, 6)
    header = rng.sample(HEADINGS, n_columns)
    rows = [[rng.choice(CELLS) for _ in header] for _ in range(rng.randint(0, 8))]
    rows = [row if row != [""] else ["x"] for row in rows]
    delimiter, end = rng.choice(",;\t"), rng.choice(("\n", "\r\n"))

    def written(cell: str) -> str:
        is_plain = not re.search('[",;\t\r\n]', cell) and rng.random() < 0.7
        return cell if is_plain else '"' + cell.replace('"', '""') + '"'

    text = end.join(delimiter.join(map(written, row)) for row in [header, *rows])
    return text + end * rng.randint(0, 2), rows, rng.choice(ENCODINGS)


def try_table(rng: random.Random, told: Told, folder: Path) -> None:
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
        _, is_refused = attempt(read, told)
        told["other doors refused"] += is_refused
    table, is_refused = attempt(lambda: read_table(data, what="table"), told)
    told["refused" if is_refused else "read"] += 1
    if table is None:
        is_good = not is_damaged and encoding in ("utf-8", "utf-8-sig") and "\0" not in text
        told["lost"] += is_good and is_refused and not has_tie(text)
        return
    codecs = {"UTF-8": "utf-8", "UTF-8 with BOM": "utf-8-sig", "UTF-16": "utf-16"}
    codec = codecs.get(table.encoding, "cp932")
    told["wrong"] += not is_table_right(table, data.decode(codec))
    if not is_damaged and encoding.startswith("utf-8"):
        told["wrong"] += list(map(list, table.rows)) != rows


def has_tie(text: str) -> bool:
    """Whether a header of one column, or of another mark in equal number, tells no delimiter."""
    first = re.sub('"[^"]*"', "", re.split("[\r\n]", text, maxsplit=1)[0])
    counts = sorted((first.count(mark) for mark in ",;\t"), reverse=True)
    return counts[0] == counts[1] != 0 or counts[0] == 0


def note_lines(rng: random.Random, *, is_csv: bool, n_notes: int) -> list[tuple[str, str, bytes]]:
    """Return identifier, text and line of notes."""
    found = []
    for n in range(n_notes):
        text = f"note {n} " + " ".join(rng.choice(CELLS[2:]) for _ in range(rng.randint(1, 4)))
        text = text.strip().replace("\0", "")
        if is_csv:
            line = f'{n},p{n % 3},"' + text.replace('"', '""') + '"\n'
        else:
            line = json.dumps({"note_id": n, "patient_id": f"p{n % 3}", "text": text}) + "\n"
        found.append((str(n), text, line.encode()))
    return found


def try_notes(rng: random.Random, told: Told, folder: Path) -> None:
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
    found, is_refused = attempt(lambda: list(open_notes(path).read()), told)
    told["refused" if is_refused else "read"] += 1
    if found is None:
        told["lost"] += is_refused and not touched and not is_packed
        return
    read = Counter((one.note_id, one.text) for one in found if isinstance(one, Note))
    known = {note_id for note_id, _ in read}
    for n, (note_id, text, _) in enumerate(notes):
        if n not in touched and (note_id, text) not in read:
            told["wrong" if note_id in known else "lost"] += 1


def packed(data: bytes, *, rng: random.Random) -> bytes:
    """Return bytes as a gzip file, mostly a damaged one."""
    whole = gzip.compress(data, mtime=0)
    return damaged(whole, rng=rng, n_times=rng.randint(0, 2))


def attempt(call: Callable[[], T], told: Told) -> tuple[T | None, bool]:
    """Return what a call gives and whether it was refused; count and print any other end."""
    try:
        return call(), False
    except AuditError:
        return None, True
    except Exception:  # noqa: BLE001  # this is what is looked for
        told["tracebacks"] += 1
        if told["tracebacks"] <= 3:
            traceback.print_exc()
        return None, False


def try_models(n_models: int, *, seed: int, told: Told, folder: Path) -> None:
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
        _, is_refused = attempt(partial(inspect_model, copy), told)
        loaded, is_unloaded = attempt(partial(load_model, copy), told)
        told["refused" if is_refused or is_unloaded else "read"] += 1
        if loaded is not None:
            told["wrong"] += is_refused or loaded.digest != compute_model_digest(copy)
            told["wrong"] += not are_weights_of(loaded.model, copy)
    os.environ[VARIABLE] = str(root)
    listed, _ = attempt(list_models, told)
    names = {model.model_id for model in listed or ()}
    is_there = {
        f"models/{n}/model"
        for n in range(n_models)
        if (root / str(n) / "model" / "config.json").is_file()
    }
    told["lost"] += len(is_there | {"models/good"}) - len(names & (is_there | {"models/good"}))


HUNG_SECONDS = 10
"""Of a processor, for a look at a folder, and for building its tokenizer and using it."""
STOPPED = "stopped at a limit"


def try_tokenizers(n_folders: int, *, seed: int, told: Told, folder: Path) -> None:
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
        _, is_refused = attempt(partial(inspect_model, copy), told)
        seconds = time.process_time() - start
        if not is_refused:
            try:
                seconds = max(seconds, call_limited(split_texts, copy, place=STOPPED))
            except AuditError as error:
                is_refused = True
                told["hung"] += error.where == STOPPED  # at a limit, not by what its files say
            except RuntimeError as error:
                told["tracebacks"] += 1
                print(error, file=sys.stderr)
        told["slowest, ms"] = max(told["slowest, ms"], round(1000 * seconds))
        told["hung"] += seconds > HUNG_SECONDS
        told["refused" if is_refused else "read"] += 1
        shutil.rmtree(copy)


def are_weights_of(model: object, folder: Path) -> bool:
    """Whether a loaded model holds the numbers that the format's own reader finds in its files."""
    from safetensors.torch import load_file

    held = model.state_dict()  # type: ignore[attr-defined]
    stored = {k: v for path in folder.glob("*.safetensors") for k, v in load_file(path).items()}
    return all(held[name].equal(tensor) for name, tensor in stored.items() if name in held)


def try_log(rng: random.Random, told: Told, folder: Path) -> None:
    """Tamper with an access log of some lines, and look whether it is seen."""
    access = folder / "access"
    state: dict[str, bytes] = {path.name: path.read_bytes() for path in access.iterdir()}
    seal = (access / "seal").read_text()
    lines = state["log.jsonl"].splitlines(keepends=True)
    what = rng.randrange(8)
    one, other = rng.sample(range(len(lines)), 2)
    if what == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif what == 1:
        del lines[one]
    elif what == 2:
        lines[one:one] = [lines[other]]
    elif what == 3:  # a seal of its own, of another log
        lines[one] = re.sub(
            rb'"mac":"[0-9a-f]{8}', b'"mac":"%08x' % rng.getrandbits(32), lines[one]
        )
    changed = b"".join(lines)
    head = state["head.json"]
    if what == 4:
        changed = damaged(changed, rng=rng, n_times=1)
    elif what == 5:
        head = damaged(head, rng=rng, n_times=1)
    elif what == 6:  # an older head and the log cut to match: no key is needed
        head = (access / "old_head").read_bytes()
        changed = (access / "old_log").read_bytes()
    elif what == 7:
        (access / "key").write_bytes(damaged(state["key"], rng=rng, n_times=1))
    is_same = (changed, head, (access / "key").read_bytes()) == (
        state["log.jsonl"],
        state["head.json"],
        state["key"],
    )
    (access / "log.jsonl").write_bytes(changed)
    (access / "head.json").write_bytes(head)
    found, is_refused = attempt(lambda: access_log.verify(seal), told)
    attempt(access_log.entries, told)
    is_seen = is_refused or (found is not None and not found.is_intact)
    told["refused" if is_seen else "read"] += 1
    told["lost"] += not is_seen and not is_same
    told["wrong"] += is_seen and is_same
    for name in ("log.jsonl", "head.json", *(["key"] if what == 7 else [])):
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
    told: Told = Counter()
    if kind in ("models", "tokenizers"):
        try_all = {"models": try_models, "tokenizers": try_tokenizers}[kind]
        try_all(n_inputs, seed=seed, told=told, folder=folder)
        return told
    if kind == "log":
        make_log(folder)
    one = {"tables": try_table, "notes": try_notes, "log": try_log}[kind]
    for n in range(n_inputs):
        before = told["lost"] + told["wrong"] + told["tracebacks"]
        one(random.Random(f"{seed} {kind} {n}"), told, folder)
        if told["lost"] + told["wrong"] + told["tracebacks"] > before:
            print(f"{kind} {n} of seed {seed} failed", file=sys.stderr)
    return told


def main() -> int:
    """Print a table of what came of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    counts = {"tables": 20_000, "notes": 20_000, "models": 130, "log": 2_500, "tokenizers": 600}
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
            told = run(kind, n_inputs, seed=options.seed, folder=Path(folder))
        figures = [told[key] for key in ("read", "refused", "tracebacks", "wrong", "lost", "hung")]
        n_failures += sum(figures[2:])
        cells = [kind, n_inputs, *figures, round(time.perf_counter() - start)]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 1 if n_failures else 0


if __name__ == "__main__":
    sys.exit(main())
