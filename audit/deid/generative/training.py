"""train_generative: the one path from gold notes and a causal language model to a tagger.

Comes in: an order. Goes out: a folder with `tagger.json`, `model` and the loss curve. Killed at any
moment and begun again it goes on from the last checkpoint, on a CPU to the same weights.

Source: paper 002, section 2.3 (supervised fine-tuning on note -> note with tags).
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from torch import Tensor, nn
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
    read_generative_file,
    room_in,
    text_ids,
)
from audit.deid.generative.model import CausalModel, directory_digest, load_causal, model_files
from audit.deid.generative.tagger import merged, with_adapter
from audit.deid.network.config import TrainPoint, add_point, read_points
from audit.deid.tagger import MODEL, TAGGER
from audit.deid.windows import Window
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import flattened, guess_format, read_unnamed, write_tags
from audit.notes.spans import Span, TaggedDocument, ordered, tagged
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.rng import generator, torch_seed
from audit.shelf import alone, whole_folder, write_whole
from audit.training.loop import (
    CheckpointState,
    forget_checkpoints,
    load_checkpoint,
    save_checkpoint,
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

    Raises
    ------
    AuditError
        If no example is left.
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
_BETAS = (0.9, 0.999)


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


class Learner:
    """A model and its optimizer.

    Parameters
    ----------
    model
        Tuned in place, those of its parameters that want a gradient.
    device, precision
        Where it lies, and the number type of products.
    n_steps
        Of the whole tuning: the learning rate follows from it.
    """

    def __init__(
        self,
        model: Any,
        *,
        settings: TuningSettings,
        pad_id: int,
        device: str,
        precision: str,
        n_steps: int,
    ) -> None:
        self.model = model
        self.settings = settings
        self.n_steps = n_steps
        self._pad_id, self._device, self._precision = pad_id, device, precision
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._keeps_logits = "logits_to_keep" in inspect.signature(plain.forward).parameters
        self.tuned = Tuned(model)
        self.optimizer = torch.optim.AdamW(
            _groups(self.tuned, settings.weight_decay), lr=settings.highest_rate, betas=_BETAS
        )

    def step(self, step: int, examples: Sequence[Example]) -> float:
        """Learn from the examples of a step, 1 and on; return the mean loss in nats a token."""
        settings = self.settings
        order = sorted(examples, key=lambda example: -example.n_tokens)
        n_targets = sum(len(example.answer) for example in order)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self._device)
        for number, start in enumerate(range(0, len(order), settings.micro_batch)):
            torch.manual_seed(torch_seed(settings.seed, "tuning dropout", step, number))
            part = order[start : start + settings.micro_batch]
            loss = self._summed(batch_of(part, pad_id=self._pad_id)) / n_targets
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        nn.utils.clip_grad_norm_(list(self.tuned.parameters()), settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.highest_rate * settings.rate_factor(step, n_steps=self.n_steps)
        self.optimizer.step()
        return float(total)

    def loss_of(self, examples: Sequence[Example]) -> float:
        """Return the mean loss of answers in evaluation mode, in nats a token."""
        self.model.eval()
        total, n = 0.0, self.settings.micro_batch
        order = sorted(examples, key=lambda example: -example.n_tokens)
        with torch.inference_mode():
            for start in range(0, len(order), n):
                batch = batch_of(order[start : start + n], pad_id=self._pad_id)
                total += float(self._summed(batch))
        return total / sum(len(example.answer) for example in order)

    def _summed(self, batch: Batch) -> Tensor:
        """Return the summed cross-entropy of a pass, of answer tokens alone."""
        n_kept = batch.targets.shape[1]
        more = {"logits_to_keep": n_kept + 1} if self._keeps_logits else {}
        with self._numbers():
            logits = self.model(
                input_ids=batch.ids.to(self._device),
                attention_mask=batch.attended.to(self._device),
                use_cache=False,
                **more,
            ).logits  # [B, K + 1 or L, V]
        said = logits[:, -(n_kept + 1) : -1].flatten(end_dim=1)
        targets = batch.targets.to(self._device).flatten()
        is_asked = targets != IGNORED
        return functional.cross_entropy(said[is_asked].float(), targets[is_asked], reduction="sum")

    def _numbers(self) -> AbstractContextManager[object]:
        if self._precision == "float32":
            return nullcontext()
        return torch.autocast(self._device, dtype=torch.bfloat16)


class Tuned(nn.Module):
    """The parameters of a model that want a gradient, as a module of their own for checkpoints."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.register_parameter(name.replace(".", "/"), parameter)


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


def _groups(tuned: Tuned, weight_decay: float) -> list[dict[str, object]]:
    """Return the parameters by weight decay; vectors have none."""
    groups: dict[float, list[nn.Parameter]] = {}
    for parameter in tuned.parameters():
        groups.setdefault(weight_decay if parameter.dim() > 1 else 0.0, []).append(parameter)
    return [{"params": found, "weight_decay": decay} for decay, found in groups.items()]


TUNE = "tuning the model"
_MOST_SECONDS = 600.0
_MOST_POINTS = 500


@dataclass(frozen=True, eq=False)
class Course:
    """Everything that a tuning needs while it runs.

    Attributes
    ----------
    rows, held_out
        Examples to learn from, and those whose loss is measured at both ends.
    key
        Of the tuning: a checkpoint of another is not taken.
    out
        Folder of the tuning. Its curve begins at step 0 with the loss before the first step, of
        the validation notes, else of some others.
    """

    learner: Learner
    rows: tuple[Example, ...]
    held_out: tuple[Example, ...]
    key: str
    out: Path
    meter: Meter
    on_point: Callable[[TrainPoint], None]

    def run(self) -> dict[str, float | None]:
        """Tune to the last step; return loss, and the held-out loss at both ends.

        Raises
        ------
        AuditError
            If the loss is no longer a number, memory runs out, or nothing can be written.
        AuditCancelled
            If the person asked to stop; a checkpoint is written first.
        """
        learner, n_steps = self.learner, self.learner.n_steps
        first, seconds = self._resumed()
        began = time.monotonic() - seconds
        kept_at = seconds
        every = max(1, n_steps // _MOST_POINTS)
        losses: list[float] = []
        if not first:
            self._point(0, self._held_out_loss(), seconds=0.0)
        for step in range(first + 1, n_steps + 1):
            with _memory_watched(learner.settings.micro_batch):
                losses.append(learner.step(step, self._rows_of(step)))
            _refuse_no_number(losses[-1])
            seconds = time.monotonic() - began
            if step % every == 0 or step == n_steps:
                self._point(step, sum(losses) / len(losses), seconds=seconds)
                losses = []
            is_due = step % learner.settings.checkpoint_every == 0
            if step < n_steps and (is_due or seconds - kept_at > _MOST_SECONDS):
                self._keep(step, seconds)
                kept_at = seconds
            try:
                self.meter.add(TUNE, 1.0)
            except AuditCancelled:
                if step < n_steps:
                    self._keep(step, seconds)
                    raise
        points = read_points(self.out)
        return {
            "loss": points[-1].loss,
            "first_validation": points[0].loss if self.held_out else None,
            "validation": self._held_out_loss() if self.held_out else None,
        }

    def _rows_of(self, step: int) -> list[Example]:
        settings = self.learner.settings
        rows = step_rows(step, n_rows=len(self.rows), batch=settings.batch, seed=settings.seed)
        return [self.rows[i] for i in rows]

    def _held_out_loss(self) -> float:
        rows = self.held_out or self.rows[: self.learner.settings.batch]
        with _memory_watched(self.learner.settings.micro_batch):
            loss = self.learner.loss_of(rows)
        _refuse_no_number(loss)
        return loss

    def _resumed(self) -> tuple[int, float]:
        learner = self.learner
        state = load_checkpoint(
            self.out, key=self.key, model=learner.tuned, optimizer=learner.optimizer
        )
        if state is None:
            return 0, 0.0
        self.meter.add(TUNE, float(state.step), is_cached=True)
        return state.step, state.seconds

    def _keep(self, step: int, seconds: float) -> None:
        state = CheckpointState(step, seconds, self.key)
        learner = self.learner
        save_checkpoint(self.out, state, model=learner.tuned, optimizer=learner.optimizer)

    def _point(self, step: int, loss: float, *, seconds: float) -> None:
        point = TrainPoint(step, loss, round(seconds, 3))
        add_point(self.out, point)
        self.on_point(point)


def _refuse_no_number(loss: float) -> None:
    if not math.isfinite(loss):
        raise AuditError(
            "The loss is no longer a number: the training has diverged.",
            where="training",
            do="Begin again with a lower learning rate or a longer warm-up, or in float32.",
        )


@contextmanager
def _memory_watched(n: int) -> Iterator[None]:
    """Turn running out of memory into a sentence that says what to try."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        pass
    except RuntimeError as error:
        if "alloc" not in str(error).lower() or "memory" not in str(error).lower():
            raise
    else:
        return
    raise AuditError(
        f"Memory ran out with {n} windows a pass.",
        where="training",
        do="Try `micro_batch` 1, gradient checkpointing, an adapter, or shorter windows.",
    )


_VERSION = 1
_STATE = "training.json"
_TOKENIZER_OF = (".json", ".model", ".jinja", ".txt", ".tiktoken")
_NOT_OF_THE_TOKENIZER = {"config.json", "generation_config.json", "model.safetensors.index.json"}


def train_generative(
    order: GenerativeOrder,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    *,
    on_point: Callable[[TrainPoint], None] = lambda point: None,
) -> GenerativeResult:
    """Tune a model, or go on with a tuning that was stopped or killed.

    Raises
    ------
    AuditError
        If model or notes are refused, the folder holds another tuning, memory runs out, or the loss
        is no longer a number.
    AuditCancelled
        If the person asked to stop; a checkpoint is kept and the same order goes on from there.
    """
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
        done = _same_tuning(order.out, key)
        if done is None:
            done = _tuned(
                order, loaded, examples, held_out, key=key, on_point=on_point,
                meter=Meter(
                    {TUNE: float(settings.n_steps(len(examples.rows)))},
                    listener=progress, should_stop=should_stop,
                ),
            )  # fmt: skip
    forget_checkpoints(order.out)
    return done


def gold_notes(paths: tuple[Path, ...], *, what: str) -> tuple[TaggedDocument, ...]:
    """Read notes with spans; a note's name may be there once in each file or folder.

    Raises
    ------
    AuditError
        If a file cannot be read or is not understood.
    """
    found: list[TaggedDocument] = []
    for path in paths:
        try:
            names = sorted(path.iterdir()) if path.is_dir() else [path]
            files = {
                one.name: one.read_bytes()
                for one in names
                if not one.is_dir() and not one.name.startswith(".")
            }
        except OSError as error:
            raise AuditError(f"Cannot be read ({error.strerror}).", where=what) from None
        found += read_unnamed(files, form=guess_format(files), what=what)
    return tuple(found)


def _examples(
    paths: tuple[Path, ...], order: GenerativeOrder, loaded: CausalModel, *, what: str
) -> Examples:
    settings = order.settings
    frame = frame_of(loaded.tokenizer, language=settings.language)
    n_context = min(loaded.n_context, settings.max_tokens)
    return examples_of(
        gold_notes(paths, what=what),
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
    on_point: Callable[[TrainPoint], None],
) -> GenerativeResult:
    settings = order.settings
    model, n_steps = loaded.model, settings.n_steps(len(examples.rows))
    if settings.lora is not None:
        model = with_adapter(model, settings.lora, seed=settings.seed)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    pad = loaded.tokenizer.pad_token_id
    learner = Learner(
        model, settings=settings, pad_id=0 if pad is None else pad, device=loaded.device,
        precision=loaded.precision, n_steps=n_steps,
    )  # fmt: skip
    course = Course(learner, examples.rows, held_out, key, order.out, meter, on_point)
    measured = course.run()
    plain = model if settings.lora is None else merged(model)
    _write_model(plain.to(loaded.stored), order.out / MODEL, parent=order.model)
    facts = _facts(order, loaded, examples, measured, n_steps=n_steps)
    write_whole(order.out / TAGGER, facts.to_json().encode("ascii"))
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
        digest=facts.digest,
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


def _same_tuning(out: Path, key: str) -> GenerativeResult | None:
    """Return what the folder holds if this very tuning is done; None where it is not.

    Raises
    ------
    AuditError
        If the folder holds another tagger or another tuning.
    """
    if not (out / _STATE).exists() and not (out / TAGGER).exists() and not (out / MODEL).exists():
        write_whole(out / _STATE, json.dumps({"key": key}).encode("ascii"))
        return None
    try:
        before = json.loads((out / _STATE).read_bytes())["key"]
    except (OSError, ValueError, KeyError, TypeError):
        before = ""
    if before != key:
        raise AuditError(
            "The folder holds another tuning: other notes, another model or other settings.",
            where="out",
            do="Choose another folder, or ask for what was begun there.",
        )
    if not (out / TAGGER).exists() or not (out / MODEL).is_dir():
        return None
    return _result(out, read_generative_file(out))


def _write_model(model: Any, path: Path, *, parent: Path) -> None:
    """Write an ordinary model directory: the weights, and the parent's tokenizer as it is."""
    with whole_folder(path, replaces=True) as partial:
        model.save_pretrained(partial)
        for file in model_files(parent):
            is_kept = file.suffix in _TOKENIZER_OF and file.name not in _NOT_OF_THE_TOKENIZER
            if is_kept and not (partial / file.name).exists():
                write_whole(partial / file.name, file.read_bytes())
