"""Prompts: pieces of names in their context, masks, and passages cut to the model's length."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.prompts import Template, kinds_of, part_columns, passage_kind, passage_templates
from audit.errors import AuditError
from audit.models.load import load_model
from audit.names.candidates import make_candidates
from audit.names.spelling import (
    NO_PART,
    UNSPELLABLE,
    PassageKind,
    part_pieces,
    piece_counter,
    token_ids,
)
from audit.notes.passages import Passage, read_passages
from tests.models.make_models import make_bert, make_japanese_bert, make_roberta
from tests.reference_masking import plain_model, spell


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


def test_parts_at_the_same_masks_share_a_column_and_no_others(bert: Any) -> None:
    names = [
        ("john", "smith"), ("john", "jones"), ("mary", "smith"),
        ("john", "jonesson"),  # two pieces: john stands before more masks
        ("anna", "Smith"), ("smith", "john"), ("zoe", "smith"), ("", "smith"), ("mary", ""),
        ("johns", "smith"),  # smith stands behind two masks
        ("smiths", "jones"), ("johns", "jones"),
    ]  # fmt: skip
    john, smith, jones, mary = 0, 1, 2, 3
    assert columns_of(bert, names, FULL) == [
        [john, smith], [john, jones], [mary, smith], [4, 5], [6, smith],
        [7, 8],  # a first name of the same letters is another part
        [NO_PART, NO_PART], [NO_PART, 9], [10, NO_PART], [11, 12], [13, 14], [11, 14],
    ]  # fmt: skip


def test_what_stands_between_parts_tells_masks_apart(bert: Any) -> None:
    # Totals are equal, numbers of pieces of each part are not.
    names = [("anna", "jonesson"), ("johns", "smith"), ("johns", "mary"), ("anna", "smiths")]
    first_last = PassageKind(("first", "last"), " ", " ")
    assert columns_of(bert, names, first_last) == [[0, 1], [2, 3], [2, 4], [0, 5]]
    # anna is at the third mask of "jonesson, anna" and of "smiths, anna".
    assert columns_of(bert, names, LAST_FIRST) == [[0, 1], [2, 3], [2, 4], [0, 5]]
    # Of one total where nothing stands between; with a comma names of 1 + 3 pieces are apart.
    more = [("mary", "smith-jones"), ("johns", "smiths"), ("mary", "smiths")]
    shared = columns_of(bert, [*more, ("mary", "jones-smith")], first_last)
    assert shared == [[0, 1], [2, 3], [4, 5], [0, 6]]


def test_a_column_is_shared_only_if_every_kind_of_passage_reads_it_alike(bert: Any) -> None:
    names = [("john", "smith"), ("john", "jones"), ("anna", "smith")]
    assert columns_of(bert, names, FULL) == columns_of(bert, names, FULL, LAST_FIRST)
    two_pieces = [("john", "jonesson"), ("john", "smiths"), ("mary", "jonesson")]
    only_last = PassageKind(("last",), "", " ")
    assert columns_of(bert, two_pieces, only_last) == [[-1, 0], [-1, 1], [-1, 0]]
    assert columns_of(bert, two_pieces, FULL, only_last) == [[0, 1], [0, 2], [3, 1]]
    # smith alone is one reading, smith behind one or two masks two others.
    behind = [("john", "smith"), ("johns", "smith"), ("", "smith")]
    assert columns_of(bert, behind, only_last) == [[-1, 0]] * 3
    assert columns_of(bert, behind, only_last, FULL) == [[0, 1], [2, 3], [-1, 4]]


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


def test_kinds_tell_apart_what_decides_pieces_and_masks() -> None:
    texts = (
        "[NAME] was seen", "the [NAME] was", "[FIRST] [LAST] was", "[LAST], [FIRST] was",
        "a [NAME] was", "(\u00a0[NAME])",
    )  # fmt: skip
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    passages = read_passages(lines.encode()).passages
    kinds, of_passage = kinds_of(passages)
    assert of_passage.tolist() == [0, 1, 2, 3, 1, 1]
    assert list(kinds) == [
        FULL, FULL_AFTER_SPACE, PassageKind(("first", "last"), " ", ""),
        PassageKind(("last", "first"), ", ", ""),
    ]  # fmt: skip
    assert passage_kind(passages[4]) == FULL_AFTER_SPACE


# Templates


@settings(deadline=None)
@given(
    st.lists(st.integers(10, 99), min_size=1, max_size=6),
    st.lists(st.integers(10, 99), max_size=3),
    st.lists(st.integers(10, 99), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_positions_are_exactly_those_of_the_masks(
    left: list[int], between: list[int], right: list[int], first: int, second: int
) -> None:
    template = Template(tuple(left), tuple(between), tuple(right))
    ids, positions = template.ids((first, second), mask=4)
    assert positions == [place for place, token in enumerate(ids) if token == 4]
    assert len(positions) == first + second
    shown = between if second else []
    assert [token for token in ids if token != 4] == [*left, *shown, *right]


@pytest.mark.parametrize("kind", ["bert", "roberta", "japanese"])
def test_templates_with_masks_equal_the_slow_reference(kind: str, tmp_path: Path) -> None:
    make = {"bert": make_bert, "roberta": make_roberta, "japanese": make_japanese_bert}[kind]
    plain = plain_model(make(tmp_path / "m"))
    tokenizer = load_model(tmp_path / "m").tokenizer
    if kind == "japanese":
        names = [("花子", "山田"), ("太郎", "佐藤さん")]
        passages = [passage("患者", "は受診した。"), passage("", "を診察", ("last", "first"), "")]
    else:
        names = [("john", "smith"), ("anna", "jonesson"), ("", "smiths")]
        passages = [
            passage("", " was seen."),
            passage("the patient ", ", seen by dr"),
            passage("in pain: ", "'s pain", ("last", "first"), ", "),
        ]
    templates = passage_templates(passages, tokenizer=tokenizer, max_tokens=64, n_name_tokens=20)
    for one, template in zip(passages, templates, strict=True):
        pieces = part_pieces(make_candidates(names), kind=passage_kind(one), tokenizer=tokenizer)
        for row, name in enumerate(names):
            expected = spell(plain, one, name)
            n = (int(pieces.n_pieces[row, 0]), int(pieces.n_pieces[row, 1]))
            ids, positions = template.ids(n, mask=tokenizer.mask_token_id)
            for place, piece in zip(positions, pieces.ids[row][pieces.ids[row] >= 0], strict=True):
                ids[place] = int(piece)
            joined = list(expected.left)
            for k, part in enumerate(expected.parts):
                joined += (expected.between if k else []) + part
            assert ids == joined + expected.right


# Truncation: room of 8 tokens beside [CLS], [SEP] and a name of 2


@pytest.mark.parametrize(
    ("left", "right", "kept_left", "kept_right"),
    [
        ("", " was seen by dr jones for pain in and of", "", "was seen by dr jones for pain in"),
        ("the patient ", " was seen", "the patient", "was seen"),
        ("mr mrs ", " was seen by dr jones for pain", "mr mrs", "was seen by dr jones for"),
        # Both too long: half the room each, and on the left what stands nearest to the name.
        ("john mary anna the patient mr ", " was seen by dr jones for", "anna the patient mr",
         "was seen by dr"),
        # A short end leaves its room to what stands before.
        ("smith john mary anna the patient mr ", " was seen", "john mary anna the patient mr",
         "was seen"),
        ("in in smith john mary anna the patient mr ", "", "in smith john mary anna the patient mr",
         ""),
    ],
)  # fmt: skip
def test_what_is_cut_is_farthest_from_the_name(
    bert: Any, left: str, right: str, kept_left: str, kept_right: str
) -> None:
    (template,) = passage_templates(
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
    one = passage("the " * n_left, " was" * n_right)
    (template,) = passage_templates(
        [one], tokenizer=bert, max_tokens=max_tokens, n_name_tokens=n_name
    )
    ids, positions = template.ids((n_name, 0), mask=bert.mask_token_id)
    assert len(ids) == min(max_tokens, 2 + n_name + n_left + n_right)
    assert len(positions) == n_name
    assert (ids[0], ids[-1]) == (bert.cls_token_id, bert.sep_token_id)
    kept_left = len(template.left) - 1
    assert kept_left >= min(n_left, (max_tokens - 2 - n_name) // 2)


def test_too_little_room_is_refused_with_the_setting_to_change(bert: Any) -> None:
    one = [passage("the ", " was seen")]
    assert passage_templates(one, tokenizer=bert, max_tokens=12, n_name_tokens=2)
    with pytest.raises(AuditError, match="no room") as refused:
        passage_templates(one, tokenizer=bert, max_tokens=11, n_name_tokens=2)
    assert refused.value.where == "max_tokens"
