"""Commands that prepare models for an audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from audit.cli.command_steps import answer_task
from audit.cli.commands import FieldsOf, Options, Result, command
from audit.models.convert import ConvertTask
from audit.models.inspect import compute_model_digest, read_model_files
from audit.models.registry import resolve_model_path


@command()
def models_convert(
    model: Annotated[
        str, "directory of a model with pytorch_model.bin, in shards, or without a head"
    ],
    *,
    out: Annotated[Path, "a new folder"],
    options: Annotated[
        Options, FieldsOf(ConvertTask, only=("head_from", "model_type", "rounding"))
    ],
) -> Result:
    """Write a copy of a model that can be audited, with its weights in one safetensors file."""
    if "head_from" in options:
        options["head_from"] = resolve_model_path(str(options["head_from"]), option="--head-from")
    task = ConvertTask(source=resolve_model_path(model, option="model"), out=out, **options)
    answer_task(task)
    files = read_model_files(out)
    assert files.conversion is not None
    return {"model": str(out), "digest": compute_model_digest(out)} | files.conversion.plain()
