"""A language model that learns from notes: held-out losses, copies on the way, and its files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self, TypeVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from audit.models.chat_template import CHAT_TEMPLATE_FILE
from audit.models.inspect import read_model_files
from audit.models.layouts import compute_expected_shapes
from audit.models.model_folder import SINGLE_FILE, TOKENIZER_CONFIG_FILE
from audit.shelf import whole_folder, write_whole
from audit.training.config import TrainSettings
from audit.training.loop import Hardware, Learner, copy_to_main_memory
from audit.training.tokens import HeldOut, Ids
from audit.training.trainings import MODEL, snapshot_name

_CONFIG = "config.json"
_MAX_BYTES = 64_000_000
ModelWriter = Callable[[nn.Module, Path], None]
"""Writes a model into a folder, completely or not at all."""


class TokenRows(Protocol):
    """Rows of tokens of a step or of a measurement."""

    @property
    def n_asked(self) -> int:
        """Number of predicted tokens."""

    def parts(self, n: int) -> Iterator[Self]:
        """Yield `n` rows at a time."""


Part = TypeVar("Part", bound=TokenRows)


class NotesLearner(Learner[Part]):
    """A language model, its held-out rows, and the steps after which a copy is stored.

    `write` stores the model, after each of the steps `copies` and at the end.
    """

    settings: TrainSettings

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: TrainSettings,
        hardware: Hardware,
        n_steps: int,
        optimizer: torch.optim.Optimizer,
        held_out: HeldOut[Part] | None,
        copies: Sequence[int],
        write: ModelWriter,
    ) -> None:
        super().__init__(
            model, settings=settings, hardware=hardware, n_steps=n_steps, optimizer=optimizer
        )
        self.held_out, self.copies, self._write = held_out, copies, write
        self.n_step_tokens = settings.batch * settings.n_tokens

    @abstractmethod
    def compute_mean_loss(self, part: Part) -> Tensor:
        """Return the mean loss of the predicted tokens of some rows, in nats per token."""

    def is_point(self, step: int) -> bool:
        """Return whether the curve has a point: also for held-out losses and stored copies."""
        is_asked = step % self.settings.evaluate_every == 0 or step in self.copies
        return is_asked or super().is_point(step)

    def measured(self, step: int) -> Mapping[str, float | None]:
        """Store a copy of the model, and measure the held-out rows, if either is due."""
        is_copied = step in self.copies
        if is_copied:
            self._write(self.model, self.folder / snapshot_name(step))
        is_due = step % self.settings.evaluate_every == 0 or step == self.n_steps
        if self.held_out is None or not (is_due or is_copied):
            return {}
        self.model.eval()
        total, rows = 0.0, self.held_out.rows
        with torch.inference_mode():
            for part in rows.parts(self.settings.micro_batch):
                total += float(self.compute_mean_loss(part)) * part.n_asked
        return {"held_out": total / rows.n_asked}

    def finish(self) -> None:
        """Write the model."""
        self._write(self.model, self.folder / MODEL)

    def move_to_device(self, array: Ids) -> Tensor:
        """Return an array as a tensor on the device of the training."""
        tensor = torch.from_numpy(array)
        if self.hardware.device == "cpu":
            return tensor
        return tensor.pin_memory().to(self.hardware.device, non_blocking=True)


def write_model(model: nn.Module, path: Path, *, parent: Path) -> None:
    """Write a model's directory completely or not at all.

    The config.json, the tokenizer files and the chat template of the parent, from which the model
    was trained, are copied unchanged.
    """
    files = read_model_files(parent)
    copied = dict(files.tokenizer.all_files)
    for name in (_CONFIG, TOKENIZER_CONFIG_FILE, CHAT_TEMPLATE_FILE):
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
