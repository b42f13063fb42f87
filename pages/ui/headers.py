"""Which requests are answered, and with which headers: no foreign content, no foreign script."""

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
"""These scripts tell screen readers the language of the page."""
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
"""One step back undoes one step of the reader. Without this script, Streamlit adds an entry to the
browser's history for every change of the address, also when a page that opens completes its own."""
POPOVER_SCRIPT = (
    "(() => { if (window.kaPopover) return; window.kaPopover = true;"
    " new MutationObserver(() => {"
    " const box = document.querySelector('[data-testid=\"stPopoverBody\"]:not([data-entered])');"
    ' const first = box?.querySelector("input, button, textarea, select");'
    ' if (first) { box.dataset.entered = ""; first.focus({ preventScroll: true }) }'
    " }).observe(document.body, { childList: true, subtree: true }) })()"
)
"""The focus moves into a box that opens. Streamlit puts the box at the end of the page, so that the
Tab key would pass through the whole page first."""
JOB_SCRIPT = (
    "(() => { if (window.kaJob) return; window.kaJob = true;"
    ' const BAR = \'[class*="-job-"] [role="progressbar"]\';'
    " const codeOf = (part) =>"
    ' /-job-(\\w+)/.exec(part?.closest?.(\'[class*="st-key-"][class*="-job-"]\')?.className)?.[1];'
    " const bars = () => [...document.querySelectorAll(BAR)];"
    " const title = () => document.querySelector('[data-testid=\"stMain\"] h1');"
    " let pressed = null, known = [], isQuiet = false, left = null;"
    ' addEventListener("click", (event) => { pressed = event.target.closest?.("button");'
    " if (!codeOf(event.target)) left = null;"
    " known = bars().map(codeOf); isQuiet = event.detail > 0 }, true);"
    ' addEventListener("focusin", ({ target }) => { if (target !== pressed) pressed = null;'
    " const code = codeOf(target);"
    " left = code ? { code, title: title()?.textContent } : null }, true);"
    " const enter = (target) => { if (!target) return;"
    ' if (!target.matches("a, button")) target.tabIndex = -1;'
    " target.focus({ preventScroll: isQuiet }) };"
    " const nextOf = ({ code, title: before }) => document.querySelector("
    ' `:is([class*="-job-${code}"], [class*="-followed"]) :is(a, button, summary)`)'
    " ?? (title()?.textContent === before ? null : title());"
    " new MutationObserver(() => { const active = document.activeElement;"
    " const isLost = active === document.body;"
    " if (pressed && (isLost || active === pressed))"
    " enter(bars().find((bar) => !known.includes(codeOf(bar))));"
    " else if (left && isLost) enter(nextOf(left));"
    " }).observe(document.body, { childList: true, subtree: true }) })()"
)
"""The focus moves from a pressed button to the progress of the job that it started, and from the
progress to what stands there when the job has ended: Streamlit draws these anew, and the Tab key
would begin at the head of the page. It stays wherever a person has put it meanwhile."""
UNSAVED_SCRIPT = (
    '(() => { if (window.kaUnsaved) return; window.kaUnsaved = true; let before = "";'
    ' addEventListener("focusin", (event) => { before = event.target.value }, true);'
    ' addEventListener("beforeunload", (event) => { const box = document.activeElement;'
    ' const isTyping = box?.tagName === "TEXTAREA" && box.value !== before;'
    " if (isTyping || document.querySelector('.ka-unsaved'))"
    " { event.preventDefault(); event.returnValue = true } }) })()"
)
"""The browser asks before an unsaved text is lost: one that is being typed, which only the browser
knows, or one that `state.mark_unsaved` marks."""
SCRIPTS = (HISTORY_SCRIPT, POPOVER_SCRIPT, JOB_SCRIPT, UNSAVED_SCRIPT)
_METRICS = "/_stcore/metrics"
_NOT_KEPT = {b"cache-control": b"no-store"}
_POLICY_VIOLATION = 1008  # RFC 6455
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class SecurityHeaders:
    """Put the security headers on every HTTP answer; refuse websockets of another origin.

    If nothing may be served (`access.refusal`: the settings of the login are gone or cannot be
    read), every path says so: pages, files and the websocket.

    By itself, Streamlit accepts a websocket from any port of this machine, and asks an outside host
    for this machine's address to check other origins. This class prevents both. It hides the
    metrics of the sessions. A file that a page offers is sent only to persons who may see pages,
    and no cache keeps it.

    `'unsafe-eval'` stays, because Streamlit's pages do not render without it. Inline scripts are
    allowed by their hash, which is computed at start because it changes with Streamlit's version.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = {
            name.encode(): value.encode() for name, value in security_headers().items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        refusal_error = refusal() if scope["type"] in ("http", "websocket") else None
        if scope["type"] == "websocket" and (
            refusal_error is not None or not is_own_origin(Headers(scope=scope))
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
        if refusal_error is not None:
            explanation = "\n\n".join(refusal_error.render(code) for code in LANGUAGES)
            app = PlainTextResponse(f"{explanation}\n", 503)

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                app_headers = self._headers | (_NOT_KEPT if is_file else {})
                foreign_headers = [
                    pair for pair in message["headers"] if pair[0].lower() not in app_headers
                ]
                message["headers"] = [*foreign_headers, *app_headers.items()]
            await send(message)

        await app(scope, receive, send_with_headers)


def _files_path() -> str:
    """Return the prefix of the addresses of files that pages offer or show."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/media/" if base else "/media/"


def is_own_origin(headers: Headers) -> bool:
    """Return whether a websocket comes from this app's own pages: same host, same port.

    Also true for an origin that `server.corsAllowedOrigins` names and for clients that are no
    browser: a browser always sends the origin of its page.
    """
    origin = headers.get("origin")
    if origin is None or origin in st.get_option("server.corsAllowedOrigins"):
        return True
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


def security_headers() -> dict[str, str]:
    """Return the headers by lower-case name.

    The policy allows only Streamlit's and our own inline scripts, and only our own host.
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
