"""Token classifiers in torch: an encoder with tags, and the network of words while it is trained.

Nothing is fetched, no code of a directory runs, and no tensor is guessed: weights must be
safetensors, every tensor must fit, and all numbers must be finite.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save_file
from torch import Tensor, nn
from torch.nn import functional

from audit.deid.find.network.decode import FLAG, WORD, Scores, TokenizerReader, Tokens
from audit.deid.find.network.word_features import FLAGS, Words
from audit.deid.find.network.wordnet import (
    CONFIG,
    LISTS,
    N_INPUTS,
    NORM_EPSILON,
    TABLES,
    WEIGHTS,
    WORD_NET,
    Shape,
    not_finite,
    read_json,
    read_network,
)
from audit.errors import AuditError
from audit.foreign import open_regular, refuse_errors, refuse_without_memory
from audit.models.architectures import refuse_code_keys
from audit.models.forward import Encoder, is_supported, read_settings, use_exact_float32
from audit.models.load import pick_device
from audit.models.model_folder import ModelFolder, open_folder
from audit.rng import torch_seed
from audit.shelf import JSON
from audit.training.loop import copy_to_main_memory

transformers = importlib.import_module("transformers")
NO_LIMIT = 1_000_000
_DROPOUT = 0.1
_SAFE = {"local_files_only": True, "trust_remote_code": False}
_COUNTED_FROM_PADDING = ("roberta", "camembert", "mpnet", "longformer", "data2vec-text", "ibert")
_LOCAL_KEYS = ("_name_or_path", "transformers_version", "torch_dtype", "dtype")
_MAX_CELLS = {"cpu": 4096, "cuda": 65_536}
"""Tokens of a batch, padding included; larger ones were slower on a CPU and took more memory."""


class WordNet(nn.Module):
    """Scores every token for every tag; the contents of the padding change nothing.

    `audit.deid.find.network.wordnet` runs its weights without torch.
    """

    def __init__(self, n_tags: int, shape: Shape) -> None:
        super().__init__()
        self.sizes = {"n_tags": n_tags, "dropout": _DROPOUT}
        self.shape = shape
        tables = [nn.Embedding(n, width) for n, width in TABLES.values()]
        self.tables = nn.ModuleList(tables)
        self.given = nn.Linear(N_INPUTS, shape.width)
        self.layers = nn.ModuleList(_Layer(shape.width, far) for far in shape.dilations)
        self.norm = nn.LayerNorm(shape.width, eps=NORM_EPSILON)
        self.head = nn.Linear(shape.width, n_tags)
        self.bits: Tensor
        self.register_buffer("bits", 1 << torch.arange(len(FLAGS)), persistent=False)
        for table in tables:
            nn.init.normal_(table.weight, std=0.5)

    @property
    def reach(self) -> int:
        """The number of tokens on either side that a score depends on."""
        return sum(self.shape.dilations)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """Return the scores [B, L, T] of rows [B, L, F], with mask [B, L], as transformers does."""
        is_text = attention_mask.unsqueeze(dim=2).to(self.head.weight.dtype)  # [B, L, 1]
        looked_up = [
            table(input_ids[:, :, feature])
            for feature, table in zip(TABLES, self.tables, strict=True)
        ]
        flags = (input_ids[:, :, FLAG, None] & self.bits > 0).to(is_text.dtype)
        hidden = self.given(torch.cat([*looked_up, flags], dim=2)) * is_text
        for layer in self.layers:
            hidden = hidden + layer(hidden, is_text)
        scores = self.head(self.norm(hidden))
        return transformers.modeling_outputs.TokenClassifierOutput(logits=scores)


class _Layer(nn.Module):
    """Mixes each token with two neighbours at a distance; returns what is added to it."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.norm = nn.LayerNorm(width, eps=NORM_EPSILON)
        self.mix = nn.Linear(3 * width, width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(_DROPOUT)

    def forward(self, hidden: Tensor, is_text: Tensor) -> Tensor:
        normed = self.norm(hidden) * is_text  # [B, L, C]
        far = functional.pad(normed, (0, 0, self.dilation, self.dilation))
        sides = (far[:, : normed.shape[1]], normed, far[:, 2 * self.dilation :])
        mixed = functional.relu(self.mix(torch.cat(sides, dim=2)))
        added: Tensor = self.dropout(self.out(mixed)) * is_text
        return added


@dataclass(frozen=True, eq=False)
class TokenModel:
    """A model that gives every token a score for every tag.

    `module` is a token classifier of transformers or a `WordNet`, `reader` makes its tokens,
    `n_positions` is the length of the longest row in tokens, special ones included.
    """

    module: nn.Module
    reader: Words | TokenizerReader
    n_positions: int
    encoder: Encoder | None = None
    """A faster forward pass of the module, if its weights do not change."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.module.parameters()).device

    @property
    def n_special(self) -> int:
        """The number of special tokens in a row."""
        return len(self.reader.prefix) + len(self.reader.suffix)

    @property
    def max_batch_tokens(self) -> int:
        """The number of tokens, padding included, at which the model is quickest."""
        return _MAX_CELLS[self.device.type]

    def score_rows(self, rows: Sequence[Tokens]) -> list[Scores]:
        """Return the scores [tokens, tags] of rows without special tokens."""
        first = len(self.reader.prefix)
        with torch.inference_mode(), use_exact_float32(self.device.type):
            scores = self.logits(rows).float().cpu().numpy()
        return [
            row_scores[first : first + len(row)]
            for row_scores, row in zip(scores, rows, strict=True)
        ]

    def logits(self, rows: Sequence[Tokens]) -> Tensor:
        """Return the scores [B, L, T] of rows with special tokens, padded to the longest."""
        reader, is_words = self.reader, isinstance(self.reader, Words)
        features = [row["id"] if is_words else row["id"][:, WORD] for row in rows]
        ids = self.pad_rows(features, fill=reader.pad_id)
        mask = np.zeros(ids.shape[:2], dtype=np.int64)
        for i, row in enumerate(rows):
            end = len(row) + self.n_special
            mask[i, :end] = 1
            if not is_words:
                ids[i, : len(reader.prefix)] = reader.prefix
                ids[i, end - len(reader.suffix) : end] = reader.suffix
        model_inputs = {
            name: torch.from_numpy(array).to(self.device)
            for name, array in (("input_ids", ids), ("attention_mask", mask))
        }
        logits: Tensor
        if self.encoder is None:
            logits = self.module(**model_inputs).logits
        else:
            hidden = self.encoder.hidden(
                model_inputs["input_ids"], is_text=model_inputs["attention_mask"] > 0
            )
            logits = self.module.get_submodule("classifier")(hidden)
        return logits

    def pad_rows(self, rows: Sequence[NDArray[np.integer]], *, fill: int) -> NDArray[np.int64]:
        """Return rows of token values as one array [B, L, ...], laid out as for scoring."""
        n_before = len(self.reader.prefix)
        size = max(map(len, rows)) + self.n_special
        padded_rows = np.full((len(rows), size, *rows[0].shape[1:]), fill, dtype=np.int64)
        for i, row in enumerate(rows):
            padded_rows[i, n_before : n_before + len(row)] = row
        return padded_rows


def new_model(reader: Words, *, shape: Shape, n_tags: int, seed: int) -> TokenModel:
    """Return a small network of words with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "fresh tagger"))
        return TokenModel(WordNet(n_tags, shape), reader, NO_LIMIT)


def model_of_tagger(path: Path, *, n_tags: int) -> TokenModel:
    """Load the network of words of a trained tagger, with its weights and lists."""
    reader, shape, weights = read_network(open_folder(path), n_tags=n_tags)
    module = WordNet(n_tags, shape)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return TokenModel(module, reader, NO_LIMIT)


def model_of_encoder(path: Path, *, n_tags: int, seed: int) -> TokenModel:
    """Load an encoder from a directory and give it a new head of tags."""
    folder = _open_folder(path)
    sizes = [(folder.path / f).stat().st_size for f in folder.files if f.endswith(".safetensors")]
    refuse_without_memory(2 * sum(sizes), place=folder.locate())
    refusal = AuditError(
        "The directory cannot be loaded as an encoder.",
        where=folder.locate(),
        do="Give a directory with config.json, tokenizer files and safetensors weights.",
    )
    with torch.random.fork_rng(devices=[]), refuse_errors(refusal):
        torch.manual_seed(torch_seed(seed, "head of a tagger"))
        module, loading_info = transformers.AutoModelForTokenClassification.from_pretrained(
            folder.path,
            num_labels=n_tags,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **_SAFE,
        )
    new_names = {
        *loading_info["missing_keys"],
        *(mismatch[0] for mismatch in loading_info["mismatched_keys"]),
    }
    if any(name.partition(".")[0] not in ("classifier", "score") for name in new_names):
        raise refusal
    _refuse_non_finite(module, where=folder.locate())
    return _wrap_transformers(module, folder)


def load_encoder(path: Path, *, n_tags: int, device: str) -> TokenModel:
    """Load an encoder that `save_model_folder` wrote."""
    folder = _open_folder(path)
    refusal = AuditError(
        "The directory cannot be loaded as a token classifier.",
        where=folder.locate(),
        do="Choose a tagger that was trained here, with all its files.",
    )
    with refuse_errors(refusal):
        n_bytes = (folder.path / WEIGHTS).stat().st_size
        refuse_without_memory(4 * n_bytes, place=folder.locate())
        # Some kinds cannot be built on this device.
        with torch.device("meta"), suppress(RuntimeError):
            promised = _encoder_model(folder, n_tags=n_tags).module.parameters()
            if 2 * sum(map(torch.numel, promised)) > n_bytes:  # in 16 bits at least
                raise refusal
        token_model = _encoder_model(folder, n_tags=n_tags)
        # The file is read, not mapped: a mapped file can change while it is in use.
        with open_regular(folder.path / WEIGHTS) as file:
            weights = load(file.read())
        module = token_model.module.float()
        module.load_state_dict(
            {name: tensor.float() for name, tensor in weights.items()}, strict=True
        )
    _refuse_non_finite(module, where=folder.locate())
    module = module.to(pick_device(device)).eval()
    return replace(
        token_model, module=module, encoder=Encoder(module) if is_supported(module) else None
    )


def _encoder_model(folder: ModelFolder, *, n_tags: int) -> TokenModel:
    config = transformers.AutoConfig.from_pretrained(folder.path, **_SAFE)
    config.num_labels = n_tags
    with torch.random.fork_rng(devices=[]):
        module = transformers.AutoModelForTokenClassification.from_config(config)
    return _wrap_transformers(module, folder)


def _wrap_transformers(module: nn.Module, folder: ModelFolder) -> TokenModel:
    refusal = AuditError(
        "The tokenizer cannot be built from its files.",
        where=folder.locate(),
        do="Copy the tokenizer files again from where the model was saved.",
    )
    with refuse_errors(refusal):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder.path, use_fast=True, **_SAFE)
    config = read_settings(module)
    n = int(getattr(config, "max_position_embeddings", None) or NO_LIMIT)
    if any(name in str(getattr(config, "model_type", "")) for name in _COUNTED_FROM_PADDING):
        n -= int(getattr(config, "pad_token_id", None) or 0) + 1
    return TokenModel(module, TokenizerReader.from_tokenizer(tokenizer), n if n > 0 else NO_LIMIT)


def save_model_folder(model: TokenModel, path: Path, *, is_halved: bool = False) -> None:
    """Write a model's files into an existing folder; weights in float16 if `is_halved`."""
    module = model.module
    tensors = {
        name: tensor.half() if is_halved and tensor.is_floating_point() else tensor.clone()
        for name, tensor in copy_to_main_memory(module.state_dict()).items()
    }
    save_file(tensors, path / WEIGHTS, metadata={"format": "pt"})
    if isinstance(module, WordNet):
        shape: dict[str, JSON] = {
            "width": module.shape.width,
            "dilations": list(module.shape.dilations),
        }
        content: dict[str, JSON] = {"model_type": WORD_NET, **module.sizes, **shape}
    else:
        config = json.loads(read_settings(module).to_json_string(use_diff=False))
        content = {key: value for key, value in config.items() if key not in _LOCAL_KEYS}
        content["architectures"] = [type(module).__name__]
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    (path / CONFIG).write_text(text, encoding="utf-8")
    if isinstance(model.reader, Words):
        (path / LISTS).write_text(model.reader.to_json(), encoding="utf-8")
    else:
        model.reader.tokenizer.save_pretrained(path)


def _open_folder(path: Path) -> ModelFolder:
    """Open a directory; AuditError if its files want code to run."""
    folder = open_folder(path)
    for name in (CONFIG, "tokenizer_config.json"):
        if name in folder.files:
            refuse_code_keys(read_json(folder, name), place=folder.locate(name))
    return folder


def _refuse_non_finite(module: nn.Module, *, where: str) -> None:
    tensors = module.state_dict().values()
    if not all(torch.isfinite(tensor).all() for tensor in tensors if tensor.is_floating_point()):
        raise not_finite(where)
