"""A model's copies as one side of a score: spans that align, exact copies alone, how faithful.

Comes in: outputs that were given, or the `copies.jsonl` of a tagger. Goes out: JSONL files in the
folder in which a score is made, and sums for `copies_summary`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from audit.deid.alignment import EXACT
from audit.deid.format_jsonl import jsonl_line
from audit.deid.generation.copies import added
from audit.deid.generation.output_files import OutputFiles
from audit.deid.pair_files import PairedFiles
from audit.deid.score_sources import PREDICTED_FILE, VERBATIM_FILE, private_file
from audit.errors import AuditError

OnCharacters = Callable[[int], None]
Sums = dict[str, float]


def write_outputs(
    gold: Path, outputs: Path, *, folder: Path, on_characters: OnCharacters
) -> OutputFiles:
    """Write what given outputs say of the gold's notes: all that aligns, and exact copies alone.

    Raises
    ------
    AuditError
        As `OutputFiles`.
    """
    files = OutputFiles(gold, outputs)
    with private_file(folder / PREDICTED_FILE) as file:
        for note, predicted in files:
            file.write(jsonl_line(predicted).encode("utf-8", "surrogatepass"))
            on_characters(len(note.text))
    with private_file(folder / VERBATIM_FILE) as file:
        for _, predicted in files.verbatim():
            file.write(jsonl_line(predicted).encode("utf-8", "surrogatepass"))
    return files


def write_exact(gold: Path, predicted: Path, *, copies: Path, folder: Path) -> Sums:
    """Write the predictions of exact copies alone, and return the sums of all copies.

    Raises
    ------
    AuditError
        If a line of the copies cannot be read.
    """
    sums: Sums = {}
    exact: set[str] = set()
    try:
        with copies.open("rb") as lines:
            for line in lines:
                record = json.loads(line.decode("utf-8", "surrogatepass"))
                sums = added(sums, _numbers(record))
                if record["status"] == EXACT:
                    exact.add(str(record["doc_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise AuditError("The tagger's copies cannot be read.", where="predicted notes") from None
    with private_file(folder / VERBATIM_FILE) as file:
        for note, found in PairedFiles(gold, predicted):
            kept = found if note.doc_id in exact else note.with_spans(())
            file.write(jsonl_line(kept).encode("utf-8", "surrogatepass"))
    return sums


def _numbers(record: Mapping[str, Any]) -> Sums:
    """Return a line of `copies.jsonl` as numbers that are added up, as `numbers_of` does."""
    edits, tags, rate = record["edits"], record["tags"], record["error_rate"]
    numbers: Sums = {
        "n_notes": 1,
        "n_windows": record["n_windows"],
        f"status {record['status']}": 1,
        "n_edits": edits["n_inserted"] + edits["n_deleted"] + edits["n_substituted"],
        "n_edits_inside": edits["n_inside"],
        "n_source_chars": edits["n_source_chars"],
        "n_notes_with_rate": int(rate is not None),
        "sum_error_rate": rate or 0.0,
        "n_notes_malformed": int(tags["n_malformed"] > 0),
        "n_malformed": tags["n_malformed"],
        "n_unaligned": len(record["unaligned"]),
    }
    return numbers | {f"tags {name}": n for name, n in tags.items() if name != "n_malformed"}
