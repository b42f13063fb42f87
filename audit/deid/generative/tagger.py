"""The generative tagger: a model copies a note with tags, and the tags are brought back to it.

Comes in: texts. Goes out: spans on them; nothing of the model's text. Long notes are read in
windows.

Source: paper 002, section 2.3.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from audit.deid.copies import CopyReading, Piece, ShareListener, read_pieces
from audit.deid.generative.config import (
    ALL_LINEAR,
    Frame,
    GenerativeFacts,
    Lora,
    Room,
    answer_text,
    frame_of,
    pieces_of,
    room_in,
    text_ids,
)
from audit.deid.generative.model import CausalModel, load_causal
from audit.deid.tagger import MODEL, TAGGER, Tags
from audit.errors import AuditCancelled, AuditError
from audit.notes.spans import TaggedDocument
from audit.progress import StopQuestion
from audit.rng import torch_seed

_CPU_TOKENS = 16_384
_MEMORY_SHARE = 0.5
_ASK_SECONDS = 0.2


@dataclass(frozen=True)
class Asked:
    """A prompt as tokens, and how many tokens its answer may have."""

    prompt: tuple[int, ...]
    n_answer: int

    @property
    def n_tokens(self) -> int:
        """Prompt and answer together."""
        return len(self.prompt) + self.n_answer


def generated(
    loaded: CausalModel,
    asked: Sequence[Asked],
    *,
    stops: Sequence[int],
    n_tokens: int,
    should_stop: StopQuestion = lambda: False,
    on_share: ShareListener = lambda share: None,
) -> list[list[int]]:
    """Return the tokens of each answer, the one that ends it left out.

    Parameters
    ----------
    stops
        Tokens that end an answer.
    n_tokens
        Of a batch at most, prompts and answers with their padding; one prompt is always taken.
    on_share
        Told some times a second which share of all answers' limits was written or not needed.
    """
    answers: list[list[int]] = [[] for _ in asked]
    order = sorted(range(len(asked)), key=lambda i: (-asked[i].n_tokens, i))
    n_all, n_done = sum(one.n_answer for one in asked), 0
    for batch in _batches(order, asked, n_tokens=n_tokens):

        def answered(part: list[Asked], n_before: int = n_done) -> list[list[int]]:
            n_part = sum(one.n_answer for one in part)
            return _one_batch(
                loaded, part, stops=stops, should_stop=should_stop,
                on_share=lambda share: on_share((n_before + share * n_part) / n_all),
            )  # fmt: skip

        found = _halving([asked[i] for i in batch], answered)
        n_done += sum(asked[i].n_answer for i in batch)
        on_share(n_done / n_all)
        for i, answer in zip(batch, found, strict=True):
            answers[i] = answer
    return answers


def tokens_at_once(loaded: CausalModel) -> int:
    """Return how many tokens a batch may have: by the memory that the device leaves to the cache.

    It follows from the device and the model alone, so that a run that goes on makes the same
    batches.
    """
    if loaded.device == "cpu":
        return _CPU_TOKENS
    free = torch.cuda.get_device_properties(0).total_memory - _n_bytes(loaded.model)
    return max(1, int(_MEMORY_SHARE * max(0, free) / cache_bytes(loaded.model)))


def cache_bytes(model: Any) -> int:
    """Return the bytes that keys and values of one token take."""
    config = model.config
    n_heads = config.num_attention_heads
    n_kept = getattr(config, "num_key_value_heads", None) or n_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // n_heads
    n_bytes = next(model.parameters()).element_size()
    return int(2 * config.num_hidden_layers * n_kept * width * n_bytes)


def _n_bytes(model: Any) -> int:
    return sum(one.numel() * one.element_size() for one in model.parameters())


def _batches(order: list[int], asked: Sequence[Asked], *, n_tokens: int) -> list[list[int]]:
    """Cut an order, longest first, into batches; rows are padded to the longest, their first."""
    batches: list[list[int]] = []
    for i in order:
        if batches and asked[batches[-1][0]].n_tokens * (len(batches[-1]) + 1) <= n_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _halving(
    rows: list[Asked], answer: Callable[[list[Asked]], list[list[int]]]
) -> list[list[int]]:
    """Answer rows together; where memory runs out, in halves."""
    try:
        return answer(rows)
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise AuditError(
                "Memory ran out with a single window.",
                where="language model",
                do="Set `max_tokens` lower, or take a smaller model.",
            ) from None
    torch.cuda.empty_cache()
    half = len(rows) // 2
    return _halving(rows[:half], answer) + _halving(rows[half:], answer)


class _Limits(transformers.StoppingCriteria):  # type: ignore[misc, unused-ignore]
    """Ends each row at its own limit, and everything when a person asks to stop."""

    def __init__(
        self, limits: Tensor, *, n_prompt: int, should_stop: StopQuestion, on_share: ShareListener
    ) -> None:
        self._limits, self._n_prompt = limits, n_prompt
        self._n_most, self._on_share = int(limits.max()), on_share
        self._should_stop, self._asked_at = should_stop, time.monotonic()

    def __call__(self, input_ids: Tensor, scores: object, **_: object) -> Tensor:
        now = time.monotonic()
        if now - self._asked_at > _ASK_SECONDS:
            self._asked_at = now
            if self._should_stop():
                raise AuditCancelled
            self._on_share((input_ids.shape[1] - self._n_prompt) / self._n_most)
        return self._limits <= input_ids.shape[1] - self._n_prompt


def _one_batch(
    loaded: CausalModel,
    rows: list[Asked],
    *,
    stops: Sequence[int],
    should_stop: StopQuestion,
    on_share: ShareListener,
) -> list[list[int]]:
    n_prompt = max(len(row.prompt) for row in rows)
    pad = loaded.tokenizer.pad_token_id
    pad = stops[0] if pad is None else pad
    ids = torch.full((len(rows), n_prompt), pad, dtype=torch.long)
    attended = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, n_prompt - len(row.prompt) :] = torch.tensor(row.prompt)
        attended[i, n_prompt - len(row.prompt) :] = 1
    limits = torch.tensor([row.n_answer for row in rows], device=loaded.device)
    with torch.inference_mode():
        written = loaded.model.generate(  # [B, prompt + answer]
            input_ids=ids.to(loaded.device),
            attention_mask=attended.to(loaded.device),
            do_sample=False,
            max_new_tokens=int(limits.max()),
            eos_token_id=list(stops),
            pad_token_id=pad,
            stopping_criteria=transformers.StoppingCriteriaList(
                [_Limits(limits, n_prompt=n_prompt, should_stop=should_stop, on_share=on_share)]
            ),
        )
    answers = written[:, n_prompt:].tolist()
    return [
        _until_stop(answer[: row.n_answer], stops)
        for answer, row in zip(answers, rows, strict=True)
    ]


def _until_stop(answer: list[int], stops: Sequence[int]) -> list[int]:
    ends = [answer.index(stop) for stop in stops if stop in answer]
    return answer[: min(ends)] if ends else answer


def with_adapter(model: Any, lora: Lora, *, seed: int) -> Any:
    """Return the model with a fresh adapter, everything else frozen; it changes no answer yet."""
    try:
        peft: Any = importlib.import_module("peft")
    except ImportError:
        raise AuditError(
            "Adapters need the package peft, which is not installed.",
            where="tuning settings",
            do="Install peft, or tune all weights.",
        ) from None
    targets = ALL_LINEAR if lora.targets == (ALL_LINEAR,) else list(lora.targets)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM", r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout,
        target_modules=targets, bias="none",
    )  # fmt: skip
    device = next(model.parameters()).device
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models whose layers are stored transposed
        torch.manual_seed(torch_seed(seed, "adapter"))
        try:
            return peft.get_peft_model(model, config)
        except ValueError:
            raise AuditError(
                "The model has no module of these names to put an adapter beside.",
                where="tuning settings",
                do=f"Name others, or choose {ALL_LINEAR}.",
            ) from None


def merged(model: Any) -> Any:
    """Return the plain model with the adapter added to its weights."""
    return model.merge_and_unload(safe_merge=True)


_NOTES_AT_ONCE = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True, eq=False)
class GenerativeTagger:
    """A tagger whose model is loaded.

    `frame` stands around a note, `room` says how long it may be.
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
                note,
                [Piece(start=one.start, end=one.end, output=next(outputs)) for one in cut],
                labels=self.facts.labels,
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
    """
    if not (directory / TAGGER).is_file():
        loaded = load_causal(directory, device=device, precision=precision)
        return tagger_of(loaded, GenerativeFacts(title="", model=loaded.digest), name="generative")
    facts = GenerativeFacts.of_folder(directory)
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
    """Return the tagger of a model that is loaded."""
    frame = frame_of(loaded.tokenizer, language=facts.language)
    n_context = min(loaded.n_context, facts.max_tokens)
    room = room_in(n_context, n_frame=frame.n_tokens, growth=facts.growth)
    room = replace(room, n_note=min(room.n_note, facts.n_note_tokens))
    return GenerativeTagger(loaded, facts, name, frame, room, tokens_at_once(loaded))
