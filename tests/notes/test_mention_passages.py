"""From mentions to passages: the public note's text, whose name it is, and how many there are."""

from __future__ import annotations

from audit.corpus.build import facts_of_note, with_surrogates
from audit.corpus.examine import (
    MENTIONS_PER_NAME,
    PATTERNS_PER_NAME,
    NamePattern,
    PatternTally,
    Tally,
    patterns_of,
)
from audit.corpus.truth import NoteTruth, Place
from audit.names.pools import us_pool
from audit.notes.mentions import examine, find_mentions
from audit.notes.read import Note
from audit.text import fold_name
from benchmarks.demo_hospital import demo_notes

PUBLIC = (
    "Seen by Dr. [**First Name1 (NameIs)**] [**Last Name (STitle)**]. HPI: [**Known firstname 9**] "
    "[**Initial (NamePattern1)**]. [**Known lastname 9**] is a 45-year-old man with gout. "
    "He fell on [**2177-3-4**]. He lives in Boston. He takes aspirin 81 mg q.d. with food. "
    "Dr. [**Last Name (STitle)**] agrees. He is well."
)


def paired() -> NoteTruth:
    note = Note("n", "9", "", "", "2177-12-05", PUBLIC, 2)
    return with_surrogates(note, facts=facts_of_note(note), seed=1)


def patterns(note: NoteTruth) -> list[NamePattern]:
    return list(patterns_of(note, find_mentions(note.private)))


def test_a_passage_is_that_of_the_public_note_and_the_truth_says_whose() -> None:
    note = paired()
    (pattern,) = patterns(note)
    first, initial, last = (place.value for place in note.inserted[2:5])
    found = (pattern.first, pattern.last, pattern.role, pattern.person)
    assert found == (first, last, "patient", "patient:9")
    assert pattern.text.startswith(f"{first} {initial}. {last} is a 45-year-old man with gout. He")
    assert pattern.passage == (
        "[FIRST] [LAST] is a 45-year-old man with gout. He fell on . He lives in Boston. "
        "He takes aspirin 81 mg q.d. with food. Dr. agrees."
    )
    assert patterns(NoteTruth(note.private, note.private)) == []


def test_coverage_adds_up_over_notes() -> None:
    text = "The patient is a 4 yo boy. Jane Roe, 45 yo F. John Smith left."
    place = Place(47, 57, 47, 57, "", "full", "patient", "p", "John Smith", 0)
    other = NoteTruth(text, text, (place,))
    tally = Tally()
    for note in (paired(), other):
        tally.add_mentions(note, tuple(examine(note.private)))
    total = tally.coverage()
    assert (total.n_notes, total.n_notes_with_mention) == (total.n_mentions, total.n_full) == (2, 2)
    assert dict(total.by_form) == {"is_a": 1, "comma": 1} and dict(total.by_reason)["generic"] == 1
    assert total.n_by_role == (("patient", 1),) and total.n_of_nobody == 1
    assert (total.n_true_names, total.n_true_names_mentioned, total.n_elsewhere) == (2, 1, 1)


def test_the_demo_corpus_gives_tables_3_and_4_of_the_paper() -> None:
    pool = us_pool()
    names = list(zip(pool.first, pool.last, strict=False))[:130]
    hospital = demo_notes(names, staff=["Archer"], n_notes=400, seed=5)
    known = {fold_name(part) for name in names for part in name}
    tally = PatternTally()
    for note in hospital.notes:
        found = find_mentions(note, known=known)
        places = tuple(
            Place(m.name_start, m.name_end, m.name_start, m.name_end, "", "full", "patient",
                  group=number) for number, m in enumerate(found)
        )  # fmt: skip
        for pattern in patterns_of(NoteTruth(note, note, places), found):
            tally.add((pattern.first, pattern.last), pattern.text, note=0)
    assert {*tally.names} == set(names)
    assert dict(tally.pattern_table) == dict(PATTERNS_PER_NAME)
    assert dict(tally.mention_table) == dict(MENTIONS_PER_NAME)
