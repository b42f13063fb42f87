"""How well a list is matched: by hand, and as the report says it."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest

from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import draw_names, match_quality, with_controls
from audit.names.pools import NamePool, us_pool

POOL = NamePool(
    "en_US", ("Ann", "Bea", "Cy"), ("Hill", "Lee", "Moss"), (0.5, 0.3, 0.2), (0.6, 0.3, 0.1)
)


def listed(members: list[tuple[str, str]], **controls: list[tuple[str, str]]) -> Candidates:
    names = make_candidates(members, is_member=True)
    for kind, drawn in controls.items():
        names += make_candidates(drawn, is_member=False, control_kind=kind)
    return names


def test_differences_and_shares_by_hand() -> None:
    names = listed(
        [("Ann", "Hill"), ("Bea", "Lee")],
        easy=[("Cy", "Moss"), ("Bea", "Moss"), ("Zoe", "Moss")],
        hard=[("Ann", "Lee"), ("ann", "Lee")],
    )
    found = match_quality(names, pool=POOL, count_pieces=lambda _, part: len(part) // 4 + 1)
    every, easy, hard = found.kinds
    assert [one.kind for one in found.kinds] == ["all", "easy", "hard"]
    assert (every.n_members, every.n_controls, easy.n_controls) == (2, 5, 3)
    # First parts: ln .5, ln .3 against ln .2, ln .3; Zoe is unknown to the generator.
    ours, theirs = np.log([0.5, 0.3]), np.log([0.2, 0.3])
    pooled = math.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / 2)
    assert easy.first_difference == pytest.approx((ours.mean() - theirs.mean()) / pooled)
    assert (easy.n_unknown_members, easy.n_unknown_controls) == (0, 1)
    # Last parts: all controls are alike, so their variance is 0.
    ours = np.log([0.6, 0.3])
    spread = math.sqrt(ours.var(ddof=1) / 2)
    assert easy.last_difference == pytest.approx((ours.mean() - math.log(0.1)) / spread)
    # Pieces: Ann 1, Hill 2, Moss 2, Lee 1.
    assert easy.pieces == {"1+1": [0.5, 0.0], "1+2": [0.5, 1.0]}
    assert easy.pieces_gap == 0.5
    assert hard.pieces == {"1+1": [0.5, 1.0], "1+2": [0.5, 0.0]}
    assert easy.scripts == {"latin": [1.0, 1.0]}
    assert easy.n_unmatched == 2
    assert hard.n_unmatched == 2  # Ann Hill is in two pieces, for Bea Lee there is no first part
    assert every.n_unmatched == 2


def test_a_part_is_as_common_as_itself_even_where_the_generator_does_not_know_it() -> None:
    names = listed([("Zyx", "Hill"), ("Wvu", "Hill")], hard=[("ZYX", "Hill2")])
    pool = replace(POOL, last=("Hill", "Hill2", "Moss"), last_share=(0.4, 0.36, 0.24))
    (_, hard) = match_quality(names, pool=pool).kinds
    assert hard.n_unmatched == 1


def test_scripts_and_planted_names() -> None:
    names = listed([("太郎", "佐藤"), ("Mary", "Smith")], given=[("花子", "鈴木"), ("愛", "田中")])
    planted = make_candidates([("Q", "R")], is_member=True, n_mentions=[1])
    found = match_quality(names + replace(planted, role=("canary",)))
    given = found.kinds[1]
    assert given.n_members == 2
    assert given.scripts == {"han_kana": [0.5, 1.0], "latin": [0.5, 0.0]}
    assert given.scripts_gap == 0.5
    assert given.pieces == {"1+1": [0.5, 0.0], "1+2": [0.0, 0.5], "2+2": [0.5, 0.5]}
    assert match_quality(names.rows([0, 1])).kinds == ()
    assert match_quality(names.rows([0, 1])).sentences() == ()


def test_ill_matched_lists_are_called_so_and_drawn_ones_are_not() -> None:
    members = replace(draw_names(us_pool(), n=100, seed=1), is_member=(True,) * 100)
    rare = sorted(us_pool().last, key=lambda name: us_pool().last_shares[name.lower()])[:50]
    controls = [(us_pool().first[i], rare[i % 50]) for i in range(100)]
    ill = match_quality(members + make_candidates(controls, is_member=False, control_kind="given"))
    assert not ill.is_matched
    assert ill.kinds[0].last_difference > 1
    drawn = match_quality(with_controls(members, n_easy=100, n_hard=100, seed=0))
    assert drawn.is_matched
    for one in drawn.kinds:
        assert max(abs(one.first_difference), abs(one.last_difference)) < 0.15
    assert len(ill.sentences()) == 2 and len(drawn.sentences()) == 2
    for sentence in ill.sentences() + drawn.sentences():
        assert sentence.written("ja") != sentence


def test_it_is_plain_json() -> None:
    names = listed([("Ann", "Hill")], easy=[("Cy", "Moss")])
    record = match_quality(names, pool=POOL).to_json()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    easy = record["easy"]
    assert isinstance(easy, dict)
    assert easy["first_difference"] is None
    assert easy["pieces"] == {"1+1": [1.0, 1.0]}


def test_ten_thousand_members_are_compared_in_seconds() -> None:
    members = make_candidates([(f"F{i}", f"L{i % 999}") for i in range(10_000)], is_member=True)
    controls = draw_names(us_pool(), n=5_000, seed=1)
    controls = replace(controls, is_member=(False,) * 5_000, control_kind=("given",) * 5_000)
    started = time.process_time()
    assert match_quality(members + controls).kinds[0].n_unmatched == 10_000
    assert time.process_time() - started < 30
