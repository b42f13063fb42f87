"""What `python -m audit deid train` does: a tagger out of annotated or synthetic notes."""

from __future__ import annotations

import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.console import progress_line
from audit.console import say as _say
from audit.deid.kept_taggers import tagger_dir
from audit.deid.known_taggers import SHIPPED
from audit.deid.token.scheme import SCHEMES
from audit.deid.token.settings import TaggerSettings
from audit.deid.token.tagger_file import read_tagger_file
from audit.deid_generate_commands import add_generative_options, train_generative_command
from audit.errors import AuditError
from audit.job_commands import answered
from audit.jobs.tagger_job import tagger_order, tagger_question

TOKEN, GENERATIVE = "token", "generative"
_FROM_SCRATCH = {"learning_rate": 2e-3, "n_tokens": 192, "n_epochs": 3.0}
_FROM_ENCODER = {"learning_rate": 5e-5, "n_tokens": 512, "overlap": 128, "n_epochs": 3.0}
_DEFAULT = TaggerSettings()


def add_train(parts: Any) -> None:
    """Add `deid train` to the command line."""
    train = parts.add_parser("train", help="train a tagger; goes on where it stopped")
    train.add_argument("--kind", choices=(TOKEN, GENERATIVE), default=TOKEN)
    notes = train.add_mutually_exclusive_group(required=True)
    notes.add_argument("--gold", type=Path, action="append", help="annotated notes: a file or a "
                       "folder of any format of `deid`")  # fmt: skip
    notes.add_argument("--synthetic", type=int, default=0, metavar="N", help="so many synthetic "
                       "notes")  # fmt: skip
    notes.add_argument("--default", action="store_true", help="make the shipped tagger again")
    train.add_argument("--measure-again", action="store_true", help="with --default: train "
                       "nothing, measure anew, as after a change of the rules")  # fmt: skip
    train.add_argument("--language", action="append", choices=("ja", "en"),
                       help="of the synthetic notes; both without it")  # fmt: skip
    train.add_argument("--validation", type=Path, action="append", help="annotated notes to "
                       "measure on; without it a tenth of the patients")  # fmt: skip
    start = train.add_mutually_exclusive_group()
    start.add_argument("--encoder", type=Path, help="directory of an encoder to start from")
    start.add_argument("--scratch", action="store_true", help="a small network of characters "
                       "(the default)")  # fmt: skip
    train.add_argument("--out", type=Path, help="folder of the tagger; without it, it is kept "
                       "among the trained ones")  # fmt: skip
    train.add_argument("--title", default="", help="for the list of taggers")
    train.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    _settings(train)
    add_generative_options(train)
    train.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    train.set_defaults(command=train_command)


def train_command(options: Namespace) -> dict[str, Any]:
    """Train a tagger, or go on with its training."""
    gold, validation = tuple(options.gold or ()), tuple(options.validation or ())
    if options.kind == GENERATIVE:
        if not gold:
            raise AuditError("Give annotated notes.", where="--gold")
        return train_generative_command(options, gold=gold, out=options.out, validation=validation)
    if options.default:
        return _default(options)
    if len(gold) > 1 or len(validation) > 1:
        raise AuditError(
            "Give one file or one folder.", where="--gold", do="Put the files into one folder."
        )
    order = tagger_order(
        settings=_chosen(options),
        gold=gold[0] if gold else None,
        n_synthetic=options.synthetic,
        languages=options.language or ("ja", "en"),
        validation=validation[0] if validation else None,
        encoder=options.encoder,
        title=options.title,
        out=options.out,
        device=options.device,
    )
    (tagger_id,) = answered(tagger_question(order))
    folder = options.out or tagger_dir(tagger_id)
    facts = read_tagger_file(folder)
    measured = facts.measured
    _say(f"Recall {_shown(measured['recall'])}, precision {_shown(measured['precision'])} (strict, "
         f"{measured['n_gold']} spans of {facts.training['n_validation_notes']} notes of the same "
         "kind as those it learned from).")  # fmt: skip
    _say(f"The tagger: {folder if options.out else tagger_id}")
    return {
        "tagger_id": None if options.out else tagger_id,
        "directory": str(folder),
        "digest": facts.digest,
        "bias": facts.bias,
        "measured": dict(measured),
        "training": dict(facts.training),
    }


def _default(options: Namespace) -> dict[str, Any]:
    from audit.deid.token.default_training import DefaultRecipe, make_default, measure_again

    out = options.out or SHIPPED
    if options.measure_again:
        return _told(measure_again(out))
    recipe = DefaultRecipe(seed=options.train_seed)
    if options.epochs is not None:
        recipe = replace(recipe, n_epochs=options.epochs)
    work = out.parent / f".{out.name}.training"
    how = make_default(work, out=out, recipe=recipe, progress=progress_line())
    shutil.rmtree(work, ignore_errors=True)
    return _told(how)


def _told(how: dict[str, Any]) -> dict[str, Any]:
    for name, by_language in how["held_out"].items():
        for language, one in by_language.items():
            figures = one["strict"]["all"]
            _say(f"{name}, {language}: recall {_shown(figures['recall'])}, precision "
                 f"{_shown(figures['precision'])} (strict, {figures['n_gold']} spans of "
                 f"{one['n_notes']} notes of other styles).")  # fmt: skip
    return how


def _settings(train: Any) -> None:
    for option, kind, words in (
        ("--epochs", float, "times that every note is seen"),
        ("--tokens", int, "tokens of a row"),
        ("--overlap", int, "tokens that rows of a long note share"),
        ("--batch", int, "rows a step"),
        ("--micro-batch", int, "rows of one pass"),
        ("--learning-rate", float, "the highest"),
        ("--hidden-share", float, "share of the spans shown as unknown"),
        ("--recall-weight", float, "how much more recall counts than precision"),
    ):
        train.add_argument(option, type=kind, help=words)
    train.add_argument("--scheme", choices=SCHEMES, default=_DEFAULT.scheme)
    train.add_argument("--train-seed", type=int, default=0, help="of weights, order and noise")


def _chosen(options: Namespace) -> TaggerSettings:
    given = {
        "n_epochs": options.epochs,
        "n_tokens": options.tokens,
        "overlap": options.overlap,
        "batch": options.batch,
        "micro_batch": options.micro_batch,
        "learning_rate": options.learning_rate,
        "hidden_share": options.hidden_share,
        "recall_weight": options.recall_weight,
    }
    first = dict(_FROM_SCRATCH if options.encoder is None else _FROM_ENCODER)
    values: dict[str, Any] = first | {k: v for k, v in given.items() if v is not None}
    if options.batch is not None and options.micro_batch is None:
        values["micro_batch"] = min(options.batch, _DEFAULT.micro_batch)
    if options.tokens is not None and options.overlap is None:
        values["overlap"] = min(values.get("overlap", _DEFAULT.overlap), options.tokens // 4)
    return replace(_DEFAULT, scheme=options.scheme, seed=options.train_seed, **values)


def _shown(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
