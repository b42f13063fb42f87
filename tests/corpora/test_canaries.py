"""Canaries: planned evenly, planted where a patient would be named, the rest left as it was."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.corpus.canaries import COUNTS, plan_canaries, planted
from audit.errors import AuditError
from audit.notes.mentions import find_mentions
from audit.notes.read import Note
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


def notes(n: int = 200) -> list[Note]:
    return [Note(str(i), f"p{i}", "", "", "", TEXTS[i % len(TEXTS)], i) for i in range(n)]


def test_each_planted_name_is_in_as_many_notes_as_planned_and_twins_in_none() -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=3)
    made = list(planted(notes(), plan=plan, seed=3))
    assert len(plan.canaries) == 80 and len(plan.planted) == len(plan.twins) == 40
    assert Counter(c.n_mentions for c in plan.planted) == dict.fromkeys(COUNTS, 10)
    texts = [one.note.text for one in made]
    for canary in plan.canaries:
        name = written_name(canary.first, canary.last)
        assert sum(name in text for text in texts) == canary.n_mentions
    pairs = {c.pair: c.group for c in plan.planted}
    assert pairs == {c.pair: c.group for c in plan.twins}


def test_the_note_is_changed_only_where_the_name_is() -> None:
    source = notes()
    plan = plan_canaries(NAMES, n_notes=200, seed=3)
    made = list(planted(source, plan=plan, seed=3))
    assert len(made) == len(source)
    for one, old in zip(made, source, strict=True):
        if one.canary < 0:
            assert one.note is old
            continue
        canary = plan.canaries[one.canary]
        new = one.note.text
        assert new[one.start : one.end] == written_name(canary.first, canary.last)
        assert new[: one.old_start] == old.text[: one.old_start]
        assert new[one.old_start + one.n_inserted :] == old.text[one.old_end :]
        mention = find_mentions(new)[0]
        assert (mention.first, mention.last) == (canary.first, canary.last)
        for at in range(one.old_end, len(old.text)):
            assert new[one.moved(at)] == old.text[at]


def test_a_canary_stands_where_the_patient_stood() -> None:
    made = planted(notes(), plan=plan_canaries(NAMES, n_notes=200, seed=1), seed=1)
    changed = [one for one in made if one.canary >= 0 and int(one.note.note_id) % 4 == 0]
    texts = {one.note.text.replace(new_name(one), "X") for one in changed}
    assert texts == {"HPI: X is a 45-year-old man with gout. He fell."}


def new_name(one: object) -> str:
    return one.note.text[one.start : one.end]  # type: ignore[attr-defined]


def test_the_public_note_holds_a_placeholder_at_the_same_place() -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=3)
    private = list(planted(notes(), plan=plan, seed=3))
    public = list(planted(notes(), plan=plan, seed=3, placeholder="[NAME]"))
    for one, two in zip(private, public, strict=True):
        text = one.note.text
        middle = "[NAME]" if one.canary >= 0 else ""
        assert two.note.text == text[: one.start] + middle + text[one.end :]


def test_japanese_names_take_the_place_of_the_case() -> None:
    texts = ("【症例】症例は７０歳，男性．", "なし")
    source = [Note(str(i), "", "", "", "", text, i) for i, text in enumerate(texts)]
    names = [("太郎", "山田"), ("花子", "佐藤"), ("修", "渡辺"), ("恵", "林")]
    plan = plan_canaries(names, n_notes=2, seed=1, counts=(1,))
    made = planted(source, plan=plan, seed=1)
    new = sorted(one.note.text.replace(new_name(one), "X") for one in made)
    assert new[1] == "【症例】Xは７０歳，男性．"
    assert new[0].startswith("Xは") and new[0].endswith("。\nなし")


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    one, two, three = (plan_canaries(NAMES, n_notes=500, seed=s) for s in (1, 1, 2))
    assert one == two != three


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_planted_and_twins_come_from_one_shuffled_list(seed: int) -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=seed)
    assert {(c.first, c.last) for c in plan.canaries} == set(NAMES)
    assert len({note for note, _ in plan.notes}) == len(plan.notes) == 150


@pytest.mark.parametrize(
    ("names", "n_notes", "counts", "words"),
    [
        (NAMES[:7], 100, (1, 2, 4, 8), "8 names are needed"),
        (NAMES, 149, (1, 2, 4, 8), "150 notes are needed"),
        ([NAMES[0], NAMES[0]], 10, (1,), "Two names are the same"),
        (NAMES, 100, (0, 1), "distinct and above zero"),
    ],
)
def test_what_cannot_be_planted_is_refused(
    names: list[tuple[str, str]], n_notes: int, counts: tuple[int, ...], words: str
) -> None:
    with pytest.raises(AuditError, match=words) as error:
        plan_canaries(names, n_notes=n_notes, seed=1, counts=counts)
    assert "First" not in str(error.value)


def test_too_few_notes_are_noticed() -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=3)
    with pytest.raises(AuditError, match="fewer notes"):
        list(planted(notes(100), plan=plan, seed=3))
