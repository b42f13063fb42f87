"""Scenario 2, slowly: one input and one name at a time, with plain transformers and torch.

Written from sections 4.2 and 7 and from what was decided on scores, not from the engine: no batch,
no layout, no gathered head; loops only. Regressions are scikit-learn's. The last function puts a
question in the engine's terms.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers
from sklearn.linear_model import LinearRegression

from audit.attack.prompts import PosteriorTask, make_posterior_task
from audit.names.candidates import Candidates, make_candidates
from audit.notes.passages import Passage

torch.set_num_threads(1)  # these models are so small that a second thread only waits

Name = tuple[str, str]
"""(first, last)."""


@dataclass(frozen=True)
class PlainModel:
    """A model and its tokenizer as transformers itself loads them."""

    model: Any
    tokenizer: Any
    logit_cache: dict[tuple[int, ...], Any] = field(default_factory=dict)  # of rows, in evaluation


@dataclass(frozen=True)
class Spelled:
    """A name in a passage: token ids around it, and its parts' pieces in the order written."""

    left: list[int]
    parts: list[list[int]]
    between: list[int]
    right: list[int]
    roles: list[str]


def plain_model(folder: Path) -> PlainModel:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return PlainModel(transformers.AutoModelForMaskedLM.from_pretrained(folder).eval(), tokenizer)


def spell(plain: PlainModel, passage: Passage, name: Name) -> Spelled:
    first, last = name
    separator = passage.separator
    if passage.slots == ("full",):
        is_japanese = max(first + last) > "\u3000"
        roles = ["last", "first"] if is_japanese else ["first", "last"]
        separator = "" if is_japanese else " "
    else:
        roles = list(passage.slots)
    text_of = {"first": first, "last": last}
    roles = [role for role in roles if text_of[role]]
    spaces = [" " if text[-1:].isspace() else "" for text in (passage.left, separator)]
    parts = []
    for k in range(len(roles)):
        is_after_text = not spaces[k] and bool(k or passage.left)
        parts.append(_ids(plain, spaces[k] + text_of[roles[k]], is_after_text))
    between = _ids(plain, separator.strip(), separator[:1] != " ") if len(parts) == 2 else []
    left = [plain.tokenizer.cls_token_id, *_ids(plain, passage.left.rstrip())]
    right = [*_ids(plain, passage.right, passage.right[:1] != " "), plain.tokenizer.sep_token_id]
    return Spelled(left, parts, between, right, roles)


def can_be_scored(plain: PlainModel, passages: Sequence[Passage], name: Name) -> bool:
    """Whether every passage shows a part of the name, and none has an unknown piece in any."""
    for passage in passages:
        for part in spell(plain, passage, name).parts or [[]]:
            if not part or plain.tokenizer.unk_token_id in part:
                return False
    return True


def log_product(plain: PlainModel, passage: Passage, name: Name) -> float:
    """Return ln of p(first) p(last), every piece masked at once."""
    spelled = spell(plain, passage, name)
    hidden = [[None] * len(part) for part in spelled.parts]
    return sum(_log_parts(plain, spelled, filled=hidden))


def log_by_role(plain: PlainModel, passage: Passage, name: Name) -> dict[str, float]:
    """Return ln p of the parts that the passage shows, by role, every piece masked at once."""
    spelled = spell(plain, passage, name)
    hidden = [[None] * len(part) for part in spelled.parts]
    return dict(zip(spelled.roles, _log_parts(plain, spelled, filled=hidden), strict=True))


def log_chain(plain: PlainModel, passage: Passage, name: Name) -> float:
    """Return the mean over both orders of ln p(one part) + ln p(the other | that one filled in)."""
    spelled = spell(plain, passage, name)
    if len(spelled.parts) == 1:
        return log_product(plain, passage, name)
    a, b = spelled.parts
    none_a, none_b = [None] * len(a), [None] * len(b)
    first_log, last_log = _log_parts(plain, spelled, filled=[none_a, none_b])
    _, other_given_one = _log_parts(plain, spelled, filled=[a, none_b])
    one_given_other, _ = _log_parts(plain, spelled, filled=[none_a, b])
    return 0.5 * (first_log + other_given_one + last_log + one_given_other)


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
    row = tuple(ids)
    if plain.model.training or row not in plain.logit_cache:
        with torch.no_grad():
            plain.logit_cache[row] = plain.model(input_ids=torch.tensor([ids])).logits[0].double()
    logits = plain.logit_cache[row]
    logs = []
    for part, part_places in zip(spelled.parts, places, strict=True):
        total = 0.0
        for place, piece in zip(part_places, part, strict=True):
            total += math.log(float(torch.softmax(logits[place], dim=0)[piece]))
        logs.append(total)
    return logs


def _ids(plain: PlainModel, text: str, is_after_text: bool = False) -> list[int]:
    """Return the ids of a text; a bracket before it keeps SentencePiece from beginning a word."""
    if not text:
        return []
    before = "(" if is_after_text and "▁" in plain.tokenizer.get_vocab() else ""
    ids = list(plain.tokenizer(before + text, add_special_tokens=False)["input_ids"])
    return ids[len(_ids(plain, before)) :]


Statistic = Callable[[Sequence[dict[str, float]]], float]
"""From inputs, each with p_h, p_g, l_h and l_g of one name, to a score."""


def _mean(inputs: Sequence[dict[str, float]], key: str) -> float:
    total = 0.0
    for passage in inputs:
        total += passage[key]
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
    statistic: Callable[[list[Any]], Any], blocks: Sequence[Sequence[Any]]
) -> tuple[Any, Any]:
    """Return a score and its jackknife error: leave out one block at a time and score the rest.

    Pseudo-values, estimate and variance as Busing, Meijer and van der Leeden (1999) write them.
    """
    value = statistic([sample for block in blocks for sample in block])
    if len(blocks) < 2:
        return value, value * math.nan
    n, g = sum(map(len, blocks)), len(blocks)
    estimate, pseudo, h = g * value, [], []
    for left_out, block in enumerate(blocks):
        rest = [sample for k, block in enumerate(blocks) if k != left_out for sample in block]
        without = statistic(rest)
        h.append(n / len(block))
        pseudo.append(h[-1] * value - (h[-1] - 1) * without)
        estimate = estimate - (1 - len(block) / n) * without
    variance = 0.0
    for pseudo_value, h_here in zip(pseudo, h, strict=True):
        variance = variance + (pseudo_value - estimate) ** 2 / (h_here - 1) / g
    return value, variance**0.5


def studentised(
    hospital: Any, general: Any, *, log_share: Any, n_pieces: Any, is_known: Any
) -> list[float]:
    """Return the residuals of one role's parts, column by column of the regression.

    A line and a parabola through the parts that the generator knows; absolute residuals by the same
    regression give the scale, within a third and five of its median; two known parts at least.
    """
    known_rows = [k for k in range(len(hospital)) if is_known[k]]
    if len(known_rows) < 2:
        return [math.nan] * len(hospital)

    def clip_to_known(x: Any) -> tuple[list[float], list[float]]:
        """Each value within the known ones' range, standardised; and by how much it lay beyond."""
        low, high = min(x[k] for k in known_rows), max(x[k] for k in known_rows)
        inside = [min(max(number, low), high) for number in x]
        middle = sum(x[k] for k in known_rows) / len(known_rows)
        spread = math.sqrt(sum((x[k] - middle) ** 2 for k in known_rows) / len(known_rows)) or 1.0
        out = [number - within for number, within in zip(x, inside, strict=True)]
        return [(number - middle) / spread for number in inside], out

    rows, carried = [[1.0] for _ in hospital], list(general)
    if len(known_rows) >= 15:
        (g, carried), (s, _) = clip_to_known(general), clip_to_known(log_share)
        pieces_known = sum(n_pieces[k] for k in known_rows) / len(known_rows)
        for k, row in enumerate(rows):
            row += [g[k], s[k], n_pieces[k] - pieces_known]
            row += [g[k] ** 2, s[k] ** 2, g[k] * s[k]] if len(known_rows) >= 60 else []

    def predicted(target: list[float]) -> list[float]:
        line = LinearRegression(fit_intercept=False)
        line.fit([rows[k] for k in known_rows], [target[k] for k in known_rows])
        return [float(x) for x in line.predict(rows)]

    target = [h - c for h, c in zip(hospital, carried, strict=True)]
    residual = [t - p for t, p in zip(target, predicted(target), strict=True)]
    scale = [x * math.sqrt(math.pi / 2) for x in predicted([abs(r) for r in residual])]
    middle = float(np.median([scale[k] for k in known_rows]))
    return [r / min(max(x, middle / 3), middle * 5) for r, x in zip(residual, scale, strict=True)]


def slow_parts(hospital: Any, general: Any, *, is_last: Any, **known: Any) -> list[Any]:
    """Return each part's (residual, shift centred at the known parts'), one role after the other.

    `known` are the other columns of `studentised`.
    """
    residuals = [(math.nan, math.nan)] * len(hospital)
    for role in set(is_last):
        rows = [k for k in range(len(hospital)) if is_last[k] == role]
        h, g = ([column[k] for k in rows] for column in (hospital, general))
        of_role = {name: [column[k] for k in rows] for name, column in known.items()}
        shift = [x - y for x, y in zip(h, g, strict=True)]
        middle = np.median(
            [x for x, is_in in zip(shift, of_role["is_known"], strict=True) if is_in]
        )
        for k, residual, x in zip(rows, studentised(h, g, **of_role), shift, strict=True):
            residuals[k] = (residual, x - float(middle))
    return residuals


def part_scores(first: tuple[float, float], last: tuple[float, float]) -> dict[str, float]:
    """Return a name's scores from each part's (residual, centred shift); NaN: no such part."""
    residuals, shifts = (
        [x for x in pair if not math.isnan(x)] for pair in zip(first, last, strict=True)
    )
    if not residuals:
        return dict.fromkeys(PART_SCORES, math.nan)
    return {
        "residual": -math.log(sum(math.exp(-x) for x in residuals)),
        "residual_minimum": min(residuals),
        "residual_sum": sum(residuals),
        "part_log_ratio": min(shifts),
    }


PART_SCORES = ("residual", "residual_minimum", "residual_sum", "part_log_ratio")


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
    return make_posterior_task(
        candidates,
        passages,
        tokenizer=tokenizer,
        max_tokens=max_tokens,
        n_listed=len(candidates) if n_listed is None else n_listed,
        **{"seed": 7, **settings},
    )
