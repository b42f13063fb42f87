"""What may import what: rooms one way, no streamlit in the engine, no torch under the pages."""

from __future__ import annotations

import ast
import json
import os
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
    {"corpus"},
    {"training"},
    {"attack", "deid", "pretrain"},
    {"report"},
    {"run"},
    {"demo"},
    {"experiment"},
    {"jobs"},
    {"cli"},
    {"__main__", "pages"},
    {"app"},
)
RANK = {room: i for i, rooms in enumerate(ORDER) for room in rooms}


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


def imports_of(text: str, *, module: str, is_package: bool = False) -> set[str]:
    """Return the modules that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = module.split(".")[
                    : None if is_package and node.level == 1 else -node.level + is_package
                ]
                base = ".".join([*up, base] if base else up)
            found |= {f"{base}.{a.name}" if is_module(base, a.name) else base for a in node.names}
    return found


def room_breaches(module: str, imports: set[str]) -> list[str]:
    room = room_of(module)
    assert room is not None
    if room not in RANK:
        return [f"{module}: give the room {room!r} a place in ORDER"]
    rooms = {name: room_of(name) for name in imports}
    return [
        f"{module} ({room}) imports {name} ({other})"
        for name, other in sorted(rooms.items())
        if other not in (None, room) and RANK[other] >= RANK[room]
    ]


def test_the_engine_never_imports_streamlit():
    for path in python_files("audit", "cache"):
        imports = imports_of(source(path), module=module_of(path))
        assert not {name for name in imports if name.partition(".")[0] == "streamlit"}, path


def test_rooms_import_one_way():
    breaches = set()
    for path in source_files():
        module = module_of(path)
        is_package = path.name == "__init__.py"
        imports = imports_of(source(path), module=module, is_package=is_package)
        breaches |= set(room_breaches(module, imports))
    assert breaches == set()


@pytest.mark.parametrize(
    ("module", "text", "n"),
    [
        ("audit.errors", "from cache.store import Store", 1),
        ("audit.stats", "from audit import run", 1),
        ("audit.models.load", "from ..corpus import build", 1),
        ("audit.attack.scores", "def f():\n    from audit.deid import release", 1),
        ("audit.deid.release", "import audit.attack.scores as s", 1),
        ("audit.newfile_of_the_base", "from .attack import scores", 1),
        ("audit.attack.scores", "import json\nfrom .decisions import Decisions", 0),
        ("audit.run", "from audit import stats\nfrom cache.store import Store", 0),
    ],
)
def test_an_import_against_the_order_alone_is_seen(module, text, n):
    assert len(room_breaches(module, imports_of(text, module=module))) == n


TRY_IMPORTS = """
import importlib, json, sys
sys.modules["torch"] = sys.modules["transformers"] = None
failed = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed[name] = str(error)
print(json.dumps(failed))
"""


def failed_imports(names: list[str]) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", TRY_IMPORTS, json.dumps(names)],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    failed: dict[str, str] = json.loads(done.stdout)
    return failed


def test_what_pages_import_needs_no_torch():
    names = set[str]()
    for path in python_files("app.py", "pages"):
        imports = imports_of(source(path), module=module_of(path))
        names |= {name for name in imports if name.partition(".")[0] in ("audit", "cache")}
    assert failed_imports(sorted(names)) == {}
