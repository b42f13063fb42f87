"""Names drawn: exact weights and kinds, matched as well as can be, the same for a seed for ever."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import faker
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from audit.demo import DemoTask
from audit.errors import AuditError
from audit.experiment.leakage import read_hospital_notes
from audit.home import DEMO_HOSPITAL
from audit.names.candidates import Candidates, make_candidates, member_parts
from audit.names.controls import (
    CALIPER_NATS,
    MAX_DRAWN,
    draw_names,
    matched_controls,
    part_controls,
    recombined_controls,
    reference_controls,
    report_matching,
    with_controls,
)
from audit.names.files import read_names
from audit.names.pools import NamePool, japanese_pool, pool_for, popularity, us_pool
from audit.run import run_audit
from audit.text import fold_name, script_of, written_name
from benchmarks.demo_hospital import ENGLISH, JAPANESE, demo_controls, demo_staff, null_names
from cache.store import Store

US, JA = us_pool(), japanese_pool()
Name = tuple[str, str]


def pairs(names: Candidates) -> list[Name]:
    return list(zip(names.first, names.last, strict=True))


def as_members(names: list[Name]) -> Candidates:
    return make_candidates(names, is_member=True)


def pool_of(n_first: int, n_last: int) -> NamePool:
    firsts, lasts = (tuple(f"{x}{k}" for k in range(n)) for x, n in (("F", n_first), ("L", n_last)))
    return NamePool("en_US", firsts, lasts, (1 / n_first,) * n_first, (1 / n_last,) * n_last)


def one_piece(*_: str) -> int:
    return 1


# Pools


def test_the_pools_are_the_papers_and_fakers() -> None:
    assert (len(US.first), len(US.last), US.locale) == (690, 1000, "en_US")
    # Tokens that are first and last names: the number in section 3.4's note.
    assert len(set(US.first) & set(US.last)) == 106
    full_names = {fold_name(written_name(f, last)) for f in JA.first for last in JA.last}
    assert len(full_names) == len(JA.first) * len(JA.last) == 51 * 50
    total = sum(popularity(JA, first=f, last=last) for f in JA.first for last in JA.last)
    assert math.isclose(total, 1)


@pytest.mark.parametrize("pool", [US, JA])
def test_shares_are_those_of_fakers_own_draws(pool: NamePool) -> None:
    fake = faker.Faker(pool.locale)
    fake.seed_instance(11)
    n = 2_000
    firsts = [make() for make in (fake.first_name_male, fake.first_name_female) * (n // 2)]
    lasts = [fake.last_name() for _ in range(n)]
    for names, shares in ((firsts, pool.first_shares), (lasts, pool.last_shares)):
        # Rare names count together.
        bins = {name: name if share * n >= 8 else "rare" for name, share in shares.items()}
        observed, expected = Counter(bins[fold_name(name)] for name in names), Counter[str]()
        for name, share in shares.items():
            expected[bins[name]] += share * n  # type: ignore[assignment]
        counts = [observed[name] for name in expected]
        assert stats.chisquare(counts, [*expected.values()]).pvalue > 1e-3


def test_popularity_is_the_product_of_the_shares_of_the_pool_that_fits() -> None:
    pool = NamePool("en_US", ("Ann", "Bo"), ("Lee", "Hill"), (0.75, 0.25), (0.5, 0.5))
    assert popularity(pool, first="Bo", last="Hill") == 0.125
    assert popularity(pool, first="ＡＮＮ", last="lee") == 0.375
    assert math.isnan(popularity(pool, first="Bo", last="Bo"))
    western, japanese = make_candidates([("Ann", "Lee")]), make_candidates([("明美", "佐藤")])
    assert [pool_for(control) for control in (western, japanese + western)] == [US, US]
    assert pool_for(japanese + japanese + western) is JA
    assert pool.digest() == replace(pool).digest()
    assert pool.digest() != replace(pool, first_share=(0.25, 0.75)).digest()


# Draws

SMALL = NamePool("en_US", ("Ann", "Bo", "Cy"), ("Lee", "Hill"), (0.6, 0.3, 0.1), (0.75, 0.25))
EXACT = {
    (f, last): popularity(SMALL, first=f, last=last)
    for f, last in itertools.product(SMALL.first, SMALL.last)
}
PIECES = {"Ann": 1, "Bo": 2, "Cy": 3, "Lee": 1, "Hill": 2}


def small_pieces(_: str, part: str) -> int:
    return PIECES[part]


def test_draws_have_the_generators_weights() -> None:
    n = 3_000
    draws = Counter(tuple(pairs(draw_names(SMALL, n=2, seed=seed))) for seed in range(n))
    ordered_pairs = list(itertools.permutations(EXACT, 2))
    # P(a, then b) = p(a) p(b) / (1 - p(a)): drawing again and again, repeats thrown away.
    exact = [n * EXACT[a] * EXACT[b] / (1 - EXACT[a]) for a, b in ordered_pairs]
    assert math.isclose(sum(exact), n)
    assert stats.chisquare([draws[pair] for pair in ordered_pairs], exact).pvalue > 1e-3
    settings = {"count_pieces": small_pieces, "n_by_pieces": {3: 1}}
    draws = Counter(pairs(reference_controls(SMALL, seed=s, **settings))[0] for s in range(n))
    # Three pieces: Ann Hill .6 * .25 = .15, Bo Lee .3 * .75 = .225.
    assert set(draws) == {("Ann", "Hill"), ("Bo", "Lee")}
    assert stats.binomtest(draws["Bo", "Lee"], n, 0.225 / 0.375).pvalue > 1e-3
    settings = {"role": "first", "count_pieces": one_piece, "exclude": frozenset({"cy"})}
    alone = Counter(
        part_controls(SMALL, n_by_pieces={1: 1}, seed=s, **settings).first for s in range(n)
    )
    assert set(alone) == {("Ann",), ("Bo",)}
    assert stats.binomtest(alone["Ann",], n, 0.6 / 0.9).pvalue > 1e-3


DIGESTS = {
    "names": "f30561b8d529",
    "names of another purpose": "a64be3c9eb7d",
    "recombined": "8f5fed68bfc8",
    "reference": "bd18bc42e739",
    "part": "f9b9f927b049",
    "matched easy": "b2e307ef2ab6",
    "matched hard": "04642c9f826a",
}


def test_draws_are_the_same_in_every_version() -> None:
    # A change here changes every audit's controls.
    listed = as_members(pairs(draw_names(US, n=60, seed=1)) + pairs(draw_names(JA, n=9, seed=1)))
    shares: dict[str, object] = {
        "names": pairs(draw_names(US, n=40, seed=3)),
        "names of another purpose": pairs(draw_names(JA, n=9, seed=3, purpose="x")),
        "recombined": pairs(recombined_controls(listed, n=50, seed=2)),
        "reference": pairs(
            reference_controls(US, n_by_pieces={4: 30, 3: 9}, count_pieces=count_pieces, seed=2)
        ),
        "part": pairs(
            part_controls(JA, role="last", n_by_pieces={1: 20}, count_pieces=one_piece, seed=2)
        ),
    }
    for kind in ("easy", "hard"):
        controls = matched_controls(listed, n=150, seed=5, kind=kind, count_pieces=count_pieces)
        shares[f"matched {kind}"] = [pairs(controls), controls.control_kind]
    digests = {
        role: hashlib.sha256(json.dumps(controls).encode()).hexdigest()[:12]
        for role, controls in shares.items()
    }
    assert digests == DIGESTS


def test_a_pool_gives_what_is_accepted_once_and_no_more_than_it_has() -> None:
    names = draw_names(US, n=50, seed=5, accepts=lambda first, last: len(first) == len(last))
    assert all(len(f) == len(last) for f, last in pairs(names)) and set(names.is_member) == {None}
    assert [len(set(pairs(draw_names(SMALL, n=n, seed=0)))) for n in (0, 4, 100)] == [0, 4, 6]
    assert len(reference_controls(SMALL, n_by_pieces={7: 5}, count_pieces=one_piece, seed=0)) == 0


def test_recombined_controls_are_all_pairs_that_are_no_member() -> None:
    listed = as_members([("Ann", "Lee"), ("Bo", "Hill"), ("ann", "Dee"), ("", "Solo")])
    strangers = make_candidates([("Zoe", "Zane")], is_member=False, control_kind="given")
    controls = recombined_controls(
        listed + strangers, n=99, seed=0, accepts=lambda first, last: (first, last) != ("Bo", "Dee")
    )
    lower_names = {(f.lower(), last.lower()) for f, last in pairs(controls)}
    assert lower_names == {("ann", "hill"), ("bo", "lee")} and len(controls) == 2
    assert set(controls.control_kind) == {"recombined"}
    long = as_members([(f"F{i}", f"L{i}") for i in range(20_000)])
    names = pairs(recombined_controls(long, n=500, seed=0))
    assert len(set(names)) == 500 and all(f[1:] != last[1:] for f, last in names)


# Reference controls


def test_reference_controls_are_drawn_at_random_and_no_listed_name_is_among_them() -> None:
    pool = pool_of(12, 26)
    controls = reference_controls(
        pool, n_by_pieces={2: 9_000}, count_pieces=one_piece, exclude=[("F0", "L0")], seed=4
    )
    assert {*pairs(controls), ("F0", "L0")} == set(itertools.product(pool.first, pool.last))
    assert set(controls.control_kind) == {"reference"} and set(controls.is_member) == {False}
    # A listed name's parts come back with other parts.
    assert {f for f, last in pairs(controls) if last == "L0"} == {*pool.first} - {"F0"}


def test_each_number_of_pieces_is_drawn_by_itself() -> None:
    calls: list[str] = []

    def count(role: str, part: str) -> int:
        calls.append(role)
        return 1 if role == "last" or int(part[1:]) % 2 else 2

    controls = reference_controls(
        pool_of(40, 40), n_by_pieces={2: 300, 3: 250}, count_pieces=count, seed=1
    )
    assert Counter(calls) == {"first": 40, "last": 40}
    assert [count("first", f) + 1 for f in controls.first] == [2] * 300 + [3] * 250


def test_controls_of_one_part_are_that_part_alone_and_never_a_listed_one() -> None:
    settings = {"count_pieces": small_pieces, "exclude": frozenset({"ann"}), "seed": 0}
    first, last = (
        part_controls(SMALL, role=role, n_by_pieces={1: 9, 2: 9, 3: 1}, **settings)  # type: ignore[arg-type]
        for role in ("first", "last")
    )
    assert pairs(first) == [("Bo", ""), ("Cy", "")] and pairs(last) == [("", "Lee"), ("", "Hill")]
    assert {*first.control_kind, *last.is_member} == {"reference", False}


# Matched controls

TINY = NamePool(
    "en_US",
    ("Ann", "Bea", "Cy", "Di", "Eve", "Flo"),
    ("Hill", "Lee", "Moss", "Nash", "Odd"),
    (0.32, 0.30, 0.16, 0.12, 0.06, 0.04),
    (0.4, 0.25, 0.2, 0.1, 0.05),
)


def log_shares(pool: NamePool, first: str, last: str) -> np.ndarray:
    shares = pool.first_shares[fold_name(first)], pool.last_shares[fold_name(last)]
    return np.log(np.array(shares))


def test_the_assignment_is_the_best_of_all() -> None:
    listed = as_members([("Ann", "Hill"), ("Eve", "Lee"), ("Ann", "Lee")])
    free = list(itertools.product(("Bea", "Cy", "Di", "Flo"), ("Moss", "Nash", "Odd")))

    def cost(chosen: tuple[Name, ...]) -> tuple[int, float]:
        apart = [
            log_shares(TINY, *member) - log_shares(TINY, *control)
            for member, control in zip(pairs(listed), chosen, strict=True)
        ]
        n_beyond = sum(bool((abs(member) > CALIPER_NATS).any()) for member in apart)
        return n_beyond, round(float(np.square(apart).sum()), 9)

    controls = matched_controls(listed, n=3, seed=4, kind="easy", pool=TINY)
    assert cost(tuple(pairs(controls))) == min(map(cost, itertools.permutations(free, 3)))
    # ln(.32 / .30) = .06 and ln(.25 / .2) = .22 are within .25; ln(.4 / .2) = .69 is not.
    assert pairs(controls)[2] == ("Bea", "Moss")
    hard = matched_controls(
        as_members([("Ann", "Hill"), ("Flo", "Lee")]), n=2, seed=0, kind="hard", pool=TINY
    )
    # For Ann there is Bea (6 % rarer), for Lee Moss (20 % rarer); the other sides are farther.
    assert pairs(hard) == [("Bea", "Hill"), ("Flo", "Moss")]


def count_pieces(_: str, part: str) -> int:
    return 1 + len(part) // 6


name_rows = st.lists(
    st.tuples(st.integers(0, 689), st.integers(0, 999)), min_size=1, max_size=25, unique=True
)


@pytest.mark.long
@given(
    rows=name_rows,
    n=st.integers(0, 60),
    seed=st.integers(0, 3),
    kind=st.sampled_from(["easy", "hard"]),
    n_japanese=st.integers(0, 8),
)
@settings(max_examples=20)
def test_every_control_fulfils_its_definition(
    rows: list[tuple[int, int]], n: int, seed: int, kind: str, n_japanese: int
) -> None:
    japanese = [(JA.first[3 * i], JA.last[5 * i]) for i in range(n_japanese)]
    unknown = [("Zzyx", "Qwrt"), ("Zzyx", US.last[7]), ("Zzyx", JA.last[1])] if seed else []
    listed = as_members([(US.first[f], US.last[la]) for f, la in rows] + japanese + unknown)
    banned = set(pairs(draw_names(US, n=400, seed=seed)))
    controls = matched_controls(
        listed,
        n=n,
        seed=seed,
        kind=kind,
        count_pieces=count_pieces,
        accepts=lambda *name: name not in banned,
    )
    parts, control_pairs = member_parts(listed), pairs(controls)
    assert (
        len({(fold_name(f), fold_name(la)) for f, la in control_pairs}) == len(control_pairs) == n
    )
    assert not set(control_pairs) & (banned | set(pairs(listed)))
    assert set(controls.control_kind) <= {kind}
    for name in control_pairs:
        assert sum(fold_name(part) in parts for part in name) == (kind == "hard")
    scripts = Counter(script_of("".join(name)) for name in pairs(listed))
    n_rounds, rest = divmod(n, len(listed))
    for script, k in Counter(script_of("".join(name)) for name in control_pairs).items():
        assert n_rounds * scripts[script] <= k <= n_rounds * scripts[script] + rest


def test_who_has_no_match_gets_the_nearest_or_nobody() -> None:
    # Unknown to the generator: as rare as its rarest, and never within the caliper.
    zzyx = as_members([("Zzyx", "Qwrt")])
    unknown = matched_controls(zzyx, n=3, seed=0, kind="easy")
    rarest = min(US.last_share)
    assert all(US.last_shares[la.lower()] < 1.5 * rarest for la in unknown.last)
    # Half known: the other half stays as it is.
    half = as_members([("Zzyx", US.last[100])])
    controls = matched_controls(half, n=3, seed=0, kind="hard")
    assert controls.first == ("Zzyx",) * 3
    # No generator writes Cyrillic.
    other_members = as_members([("Анна", "Иванова"), ("Mary", "Allen")])
    controls = matched_controls(other_members, n=4, seed=0, kind="easy")
    assert [script_of(f + la) for f, la in pairs(controls)] == ["latin"] * 4
    assert len(matched_controls(other_members.rows([0]), n=4, seed=0, kind="easy")) == 0
    whole_names = as_members([("", "山田太郎"), ("", "佐藤花子")])
    easy, hard = (
        matched_controls(whole_names, n=4, seed=0, kind=kind) for kind in ("easy", "hard")
    )
    assert [script_of(f + la) for f, la in pairs(easy)] == ["han_kana"] * 4 and len(hard) == 0
    pool = NamePool("en_US", ("Thomas", "Ann"), ("Lee", "Hill"), (0.5, 0.5), (0.5, 0.5))
    crossed = matched_controls(as_members([("", "THOMAS")]), n=9, seed=0, kind="easy", pool=pool)
    assert set(crossed.first) == {"Ann"}
    # Names that a model cannot spell never come.
    controls = matched_controls(
        as_members([("Adam", "Hill")]),
        n=30,
        seed=0,
        kind="easy",
        count_pieces=lambda _, part: 1 if part < "K" else 1_000_000,
    )
    assert len(controls) == 30 and max(controls.first + controls.last) < "K"


def test_a_list_with_controls_names_nobody_twice_and_no_planted_part() -> None:
    planted = replace(as_members([("Mary", "Quux")]), role=("canary",), n_mentions=(2,))
    listed = as_members([("Mary", "Smith"), ("John", "Jones"), ("Ann", "Lee")]) + planted
    full_list = with_controls(listed, n_by_kind={"easy": 20, "hard": 10, "recombined": 4}, seed=3)
    assert Counter(full_list.control_kind) == {"": 4, "easy": 20, "hard": 10, "recombined": 4}
    assert (
        len({full_list.full_name(i).casefold() for i in range(len(full_list))})
        == len(full_list)
        == 38
    )
    assert "Mary" not in full_list.first[4:34]
    for nobody in (make_candidates([("A", "B")]), planted):
        with pytest.raises(AuditError, match="drawn against members, and the list has none"):
            with_controls(nobody, n_by_kind={"easy": 1}, seed=0)
    for n in (-1, MAX_DRAWN + 1):
        with pytest.raises(AuditError, match="hard controls: must be from 0 to 5,000"):
            with_controls(listed, n_by_kind={"hard": n}, seed=0)


# How well a list is matched


def listed(members: list[Name], **controls: list[Name]) -> Candidates:
    names = as_members(members)
    for kind, controls_of_kind in controls.items():
        names += make_candidates(controls_of_kind, is_member=False, control_kind=kind)
    return names


def figures(names: Candidates, **asked: Any) -> dict[str, list[object]]:
    """By kind: differences of first and last parts, gaps of pieces and scripts, is matched."""
    figure_rows: dict[str, list[object]] = {}
    for note in report_matching(names, **asked):
        kind, *values = note.values.values()
        if values:
            figure_rows[str(kind)] = [*values, True]
        else:
            figure_rows[str(kind)][-1] = False
    return figure_rows


def test_the_quality_of_a_match_by_hand() -> None:
    names = listed(
        [("Mary", "Smith"), ("Linda", "Lee")],
        easy=[("Amy", "Moss"), ("Linda", "Moss"), ("Zzyx", "Moss")],
        hard=[("Mary", "Lee"), ("mary", "Lee")],
    )
    planted = replace(make_candidates([("Q", "R")], is_member=True), role=("canary",))
    first, last = US.first_shares, US.last_shares
    measures = figures(names + planted, count_pieces=lambda _, part: len(part) // 4 + 1)
    assert list(measures) == ["easy", "hard"]
    # First parts: Zzyx is unknown to the generator.
    ours, theirs = np.log([first["mary"], first["linda"]]), np.log([first["amy"], first["linda"]])
    pooled = math.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / 2)
    # Last parts: all controls are alike, so their variance is 0.
    lasts = np.log([last["smith"], last["lee"]])
    spread = math.sqrt(lasts.var(ddof=1) / 2)
    # Pieces of members: 2+2 and 2+1; of easy controls: 1+2, 2+2, 2+2; of hard ones 2+1.
    assert measures["easy"] == [
        f"{(ours.mean() - theirs.mean()) / pooled:+.2f}",
        f"{(lasts.mean() - math.log(last['moss'])) / spread:+.2f}",
        pytest.approx(50),
        0.0,
        False,
    ]
    assert measures["hard"][2] == 50
    assert figures(listed([("Mary", "Smith")], easy=[("Amy", "Moss")]))["easy"][:2] == ["?", "?"]
    mixed = listed([("太郎", "佐藤"), ("Mary", "Smith")], given=[("花子", "鈴木"), ("愛", "田中")])
    assert figures(mixed)["given"][2:4] == [50, 50]
    assert report_matching(mixed.rows([0, 1])) == report_matching(mixed.rows([2, 3])) == []


def test_ill_matched_lists_are_called_so_and_drawn_ones_are_not() -> None:
    members = as_members(pairs(draw_names(US, n=100, seed=1)))
    rare = sorted(US.last, key=lambda name: US.last_shares[name.lower()])[:50]
    ill = report_matching(
        listed(pairs(members), given=[(US.first[i], rare[i % 50]) for i in range(100)])
    )
    assert ill == [
        "Members against given controls: their names are commoner by +1.18 (first part) and +1.93 "
        "(last part) standard deviations; 0 % have other numbers of word pieces, 0 % another "
        "script.",
        "The given controls are not matched with the members, so that a model can tell them apart "
        "without any leak; draw controls for this list, or read the figures that are adjusted for "
        "popularity and length.",
    ]
    both_scripts = as_members(
        pairs(draw_names(JA, n=15, seed=2)) + pairs(draw_names(US, n=15, seed=2))
    )
    for people, n in ((members, 100), (both_scripts, 30)):
        measures = figures(with_controls(people, n_by_kind={"easy": n, "hard": n}, seed=0))
        for first, last, pieces, scripts, is_matched in measures.values():
            assert (scripts, is_matched) == (0, True) and float(str(pieces)) <= 10
            assert max(abs(float(str(first))), abs(float(str(last)))) < (0.15 if n == 100 else 1)


@pytest.mark.long
@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_shipped_lists_are_matched_and_in_none_of_the_demos_notes(language: str) -> None:
    names = read_names((DEMO_HOSPITAL / language / "names.csv").read_bytes()).candidates
    assert {kind: kind_measures[-1] for kind, kind_measures in figures(names).items()} == {
        "easy": True,
        "hard": True,
    }
    recipe, pool = (ENGLISH, US) if language == "en" else (JAPANESE, JA)
    controls = names.rows([row for row, truth in enumerate(names.is_member) if not truth])
    assert pairs(demo_controls(pool, recipe, seed=0)) == pairs(controls)
    notes = " ".join(read_hospital_notes(language).texts)
    assert not any(controls.full_name(row) in notes for row in range(len(controls)))
    null = null_names(pool, recipe, seed=0) if recipe.with_null else []
    assert not set(pairs(controls)) & set(null)
    assert not {*controls.first, *controls.last} & set(demo_staff(pool, recipe, seed=0))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [1, 2])
def test_the_general_model_alone_cannot_tell_drawn_controls_from_members(
    scenario: int, tmp_path: Path
) -> None:
    request = DemoTask(n_documents=300, n_inputs=300).request(scenario)
    members = request.candidates.rows(range(130))
    drawn = {
        kind: [matched_controls(members, n=130, seed=s, kind=kind) for s in range(20)]
        for kind in ("easy", "hard")
    }
    strangers = dict.fromkeys(
        pair for lists in drawn.values() for names_of_list in lists for pair in pairs(names_of_list)
    )
    names = members + make_candidates(list(strangers), is_member=False, control_kind="given")
    with Store(tmp_path) as store:
        report = run_audit(request.with_(candidates=names), store=store)
    column = {1: "general_product", 2: "general_mean_log"}[scenario]
    score_of = dict(zip(pairs(names), map(float, report.names[column]), strict=True))
    ours = [score_of[name] for name in pairs(members)]
    for lists in drawn.values():
        theirs = [[score_of[name] for name in pairs(names_of_list)] for names_of_list in lists]
        aucs = [
            roc_auc_score([1] * 130 + [0] * len(names_of_list), ours + names_of_list)
            for names_of_list in theirs
        ]
        assert 0.47 <= float(np.mean(aucs)) <= 0.53
