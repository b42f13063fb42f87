"""The pair that every attack compares: the general model and the hospital's.

Source: Nakamura et al., section 3.4: M_general is what M_hospital was before it saw the notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.models.load import LoadedModel, load_model
from audit.models.tokenizer import tokenizer_differences, unlike_tokenizers


@dataclass(frozen=True, eq=False)
class ModelPair:
    """Two models that read the same text as the same tokens."""

    general: LoadedModel
    hospital: LoadedModel

    def __post_init__(self) -> None:
        """Refuse two models whose numbers would not speak of the same tokens."""
        differences = tokenizer_differences(self.general.tokenizer, self.hospital.tokenizer)
        if differences:
            names = f"{self.general.name} and {self.hospital.name}"
            raise unlike_tokenizers(differences, where=names)

    @property
    def n_positions(self) -> int:
        """Longest input that both models take, in tokens."""
        return min(self.general.n_positions, self.hospital.n_positions)

    @property
    def can_share_dropout(self) -> bool:
        """Whether one draw of dropout masks fits both models and drops anything at all."""
        general, hospital = _rates(self.general), _rates(self.hospital)
        return _shape(self.general) == _shape(self.hospital) and general == hospital != (0, 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of a result should know of this pair, in sentences."""
        notes = []
        one, other = _shape(self.general), _shape(self.hospital)
        if one != other:
            notes.append(
                f"The models differ in shape ({one}; {other}), so they cannot share dropout masks."
            )
        (h, a), (h2, a2) = _rates(self.general), _rates(self.hospital)
        if (h, a) != (h2, a2):
            notes.append(
                f"The models differ in dropout rates (hidden {h:g} and {h2:g}, attention {a:g} and "
                f"{a2:g}), so they cannot share dropout masks."
            )
        for side, loaded in (("general", self.general), ("hospital", self.hospital)):
            hidden, attention = _rates(loaded)
            if hidden == attention == 0:
                notes.append(f"The {side} model has no dropout: repeated passes are all alike.")
            elif 0 in (hidden, attention):
                which = "attention" if hidden else "hidden"
                notes.append(f"The {which} dropout rate of the {side} model is 0.")
        if self.general.n_positions != self.hospital.n_positions:
            notes.append(
                f"The models take inputs of different length ({self.general.n_positions} and "
                f"{self.hospital.n_positions} tokens); the shorter one counts."
            )
        return tuple(notes)


def _shape(loaded: LoadedModel) -> str:
    c: Any = loaded.model.config
    return (
        f"{loaded.architecture}, {c.num_hidden_layers} layers, {c.hidden_size} wide, "
        f"{c.num_attention_heads} heads"
    )


def _rates(loaded: LoadedModel) -> tuple[float, float]:
    """Return the hidden and the attention dropout rate."""
    c: Any = loaded.model.config
    if loaded.architecture == "distilbert":
        return float(c.dropout), float(c.attention_dropout)
    return float(c.hidden_dropout_prob), float(c.attention_probs_dropout_prob)


def load_pair(
    general: Path, hospital: Path, *, device: str = "cpu", dtype: str = "float32"
) -> ModelPair:
    """Load both models of an audit."""
    return ModelPair(
        general=load_model(general, device=device, dtype=dtype),
        hospital=load_model(hospital, device=device, dtype=dtype),
    )
