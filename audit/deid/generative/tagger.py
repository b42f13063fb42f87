"""The generative tagger: a model copies a note with tags, and the tags are brought back to it.

Comes in: texts. Goes out: spans on them; nothing of the model's text. Long notes are read in
windows.

Source: paper 002, section 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from audit.deid.copies import CopyReading, Piece, ShareListener, read_pieces
from audit.deid.generative.config import GenerativeFacts
from audit.deid.generative.model import (
    Asked,
    CausalModel,
    Frame,
    Room,
    answer_text,
    frame_of,
    generated,
    load_causal,
    pieces_of,
    room_in,
    text_ids,
)
from audit.deid.tagger import MODEL, TAGGER, Tags
from audit.errors import AuditError
from audit.notes.spans import TaggedDocument
from audit.progress import StopQuestion

_CPU_TOKENS = 16_384
_MEMORY_SHARE = 0.5
_NOTES_AT_ONCE = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True, eq=False)
class GenerativeTagger:
    """A tagger whose model is loaded.

    `frame` stands around a note, `room` says how long it may be.
    """

    loaded: CausalModel
    facts: GenerativeFacts
    frame: Frame
    room: Room
    n_tokens_at_once: int

    name = "generative"

    @property
    def digest(self) -> str:
        """SHA-256 of weights, tokenizer and settings."""
        return self.facts.digest()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it was taught."""
        return self.facts.labels

    @property
    def n_notes_at_once(self) -> int:
        """How many notes it is given at most, so that little is lost when a run is stopped."""
        return _NOTES_AT_ONCE[self.loaded.device]

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        notes = [TaggedDocument(doc_id=str(i), text=text) for i, text in enumerate(texts)]
        return tuple(reading.tags for reading in self.read(notes))

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> tuple[CopyReading, ...]:
        """Return what the model's copies say of each note; spans that notes have are ignored."""
        tokenizer = self.loaded.tokenizer
        # White space is its own copy.
        pieces = [
            [
                Piece(one.start, one.end, note.text[one.start : one.end])
                for one in pieces_of(
                    note.text, n_tokens=lambda text: len(text_ids(tokenizer, text)),
                    room=self.room, overlap=self.facts.overlap,
                )
            ]
            for note in notes
        ]  # fmt: skip
        places = [(own, i) for own in pieces for i, one in enumerate(own) if one.output.strip()]
        ids = [text_ids(tokenizer, own[i].output) for own, i in places]
        asked = [Asked(self.frame.prompt(one), self.room.n_answer(len(one))) for one in ids]
        answers = generated(
            self.loaded, asked, stops=self.frame.stops, n_tokens=self.n_tokens_at_once,
            should_stop=should_stop, on_share=on_share,
        )  # fmt: skip
        for (own, i), answer in zip(places, answers, strict=True):
            own[i] = own[i]._replace(output=answer_text(tokenizer, answer))
        return tuple(
            read_pieces(note, own, labels=self.facts.labels)
            for note, own in zip(notes, pieces, strict=True)
        )


def load_generative(directory: Path, *, device: str = "auto") -> GenerativeTagger:
    """Load a tagger that was tuned here, from a folder with `tagger.json` and `model`."""
    facts = GenerativeFacts.of_folder(directory)
    loaded = load_causal(directory / MODEL, device=device)
    if loaded.digest != facts.model:
        raise AuditError(
            "The model is not the one that tagger.json describes.",
            where="{name}/{tagger}",
            do="Copy the tagger's folder again.",
            name=directory.name,
            tagger=TAGGER,
        )
    return tagger_of(loaded, facts)


def tagger_of(loaded: CausalModel, facts: GenerativeFacts) -> GenerativeTagger:
    """Return the tagger of a model that is loaded."""
    frame = frame_of(loaded.tokenizer, language=facts.language)
    n_context = min(loaded.n_context, facts.max_tokens)
    room = room_in(n_context, n_frame=frame.n_tokens, growth=facts.growth)
    room = replace(room, n_note=min(room.n_note, facts.n_note_tokens))
    return GenerativeTagger(loaded, facts, frame, room, tokens_at_once(loaded))


def tokens_at_once(loaded: CausalModel) -> int:
    """Return how many tokens a batch may have: by the memory that the device leaves to the cache.

    It follows from the device and the model alone, so that a run that goes on makes the same
    batches.
    """
    if loaded.device == "cpu":
        return _CPU_TOKENS
    n_model = sum(one.numel() * one.element_size() for one in loaded.model.parameters())
    free = torch.cuda.get_device_properties(0).total_memory - n_model
    return max(1, int(_MEMORY_SHARE * max(0, free) / cache_bytes(loaded.model)))


def cache_bytes(model: Any) -> int:
    """Return the bytes that keys and values of one token take."""
    config = model.config
    n_heads = config.num_attention_heads
    n_kept = getattr(config, "num_key_value_heads", None) or n_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // n_heads
    n_bytes = next(model.parameters()).element_size()
    return int(2 * config.num_hidden_layers * n_kept * width * n_bytes)
