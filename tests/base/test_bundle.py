"""The archive for a machine without internet: the same bytes, installed with no network at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.home import HOME_VARIABLE
from tests.repository import REPOSITORY

pytestmark = pytest.mark.slow
IN_NO_NETWORK = ("unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that goes when the tests are over: what is in it takes gigabytes."""
    room = tmp_path_factory.mktemp("bundle")
    yield room
    shutil.rmtree(room)


def bundled(room: Path) -> Path:
    """Return the archive, made anew."""
    script = str(REPOSITORY / ".ci" / "bundle.py")
    done = subprocess.run(
        [sys.executable, script, str(room)], check=True, capture_output=True, text=True
    )
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def archive(room: Path) -> Path:
    return bundled(room / "first")


@pytest.fixture(scope="module")
def unpacked(archive: Path, room: Path) -> Path:
    subprocess.run(["tar", "-xf", str(archive), "-C", str(room)], check=True)
    return room / archive.name.removesuffix(".tar")


def test_the_same_tree_gives_the_same_bytes(archive: Path, room: Path) -> None:
    again = bundled(room / "second")
    assert again.name == archive.name
    assert sha256(again) == sha256(archive)
    again.unlink()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_the_sbom_lists_every_wheel_and_the_product_with_its_hash(unpacked: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = (unpacked / "sbom.cdx.json").read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    sbom = json.loads(text)
    product = sbom["metadata"]["component"]
    listed = {
        one["properties"][0]["value"]: one["hashes"][0]["content"]
        for one in (product, *sbom["components"])
    }
    there = [unpacked / "product.tar", *(unpacked / "wheels").iterdir()]
    assert listed == {path.name: sha256(path) for path in there}
    assert all(one["licenses"] for one in sbom["components"])
    needed = {one for each in sbom["dependencies"] for one in each["dependsOn"]}
    assert needed == {one["bom-ref"] for one in sbom["components"]}


def test_a_wheel_that_was_changed_is_refused_by_name(unpacked: Path, room: Path) -> None:
    changed = room / "changed"
    shutil.copytree(unpacked, changed, copy_function=os.link)
    wheel = next((changed / "wheels").glob("diskcache-*"))
    before = wheel.read_bytes()
    wheel.unlink()  # a link: the unpacked one stays as it is
    wheel.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    target = room / "never"
    done = subprocess.run(
        ["sh", "install.sh", str(target)],
        cwd=changed,
        env=with_this_python(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"wheels/{wheel.name}: FAILED" in done.stdout
    assert "Not installed: a file is not the one that was packed." in done.stderr
    assert not target.exists()
    # Nor would pip take it by the lock alone.
    words = ["--dry-run", "--ignore-installed", "--no-index", "--find-links", "wheels"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *words, "--require-hashes", "-r", "lock.txt"],
        cwd=changed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert wheel.name in done.stderr


def with_this_python() -> dict[str, str]:
    # Threads that wait by spinning take minutes where others compute beside them.
    return os.environ | {
        "PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
    }


def test_it_installs_and_runs_where_there_is_no_network(
    unpacked: Path, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subprocess.run([*IN_NO_NETWORK, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here")
    target, home = room / "installed", room / "home"
    monkeypatch.setenv(HOME_VARIABLE, str(home))

    def run(*words: str, cwd: Path) -> str:
        done = subprocess.run(
            [*IN_NO_NETWORK, *words],
            cwd=cwd,
            env=with_this_python(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2_000:] + done.stdout[-2_000:]
        return done.stdout

    assert f'cd "{target}"' in run("sh", "install.sh", str(target), cwd=unpacked)
    python = str(target / ".venv" / "bin" / "python")
    checks = json.loads(run(python, "-m", "audit", "selftest", "--json", cwd=target))["checks"]
    assert checks and all(check["has_passed"] for check in checks)
    # The installed app is started and walked through, by this repository's client.
    words = ["--app", str(target), "--python", python, "--sessions", "1", "--walks", "3"]
    bars = ["--pause", "0", "--seconds", "60", "--megabytes", "500"]
    shown = run(sys.executable, "-m", "benchmarks.load", *words, *bars, cwd=REPOSITORY)
    assert "errors 0" in shown
