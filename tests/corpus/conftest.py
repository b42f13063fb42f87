"""Corpora of tests are kept in a data directory of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.home import HOME_VARIABLE


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
