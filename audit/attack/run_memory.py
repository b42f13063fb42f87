"""How much memory a pair of causal models takes, by arithmetic from their settings; torch-free.

Legend: B rows that go through a model side by side, L tokens of a row that are kept in the end, Q
tokens of a row in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from audit.models.causal_architectures import CausalConfig

_FLOAT32, _BFLOAT16 = 4, 2


class PassLoad(NamedTuple):
    """The largest pass of an attack: B rows, of each L tokens that are kept and Q new ones.

    Of the new ones `n_asked` are asked for the next token; of all, logits are computed.
    """

    n_rows: int
    n_kept: int
    n_new: int
    n_asked: int


class ModelSize(NamedTuple):
    """Numbers (parameters) that a model adds to memory, and the bytes of its largest file."""

    n_numbers: int
    n_file_bytes: int


@dataclass(frozen=True)
class Memory:
    """About how many bytes an audit takes, beside the program and its libraries.

    `weights` are those of "general" and "hospital" while the attack runs; an adapter adds its own
    numbers to the general model, and no second copy. `cache` are keys and values of the tokens that
    are kept, `working` the logits and intermediate numbers of the largest pass. `loading` is the
    most that reading the files takes in the computer's memory; on a GPU the rest is the GPU's.
    """

    weights: Mapping[str, int]
    cache: int
    working: int
    loading: int

    @property
    def running(self) -> int:
        """Bytes while the attack runs."""
        return sum(self.weights.values()) + self.cache + self.working


def measure_memory(
    config: CausalConfig, sizes: Mapping[str, ModelSize], *, load: PassLoad, dtype: str, device: str
) -> Memory:
    """Return the memory of a pair.

    Parameters
    ----------
    config
        Settings of the larger model of the pair.
    sizes
        Of "general" and "hospital"; one that is an adapter has its own numbers alone.
    dtype
        "float32", "bfloat16" or "auto", which is bfloat16 on a GPU.
    device
        "cpu" or "cuda".
    """
    is_rounded = dtype == "bfloat16" or (dtype == "auto" and device == "cuda")
    n_bytes = _BFLOAT16 if is_rounded else _FLOAT32
    weights = {model_role: size.n_numbers * n_bytes for model_role, size in sizes.items()}
    # Files are read into float32, one after the other, and a file is in memory twice meanwhile.
    loading, n_held = 0, 0
    for size in sizes.values():
        n_loaded = size.n_numbers * _FLOAT32
        loading = max(loading, n_held + n_loaded + 2 * size.n_file_bytes)
        n_held += n_loaded if device == "cpu" else 0
    n_tokens, n_pass_tokens = load.n_rows * load.n_kept, load.n_rows * load.n_new
    cache = 2 * config.n_layers * config.n_kv_heads * config.head_size * n_tokens * n_bytes
    # Logits that are asked for become float32, log probabilities, and those of ends of words.
    logits = n_pass_tokens * config.vocab_size * n_bytes
    logits += load.n_rows * load.n_asked * config.vocab_size * 3 * _FLOAT32
    scores = n_pass_tokens * load.n_kept * config.n_heads * (n_bytes + _FLOAT32)
    layer = n_pass_tokens * (4 * config.hidden_size + 3 * config.intermediate_size) * n_bytes
    return Memory(weights, cache, max(logits, scores + layer), loading)
