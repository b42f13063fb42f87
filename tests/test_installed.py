"""Versions and licences: those that the packages give themselves, without importing them."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from audit import home
from audit.home import installed_packages


def test_versions_are_those_that_run() -> None:
    found = {package.name: package for package in installed_packages()}
    assert found["Python"].version == platform.python_version()
    assert found["numpy"].version == np.__version__
    assert all(package.version for package in found.values())
    assert all(0 < len(package.licence) <= 66 for package in found.values())
    assert "Apache" in found["transformers"].licence


def test_a_missing_package_is_said_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "PACKAGES", ("no-such-package-at-all",))
    assert installed_packages()[1] == home.Package("no-such-package-at-all", "", "")


def test_torch_is_not_imported_for_its_version() -> None:
    script = (
        "import sys\n"
        "from audit.home import installed_packages\n"
        "assert installed_packages()[1].version\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).resolve().parents[1], check=True
    )
