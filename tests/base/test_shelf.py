"""A shelf: things listed by identifier, made whole or not at all, locked, forgotten, damaged."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from audit.cli import main
from audit.errors import AuditError
from audit.shelf import FORGOTTEN, MAKING, Shelf, take_lock, whole_folder, write_whole
from tests.repository import REPOSITORY

pytestmark = pytest.mark.usefixtures("home")
ONE, OTHER = "0123456789ab", "ba9876543210"


@dataclass(frozen=True)
class Thing:
    name: str
    created: str


def read(folder):
    return Thing(folder.name, json.loads((folder / "thing.json").read_bytes())["created"])


SHELF = Shelf("things", label="thing", read=read)


def put(identifier=ONE, created="2026"):
    record = json.dumps({"created": created}).encode()
    return SHELF.keep_files(identifier, {"beside.txt": b"x", "thing.json": record})


def test_what_is_put_comes_back_private_and_the_newest_first():
    put(ONE, "2025")
    assert put(OTHER, "2026") == Thing(OTHER, "2026") == SHELF.get(OTHER)
    assert [thing.name for thing in SHELF.all()] == [OTHER, ONE]
    put(ONE, "2027")
    assert [thing.name for thing in SHELF.all()] == [ONE, OTHER]
    assert stat.S_IMODE(SHELF.place(ONE).stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in SHELF.place(ONE).iterdir()} == {0o600}
    assert len(list(SHELF.home().iterdir())) == 2


def test_only_real_folders_under_a_code_are_listed_and_damaged_ones_are_told():
    put()
    (SHELF.home() / OTHER).symlink_to(SHELF.place(ONE))
    (SHELF.home() / "cccccccccccc").write_text("")
    (SHELF.home() / "elsewhere").mkdir()
    for name, content in (("d" * 12, "{"), ("e" * 12, "[]"), ("f" * 12, '{"made": 1}')):
        SHELF.place(name).mkdir()
        (SHELF.place(name) / "thing.json").write_text(content)
        with pytest.raises(AuditError, match="damaged"):
            SHELF.get(name)
    assert SHELF.all() == (Thing(ONE, "2026"),)


@pytest.mark.parametrize("wrong", ["", "..", "../../etc", ONE.upper(), ONE[:-1], OTHER])
def test_what_is_not_there_is_refused(wrong):
    for ask in (SHELF.get, SHELF.forget):
        with pytest.raises(AuditError, match="thing: This is not kept here"):
            ask(wrong)


def test_a_thing_goes_with_all_it_holds_or_stays_whole_where_the_disk_does_not_let_it_go():
    put()
    left = SHELF.home() / f".{ONE}{FORGOTTEN}"
    left.write_text("a file where the folder would go")
    with pytest.raises(AuditError, match="cannot be removed"):
        SHELF.forget(ONE)
    assert SHELF.get(ONE)
    left.unlink()
    left.mkdir()  # of a removal that was interrupted
    SHELF.forget(ONE)
    assert list(SHELF.home().iterdir()) == []


def test_one_makes_a_thing_at_a_time_and_what_is_abandoned_goes():
    with SHELF.making(ONE) as folder:
        (folder / "thing.json").write_text('{"created": ""}')
        with pytest.raises(AuditError, match="written already"), SHELF.making(ONE):
            pass
        SHELF.clear_abandoned()
        assert SHELF.all() == () and folder.is_dir()
    assert [thing.name for thing in SHELF.all()] == [ONE]
    with pytest.raises(AuditError, match="something already"), SHELF.making(ONE):
        pass
    for name, texts in ((OTHER, {"half": "x", "gone": "x"}), ("c" * 12, {"half": ""})):
        place = SHELF.place(name)
        with pytest.raises(RuntimeError), whole_folder(place, stays=("half",)) as folder:
            for file, text in texts.items():
                (folder / file).write_text(text)
            raise RuntimeError
    assert not folder.exists()  # nothing is in what would stay
    left = SHELF.home() / f".{OTHER}{MAKING}"
    assert [path.name for path in left.iterdir()] == ["half"]
    SHELF.clear_abandoned(seconds=60)
    assert left.is_dir()
    SHELF.clear_abandoned()
    assert [path.name for path in SHELF.home().iterdir()] == [ONE]


def test_a_folder_takes_the_place_of_another_only_where_that_is_meant(tmp_path):
    place = tmp_path / "model"
    with pytest.raises(RuntimeError), whole_folder(place) as partial:
        write_whole(partial / "a", b"1")
        raise RuntimeError
    assert not place.exists() and not list(tmp_path.glob(".model*"))
    for text in (b"1", b"2"):
        with whole_folder(place, replaces=True) as partial:
            write_whole(partial / "a", text)
    assert (place / "a").read_bytes() == b"2"
    with pytest.raises(AuditError, match="something already"), whole_folder(place):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(AuditError, match="something already"), whole_folder(tmp_path / "link"):
        pass


def test_locks_of_files_and_folders(tmp_path):
    for path, is_folder in ((tmp_path / "a.lock", False), (tmp_path / "a", True)):
        with take_lock(path, is_folder=is_folder) as lock:
            assert lock.descriptor > 0
            assert take_lock(path, is_folder=is_folder) is None
        with take_lock(path, is_folder=is_folder, waits=True):
            pass
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(OSError):
        take_lock(tmp_path / "link", is_folder=True)


def test_a_command_removes_the_scratch_folders_of_killed_processes_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    waiting = (
        "from audit.shelf import scratch_folder\n"
        "with scratch_folder() as folder:\n"
        "    (folder / 'vocab.txt').touch()\n"
        "    print(folder, flush=True)\n"
        "    input()\n"
    )
    how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": REPOSITORY}
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    two = [
        subprocess.Popen([sys.executable, "-c", waiting], env=environment, **how) for _ in range(2)
    ]
    dead, living = (Path(one.stdout.readline().strip()) for one in two)
    two[0].kill()
    two[0].communicate()
    others = [tmp_path / "kart-audit-1.0-linux", tmp_path / dead.name.replace("scratch", "other")]
    for folder in others:
        folder.mkdir()
    link = tmp_path / f"{dead.name}x"
    link.symlink_to(others[0])
    assert dead.is_dir()
    assert main(["log", "show"]) == 0
    assert not dead.exists() and (living / "vocab.txt").is_file() and link.is_symlink()
    assert all(folder.is_dir() for folder in others)
    two[1].communicate("\n")
    assert not living.exists()


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    """A command that clears scratch folders may remove one that another has just made."""
    open_file, n_calls = os.open, 0

    def remove_first(path, flags, *rest, **options):
        nonlocal n_calls
        if Path(path) == tmp_path / "folder" and not n_calls:
            n_calls += 1
            Path(path).rmdir()
        return open_file(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", remove_first)
    lock = take_lock(tmp_path / "folder", is_folder=True)
    assert lock is not None and (tmp_path / "folder").is_dir() and n_calls == 1
    lock.release()
    with pytest.raises(FileNotFoundError):
        take_lock(tmp_path / "absent" / "file")
