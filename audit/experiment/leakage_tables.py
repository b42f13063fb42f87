"""Leakage against missed names, for the screen: arms as points, and patients left or caught.

Comes in: the tables of a kept leakage experiment as plain values. Goes out: frozen values.
Undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from audit.attack.metrics import plain
from audit.attack.question import question_digest
from audit.deid.taggers import known_taggers, load_tagger
from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL, results_dir
from audit.models.inspect import model_digest
from audit.shelf import Shelf, private_folder
from audit.stats import Estimate, Rate
from audit.tables import decimal, write_table
from audit.task import MAX_SEED, Contact, Device, Question, Task, queue_of
from cache.store import Store

Language = Literal["en", "ja"]
LANGUAGES = get_args(Language)
RAW, PERFECT, TAGGER, MENTIONS, PATIENTS = (
    "raw",
    "perfect",
    "tagger",
    "mentions",
    "patients",
)
Unit = Literal["mentions", "patients"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""What is missed at random: single mentions, or all mentions of a patient."""

MAX_TAGGERS, MAX_SHARES, MAX_EPOCHS = 20, 20, 1000.0


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
        max_length=MAX_TAGGERS,
        description="rules, default or trained/<id>; repeatable",
    )
    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.01, 0.05, 0.1, 0.25, 0.5),
        max_length=MAX_SHARES,
        examples=["0.01,0.05,0.1"],
        description="shares of names that are left at random, rising",
    )
    units: tuple[Unit, ...] = UNITS
    mode: Literal["placeholder", "surrogate", "mask"] = Field(
        default="placeholder", description="what takes a name's place"
    )
    epochs: float = Field(
        default=10.0, gt=0, le=MAX_EPOCHS, description="how often each model reads its notes"
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
        if is_kept(kept_as):
            return (kept_as,)
        with Store(results_dir()) as store:
            result = run_leakage(
                self,
                load=lambda tagger: load_tagger(tagger, device=self.device),
                arms_folder=arms_dir(),
                store=store,
                progress=contact.listen,
                should_stop=contact.should_stop,
                say=contact.say,
            )
        keep_leakage(kept_as, result.tables.files())
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


CONTROLS = ("easy", "hard")
ALL, LEFT, CAUGHT = "all", "left", "caught"
GROUPS = (ALL, LEFT, CAUGHT)
"""Patients: all of them, those of whose name something was left, those with none of it left."""


@dataclass(frozen=True)
class ArmRow:
    """One arm: what was replaced, and how its model was trained.

    `n_mentions`, `n_whole` and `n_part` count mentions of patients, those that are replaced whole
    and those of which a part is left; `n_staff` and `n_staff_whole` the same of doctors.
    `other_chars` is the share of the characters outside names that is replaced too. `share` is what
    was asked for, NaN where nothing was; `loss` is in nats a token.
    """

    code: str
    kind: str
    share: float
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


@dataclass(frozen=True)
class LeakRow:
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
    auc: Estimate
    tpr_at_1: Estimate
    tpr_at_10: Estimate
    minus_raw: Estimate
    minus_perfect: Estimate
    flagged: Rate
    digest: str


@dataclass(frozen=True)
class SplitRow:
    """Whether a model's scores tell the patients that an arm left from those that it caught.

    `on_perfect` asks the same of the perfectly redacted model, where the two differ in nothing that
    was trained on; `difference` is the AUC of the arm minus that.
    """

    code: str
    scenario: int
    n_left: int
    n_caught: int
    auc: Estimate
    on_perfect: float
    difference: Estimate


SCHEMA = 1
LEAKAGE_JSON, LEAKAGE_MD, LEAKAGE_CSV = "leakage.json", "leakage.md", "leakage.csv"
FILES = (LEAKAGE_JSON, LEAKAGE_MD, LEAKAGE_CSV)
_GROUP_WORDS = {ALL: "all", LEFT: "name left", CAUGHT: "name caught"}
_HEADER = (
    "arm", "mentions_left", "mentions", "scenario", "controls", "group", "n_members", "n_controls",
    "auc", "auc_low", "auc_high", "tpr_at_fpr_1", "tpr_at_fpr_10", "minus_raw", "minus_raw_low",
    "minus_raw_high", "minus_perfect", "minus_perfect_low", "minus_perfect_high", "flagged",
    "digest",
)  # fmt: skip


@dataclass(frozen=True)
class LeakageTables:
    """What a leakage experiment found.

    Attributes
    ----------
    order
        What was asked.
    n_notes, n_patients
        Of the demo hospital.
    arms, leaks, splits
        As `audit.experiment.leakage` makes them.
    """

    order: LeakageTask
    n_notes: int
    n_patients: int
    arms: tuple[ArmRow, ...]
    leaks: tuple[LeakRow, ...]
    splits: tuple[SplitRow, ...]

    def files(self) -> dict[str, bytes]:
        """Return the contents of the files, by name."""
        text = json.dumps(leakage_json(self), ensure_ascii=False, indent=1, allow_nan=False)
        return {
            LEAKAGE_JSON: f"{text}\n".encode(),
            LEAKAGE_MD: leakage_markdown(self).encode(),
            LEAKAGE_CSV: leakage_csv(self).encode(),
        }


def leakage_json(tables: LeakageTables) -> dict[str, Any]:
    """Return the tables as plain values; undefined numbers are None."""
    return {
        "schema": SCHEMA,
        "order": tables.order.plain(),
        "n_notes": tables.n_notes,
        "n_patients": tables.n_patients,
        "arms": plain(tables.arms),
        "leaks": plain(tables.leaks),
        "splits": plain(tables.splits),
    }


def leakage_csv(tables: LeakageTables) -> str:
    """Return one line for each arm, scenario, kind of controls and group of patients."""
    arms = {arm.code: arm for arm in tables.arms}
    rows = []
    for row in tables.leaks:
        left = arms[row.code].left
        numbers = [
            row.auc.value, row.auc.low, row.auc.high, row.tpr_at_1.value, row.tpr_at_10.value,
            *_three(row.minus_raw), *_three(row.minus_perfect),
        ]  # fmt: skip
        rows.append(
            [row.code, left.n_hits, left.n_total, row.scenario, row.controls, row.group,
             row.n_members, row.n_controls, *map(_cell, numbers), row.flagged.n_hits, row.digest]
        )  # fmt: skip
    return write_table(_HEADER, rows)


def leakage_markdown(tables: LeakageTables) -> str:
    """Return the tables with 95 % intervals, as Markdown."""
    order = tables.order
    parts = [
        f"Demo hospital ({order.language}): {tables.n_notes:,} notes, {tables.n_patients} named "
        f"patients; mode {order.mode}, {order.epochs:g} epochs, seed {order.seed}.",
        "**What each arm replaces**",
        "\n".join(_arms(tables)),
    ]
    for scenario in order.scenarios:
        parts += [
            f"**Leakage against missed names: scenario {scenario}, AUC**",
            "\n".join(_leaks(tables, scenario=scenario)),
            f"**Patients whose name was left, and those whose name was caught: scenario "
            f"{scenario}, AUC**",
            "\n".join(_groups(tables, scenario=scenario)),
        ]
    parts.append(
        "In brackets 95 % intervals: bootstrap over names, DeLong for differences on the same "
        "names. One training an arm: the intervals know nothing of another seed. The attacker of "
        "scenario 2 holds the same passages in all arms, the name's place masked."
    )
    return "\n\n".join(parts) + "\n"


def _arms(tables: LeakageTables) -> Iterator[str]:
    yield from _head(
        ("Arm", "Mentions left", "of them in part", "Patients with a name left", "Doctors left",
         "Other text replaced", "Steps", "Loss, nats")
    )  # fmt: skip
    for arm in tables.arms:
        yield _line([
            arm.code, _rate(arm.left), str(arm.n_part), f"{arm.n_exposed} of {arm.n_patients}",
            f"{arm.n_staff - arm.n_staff_whole} of {arm.n_staff}",
            f"{100 * arm.other_chars:.1f} %", str(arm.n_steps), decimal(arm.loss, digits=2),
        ])  # fmt: skip


def _leaks(tables: LeakageTables, *, scenario: int) -> Iterator[str]:
    yield from _head(
        ("Arm", "Negatives", "AUC", "TPR at 1 % FPR", "TPR at 10 % FPR", "minus raw",
         "minus perfect", "q ≤ 0.05")
    )  # fmt: skip
    for row in tables.leaks:
        if row.scenario == scenario and row.group == ALL:
            yield _line([
                row.code, row.controls, _estimate(row.auc), _estimate(row.tpr_at_1),
                _estimate(row.tpr_at_10), _estimate(row.minus_raw), _estimate(row.minus_perfect),
                f"{row.flagged.n_hits} of {row.flagged.n_total}",
            ])  # fmt: skip


def _groups(tables: LeakageTables, *, scenario: int) -> Iterator[str]:
    yield from _head(
        ("Arm", "Negatives", "Patients", "n", "AUC", "minus raw", "minus perfect", "q ≤ 0.05")
    )
    splits = {split.code: split for split in tables.splits if split.scenario == scenario}
    for row in tables.leaks:
        if row.scenario != scenario or row.group == ALL or row.code not in splits:
            continue
        yield _line([
            row.code, row.controls, _GROUP_WORDS[row.group], str(row.n_members),
            _estimate(row.auc), _estimate(row.minus_raw), _estimate(row.minus_perfect),
            f"{row.flagged.n_hits} of {row.flagged.n_total}",
        ])  # fmt: skip
    for split in splits.values():
        yield _line([
            split.code, "caught patients", _GROUP_WORDS[LEFT], str(split.n_left),
            _estimate(split.auc), "", _estimate(split.difference), "",
        ])  # fmt: skip


def _head(cells: Sequence[str]) -> Iterator[str]:
    yield _line(cells)
    yield _line(["---"] * len(cells))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(rate: Rate) -> str:
    return f"{rate.n_hits} of {rate.n_total} ({100 * rate.value:.1f} %)"


def _estimate(of: Estimate) -> str:
    if math.isnan(of.value):
        return "—"
    value, low, high = (decimal(number, digits=2) for number in (of.value, of.low, of.high))
    return f"{value} ({low} to {high})"


def _three(of: Estimate) -> tuple[float, float, float]:
    return of.value, of.low, of.high


def _cell(value: float) -> object:
    return "" if math.isnan(value) else value


VERSION = 1
"""Raised whenever a change of code moves a number: older experiments are not taken for the same."""

_MAX_BYTES = 20_000_000


@dataclass(frozen=True, eq=False)
class KeptLeakage:
    """A finished experiment: its identifier, when it ended (seconds since 1970), its tables."""

    leakage_id: str
    at: float
    tables: Mapping[str, Any]


def leakage_id(order: LeakageTask) -> str:
    """Return the identifier under which an experiment is kept: the same question has the same."""
    digests = tagger_digests(order)
    plain = {key: value for key, value in order.plain().items() if key != "device"}
    general = model_digest(DEMO_HOSPITAL / order.language / "models" / "general")
    question = {"version": VERSION, "order": plain, "taggers": digests, "general": general}
    return question_digest(question)[:12]


def tagger_digests(order: LeakageTask) -> dict[str, str]:
    """Return the digest of each of an order's taggers."""
    known = {tagger.tagger_id: tagger.digest for tagger in known_taggers()}
    if not set(order.taggers) <= set(known):
        raise AuditError(
            "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
        )
    return {tagger: known[tagger] for tagger in order.taggers}


def _read(folder: Path) -> KeptLeakage:
    path = folder / LEAKAGE_JSON
    state = path.stat()
    tables = json.loads(path.read_bytes()) if state.st_size <= _MAX_BYTES else {}
    if tables["schema"] != SCHEMA:
        raise ValueError
    return KeptLeakage(folder.name, state.st_mtime, tables)


LEAKAGE = Shelf("leakage", where="leakage", read=_read, newest=attrgetter("at"))


def arms_dir() -> Path:
    """Return the folder of the trained models, made with mode 700 if it is not there."""
    return private_folder(LEAKAGE.home() / "arms")


def keep_leakage(leakage: str, files: Mapping[str, bytes]) -> None:
    """Keep the files of a finished experiment; the tables that are read again come last."""
    LEAKAGE.put(leakage, dict(sorted(files.items(), key=lambda pair: pair[0] == LEAKAGE_JSON)))


def is_kept(leakage: str) -> bool:
    """Return whether an experiment is finished."""
    return all((LEAKAGE.place(leakage) / name).is_file() for name in FILES)


def kept_files(leakage: str) -> dict[str, bytes]:
    """Return the files of a finished experiment by name; AuditError where there is none."""
    folder = LEAKAGE.place(leakage)
    LEAKAGE.get(leakage)
    with LEAKAGE.reading():
        return {name: (folder / name).read_bytes() for name in FILES}


@dataclass(frozen=True)
class LeakageArm:
    """One way of making the notes, and what it leaves of names.

    `kind` is "raw", "perfect", "tagger", "mentions" or "patients"; `share` what was asked for.
    """

    code: str
    kind: str
    share: float
    tagger: str
    left: Rate
    n_part: int
    n_exposed: int
    n_patients: int
    staff_left: Rate
    other_chars: float


@dataclass(frozen=True)
class Leak:
    """How well an attack tells a group of an arm's patients from controls."""

    arm: LeakageArm
    scenario: int
    controls: str
    group: str
    n_members: int
    n_controls: int
    auc: Estimate
    tpr_at_10: Estimate
    minus_perfect: Estimate
    flagged: Rate
    digest: str


@dataclass(frozen=True)
class LeakageView:
    """A kept leakage experiment.

    Attributes
    ----------
    language, mode, epochs, seed, scenarios
        As asked.
    n_notes, n_patients
        Of the demo hospital.
    arms, leaks
        In the order of the experiment.
    """

    language: str
    mode: str
    epochs: float
    seed: int
    scenarios: tuple[int, ...]
    n_notes: int
    n_patients: int
    arms: tuple[LeakageArm, ...]
    leaks: tuple[Leak, ...]

    def of(self, *, scenario: int, controls: str, group: str = ALL) -> tuple[Leak, ...]:
        """Return the rows of one attack, one kind of controls and one group of patients."""
        wanted = (scenario, controls, group)
        return tuple(one for one in self.leaks if (one.scenario, one.controls, one.group) == wanted)

    def split(self, *, scenario: int, controls: str) -> tuple[tuple[Leak, Leak], ...]:
        """Return (left, caught) of the arms that have patients of both groups."""
        caught = {
            one.arm.code: one for one in self.of(scenario=scenario, controls=controls, group=CAUGHT)
        }
        return tuple(
            (one, caught[one.arm.code])
            for one in self.of(scenario=scenario, controls=controls, group=LEFT)
            if one.arm.code in caught
        )


def leakage_view(tables: Mapping[str, Any]) -> LeakageView:
    """Return what the tables of an experiment say.

    Raises
    ------
    AuditError
        If they were written by another version.
    """
    try:
        order = tables["order"]
        arms = {row["code"]: _arm(row) for row in tables["arms"]}
        return LeakageView(
            language=str(order["language"]),
            mode=str(order["mode"]),
            epochs=float(order["epochs"]),
            seed=int(order["seed"]),
            scenarios=tuple(int(number) for number in order["scenarios"]),
            n_notes=int(tables["n_notes"]),
            n_patients=int(tables["n_patients"]),
            arms=tuple(arms.values()),
            leaks=tuple(_leak(row, arms[row["code"]]) for row in tables["leaks"]),
        )
    except (KeyError, TypeError, ValueError):
        raise AuditError(
            "This experiment was written by another version.", do="Run it again."
        ) from None


def _arm(row: Mapping[str, Any]) -> LeakageArm:
    return LeakageArm(
        code=str(row["code"]),
        kind=str(row["kind"]),
        share=_number(row["share"]),
        tagger=str(row["tagger"]),
        left=Rate(row["n_mentions"] - row["n_whole"], row["n_mentions"]),
        n_part=int(row["n_part"]),
        n_exposed=int(row["n_exposed"]),
        n_patients=int(row["n_patients"]),
        staff_left=Rate(row["n_staff"] - row["n_staff_whole"], row["n_staff"]),
        other_chars=float(row["other_chars"]),
    )


def _leak(row: Mapping[str, Any], arm: LeakageArm) -> Leak:
    return Leak(
        arm=arm,
        scenario=int(row["scenario"]),
        controls=str(row["controls"]),
        group=str(row["group"]),
        n_members=int(row["n_members"]),
        n_controls=int(row["n_controls"]),
        auc=_leakage_view_estimate(row["auc"]),
        tpr_at_10=_leakage_view_estimate(row["tpr_at_10"]),
        minus_perfect=_leakage_view_estimate(row["minus_perfect"]),
        flagged=Rate(int(row["flagged"]["n_hits"]), int(row["flagged"]["n_total"])),
        digest=str(row["digest"]),
    )


def _leakage_view_estimate(row: Mapping[str, Any]) -> Estimate:
    return Estimate(*(_number(row[name]) for name in ("value", "low", "high")))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
