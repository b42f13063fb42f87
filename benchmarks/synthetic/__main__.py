"""Writes the example that is shipped."""

from __future__ import annotations

from audit.deid.scoring import EXAMPLES
from audit.notes.formats import jsonl_line
from benchmarks.synthetic import HELD_OUT_STYLES, example

for _language in HELD_OUT_STYLES:
    _text = "".join(map(jsonl_line, example(_language)))
    (EXAMPLES / f"{_language}.jsonl").write_text(_text, encoding="utf-8")
