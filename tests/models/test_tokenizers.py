"""Tokenizers of SentencePiece: as transformers splits text, what two differ in, what is refused."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.models.character_map import MAX_REPLACEMENT_BYTES, read_character_map
from audit.models.inspect import compute_model_digest, inspect_model
from audit.models.load import load_model, load_pair
from audit.models.sentencepiece_file import read_piece_model
from tests.models.editing import edit_json
from tests.models.make_models import make_bert, make_roberta
from tests.models.make_tokenizers import (
    FAIRSEQ_HEAD,
    FULL_WIDTH,
    HEADS,
    PIECE_FILES,
    fairseq_vocabulary,
    make_character_map,
    make_piece_file,
    make_piece_model,
    make_unigram_roberta,
    pieces,
)

SENTENCES = (
    "Mr John Smithson was seen by Dr Jones (service) for pain.",
    "Ｊｏｈｎ　Ｓｍｉｔｈ ①",
    "患者山田花子さんは受診しました。",
    "Zoë's [pain], x",
)
# Roles that the published files of these classes give in tokenizer_config.json.
ROLES = {
    kind: {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
        "pad_token": pad,
        "extra_ids": 0,
    }
    for kind, pad in (("T5Tokenizer", "<pad>"), ("LlamaTokenizer", "[PAD]"))
}


LOWER_CASE = {chr(code): chr(code + 32) for code in range(0x41, 0x5B)}
SYLLABLES = [a + b + c + d for a in "bdfglmns" for b in "aeiou" for c in "bdfl" for d in "aeo"]


def build_reference(kind: str) -> Any:
    """Return the tokenizer that transformers itself builds from a vocabulary, without a file."""
    listed, character_map = pieces(), make_character_map(FULL_WIDTH)
    settings: dict[str, Any] = {"_spm_precompiled_charsmap": character_map}
    vocabulary = [*((token, 0.0) for token in HEADS.get(kind, ())), *listed]
    if kind == "XLMRobertaTokenizer":
        vocabulary = fairseq_vocabulary(listed)
    elif kind == "CamembertTokenizer":
        head = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"]
        scores = dict.fromkeys(head, 0.0) | {"<unk>NOTUSED": -100.0}
        vocabulary = [*scores.items(), *listed, ("<mask>", 0.0)]
    elif kind == "AlbertTokenizer":
        settings |= {"do_lower_case": False, "keep_accents": True}
    elif kind in ROLES:
        settings |= ROLES[kind]
    if kind == "LlamaTokenizer":  # byte pairs, with bytes for unknown characters
        tokens = [
            *HEADS[kind],
            *(f"<0x{i:02X}>" for i in range(256)),
            *"▁abcdefghijJohnS",
            "▁J",
            "oh",
        ]
        merges = [("▁", "J"), ("o", "h")]
        vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
        return transformers.LlamaTokenizer(vocab=vocabulary, merges=merges, **ROLES[kind])
    return getattr(transformers, kind)(vocab=vocabulary, **settings)


@pytest.mark.parametrize("kind", sorted(set(PIECE_FILES) - {"LlamaTokenizer"}))
def test_a_sentencepiece_file_splits_text_as_transformers_own_class(kind, tmp_path):
    settings = {"do_lower_case": False, "keep_accents": True} if kind == "AlbertTokenizer" else {}
    folder = make_piece_model(tmp_path / "model", kind, **{**ROLES.get(kind, {}), **settings})
    tokenizer, reference = load_model(folder).tokenizer, build_reference(kind)
    assert inspect_model(folder).tokenizer == kind
    # transformers 5 leaves the map of characters out of these two.
    has_map = kind not in ("BigBirdTokenizer", "DebertaV2Tokenizer")
    for sentence in SENTENCES:
        text = (
            sentence
            if has_map
            else read_character_map(make_character_map(FULL_WIDTH)).replace(sentence)
        )
        assert tokenizer(sentence)["input_ids"] == reference(text)["input_ids"], sentence
    for role in ("cls", "sep", "mask", "unk", "pad"):
        name = f"{role}_token_id"
        assert getattr(tokenizer, name) == getattr(reference, name), role


@pytest.mark.parametrize("kind", [*PIECE_FILES])
def test_what_transformers_saves_is_read_as_it_splits(kind, tmp_path):
    listed = pieces(words=SYLLABLES if kind == "LlamaTokenizer" else ())
    folder = make_piece_model(tmp_path / "model", kind, listed=listed, **ROLES.get(kind, {}))
    reference = build_reference(kind)
    (folder / PIECE_FILES[kind]).unlink()
    reference.save_pretrained(folder)
    assert not (folder / PIECE_FILES[kind]).exists()
    tokenizer = load_model(folder).tokenizer
    for sentence in SENTENCES:
        assert tokenizer(sentence)["input_ids"] == reference(sentence)["input_ids"], sentence


def test_models_of_fairseq_have_their_special_tokens_before_and_the_mask_behind_the_pieces(
    tmp_path,
):
    n = len(pieces())
    xlm = load_model(make_piece_model(tmp_path / "xlm", "XLMRobertaTokenizer")).tokenizer
    camembert = load_model(make_piece_model(tmp_path / "c", "CamembertTokenizer")).tokenizer
    assert xlm.convert_ids_to_tokens(range(5)) == ["<s>", "<pad>", "</s>", "<unk>", "▁the"]
    assert camembert.convert_ids_to_tokens(range(8)) == [
        "<s>NOTUSED",
        "<pad>",
        "</s>NOTUSED",
        "<unk>",
        "<unk>NOTUSED",
        "<s>",
        "</s>",
        "▁the",
    ]
    assert (xlm.mask_token_id, camembert.mask_token_id) == (n + 4, n + 7)
    assert xlm("☃")["input_ids"] == [0, xlm.convert_tokens_to_ids("▁"), 3, 2]
    assert camembert("the")["input_ids"] == [5, 7, 6]


def test_tokenizer_json_is_used_as_it_is(tmp_path):
    folder = make_unigram_roberta(tmp_path / "model")
    tokenizer = load_model(folder).tokenizer
    library_tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for sentence in SENTENCES:
        ids = tokenizer(sentence, add_special_tokens=False)["input_ids"]
        assert ids == library_tokenizer.encode(sentence).ids
    assert tokenizer.tokenize("Ｊｏｈｎ") == ["▁John"]
    assert tokenizer.tokenize("山田花子") == ["▁", "山田", "花子"]


def test_the_same_tokenizer_in_either_file_makes_a_pair(tmp_path):
    plain = {
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    }
    first = make_piece_model(tmp_path / "pieces", "XLMRobertaTokenizer")
    second = make_unigram_roberta(tmp_path / "json", **plain)
    built = load_model(first).tokenizer.backend_tokenizer.to_str()
    (second / "tokenizer.json").write_text(built, "utf-8")
    load_pair(first, second)


@pytest.mark.parametrize(
    ("kind", "make", "settings"),
    [
        ("ElectraTokenizer", make_bert, {}),
        ("LongformerTokenizer", make_roberta, {}),
        (
            "DebertaTokenizer",
            make_roberta,
            {
                "bos_token": "<s>",
                "eos_token": "</s>",
                "cls_token": "<s>",
                "sep_token": "</s>",
                "mask_token": "<mask>",
                "pad_token": "<pad>",
                "unk_token": "<unk>",
            },
        ),
    ],
)
def test_classes_that_share_files_with_bert_and_roberta_split_alike(kind, make, settings, tmp_path):
    first = make(tmp_path / "first")
    second = Path(shutil.copytree(first, tmp_path / "second"))
    edit_json(second, "tokenizer_config.json", tokenizer_class=kind, **settings)
    tokenizer, usual = load_model(second).tokenizer, load_model(first).tokenizer
    assert inspect_model(second).tokenizer == kind
    for sentence in SENTENCES:
        assert tokenizer.tokenize(sentence) == usual.tokenize(sentence)


def change_score(state: dict[str, Any]) -> None:
    state["model"]["vocab"][10][1] -= 0.5


def change_map(state: dict[str, Any]) -> None:
    text = base64.b64encode(make_character_map({**FULL_WIDTH, "①": "2"})).decode()
    state["normalizer"]["precompiled_charsmap"] = text


def drop_prefix(state: dict[str, Any]) -> None:
    state["pre_tokenizer"]["pretokenizers"][1]["prepend_scheme"] = "never"


def fall_back_to_bytes(state: dict[str, Any]) -> None:
    state["model"]["byte_fallback"] = True


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (change_score, "scores"),
        (change_map, "normalizer.precompiled_charsmap"),
        (drop_prefix, "pre_tokenizer"),
        (fall_back_to_bytes, "model.byte_fallback"),
    ],
)
def test_all_that_decides_how_text_is_split_tells_two_tokenizers_apart(
    change, difference, tmp_path
):
    first = make_unigram_roberta(tmp_path / "first")
    second = Path(shutil.copytree(first, tmp_path / "second"))
    assert compute_model_digest(first) == compute_model_digest(second)
    state = json.loads((second / "tokenizer.json").read_text("utf-8"))
    change(state)
    (second / "tokenizer.json").write_text(json.dumps(state), "utf-8")
    assert compute_model_digest(first) != compute_model_digest(second)
    with pytest.raises(AuditError) as refused:
        load_pair(first, second)
    assert difference in str(refused.value)


@pytest.mark.parametrize(
    ("with_capitals", "replacements", "is_lower", "refusal"),
    [
        (True, FULL_WIDTH, None, ""),
        (True, FULL_WIDTH | LOWER_CASE, None, "folds capitals"),
        (True, FULL_WIDTH, True, "folds capitals"),
        (False, FULL_WIDTH, None, "leaves capitals"),
        (False, FULL_WIDTH, True, ""),
        (False, FULL_WIDTH | LOWER_CASE, None, ""),
    ],
)
def test_a_map_of_characters_that_folds_capitals_is_seen(
    with_capitals, replacements, is_lower, refusal, tmp_path
):
    folder = make_piece_model(
        tmp_path / "model",
        "T5Tokenizer",
        listed=pieces(words=SYLLABLES, with_capitals=with_capitals),
        replacements=replacements,
        **ROLES["T5Tokenizer"],
        **({} if is_lower is None else {"do_lower_case": is_lower}),
    )
    if not refusal:
        inspect_model(folder)
        load_model(folder)
        return
    with pytest.raises(AuditError) as refused:
        inspect_model(folder)
    assert refusal in str(refused.value)
    is_fitting = f'"do_lower_case": {json.dumps(not with_capitals)}.'
    assert is_fitting in str(refused.value) or LOWER_CASE["A"] in replacements.values()


_bits = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=4)


def spoil(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Change bytes that are not zero: most of a map is empty."""
    spoiled, used = bytearray(data), [i for i, byte in enumerate(data) if byte]
    for place, mask in changes:
        spoiled[used[place % len(used)]] ^= mask
    return bytes(spoiled)


SMALL_MAP = make_character_map({"a": "bc", "é": "e", "ﬁ": "fi", "か\u3099": "が", "\x01": ""})


@given(
    changes=_bits, text=st.text(st.sampled_from("abé\u0301ﬁか\u3099\x01\x02 z\u00ff"), max_size=12)
)
@settings(max_examples=100, deadline=None)
def test_a_map_that_is_read_cannot_lead_the_library_astray(changes, text):
    data = spoil(SMALL_MAP, changes)
    try:
        character_map = read_character_map(data)
    except AuditError:
        return
    normalizer = tokenizers.normalizers.Precompiled(data)
    replaced = normalizer.normalize_str(text)
    assert len(replaced.encode()) <= MAX_REPLACEMENT_BYTES * max(1, len(text))
    for char in set(text):
        assert character_map.replace(char) == normalizer.normalize_str(char)


PIECE_FILE = make_piece_file([*FAIRSEQ_HEAD, *pieces()[:20]], normalizer=[(2, SMALL_MAP)])


@given(changes=_bits, length=st.integers(0, len(PIECE_FILE)))
@settings(max_examples=60, deadline=None)
def test_a_damaged_sentencepiece_file_is_refused_or_read(changes, length):
    for data in (spoil(PIECE_FILE, changes), PIECE_FILE[:length]):
        try:
            model = read_piece_model(data)
        except AuditError:
            continue
        assert len(model.pieces) == len(model.kinds) > model.unk_id >= 0
