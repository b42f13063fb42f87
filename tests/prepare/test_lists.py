"""Kept lists and passages: what comes back is what was kept and asks the same question."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit import demo
from audit.errors import AuditError
from audit.home import HOME_VARIABLE, results_dir
from audit.names.candidates import make_candidates
from audit.names.controls import MAX_DRAWN, with_controls
from audit.names.files import names_file, read_names
from audit.names.lists import (
    all_names,
    all_passages,
    keep_names,
    keep_passages,
    kept_names,
    kept_passages,
    list_line,
)
from audit.notes.passages import read_passages
from audit.tables import RowNote
from cache.store import Store

HOSTILE = [
    ("=cmd()", "+1"), ("<img src=x>", "![x](http://evil.example)"), ("NA", "None"),
    ("太郎", "見本"), ("", "Single"), ('Jo"e', "O'Neil, Jr."), ("-", "@x"), ("\u2019Abd", "＝x"),
]  # fmt: skip
PASSAGES = (
    b'{"text": "[NAME] was seen.", "passage_id": "a", "name_id": 0}\n'
    b'{"text": "no place for it", "passage_id": "b"}\n'
    b'{"text": "Seen: [LAST], [FIRST] today", "passage_id": "c"}\n'
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    return Store(results_dir())


def test_a_kept_list_comes_back_and_is_named_by_a_salted_digest(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = make_candidates(HOSTILE, is_member=True, n_mentions=[1] * 7 + [None])
    notes = [RowNote(3, "Looks odd.")]
    digest = keep_names(names, label="  Ward 3 ", notes=notes, encoding="CP932", store=store)
    found = kept_names(digest[:12], store=store)
    assert found.candidates.digest() == names.digest()
    assert (found.line.label, found.notes, found.encoding) == ("Ward 3", tuple(notes), "CP932")
    assert digest != names.digest()
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "other"))
    with Store(results_dir()) as other:
        again = keep_names(names, label="", notes=(), encoding="", store=other)
    assert again != digest


def test_lines_hold_counts_and_no_name(store: Store) -> None:
    names = make_candidates([("Anna", "Zeller")], is_member=True) + make_candidates(
        [("Bert", "Yard")], is_member=False, control_kind="easy"
    )
    keep_names(names, label="", notes=(), encoding="UTF-8", store=store)
    line, *others = all_names(store)
    assert (line.n_names, line.n_members, line.n_unknown, line.by_kind) == (2, 1, 0, {"easy": 1})
    record = store.get_record(store.keys("list-line/")[0])
    assert not any(part in str(record) for part in ("Anna", "Zeller", "Bert", "Yard"))
    assert [one.code for one in others] == ["demo-en", "demo-ja"]


@pytest.mark.parametrize("code", ["", "0" * 12, "../etc", "demo-fr", "f" * 65, "%"])
def test_a_link_that_fits_nothing_is_refused(store: Store, code: str) -> None:
    with pytest.raises(AuditError, match="not kept here"):
        kept_names(code, store=store)
    with pytest.raises(AuditError, match="not kept here"):
        kept_passages(code, store=store)


def test_an_empty_list_and_one_that_is_too_long_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AuditError, match="1 to"):
        keep_names(make_candidates([]), label="", notes=(), encoding="", store=store)
    monkeypatch.setattr("audit.names.lists.MAX_NAMES", 1)
    two = make_candidates([("A", "B"), ("C", "D")])
    with pytest.raises(AuditError, match="1 to 1"):
        keep_names(two, label="", notes=(), encoding="", store=store)


def test_kept_passages_are_the_file_itself(store: Store) -> None:
    digest = keep_passages(PASSAGES, file_name="Jane Doe.jsonl", label="", store=store)
    found = kept_passages(digest[:12], store=store)
    original = read_passages(PASSAGES, file_name="passages.jsonl")
    assert (found.data, found.file_name) == (PASSAGES, "passages.jsonl")
    assert found.passages.digest() == original.digest()
    assert len(found.passages.notes) == len(original.notes) == 1
    line, *_ = all_passages(store)
    assert (line.n_passages, line.n_left_out, line.has_owners) == (2, 1, True)
    csv = b"text\n[NAME] came\n"
    kept = kept_passages(keep_passages(csv, file_name="x", label="", store=store), store=store)
    assert (kept.file_name, kept.passages.digest()) == (
        "passages.csv",
        read_passages(csv, file_name="passages.csv").digest(),
    )


def test_the_demo_lists_ask_the_demo_question(store: Store) -> None:
    for code, language in (("demo-en", "en"), ("demo-ja", "ja")):
        request = demo.DemoTask().request(2, language=language)
        names, passages = kept_names(code, store=store), kept_passages(code, store=store)
        assert names.candidates.digest() == request.candidates.digest()
        assert request.passages is not None
        assert passages.passages.digest() == request.passages.digest()


def test_a_list_that_is_handed_out_and_read_again_is_the_same_question() -> None:
    names = (
        make_candidates(HOSTILE, is_member=True, n_mentions=[0, 1, 2, 3, None, 5, 6, 7])
        + make_candidates([("Hans", "Easy")], is_member=False, control_kind="given")
        + make_candidates([("Una", "Known")])
    )
    data = names_file(names)
    assert read_names(data).candidates.digest() == names.digest()
    for line in data.decode("utf-8-sig").splitlines()[1:]:
        assert not any(cell.startswith(tuple(['"=', '"+', '"-', '"@'])) for cell in line.split(","))


part = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12).map(str.strip)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(part, part).filter(any), min_size=1, max_size=6))
def test_any_readable_list_survives_the_file(pairs: list[tuple[str, str]]) -> None:
    once = read_names(names_file(make_candidates(pairs, is_member=True))).candidates
    again = read_names(names_file(once)).candidates
    assert again.digest() == once.digest()


def test_controls_are_drawn_beside_the_list_and_survive_the_file() -> None:
    members = make_candidates(
        [("Mary", "Smith"), ("John", "Jones"), ("Ann", "Lee")], is_member=True
    )
    drawn = with_controls(members, n_easy=20, n_hard=10, n_recombined=4, seed=3)
    line = list_line(drawn, code="")
    assert line.by_kind == {"easy": 20, "hard": 10, "recombined": 4}
    assert len({drawn.full_name(i).casefold() for i in range(len(drawn))}) == len(drawn) == 37
    assert read_names(names_file(drawn)).candidates.digest() == drawn.digest()
    again = with_controls(members, n_easy=20, n_hard=10, n_recombined=4, seed=3)
    assert again.digest() == drawn.digest()
    with pytest.raises(AuditError, match="none"):
        with_controls(make_candidates([("A", "B")]), n_easy=1, n_hard=0, seed=0)
    with pytest.raises(AuditError, match="from 0 to"):
        with_controls(members, n_easy=MAX_DRAWN + 1, n_hard=0, seed=0)


def test_ten_thousand_names_are_kept_and_found_quickly(store: Store) -> None:
    names = make_candidates([(f"First{i}", f"Last{i}") for i in range(10_000)], is_member=None)
    started = time.monotonic()
    digest = keep_names(names, label="", notes=(), encoding="UTF-8", store=store)
    found = kept_names(digest[:12], store=store)
    assert len(found.candidates) == 10_000
    assert time.monotonic() - started < 5
