"""A page through Streamlit's own tester: opened by its link, read, and what is on it found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

REPOSITORY = Path(__file__).resolve().parents[2]
HOSTILE = "![x](http://evil.example/p.png)<img src=x>"


def open_page(page: str = "verdict", /, *, reveal: bool = False, **query: str) -> AppTest:
    """Open a page from a link that holds these parameters, with names revealed or not."""
    app = AppTest.from_file(REPOSITORY / "pages" / "ui" / "main.py", default_timeout=60)
    if "lang" in query:
        app.query_params["lang"] = query["lang"]
    for turn in range(1 if page == "verdict" else 2):
        if turn:
            app.session_state["is_revealed"] = reveal
            app.switch_page(f"../{page}.py")
        if turn or page == "verdict":
            app.query_params.update(query)
        app.run()
        assert not app.exception
    return app


def texts(app: AppTest) -> str:
    """Return all HTML of a page but the style sheet."""
    bodies = (block.proto.body for block in app.get("html"))
    return "\n".join(body for body in bodies if "<style>" not in body)


def parameter(app: AppTest, name: str) -> str:
    """Return what the address says; "" where it says nothing."""
    value = app.query_params.get(name, "")
    return value if isinstance(value, str) else value[0]


def widget(app: AppTest, kind: str, key: str) -> Any:
    return next(element for element in app.get(kind) if element.key == key)


def press(app: AppTest, key: str) -> AppTest:
    """Press a button."""
    app.button(key=key).click().run()
    assert not app.exception
    return app


def keys(app: AppTest) -> set[str]:
    """Return the keys of all buttons."""
    return {button.key or "" for button in app.button}


def links(app: AppTest) -> list[tuple[str, str, str]]:
    """Return label, page and query of every link to a page."""
    protos = [link.proto for link in app.get("page_link")]
    return [(link.label, link.page, link.query_string) for link in protos]


def downloads(app: AppTest) -> dict[str, bool]:
    """Return the keys of the download buttons, and whether each is disabled."""
    return {button.key: button.disabled for button in app.get("download_button")}


def read_figure(app: AppTest, number: int = 0) -> dict[str, Any]:
    """Return a chart of a page as plotly reads it."""
    figure: dict[str, Any] = json.loads(app.get("plotly_chart")[number].proto.spec)
    return figure
