"""Controls: exact kinds, exact weights, stable under seeds and sizes."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import (
    draw_names,
    matched_controls,
    part_controls,
    recombined_controls,
    reference_controls,
)
from audit.names.pools import NamePool, japanese_pool, popularity, us_pool

SMALL = NamePool("en_US", ("Ann", "Bo", "Cy"), ("Lee", "Hill"), (0.6, 0.3, 0.1), (0.75, 0.25))
EXACT = {
    (f, last): popularity(SMALL, first=f, last=last)
    for f, last in itertools.product(SMALL.first, SMALL.last)
}


def names(candidates: Candidates) -> list[tuple[str, str]]:
    return list(zip(candidates.first, candidates.last, strict=True))


def members(n: int = 130, *, seed: int = 1) -> Candidates:
    return make_candidates(names(draw_names(us_pool(), n=n, seed=seed)), is_member=True)


def lower_parts(candidates: Candidates) -> set[str]:
    return {part.lower() for part in candidates.first + candidates.last}


def test_the_first_name_drawn_has_the_generators_weights() -> None:
    n = 3_000
    drawn = Counter(names(draw_names(SMALL, n=1, seed=seed))[0] for seed in range(n))
    observed = [drawn[name] for name in EXACT]
    assert stats.chisquare(observed, [n * share for share in EXACT.values()]).pvalue > 1e-3


def test_the_second_name_drawn_has_the_weights_without_the_first() -> None:
    n = 3_000
    drawn = Counter(tuple(names(draw_names(SMALL, n=2, seed=seed))) for seed in range(n))
    pairs = list(itertools.permutations(EXACT, 2))
    # P(a, then b) = p(a) p(b) / (1 - p(a)): drawing again and again, repeats thrown away.
    exact = [n * EXACT[a] * EXACT[b] / (1 - EXACT[a]) for a, b in pairs]
    assert math.isclose(sum(exact), n)
    assert stats.chisquare([drawn[pair] for pair in pairs], exact).pvalue > 1e-3


def test_reference_controls_have_the_weights_given_their_number_of_pieces() -> None:
    pieces = {"Ann": 1, "Bo": 2, "Cy": 3, "Lee": 1, "Hill": 2}
    n = 3_000
    drawn = Counter(
        names(
            reference_controls(
                SMALL, n_by_pieces={3: 1}, count_pieces=lambda _, part: pieces[part], seed=seed
            )
        )[0]
        for seed in range(n)
    )
    # Three pieces: Ann Hill .6 * .25 = .15, Bo Lee .3 * .75 = .225.
    assert set(drawn) == {("Ann", "Hill"), ("Bo", "Lee")}
    assert stats.binomtest(drawn["Bo", "Lee"], n, 0.225 / 0.375).pvalue > 1e-3


def test_draws_are_distinct_seeded_and_by_purpose() -> None:
    drawn = draw_names(us_pool(), n=500, seed=3)
    assert len(set(names(drawn))) == 500
    assert drawn == draw_names(us_pool(), n=500, seed=3)
    assert drawn != draw_names(us_pool(), n=500, seed=4)
    assert drawn != draw_names(us_pool(), n=500, seed=3, purpose="other")
    assert set(drawn.is_member) == {None}
    assert drawn.popularity[0] == popularity(us_pool(), first=drawn.first[0], last=drawn.last[0])


def test_a_draw_is_the_same_in_every_version() -> None:
    # Guards the stream: a change here changes every audit's controls.
    pool = NamePool("en_US", tuple("abcdefgh"), ("Lee",), (0.125,) * 8, (1.0,))
    assert "".join(draw_names(pool, n=8, seed=0).first) == "dafhegbc"


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_a_longer_draw_begins_with_the_shorter(n: int, more: int, seed: int) -> None:
    listed = members(20)
    pool = japanese_pool()
    for short, long in (
        (draw_names(pool, n=n, seed=seed), draw_names(pool, n=n + more, seed=seed)),
        (
            recombined_controls(listed, n=n, seed=seed),
            recombined_controls(listed, n=n + more, seed=seed),
        ),
    ):
        assert names(long)[: len(short)] == names(short)


@pytest.mark.parametrize("seed", [0, 1])
def test_easy_controls_share_no_part_with_members(seed: int) -> None:
    listed = members()
    easy = matched_controls(listed, n=130, seed=seed, kind="easy", pool=us_pool()).controls
    assert len(easy) == 130
    assert lower_parts(easy).isdisjoint(lower_parts(listed))
    assert set(easy.control_kind) == {"easy"}
    assert set(easy.is_member) == {False}


@pytest.mark.parametrize("seed", [0, 1])
def test_hard_controls_share_exactly_one_part_with_members(seed: int) -> None:
    listed = members()
    parts = lower_parts(listed)
    hard = matched_controls(listed, n=130, seed=seed, kind="hard", pool=us_pool()).controls
    assert len(hard) == 130
    assert {(f.lower() in parts) + (last.lower() in parts) for f, last in names(hard)} == {1}
    assert set(hard.control_kind) == {"hard"}


def test_parts_are_compared_across_roles() -> None:
    pool = NamePool("en_US", ("Thomas", "Ann"), ("Lee", "Hill"), (0.5, 0.5), (0.5, 0.5))
    listed = make_candidates([("Mary", "THOMAS")], is_member=True)
    assert {
        f for f, _ in names(matched_controls(listed, n=9, seed=0, kind="easy", pool=pool).controls)
    } == {"Ann"}
    hard = names(matched_controls(listed, n=9, seed=0, kind="hard", pool=pool).controls)
    assert set(hard) == {("Mary", "Lee"), ("Mary", "Hill"), ("Ann", "THOMAS")}


def test_recombined_controls_are_all_pairs_that_are_no_member() -> None:
    listed = make_candidates([("Ann", "Lee"), ("Bo", "Hill"), ("ann", "Dee")], is_member=True)
    others = make_candidates([("Zoe", "Zane")], is_member=False, control_kind="given")
    controls = recombined_controls(listed + others, n=99, seed=0, exclude=[("bo", "dee")])
    found = {(f.lower(), last.lower()) for f, last in names(controls)}
    assert found == {("ann", "hill"), ("bo", "lee")}
    assert len(controls) == 2
    assert set(controls.control_kind) == {"recombined"}


def test_recombined_controls_of_a_long_list_come_quickly() -> None:
    listed = make_candidates([(f"F{i}", f"L{i}") for i in range(20_000)], is_member=True)
    start = time.perf_counter()
    controls = recombined_controls(listed, n=500, seed=0)
    assert time.perf_counter() - start < 5
    assert len(set(names(controls))) == 500
    assert all(f[1:] != last[1:] for f, last in names(controls))


def test_excluded_and_unaccepted_names_never_come() -> None:
    banned = names(draw_names(us_pool(), n=50, seed=5))
    shouted = [(f.upper(), last.upper()) for f, last in banned]
    drawn = draw_names(
        us_pool(), n=50, seed=5, exclude=shouted, accepts=lambda f, last: len(f) == len(last)
    )
    assert set(names(drawn)).isdisjoint(banned)
    assert all(len(f) == len(last) for f, last in names(drawn))
    japanese = names(draw_names(japanese_pool(), n=20, seed=5))
    whole = [("", last + f) for f, last in japanese]  # the same names, not split
    again = draw_names(japanese_pool(), n=20, seed=5, exclude=whole)
    assert set(names(again)).isdisjoint(japanese)


def test_a_pool_gives_no_more_than_it_has() -> None:
    assert len(draw_names(SMALL, n=100, seed=0)) == 6
    assert len(matched_controls(members(), n=100, seed=0, kind="easy", pool=SMALL).controls) <= 6
    assert len(draw_names(SMALL, n=0, seed=0)) == 0
    none = reference_controls(SMALL, n_by_pieces={7: 5}, count_pieces=lambda *_: 1, seed=0)
    assert len(none) == 0


def test_twenty_thousand_reference_controls_come_in_a_few_seconds() -> None:
    calls: list[str] = []

    def count_pieces(role: str, part: str) -> int:
        calls.append(role)
        return 1 + len(part) // 5

    listed = members()
    start = time.perf_counter()
    controls = reference_controls(
        us_pool(),
        n_by_pieces={2: 5_000, 3: 10_000, 4: 5_000},
        count_pieces=count_pieces,
        exclude=names(listed),
        seed=2,
    )
    assert time.perf_counter() - start < 5
    assert Counter(calls) == {"first": 690, "last": 1000}
    assert len(set(names(controls))) == len(controls) == 20_000
    assert set(names(controls)).isdisjoint(names(listed))
    pieces = [count_pieces("", f) + count_pieces("", last) for f, last in names(controls)]
    assert pieces == [2] * 5_000 + [3] * 10_000 + [4] * 5_000
    assert set(controls.control_kind) == {"reference"}
    assert np.isfinite(controls.popularity).all()


def test_more_reference_controls_begin_with_the_same() -> None:
    few, many = (
        reference_controls(us_pool(), n_by_pieces={2: n}, count_pieces=lambda *_: 1, seed=2)
        for n in (50, 90)
    )
    assert names(many)[:50] == names(few)


# Reference controls and tested names


def pool_of(n_first: int, n_last: int) -> NamePool:
    return NamePool(
        "en_US",
        tuple(f"F{k}" for k in range(n_first)),
        tuple(f"L{k}" for k in range(n_last)),
        (1 / n_first,) * n_first,
        (1 / n_last,) * n_last,
    )


def shared(controls: Candidates, tested: frozenset[str]) -> list[int]:
    """How many of each control's parts are a tested name's."""
    return [(f.lower() in tested) + (last.lower() in tested) for f, last in names(controls)]


def reference(tested: frozenset[str], *, n: int, n_least: int, pool: NamePool) -> list[int]:
    controls = reference_controls(
        pool, n_by_pieces={2: n}, count_pieces=lambda *_: 1, tested_parts=tested,
        n_least=n_least, exclude=[("F0", "L0")], seed=4,
    )  # fmt: skip
    assert len(set(names(controls))) == len(controls)
    assert ("F0", "L0") not in names(controls)
    return shared(controls, tested)


def test_no_reference_control_has_a_tested_part_as_long_as_there_are_enough() -> None:
    tested = frozenset({"f0", "f1", "l0", "l1", "l2"})
    # 28 first and 27 last names are free: 756 clean names.
    for n in (1, 300, 756):
        found = reference(tested, n=n, n_least=n, pool=pool_of(30, 30))
        assert found == [0] * n


def test_names_of_one_tested_part_fill_up_to_the_least_number_and_no_further() -> None:
    tested, pool = frozenset({"f0", "f1", "l0"}), pool_of(12, 26)
    # 10 * 25 = 250 clean, 2 * 25 + 10 * 1 = 60 of one tested part, two of both (one is listed).
    assert reference(tested, n=900, n_least=0, pool=pool) == [0] * 250
    assert reference(tested, n=900, n_least=240, pool=pool) == [0] * 250
    assert reference(tested, n=900, n_least=280, pool=pool) == [0] * 250 + [1] * 30
    # Those of both never come where 200 are there without them.
    assert reference(tested, n=900, n_least=900, pool=pool) == [0] * 250 + [1] * 60
    # Never more than asked for, whatever the least number.
    assert reference(tested, n=100, n_least=900, pool=pool) == [0] * 100
    assert reference(tested, n=260, n_least=900, pool=pool) == [0] * 250 + [1] * 10


def test_names_of_two_tested_parts_fill_up_to_200_and_no_further() -> None:
    pool = pool_of(20, 30)
    tested = frozenset({*(f"f{k}" for k in range(18)), *(f"l{k}" for k in range(28))})
    # 2 * 2 = 4 clean, 18 * 2 + 2 * 28 = 92 of one tested part, 504 of both.
    found = reference(tested, n=900, n_least=900, pool=pool)
    assert found == [0] * 4 + [1] * 92 + [2] * 104
    # With a lower least number fewer of one part come, and those of both still up to 200.
    found = reference(tested, n=900, n_least=50, pool=pool)
    assert found == [0] * 4 + [1] * 46 + [2] * 150
    assert reference(tested, n=40, n_least=40, pool=pool) == [0] * 4 + [1] * 36


def test_tested_parts_are_compared_across_roles_and_by_folded_form() -> None:
    pool = NamePool(
        "en_US", ("Thomas", "Ann", "Bo"), ("Lee", "Thomas"), (0.4, 0.3, 0.3), (0.5, 0.5)
    )
    found = reference_controls(
        pool, n_by_pieces={2: 9}, count_pieces=lambda *_: 1, tested_parts=frozenset({"thomas"}),
        n_least=2, seed=0,
    )  # fmt: skip
    assert set(names(found)[:2]) == {("Ann", "Lee"), ("Bo", "Lee")}
    # Two are enough; the rest comes only because fewer than 200 are there: those of both parts.
    assert names(found)[2:] == [("Thomas", "Thomas")]


def test_each_number_of_pieces_is_filled_up_by_itself() -> None:
    pool = pool_of(40, 40)
    tested = frozenset(f"f{k}" for k in range(0, 40, 2)) - {"f0"}

    def count(role: str, part: str) -> int:
        return 1 if role == "last" or int(part[1:]) % 2 else 2

    # Even first names have two pieces, and all but one of them are tested.
    controls = reference_controls(
        pool, n_by_pieces={2: 300, 3: 300}, count_pieces=count, tested_parts=tested, n_least=250,
        seed=1,
    )  # fmt: skip
    n_pieces = [count("first", f) + 1 for f, _ in names(controls)]
    assert n_pieces == [2] * 300 + [3] * 250
    assert shared(controls, tested) == [0] * 300 + [0] * 40 + [1] * 210


def test_controls_of_one_part_are_that_part_alone_and_never_a_tested_one() -> None:
    pieces = {"Ann": 1, "Bo": 2, "Cy": 1, "Lee": 1, "Hill": 2}
    found = {
        role: part_controls(
            SMALL, role=role, n_by_pieces={1: 9, 2: 9}, count_pieces=lambda _, part: pieces[part],
            tested_parts=frozenset({"ann"}), seed=0,
        )
        for role in ("first", "last")
    }  # fmt: skip
    assert names(found["first"]) == [("Cy", ""), ("Bo", "")]
    assert names(found["last"]) == [("", "Lee"), ("", "Hill")]
    assert set(found["first"].control_kind) == {"reference"}
    assert set(found["first"].is_member) == {False}
    one = part_controls(
        SMALL, role="first", n_by_pieces={1: 1}, count_pieces=lambda _, part: pieces[part],
        tested_parts=frozenset(), seed=0,
    )  # fmt: skip
    assert len(one) == 1


def test_controls_of_one_part_have_the_generators_weights() -> None:
    n = 3_000
    drawn = Counter(
        part_controls(
            SMALL, role="first", n_by_pieces={1: 1}, count_pieces=lambda *_: 1,
            tested_parts=frozenset({"cy"}), seed=seed,
        ).first[0]
        for seed in range(n)
    )  # fmt: skip
    assert set(drawn) == {"Ann", "Bo"}
    assert stats.binomtest(drawn["Ann"], n, 0.6 / 0.9).pvalue > 1e-3
