"""Masked-LM pre-training: from notes and a general model to a trained one.

Input: a task. Output: a folder with the model, its loss curve and the facts of its training.

Source: Nakamura et al., section 3.3; ClinicalBERT (Alsentzer et al. 2019).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from audit.corpus.truth import read_listed
from audit.models.forward import choose_exact_kernels, compute_logits, find_body, pick_precision
from audit.models.inspect import inspect_model, read_model_files
from audit.models.layouts import compute_expected_shapes
from audit.models.learning import LearningPass
from audit.models.load import LoadedModel, load_model, pick_device
from audit.models.model_config import refuse_causal
from audit.models.model_folder import SINGLE_FILE
from audit.models.tokenizer_files import TOKENIZER_CONFIG_FILE
from audit.notes.read import open_notes
from audit.progress import (
    LOADING,
    Meter,
    Phase,
    ProgressListener,
    StopQuestion,
    combine_phases,
    estimate_seconds,
)
from audit.rng import generator, torch_seed
from audit.shelf import (
    digest_json,
    hold_training_folder,
    make_time_stamp,
    whole_folder,
    write_whole,
)
from audit.task import queue_of
from audit.training.config import TrainSettings, read_process_number
from audit.training.loop import (
    VERSIONS,
    Hardware,
    Learner,
    PointListener,
    adamw,
    copy_to_main_memory,
    join_processes,
    plan_steps,
    wait_for_first,
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
    draw_held_out,
    mask_rows,
    plan_tokenizing,
    read_or_make_tokens,
    split_notes,
)
from audit.training.trainings import (
    MODEL,
    MODELS,
    PretrainTask,
    TrainedModel,
    TrainingFacts,
    snapshot_name,
)

_EPSILON = 1e-6  # BERT's; PyTorch's own is 1e-8
_CONFIG = "config.json"
_MAX_BYTES = 64_000_000
_VERSION = 2


class MaskedLearner(Learner[MaskedRows]):
    """A masked language model, its training rows, and its held-out rows.

    After each of the steps `copies`, a copy is stored in its folder with the files of `parent`.
    """

    settings: TrainSettings

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: TrainSettings,
        hardware: Hardware,
        n_steps: int,
        rows: Rows,
        held_out: HeldOut | None = None,
        copies: Sequence[int] = (),
        parent: Path = Path(),
    ) -> None:
        in_body = {id(parameter) for parameter in find_body(model).parameters()}
        rates = (settings.learning_rate, settings.head_learning_rate or settings.learning_rate)
        optimizer = adamw(
            model,
            settings,
            rate_of=lambda parameter: rates[id(parameter) not in in_body],
            eps=_EPSILON,
            fused=True,
        )
        super().__init__(
            model, settings=settings, hardware=hardware, n_steps=n_steps, optimizer=optimizer
        )
        self.rows, self.held_out, self.copies, self.parent = rows, held_out, copies, parent
        self._fast = None
        if LearningPass.supports(model):
            self._fast = LearningPass(model, dtype=getattr(torch, hardware.precision))
        self.n_step_tokens = settings.batch * settings.n_tokens

    def passes(self, step: int) -> Iterator[MaskedRows]:
        """Return a step's masked rows, one micro-batch at a time."""
        rng, special = generator(self.settings.seed, "row masks", step), self.rows.special
        share = self.settings.mask_share
        masked = mask_rows(self.rows.of_step(step), special=special, share=share, rng=rng)
        return masked.parts(self.settings.micro_batch)

    def loss(self, rows: MaskedRows) -> Tensor:
        """Return the mean loss of the rows, as a share of the step's mean loss."""
        return self._mean_loss_of(rows) / (self.settings.batch // self.settings.micro_batch)

    def is_point(self, step: int) -> bool:
        """Return whether the curve has a point: also for held-out losses and stored copies."""
        is_asked = step % self.settings.evaluate_every == 0 or step in self.copies
        return is_asked or super().is_point(step)

    def measured(self, step: int) -> Mapping[str, float | None]:
        """Store a copy of the model, and measure the held-out rows, if either is due."""
        if step in self.copies:
            write_model(self.model, self.folder / snapshot_name(step), parent=self.parent)
        is_due = step % self.settings.evaluate_every == 0 or step == self.n_steps
        if self.held_out is None or not is_due:
            return {}
        self.model.eval()
        total, rows = 0.0, self.held_out.rows
        with torch.inference_mode():
            for part in rows.parts(self.settings.micro_batch):
                total += float(self._mean_loss_of(part)) * len(part.ids)
        return {"held_out": total / len(rows.ids)}

    def finish(self) -> None:
        """Write the model."""
        write_model(self.model, self.folder / MODEL, parent=self.parent)

    def _mean_loss_of(self, rows: MaskedRows) -> Tensor:
        ids, positions, targets = map(
            self._move_to_device, (rows.ids, rows.positions, rows.targets)
        )
        if self._fast is not None:
            logits = self._fast.logits(ids, positions=positions)  # [B, M, V]
        else:
            with self.hardware.numbers():
                logits = compute_logits(self.model, ids, positions=positions)
        return functional.cross_entropy(logits.flatten(end_dim=1).float(), targets.flatten())

    def _move_to_device(self, part: Ids) -> Tensor:
        tensor = torch.from_numpy(part)
        if self.hardware.device == "cpu":
            return tensor
        return tensor.pin_memory().to(self.hardware.device, non_blocking=True)


@contextmanager
def fix_sum_order(device: str) -> Iterator[None]:
    """Let a GPU add in a fixed order where it can, so that resumed trainings give equal weights."""
    if device == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    memory: Any = torch.utils.deterministic
    old_settings = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(old_settings[0])
        memory.fill_uninitialized_memory = old_settings[1]


def write_model(model: nn.Module, path: Path, *, parent: Path) -> None:
    """Write a model's directory completely or not at all.

    The config.json and the tokenizer files of the parent, from which the model was trained, are
    copied unchanged.
    """
    files = read_model_files(parent)
    copied = dict(files.tokenizer.all_files)
    for name in (_CONFIG, TOKENIZER_CONFIG_FILE):
        if name in files.folder.files:
            copied[name] = files.folder.read(name, max_bytes=_MAX_BYTES)
    state = copy_to_main_memory(model.state_dict())
    tensors: dict[int, str] = {}  # a tensor with two names is stored under its first
    for name in compute_expected_shapes(files.config):
        tensors.setdefault(state[name].data_ptr(), name)
    with whole_folder(path, replaces=True) as partial:
        for name, data in copied.items():
            write_whole(partial / name, data)
        named_tensors = {name: state[name] for name in tensors.values()}
        save_file(named_tensors, partial / SINGLE_FILE, metadata={"format": "pt"})


def draw_fresh_weights(model: nn.Module, *, seed: int) -> nn.Module:
    """Return a model of the same shape with new weights, on the CPU, in training precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "fresh weights"))
        fresh: nn.Module = type(model)(model.config)
    return fresh


def train(
    task: PretrainTask,
    *,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> TrainedModel:
    """Train a model, or resume a training that was stopped or killed.

    Each process that torchrun started calls this function and learns from its share of every step;
    only the first process writes files and reports.
    """
    device, folder, settings = pick_device(task.device), task.folder, task.settings
    notes = task.notes_path
    settings.refuse_idle(read_process_number()[1])
    with (
        join_processes(device) as (process, n_processes),
        nullcontext() if process else hold_training_folder(folder),
        torch.random.fork_rng(),
        fix_sum_order(device),
    ):
        meter = Meter(plan_phases(task), listener=progress, should_stop=should_stop)
        meter.add(LOADING, 0)
        general = load_model(task.general, device=device)
        refuse_causal(general.config, name=general.name)
        settings.refuse_longer(general.n_positions)
        meter.finish(LOADING)
        with wait_for_first(process, n_processes):
            tokens = read_or_make_tokens(
                open_notes(notes, columns=dict(task.columns)),
                general.tokenizer,
                store=(notes.parent if task.corpus_id else folder) / "tokens",
                progress=meter.make_listener(TOKENIZE),
                should_stop=should_stop,
            )
        meter.finish(TOKENIZE)
        precision = pick_precision(settings.precision, device=device, is_cpu_asked=True)
        # Kernels are chosen with the general model, also if the training resumes from a checkpoint.
        with choose_exact_kernels(
            [general.model], tokenizer=general.tokenizer, device=device, dtype=precision
        ) as kernels:
            hardware = Hardware(device, precision, kernels, process, n_processes)
            facts, learner = _prepare(task, general, tokens=tokens, hardware=hardware)
            meter.resize(learner.phase, estimate_seconds(learner.plan()))
            learner.complete(
                folder,
                facts.plain(),
                result=MODEL,
                progress=meter.make_listener(learner.phase),
                should_stop=should_stop,
                on_point=on_point,
            )
            meter.finish(learner.phase)
    return MODELS.read_folder(folder)


_TOKEN_BYTES = 4.5  # of English notes


def plan_phases(task: PretrainTask) -> tuple[Phase, ...]:
    """Return the phases of a training in order; the number of tokens is estimated from bytes."""
    settings, size = task.settings, float(inspect_model(task.general).n_parameters)
    source = open_notes(task.notes_path, columns=dict(task.columns))
    hardware = f"{queue_of(task.device)} {settings.precision}"
    n_steps = settings.steps(int(source.n_bytes / _TOKEN_BYTES))
    n_tokens = settings.batch * settings.n_tokens
    steps = plan_steps(MaskedLearner.phase, n_steps, n_tokens, size, hardware)
    return (
        Phase(LOADING, 1, 5.0, f"loading a model {hardware}", size),
        combine_phases(TOKENIZE, [plan_tokenizing(source)], kind=TOKENIZE),
        combine_phases(steps.name, [steps], kind=steps.name),
    )


def _prepare(
    task: PretrainTask, general: LoadedModel, *, tokens: TokenFile, hardware: Hardware
) -> tuple[TrainingFacts, MaskedLearner]:
    settings, special = task.settings, SpecialIds.from_tokenizer(general.tokenizer)
    listed = read_listed(task.listed) if task.listed and settings.held_out_share else None
    split = split_notes(tokens, share=settings.held_out_share, seed=settings.seed, listed=listed)
    stream = Stream(tokens, split.train)
    rows = Rows(stream, special, settings.n_inner, settings.batch, settings.seed)
    measured = draw_held_out(tokens, split, special=special, settings=settings)
    snapshots = task.snapshots(len(stream))
    decisive = {
        "version": _VERSION,
        "parent": general.digest,
        "tokens": tokens.digest(),
        "settings": settings.decisive(),
        "snapshots": list(snapshots),
    } | ({} if listed is None else {"listed": listed.digest})
    facts = TrainingFacts(
        title=task.title,
        parent=general.name,
        parent_digest=general.digest,
        corpus_id=task.corpus_id,
        source=task.source if task.corpus_id else "file",
        settings=settings,
        n_steps=settings.steps(len(stream)),
        n_documents=len(split.train),
        n_train_tokens=len(stream),
        n_held_out_documents=len(split.held_out),
        unigram_loss=None if measured is None else measured.unigram_loss,
        key=digest_json(decisive),
        precision=hardware.precision,
        device=hardware.device,
        kernels=hardware.kernels,
        versions=VERSIONS,
        created=make_time_stamp(),
        snapshots=snapshots,
        n_listed_patients=split.n_listed,
        n_processes=hardware.n_processes,
    )
    model = general.model
    if settings.from_scratch:
        model = draw_fresh_weights(model, seed=settings.seed).to(hardware.device)
    learner = MaskedLearner(
        model,
        settings=settings,
        hardware=hardware,
        n_steps=facts.n_steps,
        rows=rows,
        held_out=measured,
        copies=snapshots,
        parent=task.general,
    )
    return facts, learner
