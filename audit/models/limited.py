"""Process foreign files in separate processes with limits of time and memory.

Building a tokenizer, or splitting text with it, executes its files in a library without limits. The
process of the pages must not do this: a file of four kilobytes could end the server for everybody.
So a nursery process imports the library once and forks for every call. The system ends a child that
hangs or grows, and the caller gets a refusal. Answers are JSON, because a child may by then be
under foreign control.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import json
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit.errors import AuditCancelled, AuditError, Message, places_of
from audit.models.model_folder import COPY_TOKENIZER
from audit.shelf import scratch_folder

PROCESSOR_SECONDS = 30
"""Processor time for one call. Comparing two tokenizers of 260,000 tokens takes some 10 seconds."""
WALL_SECONDS = 120
"""Elapsed time for one call, which is longer because other work may keep the processors busy."""
MEMORY_BYTES = 2_000_000_000
"""Memory for one call in addition to that of the library."""
_MAX_ANSWER_BYTES = 64_000_000
_NAME_BYTES = 200  # all messages to the nursery have this length, which keeps them apart
_STOP_SECONDS = 0.2
"""Seconds between two questions whether to stop."""
_AT_ONCE = threading.BoundedSemaphore(4)
_CHECKOUT = Path(__file__).resolve().parents[2]


def call_limited(
    function: Callable[..., Any],
    *inputs: Any,
    place: str,
    seconds: int = PROCESSOR_SECONDS,
    n_bytes: int = MEMORY_BYTES,
    wall_seconds: int = WALL_SECONDS,
    should_stop: Callable[[], bool] = lambda: False,
    refusal: AuditError | None = None,
) -> Any:
    """Call a function of a module in a process with limits, and return its answer, a JSON value.

    `seconds` limits processor time; `n_bytes` limits memory in addition to that of the library. The
    process also ends if the caller does, or if `should_stop` says so.

    Raises
    ------
    AuditError
        If the function raises it, or if the call reaches a limit. The error is then `refusal`, or
        by default an error about a tokenizer at `place`.
    AuditCancelled
        If `should_stop` returned true.
    """
    order = pickle.dumps((function, inputs))
    with _AT_ONCE, scratch_folder() as scratch:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                _NURSERY.fork_child(function.__module__, theirs)
            head = json.dumps([str(scratch), seconds, n_bytes, wall_seconds]).encode()
            answer = _exchange(
                ours, head + b"\n" + order, wall_seconds=wall_seconds, should_stop=should_stop
            )
    match json.loads(answer or b"{}"):
        case {"answer": value}:
            return value
        case {"what": message, "where": message_place, "do": advice}:
            raise AuditError(
                Message.read(message), where=Message.read(message_place), do=Message.read(advice)
            )
        case {"mistake": str(places)}:
            raise RuntimeError(places)
    raise refusal or AuditError(
        "Its tokenizer took more than {seconds} seconds of processor time, or more than "
        "{n_bytes:.0f} GB of memory, and was stopped.",
        where=place,
        do=COPY_TOKENIZER,
        seconds=seconds,
        n_bytes=n_bytes / 1e9,
    )


def _exchange(
    line: socket.socket, order: bytes, *, wall_seconds: int, should_stop: Callable[[], bool]
) -> bytes:
    """Send an order and return the answer; b"" if the child is gone or answers too much.

    The child has a clock of its own that ends it. The deadline here is for a child that has come
    under foreign control.
    """
    deadline = time.monotonic() + wall_seconds + 10
    answer = bytearray()
    try:
        line.settimeout(wall_seconds + 10)
        line.sendall(order)
        line.shutdown(socket.SHUT_WR)
        line.settimeout(_STOP_SECONDS)
        while time.monotonic() < deadline:
            if should_stop():
                raise AuditCancelled
            with contextlib.suppress(TimeoutError):
                part = line.recv(1 << 16)
                answer += part
                if not part or len(answer) > _MAX_ANSWER_BYTES:
                    break
    except OSError:  # a child that ended before it read its order
        return b""
    return bytes(answer) if answer.endswith(b"\n") else b""


class _Nursery:
    """The process that has imported the library and forks; it ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def fork_child(self, module: str, line: socket.socket) -> None:
        """Fork a child that takes its order from `line`, with `module` imported."""
        with self._lock:
            for _ in range(2):  # the process may have been ended from outside
                if self._process is None or self._process.poll() is not None:
                    self._start()
                assert self._line is not None
                with contextlib.suppress(OSError):
                    socket.send_fds(
                        self._line, [module.encode().ljust(_NAME_BYTES)], [line.fileno()]
                    )
                    return
                self._process = None
        raise AuditError("No process can be started.", do="End other programs.")

    def _start(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line, theirs = socket.socketpair()
        alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=_CHECKOUT,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=os.environ | alone | {"TOKENIZERS_PARALLELISM": "false"},
            )

    def close(self) -> None:
        """End the process by closing its line."""
        if self._line is not None and self._process is not None:
            self._line.close()
            self._process.wait()


_NURSERY = _Nursery()
atexit.register(_NURSERY.close)


def main() -> int:
    """Fork for every message on the socket that the command line names, until it is closed."""
    from audit.home import stay_offline

    stay_offline()
    from audit.models.tokenizer import import_classes

    import_classes()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the children
    orders = socket.socket(fileno=int(sys.argv[1]))
    while True:
        message, lines, _, _ = socket.recv_fds(orders, _NAME_BYTES, 1, socket.MSG_WAITALL)
        if not message:
            return 0
        importlib.import_module(message.decode().strip())
        if os.fork() == 0:
            orders.close()
            with socket.socket(fileno=lines[0]) as line:
                _run_order(line)
            os._exit(0)
        os.close(lines[0])


def _run_order(line: socket.socket) -> None:
    """Call the function of an order within the limits, and write the answer."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with line.makefile("rb") as file:
        tempfile.tempdir, seconds, n_bytes, wall_seconds = json.loads(file.readline())
        _limit(seconds, n_bytes, wall_seconds=wall_seconds)
        function, inputs = pickle.loads(file.read())  # from the program itself
    _end_with_caller(line, is_wanted=True)
    try:
        answer = {"answer": function(*inputs)}
    except AuditError as error:
        answer = {"what": error.what.dump(), "where": error.where.dump(), "do": error.do.dump()}
    except MemoryError:
        return
    except BaseException as error:  # noqa: BLE001
        # The library raises bare Exception, and panics outside Exception, because of bad files.
        if type(error) is Exception or type(error).__name__ == "PanicException":
            unusable = AuditError(
                "The tokenizer cannot be built from its files.",
                do=COPY_TOKENIZER,
            )
            answer = {"what": unusable.what, "where": "", "do": unusable.do}
        else:
            answer = {"mistake": places_of(error)}
    with contextlib.suppress(OSError):  # the caller may be gone
        _end_with_caller(line, is_wanted=False)
    with contextlib.suppress(OSError):
        line.sendall(json.dumps(answer).encode() + b"\n")


def _end_with_caller(line: socket.socket, *, is_wanted: bool) -> None:
    """Let the system end this process when the caller closes its end of the line.

    The signal is SIGIO. It also comes while a long answer is being taken, so it is then unwanted.
    """
    fcntl.fcntl(line, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(line, fcntl.F_GETFL)
    fcntl.fcntl(line, fcntl.F_SETFL, flags | os.O_ASYNC if is_wanted else flags & ~os.O_ASYNC)


def _limit(seconds: int, n_bytes: int, *, wall_seconds: int) -> None:
    """Set limits at which the system ends this process in any state."""
    with contextlib.suppress(OSError, ValueError):  # systems without /proc
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + n_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(wall_seconds)


if __name__ == "__main__":
    sys.exit(main())
