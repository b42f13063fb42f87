"""The auditor's decision on a pair of models, its reasons and signatures, with their full history.

All audits of a pair share one decision. The store holds every state of it beside each of these
audits, the newest last, so that it stays as long as one of them is kept. Each step is also a line
of the access log, written before the state is stored. Torch-free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import Field

from audit.access_log import record
from audit.errors import AuditError, make_version_error
from audit.home import check_change_allowed
from audit.report.audit_store import (
    keep_decision_states,
    read_decision_states,
    read_question,
)
from audit.report.report import KeptAudit
from audit.shelf import make_time_stamp, take_lock
from audit.task import Record
from audit.words import Language
from cache.store import Store

LANGUAGES = get_args(Language)
Recommendation = Literal["release", "release_inside", "retrain", "no_release"]
RECOMMENDATIONS = get_args(Recommendation)
RELEASES: tuple[Recommendation, ...] = ("release", "release_inside")
"""Recommendations that need reasons if an audit of the pair found a leak."""
SignatureRole = Literal["auditor", "officer"]
SIGNATURE_ROLES = get_args(SignatureRole)
MAX_NAME_CHARS = 200
MAX_REASONS_CHARS = 10_000
_UNDECIDED = AuditError("Nothing was decided yet.", where="decision", do="Choose one of the four.")


class Signature(Record):
    """One signature: a typed name or the identity of a login, and the role of the signer."""

    name: str = Field(min_length=1, max_length=MAX_NAME_CHARS)
    role: SignatureRole
    at: str
    is_login: bool = False


class Decision(Record):
    """One state of the decision on a pair; "" as recommendation means undecided.

    `audit` is the digest of the audit that the person saw when deciding. `language` is that of the
    reasons; `by` and `at` say who decided and when.
    """

    audit: str = ""
    recommendation: Recommendation | Literal[""] = ""
    reasons: str = Field(default="", max_length=MAX_REASONS_CHARS)
    language: Language = "en"
    by: str = ""
    at: str = ""
    signatures: tuple[Signature, ...] = ()

    @property
    def is_signed(self) -> bool:
        """Whether the decision counts as signed; once somebody signs by login, two must."""
        logins = {signature.name for signature in self.signatures if signature.is_login}
        return len(logins) > 1 if logins else bool(self.signatures)


def read_decision_history(digests: Sequence[str], *, store: Store) -> tuple[Decision, ...]:
    """Return all states of the decision on the pair of these audits, the newest last.

    Earlier versions kept a decision for each audit by itself; their states are merged by time.
    """
    try:
        records = [
            tuple(map(Decision.model_validate_json, read_decision_states(digest, store=store)))
            for digest in digests
        ]
    except ValueError:
        raise make_version_error(where="decision") from None
    history: list[tuple[str, Decision]] = []
    for states in sorted(records, key=len, reverse=True):
        merged = [decision for _, decision in history]
        history += [dated for dated in _date_states(states) if dated[1] not in merged]
        history.sort(key=lambda dated: dated[0])
    return tuple(decision for _, decision in history)


def _date_states(states: Sequence[Decision]) -> list[tuple[str, Decision]]:
    """Return states with their times; a signature that is withdrawn leaves no time of its own."""
    dated_states, newest = [], ""
    for state in states:
        newest = max(newest, state.at, *(signature.at for signature in state.signatures))
        dated_states.append((newest, state))
    return dated_states


def read_decision(digests: Sequence[str], *, store: Store) -> Decision:
    """Return the current decision on the pair of these audits; undecided if there is none.

    The first audit is the one that the reader sees.
    """
    return (Decision(audit=digests[0]), *read_decision_history(digests, store=store))[-1]


def has_leak(pair: Sequence[KeptAudit]) -> bool:
    """Return whether an audit of a pair found a leak."""
    return any(audit.state == "leak_found" for audit in pair)


def decide(
    decision: Decision,
    *,
    pair: Sequence[KeptAudit],
    recommendation: Recommendation | Literal[""],
    reasons: str,
    language: Language,
    by: str,
    store: Store,
) -> Decision:
    """Decide anew on a pair, all whose audits are given; "" withdraws the decision.

    A change drops the signatures. `decision`, here and below, is the decision as the person saw it.
    If somebody else has changed it since, the step is refused. `pair` begins with the audit that
    the person sees.
    """
    reasons = reasons.strip()
    if (decision.recommendation, decision.reasons) == (recommendation, reasons):
        if not recommendation:
            raise _UNDECIDED
        return decision
    if recommendation in RELEASES and not reasons and has_leak(pair):
        raise AuditError(
            "An audit of this pair found a leak, and a release despite it needs reasons.",
            where="decision",
            do="Write down why the model may be released.",
        )
    new = Decision(
        audit=pair[0].digest,
        recommendation=recommendation,
        reasons=reasons,
        language=language,
        by=by,
        at=make_time_stamp(),
    )
    return _keep(
        new, old=decision, pair=pair, action="decided", person=by, role="auditor", store=store
    )


def sign(
    decision: Decision,
    *,
    pair: Sequence[KeptAudit],
    name: str,
    role: SignatureRole,
    by: str,
    is_login: bool = False,
    store: Store,
) -> Decision:
    """Sign a decision; nobody signs twice.

    `name` is the typed name or the identity of the login; `by` is the person in the access log.
    """
    name = " ".join(name.split())
    if not decision.recommendation:
        raise _UNDECIDED
    if not name:
        raise AuditError("A signature needs a name.", where="decision")
    if name.casefold() in (signature.name.casefold() for signature in decision.signatures):
        raise AuditError("This person has signed already.", where="decision")
    signature = Signature(name=name, role=role, at=make_time_stamp(), is_login=is_login)
    new = decision.with_(signatures=(*decision.signatures, signature))
    return _keep(new, old=decision, pair=pair, action="signed", person=by, role=role, store=store)


def withdraw(
    decision: Decision, *, pair: Sequence[KeptAudit], name: str, by: str, store: Store
) -> Decision:
    """Withdraw the signature of a name."""
    signatures = tuple(signature for signature in decision.signatures if signature.name != name)
    if signatures == decision.signatures:
        raise AuditError("This person has not signed.", where="decision")
    new = decision.with_(signatures=signatures)
    return _keep(
        new, old=decision, pair=pair, action="withdrawn", person=by, role="auditor", store=store
    )


def _keep(
    new: Decision,
    *,
    old: Decision,
    pair: Sequence[KeptAudit],
    action: str,
    person: str,
    role: str,
    store: Store,
) -> Decision:
    """Log a step and store the new decision beside each audit, unless somebody else was faster."""
    check_change_allowed()
    digests = [audit.digest for audit in pair if read_question(audit.digest, store=store)]
    if pair[0].digest not in digests:
        raise AuditError("This audit is not kept here.", where="decision")
    lock = take_lock(store.directory / "decision.lock", waits=True)
    assert lock is not None
    with lock:
        history = read_decision_history(digests, store=store)
        if history[-1:] != ((old,) if history or old.at else ()):
            raise AuditError(
                "Somebody else changed the decision meanwhile.",
                where="decision",
                do="Read it again, then decide or sign.",
            )
        record(
            action,
            who=person,
            audit=pair[0].digest,
            what=new.recommendation or "none",
            role=role,
            n_signatures=len(new.signatures),
        )
        states = [decision.to_bytes().decode("ascii") for decision in (*history, new)]
        for digest in digests:
            keep_decision_states(digest, states, store=store)
    return new
