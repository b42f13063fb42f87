"""Trainings that go on from the default tagger, and labels that are not known, by the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.cli.command_line import call_command
from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import SHIPPED, find_tagger, find_trained_tagger, load_tagger
from audit.errors import AuditError
from audit.notes.formats import write_jsonl
from audit.notes.spans import IDENTIFIER, Span, TaggedDocument
from tests.deid.token.make_notes import notes, quick, train
from tests.deid.unseen_notes import read_marked_notes

FAST = ("--evaluations", "1", "--device", "cpu")


def deid_train(*words: object) -> dict[str, Any]:
    epochs = () if "--epochs" in words else ("--epochs", "1")
    return dict(call_command(["deid", "train", *words, *epochs, *FAST]))


def gold_file(path: Path, documents: Sequence[TaggedDocument]) -> Path:
    path.write_text(write_jsonl(documents), "utf-8")
    return path


def touched(tagger_id: str, documents: Sequence[TaggedDocument]) -> dict[str, int]:
    """Return how many golds and names a tagger touches, and what it takes out for nothing."""
    answers = tag_and_check(
        load_tagger(tagger_id, device="cpu"), [document.text for document in documents]
    )
    counts = {"all": 0, "names": 0, "harmless": 0}
    for document, spans in zip(documents, answers, strict=True):
        for gold in document.spans:
            is_touched = any(s.start < gold.end and gold.start < s.end for s in spans)
            counts["all"] += is_touched
            counts["names"] += is_touched and gold.label == IDENTIFIER
        marked_places = {place for span in spans for place in range(span.start, span.end)}
        named = {place for span in document.spans for place in range(span.start, span.end)}
        counts["harmless"] += len(marked_places - named)
    return counts


@pytest.mark.long
def test_a_training_from_the_default_keeps_what_the_default_finds(tmp_path: Path) -> None:
    gold = gold_file(tmp_path / "gold.jsonl", read_marked_notes("third/en")[:24])
    report = deid_train(
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
    tagger_entry = find_trained_tagger(report["tagger_id"])
    shipped = json.loads((SHIPPED / "tagger.json").read_bytes())["digest"]
    base = {"name": "default", "digest": shipped, "has_rules": True}
    assert tagger_entry.training["base"] == report["training"]["base"] == base
    # It is asked as the default one is, and has its lists.
    assert (tagger_entry.kind, tagger_entry.title) == ("combined", "Ward")
    assert tagger_entry.has_rules and tagger_entry.is_quick
    tagger = load_tagger(tagger_entry.tagger_id, device="cpu")
    assert tagger.digest == tagger_entry.digest == report["digest"] != load_tagger("default").digest
    lists = [folder / "model" / "lists.json" for folder in (SHIPPED, Path(report["directory"]))]
    assert lists[0].read_bytes() == lists[1].read_bytes()
    assert tagger_entry.training["best_step"] > 0
    later_notes = read_marked_notes("third/en")[40:]
    counts_before, counts_after = (
        touched("default", later_notes),
        touched(tagger_entry.tagger_id, later_notes),
    )
    assert counts_before["names"] >= 50
    assert (
        counts_after["names"] >= counts_before["names"]
        and counts_after["all"] >= counts_before["all"]
    )
    assert counts_after["harmless"] <= 1.2 * counts_before["harmless"]


@pytest.mark.long
def test_where_nothing_is_better_the_start_is_kept(tmp_path: Path) -> None:
    gold = read_marked_notes("third/ja")[:12]
    no_names = [note.with_spans([]) for note in gold[1:]]  # what is learned is to find nothing
    report = deid_train(
        "--from",
        "default",
        "--gold",
        gold_file(tmp_path / "gold.jsonl", [gold[0], *no_names]),
        "--validation",
        gold_file(tmp_path / "apart.jsonl", read_marked_notes("third/ja")[12:20]),
        "--learning-rate",
        "0.01",
        "--out",
        tmp_path / "out",
    )
    assert report["training"]["best_step"] == 0
    second_report = deid_train(
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
    assert (
        second_report["training"]["base"]["name"] == "out"
        and second_report["training"]["best_step"] == 0
    )
    texts = [note.text for note in gold]
    for name in ("out", "again"):
        tagger = load_tagger(str(tmp_path / name), device="cpu")
        assert tag_and_check(tagger, texts) == tag_and_check(load_tagger("default"), texts)
    assert find_tagger(str(tmp_path / "out")).kind == "combined"


def test_a_start_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    gold = gold_file(tmp_path / "gold.jsonl", notes(12))
    generative_folder = tmp_path / "generative"
    generative_folder.mkdir()
    (generative_folder / "tagger.json").write_text('{"kind": "generative", "digest": "0"}')
    for start, message in (
        ("rules", "of another kind"),
        (generative_folder, "of another kind"),
        ("none", "no such tagger"),
        ("default+rules", "of another kind"),
        ("trained/0123456789ab", "no such tagger"),
    ):
        with pytest.raises(AuditError, match=message):
            deid_train("--from", start, "--gold", gold)
    for options in (("--encoder", tmp_path), ("--kind", "generative", "--model", tmp_path)):
        with pytest.raises(AuditError, match="no effect here"):
            deid_train("--from", "default", "--gold", gold, *options)


@pytest.mark.long
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
    report = deid_train(*order, "--label-map", names)
    assert report["training"]["n_spans"] == 2 * report["training"]["n_notes"]


@pytest.mark.long
def test_a_training_goes_on_from_one_without_rules_as_without_them(tmp_path: Path) -> None:
    train(tmp_path / "small", settings=quick(n_epochs=0.5))
    gold = gold_file(tmp_path / "gold.jsonl", notes(12))
    report = deid_train("--from", tmp_path / "small", "--gold", gold, "--out", tmp_path / "on")
    assert report["training"]["base"]["has_rules"] is False
    assert load_tagger(str(tmp_path / "on"), device="cpu").name == "token"
