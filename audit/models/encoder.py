"""The forward pass of a masked language model, with its head only where it is asked for.

Comes in: token ids [B, L], positions. Goes out: logits over the whole vocabulary at those
positions. Knows no tokenizer and no name. Legend: B rows, L tokens a row, M positions a row,
V vocabulary, H hidden width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_BODIES = ("bert", "roberta", "distilbert")


def body_of(model: nn.Module) -> nn.Module:
    """Return the encoder below the masked-LM head."""
    for name in _BODIES:
        body = getattr(model, name, None)
        if isinstance(body, nn.Module):
            return body
    raise ValueError(f"no encoder of BERT, RoBERTa or DistilBERT in {type(model).__name__}")


def hidden_states(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the last layer's hidden states [B, L, H] for rows without padding, ids [B, L]."""
    hidden: Tensor = body_of(model)(input_ids=ids).last_hidden_state
    return hidden


def head_logits(model: nn.Module, hidden: Tensor) -> Tensor:
    """Apply the masked-LM head to hidden states [..., H]; returns logits [..., V]."""
    head: Any = model
    if hasattr(model, "cls"):  # BERT
        logits: Tensor = head.cls(hidden)
    elif hasattr(model, "lm_head"):  # RoBERTa
        logits = head.lm_head(hidden)
    else:  # DistilBERT
        transformed = head.vocab_layer_norm(head.activation(head.vocab_transform(hidden)))
        logits = head.vocab_projector(transformed)
    return logits


def logits_at(model: nn.Module, ids: Tensor, *, positions: Tensor) -> Tensor:
    """Return logits [B, M, V] at `positions` [B, M] of `ids` [B, L]."""
    hidden = hidden_states(model, ids)  # [B, L, H]
    rows = torch.arange(ids.shape[0], device=ids.device).unsqueeze(dim=1)  # [B, 1]
    return head_logits(model, hidden[rows, positions])
