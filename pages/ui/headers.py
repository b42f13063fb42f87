"""Who is answered, and with which headers: nothing comes from elsewhere, nothing foreign runs."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from audit.words import LANGUAGES
from pages.ui.access import refusal, role_of_cookies

LANGUAGE_SCRIPTS = {code: f'document.documentElement.lang = "{code}"' for code in LANGUAGES}
"""They tell screen readers the language of the page."""
HISTORY_SCRIPT = (
    "(() => { if (window.kaHistory) return; window.kaHistory = true; let acted = false;"
    ' for (const kind of ["pointerdown", "keydown"])'
    " addEventListener(kind, () => { acted = true }, true);"
    ' addEventListener("popstate", () => { acted = false }, true);'
    " const push = history.pushState.bind(history);"
    " history.pushState = (state, title, url) => {"
    " if (acted) { acted = false; push(state, title, url) }"
    " else history.replaceState(state, title, url) } })()"
)
"""One step back for each step of the reader: Streamlit makes an entry of the browser's history for
every change of the address, though a page that opens adds what it shows to its own."""
POPOVER_SCRIPT = (
    "(() => { if (window.kaPopover) return; window.kaPopover = true;"
    " new MutationObserver(() => {"
    " const box = document.querySelector('[data-testid=\"stPopoverBody\"]:not([data-entered])');"
    ' const first = box?.querySelector("input, button, textarea, select");'
    ' if (first) { box.dataset.entered = ""; first.focus({ preventScroll: true }) }'
    " }).observe(document.body, { childList: true, subtree: true }) })()"
)
"""Who opens a box stands in it: Streamlit puts it at the page's end, the whole page away by Tab."""
UNSAVED_SCRIPT = (
    '(() => { if (window.kaUnsaved) return; window.kaUnsaved = true; let before = "";'
    ' addEventListener("focusin", (event) => { before = event.target.value }, true);'
    ' addEventListener("beforeunload", (event) => { const box = document.activeElement;'
    ' const isTyping = box?.tagName === "TEXTAREA" && box.value !== before;'
    " if (isTyping || document.querySelector('.ka-unsaved'))"
    " { event.preventDefault(); event.returnValue = true } }) })()"
)
"""The browser asks before a text that is kept nowhere is lost: one that is being typed, which only
the browser knows, or one that `state.mark_unsaved` marks."""
SCRIPTS = (HISTORY_SCRIPT, POPOVER_SCRIPT, UNSAVED_SCRIPT)
_METRICS = "/_stcore/metrics"
_NOT_KEPT = {b"cache-control": b"no-store"}
_POLICY_VIOLATION = 1008  # RFC 6455
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class SecurityHeaders:
    """Put the security headers on every HTTP answer; answer no page of another origin.

    Where nothing may be served (`access.refusal`: the settings of the login are gone, or cannot be
    read) every path says so, pages, files and the websocket alike.

    Streamlit takes a websocket from any port of this machine, and asks a host outside for this
    machine's address to tell whether another origin is allowed: neither happens behind this. How
    many sessions there are and what they keep is nobody's to read. A file that a page offers is
    sent only to whoever may see pages, and no cache keeps it.

    `'unsafe-eval'` stays, for Streamlit's pages do not render without it; inline scripts are named
    by their hash, which is computed at start since it changes with Streamlit's version.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = {
            name.encode(): value.encode() for name, value in security_headers().items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        refused = refusal() if scope["type"] in ("http", "websocket") else None
        if scope["type"] == "websocket" and (
            refused is not None or not is_own_origin(Headers(scope=scope))
        ):
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_hidden = scope["path"].rstrip("/").endswith(_METRICS)
        app: ASGIApp = PlainTextResponse("Not Found", 404) if is_hidden else self._app
        is_file = scope["path"].startswith(_files_path())
        if is_file and not role_of_cookies(HTTPConnection(scope).cookies):
            app = PlainTextResponse("Forbidden", 403)
        if refused is not None:
            told = "\n\n".join(refused.render(code) for code in LANGUAGES)
            app = PlainTextResponse(f"{told}\n", 503)

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = self._headers | (_NOT_KEPT if is_file else {})
                others = [pair for pair in message["headers"] if pair[0].lower() not in own]
                message["headers"] = [*others, *own.items()]
            await send(message)

        await app(scope, receive, send_with_headers)


def _files_path() -> str:
    """Return how the addresses of files begin that pages offer or show."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/media/" if base else "/media/"


def is_own_origin(headers: Headers) -> bool:
    """Whether a websocket comes from this app's own pages: same host, same port.

    Or from an origin that `server.corsAllowedOrigins` names, or from no browser at all: browsers
    always say where a page is from.
    """
    origin = headers.get("origin")
    if origin is None or origin in st.get_option("server.corsAllowedOrigins"):
        return True
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


def security_headers() -> dict[str, str]:
    """Return the headers by lower-case name.

    The policy lets only Streamlit's and our own inline scripts run, and our own host answer.
    """
    index = Path(st.__file__).parent / "static" / "index.html"
    scripts = _INLINE_SCRIPT.findall(index.read_text(encoding="utf-8"))
    digests = (
        hashlib.sha256(script.encode()).digest()
        for script in (*scripts, *LANGUAGE_SCRIPTS.values(), *SCRIPTS)
    )
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = {
        "default-src": "'self'",
        "script-src": f"'self' 'unsafe-eval' {hashes}",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self'",
        "worker-src": "'self' blob:",
        "frame-ancestors": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "object-src": "'none'",
    }
    return {
        "content-security-policy": "; ".join(" ".join(rule) for rule in policy.items()),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "cross-origin-opener-policy": "same-origin",
    }
