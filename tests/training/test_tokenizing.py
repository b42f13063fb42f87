"""Text preparation by hand, and notes on their way into a token file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from audit.errors import AuditCancelled, AuditError
from audit.models.load import load_model
from audit.notes.read import open_notes
from audit.training.tokens import (
    cleaned,
    notes_digest,
    prepared_sentences,
    tokenized,
)
from tests.models.make_models import make_bert, make_japanese_bert


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return load_model(make_bert(tmp_path_factory.mktemp("model") / "general")).tokenizer


def source(path, *notes: dict[str, str]):
    path.write_text("".join(json.dumps(note) + "\n" for note in notes), encoding="utf-8")
    return open_notes(path)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("seen by Dr. [**Last Name (STitle) 12**] today", "seen by Dr.   today"),
        ("___ was seen", "  was seen"),
        ("1. Aspirin 2.5 mg\n 12) Pain 10.2\n3.5 mg", "  Aspirin 2.5 mg\n  Pain 10.2\n3.5 mg"),
        ("a well-known man", "a well-known man"),
        ("=====\nPlan\n-----", " \nPlan\n "),
        ("open [** placeholder", "open [** placeholder"),
    ],
)
def test_what_is_dropped(text, clean):
    assert cleaned(text) == clean


def test_sentences_by_hand():
    text = (
        "Yes. The patient was seen by Dr. Jones\nfor pain.  BP 120.5/80. No pain.\n\n"
        "1. She went home in good health."
    )
    assert prepared_sentences(text) == [
        "Yes. The patient was seen by Dr. Jones for pain. BP 120.5/80. No pain.",
        "She went home in good health.",
    ]
    assert prepared_sentences(" \n[**Name**] ___ ") == []


def test_japanese_sentences_by_hand():
    text = "胸痛あり。心電図では異常を認めなかったため経過を観察した。退院。"
    assert prepared_sentences(text) == [
        "胸痛あり。心電図では異常を認めなかったため経過を観察した。退院。"
    ]
    long = "心電図では異常を認めなかったため経過を観察した。"
    assert prepared_sentences(long * 2) == [long, long]


def test_tokens_by_hand(tmp_path, tokenizer):
    notes = source(
        tmp_path / "n.jsonl",
        {"text": "Pain in the [**Location**] PAIN.", "patient_id": "A"},
        {"text": "___", "patient_id": "A"},
        {"text": "john was seen", "patient_id": "B"},
        {"text": "pain", "patient_id": "A"},
        {"text": "pain", "patient_id": ""},
    )
    tokens = tokenized(notes, tokenizer, store=tmp_path / "t")
    words = tokenizer.convert_ids_to_tokens(tokens.ids.tolist())
    assert " ".join(words) == ("pain in the pain . [SEP] john was seen [SEP] pain [SEP] pain [SEP]")
    assert tokens.ends.tolist() == [6, 10, 12, 14]
    assert tokens.lengths.tolist() == [6, 4, 2, 2]
    assert tokens.groups.tolist() == [0, 1, 0, 2]
    assert (tokens.about()["n_empty"], tokens.n_groups) == (1, 3)
    assert tokens.ids.dtype == np.uint16


def test_special_tokens_that_a_note_spells_out_are_no_borders(tmp_path, tokenizer):
    notes = source(tmp_path / "n.jsonl", {"text": "pain [SEP] in [MASK] the"})
    tokens = tokenized(notes, tokenizer, store=tmp_path / "t")
    ids = tokens.ids.tolist()
    assert ids.count(tokenizer.sep_token_id) == 1
    assert tokenizer.mask_token_id not in ids
    assert ids.count(tokenizer.unk_token_id) == 2


def test_japanese_notes(tmp_path):
    pytest.importorskip("fugashi")
    tokenizer = load_model(make_japanese_bert(tmp_path / "m")).tokenizer
    notes = source(tmp_path / "n.jsonl", {"text": "患者は受診した。"})
    tokens = tokenized(notes, tokenizer, store=tmp_path / "t")
    words = tokenizer.convert_ids_to_tokens(tokens.ids.tolist())
    assert words == ["患者", "は", "受診", "し", "た", "。", "[SEP]"]


def test_kept_tokens_are_taken_again_until_something_changes(tmp_path, tokenizer):
    notes = source(tmp_path / "n.jsonl", {"text": "pain in the john"})
    first = tokenized(notes, tokenizer, store=tmp_path / "t")
    (made,) = (tmp_path / "t").iterdir()
    made_at = made.stat().st_ino
    again = tokenized(notes, tokenizer, store=tmp_path / "t")
    assert (again.ids == first.ids).all() and made.stat().st_ino == made_at
    other = source(tmp_path / "n.jsonl", {"text": "pain in the mary"})
    tokenized(other, tokenizer, store=tmp_path / "t")
    assert len(list((tmp_path / "t").iterdir())) == 2
    cased = load_model(make_bert(tmp_path / "cased", lower_case=False)).tokenizer
    tokenized(other, cased, store=tmp_path / "t")
    assert len(list((tmp_path / "t").iterdir())) == 3


def test_tokens_that_are_cut_off_are_made_again(tmp_path, tokenizer):
    notes = source(tmp_path / "n.jsonl", {"text": "pain in the john"})
    ids = tokenized(notes, tokenizer, store=tmp_path / "t").ids.tolist()
    (folder,) = (tmp_path / "t").iterdir()
    (folder / "tokens.bin").write_bytes(b"cut")
    assert tokenized(notes, tokenizer, store=tmp_path / "t").ids.tolist() == ids


def test_cancelled_it_leaves_nothing(tmp_path, tokenizer):
    notes = source(tmp_path / "n.jsonl", {"text": "pain"})
    with pytest.raises(AuditCancelled):
        tokenized(notes, tokenizer, store=tmp_path / "t", should_stop=lambda: True)
    assert list((tmp_path / "t").glob("*")) == []


def test_large_vocabularies_need_four_bytes(tmp_path):
    tokenizer = load_model(make_bert(tmp_path / "large")).tokenizer
    tokenizer.add_tokens([f"word{i}" for i in range(70_000)])
    notes = source(tmp_path / "n.jsonl", {"text": "word69999"})
    tokens = tokenized(notes, tokenizer, store=tmp_path / "t")
    last = tokenizer.convert_tokens_to_ids("word69999")
    assert last > 1 << 16 and tokens.ids.dtype == np.uint32
    assert tokens.ids.tolist() == [last, tokenizer.sep_token_id]


def test_files_are_private_and_refusals_plain(tmp_path, tokenizer):
    notes = source(tmp_path / "n.jsonl", {"text": "pain"})
    tokenized(notes, tokenizer, store=tmp_path / "t")
    assert (tmp_path / "t").stat().st_mode & 0o077 == 0
    (folder,) = (tmp_path / "t").iterdir()
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))
    with pytest.raises(AuditError, match="cannot be read"):
        notes_digest(tmp_path / "gone")


def test_a_folder_of_texts_is_told_by_names_and_contents(tmp_path):
    folder = tmp_path / "notes"
    (folder / "A").mkdir(parents=True)
    (folder / "A" / "1.txt").write_text("pain")
    one = notes_digest(folder)
    (folder / "A" / "1.txt").rename(folder / "A" / "2.txt")
    assert notes_digest(folder) != one
