"""Calls with limits: what hangs or grows is ended and refused, and the caller goes on."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from audit.errors import AuditCancelled, AuditError
from audit.models import limited
from audit.models.limited import call_limited
from benchmarks.hostile_tokenizers import replacement, sequence

STOPPED = r"^here: Its tokenizer took more than {} seconds of processor time, or more than .* GB"


def doubled(n: int) -> int:
    return 2 * n


def spin() -> None:
    while True:
        pass


def grow() -> int:
    return len([bytes(10_000_000) for _ in range(10_000)])


def split(state: str, text: str) -> int:
    """Use the library as it is, without a look at what it is given."""
    from tokenizers import Tokenizer

    return len(Tokenizer.from_str(state).encode(text).ids)


def refuse() -> None:
    raise AuditError(
        "The file {file} is missing.", where="there", do="Write true or false.", file="x"
    )


def err() -> None:
    raise KeyError("Jane Doe")


def chat(n: int) -> str:
    return "x" * n


def leave_a_file() -> list[str]:
    with tempfile.NamedTemporaryFile(delete=False) as file:
        return [file.name, str(os.getpid())]


def note_and_spin(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    spin()


def end() -> None:
    os._exit(0)


@pytest.mark.long
def test_an_answer_comes_from_another_process() -> None:
    assert call_limited(doubled, 21, place="") == 42
    path, process = call_limited(leave_a_file, place="")
    assert int(process) != os.getpid() and not Path(path).exists()
    assert call_limited(chat, 5_000_000, place="") == "x" * 5_000_000


@pytest.mark.parametrize("function", [spin, end])
def test_what_hangs_or_ends_without_an_answer_is_refused(function: Any) -> None:
    start = time.monotonic()
    with pytest.raises(AuditError, match=STOPPED.format(1)):
        call_limited(function, place="here", seconds=1)
    assert time.monotonic() - start < limited.WALL_SECONDS
    assert call_limited(doubled, 1, place="") == 2


def test_a_call_that_is_stopped_ends_its_process(tmp_path: Path) -> None:
    note = tmp_path / "process"
    with pytest.raises(AuditCancelled):
        call_limited(
            note_and_spin,
            str(note),
            place="here",
            should_stop=lambda: note.exists() and note.read_text() != "",
        )
    process = int(note.read_text())
    deadline = time.monotonic() + limited.PROCESSOR_SECONDS / 2
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{process}").exists()
    assert call_limited(chat, 5_000_000, place="", should_stop=lambda: False) == "x" * 5_000_000


def test_what_grows_is_refused() -> None:
    with pytest.raises(AuditError, match="GB of memory, and was stopped"):
        call_limited(grow, place="here", n_bytes=500_000_000)


@pytest.mark.long
@pytest.mark.parametrize("n", [12, 18, 40])
def test_the_library_itself_cannot_outgrow_its_limits(n: int) -> None:
    state = json.dumps(sequence("normalizer", [replacement({"String": "a"}, "aa")] * n))
    if n == 12:
        assert call_limited(split, state, "a", place="here") == 3
        return
    with pytest.raises(AuditError, match=STOPPED.format(2)):
        call_limited(split, state, "banana " * 100, place="here", seconds=2, n_bytes=300_000_000)


def test_a_refusal_crosses_as_a_message() -> None:
    with pytest.raises(AuditError) as refused:
        call_limited(refuse, place="here")
    assert str(refused.value) == "there: The file x is missing. Write true or false."
    assert refused.value.what.values == {"file": "x"}
    assert refused.value.render("ja") != str(refused.value)


def test_a_mistake_of_the_program_names_its_places_alone() -> None:
    with pytest.raises(RuntimeError, match="KeyError") as mistake:
        call_limited(err, place="here")
    assert "Jane" not in str(mistake.value) and "test_limited" in str(mistake.value)


@pytest.mark.long
def test_a_nursery_that_was_ended_is_started_again() -> None:
    assert call_limited(doubled, 1, place="") == 2
    process = limited._NURSERY._process
    assert process is not None
    process.kill()
    process.wait()
    assert call_limited(doubled, 2, place="") == 4
