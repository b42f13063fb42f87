"""What stays readable in released notes (leftovers), and whom it singles out.

Input: notes with their marks. Rules and lists (`leftovers.txt`) read the text outside every mark:
ages, sexes, places, professions, dates, families, and clinical terms that are in few notes of the
set. Output: the smallest combinations of up to three leftovers that only one patient of the set
has.

Source: Sweeney, k-anonymity: a model for protecting privacy, 2002; unique combinations that contain
no smaller unique one: Elliot, Manning and Ford, a computational algorithm for handling the special
uniques problem, 2002. Differs: uniqueness is counted in the set, not in the population, so many
people outside the set may share a combination that is unique here. The count is an upper bound of
the risk, not a proof. Leftovers that no rule or list knows are not counted.
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

from audit.deid.find.rules import RuleTagger, keep_strongest
from audit.deid.redact.release import kinds_of
from audit.deid.redact.sexes import read_sex
from audit.deid.sets.incoming_notes import SPANS
from audit.deid.sets.tagged_sets import TaggedSet, corrections_digest, marked_notes
from audit.deid.sets.tagging import REDACTED
from audit.errors import AuditCancelled, AuditError
from audit.foreign import locate_errors, refuse_errors
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
"""The kinds of leftovers; `rare` has rare terms that look like a condition or an operation."""
MAX_SIZE, MAX_LISTED, MAX_OF_PATIENT = 3, 20_000, 10
"""The most leftovers in a combination, and the most combinations listed: in all, of a patient."""
MAX_COMBINED = 16
"""For a patient with more leftovers only the rarest are combined."""
USUAL_K, MAX_K = 5, 1000
LEFTOVERS, LOOKING = "leftovers.json", "looking for what is left"
HEADER = ("row", "note", "attributes", "kinds", "size")
_MAX_OF_NOTE, _MAX_CHARS, _PER_PART, _PER_BLOCK = 60, 80, 1 << 22, 1 << 19

Leftover = tuple[str, str]
"""The kind, and the text in lower case."""

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
    """Return the folded text of a note with line ends in place of every mark; offsets stay."""
    pieces, position = [], 0
    for start, end in merge_spans(note.spans):
        pieces += [note.text[position:start], "\n" * (end - start)]
        position = end
    return fold_characters("".join([*pieces, note.text[position:]]))


def find_note_leftovers(note: TaggedDocument) -> tuple[Leftover, ...]:
    """Return the leftovers of a note, each once, with all clinical terms, rare or not."""
    text = readable_text(note)
    leftovers = [(SEX, sex)] if (sex := _find_sex(text)) else []
    spans = keep_strongest(span for _, span in _RULES.find_spans(text))
    # Spans of the rules, with the sorts that placeholders use.
    for span, kind in kinds_of(TaggedDocument("", text, spans)):
        if kind in _FROM_RULES:
            leftovers.append((_FROM_RULES[kind], text[span.start : span.end]))
    for kind, pattern in _LOOSE:
        group = "value" if "value" in pattern.groupindex else 0
        leftovers += ((kind, match[group]) for match in pattern.finditer(text))
    leftovers += _find_listed(text)
    for pattern in (_ENGLISH_TERM, _JAPANESE_TERM):
        terms = (match[0] for match in pattern.finditer(text))
        leftovers += ((RARE, term) for term in terms if term.casefold() not in _LISTS["common"])
    unique = dict.fromkeys((kind, _normalise_value(kind, phrase)) for kind, phrase in leftovers)
    return tuple(unique)[:_MAX_OF_NOTE]


def _find_sex(text: str) -> str:
    """Return the sex that the text states, or the one on which all of its words agree, or ""."""
    if sex := read_sex(text):
        return sex
    words = {match[0].casefold() for match in _WORD.finditer(text)}
    sexes = [sex for sex, sex_words in _SEX_WORDS.items() if not words.isdisjoint(sex_words)]
    return sexes[0] if len(sexes) == 1 else ""


def _normalise_value(kind: str, text: str) -> str:
    if kind == SEX:
        return text
    normalised = " ".join(text.casefold().split())[:_MAX_CHARS]
    if kind != AGE or not (number := re.search(r"[0-9]{1,3}", normalised)):
        return normalised
    unit = re.search(r"month|week|day|月|週|日", normalised)
    is_tens = re.search(r"[0-9]'?s\b|代|以上|超|over", normalised)
    return normalised if unit or is_tens else number[0]


@cache
def _phrase_tables() -> tuple[dict[str, list[tuple[str, str]]], dict[str, list[tuple[str, str]]]]:
    """Return (phrase, kind) of all lists, English by first word and Japanese by two characters."""
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
    for phrase, kind in sorted(
        kinds.items(), key=lambda phrase_and_kind: (-len(phrase_and_kind[0]), phrase_and_kind)
    ):
        phrase_text = fold_characters(phrase.replace("_", " "))
        if phrase_text.isascii():
            english[_WORD.findall(phrase_text)[0].casefold()].append((phrase_text, kind))
        elif len(phrase_text) > 1:
            japanese[phrase_text[:2]].append((phrase_text, kind))
    return dict(english), dict(japanese)


def _find_listed(text: str) -> Iterator[Leftover]:
    """Yield the phrases of the lists that stand in a text.

    English places begin with a capital letter; other words may be in any case. A profession with a
    capital letter counts only at the beginning of a field or line: elsewhere it is a name.
    """
    english, japanese = _phrase_tables()
    lower_text, position = (
        text.lower(),
        0,
    )  # of the same length: the text is folded, and no list has an İ
    for match in _WORD.finditer(text):
        start = match.start()
        for phrase, kind in english.get(match[0].casefold(), ()) if start >= position else ():
            end = start + len(phrase)
            is_first = text[max(0, start - 3) : start].rstrip(" ")[-1:] in ("", "\n", ":")
            cased_text = text if kind == PLACE or (kind == WORK and not is_first) else lower_text
            if cased_text.startswith(phrase, start) and not text[end : end + 1].isalpha():
                position = end
                next_word = _WORD.match(text, end + 1)
                if kind != PLACE or not next_word or next_word[0] not in _LISTS["no_places"]:
                    yield kind, phrase
                break
    position = 0
    for match in _head_pattern().finditer(text):
        for phrase, kind in japanese.get(match[1], ()) if match.start() >= position else ():
            if text.startswith(phrase, match.start()):
                position = match.start() + len(phrase)
                yield kind, phrase
                break


@cache
def _head_pattern() -> re.Pattern[str]:
    """Return a pattern that finds the places where a Japanese phrase may begin."""
    first = "".join(sorted({head[0] for head in _phrase_tables()[1]}))
    return re.compile(f"(?=([{first}].))")


class Single(Record):
    """A combination of leftovers that only one patient of the set has.

    `notes` are the numbers in the set, from 0, of the patient's notes that contain one of them;
    `rows` are the rows of these notes in the source.
    """

    notes: tuple[int, ...]
    rows: tuple[int, ...]
    attributes: tuple[tuple[str, str], ...]


class Leftovers(Record):
    """What is left in a set of notes, and whom it singles out; contains text of notes.

    A note without a patient counts as a patient of its own. `n_with` notes have a leftover; `kinds`
    counts the notes that have one of each kind. `n_singled` patients have a combination that nobody
    shares; `n_below` patients, including these, have one that fewer than `k` share. `n_unique`
    counts the unique combinations by size; `singles` lists the smallest. For the `n_capped`
    patients with too many leftovers only the rarest were combined, so that counts of larger
    combinations are upper bounds.
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
    """The digest of the corrections by hand that were applied."""

    def counts(self) -> dict[str, Any]:
        """Return the counts, without any text of notes."""
        return self.plain() | {"singles": len(self.singles)}


def find_leftovers(
    notes: Iterable[tuple[int, TaggedDocument]],
    *,
    k: int = USUAL_K,
    n_bytes: int = 1,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Leftovers:
    """Find what is left in notes, which come with their rows, and whom it singles out.

    Terms are rare if at most `k` notes have them. Memory grows with the number of notes and of
    leftovers, not with the text. `n_bytes` is the approximate size of the text, for the progress.
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
    leftovers = table.find_singles(k, should_stop)
    meter.finish(LOOKING)
    return leftovers


def write_leftovers(
    tagged: TaggedSet,
    *,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> None:
    """Find what is left in a kept set after its corrections, and write it beside the index."""
    digest = corrections_digest(tagged)
    leftovers = find_leftovers(
        marked_notes(tagged),
        n_bytes=tagged.spans_path.stat().st_size,
        progress=progress,
        should_stop=should_stop,
    )
    write_whole(tagged.path / LEFTOVERS, leftovers.with_(corrections=digest).to_bytes())


def read_leftovers(tagged: TaggedSet) -> Leftovers | None:
    """Return the leftovers of a kept set; None if nobody has searched for them."""
    path = tagged.path / LEFTOVERS
    return Leftovers.read(path.read_bytes(), where="tagged notes") if path.exists() else None


@dataclass
class _Table:
    """Notes as lists of leftover numbers; `patients` has the notes of each patient."""

    numbers: dict[Leftover, int] = field(default_factory=dict)
    n_notes_with: list[int] = field(default_factory=list)
    rows: array[int] = field(default_factory=lambda: array("q"))
    notes: list[array[int]] = field(default_factory=list)
    patients: dict[tuple[int, str], array[int]] = field(default_factory=dict)

    def add(self, row: int, note: TaggedDocument) -> None:
        """Add a note."""
        numbers = array("l")
        for leftover in find_note_leftovers(note):
            number = self.numbers.setdefault(leftover, len(self.numbers))
            if number == len(self.n_notes_with):
                self.n_notes_with.append(0)
            self.n_notes_with[number] += 1
            numbers.append(number)
        self.patients.setdefault(note.patient, array("l")).append(len(self.notes))
        self.rows.append(row)
        self.notes.append(numbers)

    def find_singles(self, k: int, should_stop: StopQuestion) -> Leftovers:
        """Return what is left, and whom it singles out."""
        leftovers = list(self.numbers)
        is_kept = [
            kind != RARE or n <= k
            for (kind, _), n in zip(leftovers, self.n_notes_with, strict=True)
        ]
        kinds: Counter[str] = Counter()
        n_with = 0
        for place, numbers in enumerate(self.notes):
            self.notes[place] = kept_numbers = array(
                "l", (number for number in numbers if is_kept[number])
            )
            kinds.update({leftovers[number][0] for number in kept_numbers})
            n_with += bool(kept_numbers)
        patient_notes = list(self.patients.values())
        sets = [
            sorted({number for note in notes for number in self.notes[note]})
            for notes in patient_notes
        ]
        search = _Search(sets, len(leftovers), k, should_stop)
        singles = []
        for patient, combination in search.list_combinations():
            members = set(combination)
            notes = [
                note for note in patient_notes[patient] if not members.isdisjoint(self.notes[note])
            ]
            singles.append(
                Single(
                    notes=tuple(notes),
                    rows=tuple(self.rows[note] for note in notes),
                    attributes=tuple(sorted(leftovers[number] for number in combination)),
                )
            )
        return Leftovers(
            k=k,
            n_notes=len(self.notes),
            n_patients=len(patient_notes),
            n_with=n_with,
            n_capped=search.n_capped,
            n_singled=int(search.is_single.sum()),
            n_below=int((search.is_below | search.is_single).sum()),
            kinds={kind: kinds[kind] for kind in KINDS if kinds[kind]},
            n_unique=search.n_unique,
            singles=tuple(singles),
        )


class _Block(NamedTuple):
    """Combinations: a key of each, which encodes its members, and the patient who has it."""

    keys: IntArray
    owners: IntArray


class _Search:
    """Searches for combinations that only one patient has, size by size.

    A combination that contains a smaller unique one is skipped. Combinations are counted part by
    part, by their keys, so that memory does not grow with their number.
    """

    def __init__(
        self, sets: Sequence[Sequence[int]], n_leftovers: int, k: int, should_stop: StopQuestion
    ) -> None:
        self._sets, self._k, self._should_stop = sets, k, should_stop
        self.n_unique: dict[int, int] = {}
        self.is_single, self.is_below = (np.zeros(len(sets), bool) for _ in range(2))
        self._n_of = np.zeros(len(sets), np.int64)
        self._combinations: list[tuple[int, tuple[int, ...]]] = []
        n_having = np.zeros(n_leftovers, np.int64)
        for numbers in sets:
            n_having[list(numbers)] += 1
        self._count_single_leftovers(n_having)
        # Leftovers of several patients, the rarest first: the order of members in a combination.
        order = sorted(
            (i for i in range(n_leftovers) if n_having[i] > 1), key=lambda i: (n_having[i], i)
        )
        self._order, self._n = order, max(2, len(order))
        places = {number: place for place, number in enumerate(order)}
        self.n_capped = 0
        groups: dict[int, list[tuple[int, list[int]]]] = defaultdict(list)
        for patient, numbers in enumerate(sets):
            own_ranks = sorted(places[number] for number in numbers if number in places)
            self.n_capped += len(own_ranks) > MAX_COMBINED
            groups[len(own_ranks[:MAX_COMBINED])].append((patient, own_ranks[:MAX_COMBINED]))
        self._groups = {
            m: (
                np.array([patient for patient, _ in rows]),
                np.array([numbers for _, numbers in rows]),
            )
            for m, rows in sorted(groups.items())
            if m > 1
        }
        pairs = np.zeros(0, np.int64)
        for size in range(2, MAX_SIZE + 1):
            pairs = self._count_combinations(size, pairs)

    def _count_single_leftovers(self, n_having: IntArray) -> None:
        self.n_unique[1] = int((n_having == 1).sum())
        for patient, numbers in enumerate(self._sets):
            for number in numbers:
                self.is_below[patient] |= n_having[number] < self._k
                if n_having[number] == 1:
                    self._add_combination(patient, (number,))

    def _add_combination(self, patient: int, combination: tuple[int, ...]) -> None:
        self.is_single[patient] = True
        if self._n_of[patient] < MAX_OF_PATIENT:
            self._n_of[patient] += 1
            self._combinations.append((patient, combination))

    def _count_combinations(self, size: int, pairs: IntArray) -> IntArray:
        """Count the combinations of a size; return the keys of the unique ones."""
        n = sum(len(rows) * comb(m, size) for m, (_, rows) in self._groups.items())
        n_parts, unique = -(-n // _PER_PART), []
        self.n_unique[size] = 0
        for part in range(n_parts):
            blocks = [
                _Block(block.keys[mine], block.owners[mine])
                for block in self._blocks(size, pairs)
                for mine in [block.keys % n_parts == part]
            ]
            keys, owners = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
            _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
            n_having = counts[inverse]
            self.is_below[owners[n_having < self._k]] = True
            alone = np.flatnonzero(n_having == 1)
            self.n_unique[size] += len(alone)
            self.is_single[owners[alone]] = True
            for place in alone[self._n_of[owners[alone]] < MAX_OF_PATIENT].tolist():
                self._add_combination(int(owners[place]), self._decode_key(int(keys[place]), size))
            if size < MAX_SIZE:
                unique.append(keys[alone])
        return np.sort(np.concatenate([pairs[:0], *unique]))

    def _decode_key(self, key: int, size: int) -> tuple[int, ...]:
        numbers = []
        for _ in range(size):
            key, place = divmod(key, self._n)
            numbers.append(self._order[place])
        return tuple(reversed(numbers))

    def _blocks(self, size: int, pairs: IntArray) -> Iterator[_Block]:
        """Yield all combinations of a size that contain none of the unique pairs."""
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

    def list_combinations(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return patients with their unique combinations, the smallest first.

        If some patients have leftovers that were not combined, every combination is checked again
        against all leftovers of all patients.
        """
        smallest_first = sorted(self._combinations, key=lambda row: (len(row[1]), row[0]))
        combinations = smallest_first[:MAX_LISTED]
        if not self.n_capped:
            return combinations
        patients_with: dict[int, set[int]] = {
            number: set() for _, combination in combinations for number in combination
        }
        for patient, numbers in enumerate(self._sets):
            for number in numbers:
                if number in patients_with:
                    patients_with[number].add(patient)
        return [
            (patient, combination)
            for patient, combination in combinations
            if len(set.intersection(*(patients_with[number] for number in combination))) == 1
        ]


def _is_in(keys: IntArray, sorted_keys: IntArray) -> BoolArray:
    """Return for each key whether it is one of the sorted keys."""
    places = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.equal(sorted_keys[places], keys)


def read_tagged_folder(folder: Path) -> Iterator[tuple[int, TaggedDocument]]:
    """Yield (row, note) for the notes of a folder that `deid tag` wrote."""
    damaged = AuditError("This is no folder of `deid tag`, or it is damaged.", where="--tagged")
    paths = (folder / SPANS, folder / REDACTED)
    with locate_errors("--tagged"), paths[0].open("rb") as spans, paths[1].open("rb") as released:
        for spans_line, released_line in zip_longest(spans, released, fillvalue=b""):
            with refuse_errors(damaged):
                row = int(json.loads(released_line)["row"])
                note = read_line(
                    spans_line.decode("utf-8", "surrogatepass"), subject=SPANS, number=row
                )
            yield row, note


def leftovers_csv(leftovers: Leftovers, *, names: Mapping[int, str]) -> str:
    """Return the unique combinations as CSV; `names` has the names of notes by row."""
    return write_table(
        HEADER,
        [
            (
                "; ".join(map(str, single.rows)),
                "; ".join(names.get(row, "") for row in single.rows),
                "; ".join(phrase for _, phrase in single.attributes),
                "; ".join(kind for kind, _ in single.attributes),
                len(single.attributes),
            )
            for single in leftovers.singles
        ],
    )
