"""Trained taggers that this installation keeps: what each is, and how good it was; torch-free.

A tagger lies in a folder of the data directory with `tagger.json` and `model/`; while it is trained
there are `training.json`, `losses.jsonl` and checkpoints beside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.deid.tagger_envelope import MAX_BYTES, TAGGER
from audit.deid.token.train_points import TrainPoint, read_points
from audit.errors import AuditError
from audit.home import home_folder
from audit.kept_folders import forget_folder

TRAINED = "trained/"
"""What the identifier of a trained tagger begins with."""

_ID = re.compile(r"trained/([0-9a-f]{12})")
_TRAINING = "training.json"


@dataclass(frozen=True)
class ValidationCounts:
    """What a tagger reached on the validation notes, on which its best weights were chosen.

    Attributes
    ----------
    n_gold, n_found
        Annotated spans, and those found with the same place and type.
    n_predicted, n_right
        Marks, and those that are an annotated span's.
    """

    n_gold: int
    n_found: int
    n_predicted: int
    n_right: int


@dataclass(frozen=True)
class TrainedTagger:
    """A tagger that was trained here.

    Attributes
    ----------
    tagger_id
        "trained/" and 12 hexadecimal digits.
    kind
        "token" or "generative".
    title
        What a person called it: untrusted text.
    digest
        As `Tagger.digest`.
    created
        When it was finished, ISO 8601.
    training, measured
        How it was trained, and its figures on the validation notes, as plain values.
    points
        The curve of its training.
    """

    tagger_id: str
    kind: str
    title: str
    digest: str
    created: str
    training: Mapping[str, Any]
    measured: Mapping[str, Any]
    points: tuple[TrainPoint, ...] = ()

    @property
    def validation(self) -> ValidationCounts | None:
        """Its counts on the validation notes; None where spans were not counted."""
        match self.measured:
            case {
                "n_gold": int(n_gold), "n_missed": int(n_missed),
                "n_predicted": int(n_predicted), "n_spurious": int(n_spurious),
            } if 0 <= n_missed <= n_gold and 0 <= n_spurious <= n_predicted:  # fmt: skip
                n_right = n_predicted - n_spurious
                return ValidationCounts(n_gold, n_gold - n_missed, n_predicted, n_right)
            case _:
                return None


def taggers_dir() -> Path:
    """Return the folder of the trained taggers, made with mode 700 if it is not there."""
    return home_folder("taggers")


def tagger_dir(tagger_id: str) -> Path:
    """Return the folder of a trained tagger, which need not be there.

    Raises
    ------
    AuditError
        If that is no identifier of a trained tagger.
    """
    match = _ID.fullmatch(tagger_id)
    if match is None:
        raise _none()
    return taggers_dir() / match[1]


def trained_taggers() -> tuple[TrainedTagger, ...]:
    """Return the taggers that are whole, the newest first."""
    found = []
    for path in taggers_dir().iterdir():
        tagger_id = f"{TRAINED}{path.name}"
        if _ID.fullmatch(tagger_id) and (tagger := _read(path, tagger_id)) is not None:
            found.append(tagger)
    return tuple(sorted(found, key=lambda one: (one.created, one.tagger_id), reverse=True))


def trained_tagger(tagger_id: str) -> TrainedTagger:
    """Return one trained tagger.

    Raises
    ------
    AuditError
        If none has this identifier, or it is not finished.
    """
    folder = tagger_dir(tagger_id)
    found = _read(folder, tagger_id)
    if found is None and (folder / _TRAINING).is_file():
        raise AuditError("This training is not finished.", where="tagger", do="Let its job go on.")
    if found is None:
        raise _none()
    return found


def forget_tagger(tagger_id: str) -> None:
    """Remove a trained tagger with everything that it holds.

    Raises
    ------
    AuditError
        If none has this identifier, or it cannot be removed.
    """
    refused = AuditError("The tagger cannot be removed.", where="tagger")
    forget_folder(tagger_dir(tagger_id), unknown=_none(), refused=refused)


def _read(folder: Path, tagger_id: str) -> TrainedTagger | None:
    """Return the tagger in a folder; None where there is none, or it cannot be read."""
    try:
        with (folder / TAGGER).open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
        return TrainedTagger(
            tagger_id=tagger_id,
            kind=str(content["kind"]),
            title=str(content.get("title", "")),
            digest=str(content["digest"]),
            created=str(content.get("created", "")),
            training=dict(content.get("training", {})),
            measured=dict(content.get("measured", {})),
            points=read_points(folder),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _none() -> AuditError:
    return AuditError(
        "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
    )
