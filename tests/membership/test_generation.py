"""The sampler and its Rao-Blackwell sums, against exact numbers and against a plain loop."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, product

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from audit.errors import AuditCancelled
from audit.membership.generation import (
    GeneratedShard,
    GenerationTask,
    generated_shard,
    shard_draws,
    step,
)
from audit.models.encoder import logits_at
from audit.models.load import load_model
from tests.models.make_models import make_bert
from tests.table_model import (
    APART,
    CLS,
    JOINT,
    MASK,
    N_TOKENS,
    N_VOCABULARY,
    SEP,
    SIDE_BY_SIDE,
    STATES,
    WORD,
    TableModel,
    compatible_table,
    conditional,
    expected_mass,
    expected_pair_mass,
    random_table,
    state_shares,
)

TABLES = {"compatible": compatible_table(), "incompatible": random_table(3)}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def task_of(prompt: tuple[int, ...] = APART, **changes) -> GenerationTask:
    settings = {"name_slots": (1,), "multi_piece_parts": (), "n_steps": 10, "top_k": N_TOKENS}
    task = GenerationTask(prompt=prompt, mask_id=MASK, seed=5, **settings)
    return replace(task, **changes)


def model_of(table: np.ndarray, prompt: tuple[int, ...] = APART) -> TableModel:
    first, second = (i for i, token in enumerate(prompt) if token == MASK)
    return TableModel(table, slots=(first, second))


def generate(
    model: nn.Module,
    task: GenerationTask,
    *,
    n_documents: int,
    shard: int = 0,
    n_shard: int | None = None,
    n_vocabulary: int = N_VOCABULARY,
    tick: Callable[[int], None] = lambda n: None,
) -> GeneratedShard:
    return generated_shard(
        model, task, shard=shard, n_shard_documents=n_shard or -(-n_documents // 100) * 100,
        n_documents=n_documents, n_vocabulary=n_vocabulary, device="cpu", tick=tick,
    )  # fmt: skip


def state_counts(shard: GeneratedShard, task: GenerationTask) -> np.ndarray:
    pairs = shard.documents[:, task.sampled_positions]
    return np.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=len(STATES))


def chi_square_p(counts: np.ndarray, shares: np.ndarray) -> float:
    possible = shares > 1e-12
    assert counts[~possible].sum() == 0
    return float(stats.chisquare(counts[possible], shares[possible] * counts.sum()).pvalue)


# --- the chain ---


@pytest.mark.parametrize("is_remasked", [True, False])
@pytest.mark.parametrize("table", TABLES)
def test_states_after_each_number_of_steps_have_their_exact_shares(table, is_remasked):
    for n_steps in (1, 2, 5):
        task = task_of(n_steps=n_steps, is_remasked=is_remasked)
        shard = generate(model_of(TABLES[table]), task, n_documents=6000)
        exact = state_shares(TABLES[table], n_steps=n_steps, is_remasked=is_remasked)[-1]
        assert chi_square_p(state_counts(shard, task), exact) > 0.01


def test_the_chain_of_compatible_conditionals_ends_in_their_joint_distribution():
    task = task_of(n_steps=60)
    shard = generate(model_of(TABLES["compatible"]), task, n_documents=6000)
    exact = state_shares(TABLES["compatible"], n_steps=60)[-1].reshape(4, 4)
    np.testing.assert_allclose(exact[:3, :3], JOINT, atol=1e-9)
    counts = state_counts(shard, task).reshape(4, 4)[:3, :3].ravel()
    assert counts.sum() == 6000
    assert chi_square_p(counts, JOINT.ravel()) > 0.01


def test_a_forgotten_mask_would_be_seen():
    task = task_of(n_steps=60)
    shard = generate(model_of(TABLES["compatible"]), task, n_documents=6000)
    without_mask = state_shares(TABLES["compatible"], n_steps=60, is_remasked=False)[-1]
    assert chi_square_p(state_counts(shard, task), without_mask) < 1e-9


@pytest.mark.parametrize("is_remasked", [True, False])
@pytest.mark.parametrize("slot", [0, 1])
def test_one_step_draws_from_the_conditional(slot, is_remasked):
    table = random_table(8)
    task, model = task_of(is_remasked=is_remasked), model_of(table)
    rng = np.random.default_rng(2)
    for state in ((0, 2), (1, 1), (2, 0), (MASK, 1)):
        ids = torch.tensor(APART).repeat(3000, 1)
        ids[:, 1], ids[:, 3] = state
        position = task.sampled_positions[slot]
        step(
            model, task, ids, positions=torch.full((3000,), int(position)),
            uniforms=torch.from_numpy(rng.random(3000)),
        )  # fmt: skip
        drawn = np.bincount(ids[:, position].numpy(), minlength=N_VOCABULARY)
        exact = conditional(table, slot=slot, state=state, is_remasked=is_remasked)
        assert chi_square_p(drawn[:N_TOKENS], exact) > 0.01
        assert drawn[N_TOKENS:].sum() == 0
        other = 3 if slot == 0 else 1
        assert (ids[:, other] == state[1 - slot]).all()  # nothing else is touched
        assert (ids[:, [0, 2, 4]] == torch.tensor([CLS, WORD, SEP])).all()


def test_a_uniform_number_picks_by_the_cumulative_distribution_in_order_of_falling_logit():
    table = np.broadcast_to(np.array([0.25, 0.625, 0.125]), (2, 4, 4, 3))  # order: 1, 0, 2
    uniforms = [0.0, 0.6249, 0.6251, 0.8749, 0.8751, 1 - 1e-16]
    ids = torch.tensor(APART).repeat(len(uniforms), 1)
    positions = torch.ones(len(uniforms), dtype=torch.int64)
    step(
        model_of(table), task_of(), ids, positions=positions,
        uniforms=torch.tensor(uniforms, dtype=torch.float64),
    )  # fmt: skip
    assert ids[:, 1].tolist() == [1, 1, 0, 0, 2, 2]


@pytest.mark.parametrize("top_k", [1, 2, 3, 100])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_weights_are_exponentials_over_the_top_k_alone(top_k, temperature):
    logits = {0: 1.0, 1: -0.5, 2: 2.0}
    table = np.exp(np.broadcast_to([logits[0], logits[1], logits[2]], (2, 4, 4, 3)))
    task = task_of(n_steps=1, top_k=top_k, temperature=temperature)
    mass = generate(model_of(table), task, n_documents=1).mass[0]
    kept = sorted(logits, key=lambda token: -logits[token])[:top_k]
    total = sum(np.exp(logits[token] / temperature) for token in kept)
    for token in logits:
        exact = np.exp(logits[token] / temperature) / total if token in kept else 0.0
        assert mass[token] == pytest.approx(exact, abs=1e-6)
    assert not mass[N_TOKENS:].any()


def test_the_same_draws_serve_every_model():
    task = task_of()
    one = shard_draws(task, first_block=1, n_documents=150)
    again = shard_draws(task, first_block=1, n_documents=150)
    other = shard_draws(replace(task, seed=6), first_block=1, n_documents=150)
    np.testing.assert_array_equal(one.positions, again.positions)
    np.testing.assert_array_equal(one.uniforms, again.uniforms)
    assert (one.uniforms != other.uniforms).all()
    assert set(np.unique(one.positions)) == {1, 3}
    assert one.uniforms.shape == (10, 150)


# --- Rao-Blackwell sums ---


@pytest.mark.parametrize("is_remasked", [True, False])
@pytest.mark.parametrize("table", TABLES)
def test_mass_has_its_exact_expectation(table, is_remasked):
    task = task_of(n_steps=12, is_remasked=is_remasked)
    found = generate(model_of(TABLES[table]), task, n_documents=8000)
    exact = expected_mass(TABLES[table], n_steps=12, is_remasked=is_remasked)
    for blocks, expectation in (
        (found.slot_mass, exact[0]),
        (found.mass - found.slot_mass, exact[1]),
    ):
        per_document = blocks[:, :N_TOKENS] / found.n_documents[:, None]
        error = per_document.std(axis=0, ddof=1) / np.sqrt(len(per_document))
        assert (error > 0).all()
        assert (error < 0.02 * expectation).all()  # close enough for four of them to mean something
        assert (np.abs(per_document.mean(axis=0) - expectation) < 4 * error).all()


@pytest.mark.parametrize("pair", [(0, 1), (2, 2), (1, 0)])
def test_mass_of_a_part_of_two_pieces_has_its_exact_expectation(pair):
    table = TABLES["incompatible"]
    parts = ((0, 1), (1, 0), (2, 2))
    task = task_of(SIDE_BY_SIDE, n_steps=12, multi_piece_parts=parts, name_slots=(1, 2))
    found = generate(model_of(table, SIDE_BY_SIDE), task, n_documents=8000)
    per_document = found.part_mass[:, parts.index(pair)] / found.n_documents
    error = per_document.std(ddof=1) / np.sqrt(len(per_document))
    expectation = expected_pair_mass(table, pair, n_steps=12)
    assert 0 < error < 0.05 * expectation
    assert abs(per_document.mean() - expectation) < 4 * error


@pytest.mark.parametrize("top_k", [2, 3, 100])
def test_mass_of_a_block_is_steps_times_documents(top_k):
    task = task_of(n_steps=37, top_k=top_k)
    found = generate(model_of(TABLES["incompatible"]), task, n_documents=250)
    assert found.n_documents.tolist() == [100, 100, 50]
    np.testing.assert_allclose(found.mass.sum(axis=1), 37 * found.n_documents, rtol=1e-6)


def test_mass_of_a_real_model_is_steps_times_documents(bert):
    found = generate(bert.model, bert.task, n_documents=120, n_vocabulary=bert.n_vocabulary)
    expected = bert.task.n_steps * found.n_documents
    np.testing.assert_allclose(found.mass.sum(axis=1), expected, rtol=1e-6)
    np.testing.assert_allclose(found.slot_mass.sum(axis=1), found.n_slot_visits, rtol=1e-6)


def test_slot_mass_is_that_of_the_name_slots_alone():
    # Slot 1 can only hold token 0, slot 3 only token 2.
    table = np.full((2, 4, 4, 3), 1e-12)
    table[0, ..., 0] = table[1, ..., 2] = 1.0
    task = task_of(n_steps=9)
    found = generate(model_of(table), task, n_documents=150)
    visits = (shard_draws(task, first_block=0, n_documents=150).positions == 1).sum(axis=0)
    by_block = [visits[:100].sum(), visits[100:].sum()]
    assert found.n_slot_visits.tolist() == by_block
    np.testing.assert_allclose(found.slot_mass[:, 0], by_block, rtol=1e-6)
    np.testing.assert_allclose(found.slot_mass[:, 1:].sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(found.mass[:, 2], 9 * found.n_documents - by_block, rtol=1e-6)


# --- a loop, one document at a time ---


@dataclass
class SlowDocument:
    tokens: list[int]
    mass: dict[int, float]
    slot_mass: dict[int, float]
    part_mass: list[float]


def fits(part: tuple[int, ...], tokens: list[int], *, start: int, but: int) -> bool:
    """Whether a part stands at `start`, its piece at `but` left out."""
    if start < 0 or start + len(part) > len(tokens):
        return False
    return all(start + i == but or tokens[start + i] == piece for i, piece in enumerate(part))


def slow_document(
    model: nn.Module, task: GenerationTask, positions: list[int], uniforms: list[float]
) -> SlowDocument:
    document = SlowDocument(list(task.prompt), {}, {}, [0.0] * len(task.multi_piece_parts))
    tokens = document.tokens
    for position, uniform in zip(positions, uniforms, strict=True):
        if task.is_remasked:
            tokens[position] = task.mask_id
        with torch.inference_mode():
            ids, where = torch.tensor([tokens]), torch.tensor([[position]])
            logits = logits_at(model, ids, positions=where)[0, 0]
        ranked = sorted(range(len(logits)), key=lambda token: -float(logits[token]))[: task.top_k]
        weights = torch.softmax(logits[ranked] / task.temperature, dim=0).tolist()
        for token, weight in zip(ranked, weights, strict=True):
            document.mass[token] = document.mass.get(token, 0.0) + weight
            if position in task.name_slots:
                document.slot_mass[token] = document.slot_mass.get(token, 0.0) + weight
        for number, part in enumerate(task.multi_piece_parts):
            chances = [
                weights[ranked.index(piece)]
                for j, piece in enumerate(part)
                if piece in ranked and fits(part, tokens, start=position - j, but=position)
            ]
            document.part_mass[number] += sum(chances)
        cumulative = list(accumulate(weights))
        tokens[position] = ranked[bisect(cumulative, uniform * cumulative[-1])]
    return document


def assert_equals_slow_loop(
    model: nn.Module,
    task: GenerationTask,
    *,
    n_documents: int,
    n_vocabulary: int,
    atol: float,
) -> GeneratedShard:
    found = generate(model, task, n_documents=n_documents, n_vocabulary=n_vocabulary)
    draws = shard_draws(task, first_block=0, n_documents=n_documents)
    slow = [
        slow_document(model, task, draws.positions[:, i].tolist(), draws.uniforms[:, i].tolist())
        for i in range(n_documents)
    ]
    assert found.documents.tolist() == [document.tokens for document in slow]
    for block in range(len(found.n_documents)):
        documents = slow[block * 100 : (block + 1) * 100]
        for sums, name in ((found.mass, "mass"), (found.slot_mass, "slot_mass")):
            plain = np.zeros(n_vocabulary)
            for document in documents:
                for token, weight in getattr(document, name).items():
                    plain[token] += weight
            np.testing.assert_allclose(sums[block], plain, rtol=0, atol=atol)
        parts = np.sum([document.part_mass for document in documents], axis=0)
        np.testing.assert_allclose(found.part_mass[block], parts, rtol=0, atol=atol)
    return found


@pytest.mark.parametrize(
    ("top_k", "is_remasked", "temperature"), [(3, True, 1.0), (2, True, 0.7), (3, False, 2.0)]
)
def test_table_documents_equal_a_loop_over_documents(top_k, is_remasked, temperature):
    parts = ((0, 1), (2, 2), (1, 2, WORD), (CLS, 0), (SEP, 0), (0, SEP))
    task = task_of(
        SIDE_BY_SIDE, n_steps=11, top_k=top_k, is_remasked=is_remasked, temperature=temperature,
        multi_piece_parts=parts, name_slots=(1,),
    )  # fmt: skip
    found = assert_equals_slow_loop(
        model_of(TABLES["incompatible"], SIDE_BY_SIDE), task,
        n_documents=120, n_vocabulary=N_VOCABULARY, atol=1e-9,
    )  # fmt: skip
    totals = found.part_mass.sum(axis=0)
    assert (totals[:4] > 0).all()
    assert totals[4:].tolist() == [0, 0]  # nothing stands before [CLS], and [SEP] after no slot


def test_a_part_at_the_edge_of_the_document_is_not_found_beyond_it():
    # No special tokens: slots are the first and the last position.
    table = np.broadcast_to(np.array([0.8, 0.1, 0.1]), (2, 4, 4, 3))
    task = task_of((MASK, MASK), n_steps=8, name_slots=(0, 1),
                   multi_piece_parts=((0, 0), (0, 0, 0)))  # fmt: skip
    found = assert_equals_slow_loop(
        TableModel(table, slots=(0, 1)), task, n_documents=60, n_vocabulary=N_VOCABULARY, atol=1e-9
    )
    assert found.part_mass[0, 0] > 10
    assert found.part_mass[0, 1] == 0


@dataclass
class Bert:
    model: nn.Module
    task: GenerationTask
    n_vocabulary: int


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    loaded = load_model(make_bert(tmp_path_factory.mktemp("bert") / "bert", scale=0.3))
    ids = loaded.tokenizer.convert_tokens_to_ids
    mask, smith, son, plural = ids(["[MASK]", "smith", "##son", "##s"])
    prompt = (*ids(["[CLS]", "mr"]), mask, mask, mask, ids("was"), mask, mask, ids("[SEP]"))
    task = GenerationTask(
        prompt=prompt, name_slots=(2, 3, 4), mask_id=mask, seed=1, n_steps=15, top_k=20,
        multi_piece_parts=((smith, son, plural), *product(range(5, 37, 2), repeat=2)),
    )  # fmt: skip
    return Bert(loaded.model, task, len(loaded.tokenizer))


def test_documents_of_a_real_model_equal_a_loop_over_documents(bert):
    found = assert_equals_slow_loop(
        bert.model, bert.task, n_documents=25, n_vocabulary=bert.n_vocabulary, atol=1e-4
    )
    assert (found.part_mass > 0).sum() > 100


def test_dropout_is_off_while_documents_are_made(bert):
    bert.model.train()
    one = generate(bert.model, bert.task, n_documents=20, n_vocabulary=bert.n_vocabulary)
    bert.model.train()
    two = generate(bert.model, bert.task, n_documents=20, n_vocabulary=bert.n_vocabulary)
    np.testing.assert_array_equal(one.documents, two.documents)
    np.testing.assert_array_equal(one.mass, two.mass)


# --- shards ---


def both_sizes(model, task, n_vocabulary):
    whole = generate(model, task, n_documents=300, n_shard=400, n_vocabulary=n_vocabulary)
    small = {
        shard: generate(
            model, task, n_documents=100, shard=shard, n_shard=100, n_vocabulary=n_vocabulary
        )
        for shard in (2, 0, 1)  # in any order
    }
    return whole, [small[shard] for shard in range(3)]


def test_what_is_generated_does_not_depend_on_shard_size_or_order():
    task = task_of(SIDE_BY_SIDE, n_steps=14, multi_piece_parts=((0, 1), (2, 1)))
    whole, small = both_sizes(model_of(TABLES["incompatible"], SIDE_BY_SIDE), task, N_VOCABULARY)
    for name in vars(whole):
        joined = np.concatenate([getattr(shard, name) for shard in small])
        np.testing.assert_array_equal(getattr(whole, name), joined, err_msg=name)


def test_documents_of_a_real_model_do_not_depend_on_shard_size_or_order(bert):
    whole, small = both_sizes(bert.model, bert.task, bert.n_vocabulary)
    documents = np.concatenate([shard.documents for shard in small])
    np.testing.assert_array_equal(whole.documents, documents)
    mass = np.concatenate([shard.mass for shard in small])
    np.testing.assert_allclose(whole.mass, mass, rtol=0, atol=1e-3)


def test_a_second_shard_of_two_blocks_follows_the_first():
    task, model = task_of(n_steps=6), model_of(TABLES["compatible"])
    whole = generate(model, task, n_documents=350, n_shard=400)
    second = generate(model, task, n_documents=150, shard=1, n_shard=200)
    np.testing.assert_array_equal(whole.documents[200:], second.documents)
    np.testing.assert_array_equal(whole.mass[2:], second.mass)


def test_a_longer_last_block_begins_with_the_shorter_one():
    task, model = task_of(n_steps=6), model_of(TABLES["compatible"])
    short = generate(model, task, n_documents=130)
    long = generate(model, task, n_documents=180)
    np.testing.assert_array_equal(long.documents[:130], short.documents)
    np.testing.assert_array_equal(long.mass[0], short.mass[0])


def test_each_step_is_reported_and_can_stop_the_run():
    ticks: list[int] = []

    def tick(n: int) -> None:
        ticks.append(n)
        if len(ticks) == 4:
            raise AuditCancelled

    with pytest.raises(AuditCancelled):
        generate(model_of(TABLES["compatible"]), task_of(), n_documents=70, tick=tick)
    assert ticks == [70] * 4
