"""A masked language model that is a table: three tokens, two slots, every conditional known.

What a sampler does with it can be worked out exactly, by multiplying small matrices.
"""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Floats = NDArray[np.float64]

N_TOKENS = 3
MASK, CLS, SEP, WORD = 3, 4, 5, 6
N_VOCABULARY = 7
APART = (CLS, MASK, WORD, MASK, SEP)
SIDE_BY_SIDE = (CLS, MASK, MASK, WORD, SEP)

JOINT = np.array([[0.30, 0.04, 0.06], [0.02, 0.15, 0.08], [0.05, 0.10, 0.20]])
"""[3, 3] a distribution of the two slots' tokens."""

STATES = tuple(product(range(N_TOKENS + 1), repeat=2))
"""16 states of the two slots; `MASK` is not sampled yet."""


class _TableBody(nn.Module):
    def __init__(self, table: Floats, slots: tuple[int, int]) -> None:
        super().__init__()
        logits = np.full((2, N_TOKENS + 1, N_TOKENS + 1, N_VOCABULARY), -1e4)
        logits[..., :N_TOKENS] = np.log(table) + 1.5  # a softmax takes the constant away
        self.register_buffer("logits", torch.tensor(logits, dtype=torch.float32))
        self.slots = slots

    def forward(self, input_ids: Tensor) -> SimpleNamespace:
        hidden = torch.zeros((*input_ids.shape, N_VOCABULARY))
        for slot, (position, other_position) in enumerate((self.slots, self.slots[::-1])):
            hidden[:, position] = self.logits[slot][
                input_ids[:, position], input_ids[:, other_position]
            ]
        return SimpleNamespace(last_hidden_state=hidden)


class TableModel(nn.Module):
    """Satisfies `audit.models.forward.compute_logits`.

    `table` [2, 4, 4, 3]: for slot s with its own token and the other slot's token (`MASK` is the
    fourth), the probabilities of the three tokens. `slots` are the two positions.
    """

    def __init__(self, table: Floats, *, slots: tuple[int, int]) -> None:
        super().__init__()
        self.base_model = _TableBody(table, slots)
        self.cls = nn.Identity()
        self.config = SimpleNamespace(vocab_size=N_VOCABULARY)
        self.weight = nn.Parameter(torch.ones(1))  # of no matter, but a model has some


def compatible_table(joint: Floats = JOINT) -> Floats:
    """Conditionals of one joint distribution where the slot is masked; others where it is not.

    An unmasked slot prefers tokens that depend on its own, so that a sampler which forgets to
    mask ends elsewhere.
    """
    table = np.empty((2, N_TOKENS + 1, N_TOKENS + 1, N_TOKENS))
    for slot, conditional in enumerate((joint, joint.T)):  # of[x_slot, x_other]
        conditionals = np.vstack(
            [(conditional / conditional.sum(axis=0)).T, conditional.sum(axis=1)]
        )  # [other, x_slot]
        table[slot] = conditionals
        for own_token in range(N_TOKENS):
            table[slot, own_token] = np.roll(conditionals, own_token + 1, axis=-1)
    return table


def random_table(seed: int) -> Floats:
    """Conditionals that belong to no joint distribution, as BERT's need not."""
    return np.random.default_rng(seed).dirichlet([1.5] * N_TOKENS, size=(2, 4, 4))


def state_shares(table: Floats, *, n_steps: int, is_remasked: bool) -> Floats:
    """Exact distribution [16] of the state after T steps: a slot at random, its conditional."""
    step = np.zeros((len(STATES), len(STATES)))
    for i, state in enumerate(STATES):
        for slot in (0, 1):
            own_token = MASK if is_remasked else state[slot]
            for token, p in enumerate(table[slot, own_token, state[1 - slot]]):
                next_state = (token, state[1]) if slot == 0 else (state[0], token)
                step[i, STATES.index(next_state)] += p / 2
    shares: Floats = np.linalg.matrix_power(step, n_steps)[STATES.index((MASK, MASK))]
    return shares
