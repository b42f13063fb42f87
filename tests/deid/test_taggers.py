"""Taggers by identifier, shipped and trained here; what was measured of the shipped ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.deid import taggers
from audit.deid.network.config import Material
from audit.deid.network.training import TaggerOrder, figures_of, predicted, train_tagger
from audit.deid.tagger import tag_checked
from audit.deid.taggers import DEFAULT, RULES, SHIPPED, TAGGERS, load_tagger, trained_tagger
from audit.errors import AuditError
from benchmarks.default_tagger import Recipe, make, measure_again
from benchmarks.synthetic import in_turn
from tests.deid.token.make_notes import SMALL, notes, quick

KEPT = "trained/0123456789ab"
FLOORS = {"ja": 0.68, "en": 0.5}
"""Strict recall and precision: what the first shipped one reached, less a margin."""


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
    folder = taggers.tagger_dir(KEPT)
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


@pytest.mark.parametrize("name", ["", "x", "trained/", "trained/../rules", KEPT.upper(), KEPT])
def test_what_is_no_identifier_names_no_tagger(name: str) -> None:
    with pytest.raises(AuditError, match=r"not kept here|no such tagger"):
        load_tagger(name)


def test_a_folder_that_is_no_tagger_is_refused(tmp_path: Path) -> None:
    for content in (None, "[]", '{"kind": "x"}'):
        if content:
            (tmp_path / "tagger.json").write_text(content)
        with pytest.raises(AuditError, match="no such tagger"):
            taggers.load_tagger_folder(tmp_path)


HOW = json.loads((SHIPPED / "how.json").read_text("utf-8"))


def test_the_shipped_default_is_small_and_is_the_one_that_was_measured() -> None:
    # If only the rules have changed: python -m benchmarks.default_tagger --measure-again
    tagger = load_tagger(DEFAULT, device="cpu")
    assert tagger.model.digest == HOW["model_digest"] and HOW["way"] == taggers.WAY
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


def test_figures_by_hand_come_first_and_only_for_the_tagger_they_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(name: str, rules_digest: str) -> list[tuple[object, ...]]:
        n = len(name)
        measured = {language: {"n_notes": n, "label_relaxed": {
            label: {"n_gold": 8 * n, "recall": 0.25, "intervals": {"recall": [0.1, 1 / n]}}
            for label in taggers.LABELS}} for language in taggers.LANGUAGES}  # fmt: skip
        content = {"digest": "d", "rules_digest": rules_digest,
                   "held_out": {"rules alone": measured, "default": measured}}  # fmt: skip
        (tmp_path / name).write_text(json.dumps(content))
        return [(name == "hand_written.json", language, label, n, 8 * n, (0.25, 0.1, 1 / n))
                for language in ("ja", "en") for label in ("identifier", "all")]  # fmt: skip

    monkeypatch.setattr(taggers, "SHIPPED", tmp_path)
    by_hand, generated = write("hand_written.json", "another"), write("how.json", "r")
    found = {
        name: [(one.is_by_hand, one.language, one.label, one.n_notes, one.n_gold,
                (one.found.value, one.found.low, one.found.high))
               for one in taggers.shipped_figures(name)]
        for name in (RULES, DEFAULT, KEPT)
    }  # fmt: skip
    assert found == {RULES: generated, DEFAULT: by_hand + generated, KEPT: []}


def test_the_default_is_made_and_measured_again(tmp_path: Path) -> None:
    out = tmp_path / "default"
    how = make(out, Recipe(n_notes=12, n_validation=4, n_test=6, n_epochs=0.5))
    assert json.loads((out / "how.json").read_text("utf-8")) == how
    assert set(how["held_out"]) == {"rules alone", "model alone", "default"}
    assert how["held_out"]["default"]["ja"]["n_notes"] == 3
    assert measure_again(out) == how
    names = {path.name for path in out.iterdir()}
    assert names == {"how.json", "tagger.json", "model"} and list(tmp_path.iterdir()) == [out]
