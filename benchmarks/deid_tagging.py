"""Time and memory of tagging: many notes, and one long note, each in a process of its own.

    python benchmarks/deid_tagging.py --tagger default --notes 10000 --json FILE

Synthetic notes, half Japanese and half English, go through `tag_notes` as `deid tag` does it; then
one note of 30,000 characters through the tagger alone. Memory is the process's peak, and those of
the processes that it had do the work, each as large as the largest; beside it the peak of a process
that has only loaded the tagger.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from audit.deid.find.tagger import is_light, tag_and_check
from audit.deid.find.taggers import load_tagger
from audit.deid.redact.release import Release
from audit.deid.sets.tagging import tag_notes
from audit.executor import count_cores
from audit.notes.read import open_notes
from benchmarks.synthetic import in_turn

N_LONG = 30_000
SEED = 20


def peak_megabytes(*, n_workers: int = 1) -> float:
    """Return the most memory that this process has had, in MB, and its workers beside it."""
    own_peak, largest = (
        resource.getrusage(process_group).ru_maxrss / 1024
        for process_group in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own_peak + (n_workers * largest if n_workers > 1 else 0.0)


def texts(n: int) -> list[str]:
    """Return synthetic notes of both languages, of held-out styles."""
    notes = in_turn(n, seed=SEED, languages=("ja", "en"), is_held_out=True)
    return [note.text for note in notes]


def measure(measure_name: str, *, tagger_id: str, folder: Path, n_workers: int) -> dict[str, Any]:
    """Do one part, in this process."""
    tagger = load_tagger(tagger_id, device="cpu")
    tagger.tag(["山田太郎"])
    record: dict[str, Any] = {
        "what": measure_name,
        "tagger": tagger_id,
        "loaded_mb": peak_megabytes(),
    }
    if measure_name == "many":
        path = folder / "notes.jsonl"
        begin = time.perf_counter()
        census = tag_notes(
            open_notes(path),
            tagger=tagger,
            folder=folder / f"tagged-{tagger_id}",
            release=Release(),
            n_workers=n_workers,
        )
        record |= {"n_notes": census["n_notes"], "n_characters": census["n_characters"]}
    else:
        long = "\n".join(texts(400))[:N_LONG]
        begin = time.perf_counter()
        tag_and_check(tagger, [long])
        record |= {"n_notes": 1, "n_characters": len(long)}
    seconds = time.perf_counter() - begin
    n_workers = n_workers if measure_name == "many" and is_light(tagger) else 1
    return record | {
        "seconds": seconds,
        "n_workers": n_workers,
        "characters_per_second": record["n_characters"] / seconds,
        "peak_mb": peak_megabytes(n_workers=n_workers),
    }


def main() -> None:
    """Measure every part in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tagger", nargs="+", default=["rules", "default"])
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=count_cores())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", nargs=3, metavar=("WHAT", "TAGGER", "FOLDER"))
    options = parser.parse_args()
    if options.part:
        measure_name, tagger_id, folder = options.part
        row = measure(
            measure_name, tagger_id=tagger_id, folder=Path(folder), n_workers=options.workers
        )
        print(json.dumps(row))
        return
    rows = []
    with tempfile.TemporaryDirectory() as name:
        lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts(options.notes)]
        (Path(name) / "notes.jsonl").write_text("\n".join(lines), encoding="utf-8")
        for tagger_id in options.tagger:
            for measure_name in ("many", "long"):
                command = [
                    sys.executable,
                    __file__,
                    "--workers",
                    str(options.workers),
                    "--part",
                    measure_name,
                    tagger_id,
                    name,
                ]
                process = subprocess.run(command, capture_output=True, text=True, check=True)
                rows.append(json.loads(process.stdout))
                print(rows[-1])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
