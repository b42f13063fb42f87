"""Canaries in a list of names: read from a file, kept out of what is said of patients."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit.attack.attacks import link_passages
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates, member_parts
from audit.names.controls import with_controls
from audit.names.files import read_names
from tests.attack.test_linking import passages_of, shard_of

HEADER = "first_name,last_name,is_member,control_kind,role,n_mentions\n"
LIST = HEADER + (
    "Jane,Gray,1,,canary,4\nTom,Hill,1,,Canary,1\nAnn,Reed,0,canary,,\nLee,Moss,0,,canary,\n"
    "Jane,Ford,0,,,\nMary,Park,1,,patient,2\nMary,Wood,0,,,\n"
)


def read(text: str) -> Candidates:
    return read_names(text.encode()).candidates


def test_planted_and_held_out_names_are_known_by_role_or_kind() -> None:
    found = read(LIST)
    assert [found.is_canary(row) for row in range(7)] == [True] * 4 + [False] * 3
    assert found.role[:4] == ("canary",) * 4
    assert found.control_kind == ("", "", "canary", "canary", "easy", "", "hard")
    assert found.n_mentions[:2] == (4, 1)
    patients = found.without_canaries()
    assert patients.first == ("Jane", "Mary", "Mary")
    assert member_parts(found) == {"mary", "park"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("A,B,,,canary,1", "does not fit a canary"),
        ("A,B,1,,canary,", "does not fit a canary"),
        ("A,B,1,,canary,0", "does not fit a canary"),
        ("A,B,0,easy,canary,", "does not fit a canary"),
        ("A,B,1,canary,,2", "is no control"),
    ],
)
def test_half_a_canary_is_refused_by_row(row: str, said: str) -> None:
    with pytest.raises(AuditError, match=said) as error:
        read(f"{HEADER}C,D,1,,,\n{row}\n")
    assert "row 3" in str(error.value)


def test_drawn_controls_are_hard_against_patients_and_share_nothing_with_planted_names() -> None:
    members = make_candidates([("Mary", "Smith"), ("John", "Brown")], is_member=True)
    planted = make_candidates([("Linda", "Jones")], is_member=True, n_mentions=[2])
    listed = members + replace(planted, role=("canary",))
    drawn = with_controls(listed, n_easy=40, n_hard=40, seed=1).rows(range(3, 83))
    assert not {"Linda", "Jones"} & {*drawn.first, *drawn.last}
    hard = [row for row in range(80) if drawn.control_kind[row] == "hard"]
    assert len(hard) == 40
    assert all(
        len({drawn.first[r], drawn.last[r]} & {"Mary", "Smith", "John", "Brown"}) == 1 for r in hard
    )
    with pytest.raises(AuditError, match="has none"):
        with_controls(replace(planted, role=("canary",)), n_easy=1, n_hard=0, seed=1)


def test_passages_of_planted_names_are_not_linked() -> None:
    names = make_candidates([("Mary", "Park"), ("Jane", "Gray")], is_member=True)
    shards = (shard_of([[-1.0, -2.0], [-2.0, -1.0]], [1, 1]), shard_of([[-2.0, -2.0]] * 2, [1, 1]))

    def linked(candidates: Candidates) -> int:
        found = link_passages(
            passages_of([0, 1]), candidates=candidates, hospital=shards[0], general=shards[1]
        )
        return 0 if found is None else int(str(found["n_passages"]))

    assert linked(names) == 2
    assert linked(replace(names, role=("", "canary"))) == 1
    assert linked(replace(names, role=("canary", "canary"))) == 0
