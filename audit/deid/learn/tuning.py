"""Tuning of a causal language model on gold notes to a generative tagger.

Comes in: a task. Goes out: a folder with `tagger.json`, `model` and the loss curve. A tuning that
was killed continues from the last checkpoint, on a CPU to the same weights.

Source: paper 002, section 2.3 (supervised fine-tuning on note -> note with tags).
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from audit.deid.find.causal_model import (
    CausalModel,
    CausalOutline,
    Frame,
    compute_note_room,
    cut_note,
    directory_digest,
    encode_text,
    load_causal,
    make_frame,
    model_files,
    outline_causal,
)
from audit.deid.find.tagger import MODEL, TAGGER
from audit.deid.find.tagger_facts import GenerativeFacts
from audit.deid.find.windows import Window
from audit.deid.learn.tagger_task import WHERE, TuningSettings
from audit.deid.learn.training import read_material
from audit.errors import AuditError
from audit.models.forward import pick_precision
from audit.models.library import Tokenizer
from audit.models.load import pick_device
from audit.notes.formats import flatten_spans, write_tags
from audit.notes.spans import Span, TaggedDocument, build_document, order_labels
from audit.progress import ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import (
    digest_json,
    hold_training_folder,
    make_time_stamp,
    whole_folder,
    write_whole,
)
from audit.training.causal_lm import add_adapter, split_base
from audit.training.config import Lora, read_losses, read_process_number
from audit.training.loop import (
    VERSIONS,
    Hardware,
    Learner,
    PointListener,
    adamw,
    add_up,
    join_processes,
    select_trained_parameters,
    take_turns,
)
from audit.training.training_memory import (
    PassSize,
    estimate_memory,
    find_free_bytes,
    measure_shape,
    refuse_without_room,
)

if TYPE_CHECKING:
    from audit.deid.learn.tagger_task import TaggerTask

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Example:
    """The prompt of a model and the answer that it learns to write, end token included."""

    prompt: Ids
    answer: Ids

    @property
    def n_tokens(self) -> int:
        """The tokens of both together."""
        return len(self.prompt) + len(self.answer)


@dataclass(frozen=True, eq=False)
class Examples:
    """All examples of a training, in the order of the notes, and the counts of notes and windows.

    `n_longest` is the number of tokens of the longest window, `labels` are those that occur.
    `counts` holds the notes (`n_notes`), the windows that became examples (`n_windows`), and those
    that cannot be written with tags or are too long with their answer (`n_left_out`).
    """

    rows: tuple[Example, ...]
    n_longest: int
    labels: tuple[str, ...]
    counts: Mapping[str, int]

    @property
    def digest(self) -> str:
        """SHA-256 of all tokens."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(len(row.prompt).to_bytes(8, "little"))
            digest.update(row.prompt.tobytes() + row.answer.tobytes())
        return digest.hexdigest()


def make_examples(
    documents: Iterable[TaggedDocument],
    *,
    tokenizer: Tokenizer,
    frame: Frame,
    max_note_tokens: int,
    n_context: int,
    overlap: int,
    language: str,
) -> Examples:
    """Make examples of gold notes.

    If the edge of a window cuts a span, the part inside is tagged, as when windows are joined in
    tagging. Of overlapping spans the longest stays whole.
    """
    rows: list[Example] = []
    labels: set[str] = set()
    n_notes = n_left_out = n_longest = 0
    for document in documents:
        n_notes += 1
        flat_note = flatten_spans(document)
        labels.update(span.label for span in flat_note.spans)
        for window in cut_note(
            flat_note.text,
            count_tokens=lambda text: len(encode_text(tokenizer, text)),
            max_tokens=max_note_tokens,
            overlap=overlap,
        ):
            part_note = _cut_window(flat_note, window)
            try:
                tagged_text = write_tags(part_note, language=language)
            except AuditError:
                n_left_out += 1
                continue
            note_ids = encode_text(tokenizer, part_note.text)
            copy_ids = encode_text(tokenizer, tagged_text)
            id_lists = frame.prompt(note_ids), (*copy_ids, *frame.tail)
            row = Example(*(np.array(ids, dtype=np.int32) for ids in id_lists))
            if not note_ids or row.n_tokens > n_context:
                n_left_out += 1
                continue
            n_longest = max(n_longest, len(note_ids))
            rows.append(row)
    if not rows:
        raise AuditError(
            "No note can be trained on.",
            where="gold notes",
            do="Give notes with spans that inline tags can say.",
        )
    counts = {"n_notes": n_notes, "n_windows": len(rows), "n_left_out": n_left_out}
    return Examples(tuple(rows), n_longest, order_labels(labels), counts)


def _cut_window(document: TaggedDocument, window: Window) -> TaggedDocument:
    """Return a window as a note of its own."""
    spans = []
    for span in document.spans:
        start, end = max(span.start, window.start), min(span.end, window.end)
        if start < end and document.text[start:end].strip():
            spans.append(Span(start - window.start, end - window.start, span.label))
    text = document.text[window.start : window.end]
    return build_document(document.doc_id, text=text, spans=spans)


IGNORED = -100
"""Target of a position that the loss ignores."""


class Batch(NamedTuple):
    """Examples of one pass; K positions predict a token of an answer in one of the rows.

    `ids` [B, L] are padded on the right, or hold several examples one behind the other. `attended`
    [B, L] is 0 for padding. `positions` [B, L] count from 0 again in each of several examples, of
    which none sees another; None if a row is one example. `predicting` [K] are the positions,
    `targets` [B, K] the tokens behind them, `IGNORED` for a token of a prompt and for padding.
    """

    ids: Tensor
    attended: Tensor | None
    positions: Tensor | None
    predicting: Tensor
    targets: Tensor


def pad_examples(examples: Sequence[Example], *, pad_id: int) -> Batch:
    """Return examples as the rows of a batch."""
    n_longest = max(example.n_tokens for example in examples)
    ids = torch.full((len(examples), n_longest), pad_id)
    attended = torch.zeros_like(ids)
    targets = torch.full((len(examples), n_longest - 1), IGNORED)
    for row, example in enumerate(examples):
        n_prompt, n = len(example.prompt), example.n_tokens
        ids[row, :n] = torch.from_numpy(np.concatenate([example.prompt, example.answer]))
        attended[row, :n] = 1
        targets[row, n_prompt - 1 : n - 1] = ids[row, n_prompt:n]
    first = min(len(example.prompt) for example in examples) - 1
    return Batch(ids, attended, None, torch.arange(first, n_longest - 1), targets[:, first:])


def join_examples(examples: Sequence[Example]) -> Batch:
    """Return examples as one row, one behind the other."""
    parts = [part for example in examples for part in (example.prompt, example.answer)]
    ids = torch.from_numpy(np.concatenate(parts)).long()
    positions = torch.cat([torch.arange(example.n_tokens) for example in examples])
    ends = np.cumsum([example.n_tokens for example in examples])
    predicting = torch.cat(
        [
            torch.arange(end - len(example.answer), end) - 1
            for example, end in zip(examples, ends.tolist(), strict=True)
        ]
    )
    return Batch(ids[None], None, positions[None], predicting, ids[None, predicting + 1])


def pack_examples(examples: Iterable[Example], *, n_tokens: int) -> list[list[Example]]:
    """Return rows of examples with at most `n_tokens` tokens; a longer example stands alone.

    Each example, the longest first, goes into the first row that has room for it.
    """
    rows: list[list[Example]] = []
    rooms: list[int] = []
    for example in sorted(examples, key=lambda example: -example.n_tokens):
        n = example.n_tokens
        row = next((i for i, room in enumerate(rooms) if room >= n), len(rows))
        if row == len(rows):
            rows.append([])
            rooms.append(n_tokens)
        rows[row].append(example)
        rooms[row] -= n
    return rows


_PROBES = (5, 6, 7), (8, 9, 10)
_LEAK = 1e-3


def refuse_mixing(model: nn.Module) -> None:
    """Refuse a model in which an example sees the examples before it in the same row."""
    is_apart = "position_ids" in inspect.signature(_find_forward(model)).parameters
    if is_apart:
        device, second = next(model.parameters()).device, (11, 12, 13)
        rows = [
            join_examples([Example(np.array(ids), np.array([1])) for ids in (first, second)])
            for first in _PROBES
        ]
        with torch.inference_mode():
            after_first, after_other = (
                model.eval()(
                    input_ids=row.ids.to(device),
                    position_ids=None if row.positions is None else row.positions.to(device),
                    use_cache=False,
                )
                .logits[0, -len(second) :]
                .float()
                for row in rows
            )
        change = (after_first - after_other).abs().max()
        is_apart = bool(change <= _LEAK * after_first.abs().max())
    if not is_apart:
        raise AuditError(
            "This model does not keep the notes of a packed row apart.",
            where=WHERE,
            do="Set `packed_tokens` to 0, or take a model whose layers are all attention.",
        )


def _find_forward(model: nn.Module) -> Callable[..., Any]:
    base_model = getattr(model, "get_base_model", lambda: model)()
    forward: Callable[..., Any] = base_model.forward
    return forward


class CopyLearner(Learner[tuple[Batch, int]]):
    """A language model that learns to write the answers of examples.

    The parameters of `model` that require a gradient are tuned in place; the loss of `held_out` is
    measured before the first and after the last step.
    """

    phase = "tuning the model"
    dropout = "tuning dropout"
    measures_together = True
    settings: TuningSettings

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: TuningSettings,
        pad_id: int,
        hardware: Hardware,
        n_steps: int,
        rows: Sequence[Example] = (),
        held_out: Sequence[Example] = (),
        write: Callable[[CopyLearner], None] = lambda learner: None,
    ) -> None:
        super().__init__(
            model,
            settings=settings,
            hardware=hardware,
            n_steps=n_steps,
            optimizer=adamw(model, settings, fused=True),
        )
        self.n_step_tokens = settings.batch * settings.max_tokens
        self._pad_id, self._rows, self._held_out, self._write = pad_id, rows, held_out, write
        self._keeps_logits = "logits_to_keep" in inspect.signature(_find_forward(model)).parameters

    def passes(self, step: int) -> Iterator[tuple[Batch, int]]:
        """Yield the batch of each pass, and the number of tokens that the step learns from.

        Each epoch has its own order; the last step may reach beyond the last epoch.
        """
        n_rows, seed = len(self._rows), self.settings.seed
        rows: list[Example] = []
        for row_number in range((step - 1) * self.settings.batch, step * self.settings.batch):
            epoch, place = divmod(row_number, n_rows)
            rows.append(self._rows[_draw_order(seed, epoch, n_rows)[place]])
        return self._make_batches(rows)

    def loss(self, rows: tuple[Batch, int]) -> Tensor:
        """Return the summed cross-entropy of a pass over the answer tokens of the step."""
        return self._sum_loss(rows[0]) / rows[1]

    def measured(self, step: int) -> dict[str, float | None]:
        """Measure the held-out examples before the first step and after the last."""
        is_end = step in (0, self.n_steps)
        if not self._held_out or not is_end:
            return {}
        return {"held_out": self.compute_mean_loss(self._held_out)}

    def finish(self) -> None:
        """Write the tagger."""
        self._write(self)

    def compute_mean_loss(self, examples: Sequence[Example]) -> float:
        """Return the mean loss of answers in evaluation mode, in nats per token."""
        self.model.eval()
        total = torch.zeros((), dtype=torch.float64, device=self.hardware.device)
        with torch.no_grad():  # split weights cannot be gathered in inference mode and learn later
            for _, (batch, _), weight in self.hardware.share_passes(self._make_batches(examples)):
                total += self._sum_loss(batch) * weight
        if self.hardware.n_processes > 1:
            add_up([total])
        return float(total) / sum(len(example.answer) for example in examples)

    def _make_batches(self, examples: Sequence[Example]) -> Iterator[tuple[Batch, int]]:
        """Yield batches, the longest examples first, with the number of tokens of all answers."""
        n_batch_rows, n_row = self.settings.micro_batch, self.settings.packed_tokens
        n_targets = sum(len(example.answer) for example in examples)
        if n_row:
            for row in pack_examples(examples, n_tokens=n_row):
                yield join_examples(row), n_targets
            return
        order = sorted(examples, key=lambda example: -example.n_tokens)
        for start in range(0, len(order), n_batch_rows):
            batch = pad_examples(order[start : start + n_batch_rows], pad_id=self._pad_id)
            yield batch, n_targets

    def _sum_loss(self, batch: Batch) -> Tensor:
        """Return the summed cross-entropy of a pass, of answer tokens alone."""
        parts: Any = (
            None if tensor is None else tensor.to(self.hardware.device) for tensor in batch
        )
        ids, attended, positions, predicting, targets = parts
        options = {} if positions is None else {"position_ids": positions}
        if self._keeps_logits:
            options["logits_to_keep"] = predicting
        with self.hardware.numbers():
            logits = self.model(
                input_ids=ids, attention_mask=attended, use_cache=False, **options
            ).logits  # [B, K or L, V]
        is_target = targets != IGNORED
        if not self._keeps_logits:
            logits = logits[:, predicting]
        return functional.cross_entropy(
            logits[is_target].float(), targets[is_target], reduction="sum"
        )


@lru_cache(maxsize=2)
def _draw_order(seed: int, epoch: int, n_rows: int) -> list[int]:
    """Return the order of the rows in an epoch."""
    order: list[int] = generator(seed, "tuning order", epoch).permutation(n_rows).tolist()
    return order


_VERSION = 2
_TOKENIZER_OF = (".json", ".model", ".jinja", ".txt", ".tiktoken")
_NOT_OF_THE_TOKENIZER = {"config.json", "generation_config.json", "model.safetensors.index.json"}


def train_generative(
    task: TaggerTask,
    settings: TuningSettings,
    *,
    say: Callable[[str], None] = lambda text: None,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> GenerativeFacts:
    """Tune the model of a task, or continue a tuning that was stopped or killed.

    Processes that torchrun started share the passes of every step; this function is for the first
    of them, which writes files and reports. `say` gets a sentence about the memory.
    """
    tune(task, settings, say=say, progress=progress, should_stop=should_stop, on_point=on_point)
    return GenerativeFacts.of_folder(task.folder)


def tune(
    task: TaggerTask,
    settings: TuningSettings,
    *,
    say: Callable[[str], None] = lambda text: None,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> None:
    """Take part in the tuning of a task, as the first process or beside it."""
    settings.refuse_idle(read_process_number()[1])
    device = pick_device(task.device)
    with (
        join_processes(device) as (process, n_processes),
        nullcontext() if process else hold_training_folder(task.folder),
        torch.random.fork_rng(),
    ):
        precision = pick_precision(settings.precision, device=device)
        hardware = Hardware(device, precision, process=process, n_processes=n_processes)
        key, learner = _make_learner(task, settings, hardware, say=say)
        learner.complete(
            task.folder,
            {"key": key},
            result=TAGGER,
            progress=progress,
            should_stop=should_stop,
            on_point=on_point,
        )


def _make_learner(
    task: TaggerTask,
    settings: TuningSettings,
    hardware: Hardware,
    *,
    say: Callable[[str], None],
) -> tuple[str, CopyLearner]:
    """Return the key of a tuning, which identifies its weights, and its learner."""
    outline = outline_causal(task.start or Path())
    material = read_material(task, seed=settings.seed)
    examples, held_out = (
        _make_task_examples(notes, settings, outline)
        for notes in (material.train, material.validation)
    )
    memory = estimate_memory(
        measure_shape(outline.model),
        measure_pass([*examples.rows, *held_out.rows], settings),
        precision=hardware.precision,
        lora=settings.lora,
        is_checkpointed=settings.gradient_checkpointing,
        n_parts=hardware.n_processes if settings.is_split else 1,
    )
    refuse_without_room(memory, lora=settings.lora, free=find_free_bytes(hardware.device))
    say(_MEMORY.format(**memory.in_gigabytes()))
    loaded, model = _load_model(task, settings, hardware)
    content = {
        "version": _VERSION,
        "model": loaded.digest,
        "examples": examples.digest,
        "held_out": held_out.digest,
        "settings": settings.decisive(),
        "place": [hardware.device, hardware.precision],
    }
    learner = CopyLearner(
        model,
        settings=settings,
        pad_id=loaded.tokenizer.pad_token_id or 0,
        n_steps=settings.n_steps(len(examples.rows)),
        rows=examples.rows,
        held_out=held_out.rows,
        hardware=hardware,
        write=partial(
            _write_tagger,
            title=task.title,
            loaded=loaded,
            examples=examples,
            n_held_out=held_out.counts["n_notes"],
        ),
    )
    return digest_json(content), learner


_MEMORY = (
    "Tuning takes about {total:,.2f} GB: weights {weights:,.2f}, gradients {gradients:,.2f}, "
    "moments of the\noptimizer {moments:,.2f}, activations {activations:,.2f} (estimated)."
)


def measure_pass(examples: Sequence[Example], settings: TuningSettings) -> PassSize:
    """Return the largest pass that a tuning on the examples may have."""
    n_longest = max(example.n_tokens for example in examples)
    answer_share = max(len(example.answer) / example.n_tokens for example in examples)
    n_tokens = settings.micro_batch * n_longest
    if settings.packed_tokens:
        n_tokens = max(n_longest, min(settings.packed_tokens, settings.batch * n_longest))
    return PassSize(n_tokens, math.ceil(answer_share * n_tokens), settings.packed_tokens > 0)


def _make_task_examples(
    notes: Iterable[TaggedDocument], settings: TuningSettings, outline: CausalOutline
) -> Examples:
    frame = make_frame(outline.tokenizer, language=settings.language)
    n_context = min(outline.n_context, settings.max_tokens)
    return make_examples(
        notes,
        tokenizer=outline.tokenizer,
        frame=frame,
        max_note_tokens=compute_note_room(n_context, n_frame=frame.n_tokens),
        n_context=n_context,
        overlap=settings.overlap,
        language=settings.language,
    )


def _load_model(
    task: TaggerTask, settings: TuningSettings, hardware: Hardware
) -> tuple[CausalModel, Any]:
    """Return the model of a task as it was loaded, and the one that is tuned, perhaps split."""
    is_split = settings.is_split and hardware.n_processes > 1
    with take_turns(hardware) if is_split else nullcontext():
        loaded = load_causal(
            task.start or Path(),
            device="cpu" if is_split else task.device,
            precision=hardware.precision,
            is_frozen=settings.lora is not None,
        )
        model = _prepare_model(loaded, settings)
        if is_split:
            split_base(model, hardware)
    return loaded, model


def _prepare_model(loaded: CausalModel, settings: TuningSettings) -> Any:
    model = loaded.model
    if settings.packed_tokens:
        refuse_mixing(model)
    if settings.lora is not None:
        model = add_adapter(model, settings.lora, seed=settings.seed)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def _write_tagger(
    learner: CopyLearner, *, title: str, loaded: CausalModel, examples: Examples, n_held_out: int
) -> None:
    """Write the model, with the adapter merged into its weights, and then the facts."""
    settings, folder, model = learner.settings, learner.folder, learner.model
    if settings.lora is not None:
        adapted_model: Any = model
        if settings.is_split and learner.hardware.n_processes > 1:
            adapted_model = _load_whole(learner, settings.lora, directory=loaded.directory)
        model = adapted_model.merge_and_unload(safe_merge=True)
    _write_model(model.to(loaded.stored), folder / MODEL, parent=loaded.directory)
    points = read_losses(folder)
    facts = GenerativeFacts(
        title=title,
        model=directory_digest(folder / MODEL),
        labels=examples.labels,
        n_note_tokens=examples.n_longest,
        max_tokens=min(loaded.n_context, settings.max_tokens),
        overlap=settings.overlap,
        language=settings.language,
        created=make_time_stamp(),
        training={
            "settings": settings.plain(),
            "base": loaded.digest,
            "n_steps": points[-1].step,
            **examples.counts,
            "n_held_out": n_held_out,
            "device": learner.hardware.device,
            "precision": learner.hardware.precision,
            "n_processes": learner.hardware.n_processes,
            "versions": {**VERSIONS},
        },
        measured={
            "loss": points[-1].loss,
            "first_validation": points[0].held_out,
            "validation": points[-1].held_out,
        },
    )
    write_whole(folder / TAGGER, facts.file())


def _load_whole(learner: CopyLearner, lora: Lora, *, directory: Path) -> nn.Module:
    """Return the model of a learner with all of its weights, in main memory.

    The base is read again, so the other processes need not send their parts.
    """
    precision, seed = learner.hardware.precision, learner.settings.seed
    base = load_causal(directory, device="cpu", precision=precision).model
    model = add_adapter(base, lora, seed=seed)
    trained = select_trained_parameters(learner.model)
    for name, parameter in select_trained_parameters(model).items():
        parameter.data.copy_(trained[name])
    return model


def _write_model(model: Any, path: Path, *, parent: Path) -> None:
    """Write an ordinary model directory: the weights, and the parent's tokenizer unchanged."""
    with whole_folder(path, replaces=True) as partial:
        model.save_pretrained(partial)
        for file in model_files(parent):
            is_kept = file.suffix in _TOKENIZER_OF and file.name not in _NOT_OF_THE_TOKENIZER
            if is_kept and not (partial / file.name).exists():
                write_whole(partial / file.name, file.read_bytes())
