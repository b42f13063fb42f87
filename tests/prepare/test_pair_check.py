"""The choice of a pair: the same refusal as the loader's, without reading a weight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.models import load
from audit.models.inspect import model_digest
from audit.models.load import load_model
from audit.models.registry import (
    VARIABLE,
    check_pair,
    find_model,
    is_quick,
    known_digest,
    model_choices,
    tokenizer,
)
from audit.models.tokenizer import tokenizer_differences
from tests.models.make_models import WORDS, make_bert, make_roberta

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_pair_that_fits_has_its_differences_told(tmp_path: Path) -> None:
    one = make_bert(tmp_path / "general")
    other = make_bert(tmp_path / "hospital", seed=1, n_layers=3, dropout=0.2)
    found = check_pair(one, other)
    assert found.refusal == ""
    assert not found.is_one_directory
    different = {trait.code: (trait.general, trait.hospital) for trait in found.traits
                 if trait.is_different}  # fmt: skip
    assert different["n_layers"] == (2, 3)
    assert different["hidden_dropout"] == (0.1, 0.2)
    assert "vocab_size" not in different
    assert check_pair(one, one).is_one_directory


@pytest.mark.parametrize("what", ["words", "case", "kind"])
def test_a_pair_is_refused_in_the_loaders_own_words(tmp_path: Path, what: str) -> None:
    one = make_bert(tmp_path / "general")
    if what == "words":
        other = make_bert(tmp_path / "hospital", words=(*WORDS[1:], WORDS[0]))
    elif what == "case":
        other = make_bert(tmp_path / "hospital", lower_case=False)
    else:
        other = make_roberta(tmp_path / "hospital")
    with pytest.raises(AuditError) as refused:
        load.load_pair(one, other)
    assert check_pair(one, other).refusal == str(refused.value)
    differences = tokenizer_differences(load_model(one).tokenizer, load_model(other).tokenizer)
    assert differences
    assert tokenizer_differences(tokenizer(one), tokenizer(other)) == differences


def test_a_digest_is_remembered_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_bert(tmp_path / "model")
    n_calls = 0

    def counted(of: Path) -> str:
        nonlocal n_calls
        n_calls += 1
        return model_digest(of)

    monkeypatch.setattr("audit.models.registry.model_digest", counted)
    monkeypatch.setattr("audit.models.registry.QUICK_BYTES", 0)
    assert not is_quick(path)
    assert known_digest(path) == known_digest(path) == model_digest(path)
    assert (n_calls, is_quick(path)) == (1, True)
    before = (path / "config.json").stat()
    os.utime(path / "config.json", ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    assert not is_quick(path)
    assert known_digest(path) == model_digest(path)
    assert n_calls == 2


def test_registered_models_come_before_the_demos_and_refused_ones_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_bert(tmp_path / "models" / "good")
    (tmp_path / "models" / "bad").mkdir()
    (tmp_path / "models" / "bad" / "config.json").write_text('{"model_type": "gpt2"}')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models"))
    found = model_choices()
    assert [model.model_id for model in found[:3]] == [
        "models/bad", "models/good", "demo:en/general",
    ]  # fmt: skip
    assert found[0].refusal
    good = find_model("models/good", among=found)
    assert good is not None
    assert good.path == tmp_path / "models" / "good"
    assert find_model("../good", among=found) is None
    demo = [model for model in found if model.model_id.startswith("demo:")]
    assert len(demo) >= 7
    assert not any(model.refusal for model in demo)


def test_a_folder_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="cannot be read"):
        known_digest(tmp_path / "gone")


def test_comparing_and_spelling_need_no_torch() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from audit.models.registry import check_pair, model_choices\n"
        "from pages.ui.setup_facts import spelling\n"
        "from audit.names.lists import kept_names\n"
        "paths = [m.path for m in model_choices() if m.model_id.startswith('demo:en')]\n"
        "names = kept_names('demo-en', store=None).candidates\n"
        "print(check_pair(*paths[:2]).refusal == '', spelling(names, model=paths[0]).n_pieces[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert done.stdout.split()[0] == "True"
    assert int(done.stdout.split()[1]) > 0
