"""A worker as in earnest, but for its patience: it ends soon after its last job."""

from __future__ import annotations

import sys

from audit.jobs.worker import work
from audit.shelf import Lock

if __name__ == "__main__":
    work(sys.argv[1], lock=Lock(int(sys.argv[2])), idle_seconds=1.0)
