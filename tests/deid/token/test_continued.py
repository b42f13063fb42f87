"""Trainings that go on from the default tagger, and labels that are not known, by the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.cli import called, parsed
from audit.deid.tagger import tag_checked
from audit.deid.taggers import SHIPPED, known_tagger, load_tagger, trained_tagger
from audit.errors import AuditError
from audit.notes.formats import write_jsonl
from audit.notes.spans import IDENTIFIER, Span, TaggedDocument
from tests.deid.token.make_notes import notes, quick, train
from tests.deid.unseen_notes import written

FAST = ("--evaluations", "1", "--device", "cpu")


def deid_train(*words: object) -> dict[str, Any]:
    epochs = () if "--epochs" in words else ("--epochs", "1")
    return dict(called(parsed(["deid", "train", *words, *epochs, *FAST])))


def gold_file(path: Path, documents: Sequence[TaggedDocument]) -> Path:
    path.write_text(write_jsonl(documents), "utf-8")
    return path


def touched(tagger_id: str, documents: Sequence[TaggedDocument]) -> dict[str, int]:
    """Return how many golds and names a tagger touches, and what it takes out for nothing."""
    answers = tag_checked(load_tagger(tagger_id, device="cpu"), [one.text for one in documents])
    counts = {"all": 0, "names": 0, "harmless": 0}
    for document, spans in zip(documents, answers, strict=True):
        for gold in document.spans:
            is_touched = any(s.start < gold.end and gold.start < s.end for s in spans)
            counts["all"] += is_touched
            counts["names"] += is_touched and gold.label == IDENTIFIER
        taken = {place for span in spans for place in range(span.start, span.end)}
        named = {place for span in document.spans for place in range(span.start, span.end)}
        counts["harmless"] += len(taken - named)
    return counts


@pytest.mark.long
def test_a_training_from_the_default_keeps_what_the_default_finds(tmp_path: Path) -> None:
    gold = gold_file(tmp_path / "gold.jsonl", written("third/en")[:24])
    told = deid_train(
        "--from",
        "default",
        "--gold",
        gold,
        "--title",
        "Ward",
        "--epochs",
        "3",
        "--validation",
        gold,
    )
    kept = trained_tagger(told["tagger_id"])
    shipped = json.loads((SHIPPED / "tagger.json").read_bytes())["digest"]
    base = {"name": "default", "digest": shipped, "has_rules": True}
    assert kept.training["base"] == told["training"]["base"] == base
    # It is asked as the default one is, and has its lists.
    assert (kept.kind, kept.title) == ("combined", "Ward")
    assert kept.has_rules and kept.is_quick
    tagger = load_tagger(kept.tagger_id, device="cpu")
    assert tagger.digest == kept.digest == told["digest"] != load_tagger("default").digest
    lists = [folder / "model" / "lists.json" for folder in (SHIPPED, Path(told["directory"]))]
    assert lists[0].read_bytes() == lists[1].read_bytes()
    assert kept.training["best_step"] > 0
    others = written("third/en")[40:]
    before, after = touched("default", others), touched(kept.tagger_id, others)
    assert before["names"] >= 50
    assert after["names"] >= before["names"] and after["all"] >= before["all"]
    assert after["harmless"] <= 1.2 * before["harmless"]


def test_where_nothing_is_better_the_start_is_kept(tmp_path: Path) -> None:
    gold = written("third/ja")[:12]
    no_names = [note.with_spans([]) for note in gold[1:]]  # what is learned is to find nothing
    told = deid_train(
        "--from",
        "default",
        "--gold",
        gold_file(tmp_path / "gold.jsonl", [gold[0], *no_names]),
        "--validation",
        gold_file(tmp_path / "apart.jsonl", written("third/ja")[12:20]),
        "--learning-rate",
        "0.01",
        "--out",
        tmp_path / "out",
    )
    assert told["training"]["best_step"] == 0
    again = deid_train(
        "--from",
        tmp_path / "out",
        "--gold",
        tmp_path / "gold.jsonl",
        "--validation",
        tmp_path / "apart.jsonl",
        "--learning-rate",
        "0.01",
        "--out",
        tmp_path / "again",
    )
    assert again["training"]["base"]["name"] == "out" and again["training"]["best_step"] == 0
    texts = [note.text for note in gold]
    for out in ("out", "again"):
        tagger = load_tagger(str(tmp_path / out), device="cpu")
        assert tag_checked(tagger, texts) == tag_checked(load_tagger("default"), texts)
    assert known_tagger(str(tmp_path / "out")).kind == "combined"


def test_a_start_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    gold = gold_file(tmp_path / "gold.jsonl", notes(12))
    other = tmp_path / "generative"
    other.mkdir()
    (other / "tagger.json").write_text('{"kind": "generative", "digest": "0"}')
    for start, said in (
        ("rules", "of another kind"),
        (other, "of another kind"),
        ("none", "no such tagger"),
        ("default+rules", "of another kind"),
        ("trained/0123456789ab", "no such tagger"),
    ):
        with pytest.raises(AuditError, match=said):
            deid_train("--from", start, "--gold", gold)
    for more in (("--encoder", tmp_path), ("--kind", "generative", "--model", tmp_path)):
        with pytest.raises(AuditError, match="no effect here"):
            deid_train("--from", "default", "--gold", gold, *more)


def test_a_label_that_is_not_known_is_refused_or_mapped(tmp_path: Path) -> None:
    foreign = [
        note.with_spans(
            [
                Span(s.start, s.end, "FOO")
                if s.label == IDENTIFIER
                else Span(s.start, s.end, "BAR-B")
                if s.label == "contact"
                else s
                for s in note.spans
            ]
        )
        for note in notes(12)
    ]
    gold, names = gold_file(tmp_path / "gold.jsonl", foreign), tmp_path / "map.json"
    order = ("--gold", gold, "--out", tmp_path / "out", "--tokens", "32")
    with pytest.raises(AuditError, match=r"24 spans are labelled BAR-B \(12\), FOO \(12\)"):
        deid_train(*order)
    names.write_text('{"FOO": "identifier", "bar b": "BAZ"}')
    with pytest.raises(AuditError, match=r"12 spans are labelled BAR-B \(12\)"):
        deid_train(*order, "--label-map", names)
    names.write_text('{"FOO": "identifier", "bar b": null}')
    told = deid_train(*order, "--label-map", names)
    assert told["training"]["n_spans"] == 2 * told["training"]["n_notes"]


def test_a_training_goes_on_from_one_without_rules_as_without_them(tmp_path: Path) -> None:
    train(tmp_path / "small", settings=quick(n_epochs=0.5))
    gold = gold_file(tmp_path / "gold.jsonl", notes(12))
    told = deid_train("--from", tmp_path / "small", "--gold", gold, "--out", tmp_path / "on")
    assert told["training"]["base"]["has_rules"] is False
    assert load_tagger(str(tmp_path / "on"), device="cpu").name == "token"
