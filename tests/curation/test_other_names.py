"""Other names: every name of the truth is another one, all else stays."""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest
from pathlib import Path

import pytest

from audit.corpus.kept import KeptCorpus
from audit.corpus.other_names import write_other_names
from audit.errors import AuditCancelled
from audit.home import HOME_VARIABLE
from audit.names.people import person_of
from audit.names.pools import japanese_pool
from tests.curation.make_corpora import dummy_notes, lines, made, register_files


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def texts(path: Path) -> list[str]:
    return [line["text"] for line in lines(path)]


def replaced(corpus: KeptCorpus, seed: int = 1) -> tuple[list[str], dict[str, set[str]]]:
    """Return the new texts, and new values by (person, kind), read along the truth."""
    new = texts(write_other_names(corpus, seed=seed))
    truth = {line["row"]: line for line in lines(corpus.path / "truth.jsonl")}
    values: dict[str, set[str]] = defaultdict(set)
    for line, text in zip(lines(corpus.path / "private.jsonl"), new, strict=True):
        found = truth.get(line["row"], {})
        shift, old = 0, line["text"]
        places = sorted(found.get("inserted", []), key=lambda place: place["start"])
        for place, behind in zip_longest(places, places[1:]):
            rest = old[place["stop"] : behind["start"] if behind else len(old)]
            start = place["start"] + shift
            stop = text.index(rest, start) if rest else len(text)
            value = text[start:stop]
            if place["group"] < 0:
                assert value == place["value"]
            else:
                values[f"{place['identity']} {place['kind']}"].add(value)
            shift = stop - place["stop"]
    return new, values


def test_every_name_is_another_one_and_the_same_everywhere(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", dummy_notes(tmp_path), seed=1, canary_counts=(2,), n_canaries=2)
    new, values = replaced(corpus)
    assert len(values) > 20 and all(len(found) == 1 for found in values.values())
    people = {line["identity"]: line for line in lines(corpus.path / "people.jsonl")}
    joined = " ".join(new).lower()
    for identity, person in people.items():
        assert f"{person['first']} {person['last']}".lower() not in joined
        assert values[f"{identity} first"] != {person["first"]}
        (first,), (last,) = values[f"{identity} first"], values[f"{identity} last"]
        others = {person_of(1, f"{identity}/other/{n}", sex=person["sex"]) for n in range(200)}
        assert (first, last) in {(other.first, other.last) for other in others}  # of the same sex
    canaries = [v for key, found in values.items() if key.startswith("canary:") for v in found]
    assert len(canaries) == 2
    assert texts(write_other_names(corpus, seed=1)) == new
    assert texts(write_other_names(corpus, seed=2)) != new
    assert (corpus.path / "other_names.jsonl").stat().st_mode & 0o777 == 0o600


def test_names_of_a_register_are_replaced_in_the_case_they_had(tmp_path: Path) -> None:
    notes, register = register_files(tmp_path)
    corpus = made(tmp_path / "c", notes, register_file=register)
    new = texts(write_other_names(corpus, seed=1))
    name = new[0].split(" is a ")[0]
    assert new[1] == f"{name.upper()} IS A 72 YEAR OLD WOMAN. Better."
    assert new[2].endswith(f"Mr. {new[2].split()[1]} left.")
    assert not [text for text in new if "Sandoval" in text or "SANDOVAL" in text]


def test_japanese_names_are_replaced_by_japanese_ones(tmp_path: Path) -> None:
    notes, register = register_files(tmp_path, is_japanese=True)
    corpus = made(tmp_path / "c", notes, register_file=register)
    new = texts(write_other_names(corpus, seed=1))
    assert new[0].startswith("70歳男性の") and new[0].endswith(
        "は来院した。発熱があった。熱は下がった。"
    )
    assert not [text for text in new if "見本" in text or "鈴木花子" in text]
    last = new[2].removeprefix("患者は70歳男性。").removesuffix("さんは元気。")
    assert new[0].startswith(f"70歳男性の{last}")


def test_no_other_name_is_taken_even_where_all_common_ones_are(tmp_path: Path) -> None:
    pool = japanese_pool()
    taken = [(first, last) for first in pool.first for last in pool.last]
    rows = "".join(f"{i},{last},{first}\n" for i, (first, last) in enumerate(taken))
    (tmp_path / "register.csv").write_text(f"患者ID,姓,名\n{rows}", encoding="utf-8")
    (tmp_path / "notes").mkdir()
    for patient in range(50):
        (tmp_path / "notes" / f"{patient}").mkdir()
        name = taken[patient][1] + taken[patient][0]
        (tmp_path / "notes" / f"{patient}" / "a.txt").write_text(f"{name}は70歳の男性。", "utf-8")
    corpus = made(tmp_path / "c", tmp_path / "notes", register_file=tmp_path / "register.csv")
    new = [text.removesuffix("は70歳の男性。") for text in texts(write_other_names(corpus, seed=1))]
    assert len(new) == 50 and not {*new} & {last + first for first, last in taken}


def test_a_stop_leaves_nothing(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", dummy_notes(tmp_path))
    before = sorted(path.name for path in corpus.path.iterdir())
    with pytest.raises(AuditCancelled):
        write_other_names(corpus, seed=1, should_stop=lambda: True)
    assert sorted(path.name for path in corpus.path.iterdir()) == before
