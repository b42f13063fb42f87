"""Files of what the screen shows: guarded, and masked as the screen is."""

from __future__ import annotations

import csv
import io
import json

import numpy as np

from audit.report.documents import DocumentView, document_view
from pages.ui.screen_files import columns_csv, documents_file
from tests.pages.make_reports import make_report

HOSPITAL = ["=cmd() Sophia2 Wright2", "nothing\nhere", "x"]


def view() -> DocumentView:
    report = make_report(1)
    documents = {"hospital": HOSPITAL, "general": ["a", "b", "emil1"]}
    found = document_view(documents, report=report)
    assert found is not None
    return found


def test_the_table_is_what_is_seen_and_no_cell_is_a_formula() -> None:
    columns = {"name": ["=cmd()", "S*** W***"], "q": np.array([0.5, np.nan])}
    text = columns_csv(columns)().decode("utf-8-sig")
    assert text.splitlines() == ['"name","q"', '"\'=cmd()",0.5', '"S*** W***",']


def test_documents_as_csv_are_masked_and_guarded() -> None:
    data = documents_file(view(), rows=np.array([0, 1]), kind="csv", is_revealed=False)()
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    assert rows[0] == ["document_id", "model", "text"]
    assert rows[1] == ["0", "hospital", "'=cmd() S*** W***"]
    assert rows[3] == ["1", "hospital", "nothing\nhere"]
    assert len(rows) == 5


def test_documents_as_json_lines_are_those_of_the_screen() -> None:
    rows = np.array([0, 2])
    for is_revealed, first, last in (
        (True, HOSPITAL[0], "emil1"),
        (False, "=cmd() S*** W***", "e***"),
    ):
        data = documents_file(view(), rows=rows, kind="jsonl", is_revealed=is_revealed)()
        lines = [json.loads(line) for line in data.decode().splitlines()]
        assert lines[0] == {"document_id": 0, "model": "hospital", "text": first}
        assert [line["document_id"] for line in lines] == [0, 0, 2, 2]
        assert lines[-1]["text"] == last
