from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from audit.demo import DemoTask
from audit.demo_build import ENGLISH, JAPANESE, Recipe, build_demo
from audit.models.inspect import model_digest
from audit.models.load import load_pair
from audit.names.files import read_names
from audit.notes.passages import read_passages
from audit.run import run_audit
from cache.store import Store

TINY = {"n_general_documents": 60, "n_general_steps": 3, "width": 16, "exposures": (0.2,)}


def built(folder: Path, recipe: Recipe, seed: int = 0) -> Path:
    build_demo(folder, recipe=recipe, seed=seed)
    return folder


@pytest.mark.parametrize(("recipe", "n"), [(ENGLISH, 130), (JAPANESE, 20)])
def test_the_recipe_makes_names_passages_and_models(recipe: Recipe, n: int, tmp_path: Path) -> None:
    folder = built(tmp_path / recipe.language, replace(recipe, **TINY))
    names = read_names((folder / "names.csv").read_bytes()).candidates
    kinds = [names.control_kind.count(kind) for kind in ("", "easy", "hard")]
    assert kinds == [n, n, n]
    members = set(zip(names.first[:n], names.last[:n], strict=True))
    parts = {part for name in members for part in name}
    for first, last, kind in zip(names.first, names.last, names.control_kind, strict=True):
        if kind == "easy":
            assert first not in parts
            assert last not in parts
        if kind == "hard":
            assert (first in parts) + (last in parts) == 1
    passages = read_passages((folder / "passages.jsonl").read_bytes(), file_name="p.jsonl")
    assert {p.owner for p in passages.passages} == set(range(n))
    models = {path.name for path in (folder / "models").iterdir()}
    assert models == {"general", "hospital-0.2"} | ({"null"} if recipe.with_null else set())
    pair = load_pair(
        folder / "models" / "general", folder / "models" / "hospital-0.2",
        device="cpu", dtype="float32",
    )  # fmt: skip
    assert pair.general.digest != pair.hospital.digest


def test_the_same_seed_makes_the_same_models(tmp_path: Path) -> None:
    recipe = replace(JAPANESE, **TINY)
    one, two, other = (built(tmp_path / str(i), recipe, seed) for i, seed in enumerate((0, 0, 1)))
    digests = [model_digest(f / "models" / "hospital-0.2") for f in (one, two, other)]
    assert digests[0] == digests[1] != digests[2]


def test_the_shipped_japanese_demo_is_audited_with_names_of_several_pieces(tmp_path: Path) -> None:
    request = DemoTask(n_inputs=100).request(2, language="ja")
    with Store(tmp_path) as store:
        report = run_audit(request, store=store)
    assert max(report.names["n_pieces"]) > 2
    assert report.verdict.state == "leak_found"
    assert json.dumps(report.to_json(), allow_nan=False)
