"""The auditor's decision on an audit, its reasons and signatures, with their full history.

The store holds every state of the decision, the newest last. Each step is also a line of the access
log, written before the state is stored. Torch-free.
"""

from __future__ import annotations

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
from audit.shelf import make_time_stamp, take_lock
from audit.task import Record
from audit.words import Language
from cache.store import Store

LANGUAGES = get_args(Language)
Recommendation = Literal["release", "release_inside", "retrain", "no_release"]
RECOMMENDATIONS = get_args(Recommendation)
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
    """One state of the decision on an audit (a digest); "" as recommendation means undecided.

    `language` is that of the reasons; `by` and `at` say who decided and when.
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


def read_decision_history(digest: str, *, store: Store) -> tuple[Decision, ...]:
    """Return all states of the decision on an audit, the newest last; () if there is none."""
    states = read_decision_states(digest, store=store)
    try:
        return tuple(map(Decision.model_validate_json, states))
    except ValueError:
        raise make_version_error(where="decision") from None


def read_decision(digest: str, *, store: Store) -> Decision:
    """Return the current decision on an audit; without a recommendation if there is none."""
    return (Decision(audit=digest), *read_decision_history(digest, store=store))[-1]


def decide(
    decision: Decision,
    *,
    recommendation: Recommendation | Literal[""],
    reasons: str,
    language: Language,
    by: str,
    store: Store,
) -> Decision:
    """Decide anew; "" withdraws the decision. A change drops the signatures.

    `decision`, here and below, is the decision as the person saw it. If somebody else has changed
    it since, the step is refused.
    """
    reasons = reasons.strip()
    if (decision.recommendation, decision.reasons) == (recommendation, reasons):
        if not recommendation:
            raise _UNDECIDED
        return decision
    new = Decision(
        audit=decision.audit,
        recommendation=recommendation,
        reasons=reasons,
        language=language,
        by=by,
        at=make_time_stamp(),
    )
    return _keep(new, old=decision, action="decided", person=by, role="auditor", store=store)


def sign(
    decision: Decision,
    *,
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
    return _keep(new, old=decision, action="signed", person=by, role=role, store=store)


def withdraw(decision: Decision, *, name: str, by: str, store: Store) -> Decision:
    """Withdraw the signature of a name."""
    signatures = tuple(signature for signature in decision.signatures if signature.name != name)
    if signatures == decision.signatures:
        raise AuditError("This person has not signed.", where="decision")
    new = decision.with_(signatures=signatures)
    return _keep(new, old=decision, action="withdrawn", person=by, role="auditor", store=store)


def _keep(
    new: Decision, *, old: Decision, action: str, person: str, role: str, store: Store
) -> Decision:
    """Log a step and store the new decision, unless somebody else was faster."""
    check_change_allowed()
    if not read_question(new.audit, store=store):
        raise AuditError("This audit is not kept here.", where="decision")
    lock = take_lock(store.directory / "decision.lock", waits=True)
    assert lock is not None
    with lock:
        history = read_decision_history(new.audit, store=store)
        if history[-1:] != ((old,) if history or old.at else ()):
            raise AuditError(
                "Somebody else changed the decision meanwhile.",
                where="decision",
                do="Read it again, then decide or sign.",
            )
        record(
            action,
            who=person,
            audit=new.audit,
            what=new.recommendation or "none",
            role=role,
            n_signatures=len(new.signatures),
        )
        states = [decision.to_bytes().decode("ascii") for decision in (*history, new)]
        keep_decision_states(new.audit, states, store=store)
    return new
