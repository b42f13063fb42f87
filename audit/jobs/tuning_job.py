"""The job "tagger" with a causal language model: tuned on annotated notes to copy them with tags.

Comes in: an order of plain values. Goes out: the identifier of a trained tagger. Asking is
torch-free and reads no note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from audit.deid.generation.causal_model import check_directory, model_files
from audit.deid.generation.tuning_order import GenerativeOrder
from audit.deid.generation.tuning_settings import tuning_from_json
from audit.deid.kept_taggers import TRAINED, tagger_dir
from audit.deid.token.train_points import TrainPoint
from audit.errors import AuditError
from audit.home import salted_digest
from audit.jobs.contact import Contact
from audit.jobs.locks import queue_of
from audit.jobs.question import Question
from audit.request import question_digest

KIND, TUNING = "tagger", "tuning"
"""Kind of the job, and the key that tells its orders from those of token classifiers."""
_N_DIGITS = 12
_SAY_SECONDS = 5.0


def tuning_question(order: GenerativeOrder, *, is_kept: bool = True) -> Question:
    """Return an order as a question of the table.

    Parameters
    ----------
    is_kept
        Whether the tagger is kept among those of this installation; the order's `out` is not used
        then. The same question has the same identifier: it is tuned once, and gone on with.

    Raises
    ------
    AuditError
        If model or notes cannot be read.
    """
    check_directory(order.model)
    asked = {
        "settings": order.settings.to_json(),
        "gold": [str(path.resolve()) for path in order.gold],
        "validation": [str(path.resolve()) for path in order.validation],
        "model": str(order.model.resolve()),
    }
    states = [_state(files) for files in (order.gold, order.validation, model_files(order.model))]
    digest = salted_digest(f"{TUNING} {question_digest(asked | {'states': states})}")
    out = None if is_kept else str(order.out.resolve())
    tagger_id = TRAINED + digest[:_N_DIGITS]
    return Question(
        kind=KIND,
        label=order.model.resolve().name,
        scenario=0,
        device=queue_of(order.device),
        digest=question_digest({TUNING: tagger_id, "out": out}),
        audits=(),
        order={
            TUNING: asked, "title": order.title, "device": order.device, "out": out,
            "tagger_id": tagger_id,
        },
    )  # fmt: skip


def tuning_folder(order: Mapping[str, Any]) -> Path:
    """Return the folder in which the tagger of a question is made."""
    return Path(order["out"]) if order["out"] else tagger_dir(str(order["tagger_id"]))


def answer_tuning(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Tune, or go on with a tuning; returns the tagger's identifier."""
    from audit.deid.generation.train_generative import train_generative

    asked = order[TUNING]
    contact.say("Reading the annotated notes.")
    done = train_generative(
        GenerativeOrder(
            gold=tuple(map(Path, asked["gold"])),
            model=Path(asked["model"]),
            out=tuning_folder(order),
            settings=tuning_from_json(asked["settings"]),
            title=order["title"],
            validation=tuple(map(Path, asked["validation"])),
            device=order["device"],
        ),
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
        on_point=_told(contact.say),
    )
    contact.say(f"{done.n_steps} steps on {done.n_windows} windows of {done.n_notes} notes.")
    return (str(order["tagger_id"]),)


def _state(paths: tuple[Path, ...] | list[Path]) -> list[list[object]]:
    """Return what tells files, or those of folders, from what stood there before."""
    try:
        files = [
            file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])
        ]
        return [[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in files]
    except OSError as error:
        raise AuditError(
            f"They cannot be read ({error.strerror}).", where="annotated notes"
        ) from None


def _told(say: Callable[[str], None]) -> Callable[[TrainPoint], None]:
    said = [float("-inf")]

    def tell(point: TrainPoint) -> None:
        if point.seconds - said[0] >= _SAY_SECONDS and point.loss is not None:
            said[0] = point.seconds
            say(f"Step {point.step}: loss {point.loss:.4f} nats a token.")

    return tell
