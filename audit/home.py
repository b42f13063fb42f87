"""Where this installation keeps its data, and what it is made of; no package is imported."""

from __future__ import annotations

import hashlib
import hmac
import os
import platform
import secrets
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from audit.errors import AuditError, Message

HOME_VARIABLE = "KART_AUDIT_HOME"
CHECKOUT = Path(__file__).resolve().parent.parent
DEMO_HOSPITAL = CHECKOUT / "audit" / "demo_hospital"
"""Models, lists, passages and notes that are shipped, all invented."""
SECRETS = "secrets.toml"
"""File of the data directory in which the settings of a login may stand."""
_SALT_NAME, _LOGIN_MARK = "salt", "login"
_N_SALT_BYTES = 32
_ELSEWHERE = Message(
    "Set {home_variable} to a new or empty directory of your own.", home_variable=HOME_VARIABLE
)


_checks: list[Callable[[], None]] = []


def check_changes(check: Callable[[], None]) -> None:
    """Let a server say, before anything kept is changed in its process, whether it may be."""
    _checks[:] = [check]


def changing() -> None:
    """Ask whether what is kept may be changed now; raises AuditError where it may not."""
    for check in _checks:
        check()


def stay_offline() -> None:
    """See that nothing is ever fetched; called before a library of Hugging Face is imported."""
    os.environ.update(
        HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false"
    )


def data_home() -> Path:
    """Return the data directory, made with mode 700 if it is not there.

    `KART_AUDIT_HOME` if it is set; otherwise `kart-audit` in `XDG_DATA_HOME`, which is
    `~/.local/share` by default (XDG Base Directory Specification 0.8).
    """
    home = _wanted_home()
    if home == CHECKOUT or CHECKOUT in home.parents:
        raise AuditError(
            "The data directory lies inside the program's own folder.",
            where=str(home),
            do=_ELSEWHERE,
        )
    if home in CHECKOUT.parents or home == Path.home().resolve():
        raise AuditError(
            "The data directory has other things in it.", where=str(home), do=_ELSEWHERE
        )
    return _private_directory(home)


def results_dir() -> Path:
    """Return the directory of the results, made with mode 700 if it is not there."""
    return home_folder("results")


def home_folder(name: str) -> Path:
    """Return a folder of the data directory, made with mode 700 if it is not there."""
    home = data_home()
    _installation_salt(home)  # marks the directory as ours before anything else is in it
    return _private_directory(home / name, is_ours=True)


def had_login() -> bool:
    """Return whether this data directory was ever served with a login, and nobody took it back."""
    return (data_home() / _LOGIN_MARK).exists()


def remember_login() -> None:
    """Mark the data directory as one that is served with a login only."""
    path = data_home() / _LOGIN_MARK
    if path.exists():
        return
    _installation_salt(path.parent)  # before anything else is in it
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise AuditError(
            "The data directory cannot be marked as one that has a login ({strerror}).",
            where=str(path),
            do="Make the data directory writable for this account.",
            strerror=error.strerror,
        ) from error


def forget_login() -> None:
    """Let the data directory be served without a login again."""
    (data_home() / _LOGIN_MARK).unlink(missing_ok=True)


def is_open_to_others(path: Path) -> bool:
    """Return whether other accounts of the machine may read or write a file; not if it is gone."""
    with suppress(OSError):
        return bool(path.stat().st_mode & 0o077)
    return False


def registered_folders(variable: str, *, taken: str, unnamed: str) -> tuple[tuple[str, Path], ...]:
    """Return (label, path) of the folders that an environment variable names, as PATH does.

    Those that exist, links resolved, each once. The label is the folder's own name (`unnamed` for
    the root), numbered where two are alike or it is `taken`.
    """
    folders: dict[Path, str] = {}
    for text in filter(None, map(str.strip, os.environ.get(variable, "").split(os.pathsep))):
        try:
            path = Path(os.path.realpath(Path(text).expanduser()))
            if not path.is_dir() or path in folders:
                continue
        except (OSError, RuntimeError):
            continue
        base, used = path.name or unnamed, {taken, *folders.values()}
        labels = (base, *(f"{base}-{n}" for n in range(2, len(used) + 2)))
        folders[path] = next(label for label in labels if label not in used)
    return tuple((label, path) for path, label in folders.items())


def salted_digest(text: str) -> str:
    """Return a digest of a text that says nothing about it outside this installation.

    HMAC-SHA-256 with the installation's salt, 64 hexadecimal digits: a list of names has few
    possible contents, so that a plain digest in a link could be guessed back.
    """
    salt = _installation_salt(data_home())
    return hmac.new(salt, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _wanted_home() -> Path:
    chosen = os.environ.get(HOME_VARIABLE, "")
    if chosen:
        path = Path(chosen)
        if chosen == "~" or chosen.startswith("~/"):
            path = Path.home() / chosen[2:]
        if not path.is_absolute():
            raise AuditError(
                "The data directory is not given from the root on.",
                where=HOME_VARIABLE,
                do="Give the whole path, so that it is the same directory from everywhere.",
            )
    else:
        shared = Path(os.environ.get("XDG_DATA_HOME", ""))
        # The specification says: a relative path is to be ignored.
        path = shared if shared.is_absolute() else Path.home() / ".local" / "share"
        path = path / "kart-audit"
    return path.resolve()


def _private_directory(path: Path, *, is_ours: bool = False) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = path.stat()
        if state.st_uid != os.geteuid():
            raise AuditError(
                "The data directory belongs to another account.", where=str(path), do=_ELSEWHERE
            )
        if state.st_mode & 0o077:
            # Closing a directory that others work in would be worse than refusing it.
            if not (is_ours or (path / _SALT_NAME).exists() or not any(path.iterdir())):
                raise AuditError(
                    "The data directory is open to other accounts and holds other things.",
                    where=str(path),
                    do=_ELSEWHERE,
                )
            path.chmod(0o700)
            if path.stat().st_mode & 0o077:  # some file systems have no modes, and say nothing
                raise PermissionError(0, "its mode cannot be changed")
    except OSError as error:
        raise AuditError(
            ("The data directory cannot be made, or cannot be closed to others: {strerror}."),
            where=str(path),
            do=_ELSEWHERE,
            strerror=error.strerror,
        ) from error
    return path


def _installation_salt(home: Path) -> bytes:
    path = home / _SALT_NAME
    try:
        if not path.exists():
            _write_salt(path)
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        salt = path.read_bytes()
    except OSError as error:
        raise AuditError(
            "The installation's salt cannot be read or written: {strerror}.",
            where=str(path),
            do="Make the data directory writable for this account.",
            strerror=error.strerror,
        ) from error
    if len(salt) != _N_SALT_BYTES:
        raise AuditError(
            "The installation's salt is damaged.",
            where=str(path),
            do="Delete the file; links that were made before will then lead nowhere.",
        )
    return salt


def _write_salt(path: Path) -> None:
    # Whole or not at all, and the first of two processes wins.
    partial = path.with_name(f"{_SALT_NAME}-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(partial, flags, 0o600), "wb") as handle:
            handle.write(secrets.token_bytes(_N_SALT_BYTES))
            handle.flush()
            os.fsync(handle.fileno())
        with suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)


PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scikit-learn",
    "Faker",
    "diskcache",
    "streamlit",
    "plotly",
    "pandas",
    "peft",
)


def installed_packages() -> dict[str, str]:
    """Return the versions of Python and the main packages; "" for one that is missing."""
    versions = {"Python": platform.python_version()} | dict.fromkeys(PACKAGES, "")
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
