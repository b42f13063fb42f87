"""Case: a tokenizer that folds what its vocabulary holds is refused, by its files and as built."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.errors import AuditError
from audit.models.inspect import inspect_model
from audit.models.load import load_model
from audit.models.tokenizer_files import TokenizerFiles
from tests.models.make_models import (
    JAPANESE_WORDS,
    MAKERS,
    SPECIAL,
    WORDS,
    make_bert,
    make_distilbert,
    make_japanese_bert,
)
from tests.repository import REPOSITORY

FOLDS, LEAVES = "folds capitals or accents away", "leaves capitals as they are"
SYLLABLES = [a + b for a in "bcdfghklmnprst" for b in "aeiou"]
LOWER = (*WORDS, *(a + b for a in SYLLABLES for b in SYLLABLES[:3]))
CASED = (*LOWER, *(word.title() for word in LOWER if word.isalpha()), "ICU", "##X")
GERMAN = (*LOWER, *(word.replace("a", "ä") for word in LOWER if "a" in word))
KANA = (*JAPANESE_WORDS, *(chr(code) for code in range(0x3041, 0x3097)), "が", "##が", "データ")


def bert(words: Sequence[str], **settings: object) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        make_bert(folder, words=tuple(dict.fromkeys(words)))
        config = {"tokenizer_class": "BertTokenizer", **settings}
        (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
        return folder

    return make


def bare(words: Sequence[str]) -> Callable[[Path], Path]:
    """As Bio_ClinicalBERT is published: config.json, weights and vocab.txt."""

    def make(folder: Path) -> Path:
        bert(words)(folder)
        (folder / "tokenizer_config.json").unlink()
        return folder

    return make


def distilbert(words: Sequence[str]) -> Callable[[Path], Path]:
    return lambda folder: make_distilbert(folder, words=tuple(dict.fromkeys(words)))


def japanese(**settings: object) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        make_japanese_bert(folder)
        words = tuple(dict.fromkeys((*KANA, *LOWER)))
        make_bert(folder, words=words)
        (folder / "vocab.txt").write_text("\n".join((*SPECIAL, *words)) + "\n", "utf-8")
        config = {"tokenizer_class": "BertJapaneseTokenizer", **settings}
        (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
        return folder

    return make


def fast(words: Sequence[str], normalizer: Any) -> Callable[[Path], Path]:
    """A tokenizer.json that is taken as it is."""

    def make(folder: Path) -> Path:
        bert(words)(folder)
        vocabulary = (*SPECIAL, *dict.fromkeys(words))
        model = {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: i for i, word in enumerate(vocabulary)},
        }
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        added = [
            {"id": i, "content": token, "special": True, **flags} for i, token in enumerate(SPECIAL)
        ]
        state = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": normalizer,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": None,
            "decoder": None,
            "model": model,
        }
        (folder / "tokenizer.json").write_text(json.dumps(state), "utf-8")
        roles = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{role}_token": token for role, token in roles.items()},
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
        return folder

    return make


LOWERCASE, NFC = {"type": "Lowercase"}, {"type": "NFC"}
STRIPS = {"type": "Sequence", "normalizers": [{"type": "NFD"}, LOWERCASE, {"type": "StripAccents"}]}
BOTH = {"type": "Sequence", "normalizers": [NFC, LOWERCASE]}
ONE_CAPITAL = (*LOWER, "Jane")

UNFIT: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "cased, bare": (bare(CASED), FOLDS, '"do_lower_case": false.'),
    "cased, without the setting": (bert(CASED), FOLDS, '"do_lower_case": false.'),
    "cased, set wrong": (bert(CASED, do_lower_case=True), FOLDS, '"do_lower_case": false.'),
    "cased DistilBERT": (distilbert(CASED), FOLDS, '"do_lower_case": false.'),
    "accents stripped alone": (
        bert((*CASED, *GERMAN), do_lower_case=False, strip_accents=True),
        FOLDS,
        '"do_lower_case": false, "strip_accents": null.',
    ),
    "uncased with accents": (bert(GERMAN), FOLDS, '"do_lower_case": true, "strip_accents": false.'),
    "voiced kana": (bert(KANA), FOLDS, '"do_lower_case": false.'),
    "uncased, set wrong": (bert(LOWER, do_lower_case=False), LEAVES, '"do_lower_case": true.'),
    "hardly a capital": (bert(ONE_CAPITAL, do_lower_case=False), LEAVES, '"do_lower_case": true.'),
    "uncased Japanese, without the setting": (
        japanese(word_tokenizer_type="mecab"),
        LEAVES,
        '"do_lower_case": true.',
    ),
    "cased in tokenizer.json": (fast(CASED, LOWERCASE), FOLDS, "fits false."),
    "accents in tokenizer.json": (fast((*CASED, *GERMAN), STRIPS), FOLDS, "fits false."),
    "uncased in tokenizer.json": (fast(LOWER, NFC), LEAVES, "fits true."),
}
FIT: dict[str, Callable[[Path], Path]] = {
    "cased": bert(CASED, do_lower_case=False),
    "uncased, bare": bare(LOWER),
    "uncased": bert(LOWER, do_lower_case=True),
    "one capital in a hundred at most": bert(ONE_CAPITAL),
    "uncased with accents": bert(GERMAN, do_lower_case=True, strip_accents=False),
    "kana": bert(KANA, do_lower_case=False),
    "MeCab, lower case": japanese(word_tokenizer_type="mecab", do_lower_case=True),
    "cased in tokenizer.json": fast((*CASED, *GERMAN), NFC),
    "lower case in tokenizer.json": fast(GERMAN, BOTH),
    "too few words to tell": bert(WORDS, do_lower_case=False),
    **MAKERS,
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_tokenizer_that_does_not_fit_its_vocabulary_is_refused_by_files_and_as_built(
    case, tmp_path, monkeypatch
):
    make, reason, fitting = UNFIT[case]
    folder = make(tmp_path / "model")
    with pytest.raises(AuditError) as inspected:
        inspect_model(folder)
    message = str(inspected.value)
    assert message.startswith("model/tokenizer_config.json: ") and reason in message
    assert "lower" in message and message.endswith(fitting)
    is_checked = []
    check = TokenizerFiles.refuse_unfit_case

    def check_as_built(files: TokenizerFiles, normalizer: Any, *, place: str) -> None:
        is_checked.append(place)
        if len(is_checked) > 1:  # the files themselves pass
            check(files, normalizer, place=place)

    monkeypatch.setattr(TokenizerFiles, "refuse_unfit_case", check_as_built)
    with pytest.raises(AuditError) as built:
        load_model(folder)
    assert built.value.what == inspected.value.what and built.value.do == inspected.value.do


@pytest.mark.parametrize("case", FIT)
def test_a_tokenizer_that_fits_is_taken(case, tmp_path):
    folder = FIT[case](tmp_path / "model")
    inspect_model(folder)
    load_model(folder)


def test_the_advice_helps(tmp_path):
    folder = bare(CASED)(tmp_path / "model")
    with pytest.raises(AuditError):
        load_model(folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}', "utf-8")
    names = load_model(folder).tokenizer
    assert names.tokenize("John Smith") == ["John", "Smith"]


@pytest.mark.parametrize("case", FIT)
def test_files_alone_tell_the_normalizer_that_is_built(case, tmp_path, monkeypatch):
    folder = FIT[case](tmp_path / "model")
    normalizers = []
    check = TokenizerFiles.refuse_unfit_case

    def noted(files: TokenizerFiles, normalizer: Any, *, place: str) -> None:
        normalizers.append(normalizer)
        check(files, normalizer, place=place)

    monkeypatch.setattr(TokenizerFiles, "refuse_unfit_case", noted)
    load_model(folder)
    by_files, as_built = normalizers
    relevant = ("type", "lowercase", "strip_accents", "normalizers")
    relevant_settings = [
        normalizer and {k: v for k, v in normalizer.items() if k in relevant}
        for normalizer in (by_files, as_built)
    ]
    assert relevant_settings[0] == relevant_settings[1]


VOCABULARY = REPOSITORY.parent / "shared" / "data" / "bert-base-uncased.vocab.txt"


@pytest.mark.skipif(not VOCABULARY.is_file(), reason="the vocabulary of BERT-base is not here")
@pytest.mark.parametrize("is_lower_case", [None, True, False])
def test_the_vocabulary_of_bert_base_is_uncased(is_lower_case, tmp_path):
    words = VOCABULARY.read_text("utf-8").split("\n")[:-1]
    folder = make_bert(tmp_path / "model", words=words[: -len(SPECIAL)], hidden_size=2, n_layers=1)
    shutil.copyfile(VOCABULARY, folder / "vocab.txt")
    settings = {} if is_lower_case is None else {"do_lower_case": is_lower_case}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    if is_lower_case is False:
        with pytest.raises(AuditError, match=r'leaves capitals.*fits "do_lower_case": true\.$'):
            inspect_model(folder)
    else:
        inspect_model(folder)
        load_model(folder)
