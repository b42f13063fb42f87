"""Kept corpora: listed the newest first, found by id or folder, renamed, removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.corpus.examine import examination_bytes, read_examination
from audit.corpus.kept import (
    KeptCorpus,
    corpora_dir,
    corpus_at,
    corpus_dir,
    find_corpus,
    forget_corpus,
    kept_corpora,
    kept_corpus,
    new_corpus_id,
)
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from tests.curation.make_corpora import dummy_notes, made


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def kept(tmp_path: Path, *, title: str = "", created: str = "") -> KeptCorpus:
    corpus = made(corpus_dir(new_corpus_id()), dummy_notes(tmp_path, n_patients=2), title=title)
    if created:
        path = corpus.path / "corpus.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"created": created}))
    return corpus


def test_corpora_are_listed_the_newest_first(tmp_path: Path) -> None:
    assert kept_corpora() == ()
    old = kept(tmp_path, created="2020-01-01T00:00:00+00:00")
    new = kept(tmp_path, created="2021-01-01T00:00:00+00:00")
    (corpora_dir() / f".{new_corpus_id()}.making").mkdir()
    damaged = kept(tmp_path)
    (damaged.path / "truth.jsonl").unlink()
    assert [corpus.corpus_id for corpus in kept_corpora()] == [new.corpus_id, old.corpus_id]
    assert corpora_dir().stat().st_mode & 0o777 == 0o700


def test_a_corpus_is_found_by_id_or_folder_and_nowhere_else(tmp_path: Path) -> None:
    corpus = kept(tmp_path, title="Here")
    assert kept_corpus(corpus.corpus_id).title == "Here"
    assert find_corpus(corpus.corpus_id) == find_corpus(str(corpus.path)) == corpus_at(corpus.path)
    moved = tmp_path / "elsewhere"
    corpus.path.rename(moved)
    assert corpus_at(moved).corpus_id == ""
    for wrong in (corpus.corpus_id, "../../etc", "", "0" * 11, "A" * 12):
        with pytest.raises(AuditError):
            kept_corpus(wrong)
    with pytest.raises(AuditError, match="no whole corpus"):
        find_corpus(str(tmp_path))


def test_what_is_said_of_a_corpus_holds_no_path(tmp_path: Path) -> None:
    said = (kept(tmp_path).path / "corpus.json").read_text()
    assert str(tmp_path) not in said and json.loads(said)["source"] == "NOTEEVENTS.csv"


def test_a_corpus_is_removed(tmp_path: Path) -> None:
    corpus, other = kept(tmp_path), kept(tmp_path)
    forget_corpus(corpus.corpus_id)
    assert [path.name for path in corpora_dir().iterdir()] == [other.corpus_id]
    with pytest.raises(AuditError, match="no such corpus"):
        forget_corpus(corpus.corpus_id)


def test_an_examination_is_read_as_it_was_written(tmp_path: Path) -> None:
    corpus = kept(tmp_path)
    found = read_examination(corpus.path)
    written = (corpus.path / "examination.json").read_bytes()
    assert examination_bytes(found) == written
    for text in ("{}", "[]", '{"format": 2}', "no"):
        (corpus.path / "examination.json").write_text(text)
        with pytest.raises(AuditError, match="no examination"):
            read_examination(corpus.path)
