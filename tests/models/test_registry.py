"""The list of models: what stands in it, what leads nowhere, and the choice of a pair."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.home import list_registered_folders
from audit.models.inspect import compute_model_digest
from audit.models.load import load_pair
from audit.models.registry import (
    VARIABLE,
    check_pair,
    find_model,
    list_model_choices,
    list_models,
    look_up_digest,
    resolve_model_path,
)
from tests.models.editing import edit_json
from tests.models.make_models import make_bert, make_roberta

LISTED = ("models/bert", "models/nested/deep/bert", "models-2/broken", "models-2/病院")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two registered folders of one name, a refused model, a nested one, and one outside."""
    root = tmp_path_factory.mktemp("registry")
    bert = make_bert(root / "a" / "models" / "bert")
    for place in (
        "a/models/nested/deep/bert",
        "b/models/病院",
        "outside/secret",
        "a/models/.hidden",
        "a/models/1/2/3/4/5",
        "b/models/broken",
    ):
        shutil.copytree(bert, root / place)
    (root / "b" / "models" / "broken" / "model.safetensors").unlink()
    (root / "a" / "models" / "link").symlink_to(root / "outside")
    return root


@pytest.fixture(autouse=True)
def _registered(root, monkeypatch):
    paths = (root / "a" / "models", root / "missing", root / "b" / "models", root / "a" / "models")
    monkeypatch.setenv(VARIABLE, os.pathsep.join(map(str, paths)))


def test_every_model_is_listed_once_under_its_own_label(root, tmp_path, monkeypatch):
    models = {model.model_id: model for model in list_models()}
    assert tuple(models) == LISTED
    assert {i: (m.path, m.summary is None, m.refusal[:45]) for i, m in models.items()} == {
        LISTED[0]: (root / "a/models/bert", False, ""),
        LISTED[1]: (root / "a/models/nested/deep/bert", False, ""),
        LISTED[2]: (
            root / "b/models/broken",
            True,
            "broken: The directory holds no model weights.",
        ),
        LISTED[3]: (root / "b/models/病院", False, ""),
    }
    listed = tuple(models.values())
    demo = list_model_choices()[len(listed) :]
    assert list_model_choices()[: len(listed)] == listed and demo[0].model_id == "demo:en/general"
    assert len(demo) >= 14 and not any(model.refusal for model in demo)
    causal_names = [
        model_id.rpartition("/")[2]
        for model_id in (model.model_id for model in demo)
        if model_id.startswith("demo:en/causal/")
    ]
    assert causal_names == [
        "general",
        *(f"hospital-{n}" for n in (1.6, 5, 20)),
        *(f"adapter-{n}" for n in (5, 20)),
        "null",
    ]
    adapter_ids = {model.model_id for model in demo if model.adapter}
    assert adapter_ids == {f"demo:en/causal/adapter-{n}" for n in (5, 20)}
    for model_id in (*LISTED, "", "models/../models/bert", "models/link/secret", str(root)):
        assert find_model(model_id, models=listed) is models.get(model_id)
    paths = [tmp_path / "models-2", tmp_path / "x" / "models", tmp_path / "y" / "models"]
    for path in paths:
        path.mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, os.pathsep.join(map(str, paths)))
    folders = list_registered_folders(VARIABLE, reserved=("trained",), unnamed="models")
    assert [label for label, _ in folders] == ["models-2", "models", "models-3"]
    monkeypatch.delenv(VARIABLE)
    assert list_models() == ()


def test_a_folder_that_no_reader_expected_does_not_stop_the_list(tmp_path, monkeypatch):
    bert = make_bert(tmp_path / "models" / "good")
    for name in ("endless", "digits", os.fsdecode(b"\xff")):
        shutil.copytree(bert, bert.parent / name)
    edit_json(bert.parent / "endless", "config.json", layer_norm_eps=10**400)
    edit_json(
        bert.parent / "digits", "tokenizer_config.json", added_tokens_decoder={"1" * 5000: {}}
    )
    monkeypatch.setenv(VARIABLE, os.pathsep.join(("~nobody-of-this-name/x", str(bert.parent))))
    models_by_id = {model.model_id: model for model in list_models()}
    assert list(models_by_id) == [
        "models/digits",
        "models/endless",
        "models/good",
        "models/\\udcff",
    ]
    assert [model.refusal == "" for model in models_by_id.values()] == [False, False, True, True]
    for model_id, model in models_by_id.items():
        (model_id + model.refusal + (model.summary.name if model.summary else "")).encode()


@pytest.mark.parametrize("text", ["", "a\x00b", "google-bert/bert", "~nobody-of-this-name/x"])
def test_a_path_of_the_command_line_is_followed_or_refused(text, root):
    with pytest.raises(AuditError, match=r"^model: There is no such directory\. Name a directory"):
        resolve_model_path(text)
    outside = root / "outside" / "secret"
    assert resolve_model_path(str(root / "a" / ".." / "outside" / "secret")) == outside


def test_the_differences_of_a_pair_are_told(tmp_path):
    general = make_bert(tmp_path / "general")
    hospital = make_bert(tmp_path / "hospital", seed=1, n_layers=3, dropout=0.2)
    check = check_pair(general, hospital)
    n_layer = sum(shape for shape in (4 * (16 * 16 + 16), 2 * 2 * 16, 2 * 16 * 32 + 32 + 16))
    n = check_pair(general, general).traits["n_parameters"][0]
    assert check.traits == {
        "architecture": ("bert", "bert"),
        "n_layers": (2, 3),
        "hidden_size": (16, 16),
        "vocab_size": (37, 37),
        "n_parameters": (n, n + n_layer),
        "n_positions": (64, 64),
        "tokenizer": ("BertTokenizer",) * 2,
        "n_heads": (2, 2),
        "hidden_dropout": (0.1, 0.2),
        "attention_dropout": (0.1, 0.2),
    }
    assert check.refusal == ""
    hospital = make_roberta(tmp_path / "other")
    with pytest.raises(AuditError) as refused:
        load_pair(general, hospital)
    assert check_pair(general, hospital).refusal == str(refused.value)


def test_a_digest_is_remembered_until_a_file_changes(tmp_path, monkeypatch):
    path = make_bert(tmp_path / "model")
    calls = []
    monkeypatch.setattr(
        "audit.models.registry.compute_model_digest",
        lambda of: calls.append(of) or compute_model_digest(of),
    )
    assert look_up_digest(path) == look_up_digest(path) == compute_model_digest(path)
    assert len(calls) == 1
    old_stat = (path / "config.json").stat()
    os.utime(path / "config.json", ns=(old_stat.st_atime_ns, old_stat.st_mtime_ns + 1_000_000))
    assert (look_up_digest(path), len(calls)) == (compute_model_digest(path), 2)
    with pytest.raises(AuditError, match="cannot be read any more"):
        look_up_digest(tmp_path / "gone")


@pytest.mark.long
def test_comparing_spelling_and_drawing_build_no_tokenizer_here():
    script = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['transformers'] = sys.modules['tokenizers'] = None\n"
        "from audit.models.registry import check_pair, list_model_choices\n"
        "from audit.names.facts import spelling\n"
        "from audit.names.lists import load_names, make_draft\n"
        "paths = [m.path for m in list_model_choices() if m.model_id.startswith('demo:en')]\n"
        "names = load_names('demo-en', store=None).candidates\n"
        "print(check_pair(*paths[:2]).refusal == '', spelling(names, model=paths[0]).n_pieces[0])\n"
        "n_by_kind = {'easy': 5, 'hard': 5, 'recombined': 2}\n"
        "print(len(make_draft(None, base=names, n_by_kind=n_by_kind, model=paths[0]).candidates)"
        " - len(names))\n"
    )
    repository = Path(__file__).resolve().parents[2]
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(repository)},
    )
    is_alike, n_pieces, n_drawn = process.stdout.split()
    assert (is_alike, n_drawn) == ("True", "12") and int(n_pieces) > 0
