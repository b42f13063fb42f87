"""Pools of names with their shares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import faker
import pytest
from scipy import stats

from audit.names.candidates import make_candidates
from audit.names.pools import (
    NamePool,
    japanese_pool,
    pool_for,
    popularity,
    us_pool,
    with_popularity,
)
from audit.text import fold_name, written_name


def test_the_us_pool_is_the_papers() -> None:
    pool = us_pool()
    assert (len(pool.first), len(pool.last)) == (690, 1000)
    assert math.isclose(sum(pool.first_share), 1) and math.isclose(sum(pool.last_share), 1)
    # Tokens that are first and last names: the number in section 3.4's note.
    assert len(set(pool.first) & set(pool.last)) == 106


def test_the_japanese_pool_writes_no_two_names_alike() -> None:
    pool = japanese_pool()
    written = {fold_name(written_name(f, last)) for f in pool.first for last in pool.last}
    assert len(written) == len(pool.first) * len(pool.last) == 51 * 50


def test_popularity_is_the_product_of_the_shares_by_hand() -> None:
    pool = NamePool("en_US", ("Ann", "Bo"), ("Lee", "Hill"), (0.75, 0.25), (0.5, 0.5))
    assert popularity(pool, first="Bo", last="Hill") == 0.125
    assert popularity(pool, first="ＡＮＮ", last="lee") == 0.375
    assert math.isnan(popularity(pool, first="Bo", last="Bo"))
    assert math.isnan(popularity(pool, first="", last="Lee"))
    listed = with_popularity(make_candidates([("Bo", "Lee"), ("Cy", "Lee")]), pool=pool)
    assert listed.popularity[0] == 0.125
    assert math.isnan(listed.popularity[1])


def test_a_male_name_has_half_its_share_among_men() -> None:
    from faker.providers.person.en_US import Provider

    pool = us_pool()
    assert "Aaron" not in Provider.first_names_female
    share = Provider.first_names_male["Aaron"] / sum(Provider.first_names_male.values()) / 2
    assert math.isclose(pool.first_shares["aaron"], share)


def test_popularities_of_all_full_names_sum_to_one() -> None:
    pool = japanese_pool()
    total = sum(popularity(pool, first=f, last=last) for f in pool.first for last in pool.last)
    assert math.isclose(total, 1)


@pytest.mark.parametrize("locale", ["en_US", "ja_JP"])
def test_shares_are_those_of_fakers_own_draws(locale: str) -> None:
    pool = {"en_US": us_pool, "ja_JP": japanese_pool}[locale]()
    fake = faker.Faker(locale)
    fake.seed_instance(11)
    n = 2_000
    firsts = Counter(fake.first_name_male() for _ in range(n // 2))
    firsts.update(fake.first_name_female() for _ in range(n // 2))
    lasts = Counter(fake.last_name() for _ in range(n))
    for counts, shares in ((firsts, pool.first_shares), (lasts, pool.last_shares)):
        common = [name for name, share in shares.items() if share * n >= 8]
        observed = [counts[name] for name in map(_spelling(counts), common)]
        expected = [shares[name] * n for name in common]
        observed.append(n - sum(observed))
        expected.append(n - sum(expected))
        if expected[-1] < 1e-6:
            observed, expected = observed[:-1], expected[:-1]
        assert stats.chisquare(observed, expected).pvalue > 1e-3


def _spelling(counts: Counter[str]) -> Callable[[str], str]:
    spelled = {fold_name(name): name for name in counts}
    return lambda key: spelled.get(key, key)


def test_the_pool_follows_the_script_of_most_names() -> None:
    western, japanese = make_candidates([("Ann", "Lee")]), make_candidates([("太郎", "山田")])
    assert pool_for(western) is us_pool()
    assert pool_for(japanese + japanese + western) is japanese_pool()
    assert pool_for(japanese + western) is us_pool()
    assert with_popularity(make_candidates([("明美", "佐藤")])).popularity[0] > 0


def test_the_digest_follows_the_shares() -> None:
    pool = NamePool("en_US", ("Ann", "Bo"), ("Lee",), (0.75, 0.25), (1.0,))
    assert pool.digest() == replace(pool).digest()
    assert pool.digest() != replace(pool, first_share=(0.25, 0.75)).digest()


@pytest.mark.parametrize(
    "change",
    [
        {"first": ("Ann", "ANN")},
        {"first_share": (1.0,)},
        {"first_share": (0.5, 0.4)},
        {"first_share": (1.0, 0.0)},
    ],
)
def test_shares_that_do_not_fit_are_refused(change: dict[str, tuple[str, ...]]) -> None:
    pool = NamePool("en_US", ("Ann", "Bo"), ("Lee",), (0.75, 0.25), (1.0,))
    with pytest.raises(ValueError, match="shares"):
        replace(pool, **change)
