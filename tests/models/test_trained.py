"""Models that were trained here: found, named by their title, and never by a link."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from audit.home import HOME_VARIABLE, data_home, registered_folders
from audit.models.inspect import inspect_model, trained_dir, trained_name
from audit.models.registry import VARIABLE, find_model, list_models
from tests.models.make_models import make_bert

RUN = "0123456789ab"


def listed(model_id: str) -> Path:
    found = find_model(model_id, among=list_models())
    assert found is not None
    return found.path


def folders() -> tuple[tuple[str, Path], ...]:
    return registered_folders(VARIABLE, taken="trained", unnamed="models")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of trained models, with one in it."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = data_home() / "models"
    make_bert(folder / RUN / "model")
    say(folder / RUN, title="Ward 3,\nfive epochs")
    return folder


def say(run: Path, **plain: object) -> None:
    (run / "training.json").write_text(json.dumps(plain), encoding="utf-8")


def test_a_trained_model_is_listed_with_its_title(models: Path) -> None:
    (model,) = list_models()
    assert (model.model_id, model.title) == (f"trained/{RUN}", "Ward 3, five epochs")
    assert model.refusal == ""
    assert listed(f"trained/{RUN}") == models / RUN / "model"
    assert inspect_model(model.path).name == "Ward 3, five epochs"


def test_registered_folders_follow_and_cannot_take_its_label(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "trained"
    make_bert(other / RUN)
    monkeypatch.setenv(VARIABLE, str(other))
    assert [label for label, _ in folders()] == ["trained-2"]
    assert [m.model_id for m in list_models()] == [f"trained/{RUN}", f"trained-2/{RUN}"]
    assert list_models()[1].title == ""


def test_half_trained_and_linked_models_are_not_listed(models: Path, tmp_path: Path) -> None:
    (models / "unfinished").mkdir()
    say(models / "unfinished", title="not yet")
    outside = make_bert(tmp_path / "outside" / "model")
    (models / "linked-run").symlink_to(outside.parent)
    (models / "linked").mkdir()
    (models / "linked" / "model").symlink_to(outside)
    assert [model.model_id for model in list_models()] == [f"trained/{RUN}"]
    assert find_model("trained/linked", among=list_models()) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"title": 3}', '{"title": " "}', "[" * 100_000])
def test_without_a_readable_title_the_run_gives_the_name(models: Path, text: str) -> None:
    (models / RUN / "training.json").write_text(text)
    assert trained_name(models / RUN / "model") == RUN


def test_a_copy_kept_on_the_way_is_told_apart_and_others_have_no_such_name(models: Path) -> None:
    shutil.copytree(models / RUN / "model", models / RUN / "model-500")
    assert trained_name(models / RUN / "model-500") == "Ward 3, five epochs (model-500)"
    assert trained_name(models / RUN / "checkpoint") == ""
    (models / RUN / "training.json").unlink()
    assert trained_name(models / RUN / "model") == ""


def test_nothing_is_listed_without_a_data_directory(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, "relative")
    assert trained_dir() is None
    assert list_models() == ()
