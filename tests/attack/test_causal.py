"""Causal models: evidence of names against one name at a time, and whole audits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.contexts import (
    ContinuationTask,
    NameTokens,
    find_last_boundary,
    list_ending_tokens,
    list_first_tokens,
    make_continuation_task,
)
from audit.attack.continuation import ContinuationShard, make_continuation_shard
from audit.attack.exposure import count_tries
from audit.attack.sampling import (
    SamplingTask,
    make_recall_shard,
    truncate_distribution,
    write_shard,
)
from audit.errors import AuditError
from audit.models.causal_pass import CausalForward
from audit.models.load import LoadedModel, load_model
from audit.names.candidates import make_candidates
from audit.names.spelling import RUNNING_TEXT, part_pieces
from audit.notes.passages import read_passages
from tests.models.make_causal import CAUSAL, make_causal

NAMES = make_candidates(
    [
        ("Ann", "Smith"),
        ("Anna", "Smith"),
        ("John", "O'Brien"),
        ("Zoë", "Núñez"),
        ("Mary Ann", "St. John"),
        ("Jo", "Hn"),
        ("", "Smith"),
    ]
)
PASSAGES = b"""text
"mr [NAME] was seen"
"Patient: [NAME], seen by Dr. John"
"Note for ([NAME]) of today"
"[NAME] is at home"
"name : [LAST], [FIRST] . pain"
"""


def load(folder: Path, name: str) -> LoadedModel:
    windows = {"sliding_window": 64} if name.startswith("gemma") else {}
    return load_model(make_causal(folder / name.replace(" ", "-"), name, **windows))


def make_task(loaded: LoadedModel, **fields: Any) -> ContinuationTask:
    pieces = part_pieces(NAMES, kind=RUNNING_TEXT, tokenizer=loaded.tokenizer)
    passages = read_passages(PASSAGES, subject="passages", file_name="p.csv").passages
    options = {"is_known": pieces.is_known, "n_listed": len(NAMES), "max_tokens": 64} | fields
    return make_continuation_task(
        NAMES, passages, tokenizer=loaded.tokenizer, header="", seed=3, **options
    )


def make_shard(loaded: LoadedModel, task: ContinuationTask) -> ContinuationShard:
    return make_continuation_shard(
        CausalForward(loaded), task, shard=0, first=0, n=99, device="cpu", tick=lambda n: None
    )


def write_full_name(first: str, last: str, *, is_turned: bool) -> str:
    parts = [last, first] if is_turned else [first, last]
    return (", " if is_turned else " ").join(filter(None, parts))


def expected_log_p(
    loaded: LoadedModel, text: str, name: str, n_context: int, *, has_end: bool = True
) -> float:
    """Return ln p of a name by one pass over the whole string, as the tokenizer splits it."""
    tokenizer = loaded.tokenizer
    beginning = list_first_tokens(tokenizer)
    ids = [*beginning, *tokenizer(text + name, add_special_tokens=False)["input_ids"]]
    with torch.inference_mode():
        log_p = torch.log_softmax(loaded.model(torch.tensor([ids])).logits[0].double(), dim=-1)
    scored = range(n_context, len(ids))
    ending = torch.from_numpy(list_ending_tokens(tokenizer))
    ended = log_p[-1, ending].logsumexp(dim=0) if has_end else 0.0
    return float(sum(log_p[place - 1, ids[place]] for place in scored) + ended)


@pytest.mark.parametrize("name", ["llama", "llama 3", "gpt2", "llama with biases", "gemma3_text"])
def test_a_name_has_the_probability_of_its_own_tokens_in_the_whole_string(
    name: str, tmp_path: Path
) -> None:
    loaded = load(tmp_path, name)
    task = make_task(loaded)
    shard = make_shard(loaded, task)
    passages = read_passages(PASSAGES, subject="passages", file_name="p.csv").passages
    n_compared = 0
    for number, passage in enumerate(passages):
        is_turned = passage.slots == ("last", "first")
        for row in np.flatnonzero(task.is_known).tolist():
            full = write_full_name(NAMES.first[row], NAMES.last[row], is_turned=is_turned)
            expected = expected_log_p(loaded, passage.left, full, len(task.contexts[number]))
            actual = shard.passage_sum_log_p[number, row]
            assert actual == pytest.approx(expected, abs=1e-4)
            n_compared += 1
    assert n_compared >= 25
    assert np.isnan(shard.passage_sum_log_p[:, ~task.is_known]).all()
    name_sums = shard.sum_log_p.sum(axis=1)[:, task.is_known]
    by_passage = shard.passage_sum_log_p[:, task.is_known]
    np.testing.assert_allclose(name_sums.sum(axis=0), by_passage.sum(axis=0))
    np.testing.assert_allclose(
        shard.sum_p[:, task.is_known].sum(axis=0), np.exp(by_passage).sum(axis=0)
    )


@pytest.mark.parametrize("name", ["llama 3", "llama with biases", "qwen2"])
def test_a_name_without_spaces_has_no_end_of_a_word(name: str, tmp_path: Path) -> None:
    loaded = load(tmp_path, name)
    names = make_candidates([("太郎", "山田"), ("花子", "山田"), ("一", "林")])
    data = "text\n診療科は内科。[NAME]は四十歳\n[NAME]様\n".encode()
    passages = read_passages(data, subject="passages", file_name="p.csv").passages
    task = make_continuation_task(
        names,
        passages,
        tokenizer=loaded.tokenizer,
        is_known=np.ones(len(names), dtype=np.bool_),
        n_listed=len(names),
        max_tokens=64,
        header="",
        seed=3,
    )
    assert task.is_known.all()
    shard = make_shard(loaded, task)
    for number, passage in enumerate(passages):
        for row in range(len(names)):
            full = names.last[row] + names.first[row]
            expected = expected_log_p(
                loaded, passage.left, full, len(task.contexts[number]), has_end=False
            )
            assert shard.passage_sum_log_p[number, row] == pytest.approx(expected, abs=1e-4)


def test_the_scored_tokens_begin_before_the_last_boundary_for_every_name(tmp_path: Path) -> None:
    loaded = load(tmp_path, "llama 3")
    task = make_task(loaded)
    passages = read_passages(PASSAGES, subject="passages", file_name="p.csv").passages
    for passage, context in zip(passages, task.contexts, strict=True):
        beginning = len(list_first_tokens(loaded.tokenizer))
        text = loaded.tokenizer.decode(
            context[beginning:], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        assert passage.left.startswith(text)
        assert len(text) <= find_last_boundary(passage.left)


@given(st.text(alphabet="aB1 (山か,", max_size=12))
@settings(deadline=None)
def test_the_last_boundary_is_no_place_inside_white_space_or_a_word(text: str) -> None:
    place = find_last_boundary(text)
    tail = text[place:]
    assert 0 <= place <= len(text)
    if tail and tail[0].isspace():
        assert not tail.strip()
        assert not text[:place][-1:].isspace()
    else:
        assert len({ch.isalpha() for ch in tail}) <= 1


def test_a_long_context_loses_its_beginning_and_a_short_room_is_refused(tmp_path: Path) -> None:
    loaded = load(tmp_path, "llama 3")
    long_task, short_task = make_task(loaded), make_task(loaded, max_tokens=40)
    for context, short_context in zip(long_task.contexts, short_task.contexts, strict=True):
        assert len(short_context) <= len(context)
        assert short_context[0] == context[0]
        n = len(short_context) - 1
        assert n == 0 or context[-n:] == short_context[-n:]
    with pytest.raises(AuditError, match="no room"):
        make_task(loaded, max_tokens=12)


def test_a_name_that_begins_another_name_does_not_leak_with_it(tmp_path: Path) -> None:
    """The model is bent until it writes Anna: the chance of Ann hardly rises."""
    loaded = load(tmp_path, "llama 3")
    task = make_task(loaded)
    first_log_p = make_shard(loaded, task).passage_sum_log_p[0]
    anna = loaded.tokenizer("mr Anna Smith was seen", add_special_tokens=False)["input_ids"]
    ids = torch.tensor([[*list_first_tokens(loaded.tokenizer), *anna]])
    optimizer = torch.optim.Adam(loaded.model.parameters(), lr=0.01)
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(loaded.model(ids).logits[0, :-1], ids[0, 1:])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    trained_log_p = make_shard(loaded, task).passage_sum_log_p[0]
    rise = dict(zip(NAMES.first, (trained_log_p - first_log_p).tolist(), strict=True))
    assert rise["Anna"] > 20
    assert rise["Ann"] < rise["Anna"] - 10


ENDS = 0


@contextmanager
def small_vocabulary(n_tokens: int) -> Iterator[LoadedModel]:
    """Yield a Llama of few tokens, without a tokenizer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        config = transformers.LlamaConfig(
            vocab_size=n_tokens,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=32,
            initializer_range=0.6,
        )
        model = transformers.LlamaForCausalLM(config).eval()
    settings_ = type("Settings", (), {"vocab_size": n_tokens, "is_causal": True})()
    yield LoadedModel(model, None, "", settings_, "toy")  # type: ignore[arg-type]


def make_sampling(n_tokens: int, **fields: Any) -> SamplingTask:
    pairs = [(first, last) for first in range(1, 6) for last in range(6, 11)]
    names = np.array(pairs, dtype=np.int64)
    task = ContinuationTask(
        contexts=((n_tokens - 1,),),
        kind_of_passage=np.zeros(1, dtype=np.int64),
        names=(),
        is_known=np.ones(len(names), dtype=np.bool_),
        n_listed=len(names),
        ending_ids=np.array([ENDS, 11]),
        seed=1,
    )
    tokens = NameTokens(
        ids=names,
        n_first=np.ones(len(names), dtype=np.int64),
        first_roles=np.zeros(len(names), dtype=np.int64),
        has_end=np.ones(len(names), dtype=np.bool_),
    )
    options: dict[str, Any] = {"n_new_tokens": 3, "top_k": n_tokens, "seed": 1} | fields
    return SamplingTask(
        prompt=(n_tokens - 1,),
        end_id=ENDS,
        multi_piece_parts=((1, 6), (2, 7)),
        names=replace(task, names=(tokens,)),
        **options,
    )


@dataclass(frozen=True)
class Written:
    """A document of a sampler: its tokens, its probability, and the masses that it adds."""

    tokens: tuple[int, ...]
    p: float
    mass: np.ndarray


def enumerate_documents(loaded: LoadedModel, task: SamplingTask) -> list[Written]:
    """Return every document of the sampler."""
    documents = [Written((), 1.0, np.zeros(loaded.config.vocab_size))]
    for _ in range(task.n_new_tokens):
        longer: list[Written] = []
        for document in documents:
            if document.tokens[-1:] == (task.end_id,):
                longer.append(document)
                continue
            ids = torch.tensor([[*task.prompt, *document.tokens]])
            with torch.inference_mode():
                logits = loaded.model(ids).logits[:, -1]
            tokens, weights = truncate_distribution(
                logits, top_k=task.top_k, top_p=task.top_p, temperature=task.temperature
            )
            mass = document.mass.copy()
            mass[tokens[0].numpy()] += weights[0].numpy()
            for token, weight in zip(tokens[0].tolist(), weights[0].tolist(), strict=True):
                if weight:
                    longer.append(Written((*document.tokens, token), document.p * weight, mass))
        documents = longer
    return documents


@pytest.mark.parametrize(
    "sampler", [{}, {"top_k": 5}, {"top_p": 0.7}, {"top_k": 8, "temperature": 0.5}]
)
def test_masses_and_chances_are_those_of_all_documents(sampler: dict[str, Any]) -> None:
    n_tokens, n_documents = 13, 400
    task = make_sampling(n_tokens, **sampler)
    with small_vocabulary(n_tokens) as loaded:
        documents = enumerate_documents(loaded, task)
        forward = CausalForward(loaded)
        place: dict[str, Any] = {"shard": 0, "first": 0, "device": "cpu", "tick": lambda n: None}
        shard = write_shard(forward, task, n=n_documents, **place)
        recall = make_recall_shard(forward, task, n=1, **place)
    p = np.array([document.p for document in documents])
    assert p.sum() == pytest.approx(1, abs=1e-5)
    counts = np.array([np.bincount(d.tokens, minlength=n_tokens) for d in documents])
    masses = np.array([document.mass for document in documents])
    np.testing.assert_allclose(p @ masses, p @ counts, atol=1e-5)
    error = np.sqrt(np.maximum(p @ masses**2 - (p @ masses) ** 2, 0) / n_documents)
    sampled = shard.mass.sum(axis=0) / n_documents
    assert (np.abs(sampled - p @ counts) <= 3 * error + 1e-5).all()
    assert error.max() < 0.05
    for part, mass in zip(task.multi_piece_parts, shard.part_mass.sum(axis=0), strict=True):
        places = [sum(d.tokens[i : i + 2] == part for i in range(2)) for d in documents]
        assert mass / n_documents == pytest.approx(p @ np.array(places), abs=0.03)
    for row, name in enumerate(task.names.names[0].ids.tolist()):
        is_written = [
            d.tokens[:2] == tuple(name) and d.tokens[2] in task.names.ending_ids for d in documents
        ]
        assert recall.sum_p[0, row] == pytest.approx(p @ np.array(is_written), abs=1e-6)


def test_documents_do_not_depend_on_their_shard_and_end_at_the_end_token() -> None:
    task = make_sampling(13, n_new_tokens=8)
    with small_vocabulary(13) as loaded:
        forward = CausalForward(loaded)
        place: dict[str, Any] = {"device": "cpu", "tick": lambda n: None}
        long_shard = write_shard(forward, task, shard=0, first=0, n=200, **place)
        second_shard = write_shard(forward, task, shard=1, first=100, n=100, **place)
    np.testing.assert_array_equal(long_shard.documents[100:], second_shard.documents)
    for document in long_shard.documents[:, 1:].tolist():
        if ENDS in document:
            assert set(document[document.index(ENDS) :]) == {ENDS}
    assert any(ENDS in document for document in long_shard.documents.tolist())


def test_the_number_of_tries_follows_from_the_chance_of_one() -> None:
    assert count_tries(0.01, success=0.5) == 69
    assert count_tries(0.01, success=0.95) == 299
    assert count_tries(0.0, success=0.5) == np.inf
    assert count_tries(1.0, success=0.5) == 1
    assert np.isnan(count_tries(np.nan, success=0.5))
    for chance, success in itertools.product((1e-12, 1e-4, 0.3), (0.5, 0.95)):
        n = count_tries(chance, success=success)
        assert -np.expm1(n * np.log1p(-chance)) >= success * (1 - 1e-9)
        assert -np.expm1((n - 1) * np.log1p(-chance)) < success


def test_every_small_model_has_tokens_to_begin_and_to_end_with(tmp_path: Path) -> None:
    for name in ("llama", "gpt2", "qwen2", "gemma2"):
        assert name in CAUSAL
        tokenizer = load(tmp_path, name).tokenizer
        assert len(list_first_tokens(tokenizer)) == 1
        ending = set(list_ending_tokens(tokenizer).tolist())
        for text, is_ending in ((" p", True), ("a", False), (".", True), ("'", True)):
            [*_, token] = tokenizer(f"p{text}", add_special_tokens=False)["input_ids"]
            assert (token in ending) is is_ending, (name, text)
