"""Loading a model, its tokenizer, and pairs: against transformers, and what is refused or noted."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from audit.errors import AuditError
from audit.models import load
from audit.models.inspect import compute_model_digest, inspect_model
from audit.models.load import LoadedModel, load_model, load_pair, pick_device
from tests.models.editing import WEIGHTS, canary, edit_json, edit_weights, write_pickle
from tests.models.hostile_models import BEFORE_LOADING, EMBEDDING, WHILE_LOADING
from tests.models.make_models import (
    MAKERS,
    WORDS,
    copy,
    good,
    make_bert,
    make_distilbert,
    make_japanese_bert,
    make_roberta,
)

SENTENCES = ("The patient John Smiths was seen by Dr. Jones.", "患者山田花子は受診した。")
REFUSALS = {
    case: message
    for line in Path(__file__).with_name("refusals.txt").read_text("utf-8").splitlines()
    for cases, message in [line.split("\t")]
    for case in cases.split()
}
__all__ = ["copy", "good"]


def logits_of(model: Any, tokenizer: Any, sentence: str = SENTENCES[0]) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(**tokenizer(sentence, return_tensors="pt")).logits
    return logits


def own_logits(loaded: LoadedModel) -> torch.Tensor:
    return logits_of(loaded.model, loaded.tokenizer)


def reference(folder: Path) -> tuple[Any, Any]:
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("case", REFUSALS)
def test_a_hostile_folder_is_refused_with_its_reason(case, copy, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was opened")

    (BEFORE_LOADING | WHILE_LOADING)[case](copy)
    for library, name in ((torch, "load"), (pickle, "load"), (pickle, "loads")):
        monkeypatch.setattr(library, name, refuse)
    for read in (load_model, *([inspect_model] if case in BEFORE_LOADING else ())):
        with pytest.raises(AuditError) as refused:
            read(copy)
        assert str(refused.value) == REFUSALS[case]
    assert not canary(copy).exists()


def test_every_hostile_folder_has_its_reason_and_the_canary_works(copy):
    assert REFUSALS.keys() == BEFORE_LOADING.keys() | WHILE_LOADING.keys()
    write_pickle(copy, "x.bin")
    pickle.loads((copy / "x.bin").read_bytes())
    assert canary(copy).exists()


@pytest.mark.parametrize("kind", MAKERS)
def test_logits_and_tokens_equal_those_of_transformers(kind, tmp_path):
    folder = MAKERS[kind](tmp_path / "model")
    loaded = load_model(folder)
    model, tokenizer = reference(folder)
    for sentence in SENTENCES:
        assert tokenizer(sentence)["input_ids"] == loaded.tokenizer(sentence)["input_ids"]
        expected = logits_of(model, tokenizer, sentence)
        assert torch.equal(logits_of(loaded.model, loaded.tokenizer, sentence), expected)
    assert (loaded.name, loaded.n_positions) == ("model", 64)
    assert loaded.config.architecture == ("bert" if kind == "japanese" else kind)
    assert loaded.digest == compute_model_digest(folder)
    assert not loaded.model.training
    ids = torch.full((1, 65), loaded.tokenizer.mask_token_id)
    assert loaded.model(input_ids=ids[:, :64]).logits.shape[:2] == (1, 64)
    with pytest.raises((IndexError, RuntimeError)):
        loaded.model(input_ids=ids)


def test_checkpoints_of_pretraining_and_their_old_names_are_understood(copy):
    model = transformers.BertForPreTraining(transformers.BertConfig.from_pretrained(copy)).eval()
    model.save_pretrained(copy)
    loaded = load_model(copy)
    old_logits = own_logits(loaded)
    with torch.inference_mode():
        logits = model(**loaded.tokenizer(SENTENCES[0], return_tensors="pt")).prediction_logits
    assert torch.equal(old_logits, logits)

    def age(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]
        tensors["cls.predictions.decoder.weight"] = tensors[EMBEDDING].clone()
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")

    edit_weights(copy, age)
    assert torch.equal(own_logits(load_model(copy)), old_logits)


def test_a_head_is_tied_or_has_a_matrix_of_its_own(good, tmp_path):
    module: Any = load_model(good).model
    assert module.get_output_embeddings().weight is module.get_input_embeddings().weight
    assert module.get_output_embeddings().bias is module.cls.predictions.bias
    assert module.config._attn_implementation == "sdpa"
    folder = make_bert(tmp_path / "model", tie_word_embeddings=False, dropout=0.25)
    loaded = load_model(folder)
    assert torch.equal(own_logits(loaded), logits_of(*reference(folder)))
    rates = {m.p for m in loaded.model.modules() if isinstance(m, torch.nn.Dropout)}
    assert rates == {0.25}
    # transformers 4 saved one of a bias's two names; transformers 5 would fill in zeros.
    edit_weights(
        folder, lambda t: t.update({"cls.predictions.bias": t.pop("cls.predictions.decoder.bias")})
    )
    module = load_model(folder).model
    bias = load_file(folder / WEIGHTS)["cls.predictions.bias"]
    assert torch.equal(module.get_output_embeddings().bias, bias)


def test_numbers_of_any_kind_are_held_in_float32(copy):
    edit_weights(copy, lambda t: t.update({name: tensor.half() for name, tensor in t.items()}))
    stored, loaded = load_file(copy / WEIGHTS), load_model(copy)
    state = loaded.model.state_dict()
    assert {tensor.dtype for tensor in state.values()} == {torch.float32}
    assert all(torch.equal(state[name], stored[name].float()) for name in stored)
    assert loaded.digest == compute_model_digest(copy)


def test_the_device_is_picked_or_refused(copy):
    is_there = torch.cuda.is_available()
    assert (pick_device("cpu"), pick_device("auto")) == ("cpu", "cuda" if is_there else "cpu")
    if not is_there:
        with pytest.raises(AuditError, match="No CUDA device is available"):
            pick_device("cuda")
    with pytest.raises(AuditError, match="'cuda:99' is not available, or has not"):
        load_model(copy, device="cuda:99")


def test_a_loaded_model_stands_apart_from_its_files(copy):
    write_pickle(copy, "training_args.bin")
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    loaded = load_model(copy)
    assert torch.equal(torch.rand(3), expected)
    assert not canary(copy).exists()
    old_logits = own_logits(loaded)
    (copy / WEIGHTS).write_bytes(b"\x3f" * (copy / WEIGHTS).stat().st_size)
    assert torch.equal(own_logits(loaded), old_logits)
    settings = {key: str(value) for key, value in loaded.tokenizer.init_kwargs.items()}
    assert loaded.tokenizer.name_or_path == "model" and "kart-audit" not in json.dumps(settings)


def test_japanese_words_are_split_by_mecab(tmp_path, monkeypatch):
    for dictionary in ("unidic_lite", "ipadic"):
        loaded = load_model(make_japanese_bert(tmp_path / dictionary, dictionary=dictionary))
        tokens = loaded.tokenizer.tokenize(SENTENCES[1])
        assert tokens == ["患者", "山田", "花子", "は", "受診", "し", "た", "。"]
    monkeypatch.setitem(sys.modules, "fugashi", None)
    with pytest.raises(AuditError, match="needs the package fugashi, which is not installed"):
        load_model(tmp_path / "ipadic")


def test_vocabularies_are_read_in_any_form(copy):
    plain = load_model(copy).tokenizer
    words = (copy / "vocab.txt").read_bytes()
    (copy / "vocab.txt").write_bytes(words.replace(b"\n", b"\r\n"))
    assert load_model(copy).tokenizer.get_vocab() == plain.get_vocab()
    # Embeddings are often padded to a multiple of 8 or 64.
    (copy / "vocab.txt").write_bytes(b"\n".join(words.split(b"\n")[:-3]))
    assert len(load_model(copy).tokenizer) == 35
    plain.save_pretrained(copy)
    (copy / "vocab.txt").unlink(missing_ok=True)
    for kind in ("BertTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend"):
        edit_json(copy, "tokenizer_config.json", tokenizer_class=kind)
        fast = load_model(copy)
        assert fast.tokenizer(SENTENCES[0])["input_ids"] == plain(SENTENCES[0])["input_ids"]
        assert fast.tokenizer.get_vocab() == plain.get_vocab()


def test_roberta_needs_its_merges_and_its_padding(tmp_path):
    folder = make_roberta(tmp_path / "model")
    edit_json(folder, "config.json", pad_token_id=0)
    message = r"padding token is 1 in the tokenizer and 0 in config\.json\. Copy all files of"
    with pytest.raises(AuditError, match=message):
        load_model(folder)
    (folder / "merges.txt").unlink()
    with pytest.raises(AuditError, match=r"files are missing \(merges\.txt\)"):
        load_model(folder)


def test_one_tokenizer_in_two_forms_makes_a_pair(good, tmp_path):
    for make, files in ((make_bert, ("vocab.txt",)), (make_roberta, ("vocab.json", "merges.txt"))):
        first_folder, second_folder = (
            make(tmp_path / make.__name__),
            make(tmp_path / f"{make.__name__}-2", seed=1),
        )
        load_model(second_folder).tokenizer.save_pretrained(second_folder)
        for file in files:
            (second_folder / file).unlink(missing_ok=True)
        pair = load_pair(first_folder, second_folder)
        assert (pair.general.name, pair.hospital.name) == (first_folder.name, second_folder.name)
        assert (pair.notes, pair.n_positions) == ((), 64)
    # No setting of MeCab at all means its usual dictionary.
    first_folder, second_folder = (make_japanese_bert(tmp_path / name) for name in "ab")
    edit_json(second_folder, "tokenizer_config.json", mecab_kwargs=None)
    assert load_pair(first_folder, second_folder).notes == ()


def _other_merges(folder: Path) -> Path:
    folder = make_roberta(folder, seed=1)
    lines = (folder / "merges.txt").read_text().splitlines()
    lines[1], lines[2] = lines[2], lines[1]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    return folder


def _basic_japanese(folder: Path) -> Path:
    make_japanese_bert(folder)
    edit_json(folder, "tokenizer_config.json", word_tokenizer_type="basic", mecab_kwargs=None)
    return folder


RENAMED = tuple({"john": "joan", "mary": "mark"}.get(word, word) for word in WORDS)
UNLIKE: list[tuple[str, Callable[[Path], Path], str]] = [
    ("bert", lambda f: make_bert(f, words=RENAMED), "4 entries of the vocabulary."),
    (
        "bert",
        lambda f: make_bert(f, lower_case=False),
        "normalizer.lowercase; splitting of test sentences.",
    ),
    ("bert", make_roberta, "unk_token."),
    ("roberta", _other_merges, "merges."),
    ("japanese", lambda f: make_japanese_bert(f, dictionary="ipadic"), "mecab_dic."),
    ("japanese", _basic_japanese, "splitting of test sentences; word_tokenizer_type."),
]


@pytest.mark.parametrize(("kind", "make", "reason"), UNLIKE, ids=range(len(UNLIKE)))
def test_a_pair_with_different_tokenizers_is_refused(kind, make, reason, tmp_path):
    general, hospital = MAKERS[kind](tmp_path / "general"), make(tmp_path / "hospital")
    advice = " Choose as general model the one that the hospital's training started from."
    for first_folder, second_folder in ((general, hospital), (hospital, general)):
        with pytest.raises(AuditError) as refused:
            load_pair(first_folder, second_folder)
        message = str(refused.value)
        names = f"{first_folder.name} and {second_folder.name}"
        begin = f"{names}: The two models have different tokenizers: "
        assert message.startswith(begin) and f"{reason}{advice}" in message
        is_same_vocabulary = "entries of the vocabulary" not in message
        assert message.endswith("general model's directory.") == is_same_vocabulary


def _halved(tensors: dict[str, torch.Tensor]) -> None:
    tensors |= {name: tensor.bfloat16() for name, tensor in tensors.items()}


def _with_pooler(tensors: dict[str, torch.Tensor]) -> None:
    tensors |= {
        "bert.pooler.dense.weight": torch.ones(16, 16),
        "bert.pooler.dense.bias": torch.ones(16),
    }


def _with_own_head(folder: Path) -> None:
    edit_json(folder, "config.json", tie_word_embeddings=False)
    table = "bert.embeddings.word_embeddings.weight"
    edit_weights(folder, lambda t: t.update({"cls.predictions.decoder.weight": t[table].clone()}))


def _nudged(tensors: dict[str, torch.Tensor]) -> None:
    table = tensors["bert.embeddings.word_embeddings.weight"]
    table[7, 3] = torch.nextafter(table[7, 3], torch.tensor(9.0))


ONE_MODEL: dict[str, tuple[Callable[[Path], object], bool]] = {
    "stored in 16 bits": (lambda f: edit_weights(f, _halved), True),
    "tensors that no pass uses": (lambda f: edit_weights(f, _with_pooler), True),
    "a head of its own, equal to the table": (_with_own_head, True),
    "saved by another version": (
        lambda f: edit_json(f, "config.json", transformers_version="1"),
        True,
    ),
    "one number, by its last bit": (lambda f: edit_weights(f, _nudged), False),
    "another dropout": (lambda f: edit_json(f, "config.json", hidden_dropout_prob=0.2), False),
    "another activation": (lambda f: edit_json(f, "config.json", hidden_act="relu"), False),
}


@pytest.mark.parametrize("change", ONE_MODEL)
def test_two_folders_are_one_model_where_they_compute_the_same(change, tmp_path):
    general = make_bert(tmp_path / "general")
    edit_weights(general, lambda t: t.update({n: x.bfloat16().float() for n, x in t.items()}))
    hospital = Path(shutil.copytree(general, tmp_path / "hospital"))
    edit, is_one_model = ONE_MODEL[change]
    edit(hospital)
    pair = load_pair(general, hospital)
    assert pair.is_one_model is is_one_model
    if "version" not in change:  # by their files alone they would be two
        assert pair.general.digest != pair.hospital.digest


def test_what_two_models_differ_in_is_noted(good, tmp_path):
    messages = ("The models differ in shape or dropout, so they cannot share dropout masks.",)
    pair = load_pair(good, make_bert(tmp_path / "a", n_layers=1, hidden_size=8, n_positions=32))
    assert (pair.notes, pair.n_positions) == (messages, 32)
    for folder in (make_distilbert(tmp_path / "b"), make_bert(tmp_path / "c", dropout=0.2)):
        assert load_pair(good, folder).notes == messages
    still = make_bert(tmp_path / "d", dropout=0)
    assert load_pair(still, still).notes == tuple(
        f"The {side} model has no dropout: repeated passes are all alike."
        for side in ("general", "hospital")
    )


@pytest.mark.parametrize("put", [None, os.mkfifo])
@pytest.mark.parametrize("before", ["_refuse_without_memory", "build_tokenizer", "_read_weights"])
def test_weights_that_go_while_a_model_is_loaded_are_an_error_in_words(
    copy, monkeypatch, put, before
):
    step = getattr(load, before)

    def take_away(*inputs: Any, **options: Any) -> Any:
        (copy / WEIGHTS).unlink()
        if put:
            put(copy / WEIGHTS)
        return step(*inputs, **options)

    monkeypatch.setattr(load, before, take_away)
    with pytest.raises(AuditError, match=r"Cannot be read|not a file") as refused:
        load_model(copy)
    assert WEIGHTS in str(refused.value)
