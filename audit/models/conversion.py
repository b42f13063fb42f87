"""The record `conversion.json` of a model that this program wrote from another form of weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from audit.errors import AuditError, Message
from audit.foreign import refuse_errors
from audit.models.model_folder import ModelFolder, make_printable
from audit.task import Record

RECORD_FILE = "conversion.json"
_MAX_BYTES = 10_000
_DIGEST = r"^[0-9a-f]{64}$"
_PREFIX = r"^[A-Za-z0-9_.]{0,100}$"

WeightsForm = Literal["pickle", "pickle_shards", "safetensors", "safetensors_shards"]
Rounding = Literal["", "nf4", "nf4-double"]
"""How the matrices of a base in four bits are rounded: not at all, or NF4 with scales that are
rounded too (double quantization) or not."""


class Conversion(Record):
    """How a model came about; the file is foreign text when a model is loaded.

    `prefixes_removed` and `prefix_added` are beginnings of tensor names that were taken away and
    put in front. `head_name` and `head_digest` identify the model whose head was added.
    """

    version: Literal[1] = 1
    weights_form: WeightsForm
    weights_sha256: str = Field(pattern=_DIGEST)
    """Digest of the weights' file, or of the lines `DIGEST  NAME` of its shards."""
    prefixes_removed: tuple[Annotated[str, Field(pattern=_PREFIX)], ...] = Field(
        default=(), max_length=10
    )
    prefix_added: str = Field(default="", pattern=_PREFIX)
    is_kind_added: bool = False
    """Whether `model_type` was missing in config.json and was given."""
    head_name: str = ""
    head_digest: str = Field(default="", pattern=f"{_DIGEST}|^$")
    rounding: Rounding = ""
    created: str = Field(pattern=r"^[0-9T:.+-]{10,40}$")

    @model_validator(mode="after")
    def _check(self) -> Conversion:
        is_pair = bool(self.head_name) == bool(self.head_digest)
        if not is_pair or make_printable(self.head_name) != self.head_name:
            raise ValueError("the head's model is not named, or not in plain letters")
        return self


def refuse_other_rounding(general: Rounding, hospital: Rounding, *, names: tuple[str, str]) -> None:
    """Refuse two models of which only one was rounded to 4 bits, or each in another way."""
    if general != hospital:
        raise AuditError(
            "The matrices of one model were rounded to 4 bits, those of the other were not, or in "
            "another way, so the pair would show the rounding too.",
            where=Message("{one} and {other}", one=names[0], other=names[1]),
            do="Choose two models that were rounded alike; an adapter computes with its base.",
        )


def read_conversion(folder: ModelFolder) -> Conversion | None:
    """Return the record of a model's folder; None if there is none, AuditError if it is damaged."""
    if RECORD_FILE not in folder.files:
        return None
    record_bytes = folder.read(RECORD_FILE, max_bytes=_MAX_BYTES)
    refusal = AuditError(
        "This is not a record that `models convert` wrote. It should say whose head the model has.",
        where=folder.locate(RECORD_FILE),
        do="Convert the model again. If another program wrote the file, remove it.",
    )
    with refuse_errors(refusal):
        try:
            return Conversion.read(record_bytes, where="")
        except AuditError:
            raise refusal from None
