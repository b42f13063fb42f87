"""Other names: every name of the truth is another one, all else stays."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path

import pytest

from audit.corpus.candidate_lists import read_list
from audit.corpus.corpora import KeptCorpus
from audit.corpus.other_names import make_sibling_list, write_other_names
from audit.errors import AuditCancelled, AuditError
from audit.names.people import person_of
from audit.names.pools import japanese_pool
from tests.corpus.make_notes import dummy_notes, lines, made


def texts(path: Path) -> list[str]:
    return [line["text"] for line in lines(path)]


def replaced(corpus: KeptCorpus, seed: int = 1) -> tuple[list[str], dict[str, set[str]]]:
    """Return the new texts, and new values by (person, kind), read along the truth."""
    new = texts(write_other_names(corpus, seed=seed))
    truth = {line["row"]: line for line in lines(corpus.path / "truth.jsonl")}
    values: dict[str, set[str]] = defaultdict(set)
    for line, text in zip(lines(corpus.path / "private.jsonl"), new, strict=True):
        shift, old = 0, line["text"]
        places = sorted(truth.get(line["row"], {}).get("inserted", []), key=lambda p: p["start"])
        for place, behind in zip_longest(places, places[1:]):
            rest = old[place["stop"] : behind["start"] if behind else len(old)]
            start = place["start"] + shift
            stop = text.index(rest, start) if rest else len(text)
            if place["group"] < 0:
                assert text[start:stop] == place["value"]
            else:
                values[f"{place['identity']} {place['kind']}"].add(text[start:stop])
            shift = stop - place["stop"]
    return new, values


def test_every_name_is_another_one_and_the_same_everywhere(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", dummy_notes(tmp_path), seed=1, canary_counts=(2,), n_canaries=2)
    new, values = replaced(corpus)
    assert len(values) > 20 and all(len(names) == 1 for names in values.values())
    people = {line["identity"]: line for line in lines(corpus.path / "people.jsonl")}
    joined = " ".join(new).lower()
    for identity, person in people.items():
        assert f"{person['first']} {person['last']}".lower() not in joined
        (first,), (last,) = values[f"{identity} first"], values[f"{identity} last"]
        assert (first, last) != (person["first"], person["last"])
        candidates = {person_of(1, f"{identity}/other/{n}", sex=person["sex"]) for n in range(200)}
        assert (first, last) in {
            (candidate.first, candidate.last) for candidate in candidates
        }  # of the same sex
    canaries = [v for key, names in values.items() if key.startswith("canary:") for v in names]
    assert len(canaries) == 2
    assert (
        texts(write_other_names(corpus, seed=1)) == new != texts(write_other_names(corpus, seed=2))
    )
    assert (corpus.path / "other_names.jsonl").stat().st_mode & 0o777 == 0o600


def test_no_other_name_is_taken_even_where_all_common_ones_are(tmp_path: Path) -> None:
    pool = japanese_pool()
    used_names = [(first, last) for first in pool.first for last in pool.last]
    rows = "".join(f"{i},{last},{first}\n" for i, (first, last) in enumerate(used_names))
    (tmp_path / "register.csv").write_text(f"患者ID,姓,名\n{rows}", encoding="utf-8")
    (tmp_path / "notes").mkdir()
    for patient in range(50):
        (tmp_path / "notes" / f"{patient}").mkdir()
        name = used_names[patient][1] + used_names[patient][0]
        (tmp_path / "notes" / f"{patient}" / "a.txt").write_text(f"{name}は70歳の男性。", "utf-8")
    corpus = made(tmp_path / "c", tmp_path / "notes", register_file=tmp_path / "register.csv")
    new = [text.removesuffix("は70歳の男性。") for text in texts(write_other_names(corpus, seed=1))]
    assert len(new) == 50 and not {*new} & {last + first for first, last in used_names}


def test_a_stop_or_files_that_do_not_belong_together_leave_nothing(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", dummy_notes(tmp_path))
    file_names = sorted(path.name for path in corpus.path.iterdir())
    with pytest.raises(AuditCancelled):
        write_other_names(corpus, seed=1, should_stop=lambda: True)
    truth = corpus.path / "truth.jsonl"
    truth.write_bytes(truth.read_bytes().replace(b'"row": 5', b'"row": 4', 1))
    with pytest.raises(AuditError, match="do not belong together"):
        write_other_names(corpus, seed=1)
    truth.write_bytes(truth.read_bytes().replace(b'"inserted"', b'"mentions"'))
    with pytest.raises(AuditError, match="A file of the corpus cannot be read"):
        write_other_names(corpus, seed=1)
    assert sorted(path.name for path in corpus.path.iterdir()) == file_names


def test_the_list_of_a_sibling_is_of_the_other_names_in_their_notes(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", dummy_notes(tmp_path), seed=1)
    new = texts(write_other_names(corpus, seed=0))
    listed, passages = make_sibling_list(corpus)
    own_list = read_list(corpus, roles=("patient",), controls=())
    n = listed.is_member.count(True)
    assert (
        0 < n == len(own_list) and listed.source == "invented" and listed.is_member.count(False) > 0
    )
    assert sorted(listed.n_mentions[:n]) == sorted(own_list.n_mentions)
    assert not {listed.full_name(row) for row in range(n)} & {*map(own_list.full_name, range(n))}
    joined = "\n".join(new).lower()
    for row in range(len(listed)):
        is_written = listed.full_name(row).lower() in joined
        assert is_written == (row < n), listed.full_name(row)
    records = [json.loads(line) for line in passages.splitlines()]
    names = {(record["first_name"], record["last_name"]) for record in records}
    assert names and names <= {*zip(listed.first[:n], listed.last[:n], strict=True)}
    assert len(records) == len(lines(corpus.path / "passages.jsonl"))
