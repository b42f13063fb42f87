"""Linking: owners by hand, ranks against scipy, ties, passages without an owner."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from audit.attack.posterior import PosteriorShard
from audit.attack.scenarios import link_passages
from audit.names.candidates import Candidates, make_candidates
from audit.notes.passages import Passage, find_owner_rows

NAMES = make_candidates(
    [("Anna", "Able"), ("Bert", "Bold"), ("Carl", "Cool"), ("花子", "山田"), ("", "Solo")]
)


def passages_of(owners: list[Any]) -> tuple[Passage, ...]:
    return tuple(Passage("", ("full",), "", "", f"id{k}", o) for k, o in enumerate(owners))


def shard_of(mean_log_p: Any, n_drawn: list[int]) -> PosteriorShard:
    """Evidence in which passage p, drawn n times, has these means of ln p [P, N]."""
    mean = np.array(mean_log_p, dtype=float)
    none = np.zeros((1, mean.shape[1]))
    counts = np.array(n_drawn)
    return PosteriorShard(np.array([counts.sum()]), none, none, counts, mean * counts[:, None])


def link(
    owners: list[Any], log_h: Any, log_g: Any, n_drawn: list[int], *, names: Candidates = NAMES
) -> Any:
    shards = {"hospital": shard_of(log_h, n_drawn), "general": shard_of(log_g, n_drawn)}
    linking = link_passages(passages_of(owners), candidates=names, **shards)
    return linking and linking.to_json()


def test_owners_are_found_by_name_or_by_row_whatever_case_and_width() -> None:
    owners = [
        ("anna", "ABLE"),
        ("Ｂｅｒｔ", "Bold"),
        2,
        ("花子", "山田"),
        ("", "solo"),
        None,
        5,
        ("Bold", "Bert"),
        ("Anna", "Bold"),
    ]
    rows = find_owner_rows(passages_of(owners), first=NAMES.first, last=NAMES.last)
    assert rows == [0, 1, 2, 3, 4, None, None, None, None]


def test_passages_without_owner_or_draw_and_owners_without_score_are_left_out() -> None:
    log = np.tile(np.array([-1.0, math.nan, -2.0, -3.0, -4.0]), (5, 1))
    linking = link([0, None, 2, 1, 0], log, log * 0.5, [2, 2, 0, 2, 1])
    assert [passage["passage_id"] for passage in linking["rank_by_passage"]] == ["id0", "id4"]
    assert (linking["n_passages"], linking["n_names"]) == (2, 4)  # names that can be scored
    assert linking["chance"] == {"top_1": 1 / 4, "top_5": 1.0, "median_rank": 2.5}


log_p = st.lists(st.integers(-4, 0).map(float), min_size=5, max_size=5)
passages = st.tuples(st.none() | st.integers(0, 4), log_p, log_p, st.sampled_from([0, 1, 2, 4]))


@settings(deadline=None, max_examples=60)
@given(st.lists(passages, min_size=1, max_size=6))
def test_ranks_equal_scipys(rows: list[Any]) -> None:
    owners, log_h, log_g, n_drawn = (list(column) for column in zip(*rows, strict=True))
    linked = [p for p, owner in enumerate(owners) if owner is not None and n_drawn[p]]
    linking = link(owners, log_h, log_g, n_drawn)
    if not linked:
        assert linking is None
        return
    h, g, of_owner = (np.array(column)[linked] for column in (log_h, log_g, owners))
    fits = {"hospital_against_general": h - g, "hospital_alone": h, "general_alone": g}
    ranks = {
        reference: rankdata(-fit, axis=1)[range(len(linked)), of_owner.astype(int)]
        for reference, fit in fits.items()
    }
    for reference, expected in ranks.items():
        for n_top in (1, 5):
            assert linking[reference][f"top_{n_top}"] == pytest.approx((expected <= n_top).mean())
        assert linking[reference]["median_rank"] == np.median(expected)
    assert linking["chance"] == {"top_1": 1 / 5, "top_5": 1.0, "median_rank": 3.0}
    assert linking["rank_by_passage"] == [
        {"passage_id": f"id{p}", "name_id": owners[p], "rank": rank}
        for p, rank in zip(linked, ranks["hospital_against_general"], strict=True)
    ]


def test_passages_of_planted_names_are_not_linked() -> None:
    names = make_candidates([("Mary", "Park"), ("Jane", "Gray")], is_member=True)
    log = ([[-1.0, -2.0], [-2.0, -1.0]], [[-2.0, -2.0]] * 2)
    for roles, n_linked in ((("", ""), 2), (("", "canary"), 1), (("canary", "canary"), 0)):
        linking = link([0, 1], *log, [1, 1], names=replace(names, role=roles))
        assert (linking["n_passages"] if linking else 0) == n_linked
