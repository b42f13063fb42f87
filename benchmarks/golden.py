"""Does this checkout still answer as the last commit before the redesign did?

Runs the same commands in both trees on this machine, each in a data directory of its own, and
compares what they print and write. Times, paths, versions and digests of source are left out; all
else must be the same. What the old tree answered is kept (`--kept`), since it never changes.

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

BASE = "aabd349"  # the last commit before the redesign: never renewed by a change of structure
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
    "digest_of_rules",
    "tagger",
    "tagger_digest",
    "software",
    "n_files",
    "run_id",
    "salted_digest",  # salted by the data directory
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
        demo = ("audit/demo_hospital", "audit/corpora/demo_hospital")
        self.demo = next(checkout / one for one in demo if (checkout / one).is_dir())
        place.mkdir(parents=True)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of this tree."""
        environment = {
            **os.environ,
            "KART_AUDIT_HOME": str(self.place / "home"),
            "OMP_NUM_THREADS": self.size["threads"],  # sums in another order are other numbers
        }
        return subprocess.Popen(
            [sys.executable, "-m", "audit", *words],
            cwd=self.checkout,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def call(self, *words: str) -> Any:
        """Run a command to its end and return the JSON that it printed."""
        process = self.start(*words)
        out, told = process.communicate()
        if process.returncode:
            raise SystemExit(f"{' '.join(words)} failed in {self.checkout}:\n{told[-2000:]}")
        return json.loads(out) if out.strip() else None


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
    """The demo's audits in one JSON."""
    words = ("demo", "--json", "--documents", tree.size["documents"], "--inputs")
    yield "demo", tree.call(*words, tree.size["inputs"], *tree.size["exposures"].split())


def selftest(tree: Tree) -> Iterator[tuple[str, Any]]:
    """The self-test."""
    yield "selftest", tree.call("selftest", "--json")


def _run_words(tree: Tree, scenario: int, out: Path) -> tuple[str, ...]:
    here = tree.demo / "en"
    return (
        "run",
        "--general",
        str(here / "models/general"),
        "--hospital",
        str(here / "models/hospital-20"),
        "--scenario",
        str(scenario),
        "--names",
        str(here / "names.csv"),
        *(("--passages", str(here / "passages.jsonl")) if scenario == 2 else ()),
        "--documents",
        tree.size["documents"],
        "--steps",
        "60",
        "--inputs",
        tree.size["inputs"],
        "--chain-inputs",
        "20",
        "--seed",
        "5",
        "--out",
        str(out),
        "--json",
    )


def run(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Both scenarios with their files, and each of them killed and asked again."""
    for scenario in (1, 2):
        out = tree.place / f"scenario-{scenario}"
        words = _run_words(tree, scenario, out)
        process = tree.start(*words)
        time.sleep(float(tree.size["kill_after"]))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        yield f"run {scenario}", tree.call(*words)
        yield f"files {scenario}", _files(out)


def corpus(tree: Tree) -> Iterator[tuple[str, Any]]:
    """A corpus with canaries and lists, and the examination of it."""
    notes = notes_file(tree.place / "NOTEEVENTS.csv", n=900)
    out = tree.place / "corpus"
    words = ("--seed", "3", "--canaries", "1,4", "--canary-names", "3")
    yield (
        "corpus",
        tree.call("corpus", "build", "--notes", str(notes), *words, "--out", str(out), "--json"),
    )
    yield "corpus files", _files(out)


def deid(tree: Tree) -> Iterator[tuple[str, Any]]:
    """A corpus with gold spans, tagged by both shipped taggers and scored."""
    notes = notes_file(tree.place / "notes-deid.csv", n=120)
    built = tree.place / "chain"
    yield (
        "deid build",
        tree.call(
            "deid",
            "build",
            "--notes",
            str(notes),
            "--out",
            str(built),
            "--names",
            "ja",
            "--seed",
            "2",
            "--json",
        ),
    )
    yield "deid build files", _files(built)
    gold = next(iter(sorted(built.glob("*train*.jsonl"))))
    # The old tree drew surrogates from a seed alone, in another way: only placeholders compare.
    for tagger, mode in (("rules", "placeholder"), ("default", "placeholder")):
        out = tree.place / f"tagged-{tagger}"
        yield (
            f"deid tag {tagger}",
            tree.call(
                "deid",
                "tag",
                "--tagger",
                tagger,
                "--notes",
                str(gold),
                "--out",
                str(out),
                "--mode",
                mode,
                "--json",
            ),
        )
        yield f"deid tag {tagger} files", _files(out)
        misses = tree.place / f"misses-{tagger}.csv"
        yield (
            f"deid score {tagger}",
            tree.call(
                "deid",
                "score",
                "--gold",
                str(gold),
                "--pred",
                str(out),
                "--replicates",
                "50",
                "--misses",
                str(misses),
                "--json",
            ),
        )
        yield f"misses {tagger}", misses.read_text(encoding="utf-8")


def training(tree: Tree) -> Iterator[tuple[str, Any]]:
    """A pre-training and a tagger's training of a few steps: the same weights to the byte."""
    notes = notes_file(tree.place / "notes-train.csv", n=300)
    out = tree.place / "pretrained"
    yield (
        "pretrain",
        tree.call(
            "pretrain",
            "--general",
            str(tree.demo / "en/models/general"),
            "--notes",
            str(notes),
            "--steps",
            "12",
            "--batch",
            "8",
            "--tokens",
            "64",
            "--checkpoint-every",
            "4",
            "--out",
            str(out),
            "--json",
        ),
    )
    yield "pretrained weights", _files(out / "model", only=("model.safetensors",))
    out = tree.place / "tagger"
    yield (
        "deid train",
        tree.call(
            "deid",
            "train",
            "--gold",
            str(CHECKOUT / "audit/deid/example/en.jsonl"),
            "--epochs",
            "1",
            "--out",
            str(out),
            "--json",
        ),
    )
    yield "tagger weights", _files(out / "model", only=("model.safetensors", "characters.json"))


PARTS = {
    "demo": demo,
    "selftest": selftest,
    "run": run,
    "corpus": corpus,
    "deid": deid,
    "training": training,
}


def _files(folder: Path, *, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what the files of a folder hold: JSON as values, others by digest."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or (only and path.name not in only):
            continue
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            found[name] = json.loads(path.read_bytes())
        elif path.suffix in {".csv", ".jsonl", ".txt", ".md"} and path.stat().st_size < 2**22:
            found[name] = path.read_text(encoding="utf-8").split("\n")
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield where two answers differ, but for what is never the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key in NOT_COMPARED:
                continue
            if key not in old or key not in new:
                yield f"{where}/{key}: only in the {'new' if key in new else 'old'}"
            else:
                yield from differences(old[key], new[key], f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}: {len(old)} values, now {len(new)}"
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from differences(a, b, f"{where}[{i}]")
    elif old != new and not (old != old and new != new):
        yield f"{where}: {str(old)[:120]!r}, now {str(new)[:120]!r}"


def answers_of(checkout: Path, parts: list[str], size: dict[str, str], kept: Path | None) -> Any:
    """Run the parts in a tree, or take what is kept of them."""
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        for part in parts:
            file = kept / f"{part}.json" if kept else None
            if file is None or not file.exists():
                began = time.monotonic()
                made = dict(PARTS[part](Tree(checkout, Path(place) / part, size=size)))
                text = json.dumps(made).replace(str(place), "PLACE").replace(str(checkout), "TREE")
                text = text.replace("TREE/audit/corpora/demo_hospital", "TREE/audit/demo_hospital")
                print(f"{checkout.name}: {part} in {time.monotonic() - began:.0f} s", flush=True)
                if file is not None:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text)
            else:
                text = file.read_text()
            answers[part] = json.loads(text)
    return answers


def main() -> int:
    """Compare this checkout with the base; 1 if anything differs."""
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
    kept = options.kept / ("quick" if options.quick else "full") if options.kept else None
    with tempfile.TemporaryDirectory(prefix="golden-base-") as folder:
        base = Path(folder) / "base"
        subprocess.run(
            ["git", "-C", str(CHECKOUT), "worktree", "add", "--detach", "-q", str(base), BASE],
            check=True,
        )
        try:
            old = answers_of(base, parts, size, kept)
        finally:
            shutil.rmtree(base, ignore_errors=True)
            subprocess.run(["git", "-C", str(CHECKOUT), "worktree", "prune"], check=True)
    new = answers_of(CHECKOUT, parts, size, None)
    found = list(differences(old, new))
    for line in found[:200]:
        print(line)
    print(f"{len(found)} differences in {', '.join(parts)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
