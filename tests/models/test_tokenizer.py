from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.models.load import load_model
from tests.models.editing import edit_json
from tests.models.make_models import make_bert, make_japanese_bert, make_roberta

SENTENCE = "The patient John Smiths was seen."


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("good") / "model")


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


def test_japanese_words_are_split_by_mecab(tmp_path: Path) -> None:
    for dictionary in ("unidic_lite", "ipadic"):
        loaded = load_model(make_japanese_bert(tmp_path / dictionary, dictionary=dictionary))
        tokens = loaded.tokenizer.tokenize("患者山田花子は受診した。")
        assert tokens == ["患者", "山田", "花子", "は", "受診", "し", "た", "。"]


def test_fast_tokenizer_is_loaded_without_its_vocabulary_file(copy: Path) -> None:
    slow = load_model(copy)
    slow.tokenizer.save_pretrained(copy)
    (copy / "vocab.txt").unlink()
    fast = load_model(copy)
    assert fast.tokenizer.get_vocab() == slow.tokenizer.get_vocab()
    assert fast.tokenizer(SENTENCE)["input_ids"] == slow.tokenizer(SENTENCE)["input_ids"]
    assert fast.notes == ()
    edit_json(copy, "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    plain = load_model(copy)
    assert plain.tokenizer(SENTENCE)["input_ids"] == slow.tokenizer(SENTENCE)["input_ids"]


def test_contradicting_settings_of_capitals_are_noted(copy: Path) -> None:
    load_model(copy).tokenizer.save_pretrained(copy)
    edit_json(copy, "tokenizer_config.json", do_lower_case=False)
    assert "treat capitals" in load_model(copy).notes[0]


def test_vocabulary_with_capitals_and_no_setting_is_noted(copy: Path) -> None:
    (copy / "tokenizer_config.json").unlink()
    assert load_model(copy).notes == ()
    text = (copy / "vocab.txt").read_text().replace("john", "John").replace("mary", "Mary")
    (copy / "vocab.txt").write_text(text)
    assert "2 entries of the vocabulary with capitals" in load_model(copy).notes[0]


def test_windows_line_ends_in_a_vocabulary_are_read(copy: Path) -> None:
    before = load_model(copy)
    (copy / "vocab.txt").write_bytes((copy / "vocab.txt").read_bytes().replace(b"\n", b"\r\n"))
    assert load_model(copy).tokenizer.get_vocab() == before.tokenizer.get_vocab()


def test_vocabulary_may_be_smaller_than_the_embedding(copy: Path) -> None:
    # Embeddings are often padded to a multiple of 8 or 64.
    words = (copy / "vocab.txt").read_text().splitlines()
    (copy / "vocab.txt").write_text("\n".join(words[:-2]) + "\n")
    assert len(load_model(copy).tokenizer) == 35


def test_padding_of_roberta_must_be_the_tokenizers(tmp_path: Path) -> None:
    folder = make_roberta(tmp_path / "model")
    edit_json(folder, "config.json", pad_token_id=0)
    with pytest.raises(AuditError, match="padding token is 1 in the tokenizer"):
        load_model(folder)


def test_roberta_without_merges_is_refused(tmp_path: Path) -> None:
    folder = make_roberta(tmp_path / "model")
    (folder / "merges.txt").unlink()
    with pytest.raises(AuditError, match=r"merges\.txt"):
        load_model(folder)


def test_missing_package_of_a_tokenizer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_japanese_bert(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "fugashi", None)
    with pytest.raises(AuditError, match="not installed"):
        load_model(folder)


def test_tokenizer_does_not_remember_the_private_copy(good: Path) -> None:
    tokenizer = load_model(good).tokenizer
    assert tokenizer.name_or_path == "model"
    assert "kart-audit" not in json.dumps({k: str(v) for k, v in tokenizer.init_kwargs.items()})


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("tokenizer.json", {"added_tokens": [{"id": 0, "content": "[PAD]", "special": True}]}),
        ("tokenizer.json", {"normalizer": {"type": ["Lowercase"]}}),
        ("tokenizer.json", {"truncation": 1}),
        ("tokenizer_config.json", {"model_max_length": [1]}),
        ("tokenizer_config.json", {"padding_side": 5}),
        ("tokenizer_config.json", {"mask_token": {"a": 1}}),
    ],
)
def test_settings_of_a_wrong_kind_are_refused(
    copy: Path, file: str, change: dict[str, object]
) -> None:
    load_model(copy).tokenizer.save_pretrained(copy)
    edit_json(copy, file, **change)
    with pytest.raises(AuditError, match=r"cannot be built|unknown component"):
        load_model(copy)
