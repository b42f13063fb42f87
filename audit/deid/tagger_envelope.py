"""What every `tagger.json` holds: kind, version, digest of what decides the answers; torch-free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from audit.errors import AuditError

TAGGER, MODEL = "tagger.json", "model"
MAX_TITLE = 200
MAX_BYTES = 4_000_000
_VERSION = 1

Facts = TypeVar("Facts")


def deciding_digest(content: Mapping[str, Any], *, names: Collection[str]) -> str:
    """Return the SHA-256 of the named fields: those that decide a tagger's answers."""
    decisive = {name: value for name, value in content.items() if name in names}
    text = json.dumps({"version": _VERSION, **decisive}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def written_facts(content: Mapping[str, Any], *, kind: str, digest: str) -> str:
    """Return the text of the file."""
    whole = {"kind": kind, "version": _VERSION, "digest": digest, **content}
    return json.dumps(whole, ensure_ascii=True, indent=1, allow_nan=False) + "\n"


def read_facts(
    folder: Path, *, kind: str, read: Callable[[dict[str, Any], str], Facts], refused: AuditError
) -> Facts:
    """Return what a folder says of its tagger; reads no weights.

    Parameters
    ----------
    read
        From the fields of the file, and the digest that they must have, to what is known; raises
        ValueError, KeyError, TypeError or AttributeError where they are not understood.
    refused
        To be raised then.

    Raises
    ------
    AuditError
        If there is no such file, or `refused`.
    """
    try:
        with (folder / TAGGER).open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
        if content.pop("kind") != kind or content.pop("version") != _VERSION:
            raise ValueError("another kind")
        return read(content, content.pop("digest"))
    except OSError as error:
        raise unreadable(folder, error) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise refused from None


def unreadable(path: Path, error: OSError) -> AuditError:
    """Return the error for a tagger whose files cannot be read."""
    return AuditError(
        f"The tagger cannot be read ({error.strerror}).",
        where=path.name,
        do="Choose a folder with tagger.json and model.",
    )
