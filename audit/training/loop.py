"""The loop of every training: steps, checkpoints, the loss curve, stopping and resuming.

Every random draw has its own key (`audit.rng`), so a training that was stopped or killed continues
from its last checkpoint to the same bytes on the same kind of hardware. Several processes share the
passes of each step and add up their gradients; the first process writes all files.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import torch
import torch.distributed as processes
import transformers
from pydantic import JsonValue
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from audit.errors import AuditCancelled, AuditError
from audit.progress import FINISHING, Meter, Phase, ProgressListener, StopQuestion
from audit.rng import torch_seed
from audit.shelf import JSON, private_folder, whole_folder, write_whole
from audit.task import Record
from audit.training.config import (
    LoopSettings,
    LossPoint,
    append_point,
    count_point_steps,
    cut_log,
    read_process_number,
)

TRAINING = "training.json"
_CHECKPOINTS, _N_KEPT = "checkpoint", 2
_WEIGHTS, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_MOST_SECONDS = 600.0
"""Longest time between two checkpoints, so that slow machines do not lose hours of work."""
_PLACE = ("device", "precision", "kernels")
PointListener = Callable[[LossPoint], None]
VERSIONS = {"torch": torch.__version__, "transformers": transformers.__version__}
"""Library -> version, as in `training.json`."""


Rows = TypeVar("Rows")


@dataclass(frozen=True)
class Hardware:
    """The hardware of a training: "cpu" or "cuda", number type of products, and kernels.

    `process` is the number of this process among the `n_processes` that share each step's passes.
    """

    device: str
    precision: str
    kernels: str = "default"
    process: int = 0
    n_processes: int = 1

    def numbers(self) -> AbstractContextManager[None]:
        """Return a context in which the forward pass has its number type; weights are float32."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device, dtype=torch.bfloat16)

    def share_passes(self, passes: Iterable[Rows]) -> Iterator[tuple[int, Rows, float]]:
        """Yield number, rows and weight of the passes that this process does.

        All processes do as many, because they add up what comes of them; a process for which
        nothing is left repeats the last pass, which then weighs nothing.
        """
        number = -1
        for number, rows in enumerate(passes):
            if number % self.n_processes == self.process:
                yield number, rows, 1.0
        if number >= 0 and self.process > number % self.n_processes:
            yield number, rows, 0.0


_LONGEST_WAIT = timedelta(days=7)


@contextmanager
def join_processes(device: str) -> Iterator[tuple[int, int]]:
    """Join the processes that torchrun started; yield this process's number and their total."""
    place = read_process_number()
    if place[1] == 1:
        yield place
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # The other processes wait while the first one waits its turn, tokenizes and measures.
    kind = "nccl" if device == "cuda" else "gloo"
    processes.init_process_group(kind, timeout=_LONGEST_WAIT)
    try:
        yield place
    finally:
        processes.destroy_process_group()


@contextmanager
def wait_for_first(process: int, n_processes: int) -> Iterator[None]:
    """Let the first process do the block before the others."""
    if process:
        processes.barrier()
    yield
    if n_processes > 1 and not process:
        processes.barrier()


@contextmanager
def take_turns(hardware: Hardware) -> Iterator[None]:
    """Let the processes do the block one after another, so that only one needs its memory."""
    for _ in range(hardware.process):
        processes.barrier()
    yield
    for _ in range(hardware.process, hardware.n_processes):
        if hardware.n_processes > 1:
            processes.barrier()


def add_up(tensors: Iterable[Tensor]) -> None:
    """Replace each tensor by its sum over all processes, which is bit-identical in each of them."""
    for work in [processes.all_reduce(tensor, async_op=True) for tensor in tensors]:
        work.wait()


_TRIM, _MOST_MAPPED = -1, -4  # of malloc.h
_USUAL = {_TRIM: 128 * 1024, _MOST_MAPPED: 65_536}


@contextmanager
def keep_memory() -> Iterator[None]:
    """Keep freed memory for the next step while the block runs, where the C library is glibc.

    Otherwise each step returns its large tensors to the system and requests them again, and the
    system then clears every page.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        yield
        return
    library.mallopt(_MOST_MAPPED, 0)
    library.mallopt(_TRIM, 2**31 - 1)
    try:
        yield
    finally:
        for name, value in _USUAL.items():
            library.mallopt(name, value)
        library.malloc_trim(0)


def select_trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that require a gradient, by name."""
    return {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }


def adamw(
    model: nn.Module,
    settings: LoopSettings,
    *,
    rate_of: Callable[[nn.Parameter], float] | None = None,
    eps: float = 1e-8,
    fused: bool | None = None,
) -> torch.optim.AdamW:
    """Return the optimizer of a model; vectors have no weight decay.

    `rate_of` returns the highest learning rate of a parameter, if it differs from the settings.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in select_trained_parameters(model).values():
        rate = rate_of(parameter) if rate_of else settings.highest_rate
        groups.setdefault((rate, settings.weight_decay if parameter.dim() > 1 else 0.0), []).append(
            parameter
        )
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": rate, "highest_lr": rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ],
        eps=eps,
        fused=fused,
    )


class CheckpointState(Record):
    """The state in a checkpoint: finished steps, seconds of training, key of the training."""

    step: int = 0
    seconds: float = 0.0
    key: str


_WORK_SECONDS = 1e-10  # without a measurement: seconds per parameter and learned token


def plan_steps(name: str, n_steps: int, n_tokens: int, size: float, hardware: str) -> Phase:
    """Return steps of `n_tokens` as a phase.

    `hardware` is device and precision; `size` is the number of parameters.
    """
    return Phase(name, n_steps * n_tokens * size, _WORK_SECONDS, f"{name} {hardware}", size)


class Learner(ABC, Generic[Rows]):
    """A model that learns step by step in a folder; each kind of training has a subclass.

    Parameters
    ----------
    model
        Trained in place, on `hardware.device`.
    n_steps
        Steps of the whole training: the learning rate follows from it.
    """

    phase: ClassVar[str] = "training"
    """The name of the steps in progress reports."""
    dropout: ClassVar[str] = "dropout"
    """Key of the random draws of dropout."""
    measures_together: ClassVar[bool] = False
    """Whether all processes take part in measuring; otherwise only the first one measures."""
    n_step_tokens = 1
    """Approximate number of tokens per step."""
    settings: LoopSettings
    folder = Path()
    _key = ""
    _began = _kept_at = 0.0

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: LoopSettings,
        hardware: Hardware,
        n_steps: int,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self.model, self.hardware, self.n_steps = model, hardware, n_steps
        self.settings, self.optimizer = settings, optimizer
        self._losses: list[Tensor] = []

    def plan(self) -> tuple[Phase, Phase]:
        """Return the phases of the training, in order."""
        hardware = f"{self.hardware.device.partition(':')[0]} {self.hardware.precision}"
        size = float(sum(p.numel() for p in self.model.parameters()))
        return (
            plan_steps(self.phase, self.n_steps, self.n_step_tokens, size, hardware),
            Phase(FINISHING, 1, 1.0, f"writing after {self.phase}", size),
        )

    @abstractmethod
    def passes(self, step: int) -> Iterable[Rows]:
        """Return the input of each forward pass of a step (from 1), for all processes."""

    @abstractmethod
    def loss(self, rows: Rows) -> Tensor:
        """Return a pass's share of the step's mean loss, in nats per token."""

    def finish(self) -> None:
        """Write the outputs of the training, its result last."""
        raise NotImplementedError

    def is_point(self, step: int) -> bool:
        """Return whether the curve has a point after a step."""
        intervals = (count_point_steps(self.n_steps), self.settings.checkpoint_every, self.n_steps)
        return any(step % n == 0 for n in intervals)

    def measured(self, step: int) -> Mapping[str, float | None]:
        """Measure or store the model after a step with a point; return fields of `LossPoint`."""
        return {}

    def _rate_factor(self, step: int) -> float:
        return self.settings.rate_factor(step, n_steps=self.n_steps)

    def step(self, step: int) -> Tensor:
        """Learn from a step (from 1) and return mean loss and norm of the gradient, [2].

        The tensor is on the device and may still be in computation.
        """
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.hardware.device)
        hardware, parameters = self.hardware, select_trained_parameters(self.model).values()
        for number, rows, weight in hardware.share_passes(self.passes(step)):
            torch.manual_seed(torch_seed(self.settings.seed, self.dropout, step, number))
            loss = self.loss(rows) * weight
            torch.autograd.backward(loss)
            total += loss.detach()
        if hardware.n_processes > 1:
            add_up(
                [total, *(parameter.grad for parameter in parameters if parameter.grad is not None)]
            )
        norm = nn.utils.clip_grad_norm_(parameters, self.settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest_lr"] * self._rate_factor(step)
        self.optimizer.step()
        return torch.stack([total, norm])

    def complete(
        self,
        folder: Path,
        facts: Mapping[str, JSON],
        *,
        result: str,
        progress: ProgressListener,
        should_stop: StopQuestion,
        on_point: PointListener,
    ) -> None:
        """Train to the end, from the last checkpoint if there is one; keep a finished training.

        If it ends early (no memory, a loss that is NaN or infinite, a request to stop), the last
        checkpoint remains.

        Parameters
        ----------
        folder
            The folder of this training only, locked by `audit.shelf.hold_training_folder`.
        facts
            Content of `training.json`: JSON values, among them `key` and, if given, device,
            precision and kernels.
        result
            Name of the file or folder that `finish` writes last.
        """
        self.folder, self._key = folder, str(facts["key"])
        if self.hardware.process:
            if not (folder / result).exists():
                self._help()
            return
        _claim(folder, facts, result=result)
        if not (folder / result).exists():
            meter = Meter(self.plan(), listener=progress, should_stop=should_stop)
            with keep_memory():
                self._run(meter, on_point)
            meter.add(FINISHING, 0)
            self.finish()
            meter.finish(FINISHING)
        shutil.rmtree(folder / _CHECKPOINTS, ignore_errors=True)

    def _help(self) -> None:
        """Learn beside the first process, which stores the model."""
        with keep_memory():
            n_done = self._resume().step
            if not n_done:
                self._help_measuring(0)
            for step in range(n_done + 1, self.n_steps + 1):
                with self._explain_memory():
                    self.step(step)
                if self.is_point(step):
                    self._help_measuring(step)

    def _help_measuring(self, step: int) -> None:
        if self.measures_together:
            with self._explain_memory():
                self.measured(step)

    def _run(self, meter: Meter, on_point: PointListener) -> None:
        state, work = self._resume(), self.plan()[0].n_units / self.n_steps
        self._kept_at, self._began = state.seconds, time.monotonic() - state.seconds
        cut_log(self.folder, step=state.step or -1)
        if state.step:
            meter.add(self.phase, state.step * work, is_cached=True)
        else:
            on_point(self._point(0))
        for step in range(state.step + 1, self.n_steps + 1):
            with self._explain_memory():
                self._losses.append(self.step(step))
            if self.is_point(step):
                on_point(self._point(step))
            is_late = self._seconds - self._kept_at > _MOST_SECONDS
            if step < self.n_steps and (is_late or step % self.settings.checkpoint_every == 0):
                self._keep(step)
            try:
                meter.add(self.phase, work)
            except AuditCancelled:
                if step < self.n_steps:
                    self._keep(step)
                    raise

    @property
    def _seconds(self) -> float:
        """Seconds of training, including those before a pause."""
        return round(time.monotonic() - self._began, 3)

    def _point(self, step: int) -> LossPoint:
        loss = self._mean_loss()
        self._losses = []
        with self._explain_memory():
            measured = self.measured(step)
        figures = [value for value in measured.values() if value is not None]
        _refuse_no_number(all(map(math.isfinite, figures)))
        rate = self.settings.highest_rate * (self._rate_factor(step) if step else 0)
        point = LossPoint(
            step=step, loss=loss, learning_rate=rate, seconds=self._seconds, **measured
        )
        append_point(self.folder, point)
        return point

    def _mean_loss(self) -> float | None:
        """Return the mean loss since the last point; None if there was no step."""
        if not self._losses:
            return None
        # One transfer for all steps since the last point, so that steps do not wait for a GPU.
        losses = torch.stack(self._losses).double().cpu()
        _refuse_no_number(bool(torch.isfinite(losses).all()))
        return float(losses[:, 0].mean())

    @contextmanager
    def _explain_memory(self) -> Iterator[None]:
        """Turn an out-of-memory error into an AuditError that says what to try."""
        try:
            yield
            return
        except (MemoryError, torch.OutOfMemoryError):
            pass
        except RuntimeError as error:
            if "alloc" not in str(error).lower() or "memory" not in str(error).lower():
                raise
        raise AuditError(
            "Memory ran out with {n} rows a pass.",
            where="training",
            do="Set `micro_batch` lower, or take shorter rows or a smaller model; a language model "
            "can also be tuned with an adapter or gradient checkpointing.",
            n=self.settings.micro_batch,
        )

    def _keep(self, step: int) -> None:
        """Write a checkpoint; if that fails, the previous one remains."""
        self._mean_loss()  # weights that are NaN or infinite are not stored
        weights = select_trained_parameters(self.model)
        moments = {  # a parameter that does not influence the loss has none
            f"{name}|{kind}": value
            for name, parameter in weights.items()
            for kind, value in self.optimizer.state.get(parameter, {}).items()
        }
        state = CheckpointState(step=step, seconds=self._seconds, key=self._key)
        place = private_folder(self.folder / _CHECKPOINTS) / f"step-{step}"
        with whole_folder(place, replaces=True) as partial:
            save_file(copy_to_main_memory(weights), partial / _WEIGHTS)
            save_file(copy_to_main_memory(moments), partial / _OPTIMIZER)
            write_whole(partial / _STATE, state.to_bytes())
        self._kept_at = state.seconds
        for old in self._checkpoints()[_N_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)

    def _resume(self) -> CheckpointState:
        """Load the newest readable checkpoint and return its state; step 0 if there is none."""
        parameters, checkpoints = select_trained_parameters(self.model), self._checkpoints()
        for path in checkpoints:
            try:
                state = CheckpointState.read((path / _STATE).read_bytes(), where=_CHECKPOINTS)
                weights, moments = load_file(path / _WEIGHTS), load_file(path / _OPTIMIZER)
            except (AuditError, OSError, ValueError, SafetensorError):
                continue
            if state.key != self._key:
                continue
            for name, parameter in parameters.items():
                parameter.data.copy_(weights[name])
            for place, value in moments.items():
                name, _, kind = place.partition("|")
                moment = value.to(parameters[name].device, copy=True)
                self.optimizer.state[parameters[name]][kind] = moment
            return state
        if checkpoints:
            raise AuditError(
                "The checkpoints of this training cannot be read.",
                where="checkpoint",
                do="Begin in another folder.",
            )
        return CheckpointState(key=self._key)

    def _checkpoints(self) -> list[Path]:
        """Return the checkpoints, the newest first."""
        paths = (self.folder / _CHECKPOINTS).glob("step-*")
        return sorted(paths, key=lambda path: -int(path.name.removeprefix("step-")))


def _refuse_no_number(is_number: bool) -> None:
    if not is_number:
        raise AuditError(
            "The loss is no longer a number: the training has diverged.",
            where="training",
            do="Begin again with a lower learning rate or a longer warm-up, or in float32.",
        )


def _claim(folder: Path, facts: Mapping[str, JSON], *, result: str) -> None:
    """Mark a folder as the folder of this training, or check that it is.

    Once its result exists, the training may be requested on other hardware.
    """
    if not any((folder / name).exists() for name in (TRAINING, result)):
        text = json.dumps(facts, ensure_ascii=True, indent=1, allow_nan=False)
        write_whole(folder / TRAINING, text.encode("ascii"))
        return
    facts_before: dict[str, JsonValue] = {}
    with suppress(OSError, ValueError, TypeError):
        facts_before = dict(json.loads((folder / TRAINING).read_bytes()))
    if facts_before.get("key") != facts["key"]:
        raise AuditError(
            "The folder holds another training: other notes, another model or other settings.",
            where="out",
            do="Choose another folder, or ask for what was begun there.",
        )
    first_hardware, hardware = (
        " / ".join(str(training_facts.get(name)) for name in _PLACE if name in facts)
        for training_facts in (facts_before, facts)
    )
    if first_hardware != hardware and not (folder / result).exists():
        raise AuditError(
            "This training was begun on {begun}; here it would go on on {here}.",
            where="out",
            do="Go on where it was begun, or begin in another folder.",
            begun=first_hardware,
            here=hardware,
        )


def copy_to_main_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors in main memory, contiguous."""
    return {
        name: tensor.detach().to("cpu", copy=False).contiguous() for name, tensor in tensors.items()
    }
