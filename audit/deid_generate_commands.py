"""What `python -m audit deid train --kind generative` does, and how copies are told of."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.console import say as _say
from audit.deid.generation.generative_file import GenerativeFacts, read_generative_file
from audit.deid.generation.tuning_order import GenerativeOrder
from audit.deid.generation.tuning_settings import (
    LANGUAGES,
    PRECISIONS,
    SCHEDULES,
    Lora,
    TuningSettings,
)
from audit.errors import AuditError
from audit.job_commands import answered
from audit.jobs.tuning_job import tuning_folder, tuning_question

_DEFAULT = TuningSettings()
_LORA = Lora()


def add_generative_options(parser: Any) -> None:
    """Add the settings of a tuning, each with the prefix `--gen-`, and the adapter's.

    The caller adds `--gold` (several), `--validation` (several), `--out`, `--title`, `--device`.
    """
    group = parser.add_argument_group("with --kind generative")
    group.add_argument("--model", type=Path, help="directory of a causal language model")
    d = _DEFAULT
    for option, kind, default, words in (
        ("--gen-epochs", float, d.n_epochs, "times that every note is seen"),
        ("--gen-batch", int, d.batch, "windows a step"),
        ("--gen-micro-batch", int, d.micro_batch, "windows of one pass"),
        ("--gen-learning-rate", float, None, "the highest; 2e-5, 2e-4 for an adapter"),
        ("--gen-warmup-share", float, d.warmup_share, "share of the steps"),
        ("--gen-weight-decay", float, d.weight_decay, "of matrices"),
        ("--gen-clip", float, d.clip, "largest norm of a gradient"),
        ("--gen-seed", int, d.seed, "of order, dropout and adapter"),
        ("--gen-max-tokens", int, d.max_tokens, "of instruction, note and copy together"),
        ("--gen-overlap", int, d.overlap, "characters that windows of a long note share"),
        ("--gen-checkpoint-every", int, d.checkpoint_every, "steps"),
        ("--lora-rank", int, _LORA.rank, "of the adapter"),
        ("--lora-alpha", float, _LORA.alpha, "of the adapter"),
        ("--lora-dropout", float, _LORA.dropout, "of the adapter"),
    ):
        group.add_argument(option, type=kind, default=default, help=words)
    group.add_argument("--lora", action="store_true", help="tune an adapter (needs peft) and merge "
                       "it into the model")  # fmt: skip
    group.add_argument("--lora-targets", default=_LORA.targets[0], metavar="A,B",
                       help="modules that get an adapter")  # fmt: skip
    group.add_argument("--gen-schedule", choices=SCHEDULES, default=d.schedule)
    group.add_argument("--gen-precision", choices=PRECISIONS, default=d.precision)
    group.add_argument("--gen-language", choices=LANGUAGES, default=d.language, help="of the tags")
    group.add_argument("--gradient-checkpointing", action="store_true",
                       help="less memory, a third more time")  # fmt: skip


def tuning_settings(options: Namespace) -> TuningSettings:
    """Return the settings that options say.

    Raises
    ------
    AuditError
        If one is out of its range.
    """
    lora = None
    if options.lora:
        targets = tuple(part.strip() for part in options.lora_targets.split(",") if part.strip())
        lora = Lora(options.lora_rank, options.lora_alpha, options.lora_dropout, targets)
    return TuningSettings(
        n_epochs=options.gen_epochs,
        batch=options.gen_batch,
        micro_batch=options.gen_micro_batch,
        learning_rate=options.gen_learning_rate,
        schedule=options.gen_schedule,
        warmup_share=options.gen_warmup_share,
        weight_decay=options.gen_weight_decay,
        clip=options.gen_clip,
        seed=options.gen_seed,
        precision=options.gen_precision,
        max_tokens=options.gen_max_tokens,
        overlap=options.gen_overlap,
        language=options.gen_language,
        gradient_checkpointing=options.gradient_checkpointing,
        checkpoint_every=options.gen_checkpoint_every,
        lora=lora,
    )


def train_generative_command(
    options: Namespace,
    *,
    gold: tuple[Path, ...],
    out: Path | None,
    validation: tuple[Path, ...] = (),
) -> dict[str, Any]:
    """Tune a causal language model to copy notes with tags; without `out` the tagger is kept.

    Raises
    ------
    AuditError
        If there is no model, or it or the notes cannot be read.
    """
    if options.model is None:
        raise AuditError("Which model shall be tuned?", where="--model", do="Give a directory.")
    order = GenerativeOrder(
        gold=gold, model=options.model, out=out or Path(), settings=tuning_settings(options),
        title=options.title, validation=validation, device=options.device,
    )  # fmt: skip
    question = tuning_question(order, is_kept=out is None)
    (tagger_id,) = answered(question)
    folder = tuning_folder(question.order)
    facts = read_generative_file(folder)
    _tell(facts)
    _say(f"The tagger: {tagger_id if out is None else folder}")
    return {
        "tagger_id": tagger_id if out is None else None,
        "directory": str(folder),
        "digest": facts.digest,
        "measured": dict(facts.measured),
        "training": dict(facts.training),
    }


def _tell(facts: GenerativeFacts) -> None:
    told, measured = facts.training, facts.measured
    _say(f"{told['n_steps']} steps on {told['n_windows']} windows of {told['n_notes']} notes; loss "
         f"{measured['loss']:.4f} nats a token.")  # fmt: skip
    if measured["validation"] is not None:
        _say(f"Validation loss {measured['first_validation']:.4f} before, "
             f"{measured['validation']:.4f} after.")  # fmt: skip
    if told["n_left_out"]:
        _say(f"{told['n_left_out']} windows cannot be written with tags and were left out.")
    if told["n_changed"]:
        _say(f"{told['n_changed']} windows are not given back by the tokenizer as they were: their "
             "copies cannot be exact.")  # fmt: skip


def tell_copies(copies: Mapping[str, Any]) -> None:
    """Say how faithful a model's copies are, n beside every rate."""
    if not copies["n_notes"]:
        return
    shares = ", ".join(
        f"{name} {copies[name]['n']} of {copies[name]['of']}"
        for name in ("faithful", "truncated", "malformed")
    )
    _say(f"Copies: {shares}; mean character error rate {copies['error_rate'] or 0:.4f}; "
         f"{copies['n_unaligned']} tagged spans without a place in their note.")  # fmt: skip
