"""The real server: whom it answers, and that sessions may begin all at once at a cold start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.home import HOME_VARIABLE
from tests.repository import REPOSITORY


class Server:
    """The app on a free port of 127.0.0.1."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={self.port}"],
            cwd=REPOSITORY,
            env=os.environ | {HOME_VARIABLE: str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(600):
            try:
                if self.status("/_stcore/health") == 200:
                    return
            except OSError:
                assert self.process.poll() is None
                time.sleep(0.1)
        raise RuntimeError("the server does not answer")

    def status(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://{self.host}{path}", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def handshake(self, *headers: str) -> int:
        """Return the status with which a websocket is answered."""
        lines = [
            "GET /_stcore/stream HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Protocol: streamlit", *headers,
        ]  # fmt: skip
        if not any(line.startswith("Host:") for line in headers):
            lines.append(f"Host: {self.host}")
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as stream:
            stream.sendall("\r\n".join([*lines, "", ""]).encode())
            return int(stream.recv(1024).split()[1])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server") / "home")
    yield running
    running.stop()


def test_a_websocket_of_the_apps_own_page_is_taken(server: Server) -> None:
    assert server.handshake(f"Origin: http://{server.host}") == 101
    assert server.handshake() == 101  # no browser


@pytest.mark.parametrize(
    "origin",
    ["http://127.0.0.1:1", "http://127.0.0.1", "http://localhost:{port}", "http://localhost:1",
     "http://evil.example", "http://evil.example:{port}", "null", "", "http://127.0.0.1:{port}.x",
     "http://a@127.0.0.1:{port}", "127.0.0.1:{port}", "http://0.0.0.0:{port}"],
)  # fmt: skip
def test_a_websocket_of_any_other_page_is_refused(server: Server, origin: str) -> None:
    assert server.handshake(f"Origin: {origin.format(port=server.port)}") == 403


def test_a_host_that_is_not_allowed_is_refused_though_its_origin_fits(server: Server) -> None:
    assert server.handshake("Host: evil.example", "Origin: http://evil.example") == 403


@pytest.mark.parametrize("path", ["/_stcore/metrics", "/_stcore/metrics/", "/_stcore/%6detrics"])
def test_what_the_server_counts_is_nobodys_to_read(server: Server, path: str) -> None:
    assert server.status(path) == 404
    assert server.status("/_stcore/health") == 200


def test_tables_and_charts_are_imported_before_any_session_and_torch_is_not() -> None:
    script = (
        "import sys, app\n"
        "wanted = ('pandas', 'pandas.core.api', 'plotly.tools', 'plotly.graph_objs._figure')\n"
        "print([name for name in wanted if name not in sys.modules], 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert done.stdout.strip() == "[] False", done.stderr
