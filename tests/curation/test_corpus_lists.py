"""Lists of a corpus: what they hold, the check against D_private, and kept for an audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.corpus.candidate_lists import CONTROLS
from audit.corpus.kept import (
    CORPORA,
    KeptCorpus,
    check_controls,
    keep_lists,
    list_of,
    passages_for,
)
from audit.errors import AuditError
from audit.home import HOME_VARIABLE, results_dir
from audit.names.candidates import make_candidates
from audit.names.files import read_names
from audit.names.lists import all_names, kept_names, kept_passages
from audit.notes.passages import read_passages
from audit.shelf import new_identifier
from cache.store import Store
from tests.curation.make_corpora import dummy_notes, lines, made


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptCorpus:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    out = CORPORA.place(new_identifier())
    notes = dummy_notes(tmp_path)
    return made(out, notes, seed=1, canary_counts=(1, 2), n_canaries=2, title="A title")


def test_a_list_has_the_members_and_controls_that_were_asked_for(corpus: KeptCorpus) -> None:
    plain = list_of(corpus, controls=("easy",), roles=("patient",))
    assert plain.is_member == (True,) * 6 + (False,) * 6
    assert plain.role[:6] == ("patient",) * 6 and plain.control_kind[6:] == ("easy",) * 6
    usual = list_of(corpus)
    assert sum(usual.is_member[i] is True for i in range(len(usual))) == 6 + 4
    assert usual.control_kind.count("canary") == 4
    staff = list_of(corpus, controls=(), roles=("patient", "staff"))
    assert staff.role.count("staff") > 2 and all(staff.is_member)
    everything = list_of(corpus, controls=CONTROLS, roles=("patient", "staff", "canary"))
    names = [everything.full_name(row).lower() for row in range(len(everything))]
    assert len(set(names)) == len(names)  # a control in two lists comes once
    with pytest.raises(AuditError, match="no such list"):
        list_of(corpus, controls=("harder",))


def test_the_file_of_candidates_is_a_list_of_names_too(corpus: KeptCorpus) -> None:
    found = read_names((corpus.path / "candidates.csv").read_bytes())
    assert len(found.candidates) == len(
        list_of(corpus, controls=CONTROLS, roles=("patient", "staff", "canary"))
    )


def test_a_control_that_occurs_is_refused_with_its_number_only(corpus: KeptCorpus) -> None:
    person = lines(corpus.path / "people.jsonl")[0]
    name = (person["first"].upper(), person["last"])
    controls = make_candidates([name, ("Zq", "Xv")], is_member=False, control_kind="easy")
    with pytest.raises(AuditError, match="candidates: 1 controls occur") as refused:
        check_controls(corpus, controls)
    assert name[1] not in str(refused.value)
    check_controls(corpus, controls.rows([1]))
    # A list that was changed by hand is looked at again before it is used.
    path = corpus.path / "candidates.csv"
    row = f'"easy","{name[0]}","{name[1]}",0,"easy","","",\n'
    path.write_text(path.read_text() + row)
    with pytest.raises(AuditError, match="1 controls occur"):
        list_of(corpus, controls=("easy",), roles=("canary",))


def test_a_list_and_its_passages_are_kept_for_an_audit(corpus: KeptCorpus) -> None:
    with Store(results_dir()) as store:
        names, passages = keep_lists(corpus, controls=("hard",), store=store)
        kept, texts = kept_names(names, store=store), kept_passages(passages, store=store)
        assert next(line.code for line in all_names(store)) == names
    assert kept.candidates == list_of(corpus, controls=("hard",))
    assert kept.line.label == texts.line.label == "A title (hard)"
    assert len(texts.passages) == 11 + 6 == texts.line.n_passages
    owners = {passage.owner for passage in texts.passages.passages}
    members = [i for i, m in enumerate(kept.candidates.is_member) if m]
    assert owners == {(kept.candidates.first[i], kept.candidates.last[i]) for i in members}


def test_passages_are_those_of_the_members_of_the_list(corpus: KeptCorpus) -> None:
    candidates = list_of(corpus, roles=("patient",))
    chosen = passages_for(corpus, candidates)
    assert len(read_passages(chosen, file_name="p.jsonl")) == 11
    assert {json.loads(line)["role"] for line in chosen.splitlines()} == {"patient"}
    assert len(lines(corpus.path / "passages.jsonl")) == 17


def test_a_corpus_without_names_has_no_list(tmp_path: Path, corpus: KeptCorpus) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("Nobody is named here.")
    empty = made(tmp_path / "empty", tmp_path / "texts")
    with pytest.raises(AuditError, match="No patient is named"):
        list_of(empty)
