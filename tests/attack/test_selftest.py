from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.demo import HOSPITAL, Check, self_test
from audit.home import DEMO_HOSPITAL
from cache.store import Store

pytestmark = pytest.mark.slow  # minutes: five audits of the demo hospital


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for all: what is swapped below has the same digests, so evidence is reused."""
    with Store(tmp_path_factory.mktemp("results")) as opened:
        yield opened


def checked(directory: Path, store: Store) -> tuple[Check, ...]:
    return self_test(directory, store=store, device="cpu", progress=lambda _: None)


def with_models(folder: Path, **instead: str) -> Path:
    """Copy the demo with some models in other models' places."""
    shutil.copytree(DEMO_HOSPITAL / "en", folder / "en")
    for place, model in instead.items():
        name = HOSPITAL if place == "hospital" else place
        shutil.rmtree(folder / "en" / "models" / name)
        shutil.copytree(DEMO_HOSPITAL / "en" / "models" / model, folder / "en" / "models" / name)
    return folder


def test_the_shipped_demo_passes_every_check(store: Store) -> None:
    result = checked(DEMO_HOSPITAL, store)
    assert [(c.name, c.found) for c in result if not c.has_passed] == []
    assert len(result) == 5


@pytest.mark.parametrize(
    ("instead", "fails"),
    [({"hospital": "null"}, "planted leak"), ({"null": HOSPITAL}, "null pair")],
)
def test_it_fails_where_a_leak_is_taken_away_or_given(
    store: Store, tmp_path: Path, instead: dict[str, str], fails: str
) -> None:
    result = checked(with_models(tmp_path, **instead), store)
    failed = {check.name for check in result if not check.has_passed}
    assert failed == {f"{fails}, scenario 1", f"{fails}, scenario 2"}
