"""Scenario 2, slowly: one input and one name at a time, with plain transformers and torch.

Written from sections 4.2 and 7 and from what was decided on scores, not from the engine: no batch,
no layout, no gathered head; loops only. The last function puts a question in the engine's terms.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

from audit.corpora.passages import Passage
from audit.membership import prompts
from audit.membership.candidates import Candidates, make_candidates
from audit.membership.posterior import PosteriorTask

torch.set_num_threads(1)  # these models are so small that a second thread only waits

Name = tuple[str, str]
"""(first, last)."""


@dataclass(frozen=True)
class PlainModel:
    """A model and its tokenizer as transformers itself loads them."""

    model: Any
    tokenizer: Any


@dataclass(frozen=True)
class Spelled:
    """A name in a passage: token ids around it, and its parts' pieces in the order written."""

    left: list[int]
    parts: list[list[int]]
    between: list[int]
    right: list[int]


def plain_model(folder: Path) -> PlainModel:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return PlainModel(transformers.AutoModelForMaskedLM.from_pretrained(folder).eval(), tokenizer)


def spell(plain: PlainModel, passage: Passage, name: Name) -> Spelled:
    first, last = name
    separator = passage.separator
    if passage.slots == ("full",):
        is_japanese = max(first + last) > "\u3000"
        written = [last, first] if is_japanese else [first, last]
        separator = "" if is_japanese else " "
    else:
        written = [{"first": first, "last": last}[role] for role in passage.slots]
    spaces = [" " if passage.left.endswith(" ") else "", " " if separator.endswith(" ") else ""]
    written = [part for part in written if part]
    parts = []
    for k in range(len(written)):
        parts.append(_ids(plain, spaces[k] + written[k]))
    between = _ids(plain, separator.strip()) if len(parts) == 2 else []
    left = [plain.tokenizer.cls_token_id, *_ids(plain, passage.left.rstrip())]
    return Spelled(
        left, parts, between, [*_ids(plain, passage.right), plain.tokenizer.sep_token_id]
    )


def can_be_scored(plain: PlainModel, passages: Sequence[Passage], name: Name) -> bool:
    """Whether no part of the name has an unknown piece in any of the passages."""
    for passage in passages:
        for part in spell(plain, passage, name).parts:
            if not part or plain.tokenizer.unk_token_id in part:
                return False
    return True


def log_product(plain: PlainModel, passage: Passage, name: Name) -> float:
    """Return ln of p(first) p(last), every piece masked at once."""
    spelled = spell(plain, passage, name)
    hidden = [[None] * len(part) for part in spelled.parts]
    return sum(_log_parts(plain, spelled, filled=hidden))


def log_chain(plain: PlainModel, passage: Passage, name: Name) -> float:
    """Return the mean over both orders of ln p(one part) + ln p(the other | that one filled in)."""
    spelled = spell(plain, passage, name)
    if len(spelled.parts) == 1:
        return log_product(plain, passage, name)
    a, b = spelled.parts
    none_a, none_b = [None] * len(a), [None] * len(b)
    one, other = _log_parts(plain, spelled, filled=[none_a, none_b])
    _, other_given_one = _log_parts(plain, spelled, filled=[a, none_b])
    one_given_other, _ = _log_parts(plain, spelled, filled=[none_a, b])
    return 0.5 * (one + other_given_one + other + one_given_other)


def _log_parts(plain: PlainModel, spelled: Spelled, *, filled: list[list[Any]]) -> list[float]:
    """Return ln p of each part's pieces, in one pass with these pieces filled in (None: masked)."""
    ids = list(spelled.left)
    places = []
    for k, part in enumerate(filled):
        if k == 1:
            ids += spelled.between
        places.append([len(ids) + m for m in range(len(part))])
        ids += [plain.tokenizer.mask_token_id if piece is None else piece for piece in part]
    ids += spelled.right
    with torch.no_grad():
        logits = plain.model(input_ids=torch.tensor([ids])).logits[0].double()
    logs = []
    for part, where in zip(spelled.parts, places, strict=True):
        total = 0.0
        for place, piece in zip(where, part, strict=True):
            total += math.log(float(torch.softmax(logits[place], dim=0)[piece]))
        logs.append(total)
    return logs


def _ids(plain: PlainModel, text: str) -> list[int]:
    return list(plain.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []


Statistic = Callable[[Sequence[dict[str, float]]], float]
"""From inputs, each with p_h, p_g, l_h and l_g of one name, to a score."""


def _mean(inputs: Sequence[dict[str, float]], key: str) -> float:
    total = 0.0
    for one in inputs:
        total += one[key]
    return total / len(inputs)


SCORES: dict[str, Statistic] = {
    "difference": lambda x: _mean(x, "p_h") - _mean(x, "p_g"),
    "log_ratio": lambda x: math.log(_mean(x, "p_h")) - math.log(_mean(x, "p_g")),
    "mean_log_ratio": lambda x: _mean(x, "l_h") - _mean(x, "l_g"),
    "hospital_posterior": lambda x: _mean(x, "p_h"),
    "general_posterior": lambda x: _mean(x, "p_g"),
    "general_mean_log": lambda x: _mean(x, "l_g"),
}


def score_with_error(
    statistic: Callable[[list[Any]], float], blocks: Sequence[Sequence[Any]]
) -> tuple[float, float]:
    """Return a score and its jackknife error: leave out one block at a time and score the rest."""
    value = statistic([one for block in blocks for one in block])
    if len(blocks) < 2:
        return value, math.nan
    without = []
    for left_out in range(len(blocks)):
        rest = [one for k, block in enumerate(blocks) if k != left_out for one in block]
        without.append(statistic(rest))
    middle = sum(without) / len(without)
    spread = sum((x - middle) ** 2 for x in without)
    return value, math.sqrt((len(without) - 1) / len(without) * spread)


def make_task(
    tokenizer: Any,
    passages: Sequence[Passage],
    names: Sequence[Name] | Candidates,
    *,
    n_listed: int | None = None,
    max_tokens: int = 64,
    **settings: Any,
) -> PosteriorTask:
    """Put the same question in the engine's terms."""
    candidates = names if isinstance(names, Candidates) else make_candidates(names)
    kinds, kind_of_passage = prompts.kinds_of(passages)
    pieces = tuple(prompts.part_pieces(candidates, kind=k, tokenizer=tokenizer) for k in kinds)
    longest = max(int(p.n_pieces.sum(axis=1).max()) for p in pieces) + 1
    return PosteriorTask(
        templates=prompts.passage_templates(
            passages, tokenizer=tokenizer, max_tokens=max_tokens, n_name_tokens=longest
        ),
        kind_of_passage=kind_of_passage,
        pieces=pieces,
        n_listed=len(candidates) if n_listed is None else n_listed,
        mask_id=tokenizer.mask_token_id,
        **{"seed": 7, **settings},
    )
