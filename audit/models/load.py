"""Load a language model without guessing missing parts and without running foreign code.

Differs: `transformers.from_pretrained` fills missing tensors with random numbers, accepts NaN,
follows the shard index out of the directory, and leaves the weights mapped to a file that may be
overwritten during an audit. Here the weights are read once into private memory, and the digest is
computed from exactly the bytes that were read.
"""

from __future__ import annotations

import copy
import hashlib
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from pydantic import JsonValue
from safetensors.torch import load as load_tensors
from torch import Tensor, nn
from transformers.initialization import no_init_weights

from audit.errors import AuditError, Message
from audit.foreign import locate_errors, open_regular, refuse_errors, refuse_without_memory
from audit.models.adapters import (
    Switch,
    attach_adapter,
    is_declared,
    is_unchanged,
    join_digests,
    read_adapter,
    read_adapter_weights,
    refuse_other_base,
)
from audit.models.conversion import Rounding, refuse_other_rounding
from audit.models.forward import compute_logits
from audit.models.inspect import ModelFiles, is_adapter, read_model_files
from audit.models.layouts import complete_names, compute_expected_shapes, find_shared_tensors
from audit.models.library import Tokenizer
from audit.models.model_config import ModelConfig, refuse_two_kinds
from audit.models.tokenizer import build_folder_tokenizer, build_tokenizer, refuse_unlike
from audit.models.weights_header import rename_tensors


def pick_device(device: str) -> str:
    """Return the device to run on; "auto" means CUDA if it is available."""
    is_there = device != "cpu" and torch.cuda.is_available()
    if device == "cuda" and not is_there:
        raise AuditError("No CUDA device is available.", where="device", do="Choose auto or cpu.")
    return "cuda" if is_there else "cpu"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A language model in private memory, in evaluation mode, with transformers' tokenizer.

    `digest` is the SHA-256 of everything that determines the model, from the loaded bytes.
    `prefixes` were removed from the names of the stored tensors. A module with an adapter, which
    has a `switch`, is two models: the base, and the one that `is_adapted`. Whoever runs such a
    module does so within `running`.
    """

    model: nn.Module
    tokenizer: Tokenizer
    digest: str
    config: ModelConfig
    name: str
    prefixes: tuple[str, ...] = ()
    head_of: str = ""
    """Name of the model whose head it has; "" for its own."""
    rounding: Rounding = ""
    switch: Switch | None = None
    is_adapted: bool = False
    declared_base: str = ""
    """Name that the training of an adapter noted for its base; it is shown, never followed."""

    def running(self) -> AbstractContextManager[None]:
        """Return a context in which the module computes as this model does."""
        return nullcontext() if self.switch is None else self.switch.turned(on=self.is_adapted)

    @property
    def n_positions(self) -> int:
        """Longest input in tokens, including special tokens."""
        return self.config.n_positions

    @property
    def n_parameters(self) -> int:
        """Number of learnt parameters; tied ones count once."""
        return sum(p.numel() for p in self.model.parameters())


def load_model(
    path: Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> LoadedModel:
    """Load a masked or causal language model from a directory, its numbers in `dtype`."""
    return _load_files(read_model_files(path), device=device, dtype=dtype)


def _load_files(files: ModelFiles, *, device: str, dtype: torch.dtype) -> LoadedModel:
    name = files.folder.name
    _refuse_without_memory(files, dtype=dtype)
    tokenizer = build_tokenizer(files.tokenizer, config=files.config, name=name)
    weights, digest = _read_weights(files, dtype=dtype)
    _fill_shared_tensors(weights, config=files.config, place=name)
    model = _build_module(files.config, weights=weights, place=name)
    _refuse_overflow(model, tokenizer, config=files.config, place=name)
    model = _move_to_device(model, device=device)
    loaded = LoadedModel(model, tokenizer, digest, files.config, name, files.prefixes)
    if conversion := files.conversion:
        loaded = replace(loaded, head_of=conversion.head_name, rounding=conversion.rounding)
    return loaded


def _refuse_without_memory(files: ModelFiles, *, dtype: torch.dtype) -> None:
    n_numbers = sum(map(math.prod, compute_expected_shapes(files.config).values()))
    n_weights, n_largest = n_numbers * dtype.itemsize, 0
    for path in files.weights:
        with locate_errors(files.folder.locate(path.name)):
            n_largest = max(n_largest, path.stat().st_size)
    # A file is in memory twice while it is read; an encoder's module copies its weights.
    n_copies = 0 if files.config.is_causal else n_weights
    refuse_without_memory(n_weights + max(n_copies, 2 * n_largest), place=files.folder.name)


def _read_weights(files: ModelFiles, *, dtype: torch.dtype) -> tuple[dict[str, Tensor], str]:
    """Read every expected tensor, check that it is finite, and compute the digest."""
    weights: dict[str, Tensor] = {}
    digests = {}
    for path in files.weights:
        part, digests[path.name] = _read_file(files, path)
        if part.keys() & weights.keys():
            raise make_change_error(files.folder.locate(path.name))
        weights |= {name: tensor.to(dtype) for name, tensor in part.items()}
    return weights, files.digest(digests)


def _read_file(files: ModelFiles, path: Path) -> tuple[dict[str, Tensor], str]:
    """Return the expected tensors of one file of weights, and the SHA-256 of its bytes."""
    expected, place = compute_expected_shapes(files.config), files.folder.locate(path.name)
    # Read, not mapped: a mapped file can change, or end the process, while it is in use.
    with locate_errors(place), open_regular(path) as file:
        data = file.read()
    digest = hashlib.sha256(data).hexdigest()
    with refuse_errors(make_change_error(place)):
        tensors = load_tensors(data)
    del data
    tensors, _ = rename_tensors(tensors)
    tensors = complete_names(tensors, files.config)
    weights = {name: tensor for name, tensor in tensors.items() if name in expected}
    for name, tensor in weights.items():
        # One pass without a copy: minimum and maximum are NaN if any number is.
        if not torch.isfinite(torch.stack(torch.aminmax(tensor)).float()).all():
            raise AuditError(
                'The tensor "{name}" holds numbers that are not finite.',
                where=place,
                do="Copy the file again. If that does not help, the training diverged, or the "
                "numbers were too large for their type: use an earlier checkpoint, or have "
                "the weights saved as float32.",
                name=name,
            )
    return weights, digest


def _fill_shared_tensors(weights: dict[str, Tensor], *, config: ModelConfig, place: str) -> None:
    """Store a shared tensor under both its names; refuse different values if the head is tied.

    An untied head may come with two biases: transformers 5 trains only the decoder's.
    """
    for name, twin_name in find_shared_tensors(config).items():
        value, twin = weights.get(name), weights.get(twin_name)
        if value is None or twin is None:
            weights |= {name: v for name, v in ((name, twin), (twin_name, value)) if v is not None}
        elif config.is_tied and not torch.equal(value, twin):
            raise AuditError(
                ('The tensors "{one}" and "{other}" should be one and the same, but differ.'),
                where=place,
                do="If the head has a matrix of its own, config.json must say "
                '"tie_word_embeddings": false.',
                one=name,
                other=twin_name,
            )


def make_random_module(config: ModelConfig) -> nn.Module:
    """Return transformers' module for a configuration, in evaluation mode, with random weights."""
    settings = transformers.AutoConfig.for_model(
        config.architecture,
        **copy.deepcopy(config.library_settings),
        attn_implementation=config.attention,
        use_cache=False,
    )
    # The caller's random generator must not advance.
    with torch.random.fork_rng(devices=[]):
        model: nn.Module = _model_class(config).from_config(settings)
    return model.eval()


def _model_class(config: ModelConfig) -> Any:
    """Return the class of transformers that builds a model with its head."""
    if config.is_causal:
        return transformers.AutoModelForCausalLM
    return transformers.AutoModelForMaskedLM


def _build_module(config: ModelConfig, *, weights: dict[str, Tensor], place: str) -> nn.Module:
    """Build the module with the weights in its own memory.

    That of a causal model, which may be large, takes the tensors themselves and is not filled with
    random numbers before.
    """
    with (
        refuse_errors(_make_settings_error(place)),
        no_init_weights() if config.is_causal else nullcontext(),
    ):
        model = make_random_module(config)
    with refuse_errors(make_change_error(place)):
        model.load_state_dict(weights, strict=True, assign=config.is_causal)
    if config.is_causal:
        model.tie_weights()  # type: ignore[operator]
    return model


def _make_settings_error(place: str) -> AuditError:
    return AuditError(
        "The model cannot compute anything with the settings in its config.json.",
        where=place,
        do="Check that config.json belongs to these weights.",
    )


_ANY_TEXT = "The patient was seen."


def _refuse_overflow(
    model: nn.Module, tokenizer: Tokenizer, *, config: ModelConfig, place: str
) -> None:
    """Refuse a model that fails or computes infinite numbers from finite weights, by one pass."""
    with refuse_errors(_make_settings_error(place)), torch.inference_mode():
        if config.is_causal:
            ids = torch.tensor([tokenizer(_ANY_TEXT)["input_ids"][: config.n_positions] or [0]])
            logits = model(ids.to(next(model.parameters()).device), use_cache=False).logits
        else:
            ids = torch.tensor([[tokenizer.cls_token_id, tokenizer.mask_token_id]])
            logits = compute_logits(model, ids, positions=torch.tensor([[1]]))
    if not torch.isfinite(logits).all():
        raise AuditError(
            "The model computes numbers that are not finite.",
            where=place,
            do="Check that config.json belongs to these weights. If it does, the training has "
            "diverged: use an earlier checkpoint.",
        )


def make_change_error(place: str) -> AuditError:
    """Return the error for a file that changed while it was being read."""
    return AuditError(
        "The file changed while it was being read.",
        where=place,
        do="Try again when nothing writes into the directory.",
    )


def _move_to_device(model: nn.Module, *, device: str) -> nn.Module:
    try:
        return model.to(torch.device(device))
    except (RuntimeError, AssertionError):  # out of memory, too
        raise AuditError(
            "The device {device} is not available, or has not enough memory for the model.",
            where="device",
            do="Use another one, or cpu.",
            device=repr(device[:20]),
        ) from None


@dataclass(frozen=True, eq=False)
class ModelPair:
    """The two models that every attack compares; they read the same text as the same tokens.

    Source: Nakamura et al., section 3.4: M_general is what M_hospital was before it saw the notes.
    """

    general: LoadedModel
    hospital: LoadedModel

    def __post_init__(self) -> None:
        """Refuse two models whose tokens differ."""
        general, hospital = self.general, self.hospital
        names = general.name, hospital.name
        refuse_two_kinds(general.config, hospital.config, names=names)
        refuse_other_rounding(general.rounding, hospital.rounding, names=names)
        refuse_unlike(general.tokenizer, hospital.tokenizer, names=names)

    @property
    def n_positions(self) -> int:
        """Longest input that both models take, in tokens."""
        return min(self.general.n_positions, self.hospital.n_positions)

    @property
    def is_one_model(self) -> bool:
        """Whether both models compute the same: equal settings, and equal numbers in every tensor.

        The number type in the files, other contents of the files, and whether the head's matrix is
        the word embedding or only equal to it make no difference.
        """
        general, hospital = self.general, self.hospital
        if general.model is hospital.model:
            return is_unchanged(general.model)
        if _list_settings(general) != _list_settings(hospital):
            return False
        weights, hospital_weights = general.model.state_dict(), hospital.model.state_dict()
        return weights.keys() == hospital_weights.keys() and all(
            torch.equal(tensor, hospital_weights[name]) for name, tensor in weights.items()
        )

    @property
    def notes(self) -> tuple[Message, ...]:
        """Sentences about this pair that the reader of a result should know."""
        configs = self.general.config, self.hospital.config
        shapes = [[getattr(config, name) for name in _SHARED] for config in configs]
        notes = []
        if shapes[0] != shapes[1] and not configs[0].is_causal:
            text = "The models differ in shape or dropout, so they cannot share dropout masks."
            notes.append(Message(text))
        for side, loaded in (("general", self.general), ("hospital", self.hospital)):
            config = loaded.config
            notes += [
                Message(
                    'The tensor names of the {side} model began with "{prefix}", which a wrapper '
                    "had added in training; it was removed.",
                    side=side,
                    prefix=prefix,
                )
                for prefix in loaded.prefixes
            ]
            has_dropout = config.hidden_dropout or config.attention_dropout
            if not has_dropout and not config.is_causal:
                text = "The {side} model has no dropout: repeated passes are all alike."
                notes.append(Message(text, side=side))
        for side, loaded in (("general", self.general), ("hospital", self.hospital)):
            if loaded.head_of:
                notes.append(Message(_BORROWED_HEAD, side=side, head=loaded.head_of))
        if self.general.rounding:
            notes.append(Message(_ROUNDED, rounding=self.general.rounding))
        return (*notes, *([_note_base(self)] if self.hospital.is_adapted else []))


def _note_base(pair: ModelPair) -> Message:
    """Return the sentence that says on which base an adapter was put, and what it says itself."""
    base, declared = pair.general.name, pair.hospital.declared_base
    names = {"adapter": pair.hospital.name, "base": base, "declared": declared}
    if not declared:
        return Message(_BASE_UNNAMED, **names)
    if is_declared(declared, name=base):
        return Message(_BASE_NAMED, **names)
    return Message(_BASE_OTHER, **names)


_ROUNDED = (
    "Both models compute with matrices that were rounded to 4 bits ({rounding}) and back, as a "
    "training on a base in 4 bits has them."
)
_BASE_UNNAMED = (
    "Base declared: the adapter {adapter} names no base model. It was put on {base}, whose shapes "
    "fit. If it was trained on another model, the result means nothing."
)
_BASE_NAMED = (
    "Base declared: the adapter {adapter} names {declared} as its base, and was put on {base}. The "
    "names agree and the shapes fit; whether the numbers are those of the training, no file says."
)
_BASE_OTHER = (
    "Base declared: the adapter {adapter} names {declared} as its base, and was put on {base}. The "
    "names differ; if these are different models, the result means nothing."
)


_BORROWED_HEAD = (
    "The {side} model was saved without its masked-LM head; that of {head} stands in for it. The "
    "two were not trained together, so the attack may see less than with the model's own head. A "
    "leak that is found counts if {head} has not seen the notes; if none is found, this says "
    "less than usual."
)


def _list_settings(loaded: LoadedModel) -> dict[str, JsonValue]:
    settings: dict[str, JsonValue] = {
        "architecture": loaded.config.architecture,
        **loaded.config.library_settings,
    }
    without_effect = ("tie_word_embeddings", *(_DROPOUT if loaded.config.is_causal else ()))
    return {key: value for key, value in settings.items() if key not in without_effect}


# Rates that only a training of a causal model uses.
_DROPOUT = ("attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop")
_SHARED = (
    "architecture",
    "n_layers",
    "hidden_size",
    "n_heads",
    "hidden_dropout",
    "attention_dropout",
)


def load_pair(
    general: Path, hospital: Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> ModelPair:
    """Load both models of an audit; an adapter shares the module of its base."""
    if is_adapter(hospital):
        return _load_adapted_pair(general, hospital, device=device, dtype=dtype)
    models = [load_model(path, device=device, dtype=dtype) for path in (general, hospital)]
    return _share_tokenizer(*models)


def _load_adapted_pair(
    general: Path, hospital: Path, *, device: str, dtype: torch.dtype
) -> ModelPair:
    """Load the base model once, and attach the adapter to it."""
    adapter = read_adapter(hospital)
    files = read_model_files(general)
    refuse_other_base(adapter, files.config, base=files.folder.name)
    base = _load_files(files, device=device, dtype=dtype)
    config, name = adapter.adapt_config(base.config), adapter.folder.name
    tokenizer = base.tokenizer
    if adapter.tokenizer_digests:
        tokenizer = build_folder_tokenizer(adapter.folder, config=config)
    weights = read_adapter_weights(adapter)
    digest = join_digests(base.digest, adapter.digest(hashlib.sha256(weights).hexdigest()))
    switch = attach_adapter(base.model, adapter, weights=weights)
    adapted = LoadedModel(
        base.model,
        tokenizer,
        digest,
        config,
        name,
        switch=switch,
        is_adapted=True,
        declared_base=adapter.base,
        rounding=base.rounding,
    )
    with adapted.running():
        _refuse_overflow(base.model, tokenizer, config=config, place=name)
    return _share_tokenizer(replace(base, switch=switch), adapted)


def _share_tokenizer(general: LoadedModel, hospital: LoadedModel) -> ModelPair:
    """Return the pair of two models; if one knows more special tokens, both get the other's."""
    pair = ModelPair(general, hospital)
    smallest = min((general.tokenizer, hospital.tokenizer), key=len)
    if len(general.tokenizer) == len(hospital.tokenizer):
        return pair
    return ModelPair(*(replace(loaded, tokenizer=smallest) for loaded in (general, hospital)))
