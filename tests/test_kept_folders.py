"""Kept folders: listed by code, removed whole or not at all."""

from __future__ import annotations

import pytest

from audit.errors import AuditError
from audit.shelf import FORGOTTEN, coded_folders, forget_folder

CODE = "0123456789ab"
UNKNOWN, REFUSED = AuditError("There is none."), AuditError("The disk refuses.")


def make(parent, code=CODE):
    folder = parent / code
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_text("x")
    return folder


def test_only_real_folders_under_a_code_are_listed(tmp_path):
    folder = make(tmp_path)
    (tmp_path / "ba9876543210").symlink_to(folder)
    (tmp_path / "cccccccccccc").write_text("")
    (tmp_path / "elsewhere").mkdir()
    assert list(coded_folders(tmp_path)) == [folder]


def test_a_folder_goes_with_all_it_holds_and_what_an_interrupted_removal_left(tmp_path):
    make(tmp_path, f".{CODE}{FORGOTTEN}")
    forget_folder(make(tmp_path), unknown=UNKNOWN, refused=REFUSED)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AuditError, match="There is none"):
        forget_folder(tmp_path / CODE, unknown=UNKNOWN, refused=REFUSED)


def test_what_the_disk_does_not_let_go_stays_whole_and_is_said(tmp_path):
    folder = make(tmp_path)
    (tmp_path / f".{CODE}{FORGOTTEN}").write_text("a file where the folder would go")
    with pytest.raises(AuditError, match="The disk refuses"):
        forget_folder(folder, unknown=UNKNOWN, refused=REFUSED)
    assert (folder / "inner" / "file").read_text() == "x"
