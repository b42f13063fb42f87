"""What this installation is made of: versions and licences of its main packages, none imported."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata

PACKAGES = (
    "torch", "transformers", "tokenizers", "safetensors", "numpy", "scikit-learn", "Faker",
    "diskcache", "streamlit", "plotly", "pandas", "peft",
)  # fmt: skip
_LONGEST_LICENCE = 60  # of some packages it names every part they ship


@dataclass(frozen=True)
class Package:
    """One package; "" for a version or licence that it does not say, or where it is missing."""

    name: str
    version: str
    licence: str


def installed_packages() -> tuple[Package, ...]:
    """Return Python and the main packages, as their metadata has them."""
    python = Package("Python", platform.python_version(), "PSF-2.0")
    return (python, *map(_package, PACKAGES))


def _package(name: str) -> Package:
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return Package(name, version="", licence="")
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in found.get_all("Classifier") or []
        if text.startswith("License ::")
    ]
    named = [found[key] for key in ("License-Expression", "License") if key in found]
    short = (text for text in (*named, *classifiers) if text and "\n" not in text)
    return Package(name, version=found["Version"], licence=_cut(next(short, "")))


def _cut(licence: str) -> str:
    """Cut a long list of licences after a whole one."""
    if len(licence) <= _LONGEST_LICENCE:
        return licence
    return licence[:_LONGEST_LICENCE].rpartition(" AND ")[0] + " AND …"
