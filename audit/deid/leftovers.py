"""What stays readable in released notes, and who is singled out by it.

Comes in: notes with their marks. Read is what stands outside every mark, by rules and lists
(`leftovers.txt`): ages, sexes, places, professions, dates, families, and clinical terms that are in
few notes of the set. Goes out: the smallest combinations of up to three of these that one patient
of the set alone has.

Source: Sweeney, k-anonymity: a model for protecting privacy, 2002; combinations that no smaller
unique one is part of: Elliot, Manning and Ford, a computational algorithm for handling the special
uniques problem, 2002. Differs: a person is in the set, not drawn from a population, so that who is
unique here may have many like him outside. It is an upper bound of the risk, not a proof; and what
no rule or list knows is not counted.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, zip_longest
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from audit.deid.incoming_notes import SPANS
from audit.deid.release import kinds_of
from audit.deid.rules import RuleTagger, keep_strongest
from audit.deid.sexes import read_sex
from audit.deid.tagged_sets import TaggedSet, corrections_digest, marked_notes
from audit.deid.tagging import REDACTED
from audit.errors import AuditCancelled, AuditError
from audit.foreign import reading, refusing
from audit.notes.formats import read_line
from audit.notes.mention_words import WORDS
from audit.notes.patterns import HAN, KATA, fold_characters
from audit.notes.spans import TaggedDocument, merge_spans
from audit.progress import Meter, Phase, ProgressListener, StopQuestion
from audit.shelf import write_whole
from audit.stats import BoolArray, IntArray
from audit.tables import write_table
from audit.task import Record
from audit.text import word_lists

AGE, SEX, PLACE, WORK, DATE, FAMILY, RARE = KINDS = (
    "age",
    "sex",
    "place",
    "work",
    "date",
    "family",
    "rare",
)
"""The kinds of leftovers; `rare` are terms that look like a condition or an operation."""
MAX_SIZE, MAX_LISTED, MAX_OF_PATIENT = 3, 20_000, 10
"""Leftovers of a combination, and combinations that are listed: in all, and of one patient."""
MAX_COMBINED = 16
"""Of a patient with more leftovers the rarest are combined."""
USUAL_K, MAX_K = 5, 1000
LEFTOVERS, LOOKING = "leftovers.json", "looking for what is left"
HEADER = ("row", "note", "attributes", "kinds", "size")
_MAX_OF_NOTE, _MAX_CHARS, _PER_PART, _PER_BLOCK = 60, 80, 1 << 22, 1 << 19

Leftover = tuple[str, str]
"""The kind, and what stands there, in small letters."""

_LISTS = word_lists(Path(__file__).with_suffix(".txt"))
_SEX_WORDS = {
    sex[0].upper(): frozenset(word for word in WORDS[sex] if len(word) > 2)
    for sex in ("male", "female")
}
_RULES = RuleTagger(("dates", "hospitals"))
_FROM_RULES = {"age": AGE, "date": DATE, "place": PLACE}
_WORD = re.compile(r"[A-Za-z][A-Za-z'.-]*[A-Za-z]")
_LOOSE = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (AGE, r"[0-9]{2,3} ?[歳才](?:以上|超)|(?i:\bover (?:8|9|10)[0-9] years)|\b(?i:teenager)\b"),
        (AGE, r"\b(?i:(?:his|her|their) (?:(?:early|mid|late)[- ])?)(?P<value>[1-9]0'?s\b)"),
        (
            PLACE,
            rf"(?<![{HAN}])(?:[{HAN}]{{2,3}}[都道府県])?(?P<value>(?![当同本各他]市)[{HAN}]{{1,3}}"
            "(?:市(?![販中場民])|[郡町村](?=在住|出身|生まれ|役場|[のにでへ、。])))",
        ),
        (PLACE, r"(?i:\bward [0-9A-Z]{1,3}\b)|[0-9]{1,2}[東西南北]?病棟"),
        (
            FAMILY,
            r"\b(?i:(?:[5-9]|1[0-9]|five|six|seven|eight|nine|ten|eleven|twelve) (?:children|"
            r"siblings|brothers|sisters|sons|daughters))\b|[5-9]人(?:兄弟|同胞|きょうだい)",
        ),
    )
)
_ENGLISH_TERM = re.compile(
    r"\b(?i:[a-z]{2,}(?:itis|oma|omas|omata|[^p]osis|pathy|pathies|[ae]mia|plasia|trophy|ectomy|otomy"
    r"|ostomy|plasty|cele|algia|philia|penia|rrhagia|sclerosis))\b"
    r"|\b[A-Z][a-z]+(?:-[A-Z][a-z]+)?(?:'s)? (?:syndrome|disease|anomaly|deformity)\b"
)
_JAPANESE_TERM = re.compile(
    rf"[{HAN}{KATA}]{{1,14}}(?:症候群|血症|症|腫瘍|肉腫|腫|病|炎|癌|奇形|麻痺|移植|切除術|形成術)"
    "(?![院棟室床状例歴名変巣態理期症瘤大脹的])"
)


def readable_text(note: TaggedDocument) -> str:
    """Return a note in which nothing is left of what stands in a mark; offsets stay."""
    pieces, at = [], 0
    for start, end in merge_spans(note.spans):
        pieces += [note.text[at:start], "\n" * (end - start)]
        at = end
    return fold_characters("".join([*pieces, note.text[at:]]))


def leftovers_of(note: TaggedDocument) -> tuple[Leftover, ...]:
    """Return what stays readable in a note, each once; clinical terms too, be they rare or not."""
    text = readable_text(note)
    found = [(SEX, sex)] if (sex := _sex(text)) else []
    spans = keep_strongest(one for _, one in _RULES.find_spans(text))
    # What the rules find, in kinds as placeholders have them.
    for span, kind in kinds_of(TaggedDocument("", text, spans)):
        if kind in _FROM_RULES:
            found.append((_FROM_RULES[kind], text[span.start : span.end]))
    for kind, pattern in _LOOSE:
        of = "value" if "value" in pattern.groupindex else 0
        found += ((kind, match[of]) for match in pattern.finditer(text))
    found += _listed(text)
    for pattern in (_ENGLISH_TERM, _JAPANESE_TERM):
        terms = (match[0] for match in pattern.finditer(text))
        found += ((RARE, term) for term in terms if term.casefold() not in _LISTS["common"])
    unique = dict.fromkeys((kind, _value(kind, value)) for kind, value in found)
    return tuple(unique)[:_MAX_OF_NOTE]


def _sex(text: str) -> str:
    """Return the sex that is told, or that of the words in sight where they agree."""
    if sex := read_sex(text):
        return sex
    words = {match[0].casefold() for match in _WORD.finditer(text)}
    told = [sex for sex, known in _SEX_WORDS.items() if not words.isdisjoint(known)]
    return told[0] if len(told) == 1 else ""


def _value(kind: str, text: str) -> str:
    if kind == SEX:
        return text
    value = " ".join(text.casefold().split())[:_MAX_CHARS]
    if kind != AGE or not (number := re.search(r"[0-9]{1,3}", value)):
        return value
    unit = re.search(r"month|week|day|月|週|日", value)
    is_tens = re.search(r"[0-9]'?s\b|代|以上|超|over", value)
    return value if unit or is_tens else number[0]


@cache
def _phrases() -> tuple[dict[str, list[tuple[str, str]]], dict[str, list[tuple[str, str]]]]:
    """Return (phrase, kind) of the lists: by first word in English, by two characters else."""
    from faker.providers.address.en_US import Provider as English
    from faker.providers.address.ja_JP import Provider as Japanese

    places = {
        *English.states,
        *English.countries,
        *_LISTS["places_en"],
        *Japanese.prefectures,
        *Japanese.countries,
        *Japanese.cities,
    }
    kinds = dict.fromkeys(places, PLACE)
    for name, kind in (("work", WORK), ("family", FAMILY)):
        kinds |= dict.fromkeys(_LISTS[f"{name}_en"] | _LISTS[f"{name}_ja"], kind)
    kinds |= dict.fromkeys(_LISTS["ages"], AGE)
    english, japanese = defaultdict(list), defaultdict(list)
    for phrase, kind in sorted(kinds.items(), key=lambda one: (-len(one[0]), one)):
        written = fold_characters(phrase.replace("_", " "))
        if written.isascii():
            english[_WORD.findall(written)[0].casefold()].append((written, kind))
        elif len(written) > 1:
            japanese[written[:2]].append((written, kind))
    return dict(english), dict(japanese)


def _listed(text: str) -> Iterator[Leftover]:
    """Yield what a list has; of English words places begin with a capital, others may not.

    A profession with a capital is somebody's name, but at the begin of a field or line.
    """
    english, japanese = _phrases()
    small, at = text.lower(), 0  # of the same length: the text is folded, and İ is no list's
    for match in _WORD.finditer(text):
        start = match.start()
        for phrase, kind in english.get(match[0].casefold(), ()) if start >= at else ():
            end = start + len(phrase)
            is_first = text[max(0, start - 3) : start].rstrip(" ")[-1:] in ("", "\n", ":")
            seen = text if kind == PLACE or (kind == WORK and not is_first) else small
            if seen.startswith(phrase, start) and not text[end : end + 1].isalpha():
                at = end
                after = _WORD.match(text, end + 1)
                if kind != PLACE or not after or after[0] not in _LISTS["no_places"]:
                    yield kind, phrase
                break
    at = 0
    for match in _heads().finditer(text):
        for phrase, kind in japanese.get(match[1], ()) if match.start() >= at else ():
            if text.startswith(phrase, match.start()):
                at = match.start() + len(phrase)
                yield kind, phrase
                break


@cache
def _heads() -> re.Pattern[str]:
    """Return what finds the places at which a phrase in Japanese may begin."""
    first = "".join(sorted({head[0] for head in _phrases()[1]}))
    return re.compile(f"(?=([{first}].))")


class Single(Record):
    """A combination of leftovers that one patient of the set alone has.

    `notes` are the numbers in the set, from 0, of the patient's notes in which one of them stands,
    `rows` their rows in the source.
    """

    notes: tuple[int, ...]
    rows: tuple[int, ...]
    attributes: tuple[tuple[str, str], ...]


class Leftovers(Record):
    """What is left in a set of notes, and whom it singles out; holds text of notes.

    A note without a patient is a patient of its own. `n_with` notes have a leftover; `kinds` has
    how many notes have one of a kind. `n_singled` patients have a combination of their own, and
    `n_below` one that fewer than `k` share (they among them). `n_unique` are such combinations, by
    size, of which `singles` has the smallest. Where `n_capped` patients have too many leftovers
    only the rarest were combined, and counts of larger combinations are at most so.
    """

    k: int
    n_notes: int
    n_patients: int
    n_with: int
    n_capped: int
    n_singled: int
    n_below: int
    kinds: dict[str, int]
    n_unique: dict[int, int]
    singles: tuple[Single, ...]
    corrections: str = ""
    """The digest of the corrections by hand that were in force."""

    def counts(self) -> dict[str, Any]:
        """Return what is no text of notes."""
        return self.plain() | {"singles": len(self.singles)}


def find_leftovers(
    notes: Iterable[tuple[int, TaggedDocument]],
    *,
    k: int = USUAL_K,
    n_bytes: int = 1,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Leftovers:
    """Find what is left in notes, each with its row, and whom it singles out.

    Terms are rare where at most `k` notes have them. Memory grows with the number of notes and of
    their leftovers, not with their text, of which there are some `n_bytes`.
    """
    if not 2 <= k <= MAX_K:
        raise AuditError(
            "must be a whole number from {low} to {high}.",
            where="size of groups",
            low=2,
            high=MAX_K,
        )
    phase = Phase(LOOKING, float(n_bytes), 3e-6, LOOKING)
    table, meter = _Table(), Meter([phase], listener=progress, should_stop=should_stop)
    for row, note in notes:
        table.add(row, note)
        meter.add(LOOKING, len(note.text))
    found = table.singled_out(k, should_stop)
    meter.finish(LOOKING)
    return found


def look_over(
    tagged: TaggedSet,
    *,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> None:
    """Find what is left in a kept set, corrected by hand, and keep it beside the index."""
    known = corrections_digest(tagged)
    found = find_leftovers(
        marked_notes(tagged),
        n_bytes=tagged.spans_path.stat().st_size,
        progress=progress,
        should_stop=should_stop,
    )
    write_whole(tagged.path / LEFTOVERS, found.with_(corrections=known).written())


def kept_leftovers(tagged: TaggedSet) -> Leftovers | None:
    """Return what was found in a kept set; None where it was not looked for."""
    path = tagged.path / LEFTOVERS
    return Leftovers.read(path.read_bytes(), where="tagged notes") if path.exists() else None


@dataclass
class _Table:
    """Notes as numbers of leftovers; `patients` has the notes of each."""

    numbers: dict[Leftover, int] = field(default_factory=dict)
    n_notes_with: list[int] = field(default_factory=list)
    rows: array[int] = field(default_factory=lambda: array("q"))
    notes: list[array[int]] = field(default_factory=list)
    patients: dict[tuple[int, str], array[int]] = field(default_factory=dict)

    def add(self, row: int, note: TaggedDocument) -> None:
        """Take in a note."""
        own = array("l")
        for one in leftovers_of(note):
            number = self.numbers.setdefault(one, len(self.numbers))
            if number == len(self.n_notes_with):
                self.n_notes_with.append(0)
            self.n_notes_with[number] += 1
            own.append(number)
        self.patients.setdefault(note.patient, array("l")).append(len(self.notes))
        self.rows.append(row)
        self.notes.append(own)

    def singled_out(self, k: int, should_stop: StopQuestion) -> Leftovers:
        """Return what is left, and who is singled out by it."""
        leftovers = list(self.numbers)
        is_kept = [
            kind != RARE or n <= k
            for (kind, _), n in zip(leftovers, self.n_notes_with, strict=True)
        ]
        kinds: Counter[str] = Counter()
        n_with = 0
        for place, own in enumerate(self.notes):
            self.notes[place] = kept = array("l", (one for one in own if is_kept[one]))
            kinds.update({leftovers[one][0] for one in kept})
            n_with += bool(kept)
        members = list(self.patients.values())
        sets = [sorted({one for note in own for one in self.notes[note]}) for own in members]
        found = _Search(sets, len(leftovers), k, should_stop)
        listed = []
        for patient, chosen in found.listed():
            wanted = set(chosen)
            where = [note for note in members[patient] if not wanted.isdisjoint(self.notes[note])]
            listed.append(
                Single(
                    notes=tuple(where),
                    rows=tuple(self.rows[note] for note in where),
                    attributes=tuple(sorted(leftovers[one] for one in chosen)),
                )
            )
        return Leftovers(
            k=k,
            n_notes=len(self.notes),
            n_patients=len(members),
            n_with=n_with,
            n_capped=found.n_capped,
            n_singled=int(found.is_single.sum()),
            n_below=int((found.is_below | found.is_single).sum()),
            kinds={kind: kinds[kind] for kind in KINDS if kinds[kind]},
            n_unique=found.n_unique,
            singles=tuple(listed),
        )


class _Block(NamedTuple):
    """Combinations: the key of each, which says its members, and whose it is."""

    keys: IntArray
    owners: IntArray


class _Search:
    """Looks for combinations that one patient alone has, of one size after the other.

    What holds a smaller one is passed over. Combinations are counted part by part, by their keys,
    so that memory does not grow with their number.
    """

    def __init__(
        self, sets: Sequence[Sequence[int]], n: int, k: int, should_stop: StopQuestion
    ) -> None:
        self._sets, self._k, self._should_stop = sets, k, should_stop
        self.n_unique: dict[int, int] = {}
        self.is_single, self.is_below = (np.zeros(len(sets), bool) for _ in range(2))
        self._n_of = np.zeros(len(sets), np.int64)
        self._found: list[tuple[int, tuple[int, ...]]] = []
        n_having = np.zeros(n, np.int64)
        for own in sets:
            n_having[list(own)] += 1
        self._alone(n_having)
        # Those that several have, the rarest first: the order is that of members in a combination.
        order = sorted((i for i in range(n) if n_having[i] > 1), key=lambda i: (n_having[i], i))
        self._order, self._n = order, max(2, len(order))
        places = {one: place for place, one in enumerate(order)}
        self.n_capped = 0
        groups: dict[int, list[tuple[int, list[int]]]] = defaultdict(list)
        for patient, own in enumerate(sets):
            chosen = sorted(places[one] for one in own if one in places)
            self.n_capped += len(chosen) > MAX_COMBINED
            groups[len(chosen[:MAX_COMBINED])].append((patient, chosen[:MAX_COMBINED]))
        self._groups = {
            m: (np.array([patient for patient, _ in rows]), np.array([own for _, own in rows]))
            for m, rows in sorted(groups.items())
            if m > 1
        }
        pairs = np.zeros(0, np.int64)
        for size in range(2, MAX_SIZE + 1):
            pairs = self._of_size(size, pairs)

    def _alone(self, n_having: IntArray) -> None:
        self.n_unique[1] = int((n_having == 1).sum())
        for patient, own in enumerate(self._sets):
            for one in own:
                self.is_below[patient] |= n_having[one] < self._k
                if n_having[one] == 1:
                    self._keep(patient, (one,))

    def _keep(self, patient: int, chosen: tuple[int, ...]) -> None:
        self.is_single[patient] = True
        if self._n_of[patient] < MAX_OF_PATIENT:
            self._n_of[patient] += 1
            self._found.append((patient, chosen))

    def _of_size(self, size: int, pairs: IntArray) -> IntArray:
        """Count the combinations of a size; return the keys of those that are unique."""
        n = sum(len(rows) * comb(m, size) for m, (_, rows) in self._groups.items())
        n_parts, unique = -(-n // _PER_PART), []
        self.n_unique[size] = 0
        for part in range(n_parts):
            blocks = [
                _Block(one.keys[mine], one.owners[mine])
                for one in self._blocks(size, pairs)
                for mine in [one.keys % n_parts == part]
            ]
            keys, owners = (np.concatenate(each) for each in zip(*blocks, strict=True))
            _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
            n_having = counts[inverse]
            self.is_below[owners[n_having < self._k]] = True
            alone = np.flatnonzero(n_having == 1)
            self.n_unique[size] += len(alone)
            self.is_single[owners[alone]] = True
            for place in alone[self._n_of[owners[alone]] < MAX_OF_PATIENT].tolist():
                self._keep(int(owners[place]), self._members(int(keys[place]), size))
            if size < MAX_SIZE:
                unique.append(keys[alone])
        return np.sort(np.concatenate([pairs[:0], *unique]))

    def _members(self, key: int, size: int) -> tuple[int, ...]:
        found = []
        for _ in range(size):
            key, place = divmod(key, self._n)
            found.append(self._order[place])
        return tuple(reversed(found))

    def _blocks(self, size: int, pairs: IntArray) -> Iterator[_Block]:
        """Yield all combinations of a size, without those that hold one of the unique pairs."""
        for m, (patients, rows) in self._groups.items():
            if m < size:
                continue
            columns = np.array(list(combinations(range(m), size)))
            step = max(1, _PER_BLOCK // len(columns))
            for first in range(0, len(rows), step):
                if self._should_stop():
                    raise AuditCancelled
                chosen = rows[first : first + step][:, columns].reshape(-1, size)
                owners = np.repeat(patients[first : first + step], len(columns))
                if len(pairs):
                    is_new = np.ones(len(chosen), bool)
                    for a, b in combinations(range(size), 2):
                        is_new &= ~_is_in(chosen[:, a] * self._n + chosen[:, b], pairs)
                    chosen, owners = chosen[is_new], owners[is_new]
                keys = chosen[:, 0]
                for column in range(1, size):
                    keys = keys * self._n + chosen[:, column]
                yield _Block(keys, owners)

    def listed(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return patients with combinations of theirs, the smallest first.

        Where leftovers were passed over all patients are asked again.
        """
        ordered = sorted(self._found, key=lambda one: (len(one[1]), one[0]))[:MAX_LISTED]
        if not self.n_capped:
            return ordered
        having: dict[int, set[int]] = {one: set() for _, own in ordered for one in own}
        for patient, own in enumerate(self._sets):
            for one in own:
                if one in having:
                    having[one].add(patient)
        return [
            (patient, own)
            for patient, own in ordered
            if len(set.intersection(*(having[one] for one in own))) == 1
        ]


def _is_in(keys: IntArray, known: IntArray) -> BoolArray:
    """Say of each key whether it is one of the known ones, which are sorted."""
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.equal(known[places], keys)


def tagged_notes(folder: Path) -> Iterator[tuple[int, TaggedDocument]]:
    """Yield the notes of a folder of `deid tag` with their rows."""
    damaged = AuditError("This is no folder of `deid tag`, or it is damaged.", where="--tagged")
    paths = (folder / SPANS, folder / REDACTED)
    with reading("--tagged"), paths[0].open("rb") as spans, paths[1].open("rb") as released:
        for line, one in zip_longest(spans, released, fillvalue=b""):
            with refusing(damaged):
                row = int(json.loads(one)["row"])
                note = read_line(line.decode("utf-8", "surrogatepass"), subject=SPANS, number=row)
            yield row, note


def leftovers_csv(found: Leftovers, *, names: Mapping[int, str]) -> str:
    """Return whom leftovers single out as CSV; `names` has those of notes, by row."""
    return write_table(
        HEADER,
        [
            (
                "; ".join(map(str, one.rows)),
                "; ".join(names.get(row, "") for row in one.rows),
                "; ".join(value for _, value in one.attributes),
                "; ".join(kind for kind, _ in one.attributes),
                len(one.attributes),
            )
            for one in found.singles
        ],
    )
