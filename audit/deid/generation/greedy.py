"""Greedy generation of many answers: prompts of like length together, each with its own limit.

The paper's settings: temperature 0.0 and top-p 1.0, which is the most likely token every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

from audit.deid.generation.causal_model import WHERE, CausalModel
from audit.deid.generation.copies import ShareListener
from audit.errors import AuditCancelled, AuditError
from audit.progress import StopQuestion

_CPU_TOKENS = 16_384
_MEMORY_SHARE = 0.5
_ASK_SECONDS = 0.2


@dataclass(frozen=True)
class Asked:
    """A prompt as tokens, and how many tokens its answer may have."""

    prompt: tuple[int, ...]
    n_answer: int

    @property
    def n_tokens(self) -> int:
        """Prompt and answer together."""
        return len(self.prompt) + self.n_answer


def generated(
    loaded: CausalModel,
    asked: Sequence[Asked],
    *,
    stops: Sequence[int],
    n_tokens: int,
    should_stop: StopQuestion = lambda: False,
    on_share: ShareListener = lambda share: None,
) -> list[list[int]]:
    """Return the tokens of each answer, the one that ends it left out.

    Parameters
    ----------
    stops
        Tokens that end an answer.
    n_tokens
        Of a batch at most, prompts and answers with their padding; one prompt is always taken.
    on_share
        Told some times a second which share of all answers' limits was written or not needed.

    Raises
    ------
    AuditError
        If memory runs out with a single prompt.
    AuditCancelled
        If the person asked to stop.
    """
    answers: list[list[int]] = [[] for _ in asked]
    order = sorted(range(len(asked)), key=lambda i: (-asked[i].n_tokens, i))
    n_all, n_done = sum(one.n_answer for one in asked), 0
    for batch in _batches(order, asked, n_tokens=n_tokens):

        def answered(part: list[Asked], n_before: int = n_done) -> list[list[int]]:
            n_part = sum(one.n_answer for one in part)
            return _one_batch(
                loaded, part, stops=stops, should_stop=should_stop,
                on_share=lambda share: on_share((n_before + share * n_part) / n_all),
            )  # fmt: skip

        found = _halving([asked[i] for i in batch], answered)
        n_done += sum(asked[i].n_answer for i in batch)
        on_share(n_done / n_all)
        for i, answer in zip(batch, found, strict=True):
            answers[i] = answer
    return answers


def tokens_at_once(loaded: CausalModel) -> int:
    """Return how many tokens a batch may have: by the memory that the device leaves to the cache.

    It follows from the device and the model alone, so that a run that goes on makes the same
    batches.
    """
    if loaded.device == "cpu":
        return _CPU_TOKENS
    free = torch.cuda.get_device_properties(0).total_memory - _n_bytes(loaded.model)
    return max(1, int(_MEMORY_SHARE * max(0, free) / cache_bytes(loaded.model)))


def cache_bytes(model: Any) -> int:
    """Return the bytes that keys and values of one token take."""
    config = model.config
    n_heads = config.num_attention_heads
    n_kept = getattr(config, "num_key_value_heads", None) or n_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // n_heads
    n_bytes = next(model.parameters()).element_size()
    return int(2 * config.num_hidden_layers * n_kept * width * n_bytes)


def _n_bytes(model: Any) -> int:
    return sum(one.numel() * one.element_size() for one in model.parameters())


def _batches(order: list[int], asked: Sequence[Asked], *, n_tokens: int) -> list[list[int]]:
    """Cut an order, longest first, into batches; rows are padded to the longest, their first."""
    batches: list[list[int]] = []
    for i in order:
        if batches and asked[batches[-1][0]].n_tokens * (len(batches[-1]) + 1) <= n_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _halving(
    rows: list[Asked], answer: Callable[[list[Asked]], list[list[int]]]
) -> list[list[int]]:
    """Answer rows together; where memory runs out, in halves."""
    try:
        return answer(rows)
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise AuditError(
                "Memory ran out with a single window.",
                where=WHERE,
                do="Set `max_tokens` lower, or take a smaller model.",
            ) from None
    torch.cuda.empty_cache()
    half = len(rows) // 2
    return _halving(rows[:half], answer) + _halving(rows[half:], answer)


class _Limits(transformers.StoppingCriteria):  # type: ignore[misc, unused-ignore]
    """Ends each row at its own limit, and everything when a person asks to stop."""

    def __init__(
        self, limits: Tensor, *, n_prompt: int, should_stop: StopQuestion, on_share: ShareListener
    ) -> None:
        self._limits, self._n_prompt = limits, n_prompt
        self._n_most, self._on_share = int(limits.max()), on_share
        self._should_stop, self._asked_at = should_stop, time.monotonic()

    def __call__(self, input_ids: Tensor, scores: object, **_: object) -> Tensor:
        now = time.monotonic()
        if now - self._asked_at > _ASK_SECONDS:
            self._asked_at = now
            if self._should_stop():
                raise AuditCancelled
            self._on_share((input_ids.shape[1] - self._n_prompt) / self._n_most)
        return self._limits <= input_ids.shape[1] - self._n_prompt


def _one_batch(
    loaded: CausalModel,
    rows: list[Asked],
    *,
    stops: Sequence[int],
    should_stop: StopQuestion,
    on_share: ShareListener,
) -> list[list[int]]:
    n_prompt = max(len(row.prompt) for row in rows)
    pad = loaded.tokenizer.pad_token_id
    pad = stops[0] if pad is None else pad
    ids = torch.full((len(rows), n_prompt), pad, dtype=torch.long)
    attended = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, n_prompt - len(row.prompt) :] = torch.tensor(row.prompt)
        attended[i, n_prompt - len(row.prompt) :] = 1
    limits = torch.tensor([row.n_answer for row in rows], device=loaded.device)
    with torch.inference_mode():
        written = loaded.model.generate(  # [B, prompt + answer]
            input_ids=ids.to(loaded.device),
            attention_mask=attended.to(loaded.device),
            do_sample=False,
            max_new_tokens=int(limits.max()),
            eos_token_id=list(stops),
            pad_token_id=pad,
            stopping_criteria=transformers.StoppingCriteriaList(
                [_Limits(limits, n_prompt=n_prompt, should_stop=should_stop, on_share=on_share)]
            ),
        )
    answers = written[:, n_prompt:].tolist()
    return [
        _until_stop(answer[: row.n_answer], stops)
        for answer, row in zip(answers, rows, strict=True)
    ]


def _until_stop(answer: list[int], stops: Sequence[int]) -> list[int]:
    ends = [answer.index(stop) for stop in stops if stop in answer]
    return answer[: min(ends)] if ends else answer
