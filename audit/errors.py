"""The one error that is shown to a person."""

from __future__ import annotations


class AuditError(Exception):
    """Wrong input from a person: what is wrong, where (file, row, setting; may be ""), what to do.

    Each is one sentence. The text is shown as it is, on the command line and on the pages. It never
    holds a patient's name or the text of a note: rows are given by number, models by folder.
    """

    def __init__(self, what: str, *, where: str = "", do: str = "") -> None:
        self.what = what
        self.where = where
        self.do = do
        super().__init__(
            " ".join(part for part in (f"{where}: {what}" if where else what, do) if part)
        )


class AuditCancelled(Exception):
    """The person asked to stop; everything finished so far is kept."""
