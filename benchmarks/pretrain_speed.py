"""The speed of the pre-training loop beside the plain float32 loop, on the same rows and masks.

    python -m benchmarks.pretrain_speed --layers 2 --rounds 4 --steps 2

Plain: transformers' eager attention, logits and labels at all positions, an attention mask as for
padded rows, AdamW over lists of tensors. Ours: the steps of `audit.training`. Both start from the
same weights and see the same masked rows in the same steps; the rounds take turns, so that other
load on the machine falls on both. The gain depends on the processor: bfloat16 is taken only where
it has instructions for it, and nothing is promised of one machine from another.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
import transformers
from torch import nn

from audit.models.forward import onednn_float32
from audit.rng import generator
from audit.training.config import TrainSettings
from audit.training.loop import Hardware, memory_kept, multiplies_bfloat16, pick_precision
from audit.training.masked_lm import MaskedLearner
from audit.training.tokens import Ids, SpecialIds, masked_rows

CLS, SEP, MASK, FIRST = 101, 102, 103, 1000


def main() -> None:
    """Measure, and print one JSON object."""
    options = _options()
    torch.set_num_threads(options.threads)
    precision = pick_precision(options.precision, device="cpu", is_cpu_asked=True)
    settings = TrainSettings(
        batch=options.batch, micro_batch=options.batch, learning_rate=options.learning_rate,
        schedule="constant", precision=precision,
    )  # fmt: skip
    special = SpecialIds(CLS, SEP, MASK, options.vocabulary)
    hardware = Hardware("cpu", precision, "onednn" if options.onednn else "default")
    n_steps = options.rounds * options.steps
    learner = MaskedLearner(
        _model(options, attention="sdpa"), settings=settings, hardware=hardware, n_steps=n_steps,
        rows=_Rows(options, special),
    )  # fmt: skip
    plain = _Plain(
        _model(options, attention="eager"), settings=settings, special=special, n_steps=n_steps
    )
    plain.model.load_state_dict(learner.model.state_dict())
    loops: dict[str, Callable[[int, Ids], float]] = {
        "plain": plain.step,
        "ours": lambda step, rows: float(learner.step(step)[0]),
    }
    losses, wall, cpu = _raced(options, loops)
    difference = max(abs(a - b) for a, b in zip(losses["plain"], losses["ours"], strict=True))
    told = {
        "settings": vars(options), "precision": precision, "kernels": hardware.kernels,
        "has_bfloat16_instructions": multiplies_bfloat16(), "torch": torch.__version__,
        "wall": _compared(wall), "cpu_time": _compared(cpu), "losses": losses,
        "largest_difference_of_losses": round(difference, 4),
    }  # fmt: skip
    print(json.dumps(told, indent=1))


Seconds = dict[str, list[float]]


def _raced(
    options: argparse.Namespace,
    loops: dict[str, Callable[[int, Ids], float]],
) -> tuple[Seconds, Seconds, Seconds]:
    """Return the losses of each loop, and seconds a step by the clock and of processor time.

    The loops take turns, each first in every other round; the first round is not timed.
    """
    losses, wall, cpu = ({name: [] for name in loops} for _ in range(3))
    for number in range(options.rounds):
        for name in sorted(loops, reverse=bool(number % 2)):
            first = number * options.steps + 1
            with _as_trained(options) if name == "ours" else nullcontext():
                begin, begin_cpu = time.perf_counter(), time.process_time()
                for step in range(first, first + options.steps):
                    losses[name].append(round(loops[name](step, _rows(options, step)), 4))
                if number:
                    wall[name].append((time.perf_counter() - begin) / options.steps)
                    cpu[name].append((time.process_time() - begin_cpu) / options.steps)
    return losses, wall, cpu


@contextmanager
def _as_trained(options: argparse.Namespace) -> Iterator[None]:
    """Do as `audit.training` does around its steps."""
    with memory_kept(), onednn_float32() if options.onednn else nullcontext():
        yield


def _compared(seconds: Seconds) -> dict[str, object]:
    ratios = [p / o for p, o in zip(seconds["plain"], seconds["ours"], strict=True)]
    return {
        "seconds_a_step": {name: round(float(np.median(v)), 3) for name, v in seconds.items()},
        "ratio_median": round(float(np.median(ratios)), 2),
        "ratio_range": [round(min(ratios), 2), round(max(ratios), 2)],
    }


class _Plain:
    """The loop that one writes first."""

    def __init__(
        self, model: nn.Module, *, settings: TrainSettings, special: SpecialIds, n_steps: int
    ) -> None:
        self.model, self.settings, self.special, self.n_steps = model, settings, special, n_steps
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.learning_rate, eps=1e-6, foreach=True
        )

    def step(self, step: int, rows: Ids) -> float:
        rng = generator(self.settings.seed, "row masks", step)
        share = self.settings.mask_share
        masked = masked_rows(rows, special=self.special, share=share, rng=rng)
        labels = np.full_like(rows, -100)
        np.put_along_axis(labels, masked.positions, masked.targets, axis=1)
        ids = torch.from_numpy(masked.ids)
        self.model.train()
        loss = self.model(
            input_ids=ids, attention_mask=torch.ones_like(ids), labels=torch.from_numpy(labels)
        ).loss
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        for group in self.optimizer.param_groups:
            factor = self.settings.rate_factor(step, n_steps=self.n_steps)
            group["lr"] = self.settings.learning_rate * factor
        self.optimizer.step()
        return float(loss.detach())


def _model(options: argparse.Namespace, *, attention: str) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=options.vocabulary, hidden_size=options.width,
        num_hidden_layers=options.layers, num_attention_heads=options.width // 64,
        intermediate_size=4 * options.width, attn_implementation=attention,
    )  # fmt: skip
    model: nn.Module = transformers.BertForMaskedLM(config)
    return model


class _Rows:
    """Gives the loop the rows that the plain one has."""

    def __init__(self, options: argparse.Namespace, special: SpecialIds) -> None:
        self._options, self.special = options, special

    def of_step(self, step: int) -> Ids:
        return _rows(self._options, step)


def _rows(options: argparse.Namespace, step: int) -> Ids:
    """Return invented rows [B, L]: by Zipf's law; every second follows from the one before."""
    rng = np.random.default_rng([7, step])
    n_words = options.vocabulary - FIRST
    words = FIRST + np.minimum(rng.zipf(1.3, (options.batch, 126)) - 1, n_words - 1)
    words[:, 1::2] = FIRST + (words[:, ::2] * 7 + 11) % n_words
    frame = np.ones((options.batch, 1), dtype=np.int64)
    return np.concatenate([frame * CLS, words, frame * SEP], axis=1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=30_522)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=2, help="of one round")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--precision", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--onednn", action="store_true", help="oneDNN kernels for our float32")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
