"""The key of a release, from which every surrogate is drawn.

Whoever has the key can test which true text yields a surrogate in a note. The key is kept in a file
of mode 600 in the data directory and is never shown; its `name` identifies it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path

from audit.errors import AuditError

KEY = "key"
"""The name of the key file in the folder of a release."""
_N_BYTES = 32


@dataclass(frozen=True, repr=False)
class Key:
    """256 bits: a secret of this installation, or bits that follow from a public seed."""

    secret: bytes

    @classmethod
    def new(cls) -> Key:
        """Return a random key."""
        return cls(secrets.token_bytes(_N_BYTES))

    @classmethod
    def of_seed(cls, seed: int) -> Key:
        """Return the key of a seed; anybody who has the program can compute it."""
        return cls(hashlib.sha256(f"public seed {seed}".encode()).digest())

    @property
    def name(self) -> str:
        """A name that releases with the same key share; the key cannot be computed from it."""
        return self._digest("name").hex()[:12]

    def draw(self, purpose: str, *keys: object) -> int:
        """Return a 64-bit number, the same for the same arguments: HMAC-SHA-256 of them."""
        return int.from_bytes(self._digest(purpose, *keys)[:8], "big")

    def _digest(self, *parts: object) -> bytes:
        # `repr` of a tuple is unambiguous: different parts never give the same text.
        text = repr(parts).encode("utf-8", "surrogatepass")
        return hmac.digest(self.secret, text, "sha256")

    def __repr__(self) -> str:
        return "Key(...)"


def read_key(folder: Path) -> Key:
    """Return the key in the folder of a release."""
    path = folder / KEY
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        secret = path.read_bytes()
    except OSError:
        secret = b""
    if len(secret) != _N_BYTES:
        raise AuditError(
            "The key of this release is missing or damaged.",
            where=KEY,
            do="Restore a backup, or make the release again.",
        )
    return Key(secret)
