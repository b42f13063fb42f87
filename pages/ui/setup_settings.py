"""What the attacker may try: the two scenarios as KART cards, presets, and every setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import streamlit as st

from audit.attack.plan import PRESETS, usual_prompt
from audit.attack.question import (
    DEFAULT_PROMPT,
    SCENARIOS,
    Dtype,
    GenerationSettings,
    PosteriorSettings,
    Scenario,
)
from audit.names.candidates import Candidates
from audit.task import Device
from pages.ui import blocks
from pages.ui.language import Words
from pages.ui.text import escaped

_SCENARIO, _PRESET = "run_scenario", "run_preset"
_LARGEST = 10_000_000


@dataclass(frozen=True)
class Settings:
    """What is asked beside models and lists; as in `AuditRequest`."""

    generation: GenerationSettings
    posterior: PosteriorSettings
    seed: int
    dtype: Dtype
    device: Device


def ask_scenario(say: Words, *, usual: int) -> int:
    """Draw both scenarios as KART cards, and return the number of the chosen one."""
    cards = st.container()
    wanted = st.query_params.get("scenario", "")
    numbers = [str(number) for number in SCENARIOS]
    if _SCENARIO not in st.session_state:
        st.session_state[_SCENARIO] = wanted if wanted in numbers else str(usual)
    chosen = st.radio(
        say.text("run_scenario"),
        numbers,
        format_func=lambda number: say.text(f"scenario_{number}"),
        key=_SCENARIO,
        persist_state="session",
    )
    number = int(chosen or usual)
    st.query_params["scenario"] = str(number)
    drawn = "".join(card(say, one, is_chosen=one.number == number) for one in SCENARIOS.values())
    cards.html(f'<div class="ka-cards">{drawn}</div>')
    return number


def card(say: Words, scenario: Scenario, *, is_chosen: bool) -> str:
    """Return one scenario as HTML: who the attacker is, and K, A, R, T in symbols and words."""
    number = scenario.number
    symbols = {
        "k": scenario.knowledge,
        "a": scenario.anonymization,
        "r": scenario.resource,
        "t": scenario.target,
    }
    rows = "".join(
        f"<div><dt><b>{letter.upper()}</b> {say.html(f'run_kart_{letter}')}</dt>"
        f"<dd><code>{escaped(symbol)}</code> {say.html(f'run_kart_{letter}_{number}')}</dd></div>"
        for letter, symbol in symbols.items()
    )
    return (
        f'<section class="ka-card ka-kart{" ka-chosen" if is_chosen else ""}">'
        f"<h3>{say.html(f'run_scenario_{number}')}</h3>"
        f"<p>{say.html(f'run_attacker_{number}')}</p><dl>{rows}</dl>"
        f'<p class="ka-interval">{say.html(f"run_attack_{number}")}</p></section>'
    )


def ask_settings(say: Words, *, scenario: int, candidates: Candidates | None) -> Settings:
    """Ask for a preset and, if somebody looks, for every setting.

    Raises
    ------
    AuditError
        If no run can have the settings.
    """
    wanted = st.query_params.get("preset", "")
    if _PRESET not in st.session_state:
        st.session_state[_PRESET] = wanted if wanted in PRESETS else "quick"
    preset = st.radio(
        say.text("run_preset"),
        PRESETS,
        format_func=lambda code: say.text(f"run_preset_{code}"),
        captions=[say.text(f"run_preset_{code}_{scenario}") for code in PRESETS],
        key=_PRESET,
        persist_state="session",
    )
    st.query_params["preset"] = str(preset)
    prompt = usual_prompt(candidates) if candidates is not None else None
    generation, posterior = PRESETS[str(preset)]
    if prompt is not None:
        generation = generation.with_(prompt=prompt)
    with st.expander(say.text("run_details"), key="run_details"):
        st.html(blocks.heading("", below=say.text("run_details_below")))
        is_usual = prompt in (None, DEFAULT_PROMPT)
        asked = Asked(say, f"{scenario}_{preset}{'' if is_usual else '_own'}")
        if scenario == 1:
            generation = asked.generation(generation)
        else:
            posterior = asked.posterior(posterior)
        return asked.shared(generation, posterior)


@dataclass(frozen=True)
class Asked:
    """Boxes for settings; `where` keeps those of one preset apart from another's."""

    say: Words
    where: str

    def number(self, field: str, value: int, *, low: int = 1) -> int:
        """Ask for a whole number; the engine says which ones it takes."""
        found = st.number_input(
            self.say.text(f"run_set_{field}"),
            min_value=low,
            max_value=_LARGEST,
            value=value,
            help=self.say.text(f"run_help_{field}"),
            key=f"run_{field}_{self.where}",
            persist_state="session",
        )
        return int(found)

    def toggle(self, field: str, value: bool) -> bool:
        """Ask for yes or no."""
        return st.toggle(
            self.say.text(f"run_set_{field}"),
            value=value,
            help=self.say.text(f"run_help_{field}"),
            key=f"run_{field}_{self.where}",
            persist_state="session",
        )

    def generation(self, usual: GenerationSettings) -> GenerationSettings:
        """Ask for the settings of scenario 1."""
        left, right = st.columns(2)
        with left:
            n_documents = self.number("n_documents", usual.n_documents)
            n_steps = self.number("n_steps", usual.n_steps)
            n_tokens = self.number("n_tokens", usual.n_tokens)
        with right:
            top_k = self.number("top_k", usual.top_k)
            temperature = st.number_input(
                self.say.text("run_set_temperature"),
                value=usual.temperature,
                step=0.1,
                help=self.say.text("run_help_temperature"),
                key=f"run_temperature_{self.where}",
                persist_state="session",
            )
            is_remasked = self.toggle("is_remasked", usual.is_remasked)
        prompt = st.text_input(
            self.say.text("run_set_prompt"),
            value=usual.prompt,
            max_chars=500,
            help=self.say.text("run_help_prompt"),
            key=f"run_prompt_{self.where}",
            persist_state="session",
        )
        return GenerationSettings(
            n_documents=n_documents, n_steps=n_steps, n_tokens=n_tokens, top_k=top_k,
            temperature=float(temperature), prompt=prompt, is_remasked=is_remasked,
        )  # fmt: skip

    def posterior(self, usual: PosteriorSettings) -> PosteriorSettings:
        """Ask for the settings of scenario 2."""
        left, right = st.columns(2)
        with left:
            n_inputs = self.number("n_inputs", usual.n_inputs)
            n_chain_inputs = self.number("n_chain_inputs", usual.n_chain_inputs, low=0)
            is_dropout_on = self.toggle("is_dropout_on", usual.is_dropout_on)
        with right:
            micro_batch = self.number("micro_batch", usual.micro_batch)
            max_tokens = self.number("max_tokens", usual.max_tokens)
        return PosteriorSettings(
            n_inputs=n_inputs, n_chain_inputs=n_chain_inputs, is_dropout_on=is_dropout_on,
            micro_batch=micro_batch, max_tokens=max_tokens,
        )  # fmt: skip

    def shared(self, generation: GenerationSettings, posterior: PosteriorSettings) -> Settings:
        """Ask for what both scenarios have."""
        left, right = st.columns(2)
        with left:
            seed = self.number("seed", 0, low=0)
        with right:
            dtype: Any = self.choice("dtype", get_args(Dtype))
            device: Any = self.choice("device", get_args(Device))
        return Settings(
            generation=generation,
            posterior=posterior,
            seed=seed,
            dtype=dtype,
            device=device,
        )

    def choice(self, field: str, codes: tuple[str, ...]) -> str:
        """Ask for one of a few codes; the first is the usual one."""
        found = st.selectbox(
            self.say.text(f"run_set_{field}"),
            codes,
            format_func=lambda code: self.say.text(f"run_{field}_{code}"),
            help=self.say.text(f"run_help_{field}"),
            key=f"run_{field}_{self.where}",
            persist_state="session",
        )
        return str(found)
