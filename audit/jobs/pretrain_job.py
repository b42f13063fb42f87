"""The job "pretrain": a training of a masked language model, asked for by pages and commands.

Comes in: an order of plain values. Goes out: the identifier of a trained model. Asking is
torch-free and reads no note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.corpora.build_summary import PRIVATE
from audit.corpora.listed_notes import listed_file, read_listed
from audit.curation.kept_corpora import kept_corpus
from audit.errors import AuditError
from audit.home import salted_digest
from audit.jobs.contact import Contact
from audit.jobs.locks import queue_of
from audit.jobs.question import Question
from audit.models.files import inspect_model, model_digest
from audit.request import question_digest
from audit.training.kept_models import run_dir
from audit.training.order import TrainOrder
from audit.training.settings import TrainSettings, settings_from_json
from audit.training.train_log import LossPoint

KIND = "pretrain"
CORPUS_SOURCES = ("private", "public", "other_names")
_N_DIGITS = 12


def pretrain_order(
    *,
    general: Path,
    settings: TrainSettings,
    corpus_id: str = "",
    source: str = "private",
    notes: Path | None = None,
    columns: Mapping[str, str] | None = None,
    other_names_seed: int = 0,
    title: str = "",
    out: Path | None = None,
    snapshot_epochs: Sequence[float] = (),
    device: str = "auto",
) -> dict[str, Any]:
    """Return the order of a training on a kept corpus, or on a file of notes.

    Parameters
    ----------
    general
        Directory of the model to start from.
    corpus_id, source
        A kept corpus, and which of its notes: "private", "public" or "other_names".
    notes, columns
        In place of a corpus: anything that `open_notes` reads.
    other_names_seed
        Of the other names.
    out
        Folder of the training; None keeps it among the trained models.

    Raises
    ------
    AuditError
        If neither or both of corpus and notes are given, there is no such corpus, or the model is
        refused.
    """
    if bool(corpus_id) == (notes is not None):
        raise AuditError("Name a corpus or a file of notes, one of the two.", where="notes")
    if corpus_id:
        if source not in CORPUS_SOURCES:
            raise AuditError("There are no such notes in a corpus.", where="source")
        kept_corpus(corpus_id)
    inspect_model(general)
    return {
        "general": str(general),
        "settings": settings.to_json(),
        "corpus_id": corpus_id,
        "source": source if corpus_id else "file",
        "notes": None if notes is None else str(notes.resolve()),
        "columns": dict(columns or {}),
        "other_names_seed": other_names_seed,
        "title": title,
        "out": None if out is None else str(out.resolve()),
        "snapshot_epochs": list(snapshot_epochs),
        "device": device,
    }


def run_id_of(order: Mapping[str, Any]) -> str:
    """Return the identifier under which the training of an order is kept.

    The same question has the same: it is trained once, and gone on with. Reads every byte of the
    general model's weights.
    """
    question = {
        "general": model_digest(Path(order["general"])),
        "settings": settings_from_json(order["settings"]).decisive(),
        "notes": _identity(order),
        "columns": order["columns"],
        "snapshot_epochs": order["snapshot_epochs"],
    }
    return salted_digest(f"pretrain {question_digest(question)}")[:_N_DIGITS]


def pretrain_question(order: Mapping[str, Any]) -> Question:
    """Return an order as a question of the table.

    Raises
    ------
    AuditError
        If the model is refused, or the notes cannot be read.
    """
    run_id = run_id_of(order)
    name = inspect_model(Path(order["general"])).name
    return Question(
        kind=KIND,
        label=name,
        scenario=0,
        device=queue_of(order["device"]),
        digest=question_digest({KIND: run_id, "out": order["out"]}),
        audits=(),
        order={**order, "run_id": run_id},
    )


def answer_pretrain(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Train, or go on with a training; returns its identifier."""
    from audit.training.train import train

    wanted = train_order(order, contact=contact)
    result = train(
        wanted,
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
        on_point=_told(contact.say),
    )
    if wanted.settings.held_out_share and result.held_out is None:
        contact.say("Every patient is on the candidate list: none was held out, no loss measured.")
    return (str(order["run_id"]),)


def train_order(order: Mapping[str, Any], *, contact: Contact) -> TrainOrder:
    """Return what the engine is asked for; writes the notes with other names if they are wanted."""
    run_id = str(order["run_id"])
    out = Path(order["out"]) if order["out"] else run_dir(run_id)
    if order["corpus_id"]:
        corpus = kept_corpus(order["corpus_id"])
        notes = _corpus_notes(order, contact=contact)
        token_store: Path | None = corpus.path / "tokens"
    else:
        notes, token_store = Path(order["notes"]), None
    return TrainOrder(
        general=Path(order["general"]),
        notes=(notes,),
        out=out,
        settings=settings_from_json(order["settings"]),
        title=order["title"],
        source=order["source"],
        corpus_id=order["corpus_id"],
        columns=order["columns"],
        token_store=token_store,
        listed=listed_file(notes) if order["corpus_id"] else None,
        snapshot_epochs=tuple(order["snapshot_epochs"]),
        device=order["device"],
    )


def _corpus_notes(order: Mapping[str, Any], *, contact: Contact) -> Path:
    corpus = kept_corpus(order["corpus_id"])
    if order["source"] != "other_names":
        return corpus.path / f"{order['source']}.jsonl"
    from audit.curation.other_names import write_other_names

    contact.say("Writing the same notes with other names.")
    seed = order["other_names_seed"]
    return write_other_names(corpus.corpus_id, seed=seed, should_stop=contact.should_stop)


def _identity(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells the notes apart: a kept corpus never changes, a file may."""
    if order["corpus_id"]:
        found = {"corpus": order["corpus_id"], "source": order["source"]}
        if order["source"] == "other_names":
            found["seed"] = order["other_names_seed"]
        if listed := listed_file(kept_corpus(order["corpus_id"]).path / PRIVATE):
            found["listed"] = read_listed(listed).digest
        return found
    try:
        state = Path(order["notes"]).stat()
    except OSError as error:
        raise AuditError(f"The notes cannot be read ({error.strerror}).", where="notes") from None
    return {"file": order["notes"], "bytes": state.st_size, "changed": state.st_mtime_ns}


def _told(say: Callable[[str], None]) -> Callable[[LossPoint], None]:
    def tell(point: LossPoint) -> None:
        if point.held_out is not None:
            loss = "" if point.loss is None else f"loss {point.loss:.3f}, "
            say(f"Step {point.step}: {loss}held-out loss {point.held_out:.3f} nats a token.")

    return tell
