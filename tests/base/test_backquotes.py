"""Every module, function, variable and file named in back-quotes in docs and docstrings exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.repository import REPOSITORY, repository_files, source

PACKAGES = ("audit", "pages", "cache", "tests", "benchmarks")
BACKQUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
REPOSITORY_PATH = re.compile(
    rf"(?:(?:{'|'.join(PACKAGES)}|docs|examples|\.ci)/)?[\w./*-]*\.?[\w*]+/?"
)
SOURCE_SUFFIXES = {".py", ".md", ".sh"}
PLACEHOLDER = re.compile(r"(?:KEY|WORDS|PAGE)_\w+|[a-z]\w*_[A-Z]+(?:_\w+)?|\w+_")
"""`KEY_help` stands for a family of keys, `is_` for a prefix."""

GENERATED = {Path("docs/commands.md")}
OF_OTHER_PROGRAMS = {
    "DATE_OF_BIRTH",
    "JSONDisk",
    "MaxArraySize",
    "MultiHashEmbed",
    "PATIENT_NAME",
    "RENAME_EXCHANGE",
    "ast.literal_eval",
    "audit.sbatch",
    "bernoulli_",
    "epoll",
    "masked_fill",
    "native_dropout",
    "srun",
    "torchrun",
}


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the strings that stand as statements: docstrings of everything, attributes too."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Yield every identifier of a module and the words of its strings, docstrings excepted."""
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name):
                yield from name.split(".")
            case ast.Constant(value=str(text)) if id(node) not in statements:
                yield text
                yield from IDENTIFIER.findall(text)


@cache
def files() -> tuple[Path, ...]:
    return tuple(repository_files())


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(source(path)) for path in files() if path.suffix == ".py"}


@cache
def members(path: Path) -> frozenset[str]:
    return frozenset(identifiers(trees()[path]))


@cache
def known_identifiers() -> frozenset[str]:
    """Return all identifiers of the code and the words of its data files."""
    others = trees().keys() - {Path(__file__).resolve().relative_to(REPOSITORY)}
    words = {name for path in others for name in members(path)}
    for path in files():
        words |= {path.stem, *path.parts}
        if path.suffix in {".json", ".toml", ".txt", ".html", ".css", ".yml"} or not path.suffix:
            text = (REPOSITORY / path).read_text(encoding="utf-8", errors="ignore")
            words.update(IDENTIFIER.findall(text))
    return frozenset(word.lower() for word in words)


def missing_path(reference: str) -> bool:
    """Tell whether a reference reads like a file of this repository that is not there."""
    is_source = Path(reference).suffix in SOURCE_SUFFIXES
    if reference in known_identifiers():  # a file that the program writes
        return False
    if not is_source and not reference.startswith(tuple(f"{name}/" for name in PACKAGES)):
        return False
    tail = reference.rstrip("/")
    if "*" in tail:
        return not any(path.match(tail) for path in files())
    return not any(f"/{tail}/" in f"/{path.as_posix()}/" for path in files())


def missing_module_member(reference: str) -> bool:
    """Tell whether a dotted name of this project names a module or member that is not there."""
    parts = reference.split(".")
    for n in range(len(parts), 0, -1):
        stem = Path(*parts[:n])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path in trees():
                return not members(path).issuperset(parts[n:])
    return True


@cache
def is_missing(reference: str) -> bool:
    """Tell whether a back-quoted text names something of this project that does not exist."""
    reference = reference.removesuffix("()")
    if PLACEHOLDER.fullmatch(reference) or reference in OF_OTHER_PROGRAMS:
        return False
    if DOTTED.fullmatch(reference):
        first = reference.split(".", 1)[0]
        if Path(reference).suffix in SOURCE_SUFFIXES:
            return missing_path(reference)
        if "." in reference and first in PACKAGES:
            return missing_module_member(reference)
        return not known_identifiers().issuperset(reference.lower().split("."))
    if REPOSITORY_PATH.fullmatch(reference):
        return missing_path(reference)
    return False


def texts() -> Iterator[tuple[Path, str]]:
    """Yield the texts in which references are checked: documents, and docstrings of the code."""
    for path in files():
        if path.suffix == ".md" and path not in GENERATED:
            yield path, source(path)
    for path, tree in trees().items():
        yield path, "\n".join(docstrings(tree))


@pytest.mark.long
def test_what_stands_in_backquotes_exists() -> None:
    missing = {
        path.as_posix(): names
        for path, text in texts()
        if (names := sorted({name for name in BACKQUOTED.findall(text) if is_missing(name)}))
    }
    assert missing == {}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("audit.stats", False),
        ("audit.stats.wilson", False),
        ("audit.stats.no_such_function", True),
        ("audit.no_such_module", True),
        ("audit/stats.py", False),
        ("audit/no_such_file.py", True),
        ("stats.py", False),
        ("repository_files", False),
        ("not_an_identifier_of_the_code", True),
        ("make run", False),
    ],
)
def test_a_missing_name_is_seen(reference: str, expected: bool) -> None:
    assert is_missing(reference) is expected
