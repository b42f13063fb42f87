"""Makes a corpus from an order: builds it, plants canaries, examines it, writes its lists.

Comes in: an order, a folder. Goes out: the folder with D_private, D_public, the truth, counts,
candidates and passages; whole, or not there. Every byte depends on the notes and the order, not on
the number of workers (the time stamp of `corpus.json` apart).

Source: Nakamura et al., sections 3.2 to 3.4.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.corpora.build import build_corpus
from audit.corpora.build_summary import REFUSED, read_summary
from audit.corpora.canaries import CanaryPlan
from audit.corpora.listed_notes import LISTED, ListedNotes, listed_bytes
from audit.corpora.notes import NoteSource, open_notes
from audit.corpora.register import read_register
from audit.corpora.register_build import build_registered_corpus
from audit.curation.candidate_draw import Drawn, draw_candidates
from audit.curation.corpus_lists import drawn_record
from audit.curation.corpus_place import corpus_place
from audit.curation.examination import EXAMINATION, CountOf, Examination, examination_bytes
from audit.curation.examine_pass import Examiner, Passed
from audit.curation.kept_corpora import CORPUS, describe_corpus
from audit.curation.list_files import CANARIES, CANDIDATES, canaries_csv, candidates_csv
from audit.curation.note_files import resolve_note_file
from audit.curation.order import CorpusOrder, order_to_json
from audit.curation.people import People
from audit.curation.sampling import sampled
from audit.curation.stages import Stages
from audit.errors import AuditError
from audit.progress import ProgressListener, StopQuestion
from audit.report import write_private_files

SAMPLE, BUILD, NAMES, EXAMINE, LISTS = (
    "drawing a sample of the notes",
    "building the corpus",
    "looking for names",
    "examining the corpus",
    "drawing candidates",
)
# About how long each takes, for the time left.
_WEIGHTS = {SAMPLE: 1.0, BUILD: 6.0, NAMES: 2.0, EXAMINE: 6.0, LISTS: 0.2}
_REASONS = 200


@dataclass(frozen=True)
class _Built:
    """What a build counted, whatever its kind."""

    n_refused: int
    is_blank: bool
    summary: dict[str, object]


def make_corpus(
    order: CorpusOrder,
    *,
    out: Path,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Make a corpus and return its folder.

    Parameters
    ----------
    order
        What it is to be made of.
    out
        The folder to make: must not be there, or be empty. It appears when it is whole.
    progress, should_stop
        As `Meter` tells and asks.

    Raises
    ------
    AuditError
        If the notes or the register cannot be read, there are too few notes or names for the
        canaries, or the folder cannot be written.
    AuditCancelled
        If the person asked to stop; nothing is left.
    """
    notes, register = paths_of(order)
    source = open_notes(notes, columns=dict(order.columns))
    stages = Stages(_weights(order), listener=progress, should_stop=should_stop)
    with corpus_place(out) as folder:
        if order.sample is not None:
            meter = stages.meter(SAMPLE, total=float(source.n_bytes))
            source = sampled(source, n=order.sample, seed=order.seed, meter=meter, phase=SAMPLE)
        built = _build(order, source, register, folder, stages)
        people = People(folder, kind=order.kind)
        examiner = Examiner(order, folder, people=people, is_blank=built.is_blank)
        if order.has_canaries:
            examiner.plan_canaries(stages, phase=NAMES)
        passed = examiner.examine(stages, phase=EXAMINE)
        lists = stages.meter(LISTS, total=1.0)
        drawn = draw_candidates(order, passed, people=people)
        candidates = candidates_csv(drawn.lists)
        record = drawn_record(folder, candidates)
        write_private_files(
            {
                CANDIDATES: candidates,
                CANARIES: canaries_csv(passed.plan),
                LISTED: listed_bytes(_listed(passed, drawn)),
                EXAMINATION: examination_bytes(_examination(folder, built, passed, drawn, people)),
                CORPUS: _described(order, passed, people, name=notes.name, record=record),
            },
            folder,
        )
        lists.finish(LISTS)
    return out


def paths_of(order: CorpusOrder) -> tuple[Path, Path | None]:
    """Return the paths of an order's notes and register.

    Raises
    ------
    AuditError
        If an identifier is not in the list of registered files.
    """
    notes = order.notes or resolve_note_file(order.file_id)
    if order.kind == "dummy":
        return notes, None
    return notes, order.register or resolve_note_file(order.register_id)


def _weights(order: CorpusOrder) -> dict[str, float]:
    left_out = {SAMPLE} if order.sample is None else set()
    left_out |= set() if order.has_canaries else {NAMES}
    return {stage: weight for stage, weight in _WEIGHTS.items() if stage not in left_out}


def _build(
    order: CorpusOrder, source: NoteSource, register: Path | None, folder: Path, stages: Stages
) -> _Built:
    listener = stages.listener(BUILD)
    if register is None:
        summary = build_corpus(
            source,
            out=folder,
            seed=order.seed,
            n_workers=order.n_workers,
            progress=listener,
            should_stop=stages.should_stop,
        )
        return _Built(summary.n_refused, summary.has_blanks, {})
    try:
        data = register.read_bytes()
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="register") from None
    found = build_registered_corpus(
        source,
        read_register(data),
        out=folder,
        progress=listener,
        should_stop=stages.should_stop,
    )
    return _Built(found.n_refused, False, {"doubts": found.doubts})


def _examination(
    folder: Path, built: _Built, passed: Passed, drawn: Drawn, people: People
) -> Examination:
    is_dummy = not built.summary
    summary = read_summary(folder) if is_dummy else None
    doubts = built.summary.get("doubts", {})
    assert isinstance(doubts, dict)
    return Examination(
        coverage=passed.coverage,
        n_refused=built.n_refused,
        refused=_refused(folder),
        n_patients=people.n_patients,
        n_named_patients=people.n_named,
        inserted=summary.replaced if summary else (),
        unknown=summary.unknown if summary else (),
        n_malformed=summary.n_malformed if summary else 0,
        doubts=tuple(CountOf(what, n) for what, n in sorted(doubts.items())),
        pattern_table=passed.tally.pattern_table.rows,
        mention_table=passed.tally.mention_table.rows,
        n_positives=len(passed.tally),
        n_listed_positives=len(drawn.lists["patient"]),
        n_not_one_token=passed.tally.n_refused,
        candidates=drawn.counts,
        carriers=people.carriers(drawn.lists["patient"]),
        canaries=_by_mentions(passed.plan),
        n_passages=passed.n_passages,
    )


def _listed(passed: Passed, drawn: Drawn) -> ListedNotes:
    names = drawn.lists["patient"]
    planted = (note for note, _ in passed.plan.notes) if passed.plan else ()
    return passed.places.listed(zip(names.first, names.last, strict=True), planted=planted)


def _refused(folder: Path) -> tuple[CountOf, ...]:
    """Return how many rows were refused for each reason, the most frequent first."""
    counts: dict[str, int] = {}
    with (folder / REFUSED).open("rb") as lines:
        for line in lines:
            reason = str(json.loads(line)["what"])
            if reason in counts or len(counts) < _REASONS:
                counts[reason] = counts.get(reason, 0) + 1
    ranked = sorted(counts.items(), key=lambda count: (-count[1], count[0]))
    return tuple(CountOf(what, n) for what, n in ranked)


def _by_mentions(plan: CanaryPlan | None) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for canary in plan.planted if plan else ():
        counts[canary.n_mentions] = counts.get(canary.n_mentions, 0) + 1
    return tuple(sorted(counts.items()))


def _described(
    order: CorpusOrder, passed: Passed, people: People, *, name: str, record: dict[str, Any]
) -> bytes:
    asked = order_to_json(order)
    # Paths stay out, and what is said at the top already.
    hidden = ("notes", "register", "tokenizer", "file_id", "register_id", "title", "seed", "kind",
              "n_workers")  # fmt: skip
    settings = {key: value for key, value in asked.items() if key not in hidden}
    return describe_corpus(
        title=order.title,
        kind=order.kind,
        source=name,
        seed=order.seed,
        n_notes=passed.coverage.n_notes,
        n_patients=people.n_patients,
        has_token_rule=order.tokenizer is not None,
        **settings,
        **record,
    )
