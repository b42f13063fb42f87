"""In which order and on which worker tests run: browser tests first, on one worker together."""

from __future__ import annotations

from pathlib import Path

import pytest

BROWSER = Path(__file__).parent / "e2e"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by file, the browser's in one group, which mostly waits while others compute.

    With both cores busy the browser can lose an event. A browser test that fails is tried once
    more, and the summary counts that; a fault of the app fails twice.
    """
    items.sort(key=lambda item: BROWSER not in item.path.parents)
    for item in items:
        is_browser = BROWSER in item.path.parents
        item.add_marker(pytest.mark.xdist_group("browser" if is_browser else item.path.as_posix()))
        if is_browser:
            item.add_marker(pytest.mark.flaky(reruns=1))
