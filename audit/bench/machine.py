"""A machine and its speed: its processor, its fastest products, the operations of a work."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from audit.bench.race import BenchSettings, quotients, race_works, spread
from audit.models.forward import may_pack, read_processor_facts
from audit.shelf import JSON

_INSTRUCTIONS = {"AVX2": "avx2", "AVX-512": "avx512f", "bfloat16": "avx512_bf16", "AMX": "amx_bf16"}
"""Instructions that decide the class of a processor -> the flag of each."""
_LARGE = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the product that shows a device's peak."""


def describe_machine(device: str) -> dict[str, JSON]:
    """Return processor, class, cores, GPU and versions, which are shown beside a result."""
    facts = read_processor_facts()
    model = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
    flags = re.search(r"^flags\s*:(.*)$", facts, re.MULTILINE)
    processor_flags = set(flags[1].split()) if flags else set()
    return {
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "class": ", ".join(name for name, flag in _INSTRUCTIONS.items() if flag in processor_flags)
        or "none",
        "n_cores": os.cpu_count() or 1,
        "gpu": torch.cuda.get_device_name() if device == "cuda" else "",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


Work = Callable[[], float]


def make_products(settings: BenchSettings, *, n_rows: int) -> dict[str, Work]:
    """Return matrix products to be raced, in GFLOP; the engine is compared with them.

    "float32" and "bfloat16" are large square ones; the peak is that of the engine's number type.
    "packed" has the shapes of a layer of the model, with `n_rows` tokens. On a CPU weights are
    packed for oneDNN first.
    """
    width, device, large = settings.width, settings.device, _LARGE[settings.device]
    shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    works = {
        dtype: _product(large, [(large, large)], dtype=dtype, device=device)
        for dtype in ("float32", "bfloat16")
    }
    packed = _product(n_rows, shapes, dtype=settings.dtype, device=device)
    return works | {"packed": packed}


def _product(n_rows: int, shapes: list[tuple[int, int]], *, dtype: str, device: str) -> Work:
    numbers = {"dtype": getattr(torch, dtype), "device": device}
    multiplications = [
        _prepare_product(torch.randn(n_rows, n, **numbers), torch.randn(m, n, **numbers))
        for n, m in shapes
    ]
    gflop_once = sum(2e-9 * n_rows * n * m for n, m in shapes)
    times = max(1, round(2.0 / gflop_once))  # some 2 GFLOP at least, for the clock's sake

    def work() -> float:
        with torch.inference_mode():
            for _ in range(times):
                for multiply in multiplications:
                    multiply()
        return gflop_once * times

    return work


def _prepare_product(x: torch.Tensor, weight: torch.Tensor) -> Callable[[], Tensor]:
    kernels = torch.ops.mkldnn
    if not may_pack(weight):
        return lambda: torch.nn.functional.linear(x, weight)
    packed = kernels._reorder_linear_weight(weight)
    return lambda: kernels._linear_pointwise(x, packed, None, "none", [], "")


Shape = Sequence[int]
Argument = Shape | str | float | None
"""An argument of an operation; a tensor is represented by its shape."""


def _count_linear_flops(x: Shape, *others: Argument, out_shape: Shape, **named: Argument) -> int:
    return 2 * int(torch.Size(x).numel()) * int(out_shape[-1])


def _count_attention_flops(
    query: Shape, key: Shape, *others: Argument, out_shape: Shape, **named: Argument
) -> int:
    return 4 * int(torch.Size(query).numel()) * int(key[-2])


def measure_race(
    settings: BenchSettings, works: Mapping[str, Work], *, n_rows: int
) -> dict[str, Any]:
    """Race a baseline and a product, and say what they do on this machine.

    Parameters
    ----------
    works
        "baseline" and "product"; each does some work and returns how many units it was.
    n_rows
        Tokens of one pass of the product.

    Returns
    -------
    dict
        `ratio` is how often the product does what the baseline does once, `fraction_of_peak` its
        GFLOP a second against a large product of its number type, `fraction_of_packed_peak` against
        packed products of the model's own shapes. Operations are those of products of matrices that
        were executed, counted and not estimated; all are medians over the rounds.
    """
    gflop: dict[str, float] = {}

    def count_flops(name: str, work: Work) -> None:
        kernels = torch.ops
        extra = {
            kernels.mkldnn._linear_pointwise: _count_linear_flops,
            kernels.aten._scaled_dot_product_flash_attention_for_cpu: _count_attention_flops,
        }
        with FlopCounterMode(display=False, custom_mapping=extra) as counter:
            n_units = work()
        gflop[name] = counter.get_total_flops() / 1e9 / n_units

    rates = race_works(
        {**works, **make_products(settings, n_rows=n_rows)},
        n_rounds=settings.n_rounds,
        device=settings.device,
        first=count_flops,
    )
    ratio = quotients(rates, "product", by="baseline")
    shares = {
        name: quotients(rates, "product", by=by, times=gflop["product"])["median"]
        for name, by in (("peak", settings.dtype), ("packed_peak", "packed"))
    }
    return {
        "settings": settings.plain(),
        "machine": describe_machine(settings.device),
        "ratio": ratio["median"],
        "ratio_low": ratio["low"],
        "ratio_high": ratio["high"],
        **{f"fraction_of_{name}": share for name, share in shares.items()},
        **{
            name: {f"{key}_per_second": value for key, value in spread(rates[name]).items()}
            | {"gflop_per_unit": gflop[name]}
            for name in works
        },
        "peak_gflop_per_second": {
            name: spread(rates[name])["median"] for name in ("float32", "bfloat16", "packed")
        },
    }


@contextmanager
def use_threads(n: int) -> Iterator[None]:
    """Use `n` threads of the CPU while the block runs."""
    n_before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(n_before)
