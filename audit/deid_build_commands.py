"""What the command `deid build` does: from masked notes to a corpus with names and spans."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from audit.console import progress_line, say
from audit.corpora.notes import open_notes
from audit.deid.chain import ChainOrder, build_named
from audit.deid.kept_answers import AskedModel
from audit.deid.local_model import LocalModel
from audit.deid.mask_types import RuleTyper
from audit.deid.model_typer import ModelTyper
from audit.deid.name_variants import ENGLISH, JAPANESE
from audit.deid.splits import SplitSizes
from audit.deid.translation_step import ModelTranslation, NoTranslation
from audit.errors import AuditError

_LOCALES = {"ja": JAPANESE, "en": ENGLISH}


def add_build(parts: Any) -> None:
    """Add the command to those of `deid`."""
    build = parts.add_parser("build", help="from masked notes to a corpus with names and spans")
    build.add_argument("--notes", type=Path, required=True, help="discharge.csv(.gz), NOTEEVENTS."
                       "csv(.gz), CSV, JSONL, Parquet, or a folder of .txt")  # fmt: skip
    build.add_argument("--out", type=Path, required=True, help="a new folder")
    build.add_argument("--names", choices=tuple(_LOCALES), default="ja", help="language of names")
    build.add_argument("--seed", type=int, default=0)
    build.add_argument("--typer", type=Path, metavar="DIR",
                       help="causal language model that types masks; rules without")  # fmt: skip
    build.add_argument("--translator", type=Path, metavar="DIR",
                       help="causal language model that translates into Japanese")  # fmt: skip
    build.add_argument("--no-template", action="store_true",
                       help="notes without masks stay as they are")  # fmt: skip
    for split, what in (("validation", 5000), ("test", 5000), ("train", 50000)):
        build.add_argument(f"--{split}", type=int, help=f"notes; {what} or less without it")
    build.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    build.set_defaults(command=build_command)


def build_command(options: Namespace) -> dict[str, Any]:
    """Make a corpus with names."""
    sizes = (options.validation, options.test, options.train)
    given = [size for size in sizes if size is not None]
    if len(given) not in (0, len(sizes)) or any(size < 0 for size in given):
        raise AuditError(
            "Give all three sizes or none, none of them negative.",
            where="--validation, --test, --train",
        )
    typing = None if options.typer is None else _asked(LocalModel(options.typer))
    translating = (
        None
        if options.translator is None
        else _asked(LocalModel(options.translator, max_new_tokens=2048))
    )
    order = ChainOrder(
        seed=options.seed,
        locale=_LOCALES[options.names],
        has_template=not options.no_template,
        sizes=SplitSizes(*given) if given else None,
        typer=RuleTyper() if typing is None else ModelTyper(typing),
        translator=NoTranslation() if translating is None else ModelTranslation(translating),
        models=tuple(model for model in (typing, translating) if model is not None),
    )
    source = open_notes(options.notes.expanduser())
    out = options.out.expanduser().absolute()
    summary = build_named(source, out=out, order=order, progress=progress_line())
    n_spans = sum(summary.n_spans.values())
    say(f"{summary.n_notes} notes with {n_spans} values; {sum(summary.unknown.values())} masks "
         "were not understood and stayed.")  # fmt: skip
    if not summary.leaks.is_clean:
        say(f"Splits share {summary.leaks.n_shared_patients} patients and "
             f"{summary.leaks.n_shared_texts} texts.")  # fmt: skip
    return summary.plain()


def _asked(model: LocalModel) -> AskedModel:
    return AskedModel(model, digest=model.digest, n_at_once=model.n_batch)
