"""Are these notes fit for release? De-identifies notes, writes them, and measures what was missed.

python -m examples.data_officer NOTES_FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from audit.deid.measure.scoring import EXAMPLES
from audit.interface import deidentify, measure

COLUMNS = ["n_gold", "n_missed", "recall", "recall_low", "recall_high", "precision"]


def main(out: Path) -> None:
    """De-identify the invented notes whose places are known, with the shipped tagger."""
    gold = EXAMPLES / "en.jsonl"
    notes = [json.loads(line) for line in gold.read_text(encoding="utf-8").splitlines()]
    released = [deidentify(note["text"], doc_id=note["doc_id"]) for note in notes]
    out.mkdir(mode=0o700)
    for note in released:
        (out / f"{note.document.doc_id}.txt").write_text(note.text, encoding="utf-8")
    print(f"{len(released)} notes: {out}")
    print(measure(gold, [note.document for note in released]).loc["strict", COLUMNS].round(3))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
