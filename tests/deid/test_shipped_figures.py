"""What was measured of the shipped taggers: read where it is there, nothing where it is not."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from audit.deid import taggers
from audit.deid.taggers import SHIPPED, load_tagger, shipped_figures

NAMES = ("rules alone", "default")


def counted(found: float | None, **intervals: list[float]) -> dict[str, object]:
    return {"n_gold": 8, "recall": found, "intervals": intervals}


def write(folder: Path, content: object) -> None:
    (folder / "how.json").write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(taggers, "SHIPPED", tmp_path)
    taggers._figures.cache_clear()
    return tmp_path


def test_figures_of_both_shipped_taggers(folder: Path) -> None:
    of = {"identifier": counted(0.25, recall=[0.1, 0.5]), "all": counted(0.75)}
    ja = {"n_notes": 3, "label_relaxed": of}
    write(folder, {"held_out": {"rules alone": {"ja": ja}, "default": {}}})
    names, all_of_them = shipped_figures("rules")
    assert (names.language, names.label, names.n_notes, names.n_gold) == ("ja", "identifier", 3, 8)
    assert (names.found.value, names.found.low, names.found.high) == (0.25, 0.1, 0.5)
    assert all_of_them.found.value == 0.75 and math.isnan(all_of_them.found.low)
    assert shipped_figures("default") == () == shipped_figures("trained/0123456789ab")


@pytest.mark.parametrize(
    "content",
    [{}, [], {"held_out": {"rules alone": {"ja": {}}}},
     {"held_out": {"rules alone": {"ja": {"n_notes": 1, "label_relaxed": {
         "identifier": counted(None), "all": counted(0.5)}}}}},
     {"held_out": {"rules alone": {"ja": {"n_notes": 1, "label_relaxed": {
         "identifier": counted(1.5), "all": counted(0.5)}}}}}],
)  # fmt: skip
def test_what_is_damaged_or_unmeasured_shows_nothing(folder: Path, content: object) -> None:
    write(folder, content)
    assert shipped_figures("rules") == ()


def test_figures_by_hand_come_first_and_only_for_the_tagger_they_are_of(folder: Path) -> None:
    of = {"identifier": counted(0.25), "all": counted(0.75)}
    held_out = {name: {"en": {"n_notes": 3, "label_relaxed": of}} for name in NAMES}
    write(folder, {"digest": "d", "rules_digest": "r", "held_out": held_out})
    kept = {"digest": "d", "rules_digest": "another", "held_out": held_out}
    (folder / "hand_written.json").write_text(json.dumps(kept))
    assert [one.is_by_hand for one in shipped_figures("default")] == [True, True, False, False]
    assert [one.is_by_hand for one in shipped_figures("rules")] == [False, False]


def test_what_is_shipped_is_of_the_taggers_that_are_shipped() -> None:
    # If rules or network have changed: python -m benchmarks.deid_unseen --keep
    kept = json.loads((SHIPPED / "hand_written.json").read_text("utf-8"))
    assert kept["digest"] == load_tagger("default", device="cpu").digest
    assert kept["rules_digest"] == load_tagger("rules").digest


def test_a_missing_file_shows_nothing(folder: Path) -> None:
    assert shipped_figures("default") == ()
