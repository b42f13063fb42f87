"""Check the names, shapes and number types of the tensors in a file of weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from audit.errors import AuditError
from audit.foreign import name_place
from audit.models.architectures import guess_kind
from audit.models.layouts import (
    compute_expected_shapes,
    find_shared_tensors,
    is_known_extra,
    list_head_tensors,
    update_tensor_name,
)
from audit.models.model_config import ModelConfig
from audit.models.model_folder import (
    COPY_FILE,
    INDEX_FILE,
    SINGLE_FILE,
    ModelFolder,
    make_printable,
)
from audit.models.tensor_header import Header, read_header

_MAX_INDEX_BYTES = 4_000_000
_MAX_SHARDS = 200
SHARD_NAME = r"model-\d{5}-of-\d{5}\.safetensors"
_FLOATS = ("F16", "BF16", "F32", "F64")
_PREFIX = re.compile(r"(?:module\.|_orig_mod\.|base_model\.model\.)+")
"""What DataParallel, torch.compile and PEFT put before the names of a model's tensors."""
_QUANTISED = re.compile(r".*\.(?:qweight|qzeros|g_idx|SCB|absmax|quant_map|quant_state\..*)")
_ADAPTER = re.compile(r".*\.(?:lora_\w+|base_layer|modules_to_save|original_module)\..*")
_CLASSIFIER = re.compile(r"(?:classifier|qa_outputs|score|pre_classifier)\..*")
_DISCRIMINATOR = "discriminator_predictions."
_SAVE_AGAIN = (
    "Check that config.json belongs to these weights, and that the whole model was saved as "
    "...ForMaskedLM."
)
_AUDIT_CAUSAL = (
    "Audit the causal language model that its training started from. The result does not cover "
    "that training."
)
_SAVE_CAUSAL = (
    "Check that config.json belongs to these weights, and that the whole model was saved as "
    "...ForCausalLM."
)

_Tensor = TypeVar("_Tensor")


def rename_tensors(stored: Mapping[str, _Tensor]) -> tuple[dict[str, _Tensor], tuple[str, ...]]:
    """Return tensors by their current names, and the prefixes that were removed from the names.

    Raises AuditError if two tensors get one name.
    """
    names: dict[str, str] = {}
    prefixes = set()
    for stored_name in stored:
        prefix = match[0] if (match := _PREFIX.match(stored_name)) else ""
        name = update_tensor_name(stored_name.removeprefix(prefix))
        prefixes |= {prefix} - {""}
        if name in names:
            raise AuditError(
                "Two tensors have the same name once old names and prefixes are replaced: "
                '"{one}" and "{other}".',
                do="Save the model again with save_pretrained.",
                one=make_printable(names[name]),
                other=make_printable(stored_name),
            )
        names[name] = stored_name
    return {name: stored[stored_name] for name, stored_name in names.items()}, (*sorted(prefixes),)


def read_index(folder: ModelFolder, file: str, *, shard_name: str) -> dict[str, str]:
    """Return which shard holds which tensor; every shard is a plain file of the directory.

    `shard_name` is a regular expression. The shards are numbered without a gap.
    """
    files_by_tensor = folder.json(file, max_bytes=_MAX_INDEX_BYTES).get("weight_map")
    place = folder.locate(file)
    if not isinstance(files_by_tensor, dict) or not files_by_tensor:
        raise AuditError("This is not an index of shards.", where=place, do=COPY_FILE)
    shards = sorted({str(shard) for shard in files_by_tensor.values()})
    for shard in shards:
        is_named_well = re.fullmatch(shard_name, shard) and len(shards) <= _MAX_SHARDS
        if not is_named_well or shard not in folder.files:
            raise AuditError(
                "The index names {shard}, which is missing or is not a shard.",
                where=place,
                do="Copy all shards of the model into the directory.",
                shard=f'"{make_printable(shard)}"',
            )
    numbers = [tuple(map(int, re.findall(r"\d{5}", shard))) for shard in shards]
    if numbers != [(i + 1, len(shards)) for i in range(len(shards))]:
        raise AuditError(
            "The index does not name all shards of one model.",
            where=place,
            do="Copy the index and all shards again from where the model was saved.",
        )
    return {name: str(shard) for name, shard in files_by_tensor.items()}


def list_weight_files(folder: ModelFolder) -> tuple[str, ...]:
    """Return the safetensors files of a model: one, or the shards that an index names."""
    if INDEX_FILE not in folder.files:
        return (SINGLE_FILE,)
    index = read_index(folder, INDEX_FILE, shard_name=SHARD_NAME)
    return tuple(sorted(set(index.values())))


def read_tensors(folder: ModelFolder) -> tuple[Header, tuple[str, ...]]:
    """Return the number type and shape of each tensor of the weights, as `rename_tensors` does."""
    if INDEX_FILE not in folder.files:
        with name_place(folder.locate(SINGLE_FILE)):
            return rename_tensors(read_header(folder.path / SINGLE_FILE))
    if SINGLE_FILE in folder.files:
        raise AuditError(
            "There is both a model.safetensors and an index of shards, so it is not clear which "
            "weights are the model's.",
            where=folder.name,
            do="Remove the files that are not.",
        )
    index = read_index(folder, INDEX_FILE, shard_name=SHARD_NAME)
    header: Header = {}
    for shard in sorted(set(index.values())):
        with name_place(folder.locate(shard)):
            part = read_header(folder.path / shard)
            refuse_twins(part, header)
            header |= part
        if part.keys() != {name for name, file in index.items() if file == shard}:
            raise make_index_error(folder.name)
    with name_place(folder.name):
        return rename_tensors(header)


def refuse_twins(part: Mapping[str, object], others: Mapping[str, object]) -> None:
    """Refuse a shard with a tensor that another one holds too."""
    if part.keys() & others.keys():
        raise AuditError("Two shards hold a tensor of the same name.", do=COPY_FILE)


def make_index_error(place: str) -> AuditError:
    """Return the error for shards that do not agree with their index."""
    return AuditError(
        "The shards do not hold exactly the tensors that their index names.",
        where=place,
        do="Copy the index and all shards again from where the model was saved.",
    )


def check_tensors(header: Header, *, config: ModelConfig, folder: ModelFolder) -> None:
    """Check the tensors in a file's header against the configuration."""
    _refuse_number_types(header)
    _refuse_other_kind(header, config=config)
    _refuse_missing_head(header, config=config, folder=folder)
    _refuse_other_vocabulary(header, config=config)
    _refuse_misfits(header, config=config)


def _refuse_number_types(header: Header) -> None:
    """Refuse quantised weights, those of an adapter that is not merged, and unread number types."""
    for name, (number_type, _) in sorted(header.items()):
        is_extra = is_known_extra(name)
        if _QUANTISED.fullmatch(name) or (number_type in ("I8", "U8") and not is_extra):
            raise AuditError(
                'The weights are quantised ("{name}"), which changes every probability.',
                do="Use the model as it was before it was quantised.",
                name=make_printable(name),
            )
        if _ADAPTER.fullmatch(name):
            raise AuditError(
                'The weights hold an adapter that was not merged ("{name}").',
                do="Save the adapter alone with PEFT's save_pretrained, and choose its directory "
                "as the hospital's model. An adapter of a masked model must be merged with PEFT's "
                "merge_and_unload.",
                name=make_printable(name),
            )
        if number_type not in _FLOATS and not is_extra:
            raise AuditError(
                'The tensor "{name}" has numbers of the type {number_type}, which is not '
                "supported.",
                do="Save the weights as float32, float16 or bfloat16.",
                name=make_printable(name),
                number_type=number_type,
            )


def _refuse_other_kind(header: Header, *, config: ModelConfig) -> None:
    """Refuse tensors of which none belongs to the kind of model that config.json names."""
    kind = guess_kind({}, tensor_names=header)
    if kind and compute_expected_shapes(config).keys().isdisjoint(header):
        raise AuditError(
            'The tensors are those of a model of the kind "{kind}", but config.json describes '
            'one of the kind "{promised}".',
            do="Check that config.json belongs to these weights.",
            kind=kind,
            promised=config.architecture,
        )


def _refuse_missing_head(header: Header, *, config: ModelConfig, folder: ModelFolder) -> None:
    """Refuse a model without a masked-language-model head, and say what it is."""
    if list_head_tensors(config) & header.keys() or (config.is_causal and config.is_tied):
        return
    if any(name.startswith(_DISCRIMINATOR) for name in header):
        raise AuditError(
            "This is an ELECTRA discriminator: it tells replaced words from the others, and "
            "gives no word a probability.",
            do="Audit the generator that was trained with it. The result does not cover the "
            "discriminator.",
        )
    if any(map(_CLASSIFIER.fullmatch, header)):
        raise AuditError(
            "This is a classifier: it gives no word a probability.",
            do=_AUDIT_CAUSAL
            if config.is_causal
            else "Audit the masked language model that its training started from. The result does "
            "not cover that training.",
        )
    if config.is_causal:
        raise AuditError(
            "The weights were saved without the head, so the model gives no word a probability.",
            do=_SAVE_CAUSAL,
        )
    if "modules.json" in folder.files:
        raise AuditError(
            "This is a sentence-transformers model: it turns sentences into vectors, and gives "
            "no word a probability.",
            do="Audit the masked language model that its training started from. The result does "
            "not cover that training.",
        )
    raise AuditError(
        "The weights were saved without the masked-language-model head, so the model gives no word "
        "a probability.",
        do="Use a checkpoint that was saved as ...ForMaskedLM or ...ForPreTraining. If there is "
        "none, the general model's head can stand in: `python -m audit models convert FOLDER "
        "--out NEW_FOLDER --head-from GENERAL`.",
    )


def _refuse_other_vocabulary(header: Header, *, config: ModelConfig) -> None:
    """Refuse an embedding of another size than config.json says."""
    expected = compute_expected_shapes(config)
    for name in (name for name in expected if name.endswith("word_embeddings.weight")):
        n_rows = header[name][1][0] if name in header and header[name][1] else config.vocab_size
        if n_rows != config.vocab_size:
            raise AuditError(
                'The word embedding has {n_rows} rows, but config.json says "vocab_size": '
                "{vocab_size}.",
                do='If the tokenizer has no more than {n_rows} tokens, set "vocab_size": '
                "{n_rows} in config.json.",
                n_rows=n_rows,
                vocab_size=config.vocab_size,
            )


def _refuse_misfits(header: Header, *, config: ModelConfig) -> None:
    """Refuse tensors that are missing, of another shape, or of no use to the model."""
    expected, twins = compute_expected_shapes(config), find_shared_tensors(config)
    twins |= {twin: name for name, twin in twins.items()}
    missing = [name for name in expected if name not in header and twins.get(name) not in header]
    if missing:
        raise AuditError(
            'Tensors that config.json promises are missing ({n}, the first is "{name}").',
            do=_SAVE_CAUSAL if config.is_causal else _SAVE_AGAIN,
            n=len(missing),
            name=make_printable(missing[0]),
        )
    misshapen = [
        name for name in sorted(header) if name in expected and header[name][1] != expected[name]
    ]
    if misshapen:
        raise AuditError(
            "Tensors do not have the shape that config.json promises ({n}, the first is "
            '"{name}": {shape} instead of {promised}).',
            do=_SAVE_CAUSAL if config.is_causal else _SAVE_AGAIN,
            n=len(misshapen),
            name=make_printable(misshapen[0]),
            shape=" × ".join(map(str, header[misshapen[0]][1])),
            promised=" × ".join(map(str, expected[misshapen[0]])),
        )
    unknown = [name for name in sorted(header) if name not in expected and not is_known_extra(name)]
    if unknown:
        raise AuditError(
            'The weights hold tensors that no part of the model uses ({n}, the first is "{name}").',
            do=_SAVE_CAUSAL if config.is_causal else _SAVE_AGAIN,
            n=len(unknown),
            name=make_printable(unknown[0]),
        )
