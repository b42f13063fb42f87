"""Makes a score: both sides read, matched under all criteria, counted, kept whole or not at all.

What a stopped run has tagged stays beside the score under another name, and the next run of the
same order goes on there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pydantic import Field, model_validator

from audit.deid.cases import SpanWriter
from audit.deid.copies import (
    COPIES,
    PREDICTIONS,
    Copies,
    CopyingTagger,
    align_outputs,
    copies_summary,
    json_line,
    notes_in,
    read_copies,
)
from audit.deid.given import clear_given, given_path, keep_notes
from audit.deid.matching import OPTIMAL, Matcher
from audit.deid.metrics import Pair, SeenScore, seen_score
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
    Score,
    Scored,
    ScoreSummary,
    Source,
    score_pairs,
    score_summary,
    write_patients,
)
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
)
from audit.notes.read import resolve_note_file
from audit.notes.spans import FIVE_TYPES, LabelMap, TaggedDocument, relabelled
from audit.progress import Meter
from audit.shelf import new_file, now, one_line, write_whole
from audit.stats import N_REPLICATES
from audit.task import SHORT, Contact, Question, Task, queue_of, states_of

LANGUAGES = ("ja", "en")
MAX_REPLICATES = 100_000
N_EXAMPLE, EXAMPLE_SEED = 200, 20261122
ABANDONED_SECONDS = 7 * 86400.0
_SHORT_BYTES = 5_000_000  # of both sides together: what is counted within minutes


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
    matcher: Matcher = OPTIMAL
    seed: int = 0
    n_replicates: int = Field(default=N_REPLICATES, ge=1, le=MAX_REPLICATES)
    title: str = ""
    score_id: str = ""
    """Known once the question is asked."""

    @model_validator(mode="after")
    def _check(self) -> ScoreTask:
        training = (None if self.training is None else self.training.kind) in (None, GIVEN, FILE)
        sides = self.gold.kind in GOLD_KINDS and self.predicted.kind in PREDICTED_KINDS
        language = self.gold.kind != EXAMPLE or self.gold.ref in LANGUAGES
        if not (training and sides and language):
            raise ValueError("notes cannot come from there")
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
        """Return the question; the same has the same score, whatever its title."""
        tagger = _known(self.predicted.ref) if self.predicted.kind == TAGGER else None
        about = [
            self.with_(title="", score_id="").plain(),
            [_state(one) for one in self.sides],
            tagger.digest if tagger else "",
            _example(self.gold.ref) if self.gold.kind == EXAMPLE else None,
        ]
        # Salted: what was handed in can be guessed.
        score_id = salted_digest(f"score {json.dumps(about, sort_keys=True)}")[:12]
        if tagger and not tagger.is_quick:
            device = queue_of("auto")
        else:
            files = [_path(one) for one in self.sides if one.kind not in (EXAMPLE, TAGGER)]
            n_bytes = sum(path.stat().st_size for path in files)
            device = SHORT if n_bytes <= _SHORT_BYTES else "cpu"
        label = tagger.tagger_id if tagger else ""
        return self.with_(score_id=score_id).asked(label=label, device=device, about=score_id)

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Measure; returns the identifier of the score. One that is kept is not made again."""
        if SCORES.place(self.score_id).is_dir():
            return (self.score_id,)
        clear_given(keep=[one.ref for one in self.sides])
        with SCORES.making(self.score_id, stays=(PREDICTIONS, COPIES, TAGGED_FROM)) as folder:
            SCORES.clear_abandoned(seconds=ABANDONED_SECONDS)
            run = _Run(self, folder, contact)
            score = run.compare(run.read())
            text = json.dumps(score.plain(), ensure_ascii=False) + "\n"
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
    from audit.deid.synthetic import HELD_OUT_STYLES, synthetic_notes

    notes = synthetic_notes(
        N_EXAMPLE, seed=EXAMPLE_SEED, language=language, styles=HELD_OUT_STYLES[language]
    )
    return keep_notes(tuple(notes)).digest


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


@dataclass
class _Run:
    """One way through the notes of both sides, written into the score's folder in one shape."""

    task: ScoreTask
    folder: Path
    contact: Contact
    gold_digest: str = ""
    tagger: dict[str, str] = field(default_factory=lambda: {"name": "", "digest": ""})
    unknown: set[str] = field(default_factory=set)
    n_left_out: int = 0
    n_duplicates: int = 0
    n_without_gold: int = 0

    def __post_init__(self) -> None:
        """Find the files; a tagger reads as much as is given."""
        self.gold_path = _path(self.task.gold)
        is_tagger = self.task.predicted.kind == TAGGER
        self.path = self.gold_path if is_tagger else _path(self.task.predicted)
        size, other = (float(path.stat().st_size) for path in (self.gold_path, self.path))
        self.meter = Meter(
            {READING: size, TAGGING: other, COMPARING: size, JUDGING: 0.2 * size},
            listener=self.contact.listen,
            should_stop=self.contact.should_stop,
        )

    @property
    def pairs(self) -> PairedFiles:
        """The notes of both sides."""
        return PairedFiles(self.folder / GOLD_FILE, self.folder / PREDICTIONS)

    def read(self) -> Copies | None:
        """Write both sides; returns how faithful copies are where a model wrote any."""
        kind, ref = self.task.predicted.kind, self.task.predicted.ref
        self.gold_digest = self._write(self.gold_path, GOLD_FILE, what=GOLD, phase=READING)
        self.meter.finish(READING)
        copies = self.folder
        if kind == TAGGER:
            tagger = load_tagger(ref)
            self.tagger = {"name": tagger.name, "digest": tagger.digest}
            self._forget_others_tags()
            self._tag(tagger)
        elif kind == OUTPUTS:
            self.n_without_gold = align_outputs(
                self.folder / GOLD_FILE, self.path, folder=self.folder,
                on_chars=lambda n: self.meter.add(TAGGING, n),
            )  # fmt: skip
        else:
            self._write(self.path, PREDICTIONS, what=PREDICTED, phase=TAGGING)
            if kind == TAGGED:
                marked = TAGGED_SETS.get(ref)
                self.tagger = {"name": marked.tagger_id, "digest": marked.tagger_digest}
                copies = self.path.parent
        self.meter.finish(TAGGING)
        return read_copies(copies) if (copies / COPIES).is_file() else None

    def compare(self, copies: Copies | None) -> Score:
        """Match and count both sides."""
        task, files = self.task, self.pairs
        spans = SpanWriter(self.folder, matcher=task.matcher)
        scored = score_pairs(self._recorded(files, spans), matcher=task.matcher)
        spans.close()
        self.meter.finish(COMPARING)
        write_patients(self.folder, scored)
        verbatim = None
        if copies is not None:
            exact = score_pairs(copies.verbatim(self.pairs), matcher=task.matcher)
            verbatim = self._summary(exact)
        return Score(
            title=one_line(task.title),
            created=now(),
            gold=task.gold,
            predicted=task.predicted,
            tagger=self.tagger,
            gold_digest=self.gold_digest,
            has_five_types=task.has_five_types,
            label_map=task.label_map,
            summary=self._summary(scored).with_(n_duplicate_spans=self.n_duplicates),
            n_gold_only=files.n_gold_only,
            n_predicted_only=files.n_predicted_only + self.n_without_gold,
            unknown_labels=tuple(sorted(self.unknown)),
            n_left_out=self.n_left_out,
            seen=self._seen(),
            copies=copies_summary(copies.sums) if copies else None,
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
                data = jsonl_line(note).encode("utf-8", "surrogatepass")
                digests.append(hashlib.sha256(data).digest())
                self.meter.add(phase, float(out.write(data)))
        return hashlib.sha256(b"".join(sorted(digests))).hexdigest()

    def _forget_others_tags(self) -> None:
        """Keep the tags of an earlier run only if tagger and gold are the same."""
        own = json.dumps({"tagger": self.tagger["digest"], "gold": self.gold_digest}).encode()
        place = self.folder / TAGGED_FROM
        if not place.is_file() or place.read_bytes() != own:
            for name in (PREDICTIONS, COPIES):
                (self.folder / name).unlink(missing_ok=True)
            write_whole(place, own)

    def _tag(self, tagger: Tagger) -> None:
        """Write what a tagger says of the gold's texts; what a run before has written stays.

        Batches depend on the notes alone, so that a run which goes on asks the same. Of a tagger
        that writes copies of the notes, how faithful each one is goes into `COPIES`.
        """
        # The predictions of a note are written last: who finds them finds its copy too.
        paths, n_notes = [self.folder / PREDICTIONS], _BATCH_NOTES
        if isinstance(tagger, CopyingTagger):
            paths, n_notes = [self.folder / COPIES, *paths], tagger.n_notes_at_once
        n_done = min(map(_whole_lines, paths)) // n_notes * n_notes
        for path in paths:
            _whole_lines(path, at_most=n_done)
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
        copies = []
        if isinstance(tagger, CopyingTagger):
            found = tagger.read(notes, should_stop=self.contact.should_stop)
            copies = [[json_line(one.line()) for one in found]]
            marked = [one.document for one in found]
        else:
            tags = tag_checked(tagger, [note.text for note in notes])
            marked = [note.with_spans(spans) for note, spans in zip(notes, tags, strict=True)]
        return [*copies, [jsonl_line(one).encode("utf-8", "surrogatepass") for one in marked]]

    def _recorded(self, files: PairedFiles, spans: SpanWriter) -> Iterator[Pair]:
        for gold, predicted in files:
            spans.add(gold, predicted=predicted)
            # Characters are fewer than the bytes that were announced; the end counts the rest.
            self.meter.add(COMPARING, float(len(gold.text)))
            yield gold, predicted

    def _summary(self, scored: Scored) -> ScoreSummary:
        task = self.task
        return score_summary(
            scored, matcher=task.matcher, seed=task.seed, n_replicates=task.n_replicates
        )

    def _seen(self) -> SeenScore | None:
        """Return recall on names that the training notes held, and on others."""
        if self.task.training is None:
            return None
        training = notes_in(_path(self.task.training), "training notes")
        return seen_score(
            self.pairs, training, criterion=HEADLINE_CRITERION, matcher=self.task.matcher
        )


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
