"""Makes a score: both sides read, matched under all criteria, counted, kept whole or not at all.

Comes in: an order and the files that it means. Goes out: the folder of a kept score. What a stopped
run has tagged stays beside it under another name, and the next run of the same order goes on there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audit.deid.comparison import SeenRecall, seen_recall, surface_forms
from audit.deid.documents import TaggedDocument
from audit.deid.generation.copies import copies_summary
from audit.deid.generation.output_files import OutputFiles
from audit.deid.kept_scores import (
    FORMAT,
    MAX_TITLE_CHARS,
    SCORE,
    score_dir,
    write_patients,
)
from audit.deid.pair_files import GOLD, PREDICTED, PairedFiles
from audit.deid.score import Pair, score_pairs
from audit.deid.score_copies import Sums, write_exact, write_outputs
from audit.deid.score_order import OUTPUTS, TAGGED, TAGGER, ScoreOrder
from audit.deid.score_place import TAGGED_FROM, score_place
from audit.deid.score_sources import (
    GOLD_FILE,
    PREDICTED_FILE,
    VERBATIM_FILE,
    Noticed,
    notes_of,
    write_notes,
    write_tagged,
)
from audit.deid.score_summary import score_summary
from audit.deid.span_records import SpanWriter
from audit.deid.tag_files import COPIES
from audit.deid.tagger import Tagger
from audit.errors import AuditError
from audit.private_files import write_whole
from audit.progress import Meter, ProgressListener, StopQuestion

READING, TAGGING, COMPARING, JUDGING = (
    "reading the gold notes", "tagging the notes", "comparing the spans", "drawing intervals",
)  # fmt: skip


@dataclass(frozen=True)
class ScoreInputs:
    """The files that an order means; `tagger` stands in the place of predictions.

    Attributes
    ----------
    gold, predicted, training
        JSONL files; `predicted` is None where the tagger is asked.
    tagger
        None where predictions are given.
    tagger_name, tagger_digest
        What to write down of it; empty where unknown.
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
    order: ScoreOrder,
    *,
    inputs: ScoreInputs,
    score_id: str,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Make a score and return its folder.

    Raises
    ------
    AuditError
        If a side cannot be read, the sides do not fit, or the folder cannot be written.
    AuditCancelled
        If the person asked to stop.
    """
    meter = _meter(inputs, progress, should_stop)
    with score_place(score_id) as folder:
        run = _Run(order, inputs, folder=folder, meter=meter, should_stop=should_stop)
        run.read()
        content = run.compare()
        write_whole(folder / SCORE, (json.dumps(content, ensure_ascii=False) + "\n").encode())
        for name in (GOLD_FILE, PREDICTED_FILE, VERBATIM_FILE, COPIES, TAGGED_FROM):
            (folder / name).unlink(missing_ok=True)
        for path in folder.iterdir():
            path.chmod(0o600)
        folder.rename(score_dir(score_id))
        meter.finish(JUDGING)
    return score_dir(score_id)


class _Run:
    """One way through the notes of both sides."""

    def __init__(
        self,
        order: ScoreOrder,
        inputs: ScoreInputs,
        *,
        folder: Path,
        meter: Meter,
        should_stop: StopQuestion,
    ) -> None:
        self._order, self._inputs = order, inputs
        self._should_stop = should_stop
        self._folder, self._meter = folder, meter
        self._noticed = Noticed()
        self._copies: Sums | None = None
        self._outputs: OutputFiles | None = None
        self._gold, self._predicted = folder / GOLD_FILE, folder / PREDICTED_FILE
        self._verbatim = folder / VERBATIM_FILE
        self._gold_digest = ""

    def read(self) -> None:
        """Write both sides in one shape."""
        order, inputs = self._order, self._inputs
        by = order.mapping
        self._gold_digest = write_notes(
            notes_of(inputs.gold, what=GOLD, on_bytes=lambda n: self._meter.add(READING, n)),
            self._gold, by=by, noticed=self._noticed,
        )  # fmt: skip
        self._meter.finish(READING)
        on_bytes = self._tagging
        if inputs.tagger is not None:
            self._forget_others_tags(inputs.tagger)
            write_tagged(
                self._gold, self._folder, tagger=inputs.tagger, on_bytes=on_bytes,
                should_stop=self._should_stop,
            )  # fmt: skip
            self._read_copies(self._folder / COPIES)
        elif order.predicted.kind == OUTPUTS:
            assert inputs.predicted is not None
            self._outputs = write_outputs(
                self._gold, inputs.predicted, folder=self._folder, on_characters=on_bytes
            )
            self._copies = self._outputs.sums
        else:
            assert inputs.predicted is not None
            notes = notes_of(inputs.predicted, what=PREDICTED, on_bytes=on_bytes)
            write_notes(notes, self._predicted, by=by, noticed=self._noticed)
            self._read_copies(inputs.predicted.with_name(COPIES))
        self._meter.finish(TAGGING)

    def compare(self) -> dict[str, Any]:
        """Match and count both sides; return what `score.json` says."""
        order = self._order
        files = PairedFiles(self._gold, self._predicted)
        spans = SpanWriter(self._folder, matcher=order.matcher)
        scored = score_pairs(self._recorded(files, spans), matcher=order.matcher)
        spans.close()
        self._meter.finish(COMPARING)
        how = {
            "matcher": order.matcher, "seed": order.seed, "n_replicates": order.n_replicates,
        }  # fmt: skip
        summary = score_summary(scored, **how)  # type: ignore[arg-type]  # by name
        summary["n_duplicate_spans"] = self._noticed.n_duplicates
        write_patients(self._folder, scored)
        content = self._about() | {
            "summary": summary,
            "n_gold_only": (self._outputs or files).n_gold_only,
            "n_predicted_only": (self._outputs or files).n_predicted_only,
            "unknown_labels": sorted(self._noticed.unknown),
            "n_left_out": self._noticed.n_left_out,
            "seen": self._seen(),
        }
        if self._copies is not None:
            verbatim = score_pairs(
                PairedFiles(self._gold, self._verbatim), matcher=order.matcher
            )  # fmt: skip
            content["copies"] = copies_summary(self._copies)
            content["verbatim"] = score_summary(verbatim, **how)  # type: ignore[arg-type]
        return content

    def _about(self) -> dict[str, Any]:
        order, inputs = self._order, self._inputs
        return {
            "format": FORMAT,
            "title": " ".join(order.title.split())[:MAX_TITLE_CHARS],
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "gold": vars(order.gold),
            "predicted": vars(order.predicted),
            "tagger": {"name": inputs.tagger_name, "digest": inputs.tagger_digest},
            "gold_digest": self._gold_digest,
            "has_five_types": order.has_five_types,
            "label_map": dict(order.label_map),
        }

    def _recorded(self, files: PairedFiles, spans: SpanWriter) -> Iterator[Pair]:
        for gold, predicted in files:
            spans.add(gold, predicted=predicted)
            # Characters are fewer than the bytes that were announced; the end counts the rest.
            self._meter.add(COMPARING, float(len(gold.text)))
            yield gold, predicted

    def _seen(self) -> dict[str, Any] | None:
        """Return recall on names that the training notes held, and on others."""
        if self._inputs.training is None:
            return None
        known = surface_forms(self._training())
        found = seen_recall(
            PairedFiles(self._gold, self._predicted), seen=known, criterion="label_relaxed",
            matcher=self._order.matcher,
        )  # fmt: skip
        return {"n_forms": len(known), "labels": [_seen_line(one) for one in found]}

    def _training(self) -> Iterator[TaggedDocument]:
        assert self._inputs.training is not None
        yield from notes_of(self._inputs.training, what="training notes", on_bytes=lambda n: None)

    def _read_copies(self, copies: Path) -> None:
        """Note how faithful a tagger's copies are; most taggers write none."""
        if self._order.predicted.kind in (TAGGER, TAGGED) and copies.is_file():
            self._copies = write_exact(
                self._gold, self._predicted, copies=copies, folder=self._folder
            )  # fmt: skip

    def _tagging(self, n_bytes: int) -> None:
        self._meter.add(TAGGING, float(n_bytes))

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


def _seen_line(one: SeenRecall) -> dict[str, Any]:
    return {
        "label": one.label,
        "seen": [one.seen.n_hits, one.seen.n_total],
        "unseen": [one.unseen.n_hits, one.unseen.n_total],
    }


def _meter(inputs: ScoreInputs, progress: ProgressListener, should_stop: StopQuestion) -> Meter:
    try:
        size = float(inputs.gold.stat().st_size)
        other = float(inputs.predicted.stat().st_size) if inputs.predicted else size
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where="gold notes") from None
    totals = {READING: size, TAGGING: other, COMPARING: size, JUDGING: 0.2 * size}
    return Meter(totals, listener=progress, should_stop=should_stop)
