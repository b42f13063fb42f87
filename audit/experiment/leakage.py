"""run_leakage: where the two systems meet: the name attack on models of de-identified notes.

Comes in: an order, de-identifiers. Goes out: leakage against missed names. For each arm the demo
hospital's notes are redacted, M_general is trained on them, and the model is attacked; every
trained model and every audit is kept, so that what was stopped goes on.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.attack.question import (
    JAPANESE_PROMPT,
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    question_digest,
)
from audit.corpus import demo_notes
from audit.deid.matching import CoverageCounts, coverage
from audit.deid.release import Release
from audit.deid.tagger import Tagger, tag_checked
from audit.demo_build import ENGLISH, JAPANESE, demo_staff, save_model, special_ids
from audit.errors import AuditCancelled, AuditError
from audit.experiment.leakage_tables import (
    ALL,
    CAUGHT,
    GROUPS,
    LEFT,
    MENTIONS,
    PATIENTS,
    PERFECT,
    RAW,
    TAGGER,
    Arm,
    ArmRow,
    LeakageTables,
    LeakageTask,
    LeakRow,
    SplitRow,
)
from audit.experiment.paper import BACKWARD, CONTROLS, TOKENS_PER_INPUT, StageProgress
from audit.home import DEMO_HOSPITAL
from audit.models.forward import onednn_float32
from audit.models.inspect import MODEL_FOLDER, RUN_FILE, model_digest
from audit.models.load import load_model
from audit.names.candidates import Candidates
from audit.names.files import read_names
from audit.names.pools import japanese_pool, us_pool
from audit.notes.passages import Passages, read_passages
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, Span, TaggedDocument, merged, tagged
from audit.progress import Pace, Progress, ProgressListener, StopQuestion
from audit.report.compare import auc_difference
from audit.report.names import numbers
from audit.report.report import AuditReport
from audit.rng import generator
from audit.run import run_audit
from audit.shelf import private_folder, whole_folder, write_whole
from audit.stats import BoolArray, Estimate, Rate, bootstrap_ranking
from audit.task import Record
from audit.training.small import PretrainSettings, pretrain
from cache.store import Store

RECIPES = {"en": ENGLISH, "ja": JAPANESE}
DEMO_SEED = 0
"""Of the shipped notes."""
_DOCTOR = {"en": r"dr \. ", "ja": "担当医"}
"""What stands before a doctor's name."""


@dataclass(frozen=True)
class Mention:
    """Where a patient is named: the number of the note, and the span of the name in it."""

    note: int
    span: Span
    owner: int


@dataclass(frozen=True, eq=False)
class HospitalNotes:
    """The notes of a hospital whose names are all known.

    Attributes
    ----------
    language
        "en" or "ja".
    documents
        The notes; gold spans are the full names of patients and the last names of doctors.
    mentions
        Of patients, in the order of the notes.
    names
        The list L: patients first, in the order of `Mention.owner`, then controls.
    passages
        Of D_public: what the attacker of scenario 2 holds.
    general
        Directory of M_general.
    """

    language: str
    documents: tuple[TaggedDocument, ...]
    mentions: tuple[Mention, ...]
    names: Candidates
    passages: Passages
    general: Path

    @property
    def n_patients(self) -> int:
        """How many patients are named; rows 0 to n - 1 of `names`."""
        return sum(truth is True for truth in self.names.is_member)

    @property
    def texts(self) -> tuple[str, ...]:
        """The notes as they are."""
        return tuple(document.text for document in self.documents)


def hospital_notes(language: str, *, directory: Path = DEMO_HOSPITAL) -> HospitalNotes:
    """Return the demo hospital's notes; `directory` is the shipped demo's.

    A patient's full name stands nowhere but where the patient is named.
    """
    recipe, folder = RECIPES[language], directory / language
    try:
        names = read_names((folder / "names.csv").read_bytes(), what="demo names").candidates
    except OSError:
        raise AuditError(
            "The demo's files are missing.", do="Make them with: python -m audit demo --retrain"
        ) from None
    patients = [row for row, truth in enumerate(names.is_member) if truth]
    owner_of = {names.full_name(row): row for row in patients}
    staff = demo_staff(us_pool() if language == "en" else japanese_pool(), recipe, seed=DEMO_SEED)
    written = demo_notes.demo_notes(
        [(names.first[row], names.last[row]) for row in patients], staff=staff,
        language=language, n_notes=recipe.n_notes, seed=DEMO_SEED,
    )  # fmt: skip
    people, doctors = ("|".join(sorted(who, key=len, reverse=True)) for who in (owner_of, staff))
    named = re.compile(f"{people}|(?<={_DOCTOR[language]})(?:{doctors})")
    documents, mentions = [], []
    for number, text in enumerate(written.notes):
        gold, own = [], []
        for found in named.finditer(text):
            owner = owner_of.get(found[0])
            label = QUASI_IDENTIFIER if owner is None else IDENTIFIER
            gold.append(Span(*found.span(), label))
            own += [] if owner is None else [Mention(number, gold[-1], owner)]
        patient = f"P{own[0].owner:03d}" if own else None
        documents.append(tagged(f"N{number:04d}", text=text, spans=gold, patient_id=patient))
        mentions += own
    lines = [
        json.dumps(
            {"passage_id": f"P{i:03d}", "name_id": p.owner, "text": demo_notes.passage_text(p)}
        )
        for i, p in enumerate(written.patterns, start=1)
    ]
    data = "\n".join(lines).encode()
    passages = read_passages(data, what="passages", file_name="passages.jsonl")
    general = folder / "models" / "general"
    return HospitalNotes(language, tuple(documents), tuple(mentions), names, passages, general)


WHOLE, PART, MISSED = "whole", "part", "missed"
"""How much of a name is covered by what is replaced."""
_NOTES_PER_BATCH = 64
Spans = tuple[tuple[Span, ...], ...]
"""Of each note, what is replaced."""


@dataclass(frozen=True)
class NameMisses:
    """What an arm leaves of the names in the notes.

    Attributes
    ----------
    mentions
        Of each mention of a patient, in the order of `HospitalNotes.mentions`: `WHOLE`, `PART` or
        `MISSED`.
    is_exposed
        [patients] Whether anything is left of one of the patient's mentions.
    coverage
        Of all names, as `deid score` counts it: patients are `IDENTIFIER`, doctors
        `QUASI_IDENTIFIER`.
    """

    mentions: tuple[str, ...]
    is_exposed: tuple[bool, ...]
    coverage: CoverageCounts


def replaced_spans(
    notes: HospitalNotes,
    *,
    arm: Arm,
    tagger: Tagger | None,
    seed: int,
    should_stop: StopQuestion = lambda: False,
) -> Spans:
    """Return what an arm replaces in each note; `tagger` is that of an arm of that kind.

    Shares are nested: who is missed at 1 % is missed at 5 % too.
    """
    gold = tuple(document.spans for document in notes.documents)
    if arm.kind == RAW:
        return ((),) * len(gold)
    if tagger is not None:
        found: list[tuple[Span, ...]] = []
        for start in range(0, len(gold), _NOTES_PER_BATCH):
            if should_stop():
                raise AuditCancelled
            found += tag_checked(tagger, notes.texts[start : start + _NOTES_PER_BATCH])
        return tuple(found)
    if arm.kind == PERFECT:
        return gold
    left = {
        (notes.mentions[i].note, notes.mentions[i].span)
        for i in missed_at_random(notes, unit=arm.kind, share=arm.share, seed=seed)
    }
    return tuple(
        tuple(span for span in spans if (note, span) not in left) for note, spans in enumerate(gold)
    )


def missed_at_random(
    notes: HospitalNotes, *, unit: str, share: float, seed: int
) -> tuple[int, ...]:
    """Return which mentions stay, by number: a share of all, or those of a share of patients.

    At least one mention or patient is drawn.
    """
    owners = [mention.owner for mention in notes.mentions]
    n, of_mention = {
        MENTIONS: (len(owners), range(len(owners))), PATIENTS: (notes.n_patients, owners),
    }[unit]  # fmt: skip
    order = generator(seed, f"missed {unit}").permutation(n)
    drawn = set(order[: max(1, round(share * n))].tolist())
    return tuple(i for i, one in enumerate(of_mention) if one in drawn)


def released_texts(notes: HospitalNotes, spans: Spans, *, mode: str, seed: int) -> tuple[str, ...]:
    """Return the notes with their spans replaced: always source + replacements."""
    release = Release(mode=mode, language=notes.language, seed=seed)
    return tuple(
        release.of(document.with_spans(found)).text
        for document, found in zip(notes.documents, spans, strict=True)
    )


def name_misses(notes: HospitalNotes, spans: Spans) -> NameMisses:
    """Return which names are left in the notes once the spans are replaced."""
    pairs = zip(notes.documents, spans, strict=True)
    counted = sum((coverage(one, predicted=given) for one, given in pairs), CoverageCounts())
    states = []
    for mention in notes.mentions:
        name, replaced = mention.span, merged(spans[mention.note])
        n = sum(max(0, min(name.end, end) - max(name.start, start)) for start, end in replaced)
        states.append(WHOLE if n == name.n_chars else PART if n else MISSED)
    left = {m.owner for m, state in zip(notes.mentions, states, strict=True) if state != WHOLE}
    is_exposed = tuple(owner in left for owner in range(notes.n_patients))
    return NameMisses(tuple(states), is_exposed, counted)


VERSION = 1
"""Raised whenever a change of code moves a weight: arms of older versions are trained anew."""
SETTINGS = PretrainSettings(n_rows=16)
_N_LAST = 50
_SEED_STEP = 1  # as in the demo: M_general has the seed itself


class ArmFacts(Record):
    """What is kept of a trained arm beside its model: `loss` is the mean of the last steps."""

    title: str
    n_steps: int
    n_tokens: int
    loss: float


def trained_arm(
    texts: Sequence[str],
    *,
    title: str,
    notes: HospitalNotes,
    epochs: float,
    seed: int,
    folder: Path,
    progress: ProgressListener,
    should_stop: StopQuestion,
) -> tuple[Path, ArmFacts]:
    """Train M_general on texts for some epochs, or take the model that is kept.

    `folder` keeps trained arms, each in a folder named by its question; its facts are written last,
    so that where they are it is whole.
    """
    question = {
        "version": VERSION, "title": title, "general": model_digest(notes.general),
        "epochs": epochs, "seed": seed, "notes": question_digest({"texts": list(texts)}),
    }  # fmt: skip
    run = private_folder(folder / question_digest(question)[:12])
    try:
        data = (run / RUN_FILE).read_bytes()
        return run / MODEL_FOLDER, ArmFacts.read(data, where=RUN_FILE)
    except (OSError, AuditError):
        loaded = load_model(notes.general)
    encoded = loaded.tokenizer(list(texts), add_special_tokens=False, verbose=False)
    documents = [np.array(ids, dtype=np.int64) for ids in encoded["input_ids"]]
    n_tokens = sum(len(document) + 1 for document in documents)
    n_steps = max(1, round(epochs * SETTINGS.steps_per_epoch(n_tokens)))
    losses: list[float] = []
    pace = Pace()

    def after_step(step: int, loss: float) -> None:
        losses.append(loss)
        left = pace.seconds_left(step, total=n_steps, now=time.monotonic())
        progress(Progress("training", step, n_steps, left))
        if should_stop():
            raise AuditCancelled

    with onednn_float32():
        pretrain(
            loaded.model, documents, special=special_ids(loaded.tokenizer), n_steps=n_steps,
            seed=seed + _SEED_STEP, settings=SETTINGS, after_step=after_step,
        )  # fmt: skip
    with whole_folder(run / MODEL_FOLDER, replaces=True) as place:
        save_model(loaded.model, loaded.tokenizer, place)
    loss = float(np.mean(losses[-_N_LAST:]))
    facts = ArmFacts(title=title, n_steps=n_steps, n_tokens=n_tokens, loss=loss)
    write_whole(run / RUN_FILE, facts.written())
    return run / MODEL_FOLDER, facts


FPRS = (0.01, 0.1)
N_REPLICATES = 2000


@dataclass(frozen=True, eq=False)
class ArmResult:
    """What came of one arm: its row, which patients [P] it left, the audit of each scenario."""

    row: ArmRow
    is_exposed: BoolArray
    reports: Mapping[int, AuditReport]

    def members(self, group: str, *, n_names: int) -> BoolArray:
        """Return [N] which names are of a group: patients are the first names of the list."""
        everybody = np.ones_like(self.is_exposed)
        chosen = {ALL: everybody, LEFT: self.is_exposed, CAUGHT: ~self.is_exposed}[group]
        return np.pad(chosen, (0, n_names - len(chosen)))


def arm_row(arm: Arm, misses: NameMisses, facts: ArmFacts, *, tagger_digest: str = "") -> ArmRow:
    """Return what an arm replaced and how it was trained."""
    found = misses.coverage
    n_staff, n_staff_whole = found.row(QUASI_IDENTIFIER)[:2]
    outside = found.n_outside_chars
    return ArmRow(
        code=arm.code,
        kind=arm.kind,
        share=arm.share,
        tagger=arm.tagger,
        tagger_digest=tagger_digest,
        n_mentions=len(misses.mentions),
        n_whole=misses.mentions.count(WHOLE),
        n_part=misses.mentions.count(PART),
        n_patients=len(misses.is_exposed),
        n_exposed=sum(misses.is_exposed),
        n_staff=n_staff,
        n_staff_whole=n_staff_whole,
        other_chars=found.n_over_chars / outside if outside else 0.0,
        **facts.model_dump(exclude={"title"}),
    )


def leak_rows(results: Sequence[ArmResult], *, seed: int) -> Iterator[LeakRow]:
    """Yield the rows of all arms, scenarios, controls and groups; empty groups are left out."""
    of_kind = {result.row.kind: result.reports for result in results}
    for result in results:
        for scenario, report in result.reports.items():
            score, out = numbers(report.names["score"]), np.array(report.stands_out, dtype=np.bool_)
            kinds = np.array(report.names["control_kind"], dtype=np.str_)
            for controls, group in ((c, g) for c in CONTROLS for g in GROUPS):
                members, against = result.members(group, n_names=len(score)), kinds == controls
                if not members.any() or not against.any():
                    continue
                rows = members | against
                ranking = bootstrap_ranking(
                    score[rows], members[rows], seed=seed, fprs=FPRS, n_replicates=N_REPLICATES
                )
                minus_raw, minus_perfect = (
                    _difference(report, other=of_kind[kind][scenario], rows=rows, is_member=members)
                    for kind in (RAW, PERFECT)
                )
                yield LeakRow(
                    code=result.row.code,
                    scenario=scenario,
                    controls=controls,
                    group=group,
                    n_members=int(members.sum()),
                    n_controls=int(against.sum()),
                    auc=ranking.auc,
                    tpr_at_1=dict(ranking.tpr_at_fpr)[FPRS[0]],
                    tpr_at_10=dict(ranking.tpr_at_fpr)[FPRS[1]],
                    minus_raw=minus_raw,
                    minus_perfect=minus_perfect,
                    flagged=Rate(int(out[members].sum()), int(members.sum())),
                    digest=report.digest,
                )


def _difference(
    report: AuditReport, *, other: AuditReport, rows: BoolArray, is_member: BoolArray
) -> Estimate:
    """Return the difference of two AUCs on the same names; NaN for an audit beside itself."""
    if report.digest == other.digest:
        return Estimate(math.nan, math.nan, math.nan)
    one, against = (numbers(each.names["score"])[rows] for each in (report, other))
    return auc_difference(one, other=against, is_member=is_member[rows])[2]


def split_rows(results: Sequence[ArmResult], *, seed: int) -> Iterator[SplitRow]:
    """Yield the rows of the arms that left some patients and caught others."""
    perfect = next(result.reports for result in results if result.row.kind == PERFECT)
    for result in results:
        left = result.is_exposed
        if left.all() or not left.any():
            continue
        for scenario, report in result.reports.items():
            score, other = (
                numbers(one.names["score"])[: len(left)] for one in (report, perfect[scenario])
            )
            ranking = bootstrap_ranking(
                score, left, seed=seed, fprs=FPRS, n_replicates=N_REPLICATES
            )
            _, on_perfect, difference = auc_difference(score, other=other, is_member=left)
            yield SplitRow(
                code=result.row.code, scenario=scenario, n_left=int(left.sum()),
                n_caught=int((~left).sum()), auc=ranking.auc, on_perfect=on_perfect,
                difference=difference,
            )  # fmt: skip


_CHARS_PER_TOKEN = {"en": 4.7, "ja": 1.1}
_TAGGING_COST = {True: 0.2, False: 1.0}  # a character, in tokens of the small model


def run_leakage(
    order: LeakageTask,
    *,
    load: Callable[[str], Tagger],
    arms_folder: Path,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> LeakageTables:
    """Do the whole experiment, or what is left of it.

    Parameters
    ----------
    load
        Gives each of the order's de-identifiers when its turn comes.
    progress, should_stop, say
        As in `run_audit`; `say` takes a sentence after each arm.
    """
    notes = hospital_notes(order.language)
    stages = StageProgress(_costs(order, notes), listener=progress)
    results = []
    for arm in order.arms:
        if should_stop():
            raise AuditCancelled
        tagger = load(arm.tagger) if arm.kind == TAGGER else None
        spans = replaced_spans(
            notes, arm=arm, tagger=tagger, seed=order.seed, should_stop=should_stop
        )
        if tagger is not None:
            stages.finish(_tagging(arm))
        model, facts = trained_arm(
            released_texts(notes, spans, mode=order.mode, seed=order.seed),
            title=f"demo {order.language}: {arm.code}", notes=notes, epochs=order.epochs,
            seed=order.seed, folder=arms_folder, progress=stages.of(arm.code),
            should_stop=should_stop,
        )  # fmt: skip
        stages.finish(arm.code)
        reports: dict[int, AuditReport] = {}
        for scenario in order.scenarios:
            stage = _attack(arm, scenario)
            reports[scenario] = run_audit(
                _request(order, notes, scenario=scenario, hospital=model), store=store,
                progress=stages.of(stage), should_stop=should_stop,
            )  # fmt: skip
            stages.finish(stage)
        misses = name_misses(notes, spans)
        row = arm_row(arm, misses, facts, tagger_digest=tagger.digest if tagger else "")
        results.append(ArmResult(row, np.array(misses.is_exposed, dtype=np.bool_), reports))
        left = f"{row.left.n_hits} of {row.n_mentions} mentions left"
        say(f"{arm.code}: {left}, {row.n_steps} steps, loss {row.loss:.3f}.")
    return LeakageTables(
        order=order,
        n_notes=len(notes.documents),
        n_patients=notes.n_patients,
        arms=tuple(result.row for result in results),
        leaks=tuple(leak_rows(results, seed=order.seed)),
        splits=tuple(split_rows(results, seed=order.seed)),
    )


def _request(
    order: LeakageTask, notes: HospitalNotes, *, scenario: int, hospital: Path
) -> AuditRequest:
    """Return the same question about every arm: only the hospital's model differs."""
    generation = GenerationSettings(n_documents=order.n_documents)
    if order.language == "ja":
        generation = generation.with_(prompt=JAPANESE_PROMPT)
    return AuditRequest(
        scenario_number=scenario,
        general=notes.general,
        hospital=hospital,
        candidates=notes.names,
        passages=notes.passages if scenario == 2 else None,
        generation=generation,
        posterior=PosteriorSettings(n_inputs=order.n_inputs, n_chain_inputs=0),
        seed=order.seed,
        device=order.device,
    )


def _costs(order: LeakageTask, notes: HospitalNotes) -> dict[str, float]:
    """Return the stages with what each will cost, in tokens of forward passes; an estimate."""
    n_chars, length = sum(map(len, notes.texts)), GenerationSettings()
    n_tokens = n_chars / _CHARS_PER_TOKEN[order.language]
    attacks = {
        2: TOKENS_PER_INPUT * order.n_inputs,
        1: float(order.n_documents * length.n_steps * length.n_tokens),
    }
    costs: dict[str, float] = {}
    for arm in order.arms:
        if arm.kind == TAGGER:
            costs[_tagging(arm)] = _TAGGING_COST[arm.tagger == "rules"] * n_chars
        costs[arm.code] = BACKWARD * order.epochs * n_tokens
        for scenario in order.scenarios:
            # The first audit runs M_general too; the others take its evidence from the store.
            costs[_attack(arm, scenario)] = (1 + (arm.kind == RAW)) * attacks[scenario]
    return costs


def _tagging(arm: Arm) -> str:
    return f"{arm.code}, tagging"


def _attack(arm: Arm, scenario: int) -> str:
    return f"{arm.code}, scenario {scenario}"
