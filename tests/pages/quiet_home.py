"""A data directory for page tests in which workers seem to live, so that none is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from audit.home import HOME_VARIABLE, results_dir
from audit.jobs.locks import QUEUES, device_lock, worker_lock
from audit.shelf import Lock


def quiet_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Lock]]:
    """Hold the locks of all queues' workers and jobs while the test runs."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    for variable in ("KART_AUDIT_MODELS", "KART_AUDIT_NOTES"):
        monkeypatch.delenv(variable, raising=False)
    st.cache_resource.clear()
    results_dir()
    found = [*map(worker_lock, QUEUES), *map(device_lock, QUEUES)]
    held = [lock for lock in found if lock is not None]
    assert len(held) == 2 * len(QUEUES)
    yield held
    for lock in held:
        lock.release()
    st.cache_resource.clear()
