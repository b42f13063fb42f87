"""The process of one job: does the work of its order and records how it ended."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from audit.errors import AuditCancelled, AuditError, Message, places_of
from audit.home import stay_offline
from audit.jobs import table
from audit.jobs.locks import jobs_dir
from audit.jobs.service import open_task
from audit.jobs.table import Failure, table_contact

NICENESS_VARIABLE = "KART_AUDIT_JOB_NICENESS"
_LAST = 19  # the greatest niceness


def lower_priority() -> None:
    """Give pages priority: long work uses only the processor and disk time that they leave.

    The kernel ranks disk access by niceness, too. If it groups processes by session, niceness ranks
    only within a session, so the job's session gets the same niceness. Beside other work without a
    pause the job then gets about a hundredth of a processor; `NICENESS_VARIABLE` sets a lower
    niceness.
    """
    niceness_text = os.environ.get(NICENESS_VARIABLE, "")
    niceness = min(int(niceness_text), _LAST) if niceness_text.isdecimal() else _LAST
    os.nice(niceness)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness))


def main() -> int:
    """Do the job that the command line names, if it is still running."""
    os.umask(0o077)
    lower_priority()
    stay_offline()
    job = table.get(sys.argv[1])
    if job is None or job.state != "running":
        return 0

    def record_mistake(
        kind: type[BaseException], error: BaseException, _: TracebackType | None
    ) -> None:
        sys.stderr.write(f"{places_of(error)}\n")
        failure = Failure(
            Message("The program made a mistake ({kind}).", kind=kind.__name__),
            where=Message("job {job_id}", job_id=job.job_id),
            do="Everything finished is kept. The job's log in the data directory says where.",
        )
        table.end(job.job_id, state="failed", failure=failure)

    sys.excepthook = record_mistake
    with suppress(AuditCancelled, AuditError, MemoryError), open_task(job) as task:
        result = task.run(table_contact(job.job_id))
        table.end(job.job_id, state="done", result=result)
        (jobs_dir("logs") / f"job-{job.job_id}.log").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
