"""Making a corpus: the same bytes everywhere, whole or not there, and true to the notes."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from audit.corpus.corpora import KeptCorpus
from audit.corpus.examine import read_examination
from audit.corpus.make import BUILD, CorpusTask
from audit.corpus.other_names import write_other_names
from audit.corpus.truth import CORPUS, PASSAGES, NoteTruth, Place, places_of, read_listed
from audit.errors import AuditCancelled, AuditError
from audit.home import DEMO_HOSPITAL
from audit.names.candidates import Candidates
from audit.names.files import read_names
from audit.notes.passages import read_passages
from audit.notes.placeholders import find_placeholders
from audit.progress import Progress
from audit.shelf import whole_folder
from benchmarks.example_notes import COLUMNS, example_csv
from pages.ui.state import words_of
from tests.corpus.make_notes import (
    CATEGORIES,
    DATES,
    DOCTOR,
    KNOWN,
    check_places,
    dummy_notes,
    dummy_rows,
    every_category,
    lines,
    made,
    note_row,
    register_files,
    write_notes,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "corpora.json").read_text())
CANARIES: dict[str, Any] = {"canary_counts": (1, 2), "n_canaries": 3}
EXAMPLE = DEMO_HOSPITAL / "notes.csv"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return dummy_notes(tmp_path)


def names_of(corpus: KeptCorpus, *wanted: str) -> Candidates:
    """Return the names of some roles and kinds of controls."""
    names = read_names((corpus.path / "candidates.csv").read_bytes()).candidates
    whose = enumerate(zip(names.role, names.control_kind, strict=True))
    return names.rows([row for row, one in whose if {*one} & {*wanted}])


def full_names(names: Candidates) -> list[str]:
    return [names.full_name(row) for row in range(len(names))]


def texts(corpus: KeptCorpus, file: str) -> dict[int, str]:
    return {line["row"]: line["text"] for line in lines(corpus.path / f"{file}.jsonl")}


def built(kind: str, folder: Path, *, workers: int = 1) -> KeptCorpus:
    """Make one of the corpora whose bytes are written down."""
    if kind == "hard rows":
        rows = [note_row(i, patient=i % 3, text=every_category(number=str(i))) for i in range(4)]
        rows += [
            ("77", "1", "too", "few"),
            note_row(6, patient=2, text="  "),
            note_row(7, patient="", text="Mrs. [**Known lastname 2**]: [**open, 45 y/o F"),
        ]
        path, choices = write_notes(folder / "n.csv", rows), {"seed": 4}
    elif kind == "blanks":
        text = "Name: ___ Unit No: ___\nDate of Birth: ___ Sex: F\nMs. ___ is a ___ year old. ___"
        path = write_notes(
            folder / "n.csv", [note_row(i, patient=i % 3, text=text) for i in range(5)]
        )
        choices = {"canary_counts": (2,), "n_canaries": 1}
    elif kind in ("register", "japanese register"):
        path, register = register_files(folder, is_japanese=kind.startswith("japanese"))
        choices = {"register_file": register, "seed": 2, "canary_counts": (1,), "n_canaries": 1}
    else:
        path, choices = EXAMPLE, {"seed": 3, "title": " A  ward ", **CANARIES}
        if kind == "sample":
            choices = {"seed": 1, "sample": 40}
    return made(folder / "corpus", path, workers=workers, **choices)


def digests(corpus: KeptCorpus) -> dict[str, str]:
    """Return 16 digits of the SHA-256 of each file; of records without what is not repeated."""
    write_other_names(corpus, seed=7)
    found = {}
    for path in corpus.path.iterdir():
        data = path.read_bytes()
        if path.name == "corpus.json":
            data = json.dumps(json.loads(data) | {"created": ""}).encode()
        found[path.name] = hashlib.sha256(data).hexdigest()[:16]
    return dict(sorted(found.items()))


def check_truth(corpus: KeptCorpus) -> Counter[str]:
    """Check that the notes differ only where the truth says; return how many places there are."""
    public = texts(corpus, "public")
    known = {line["row"]: line for line in lines(corpus.path / "truth.jsonl")}
    kinds: Counter[str] = Counter()
    for row, private in texts(corpus, "private").items():
        record = known.get(row, {"inserted": [], "left": []})
        left = tuple(Place(**place) for place in record["left"])
        check_places(NoteTruth(private, public[row], places_of(record["inserted"]), left))
        kinds.update(place["kind"] for place in record["inserted"])
    return kinds


@pytest.mark.parametrize("what", GOLDEN)
def test_every_byte_is_what_it_was_and_the_truth_stands_where_it_says(
    what: str, tmp_path: Path
) -> None:
    corpus = built(what, tmp_path)
    assert digests(corpus) == GOLDEN[what]
    kinds = check_truth(corpus)
    examination = read_examination(corpus.path)
    if corpus.kind == "dummy":
        n_planted = sum(map(int, names_of(corpus, "canary").n_mentions))
        assert sum(kinds.values()) == sum(count.n for count in examination.inserted) + n_planted
    if what == "register":
        # The second note is in capitals; patient 3 is named, but nowhere beside an age.
        assert full_names(names_of(corpus, "patient")) == ["Anna Sandoval", "Boris Youngblood"]
        assert (examination.mention_table, examination.n_patients) == (((2, 1), (1, 1)), 4)
        public = " ".join(texts(corpus, "public").values())
        assert not re.search("anna|sandoval|youngblood|overton", public, re.I)
        assert set(lines(corpus.path / "public.jsonl")[0]) == {"row", "category", "text"}
    assert {path.stat().st_mode & 0o777 for path in corpus.path.iterdir()} == {0o600}
    assert corpus.path.stat().st_mode & 0o777 == 0o700
    if what == "hard rows":
        assert set(kinds) == {*CATEGORIES.values()}
        assert kinds["date"] == 4 * (sum(k == "date" for k in CATEGORIES.values()) * 2 + len(DATES))
        refused = lines(corpus.path / "refused.jsonl")
        assert [line["row"] for line in refused] == [6, 7]
        assert refused[0]["what"]["text"] == "The row has 4 cells where the header has 11."


@pytest.mark.long
@pytest.mark.parametrize("what", GOLDEN)
def test_no_byte_depends_on_where_batches_of_notes_begin(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.corpus.make._BATCH_CHARS", 500)
    assert digests(built(what, tmp_path)) == GOLDEN[what]


@pytest.mark.long
@pytest.mark.parametrize("what", ["example", "register", "japanese register"])
def test_several_processes_make_the_same_bytes(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.corpus.make._BATCH_CHARS", 5_000)
    assert digests(built(what, tmp_path, workers=2)) == GOLDEN[what]


@pytest.mark.long
def test_nothing_is_left_of_a_corpus_that_was_stopped_while_processes_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.corpus.make._BATCH_CHARS", 5_000)
    reached: list[str] = []
    with pytest.raises(AuditCancelled):
        made(
            tmp_path / "out" / "c",
            EXAMPLE,
            workers=2,
            should_stop=lambda: BUILD in reached,
            progress=lambda report: reached.append(report.phase),
        )
    assert list((tmp_path / "out").iterdir()) == []


def test_the_number_of_workers_asks_for_no_other_corpus() -> None:
    first_question, second_question = (
        CorpusTask(notes=EXAMPLE, workers=n).question() for n in (1, 2)
    )
    assert (
        first_question.digest == second_question.digest
        and first_question.order["workers"] != second_question.order["workers"]
    )


def test_the_example_notes_are_mimics_with_every_kind_of_placeholder() -> None:
    assert EXAMPLE.read_bytes() == example_csv() != example_csv(seed=8)
    rows = list(csv.reader(EXAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)))
    assert tuple(rows[0]) == COLUMNS and {len(row) for row in rows} == {len(COLUMNS)}
    lines = [place for row in rows for place in find_placeholders(row[-1]).places]
    assert {place.category for place in lines if place.kind == "unknown"} == {"Device"}
    assert {place.kind for place in lines} >= {*CATEGORIES.values()}


def test_the_examination_counts_what_is_there(notes: Path, tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", notes, seed=1)
    examination = read_examination(corpus.path)
    # Patient p is named p + 1 times beside an age, patient 0 once more without one.
    assert examination.coverage.by_form == (("is_a", 21),)
    assert dict(examination.coverage.by_reason)["generic"] == 1
    assert (examination.coverage.n_true_names, examination.coverage.n_elsewhere) == (22, 1)
    assert examination.mention_table == ((6, 1), (5, 1), (4, 1), (3, 1), (2, 1), (1, 1))
    assert examination.pattern_table == ((2, 5), (1, 1))
    assert (examination.n_positives, examination.n_patterns, examination.n_occurrences) == (
        6,
        11,
        21,
    )
    assert [one.plain() for one in examination.unknown] == [
        {"category": "Spaceship", "kind": "unknown", "n": 1, "first_row": 24}
    ]
    counts = {(each.control_kind, each.role): each.n for each in examination.candidates}
    assert counts["", "patient"] == counts["easy", ""] == counts["hard", ""] == 6
    members = names_of(corpus, "patient")
    assert (members.n_mentions, members.sex) == ((1, 2, 3, 4, 5, 6), ("M",) * 6)
    passages = read_passages((corpus.path / "passages.jsonl").read_bytes(), file_name="p.jsonl")
    assert (len(passages), examination.n_passages) == (11, 11)
    first = passages.passages[0]
    assert (first.left, first.slots, first.separator) == ("", ("first", "last"), " ")
    assert first.right.startswith(" is a 42 year old man with gout. He slept well.")
    assert first.right.endswith("He went home.")  # five sentences
    owners = set(zip(members.first, members.last, strict=True))
    assert {passage.owner for passage in passages.passages} == owners
    # The last two notes name nobody beside an age: of their patients others are listed.
    listed = read_listed(corpus.path / "listed.json")
    assert list(listed.notes) == list(range(21))
    assert (listed.n_notes, listed.n_patients, listed.n_listed_patients) == (23, 6, 6)


def test_canaries_stand_as_often_as_planned(notes: Path, tmp_path: Path) -> None:
    plain = made(tmp_path / "plain", notes, seed=1)
    corpus = made(tmp_path / "c", notes, seed=1, **CANARIES)
    examination = read_examination(corpus.path)
    assert (examination.canaries, examination.n_passages) == (((1, 3), (2, 3)), 20)
    assert dict(examination.coverage.n_by_role)["canary"] == 9
    assert examination.mention_table == read_examination(plain.path).mention_table
    text = " ".join(texts(corpus, "private").values())
    canaries = names_of(corpus, "canary")
    # The i-th planted name and the i-th twin are a pair.
    counts = [text.count(name) for name in full_names(canaries)]
    assert counts == list(canaries.n_mentions) == [1, 2, 1, 2, 1, 2] + [0] * 6
    assert canaries.is_member == (True,) * 6 + (False,) * 6
    assert set(canaries.control_kind[6:]) == set(canaries.role) == {"canary"}
    plain_texts, planted_texts = (
        texts(corpus_of_texts, "public") for corpus_of_texts in (plain, corpus)
    )
    assert sum(plain_texts[row] != planted_texts[row] for row in plain_texts) == 9
    assert not [name for name in full_names(canaries) if name in " ".join(planted_texts.values())]


def test_planted_notes_and_those_of_drawn_members_are_listed(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.corpus.candidate_lists.MAX_POSITIVES", 2)
    corpus = made(tmp_path / "c", notes, seed=1, **CANARIES)
    members, planted = (full_names(names_of(corpus, name)) for name in ("patient", "canary"))
    assert len(members) == 2
    positives = [
        any(name in text for name in planted) or any(f"{m} is a" in text for m in members)
        for text in texts(corpus, "private").values()
    ]
    listed = read_listed(corpus.path / "listed.json")
    assert list(listed.notes) == [k for k, is_here in enumerate(positives) if is_here]
    assert 9 < len(listed.notes) < 21
    examination = read_examination(corpus.path)
    assert (examination.n_positives, examination.n_listed_positives) == (6, 2)


def test_what_stands_left_of_the_name_is_in_passages_alone(tmp_path: Path) -> None:
    text = f"Fell. Seen by {DOCTOR.format(n=2)}: {KNOWN.format(n=1)} is a 42 year old man. Ok."
    notes = write_notes(tmp_path / "n.csv", [note_row(1, patient=1, text=text)])
    plain, left = (
        {path.name: path.read_bytes() for path in corpus.path.iterdir()}
        for corpus in (made(tmp_path / "a", notes), made(tmp_path / "b", notes, has_left=True))
    )
    assert {name for name in plain if plain[name] != left[name]} == {PASSAGES, CORPUS}
    passages = (read_passages(content[PASSAGES]).passages for content in (plain, left))
    assert [(p.left, p.right) for (p,) in passages] == [
        ("", " is a 42 year old man. Ok."),
        ("Seen by : ", " is a 42 year old man. Ok."),
    ]


@pytest.mark.slow
def test_the_single_token_rule_leaves_names_out(tmp_path: Path, notes: Path) -> None:
    pytest.importorskip("transformers")
    from tests.models.make_models import make_bert

    people = {
        (line["first"].lower(), line["last"].lower())
        for line in lines(made(tmp_path / "a", notes, seed=1).path / "people.jsonl")
    }
    words = sorted({part for name in sorted(people)[:3] for part in name})
    model = make_bert(tmp_path / "model", seed=1, words=words)
    corpus = made(tmp_path / "b", notes, seed=1, tokenizer=model)
    members = names_of(corpus, "patient")
    member_names = {
        (f.lower(), last.lower()) for f, last in zip(members.first, members.last, strict=True)
    }
    assert member_names == {name for name in people if set(name) <= set(words)}
    assert read_examination(corpus.path).n_not_one_token == 6 - len(member_names) > 0
    for name in full_names(names_of(corpus, "easy", "hard", "recombined")):
        assert set(name.lower().split()) <= set(words)


@pytest.mark.long
def test_nothing_is_left_of_a_corpus_that_was_stopped_or_refused(
    notes: Path, tmp_path: Path
) -> None:
    reports: list[Progress] = []
    out = tmp_path / "out" / "c"
    made(tmp_path / "whole", notes, progress=reports.append, **CANARIES)
    phases = list(dict.fromkeys(report.phase for report in reports))
    assert phases == [
        "reading who the notes are about",
        "building the corpus",
        "planting canaries",
        "drawing candidates",
        "counting who else has their names",
    ]
    for phase in phases:
        assert words_of("ja").text(f"jobs_stage_corpus_{phase.replace(' ', '_')}")
    lines = [report.units_done for report in reports]
    assert lines == sorted(lines) and reports[-1].share == 1
    for phase in phases:
        reached: list[str] = []
        with pytest.raises(AuditCancelled):
            made(
                out,
                notes,
                progress=lambda r, to=reached: to.append(r.phase),
                should_stop=lambda to=reached, p=phase: p in to,
                **CANARIES,
            )
        assert list(out.parent.iterdir()) == []
    empty = write_notes(tmp_path / "empty.csv", [])
    for source, choices, words in (
        (notes, {"canary_counts": (999,)}, "9,990 notes are needed"),
        (empty, {}, "notes: No row is a note."),
        (notes, {"register_file": tmp_path / "none.csv"}, "register: The file is not there"),
    ):
        with pytest.raises(AuditError, match=words):
            made(out, source, **choices)
    assert list(out.parent.iterdir()) == []


def test_notes_that_change_while_they_are_read_are_refused(notes: Path, tmp_path: Path) -> None:
    def change(report: Progress) -> None:
        if report.phase == "building the corpus":
            write_notes(notes, [*dummy_rows(), note_row(99, patient=99, text="New.")])

    with pytest.raises(AuditError, match="changed while they were read"):
        made(tmp_path / "c", notes, progress=change, **CANARIES)


KILLED = """
import sys
from pathlib import Path
from audit.corpus.build import corpus_folder
with corpus_folder(Path(sys.argv[1]), names=["private.jsonl"]) as files:
    files["private.jsonl"].write(b"x" * 5_000_000)
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_killed_build_is_not_taken_for_a_corpus(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "made" / "out"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout and process.stdout.readline() == b"writing\n"
        with pytest.raises(AuditError, match="being written"), whole_folder(out):
            raise AssertionError("two builds at once")
        process.send_signal(signal.SIGKILL)
    assert not out.exists()
    assert made(out, notes, seed=1).n_notes == 23
    assert list(out.parent.iterdir()) == [out]
