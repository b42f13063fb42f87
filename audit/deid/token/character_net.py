"""A small network that reads characters: convolutions whose reach doubles from layer to layer.

It has no table of positions, so that a row may have any length, and learns what stands beside what
in minutes, where a transformer of its size needs hours.

Source: Strubell et al. 2017 (iterated dilated convolutions for tagging).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from audit.deid.token.characters import KINDS


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
