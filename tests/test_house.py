"""The rules of the house, held by machine: sizes, rooms, words, what pages may import.

Every rule is a function that lists breaches; each is tried on a small wrong example too, so that
a rule that has stopped seeing anything is noticed.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60

# Files of audit/ that share a room. A file audit/x.py that is named neither here nor below is of
# the foundation (errors, rates, scenario, home, tables ...), which imports nothing but itself.
SHARED_ROOMS = dict.fromkeys(("request", "attack", "run", "demo", "request_file"), "run")
SHARED_ROOMS |= {"inspection": "report"}
SHARED_ROOMS |= dict.fromkeys(
    ("job_commands", "result_commands", "console", "corpus_commands", "train_commands",
     "experiment_commands", "deid_commands", "deid_tag_commands", "deid_build_commands",
     "deid_train_commands", "deid_generate_commands", "deid_experiment_commands"),
    "commands",
)  # fmt: skip

# Which rooms each room may import, besides itself.
FOUNDATION = {"foundation"}
ATTACKS = FOUNDATION | {"models", "corpora", "membership", "deid"}
RUNNING = ATTACKS | {"cache", "report", "run"}
HOSPITAL = {"curation", "training", "experiment"}
SCREENS = RUNNING | {"view", "handover", "prepare", "access", "jobs", "demo_build", "selftest"}
SCREENS |= HOSPITAL
ALLOWED = {
    "cache": set(),
    "foundation": set(),
    "models": FOUNDATION,
    "corpora": FOUNDATION | {"models"},
    "membership": FOUNDATION | {"models", "corpora"},
    "deid": FOUNDATION | {"models", "corpora"},
    "report": ATTACKS,
    "view": ATTACKS | {"report"},
    "handover": ATTACKS | {"report", "view"},
    "access": FOUNDATION,
    "run": ATTACKS | {"cache", "report"},
    "prepare": RUNNING | {"view", "training"},
    "curation": RUNNING | {"view", "prepare"},
    "training": FOUNDATION | {"models", "corpora"},
    "experiment": RUNNING | {"view", "prepare", "curation", "training", "demo_build"},
    "demo_build": RUNNING,
    "selftest": RUNNING | {"demo_build"},
    "jobs": RUNNING | {"view", "prepare"} | HOSPITAL,
    "commands": SCREENS,
    "__main__": SCREENS | {"commands"},
    "pages": SCREENS,
    "app": SCREENS | {"pages"},
}

# What the web process may import: none of it needs torch. What pages import is added to it.
TORCH_FREE = (
    "audit.report",
    "audit.home",
    "audit.rates",
    "audit.scenario",
    "audit.models.files",
    "audit.models.registry",
    "audit.membership.metrics",
    "audit.membership.verdict",
    "audit.view.overview",
    "audit.view.kept",
    "cache.store",
)

# One letter of each in brackets, so that this file does not break its own rules.
MACHINE_PATH = re.compile(
    r"(?<![\w.~$}>-])/(?:hom[e]/[a-z][\w-]+/|User[s]/[A-Za-z]|roo[t]/|wor[k]/|tm[p]/)"
)
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")
NO_NOUN = {"utils", "util", "helpers", "helper", "common", "misc"}


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


def text_of(path: Path) -> str | None:
    """Return a file's text, or None if it is not text."""
    try:
        return (REPOSITORY / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def source(path: Path) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


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
    if name in SHARED_ROOMS:
        return SHARED_ROOMS[name]
    if name in ALLOWED or (name and (REPOSITORY / "audit" / name).is_dir()):
        return name
    return "foundation"


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
    if room not in ALLOWED:
        return [f"{module}: give the room {room!r} a line in ALLOWED"]
    allowed = ALLOWED[room] | {room}
    rooms = {name: room_of(name) for name in imports}
    return [
        f"{module} ({room}) imports {name} ({other})"
        for name, other in sorted(rooms.items())
        if other is not None and other not in allowed
    ]


def long_functions(text: str) -> list[tuple[str, int]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    sizes = [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in nodes]
    return [(name, n_lines) for name, n_lines in sizes if n_lines >= MAX_FUNCTION_LINES]


def words_found(pattern: re.Pattern[str], text: str) -> list[tuple[int, str]]:
    lines = enumerate(text.splitlines(), start=1)
    return [(number, line.strip()[:80]) for number, line in lines if pattern.search(line)]


def unnamed_in(readme: str, paths: list[Path]) -> list[str]:
    names = [path.as_posix() for path in paths if path.name != "__init__.py"]
    return [name for name in names if not re.search(rf"(?<![\w/]){re.escape(name)}(?!\w)", readme)]


def test_there_is_something_to_look_at() -> None:
    names = {path.as_posix() for path in source_files()}
    assert {"audit/errors.py", "cache/store.py"} <= names
    assert Path("pyproject.toml") in repository_files()


def test_files_are_short() -> None:
    paths = [*source_files(), *python_files("benchmarks")]
    sizes = {path.as_posix(): len(source(path).splitlines()) for path in paths}
    assert {name: size for name, size in sizes.items() if size >= MAX_FILE_LINES} == {}


def test_functions_are_short() -> None:
    paths = [*source_files(), *python_files("benchmarks")]
    found = {path.as_posix(): long_functions(source(path)) for path in paths}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_a_long_function_is_seen() -> None:
    body = "    pass\n" * (MAX_FUNCTION_LINES - 1)
    assert long_functions(f"class A:\n  def f(self):\n{body}") == [("f", MAX_FUNCTION_LINES)]
    assert long_functions(f"def f():\n{body[:-9]}") == []


def test_the_engine_never_imports_streamlit() -> None:
    for path in python_files("audit", "cache"):
        imports = imports_of(source(path), module=module_of(path))
        assert not {name for name in imports if name.partition(".")[0] == "streamlit"}, path


def test_rooms_import_one_way() -> None:
    breaches = []
    for path in source_files():
        module = module_of(path)
        is_package = path.name == "__init__.py"
        imports = imports_of(source(path), module=module, is_package=is_package)
        breaches += room_breaches(module, imports)
    assert breaches == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("cache.store", "from audit.errors import AuditError"),
        ("audit.rates", "import audit.models.load"),
        ("audit.rates", "from audit import run"),
        ("audit.models.load", "from audit.membership import scores"),
        ("audit.models.load", "from ..corpora import demo"),
        ("audit.corpora.notes", "from audit.membership.candidates import Candidates"),
        ("audit.membership.scores", "def f():\n    from audit.deid import redact"),
        ("audit.deid.redact", "import audit.membership.scores as s"),
        ("audit.membership.scores", "from cache.store import Store"),
        ("audit.report", "from audit.run import run_audit"),
        ("audit.report", "from pages.ui import text"),
        ("audit.newroom_that_is_foundation", "from .membership import scores"),
    ],
)
def test_an_import_against_the_order_is_seen(module: str, text: str) -> None:
    assert len(room_breaches(module, imports_of(text, module=module))) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("audit.errors", "import numpy, json"),
        ("audit.home", "from audit.errors import AuditError"),
        ("audit.membership.scores", "from audit.models.load import load_model"),
        ("audit.membership.scores", "from .candidates import Candidates"),
        ("audit.run", "from audit import rates\nfrom cache.store import Store"),
        ("app", "from pages.ui import main"),
    ],
)
def test_an_import_with_the_order_is_left_alone(module: str, text: str) -> None:
    assert room_breaches(module, imports_of(text, module=module)) == []


def test_every_source_file_is_in_the_readme() -> None:
    readme = REPOSITORY / "README.md"
    assert readme.is_file(), "README.md holds the map of every file"
    assert unnamed_in(readme.read_text(encoding="utf-8"), source_files()) == []


def test_a_file_that_the_readme_forgets_is_seen() -> None:
    paths = [Path("audit/a.py"), Path("audit/b.py"), Path("audit/__init__.py")]
    assert unnamed_in("map: `audit/a.py`, `xaudit/b.py`, `audit/b.pyi`", paths) == ["audit/b.py"]


def test_every_file_is_named_after_something() -> None:
    found = [p for p in repository_files() if NO_NOUN & {Path(part).stem for part in p.parts}]
    assert found == []


def test_no_path_of_one_machine_is_in_the_text() -> None:
    assert texts_with(MACHINE_PATH) == {}


def test_nothing_is_left_for_later() -> None:
    assert texts_with(UNFINISHED) == {}


def texts_with(pattern: re.Pattern[str]) -> dict[str, list[tuple[int, str]]]:
    texts = {path.as_posix(): text_of(path) or "" for path in repository_files()}
    found = {name: words_found(pattern, text) for name, text in texts.items()}
    return {name: lines for name, lines in found.items() if lines}


def test_paths_and_words_are_seen() -> None:
    # "_" marks where a word is cut, so that this file does not break its own rules.
    bad = ["/ho_me/anna/x", "see /wo_rk/main", "'/ro_ot/.cache'", "/Us_ers/Anna", "(/tm_p/a)"]
    good = ["https://x.org/wo_rk/a", "$HOME/.local", "~/.local/share", "docs/wo_rk/a", "/etc/x"]
    for line in bad:
        assert words_found(MACHINE_PATH, line.replace("_", "")), line
    for line in good:
        assert not words_found(MACHINE_PATH, line.replace("_", "")), line
    note = "# TO_DO: later".replace("_", "")
    assert words_found(UNFINISHED, f"a\n{note}") == [(2, note)]
    assert words_found(UNFINISHED, "todo, TO_DOS".replace("_", "")) == []


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


def test_what_pages_import_needs_no_torch() -> None:
    names = set(TORCH_FREE)
    for path in python_files("app.py", "pages"):
        imports = imports_of(source(path), module=module_of(path))
        names |= {name for name in imports if name.partition(".")[0] in ("audit", "cache")}
    assert failed_imports(sorted(names)) == {}


def test_an_import_of_torch_is_seen() -> None:
    assert list(failed_imports(["json", "torch", "transformers"])) == ["torch", "transformers"]
