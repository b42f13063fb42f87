"""A job: one long piece of work, in which state it is, how far it has come and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

ACTIVE = ("queued", "running")
ENDED = ("done", "failed", "cancelled", "interrupted")
RESUMABLE = ("failed", "cancelled", "interrupted")
WORKER, COMMAND = "worker", "cli"
"""Who runs a job: the device's worker, or the command that asked."""
LOADING, FINISHING = "loading", "finishing"
STAGES = {
    "corpus": (
        "drawing a sample of the notes", "finding registered patients",
        "reading who the notes are about",
        "building the corpus", "looking for names", "examining the corpus", "drawing candidates",
    ),
    "pretrain": ("tokenizing the notes", "training"),
    "experiment": (),
    "leakage": (),
    "tagger": ("training the tagger", "measuring the tagger", "tuning the model"),
    "tagging": ("tagging the notes",),
    "score": (
        "reading the gold notes", "tagging the notes", "comparing the spans", "drawing intervals",
    ),
}  # fmt: skip
"""Kind of job -> its phases that have words of their own on a screen."""

Setting = int | float | str | bool


@dataclass(frozen=True)
class Wait:
    """What a job waits for.

    Attributes
    ----------
    first
        The job that runs, or runs next.
    n_more
        How many more come before it.
    seconds
        About how long all of them take from now; None where nothing can be said.
    is_all
        Whether the seconds are those of all of them, not of some.
    """

    first: Job
    n_more: int
    seconds: float | None
    is_all: bool


@dataclass(frozen=True)
class Failure:
    """Why a job failed, in the words of an `AuditError`, and what may help.

    Attributes
    ----------
    what, where, do
        As in `AuditError`.
    settings
        (setting, value) with which another try may go well; that is a new question.
    """

    what: str
    where: str = ""
    do: str = ""
    settings: tuple[tuple[str, Setting], ...] = ()


@dataclass(frozen=True)
class Job:
    """One line of the table of jobs.

    Attributes
    ----------
    job_id
        12 random hexadecimal digits.
    kind
        What is done: one of `KINDS` of `audit/jobs/kinds.py`.
    label
        Which models or notes; no person's name.
    scenario
        1 or 2; 0 where there is none or there are several.
    device
        The queue it stands in: "cpu", "cuda", or "short" beside them.
    question
        Digest of the question; two active jobs never have the same.
    state
        One of `ACTIVE` or `ENDED`.
    phase
        What is being done, as the engine calls it.
    share
        Share done, 0-1.
    seconds_left
        None where nothing can be said yet.
    created, started, finished, updated
        ISO time stamps in UTC; "" where there is none.
    n_attempts
        How often it was started.
    is_cancel_wanted
        Whether somebody asked to stop it.
    runner
        `WORKER` or `COMMAND`.
    failure
        Why it failed; None where it did not.
    result
        Digests of the audits that came of it; of a corpus or a training its identifier.
    owner
        Who asked, as the screen knows them.
    part
        (setting, value) of the question that its finished shards answer already; empty: none.
    n_before
        Jobs on the same device that come first; 0 unless it waits.
    """

    job_id: str
    kind: str
    label: str
    scenario: int
    device: str
    question: str
    state: str
    phase: str
    share: float
    seconds_left: float | None
    created: str
    started: str
    finished: str
    updated: str
    n_attempts: int
    is_cancel_wanted: bool
    runner: str
    failure: Failure | None
    result: tuple[str, ...]
    owner: str
    part: tuple[tuple[str, int], ...]
    n_before: int

    @property
    def is_active(self) -> bool:
        """Whether it waits or runs."""
        return self.state in ACTIVE

    @property
    def stage(self) -> str:
        """What is being done, as a code: letters and underscores only, "other" if unknown.

        Kinds of `STAGES` have codes that begin with the kind.
        """
        if self.state == "queued":
            return "waiting"
        if self.state == "running" and self.is_cancel_wanted:
            return "stopping"
        if self.kind in STAGES:
            return self._own_stage
        if self.share >= 1:
            return FINISHING
        who, _, what = self.phase.partition(" model: ")
        if who in ("general", "hospital") and what in ("documents", "posteriors", "chain"):
            return f"{who}_{what}"
        return LOADING if self.phase in ("", LOADING) else "other"

    @property
    def _own_stage(self) -> str:
        if self.share >= 1:
            return f"{self.kind}_{FINISHING}"
        if self.phase in ("", LOADING):
            return f"{self.kind}_{LOADING}"
        is_known = self.phase in STAGES[self.kind]
        return f"{self.kind}_{self.phase.replace(' ', '_')}" if is_known else f"{self.kind}_other"
