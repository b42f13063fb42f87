"""A kept corpus on the Corpus page: what was counted, the list, ways on, downloads, removal."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.examine import read_examination
from audit.corpus.make import CorpusTask, make_corpus
from audit.corpus.truth import CORPUS, EXAMINATION
from audit.home import results_dir
from audit.names.lists import load_names, load_passages
from audit.shelf import json_page
from benchmarks.example_notes import example_csv
from cache.store import Store
from tests.pages.make_trainings import CORPUS_ID
from tests.pages.screen import downloads, open_page, parameter, press, texts

FILES = ("corpus_download_names", "corpus_download_passages")


def files(app: AppTest) -> dict[str, bool]:
    return {key: is_closed for key, is_closed in downloads(app).items() if key in FILES}


@pytest.fixture(scope="module")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus of the example notes, with canaries."""
    folder = tmp_path_factory.mktemp("made")
    notes = folder / "notes.csv"
    notes.write_bytes(example_csv(n_patients=30))
    order = CorpusTask(
        notes=notes, seed=2, title="Ward <b>3</b>", canary_counts=(1, 2), n_canaries=3
    )
    return make_corpus(order, out=folder / "corpus")


@pytest.fixture
def corpus(corpus_folder: Path) -> KeptCorpus:
    shutil.copytree(corpus_folder, CORPORA.place(CORPUS_ID))
    return CORPORA.get(CORPUS_ID)


def test_what_was_counted_is_shown_beside_the_paper(corpus: KeptCorpus) -> None:
    app = open_page("workshop")
    page_text = texts(app)
    examination = read_examination(corpus.path)
    assert "Ward &lt;b&gt;3&lt;/b&gt;" in page_text
    assert "<b>3" not in page_text
    coverage = examination.coverage
    assert f"in {coverage.n_notes_with_mention:,} of {coverage.n_notes:,} notes" in page_text
    assert f"of {coverage.n_true_names:,} names of patients" in page_text
    assert (
        f"This corpus: {examination.n_positives} names, {examination.n_patterns} in all"
        in page_text
    )
    assert "Paper: 130 names, 158 in all" in page_text
    assert "Paper: 130 names, 232 in all" in page_text
    assert "The note is empty." in page_text
    assert "Rows refused: 1" in page_text
    assert "Device" in page_text
    assert "Held-out canaries" in page_text
    assert "How many people carry a name" in page_text
    carriers = page_text.partition("People with the name")[2].partition("</table>")[0]
    numbers = re.findall(r'<tr><td class="ka-number">(\d+)</td>', carriers)
    assert "1" in numbers and "0" not in numbers
    assert len(app.get("plotly_chart")) == 2
    assert [tab.label for tab in app.tabs][1] == "Tables 3 and 4"
    people = [json.loads(line) for line in (corpus.path / "people.jsonl").read_text().splitlines()]
    names = [f"{person['first']} {person['last']}" for person in people]
    assert len(names) > 20
    assert not [name for name in names if name in page_text]


def test_list_and_passages_are_chosen_for_the_audit_by_one_button(corpus: KeptCorpus) -> None:
    app = open_page("workshop", corpus=CORPUS_ID)
    press(app, "corpus_audit_go")
    assert app.title[0].value == "New audit"
    names, passages = parameter(app, "names"), parameter(app, "passages")
    with Store(results_dir()) as store:
        candidates = load_names(names, store=store).candidates
        assert sum(map(bool, candidates.is_member)) > 10
        assert {"easy", "hard", "canary"} <= set(candidates.control_kind)
        assert len(load_passages(passages, store=store).passages) > 10
    assert texts(app).count('ka-step ka-is-ready"') == 2


@pytest.mark.long
def test_held_out_people_are_counted_and_are_the_usual_controls(corpus_folder: Path) -> None:
    order = CorpusTask(notes=corpus_folder.parent / "notes.csv", seed=2, hold_out="8")
    make_corpus(order, out=CORPORA.place(CORPUS_ID))
    app = open_page("workshop")
    page_text = texts(app)
    held_out = read_examination(CORPORA.get(CORPUS_ID).path).held_out
    assert held_out is not None and held_out.n_patients == 8
    assert "Patients held out" in page_text
    assert "None of their notes is in the private or the de-identified corpus" in page_text
    for title in ("Names that are controls", "Names of held-out people that are left out"):
        assert title in page_text
    press(app, "corpus_audit_go")
    with Store(results_dir()) as store:
        candidates = load_names(parameter(app, "names"), store=store).candidates
    assert (candidates.source, {*candidates.control_kind}) == ("held_out", {"", "held_out"})
    assert candidates.control_kind.count("held_out") == held_out.n_controls
    assert "Held-out people" in texts(app)


@pytest.mark.long
def test_files_with_real_names_wait_for_names_to_be_revealed(corpus: KeptCorpus) -> None:
    assert files(open_page("workshop")) == dict.fromkeys(FILES, False)
    # A corpus of identified notes.
    facts = json.loads((corpus.path / CORPUS).read_text())
    (corpus.path / CORPUS).write_text(json.dumps(facts | {"kind": "register"}))
    examination = read_examination(corpus.path).with_(inserted=(), unknown=())
    (corpus.path / EXAMINATION).write_bytes(json_page(examination.plain()))
    app = open_page("workshop")
    assert files(app) == dict.fromkeys(FILES, True)
    assert "The people in this corpus are real" in texts(app)
    press(app, "reveal_now")
    assert files(app) == dict.fromkeys(FILES, False)


def test_a_link_to_a_corpus_that_is_gone_one_that_is_damaged_and_its_removal(
    corpus: KeptCorpus,
) -> None:
    app = open_page("workshop", corpus="f" * 12)
    assert "The corpus of this link is not kept here" in texts(app)
    assert parameter(app, "corpus") == CORPUS_ID
    (corpus.path / EXAMINATION).write_text("{}")
    assert "written by another version" in texts(open_page("workshop"))
    press(app, "corpus_forget_now")
    assert CORPORA.all() == ()
    assert "No corpus is kept here yet" in texts(app)


@pytest.mark.long
def test_a_corpus_of_notes_without_a_patient_column_says_so(corpus: KeptCorpus) -> None:
    assert "No patient column was found" not in texts(open_page("workshop"))
    path = corpus.path / EXAMINATION
    path.write_text(json.dumps(json.loads(path.read_text()) | {"n_patients": 0}))
    assert "No patient column was found" in texts(open_page("workshop"))
    assert "患者の列が見つかりませんでした" in texts(open_page("workshop", lang="ja"))
