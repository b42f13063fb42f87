"""Scenario 1 as a whole: the prompt, and how masses and documents become scores."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.attack import scenarios
from audit.attack.generation import GeneratedShard, GenerationTask
from audit.attack.judgement import judge
from audit.attack.measure_types import NameCounts
from audit.attack.question import AuditRequest, GenerationSettings
from audit.errors import AuditError
from audit.models.load import ModelPair, load_model, load_pair
from audit.names.candidates import make_candidates
from audit.names.pools import NamePool
from tests.models.make_models import SPECIAL, WORDS, make_bert, make_japanese_bert

VOCABULARY = Path(__file__).parents[3] / "shared" / "data" / "bert-base-uncased.vocab.txt"
POOL = NamePool("en_US", ("John", "Anna", "Maryo"), ("Smith", "Jones"), (0.5, 0.3, 0.2), (0.5, 0.5))
ALL_WORDS = (*WORDS, "service", "is", "year", "old")
NAMES = make_candidates([("John", "Smith"), ("Anna", "Smithson"), ("Xerxes", "Jones")])
REFERENCE = make_candidates([("Mary", "Jones")], is_member=False, control_kind="reference")


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> ModelPair:
    folder = tmp_path_factory.mktemp("models")
    return load_pair(
        make_bert(folder / "g", words=ALL_WORDS), make_bert(folder / "h", words=ALL_WORDS, seed=1)
    )


def ids_of(text: str) -> list[int]:
    return [(*SPECIAL, *ALL_WORDS).index(token) for token in text.split()]


def attack(
    monkeypatch: pytest.MonkeyPatch,
    pair: ModelPair,
    settings: GenerationSettings,
    *,
    shards: dict[str, GeneratedShard] | None = None,
) -> Any:
    """What an attack asks for, and what it makes of evidence that is given to it."""
    tasks: list[GenerationTask] = []

    def evidence_of(model: str, task: GenerationTask, *, kind: str, n_total: int) -> GeneratedShard:
        tasks.append(task)
        assert (kind, n_total) == ("generation", settings.n_documents)
        return shards[model] if shards else blank(task, of_hospital=model == "hospital")

    monkeypatch.setattr(scenarios.evidence, "collect", evidence_of)
    request = AuditRequest(
        scenario_number=1,
        general=Path("g"),
        hospital=Path("h"),
        candidates=NAMES,
        generation=settings,
        seed=11,
    )
    names = NAMES + REFERENCE
    task = scenarios.make_task(request, pair, names)
    result = scenarios.attack(
        request, pair, task, names=names, pool=POOL, sources=lambda who, kind: who
    )  # type: ignore[arg-type]
    assert tasks == [task, task]  # both models are asked the same
    return SimpleNamespace(task=task, result=result)


def blank(task: GenerationTask, *, of_hospital: bool) -> GeneratedShard:
    return GeneratedShard(
        n_documents=np.array([1]),
        documents=np.array([task.prompt]),
        mass=np.full((1, 40_000), 1.0 + of_hospital),
        part_mass=np.full((1, len(task.multi_piece_parts)), 1.0 + of_hospital),
    )


# --- the prompt ---


@pytest.mark.skipif(not VOCABULARY.is_file(), reason="the vocabulary of BERT-base is not here")
def test_the_default_prompt_is_that_of_the_paper(tmp_path, monkeypatch):
    words = VOCABULARY.read_text(encoding="utf-8").splitlines()
    folder = make_bert(tmp_path / "base", words=words[: -len(SPECIAL)], hidden_size=2, n_layers=1)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    loaded = load_model(folder)
    base = ModelPair(general=loaded, hospital=loaded)
    task = attack(monkeypatch, base, GenerationSettings()).task
    tokens = base.general.tokenizer.convert_ids_to_tokens(list(task.prompt))
    assert tokens == [
        "[CLS]",
        "service",
        ":",
        *["[MASK]"] * 5,
        "is",
        "a",
        "[MASK]",
        "year",
        "old",
        *["[MASK]"] * 18,
        "[SEP]",
    ]
    assert len(task.prompt) == 32
    assert task.prompt[:3] == (101, 2326, 1024)
    assert (task.n_steps, task.top_k, task.temperature, task.is_remasked) == (500, 100, 1.0, True)
    assert GenerationSettings().n_documents == 10_000
    assert task.sampled_positions.tolist() == [3, 4, 5, 6, 7, 10, *range(13, 31)]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("mr [MASK][MASK] was", "[CLS] mr [MASK] [MASK] was [MASK] [MASK] [SEP]"),
        ("[MASK]", "[CLS] [MASK] [MASK] [MASK] [MASK] [MASK] [MASK] [SEP]"),
        ("a [MASK] was seen by [MASK]", "[CLS] a [MASK] was seen by [MASK] [SEP]"),
        ("a MR Smithson [MASK] ,", "[CLS] a mr smith ##son [MASK] , [SEP]"),
    ],
)
def test_a_prompt_is_filled_with_masks(pair, monkeypatch, prompt, expected):
    task = attack(monkeypatch, pair, GenerationSettings(prompt=prompt, n_tokens=8)).task
    assert list(task.prompt) == ids_of(expected)


def test_a_prompt_that_is_too_long_is_refused(pair, monkeypatch):
    settings = GenerationSettings(prompt="a [MASK] was seen by dr [MASK]", n_tokens=8)
    with pytest.raises(AuditError, match="prompt: has 9 tokens, more than 8"):
        attack(monkeypatch, pair, settings)
    assert len(attack(monkeypatch, pair, settings.with_(n_tokens=9)).task.prompt) == 9


def test_a_japanese_tokenizer_takes_a_japanese_prompt(tmp_path, monkeypatch):
    folder = make_japanese_bert(tmp_path / "japanese")
    japanese = load_pair(folder, folder)
    settings = GenerationSettings(prompt="患者 [MASK][MASK] は", n_tokens=7)
    task = attack(monkeypatch, japanese, settings).task
    tokens = japanese.general.tokenizer.convert_ids_to_tokens(list(task.prompt))
    assert tokens == ["[CLS]", "患者", "[MASK]", "[MASK]", "は", "[MASK]", "[SEP]"]
    # None of these Western names can be spelled in it: nothing is scored, and nothing stops.
    result = attack(monkeypatch, japanese, settings).result
    for name, score in result.scores.items():
        assert ("hits" in name) == np.isfinite(score[0]).all(), name
    assert np.isnan(result.block_evidence["hospital"]).all()
    assert result.block_evidence["hospital"].shape == (1, 3)


# --- masses and documents ---


DOCUMENTS = {
    "general": ("mr john smith ##son", "mr smith john [MASK]", "mr smith john [MASK]"),
    "hospital": ("mr john smith a", "anna smith ##son john", "[MASK] [MASK] jones anna"),
}


@pytest.fixture
def shards(monkeypatch) -> dict[str, GeneratedShard]:
    """Evidence made by hand: two blocks, of two documents and of one."""
    monkeypatch.setattr("audit.names.matching.assign_blocks", lambda first, n: np.array([0, 0, 1]))
    size, rng = len(SPECIAL) + len(ALL_WORDS), np.random.default_rng(0)
    return {
        model: GeneratedShard(
            n_documents=np.array([2, 1]),
            documents=np.array([ids_of(text) for text in texts]),
            mass=rng.random((2, size)),
            part_mass=rng.random((2, 1)),
        )
        for model, texts in DOCUMENTS.items()
    }


@pytest.fixture
def result(pair, monkeypatch, shards) -> Any:
    return attack(monkeypatch, pair, GenerationSettings(n_documents=3), shards=shards).result


def masses(shard: GeneratedShard, blocks: slice, join: Any = math.prod) -> list[float]:
    """Every name's parts joined, each as mass per document of these blocks."""
    n = shard.n_documents[blocks].sum()
    mass = {
        token: shard.mass[blocks, ids_of(token)[0]].sum() / n
        for token in ("john", "smith", "anna", "mary", "jones")
    }
    smithson = shard.part_mass[blocks, 0].sum() / n
    pairs = [
        (mass["john"], mass["smith"]),
        (mass["anna"], smithson),
        (np.nan, np.nan),
        (mass["mary"], mass["jones"]),
    ]
    return [join(pair) for pair in pairs]


def test_masses_become_products_of_mass_per_document(result, shards):
    assert result.n_pieces.tolist() == [2, 3, 2, 2]
    assert result.block_counts.tolist() == result.block_evidence_counts.tolist() == [2, 1]
    for model, prefix in (("hospital", ""), ("general", "general_")):
        for n_blocks, scores in ((2, result.scores), (1, result.prefix_scores(1))):
            for name, join in (("product", math.prod), ("minimum", min)):
                expected = masses(shards[model], slice(n_blocks), join)
                np.testing.assert_allclose(scores[f"{prefix}{name}"][0], expected)
        # What is shown: products by some twenty blocks, of the listed names.
        by_block = [masses(shards[model], slice(k, k + 1))[:3] for k in (0, 1)]
        np.testing.assert_allclose(result.block_evidence[model], by_block)


def test_parts_in_one_name_or_several_have_the_mass_once(result):
    parts = result.parts
    # john smith, anna smithson; Xerxes cannot be spelled; mary jones, the reference control.
    assert parts.of_name.tolist() == [[0, 1], [2, 3], [-1, -1], [4, 5]]
    assert parts.is_last.tolist() == [False, True, False, True, False, True]
    assert parts.n_pieces.tolist() == [1, 1, 1, 2, 1, 1]
    assert parts.is_known.tolist() == [True, True, True, False, False, True]


@pytest.mark.parametrize("mass", [0.0, 0.25])
def test_evidence_that_is_zero_or_the_same_of_two_models_shows_nothing(
    pair, monkeypatch, shards, mass
):
    equal = {
        model: replace(
            shard,
            mass=np.full_like(shard.mass, mass),
            part_mass=np.full_like(shard.part_mass, mass),
        )
        for model, shard in shards.items()
    }
    assert not pair.is_one_model
    settings = GenerationSettings(n_documents=3)
    result = attack(monkeypatch, pair, settings, shards=equal).result
    verdict = judge(result, control_source="invented", seed=0).verdict
    assert (verdict.state, verdict.reasons[0]) == ("not_enough_evidence", "no_evidence")
    assert "said nothing about the listed names, or exactly what" in verdict.english
    equal["hospital"] = replace(
        equal["hospital"], part_mass=equal["hospital"].part_mass + 0.5
    )  # smithson's mass differs
    result = attack(monkeypatch, pair, settings, shards=equal).result
    verdict = judge(result, control_source="invented", seed=0).verdict
    assert "no_evidence" not in verdict.reasons


def test_what_only_the_general_model_or_a_control_says_is_no_evidence(pair, monkeypatch, shards):
    mass = np.zeros_like(shards["hospital"].mass)
    mass[:, ids_of("mary")] = 0.5  # of the reference control's first name alone
    part_mass = np.zeros_like(shards["hospital"].part_mass)
    silent = shards | {"hospital": replace(shards["hospital"], mass=mass, part_mass=part_mass)}
    settings = GenerationSettings(n_documents=3)
    result = attack(monkeypatch, pair, settings, shards=silent).result
    verdict = judge(result, control_source="invented", seed=0).verdict
    assert (verdict.state, verdict.reasons[0]) == ("not_enough_evidence", "no_evidence")


def test_hits_are_shares_of_documents_and_reference_controls_have_none(result):
    expected = {
        # john smith, anna smithson, xerxes jones; the reference control is not sought
        "hits": [2 / 3, 2 / 3, 1 / 3],
        "full_hits": [1 / 3, 1 / 3, 0],
        "general_hits": [1, 1 / 3, 0],
        "general_full_hits": [0, 0, 0],
    }
    for name, shares in expected.items():
        np.testing.assert_allclose(result.scores[name][0], shares, err_msg=name)


def test_name_counts_are_reported_for_both_models(result):
    general = {"first": 3, "last": 2, "first_last": 0, "last_first": 2}
    hospital = {"first": 4, "last": 2, "first_last": 1, "last_first": 1}
    # Names of one piece only: "maryo" has two.
    for model, counts in (("general", general), ("hospital", hospital)):
        assert getattr(result.details, model).name_counts == NameCounts(
            **counts, listed=2, n_documents=3
        )
    assert result.documents["hospital"][1] == "anna smithson john"
