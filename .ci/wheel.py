"""Write the one package of the wheel, `kart_audit`, from the folders of the repository.

`app.py`, `audit`, `cache` and `pages` become modules of `kart_audit`, so that other packages of
these names are not in the way. Imports get the prefix while the wheel is built, and sentences name
the installed command. `docs/decisions/code-layout.md` says why.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "kart_audit"
FOLDERS = ("audit", "cache", "pages")
FILES = ("app.py", ".streamlit/config.toml")
COMMANDS = {
    re.compile(r"python -m audit\b(?!\.)"): "kart-audit",
    re.compile(r"python -m streamlit run app\.py"): "kart-audit app",
}
"""Command in a checkout -> the installed one."""
SENTENCES = ("audit/catalogue", "pages/ui/words")
"""Folders whose texts name commands."""


class WheelHook(BuildHookInterface[Any]):
    """Hatchling's hook: it adds the written package to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the package into a temporary folder, and have it packed."""
        if version == "editable":
            raise RuntimeError(
                "An editable installation would put packages called audit, cache and pages into "
                "this environment. Use the checkout itself: make test"
            )
        self._folder = Path(tempfile.mkdtemp())
        write_package(Path(self.root), self._folder)
        build_data["force_include"][str(self._folder)] = PACKAGE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        shutil.rmtree(self._folder)


def write_package(root: Path, folder: Path) -> None:
    """Write `kart_audit` into a folder."""
    names = sorted([*FILES, *list_files(root)])
    modules = {module_name(name) for name in names if name.endswith(".py")}
    for name in names:
        content = (root / name).read_bytes()
        if name.endswith(".py"):
            content = add_prefix(content, modules=modules, place=name)
        if name.endswith(".py") or name.startswith(SENTENCES):
            content = rename_commands(content.decode()).encode()
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for path in (root / ".ci" / PACKAGE).glob("*.py*"):
        shutil.copyfile(path, folder / path.name)


def list_files(root: Path) -> Iterator[str]:
    """Yield the code and the data of the folders."""
    for top in FOLDERS:
        for path in (root / top).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                yield path.relative_to(root).as_posix()


def module_name(name: str) -> str:
    """Return the dotted name of a Python file."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def rename_commands(text: str) -> str:
    """Replace the commands of a checkout with the installed ones."""
    for pattern, command in COMMANDS.items():
        text = pattern.sub(command, text)
    return text


def add_prefix(source: bytes, *, modules: set[str], place: str) -> bytes:
    """Put `kart_audit.` before our modules' names in imports and in strings that are such names."""
    lines = source.splitlines(keepends=True)
    prefix = f"{PACKAGE}.".encode()
    for row, column in sorted(find_names(source, modules=modules, place=place), reverse=True):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + prefix + line[column:]
    return b"".join(lines)


def find_names(source: bytes, *, modules: set[str], place: str) -> Iterator[tuple[int, int]]:
    """Yield line and column, in bytes, of every name of one of our modules."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and is_ours(node.module or ""):
            yield node.lineno, node.col_offset + len("from ")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if is_ours(alias.name):
                    if not alias.asname:  # it would bind `kart_audit`
                        raise ValueError(f"{place}:{node.lineno}: import {alias.name} as NAME")
                    yield alias.lineno, alias.col_offset
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if "." in name and name in modules and re.fullmatch(r"[\w.]+(:\w+)?", node.value):
                opening = lines[node.lineno - 1][node.col_offset :]
                if not opening.startswith((b'"' + name.encode(), b"'" + name.encode())):
                    raise ValueError(f"{place}:{node.lineno}: {name} is no plain string")
                yield node.lineno, node.col_offset + 1


def is_ours(module: str) -> bool:
    """Whether a module stands in one of the folders."""
    return module.partition(".")[0] in {*FOLDERS, "app"}
