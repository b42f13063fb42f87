"""The default tagger, made from nothing: notes by grammar and by hand, a small network.

python -m benchmarks.default_tagger [--out FOLDER] [--seed N] [--epochs X] [--measure-again]

Writes `tagger.json`, `model/` and `how.json`, which says how it was made and what it reaches on
styles of notes that it was not trained on. `--measure-again` trains nothing and measures anew, as
after a change of the rules. The recipe made `audit/deid/find/default_tagger`, the usual folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from audit.deid.find.network.token_tagger import load_token_tagger
from audit.deid.find.rules import RuleTagger
from audit.deid.find.tagger import MODEL, TAGGER
from audit.deid.find.tagger_facts import LANGUAGES, TaggerFacts
from audit.deid.find.taggers import JOIN_RULE, SHIPPED, combine_spans, combined_digest
from audit.deid.learn.tagger_task import TaggerSettings, TaggerTask
from audit.deid.learn.training import Material, pair_documents, train_tagger
from audit.deid.measure.score_report import ScoreCounts, score_pairs, score_summary
from audit.deid.measure.span_matching import OPTIMAL
from audit.notes.formats import format_jsonl_line, write_jsonl
from audit.notes.spans import Span, TaggedDocument, Tags, build_document, drop_overlaps
from audit.rng import generator
from audit.stats import N_REPLICATES
from benchmarks.synthetic import in_turn
from benchmarks.synthetic.written import written_variants

HOW = "how.json"
BIAS = -1.0
"""Added to the scores of all tags: between what is missed and what is taken out for nothing."""
_TIMES = RuleTagger(groups=("times",))


@dataclass(frozen=True)
class Recipe:
    """How the default tagger is made; sizes that train in minutes on two cores.

    Attributes
    ----------
    n_notes
        By grammar, to learn from, all languages together; half of them made of lines of the others.
    n_written
        Variants of notes written by hand.
    n_validation
        Notes of the same styles and other patients: for the best weights and the bias. Variants of
        other notes written by hand are added, as many again.
    n_test
        Notes of styles that are not learned from, to measure on.
    """

    n_notes: int = 3_000
    n_written: int = 34_000
    n_validation: int = 300
    n_test: int = 1000
    n_epochs: float = 2.6
    seed: int = 0

    def settings(self) -> TaggerSettings:
        """Return the settings of the training."""
        return TaggerSettings(
            n_tokens=160,
            n_epochs=self.n_epochs,
            learning_rate=2e-3,
            batch=32,
            micro_batch=32,
            unknown_share=0.08,
            hidden_share=0.25,
            recall_weight=1.0,
            biases=(BIAS,),
            seed=self.seed,
        )


def main() -> None:
    """Make the tagger, or measure it, and say what it reaches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=float, default=Recipe.n_epochs)
    parser.add_argument("--measure-again", action="store_true")
    options = parser.parse_args()
    recipe = Recipe(seed=options.seed, n_epochs=options.epochs)
    making = measure_again(options.out) if options.measure_again else make(options.out, recipe)
    for name, by_language in making["held_out"].items():
        for language, summary in by_language.items():
            print(name, language, summary["n_notes"], "notes", summary["strict"]["all"])


def make(out: Path, recipe: Recipe) -> dict[str, Any]:
    """Train the tagger beside `out`, where it goes on if it was stopped; returns `how.json`."""
    work, seed = out.parent / f".{out.name}.training", recipe.seed
    plain = _notes(recipe.n_notes - recipe.n_notes // 2, seed=seed)
    mixed = with_mixed_lines(plain[: recipe.n_notes // 2], seed=seed)
    by_hand = written_variants(recipe.n_written, seed=seed)
    checks = written_variants(recipe.n_validation, seed=seed, is_held_out=True)
    material = Material(
        tuple(map(with_times, (*plain, *mixed, *by_hand))),
        tuple(map(with_times, (*_notes(recipe.n_validation, seed=seed + 1), *checks))),
    )
    settings = recipe.settings()
    with TemporaryDirectory() as folder:
        files = tuple(Path(folder) / f"{name}.jsonl" for name in ("gold", "validation"))
        for path, documents in zip(files, (material.train, material.validation), strict=True):
            path.write_text(write_jsonl(documents), encoding="utf-8")
        task = TaggerTask(settings=settings, gold=files[:1], validation=files[1:], out=work)
        train_tagger(task, settings, is_halved=True, on_point=print)
    making = _describe_making(work, recipe=recipe, notes_digest=material.digest)
    _put_down(work, out=out, making=making)
    shutil.rmtree(work)
    return making


def with_times(note: TaggedDocument) -> TaggedDocument:
    """Return a note with the times of day marked too that the rules find: no grammar marks them."""
    (time_tags,) = _TIMES.tag([note.text])
    return note.with_spans(drop_overlaps((*note.spans, *time_tags)))


def measure_again(out: Path) -> dict[str, Any]:
    """Measure it anew."""
    old_making = json.loads((out / HOW).read_text(encoding="utf-8"))
    recipe_fields = {name: old_making["recipe"][name] for name in Recipe.__annotations__}
    making = _describe_making(
        out, recipe=Recipe(**recipe_fields), notes_digest=old_making["notes_digest"]
    )
    _put_down(out, out=out, making=making)
    return making


def _notes(n: int, *, seed: int, is_held_out: bool = False) -> tuple[TaggedDocument, ...]:
    return tuple(in_turn(n, seed=seed, languages=LANGUAGES, is_held_out=is_held_out))


def _put_down(work: Path, *, out: Path, making: dict[str, Any]) -> None:
    """Write what is shipped, readable for everybody: no note and no name is in it."""
    partial = out.with_name(f".{out.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / MODEL).mkdir(parents=True)
    for path in (work / TAGGER, *sorted((work / MODEL).iterdir())):
        (partial / path.relative_to(work)).write_bytes(path.read_bytes())
    text = json.dumps(making, ensure_ascii=False, indent=1, allow_nan=False)
    (partial / HOW).write_text(text + "\n", encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def _describe_making(work: Path, *, recipe: Recipe, notes_digest: str) -> dict[str, Any]:
    """Measure rules, model and both on held-out notes."""
    model, rules = load_token_tagger(work, device="cpu"), RuleTagger()
    test = [*map(with_times, _notes(recipe.n_test, seed=recipe.seed + 3, is_held_out=True))]
    texts = [document.text for document in test]
    by_rules, by_model = rules.tag(texts), model.tag(texts)
    merged_tags = [combine_spans(*row) for row in zip(texts, by_rules, by_model, strict=True)]
    answers = {"rules alone": by_rules, "model alone": by_model, "default": merged_tags}
    return {
        "way": JOIN_RULE,
        "digest": combined_digest(rules.digest, model.digest),
        "rules_digest": rules.digest,
        "model_digest": TaggerFacts.of_folder(work).digest(),
        "recipe": asdict(recipe),
        "notes_digest": notes_digest,
        "test_digest": _digest(test),
        "held_out": {name: _by_language(test, tags) for name, tags in answers.items()},
    }


def _digest(documents: Sequence[TaggedDocument]) -> str:
    lines = (format_jsonl_line(document).encode("utf-8", "surrogatepass") for document in documents)
    return hashlib.sha256(b"0\n" + b"".join(lines)).hexdigest()


def _by_language(documents: Sequence[TaggedDocument], tags: Sequence[Tags]) -> dict[str, Any]:
    """Return the measures of held-out notes, for each language: those of `deid score`."""
    pairs = pair_documents(documents, tags)
    summaries: dict[str, Any] = {}
    for language in LANGUAGES:
        language_pairs = [pair for pair in pairs if pair[0].doc_id.startswith(f"{language}/")]
        summaries[language] = shown_measures(score_pairs(language_pairs))
    return summaries


def shown_measures(scored: ScoreCounts) -> dict[str, Any]:
    """Return counts, rates and intervals by type, under two criteria, as the page shows them."""
    summary = score_summary(scored, matcher=OPTIMAL, n_replicates=N_REPLICATES).plain()
    figures = {"n_notes": summary["n_documents"], "n_patients": summary["n_patients"]}
    for name in ("strict", "label_relaxed"):
        criterion = summary["criteria"][name]
        entries = {**criterion["labels"], "all": criterion["together"]}
        figures[name] = {label: _shortened(entry) for label, entry in entries.items()}
    return figures


def _shortened(entry: dict[str, Any]) -> dict[str, Any]:
    """Return counts, rates and their 95 % intervals over patients, to four digits."""
    names = ("precision", "recall", "f1", "complete")

    def short(value: float | None) -> float | None:
        return None if value is None else round(value, 4)

    intervals = {
        name: None if entry["intervals"][name] is None else [*map(short, entry["intervals"][name])]
        for name in names
    }
    counts = {name: entry[name] for name in ("n_gold", "n_predicted")}
    return counts | {name: short(entry[name]) for name in names} | {"intervals": intervals}


def with_mixed_lines(
    documents: Sequence[TaggedDocument], *, seed: int
) -> tuple[TaggedDocument, ...]:
    """Return notes made of the lines of two others each, in any order: many layouts out of few.

    A line break inside a span is none here. There are as many as were given.
    """
    joined_documents = []
    for number, document in enumerate(documents):
        rng = generator(seed, "mixed lines", number)
        partner = documents[int(rng.integers(len(documents)))]
        lines = [*_lines(document), *_lines(partner)]
        text, spans = "", list[Span]()
        for place in rng.permutation(len(lines))[: max(1, len(lines) // 2)]:
            line, line_spans = lines[place]
            spans += [Span(s.start + len(text), s.end + len(text), s.label) for s in line_spans]
            text += line
        joined_documents.append(build_document(f"mixed/{document.doc_id}", text=text, spans=spans))
    return tuple(joined_documents)


def _lines(document: TaggedDocument) -> list[tuple[str, list[Span]]]:
    """Return the lines of a note and the spans of each, by the place in the line."""
    ends = list(accumulate(map(len, document.text.splitlines(keepends=True))))
    span_free_ends = [e for e in ends if not any(s.start < e < s.end for s in document.spans)]
    return [
        (
            document.text[start:end],
            [
                Span(s.start - start, s.end - start, s.label)
                for s in document.spans
                if start <= s.start < end
            ],
        )
        for start, end in pairwise([0, *span_free_ends])
    ]


if __name__ == "__main__":
    main()
