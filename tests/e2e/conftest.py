"""A real server and a real browser; skipped where chromium or playwright is missing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from audit.home import DEMO_HOSPITAL, HOME_VARIABLE

REPOSITORY = Path(__file__).resolve().parents[2]
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
READY = (
    "[data-testid='stApp'][data-test-connection-state='CONNECTED']"
    "[data-test-script-state='notRunning']"
)
# Streamlit asks for these beside a page's own path first, and then finds them at the root.
HARMLESS = ("_stcore/health", "_stcore/host-config")
OPEN_PAGES = pytest.StashKey[list[Any]]()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    playwright.expect.set_options(timeout=60_000)
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(
            executable_path=chromium, headless=True, args=list(ARGUMENTS)
        )
        yield running
        running.close()


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the demo hospital's two audits, small ones."""
    home = tmp_path_factory.mktemp("demo") / "home"
    command(home, "demo", "--inputs", "600", "--documents", "20")
    return home


class Server:
    """The app on a free port, with a data directory of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start, and return when the app answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={self.port}"],
            cwd=REPOSITORY,
            env=environment(self.home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(480):
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2):
                    return
            except OSError:
                time.sleep(0.25)
        self.stop()
        raise RuntimeError("the server does not answer")

    def stop(self) -> None:
        """Stop at once, as a machine that is switched off does."""
        self._process.kill()
        self._process.wait()


def environment(home: Path) -> dict[str, str]:
    """Return the environment of servers and commands: one registered folder, short workers.

    Jobs have the usual priority: on a busy machine the tests would wait for them in vain.
    """
    return os.environ | {
        HOME_VARIABLE: str(home),
        "KART_AUDIT_MODELS": str(DEMO_HOSPITAL / "en" / "models"),
        "KART_AUDIT_WORKER_IDLE_SECONDS": "5",
        "KART_AUDIT_JOB_NICENESS": "0",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
    }


def command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line on a data directory, and hold that it succeeds."""
    return subprocess.run(
        [sys.executable, "-m", "audit", *arguments],
        cwd=REPOSITORY,
        env=environment(home),
        check=True,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[Path], Server]]:
    """A function that starts a server on a data directory."""
    started: list[Server] = []

    def start(home: Path) -> Server:
        started.append(Server(home))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def serve(servers: Callable[[Path], Server]) -> Callable[[Path], str]:
    """A function that starts a server on a data directory and returns its address."""
    return lambda home: servers(home).url


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Write what the open pages showed into the report of a browser test that failed."""
    report = yield
    if report.when == "call" and report.failed:
        for number, page in enumerate(item.stash.get(OPEN_PAGES, [])):
            report.sections.append((f"page {number}", page_text(page)))
            if folder := os.environ.get("KART_AUDIT_SCREENSHOTS"):
                page.screenshot(path=Path(folder) / f"failed-{item.name}-{number}.png")
    return report


def page_text(page: Any) -> str:
    """Return the page's address and the text a person could read in it."""
    from playwright.sync_api import Error as PlaywrightError

    try:
        opened = page.locator("details[open] > summary").all_inner_texts()
        text = page.locator("body").inner_text(timeout=5_000)
    except PlaywrightError as error:  # a page that is gone must not hide why the test failed
        return f"cannot be read: {error}"
    return f"{page.url}\nopened: {opened}\n{text[:4_000]}"


@pytest.fixture
def visit(browser: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """A function that opens an address; at the end no page may have complained or gone outside."""
    contexts, complaints = [], []
    pages = request.node.stash[OPEN_PAGES] = []

    def is_foreign(url: str, origin: str) -> bool:
        parts = urlsplit(url)
        return parts.scheme not in ("data", "blob") and parts.netloc != origin

    def note(message: Any) -> None:
        is_harmless = message.location["url"].endswith(HARMLESS)
        if message.type == "error" and not is_harmless:
            complaints.append(message.text)

    def open_page(
        url: str,
        *,
        scheme: str = "light",
        locale: str = "en-US",
        may_lose_server: bool = False,
    ) -> Any:
        context = browser.new_context(
            locale=locale, color_scheme=scheme, viewport={"width": 1400, "height": 1000}
        )
        contexts.append(context)
        page = context.new_page()
        pages.append(page)
        page.set_default_timeout(90_000)  # with both cores busy a page can take long
        origin = urlsplit(url).netloc
        if not may_lose_server:  # a page whose server is stopped complains in many words
            page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda r: complaints.append(f"outside: {r.url}") if is_foreign(r.url, origin) else None,
        )
        page.goto(url)
        page.locator(READY).wait_for(timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
