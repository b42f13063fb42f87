"""A local causal language model that answers prompts: greedy, in batches, from a directory.

Torch and transformers are imported when a model is loaded, and not before. Nothing is fetched, no
code of the directory is run, weights must be safetensors.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit.deid.generation.causal_model import directory_digest, read_parts

_MAX_NEW_TOKENS = 512
_BATCH = 8
_MOST_TOKENS = 32_768


class LocalModel:
    """Answers prompts with greedy decoding.

    Parameters
    ----------
    directory
        Of a causal language model: `config.json`, tokenizer files, `*.safetensors`.
    max_new_tokens
        The longest answer.
    n_batch
        Prompts that are answered at once.

    Attributes
    ----------
    n_batch
        As given.
    digest
        SHA-256 of weights, tokenizer, settings and the kind of device.

    Raises
    ------
    AuditError
        If there is no such directory, or it cannot be loaded as such a model.
    """

    def __init__(
        self, directory: Path, *, max_new_tokens: int = _MAX_NEW_TOKENS, n_batch: int = _BATCH
    ) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._tokenizer, self._model = read_parts(directory, dtype="auto")
        device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._model = self._model.to(device).eval()
        # A prompt has half of a short context at least.
        self._n_room = getattr(self._model.config, "max_position_embeddings", None) or _MOST_TOKENS
        self._max_new_tokens = max(1, min(max_new_tokens, self._n_room // 2))
        self.n_batch = n_batch
        said = [directory_digest(directory), max_new_tokens, n_batch, device]
        self.digest = hashlib.sha256(json.dumps(said).encode("ascii")).hexdigest()

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """Return an answer for each prompt, in the order of the prompts."""
        # Prompts of about the same length together: less padding.
        order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
        answers = [""] * len(prompts)
        for start in range(0, len(order), self.n_batch):
            batch = order[start : start + self.n_batch]
            texts = [self._asked(prompts[i]) for i in batch]
            for i, answer in zip(batch, self._generated(texts), strict=True):
                answers[i] = answer
        return answers

    def _asked(self, prompt: str) -> str:
        if not getattr(self._tokenizer, "chat_template", None):
            return prompt
        turns = [{"role": "user", "content": prompt}]
        text = self._tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True
        )
        return str(text)

    def _generated(self, texts: list[str]) -> list[str]:
        limit = max(1, self._n_room - self._max_new_tokens)
        given = self._tokenizer(
            texts, return_tensors="pt", padding=True, truncation=True, max_length=limit
        ).to(self._model.device)
        with self._torch.inference_mode():
            ids = self._model.generate(  # (B, prompt + new)
                input_ids=given["input_ids"],
                attention_mask=given["attention_mask"],
                do_sample=False,
                max_new_tokens=self._max_new_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
            )
        new = ids[:, given["input_ids"].shape[1] :]
        return list(self._tokenizer.batch_decode(new, skip_special_tokens=True))
