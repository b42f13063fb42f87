"""train_generative: the one path from gold notes and a causal language model to a tagger.

Comes in: an order. Goes out: a folder with `tagger.json`, `model` and the loss curve. Killed at any
moment and begun again it goes on from the last checkpoint, on a CPU to the same weights.

Source: paper 002, section 2.3 (supervised fine-tuning on note -> note with tags).
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from torch import Tensor
from torch.nn import functional

from audit.deid.generative.config import (
    SPARE,
    Frame,
    GenerativeFacts,
    GenerativeOrder,
    GenerativeResult,
    Room,
    TuningSettings,
    answer_text,
    frame_of,
    pieces_of,
    room_in,
    text_ids,
)
from audit.deid.generative.model import CausalModel, directory_digest, load_causal, model_files
from audit.deid.generative.tagger import merged, with_adapter
from audit.deid.given import annotated_notes
from audit.deid.tagger import MODEL, TAGGER, Window
from audit.errors import AuditError
from audit.notes.formats import flattened, write_tags
from audit.notes.spans import Span, TaggedDocument, ordered, tagged
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import alone, whole_folder, write_whole
from audit.training.config import read_losses
from audit.training.loop import (
    Hardware,
    Learner,
    Loop,
    PointListener,
    adamw,
    claim,
    forget_checkpoints,
)

Ids = npt.NDArray[np.int32]
_MOST_GROWTH = 4.0
_LEAST_GROWTH = 1.2
_MARGIN = 1.1


@dataclass(frozen=True, eq=False)
class Example:
    """What the model is given and what it shall write, end token included."""

    prompt: Ids
    answer: Ids

    @property
    def n_tokens(self) -> int:
        """Both together."""
        return len(self.prompt) + len(self.answer)


@dataclass(frozen=True, eq=False)
class Examples:
    """All examples of a training, and what did not become one.

    Attributes
    ----------
    rows
        In the order of the notes.
    room
        For tagging: the longest window that was seen, and how much longer answers were.
    labels
        That occur.
    n_notes
        That were read.
    n_left_out
        Windows that cannot be written with tags, or whose answer does not fit.
    n_changed
        Windows whose answer the tokenizer does not give back as it was.
    n_cut
        Spans that a window's edge cuts.
    """

    rows: tuple[Example, ...]
    room: Room
    labels: tuple[str, ...]
    n_notes: int
    n_left_out: int
    n_changed: int
    n_cut: int

    @property
    def digest(self) -> str:
        """SHA-256 of all tokens."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(len(row.prompt).to_bytes(8, "little"))
            digest.update(row.prompt.astype("<i8").tobytes())
            digest.update(row.answer.astype("<i8").tobytes())
        return digest.hexdigest()


def examples_of(
    documents: Iterable[TaggedDocument],
    *,
    tokenizer: Any,
    frame: Frame,
    room: Room,
    n_context: int,
    overlap: int,
    language: str,
) -> Examples:
    """Make examples of gold notes.

    A span that the edge of a window cuts is tagged as far as it goes: windows of tagging are joined
    in the same way. Of spans that overlap the longest stays whole.
    """
    rows: list[Example] = []
    labels: set[str] = set()
    n_notes = n_left_out = n_changed = n_cut = n_longest = 0
    growth = _LEAST_GROWTH
    for document in documents:
        n_notes += 1
        flat = flattened(document)
        labels.update(span.label for span in flat.spans)
        windows = pieces_of(
            flat.text, n_tokens=lambda text: len(text_ids(tokenizer, text)), room=room,
            overlap=overlap,
        )  # fmt: skip
        for window in windows:
            part, n = _part(flat, window)
            n_cut += n
            try:
                written = write_tags(part, language=language)
            except AuditError:
                n_left_out += 1
                continue
            note, copy = text_ids(tokenizer, part.text), text_ids(tokenizer, written)
            row = _example(frame, note, copy)
            if not note or row.n_tokens > n_context:
                n_left_out += 1
                continue
            n_changed += answer_text(tokenizer, copy) != written
            n_longest = max(n_longest, len(note))
            growth = max(growth, _MARGIN * (len(copy) - SPARE) / len(note))
            rows.append(row)
    if not rows:
        raise AuditError(
            "No note can be trained on.",
            where="gold notes",
            do="Give notes with spans that inline tags can say.",
        )
    seen = Room(n_longest, min(growth, _MOST_GROWTH))
    return Examples(tuple(rows), seen, ordered(labels), n_notes, n_left_out, n_changed, n_cut)


def _example(frame: Frame, note: Sequence[int], copy: Sequence[int]) -> Example:
    return Example(
        np.array(frame.prompt(note), dtype=np.int32),
        np.array([*copy, *frame.tail], dtype=np.int32),
    )


def _part(document: TaggedDocument, window: Window) -> tuple[TaggedDocument, int]:
    """Return a window as a note of its own, and how many spans its edges cut."""
    spans, n_cut = [], 0
    text = document.text[window.start : window.end]
    for span in document.spans:
        start, end = max(span.start, window.start), min(span.end, window.end)
        if start >= end or not document.text[start:end].strip():
            continue
        n_cut += (start, end) != (span.start, span.end)
        spans.append(Span(start - window.start, end - window.start, span.label))
    return tagged(document.doc_id, text=text, spans=spans), n_cut


IGNORED = -100
"""Target of a position that the loss leaves out."""
TUNE = "tuning the model"


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples of one pass, padded on the right.

    Attributes
    ----------
    ids, attended
        [B, L]; padding is not attended to.
    targets
        [B, K]: what follows each of the last K of all but the last position; `IGNORED` where
        that belongs to a prompt or is padding.
    """

    ids: Tensor
    attended: Tensor
    targets: Tensor


def batch_of(examples: Sequence[Example], *, pad_id: int) -> Batch:
    """Put examples side by side."""
    n_longest = max(example.n_tokens for example in examples)
    ids = np.full((len(examples), n_longest), pad_id, dtype=np.int64)
    attended = np.zeros_like(ids)
    targets = np.full((len(examples), n_longest - 1), IGNORED, dtype=np.int64)
    for row, example in enumerate(examples):
        n_prompt, n = len(example.prompt), example.n_tokens
        ids[row, :n_prompt], ids[row, n_prompt:n] = example.prompt, example.answer
        attended[row, :n] = 1
        targets[row, n_prompt - 1 : n - 1] = example.answer
    first = min(len(example.prompt) for example in examples) - 1
    parts = (ids, attended, targets[:, first:])
    return Batch(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))


class CopyLearner(Learner):
    """A language model that learns to write the answers of examples.

    Parameters
    ----------
    model
        Tuned in place, those of its parameters that want a gradient.
    rows, held_out
        Examples to learn from, and those whose loss is measured at both ends.
    """

    phase = TUNE
    dropout = "tuning dropout"

    def __init__(
        self,
        model: Any,
        *,
        settings: TuningSettings,
        pad_id: int,
        hardware: Hardware,
        n_steps: int,
        rows: Sequence[Example] = (),
        held_out: Sequence[Example] = (),
    ) -> None:
        super().__init__(
            model, settings=settings, hardware=hardware, n_steps=n_steps,
            optimizer=adamw(model, settings),
        )  # fmt: skip
        self.settings, self._pad_id = settings, pad_id
        self._rows, self._held_out = rows, held_out
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._keeps_logits = "logits_to_keep" in inspect.signature(plain.forward).parameters

    def passes(self, step: int) -> Iterator[tuple[Batch, int]]:
        """Yield the batch of each pass, and how many tokens the step learns from."""
        n, settings = len(self._rows), self.settings
        rows = step_rows(step, n_rows=n, batch=settings.batch, seed=settings.seed)
        return self._batches([self._rows[i] for i in rows])

    def loss(self, rows: tuple[Batch, int]) -> Tensor:
        """Return the summed cross-entropy of a pass over the answer tokens of the step."""
        return self._summed(rows[0]) / rows[1]

    def measured(self, step: int) -> dict[str, float | None]:
        """Measure the held-out examples before the first step and after the last."""
        is_end = step in (0, self.n_steps)
        return {"held_out": self.loss_of(self._held_out)} if self._held_out and is_end else {}

    def loss_of(self, examples: Sequence[Example]) -> float:
        """Return the mean loss of answers in evaluation mode, in nats a token."""
        self.model.eval()
        total, n_targets = 0.0, 1
        with torch.inference_mode():
            for batch, n_targets in self._batches(examples):  # noqa: B007 - of all, told with each
                total += float(self._summed(batch))
        return total / n_targets

    def _batches(self, examples: Sequence[Example]) -> Iterator[tuple[Batch, int]]:
        """Yield examples side by side, the longest first, and the tokens of all their answers."""
        n, n_targets = self.settings.micro_batch, sum(len(one.answer) for one in examples)
        order = sorted(examples, key=lambda example: -example.n_tokens)
        for start in range(0, len(order), n):
            yield batch_of(order[start : start + n], pad_id=self._pad_id), n_targets

    def _summed(self, batch: Batch) -> Tensor:
        """Return the summed cross-entropy of a pass, of answer tokens alone."""
        n_kept, device = batch.targets.shape[1], self.hardware.device
        more = {"logits_to_keep": n_kept + 1} if self._keeps_logits else {}
        with self.hardware.numbers():
            logits = self.model(
                input_ids=batch.ids.to(device),
                attention_mask=batch.attended.to(device),
                use_cache=False,
                **more,
            ).logits  # [B, K + 1 or L, V]
        said = logits[:, -(n_kept + 1) : -1].flatten(end_dim=1)
        targets = batch.targets.to(device).flatten()
        is_asked = targets != IGNORED
        return functional.cross_entropy(said[is_asked].float(), targets[is_asked], reduction="sum")


def step_rows(step: int, *, n_rows: int, batch: int, seed: int) -> list[int]:
    """Return the rows of a step, 1 and on: epochs follow each other, each in an order of its own.

    The last step of all may have more rows than its share of the last epoch.
    """
    rows: list[int] = []
    at = (step - 1) * batch
    while len(rows) < batch:
        epoch, first = divmod(at + len(rows), n_rows)
        order = generator(seed, "tuning order", epoch).permutation(n_rows)
        rows += order[first : first + batch - len(rows)].tolist()
    return rows


_VERSION = 1
_TOKENIZER_OF = (".json", ".model", ".jinja", ".txt", ".tiktoken")
_NOT_OF_THE_TOKENIZER = {"config.json", "generation_config.json", "model.safetensors.index.json"}


def train_generative(
    order: GenerativeOrder,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    *,
    on_point: PointListener = lambda point: None,
) -> GenerativeResult:
    """Tune a model, or go on with a tuning that was stopped or killed."""
    settings = order.settings
    with alone(order.out), torch.random.fork_rng():
        loaded = load_causal(
            order.model, device=order.device, precision=settings.precision,
            is_frozen=settings.lora is not None,
        )  # fmt: skip
        examples = _examples(order.gold, order, loaded, what="gold notes")
        held_out = (
            _examples(order.validation, order, loaded, what="validation notes").rows
            if order.validation
            else ()
        )
        key = _key(order, loaded, examples)
        claim(order.out, {"key": key}, result=TAGGER)
        if (order.out / TAGGER).is_file() and (order.out / MODEL).is_dir():
            done = _result(order.out, GenerativeFacts.of_folder(order.out))
        else:
            done = _tuned(
                order, loaded, examples, held_out, key=key, on_point=on_point,
                meter=Meter(
                    {TUNE: float(settings.n_steps(len(examples.rows)))},
                    listener=progress, should_stop=should_stop,
                ),
            )  # fmt: skip
    forget_checkpoints(order.out)
    return done


def _examples(
    paths: tuple[Path, ...], order: GenerativeOrder, loaded: CausalModel, *, what: str
) -> Examples:
    settings = order.settings
    frame = frame_of(loaded.tokenizer, language=settings.language)
    n_context = min(loaded.n_context, settings.max_tokens)
    return examples_of(
        [note for path in paths for note in annotated_notes(path, what=what).all()],
        tokenizer=loaded.tokenizer,
        frame=frame,
        room=room_in(n_context, n_frame=frame.n_tokens),
        n_context=n_context,
        overlap=settings.overlap,
        language=settings.language,
    )


def _tuned(
    order: GenerativeOrder,
    loaded: CausalModel,
    examples: Examples,
    held_out: tuple[Example, ...],
    *,
    key: str,
    meter: Meter,
    on_point: PointListener,
) -> GenerativeResult:
    settings = order.settings
    model, n_steps = loaded.model, settings.n_steps(len(examples.rows))
    if settings.lora is not None:
        model = with_adapter(model, settings.lora, seed=settings.seed)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    pad = loaded.tokenizer.pad_token_id
    learner = CopyLearner(
        model, settings=settings, pad_id=0 if pad is None else pad,
        hardware=Hardware(loaded.device, loaded.precision), n_steps=n_steps, rows=examples.rows,
        held_out=held_out,
    )  # fmt: skip
    Loop(learner, order.out, key, meter, on_point).run()
    points = read_losses(order.out)
    measured = {
        "loss": points[-1].loss,
        "first_validation": points[0].held_out,
        "validation": points[-1].held_out,
    }
    plain = model if settings.lora is None else merged(model)
    _write_model(plain.to(loaded.stored), order.out / MODEL, parent=order.model)
    facts = _facts(order, loaded, examples, measured, n_steps=n_steps)
    write_whole(order.out / TAGGER, facts.file())
    return _result(order.out, facts)


def _facts(
    order: GenerativeOrder,
    loaded: CausalModel,
    examples: Examples,
    measured: dict[str, float | None],
    *,
    n_steps: int,
) -> GenerativeFacts:
    settings = order.settings
    return GenerativeFacts(
        title=order.title,
        model=directory_digest(order.out / MODEL),
        labels=examples.labels,
        n_note_tokens=examples.room.n_note,
        growth=examples.room.growth,
        max_tokens=min(loaded.n_context, settings.max_tokens),
        overlap=settings.overlap,
        language=settings.language,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        training={
            "settings": settings.plain(),
            "base": loaded.digest,
            "n_steps": n_steps,
            "n_notes": examples.n_notes,
            "n_windows": len(examples.rows),
            "n_left_out": examples.n_left_out,
            "n_changed": examples.n_changed,
            "n_cut": examples.n_cut,
            "device": loaded.device,
            "precision": loaded.precision,
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        },
        measured=measured,
    )


def _result(out: Path, facts: GenerativeFacts) -> GenerativeResult:
    told, measured = facts.training, facts.measured
    return GenerativeResult(
        directory=out,
        digest=facts.digest(),
        n_steps=told["n_steps"],
        n_notes=told["n_notes"],
        n_windows=told["n_windows"],
        n_left_out=told["n_left_out"],
        n_changed=told["n_changed"],
        n_cut=told["n_cut"],
        loss=measured["loss"],
        first_validation=measured["first_validation"],
        validation=measured["validation"],
    )


def _key(order: GenerativeOrder, loaded: CausalModel, examples: Examples) -> str:
    content = {
        "version": _VERSION,
        "model": loaded.digest,
        "examples": examples.digest,
        "settings": order.settings.decisive(),
        "place": [loaded.device, loaded.precision],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write_model(model: Any, path: Path, *, parent: Path) -> None:
    """Write an ordinary model directory: the weights, and the parent's tokenizer as it is."""
    with whole_folder(path, replaces=True) as partial:
        model.save_pretrained(partial)
        for file in model_files(parent):
            is_kept = file.suffix in _TOKENIZER_OF and file.name not in _NOT_OF_THE_TOKENIZER
            if is_kept and not (partial / file.name).exists():
                write_whole(partial / file.name, file.read_bytes())
