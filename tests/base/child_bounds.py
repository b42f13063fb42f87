"""A call in a process of its own: how it ended, and what time and memory it took."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

from tests.repository import REPOSITORY

_SCRIPT = """
import json, sys, time
{imports}
def vm(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024
before, start = vm("VmRSS"), time.process_time()
open("/proc/self/clear_refs", "w").write("5")
told = ""
try:
    {call}
except AuditError as error:
    told = str(error)
seconds = time.process_time() - start
print(json.dumps([told, seconds, vm("VmHWM") - before]))
"""


class Ended(NamedTuple):
    """The refusal ("": none), seconds of a processor, peak memory above what was taken before."""

    refusal: str
    seconds: float
    n_mb: float


def run_bounded(imports: str, call: str, *paths: Path, n_seconds: int = 300) -> Ended:
    """Run `call` after `imports`, with `paths` as `sys.argv[1:]`; an exception fails the test."""
    script = _SCRIPT.format(
        imports=textwrap.dedent(imports) + "\nfrom audit.errors import AuditError", call=call
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=n_seconds,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Ended(*json.loads(done.stdout.splitlines()[-1]))
