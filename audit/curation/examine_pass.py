"""The pass over a corpus that examines it: names, mentions, patterns, passages; canaries go in.

Comes in: a corpus as it was built. Goes out: counts of the whole, `passages.jsonl`, and the corpus
with canaries where they are wanted. Notes are read as a stream and shared out to workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from audit.corpora.build_batch import json_line
from audit.corpora.build_files import CorpusFile
from audit.corpora.build_summary import PRIVATE, PUBLIC, SUMMARY, TRUTH, read_summary, summary_bytes
from audit.corpora.canaries import CanaryPlan, plan_canaries
from audit.corpora.mention_coverage import NO_NOTES, MentionCoverage
from audit.corpora.work_pool import ordered_map
from audit.curation.canary_lines import Planting, canary_name
from audit.curation.corpus_lines import CANARY, batches, corpus_bytes, note_lines, text_lines
from audit.curation.examine_batch import (
    Examined,
    ExamineSettings,
    FoundPattern,
    count_names,
    examine_batch,
)
from audit.curation.list_files import PASSAGES
from audit.curation.listed_tally import ListedTally
from audit.curation.order import CorpusOrder
from audit.curation.pattern_tally import PatternTally
from audit.curation.people import People
from audit.curation.stages import Stages
from audit.errors import AuditError
from audit.membership.controls import Accepts, Name
from audit.membership.corpus_names import NameIndex, Pair
from audit.membership.exposure import canary_names
from audit.membership.name_pools import NamePool, japanese_pool, us_pool
from audit.report import write_private_files

_CHANGED = (PRIVATE, PUBLIC, TRUTH)


@dataclass(frozen=True, eq=False)
class Passed:
    """What a pass over the whole corpus gave.

    Attributes
    ----------
    coverage
        Of all notes.
    tally
        Patterns of patients.
    names
        Full names in D_private -> how often.
    n_passages
        Lines of `passages.jsonl`.
    plan
        The canaries; None without.
    pool, accepts
        Where names are drawn from, and which will do.
    places
        In which notes the patients' passages stand.
    """

    coverage: MentionCoverage
    tally: PatternTally
    names: Counter[Pair]
    n_passages: int
    plan: CanaryPlan | None
    pool: NamePool
    accepts: Accepts | None
    places: ListedTally


class Examiner:
    """Examines one corpus."""

    def __init__(self, order: CorpusOrder, folder: Path, *, people: People, is_blank: bool) -> None:
        self._order = order
        self._folder = folder
        self._people = people
        self._is_blank = is_blank
        self._pool = _pool(order, people)
        self._accepts = one_token_each(order.tokenizer) if order.tokenizer else None
        self._plan: CanaryPlan | None = None
        self._names: Counter[Pair] | None = None
        self._places = ListedTally()

    def plan_canaries(self, stages: Stages, *, phase: str) -> None:
        """Count the names in the corpus and choose canaries that are none of them.

        Raises
        ------
        AuditError
            If there are too few notes or names.
        """
        path = self._folder / PRIVATE
        meter = stages.meter(phase, total=float(path.stat().st_size))
        names: Counter[Pair] = Counter()
        with ordered_map(partial(count_names, self._index()), n_workers=self._order.n_workers) as m:
            for found in m(text_lines(path, on_bytes=partial(meter.add, phase))):
                self._people.count(found, into=names)
        meter.finish(phase)
        self._names = names
        n_names = 2 * len(self._order.canary_counts) * self._order.n_canaries
        with path.open("rb") as lines:
            n_notes = sum(1 for _ in lines)
        self._plan = plan_canaries(
            self._canary_names(n_names, found=names),
            n_notes=n_notes,
            seed=self._order.seed,
            counts=self._order.canary_counts,
        )

    def examine(self, stages: Stages, *, phase: str) -> Passed:
        """Go through the corpus once; canaries are planted on the way."""
        meter = stages.meter(phase, total=float(corpus_bytes(self._folder)))
        tally, canaries = PatternTally(accepts=self._accepts), PatternTally()
        coverage, names = NO_NOTES, Counter[Pair]()
        n_passages = 0
        work = partial(examine_batch, self._settings())
        lines = note_lines(self._folder, on_bytes=partial(meter.add, phase))
        with (
            _open_files(self._folder, [PASSAGES, *(self._changed)]) as files,
            ordered_map(work, n_workers=self._order.n_workers) as spread,
        ):
            for found in spread(batches(lines)):
                coverage += found.coverage
                self._people.count(found.names, into=names)
                self._people.add(found.people)
                for patient in found.patients:
                    self._places.add_note(patient)
                for name in self._changed:
                    files[name].write(_text(found, name))
                for pattern in found.patterns:
                    of_role = canaries if pattern.role == CANARY else tally
                    if line := self._passage(pattern, tally=of_role):
                        n_passages += 1
                        files[PASSAGES].write(line)
        meter.finish(phase)
        self._replace({name: file.digest for name, file in files.items()})
        return Passed(
            coverage, tally, names if self._names is None else self._names, n_passages,
            self._plan, self._pool, self._accepts, self._places,
        )  # fmt: skip

    @property
    def _changed(self) -> tuple[str, ...]:
        """Which files of the corpus canaries change; they are written anew beside the old ones."""
        return tuple(f"new-{name}" for name in _CHANGED) if self._plan else ()

    def _settings(self) -> ExamineSettings:
        order = self._order
        settings = ExamineSettings(
            kind=order.kind,
            n_sentences=order.n_sentences,
            n_left_sentences=int(order.has_left),
            # A register says who is a name even in notes without capitals.
            known=self._people.folded_parts if order.kind == "register" else frozenset(),
        )
        if self._plan is None:
            return replace(settings, index=self._index())
        planting = Planting(self._plan, order.kind, self._is_blank, order.seed)
        return replace(settings, planting=planting, rows=dict(self._plan.notes))

    def _index(self) -> NameIndex:
        firsts, lasts = self._people.parts
        return NameIndex(firsts=firsts.union(self._pool.first), lasts=lasts.union(self._pool.last))

    def _passage(self, pattern: FoundPattern, *, tally: PatternTally) -> bytes:
        """Count a pattern, and return its line where it is a new one whose name will do."""
        name: Name | None = pattern.first, pattern.last
        if pattern.role == CANARY and self._plan is not None:
            name = canary_name(self._plan, pattern.person)
        else:
            name = self._people.name_of(pattern.person) or (pattern.first, pattern.last)
        will_do, is_new = tally.add(*name, text_hash=pattern.text_hash)
        if will_do and pattern.role != CANARY:
            self._places.add_name(*name, note=pattern.note)
        if not (will_do and is_new):
            return b""
        return json_line(
            {
                "passage_id": pattern.passage_id,
                "text": pattern.passage,
                "first_name": name[0],
                "last_name": name[1],
                "role": pattern.role or "patient",
            }
        )

    def _replace(self, digests: dict[str, str]) -> None:
        """Put the files with canaries in the place of those without."""
        for name in self._changed:
            (self._folder / name).replace(self._folder / name.removeprefix("new-"))
        if self._changed and self._order.kind == "dummy":
            summary = read_summary(self._folder)
            changed = {name.removeprefix("new-"): digests[name] for name in self._changed}
            content = summary_bytes(replace(summary, digests={**summary.digests, **changed}))
            write_private_files({SUMMARY: content}, self._folder)

    def _canary_names(self, n: int, *, found: Counter[Pair]) -> tuple[Name, ...]:
        n_drawn = n if self._accepts is None else 2 * n
        while True:
            drawn = canary_names(
                self._pool, n=n_drawn, seed=self._order.seed, found=found,
                exclude=tuple(self._people.names),
            )  # fmt: skip
            good = [name for name in drawn if self._accepts is None or self._accepts(*name)]
            if len(good) >= n:
                return tuple(good[:n])
            if len(drawn) < n_drawn:
                raise AuditError(
                    f"Only {len(good):,} names are left that nobody carries; {n:,} are needed.",
                    where="canaries",
                    do="Plant fewer names.",
                )
            n_drawn *= 2


def one_token_each(tokenizer: Path) -> Accepts:
    """Return the rule of section 3.4: first and last name are a single token each.

    Raises
    ------
    AuditError
        If the tokenizer cannot be built.
    """
    from audit.membership.prompts import piece_counter
    from audit.prepare.pair_check import tokenizer as built_tokenizer

    count: Callable[[str, str], int] = piece_counter(built_tokenizer(tokenizer))
    return lambda first, last: count("first", first) == 1 and count("last", last) == 1


def _pool(order: CorpusOrder, people: People) -> NamePool:
    is_japanese = order.language == "ja" or (order.language == "auto" and people.is_unspaced)
    return japanese_pool() if is_japanese else us_pool()


@contextmanager
def _open_files(folder: Path, names: Sequence[str]) -> Iterator[dict[str, CorpusFile]]:
    files = {name: CorpusFile(folder / name) for name in names}
    is_whole = False
    try:
        yield files
        is_whole = True
    finally:
        for file in files.values():
            file.close(is_whole=is_whole)


def _text(found: Examined, name: str) -> bytes:
    texts = {PRIVATE: found.private, PUBLIC: found.public, TRUTH: found.truth}
    return texts[name.removeprefix("new-")]
