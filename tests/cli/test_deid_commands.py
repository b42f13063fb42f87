"""`python -m audit deid score`, `tag` and `build`: one JSON object, or one plain sentence."""

from __future__ import annotations

import csv
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from audit.access_log import entries
from audit.cli import main
from audit.cli.command_line import call_command
from audit.deid.measure.score_report import SCORES
from audit.errors import AuditError

TEXT = "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。みぎわ町の人。"


def deid(*words: object) -> Any:
    return call_command(["deid", *words])


def write_records(path: Path, *records: object) -> Path:
    path.write_text(
        "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8"
    )
    return path


def note(doc_id: str, text: str, *spans: tuple[int, int, str], **fields: str) -> dict[str, Any]:
    named = [{"start": s, "end": e, "label": label} for s, e, label in spans]
    return {"doc_id": doc_id, "text": text, "spans": named, **fields}


@pytest.fixture
def gold(tmp_path):
    def span(text, label):
        return TEXT.index(text), TEXT.index(text) + len(text), label

    spans = [
        span("高橋健一", "識別子"),
        span("2024年5月3日", "準識別子"),
        span("03-1234-5678", "連絡先情報"),
        span("みぎわ町", "準識別子"),
    ]
    return write_records(tmp_path / "gold.jsonl", note("a", TEXT, *spans, patient_id="p"))


def test_tag_then_score_then_the_list_of_misses(tmp_path, gold, capsys):
    out, misses = tmp_path / "out", tmp_path / "misses.csv"
    words = ("tag", "--tagger", "rules", "--notes", gold, "--out", out, "--mode", "mask")
    census = deid(*words)
    assert json.loads(json.dumps(census, allow_nan=False)) == census
    assert census["n_replaced"] == 3
    released = json.loads((out / "redacted.jsonl").read_text("utf-8"))["text"]
    assert len(released) == len(TEXT) and "■■■■" in released and "高橋" not in released
    with gold.open("a", encoding="utf-8") as file:
        file.write(json.dumps(note("b", "\ud800森", (0, 2, "識別子"))) + "\n")
    scores = deid("score", "--gold", gold, "--pred", out, "--misses", misses, "--replicates", 20)
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores
    quasi = scores["criteria"]["strict"]["labels"]["quasi_identifier"]
    assert (quasi["recall"], quasi["precision"], scores["n_replicates"]) == (0.5, 1.0, 20)
    assert scores["notes"] == [
        "1 notes were not predicted: their spans count as missed.",
        "The gold has none of these types, so nothing is known about them: "
        "personal_id_code, linkage_code",
        "The gold has none of these kinds, so nothing is known about them: time, age, sex, id",
    ]
    with misses.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["kind"], row["gold_text"], row["gold_label"]) for row in rows] == [
        ("missed", "みぎわ町", "quasi_identifier"),
        ("missed", "?森", "identifier"),
    ]
    assert stat.S_IMODE(misses.stat().st_mode) == 0o600
    score = SCORES.get(scores["score_id"]).path
    assert f"deid forget {score.name}" in scores["kept"]
    copies = [*(SCORES.home() / ".given").iterdir()]
    os.utime(copies[0], (0, 0))
    assert deid("forget", score.name) == {"forgotten": score.name}
    assert not score.exists() and [*copies[0].parent.iterdir()] == copies[1:]
    with pytest.raises(AuditError, match="This is not kept here"):
        deid("forget", score.name)
    errors = capsys.readouterr().err
    assert "高橋" not in errors and "みぎわ" not in errors
    assert "1 of 2 identifiers are still readable, in whole or in part" in errors
    assert "The gold has none of these kinds" in errors


def test_one_command_tags_measures_and_writes_the_tables_of_the_paper(tmp_path, gold):
    tables = tmp_path / "paper.md"
    scores = deid(
        "score", "--gold", gold, "--tagger", "rules", "--paper", tables, "--replicates", 20
    )
    assert SCORES.get(scores["score_id"]).seconds is not None
    text = tables.read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert [line for line in text.splitlines() if line.startswith("**")] == [
        "**Table 3 (label-relaxed)**",
        "**Table 4 (label-relaxed)**",
        "**Table 6 (strict)**",
        "**Table 7 (relaxed)**",
        "**Table 8 (strict)**",
        "**Table 9 (relaxed)**",
    ]
    # Of two quasi-identifiers the rules find one; the paper's note-level rate stands beside it.
    _, third, fourth, *_ = text.split("**Table")
    (found,) = [line for line in third.splitlines() if line.startswith("| quasi_identifier")]
    assert "| 2 (few) | 100.0 %" in found and "50.0 %" in found and "paper 94.8 %" in found
    (found,) = [line for line in fourth.splitlines() if line.startswith("| quasi_identifier")]
    assert "0.0 %" in found and "paper 42.64 %" in found
    assert "seconds a note" in text and "高橋" not in text
    with pytest.raises(AuditError, match="Give one of the three"):
        deid("score", "--gold", gold, "--tagger", "rules", "--pred", gold)


def test_other_label_sets_are_kept_mapped_or_refused_and_copies_are_scored(tmp_path, capsys):
    spans = ((0, 3, "DOCTOR-NAME"), (4, 7, "FECHAS"), (8, 9, "ROOM-X"))
    gold = write_records(tmp_path / "g", note("1", "Ana hoy 7", *spans))
    sides = ("score", "--gold", gold, "--pred", gold, "--replicates", 2)
    assert set(deid(*sides)["criteria"]["strict"]["labels"]) == {label for *_, label in spans}
    table = tmp_path / "map.json"
    table.write_text('{"fechas": "連絡先情報"}')
    n_kept = len(SCORES.all())
    with pytest.raises(AuditError, match="1 labels belong to none of the five types: ROOM-X"):
        deid(*sides, "--five-types", "--label-map", table)
    assert len(SCORES.all()) == n_kept
    table.write_text('{"fechas": "連絡先情報", "room-x": null}')
    report = deid(*sides, "--five-types", "--label-map", table)
    assert list(report["criteria"]["strict"]["labels"]) == ["identifier", "contact"]
    report = deid(*sides, "--label-map", table)
    assert report["notes"] == ["1 labels are not in the map and were kept: DOCTOR-NAME"]
    outputs = write_records(tmp_path / "o", {"doc_id": "1", "output": "<識別子>Ana</識別子> hoy 7"})
    copied = deid(
        "score", "--gold", gold, "--outputs", outputs, "--five-types", "--label-map", table
    )
    assert copied["criteria"]["strict"]["labels"]["identifier"]["recall"] == 1
    assert copied["verbatim"]["n_documents"] == copied["copies"]["n_notes"] == 1
    assert "Of copies that are exact alone" in capsys.readouterr().err


@pytest.mark.long
def test_taggers_are_compared_on_one_gold(tmp_path, gold, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()  # a folder called as a tagger is does not hide it
    deid("tag", "--tagger", "rules", "--notes", gold, "--out", tmp_path / "out")
    words = ("compare", "--gold", gold, "--replicates", 20, "--tagger", "rules")
    comparison = deid(*words, "--tagger", gold, "--tagger", "out")
    assert json.loads(json.dumps(comparison, allow_nan=False)) == comparison
    rules, perfect, folder = comparison["taggers"].values()
    assert (perfect["touched"], perfect["covered"], perfect["harmless"]) == (1, 1, 0)
    assert rules["counts"]["touched"] == [3, 4] and rules["notes_per_second"] > 0
    assert folder["touched"] == rules["touched"] and folder["seconds"] is None
    names = [f"rules - {gold}", "rules - out", f"{gold} - out"]
    assert list(comparison["differences"]) == names
    assert comparison["differences"][names[0]]["touched"] == -0.25
    assert comparison["differences"][names[1]]["told_apart_by"] == "nothing"
    assert {SCORES.get(tagger["score_id"]).title for tagger in comparison["taggers"].values()} == {
        "",
        "gold.jsonl",
        "out",
    }
    assert comparison["taggers"] == deid(*words, "--tagger", gold, "--tagger", "out")["taggers"]
    for wrong in ((), ("--tagger", "rules")):
        with pytest.raises(AuditError, match="two taggers or more"):
            deid(*words, *wrong)
    with pytest.raises(AuditError, match="no such tagger"):
        deid(*words, "--tagger", "nowhere")
    assert "高橋" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pred", "options", "message"),
    [
        ([note("1", "Ann.")], (), "predicted notes, line 1: .*not that of the gold"),
        ([], ("--replicates", 0), "replicates: must be a whole number"),
        ([], ("--gold", "no"), "Cannot be read"),
        ([], ("--label-map", "bad"), "not UTF-8"),
        ([], ("--outputs", "bad"), "--pred, --outputs"),
    ],
)
def test_what_is_wrong_is_said_without_its_text(tmp_path, monkeypatch, pred, options, message):
    monkeypatch.chdir(tmp_path)
    good = [note("1", "Ann", (0, 3, "x"))]
    (tmp_path / "bad").write_bytes(b"\xff\n")
    with pytest.raises(AuditError, match=message) as refused:
        deid(
            "score",
            "--gold",
            write_records(tmp_path / "g", *good),
            "--misses",
            "m.csv",
            "--pred",
            write_records(tmp_path / "p", *(pred or good)),
            *options,
        )
    assert "Ann" not in str(refused.value) and not (tmp_path / "m.csv").exists()


def test_a_corpus_is_built_and_counted_or_refused(tmp_path, capsys):
    rows = [{"id": str(i), "text": f"症例は{40 + i}歳，男性．軽快した．{i}"} for i in range(20)]
    words = [
        "deid",
        "build",
        "--notes",
        str(write_records(tmp_path / "n.jsonl", *rows)),
        "--out",
        str(tmp_path / "o"),
    ]
    assert main([*words, "--typer", str(tmp_path)]) != 0
    assert "no model directory" in capsys.readouterr().err
    words += ["--names", "en", "--json"]
    assert not main(words)
    summary = json.loads(capsys.readouterr().out)
    assert summary["splits"] == {"train": 16, "validation": 2, "test": 2, "rest": 0}
    assert (summary["n_templates"], summary["locale"]) == (20, "en_US")
    assert json.loads((tmp_path / "o/summary.json").read_text("utf-8")) == summary
    assert main(words) != 0, "there is something already"


def test_placeholders_follow_the_note_and_other_languages_are_told(tmp_path, capsys):
    texts = (
        "Patient: John Smith, seen on 04/11/2026.",
        TEXT,
        "Der Patient: Anna Weber wurde mit Fieber und Husten in die Klinik gebracht.",
    )
    path = write_records(tmp_path / "notes.jsonl", *({"text": text} for text in texts))
    census = deid("tag", "--tagger", "rules", "--notes", path, "--out", tmp_path / "out")
    assert census["n_notes_of_no_language"] == 1
    err = capsys.readouterr().err
    assert "1 notes are neither in Japanese nor in English" in err
    assert "No patient column was found" in err
    lines = (tmp_path / "out" / "redacted.jsonl").read_text("utf-8").splitlines()
    english, japanese, german = (json.loads(line)["text"] for line in lines)
    assert english == "Patient: [NAME], seen on [DATE]."
    assert "【氏名】" in japanese and "【日付】" in japanese and "【連絡先】" in japanese
    assert "[NAME]" in german


def test_a_policy_says_what_is_taken_out_and_what_is_scored(tmp_path, capsys):
    text = "A 72-year-old man. MRN: 4471902"
    spans = [(2, 13, "quasi_identifier"), (14, 17, "quasi_identifier"), (24, 31, "linkage_code")]
    golds = write_records(tmp_path / "gold.jsonl", note("a", text, *spans))
    description = deid("policy", "safe-harbor", "--tagger", "rules")
    assert json.loads(json.dumps(description)) == description and len(description["coverage"]) == 23
    assert description["coverage"][11]["ways"] == "not at all"
    policy_file = tmp_path / "own.json"
    policy_file.write_text(description["policy"], "utf-8")
    out = tmp_path / "out"
    for policy in ("safe-harbor", policy_file):
        words = ("--tagger", "rules", "--policy", policy, "--notes", golds, "--out", out)
        assert deid("tag", *words)["left"] == {"age": 1, "sex": 1}
        released = json.loads((out / "redacted.jsonl").read_text("utf-8"))["text"]
        assert released == "A 72-year-old man. MRN: [ID]"
        shutil.rmtree(out)
    deid("tag", *words)
    score_criteria = [
        deid("score", "--gold", golds, "--pred", out, "--replicates", 2, *options)["criteria"]
        for options in ((), ("--policy", "safe-harbor"))
    ]
    missed, counted = (criteria["strict"]["together"] for criteria in score_criteria)
    assert (missed["n_gold"], missed["n_missed"]) == (3, 2)
    assert (counted["n_gold"], counted["n_missed"]) == (1, 0)
    for wrong, why in ((tmp_path / "none", "no such policy"), (golds, "is missing|is unknown")):
        with pytest.raises(AuditError, match=why):
            deid("tag", "--tagger", "rules", "--policy", wrong, "--notes", golds, "--out", out)
    assert main(["deid", "policy"]) == 0 and "18. Any other unique" in capsys.readouterr().err


def test_leftovers_of_tagged_notes_are_counted_and_listed_in_a_private_file(tmp_path, capsys):
    texts = (
        "氏名：高橋健一　72歳の男性、養蜂業。",
        "氏名：伊藤花子。主婦。",
        "氏名：中村恵子。主婦。",
    )
    records = ({"doc_id": f"=d{i}", "text": text} for i, text in enumerate(texts))
    path, out = write_records(tmp_path / "n.jsonl", *records), tmp_path / "out"
    deid("tag", "--tagger", "rules", "--notes", path, "--out", out)
    listed = tmp_path / "left.csv"
    assert not main(["deid", "leftovers", "--tagged", str(out), "--out", str(listed), "--json"])
    streams = capsys.readouterr()
    leftovers = json.loads(streams.out)
    assert (
        leftovers["n_singled"],
        leftovers["n_below"],
        leftovers["n_patients"],
        leftovers["k"],
    ) == (1, 3, 3, 5)
    assert leftovers["kinds"] == {"work": 3} and leftovers["n_unique"] == {"1": 1, "2": 0, "3": 0}
    assert "1 of 3 patients" in streams.err and "養蜂業" not in streams.err + streams.out
    with listed.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {"row": "1", "note": "'=d0", "attributes": "養蜂業", "kinds": "work", "size": "1"}
    assert stat.S_IMODE(listed.stat().st_mode) == 0o600
    logged = [(line.action, dict(line.counts)) for line in entries(2)]
    assert logged == [
        ("exported", {"what": kind, "names": "full"}) for kind in ("leftovers", "tagged")
    ]
    assert deid("leftovers", "--tagged", out, "--k", 2)["n_below"] == 1
    with pytest.raises(AuditError, match="Cannot be read"):
        deid("leftovers", "--tagged", tmp_path)


def test_a_register_says_what_is_known_of_the_patients(tmp_path, capsys):
    notes = write_records(
        tmp_path / "notes.jsonl",
        {"note_id": "a", "patient_id": "7", "text": "高橋は入院。ｹﾝｲﾁ、S26.8.4生。"},
        {"note_id": "b", "patient_id": "8", "text": "高橋は入院。"},
    )
    register = tmp_path / "patients.csv"
    register.write_text(
        "patient_id,氏名,カナ,生年月日\n7,高橋 健一,タカハシ ケンイチ,1951-08-04\n", "utf-8"
    )
    out = tmp_path / "out"
    words = ("tag", "--tagger", "rules", "--notes", notes, "--register", register, "--out")
    census = deid(*words, out)
    lines = (out / "redacted.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == [
        "【氏名】は入院。【その他】、【日付】生。",
        "高橋は入院。",
    ]
    assert census["register"]["n_notes_without_row"] == 1 and census["n_found_again"] >= 2
    assert "1 notes are of a patient whom the register does not know" in capsys.readouterr().err
    register.write_text("patient_id,氏名,靴\n7,高橋 健一,26\n", "utf-8")
    with pytest.raises(AuditError, match="columns are not understood: 3") as error:
        deid(*words, tmp_path / "other")
    assert "高橋" not in str(error.value) and not (tmp_path / "other").exists()
