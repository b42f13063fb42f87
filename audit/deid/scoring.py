"""Makes a score: both sides read, matched under all criteria, counted, kept whole or not at all.

What a stopped run has tagged stays beside the score under another name, and the next run of the
same order goes on there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pydantic import Field, model_validator

from audit.deid.cases import SpanWriter
from audit.deid.copies import (
    COPIES,
    PREDICTIONS,
    CopyingTagger,
    align_outputs,
    json_line,
    notes_in,
    read_copies,
)
from audit.deid.given import annotated_notes, clear_given, given_path, keep_notes
from audit.deid.matching import OPTIMAL, Matcher
from audit.deid.metrics import Pair
from audit.deid.score import (
    EXAMPLE,
    FILE,
    GIVEN,
    GOLD_KINDS,
    OUTPUTS,
    PREDICTED_KINDS,
    SCORE,
    SCORES,
    TAGGED,
    TAGGER,
    Score,
    Scored,
    ScoreSummary,
    SeenScore,
    Source,
    forms,
    score_pairs,
    score_summary,
    write_patients,
)
from audit.deid.tagged import TAGGED_SETS
from audit.deid.tagger import Tagger, tag_checked
from audit.deid.taggers import KnownTagger, known_taggers, load_tagger
from audit.errors import AuditError
from audit.home import salted_digest
from audit.notes.formats import GOLD, PREDICTED, PairedFiles, jsonl_line
from audit.notes.read import resolve_note_file
from audit.notes.spans import FIVE_TYPES, LabelMap, TaggedDocument, relabelled
from audit.progress import Meter
from audit.shelf import new_file, now, one_line, write_whole
from audit.stats import N_REPLICATES
from audit.task import SHORT, Contact, Question, Task, queue_of, states_of

LANGUAGES = ("ja", "en")
MAX_REPLICATES = 100_000
EXAMPLES = Path(__file__).parent / "example"
ABANDONED_SECONDS = 7 * 86400.0
_SHORT_BYTES = 5_000_000  # of both sides together: what is counted within minutes


class ScoreTask(Task):
    """What is to be scored.

    `training` are notes that the tagger has learned from, for names seen against unseen. With
    `has_five_types` labels of i2b2 2014, MEDDOCAN and others are mapped to the five types;
    `label_map` has more, from a label to another, "" leaves its spans out. `title` is what to call
    the score and makes no other question of it; `score_id` is known once the question is asked.
    """

    job = "score"

    gold: Source
    predicted: Source
    training: Source | None = None
    has_five_types: bool = False
    label_map: dict[str, str] = Field(default_factory=dict)
    matcher: Matcher = OPTIMAL
    seed: int = 0
    n_replicates: int = Field(default=N_REPLICATES, ge=1, le=MAX_REPLICATES)
    title: str = ""
    score_id: str = ""

    @model_validator(mode="after")
    def _check(self) -> ScoreTask:
        is_known = self.gold.kind in GOLD_KINDS and self.predicted.kind in PREDICTED_KINDS
        if self.training:
            is_known = is_known and self.training.kind in (GIVEN, FILE)
        if not is_known or (self.gold.kind == EXAMPLE and self.gold.ref not in LANGUAGES):
            raise ValueError("notes cannot come from there")
        return self

    @property
    def mapping(self) -> LabelMap | None:
        """The map of labels; None where all stay as they are."""
        first = FIVE_TYPES.labels if self.has_five_types else {}
        return LabelMap({**first, **self.label_map}) if first or self.label_map else None

    def question(self) -> Question:
        """Return the question; the same has the same score, whatever its title."""
        sides = list(filter(None, (self.gold, self.predicted, self.training)))
        tagger = _known(self.predicted.ref) if self.predicted.kind == TAGGER else None
        about = [
            self.with_(title="", score_id="").plain(),
            [_state(one) for one in sides],
            tagger.digest if tagger else "",
            _example(self.gold.ref) if self.gold.kind == EXAMPLE else None,
        ]
        # Salted: what was handed in can be guessed.
        score_id = salted_digest(f"score {json.dumps(about, sort_keys=True)}")[:12]
        if tagger and not tagger.is_quick:
            device = queue_of("auto")
        else:
            files = [_path(one) for one in sides if one.kind not in (EXAMPLE, TAGGER)]
            n_bytes = sum(path.stat().st_size for path in files)
            device = SHORT if n_bytes <= _SHORT_BYTES else "cpu"
        label = tagger.tagger_id if tagger else ""
        return self.with_(score_id=score_id).asked(label=label, device=device, about=score_id)

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Measure; returns the identifier of the score. One that is kept is not made again."""
        if SCORES.place(self.score_id).is_dir():
            return (self.score_id,)
        clear_given(keep=[one.ref for one in (self.gold, self.predicted, self.training) if one])
        with SCORES.making(self.score_id, stays=(PREDICTIONS, COPIES, TAGGED_FROM)) as folder:
            SCORES.clear_abandoned(seconds=ABANDONED_SECONDS)
            run = _Run(self, folder, contact)
            text = json.dumps(run.score().plain(), ensure_ascii=False) + "\n"
            write_whole(folder / SCORE, text.encode("utf-8", "surrogatepass"))
            for name in (GOLD_FILE, PREDICTIONS, COPIES, TAGGED_FROM):
                (folder / name).unlink(missing_ok=True)
        run.meter.finish(JUDGING)
        return (self.score_id,)


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


def _state(source: Source) -> list[object]:
    """Return what tells a side apart: what was given never changes, a file may."""
    if source.kind in (EXAMPLE, TAGGER):
        return [source.kind, source.ref]
    path = _path(source)
    state = states_of(path, where=GOLD) if source.kind == FILE else None
    return [source.kind, source.ref, state]


def _example(language: str) -> str:
    """Keep the example's notes, invented in styles that no training saw; return their digest."""
    path = EXAMPLES / f"{language}.jsonl"
    return keep_notes(annotated_notes(path, what="example").all()).digest


def _known(tagger_id: str) -> KnownTagger:
    for one in known_taggers():
        if one.tagger_id == tagger_id:
            return one
    raise AuditError(
        "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
    )


GOLD_FILE = "gold.jsonl"
TAGGED_FROM = "tagged-from.json"
"""Which tagger has written the predictions of an earlier run, and of which gold notes."""
_BATCH_NOTES = 32
READING, TAGGING, COMPARING, JUDGING = (
    "reading the gold notes", "tagging the notes", "comparing the spans", "drawing intervals",
)  # fmt: skip


class _Run:
    """One way through the notes of both sides, written into the score's folder in one shape."""

    def __init__(self, task: ScoreTask, folder: Path, contact: Contact) -> None:
        self.task, self.folder, self.contact = task, folder, contact
        is_tagger = task.predicted.kind == TAGGER
        self.gold = _path(task.gold)
        self.predicted = self.gold if is_tagger else _path(task.predicted)  # it reads as much
        self.unknown: set[str] = set()
        self.n_left_out = self.n_duplicates = 0
        size, other = (float(path.stat().st_size) for path in (self.gold, self.predicted))
        self.meter = Meter(
            {READING: size, TAGGING: other, COMPARING: size, JUDGING: 0.2 * size},
            listener=contact.listen,
            should_stop=contact.should_stop,
        )

    def score(self) -> Score:
        """Write both sides, match and count them."""
        task, kind = self.task, self.task.predicted.kind
        gold_digest = self._write(self.gold, GOLD_FILE, what=GOLD, phase=READING)
        self.meter.finish(READING)
        tagger, copies, n_without_gold = {"name": "", "digest": ""}, self.folder, 0
        if kind == TAGGER:
            found = load_tagger(task.predicted.ref)
            tagger = {"name": found.name, "digest": found.digest}
            self._tag(found, of=json.dumps({"tagger": found.digest, "gold": gold_digest}).encode())
        elif kind == OUTPUTS:
            n_without_gold = align_outputs(
                self.folder / GOLD_FILE, self.predicted, folder=self.folder,
                on_chars=lambda n: self.meter.add(TAGGING, n),
            )  # fmt: skip
        else:
            self._write(self.predicted, PREDICTIONS, what=PREDICTED, phase=TAGGING)
            if kind == TAGGED:
                marked = TAGGED_SETS.get(task.predicted.ref)
                tagger = {"name": marked.tagger_id, "digest": marked.tagger_digest}
                copies = self.predicted.parent
        self.meter.finish(TAGGING)
        pairs = PairedFiles(self.folder / GOLD_FILE, self.folder / PREDICTIONS)
        summary, seen = self._compared(pairs)
        told = verbatim = None
        if (copies / COPIES).is_file():
            known = read_copies(copies)
            told = known.summary()
            verbatim = self._summary(score_pairs(known.verbatim(pairs), matcher=task.matcher))
        return Score(
            title=one_line(task.title),
            created=now(),
            gold=task.gold,
            predicted=task.predicted,
            has_five_types=task.has_five_types,
            label_map=task.label_map,
            tagger=tagger,
            gold_digest=gold_digest,
            summary=summary.with_(n_duplicate_spans=self.n_duplicates),
            n_gold_only=pairs.n_gold_only,
            n_predicted_only=pairs.n_predicted_only + n_without_gold,
            unknown_labels=tuple(sorted(self.unknown)),
            n_left_out=self.n_left_out,
            seen=seen,
            copies=told,
            verbatim=verbatim,
        )

    def _write(self, path: Path, name: str, *, what: str, phase: str) -> str:
        """Write the notes of a file, labels mapped; return the digest of them all, in any order."""
        by, digests = self.task.mapping, []
        with new_file(self.folder / name) as out:
            for given in notes_in(path, what):
                note = given
                if by is not None:
                    mapped = relabelled(given, by=by)
                    note = mapped.document
                    self.unknown |= set(mapped.unknown)
                    self.n_left_out += mapped.n_left_out
                    self.n_duplicates += note.n_duplicates
                self.n_duplicates += given.n_duplicates
                data = _line(note)
                digests.append(hashlib.sha256(data).digest())
                self.meter.add(phase, float(out.write(data)))
        return hashlib.sha256(b"".join(sorted(digests))).hexdigest()

    def _tag(self, tagger: Tagger, *, of: bytes) -> None:
        """Write what a tagger says of the gold's texts; what a run before has written stays.

        That is so if it was `of` the same tagger and gold. Batches depend on the notes alone, so
        that a run which goes on asks the same. Of a tagger that writes copies of the notes, how
        faithful each one is goes into `COPIES`.
        """
        # The predictions of a note are written last: who finds them finds its copy too.
        paths, n_notes = [self.folder / PREDICTIONS], _BATCH_NOTES
        if isinstance(tagger, CopyingTagger):
            paths, n_notes = [self.folder / COPIES, *paths], tagger.n_notes_at_once
        place = self.folder / TAGGED_FROM
        is_same = place.is_file() and place.read_bytes() == of
        n_done = min(map(_whole_lines, paths)) // n_notes * n_notes if is_same else 0
        for path in paths:
            _whole_lines(path, at_most=n_done)
        write_whole(place, of)
        notes = islice(notes_in(self.folder / GOLD_FILE, GOLD), n_done, None)
        while batch := list(islice(notes, n_notes)):
            lines = self._asked(tagger, batch)
            for path, own in zip(paths, lines, strict=True):
                with path.open("ab") as file:
                    path.chmod(0o600)
                    file.writelines(own)
            self.meter.add(TAGGING, float(sum(map(len, lines[-1]))))

    def _asked(self, tagger: Tagger, notes: list[TaggedDocument]) -> list[list[bytes]]:
        """Return a line of each copy where a tagger writes copies, and one of each note."""
        if isinstance(tagger, CopyingTagger):
            found = tagger.read(notes, should_stop=self.contact.should_stop)
            copies = [json_line(one.line()) for one in found]
            return [copies, [_line(one.document) for one in found]]
        tags = tag_checked(tagger, [note.text for note in notes])
        return [[_line(note.with_spans(own)) for note, own in zip(notes, tags, strict=True)]]

    def _compared(self, pairs: PairedFiles) -> tuple[ScoreSummary, SeenScore | None]:
        """Count both sides, keeping the cases; recall on names of the training notes and others."""
        task = self.task
        notes = notes_in(_path(task.training), "training notes") if task.training else ()
        known = {form for note in notes for form in forms(note)}
        writer = SpanWriter(self.folder)

        def counted() -> Iterator[Pair]:
            for gold, predicted in pairs:
                # Characters are fewer than the bytes that were announced; the end counts the rest.
                self.meter.add(COMPARING, float(len(gold.text)))
                yield gold, predicted

        scored = score_pairs(counted(), matcher=task.matcher, writer=writer, known=known)
        writer.close()
        self.meter.finish(COMPARING)
        write_patients(self.folder, scored)
        seen = SeenScore.of(scored, n_forms=len(known)) if task.training else None
        return self._summary(scored), seen

    def _summary(self, scored: Scored) -> ScoreSummary:
        task = self.task
        return score_summary(
            scored, matcher=task.matcher, seed=task.seed, n_replicates=task.n_replicates
        )


def _line(note: TaggedDocument) -> bytes:
    return jsonl_line(note).encode("utf-8", "surrogatepass")


def _whole_lines(path: Path, *, at_most: int | None = None) -> int:
    """Return how many lines an earlier run has written; what is behind them is cut off."""
    if not path.is_file():
        return 0
    n_lines = at = 0
    with path.open("rb+") as file:
        for line in file:
            if n_lines == at_most or not line.endswith(b"}\n"):
                break
            n_lines += 1
            at += len(line)
        file.truncate(at)
    return n_lines
