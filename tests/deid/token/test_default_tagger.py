"""The recipe of the shipped tagger: `benchmarks/default_tagger.py`."""

from __future__ import annotations

import json

from audit.notes.spans import Span, tagged
from benchmarks.default_tagger import Recipe, make, measure_again, with_mixed_lines
from tests.deid.token.make_notes import notes


def test_the_default_is_made_and_measured_again(tmp_path):
    out = tmp_path / "default"
    how = make(out, Recipe(n_notes=12, n_validation=4, n_test=6, n_epochs=0.5))
    assert json.loads((out / "how.json").read_text("utf-8")) == how
    assert set(how["held_out"]) == {"rules alone", "model alone", "default"}
    assert how["held_out"]["default"]["ja"]["n_notes"] == 3
    assert measure_again(out) == how
    names = {path.name for path in out.iterdir()}
    assert names == {"how.json", "tagger.json", "model"} and list(tmp_path.iterdir()) == [out]


def test_mixed_lines_are_lines_of_notes_with_their_spans():
    given = notes(12)
    mixed = with_mixed_lines(given, seed=1)
    assert mixed == with_mixed_lines(given, seed=1) != with_mixed_lines(given, seed=2)
    known = {(line, tuple((one.text[s.start : s.end], s.label) for s in one.spans if
                          one.text[s.start : s.end] in line))
             for one in given for line in one.text.splitlines(keepends=True)}  # fmt: skip
    for one in mixed:
        at = 0
        for line in one.text.splitlines(keepends=True):
            spans = [s for s in one.spans if at <= s.start < at + len(line)]
            found = tuple((one.text[s.start : s.end], s.label) for s in spans)
            assert (line, found) in known
            at += len(line)
    broken = tagged("a", text="x\ny\nz", spans=[Span(0, 3, "contact")])
    for one in with_mixed_lines([broken], seed=0):
        assert {one.text[s.start : s.end] for s in one.spans} <= {"x\ny"}
