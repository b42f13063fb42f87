"""A local causal language model that answers prompts: greedy, in batches, from a directory.

Torch and transformers are imported when a model is loaded, and not before. Nothing is fetched, no
code of the directory is run, weights must be safetensors.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.errors import AuditError
from audit.foreign import refuse_without_memory
from audit.shelf import fingerprint

WHERE = "language model"
_CAUSAL_MODEL_MOST_TOKENS = 32_768
_ADAPTER = "adapter_config.json"
_NOT_OF_THE_MODEL = {".md", ".txt", ".gitattributes", ".png", ".jpg"}
_KEPT_TEXTS = {"merges.txt", "vocab.txt"}


@dataclass(frozen=True, eq=False)
class CausalModel:
    """A causal language model in memory, in evaluation mode.

    The tokenizer pads on the left and has a padding token; `digest` is of the files that make the
    model, `n_context` what it can read and write together, `stored` the type of number in its
    files.
    """

    model: Any
    tokenizer: Any
    directory: Path
    digest: str
    n_context: int
    device: str
    precision: str
    stored: Any


def load_causal(
    directory: Path, *, device: str = "auto", precision: str = "auto", is_frozen: bool = True
) -> CausalModel:
    """Load a model to run or to tune.

    Parameters
    ----------
    precision
        "auto" is bfloat16 on a GPU that has it, else float32.
    is_frozen
        False where all weights will be tuned: they are held in float32 then.
    """
    torch: Any = importlib.import_module("torch")
    from audit.models.load import pick_device
    from audit.training.loop import pick_precision

    place = pick_device(device)
    precision = pick_precision(precision, device=place)
    dtype = torch.bfloat16 if precision == "bfloat16" and is_frozen else torch.float32
    tokenizer, model = read_parts(directory, dtype=dtype)
    try:
        model = model.to(place).eval()
    except torch.OutOfMemoryError:
        raise AuditError(
            "The device has not enough memory for this model.",
            where=WHERE,
            do="Take a smaller model or another device.",
        ) from None
    # Its own settings may ask for chance, for a penalty on repeated words or for several beams.
    transformers: Any = importlib.import_module("transformers")
    model.generation_config = transformers.GenerationConfig(do_sample=False, num_beams=1)
    n_context = getattr(model.config, "max_position_embeddings", None) or _CAUSAL_MODEL_MOST_TOKENS
    return CausalModel(
        model, tokenizer, directory, directory_digest(directory), n_context, place, precision,
        _stored(directory, torch),
    )  # fmt: skip


def _stored(directory: Path, torch: Any) -> Any:
    try:
        config = json.loads((directory / "config.json").read_bytes())
        name = config.get("dtype", config.get("torch_dtype"))
    except (OSError, ValueError, AttributeError):
        name = None
    known = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    return known.get(name, torch.float32) if isinstance(name, str) else torch.float32


def read_parts(directory: Path, *, dtype: Any) -> tuple[Any, Any]:
    """Return tokenizer and model of a directory, the model on the CPU in `dtype` or as "auto"."""
    check_directory(directory)
    transformers: Any = importlib.import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            directory, padding_side="left", **safe
        )
        model, told = transformers.AutoModelForCausalLM.from_pretrained(
            directory, use_safetensors=True, dtype=dtype, output_loading_info=True, **safe
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError):
        raise AuditError(
            "The directory cannot be loaded as a causal language model.",
            where=WHERE,
            do="Give a directory with config.json, tokenizer files and safetensors weights.",
        ) from None
    if told["missing_keys"] or told["mismatched_keys"]:
        raise AuditError(
            "The directory lacks tensors of the model that its config.json names.",
            where=WHERE,
            do="Copy the directory again, with all of its weights.",
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer, model


def check_directory(directory: Path) -> None:
    """Refuse what is no directory with safetensors weights of a whole model."""
    if not directory.is_dir() or not (directory / "config.json").is_file():
        raise AuditError("There is no model directory with a config.json.", where=WHERE)
    weights = list(directory.glob("*.safetensors"))
    if not weights:
        raise AuditError(
            "The directory has no safetensors weights.",
            where=WHERE,
            do="Save the model with safetensors.",
        )
    if (directory / _ADAPTER).exists():
        raise AuditError(
            "The directory holds an adapter; without it the model is another one.",
            where=WHERE,
            do="Merge the adapter into the model and save that.",
        )
    refuse_without_memory(sum(path.stat().st_size for path in weights), where=WHERE)


def directory_digest(directory: Path) -> str:
    """Return the SHA-256 of the names and bytes of the files that make a model."""
    digest = hashlib.sha256()
    try:
        for path in model_files(directory):
            digest.update(f"{path.name} {fingerprint(path)}\n".encode())
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where=WHERE) from None
    return digest.hexdigest()


def model_files(directory: Path) -> list[Path]:
    """Return the files of a directory that make its model and tokenizer, by name."""
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_file()
        and not path.name.startswith(".")
        and (path.suffix not in _NOT_OF_THE_MODEL or path.name in _KEPT_TEXTS)
    )


_MAX_NEW_TOKENS = 512
_BATCH = 8
_LOCAL_MODEL_MOST_TOKENS = 32_768


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
    """

    def __init__(
        self, directory: Path, *, max_new_tokens: int = _MAX_NEW_TOKENS, n_batch: int = _BATCH
    ) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._tokenizer, self._model = read_parts(directory, dtype="auto")
        device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._model = self._model.to(device).eval()
        # A prompt has half of a short context at least.
        self._n_room = (
            getattr(self._model.config, "max_position_embeddings", None) or _LOCAL_MODEL_MOST_TOKENS
        )
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
