"""Generation and posteriors beside the published sampler's way of doing the same.

The baseline is transformers' eager attention in float32, autograd on, logits at all positions, at
the batch that suits it best. The product is the engine's own functions, a shard at a time. Both run
one model with random weights, whose logits are scaled to the spread of trained ones. Legend: B
rows, L tokens, M masks, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers
from scipy.stats import norm
from torch import Tensor, nn

from audit.attack.evidence import DOCUMENTS_PER_SHARD
from audit.attack.generation import GenerationTask, generate_shard
from audit.attack.posterior import make_posterior_shard
from audit.attack.prompts import PosteriorTask, Template, part_columns
from audit.bench.machine import measure_race, use_threads
from audit.bench.race import BenchSettings, find_best_batch
from audit.models.forward import Forward
from audit.models.load import pick_device
from audit.names.spelling import FIRST, LAST, NO_TWIN, PartPieces
from audit.shelf import JSON
from audit.stats import IntArray

CLS, SEP, MASK, FIRST_WORD = 101, 102, 103, 104
_LOGIT_SPREAD = 1.7  # standard deviation in nats
_N_GIVEN = 6  # tokens of the default prompt that are not [MASK]
_PAPER = {"n_documents": 10_000, "n_steps": 500}
_TFLOPS_H200 = 790.0  # of bfloat16, dense
_BATCHES = {"cpu": (4, 16, 64), "cuda": (64, 256)}
_MEAN_LENGTH, _LENGTH_SPREAD = 90, 25 / 90  # of passages: tokens, and their deviation as a share
_PADDED = 128 / 90  # a padded input in lengths of the mean
_N_LENGTHS = 6  # of passages
_N_DRAWS_OF_LENGTH = 8
_N_CHECKED = 8  # rows on which logits are compared


def make_random_model(settings: BenchSettings) -> nn.Module:
    """Return a BERT with random weights and eager attention, on its device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=settings.n_vocabulary,
            hidden_size=settings.width,
            num_hidden_layers=settings.n_layers,
            num_attention_heads=settings.n_heads,
            intermediate_size=4 * settings.width,
            attn_implementation="eager",
        )
        model: Any = transformers.BertForMaskedLM(config).eval()
        ids = torch.randint(FIRST_WORD, settings.n_vocabulary, (2, 16))
        with torch.no_grad():
            # The head's last norm has no shift yet: what comes after it is scaled by its weight.
            scale = _LOGIT_SPREAD / model(input_ids=ids).logits.std()
            model.cls.predictions.transform.LayerNorm.weight.mul_(scale)
    device_model: nn.Module = model.to(settings.device)
    return device_model


def make_generation_task(settings: BenchSettings) -> GenerationTask:
    """Return a task with a prompt like the default one: 32 tokens unless set, six of them words."""
    n_masks = (settings.n_tokens or 32) - _N_GIVEN - 2
    return GenerationTask(
        prompt=(CLS, *_draw_words(_N_GIVEN, settings), *[MASK] * n_masks, SEP),
        mask_id=MASK,
        multi_piece_parts=(),
        seed=0,
        n_steps=settings.n_steps,
    )


def measure_generation(settings: BenchSettings) -> dict[str, JSON]:
    """Measure scenario 1 in document-steps."""
    device = pick_device(settings.device)
    task, n_documents = (
        make_generation_task(settings),
        settings.batch or DOCUMENTS_PER_SHARD[device],
    )
    length = len(task.prompt)
    with use_threads(settings.n_threads):
        model = make_random_model(settings)
        forward = Forward(model, dtype=settings.dtype)
        batch = find_best_batch(
            _BATCHES[device], lambda n: _run_plain_steps(model, task, n, n_steps=1), device=device
        )

        def product() -> float:
            generate_shard(
                forward, task, shard=0, first=0, n=n_documents, device=device, tick=lambda _: None
            )
            return float(n_documents * task.n_steps)

        measures = measure_race(
            settings,
            {
                "baseline": lambda: _run_plain_steps(model, task, batch, n_steps=2),
                "product": product,
            },
            n_rows=n_documents * length,
        )
        ids = torch.from_numpy(
            np.array([_draw_words(length, settings, k) for k in range(_N_CHECKED)])
        )
        ids, places = ids.to(device), torch.arange(1, _N_CHECKED + 1, device=device).unsqueeze(1)
        ids.scatter_(1, places, MASK)
        measures |= _logit_errors(model, forward, ids, places)
    n_all = _PAPER["n_documents"] * _PAPER["n_steps"]
    gflop = measures["product"]["gflop_per_unit"]
    paper = _PAPER | {
        "seconds": n_all / measures["product"]["median_per_second"],
        f"floor_seconds_at_{_TFLOPS_H200:.0f}_tflops": n_all * gflop / 1e3 / _TFLOPS_H200,
    }
    return measures | {"unit": "document-step", "baseline_batch": batch, "paper_scale": paper}


def _draw_words(n: int, settings: BenchSettings, key: int = 0) -> list[int]:
    rng = np.random.default_rng([11, key])
    words: list[int] = rng.integers(FIRST_WORD, settings.n_vocabulary, n).tolist()
    return words


def _run_plain_steps(model: nn.Module, task: GenerationTask, batch: int, *, n_steps: int) -> float:
    """Run steps of `batch` documents the plain way; return the number of document-steps."""
    device = next(model.parameters()).device
    state = torch.tensor(task.prompt, device=device).repeat(batch, 1)  # [B, L]
    sampled, rows = torch.from_numpy(task.sampled_positions), torch.arange(batch, device=device)
    for _ in range(n_steps):
        positions = sampled[torch.randint(len(sampled), (batch,))].to(device)
        state[rows, positions] = task.mask_id
        logits = model(input_ids=state).logits[rows, positions]  # [B, V]
        top, tokens = logits.topk(min(task.top_k, logits.shape[-1]), dim=-1)
        picked = torch.multinomial(torch.softmax(top / task.temperature, dim=-1), 1)
        state[rows, positions] = tokens.gather(1, picked)[:, 0]
    return float(batch * n_steps)


def measure_posterior(settings: BenchSettings) -> dict[str, JSON]:
    """Measure scenario 2 in inputs, with dropout on and every name scored."""
    device = pick_device(settings.device)
    task, batch = make_posterior_task(settings), settings.batch or _N_DRAWS_OF_LENGTH
    n_inputs = batch * _N_LENGTHS
    with use_threads(settings.n_threads):
        model = make_random_model(settings)
        forward = Forward(model, dtype=settings.dtype)
        plain = _PlainPosteriors(model, task)
        plain_batch = find_best_batch(_BATCHES[device][:2], plain.run, device=device)

        def product() -> float:
            make_posterior_shard(
                forward, task, shard=0, first=0, n=n_inputs, device=device, tick=lambda _: None
            )
            return float(n_inputs)

        measures = measure_race(
            settings,
            {"baseline": lambda: plain.run(plain_batch), "product": product},
            n_rows=int(batch * task.n_tokens),
        )
        ids, places = task.templates[_N_LENGTHS // 2].ids((1, 1), mask=MASK)
        measures |= _logit_errors(
            model, forward, *(torch.tensor([numbers], device=device) for numbers in (ids, places))
        )
    return measures | {"unit": "input", "baseline_batch": plain_batch}


def make_posterior_task(settings: BenchSettings) -> PosteriorTask:
    """Return a task with normally distributed passage lengths and names of two pieces."""
    mean = settings.n_tokens or _MEAN_LENGTH
    rng = np.random.default_rng(12)
    shares = (np.arange(_N_LENGTHS) + 0.5) / _N_LENGTHS
    lengths = np.round(mean * (1 + norm.ppf(shares) * _LENGTH_SPREAD)).astype(int)
    templates = []
    for key, length in enumerate(lengths.tolist()):
        n_words = max(2, length - 4)
        words = _draw_words(n_words, settings, 100 + key)
        place = int(rng.integers(n_words))
        templates.append(Template((CLS, *words[:place]), (), (*words[place:], SEP)))
    n = settings.n_names
    parts = rng.integers(FIRST_WORD, settings.n_vocabulary, (n, 2, 1))
    pieces = PartPieces(
        ids=parts,
        n_pieces=np.ones((n, 2), dtype=np.int64),
        roles=np.tile(np.array([FIRST, LAST]), (n, 1)),
        is_known=np.ones(n, dtype=np.bool_),
        twin_of=np.full(n, NO_TWIN),
    )
    return PosteriorTask(
        templates=tuple(templates),
        kind_of_passage=np.zeros(len(templates), dtype=np.int64),
        pieces=(pieces,),
        part_columns=part_columns([pieces], has_between=[False]),
        n_listed=n,
        mask_id=MASK,
        seed=0,
    )


class _PlainPosteriors:
    """The baseline of scenario 2: all inputs padded to one length, in training mode."""

    def __init__(self, model: nn.Module, task: PosteriorTask) -> None:
        self._model, self._names = model, task.pieces[0].ids[:, :, 0]  # [N, 2]
        prompts = [template.ids((1, 1), mask=MASK) for template in task.templates]
        longest = round(_PADDED * np.mean([len(ids) for ids, _ in prompts]))
        self._ids: IntArray = np.array([ids + [0] * (longest - len(ids)) for ids, _ in prompts])
        self._is_text: IntArray = np.array(
            [[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in prompts]
        )
        self._places: IntArray = np.array([places for _, places in prompts])

    def run(self, batch: int) -> float:
        """Score every name in `batch` inputs; return their number."""
        device = next(self._model.parameters()).device
        input_rows = np.arange(batch) % len(self._ids)
        ids, is_text, places = (
            torch.from_numpy(array[input_rows]).to(device)
            for array in (self._ids, self._is_text, self._places)
        )
        names = torch.from_numpy(self._names).to(device)
        self._model.train()
        logits = self._model(input_ids=ids, attention_mask=is_text).logits  # [B, L, V]
        self._model.eval()
        rows = torch.arange(batch, device=device).unsqueeze(1)
        p = torch.softmax(logits[rows, places], dim=-1)  # [B, 2, V]
        (p[:, 0, names[:, 0]] * p[:, 1, names[:, 1]]).sum(dim=0)  # [N]
        return float(batch)


def _logit_errors(
    model: nn.Module, forward: Forward, ids: Tensor, places: Tensor
) -> dict[str, float]:
    """Return how far the product's logits are from transformers' in float32, dropout off."""
    with torch.inference_mode():
        rows = torch.arange(len(ids), device=ids.device).unsqueeze(1)
        exact = model(input_ids=ids).logits[rows, places].double()  # [B, M, V]
        logits = forward.logits(ids, positions=places).double()
        variation = (torch.softmax(exact, dim=-1) - torch.softmax(logits, dim=-1)).abs().sum(dim=-1)
        return {
            "max_logit_error": float((exact - logits).abs().max()),
            "total_variation": float(variation.mean() / 2),
        }
