"""The copy of each note of a set: its line is found, and what is damaged is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.deid.tagged import RESULT, CopyOfNote, copy_at
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from tests.deid.test_kept_tagged import made


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def line(status: str, *, rate: float | None = 0.0, unaligned: tuple[str, ...] = ()) -> str:
    record = {
        "doc_id": "高橋", "status": status, "error_rate": rate, "tags": {"n_malformed": 2},
        "unaligned": list(unaligned),
    }  # fmt: skip
    return json.dumps(record, ensure_ascii=False)


def test_the_line_of_each_note_is_found(tmp_path: Path) -> None:
    one = made(tmp_path)
    assert copy_at(one, 0) is None
    lines = (line("exact"), line("truncated", rate=0.25, unaligned=("contact",)), line("perfect"))
    (one.path / RESULT / "copies.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    assert copy_at(one, 0) == CopyOfNote("exact", 0.0, 0, 2)
    assert copy_at(one, 1) == CopyOfNote("truncated", 0.25, 1, 2)
    with pytest.raises(AuditError, match="damaged"):
        copy_at(one, 2)
    with pytest.raises(AuditError, match="damaged"):
        copy_at(one, 3)
