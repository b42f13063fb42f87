"""The table of names: columns as the report has them, facets and sort against a slow loop."""

from __future__ import annotations

import math
import time
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.report.names import (
    COLUMNS,
    FACETS,
    NUMBERS,
    Wish,
    row_of,
    script,
    select,
)
from audit.report.report import AuditReport
from audit.text import fold_name
from tests.pages.make_reports import make_report

quick = settings(deadline=None, max_examples=100)
ROLES = ("", "patient", "staff <b>")


@cache
def report(scenario: int = 2) -> AuditReport:
    made = make_report(scenario)
    names = dict(made.names)
    names["role"] = [ROLES[i % 3] for i in range(made.n_names)]
    names["n_mentions"] = [(None, 0, 1, 2, 4, 9, 10, 25)[i % 8] for i in range(made.n_names)]
    return made.changed(names=names)


@cache
def table() -> pd.DataFrame:
    return report().table


def many(n: int) -> pd.DataFrame:
    """Return a table of n names: the made report's, over and over."""
    made = report()
    names: dict[str, list[Any]] = {c: (v * (n // len(v) + 1))[:n] for c, v in made.names.items()}
    names["name_id"] = list(range(n))
    rng = np.random.default_rng(0)
    names["score"] = rng.normal(size=n).tolist()
    return made.changed(names=names).table


def test_columns_are_those_of_the_report() -> None:
    made, shown = report(), table()
    assert len(shown) == made.n_names
    assert shown["score"].tolist() == made.names["score"]
    assert shown["hospital"].tolist() == made.names["hospital_posterior"]
    assert shown["general"].tolist() == made.names["general_posterior"]
    low = made.names["score"][0] - 1.96 * made.names["standard_error"][0]
    assert shown["low"][0] == pytest.approx(low, abs=1e-4)
    assert {one.name for one in COLUMNS} | {"residual", "difference"} <= set(shown.columns)
    assert shown["kind"].iloc[[0, 24, 48]].tolist() == ["member", "easy", "hard"]
    assert shown["kind"].cat.categories.tolist() == ["member", "easy", "hard"]
    assert dict(zip(shown["role"], shown["role_name"], strict=True)) == {
        "none": "", "r0": "patient", "r1": "staff <b>",
    }  # fmt: skip


def test_scenario_one_shows_masses() -> None:
    made = report(1)
    assert made.table["hospital"].tolist() == made.names["hospital_product"]


def test_the_ratio_is_in_powers_of_ten_and_undefined_at_zero() -> None:
    made = report()
    names = dict(made.names)
    names["hospital_posterior"] = [1e-3, 0.0, None, *names["hospital_posterior"][3:]]
    names["general_posterior"] = [1e-5, 1e-5, 1e-5, 0.0, *names["general_posterior"][4:]]
    ratio = made.changed(names=names).table["log10_ratio"]
    assert ratio[0] == pytest.approx(2)
    assert np.isnan(ratio[1:4]).all()


def test_mentions_fall_into_their_bins() -> None:
    wanted = ["unknown", "0", "1", "2", "3-4", "5-9", "10up", "10up"]
    assert table()["mentions"][:8].tolist() == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("Anna", "latin"), ("Łukasz", "latin"), ("山田", "japanese"), ("Anna山", "japanese"),
     ("Иван", "other"), ("김", "other"), ("123", "other"), ("Aи", "other")],
)  # fmt: skip
def test_scripts(text: str, wanted: str) -> None:
    assert script(text) == wanted


def slow_select(shown: pd.DataFrame, wish: Wish) -> tuple[list[int], dict[str, dict[str, int]]]:
    def fits(row: int, *, but: str = "") -> bool:
        for facet in FACETS:
            chosen = set(wish.chosen.get(facet, ())) & set(shown[facet].cat.categories)
            if facet != but and chosen and shown[facet][row] not in chosen:
                return False
        text = fold_name(wish.text)
        if text.startswith("p-"):
            return int(shown["name_id"][row]) + 2 == int(text[2:])
        if text.isdigit():
            return int(shown["name_id"][row]) + 2 == int(text)
        if text and not wish.is_revealed:
            return False
        first, last = shown["first_name"][row], shown["last_name"][row]
        orders = (f"{first} {last}", f"{last} {first}", f"{last}, {first}")
        return any(text in fold_name(order) for order in orders)

    column = shown[wish.sort]

    def key(row: int) -> tuple[bool, float, int]:
        value = float(column[row])
        return (
            math.isnan(value),
            0 if math.isnan(value) else (-value, value)[not wish.is_descending],
            row,
        )

    rows = sorted((row for row in range(len(shown)) if fits(row)), key=key)
    counts = {
        facet: {
            code: sum(
                bool(shown[facet][row] == code) and fits(row, but=facet)
                for row in range(len(shown))
            )
            for code in shown[facet].cat.categories
        }
        for facet in FACETS
    }
    return rows, counts


@quick
@given(
    chosen=st.fixed_dictionaries(
        {
            facet: st.lists(st.sampled_from((*table()[facet].cat.categories, "no such")))
            for facet in FACETS
        }
    ),
    text=st.sampled_from(["", "SOPHIA1", "wright2", "wright3, soph", "P-0012", "p-3", "7", "*"]),
    sort=st.sampled_from(NUMBERS),
    is_descending=st.booleans(),
    is_revealed=st.booleans(),
)
def test_the_choice_is_that_of_a_slow_loop(
    chosen: dict[str, list[str]], text: str, sort: str, is_descending: bool, is_revealed: bool
) -> None:
    wish = Wish({f: tuple(c) for f, c in chosen.items()}, text, sort, is_descending, is_revealed)
    found, counts = select(table(), wish=wish)
    assert (found.index.tolist(), counts) == slow_select(table(), wish)


@pytest.mark.parametrize(
    "text", ["s", "Soph", "Sophia1", "wright", "S***", "sophia1 wright1", "\ufffc"]
)
def test_no_piece_of_a_masked_name_is_found(text: str) -> None:
    found, counts = select(table(), wish=Wish(text=text))
    assert found.empty
    assert not any(sum(of_facet.values()) for of_facet in counts.values())


def test_a_number_is_the_row_of_the_own_file() -> None:
    made = report()
    rows = [4, None, *range(6, made.n_names + 4)]
    shown = made.changed(names={**made.names, "file_row": rows}).table
    assert shown["number"].tolist()[:3] == ["P-0004", "L-0001", "P-0006"]
    for text, wanted in (("P-0004", [0]), ("p4", [0]), ("4", [0]), ("L-1", [1]), ("1", [1])):
        assert select(shown, wish=Wish(text=text))[0].index.tolist() == wanted
    older = {column: cells for column, cells in made.names.items() if column != "file_row"}
    assert made.changed(names=older).table["number"][3] == "L-0003"


def test_missing_numbers_come_last_in_both_orders() -> None:
    for is_descending in (True, False):
        found, _ = select(table(), wish=Wish(sort="n_mentions", is_descending=is_descending))
        column = found["n_mentions"].to_numpy()
        n_missing = int(np.isnan(column).sum())
        assert n_missing > 0
        assert np.isnan(column[-n_missing:]).all()


def test_a_column_that_is_none_and_a_row_that_is_none_are_refused() -> None:
    with pytest.raises(ValueError, match="no such column"):
        select(table(), wish=Wish(sort="first"))
    assert row_of(table(), "3") == 3
    for text in ("", "-1", "99999", "3.0", "٣", "<b>", "1" * 40):
        assert row_of(table(), text) is None


def test_ten_thousand_names_are_fluid() -> None:
    shown = many(10_000)
    chosen = {"kind": ("member", "hard"), "decision": ("flagged",)}
    wish = Wish(chosen, "sophia", "q", is_descending=False, is_revealed=True)
    took = []
    for _ in range(3):
        start = time.process_time()
        assert len(select(shown, wish=wish)[0]) > 100
        took.append(time.process_time() - start)
    assert min(took) < 0.5


@pytest.mark.parametrize(("leak", "state"), [(4.0, "leak_found"), (0.0, "")])
def test_a_report_of_an_older_version_has_point_decisions_too(leak: float, state: str) -> None:
    made = make_report(2, leak=leak)
    older = {key: column for key, column in made.names.items() if key != "is_undecided"}
    older["decision"] = ["undecided", "flagged", *made.names["decision"][2:]]
    shown = made.changed(names=older).table
    assert shown["certainty"].tolist().count("undecided") == 1
    assert shown["certainty"][0] == "undecided"
    assert "undecided" not in set(shown["decision"])
    small = [q <= 0.05 for q in made.names["q_value"]]
    flagged = (shown["decision"] == "flagged").tolist()
    assert flagged == (small if state else [False] * made.n_names)


def test_a_name_close_to_the_threshold_is_marked_and_keeps_its_decision() -> None:
    made = report()
    marks = [i == 3 for i in range(made.n_names)]
    shown = made.changed(names={**made.names, "is_undecided": marks}).table
    assert select(shown, wish=Wish({"certainty": ("undecided",)}))[0].index.tolist() == [3]
    assert shown["decision"][3] == made.names["decision"][3].replace(" ", "_")
