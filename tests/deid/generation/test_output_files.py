"""A model's own texts scored: aligned and verbatim, and what was noticed about the copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.cli import deid_score
from audit.deid.copies import Copies, align_outputs, read_copies
from audit.errors import AuditError
from audit.notes.formats import PairedFiles, write_tags
from audit.notes.spans import TaggedDocument
from tests.deid.generation.tiny_model import documents, line_of, write_gold


def outputs_file(path: Path, outputs: dict[str, str]) -> Path:
    path.write_text("".join(line_of(doc_id=k, output=v) for k, v in outputs.items()), "utf-8")
    return path


def score(tmp_path: Path, outputs: Path, **more: Any) -> dict[str, Any]:
    gold = write_gold(tmp_path / "gold.jsonl")
    return deid_score(gold=gold, outputs=outputs, **{"replicates": 20} | more)


def aligned(gold: Path, outputs: Path) -> tuple[PairedFiles, Copies, int]:
    n_without_gold = align_outputs(gold, outputs, folder=outputs.parent)
    pairs = PairedFiles(gold, outputs.with_name("predicted.jsonl"))
    return pairs, read_copies(outputs.parent), n_without_gold


def faithful() -> dict[str, str]:
    return {note.doc_id: write_tags(note) for note in documents()}


def test_perfect_copies_are_perfect_in_both_columns(tmp_path: Path) -> None:
    summary = score(tmp_path, outputs_file(tmp_path / "o.jsonl", faithful()))
    for column in (summary, summary["verbatim"]):
        assert column["criteria"]["strict"]["together"]["f1"] == 1
        assert column["criteria"]["strict"]["together"]["n_gold"] == 5
    assert summary["copies"]["statuses"]["exact"] == 4


def test_an_edited_copy_counts_in_one_column_only(tmp_path: Path) -> None:
    outputs = faithful()
    outputs["d0"] = "はい。" + outputs["d0"] + "<識別子>高橋</識別子>"
    misses = tmp_path / "misses.jsonl"
    summary = score(tmp_path, outputs_file(tmp_path / "o.jsonl", outputs), misses=misses)
    strict = summary["criteria"]["strict"]["together"]
    assert (strict["n_gold"], strict["n_missed"], strict["n_spurious"]) == (5, 0, 1)
    verbatim = summary["verbatim"]["criteria"]["strict"]["together"]
    assert (verbatim["n_gold"], verbatim["n_missed"], verbatim["n_spurious"]) == (5, 2, 0)
    copies = summary["copies"]
    assert (copies["statuses"]["exact"], copies["statuses"]["edited"]) == (3, 1)
    assert (copies["n_unaligned"], copies["n_edits"], copies["n_edits_inside"]) == (1, 5, 2)
    listed = [json.loads(line) for line in misses.read_text("utf-8").splitlines()]
    assert [(one["kind"], one["column"], one["doc_id"]) for one in listed] == [
        ("spurious", "identifier", "d0")
    ]


def test_windows_of_a_kept_copy_are_scored_as_the_tagger_read_them(tmp_path: Path) -> None:
    text = documents()[0].text
    pieces = [
        {"start": 0, "end": 8, "output": "氏名:<識別子>足立志保</識別子> "},
        {"start": 7, "end": len(text), "output": " 番号:<連結符号>53662</連結符号>"},
    ]
    path = tmp_path / "o.jsonl"
    path.write_text(line_of(doc_id="d0", outputs=pieces, status="exact"), "utf-8")
    gold = write_gold(tmp_path / "gold.jsonl")
    files, copies, n_without_gold = aligned(gold, path)
    pairs = list(files)
    assert pairs[0] == (documents()[0], documents()[0])
    assert (files.n_gold_only, n_without_gold) == (3, 0)
    assert list(copies.verbatim(files)) == pairs
    pieces[1]["end"] = 99
    path.write_text(line_of(doc_id="d0", outputs=pieces), "utf-8")
    with pytest.raises(AuditError, match="windows of this line"):
        aligned(gold, path)


def test_outputs_without_gold_and_gold_without_output_are_counted(tmp_path: Path) -> None:
    outputs = {"d0": faithful()["d0"], "other": "x"}
    summary = score(tmp_path, outputs_file(tmp_path / "o.jsonl", outputs))
    assert summary["copies"]["n_notes"] == 1
    assert any(note.startswith("3 notes were not predicted") for note in summary["notes"])
    assert any(note.startswith("1 predicted notes have no gold") for note in summary["notes"])
    assert summary["criteria"]["strict"]["together"]["n_missed"] == 3


def test_a_label_of_the_gold_s_own_is_a_tag(tmp_path: Path) -> None:
    gold = tmp_path / "g.jsonl"
    gold.write_text(
        line_of(doc_id="a", text="東5", spans=[{"start": 0, "end": 2, "label": "WARD"}])
        + line_of(doc_id="b", text="西6", spans=[]),
        "utf-8",
    )
    files, *_ = aligned(gold, outputs_file(tmp_path / "o.jsonl", {"b": "<WARD>西6</WARD>"}))
    assert [predicted.spans for _, predicted in files][1][0].label == "WARD"


def test_perturbed_copies_are_scored_by_their_alignment(tmp_path: Path) -> None:
    text = "患者は森健一、52歳。電話03-1234-5678。記録番号A-5362。経過は良好である。" * 3
    note = TaggedDocument("long", text)
    spans = []
    for part, label in (("森健一", "identifier"), ("03-1234-5678", "contact")):
        at = text.index(part)
        spans.append((at, at + len(part), label))
    gold = tmp_path / "g.jsonl"
    given = [{"start": a, "end": b, "label": label} for a, b, label in spans]
    gold.write_text(line_of(doc_id="long", text=text, spans=given), "utf-8")
    output = f"以下の通りです。\n{text[: spans[0][0]]}<識別子>森健一</識別子>{text[spans[0][1] :]}"
    files, copies, _ = aligned(gold, outputs_file(tmp_path / "o.jsonl", {"long": output}))
    ((_, predicted),) = list(files)
    assert [(s.start, s.end) for s in predicted.spans] == [spans[0][:2]]
    assert predicted.text == note.text
    assert copies.sums["status edited"] == 1


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{}\n", "doc_id"),
        (line_of(doc_id="d0"), "no `output`"),
        ("[]\n", "line 1: cannot be taken"),
        ("no\n", "line 1: cannot be taken"),
        (line_of(doc_id="", output="x"), "doc_id"),
        (line_of(doc_id="d0", output="x") * 2, "twice"),
        (line_of(doc_id="zz", output="x"), "no note in common"),
        (line_of(doc_id="d0", outputs=[{"start": 3, "end": 1, "output": ""}]), "windows of"),
        (
            '{"doc_id": "d0", "outputs": [{"start": 0, "end": 1e400, "output": ""}]}',
            "outputs.0.end",
        ),
        (line_of(doc_id="d0", outputs=[{"start": 0, "end": 1, "output": None}]), "0.output"),
        (line_of(doc_id="d0", outputs=[{"start": False, "end": 1, "output": ""}]), "0.start"),
    ],
    ids=range(11),
)
def test_what_is_no_file_of_outputs_is_said(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(AuditError, match=match):
        score(tmp_path, path)
