"""What is uploaded for an audit: the forms of files that the command line reads, and bad ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from audit.names.lists import list_passages, load_passages
from audit.notes.passages import read_passages
from cache.store import Store
from tests.names.test_files import SECRET, SMALL, workbook
from tests.pages.screen import open_page, press, texts
from tests.pages.test_audit import box, read_kept_list, upload

ROWS = [["PAT_NAME", "is_member"], ["Lee, Ann", True], ["Hill, Bo", False]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("list.xlsx", workbook(ROWS, []), "Read as xlsx."),
        ("list.csv", workbook(ROWS), "Read as xlsx."),
        (
            "list.jsonl",
            b'{"FIRST_NM": "Ann", "LAST_NM": "Lee", "label": 1}\n'
            b'{"FIRST_NM": "Bo", "LAST_NM": "Hill", "label": 0}\n',
            "Read as UTF-8.",
        ),
        (
            "list.txt",
            "sep=\t\nNom\tPrénom\tlabel\nLee\tAnn\t1\nHill\tBo\t0\n".encode("utf-16"),
            "Read as UTF-16.",
        ),
    ],
)
def test_a_list_is_read_in_every_form_and_kept(
    home: Path, name: str, data: bytes, sentence: str
) -> None:
    app = upload(open_page("audit"), data, name=name)
    assert sentence in texts(app)
    assert ("The workbook has 2 sheets; the first one is read." in texts(app)) == (
        name == "list.xlsx"
    )
    lists = home / "values" / "list"
    assert not lists.exists() or not [*lists.iterdir()]  # kept by the button alone
    press(app, "keep_names")
    assert [*lists.iterdir()]
    listed = read_kept_list(home).candidates
    assert (listed.first, listed.last, listed.is_member) == (
        ("Ann", "Bo"),
        ("Lee", "Hill"),
        (True, False),
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("list.xlsx", SMALL[:-40], "The archive is damaged"),
        ("list.csv", f"name\n{SECRET}\n".encode("utf-16-le"), "UTF-16 without a byte order mark"),
        ("list.json", f'[{{"name": "{SECRET}"}}]'.encode(), "This is a JSON array, not JSONL."),
    ],
)
def test_a_bad_list_is_refused_in_words(name: str, data: bytes, sentence: str) -> None:
    app = upload(open_page("audit", names="demo-en"), data, name=name)
    assert sentence in texts(app) and SECRET not in texts(app)
    app.radio(key="language").set_value("ja").run()
    assert not app.exception and sentence not in texts(app)


@pytest.mark.long
def test_packed_passages_with_a_placeholder_of_ones_own_are_kept_with_the_name_in_it(
    home: Path,
) -> None:
    text = "text,name_id\n@@ came.,0\n\nnobody came,\n"
    app = open_page("audit", names="demo-en")
    upload(app, gzip.compress(text.encode()), name="p.csv.gz", field="passages")
    assert "No text has a place for a full name." in texts(app)
    box(app, "text_input", "placeholder_0").set_value(" @@ ").run()
    assert "1 passages with a place for a name; 1 rows left out" in texts(app)
    press(app, "keep_passages")
    with Store(home) as store:
        passages = load_passages(list_passages(store)[0].code, store=store)
    assert passages.passages.digest() == read_passages(text.encode(), placeholder="@@").digest()
    assert (passages.file_name, b"@@" in passages.data) == ("passages.jsonl", False)
    assert [note.row for note in passages.passages.notes] == [4]


@pytest.mark.long
def test_packed_passages_that_are_damaged_or_too_large_are_refused() -> None:
    packed = gzip.compress(b"text\n[NAME] came.\n")
    app = upload(open_page("audit"), packed[:-9], name="p.csv.gz", field="passages")
    assert "The gzip file is damaged, or ends too early." in texts(app)
    bomb = gzip.compress(b"text\n" + b"[NAME] came.\n" * 8_000_000, 1)
    upload(app, bomb, name="q.csv.gz", field="passages")
    assert "The file is larger than 50 MB." in texts(app)
    second_file = b'{"resourceType": "Bundle", "entry": []}'
    upload(app, second_file, name="fhir.json", field="passages")
    assert "This is FHIR in JSON, not a table." in texts(app)


@pytest.mark.long
def test_own_controls_are_read_in_the_same_forms(home: Path) -> None:
    app = upload(open_page("audit"), workbook(ROWS))
    upload(app, b'{"PAT_NAME": "Ek, Cy"}\n', name="own.jsonl", field="own")
    press(app, "keep_names")
    listed = read_kept_list(home).candidates
    assert (listed.first[-1], listed.last[-1], listed.is_member[-1]) == ("Cy", "Ek", False)
