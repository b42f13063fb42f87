"""The network of words without torch, so that a process which tags needs little memory.

Embeddings of hashed features as in spaCy's `MultiHashEmbed` (Honnibal et al. 2020) and flags from
lists, then dilated convolutions (Strubell et al. 2017); `token_model` trains the network.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors.numpy import load
from threadpoolctl import ThreadpoolController

from audit.deid.find.network.decode import BEGIN, END, FLAG, GAP, SHAPE, WORD, Ids, Scores, Tokens
from audit.deid.find.network.word_features import (
    FLAGS,
    N_EDGES,
    N_GAPS,
    N_SHAPES,
    N_WORDS,
    Words,
    words_from_json,
)
from audit.errors import AuditError
from audit.foreign import open_regular, refuse_errors, refuse_without_memory
from audit.models.model_folder import ModelFolder, parse_json
from audit.task import Record

LISTS, CONFIG, WEIGHTS = "lists.json", "config.json", "model.safetensors"
WORD_NET = "word_net"
MAX_CONFIG_BYTES = 4_000_000
TABLES = {
    WORD: (N_WORDS, 64),
    BEGIN: (N_EDGES, 32),
    END: (N_EDGES, 32),
    SHAPE: (N_SHAPES, 16),
    GAP: (N_GAPS, 8),
}
"""The embedding table of each feature: its number of rows and its width."""
N_INPUTS = sum(width for _, width in TABLES.values()) + len(FLAGS)
NORM_EPSILON = 1e-5
_LOW_FLAGS = 10
_MAX_WEIGHT = 1e4
"""No weight of a trained network is larger; with weights up to this all products stay finite."""
_ALONE = threading.Lock()
"""The number of cores for matrix products is a setting of the whole process."""
Numbers = NDArray[np.float32]


class Shape(Record):
    """The shape of the small network of words, which is trained from scratch."""

    width: int = Field(default=128, ge=1, le=4096)
    """Numbers per token between two layers."""
    dilations: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1, 2, 4, 8, 16), min_length=1, max_length=64
    )
    """The distance of the neighbours in each layer; a token sees as far as their sum."""


def list_shapes(shape: Shape, *, n_tags: int) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every tensor of a network."""
    width = shape.width
    sizes: dict[str, tuple[int, ...]] = {
        f"tables.{i}.weight": size for i, size in enumerate(TABLES.values())
    }
    sizes |= {"given.weight": (width, N_INPUTS), "given.bias": (width,)}
    for i in range(len(shape.dilations)):
        sizes |= {f"layers.{i}.{name}": size for name, size in _layer_shapes(width).items()}
    sizes |= {"norm.weight": (width,), "norm.bias": (width,)}
    return sizes | {"head.weight": (n_tags, width), "head.bias": (n_tags,)}


def _layer_shapes(width: int) -> dict[str, tuple[int, ...]]:
    return {
        "norm.weight": (width,),
        "norm.bias": (width,),
        "mix.weight": (width, 3 * width),
        "mix.bias": (width,),
        "out.weight": (width, width),
        "out.bias": (width,),
    }


@dataclass(frozen=True)
class _Layer:
    """Mixes each token with two neighbours at a distance; returns what is added to it."""

    dilation: int
    norm: tuple[Numbers, Numbers]
    mix: Numbers  # [3 C, C]
    mix_bias: Numbers
    out: Numbers  # [C, C]
    out_bias: Numbers

    def compute_change(self, hidden: Numbers, left: Ids, right: Ids) -> Numbers:
        """Return the change of tokens [N, C]; an index N in `left` or `right` is no token."""
        n, width = hidden.shape
        normed = np.zeros((n + 1, width), dtype=np.float32)
        _normalize(hidden, *self.norm, out=normed[:n])
        sides = np.empty((n, 3 * width), dtype=np.float32)
        np.take(normed, left, axis=0, out=sides[:, :width], mode="clip")
        sides[:, width : 2 * width] = normed[:n]
        np.take(normed, right, axis=0, out=sides[:, 2 * width :], mode="clip")
        mixed = sides @ self.mix
        mixed += self.mix_bias
        np.maximum(mixed, np.zeros(width, dtype=np.float32), out=mixed)  # quicker than one zero
        change: Numbers = mixed @ self.out
        change += self.out_bias
        return change


def _normalize(
    rows: Numbers, scale: Numbers, shift: Numbers, *, out: Numbers | None = None
) -> Numbers:
    """Return rows [N, C] with mean 0 and standard deviation 1, then scaled and shifted."""
    weights = np.full(rows.shape[1], 1 / rows.shape[1], dtype=np.float32)
    means = (rows @ weights)[:, None]  # quicker than a mean
    normalized: Numbers = np.subtract(rows, means, out=out)
    variances = np.einsum("ij,ij->i", normalized, normalized)[:, None] * weights[0]
    normalized *= 1.0 / np.sqrt(variances + np.float32(NORM_EPSILON))
    normalized *= scale
    normalized += shift
    return normalized


class WordScorer:
    """Scores every token for every tag.

    The embedding tables are multiplied with the weights of the input layer in advance, so that this
    layer only looks up and adds rows.
    """

    n_special = 0
    max_batch_tokens = 1024
    """More tokens at once do not fit into a core's cache beside the weights."""

    def __init__(self, reader: Words, shape: Shape, weights: Mapping[str, Numbers]) -> None:
        self.reader = reader
        input_weights, start = weights["given.weight"].T, 0
        self._table_products = []
        for i, (feature, (_, width)) in enumerate(TABLES.items()):
            table = weights[f"tables.{i}.weight"] @ input_weights[start : start + width]
            self._table_products.append((feature, table))
            start += width
        flags = input_weights[start:]
        self._flags = [
            _sum_subsets(flag_rows) for flag_rows in (flags[:_LOW_FLAGS], flags[_LOW_FLAGS:])
        ]
        self._bias = weights["given.bias"]
        self._layers = []
        for i, dilation in enumerate(shape.dilations):
            layer_weights = {
                name: weights[f"layers.{i}.{name}"] for name in _layer_shapes(shape.width)
            }
            norm = layer_weights["norm.weight"], layer_weights["norm.bias"]
            mix, out_weights = (
                np.ascontiguousarray(layer_weights[f"{name}.weight"].T) for name in ("mix", "out")
            )
            layer = _Layer(
                dilation,
                norm,
                mix,
                layer_weights["mix.bias"],
                out_weights,
                layer_weights["out.bias"],
            )
            self._layers.append(layer)
        self._norm = weights["norm.weight"], weights["norm.bias"]
        self._head = np.ascontiguousarray(weights["head.weight"].T)
        self._head_bias = weights["head.bias"]

    def score_rows(self, rows: Sequence[Tokens]) -> list[Scores]:
        """Return the scores [tokens, tags] of rows, computed on one core to be reproducible."""
        with _ALONE, _get_blas_controller().limit(limits=1, user_api="blas"):
            return self._score_on_one_core(rows)

    def _score_on_one_core(self, rows: Sequence[Tokens]) -> list[Scores]:
        lengths = np.array([len(row) for row in rows])
        ends = np.cumsum(lengths)
        ids = np.concatenate([row["id"] for row in rows])
        n = len(ids)
        places = np.arange(n)
        begin, end = np.repeat(ends - lengths, lengths), np.repeat(ends, lengths)
        hidden = np.repeat(self._bias[None], n, axis=0)
        for feature, table in self._table_products:
            hidden += table[ids[:, feature]]
        for flags, sums in zip(_split_flags(ids[:, FLAG]), self._flags, strict=True):
            hidden += sums[flags]
        for layer in self._layers:
            left, right = places - layer.dilation, places + layer.dilation
            left, right = np.where(left < begin, n, left), np.where(right < end, right, n)
            hidden += layer.compute_change(hidden, left, right)
        scores = _normalize(hidden, *self._norm) @ self._head
        scores += self._head_bias
        return np.split(scores, ends[:-1])


@cache
def _get_blas_controller() -> ThreadpoolController:
    """Return the controller of the libraries that multiply matrices."""
    return ThreadpoolController()


def _split_flags(flags: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return flags & ((1 << _LOW_FLAGS) - 1), flags >> _LOW_FLAGS


def _sum_subsets(rows: Numbers) -> Numbers:
    """Return the sums [2 ** N, C] of all subsets of rows [N, C]; index bits select the rows."""
    sums = np.zeros((1, rows.shape[1]), dtype=np.float32)
    for row in rows:
        sums = np.concatenate([sums, sums + row])
    return sums


def load_scorer(folder: ModelFolder, *, n_tags: int) -> WordScorer:
    """Load the network of words of a directory; refuses what `read_network` refuses."""
    return WordScorer(*read_network(folder, n_tags=n_tags))


def read_network(folder: ModelFolder, *, n_tags: int) -> tuple[Words, Shape, dict[str, Numbers]]:
    """Return the lists, the shape and the weights of the network of words of a directory.

    Raises
    ------
    AuditError
        If its files are not those of one, or there is no memory for it.
    """
    refusal = AuditError(
        "The directory cannot be loaded as a token classifier.",
        where=folder.locate(),
        do="Choose a tagger that was trained here, with all its files.",
    )
    with refuse_errors(refusal):
        text = folder.read(LISTS, max_bytes=MAX_CONFIG_BYTES).decode("utf-8", "replace")
        reader = words_from_json(text, where=folder.locate(LISTS))
        config = read_json(folder, CONFIG)
        if config.get("model_type") != WORD_NET:
            raise refusal
        shape = Shape(width=config["width"], dilations=tuple(config["dilations"]))
        sizes = list_shapes(shape, n_tags=n_tags)
        n_bytes = (folder.path / WEIGHTS).stat().st_size
        n_looked_up = sum(n for n, _ in TABLES.values()) + 2 * (1 << _LOW_FLAGS)
        n_needed = 4 * (n_bytes + n_looked_up * shape.width)
        refuse_without_memory(n_needed, place=folder.locate())
        if 2 * sum(map(np.prod, sizes.values())) > n_bytes:  # in 16 bits at least
            raise refusal
        with open_regular(folder.path / WEIGHTS) as file:
            weights = load(file.read())
        if {name: array.shape for name, array in weights.items()} != sizes:
            raise refusal
        float_weights = {name: array.astype(np.float32) for name, array in weights.items()}
    if not all((np.abs(array) <= _MAX_WEIGHT).all() for array in float_weights.values()):
        raise not_finite(folder.locate())
    return reader, shape, float_weights


def read_json(folder: ModelFolder, name: str) -> dict[str, Any]:
    """Return the JSON of a file of a model."""
    file_bytes = folder.read(name, max_bytes=MAX_CONFIG_BYTES)
    return parse_json(file_bytes, place=folder.locate(name))


def not_finite(where: str) -> AuditError:
    """Return the error for weights that are not finite."""
    return AuditError(
        "The weights hold numbers that are not finite.",
        where=where,
        do="The training has diverged, or the file is damaged.",
    )
