"""The modules of a model with an adapter: each computes what its base does while it is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from audit.models.adapters import Switch


class Changed(nn.Module):
    """A module of the base that an adapter changes."""

    @property
    def has_effect(self) -> bool:
        """Whether the change can make a difference."""
        raise NotImplementedError


class _LowRank(Changed):
    """A module of the base with a change of low rank: `down` [r, i], `up` [o, r]."""

    down: Tensor
    up: Tensor

    def __init__(
        self, base: nn.Module, *, down: Tensor, up: Tensor, scale: float, switch: Switch
    ) -> None:
        super().__init__()
        self.base, self.scale, self._switch = base, scale, switch
        device = next(base.parameters()).device
        self.register_buffer("down", down.to(device), persistent=False)
        self.register_buffer("up", up.to(device), persistent=False)

    @property
    def weight(self) -> Tensor:
        """The weight of the base, which other modules may share."""
        return self.base.weight  # type: ignore[return-value]

    @property
    def has_effect(self) -> bool:
        """Whether the change can make a difference."""
        return bool(self.up.any() and self.down.any())


class LowRankLinear(_LowRank):
    """A linear module with a change of low rank."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs [..., o] of inputs [..., i]."""
        y: Tensor = self.base(x)
        if not self._switch.is_on:
            return y
        change = nn.functional.linear(
            nn.functional.linear(x.to(self.down.dtype), self.down), self.up
        )
        return y + (self.scale * change).to(y.dtype)


class LowRankEmbedding(_LowRank):
    """An embedding with a change of low rank."""

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors [..., d] of token ids [...]."""
        vectors: Tensor = self.base(ids)
        if not self._switch.is_on:
            return vectors
        change = nn.functional.linear(nn.functional.embedding(ids, self.down.T), self.up)
        return vectors + (self.scale * change).to(vectors.dtype)


class Replaced(Changed):
    """An embedding or a head whose weight the adapter stores whole."""

    saved: Tensor

    def __init__(self, base: nn.Module, *, weight: Tensor, switch: Switch) -> None:
        super().__init__()
        self.base, self._switch = base, switch
        device = next(base.parameters()).device
        self.register_buffer("saved", weight.to(device), persistent=False)

    @property
    def weight(self) -> Tensor:
        """The weight of the base, which other modules may share."""
        return self.base.weight  # type: ignore[return-value]

    @property
    def has_effect(self) -> bool:
        """Whether the stored weight is another one than the base's."""
        return not torch.equal(self.saved, self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the base computes, or what it would with the stored weight."""
        if not self._switch.is_on:
            y: Tensor = self.base(x)
            return y
        if x.dtype in (torch.int32, torch.int64):
            return nn.functional.embedding(x, self.saved).to(self.weight.dtype)
        return nn.functional.linear(x, self.saved.to(x.dtype))
