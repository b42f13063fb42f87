"""`python -m audit deid tag` and `deid score --misses`: files in, private files out."""

from __future__ import annotations

import csv
import json
import stat

import pytest

from audit.cli import called, parsed
from audit.errors import AuditError

TEXT = "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。みぎわ町の人。"


def deid(*words) -> dict:
    return called(parsed(["deid", *words]))


@pytest.fixture
def gold(tmp_path):
    def span(text, label):
        start = TEXT.index(text)
        return {"start": start, "end": start + len(text), "label": label}

    spans = [span("高橋健一", "識別子"), span("2024年5月3日", "準識別子"),
             span("03-1234-5678", "連絡先情報"), span("みぎわ町", "準識別子")]  # fmt: skip
    path = tmp_path / "gold.jsonl"
    record = {"doc_id": "a", "patient_id": "p", "text": TEXT, "spans": spans}
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n", "utf-8")
    return path


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
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    census = deid("tag", "--tagger", "rules", "--notes", path, "--out", tmp_path / "out")
    assert census["n_notes_of_no_language"] == 1
    assert "1 notes are neither in Japanese nor in English" in capsys.readouterr().err
    lines = (tmp_path / "out" / "redacted.jsonl").read_text("utf-8").splitlines()
    english, japanese, german = (json.loads(line)["text"] for line in lines)
    assert english == "Patient: [NAME], seen on [DATE]."
    assert "【氏名】" in japanese and "【日付】" in japanese and "【連絡先】" in japanese
    assert "[NAME]" in german
    deid("tag", "--tagger", "rules", "--notes", path, "--out", tmp_path / "ja", "--language", "ja")
    first = (tmp_path / "ja" / "redacted.jsonl").read_text("utf-8").splitlines()[0]
    assert json.loads(first)["text"] == "Patient: 【氏名】, seen on 【日付】."


def test_files_that_cannot_be_used(tmp_path, gold):
    with pytest.raises(AuditError, match="not there"):
        deid("tag", "--notes", tmp_path / "no.jsonl", "--out", tmp_path / "out")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"doc_id": "a", "text": "other", "spans": []}\n')
    with pytest.raises(AuditError):
        deid("score", "--gold", gold, "--pred", bad, "--misses", tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists() and not (tmp_path / ".m.csv.part").exists()
