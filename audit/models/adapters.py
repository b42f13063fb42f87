"""LoRA adapters: check their files without peft and without torch, and switch them on and off.

An adapter adds `scale * B A x` to what some modules of its base model compute. The general model of
a pair is the base with the adapter switched off, so both models share one copy of the weights.

Legend: r rank, i inputs and o outputs of a module, V rows and d width of an embedding.

Source: Hu et al., LoRA, 2021, section 4.1; the files are those that peft writes.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from audit.errors import AuditError
from audit.foreign import locate_errors, name_place, open_regular, refuse_errors
from audit.models.layouts import list_embeddings, list_module_sizes, update_tensor_name
from audit.models.model_config import ModelConfig
from audit.models.model_folder import (
    ADAPTER_FILE,
    COPY_FILE,
    INDEX_FILE,
    SINGLE_FILE,
    ModelFolder,
    make_printable,
    open_folder,
)
from audit.models.tensor_header import Header, read_header
from audit.shelf import digest_json, fingerprint

if TYPE_CHECKING:
    from torch import Tensor, nn

SETTINGS_FILE, WEIGHTS_FILE = ADAPTER_FILE, "adapter_model.safetensors"
_PICKLE_FILE = "adapter_model.bin"
_MAX_CONFIG_BYTES = 1_000_000
_PREFIX = "base_model.model."
_FLOATS = ("F16", "BF16", "F32")
_TRAINED_BASE = "Choose the model on which the adapter was trained."

ModuleName = Annotated[str, StringConstraints(pattern=r"^\^?[A-Za-z_][\w.]{0,199}$")]
"""A module's name or the end of one; peft reads it as a pattern, which plain names do not need."""
_Number = TypeVar("_Number", int, float)
_Stored = TypeVar("_Stored")
Rank = Annotated[int, Field(ge=1, le=4_096)]
Alpha = Annotated[float, Field(gt=0, le=65_536)]

_IGNORED = {
    "lora_dropout",
    "inference_mode",
    "base_model_name_or_path",
    "peft_version",
    "revision",
    "auto_mapping",
}
"""Settings that change nothing when an adapter is read; the name of the base is never followed."""
_ONLY: Mapping[str, tuple[JsonValue, ...]] = {
    "peft_type": ("LORA",),
    "task_type": ("CAUSAL_LM", None),
    "bias": ("none",),
    # Other ways to begin change the base, so the base without the adapter is another model.
    "init_lora_weights": (True, False, "gaussian"),
    "loftq_config": ({}, None),
    "megatron_core": ("megatron.core", None),
    "qalora_group_size": (16, None),
}
"""Setting -> its only accepted values. Every other setting may only be missing, empty or false."""


class AdapterSettings(BaseModel):
    """The settings that determine what an adapter computes, each within its bounds."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        defer_build=True,
    )

    r: Rank = 8
    lora_alpha: Alpha = 8
    use_rslora: bool = False
    fan_in_fan_out: bool = False
    target_modules: Literal["all-linear"] | list[ModuleName] = Field(max_length=500)
    rank_pattern: dict[ModuleName, Rank] = {}
    alpha_pattern: dict[ModuleName, Alpha] = {}
    modules_to_save: list[Literal["embed_tokens", "lm_head"]] | None = None

    def is_target(self, module: str) -> bool:
        """Return whether the adapter changes a module, given its full name in the base model."""
        if self.target_modules == "all-linear":
            return not module.endswith("lm_head")
        return any(_fits(module, target) for target in self.target_modules)

    def rank(self, module: str) -> int:
        """Return the rank of the change of a module."""
        return _find_setting(self.rank_pattern, module, default=self.r)

    def scale(self, module: str) -> float:
        """Return the factor of the change of a module."""
        rank = self.rank(module)
        alpha = _find_setting(self.alpha_pattern, module, default=self.lora_alpha)
        return alpha / (math.sqrt(rank) if self.use_rslora else rank)


def _fits(module: str, name: str) -> bool:
    current_name = update_tensor_name(name.removeprefix("^"))
    if name.startswith("^"):
        return module == current_name
    return module == current_name or module.endswith(f".{current_name}")


def _find_setting(pattern: Mapping[str, _Number], module: str, *, default: _Number) -> _Number:
    return next((value for name, value in pattern.items() if _fits(module, name)), default)


@dataclass(frozen=True)
class Adapter:
    """An adapter whose files passed every check that needs neither its numbers nor its base.

    `changes` are the names of changed modules; `replacements` leads from a module that is stored
    whole to the name of its tensor.
    `base` is the name that the training noted for its base model, which nothing relies on.
    """

    folder: ModelFolder
    settings: AdapterSettings
    changes: tuple[str, ...]
    replacements: Mapping[str, str]
    header: Header = field(repr=False)
    base: str = ""
    tokenizer_digests: Mapping[str, str] = field(default_factory=dict)
    """File of the adapter's own tokenizer -> SHA-256 of its content; empty if it has none."""

    @property
    def weights(self) -> Path:
        """The file of the weights."""
        return self.folder.path / WEIGHTS_FILE

    @property
    def n_parameters(self) -> int:
        """The number of learnt parameters."""
        return sum(math.prod(shape) for _, shape in self.header.values())

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the changes, the lowest first, each once."""
        return tuple(sorted({self.settings.rank(module) for module in self.changes}))

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a stored tensor, by its name in the base model."""
        return self.header[f"{_PREFIX}{tensor}"][1]

    def sizes(self, module: str) -> tuple[int, int]:
        """Return the numbers of inputs and outputs of a changed module."""
        down, up = (self.shape(_name_side(self.header, module, side)) for side in "AB")
        return down[1], up[0]

    def adapt_config(self, config: ModelConfig) -> ModelConfig:
        """Return the settings of the base with the adapter's number of tokens."""
        n_rows = [self.shape(name)[0] for name in self.replacements.values()]
        return config.model_copy(update={"vocab_size": max(n_rows)}) if n_rows else config

    def digest(self, weights: str = "") -> str:
        """Return the SHA-256 of the settings in force, the weights and the own tokenizer.

        `weights` is the SHA-256 of the file of the weights, if that is known.
        """
        content = {
            "settings": self.settings.model_dump(mode="json"),
            "weights": weights or fingerprint(self.weights),
        }
        if self.tokenizer_digests:
            content["tokenizer_files"] = dict(self.tokenizer_digests)
        return digest_json(content)


def is_declared(declared: str, *, name: str) -> bool:
    """Return whether a base model has the name that an adapter declares, wherever either lies."""
    last_parts = [text.replace("--", "/").rpartition("/")[2] for text in (declared, name)]
    return bool(declared) and last_parts[0].casefold() == last_parts[1].casefold()


def join_digests(base: str, adapter: str) -> str:
    """Return the digest of a base model with an adapter, from those of both."""
    return digest_json({"base": base, "adapter": adapter})


def is_adapter_folder(folder: ModelFolder) -> bool:
    """Return whether a directory holds an adapter in place of a whole model."""
    is_whole = SINGLE_FILE in folder.files or INDEX_FILE in folder.files
    return SETTINGS_FILE in folder.files and not is_whole


def read_adapter(path: Path) -> Adapter:
    """Read and check an adapter's settings and the names and shapes of its tensors."""
    folder = open_folder(path)
    if WEIGHTS_FILE not in folder.files and _PICKLE_FILE in folder.files:
        raise AuditError(
            "torch.save wrote the weights of this adapter, in a format that can run code.",
            where=folder.name,
            do="Have the adapter saved with save_pretrained(..., safe_serialization=True).",
        )
    raw = folder.json(SETTINGS_FILE, max_bytes=_MAX_CONFIG_BYTES)
    settings = _parse_settings(raw, place=folder.locate(SETTINGS_FILE))
    folder.require(WEIGHTS_FILE)
    with name_place(folder.locate(WEIGHTS_FILE)):
        header = _update_names(read_header(folder.path / WEIGHTS_FILE))
        changes, replacements = _sort_tensors(header, settings)
    base = make_printable(str(raw.get("base_model_name_or_path") or ""))
    tokenizer = folder.read_tokenizer() if folder.has_tokenizer else {}
    digests = {file: hashlib.sha256(data).hexdigest() for file, data in tokenizer.items()}
    return Adapter(folder, settings, changes, replacements, header, base, digests)


def refuse_other_base(adapter: Adapter, config: ModelConfig, *, base: str) -> None:
    """Refuse a base model, called `base`, of another kind or shape than the adapter's."""
    place = adapter.folder.locate(WEIGHTS_FILE)
    if not config.is_causal:
        raise AuditError(
            "An adapter can only be audited on a causal language model, and {base} is a masked "
            "one.",
            where=adapter.folder.name,
            do="Merge the adapter into its base with PEFT's merge_and_unload, and choose the "
            "result.",
            base=base,
        )
    sizes, embeddings = list_module_sizes(config), list_embeddings(config)
    for module, tensor in adapter.replacements.items():
        n_rows, width = adapter.shape(tensor)
        own_sizes = sizes.get(module, (0, 0))
        own_rows, own_width = own_sizes if module in embeddings else own_sizes[::-1]
        if width != own_width or n_rows < own_rows:
            raise _make_base_error(module, place=place)
    for module in adapter.changes:
        if sizes.get(module) != adapter.sizes(module):
            raise _make_base_error(module, place=place)
    is_linear_alone = adapter.settings.target_modules == "all-linear"
    for module in sizes.keys() - adapter.changes - (embeddings if is_linear_alone else set()):
        if adapter.settings.is_target(module):
            raise AuditError(
                'The adapter lacks a change of "{module}", which this general model has.',
                where=place,
                do=_TRAINED_BASE,
                module=module,
            )


def _parse_settings(raw: Mapping[str, JsonValue], *, place: str) -> AdapterSettings:
    fields = AdapterSettings.model_fields
    for key, value in raw.items():
        if key in fields or key in _IGNORED:
            continue
        if value in _ONLY[key] if key in _ONLY else not value:
            continue
        raise AuditError(
            "The setting {key} = {raw} of the adapter is not supported.",
            where=place,
            do="Only plain LoRA adapters can be audited without merging: others change the base "
            "model too.",
            key=make_printable(key),
            raw=f'"{make_printable(str(value))}"',
        )
    if raw.get("peft_type") != "LORA":
        raise AuditError("This is not a LoRA adapter.", where=place, do=COPY_FILE)
    try:
        return AdapterSettings.model_validate(
            {key: value for key, value in raw.items() if key in fields and value is not None}
        )
    except ValidationError as error:
        key = str(error.errors(include_input=False)[0]["loc"][0])
        raise AuditError(
            "The setting {key} of the adapter is missing, or out of bounds.",
            where=place,
            do="Check that this is the file that was saved with the adapter.",
            key=make_printable(key),
        ) from None


def _update_names(stored: Mapping[str, _Stored]) -> dict[str, _Stored]:
    """Return an adapter's tensors by the current names of their modules."""
    tensors: dict[str, _Stored] = {}
    for stored_name, tensor in stored.items():
        is_prefixed = stored_name.startswith(_PREFIX)
        current_name = update_tensor_name(stored_name.removeprefix(_PREFIX))
        name = f"{_PREFIX}{current_name}" if is_prefixed else stored_name
        if name in tensors:
            raise _make_tensor_error(stored_name)
        tensors[name] = tensor
    return tensors


_WHOLE = re.compile(
    r"(?P<module>(?:[\w.]+\.)?(?:embed_tokens|wte|lm_head))(?:\.base_layer)?\.weight"
)
_LOW_RANK = re.compile(r"(?P<module>[\w.]+)\.lora_(?:embedding_)?(?P<side>[AB])(?:\.weight)?")


def _sort_tensors(
    header: Header, settings: AdapterSettings
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the changed modules and those stored whole; refuse tensors that fit neither.

    Whoever trains an embedding or gives it new rows gets it stored whole, asked for or not.
    """
    sides: dict[str, dict[str, tuple[int, ...]]] = {}
    replacements: dict[str, str] = {}
    for stored_name, (number_type, shape) in sorted(header.items()):
        name = stored_name.removeprefix(_PREFIX)
        match = _LOW_RANK.fullmatch(name)
        is_right = stored_name.startswith(_PREFIX) and number_type in _FLOATS and len(shape) == 2
        if is_right and match and settings.is_target(match["module"]):
            sides.setdefault(match["module"], {})[match["side"]] = shape
            continue
        whole = _WHOLE.fullmatch(name)
        if not (is_right and whole) or whole["module"] in replacements:
            raise _make_tensor_error(stored_name)
        replacements[whole["module"]] = name
    for module, shapes in sides.items():
        rank = settings.rank(module)
        if shapes.keys() != {"A", "B"} or (shapes["A"][0], shapes["B"][1]) != (rank, rank):
            raise _make_tensor_error(f"{_PREFIX}{module}")
    if not sides and not replacements:
        raise AuditError("The adapter changes nothing.", do=COPY_FILE)
    return tuple(sides), replacements


def _make_tensor_error(name: str) -> AuditError:
    return AuditError(
        'The tensor "{name}" does not fit the settings of the adapter.',
        do="Check that both files were saved together.",
        name=make_printable(name),
    )


@dataclass
class Switch:
    """Whether the adapter of a module in memory takes part."""

    is_on: bool = True

    @contextmanager
    def turned(self, *, on: bool) -> Iterator[None]:
        """Turn the adapter on or off while the block runs."""
        before, self.is_on = self.is_on, on
        try:
            yield
        finally:
            self.is_on = before


def read_adapter_weights(adapter: Adapter) -> bytes:
    """Return the content of the file of an adapter's weights."""
    place = adapter.folder.locate(WEIGHTS_FILE)
    with locate_errors(place), open_regular(adapter.weights) as file:
        return file.read()


def attach_adapter(model: nn.Module, adapter: Adapter, *, weights: bytes | None = None) -> Switch:
    """Add an adapter to its base model in memory; return the switch that turns it off.

    `weights` is the content of the file of the adapter's weights, if that has been read. Raises
    AuditError unless every changed module is in the model and has the adapter's shapes, or if a
    number is not finite.
    """
    from torch.nn import Embedding

    from audit.models.low_rank import LowRankEmbedding, LowRankLinear, Replaced

    place, switch = adapter.folder.locate(WEIGHTS_FILE), Switch()
    weights = read_adapter_weights(adapter) if weights is None else weights
    tensors, modules = _load_tensors(adapter, weights), dict(model.named_modules())
    new_modules: dict[str, nn.Module] = {}
    for name, tensor_name in adapter.replacements.items():
        weight = tensors[tensor_name]
        if name not in modules or not _can_replace(modules[name], weight):
            raise _make_base_error(name, place=place)
        is_apart = name.rpartition(".")[2] in (adapter.settings.modules_to_save or ())
        for other_name, module in modules.items():
            # peft copies what `modules_to_save` names; otherwise a tied head changes too.
            is_tied = getattr(module, "weight", None) is modules[name].weight
            if other_name == name or (is_tied and not is_apart):
                new_modules[other_name] = Replaced(module, weight=weight, switch=switch)
    for name in adapter.changes:
        down, up = (tensors[_name_side(adapter.header, name, side)] for side in "AB")
        if name not in modules or (down.shape[1], up.shape[0]) != _module_sizes(modules[name]):
            raise _make_base_error(name, place=place)
        kind = LowRankEmbedding if isinstance(modules[name], Embedding) else LowRankLinear
        inner: nn.Module = new_modules[name] if name in new_modules else modules[name]
        scale = adapter.settings.scale(name)
        new_modules[name] = kind(inner, down=down, up=up, scale=scale, switch=switch)
    for name, module in new_modules.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, module)
    return switch


def is_unchanged(model: nn.Module) -> bool:
    """Return whether the adapter of a model changes nothing that the model computes."""
    from audit.models.low_rank import Changed

    return not any(module.has_effect for module in model.modules() if isinstance(module, Changed))


def _load_tensors(adapter: Adapter, weights: bytes) -> dict[str, Tensor]:
    """Read an adapter's tensors in float32, by their names in the base model."""
    import torch
    from safetensors.torch import load

    place = adapter.folder.locate(WEIGHTS_FILE)
    unreadable = AuditError("The file changed while it was being read.", where=place, do=COPY_FILE)
    with refuse_errors(unreadable):
        stored = load(weights)
    tensors = {
        name.removeprefix(_PREFIX): tensor.float() for name, tensor in _update_names(stored).items()
    }
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise AuditError(
                'The tensor "{name}" holds numbers that are not finite.',
                where=place,
                do="The training diverged: use an earlier checkpoint.",
                name=make_printable(name),
            )
    return tensors


def _name_side(header: Header, module: str, side: str) -> str:
    """Return the name of one of the two matrices that change a module."""
    names = (f"{module}.lora_{side}.weight", f"{module}.lora_embedding_{side}")
    return next(name for name in names if f"{_PREFIX}{name}" in header)


def _module_sizes(module: nn.Module) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of a linear module or an embedding."""
    weight: Tensor = module.weight  # type: ignore[assignment]
    first, second = weight.shape
    # torch's linear module stores [o, i]; GPT-2's and an embedding store [i, o].
    return (second, first) if hasattr(module, "in_features") else (first, second)


def _can_replace(module: nn.Module, weight: Tensor) -> bool:
    """Return whether a stored weight has the width of a module's and at least as many rows."""
    present = getattr(module, "weight", None)
    if present is None or present.ndim != 2:
        return False
    return bool(present.shape[1] == weight.shape[1] and present.shape[0] <= weight.shape[0])


def _make_base_error(module: str, *, place: str) -> AuditError:
    return AuditError(
        'The adapter changes "{module}", which this general model does not have in that shape.',
        where=place,
        do=_TRAINED_BASE,
        module=make_printable(module),
    )
