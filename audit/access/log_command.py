"""The command `python -m audit log verify|show`: is the access log whole, and what does it say?"""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from audit.access.chain import LogEntry
from audit.access.log import entries, log_seal, verify

_REASONS = {
    "changed": "it was changed, or is no line of this log",
    "order": "it does not follow the line before it: a line is missing, moved, or added",
    "unfinished": "it was never finished; the next line that is written takes its place",
    "missing": "Lines at the end are missing.",
    "head": "The head, which says how many lines there are, is missing or does not fit.",
    "seal": "It does not hold what the seal says it held: it was put back to an older state, or "
    "written anew.",
}


def log_command(options: Namespace) -> dict[str, Any]:
    """Say whether the log is whole (`what` is "verify"), or show its newest lines ("show").

    `options` has `what`, for "show" `limit` and `audit` (digits of an audit, or ""), for "verify"
    `seal` (of a report, or ""). The result's `exit_code` is 1 where the log is not whole.

    Raises
    ------
    AuditError
        If the log cannot be read, or the seal is none.
    """
    if options.what == "show":
        found = entries(options.limit, audit=options.audit or "")
        for entry in reversed(found):
            _say(_line(entry))
        return {"entries": [{**asdict(e), "counts": dict(e.counts)} for e in found]}
    result = verify(options.seal or "")
    now = log_seal() if result.is_intact else ""
    if result.is_intact:
        _say(f"The access log is whole: {result.n_lines} lines.")
        _say("It holds what the seal says." if options.seal else f"Its seal: {now}")
    elif result.first_bad_line is None:
        _say(f"The access log is NOT whole. {_REASONS[result.reason]}")
    else:
        _say(
            f"The access log is NOT whole: line {result.first_bad_line} does not fit; "
            f"{_REASONS[result.reason]}."
        )
    return {**asdict(result), "seal": now, "exit_code": 0 if result.is_intact else 1}


def _line(entry: LogEntry) -> str:
    counts = " ".join(f"{key}={value}" for key, value in entry.counts)
    parts = (str(entry.number), entry.at, entry.who, entry.action, entry.audit or "-", counts)
    return "  ".join(part for part in parts if part)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
