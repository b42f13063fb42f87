"""Typed names: lines that somebody wrote into a box, added to a list as a file's rows are.

Comes in: text, one name a line. Goes out: candidates and notes by line number. Torch-free.
"""

from __future__ import annotations

from dataclasses import replace

from audit.errors import AuditError
from audit.membership.candidates import Candidates, make_candidates, with_kinds
from audit.membership.controls import without_popularity
from audit.names import MAX_NAME_CHARS, fold_name, split_name, written_name
from audit.tables import RowNote

MAX_TYPED_CHARS = 200_000


def with_typed(
    given: Candidates | None, *, text: str, is_member: bool | None
) -> tuple[Candidates | None, tuple[RowNote, ...]]:
    """Return a list with typed names after it, and what a reader should know of the lines.

    Parameters
    ----------
    given
        The list so far; None: none.
    text
        One name a line: "First Last", "Last, First" or "姓 名"; empty lines are skipped.
    is_member
        Truth of the typed names; None: unknown.

    Raises
    ------
    AuditError
        If the text or a name is too long, or a name is there already with another truth.
    """
    if len(text) > MAX_TYPED_CHARS:
        raise AuditError(
            f"is longer than {MAX_TYPED_CHARS:,} characters.", where="typed names",
            do="Upload a file instead.",
        )  # fmt: skip
    truth_of: dict[str, bool | None] = {}
    if given is not None:
        truth_of = {fold_name(given.full_name(i)): given.is_member[i] for i in range(len(given))}
    names: list[tuple[str, str]] = []
    notes: list[RowNote] = []
    for number, line in enumerate(text.splitlines(), start=1):
        first, last = split_name(line)
        if not first and not last:
            continue
        key = fold_name(written_name(first, last))
        _check(first, last, truth_of.get(key, is_member) is is_member, number=number)
        if key in truth_of:
            notes.append(RowNote(number, "The name is on the list already; left out."))
            continue
        truth_of[key] = is_member
        if not first or not last:
            notes.append(RowNote(number, "The name has one part only or could not be split."))
        names.append((first, last))
    if not names:
        return given, tuple(notes)
    is_control = is_member is False
    typed = make_candidates(names, is_member=is_member, control_kind="given" if is_control else "")
    typed = replace(typed, is_kind_guessed=(is_control,) * len(names))
    joined = typed if given is None else without_popularity(given) + typed
    return with_kinds(joined, has_new_members=is_member is True), tuple(notes)


def _check(first: str, last: str, has_same_truth: bool, *, number: int) -> None:
    where = f"typed names, line {number}"
    if max(len(first), len(last)) > MAX_NAME_CHARS:
        raise AuditError(f"The name is longer than {MAX_NAME_CHARS} characters.", where=where)
    if not has_same_truth:
        raise AuditError(
            "The name is on the list with another truth.", where=where,
            do="Take it out here, or correct the file.",
        )  # fmt: skip
