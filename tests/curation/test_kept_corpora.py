"""Kept corpora: listed the newest first, found by id or folder, renamed, removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.corpus.examine import read_examination
from audit.corpus.kept import CORPORA, KeptCorpus, find_corpus
from audit.corpus.truth import json_page
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from audit.shelf import new_identifier
from tests.curation.make_corpora import dummy_notes, made


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def kept(tmp_path: Path, *, title: str = "", created: str = "") -> KeptCorpus:
    corpus = made(CORPORA.place(new_identifier()), dummy_notes(tmp_path, n_patients=2), title=title)
    if created:
        path = corpus.path / "corpus.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"created": created}))
    return corpus


def test_corpora_are_listed_the_newest_first(tmp_path: Path) -> None:
    assert CORPORA.all() == ()
    old = kept(tmp_path, created="2020-01-01T00:00:00+00:00")
    new = kept(tmp_path, created="2021-01-01T00:00:00+00:00")
    (CORPORA.home() / f".{new_identifier()}.making").mkdir()
    damaged = kept(tmp_path)
    (damaged.path / "truth.jsonl").unlink()
    assert [corpus.corpus_id for corpus in CORPORA.all()] == [new.corpus_id, old.corpus_id]
    assert CORPORA.home().stat().st_mode & 0o777 == 0o700


def test_a_corpus_is_found_by_id_or_folder_and_nowhere_else(tmp_path: Path) -> None:
    corpus = kept(tmp_path, title="Here")
    assert CORPORA.get(corpus.corpus_id).title == "Here"
    assert find_corpus(corpus.corpus_id) == find_corpus(str(corpus.path)) == CORPORA.at(corpus.path)
    moved = tmp_path / "elsewhere"
    corpus.path.rename(moved)
    assert CORPORA.at(moved).corpus_id == ""
    for wrong in (corpus.corpus_id, "../../etc", "", "0" * 11, "A" * 12):
        with pytest.raises(AuditError):
            CORPORA.get(wrong)
    with pytest.raises(AuditError, match="It is damaged"):
        find_corpus(str(tmp_path))


def test_what_is_said_of_a_corpus_holds_no_path(tmp_path: Path) -> None:
    said = (kept(tmp_path).path / "corpus.json").read_text()
    assert str(tmp_path) not in said and json.loads(said)["source"] == "NOTEEVENTS.csv"


def test_a_corpus_is_removed(tmp_path: Path) -> None:
    corpus, other = kept(tmp_path), kept(tmp_path)
    CORPORA.forget(corpus.corpus_id)
    assert [path.name for path in CORPORA.home().iterdir()] == [other.corpus_id]
    with pytest.raises(AuditError, match="corpus: This is not kept"):
        CORPORA.forget(corpus.corpus_id)


def test_an_examination_is_read_as_it_was_written(tmp_path: Path) -> None:
    corpus = kept(tmp_path)
    found = read_examination(corpus.path)
    written = (corpus.path / "examination.json").read_bytes()
    assert json_page(found.plain()) == written
    for text in ("{}", "[]", '{"format": 2}', "no"):
        (corpus.path / "examination.json").write_text(text)
        with pytest.raises(AuditError, match="no examination"):
            read_examination(corpus.path)
