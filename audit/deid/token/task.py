"""The task of a tagger's training: model, rows, examiner, and the key of all that decides it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from audit.deid.labels import TYPES
from audit.deid.token.character_net import CharacterNet
from audit.deid.token.characters import characters_of
from audit.deid.token.learner import pick_precision
from audit.deid.token.lessons import Lessons, lessons_of
from audit.deid.token.material import Material
from audit.deid.token.measure import Examiner
from audit.deid.token.scheme import TagScheme
from audit.deid.token.settings import WHERE, Shape, TaggerSettings
from audit.deid.token.tagger_file import file_digests
from audit.deid.token.token_model import TokenModel, model_of_encoder, new_model
from audit.errors import AuditError

TRAINING = "training.json"
_VERSION = 1
_LONG_ROW = 1024


@dataclass(frozen=True)
class TaggerOrder:
    """What is to be trained.

    Attributes
    ----------
    out
        Folder of the tagger: new, or that of the same training.
    encoder
        Directory of the encoder to start from; None trains a small network of characters.
    shape
        Of the small network.
    is_halved
        Whether the weights are kept in float16.
    about
        What else `tagger.json` says of the training, as plain values.
    """

    out: Path
    settings: TaggerSettings
    encoder: Path | None = None
    shape: Shape = field(default_factory=Shape)
    title: str = ""
    device: str = "auto"
    is_halved: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Task:
    """Everything that a training needs before its first step.

    Attributes
    ----------
    facts
        What `training.json` says of it, as plain values.
    key
        Digest of all that decides the weights but hardware and libraries.
    tagging_rows
        Tokens of a row, and how many it shares with the one before, when notes are tagged.
    """

    settings: TaggerSettings
    scheme: TagScheme
    model: TokenModel
    lessons: Lessons
    examiner: Examiner
    precision: str
    facts: Mapping[str, Any]
    key: str
    tagging_rows: tuple[int, int]


def task_of(order: TaggerOrder, material: Material, *, device: str) -> Task:
    """Build the model and the rows of an order.

    Raises
    ------
    AuditError
        If the encoder is refused, or its rows are too short.
    """
    settings = order.settings
    scheme = TagScheme(TYPES, settings.scheme)
    model = _model(order, material, scheme=scheme)
    size = min(settings.n_tokens, model.n_positions)
    n_special = len(model.reader.prefix) + len(model.reader.suffix)
    tag_size, overlap = _tagging_rows(model, size=size, overlap=settings.overlap)
    if tag_size - n_special < max(4, 2 * overlap):
        raise AuditError(
            f"Rows of {size} tokens are too short for this overlap.",
            where=WHERE,
            do="Set `n_tokens` higher or `overlap` lower.",
        )
    model.module.to(device)
    lessons = Lessons(
        lessons_of(material.train, reader=model.reader, scheme=scheme),
        settings=settings, size=size - n_special, unknown_id=model.reader.unknown_id,
    )  # fmt: skip
    examiner = Examiner(
        material.validation, model=model, scheme=scheme, size=tag_size, overlap=overlap
    )
    precision = pick_precision(settings.precision, device=device)
    facts = _facts(order, material, lessons=lessons, place=(device, precision))
    key = str(facts["key"])
    return Task(
        settings, scheme, model, lessons, examiner, precision, facts, key, (tag_size, overlap)
    )


def _tagging_rows(model: TokenModel, *, size: int, overlap: int) -> tuple[int, int]:
    """Return tokens of a row and how many are shared when notes are tagged.

    A network of characters reads rows of any length; with twice its reach shared, a token's score
    is that of the whole note.
    """
    if isinstance(model.module, CharacterNet):
        reach = model.module.reach
        return max(_LONG_ROW, size, 8 * reach), 2 * reach
    return size, overlap


def _model(order: TaggerOrder, material: Material, *, scheme: TagScheme) -> TokenModel:
    settings = order.settings
    if order.encoder is not None:
        return model_of_encoder(order.encoder, n_tags=len(scheme), seed=settings.seed)
    shape = order.shape
    texts = (document.text for document in material.train)
    reader = characters_of(texts, n_most=shape.n_characters, n_times=shape.n_times)
    return new_model(reader, shape=shape, n_tags=len(scheme), seed=settings.seed)


def _facts(
    order: TaggerOrder,
    material: Material,
    *,
    lessons: Lessons,
    place: tuple[str, str],
) -> dict[str, Any]:
    """Say what the training is, as plain values; a path or a note's text is none of them."""
    content: dict[str, Any] = {
        "version": _VERSION,
        "settings": order.settings.to_json(),
        "notes": material.digest,
        "encoder": None if order.encoder is None else file_digests(order.encoder.resolve()),
        "shape": asdict(order.shape) | {"dilations": list(order.shape.dilations)}
        if order.encoder is None
        else None,
        "is_halved": order.is_halved,
    }
    text = json.dumps(content, sort_keys=True)
    return {
        **content,
        "encoder": None if order.encoder is None else order.encoder.resolve().name,
        "key": hashlib.sha256(text.encode("ascii")).hexdigest(),
        "n_steps": lessons.n_steps,
        "n_rows": lessons.n_rows,
        "n_notes": len(material.train),
        "n_spans": sum(len(document.spans) for document in material.train),
        "n_validation_notes": len(material.validation),
        "n_threads": torch.get_num_threads(),
        "device": place[0],
        "precision": place[1],
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
