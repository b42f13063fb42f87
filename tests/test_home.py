"""The data directory: outside the checkout, for its owner alone."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from audit import home
from audit.errors import AuditError
from audit.home import CHECKOUT, data_home, results_dir, salted_digest


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "data"
    monkeypatch.setenv("KART_AUDIT_HOME", str(path))
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_chosen_directory_is_made_for_its_owner_alone(chosen: Path) -> None:
    before = os.umask(0)
    try:
        assert data_home() == chosen
        assert results_dir() == chosen / "results"
        salted_digest("a list")
    finally:
        os.umask(before)
    assert {path.name: mode(path) for path in [chosen, *chosen.iterdir()]} == {
        "data": 0o700,
        "results": 0o700,
        "salt": 0o600,
    }


def test_the_default_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KART_AUDIT_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert data_home() == tmp_path / "xdg" / "kart-audit"
    for ignored in ("", "relative/path"):
        monkeypatch.setenv("XDG_DATA_HOME", ignored)
        assert data_home() == tmp_path / ".local" / "share" / "kart-audit"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert data_home() == tmp_path / ".local" / "share" / "kart-audit"


def test_a_tilde_is_the_own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KART_AUDIT_HOME", "~/audits")
    assert data_home() == tmp_path / "audits"


def test_a_directory_inside_the_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(CHECKOUT)
    for path in (CHECKOUT, CHECKOUT / "out" / "new", link / "out" / "new"):
        monkeypatch.setenv("KART_AUDIT_HOME", str(path))
        with pytest.raises(AuditError, match="inside the program's own folder"):
            data_home()
    assert not (CHECKOUT / "out" / "new").exists()


def test_a_directory_around_the_checkout_or_the_own_home_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    before = mode(CHECKOUT.parent)
    for path in (CHECKOUT.parent, Path("/"), tmp_path):
        monkeypatch.setenv("KART_AUDIT_HOME", str(path))
        with pytest.raises(AuditError, match="has other things in it"):
            data_home()
    assert mode(CHECKOUT.parent) == before


def test_a_relative_directory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KART_AUDIT_HOME", "data")
    with pytest.raises(AuditError, match="Give the whole path"):
        data_home()


def test_an_empty_directory_open_to_others_is_closed(chosen: Path) -> None:
    chosen.mkdir()
    chosen.chmod(0o755)
    data_home()
    assert mode(chosen) == 0o700


def test_our_own_directory_open_to_others_is_closed(chosen: Path) -> None:
    results_dir()
    for path, opened in ((chosen, 0o755), (chosen / "results", 0o777), (chosen / "salt", 0o644)):
        path.chmod(opened)
    results_dir()
    salted_digest("")
    assert [mode(chosen), mode(chosen / "results"), mode(chosen / "salt")] == [0o700, 0o700, 0o600]


def test_a_directory_that_others_work_in_is_left_alone(chosen: Path) -> None:
    chosen.mkdir()
    chosen.chmod(0o755)
    (chosen / "thesis.txt").write_text("not ours", encoding="utf-8")
    with pytest.raises(AuditError, match="open to other accounts and holds other things"):
        data_home()
    assert mode(chosen) == 0o755


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_directory_that_cannot_be_closed_is_refused(
    chosen: Path, monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    chosen.mkdir()
    chosen.chmod(0o755)

    def chmod(path: Path, wanted: int) -> None:
        if not is_silent:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", chmod)
    with pytest.raises(AuditError, match="cannot be closed to others"):
        data_home()


def test_a_directory_of_another_account_is_refused(
    chosen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen.mkdir(mode=0o700)
    monkeypatch.setattr(home.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(AuditError, match="belongs to another account"):
        data_home()


def test_a_file_in_its_place_is_said(chosen: Path) -> None:
    chosen.write_bytes(b"")
    with pytest.raises(AuditError, match="cannot be made"):
        data_home()


def test_the_digest_is_the_keyed_one(chosen: Path) -> None:
    digest = salted_digest("山田 太郎")
    salt = (chosen / "salt").read_bytes()
    assert len(salt) == 32
    assert digest == hmac.digest(salt, "山田 太郎".encode(), "sha256").hex()
    assert digest == salted_digest("山田 太郎")
    assert digest != hashlib.sha256("山田 太郎".encode()).hexdigest()


def test_two_installations_give_two_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for name in ("a", "b"):
        monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / name))
        digests.add(salted_digest("one list"))
    assert len(digests) == 2


def test_many_first_starts_agree_on_one_salt(chosen: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(salted_digest, ["one list"] * 32))
    assert len(digests) == 1
    assert [path.name for path in chosen.iterdir()] == ["salt"]


def test_a_damaged_salt_is_said(chosen: Path) -> None:
    salted_digest("")
    (chosen / "salt").write_bytes(b"short")
    with pytest.raises(AuditError, match="salt is damaged"):
        salted_digest("")
