"""Kept leakage experiments: those that were run in this installation, each in a folder of its own.

`leakage/<id>/` in the data directory holds the order and the tables, `leakage/arms/` the trained
models of all of them. Torch-free.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.deid.known_taggers import known_taggers
from audit.demo import SHIPPED
from audit.errors import AuditError
from audit.experiment.deid_order import LeakageOrder
from audit.experiment.deid_tables import FILES, LEAKAGE_JSON, SCHEMA
from audit.home import data_home, home_folder
from audit.models.files import model_digest
from audit.private_files import private_folder, write_whole
from audit.request import question_digest

VERSION = 1
"""Raised whenever a change of code moves a number: older experiments are not taken for the same."""

_FOLDER, _ARMS = "leakage", "arms"
_ID = re.compile(r"[0-9a-f]{12}")
_MAX_BYTES = 20_000_000


@dataclass(frozen=True, eq=False)
class KeptLeakage:
    """A finished experiment: its identifier, when it ended (seconds since 1970), its tables."""

    leakage_id: str
    at: float
    tables: Mapping[str, Any]


def leakage_id(order: LeakageOrder) -> str:
    """Return the identifier under which an experiment is kept: the same question has the same.

    Raises
    ------
    AuditError
        If there is no such tagger, or the demo's model is not there.
    """
    digests = tagger_digests(order)
    plain = {key: value for key, value in order.to_json().items() if key != "device"}
    general = model_digest(SHIPPED / order.language / "models" / "general")
    question = {"version": VERSION, "order": plain, "taggers": digests, "general": general}
    return question_digest(question)[:12]


def tagger_digests(order: LeakageOrder) -> dict[str, str]:
    """Return the digest of each of an order's taggers.

    Raises
    ------
    AuditError
        If there is no such tagger.
    """
    known = {tagger.tagger_id: tagger.digest for tagger in known_taggers()}
    if not set(order.taggers) <= set(known):
        raise AuditError(
            "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
        )
    return {tagger: known[tagger] for tagger in order.taggers}


def leakage_dir(leakage: str) -> Path:
    """Return the folder of an experiment, made with mode 700 if it is not there."""
    if not _ID.fullmatch(leakage):
        raise ValueError("an identifier has 12 hexadecimal digits")
    return private_folder(home_folder(_FOLDER) / leakage)


def arms_dir() -> Path:
    """Return the folder of the trained models, made with mode 700 if it is not there."""
    return private_folder(home_folder(_FOLDER) / _ARMS)


def keep_leakage(leakage: str, files: Mapping[str, bytes]) -> None:
    """Keep the files of a finished experiment; the tables that are read again come last."""
    folder = leakage_dir(leakage)
    for name in sorted(files, key=lambda name: name == LEAKAGE_JSON):
        write_whole(folder / name, files[name])


def is_kept(leakage: str) -> bool:
    """Return whether an experiment is finished."""
    folder = data_home() / _FOLDER / leakage
    return all((folder / name).is_file() for name in FILES)


def kept_files(leakage: str) -> dict[str, bytes]:
    """Return the files of a finished experiment by name.

    Raises
    ------
    AuditError
        If there is none under this identifier.
    """
    if not _ID.fullmatch(leakage):
        raise AuditError("There is no such experiment.", where="leakage")
    folder = data_home() / _FOLDER / leakage
    try:
        return {name: (folder / name).read_bytes() for name in FILES}
    except OSError:
        raise AuditError("There is no such experiment.", where="leakage") from None


def all_leakage() -> tuple[KeptLeakage, ...]:
    """Return the finished experiments, the newest first; what cannot be read is left out."""
    folder = data_home() / _FOLDER
    if not folder.is_dir():
        return ()
    found = [_read(path) for path in sorted(folder.iterdir()) if _ID.fullmatch(path.name)]
    return tuple(sorted((one for one in found if one), key=lambda one: one.at, reverse=True))


def _read(folder: Path) -> KeptLeakage | None:
    path = folder / LEAKAGE_JSON
    try:
        state = path.stat()
        if state.st_size > _MAX_BYTES:
            return None
        tables = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(tables, dict) or tables.get("schema") != SCHEMA:
        return None
    return KeptLeakage(folder.name, state.st_mtime, tables)
