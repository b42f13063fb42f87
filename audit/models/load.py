"""Loading a masked language model so that nothing in it is guessed and nothing in it can run.

Differs: `transformers.from_pretrained` fills missing tensors with random numbers, accepts NaN,
follows the shard index out of the directory, and leaves the weights mapped to a file that may be
overwritten during an audit. Here the weights are read once into own memory, and the digest is that
of the very bytes that were read.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load as load_tensors
from torch import Tensor, nn

from audit.errors import AuditError
from audit.foreign import refuse_without_memory, refusing
from audit.models.inspect import (
    ModelConfig,
    ModelFiles,
    ModelFolder,
    combined_digest,
    current_name,
    expected_shapes,
    read_model_files,
    same_tensors,
    unreadable,
)
from audit.models.tokenizer import build_tokenizer, tokenizer_notes


def pick_device(wanted: str) -> str:
    """Return the device to run on."""
    if wanted not in ("auto", "cpu", "cuda"):
        raise AuditError("is unknown.", where="device", do="Choose auto, cpu or cuda.")
    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise AuditError("No CUDA device is available.", where="device", do="Choose auto or cpu.")
    return "cpu"


DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
"""Kinds of numbers in which a model can be held."""

_CLASSES = {
    "bert": ("BertConfig", "BertForMaskedLM"),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM"),
    "distilbert": ("DistilBertConfig", "DistilBertForMaskedLM"),
}


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A masked language model in own memory, in evaluation mode.

    `tokenizer` is of transformers' kind; `digest` the SHA-256 of everything that determines the
    model, from the bytes that were loaded; `n_positions` the longest input in tokens, special ones
    included.
    """

    model: nn.Module
    tokenizer: Any
    digest: str
    architecture: str
    name: str
    n_positions: int
    notes: tuple[str, ...] = ()


def load_model(path: Path, *, device: str = "cpu", dtype: str = "float32") -> LoadedModel:
    """Load a masked language model from a directory.

    Parameters
    ----------
    path
        Directory with config.json, safetensors weights and a tokenizer.
    device
        A torch device.
    dtype
        One of `DTYPES`; weights saved in 16 bits are widened by default.
    """
    if dtype not in DTYPES:
        raise AuditError(f"Unknown kind of numbers; known: {', '.join(DTYPES)}.", where="dtype")
    files = read_model_files(path)
    name = files.folder.name
    _refuse_without_memory(files, dtype=DTYPES[dtype])
    tokenizer = build_tokenizer(files.tokenizer, config=files.config, name=name)
    weights, digests = _read_weights(files, dtype=DTYPES[dtype])
    model = _build(files.config, weights=weights, dtype=DTYPES[dtype], where=name)
    return LoadedModel(
        model=_moved(model, device=device),
        tokenizer=tokenizer,
        digest=combined_digest(files, weights=digests),
        architecture=files.config.architecture,
        name=name,
        n_positions=files.config.n_positions,
        notes=files.notes + tokenizer_notes(tokenizer, files=files.tokenizer),
    )


def _read_weights(
    files: ModelFiles, *, dtype: torch.dtype
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read every expected tensor, finite and in `dtype`; also the files' digests."""
    expected = expected_shapes(files.config)
    weights: dict[str, Tensor] = {}
    digests: dict[str, str] = {}
    for file in files.weight_files:
        # Read, not mapped: a mapped file can change, or end the process, while it is in use.
        data = _read_all(files.folder, file)
        digests[file] = hashlib.sha256(data).hexdigest()
        with refusing(_changed(files.folder.where(file))):
            tensors = load_tensors(data)
        del data
        for stored_name, tensor in tensors.items():
            name = current_name(stored_name)
            if name in expected:
                weights[name] = tensor.to(dtype)
                _refuse_non_finite(weights[name], name=name, where=files.folder.where(file))
    _fill_same(weights, config=files.config, where=files.folder.name)
    return weights, digests


def _refuse_without_memory(files: ModelFiles, *, dtype: torch.dtype) -> None:
    n_weights = sum(map(math.prod, expected_shapes(files.config).values())) * dtype.itemsize
    n_file = max((files.folder.path / file).stat().st_size for file in files.weight_files)
    refuse_without_memory(n_weights + max(n_weights, 2 * n_file), where=files.folder.where())


def _read_all(folder: ModelFolder, file: str) -> bytes:
    try:
        return (folder.path / file).read_bytes()
    except OSError as fault:
        raise unreadable(fault, where=folder.where(file)) from None


def _refuse_non_finite(tensor: Tensor, *, name: str, where: str) -> None:
    # One pass without a copy: smallest and largest are NaN where any number is.
    lowest, highest = torch.aminmax(tensor)
    if not (torch.isfinite(lowest) and torch.isfinite(highest)):
        n_bad = int((~torch.isfinite(tensor)).sum())
        raise AuditError(
            f'{n_bad} of {tensor.numel()} numbers in the tensor "{name}" are not finite.',
            where=where,
            do="The training has diverged, the file is damaged, or the numbers need more bits.",
        )


def _fill_same(weights: dict[str, Tensor], *, config: ModelConfig, where: str) -> None:
    """Give both names of a shared tensor its value; refuse two values where the head is tied.

    An untied head may come with two biases: transformers 5 trains only the decoder's.
    """
    for one, other in same_tensors(config):
        both = one in weights and other in weights
        if both and config.is_tied and not torch.equal(weights[one], weights[other]):
            raise AuditError(
                f'The tensors "{one}" and "{other}" should be one and the same, but differ.',
                where=where,
                do="If the head has a matrix of its own, config.json must say "
                '"tie_word_embeddings": false.',
            )
        for name, twin in ((one, other), (other, one)):
            if twin in weights:
                weights.setdefault(name, weights[twin])


def _build(
    config: ModelConfig, *, weights: dict[str, Tensor], dtype: torch.dtype, where: str
) -> nn.Module:
    """Make the module and copy the weights into its own memory."""
    config_class, model_class = (getattr(transformers, c) for c in _CLASSES[config.architecture])
    settings = config_class(**config.settings, attn_implementation="sdpa", use_cache=False)
    settings.architectures = [model_class.__name__]
    # The module is born with random weights; the caller's random numbers stay untouched.
    with torch.random.fork_rng(devices=[]):
        model: nn.Module = model_class(settings).to(dtype)
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError:
        raise _changed(where) from None
    embedding = model.get_input_embeddings().weight  # type: ignore[operator]
    head = model.get_output_embeddings().weight  # type: ignore[operator]
    if (head is embedding) != config.is_tied:
        raise AuditError("The head is not tied to the embedding as config.json says.", where=where)
    return model.eval()


def _changed(where: str) -> AuditError:
    return AuditError(
        "The file changed while it was being read.",
        where=where,
        do="Try again when nothing writes into the directory.",
    )


def _moved(model: nn.Module, *, device: str) -> nn.Module:
    try:
        return model.to(torch.device(device))
    except torch.OutOfMemoryError:
        reason = "has not enough memory for the model"
    except (RuntimeError, AssertionError):
        reason = "is not available"
    raise AuditError(
        f"The device {device[:20]!r} {reason}.", where="device", do="Use another one, or cpu."
    )
