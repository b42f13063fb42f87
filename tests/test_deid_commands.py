"""`python -m audit deid score`: files in, one JSON object out, or one plain sentence."""

from __future__ import annotations

import json
import random
import time

import pytest

from audit.cli import called, parsed
from audit.errors import AuditError


def deid(*words) -> dict:
    return called(parsed(["deid", *words]))


def written(path, *records):
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), "utf-8")
    return path


def note(doc_id, text, *spans, **more):
    named = [{"start": s, "end": e, "label": label} for s, e, label in spans]
    return {"doc_id": doc_id, "text": text, "spans": named, **more}


def test_a_score_by_criterion_and_label(tmp_path, capsys):
    text = "氏名:山田太郎 電話03-1"
    gold = written(
        tmp_path / "gold.jsonl",
        note("1", text, (3, 7, "識別子"), (10, 14, "連絡先情報"), patient_id="p"),
        note("2", "abc", (0, 1, "identifier"), patient_id="p"),
    )
    pred = written(
        tmp_path / "pred.jsonl",
        note("2", "abc"),
        note("1", text, (3, 6, "identifier"), (10, 14, "contact")),
    )
    found = deid("score", "--gold", gold, "--pred", pred, "--json", "--replicates", 50)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    strict, relaxed = (found["criteria"][name]["labels"] for name in ("strict", "relaxed"))
    assert strict["identifier"]["recall"] == 0.0 and relaxed["identifier"]["recall"] == 0.5
    entry = relaxed["identifier"]
    assert (entry["precision"], entry["n_gold"], entry["n_predicted"]) == (1.0, 2, 1)
    assert (entry["complete"], entry["clean"], entry["exact"]) == (0.5, 1.0, 0.5)
    assert entry["label_ja"] == "識別子" and entry["n_missed"] == 1
    matrix = found["criteria"]["label_relaxed"]["matrix"]
    assert matrix["columns"] == ["identifier", "contact", "missed"]
    assert matrix["rows"] == {"identifier": [1, 0, 1], "contact": [0, 1, 0], "spurious": [0, 0, 0]}
    assert found["coverage"]["together"]["n_covered_whole"] == 1
    assert (found["n_documents"], found["n_patients"], found["notes"]) == (2, 1, [])
    said = capsys.readouterr().err
    assert "山田" not in said and "identifier" in said
    assert "2 of 2 identifiers are still readable, in whole or in part" in said


def test_notes_that_only_one_file_has(tmp_path):
    gold = written(tmp_path / "g", note("1", "ab", (0, 1, "x")), note("2", "ab", (0, 1, "x")))
    pred = written(tmp_path / "p", note("2", "ab", (0, 1, "x")), note("3", "zz", (0, 1, "x")))
    found = deid("score", "--gold", gold, "--pred", pred)
    assert found["criteria"]["strict"]["labels"]["x"]["recall"] == 0.5
    assert len(found["notes"]) == 2 and "left out" in found["notes"][1]
    pred = written(tmp_path / "p", note("3", "zz"))
    with pytest.raises(AuditError, match="no note in common"):
        deid("score", "--gold", gold, "--pred", pred)


def test_other_label_sets_are_kept_or_mapped(tmp_path):
    spans = ((0, 3, "NOMBRE_SUJETO_ASISTENCIA"), (4, 7, "FECHAS"), (8, 9, "ROOM-X"))
    gold = written(tmp_path / "g", note("1", "Ana hoy 7", *spans))
    kept = deid("score", "--gold", gold, "--pred", gold)
    assert set(kept["criteria"]["strict"]["labels"]) == {label for _, _, label in spans}
    with pytest.raises(
        AuditError, match="1 labels belong to none of the five types: ROOM-X"
    ) as refused:
        deid("score", "--gold", gold, "--pred", gold, "--five-types")
    assert refused.value.where == "--five-types" and "Ana" not in str(refused.value)
    table = tmp_path / "map.json"
    table.write_text('{"fechas": "連絡先情報"}')
    kept = deid("score", "--gold", gold, "--pred", gold, "--label-map", table)
    assert "ROOM-X" in kept["notes"][0]
    table.write_text('{"room-x": null, "fechas": "連絡先情報"}')
    own = deid("score", "--gold", gold, "--pred", gold, "--five-types", "--label-map", table)
    assert list(own["criteria"]["strict"]["labels"]) == ["identifier", "contact"]
    table.write_text("[]")
    with pytest.raises(AuditError, match="no JSON object"):
        deid("score", "--gold", gold, "--pred", gold, "--label-map", table)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("PATIENT_NAME", "identifier"),
        ("DOCTOR-NAME", "identifier"),
        ("FACILITY", "quasi_identifier"),
        ("Date of birth", "quasi_identifier"),
        ("DATE_OF_BIRTH", "quasi_identifier"),
        ("Medical_Record_Number", "linkage_code"),
        ("SSN", "personal_id_code"),
        ("PHONE-NUMBER", "contact"),
    ],
)
def test_labels_in_use_belong_to_the_five_types(tmp_path, label, name):
    gold = written(tmp_path / "g", note("1", "Ana", (0, 3, label)))
    found = deid("score", "--gold", gold, "--pred", gold, "--five-types")
    assert list(found["criteria"]["strict"]["labels"]) == [name] and found["notes"] == []


def test_what_is_wrong_is_said_with_its_line_and_without_its_text(tmp_path):
    good = written(tmp_path / "g", note("1", "Ann", (0, 3, "x")))
    for record, said in (
        (note("1", "Ann."), "not that of the gold"),
        (note("1", "Ann", (0, 9, "x")), "behind"),
    ):
        bad = written(tmp_path / "p", record)
        with pytest.raises(AuditError, match=said) as refused:
            deid("score", "--gold", good, "--pred", bad)
        assert refused.value.where == "predicted notes, line 1" and "Ann" not in str(refused.value)
    twice = written(tmp_path / "p", note("1", "Ann"), note("1", "Ann"))
    with pytest.raises(AuditError, match="twice"):
        deid("score", "--gold", good, "--pred", twice)
    with pytest.raises(AuditError, match="twice"):
        deid("score", "--gold", twice, "--pred", good)
    with pytest.raises(AuditError, match="Cannot be read"):
        deid("score", "--gold", tmp_path / "no", "--pred", good)
    empty = written(tmp_path / "empty")
    with pytest.raises(AuditError, match="no note to score"):
        deid("score", "--gold", empty, "--pred", good)
    with pytest.raises(AuditError, match="replicates"):
        deid("score", "--gold", good, "--pred", good, "--replicates", 0)
    (tmp_path / "p").write_bytes(b"\xff\n")
    with pytest.raises(AuditError, match="not UTF-8"):
        deid("score", "--gold", good, "--pred", tmp_path / "p")


def test_the_order_of_the_lines_changes_nothing_and_many_spans_take_seconds(tmp_path):
    rng = random.Random(2)
    golds, predictions = [], []
    for i in range(200):
        gold, said, at = [], [], 0
        for _ in range(25):
            start = at + rng.randint(1, 40)
            at = start + rng.randint(2, 20)
            label = f"L{rng.randrange(20)}"
            gold.append((start, at, label))
            if rng.random() < 0.9:
                said.append((start + rng.randrange(2), at, f"L{rng.randrange(20)}"))
        rng.shuffle(said)
        golds.append(note(f"d{i}", "x" * 2000, *gold))
        predictions.append(note(f"d{i}", "x" * 2000, *said))
    begin = time.process_time()
    first = deid("score", "--gold", written(tmp_path / "g", *golds),
                 "--pred", written(tmp_path / "p", *predictions), "--replicates", 100)  # fmt: skip
    assert time.process_time() - begin < 15  # 5,000 spans; about one second alone
    rng.shuffle(golds)
    rng.shuffle(predictions)
    again = deid("score", "--gold", written(tmp_path / "g", *golds),
                 "--pred", written(tmp_path / "p", *predictions), "--replicates", 100)  # fmt: skip
    assert again == first


@pytest.mark.parametrize("name", ["misses.csv", "misses.jsonl"])
def test_misses_of_a_note_with_half_a_character_are_written(tmp_path, name):
    gold, pred = tmp_path / "gold.jsonl", tmp_path / "pred.jsonl"
    gold.write_text(json.dumps(note("1", "\ud800森 x", (0, 2, "identifier"))) + "\n", "utf-8")
    pred.write_text(json.dumps(note("1", "\ud800森 x")) + "\n", "utf-8")
    deid("score", "--gold", gold, "--pred", pred, "--misses", tmp_path / name, "--replicates", 2)
    assert "?森" in (tmp_path / name).read_text("utf-8")
