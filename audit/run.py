"""run_audit: the one path from a question to its report, shared by command line, jobs and tests."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.attack import evidence
from audit.attack.judgement import judge
from audit.attack.measure_types import DoseLine, Stop
from audit.attack.plan import fit_budget, list_phases, name_phase, refuse_too_large
from audit.attack.question import (
    MODEL_ROLES,
    SIBLING_TERMS,
    AuditRequest,
    RunSettings,
    Settings,
    equal_models_error,
    question_digest,
    settings_class,
)
from audit.attack.scores import AttackResult
from audit.errors import AuditError, Message
from audit.executor import SCHEDULER_VARIABLE, open_executor
from audit.home import results_dir
from audit.models.inspect import is_adapter
from audit.models.registry import RegisteredModel, find_model_by_digest
from audit.names import spelling
from audit.names.candidates import GUESSED_KINDS, OF_HOSPITAL, Candidates, guessed_kinds
from audit.names.controls import MIN_REFERENCE, report_matching
from audit.names.letter_case import report_letter_case
from audit.names.lists import find_names_code, find_passages_code
from audit.names.pools import NamePool, pool_for
from audit.progress import FINISHING, LOADING, Meter, ProgressListener, StopQuestion
from audit.report.audit_store import (
    find_complete_report,
    keep_finished_size,
    keep_report,
)
from audit.report.report import (
    AuditReport,
    Inspection,
    find_best_passages,
)
from audit.shelf import make_time_stamp
from audit.task import Contact, Question, Task, queue_of
from cache.store import Store

if TYPE_CHECKING:
    from audit.models.load import ModelPair

_SIZES = {
    "generation": "n_documents",
    "posterior": "n_inputs",
    "chain": "n_chain_inputs",
    "sampling": "n_documents",
    "continuation": "n_inputs",
}
"""Kind of evidence -> the setting that holds its number of documents or inputs, if there is one."""


class AuditTask(Task):
    """One audit of a pair of models."""

    job = "audit"

    request: AuditRequest

    def question(self) -> Question:
        """Return the question; its digest is that of the audit. Reads every byte of both models."""
        request, digest = self.request, self.request.audit_digest()
        return Question(
            self.job,
            request.label,
            request.scenario_number,
            queue_of(request.device),
            digest,
            (digest,),
            self.plain(),
        )

    @classmethod
    def read_answer(cls, question: Question) -> tuple[str, ...]:
        """Return the digests of the stored audits that answer a question; empty unless all do."""
        with Store(results_dir()) as store:
            is_kept = all(find_complete_report(digest, store=store) for digest in question.audits)
        return question.audits if is_kept else ()

    def with_sizes(self, sizes: Mapping[str, int]) -> AuditTask:
        """Return the same audit with the sizes (documents or inputs) of `read_finished_sizes`."""
        request = self.request
        settings = {request.settings_field: request.settings.with_(**sizes)}
        return AuditTask(request=request.with_(**settings))

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Run the audit; return its digest."""
        scheduler = os.environ.get(SCHEDULER_VARIABLE, "")
        with Store(results_dir()) as store, open_executor(scheduler) as executor:
            report = run_audit(
                self.request,
                store=store,
                progress=contact.listen,
                should_stop=contact.should_stop,
                executor=executor,
            )
        return (report.digest,)


def import_engine() -> None:
    """Import what an audit needs. A process does this once, and it takes seconds."""
    import faker  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.feature_extraction.text
    import sklearn.linear_model  # noqa: F401
    from transformers import BertForMaskedLM  # noqa: F401 (transformers imports it only on use)

    from audit.attack import generation, posterior, scenarios  # noqa: F401
    from audit.models.forward import build_forwards  # noqa: F401
    from audit.models.load import load_pair  # noqa: F401


@dataclass(frozen=True, eq=False)
class AttackSetup:
    """A request with its models loaded: everything that its evidence is made from."""

    request: AuditRequest  # Reduced to what its budget pays for.
    pair: ModelPair
    pool: NamePool
    names: Candidates  # listed names, then reference controls
    task: evidence.AnyTask
    device: str
    forwards: Mapping[str, evidence.AnyForward]  # of "general" and "hospital", both of one kind

    def source(
        self, model_role: str, kind: str, *, store: evidence.ShardStore, meter: Meter, **fields: Any
    ) -> evidence.Source:
        """Return the source of one model's evidence of a kind; `fields` are its other fields.

        A worker reads the general model of an adapter's pair as the base with the adapter off: it
        then has one copy of the weights.
        """
        is_shared = is_adapter(self.request.hospital)
        return evidence.Source(
            getattr(self.pair, model_role),
            self.forwards[model_role],
            self.device,
            store,
            meter,
            name_phase(model_role, kind),
            self.row_work(model_role),
            folder=getattr(self.request, "hospital" if is_shared else model_role),
            base=self.request.general,
            **fields,
        )

    def row_work(self, model_role: str) -> float:
        """Return the work of one row of a forward pass, in units of the meter."""
        return float(self.task.n_tokens * getattr(self.pair, model_role).n_parameters)


def prepare_attack(request: AuditRequest, *, without_names: bool = False) -> AttackSetup:
    """Load both models, choose how they compute, and put the question in integers.

    The names are those of the request and their reference controls, or none if `without_names`.
    """
    from audit.attack import scenarios
    from audit.models.causal_pass import build_causal_forwards
    from audit.models.forward import build_forwards
    from audit.models.load import load_pair, pick_device

    pool, device = pool_for(request.candidates), pick_device(request.device)
    refuse_too_large(request)
    pair = load_pair(request.general, request.hospital, device=device)
    if pair.is_one_model:
        raise equal_models_error()
    loaded_models = pair.general, pair.hospital
    forwards: Sequence[evidence.AnyForward]
    if pair.general.config.is_causal:
        forwards = build_causal_forwards(loaded_models, dtype=request.dtype)
    else:
        forwards = build_forwards(
            [loaded.model for loaded in loaded_models],
            tokenizer=pair.hospital.tokenizer,
            dtype=request.dtype,
            names=[loaded.name for loaded in loaded_models],
        )
    spelling.refuse_opposite_twins(
        request.candidates,
        tokenizer=pair.hospital.tokenizer,
        kind=scenarios.main_passage_kind(request),
    )
    names = request.candidates.rows(())
    if not without_names:
        names = scenarios.add_references(request, pair, pool=pool)
    task = scenarios.make_task(request, pair, names)
    request = fit_budget(request, task)
    return AttackSetup(
        request, pair, pool, names, task, device, dict(zip(MODEL_ROLES, forwards, strict=True))
    )


def run_audit(
    request: AuditRequest,
    *,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    executor: Executor | None = None,
) -> AuditReport:
    """Answer one question; evidence that is in the store is not made again.

    Every finished shard is stored at once. `progress` is called with phase, share done and seconds
    left. `should_stop` is called between forward passes; True ends the run, and what is finished
    stays stored. With an `executor`, its workers make the shards.
    """
    question = request.question()
    digest = question_digest(question)
    if (earlier_report := find_complete_report(digest, store=store)) is not None:
        return earlier_report
    started = time.monotonic()
    audit_phases = list_phases(request)
    if executor is not None:  # the workers' pace is not that of this machine
        audit_phases = tuple(replace(phase, kind="") for phase in audit_phases)
    meter = Meter(audit_phases, listener=progress, should_stop=should_stop)
    meter.add(LOADING, 0)
    from audit.attack import scenarios

    sibling = read_sibling_records(request.sibling, question, store=store)
    setup = prepare_attack(request)
    sizes = {kind: n for kind, n in setup.request.sizes().items() if n}
    for model_role, (kind, n) in product(MODEL_ROLES, sizes.items()):
        meter.resize(
            name_phase(model_role, kind), setup.task.n_rows(kind, n) * setup.row_work(model_role)
        )
    meter.finish(LOADING)

    def make_source(model_role: str, kind: str) -> evidence.Source:
        return setup.source(
            model_role,
            kind,
            store=evidence.ResultsShardStore(store),
            meter=meter,
            executor=executor,
            on_kept=_note_sizes(digest, model_role, kind, store=store),
        )

    pair, names, pool = setup.pair, setup.names, setup.pool
    attack = scenarios.attack(
        setup.request, pair, setup.task, names=names, pool=pool, sources=make_source
    )
    for model_role, kind in product(MODEL_ROLES, sizes):
        meter.finish(name_phase(model_role, kind))
    meter.add(FINISHING, 0)
    report = _make_report(request, pair, attack, question=question, sibling=sibling)
    provenance = {
        "at": make_time_stamp(),
        "seconds": round(time.monotonic() - started, 3),
        "dtype": setup.forwards["hospital"].dtype,
        "kernels": setup.forwards["hospital"].kernels,
    } | evidence.describe_backend(setup.device)
    inspection, report = _make_inspection(request, attack), report.changed(made=provenance)
    keep_report(report, inspection=inspection, documents=attack.documents, store=store)
    meter.finish(FINISHING)
    return find_complete_report(digest, store=store) or report


def _note_sizes(digest: str, model_role: str, kind: str, *, store: Store) -> Callable[[int], None]:
    """Return a function that notes how much of a kind of evidence an audit has finished."""
    if kind not in _SIZES:  # no setting has its size
        return lambda _: None
    return partial(keep_finished_size, digest, model_role, _SIZES[kind], store=store)


@dataclass(frozen=True)
class AuditInputs:
    """The inputs of a stored audit, for another audit with another model or scenario.

    `general`, `hospital`, `names` and `passages` are codes of stored objects, "" for an object that
    is not stored (any more); `sibling` is the code of the sibling's audit. `settings` is None if
    this version does not accept the settings.
    """

    general: str
    hospital: str
    names: str
    passages: str
    scenario: int
    settings: Settings | None
    run_settings: RunSettings
    sibling: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Which of "general", "names", "passages" and "settings" are no longer available."""
        needed_fields = (
            "general",
            "names",
            *(("passages",) if self.scenario == 2 else ()),
            "settings",
        )
        return tuple(field for field in needed_fields if not getattr(self, field))


def find_inputs(
    report: AuditReport, *, models: tuple[RegisteredModel, ...], store: Store
) -> AuditInputs:
    """Find the inputs of an audit, its two models among `models`."""
    question, number = report.question, report.scenario.number
    passages = question.get("passages")
    settings, run_settings = None, RunSettings()
    with suppress(AuditError):
        settings = settings_class(question)(**question.get("settings", {}))
        run_settings = RunSettings(
            seed=question.get("seed", 0), dtype=question.get("dtype", "float32")
        )

    def find_registered(model_role: str, *, base: Path | None = None) -> RegisteredModel | None:
        model = report.models[model_role]
        return find_model_by_digest(model.digest, name=model.name, models=models, base=base)

    general = find_registered("general")
    hospital = find_registered("hospital", base=general.path if general else None)
    return AuditInputs(
        general.model_id if general else "",
        hospital.model_id if hospital else "",
        find_names_code(str(question.get("candidates", "")), store=store),
        find_passages_code(passages, store=store) if passages else "",
        number,
        settings,
        run_settings,
        str(question.get("sibling", ""))[:12],
    )


def _make_inspection(request: AuditRequest, attack: AttackResult) -> Inspection:
    n = len(request.candidates)
    ratio = attack.passage_log_ratio
    rows, ratios = find_best_passages(np.zeros((0, n)) if ratio is None else ratio)
    return Inspection(
        n_per_block=attack.block_evidence_counts,
        hospital=attack.block_evidence["hospital"].astype(np.float32),
        general=attack.block_evidence["general"].astype(np.float32),
        reference_score=attack.scores[attack.fixed_score][0, n:],
        reference_n_pieces=attack.n_pieces[n:],
        best_passages=rows,
        best_log_ratio=ratios,
        passages=request.shown_passages,
        reference_general=attack.scores[attack.general_score][0, n:],
        part_columns=attack.parts.of_name.astype(np.int32),
        part_residual=attack.part_residual,
        part_log_share=attack.parts.log_share,
        part_n_pieces=attack.parts.n_pieces,
        part_is_last=attack.parts.is_last,
        **{f"pair_{role}": by_role for role, by_role in attack.pair_evidence.items()},
    )


def _make_report(
    request: AuditRequest,
    pair: ModelPair,
    attack: AttackResult,
    *,
    question: Mapping[str, Any],
    sibling: Mapping[int, DoseLine] | None,
) -> AuditReport:
    listed = attack.listed
    n_reference = len(attack.n_pieces) - len(listed)
    judgement = judge(
        attack, control_source=request.control_source, seed=request.seed, sibling=sibling
    )
    count_pieces = spelling.piece_counter(pair.hospital.tokenizer)
    notes = _collect_notes(
        request,
        pair,
        judgement.names,
        n_reference,
        judgement.n_flagged_by_general,
        attack.n_chain_inputs,
    )
    if attack.details.stop:
        notes.append(_describe_stop(attack.details.stop))
    notes += report_matching(listed, count_pieces=count_pieces)
    return AuditReport.from_parts(
        digest=question_digest(question),
        question=question,
        scenario=request.scenario.plain(),
        models={
            model_role: {
                "name": loaded.name,
                "digest": loaded.digest,
                "architecture": loaded.config.architecture,
                "n_parameters": loaded.n_parameters,
                "notes": [],
            }
            for model_role, loaded in (("general", pair.general), ("hospital", pair.hospital))
        },
        candidates=_count_candidates(listed, n_reference),
        fixed_score=attack.fixed_score,
        columns=list(judgement.names),
        names=judgement.names,
        details=attack.details.joined_with(judgement.details),
        measures=judgement.measures,
        verdict=judgement.verdict,
        curve=judgement.curve,
        mentions=judgement.mentions,
        notes=[note.dump() for note in notes],
        made={},
    )


def read_sibling_records(
    sibling: str, question: Mapping[str, Any], *, store: Store
) -> dict[int, DoseLine]:
    """Return the records of a sibling model's known names, by number of mentions.

    `sibling` is the digest of the sibling's audit, "" for none. Raises AuditError unless that audit
    is stored and has the same general model and the same settings as `question`: a run of another
    size sees more or less.
    """
    if not sibling:
        return {}
    report = find_complete_report(sibling, store=store)
    if report is None:
        raise AuditError(
            "The sibling's audit is not kept here.",
            where="sibling",
            do="Audit the sibling with the same general model and the same settings first.",
        )
    different = [name for name in SIBLING_TERMS if report.question.get(name) != question[name]]
    if different:
        raise AuditError(
            "The sibling's audit differs in: {different}.",
            where="sibling",
            do="Audit the sibling with the same general model and the same settings.",
            different=", ".join(different),
        )
    if report.verdict.control_source == "drawn":
        raise AuditError(
            "The sibling's audit does not say where its controls come from.",
            where="sibling",
            do="Audit the sibling again and state the source of its controls.",
        )
    if report.question.get("hospital") == question["hospital"]:
        raise AuditError(
            "The sibling's audit is of the hospital's own model.",
            where="sibling",
            do="A sibling is another model, trained by the same recipe on notes whose names are "
            "known.",
        )
    return {line.dose: line for line in report.details.doses}


def _describe_stop(stop: Stop) -> Message:
    """Say what a sequential audit saved; `stop` holds inputs used and allowed, and open names."""
    if stop.n_open:
        return Message(
            "All {n_allowed:,} inputs were used: with fewer the decisions of {n_open:,} names were "
            "still open.",
            **dict(stop),
        )
    saved = 100 - 100 * stop.n_inputs / stop.n_allowed
    return Message(
        "Stopped after {n_inputs:,} of at most {n_allowed:,} inputs ({saved:.0f} % saved): more "
        "of them would change no name's decision.",
        saved=saved,
        **dict(stop),
    )


def _count_candidates(listed: Candidates, n_reference: int) -> dict[str, object]:
    patients = listed.without_canaries()
    kinds = Counter(kind for kind in patients.control_kind if kind)
    n_canaries = len(listed) - len(patients)
    return {
        "n_names": len(listed),
        "n_members": sum(m is True for m in patients.is_member),
        "n_unknown": sum(m is None for m in patients.is_member),
        "n_controls": sum(kinds.values()),
        "by_kind": dict(sorted(kinds.items())),
        "n_reference": n_reference,
    } | ({"n_canaries": n_canaries} if n_canaries else {})


def _collect_notes(
    request: AuditRequest,
    pair: ModelPair,
    columns: Mapping[str, list[Any]],
    n_reference: int,
    n_flagged_by_general: int,
    n_chain_inputs: int,
) -> list[Message]:
    from audit.attack.scenarios import main_passage_kind

    pieces = spelling.part_pieces(
        request.candidates, kind=main_passage_kind(request), tokenizer=pair.hospital.tokenizer
    )
    n_twins = int((pieces.twin_of != spelling.NO_TWIN).sum())
    n_unscored = int(np.isnan(np.array(columns["score"], dtype=float)).sum())
    passages = request.passages if request.scenario_number == 2 else None
    n = {
        "n_unscored": n_unscored - n_twins,
        "n_twins": n_twins,
        "n_score": len(columns["score"]),
        "n_flagged": n_flagged_by_general,
        "n_unmatched": sum(columns["is_unmatched"]),
        "n_reference": n_reference,
        "min_reference": MIN_REFERENCE,
        "n_left_out": len(passages.notes) if passages else 0,
        "n_chain": n_chain_inputs,
        "n_chain_asked": request.sizes().get("chain", 0),
        "max_rows": request.posterior.max_chain_rows,
    }
    counted_notes = _list_notes(n, request=request)
    return [*map(Message, pair.notes), *report_letter_case(request.candidates), *counted_notes]


def _list_notes(n: Mapping[str, int], *, request: AuditRequest) -> list[Message]:
    """Return the notes of which the counts `n` are not zero."""
    kinds = guessed_kinds(request.candidates)
    is_own = request.control_source in OF_HOSPITAL
    conditional_notes = (
        (n["n_unscored"], Message("{n_unscored} of {n_score} names could not be scored.", **n)),
        (n["n_twins"], Message(spelling.TWINS, **n)),
        (kinds, Message(GUESSED_KINDS, **kinds)),
        (
            n["n_flagged"],
            Message(
                "{n_flagged} of the flagged names stand out with the general model alone too: they "
                "may be common or famous names rather than names from the notes.",
                **n,
            ),
        ),
        (
            n["n_unmatched"],
            Message(
                "{n_unmatched} names are not judged: there are fewer than 200 controls of as many "
                "word pieces to compare them with.",
                **n,
            ),
        ),
        (
            not is_own and n["n_reference"] < MIN_REFERENCE,
            Message(
                "The name generator gives only {n_reference} reference controls for this list (at "
                "least {min_reference} are wanted): small p-values cannot be reached.",
                **n,
            ),
        ),
        (
            n["n_chain"] < n["n_chain_asked"],
            Message(
                "The chain rule was computed on {n_chain} of {n_chain_asked} inputs: the list "
                "would take more than {max_rows:,} rows of forward passes.",
                **n,
            ),
        ),
        (n["n_left_out"], Message("{n_left_out} rows of the passage file were left out.", **n)),
    )
    return [note for is_so, note in conditional_notes if is_so]
