"""How many training notes name somebody else with a part of a listed name."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from audit.corpus.candidate_lists import read_list
from audit.corpus.corpora import KeptCorpus
from audit.corpus.truth import PEOPLE, TRUTH
from audit.names.candidates import SHARED, Candidates
from audit.names.files import encode_names_csv, read_names
from tests.corpus.make_notes import DOCTOR, KNOWN, dummy_notes, lines, made, note_row, write_notes

REGISTER = """patient_id,first_name,last_name,relatives
1,Anna,Sandoval,
2,Boris,Sandoval,
3,Carla,Overton,husband: Ed Overton
4,Anna,Quill,
5,Dan,Sandoval,
6,Eve,Rusk,
"""
NOTES = (
    ("1", "Anna Sandoval is a 42 year old woman. Anna is well."),
    ("1", "Anna is better."),
    ("2", "Mr. Sandoval left."),
    ("2", "Boris Sandoval came back. Mr. Sandoval is well."),
    ("3", "Carla Overton is a 50 year old woman. Her husband Ed Overton came."),
    ("3", "Ed Overton called. Seen beside Anna Quill."),
    ("4", "The patient is well. So is Anna Sandoval."),
    ("5", "Dan Sandoval is a 42 year old man."),
    ("6", "Eve Rusk is a 42 year old woman."),
)


def others_of(names: Candidates) -> dict[str, tuple[int | None, int | None]]:
    return {names.full_name(row): names.n_others(row) for row in range(len(names))}


def test_by_hand(tmp_path: Path) -> None:
    notes, register = tmp_path / "notes.jsonl", tmp_path / "register.csv"
    notes.write_text(
        "".join(f"{json.dumps({'patient_id': n, 'text': text})}\n" for n, text in NOTES)
    )
    register.write_text(REGISTER)
    corpus = made(tmp_path / "c", notes, register_file=register)
    # Anna: the unlisted Anna Quill once; Sandoval: the unlisted Boris twice; Overton: the husband.
    assert others_of(read_list(corpus, controls=())) == {
        "Anna Sandoval": (1, 2),
        "Carla Overton": (0, 2),
        "Dan Sandoval": (0, 2),
        "Eve Rusk": (0, 0),
    }
    for seed in count():
        corpus = made(tmp_path / str(seed), notes, register_file=register, seed=seed, hold_out="1")
        if [
            place["patient_id"] for place in lines(corpus.path / PEOPLE) if "is_held_out" in place
        ] == ["6"]:
            break
    # Somebody else's note holds Anna Sandoval, who is left out, so that two more notes name others.
    assert others_of(read_list(corpus)) == {
        "Carla Overton": (0, 2),
        "Dan Sandoval": (0, 4),
        "Eve Rusk": (0, 0),
    }
    # Beside other controls she is a member: it is never her own notes that count.
    assert others_of(read_list(corpus, controls=()))["Anna Sandoval"] == (1, 2)


def listed_by_hand(corpus: KeptCorpus, names: Candidates) -> dict[str, tuple[int, int]]:
    """Count the notes by a plain reckoning, from the truth and the people of invented notes."""
    people = {
        carrier["identity"]: (carrier["first"], carrier["last"])
        for carrier in lines(corpus.path / PEOPLE)
    }
    rows = list(zip(names.first, names.last, names.role, strict=True))
    patients = {carrier[:2] for carrier in rows if carrier[2] == "patient"}
    notes = []
    for record in lines(corpus.path / TRUTH):
        by_person: dict[str, dict[str, str]] = {}
        for place in record["inserted"]:
            if place["kind"] in ("first", "last"):
                by_person.setdefault(place["identity"], {})[place["kind"]] = place["value"]
        notes.append(by_person)
    of_staff: dict[str, dict[str, str]] = {}
    for by_person in notes:
        for identity, parts in by_person.items():
            of_staff.setdefault(identity, {}).update(parts)
    counts = {}
    for first, last, role in rows:
        n = [0, 0]
        for side, (kind, part) in enumerate((("first", first), ("last", last))):
            for by_person in notes:
                carriers = [
                    carrier for carrier, parts in by_person.items() if parts.get(kind) == part
                ]
                if role == "staff":
                    carriers = [
                        carrier
                        for carrier in carriers
                        if carrier in people or of_staff[carrier] != {"first": first, "last": last}
                    ]
                n[side] += any(
                    carrier not in people or people[carrier] not in patients for carrier in carriers
                )
        counts[f"{first} {last}"] = n[0], n[1]
    return counts


@pytest.mark.parametrize("hold_out", ["", "5"])
def test_staff_and_unlisted_patients_are_counted_as_by_a_plain_reckoning(
    hold_out: str, tmp_path: Path
) -> None:
    rows = [
        note_row(
            n,
            patient=n % 90,
            text=f"{KNOWN.format(n=n % 90)} {is_old}. "
            f"Seen by {DOCTOR.format(n=n % 7)} and {DOCTOR.format(n=40 + n % 3)}.",
            stay=n % 9,
        )
        for n, is_old in enumerate(["is a 42 year old man", "left"] * 75)
    ]
    notes = write_notes(tmp_path / "n.csv", rows)
    corpus = made(tmp_path / "c", notes, seed=2, hold_out=hold_out)
    names = read_list(corpus, controls=SHARED, roles=("patient", "staff"))
    others = others_of(names)
    assert others == listed_by_hand(corpus, names)
    assert sum(bool(first) for first, _ in others.values()) > 20
    assert sum(bool(last) for _, last in others.values()) > 20


def test_counts_go_through_the_names_file(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", dummy_notes(tmp_path))
    names = read_list(corpus)
    assert {n for pair in others_of(names).values() for n in pair} >= {0}
    again = read_names(encode_names_csv(names)).candidates
    assert others_of(again) == others_of(names) and again.digest() == names.digest()
