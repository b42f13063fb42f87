"""`python -m audit deid train`, and `deid tag` with what came of it."""

from __future__ import annotations

import json

import pytest

from audit.cli import called, parsed
from audit.errors import AuditError
from audit.notes.formats import write_jsonl
from tests.deid.token.make_notes import notes

QUICK = ("--epochs", "0.5", "--tokens", "32", "--batch", "8", "--device", "cpu")


def deid(*words) -> dict:
    return called(parsed(["deid", *words]))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    (tmp_path / "gold.jsonl").write_text(write_jsonl(notes(24)), "utf-8")
    return tmp_path


def test_train_then_tag_by_identifier_and_by_folder(place, capsys):
    told = deid("train", "--gold", place / "gold.jsonl", *QUICK, "--title", "mine")
    assert told["tagger_id"].startswith("trained/") and told["training"]["n_notes"] == 22
    assert json.loads(json.dumps(told)) == told
    assert told["tagger_id"] in capsys.readouterr().err
    for name, out in ((told["tagger_id"], "a"), (told["directory"], "b")):
        census = deid("tag", "--tagger", name, "--notes", place / "gold.jsonl", "--out",
                      place / out, "--device", "cpu")  # fmt: skip
        assert census["tagger"]["digest"] == told["digest"] and census["n_notes"] == 24
    assert (place / "a" / "spans.jsonl").read_bytes() == (place / "b" / "spans.jsonl").read_bytes()


def test_the_default_tagger_is_the_default(place):
    census = deid("tag", "--notes", place / "gold.jsonl", "--out", place / "o", "--device", "cpu")
    assert census["tagger"]["name"] == "default"
    with pytest.raises(AuditError, match="no such tagger"):
        deid("tag", "--tagger", place, "--notes", place / "gold.jsonl", "--out", place / "p")


def test_synthetic_notes_into_a_folder(place):
    told = deid("train", "--synthetic", 6, "--language", "ja", *QUICK, "--out", place / "o",
                "--scheme", "BILOU")  # fmt: skip
    assert told["tagger_id"] is None and told["training"]["synthetic"] == 6
    assert told["training"]["settings"]["scheme"] == "BILOU"


@pytest.mark.parametrize(
    "words",
    [("--gold", "a", "--gold", "b"), ("--synthetic", "5", "--batch", "0"),
     ("--synthetic", "5", "--kind", "generative")],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(place, words):
    with pytest.raises(AuditError):
        deid("train", *words)
