"""Candidates of a corpus: counts, controls that are nowhere in it, matches, roles."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

import pytest

from audit.corpus.canaries import CanaryPlan
from audit.corpus.candidate_lists import draw_lists
from audit.corpus.examine import PatternTally, People
from audit.names.candidates import Candidates, make_candidates, member_parts
from audit.names.controls import matched_controls
from audit.names.matching import NameIndex, Pair, pair_of
from audit.names.pools import NamePool, japanese_pool, popularity, us_pool

POOL = us_pool()
PATTERNS = (
    ("John", "Smith", "A b."),
    ("John", "Smith", "A b."),
    ("JOHN", "SMITH", "C."),
    ("Mary", "Jones", "D."),
    ("Linda", "Brown", "E."),
    ("", "Only", "G."),
)


def tallied(patterns: Iterable[tuple[str, str, str]] = PATTERNS) -> PatternTally:
    tally = PatternTally()
    for first, last, text in patterns:
        tally.add((first, last), text, note=0)
    return tally


def test_tables_3_and_4_of_the_paper() -> None:
    # Appendix A: 130 names, 158 patterns, 232 occurrences.
    patterns = {4: 4, 3: 3, 2: 10, 1: 113}
    mentions = {25: 1, 11: 1, 7: 2, 6: 1, 5: 3, 4: 4, 3: 6, 2: 15, 1: 97}
    for table, total in ((patterns, 158), (mentions, 232)):
        names = list(zip(POOL.first, POOL.last, strict=False))
        tally = PatternTally()
        counts = [n for n, names_with_it in table.items() for _ in range(names_with_it)]
        for name, n in zip(names, counts, strict=False):
            for text in range(n):
                tally.add(name, str(text), note=0)
        made = tally.mention_table
        assert made == tally.pattern_table == tuple(sorted(table.items(), reverse=True))
        assert sum(n for _, n in made) == 130
        assert sum(count * n for count, n in made) == total
    assert PatternTally().mention_table == ()


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


PEOPLE = [
    {"patient_id": "1", "first": "John", "last": "Smith", "sex": "M"},
    {"patient_id": "2", "first": "John", "last": "Smith", "sex": "M"},
    {"patient_id": "4", "first": "Mary", "last": "Jones", "sex": "F"},
]
STAFF = [
    ("3", "staff", ("John", "Smith")),
    ("5", "staff", ("Robert", "Davis")),
    ("6", "staff", ("Susan", "Miller")),
]


def drawn(
    texts: list[str],
    *,
    tally: PatternTally | None = None,
    people: People | None = None,
    pool: NamePool = POOL,
) -> dict[str, Candidates]:
    tally = tally or tallied()
    if people is None:
        people = People(PEOPLE)
        people.add(STAFF)
    found = occurring(texts, pool, tally.members(tally.names))
    return draw_lists(
        tally, people=people, found=found, plan=CanaryPlan(), pool=pool, accepts=None, seed=4
    )


TEXTS = ["Dr. Robert Davis saw John Smith. John Jones called.", "Brown, Mary"]


def many(n: int = 60) -> PatternTally:
    return tallied([(POOL.first[i], POOL.last[2 * i], "A.") for i in range(n)])


def test_no_control_is_anywhere_in_the_corpus() -> None:
    first = drawn(TEXTS, tally=many())
    # A corpus that names half of the controls: they give way, the others stay.
    kinds = ("easy", "hard", "recombined", "matched")
    texts = [
        *TEXTS,
        *(f"{first[k].last[i]}, {first[k].first[i]}." for k in kinds for i in range(0, 60, 2)),
    ]
    again = drawn(texts, tally=many())
    for kind in kinds:
        controls = again[kind]
        for row in range(len(controls)):
            a, b = re.escape(controls.first[row].lower()), re.escape(controls.last[row].lower())
            name = re.compile(rf"\b{a}\b\W+(?:\w+\W+)?{b}\b|\b{b}\b\W+{a}\b")
            assert not [text for text in texts if name.search(text.lower())]
    assert len(again["easy"]) == len(again["hard"]) == 60
    assert set(first["easy"].rows(range(1, 60, 2)).last) <= set(again["easy"].last) | {""}


def test_kinds_are_those_of_section_3_4() -> None:
    made = drawn(TEXTS)
    parts = member_parts(made["patient"])
    for kind, shared in (("easy", 0), ("hard", 1), ("recombined", 2)):
        counts = {
            sum(part.lower() in parts for part in name)
            for name in zip(made[kind].first, made[kind].last, strict=True)
        }
        assert counts == {shared}
    recombined = made["recombined"]
    assert ("John", "Jones") not in set(zip(recombined.first, recombined.last, strict=True))


def test_people_and_roles_are_counted() -> None:
    made = drawn(TEXTS)
    assert made["patient"].first == ("John", "Mary", "Linda")
    assert made["patient"].n_mentions == (3, 1, 1)
    assert made["patient"].sex == ("M", "F", "")
    # Susan Miller is staff but not in the corpus; John Smith is a patient already.
    staff = made["staff"]
    assert list(zip(staff.first, staff.last, strict=True)) == [("Robert", "Davis")]
    assert staff.role == ("staff",) and staff.n_mentions == (1,)
    people = People(PEOPLE)
    people.add([*STAFF, STAFF[0]])
    assert dict(people.carriers(made["patient"])) == {
        "patient": ((0, 1), (1, 1), (2, 1)), "staff": ((0, 2), (1, 1)),
    }  # fmt: skip


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


def test_japanese_candidates_are_drawn_alike() -> None:
    pool = japanese_pool()
    tally = tallied([(pool.first[0], pool.last[0], "あ。")])
    found = occurring([f"{pool.last[1]}{pool.first[1]}さん"], pool, tally.members(tally.names))
    assert found == {(pool.first[1], pool.last[1]): 1}
    many = tallied([(first, pool.last[0], "あ。") for first in pool.first[2:]])
    made = drawn([f"{pool.last[1]}{pool.first[1]}"], tally=many, people=People([]), pool=pool)
    names = {name for each in made.values() for name in zip(each.first, each.last, strict=True)}
    assert len(names) > len(many) and (pool.first[1], pool.last[1]) not in names
