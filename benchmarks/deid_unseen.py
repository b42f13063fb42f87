"""What the taggers reach on the hand-written test sets, with intervals; and every miss, to a file.

python -m benchmarks.deid_unseen [--taggers rules default] [--misses FILE.jsonl] [--keep]

`--keep` writes what the second set says of rules and default beside the default tagger, from where
the page De-identify shows it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from audit.deid.metrics import LabelScore, Pair, measured
from audit.deid.score import SAME, Scored, SpanCase, score_pairs
from audit.deid.tagger import Tagger, tag_checked
from audit.deid.taggers import DEFAULT, HAND_WRITTEN, LANGUAGES, RULES, SHIPPED, load_tagger
from audit.notes.spans import TYPES
from benchmarks.default_tagger import shown_measures
from tests.deid.unseen_notes import N_NOTES, unseen

CRITERIA = ("strict", "label_relaxed")


def main() -> None:
    """Print one table of figures; in per cent, with 95 % intervals over notes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--taggers", nargs="+", default=["rules", "default"])
    parser.add_argument("--misses", type=Path)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    if options.keep:
        (SHIPPED / HAND_WRITTEN).write_text(kept_text(), encoding="utf-8")
        return
    print("| tagger | notes | type | n | P strict | R strict | P label-relaxed | R label-relaxed |")
    print("|---|---|---|---|---|---|---|---|")
    lines: list[str] = []
    for name in options.taggers:
        tagger = load_tagger(name)
        for which, language in N_NOTES:
            pairs = _pairs(tagger, which, language)
            cases: list[SpanCase] = []
            found = score_pairs(pairs, on_case=cases.append)
            _tell(found, title=f"{name} | {which} {language}")
            misses = [{"tagger": name, **one.listed()} for one in cases if one.kind != SAME]
            lines += [json.dumps(one, ensure_ascii=False) + "\n" for one in misses]
    if options.misses:
        options.misses.write_text("".join(lines), encoding="utf-8")


def kept_text() -> str:
    """Return what is kept of the second set: digests of the taggers, and their measures."""
    rules, default = load_tagger(RULES, device="cpu"), load_tagger(DEFAULT, device="cpu")
    content = {
        "digest": default.digest,
        "rules_digest": rules.digest,
        "held_out": {"rules alone": _measures(rules), "default": _measures(default)},
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _measures(tagger: Tagger) -> dict[str, Any]:
    return {
        language: shown_measures(score_pairs(_pairs(tagger, "unseen_second", language)))
        for language in LANGUAGES
    }


def _pairs(tagger: Tagger, which: str, language: str) -> list[Pair]:
    notes = unseen(which, language)
    found = tag_checked(tagger, [note.text for note in notes])
    return [(note, note.with_spans(spans)) for note, spans in zip(notes, found, strict=True)]


def _tell(scored: Scored, *, title: str) -> None:
    by_criterion = {name: measured(scored.criteria[name]) for name in CRITERIA}
    for label in (*TYPES, "all"):
        entries = [
            metrics.together if label == "all" else metrics.labels[label]
            for metrics in by_criterion.values()
        ]
        cells = [_cell(entry, measure) for entry in entries for measure in ("precision", "recall")]
        print(f"| {title} | {label} | {entries[0].n_gold} | " + " | ".join(cells) + " |")
    over = scored.covered.n_over_chars / scored.covered.n_outside_chars
    print(f"| {title} | over-redaction | | {over:.1%} | | | |")


def _cell(entry: LabelScore, measure: str) -> str:
    estimate = entry.estimate(measure)
    return f"{100 * estimate.value:.1f} ({100 * estimate.low:.0f}–{100 * estimate.high:.0f})"


if __name__ == "__main__":
    main()
