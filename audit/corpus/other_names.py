"""Writes the same notes with other names, to train a model that knows the notes but not the names.

Input: a corpus. Output: `other_names.jsonl` in its folder, D_private with another name for every
inserted or registered name. A person has the same other name everywhere, of the same sex, and no
other name is a name of the corpus. All else is as in D_private. A model that is trained on these
notes by the hospital's recipe is a sibling of the hospital's model, and its names are known.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path

from audit.corpus.build import person_of_key
from audit.corpus.candidate_lists import read_list
from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.examine import People
from audit.corpus.truth import (
    CANARY,
    PASSAGES,
    PEOPLE,
    PRIVATE,
    Place,
    corpus_notes,
)
from audit.errors import AuditError
from audit.names.candidates import Candidates, Name, make_candidates
from audit.names.controls import matched_controls
from audit.names.lists import keep_names, keep_passages
from audit.names.matching import NameIndex, Pair, is_absent, pair_of
from audit.names.people import Person, draw, person_of
from audit.names.pools import japanese_pool, us_pool
from audit.progress import Meter, Phase, ProgressListener, StopQuestion
from audit.shelf import json_line, whole_file
from audit.text import is_unspaced, read_name_cells, written_name
from cache.store import Store

OTHER_NAMES = "other_names.jsonl"
OTHER_NAMES_SEED = 0
"""Seed of the other names on which models are trained."""
LOOK, WRITE = "looking for names", "writing other names"
_MAX_TRIES = 200


def write_other_names(
    corpus: KeptCorpus,
    *,
    seed: int,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Write the notes of a corpus with other names, drawn by `seed`, and return the file."""
    n_bytes = float((corpus.path / PRIVATE).stat().st_size)
    plan = [Phase(LOOK, n_bytes, 4e-7, LOOK), Phase(WRITE, n_bytes, 4e-7, WRITE)]
    meter = Meter(plan, listener=progress, should_stop=should_stop)
    with (corpus.path / PEOPLE).open("rb") as lines:
        people = People(map(json.loads, lines))
    names = _OtherNames(corpus, people, _find_used_names(corpus, people, meter), seed)
    try:
        with whole_file(corpus.path / OTHER_NAMES) as file:
            for line, note, places in corpus_notes(corpus.path, on_bytes=partial(meter.add, WRITE)):
                text, end, new = str(note["text"]), 0, ""
                for place in places:
                    if place.group >= 0:
                        new += text[end : place.start] + names.replace_name(place, text)
                        end = place.stop
                file.write(json_line(note | {"text": new + text[end:]}) if places else line)
    except OSError:
        raise AuditError("The corpus's folder cannot be written.", where="corpus") from None
    meter.finish(WRITE)
    return corpus.path / OTHER_NAMES


def make_sibling_list(
    corpus: KeptCorpus,
    *,
    seed: int = OTHER_NAMES_SEED,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> tuple[Candidates, bytes]:
    """Return the list and the passages for an audit of a model that learnt the other names.

    Members are the other names of the listed patients, with the same numbers of mentions; the
    controls are invented, too. The passages are those of D_public under the other names.
    """
    n_bytes = float((corpus.path / PRIVATE).stat().st_size)
    meter = Meter([Phase(LOOK, n_bytes, 4e-7, LOOK)], listener=progress, should_stop=should_stop)
    with (corpus.path / PEOPLE).open("rb") as lines:
        people = People(map(json.loads, lines))
    used_pairs = _find_used_names(corpus, people, meter)
    patients = _other_patients(corpus, people, _OtherNames(corpus, people, used_pairs, seed))
    listed = _add_controls(patients, used_pairs=used_pairs, seed=seed)
    return listed, _rename_passages(corpus, patients)


def keep_sibling_list(corpus: KeptCorpus, *, store: Store) -> tuple[str, str]:
    """Keep a sibling's list and passages in the store for an audit; return their codes."""
    listed, passages = make_sibling_list(corpus)
    label = corpus.title or corpus.source
    names = keep_names(listed, label=label, store=store)
    passages_digest = ""
    if passages:
        passages_digest = keep_passages(
            passages, file_name="passages.jsonl", label=label, store=store
        )
    return names[:12], passages_digest[:12]


def _other_patients(
    corpus: KeptCorpus, people: People, names: _OtherNames
) -> dict[Pair, tuple[Name, int]]:
    """Return other name and number of mentions of the listed patients, by their own names.

    Patients who share their name, or their other name, with another patient are left out.
    """
    listed = read_list(corpus, controls=(), roles=("patient",))
    pairs = list(map(pair_of, listed.first, listed.last))
    carriers = people.carriers_of(pairs)
    other_names = {}
    for row, pair in enumerate(pairs):
        if len(carriers[pair]) == 1:
            (identity,) = carriers[pair]
            person = names.person(identity, is_japanese=is_unspaced(listed.full_name(row)))
            other_names[pair] = (person.first, person.last), listed.n_mentions[row] or 0
    n_carriers = Counter(name for name, _ in other_names.values())
    return {
        pair: name_and_count
        for pair, name_and_count in other_names.items()
        if n_carriers[name_and_count[0]] == 1
    }


def _add_controls(
    patients: Mapping[Pair, tuple[Name, int]], *, used_pairs: Collection[Pair], seed: int
) -> Candidates:
    """Return the list of the patients' other names, followed by as many drawn controls."""
    other_names = [name for name, _ in patients.values()]
    members = make_candidates(
        other_names, is_member=True, n_mentions=[n for _, n in patients.values()]
    )
    members = replace(members, role=("patient",) * len(members))
    is_japanese = 2 * sum(map(is_unspaced, map("".join, other_names))) > len(other_names)
    occupied = {*used_pairs, *starmap(pair_of, other_names)}
    controls = matched_controls(
        members,
        kind="easy",
        n=len(members),
        pool=japanese_pool() if is_japanese else us_pool(),
        seed=seed,
        accepts=lambda first, last: is_absent(occupied, first, last),
    )
    return (members + controls).with_source("invented")


def _rename_passages(corpus: KeptCorpus, patients: Mapping[Pair, tuple[Name, int]]) -> bytes:
    """Return the passages of some patients of a corpus, as JSONL, under their other names."""
    renamed_lines = []
    with CORPORA.reading(), (corpus.path / PASSAGES).open("rb") as lines:
        for line in lines:
            record = json.loads(line)
            owner = read_name_cells(record["first_name"], record["last_name"])
            if other_name := patients.get(pair_of(owner.first, owner.last)):
                (first, last), _ = other_name
                renamed_lines.append(json_line(record | {"first_name": first, "last_name": last}))
    return b"".join(renamed_lines)


def _find_used_names(corpus: KeptCorpus, people: People, meter: Meter) -> set[Pair]:
    """Return every full name in D_private, and those of everybody in the register."""
    firsts, lasts = people.parts
    for pool in (us_pool(), japanese_pool()):
        firsts.update(pool.first)
        lasts.update(pool.last)
    index = NameIndex(firsts=firsts, lasts=lasts)
    used_pairs = set(people.pairs)
    with (corpus.path / PRIVATE).open("rb") as lines:
        for line in lines:
            used_pairs.update(index.find_pairs(str(json.loads(line)["text"])))
            meter.add(LOOK, len(line))
    meter.finish(LOOK)
    return used_pairs


class _OtherNames:
    """Draws other names for the people of a corpus, none of which is used in it."""

    def __init__(
        self, corpus: KeptCorpus, people: People, used_pairs: Collection[Pair], seed: int
    ) -> None:
        self._corpus, self._people, self._used_pairs, self._seed = corpus, people, used_pairs, seed

    def replace_name(self, place: Place, text: str) -> str:
        """Return the other name for a place, in the form and letter case of the true name."""
        true_text = text[place.start : place.stop]
        person = self.person(place.identity, is_japanese=is_unspaced(true_text))
        other_text = {
            "first": person.first,
            "middle": person.initial,
            "last": person.last,
            "initial": person.initial + "." * true_text.endswith("."),
            "initials": _initials(person, true_text),
        }.get(place.kind, written_name(person.first, person.last))
        if len(true_text) > 1 and true_text.isupper():
            return other_text.upper()
        return other_text.lower() if true_text.islower() else other_text

    def person(self, identity: str, *, is_japanese: bool) -> Person:
        """Return another person of the same sex without a part of the person's own name."""
        own_name, sex = self._true_name(identity)
        # The names of a registered patient are drawn by the patient's id alone.
        is_register = self._corpus.kind == "register"
        key = identity.removeprefix("patient:") if is_register else identity
        for number in range(_MAX_TRIES):
            place = f"{key}/other/{number}"
            if is_japanese:
                is_made_up = number >= _MAX_TRIES // 4
                person = _japanese_person(self._seed, place, sex=sex, is_made_up=is_made_up)
            else:
                person = person_of(self._seed, place, sex=sex)
            pair = pair_of(person.first, person.last)
            is_free = is_absent(self._used_pairs, person.first, person.last)
            if is_free and (own_name is None or not {*pair} & {*pair_of(*own_name)}):
                return person
        raise AuditError(
            "So many names occur in the corpus that no other one is left.",
            where="other names",
            do="Take a sample of the notes.",
        )

    def _true_name(self, identity: str) -> tuple[Name | None, str]:
        """Return the name and sex of a person of the corpus, as far as they are known."""
        if identity.startswith("patient:"):
            return self._people.name_and_sex(identity)
        if identity.startswith(("note:", CANARY)):
            return None, ""
        person = person_of_key(self._corpus.seed, identity)
        return (person.first, person.last), person.sex


def _initials(person: Person, true_text: str) -> str:
    """Return the initials of another person, as many as in the note and in the same form."""
    n_letters = sum(map(str.isalpha, true_text))
    letters = [person.first[0], person.last[0]] if n_letters > 1 else [person.first[0]]
    mark = "." if "." in true_text else ""
    return mark.join(letters) + "." * true_text.endswith(".")


def _japanese_person(seed: int, key: str, *, sex: str, is_made_up: bool) -> Person:
    """Draw a Japanese name; `is_made_up`: composed of the characters of two names."""
    from faker.providers.person.ja_JP import Provider

    sex = sex or "MF"[draw(seed, "sex", key) & 1]
    firsts = Provider.first_name_male_pairs if sex == "M" else Provider.first_name_female_pairs

    def draw_part(role: str, pairs: Collection[tuple[str, ...]]) -> str:
        names = [str(pair[0]) for pair in pairs]
        name = names[draw(seed, role, key) % len(names)]
        end = names[draw(seed, f"{role}/end", key) % len(names)][-1]
        return name[0] + end if is_made_up else name

    first = draw_part("first", firsts)
    return Person(first, first[0], draw_part("last", Provider.last_name_pairs), sex)
