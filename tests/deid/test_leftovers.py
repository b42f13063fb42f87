"""What stays readable in released notes, and whom it singles out."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.find.rules import RuleTagger
from audit.deid.measure import leftovers
from audit.deid.measure.leftovers import Leftover, Leftovers, find_leftovers, find_note_leftovers
from audit.deid.redact.release import Release
from audit.deid.sets.tagging import tag_notes
from audit.errors import AuditCancelled, AuditError
from audit.notes.read import open_notes
from audit.notes.spans import TaggedDocument
from tests.deid.unseen_notes import marked


def left(text: str) -> set[Leftover]:
    return set(find_note_leftovers(marked(text)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "A ⟦Q:72-year-old⟧ woman, a beekeeper in Ohio, seen in 1987.",
            {("sex", "F"), ("work", "beekeeper"), ("place", "ohio"), ("date", "1987")},
        ),
        ("A 72-year-old ⟦Q:woman⟧ of ⟦Q:Ohio⟧, a ⟦Q:beekeeper⟧.", {("age", "72")}),
        (
            "In his 80s, an octogenarian; ward 7B; over 90 years.",
            {
                ("age", "80s"),
                ("age", "octogenarian"),
                ("place", "ward 7b"),
                ("age", "over 90 years"),
                ("sex", "M"),
            },
        ),
        (
            "She has kyphoscoliosis and Marfan syndrome, is one of 9 siblings, her twin sister "
            "well.",
            {
                ("sex", "F"),
                ("rare", "kyphoscoliosis"),
                ("rare", "marfan syndrome"),
                ("family", "9 siblings"),
                ("family", "twin sister"),
            },
        ),
        # No place, no profession: a scale, a name with a capital, a word of every day.
        ("Glasgow Coma scale 15. Seen by Dr. Baker. No diagnosis.", set()),
        ("Occupation: Baker. A taxi driver before.", {("work", "baker"), ("work", "taxi driver")}),
        (
            "72歳の男性。養蜂業。岩手県の遠野市在住。双子の弟あり。",
            {
                ("age", "72"),
                ("sex", "M"),
                ("work", "養蜂業"),
                ("place", "岩手県"),
                ("place", "遠野市"),
                ("family", "双子"),
            },
        ),
        (
            "⟦Q:72歳⟧の⟦Q:男性⟧。⟦Q:養蜂業⟧。80代。6人兄弟。3病棟。",
            {("age", "80代"), ("family", "6人兄弟"), ("place", "3病棟")},
        ),
        (
            "８５歳以上。ファブリー病と視神経脊髄炎。炎症反応、病棟、症状なし。",
            {("age", "85歳以上"), ("rare", "ファブリー病"), ("rare", "視神経脊髄炎")},
        ),
        (
            "昭和62年に渡米、ブラジル出身。1990年に帰国。",
            {("date", "昭和62年"), ("date", "1990年"), ("place", "ブラジル")},
        ),
        ("特記なし。 No complaints.", set()),
    ],
)
def test_what_stands_outside_every_mark_is_found_by_kind(text: str, found: set[Leftover]) -> None:
    assert left(text) == found


WORDS = {
    "Ohio": ("place", "ohio"),
    "Nevada": ("place", "nevada"),
    "beekeeper": ("work", "beekeeper"),
    "farmer": ("work", "farmer"),
    "triplet": ("family", "triplet"),
    "woman": ("sex", "F"),
}
SETS = st.lists(st.sets(st.sampled_from(sorted(WORDS))), min_size=1, max_size=9)


def notes_of(sets: list[set[str]]) -> list[tuple[int, TaggedDocument]]:
    """Return a note for each set of words; every second one is of the patient before it."""
    return [
        (10 + i, TaggedDocument(f"d{i}", ", ".join(sorted(words)), patient_id=f"p{i // 2}"))
        for i, words in enumerate(sets)
    ]


def by_patient(sets: list[set[str]]) -> list[set[Leftover]]:
    pairs = [set().union(*sets[i : i + 2]) for i in range(0, len(sets), 2)]
    return [{WORDS[word] for word in words} for words in pairs]


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(SETS, st.integers(2, 5))
def test_the_smallest_combinations_of_one_patient_alone_are_just_those(
    sets: list[set[str]], k: int
) -> None:
    patients = by_patient(sets)
    groups: Counter[tuple[Leftover, ...]] = Counter()
    for leftovers_of_patient in patients:
        for size in (1, 2, 3):
            groups.update(combinations(sorted(leftovers_of_patient), size))
    unique = [combination for combination, n in sorted(groups.items()) if n == 1]
    unique = [
        combination
        for combination in unique
        if not any(set(smaller) < set(combination) for smaller in unique)
    ]
    leftovers = find_leftovers(notes_of(sets), k=k)
    assert sorted(combination.attributes for combination in leftovers.singles) == unique
    assert [len(combination.attributes) for combination in leftovers.singles] == sorted(
        map(len, unique)
    )
    assert leftovers.n_unique == {
        size: sum(len(combination) == size for combination in unique) for size in (1, 2, 3)
    }
    assert leftovers.n_singled == sum(
        any(set(combination) <= leftovers_of_patient for combination in unique)
        for leftovers_of_patient in patients
    )
    below = {combination for combination, n in groups.items() if n < k}
    assert leftovers.n_below == sum(
        any(set(combination) <= leftovers_of_patient for combination in below)
        for leftovers_of_patient in patients
    )
    assert (leftovers.n_notes, leftovers.n_patients) == (len(sets), len(patients))
    assert leftovers.n_with == sum(map(bool, sets))
    for (
        combination
    ) in leftovers.singles:  # the notes are those of the patient in which one of them stands
        assert {note // 2 for note in combination.notes} == {combination.notes[0] // 2}
        words_in_notes = set().union(
            *({WORDS[word] for word in sets[note]} for note in combination.notes)
        )
        assert set(combination.attributes) <= words_in_notes and combination.rows == tuple(
            10 + n for n in combination.notes
        )


def test_parts_and_blocks_of_combinations_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    words = sorted(WORDS)
    sets = [{words[i % 6], words[i // 6 % 6], words[i // 7 % 6]} for i in range(60)]
    all_leftovers = find_leftovers(notes_of(sets))
    assert all_leftovers.n_unique[2] + all_leftovers.n_unique[3] > 3
    monkeypatch.setattr(leftovers, "_PER_PART", 7)
    monkeypatch.setattr(leftovers, "_PER_BLOCK", 3)
    parts = find_leftovers(notes_of(sets))
    assert sorted(map(str, parts.singles)) == sorted(map(str, all_leftovers.singles))
    assert parts.with_(singles=()) == all_leftovers.with_(singles=())


def test_of_too_many_leftovers_none_is_said_to_single_out_whom_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leftovers, "MAX_COMBINED", 2)
    # "Nevada" is passed over in the second note, which has it beside "woman" all the same.
    texts = [
        "Nevada, woman",
        "Nevada, woman, farmer, beekeeper",
        "Nevada",
        "farmer, beekeeper",
        "woman",
        "Nevada",
    ]
    found = find_leftovers((i, TaggedDocument(str(i), text)) for i, text in enumerate(texts))
    assert found.n_capped == 1
    attributes = {combination.attributes for combination in found.singles}
    assert (("place", "nevada"), ("sex", "F")) not in attributes


def test_terms_are_rare_by_the_notes_of_the_set_and_a_note_alone_is_a_patient() -> None:
    texts = ["kyphoscoliosis", *["hepatitis"] * 4, "hepatitis, hepatitis"]
    notes = [(i, TaggedDocument(f"d{i}", text)) for i, text in enumerate(texts)]
    leftovers = find_leftovers(notes, k=4)
    assert [combination.attributes for combination in leftovers.singles] == [
        (("rare", "kyphoscoliosis"),)
    ]
    assert (leftovers.kinds, leftovers.n_patients) == ({"rare": 1}, 6)
    assert find_leftovers(notes, k=5).kinds == {"rare": 6}
    nothing_left = find_leftovers([(0, TaggedDocument("d", "No complaints."))])
    assert (
        nothing_left.counts() == nothing_left.plain() | {"singles": 0}
        and nothing_left.n_singled == nothing_left.n_with == 0
    )
    with pytest.raises(AuditError, match="size of groups: must be a whole number from 2"):
        find_leftovers(notes, k=1)
    with pytest.raises(AuditCancelled):
        find_leftovers(notes, should_stop=lambda: True)
    assert Leftovers.read(leftovers.to_bytes(), where="x") == leftovers


def test_a_folder_of_tagged_notes_is_read_and_a_damaged_one_refused(tmp_path: Path) -> None:
    source, out = tmp_path / "n.jsonl", tmp_path / "out"
    records = [
        {"doc_id": f"d{i}", "patient_id": f"p{i}", "text": text}
        for i, text in enumerate(
            ["氏名：高橋健一　72歳の男性、養蜂業。", "氏名：伊藤花子　72歳の女性。"]
        )
    ]
    source.write_text("\n".join(json.dumps(record) for record in records), "utf-8")
    release = Release(mode="surrogate", seed=1)
    tag_notes(open_notes(source), tagger=RuleTagger(), folder=out, release=release)
    notes = list(leftovers.read_tagged_folder(out))
    assert [row for row, _ in notes] == [1, 2]
    # The surrogates of names and ages are no leftovers.
    assert [find_note_leftovers(note) for _, note in notes] == [(("work", "養蜂業"),), ()]
    (out / "redacted.jsonl").write_text('{"row": 1, "text": "x"}\n')
    with pytest.raises(AuditError, match="damaged"):
        list(leftovers.read_tagged_folder(out))
    with pytest.raises(AuditError, match="Cannot be read"):
        list(leftovers.read_tagged_folder(tmp_path))
