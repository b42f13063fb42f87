"""Makes a score: both sides read, matched under all criteria, counted, kept whole or not at all.

What a stopped run has tagged stays beside the score under another name, and the next run of the
same order goes on there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field, model_validator

from audit.deid.cases import SpanWriter
from audit.deid.copies import EXACT, CopyingTagger, OutputFiles, added, copies_summary, numbers_of
from audit.deid.given import clear_given, given_path, keep_notes
from audit.deid.matching import MATCHERS, OPTIMAL
from audit.deid.metrics import seen_recall, surface_forms
from audit.deid.score import (
    EXAMPLE,
    FILE,
    GIVEN,
    GOLD_KINDS,
    HEADLINE_CRITERION,
    OUTPUTS,
    PREDICTED_KINDS,
    SCORE,
    SCORES,
    TAGGED,
    TAGGER,
    Pair,
    Score,
    SeenScore,
    Source,
    score_pairs,
    score_summary,
    write_patients,
)
from audit.deid.tag import COPIES
from audit.deid.tagged import TAGGED_SETS
from audit.deid.tagger import Tagger, tag_checked
from audit.deid.taggers import KnownTagger, known_taggers, load_tagger
from audit.errors import AuditError
from audit.home import salted_digest
from audit.notes.formats import (
    GOLD,
    PREDICTED,
    PairedFiles,
    jsonl_line,
    numbered_lines,
    opened,
    read_line,
)
from audit.notes.read import resolve_note_file
from audit.notes.spans import FIVE_TYPES, LabelMap, TaggedDocument, relabelled
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.shelf import new_file, now, one_line, write_whole
from audit.stats import N_REPLICATES
from audit.task import SHORT, Contact, Question, Task, queue_of, states_of

LANGUAGES = ("ja", "en")
MAX_REPLICATES = 100_000


class ScoreTask(Task):
    """What is to be scored.

    Attributes
    ----------
    training
        Notes that the tagger has learned from, for names seen against unseen; None where they are
        not at hand.
    has_five_types
        Whether labels of i2b2 2014, MEDDOCAN and others are mapped to the five types.
    label_map
        More labels: from a label to another, "" leaves its spans out.
    title
        What to call the score; makes no other question of it.
    """

    job = "score"

    gold: Source
    predicted: Source
    training: Source | None = None
    has_five_types: bool = False
    label_map: dict[str, str] = Field(default_factory=dict)
    matcher: str = OPTIMAL
    seed: int = 0
    n_replicates: int = Field(default=N_REPLICATES, ge=1, le=MAX_REPLICATES)
    title: str = ""
    score_id: str = ""
    """Known once the question is asked."""

    @model_validator(mode="after")
    def _check(self) -> ScoreTask:
        if self.gold.kind not in GOLD_KINDS or self.predicted.kind not in PREDICTED_KINDS:
            raise ValueError("a side of a score cannot come from there")
        if self.training is not None and self.training.kind not in (GIVEN, FILE):
            raise ValueError("training notes cannot come from there")
        if self.gold.kind == EXAMPLE and self.gold.ref not in LANGUAGES:
            raise ValueError("there is no example in this language")
        if self.matcher not in MATCHERS:
            raise ValueError("there is no such matcher")
        return self

    @property
    def mapping(self) -> LabelMap | None:
        """The map of labels; None where all stay as they are."""
        if not self.has_five_types and not self.label_map:
            return None
        first = FIVE_TYPES.labels if self.has_five_types else {}
        return LabelMap({**first, **self.label_map})

    @property
    def sides(self) -> tuple[Source, ...]:
        """The sources of notes."""
        return tuple(one for one in (self.gold, self.predicted, self.training) if one is not None)

    def question(self) -> Question:
        """Return the question; the same has the same score, whatever its title.

        Raises
        ------
        AuditError
            If a side is not there, or there is no such tagger.
        """
        tagger = _known(self.predicted) if self.predicted.kind == TAGGER else None
        about = [
            self.with_(title="", score_id="").plain(),
            [_state(one) for one in self.sides],
            "" if tagger is None else tagger.digest,
            _example(self.gold.ref) if self.gold.kind == EXAMPLE else None,
        ]
        # Salted: what was handed in can be guessed.
        score_id = salted_digest(f"score {json.dumps(about, sort_keys=True)}")[:12]
        return self.with_(score_id=score_id).asked(
            label="" if tagger is None else tagger.tagger_id,
            device=self._queue(tagger),
            about=score_id,
        )

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Measure; returns the identifier of the score. One that is kept is not made again."""
        if SCORES.place(self.score_id).is_dir():
            return (self.score_id,)
        clear_given(keep=[one.ref for one in self.sides])
        build_score(
            self, inputs=self._inputs(), score_id=self.score_id, progress=contact.listen,
            should_stop=contact.should_stop,
        )  # fmt: skip
        return (self.score_id,)

    def _queue(self, tagger: KnownTagger | None) -> str:
        if tagger is not None and not tagger.is_quick:
            return queue_of("auto")
        files = [_path(one) for one in self.sides if one.kind not in (EXAMPLE, TAGGER)]
        return SHORT if sum(path.stat().st_size for path in files) <= _SHORT_BYTES else "cpu"

    def _inputs(self) -> ScoreInputs:
        gold = _path(self.gold)
        training = None if self.training is None else _path(self.training)
        if self.predicted.kind == TAGGER:
            tagger = load_tagger(self.predicted.ref)
            return ScoreInputs(
                gold, None, training, tagger=tagger,
                tagger_name=tagger.name, tagger_digest=tagger.digest,
            )  # fmt: skip
        name = digest = ""
        if self.predicted.kind == TAGGED:
            marked = TAGGED_SETS.get(self.predicted.ref)
            name, digest = marked.tagger_id, marked.tagger_digest
        return ScoreInputs(
            gold, _path(self.predicted), training, tagger_name=name, tagger_digest=digest
        )


N_EXAMPLE, EXAMPLE_SEED = 200, 20261122
_SHORT_BYTES = 5_000_000  # of both sides together: what is counted within minutes


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


def _state(source: Source) -> list[object]:
    """Return what tells a side apart: what was given never changes, a file may."""
    if source.kind in (EXAMPLE, TAGGER):
        return [source.kind, source.ref]
    path = _path(source)
    is_file = source.kind == FILE
    return [source.kind, source.ref, states_of(path, where="gold notes") if is_file else None]


GOLD_FILE, PREDICTED_FILE, VERBATIM_FILE = "gold.jsonl", "predicted.jsonl", "verbatim.jsonl"
TAGGED_FROM = "tagged-from.json"
"""Which tagger has written the predictions of an earlier run, and of which gold notes."""
ABANDONED_SECONDS = 7 * 86400.0
_BATCH_NOTES, _BATCH_CHARS = 32, 100_000
OnUnits = Callable[[float], None]


@dataclass
class _Noticed:
    """What was seen while the sides were read: labels that the map does not know, and spans that
    it leaves out or that were given twice in one note.
    """  # noqa: D205

    unknown: set[str] = field(default_factory=set)
    n_left_out: int = 0
    n_duplicates: int = 0


def _notes_of(path: Path, *, what: str, on_bytes: OnUnits) -> Iterator[TaggedDocument]:
    """Yield the notes of a JSONL file, one in memory at a time."""
    reached = 0
    with opened(path, what) as file:
        for number, line, offset in numbered_lines(file, what=what):
            yield read_line(line, what=what, number=number)
            on_bytes(float(offset - reached))
            reached = offset


def _write(path: Path, notes: Iterable[TaggedDocument]) -> str:
    """Write notes; return the digest of them all, in any order."""
    digests = []
    with new_file(path) as file:
        for note in notes:
            line = jsonl_line(note).encode("utf-8", "surrogatepass")
            digests.append(hashlib.sha256(line).digest())
            file.write(line)
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def _mapped(
    notes: Iterable[TaggedDocument], *, by: LabelMap | None, noticed: _Noticed
) -> Iterator[TaggedDocument]:
    for note in notes:
        noticed.n_duplicates += note.n_duplicates
        if by is None:
            yield note
            continue
        mapped = relabelled(note, by=by)
        noticed.unknown |= set(mapped.unknown)
        noticed.n_left_out += mapped.n_left_out
        noticed.n_duplicates += mapped.document.n_duplicates
        yield mapped.document


def _write_tagged(
    gold: Path, folder: Path, *, tagger: Tagger, on_bytes: OnUnits, should_stop: StopQuestion
) -> None:
    """Write what a tagger says of the gold's texts; what a run before has written stays.

    Batches depend on the notes alone, so that a run which goes on asks the same. Of a tagger that
    writes copies of the notes, how faithful each one is goes into `copies.jsonl`.
    """
    grown = [folder / PREDICTED_FILE]
    n_notes = _BATCH_NOTES
    if isinstance(tagger, CopyingTagger):
        grown.append(folder / COPIES)
        n_notes = tagger.n_notes_at_once
    n_done = min(map(_whole_lines, grown))
    for path in grown:
        _whole_lines(path, at_most=n_done)
    n_seen = 0
    for batch, n_bytes in _batches(gold, n_notes=n_notes):
        n_seen += len(batch)
        skip = max(0, n_done - (n_seen - len(batch)))
        if skip < len(batch):
            lines = _asked(tagger, batch, should_stop=should_stop)
            for path, own in reversed(list(zip(grown, lines, strict=True))):
                with path.open("ab") as file:
                    path.chmod(0o600)
                    file.write("".join(own[skip:]).encode("utf-8", "surrogatepass"))
        on_bytes(n_bytes)


def _asked(
    tagger: Tagger, notes: Sequence[TaggedDocument], *, should_stop: StopQuestion
) -> list[list[str]]:
    """Return a line of each note with a tagger's spans, and of each copy where it writes copies."""
    if isinstance(tagger, CopyingTagger):
        found = tagger.read(notes, should_stop=should_stop)
        copies = [json.dumps(one.line(), ensure_ascii=False) + "\n" for one in found]
        return [[jsonl_line(one.document) for one in found], copies]
    tags = tag_checked(tagger, [note.text for note in notes])
    return [
        [jsonl_line(note.with_spans(spans)) for note, spans in zip(notes, tags, strict=True)]
    ]  # fmt: skip


def _batches(gold: Path, *, n_notes: int) -> Iterator[tuple[list[TaggedDocument], float]]:
    batch: list[TaggedDocument] = []
    n_chars, n_bytes = 0, 0.0

    def count(n: float) -> None:
        nonlocal n_bytes
        n_bytes += n

    for note in _notes_of(gold, what=GOLD, on_bytes=count):
        batch.append(note)
        n_chars += len(note.text)
        if len(batch) >= n_notes or n_chars >= _BATCH_CHARS:
            yield batch, n_bytes
            batch, n_chars, n_bytes = [], 0, 0.0
    if batch:
        yield batch, n_bytes


def _whole_lines(path: Path, *, at_most: int | None = None) -> int:
    """Return how many lines an earlier run has written; what is behind them is cut off."""
    if not path.is_file():
        return 0
    n_lines = at = 0
    with path.open("rb+") as file:
        for line in file:
            if n_lines == at_most or not line.endswith(b"\n") or not _is_json(line):
                break
            n_lines += 1
            at += len(line)
        file.truncate(at)
    return n_lines


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


Sums = dict[str, float]


def _write_exact(folder: Path, *, copies: Path) -> Sums:
    """Write the predictions of exact copies alone, and return the sums of all copies."""
    sums: Sums = {}
    exact: set[str] = set()
    try:
        with copies.open("rb") as lines:
            for line in lines:
                record = json.loads(line.decode("utf-8", "surrogatepass"))
                sums = added(sums, numbers_of(record))
                if record["status"] == EXACT:
                    exact.add(str(record["doc_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise AuditError("The tagger's copies cannot be read.", where="predicted notes") from None
    pairs = PairedFiles(folder / GOLD_FILE, folder / PREDICTED_FILE)
    kept = (found if note.doc_id in exact else note.with_spans(()) for note, found in pairs)
    _write(folder / VERBATIM_FILE, kept)
    return sums


READING, TAGGING, COMPARING, JUDGING = (
    "reading the gold notes", "tagging the notes", "comparing the spans", "drawing intervals",
)  # fmt: skip


@dataclass(frozen=True)
class ScoreInputs:
    """The JSONL files that an order means; `tagger` stands in the place of `predicted`.

    `tagger_name` and `tagger_digest` are what to write down of it; empty where unknown.
    """

    gold: Path
    predicted: Path | None = None
    training: Path | None = None
    tagger: Tagger | None = None
    tagger_name: str = ""
    tagger_digest: str = ""

    def __post_init__(self) -> None:
        """Check that there is one source of predictions, once."""
        if (self.predicted is None) == (self.tagger is None):
            raise ValueError("a score needs predictions or a tagger, one of the two")


def build_score(
    order: ScoreTask,
    *,
    inputs: ScoreInputs,
    score_id: str,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Make a score and return its folder.

    AuditError if a side cannot be read, the sides do not fit, or the folder cannot be written;
    AuditCancelled if the person asked to stop.
    """
    meter = _meter(inputs, progress, should_stop)
    with SCORES.making(score_id, stays=(PREDICTED_FILE, COPIES, TAGGED_FROM)) as folder:
        SCORES.clear_abandoned(seconds=ABANDONED_SECONDS)
        run = _Run(order, inputs, folder=folder, meter=meter)
        run.read(should_stop)
        score = run.compare()
        text = json.dumps(score.plain(), ensure_ascii=False) + "\n"
        write_whole(folder / SCORE, text.encode("utf-8", "surrogatepass"))
        for name in (GOLD_FILE, PREDICTED_FILE, VERBATIM_FILE, COPIES, TAGGED_FROM):
            (folder / name).unlink(missing_ok=True)
    meter.finish(JUDGING)
    return SCORES.place(score_id)


class _Run:
    """One way through the notes of both sides."""

    def __init__(
        self, order: ScoreTask, inputs: ScoreInputs, *, folder: Path, meter: Meter
    ) -> None:
        self._order, self._inputs = order, inputs
        self._folder, self._meter = folder, meter
        self._noticed = _Noticed()
        self._copies: Sums | None = None
        self._outputs: OutputFiles | None = None
        self._gold, self._predicted = folder / GOLD_FILE, folder / PREDICTED_FILE
        self._gold_digest = ""

    def _read_side(self, path: Path, what: str, *, out: Path, phase: str) -> str:
        notes = _notes_of(path, what=what, on_bytes=lambda n: self._meter.add(phase, n))
        return _write(out, _mapped(notes, by=self._order.mapping, noticed=self._noticed))

    def read(self, should_stop: StopQuestion) -> None:
        """Write both sides in one shape."""
        inputs = self._inputs
        self._gold_digest = self._read_side(inputs.gold, GOLD, out=self._gold, phase=READING)
        self._meter.finish(READING)
        if inputs.tagger is not None:
            self._forget_others_tags(inputs.tagger)
            _write_tagged(
                self._gold, self._folder, tagger=inputs.tagger, should_stop=should_stop,
                on_bytes=lambda n: self._meter.add(TAGGING, n),
            )  # fmt: skip
            self._read_copies(self._folder / COPIES)
        elif inputs.predicted is not None and self._order.predicted.kind == OUTPUTS:
            self._outputs = OutputFiles(self._gold, inputs.predicted)
            _write(self._predicted, self._told(self._outputs))
            _write(self._folder / VERBATIM_FILE, (note for _, note in self._outputs.verbatim()))
            self._copies = self._outputs.sums
        elif inputs.predicted is not None:
            self._read_side(inputs.predicted, PREDICTED, out=self._predicted, phase=TAGGING)
            self._read_copies(inputs.predicted.with_name(COPIES))
        self._meter.finish(TAGGING)

    def compare(self) -> Score:
        """Match and count both sides."""
        order = self._order
        files = PairedFiles(self._gold, self._predicted)
        spans = SpanWriter(self._folder, matcher=order.matcher)
        scored = score_pairs(self._recorded(files, spans), matcher=order.matcher)
        spans.close()
        self._meter.finish(COMPARING)
        write_patients(self._folder, scored)
        how = {"seed": order.seed, "n_replicates": order.n_replicates}
        summary = score_summary(scored, matcher=order.matcher, **how)
        verbatim = None
        if self._copies is not None:
            exact = PairedFiles(self._gold, self._folder / VERBATIM_FILE)
            pairs = score_pairs(exact, matcher=order.matcher)
            verbatim = score_summary(pairs, matcher=order.matcher, **how)
        sides = self._outputs or files
        return Score(
            title=one_line(order.title),
            created=now(),
            gold=order.gold,
            predicted=order.predicted,
            tagger={"name": self._inputs.tagger_name, "digest": self._inputs.tagger_digest},
            gold_digest=self._gold_digest,
            has_five_types=order.has_five_types,
            label_map=order.label_map,
            summary=summary.model_copy(update={"n_duplicate_spans": self._noticed.n_duplicates}),
            n_gold_only=sides.n_gold_only,
            n_predicted_only=sides.n_predicted_only,
            unknown_labels=tuple(sorted(self._noticed.unknown)),
            n_left_out=self._noticed.n_left_out,
            seen=self._seen(),
            copies=None if self._copies is None else copies_summary(self._copies),
            verbatim=verbatim,
        )

    def _told(self, outputs: OutputFiles) -> Iterator[TaggedDocument]:
        for note, predicted in outputs:
            yield predicted
            self._meter.add(TAGGING, float(len(note.text)))

    def _recorded(self, files: PairedFiles, spans: SpanWriter) -> Iterator[Pair]:
        for gold, predicted in files:
            spans.add(gold, predicted=predicted)
            # Characters are fewer than the bytes that were announced; the end counts the rest.
            self._meter.add(COMPARING, float(len(gold.text)))
            yield gold, predicted

    def _seen(self) -> SeenScore | None:
        """Return recall on names that the training notes held, and on others."""
        if self._inputs.training is None:
            return None
        training = _notes_of(
            self._inputs.training, what="training notes", on_bytes=lambda n: None
        )  # fmt: skip
        known = surface_forms(training)
        found = seen_recall(
            PairedFiles(self._gold, self._predicted), seen=known, criterion=HEADLINE_CRITERION,
            matcher=self._order.matcher,
        )  # fmt: skip
        return SeenScore(n_forms=len(known), labels=found)

    def _read_copies(self, copies: Path) -> None:
        """Note how faithful a tagger's copies are; most taggers write none."""
        if self._order.predicted.kind in (TAGGER, TAGGED) and copies.is_file():
            self._copies = _write_exact(self._folder, copies=copies)

    def _forget_others_tags(self, tagger: Tagger) -> None:
        """Keep the tags of an earlier run only if tagger and gold are the same."""
        now = {"tagger": tagger.digest, "gold": self._gold_digest}
        place = self._folder / TAGGED_FROM
        try:
            is_same = json.loads(place.read_bytes()) == now
        except (OSError, ValueError):
            is_same = False
        if not is_same:
            self._predicted.unlink(missing_ok=True)
            (self._folder / COPIES).unlink(missing_ok=True)
            write_whole(place, json.dumps(now).encode())


def _meter(inputs: ScoreInputs, progress: ProgressListener, should_stop: StopQuestion) -> Meter:
    try:
        size = float(inputs.gold.stat().st_size)
        other = float(inputs.predicted.stat().st_size) if inputs.predicted else size
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where="gold notes") from None
    totals = {READING: size, TAGGING: other, COMPARING: size, JUDGING: 0.2 * size}
    return Meter(totals, listener=progress, should_stop=should_stop)
