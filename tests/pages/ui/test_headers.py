"""The security headers: on every answer, naming every inline script."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import streamlit

from pages.ui.headers import LANGUAGE_SCRIPTS, SecurityHeaders, security_headers


def test_every_inline_script_is_named_and_no_other_may_run() -> None:
    policy = security_headers()["content-security-policy"]
    index = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    inline = [s for s in re.split("<script>|</script>", index)[1:2] if s.strip()]
    assert inline
    for script in (*inline, *LANGUAGE_SCRIPTS.values()):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert "'unsafe-inline'" not in scripts
    assert "http:" not in policy
    assert "*" not in policy
    assert {"default-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(
        policy.split("; ")
    )


def answer_through_headers(kind: str) -> list[dict[str, Any]]:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        start = {"type": f"{kind}.response.start", "headers": [(b"Referrer-Policy", b"origin")]}
        await send(start)
        await send({"type": f"{kind}.response.body"})

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def answer() -> None:
        scope = {"type": kind, "path": "/", "headers": []}
        await SecurityHeaders(app)(scope, None, send)  # type: ignore[arg-type]

    # In a thread: a browser test of the same session may have left a loop running in this one.
    with ThreadPoolExecutor() as pool:
        pool.submit(lambda: asyncio.run(answer())).result()
    return sent


def test_an_http_answer_carries_each_header_once() -> None:
    start, body = answer_through_headers("http")
    found = [(name.lower().decode(), value.decode()) for name, value in start["headers"]]
    assert sorted(found) == sorted(security_headers().items())
    assert "headers" not in body


def test_a_websocket_of_no_browser_is_left_alone() -> None:
    start, _ = answer_through_headers("websocket")
    assert start["headers"] == [(b"Referrer-Policy", b"origin")]
