"""Rows: every token counts once, where it has most beside it; padding changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.network.decode import characters_of, places_of
from audit.deid.network.model import batches_of, new_model, rows_of, scores_of
from audit.notes.spans import TYPES
from tests.deid.token.make_notes import SMALL, notes

SIZES = st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n // 2)))


@given(st.integers(0, 200), SIZES)
def test_every_token_counts_in_one_row(n_tokens, sizes):
    size, overlap = sizes
    rows = rows_of(0, n_tokens=n_tokens, size=size, overlap=overlap)
    counted = [at for row in rows for at in range(row.first, row.last)]
    assert counted == list(range(n_tokens))
    for row in rows:
        assert row.start <= row.first < row.last <= row.end <= n_tokens
        assert row.end - row.start == min(size, n_tokens)
        # What counts has half the overlap beside it, but at the ends of the note.
        assert row.start == 0 or row.first - row.start >= overlap // 2
        assert row.end == n_tokens or row.end - row.last == overlap // 2


@given(st.lists(st.integers(1, 300), max_size=50))
def test_every_row_is_in_one_batch_the_longest_first(lengths):
    rows = [row for i, n in enumerate(lengths)
            for row in rows_of(i, n_tokens=n, size=100, overlap=10)]  # fmt: skip
    batches = list(batches_of(rows))
    assert sorted(row for batch in batches for row in batch) == sorted(rows)
    sizes = [row.end - row.start for batch in batches for row in batch]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(("size", "overlap"), [(4, 3), (0, 0), (4, -1)])
def test_rows_that_never_end_are_refused(size, overlap):
    with pytest.raises(ValueError, match="overlap"):
        rows_of(0, n_tokens=9, size=size, overlap=overlap)


@pytest.fixture(scope="module")
def model():
    reader = characters_of([one.text for one in notes(8)], n_most=200, n_times=1)
    made = new_model(reader, shape=SMALL, n_tags=1 + 2 * len(TYPES), seed=1)
    made.module.eval()
    return made


def test_padding_changes_no_score(model):
    short, long = model.reader.read(["山田 03-1", "氏名：山田太郎 " * 9])
    with torch.inference_mode():
        together, alone = model.logits([long, short]), model.logits([short])
    n = alone.shape[1]
    torch.testing.assert_close(together[1, :n], alone[0], rtol=0, atol=1e-5)


def test_rows_that_share_twice_the_reach_score_like_the_whole_note(model):
    reach = model.module.reach
    (tokens,) = model.reader.read(["氏名：山田太郎　様\nID 1000 電話：03-0000-55。" * 6])
    (whole,) = scores_of([tokens], model=model, size=len(tokens) + 2, overlap=0)
    (cut,) = scores_of([tokens], model=model, size=6 * reach, overlap=2 * reach)
    (small,) = scores_of([tokens], model=model, size=8, overlap=0)
    np.testing.assert_allclose(cut, whole, rtol=0, atol=1e-4)
    assert np.abs(small - whole).max() > 0.01
    assert len(whole) == len(places_of(tokens)) < len(tokens)
