"""Where the processor's time goes in the two demo audits, part by part.

    python -m benchmarks.demo_profile --most 0.10

Both audits run in this process with an empty data directory. A timer that counts processor time
looks at the stack every few milliseconds, and the time since the last look goes to the innermost
module of the engine on it: to "forward" if a model is being asked, to "imports" if a module is
being loaded. A product that takes long is seen at the next call after it, with all of its time.
Ends with 1 if a part but the forward has a larger share than `--most`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from audit.home import HOME_VARIABLE

FORWARD, IMPORTS, OTHER = "forward", "imports", "other"
_ROOT = Path(__file__).resolve().parents[1]
_ASKED = (f"{_ROOT}/audit/models/forward.py", ("logits", "compute_logits"))
_OURS = tuple(f"{_ROOT}/{room}/" for room in ("audit", "cache"))
_SECONDS = 0.004


@dataclass(frozen=True)
class TimeShares:
    """Shares of an audit's processor time, by part and by function, the largest first."""

    cpu_seconds: float
    parts: dict[str, float]
    functions: dict[str, float]


def main() -> None:
    """Audit, print shares, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, help="of scenario 1, as the demo has by default")
    parser.add_argument("--inputs", type=int, help="of scenario 2")
    parser.add_argument("--most", type=float, default=0.10, help="share of a part, 0-1")
    options = parser.parse_args()
    given_sizes = {"n_documents": options.documents, "n_inputs": options.inputs}
    sizes = {name: n for name, n in given_sizes.items() if n}
    with TemporaryDirectory() as home, sampled() as spent:
        os.environ[HOME_VARIABLE] = home
        _audit(sizes)
    share_table = shares(spent)
    print(json.dumps(asdict(share_table), indent=1))
    large = [
        name
        for name, share in share_table.parts.items()
        if share > options.most and name != FORWARD
    ]
    if large:
        print(f"Above {options.most:.0%}: {', '.join(large)}", file=sys.stderr)
    sys.exit(bool(large))


def _audit(sizes: dict[str, int]) -> None:
    from audit.demo import DemoTask
    from audit.task import Contact

    quiet = Contact(listen=lambda _: None, should_stop=lambda: False, say=lambda _: None)
    DemoTask().with_(**sizes).run(quiet)


@contextmanager
def sampled() -> Iterator[Mapping[tuple[str, str], float]]:
    """Sample this process while the block runs: (part, function) -> processor seconds."""
    spent: defaultdict[tuple[str, str], float] = defaultdict(float)
    last = time.process_time()

    def look(_: int, frame: FrameType | None) -> None:
        nonlocal last
        cpu_seconds = time.process_time()
        spent[place_of(frame)] += cpu_seconds - last
        last = cpu_seconds

    old_handler = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    try:
        yield spent
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old_handler)


def place_of(frame: FrameType | None) -> tuple[str, str]:
    """Return the part and the function that a stack belongs to."""
    owner = None
    while frame is not None:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if owner is None and file.startswith("<frozen importlib"):
            owner = (IMPORTS, IMPORTS)
        if file == _ASKED[0] and function in _ASKED[1]:
            return FORWARD, FORWARD
        if owner is None and file.startswith(_OURS):
            owner = (str(Path(file).relative_to(_ROOT)), frame.f_code.co_qualname)
        frame = frame.f_back
    return owner or (OTHER, OTHER)


def shares(spent: Mapping[tuple[str, str], float]) -> TimeShares:
    """Return shares of the processor's time, by part, and by function where it has a hundredth."""
    total = sum(spent.values())
    parts: defaultdict[str, float] = defaultdict(float)
    functions: dict[str, float] = {}
    for (part, name), seconds in spent.items():
        parts[part] += seconds / total
        if seconds > 0.01 * total:
            functions[f"{part}: {name}"] = seconds / total
    return TimeShares(round(total, 2), _sort_shares(parts), _sort_shares(functions))


def _sort_shares(shares_by_name: Mapping[str, float]) -> dict[str, float]:
    ranked = sorted(shares_by_name.items(), key=lambda pair: -pair[1])
    return {name: round(share, 4) for name, share in ranked}


if __name__ == "__main__":
    main()
