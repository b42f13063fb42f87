"""The same notes with other names: what a model is trained on that knows the notes, not the names.

Comes in: a corpus. Goes out: `other_names.jsonl` in its folder, D_private in which every inserted
or registered name is another one: the same person has the same other name everywhere, of the same
sex, and no other name is a name of the corpus. All else is as in D_private. A model that is trained
on them by the hospital's recipe is a sibling of the hospital's: its names are known.
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
from audit.corpus.candidate_lists import list_of
from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.examine import People
from audit.corpus.truth import (
    CANARY,
    PASSAGES,
    PEOPLE,
    PRIVATE,
    Place,
    corpus_notes,
    json_line,
)
from audit.errors import AuditError
from audit.names.candidates import Candidates, Name, make_candidates
from audit.names.controls import matched_controls
from audit.names.lists import keep_names, keep_passages
from audit.names.matching import NameIndex, Pair, is_absent, pair_of
from audit.names.people import Person, draw, person_of
from audit.names.pools import japanese_pool, us_pool
from audit.progress import Meter, Phase, ProgressListener, StopQuestion
from audit.shelf import whole_file
from audit.text import is_unspaced, read_name_cells, written_name
from cache.store import Store

OTHER_NAMES = "other_names.jsonl"
OTHER_NAMES_SEED = 0
"""By which they are drawn where models are trained on them."""
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
    names = _OtherNames(corpus, people, _taken(corpus, people, meter), seed)
    try:
        with whole_file(corpus.path / OTHER_NAMES) as file:
            for line, note, places in corpus_notes(corpus.path, on_bytes=partial(meter.add, WRITE)):
                text, done, new = str(note["text"]), 0, ""
                for place in places:
                    if place.group >= 0:
                        new += text[done : place.start] + names.of(place, text)
                        done = place.stop
                file.write(json_line(note | {"text": new + text[done:]}) if places else line)
    except OSError:
        raise AuditError("The corpus's folder cannot be written.", where="corpus") from None
    meter.finish(WRITE)
    return corpus.path / OTHER_NAMES


def sibling_list(
    corpus: KeptCorpus,
    *,
    seed: int = OTHER_NAMES_SEED,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> tuple[Candidates, bytes]:
    """Return the list, and the passages, for an audit of a model that learnt the other names.

    Members are the other names of the listed patients, with as many mentions; the controls were
    invented too. The passages are those of D_public, now of their owners' other names.
    """
    n_bytes = float((corpus.path / PRIVATE).stat().st_size)
    meter = Meter([Phase(LOOK, n_bytes, 4e-7, LOOK)], listener=progress, should_stop=should_stop)
    with (corpus.path / PEOPLE).open("rb") as lines:
        people = People(map(json.loads, lines))
    taken = _taken(corpus, people, meter)
    patients = _other_patients(corpus, people, _OtherNames(corpus, people, taken, seed))
    listed = _with_controls(patients, taken=taken, seed=seed)
    return listed, _passages_of(corpus, patients)


def keep_sibling_list(corpus: KeptCorpus, *, store: Store) -> tuple[str, str]:
    """Put a sibling's list and passages where an audit finds them; return their codes."""
    listed, passages = sibling_list(corpus)
    label = corpus.title or corpus.source
    names = keep_names(listed, label=label, store=store)
    kept = ""
    if passages:
        kept = keep_passages(passages, file_name="passages.jsonl", label=label, store=store)
    return names[:12], kept[:12]


def _other_patients(
    corpus: KeptCorpus, people: People, names: _OtherNames
) -> dict[Pair, tuple[Name, int]]:
    """Return other name and number of mentions of the listed patients, by their own names.

    Left out are patients who share their name with another patient, or get another's other name.
    """
    listed = list_of(corpus, controls=(), roles=("patient",))
    pairs = list(map(pair_of, listed.first, listed.last))
    carriers = people.carriers_of(pairs)
    found = {}
    for row, pair in enumerate(pairs):
        if len(carriers[pair]) == 1:
            (identity,) = carriers[pair]
            person = names.person(identity, is_japanese=is_unspaced(listed.full_name(row)))
            found[pair] = (person.first, person.last), listed.n_mentions[row] or 0
    n_carriers = Counter(name for name, _ in found.values())
    return {pair: one for pair, one in found.items() if n_carriers[one[0]] == 1}


def _with_controls(
    patients: Mapping[Pair, tuple[Name, int]], *, taken: Collection[Pair], seed: int
) -> Candidates:
    """Return the list of the patients' other names, followed by as many drawn controls."""
    other_names = [name for name, _ in patients.values()]
    members = make_candidates(
        other_names, is_member=True, n_mentions=[n for _, n in patients.values()]
    )
    members = replace(members, role=("patient",) * len(members))
    is_japanese = 2 * sum(map(is_unspaced, map("".join, other_names))) > len(other_names)
    occupied = {*taken, *starmap(pair_of, other_names)}
    controls = matched_controls(
        members,
        kind="easy",
        n=len(members),
        pool=japanese_pool() if is_japanese else us_pool(),
        seed=seed,
        accepts=lambda first, last: is_absent(occupied, first, last),
    )
    return (members + controls).with_source("invented")


def _passages_of(corpus: KeptCorpus, patients: Mapping[Pair, tuple[Name, int]]) -> bytes:
    """Return the passages of some patients of a corpus, as JSONL, under their other names."""
    found = []
    with CORPORA.reading(), (corpus.path / PASSAGES).open("rb") as lines:
        for line in lines:
            record = json.loads(line)
            owner = read_name_cells(record["first_name"], record["last_name"])
            if other := patients.get(pair_of(owner.first, owner.last)):
                (first, last), _ = other
                found.append(json_line(record | {"first_name": first, "last_name": last}))
    return b"".join(found)


def _taken(corpus: KeptCorpus, people: People, meter: Meter) -> set[Pair]:
    """Return every full name that stands in D_private, and everybody's of the register."""
    firsts, lasts = people.parts
    for pool in (us_pool(), japanese_pool()):
        firsts.update(pool.first)
        lasts.update(pool.last)
    index = NameIndex(firsts=firsts, lasts=lasts)
    taken = set(people.pairs)
    with (corpus.path / PRIVATE).open("rb") as lines:
        for line in lines:
            taken.update(index.pairs(str(json.loads(line)["text"])))
            meter.add(LOOK, len(line))
    meter.finish(LOOK)
    return taken


class _OtherNames:
    """Other names for the people of a corpus, none of which is taken."""

    def __init__(
        self, corpus: KeptCorpus, people: People, taken: Collection[Pair], seed: int
    ) -> None:
        self._corpus, self._people, self._taken, self._seed = corpus, people, taken, seed

    def of(self, place: Place, text: str) -> str:
        """Return what stands in the place of a name, in its form and case."""
        written = text[place.start : place.stop]
        person = self.person(place.identity, is_japanese=is_unspaced(written))
        new = {
            "first": person.first,
            "middle": person.initial,
            "last": person.last,
            "initial": person.initial + "." * written.endswith("."),
            "initials": _initials(person, written),
        }.get(place.kind, written_name(person.first, person.last))
        if len(written) > 1 and written.isupper():
            return new.upper()
        return new.lower() if written.islower() else new

    def person(self, identity: str, *, is_japanese: bool) -> Person:
        """Return another person of the same sex, no part of whose name is the person's own."""
        own, sex = self._own(identity)
        # Registered patients were told by their id alone once: their names stay what they were.
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
            is_free = is_absent(self._taken, person.first, person.last)
            if is_free and (own is None or not {*pair} & {*pair_of(*own)}):
                return person
        raise AuditError(
            "So many names occur in the corpus that no other one is left.",
            where="other names",
            do="Take a sample of the notes.",
        )

    def _own(self, identity: str) -> tuple[Name | None, str]:
        """Return the name and sex that a person of the corpus has, as far as they are known."""
        if identity.startswith("patient:"):
            return self._people.name_and_sex(identity)
        if identity.startswith(("note:", CANARY)):
            return None, ""
        person = person_of_key(self._corpus.seed, identity)
        return (person.first, person.last), person.sex


def _initials(person: Person, written: str) -> str:
    """Return as many initials of another person as are written, in the same way."""
    n_letters = sum(map(str.isalpha, written))
    letters = [person.first[0], person.last[0]] if n_letters > 1 else [person.first[0]]
    mark = "." if "." in written else ""
    return mark.join(letters) + "." * written.endswith(".")


def _japanese_person(seed: int, key: str, *, sex: str, is_made_up: bool) -> Person:
    """Draw a Japanese name; made up from the characters of two where few whole ones are left."""
    from faker.providers.person.ja_JP import Provider

    sex = sex or "MF"[draw(seed, "sex", key) & 1]
    firsts = Provider.first_name_male_pairs if sex == "M" else Provider.first_name_female_pairs

    def drawn(what: str, pairs: Collection[tuple[str, ...]]) -> str:
        names = [str(pair[0]) for pair in pairs]
        name = names[draw(seed, what, key) % len(names)]
        end = names[draw(seed, f"{what}/end", key) % len(names)][-1]
        return name[0] + end if is_made_up else name

    first = drawn("first", firsts)
    return Person(first, first[0], drawn("last", Provider.last_name_pairs), sex)
