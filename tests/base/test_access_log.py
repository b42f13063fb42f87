"""The access log: what may be written, and that nothing can be changed in it unseen."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from audit import access_log
from audit.cli.printing import format_result
from audit.cli.store_commands import log
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from tests.repository import REPOSITORY

DIGEST = "ab" * 32


@pytest.fixture
def folder(home):
    return home / "access"


def state(folder: Path) -> dict[str, bytes]:
    """Return what stands in the log's files, to be put back."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).write_bytes(data)


def test_whatever_is_changed_in_the_files_is_found(folder):
    states = []
    for n in range(4):
        states.append(state(folder) if n else {})
        access_log.record("exported", who="anna", audit=DIGEST, n_names=n)
    log, head = (states[3][name] for name in ("log.jsonl", "head.json"))
    position = log.index(b"anna", len(states[1]["log.jsonl"]))
    forged = json.dumps(json.loads(head) | {"last": "0" * 64}).encode()
    for changed, line, reason in (
        ({"log.jsonl": log[:position] + b"bert" + log[position + 4 :]}, 2, "changed"),
        ({"key": b"x" * 32}, 1, "changed"),
        ({"log.jsonl": b"".join(reversed(log.splitlines(keepends=True)))}, 1, "order"),
        ({"log.jsonl": states[2]["log.jsonl"]}, None, "missing"),
        ({"head.json": forged}, None, "head"),
        # An older head is what a crash between line and head leaves: every line is there.
        ({"head.json": states[2]["head.json"]}, None, ""),
    ):
        write_files(folder, states[3] | changed)
        verification = access_log.verify()
        assert (verification.is_intact, verification.first_bad_line, verification.reason) == (
            not reason,
            line,
            reason,
        )


def test_what_is_recorded_can_be_read_and_only_its_owner_can_read_it(folder):
    access_log.record("opened", who="anna", audit=DIGEST, page="names")
    access_log.record("exported", who="bert\n\x00", audit=DIGEST, n_names=390, names="masked")
    access_log.record("ran", who="", scenario=2)
    newest, *_ = log_entries = access_log.entries()
    assert [entry.action for entry in log_entries] == ["ran", "exported", "opened"]
    assert newest.who == access_log.account()
    assert log_entries[1].counts == {"n_names": 390, "names": "masked"}
    assert log_entries[1].who == "bert"
    assert log_entries[1].audit == DIGEST[:12]
    assert [entry.number for entry in access_log.entries(1, audit=DIGEST)] == [2]
    assert access_log.verify() == access_log.Verification(3, True, None, "")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"names": "Sophia Wright"}, "number"),
        ({"first_name": "sophia"}, "number"),
        ({"n_names": "sophia"}, "number"),
        ({"page": "x" * 65}, "number"),
        ({"n_names": 2**63}, "number"),
        ({"action": "looked"}, "action"),
        ({"audit": "Sophia Wright"}, "digest"),
    ],
)
def test_nothing_but_numbers_codes_and_digests_is_recorded(folder, fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        access_log.record(**{"action": "exported"} | fields)
    assert not access_log.entries()


@pytest.mark.parametrize("name", ["last line", "log.jsonl", "head.json", "key"])
def test_what_is_taken_away_is_noticed_even_after_the_log_goes_on(folder, name):
    for n in range(3):
        access_log.record("exported", n_names=n)
    if name == "last line":
        lines = (folder / "log.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "log.jsonl").write_bytes(b"".join(lines[:-1]))
        assert access_log.verify().reason == "missing"
    else:
        (folder / name).unlink()
    assert not access_log.verify().is_intact
    mark = access_log.log_mark()
    access_log.record("exported", n_names=3)
    assert not access_log.verify().is_intact and access_log.log_mark() != mark
    assert access_log.entries(1)[0].counts == {"n_names": 3}


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
            [sys.executable, "-c", WRITE_MANY, account],
            env=os.environ | {HOME_VARIABLE: str(folder.parent), "PYTHONPATH": str(REPOSITORY)},
        )
        for account in ("a", "b")
    ]
    for writer in writers:
        assert writer.wait(timeout=120) == 0
    assert access_log.verify() == access_log.Verification(30, True, None, "")
    by_who = {
        account: [e for e in access_log.entries() if e.who == account] for account in ("a", "b")
    }
    for account_entries in by_who.values():
        assert [e.counts["n_names"] for e in reversed(account_entries)] == list(range(15))


def test_a_log_put_back_to_an_older_state_is_seen_with_a_seal_only(folder, capsys):
    for n in range(5):
        access_log.record("exported", n_names=n)
    old = state(folder)
    seal = access_log.log_seal()
    access_log.record("revealed", n_names=5)
    later = access_log.log_seal()
    assert access_log.verify(seal).is_intact
    # Two files without the key: an older head, and the log cut to match.
    write_files(folder, old)
    assert access_log.verify() == access_log.Verification(5, True, None, "")
    assert log(what="verify", seal=seal + "\n")["exit_code"] == 0
    assert log(what="verify", seal=later)["exit_code"] == 1
    assert "put back to an older state" in capsys.readouterr().err
    # Written on, it is as long as it was, and still not the log that was sealed.
    access_log.record("opened")
    assert access_log.verify().is_intact
    assert access_log.verify(later).reason == "seal"


def test_what_is_no_seal_is_refused_and_another_logs_does_not_fit(folder):
    access_log.record("opened")
    for text in ("x", "-1-" + "a" * 64, "3-" + "A" * 64, "9" * 5000 + "-" + "a" * 64):
        with pytest.raises(AuditError, match="no seal"):
            access_log.verify(text)
    number, last, installation = access_log.log_seal().split("-")
    assert number == "1"
    with pytest.raises(AuditError, match="no seal"):
        access_log.verify(f"{number}-{last}")
    assert access_log.verify(f"2-{last}-{installation}").reason == "seal"
    assert access_log.verify(f"1-{'0' * 64}-{installation}").reason == "seal"
    # A log without a line has this seal.
    assert access_log.verify(f"0-{'0' * 64}-{installation}").is_intact


def test_a_log_that_cannot_be_written_is_an_error_in_words(folder):
    access_log.record("ran")
    (folder / "log.jsonl").unlink()
    (folder / "log.jsonl").mkdir()
    for call in (lambda: access_log.record("ran"), access_log.verify):
        with pytest.raises(AuditError, match="The access log cannot be read or written"):
            call()


def test_the_command_shows_the_log(folder, capsys):
    access_log.record("exported", who="anna", audit=DIGEST, n_names=3)
    reply = log(what="show", limit=5)
    assert reply["entries"][0]["counts"] == {"n_names": 3}
    assert all(word in "\n".join(format_result(reply)) for word in ("anna", "exported", "ab" * 6))
