"""The login: nothing is drawn before it, whatever the page; broken settings keep it shut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import streamlit
from streamlit.runtime.secrets import Secrets
from streamlit.testing.v1 import AppTest

from audit.errors import AuditError
from pages.ui.access import login_providers
from tests.pages.make_reports import Reports
from tests.pages.screen import REPOSITORY, texts
from tests.pages.test_every_page import PAGES

OIDC = {
    "redirect_uri": "http://127.0.0.1:8501/oauth2callback",
    "cookie_secret": "x" * 40,
    "client_id": "kart",
    "client_secret": "y",
    "server_metadata_url": "https://idp.example/.well-known/openid-configuration",
}
SEVERAL = {"redirect_uri": OIDC["redirect_uri"], "ward": OIDC, "![x](y)": OIDC}


def gate(section: Any, *, page: str = "", **query: str) -> AppTest:
    """Open the app with these settings of a login; nothing behind it may be drawn."""
    app = AppTest.from_file(REPOSITORY / "pages" / "ui" / "main.py", default_timeout=30)
    app.secrets["auth"] = section
    app.query_params.update(query)
    app.run()
    if page:
        app.switch_page(f"../{page}.py").run()
    assert not app.exception
    assert not app.title and not app.get("selectbox") and not app.get("page_link")
    return app


@pytest.mark.parametrize(
    ("section", "labels", "said"),
    [
        (OIDC, ["Log in"], "Please log in"),
        (SEVERAL, ["Log in with ward", r"Log in with \!\[x\]\(y\)"], "Please log in"),
        ({}, [], "Nobody can log in for now"),
        ({"redirect_uri": "x"}, [], "Nobody can log in for now"),
        ("text", [], "Nobody can log in for now"),
    ],
)
def test_only_the_way_to_the_login_is_shown(section: Any, labels: list[str], said: str) -> None:
    app = gate(section)
    assert [button.label for button in app.button] == labels
    assert said in texts(app)


@pytest.mark.parametrize("page", PAGES)
def test_no_page_and_no_link_gets_past_the_gate(reports: Reports, page: str) -> None:
    report = reports["masked_lm"]
    app = gate(OIDC, page=page, audit=report.digest[:12])
    assert [button.label for button in app.button] == ["Log in"]
    assert report.digest[:12] not in texts(app)


def test_a_login_that_cannot_be_reached_is_said_and_opens_nothing() -> None:
    app = gate({"client_id": "kart", "redirect_uri": "x"})
    app.button[0].click().run()
    assert not app.exception and not app.title
    assert "The login cannot be reached or is not set up in full." in texts(app)


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
