"""The tagger made of a token classifier: texts in, spans out, notes of any length.

Every token is scored in the row where it has most text beside it; the best tags are then sought
over the whole note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from audit.deid.network.config import TaggerFacts, file_digests
from audit.deid.network.decode import Scores, TagScheme, Tokens, best_tags, spans_of
from audit.deid.network.model import (
    Row,
    TokenModel,
    batches_of,
    load_model_folder,
    padded,
    piece,
    rows_of,
)
from audit.deid.tagger import MODEL, Tags
from audit.errors import AuditError
from audit.models.forward import plain_float32
from audit.models.load import pick_device


@dataclass(frozen=True, eq=False)
class TokenTagger:
    """Finds spans with a token classifier.

    Parameters
    ----------
    facts
        Its tags, its rows, its bias.
    model
        In evaluation mode.
    """

    facts: TaggerFacts
    model: TokenModel

    @property
    def name(self) -> str:
        """What to call it."""
        return "token"

    @property
    def digest(self) -> str:
        """SHA-256 of weights and settings."""
        return self.facts.digest()

    @property
    def labels(self) -> tuple[str, ...]:
        """Those it was trained on."""
        return self.facts.labels

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        facts = self.facts
        notes = self.model.reader.read(texts)
        scores = scores_of(notes, model=self.model, size=facts.n_tokens, overlap=facts.overlap)
        scheme = TagScheme(facts.labels, facts.scheme)
        return spans_from(scores, notes=notes, scheme=scheme, bias=facts.bias)


def load_token_tagger(path: Path, *, device: str = "auto") -> TokenTagger:
    """Load a folder with `tagger.json` and `model/`."""
    facts = TaggerFacts.of_folder(path)
    if file_digests(path / MODEL) != dict(facts.files):
        raise AuditError(
            "The files of the model are not those that the tagger was saved with.",
            where=path.name,
            do="Copy the whole folder again.",
        )
    n_tags = len(TagScheme(facts.labels, facts.scheme))
    model = load_model_folder(path / MODEL, n_tags=n_tags, device=pick_device(device))
    if model.n_positions < facts.n_tokens:
        raise AuditError("Its rows are longer than the model holds.", where=path.name)
    return TokenTagger(facts, model)


def scores_of(
    notes: Sequence[Tokens], *, model: TokenModel, size: int, overlap: int
) -> list[Scores]:
    """Return the scores [tokens with a place, tags] of each note.

    Parameters
    ----------
    size, overlap
        Of rows, in tokens; special tokens are counted in `size`.
    """
    inner = size - len(model.reader.prefix) - len(model.reader.suffix)
    rows = [
        row
        for i, note in enumerate(notes)
        for row in rows_of(i, n_tokens=len(note), size=inner, overlap=overlap)
    ]
    found: list[Scores | None] = [None] * len(notes)
    with torch.inference_mode(), plain_float32(model.device.type):
        for batch in batches_of(rows, device=model.device.type):
            _score(batch, notes=notes, model=model, found=found)
    empty = np.zeros((0, 1), dtype=np.float32)
    return [
        empty if one is None else one[note.places] for one, note in zip(found, notes, strict=True)
    ]


def _score(
    batch: Sequence[Row], *, notes: Sequence[Tokens], model: TokenModel, found: list[Scores | None]
) -> None:
    """Score a batch of rows and put the scores where they belong."""
    pieces = [piece(notes[row.note], start=row.start, end=row.end) for row in batch]
    given = padded(pieces, reader=model.reader)
    told = model.logits_of(given).float().cpu().numpy()
    for i, row in enumerate(batch):
        scores = found[row.note]
        if scores is None:
            n_tags = told.shape[2]
            scores = found[row.note] = np.zeros((len(notes[row.note]), n_tags), dtype=np.float32)
        offset = given.n_before - row.start
        scores[row.first : row.last] = told[i, row.first + offset : row.last + offset]


def spans_from(
    scores: Sequence[Scores], *, notes: Sequence[Tokens], scheme: TagScheme, bias: float
) -> tuple[Tags, ...]:
    """Return the spans of notes from the scores of their tokens with a place."""
    tags = best_tags(scores, scheme=scheme, bias=bias)
    return tuple(
        spans_of(scheme.decode(one), tokens=note) for one, note in zip(tags, notes, strict=True)
    )
