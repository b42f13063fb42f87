"""The process of one job: does the work of its order and records how it ended."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from audit.errors import AuditCancelled, AuditError, Message, places_of
from audit.home import stay_offline
from audit.jobs import table
from audit.jobs.locks import jobs_dir
from audit.jobs.service import open_log, open_task, task_class
from audit.jobs.table import Failure, table_contact

NICENESS_VARIABLE = "KART_AUDIT_JOB_NICENESS"
_LAST = 19  # the greatest niceness
_JOB_BYTES = 64  # more than the identifier of a job has


def lower_priority(kind: str) -> None:
    """Give pages priority: long work uses only the processor and disk time that they leave.

    Work of a kind that people wait for at the page keeps the usual priority.

    The kernel ranks disk access by niceness, too. If it groups processes by session, niceness ranks
    only within a session, so the job's session gets the same niceness. Beside other work without a
    pause the job then gets about a hundredth of a processor; `NICENESS_VARIABLE` sets a lower
    niceness.
    """
    niceness_text = os.environ.get(NICENESS_VARIABLE, "")
    usual_niceness = 0 if task_class(kind).is_awaited else _LAST
    niceness = min(int(niceness_text), _LAST) if niceness_text.isdecimal() else usual_niceness
    os.nice(niceness)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness))


def _wait_for_job(kind: str, descriptor: str) -> str:
    """Import what a kind of work needs, then return the job that comes with the device's lock.

    The descriptor is that of a socket. Return "" if its other end was closed: the worker has ended.
    """
    task_class(kind).import_engine()
    with socket.socket(fileno=int(descriptor)) as line:
        message, *_ = socket.recv_fds(line, _JOB_BYTES, 1)
    job_id = message.decode()
    if job_id:
        with open_log(f"job-{job_id}") as log:
            os.dup2(log.fileno(), sys.stdout.fileno())
            os.dup2(log.fileno(), sys.stderr.fileno())
    return job_id


def main() -> int:
    """Do a job, if it is still running.

    The command line names the job, or a kind of work and the socket that the job will come from.
    """
    os.umask(0o077)
    stay_offline()
    if len(sys.argv) > 2:
        lower_priority(sys.argv[1])
        job = table.get(_wait_for_job(*sys.argv[1:]))
    elif (job := table.get(sys.argv[1])) is not None:
        lower_priority(job.kind)
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
