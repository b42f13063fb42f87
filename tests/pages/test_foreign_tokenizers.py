"""The process that serves pages: it builds no tokenizer, whatever a link or a folder says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.home import HOME_VARIABLE
from audit.models.registry import VARIABLE
from benchmarks.hostile_tokenizers import replacement, sequence, write_files
from tests.models.make_models import make_bert
from tests.repository import REPOSITORY

_SCRIPT = """
import json, sys
class Refuse:  # None in sys.modules would do, but scipy looks there for a module's attributes
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("torch", "transformers", "tokenizers"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from tests.pages.screen import keys, open_page, texts
for query in json.loads(sys.argv[1]):
    app = open_page("audit", **query)
    assert not app.exception, app.exception
    print(json.dumps([texts(app), sorted(keys(app))]))
"""


def run_pages(*queries: dict[str, str], models: Path, home: Path) -> list[tuple[str, list[str]]]:
    """Open links in a process that cannot build a tokenizer; return text and keys of each."""
    process = subprocess.run(
        [sys.executable, "-c", _SCRIPT, json.dumps(queries)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ
        | {VARIABLE: str(models), HOME_VARIABLE: str(home), "PYTHONPATH": str(REPOSITORY)},
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return [tuple(json.loads(line)) for line in process.stdout.splitlines()[-len(queries) :]]


@pytest.mark.long
def test_a_link_has_its_tokenizers_built_elsewhere(tmp_path: Path) -> None:
    demo = {"general": "demo:en/general", "hospital": "demo:en/hospital-40", "names": "demo-en"}
    query = {**demo, "passages": "demo-en", "scenario": "2", "preset": "quick"}
    (text, keys), *_ = run_pages(query, models=tmp_path, home=tmp_path / "home")
    assert "start" in keys  # compared, spelt and planned
    assert "Plan</h2>" in text


@pytest.mark.long
@pytest.mark.parametrize("n", [18, 20_000])
def test_a_link_to_a_hostile_folder_shows_a_refusal(tmp_path: Path, n: int) -> None:
    good = make_bert(tmp_path / "models" / "good")
    bad = make_bert(tmp_path / "models" / "bad")
    state = sequence("normalizer", [replacement({"String": "a"}, "aa")] * n)
    for name, content in write_files(state).items():
        (bad / name).write_text(content, "utf-8")
    links = [{"general": "models/bad"}, {"general": "models/good", "hospital": "models/bad"}]
    for text, keys in run_pages(*links, models=good.parent, home=tmp_path / "home"):
        assert "too many or too large ones" in text and "start" not in keys
