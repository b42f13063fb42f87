"""How much the mention finder finds: held-out prose, and real prose with names put in."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from faker import Faker

from audit.notes.mentions import find_mentions

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared texts are not here")


def prose() -> ModuleType:
    path = Path(__file__).with_name("clinical_prose.py")
    spec = importlib.util.spec_from_file_location("clinical_prose", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["clinical_prose"] = module
    spec.loader.exec_module(module)
    return module


def texts_of(file: str) -> list[str]:
    lines = (DATA / file).read_text(encoding="utf-8").split("\n")
    return [json.loads(line)["text"] for line in lines if line]


@pytest.mark.parametrize("templates", ["WITH_MENTION", "FRESH"])
def test_recall_and_precision_on_held_out_prose(templates: str) -> None:
    n_found = n_exact = n_true = n_wrong = 0
    module = prose()
    for sample in module.samples(n=1500, seed=2026, templates=getattr(module, templates)):
        found = find_mentions(sample.text)
        n_true += sample.has_mention
        right = [
            m for m in found if sample.has_mention and m.last.split()[-1] == sample.last.split()[-1]
        ]
        n_found += bool(right)
        n_exact += any((m.first, m.last) == (sample.first, sample.last) for m in right)
        n_wrong += len(found) - bool(right)
    assert n_true > 1000
    assert n_found / n_true >= 0.97
    assert n_found / (n_found + n_wrong) >= 0.97
    assert n_exact / n_true >= 0.95


@needs_data
def test_recall_and_precision_on_real_prose_with_names_put_in() -> None:
    texts = texts_of("mtsamples.jsonl")
    subject = re.compile(
        r"\b(?:The patient|This|Patient|She|He) (?=(?:is|was) an? (?:[\w-]+,? ){0,5}\d+[- ]year[- ]old "  # noqa: E501
        r"(?:[\w-]+,? ){0,3}(?:man|woman|male|female|gentleman|lady)\b)"
    )
    faker = Faker("en_US")
    faker.seed_instance(7)
    rng = random.Random(7)
    n_true = n_found = n_wrong = 0
    for text in texts:
        before = len(find_mentions(text))  # "Mrs. Smith", "Chris": four in all, names they left in
        names: list[tuple[int, int]] = []
        pieces, at = [], 0
        for match in subject.finditer(text):
            name = f"{faker.first_name()} {faker.last_name()}"
            name = (
                f"{rng.choice(('Mr.', 'Ms.'))} {faker.last_name()}" if rng.random() < 0.3 else name
            )
            pieces += [text[at : match.start()], name, " "]
            start = sum(map(len, pieces)) - len(name) - 1
            names.append((start, start + len(name)))
            at = match.end()
        found = find_mentions("".join([*pieces, text[at:]]))
        hits = [n for n in names if any(m.name_start < n[1] and n[0] < m.name_end for m in found)]
        n_true, n_found = n_true + len(names), n_found + len(hits)
        n_wrong += max(0, len(found) - len(hits) - before)
    assert n_true > 500
    assert n_found / n_true >= 0.98
    assert n_found / (n_found + n_wrong) >= 0.98


@needs_data
def test_texts_without_names_have_hardly_a_mention() -> None:
    for file, most in (("mtsamples.jsonl", 4), ("medtxt_ja.jsonl", 0)):
        found = [(t, m) for t in texts_of(file) for m in find_mentions(t)]
        assert len(found) <= most, [t[m.start : m.end] for t, m in found]


@needs_data
def test_recall_on_japanese_reports_with_names_put_in() -> None:
    texts = texts_of("medtxt_ja.jsonl")
    faker = Faker("ja_JP")
    faker.seed_instance(3)
    n_true = n_found = n_wrong = 0
    subject = re.compile(r"(?:症例|患者)(?:は|：|、)(?=[０-９]{1,3}歳[，、]?の?(?:男|女))")
    for text in texts:
        match = subject.search(text)
        if match is None:
            continue
        name = faker.last_name() + faker.first_name()
        new = text[: match.start()] + name + match[0][-1].replace("：", "、") + text[match.end() :]
        found = find_mentions(new)
        hits = [m for m in found if new[m.name_start : m.name_end] == name]
        n_true, n_found, n_wrong = (
            n_true + 1,
            n_found + bool(hits),
            n_wrong + len(found) - len(hits),
        )
    assert n_true > 30
    assert n_found / n_true >= 0.95 and n_found / (n_found + n_wrong) >= 0.95
