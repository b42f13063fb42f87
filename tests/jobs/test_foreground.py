"""Jobs that a command runs in its own process: in their turn, joined, stopped, interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from audit.errors import AuditCancelled, AuditError
from audit.jobs import foreground, service
from audit.jobs.locks import jobs_dir
from audit.jobs.table import Job
from audit.progress import Progress
from tests.jobs import fake_child
from tests.jobs.fake_jobs import (
    busy_device,
    counting,
    home,
    processes,
    question,
    start_held_job,
    until,
    until_state,
    usual_home,
)
from tests.repository import REPOSITORY

__all__ = ["home", "usual_home"]


class Command:
    """A command that answers a question, in a thread of this process."""

    def __init__(self, question: foreground.Question) -> None:
        self.messages: list[str] = []
        self.progress: list[Progress] = []
        self.result: tuple[str, ...] | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._answer, args=(question,), daemon=True)
        self._thread.start()

    def _answer(self, question: foreground.Question) -> None:
        try:
            self.result = foreground.answer_here(
                question, progress=self.progress.append, say=self.messages.append
            )
        except (AuditError, AuditCancelled) as error:
            self.error = error

    def wait(self) -> None:
        self._thread.join()  # it ends with its job, however long that takes


def only_job() -> Job:
    (job,) = service.jobs()
    return job


def test_a_command_answers_in_its_own_process_and_is_seen_as_a_job(home, tmp_path):
    (tmp_path / "hold").touch()
    command = Command(counting(tmp_path / "a", n=3))
    until(lambda: [j.state for j in service.jobs()] == ["running"])
    assert only_job().runner == "cli"
    until(lambda: only_job().seconds_left == 9.0)
    service.recover()  # its process lives: nothing is settled, and no worker is needed
    assert only_job().state == "running"
    (tmp_path / "hold").unlink()
    command.wait()
    assert command.result == (f"{3:064d}",)
    assert (only_job().state, only_job().result) == ("done", command.result)
    assert processes("worker") == []
    assert {int(line.split()[1]) for line in (tmp_path / "a").read_text().splitlines()} == {
        os.getpid()
    }
    assert [p.name for p in jobs_dir().iterdir() if p.name.startswith("job-")] == []
    assert list(jobs_dir("orders").iterdir()) == []
    with busy_device():
        pass


def test_a_command_waits_for_the_device_and_says_so(home, tmp_path):
    start_held_job(tmp_path / "a", digest="a")
    command = Command(counting(tmp_path / "b", digest="b"))
    until(lambda: command.messages)
    assert command.messages[0].startswith("Waiting for 1 other job(s) on cpu. This is job ")
    (tmp_path / "hold").unlink()
    command.wait()
    assert command.result is not None
    assert [job.state for job in service.jobs()] == ["done", "done"]


def test_the_worker_leaves_a_waiting_command_its_turn(home, tmp_path):
    with busy_device():
        command = Command(counting(tmp_path / "b", digest="b"))
        until(lambda: len(service.jobs()) == 1)
        job = service.ask(counting(tmp_path / "a", digest="a"))
        assert job.n_before == 1
    command.wait()
    until_state(job, "done")
    assert (tmp_path / "b").stat().st_mtime_ns < (tmp_path / "a").stat().st_mtime_ns
    assert len(processes("child")) == 1


def test_a_command_joins_the_job_that_answers_its_question(home, tmp_path):
    job = start_held_job(tmp_path / "a", n=4)
    command = Command(counting(tmp_path / "a", n=4))
    until(lambda: command.progress)
    assert job.job_id in command.messages[0]
    (tmp_path / "hold").unlink()
    command.wait()
    assert command.result == service.job(job.job_id).result == (f"{4:064d}",)
    assert len(service.jobs()) == 1


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_commands_job_can_be_cancelled_by_anybody(home, tmp_path, is_waiting):
    with busy_device(is_waiting):
        command = Command(counting(tmp_path / "a", is_held=True))
        until(lambda: [j.state for j in service.jobs()] == ["queued" if is_waiting else "running"])
        service.cancel(only_job().job_id)
        command.wait()
        assert isinstance(command.error, AuditCancelled)
        assert only_job().state == "cancelled"


def test_who_follows_a_failed_job_is_told_why(home, tmp_path):
    with busy_device():
        job = service.ask(question("refuse"))
        command = Command(question("refuse"))
        until(lambda: command.messages)
    command.wait()
    assert str(command.error) == "micro-batch: Memory ran out. Try less."
    assert service.job(job.job_id).state == "failed"


def test_a_commands_own_failure_is_in_the_table_and_raised_and_a_mistake_leaves_no_running_job(
    home,
):
    with pytest.raises(AuditError, match="Memory ran out"):
        foreground.answer_here(question("refuse"), progress=print, say=print)
    assert (only_job().state, only_job().failure.do) == ("failed", "Try less.")
    with pytest.raises(ValueError, match=fake_child.SECRET):
        foreground.answer_here(question("mistake"), progress=print, say=print)
    assert service.jobs()[0].state == "interrupted"


KILLED_COMMAND = """
import sys
from pathlib import Path
from audit.jobs import foreground
from tests.jobs import fake_child
from tests.jobs.fake_jobs import counting
fake_child.note_process("command")
foreground.answer_here(counting(Path(sys.argv[1]), n=3), progress=lambda _: None, say=print)
"""


def command_process(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", KILLED_COMMAND, str(path)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )


@pytest.mark.long
@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_killed_command_is_interrupted_and_can_be_resumed(home, tmp_path, is_waiting):
    (tmp_path / "hold").touch()
    with busy_device(is_waiting):
        command = command_process(tmp_path / "a")
        until(lambda: [j.state for j in service.jobs()] == ["queued" if is_waiting else "running"])
        command.send_signal(signal.SIGKILL)
        command.wait()
    service.recover()
    until(lambda: only_job().state == "interrupted")
    assert service.can_resume(only_job())
    (tmp_path / "hold").unlink()
    service.resume(only_job().job_id)
    ended_job = until_state(only_job(), "done", "failed")
    assert (ended_job.state, ended_job.runner) == ("done", "worker")
    assert len(processes("child")) == 1


def test_ctrl_c_cancels_the_commands_own_job(home, tmp_path):
    (tmp_path / "hold").touch()
    command = command_process(tmp_path / "a")
    until(lambda: [j.state for j in service.jobs()] == ["running"])
    command.send_signal(signal.SIGINT)
    assert command.wait() != 0
    assert only_job().state == "cancelled"
    assert service.can_resume(only_job())
