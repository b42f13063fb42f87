"""The login: nothing is drawn before it, whatever the page; broken settings keep it shut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import streamlit
from streamlit.runtime.secrets import Secrets
from streamlit.testing.v1 import AppTest

from audit.errors import AuditError
from audit.home import HOME_VARIABLE, results_dir
from pages.ui.login import login_providers
from pages.ui.main import SECTIONS
from tests.pages.make_reports import keep, make_report

PAGES = Path(__file__).resolve().parents[3] / "pages"
OIDC = {
    "redirect_uri": "http://127.0.0.1:8501/oauth2callback",
    "cookie_secret": "x" * 40,
    "client_id": "kart",
    "client_secret": "y",
    "server_metadata_url": "https://idp.example/.well-known/openid-configuration",
}
GATE = """
import streamlit as st
from pages.ui.language import words_of
from pages.ui.login import logout_button, require_login

if require_login(words_of("en")):
    logout_button(words_of("en"))
    st.title("Behind the gate")
"""


def gate(**secrets: Any) -> AppTest:
    app = AppTest.from_string(GATE, default_timeout=30)
    for name, value in secrets.items():
        app.secrets[name] = value
    return app.run()


def texts(app: AppTest) -> str:
    return "\n".join(block.proto.body for block in app.get("html"))


def test_without_secrets_there_is_no_login() -> None:
    app = gate()
    assert not app.exception
    assert [title.value for title in app.title] == ["Behind the gate"]
    assert not app.button


def test_with_a_login_set_up_only_the_way_to_it_is_shown() -> None:
    app = gate(auth=OIDC)
    assert not app.exception
    assert not app.title
    assert "Please log in" in texts(app)
    assert [button.label for button in app.button] == ["Log in"]


def test_several_providers_have_a_button_each_and_their_names_are_plain_text() -> None:
    section = {"redirect_uri": OIDC["redirect_uri"], "cookie_secret": "x" * 40}
    app = gate(auth=section | {"ward": dict(OIDC), "![x](y)": dict(OIDC)})
    labels = [button.label for button in app.button]
    assert labels == ["Log in with ward", r"Log in with \!\[x\]\(y\)"]
    assert not app.title


def test_a_login_that_cannot_be_reached_is_said_and_opens_nothing() -> None:
    app = gate(auth={"client_id": "kart", "redirect_uri": "x"})
    app.button[0].click().run()
    assert not app.exception
    assert "The login cannot be reached or is not set up in full." in texts(app)
    assert not app.title


@pytest.mark.parametrize("section", [{}, {"redirect_uri": "x"}, "text"])
def test_a_login_without_a_provider_keeps_everybody_out(section: Any) -> None:
    app = gate(auth=section)
    assert not app.title
    assert not app.button
    assert "Nobody can log in for now" in texts(app)


def test_secrets_that_cannot_be_read_keep_everybody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "secrets.toml"
    broken.write_text('[auth\nclient_id = "kart"')
    usual = streamlit.config.get_option("secrets.files")
    streamlit.config.set_option("secrets.files", [str(broken)])
    monkeypatch.setattr(streamlit, "secrets", Secrets())
    try:
        with pytest.raises(AuditError, match="cannot be read"):
            login_providers()
        broken.unlink()
        assert login_providers() == ()
    finally:
        streamlit.config.set_option("secrets.files", usual)


PAGE_NAMES = sorted({name for icons in SECTIONS.values() for name in icons})


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_no_page_and_no_link_gets_past_the_gate(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    report = make_report(2)
    keep({"masked_lm": report}, directory=results_dir())
    app = AppTest.from_file(PAGES / "ui" / "main.py", default_timeout=30)
    app.secrets["auth"] = OIDC
    app.query_params["audit"] = report.digest[:12]
    app.run()
    app.switch_page(str(PAGES / f"{page}.py")).run()
    assert not app.exception
    assert not app.title
    assert not app.selectbox
    assert not app.sidebar.get("selectbox")
    assert [button.label for button in app.button] == ["Log in"]
    assert report.digest[:12] not in texts(app)
