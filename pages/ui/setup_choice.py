"""What has been chosen for the next audit: models, names, passages; in the link and the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import streamlit as st

from audit.errors import AuditError
from audit.models.inspect import LABEL
from audit.models.registry import RegisteredModel, find_model
from audit.names.lists import Line
from pages.ui import blocks
from pages.ui.blocks import refused, step
from pages.ui.language import Words
from pages.ui.text import day

FIELDS = ("general", "hospital", "names", "passages")
"""Query parameters; their values are identifiers of models and digits of digests."""
_CHOSEN = "setup_chosen"
_PENDING = "setup_pending"


@dataclass(frozen=True)
class Pair:
    """The models of the link; None where one is not chosen, not registered or refused."""

    general: RegisteredModel | None
    hospital: RegisteredModel | None


def chosen() -> dict[str, str]:
    """Return the codes that are chosen: the link's, else this session's; both say so afterwards."""
    known: dict[str, str] = st.session_state.setdefault(_CHOSEN, {})
    for field in FIELDS:
        code = st.query_params.get(field, "") or known.get(field, "")
        if code:
            known[field] = code
            st.query_params[field] = code
    return dict(known)


def choose(field: str, code: str) -> None:
    """Choose a model, a list or passages; "" chooses none."""
    known: dict[str, str] = st.session_state.setdefault(_CHOSEN, {})
    if code:
        known[field] = code
        st.query_params[field] = code
    else:
        known.pop(field, None)
        st.query_params.pop(field, None)


def pend(field: str, keep: Callable[[], str] | None) -> None:
    """Remember what was given in a card and is not kept yet: what keeps it and returns its digest.

    None: it cannot be used.
    """
    st.session_state.setdefault(_PENDING, {})[field] = keep


def unpend(field: str) -> None:
    """Forget what was given in a card."""
    st.session_state.setdefault(_PENDING, {}).pop(field, None)


def is_new(field: str) -> bool:
    """Whether something was given for this field that can be kept and is not kept yet."""
    return st.session_state.get(_PENDING, {}).get(field) is not None


def is_unusable(field: str) -> bool:
    """Whether what was given for this field cannot be used."""
    pending = st.session_state.get(_PENDING, {})
    return field in pending and pending[field] is None


def keep_pending(say: Words) -> bool:
    """Keep and choose what was given in the cards; say why, and return False, where that fails."""
    pending = st.session_state.get(_PENDING, {})
    for field in tuple(pending):
        keep = pending.pop(field)
        try:
            if keep is None:
                raise AuditError(
                    "A file or names that were given could not be read, and were not kept.",
                    do="Give them again; until then the list and the passages are the chosen ones.",
                )
            choose(field, keep()[:12])
        except AuditError as error:
            refused(say, error)
            return False
    return True


def pair(among: tuple[RegisteredModel, ...]) -> Pair:
    """Return the chosen models that can be used."""
    codes = chosen()

    def usable(field: str) -> RegisteredModel | None:
        model = find_model(codes.get(field, ""), among=among)
        return model if model is not None and not model.refusal else None

    return Pair(usable("general"), usable("hospital"))


def picker(
    field: str, options: list[str], *, label: str, say: Words, shown: Callable[[str], str]
) -> str:
    """Draw a box to choose from, and return the code that is chosen; "" for none.

    Options are shown as plain text, never as Markdown.
    """
    code, key = chosen().get(field, ""), f"setup_{field}"
    st.session_state[key] = code if code in options else None
    if code and code not in options:
        st.html(blocks.heading("", below=say.text("setup_not_here")))
    st.selectbox(
        label,
        options,
        index=None,
        format_func=shown,
        key=key,
        placeholder=say.text("setup_choose"),
        on_change=lambda: choose(field, st.session_state[key] or ""),
    )
    return code if code in options else ""


def step_of_new(say: Words, letter: str, *, field: str, usual: str, is_chosen: bool) -> bool:
    """Draw the heading of a card in which something new can be made; say whether it is ready."""
    is_ready = (is_chosen or is_new(field)) and not is_unusable(field)
    state = "setup_new" if is_new(field) else "setup_not_usable" if is_unusable(field) else usual
    title = say.text(f"setup_{field}_card")
    step(letter, title, is_ready=is_ready, state=say.text(state))
    return is_ready


def list_name(say: Words, line: Line) -> str:
    """Return what a list or a file of passages is called on the screen."""
    if not line.at:
        return say.text(f"setup_demo_{line.code.removeprefix('demo-')}")
    return line.label or say.text("setup_untitled", at=day(line.at))


def model_name(say: Words, model_id: str, *, among: tuple[RegisteredModel, ...]) -> str:
    """Return what a model is called on the screen."""
    folder, _, name = model_id.partition("/")
    if folder.startswith("demo:"):
        return say.text("setup_demo_model", name=name, language=folder.removeprefix("demo:"))
    model = find_model(model_id, among=among)
    if folder == LABEL and model is not None and model.summary is not None:
        return say.text("setup_trained_model", title=model.summary.name, run=name[:4])
    return model_id


def codes_for_link() -> Mapping[str, str]:
    """Return the query parameters that carry the choice to another page."""
    return {field: code for field, code in chosen().items() if field in FIELDS}
