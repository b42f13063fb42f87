"""The rate and memory of making a corpus, beside `wc` and `gzip` of the same file.

The bench writes a synthetic NOTEEVENTS.csv of the given size (lengths and placeholders as in
MIMIC-III: some 2,000 characters and 6 placeholders a note). Then it times `wc`, `gzip`, and all
that `corpus build` does (build, examination, lists): without and with canaries on one worker, and
with canaries on two. Each runs in a process of its own; CPU seconds and memory are those of all its
processes. The time for 2.08 million notes is extrapolated from the rate, not measured.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from audit.corpus.examine import read_examination
from audit.corpus.make import CorpusTask, make_corpus
from audit.shelf import JSON

N_NOTES_MIMIC = 2_080_000
_COUNTS = (1, 2, 4, 8)
HEADER = (
    "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,STORETIME,CATEGORY,DESCRIPTION,CGID,ISERROR,TEXT"
)
PROSE = (
    "patient was seen with stable blood pressure and no fever lungs clear to auscultation "
    "abdomen soft non tender continue current medications follow up renal function improved "
    "overnight chest film shows small effusion plan discussed family heart rate regular"
)
PLACES = (
    "[**Known firstname {a}**] [**Known lastname {b}**] is a 57 year old man",
    "Dr. [**Last Name (STitle) {a}**]",
    "[**2151-{m}-{d}**]",
    "[**{m}-{d}**]",
    "[**Hospital1 {a}**]",
    "[**First Name8 (NamePattern2) {a}**] [**Last Name (NamePattern1) {b}**]",
    "[**Telephone/Fax (1) {a}**]",
    "[**Location (un) {a}**]",
    "[**2151**]",
)


def measure_corpora(n_megabytes: int) -> dict[str, JSON]:
    """Measure all builds of a file of `n_megabytes` in a temporary folder."""
    with TemporaryDirectory() as folder:
        notes = Path(folder) / "NOTEEVENTS.csv"
        n_notes = write_notes(notes, n_bytes=n_megabytes * 1_000_000)
        rows: dict[str, dict[str, float]] = {
            "wc": time_command(["wc", str(notes)]),
            "gzip": time_command(["gzip", "-6", "-c", str(notes)]),
        }
        for label, workers, counts in (
            ("corpus", 1, ()),
            ("canaries", 1, _COUNTS),
            ("two_workers", 2, _COUNTS),
        ):
            command = [sys.executable, "-m", __spec__.name, folder, *map(str, (workers, *counts))]
            process = subprocess.run(command, capture_output=True, text=True, check=True)
            rows[label] = json.loads(process.stdout)
        n_bytes = notes.stat().st_size
    for row in rows.values():
        row["megabytes_per_second"] = n_bytes / 1e6 / row["seconds"]
        row["megabytes_per_cpu_second"] = n_bytes / 1e6 / row["cpu_seconds"]
    canary_row = rows["canaries"]
    return {
        "n_notes": n_notes,
        "n_megabytes": n_bytes / 1e6,
        "rows": rows,
        "ratio_to_gzip": rows["gzip"]["cpu_seconds"] / canary_row["cpu_seconds"],
        "minutes_for_mimic_extrapolated": canary_row["seconds"] * N_NOTES_MIMIC / n_notes / 60,
    }


def write_notes(path: Path, *, n_bytes: int) -> int:
    """Write a synthetic NOTEEVENTS.csv; return the number of notes."""
    rng = np.random.default_rng(0)
    words = PROSE.split()
    prose = [" ".join(rng.choice(words, 10)) for _ in range(10_000)]
    n_notes = n_written = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        n_written += file.write(HEADER + "\n")
        while n_written < n_bytes:
            n_notes += 1
            subject, stay = rng.integers(1, 46_520), rng.integers(1, 4)
            lines = [prose[i] for i in rng.integers(0, len(prose), rng.integers(2, 58))]
            for place in (PLACES[i] for i in rng.integers(0, len(PLACES), 6)):
                a, b = rng.integers(1, 20_000, 2)
                month, day = rng.integers(1, 13), rng.integers(1, 29)
                text = place.format(a=a, b=b, m=month, d=day)
                lines.insert(int(rng.integers(0, len(lines) + 1)), text)
            body = "\n".join(lines)
            head = f'{n_notes},{subject},{subject}{stay},2151-03-0{stay},,,"Nursing","Report",,,'
            n_written += file.write(f'{head}"{body}"\n')
    return n_notes


def time_command(command: list[str]) -> dict[str, float]:
    """Return the seconds of a command; its output is thrown away."""
    start, usage_before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(cpu_seconds(usage_after) - cpu_seconds(usage_before), 2),
    }


def build_corpus(
    notes: Path, folder: Path, *, counts: tuple[int, ...], workers: int
) -> dict[str, JSON]:
    """Make a corpus in this process; return seconds, peak memory and counts."""
    start = time.perf_counter()
    order = CorpusTask(notes=notes, seed=1, canary_counts=counts, workers=workers)
    make_corpus(order, out=folder)
    seconds, own_usage = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    worker_usage = resource.getrusage(resource.RUSAGE_CHILDREN)  # memory of the largest
    n_workers = workers if workers > 1 else 0
    examination = read_examination(folder)
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds(own_usage) + cpu_seconds(worker_usage), 2),
        "own_cpu_seconds": round(cpu_seconds(own_usage), 2),
        "peak_mb": round((own_usage.ru_maxrss + n_workers * worker_usage.ru_maxrss) / 1024),
        "n_notes": examination.n_notes,
        "n_mentions": examination.coverage.n_mentions,
        "n_passages": examination.n_passages,
        "private": hashlib.sha256((folder / "private.jsonl").read_bytes()).hexdigest(),
    }


def cpu_seconds(usage: resource.struct_rusage) -> float:
    """Return the seconds that the cores worked."""
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    WORKERS, *COUNTS = map(int, sys.argv[2:])
    MEASURES = build_corpus(
        FOLDER / "NOTEEVENTS.csv",
        FOLDER / f"made-{WORKERS}-{len(COUNTS)}",
        counts=tuple(COUNTS),
        workers=WORKERS,
    )
    sys.stdout.write(json.dumps(MEASURES))
