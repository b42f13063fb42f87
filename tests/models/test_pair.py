from __future__ import annotations

from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.models.load import ModelPair, load_model, load_pair
from audit.models.tokenizer import tokenizer_differences
from tests.models.editing import edit_json
from tests.models.make_models import (
    WORDS,
    make_bert,
    make_distilbert,
    make_japanese_bert,
    make_roberta,
)


@pytest.fixture(scope="module")
def general(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("general") / "general")


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    return make_bert(tmp_path / "hospital", seed=1)


def _refusal(general: Path, hospital: Path) -> str:
    with pytest.raises(AuditError) as refused:
        load_pair(general, hospital)
    return str(refused.value)


def test_pair_of_one_shape_is_loaded_without_notes(general: Path, hospital: Path) -> None:
    pair = load_pair(general, hospital)
    assert (pair.general.name, pair.hospital.name) == ("general", "hospital")
    assert pair.notes == ()
    assert pair.n_positions == 64


def test_different_words_are_refused_with_their_number(general: Path, tmp_path: Path) -> None:
    words = tuple({"john": "joan", "mary": "mark"}.get(word, word) for word in WORDS)
    said = _refusal(general, make_bert(tmp_path / "hospital", words=words))
    assert "4 entries of the vocabulary" in said
    assert "joan" not in said
    assert "mary" not in said


def test_same_words_in_another_order_are_refused(general: Path, tmp_path: Path) -> None:
    words = (WORDS[1], WORDS[0], *WORDS[2:])
    said = _refusal(general, make_bert(tmp_path / "hospital", words=words))
    assert "2 entries of the vocabulary" in said


def test_other_treatment_of_capitals_is_refused(general: Path, tmp_path: Path) -> None:
    said = _refusal(general, make_bert(tmp_path / "hospital", lower_case=False))
    assert "normalizer.lowercase" in said
    assert "vocabulary" not in said


def test_other_treatment_of_accents_is_refused(general: Path, hospital: Path) -> None:
    edit_json(hospital, "tokenizer_config.json", strip_accents=False)
    assert "normalizer.strip_accents" in _refusal(general, hospital)


def test_other_mecab_dictionary_is_refused(tmp_path: Path) -> None:
    general = make_japanese_bert(tmp_path / "general")
    same = make_japanese_bert(tmp_path / "same", seed=1)
    other = make_japanese_bert(tmp_path / "other", dictionary="ipadic")
    assert load_pair(general, same).notes == ()
    assert "mecab_dic" in _refusal(general, other)


def test_unnamed_mecab_dictionary_is_the_default_one(tmp_path: Path) -> None:
    general = make_japanese_bert(tmp_path / "general")
    same = make_japanese_bert(tmp_path / "same", seed=1)
    edit_json(same, "tokenizer_config.json", mecab_kwargs=None)
    assert load_pair(general, same).notes == ()


def test_other_way_to_split_words_is_refused(tmp_path: Path) -> None:
    general = make_japanese_bert(tmp_path / "general")
    other = make_japanese_bert(tmp_path / "other")
    edit_json(other, "tokenizer_config.json", word_tokenizer_type="basic", mecab_kwargs=None)
    said = _refusal(general, other)
    assert "word_tokenizer_type" in said
    edit_json(other, "tokenizer_config.json", tokenizer_class="BertTokenizer")
    assert "differ" in _refusal(general, other)


def test_vocabulary_file_and_fast_file_of_one_tokenizer_agree(
    general: Path, hospital: Path
) -> None:
    load_model(hospital).tokenizer.save_pretrained(hospital)
    (hospital / "vocab.txt").unlink()
    assert load_pair(general, hospital).notes == ()
    edit_json(hospital, "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    assert load_pair(general, hospital).notes == ()


def test_byte_pair_files_and_fast_file_of_one_tokenizer_agree(tmp_path: Path) -> None:
    general, hospital = make_roberta(tmp_path / "general"), make_roberta(tmp_path / "h", seed=1)
    load_model(hospital).tokenizer.save_pretrained(hospital)
    (hospital / "vocab.json").unlink()
    (hospital / "merges.txt").unlink()
    assert load_pair(general, hospital).notes == ()


def test_other_merges_are_refused(tmp_path: Path) -> None:
    general, hospital = make_roberta(tmp_path / "general"), make_roberta(tmp_path / "h", seed=1)
    lines = (hospital / "merges.txt").read_text().splitlines()
    lines[1], lines[2] = lines[2], lines[1]
    (hospital / "merges.txt").write_text("\n".join(lines) + "\n")
    assert "merges" in _refusal(general, hospital)


def test_other_architecture_with_one_tokenizer_is_noted(general: Path, tmp_path: Path) -> None:
    pair = load_pair(general, make_distilbert(tmp_path / "hospital"))
    assert "differ in shape (bert, 2 layers, 16 wide, 2 heads; distilbert," in pair.notes[0]


def test_other_depth_width_and_length_are_noted(general: Path, tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "hospital", n_layers=1, hidden_size=8, n_positions=32)
    pair = load_pair(general, folder)
    assert "1 layers, 8 wide" in pair.notes[0]
    assert "(64 and 32 tokens)" in pair.notes[1]
    assert pair.n_positions == 32


def test_other_dropout_rates_are_noted(general: Path, tmp_path: Path) -> None:
    pair = load_pair(general, make_bert(tmp_path / "hospital", dropout=0.2))
    assert "hidden 0.1 and 0.2, attention 0.1 and 0.2" in pair.notes[0]


def test_missing_dropout_is_noted(tmp_path: Path) -> None:
    pair = load_pair(
        make_bert(tmp_path / "general", dropout=0), make_bert(tmp_path / "h", dropout=0, seed=1)
    )
    assert [note.split(" has ")[0] for note in pair.notes] == [
        "The general model",
        "The hospital model",
    ]


def test_one_dropout_rate_of_zero_is_noted(general: Path, hospital: Path) -> None:
    edit_json(hospital, "config.json", attention_probs_dropout_prob=0.0)
    assert load_pair(general, hospital).notes[1] == (
        "The attention dropout rate of the hospital model is 0."
    )


def test_differences_are_symmetric_and_empty_with_itself(general: Path, tmp_path: Path) -> None:
    one = load_model(general)
    other = load_model(make_bert(tmp_path / "other", lower_case=False, words=WORDS[:-1]))
    assert tokenizer_differences(one.tokenizer, one.tokenizer) == ()
    found = tokenizer_differences(one.tokenizer, other.tokenizer)
    assert found == tokenizer_differences(other.tokenizer, one.tokenizer)
    with pytest.raises(AuditError):
        ModelPair(general=one, hospital=other)
