"""What a reader looks at: the language, the audit, and the choices that a link carries.

A choice stands in the address as a code, so that a link restores what its sender saw; names and
texts never do. Words are whole sentences in English and Japanese, never glued parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from audit import words as words_files
from audit.report.report import KeptAudit, choose_audit, demo_digests, other_scenario
from audit.words import LANGUAGES, Words
from pages.ui import cached

OLD: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "overview": ("verdict", {}),
    "documents": ("names", {"tab": "documents"}),
    "setup": ("audit", {}),
    "report": ("verdict", {"report": "true"}),
    "run": ("audit", {}),
    "corpus": ("workshop", {"tab": "corpus"}),
    "deid_measures": ("deidentify", {"tab": "measures"}),
    "train": ("workshop", {"tab": "training"}),
}
"""Address of before -> the page that has taken its place, and where on it."""
_PAGES, _AUDIT = "pages", "place_audit"
_FOLDER = Path(__file__).resolve().parent / "words"
"""One folder a language, in it one file a page, and `shared.json`."""


def words_of(language: str) -> Words:
    """Return the sentences of all pages in a language."""
    return words_files.words_of(language, folder=_FOLDER)


def language() -> str:
    """Return the language's code: the switch's, else the link's, else the browser's."""
    chosen = st.session_state.get("language") or st.query_params.get("lang", "")
    if chosen in LANGUAGES:
        return str(chosen)
    return "ja" if str(st.context.locale or "").lower().startswith("ja") else "en"


def words() -> Words:
    """Return the words of the reader's language."""
    return words_of(language())


# Pages and links between them.


def keep_pages(pages: Mapping[str, Any]) -> None:
    """Remember this session's pages by name, for links between them."""
    st.session_state[_PAGES] = dict(pages)


def link(
    page: str, *, label: str, audit: str | None = None, icon: str | None = None, **query: str
) -> None:
    """Draw a link to a page that keeps language and audit; the label is trusted text.

    `audit` is a digest; None keeps the one that is shown, "" names none.
    """
    st.page_link(
        st.session_state[_PAGES][page],
        label=label,
        icon=icon,
        query_params=_query(audit, query),
    )


def go_to(page: str, *, audit: str | None = None, **query: str) -> None:
    """Leave for another page, language and audit kept as by `link`; does not return."""
    st.switch_page(st.session_state[_PAGES][page], query_params=_query(audit, query))


def _query(audit: str | None, query: Mapping[str, str]) -> dict[str, str]:
    shown = st.query_params.get("audit", "") if audit is None else audit[:12]
    return {"lang": language(), **({"audit": shown} if shown else {}), **query}


# The audit that is shown.


@dataclass(frozen=True)
class Place:
    """The audit that the link names, and its neighbours.

    Attributes
    ----------
    kept
        Every kept audit that can be read, own ones before the demo's, the newest first.
    n_unreadable
        Audits that another version of the program wrote.
    audit
        None: nothing is kept, or the link fits no audit.
    other
        The same pair in the other scenario, if it is kept.
    """

    kept: tuple[KeptAudit, ...]
    n_unreadable: int
    audit: KeptAudit | None
    other: KeptAudit | None


def place() -> Place:
    """Return where the link leads; raises as `cached.kept_audits`."""
    (kept, n_unreadable), demo = cached.kept_audits(), demo_digests(cached.store())
    # The sidebar's links to pages drop the address's query: the session remembers the audit.
    wanted = st.query_params.get("audit") or st.session_state.get(_AUDIT, "")
    audit = choose_audit(wanted, kept=kept, demo=demo)
    if audit:
        st.session_state[_AUDIT] = audit.digest
    other = other_scenario(audit, kept=kept) if audit else None
    return Place(kept, n_unreadable, audit, other)


# Choices as codes in the address.


def choose(
    what: str,
    options: Sequence[str],
    *,
    label: str,
    shown: Callable[[str], str],
    is_long: bool = False,
    why: Callable[[str], str] | None = None,
) -> str:
    """Draw a choice among codes and return the chosen one; `?what=` opens it, and follows it.

    `shown` turns a code into trusted text; with `is_long` the options stand in a list (whose text
    is shown as it is) and not beside each other, with `why` under each other, each with what it
    says of it. The first option is the usual one, and is not written into the address.
    """
    key, last = f"choice_{what}", f"choice_{what}_written"
    state = st.session_state
    wanted = st.query_params.get(what, "")
    if state.get(key) not in options or wanted != state.get(last, ""):
        # The link, or the browser's way back, says otherwise than this page wrote last.
        state[key] = wanted if wanted in options else options[0]
    found: str | None
    if is_long:
        found = st.selectbox(label, options, format_func=shown, key=key)
    elif why:
        captions = [why(code) for code in options]
        found = st.radio(label, options, format_func=shown, captions=captions, key=key)
    else:
        found = st.segmented_control(
            label, options, format_func=shown, key=key, required=True, wrap=True
        )
    chosen = str(found or options[0])
    state[last] = chosen if chosen != options[0] or what in st.query_params else ""
    write(what, state[last])
    return chosen


def switch(what: str, *, label: str, help: str | None = None) -> bool:
    """Draw a switch and return whether it is on; `?what=1` turns it on, and follows it."""
    key, last = f"choice_{what}", f"choice_{what}_written"
    state, wanted = st.session_state, st.query_params.get(what, "")
    if key not in state or wanted != state.get(last, ""):
        state[key] = wanted == "1"
    is_on = st.toggle(label, key=key, help=help)
    state[last] = "1" if is_on else ""
    write(what, state[last])
    return bool(is_on)


def choose_some(
    what: str, options: Sequence[str], *, label: str, shown: Callable[[str], str]
) -> tuple[str, ...]:
    """Draw a choice of any number of codes and return the chosen ones, all where none is."""
    key, last = f"choice_{what}", f"choice_{what}_written"
    state, wanted = st.session_state, st.query_params.get(what, "")
    kept = state.get(key)
    if not isinstance(kept, list) or wanted != state.get(last, "") or set(kept) - set(options):
        state[key] = [code for code in wanted.replace(",", ".").split(".") if code in options]
    found = st.pills(label, options, selection_mode="multi", format_func=shown, key=key, wrap=True)
    state[last] = ".".join(found)
    write(what, state[last])
    return tuple(found) or tuple(options)


def write(key: str, value: str) -> None:
    """Write a code into the address; an empty one is left out."""
    if value and st.query_params.get(key) != value:
        st.query_params[key] = value
    elif not value and key in st.query_params:
        del st.query_params[key]
