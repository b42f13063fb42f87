"""Matched controls: as common and as long as members, of their kind, never in the notes."""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from audit.demo import DemoTask
from audit.demo_build import ENGLISH, JAPANESE, demo_controls, demo_staff, null_names
from audit.experiment.leakage import hospital_notes
from audit.home import DEMO_HOSPITAL
from audit.names.candidates import Candidates, make_candidates, member_parts
from audit.names.controls import (
    CALIPER_NATS,
    MatchedControls,
    draw_names,
    match_quality,
    matched_controls,
    with_controls,
)
from audit.names.files import read_names
from audit.names.pools import NamePool, japanese_pool, us_pool
from audit.run import run_audit
from audit.text import fold_name, script_of
from cache.store import Store

TINY = NamePool(
    "en_US",
    ("Ann", "Bea", "Cy", "Di", "Eve", "Flo"),
    ("Hill", "Lee", "Moss", "Nash", "Odd"),
    (0.32, 0.30, 0.16, 0.12, 0.06, 0.04),
    (0.4, 0.25, 0.2, 0.1, 0.05),
)


def pairs(names: Candidates) -> list[tuple[str, str]]:
    return list(zip(names.first, names.last, strict=True))


def as_members(names: list[tuple[str, str]]) -> Candidates:
    return make_candidates(names, is_member=True)


def log_shares(pool: NamePool, first: str, last: str) -> np.ndarray:
    shares = pool.first_shares[fold_name(first)], pool.last_shares[fold_name(last)]
    return np.log(np.array(shares))


def test_the_assignment_is_the_best_of_all() -> None:
    listed = as_members([("Ann", "Hill"), ("Eve", "Lee"), ("Ann", "Lee")])
    free = [
        (f, la) for f in ("Bea", "Cy", "Di", "Flo") for la in ("Moss", "Nash", "Odd")
    ]  # neither Ann, Eve, Hill nor Lee

    def cost(chosen: tuple[tuple[str, str], ...]) -> tuple[int, float]:
        apart = [
            log_shares(TINY, *one) - log_shares(TINY, *other)
            for one, other in zip(pairs(listed), chosen, strict=True)
        ]
        n_beyond = sum(bool((abs(one) > CALIPER_NATS).any()) for one in apart)
        return n_beyond, round(float(np.square(apart).sum()), 9)

    best = min(map(cost, itertools.permutations(free, 3)))
    found = matched_controls(listed, n=3, seed=4, kind="easy", pool=TINY)
    assert found.rows == (0, 1, 2)
    assert cost(tuple(pairs(found.controls))) == best
    # ln(.32 / .30) = .06 and ln(.25 / .2) = .22 are within .25; ln(.4 / .2) = .69 is not.
    assert pairs(found.controls)[2] == ("Bea", "Moss")
    assert found.is_within == (False, False, True)
    assert found.n_unmatched == 2


def test_hard_controls_keep_one_part_of_their_own_member() -> None:
    listed = as_members([("Ann", "Hill"), ("Flo", "Lee")])
    found = matched_controls(listed, n=2, seed=0, kind="hard", pool=TINY)
    for control, row in zip(pairs(found.controls), found.rows, strict=True):
        own = pairs(listed)[row]
        assert (control[0] == own[0]) + (control[1] == own[1]) == 1
    # For Ann there is Bea (6 % rarer), for Lee Moss (20 % rarer); the other sides are farther.
    assert pairs(found.controls) == [("Bea", "Hill"), ("Flo", "Moss")]
    assert found.is_within == (True, True)


US, JA = us_pool(), japanese_pool()
name_rows = st.lists(st.tuples(st.integers(0, 689), st.integers(0, 999)), min_size=1, max_size=25,
                     unique=True)  # fmt: skip


def count_pieces(_: str, part: str) -> int:
    return 1 + len(part) // 6


def check(
    found: MatchedControls, listed: Candidates, *, kind: str, banned: set[tuple[str, str]]
) -> None:
    parts = member_parts(listed)
    drawn = pairs(found.controls)
    assert len({(fold_name(f), fold_name(la)) for f, la in drawn}) == len(drawn)
    assert not (set(drawn) & (banned | set(pairs(listed))))
    n_shared = {"easy": 0, "hard": 1}[kind]
    columns = zip(drawn, found.rows, found.is_within, strict=True)
    for (first, last), row, is_within in columns:
        assert (fold_name(first) in parts) + (fold_name(last) in parts) == n_shared
        if not is_within:
            continue
        pool = JA if script_of(first + last) == "han_kana" else US
        for role, shares, one, own in (
            ("first", pool.first_shares, first, listed.first[row]),
            ("last", pool.last_shares, last, listed.last[row]),
        ):
            assert script_of(one) == script_of(own)
            if one != own:
                apart = math.log(shares[fold_name(one)] / shares[fold_name(own)])
                assert abs(apart) <= CALIPER_NATS + 1e-9
                assert count_pieces(role, one) == count_pieces(role, own)
    matched = {row for row, ok in zip(found.rows, found.is_within, strict=True) if ok}
    if len(drawn) >= len(listed):
        assert found.n_unmatched == len(listed) - len(matched)


@given(rows=name_rows, n=st.integers(0, 60), seed=st.integers(0, 3), kind=st.sampled_from(
    ["easy", "hard"]), n_japanese=st.integers(0, 8))  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_every_control_fulfils_its_definition(
    rows: list[tuple[int, int]], n: int, seed: int, kind: str, n_japanese: int
) -> None:
    japanese = [(JA.first[3 * i], JA.last[5 * i]) for i in range(n_japanese)]
    unknown = [("Zzyx", "Qwrt"), ("Zzyx", US.last[7]), ("Zzyx", JA.last[1])] if seed else []
    listed = as_members([(US.first[f], US.last[la]) for f, la in rows] + japanese + unknown)
    banned = set(pairs(draw_names(US, n=400, seed=seed)))
    found = matched_controls(
        listed, n=n, seed=seed, kind=kind, exclude=banned, count_pieces=count_pieces
    )
    assert len(found.controls) == n
    check(found, listed, kind=kind, banned=banned)
    again = matched_controls(
        listed, n=n, seed=seed, kind=kind, exclude=banned, count_pieces=count_pieces
    )
    assert again.controls.first == found.controls.first


def test_japanese_names_get_names_of_as_many_characters_in_their_script() -> None:
    listed = as_members(pairs(draw_names(JA, n=15, seed=2)) + pairs(draw_names(US, n=15, seed=2)))
    both = with_controls(listed, n_easy=30, n_hard=30, seed=1)
    quality = match_quality(both)
    for one in quality.kinds:
        assert one.scripts["han_kana"] == one.scripts["latin"] == [0.5, 0.5]
        assert one.pieces_gap <= 0.1
    hard = matched_controls(listed, n=30, seed=1, kind="hard")
    for (first, last), row, is_within in zip(
        pairs(hard.controls), hard.rows, hard.is_within, strict=True
    ):
        if is_within and row < 15:
            assert (len(first), len(last)) == (len(listed.first[row]), len(listed.last[row]))
    assert sum(hard.is_within) >= 24


def test_who_has_no_match_is_counted_and_gets_the_nearest_or_nobody() -> None:
    # Unknown to the generator: as rare as its rarest, and never within the caliper.
    unknown = matched_controls(as_members([("Zzyx", "Qwrt")]), n=3, seed=0, kind="easy")
    assert len(unknown.controls) == 3
    assert unknown.is_within == (False,) * 3
    assert unknown.n_unmatched == 1
    rarest = min(US.last_share)
    assert all(US.last_shares[la.lower()] < 1.5 * rarest for la in unknown.controls.last)
    # Half known: the other half stays as it is.
    half = matched_controls(as_members([("Zzyx", US.last[100])]), n=3, seed=0, kind="hard")
    assert set(half.controls.first) == {"Zzyx"}
    assert half.n_unmatched == 0
    # No generator writes Cyrillic.
    other = as_members([("Анна", "Иванова"), ("Mary", "Allen")])
    drawn = matched_controls(other, n=4, seed=0, kind="easy")
    assert drawn.rows == (1,) * 4
    assert drawn.n_unmatched >= 1
    assert len(matched_controls(other.rows([0]), n=4, seed=0).controls) == 0


def test_names_of_one_part_have_easy_controls_only() -> None:
    listed = as_members([("", "山田太郎"), ("", "佐藤花子")])
    easy = matched_controls(listed, n=4, seed=0, kind="easy")
    assert len(easy.controls) == 4
    assert {script_of(f + la) for f, la in pairs(easy.controls)} == {"han_kana"}
    hard = matched_controls(listed, n=4, seed=0, kind="hard")
    assert (len(hard.controls), hard.n_unmatched) == (0, 2)


def test_names_that_a_model_cannot_spell_never_come() -> None:
    def spelt(_: str, part: str) -> int:
        return 1 if part < "K" else 1_000_000

    drawn = matched_controls(as_members([("Adam", "Hill")]), n=30, seed=0, count_pieces=spelt)
    assert len(drawn.controls) == 30
    assert max(drawn.controls.first + drawn.controls.last) < "K"


@pytest.mark.parametrize("kind", ["easy", "hard"])
def test_ten_thousand_members_stay_within_bounds(kind: str) -> None:
    listed = as_members([(f"First{i}", US.last[i % 900]) for i in range(10_000)])
    start = time.process_time()
    found = matched_controls(listed, n=5_000, seed=0, kind=kind)
    assert time.process_time() - start < 60  # seconds of this process: 1 to 6
    assert len(set(pairs(found.controls))) == 5_000


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_shipped_lists_are_matched_and_in_none_of_the_demos_notes(language: str) -> None:
    names = read_names((DEMO_HOSPITAL / language / "names.csv").read_bytes()).candidates
    quality = match_quality(names)
    assert quality.is_matched
    assert [one.kind for one in quality.kinds] == ["all", "easy", "hard"]
    recipe, pool = (ENGLISH, US) if language == "en" else (JAPANESE, JA)
    controls = [row for row, truth in enumerate(names.is_member) if not truth]
    assert pairs(demo_controls(pool, recipe, seed=0)) == pairs(names.rows(controls))
    notes = " ".join(hospital_notes(language).texts)
    assert not any(names.full_name(row) in notes for row in controls)
    staff = set(demo_staff(pool, recipe, seed=0))
    null = null_names(pool, recipe, seed=0) if recipe.with_null else []
    assert not {(names.first[row], names.last[row]) for row in controls} & set(null)
    assert not {names.first[row] for row in controls} & staff
    assert not {names.last[row] for row in controls} & staff


def aucs(names: Candidates, scores: list[float], drawn: list[Candidates]) -> list[float]:
    of = dict(zip(pairs(names), scores, strict=True))
    members = [of[name] for name in pairs(names.rows(range(130)))]
    found = []
    for controls in drawn:
        truth = [1] * 130 + [0] * len(controls)
        found.append(float(roc_auc_score(truth, members + [of[name] for name in pairs(controls)])))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [1, 2])
def test_the_general_model_alone_cannot_tell_drawn_controls_from_members(
    scenario: int, tmp_path: Path
) -> None:
    request = DemoTask(n_documents=300, n_inputs=300).request(scenario)
    listed = request.candidates.rows(range(130))
    drawn = {
        kind: [matched_controls(listed, n=130, seed=seed, kind=kind).controls for seed in range(20)]
        for kind in ("easy", "hard")
    }
    others = dict.fromkeys(pair for lists in drawn.values() for one in lists for pair in pairs(one))
    names = listed + make_candidates(list(others), is_member=False, control_kind="given")
    with Store(tmp_path) as store:
        report = run_audit(request.with_(candidates=names), store=store)
    column = {1: "general_product", 2: "general_mean_log"}[scenario]
    scores = [float(x) for x in report.names[column]]
    for lists in drawn.values():
        assert 0.47 <= float(np.mean(aucs(names, scores, lists))) <= 0.53
