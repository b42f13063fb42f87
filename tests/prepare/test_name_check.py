"""A list before it is kept: files, typed lines, controls, counts and spelling."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.names.candidates import make_candidates
from audit.names.files import names_file, read_names
from audit.names.lists import Wanted, make_draft
from audit.text import script_of
from pages.ui.setup_facts import name_facts, spelling
from tests.models.make_models import make_bert

CSV = b"first_name,last_name,is_member\nAnna,Smith,1\nBert,Jones,0\nAnna,Smith,1\n"


def test_nothing_given_makes_no_list() -> None:
    assert make_draft(None, base=None, wanted=Wanted()) is None
    assert make_draft(None, base=None, wanted=Wanted(typed=" \n\n")) is None


def test_a_file_typed_names_and_controls_come_in_this_order() -> None:
    wanted = Wanted("Carl Miller\nDoe, Jane\n見本 太郎\n", None, n_easy=3, n_hard=2, seed=1)
    draft = make_draft(CSV, base=None, wanted=wanted)
    assert draft is not None
    assert (draft.n_given, draft.n_typed, draft.n_drawn) == (2, 3, 5)
    assert draft.candidates.first[:5] == ("Anna", "Bert", "Carl", "Jane", "太郎")
    assert draft.candidates.is_member[:5] == (True, False, None, None, None)
    assert draft.candidates.control_kind[5:] == ("easy",) * 3 + ("hard",) * 2
    assert [note.row for note in draft.notes] == [4]
    assert draft.encoding == "UTF-8"


@pytest.mark.parametrize(
    ("data", "encoding", "first"),
    [
        ("first_name,last_name\nJosé,Núñez\n".encode("utf-8-sig"), "UTF-8 with BOM", "José"),
        ("姓,名\n山田,花子\n".encode("cp932"), "CP932", "花子"),
        (b'first_name,last_name\n"Jo""e","Smith, Jr."\n', "UTF-8", 'Jo"e'),
        (b"first_name,last_name\nNA,None\n", "UTF-8", "NA"),
        (b"first_name,last_name\n=cmd(),<img src=x>\n", "UTF-8", "=cmd()"),
        (b"first_name,last_name\n![x](http://evil.example/p.png),y\n", "UTF-8", "![x](http://evil.example/p.png)"),
    ],
)  # fmt: skip
def test_hard_files_are_read_as_they_are(data: bytes, encoding: str, first: str) -> None:
    draft = make_draft(data, base=None, wanted=Wanted())
    assert draft is not None
    assert (draft.encoding, draft.candidates.first[0]) == (encoding, first)


def test_ten_thousand_rows_are_validated_within_two_seconds() -> None:
    rows = "".join(f"First{i},Last{i % 997},{i % 2}\n" for i in range(10_000))
    started = time.monotonic()
    draft = make_draft(
        f"first_name,last_name,is_member\n{rows}".encode(), base=None, wanted=Wanted()
    )
    assert draft is not None
    facts = name_facts(draft.candidates)
    seconds = time.monotonic() - started
    assert (len(draft.candidates), facts.scripts) == (10_000, {"latin": 10_000})
    assert seconds < 2


def test_a_typed_name_that_is_there_is_left_out_or_refused() -> None:
    draft = make_draft(CSV, base=None, wanted=Wanted("anna smith\nCher\n", True))
    assert draft is not None
    assert draft.n_typed == 1
    assert [note.row for note in draft.typed_notes] == [1, 2]
    with pytest.raises(AuditError, match="another truth") as refused:
        make_draft(CSV, base=None, wanted=Wanted("x y\nAnna Smith", False))
    assert refused.value.where == "typed names, line 2"
    assert "Anna" not in str(refused.value)
    with pytest.raises(AuditError, match="longer than"):
        make_draft(None, base=None, wanted=Wanted("x " + "y" * 300))


def test_typed_members_change_the_kind_of_controls() -> None:
    base = make_candidates([("Bert", "Jones")], is_member=False, control_kind="given")
    base = replace(base, is_kind_guessed=(True,))
    draft = make_draft(None, base=base, wanted=Wanted("Bert Miller\nTim Zorn", True))
    assert draft is not None
    assert draft.candidates.control_kind == ("hard", "", "")
    typed = make_draft(CSV, base=None, wanted=Wanted("Anna Zorn\nUdo Zorn", False))
    assert typed is not None
    assert typed.candidates.control_kind[2:] == ("hard", "easy")


def test_kinds_that_the_list_says_are_kept_and_only_raised_by_members_that_come() -> None:
    said = (
        "first_name,last_name,is_member,control_kind,role,n_mentions\n"
        "Anna,Smith,1,,,\nBert,Zorn,0,hard,,\nUdo,Roth,0,given,,\nIda,Berg,0,easy,,\n"
        "Nevah,Was,1,,canary,2\nNeither,Is,0,,canary,\n"
    )
    for typed, kinds in (
        (Wanted("Karl Roth", True), ("", "hard", "given", "easy", "", "canary", "")),
        (Wanted("Karl Berg", True), ("", "hard", "given", "hard", "", "canary", "")),
        (Wanted("Karl Berg", False), ("", "hard", "given", "easy", "", "canary", "easy")),
    ):
        draft = make_draft(said.encode(), base=None, wanted=typed)
        assert draft is not None
        assert draft.candidates.control_kind == kinds


def test_rows_of_the_own_file_go_along_with_what_is_left_out_typed_and_drawn() -> None:
    data = b"first_name,last_name,is_member\n\nAnna,Smith,1\nAnna,Smith,1\nBert,Jones,1\n"
    draft = make_draft(data, base=None, wanted=Wanted("Carl Miller", None, n_easy=2))
    assert draft is not None
    assert draft.candidates.row == (3, 5, None, None, None)
    again = read_names(names_file(draft.candidates)).candidates
    assert again.row == draft.candidates.row
    assert again.digest() == draft.candidates.digest()


def test_files_that_cannot_be_used_are_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for data in (b"", b"PK\x03\x04xlsx", b"a,b\n1,2\n", b"first_name,last_name\nA,B,C\n"):
        with pytest.raises(AuditError):
            make_draft(data, base=None, wanted=Wanted())
    monkeypatch.setattr("audit.names.lists.MAX_NAMES", 1)
    with pytest.raises(AuditError, match="more than 1 names"):
        make_draft(CSV, base=None, wanted=Wanted())


def test_facts_by_hand() -> None:
    names = make_candidates([("Mary", "Smith"), ("太郎", "見本"), ("Анна", "И"), ("", "Solo")])
    facts = name_facts(names)
    assert facts.scripts == {"latin": 2, "han_kana": 1, "other": 1}
    assert (facts.n_one_part, facts.n_with_mentions) == (1, 0)
    known = [log for log in facts.log_popularity if not math.isnan(log)]
    assert len(known) == sum(facts.popularity.n_tested) == 4 - facts.popularity.n_missing
    assert script_of("=1") == "other"


def test_spelling_counts_pieces_and_what_cannot_be_spelt(tmp_path: Path) -> None:
    words = ("mary", "smith", "jo", "##hn")
    model = make_bert(tmp_path / "model", words=words)
    names = make_candidates([("Mary", "Smith"), ("John", "Smith"), ("Xqx", "Smith")])
    found = spelling(names, model=model)
    assert found.n_pieces == (2, 3, 0)
    assert found.by_pieces.starts == (2.0, 3.0)
    assert found.by_pieces.n_tested == (1, 1)
    assert found.by_pieces.n_missing == 1
