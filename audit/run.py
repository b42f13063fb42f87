"""run_audit: the one path from a question to its report, shared by command line, jobs and tests."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.attack import evidence
from audit.attack.decisions import plain
from audit.attack.exposure import DoseRecord
from audit.attack.judgement import judge
from audit.attack.plan import phase_of, phases, within_budget
from audit.attack.question import (
    SIBLING_TERMS,
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    RunSettings,
    equal_models,
    question_digest,
)
from audit.attack.scores import FIXED_SCORE, AttackResult
from audit.errors import AuditError, Message
from audit.executor import SCHEDULER_VARIABLE, executor_of
from audit.home import results_dir
from audit.models.registry import RegisteredModel, find_model_by_digest
from audit.names import spelling
from audit.names.candidates import GUESSED_KINDS, OF_HOSPITAL, Candidates, guessed_kinds
from audit.names.controls import MIN_REFERENCE, match_notes
from audit.names.letter_case import case_notes
from audit.names.lists import code_of_names, code_of_passages
from audit.names.pools import NamePool, pool_for
from audit.progress import FINISHING, LOADING, Meter, ProgressListener, StopQuestion
from audit.report.report import (
    AuditReport,
    Inspection,
    best_passages,
    keep_inspection,
    kept_inspection,
)
from audit.shelf import now
from audit.task import Contact, Question, Task, queue_of
from cache.store import Store

if TYPE_CHECKING:
    from audit.models.forward import Forward
    from audit.models.load import ModelPair

WHO = ("general", "hospital")
_SIZES = {"generation": "n_documents", "posterior": "n_inputs", "chain": "n_chain_inputs"}
"""Kind of evidence -> the setting that says how much of it is made."""


class AuditTask(Task):
    """One audit of a pair of models."""

    job = "audit"

    request: AuditRequest

    def question(self) -> Question:
        """Return the question, named as its audit is; reads every byte of both models."""
        asked, digest = self.request, self.request.audit_digest()
        return Question(
            self.job,
            asked.label,
            asked.scenario_number,
            queue_of(asked.device),
            digest,
            (digest,),
            self.plain(),
        )

    @classmethod
    def kept(cls, question: Question) -> tuple[str, ...]:
        """Return the digests of the kept audits that answer a question; empty unless all are."""
        with Store(results_dir()) as store:
            is_kept = all(kept_report(one, store=store) for one in question.audits)
        return question.audits if is_kept else ()

    def of_size(self, sizes: Mapping[str, int]) -> AuditTask:
        """Return the same audit of as many documents or inputs as `finished_part` says."""
        asked = self.request
        which = "generation" if asked.scenario_number == 1 else "posterior"
        return AuditTask(request=asked.with_(**{which: asked.settings.with_(**sizes)}))

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Answer the question; returns the digest of its audit."""
        scheduler = os.environ.get(SCHEDULER_VARIABLE, "")
        with Store(results_dir()) as store, executor_of(scheduler) as executor:
            report = run_audit(
                self.request,
                store=store,
                progress=contact.listen,
                should_stop=contact.should_stop,
                executor=executor,
            )
        return (report.digest,)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A question with its models loaded: all that its evidence is made from."""

    request: AuditRequest  # As much of it as its budget pays for.
    pair: ModelPair
    pool: NamePool
    names: Candidates  # the listed, then reference controls
    task: evidence.AnyTask
    device: str
    forwards: Mapping[str, Forward]  # of "general" and "hospital", both of one kind

    def source(
        self, who: str, kind: str, *, store: evidence.Keeper, meter: Meter, **how: Any
    ) -> evidence.Source:
        """Return the source of one model's evidence of a kind; `how` are more of its fields."""
        return evidence.Source(
            getattr(self.pair, who),
            self.forwards[who],
            self.device,
            store,
            meter,
            phase_of(who, kind),
            self.row_work(who),
            folder=getattr(self.request, who),
            **how,
        )

    def row_work(self, who: str) -> float:
        """Return the units of a meter that a row of a forward pass is."""
        return float(self.task.n_tokens * getattr(self.pair, who).n_parameters)


def prepared(request: AuditRequest, *, of_no_list: bool = False) -> Prepared:
    """Load both models, choose how they are asked, and put the question in integers.

    The names are those of the request and their reference controls; `of_no_list` asks about none.
    """
    from audit.attack import scenarios
    from audit.models.forward import build_forwards
    from audit.models.load import load_pair, pick_device

    pool, device = pool_for(request.candidates), pick_device(request.device)
    pair = load_pair(request.general, request.hospital, device=device)
    if pair.is_one_model:
        raise equal_models()
    both = pair.general, pair.hospital
    asked = build_forwards(
        [one.model for one in both],
        tokenizer=pair.hospital.tokenizer,
        dtype=request.dtype,
        names=[one.name for one in both],
    )
    spelling.refuse_opposite_twins(
        request.candidates, tokenizer=pair.hospital.tokenizer, kind=scenarios.main_lead(request)
    )
    names = request.candidates.rows(())
    if not of_no_list:
        names = scenarios.with_reference(request, pair, pool=pool)
    task = scenarios.task_of(request, pair, names)
    request = within_budget(request, task)
    return Prepared(request, pair, pool, names, task, device, dict(zip(WHO, asked, strict=True)))


def run_audit(
    request: AuditRequest,
    *,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    executor: Executor | None = None,
) -> AuditReport:
    """Answer one question, from the store as far as it is there.

    Every finished shard is kept in `store` at once. `progress` is called with phase, share done
    and seconds left; `should_stop` is asked between forward passes, and True ends the run with
    what is finished kept. With an `executor` shards are made by its workers.
    """
    question = request.question()
    digest = question_digest(question)
    if (known := kept_report(digest, store=store)) is not None:
        return known
    started = time.monotonic()
    planned = phases(request)
    if executor is not None:  # at the workers' pace, which is not this machine's
        planned = tuple(replace(phase, kind="") for phase in planned)
    meter = Meter(planned, listener=progress, should_stop=should_stop)
    meter.add(LOADING, 0)
    from audit.attack import scenarios

    sibling = sibling_records(request.sibling, question, store=store)
    asked = prepared(request)
    sizes = {kind: n for kind, n in asked.request.sizes().items() if n}
    for who, (kind, n) in product(WHO, sizes.items()):
        meter.resize(phase_of(who, kind), asked.task.n_rows(kind, n) * asked.row_work(who))
    meter.finish(LOADING)

    def source(who: str, kind: str) -> evidence.Source:
        return asked.source(
            who,
            kind,
            store=evidence.Kept(store),
            meter=meter,
            executor=executor,
            on_kept=lambda n: _note_part(digest, who, kind, n, store=store),
        )

    pair, names, pool = asked.pair, asked.names, asked.pool
    attack = scenarios.attack(
        asked.request, pair, asked.task, names=names, pool=pool, sources=source
    )
    for who, kind in product(WHO, sizes):
        meter.finish(phase_of(who, kind))
    meter.add(FINISHING, 0)
    report = _report(request, pair, attack, question=question, sibling=sibling)
    made = {
        "at": now(),
        "seconds": round(time.monotonic() - started, 3),
        "dtype": asked.forwards["hospital"].dtype,
        "kernels": asked.forwards["hospital"].kernels,
    }
    made |= evidence.backend(asked.device)
    _keep(report.changed(made=made), request, attack, store=store)
    meter.finish(FINISHING)
    return kept_report(digest, store=store) or report


def _keep(report: AuditReport, request: AuditRequest, found: AttackResult, *, store: Store) -> None:
    """Keep a report last: where it is, everything that belongs to it is there too."""
    if found.documents:
        texts = {who: list(documents) for who, documents in found.documents.items()}
        store.put_record(f"documents/{report.digest}", texts)
    keep_inspection(report.digest, _inspection(request, found), store=store)
    store.put_record(f"audit/{report.digest}", report.to_json())


def _note_part(digest: str, who: str, kind: str, n: int, *, store: Store) -> None:
    """Keep how much of a kind of evidence both models have: M_hospital's is made last."""
    if who != "hospital":
        return
    known = store.get_record(f"finished/{digest}") or {}
    if n > known.get(_SIZES[kind], 0):
        store.put_record(f"finished/{digest}", known | {_SIZES[kind]: n})


def finished_part(digest: str, *, store: Store) -> dict[str, int]:
    """Return how many documents or inputs of an audit both models have finished, by setting.

    The audit of as many costs next to nothing: its shards are kept. Empty where nothing is.
    """
    known: dict[str, int] = store.get_record(f"finished/{digest}") or {}
    return {"n_chain_inputs": 0} | known if "n_inputs" in known else known


@dataclass(frozen=True)
class Again:
    """What an audit was asked about, found again to be asked of another model or scenario.

    `general`, `hospital`, `names` and `passages` are the codes of what is kept here, "" for what
    is not (any more); `sibling` is that of the sibling's audit. The settings are None where this
    version would not take them.
    """

    general: str
    hospital: str
    names: str
    passages: str
    scenario: int
    settings: GenerationSettings | PosteriorSettings | None
    how: RunSettings
    sibling: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Which of "general", "names", "passages" and "settings" are not here any more."""
        wanted = ("general", "names", *(("passages",) if self.scenario == 2 else ()), "settings")
        return tuple(field for field in wanted if not getattr(self, field))


def ask_again(report: AuditReport, *, models: tuple[RegisteredModel, ...], store: Store) -> Again:
    """Find what an audit was asked about, its two models among `models`."""
    asked, number = report.question, report.scenario.number
    passages = asked.get("passages")
    settings, how = None, RunSettings()
    with suppress(AuditError):
        kind = GenerationSettings if number == 1 else PosteriorSettings
        settings = kind(**asked.get("settings", {}))
        how = RunSettings(seed=asked.get("seed", 0), dtype=asked.get("dtype", "float32"))

    def code(who: str) -> str:
        model = report.models[who]
        found = find_model_by_digest(model.digest, name=model.name, models=models)
        return found.model_id if found else ""

    return Again(
        code("general"),
        code("hospital"),
        code_of_names(str(asked.get("candidates", "")), store=store),
        code_of_passages(passages, store=store) if passages else "",
        number,
        settings,
        how,
        str(asked.get("sibling", ""))[:12],
    )


def kept_report(digest: str, *, store: Store) -> AuditReport | None:
    """Return the kept report of an audit; None where there is none that this version can read.

    Whoever asks first gets it so too: equal files need equal order, and the store sorts.
    """
    record = store.get_record(f"audit/{digest}")
    if record is None or kept_inspection(digest, store=store) is None:
        return None
    try:
        report = AuditReport.from_json(record)
    except AuditError:
        return None  # of another version: made again from the evidence that is kept
    has_all = report.scenario.number != 1 or store.get_record(f"documents/{digest}")
    return report if has_all else None


def _inspection(request: AuditRequest, attack: AttackResult) -> Inspection:
    n = len(request.candidates)
    ratio = attack.passage_log_ratio
    rows, ratios = best_passages(np.zeros((0, n)) if ratio is None else ratio)
    return Inspection(
        n_per_block=attack.shown_counts,
        hospital=attack.shown["hospital"].astype(np.float32),
        general=attack.shown["general"].astype(np.float32),
        reference_score=attack.scores[FIXED_SCORE][0, n:],
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
    )


def _report(
    request: AuditRequest,
    pair: ModelPair,
    attack: AttackResult,
    *,
    question: Mapping[str, Any],
    sibling: Mapping[int, DoseRecord] | None,
) -> AuditReport:
    listed = attack.listed
    n_reference = len(attack.n_pieces) - len(listed)
    judged = judge(
        attack, control_source=request.control_source, seed=request.seed, sibling=sibling
    )
    count_pieces = spelling.piece_counter(pair.hospital.tokenizer)
    details = attack.details | judged.pop("details")
    n_flagged = judged.pop("n_flagged_by_general")
    notes = _notes(request, pair, judged["names"], n_reference, n_flagged, attack.n_chain_inputs)
    if "stop" in attack.details:
        notes.append(_told_stop(attack.details["stop"]))
    notes += match_notes(listed, count_pieces=count_pieces)
    return AuditReport.of(
        digest=question_digest(question),
        question=question,
        scenario=request.scenario.plain(),
        models={
            who: {
                "name": loaded.name,
                "digest": loaded.digest,
                "architecture": loaded.config.architecture,
                "n_parameters": loaded.n_parameters,
                "notes": [],
            }
            for who, loaded in (("general", pair.general), ("hospital", pair.hospital))
        },
        candidates=_counts(listed, n_reference),
        fixed_score=FIXED_SCORE,
        columns=list(judged["names"]),
        details=plain(details),
        notes=[note.plain() for note in notes],
        made={},
        **judged,
    )


def sibling_records(
    sibling: str, question: Mapping[str, Any], *, store: Store
) -> dict[int, DoseRecord]:
    """Return what the audit of a sibling model saw of its known names, by number of mentions.

    `sibling` is that audit's digest; "": none. Raises AuditError unless it is kept and asked the
    same of the same general model as `question`: a run of another size sees more or less.
    """
    if not sibling:
        return {}
    report = kept_report(sibling, store=store)
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
    return {line.dose: DoseRecord(**vars(line)) for line in report.details.doses}


def _told_stop(stop: Any) -> Message:
    """Say what a sequential audit saved; its "stop" has inputs used, allowed, and names open."""
    if stop["n_open"]:
        return Message(
            "All {n_allowed:,} inputs were used: with fewer the decisions of {n_open:,} names were "
            "still open.",
            **stop,
        )
    saved = 100 - 100 * stop["n_inputs"] / stop["n_allowed"]
    return Message(
        "Stopped after {n_inputs:,} of at most {n_allowed:,} inputs ({saved:.0f} % saved): more "
        "of them would change no name's decision.",
        saved=saved,
        **stop,
    )


def _counts(listed: Candidates, n_reference: int) -> dict[str, object]:
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


def _notes(
    request: AuditRequest,
    pair: ModelPair,
    columns: Mapping[str, list[Any]],
    n_reference: int,
    n_flagged_by_general: int,
    n_chain_inputs: int,
) -> list[Message]:
    from audit.attack.scenarios import main_lead

    pieces = spelling.part_pieces(
        request.candidates, kind=main_lead(request), tokenizer=pair.hospital.tokenizer
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
    kinds = guessed_kinds(request.candidates)
    is_own = request.control_source in OF_HOSPITAL
    told = (
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
            not is_own and n_reference < MIN_REFERENCE,
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
    counted_notes = [note for is_so, note in told if is_so]
    return [*map(Message, pair.notes), *case_notes(request.candidates), *counted_notes]
