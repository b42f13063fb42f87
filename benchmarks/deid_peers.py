"""How the default tagger stands beside packages that anybody can install, on hand-written notes.

    python -m benchmarks.deid_peers [--sets unseen_second/ja third/en ...] [--json FILE]

Each set is one comparison (`deid compare`), kept in a data directory of its own that is removed.
Taggers whose packages are not installed are left out: ja-ginza, presidio-analyzer, and a pipeline
of spaCy for English.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from audit.cli.command_line import call_command
from audit.deid.find.taggers import list_taggers
from audit.deid.measure.score_report import SHARES
from audit.home import HOME_VARIABLE
from audit.notes.formats import write_jsonl
from audit.notes.spans import TaggedDocument
from tests.deid.unseen_notes import PROXIES, read_marked_notes, unseen

TAGGERS = {
    "ja": ("default", "ginza", "default+ginza"),
    "en": ("default", "spacy", "presidio", "default+spacy", "default+presidio"),
}
SETS = (
    *(f"{name}/{language}" for name in ("unseen_second", "third") for language in TAGGERS),
    *(f"proxy/{name}" for name in PROXIES),
)


def main() -> None:
    """Print a table of each set: shares in per cent with 95 % intervals, notes a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS, metavar="SET")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tagger_ids = {tagger.tagger_id for tagger in list_taggers()}
    scores = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ[HOME_VARIABLE] = f"{folder}/home"
        for name in options.sets:
            gold = Path(folder) / "gold.jsonl"
            gold.write_text(write_jsonl(_notes(name)), encoding="utf-8")
            taggers = [
                tagger_name
                for tagger_name in TAGGERS[name[-2:]]
                if tagger_ids >= set(tagger_name.split("+"))
            ]
            words = ["deid", "compare", "--gold", str(gold)]
            for tagger in taggers:
                words += ["--tagger", tagger]
            scores[name] = call_command(words)
            _print_scores(name, scores[name])
    if options.json:
        options.json.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")


def _notes(name: str) -> tuple[TaggedDocument, ...]:
    return unseen(*name.split("/")) if name.startswith("unseen") else read_marked_notes(name)


def _print_scores(name: str, scores: dict[str, Any]) -> None:
    titles = [share.replace("_", " ") for share in SHARES]
    print(f"\n{name}\n\n| tagger | {' | '.join(titles)} | notes/s |")
    print("|---" * (len(SHARES) + 2) + "|")
    for tagger, score in scores["taggers"].items():
        cells = [_cell(score[share], score["intervals"].get(share)) for share in SHARES]
        print(f"| {tagger} | {' | '.join(cells)} | {score['notes_per_second'] or 0:.1f} |")
    for pair, difference in scores["differences"].items():
        if pair.startswith("default - "):
            print(f"{pair}: told apart by {difference['told_apart_by']}")


def _cell(share: float | None, interval: list[float] | None) -> str:
    if share is None or interval is None:
        return "n/a"
    low, high = (100 * end for end in interval)
    return f"{100 * share:.1f} ({low:.0f}–{high:.0f})"


if __name__ == "__main__":
    main()
