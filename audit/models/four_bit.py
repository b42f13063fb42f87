"""Round the matrices of a model to four bits and back; a base in 4 bits computes with these.

Source: Dettmers et al., QLoRA (2023), section 3 and appendix E (NF4, double quantization). Blocks,
bounds and the order of operations are those of bitsandbytes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_BLOCK, _SCALES_BLOCK = 64, 256
_SMALLEST_SCALE = 1e-38

_N_EXPONENTS = 7

LEVELS = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""The sixteen numbers of NF4 (appendix E): quantiles of a normal distribution, scaled to 1."""


def round_matrix(matrix: Tensor, *, is_double: bool = False) -> Tensor:
    """Return a matrix after rounding to NF4, in its own number type.

    `matrix` is [outputs, inputs]; each 64 numbers in this order share a scale, their largest
    magnitude. With `is_double` the scales are rounded too, to 8 bits.
    """
    numbers = matrix.reshape(-1).float()
    shares, scales = _round_blocks(numbers, levels=torch.tensor(LEVELS), n_block=_BLOCK)
    if is_double:
        mean = scales.mean()
        scale_shares, largest = _round_blocks(
            scales - mean, levels=_make_scale_levels(), n_block=_SCALES_BLOCK
        )
        scales = (scale_shares * largest[:, None]).reshape(-1)[: len(scales)] + mean
    rounded = (shares * scales[:, None]).reshape(-1)[: len(numbers)]
    return rounded.reshape(matrix.shape).to(matrix.dtype)


def _round_blocks(numbers: Tensor, *, levels: Tensor, n_block: int) -> tuple[Tensor, Tensor]:
    """Return the nearest level of each number, in rows of blocks, and the scale of each block."""
    blocks = functional.pad(numbers, (0, -len(numbers) % n_block)).reshape(-1, n_block)
    scales = blocks.abs().amax(1)
    bounds = (levels[:-1] + levels[1:]) / 2
    shares = blocks * (1 / scales.clamp(min=_SMALLEST_SCALE))[:, None]
    return levels[torch.bucketize(shares, bounds, out_int32=True)], scales


def _make_scale_levels() -> Tensor:
    """Return the 256 numbers of 8 bits to which scales are rounded, in order.

    Seven powers of ten have 1, 2, 4 ... 64 numbers of each sign between a tenth and the whole of
    the power; 0 and 1 stand alone (Dettmers, 8-Bit Approximations for Parallelism, 2016).
    """
    levels = [0.0, 1.0]
    for exponent in range(_N_EXPONENTS):
        borders = torch.linspace(0.1, 1, 2**exponent + 1)
        middles = 10.0 ** (exponent - _N_EXPONENTS + 1) * (borders[:-1] + borders[1:]) / 2
        levels += [*middles.tolist(), *(-middles).tolist()]
    return torch.tensor(sorted(levels))
