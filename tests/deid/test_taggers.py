"""Taggers by identifier, shipped and trained here; what was measured of the shipped ones."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from audit.deid import taggers
from audit.deid.network.config import Material
from audit.deid.network.training import TaggerOrder, figures_of, predicted, train_tagger
from audit.deid.tagger import tag_checked
from audit.deid.taggers import (
    DEFAULT,
    RULES,
    SHIPPED,
    TAGGERS,
    WAY,
    KnownTagger,
    load_tagger,
    load_tagger_folder,
    shipped_figures,
    tagger_dir,
    trained_tagger,
)
from audit.errors import AuditError
from benchmarks.synthetic import in_turn
from tests.deid.token.make_notes import SMALL, notes, quick

KEPT = "trained/0123456789ab"
FLOORS = {"ja": 0.68, "en": 0.5}
"""Strict recall and precision: what the first shipped one reached, less a margin."""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))


def test_the_shipped_ones_come_first_and_are_what_they_say() -> None:
    found = taggers.known_taggers()
    assert [(one.tagger_id, one.kind, one.title, one.is_quick) for one in found] == [
        (DEFAULT, "combined", "", False), (RULES, "rules", "", True),
    ]  # fmt: skip
    for one in found:
        tagger = load_tagger(one.tagger_id, device="cpu")
        assert tagger.digest == one.digest and tagger.name == one.tagger_id
        assert len(tag_checked(tagger, ["氏名：山田太郎　電話 03-1234-5678"])[0]) == 2


def test_a_trained_one_is_kept_listed_loaded_and_forgotten() -> None:
    folder = tagger_dir(KEPT)
    folder.mkdir()
    (folder / "training.json").write_text("{")
    with pytest.raises(AuditError, match="not finished"):
        trained_tagger(KEPT)
    (folder / "training.json").unlink()
    order = TaggerOrder(folder, quick(n_epochs=0.5), shape=SMALL, title="<b>", device="cpu")
    train_tagger(order, Material(notes(16), notes(20)[16:]))
    (TAGGERS.home() / "other").mkdir()
    (one,) = TAGGERS.all()
    assert (one.tagger_id, one.kind, one.title) == (KEPT, "token", "<b>")
    assert one == trained_tagger(KEPT) and one.created and one.training and one.points
    measured = one.measured
    assert one.validation == {
        "n_gold": 12, "n_found": 12 - measured["n_missed"],
        "n_predicted": measured["n_predicted"],
        "n_right": measured["n_predicted"] - measured["n_spurious"],
    }  # fmt: skip
    tagger = load_tagger(KEPT, device="cpu")
    assert taggers.known_taggers()[-1].digest == tagger.digest == one.digest
    TAGGERS.forget(KEPT.removeprefix("trained/"))
    assert TAGGERS.all() == ()


def test_counts_that_are_not_there_or_cannot_be_are_no_validation() -> None:
    names = ("n_gold", "n_missed", "n_predicted", "n_spurious")
    none = ((None, None, None, None), (1, 2, 0, 0), (2, -1, 1, 1), (2, 1, 1, 2), (2, 1, 1, -1))
    for counts, found in (((3, 0, 4, 0), (3, 3, 4, 4)), *((counts, None) for counts in none)):
        measured = dict(zip(names, counts, strict=True))
        one = KnownTagger("a", "token", "", "d", measured=measured)
        assert one.validation == (found and dict(zip(
            ("n_gold", "n_found", "n_predicted", "n_right"), found, strict=True)))  # fmt: skip


@pytest.mark.parametrize("name", ["", "x", "trained/", "trained/../rules", KEPT.upper(), KEPT])
def test_what_is_no_identifier_names_no_tagger(name: str) -> None:
    with pytest.raises(AuditError, match=r"not kept here|no such tagger"):
        load_tagger(name)


def test_a_folder_that_is_no_tagger_is_refused(tmp_path: Path) -> None:
    for content in (None, "[]", '{"kind": "x"}'):
        if content:
            (tmp_path / "tagger.json").write_text(content)
        with pytest.raises(AuditError, match="no such tagger"):
            load_tagger_folder(tmp_path)


HOW = json.loads((SHIPPED / "how.json").read_text("utf-8"))


def test_the_shipped_default_is_small_and_is_the_one_that_was_measured() -> None:
    # If only the rules have changed: python -m benchmarks.default_tagger --measure-again
    tagger = load_tagger(DEFAULT, device="cpu")
    assert tagger.model.digest == HOW["model_digest"] and HOW["way"] == WAY
    kept = json.loads((SHIPPED / "hand_written.json").read_text("utf-8"))
    for figures in (HOW, kept):  # if not: python -m benchmarks.deid_unseen --keep
        assert tagger.rules.digest == figures["rules_digest"] == load_tagger("rules").digest
        assert tagger.digest == figures["digest"]
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 4_000_000


@pytest.mark.parametrize("language", ["ja", "en"])
def test_the_default_reaches_on_new_notes_of_other_styles_what_it_says(language: str) -> None:
    found = list(in_turn(60, seed=4242, languages=(language,), is_held_out=True))
    tagger = load_tagger(DEFAULT, device="cpu")
    figures = figures_of(predicted(found, tag_checked(tagger, [one.text for one in found])))
    said = HOW["held_out"]["default"][language]["strict"]["all"]
    assert figures["n_gold"] > 300
    for name in ("recall", "precision"):
        assert figures[name] > max(FLOORS[language], said[name] - 0.06)


def counted(found: float | None, **intervals: list[float]) -> dict[str, object]:
    return {"n_gold": 8, "recall": found, "intervals": intervals}


OF = {"identifier": counted(0.25, recall=[0.1, 0.5]), "all": counted(0.75)}
MEASURED = {"n_notes": 3, "label_relaxed": OF}


def figures(folder: Path, patch: pytest.MonkeyPatch, how: object, by_hand: object = None) -> Any:
    """Return what is shown of both shipped taggers when their folder has these figures."""
    patch.setattr(taggers, "SHIPPED", folder)
    (folder / "how.json").write_text(json.dumps(how))
    if by_hand is not None:
        (folder / "hand_written.json").write_text(json.dumps(by_hand))
    return {name: [(one.is_by_hand, one.language, one.label, one.n_notes, one.n_gold, *[
        None if math.isnan(x) else x for x in (one.found.value, one.found.low, one.found.high)])
        for one in shipped_figures(name)] for name in (RULES, DEFAULT, KEPT)}  # fmt: skip


def test_figures_by_hand_come_first_and_only_for_the_tagger_they_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_out = {name: {"en": MEASURED, "ja": MEASURED} for name in ("rules alone", "default")}
    how = {"digest": "d", "rules_digest": "r", "held_out": held_out}
    kept = {"digest": "d", "rules_digest": "another", "held_out": {"default": {"ja": MEASURED}}}
    rows = [(False, language, *figure) for language in ("ja", "en") for figure in (
        ("identifier", 3, 8, 0.25, 0.1, 0.5), ("all", 3, 8, 0.75, None, None))]  # fmt: skip
    by_hand = [(True, *row[1:]) for row in rows[:2]]
    assert figures(tmp_path, monkeypatch, how, kept) == {
        RULES: rows, DEFAULT: by_hand + rows, KEPT: [],
    }  # fmt: skip


@pytest.mark.parametrize(
    "how",
    [{}, [], {"held_out": {"rules alone": {"ja": {}}}},
     *({"held_out": {"rules alone": {"ja": {"n_notes": 1, "label_relaxed": {
         "identifier": counted(found), "all": counted(0.5)}}}}} for found in (None, "x"))],
)  # fmt: skip
def test_what_is_damaged_or_unmeasured_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: object
) -> None:
    assert figures(tmp_path, monkeypatch, how) == {RULES: [], DEFAULT: [], KEPT: []}
