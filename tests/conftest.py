"""What holds for all tests: a browser test that fails is tried once more."""

from __future__ import annotations

from pathlib import Path

import pytest

BROWSER = Path(__file__).parent / "e2e"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let browser tests be tried twice; the summary counts it.

    With both cores busy the browser can lose an event. A fault of the app fails twice.
    """
    for item in items:
        if BROWSER in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))
