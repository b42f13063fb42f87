"""Verdicts of causal pairs: a planted leak is found, and pairs without one are seldom accused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import decoders, models, pre_tokenizers, trainers

from audit.attack import metrics, scenarios
from audit.attack.question import AuditRequest, ContinuationSettings, SamplingSettings
from audit.demo import DemoTask
from audit.names.candidates import make_candidates
from audit.names.pools import us_pool
from audit.notes.passages import read_passages
from tests.small_audit import answer

N_PAIRS = 200
MOST_ACCUSED = 17
"""Of 200 pairs at a rate of 5 %, more than this many come once in a hundred times."""
PASSAGES = b"""text
mr [NAME] was seen by dr john
[NAME] is a patient of dr mary
note of [NAME] . pain
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("hospital", "states"),
    [("hospital-20", {"leak_found"}), ("null", {"none_found", "not_enough_evidence"})],
)
def test_the_demo_gives_away_what_was_planted_and_nothing_else(
    hospital: str, states: set[str], tmp_path: Path
) -> None:
    task = DemoTask(is_causal=True, n_inputs=4, n_documents=20)
    report = answer(task.request(2, hospital=hospital), tmp_path / "store")
    assert report.verdict.state in states
    assert (report.verdict.n_flagged > 50) == (hospital == "hospital-20")


def write_name_tokenizer(folder: Path) -> int:
    """Write byte pairs that most names are one token of; return the number of tokens."""
    pool = us_pool()
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2_000,
        show_progress=False,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    names = [f" {name}" for name in (*pool.first[:300], *pool.last[:600])]
    tokenizer.train_from_iterator([*names, PASSAGES.decode()], trainer)
    end = "<|endoftext|>"
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=end, eos_token=end
    ).save_pretrained(folder)
    return int(tokenizer.get_vocab_size())


def make_toy(folder: Path, *, seed: int, noise: float, base: Path | None = None) -> Path:
    """Write a Llama of one layer, or a copy of one with random changes of its weights."""
    folder.mkdir()
    n_tokens = write_name_tokenizer(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = transformers.LlamaConfig(
            vocab_size=n_tokens,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=64,
            initializer_range=0.4,
            bos_token_id=0,
            eos_token_id=0,
        )
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
        if base is not None:
            weights = load_file(base / "model.safetensors")
            changed = {
                name: tensor + noise * torch.randn(tensor.shape) for name, tensor in weights.items()
            }
            save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.slow
def test_pairs_without_a_leak_are_accused_at_most_at_the_stated_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second model differs from the first by random numbers, which know nobody."""
    monkeypatch.setattr(scenarios, "N_PAIR_REFERENCE", 400)
    monkeypatch.setattr(metrics, "N_REPLICATES", 50)
    transformers.utils.logging.disable_progress_bar()
    pool, states = us_pool(), []
    for pair in range(N_PAIRS):
        rng = np.random.default_rng([7, pair])
        firsts, lasts = rng.choice(pool.first[:300], 60), rng.choice(pool.last[:600], 60)
        names = [*dict.fromkeys(zip(firsts.tolist(), lasts.tolist(), strict=True))]
        listed = make_candidates(names[:20], is_member=True, n_mentions=[1] * 20)
        listed += make_candidates(names[20:], is_member=False, control_kind="easy")
        folder = tmp_path / f"pair{pair}"
        folder.mkdir()
        general = make_toy(folder / "general", seed=pair, noise=0)
        request = AuditRequest(
            scenario_number=2 if pair % 4 else 1,
            general=general,
            hospital=make_toy(folder / "hospital", seed=pair, noise=0.05, base=general),
            candidates=listed.with_source("invented"),
            passages=read_passages(PASSAGES) if pair % 4 else None,
            sampling=SamplingSettings(n_documents=40, n_tokens=12, prompt="mr"),
            continuation=ContinuationSettings(n_inputs=3),
            seed=pair,
            device="cpu",
        )
        states.append(answer(request, folder / "store").verdict.state)
    n_accused = states.count("leak_found")
    print(f"{n_accused} of {N_PAIRS} pairs without a leak were accused")
    assert n_accused <= MOST_ACCUSED
