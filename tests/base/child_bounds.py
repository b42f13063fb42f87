"""A call in a process of its own: how it ended, in little time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.repository import REPOSITORY

_SCRIPT = """
import json, sys, time
from pathlib import Path
from audit.errors import AuditError
path = Path(sys.argv[1])
{before}
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


def told_in_bounds(before: str, call: str, path: Path) -> str:
    """Run `call` after `before`, with `path`; return its refusal ("": none).

    An exception fails the test, and so do 10 seconds of a processor or 500 MB of memory more.
    """
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(before=before, call=call), str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    refusal, seconds, n_mb = json.loads(done.stdout.splitlines()[-1])
    assert seconds < 10 and n_mb < 500, (refusal, seconds, n_mb)
    return str(refusal)
