"""Commands that measure taggers against gold notes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Annotated

from audit import access_log
from audit.cli.command_steps import answer_task, read_bytes
from audit.cli.commands import FieldsOf, Options, Result, command, make_absolute
from audit.cli.deid_options import Beside, PolicyName, is_tagger_id, join_tagger_ids, read_labels
from audit.cli.printing import format_table
from audit.deid.find.tagger import TAGGER
from audit.deid.measure.paper_tables import paper_markdown
from audit.deid.measure.score_report import (
    SCORES,
    SHARES,
    Score,
    ScoreSummary,
    Source,
    compare_all,
    misses_csv,
    read_cases,
)
from audit.deid.measure.scoring import ScoreTask
from audit.deid.redact.policy import ALL_OUT, find_policy
from audit.deid.sets import incoming_notes as handed_in
from audit.deid.sets.releases import RELEASES
from audit.errors import AuditError
from audit.notes.formats import GOLD, PREDICTED
from audit.notes.spans import IDENTIFIER
from audit.progress import say
from audit.shelf import write_whole
from audit.stats import Estimate

_MAX_SHOWN = 20


_MEASURED = (
    "precision",
    "recall",
    "f1",
    "complete",
    "clean",
    "exact",
    "n_gold",
    "n_predicted",
)


@command()
def deid_score(
    *,
    gold: Annotated[Path, "JSONL, i2b2 XML, CoNLL, or a folder of these or of brat"],
    pred: Annotated[
        Path | None, "the same notes, in any of these forms, or the folder of `deid tag`"
    ] = None,
    outputs: Annotated[
        Path | None, "JSONL of a model's own texts with tags: doc_id, output"
    ] = None,
    tagger: Annotated[
        str | None, "a tagger that marks the gold notes, as of `deid compare`"
    ] = None,
    options: Annotated[Options, FieldsOf(ScoreTask)],
    policy: PolicyName = ALL_OUT.title,
    label_map: Annotated[Path | None, "JSON object from label to type"] = None,
    misses: Annotated[Path | None, "write every miss: a CSV (holds text of notes)"] = None,
    paper: Annotated[Path | None, "write the rates beside the paper's tables: Markdown"] = None,
) -> Result:
    """Measure predicted spans against gold spans."""
    if sum(choice is not None for choice in (pred, outputs, tagger)) != 1:
        raise AuditError("Give one of the three.", where="--pred, --outputs, --tagger")
    options |= read_labels(label_map)
    golds = Source(kind="given", ref=handed_in.keep_path(gold, subject=GOLD))
    if outputs:
        copies = handed_in.keep_outputs(read_bytes(outputs, where="--outputs"), subject=PREDICTED)
        predicted = Source(kind="outputs", ref=copies.digest)
    elif tagger:
        predicted = _find_predictions(tagger, other_names=())
    else:
        predicted = Source(kind="given", ref=handed_in.keep_path(pred or Path(), subject=PREDICTED))
    stated = find_policy(policy)
    task = ScoreTask(gold=golds, predicted=predicted, policy=stated, **options)
    (score_id,) = answer_task(task)
    score = SCORES.get(score_id)
    if misses:
        access_log.record("exported", what="misses", names="full")
        # Half a surrogate pair, which is no UTF-8, becomes a question mark.
        write_whole(misses, misses_csv(read_cases(score.path)).encode("utf-8", "replace"))
    if paper:
        write_whole(paper, paper_markdown(score).encode())
    _say_score(score.summary)
    result = score.summary.plain() | {
        "notes": _say_limits(score),
        "score_id": score_id,
        "kept": "The score is kept with the text around its spans. The page of measures removes it,"
        f" and so does `python -m audit deid forget {score_id}`.",
    }
    if score.verbatim and score.copies:
        say("Of copies that are exact alone, all others counted as without a span:")
        _say_score(score.verbatim)
        result |= {"verbatim": score.verbatim.plain(), "copies": score.copies.plain()}
    return result


@command()
def deid_compare(
    *,
    gold: Annotated[Path, "as of `score`"],
    tagger: Annotated[
        tuple[str, ...],
        "rules, default, trained/ID, one of installed packages (ginza, spacy, presidio), the "
        "folder of a tagger, several as one (default+ginza), or predicted notes as of `score`; "
        "once each",
    ] = (),
    beside: Beside = (),
    options: Annotated[Options, FieldsOf(ScoreTask)],
    label_map: Annotated[Path | None, "JSON object from label to type"] = None,
) -> Result:
    """Measure several taggers on the same gold notes, and what they differ by."""
    if len(set(tagger)) < max(len(tagger), 2):
        raise AuditError("Give two taggers or more, each once.", where="--tagger")
    options |= read_labels(label_map)
    golds = Source(kind="given", ref=handed_in.keep_path(gold, subject=GOLD))
    score_ids: list[str] = []
    for tagger_name in tagger:
        say(tagger_name)
        predicted = _find_predictions(tagger_name, other_names=beside)
        title = "" if predicted.kind == "tagger" else Path(tagger_name).name
        task = ScoreTask(gold=golds, predicted=predicted, title=title, **options)
        score_ids += answer_task(task)
    comparison = compare_all(score_ids)
    sides, rows = (
        {},
        zip(tagger, comparison.scores, comparison.counts, comparison.shares.sides, strict=True),
    )
    for name, score, counts, shares in rows:
        n_notes, seconds = score.summary.n_documents, score.seconds
        sides[name] = _format_shares(shares) | {
            "seconds": seconds,
            "notes_per_second": n_notes / seconds if seconds else None,
            "score_id": score.score_id,
            "counts": {
                share_name: [x.n_hits, x.n_total]
                for share_name, x in zip(SHARES, counts, strict=True)
            },
        }
    differences = {}
    for (first, second), values in comparison.shares.differences.items():
        clear = [
            share_name
            for share_name, x in zip(SHARES, values, strict=True)
            if x.low > 0 or x.high < 0
        ]
        name = f"{tagger[first]} - {tagger[second]}"
        differences[name] = _format_shares(values) | {
            "told_apart_by": ", ".join(clear) or "nothing"
        }
    return {"taggers": sides, "differences": differences}


def _find_predictions(name: str, *, other_names: Sequence[str]) -> Source:
    """Return the source of predictions: a tagger by name or folder, or notes with spans."""
    path = make_absolute(name)
    if not is_tagger_id(name) and path.exists() and not (path / TAGGER).is_file():
        if other_names:
            raise AuditError(
                "No tagger can stand beside notes that were predicted before.",
                where="--beside",
                do="Name taggers alone, or leave the option out.",
            )
        return Source(kind="given", ref=handed_in.keep_path(path, subject=PREDICTED))
    return Source(kind="tagger", ref=join_tagger_ids(name, other_names=other_names))


def _format_shares(estimates: Sequence[Estimate]) -> Result:
    """Return shares or their differences for a table; intervals appear only with `--json`."""
    named_estimates = list(zip(SHARES, estimates, strict=True))
    values = {
        name: None if isnan(estimate.value) else estimate.value
        for name, estimate in named_estimates
    }
    bounded = {name: estimate for name, estimate in named_estimates if not isnan(estimate.low)}
    return values | {
        "intervals": {name: [estimate.low, estimate.high] for name, estimate in bounded.items()}
    }


@command()
def deid_forget(identifier: Annotated[str, "of a score, or of a release of `deid tag`"]) -> Result:
    """Remove a kept score, and what was handed in days ago; or the key of a release."""
    is_release = RELEASES.place(identifier).is_dir()
    (RELEASES if is_release else SCORES).forget(identifier)
    handed_in.clear_uploads()
    return {"forgotten": identifier}


def _say_limits(score: Score) -> list[str]:
    """Return what limits a score: notes and labels left out, and what the gold lacks, said here."""
    unknown = ", ".join(score.unknown_labels[:_MAX_SHOWN])
    counted = (
        (score.n_gold_only, "notes were not predicted: their spans count as missed."),
        (score.n_predicted_only, "predicted notes have no gold and were left out."),
        (len(score.unknown_labels), f"labels are not in the map and were kept: {unknown}"),
    )
    unseen = [
        f"The gold has none of these {level}, so nothing is known about them: {', '.join(names)}"
        for level, names in zip(("types", "kinds"), score.summary.unseen, strict=True)
        if names
    ]
    for line in unseen:
        say(line)
    return [*(f"{n} {sentence}" for n, sentence in counted if n), *unseen]


def _say_score(summary: ScoreSummary) -> None:
    is_named = IDENTIFIER in summary.coverage.labels
    covered = summary.coverage.labels[IDENTIFIER] if is_named else summary.coverage.together
    n_readable = covered.n_gold - covered.n_covered_whole
    items = "identifiers" if is_named else "personal items"
    say(f"{n_readable} of {covered.n_gold} {items} are still readable, in whole or in part.")
    for criterion, criterion_scores in summary.criteria.items():
        labels = (*criterion_scores.labels.items(), ("all labels", criterion_scores.together))
        rows = [{criterion: label} | entry.plain() for label, entry in labels]
        say(format_table(rows, columns=(criterion, *_MEASURED)))
