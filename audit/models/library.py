"""What is used of transformers' tokenizers and models, without importing the library."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

from pydantic import JsonValue

if TYPE_CHECKING:
    import tokenizers
    from torch import Tensor
    from transformers import DynamicCache

Ids = list[int]


class Tokenizer(Protocol):
    """A tokenizer as transformers builds it, fast or not."""

    name_or_path: str
    init_kwargs: dict[str, JsonValue]
    is_fast: bool
    backend_tokenizer: tokenizers.Tokenizer
    """Only of a fast one."""
    mecab_kwargs: dict[str, JsonValue] | None
    """Only of a Japanese one that is not fast."""
    cls_token: str | None
    """None for the tokenizers of most causal models."""
    cls_token_id: int
    sep_token_id: int
    mask_token_id: int
    unk_token_id: int
    pad_token_id: int | None
    bos_token: str | None
    eos_token: str | None
    bos_token_id: int | None
    eos_token_id: int | None
    all_special_ids: Ids

    def __len__(self) -> int:
        """Return the size of the vocabulary, with added tokens."""

    def __hash__(self) -> int:
        """Return a number that is the same as long as the tokenizer exists."""

    def get_vocab(self) -> dict[str, int]:
        """Return the number of each token."""

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text without special tokens."""

    def convert_tokens_to_ids(self, tokens: list[str]) -> Ids:
        """Return the numbers of tokens."""

    @overload
    def __call__(
        self,
        text: str,
        *,
        add_special_tokens: bool = ...,
        split_special_tokens: bool = ...,
        truncation: bool = ...,
        max_length: int = ...,
        return_special_tokens_mask: bool = ...,
    ) -> Mapping[str, Ids]: ...

    @overload
    def __call__(
        self,
        text: list[str],
        *,
        add_special_tokens: bool = ...,
        return_attention_mask: bool = ...,
        return_token_type_ids: bool = ...,
        return_offsets_mapping: bool = ...,
        verbose: bool = ...,
    ) -> Mapping[str, list[Ids]]: ...

    def decode(
        self, ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> str:
        """Return the text of numbers of tokens."""

    def batch_decode(
        self,
        sequences: Sequence[Sequence[int]],
        *,
        skip_special_tokens: bool = ...,
        clean_up_tokenization_spaces: bool = ...,
    ) -> list[str]:
        """Return the texts of several sequences."""

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, str]],
        *,
        tokenize: bool,
        add_generation_prompt: bool = ...,
    ) -> str:
        """Return a conversation as the text that the model was trained on."""

    def save_pretrained(self, path: Path) -> tuple[str, ...]:
        """Write the tokenizer's files into a folder."""


def run_with_cache(model: Any, ids: Tensor, *, cache: DynamicCache, **options: Any) -> Tensor:
    """Return the logits [B, L, V] of tokens [B, L] behind those in a cache, which then has them."""
    # transformers 5.24 renamed the argument in most models.
    is_renamed = "cache" in inspect.signature(model.forward).parameters
    name = "cache" if is_renamed else "past_key_values"
    logits: Tensor = model(ids, **{name: cache}, use_cache=True, **options).logits
    return logits
