"""Leakage against missed names: what is asked, what was found, as records, files and on a shelf.

Undefined numbers are NaN here, null in JSON. Torch-free.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from audit.attack.question import question_digest
from audit.deid.taggers import known_taggers, load_tagger
from audit.errors import AuditError
from audit.experiment.paper import counted, estimated, markdown_table
from audit.home import DEMO_HOSPITAL, results_dir
from audit.models.inspect import model_digest
from audit.report.report import Measured, Number, Part
from audit.shelf import Shelf, private_folder
from audit.stats import Estimate, Rate
from audit.tables import decimal, write_table
from audit.task import MAX_SEED, Contact, Device, Question, Task, queue_of
from cache.store import Store

Language = Literal["en", "ja"]
LANGUAGES = get_args(Language)
RAW, PERFECT, TAGGER = "raw", "perfect", "tagger"
MENTIONS, PATIENTS = "mentions", "patients"
Unit = Literal["mentions", "patients"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""What is missed at random: single mentions, or all mentions of a patient."""


@dataclass(frozen=True)
class Arm:
    """One way of making the notes that a hospital model is trained on.

    Attributes
    ----------
    kind
        `RAW`: as they are; `PERFECT`: every name replaced; `TAGGER`: what a de-identifier finds is
        replaced; `MENTIONS` and `PATIENTS`: every name but a random share is replaced.
    share
        Of patients' mentions, or of patients, whose names stay; NaN for the other kinds.
    tagger
        Identifier of the de-identifier; "" for the other kinds.
    """

    kind: str
    share: float = math.nan
    tagger: str = ""

    @property
    def code(self) -> str:
        """What the arm is called in tables, progress and file names."""
        if self.kind == TAGGER:
            return f"tagger {self.tagger}"
        return self.kind if math.isnan(self.share) else f"{self.kind} {100 * self.share:g} %"


class LeakageTask(Task):
    """What an experiment on leakage against missed names is to be made of."""

    job = "leakage"
    flags: ClassVar = {"taggers": "--tagger", "shares": "--miss", "scenarios": "--scenario"}

    language: Language = Field(default="en", description="of the demo hospital")
    taggers: tuple[str, ...] = Field(
        default=(),
        max_length=20,
        description="rules, default or trained/<id>; repeatable",
    )
    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.01, 0.05, 0.1, 0.25, 0.5),
        max_length=20,
        examples=["0.01,0.05,0.1"],
        description="shares of names that are left at random, rising",
    )
    units: tuple[Unit, ...] = UNITS
    mode: Literal["placeholder", "surrogate", "mask"] = Field(
        default="placeholder", description="what takes a name's place"
    )
    epochs: float = Field(
        default=10.0, gt=0, le=1000, description="how often each model reads its notes"
    )
    scenarios: tuple[Literal[1, 2], ...] = Field(
        default=(2,), min_length=1, description="the attack; repeatable, 2 unless given"
    )
    n_inputs: int = Field(default=2000, ge=1, le=10_000_000, description="of scenario 2")
    n_documents: int = Field(default=300, ge=1, le=10_000_000, description="of scenario 1")
    seed: int = Field(
        default=0,
        ge=0,
        le=MAX_SEED,
        description="of the draws of missed names, surrogates, trainings and attacks",
    )
    device: Device = Field(default="auto", description="of taggers and attacks")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(len(set(x)) != len(x) for x in (self.scenarios, self.taggers, self.units)):
            raise AuditError(
                "The same is asked twice, or there are too many.", where="tagger or scenario"
            )
        if list(self.shares) != sorted(set(self.shares)):
            raise AuditError(
                "Shares of missed names are rising numbers above 0 and below 1.", where="shares",
                do="For example 0.01,0.05,0.1.",
            )  # fmt: skip
        return self

    def question(self) -> Question:
        """Return the question: the digests of the taggers and the demo's model are part of it."""
        return self.asked(
            label=f"demo {self.language}", device=queue_of(self.device), about=leakage_id(self)
        )

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Do the experiment, or what is left of it; returns its identifier.

        A tagger that was changed since the job was asked for makes another experiment.
        """
        from audit.experiment.leakage import run_leakage

        kept_as = leakage_id(self)
        if kept_as not in {kept.leakage_id for kept in LEAKAGE.all()}:
            with Store(results_dir()) as store:
                tables = run_leakage(
                    self,
                    load=lambda tagger: load_tagger(tagger, device=self.device),
                    arms_folder=private_folder(LEAKAGE.home() / "arms"),
                    store=store,
                    progress=contact.listen,
                    should_stop=contact.should_stop,
                    say=contact.say,
                )
            LEAKAGE.put(kept_as, tables.files())
        return (kept_as,)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms: raw and perfect first, then taggers, then random misses."""
        taggers = tuple(Arm(TAGGER, tagger=tagger) for tagger in self.taggers)
        doses = tuple(Arm(unit, share) for unit in self.units for share in self.shares)
        return (Arm(RAW), Arm(PERFECT), *taggers, *doses)


def quick(order: LeakageTask) -> LeakageTask:
    """Return an order of the same taggers that takes minutes: fewer arms, fewer epochs."""
    return order.with_(shares=(0.1, 0.5), units=("mentions",), epochs=4.0, n_inputs=500)


ALL, LEFT, CAUGHT = "all", "left", "caught"
GROUPS = (ALL, LEFT, CAUGHT)
"""Patients: all of them, those of whose name something was left, those with none of it left."""


class ArmRow(Part):
    """One arm: what was replaced, and how its model was trained.

    `n_mentions`, `n_whole` and `n_part` count mentions of patients, those that are replaced whole
    and those of which a part is left; `n_staff` and `n_staff_whole` the same of doctors.
    `other_chars` is the share of the characters outside names that is replaced too. `share` is what
    was asked for, NaN where nothing was; `loss` is in nats a token.
    """

    code: str
    kind: str
    share: Number
    tagger: str
    tagger_digest: str
    n_mentions: int
    n_whole: int
    n_part: int
    n_patients: int
    n_exposed: int
    n_staff: int
    n_staff_whole: int
    other_chars: float
    n_steps: int
    n_tokens: int
    loss: float

    @property
    def left(self) -> Rate:
        """Mentions of patients that are not replaced whole."""
        return Rate(self.n_mentions - self.n_whole, self.n_mentions)


class LeakRow(Part):
    """How well an attack tells a group of patients from controls, on one arm's model.

    `minus_raw` and `minus_perfect` are differences of AUC to those models on the same names, with
    the paired interval of DeLong; `flagged` counts patients with q of at most 5 %.
    """

    code: str
    scenario: int
    controls: str
    group: str
    n_members: int
    n_controls: int
    auc: Measured
    tpr_at_1: Measured
    tpr_at_10: Measured
    minus_raw: Measured
    minus_perfect: Measured
    flagged: Rate
    digest: str


class SplitRow(Part):
    """Whether a model's scores tell the patients that an arm left from those that it caught.

    `on_perfect` asks the same of the perfectly redacted model, where the two differ in nothing that
    was trained on; `difference` is the AUC of the arm minus that.
    """

    code: str
    scenario: int
    n_left: int
    n_caught: int
    auc: Measured
    on_perfect: Number
    difference: Measured


LEAKAGE_JSON, LEAKAGE_MD, LEAKAGE_CSV = FILES = "leakage.json", "leakage.md", "leakage.csv"
_GROUP_WORDS = {ALL: "all", LEFT: "name left", CAUGHT: "name caught"}
_HEADER = (
    "arm", "mentions_left", "mentions", "scenario", "controls", "group", "n_members", "n_controls",
    "auc", "auc_low", "auc_high", "tpr_at_fpr_1", "tpr_at_fpr_10", "minus_raw", "minus_raw_low",
    "minus_raw_high", "minus_perfect", "minus_perfect_low", "minus_perfect_high", "flagged",
    "digest",
)  # fmt: skip


class LeakageTables(Part):
    """What a leakage experiment on the demo hospital found, arms in the order of the task."""

    version: Literal[1] = Field(default=1, alias="schema")
    order: LeakageTask
    n_notes: int
    n_patients: int
    arms: tuple[ArmRow, ...]
    leaks: tuple[LeakRow, ...]
    splits: tuple[SplitRow, ...]

    def of(
        self, *, scenario: int, controls: str, group: str = ALL
    ) -> tuple[tuple[ArmRow, LeakRow], ...]:
        """Return the rows of one attack, one kind of controls and one group of patients."""
        arms, wanted = {arm.code: arm for arm in self.arms}, (scenario, controls, group)
        return tuple(
            (arms[one.code], one)
            for one in self.leaks
            if (one.scenario, one.controls, one.group) == wanted
        )

    def split(
        self, *, scenario: int, controls: str
    ) -> tuple[tuple[ArmRow, tuple[LeakRow, LeakRow]], ...]:
        """Return the arms that have patients of both groups, with (left, caught)."""
        left, caught = (
            {arm.code: (arm, one) for arm, one in self.of(
                scenario=scenario, controls=controls, group=group)}
            for group in (LEFT, CAUGHT)
        )  # fmt: skip
        return tuple(
            (arm, (one, caught[code][1])) for code, (arm, one) in left.items() if code in caught
        )

    def files(self) -> dict[str, bytes]:
        """Return the contents of the files by name; what is read again comes last."""
        text = json.dumps(
            json.loads(self.model_dump_json(by_alias=True)), ensure_ascii=False, indent=1
        )
        return {
            LEAKAGE_MD: leakage_markdown(self).encode(),
            LEAKAGE_CSV: leakage_csv(self).encode(),
            LEAKAGE_JSON: f"{text}\n".encode(),
        }


def leakage_csv(tables: LeakageTables) -> str:
    """Return one line for each arm, scenario, kind of controls and group of patients."""
    left = {arm.code: arm.left for arm in tables.arms}
    rows = [
        (one.code, left[one.code].n_hits, left[one.code].n_total, one.scenario, one.controls,
         one.group, one.n_members, one.n_controls, *vars(one.auc).values(), one.tpr_at_1.value,
         one.tpr_at_10.value, *vars(one.minus_raw).values(), *vars(one.minus_perfect).values(),
         one.flagged.n_hits, one.digest)
        for one in tables.leaks
    ]  # fmt: skip
    return write_table(_HEADER, rows)


def leakage_markdown(tables: LeakageTables) -> str:
    """Return the tables with 95 % intervals, as Markdown."""
    order = tables.order
    parts = [
        f"Demo hospital ({order.language}): {tables.n_notes:,} notes, {tables.n_patients} named "
        f"patients; mode {order.mode}, {order.epochs:g} epochs, seed {order.seed}.",
        "**What each arm replaces**",
        markdown_table(
            ("Arm", "Mentions left", "of them in part", "Patients with a name left",
             "Doctors left", "Other text replaced", "Steps", "Loss, nats"),
            [
                (arm.code, f"{counted(arm.left)} ({100 * arm.left.value:.1f} %)", arm.n_part,
                 f"{arm.n_exposed} of {arm.n_patients}",
                 f"{arm.n_staff - arm.n_staff_whole} of {arm.n_staff}",
                 f"{100 * arm.other_chars:.1f} %", arm.n_steps, decimal(arm.loss, digits=2))
                for arm in tables.arms
            ],
        ),
    ]  # fmt: skip
    for scenario in order.scenarios:
        parts += [
            f"**Leakage against missed names: scenario {scenario}, AUC**",
            markdown_table(
                ("Arm", "Negatives", "AUC", "TPR at 1 % FPR", "TPR at 10 % FPR", "minus raw",
                 "minus perfect", "q ≤ 0.05"),
                [
                    (row.code, row.controls, *map(_ranged, (row.auc, row.tpr_at_1, row.tpr_at_10)),
                     *map(_ranged, (row.minus_raw, row.minus_perfect)), counted(row.flagged))
                    for row in tables.leaks if (row.scenario, row.group) == (scenario, ALL)
                ],
            ),
            f"**Patients whose name was left, and those whose name was caught: scenario "
            f"{scenario}, AUC**",
            markdown_table(
                ("Arm", "Negatives", "Patients", "n", "AUC", "minus raw", "minus perfect",
                 "q ≤ 0.05"),
                _groups(tables, scenario=scenario),
            ),
        ]  # fmt: skip
    parts.append(
        "In brackets 95 % intervals: bootstrap over names, DeLong for differences on the same "
        "names. One training an arm: the intervals know nothing of another seed. The attacker of "
        "scenario 2 holds the same passages in all arms, the name's place masked."
    )
    return "\n\n".join(parts) + "\n"


def _groups(tables: LeakageTables, *, scenario: int) -> Iterator[tuple[object, ...]]:
    splits = [split for split in tables.splits if split.scenario == scenario]
    codes = {split.code for split in splits}
    for row in tables.leaks:
        if row.scenario == scenario and row.group != ALL and row.code in codes:
            estimates = (_ranged(one) for one in (row.auc, row.minus_raw, row.minus_perfect))
            who = (row.code, row.controls, _GROUP_WORDS[row.group], row.n_members)
            yield (*who, *estimates, counted(row.flagged))
    for split in splits:
        who = (split.code, "caught patients", _GROUP_WORDS[LEFT], split.n_left)
        yield (*who, _ranged(split.auc), "", _ranged(split.difference), "")


def _ranged(of: Estimate) -> str:
    return estimated(of, digits=2, between=" to ")


VERSION = 1
"""Raised whenever a change of code moves a number: older experiments are not taken for the same."""


@dataclass(frozen=True, eq=False)
class KeptLeakage:
    """A finished experiment: its identifier, when it ended (seconds since 1970), its tables."""

    leakage_id: str
    at: float
    tables: LeakageTables


def leakage_id(order: LeakageTask) -> str:
    """Return the identifier under which an experiment is kept: the same question has the same."""
    known = {tagger.tagger_id: tagger.digest for tagger in known_taggers()}
    if not known.keys() >= set(order.taggers):
        raise AuditError(
            "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
        )
    question = {
        "version": VERSION,
        "order": {key: value for key, value in order.plain().items() if key != "device"},
        "taggers": {tagger: known[tagger] for tagger in order.taggers},
        "general": model_digest(DEMO_HOSPITAL / order.language / "models" / "general"),
    }
    return question_digest(question)[:12]


def _read(folder: Path) -> KeptLeakage:
    path = folder / LEAKAGE_JSON
    tables = LeakageTables.model_validate_json(path.read_bytes())
    return KeptLeakage(folder.name, path.stat().st_mtime, tables)


LEAKAGE = Shelf("leakage", where="leakage", read=_read, newest=attrgetter("at"))
