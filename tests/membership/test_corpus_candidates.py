"""Candidates of a corpus: counts, controls that are nowhere in it, matches, roles."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace

import pytest

from audit.corpus.examine import (
    CountTable,
    RegisteredPerson,
    carriers,
    corpus_candidates,
    count_table,
    positives_of,
)
from audit.corpus.truth import NamePattern
from audit.names.candidates import Candidates, make_candidates, member_parts
from audit.names.controls import matched_controls
from audit.names.matching import NameIndex, Pair, pair_of
from audit.names.pools import NamePool, japanese_pool, popularity, us_pool
from audit.notes.passages import Passage

PASSAGE = Passage("", ("first", "last"), " ", " is a", "1", None)
POOL = us_pool()


def pattern(first: str, last: str, text: str, role: str = "patient") -> NamePattern:
    return NamePattern("n", f"p:{first}{last}", role, first, last, "is_a", text, PASSAGE)


PATTERNS = [
    pattern("John", "Smith", "A b."),
    pattern("John", "Smith", "A  b."),
    pattern("JOHN", "SMITH", "C."),
    pattern("Mary", "Jones", "D."),
    pattern("Linda", "Brown", "E."),
    pattern("Ann", "Staff", "F.", role="staff"),
    pattern("", "Only", "G."),
]


def test_patterns_and_mentions_are_counted_by_name() -> None:
    positives, n_patterns = positives_of(PATTERNS)
    assert positives.first == ("John", "Mary", "Linda")
    assert positives.n_mentions == (3, 1, 1) and n_patterns == (2, 1, 1)
    assert set(positives.is_member) == {True} and set(positives.role) == {"patient"}
    few, _ = positives_of(PATTERNS, accepts=lambda first, last: first == "Mary")
    assert few.last == ("Jones",)


def test_tables_3_and_4_of_the_paper() -> None:
    # Appendix A: 130 names, 158 patterns, 232 occurrences.
    patterns = {4: 4, 3: 3, 2: 10, 1: 113}
    mentions = {25: 1, 11: 1, 7: 2, 6: 1, 5: 3, 4: 4, 3: 6, 2: 15, 1: 97}
    for table, total in ((patterns, 158), (mentions, 232)):
        made = count_table(n for n, names in table.items() for _ in range(names))
        assert made == CountTable(tuple(sorted(table.items(), reverse=True)))
        assert (made.n_names, made.n_total) == (130, total)
    assert count_table([0, 0]).rows == ()


@pytest.mark.parametrize(
    ("text", "n_found"),
    [
        ("Seen with john smith.", 1),
        ("SMITH, JOHN", 1),
        ("John Q. Smith and John\nSmith", 2),
        ("Johnny Smith and John Smithson", 0),
        ("John went home. Mr. Brown met Smith", 0),
    ],
)
def test_full_names_are_whole_words(text: str, n_found: int) -> None:
    index = NameIndex(firsts=["John"], lasts=["Smith"])
    assert index.count(text) == Counter({("john", "smith"): n_found} if n_found else {})


def test_names_of_several_words_and_of_han_are_found() -> None:
    index = NameIndex(firsts=["Mary Ann", "太郎"], lasts=["de la Cruz", "O'Brien", "山田"])
    text = "Mary Ann de la Cruz saw mary ann O'Brien. 山田太郎さんと山田 太郎"
    assert index.count(text) == {
        pair_of("Mary Ann", "de la Cruz"): 1,
        pair_of("Mary Ann", "O'Brien"): 1,
        pair_of("太郎", "山田"): 2,
    }


def occurring(texts: list[str], pool: NamePool, members: Candidates) -> Counter[Pair]:
    index = NameIndex(firsts=[*pool.first, *members.first], lasts=[*pool.last, *members.last])
    return sum((index.count(text) for text in texts), start=Counter())


def built(texts: list[str], **options: object):  # type: ignore[no-untyped-def]
    positives, _ = positives_of(PATTERNS)
    found = occurring(texts, POOL, positives)
    people = [
        RegisteredPerson("1", "John", "Smith", "patient", "male"),
        RegisteredPerson("2", "John", "Smith", "patient", "male"),
        RegisteredPerson("3", "John", "Smith", "staff", "male"),
        RegisteredPerson("4", "Mary", "Jones", "patient", "female"),
        RegisteredPerson("5", "Robert", "Davis", "staff", "male"),
        RegisteredPerson("6", "Susan", "Miller", "staff", "female"),
    ]
    return corpus_candidates(PATTERNS, found=found, pool=POOL, seed=4, people=people, **options)


TEXTS = ["Dr. Robert Davis saw John Smith. John Jones called.", "Brown, Mary"]


def test_no_control_is_anywhere_in_the_corpus() -> None:
    first = built(TEXTS, n=60)
    # A corpus that names half of the controls: they give way, the others stay.
    named = [first.easy, first.hard, first.recombined, first.matched]
    texts = [*TEXTS, *(f"{c.last[i]}, {c.first[i]}." for c in named for i in range(0, len(c), 2))]
    again = built(texts, n=60)
    for kind in ("easy", "hard", "recombined", "matched"):
        controls = getattr(again, kind)
        for row in range(len(controls)):
            a, b = re.escape(controls.first[row].lower()), re.escape(controls.last[row].lower())
            name = re.compile(rf"\b{a}\b\W+(?:\w+\W+)?{b}\b|\b{b}\b\W+{a}\b")
            assert not [text for text in texts if name.search(text.lower())]
    assert len(again.easy) == len(again.hard) == 60
    assert set(first.easy.rows(range(1, 60, 2)).last) <= set(again.easy.last) | {""}
    assert ("John", "Jones") not in set(
        zip(again.recombined.first, again.recombined.last, strict=True)
    )


def test_kinds_are_those_of_section_3_4() -> None:
    made = built(TEXTS)
    parts = member_parts(made.positives)
    for control, shared in ((made.easy, 0), (made.hard, 1), (made.recombined, 2)):
        counts = {
            sum(part.lower() in parts for part in name)
            for name in zip(control.first, control.last, strict=True)
        }
        assert counts == {shared}


def test_people_and_roles_are_counted() -> None:
    made = built(TEXTS)
    assert dict(made.n_people) == {"patient": (2, 1, 0), "staff": (1, 0, 0)}
    assert made.positives.sex == ("male", "female", "")
    # Susan Miller is staff but not in the corpus; John Smith is a patient already.
    assert list(zip(made.staff.first, made.staff.last, strict=True)) == [("Robert", "Davis")]
    assert made.staff.role == ("staff",) and made.staff.n_mentions == (1,)
    assert made.pattern_table.rows == ((2, 1), (1, 2)) and made.mention_table.rows == (
        (3, 1),
        (1, 2),
    )


def test_matches_are_as_common_as_their_members() -> None:
    members = make_candidates(
        [("John", "Smith"), ("Mary", "Jones"), ("Zzyx", "Qwrt")], is_member=True
    )
    matched = matched_controls(members, n=3, seed=1, pool=POOL)
    assert matched.rows == (0, 1, 2)
    assert not matched.is_within[2]  # unknown to the generator: the rarest that it has
    drawn = list(zip(matched.controls.first, matched.controls.last, strict=True))
    for name, row in zip(drawn[:2], (0, 1), strict=True):
        own = popularity(POOL, first=members.first[row], last=members.last[row])
        other = popularity(POOL, first=name[0], last=name[1])
        assert name != (members.first[row], members.last[row])
        assert abs(math.log(other / own)) < 0.5
    assert matched_controls(members, n=3, seed=1, pool=POOL).controls == matched.controls
    refused = set(drawn)
    others = matched_controls(
        members, n=3, seed=1, pool=POOL, accepts=lambda f, la: (f, la) not in refused
    ).controls
    assert not set(zip(others.first, others.last, strict=True)) & refused


def test_many_members_get_distinct_matches() -> None:
    names = [(f, la) for f in POOL.first[:20] for la in POOL.last[:10]]
    matched = matched_controls(make_candidates(names, is_member=True), n=200, seed=2, pool=POOL)
    drawn = set(zip(matched.controls.first, matched.controls.last, strict=True))
    assert len(drawn) == len(matched.rows) == 200 and not drawn & set(names)


def test_japanese_candidates_are_built_alike() -> None:
    pool = japanese_pool()
    member = pattern(pool.first[0], pool.last[0], "あ。")
    positives, _ = positives_of([member])
    found = occurring([f"{pool.last[1]}{pool.first[1]}さん"], pool, positives)
    assert found == {(pool.first[1], pool.last[1]): 1}
    made = corpus_candidates([member], found=found, pool=pool, seed=1, n=2000)
    drawn = set(zip(made.easy.first, made.easy.last, strict=True))
    assert drawn and (pool.first[1], pool.last[1]) not in drawn


def test_columns_that_do_not_fit_are_refused() -> None:
    made = built(TEXTS)
    with pytest.raises(ValueError, match="different length"):
        replace(made, n_patterns=(1,))
    with pytest.raises(ValueError, match="without a positive"):
        replace(made, matched_to=(0,) * 99)
    assert carriers(made.positives, people=[]) == ()
