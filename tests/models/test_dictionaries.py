"""User dictionaries of MeCab beside a Japanese BERT: used as MeCab does, kept, refused."""

from __future__ import annotations

import copy
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers

from audit.errors import AuditError
from audit.models.inspect import compute_model_digest, inspect_model
from audit.models.load import load_model, load_pair
from audit.training.notes_learner import write_model
from tests.models.editing import edit_json
from tests.models.make_models import make_japanese_bert
from tests.models.make_tokenizers import compile_dictionary, write_dictionary

TEXT = "患者山田花子は心房細動です。"
WORD = "心房細動"


def make_model(folder: Path, *, option: str = "-u words.dic", system: str = "unidic_lite") -> Path:
    make_japanese_bert(folder)
    mecab = {"mecab_dic": system, "mecab_option": option}
    edit_json(folder, "tokenizer_config.json", mecab_kwargs=mecab)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = make_model(tmp_path_factory.mktemp("models") / "model", option="-u /home/x/words.dic")
    compile_dictionary(folder / "words.dic", [WORD, "山田花子"])
    (folder / "words.csv").unlink()
    return folder


def split(tokenizer: Any) -> list[str]:
    words: list[str] = tokenizer.word_tokenizer.tokenize(TEXT)
    return words


def test_words_are_split_as_by_mecab_with_the_dictionary(folder):
    tokenizer = load_model(folder).tokenizer
    option = {"mecab_dic": "unidic_lite", "mecab_option": f'-u "{folder / "words.dic"}"'}
    reference = transformers.BertJapaneseTokenizer(
        str(folder / "vocab.txt"),
        do_lower_case=False,
        word_tokenizer_type="mecab",
        mecab_kwargs=option,
    )
    assert split(tokenizer) == split(reference)
    assert WORD in split(tokenizer) and "山田花子" in split(tokenizer)
    assert tokenizer(TEXT)["input_ids"] == reference(TEXT)["input_ids"]


def test_a_copy_of_the_tokenizer_keeps_its_dictionary(folder, tmp_path):
    twin = Path(shutil.copytree(folder, tmp_path / "twin"))
    tokenizer = load_model(twin).tokenizer
    shutil.rmtree(twin)
    for tokenizer_copy in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert split(tokenizer_copy) == split(tokenizer)


def test_the_dictionary_is_part_of_the_model(folder, tmp_path):
    twin = Path(shutil.copytree(folder, tmp_path / "other"))
    load_pair(folder, twin)
    assert compute_model_digest(folder) == compute_model_digest(twin)
    compile_dictionary(twin / "words.dic", [WORD])
    assert compute_model_digest(folder) != compute_model_digest(twin)
    with pytest.raises(AuditError, match=r"different tokenizers: .*user dictionary"):
        load_pair(folder, twin)


def test_a_model_trained_from_it_has_the_dictionary_too(folder, tmp_path):
    write_model(load_model(folder).model, tmp_path / "trained", parent=folder)
    load_pair(folder, tmp_path / "trained")


FULL = 257
HOSTILE = {
    "empty": b"",
    "no dictionary": b"\0" * 200,
    "of another length": write_dictionary([b"a"]) + b"\0",
    "another version": write_dictionary([b"a"], version=101),
    "a system dictionary": write_dictionary([b"a"], kind=0),
    "a trie that is half a unit": write_dictionary([b"a"], n_trie_bytes=12, n_token_bytes=4100),
    "tokens beyond the end": write_dictionary([b"a"], n_token_bytes=1 << 31),
    "a unit that leads out": write_dictionary([b"a"], units={5: (1 << 20, 1)}),
    "a unit that just leads out": write_dictionary([b"a"], units={5: (3 * FULL - 256, 1)}),
    "a unit that leads before the array": write_dictionary([b"a"], units={5: (-9, 3)}),
    "a root that leads before the array": write_dictionary([b"a"], units={0: (-1, 0)}),
    "a word of tokens that are not there": write_dictionary([b"a"], units={258: (-3, 258)}),
    "a token far away": write_dictionary([b"a"], units={258: (-(1 << 20), 258)}),
    "a trie in a circle": write_dictionary([b"a"], units={99: (1, 1)}),
    "a word that ends inside a character": write_dictionary(["山".encode()[:2]]),
    "a word that begins inside a character": write_dictionary([b"\x81"]),
    "a word in another encoding": write_dictionary(["山".encode("euc_jp")]),
    "a left context outside": write_dictionary([b"a"], token=(5981, 1, 0, 0, 0, 0)),
    "a right context outside": write_dictionary([b"a"], token=(1, 65535, 0, 0, 0, 0)),
    "a feature outside": write_dictionary([b"a"], token=(1, 1, 0, 0, 999, 0)),
    "a feature inside a character": write_dictionary([b"a"], token=(1, 1, 0, 0, 1, 0)),
    "a feature without an end": write_dictionary([b"a"], features=b"abc"),
    "features in another encoding": write_dictionary([b"a"], features=b"\xff\0"),
    "no token": write_dictionary([b"a"], n_token_bytes=0, n_feature_bytes=30),
}


def test_a_dictionary_made_by_hand_is_accepted(folder, tmp_path):
    model = Path(shutil.copytree(folder, tmp_path / "own"))
    (model / "words.dic").write_bytes(write_dictionary([WORD.encode(), b"abc"]))
    assert WORD in split(load_model(model).tokenizer)


@pytest.mark.parametrize("case", HOSTILE)
def test_a_damaged_dictionary_is_refused_before_mecab_sees_it(case, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("fugashi.GenericTagger", None)
    model = Path(shutil.copytree(folder, tmp_path / "own"))
    (model / "words.dic").write_bytes(HOSTILE[case])
    for read in (inspect_model, load_model):
        with pytest.raises(AuditError) as refused:
            read(model)
        assert str(refused.value) == (
            "own/words.dic: This is not a complete MeCab user dictionary in UTF-8. Copy the file "
            "again from where the model was saved."
        )


@pytest.mark.parametrize(
    ("option", "system", "refusal"),
    [
        ("-u gone.dic", "unidic_lite", "MeCab's user dictionary gone.dic is not in the model's"),
        ("-u ../words.dic", "ipadic", "was not compiled for the dictionary ipadic"),
        ("-u words.dic -d /tmp", "unidic_lite", "mecab_option"),
        ("-uwords.txt", "unidic_lite", "mecab_option"),
        ("-r /etc/passwd", "unidic_lite", "mecab_option"),
    ],
)
def test_other_options_and_other_dictionaries_are_refused(
    option, system, refusal, folder, tmp_path
):
    model = Path(shutil.copytree(folder, tmp_path / "own"))
    edit_json(
        model, "tokenizer_config.json", mecab_kwargs={"mecab_dic": system, "mecab_option": option}
    )
    with pytest.raises(AuditError) as refused:
        inspect_model(model)
    assert refusal in str(refused.value)


@pytest.mark.parametrize("splitter", ["jumanpp", "sudachi"])
@pytest.mark.parametrize(
    ("subword", "replacement"),
    [("wordpiece", '"word_tokenizer_type": "basic"'), ("sentencepiece", '"AlbertTokenizer"')],
)
def test_other_splitters_are_refused_with_the_settings_for_text_that_is_split(
    splitter, subword, replacement, folder, tmp_path
):
    model = Path(shutil.copytree(folder, tmp_path / "own"))
    names = {"word_tokenizer_type": splitter, "subword_tokenizer_type": subword}
    edit_json(model, "tokenizer_config.json", **names)
    with pytest.raises(AuditError) as refused:
        inspect_model(model)
    assert f"Words cannot be split with {splitter} here." in str(refused.value)
    assert replacement in str(refused.value)
