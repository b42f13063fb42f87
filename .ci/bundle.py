"""Write the archive from which a machine without internet installs the product: `make bundle`.

The archive holds the product, every wheel of `requirements.txt` and of the login, a lock file with
their hashes, an SBOM (CycloneDX 1.6), `install.sh`, and checksums of all files. The same tree and
the same package index give the same bytes: files are sorted and have a fixed time and no owner.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import uuid
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = (
    "app.py",
    "audit",
    "cache",
    "pages",
    ".streamlit",
    "docs",
    "README.md",
    "requirements.txt",
    "pyproject.toml",
    "Makefile",
)
LOGIN = "streamlit[auth]"
"""Needed for logins (`docs/security.md`); a machine without internet could not fetch it."""
TIME = 315_532_800  # 1980-01-01, the oldest time that every archive format can hold
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Wheel:
    """A wheel and its metadata."""

    path: Path
    sha256: str
    about: Message

    @classmethod
    def read(cls, path: Path) -> Wheel:
        """Read the wheel in a file."""
        with ZipFile(path) as archive:
            (metadata_name,) = (
                name
                for name in archive.namelist()
                if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
            )
            about = BytesParser().parsebytes(archive.read(metadata_name), headersonly=True)
        with path.open("rb") as file:
            return cls(path, hashlib.file_digest(file, "sha256").hexdigest(), about)

    @property
    def name(self) -> str:
        """The package's normalized name."""
        return canonicalize_name(self.about["Name"])

    @property
    def reference(self) -> str:
        """The package URL."""
        return f"pkg:pypi/{self.name}@{self.about['Version'].replace('+', '%2B')}"

    def read_licences(self) -> list[dict[str, Any]]:
        """Return the licence: an SPDX expression, or the words of older wheels."""
        if expression := self.about["License-Expression"]:
            return [{"expression": expression}]
        classifiers = self.about.get_all("Classifier", [])
        licence_names = [
            classifier.rpartition(" :: ")[2]
            for classifier in classifiers
            if classifier.startswith("License ::")
        ]
        words = [(self.about["License"] or "").strip()]
        licence_texts = licence_names or [word for word in words if word and "\n" not in word]
        return [
            {"license": {"name": licence_text}}
            for licence_text in sorted(licence_texts or ["not stated"])
        ]

    def read_needs(self) -> set[str]:
        """Return the names of the packages that the wheel requires on this machine."""
        requirements = map(Requirement, self.about.get_all("Requires-Dist", []))
        environment = {"extra": ""}
        return {
            canonicalize_name(requirement.name)
            for requirement in requirements
            if not requirement.marker or requirement.marker.evaluate(environment)
        }

    def describe(self) -> dict[str, Any]:
        """Return the wheel's entry in the SBOM."""
        return {
            "type": "library",
            "bom-ref": self.reference,
            "name": self.name,
            "version": self.about["Version"],
            "purl": self.reference,
            "hashes": [{"alg": "SHA-256", "content": self.sha256}],
            "licenses": self.read_licences(),
            "properties": [{"name": "file", "value": self.path.name}],
        }


def fetch_wheels(into: Path) -> list[Wheel]:
    """Download all wheels with pip, for this Python and this machine."""
    words = [
        "-qq",
        "--only-binary",
        ":all:",
        "--dest",
        str(into),
        "-r",
        str(ROOT / "requirements.txt"),
        LOGIN,
    ]
    subprocess.run([sys.executable, "-m", "pip", "download", *words], check=True)
    return sorted(map(Wheel.read, into.glob("*.whl")), key=lambda wheel: wheel.name)


def pack_product() -> bytes:
    """Return the product as a tar file: the files that git tracks, as they are on the disk."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--", *PRODUCT], cwd=ROOT, capture_output=True, check=True
    )
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in sorted(listing.stdout.decode().split("\0")[:-1]):
            add_file(archive, name, (ROOT / name).read_bytes())
    return packed.getvalue()


def format_lock(wheels: list[Wheel]) -> str:
    """Return the requirements with the hashes that pip checks."""
    return "".join(
        f"{wheel.name}=={wheel.about['Version']} --hash=sha256:{wheel.sha256}\n" for wheel in wheels
    )


def make_sbom(wheels: list[Wheel], *, version: str, product_sha256: str) -> dict[str, Any]:
    """Return the SBOM of the archive in CycloneDX 1.6."""
    references = {wheel.name: wheel.reference for wheel in wheels}
    needs = {wheel.reference: wheel.read_needs() & set(references) for wheel in wheels}
    requirement_lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    direct = {canonicalize_name(Requirement(line).name) for line in requirement_lines}
    product = f"pkg:generic/kart-audit@{version}"
    needs[product] = direct | (set(references) - set().union(*needs.values()))
    digest = hashlib.sha256((product_sha256 + format_lock(wheels)).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32], version=4)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": product,
                "name": "kart-audit",
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": product_sha256}],
                "properties": [{"name": "file", "value": "product.tar"}],
            }
        },
        "components": [wheel.describe() for wheel in wheels],
        "dependencies": [
            {"ref": reference, "dependsOn": sorted(references[name] for name in names)}
            for reference, names in sorted(needs.items())
        ],
    }


def add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file without an owner and with the fixed time."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(content), TIME
    entry.mode = 0o755 if name.endswith(".sh") else 0o644
    archive.addfile(entry, BytesIO(content))


def write_bundle(out: Path) -> Path:
    """Write the archive into a folder and return its path."""
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    system = f"{platform.system()}-{platform.machine()}".lower()
    name = f"kart-audit-{facts['version']}-{system}-cp{PYTHON.replace('.', '')}"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        wheels = fetch_wheels(Path(folder))
        product = pack_product()
        product_sha256 = hashlib.sha256(product).hexdigest()
        bom = make_sbom(wheels, version=facts["version"], product_sha256=product_sha256)
        install = (ROOT / ".ci" / "install.sh").read_text(encoding="utf-8")
        files = {
            "install.sh": install.replace("@PYTHON@", PYTHON).encode(),
            "lock.txt": format_lock(wheels).encode(),
            "product.tar": product,
            "sbom.cdx.json": json.dumps(bom, indent=1, ensure_ascii=False).encode(),
        }
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        sums |= {f"wheels/{wheel.path.name}": wheel.sha256 for wheel in wheels}
        lines = (f"{digest}  {path}\n" for path, digest in sorted(sums.items()))
        files["SHA256SUMS"] = "".join(lines).encode()
        partial = Path(folder) / "bundle.tar"
        with tarfile.open(partial, "w") as archive:
            for path, content in sorted(files.items()):
                add_file(archive, f"{name}/{path}", content)
            for wheel in wheels:
                add_file(archive, f"{name}/wheels/{wheel.path.name}", wheel.path.read_bytes())
        return partial.replace(out / f"{name}.tar")


if __name__ == "__main__":
    sys.stdout.write(f"{write_bundle(Path(sys.argv[1]))}\n")
