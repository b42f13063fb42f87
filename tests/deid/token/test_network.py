"""The token tagger: rows, training to the same bytes, its files, the job and the command."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import BertConfig, BertModel

from audit.cli.command_line import call_command
from audit.deid.find.network.decode import END, cut_rows, find_placed_tokens, score_notes
from audit.deid.find.network.token_model import new_model, save_model_folder
from audit.deid.find.network.token_tagger import load_model, load_token_tagger
from audit.deid.find.network.word_lists import make_words_reader
from audit.deid.find.network.wordnet import Shape
from audit.deid.find.tagger import tag_and_check
from audit.deid.find.tagger_facts import TaggerFacts
from audit.deid.learn.tagger_task import TaggerSettings
from audit.deid.learn.training import (
    Material,
    TokenLearner,
    map_to_five_types,
    measure_pairs,
    pair_documents,
    split_material,
)
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import write_jsonl
from audit.notes.spans import TYPES, Span, TaggedDocument, build_document
from audit.training.config import read_losses
from tests.deid.token.make_notes import SMALL, notes, quick, task, train, wordpiece

NOTES = Material(notes(40), notes(48)[40:])
LEARN = {"shape": SMALL, "is_halved": False, "device": "cpu"}
SIZES = st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n // 2)))


def stopping_after(n: int) -> Any:
    """Ask to stop at the n-th question."""
    left = iter(range(n - 1))
    return lambda: next(left, None) is None


@given(st.integers(0, 200), SIZES)
def test_every_token_counts_in_one_row(n_tokens: int, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    rows = cut_rows(0, n_tokens=n_tokens, size=size, overlap=overlap)
    assert [token for row in rows for token in range(row.first, row.last)] == list(range(n_tokens))
    for row in rows:
        assert row.start <= row.first < row.last <= row.end <= n_tokens
        assert row.end - row.start == min(size, n_tokens)
        # What counts has half the overlap beside it, but at the ends of the note.
        assert row.start == 0 or row.first - row.start >= overlap // 2
        assert row.end == n_tokens or row.end - row.last == overlap // 2


def test_padding_batches_and_rows_change_no_score() -> None:
    reader = make_words_reader()
    model = new_model(reader, shape=SMALL, n_tags=11, seed=1)
    model.module.eval()
    texts = ["山田 03-1", "氏名：山田太郎　様\nID 1000 電話：03-0000-55。" * 6, "", "x" * 3000]
    tokens_of_texts = reader.read(texts)
    note_scores = score_notes(tokens_of_texts, model=model, size=4000, overlap=0)
    for tokens, together in zip(tokens_of_texts, note_scores, strict=True):
        assert len(together) == len(find_placed_tokens(tokens)) and together.dtype == np.float32
        (alone,) = score_notes([tokens], model=model, size=4000, overlap=0)
        np.testing.assert_allclose(together, alone, rtol=0, atol=1e-4)
    # Rows that share twice the reach score like the whole note.
    reach = model.module.reach
    assert reach == 8
    (cut_scores,) = score_notes(
        [tokens_of_texts[1]], model=model, size=6 * reach, overlap=2 * reach
    )
    (small_scores,) = score_notes([tokens_of_texts[1]], model=model, size=8, overlap=0)
    np.testing.assert_allclose(cut_scores, note_scores[1], rtol=0, atol=1e-4)
    assert np.abs(small_scores - note_scores[1]).max() > 0.01


@pytest.mark.parametrize("shape", [SMALL, Shape()])
def test_what_is_asked_scores_as_what_was_trained(shape: Shape, tmp_path: Path) -> None:
    reader = make_words_reader()
    model = new_model(reader, shape=shape, n_tags=11, seed=1)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter += 0.1 * torch.randn(
                parameter.shape, generator=torch.Generator().manual_seed(2)
            )
    model.module.eval()
    save_model_folder(model, tmp_path)
    scorer = load_model(tmp_path, n_tags=11)
    texts = [
        "",
        "x",
        "山田 03-1",
        *(note.text for note in NOTES.validation),
        "Dr. SMITH, smith\n" * 99,
    ]
    tokens_of_texts = scorer.reader.read(texts)
    for scores, torch_scores in zip(
        score_notes(tokens_of_texts, model=scorer, size=1024, overlap=64),
        score_notes(tokens_of_texts, model=model, size=1024, overlap=64),
        strict=True,
    ):
        np.testing.assert_allclose(scores, torch_scores, rtol=0, atol=1e-4)


def test_the_loss_is_the_mean_over_the_tokens_that_a_step_is_told(tmp_path: Path) -> None:
    settings = quick(unknown_share=0.0, hidden_share=0.0, n_tokens=60, batch=8, micro_batch=3)
    learner = TokenLearner(task(tmp_path, settings=settings), settings, NOTES, **LEARN)
    assert (learner.n_steps, learner.lessons.n_rows) == (20, 40)
    learner.model.eval()
    reader, tags = learner.token_model.reader, learner.scheme.tags
    tags_of_rows: list[str] = []
    for step in range(1, 6):
        step_loss = sum(learner.loss(rows).item() for rows in learner.passes(step))
        rows = [row for part, _ in learner.passes(step) for row in part]
        total, n = 0.0, 0
        for row in rows:
            logits = learner.token_model.logits([row])[0, len(reader.prefix) :]
            places = np.flatnonzero(row["tag"] >= 0)
            log_probabilities = functional.log_softmax(logits.double(), dim=1)[places]
            targets = torch.from_numpy(row["tag"][places].astype(np.int64))
            total -= log_probabilities.gather(1, targets[:, None]).sum().item()
            n += len(places)
            tags_of_rows.append(" ".join(tags[tag] for tag in row["tag"][places]))
        assert step_loss == pytest.approx(total / n, rel=1e-5)
    # An epoch has every note once; every place has a tag, and white space has none.
    (tokens,) = reader.read([NOTES.train[0].text])
    places = tokens[find_placed_tokens(tokens)]
    names = dict.fromkeys(range(len(NOTES.train[0].text)), "O")
    for span in NOTES.train[0].spans:
        names |= {place: f"I-{span.label}" for place in range(span.start, span.end)}
        names[span.start] = f"B-{span.label}"
    by_hand = " ".join(names[place] for place in places["start"].tolist())
    assert len(tags_of_rows) == 40 and tags_of_rows.count(by_hand) == sum(
        [s.label for s in note.spans] == [s.label for s in NOTES.train[0].spans]
        and len(note.text) == len(NOTES.train[0].text)
        for note in NOTES.train
    )


@pytest.mark.parametrize(("hidden", "unknown"), [(0.9, 0.0), (0.0, 0.3)])
def test_hidden_tokens_are_unknown_and_whole_spans(
    tmp_path: Path, hidden: float, unknown: float
) -> None:
    settings = quick(hidden_share=hidden, unknown_share=unknown, n_epochs=2.0, n_tokens=500)
    learner = TokenLearner(task(tmp_path), settings, NOTES, **LEARN)
    rows, again = ([row for part, _ in learner.passes(1) for row in part] for _ in range(2))
    assert [row["id"].tolist() for row in rows] == [row["id"].tolist() for row in again]
    unknown_id = learner.token_model.reader.unknown_id
    is_unknown = [(row["id"][:, : END + 1] == unknown_id).all(axis=1) for row in rows]
    if unknown:
        assert np.concatenate(is_unknown).mean() == pytest.approx(0.3, abs=0.1)
        return
    shares = [
        (number > 0, is_row_unknown[row["span"] == number].mean())
        for row, is_row_unknown in zip(rows, is_unknown, strict=True)
        for number in np.unique(row["span"])
    ]
    assert {share for is_span, share in shares if not is_span} == {0.0}
    hidden_spans = [share for is_span, share in shares if is_span]
    assert set(hidden_spans) == {0.0, 1.0} and len(hidden_spans) == 24
    assert 0.6 < sum(hidden_spans) / 24 < 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "tagger"
    train(folder, title="small")
    return folder


def test_it_learns_notes_with_a_plain_rule(trained: Path) -> None:
    tagger = load_token_tagger(trained, device="cpu")
    tags = tag_and_check(tagger, [note.text for note in NOTES.validation])
    figures = measure_pairs(pair_documents(NOTES.validation, tags), beta=2.0)
    facts = TaggerFacts.of_folder(trained)
    assert facts.measured == figures.plain() and figures.n_gold == 24 and figures.f > 0.95
    assert (facts.title, facts.labels, facts.n_tokens, facts.overlap) == ("small", TYPES, 1024, 16)
    assert (
        tagger.digest == facts.digest() and tagger.labels == TYPES and facts.bias in quick().biases
    )
    training = facts.training
    assert (training["settings"], training["shape"]) == (quick().plain(), SMALL.plain())
    assert [training[name] for name in ("n_steps", "n_notes", "n_spans", "n_validation_notes")] == [
        40,
        40,
        120,
        8,
    ]
    points = read_losses(trained)
    measured = {point.step: point.f for point in points if point.f is not None}
    assert list(measured) == [20, 40] and measured[training["best_step"]] == max(measured.values())
    empty, blank = tag_and_check(tagger, ["", " \n"])
    assert not empty and not blank
    note = NOTES.validation[0]
    long = (note.text + "血圧は正常である。\n" * 20) * 12
    spans, alone = tag_and_check(tagger, [long, note.text])
    assert len(spans) == 36 and len(alone) == 3
    assert {long[s.start : s.end] for s in spans} == {note.text[s.start : s.end] for s in alone}
    assert {path.name for path in trained.iterdir()} == {
        "tagger.json",
        "model",
        "training.json",
        "losses.jsonl",
    }
    for path in trained.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    text = (trained / "tagger.json").read_text() + (trained / "training.json").read_text()
    assert "山田" not in text and str(trained.parent) not in text


@pytest.mark.long
def test_stopped_it_ends_with_the_same_bytes_and_another_is_refused(
    trained: Path, tmp_path: Path
) -> None:
    stopped = tmp_path / "cut"
    for n in (9, 3, 14):
        with pytest.raises(AuditCancelled):
            train(stopped, should_stop=stopping_after(n))
    assert (stopped / "checkpoint").is_dir() and not (stopped / "tagger.json").exists()
    train(stopped)
    for name in ("model.safetensors", "lists.json", "config.json"):
        assert (stopped / "model" / name).read_bytes() == (trained / "model" / name).read_bytes()
    assert TaggerFacts.of_folder(stopped).digest() == TaggerFacts.of_folder(trained).digest()
    curves = [[(p.step, p.loss, p.f) for p in read_losses(folder)] for folder in (stopped, trained)]
    assert curves[0] == curves[1]
    bytes_before = (trained / "tagger.json").read_bytes()
    train(trained, title="other")
    assert (trained / "tagger.json").read_bytes() == bytes_before
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "tagger.json").write_text("{}")
    for folder, settings in ((trained, quick(seed=1)), (tmp_path / "x", quick())):
        with pytest.raises(AuditError, match="The folder holds another training"):
            train(folder, settings=settings)


def test_a_changed_file_of_a_tagger_is_refused(trained: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained, tmp_path / "copy")
    load_token_tagger(folder, device="cpu")
    weights = load_file(folder / "model" / "model.safetensors")
    weights["head.bias"] = weights["head.bias"] + 1
    save_file(weights, folder / "model" / "model.safetensors")
    with pytest.raises(AuditError, match="not those that the tagger was saved with"):
        load_token_tagger(folder, device="cpu")
    content = json.loads((folder / "tagger.json").read_text())
    (folder / "tagger.json").write_text(json.dumps(content | {"bias": 9.0}))
    with pytest.raises(AuditError, match="does not describe"):
        TaggerFacts.of_folder(folder)
    with pytest.raises(AuditError, match="cannot be read"):
        TaggerFacts.of_folder(tmp_path / "nowhere")
    facts = TaggerFacts.of_folder(trained).with_(n_tokens=8, overlap=0, files={})
    for wrong in ({"overlap": 5}, {"labels": ("x", "x")}):
        with pytest.raises(AuditError):
            facts.with_(**wrong)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoders") / "bert"
    reader = wordpiece()
    torch.manual_seed(0)
    BertModel(
        BertConfig(
            vocab_size=len(reader.tokenizer),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=40,
        )
    ).save_pretrained(path)
    reader.tokenizer.save_pretrained(path)
    return path


def test_an_encoder_with_a_fast_tokenizer_is_trained_and_loaded_again(
    encoder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "tagger"
    settings = quick(n_epochs=1.0, n_tokens=512, overlap=16)
    with pytest.raises(AuditError, match="Rows of 16 tokens are too short for this overlap"):
        train(folder, start=encoder, settings=quick(n_tokens=16))
    facts = train(folder, start=encoder, settings=settings)
    assert (facts.n_tokens, facts.overlap, facts.scheme) == (40, 16, "BIO")
    assert facts.training["encoder"] == "bert" and facts.training["shape"] is None
    tagger = load_token_tagger(folder, device="cpu")
    tags = tag_and_check(tagger, [note.text for note in NOTES.validation])
    figures = measure_pairs(pair_documents(NOTES.validation, tags), beta=2.0)
    assert figures.plain() == facts.measured


def test_what_is_no_encoder_is_refused(encoder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(encoder, tmp_path / "broken")
    config, path = json.loads((broken / "config.json").read_text()), broken / "model.safetensors"
    weights = load_file(path)
    lacking = {k: v for k, v in weights.items() if "attention" not in k}
    endless = weights | {"embeddings.LayerNorm.bias": torch.full((32,), float("inf"))}
    for changed, wrong_weights, message in (
        ({"auto_map": {"AutoModel": "x.Y"}}, weights, "can load code"),
        ({}, lacking, "cannot be loaded as an encoder"),
        ({"model_type": "none"}, weights, "cannot be loaded as an encoder"),
        ({}, endless, "The weights hold numbers that are not finite"),
    ):
        (broken / "config.json").write_text(json.dumps(config | changed))
        save_file(wrong_weights, path, metadata={"format": "pt"})
        with pytest.raises(AuditError, match=message):
            train(tmp_path / "o", start=broken)


def test_material() -> None:
    documents = [
        dataclasses.replace(document, patient_id=f"p{i % 7}")
        for i, document in enumerate(notes(40))
    ]
    material = split_material(documents, seed=3, share=0.2)
    sides = [{d.patient for d in side} for side in (material.train, material.validation)]
    assert not sides[0] & sides[1] and len(material.train) + len(material.validation) == 40
    assert sorted({d.patient_id for d in material.validation}) == ["p0", "p3"]
    assert (
        len({m.digest for m in (material, Material(material.validation, material.train), NOTES)})
        == 3
    )
    for make_material, message in (
        (lambda: split_material(documents[:1], seed=0), "too few notes"),
        (
            lambda: Material((build_document("a", text="x", spans=()),), notes(1)),
            "nothing to learn",
        ),
    ):
        with pytest.raises(AuditError, match=message):
            make_material()
    text, spans = "Dr. Smith, 555-1234 x", ((4, 9, "DOCTOR"), (11, 19, "PHONE"), (20, 21, "dose"))
    source_document = TaggedDocument("d", text, tuple(Span(*fields) for fields in spans))
    (mapped,) = map_to_five_types([source_document], label_map={"dose": ""})
    assert mapped == source_document.with_spans([Span(4, 9, "identifier"), Span(11, 19, "contact")])


def test_figures_by_hand() -> None:
    gold = build_document(
        "a", text="abcdef", spans=[Span(0, 1, "x"), Span(2, 3, "x"), Span(4, 5, "y")]
    )
    prediction = gold.with_spans([Span(0, 1, "x"), Span(2, 4, "x")])
    f = 5 * (1 / 2) * (1 / 3) / (4 * (1 / 2) + 1 / 3)
    assert measure_pairs([(gold, prediction)], beta=2.0).plain() == {
        "criterion": "strict",
        "n_gold": 3,
        "n_predicted": 2,
        "n_missed": 2,
        "n_spurious": 1,
        "beta": 2.0,
        "precision": 1 / 2,
        "recall": pytest.approx(1 / 3),
        "f": pytest.approx(f),
    }
    nothing = measure_pairs([(gold.with_spans([]), gold.with_spans([]))])
    assert (nothing.precision, nothing.recall, nothing.f) == (None, None, 0.0)


def test_settings_are_checked_and_come_back() -> None:
    settings = quick(biases=(0.0, 1.0))
    assert TaggerSettings.read(settings.to_bytes(), where="setting") == settings
    rates = [TaggerSettings().rate_factor(step, n_steps=100) for step in range(1, 101)]
    by_hand = [k / 10 for k in range(1, 11)] + [(101 - k) / 91 for k in range(11, 101)]
    assert rates == pytest.approx(by_hand) and TaggerSettings().highest_rate == 5e-5
    for wrong in (
        {"batch": 0},
        {"learning_rate": float("nan")},
        {"overlap": 17},
        {"hidden_share": 1.0},
        {"biases": ()},
        {"recall_weight": 0},
    ):
        with pytest.raises(AuditError, match=r"must be|overlap|least"):
            quick(**wrong)


def test_the_command_trains_and_its_taggers_tag(tmp_path: Path) -> None:
    def deid(*words: object) -> dict[str, Any]:
        return dict(call_command(["deid", *words]))  # type: ignore[list-item]

    gold = tmp_path / "gold.jsonl"
    gold.write_text(write_jsonl(notes(24)), "utf-8")
    fast = ("--epochs", "0.5", "--tokens", "32", "--batch", "8", "--device", "cpu")
    report = deid("train", "--gold", gold, *fast, "--title", "mine")
    assert report["tagger_id"].startswith("trained/") and report["training"]["n_notes"] == 22
    for number, name in enumerate((report["tagger_id"], report["directory"])):
        census = deid(
            "tag",
            "--tagger",
            name,
            "--notes",
            gold,
            "--out",
            tmp_path / f"{number}",
            "--device",
            "cpu",
        )
        assert (census["tagger"]["digest"], census["n_notes"]) == (report["digest"], 24)
    assert deid("train", "--gold", gold, *fast, "--out", tmp_path / "o")["tagger_id"] is None
    for words in ((), ("--gold", "a", "--batch", "0"), ("--gold", "a", "--kind", "generative")):
        with pytest.raises(AuditError):
            deid("train", *words)
