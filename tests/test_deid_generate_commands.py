"""`deid train --kind generative`, `deid tag` with what came of it, `deid score` of its copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.cli import main
from tests.deid.generation.tiny_model import NOTES, line_of, write_gold, write_model

QUICK = ("--gen-epochs", "70", "--gen-batch", "4", "--gen-micro-batch", "4",
         "--gen-learning-rate", "3e-3", "--device", "cpu")  # fmt: skip


def deid(capsys: pytest.CaptureFixture[str], *options: object) -> dict[str, Any]:
    capsys.readouterr()
    code = main(["deid", *map(str, options), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return dict(json.loads(captured.out))


def test_from_gold_notes_to_the_score_of_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    gold, model = write_gold(tmp_path / "gold.jsonl"), write_model(tmp_path / "m")
    told = deid(capsys, "train", "--kind", "generative", "--gold", gold, "--model", model, *QUICK)
    assert told["tagger_id"].startswith("trained/")
    assert told["training"]["n_windows"] == 4
    notes = tmp_path / "notes.jsonl"
    notes.write_text(
        "".join(line_of(doc_id=f"d{i}", text=t) for i, (t, _) in enumerate(NOTES)), "utf-8"
    )
    census = deid(capsys, "tag", "--tagger", told["tagger_id"], "--notes", notes, "--out",
                  tmp_path / "out", "--device", "cpu", "--keep-outputs")  # fmt: skip
    assert census["copies"]["faithful"] | {"interval": None} == {
        "share": 1, "n": 4, "of": 4, "interval": None,
    }  # fmt: skip
    spans = deid(capsys, "score", "--gold", gold, "--pred", tmp_path / "out" / "spans.jsonl")
    copies = deid(capsys, "score", "--gold", gold, "--outputs", tmp_path / "out" / "copies.jsonl")
    assert copies["criteria"] == spans["criteria"] == copies["verbatim"]["criteria"]
    assert copies["copies"] == census["copies"]
    assert spans["criteria"]["strict"]["together"]["f1"] == 1


def test_a_tagger_of_a_folder_with_an_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("peft")
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    gold, model = write_gold(tmp_path / "gold.jsonl"), write_model(tmp_path / "m")
    told = deid(
        capsys, "train", "--kind", "generative", "--gold", gold, "--validation", gold, "--model",
        model, "--out", tmp_path / "o", "--lora", "--lora-rank", "4", "--lora-targets",
        "q_proj,v_proj", "--gen-epochs", "2", "--device", "cpu",
    )  # fmt: skip
    assert told["tagger_id"] is None
    assert told["training"]["settings"]["lora"]["targets"] == ["q_proj", "v_proj"]
    assert told["measured"]["validation"] < told["measured"]["first_validation"]


def test_without_a_model_or_with_two_sides_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = write_gold(tmp_path / "gold.jsonl")
    assert main(["deid", "train", "--kind", "generative", "--gold", str(gold)]) != 0
    assert "Which model" in capsys.readouterr().err
    for sides in ([], ["--pred", str(gold), "--outputs", str(gold)]):
        assert main(["deid", "score", "--gold", str(gold), *sides]) == 2
        assert "--pred, --outputs" in capsys.readouterr().err
