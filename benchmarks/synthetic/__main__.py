"""Writes the example that is shipped."""

from __future__ import annotations

from audit.deid.measure.scoring import EXAMPLES
from audit.notes.formats import write_jsonl
from benchmarks.synthetic import HELD_OUT_STYLES, example

for _language in HELD_OUT_STYLES:
    _path = EXAMPLES / f"{_language}.jsonl"
    _path.write_text(write_jsonl(example(_language)), encoding="utf-8")
