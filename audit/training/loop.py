"""train: the one path from notes and a general model to a trained one, killed and gone on with.

Comes in: an order. Goes out: a folder with the model, its loss curve and what it was made of.

Source: Nakamura et al., section 3.3; ClinicalBERT (Alsentzer et al. 2019).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from audit.corpus.truth import ListedNotes, read_listed
from audit.errors import AuditCancelled, AuditError
from audit.models.forward import body_of, exact_kernels, logits_at
from audit.models.inspect import CONFIG_FILE, SINGLE_FILE, expected_shapes, read_model_files
from audit.models.load import LoadedModel, load_model, pick_device
from audit.models.tokenizer import tokenizer_settings
from audit.notes.read import Note, NoteSource, open_notes
from audit.progress import Meter, Progress, ProgressListener, StopQuestion
from audit.rng import generator, torch_seed
from audit.shelf import alone, private_folder, whole_folder, write_whole
from audit.training.config import (
    WHERE,
    LossPoint,
    TrainSettings,
    append_point,
    cut_log,
    point_every,
)
from audit.training.kept import (
    MODEL,
    TRAINING,
    Snapshot,
    TrainingFacts,
    TrainOrder,
    TrainResult,
    read_facts,
    read_training,
    snapshot_name,
    write_facts,
)
from audit.training.tokens import (
    TEXT_VERSION,
    HeldOut,
    Ids,
    Rows,
    SpecialIds,
    Stream,
    TokenFile,
    TokenWriter,
    content_digest,
    held_out,
    masked_rows,
    open_tokens,
    prepared_sentences,
    split_notes,
)

if TYPE_CHECKING:
    from audit.models.inspect import ModelFiles


CHECKPOINTS = "checkpoint"
_WEIGHTS, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_STEP = re.compile(r"step-(\d+)")
_N_KEPT = 2


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint says of itself.

    Attributes
    ----------
    step
        Finished steps.
    seconds
        Of training until then.
    key
        Of the training.
    """

    step: int
    seconds: float
    key: str


def save_checkpoint(
    run_dir: Path, state: CheckpointState, *, model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Keep what a training needs to go on.

    Raises
    ------
    AuditError
        If it cannot be written; the last checkpoint is still there.
    """
    folder = private_folder(run_dir / CHECKPOINTS)
    with whole_folder(folder / f"step-{state.step}", replaces=True) as partial:
        save_file(own_tensors(dict(model.named_parameters())), partial / _WEIGHTS)
        save_file(own_tensors(_optimizer_tensors(model, optimizer)), partial / _OPTIMIZER)
        write_whole(partial / _STATE, json.dumps(asdict(state)).encode("ascii"))
    for _, old in _checkpoints(run_dir)[_N_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(
    run_dir: Path, *, key: str, model: nn.Module, optimizer: torch.optim.Optimizer
) -> CheckpointState | None:
    """Put the newest readable checkpoint into model and optimizer; None where there is none.

    Raises
    ------
    AuditError
        If there are checkpoints and none can be read.
    """
    found = _checkpoints(run_dir)
    for _, folder in found:
        try:
            state = CheckpointState(**json.loads((folder / _STATE).read_text(encoding="ascii")))
            weights = load_file(folder / _WEIGHTS)
            moments = load_file(folder / _OPTIMIZER)
        except (OSError, ValueError, TypeError, SafetensorError):
            continue
        if state.key != key or not _fits(weights, model):
            continue
        _put_weights(model, weights)
        _put_moments(model, optimizer, moments)
        return state
    if found:
        raise AuditError(
            "The checkpoints of this training cannot be read.",
            where="checkpoint",
            do="Begin in another folder.",
        )
    return None


def forget_checkpoints(run_dir: Path) -> None:
    """Remove all checkpoints of a training that is whole."""
    shutil.rmtree(run_dir / CHECKPOINTS, ignore_errors=True)


def own_tensors(tensors: dict[str, Any]) -> dict[str, Tensor]:
    """Return tensors in main memory, each with its own storage."""
    return {
        name: tensor.detach().to("cpu", copy=False).contiguous() for name, tensor in tensors.items()
    }


def _checkpoints(run_dir: Path) -> list[tuple[int, Path]]:
    folder = run_dir / CHECKPOINTS
    paths = folder.iterdir() if folder.is_dir() else ()
    found = [(int(m[1]), path) for path in paths if (m := _STEP.fullmatch(path.name))]
    return sorted(found, reverse=True)


def _fits(weights: dict[str, Tensor], model: nn.Module) -> bool:
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    return shapes == {name: tensor.shape for name, tensor in weights.items()}


def _put_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    # A parameter that the loss does not reach has no state.
    return {
        f"{name}|{kind}": value
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
    }


def _put_moments(
    model: nn.Module, optimizer: torch.optim.Optimizer, moments: dict[str, Tensor]
) -> None:
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for name, value in moments.items():
        parameter_name, _, kind = name.partition("|")
        parameter = parameters[parameter_name]
        optimizer.state[parameter][kind] = value.to(parameter.device, copy=True)


TOKENIZE = "tokenizing the notes"
_BATCH_CHARS = 500_000
_CHUNK_BYTES = 1 << 20
_NO_TOKENS = "The notes hold no text to train on."


def tokenized(
    sources: Sequence[NoteSource],
    tokenizer: Any,
    *,
    store: Path,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> TokenFile:
    """Return the tokens of notes, made now unless they are kept.

    Parameters
    ----------
    sources
        Read in this order.
    store
        Folder of token files; each has its own folder in it, named by its key.
    progress, should_stop
        The unit is bytes of the sources.

    Raises
    ------
    AuditError
        If a source cannot be read, holds no text, or nothing can be written.
    AuditCancelled
        If the person asked to stop.
    """
    meter = Meter(
        {TOKENIZE: float(2 * sum(source.n_bytes for source in sources))},
        listener=progress,
        should_stop=should_stop,
    )
    key = _tokenizing_key(sources, tokenizer, meter=meter)
    folder = private_folder(store) / key[:32]
    kept = open_tokens(folder, key=key)
    if kept is None:
        with whole_folder(folder, replaces=True) as partial_folder:
            _write(sources, tokenizer, folder=partial_folder, key=key, meter=meter)
        kept = open_tokens(folder, key=key)
    meter.finish(TOKENIZE)
    if kept is None or not kept.counts.n_tokens:
        raise AuditError(_NO_TOKENS, where="notes")
    return kept


def special_ids_out(ids: list[int], *, special: frozenset[int], unknown: int) -> list[int]:
    """Return ids with the special tokens that a text spells out ("[MASK]") made unknown words."""
    if special.isdisjoint(ids):
        return ids
    return [unknown if token in special else token for token in ids]


def _write(
    sources: Sequence[NoteSource], tokenizer: Any, *, folder: Path, key: str, meter: Meter
) -> None:
    special = frozenset(tokenizer.all_special_ids)
    unknown = tokenizer.unk_token_id
    writer = TokenWriter(folder, sep=tokenizer.sep_token_id, n_vocabulary=len(tokenizer))
    try:
        for source in sources:
            for batch in _batches(source, meter):
                notes = [note for note in batch if isinstance(note, Note)]
                found = iter(_ids(notes, tokenizer))
                for note in batch:
                    if not isinstance(note, Note):
                        writer.refuse()
                        continue
                    plain = special_ids_out(next(found), special=special, unknown=unknown)
                    writer.add(plain, patient=note.patient_id)
        writer.finish(key=key)
    finally:
        writer.close()


def _batches(source: NoteSource, meter: Meter) -> Iterator[list[object]]:
    batch: list[object] = []
    n_chars = 0
    for note in source.read(on_bytes=partial(meter.add, TOKENIZE)):
        batch.append(note)
        n_chars += len(note.text) if isinstance(note, Note) else 0
        if n_chars >= _BATCH_CHARS:
            yield batch
            batch, n_chars = [], 0
    if batch:
        yield batch


def _ids(notes: Sequence[Note], tokenizer: Any) -> list[list[int]]:
    """Return each note's ids; sentences are cut one by one, so that no input is long."""
    pieces: list[str] = []
    ends: list[int] = []
    for note in notes:
        sentences = prepared_sentences(note.text)
        # A blank before all but the first: byte-level vocabularies tell words by it.
        pieces += [f" {s}" if at else s for at, s in enumerate(sentences)]
        ends.append(len(pieces))
    cut = _cut(pieces, tokenizer)
    starts = [0, *ends[:-1]]
    return [[i for piece in cut[a:b] for i in piece] for a, b in zip(starts, ends, strict=True)]


def _cut(pieces: list[str], tokenizer: Any) -> list[list[int]]:
    if not pieces:
        return []
    if not tokenizer.is_fast:
        return [list(ids) for ids in tokenizer(pieces, add_special_tokens=False)["input_ids"]]
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    with _all_cores():
        found = backend.encode_batch_fast(pieces, add_special_tokens=False)
        return [encoding.ids for encoding in found]


@contextmanager
def _all_cores() -> Iterator[None]:
    # The commands switch the library's threads off, since it warns of forks that never come here.
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _tokenizing_key(sources: Sequence[NoteSource], tokenizer: Any, *, meter: Meter) -> str:
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items())).encode()
    content = {
        "text": TEXT_VERSION,
        "vocabulary": hashlib.sha256(vocabulary).hexdigest(),
        "tokenizer": dict(tokenizer_settings(tokenizer)),
        "notes": [
            {
                "kind": source.kind,
                "codec": source.codec,
                "columns": {k: list(v) for k, v in source.columns.items()},
                "digest": notes_digest(source.path, meter=meter),
            }
            for source in sources
        ],
    }
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def notes_digest(path: Path, *, meter: Meter | None = None) -> str:
    """Return the SHA-256 of a file of notes, or of all text files of a folder with their names.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    digest = hashlib.sha256()
    is_folder = path.is_dir()
    files = sorted(p for p in path.rglob("*.txt") if p.is_file()) if is_folder else [path]
    try:
        for file in files:
            if is_folder:
                digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    if meter is not None:
                        meter.add(TOKENIZE, len(chunk))
    except OSError as error:
        raise AuditError(f"The notes cannot be read ({error.strerror}).", where="notes") from None
    return digest.hexdigest()


_FAST_BFLOAT16 = ("avx512_bf16", "amx_bf16")
_CPU_FACTS = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Hardware:
    """What a training runs on.

    Attributes
    ----------
    device
        "cpu" or "cuda".
    precision
        "float32", or "bfloat16" for what is multiplied; weights are float32 in both.
    kernels
        "onednn" or "default".
    """

    device: str
    precision: str
    kernels: str

    def numbers(self) -> AbstractContextManager[object]:
        """Return a context in which the forward pass has its number type."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device, dtype=torch.bfloat16)


def pick_precision(wanted: str, *, device: str) -> str:
    """Return the number type: "auto" is bfloat16 only where the hardware multiplies it faster."""
    if wanted != "auto":
        return wanted
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    return "bfloat16" if multiplies_bfloat16() else "float32"


def multiplies_bfloat16(facts: Path = _CPU_FACTS) -> bool:
    """Whether this processor has instructions for bfloat16."""
    try:
        text = facts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return not set(_FAST_BFLOAT16).isdisjoint(flags.split())


@contextmanager
def in_force(general: LoadedModel, *, device: str, precision: str) -> Iterator[Hardware]:
    """Choose kernels for a training that starts from `general`, and keep to them.

    They are asked of the general model, also where the training goes on from a checkpoint: so the
    same are chosen again.
    """
    if precision != "float32":
        yield Hardware(device, precision, "default")
        return
    mask_id = general.tokenizer.mask_token_id
    with exact_kernels([general.model], ids=_trial_rows(general), mask_id=mask_id) as kernels:
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


def _trial_rows(general: LoadedModel) -> Tensor:
    """Return rows [4, 8] in which every other token is a mask."""
    device = next(general.model.parameters()).device
    n, mask = len(general.tokenizer), general.tokenizer.mask_token_id
    rows = [[mask if k % 2 else (37 * row + k) % n for k in range(8)] for row in range(4)]
    plain = [[i if i != mask or k % 2 else 0 for k, i in enumerate(row)] for row in rows]
    return torch.tensor(plain, device=device)


_BETAS = (0.9, 0.999)
_EPSILON = 1e-6  # BERT's; PyTorch's own is 1e-8


class Learner:
    """A model and its optimizer.

    Parameters
    ----------
    model
        Trained in place; on `hardware.device`.
    n_steps
        Steps of the whole training: the learning rate follows from it.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: TrainSettings,
        special: SpecialIds,
        hardware: Hardware,
        n_steps: int,
    ) -> None:
        self.model = model
        self.settings = settings
        self.special = special
        self.hardware = hardware
        self.n_steps = n_steps
        self.optimizer = torch.optim.AdamW(
            _groups(model, settings), betas=_BETAS, eps=_EPSILON, fused=True
        )

    def step(self, step: int, rows: Ids) -> tuple[Tensor, Tensor]:
        """Learn from the rows [B, L] of a step, 1 and on.

        Returns
        -------
        loss, norm
            Mean loss in nats a token and norm of the gradient, on the device: not waited for.
        """
        settings = self.settings
        rng = generator(settings.seed, "row masks", step)
        masked = masked_rows(rows, special=self.special, share=settings.mask_share, rng=rng)
        ids, positions, targets = (
            self._sent(part) for part in (masked.ids, masked.positions, masked.targets)
        )
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=ids.device)
        n_passes = settings.batch // settings.micro_batch
        for number in range(n_passes):
            part = slice(number * settings.micro_batch, (number + 1) * settings.micro_batch)
            torch.manual_seed(torch_seed(settings.seed, "dropout", step, number))
            loss = self._loss(ids[part], positions[part], targets[part]) / n_passes
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest_lr"] * settings.rate_factor(step, n_steps=self.n_steps)
        self.optimizer.step()
        return total, norm

    def learning_rate(self, step: int) -> float:
        """Return the encoder's learning rate in a step; 0 before the first."""
        factor = self.settings.rate_factor(step, n_steps=self.n_steps) if step else 0.0
        return self.settings.learning_rate * factor

    def loss_of(self, ids: Ids, positions: Ids, targets: Ids) -> float:
        """Return the mean loss of masked rows [N, L] in evaluation mode, in nats a token."""
        self.model.eval()
        total = 0.0
        n_rows = self.settings.micro_batch
        with torch.inference_mode():
            for start in range(0, len(ids), n_rows):
                parts = (part[start : start + n_rows] for part in (ids, positions, targets))
                sent = [self._sent(part) for part in parts]
                total += float(self._loss(*sent)) * len(sent[0])
        return total / len(ids)

    def _loss(self, ids: Tensor, positions: Tensor, targets: Tensor) -> Tensor:
        with self.hardware.numbers():
            logits = logits_at(self.model, ids, positions=positions)  # [B, M, V]
        return functional.cross_entropy(logits.flatten(end_dim=1).float(), targets.flatten())

    def _sent(self, part: Ids) -> Tensor:
        tensor = torch.from_numpy(part)
        if self.hardware.device == "cpu":
            return tensor
        return tensor.pin_memory().to(self.hardware.device, non_blocking=True)


def _groups(model: nn.Module, settings: TrainSettings) -> list[dict[str, object]]:
    """Return the parameters by learning rate and weight decay; vectors have no decay."""
    in_body = {id(parameter) for parameter in body_of(model).parameters()}
    rates = (settings.learning_rate, settings.head_learning_rate or settings.learning_rate)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        rate = rates[id(parameter) not in in_body]
        decay = settings.weight_decay if parameter.dim() > 1 else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    return [
        {"params": found, "lr": rate, "highest_lr": rate, "weight_decay": decay}
        for (rate, decay), found in groups.items()
    ]


_CONFIG = "config.json"
_MAX_BYTES = 64_000_000


def write_model(model: nn.Module, path: Path, *, parent: Path) -> None:
    """Write a model's directory, whole or not at all.

    Parameters
    ----------
    parent
        Directory of the model that it was trained from: its config.json and the files of its
        tokenizer are copied as they are.

    Raises
    ------
    AuditError
        If the parent can no longer be read, or the directory cannot be written.
    """
    files = read_model_files(parent)
    copied = dict(files.tokenizer.present)
    for name in (_CONFIG, CONFIG_FILE):
        if name in files.folder.files:
            copied[name] = files.folder.read(name, max_bytes=_MAX_BYTES)
    with whole_folder(path, replaces=True) as partial:
        for name, data in copied.items():
            write_whole(partial / name, data)
        save_file(_named(model, files=files), partial / SINGLE_FILE, metadata={"format": "pt"})


def fresh_weights(model: nn.Module, *, seed: int) -> nn.Module:
    """Return a model of the same shape with new weights, on the CPU, in training precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "fresh weights"))
        fresh: nn.Module = type(model)(model.config)
    return fresh


def _named(model: nn.Module, *, files: ModelFiles) -> dict[str, Tensor]:
    """Return the model's tensors by name, one that has two names under its first."""
    state = own_tensors(model.state_dict())
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name in expected_shapes(files.config):
        if state[name].data_ptr() not in seen:
            seen.add(state[name].data_ptr())
            found[name] = state[name]
    return found


TRAIN = "training"
MOST_SECONDS = 600.0
"""Longest time between two checkpoints: slow machines lose no hours."""
PointListener = Callable[[LossPoint], None]


@dataclass(frozen=True, eq=False)
class Course:
    """Everything that a training needs while it runs.

    Attributes
    ----------
    parent
        Directory of the model that it was started from.
    on_point
        Told every point of the loss curve.
    """

    learner: Learner
    rows: Rows
    held_out: HeldOut | None
    facts: TrainingFacts
    run_dir: Path
    parent: Path
    meter: Meter
    on_point: PointListener

    def run(self) -> None:
        """Train to the last step.

        Raises
        ------
        AuditError
            If the loss is no longer a number, memory runs out, or nothing can be written; the last
            checkpoint is kept.
        AuditCancelled
            If the person asked to stop; a checkpoint is written first.
        """
        first, seconds = self._resumed()
        clock = _Clock(seconds)
        losses: list[tuple[Tensor, Tensor]] = []
        if not first:
            self._point(0, losses, clock=clock)
        for step in range(first + 1, self.facts.n_steps + 1):
            with _memory_watched(self.learner):
                losses.append(self.learner.step(step, self.rows.of_step(step)))
            if self._is_point(step):
                self._point(step, losses, clock=clock)
                losses = []
            if step in self.facts.snapshots:
                name = snapshot_name(step)
                write_model(self.learner.model, self.run_dir / name, parent=self.parent)
            if step < self.facts.n_steps and self._is_checkpoint(step, clock):
                self._keep(step, losses, clock)
            try:
                self.meter.add(TRAIN, 1.0)
            except AuditCancelled:
                if step < self.facts.n_steps:
                    self._keep(step, losses, clock)
                    raise

    def _resumed(self) -> tuple[int, float]:
        learner = self.learner
        state = load_checkpoint(
            self.run_dir, key=self.facts.key, model=learner.model, optimizer=learner.optimizer
        )
        if state is None:
            cut_log(self.run_dir, step=-1)
            return 0, 0.0
        cut_log(self.run_dir, step=state.step)
        self.meter.add(TRAIN, float(state.step), is_cached=True)
        return state.step, state.seconds

    def _is_point(self, step: int) -> bool:
        settings, n_steps = self.learner.settings, self.facts.n_steps
        every = (
            point_every(n_steps), settings.checkpoint_every, settings.evaluate_every,
            n_steps,
        )  # fmt: skip
        return any(step % n == 0 for n in every) or step in self.facts.snapshots

    def _point(self, step: int, losses: list[tuple[Tensor, Tensor]], *, clock: _Clock) -> None:
        loss = self._mean(losses) if losses else None
        settings = self.learner.settings
        is_due = step % settings.evaluate_every == 0 or step == self.facts.n_steps
        held_out = None
        if self.held_out is not None and is_due:
            rows = self.held_out.rows
            with _memory_watched(self.learner):
                held_out = self.learner.loss_of(rows.ids, rows.positions, rows.targets)
            _refuse_no_number(math.isfinite(held_out), has_begun=step > 0)
        rate = self.learner.learning_rate(step)
        point = LossPoint(step, loss, held_out, rate, round(clock.seconds, 3))
        append_point(self.run_dir, point)
        self.on_point(point)

    def _mean(self, losses: list[tuple[Tensor, Tensor]]) -> float:
        # One transfer for all steps since the last point: a GPU is not waited for at each.
        told = torch.stack([torch.stack(pair) for pair in losses]).double().cpu()
        _refuse_no_number(bool(torch.isfinite(told).all()), has_begun=True)
        return float(told[:, 0].mean())

    def _is_checkpoint(self, step: int, clock: _Clock) -> bool:
        is_late = clock.seconds - clock.kept_at > MOST_SECONDS
        return is_late or step % self.learner.settings.checkpoint_every == 0

    def _keep(self, step: int, losses: list[tuple[Tensor, Tensor]], clock: _Clock) -> None:
        if losses:
            self._mean(losses)  # weights that are no numbers are not kept
        state = CheckpointState(step, clock.seconds, self.facts.key)
        learner = self.learner
        save_checkpoint(self.run_dir, state, model=learner.model, optimizer=learner.optimizer)
        clock.kept_at = clock.seconds


class _Clock:
    """Seconds of training, those before a pause included."""

    def __init__(self, before: float) -> None:
        self._begin = time.monotonic() - before
        self.kept_at = before

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin


def _refuse_no_number(is_number: bool, *, has_begun: bool) -> None:
    if not is_number:
        raise AuditError(
            "The loss is no longer a number: the training has diverged."
            if has_begun
            else "The loss of the general model on these notes is not a number.",
            where="training",
            do="Begin again with a lower learning rate or a longer warm-up, or in float32.",
        )


@contextmanager
def _memory_watched(learner: Learner) -> Iterator[None]:
    """Turn running out of memory into a sentence that says what to try."""
    n = learner.settings.micro_batch
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        pass
    except RuntimeError as error:
        if "alloc" not in str(error).lower() or "memory" not in str(error).lower():
            raise
    else:
        return
    smaller = max(k for k in range(1, max(2, n // 2 + 1)) if n % k == 0)
    raise AuditError(
        f"Memory ran out with {n} rows a pass.",
        where="training",
        do=f"Try `micro_batch` {smaller}." if n > 1 else "Take shorter rows or a smaller model.",
    )


_TRAINING_VERSION = 1


def train(
    order: TrainOrder,
    *,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> TrainResult:
    """Train a model, or go on with a training that was stopped or killed.

    Raises
    ------
    AuditError
        If the model or the notes are refused, the folder holds another training, memory runs out,
        or the loss is no longer a number.
    AuditCancelled
        If the person asked to stop; a checkpoint is kept and the same order goes on from there.
    """
    device = pick_device(order.device)
    general = load_model(order.general, device=device)
    _refuse_long_rows(order, general)
    with alone(order.out), torch.random.fork_rng(), same_sums(device):
        sources = tuple(open_notes(path, columns=order.columns) for path in order.notes)
        tokens = tokenized(
            sources,
            general.tokenizer,
            store=order.token_store or order.out / "tokens",
            progress=_part_of_all(TOKENIZE, progress),
            should_stop=should_stop,
        )
        precision = pick_precision(order.settings.precision, device=device)
        with in_force(general, device=device, precision=precision) as hardware:
            task = _task(order, general, tokens=tokens, hardware=hardware)
            if not (order.out / MODEL).is_dir():
                meter = Meter(
                    {TRAIN: float(task.facts.n_steps)},
                    listener=_part_of_all(TRAIN, progress),
                    should_stop=should_stop,
                )
                course = _course(order, task, general, hardware, meter=meter, on_point=on_point)
                course.run()
                write_model(course.learner.model, order.out / MODEL, parent=order.general)
    forget_checkpoints(order.out)
    return _result(order.out, task.facts)


@dataclass(frozen=True, eq=False)
class _Task:
    facts: TrainingFacts
    rows: Rows
    held_out: HeldOut | None
    special: SpecialIds


def _task(
    order: TrainOrder, general: LoadedModel, *, tokens: TokenFile, hardware: Hardware
) -> _Task:
    """Say what the training is; refuse a folder that holds another one."""
    settings = order.settings
    special = _special_ids(general)
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
    facts = replace(facts, key=_train_key(facts, tokens=tokens, listed=listed))
    before = _same_training(order.out, facts)
    if before is None:
        write_facts(order.out, facts)
    return _Task(before or facts, rows, measured, special)


def _course(
    order: TrainOrder,
    task: _Task,
    general: LoadedModel,
    hardware: Hardware,
    *,
    meter: Meter,
    on_point: PointListener,
) -> Course:
    model = general.model
    if order.settings.from_scratch:
        model = fresh_weights(model, seed=order.settings.seed).to(hardware.device)
    learner = Learner(
        model,
        settings=order.settings,
        special=task.special,
        hardware=hardware,
        n_steps=task.facts.n_steps,
    )
    return Course(
        learner, task.rows, task.held_out, task.facts, order.out, order.general, meter, on_point
    )


def _same_training(out: Path, facts: TrainingFacts) -> TrainingFacts | None:
    """Return what the folder holds of this very training; None where it is new.

    Raises
    ------
    AuditError
        If the folder holds another training.
    """
    before = read_facts(out)
    if before is None and not (out / TRAINING).exists() and not (out / MODEL).exists():
        return None
    if before is None or before.key != facts.key:
        raise AuditError(
            "The folder holds another training: other notes, another model or other settings.",
            where="out",
            do="Choose another folder, or ask for what was begun there.",
        )
    if not (out / MODEL).is_dir() and _place(before) != _place(facts):
        raise AuditError(
            f"This training was begun on {_place(before)}; here it would go on on {_place(facts)}.",
            where="out",
            do="Go on where it was begun, or begin in another folder.",
        )
    return before


def _place(facts: TrainingFacts) -> str:
    return f"{facts.device} in {facts.precision} with {facts.kernels} kernels"


def _train_key(facts: TrainingFacts, *, tokens: TokenFile, listed: ListedNotes | None) -> str:
    content = {
        "version": _TRAINING_VERSION,
        "parent": facts.parent_digest,
        "tokens": content_digest(tokens),
        "settings": facts.settings.decisive(),
        "snapshots": list(facts.snapshots),
    }
    if listed is not None:
        content["listed"] = listed.digest
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _special_ids(general: LoadedModel) -> SpecialIds:
    tokenizer = general.tokenizer
    return SpecialIds(
        cls=tokenizer.cls_token_id,
        sep=tokenizer.sep_token_id,
        mask=tokenizer.mask_token_id,
        sentence_ends=(),
        n_vocabulary=len(tokenizer),
    )


def _refuse_long_rows(order: TrainOrder, general: LoadedModel) -> None:
    if order.settings.n_tokens > general.n_positions:
        raise AuditError(
            f"Rows of {order.settings.n_tokens} tokens are longer than the {general.n_positions} "
            "that this model holds.",
            where=WHERE,
            do="Set `n_tokens` lower.",
        )


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
