"""The wheel: one package with all code and data, which runs anywhere beside others' packages."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import re
import site
import socket
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from audit.home import DEMO_HOSPITAL, HOME_VARIABLE
from audit.jobs.child import NICENESS_VARIABLE
from audit.jobs.worker import IDLE_VARIABLE
from tests.jobs.fake_jobs import PATIENCE_SECONDS
from tests.repository import REPOSITORY, repository_files

IN_WHEEL = ("app.py", "audit", "cache", "pages", ".streamlit")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wheel", REPOSITORY / ".ci" / "wheel.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def requirements(name: str) -> list[str]:
    lines = (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    return sorted(line for line in lines if not line.startswith("-r "))


def test_the_wheel_and_the_pinned_lists_need_the_same_packages():
    extras = PROJECT["optional-dependencies"]
    assert sorted(PROJECT["dependencies"]) == requirements("requirements.txt")
    assert sorted(extras["cluster"]) == requirements("requirements-cluster.txt")
    assert sorted([*extras["dev"]]) == sorted(
        ["kart-audit[cluster]", *requirements("requirements-dev.txt")]
    )


def test_the_lock_file_has_a_fitting_version_with_hashes_of_every_package():
    text = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.-]+)==(\S+)(?: ;[^\\\n]*)? \\\n((?:    --hash=.*\n)+)", text, re.M)
    assert len(entries) == len(re.findall(r"^\w", text, re.M))
    versions = {canonicalize_name(name): version for name, version, _ in entries}
    for requirement in map(Requirement, requirements("requirements.txt")):
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier


def test_only_names_of_our_modules_get_the_prefix(hook):
    source = b'''"""Text: from audit import x."""
from audit.run import run_audit, AuditTask  # from audit
import numpy, audit.words as words
if True:
    from cache import store; from pages.ui import state
from audits import other
from . import audit
KINDS = {"\xe5\xbe\x8c": "audit.run:AuditTask", "b": "audit.nowhere", "c": "audit"}
'''
    names = {"audit", "audit.run", "audit.words", "cache", "pages.ui"}
    assert (
        hook.add_prefix(source, modules=names, place="x.py").decode()
        == '''"""Text: from audit import x."""
from kart_audit.audit.run import run_audit, AuditTask  # from audit
import numpy, kart_audit.audit.words as words
if True:
    from kart_audit.cache import store; from kart_audit.pages.ui import state
from audits import other
from . import audit
KINDS = {"後": "kart_audit.audit.run:AuditTask", "b": "audit.nowhere", "c": "audit"}
'''
    )


@pytest.mark.parametrize("source", ["import audit.run", "RUN = r'audit.run'"])
def test_a_name_that_cannot_get_the_prefix_stops_the_build(hook, source):
    with pytest.raises(ValueError, match=r"^x\.py:1: "):
        hook.add_prefix(source.encode(), modules={"audit.run"}, place="x.py")


def test_sentences_name_the_installed_command(hook):
    text = "`python -m audit jobs`, X=DIR python -m streamlit run app.py, python -m audit.run"
    assert (
        hook.rename_commands(text) == "`kart-audit jobs`, X=DIR kart-audit app, python -m audit.run"
    )


# ---- the built wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = ["wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    pip(*words, "--wheel-dir", str(folder), str(REPOSITORY))
    (path,) = folder.glob("*.whl")
    return path


def pip(*words: str, python: str = sys.executable) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *words], check=True)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment's folder: the wheel, this one's packages, and hostile neighbours."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    (packages,) = (folder / "lib").glob("*/site-packages")
    (packages / "theirs.pth").write_text("\n".join(site.getsitepackages()))
    for name in ("audit", "cache", "pages", "app"):
        (packages / f"{name}.py").write_text(f'raise SystemExit("{name} is not ours")')
    pip(
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
        python=str(folder / "bin/python"),
    )
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process; its directory is empty."""
    (tmp_path / "empty").mkdir()
    threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    # A job gives way to all other work, so beside other tests it might not begin for minutes.
    worker = {NICENESS_VARIABLE: "0", IDLE_VARIABLE: "1"}
    return os.environ | threads | worker | {HOME_VARIABLE: str(tmp_path / "home")}


@pytest.fixture
def empty(tmp_path: Path, environment: dict[str, str]) -> Iterator[Path]:
    yield tmp_path / "empty"
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.slow
def test_the_wheel_has_one_package_with_every_file(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"kart_audit", f"kart_audit-{PROJECT['version']}.dist-info"}
    expected = {path.as_posix() for path in repository_files() if path.parts[0] in IN_WHEEL}
    packed = {name.removeprefix("kart_audit/") for name in names if name.startswith("kart_audit/")}
    assert packed == expected | {"__init__.py", "__main__.py"}


@pytest.mark.slow
def test_the_version_is_answered_without_any_dependency(installed, environment, empty) -> None:
    command = str(installed / "bin" / "kart-audit")
    words = [str(installed / "bin" / "python"), "-X", "importtime", command, "--version"]
    process = subprocess.run(
        words, cwd=empty, env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout == f"kart-audit {PROJECT['version']}\n"
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in process.stderr.splitlines()
    }
    assert "kart_audit" in imported
    assert not imported & {"numpy", "pandas", "pydantic", "torch", "streamlit", "cyclopts"}


@pytest.mark.slow
def test_commands_run_in_an_empty_directory(installed, environment, empty, tmp_path) -> None:
    scores = tmp_path / "scores.csv"
    scores.write_text("score,is_member\n2,1\n1,1\n-1,0\n-2,0\n")
    words = ["score", "--scores", str(scores), "--threshold", "0", "--json"]
    measures = json.loads(call(installed, words, environment=environment, cwd=empty))
    assert measures["auc"] == 1
    assert "kart-audit selftest" in call(
        installed, ["selftest", "--help"], environment=environment, cwd=empty
    )
    folder = DEMO_HOSPITAL / "en"
    words = ["run", "--scenario=2", "--inputs=10", "--chain-inputs=0", "--json"]
    words += [f"--{role}={folder / 'models' / role}" for role in ("general",)]
    words += [f"--hospital={folder / 'models' / 'hospital-40'}", f"--names={folder / 'names.csv'}"]
    words += [f"--passages={folder / 'passages.jsonl'}", f"--out={tmp_path / 'out'}"]
    summary = json.loads(call(installed, words, environment=environment, cwd=empty))
    assert summary["verdict"]
    interface = (
        "import sys, kart_audit; before = {*sys.modules}; kart_audit.score([2, 1], [1, 0]); "
    )
    loaded = "print('pandas' in before, 'audit' in sys.modules)"
    python = [str(installed / "bin" / "python"), "-c", interface + loaded]
    answer = subprocess.run(python, cwd=empty, env=environment, capture_output=True, check=True)
    assert answer.stdout == b"False False\n"


def call(installed: Path, words: list[str], *, environment: dict[str, str], cwd: Path) -> str:
    command = [str(installed / "bin" / "kart-audit"), *words]
    process = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


JOB = """
import time
from pathlib import Path
from kart_audit.audit.corpus.make import CorpusTask
from kart_audit.audit.home import DEMO_HOSPITAL
from kart_audit.audit.jobs import service
from kart_audit.audit.names.facts import spelling
from kart_audit.audit.names.files import read_names

english = DEMO_HOSPITAL / "en"
names = read_names((english / "names.csv").read_bytes()).candidates
print(len(spelling(names, model=english / "models" / "general").n_pieces) == len(names))
job = service.ask(CorpusTask(notes=DEMO_HOSPITAL / "notes.csv", title="Ward notes").question())
while job.is_active:
    time.sleep(0.1)
    job = service.job(job.job_id)
print(job.state, job.failure)
"""


@pytest.mark.slow
def test_a_sandbox_and_a_job_run_in_processes_of_their_own(installed, environment, empty) -> None:
    words = [str(installed / "bin" / "python"), "-c", JOB]
    process = subprocess.run(
        words, cwd=empty, env=environment, capture_output=True, text=True, check=False
    )
    assert process.stdout.split("\n")[:2] == ["True", "done None"], process.stderr


@pytest.mark.slow
def test_the_app_answers_with_its_own_settings(installed, environment, empty) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [str(installed / "bin" / "kart-audit"), "app", f"--server.port={port}"]
    process = subprocess.Popen(words, cwd=empty, env=environment, stdout=subprocess.DEVNULL)
    try:
        answer = ask(port, process)
    finally:
        process.terminate()
        process.wait()
    assert answer.status == 200
    assert "default-src 'self'" in (answer.getheader("content-security-policy") or "")


def ask(port: int, process: subprocess.Popen[bytes]) -> http.client.HTTPResponse:
    """Return the answer to a question after its health, as soon as there is one."""
    while True:
        try:
            with closing(
                http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
            ) as client:
                client.request("GET", "/_stcore/health")
                return client.getresponse()
        except OSError:
            assert process.poll() is None
            time.sleep(0.1)
