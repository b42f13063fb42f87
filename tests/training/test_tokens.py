"""From notes to rows: text by hand, the token file, every token once an epoch, who is held out."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.corpus.truth import ListedNotes
from audit.errors import AuditCancelled, AuditError
from audit.models.load import load_model
from audit.notes.read import NoteSource, open_notes
from audit.training.config import TrainSettings
from audit.training.tokens import (
    Rows,
    SpecialIds,
    Stream,
    TokenFile,
    digest_notes,
    draw_held_out,
    mask_rows,
    prepare_sentences,
    read_or_make_tokens,
    split_notes,
)
from tests.models.make_models import make_bert, make_japanese_bert, make_roberta

CLS, SEP, MASK, EMPTY = 2, 3, 4, -1
SPECIAL = SpecialIds(cls=CLS, sep=SEP, mask=MASK, n_vocabulary=5000)
LONG = "心電図では異常を認めなかったため経過を観察した。"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_model(make_bert(tmp_path_factory.mktemp("model") / "general")).tokenizer


def write_source(path: Path, *notes: dict[str, str] | str) -> NoteSource:
    lines = [{"text": note} if isinstance(note, str) else note for note in notes]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return open_notes(path)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (" \n[**Name**] ___ ", []),
        (
            "Yes. The patient was seen by Dr. Jones\nfor pain.  BP 120.5/80. No pain.\n\n"
            "1. She went home in good health.",
            [
                "Yes. The patient was seen by Dr. Jones for pain. BP 120.5/80. No pain.",
                "She went home in good health.",
            ],
        ),
        (f"胸痛あり。{LONG}退院。", [f"胸痛あり。{LONG}退院。"]),
        (LONG * 2, [LONG, LONG]),
        (
            "She was well at home. Nineteen chars all. Twenty characters so.",
            ["She was well at home. Nineteen chars all.", "Twenty characters so."],
        ),
        ("Seen by Dr. [**Last Name (STitle) 12**] today", ["Seen by Dr. today"]),
        ("1. Aspirin 2.5 mg\n 12) Pain 10.2", ["Aspirin 2.5 mg Pain 10.2"]),
        ("===\na well-known man\n-----", ["a well-known man"]),
        ("open [** placeholder", ["open [** placeholder"]),
        ("[**" + "x" * 200 + "**]a[**" + "y" * 201 + "**]", ["a[**" + "y" * 201 + "**]"]),
    ],
)
def test_sentences_by_hand(text: str, sentences: list[str]) -> None:
    assert prepare_sentences(text) == sentences


def test_a_token_file_by_hand(tmp_path: Path, tokenizer: Any) -> None:
    notes = write_source(
        tmp_path / "n.jsonl",
        {"text": "Pain in the [**Location**] PAIN.", "patient_id": "A"},
        {"text": "___", "patient_id": "A"},
        "",
        {"text": "john was [SEP] seen [MASK]", "patient_id": "B"},
        {"text": "pain", "patient_id": "A"},
        "pain",
        "___",
    )
    tokens = read_or_make_tokens(notes, tokenizer, store=tmp_path / "t")
    words = " ".join(tokenizer.convert_ids_to_tokens(tokens.ids.tolist()))
    assert words == (
        "pain in the pain . [SEP] john was [UNK] seen [UNK] [SEP] pain [SEP] pain [SEP]"
    )
    assert tokens.ends.tolist() == [6, 12, 14, 16] and tokens.lengths.tolist() == [6, 6, 2, 2]
    assert tokens.groups.tolist() == [0, 1, 0, 2] and tokens.missing.tolist() == [1, 2, 6]
    assert tokens.about() == {
        "n_tokens": 16,
        "n_documents": 4,
        "n_empty": 2,
        "n_refused": 1,
        "n_groups": 3,
        "dtype": "uint16",
    }
    assert tokens.n_read == 7
    assert tokens.documents_at(np.arange(7)).tolist() == [0, 1, 2, 3]
    assert tokens.documents_at(np.array([2, 4, 6])).tolist() == [2]
    for path in (tmp_path / "t").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


@pytest.mark.long
def test_every_kind_of_tokenizer_reads_sentences_one_by_one(tmp_path: Path) -> None:
    pytest.importorskip("fugashi")
    japanese = load_model(make_japanese_bert(tmp_path / "ja")).tokenizer
    tokens = read_or_make_tokens(
        write_source(tmp_path / "a", "患者は受診した。"), japanese, store=tmp_path / "t"
    )
    words = japanese.convert_ids_to_tokens(tokens.ids.tolist())
    assert words == ["患者", "は", "受診", "し", "た", "。", "[SEP]"]
    roberta = load_model(make_roberta(tmp_path / "roberta")).tokenizer
    text = "John was seen by Dr. John for pain. The patient went home with John."
    tokens = read_or_make_tokens(write_source(tmp_path / "b", text), roberta, store=tmp_path / "t")
    assert tokens.ids.tolist() == roberta(text, add_special_tokens=False)["input_ids"] + [2]
    large = load_model(make_bert(tmp_path / "large")).tokenizer
    large.add_tokens([f"word{i}" for i in range(70_000)])
    tokens = read_or_make_tokens(
        write_source(tmp_path / "c", "word69999"), large, store=tmp_path / "t"
    )
    assert tokens.ids.dtype == np.uint32
    assert tokens.ids.tolist() == [large.convert_tokens_to_ids("word69999"), SEP]


def test_kept_tokens_are_taken_again_until_something_changes(
    tmp_path: Path, tokenizer: Any
) -> None:
    notes, store = write_source(tmp_path / "n.jsonl", "pain in the john", "___"), tmp_path / "t"
    first = read_or_make_tokens(notes, tokenizer, store=store)
    (token_folder,) = store.iterdir()
    made_at = token_folder.stat().st_ino
    assert read_or_make_tokens(notes, tokenizer, store=store).digest() == first.digest()
    assert token_folder.stat().st_ino == made_at
    for name, damage in (("tokens.bin", b"cut"), ("places.npz", None), ("places.npz", b"[]")):
        (token_folder / name).unlink()
        if damage:
            (token_folder / name).write_bytes(damage)
        reread_tokens = read_or_make_tokens(notes, tokenizer, store=store)
        assert (reread_tokens.ids.tolist(), reread_tokens.missing.tolist()) == (
            first.ids.tolist(),
            [1],
        )
    changed_notes = write_source(tmp_path / "n.jsonl", "pain in the mary")
    assert read_or_make_tokens(changed_notes, tokenizer, store=store).digest() != first.digest()
    cased = load_model(make_bert(tmp_path / "cased", lower_case=False)).tokenizer
    read_or_make_tokens(changed_notes, cased, store=store)
    assert len(list(store.iterdir())) == 3
    with pytest.raises(AuditCancelled):
        read_or_make_tokens(
            changed_notes, tokenizer, store=tmp_path / "none", should_stop=lambda: True
        )
    assert list((tmp_path / "none").glob("*")) == []


def test_a_folder_of_texts_is_told_by_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "notes" / "A").mkdir(parents=True)
    file, digests, counted = tmp_path / "notes" / "A" / "1.txt", set(), list[int]()
    for name, text in (("1.txt", "pain"), ("2.txt", "pain"), ("2.txt", "pains")):
        file = file.rename(file.with_name(name)) if file.exists() else file
        file.write_text(text)
        (tmp_path / "notes" / "A" / "x.md").write_text(text)
        digests.add(digest_notes(tmp_path / "notes", on_bytes=counted.append))
    assert len(digests) == 3 and counted == [4, 4, 5]
    with pytest.raises(AuditError, match="The notes cannot be read"):
        digest_notes(tmp_path / "gone")


def make_token_file(notes: list[list[int]], *, groups: list[int] | None = None) -> TokenFile:
    """Notes of ids, each with its [SEP]; one whose group is EMPTY gave no document."""
    groups = list(range(len(notes))) if groups is None else groups
    note_rows = [i for i, group in enumerate(groups) if group != EMPTY]
    group_codes = sorted({groups[i] for i in note_rows})
    ids = np.array([token for i in note_rows for token in (*notes[i], SEP)], dtype=np.uint16)
    missing = np.array([i for i, group in enumerate(groups) if group == EMPTY], dtype=np.int64)
    ends = np.cumsum([len(notes[i]) + 1 for i in note_rows])
    return TokenFile(
        ids, ends, np.array([group_codes.index(groups[i]) for i in note_rows]), missing
    )


def make_distinct_tokens(lengths: list[int]) -> TokenFile:
    """Notes in which no token is there twice."""
    ends = np.cumsum([10, *lengths]).tolist()
    return make_token_file([list(range(a, b)) for a, b in pairwise(ends)])


def make_rows(tokens: TokenFile, *, n_inner: int, batch: int, seed: int = 0) -> Rows:
    return Rows(Stream(tokens, np.arange(len(tokens.ends))), SPECIAL, n_inner, batch, seed)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=3, max_size=30),
    st.integers(2, 14),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_an_epoch_has_every_token_once_and_borders_are_separators(
    lengths: list[int], n_inner: int, batch: int, seed: int
) -> None:
    tokens = make_distinct_tokens(lengths)
    if len(tokens.ids) < n_inner:
        with pytest.raises(AuditError, match=f"{len(tokens.ids)} tokens to train on, fewer than"):
            make_rows(tokens, n_inner=n_inner, batch=batch)
        return
    rows = make_rows(tokens, n_inner=n_inner, batch=batch, seed=seed)
    n_steps = math.ceil(3 * rows.n_rows / batch)
    token_rows = np.concatenate([rows.of_step(step) for step in range(1, n_steps + 1)])
    for epoch in range(3):
        inner = token_rows[epoch * rows.n_rows : (epoch + 1) * rows.n_rows, 1:-1]
        plain, times = np.unique(inner[inner != SEP], return_counts=True)
        left = len(tokens.ids) - inner.size
        assert (times == 1).all() and 0 <= left < n_inner and sum(lengths) - len(plain) <= left
    ids = tokens.ids.tolist()
    neighbours = {*pairwise([*ids, ids[0]])}
    assert {pair for row in token_rows.tolist() for pair in pairwise(row[1:-1])} <= neighbours
    assert (token_rows[:, 0] == CLS).all() and (token_rows[:, -1] == SEP).all()


def test_any_step_is_known_without_the_ones_before_and_is_the_same_on_every_machine() -> None:
    tokens = make_distinct_tokens([40] * 20)
    for seed, step, begins in (
        (0, 1, [443, 710, 484, 724]),
        (0, 9, [422, 695, 73, 59]),
        (1, 1, [423, 464, 136, 150]),
    ):
        rows = make_rows(tokens, n_inner=14, batch=8, seed=seed)
        assert rows.of_step(step)[:4, 1].tolist() == begins


def list_notes_at(positions: list[int], *, n_notes: int) -> ListedNotes:
    return ListedNotes(n_notes, n_notes, min(1, len(positions)), array("I", positions))


@given(
    st.lists(st.integers(EMPTY, 8), min_size=4, max_size=60),
    st.sets(st.integers(0, 59)),
    st.floats(0.01, 0.5),
    st.integers(0, 5),
)
@settings(max_examples=120, deadline=None)
def test_no_listed_patient_is_held_out_and_the_others_are(
    groups: list[int], picks: set[int], share: float, seed: int
) -> None:
    everybody = set(groups) - {EMPTY}
    positions = sorted(place for place in picks if place < len(groups))
    listed = {groups[place] for place in positions} - {EMPTY}
    if len(everybody) < 2:
        return
    tokens = make_token_file([[100 + group] for group in groups], groups=groups)
    patient_groups = [group for group in groups if group != EMPTY]
    listed_notes = list_notes_at(positions, n_notes=len(groups))
    split = split_notes(tokens, share=share, seed=seed, listed=listed_notes)
    held_out_groups, train_groups = (
        {patient_groups[note] for note in side} for side in (split.held_out, split.train)
    )
    assert (
        listed <= train_groups
        and not held_out_groups & train_groups
        and held_out_groups | train_groups == everybody
    )
    assert sorted([*split.train, *split.held_out]) == list(range(len(patient_groups)))
    n_expected = min(len(everybody) - 1, max(1, round(share * len(everybody))))
    assert len(held_out_groups) == min(
        n_expected, len(everybody - listed)
    ) and split.n_listed == len(listed)
    if not listed:
        unlisted_split = split_notes(tokens, share=share, seed=seed)
        assert unlisted_split.held_out.tolist() == split.held_out.tolist()


def test_who_is_held_out_by_hand() -> None:
    tokens = make_token_file([[9]] * 20)
    assert split_notes(tokens, share=0.2, seed=0).held_out.tolist() == [1, 10, 16, 19]
    assert split_notes(tokens, share=0.0, seed=0).train.tolist() == list(range(20))
    lone_patient = make_token_file([[9], [9]], groups=[0, 0])
    split = split_notes(lone_patient, share=0.1, seed=0, listed=list_notes_at([1], n_notes=2))
    assert (split.train.tolist(), split.held_out.tolist()) == ([0, 1], [])
    assert not len(split_notes(lone_patient, share=0.1, seed=0).held_out)
    three = make_token_file([[9]] * 3, groups=[0, 1, EMPTY])
    with pytest.raises(AuditError, match="has 4 notes, but 3 were read"):
        split_notes(three, share=0.1, seed=0, listed=list_notes_at([1], n_notes=4))


def test_what_is_held_out_is_spread_and_its_baseline_counts_what_is_trained_on() -> None:
    tokens = make_distinct_tokens([4] * 2000)
    split = split_notes(tokens, share=0.5, seed=0)
    train_settings = TrainSettings(n_tokens=8, mask_share=0.3)
    special = SpecialIds(CLS, SEP, MASK, 9000)
    measured = draw_held_out(tokens, split, special=special, settings=train_settings)
    assert measured is not None and measured.rows.ids.shape == (512, 8)
    rows = measured.rows.ids.copy()
    np.put_along_axis(rows, measured.rows.positions, measured.rows.targets, axis=1)
    stream = Stream(tokens, split.held_out).read_ids(np.arange(5000)).tolist()
    row_starts = [stream.index(row[1]) if row[1] != SEP else None for row in rows.tolist()]
    # The first and the last of its 833 rows of 6, and 510 evenly between.
    assert (row_starts[0], row_starts[-1]) == (0, 832 * 6)
    assert {b - a for a, b in pairwise(row_starts) if a is not None and b is not None} == {6, 12}
    token_counts = Counter(Stream(tokens, split.train).read_ids(np.arange(5000)).tolist())
    del token_counts[SEP]
    n = sum(token_counts.values()) + 9000
    targets = measured.rows.targets.ravel().tolist()
    by_hand = -sum(math.log((token_counts[token] + 1) / n) for token in targets) / len(targets)
    assert measured.unigram_loss == pytest.approx(by_hand, rel=1e-12)
    nobody = split_notes(tokens, share=0.0, seed=0)
    assert draw_held_out(tokens, nobody, special=special, settings=train_settings) is None


def test_of_the_asked_80_percent_are_masked_10_replaced_10_kept() -> None:
    rows = np.tile(np.concatenate([[CLS], np.arange(6, 36), [SEP]]), (2000, 1))
    special = SpecialIds(CLS, SEP, MASK, 40)
    masked = mask_rows(rows, special=special, share=0.15, rng=np.random.default_rng(0))
    assert masked.positions.shape == (2000, 5)
    assert (np.take_along_axis(rows, masked.positions, axis=1) == masked.targets).all()
    assert not np.isin(masked.targets, [CLS, SEP]).any()
    assert all(len(set(row)) == 5 for row in masked.positions)
    masked_ids = np.take_along_axis(masked.ids, masked.positions, axis=1)
    n = masked_ids.size
    # Kept: one tenth as it is, and one in forty of the replaced tenth by chance.
    for sign, share in (
        (masked_ids == MASK, 0.8 + 0.1 / 40),
        (masked_ids == masked.targets, 0.1 + 0.1 / 40),
    ):
        assert sign.mean() == pytest.approx(share, abs=4 * (share * (1 - share) / n) ** 0.5)
    untouched = np.ones_like(rows, dtype=bool)
    np.put_along_axis(untouched, masked.positions, False, axis=1)
    assert (masked.ids[untouched] == rows[untouched]).all()
    assert [len(part.ids) for part in masked.parts(900)] == [900, 900, 200]
    assert (np.concatenate([p.targets for p in masked.parts(7)]) == masked.targets).all()
