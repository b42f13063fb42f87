"""Names after a passage beside the plain way: transformers' eager attention, one name at a time.

Both run one Llama-shaped model with random weights. The names are a grid: every first name stands
with every last name, and a part has one to three tokens. Legend: N names, V vocabulary.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers

from audit.attack.contexts import ContinuationTask, NameTokens
from audit.attack.continuation import make_continuation_shard
from audit.bench.machine import measure_race, use_threads
from audit.bench.race import BenchSettings
from audit.models.causal_pass import build_causal_forwards
from audit.models.load import LoadedModel, pick_device
from audit.names.spelling import NO_PIECE
from audit.shelf import JSON

_N_CONTEXT = 90  # tokens before a name
_MOST_PIECES = 3
_N_PLAIN = 2  # names a round of the baseline
_SHARE_OF_FIRST = 0.4
"""First names are fewer than last names, 400 to 1,000."""


def make_random_causal(settings: BenchSettings, *, device: str = "") -> Any:
    """Return a Llama with random weights, on its device, or with shapes alone on "meta"."""
    with torch.random.fork_rng(devices=[]), torch.device(device or "cpu"):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=settings.n_vocabulary,
            hidden_size=settings.width,
            num_hidden_layers=settings.n_layers,
            num_attention_heads=settings.n_heads,
            intermediate_size=8 * settings.width // 3,
            max_position_embeddings=max(1024, settings.n_tokens or 0),
        )
        model = transformers.LlamaForCausalLM(config).eval()
        return model if device else model.to(settings.device)


def make_grid_task(settings: BenchSettings) -> ContinuationTask:
    """Return a task of one passage and about `n_names` names, every first with every last name."""
    rng = np.random.default_rng(13)
    n_first = max(1, round(math.sqrt(settings.n_names * _SHARE_OF_FIRST)))
    n_last = max(1, round(settings.n_names / n_first))

    def draw_parts(n: int) -> list[list[int]]:
        lengths = rng.integers(1, _MOST_PIECES + 1, n)
        return [rng.integers(settings.n_vocabulary, size=length).tolist() for length in lengths]

    firsts, lasts = draw_parts(n_first), draw_parts(n_last)
    names = [(first, last) for first in firsts for last in lasts]
    width = 2 * _MOST_PIECES
    ids = [[*first, *last, *[NO_PIECE] * (width - len(first + last))] for first, last in names]
    tokens = NameTokens(
        ids=np.array(ids, dtype=np.int64),
        n_first=np.array([len(first) for first, _ in names]),
        first_roles=np.zeros(len(names), dtype=np.int64),
        has_end=np.ones(len(names), dtype=np.bool_),
    )
    context = rng.integers(settings.n_vocabulary, size=settings.n_tokens or _N_CONTEXT)
    return ContinuationTask(
        contexts=(tuple(context.tolist()),),
        kind_of_passage=np.zeros(1, dtype=np.int64),
        names=(tokens,),
        is_known=np.ones(len(names), dtype=np.bool_),
        n_listed=len(names),
        ending_ids=np.arange(0, settings.n_vocabulary, 3),
        seed=0,
    )


def measure_causal(settings: BenchSettings) -> dict[str, JSON]:
    """Measure scenario 2 with a causal model in names after one passage."""
    device = pick_device(settings.device)
    task = make_grid_task(settings)
    names, n_names = task.names[0], len(task.is_known)
    with use_threads(settings.n_threads):
        model = make_random_causal(settings)
        shape: Any = SimpleNamespace(vocab_size=settings.n_vocabulary)
        tokenizer: Any = None
        loaded = LoadedModel(model, tokenizer, "", shape, "bench")
        [forward] = build_causal_forwards([loaded], dtype=settings.dtype)
        plain_model = make_random_causal(settings)
        plain_model.set_attn_implementation("eager")
        ending = torch.from_numpy(task.ending_ids).to(device)
        plain_log_p: dict[int, float] = {}

        def score_plainly() -> float:
            for row in range(_N_PLAIN):
                tokens = [token for token in names.ids[row].tolist() if token != NO_PIECE]
                ids = torch.tensor([[*task.contexts[0], *tokens]], device=device)
                log_p = torch.log_softmax(plain_model(ids, use_cache=False).logits[0], dim=-1)
                first = len(task.contexts[0])
                chosen = log_p[torch.arange(first - 1, ids.shape[1] - 1), ids[0, first:]]
                ended = log_p[-1, ending].logsumexp(dim=0)
                plain_log_p[row] = float((chosen.sum() + ended).detach())
            return float(_N_PLAIN)

        def score_grid() -> float:
            make_continuation_shard(
                forward, task, shard=0, first=0, n=1, device=device, tick=lambda _: None
            )
            return float(n_names)

        measures = measure_race(
            settings, {"baseline": score_plainly, "product": score_grid}, n_rows=256
        )
        shard = make_continuation_shard(
            forward, task, shard=0, first=0, n=1, device=device, tick=lambda _: None
        )
    errors = [abs(shard.passage_sum_log_p[0, row] - log_p) for row, log_p in plain_log_p.items()]
    return measures | {
        "unit": "name",
        "n_names": n_names,
        "n_tokens": task.count_tokens(0),
        "max_log_p_error": max(errors),
    }
