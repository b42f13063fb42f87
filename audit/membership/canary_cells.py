"""What a list of names says of canaries, row by row: checked, and made to fit each other."""

from __future__ import annotations

from audit.errors import AuditError
from audit.membership.candidates import CANARY
from audit.names import fold_name


def canary_cells(
    is_member: bool | None,
    *,
    role: str,
    control_kind: str,
    n_mentions: int | None,
    where: str,
) -> tuple[str, str]:
    """Return role and kind of control of one row; of names that are no canaries as they are.

    A canary is known by its role or by its kind of control; either may be left out of the file.

    Raises
    ------
    AuditError
        If a canary was neither planted nor held out, or a planted one has no number of mentions.
    """
    if CANARY not in (fold_name(role), control_kind):
        return role, control_kind
    if is_member is None:
        raise AuditError(
            "The canary does not say whether it was planted.", where=where,
            do="Set is_member to 1 (planted) or 0 (held out).",
        )  # fmt: skip
    if is_member and not n_mentions:
        raise AuditError(
            "The planted canary does not say how often it was planted.", where=where,
            do="Write the number into the column n_mentions.",
        )  # fmt: skip
    if control_kind not in ("", CANARY):
        raise AuditError(
            "The held-out canary has another control_kind.", where=where,
            do="Write canary, or nothing.",
        )  # fmt: skip
    return CANARY, "" if is_member else CANARY
