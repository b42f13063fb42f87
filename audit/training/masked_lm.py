"""Masked-LM pre-training: from notes and a general model to a trained one.

Comes in: an order. Goes out: a folder with the model, its loss curve and what it was made of.

Source: Nakamura et al., section 3.3; ClinicalBERT (Alsentzer et al. 2019).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from audit.corpus.truth import ListedNotes, read_listed
from audit.errors import AuditError
from audit.models.forward import body_of, exact_kernels, logits_at, trial_rows
from audit.models.inspect import CONFIG_FILE, SINGLE_FILE, expected_shapes, read_model_files
from audit.models.load import LoadedModel, load_model, pick_device
from audit.notes.read import open_notes
from audit.progress import Meter, Progress, ProgressListener, StopQuestion
from audit.rng import generator, torch_seed
from audit.shelf import alone, whole_folder, write_whole
from audit.training.config import WHERE, TrainSettings
from audit.training.kept import (
    MODEL,
    Snapshot,
    TrainingFacts,
    TrainOrder,
    TrainResult,
    read_facts,
    read_training,
    snapshot_name,
)
from audit.training.loop import (
    Hardware,
    Learner,
    Loop,
    PointListener,
    adamw,
    claim,
    forget_checkpoints,
    own_tensors,
    pick_precision,
)
from audit.training.tokens import (
    TOKENIZE,
    HeldOut,
    Ids,
    MaskedRows,
    Rows,
    SpecialIds,
    Stream,
    TokenFile,
    content_digest,
    held_out,
    masked_rows,
    split_notes,
    tokenized,
)

TRAIN = "training"
_EPSILON = 1e-6  # BERT's; PyTorch's own is 1e-8
_CONFIG = "config.json"
_MAX_BYTES = 64_000_000
_VERSION = 1


class MaskedLearner(Learner):
    """A masked language model, its rows, and what it is measured on.

    Parameters
    ----------
    snapshots
        Steps after which a copy is kept, in `folder`, with the files of `parent`.
    """

    phase = TRAIN

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: TrainSettings,
        special: SpecialIds,
        hardware: Hardware,
        n_steps: int,
        rows: Rows,
        held_out: HeldOut | None = None,
        snapshots: Sequence[int] = (),
        folder: Path = Path(),
        parent: Path = Path(),
    ) -> None:
        in_body = {id(parameter) for parameter in body_of(model).parameters()}
        rates = (settings.learning_rate, settings.head_learning_rate or settings.learning_rate)
        optimizer = adamw(
            model, settings, rate_of=lambda one: rates[id(one) not in in_body], eps=_EPSILON,
            fused=True,
        )  # fmt: skip
        super().__init__(
            model, settings=settings, hardware=hardware, n_steps=n_steps, optimizer=optimizer
        )
        self.settings, self.special = settings, special
        self.rows, self.held_out = rows, held_out
        self.snapshots, self.folder, self.parent = snapshots, folder, parent

    def passes(self, step: int) -> Iterator[MaskedRows]:
        """Return a step's masked rows, a micro-batch at a time."""
        rng = generator(self.settings.seed, "row masks", step)
        rows = self.rows.of_step(step)
        masked = masked_rows(rows, special=self.special, share=self.settings.mask_share, rng=rng)
        return masked.parts(self.settings.micro_batch)

    def loss(self, rows: MaskedRows) -> Tensor:
        """Return the mean loss of the rows, as a share of the step's."""
        return self._mean_loss(rows) / (self.settings.batch // self.settings.micro_batch)

    def is_point(self, step: int) -> bool:
        """Also where the held-out loss is measured and a copy is kept."""
        is_asked = step % self.settings.evaluate_every == 0 or step in self.snapshots
        return is_asked or super().is_point(step)

    def measured(self, step: int) -> Mapping[str, float | None]:
        """Measure the held-out rows where it is time for it."""
        is_due = step % self.settings.evaluate_every == 0 or step == self.n_steps
        if self.held_out is None or not is_due:
            return {}
        self.model.eval()
        total, rows = 0.0, self.held_out.rows
        with torch.inference_mode():
            for part in rows.parts(self.settings.micro_batch):
                total += float(self._mean_loss(part)) * len(part.ids)
        return {"held_out": total / len(rows.ids)}

    def after(self, step: int) -> None:
        """Keep a copy of the model where one is asked for."""
        if step in self.snapshots:
            write_model(self.model, self.folder / snapshot_name(step), parent=self.parent)

    def _mean_loss(self, rows: MaskedRows) -> Tensor:
        ids, positions, targets = map(self._sent, (rows.ids, rows.positions, rows.targets))
        with self.hardware.numbers():
            logits = logits_at(self.model, ids, positions=positions)  # [B, M, V]
        return functional.cross_entropy(logits.flatten(end_dim=1).float(), targets.flatten())

    def _sent(self, part: Ids) -> Tensor:
        tensor = torch.from_numpy(part)
        if self.hardware.device == "cpu":
            return tensor
        return tensor.pin_memory().to(self.hardware.device, non_blocking=True)


@contextmanager
def in_force(general: LoadedModel, *, device: str, precision: str) -> Iterator[Hardware]:
    """Choose kernels for a training that starts from `general`, and keep to them.

    They are asked of the general model, also where the training goes on from a checkpoint: so the
    same are chosen again.
    """
    if precision != "float32":
        yield Hardware(device, precision)
        return
    ids = trial_rows(general.tokenizer, device=device)
    mask_id = general.tokenizer.mask_token_id
    with exact_kernels([general.model], ids=ids, mask_id=mask_id) as kernels:
        yield Hardware(device, precision, kernels)


@contextmanager
def same_sums(device: str) -> Iterator[None]:
    """Let a GPU add in one order, where it can: a training goes on to the same weights."""
    if device == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    memory: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        memory.fill_uninitialized_memory = before[1]


def write_model(model: nn.Module, path: Path, *, parent: Path) -> None:
    """Write a model's directory, whole or not at all.

    The config.json of the parent, which it was trained from, and the files of its tokenizer are
    copied as they are.
    """
    files = read_model_files(parent)
    copied = dict(files.tokenizer.present)
    for name in (_CONFIG, CONFIG_FILE):
        if name in files.folder.files:
            copied[name] = files.folder.read(name, max_bytes=_MAX_BYTES)
    state = own_tensors(model.state_dict())
    tensors: dict[str, Tensor] = {}  # one that has two names under its first
    seen: set[int] = set()
    for name in expected_shapes(files.config):
        if state[name].data_ptr() not in seen:
            seen.add(state[name].data_ptr())
            tensors[name] = state[name]
    with whole_folder(path, replaces=True) as partial:
        for name, data in copied.items():
            write_whole(partial / name, data)
        save_file(tensors, partial / SINGLE_FILE, metadata={"format": "pt"})


def fresh_weights(model: nn.Module, *, seed: int) -> nn.Module:
    """Return a model of the same shape with new weights, on the CPU, in training precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "fresh weights"))
        fresh: nn.Module = type(model)(model.config)
    return fresh


def train(
    order: TrainOrder,
    *,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> TrainResult:
    """Train a model, or go on with a training that was stopped or killed."""
    device = pick_device(order.device)
    general = load_model(order.general, device=device)
    if order.settings.n_tokens > general.n_positions:
        raise AuditError(
            f"Rows of {order.settings.n_tokens} tokens are longer than the {general.n_positions} "
            "that this model holds.",
            where=WHERE,
            do="Set `n_tokens` lower.",
        )
    with alone(order.out), torch.random.fork_rng(), same_sums(device):
        tokens = tokenized(
            tuple(open_notes(path, columns=order.columns) for path in order.notes),
            general.tokenizer,
            store=order.token_store or order.out / "tokens",
            progress=_part_of_all(TOKENIZE, progress),
            should_stop=should_stop,
        )
        precision = pick_precision(order.settings.precision, device=device, is_cpu_asked=True)
        with in_force(general, device=device, precision=precision) as hardware:
            task = _task(order, general, tokens=tokens, hardware=hardware)
            facts = task.facts
            claim(order.out, facts.plain(), result=MODEL)
            if not (order.out / MODEL).is_dir():
                learner = _learner(order, task, general, hardware)
                meter = Meter(
                    {TRAIN: float(facts.n_steps)},
                    listener=_part_of_all(TRAIN, progress),
                    should_stop=should_stop,
                )
                Loop(learner, order.out, facts.key, meter, on_point).run()
                write_model(learner.model, order.out / MODEL, parent=order.general)
    forget_checkpoints(order.out)
    return _result(order.out, read_facts(order.out) or facts)


@dataclass(frozen=True, eq=False)
class _Task:
    facts: TrainingFacts
    rows: Rows
    held_out: HeldOut | None
    special: SpecialIds


def _task(
    order: TrainOrder, general: LoadedModel, *, tokens: TokenFile, hardware: Hardware
) -> _Task:
    settings, tokenizer = order.settings, general.tokenizer
    special = SpecialIds(
        cls=tokenizer.cls_token_id,
        sep=tokenizer.sep_token_id,
        mask=tokenizer.mask_token_id,
        sentence_ends=(),
        n_vocabulary=len(tokenizer),
    )
    listed = read_listed(order.listed) if order.listed and settings.held_out_share else None
    split = split_notes(tokens, share=settings.held_out_share, seed=settings.seed, listed=listed)
    stream = Stream(tokens, split.train)
    rows = Rows(stream, special, settings.n_inner, settings.batch, settings.seed)
    measured = held_out(tokens, split, special=special, settings=settings)
    facts = TrainingFacts(
        title=order.title,
        parent=general.name,
        parent_digest=general.digest,
        corpus_id=order.corpus_id,
        source=order.source,
        settings=settings,
        n_steps=settings.steps(len(stream)),
        n_documents=len(split.train),
        n_train_tokens=len(stream),
        n_held_out_documents=len(split.held_out),
        unigram_loss=None if measured is None else measured.unigram_loss,
        key="",
        precision=hardware.precision,
        device=hardware.device,
        kernels=hardware.kernels,
        versions={"torch": torch.__version__, "transformers": transformers.__version__},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        snapshots=order.snapshots(len(stream)),
        n_listed_patients=split.n_listed,
    )
    key = _train_key(facts, tokens=tokens, listed=listed)
    return _Task(facts.with_(key=key), rows, measured, special)


def _learner(
    order: TrainOrder, task: _Task, general: LoadedModel, hardware: Hardware
) -> MaskedLearner:
    model = general.model
    if order.settings.from_scratch:
        model = fresh_weights(model, seed=order.settings.seed).to(hardware.device)
    return MaskedLearner(
        model,
        settings=order.settings,
        special=task.special,
        hardware=hardware,
        n_steps=task.facts.n_steps,
        rows=task.rows,
        held_out=task.held_out,
        snapshots=task.facts.snapshots,
        folder=order.out,
        parent=order.general,
    )


def _train_key(facts: TrainingFacts, *, tokens: TokenFile, listed: ListedNotes | None) -> str:
    content = {
        "version": _VERSION,
        "parent": facts.parent_digest,
        "tokens": content_digest(tokens),
        "settings": facts.settings.decisive(),
        "snapshots": list(facts.snapshots),
    }
    if listed is not None:
        content["listed"] = listed.digest
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _part_of_all(phase: str, listener: ProgressListener) -> ProgressListener:
    """Return a listener that tells one phase as a part of the whole training."""
    shares = {TOKENIZE: 0.05, TRAIN: 0.95}

    def listen(progress: Progress) -> None:
        is_training = phase == TRAIN
        done = shares[phase] * progress.share + (shares[TOKENIZE] if is_training else 0.0)
        parts = ((TOKENIZE, 1.0 if is_training else progress.share),
                 (TRAIN, progress.share if is_training else 0.0))  # fmt: skip
        left = progress.seconds_left if is_training else None
        listener(Progress(phase, done, 1.0, left, parts))

    return listen


def _result(out: Path, facts: TrainingFacts) -> TrainResult:
    done = read_training(out)
    assert done is not None
    tokens, settings = facts.n_train_tokens, facts.settings
    return TrainResult(
        run_dir=out,
        model_dir=out / MODEL,
        n_steps=facts.n_steps,
        n_epochs=settings.epochs(facts.n_steps, n_train_tokens=tokens),
        loss=float("nan") if done.loss is None else done.loss,
        first_held_out=done.first_held_out,
        held_out=done.held_out,
        unigram_loss=facts.unigram_loss,
        snapshots=tuple(
            Snapshot(step, settings.epochs(step, n_train_tokens=tokens), out / snapshot_name(step))
            for step in facts.snapshots
        ),
    )
