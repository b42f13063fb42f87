"""Step 1 of an audit: the general model and the hospital's, and what differs between them."""

from __future__ import annotations

import streamlit as st

from audit.errors import AuditError, written
from audit.models.registry import (
    VARIABLE,
    PairCheck,
    RegisteredModel,
    find_model,
    known_digest,
    registered,
)
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.called import model_name, model_names
from pages.ui.form import pick
from pages.ui.section import Table, details, draw_table, empty, head, remark
from pages.ui.state import Words

Pair = tuple[RegisteredModel, RegisteredModel]


def draw_models(say: Words) -> Pair | None:
    """Draw the choice; return the pair, None where it is not chosen or cannot be compared."""
    models = cached.models()
    options, found = model_names(say, models), []
    for field, column in zip(("general", "hospital"), st.columns(2, gap="large"), strict=True):
        with column:
            code = pick(
                say, field, options, label=say.text(f"audit_model_{field}"),
                help=say.text(f"audit_model_{field}_help"),
            )  # fmt: skip
        found.append(find_model(code, among=models))
    draw_folders(say, models)
    general, hospital = found
    if general is None or hospital is None or not draw_pair(say, general, hospital):
        return None
    return general, hospital


def draw_folders(say: Words, models: tuple[RegisteredModel, ...]) -> None:
    """Say where models are looked for, and which of those found there are refused."""
    folders = registered(models)
    if not folders:
        empty(say, "audit_no_folder")
        st.code(f"{VARIABLE}=DIR python -m streamlit run app.py", language="bash")
    for folder, n in folders.items():
        if not n:
            remark(say, "audit_folder_gone" if n is None else "audit_folder_empty", folder=folder)
    if rows := [
        (model_name(say, one.model_id), written(one.refusal, say.language))
        for one in models
        if one.refusal
    ]:
        with st.expander(say.text("audit_refused_models", n=len(rows)), key="refused_models"):
            table = Table(["audit_column_model", "audit_column_reason"], rows, n_text=2)
            draw_table(say, "audit_refused", table)


def draw_pair(say: Words, general: RegisteredModel, hospital: RegisteredModel) -> bool:
    """Draw what differs between the two models; False where they cannot be compared."""
    try:
        found = cached.check(general.path, hospital.path)
        with st.spinner(say.text("audit_digest_wait")):
            digests = [known_digest(one.path) for one in (general, hospital)]
    except AuditError as error:
        refused(say, error)
        return False
    is_same = len(set(digests)) == 1
    if found.refusal:
        why = written(found.refusal, say.language)
        st.html(blocks.heading(say.text("audit_pair_refused"), below=why))
    else:
        head(say, "audit_pair_same" if is_same else "audit_pair_fits")
    draw_traits(say, found, digests)
    return not found.refusal and not is_same


def draw_traits(say: Words, found: PairCheck, digests: list[str]) -> None:
    """Draw the facts of both models, those that differ first."""
    different = {code for code, values in found.traits.items() if len(set(values)) > 1}
    label = say.text("audit_differences", n=len(different))
    with st.expander(label, key="differences", expanded=bool(found.refusal)):
        rows = [
            [
                say.text(f"audit_trait_{code}"),
                *(f"{one:,}" if isinstance(one, int) else str(one) for one in found.traits[code]),
                say.text("audit_differs" if code in different else "audit_equal"),
            ]
            for code in sorted(found.traits, key=lambda code: code not in different)
        ]
        header = [f"audit_column_{one}" for one in ("what", "general", "hospital", "compared")]
        draw_table(say, "audit_traits", Table(header, rows, n_text=4))
        with details(say, "digests"):
            table = Table(header[:3], [[say.text("audit_digest"), *digests]], n_text=3)
            draw_table(say, "audit_digests", table, has_csv=False)
