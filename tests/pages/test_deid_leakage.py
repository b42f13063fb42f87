"""The section on leakage after de-identification, drawn alone."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from audit.experiment.leakage import LEAKAGE, LeakageTask
from audit.jobs import service
from audit.jobs.table import read_order
from pages.ui import deid_leakage, language
from tests.experiment.tiny_leakage import tiny_tables
from tests.pages.screen import texts

SECTION = """
import streamlit as st
from pages.ui import language
from pages.ui.deid_leakage import draw_leakage
language.keep_pages({"jobs": st.Page(lambda: None, title="Jobs", url_path="jobs")})
draw_leakage(language.words())
"""


@pytest.fixture(autouse=True)
def _locks(monkeypatch: pytest.MonkeyPatch) -> None:
    # The section is drawn without the router, which alone knows other pages.
    monkeypatch.setattr(deid_leakage, "link", lambda *_, **__: None)
    monkeypatch.setattr(language, "link", lambda *_, **__: None)


def drawn(**query: str) -> AppTest:
    app = AppTest.from_string(SECTION, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def test_without_a_run_it_says_so_and_offers_one():
    app = drawn()
    assert "not been run here yet" in texts(app)
    app.button(key="deid_leakage_run_now").click().run()
    assert not app.exception
    (job,) = service.active_jobs()
    assert job.kind == "leakage"
    order = LeakageTask.ordered(read_order(job.job_id))
    assert (order.language, order.epochs) == ("en", 4.0)
    assert "rules" in order.taggers


@pytest.mark.parametrize(
    ("lang", "said"),
    [("en", "Name replaced everywhere"), ("ja", "氏名がすべて置き換えられた患者")],
)
def test_the_kept_tables_are_shown_in_both_languages(lang: str, said: str):
    LEAKAGE.put("0" * 12, tiny_tables().files())
    app = drawn(lang=lang)
    assert said in texts(app)
    assert len(app.get("plotly_chart")) == 1
    assert "2 / 4" in texts(app)
