"""The key of a release: from it, and from nothing that is public, every surrogate is drawn.

Whoever has the key can try which true text gives the surrogate that stands in a note. It is kept
in a file of mode 600 in the data directory and is never shown: its `name` stands for it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path

from audit.errors import AuditError

KEY = "key"
"""The file of a key, in the folder of its release."""
_N_BYTES = 32


@dataclass(frozen=True, repr=False)
class Key:
    """256 bits that nobody outside this installation knows, or those that a public seed gives."""

    secret: bytes

    @classmethod
    def new(cls) -> Key:
        """Return a random key."""
        return cls(secrets.token_bytes(_N_BYTES))

    @classmethod
    def of_seed(cls, seed: int) -> Key:
        """Return the key of a seed, which everybody who has the program can compute."""
        return cls(hashlib.sha256(f"public seed {seed}".encode()).digest())

    @property
    def name(self) -> str:
        """What two releases have in common that share the key; the key does not follow from it."""
        return self._digest("name").hex()[:12]

    def draw(self, purpose: str, *keys: object) -> int:
        """Return a number of 64 bits for one place: HMAC-SHA-256 of purpose and keys."""
        return int.from_bytes(self._digest(purpose, *keys)[:8], "big")

    def _digest(self, *parts: object) -> bytes:
        # As Python writes a tuple, no two have the same text.
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
