"""Word pieces of names are those that the tokenizer gives them inside a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tokenizers
import transformers

from audit.attack.prompts import make_templates
from audit.models.components import refuse_unknown_parts
from audit.names.candidates import make_candidates
from audit.names.spelling import RUNNING_TEXT, PassageKind, part_pieces, piece_counter
from audit.notes.passages import Passage
from audit.text import written_name
from tests.models.make_tokenizers import fairseq_vocabulary, pieces, unigram_state

METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
SPACES = {"type": "Replace", "pattern": {"Regex": " "}, "content": "▁"}


def normalizer(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"normalizer": {"type": "Sequence", "normalizers": list(parts)}}


STYLES: dict[str, dict[str, Any]] = {
    "XLM-RoBERTa": {},
    "BigBird": {
        "pre_tokenizer": METASPACE,
        **normalizer(
            {"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
        ),
    },
    "DeBERTa-v2": {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [METASPACE]},
        **normalizer({"type": "Strip", "strip_left": True, "strip_right": True}),
    },
    "LLaMA": {
        "pre_tokenizer": None,
        **normalizer({"type": "Prepend", "prepend": "▁"}, SPACES),
    },
    "LLM-jp": {
        "pre_tokenizer": None,
        **normalizer(
            {"type": "Replace", "pattern": {"Regex": r"(?<!\n)^"}, "content": "▁"}, SPACES
        ),
    },
    "without a mark": {
        "pre_tokenizer": {**METASPACE, "prepend_scheme": "never"},
        "normalizer": None,
    },
    "with all spaces": {
        "pre_tokenizer": {**METASPACE, "split": False},
        **normalizer(SPACES, {"type": "Replace", "pattern": {"Regex": r"\A▁"}, "content": "▁▁"}),
    },
    "SentencePiece in transformers 5": {
        "pre_tokenizer": {**METASPACE, "split": False},
        **normalizer(
            {"type": "Replace", "pattern": {"Regex": r"\A +| +\z"}, "content": ""},
            {"type": "Replace", "pattern": {"Regex": r"\A▁"}, "content": "▁▁"},
        ),
    },
}
PASSAGES = (
    Passage("Mr ", ("full",), "", " was seen.", "1", None),
    Passage("", ("full",), "", "'s pain", "2", None),
    Passage("the patient (", ("full",), "", "), service", "3", None),
    Passage("by Dr ", ("last", "first"), ", ", " and Mary", "4", None),
    Passage("患者", ("full",), "", "さんは受診しました。", "5", None),
    Passage("", ("full",), "", "は医師が診察", "6", None),
)
NAMES = (("John", "Smith"), ("Zoë", "Jonesson"), ("花子", "山田"), ("太郎", "佐藤"))


def build(style: str) -> Any:
    state = unigram_state(fairseq_vocabulary(pieces()), **STYLES[style])
    refuse_unknown_parts(state)
    roles = {"unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(state)), **roles
    )


@pytest.mark.parametrize("style", STYLES)
def test_a_passage_with_a_name_has_the_pieces_of_the_whole_sentence(style):
    tokenizer = build(style)
    for passage in PASSAGES:
        (template,) = make_templates(
            [passage], tokenizer=tokenizer, max_tokens=60, n_name_tokens=20
        )
        for first, last in NAMES:
            is_turned = passage.slots != ("full",)
            if is_turned and first != "John":
                continue
            name = f"{last}, {first}" if is_turned else written_name(first, last)
            candidates = make_candidates([(first, last)], is_member=True)
            asked = part_pieces(
                candidates, kind=PassageKind.from_passage(passage), tokenizer=tokenizer
            )
            parts = [[piece for piece in part if piece >= 0] for part in asked.ids[0].tolist()]
            ids = [*template.left, *parts[0], *template.between, *parts[1], *template.right]
            sentence = passage.left + name + passage.right
            whole = tokenizer(sentence, add_special_tokens=False)["input_ids"]
            assert ids[1:-1] == whole, (sentence, tokenizer.convert_ids_to_tokens(ids))


@pytest.mark.parametrize("style", STYLES)
def test_running_text_has_a_space_before_a_name_only_where_its_script_has(style):
    tokenizer, count = build(style), piece_counter(build(style))
    candidates = make_candidates(NAMES[::2], is_member=True)
    ids = part_pieces(candidates, kind=RUNNING_TEXT, tokenizer=tokenizer).ids[:, :, 0]
    tokens = [tokenizer.convert_ids_to_tokens(row) for row in ids.tolist()]
    assert tokens == [["▁John", "▁Smith"], ["山田", "花子"]]
    assert [count("first", "John"), count("last", "山田"), count("first", "花子")] == [1, 1, 1]
