"""The candidate list of a corpus: the people named in it, and controls that are nowhere in it.

Input: the counts of a corpus. Output: lists of names, and their file; from a kept corpus, the list
and the passages of D_public for an audit. Torch-free.

Source: Nakamura et al., section 3.4. Differs: controls are left out if their full name occurs
anywhere, in either order or with one word between; a further kind is made of two members' parts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from audit.corpus.carriers import NameHolders
from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.examine import ListedNames, PatternTally, People
from audit.corpus.truth import CANDIDATES, PASSAGES, PRIVATE
from audit.errors import AuditError, make_version_error
from audit.names.candidates import (
    SHARED,
    Accepts,
    Candidates,
    ControlSource,
    Name,
    make_candidates,
)
from audit.names.controls import matched_controls, recombined_controls
from audit.names.files import read_names
from audit.names.lists import keep_names, keep_passages
from audit.names.matching import NameIndex, Pair, is_absent, pair_of
from audit.names.pools import NamePool
from audit.rng import generator
from audit.tables import read_table, write_table
from audit.text import fold_name, read_name_cells, written_name
from cache.store import Store

MEMBERS = ("patient", "staff", "canary")
HELD_OUT_CONTROLS = "held_out"
CONTROLS = (HELD_OUT_CONTROLS, *SHARED)
LISTS = (*MEMBERS, *CONTROLS)
"""Lists of `candidates.csv`: names in D_private by role, then controls by kind. Twins of canaries
are in the list "canary"."""
MAX_POSITIVES = 20_000
"""Largest number of patients' names on a list; of more, this many are drawn at random."""

ROLES = ("patient", "canary")
"""Default roles of the members: patients as in the paper, and planted names."""
MAX_PASSAGES = 20_000
"""Largest number of passages for an audit; of more, this many are drawn at random."""

_COLUMNS = ("first", "last", "is_member", "control_kind", "role", "sex", "n_mentions")
_OTHERS = ("n_others_first", "n_others_last")
_HEADER = ("list", "first_name", "last_name", *_COLUMNS[2:], *_OTHERS)
_ELSEWHERE = "is_elsewhere"
"""Column in a corpus with held-out patients: the name is in somebody else's training notes."""


def draw_lists(
    tally: PatternTally,
    *,
    people: People,
    name_counts: Counter[Pair],
    canaries: Candidates,
    held_out: Candidates,
    pool: NamePool,
    accepts: Accepts | None,
    seed: int,
) -> dict[str, Candidates]:
    """Draw the lists of a corpus; no control is a name of anybody in it, or of a canary.

    `tally` counts the patterns of patients; `name_counts` counts full names in D_private;
    `canaries` are planted names and their twins, `held_out` the names of held-out patients; other
    controls are drawn from `pool` if `accepts` accepts them.
    """
    names = draw_names_of_list(tally.names, seed=seed, purpose="corpus/positives")
    positives = replace(
        tally.members(names),
        role=("patient",) * len(names),
        sex=tuple(people.sex_of_name(name) for name in names),
    )
    patient_pairs = {pair_of(*name) for name in names}
    is_accepted = accepts or (lambda *_: True)
    staff_counts = [
        (name, name_counts[pair])
        for pair, name in people.staff.items()
        if name_counts[pair] and pair not in patient_pairs and is_accepted(*name)
    ]
    staff = make_candidates(
        [name for name, _ in staff_counts], is_member=True, n_mentions=[n for _, n in staff_counts]
    )
    staff = replace(staff, role=("staff",) * len(staff))
    used_pairs = {*name_counts, *people.pairs, *patient_pairs}
    for further_names in (canaries, held_out):
        used_pairs.update(map(pair_of, further_names.first, further_names.last))

    def is_free(first: str, last: str) -> bool:
        return is_absent(used_pairs, first, last) and is_accepted(first, last)

    draw_settings: dict[str, Any] = {"n": len(names), "seed": seed, "accepts": is_free}
    return {
        "patient": positives,
        "staff": staff,
        "canary": canaries,
        "held_out": held_out,
        "easy": matched_controls(positives, kind="easy", pool=pool, **draw_settings),
        "hard": matched_controls(positives, kind="hard", pool=pool, **draw_settings),
        "recombined": recombined_controls(positives, **draw_settings),
    }


def held_out_names(
    tally: PatternTally, *, holders: NameHolders, people: People, seed: int
) -> Candidates:
    """Return the names of held-out patients that are in no training note, as controls."""
    names = tuple(name for name in tally.names if not holders.is_held_by_others(pair_of(*name)))
    names = draw_names_of_list(names, seed=seed, purpose="corpus/held out")
    sexes = tuple(people.sex_of_name(name) for name in names)
    return replace(make_candidates(names, is_member=False, control_kind="held_out"), sex=sexes)


def draw_names_of_list(names: tuple[Name, ...], *, seed: int, purpose: str) -> tuple[Name, ...]:
    """Return the names in their order; of too many, a random `MAX_POSITIVES` of them."""
    if len(names) <= MAX_POSITIVES:
        return names
    rows = generator(seed, purpose).permutation(len(names))[:MAX_POSITIVES]
    return tuple(names[row] for row in sorted(rows.tolist()))


def listed_names(lists: Mapping[str, Candidates]) -> tuple[ListedNames, ...]:
    """Return the number of names of each kind and role."""
    counts = Counter(
        kind_and_role
        for name in LISTS
        for kind_and_role in sorted(zip(lists[name].control_kind, lists[name].role, strict=True))
    )
    return tuple(ListedNames(control_kind=k, role=r, n=n) for (k, r), n in counts.items())


def candidates_csv(
    lists: Mapping[str, Candidates], *, names_elsewhere: Collection[Pair] | None = None
) -> bytes:
    """Return all lists as one CSV file; a name may be in two lists of controls.

    `names_elsewhere` are the patients' names that are also in somebody else's training notes; None
    if nobody is held out.
    """
    columns = (*_COLUMNS, *_OTHERS)
    rows = [
        (name, *cells)
        for name in LISTS
        for cells in zip(*(getattr(lists[name], column) for column in columns), strict=True)
    ]
    if names_elsewhere is None:
        return write_table(_HEADER, rows).encode()
    marked = ((*row, row[0] == "patient" and pair_of(*row[1:3]) in names_elsewhere) for row in rows)
    return write_table((*_HEADER, _ELSEWHERE), marked).encode()


def default_controls(corpus: KeptCorpus) -> tuple[str, ...]:
    """Return the lists of controls that are used by default.

    These are held-out people if there are any, because only they make an exact test.
    """
    return (HELD_OUT_CONTROLS,) if corpus.n_held_out else ("easy", "hard")


def read_list(
    corpus: KeptCorpus,
    *,
    controls: tuple[str, ...] | None = None,
    roles: tuple[str, ...] = ROLES,
) -> Candidates:
    """Return the list L of a corpus (section 3.4); a name in two lists is listed once.

    `controls` are any of `CONTROLS`, None for the default; `roles` are any of `MEMBERS`, the roles
    of the members. Twins are included with the canaries. With held-out controls, members whose name
    is in somebody else's training notes are left out, as such controls are.
    """
    controls = default_controls(corpus) if controls is None else controls
    chosen_lists = {*controls, *roles}
    if not chosen_lists <= {*LISTS}:
        raise AuditError("There is no such list.", where="candidates")
    is_held_out = HELD_OUT_CONTROLS in controls
    if is_held_out and not corpus.n_held_out:
        raise AuditError(
            "Nobody was held out of this corpus.",
            where="candidates",
            do="Build it again with --hold-out, or choose other controls.",
        )
    table = read_table(_file_bytes(corpus, CANDIDATES), subject="candidates")
    has_elsewhere_column = table.header == (*_HEADER, _ELSEWHERE)
    if table.header != _HEADER and not has_elsewhere_column:
        raise make_version_error(where="candidates")
    # Two splits of one full name (林田+一, 林+田一) are one name; members come before controls.
    rows: dict[str, Sequence[str]] = {}
    for cells in table.rows:
        is_dropped = is_held_out and has_elsewhere_column and cells[-1] == "1"
        if cells[0] in chosen_lists and not is_dropped:
            rows.setdefault(fold_name(written_name(*cells[1:3])), cells)
    if not any(cells[3] == "1" for cells in rows.values()):
        raise AuditError(
            "No patient is named in these notes in a way that was understood.",
            where="candidates",
            do="Look at the examination of the corpus: names that occur elsewhere are counted.",
        )
    listed = read_names(write_table(table.header, rows.values()).encode(), subject="candidates")
    source: ControlSource = "invented" if corpus.kind == "dummy" else "drawn"
    # The row numbers are those of the corpus's file, not of a file of the auditor.
    return replace(listed.candidates, row=()).with_source("held_out" if is_held_out else source)


def count_control_mentions(corpus: KeptCorpus, candidates: Candidates) -> dict[int, int]:
    """Return how often each control's full name occurs in D_private, by its row on the list."""
    controls = {
        row: pair_of(candidates.first[row], candidates.last[row])
        for row, is_member in enumerate(candidates.is_member)
        if is_member is False and len(candidates.parts(row)) > 1
    }
    names = candidates.rows([*controls])
    index, control_pairs = NameIndex(firsts=names.first, lasts=names.last), {*controls.values()}
    counts: Counter[Pair] = Counter()
    with CORPORA.reading(), (corpus.path / PRIVATE).open("rb") as lines:
        for line in lines:
            pairs = index.find_pairs(str(json.loads(line)["text"]))
            counts.update(filter(control_pairs.__contains__, pairs))
    return {row: counts[pair] for row, pair in controls.items() if counts[pair]}


def select_passages(corpus: KeptCorpus, candidates: Candidates) -> bytes:
    """Return the passages of D_public that belong to members of a list, as JSONL."""
    columns = zip(candidates.first, candidates.last, candidates.is_member, strict=True)
    members = {pair_of(first, last) for first, last, is_member in columns if is_member}
    lines = []
    for line in _file_bytes(corpus, PASSAGES).splitlines(keepends=True):
        record = json.loads(line)
        owner = read_name_cells(record["first_name"], record["last_name"])
        if pair_of(owner.first, owner.last) in members:
            lines.append(line)
    if len(lines) > MAX_PASSAGES:
        rows = generator(corpus.seed, "corpus/passages").permutation(len(lines))[:MAX_PASSAGES]
        lines = [lines[row] for row in sorted(rows.tolist())]
    return b"".join(lines)


def keep_lists(
    corpus: KeptCorpus,
    *,
    controls: tuple[str, ...] | None = None,
    roles: tuple[str, ...] = ROLES,
    store: Store,
) -> tuple[str, str]:
    """Keep the list and passages of a corpus in the store for an audit; return their codes."""
    candidates = read_list(corpus, controls=controls, roles=roles)
    passages = select_passages(corpus, candidates)
    label = corpus.title or corpus.source
    if controls not in (None, default_controls(corpus)):
        label += f" ({', '.join(controls or ())})"
    names = keep_names(candidates, label=label, store=store)
    if not passages:
        return names[:12], ""
    passages_digest = keep_passages(passages, file_name="passages.jsonl", label=label, store=store)
    return names[:12], passages_digest[:12]


def _file_bytes(corpus: KeptCorpus, name: str) -> bytes:
    with CORPORA.reading():
        return (corpus.path / name).read_bytes()
