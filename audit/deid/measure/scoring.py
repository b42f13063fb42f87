"""Makes a score: reads both sides, matches them under all criteria, and keeps all counts or none.

The notes that a stopped run has tagged stay beside the score under another name, and the next run
of the same order resumes there.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import Field, model_validator

from audit.deid.find.copies import COPIES, OUTPUTS, PREDICTIONS, align_outputs, read_copies
from audit.deid.find.tagger_facts import LANGUAGES
from audit.deid.find.taggers import find_tagger, load_tagger
from audit.deid.measure.score_report import (
    EXAMPLE,
    FILE,
    GOLD_KINDS,
    PATIENTS,
    PREDICTED_KINDS,
    SCORE,
    SCORES,
    SPANS,
    TAGGED,
    TAGGER,
    Score,
    ScoreCounts,
    ScoreSummary,
    Source,
    score_pairs,
    score_summary,
    write_patients,
)
from audit.deid.measure.span_matching import OPTIMAL, Matcher
from audit.deid.measure.span_metrics import Pair
from audit.deid.redact.policy import ALL_OUT, Policy
from audit.deid.redact.release import Release
from audit.deid.sets.incoming_notes import SPANS as TAGGED_SPANS
from audit.deid.sets.incoming_notes import annotated_notes, clear_uploads, upload_path
from audit.deid.sets.tagged_sets import TAGGED_SETS
from audit.deid.sets.tagging import CENSUS, TAGGING, tag_notes, tagging_phase
from audit.errors import AuditError
from audit.home import make_salted_code
from audit.notes.formats import GOLD, PairedFiles, format_jsonl_line
from audit.notes.read import resolve_note_file
from audit.notes.spans import FIVE_TYPES, LabelMap, relabel_document
from audit.patients.finder import FINDER_VERSION
from audit.progress import FINISHING, Meter, Phase, combine_phases
from audit.shelf import (
    building_folder,
    clear_folder,
    create_file,
    json_line,
    make_time_stamp,
    one_line,
    write_whole,
)
from audit.stats import N_REPLICATES
from audit.task import MAX_SEED, SHORT, Contact, Question, Task, queue_of, read_file_states

MAX_REPLICATES = 100_000
EXAMPLES = Path(__file__).parent / "example"
"""Invented notes in styles that no training has seen, one file for each language."""
ABANDONED_SECONDS = 7 * 86400.0
_SHORT_BYTES = 5_000_000  # both sides together: counting takes minutes at most


class ScoreTask(Task):
    """The task to score a tagger.

    With `has_five_types`, labels of i2b2 2014, MEDDOCAN and others are mapped to the five types,
    and unknown labels are refused. `label_map` maps further labels to others, or to "" to leave
    their spans out. Only marks that the `policy` takes out count, on both sides; notes that were
    tagged under a policy are scored under it. `title` names the score without changing the
    question. `score_id` is known once the question is asked.
    """

    job = "score"

    gold: Source
    predicted: Source
    has_five_types: bool = Field(
        default=False, description="map labels of i2b2 2014, MEDDOCAN and others to the five types"
    )
    label_map: dict[str, str] = Field(default_factory=dict)
    policy: Policy = ALL_OUT
    matcher: Matcher = Field(default=OPTIMAL, description="how spans are paired")
    seed: int = Field(default=0, ge=0, le=MAX_SEED, description="of all that is drawn")
    n_replicates: int = Field(
        default=N_REPLICATES,
        ge=1,
        le=MAX_REPLICATES,
        title="replicates",
        description="of the bootstrap",
    )
    title: str = ""
    score_id: str = ""

    @model_validator(mode="after")
    def _check(self) -> ScoreTask:
        is_known = self.gold.kind in GOLD_KINDS and self.predicted.kind in PREDICTED_KINDS
        if not is_known or (self.gold.kind == EXAMPLE and self.gold.ref not in LANGUAGES):
            raise ValueError("notes cannot come from there")
        return self

    @property
    def mapping(self) -> LabelMap | None:
        """The map of labels; None if all labels stay as they are."""
        first = FIVE_TYPES.labels if self.has_five_types else {}
        return LabelMap({**first, **self.label_map}) if first or self.label_map else None

    def question(self) -> Question:
        """Return the question; equal questions have one score, whatever their titles."""
        sides = [side for side in (self.gold, self.predicted) if side.kind != TAGGER]
        paths = [(side.kind, _source_path(side)) for side in sides]
        tagger = None
        if self.predicted.kind == TAGGER:
            tagger = find_tagger(self.predicted.ref)
        # Uploads never change, files may.
        files = [path for kind, path in paths if kind in (EXAMPLE, FILE)]
        plain = self.with_(title="", score_id="").plain()
        del plain["policy"]
        about = [
            plain,
            read_file_states(*files, where=GOLD),
            f"{tagger.digest} {FINDER_VERSION}" if tagger else "",
            *self.policy.decisive(),
        ]
        # The digest is salted because the content of an upload could be guessed.
        score_id = make_salted_code("score", about)
        is_short = sum(path.stat().st_size for _, path in paths) <= _SHORT_BYTES
        device = SHORT if is_short else "cpu"
        if tagger and not tagger.is_quick:
            device = queue_of("auto")
        label = tagger.tagger_id if tagger else ""
        return self.with_(score_id=score_id).make_question(
            label=label, device=device, about=score_id
        )

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Make the score unless it is kept already; return its identifier."""
        if SCORES.place(self.score_id).is_dir():
            return (self.score_id,)
        clear_uploads(keep=[self.gold.ref, self.predicted.ref])
        with SCORES.making(self.score_id) as folder:
            SCORES.clear_abandoned(seconds=ABANDONED_SECONDS)
            run = _Run(self, folder, contact)
            write_whole(folder / SCORE, json_line(run.score().plain()))
            clear_folder(folder, but=(SCORE, PATIENTS, SPANS))
        shutil.rmtree(run.tags, ignore_errors=True)
        run.meter.finish(FINISHING)
        return (self.score_id,)


def _source_path(source: Source) -> Path:
    if source.kind == EXAMPLE:
        return EXAMPLES / f"{source.ref}.jsonl"
    if source.kind == FILE:
        return resolve_note_file(source.ref)
    if source.kind == TAGGED:
        marked = TAGGED_SETS.get(source.ref)
        if not marked.is_whole:
            raise AuditError(
                "This set is not tagged to its end.", where="score", do="Resume its job first."
            )
        return marked.spans_path
    return upload_path(source.ref)


COMPARING = "comparing the spans"
_MAX_NAMED = 20


def unknown_labels_error(labels: Collection[str]) -> AuditError:
    """Return the error that lists the labels that cannot be mapped to the five types."""
    named = ", ".join(sorted(labels)[:_MAX_NAMED]) + (" ..." if len(labels) > _MAX_NAMED else "")
    return AuditError(
        "{n_unknown} labels belong to none of the five types: {unknown}",
        where="label map",
        do="Say what they are with a label map; null leaves a label out.",
        n_unknown=len(labels),
        unknown=named,
    )


class _Run:
    """One pass through the notes of both sides."""

    def __init__(self, task: ScoreTask, folder: Path, contact: Contact) -> None:
        self.task, self.folder, self.contact = task, folder, contact
        self.gold = _source_path(task.gold)
        # The gold notes as the tagger tags them: a run that was stopped resumes there.
        self.tags = building_folder(SCORES.home() / f"{task.score_id}.tags")
        self.unknown: set[str] = set()
        self.golds: set[bytes] = set()
        self.n_left_out = 0
        self.policy = task.policy
        if task.predicted.kind == TAGGED and not task.policy.kinds_left:
            self.policy = TAGGED_SETS.get(task.predicted.ref).policy
        self.seconds: float | None = None

    def score(self) -> Score:
        """Get the predictions, tagging the notes if needed; match and count both sides."""
        task, n_without_gold = self.task, 0
        predicted, copies, tagger = self._get_predictions()
        if task.predicted.kind == OUTPUTS:
            n_without_gold = align_outputs(self.gold, predicted, folder=self.folder)
            predicted, copies = self.folder / PREDICTIONS, self.folder
        pairs = PairedFiles(self.gold, predicted)
        scored = self._count_spans(pairs)
        self.meter.add(FINISHING, 0)
        if self.unknown and task.has_five_types:
            raise unknown_labels_error(self.unknown)
        write_patients(self.folder, scored)
        n_left_out, unknown = self.n_left_out, tuple(sorted(self.unknown))
        copies_summary = verbatim = None
        if (copies / COPIES).is_file():
            copy_facts = read_copies(copies)
            copies_summary = copy_facts.summary()
            exact = self._map_labels(copy_facts.keep_verbatim(pairs))
            verbatim = self._summary(score_pairs(exact, matcher=task.matcher))
        return Score(
            title=one_line(task.title),
            created=make_time_stamp(),
            gold=task.gold,
            predicted=task.predicted,
            has_five_types=task.has_five_types,
            label_map=task.label_map,
            tagger=tagger,
            gold_digest=hashlib.sha256(b"".join(sorted(self.golds))).hexdigest(),
            summary=self._summary(scored),
            n_gold_only=pairs.n_gold_only,
            n_predicted_only=pairs.n_predicted_only + n_without_gold,
            unknown_labels=unknown,
            n_left_out=n_left_out,
            policy=self.policy,
            seconds=self.seconds,
            copies=copies_summary,
            verbatim=verbatim,
        )

    def _get_predictions(self) -> tuple[Path, Path, dict[str, str]]:
        """Return the predictions, the folder of copies, and the tagger, if it is known."""
        source, contact, size = self.task.predicted, self.contact, self.gold.stat().st_size
        if source.kind == TAGGER:
            scored_tagger = load_tagger(source.ref)
            self._plan(
                [combine_phases(TAGGING, [tagging_phase(scored_tagger, size)], kind=TAGGING)]
            )
            if not self.tags.is_dir():
                is_whole, start_time = not building_folder(self.tags).exists(), time.monotonic()
                tag_notes(
                    annotated_notes(self.gold, subject=GOLD),
                    tagger=scored_tagger,
                    folder=self.tags,
                    release=Release(),
                    progress=self.meter.make_listener(TAGGING),
                    should_stop=contact.should_stop,
                )
                self.seconds = time.monotonic() - start_time if is_whole else None
            self.meter.finish(TAGGING)
            # An earlier run may have tagged them before the tagger was trained again.
            census_tagger = json.loads((self.tags / CENSUS).read_bytes())["tagger"]
            tagger = {name: census_tagger[name] for name in ("name", "digest")}
            return self.tags / TAGGED_SPANS, self.tags, tagger
        self._plan([])
        path = _source_path(source)
        if source.kind != TAGGED:
            return path, self.folder, {"name": "", "digest": ""}
        marked = TAGGED_SETS.get(source.ref)
        tagger = {"name": marked.tagger_id, "digest": marked.tagger_digest}
        return path, path.parent, tagger

    def _plan(self, first_phases: Sequence[Phase]) -> None:
        size, contact = self.gold.stat().st_size, self.contact
        plan = [
            *first_phases,
            Phase(COMPARING, size, 2e-6, COMPARING),
            Phase(FINISHING, size * self.task.n_replicates, 1e-9, "summing up the score"),
        ]
        self.meter = Meter(plan, listener=contact.listen, should_stop=contact.should_stop)

    def _count_spans(self, pairs: PairedFiles) -> ScoreCounts:
        """Count both sides, and write the case of each span."""

        def report_pairs() -> Iterator[Pair]:
            for gold, predicted in self._map_labels(pairs):
                # There are fewer characters than announced bytes; `finish` counts the rest.
                self.meter.add(COMPARING, len(gold.text))
                yield gold, predicted
            self.meter.finish(COMPARING)

        with create_file(self.folder / SPANS) as file:
            return score_pairs(
                report_pairs(),
                matcher=self.task.matcher,
                on_case=lambda case: file.write(json_line(asdict(case))),
            )

    def _map_labels(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield notes with mapped labels; remember unmapped labels and digests of the golds."""
        by = self.task.mapping
        for gold, predicted in pairs:
            pair = gold, predicted
            if by is not None:
                gold_side, predicted_side = (
                    relabel_document(note, by=by) for note in (gold, predicted)
                )
                pair = gold_side.document, predicted_side.document
                self.unknown.update(gold_side.unknown, predicted_side.unknown)
                self.n_left_out += gold_side.n_left_out + predicted_side.n_left_out
            pair = self.policy.apply(pair[0])[0], self.policy.apply(pair[1])[0]
            line = format_jsonl_line(pair[0]).encode("utf-8", "surrogatepass")
            self.golds.add(hashlib.sha256(line).digest())
            yield pair

    def _summary(self, scored: ScoreCounts) -> ScoreSummary:
        task = self.task
        return score_summary(
            scored, matcher=task.matcher, seed=task.seed, n_replicates=task.n_replicates
        )
