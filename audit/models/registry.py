"""List the models of this installation: in registered folders, trained here, or converted here.

Pages choose a model from this list by its identifier; only the command line accepts a path.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from audit.errors import AuditError, Message
from audit.foreign import name_place
from audit.home import DEMO_HOSPITAL, list_registered_folders
from audit.models.adapters import is_declared, join_digests, read_adapter, refuse_other_base
from audit.models.conversion import refuse_other_rounding
from audit.models.inspect import (
    AdapterSummary,
    ModelSummary,
    compute_model_digest,
    inspect_adapter,
    inspect_model,
    is_adapter,
    read_model_files,
)
from audit.models.library import Tokenizer
from audit.models.limited import call_limited
from audit.models.model_config import refuse_two_kinds
from audit.models.model_folder import (
    ADAPTER_FILE,
    CONVERTED_LABEL,
    TRAINED_LABEL,
    find_snapshot,
    list_converted_models,
    list_trained_models,
    make_printable,
    refuse_single_file,
)
from audit.models.other_forms import has_weights_of_any_form

VARIABLE = "KART_AUDIT_MODELS"
"""Environment variable that names the registered folders, separated as in PATH."""

_MAX_DEPTH = 4
_MAX_DIRECTORIES = 5_000


@dataclass(frozen=True)
class RegisteredModel:
    """A listed model or adapter with its summary, or with the reason why it cannot be loaded.

    `model_id` is the folder's label and the path under it, or "trained/" and the run's name, or
    "converted/" and the conversion's. `refusal` is "" if the model can be loaded. Of `summary` and
    `adapter` only one is there: an adapter is no model without its base.
    """

    model_id: str
    path: Path
    summary: ModelSummary | None
    refusal: Message
    adapter: AdapterSummary | None = None

    @property
    def name(self) -> str:
        """The name in messages and results; "" if it cannot be loaded."""
        facts = self.adapter or self.summary
        return facts.name if facts else ""


def list_models() -> tuple[RegisteredModel, ...]:
    """Return the models made here and the registered ones; refused ones have a reason."""
    models = (*list_trained_models(), *list_converted_models(), *_walk_folders())
    return tuple(_inspect_registered(*model) for model in models)


def resolve_model_path(text: str, *, option: str = "model") -> Path:
    """Return the directory named by a command-line option; raise AuditError if it is missing."""
    with suppress(OSError, RuntimeError, ValueError):  # of a path that cannot be followed
        path = Path(text).expanduser()
        if text.strip() and path.is_dir():
            return find_snapshot(path.resolve())
        if text.strip():
            with name_place(make_printable(path.name)):
                refuse_single_file(path)
    raise AuditError(
        "There is no such directory.",
        where=option,
        do="Name a directory on this machine; nothing is downloaded from a hub.",
    )


def _inspect_registered(model_id: str, path: Path) -> RegisteredModel:
    try:
        facts = _inspect_unchanged(path, read_signature(path))
        if isinstance(facts, AdapterSummary):
            return RegisteredModel(model_id, path, None, refusal=Message(""), adapter=facts)
        return RegisteredModel(model_id, path, facts, refusal=Message(""))
    except AuditError as refused:
        return RegisteredModel(model_id, path, None, refusal=refused.message)


def _list_folders() -> tuple[tuple[str, Path], ...]:
    return list_registered_folders(
        VARIABLE, reserved=(TRAINED_LABEL, CONVERTED_LABEL), unnamed="models"
    )


def _walk_folders() -> Iterator[tuple[str, Path]]:
    """Yield identifier and directory of everything that looks like a model, in order of name.

    That is a directory with a config.json or an adapter's, or one with weights that is not in a
    listed one.
    """
    for label, top in _list_folders():
        listed: set[Path] = set()
        for folder, inside, files in islice(os.walk(top), _MAX_DIRECTORIES):
            parts = Path(folder).relative_to(top).parts
            is_open = len(parts) < _MAX_DEPTH
            inside[:] = sorted(name for name in inside if is_open and not name.startswith("."))
            is_inside_listed = not listed.isdisjoint(Path(folder).parents)
            is_named = "config.json" in files or ADAPTER_FILE in files
            if is_named or (not is_inside_listed and has_weights_of_any_form(files)):
                listed.add(Path(folder))
                # Bytes that are not UTF-8 become half characters, which pages cannot show.
                name = "/".join((label, *parts)).encode("utf-8", "backslashreplace")
                yield name.decode("utf-8"), Path(folder)


Signature = tuple[tuple[str, int, int], ...]
"""Name, size in bytes and time of the last change in nanoseconds of each file."""


def read_signature(path: Path) -> Signature:
    """Return a signature that changes with a model's files; raise `AuditError` if unreadable."""
    try:
        entries = [
            (entry.name, entry.stat())
            for entry in os.scandir(find_snapshot(path))
            if entry.is_file()
        ]
    except OSError:
        raise AuditError(
            "The model's directory cannot be read any more.", do="Choose another model."
        ) from None
    return tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in entries))


@functools.lru_cache(maxsize=256)
def _inspect_unchanged(path: Path, files: Signature) -> ModelSummary | AdapterSummary:
    """Inspect a model once until a file changes; a large SentencePiece file takes seconds."""
    return inspect_adapter(path) if is_adapter(path) else inspect_model(path)


def look_up_digest(path: Path) -> str:
    """Return a model's digest, cached until a file changes; raises as `read_signature`."""
    return _compute_digest(path, read_signature(path))


def look_up_hospital_digest(general: Path, hospital: Path) -> str:
    """Return what `compute_hospital_digest` returns, cached until a file changes."""
    digest = look_up_digest(hospital)
    return join_digests(look_up_digest(general), digest) if is_adapter(hospital) else digest


@functools.lru_cache(maxsize=64)
def _compute_digest(path: Path, files: Signature) -> str:
    return compute_model_digest(path)


def find_tokenizer_folder(general: Path, hospital: Path) -> Path:
    """Return the model of a pair whose tokenizer splits text for both."""
    return general if is_adapter(hospital) else hospital


def load_tokenizer(path: Path) -> Tokenizer:
    """Return a model's tokenizer, built from its checked files and cached.

    The process that serves pages never calls this; it uses `call_limited`.
    """
    return _load_tokenizer(path, read_signature(path))


@functools.lru_cache(maxsize=8)
def _load_tokenizer(path: Path, files: Signature) -> Tokenizer:
    from audit.models.tokenizer import build_tokenizer

    files_of_model = read_model_files(path)
    return build_tokenizer(
        files_of_model.tokenizer, config=files_of_model.config, name=files_of_model.folder.name
    )


DEMO_PREFIX = "demo:"
_OF_SUMMARY = ("n_parameters", "tokenizer")
_TRAITS = (
    "architecture",
    "n_layers",
    "hidden_size",
    "vocab_size",
    "n_parameters",
    "n_positions",
    "tokenizer",
    "n_heads",
    "hidden_dropout",
    "attention_dropout",
)


@dataclass(frozen=True)
class PairCheck:
    """The comparison of two models before their weights are read.

    `traits` has facts of both models, the general model's first, by code ("architecture",
    "n_layers" ...); "slowdown" is there only if a model has no fast pass. `refusal` is the reason
    why the pair would be refused, "" if it would not.
    """

    traits: Mapping[str, tuple[str | int | float, ...]]
    refusal: Message


def list_model_choices() -> tuple[RegisteredModel, ...]:
    """Return the registered models, then the demo's; refused ones have a reason."""
    demo = []
    for home in ("en/models", "en/causal", "ja/models"):
        label = f"{DEMO_PREFIX}{home.removesuffix('/models')}"
        for folder in sorted((DEMO_HOSPITAL / home).glob("*"), key=_rank_demo_folder):
            demo.append(_inspect_registered(f"{label}/{folder.name}", folder))
    return (*list_models(), *demo)


def _rank_demo_folder(folder: Path) -> tuple[int, float]:
    """Return the place in a list: the parent of all, then by epochs, the null model last."""
    kinds = ("general", "hospital", "adapter", "null")
    kind, _, epochs = folder.name.partition("-")
    place = kinds.index(kind) if kind in kinds else len(kinds)
    try:
        return place, float(epochs or 0)
    except ValueError:  # a folder of another name
        return place, 0.0


def count_registered(models: tuple[RegisteredModel, ...]) -> dict[str, int | None]:
    """Return the number of models in each registered folder; None if the folder does not exist.

    Keys are the paths as registered; the result is empty if none is registered.
    """
    raw_paths = os.environ.get(VARIABLE, "").split(os.pathsep)
    texts = [text.strip() for text in raw_paths if text.strip()]
    labels_by_path = {path: label for label, path in _list_folders()}
    labels = [labels_by_path.get(Path(os.path.realpath(Path(text).expanduser()))) for text in texts]
    n_models = Counter(model.model_id.partition("/")[0] for model in models)
    return {
        text: None if label is None else n_models[label]
        for text, label in zip(texts, labels, strict=True)
    }


def find_model_by_digest(
    digest: str, *, name: str, models: Iterable[RegisteredModel], base: Path | None = None
) -> RegisteredModel | None:
    """Return the model with this name and digest; None if it is gone or has changed.

    An adapter has the digest that it has on `base`.
    """
    for model in models:
        is_candidate = model.name == name and (model.summary or (model.adapter and base))
        if is_candidate and look_up_hospital_digest(base or model.path, model.path) == digest:
            return model
    return None


def find_bases(
    adapter: RegisteredModel, models: Iterable[RegisteredModel]
) -> tuple[RegisteredModel, ...]:
    """Return the models on which an adapter fits by its shapes, that of the declared name first."""
    read = read_adapter(adapter.path)
    bases = []
    for model in models:
        if model.summary is not None:
            with suppress(AuditError):
                refuse_other_base(read, model.summary.config, base=model.summary.name)
                bases.append(model)
    return tuple(sorted(bases, key=lambda model: not is_declared(read.base, name=model.name)))


def find_model(model_id: str, *, models: tuple[RegisteredModel, ...]) -> RegisteredModel | None:
    """Return the model with this identifier, which is compared and never made into a path."""
    return next((model for model in models if model.model_id == model_id), None)


def check_pair(general: Path, hospital: Path) -> PairCheck:
    """Compare two models, or an adapter with its base, without torch."""
    summaries = first, second = inspect_model(general), _inspect_hospital(hospital, general)
    traits: dict[str, tuple[str | int | float, ...]] = {
        code: tuple(getattr(s if code in _OF_SUMMARY else s.config, code) for s in summaries)
        for code in _TRAITS
    }
    slowdowns = first.config.slowdown, second.config.slowdown
    if max(slowdowns) > 1:
        traits["slowdown"] = slowdowns
    refusal = Message("")
    try:
        names = first.name, second.name
        refuse_two_kinds(first.config, second.config, names=names)
        if not is_adapter(hospital):
            refuse_other_rounding(first.rounding, second.rounding, names=names)
        else:
            refuse_other_base(read_adapter(hospital), first.config, base=first.name)
        call_limited(_refuse_unlike, general, hospital, names, place=" / ".join(names))
    except AuditError as error:
        refusal = error.message
    return PairCheck(traits, refusal)


def _inspect_hospital(hospital: Path, general: Path) -> ModelSummary:
    """Return a summary of the hospital's model, which may be an adapter on the general one."""
    if not is_adapter(hospital):
        return inspect_model(hospital)
    adapter, base = inspect_adapter(hospital), inspect_model(general)
    return replace(base, name=adapter.name, n_parameters=base.n_parameters + adapter.n_parameters)


def _refuse_unlike(general: Path, hospital: Path, names: tuple[str, str]) -> None:
    from audit.models.tokenizer import build_folder_tokenizer, refuse_unlike

    tokenizer = load_tokenizer(general)
    if not is_adapter(hospital):
        refuse_unlike(tokenizer, load_tokenizer(hospital), names=names)
        return
    adapter = read_adapter(hospital)
    if adapter.tokenizer_digests:
        config = adapter.adapt_config(read_model_files(general).config)
        own_tokenizer = build_folder_tokenizer(adapter.folder, config=config)
        refuse_unlike(tokenizer, own_tokenizer, names=names)
