"""Text of notes on every page: one function alone shows any, names masked until they are revealed.

The places are enumerated twice: from the source (nothing else may draw such text), and on the
pages, with names that are listed and names that no list holds, for a reader and an auditor.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.home import results_dir
from audit.names.lists import keep_names, keep_passages
from audit.notes.passages import Passage
from audit.notes.read import VARIABLE
from cache.store import Store
from tests.pages.make_reports import MEMBERS, keep, make_inspection, make_names, make_report
from tests.pages.screen import open_page, press, texts
from tests.pages.test_corpus_build import choose_file
from tests.pages.test_deidentify import open_notes
from tests.pages.test_deidentify_kept import make_set
from tests.pages.ui.test_access import ANNA, ROSE, opened
from tests.repository import REPOSITORY, python_files

DOOR = "pages/ui/note_text.py"
LOOKS = re.compile(r"ka-document|class=.ka-passage|ka-mark-|mask_stretch")
"""What text of notes looks like on a page, and how it is masked."""
ALWAYS = {"released", "private", "public", "texts", "right"}
"""Attributes that hold text of notes, whatever they are attributes of."""
TEXT_OF_NOTES = {
    "passage": {"left"},
    "match.passage": {"left"},
    "note.document": {"text"},
    "case": {"text"},
    "tagged_note.document": {"text"},
    "count": {"category"},
    "single": {"attributes"},
}
"""What others are attributes of -> which hold it."""
DOORS = {"note_html", "note_plain", "passage_html"}
NO_SCREEN = {
    ("pages/ui/deid_note.py", "_count_places"): "what is counted is asked for, not shown",
    ("pages/ui/deid_note.py", "_correct"): "what is corrected is asked for, not shown",
    ("pages/ui/deid_note.py", "_released_html"): "names of the note are looked for elsewhere",
    ("pages/ui/corpus.py", "_draw_texts"): "goes into `_marked_html`, which goes through the door",
    ("pages/ui/charts.py", "_marker_look"): "an error bar's ends, no text",
    ("pages/ui/deid_note.py", "_mark_text"): "cut out first, then through the door",
    ("pages/ui/name_documents.py", "draw"): "read ahead by the finder, all at once",
    ("pages/ui/deid_leftovers.py", "_draw_singles"): "the kinds of attributes, in words",
}
"""(file, function) -> why it holds text of notes outside a call of the door."""


def note_expressions(path: Path) -> list[tuple[str, int]]:
    """Return (function, line) of text of notes that is no argument of the door."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    inside = {
        id(part)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in DOORS
        for part in ast.walk(call)
    }
    rows = []
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for part in ast.walk(function):
            if not isinstance(part, ast.Attribute) or id(part) in inside:
                continue
            if part.attr in ALWAYS | TEXT_OF_NOTES.get(ast.unparse(part.value), set()):
                rows.append((function.name, part.lineno))
    return rows


def test_no_page_draws_text_of_notes_past_the_one_function() -> None:
    pages = python_files("pages")
    assert len(pages) > 30
    looks = [
        (str(path), line)
        for path in pages
        if str(path) != DOOR
        for line in LOOKS.findall((REPOSITORY / path).read_text(encoding="utf-8"))
    ]
    # A legend of tones shows no text of a note.
    assert {path for path, look in looks if look != "ka-mark-"} == set()
    legends = {"pages/ui/corpus.py": "_draw_texts"}
    assert {path for path, _ in looks} == set(legends)
    past = {
        (str(path), function)
        for path in pages
        if str(path) != DOOR
        for function, _ in note_expressions(path)
    }
    assert past == set(NO_SCREEN), past ^ set(NO_SCREEN)


# On the pages. Of the names none stands in a place that is the passage's own.

OTHER = "Barbara Hutchinson"
LISTED = [part for member in MEMBERS for part in member]
TEXT = f" is 50. Seen by Dr. {OTHER} with sophia7 WRIGHT7, and Wright9; Emil3 came too."
NAMES_IN_IT = ("Barbara", "Hutchinson", "sophia7", "WRIGHT7", "Wright9", "Emil3", *LISTED)


def everything(app: AppTest) -> str:
    """Return all that a page shows, in whatever element."""
    assert not app.exception
    pieces = [str(frame.value) for frame in app.dataframe]
    pieces += [
        str(getattr(element, "value", "")) for element in (*app.markdown, *app.code, *app.caption)
    ]
    return "\n".join((texts(app), *pieces))


def page_of(person: str, page: str, **query: str) -> AppTest:
    app = opened(person)
    app.session_state["is_revealed"] = person == ROSE  # a reader's session may say what it likes
    app.switch_page(f"../{page}.py")
    app.query_params.update(query)
    app.run()
    assert not app.exception
    return app


@pytest.mark.parametrize("person", [ROSE, ANNA])
@pytest.mark.parametrize(
    ("scenario", "query"),
    [(1, {"tab": "documents"}), (1, {"name": "2"}), (2, {"tab": "documents"}), (2, {"name": "2"})],
)
def test_texts_of_an_audit_hide_every_listed_and_found_name_until_revealed(
    scenario: int, query: dict[str, str], person: str
) -> None:
    report = make_report(scenario)
    passages = [
        Passage(f"Mrs. {OTHER} and Sophia4 saw ", ("first", "last"), " ", TEXT, str(n), MEMBERS[2])
        for n in range(3)
    ]
    documents = {"hospital": [f"Sophia2 {TEXT}"], "general": [TEXT]} if scenario == 1 else None
    inspection = make_inspection(report, passages=passages if scenario == 2 else ())
    keep(report, inspection=inspection, documents=documents)
    app = page_of(person, "names", **query)
    page_text = everything(app)
    assert "is 50. Seen by Dr. B*** H*** with s*** W***, and W***; E***" in re.sub(
        "<small>.*?</small>|</?mark[^>]*>", "", page_text
    )
    assert not [name for name in NAMES_IN_IT if name in page_text]
    if person == ANNA:
        press(app, "reveal_now")
        assert OTHER in everything(app)
        assert "revealed" in [entry.action for entry in entries(20)]


@pytest.mark.parametrize("is_listed", [True, False])
def test_the_example_of_chosen_passages_hides_names(is_listed: bool) -> None:
    line = {"text": f"Mrs. {OTHER} saw [FIRST] [LAST]{TEXT}"}
    with Store(results_dir()) as store:
        passages = keep_passages(
            json.dumps(line).encode(), file_name="p.jsonl", label="P", store=store
        )
        names = keep_names(make_names(), label="N", store=store) if is_listed else ""
    query = {"passages": passages[:12]} | ({"names": names[:12]} if is_listed else {})
    app = page_of(ANNA, "audit", **query)
    page_text = everything(app)
    assert "is 50. Seen by Dr. B*** H***" in page_text
    hidden = NAMES_IN_IT if is_listed else ("Barbara", "Hutchinson")
    assert not [name for name in hidden if name in page_text]
    press(app, "reveal_now")
    assert OTHER in everything(app)


IDENTIFIED = f"Mrs. {OTHER} is a 70-year-old woman. Plan: home."
PARTLY = f"[**Known firstname 100**] [**Known lastname 101**] was seen. Her sister {OTHER} called."


def test_each_note_of_a_file_is_judged_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "ward"))
    (tmp_path / "ward").mkdir()
    rows = "".join(f'{n},"{text}"\n' for n, text in enumerate((PARTLY, IDENTIFIED, PARTLY)))
    (tmp_path / "ward" / "mixed.csv").write_text(f"patient_id,text\n{rows}")
    app = choose_file(open_page("workshop"), "mixed.csv")
    page_text = everything(app)
    assert "Her sister B*** H*** called." in page_text and "[**Known firstname 100**]" in page_text
    number = next(box for box in app.number_input if "corpus_preview_number" in (box.key or ""))
    number.set_value(2).run()
    page_text = everything(app)
    assert "This note has no placeholder" in page_text and "70-year-old" not in page_text
    assert "Barbara" not in page_text and "Hutchinson" not in page_text
    press(app, "reveal_now")
    assert IDENTIFIED in everything(app)
    noted = [dict(entry.counts) for entry in entries(50) if "row" in dict(entry.counts)]
    assert noted == [{"what": "note", "row": 3}]


def test_a_placeholder_that_holds_a_name_is_masked_in_the_list_of_categories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "ward"))
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "odd.csv").write_text(
        f'patient_id,text\n1,"[**{OTHER}**] was seen on [**2150-1-2**]."\n'
    )
    app = choose_file(open_page("workshop"), "odd.csv")
    assert "B*** H***" in everything(app)
    assert "Barbara" not in everything(app) and "Hutchinson" not in everything(app)


def test_a_name_that_was_missed_in_a_released_text_is_masked_until_revealed() -> None:
    text = f"Name: Anna Smith. Her neighbour {OTHER} brought her in; later hutchinson left."
    tagged = make_set(1, data=json.dumps({"text": text}).encode())  # by the rules alone
    app = open_notes(tagged=tagged.tagged_id)
    page_text = everything(app)
    assert (
        "Hutchinson" not in page_text
        and "Barbara" not in page_text
        and "brought her in" in page_text
    )
    press(app, "reveal_now")
    assert OTHER in everything(app)
