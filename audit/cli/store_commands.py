"""Commands of what is kept: access log, login, backup, periods and purge."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from audit import access_log
from audit.backup import back_up
from audit.backup import restore as put_back
from audit.cli.commands import Dependence, FieldsOf, Options, Result, command, has
from audit.errors import AuditError
from audit.home import (
    SECRETS,
    data_home,
    forget_login,
    had_login,
    is_open_to_others,
)
from audit.progress import say
from audit.retention import KINDS, Periods, periods, set_periods
from audit.retention import purge as purge_kinds

_REASONS = {
    "changed": "The line was changed, or is no line of this log.",
    "order": "The line does not follow the one before it: one is missing, moved, or added.",
    "unfinished": "The line was never finished; the next that is written takes its place.",
    "missing": "Lines at the end are missing.",
    "head": "The head, which says how many lines there are, is missing or does not fit.",
    "seal": "It does not hold what the seal says it held: it was put back to an older state, or "
    "written anew.",
    "elsewhere": "The seal is of another machine's log: it can be checked there only.",
}


@command(
    Dependence({"limit", "audit"}, has("what", "show"), needs="show"),
    Dependence({"seal"}, has("what", "verify"), needs="verify"),
)
def log(
    what: Annotated[Literal["verify", "show"], "check the log, or show its lines"],
    *,
    limit: Annotated[int, "`show`: number of lines, the newest"] = 50,
    audit: Annotated[str, "only lines of this audit: digits of its digest"] = "",
    seal: Annotated[
        str, "`verify`: seal of a report; the log must still hold what it held then"
    ] = "",
) -> Result:
    """Say whether the access log is whole (exit code 1 where it is not), or show its lines."""
    if what == "show":
        entries = access_log.entries(limit, audit=audit)
        return {"entries": [e.model_dump(exclude={"previous", "mac"}) for e in entries]}
    result = access_log.verify(seal)
    seal_now = access_log.log_seal() if result.is_intact else ""
    why = _REASONS.get(result.reason, "")
    say(f"The access log is {'whole' if result.is_intact else 'NOT whole'}. {why}")
    return asdict(result) | {"seal": seal_now, "exit_code": int(not result.is_intact)}


@command(
    Dependence({"yes"}, has("what", "drop"), needs="drop"),
)
def login(
    what: Annotated[Literal["show", "drop"], "say how it is, or give the login up"],
    *,
    yes: Annotated[
        bool, "`drop`: everybody who reaches the app's port shall be an auditor"
    ] = False,
) -> Result:
    """Say whether the app serves this data directory with a login only, or give that up."""
    if what == "drop":
        if not yes:
            raise AuditError(
                "Without a login everybody who reaches the app's port is an auditor.",
                where="login",
                do="Give --yes if this is wanted; it is written into the access log.",
            )
        access_log.record("login_dropped")
        forget_login()
    path = data_home() / SECRETS
    mode = f"{path.stat().st_mode & 0o777:o}" if path.exists() else ""
    if mode and is_open_to_others(path):
        say(f"{path}: other accounts can read it. Close it: chmod 600 {path}")
    return {"needs_login": had_login(), "secrets": str(path) if mode else "", "mode": mode}


@command()
def backup(out: Annotated[Path, "a new file; it holds keys, names and notes"]) -> Result:
    """Write all that is kept into one file, while the app runs."""
    return {"n_files": back_up(out), "file": str(out)}


@command()
def restore(
    file: Annotated[Path, "file that `backup` wrote"],
    *,
    force: Annotated[bool, "move a data directory that is not empty aside"] = False,
) -> Result:
    """Put a backup in the place of the data directory, once every file of it is checked."""
    n_files, old = put_back(file, is_forced=force)
    return {"n_files": n_files, "before": str(old or "")}


@command()
def retention(*, options: Annotated[Options, FieldsOf(Periods)]) -> Result:
    """Show or set how many days each kind of kept thing stays (0: until somebody removes it)."""
    return {"days": (set_periods(**options) if options else periods()).plain()}


@command()
def purge(
    *,
    kind: Annotated[str, f"one of {', '.join(KINDS)}"] = "",
    older_than: Annotated[int | None, "days, instead of the set periods"] = None,
    dry_run: Annotated[bool, "only say what would be removed"] = False,
) -> Result:
    """Remove what is past its period; what is in use, or rested on, and the demo stay."""
    if kind and kind not in KINDS:
        raise AuditError("must be {expected}.", where="--kind", expected=" / ".join(KINDS))
    if older_than is not None and older_than < 0:
        raise AuditError("must be at least {ge}.", where="--older-than", ge=0)
    days = periods().plain() if older_than is None else dict.fromkeys(KINDS, older_than)
    is_set = older_than is not None
    due = {thing: n for thing, n in days.items() if kind in ("", thing) and (n or is_set)}
    if not due:
        say("No period is set: `python -m audit retention` sets one, or give --older-than.")
    return {"purged": [asdict(purged) for purged in purge_kinds(due, is_dry=dry_run)]}
