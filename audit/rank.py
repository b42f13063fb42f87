"""Rank a list of any length by one run, whose evidence is kept for all single word pieces.

An audit judges names; this module only ranks them. A million candidate names cost no forward pass
if an audit of the same models, settings and seed was run before, whatever names it listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from audit.access_log import record
from audit.attack import evidence
from audit.attack.decisions import Decisions
from audit.attack.judgement import decide_names, find_ranked_controls
from audit.attack.plan import list_phases, name_phase
from audit.attack.question import (
    MODEL_ROLES,
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    RunSettings,
    question_digest,
)
from audit.attack.routes import smallest_visible
from audit.attack.scores import FIXED_SCORE, AttackResult
from audit.errors import AuditError
from audit.foreign import locate_errors, read_file_bytes
from audit.home import results_dir
from audit.models.inspect import compute_model_digest
from audit.models.model_folder import find_display_name
from audit.names.candidates import Candidates, ControlSource
from audit.names.files import read_names
from audit.notes.passages import read_passages
from audit.progress import FINISHING, LOADING, Meter
from audit.run import prepare_attack
from audit.shelf import make_write_error, whole_file
from audit.stats import BoolArray, FloatArray
from audit.tables import write_table
from audit.task import Contact, Question, Task, queue_of, read_file_states
from cache.store import Store

_ROWS_AT_ONCE = 50_000
_COLUMNS = (
    "rank",
    "file_row",
    "first_name",
    "last_name",
    "score",
    "standard_error",
    "part_log_ratio",
    "p_value",
    "q_value",
)


class RankTask(Task, RunSettings):
    """A task that ranks the names of a file by one run."""

    job = "rank"

    scenario_number: Literal[1, 2]
    general: Path
    hospital: Path
    names: Path
    passages: Path | None = None
    placeholder: str = ""
    """Another placeholder of the name in the passages, besides the known ones."""
    control_source: ControlSource | None = None
    generation: GenerationSettings = GenerationSettings()
    posterior: PosteriorSettings = PosteriorSettings()
    out: Path = Field(title="out")

    def question(self) -> Question:
        """Return the question; its files are identified by their state."""
        settings = {name: value for name, value in self.plain().items() if name != "device"}
        files = read_file_states(self.names, self.passages, where="names")
        models = [compute_model_digest(self.general), compute_model_digest(self.hospital)]
        label = f"{find_display_name(self.general)} → {find_display_name(self.hospital)}"
        about = question_digest({"asked": settings, "files": files, "models": models})
        return self.make_question(label=label, about=about, device=queue_of(self.device))

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Rank the names; return the file's path and the counts, as text."""
        with locate_errors("names"):
            listed = read_names(read_file_bytes(self.names), subject="names").candidates
        if self.control_source:
            listed = listed.with_source(self.control_source)
        with Store(results_dir()) as store:
            ranking = rank_names(self.make_request(listed), store=store, contact=contact)
        record("exported", what="ranking", names="full", n_names=len(listed))
        write_ranking(ranking, self.out)
        return (str(self.out), *map(str, ranking.counts))

    def make_request(self, listed: Candidates) -> AuditRequest:
        """Return the audit request whose evidence ranks the names."""
        passages = None
        if self.passages and self.scenario_number == 2:
            with locate_errors("passages"):
                content = read_file_bytes(self.passages)
            passages = read_passages(
                content,
                subject="passages",
                file_name=self.passages.name,
                placeholder=self.placeholder,
            )
        shared_fields = (
            "scenario_number",
            "general",
            "hospital",
            "generation",
            "posterior",
            "seed",
            "dtype",
            "device",
        )
        settings = {name: getattr(self, name) for name in shared_fields}
        return AuditRequest(candidates=listed, passages=passages, **settings)


@dataclass(frozen=True, eq=False)
class Ranking:
    """N names, and the scores of the M names on which the run has evidence."""

    names: Candidates
    is_scored: BoolArray  # [N]
    attack: AttackResult  # Of the M names, followed by reference controls.
    decisions: Decisions | None  # None: ranks only, because no number of names could stand out.

    @property
    def rank(self) -> FloatArray:
        """Rank [M] by the fixed score, 1 the most member-like; ties share the better rank."""
        from scipy.stats import rankdata

        score = self.attack.listed_scores(FIXED_SCORE)
        return np.asarray(rankdata(-score, method="min", nan_policy="omit"), dtype=np.float64)

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """Numbers of names, scored names, controls; whether p-values exist; recased names."""
        n_controls = len(find_ranked_controls(self.attack, source=self.names.source or "drawn"))
        n_recased, has_p = sum(self.names.is_recased), int(self.decisions is not None)
        return len(self.names), int(self.is_scored.sum()), n_controls, has_p, n_recased


def rank_names(request: AuditRequest, *, store: Store, contact: Contact) -> Ranking:
    """Rank the names of a request by stored evidence; evidence that is missing is made first.

    Unlike in an audit, a name with a part of several word pieces is not scored, and p and q exist
    only if there are enough controls for all tested names together to stand out.
    """
    from audit.attack import scenarios

    if request.is_causal:
        raise AuditError(
            "Causal models have no evidence of a whole vocabulary by which a list is ranked.",
            where="models",
            do="Audit the list with `run`.",
        )
    # Leave out `chain`; one name is enough to tell the work of a row.
    one_name = request.with_(
        candidates=request.candidates.rows((0,)),
        posterior=request.posterior.with_(n_chain_inputs=0),
    )
    meter = Meter(list_phases(one_name), listener=contact.listen, should_stop=contact.should_stop)
    meter.add(LOADING, 0)
    setup = prepare_attack(request, without_names=True)
    kind, n = next(iter(request.sizes().items()))
    for model_role in MODEL_ROLES:
        work = setup.task.n_rows(kind, n) * setup.row_work(model_role)
        meter.resize(name_phase(model_role, kind), work)
    meter.finish(LOADING)

    def make_source(model_role: str, kind: str) -> evidence.Source:
        return setup.source(model_role, kind, store=evidence.ResultsShardStore(store), meter=meter)

    is_scored, attack = scenarios.score_list(
        request, setup.pair, setup.task, pool=setup.pool, sources=make_source
    )
    for model_role in MODEL_ROLES:
        meter.finish(name_phase(model_role, kind))
    n_tested = attack.listed.is_member.count(True) + attack.listed.is_member.count(None)
    source_of_controls = request.control_source
    n_controls = len(find_ranked_controls(attack, source=source_of_controls))
    has_p = smallest_visible(n_tested, n_controls=n_controls) is not None
    decisions = decide_names(attack, FIXED_SCORE, source=source_of_controls) if has_p else None
    meter.finish(FINISHING)
    return Ranking(request.candidates, is_scored, attack, decisions)


def write_ranking(ranking: Ranking, path: Path) -> None:
    """Write a ranking as CSV, best rank first and names that are not scored last.

    The file is private and guarded against formulas; it is written whole or not at all.
    """
    try:
        with whole_file(path) as file:
            for begin, rows in enumerate(_yield_rows(ranking)):
                text = write_table(_COLUMNS, rows)
                file.write((text if not begin else text.partition("\n")[2]).encode("utf-8"))
    except OSError as error:
        raise make_write_error(error) from None


def _yield_rows(ranking: Ranking) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of the file in batches."""
    attack, decisions = ranking.attack, ranking.decisions
    rank, n = ranking.rank, len(attack.listed)
    no_values = np.full(n, np.nan)
    score, error = attack.scores[FIXED_SCORE][:, :n]
    numbers = np.stack(
        [
            score,
            error,
            attack.listed_scores("part_log_ratio"),
            decisions.p if decisions else no_values,
            decisions.q if decisions else no_values,
        ],
        axis=1,
    )
    place = np.full(len(ranking.names), n)
    place[ranking.is_scored] = np.arange(n)
    rank, numbers = np.append(rank, np.nan), np.vstack([numbers, np.full((1, 5), np.nan)])
    order = np.argsort(rank[place], kind="stable")
    names = ranking.names
    for begin in range(0, len(order), _ROWS_AT_ONCE):
        rows = order[begin : begin + _ROWS_AT_ONCE]
        ranks = [
            None if np.isnan(name_rank) else int(name_rank)
            for name_rank in rank[place[rows]].tolist()
        ]
        yield [
            (name_rank, names.row[row], names.first[row], names.last[row], *name_numbers)
            for name_rank, row, name_numbers in zip(
                ranks, rows.tolist(), numbers[place[rows]].tolist(), strict=True
            )
        ]
