"""Rows by hand and as properties: every token once an epoch, borders, who is held out."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.training.config import TrainSettings
from audit.training.tokens import (
    MOST_HELD_OUT_ROWS,
    Rows,
    SpecialIds,
    Stream,
    TokenFile,
    held_out,
    held_out_rows,
    split_notes,
    unigram_loss,
)

CLS, SEP, MASK = 2, 3, 4
SPECIAL = SpecialIds(cls=CLS, sep=SEP, mask=MASK, sentence_ends=(), n_vocabulary=5000)


def tokens_of(notes: list[list[int]], *, groups: list[int] | None = None) -> TokenFile:
    ids = np.array([i for note in notes for i in (*note, SEP)], dtype=np.uint16)
    ends = np.cumsum([len(note) + 1 for note in notes])
    groups = list(range(len(notes))) if groups is None else groups
    return TokenFile(ids, ends, np.array(groups))


def numbered(lengths: list[int]) -> TokenFile:
    """Notes in which no token is there twice."""
    at = 10
    notes = []
    for n in lengths:
        notes.append(list(range(at, at + n)))
        at += n
    return tokens_of(notes)


def rows_of(tokens: TokenFile, *, n_inner: int, batch: int, seed: int = 0) -> Rows:
    stream = Stream(tokens, np.arange(len(tokens.ends)))
    return Rows(stream, SPECIAL, n_inner, batch, seed)


def test_a_stream_by_hand():
    tokens = tokens_of([[10, 11], [20], [30, 31, 32]])
    stream = Stream(tokens, np.array([0, 2]))
    assert len(stream) == 7
    assert stream.at(np.arange(7)).tolist() == [10, 11, SEP, 30, 31, 32, SEP]
    assert stream.at(np.array([[6, 0], [3, 2]])).tolist() == [[SEP, 10], [30, SEP]]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=3, max_size=30),
    n_inner=st.integers(2, 14),
    batch=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_an_epoch_has_every_token_once_and_borders_are_separators(lengths, n_inner, batch, seed):
    tokens = numbered(lengths)
    if len(tokens.ids) < n_inner:
        return
    rows = rows_of(tokens, n_inner=n_inner, batch=batch, seed=seed)
    n_epochs = 3
    n_steps = math.ceil(n_epochs * rows.n_rows / batch)
    seen = np.concatenate([rows.of_step(step) for step in range(1, n_steps + 1)])
    for epoch in range(n_epochs):
        inner = seen[epoch * rows.n_rows : (epoch + 1) * rows.n_rows, 1:-1]
        plain, times = np.unique(inner[inner != SEP], return_counts=True)
        assert (times == 1).all()
        left = len(tokens.ids) - inner.size
        assert 0 <= left < n_inner
        assert sum(lengths) - len(plain) <= left
    ids = tokens.ids.tolist()
    # Only neighbours in the notes, and a [SEP] at each border.
    neighbours = {(ids[k], ids[(k + 1) % len(ids)]) for k in range(len(ids))}
    assert {pair for row in seen.tolist() for pair in pairwise(row[1:-1])} <= neighbours
    assert (seen[:, 0] == CLS).all() and (seen[:, -1] == SEP).all()


def test_any_step_is_known_without_the_ones_before():
    tokens = numbered([40] * 20)
    rows = rows_of(tokens, n_inner=14, batch=8)
    in_order = [rows.of_step(step) for step in range(1, 30)]
    for step in (29, 3, 17):
        fresh = rows_of(tokens, n_inner=14, batch=8)
        assert (fresh.of_step(step) == in_order[step - 1]).all()
    assert not (rows_of(tokens, n_inner=14, batch=8, seed=1).of_step(1) == in_order[0]).all()


def test_epochs_begin_at_other_tokens():
    tokens = numbered([500])
    rows = rows_of(tokens, n_inner=10, batch=rows_of(tokens, n_inner=10, batch=1).n_rows)
    begins = [sorted(rows.of_step(epoch)[:, 1])[1] for epoch in range(1, 12)]
    assert len(set(begins)) > 3


def test_too_few_tokens_are_refused():
    with pytest.raises(AuditError, match="4 tokens to train on, fewer than one row of 5"):
        rows_of(tokens_of([[10, 11, 12]]), n_inner=5, batch=1)


@given(
    groups=st.lists(st.integers(0, 8), min_size=12, max_size=60),
    share=st.floats(0.01, 0.5),
    seed=st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_a_held_out_patient_is_in_no_training_row(groups, share, seed):
    known = sorted(set(groups))
    groups = [known.index(group) for group in groups]
    tokens = tokens_of([[100 + group] * 6 for group in groups], groups=groups)
    if len(known) < 2:
        return
    split = split_notes(tokens, share=share, seed=seed)
    out = {groups[i] for i in split.held_out}
    assert len(out) == min(len(known) - 1, max(1, round(share * len(known))))
    assert sorted([*split.train, *split.held_out]) == list(range(len(groups)))
    rows = Rows(Stream(tokens, split.train), SPECIAL, 6, 4, seed)
    n_steps = 2 * rows.n_rows // 4 + 1
    seen = {int(i) for step in range(1, n_steps + 1) for i in rows.of_step(step).ravel()}
    assert not seen & {100 + group for group in out}
    again = split_notes(tokens, share=share, seed=seed)
    assert (again.held_out == split.held_out).all()


def test_nothing_is_held_out_where_nothing_is_wanted():
    split = split_notes(tokens_of([[10]] * 3), share=0.0, seed=0)
    assert split.train.tolist() == [0, 1, 2]
    assert not len(split.held_out)
    with pytest.raises(AuditError, match="of one patient"):
        split_notes(tokens_of([[10], [11]], groups=[0, 0]), share=0.1, seed=0)


def test_held_out_rows_are_spread_and_bounded():
    tokens = numbered([4] * 900)
    stream = Stream(tokens, np.arange(900))
    rows = held_out_rows(stream, special=SPECIAL, n_inner=5)
    assert rows.shape == (MOST_HELD_OUT_ROWS, 7)
    assert rows[0, 1] == 10 and rows[-1, 1] == tokens.ids[899 * 5]
    assert len(np.unique(rows[:, 1])) == MOST_HELD_OUT_ROWS
    short = held_out_rows(Stream(tokens, np.array([0])), special=SPECIAL, n_inner=50)
    assert short.tolist() == [[CLS, 10, 11, 12, 13, SEP, SEP]]


def test_unigram_loss_by_hand():
    counts = np.array([0, 3, 1])
    expected = -(2 * math.log(4 / 7) + math.log(1 / 7)) / 3
    assert unigram_loss(counts, np.array([[1, 1, 0]])) == pytest.approx(expected)


def test_the_baseline_counts_only_what_is_trained_on():
    tokens = tokens_of([[10] * 30, [11] * 30, [12] * 30])
    special = SpecialIds(cls=CLS, sep=SEP, mask=MASK, sentence_ends=(), n_vocabulary=20)
    split = split_notes(tokens, share=0.34, seed=0)
    measured = held_out(tokens, split, special=special, settings=TrainSettings(n_tokens=12))
    # Its words do not occur in the training: one of 60 tokens and 20 words, each raised by one.
    assert measured.unigram_loss == pytest.approx(math.log(80))
    assert set(measured.rows.targets.ravel()) == {10 + int(split.held_out[0])}


def test_counts_against_numpy(monkeypatch):
    monkeypatch.setattr("audit.training.tokens._CHUNK", 7)
    tokens = tokens_of([[10, 11, 11], [12] * 20, [13]])
    counts = Stream(tokens, np.array([0, 1])).counts(60)
    assert (counts == np.bincount([10, 11, 11, SEP, *[12] * 20, SEP], minlength=60)).all()
