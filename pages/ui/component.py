"""Parts of a page that have a script of their own: files of this app, in a folder of their name.

The policy of `headers` blocks scripts that Streamlit inserts as text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

_FOLDERS = ("marker", "picture")


def draw_component(name: str, **options: Any) -> Any:
    """Draw the component of the folder `name`; return its state."""
    manager, folder = get_bidi_component_manager(), Path(__file__).parent
    if manager.get_component_asset_root(f"kart.{name}") is None:
        configs = [ComponentConfig(asset, asset) for asset in _FOLDERS]
        manager.register_from_manifest(ComponentManifest("kart", "1", configs), folder)
    draw = st.components.v2.component(
        f"kart.{name}", js=f"{name}.js", css=f"{name}.css", isolate_styles=False
    )
    return draw(**options)
