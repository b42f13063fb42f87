"""The app under load: many sessions walk through its pages at once while an audit runs.

    python -m benchmarks.load [--sessions 25] [--walks 300] [--home DIR]

Starts the app and speaks with it as a browser does, over its websocket, fragments that a page asks
for again and again included. A walk opens a page's address with an audit and a language in its
query and ends when the page is drawn; pages and addresses are what the app's own navigation names.
A page without a title, or with a mistake of the program, is an error. The memory is that of the
web process alone, from when every page had been seen once. Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from audit.home import CHECKOUT, HOME_VARIABLE
from audit.jobs import service
from audit.jobs.child import NICENESS_VARIABLE
from audit.jobs.worker import IDLE_VARIABLE

LANGUAGES = ("en", "ja")
"""Of the audit that runs beside: more than is done before the last page is drawn."""
PATIENCE_SECONDS = 120.0
Seconds = dict[str, list[float]]
"""Page -> how long each of its walks took."""


class Session:
    """A browser's tab without the browser."""

    def __init__(self, stream: ClientConnection) -> None:
        self._stream = stream
        self._again: dict[str, tuple[float, float]] = {}
        self._has_title = False
        self._page_hash = ""
        self.pages: dict[str, str] = {}
        """Address -> hash of every page; "" for those that may lead to another."""
        self.errors: list[str] = []

    async def open(self, page: str, *, query: str) -> float:
        """Open an address; returns the seconds until the page is drawn."""
        self._again.clear()
        self._has_title = False
        start = time.monotonic()
        await self._ask(ClientState(page_name=page, query_string=query))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (await self._hear() and self.pages[page] in ("", self._page_hash)):
                    pass
        except TimeoutError:
            self.errors.append(f"/{page}: not drawn in {PATIENCE_SECONDS:g} s")
        if not self._has_title:
            self.errors.append(f"/{page}: no title")
        return time.monotonic() - start

    async def stay(self, seconds: float) -> None:
        """Read a page: nothing is asked but what it asks for again by itself."""
        end = time.monotonic() + seconds
        while (clock := time.monotonic()) < end:
            for fragment, (due, interval) in self._again.items():
                if due <= clock:
                    self._again[fragment] = (clock + interval, interval)
                    await self._ask(ClientState(fragment_id=fragment, is_auto_rerun=True))
            next_at = min([end, *(due for due, _ in self._again.values())])
            try:
                async with asyncio.timeout(max(0.0, next_at - clock)):
                    await self._hear()
            except TimeoutError:
                pass

    async def _ask(self, state: ClientState) -> None:
        await self._stream.send(BackMsg(rerun_script=state).SerializeToString())

    async def _hear(self) -> bool:
        """Take the server's next message; returns whether it says that all of a page is drawn."""
        data = await self._stream.recv()
        assert isinstance(data, bytes)
        message = ForwardMsg.FromString(data)
        kind = message.WhichOneof("type")
        if kind == "navigation":
            for page in message.navigation.app_pages:
                address = "" if page.is_default else page.url_pathname
                self.pages[address] = "" if page.is_hidden else page.page_script_hash
            self._page_hash = message.navigation.page_script_hash
        elif kind == "auto_rerun":
            again = message.auto_rerun
            self._again[again.fragment_id] = (time.monotonic() + again.interval, again.interval)
        elif kind == "page_not_found":
            self.errors.append("an address leads nowhere")
        elif kind == "delta":
            self._look(message)
        finished = ForwardMsg.ScriptFinishedStatus
        return kind == "script_finished" and message.script_finished in (
            finished.FINISHED_SUCCESSFULLY,
            finished.FINISHED_WITH_COMPILE_ERROR,
        )

    def _look(self, message: ForwardMsg) -> None:
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(f"exception: {element.exception.type}")
        elif kind == "heading":
            self._has_title |= element.heading.tag == "h1"
        elif kind == "html":
            self._has_title |= "<h1" in element.html.body
            if "ka-unforeseen" in element.html.body:
                self.errors.append("a mistake of the program, which the server's log names")


class App:
    """The app on a free port of this machine."""

    def __init__(self, options: Namespace, *, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.host = f"127.0.0.1:{probe.getsockname()[1]}"
        self.started = time.monotonic()
        words = ["-m", "streamlit", "run", "app.py", f"--server.port={self.host.split(':')[1]}"]
        self.process = subprocess.Popen(
            [options.python, *words],
            cwd=options.app,
            env=environment(home),
            stdout=subprocess.DEVNULL,
        )

    async def session(self) -> Session:
        """Open a tab, as soon as the server answers."""
        while True:
            try:
                stream = await connect(
                    f"ws://{self.host}/_stcore/stream",
                    origin=f"http://{self.host}",  # type: ignore[arg-type]
                    subprotocols=["streamlit"],  # type: ignore[list-item]
                    max_size=None,
                    open_timeout=PATIENCE_SECONDS,
                )
                return Session(stream)
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError("the app does not start") from None
                await asyncio.sleep(0.02)

    def cpu_seconds(self) -> float:
        """Return what the web process has computed: what a busy machine does not change."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").split()
        return (int(words[13]) + int(words[14])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Return the memory of the web process; jobs are processes of their own."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="ascii")
        return (
            next(int(line.split()[1]) for line in lines.splitlines() if line[:4] == "Rss:") / 1024
        )


def environment(home: Path) -> dict[str, str]:
    """Return the environment of the app and of commands; the audit beside gives way to pages."""
    return os.environ | {HOME_VARIABLE: str(home), IDLE_VARIABLE: "5", NICENESS_VARIABLE: "19"}


def command(options: Namespace, *words: str, home: Path) -> str:
    """Return what a command of the product prints."""
    process = subprocess.run(
        [options.python, "-m", "audit", *words, "--json"],
        cwd=options.app,
        env=environment(home),
        stdout=subprocess.PIPE,
        check=True,
    )
    return process.stdout.decode()


async def walk_all(app: App, queries: Sequence[str], *, options: Namespace) -> tuple[float, float]:
    """Walk once through every page with every query; return seconds to the first, CPU and wall."""
    first = await app.session()
    with urllib.request.urlopen(f"http://{app.host}/", timeout=PATIENCE_SECONDS) as answer:
        answer.read()
    await first.open("", query="")
    seconds = app.cpu_seconds(), time.monotonic() - app.started
    options.pages = list(first.pages)
    for query in queries:
        for page in options.pages:
            await first.open(page, query=query)
    options.errors += first.errors
    return seconds


async def walks(app: App, number: int, *, query: str, options: Namespace, seconds: Seconds) -> None:
    """Be one of the sessions: they begin one after the other within a pause, each at a page."""
    pages = options.pages
    count = len(range(number, options.walks, options.sessions))
    await asyncio.sleep(options.pause * number / options.sessions)
    session = await app.session()
    for page in islice(cycle(pages), number, number + count):
        seconds[page].append(await session.open(page, query=query))
        await session.stay(options.pause)
    options.errors += session.errors


@contextmanager
def audit_beside() -> Iterator[None]:
    """Let an audit run, as a job asked for in the app, while the block does its work."""
    seed = time.time_ns() % 2**31
    job = service.submit("demo", seed=seed, n_inputs=500_000, n_documents=1000)
    try:
        while service.job(job.job_id).share == 0:
            if not service.job(job.job_id).is_active:
                raise RuntimeError("the audit beside ended before anything was measured")
            time.sleep(0.1)
        yield
        if not service.job(job.job_id).is_active:
            raise RuntimeError("the audit beside ended before the last page was drawn")
    finally:
        service.cancel(job.job_id)


async def load(options: Namespace, *, home: Path) -> bool:
    """Start the app, load it, print what was measured; returns whether every bar is held."""
    os.environ.update(environment(home))
    audits = [
        audit["digest"][:12]
        for audit in json.loads(command(options, "results", home=home))["audits"]
    ]
    queries = [urlencode({"audit": a, "lang": lang}) for a in audits for lang in LANGUAGES]
    seconds: Seconds = defaultdict(list)
    app = App(options, home=home)
    try:
        first = await walk_all(app, queries, options=options)
        memory, cpu = [app.megabytes()], app.cpu_seconds()
        with audit_beside():
            async with asyncio.TaskGroup() as group:
                for number in range(options.sessions):
                    query = queries[number % len(queries)]
                    group.create_task(
                        walks(app, number, query=query, options=options, seconds=seconds)
                    )
        memory.append(app.megabytes())
        cpu = app.cpu_seconds() - cpu
    finally:
        app.process.terminate()
        app.process.wait()
    print(f"first page {first[1]:.2f} s after the start ({first[0]:.2f} s of CPU)")
    print(f"memory of the web process {memory[0]:.0f} MB -> {memory[1]:.0f} MB; {cpu:.1f} s of CPU")
    return report(seconds, options=options, first=first[1], growth=memory[1] - memory[0])


def report(durations: Seconds, *, options: Namespace, first: float, growth: float) -> bool:
    """Print the table and what was missed."""
    everything = [duration for seconds in durations.values() for duration in seconds]
    print(f"{'page':16}{'n':>5}{'median':>9}{'p95':>9}{'max':>9}")
    for page, seconds in [*sorted(durations.items()), ("all", everything)]:
        quantiles = np.percentile(seconds, [50, 95, 100])
        name = page if page == "all" else f"/{page}"
        print(f"{name:16}{len(seconds):5}" + "".join(f"{duration:9.2f}" for duration in quantiles))
    print(f"errors {len(options.errors)}", *sorted(set(options.errors)), sep="\n  ")
    bars = {
        "no error": not options.errors,
        f"p95 below {options.seconds:g} s": np.percentile(everything, 95) < options.seconds,
        f"first page below {options.seconds:g} s": first < options.seconds,
        f"memory grew by less than {options.megabytes:g} MB": growth < options.megabytes,
    }
    missed = [name for name, is_held in bars.items() if not is_held]
    print("missed: " + "; ".join(missed) if missed else "every bar is held")
    return not missed


def main() -> int:
    """Load the app as the command line says."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=25)
    parser.add_argument("--walks", type=int, default=300, help="of all sessions together")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds on each page")
    parser.add_argument("--seconds", type=float, default=3.0, help="bar of p95 and the first page")
    parser.add_argument("--megabytes", type=float, default=50.0, help="bar of the memory's growth")
    parser.add_argument("--home", type=Path, help="data directory with audits; else the demo's")
    parser.add_argument("--app", type=Path, default=CHECKOUT, help="folder of the product")
    parser.add_argument("--python", default=sys.executable, help="what runs the product")
    options = parser.parse_args()
    options.errors, options.pages = [], []
    with tempfile.TemporaryDirectory() as folder:
        home = options.home or Path(folder) / "home"
        if options.home is None:
            command(options, "demo", "--inputs", "600", "--documents", "20", home=home)
        return 0 if asyncio.run(load(options, home=home)) else 1


if __name__ == "__main__":
    sys.exit(main())
