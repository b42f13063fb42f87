"""Compare the answers of this checkout with those of an earlier commit, the base.

Both trees run the same commands on this machine, each with its own data directory. The commands'
output and files must be equal but for times, paths and versions. `--kept` keeps the answers of the
base, which never change.

    make golden                       # everything
    python benchmarks/golden.py --quick --only run,corpus
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BASE = "2bbf73d9"
"""The last commit before names and sentences were revised. A change of structure keeps it."""
CHECKOUT = Path(__file__).resolve().parents[1]
NOT_COMPARED = {
    "made",
    "created",
    "seconds",
    "seconds_left",
    "versions",
    "version",
    "path",
    "out",
    "directory",
    "files",
    "host",
    "device",
    "log",
    "seal",
    "started",
    "finished",
    "cached",
    "software",
    "run_id",
    "salted_digest",  # salted by the data directory, as the next three are
    "score_id",
    "kept",  # a sentence with the score's identifier
    "log_seal.txt",
    "sha256",  # of files that are compared themselves
}
FIRST = ("Anna", "Berta", "Clara", "Dora", "Emil", "Fritz", "Gustav", "Hanna")
NOTE = (
    "Admission Date: [**2150-{month}-11**]  Discharge Date: [**2150-{month}-19**]\n"
    "[**Known lastname {n}**] is a {age} year old woman seen by Dr. [**Last Name (STitle) {n}**] "
    "at [**Hospital1 18**]. Phone [**Telephone/Fax (1) {n}**]. Patient [**Name (NI) {n}**] is a "
    "{age}-year-old female with chest pain. MRN [**Medical Record Number {n}**].\n"
    "She was well until [**{month}-9**]. {word} was given 20 mg daily. Follow up in two weeks.\n"
)


class Tree:
    """One checkout with a data directory of its own."""

    def __init__(self, checkout: Path, place: Path, *, size: dict[str, str]) -> None:
        self.checkout, self.place, self.size = checkout, place, size
        self.answers: dict[str, Any] = {}
        self.demo = checkout / "audit/demo_hospital"
        place.mkdir(parents=True)

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start a command of this tree; a string holds words separated by spaces."""
        arguments = [
            a for word in words for a in (word.split() if isinstance(word, str) else [word])
        ]
        environment = {
            **os.environ,
            "KART_AUDIT_HOME": str(self.place / "home"),
            "OMP_NUM_THREADS": self.size["threads"],  # sums in another order are other numbers
        }
        return subprocess.Popen(
            [sys.executable, "-m", "audit", *arguments],
            cwd=self.checkout,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def call(self, *words: str | Path) -> Any:
        """Run a command to its end and return the JSON that it printed."""
        process = self.start(*words)
        output, messages = process.communicate()
        if process.returncode:
            command = " ".join(map(str, words))
            raise SystemExit(f"{command} failed in {self.checkout}:\n{messages[-2000:]}")
        return json.loads(output) if output.strip() else None


def notes_file(path: Path, *, n: int) -> Path:
    """Write a small NOTEEVENTS.csv with placeholders of MIMIC-III."""
    draw = random.Random(3)
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "TEXT"])
    for i in range(n):
        note = NOTE.format(
            month=draw.randint(1, 12),
            n=1000 + i // 3,
            age=draw.randint(20, 88),
            word=draw.choice(FIRST),
        )
        rows.writerow([i, i // 3, i, f"2150-01-{1 + i % 28:02d}", "Discharge summary", note])
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


def demo(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield the demo's audits as one JSON."""
    size = tree.size
    yield (
        "demo",
        tree.call(
            f"demo --json --documents {size['documents']} --inputs {size['inputs']}",
            size["exposures"],
        ),
    )


def selftest(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield the self-test's report."""
    yield "selftest", tree.call("selftest --json")


def _run_words(tree: Tree, scenario: int, out: Path) -> tuple[str | Path, ...]:
    english, size = tree.demo / "en", tree.size
    settings = {
        1: f"--documents {size['documents']} --steps 60",
        2: f"--inputs {size['inputs']} --chain-inputs 20",
    }
    return (
        "run --general",
        english / "models/general",
        "--hospital",
        english / "models/hospital-20",
        f"--scenario {scenario} --names",
        english / "names.csv",
        *(("--passages", english / "passages.jsonl") if scenario == 2 else ()),
        settings[scenario],
        "--seed 5 --json --out",
        out,
    )


def run(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield the reports and files of both scenarios, each killed once and resumed."""
    for scenario in (1, 2):
        out = tree.place / f"scenario-{scenario}"
        words = _run_words(tree, scenario, out)
        process = tree.start(*words)
        time.sleep(float(tree.size["kill_after"]))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        yield f"run {scenario}", tree.call(*words)
        yield f"files {scenario}", _read_files(out)


def corpus(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield a corpus with canaries, held-out people and lists, and its examination."""
    notes = notes_file(tree.place / "NOTEEVENTS.csv", n=900)
    out = tree.place / "corpus"
    order = "--seed 3 --canaries 1,4 --canary-names 3 --json --out"
    yield "corpus", tree.call("corpus build --notes", notes, order, out)
    yield "corpus files", _read_files(out)


def deid(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield a corpus with gold spans, tagged and scored with both shipped taggers."""
    notes = notes_file(tree.place / "notes-deid.csv", n=120)
    corpus_folder = tree.place / "chain"
    order = "--names ja --seed 2 --json --out"
    yield "deid build", tree.call("deid build --notes", notes, order, corpus_folder)
    yield "deid build files", _read_files(corpus_folder)
    gold = min(corpus_folder.glob("*train*.jsonl"))
    # Surrogates depend on a secret key of each data directory: only placeholders are compared.
    for tagger in ("rules", "default"):
        out = tree.place / f"tagged-{tagger}"
        order = f"deid tag --tagger {tagger} --mode placeholder --json --notes"
        yield f"deid tag {tagger}", tree.call(order, gold, "--out", out)
        yield f"deid tag {tagger} files", _read_files(out)
        misses = tree.place / f"misses-{tagger}.csv"
        order = "--replicates 50 --json --misses"
        yield (
            f"deid score {tagger}",
            tree.call("deid score --gold", gold, "--pred", out, order, misses),
        )
        yield f"misses {tagger}", misses.read_text(encoding="utf-8")


def training(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield the weights of a short pre-training and of a tagger's training, by digest."""
    notes = notes_file(tree.place / "notes-train.csv", n=300)
    general, out = tree.demo / "en/models/general", tree.place / "pretrained"
    order = "--steps 12 --batch 8 --tokens 64 --checkpoint-every 4 --json --out"
    yield "pretrain", tree.call("pretrain --general", general, "--notes", notes, order, out)
    yield "pretrained weights", _read_files(out / "model", only=("model.safetensors",))
    gold, out = CHECKOUT / "audit/deid/measure/example/en.jsonl", tree.place / "tagger"
    yield "deid train", tree.call("deid train --gold", gold, "--epochs 1 --json --out", out)
    yield (
        "tagger weights",
        _read_files(out / "model", only=("model.safetensors", "characters.json")),
    )


PARTS = {
    "demo": demo,
    "selftest": selftest,
    "run": run,
    "corpus": corpus,
    "deid": deid,
    "training": training,
}


def _read_files(folder: Path, *, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the content of a folder's files: JSON parsed, text by line, others as digests."""
    contents: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or (only and path.name not in only):
            continue
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            contents[name] = json.loads(path.read_bytes())
        elif path.suffix in {".csv", ".jsonl", ".txt", ".md"} and path.stat().st_size < 2**22:
            contents[name] = path.read_text(encoding="utf-8").split("\n")
        else:
            contents[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return contents


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield each place where two answers differ; `NOT_COMPARED` keys are skipped."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key in NOT_COMPARED:
                continue
            if key not in old or key not in new:
                yield f"{path}/{key}: only in the {'new' if key in new else 'old'}"
            else:
                yield from differences(old[key], new[key], f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} values, now {len(new)}"
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from differences(a, b, f"{path}[{i}]")
    elif old != new and not (old != old and new != new):
        yield f"{path}: {str(old)[:120]!r}, now {str(new)[:120]!r}"


def answers_of(
    checkout: Path, parts: list[str], size: dict[str, str], kept_folder: Path | None
) -> Any:
    """Return the answers of each part: read from `kept` if they are there, else computed."""
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        for part in parts:
            file = kept_folder / f"{part}.json" if kept_folder else None
            if file is None or not file.exists():
                began = time.monotonic()
                answer = dict(PARTS[part](Tree(checkout, Path(place) / part, size=size)))
                text = json.dumps(answer).replace(place, "PLACE").replace(str(checkout), "TREE")
                print(f"{checkout.name}: {part} in {time.monotonic() - began:.0f} s", flush=True)
                if file is not None:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text)
            else:
                text = file.read_text()
            answers[part] = json.loads(text)
    return answers


def main() -> int:
    """Compare this checkout with the base; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few documents and inputs")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--kept", type=Path, help="where the base's answers are kept")
    options = parser.parse_args()
    size = (
        {"documents": "40", "inputs": "60", "exposures": "", "kill_after": "6", "threads": "1"}
        if options.quick
        else {
            "documents": "300",
            "inputs": "400",
            "exposures": "--exposures",
            "kill_after": "20",
            "threads": "2",
        }
    )
    parts = options.only.split(",")
    kept_folder = options.kept / ("quick" if options.quick else "full") if options.kept else None
    with tempfile.TemporaryDirectory(prefix="golden-base-") as folder:
        base = Path(folder) / "base"
        subprocess.run(
            ["git", "-C", str(CHECKOUT), "worktree", "add", "--detach", "-q", str(base), BASE],
            check=True,
        )
        try:
            old = answers_of(base, parts, size, kept_folder)
        finally:
            shutil.rmtree(base, ignore_errors=True)
            subprocess.run(["git", "-C", str(CHECKOUT), "worktree", "prune"], check=True)
    new = answers_of(CHECKOUT, parts, size, None)
    lines = list(differences(old, new))
    for line in lines[:200]:
        print(line)
    print(f"{len(lines)} differences in {', '.join(parts)}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
