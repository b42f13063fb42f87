"""The installed command `kart-audit`: `python -m audit` of a checkout, and `kart-audit app`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER_VARIABLES = ("KART_AUDIT_MODELS", "KART_AUDIT_NOTES")


def main() -> int:
    """Start the app if the first word is `app`, otherwise run a command of the engine."""
    if sys.argv[1:2] == ["app"]:
        start_app(sys.argv[2:])
    from kart_audit.audit.__main__ import main as run_command

    return run_command()


def start_app(options: list[str]) -> None:
    """Become the server of the app; Streamlit checks the options.

    Streamlit reads settings and secrets from the folder that it is started in. Here this is the
    package's own folder, so what lies in the user's folder does not change the server.
    """
    for variable in FOLDER_VARIABLES:
        folders = filter(None, os.environ.get(variable, "").split(os.pathsep))
        os.environ[variable] = os.pathsep.join(
            os.path.abspath(os.path.expanduser(folder.strip()))  # noqa: PTH100, PTH111 (links stay)
            for folder in folders
        )
    os.chdir(Path(__file__).parent)
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", "app.py", *options])


if __name__ == "__main__":
    sys.exit(main())
