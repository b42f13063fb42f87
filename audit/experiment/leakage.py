"""run_leakage: where the two systems meet: the name attack on models of de-identified notes.

Comes in: an order, de-identifiers. Goes out: leakage against missed names. For each arm the demo
hospital's notes are redacted, M_general is trained on them, and the model is attacked; every
trained model and every audit is kept, so that what was stopped goes on.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from audit.demo_build import ENGLISH, JAPANESE, Recipe, demo_staff, save_model, special_ids
from audit.errors import AuditCancelled, AuditError
from audit.experiment.leakage_tables import (
    ALL,
    CAUGHT,
    CONTROLS,
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
from audit.experiment.paper import StageProgress
from audit.home import DEMO_HOSPITAL
from audit.models.forward import onednn_float32
from audit.models.inspect import MODEL_FOLDER, RUN_FILE, model_digest
from audit.models.load import LoadedModel, load_model
from audit.names.candidates import Candidates
from audit.names.files import read_names
from audit.names.pools import japanese_pool, us_pool
from audit.notes.passages import Passages, read_passages
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, Span, TaggedDocument, merged, tagged
from audit.progress import Pace, Progress, ProgressListener, StopQuestion
from audit.report.compare import auc_difference
from audit.report.report import AuditReport
from audit.rng import generator
from audit.run import run_audit
from audit.shelf import private_folder, whole_folder, write_whole
from audit.stats import BoolArray, Estimate, FloatArray, Rate, bootstrap_ranking
from audit.training.small import PretrainSettings, pretrain
from audit.training.tokens import Ids
from cache.store import Store

RECIPES = {"en": ENGLISH, "ja": JAPANESE}
DEMO_SEED = 0
"""Of the shipped notes."""

_FIRST, _LAST, _STAFF = 0xE000, 0xE800, 0xF000
"""Where the signs begin that stand for names while the notes are written (private use area)."""


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

    def __post_init__(self) -> None:
        """Check every mention against its note, once."""
        for mention in self.mentions:
            document = self.documents[mention.note]
            first, last = self.names.first[mention.owner], self.names.last[mention.owner]
            is_gold = mention.span in document.spans
            written = document.text[mention.span.start : mention.span.end]
            if not is_gold or written != _written(first, last, self.language):
                raise ValueError("a mention is not where a name is")

    @property
    def n_patients(self) -> int:
        """How many patients are named; rows 0 to n - 1 of `names`."""
        return sum(truth is True for truth in self.names.is_member)

    @property
    def texts(self) -> tuple[str, ...]:
        """The notes as they are."""
        return tuple(document.text for document in self.documents)


def hospital_notes(language: str, *, directory: Path = DEMO_HOSPITAL) -> HospitalNotes:
    """Return the demo hospital's notes.

    Parameters
    ----------
    language
        "en" or "ja".
    directory
        Of the shipped demo.
    """
    recipe, folder = RECIPES[language], directory / language
    try:
        names = read_names((folder / "names.csv").read_bytes(), what="demo names").candidates
    except OSError:
        raise AuditError(
            "The demo's files are missing.", do="Make them with: python -m audit demo --retrain"
        ) from None
    pool = us_pool() if language == "en" else japanese_pool()
    staff = demo_staff(pool, recipe, seed=DEMO_SEED)
    patients = [
        (first, last)
        for first, last, truth in zip(names.first, names.last, names.is_member, strict=True)
        if truth
    ]
    written = _demo_notes(patients, staff=staff, recipe=recipe)
    documents, mentions = _placed(patients, staff=staff, recipe=recipe)
    if tuple(document.text for document in documents) != written.notes:
        raise ValueError("the places of the names are not those of the notes")
    return HospitalNotes(
        language, documents, mentions, names, _passages(written), folder / "models" / "general"
    )


def _demo_notes(
    patients: Sequence[tuple[str, str]], *, staff: Sequence[str], recipe: Recipe
) -> demo_notes.DemoHospital:
    return demo_notes.demo_notes(
        patients, staff=staff, language=recipe.language, n_notes=recipe.n_notes, seed=DEMO_SEED
    )


def _placed(
    patients: Sequence[tuple[str, str]], *, staff: Sequence[str], recipe: Recipe
) -> tuple[tuple[TaggedDocument, ...], tuple[Mention, ...]]:
    """Write the notes with one sign for each part of a name, then put the names where signs are."""
    signs = [(chr(_FIRST + i), chr(_LAST + i)) for i in range(len(patients))]
    drafts = _demo_notes(
        signs, staff=[chr(_STAFF + i) for i in range(len(staff))], recipe=recipe
    ).notes  # fmt: skip
    language = recipe.language
    names = {
        _written(*sign, language): (_written(*patient, language), i)
        for i, (sign, patient) in enumerate(zip(signs, patients, strict=True))
    }
    names |= {chr(_STAFF + i): (name, -1) for i, name in enumerate(staff)}
    documents, mentions = [], []
    for number, draft in enumerate(drafts):
        text, found = _filled(draft, names)
        spans = [span for span, _ in found]
        own = [Mention(number, span, owner) for span, owner in found if owner >= 0]
        patient = f"P{own[0].owner:03d}" if own else None
        documents.append(tagged(f"N{number:04d}", text=text, spans=spans, patient_id=patient))
        mentions += own
    return tuple(documents), tuple(mentions)


def _filled(draft: str, names: dict[str, tuple[str, int]]) -> tuple[str, list[tuple[Span, int]]]:
    """Return a draft with names in place of signs, span and owner (-1: a doctor) of each."""
    pieces: list[str] = []
    found: list[tuple[Span, int]] = []
    at = n_chars = 0
    places = [(start, sign) for sign in names for start in _starts(draft, sign)]
    for start, sign in sorted(places):
        name, owner = names[sign]
        pieces += [draft[at:start], name]
        n_chars += start - at
        label = QUASI_IDENTIFIER if owner < 0 else IDENTIFIER
        found.append((Span(n_chars, n_chars + len(name), label), owner))
        n_chars += len(name)
        at = start + len(sign)
    return "".join([*pieces, draft[at:]]), found


def _starts(text: str, sign: str) -> list[int]:
    return [i for i in range(len(text)) if text.startswith(sign, i)] if sign in text else []


def _written(first: str, last: str, language: str) -> str:
    return f"{last}{first}" if language == "ja" else f"{first} {last}"


def _passages(hospital: demo_notes.DemoHospital) -> Passages:
    lines = [
        json.dumps(
            {"passage_id": f"P{i + 1:03d}", "name_id": p.owner, "text": demo_notes.passage_text(p)}
        )
        for i, p in enumerate(hospital.patterns)
    ]
    return read_passages("\n".join(lines).encode(), what="passages", file_name="passages.jsonl")


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
    n_staff, n_staff_whole
        Mentions of doctors, and those that are replaced whole.
    coverage
        Of all names, as `deid score` counts it.
    """

    mentions: tuple[str, ...]
    is_exposed: tuple[bool, ...]
    n_staff: int
    n_staff_whole: int
    coverage: CoverageCounts

    @property
    def n_exposed(self) -> int:
        """How many patients of whose name something is left."""
        return sum(self.is_exposed)

    @property
    def n_left(self) -> int:
        """How many mentions are not replaced whole."""
        return len(self.mentions) - self.mentions.count(WHOLE)


def replaced_spans(
    notes: HospitalNotes,
    *,
    arm: Arm,
    tagger: Tagger | None,
    seed: int,
    should_stop: StopQuestion = lambda: False,
) -> Spans:
    """Return what an arm replaces in each note.

    Shares are nested: who is missed at 1 % is missed at 5 % too.

    Parameters
    ----------
    tagger
        The de-identifier of an arm of that kind; None for the others.
    """
    if arm.kind == RAW:
        return ((),) * len(notes.documents)
    if tagger is not None:
        return _tagged(notes, tagger=tagger, should_stop=should_stop)
    gold = tuple(document.spans for document in notes.documents)
    if arm.kind == PERFECT:
        return gold
    left = set(missed_at_random(notes, unit=arm.kind, share=arm.share, seed=seed))
    kept: list[set[Span]] = [set() for _ in gold]
    for number in left:
        mention = notes.mentions[number]
        kept[mention.note].add(mention.span)
    return tuple(
        tuple(span for span in spans if span not in stays)
        for spans, stays in zip(gold, kept, strict=True)
    )


def missed_at_random(
    notes: HospitalNotes, *, unit: str, share: float, seed: int
) -> tuple[int, ...]:
    """Return which mentions stay, by number: a share of all, or those of a share of patients.

    At least one mention or patient is drawn.
    """
    if unit not in (MENTIONS, PATIENTS):
        raise ValueError(f"{unit}: nothing is missed by that")
    n = len(notes.mentions) if unit == MENTIONS else notes.n_patients
    order = generator(seed, f"missed {unit}").permutation(n)
    drawn = {int(i) for i in order[: max(1, round(share * n))]}
    if unit == MENTIONS:
        return tuple(sorted(drawn))
    return tuple(i for i, mention in enumerate(notes.mentions) if mention.owner in drawn)


def released_texts(notes: HospitalNotes, spans: Spans, *, mode: str, seed: int) -> tuple[str, ...]:
    """Return the notes with their spans replaced: always source + replacements."""
    release = Release(mode=mode, language=notes.language, seed=seed)
    return tuple(
        release.of(document.with_spans(found)).text
        for document, found in zip(notes.documents, spans, strict=True)
    )


def name_misses(notes: HospitalNotes, spans: Spans) -> NameMisses:
    """Return which names are left in the notes once the spans are replaced."""
    by_note: dict[int, list[Mention]] = {}
    for mention in notes.mentions:
        by_note.setdefault(mention.note, []).append(mention)
    found: dict[Mention, str] = {}
    covered = CoverageCounts()
    n_staff = n_staff_whole = 0
    for number, (document, given) in enumerate(zip(notes.documents, spans, strict=True)):
        covered += coverage(document, predicted=given)
        own = by_note.get(number, [])
        found |= {mention: _covered(mention.span, given) for mention in own}
        staff = [s for s in document.spans if s not in {mention.span for mention in own}]
        n_staff += len(staff)
        n_staff_whole += sum(_covered(span, given) == WHOLE for span in staff)
    states = tuple(found[mention] for mention in notes.mentions)
    left = {m.owner for m, s in zip(notes.mentions, states, strict=True) if s != WHOLE}
    is_exposed = tuple(owner in left for owner in range(notes.n_patients))
    return NameMisses(states, is_exposed, n_staff, n_staff_whole, covered)


def _covered(name: Span, replaced: Sequence[Span]) -> str:
    n = sum(max(0, min(name.end, e) - max(name.start, s)) for s, e in merged(replaced))
    if n == name.n_chars:
        return WHOLE
    return PART if n else MISSED


def _tagged(notes: HospitalNotes, *, tagger: Tagger, should_stop: StopQuestion) -> Spans:
    return tuple(
        spans
        for batch in _batches(notes.documents)
        for spans in _asked(tagger, batch, should_stop=should_stop)
    )


def _asked(tagger: Tagger, batch: Sequence[TaggedDocument], *, should_stop: StopQuestion) -> Spans:
    if should_stop():
        raise AuditCancelled
    return tag_checked(tagger, [document.text for document in batch])


def _batches(documents: Sequence[TaggedDocument]) -> Iterator[Sequence[TaggedDocument]]:
    for start in range(0, len(documents), _NOTES_PER_BATCH):
        yield documents[start : start + _NOTES_PER_BATCH]


VERSION = 1
"""Raised whenever a change of code moves a weight: arms of older versions are trained anew."""

SETTINGS = PretrainSettings(n_rows=16)
_N_DIGITS = 12
_N_LAST = 50
_SEED_STEP = 1  # as in the demo: M_general has the seed itself


@dataclass(frozen=True)
class ArmModel:
    """A trained arm: its directory, steps, tokens of its notes, mean loss of the last steps."""

    path: Path
    n_steps: int
    n_tokens: int
    loss: float


def trained_arm(
    texts: Sequence[str],
    *,
    title: str,
    general: Path,
    epochs: float,
    seed: int,
    folder: Path,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
) -> ArmModel:
    """Train M_general on notes for some epochs, or return the model that is kept.

    Parameters
    ----------
    title
        What the model is called in reports.
    folder
        Where trained arms are kept, each in a folder named by its question.
    """
    question = {
        "version": VERSION, "title": title, "general": model_digest(general), "epochs": epochs,
        "seed": seed, "notes": question_digest({"texts": list(texts)}),
    }  # fmt: skip
    run = private_folder(folder / question_digest(question)[:_N_DIGITS])
    if (known := _kept(run)) is not None:
        return known
    loaded = load_model(general)
    encoded = loaded.tokenizer(list(texts), add_special_tokens=False, verbose=False)
    documents = [np.array(ids, dtype=np.int64) for ids in encoded["input_ids"]]
    n_tokens = sum(len(document) + 1 for document in documents)
    n_steps = max(1, round(epochs * SETTINGS.steps_per_epoch(n_tokens)))
    losses = _train(
        loaded, documents, n_steps=n_steps, seed=seed, progress=progress, should_stop=should_stop
    )
    with whole_folder(run / MODEL_FOLDER, replaces=True) as place:
        save_model(loaded.model, loaded.tokenizer, place)
    loss = float(np.mean(losses[-_N_LAST:]))
    facts = {"title": title, "n_steps": n_steps, "n_tokens": n_tokens, "loss": loss}
    write_whole(run / RUN_FILE, (json.dumps(facts) + "\n").encode())
    return ArmModel(run / MODEL_FOLDER, n_steps, n_tokens, loss)


def _train(
    loaded: LoadedModel,
    documents: Sequence[Ids],
    *,
    n_steps: int,
    seed: int,
    progress: ProgressListener,
    should_stop: StopQuestion,
) -> list[float]:
    """Train a model in place; returns the loss of each step."""
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
    return losses


def _kept(run: Path) -> ArmModel | None:
    """Return a trained arm; its facts are written last, so that where they are it is whole."""
    try:
        facts = json.loads((run / RUN_FILE).read_text(encoding="utf-8"))
        return ArmModel(
            run / MODEL_FOLDER, int(facts["n_steps"]), int(facts["n_tokens"]), float(facts["loss"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


FPRS = (0.01, 0.1)
N_REPLICATES = 2000


@dataclass(frozen=True, eq=False)
class ArmResult:
    """What came of one arm: what it left, its model, and the audit of each scenario."""

    arm: Arm
    tagger_digest: str
    misses: NameMisses
    model: ArmModel
    reports: Mapping[int, AuditReport]


def arm_row(result: ArmResult) -> ArmRow:
    """Return what an arm replaced and how it was trained."""
    misses = result.misses
    return ArmRow(
        code=result.arm.code,
        kind=result.arm.kind,
        share=result.arm.share,
        tagger=result.arm.tagger,
        tagger_digest=result.tagger_digest,
        n_mentions=len(misses.mentions),
        n_whole=misses.mentions.count(WHOLE),
        n_part=misses.mentions.count(PART),
        n_patients=len(misses.is_exposed),
        n_exposed=misses.n_exposed,
        n_staff=misses.n_staff,
        n_staff_whole=misses.n_staff_whole,
        other_chars=_other_chars(misses.coverage),
        n_steps=result.model.n_steps,
        n_tokens=result.model.n_tokens,
        loss=result.model.loss,
    )


def leak_rows(results: Sequence[ArmResult], *, seed: int) -> tuple[LeakRow, ...]:
    """Return the rows of all arms, scenarios, controls and groups; empty groups are left out."""
    by_kind = {result.arm.kind: result for result in results}
    raw, perfect = by_kind[RAW], by_kind[PERFECT]
    return tuple(
        row
        for result in results
        for scenario in result.reports
        for row in _leaks(
            result, scenario=scenario, raw=raw.reports[scenario],
            perfect=perfect.reports[scenario], seed=seed,
        )
    )  # fmt: skip


def split_rows(results: Sequence[ArmResult], *, seed: int) -> tuple[SplitRow, ...]:
    """Return the rows of the arms that left some patients and caught others."""
    perfect = next(result for result in results if result.arm.kind == PERFECT)
    return tuple(
        _split(result, scenario=scenario, perfect=perfect.reports[scenario], seed=seed)
        for result in results
        if 0 < result.misses.n_exposed < len(result.misses.is_exposed)
        for scenario in result.reports
    )


def _leaks(
    result: ArmResult, *, scenario: int, raw: AuditReport, perfect: AuditReport, seed: int
) -> Iterator[LeakRow]:
    report = result.reports[scenario]
    score, out = _column(report, "score"), np.array(report.stands_out, dtype=np.bool_)
    kinds = np.array(report.names["control_kind"], dtype=np.str_)
    for controls in CONTROLS:
        against = kinds == controls
        for group in GROUPS:
            members = _members(result, group, n_names=len(score))
            if not members.any() or not against.any():
                continue
            rows = members | against
            ranking = bootstrap_ranking(
                score[rows], members[rows], seed=seed, fprs=FPRS, n_replicates=N_REPLICATES
            )
            tprs = dict(ranking.tpr_at_fpr)
            minus_raw, minus_perfect = (
                _difference(report, other=other, rows=rows, is_member=members)
                for other in (raw, perfect)
            )
            yield LeakRow(
                code=result.arm.code,
                scenario=scenario,
                controls=controls,
                group=group,
                n_members=int(members.sum()),
                n_controls=int(against.sum()),
                auc=ranking.auc,
                tpr_at_1=tprs[FPRS[0]],
                tpr_at_10=tprs[FPRS[1]],
                minus_raw=minus_raw,
                minus_perfect=minus_perfect,
                flagged=Rate(int(out[members].sum()), int(members.sum())),
                digest=report.digest,
            )


def _split(result: ArmResult, *, scenario: int, perfect: AuditReport, seed: int) -> SplitRow:
    score = _column(result.reports[scenario], "score")
    left = _members(result, LEFT, n_names=len(score))
    rows = _members(result, ALL, n_names=len(score))
    ranking = bootstrap_ranking(
        score[rows], left[rows], seed=seed, fprs=FPRS, n_replicates=N_REPLICATES
    )
    other = _column(perfect, "score")
    _, on_perfect, difference = auc_difference(score[rows], other=other[rows], is_member=left[rows])
    n_left = int(left.sum())
    return SplitRow(
        result.arm.code, scenario, n_left, int(rows.sum()) - n_left, ranking.auc, on_perfect,
        difference,
    )  # fmt: skip


def _difference(
    report: AuditReport, *, other: AuditReport, rows: BoolArray, is_member: BoolArray
) -> Estimate:
    """Return the difference of two AUCs on the same names; NaN for an audit beside itself."""
    if report.digest == other.digest:
        return Estimate(math.nan, math.nan, math.nan)
    one, against = (_column(each, "score")[rows] for each in (report, other))
    return auc_difference(one, other=against, is_member=is_member[rows])[2]


def _members(result: ArmResult, group: str, *, n_names: int) -> BoolArray:
    """Return [N] which names are of a group: patients are the first names of the list."""
    is_exposed = np.array(result.misses.is_exposed, dtype=np.bool_)
    chosen = {
        ALL: np.ones_like(is_exposed),
        LEFT: is_exposed,
        CAUGHT: ~is_exposed,
    }[group]
    members = np.zeros(n_names, dtype=np.bool_)
    members[: len(chosen)] = chosen
    return members


def _column(report: AuditReport, name: str) -> FloatArray:
    cells: Sequence[Any] = report.names[name]
    return np.array([math.nan if cell is None else cell for cell in cells], dtype=np.float64)


def _other_chars(covered: CoverageCounts) -> float:
    """Return the share of the characters outside names that is replaced."""
    return covered.n_over_chars / covered.n_outside_chars if covered.n_outside_chars else 0.0


Load = Callable[[str], Tagger]
"""Gives the de-identifier of an identifier."""

_BACKWARD = 3.0  # a training step costs three forward passes over its tokens
_CHARS_PER_TOKEN = {"en": 4.7, "ja": 1.1}
_TOKENS_PER_INPUT = 130.0
_TAGGING_COST = {True: 0.2, False: 1.0}  # a character, in tokens of the small model


@dataclass(frozen=True, eq=False)
class LeakageResult:
    """A finished experiment: its tables, and the digests of its audits in their order."""

    tables: LeakageTables
    digests: tuple[str, ...]


def run_leakage(
    order: LeakageTask,
    *,
    load: Load,
    arms_folder: Path,
    store: Store,
    notes: HospitalNotes | None = None,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> LeakageResult:
    """Do the whole experiment, or what is left of it.

    Parameters
    ----------
    load
        Gives each of the order's de-identifiers when its turn comes.
    arms_folder
        Where the trained models are kept.
    store
        Where audits are kept.
    notes
        Of another hospital than the demo's.
    progress, should_stop, say
        As in `run_audit`; `say` takes a sentence after each arm.
    """
    hospital = notes or hospital_notes(order.language)
    stages = StageProgress(_costs(order, hospital), listener=progress)
    work = _Work(order, hospital, load, arms_folder, store, stages, should_stop)
    results = []
    for arm in order.arms:
        results.append(work.done(arm))
        say(_sentence(results[-1]))
    tables = LeakageTables(
        order=order,
        n_notes=len(hospital.documents),
        n_patients=hospital.n_patients,
        arms=tuple(arm_row(result) for result in results),
        leaks=leak_rows(results, seed=order.seed),
        splits=split_rows(results, seed=order.seed),
    )
    digests = (report.digest for result in results for report in result.reports.values())
    return LeakageResult(tables, tuple(dict.fromkeys(digests)))


@dataclass(frozen=True, eq=False)
class _Work:
    """The arms of one experiment."""

    order: LeakageTask
    notes: HospitalNotes
    load: Load
    arms_folder: Path
    store: Store
    stages: StageProgress
    should_stop: StopQuestion

    def done(self, arm: Arm) -> ArmResult:
        """De-identify, train, attack."""
        if self.should_stop():
            raise AuditCancelled
        order = self.order
        tagger = self.load(arm.tagger) if arm.kind == TAGGER else None
        spans = replaced_spans(
            self.notes, arm=arm, tagger=tagger, seed=order.seed, should_stop=self.should_stop
        )
        if tagger is not None:
            self.stages.finish(_tagging(arm))
        model = trained_arm(
            released_texts(self.notes, spans, mode=order.mode, seed=order.seed),
            title=f"demo {order.language}: {arm.code}",
            general=self.notes.general,
            epochs=order.epochs,
            seed=order.seed,
            folder=self.arms_folder,
            progress=self.stages.of(arm.code),
            should_stop=self.should_stop,
        )
        self.stages.finish(arm.code)
        reports: dict[int, AuditReport] = {
            scenario: self._audit(arm, scenario=scenario, hospital=model.path)
            for scenario in order.scenarios
        }
        misses = name_misses(self.notes, spans)
        return ArmResult(arm, tagger.digest if tagger else "", misses, model, reports)

    def _audit(self, arm: Arm, *, scenario: int, hospital: Path) -> AuditReport:
        stage = _attack(arm, scenario)
        report = run_audit(
            _request(self.order, self.notes, scenario=scenario, hospital=hospital),
            store=self.store,
            progress=self.stages.of(stage),
            should_stop=self.should_stop,
        )
        self.stages.finish(stage)
        return report


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


def _costs(order: LeakageTask, notes: HospitalNotes) -> Mapping[str, float]:
    """Return the stages with what each will cost, in tokens of forward passes; an estimate."""
    n_chars = sum(map(len, notes.texts))
    n_tokens = n_chars / _CHARS_PER_TOKEN[order.language]
    length = GenerationSettings()
    attacks = {
        2: _TOKENS_PER_INPUT * order.n_inputs,
        1: float(order.n_documents * length.n_steps * length.n_tokens),
    }
    costs: dict[str, float] = {}
    for number, arm in enumerate(order.arms):
        if arm.kind == TAGGER:
            costs[_tagging(arm)] = _TAGGING_COST[arm.tagger == "rules"] * n_chars
        costs[arm.code] = _BACKWARD * order.epochs * n_tokens
        for scenario in order.scenarios:
            # The first audit runs M_general too; the others take its evidence from the store.
            costs[_attack(arm, scenario)] = (2 if number == 0 else 1) * attacks[scenario]
    return costs


def _tagging(arm: Arm) -> str:
    return f"{arm.code}, tagging"


def _attack(arm: Arm, scenario: int) -> str:
    return f"{arm.code}, scenario {scenario}"


def _sentence(result: ArmResult) -> str:
    misses = result.misses
    return (
        f"{result.arm.code}: {misses.n_left} of {len(misses.mentions)} mentions left, "
        f"{result.model.n_steps} steps, loss {result.model.loss:.3f}."
    )
