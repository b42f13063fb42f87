"""The model of a token classifier: an encoder with a head of tags, and its reader; built or loaded.

Nothing is fetched, no code of a directory runs, no tensor is guessed: weights are safetensors that
fit to the last one and hold numbers only.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn
from torch.nn import functional

from audit.deid.network.config import Shape
from audit.deid.network.decode import (
    KINDS,
    Characters,
    Ids,
    Reader,
    TokenizerReader,
    Tokens,
    characters_from_json,
)
from audit.errors import AuditError
from audit.foreign import refuse_without_memory, refusing
from audit.models.inspect import ModelFolder, open_folder, parse_json, refuse_code_keys
from audit.rng import torch_seed
from audit.training.loop import own_tensors


@dataclass(frozen=True)
class NetShape:
    """The shape of a network.

    Attributes
    ----------
    n_ids
        Size of the vocabulary, special signs included.
    n_tags
        Scores of each character.
    dilations
        Of each layer: how far its neighbours stand.
    """

    n_ids: int
    n_tags: int
    width: int = 128
    dilations: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 1, 1)
    dropout: float = 0.1

    def to_json(self) -> dict[str, object]:
        """Return the shape as plain values."""
        return asdict(self) | {"dilations": list(self.dilations)}


@dataclass(frozen=True, eq=False)
class NetOutput:
    """Scores [B, L, T], under the name that models of transformers use."""

    logits: Tensor


class CharacterNet(nn.Module):
    """Scores every character for every tag; what stands in the padding changes nothing."""

    def __init__(self, shape: NetShape) -> None:
        super().__init__()
        self.shape = shape
        self.ids = nn.Embedding(shape.n_ids, shape.width)
        self.kinds = nn.Embedding(len(KINDS), shape.width)
        self.layers = nn.ModuleList(
            _Layer(shape.width, dilation=dilation, dropout=shape.dropout)
            for dilation in shape.dilations
        )
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.n_tags)
        for table in (self.ids, self.kinds):
            nn.init.normal_(table.weight, std=0.5)

    @property
    def reach(self) -> int:
        """How many characters to either side a score depends on."""
        return sum(self.shape.dilations)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> NetOutput:
        """Return the scores of rows; all arguments are [B, L]."""
        is_text = attention_mask.unsqueeze(dim=2).to(self.ids.weight.dtype)  # [B, L, 1]
        hidden = (self.ids(input_ids) + self.kinds(token_type_ids)) * is_text
        for layer in self.layers:
            hidden = hidden + layer(hidden, is_text)
        return NetOutput(self.head(self.norm(hidden)))


class _Layer(nn.Module):
    """Three neighbours at a distance, mixed, and added to what was there."""

    def __init__(self, width: int, *, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dilation = dilation
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(3 * width, width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, is_text: Tensor) -> Tensor:
        given = self.norm(hidden) * is_text  # [B, L, C]
        far = functional.pad(given, (0, 0, self.dilation, self.dilation))
        n = given.shape[1]
        sides: Sequence[Tensor] = (far[:, :n], given, far[:, 2 * self.dilation :])
        mixed = functional.gelu(self.mix(torch.cat(tuple(sides), dim=2)))
        added: Tensor = self.dropout(self.out(mixed)) * is_text
        return added


_MAX_CELLS = {"cpu": 4096, "cuda": 65_536}
"""Tokens of a batch, padding included: larger ones were slower on a CPU, and took more memory."""


@dataclass(frozen=True, order=True)
class Row:
    """Tokens `start` to `end` (exclusive) of a note, of which `first` to `last` count.

    The others are there to be read: every token counts in the row where it has most beside it.
    """

    note: int
    start: int
    end: int
    first: int
    last: int


def rows_of(note: int, *, n_tokens: int, size: int, overlap: int) -> list[Row]:
    """Cut a note of `n_tokens` into rows of at most `size` that share `overlap` tokens."""
    if not 0 <= 2 * overlap <= size or size < 1:
        raise ValueError(f"rows of {size} tokens cannot overlap by {overlap}")
    rows: list[Row] = []
    start = first = 0
    while first < n_tokens:
        end = min(start + size, n_tokens)
        # The last row is moved back, to be full: the more is beside a token the better.
        start = max(0, end - size)
        last = n_tokens if end == n_tokens else end - overlap // 2
        rows.append(Row(note, start, end, first, last))
        start, first = end - overlap, last
    return rows


def batches_of(rows: Sequence[Row], *, device: str = "cpu") -> Iterator[list[Row]]:
    """Put rows of about one length together; the longest first, so that memory runs out at once."""
    batch: list[Row] = []
    most = _MAX_CELLS.get(device, _MAX_CELLS["cpu"])
    for row in sorted(rows, key=lambda row: (row.start - row.end, row)):
        longest = batch[0].end - batch[0].start if batch else 0
        if batch and longest * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


@dataclass(frozen=True, eq=False)
class Padded:
    """Rows as tensors.

    Attributes
    ----------
    ids, mask, kinds
        [B, L]; `mask` is 0 at the padding; `kinds` is None where the model knows none.
    n_before
        Special tokens before the note's own.
    """

    ids: Tensor
    mask: Tensor
    kinds: Tensor | None
    n_before: int


def padded(pieces: Sequence[tuple[Ids, Ids | None]], *, reader: Reader) -> Padded:
    """Return pieces (ids, kinds) of notes with their special tokens, filled up to the longest."""
    before, after = reader.prefix, reader.suffix
    n_longest = max(len(ids) for ids, _ in pieces) + len(before) + len(after)
    ids = np.full((len(pieces), n_longest), reader.pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    kinds = np.zeros_like(ids)
    for i, (own, own_kinds) in enumerate(pieces):
        end = len(before) + len(own)
        ids[i, : end + len(after)] = [*before, *own, *after]
        mask[i, : end + len(after)] = 1
        if own_kinds is not None:
            kinds[i, len(before) : end] = own_kinds
    has_kinds = pieces[0][1] is not None
    return Padded(
        torch.from_numpy(ids),
        torch.from_numpy(mask),
        torch.from_numpy(kinds) if has_kinds else None,
        len(before),
    )


def piece(tokens: Tokens, *, start: int, end: int) -> tuple[Ids, Ids | None]:
    """Return ids and kinds of some tokens of a note."""
    kinds = None if tokens.kinds is None else tokens.kinds[start:end]
    return tokens.ids[start:end], kinds


CHARACTERS, CONFIG, WEIGHTS = "characters.json", "config.json", "model.safetensors"
CHARACTER_NET = "character_net"
_SAFE = {"local_files_only": True, "trust_remote_code": False}
_MAX_CONFIG_BYTES = 4_000_000
_COUNTED_FROM_PADDING = ("roberta", "camembert", "mpnet", "longformer", "data2vec-text", "ibert")
NO_LIMIT = 1_000_000


@dataclass(frozen=True, eq=False)
class TokenModel:
    """A model that gives every token a score for every tag.

    `module` is a token classifier of transformers or a `CharacterNet`, `reader` makes tokens for
    it, `n_positions` is the longest row in tokens, special ones included.
    """

    module: nn.Module
    reader: Reader
    n_positions: int

    def logits(self, ids: Tensor, *, mask: Tensor, kinds: Tensor | None) -> Tensor:
        """Return scores [B, L, T] of rows `ids` [B, L]; `mask` [B, L] is 0 at the padding."""
        given = {"input_ids": ids, "attention_mask": mask}
        if kinds is not None:
            given["token_type_ids"] = kinds
        found: Tensor = self.module(**given).logits
        return found

    def logits_of(self, given: Padded) -> Tensor:
        """Return scores [B, L, T] of padded rows, wherever they lie."""
        kinds = None if given.kinds is None else given.kinds.to(self.device)
        return self.logits(given.ids.to(self.device), mask=given.mask.to(self.device), kinds=kinds)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.module.parameters()).device


def new_model(reader: Characters, *, shape: Shape, n_tags: int, seed: int) -> TokenModel:
    """Return a small network of characters with random weights."""
    wanted = NetShape(reader.n_ids, n_tags, shape.width, shape.dilations)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "fresh tagger"))
        return TokenModel(CharacterNet(wanted), reader, NO_LIMIT)


def model_of_encoder(path: Path, *, n_tags: int, seed: int) -> TokenModel:
    """Return an encoder from a directory with a new head of tags."""
    folder = open_folder(path)
    _refuse_code(folder)
    sizes = [(folder.path / f).stat().st_size for f in folder.files if f.endswith(".safetensors")]
    refuse_without_memory(2 * sum(sizes), where=folder.where())
    transformers: Any = importlib.import_module("transformers")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "head of a tagger"))
        try:
            module, told = transformers.AutoModelForTokenClassification.from_pretrained(
                folder.path, num_labels=n_tags, use_safetensors=True, dtype=torch.float32,
                output_loading_info=True, ignore_mismatched_sizes=True, **_SAFE,
            )  # fmt: skip
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError):
            raise _no_encoder(folder) from None
    new = {*told["missing_keys"], *(one[0] for one in told["mismatched_keys"])}
    head = ("classifier", "score")
    if any(name.partition(".")[0] not in head for name in new):
        raise _no_encoder(folder)
    _refuse_non_finite(module.state_dict(), where=folder.where())
    return TokenModel(module, _tokenizer(folder), _n_positions(module))


def load_model_folder(path: Path, *, n_tags: int, device: str) -> TokenModel:
    """Load a model that `save_model_folder` wrote."""
    folder = open_folder(path)
    _refuse_code(folder)
    build = _characters_model if CHARACTERS in folder.files else _encoder_model
    refusal = AuditError(
        "The directory cannot be loaded as a token classifier.",
        where=folder.where(),
        do="Choose a tagger that was trained here, with all its files.",
    )
    with refusing(refusal):
        n_bytes = (folder.path / WEIGHTS).stat().st_size
        refuse_without_memory(4 * n_bytes, where=folder.where())
        with torch.device("meta"), suppress(RuntimeError):  # not every kind can be built so
            promised = build(folder, n_tags=n_tags).module.parameters()
            if 2 * sum(map(torch.numel, promised)) > n_bytes:  # in 16 bits at least
                raise refusal
        found = build(folder, n_tags=n_tags)
        # Read, not mapped: a mapped file can change while it is in use.
        weights = load((folder.path / WEIGHTS).read_bytes())
        module = found.module.float()
        module.load_state_dict({name: one.float() for name, one in weights.items()}, strict=True)
    _refuse_non_finite(module.state_dict(), where=folder.where())
    return replace(found, module=module.to(device).eval())


def _characters_model(folder: ModelFolder, *, n_tags: int) -> TokenModel:
    text = folder.read(CHARACTERS, max_bytes=_MAX_CONFIG_BYTES).decode("utf-8", "replace")
    reader = characters_from_json(text, where=folder.where(CHARACTERS))
    data = folder.read(CONFIG, max_bytes=_MAX_CONFIG_BYTES)
    given = parse_json(data, where=folder.where(CONFIG))
    if given.get("model_type") != CHARACTER_NET:
        raise ValueError("another kind of model")
    width, dilations = given["width"], given["dilations"]
    if not isinstance(width, int) or not isinstance(dilations, list):
        raise TypeError("no shape")
    shape = Shape(width=width, dilations=tuple(map(int, dilations)))
    return new_model(reader, shape=shape, n_tags=n_tags, seed=0)


def _encoder_model(folder: ModelFolder, *, n_tags: int) -> TokenModel:
    transformers: Any = importlib.import_module("transformers")
    config = transformers.AutoConfig.from_pretrained(folder.path, **_SAFE)
    config.num_labels = n_tags
    with torch.random.fork_rng(devices=[]):
        module = transformers.AutoModelForTokenClassification.from_config(config)
    return TokenModel(module, _tokenizer(folder), _n_positions(module))


def save_model_folder(model: TokenModel, path: Path, *, is_halved: bool = False) -> None:
    """Write a model's files into a folder that is there; weights in float16 if `is_halved`."""
    tensors = own_tensors(model.module.state_dict())
    kept = {
        name: one.half() if is_halved and one.is_floating_point() else one.clone()
        for name, one in tensors.items()
    }
    save_file(kept, path / WEIGHTS, metadata={"format": "pt"})
    (path / CONFIG).write_text(_config_of(model.module), encoding="utf-8")
    if isinstance(model.reader, Characters):
        (path / CHARACTERS).write_text(model.reader.to_json(), encoding="utf-8")
    elif isinstance(model.reader, TokenizerReader):
        model.reader.tokenizer.save_pretrained(path)


def _config_of(module: Any) -> str:
    if isinstance(module, CharacterNet):
        content: dict[str, Any] = {"model_type": CHARACTER_NET, **module.shape.to_json()}
    else:
        content = json.loads(module.config.to_json_string(use_diff=False))
        content = {key: value for key, value in content.items() if key not in _OF_A_PLACE}
        content["architectures"] = [type(module).__name__]
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


_OF_A_PLACE = ("_name_or_path", "transformers_version", "torch_dtype", "dtype")


def _tokenizer(folder: ModelFolder) -> TokenizerReader:
    transformers: Any = importlib.import_module("transformers")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder.path, use_fast=True, **_SAFE)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, AttributeError, TypeError):
        raise AuditError(
            "The tokenizer cannot be built from its files.",
            where=folder.where(),
            do="Copy the tokenizer files again from where the model was saved.",
        ) from None
    return TokenizerReader.of(tokenizer)


def _n_positions(module: Any) -> int:
    config = module.config
    n = int(getattr(config, "max_position_embeddings", None) or NO_LIMIT)
    kind = str(getattr(config, "model_type", ""))
    if any(name in kind for name in _COUNTED_FROM_PADDING):
        n -= int(config.pad_token_id or 0) + 1
    return n if n > 0 else NO_LIMIT


def _refuse_code(folder: ModelFolder) -> None:
    for name in (CONFIG, "tokenizer_config.json"):
        if name in folder.files:
            data = folder.read(name, max_bytes=_MAX_CONFIG_BYTES)
            refuse_code_keys(parse_json(data, where=folder.where(name)), where=folder.where(name))


def _refuse_non_finite(tensors: dict[str, Tensor], *, where: str) -> None:
    wrong: Sequence[str] = [
        name for name, one in tensors.items()
        if one.is_floating_point() and not bool(torch.isfinite(one).all())
    ]  # fmt: skip
    if wrong:
        raise AuditError(
            "The weights hold numbers that are not finite.",
            where=where,
            do="The training has diverged, or the file is damaged.",
        )


def _no_encoder(folder: ModelFolder) -> AuditError:
    return AuditError(
        "The directory cannot be loaded as an encoder.",
        where=folder.where(),
        do="Give a directory with config.json, tokenizer files and safetensors weights.",
    )
