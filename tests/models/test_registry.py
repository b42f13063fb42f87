from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.home import registered_folders
from audit.models.registry import (
    VARIABLE,
    find_model,
    list_models,
    model_path,
)
from tests.models.editing import edit_json
from tests.models.make_models import make_bert


def listed(model_id: str) -> Path:
    found = find_model(model_id, among=list_models())
    assert found is not None
    return found.path


def folders() -> tuple[tuple[str, Path], ...]:
    return registered_folders(VARIABLE, taken="trained", unnamed="models")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two registered folders of one name, a refused model, a nested one, and one outside."""
    root = tmp_path_factory.mktemp("registry")
    bert = make_bert(root / "a" / "models" / "bert")
    shutil.copytree(bert, root / "a" / "models" / "nested" / "deep" / "bert")
    shutil.copytree(bert, root / "b" / "models" / "病院")
    shutil.copytree(bert, root / "outside" / "secret")
    shutil.copytree(bert, root / "a" / "models" / ".hidden")
    broken = Path(shutil.copytree(bert, root / "b" / "models" / "broken"))
    (broken / "model.safetensors").unlink()
    (root / "a" / "models" / "link").symlink_to(root / "outside")
    return root


@pytest.fixture(autouse=True)
def _registered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = (root / "a" / "models", root / "missing", root / "b" / "models", root / "a" / "models")
    monkeypatch.setenv(VARIABLE, os.pathsep.join(str(path) for path in paths))


def test_folders_of_one_name_are_numbered() -> None:
    assert [label for label, _ in folders()] == ["models", "models-2"]


def test_label_that_looks_numbered_is_not_given_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "models-2", tmp_path / "x" / "models", tmp_path / "y" / "models"]
    for path in paths:
        path.mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, os.pathsep.join(map(str, paths)))
    assert [label for label, _ in folders()] == ["models-2", "models", "models-3"]


def test_nothing_is_registered_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert folders() == ()
    assert list_models() == ()
    assert find_model("models/bert", among=list_models()) is None


def test_list_holds_good_and_refused_models() -> None:
    models = {model.model_id: model for model in list_models()}
    assert list(models) == [
        "models/bert",
        "models/nested/deep/bert",
        "models-2/broken",
        "models-2/病院",
    ]
    broken = models.pop("models-2/broken")
    assert broken.summary is None
    assert "There are no weights" in broken.refusal
    for model in models.values():
        assert model.summary is not None
        assert (model.summary.architecture, model.refusal) == ("bert", "")


def test_every_listed_identifier_leads_to_its_directory() -> None:
    for model in list_models():
        assert listed(model.model_id) == model.path


def test_registered_folder_may_be_a_model_itself(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(root / "a" / "models" / "bert"))
    assert [model.model_id for model in list_models()] == ["bert"]
    assert listed("bert") == root / "a" / "models" / "bert"


def test_one_bad_folder_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bert = make_bert(tmp_path / "models" / "good")
    names = ["endless", "digits", b"\xff".decode("utf-8", "surrogateescape")]
    endless, digits, _ = (shutil.copytree(bert, tmp_path / "models" / name) for name in names)
    edit_json(endless, "config.json", layer_norm_eps=10**400)
    edit_json(digits, "tokenizer_config.json", added_tokens_decoder={"1" * 5000: {}})
    monkeypatch.setenv(VARIABLE, os.pathsep.join(("~nobody-of-this-name/x", str(bert.parent))))
    found = {model.model_id: model for model in list_models()}
    assert list(found) == ["models/digits", "models/endless", "models/good", "models/\\udcff"]
    assert [model.refusal == "" for model in found.values()] == [False, False, True, True]
    for model_id, model in found.items():
        assert listed(model_id) == model.path
        (model_id + model.refusal + (model.summary.name if model.summary else "")).encode()


HOSTILE_IDS = (
    "", "/", ".", "..", "models", "models/", "models//bert", "/models/bert", "models/bert/",
    "models/../models/bert", "models/./bert", "../outside/secret", "models/../../outside/secret",
    "models/link/secret", "models/.hidden", "models/bert\x00", "models/bert/../../../outside",
    "models\\bert", "MODELS/BERT", "models/%2e%2e/outside", "models/bert/config.json", "~",
    "bert-base-uncased", "google-bert/bert-base-uncased", "models-1/bert", "models-3/bert",
    "file:///etc", "models/\udcff", "models/" + "a/" * 10_000, "models-2/病院 ", "models/*",
)  # fmt: skip


@pytest.mark.parametrize("model_id", HOSTILE_IDS, ids=range(len(HOSTILE_IDS)))
def test_hostile_identifier_is_refused(model_id: str) -> None:
    assert find_model(model_id, among=list_models()) is None


def test_absolute_path_is_no_identifier(root: Path) -> None:
    assert find_model(str(root / "a" / "models" / "bert"), among=list_models()) is None


@given(text=st.text(alphabet="models/.bert-2~\x00\\ ", max_size=20))
@settings(max_examples=100, deadline=None)
def test_only_listed_identifiers_resolve(text: str) -> None:
    listed = {"models/bert", "models/nested/deep/bert", "models-2/broken", "models-2/病院"}
    assert (find_model(text, among=list_models()) is not None) == (text in listed)


def test_free_path_is_taken_from_the_command_line(root: Path) -> None:
    outside = root / "outside" / "secret"
    assert model_path(str(outside)) == outside
    assert model_path(str(root / "a" / ".." / "outside" / "secret")) == outside


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a path"),
        ("a\x00b", "not a path"),
        ("x" * 5_000, "not a path"),
        ("google-bert/bert-base-uncased", "nothing is downloaded"),
        ("/etc/passwd", "not a directory"),
        ("~nobody-of-this-name/x", "followed"),
        ("x" * 300, "There is no such directory|followed"),
    ],
)
def test_bad_free_path_is_refused(text: str, says: str) -> None:
    with pytest.raises(AuditError, match=says):
        model_path(text)
