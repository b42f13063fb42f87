"""The attack on surrogates: who has the program and the release, but no key, learns nothing more.

The attacker knows every patient's identifier, where each surrogate stands, and lists in which the
true names and record numbers are. For each patient the program itself says, from a key that the
attacker can compute, which surrogate each candidate would get and by how much dates would move.
Whoever knows only what is kept on purpose guesses among the candidates that agree in it. A release
from a public seed falls to the same attack, so that the test can fail.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from math import sqrt

import pytest

from audit.deid.redact.persons import PatientNames
from audit.deid.redact.release import Release, is_placeholder, kinds_of
from audit.deid.redact.sexes import sex_of_given_name
from audit.notes.mentions_ja import split_japanese_name
from audit.notes.spans import IDENTIFIER, LINKAGE_CODE, QUASI_IDENTIFIER, Span, TaggedDocument
from benchmarks.synthetic import in_turn

N_NOTES, N_OTHERS = 1000, 30
N_SHIFTS = 180
MARGIN = 4.5
"""Standard errors above the guess rate: one run in 300,000 is this far off by chance."""
CODE = re.compile(r"[0-9A-Z-]*[0-9]{3}[0-9A-Z-]*")
WHOLE_DATE = re.compile(
    r"(?:19|20)[0-9]{2}(?:-[0-9]{2}-|/[0-9]{1,2}/|年[0-9]{1,2}月)[0-9]{1,2}日?"
    r"|(?:0?[1-9]|1[0-2])/[0-9]{1,2}/[0-9]{4}"
)


@dataclass(frozen=True)
class Pair:
    """What stood at a mark, and the surrogate that stands there now."""

    patient: str
    sort: str
    true: str
    surrogate: str


@cache
def generated_notes() -> tuple[TaggedDocument, ...]:
    """Return notes of invented patients in two languages, each with a day and a record number."""
    dice = random.Random(9)
    notes = []
    for note in in_turn(N_NOTES, seed=77, languages=("en", "ja")):
        day = date(2022, 1, 1) + timedelta(days=dice.randrange(1000))
        text, spans = "", []
        for cue, true, label in (
            ("Date: ", day.isoformat(), QUASI_IDENTIFIER),
            ("\nMRN: ", f"{dice.randrange(10**6, 10**7)}", LINKAGE_CODE),
        ):
            spans.append(Span(len(text + cue), len(text + cue + true), label))
            text += cue + true
        text += "\n"
        spans += [
            Span(span.start + len(text), span.end + len(text), span.label) for span in note.spans
        ]
        patient = f"{note.doc_id[:2]}{note.patient_id}"
        notes.append(TaggedDocument(note.doc_id, text + note.text, tuple(spans), patient))
    return tuple(notes)


def released_pairs(release: Release) -> Iterator[Pair]:
    """Yield true texts and surrogates of names, whole dates, record numbers and ages."""
    names = PatientNames()
    for note in generated_notes():
        names.add(note)
    for note in generated_notes():
        replacements = release.redact(note, names=names.get_names(note.patient_id)).replacements
        for (span, sort), replacement in zip(kinds_of(note), replacements, strict=True):
            true = note.text[span.start : span.end]
            is_fit = {
                "name": replacement.label == IDENTIFIER,
                "date": bool(WHOLE_DATE.fullmatch(true)),
                "id": bool(CODE.fullmatch(true)),
                "age": bool(re.search("[0-9]", true)),
            }.get(sort, False)
            if is_fit and not is_placeholder(replacement.text):
                yield Pair(str(note.patient_id), sort, true, replacement.text)


@cache
def keyed_pairs() -> tuple[Pair, ...]:
    """Return the pairs of a release with a random key."""
    return tuple(released_pairs(Release(mode="surrogate")))


@cache
def public_surrogates(patient: str, codes: Sequence[str]) -> Mapping[str, str]:
    """Return the surrogates that the program draws for candidates from the seed that is usual."""
    text, spans = "", []
    lines = [("MRN: ", code, LINKAGE_CODE) for code in codes]
    for cue, candidate, label in [*lines, ("on ", "2020-01-01", QUASI_IDENTIFIER)]:
        text += cue
        spans.append(Span(len(text), len(text) + len(candidate), label))
        text += f"{candidate}\n"
    note = TaggedDocument("x", text, tuple(spans), patient)
    replacements = Release(mode="surrogate", seed=0).redact(note).replacements
    candidates = [*codes, "2020-01-01"]
    return {candidate: new.text for candidate, new in zip(candidates, replacements, strict=True)}


@cache
def public_name(patient: str, name: str, sex: str) -> str:
    """Return the surrogate of a name that the program draws from the usual seed.

    No other name stands beside it, because a surrogate is never another true name; the note tells
    the sex that the surrogate has in the release.
    """
    cue = "Patient: " if name.isascii() else "氏名："
    span = Span(len(cue), len(cue) + len(name), IDENTIFIER)
    words = {"M": "Sex: M 性別：男性", "F": "Sex: F 性別：女性"}.get(sex, "")
    note = TaggedDocument("x", f"{cue}{name}\n{words}", (span,), patient)
    return Release(mode="surrogate", seed=0).redact(note).replacements[0].text


def sex_in(name: str) -> str:
    given_name = name.split()[0] if name.isascii() else split_japanese_name(name)[0]
    return sex_of_given_name(given_name)


def day_in(text: str) -> date:
    first, second, third = map(int, re.findall(r"\d+", text))
    return date(first, second, third) if first > 31 else date(third, first, second)


@dataclass
class Attack:
    """How often the attack on a release was right, and how often a guess would be."""

    n: int = 0
    n_right: int = 0
    expected: float = 0.0

    def add(self, is_right: bool, n_candidates: int) -> None:
        self.n += 1
        self.n_right += is_right
        self.expected += 1 / n_candidates

    @property
    def most(self) -> float:
        """The most that chance gives."""
        share = self.expected / self.n
        return self.expected + MARGIN * sqrt(self.n * share * (1 - share))


def attacks_on(pairs: Iterable[Pair]) -> dict[str, Attack]:
    dice = random.Random(5)
    pairs = list(dict.fromkeys(pairs))
    listed = {
        (sort, is_ascii): sorted(
            {p.true for p in pairs if p.sort == sort and p.true.isascii() is is_ascii}
        )
        for sort in ("name", "id")
        for is_ascii in (True, False)
    }
    by_patient: dict[str, dict[str, Pair]] = {}
    for pair in pairs:
        by_patient.setdefault(pair.patient, {}).setdefault(pair.sort, pair)
    attacks = {sort: Attack() for sort in ("name", "date", "id")}
    for patient, own_pairs in by_patient.items():
        chosen: dict[str, tuple[str, ...]] = {}
        for sort in ("name", "id"):
            other_pairs = listed[sort, own_pairs[sort].true.isascii()] if sort in own_pairs else []
            rest = (
                [candidate for candidate in other_pairs if candidate != own_pairs[sort].true]
                if sort in own_pairs
                else []
            )
            picked = dice.sample(rest, min(N_OTHERS, len(rest)))
            chosen[sort] = (
                tuple(sorted({*picked, own_pairs[sort].true})) if sort in own_pairs else ()
            )
        table = dict(public_surrogates(patient, chosen["id"]))
        for sort in ("name", "id"):
            if sort not in own_pairs:
                continue
            pair, candidates = own_pairs[sort], chosen[sort]
            if sort == "name":
                sex = sex_in(pair.surrogate)
                sexes = {"", sex}
                candidates = tuple(
                    candidate
                    for candidate in candidates
                    if sex_in(candidate) in sexes or sexes == {""} or candidate == pair.true
                )
                table |= {
                    candidate: public_name(patient, candidate, sex) for candidate in candidates
                }
            fitting = [candidate for candidate in candidates if table[candidate] == pair.surrogate]
            guess = dice.choice(fitting or candidates)
            attacks[sort].add(guess == pair.true, len(candidates))
        if "date" in own_pairs:
            moved = day_in("2020-01-01") - day_in(table["2020-01-01"])
            guessed = day_in(own_pairs["date"].surrogate) + moved
            attacks["date"].add(guessed == day_in(own_pairs["date"].true), N_SHIFTS)
    return attacks


@pytest.mark.long
def test_without_the_key_true_texts_are_guessed_no_better_than_from_what_is_kept_on_purpose() -> (
    None
):
    attacks = attacks_on(keyed_pairs())
    assert min(attack.n for attack in attacks.values()) >= 400
    for sort, attack in attacks.items():
        assert attack.n_right <= attack.most, (sort, attack)
        assert attack.most < 0.2 * attack.n, "the bound says something"


@pytest.mark.long
def test_the_same_attack_reads_a_release_from_a_public_seed() -> None:
    for sort, attack in attacks_on(released_pairs(Release(mode="surrogate", seed=0))).items():
        # Two candidates may have one surrogate, more often names than numbers.
        assert attack.n_right > (0.8 if sort == "name" else 0.95) * attack.n, (sort, attack)


def test_two_releases_of_the_same_notes_have_nothing_in_common_but_what_is_kept() -> None:
    note = TaggedDocument("1", "on 2024-05-03.", (Span(3, 13, QUASI_IDENTIFIER),), "p")
    moves = [
        day_in("2024-05-03") - day_in(Release(mode="surrogate").redact(note).replacements[0].text)
        for _ in range(2000)
    ]
    weeks = Counter(move // timedelta(weeks=1) for move in moves)
    assert all(move % timedelta(weeks=1) == timedelta() for move in moves)
    assert {*weeks} <= {52 * years + n for years in range(1, 5) for n in range(4, 49)}
    # All 180 are as likely: 11 of each are expected, and chance makes 0 to 31 of it.
    assert len(weeks) >= 175 and max(weeks.values()) <= 31


@pytest.mark.long
def test_of_numbers_and_ages_only_what_is_told_stays() -> None:
    pairs = keyed_pairs()
    n = n_same = 0
    for pair in pairs:
        if pair.sort == "id":
            assert len(pair.true) == len(pair.surrogate)
            digits = zip(pair.true[1:], pair.surrogate[1:], strict=True)
            same = [old == new for old, new in digits if old.isdigit()]
            n, n_same = n + len(same), n_same + sum(same)
    assert n > 1000 and abs(n_same / n - 0.1) < MARGIN * sqrt(0.09 / n)
    ages = [
        [int(re.findall(r"\d+", text)[0]) for text in (pair.true, pair.surrogate)]
        for pair in pairs
        if pair.sort == "age"
    ]
    moves = Counter(new - old for old, new in ages)
    assert {*moves} == {-3, -2, -1, 1, 2, 3}
    # One in six is guessed from the release, which docs/security.md says.
    n_ages = moves.total()
    assert max(moves.values()) / n_ages < 1 / 6 + MARGIN * sqrt(5 / 36 / n_ages)
