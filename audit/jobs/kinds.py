"""What the kinds of jobs do: from an order to the digests of the audits that came of it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.attack.question import AuditRequest, question_digest
from audit.corpus.make import CorpusTask
from audit.deid.generative.config import GenerativeOrder, TuningSettings
from audit.deid.generative.model import check_directory, model_files
from audit.deid.given import Files, clear_given, given_path, is_table, keep_notes, notes_lines
from audit.deid.network.config import (
    MAX_SYNTHETIC,
    Material,
    TaggerSettings,
    file_digests,
    read_gold,
    split_off,
    synthetic,
)
from audit.deid.score import EXAMPLE, FILE, SCORES, TAGGED, TAGGER, Source
from audit.deid.scoring import ScoreInputs, ScoreOrder, build_score
from audit.deid.tag import tag_notes
from audit.deid.tagged import (
    INPUT,
    RESULT,
    TAGGED_SETS,
    ReleaseSettings,
    TaggedSet,
    begin_set,
    write_index,
)
from audit.deid.taggers import TRAINED, KnownTagger, known_taggers, load_tagger, tagger_dir
from audit.demo import DemoSettings, demo_audits, demo_request, remember
from audit.errors import AuditError
from audit.experiment.leakage_tables import LeakageTask
from audit.experiment.paper_tables import ExperimentTask
from audit.foreign import decode_text
from audit.home import DEMO_HOSPITAL, results_dir, salted_digest
from audit.jobs import table
from audit.jobs.table import Job
from audit.notes.read import open_notes, resolve_note_file
from audit.progress import Pace, Progress
from audit.report.report import AuditReport
from audit.tables import MAX_FIELD_CHARS
from audit.task import SHORT, Contact, Part, Question, queue_of
from audit.training.config import LossPoint
from audit.training.kept import PretrainTask
from cache.store import Store

TAGGING_JOB_KIND = "tagging"
_TAGGING_JOB_N_DIGITS = 12
_TAGGING_JOB_SHORT_BYTES = {"quick": 2_000_000, "combined": 400_000, "token": 400_000}
"""Notes handed in up to here run beside an audit: a token classifier reads 1,400 characters a
second on a CPU that is shared. A tagger that writes copies needs the device alone."""


@dataclass(frozen=True)
class NotesToTag:
    """The notes of a question: handed in, or a file of the list.

    Parameters
    ----------
    source
        One of `audit.deid.tagged.SOURCES`.
    given
        Bytes that `open_notes` reads; None for a registered file.
    file_id
        Of a registered file; "" where notes were handed in.
    columns
        (field of a note, name of its column), where a person said so.

    Raises
    ------
    ValueError
        If neither or both are given.
    """

    source: str
    given: bytes | None = None
    file_id: str = ""
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check that there is one source, once."""
        if (self.given is None) == (not self.file_id):
            raise ValueError("give notes or a file, one of the two")


def one_text(text: str, *, source: str) -> NotesToTag:
    """Return a text as the only note of a question.

    Raises
    ------
    AuditError
        If it is empty or too long for a note.
    """
    if not text.strip():
        raise AuditError("The note is empty.", where="notes")
    if len(text) > MAX_FIELD_CHARS:
        raise AuditError("The note is longer than 1 MB.", where="notes")
    line = json.dumps({"note_id": "1", "text": text}, ensure_ascii=False) + "\n"
    return NotesToTag(source, given=line.encode("utf-8", "surrogatepass"))


def uploaded(files: Files) -> NotesToTag:
    """Return uploaded files as the notes of a question.

    One .jsonl or .csv has a note in each row; of .txt, i2b2 .xml and brat files, or a .zip of
    them, each is a note.

    Parameters
    ----------
    files
        (name, bytes) of each; of a name only the ending decides.

    Raises
    ------
    AuditError
        As `audit.deid.given.notes_lines`, or if an only text is empty or too long.
    """
    if is_table(files):
        return NotesToTag("uploaded", given=files[0][1])
    if len(files) == 1 and files[0][0].lower().endswith(".txt"):
        text, _ = decode_text(files[0][1], what="notes")
        return one_text(text, source="uploaded")
    return NotesToTag("uploaded", given=notes_lines(files))


def tagging_question(
    notes: NotesToTag, *, tagger: KnownTagger, how: ReleaseSettings, title: str = ""
) -> Question:
    """Return a question of the table; the folder of its set is made, with the notes handed in.

    The same notes, tagger and replacement are one question and one set, whatever its title.

    Raises
    ------
    AuditError
        If the notes cannot be read, or the folder cannot be written.
    """
    tagged_id = tagged_id_of(notes, tagger=tagger, how=how)
    is_new = not TAGGED_SETS.place(tagged_id).is_dir()
    begun = begin_set(
        tagged_id, source=notes.source, tagger_id=tagger.tagger_id, tagger_digest=tagger.digest,
        how=how, title=title, given=notes.given,
    )  # fmt: skip
    is_short = _is_short(notes, tagger=tagger)
    order = {
        "tagged_id": tagged_id, "file_id": notes.file_id, "columns": [*map(list, notes.columns)],
        "device": "cpu" if is_short else "auto",
    }  # fmt: skip
    if not begun.is_whole:
        try:
            open_notes(_path_of(order), columns=dict(notes.columns))
        except AuditError:
            if is_new:
                TAGGED_SETS.forget(tagged_id)
            raise
    return Question(
        kind=TAGGING_JOB_KIND,
        label=tagger.tagger_id,
        scenario=0,
        device=SHORT if is_short else "cpu" if tagger.is_quick else queue_of("auto"),
        digest=_digest_of(tagged_id),
        audits=(),
        order=order,
    )


def tagged_id_of(notes: NotesToTag, *, tagger: KnownTagger, how: ReleaseSettings) -> str:
    """Return the identifier of the set that a question makes; salted, since a text can be guessed.

    Raises
    ------
    AuditError
        If a registered file is not there.
    """
    question = {
        "notes": _tagging_job_identity(notes),
        "columns": dict(notes.columns),
        "tagger": tagger.digest,
        "how": how.decisive(),
    }
    return salted_digest(f"{TAGGING_JOB_KIND} {question_digest(question)}")[:_TAGGING_JOB_N_DIGITS]


def active_tagging(tagged_id: str) -> Job | None:
    """Return the job that is at work on a set just now."""
    return table.active(_digest_of(tagged_id))


def answer_tagging(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Tag the notes of a set, or go on with it; returns its identifier."""
    tagged_id = str(order["tagged_id"])
    tagged = TAGGED_SETS.get(tagged_id)
    if not tagged.is_whole:
        if not (tagged.path / RESULT).is_dir():
            _tag(tagged, order, contact)
        write_index(tagged.path, should_stop=contact.should_stop)
    (tagged.path / INPUT).unlink(missing_ok=True)  # what was handed in stands in the result
    return (tagged_id,)


def _tag(tagged: TaggedSet, order: Mapping[str, Any], contact: Contact) -> None:
    columns = dict(order["columns"])
    source = open_notes(_path_of(order), columns=columns)
    tagger = load_tagger(tagged.tagger_id, device=order.get("device", "auto"))
    if tagger.digest != tagged.tagger_digest:
        raise AuditError(
            "The tagger is not the one that was asked for any more.",
            where="tagger",
            do="Ask again.",
        )
    tag_notes(
        source,
        tagger=tagger,
        out=tagged.path / RESULT,
        release=tagged.how.release(),
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
    )


def _is_short(notes: NotesToTag, *, tagger: KnownTagger) -> bool:
    """Whether tagging takes minutes at most on any CPU, and little memory: it need not wait."""
    most = _TAGGING_JOB_SHORT_BYTES.get("quick" if tagger.is_quick else tagger.kind, 0)
    return notes.given is not None and len(notes.given) <= most


def _path_of(order: Mapping[str, Any]) -> Path:
    if order["file_id"]:
        return resolve_note_file(order["file_id"])
    path = TAGGED_SETS.place(order["tagged_id"]) / INPUT
    if not path.is_file():
        raise AuditError("The notes that were handed in are gone.", where="notes", do="Ask again.")
    return path


def _tagging_job_identity(notes: NotesToTag) -> object:
    if notes.given is not None:
        return hashlib.sha256(notes.given).hexdigest()
    path = resolve_note_file(notes.file_id)
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="notes") from None
    return [str(path.resolve()), found.st_size, found.st_mtime_ns]


def _digest_of(tagged_id: str) -> str:
    return question_digest({TAGGING_JOB_KIND: tagged_id})


SCORE_JOB_KIND = "score"
N_EXAMPLE = 200
EXAMPLE_SEED = 20261122
_SCORE_JOB_N_DIGITS = 12
_SCORE_JOB_SHORT_BYTES = 5_000_000  # of both sides together: what is counted within minutes


def score_question(order: ScoreOrder) -> Question:
    """Return an order as a question of the table; the same question has the same score.

    Raises
    ------
    AuditError
        If a side is not there, or there is no such tagger.
    """
    tagger = _known(order.predicted) if order.predicted.kind == TAGGER else None
    question: dict[str, object] = {
        SCORE_JOB_KIND: order.decisive(),
        "sides": [
            _score_job_state(one) for one in (order.gold, order.predicted, order.training) if one
        ],
        "tagger": "" if tagger is None else tagger.digest,
        "example": _example(order.gold.ref) if order.gold.kind == EXAMPLE else None,
    }
    # Salted: what was handed in can be guessed.
    score_id = salted_digest(f"score {question_digest(question)}")[:_SCORE_JOB_N_DIGITS]
    return Question(
        kind=SCORE_JOB_KIND,
        label="" if tagger is None else tagger.tagger_id,
        scenario=0,
        device=_queue(order, tagger=tagger),
        digest=question_digest({SCORE_JOB_KIND: score_id}),
        audits=(),
        order={"score": order.plain(), "score_id": score_id},
    )


def answer_score(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Measure; returns the identifier of the score. One that is kept already is not made again."""
    score_id, wanted = (
        str(order["score_id"]),
        ScoreOrder.read(json.dumps(order["score"]), where="order"),
    )
    if SCORES.place(score_id).is_dir():
        return (score_id,)
    sides = (wanted.gold, wanted.predicted, wanted.training)
    clear_given(keep=[one.ref for one in sides if one is not None])
    build_score(
        wanted,
        inputs=_inputs(wanted),
        score_id=score_id,
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
    )
    return (score_id,)


def _inputs(order: ScoreOrder) -> ScoreInputs:
    gold = _path(order.gold)
    training = None if order.training is None else _path(order.training)
    if order.predicted.kind == TAGGER:
        tagger = load_tagger(order.predicted.ref)
        return ScoreInputs(
            gold, None, training, tagger=tagger,
            tagger_name=tagger.name, tagger_digest=tagger.digest,
        )  # fmt: skip
    name = digest = ""
    if order.predicted.kind == TAGGED:
        marked = TAGGED_SETS.get(order.predicted.ref)
        name, digest = marked.tagger_id, marked.tagger_digest
    return ScoreInputs(
        gold, _path(order.predicted), training, tagger_name=name, tagger_digest=digest
    )


def _path(source: Source) -> Path:
    if source.kind == EXAMPLE:
        return given_path(_example(source.ref))
    if source.kind == FILE:
        return resolve_note_file(source.ref)
    if source.kind == TAGGED:
        marked = TAGGED_SETS.get(source.ref)
        if not marked.is_whole:
            raise AuditError(
                "This set is not tagged to its end.", where="score", do="Resume its job first."
            )
        return marked.spans_path
    return given_path(source.ref)


def _queue(order: ScoreOrder, *, tagger: KnownTagger | None) -> str:
    if tagger is not None and not tagger.is_quick:
        return queue_of("auto")
    sides = [one for one in (order.gold, order.predicted, order.training) if one is not None]
    files = [_path(one) for one in sides if one.kind not in (EXAMPLE, TAGGER)]
    return SHORT if sum(path.stat().st_size for path in files) <= _SCORE_JOB_SHORT_BYTES else "cpu"


def _example(language: str) -> str:
    """Keep the example's notes, invented in styles that no training saw; return their digest."""
    from audit.deid.synthetic import HELD_OUT_STYLES, synthetic_notes

    notes = synthetic_notes(
        N_EXAMPLE, seed=EXAMPLE_SEED, language=language, styles=HELD_OUT_STYLES[language]
    )
    return keep_notes(tuple(notes)).digest


def _known(source: Source) -> KnownTagger:
    found = next((one for one in known_taggers() if one.tagger_id == source.ref), None)
    if found is None:
        raise AuditError(
            "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
        )
    return found


def _score_job_state(source: Source) -> list[object]:
    """Return what tells a side apart: what was given never changes, a file may."""
    if source.kind in (EXAMPLE, TAGGER):
        return [source.kind, source.ref]
    path = _path(source)
    if source.kind != FILE:
        return [source.kind, source.ref]
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="gold notes") from None
    return [source.kind, source.ref, found.st_size, found.st_mtime_ns]


TUNING_JOB_KIND, TUNING = "tagger", "tuning"
"""Kind of the job, and the key that tells its orders from those of token classifiers."""
_TUNING_JOB_N_DIGITS = 12
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
        "settings": order.settings.plain(),
        "gold": [str(path.resolve()) for path in order.gold],
        "validation": [str(path.resolve()) for path in order.validation],
        "model": str(order.model.resolve()),
    }
    states = [
        _tuning_job_state(files)
        for files in (order.gold, order.validation, model_files(order.model))
    ]
    digest = salted_digest(f"{TUNING} {question_digest(asked | {'states': states})}")
    out = None if is_kept else str(order.out.resolve())
    tagger_id = TRAINED + digest[:_TUNING_JOB_N_DIGITS]
    return Question(
        kind=TUNING_JOB_KIND,
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
    from audit.deid.generative.training import train_generative

    asked = order[TUNING]
    contact.say("Reading the annotated notes.")
    done = train_generative(
        GenerativeOrder(
            gold=tuple(map(Path, asked["gold"])),
            model=Path(asked["model"]),
            out=tuning_folder(order),
            settings=TuningSettings.of(asked["settings"]),
            title=order["title"],
            validation=tuple(map(Path, asked["validation"])),
            device=order["device"],
        ),
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
        on_point=_tuning_job_told(contact.say),
    )
    contact.say(f"{done.n_steps} steps on {done.n_windows} windows of {done.n_notes} notes.")
    return (str(order["tagger_id"]),)


def _tuning_job_state(paths: tuple[Path, ...] | list[Path]) -> list[list[object]]:
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


def _tuning_job_told(say: Callable[[str], None]) -> Callable[[LossPoint], None]:
    said = [float("-inf")]

    def tell(point: LossPoint) -> None:
        if point.seconds - said[0] >= _SAY_SECONDS and point.loss is not None:
            said[0] = point.seconds
            say(f"Step {point.step}: loss {point.loss:.4f} nats a token.")

    return tell


TAGGER_JOB_KIND = "tagger"
_TAGGER_JOB_N_DIGITS = 12
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
        "settings": settings.plain(),
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
        "gold": _tagger_job_state(order["gold"]),
        "n_synthetic": order["n_synthetic"],
        "languages": order["languages"],
        "validation": _tagger_job_state(order["validation"]),
        "encoder": file_digests(Path(order["encoder"])) if order["encoder"] else None,
    }
    return (
        TRAINED
        + salted_digest(f"{TAGGER_JOB_KIND} {question_digest(question)}")[:_TAGGER_JOB_N_DIGITS]
    )


def tagger_question(order: Mapping[str, Any]) -> Question:
    """Return an order as a question of the table.

    Raises
    ------
    AuditError
        If the encoder or the notes cannot be read.
    """
    tagger_id = tagger_id_of(order)
    return Question(
        kind=TAGGER_JOB_KIND,
        label=Path(order["encoder"]).name if order["encoder"] else "characters",
        scenario=0,
        device=queue_of(order["device"]),
        digest=question_digest({TAGGER_JOB_KIND: tagger_id, "out": order["out"]}),
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
    from audit.deid.network.training import TaggerOrder, train_tagger

    contact.say("Reading the annotated notes.")
    material = _material(order, contact)
    n = len(material.train)
    contact.say(f"{n} notes to learn from, {len(material.validation)} to measure on.")
    wanted = TaggerOrder(
        out=tagger_folder(order),
        settings=TaggerSettings.of(order["settings"]),
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
        on_point=_tagger_job_told(contact.say),
    )
    return (str(order["tagger_id"]),)


def _material(order: Mapping[str, Any], contact: Contact) -> Material:
    from audit.deid.network.training import in_five_types

    seed = TaggerSettings.of(order["settings"]).seed
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


def _tagger_job_state(path: str | None) -> list[object] | None:
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


def _tagger_job_told(say: Callable[[str], None]) -> Callable[[LossPoint], None]:
    def tell(point: LossPoint) -> None:
        if point.f is None or point.loss is None:
            return
        recall, precision = point.recall or 0.0, point.precision or 0.0
        say(f"Step {point.step}: loss {point.loss:.4f}, recall {recall:.3f}, precision "
            f"{precision:.3f}.")  # fmt: skip

    return tell


Answer = Callable[[Mapping[str, Any], Contact], tuple[str, ...]]


def answer_audit(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Answer one question."""
    from audit.run import run_audit

    request = AuditRequest.read(json.dumps(order["request"]), where="request")
    with Store(results_dir()) as store:
        report = run_audit(
            request,
            store=store,
            progress=lambda p: contact.report(p, finished_part(request, p)),
            should_stop=contact.should_stop,
        )
    return (report.digest,)


def answer_demo(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Audit the demo hospital, and note which audits are the demo's."""
    from audit.run import run_audit

    requests = demo_requests(order)
    reports: dict[str, AuditReport] = {}
    pace = Pace()
    with Store(results_dir()) as store:
        for number, (name, request) in enumerate(requests):
            contact.say(f"Demo audit, of a made-up hospital: {name}")
            reports[name] = run_audit(
                request,
                store=store,
                progress=_over_all(number, n_audits=len(requests), pace=pace, contact=contact),
                should_stop=contact.should_stop,
            )
            contact.say(reports[name].verdict.english)
            # At once, and with a name of its own where the demo hospital is another.
            known = name if order["directory"] is None else f"{name} in {order['directory']}"
            remember({known: reports[name]}, store=store)
    return tuple(report.digest for report in reports.values())


KINDS: dict[str, Answer] = {
    "audit": answer_audit,
    "demo": answer_demo,
    "pretrain": PretrainTask.answer,
    "corpus": CorpusTask.answer,
    "experiment": ExperimentTask.answer,
    "leakage": LeakageTask.answer,
    "tagger": answer_tagger,
    "tagging": answer_tagging,
    "score": answer_score,
}
"""Kind of job -> what it does."""


def demo_order(
    settings: DemoSettings, *, all_of_them: bool = False, directory: Path | None = None
) -> dict[str, Any]:
    """Return the order of a demo; a directory holds a demo hospital other than the shipped one."""
    return {
        "settings": vars(settings).copy(),
        "all_of_them": all_of_them,
        "directory": None if directory is None else str(directory),
    }


def demo_requests(order: Mapping[str, Any]) -> tuple[tuple[str, AuditRequest], ...]:
    """Return the demo's audits as (name, request)."""
    settings = DemoSettings(**order["settings"])
    directory = DEMO_HOSPITAL if order["directory"] is None else Path(order["directory"])
    audits = demo_audits(all_of_them=order["all_of_them"])
    return tuple(
        (name, demo_request(settings=settings, directory=directory, **how)) for name, how in audits
    )


def finished_part(request: AuditRequest, progress: Progress) -> Part:
    """Return how many inputs or documents both models have finished, as settings of a question.

    Only whole shards are kept. M_general comes first, so M_hospital's share is what both have.
    """
    from audit.attack.evidence import CHAIN_INPUTS_PER_SHARD, DOCUMENTS_PER_SHARD, INPUTS_PER_SHARD
    from audit.models.load import pick_device

    shares = dict(progress.by_phase)
    if request.scenario_number == 1:
        n_shard = DOCUMENTS_PER_SHARD[pick_device(request.device).partition(":")[0]]
        n = _whole_shards(
            request.generation.n_documents, shares, phase="hospital model: documents", n=n_shard
        )
        return (("n_documents", n),) if n else ()
    wanted = request.posterior
    n = _whole_shards(
        wanted.n_inputs, shares, phase="hospital model: posteriors", n=INPUTS_PER_SHARD
    )
    n_chain = _whole_shards(
        wanted.n_chain_inputs, shares, phase="hospital model: chain", n=CHAIN_INPUTS_PER_SHARD
    )
    return (("n_inputs", n), ("n_chain_inputs", n_chain)) if n else ()


def _whole_shards(n_total: int, shares: Mapping[str, float], *, phase: str, n: int) -> int:
    share = shares.get(phase, 0.0)
    # A share is a fraction of floats: a whole shard may be told as one unit less.
    return n_total if share >= 1 else int(share * n_total + 1e-6) // n * n


def _over_all(
    number: int, *, n_audits: int, pace: Pace, contact: Contact
) -> Callable[[Progress], None]:
    """Return a listener that tells the progress of one of several audits as that of all."""

    def listen(progress: Progress) -> None:
        done = number + progress.share
        left = pace.seconds_left(done, total=n_audits, now=time.monotonic())
        whole = replace(progress, done=done, total=n_audits, seconds_left=left, by_phase=())
        contact.report(whole, ())

    return listen
