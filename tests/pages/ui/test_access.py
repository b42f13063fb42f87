"""The login and the roles: nothing is drawn before a login, whatever the page; a reader looks.

Broken settings keep it shut; names stay masked for a reader, and what changes anything is refused
whatever a page has drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import streamlit
from streamlit.runtime.secrets import Secrets
from streamlit.testing.v1 import AppTest

from audit import access_log
from audit.errors import AuditError
from audit.home import results_dir
from audit.report.decision import decide, read_decision
from audit.report.report import kept_audit
from cache.store import Store
from pages.ui import access
from pages.ui.access import login_providers
from pages.ui.main import HIDDEN, PAGES
from pages.ui.state import words_of
from tests.pages.make_reports import MEMBERS, Reports
from tests.pages.screen import REPOSITORY, keys, texts

SAY = words_of("en")
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
    ("section", "labels", "sentence"),
    [
        (OIDC, ["Log in"], "Please log in"),
        (SEVERAL, ["Log in with ward", r"Log in with \!\[x\]\(y\)"], "Please log in"),
        ({}, [], "Nobody can log in for now"),
        ({"redirect_uri": "x"}, [], "Nobody can log in for now"),
        ("text", [], "Nobody can log in for now"),
    ],
)
def test_only_the_way_to_the_login_is_shown(section: Any, labels: list[str], sentence: str) -> None:
    app = gate(section)
    assert [button.label for button in app.button] == labels
    assert sentence in texts(app)


@pytest.mark.parametrize("page", (*PAGES, *HIDDEN))
def test_no_page_and_no_link_gets_past_the_gate(reports: Reports, page: str) -> None:
    report = reports["masked_lm"]
    app = gate(OIDC, page=page, audit=report.digest[:12])
    assert [button.label for button in app.button] == ["Log in"]
    assert report.digest[:12] not in texts(app)


def test_a_login_that_cannot_be_reached_is_said_and_opens_nothing() -> None:
    app = gate({"client_id": "kart", "redirect_uri": "x"})
    app.button[0].click().run()
    assert not app.exception and not app.title
    assert "The login cannot be reached or is not fully set up." in texts(app)


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


ANNA, BERT, ROSE = "anna@h.example", "bert@h.example", "rose@h.example"
ROLES = {"auditor": [ANNA, BERT.upper()], "reader": [ROSE]}


def user(app: AppTest, mail: str, *, roles: Any = ROLES, **claims: Any) -> AppTest:
    """Log somebody in."""
    app.secrets["auth"] = OIDC
    if roles is not None:
        app.secrets["roles"] = roles
    app.user = {"is_logged_in": True, "email": mail, **claims}
    app.run()
    assert not app.exception
    return app


def opened(mail: str, **login: Any) -> AppTest:
    app = AppTest.from_file(REPOSITORY / "pages" / "ui" / "main.py", default_timeout=60)
    return user(app, mail, **login)


@pytest.mark.parametrize(
    ("mail", "login", "role"),
    [
        (ANNA, {}, "auditor"),
        (BERT, {}, "auditor"),
        (ROSE, {}, "reader"),
        ("eve@h.example", {}, ""),
        ("", {}, ""),
        ("eve@h.example", {"roles": {"auditor": [ANNA], "reader": "*"}}, "reader"),
        ("eve@h.example", {"roles": None}, "auditor"),
        (ANNA, {"email_verified": False}, ""),
        (ANNA, {"roles": {}}, ""),
    ],
)
def test_who_is_listed_gets_in_as_what_is_listed(
    reports: Reports, mail: str, login: Any, role: str
) -> None:
    app = opened(mail, **login)
    assert bool(app.title) is bool(role)
    assert ("reveal_now" in keys(app)) is (role == "auditor")
    assert (SAY.text("role_none_title") in texts(app)) is not bool(role)
    assert (SAY.text("role_reader") in texts(app)) is (role == "reader")
    assert "logout" in keys(app)


@pytest.mark.parametrize("roles", ["*", {"auditor": ANNA}, {"auditor": [1]}, {"reader": 7}])
def test_roles_that_cannot_be_read_keep_everybody_out(reports: Reports, roles: Any) -> None:
    app = opened(ANNA, roles=roles)
    assert not app.title and SAY.text("login_broken") in texts(app)


@pytest.mark.parametrize("page", (*PAGES, *HIDDEN))
def test_every_page_is_whole_for_a_reader_and_shows_no_name(reports: Reports, page: str) -> None:
    app = opened(ROSE)
    app.session_state["is_revealed"] = True
    app.switch_page(f"../{page}.py").run()
    assert not app.exception and app.title
    page_text = texts(app) + "".join(str(frame.value) for frame in app.dataframe)
    assert not any(part in page_text for member in MEMBERS for part in member)


def tries() -> None:
    """Do, on a page, what its session says, past every button."""
    import streamlit as st

    from audit.corpus.corpora import CORPORA
    from audit.demo import DemoTask
    from audit.errors import AuditError
    from audit.home import results_dir
    from audit.jobs import service
    from audit.report.decision import read_decision
    from cache.store import Store
    from pages.ui import access, cached

    pair = [
        audit for audit in cached.kept_audits()[0] if audit.digest == st.session_state["digest"]
    ]
    decision = read_decision([st.session_state["digest"]], store=Store(results_dir()))
    doing = {
        "ask": lambda: service.ask(DemoTask().question()),
        "cancel": lambda: service.cancel("a" * 12),
        "forget": lambda: service.forget("a" * 12),
        "keep": lambda: Store(results_dir()).put_record("list/x", 1),
        "shelve": lambda: CORPORA.keep_files("a" * 12, {}),
        "remove": lambda: CORPORA.forget("a" * 12),
        "decide": lambda: access.decide(
            decision,
            pair=pair,
            recommendation="release",
            reasons="It stays on a closed ward.",
            language="en",
        ),
        "sign": lambda: access.sign(decision, pair=pair, role="officer", name="Somebody Else"),
        "withdraw": lambda: access.withdraw(decision, pair=pair, name="bert@h.example"),
        "full": lambda: access.logged_export(lambda: b"names", names="full")(),
        "list": lambda: access.logged_export(lambda: b"names", what="names")(),
        "masked": lambda: access.logged_export(lambda: b"S. W.", names="masked")(),
        "note": lambda: access.log_action("ran", kind="tagging"),
        "reveal": lambda: access.log_action("revealed", reason="check"),
    }
    st.title("tried")
    try:
        doing[st.session_state["do"]]()
        st.session_state["done"] = True
    except AuditError as error:
        st.session_state["why"] = str(error)


def tried(action: str, mail: str, digest: str) -> tuple[bool, str]:
    """Try something as somebody; return whether it was done, and why not."""
    app = AppTest.from_function(tries, default_timeout=60)
    app.session_state["do"], app.session_state["digest"] = action, digest
    user(app, mail)
    state = app.session_state
    return "done" in state, state["why"] if "why" in state else texts(app)


@pytest.mark.parametrize(
    "action",
    [
        "ask",
        "cancel",
        "forget",
        "keep",
        "shelve",
        "remove",
        "decide",
        "sign",
        "full",
        "list",
        "note",
        "reveal",
    ],
)
def test_what_a_reader_may_not_is_refused_by_the_server_and_leaves_no_line(
    reports: Reports, action: str
) -> None:
    digest, store = reports["masked_lm"].digest, Store(results_dir())
    decide(
        read_decision([digest], store=store),
        pair=[kept_audit(reports["masked_lm"])],
        recommendation="retrain",
        reasons="",
        language="en",
        by=ANNA,
        store=store,
    )
    first_state = read_decision([digest], store=store), store.keys(), access_log.entries()
    is_done, why = tried(action, ROSE, digest)
    assert not is_done and "nly an auditor may" in why
    assert (read_decision([digest], store=store), store.keys(), access_log.entries()) == first_state


def test_a_reader_takes_what_is_masked_with_a_line_of_the_log(reports: Reports) -> None:
    assert tried("masked", ROSE, reports["masked_lm"].digest)[0]
    (line,) = access_log.entries()
    assert (line.who, line.action, dict(line.counts)) == (ROSE, "exported", {"names": "masked"})


def test_a_reader_checks_a_report_and_uploads_nothing_else(reports: Reports) -> None:
    app = opened(ROSE)
    app.switch_page("../check.py").run()
    app.file_uploader[0].set_value([("report.json", b"{}", "text/plain")]).run()
    assert not app.exception
    assert texts(app).count(SAY.text("role_reader")) == 1  # in the sidebar, in place of a switch
    assert SAY.text("check_findings") in texts(app)
    actions = [(line.who, line.action) for line in access_log.entries()]
    assert actions[0] == (ROSE, "checked") and (ROSE, "uploaded") not in actions


def test_one_run_of_a_page_reads_the_secrets_twice_and_notices_a_new_role(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_reads = [0]
    read_secrets = access._secrets

    def count_reads() -> dict[str, Any]:
        n_reads[0] += 1
        return read_secrets()

    monkeypatch.setattr(access, "_secrets", count_reads)
    app = opened(ROSE)
    assert n_reads[0] == 2  # for the login and for the role
    assert SAY.text("role_reader") in texts(app)
    app.secrets["roles"] = {"auditor": [ROSE]}
    assert SAY.text("role_reader") not in texts(app.run())


def test_two_auditors_sign_by_their_logins_and_nobody_takes_back_anothers(
    reports: Reports,
) -> None:
    digest, store = reports["masked_lm"].digest, Store(results_dir())
    assert tried("decide", ANNA, digest)[0]
    assert tried("sign", ANNA, digest)[0]
    assert not read_decision([digest], store=store).is_signed
    assert "signed already" in tried("sign", ANNA, digest)[1]
    assert tried("sign", BERT, digest)[0]
    decision = read_decision([digest], store=store)
    assert decision.is_signed and [signature.name for signature in decision.signatures] == [
        ANNA,
        BERT,
    ]
    assert "Only the person who signed" in tried("withdraw", ANNA, digest)[1]
    assert tried("withdraw", BERT, digest)[0]
    assert not read_decision([digest], store=store).is_signed
