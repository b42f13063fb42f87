"""Convert a model's weights into one safetensors file, in a new folder.

Pickled weights are read by a process of their own that is shut off (`pickled_weights.py`); the
folder that results passes the same checks as any other model. An encoder that was saved without
its masked-LM head gets the head of another model, on request.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import Field, JsonValue

from audit.errors import AuditError, Message
from audit.foreign import (
    is_zip,
    locate_errors,
    name_place,
    open_regular,
    refuse_errors,
    refuse_without_memory,
)
from audit.home import make_salted_code
from audit.models.architectures import parse_config
from audit.models.conversion import RECORD_FILE, Conversion, Rounding, WeightsForm, read_conversion
from audit.models.inspect import (
    ModelFiles,
    read_config,
    read_model_files,
    refuse_unreadable_files,
)
from audit.models.layouts import (
    compute_expected_shapes,
    find_body_prefix,
    find_shared_tensors,
    has_row_for_input,
    list_head_tensors,
    list_layer_matrices,
)
from audit.models.limited import WALL_SECONDS, call_limited
from audit.models.model_config import ModelConfig
from audit.models.model_folder import (
    CONVERTED_FOLDER,
    CONVERTED_LABEL,
    COPY_FILE,
    INDEX_FILE,
    MAX_TOKENIZER_BYTES,
    SAVE_ANEW,
    SINGLE_FILE,
    TOKENIZER_CONFIG_FILE,
    ModelFolder,
    make_printable,
    open_folder,
    refuse_stand_in,
)
from audit.models.other_forms import refuse_missing_kind
from audit.models.tensor_header import read_header
from audit.models.tokenizer_files import (
    TokenizerFiles,
    read_tokenizer_files,
)
from audit.models.weights_header import (
    SHARD_NAME,
    check_tensors,
    make_index_error,
    read_index,
    read_tensors,
    refuse_twins,
    rename_tensors,
)
from audit.progress import Meter, Phase
from audit.shelf import Shelf, fingerprint, make_time_stamp, whole_folder, write_whole
from audit.task import SHORT, Contact, FileState, Question, Task, read_file_states

if TYPE_CHECKING:
    from torch import Tensor


_PICKLE, _PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
# Form of weights: its single file or its index, and the names of its shards.
_FORMS: Mapping[WeightsForm, tuple[str, str]] = {
    "safetensors": (SINGLE_FILE, ""),
    "safetensors_shards": (INDEX_FILE, SHARD_NAME),
    "pickle": (_PICKLE, ""),
    "pickle_shards": (_PICKLE_INDEX, r"pytorch_model-\d{5}-of-\d{5}\.bin"),
}
"""In the order in which transformers looks for them."""
_PICKLED: tuple[WeightsForm, ...] = ("pickle", "pickle_shards")
_OWN_DROPOUT = ("hidden_dropout", "attention_dropout")

# Measured: torch.load reads some 500 MB in a second of a processor, but by the clock a job may get
# a hundredth of one.
_BASE_SECONDS = 5
_SLOWEST_LOAD = 10_000_000
_SLOWEST_WALL = 1_000_000
_BASE_MEMORY_BYTES = 2_000_000_000
_MEMORY_SHARE = 3

_HASHING, _READING, _CHECKING = "reading the weights", "rewriting the weights", "checking the model"
_ROUNDING = "rounding the matrices"


@dataclass(frozen=True)
class _Weights:
    """The files of a model's weights, and the tensors that their index names (none without)."""

    form: WeightsForm
    files: tuple[str, ...]
    indexed_names: frozenset[str]


@dataclass(frozen=True)
class ConversionPlan:
    """A model that can be converted, as far as its small files show."""

    folder: ModelFolder
    config: ModelConfig
    raw_config: Mapping[str, JsonValue]
    weights: _Weights
    tokenizer: TokenizerFiles
    head: ModelFiles | None
    """The model whose head is added."""
    rounding: Rounding = ""
    earlier: Conversion | None = None
    """The record of the source, if it was converted itself."""

    @property
    def n_bytes(self) -> int:
        """Size of the weights."""
        return sum((self.folder.path / file).stat().st_size for file in self.weights.files)


def plan_conversion(
    source: Path,
    *,
    head_from: Path | None = None,
    model_type: str = "",
    rounding: Rounding = "",
) -> ConversionPlan:
    """Check what can be checked before weights are read; raise AuditError if it is refused."""
    folder = open_folder(source)
    with refuse_unreadable_files(folder):
        raw_config = read_config(folder, model_type=model_type)
        refuse_missing_kind(raw_config, tensor_names=(), place=folder.locate("config.json"))
        config = parse_config(raw_config, place=folder.locate("config.json"))
        tokenizer = read_tokenizer_files(folder, model_config=raw_config)
        weights = _find_weights(folder)
    for file in weights.files:
        _refuse_other_bytes(folder, file, is_pickle=weights.form in _PICKLED)
    if rounding and not config.is_causal:
        raise AuditError(
            "Only a causal model is the base of an adapter here.",
            where=folder.name,
            do="Convert a masked model without rounding.",
        )
    earlier = read_conversion(folder)
    if rounding and earlier and earlier.rounding:
        raise AuditError(
            "This model was rounded to 4 bits before.",
            where=folder.name,
            do="Round the model that it was made from.",
        )
    head = None if head_from is None else read_model_files(head_from)
    if head is not None:
        _refuse_other_head(head, config=config, name=folder.name)
    return ConversionPlan(folder, config, raw_config, weights, tokenizer, head, rounding, earlier)


def _find_weights(folder: ModelFolder) -> _Weights:
    for form, (file, shard_name) in _FORMS.items():
        if file in folder.files:
            if form == "safetensors":
                read_tensors(folder)
            if not shard_name:
                return _Weights(form, (file,), frozenset())
            index = read_index(folder, file, shard_name=shard_name)
            return _Weights(form, tuple(sorted(set(index.values()))), frozenset(index))
    raise AuditError(
        "The shards have no index, so it is not clear which belong to the model.",
        where=folder.name,
        do="Copy the index ({index}) into the same directory.",
        index=f"{INDEX_FILE} / {_PICKLE_INDEX}",
    )


def _refuse_other_bytes(folder: ModelFolder, file: str, *, is_pickle: bool) -> None:
    """Refuse a file that is not what its name says, by its first and last bytes."""
    place = folder.locate(file)
    with locate_errors(place), open_regular(folder.path / file) as stream:
        start = stream.read(512)
        n_bytes = stream.seek(0, 2)
        stream.seek(max(0, n_bytes - 65_557))  # a zip ends with 22 bytes and a comment of 65,535
        end = stream.read()
    with name_place(place):
        refuse_stand_in(start)
    if not start:
        raise AuditError("The file is empty.", where=place, do=COPY_FILE)
    if not is_pickle:
        return
    is_archive = is_zip(start)
    if is_archive and b"PK\x05\x06" not in end:
        raise AuditError(
            "The file ends too early: it was not copied completely.", where=place, do=COPY_FILE
        )
    if not is_archive and not start.startswith(b"\x80"):
        raise AuditError("This is not a PyTorch file.", where=place, do=COPY_FILE)


def _refuse_other_head(head: ModelFiles, *, config: ModelConfig, name: str) -> None:
    """Refuse the head of a model of another kind or shape, or one that is not that model's own."""
    if head.conversion is not None and head.conversion.head_name:
        raise AuditError(
            "The head of this model is itself another model's.",
            where=head.folder.name,
            do="Name the model that the head comes from.",
        )
    differences = [
        field
        for field in ("architecture", *type(config).model_fields)
        if field not in ("settings", *_OWN_DROPOUT)
        and getattr(config, field) != getattr(head.config, field, None)
    ]
    if differences:
        raise AuditError(
            "The model cannot take this head, because the two models differ in {differences}.",
            where=Message("{one} and {other}", one=head.folder.name, other=name),
            do="Choose the general model that the hospital's training started from.",
            differences=differences,
        )


def _refuse_other_tokenizer(head_from: Path, source: Path, model_type: str) -> None:
    """Refuse a head whose model reads text as other tokens; runs in a process with limits."""
    from audit.models.tokenizer import build_tokenizer, refuse_unlike

    plan = plan_conversion(source, head_from=head_from, model_type=model_type)
    assert plan.head is not None
    models = (
        (plan.head.tokenizer, plan.head.config, plan.head.folder.name),
        (plan.tokenizer, plan.config, plan.folder.name),
    )
    tokenizers = [
        build_tokenizer(files, config=config, name=name) for files, config, name in models
    ]
    refuse_unlike(*tokenizers, names=(models[0][2], models[1][2]))


T = TypeVar("T")
Need = Literal["", "weights", "head"]


def find_need(path: Path) -> Need:
    """Return why a refused model needs a conversion; "" if a conversion would not help.

    "weights": they are pickled. "head": they lack the masked-LM head.
    """
    try:
        plan = plan_conversion(path)
        if plan.weights.form in _PICKLED:
            return "weights"
        header, _, _ = _name_tensors(read_tensors(plan.folder)[0], config=plan.config)
        head_names = list_head_tensors(plan.config)
        shapes = compute_expected_shapes(plan.config)
        head = {name: ("F32", shapes[name]) for name in head_names}
        check_tensors(header | head, config=plan.config, folder=plan.folder)
    except AuditError:
        return ""
    return "" if plan.config.is_causal or head_names & header.keys() else "head"


def _name_tensors(
    stored: Mapping[str, T], *, config: ModelConfig
) -> tuple[dict[str, T], tuple[str, ...], str]:
    """Return tensors by their expected names, and the prefixes that were removed and added.

    A body that was saved alone lacks the root ("bert.").
    """
    tensors, removed = rename_tensors(stored)
    root, expected = find_body_prefix(config), compute_expected_shapes(config)
    is_rooted = any(name.startswith(root) for name in tensors)
    if is_rooted or not any(root + name in expected for name in tensors):
        return tensors, removed, ""
    named = {name if name in expected else root + name: tensors[name] for name in tensors}
    return named, removed, root


class ConvertTask(Task):
    """A conversion of a model into a new folder, or into one of the data directory."""

    job = "convert"

    source: Path
    out: Path | None = Field(default=None, description="a new folder")
    head_from: Path | None = Field(
        default=None,
        description="directory of the general model, whose masked-LM head is added to a model that "
        "was saved without one; reports say so",
    )
    model_type: str = Field(
        default="",
        max_length=40,
        description="kind of the model, if config.json does not say it, for example bert",
    )
    rounding: Rounding = Field(
        default="",
        description="round the layers' matrices to 4 bits and back, for the base of an adapter "
        "that was trained on it in 4 bits (QLoRA); nf4-double: with double quantization",
    )
    conversion_id: str = ""
    """Identifier of a kept model, known once the question is made."""

    def plan(self) -> ConversionPlan:
        """Return the checked plan; raises AuditError if the model is refused."""
        return plan_conversion(
            self.source,
            head_from=self.head_from,
            model_type=self.model_type,
            rounding=self.rounding,
        )

    def question(self) -> Question:
        """Return the question; equal questions share one kept model until a file changes."""
        plan = self.plan()
        about = {
            "files": _read_states(plan),
            "model_type": self.model_type,
        }
        if self.rounding:
            about["rounding"] = self.rounding
        conversion_id = make_salted_code("convert", about)
        return self.with_(conversion_id=conversion_id).make_question(
            label=plan.folder.name,
            device=SHORT,
            about=[conversion_id, None if self.out is None else str(self.out)],
        )

    @classmethod
    def read_answer(cls, question: Question) -> tuple[str, ...]:
        """Return the model's identifier if this question's model is kept."""
        conversion_id = str(question.order.get("conversion_id", ""))
        is_kept = not question.order.get("out") and CONVERTED.place(conversion_id).is_dir()
        return (f"{CONVERTED_LABEL}/{conversion_id}",) if is_kept else ()

    @classmethod
    def clear_abandoned(cls) -> None:
        """Remove half-written models of killed processes."""
        CONVERTED.clear_abandoned()

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Convert the model; return its identifier if it is kept."""
        plan = self.plan()
        if self.head_from is not None:
            inputs = self.head_from, self.source, self.model_type
            call_limited(_refuse_other_tokenizer, *inputs, place=plan.folder.name)
        with self._open_target(plan) as target:
            _convert(plan, target, contact=contact, is_kind_added=bool(self.model_type))
        return () if self.out else (f"{CONVERTED_LABEL}/{self.conversion_id}",)

    @contextmanager
    def _open_target(self, plan: ConversionPlan) -> Iterator[Path]:
        if self.out is not None:
            with whole_folder(self.out, place="out") as folder:
                yield folder
            return
        with CONVERTED.making(self.conversion_id) as folder:
            model_folder = folder / name_model_folder(plan.folder.name)
            model_folder.mkdir(mode=0o700)
            yield model_folder


def _read_states(plan: ConversionPlan) -> list[FileState]:
    """Return the state of every file of the model, and of the head's model."""
    head_folder = plan.head.folder if plan.head else None
    return [
        state
        for folder in filter(None, (plan.folder, head_folder))
        for state in read_file_states(
            *(folder.path / file for file in folder.files), where=folder.name
        )
    ]


def name_model_folder(name: str) -> str:
    """Return a folder's name for a model's display name, within the bounds of file systems."""
    plain_name = "".join(ch if ch not in "/\\" else "-" for ch in name).strip(". ")
    return plain_name.encode("utf-8")[:200].decode("utf-8", "ignore") or "model"


@dataclass(frozen=True)
class ConvertedModel:
    """A converted model of the data directory; `path` is the model's own directory."""

    conversion_id: str
    path: Path
    record: Conversion

    @property
    def name(self) -> str:
        """The name of the model that it was made from."""
        return self.path.name

    @property
    def created(self) -> str:
        """When it was converted, ISO 8601."""
        return self.record.created


def _read_converted(folder: Path) -> ConvertedModel:
    (path,) = (entry for entry in folder.iterdir() if entry.is_dir())
    record = Conversion.read((path / RECORD_FILE).read_bytes(), where=RECORD_FILE)
    return ConvertedModel(folder.name, path, record)


CONVERTED = Shelf(CONVERTED_FOLDER, label="converted model", read=_read_converted)


# The conversion itself: in a job's process, which may import torch.


def _convert(plan: ConversionPlan, target: Path, *, contact: Contact, is_kind_added: bool) -> None:
    """Write the converted model into an empty folder, and check it as any other model."""
    from audit.models.load import load_model, make_change_error

    n_bytes = plan.n_bytes
    refuse_without_memory(2 * n_bytes, place=plan.folder.name)
    n_rounded = sum(math.prod(shape) for shape in _list_rounded(plan).values())
    phases = (
        Phase(_HASHING, n_bytes, 1e-9, kind="convert hashing"),
        Phase(_READING, 2 * n_bytes, 2e-9, kind="convert rewriting"),
        *((Phase(_ROUNDING, n_rounded, 3e-8, kind="convert rounding"),) if n_rounded else ()),
        Phase(_CHECKING, 1, 2e-9 * n_bytes + 2),
    )
    meter = Meter(phases, listener=contact.listen, should_stop=contact.should_stop)
    states = _read_states(plan)
    weights_digest = _digest_files(plan, meter=meter)
    tensors = _read_parts(plan, target, meter=meter, contact=contact)
    if _read_states(plan) != states:
        raise make_change_error(plan.folder.name)
    record = _write_model(
        plan, tensors, target, meter=meter, digest=weights_digest, is_kind_added=is_kind_added
    )
    del tensors
    write_whole(target / RECORD_FILE, record.to_bytes())
    meter.finish(_READING)
    meter.add(_CHECKING, 0)
    with _name_source(plan.folder.name, target=target):
        load_model(target)
    meter.add(_CHECKING, 1)


@contextmanager
def _name_source(name: str, *, target: Path) -> Iterator[None]:
    """Call the model by its source's name in errors, not by that of the folder in the making."""
    try:
        yield
    except AuditError as error:
        place = str(error.where).replace(make_printable(target.name), name)
        raise AuditError(error.what, where=place, do=error.do) from None


def _digest_files(plan: ConversionPlan, *, meter: Meter) -> str:
    digests = {}
    for file in plan.weights.files:
        with locate_errors(plan.folder.locate(file)):
            digests[file] = fingerprint(
                plan.folder.path / file, on_bytes=lambda n: meter.add(_HASHING, n)
            )
    meter.finish(_HASHING)
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{digest}  {file}\n" for file, digest in digests.items())
    return hashlib.sha256(lines.encode()).hexdigest()


def _read_parts(
    plan: ConversionPlan, target: Path, *, meter: Meter, contact: Contact
) -> dict[str, Tensor]:
    """Return the tensors of all files by their stored names."""
    tensors: dict[str, Tensor] = {}
    for file in plan.weights.files:
        place, path = plan.folder.locate(file), plan.folder.path / file
        meter.add(_READING, 0)
        rewritten_path = None
        if plan.weights.form in _PICKLED:
            rewritten_path = target / f"{file}.safetensors"
            _rewrite(path, rewritten_path, place=place, contact=contact)
        part = _read_safetensors(rewritten_path or path, place=place)
        if rewritten_path is not None:
            rewritten_path.unlink()
        with name_place(place):
            refuse_twins(part, tensors)
        tensors |= part
        meter.add(_READING, path.stat().st_size)
    if plan.weights.indexed_names and plan.weights.indexed_names != tensors.keys():
        raise make_index_error(plan.folder.name)
    return tensors


def _rewrite(source: Path, target: Path, *, place: str, contact: Contact) -> None:
    """Write one pickled file as safetensors in a process that is shut off and has limits."""
    from audit.models.pickled_weights import rewrite_pickle

    n_bytes = source.stat().st_size
    seconds = _BASE_SECONDS + n_bytes // _SLOWEST_LOAD
    memory = _BASE_MEMORY_BYTES + _MEMORY_SHARE * n_bytes
    refusal = AuditError(
        "Reading the weights took more than {seconds} seconds of processor time, or more than "
        "{n_bytes:.0f} GB of memory, and was stopped.",
        do=SAVE_ANEW,
        seconds=seconds,
        n_bytes=memory / 1e9,
    )
    with name_place(place):
        call_limited(
            rewrite_pickle,
            source,
            target,
            place=place,
            seconds=seconds,
            n_bytes=memory,
            wall_seconds=WALL_SECONDS + n_bytes // _SLOWEST_WALL,
            should_stop=contact.should_stop,
            refusal=refusal,
        )


def _read_safetensors(path: Path, *, place: str) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file into own memory."""
    from safetensors.torch import load

    with name_place(place):
        read_header(path)
        with locate_errors(place), open_regular(path) as file:
            weights_bytes = file.read()
        refusal = AuditError("This is not a complete safetensors file.", do=COPY_FILE)
        with refuse_errors(refusal):
            tensors: dict[str, Tensor] = load(weights_bytes)
    return tensors


def _write_model(
    plan: ConversionPlan,
    tensors: Mapping[str, Tensor],
    target: Path,
    *,
    meter: Meter,
    digest: str,
    is_kind_added: bool,
) -> Conversion:
    """Write weights, configuration and tokenizer; return the record of the conversion."""
    from audit.models.pickled_weights import write_safetensors

    with name_place(plan.folder.name):
        current_tensors, removed, added = _name_tensors(tensors, config=plan.config)
        if plan.head is not None and list_head_tensors(plan.config) & current_tensors.keys():
            raise AuditError("The model has a head of its own.", do="Leave out --head-from.")
    head_name, head_digest, rounding = "", "", plan.rounding
    if earlier := plan.earlier:
        head_name, head_digest = earlier.head_name, earlier.head_digest
        rounding = rounding or earlier.rounding
    if plan.head is not None:
        head_name = plan.head.folder.name
        head_tensors, head_digest = _read_head(plan.head, config=plan.config)
        current_tensors |= head_tensors
    _round_layers(current_tensors, plan=plan, meter=meter)
    # The numbers of all tensors are written once more than they were read.
    with (target / SINGLE_FILE).open("wb") as file:
        write_safetensors(current_tensors, file, on_bytes=lambda n: meter.add(_READING, n))
    config_bytes = json.dumps(plan.raw_config, indent=2, sort_keys=True).encode()
    write_whole(target / "config.json", config_bytes)
    tokenizer_bytes = dict(plan.tokenizer.all_files)
    if TOKENIZER_CONFIG_FILE in plan.folder.files:
        tokenizer_bytes[TOKENIZER_CONFIG_FILE] = plan.folder.read(
            TOKENIZER_CONFIG_FILE, max_bytes=MAX_TOKENIZER_BYTES
        )
    for file_name, content in tokenizer_bytes.items():
        write_whole(target / file_name, content)
    return Conversion(
        weights_form=plan.weights.form,
        weights_sha256=digest,
        prefixes_removed=removed,
        prefix_added=added,
        is_kind_added=is_kind_added,
        head_name=head_name,
        head_digest=head_digest,
        rounding=rounding,
        created=make_time_stamp(),
    )


def _list_rounded(plan: ConversionPlan) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the matrices that are to be rounded, by name."""
    names = list_layer_matrices(plan.config) if plan.rounding else ()
    shapes = compute_expected_shapes(plan.config)
    return {name: shapes[name] for name in names}


def _round_layers(tensors: Mapping[str, Tensor], *, plan: ConversionPlan, meter: Meter) -> None:
    """Round the matrices of all layers, in their place."""
    from audit.models.four_bit import round_matrix

    is_double = plan.rounding == "nf4-double"
    for name, shape in _list_rounded(plan).items():
        if name in tensors:  # a tensor that is missing is refused when the copy is checked
            matrix = tensors[name].T if has_row_for_input(plan.config) else tensors[name]
            matrix.copy_(round_matrix(matrix, is_double=is_double))
        meter.add(_ROUNDING, math.prod(shape))


def _read_head(head: ModelFiles, *, config: ModelConfig) -> tuple[dict[str, Tensor], str]:
    """Return the tensors of a model's head, and the model's digest.

    A head whose matrix is the word embedding takes that of the model that gets it.
    """
    digest = head.compute_digest()
    names = list_head_tensors(config)
    root, twins = find_body_prefix(config), find_shared_tensors(config)
    names -= {name for name, twin in twins.items() if twin.startswith(root)}
    stored: dict[str, Tensor] = {}
    for path in head.weights:
        stored |= _read_safetensors(path, place=head.folder.locate(path.name))
    tensors, _ = rename_tensors(stored)
    return {name: tensors[name] for name in names if name in tensors}, digest
