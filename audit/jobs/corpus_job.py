"""The job "corpus": a corpus from a hospital's notes, asked for by pages and commands.

Comes in: an order of plain values. Goes out: the identifier of a kept corpus. Asking is torch-free
and reads no note.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.curation.corpus_place import clear_abandoned
from audit.curation.kept_corpora import corpus_dir, new_corpus_id
from audit.curation.make_corpus import make_corpus, paths_of
from audit.curation.order import CorpusOrder, order_from_json, order_to_json, without_title
from audit.errors import AuditError
from audit.home import salted_digest
from audit.jobs.contact import Contact
from audit.jobs.question import Question
from audit.request import question_digest

KIND = "corpus"
DEVICE = "cpu"


def corpus_question(order: CorpusOrder, *, out: Path | None = None) -> Question:
    """Return an order as a question of the table.

    Parameters
    ----------
    order
        What is to be made.
    out
        The folder of the corpus; None keeps it among the corpora of this installation.

    Raises
    ------
    AuditError
        If notes or register are not there.
    """
    notes, register = paths_of(order)
    question: dict[str, object] = {
        # A title makes no other corpus, but a file that has changed does.
        KIND: order_to_json(without_title(order)),
        "notes": _state(notes, where="notes"),
        "register": None if register is None else _state(register, where="register"),
        "out": None if out is None else str(out.resolve()),
    }
    return Question(
        kind=KIND,
        label=notes.name,
        scenario=0,
        device=DEVICE,
        # Salted: where notes lie is nobody's business outside this installation.
        digest=salted_digest(f"corpus {question_digest(question)}"),
        audits=(),
        order={
            "corpus": order_to_json(order),
            "corpus_id": new_corpus_id(),
            "out": None if out is None else str(out.resolve()),
        },
    )


def answer_corpus(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Make a corpus; returns its identifier.

    Where the job was interrupted, what it had left is cleared and the work begins anew: an order
    names its corpus, so that nothing is made twice.
    """
    corpus_id = str(order["corpus_id"])
    out = corpus_dir(corpus_id) if order["out"] is None else Path(order["out"])
    if order["out"] is None and out.is_dir():  # made, and stopped before that was written down
        return (corpus_id,)
    if order["out"] is None:
        clear_abandoned(out.parent)  # notes of jobs that were killed and never asked for again
    make_corpus(
        order_from_json(order["corpus"]),
        out=out,
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
    )
    return (corpus_id,)


def _state(path: Path, *, where: str) -> list[object]:
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where=where) from None
    return [str(path.resolve()), found.st_size, found.st_mtime_ns]
