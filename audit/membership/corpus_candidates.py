"""The candidate list of a corpus: patients named in it, and controls that are nowhere in it.

Comes in: patient-name patterns, the people of the register, which names occur in D_private. Goes
out: candidates with counts, and the tables of the paper's appendix A. Knows no model.

Source: Nakamura et al., section 3.4 and appendix A. Differs: controls are left out if their full
name occurs anywhere, in either order or with one word between; they are matched to members in
popularity; two more kinds are drawn, of two members' parts, and matched ones of any kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from audit.corpora.mention_passages import NamePattern
from audit.membership.candidates import Candidates, make_candidates
from audit.membership.controls import (
    Accepts,
    Name,
    easy_controls,
    hard_controls,
    recombined_controls,
)
from audit.membership.corpus_names import Pair, pair_of
from audit.membership.matched_controls import matched_controls
from audit.membership.name_pools import NamePool, with_popularity


@dataclass(frozen=True)
class CountTable:
    """Names by a count of theirs: the paper's tables 3 and 4.

    `rows` holds (count, number of names with it), highest count first.
    """

    rows: tuple[tuple[int, int], ...]

    @property
    def n_names(self) -> int:
        """Names in all."""
        return sum(n_names for _, n_names in self.rows)

    @property
    def n_total(self) -> int:
        """Patterns, or mentions, in all."""
        return sum(count * n_names for count, n_names in self.rows)


@dataclass(frozen=True)
class RegisteredPerson:
    """A person of the register or the truth file; `role` is "patient", "staff" ..."""

    person: str
    first: str
    last: str
    role: str = "patient"
    sex: str = ""


@dataclass(frozen=True)
class CorpusCandidates:
    """What an audit of a corpus needs.

    Attributes
    ----------
    positives
        P names of patients with a pattern; `n_mentions` counts their patterns' occurrences.
    n_patterns
        P numbers of distinct patterns.
    n_people
        For each role, P numbers of people of that role who carry the name.
    easy, hard, recombined
        Controls; as many as positives where the pool has them.
    matched
        For each positive in turn a control of about the same popularity, of any kind; fewer where
        the pool has no more. `matched_to` holds the positive's row.
    staff
        Names of staff that occur in the corpus and are no positives, as members with their role.
    pattern_table, mention_table
        Tables 3 and 4.
    """

    positives: Candidates
    n_patterns: tuple[int, ...]
    n_people: tuple[tuple[str, tuple[int, ...]], ...]
    easy: Candidates
    hard: Candidates
    recombined: Candidates
    matched: Candidates
    matched_to: tuple[int, ...]
    staff: Candidates
    pattern_table: CountTable
    mention_table: CountTable

    def __post_init__(self) -> None:
        """Check the columns against each other."""
        n = len(self.positives)
        if len(self.n_patterns) != n or any(len(column) != n for _, column in self.n_people):
            raise ValueError("columns of different length")
        if len(self.matched) != len(self.matched_to):
            raise ValueError("a matched control without a positive")


def count_table(counts: Iterable[int]) -> CountTable:
    """Return how many names have each count; names with a count of 0 are left out."""
    tally = Counter(count for count in counts if count)
    return CountTable(tuple(sorted(tally.items(), reverse=True)))


def positives_of(
    patterns: Iterable[NamePattern], *, accepts: Accepts | None = None, role: str = "patient"
) -> tuple[Candidates, tuple[int, ...]]:
    """Return the names that have a pattern, with occurrences, and their distinct patterns.

    Parameters
    ----------
    patterns
        All of a corpus, repeats included.
    accepts
        Whether a name will do, as when both parts are single word pieces (section 3.4).
    role
        Whose patterns count; those whose role is not known count as well.

    Returns
    -------
    positives, n_patterns
        In the order in which the names first occur.
    """
    texts: dict[Pair, Counter[str]] = defaultdict(Counter)
    written: dict[Pair, Name] = {}
    for pattern in patterns:
        if pattern.role not in (role, "") or not (pattern.first and pattern.last):
            continue
        if accepts is not None and not accepts(pattern.first, pattern.last):
            continue
        key = pair_of(pattern.first, pattern.last)
        written.setdefault(key, (pattern.first, pattern.last))
        texts[key][" ".join(pattern.text.split())] += 1
    positives = make_candidates(
        list(written.values()),
        is_member=True,
        n_mentions=[texts[key].total() for key in written],
    )
    positives = replace(positives, role=(role,) * len(positives))
    return positives, tuple(len(texts[key]) for key in written)


def corpus_candidates(
    patterns: Iterable[NamePattern],
    *,
    found: Mapping[Pair, int],
    pool: NamePool,
    seed: int,
    people: Sequence[RegisteredPerson] = (),
    n: int | None = None,
    accepts: Accepts | None = None,
) -> CorpusCandidates:
    """Build the candidate list of a corpus.

    Parameters
    ----------
    patterns
        From `audit.corpora.mention_passages.patterns_of`, of all notes.
    found
        Names that occur in D_private, from an `audit.membership.corpus_names.NameIndex` of the
        parts of pool and positives: no control is one of them.
    pool
        Where controls come from.
    seed
        Of the draws.
    people
        Of the register; none of them becomes a control either.
    n
        Controls of each kind; as many as positives if None.
    accepts
        Whether a name will do, for positives and controls alike.
    """
    positives, n_patterns = positives_of(patterns, accepts=accepts)
    positives = with_popularity(_with_sex(positives, people), pool=pool)
    n = len(positives) if n is None else n
    taken = set(found) | {pair_of(person.first, person.last) for person in people}

    def absent(first: str, last: str) -> bool:
        is_free = pair_of(first, last) not in taken and pair_of(last, first) not in taken
        return is_free and (accepts is None or accepts(first, last))

    matched = matched_controls(positives, n=len(positives), seed=seed, pool=pool, accepts=absent)
    return CorpusCandidates(
        positives=positives,
        n_patterns=n_patterns,
        n_people=carriers(positives, people=people),
        easy=easy_controls(pool, positives, n=n, seed=seed, accepts=absent),
        hard=hard_controls(pool, positives, n=n, seed=seed, accepts=absent),
        recombined=recombined_controls(positives, n=n, seed=seed, pool=pool, accepts=absent),
        matched=matched.controls,
        matched_to=matched.rows,
        staff=_staff(positives, people, found=found, accepts=accepts, pool=pool),
        pattern_table=count_table(n_patterns),
        mention_table=count_table(count or 0 for count in positives.n_mentions),
    )


def carriers(
    names: Candidates, *, people: Iterable[RegisteredPerson]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return for each role how many people of the register carry each of the names."""
    tally: dict[str, Counter[Pair]] = defaultdict(Counter)
    for person in people:
        tally[person.role][pair_of(person.first, person.last)] += 1
    keys = [pair_of(*name) for name in zip(names.first, names.last, strict=True)]
    return tuple((role, tuple(tally[role][key] for key in keys)) for role in sorted(tally))


def _with_sex(names: Candidates, people: Iterable[RegisteredPerson]) -> Candidates:
    sexes: dict[Pair, set[str]] = defaultdict(set)
    for person in people:
        sexes[pair_of(person.first, person.last)].add(person.sex)
    found = [sexes[pair_of(*name)] for name in zip(names.first, names.last, strict=True)]
    return replace(names, sex=tuple(min(sex) if len(sex) == 1 else "" for sex in found))


def _staff(
    positives: Candidates,
    people: Iterable[RegisteredPerson],
    *,
    found: Mapping[Pair, int],
    accepts: Accepts | None,
    pool: NamePool,
) -> Candidates:
    known = {pair_of(*name) for name in zip(positives.first, positives.last, strict=True)}
    chosen: dict[Pair, RegisteredPerson] = {}
    for person in people:
        key = pair_of(person.first, person.last)
        is_new = person.role == "staff" and key not in known and bool(found.get(key))
        if is_new and (accepts is None or accepts(person.first, person.last)):
            chosen.setdefault(key, person)
    staff = make_candidates(
        [(person.first, person.last) for person in chosen.values()],
        is_member=True,
        n_mentions=[found[key] for key in chosen],
    )
    return with_popularity(replace(staff, role=("staff",) * len(staff)), pool=pool)
