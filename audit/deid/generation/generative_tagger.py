"""The generative tagger: a model copies a note with tags, and the tags are brought back to it.

Comes in: texts. Goes out: spans on them; nothing of the model's text. Long notes are read in
windows.

Source: paper 002, section 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audit.deid.documents import TaggedDocument
from audit.deid.generation.causal_model import CausalModel, load_causal
from audit.deid.generation.copies import CopyReading, Piece, ShareListener, read_pieces
from audit.deid.generation.generative_file import GenerativeFacts, read_generative_file
from audit.deid.generation.greedy import Asked, generated, tokens_at_once
from audit.deid.generation.pieces import Room, pieces_of, room_in
from audit.deid.generation.prompt import Frame, answer_text, frame_of, text_ids
from audit.deid.tagger import Tags
from audit.deid.tagger_envelope import MODEL, TAGGER
from audit.errors import AuditError
from audit.progress import StopQuestion

_NOTES_AT_ONCE = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True, eq=False)
class GenerativeTagger:
    """A tagger whose model is loaded.

    Attributes
    ----------
    loaded
        The model.
    facts
        How it is asked.
    name
        As one word.
    frame, room
        What stands around a note, and how long it may be.
    n_tokens_at_once
        Of a batch.
    """

    loaded: CausalModel
    facts: GenerativeFacts
    name: str
    frame: Frame
    room: Room
    n_tokens_at_once: int

    @property
    def digest(self) -> str:
        """SHA-256 of weights, tokenizer and settings."""
        return self.facts.digest

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
        """Return what the model's copies say of each note; spans that notes have are ignored.

        Raises
        ------
        AuditError
            If memory runs out.
        AuditCancelled
            If the person asked to stop.
        """
        tokenizer = self.loaded.tokenizer
        windows = [
            pieces_of(
                note.text, n_tokens=lambda text: len(text_ids(tokenizer, text)), room=self.room,
                overlap=self.facts.overlap,
            )
            for note in notes
        ]  # fmt: skip
        texts = [
            note.text[one.start : one.end]
            for note, cut in zip(notes, windows, strict=True)
            for one in cut
        ]
        outputs = iter(self._outputs(texts, should_stop, on_share))
        return tuple(
            read_pieces(
                note, [Piece(window, next(outputs)) for window in cut], labels=self.facts.labels
            )
            for note, cut in zip(notes, windows, strict=True)
        )

    def _outputs(
        self, texts: Sequence[str], should_stop: StopQuestion, on_share: ShareListener
    ) -> list[str]:
        """Return the model's text for each window; white space is its own copy."""
        tokenizer = self.loaded.tokenizer
        outputs = list(texts)
        places = [i for i, text in enumerate(texts) if text.strip()]
        asked = []
        for i in places:
            note = text_ids(tokenizer, texts[i])
            asked.append(Asked(tuple(self.frame.prompt(note)), self.room.n_answer(len(note))))
        answers = generated(
            self.loaded, asked, stops=self.frame.stops, n_tokens=self.n_tokens_at_once,
            should_stop=should_stop, on_share=on_share,
        )  # fmt: skip
        for i, answer in zip(places, answers, strict=True):
            outputs[i] = answer_text(tokenizer, answer)
        return outputs


def load_generative(
    directory: Path, *, device: str = "auto", precision: str = "auto"
) -> GenerativeTagger:
    """Load a tagger that was tuned here, or any causal language model that writes tags.

    Parameters
    ----------
    directory
        With `tagger.json` and `model`, else of the model itself: it is asked in Japanese then.

    Raises
    ------
    AuditError
        If it cannot be loaded, or the model is not the one that `tagger.json` describes.
    """
    if not (directory / TAGGER).is_file():
        loaded = load_causal(directory, device=device, precision=precision)
        return tagger_of(loaded, GenerativeFacts(title="", model=loaded.digest), name="generative")
    facts = read_generative_file(directory)
    loaded = load_causal(directory / MODEL, device=device, precision=precision)
    name = directory.name
    if loaded.digest != facts.model:
        raise AuditError(
            "The model is not the one that tagger.json describes.",
            where=name,
            do="Copy the tagger's folder again.",
        )
    return tagger_of(loaded, facts, name="generative")


def tagger_of(loaded: CausalModel, facts: GenerativeFacts, *, name: str) -> GenerativeTagger:
    """Return the tagger of a model that is loaded.

    Raises
    ------
    AuditError
        If its context has no room for a note and its copy.
    """
    frame = frame_of(loaded.tokenizer, language=facts.language)
    n_context = min(loaded.n_context, facts.max_tokens)
    room = room_in(n_context, n_frame=frame.n_tokens, growth=facts.growth)
    room = replace(room, n_note=min(room.n_note, facts.n_note_tokens))
    return GenerativeTagger(loaded, facts, name, frame, room, tokens_at_once(loaded))
