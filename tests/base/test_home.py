"""The data directory: outside the checkout, for its owner alone; what is installed beside it."""

from __future__ import annotations

import hashlib
import hmac
import os
import platform
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from audit import home
from audit.errors import AuditError
from audit.home import CHECKOUT, data_home, installed_packages, results_dir, salted_digest


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    path = tmp_path / "data"
    monkeypatch.setenv("KART_AUDIT_HOME", str(path))
    return path


def modes(path: Path) -> dict[str, int]:
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in [path, *path.iterdir()]}


def test_the_chosen_directory_is_made_and_kept_for_its_owner_alone(chosen):
    wanted = {"data": 0o700, "results": 0o700, "salt": 0o600}
    before = os.umask(0)
    try:
        assert (data_home(), results_dir()) == (chosen, chosen / "results")
    finally:
        os.umask(before)
    assert modes(chosen) == wanted
    for path, opened in ((chosen, 0o755), (chosen / "results", 0o777), (chosen / "salt", 0o644)):
        path.chmod(opened)
    results_dir()
    assert modes(chosen) == wanted


def test_a_directory_that_others_work_in_or_that_belongs_to_them_is_left_alone(chosen, monkeypatch):
    chosen.mkdir()
    chosen.chmod(0o755)
    (chosen / "thesis.txt").write_text("not ours", encoding="utf-8")
    with pytest.raises(AuditError, match="open to other accounts and holds other things"):
        data_home()
    assert modes(chosen)["data"] == 0o755
    monkeypatch.setattr(home.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(AuditError, match="belongs to another account"):
        data_home()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"XDG_DATA_HOME": "{home}/xdg"}, "xdg/kart-audit"),
        ({"XDG_DATA_HOME": "relative/path"}, ".local/share/kart-audit"),
        ({}, ".local/share/kart-audit"),
        ({"KART_AUDIT_HOME": "~/audits", "XDG_DATA_HOME": "{home}/xdg"}, "audits"),
    ],
)
def test_the_place_follows_the_variables(variables, expected, tmp_path, monkeypatch):
    for name in ("KART_AUDIT_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_home() == tmp_path / expected


INSIDE, AROUND = "inside the program's own folder", "has other things in it"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (str(CHECKOUT), INSIDE),
        ("{tmp}/link/out", INSIDE),
        (str(CHECKOUT.parent), AROUND),
        ("{tmp}", AROUND),
        ("data", "Give the whole path"),
        ("{tmp}/file", "cannot be made"),
    ],
)
def test_a_place_where_it_cannot_be_is_refused(where, said, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(CHECKOUT)
    (tmp_path / "file").touch()
    before = stat.S_IMODE(CHECKOUT.parent.stat().st_mode)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KART_AUDIT_HOME", where.format(tmp=tmp_path))
    with pytest.raises(AuditError, match=said):
        data_home()
    assert stat.S_IMODE(CHECKOUT.parent.stat().st_mode) == before
    assert not (CHECKOUT / "out").exists()


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_directory_that_cannot_be_closed_is_refused(chosen, monkeypatch, is_silent):
    chosen.mkdir()
    chosen.chmod(0o755)

    def chmod(path: Path, wanted: int) -> None:
        if not is_silent:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", chmod)
    with pytest.raises(AuditError, match="cannot be closed to others"):
        data_home()


def test_the_digest_is_keyed_with_a_salt_of_the_installation(chosen, tmp_path, monkeypatch):
    with ThreadPoolExecutor(8) as pool:  # many first starts agree on one salt
        (digest,) = set(pool.map(salted_digest, ["山田 太郎"] * 32))
    assert [path.name for path in chosen.iterdir()] == ["salt"]
    salt = (chosen / "salt").read_bytes()
    assert len(salt) == 32
    assert digest == hmac.digest(salt, "山田 太郎".encode(), "sha256").hex()
    assert digest != hashlib.sha256("山田 太郎".encode()).hexdigest()
    (chosen / "salt").write_bytes(b"short")
    with pytest.raises(AuditError, match="salt is damaged"):
        salted_digest("")
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "other"))
    assert salted_digest("山田 太郎") != digest


def test_versions_are_those_that_run(monkeypatch):
    found = installed_packages()
    assert (found["Python"], found["numpy"]) == (platform.python_version(), np.__version__)
    monkeypatch.setattr(home, "PACKAGES", ("no-such-package-at-all",))
    assert installed_packages()["no-such-package-at-all"] == ""
