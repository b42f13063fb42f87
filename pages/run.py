"""Run an attack: what does the attacker have, and how long may he try?"""

from __future__ import annotations

import streamlit as st

from audit.attack.question import AuditRequest
from audit.errors import written
from audit.names.lists import KeptPassages
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.cached import ListView
from pages.ui.language import Words, link, words
from pages.ui.setup_choice import Pair, chosen, codes_for_link, keep_pending, pair
from pages.ui.setup_plan import draw_plan
from pages.ui.setup_settings import Settings, ask_scenario, ask_settings


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("run_title"), anchor=False)
    st.html(blocks.heading("", below=say.text("run_below")))
    try:
        draw(say)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def draw(say: Words) -> None:
    """Draw what is asked at the left, the plan at the right."""
    keep_pending(say)  # whoever comes past the button that keeps a new list
    models = pair(cached.models())
    try:
        names, passages = kept_names(), kept_passages()
    except cached.AuditError as error:
        refused(say, error)
        names, passages = None, None
    left, right = st.columns([3, 2], gap="large")
    with left:
        scenario = ask_scenario(say, usual=2 if passages else 1)
        try:
            settings = ask_settings(
                say, scenario=scenario, candidates=names.candidates if names else None
            )
        except cached.AuditError as error:
            refused(say, error)
            return
    with right, st.container(border=True, key="run_plan"):
        st.html(blocks.heading(say.text("run_plan")))
        if not has_all(say, models, names=names, passages=passages, scenario=scenario):
            return
        try:
            plan_and_start(say, models, settings, scenario=scenario, names=names, passages=passages)
        except cached.AuditError as error:
            refused(say, error)


def kept_names() -> ListView | None:
    """Return the chosen list; None where none is chosen."""
    code = chosen().get("names", "")
    return cached.names(code) if code else None


def kept_passages() -> KeptPassages | None:
    """Return the chosen passages; None where none are chosen."""
    code = chosen().get("passages", "")
    return cached.passages(code) if code else None


def has_all(
    say: Words,
    models: Pair,
    *,
    names: ListView | None,
    passages: KeptPassages | None,
    scenario: int,
) -> bool:
    """Say which cards of Models and names are missing; True where none is."""
    missing = [
        key
        for key, found in (
            ("run_missing_general", models.general),
            ("run_missing_hospital", models.hospital),
            ("run_missing_names", names),
            ("run_missing_passages", passages if scenario == 2 else True),
        )
        if not found
    ]
    if not missing:
        return True
    st.html(blocks.heading("", below=say.text("run_missing")))
    st.html(blocks.bullet_list(say.text(key) for key in missing))
    link("setup", label=say.text("run_to_setup"), **codes_for_link())
    return False


def plan_and_start(
    say: Words,
    models: Pair,
    settings: Settings,
    *,
    scenario: int,
    names: ListView | None,
    passages: KeptPassages | None,
) -> None:
    """Plan the audit and offer to start it."""
    assert models.general and models.hospital and names
    used = passages if scenario == 2 else None
    request = AuditRequest(
        scenario_number=scenario,
        general=models.general.path,
        hospital=models.hospital.path,
        candidates=names.candidates,
        passages=used.passages if used else None,
        generation=settings.generation,
        posterior=settings.posterior,
        seed=settings.seed,
        dtype=settings.dtype,
        device=settings.device,
    )
    found = cached.check(models.general.path, models.hospital.path)
    if found.refusal:
        why = written(found.refusal, say.language)
        st.html(blocks.heading(say.text("setup_pair_refused"), below=why))
        return
    plan = cached.make_plan(
        request,
        names=names.line.code,
        passages=used.line.code if used else "",
        passages_file=used.file_name if used else "passages.jsonl",
    )
    draw_plan(say, plan, request, names=names, passages=used)


page()
