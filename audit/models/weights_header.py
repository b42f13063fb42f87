"""Check the names, shapes and number types of the tensors in a file of weights."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open

from audit.errors import AuditError
from audit.foreign import open_regular, refuse_errors
from audit.models.architectures import (
    _KNOWN_EXTRA,
    ModelConfig,
    Shape,
    compute_expected_shapes,
    find_shared_tensors,
    update_tensor_name,
)
from audit.models.model_folder import (
    COPY_FILE,
    ModelFolder,
    make_printable,
    make_read_error,
    name_place,
)

SINGLE_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"

# A tensor takes some 150 bytes of a header.
_MAX_HEADER_BYTES = 4_000_000
_FLOATS = ("F16", "BF16", "F32", "F64")
Header = dict[str, tuple[str, Shape]]


def _read_header(path: Path) -> Header:
    """Read the number type ("F32", ...) and shape of each tensor; the library checks them."""
    broken = AuditError("This is not a whole safetensors file.", do=COPY_FILE)
    try:
        with open_regular(path) as start:
            if int.from_bytes(start.read(8), "little") > _MAX_HEADER_BYTES:
                raise broken
    except OSError as fault:
        raise make_read_error(fault, place="") from None
    with refuse_errors(broken), safe_open(path, framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {
            name: (slice_.get_dtype(), tuple(slice_.get_shape())) for name, slice_ in slices.items()
        }


def read_tensors(folder: ModelFolder) -> Header:
    """Return the number type and shape of each tensor of the weights, by current names."""
    has_adapter = any(file.startswith("adapter_") for file in folder.files)
    if SINGLE_FILE not in folder.files or _INDEX_FILE in folder.files or has_adapter:
        raise AuditError(
            "The weights are not in one file {single_file}.",
            where=folder.name,
            do="Choose the directory into which the model was saved. Shards, adapters and forms "
            "that can run code are not read: load them with transformers on a machine that may run "
            "the model's code, merge an adapter, then save_pretrained into one file.",
            single_file=SINGLE_FILE,
        )
    with name_place(folder.locate(SINGLE_FILE)):
        stored = _read_header(folder.path / SINGLE_FILE)
        header = {update_tensor_name(name): tensor for name, tensor in stored.items()}
        if len(header) != len(stored):
            raise AuditError("A tensor is there under its old and its new name.")
    return header


def check_tensors(header: Header, *, config: ModelConfig) -> None:
    """Check the tensors in a file's header against the configuration."""
    expected, twins = compute_expected_shapes(config), find_shared_tensors(config)
    if not any(name in header for name in expected if not name.startswith(config.architecture)):
        raise AuditError(
            "The model has no masked-language-model head, so it gives no word a probability.",
            do="Use the checkpoint that was saved as ...ForMaskedLM or ...ForPreTraining.",
        )
    twins |= {twin: name for name, twin in twins.items()}
    wrong = [name for name in expected if name not in header and twins.get(name) not in header]
    for name, (dtype, shape) in sorted(header.items()):
        is_right = shape == expected.get(name) and dtype in _FLOATS
        if not is_right and not (name not in expected and _KNOWN_EXTRA.fullmatch(name)):
            wrong.append(name)
    if wrong:
        raise AuditError(
            "{n} tensors are missing, unknown, or of another shape or number type than config.json "
            'promises (first: "{name}").',
            do="Check that config.json belongs to these weights, and save them unquantised as "
            "...ForMaskedLM.",
            n=len(wrong),
            name=make_printable(wrong[0]),
        )
