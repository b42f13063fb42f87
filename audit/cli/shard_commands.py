"""Commands that make an audit's shards by jobs of their own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from audit import shards
from audit.cli.commands import Result, command
from audit.home import (
    results_dir,
)
from audit.progress import progress_line, say
from cache.store import Store

Order = Annotated[Path, "order file that `run --order` wrote"]


@command()
def shards_make(
    order: Order,
    *,
    part: Annotated[str, "which part of how many, such as 3/8"] = "1/1",
    folder: Annotated[Path | None, "folder of the shards; ORDER.shards if not given"] = None,
) -> Result:
    """Make a part of an order's shards, one file each."""
    number, sign, n_parts = part.partition("/")
    if not (sign and number.isdecimal() and n_parts.isdecimal()):
        number = n_parts = "0"
    n_shards = shards.make_part(
        order,
        part=int(number),
        n_parts=int(n_parts),
        folder=folder or _choose_folder(order),
        progress=progress_line(),
    )
    return {"n_shards": n_shards, "folder": str(folder or _choose_folder(order))}


@command()
def shards_merge(order: Order, *, folder: Annotated[Path | None, "as in `make`"] = None) -> Result:
    """Take the shards of an order into the results; exit code 1 where a file is damaged."""
    with Store(results_dir()) as store:
        merged = shards.merge_shards(order, folder=folder or _choose_folder(order), store=store)
    if merged.refused:
        say("Damaged files were refused; their parts make them anew.")
    return asdict(merged) | {"exit_code": int(bool(merged.refused))}


def _choose_folder(order: Path) -> Path:
    return order.with_name(f"{order.name}.shards")
