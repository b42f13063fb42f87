"""Makes a score: both sides read, matched under all criteria, counted, kept whole or not at all.

What a stopped run has tagged stays beside the score under another name, and the next run of the
same order goes on there.
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

from audit.deid.copies import COPIES, PREDICTIONS, align_outputs, json_line, read_copies
from audit.deid.incoming_notes import SPANS as TAGGED_SPANS
from audit.deid.incoming_notes import annotated_notes, clear_given, given_path
from audit.deid.policy import ALL_OUT, Policy
from audit.deid.release import Release
from audit.deid.score_report import (
    EXAMPLE,
    FILE,
    GOLD_KINDS,
    OUTPUTS,
    PATIENTS,
    PREDICTED_KINDS,
    SCORE,
    SCORES,
    SPANS,
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
from audit.deid.span_matching import OPTIMAL, Matcher
from audit.deid.span_metrics import Pair
from audit.deid.tagged_sets import TAGGED_SETS
from audit.deid.taggers import find_tagger, load_tagger
from audit.deid.tagging import CENSUS, TAGGING, tag_notes, tagging
from audit.errors import AuditError
from audit.home import salted_digest
from audit.notes.formats import GOLD, PairedFiles, format_jsonl_line
from audit.notes.read import resolve_note_file
from audit.notes.spans import FIVE_TYPES, LabelMap, relabel_document
from audit.patients.finder import FINDER_VERSION
from audit.progress import FINISHING, Meter, Phase, whole
from audit.shelf import building_folder, clear_folder, new_file, now, one_line, write_whole
from audit.stats import N_REPLICATES
from audit.task import MAX_SEED, SHORT, Contact, Question, Task, queue_of, states_of

LANGUAGES = ("ja", "en")
MAX_REPLICATES = 100_000
EXAMPLES = Path(__file__).parent / "example"
"""Notes invented in styles that no training saw, a file of each language."""
ABANDONED_SECONDS = 7 * 86400.0
_SHORT_BYTES = 5_000_000  # of both sides together: what is counted within minutes


class ScoreTask(Task):
    """What is to be scored.

    With `has_five_types` labels of i2b2 2014, MEDDOCAN and others are mapped to the five types, and
    one that is not known is refused; `label_map` has more, from a label to another, "" leaves its
    spans out. On both sides those marks count that the `policy` takes out; notes that were tagged
    under one are scored under it. `title` is what to call the score and makes no other question of
    it; `score_id` is known once the question is asked.
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
        """The map of labels; None where all stay as they are."""
        first = FIVE_TYPES.labels if self.has_five_types else {}
        return LabelMap({**first, **self.label_map}) if first or self.label_map else None

    def question(self) -> Question:
        """Return the question; the same has the same score, whatever its title."""
        sides = [one for one in (self.gold, self.predicted) if one.kind != TAGGER]
        paths = [(one.kind, _path(one)) for one in sides]
        tagger = None
        if self.predicted.kind == TAGGER:
            tagger = find_tagger(self.predicted.ref)
        # What was given never changes, a file may.
        files = [path for kind, path in paths if kind in (EXAMPLE, FILE)]
        plain = self.with_(title="", score_id="").plain()
        del plain["policy"]
        about = [
            plain,
            states_of(*files, where=GOLD),
            f"{tagger.digest} {FINDER_VERSION}" if tagger else "",
            *self.policy.decisive(),
        ]
        # Salted: what was handed in can be guessed.
        score_id = salted_digest(f"score {json.dumps(about, sort_keys=True)}")[:12]
        is_short = sum(path.stat().st_size for _, path in paths) <= _SHORT_BYTES
        device = SHORT if is_short else "cpu"
        if tagger and not tagger.is_quick:
            device = queue_of("auto")
        label = tagger.tagger_id if tagger else ""
        return self.with_(score_id=score_id).asked(label=label, device=device, about=score_id)

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Measure; returns the identifier of the score. One that is kept is not made again."""
        if SCORES.place(self.score_id).is_dir():
            return (self.score_id,)
        clear_given(keep=[self.gold.ref, self.predicted.ref])
        with SCORES.making(self.score_id) as folder:
            SCORES.clear_abandoned(seconds=ABANDONED_SECONDS)
            run = _Run(self, folder, contact)
            write_whole(folder / SCORE, json_line(run.score().plain()))
            clear_folder(folder, but=(SCORE, PATIENTS, SPANS))
        shutil.rmtree(run.tags, ignore_errors=True)
        run.meter.finish(FINISHING)
        return (self.score_id,)


def _path(source: Source) -> Path:
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
    return given_path(source.ref)


COMPARING = "comparing the spans"
_MAX_NAMED = 20


def of_no_type(labels: Collection[str]) -> AuditError:
    """Return the error that names labels which cannot be mapped to the five types."""
    named = ", ".join(sorted(labels)[:_MAX_NAMED]) + (" ..." if len(labels) > _MAX_NAMED else "")
    return AuditError(
        "{n_unknown} labels belong to none of the five types: {unknown}",
        where="label map",
        do="Say what they are with a label map; null leaves a label out.",
        n_unknown=len(labels),
        unknown=named,
    )


class _Run:
    """One way through the notes of both sides."""

    def __init__(self, task: ScoreTask, folder: Path, contact: Contact) -> None:
        self.task, self.folder, self.contact = task, folder, contact
        self.gold = _path(task.gold)
        # What a tagger says of the gold notes: a run that was stopped goes on there.
        self.tags = building_folder(SCORES.home() / f"{task.score_id}.tags")
        self.unknown: set[str] = set()
        self.golds: set[bytes] = set()
        self.n_left_out = 0
        self.policy = task.policy
        if task.predicted.kind == TAGGED and not task.policy.left:
            self.policy = TAGGED_SETS.get(task.predicted.ref).policy
        self.seconds: float | None = None

    def score(self) -> Score:
        """Ask for the predictions where they are not there yet, match and count both sides."""
        task, n_without_gold = self.task, 0
        predicted, copies, tagger = self._predicted()
        if task.predicted.kind == OUTPUTS:
            n_without_gold = align_outputs(self.gold, predicted, folder=self.folder)
            predicted, copies = self.folder / PREDICTIONS, self.folder
        pairs = PairedFiles(self.gold, predicted)
        scored = self._spans_kept(pairs)
        self.meter.add(FINISHING, 0)
        if self.unknown and task.has_five_types:
            raise of_no_type(self.unknown)
        write_patients(self.folder, scored)
        n_left_out, unknown = self.n_left_out, tuple(sorted(self.unknown))
        told = verbatim = None
        if (copies / COPIES).is_file():
            known = read_copies(copies)
            told = known.summary()
            exact = self._mapped(known.verbatim(pairs))
            verbatim = self._summary(score_pairs(exact, matcher=task.matcher))
        return Score(
            title=one_line(task.title),
            created=now(),
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
            copies=told,
            verbatim=verbatim,
        )

    def _predicted(self) -> tuple[Path, Path, dict[str, str]]:
        """Return the predictions, the folder of copies, and which tagger they are of, if known."""
        source, contact, size = self.task.predicted, self.contact, self.gold.stat().st_size
        if source.kind == TAGGER:
            found = load_tagger(source.ref)
            self._plan([whole(TAGGING, [tagging(found, size)], kind=TAGGING)])
            if not self.tags.is_dir():
                is_whole, begun = not building_folder(self.tags).exists(), time.monotonic()
                tag_notes(
                    annotated_notes(self.gold, what=GOLD),
                    tagger=found,
                    out=self.tags,
                    release=Release(),
                    progress=self.meter.part(TAGGING),
                    should_stop=contact.should_stop,
                )
                self.seconds = time.monotonic() - begun if is_whole else None
            self.meter.finish(TAGGING)
            # An earlier run may have tagged them with an older version of the tagger.
            told = json.loads((self.tags / CENSUS).read_bytes())["tagger"]
            tagger = {name: told[name] for name in ("name", "digest")}
            return self.tags / TAGGED_SPANS, self.tags, tagger
        self._plan([])
        path = _path(source)
        if source.kind != TAGGED:
            return path, self.folder, {"name": "", "digest": ""}
        marked = TAGGED_SETS.get(source.ref)
        tagger = {"name": marked.tagger_id, "digest": marked.tagger_digest}
        return path, path.parent, tagger

    def _plan(self, before: Sequence[Phase]) -> None:
        size, contact = self.gold.stat().st_size, self.contact
        plan = [
            *before,
            Phase(COMPARING, size, 2e-6, COMPARING),
            Phase(FINISHING, size * self.task.n_replicates, 1e-9, "summing up the score"),
        ]
        self.meter = Meter(plan, listener=contact.listen, should_stop=contact.should_stop)

    def _spans_kept(self, pairs: PairedFiles) -> Scored:
        """Count both sides, and write what became of each span."""

        def counted() -> Iterator[Pair]:
            for gold, predicted in self._mapped(pairs):
                # Characters are fewer than the bytes that were announced; the end counts the rest.
                self.meter.add(COMPARING, len(gold.text))
                yield gold, predicted
            self.meter.finish(COMPARING)

        with new_file(self.folder / SPANS) as file:
            return score_pairs(
                counted(),
                matcher=self.task.matcher,
                on_case=lambda case: file.write(json_line(asdict(case))),
            )

    def _mapped(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield notes with their labels mapped; note what was mapped to nothing, and the golds."""
        by = self.task.mapping
        for gold, predicted in pairs:
            pair = gold, predicted
            if by is not None:
                one, other = (relabel_document(note, by=by) for note in (gold, predicted))
                pair = one.document, other.document
                self.unknown.update(one.unknown, other.unknown)
                self.n_left_out += one.n_left_out + other.n_left_out
            pair = self.policy.applied(pair[0])[0], self.policy.applied(pair[1])[0]
            line = format_jsonl_line(pair[0]).encode("utf-8", "surrogatepass")
            self.golds.add(hashlib.sha256(line).digest())
            yield pair

    def _summary(self, scored: Scored) -> ScoreSummary:
        task = self.task
        return score_summary(
            scored, matcher=task.matcher, seed=task.seed, n_replicates=task.n_replicates
        )
