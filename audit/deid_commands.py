"""What the command `python -m audit deid` does: make a corpus with names, measure a tagger."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from audit.console import progress_line
from audit.console import say as _say
from audit.deid.annotated_files import as_jsonl
from audit.deid.bootstrap import N_REPLICATES
from audit.deid.documents import TaggedDocument
from audit.deid.generation.copies import copies_summary
from audit.deid.generation.output_files import OutputFiles
from audit.deid.labels import FIVE_TYPES, IDENTIFIER, LabelMap, read_label_map, relabelled
from audit.deid.matching import MATCHERS, OPTIMAL
from audit.deid.pair_files import GOLD, PREDICTED, PairedFiles
from audit.deid.score import Pair, score_pairs
from audit.deid.score_summary import score_summary
from audit.deid_build_commands import add_build
from audit.deid_generate_commands import tell_copies
from audit.deid_tag_commands import add_convert, add_misses, add_tag, listing_misses
from audit.deid_train_commands import add_train
from audit.encodings import decode_text
from audit.errors import AuditError
from audit.progress import Meter

_MAX_REPLICATES = 100_000
_MAX_SHOWN = 20
_COMPARING = "comparing the spans"


def add_deid(commands_of: Any) -> None:
    """Add the command and its parts to the command line."""
    deid = commands_of.add_parser("deid", help="de-identification: make a corpus, measure a tagger")
    parts = deid.add_subparsers(required=True, metavar="WHAT")
    score = parts.add_parser("score", help="predicted spans against gold spans")
    score.add_argument("--gold", type=Path, required=True, help="JSONL, i2b2 XML, CoNLL, or a "
                       "folder of these or of brat")  # fmt: skip
    sides = score.add_mutually_exclusive_group(required=True)
    sides.add_argument("--pred", type=Path, help="the same notes, in any of these forms, or the "
                       "folder of `deid tag`")  # fmt: skip
    sides.add_argument("--outputs", type=Path, help="JSONL of a model's own texts with tags: "
                       "doc_id, output")  # fmt: skip
    score.add_argument("--matcher", choices=MATCHERS, default=OPTIMAL)
    score.add_argument("--five-types", action="store_true", help="map labels of i2b2 2014, "
                       "MEDDOCAN and others to the five types")  # fmt: skip
    score.add_argument("--label-map", type=Path, help="JSON object from label to type")
    score.add_argument("--replicates", type=int, default=N_REPLICATES, help="of the bootstrap")
    score.add_argument("--seed", type=int, default=0)
    score.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    add_misses(score)
    score.set_defaults(command=score_command)
    add_build(parts)
    add_tag(parts)
    add_convert(parts)
    add_train(parts)


def score_command(options: Namespace) -> dict[str, Any]:
    """Measure predicted spans against gold spans."""
    if not 1 <= options.replicates <= _MAX_REPLICATES:
        raise AuditError("Choose 1 to 100,000 replicates.", where="--replicates")
    with TemporaryDirectory(prefix="kart-score-") as folder:
        return _scored(options, Path(folder))


def _scored(options: Namespace, folder: Path) -> dict[str, Any]:
    by = _label_map(options)
    gold = as_jsonl(options.gold, folder, what=GOLD)
    copies = OutputFiles(gold, options.outputs) if options.outputs else None
    files = copies or PairedFiles(gold, as_jsonl(options.pred, folder, what=PREDICTED))
    unknown: set[str] = set()
    metered = _metered(_mapped(files, by=by, unknown=unknown), gold=gold)
    with listing_misses(options.misses, metered) as pairs:
        scored = score_pairs(pairs, matcher=options.matcher)
        if unknown and options.five_types:
            raise _unknown(unknown)
    how = {"matcher": options.matcher, "seed": options.seed, "n_replicates": options.replicates}
    summary: dict[str, Any] = score_summary(scored, **how)
    notes = list(_notes(files, unknown=unknown))
    for note in notes:
        _say(note)
    _tell(summary)
    if copies is not None:
        exact_only = _mapped(copies.verbatim(), by=by, unknown=unknown)
        verbatim = score_pairs(exact_only, matcher=options.matcher)
        summary |= {"verbatim": score_summary(verbatim, **how)}
        summary |= {"copies": copies_summary(copies.sums)}
        tell_copies(summary["copies"])
        _say("Of copies that are exact alone, all others counted as without a span:")
        _tell(summary["verbatim"])
    return {**summary, "notes": notes}


def _unknown(labels: Iterable[str]) -> AuditError:
    names = sorted(labels)
    shown = ", ".join(names[:_MAX_SHOWN]) + (" ..." if len(names) > _MAX_SHOWN else "")
    return AuditError(
        f"{len(names)} labels belong to none of the five types: {shown}",
        where="--five-types",
        do="Say what they are with --label-map FILE.json; null leaves a label out.",
    )


def _label_map(options: Namespace) -> LabelMap | None:
    if options.label_map is None:
        return FIVE_TYPES if options.five_types else None
    try:
        content = options.label_map.read_bytes()
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where="--label-map") from None
    text, _ = decode_text(content, what="--label-map")
    given = read_label_map(text, what="--label-map")
    return LabelMap({**FIVE_TYPES.labels, **given.labels}) if options.five_types else given


def _mapped(
    files: Iterable[Pair], *, by: LabelMap | None, unknown: set[str]
) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
    for pair in files:
        if by is None:
            yield pair
            continue
        gold, predicted = (relabelled(document, by=by) for document in pair)
        unknown.update(gold.unknown, predicted.unknown)
        yield gold.document, predicted.document


def _metered(pairs: Iterable[Pair], *, gold: Path) -> Iterator[Pair]:
    """Pass notes on, and say how far they are; the unit is bytes of the gold file."""
    size = float(gold.stat().st_size) if gold.is_file() else 1.0
    meter = Meter({_COMPARING: size}, listener=progress_line(), should_stop=lambda: False)
    for note, predicted in pairs:
        yield note, predicted
        meter.add(_COMPARING, float(len(note.text.encode("utf-8", "surrogatepass"))))
    meter.finish(_COMPARING)


def _notes(files: PairedFiles | OutputFiles, *, unknown: set[str]) -> Iterator[str]:
    if files.n_gold_only:
        yield f"{files.n_gold_only} notes were not predicted: their spans count as missed."
    if files.n_predicted_only:
        yield f"{files.n_predicted_only} predicted notes have no gold and were left out."
    if unknown:
        names = ", ".join(sorted(unknown))
        yield f"{len(unknown)} labels are not in the map and were kept: {names}"


def _tell(summary: dict[str, Any]) -> None:
    _say(f"{summary['n_documents']} notes of {summary['n_patients']} patients.")
    covered = summary["coverage"]["labels"].get(IDENTIFIER) or summary["coverage"]["together"]
    n_readable = covered["n_gold"] - covered["n_covered_whole"]
    what = "identifiers" if IDENTIFIER in summary["coverage"]["labels"] else "personal items"
    _say(f"{n_readable} of {covered['n_gold']} {what} are still readable, in whole or in part.")
    head = ("precision", "recall", "f1", "complete", "clean", "exact", "n_gold", "n_predicted")
    for criterion, one in summary["criteria"].items():
        _say(f"{criterion:<28}" + " ".join(f"{name:>11}" for name in head))
        for label, entry in (*one["labels"].items(), ("all labels", one["together"])):
            _say(f"  {label:<26}" + " ".join(f"{_shown(entry[name]):>11}" for name in head))


def _shown(value: float | None) -> str:
    if value is None:
        return "n/a"
    return str(value) if isinstance(value, int) else f"{value:.4f}"
