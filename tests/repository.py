"""The files of this repository, as tests of the rules of the house look at them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def repository_files() -> list[Path]:
    """Return what is, or could be, committed; paths relative to the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = [Path(os.fsdecode(name)) for name in listing.stdout.split(b"\0") if name]
    else:  # an unpacked archive
        found = (path.relative_to(REPOSITORY) for path in REPOSITORY.rglob("*"))
        names = [path for path in found if not {".git", ".venv", "__pycache__"} & set(path.parts)]
    return sorted(path for path in set(names) if (REPOSITORY / path).is_file())


def python_files(*tops: str) -> list[Path]:
    return [p for p in repository_files() if p.suffix == ".py" and p.parts[0] in tops]


def source_files() -> list[Path]:
    return python_files("app.py", "pages", "audit", "cache")


def source(path: Path) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


def many(n: int) -> int:
    """Return how often a test tries: `KART_AUDIT_TRIES` times as often as it would by itself."""
    return n * int(os.environ.get("KART_AUDIT_TRIES", "1"))
