"""The real server: whom it answers, its headers, and that sessions may begin at a cold start."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import http.client
import io
import json
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit
import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.session_manager import SessionInfo
from streamlit.testing.v1 import AppTest
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

import app
from audit import cli
from audit.access_log import entries
from audit.demo import DemoTask
from audit.home import HOME_VARIABLE, SECRETS, data_home, had_login
from audit.jobs import service
from pages.ui.headers import LANGUAGE_SCRIPTS, security_headers
from pages.ui.running import FIRST_LOOK
from pages.ui.sessions import WaitingSessions
from tests.jobs.fake_jobs import PATIENCE_SECONDS, until
from tests.pages.make_reports import Reports, keep, keep_demo, make_inspection
from tests.pages.screen import texts
from tests.repository import REPOSITORY


class Server:
    """The app on a free port of 127.0.0.1."""

    def __init__(self, home: Path, *, n_descriptors: int = 0, serves: int = 200) -> None:
        """Start it, with so many file descriptors at most, and wait for its first answer."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        words = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={self.port}"]
        if n_descriptors:
            words = ["sh", "-c", f'ulimit -n {n_descriptors} && exec "$@"', "sh", *words]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `stop`)
        self.process = subprocess.Popen(
            words,
            cwd=REPOSITORY,
            env=os.environ | {HOME_VARIABLE: str(home)},
            stdout=subprocess.DEVNULL,
            stderr=self._output,
        )
        while True:  # until it answers or its process ends
            try:
                assert self.answer("/_stcore/health")[0] == serves
                return
            except OSError:
                assert self.process.poll() is None, self.read_output()
                time.sleep(0.1)

    def read_output(self) -> str:
        """Return what it has written for whoever started it."""
        self._output.seek(0)
        return self._output.read().decode()

    def answer(self, path: str, **headers: str) -> tuple[int, list[tuple[str, str]]]:
        """Return status and headers of an answer."""
        client = http.client.HTTPConnection(self.host, timeout=PATIENCE_SECONDS)
        with contextlib.closing(client):
            client.request("GET", path, headers=headers)
            answer = client.getresponse()
            return answer.status, [(name.lower(), value) for name, value in answer.getheaders()]

    def text(self, path: str) -> str:
        """Return the body of an answer."""
        client = http.client.HTTPConnection(self.host, timeout=PATIENCE_SECONDS)
        with contextlib.closing(client):
            client.request("GET", path)
            return client.getresponse().read().decode()

    def n_descriptors(self) -> int:
        """Return how many files and connections it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def page(self, query: str = "") -> str:
        """Open a page as a browser does, leave it, and return the HTML that was drawn."""
        return asyncio.run(self._page(query))

    async def _page(self, query: str) -> str:
        address = f"ws://{self.host}/_stcore/stream"
        pieces = []
        async with websockets.connect(
            address,
            subprotocols=[websockets.Subprotocol("streamlit")],
            max_size=None,
            open_timeout=PATIENCE_SECONDS,
        ) as stream:
            request = BackMsg()
            request.rerun_script.query_string = query
            await stream.send(request.SerializeToString())
            while True:
                reply = ForwardMsg()
                reply.ParseFromString(await stream.recv())
                if reply.WhichOneof("type") == "script_finished":
                    return "\n".join(pieces)
                pieces.append(reply.delta.new_element.html.body)

    def handshake(self, *headers: str) -> int:
        """Return the status with which a websocket is answered."""
        lines = [
            "GET /_stcore/stream HTTP/1.1",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Protocol: streamlit",
            *headers,
        ]
        if not any(line.startswith("Host:") for line in headers):
            lines.append(f"Host: {self.host}")
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS) as stream:
            stream.sendall("\r\n".join([*lines, "", ""]).encode())
            return int(stream.recv(1024).split()[1])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._output.close()


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
    [
        "http://127.0.0.1:1",
        "http://127.0.0.1",
        "http://localhost:{port}",
        "http://localhost:1",
        "http://evil.example",
        "http://evil.example:{port}",
        "null",
        "",
        "http://127.0.0.1:{port}.x",
        "http://a@127.0.0.1:{port}",
        "127.0.0.1:{port}",
        "http://0.0.0.0:{port}",
    ],
)
def test_a_websocket_of_any_other_page_is_refused(server: Server, origin: str) -> None:
    assert server.handshake(f"Origin: {origin.format(port=server.port)}") == 403


def test_a_host_that_is_not_allowed_is_refused_though_its_origin_fits(server: Server) -> None:
    assert server.handshake("Host: evil.example", "Origin: http://evil.example") == 403


@pytest.mark.parametrize("path", ["/_stcore/metrics", "/_stcore/metrics/", "/_stcore/%6detrics"])
def test_what_the_server_counts_is_nobodys_to_read(server: Server, path: str) -> None:
    assert server.answer(path)[0] == 404


@pytest.mark.parametrize("path", ["/", "/names", "/_stcore/health", "/_stcore/metrics"])
def test_every_answer_carries_each_security_header_once(server: Server, path: str) -> None:
    expected = security_headers()
    headers = [(name, value) for name, value in server.answer(path)[1] if name in expected]
    assert sorted(headers) == sorted(expected.items())


NO_STORE = ("cache-control", "no-store")


def test_a_file_that_a_page_offers_is_kept_in_no_cache(server: Server) -> None:
    status, headers = server.answer("/media/0123.png")
    assert status == 404 and NO_STORE in headers  # no such file, and no login
    assert NO_STORE not in server.answer("/static/media/0123.woff2")[1]


def cookie(secret: str = "x" * 40, **claims: object) -> str:
    """Return the cookie that Streamlit gives whoever has logged in."""
    user = json.dumps({"origin": "http://127.0.0.1:8501", "is_logged_in": True, **claims})
    return f"{USER_COOKIE_NAME}={create_signed_value(secret, USER_COOKIE_NAME, user).decode()}"


LOGIN = """
[auth]
redirect_uri = "http://127.0.0.1:8501/oauth2callback"
cookie_secret = "{}"
client_id = "kart"
client_secret = "y"
server_metadata_url = "http://127.0.0.1:9/.well-known/openid-configuration"
""".format("x" * 40)
ANY_PATH = (
    "/",
    "/names?audit=0123456789ab",
    "/jobs",
    "/media/0123.png",
    "/_stcore/health",
    "/_stcore/upload_file/a/b",
    "/static/js/index.js",
    "/_stcore/host-config",
    "/oauth2callback",
)


@contextlib.contextmanager
def serving(home: Path, **how: Any) -> Iterator[Server]:
    server = Server(home, **how)
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.long
def test_a_directory_that_had_a_login_serves_nothing_without_one_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    secrets = data_home() / SECRETS
    secrets.write_text(LOGIN)
    secrets.chmod(0o644)
    with serving(tmp_path / "home") as server:  # as an update finds it, in a new folder
        assert server.answer("/")[0] == 200 and server.handshake() == 101
        assert "Please log in" in server.page()
        assert f"chmod 600 {secrets}" in server.read_output()
        file = "/media/0123.png"
        assert server.answer(file)[0] == 403
        for forged in (cookie("y" * 40), cookie(is_logged_in=False), f"{USER_COOKIE_NAME}=1.2.3"):
            assert server.answer(file, Cookie=forged)[0] == 403, forged
        status, headers = server.answer(file, Cookie=cookie(email="anna@h.example"))
        assert status == 404 and NO_STORE in headers  # asked for, and not there
    assert had_login()
    moved_file = secrets.rename(tmp_path / "aside")
    with serving(tmp_path / "home", serves=503) as server:
        for path in ANY_PATH:
            assert server.answer(path)[0] == 503, path
            body = server.text(path)
            assert "python -m audit login drop --yes" in body and "データディレクトリ" in body
        assert server.handshake() == 403
        assert "Nothing is served." in server.read_output()
        moved_file.rename(secrets)
    secrets.chmod(0o600)
    with serving(tmp_path / "home") as server:
        assert server.answer("/")[0] == 200
        assert "chmod" not in server.read_output()
    secrets.unlink()
    assert cli.main(["login", "drop"]) == 2 and had_login()
    assert cli.main(["login", "drop", "--yes"]) == 0 and not had_login()
    assert [entry.action for entry in entries()] == ["login_dropped"]
    with serving(tmp_path / "home") as server:
        assert server.answer("/")[0] == 200
    assert "Traceback" not in capsys.readouterr().err


def test_every_inline_script_is_named_and_no_other_may_run() -> None:
    policy = security_headers()["content-security-policy"]
    index = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    inline = [s for s in re.split("<script>|</script>", index)[1:2] if s.strip()]
    assert inline
    for script in (*inline, *LANGUAGE_SCRIPTS.values()):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    rules = policy.split("; ")
    assert not any("'unsafe-inline'" in rule for rule in rules if rule.startswith("script-src"))
    assert "http:" not in policy and "*" not in policy
    assert {"default-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(rules)


def test_tables_and_charts_are_imported_before_any_session_and_torch_is_not() -> None:
    script = (
        "import sys, app\n"
        "wanted = ('pandas', 'pandas.core.api', 'plotly.tools', 'plotly.graph_objs._figure')\n"
        "print([name for name in wanted if name not in sys.modules], 'torch' in sys.modules)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert process.stdout.strip() == "[] False", process.stderr


@pytest.mark.long
def test_the_demonstration_is_asked_for_beside_the_server_and_made_once(
    home: Path, demo_reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(app.DEMO_VARIABLE, "1")
    server = Server(home.parent)
    until(lambda: bool(service.jobs()))
    server.stop()
    (job,) = service.jobs()
    assert (job.kind, job.state) == ("demo", "queued")
    app.request_demo()  # as a second start does
    assert service.jobs() == (job,)
    answers = zip(demo_reports.items(), DemoTask(**FIRST_LOOK).question().audits, strict=True)
    reports = {name: report.changed(digest=digest) for (name, report), digest in answers}
    keep_demo(reports)
    for report in reports.values():
        keep(report, inspection=make_inspection(report), documents={"hospital": ["A note."]})
    service.cancel(job.job_id)
    app.request_demo()
    assert [active_job.job_id for active_job in service.jobs()] == [job.job_id]


N_LOADS = 120
"""More would do no more: sessions that wait are closed from the 21st on. 400 were tried once."""


@pytest.mark.long
def test_a_server_with_few_descriptors_outlives_many_page_loads(
    home: Path, demo_reports: Reports
) -> None:
    """Each page load is a session that a browser has left; at 256 some 80 of them were the end."""
    keep_demo(demo_reports)
    peak = 0
    with serving(home.parent, n_descriptors=256) as server:
        for _ in range(N_LOADS):
            assert "ka-verdict" in server.page()
            peak = max(peak, server.n_descriptors())
        assert server.answer("/")[0] == 200 and server.answer("/_stcore/health")[0] == 200
    assert peak < 200


@pytest.mark.long
def test_the_server_raises_its_limit_of_descriptors_as_far_as_it_may(home: Path) -> None:
    words = (
        "import resource as r; from pages.ui.sessions import raise_limit; "
        "r.setrlimit(r.RLIMIT_NOFILE, (128, 512)); "
        "print(raise_limit(), r.getrlimit(r.RLIMIT_NOFILE))"
    )
    process = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert process.stdout.split() == ["512", "(512,", "512)"]


class Left:
    """A session that somebody left, as the storage of sessions sees it."""

    def __init__(self, name: str) -> None:
        self.id, self.is_closed = name, False

    def shutdown(self) -> None:
        self.is_closed = True


def test_a_session_that_nobody_comes_back_to_is_closed_and_another_is_given_back() -> None:
    async def leave(*, seconds: float, max_sessions: int) -> tuple[list[str], list[str]]:
        storage = WaitingSessions(seconds=seconds, max_sessions=max_sessions)
        sessions = [Left(name) for name in "abc"]
        for session in sessions:
            storage.save(SessionInfo(client=None, session=session, script_run_count=0))  # type: ignore[arg-type]
        back = storage.get("c")
        assert back is not None and back.session is sessions[2]
        storage.delete("c")
        while not (sessions[0].is_closed and (seconds > 1 or sessions[1].is_closed)):
            await asyncio.sleep(0)
        closed = [session.id for session in sessions if session.is_closed]
        return closed, [info.session.id for info in storage.list()]

    assert asyncio.run(leave(seconds=0.0, max_sessions=9)) == (["a", "b"], [])
    assert asyncio.run(leave(seconds=9_999.0, max_sessions=2)) == (["a"], ["b"])


def mistaken() -> None:
    from streamlit.error_util import handle_user_script_exception

    import app

    try:
        raise ValueError("Mary Smith")
    except ValueError as error:
        handle_user_script_exception(error, app.app._on_script_error)


def test_a_mistake_of_the_program_is_told_plainly_and_its_text_stands_in_no_log() -> None:
    log, logger = io.StringIO(), logging.getLogger("streamlit.error_util")
    handler = logging.StreamHandler(log)
    logger.addHandler(handler)
    try:
        page = AppTest.from_function(mistaken).run()
    finally:
        logger.removeHandler(handler)
    assert "The program failed." in texts(page) and not page.exception
    assert "ValueError" in log.getvalue() and "mistaken" in log.getvalue()
    assert "Mary" not in log.getvalue() + texts(page)


def test_a_start_compiles_few_patterns() -> None:
    """Compiling all patterns of rules, births and releases took half a second of every start."""
    program = (
        "import re._compiler as compiler\n"
        "compile_pattern, sizes = compiler.compile, []\n"
        "def count(pattern, flags=0):\n"
        "    sizes.append(len(pattern) if isinstance(pattern, (str, bytes)) else 0)\n"
        "    return compile_pattern(pattern, flags)\n"
        "import streamlit\n"
        "compiler.compile = count\n"
        "import audit.deid.tasks, pages.ui.cached\n"
        "print(len(sizes), sum(sizes))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    n_patterns, n_chars = map(int, process.stdout.split())
    assert n_patterns > 20 and n_chars < 100_000
