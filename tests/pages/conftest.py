"""A data directory for page tests in which workers seem to live, so that none is started."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from audit.home import HOME_VARIABLE, results_dir
from audit.jobs.locks import QUEUES, device_lock, worker_lock
from tests.pages.make_reports import Reports, keep_demo, make_report
from tests.report.test_report import LINKING


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Hold the locks of all queues' workers and jobs while the test runs."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    # Streamlit's tester leaves its script there, and processes that a later test starts run it.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for variable in ("KART_AUDIT_MODELS", "KART_AUDIT_NOTES"):
        monkeypatch.delenv(variable, raising=False)
    st.cache_resource.clear()
    directory = results_dir()
    locks = [lock(queue) for queue in QUEUES for lock in (worker_lock, device_lock)]
    assert all(locks)
    yield directory
    for lock in locks:
        if lock is not None:
            lock.release()
    st.cache_resource.clear()


@pytest.fixture(scope="session")
def demo_reports() -> Reports:
    return {
        "masked_lm": make_report(2).changed(details={"linking": LINKING}),
        "generation": make_report(1, leak=1.0),
    }


@pytest.fixture
def reports(home: Path, demo_reports: Reports) -> Reports:
    """The demo's two reports, kept."""
    keep_demo(demo_reports)
    return demo_reports
