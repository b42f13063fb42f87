"""The program: `python -m audit`, or `kart-audit` where it is installed."""

import sys
from pathlib import Path

NAME = "kart-audit"


def main() -> int:
    """Answer `--version` before anything else is imported; run any other command."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{NAME} {read_version()}\n")
        return 0
    import os

    from audit.cli import main as run_command
    from audit.executor import PASSIVE_THREADS

    for variable, setting in PASSIVE_THREADS.items():
        os.environ.setdefault(variable, setting)
    return run_command()


def read_version() -> str:
    """Return the version of the source tree in which this file is, or of the installed package."""
    import tomllib
    from importlib import metadata

    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    if not project.is_file():
        return metadata.version(NAME)
    version: str = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    return version


if __name__ == "__main__":
    sys.exit(main())
