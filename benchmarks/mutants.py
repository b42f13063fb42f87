"""How many seeded faults in a room's code do its tests notice? Before and after tests are changed.

A mutant is the room with one small fault: a comparison, an operator, a constant, a condition or a
statement is another. Tests that never reach the faulty line are not run; the fastest come first.
What was found is kept line by line in `--out`, so a stopped run goes on.

    python benchmarks/mutants.py audit/attack --tests tests/attack tests/membership -n 200 --out F
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
_TRACE = """
import json, os, sys, time
ROOM, OUT = os.environ["MUTANT_ROOM"], os.environ["MUTANT_OUT"]
seen, lines, began = {}, set(), [0.0]
def local(frame, event, arg):
    if event == "line":
        lines.add((frame.f_code.co_filename, frame.f_lineno))
    return local
def trace(frame, event, arg):
    return local if frame.f_code.co_filename.startswith(ROOM) else None
def pytest_runtest_protocol(item):
    lines.clear()
    began[0] = time.monotonic()
    sys.settrace(trace)
def pytest_runtest_logfinish(nodeid):
    sys.settrace(None)
    seen[nodeid] = (time.monotonic() - began[0], sorted(lines))
def pytest_sessionfinish():
    with open(OUT, "w") as file:
        json.dump(seen, file)
"""


@dataclass(frozen=True)
class Mutant:
    """One fault: the file, the line, what was changed, and the file's text with it."""

    path: Path
    line: int
    what: str
    text: str


def _faults(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the faults that a node can have, each as a changed copy."""
    changed = copy.copy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        changed.ops = [_OTHER[type(node.ops[0])](), *node.ops[1:]]  # type: ignore[attr-defined]
        yield type(node.ops[0]).__name__, changed
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _OTHER:
        changed.op = _OTHER[type(node.op)]()  # type: ignore[attr-defined]
        yield type(node.op).__name__, changed
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        changed.value = node.value + 1  # type: ignore[attr-defined,operator]
        yield f"{node.value} + 1", changed
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        changed.value = not node.value  # type: ignore[attr-defined]
        yield f"not {node.value}", changed
    elif isinstance(node, ast.If | ast.IfExp):
        changed.test = ast.UnaryOp(ast.Not(), node.test)  # type: ignore[attr-defined]
        yield "not", changed
    elif isinstance(node, ast.Raise | ast.AugAssign | ast.Continue) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield f"no {type(node).__name__}", ast.Pass()


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self.new, node) if node is self.old else self.generic_visit(node)


def mutants(room: Path, reached: set[tuple[str, int]], *, n: int, seed: int) -> list[Mutant]:
    """Draw so many faults from the lines that some test reaches."""
    places = []
    for path in sorted(room.rglob("*.py")) if room.is_dir() else [room]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for number, node in enumerate(ast.walk(tree)):
            line = getattr(node, "lineno", 0)
            if (str(path), line) in reached and any(_faults(node)):
                places.append((path, number, line))
    found = []
    for path, number, line in random.Random(seed).sample(places, min(n, len(places))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        node = list(ast.walk(tree))[number]
        what, new = next(iter(_faults(node)))
        text = ast.unparse(ast.fix_missing_locations(_Put(node, new).visit(tree)))
        found.append(Mutant(path, line, what, text))
    return found


def reached_lines(room: Path, tests: list[str], place: Path) -> dict[str, tuple[float, list[list]]]:
    """Run the tests once and return which lines of the room each of them reaches."""
    (place / "mutant_trace.py").write_text(_TRACE)
    out = place / "reached.json"
    if not out.exists():
        environment = {**os.environ, "MUTANT_ROOM": str(room), "MUTANT_OUT": str(out),
                       "PYTHONPATH": f"{place}:{CHECKOUT}"}  # fmt: skip
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "mutant_trace", "-m",
                        "not slow and not gpu", *tests], cwd=CHECKOUT, env=environment,
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    return json.loads(out.read_text())


def is_noticed(mutant: Mutant, tests: list[str], *, seconds: float) -> bool:
    """Put the fault in, run the tests until one fails, and put the file back."""
    before = mutant.path.read_text(encoding="utf-8")
    mutant.path.write_text(mutant.text, encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=CHECKOUT, capture_output=True, timeout=seconds, check=False,
        )  # fmt: skip
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        mutant.path.write_text(before, encoding="utf-8")


def main() -> None:
    """Measure one room and print how many faults were noticed, and which were not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", type=Path)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="folder for what was found")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    room = options.room.resolve()
    by_test = reached_lines(room, options.tests, options.out)
    tests_of: dict[tuple[str, int], list[tuple[float, str]]] = {}
    for test, (seconds, lines) in by_test.items():
        for path, line in lines:
            tests_of.setdefault((path, line), []).append((seconds, test))
    kept = options.out / "found.jsonl"
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    drawn = mutants(room, set(tests_of), n=options.n, seed=options.seed)
    for mutant in drawn[len(known) :]:
        tests = sorted(tests_of[str(mutant.path), mutant.line])[:60]
        limit = 60 + 5 * sum(seconds for seconds, _ in tests)
        noticed = is_noticed(mutant, [test for _, test in tests], seconds=limit)
        name = str(mutant.path.relative_to(CHECKOUT))
        known.append({"at": f"{name}:{mutant.line}", "what": mutant.what, "noticed": noticed})
        with kept.open("a") as file:
            file.write(json.dumps(known[-1]) + "\n")
        print(known[-1], flush=True)
    n_noticed = sum(one["noticed"] for one in known)
    print(f"{n_noticed} of {len(known)} faults noticed")


if __name__ == "__main__":
    main()
