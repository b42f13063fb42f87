"""How many seeded faults in a room's code do the tests notice? Before and after tests are changed.

A mutant is the room with one small fault: a comparison, an operator, a constant, a condition or a
statement is another. Faults are drawn over all lines inside of functions; one that no test reaches
is not noticed. Which test reaches which line is measured once, for all rooms, in the checkout:

    python -m pytest -n 2 --dist loadfile --ignore tests/e2e -m "not slow and not gpu" -vv \
        --cov=audit --cov=cache --cov-context=test --cov-report= --durations=0 > durations.log
    python benchmarks/mutants.py audit/attack -n 200 --durations durations.log --out found.jsonl

Of the tests that reach a fault the fastest and those that reach least beside it are run, each
mutant in a fork of one process that has loaded the libraries. A run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import coverage
import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
N_OF_EACH, SECONDS_OF_EACH = 25, 10.0
"""So many of the fastest tests that reach a line are run, and so many that reach least beside."""
_LIBRARIES = (
    "torch",
    "transformers",
    "scipy.stats",
    "sklearn.metrics",
    "pandas",
    "streamlit.testing.v1",
    "jinja2",
    "pydantic",
)
_OPTIONS = (
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}


@dataclass(frozen=True)
class Mutant:
    """One fault: the file, the line, what was changed, and the file's text with it."""

    path: Path
    line: int
    what: str
    text: str


def _faults(node: ast.stmt | ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """Yield the faults that a node can have, each as the node that replaces it."""
    yield from _operator_faults(node)
    match node:
        case ast.Constant(bool(truth)):
            yield f"not {truth}", ast.Constant(not truth)
        case ast.Constant(int(number) | float(number)):
            yield f"{number!r} + 1", ast.Constant(number + 1)
        case ast.If(condition, body, otherwise):
            yield "not", ast.If(ast.UnaryOp(ast.Not(), condition), body, otherwise)
        case ast.IfExp(condition, then, other):
            yield "not", ast.IfExp(ast.UnaryOp(ast.Not(), condition), then, other)
        case ast.Raise() | ast.AugAssign() | ast.Continue():
            yield f"no {type(node).__name__}", ast.Pass()
        case ast.Expr(statement) if not isinstance(statement, ast.Constant):
            yield f"no {type(node).__name__}", ast.Pass()


def _operator_faults(node: ast.stmt | ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """Yield a comparison, sum or connective with another operator."""
    match node:
        case ast.Compare(left, [first, *others], operands) if type(first) in _COMPARISONS:
            yield (
                type(first).__name__,
                ast.Compare(left, [_COMPARISONS[type(first)](), *others], operands),
            )
        case ast.BinOp(left, sign, right) if type(sign) in _OPERATORS:
            yield type(sign).__name__, ast.BinOp(left, _OPERATORS[type(sign)](), right)
        case ast.BoolOp(ast.And(), operands):
            yield "And", ast.BoolOp(ast.Or(), operands)
        case ast.BoolOp(ast.Or(), operands):
            yield "Or", ast.BoolOp(ast.And(), operands)


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self.new, node) if node is self.old else self.generic_visit(node)


def _inside(tree: ast.Module) -> Iterator[ast.stmt | ast.expr]:
    """Yield the statements and expressions of the functions' bodies."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    node_ids: set[int] = set()
    for function in functions:
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.stmt | ast.expr) and id(node) not in node_ids:
                    node_ids.add(id(node))
                    yield node


def mutants(room: Path, *, n: int, seed: int) -> list[Mutant]:
    """Draw so many faults from a room's functions."""
    places = []
    for path in sorted(room.rglob("*.py")) if room.is_dir() else [room]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        places += [
            (path, number) for number, node in enumerate(_inside(tree)) if any(_faults(node))
        ]
    mutant_list = []
    for path, number in random.Random(seed).sample(places, min(n, len(places))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        node = list(_inside(tree))[number]
        fault, new = next(iter(_faults(node)))
        with suppress(ValueError):  # of some texts in braces that it cannot write
            text = ast.unparse(ast.fix_missing_locations(_Put(node, new).visit(tree)))
            mutant_list.append(Mutant(path, node.lineno, fault, text))
    return mutant_list


class Reach:
    """Which tests reach a line, and how long each takes."""

    def __init__(self, room: Path, *, durations: Path) -> None:
        self._data = coverage.CoverageData(str(CHECKOUT / ".coverage"))
        self._data.read()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        for report_line in durations.read_text().splitlines():
            if match := re.fullmatch(r"([\d.]+)s (?:call|setup) +(tests/.*)", report_line):
                self._seconds[match[2]] += float(match[1])
        paths = sorted(room.rglob("*.py")) if room.is_dir() else [room]
        self._tests: dict[tuple[Path, int], set[str]] = {}
        self._n_lines: Counter[str] = Counter()
        for path in paths:
            for line, contexts in self._data.contexts_by_lineno(str(path)).items():
                tests = {context.rpartition("|")[0] for context in contexts if context}
                self._tests[path, line] = tests
                self._n_lines.update(tests)

    def chosen(self, mutant: Mutant) -> tuple[list[str], float]:
        """Return the tests to run for a mutant, the fastest first, and how long they take."""
        tests = self._tests.get((mutant.path, mutant.line), set())
        fast = sorted(tests, key=lambda t: (self._seconds[t], t))
        close = sorted(tests, key=lambda t: (self._n_lines[t], self._seconds[t], t))
        chosen = {*self._first(fast), *self._first(close)}
        ordered_tests = sorted(chosen, key=lambda t: (self._seconds[t], t))
        return ordered_tests, sum(self._seconds[t] for t in ordered_tests)

    def _first(self, tests: list[str]) -> list[str]:
        """Return the first of some tests, as many as fit into the time, one at least."""
        ends = accumulate(self._seconds[test] for test in tests)
        n = sum(end <= SECONDS_OF_EACH for end in ends)
        return tests[: min(max(n, 1), N_OF_EACH)]


def is_noticed(mutant: Mutant, tests: list[str], *, seconds: float) -> bool:
    """Put the fault in, run the tests in a fork until one fails, and put the file back."""
    source = mutant.path.read_text(encoding="utf-8")
    mutant.path.write_text(mutant.text, encoding="utf-8")
    try:
        child = os.fork()
        if not child:
            os.setsid()
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            code = pytest.main([*_OPTIONS, *tests])
            os._exit(int(code != 0))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            process_id, status = os.waitpid(child, os.WNOHANG)
            if process_id:
                return status != 0
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return True
    finally:
        mutant.path.write_text(source, encoding="utf-8")


def main() -> None:
    """Measure one room and print how many faults were noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", type=Path)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--first", type=int, help="only so many of them for now")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--durations", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a line for each fault")
    options = parser.parse_args()
    room = options.room.resolve()
    reach = Reach(room, durations=options.durations)
    earlier_lines = options.out.read_text().splitlines() if options.out.exists() else []
    sys.dont_write_bytecode = True
    for library in _LIBRARIES:
        importlib.import_module(library)
    os.chdir(CHECKOUT)
    sample = mutants(room, n=options.n, seed=options.seed)
    right = next(candidate for candidate in sample if reach.chosen(candidate)[0])
    text = right.path.read_text(encoding="utf-8")
    if is_noticed(replace(right, text=text), reach.chosen(right)[0], seconds=600):
        sys.exit("The tests fail without a fault: nothing can be measured.")
    for mutant in sample[len(earlier_lines) : options.first]:
        tests, seconds = reach.chosen(mutant)
        noticed = bool(tests) and is_noticed(mutant, tests, seconds=60 + 10 * seconds)
        location = f"{mutant.path.relative_to(CHECKOUT)}:{mutant.line}"
        earlier_lines.append(
            json.dumps(
                {"at": location, "what": mutant.what, "n_tests": len(tests), "noticed": noticed}
            )
        )
        with options.out.open("a") as file:
            file.write(earlier_lines[-1] + "\n")
    n_noticed = sum(json.loads(line)["noticed"] for line in earlier_lines)
    sys.stdout.write(f"{room.name}: {n_noticed} of {len(earlier_lines)} faults noticed\n")


if __name__ == "__main__":
    main()
