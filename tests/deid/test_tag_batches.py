"""Batches of a slow tagger are small, progress moves inside of them, and memory stays bounded."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from audit.deid.copies import CopyReading, Piece, read_pieces
from audit.deid.release import Release
from audit.deid.rules import RuleTagger
from audit.deid.tag import tag_notes
from audit.deid.tagger import windows_of
from audit.errors import AuditCancelled
from audit.notes.read import open_notes
from audit.notes.spans import TYPES, TaggedDocument
from audit.progress import Progress

LONG = "氏名：高橋健一　受診。特記なし。" * 1875


class Killed(BaseException):
    """What no code catches."""


class Copying:
    """Copies notes window by window, without tags, and tells how far it is."""

    name, digest, labels = "copying", "0" * 64, TYPES
    n_notes_at_once = 8

    def __init__(self, *, n_left: int = 10_000) -> None:
        self.n_left = n_left
        self.calls: list[list[int]] = []

    def tag(self, texts: Sequence[str]) -> list[tuple[()]]:
        return [() for _ in texts]

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_share: Callable[[float], None] = lambda share: None,
    ) -> list[CopyReading]:
        self.n_left -= 1
        if self.n_left < 0:
            raise Killed
        self.calls.append([len(note.text) for note in notes])
        found = []
        for number, note in enumerate(notes):
            windows = windows_of(note.text, size=1000, overlap=50)
            pieces = []
            for i, one in enumerate(windows):
                pieces.append(
                    Piece(start=one.start, end=one.end, output=note.text[one.start : one.end])
                )
                on_share((number + (i + 1) / len(windows)) / len(notes))
            found.append(read_pieces(note, pieces))
        return found


def notes_file(path: Path, texts: Sequence[str]) -> Path:
    lines = [json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts)]
    path.write_text("".join(lines), "utf-8")
    return path


def tag(path: Path, out: Path, tagger, **more):  # type: ignore[no-untyped-def]
    return tag_notes(open_notes(path), tagger=tagger, out=out, release=Release(), **more)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.progress._REPORT_SECONDS", 0.0)


def test_a_slow_tagger_gets_little_at_once_and_loses_no_more(tmp_path: Path) -> None:
    assert len(LONG) == 30_000
    texts = ["短い。"] * 10 + [LONG, "短い。", LONG] + ["a" * 9_000] * 3
    path = notes_file(tmp_path / "n.jsonl", texts)
    whole = Copying()
    tag(path, tmp_path / "whole", whole)
    assert whole.calls == [[3] * 8, [3, 3, 30_000], [3, 30_000], [9_000] * 3]
    # The clock of a second cannot be what keeps a batch that took minutes: it is asked after each.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.deid.tag._KEEP_SECONDS", 0.0)
        with pytest.raises(Killed):
            tag(path, tmp_path / "out", Copying(n_left=2))
    rest = Copying()
    tag(path, tmp_path / "out", rest)
    assert rest.calls == whole.calls[2:]
    for one in (tmp_path / "whole").iterdir():
        assert one.read_bytes() == (tmp_path / "out" / one.name).read_bytes(), one.name


def test_progress_moves_inside_a_long_note_and_a_person_can_stop_there(
    tmp_path: Path, always: None
) -> None:
    path = notes_file(tmp_path / "n.jsonl", [LONG])
    reports: list[Progress] = []
    tag(path, tmp_path / "out", Copying(), progress=reports.append)
    shares = [one.share for one in reports]
    assert shares == sorted(shares)
    assert len(set(shares)) >= 30
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    seen: list[float] = []
    with pytest.raises(AuditCancelled):
        tag(path, tmp_path / "stopped", Copying(), progress=lambda one: seen.append(one.share),
            should_stop=lambda: bool(seen) and seen[-1] > 0.5)  # fmt: skip
    assert 0.5 < seen[-1] < 0.6


def test_a_small_file_has_progress_too_and_what_was_done_counts_as_done(
    tmp_path: Path, always: None
) -> None:
    path = notes_file(tmp_path / "n.jsonl", ["5月3日に受診。"] * 640)
    assert path.stat().st_size < 1 << 20, "less than what a file is read by"
    reports: list[Progress] = []
    tag(path, tmp_path / "out", RuleTagger(("dates",)), progress=reports.append)
    shares = sorted({one.share for one in reports})
    assert shares == pytest.approx([i / 10 for i in range(11)])


def test_units_are_counted_once_whatever_a_tagger_tells(tmp_path: Path, always: None) -> None:
    class Telling(Copying):
        def read(self, notes, **more):  # type: ignore[no-untyped-def]
            for share in (0.5, 0.25, 1.7, 0.9):
                more["on_share"](share)
            return super().read(notes)

    path = notes_file(tmp_path / "n.jsonl", ["x" * 99, " "])
    seen: list[Progress] = []
    tag(path, tmp_path / "out", Telling(), progress=seen.append)
    assert [(one.done, one.total) for one in seen[1:]] == [(0, 101), (50.5, 101), (101, 101)]


def test_the_borders_of_batches_depend_on_the_rows_alone(tmp_path: Path) -> None:
    texts = ["aaa", " ", "b" * 199_000, "c" * 997, "d", *["e"] * 130]
    calls: list[int] = []

    class Counting(RuleTagger):
        def tag(self, texts):  # type: ignore[no-untyped-def]
            calls.append(len(texts))
            return super().tag(texts)

    path = notes_file(tmp_path / "n.jsonl", texts)
    tag(path, tmp_path / "out", Counting(("dates",)))
    assert calls == [3, 64, 64, 3]
    with pytest.raises(AuditCancelled):
        tag(path, tmp_path / "stopped", RuleTagger(), should_stop=lambda: True)


def test_no_note_of_an_earlier_batch_is_held(tmp_path: Path) -> None:
    path = notes_file(tmp_path / "n.jsonl", [LONG[:40]] * 300)
    alive: list[int] = []
    seen: list[weakref.ref[object]] = []

    class Watching(Copying):
        def read(self, notes, **more):  # type: ignore[no-untyped-def]
            found = super().read(notes, **more)
            alive.append(sum(one() is not None for one in seen))
            seen.extend(map(weakref.ref, (*notes, *found)))
            return found

    tag(path, tmp_path / "out", Watching())
    assert len(alive) == 38
    assert max(alive) <= 3, "the last note of the batch before, and what came of it"
    assert len(seen) == 600
