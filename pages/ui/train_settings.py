"""How to train: presets, the length in passes or steps, and every other setting."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from audit.training.config import PRECISIONS, SCHEDULES, TrainSettings
from audit.training.kept import PRESETS
from pages.ui import blocks
from pages.ui.language import Words
from pages.ui.train_choice import choice

DEVICES = ("auto", "cpu", "cuda")
LENGTHS = ("epochs", "steps")
_MOST_STEPS, _MOST_EPOCHS = 100_000_000, 1_000.0
_LEAST_RATE, _MOST_RATE = 0.0, 1.0


def ask_preset(say: Words) -> str:
    """Draw the presets and return the code of the chosen one."""
    return choice(
        "preset",
        PRESETS,
        usual=PRESETS[0],
        draw=lambda key: st.radio(
            say.text("train_preset"),
            PRESETS,
            format_func=lambda code: say.text(f"train_preset_{code}"),
            captions=[say.text(f"train_preset_why_{code}") for code in PRESETS],
            key=key,
            persist_state="session",
        ),
    ) or PRESETS[0]  # fmt: skip


def ask_settings(say: Words, *, preset: str, usual: TrainSettings) -> tuple[TrainSettings, str]:
    """Ask for the length and, if somebody looks, for every setting; return them and the device.

    Raises
    ------
    AuditError
        If no training can have the settings.
    """
    # Boxes begin anew where the preset, or what it says for these notes, is another.
    asked = Asked(say, f"{preset}_{zlib.crc32(repr(usual).encode()):08x}")
    wanted = asked.length(usual)
    with st.expander(say.text("train_details"), key="train_details"):
        st.html(blocks.heading("", below=say.text("train_details_below")))
        wanted |= asked.rest(usual)
        device = asked.one_of(
            "device", DEVICES[0], among=DEVICES, shown=lambda code: say.text(f"train_device_{code}")
        )
    return usual.with_(**wanted), device


@dataclass(frozen=True)
class Asked:
    """Boxes for settings; `where` keeps those of one preset apart from another's."""

    say: Words
    where: str

    def length(self, usual: TrainSettings) -> dict[str, Any]:
        """Ask how long: in passes over the notes, or in steps."""
        left, right = st.columns(2, vertical_alignment="bottom")
        with left:
            unit = st.radio(
                self.say.text("train_length"),
                LENGTHS,
                index=LENGTHS.index("steps" if usual.n_epochs is None else "epochs"),
                format_func=lambda code: self.say.text(f"train_length_{code}"),
                horizontal=True,
                key=f"set-train-length-{self.where}",
                persist_state="session",
            )
        with right:
            if unit == "epochs":
                n_epochs = usual.n_epochs or 1.0
                return {"n_epochs": self.number("n_epochs", n_epochs, low=0.01, high=_MOST_EPOCHS)}
            return {"n_epochs": None, "n_steps": self.whole("n_steps", usual.n_steps)}

    def rest(self, usual: TrainSettings) -> dict[str, Any]:
        """Ask for all other settings."""
        found: dict[str, Any] = {}
        left, right = st.columns(2)
        with left:
            for field in ("n_tokens", "batch", "micro_batch"):
                found[field] = self.whole(field, getattr(usual, field))
            for field in ("evaluate_every", "checkpoint_every"):
                found[field] = self.whole(field, getattr(usual, field))
            found["seed"] = self.whole("seed", usual.seed, low=0)
            found["from_scratch"] = self.toggle("from_scratch", usual.from_scratch)
        with right:
            rates = ("learning_rate", "head_learning_rate")
            for field in rates:
                found[field] = self.number(
                    field, getattr(usual, field) or 0.0, low=_LEAST_RATE, high=_MOST_RATE,
                    shown="%.2e", step=1e-5,
                )  # fmt: skip
            for field in ("warmup_share", "weight_decay", "mask_share", "held_out_share"):
                found[field] = self.number(field, getattr(usual, field), low=0.0, high=1.0)
            found["clip"] = self.number("clip", usual.clip, low=0.0, high=1e6)
            found["schedule"] = self.one_of(
                "schedule", usual.schedule, among=SCHEDULES,
                shown=lambda code: self.say.text(f"train_schedule_{code}"),
            )  # fmt: skip
            found["precision"] = self.one_of(
                "precision", usual.precision, among=PRECISIONS,
                shown=lambda code: self.say.text(f"train_precision_{code}"),
            )  # fmt: skip
        found["head_learning_rate"] = found["head_learning_rate"] or None
        return found

    def whole(self, field: str, value: int, *, low: int = 1) -> int:
        """Ask for a whole number; the engine says which ones it takes."""
        found = st.number_input(
            self.say.text(f"train_set_{field}"), min_value=low, max_value=_MOST_STEPS, value=value,
            help=self.say.text(f"train_help_{field}"), key=f"set-train-{field}-{self.where}",
            persist_state="session",
        )  # fmt: skip
        return int(found)

    def number(
        self,
        field: str,
        value: float,
        *,
        low: float,
        high: float,
        shown: str = "%.3g",
        step: float = 0.01,
    ) -> float:
        """Ask for a number."""
        found = st.number_input(
            self.say.text(f"train_set_{field}"), min_value=low, max_value=high, value=float(value),
            format=shown, step=step, help=self.say.text(f"train_help_{field}"),
            key=f"set-train-{field}-{self.where}", persist_state="session",
        )  # fmt: skip
        return float(found)

    def toggle(self, field: str, value: bool) -> bool:
        """Ask for yes or no."""
        return st.toggle(
            self.say.text(f"train_set_{field}"), value=value,
            help=self.say.text(f"train_help_{field}"), key=f"set-train-{field}-{self.where}",
            persist_state="session",
        )  # fmt: skip

    def one_of(
        self, field: str, value: str, *, among: tuple[str, ...], shown: Callable[[str], str]
    ) -> str:
        """Ask for one of several codes."""
        found = st.selectbox(
            self.say.text(f"train_set_{field}"), among, index=among.index(value),
            format_func=shown,
            help=self.say.text(f"train_help_{field}"), key=f"set-train-{field}-{self.where}",
            persist_state="session",
        )  # fmt: skip
        return str(found)
