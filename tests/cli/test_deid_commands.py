"""`python -m audit deid score`, `tag` and `build`: one JSON object, or one plain sentence."""

from __future__ import annotations

import csv
import json
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from audit.cli import called, main, parsed
from audit.errors import AuditError

TEXT = "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。みぎわ町の人。"


def deid(*words: object) -> Any:
    return called(parsed(["deid", *words]))


def written(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), "utf-8")
    return path


def note(doc_id: str, text: str, *spans: tuple[int, int, str], **more: str) -> dict[str, Any]:
    named = [{"start": s, "end": e, "label": label} for s, e, label in spans]
    return {"doc_id": doc_id, "text": text, "spans": named, **more}


def test_a_score_by_criterion_and_label(tmp_path, capsys):
    text = "氏名:山田太郎 電話03-1"
    golds = [
        note("1", text, (3, 7, "識別子"), (10, 14, "連絡先情報"), patient_id="p"),
        note("2", "abc", (0, 1, "identifier"), patient_id="p"),
        note("3", "abc"),
    ]
    said = [
        note("2", "abc"),
        note("1", text, (3, 6, "identifier"), (10, 14, "contact")),
        note("4", "zz", (0, 1, "contact")),
    ]
    options = ["--replicates", 50, "--seed", 3]
    found = deid("score", "--gold", written(tmp_path / "g", *golds),
                 "--pred", written(tmp_path / "p", *said), *options)  # fmt: skip
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    entry = found["criteria"]["relaxed"]["labels"]["identifier"]
    assert [entry[name] for name in ("precision", "recall", "complete", "clean", "exact")] == [
        1.0, 0.5, 0.5, 1.0, 0.5,
    ]  # fmt: skip
    assert [entry[name] for name in ("n_gold", "n_predicted", "n_missed")] == [2, 1, 1]
    assert found["criteria"]["strict"]["labels"]["identifier"]["recall"] == 0.0
    assert found["criteria"]["label_relaxed"]["matrix"] == {
        "columns": ["identifier", "contact", "missed"],
        "rows": {"identifier": [1, 0, 1], "contact": [0, 1, 0], "spurious": [0, 0, 0]},
    }
    assert found["coverage"]["together"]["n_covered_whole"] == 1
    assert [found[name] for name in ("n_documents", "n_patients", "seed", "n_replicates")] == [
        3, 2, 3, 50,
    ]  # fmt: skip
    assert found["notes"] == [
        "1 notes were not predicted: their spans count as missed.",
        "1 predicted notes have no gold and were left out.",
    ]
    told = capsys.readouterr().err
    assert "山田" not in told
    assert "2 of 2 identifiers are still readable, in whole or in part" in told
    random.Random(1).shuffle(golds)
    assert found == deid("score", "--gold", written(tmp_path / "g", *golds),
                         "--pred", written(tmp_path / "p", *said[::-1]), *options)  # fmt: skip


def test_other_label_sets_are_kept_or_mapped(tmp_path):
    spans = ((0, 3, "DOCTOR-NAME"), (4, 7, "FECHAS"), (8, 9, "ROOM-X"))
    gold = written(tmp_path / "g", note("1", "Ana hoy 7", *spans))
    sides = ("score", "--gold", gold, "--pred", gold, "--replicates", 2)
    assert set(deid(*sides)["criteria"]["strict"]["labels"]) == {label for *_, label in spans}
    with pytest.raises(AuditError, match="1 labels belong to none of the five types: ROOM-X") as no:
        deid(*sides, "--five-types")
    assert no.value.where == "--five-types"
    table = tmp_path / "map.json"
    table.write_text('{"fechas": "連絡先情報"}')
    assert "ROOM-X" in deid(*sides, "--label-map", table)["notes"][0]
    table.write_text('{"room-x": null, "fechas": "連絡先情報"}')
    own = deid(*sides, "--five-types", "--label-map", table)
    assert list(own["criteria"]["strict"]["labels"]) == ["identifier", "contact"]
    table.write_text("[]")
    with pytest.raises(AuditError, match="no JSON object"):
        deid(*sides, "--label-map", table)


@pytest.mark.parametrize(
    ("gold", "pred", "options", "said"),
    [
        ([], [note("1", "Ann.")], (), "predicted notes, line 1: .*not that of the gold"),
        ([], [note("1", "Ann", (0, 9, "x"))], (), "predicted notes, line 1: .*spans"),
        ([], [note("1", "Ann")] * 2, (), "twice"),
        ([note("1", "Ann")] * 2, [], (), "twice"),
        ([], [note("3", "zz")], (), "no note in common"),
        ([], [], ("--replicates", 0), "--replicates: Choose at least one"),
        ([], [], ("--gold", "no"), "Cannot be read"),
        ([], [], ("--pred", "bad"), "not UTF-8"),
        ([], [], ("--gold", "empty"), "no note to score"),
        ([], [], ("--outputs", "empty"), "--pred, --outputs"),
    ],
)
def test_what_is_wrong_is_said_without_its_text(tmp_path, monkeypatch, gold, pred, options, said):
    monkeypatch.chdir(tmp_path)
    good = [note("1", "Ann", (0, 3, "x"))]
    written(tmp_path / "empty")
    (tmp_path / "bad").write_bytes(b"\xff\n")
    with pytest.raises(AuditError, match=said) as refused:
        deid("score", "--gold", written(tmp_path / "g", *(gold or good)),
             "--pred", written(tmp_path / "p", *(pred or good)), *options)  # fmt: skip
    assert "Ann" not in str(refused.value)


def test_misses_of_a_note_with_half_a_character_are_written(tmp_path):
    gold, pred = tmp_path / "gold.jsonl", tmp_path / "pred.jsonl"
    gold.write_text(json.dumps(note("1", "\ud800森 x", (0, 2, "identifier"))) + "\n", "utf-8")
    pred.write_text(json.dumps(note("1", "\ud800森 x")) + "\n", "utf-8")
    deid("score", "--gold", gold, "--pred", pred, "--misses", tmp_path / "m.csv", "--replicates", 2)
    assert "?森" in (tmp_path / "m.csv").read_text("utf-8")


def test_a_corpus_is_built_and_counted_or_refused(tmp_path, capsys):
    rows = [{"id": str(i), "text": f"症例は{40 + i}歳，男性．軽快した．{i}"} for i in range(20)]
    words = ["deid", "build", "--notes", str(written(tmp_path / "n.jsonl", *rows)),
             "--out", str(tmp_path / "o")]  # fmt: skip
    assert main([*words, "--typer", str(tmp_path)]) != 0
    assert "no model directory" in capsys.readouterr().err
    words += ["--names", "en", "--json"]
    assert not main(words)
    told = json.loads(capsys.readouterr().out)
    assert told["splits"] == {"train": 16, "validation": 2, "test": 2, "rest": 0}
    assert (told["n_templates"], told["locale"]) == (20, "en_US")
    assert json.loads((tmp_path / "o/summary.json").read_text("utf-8")) == told
    assert main(words) != 0, "there is something already"


@pytest.fixture
def gold(tmp_path):
    def span(text, label):
        return TEXT.index(text), TEXT.index(text) + len(text), label

    spans = [span("高橋健一", "識別子"), span("2024年5月3日", "準識別子"),
             span("03-1234-5678", "連絡先情報"), span("みぎわ町", "準識別子")]  # fmt: skip
    return written(tmp_path / "gold.jsonl", note("a", TEXT, *spans, patient_id="p"))


def test_tag_then_score_then_the_list_of_misses(tmp_path, gold, capsys):
    census = deid("tag", "--tagger", "rules", "--notes", gold, "--out", tmp_path / "out", "--json")
    assert json.loads(json.dumps(census, allow_nan=False)) == census
    assert census["n_replaced"] == 3
    pred = tmp_path / "out" / "spans.jsonl"
    misses = tmp_path / "misses.csv"
    found = deid("score", "--gold", gold, "--pred", pred, "--misses", misses, "--replicates", 20)
    quasi = found["criteria"]["strict"]["labels"]["quasi_identifier"]
    assert (quasi["recall"], quasi["precision"]) == (0.5, 1.0)
    with misses.open(encoding="utf-8", newline="") as file:
        (row,) = list(csv.DictReader(file))
    assert (row["kind"], row["gold_text"], row["gold_label"]) == (
        "missed", "みぎわ町", "quasi_identifier",
    )  # fmt: skip
    assert stat.S_IMODE(misses.stat().st_mode) == 0o600
    said = capsys.readouterr().err
    assert "高橋" not in said and "みぎわ" not in said


@pytest.mark.parametrize(
    ("mode", "is_released"),
    [
        ("placeholder", lambda text: "【氏名】" in text and "【連絡先】" in text),
        ("mask", lambda text: len(text) == len(TEXT) and "■■■■" in text),
        ("surrogate", lambda text: "氏名：" in text and "【" not in text and "年" in text),
    ],
)
def test_the_modes(tmp_path, gold, mode, is_released):
    deid("tag", "--tagger", "rules", "--notes", gold, "--out", tmp_path / "out", "--mode", mode)
    text = json.loads((tmp_path / "out" / "redacted.jsonl").read_text("utf-8"))["text"]
    assert is_released(text) and "高橋健一" not in text and "03-1234" not in text


def test_placeholders_follow_the_note_and_other_languages_are_told(tmp_path, capsys):
    texts = (
        "Patient: John Smith, seen on 04/11/2026.",
        TEXT,
        "Der Patient: Anna Weber wurde mit Fieber und Husten in die Klinik gebracht.",
    )
    path = written(tmp_path / "notes.jsonl", *({"text": text} for text in texts))
    census = deid("tag", "--tagger", "rules", "--notes", path, "--out", tmp_path / "out")
    assert census["n_notes_of_no_language"] == 1
    assert "1 notes are neither in Japanese nor in English" in capsys.readouterr().err
    lines = (tmp_path / "out" / "redacted.jsonl").read_text("utf-8").splitlines()
    english, japanese, german = (json.loads(line)["text"] for line in lines)
    assert english == "Patient: [NAME], seen on [DATE]."
    assert "【氏名】" in japanese and "【日付】" in japanese and "【連絡先】" in japanese
    assert "[NAME]" in german


def test_files_that_cannot_be_used(tmp_path, gold):
    with pytest.raises(AuditError, match="not there"):
        deid("tag", "--notes", tmp_path / "no.jsonl", "--out", tmp_path / "out")
    bad = written(tmp_path / "bad.jsonl", note("a", "other"))
    with pytest.raises(AuditError):
        deid("score", "--gold", gold, "--pred", bad, "--misses", tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists() and not (tmp_path / ".m.csv.part").exists()
