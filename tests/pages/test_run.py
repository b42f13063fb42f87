"""The page Run an attack through Streamlit's own tester."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from audit import demo
from audit.attack import evidence as pace
from audit.attack.question import AuditRequest, PosteriorSettings
from audit.jobs import service
from cache.store import Store
from tests.pages.screen import downloads, keys, open_page, parameter, press, texts
from tests.pages.test_setup import DEMO

ALL = {**DEMO, "names": "demo-en", "passages": "demo-en"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AuditRequest]:
    """Requests that were handed over; no job is started."""
    found: list[AuditRequest] = []

    def submit(kind: str, *, request: AuditRequest, owner: str = "") -> Any:
        assert kind == "audit"
        found.append(request)
        return SimpleNamespace(job_id="abc123")

    monkeypatch.setattr(service, "submit", submit)
    monkeypatch.setattr(service, "active_job", lambda digest: None)
    return found


def plan_of(app: AppTest) -> str:
    return texts(app).split("Plan</h2>", 1)[1]


def test_without_a_choice_the_page_names_the_missing_cards() -> None:
    app = open_page("run", scenario="2")
    shown = texts(app)
    for card in "ABCD":
        assert f"<li>Card {card}:" in shown
    assert "start" not in keys(app)
    app = open_page("run", **DEMO, names="demo-en")
    assert "<li>Card" not in texts(app)
    app = open_page("run", **DEMO, names="demo-en", scenario="2")
    assert texts(app).count("<li>Card") == 1


def test_the_plan_is_that_of_the_question_which_start_hands_over(
    asked: list[AuditRequest],
) -> None:
    app = open_page("run", **ALL)
    request = demo.DemoTask().request(2)
    plan = plan_of(app)
    assert request.audit_digest()[:12] in plan
    assert "Demo hospital, invented · 390 names" in plan
    assert "Known after the first seconds of the run" in plan
    assert "--inputs=2000" in app.code[0].value
    assert set(downloads(app)) == {"names_download", "passages_download"}
    press(app, "start")
    assert [one.question() for one in asked] == [request.question()]
    assert parameter(app, "job") == "abc123"


def test_a_change_of_settings_plans_anew(home: Path, asked: list[AuditRequest]) -> None:
    with Store(home) as store:
        for kind in ("posterior", "chain", "generation"):
            pace.note_pace(store, kind, device="cpu", dtype="float32", seconds_per_work=1e-12)
    app = open_page("run", **ALL)
    quick = plan_of(app)
    app.radio(key="run_preset").set_value("paper").run()
    paper = plan_of(app)
    assert quick != paper
    assert "10,000 inputs, and 200 of the chain rule." in paper
    assert "About" in paper
    assert parameter(app, "preset") == "paper"
    box = next(box for box in app.number_input if box.key.startswith("run_micro_batch"))
    box.set_value(8).run()
    assert "--micro-batch=8" in app.code[0].value
    device = next(box for box in app.selectbox if box.key.startswith("run_device"))
    device.select("cpu").run()
    press(app, "start")
    assert asked[0].posterior == PosteriorSettings(micro_batch=8)
    assert asked[0].device == "cpu"


def test_settings_that_no_run_can_have_say_why_and_lose_nothing(asked: list[AuditRequest]) -> None:
    app = open_page("run", **ALL, scenario="1")
    prompt = next(box for box in app.text_input if box.key.startswith("run_prompt"))
    prompt.set_value("no place for a name").run()
    assert not app.exception
    assert "prompt: has no [MASK]." in texts(app)
    assert "start" not in keys(app)
    prompt = next(box for box in app.text_input if box.key.startswith("run_prompt"))
    assert prompt.value == "no place for a name"
    prompt.set_value("[MASK] is here").run()
    assert "has no [MASK]." not in texts(app)
    press(app, "start")
    assert asked[0].generation.prompt == "[MASK] is here"


def test_an_audit_that_is_kept_is_opened_and_one_that_runs_is_shown(
    home: Path, asked: list[AuditRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = demo.DemoTask().request(2).audit_digest()
    job = SimpleNamespace(job_id="feed01")
    monkeypatch.setattr(service, "active_job", lambda of: job if of == digest else None)
    app = open_page("run", **ALL)
    assert "running or waiting already" in texts(app)
    assert "start" not in keys(app)
    with Store(home) as store:
        store.put_record(f"audit/{digest}", {})
    app = open_page("run", **ALL)
    assert "This audit has been done already" in texts(app)
    assert "start" not in keys(app)
    assert "open_answer" in keys(app)
