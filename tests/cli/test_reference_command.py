"""`run --reference`: the same question with another model in the general model's place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.home import results_dir
from cache.store import Store
from tests.cli.test_commands import PASSAGES, WORDS, call, generated, masked
from tests.models.make_models import make_bert

LIST = """first_name,last_name,is_member,control_kind,role,n_mentions
Mary,Smith,1,,staff,2
John,Brown,1,,staff,1
Linda,Jones,0,easy,,
James,Smith,0,hard,,
"""
CANARIES = "Mary,Brown,1,,canary,4\nJohn,Smith,1,,canary,1\nLinda,Smith,0,canary,canary,\n"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "names.csv").write_text(LIST + CANARIES)
    (tmp_path / "passages.csv").write_text(PASSAGES)
    return {
        "--general": str(make_bert(tmp_path / "general", seed=1, words=WORDS)),
        "--hospital": str(make_bert(tmp_path / "hospital", seed=2, words=WORDS)),
        "--names": str(tmp_path / "names.csv"),
        "--passages": str(tmp_path / "passages.csv"),
    }


@pytest.fixture
def reference(tmp_path: Path) -> str:
    return str(make_bert(tmp_path / "reference", seed=3, words=WORDS))


def shards() -> set[str]:
    with Store(results_dir()) as store:
        return set(store.keys("shard/"))


@pytest.mark.parametrize("asked", [masked, generated])
def test_only_the_references_own_evidence_is_made(
    pair: dict[str, str], reference: str, capsys: Any, asked: Any
) -> None:
    assert call(capsys, *asked(pair))[0] == 0
    one_pair = len(shards())
    code, out, said = call(capsys, *asked(pair, reference=reference))
    assert code == 0 and "Answered before" in said
    assert len(shards()) == one_pair * 3 // 2  # of three models, not of four
    found = json.loads(out)
    (other,) = found["references"]
    assert other["general"] == "reference" and found["general"] == "general"
    assert other["digest"] != found["digest"] and other["hospital"] == found["hospital"]
    score = found["fixed_score"]
    (pooled,) = [one for one in other["difference"]["aucs"] if one["stratum"] == "all"]
    aucs = [one["strata"]["all"]["scores"][score]["auc"] for one in (found, other)]
    assert pooled["difference"]["value"] == pytest.approx(aucs[0] - aucs[1])


def test_every_audit_has_its_files_and_the_report_shows_both(
    pair: dict[str, str], reference: str, tmp_path: Path, capsys: Any
) -> None:
    asked = masked(pair, reference=reference, out=tmp_path / "out")
    code, out, _ = call(capsys, *asked)
    found = json.loads(out)
    assert code == 0
    for folder, audit in (("", found), ("reference-1", found["references"][0])):
        measures = json.loads((tmp_path / "out" / folder / "measures.json").read_text())
        assert measures["digest"] == audit["digest"]
    html = ["results", found["digest"][:12], "--html", "--out", tmp_path / "report"]
    assert call(capsys, *html)[0] == 0
    text = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert found["references"][0]["digest"][:12] in text


@pytest.mark.parametrize("wrong", ["absent", "other"])
def test_a_reference_that_cannot_be_used_is_refused(
    pair: dict[str, str], tmp_path: Path, capsys: Any, wrong: str
) -> None:
    make_bert(tmp_path / "other", seed=3, words=[*WORDS, "more"])
    code, _, said = call(capsys, *masked(pair, reference=tmp_path / wrong))
    assert code == 2 and "Traceback" not in said
    assert bool(shards()) == (wrong == "other")  # what is not there is said before anything runs
