"""The recipe of the shipped tagger: `benchmarks/default_tagger.py`."""

from __future__ import annotations

import json

from benchmarks.default_tagger import Recipe, make, measure_again


def test_the_default_is_made_and_measured_again(tmp_path):
    out = tmp_path / "default"
    how = make(out, Recipe(n_notes=12, n_validation=4, n_test=6, n_epochs=0.5))
    assert json.loads((out / "how.json").read_text("utf-8")) == how
    assert set(how["held_out"]) == {"rules alone", "model alone", "default"}
    assert how["held_out"]["default"]["ja"]["n_notes"] == 3
    assert measure_again(out) == how
    names = {path.name for path in out.iterdir()}
    assert names == {"how.json", "tagger.json", "model"} and list(tmp_path.iterdir()) == [out]
