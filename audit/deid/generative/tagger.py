"""The generative tagger: a model copies a note with tags, and the tags are brought back to it.

Comes in: texts. Goes out: spans on them; nothing of the model's text. Long notes are read in
windows.

Source: paper 002, section 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.deid.copies import CopyReading, Piece, ShareListener, read_pieces
from audit.deid.generative.config import GenerativeFacts
from audit.deid.generative.model import (
    Asked,
    CausalModel,
    Frame,
    answer_text,
    answer_tokens,
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

_TOKENS_AT_ONCE = {"cpu": 16_384, "cuda": 32_768}
"""Of a batch, prompts and answers; where memory runs out, halves of it are tried."""
_NOTES_AT_ONCE = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True, eq=False)
class GenerativeTagger:
    """A tagger whose model is loaded.

    `frame` stands around a note of `n_note` tokens at most.
    """

    loaded: CausalModel
    facts: GenerativeFacts
    frame: Frame
    n_note: int

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
                    most=self.n_note, overlap=self.facts.overlap,
                )
            ]
            for note in notes
        ]  # fmt: skip
        places = [(own, i) for own in pieces for i, one in enumerate(own) if one.output.strip()]
        ids = [text_ids(tokenizer, own[i].output) for own, i in places]
        growth = self.facts.growth
        asked = [Asked(self.frame.prompt(x), answer_tokens(len(x), growth=growth)) for x in ids]
        answers = generated(
            self.loaded, asked, stops=self.frame.stops,
            n_tokens=_TOKENS_AT_ONCE[self.loaded.device], should_stop=should_stop,
            on_share=on_share,
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
    n_note = room_in(n_context, n_frame=frame.n_tokens, growth=facts.growth)
    return GenerativeTagger(loaded, facts, frame, min(n_note, facts.n_note_tokens))
