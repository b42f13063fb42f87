"""The answers of a causal language model to prompts, greedy and in batches.

A row leaves its batch when its answer has ended, so a batch costs no more than its answers, and an
answer that never ends goes on alone to its limit. Legend: B rows that are still written, L tokens
so far, V vocabulary, K allowed tokens.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from audit.deid.find.held_copy import CopyRule, HeldCopy
from audit.deid.find.network.decode import group_rows
from audit.errors import AuditCancelled, AuditError
from audit.models.library import run_with_cache
from audit.progress import StopQuestion

if TYPE_CHECKING:
    from torch import Tensor

    from audit.deid.find.causal_model import CausalModel

WHERE = "language model"


@dataclass(frozen=True)
class GenerationRequest:
    """A prompt as tokens, how many tokens its answer may have, and the rule that it keeps.

    Without a rule any token may follow.
    """

    prompt: tuple[int, ...]
    n_answer: int
    rule: CopyRule | None = None

    @property
    def n_tokens(self) -> int:
        """The tokens of prompt and answer together."""
        return len(self.prompt) + self.n_answer


class Answer(NamedTuple):
    """The tokens of an answer, without the token that ends it.

    `forced` are the numbers of the tokens at which the model would have left its rule; the token
    that ends the answer has the number behind the last.
    """

    tokens: list[int]
    forced: list[int]


def generate_answers(
    loaded: CausalModel,
    requests: Sequence[GenerationRequest],
    *,
    stops: Sequence[int],
    n_tokens: float = math.inf,
    should_stop: StopQuestion = lambda: False,
    on_share: Callable[[float], None] = lambda share: None,
) -> list[Answer]:
    """Return the answer to each request; a token of `stops` ends it.

    A batch has at most `n_tokens` tokens of prompts and answers, padding included, but always one
    prompt. If memory runs out, a batch is halved. After every token `on_share` gets the share of
    all answers' limits that was written or not needed.
    """
    torch = importlib.import_module("torch")
    answers = [Answer([], []) for _ in requests]
    batches = group_rows([request.n_tokens for request in requests], max_cells=n_tokens)
    n_all_tokens, n_done_tokens = sum(request.n_answer for request in requests), 0
    while batches:
        batch = batches.pop(0)
        rows = [requests[i] for i in batch]
        n_batch_tokens = sum(row.n_answer for row in rows)

        def report_tokens(n_tokens: int, *, n_done_tokens: int = n_done_tokens) -> None:
            if should_stop():
                raise AuditCancelled
            on_share((n_done_tokens + n_tokens) / n_all_tokens)

        try:
            batch_answers = _Batch(loaded, rows, stops=stops).write(on_tokens=report_tokens)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise AuditError(
                    "Memory ran out with a single window.",
                    where=WHERE,
                    do="Set `max_tokens` lower, or take a smaller model.",
                ) from None
            torch.cuda.empty_cache()
            batches[:0] = batch[: len(batch) // 2], batch[len(batch) // 2 :]
            continue
        n_done_tokens += n_batch_tokens
        on_share(n_done_tokens / n_all_tokens)
        for i, answer in zip(batch, batch_answers, strict=True):
            answers[i] = answer
    return answers


@dataclass(eq=False)
class _Row:
    """A row of a batch, with its answer so far and the copy that a rule holds it to."""

    request: GenerationRequest
    copy: HeldCopy | None
    answer: Answer = field(default_factory=lambda: Answer([], []))

    def list_tokens(self, stops: Sequence[int]) -> list[int] | None:
        """Return the tokens that may come next; None if all may."""
        if self.copy is None:
            return None
        tokens = self.copy.list_tokens()
        # A copy that no token continues ends here; what is missing counts as not copied.
        return [*stops, *tokens] if self.copy.is_whole or not tokens else tokens

    def keep_rule(self, token: int, allowed: Sequence[int], likeliest: int) -> int:
        """Return a token, or if it is not allowed the note's own token or the likeliest one."""
        if token in allowed:
            return token
        self.answer.forced.append(len(self.answer.tokens))
        repair = self.copy.find_repair(token, allowed) if self.copy else None
        return likeliest if repair is None else repair

    def take(self, token: int, stops: Sequence[int]) -> bool:
        """Add a token to the answer; return whether the answer goes on."""
        if token in stops:
            return False
        self.answer.tokens.append(token)
        if self.copy is not None:
            self.copy.take(token)
        return self.n_left > 0

    @property
    def n_left(self) -> int:
        """The tokens that the answer may still have."""
        return self.request.n_answer - len(self.answer.tokens)


class _Batch:
    """Rows whose answers are written together."""

    def __init__(
        self, loaded: CausalModel, requests: Sequence[GenerationRequest], *, stops: Sequence[int]
    ) -> None:
        self._torch = importlib.import_module("torch")
        self._loaded, self._stops = loaded, stops
        self._rows = [
            _Row(request, request.rule.begin() if request.rule else None) for request in requests
        ]
        parameters = inspect.signature(loaded.model.forward).parameters
        self._has_positions = "position_ids" in parameters
        self._last_logits = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}

    def write(self, *, on_tokens: Callable[[int], None]) -> list[Answer]:
        """Return the answers; after every token `on_tokens` gets the tokens that are settled."""
        from transformers import DynamicCache

        torch, live_rows = self._torch, [row for row in self._rows if row.n_left > 0]
        n_all = sum(row.request.n_answer for row in self._rows)
        ids, attended = self._pad_prompts(live_rows)  # [B, L]
        positions = (attended.cumsum(1) - 1).clamp(min=0)
        cache = DynamicCache(config=self._loaded.model.config)
        with torch.inference_mode():
            while live_rows:
                positions_option = {"position_ids": positions} if self._has_positions else {}
                logits = run_with_cache(
                    self._loaded.model,
                    ids,
                    cache=cache,
                    attention_mask=attended,
                    **positions_option,
                    **self._last_logits,
                )[:, -1]  # [B, V]
                tokens = self._choose_tokens(logits, live_rows)
                goes_on = [
                    row.take(token, self._stops)
                    for row, token in zip(live_rows, tokens, strict=True)
                ]
                places = [i for i, is_live in enumerate(goes_on) if is_live]
                if len(places) < len(live_rows):
                    live_rows = [live_rows[i] for i in places]
                    live_places = torch.tensor(places, dtype=torch.long, device=ids.device)
                    attended, positions = attended[live_places], positions[live_places]
                    if places:
                        cache.batch_select_indices(live_places)
                on_tokens(n_all - sum(row.n_left for row in live_rows))
                ids = torch.tensor(
                    [[row.answer.tokens[-1]] for row in live_rows], device=ids.device
                )
                attended = torch.cat([attended, attended.new_ones(len(live_rows), 1)], dim=1)
                positions = positions[:, -1:] + 1
        return [row.answer for row in self._rows]

    def _pad_prompts(self, rows: Sequence[_Row]) -> tuple[Tensor, Tensor]:
        """Return the prompts [B, L], padded on the left, and which tokens are no padding."""
        torch, device = self._torch, self._loaded.device
        n_prompt = max((len(row.request.prompt) for row in rows), default=0)
        ids = torch.full((len(rows), n_prompt), self._loaded.tokenizer.pad_token_id or 0)
        attended = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            n_padding = n_prompt - len(row.request.prompt)
            ids[i, n_padding:] = torch.tensor(row.request.prompt)
            attended[i, n_padding:] = 1
        return ids.to(device), attended.to(device)

    def _choose_tokens(self, logits: Tensor, rows: Sequence[_Row]) -> list[int]:
        """Return the most likely of the tokens that may follow in each row; logits are [B, V]."""
        allowed_lists = [row.list_tokens(self._stops) for row in rows]
        tokens: list[int] = logits.argmax(dim=1).tolist()
        ruled_rows = [i for i, allowed in enumerate(allowed_lists) if allowed is not None]
        if ruled_rows:
            lists = [allowed_lists[i] or [] for i in ruled_rows]
            n_most = max(map(len, lists))
            padded = [
                [*tokens_of_row, *tokens_of_row[:1] * (n_most - len(tokens_of_row))]
                for tokens_of_row in lists
            ]  # [B, K]
            allowed_ids = self._torch.tensor(padded, device=logits.device)
            places = logits[ruled_rows].gather(1, allowed_ids).argmax(dim=1).tolist()
            for i, choices, place in zip(ruled_rows, padded, places, strict=True):
                tokens[i] = rows[i].keep_rule(tokens[i], choices, choices[place])
        return tokens
