"""The same notes with other names: what a model is trained on that knows the notes, not the names.

Comes in: a corpus. Goes out: `other_names.jsonl` in its folder, D_private in which every inserted
or registered name is another one: the same person has the same other name everywhere, of the same
sex, and no other name is a name of the corpus. All else is as in D_private.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from audit.corpus.build import CorpusFile
from audit.corpus.examine import People
from audit.corpus.kept import CORPORA, KeptCorpus
from audit.corpus.truth import CANARY, PEOPLE, PRIVATE, Place, corpus_notes, json_line
from audit.errors import AuditError
from audit.names.controls import Name
from audit.names.matching import NameIndex, Pair, pair_of
from audit.names.people import Person, draw, person_of
from audit.names.pools import japanese_pool, us_pool
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.text import is_unspaced, written_name

OTHER_NAMES = "other_names.jsonl"
LOOK, WRITE = "looking for names", "writing other names"
_MAX_TRIES = 200


def write_other_names(
    corpus: KeptCorpus | str,
    *,
    seed: int,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Write the notes of a corpus with other names, and return the file.

    Parameters
    ----------
    corpus
        A corpus, or the id of a kept one.
    seed
        Of the other names.
    """
    corpus = CORPORA.get(corpus) if isinstance(corpus, str) else corpus
    private = corpus.path / PRIVATE
    n_bytes = float(private.stat().st_size)
    totals = {LOOK: n_bytes, WRITE: n_bytes}
    meter = Meter(totals, listener=progress, should_stop=should_stop)
    with (corpus.path / PEOPLE).open("rb") as lines:
        people = People(map(json.loads, lines))
    names = OtherNames(_taken(private, people, meter), seed=seed)
    target, partial_file = corpus.path / OTHER_NAMES, corpus.path / f".{OTHER_NAMES}.part"
    try:
        partial_file.unlink(missing_ok=True)
        file = CorpusFile(partial_file)
        is_whole = False
        try:
            for line in _lines(corpus, people, names, meter):
                file.write(line)
            is_whole = True
        finally:
            file.close(is_whole=is_whole)
            if not is_whole:
                partial_file.unlink(missing_ok=True)
        partial_file.replace(target)
    except OSError:
        raise AuditError("The corpus's folder cannot be written.", where="corpus") from None
    meter.finish(WRITE)
    return target


class OtherNames:
    """Other names for people: each depends on the seed and the person alone, and none is taken.

    Parameters
    ----------
    taken
        Full names of the corpus, as `pair_of` writes them.
    """

    def __init__(self, taken: set[Pair], *, seed: int) -> None:
        self._taken = taken
        self._seed = seed

    def of(self, key: str, *, own: Name | None, sex: str, is_japanese: bool) -> Person:
        """Return the other name of a person: of the same sex, no part of it the person's own."""
        parts = {*pair_of(*own)} if own else set()
        for number in range(_MAX_TRIES):
            place = f"{key}/other/{number}"
            if is_japanese:
                is_made_up = number >= _MAX_TRIES // 4
                person = _japanese_person(self._seed, place, sex=sex, is_made_up=is_made_up)
            else:
                person = person_of(self._seed, place, sex=sex)
            pair = pair_of(person.first, person.last)
            is_free = pair not in self._taken and pair[::-1] not in self._taken
            if is_free and not {*pair} & parts:
                return person
        raise AuditError(
            "So many names occur in the corpus that no other one is left.",
            where="other names",
            do="Take a sample of the notes.",
        )


def _taken(private: Path, people: People, meter: Meter) -> set[Pair]:
    """Return every full name that stands in D_private, and everybody's of the register."""
    firsts, lasts = people.parts
    for pool in (us_pool(), japanese_pool()):
        firsts |= set(pool.first)
        lasts |= set(pool.last)
    index = NameIndex(firsts=firsts, lasts=lasts)
    taken = set(people.pairs)
    with private.open("rb") as lines:
        for line in lines:
            taken.update(index.count(str(json.loads(line)["text"])))
            meter.add(LOOK, len(line))
    meter.finish(LOOK)
    return taken


def _lines(corpus: KeptCorpus, people: People, names: OtherNames, meter: Meter) -> Iterator[bytes]:
    for line, note, places in corpus_notes(corpus.path, on_bytes=partial(meter.add, WRITE)):
        if not places:
            yield line
            continue
        text, done, pieces = str(note["text"]), 0, []
        for place in places:
            if place.group >= 0:
                pieces += [text[done : place.start], _other(place, text, corpus, people, names)]
                done = place.stop
        yield json_line(note | {"text": "".join([*pieces, text[done:]])})


def _other(place: Place, text: str, corpus: KeptCorpus, people: People, names: OtherNames) -> str:
    identity, written = place.identity, text[place.start : place.stop]
    own, sex = _own(identity, people, seed=corpus.seed)
    # Registered patients were told by their id alone once: their other names stay what they were.
    key = identity.removeprefix("patient:") if corpus.kind == "register" else identity
    person = names.of(key, own=own, sex=sex, is_japanese=is_unspaced(written))
    new = {
        "first": person.first,
        "middle": person.initial,
        "last": person.last,
        "initial": f"{person.initial}{'.' if written.endswith('.') else ''}",
    }.get(place.kind, written_name(person.first, person.last))
    return _in_case_of(written, new)


def _own(identity: str, people: People, *, seed: int) -> tuple[Name | None, str]:
    """Return the name and sex that a person of the corpus has, as far as they are known."""
    if identity.startswith("patient:"):
        return people.name_of(identity), people.sex_of(identity)
    if identity.startswith(("note:", CANARY)):
        return None, ""
    told = identity[-1] if identity.endswith(("/M", "/F")) else ""
    person = person_of(seed, identity, sex=told)
    return (person.first, person.last), person.sex


def _in_case_of(written: str, new: str) -> str:
    if len(written) > 1 and written.isupper():
        return new.upper()
    return new.lower() if written.islower() else new


def _japanese_person(seed: int, key: str, *, sex: str, is_made_up: bool) -> Person:
    """Draw a Japanese name; made up from the characters of two where few whole ones are left."""
    from faker.providers.person.ja_JP import Provider

    sex = sex or "MF"[draw(seed, "sex", key) & 1]
    pairs = Provider.first_name_male_pairs if sex == "M" else Provider.first_name_female_pairs
    firsts = [str(pair[0]) for pair in pairs]
    lasts = [str(pair[0]) for pair in Provider.last_name_pairs]
    first, last = (
        names[draw(seed, what, key) % len(names)]
        for what, names in (("first", firsts), ("last", lasts))
    )
    if is_made_up:
        first = first[0] + firsts[draw(seed, "first/end", key) % len(firsts)][-1]
        last = last[0] + lasts[draw(seed, "last/end", key) % len(lasts)][-1]
    return Person(first, first[0], last, sex)
