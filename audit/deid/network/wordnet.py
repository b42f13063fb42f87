"""The network of words as it is asked: without torch, so that a process needs little memory.

Embeddings by hashed features as in spaCy's `MultiHashEmbed` (Honnibal et al. 2020), flags of lists
beside them, then dilated convolutions (Strubell et al. 2017); `token_model` trains it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load
from threadpoolctl import ThreadpoolController

from audit.deid.network.decode import BEGIN, END, FLAG, GAP, SHAPE, WORD, Scores, Tokens
from audit.deid.network.word_features import (
    FLAGS,
    N_EDGES,
    N_GAPS,
    N_SHAPES,
    N_WORDS,
    Words,
    words_from_json,
)
from audit.deid.tagger_config import Shape
from audit.errors import AuditError
from audit.foreign import open_regular, refuse_without_memory, refusing
from audit.models.inspect import ModelFolder, parse_json

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
"""Features that are looked up: how many numbers each has, and how wide what stands for one is."""
N_GIVEN = sum(width for _, width in TABLES.values()) + len(FLAGS)
NORM_EPSILON = 1e-5
_LOW_FLAGS = 10
_MOST = 1e4
"""No weight of a network that learned something is larger; products of such stay finite."""
_ALONE = threading.Lock()
"""How many cores a product takes is told to the whole process."""
Numbers = NDArray[np.float32]


def shapes_of(shape: Shape, *, n_tags: int) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every tensor of a network."""
    width = shape.width
    sizes: dict[str, tuple[int, ...]] = {
        f"tables.{i}.weight": size for i, size in enumerate(TABLES.values())
    }
    sizes |= {"given.weight": (width, N_GIVEN), "given.bias": (width,)}
    for i in range(len(shape.dilations)):
        sizes |= {f"layers.{i}.{name}": size for name, size in _of_layer(width).items()}
    sizes |= {"norm.weight": (width,), "norm.bias": (width,)}
    return sizes | {"head.weight": (n_tags, width), "head.bias": (n_tags,)}


def _of_layer(width: int) -> dict[str, tuple[int, ...]]:
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
    """Three neighbours at a distance, mixed, and added to what was there."""

    dilation: int
    norm: tuple[Numbers, Numbers]
    mix: Numbers  # [3 C, C]
    mix_bias: Numbers
    out: Numbers  # [C, C]
    out_bias: Numbers

    def added(self, hidden: Numbers, left: Any, right: Any) -> Numbers:
        """Return what is added to tokens [N, C]; N in `left` and `right` is no token."""
        n, width = hidden.shape
        given = np.zeros((n + 1, width), dtype=np.float32)
        _normed(hidden, *self.norm, out=given[:n])
        sides = np.empty((n, 3 * width), dtype=np.float32)
        np.take(given, left, axis=0, out=sides[:, :width], mode="clip")
        sides[:, width : 2 * width] = given[:n]
        np.take(given, right, axis=0, out=sides[:, 2 * width :], mode="clip")
        mixed = sides @ self.mix
        mixed += self.mix_bias
        np.maximum(mixed, np.zeros(width, dtype=np.float32), out=mixed)  # quicker than one zero
        added: Numbers = mixed @ self.out
        added += self.out_bias
        return added


def _normed(x: Numbers, scale: Numbers, shift: Numbers, *, out: Numbers | None = None) -> Numbers:
    """Return numbers [N, C] with a mean of 0 and a spread of 1 in each row, scaled and shifted."""
    share = np.full(x.shape[1], 1 / x.shape[1], dtype=np.float32)
    found: Numbers = np.subtract(x, (x @ share)[:, None], out=out)  # quicker than a mean
    spread = np.einsum("ij,ij->i", found, found)[:, None] * share[0]
    found *= 1.0 / np.sqrt(spread + np.float32(NORM_EPSILON))
    found *= scale
    found += shift
    return found


class WordScorer:
    """Scores every token for every tag.

    What stands for a feature is kept as what the first layer is given of it, so that looking up and
    adding up is all that is left of that layer.
    """

    n_special = 0
    most_tokens = 1024
    """More at once do not fit into a core's cache beside the weights."""

    def __init__(self, reader: Words, shape: Shape, weights: Mapping[str, Numbers]) -> None:
        self.reader = reader
        given, at = weights["given.weight"].T, 0
        self._looked_up = []
        for i, (feature, (_, width)) in enumerate(TABLES.items()):
            table = weights[f"tables.{i}.weight"] @ given[at : at + width]
            self._looked_up.append((feature, table))
            at += width
        flags = given[at:]
        self._flags = [_sums_of(some) for some in (flags[:_LOW_FLAGS], flags[_LOW_FLAGS:])]
        self._bias = weights["given.bias"]
        self._layers = []
        for i, dilation in enumerate(shape.dilations):
            of = {name: weights[f"layers.{i}.{name}"] for name in _of_layer(shape.width)}
            norm = of["norm.weight"], of["norm.bias"]
            mix, out = (np.ascontiguousarray(of[f"{name}.weight"].T) for name in ("mix", "out"))
            layer = _Layer(dilation, norm, mix, of["mix.bias"], out, of["out.bias"])
            self._layers.append(layer)
        self._norm = weights["norm.weight"], weights["norm.bias"]
        self._head = np.ascontiguousarray(weights["head.weight"].T)
        self._head_bias = weights["head.bias"]

    def scored(self, rows: Sequence[Tokens]) -> list[Scores]:
        """Return the scores [tokens, tags] of rows, always the same: on one core."""
        with _ALONE, _libraries().limit(limits=1, user_api="blas"):
            return self._scored(rows)

    def _scored(self, rows: Sequence[Tokens]) -> list[Scores]:
        lengths = np.array([len(row) for row in rows])
        ends = np.cumsum(lengths)
        ids = np.concatenate([row["id"] for row in rows])
        n = len(ids)
        places = np.arange(n)
        begin, end = np.repeat(ends - lengths, lengths), np.repeat(ends, lengths)
        hidden = np.repeat(self._bias[None], n, axis=0)
        for feature, table in self._looked_up:
            hidden += table[ids[:, feature]]
        for flags, sums in zip(_halves(ids[:, FLAG]), self._flags, strict=True):
            hidden += sums[flags]
        for layer in self._layers:
            left, right = places - layer.dilation, places + layer.dilation
            left, right = np.where(left < begin, n, left), np.where(right < end, right, n)
            hidden += layer.added(hidden, left, right)
        scores = _normed(hidden, *self._norm) @ self._head
        scores += self._head_bias
        return np.split(scores, ends[:-1])


@cache
def _libraries() -> ThreadpoolController:
    """Return what says how many cores a product of matrices takes."""
    return ThreadpoolController()


def _halves(flags: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return flags & ((1 << _LOW_FLAGS) - 1), flags >> _LOW_FLAGS


def _sums_of(rows: Numbers) -> Numbers:
    """Return the sums of the rows [2 ** N, C] that the bits of a number name."""
    found = np.zeros((1, rows.shape[1]), dtype=np.float32)
    for row in rows:
        found = np.concatenate([found, found + row])
    return found


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
    with refusing(refusal):
        text = folder.read(LISTS, max_bytes=MAX_CONFIG_BYTES).decode("utf-8", "replace")
        reader = words_from_json(text, where=folder.locate(LISTS))
        given = json_of(folder, CONFIG)
        if given.get("model_type") != WORD_NET:
            raise refusal
        shape = Shape(width=given["width"], dilations=tuple(given["dilations"]))
        sizes = shapes_of(shape, n_tags=n_tags)
        n_bytes = (folder.path / WEIGHTS).stat().st_size
        n_looked_up = sum(n for n, _ in TABLES.values()) + 2 * (1 << _LOW_FLAGS)
        n_needed = 4 * (n_bytes + n_looked_up * shape.width)
        refuse_without_memory(n_needed, where=folder.locate())
        if 2 * sum(map(np.prod, sizes.values())) > n_bytes:  # in 16 bits at least
            raise refusal
        with open_regular(folder.path / WEIGHTS) as file:
            weights = load(file.read())
        if {name: one.shape for name, one in weights.items()} != sizes:
            raise refusal
        numbers = {name: one.astype(np.float32) for name, one in weights.items()}
    if not all((np.abs(one) <= _MOST).all() for one in numbers.values()):
        raise not_finite(folder.locate())
    return reader, shape, numbers


def json_of(folder: ModelFolder, name: str) -> dict[str, Any]:
    """Return the JSON object of a file of a model."""
    data = folder.read(name, max_bytes=MAX_CONFIG_BYTES)
    return parse_json(data, place=folder.locate(name))


def not_finite(where: str) -> AuditError:
    """Return the error for weights that hold something else than numbers."""
    return AuditError(
        "The weights hold numbers that are not finite.",
        where=where,
        do="The training has diverged, or the file is damaged.",
    )
