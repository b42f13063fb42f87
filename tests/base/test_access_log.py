"""The access log: what may be written, and that nothing can be changed in it unseen."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import access_log
from audit.cli import log, told
from audit.errors import AuditError
from audit.home import HOME_VARIABLE, data_home
from tests.repository import REPOSITORY

DIGEST = "ab" * 32


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    return data_home() / "access"


def state(folder: Path) -> dict[str, bytes]:
    """Return what stands in the log's files, to be put back."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).write_bytes(data)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Give the folder of a log, and its files after 0, 1, ... 7 lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(tmp_path_factory.mktemp("logs")))
        access_log.entries()  # makes the key and the head
        folder = data_home() / "access"
        states = [state(folder) | {"log.jsonl": b""}]
        for n in range(7):
            access_log.record("exported", who="anna", audit=DIGEST, n_names=n)
            states.append(state(folder))
        yield folder, states


def verified(logs: Any, *, head: int, log: bytes) -> access_log.Verification:
    """Verify a log beside the head of so many lines."""
    folder, states = logs
    put(folder, states[head] | {"log.jsonl": log})
    return access_log.verify()


def test_a_whole_chain_fits(logs):
    for n, files in enumerate(logs[1]):
        assert verified(logs, head=n, log=files["log.jsonl"]) == access_log.Verification(
            n, True, None, ""
        )


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 6), st.data())
def test_any_changed_byte_is_found(logs, n_lines, data):
    log = logs[1][n_lines]["log.jsonl"]
    place = data.draw(st.integers(0, len(log) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != log[place]))
    found = verified(logs, head=n_lines, log=log[:place] + bytes([byte]) + log[place + 1 :])
    assert not found.is_intact
    line = log[:place].count(b"\n") + 1
    assert found.first_bad_line in (line, None)
    assert found.first_bad_line == line or line == n_lines


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 7), st.data())
def test_any_removed_swapped_doubled_or_cut_line_is_found(logs, n_lines, data):
    log = logs[1][n_lines]["log.jsonl"]
    lines = log.splitlines(keepends=True)
    one = data.draw(st.integers(0, n_lines - 1))
    other = data.draw(st.integers(0, n_lines - 1).filter(lambda k: k != one))
    swapped = list(lines)
    swapped[one], swapped[other] = lines[other], lines[one]
    cut = data.draw(st.integers(0, len(log) - 1))
    for changed in (
        b"".join(lines[:one] + lines[one + 1 :]),
        b"".join(swapped),
        b"".join(lines[: one + 1] + lines[one:]),
        log[:cut],
    ):
        assert not verified(logs, head=n_lines, log=changed).is_intact


def test_a_line_of_another_key_and_a_forged_head_are_found(logs):
    folder, states = logs
    log = states[3]["log.jsonl"]
    assert verified(logs, head=3, log=states[2]["log.jsonl"]).reason == "missing"
    # An older head is what a crash between line and head leaves: every line is there and sealed.
    assert verified(logs, head=2, log=log).is_intact
    head = json.loads(states[3]["head.json"]) | {"last": "0" * 64}
    put(folder, states[3] | {"head.json": json.dumps(head).encode()})
    assert access_log.verify().reason == "head"
    put(folder, states[3] | {"key": b"x" * 32})
    assert access_log.verify().first_bad_line == 1


def test_what_is_recorded_can_be_read_and_only_its_owner_can_read_it(folder):
    access_log.record("opened", who="anna", audit=DIGEST, page="names")
    access_log.record("exported", who="bert\n\x00", audit=DIGEST, n_names=390, names="masked")
    access_log.record("ran", who="", scenario=2)
    newest, *_ = found = access_log.entries()
    assert [entry.action for entry in found] == ["ran", "exported", "opened"]
    assert newest.who == access_log.account()
    assert found[1].counts == {"n_names": 390, "names": "masked"}
    assert found[1].who == "bert"
    assert found[1].audit == DIGEST[:12]
    assert [entry.number for entry in access_log.entries(1, audit=DIGEST)] == [2]
    assert access_log.verify() == access_log.Verification(3, True, None, "")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"names": "Sophia Wright"}, "number"), ({"first_name": "sophia"}, "number"),
        ({"n_names": "sophia"}, "number"), ({"page": "x" * 65}, "number"),
        ({"reason": ""}, "number"), ({"n_names": 2.5}, "number"), ({"text": 1}, "number"),
        ({"n_names": 2**63}, "number"), ({"action": "looked"}, "action"),
        ({"audit": "Sophia Wright"}, "digest"), ({"audit": "ab" * 5}, "digest"),
    ],
)  # fmt: skip
def test_nothing_but_numbers_codes_and_digests_is_recorded(folder, what, said):
    with pytest.raises(ValueError, match=said):
        access_log.record(**{"action": "exported"} | what)
    assert not access_log.entries()


def test_damage_stays_in_sight_when_the_log_goes_on(folder):
    for n in range(4):
        access_log.record("exported", who="anna", n_names=n)
    log = folder / "log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert access_log.verify().reason == "missing"
    access_log.record("exported", who="anna", n_names=9)
    assert access_log.verify().first_bad_line == 4
    assert not access_log.verify().is_intact

    (folder / "head.json").unlink()
    access_log.record("exported", who="anna", n_names=10)
    assert not access_log.verify().is_intact
    assert [e.counts["n_names"] for e in access_log.entries(2)] == [10, 9]


@pytest.mark.parametrize("name", ["log.jsonl", "head.json", "key"])
def test_a_file_that_is_taken_away_is_noticed_even_after_the_log_goes_on(folder, name):
    for n in range(3):
        access_log.record("exported", n_names=n)
    (folder / name).unlink()
    assert not access_log.verify().is_intact
    access_log.record("exported", n_names=3)
    assert not access_log.verify().is_intact


def test_what_a_write_that_never_returned_left_is_mended_by_the_next(folder):
    access_log.record("ran", n_names=1)
    log, old = folder / "log.jsonl", (folder / "head.json").read_bytes()
    log.write_bytes(log.read_bytes() + b'{"action":"exp')
    assert access_log.verify().reason == "unfinished"
    access_log.record("ran", n_names=2)
    assert access_log.verify() == access_log.Verification(2, True, None, "")
    (folder / "head.json").write_bytes(old)  # a line whose head was never written is kept
    assert access_log.verify().is_intact
    access_log.record("ran", n_names=3)
    assert access_log.verify() == access_log.Verification(3, True, None, "")


WRITE_MANY = """
import sys
from audit import access_log
for number in range(15):
    access_log.record("exported", who=sys.argv[1], n_names=number)
"""


def test_two_processes_write_at_once_and_no_line_is_lost(folder):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE_MANY, who],
            env=os.environ | {HOME_VARIABLE: str(folder.parent), "PYTHONPATH": str(REPOSITORY)},
        )
        for who in ("a", "b")
    ]
    for writer in writers:
        assert writer.wait(timeout=120) == 0
    assert access_log.verify() == access_log.Verification(30, True, None, "")
    by_who = {who: [e for e in access_log.entries() if e.who == who] for who in ("a", "b")}
    for found in by_who.values():
        assert [e.counts["n_names"] for e in reversed(found)] == list(range(15))


def test_a_log_put_back_to_an_older_state_is_seen_with_a_seal_only(folder):
    for n in range(5):
        access_log.record("exported", n_names=n)
    old = state(folder)
    seal = access_log.log_seal()
    access_log.record("revealed", n_names=5)
    later = access_log.log_seal()
    assert access_log.verify(seal).is_intact
    # Two files without the key: an older head, and the log cut to match.
    for name in ("head.json", "log.jsonl"):
        (folder / name).write_bytes(old[name])
    assert access_log.verify() == access_log.Verification(5, True, None, "")
    assert access_log.verify(seal).is_intact
    assert access_log.verify(later) == access_log.Verification(5, False, None, "seal")
    # Written on, it is as long as it was, and still not the log that was sealed.
    access_log.record("opened")
    assert access_log.verify().is_intact
    assert access_log.verify(later).reason == "seal"


def test_a_log_written_anew_with_its_key_does_not_fit_the_seal(folder):
    access_log.entries()
    begun = state(folder)
    for n in range(3):
        access_log.record("exported", n_names=n)
    seal = access_log.log_seal()
    put(folder, begun | {"log.jsonl": b""})
    for n in range(3):
        access_log.record("opened", n_names=n)
    assert access_log.verify().is_intact
    assert access_log.verify(seal).reason == "seal"


@pytest.mark.parametrize("text", ["x", "3", "3-" + "a" * 63, "-1-" + "a" * 64, "3-" + "A" * 64,
                                  "9" * 5000 + "-" + "a" * 64, "３-" + "a" * 64])  # fmt: skip
def test_what_is_no_seal_is_refused_and_another_logs_does_not_fit(folder, text):
    access_log.record("opened")
    with pytest.raises(AuditError, match="no seal"):
        access_log.verify(text)
    number, _, last = access_log.log_seal().partition("-")
    assert number == "1"
    assert access_log.verify(f"2-{last}").reason == "seal"
    assert access_log.verify(f"1-{'0' * 64}").reason == "seal"
    assert access_log.verify(f"0-{'0' * 64}").is_intact  # of a log without a line


def test_the_command_checks_a_log_against_a_seal(folder, capsys):
    access_log.record("exported", n_names=1)
    old = state(folder)
    access_log.record("exported", n_names=2)
    seal = str(log("verify")["seal"])
    assert log("verify", seal=seal + "\n")["exit_code"] == 0
    for name in ("head.json", "log.jsonl"):
        (folder / name).write_bytes(old[name])
    assert log("verify", seal=seal)["exit_code"] == 1
    assert "put back to an older state" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_is_an_error_in_words(folder):
    access_log.record("ran")
    (folder / "log.jsonl").unlink()
    (folder / "log.jsonl").mkdir()
    with pytest.raises(AuditError, match="The access log cannot be read or written"):
        access_log.record("ran")
    with pytest.raises(AuditError, match="The access log cannot be read or written"):
        access_log.verify()


def test_the_command_says_whether_the_log_is_whole_and_shows_it(folder, capsys):
    access_log.record("exported", who="anna", audit=DIGEST, n_names=3)
    assert log("verify")["exit_code"] == 0
    assert "log is whole" in capsys.readouterr().err
    shown = log("show", limit=5)
    assert shown["entries"][0]["counts"] == {"n_names": 3}
    assert all(word in "\n".join(told(shown)) for word in ("anna", "exported", "ab" * 6))
    lines = folder / "log.jsonl"
    fields = json.loads(lines.read_bytes())
    lines.write_text(json.dumps(fields | {"who": "bert"}) + "\n")
    assert log("verify")["exit_code"] == 1
    assert "NOT whole. The line was changed" in capsys.readouterr().err


def test_the_mark_changes_with_the_log(folder):
    before = access_log.log_mark()
    access_log.record("ran")
    after = access_log.log_mark()
    assert before != after
    assert after == access_log.log_mark()
