"""Every sentence that the engine can show to a person, read out of its source."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
MARK = "\0"
"""Stands for a place until the places of a sentence are numbered."""

PLACE = re.compile(r"\{[a-z]\w*(?::[^{}]*)?\}")
"""A place of a message."""

COMMAND_LINE = re.compile(r"audit/(?:cli|__main__|corpus/demo_notes)\.py")
"""Modules whose errors only the command line shows: the commands, and the maker of the demo."""

PASSED_ON = {
    "error.what", "error.where", "error.do", "str(error)", "job.failure.what",
    "job.failure.where", "job.failure.do", "json.loads(text)", "what", "where",
    "str(home)", "str(path)", "str(row['what'])", "path.name", "name", "folder.where()",
    "self.where()", "self.where", "self.where(file)", "', '.join(sorted(rest))", "do", "place",
    "words.format(**first.get('ctx', {})) + '.'",
}  # fmt: skip
"""Arguments that hold a text made elsewhere, or a name of the reader's own."""

BORROWED = {"{0}.": "audit/text.py"}
"""Sentence made of another error's text -> where that one's `ValueError`s are."""


@dataclass(frozen=True)
class Found:
    """A sentence of the source: its kind ("sentence" or "place"), its text, where it stands."""

    kind: str
    text: str
    at: str


@dataclass(frozen=True)
class Unclear:
    """An argument that cannot be read from the source: where it stands, and how it is written."""

    at: str
    written: str


class Source:
    """One module, as far as the texts in it can be read without running it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
        self.parent = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        self.constants = _assigned(self.tree.body)
        self.imported = {
            alias.asname or alias.name: (node.module.replace(".", "/") + ".py", alias.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("audit.")
            for alias in node.names
        }

    def texts(self, value: ast.expr, *, at: ast.AST | None) -> list[str] | None:
        """Return the texts that an expression can be, places marked; None if it cannot be read."""
        if isinstance(value, ast.Constant):
            text = value.value
            return [PLACE.sub(MARK, text)] if isinstance(text, str) else None
        if isinstance(value, ast.JoinedStr):
            parts = [self._part(part, at=at) for part in value.values]
            return ["".join(chosen) for chosen in itertools.product(*parts)]
        if isinstance(value, ast.IfExp):
            one, other = self.texts(value.body, at=at), self.texts(value.orelse, at=at)
            return one + other if one and other else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            found = self.texts(value.func.value, at=at) if value.func.attr == "format" else None
            return [re.sub(r"\{\w+\}", MARK, text) for text in found] if found else None
        return self._named(value.id, at=at) if isinstance(value, ast.Name) else None

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Yield every call with the name of what is called: "AuditError", "notes.append" ..."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield node, ast.unparse(node.func)

    def _part(self, part: ast.expr, *, at: ast.AST | None) -> list[str]:
        if isinstance(part, ast.FormattedValue):
            # A code or a public constant is a place; half a sentence belongs to the sentence.
            is_public = isinstance(part.value, ast.Name) and part.value.id.isupper()
            is_public = is_public and not ast.unparse(part.value).startswith("_")
            known = [] if is_public else self.texts(part.value, at=at) or []
            return known if any(" " in text for text in known) else [MARK]
        return self.texts(part, at=at) or [MARK]

    def _named(self, name: str, *, at: ast.AST | None) -> list[str] | None:
        inside = at
        while inside is not None and not isinstance(inside, ast.FunctionDef):
            inside = self.parent.get(inside)
        if isinstance(inside, ast.FunctionDef):
            values = _assigned(ast.walk(inside)).get(name, [])
            found = [self.texts(value, at=None) for value in values]
            if found:
                return list(itertools.chain(*found)) if all(found) else None
        if name in self.constants:
            return self.texts(self.constants[name][-1], at=None)
        path, own_name = self.imported.get(name, ("", ""))
        if path and (REPOSITORY / path).is_file():
            other = _source(Path(path))
            return other._named(own_name, at=None) if own_name in other.constants else None
        return None


@cache
def engine_sentences() -> tuple[tuple[Found, ...], tuple[Unclear, ...]]:
    """Return every sentence and place that a page or a report can show, and what is unclear."""
    found: list[Found] = []
    unclear: list[Unclear] = []
    tops = [
        path for top in ("audit", "cache", "pages") for path in (REPOSITORY / top).rglob("*.py")
    ]
    for path in sorted(path.relative_to(REPOSITORY) for path in tops):
        if COMMAND_LINE.fullmatch(str(path)):
            continue
        source = _source(path)
        for call, called in source.calls():
            at = f"{path}:{call.lineno}"
            for kind, value in _shown(call, called):
                texts = source.texts(value, at=call)
                if texts is not None:
                    found += [Found(kind, one, at) for text in texts for one in _numbered(text)]
                elif ast.unparse(value) not in PASSED_ON:
                    unclear.append(Unclear(at, ast.unparse(value)))
    return tuple(found), tuple(unclear)


def first_arguments(path: str, function: str) -> list[str]:
    """Return the texts that a module gives to one of its functions as first argument."""
    source = _source(Path(path))
    texts = [
        source.texts(c.args[0], at=c) or [] for c, called in source.calls() if called == function
    ]
    return [_number(text) for text in itertools.chain(*texts)]


def _shown(call: ast.Call, called: str) -> list[tuple[str, ast.expr]]:
    if called in ("AuditError", "Failure", "StoreError"):
        named = [(k.arg, k.value) for k in call.keywords if k.arg in ("where", "do")]
        names = ("what", "where", "do", "settings")
        given = [*zip(names, call.args, strict=False), *named]
        kinds = {"what": "sentence", "do": "sentence", "where": "place"}
        return [(kinds[name], value) for name, value in given if name in kinds]
    if called in ("Shelf", "whole_folder"):
        return [("place", k.value) for k in call.keywords if k.arg == "where"]
    if called == "RowNote":
        return [("sentence", call.args[1])]
    if called == "notes.append":
        value = call.args[0]
        is_filled = isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".format")
        return (
            [("sentence", value)] if is_filled or not isinstance(value, ast.Call | ast.Name) else []
        )
    return []


def _numbered(text: str) -> list[str]:
    """Return a text with numbered places, borrowed texts put in; nothing for an empty one."""
    numbered = _number(text.removeprefix(f"{MARK}: "))
    if numbered in BORROWED:
        return [f"{one}." for one in first_arguments(BORROWED[numbered], "ValueError")]
    return [numbered] if numbered else []


def _number(text: str) -> str:
    numbers = itertools.count()
    return re.sub(MARK, lambda _: f"{{{next(numbers)}}}", text)


def _assigned(nodes: object) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:  # type: ignore[attr-defined]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


@cache
def _source(path: Path) -> Source:
    return Source(path)
