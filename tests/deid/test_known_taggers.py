"""Taggers by identifier: those that are shipped, and those that were trained and kept here."""

from __future__ import annotations

import json

import pytest

from audit.deid import taggers
from audit.deid.network.config import Material, synthetic
from audit.deid.network.training import TaggerOrder, figures_of, predicted, train_tagger
from audit.deid.tagger import tag_checked
from audit.deid.taggers import (
    DEFAULT,
    RULES,
    SHIPPED,
    TAGGERS,
    load_default,
    load_tagger,
    load_tagger_folder,
    tagger_dir,
    trained_tagger,
    way_of,
)
from audit.errors import AuditError
from tests.deid.token.make_notes import SMALL, notes, quick

KEPT = "trained/0123456789ab"
FLOORS = {"ja": 0.68, "en": 0.5}
"""Strict recall and precision: what the first shipped one reached, less a margin."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    return tmp_path


def test_the_shipped_ones_come_first_and_are_what_they_say(home):
    found = taggers.known_taggers()
    assert [one.tagger_id for one in found] == [DEFAULT, RULES]
    for one in found:
        tagger = load_tagger(one.tagger_id, device="cpu")
        assert tagger.digest == one.digest and tagger.name == one.tagger_id
        assert len(tag_checked(tagger, ["氏名：山田太郎　電話 03-1234-5678"])[0]) >= 1
    assert [one.is_quick for one in found] == [False, True]


def test_a_trained_one_is_kept_listed_loaded_and_forgotten(home):
    order = TaggerOrder(
        tagger_dir(KEPT), quick(n_epochs=0.5), shape=SMALL, title="<b>", device="cpu"
    )
    (tagger_dir(KEPT)).mkdir()
    (tagger_dir(KEPT) / "training.json").write_text("{")
    with pytest.raises(AuditError, match="not finished"):
        trained_tagger(KEPT)
    (tagger_dir(KEPT) / "training.json").unlink()
    train_tagger(order, Material(notes(16), notes(20)[16:]))
    (TAGGERS.home() / "other").mkdir()
    (one,) = TAGGERS.all()
    assert (one.tagger_id, one.kind, one.title) == (KEPT, "token", "<b>")
    assert one == trained_tagger(KEPT) and one.measured["n_gold"] == 12 and one.points
    counts = one.validation
    assert counts["n_gold"] == 12 and counts["n_found"] == 12 - one.measured["n_missed"]
    assert counts["n_predicted"] - counts["n_right"] == one.measured["n_spurious"]
    tagger = load_tagger(KEPT, device="cpu")
    assert taggers.known_taggers()[-1].digest == tagger.digest == one.digest
    TAGGERS.forget(KEPT.removeprefix("trained/"))
    assert TAGGERS.all() == ()
    for ask in (trained_tagger, load_tagger):
        with pytest.raises(AuditError, match=r"not kept here|no such tagger"):
            ask(KEPT)


@pytest.mark.parametrize("name", ["", "x", "trained/", "trained/../rules", "trained/0123456789AB"])
def test_what_is_no_identifier_names_no_tagger(home, name):
    with pytest.raises(AuditError, match=r"not kept here|no such tagger"):
        load_tagger(name)


def test_a_folder_that_is_no_tagger_is_refused(tmp_path):
    with pytest.raises(AuditError, match="no such tagger"):
        load_tagger_folder(tmp_path)
    for content in ("[]", '{"kind": "x"}'):
        (tmp_path / "tagger.json").write_text(content)
        with pytest.raises(AuditError, match="no such tagger"):
            load_tagger_folder(tmp_path)
    (tmp_path / "how.json").write_text('{"way": "x"}')
    with pytest.raises(AuditError, match="damaged"):
        way_of(tmp_path)


@pytest.fixture(scope="module")
def how():
    return json.loads((SHIPPED / "how.json").read_text("utf-8"))


def test_the_shipped_default_is_small_and_is_the_one_that_was_measured(how):
    # If only the rules have changed: python -m benchmarks.default_tagger --measure-again
    tagger = load_default(SHIPPED, device="cpu")
    assert tagger.model.digest == how["model_digest"]
    assert tagger.rules.digest == how["rules_digest"]
    assert tagger.digest == how["digest"] and tagger.way == how["way"]
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 4_000_000


@pytest.mark.parametrize("language", ["ja", "en"])
def test_the_default_reaches_on_new_notes_of_other_styles_what_it_says(how, language):
    notes = list(synthetic(60, seed=4242, languages=(language,), is_held_out=True))
    tagger = load_default(SHIPPED, device="cpu")
    found = figures_of(predicted(notes, tag_checked(tagger, [one.text for one in notes])))
    said = how["held_out"]["default"][language]["strict"]["all"]
    floor = FLOORS[language]
    assert found["n_gold"] > 300
    assert found["recall"] > max(floor, said["recall"] - 0.06)
    assert found["precision"] > max(floor, said["precision"] - 0.06)
