"""Step 3 of an audit: which attacker, and how long he may try."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from audit.attack.plan import PRESETS, usual_prompt
from audit.attack.question import SCENARIOS, GenerationSettings, PosteriorSettings, RunSettings
from audit.names.candidates import Candidates
from audit.run import Again
from pages.ui.form import ask
from pages.ui.section import Table, details, draw_table, remark
from pages.ui.state import Words, choose

_KART = {"k": "knowledge", "a": "anonymization", "r": "resource", "t": "target"}
Presets = dict[str, tuple[GenerationSettings, PosteriorSettings]]


@dataclass(frozen=True)
class Attacker:
    """What he may try; as in `AuditRequest`."""

    scenario: int
    generation: GenerationSettings
    posterior: PosteriorSettings
    how: RunSettings


def draw_attacker(say: Words, *, candidates: Candidates | None, again: Again | None) -> Attacker:
    """Draw both scenarios, the presets and, folded away, every setting; raises as `with_`."""
    cards = st.container()
    scenario = int(
        choose(
            "scenario", [str(number) for number in SCENARIOS], label=say.text("audit_scenario"),
            shown=lambda number: say.text(f"audit_has_{number}"),
        )
    )  # fmt: skip
    cards.html(scenario_cards(say, chosen=scenario))
    draw_kart(say)
    presets: Presets = dict(PRESETS)
    if again is not None and again.settings is not None:
        generation, posterior = presets["quick"]
        if isinstance(again.settings, GenerationSettings):
            presets["same"] = again.settings, posterior
        else:
            presets["same"] = generation, again.settings
    preset = choose(
        "preset", list(presets), label=say.text("audit_preset"),
        shown=lambda code: say.text(f"audit_preset_{code}"),
        why=lambda code: say.text(f"audit_preset_{code}_{scenario}"),
    )  # fmt: skip
    generation, posterior = presets[preset]
    if candidates is not None and preset != "same":
        generation = generation.with_(prompt=usual_prompt(candidates))
    how = again.how if again is not None else RunSettings()
    with st.expander(say.text("audit_settings"), key="settings"):
        remark(say, "audit_settings_below")
        if scenario == 1:
            generation = generation.with_(**boxes(say, generation))
        else:
            posterior = posterior.with_(**boxes(say, posterior))
        return Attacker(scenario, generation, posterior, how.with_(**boxes(say, how)))


def boxes(
    say: Words, usual: GenerationSettings | PosteriorSettings | RunSettings
) -> dict[str, object]:
    """Draw a box for each setting."""
    fields = list(type(usual).model_fields)
    return ask(say, usual, words="audit", fields=fields, key=f"set_{type(usual).__name__}")


def scenario_cards(say: Words, *, chosen: int) -> str:
    """Return both scenarios as HTML: who the attacker is, and what he does."""
    cards = []
    for number in SCENARIOS:
        what, who = say.html(f"audit_scenario_{number}"), say.html(f"audit_attacker_{number}")
        attack = say.html(f"audit_attack_{number}")
        cards.append(
            f'<section class="ka-card ka-kart{" ka-chosen" if number == chosen else ""}">'
            f'<h3>{what}</h3><p>{who}</p><p class="ka-interval">{attack}</p></section>'
        )
    return f'<div class="ka-cards">{"".join(cards)}</div>'


def draw_kart(say: Words) -> None:
    """Draw both scenarios in the paper's symbols, folded away."""
    with details(say, "kart"):
        rows = []
        for letter, field in _KART.items():
            said = [say.text(f"audit_kart_{letter}_{number}") for number in SCENARIOS]
            symbols = [getattr(one, field) for one in SCENARIOS.values()]
            cells = [f"{a} · {b}" for a, b in zip(symbols, said, strict=True)]
            rows.append([letter.upper(), say.text(f"audit_kart_{letter}"), *cells])
        header = ["KART", "", *(f"audit_scenario_{number}" for number in SCENARIOS)]
        draw_table(say, "audit_kart", Table(header, rows, n_text=4), has_csv=False)
