"""What may import what: rooms one way, no streamlit in the engine, no torch under the pages."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import REPOSITORY, python_files, source, source_files

# Rooms in the order in which they may import one another: a room imports those of lines before its
# own, never one of its own line but itself. A file audit/x.py that is not named is of the base.
ORDER = (
    {"base"},
    {"cache"},
    {"models", "notes"},
    {"names"},
    {"patients"},
    {"corpus"},
    {"training"},
    {"attack", "deid"},
    {"report"},
    {"run"},
    {"demo", "rank", "rejudge", "shards"},
    {"experiment"},
    {"jobs"},
    {"backup"},
    {"retention"},
    {"bench"},
    {"interface"},
    {"cli"},
    {"__main__", "pages"},
    {"app"},
)
RANK = {room: i for i, rooms in enumerate(ORDER) for room in rooms}
DEID_ORDER = ({"find"}, {"redact"}, {"sets"}, {"measure"}, {"learn", "invent"}, {"tasks"})
DEID_RANK = {part: i for i, parts in enumerate(DEID_ORDER) for part in parts}
"""The parts of `audit/deid`, by the same rule."""


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """Return the room of a module of ours; None for a library."""
    top, _, rest = module.partition(".")
    if top in ("cache", "pages", "app"):
        return top
    if top != "audit":
        return None
    name = rest.partition(".")[0]
    return name if name in RANK or ((REPOSITORY / "audit" / name).is_dir() and name) else "base"


def is_module(package: str, name: str) -> bool:
    """Whether "from package import name" imports a module of ours and not a thing out of it."""
    path = REPOSITORY.joinpath(*package.split("."), name)
    return package in ("audit", "cache") or path.with_suffix(".py").exists() or path.is_dir()


def imports_of(text: str) -> set[str]:
    """Return the modules that a file imports, at its top or inside a function."""
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, "modules are imported by their whole names"
            base = node.module
            modules |= {f"{base}.{a.name}" if is_module(base, a.name) else base for a in node.names}
    return modules


def room_breaches(module: str, imports: set[str]) -> list[str]:
    room = room_of(module)
    assert room is not None
    if room not in RANK:
        return [f"{module}: give the room {room!r} a place in ORDER"]
    rooms = {name: room_of(name) for name in imports}
    return [
        f"{module} ({room}) imports {name} ({other_room})"
        for name, other_room in sorted(rooms.items())
        if other_room not in (None, room) and RANK[other_room] >= RANK[room]
    ]


def deid_part_of(module: str) -> str | None:
    """Return the part of `audit/deid` in which a module stands; None for any other module."""
    package, _, rest = module.partition("audit.deid.")
    return rest.partition(".")[0] if rest and not package else None


def deid_breaches(module: str, imports: set[str]) -> list[str]:
    part = deid_part_of(module)
    other_parts = {name: deid_part_of(name) for name in imports}
    return [
        f"{module} ({part}) imports {name} ({other_part})"
        for name, other_part in sorted(other_parts.items())
        if part and other_part and other_part != part and DEID_RANK[other_part] >= DEID_RANK[part]
    ]


@pytest.mark.long
def test_the_engine_never_imports_streamlit():
    for path in python_files("audit", "cache"):
        tops = {name.partition(".")[0] for name in imports_of(source(path))}
        assert "streamlit" not in tops, path


@pytest.mark.long
def test_rooms_import_one_way():
    breaches = set()
    for path in source_files():
        module, imports = module_of(path), imports_of(source(path))
        breaches |= {*room_breaches(module, imports), *deid_breaches(module, imports)}
    assert breaches == set()


@pytest.mark.parametrize(
    ("module", "text", "n"),
    [
        ("audit.deid.find.rules", "def f():\n    from audit.deid.redact.kinds import KINDS", 1),
        ("audit.deid.learn.training", "from audit.deid.invent import fill", 1),
        ("audit.deid.sets.tagging", "from audit.deid import tasks", 1),
        ("audit.deid.tasks", "from audit.deid.sets import tagging\nfrom audit import stats", 0),
        ("audit.run", "from audit.deid.find import rules", 0),
    ],
)
def test_an_import_against_the_order_of_deid_alone_is_seen(module, text, n):
    assert len(deid_breaches(module, imports_of(text))) == n


@pytest.mark.parametrize(
    ("module", "text", "n"),
    [
        ("audit.errors", "from cache.store import Store", 1),
        ("audit.stats", "from audit import run", 1),
        ("audit.attack.scores", "def f():\n    from audit.deid import release", 1),
        ("audit.deid.redact.release", "import audit.attack.scores as s", 1),
        ("audit.run", "from audit import stats\nfrom cache.store import Store", 0),
    ],
)
def test_an_import_against_the_order_alone_is_seen(module, text, n):
    assert len(room_breaches(module, imports_of(text))) == n


@pytest.mark.long
def test_what_pages_import_needs_no_torch():
    names = set[str]()
    for path in python_files("app.py", "pages"):
        names |= {n for n in imports_of(source(path)) if n.partition(".")[0] in ("audit", "cache")}
    without = "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
    program = without + "\n".join(f"import {name}" for name in sorted(names))
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
