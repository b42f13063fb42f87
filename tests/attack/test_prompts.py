"""Prompts: pieces of names in their context, masks, and passages cut to the model's length."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.prompts import index_kinds, make_templates, part_columns
from audit.errors import AuditError
from audit.models.load import load_model
from audit.names.candidates import make_candidates
from audit.names.spelling import (
    UNSPELLABLE,
    PassageKind,
    part_pieces,
    piece_counter,
    token_ids,
)
from audit.notes.passages import Passage, read_passages
from tests.models.make_models import make_bert, make_roberta


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_model(make_bert(tmp_path_factory.mktemp("bert") / "m")).tokenizer


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_model(make_roberta(tmp_path_factory.mktemp("roberta") / "m")).tokenizer


def passage(left: str, right: str, slots: Any = ("full",), separator: str = "") -> Passage:
    return Passage(left, slots, separator, right, "1", None)


FULL, FULL_AFTER_SPACE = PassageKind(("full",), "", ""), PassageKind(("full",), "", " ")
LAST_FIRST = PassageKind(("last", "first"), ", ", " ")


# Parts


def columns_of(tokenizer: Any, names: Any, *kinds: PassageKind) -> Any:
    pieces = [part_pieces(make_candidates(names), kind=k, tokenizer=tokenizer) for k in kinds]
    between = [bool(kind.separator.strip()) for kind in kinds]
    return part_columns(pieces, has_between=between).tolist()


LAST_ONLY = PassageKind(("last",), "", " ")
FIRST_LAST = PassageKind(("first", "last"), " ", " ")
OF_TWO_PIECES = "anna jonesson", "johns smith", "johns mary", "anna smiths"


@pytest.mark.parametrize(
    ("kinds", "columns_by_name"),
    [
        # john before one mask, and before two; a first name of a last name's letters.
        (
            [FULL],
            {
                "john smith": [0, 1],
                "john jones": [0, 2],
                "mary smith": [3, 1],
                "john jonesson": [4, 5],
                "smith john": [6, 7],
                "zoe smith": [-1, -1],
                " smith": [-1, 8],
                "mary ": [9, -1],
                "johns smith": [10, 11],
                "johns jones": [10, 12],
            },
        ),
        # The numbers of pieces of each part differ, their totals are equal.
        ([FIRST_LAST], dict(zip(OF_TWO_PIECES, ([0, 1], [2, 3], [2, 4], [0, 5]), strict=True))),
        ([LAST_FIRST], dict(zip(OF_TWO_PIECES, ([0, 1], [2, 3], [2, 4], [0, 5]), strict=True))),
        (
            [FIRST_LAST],
            {
                "mary smith-jones": [0, 1],
                "johns smiths": [2, 3],
                "mary smiths": [4, 5],
                "mary jones-smith": [0, 6],
            },
        ),
        # A column is shared only if every kind of passage reads it alike.
        ([FULL, LAST_FIRST], {"john smith": [0, 1], "john jones": [0, 2], "anna smith": [3, 1]}),
        ([LAST_ONLY], {"john smith": [-1, 0], "johns smith": [-1, 0], " smith": [-1, 0]}),
        ([LAST_ONLY, FULL], {"john smith": [0, 1], "johns smith": [2, 3], " smith": [-1, 4]}),
        (
            [FULL, LAST_ONLY],
            {"john jonesson": [0, 1], "john smiths": [0, 2], "mary jonesson": [3, 1]},
        ),
    ],
)
def test_parts_that_are_read_at_the_same_masks_share_a_column_and_no_others(
    bert: Any, kinds: list[PassageKind], columns_by_name: dict[str, list[int]]
) -> None:
    names = [tuple(name.split(" ")) for name in columns_by_name]
    assert columns_of(bert, names, *kinds) == list(columns_by_name.values())


def test_pieces_are_counted_and_what_cannot_be_spelled_is_beyond_any_count(
    bert: Any, roberta: Any
) -> None:
    count = piece_counter(bert)
    assert [count("last", part) for part in ("smith", "jonesson", "smith-jones")] == [1, 2, 3]
    assert count("last", "zoe") == UNSPELLABLE
    assert piece_counter(roberta)("first", "John") == 2
    at_start = PassageKind(slots=("full",), separator="", lead="")
    count = piece_counter(roberta, kind=at_start)
    assert count("first", "John") == 1
    assert count("last", "John") == 2  # a space still stands before the part written second
    last_first = PassageKind(slots=("last", "first"), separator=", ", lead="")
    assert piece_counter(roberta, kind=last_first)("last", "John") == 1


# Kinds of passages


def test_kinds_tell_apart_what_decides_pieces_and_masks(bert: Any) -> None:
    texts = (
        "[NAME] was seen",
        "the [NAME] was",
        "[FIRST] [LAST] was",
        "[LAST], [FIRST] was",
        "a [NAME] was",
        "(\u00a0[NAME])",
    )
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    passages = read_passages(lines.encode()).passages
    kinds, of_passage = index_kinds(passages, tokenizer=bert)
    assert of_passage.tolist() == [0, 1, 2, 3, 1, 1]
    assert list(kinds) == [
        FULL,
        FULL_AFTER_SPACE,
        PassageKind(("first", "last"), " ", ""),
        PassageKind(("last", "first"), ", ", ""),
    ]
    assert PassageKind.from_passage(passages[4]) == FULL_AFTER_SPACE


# Templates


# Truncation: room of 8 tokens beside [CLS], [SEP] and a name of 2


@pytest.mark.parametrize(
    ("left", "right", "kept_left", "kept_right"),
    [
        ("", " was seen by dr jones for pain in and of", "", "was seen by dr jones for pain in"),
        ("the patient ", " was seen", "the patient", "was seen"),
        ("mr mrs ", " was seen by dr jones for pain", "mr mrs", "was seen by dr jones for"),
        # Both too long: half the room each, and on the left what stands nearest to the name.
        (
            "john mary anna the patient mr ",
            " was seen by dr jones for",
            "anna the patient mr",
            "was seen by dr",
        ),
        # A short end leaves its room to what stands before.
        (
            "smith john mary anna the patient mr ",
            " was seen",
            "john mary anna the patient mr",
            "was seen",
        ),
        (
            "in in smith john mary anna the patient mr ",
            "",
            "in smith john mary anna the patient mr",
            "",
        ),
    ],
)
def test_what_is_cut_is_farthest_from_the_name(
    bert: Any, left: str, right: str, kept_left: str, kept_right: str
) -> None:
    (template,) = make_templates(
        [passage(left, right)], tokenizer=bert, max_tokens=12, n_name_tokens=2
    )
    assert template.left == (bert.cls_token_id, *token_ids(bert, kept_left))
    assert template.right == (*token_ids(bert, kept_right), bert.sep_token_id)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 6), st.integers(0, 30))
def test_a_row_never_exceeds_the_limit_and_nothing_is_cut_without_need(
    bert: Any, n_left: int, n_right: int, n_name: int, spare: int
) -> None:
    max_tokens = 10 + n_name + spare
    long_passage = passage("the " * n_left, " was" * n_right)
    (template,) = make_templates(
        [long_passage], tokenizer=bert, max_tokens=max_tokens, n_name_tokens=n_name
    )
    ids, positions = template.ids((n_name, 0), mask=bert.mask_token_id)
    assert len(ids) == min(max_tokens, 2 + n_name + n_left + n_right)
    assert len(positions) == n_name
    assert (ids[0], ids[-1]) == (bert.cls_token_id, bert.sep_token_id)
    kept_left = len(template.left) - 1
    assert kept_left >= min(n_left, (max_tokens - 2 - n_name) // 2)


def test_too_little_room_is_refused_with_the_setting_to_change(bert: Any) -> None:
    passages = [passage("the ", " was seen")]
    assert make_templates(passages, tokenizer=bert, max_tokens=12, n_name_tokens=2)
    with pytest.raises(AuditError, match="no room") as refused:
        make_templates(passages, tokenizer=bert, max_tokens=11, n_name_tokens=2)
    assert refused.value.where == "max_tokens"
