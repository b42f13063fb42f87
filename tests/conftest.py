"""What holds for all tests: a browser test that fails is tried once more; properties are steady."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from audit.home import HOME_VARIABLE, data_home

# A busy machine may take long over one example, and a run says the same twice. New examples are
# looked for with HYPOTHESIS_PROFILE=explore.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session", autouse=True)
def _home_of_its_own(tmp_path_factory):
    """Keep the data of whoever runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(tmp_path_factory.mktemp("home") / "home"))
        yield


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give a test a data directory of its own."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return data_home()


BROWSER = Path(__file__).parent / "e2e"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let browser tests be tried twice; the summary counts it.

    With both cores busy the browser can lose an event. A fault of the app fails twice. Without
    second tries: `-p no:rerunfailures`.
    """
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return
    for item in items:
        if BROWSER in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))
