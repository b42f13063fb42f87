"""The data directory of this installation, and its package versions; imports no package."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from audit.errors import AuditError, Message

HOME_VARIABLE = "KART_AUDIT_HOME"
CHECKOUT = Path(__file__).resolve().parent.parent
DEMO_HOSPITAL = CHECKOUT / "audit" / "demo_hospital"
"""The shipped models, lists, passages and notes, all invented."""
SECRETS = "secrets.toml"
"""The file of the data directory that may hold the settings of a login."""
_SALT_NAME, _LOGIN_MARK = "salt", "login"
_N_SALT_BYTES = 32
_ELSEWHERE = Message(
    "Set {home_variable} to a new or empty directory of your own.", home_variable=HOME_VARIABLE
)


_checks: list[Callable[[], None]] = []


def set_change_check(check: Callable[[], None]) -> None:
    """Set the check that a server makes before anything kept is changed in its process."""
    _checks[:] = [check]


def check_change_allowed() -> None:
    """Raise AuditError if kept things may not be changed now."""
    for check in _checks:
        check()


def stay_offline() -> None:
    """Prevent downloads; call this before a library of Hugging Face is imported."""
    os.environ.update(
        HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false"
    )


def data_home() -> Path:
    """Return the data directory; it is made with mode 700 if absent.

    It is `KART_AUDIT_HOME` if that is set, otherwise `kart-audit` in `XDG_DATA_HOME`, whose default
    is `~/.local/share` (XDG Base Directory Specification 0.8).
    """
    home = _choose_home()
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
    """Return the directory of the results; it is made with mode 700 if absent."""
    return home_folder("results")


def home_folder(name: str) -> Path:
    """Return a folder of the data directory; it is made with mode 700 if absent."""
    home = data_home()
    _installation_salt(home)  # marks the directory as ours before anything else is in it
    return _private_directory(home / name, is_ours=True)


def had_login() -> bool:
    """Whether this data directory was served with a login that nobody has given up."""
    return (data_home() / _LOGIN_MARK).exists()


def remember_login() -> None:
    """Mark the data directory as one that is served only with a login."""
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
    """Allow the data directory to be served without a login again."""
    (data_home() / _LOGIN_MARK).unlink(missing_ok=True)


def is_open_to_others(path: Path) -> bool:
    """Whether other accounts of the machine may read or write a file; False if it is absent."""
    with suppress(OSError):
        return bool(path.stat().st_mode & 0o077)
    return False


def list_registered_folders(
    variable: str, *, reserved: Collection[str], unnamed: str
) -> tuple[tuple[str, Path], ...]:
    """Return (label, path) of the folders that an environment variable lists like PATH.

    Existing folders are returned once each, with links resolved. The label is the folder's own name
    (`unnamed` for the root); it gets a number if two are alike or it is one of `reserved`.
    """
    folders: dict[Path, str] = {}
    for text in filter(None, map(str.strip, os.environ.get(variable, "").split(os.pathsep))):
        try:
            path = Path(os.path.realpath(Path(text).expanduser()))
            if not path.is_dir() or path in folders:
                continue
        except (OSError, RuntimeError):
            continue
        base, used = path.name or unnamed, {*reserved, *folders.values()}
        labels = (base, *(f"{base}-{n}" for n in range(2, len(used) + 2)))
        folders[path] = next(label for label in labels if label not in used)
    return tuple((label, path) for path, label in folders.items())


def salted_digest(text: str) -> str:
    """Return a digest of a text that reveals nothing about it outside this installation.

    It is an HMAC-SHA-256 with the installation's salt, 64 hexadecimal digits. A list of names has
    few possible contents, so the text of a plain digest in a link could be guessed.
    """
    salt = _installation_salt(data_home())
    return hmac.new(salt, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def make_salted_code(kind: str, about: object) -> str:
    """Return the identifier of a kept thing of a kind: 12 digits that depend on a JSON value."""
    return salted_digest(f"{kind} {json.dumps(about, sort_keys=True)}")[:12]


def _choose_home() -> Path:
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
        # By the specification a relative path is ignored.
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
            # To close a directory in which others work would be worse than to refuse it.
            if not (is_ours or (path / _SALT_NAME).exists() or not any(path.iterdir())):
                raise AuditError(
                    "The data directory is open to other accounts and holds other things.",
                    where=str(path),
                    do=_ELSEWHERE,
                )
            path.chmod(0o700)
            if path.stat().st_mode & 0o077:  # some file systems ignore modes silently
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
    # Written completely or not at all; of two processes the first wins.
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
    """Return the versions of Python and the main packages; "" for a missing one."""
    versions = {"Python": platform.python_version()} | dict.fromkeys(PACKAGES, "")
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
