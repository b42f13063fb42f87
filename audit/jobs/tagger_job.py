"""The job "tagger": a token classifier trained on annotated notes, asked for by pages and commands.

Comes in: an order of plain values. Goes out: the identifier of a trained tagger. Asking is
torch-free and reads no note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.deid.kept_taggers import TRAINED, tagger_dir
from audit.deid.token.material import MAX_SYNTHETIC, Material, read_gold, split_off, synthetic
from audit.deid.token.settings import TaggerSettings, settings_from_json
from audit.deid.token.tagger_file import file_digests
from audit.deid.token.train_points import TrainPoint
from audit.errors import AuditError
from audit.home import salted_digest
from audit.jobs.contact import Contact
from audit.jobs.locks import queue_of
from audit.jobs.question import Question
from audit.jobs.tuning_job import TUNING, answer_tuning
from audit.request import question_digest

KIND = "tagger"
_N_DIGITS = 12
_LANGUAGES = ("ja", "en")
_MAX_TITLE = 200


def tagger_order(
    *,
    settings: TaggerSettings,
    gold: Path | None = None,
    n_synthetic: int = 0,
    languages: Sequence[str] = _LANGUAGES,
    validation: Path | None = None,
    encoder: Path | None = None,
    title: str = "",
    out: Path | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """Return the order of a training.

    Parameters
    ----------
    gold
        Annotated notes, a file or a folder of any format of `deid`.
    n_synthetic, languages
        In their place: so many synthetic notes in these languages.
    validation
        Notes to measure on; None keeps a tenth of the patients apart.
    encoder
        Directory of the encoder to start from; None trains a small network of characters.
    out
        Folder of the tagger; None keeps it among the trained ones.

    Raises
    ------
    AuditError
        If neither or both kinds of notes are given, or a place is not there.
    """
    if (gold is not None) == bool(n_synthetic):
        raise AuditError(
            "Give annotated notes or a number of synthetic ones, one of the two.",
            where="annotated notes",
        )
    if not 0 <= n_synthetic <= MAX_SYNTHETIC or not set(languages) <= set(_LANGUAGES):
        raise AuditError("There are no such synthetic notes.", where="annotated notes")
    if len(title) > _MAX_TITLE:
        raise AuditError("The title is too long.", where="title")
    for path in (gold, validation):
        if path is not None and not path.exists():
            raise AuditError("They are not there.", where="annotated notes")
    if encoder is not None and not (encoder / "config.json").is_file():
        raise AuditError("There is no model directory with a config.json.", where="encoder")
    return {
        "settings": settings.to_json(),
        "gold": _whole(gold),
        "n_synthetic": n_synthetic,
        "languages": list(languages),
        "validation": _whole(validation),
        "encoder": _whole(encoder),
        "title": title,
        "out": _whole(out),
        "device": device,
    }


def tagger_id_of(order: Mapping[str, Any]) -> str:
    """Return the identifier under which the tagger of an order is kept.

    The same question has the same: it is trained once, and gone on with.
    """
    question = {
        "settings": order["settings"],
        "gold": _state(order["gold"]),
        "n_synthetic": order["n_synthetic"],
        "languages": order["languages"],
        "validation": _state(order["validation"]),
        "encoder": file_digests(Path(order["encoder"])) if order["encoder"] else None,
    }
    return TRAINED + salted_digest(f"{KIND} {question_digest(question)}")[:_N_DIGITS]


def tagger_question(order: Mapping[str, Any]) -> Question:
    """Return an order as a question of the table.

    Raises
    ------
    AuditError
        If the encoder or the notes cannot be read.
    """
    tagger_id = tagger_id_of(order)
    return Question(
        kind=KIND,
        label=Path(order["encoder"]).name if order["encoder"] else "characters",
        scenario=0,
        device=queue_of(order["device"]),
        digest=question_digest({KIND: tagger_id, "out": order["out"]}),
        audits=(),
        order={**order, "tagger_id": tagger_id},
    )


def tagger_folder(order: Mapping[str, Any]) -> Path:
    """Return the folder in which the tagger of a question is made."""
    return Path(order["out"]) if order["out"] else tagger_dir(str(order["tagger_id"]))


def answer_tagger(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Train, or go on with a training; returns the tagger's identifier."""
    if TUNING in order:
        return answer_tuning(order, contact)
    from audit.deid.token.task import TaggerOrder
    from audit.deid.token.train import train_tagger

    contact.say("Reading the annotated notes.")
    material = _material(order, contact)
    n = len(material.train)
    contact.say(f"{n} notes to learn from, {len(material.validation)} to measure on.")
    wanted = TaggerOrder(
        out=tagger_folder(order),
        settings=settings_from_json(order["settings"]),
        encoder=Path(order["encoder"]) if order["encoder"] else None,
        title=order["title"],
        device=order["device"],
        about={"synthetic": order["n_synthetic"]},
    )
    train_tagger(
        wanted,
        material,
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
        on_point=_told(contact.say),
    )
    return (str(order["tagger_id"]),)


def _material(order: Mapping[str, Any], contact: Contact) -> Material:
    from audit.deid.token.measure import in_five_types

    seed = settings_from_json(order["settings"]).seed
    if order["gold"]:
        documents, unknown = in_five_types(read_gold(Path(order["gold"])))
        if unknown:
            contact.say(f"{len(unknown)} labels are none of the five types: their spans are left "
                        "out.")  # fmt: skip
    else:
        made = synthetic(order["n_synthetic"], seed=seed, languages=order["languages"],
                         should_stop=contact.should_stop)  # fmt: skip
        documents = list(made)
    if order["validation"]:
        others, _ = in_five_types(read_gold(Path(order["validation"])))
        return Material(tuple(documents), tuple(others))
    return split_off(documents, seed=seed)


def _whole(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def _state(path: str | None) -> list[object] | None:
    """Return what tells a file, or those of a folder, from what stood there before."""
    if path is None:
        return None
    try:
        place = Path(path)
        files = sorted(place.iterdir()) if place.is_dir() else [place]
        return [path, *([f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in files)]
    except OSError as error:
        raise AuditError(
            f"They cannot be read ({error.strerror}).", where="annotated notes"
        ) from None


def _told(say: Callable[[str], None]) -> Callable[[TrainPoint], None]:
    def tell(point: TrainPoint) -> None:
        if point.f is None or point.loss is None:
            return
        recall, precision = point.recall or 0.0, point.precision or 0.0
        say(f"Step {point.step}: loss {point.loss:.4f}, recall {recall:.3f}, precision "
            f"{precision:.3f}.")  # fmt: skip

    return tell
