"""A list of names as a CSV file for the command line: read again it is exactly the same list."""

from __future__ import annotations

from collections.abc import Sequence

from audit.membership.candidates import Candidates
from audit.tables import write_table

# White space that no spreadsheet drops and that reading names strips: the cell is no formula, and
# the name comes back as it was.
_GUARD = "\N{NO-BREAK SPACE}"
_FORMULA_STARTS = tuple("=+-@\0＝＋－＠")


def names_file(candidates: Candidates) -> bytes:
    """Return a list as a CSV file (UTF-8 with a byte order mark).

    A cell that begins like a formula gets a no-break space before it: no spreadsheet computes it,
    and `read_names` strips it. Rows of the auditor's own file and guessed kinds go along where
    they are not those that reading this file would give.
    """
    more: dict[str, Sequence[object]] = {}
    if candidates.has_own_rows:
        more["file_row"] = candidates.row
    if any(candidates.is_kind_guessed):
        more["kind_guessed"] = candidates.is_kind_guessed
    rows = [
        (
            _guarded(candidates.first[i]),
            _guarded(candidates.last[i]),
            candidates.is_member[i],
            candidates.control_kind[i],
            _guarded(candidates.role[i]),
            _guarded(candidates.sex[i]),
            candidates.n_mentions[i],
            *(column[i] for column in more.values()),
        )
        for i in range(len(candidates))
    ]
    header = (
        "first_name", "last_name", "is_member", "control_kind", "role", "sex", "n_mentions", *more,
    )  # fmt: skip
    return write_table(header, rows, bom=True).encode("utf-8", "surrogatepass")


def _guarded(cell: str) -> str:
    return _GUARD + cell if cell.startswith(_FORMULA_STARTS) else cell
