"""Canaries: planned evenly, planted where a patient would be named, the rest left as it was."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.corpus.canaries import CanaryPlan, Planting, absent_names
from audit.corpus.canaries import plan_canaries as planned
from audit.corpus.truth import NoteTruth, Place
from audit.errors import AuditError
from audit.names.matching import pair_of
from audit.names.pools import us_pool
from audit.notes.mentions import find_mentions
from audit.text import written_name

NAMES = [
    (f"First{chr(65 + i // 26)}{chr(97 + i % 26)}", f"Last{chr(97 + i % 26)}") for i in range(80)
]
TEXTS = (
    "HPI: The patient is a 45-year-old man with gout. He fell.",
    "No age here.",
    "This is a 70 y/o F with COPD.",
    "John Smith is a 30-year-old man.",
)


COUNTS = (1, 2, 4, 8)


def plan_canaries(
    names: list[tuple[str, str]], *, n_notes: int, seed: int, counts: tuple[int, ...] = COUNTS
) -> CanaryPlan:
    return planned(names, n_notes=n_notes, seed=seed, counts=counts)


def notes(n: int = 200) -> list[NoteTruth]:
    return [NoteTruth(TEXTS[i % len(TEXTS)], TEXTS[i % len(TEXTS)], ()) for i in range(n)]


def planted(
    source: list[NoteTruth], plan: CanaryPlan, *, is_register: bool = True
) -> list[NoteTruth]:
    planting = Planting(plan, is_register, is_blank=False, seed=3)
    return [planting.planted(note, index=index) for index, note in enumerate(source)]


def canary_of(note: NoteTruth) -> Place:
    (place,) = [place for place in note.inserted or () if place.role == "canary"]
    return place


def test_each_planted_name_is_in_as_many_notes_as_planned_and_twins_in_none() -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=3)
    assert len(plan.canaries) == 80
    assert Counter(c.n_mentions for c in plan.canaries) == dict.fromkeys(COUNTS, 10) | {0: 40}
    texts = [note.private for note in planted(notes(), plan)]
    for canary in plan.canaries:
        name = written_name(canary.first, canary.last)
        assert sum(name in text for text in texts) == canary.n_mentions
    pairs = {c.pair: c.group for c in plan.canaries if c.n_mentions}
    assert pairs == {c.pair: c.group for c in plan.canaries if not c.n_mentions}


def test_the_note_is_changed_only_where_the_name_is() -> None:
    source, plan = notes(), plan_canaries(NAMES, n_notes=200, seed=3)
    for index, (new, old) in enumerate(zip(planted(source, plan), source, strict=True)):
        if index not in plan.rows:
            assert new is old
            continue
        canary, place = plan.canaries[plan.rows[index]], canary_of(new)
        assert new.private[place.start : place.stop] == place.value
        assert place.value == written_name(canary.first, canary.last)
        assert new.private[: place.start] == old.private[: place.start]
        n_same = len(new.private) - place.stop
        assert n_same > 10 or old.private in new.private
        mention = find_mentions(new.private)[0]
        assert (mention.first, mention.last) == (canary.first, canary.last)


def test_a_canary_stands_where_the_patient_stood() -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=1)
    made = planted(notes(), plan)
    texts = {
        made[index].private.replace(canary_of(made[index]).value, "X")
        for index in plan.rows
        if index % 4 == 0
    }
    assert texts == {"HPI: X is a 45-year-old man with gout. He fell."}


@pytest.mark.parametrize("is_register", [False, True])
def test_the_public_note_holds_a_placeholder_at_the_same_place(is_register: bool) -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=3)
    for index, note in enumerate(planted(notes(), plan, is_register=is_register)):
        if index not in plan.rows:
            continue
        place = canary_of(note)
        mask = note.public[place.source_start : place.source_stop]
        assert mask == "[NAME]" if is_register else mask.startswith("[**Known firstname 9")
        assert note.private[: place.start] + mask + note.private[place.stop :] == note.public


def test_what_the_truth_says_still_stands_where_it_says() -> None:
    private, public = (
        "Dr. Lee, 3/4. The patient is a 45-year-old man. Ann.",
        "Dr. ___, _. The patient is a 45-year-old man. [X].",
    )
    at = private.index("Ann"), public.index("[X]")
    places = (
        Place(4, 7, 4, 7, "a", "last", "staff", "s", "Lee", 0),
        Place(9, 12, 9, 10, "b", "date", "", "p", "3/4"),
        Place(at[0], at[0] + 3, at[1], at[1] + 3, "c", "first", "patient", "p", "Ann", 1),
    )
    plan = plan_canaries(NAMES[:2], n_notes=1, seed=1, counts=(1,))
    (new,) = planted([NoteTruth(private, public, places)], plan)
    assert [new.private[p.start : p.stop] for p in new.inserted or ()][:2] == ["Lee", "3/4"]
    assert [new.public[p.source_start : p.source_stop] for p in new.inserted or ()] == [
        *("___", "_", "[NAME]", "[X]"),
    ]
    assert all(new.private[p.start : p.stop] == p.value for p in new.inserted or ())
    assert canary_of(new).group == 2 and " is a 45-year-old man" in new.public


def test_japanese_names_take_the_place_of_the_case() -> None:
    source = [NoteTruth(text, text, ()) for text in ("【症例】症例は７０歳，男性．", "なし")]
    names = [("太郎", "山田"), ("花子", "佐藤"), ("修", "渡辺"), ("恵", "林")]
    plan = plan_canaries(names, n_notes=2, seed=1, counts=(1,))
    made = planted(source, plan)
    new = sorted(note.private.replace(canary_of(note).value, "X") for note in made)
    assert new[1] == "【症例】Xは７０歳，男性．"
    assert new[0].startswith("Xは") and new[0].endswith("。\nなし")


def test_canaries_are_names_that_are_not_in_the_notes() -> None:
    pool = us_pool()
    some = absent_names(pool, n=50, seed=1, taken=set())
    first, last = some[0]
    taken = {(last.lower(), first.lower()), pair_of(*some[1])}
    again = absent_names(pool, n=50, seed=1, taken=taken)
    assert len(set(some)) == 50 and set(some[:2]).isdisjoint(again)
    assert again[:48] == some[2:]
    with pytest.raises(AuditError, match="names are left"):
        absent_names(pool, n=5, seed=1, taken=set(), accepts=lambda first, last: False)


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    one, two, three = (plan_canaries(NAMES, n_notes=500, seed=s) for s in (1, 1, 2))
    assert one == two != three


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_planted_and_twins_come_from_one_shuffled_list(seed: int) -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=seed)
    assert {(c.first, c.last) for c in plan.canaries} == set(NAMES)
    assert len(plan.rows) == 150


def test_more_mentions_than_notes_are_refused() -> None:
    with pytest.raises(AuditError, match="150 notes are needed"):
        plan_canaries(NAMES, n_notes=149, seed=1)
