"""From mentions to passages: the public note's text, whose name it is, and how many there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from audit.corpus.build import build_corpus
from audit.corpus.demo_notes import MENTIONS_PER_NAME, PATTERNS_PER_NAME, demo_notes
from audit.corpus.examine import count_table, positives_of
from audit.corpus.truth import (
    NO_NOTES,
    NotePair,
    Piece,
    TrueName,
    coverage,
    coverage_of,
    pair_from_register,
    pair_from_truth,
    patterns_of,
)
from audit.names.pools import us_pool
from audit.notes.passages import read_passages
from audit.notes.read import open_notes
from audit.text import fold_name

PRIVATE = (
    "Seen by Dr. Ann Lee. HPI: John K. Smith is a 45-year-old man with gout. He fell on 3/4/2011. "
    "He lives in Boston. He takes aspirin 81 mg q.d. with food. Dr. Lee agrees. He is well."
)
PUBLIC = (
    "Seen by Dr. [**First Name1 (NameIs)**] [**Last Name (STitle)**]. HPI: [**Known firstname 9**] "
    "[**Initial (NamePattern1)**]. [**Known lastname 9**] is a 45-year-old man with gout. "
    "He fell on [**2177-3-4**]. He lives in Boston. He takes aspirin 81 mg q.d. with food. "
    "Dr. [**Last Name (STitle)**] agrees. He is well."
)


def paired() -> NotePair:
    values = [("Ann", 0, "staff"), ("Lee", 0, "staff"), ("John", 1, "patient"), ("K", 1, "patient"),
              ("Smith", 1, "patient"), ("3/4/2011", -1, ""), ("Lee", 2, "staff")]  # fmt: skip
    inserted, at = [], 0
    for (value, group, role), place in zip(
        values, re.finditer(r"\[\*\*.*?\*\*\]", PUBLIC), strict=True
    ):
        at = PRIVATE.index(value, at)
        inserted.append(
            {"start": at, "stop": at + len(value), "source_start": place.start(),
             "source_stop": place.end(), "group": group, "identity": f"{role}:{group and 1}",
             "role": role, "kind": "", "value": value}
        )  # fmt: skip
        at += len(value)
    return pair_from_truth({"inserted": inserted}, note_id="n1", private=PRIVATE, public=PUBLIC)


def test_a_passage_is_that_of_the_public_note() -> None:
    (pattern,) = patterns_of(paired())
    assert (pattern.first, pattern.last, pattern.role) == ("John", "Smith", "patient")
    assert pattern.text.startswith("John K. Smith is a") and pattern.text.endswith("Lee agrees.")
    passage = pattern.passage
    assert passage.left == "" and passage.slots == ("first", "last") and passage.separator == " "
    assert passage.right == (
        " is a 45-year-old man with gout. He fell on . He lives in Boston. "
        "He takes aspirin 81 mg q.d. with food. Dr. agrees."
    )
    assert passage.owner == ("John", "Smith")
    (with_left,) = patterns_of(paired(), n_left_sentences=1)
    assert with_left.passage.left == "HPI: " and with_left.passage.right == passage.right


def test_a_passage_equals_what_the_reader_of_files_makes_of_it() -> None:
    start = PUBLIC.index("[**Known firstname")
    end = PUBLIC.index(" He is well")
    (from_file,) = read_passages(json.dumps({"text": PUBLIC[start:end]}).encode()).passages
    (pattern,) = patterns_of(paired())
    passage = pattern.passage
    assert (passage.left, passage.slots, passage.separator, passage.right) == (
        from_file.left, from_file.slots, from_file.separator, from_file.right,
    )  # fmt: skip


def test_the_register_says_whose_a_name_is() -> None:
    note = paired()
    (pattern,) = patterns_of(note, people={"patient:1": ("Jonathan", "Smith")})
    assert (pattern.first, pattern.last, pattern.person) == ("Jonathan", "Smith", "patient:1")
    nobody = NotePair("n1", PRIVATE, PUBLIC, note.pieces, names=())
    assert list(patterns_of(nobody)) == []
    unknown = NotePair("n1", PRIVATE, PRIVATE)
    assert [(p.first, p.last, p.role) for p in patterns_of(unknown)] == [("John", "Smith", "")]


def read_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_patterns_of_a_built_corpus_are_their_patients(tmp_path: Path) -> None:
    note = (
        "Attending:[**First Name4 (NamePattern1) **] [**Last Name (NamePattern1) 7**]\nHPI: "
        "[**Known firstname 1**] [**Known lastname 2**] is a [**Age over 90 **] year old lady. "
        "Seen [**2177-3-5**]. Ok. Ms. [**Known lastname 2**] is well."
    )
    rows = [{"note_id": str(i), "patient_id": f"p{i // 2}", "text": note} for i in range(8)]
    (tmp_path / "n.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    build_corpus(open_notes(tmp_path / "n.jsonl"), out=tmp_path / "out", seed=1)
    private, public, truth, people = (
        read_lines(tmp_path / "out" / f"{name}.jsonl")
        for name in ("private", "public", "truth", "people")
    )
    pairs = [
        pair_from_truth(t, note_id=str(a["note_id"]), private=str(a["text"]), public=str(b["text"]))
        for a, b, t in zip(private, public, truth, strict=True)
    ]
    patterns = [pattern for pair in pairs for pattern in patterns_of(pair)]
    by_key = {p["identity"]: (p["first"], p["last"]) for p in people}
    assert [by_key[p.person] for p in patterns] == [(p.first, p.last) for p in patterns]
    assert {p.passage.right for p in patterns} == {" is a year old lady. Seen . Ok. Ms. is well."}
    total = coverage(pairs)
    assert (total.n_mentions, total.n_by_role, total.n_elsewhere) == (8, (("patient", 8),), 8)


def test_patterns_of_registered_patients(tmp_path: Path) -> None:
    private = "Jane Roe is a 45-year-old lady, born 2/3/1970. Her sister Ann Roe called."
    public = "[FIRST] [LAST] is a 45-year-old lady, born [DATE]. Her sister [FIRST] [LAST] called."
    values = ("Jane", "Roe", "2/3/1970", "Ann", "Roe")
    places = zip(values, ("first", "last", "birth", "first", "last"), (0, 0, 1, 2, 2), strict=True)
    mentions, at = [], 0
    for (value, kind, number), place in zip(
        places, re.finditer(r"\[[A-Z]+\]", public), strict=True
    ):
        at = private.index(value, at)
        mentions.append({
            "start": at, "stop": at + len(value), "public_start": place.start(),
            "public_stop": place.end(), "kind": kind, "form": "full", "mention": number,
            "patient_ids": ["p9"], "is_own": number < 2,
        })  # fmt: skip
        at += len(value)
    record = {"note_id": "n", "patient_id": "p1", "mentions": mentions}
    pair = pair_from_register(record, note_id="n", private=private, public=public)
    assert [name.person for name in pair.names or ()] == ["p1", "p9"]
    (pattern,) = patterns_of(pair)
    assert (pattern.person, pattern.first, pattern.last) == ("p1", "Jane", "Roe")
    assert pattern.passage.right == " is a 45-year-old lady, born . Her sister called."
    assert pair_from_register(None, note_id="n", private="x", public="x").names == ()


def test_coverage_adds_up_over_notes() -> None:
    text = "The patient is a 4 yo boy. Jane Roe, 45 yo F. John Smith left."
    other = NotePair("n2", text, "", (), (TrueName(47, 57, "p", "patient"),))
    total = coverage([paired(), other])
    assert total == coverage_of(paired()) + coverage_of(other) + NO_NOTES
    assert (total.n_notes, total.n_notes_with_mention, total.n_mentions, total.n_full) == (
        2,
        2,
        2,
        2,
    )
    assert dict(total.by_form) == {"is_a": 1, "comma": 1} and dict(total.by_reason)["generic"] == 1
    assert total.n_by_role == (("patient", 1),) and total.n_of_nobody == 1
    assert (total.n_true_names, total.n_true_names_mentioned, total.n_elsewhere) == (2, 1, 1)


def test_offsets_map_through_pieces_of_any_length() -> None:
    private = "A. Jo Li is a 45-year-old man on 1/1. Well."
    public = "A. [**First Name**] [**Last Name**] is a 45-year-old man on [**1-1**]. Well."
    pieces = (Piece(3, 5, 3, 19), Piece(6, 8, 20, 35), Piece(33, 36, 60, 69))
    (pattern,) = patterns_of(NotePair("n", private, public, pieces), n_sentences=2)
    assert pattern.passage.right == " is a 45-year-old man on . Well."


def test_the_demo_corpus_gives_tables_3_and_4_of_the_paper() -> None:
    pool = us_pool()
    names = list(zip(pool.first, pool.last, strict=False))[:130]
    hospital = demo_notes(names, staff=["Archer"], n_notes=400, seed=5)
    known = {fold_name(part) for name in names for part in name}
    patterns = [
        pattern
        for number, note in enumerate(hospital.notes)
        for pattern in patterns_of(NotePair(str(number), note, note), known=known)
    ]
    positives, n_patterns = positives_of(patterns)
    assert {*zip(positives.first, positives.last, strict=True)} == set(names)
    assert dict(count_table(n_patterns).rows) == dict(PATTERNS_PER_NAME)
    mentions = count_table(n or 0 for n in positives.n_mentions)
    assert dict(mentions.rows) == dict(MENTIONS_PER_NAME)
    assert (mentions.n_names, mentions.n_total, count_table(n_patterns).n_total) == (130, 232, 158)
