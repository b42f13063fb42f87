"""Whole audits of models that read with SentencePiece, in English and Japanese."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.names.candidates import Candidates, make_candidates
from audit.names.pools import NamePool, japanese_pool, us_pool
from audit.notes.passages import read_passages
from audit.report.report import AuditReport
from audit.text import written_name
from cache.store import Store
from tests.models.make_tokenizers import fairseq_vocabulary, make_unigram_roberta, pieces
from tests.reference_masking import PlainModel, plain_model
from tests.small_audit import answer, small

__all__ = ["small"]
pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Language:
    """Names of which the vocabulary has pieces, a passage, and a prompt of scenario 1."""

    members: list[tuple[str, str]]
    controls: list[tuple[str, str]]
    passage: tuple[str, str]
    prompt: str = "the patient [MASK] was"


def _pair_up(pool: NamePool, start: int) -> list[tuple[str, str]]:
    first, last = pool.first[start : start + 10], pool.last[start + 3 : start + 13]
    return list(zip(first, last, strict=True))


LANGUAGES = {
    "en": Language(
        [*_pair_up(us_pool(), 0), ("Anna", "Smithson")],
        _pair_up(us_pool(), 20),
        ("Mr ", " was seen by Dr Jones."),
    ),
    "en, joined": Language(
        _pair_up(us_pool(), 0), _pair_up(us_pool(), 20), ("the patient (", "), was seen")
    ),
    "ja": Language(
        _pair_up(japanese_pool(), 0),
        _pair_up(japanese_pool(), 20),
        ("患者", "さんは受診しました。"),
        "患者[MASK]は",
    ),
}


def names_of(language: Language) -> Candidates:
    members = make_candidates(language.members, is_member=True)
    return members + make_candidates(language.controls, is_member=False, control_kind="easy")


def make_models(folder: Path, language: Language) -> tuple[Path, Path]:
    pools = us_pool(), japanese_pool()
    words = [f"▁{name}" for name in (*pools[0].first[:60], *pools[0].last[:60])]
    words += [*pools[1].first[:60], *pools[1].last[:60]]
    listed = dict.fromkeys(words, -4.0) | dict(pieces())
    vocabulary = fairseq_vocabulary([*listed.items()])
    general, hospital = (
        make_unigram_roberta(folder / name, seed=seed, vocabulary=vocabulary)
        for seed, name in enumerate(("general", "hospital"))
    )
    return general, hospital


@pytest.fixture(scope="module", params=LANGUAGES)
def case(request, tmp_path_factory) -> tuple[Language, tuple[Path, Path], Path]:
    folder = tmp_path_factory.mktemp("models")
    language = LANGUAGES[request.param]
    return language, make_models(folder, language), folder / "store"


def audit(case: tuple[Language, tuple[Path, Path], Path], scenario: int) -> AuditReport:
    language, (general, hospital), store = case
    text = "[NAME]".join(language.passage)
    request = AuditRequest(
        scenario_number=scenario,
        general=general,
        hospital=hospital,
        candidates=names_of(language),
        passages=read_passages(f'text\n"{text}"\n'.encode()) if scenario == 2 else None,
        generation=GenerationSettings(
            n_documents=300, n_steps=8, n_tokens=16, top_k=20, prompt=language.prompt
        ),
        posterior=PosteriorSettings(
            n_inputs=200, n_chain_inputs=0, micro_batch=25, is_dropout_on=False
        ),
        device="cpu",
        dtype="float32",  # the expected values are, whatever the processor multiplies fastest
    )
    return answer(request, store)


def posterior_in_the_sentence(plain: PlainModel, sentence: str, name: str) -> float:
    """Return the product of the probabilities of the tokens of a name in a whole sentence."""
    encoding = plain.tokenizer(sentence)
    start = sentence.index(name)
    tokens = {encoding.char_to_token(start + i) for i in range(len(name))} - {None}
    places = sorted(tokens)
    ids = torch.tensor([encoding["input_ids"]])
    masked = ids.clone()
    masked[0, places] = plain.tokenizer.mask_token_id
    with torch.no_grad():
        logits = plain.model(input_ids=masked).logits[0].double()
    chances = torch.softmax(logits, dim=-1)[places, ids[0, places]]
    return float(chances.prod())


def test_a_name_has_the_probability_of_its_own_tokens_in_the_sentence(case):
    language, folders, _ = case
    report = audit(case, 2)
    left, right = language.passage
    listed = [*language.members, *language.controls]
    assert len(report.table) == len(listed)
    for folder, column in zip(folders, ("general_posterior", "hospital_posterior"), strict=True):
        plain = plain_model(folder)
        expected = [
            posterior_in_the_sentence(plain, left + (name := written_name(*parts)) + right, name)
            for parts in listed
        ]
        np.testing.assert_allclose(report.table[column], expected, rtol=1e-5)


def test_the_generation_attack_reads_and_writes_names_as_text(case):
    report, language = audit(case, 1), case[0]
    assert np.isfinite(report.table["score"]).all()
    with Store(case[2]) as store:
        documents = store.get_record(f"documents/{report.digest}")
    texts = [text for of_model in documents.values() for text in of_model]
    assert len(texts) == 600
    before, after = language.prompt.split("[MASK]")
    assert all(before.strip() in text and after in text and "▁" not in text for text in texts)
