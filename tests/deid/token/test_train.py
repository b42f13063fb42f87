"""Training: it learns, it goes on to the same weights, it refuses what it cannot do."""

from __future__ import annotations

import dataclasses
import json
import stat

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

from audit.deid.given import annotated_notes
from audit.deid.network.config import (
    Material,
    TaggerFacts,
    TaggerSettings,
    split_off,
    synthetic,
)
from audit.deid.network.decode import BILOU, TagScheme, characters_of
from audit.deid.network.model import load_token_tagger
from audit.deid.network.training import (
    NO_TAG,
    Lessons,
    TaggerOrder,
    figures_of,
    in_five_types,
    lessons_of,
    predicted,
    train_tagger,
)
from audit.deid.tagger import tag_checked
from audit.errors import AuditCancelled, AuditError
from audit.notes.spans import TYPES, tagged
from audit.training.config import read_losses
from tests.deid.token.make_notes import SMALL, notes, quick
from tests.deid.token.test_reading import wordpiece

NOTES = Material(notes(40), notes(48)[40:])


def order(out, **changes) -> TaggerOrder:
    values = {"settings": quick(), "shape": SMALL, "device": "cpu"}
    return TaggerOrder(out=out, **values | changes)


def stopping_after(n: int):
    """Ask to stop at the n-th question."""
    left = [n]

    def ask() -> bool:
        left[0] -= 1
        return left[0] <= 0

    return ask


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "tagger"
    train_tagger(order(out, title="small"), NOTES)
    return out


def test_it_learns_notes_with_a_plain_rule(trained):
    tagger = load_token_tagger(trained, device="cpu")
    texts = [one.text for one in NOTES.validation]
    figures = figures_of(predicted(NOTES.validation, tag_checked(tagger, texts)))
    assert figures["n_gold"] == 24 and figures["f"] > 0.95
    facts = TaggerFacts.of_folder(trained)
    assert facts.measured["n_gold"] == 24 and facts.title == "small"
    assert [point.f is not None for point in read_losses(trained)].count(True) == 2
    assert tagger.digest == facts.digest() and tagger.labels == TYPES


def test_long_notes_and_empty_ones_are_tagged(trained):
    tagger = load_token_tagger(trained, device="cpu")
    one = NOTES.validation[0]
    long = (one.text + "血圧は正常である。\n" * 20) * 12
    empty, blank, spans, alone = tag_checked(tagger, ["", " \n", long, one.text])
    assert not empty and not blank and len(alone) == 3
    assert len(spans) == 36
    assert {long[s.start : s.end] for s in spans} == {one.text[s.start : s.end] for s in alone}


def test_its_files_are_private_and_nothing_else_is_left(trained):
    names = {path.name for path in trained.iterdir()}
    assert names == {"tagger.json", "model", "training.json", "losses.jsonl"}
    assert stat.S_IMODE((trained / "model").stat().st_mode) == 0o700
    for path in trained.rglob("*"):
        assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600
    told = (trained / "tagger.json").read_text() + (trained / "training.json").read_text()
    assert "山田" not in told and str(trained.parent) not in told


def test_a_training_that_was_stopped_ends_with_the_same_bytes(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train_tagger(order(whole), NOTES)
    for n in (9, 3, 14):
        with pytest.raises(AuditCancelled):
            train_tagger(order(cut), NOTES, should_stop=stopping_after(n))
    assert (cut / "checkpoint").is_dir() and not (cut / "tagger.json").exists()
    train_tagger(order(cut), NOTES)
    for name in ("model.safetensors", "characters.json", "config.json"):
        assert (cut / "model" / name).read_bytes() == (whole / "model" / name).read_bytes()
    assert TaggerFacts.of_folder(cut).digest() == TaggerFacts.of_folder(whole).digest()
    steps = [(p.step, p.f) for p in read_losses(cut)]
    assert steps == [(p.step, p.f) for p in read_losses(whole)]


def test_another_training_does_not_take_a_folder(trained, tmp_path):
    with pytest.raises(AuditError, match="another training"):
        train_tagger(order(trained, settings=quick(seed=1)), NOTES)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "tagger.json").write_text("{}")
    with pytest.raises(AuditError, match="another training"):
        train_tagger(order(tmp_path / "x"), NOTES)
    before = (trained / "tagger.json").read_bytes()
    train_tagger(order(trained, title="small"), NOTES)
    assert (trained / "tagger.json").read_bytes() == before


def test_a_changed_file_of_a_tagger_is_refused(trained, tmp_path):
    folder = tmp_path / "copy"
    (folder / "model").mkdir(parents=True)
    for path in trained.rglob("*"):
        if path.is_file():
            (folder / path.relative_to(trained)).write_bytes(path.read_bytes())
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


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoders") / "bert"
    reader = wordpiece()
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(reader.tokenizer), hidden_size=32, num_hidden_layers=1,
                         num_attention_heads=2, intermediate_size=64,
                         max_position_embeddings=40)).save_pretrained(path)  # fmt: skip
    reader.tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize("scheme", ["BIO", BILOU])
def test_any_encoder_with_a_fast_tokenizer_is_trained_and_loaded_again(encoder, tmp_path, scheme):
    out = tmp_path / "tagger"
    settings = quick(scheme=scheme, n_epochs=1.0, n_tokens=512, overlap=16)
    with pytest.raises(AuditError, match="too short"):
        train_tagger(order(out, encoder=encoder, settings=quick(n_tokens=16)), NOTES)
    facts = train_tagger(order(out, encoder=encoder, settings=settings), NOTES)
    assert facts.n_tokens == 40 and facts.scheme == scheme
    tagger = load_token_tagger(out, device="cpu")
    texts = [one.text * 3 for one in NOTES.validation]
    assert tag_checked(tagger, texts) == tag_checked(load_token_tagger(out, device="cpu"), texts)


def test_what_is_no_encoder_is_refused(encoder, tmp_path):
    with pytest.raises(AuditError):
        train_tagger(order(tmp_path / "a", encoder=tmp_path), NOTES)
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in encoder.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "x.Y"}}))
    with pytest.raises(AuditError, match="can load code"):
        train_tagger(order(tmp_path / "b", encoder=broken), NOTES)
    (broken / "config.json").write_text(json.dumps(config))
    weights = load_file(broken / "model.safetensors")
    dropped = {k: v for k, v in weights.items() if not k.startswith("encoder.layer.0.attention")}
    save_file(dropped, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AuditError, match="as an encoder"):
        train_tagger(order(tmp_path / "c", encoder=broken), NOTES)


def test_hidden_tokens_are_unknown_and_keep_tag_and_kind():
    scheme = TagScheme(TYPES)
    reader = characters_of([one.text for one in NOTES.train], n_most=500, n_times=1)
    lessons = lessons_of(NOTES.train, reader=reader, scheme=scheme)
    settings = quick(hidden_share=0.9, unknown_share=0.0, n_epochs=2.0)
    made = Lessons(lessons, settings=settings, size=500, unknown_id=reader.unknown_id)
    assert made.n_rows == 40 and made.n_steps == 10
    rows = made.of_step(1)
    assert [row["id"].tolist() for row in rows] == [row["id"].tolist() for row in made.of_step(1)]
    is_hidden = [row["id"] == reader.unknown_id for row in rows]
    assert all((row["span"][h] > 0).all() for row, h in zip(rows, is_hidden, strict=True))
    assert sum(h.sum() for h in is_hidden) > 0.6 * sum((r["span"] > 0).sum() for r in rows)
    seen = [row["tag"].tolist() for step in range(1, 6) for row in made.of_step(step)]
    assert sorted(seen) == sorted(one["tag"].tolist() for one in lessons)
    blanks = [one["tag"][[c.isspace() for c in d.text]] for one, d in zip(lessons, NOTES.train,
                                                                        strict=True)]  # fmt: skip
    assert all((tags == NO_TAG).all() for tags in blanks)


def test_the_patients_that_are_kept_apart_are_nobody_elses():
    documents = [dataclasses.replace(one, patient_id=f"p{i % 7}")
                 for i, one in enumerate(notes(40))]  # fmt: skip
    found = split_off(documents, seed=3, share=0.2)
    sides = [{d.patient for d in side} for side in (found.train, found.validation)]
    assert not sides[0] & sides[1] and len(found.train) + len(found.validation) == 40
    assert 8 <= len(found.validation) <= 14
    with pytest.raises(AuditError, match="too few"):
        split_off(documents[:1], seed=0)
    with pytest.raises(AuditError, match="nothing to learn"):
        Material((tagged("a", text="x", spans=()),), notes(1))


def test_gold_is_read_in_any_format_and_foreign_labels_are_mapped(tmp_path):
    path = tmp_path / "gold.jsonl"
    lines = [{"doc_id": i, "text": "Dr. Smith, 555-1234 x",
              "spans": [{"start": 4, "end": 9, "label": "DOCTOR"},
                        {"start": 11, "end": 19, "label": "PHONE"},
                        {"start": 20, "end": 21, "label": "dose"}]}
             for i in range(2)]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    documents, unknown = in_five_types(annotated_notes(path).all())
    assert unknown == ("dose",)
    assert [span.label for span in documents[0].spans] == ["identifier", "contact"]
    with pytest.raises(AuditError, match="not there"):
        annotated_notes(tmp_path / "none.jsonl")


def test_synthetic_notes_come_in_turn_and_can_be_stopped():
    made = list(synthetic(5, seed=1, languages=("ja", "en")))
    assert [one.doc_id[:3] for one in made] == ["ja/", "ja/", "ja/", "en/", "en/"]
    assert made == list(synthetic(5, seed=1, languages=("ja", "en")))
    with pytest.raises(AuditCancelled):
        list(synthetic(5, seed=1, languages=("ja",), should_stop=lambda: True))


def test_settings_are_checked_and_come_back():
    settings = quick(biases=(0.0, 1.0))
    assert TaggerSettings.read(settings.written(), where="setting") == settings
    n_steps = 100
    factors = TaggerSettings().rate_factor
    rates = [factors(step, n_steps=n_steps) for step in range(1, n_steps + 1)]
    assert max(rates) == 1 == rates[9] and 0 < rates[-1] < rates[50]
    for wrong in ({"batch": 0}, {"scheme": "x"}, {"learning_rate": float("nan")}, {"overlap": 99}):
        with pytest.raises(AuditError, match=r"must be|overlap"):
            quick(**wrong)
    for wrong in ({"n_epochs": "3"}, {"nothing": 1}):
        with pytest.raises(AuditError, match="setting"):
            TaggerSettings.read(json.dumps(wrong), where="setting")
