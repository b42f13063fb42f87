"""Notes that are given to be scored: damaged archives are refused in words, names stay out."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

import pytest

from audit.deid.given import keep_given
from audit.errors import AuditError
from audit.home import HOME_VARIABLE

LINE = '{"doc_id": "a", "text": "%s", "spans": []}\n' % ("fever and cough " * 200)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def archive(name: str, content: str, *, packing: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as folder:
        folder.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_with_wrong_bytes_is_read_or_refused_and_never_a_crash(packing: int) -> None:
    good, rng = archive("notes.jsonl", LINE, packing=packing), random.Random(packing)
    n_refused = 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            keep_given(bytes(bad), name="notes.zip", what="gold notes")
        except AuditError:
            n_refused += 1
    assert n_refused > 150


def test_the_name_of_a_file_in_an_archive_is_not_told() -> None:
    bad = archive("森健一.xml", "<a", packing=zipfile.ZIP_DEFLATED)
    with pytest.raises(AuditError) as raised:
        keep_given(bad, name="森健一.zip", what="gold notes")
    assert "森" not in str(raised.value) and raised.value.where == "gold notes, file 1"
