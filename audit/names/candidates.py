"""Candidates: the list L of names whose membership an attacker tests, and its controls.

Input: rows from a file (`files.py`) or from a generator (`controls.py`). Output: one frozen table.
This file depends on no model and no file format.

Source: Nakamura et al., section 3.4.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Literal, get_args

from audit.shelf import digest_json
from audit.text import fold_letters, fold_name, is_unspaced, written_name

Name = tuple[str, str]
"""(first, last)."""
Accepts = Callable[[str, str], bool]
"""Whether a (first, last) is acceptable, for example because both are single word pieces."""
CONTROL_KINDS = (
    "given",
    "held_out",
    "own",
    "easy",
    "hard",
    "recombined",
    "reference",
    "canary",
)
"""Kinds of controls. "given": the name came with the list, which says nothing more of it.
"held_out" and "own": people of the hospital, as in `ControlSource`. "canary": the held-out twin of
a planted name, compared with planted names only."""
PEOPLE = ("given", "held_out", "own")
"""Kinds of controls that no generator drew."""

ControlSource = Literal["held_out", "own", "invented", "drawn"]
"""Where a list's controls come from. `held_out`: patients drawn at random before training, whose
notes were kept out of it. `own`: people of the same hospital who are in none of the training notes.
`invented`: the names in the notes were made by the name generator, and so were the controls.
`drawn`: the generator's names beside real notes, or not stated."""
CONTROL_SOURCES: tuple[ControlSource, ...] = get_args(ControlSource)
OF_HOSPITAL = ("held_out", "own")
"""Sources whose listed controls are people of the hospital's own population."""


def sources_of(*, has_people: bool) -> tuple[ControlSource, ...]:
    """Return the possible sources of a list's controls, with or without people among them."""
    return tuple(source for source in CONTROL_SOURCES if has_people or source not in OF_HOSPITAL)


CHOSEN_KINDS = ("hard", "recombined")
"""Kinds of controls that were chosen because they share a part with a member."""

SHARED = ("easy", "hard", "recombined")
"""Kinds of controls, in the order of how many of their parts are members' (0, 1, 2)."""

CANARY = "canary"
"""Role of names that never existed: members that were planted, and their held-out twins."""


_OTHERS = ("n_others_first", "n_others_last")


@dataclass(frozen=True)
class Candidates:
    """N names, in columns. `name_id` is the position of a row, 0 to N-1.

    Attributes
    ----------
    first, last
        Given and family name as written; one of them may be empty (a name that cannot be split).
    is_member
        True: in the notes. False: a control, not in the notes. None: unknown (a normal case).
    control_kind
        For controls one of `CONTROL_KINDS`; "" for all others.
    role, sex
        "patient", "staff" or any word of the auditor; "" if not given. Members with the role
        "canary" were planted `n_mentions` times; the i-th of them pairs with the i-th control of
        the kind "canary".
    n_mentions
        How often the name occurs in the notes; None if not known.
    row
        The name's row in the auditor's own file, counted as in a spreadsheet; None if the name was
        drawn or taken from a corpus.
    is_kind_guessed
        True if the list does not state the control's kind: it is then derived from the members on
        the list, and is "given" if there are none.
    control_source
        Where the list's controls come from (`ControlSource`), the same in all rows; "": not stated.
    n_others_first, n_others_last
        How many notes name somebody else, staff or an unlisted person, with the same first or last
        part; None if not known.
    is_recased
        Whether the name was in capitals or small letters only and is in usual letter case here.
    """

    first: tuple[str, ...]
    last: tuple[str, ...]
    is_member: tuple[bool | None, ...]
    control_kind: tuple[str, ...]
    role: tuple[str, ...]
    sex: tuple[str, ...]
    n_mentions: tuple[int | None, ...]
    row: tuple[int | None, ...] = ()
    is_kind_guessed: tuple[bool, ...] = ()
    is_recased: tuple[bool, ...] = ()
    control_source: tuple[str, ...] = ()
    n_others_first: tuple[int | None, ...] = ()
    n_others_last: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        """Check the columns against each other, once."""
        unknowns = {
            "row": None,
            "is_kind_guessed": False,
            "is_recased": False,
            "control_source": "",
        }
        unknowns |= dict.fromkeys(_OTHERS)
        for name, unknown in unknowns.items():
            if not getattr(self, name):
                object.__setattr__(self, name, (unknown,) * len(self))
        for row, cells in enumerate(zip(*vars(self).values(), strict=True)):
            first, last, is_member, kind, _, _, n_mentions, *_ = cells
            is_right = (
                (first or last)
                and kind in ("", *CONTROL_KINDS)
                and bool(kind) == (is_member is False)
                # A numpy bool is not True: every test `is True` would take it for "unknown".
                and isinstance(is_member, bool | None)
                and (n_mentions or 0) >= 0
            )
            if not is_right:
                raise ValueError(f"row {row}: the columns do not fit each other")

    def __len__(self) -> int:
        return len(self.first)

    def is_canary(self, row: int) -> bool:
        """Whether the name was planted or is a held-out twin, and so is no patient's."""
        kind, role = self.control_kind[row], self.role[row]
        return is_canary(self.is_member[row], control_kind=kind, role=role)

    def without_canaries(self) -> Candidates:
        """Return the same list without planted and held-out names."""
        return self.rows([row for row in range(len(self)) if not self.is_canary(row)])

    def digest(self) -> str:
        """Return the SHA-256 of the list's content.

        A column is left out if it adds nothing: rows that only number the names, kinds that the
        list states itself, letter case that was right.
        """
        is_in_digest = {
            "row": self.has_own_rows,
            "is_kind_guessed": any(self.is_kind_guessed),
            "is_recased": any(self.is_recased),
        }
        is_in_digest |= {name: any(n is not None for n in getattr(self, name)) for name in _OTHERS}
        is_in_digest["control_source"] = bool(self.source)
        columns = {
            name: column for name, column in vars(self).items() if is_in_digest.get(name, True)
        }
        columns["popularity"] = (math.nan,) * len(self)  # lists had this column once
        return digest_json(columns)

    @property
    def source(self) -> ControlSource | Literal[""]:
        """Where the list's controls come from; "" if the list does not state it."""
        stated = {source for source in self.control_source if source}
        return next((source for source in CONTROL_SOURCES if stated == {source}), "")

    def with_source(self, source: ControlSource) -> Candidates:
        """Return the list with another control source."""
        return replace(self, control_source=(source,) * len(self))

    def n_others(self, row: int) -> tuple[int | None, int | None]:
        """Return how many notes name somebody else with the same first, and the same last part."""
        return self.n_others_first[row], self.n_others_last[row]

    @property
    def is_person(self) -> tuple[bool, ...]:
        """Whether each name is a control that no generator drew."""
        kinds = zip(self.is_member, self.control_kind, self.is_kind_guessed, strict=True)
        return tuple(
            is_member is False and (is_guessed or kind in PEOPLE)
            for is_member, kind, is_guessed in kinds
        )

    @property
    def possible_sources(self) -> tuple[ControlSource, ...]:
        """Where the controls can come from: people of the hospital only if some are listed."""
        return sources_of(has_people=any(self.is_person))

    @property
    def has_own_rows(self) -> bool:
        """Whether the rows of the auditor's file add something to the order of the names."""
        is_in_order = all(row == place for place, row in enumerate(self.row, start=2))
        return not is_in_order and any(row is not None for row in self.row)

    @property
    def has_truth(self) -> bool:
        """Whether there are both members and controls among the rows."""
        return {True, False} <= {*self.is_member}

    def parts(self, row: int) -> tuple[tuple[str, str], ...]:
        """Return the name's parts as (role, text), in the order in which they are written.

        Western names: first, last. Names in Han or kana: last, first.
        """
        ordered = [("first", self.first[row]), ("last", self.last[row])]
        return tuple(part for part in ordered[:: 1 if self.separator(row) else -1] if part[1])

    def separator(self, row: int) -> str:
        """Return the separator of the parts in running text: a space, or nothing."""
        return "" if is_unspaced(self.first[row] + self.last[row]) else " "

    def full_name(self, row: int) -> str:
        """Return the name as it is written in running text."""
        return written_name(self.first[row], self.last[row])

    def rows(self, indices: Sequence[int]) -> Candidates:
        """Return the given rows, in the given order."""
        return Candidates(*(tuple(column[i] for i in indices) for column in vars(self).values()))

    def __add__(self, other: Candidates) -> Candidates:
        return Candidates(*map(add, vars(self).values(), vars(other).values()))


def make_candidates(
    names: Sequence[tuple[str, str]],
    *,
    is_member: bool | None = None,
    control_kind: str = "",
    n_mentions: Sequence[int | None] | None = None,
) -> Candidates:
    """Build candidates of one kind from (first, last) pairs."""
    n = len(names)
    return Candidates(
        first=tuple(first for first, _ in names),
        last=tuple(last for _, last in names),
        is_member=(is_member,) * n,
        control_kind=(control_kind,) * n,
        role=("",) * n,
        sex=("",) * n,
        n_mentions=(None,) * n if n_mentions is None else tuple(n_mentions),
    )


def is_canary(is_member: bool | int | None, *, control_kind: str, role: str) -> bool:
    """Whether a name was planted (a member of this role) or is a held-out twin (of this kind)."""
    return control_kind == CANARY or (bool(is_member) and fold_name(role) == CANARY)


def member_parts(candidates: Candidates) -> frozenset[str]:
    """Return every part of every member's name, first and last alike, folded by `fold_letters`.

    Planted names do not count as members: a control is easy or hard against patients. 106 of the US
    generator's names are both first and last names, so parts are compared across roles (section
    3.4).
    """
    return frozenset(
        fold_letters(text)
        for row, is_member in enumerate(candidates.is_member)
        if is_member and not candidates.is_canary(row)
        for _, text in candidates.parts(row)
    )


GUESSED_KINDS = (
    "The list does not say the kind of {n} controls. It was worked out, once, from the members on "
    "the list: {easy} easy, {hard} hard, {recombined} recombined. Beside other members the same "
    "name can be of another kind; a column control_kind in the list decides it."
)
"""What a reader must know about a list with guessed kinds; `guessed_kinds` has its numbers."""


def guessed_kinds(candidates: Candidates) -> dict[str, int]:
    """Return the numbers of `GUESSED_KINDS`; empty if no kind was guessed."""
    pairs = zip(candidates.control_kind, candidates.is_kind_guessed, strict=True)
    counts = Counter(kind for kind, is_guessed in pairs if is_guessed and kind in SHARED)
    return {"n": counts.total(), **{kind: counts[kind] for kind in SHARED}} if counts else {}


def with_kinds(candidates: Candidates) -> Candidates:
    """Return the list with the kinds that it does not state derived from its members."""
    parts = member_parts(candidates)
    names = zip(candidates.first, candidates.last, strict=True)
    kinds = tuple(
        control_kind_against(parts, first=first, last=last) if parts and is_guessed else kind
        for (first, last), kind, is_guessed in zip(
            names, candidates.control_kind, candidates.is_kind_guessed, strict=True
        )
    )
    return replace(candidates, control_kind=kinds)


def control_kind_against(parts: frozenset[str], *, first: str, last: str) -> str:
    """Return the kind of a control against the members' parts (section 3.4).

    "easy": neither part is a member's; "hard": exactly one is; "recombined": both are (the caller
    ensures that they never stand together).
    """
    n_shared = sum(bool(part) and fold_letters(part) in parts for part in (first, last))
    return SHARED[n_shared]
