"""Training of a language model: from notes and a general model to a trained one, or an adapter.

Input: a task. Output: a folder with the model, its loss curve and the facts of its training. The
kind of the general model decides what is learnt: masked tokens, or the next ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from audit.corpus.truth import CANARY, corpus_notes, read_listed
from audit.errors import AuditError
from audit.models.forward import choose_exact_kernels, pick_precision
from audit.models.inspect import inspect_model
from audit.models.load import LoadedModel, load_model, pick_device
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
from audit.rng import torch_seed
from audit.shelf import JSON, digest_json, hold_training_folder, make_time_stamp
from audit.task import queue_of
from audit.training.causal_lm import CausalLearner, add_adapter, write_adapter
from audit.training.config import TrainSettings, read_process_number
from audit.training.framing import Framing, PackedRows, draw_packed_held_out, make_framing
from audit.training.loop import (
    VERSIONS,
    Hardware,
    PointListener,
    join_processes,
    plan_steps,
    wait_for_first,
)
from audit.training.masked_lm import MaskedLearner
from audit.training.notes_learner import ModelWriter, NotesLearner, write_model
from audit.training.tokens import (
    TOKENIZE,
    Rows,
    SpecialIds,
    Split,
    Stream,
    TokenFile,
    draw_held_out,
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
)

_VERSION = 2


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
        precision = pick_precision(settings.precision, device=device, is_cpu_asked=True)
        general = _load_general(task, device=device, precision=precision)
        meter.finish(LOADING)
        framing = None
        if settings.is_causal:
            framing = make_framing(general.tokenizer, settings, model=task.general)
        with wait_for_first(process, n_processes):
            tokens = read_or_make_tokens(
                open_notes(notes, columns=dict(task.columns)),
                general.tokenizer,
                store=(notes.parent if task.corpus_id else folder) / "tokens",
                encoder=framing,
                progress=meter.make_listener(TOKENIZE),
                should_stop=should_stop,
            )
        meter.finish(TOKENIZE)
        # Kernels are chosen with the general model, also if the training resumes from a checkpoint.
        with _choose_kernels(general, device=device, precision=precision) as kernels:
            hardware = Hardware(device, precision, kernels, process, n_processes)
            facts, learner = _prepare(
                task, general, tokens=tokens, framing=framing, hardware=hardware
            )
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
    steps = plan_steps(NotesLearner.phase, n_steps, n_tokens, size, hardware)
    return (
        Phase(LOADING, 1, 5.0, f"loading a model {hardware}", size),
        combine_phases(TOKENIZE, [plan_tokenizing(source)], kind=TOKENIZE),
        combine_phases(steps.name, [steps], kind=steps.name),
    )


def _load_general(task: PretrainTask, *, device: str, precision: str) -> LoadedModel:
    """Load the model to start from; refuse one of another kind, or with too few positions."""
    # Nothing of an adapter's base learns, so it needs no more digits than its products.
    dtype = getattr(torch, precision) if task.settings.lora else torch.float32
    general = load_model(task.general, device=device, dtype=dtype)
    task.settings.refuse_other_kind(is_causal=general.config.is_causal)
    task.settings.refuse_longer(general.n_positions)
    return general


def _choose_kernels(
    general: LoadedModel, *, device: str, precision: str
) -> AbstractContextManager[str]:
    """Return a context that yields the kernels of a training; causal models have the default."""
    if general.config.is_causal:
        return nullcontext("default")
    return choose_exact_kernels(
        [general.model], tokenizer=general.tokenizer, device=device, dtype=precision
    )


def _prepare(
    task: PretrainTask,
    general: LoadedModel,
    *,
    tokens: TokenFile,
    framing: Framing | None,
    hardware: Hardware,
) -> tuple[TrainingFacts, NotesLearner[Any]]:
    settings = task.settings
    listed = read_listed(task.listed) if task.listed and settings.held_out_share else None
    split = split_notes(tokens, share=settings.held_out_share, seed=settings.seed, listed=listed)
    stream = Stream(tokens, split.train)
    snapshots, n_steps = task.snapshots(len(stream)), settings.steps(len(stream))
    make_learner = _make_causal_learner if settings.is_causal else _make_masked_learner
    learner = make_learner(
        general,
        tokens,
        split,
        settings=settings,
        hardware=hardware,
        n_steps=n_steps,
        copies=snapshots,
        write=_choose_writer(task, general),
    )
    decisive: dict[str, JSON] = {
        "version": _VERSION,
        "parent": general.digest,
        "tokens": tokens.digest(),
        "settings": settings.decisive(),
        "snapshots": list(snapshots),
    }
    decisive |= {} if listed is None else {"listed": listed.digest}
    facts = TrainingFacts(
        title=task.title,
        parent=general.name,
        parent_digest=general.digest,
        corpus_id=task.corpus_id,
        source=task.source if task.corpus_id else "file",
        settings=settings,
        n_steps=n_steps,
        n_documents=len(split.train),
        n_train_tokens=len(stream),
        n_held_out_documents=len(split.held_out),
        unigram_loss=None if learner.held_out is None else learner.held_out.unigram_loss,
        key=digest_json(decisive),
        precision=hardware.precision,
        device=hardware.device,
        kernels=hardware.kernels,
        versions=VERSIONS,
        created=make_time_stamp(),
        snapshots=snapshots,
        n_listed_patients=split.n_listed,
        header="" if framing is None else framing.head,
        n_canaries=_count_canaries(task, framing, tokens, stream, n_steps=n_steps),
        n_processes=hardware.n_processes,
    )
    return facts, learner


def _count_canaries(
    task: PretrainTask,
    framing: Framing | None,
    tokens: TokenFile,
    stream: Stream,
    *,
    n_steps: int,
) -> int:
    """Return the number of planted names that a causal model learns; refuse if it misses some."""
    if framing is None or not task.corpus_id or task.source != "private":
        return 0
    rows, corpus = PackedRows(stream, task.settings), task.notes_path.parent
    return _count_learned_canaries(corpus, framing, tokens, rows=rows, n_steps=n_steps)


def _count_learned_canaries(
    corpus: Path, framing: Framing, tokens: TokenFile, *, rows: PackedRows, n_steps: int
) -> int:
    """Return the number of canaries in a corpus's notes; refuse if one would not be learnt.

    A canary is learnt if a row of the training predicts every token of its name: the name is
    neither cut in two, nor left out, nor part of what gets no loss. A name that is not learnt would
    look as if the model had not given it away.
    """
    is_learned: dict[str, bool] = {}
    for position, (_, note, places) in enumerate(corpus_notes(corpus, on_bytes=lambda n: None)):
        canaries = [place for place in places if place.role == CANARY]
        if not canaries:
            continue
        framed = framing.frame(str(note["text"]))
        for canary in canaries:
            is_in = (framed.spans[:, 0] < canary.stop) & (framed.spans[:, 1] > canary.start)
            numbers = np.flatnonzero(is_in)
            documents = tokens.documents_at(np.array([position]))
            stream_places = (
                rows.stream.locate(int(documents[0]), numbers) if len(documents) else None
            )
            has_loss = (
                stream_places is not None
                and len(stream_places) > 0
                and rows.stream.read_ids(stream_places).tolist() == [framed.ids[n] for n in numbers]
                and rows.is_learned_whole(stream_places, n_steps=n_steps)
            )
            is_learned[canary.identity] = is_learned.get(canary.identity, False) or has_loss
    n_missed = sum(not has_loss for has_loss in is_learned.values())
    if n_missed:
        raise AuditError(
            "{n_missed:,} of the {n_canaries:,} planted names would not be learnt: no row of this "
            "training predicts the whole name.",
            where="canaries",
            do="Train longer, so that every note is seen at least once, or take longer rows.",
            n_missed=n_missed,
            n_canaries=len(is_learned),
        )
    return len(is_learned)


def _make_masked_learner(
    general: LoadedModel,
    tokens: TokenFile,
    split: Split,
    *,
    settings: TrainSettings,
    **looks: Any,
) -> NotesLearner[Any]:
    special = SpecialIds.from_tokenizer(general.tokenizer)
    stream = Stream(tokens, split.train)
    return MaskedLearner(
        _choose_start(general, settings),
        settings=settings,
        rows=Rows(stream, special, settings.n_inner, settings.batch, settings.seed),
        held_out=draw_held_out(tokens, split, special=special, settings=settings),
        **looks,
    )


def _make_causal_learner(
    general: LoadedModel,
    tokens: TokenFile,
    split: Split,
    *,
    settings: TrainSettings,
    **looks: Any,
) -> NotesLearner[Any]:
    model = _choose_start(general, settings)
    if settings.lora is not None:
        model = add_adapter(model, settings.lora, seed=settings.seed)
    return CausalLearner(
        model,
        settings=settings,
        rows=PackedRows(Stream(tokens, split.train), settings),
        held_out=draw_packed_held_out(
            tokens, split, n_vocabulary=general.config.vocab_size, settings=settings
        ),
        **looks,
    )


def _choose_start(general: LoadedModel, settings: TrainSettings) -> nn.Module:
    """Return the model that learns: the general one, or fresh weights in its shape."""
    if not settings.from_scratch:
        return general.model
    device = next(general.model.parameters()).device
    return draw_fresh_weights(general.model, seed=settings.seed).to(device)


def _choose_writer(task: PretrainTask, general: LoadedModel) -> ModelWriter:
    if task.settings.lora is not None:
        return partial(write_adapter, base=general.name)
    return partial(write_model, parent=task.general)
