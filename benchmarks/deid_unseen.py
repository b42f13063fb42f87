"""What taggers reach on the hand-written test sets; and every miss of the third set, to a file.

python -m benchmarks.deid_unseen [--taggers rules default] [--misses FILE.jsonl] [--keep]

One table by type with intervals for the third set, one by kind for it and the proxy sets. `--keep`
writes what the third set says of rules and default beside the default tagger, from where the page
De-identify shows it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.deid.find.tagger import Tagger, tag_and_check
from audit.deid.find.tagger_facts import LANGUAGES
from audit.deid.find.taggers import DEFAULT, HAND_WRITTEN, RULES, SHIPPED, load_tagger
from audit.deid.measure.score_report import SAME, ScoreCounts, SpanCase, score_pairs
from audit.deid.measure.span_matching import ANY
from audit.deid.measure.span_metrics import LabelScore, Pair, measure_counts
from audit.notes.spans import TYPES, TaggedDocument, Tags, merge_spans
from benchmarks.default_tagger import shown_measures
from tests.deid.unseen_notes import KINDS, PROXIES, read_marked_notes

CRITERIA = ("strict", "label_relaxed")
NAMES = "NS"
SETS = (*(f"third/{language}" for language in LANGUAGES), *(f"proxy/{name}" for name in PROXIES))


def main() -> None:
    """Print the tables; in per cent, with 95 % intervals over notes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--taggers", nargs="+", default=["rules", "default"])
    parser.add_argument("--misses", type=Path)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    if options.keep:
        (SHIPPED / HAND_WRITTEN).write_text(kept_text(), encoding="utf-8")
        return
    taggers = [load_tagger(name) for name in options.taggers]
    print("| tagger | notes | type | n | P strict | R strict | P label-relaxed | R label-relaxed |")
    print("|---|---|---|---|---|---|---|---|")
    lines: list[str] = []
    for tagger in taggers:
        for language in LANGUAGES:
            cases: list[SpanCase] = []
            score = score_pairs(_pairs(tagger, f"third/{language}"), on_case=cases.append)
            _tell(score, title=f"{tagger.name} | {language}")
            misses = [
                {"tagger": tagger.name, **asdict(case)} for case in cases if case.kind != SAME
            ]
            lines += [json.dumps(miss, ensure_ascii=False) + "\n" for miss in misses]
    if options.misses:
        options.misses.write_text("".join(lines), encoding="utf-8")
    print(
        "\n| notes | tagger | names touched | covered | all touched | covered | harmless | "
        + " | ".join(KINDS.values())
        + " |"
    )
    print("|---|---|---|---|---|---|---|" + "---|" * len(KINDS))
    for name in SETS:
        for tagger in taggers:
            print(f"| {name} | {tagger.name} | " + " | ".join(_cells(tagger, name)) + " |")


def kept_text() -> str:
    """Return what is kept of the third set: digests of the taggers, and their measures."""
    rules, default = load_tagger(RULES, device="cpu"), load_tagger(DEFAULT, device="cpu")
    content = {
        "digest": default.digest,
        "rules_digest": rules.digest,
        "held_out": {"rules alone": _measures(rules), "default": _measures(default)},
        "by_kind": {
            language: by_kind(*found_in(default, f"third/{language}")) for language in LANGUAGES
        },
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _measures(tagger: Tagger) -> dict[str, Any]:
    return {
        language: shown_measures(score_pairs(_pairs(tagger, f"third/{language}")))
        for language in LANGUAGES
    }


def found_in(tagger: Tagger, name: str) -> tuple[tuple[TaggedDocument, ...], tuple[Tags, ...]]:
    """Return the notes of a set, marks by kind, and what a tagger finds in them."""
    notes = read_marked_notes(name, by_kind=True)
    return notes, tag_and_check(tagger, [note.text for note in notes])


def by_kind(notes: tuple[TaggedDocument, ...], tags: tuple[Tags, ...]) -> dict[str, dict[str, int]]:
    """Count for each kind of mark how many there are, touched, and covered whole."""
    counts = {kind: dict.fromkeys(("n_gold", "n_touched", "n_covered"), 0) for kind in KINDS}
    for note, spans in zip(notes, tags, strict=True):
        stretches = merge_spans(spans)
        for gold in note.spans:
            n = sum(max(0, min(gold.end, end) - max(gold.start, start)) for start, end in stretches)
            label_counts = counts[gold.label]
            label_counts["n_gold"] += 1
            label_counts["n_touched"] += n > 0
            label_counts["n_covered"] += n == gold.n_chars
    return {kind: label_counts for kind, label_counts in counts.items() if label_counts["n_gold"]}


def _cells(tagger: Tagger, name: str) -> list[str]:
    """Return the shares of a set, names first, all together, harmless text, then by kind."""
    notes, tags = found_in(tagger, name)
    counts = by_kind(notes, tags)

    def shares(kinds: str) -> list[str]:
        kind_counts = [kind_count for kind, kind_count in counts.items() if kind in kinds]
        n_gold = sum(kind_count["n_gold"] for kind_count in kind_counts)
        return [
            f"{sum(kind_count[key] for kind_count in kind_counts) / n_gold:.1%}" if n_gold else ""
            for key in ("n_touched", "n_covered")
        ]

    covered = score_pairs(_pairs_of(notes, tags)).covered
    harmless = f"{covered.n_over_chars / covered.n_outside_chars:.2%}"
    shares_by_kind = [" / ".join(shares(kind)) for kind in KINDS]
    return [*shares(NAMES), *shares("".join(KINDS)), harmless, *shares_by_kind]


def _pairs(tagger: Tagger, name: str) -> list[Pair]:
    notes = read_marked_notes(name)
    return _pairs_of(notes, tag_and_check(tagger, [note.text for note in notes]))


def _pairs_of(notes: tuple[TaggedDocument, ...], tags: tuple[Tags, ...]) -> list[Pair]:
    return [(note, note.with_spans(spans)) for note, spans in zip(notes, tags, strict=True)]


def _tell(scored: ScoreCounts, *, title: str) -> None:
    by_criterion = {name: measure_counts(scored.criteria[name]) for name in CRITERIA}
    for label in (*TYPES, "all"):
        entries = [
            metrics.together if label == "all" else metrics.labels[label]
            for metrics in by_criterion.values()
        ]
        cells = [_cell(entry, measure) for entry in entries for measure in ("precision", "recall")]
        print(f"| {title} | {label} | {entries[0].n_gold} | " + " | ".join(cells) + " |")
    n_covered = scored.covered.row(ANY)[1] / scored.covered.row(ANY)[0]
    over = scored.covered.n_over_chars / scored.covered.n_outside_chars
    print(f"| {title} | covered {n_covered:.1%}, harmless {over:.2%} | | | | | |")


def _cell(entry: LabelScore, measure: str) -> str:
    estimate = entry.estimate(measure)
    return f"{100 * estimate.value:.1f} ({100 * estimate.low:.0f}–{100 * estimate.high:.0f})"


if __name__ == "__main__":
    main()
