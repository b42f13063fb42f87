"""Nobody on the candidate list is held out: as a property, by hand, and in a whole training."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.corpus.truth import ListedNotes, listed_bytes
from audit.errors import AuditError
from audit.models.load import load_model
from audit.notes.read import open_notes
from audit.training.masked_lm import train
from audit.training.tokens import MISSING, TokenFile, split_notes, tokenized
from tests.models.make_models import make_bert
from tests.training.make_training import make_order, same_weights

EMPTY = -1


def tokens_of(groups: list[int]) -> TokenFile:
    """Return one token a note; a note of the group EMPTY gave no document."""
    there = [group for group in groups if group != EMPTY]
    known = sorted(set(there))
    missing = [place for place, group in enumerate(groups) if group == EMPTY]
    numbers = np.array([known.index(group) for group in there], dtype=np.int64)
    ends = np.arange(1, len(there) + 1)
    ids = np.array(there, dtype=np.uint16)
    return TokenFile(ids, ends, numbers, np.array(missing, dtype=np.int64))


def listed_at(positions: list[int], *, n_notes: int) -> ListedNotes:
    n = min(1, len(positions))  # counts of patients are for plans only
    return ListedNotes(n_notes, n_notes, n, array("I", positions))


@given(
    groups=st.lists(st.integers(EMPTY, 8), min_size=4, max_size=60),
    picks=st.sets(st.integers(0, 59)),
    share=st.floats(0.01, 0.5),
    seed=st.integers(0, 5),
)
@settings(max_examples=150, deadline=None)
def test_no_listed_patient_is_held_out_and_the_others_are(
    groups: list[int], picks: set[int], share: float, seed: int
) -> None:
    everybody = {group for group in groups if group != EMPTY}
    positions = sorted(place for place in picks if place < len(groups))
    listed = {groups[place] for place in positions} - {EMPTY}
    if len(everybody) < 2:
        return
    tokens = tokens_of(groups)
    found = listed_at(positions, n_notes=len(groups))
    split = split_notes(tokens, share=share, seed=seed, listed=found)
    out = {int(tokens.ids[note]) for note in split.held_out}
    kept = {int(tokens.ids[note]) for note in split.train}
    assert listed <= kept and not out & kept and out | kept == everybody
    wanted = min(len(everybody) - 1, max(1, round(share * len(everybody))))
    assert len(out) == min(wanted, len(everybody - listed))
    assert split.n_listed == len(listed)
    if not listed:
        before = split_notes(tokens, share=share, seed=seed)
        assert before.held_out.tolist() == split.held_out.tolist()


def test_a_single_patient_who_is_listed_is_trained_on() -> None:
    tokens = tokens_of([0, 0])
    split = split_notes(tokens, share=0.1, seed=0, listed=listed_at([1], n_notes=2))
    assert (split.train.tolist(), split.held_out.tolist()) == ([0, 1], [])
    with pytest.raises(AuditError, match="of one patient"):
        split_notes(tokens, share=0.1, seed=0, listed=listed_at([], n_notes=2))


def test_a_list_of_other_notes_is_refused() -> None:
    with pytest.raises(AuditError, match="has 4 notes, but 3 were read"):
        split_notes(tokens_of([0, 1, EMPTY]), share=0.1, seed=0, listed=listed_at([1], n_notes=4))


def test_rows_that_give_no_document_move_the_others(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    texts = ["the pain", "___", "", "pain in the john", "the", "___", "pain"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = load_model(make_bert(tmp_path / "m")).tokenizer
    tokens = tokenized(open_notes(path), tokenizer, store=tmp_path / "t")
    assert tokens.missing.tolist() == [1, 2, 5]
    assert (tokens.about()["n_empty"], tokens.n_refused, tokens.n_read) == (2, 1, 7)
    assert tokens.documents_at(np.arange(7)).tolist() == [0, 1, 2, 3]
    assert tokens.documents_at(np.array([2, 4, 6])).tolist() == [2, 3]
    # Tokens that were kept before places were: made again.
    (file,) = (tmp_path / "t").glob(f"*/{MISSING}")
    file.unlink()
    again = tokenized(open_notes(path), tokenizer, store=tmp_path / "t")
    assert again.missing.tolist() == [1, 2, 5] and file.exists()


def write_listed(folder: Path, positions: list[int], *, n_notes: int = 40) -> Path:
    path = folder / "listed.json"
    path.write_bytes(listed_bytes(listed_at(positions, n_notes=n_notes)))
    return path


def test_trainings_with_a_list(tmp_path: Path) -> None:
    # 40 notes of 20 patients: note k is patient k % 20's. The list lies beside the notes.
    plain = train(make_order(tmp_path, out="plain", n_steps=4))
    write_listed(tmp_path, list(range(19)))
    some = make_order(tmp_path, out="some", n_steps=4)
    result = train(some)
    assert (result.facts.n_documents, result.facts.n_held_out_documents) == (38, 2)
    assert result.facts.n_listed_patients == 19
    assert result.held_out is not None
    assert not same_weights(plain.folder / "model", result.folder / "model")
    # The list decides the weights: another one is another training.
    write_listed(tmp_path, list(range(20)))
    with pytest.raises(AuditError, match="another training"):
        train(some)
    result = train(make_order(tmp_path, out="all", n_steps=4))
    assert (result.held_out, result.first_held_out, result.facts.unigram_loss) == (None, None, None)
    assert (result.facts.n_documents, result.facts.n_held_out_documents) == (40, 0)
    write_listed(tmp_path, [1], n_notes=41)
    with pytest.raises(AuditError, match="has 41 notes, but 40 were read"):
        train(make_order(tmp_path, out="other", n_steps=4))
    # Where nothing is to be held out, the list is not asked for.
    order = make_order(tmp_path, out="none", n_steps=4, held_out_share=0.0)
    assert train(order).n_steps_done == 4
