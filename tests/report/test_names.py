"""The table of names against plain loops; one name's detail by hand and against its p-value."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.decisions import ComparisonPool, name_p_values
from audit.names.candidates import OF_HOSPITAL, ControlSource, make_candidates
from audit.notes.passages import Passage
from audit.report.name_table import (
    COLUMNS,
    FACETS,
    NUMBERS,
    Tries,
    Wish,
    block_mean,
    find_row,
    format_name,
    is_number,
    kind_scores,
    list_fitting_passages,
    list_tries,
    mask_name,
    place_among_controls,
    select_names,
    select_strongest_names,
)
from audit.report.report import AuditReport, select_compared_scores
from audit.stats import Rate
from audit.text import fold_name
from tests.pages.make_reports import (
    N_PER_KIND,
    make_causal_report,
    make_inspection,
    make_report,
    make_special_names,
)

ROLES = ("", "patient", "staff <b>")
MENTIONS = (None, 0, 1, 2, 4, 9, 10, 25)


@cache
def report(scenario: int = 2) -> AuditReport:
    base_report = make_report(scenario)
    names = dict(base_report.names)
    names["role"] = [ROLES[i % 3] for i in range(base_report.n_names)]
    names["n_mentions"] = [MENTIONS[i % 8] for i in range(base_report.n_names)]
    names["is_undecided"] = [i == 3 for i in range(base_report.n_names)]
    names["hospital_posterior"] = [1e-3, 0.0, None, *base_report.table["hospital"][3:]]
    names["general_posterior"] = [1e-5, 1e-5, 1e-5, 0.0, *base_report.table["general"][4:]]
    return base_report.changed(names=names)


def table() -> pd.DataFrame:
    return report().table


@pytest.mark.parametrize("scenario", [1, 2])
def test_every_column_is_the_reports_or_follows_from_it(scenario: int) -> None:
    audit_report = report(scenario)
    name_table, names = audit_report.table, audit_report.names
    source_columns = {column.kept_as: column.name for column in COLUMNS if column.kept_as}
    assert set(name_table.columns) == {column.name for column in COLUMNS} | (
        set(names) - set(source_columns)
    )
    for key, column in names.items():
        expected_cells = (
            [word.replace(" ", "_") for word in column] if key == "decision" else column
        )
        cells = [
            None if isinstance(x, float) and math.isnan(x) else x
            for x in name_table[source_columns.get(key, key)]
        ]
        assert cells == expected_cells, key
    kinds = ["member"] * N_PER_KIND + ["easy"] * N_PER_KIND + ["hard"] * N_PER_KIND
    evidence = {1: "product", 2: "posterior"}[scenario]
    bins = ["unknown", "0", "1", "2", "3-4", "5-9", "10up", "10up"]
    expected_columns: dict[str, list[Any]] = {
        "number": [f"P-{i + 2:04d}" for i in range(72)],
        "kind": kinds,
        "is_control": [kind != "member" for kind in kinds],
        "stands_out": [word == "flagged" for word in names["decision"]],
        "certainty": ["undecided" if i == 3 else "clear" for i in range(72)],
        "mentions": bins * 9,
        "role": ["none", "r0", "r1"] * 24,
        "hospital": name_table[f"hospital_{evidence}"].tolist(),
        "general": name_table[f"general_{evidence}"].tolist(),
        "low": [s - 1.959963985 * 0.05 for s in names["score"]],
        "high": [s + 1.959963985 * 0.05 for s in names["score"]],
    }
    for column, expected_cells in expected_columns.items():
        approx_cells = (
            pytest.approx(expected_cells, nan_ok=True) if column in NUMBERS else expected_cells
        )
        assert name_table[column].tolist() == approx_cells, column
    assert name_table["mentions"].cat.categories.tolist() == bins[:7]
    assert name_table["kind"].cat.categories.tolist() == ["member", "easy", "hard"]
    assert dict(zip(name_table["role"], name_table["role_name"], strict=True)) == {
        "none": "",
        "r0": "patient",
        "r1": "staff <b>",
    }
    if scenario == 2:
        assert name_table["log10_ratio"][0] == pytest.approx(2)
        assert name_table["log10_ratio"][1:4].isna().all()


def test_canaries_are_kinds_of_their_own_and_in_no_table_of_patients() -> None:
    audit_report = make_report(2, names=make_special_names(4))
    name_table = audit_report.table
    kinds = ["member"] * 24 + ["easy"] * 24 + ["hard"] * 24 + ["planted"] * 4 + ["canary"] * 4
    assert name_table["kind"].tolist() == kinds
    assert name_table["kind"].cat.categories.tolist() == list(dict.fromkeys(kinds))
    assert name_table.loc[name_table["is_control"], "kind"].unique().tolist() == ["easy", "hard"]
    assert name_table["stands_out"][72:].any()
    assert set(select_strongest_names(name_table)["kind"]) == {"member"}
    flags = name_table["stands_out"][24:72]
    assert audit_report.controls_flagged == Rate(int(flags.sum()), 48)


def test_the_strongest_names_are_members_by_q_then_score() -> None:
    audit_report = make_report(2)
    strongest = list(select_strongest_names(audit_report.table).itertuples())
    rows_worth_a_look = [i for i in range(N_PER_KIND) if audit_report.names["q_value"][i] <= 0.2]
    expected_rows = sorted(
        rows_worth_a_look,
        key=lambda i: (audit_report.names["q_value"][i], -audit_report.names["score"][i]),
    )
    assert [name.Index for name in strongest] == expected_rows
    assert audit_report.verdict.worth_a_look == Rate(len(expected_rows), N_PER_KIND)
    n_flagged = audit_report.names["decision"][:N_PER_KIND].count("flagged")
    assert audit_report.verdict.flagged == Rate(n_flagged, N_PER_KIND)
    assert select_strongest_names(make_report(2, leak=0.0).table).empty


def test_scores_by_kind_hold_what_can_be_drawn() -> None:
    audit_report = make_report(2)
    scores = ["-inf", None, *audit_report.names["score"][2:]]
    kinds = kind_scores(audit_report.changed(names={**audit_report.names, "score": scores}).table)
    assert [(kind.kind, len(kind.scores), kind.n_not_scored) for kind in kinds] == [
        ("member", 22, 2),
        ("easy", 24, 0),
        ("hard", 24, 0),
    ]
    assert list(kinds[0].scores) == audit_report.names["score"][2:24]
    assert kinds[0].quartiles == pytest.approx(np.quantile(scores[2:24], [0.25, 0.5, 0.75]))
    nothing = {**audit_report.names, "score": [None] * audit_report.n_names}
    assert np.isnan(kind_scores(audit_report.changed(names=nothing).table)[0].quartiles).all()
    assert [k.kind for k in kind_scores(make_report(2, has_truth=False).table)] == ["unknown"]


def slow_select(name_table: pd.DataFrame, wish: Wish) -> list[int]:
    def fits(row: int) -> bool:
        for facet in FACETS:
            chosen = set(wish.chosen.get(facet, ())) & set(name_table[facet].cat.categories)
            if chosen and name_table[facet][row] not in chosen:
                return False
        text = fold_name(wish.text)
        if is_number(text):
            return int(name_table["file_row"][row]) == int(text.removeprefix("p-"))
        if text and not wish.is_revealed:
            return False
        first, last = name_table["first_name"][row], name_table["last_name"][row]
        return all(word in fold_name(f"{first} {last}") for word in text.split())

    def key(row: int) -> tuple[bool, float, int]:
        value = float(name_table[wish.sort][row])
        is_missing = math.isnan(value)
        return is_missing, 0 if is_missing else (-value if wish.is_descending else value), row

    return sorted((row for row in range(len(name_table)) if fits(row)), key=key)


@pytest.mark.long
@settings(max_examples=60)
@given(
    chosen=st.fixed_dictionaries(
        {
            facet: st.lists(st.sampled_from((*table()[facet].cat.categories, "no such")))
            for facet in FACETS
        }
    ),
    text=st.sampled_from(["", "SOPHIA1", "wright2", "wright3 soph", "P-0012", "p-3", "7", "*"]),
    sort=st.sampled_from(NUMBERS),
    is_descending=st.booleans(),
    is_revealed=st.booleans(),
)
def test_the_choice_is_that_of_a_slow_loop(
    chosen: dict[str, list[str]], text: str, sort: str, is_descending: bool, is_revealed: bool
) -> None:
    wish = Wish({f: tuple(c) for f, c in chosen.items()}, text, sort, is_descending, is_revealed)
    assert select_names(table(), wish=wish).index.tolist() == slow_select(table(), wish)


def test_a_number_is_the_row_of_the_own_file() -> None:
    audit_report = report()
    rows = [4, None, *range(6, audit_report.n_names + 4)]
    name_table = audit_report.changed(names={**audit_report.names, "file_row": rows}).table
    assert name_table["number"].tolist()[:3] == ["P-0004", "L-0001", "P-0006"]
    for text, expected_rows in (("P-0004", [0]), ("p4", [0]), ("4", [0]), ("L-1", [1]), ("1", [1])):
        assert select_names(name_table, wish=Wish(text=text)).index.tolist() == expected_rows


def test_a_column_and_a_row_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="no such column"):
        select_names(table(), wish=Wish(sort="first"))
    assert find_row(table(), "3") == 3
    for text in ("", "-1", "99999", "3.0", "٣", "<b>", "1" * 40):
        assert find_row(table(), text) is None


@pytest.mark.parametrize(
    ("first", "last", "masked", "full"),
    [
        ("Sophia", "Wright", "S*** W***", "Sophia Wright"),
        ("花子", "佐藤", "佐*** 花***", "佐藤花子"),
        ("X", "", "***", "X"),
        ("", "Li", "L***", "Li"),
        ("明", "森", "*** ***", "森明"),
    ],
)
def test_a_name_in_each_form(first: str, last: str, masked: str, full: str) -> None:
    assert mask_name(first, last) == masked
    assert format_name("P-0001", first, last, form="masked") == masked
    assert format_name("P-0001", first, last, form="full").replace(" ", "") == full.replace(" ", "")
    assert format_name("P-0001", first, last, form="pseudonyms") == "P-0001"


def test_other_forms_take_away_what_would_give_a_name_back() -> None:
    audit_report, nothing = report(), [None] * 72
    hidden: dict[Any, dict[str, list[Any]]] = {
        "masked": {
            "first_name": [f"{first[0]}***" for first in audit_report.names["first_name"]],
            "last_name": [f"{last[0]}***" for last in audit_report.names["last_name"]],
            "popularity": nothing,
        },
        "pseudonyms": {
            "first_name": [f"P-{i + 2:04d}" for i in range(72)],
            "last_name": [""] * 72,
            "popularity": nothing,
        },
        "full": {},
    }
    for form, columns in hidden.items():
        form_report = audit_report.with_names_as(form)
        assert form_report.names == {**audit_report.names, **columns}
        assert form_report.made == {**audit_report.made, "names": form}


# --- one name ---

PASSAGES = (
    Passage("Mr. ", ("first", "last"), " ", " is 50.", "a", ("sophia0", "WRIGHT0")),
    Passage("", ("full",), "", "は50歳", "b", 1),
    Passage("by ", ("full",), "", "", "c", None),
)


def test_blocks_and_their_interval_by_hand() -> None:
    # As in tests/attack/test_scores.py: means of blocks of 1, 2 and 5 inputs.
    evidence = np.array([4.0, 1.0, 2.0], dtype=np.float32)
    mean = block_mean(evidence, n_per_block=np.array([1, 2, 5]))
    half = 1.959964 * math.sqrt((4 / 7 + 1 / 3) / 3)
    assert (mean.value, mean.low, mean.high) == pytest.approx((2, 2 - half, 2 + half))


def test_the_share_below_agrees_with_the_p_value() -> None:
    name_table = make_report(2).table
    controls, lengths = make_inspection(make_report(2)).reference_score, np.array([2, 3] * 300)
    p = name_p_values(
        name_table["score"].to_numpy(),
        groups=np.full(len(name_table), 2),
        pool=ComparisonPool(controls, lengths, np.full(len(controls), -1)),
    )
    pool = controls[lengths == 2]
    for row, name in name_table.iterrows():
        placement = place_among_controls(name["score"], threshold=name["threshold"], controls=pool)
        assert placement is not None
        assert (1 + 300 - placement.below.n_hits) / (1 + 300) == pytest.approx(p[row])
        assert (placement.position, placement.threshold) == (name["score"], name["threshold"])
        within = [*pool, name["score"], name["threshold"]]
        expected_counts, edges = np.histogram(pool, bins=40, range=(min(within), max(within)))
        assert placement.counts.tolist() == expected_counts.tolist()
        assert placement.edges == pytest.approx(edges)


@pytest.mark.parametrize("source", ["own", "held_out", "invented", "drawn"])
def test_a_name_is_compared_with_the_controls_of_its_source(source: ControlSource) -> None:
    n = 250
    names = make_candidates([(f"Ada{i}", f"Byron{i}") for i in range(30)], is_member=True)
    names += make_candidates(
        [(f"Ida{i}", f"Bryan{i}") for i in range(n)], is_member=False, control_kind="own"
    )
    names += make_candidates([("Eve", "Bell")], is_member=False, control_kind="easy")
    report = make_report(2, names=names, control_source=source)
    inspection = make_inspection(report)
    rows = [0, 30, 30 + n]
    score_lists = [select_compared_scores(report, inspection, row=row) for row in rows]
    if source in OF_HOSPITAL:
        assert [len(scores) for scores in score_lists] == [n, n - 1, n]
        for row, scores in zip(rows, score_lists, strict=True):
            p = (1 + (scores >= report.names["score"][row]).sum()) / (1 + len(scores))
            assert report.names["p_value"][row] == pytest.approx(p)
    else:
        assert all(scores.tolist() == inspection.reference_score.tolist() for scores in score_lists)


def test_a_score_that_is_missing_or_alone_has_its_place() -> None:
    scores = np.array([0.0, 0.0, 1e-6, 1e-4, np.nan])
    for score, n_below in ((1e-5, 3), (0.0, 0), (math.nan, 0)):
        placement = place_among_controls(score, threshold=1e-3, controls=scores)
        assert placement is not None
        assert placement.position == pytest.approx(score, nan_ok=True)
        assert (int(placement.counts.sum()), placement.threshold) == (4, 1e-3)
        assert (placement.edges[0], placement.edges[-1]) == pytest.approx((0, 1e-3))
        assert placement.below == Rate(n_below, 4)
    alone = place_among_controls(2.0, threshold=math.inf, controls=np.full(3, 2.0))
    assert alone is not None
    assert (alone.edges[0], alone.edges[-1], alone.threshold) == (1.5, 2.5, math.inf)
    for none in (np.zeros(0), np.full(3, np.nan)):
        assert place_among_controls(0.0, threshold=1.0, controls=none) is None


def test_a_revealed_name_is_found_by_its_words_in_any_order() -> None:
    names = {
        **report().names,
        "first_name": ["太郎", "Anna", *["x"] * 70],
        "last_name": ["山田", "de la Cruz", *["y"] * 70],
    }
    name_table = report().changed(names=names).table
    for text, expected_rows in (
        ("山田太郎", [0]),
        ("太郎 山田", [0]),
        ("Cruz, ANNA", [1]),
        ("la ann", [1]),
        ("Anna Berg", []),
        ("DE LA", [1]),
    ):
        matches = select_names(name_table, wish=Wish(text=text, is_revealed=True))
        assert matches.index.tolist() == expected_rows


def test_passages_say_whose_they_are() -> None:
    name_table = make_report(2).table
    owner_flags = {0: [True, False, None], 1: [False, True, None], 2: [False, False, None]}
    for row, is_own in owner_flags.items():
        passages = list_fitting_passages(
            PASSAGES,
            places=[2, 0, -1, 1],
            ratios=[3.0, 2.0, math.nan, 1.0],
            name=name_table.loc[row],
        )
        assert [
            (passage.place, passage.passage, passage.log_ratio, passage.is_own)
            for passage in passages
        ] == [
            (2, PASSAGES[2], 3.0, is_own[2]),
            (0, PASSAGES[0], 2.0, is_own[0]),
            (1, PASSAGES[1], 1.0, is_own[1]),
        ]


def test_tries_stand_beside_those_of_the_general_model_and_of_controls() -> None:
    table = make_causal_report(1).table
    (own, general, controls) = list_tries(table, table.iloc[0])
    assert own == Tries("hospital", {"tries_50": 69.0, "tries_95": 299.0})
    assert (general.source, controls.source) == ("general", "controls")
    never = {"tries_50": math.inf, "tries_95": math.inf}
    assert general.numbers == controls.numbers == never
    by_tries = select_names(table, wish=Wish(sort="tries_95", is_descending=False))
    assert by_tries["tries_95"].iloc[0] == 299.0 and math.isinf(by_tries["tries_95"].iloc[-1])
    masked_table = make_report(1).table
    assert list_tries(masked_table, masked_table.iloc[0]) == ()
