"""Policies: what is left in a text, how that is counted, what makes two sets one, the coverage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.deid.find.rules import RuleTagger
from audit.deid.find.taggers import DEFAULT, HAND_WRITTEN, RULES, SHIPPED, find_tagger
from audit.deid.measure import coverage as covering
from audit.deid.measure.coverage import FIVE, HIPAA, describe_rows, list_coverage
from audit.deid.redact.kinds import KINDS
from audit.deid.redact.policy import (
    ALL_OUT,
    LEAVE,
    READY,
    SAFE_HARBOR,
    Policy,
    find_policy,
    read_policy,
)
from audit.deid.redact.release import Release
from audit.deid.sets.tagged_sets import tag_text
from audit.deid.sets.tagging import tag_notes
from audit.errors import AuditError
from audit.notes.read import open_notes
from audit.notes.spans import Span, TaggedDocument
from tests.deid.unseen_notes import SETS, marked, unseen

LEFT = (
    "a ⟦Q:72-year-old⟧ ⟦Q:woman⟧ from ⟦Q:Oregon⟧, ⟦Q:beekeeper⟧, since ⟦Q:2015⟧",
    "⟦Q:長野県⟧の⟦Q:８９歳⟧の⟦Q:女性⟧、⟦Q:農業⟧、⟦Q:平成20年⟧から。5歳7か月、⟦Q:男⟧",
    "58⟦Q:F⟧, aged ⟦Q:58⟧, Sex: ⟦Q:M⟧",
)
TAKEN = (
    "⟦I:Ann Lee⟧ ⟦Q:91歳⟧ ⟦Q:5/3⟧ ⟦Q:14:30⟧ ⟦Q:港区⟧ ⟦Q:みなと病院⟧ ⟦Q:113-8655⟧ ⟦C:555-0101⟧",
    "born ⟦Q:1985⟧ ⟦Q:1931⟧ ⟦Q:大正15年⟧ 生年：⟦Q:1985年⟧",  # a year that tells an age over 89
    "pt ⟦Q:M⟧ and ⟦Q:Tim⟧, the ⟦Q:quarry⟧, ⟦Q:beekeeper from Leith⟧ ⟦Q:Virginia⟧",
    "⟦Q:72-year-old woman of Leith⟧ ⟦Q:old⟧",
    "fe⟦Q:male⟧, age 1⟦Q:04⟧, ⟦Q:Oregon⟧さん, Mr. ⟦Q:Oregon⟧, ⟦Q:72歳⟧様",  # cut out, or titled
    "健⟦Q:男⟧と⟦Q:大工⟧園さん、⟦Q:インド⟧ネシアの⟦Q:女⟧",
    "⟦I:72-year-old⟧ ⟦L:2015⟧ ⟦C:woman⟧ ⟦P:Oregon⟧ ⟦mark:2015⟧",  # another type than its form
)


@pytest.mark.parametrize("text", LEFT)
def test_safe_harbor_leaves_what_it_does_not_list(text: str) -> None:
    note = marked(text)
    redacted_note, left = SAFE_HARBOR.apply(note)
    assert redacted_note.spans == () and left.total() == len(note.spans)
    assert ALL_OUT.apply(note) == (note, {})


@pytest.mark.parametrize("text", TAKEN)
def test_safe_harbor_takes_out_what_is_listed_and_what_is_not_told(text: str) -> None:
    note = marked(text)
    assert SAFE_HARBOR.apply(note) == (note, {})


def test_no_name_number_or_contact_of_hand_written_notes_is_left() -> None:
    """Gold marks of three types are never left; of quasi-identifiers only what looks the part."""
    n_left = 0
    for name in SETS:
        for note in (*unseen(name, "en"), *unseen(name, "ja")):
            gone = set(note.spans) - set(SAFE_HARBOR.apply(note)[0].spans)
            assert {span.label for span in gone} <= {"quasi_identifier"}
            n_left += len(gone)
    assert n_left > 100


@pytest.mark.parametrize("text", ["担当Nsは⟦Q:中島⟧。", "⟦Q:福島⟧さん同席。", "⟦Q:中村⟧より転居。"])
def test_a_policy_that_keeps_places_keeps_no_word_that_may_be_a_surname(text: str) -> None:
    note = marked(text)
    places_alone, both_left = (
        Policy(kinds=dict.fromkeys(kinds, "leave")) for kinds in (["place"], ["place", "name"])
    )
    assert places_alone.apply(note) == (note, {})
    assert both_left.apply(note)[1].total() == 1
    town = marked("⟦Q:中島町⟧より転居。")
    assert places_alone.apply(town)[1] == {"place": 1}


def test_ages_above_ones_own_limit_are_taken_out() -> None:
    policy = Policy(kinds={"age": LEAVE}, age_above=64)
    redacted_note, left = policy.apply(
        marked("⟦Q:64歳⟧ ⟦Q:65歳⟧ ⟦Q:50代⟧ ⟦Q:60代⟧ ⟦Q:sixty-five-year-old⟧")
    )
    assert [span.start for span in redacted_note.spans] == [4, 12, 16] and left == {"age": 2}


NOTE = "72-year-old man, MRN: 4471902, seen 04/12/2023. Name: John Smith"


def tag(tmp_path: Path, name: str, policy: Policy, **more: Any) -> dict[str, Any]:
    source = tmp_path / "notes.jsonl"
    source.write_text(json.dumps({"text": NOTE}) + "\n", "utf-8")
    return tag_notes(
        open_notes(source),
        tagger=RuleTagger(),
        folder=tmp_path / name,
        release=Release(),
        policy=policy,
        **more,
    )


def test_what_is_left_stays_in_the_text_and_is_counted_by_kind(tmp_path: Path) -> None:
    census = tag(tmp_path, "out", SAFE_HARBOR)
    released = (tmp_path / "out" / "redacted.jsonl").read_text("utf-8")
    assert "72-year-old man, MRN: [ID], seen [DATE]. Name: [NAME]" in released
    assert census["left"] == {"age": 1, "sex": 1} and census["policy"] == SAFE_HARBOR.plain()
    assert census["spans"]["quasi_identifier"]["n"] == 1
    everything = tag(tmp_path, "all", ALL_OUT)
    assert not {"left", "policy"} & everything.keys()
    assert everything["spans"]["quasi_identifier"]["n"] == 3
    assert everything["tagger"] == census["tagger"]
    at_once = tag_text(NOTE, tagger=RuleTagger(), release=Release(), policy=SAFE_HARBOR)
    assert at_once.released in json.loads(released)["text"] and at_once.left == census["left"]


def test_a_policy_is_read_from_a_file_of_kinds(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_bytes(SAFE_HARBOR.as_file())
    policy = find_policy(str(path))
    assert policy.decisive() == SAFE_HARBOR.decisive() and policy.is_ready_made
    assert tuple(policy.kinds) == KINDS and not ALL_OUT.decisive()
    assert [find_policy(name) for name in READY] == [ALL_OUT, SAFE_HARBOR]
    assert not Policy(title="safe-harbor", kinds={"name": LEAVE}).is_ready_made
    for wrong, why in {
        "": "empty",
        "[": "is not JSON",
        '{"kinds": {"nmae": "leave"}}': "no kind called nmae",
        '{"kinds": {"name": "keep"}}': "must be 'take out' or 'leave'",
        '{"age_above": 90}': "from 0 to 89",
        '{"leave": []}': "is unknown",
    }.items():
        with pytest.raises(AuditError, match=why):
            read_policy(wrong.encode(), place="own.json")
    with pytest.raises(AuditError, match="no such policy"):
        find_policy(str(tmp_path / "none.json"))


def test_the_coverage_has_18_identifiers_and_five_types() -> None:
    rows = {row.code: row for row in list_coverage(SAFE_HARBOR, tagger=find_tagger(RULES))}
    assert list(rows) == [*HIPAA, *FIVE] and (len(HIPAA), len(FIVE)) == (18, 5)
    named = {kind for kinds, _ in HIPAA.values() for kind in kinds}
    assert named == set(KINDS) - SAFE_HARBOR.kinds_left
    assert {kind for kinds, _ in FIVE.values() for kind in kinds} == set(KINDS)
    assert all(rows[code].action == "take out" for code, (kinds, _) in HIPAA.items() if kinds)
    for code in ("biometric", "photographs"):
        assert rows[code].action == "none" and rows[code].ways == ()
    assert rows["vehicle"].ways == () and rows["names"].ways == ("rules", "register")
    assert rows["quasi_identifier"].action == "part"
    assert set(rows["quasi_identifier"].kinds_left) == SAFE_HARBOR.kinds_left
    everything = Policy(kinds=dict.fromkeys(KINDS, LEAVE))
    by_default = list_coverage(everything, tagger=find_tagger(DEFAULT))
    assert {row.action for row in by_default} == {"leave", "none"}
    assert by_default[0].ways == ("rules", "network", "register")
    assert by_default[14].ways == ("rules", "network")


def test_measured_recall_is_told_of_the_tagger_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = find_tagger(DEFAULT)
    counts = {"n_gold": 50, "n_touched": 48, "n_covered": 40}
    content = json.loads((SHIPPED / HAND_WRITTEN).read_bytes())
    content |= {"digest": default.digest, "by_kind": {"en": {"D": counts, "C": counts}}}
    (tmp_path / HAND_WRITTEN).write_text(json.dumps(content), "utf-8")
    monkeypatch.setattr(covering, "SHIPPED", tmp_path)
    rows = {
        row["identifier"]: row
        for row in describe_rows(list_coverage(ALL_OUT, tagger=default), language="en")
    }
    dates = rows["3. Dates except the year; ages above 89"]
    assert dates["en"].replace("\N{NO-BREAK SPACE}", " ") == (
        "dates 96.0 % (86.5 – 98.9 %) of 50, whole 80.0 %"
    )
    assert dates["ja"] == rows["1. Names"]["en"] == "not measured"
    ja = describe_rows(list_coverage(ALL_OUT, tagger=default), language="ja")
    assert "日付 50件中" in ja[2]["en"] and len(ja) == 23
    assert not any(row.measured for row in list_coverage(ALL_OUT, tagger=find_tagger(RULES)))
    content["digest"] = "of another one"
    (tmp_path / HAND_WRITTEN).write_text(json.dumps(content), "utf-8")
    assert not any(row.measured for row in list_coverage(ALL_OUT, tagger=default))


def test_a_left_mark_under_another_one_goes_with_it() -> None:
    note = TaggedDocument(
        "1", "in 2015, Leith", (Span(0, 14, "identifier"), Span(3, 7, "quasi_identifier"))
    )
    redacted_note, left = SAFE_HARBOR.apply(note)
    assert left == {"year": 1} and Release().redact(redacted_note).text == "[NAME]"
