"""Leakage against missed names, for the screen: arms as points, and patients left or caught.

Comes in: the tables of a kept leakage experiment as plain values. Goes out: frozen values.
Undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from audit.attack.metrics import plain
from audit.attack.question import GenerationSettings, PosteriorSettings, question_digest
from audit.deid.release import MODES
from audit.deid.taggers import known_taggers
from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL, data_home, home_folder
from audit.models.inspect import model_digest
from audit.shelf import private_folder, write_whole
from audit.stats import Estimate, Rate
from audit.tables import decimal, write_table

LANGUAGES = ("en", "ja")
RAW, PERFECT, TAGGER, MENTIONS, PATIENTS = (
    "raw",
    "perfect",
    "tagger",
    "mentions",
    "patients",
)
UNITS = (MENTIONS, PATIENTS)
"""What is missed at random: single mentions, or all mentions of a patient."""

MAX_TAGGERS, MAX_SHARES, MAX_EPOCHS = 20, 20, 1000.0
_DEVICES = ("auto", "cpu", "cuda")


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


@dataclass(frozen=True)
class LeakageOrder:
    """What an experiment on leakage against missed names is to be made of.

    Attributes
    ----------
    language
        Of the demo hospital.
    taggers
        Identifiers of de-identifiers.
    shares
        Shares of names that stay, ascending, each above 0 and below 1.
    units
        Out of `UNITS`.
    mode
        What takes a span's place, one of `audit.deid.release.MODES`.
    epochs
        How often each model reads its notes.
    scenarios
        Which attacks: 2, 1, or both.
    n_inputs, n_documents
        Of scenarios 2 and 1.
    seed
        Of the draws of missed names, surrogates, trainings and attacks.
    device
        Of taggers and attacks: "auto", "cpu" or "cuda"; no part of the question.
    """

    language: str = "en"
    taggers: tuple[str, ...] = ()
    shares: tuple[float, ...] = (0.01, 0.05, 0.1, 0.25, 0.5)
    units: tuple[str, ...] = UNITS
    mode: str = "placeholder"
    epochs: float = 10.0
    scenarios: tuple[int, ...] = (2,)
    n_inputs: int = 2000
    n_documents: int = 300
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check every choice, once."""
        if self.language not in LANGUAGES:
            raise AuditError("is unknown.", where="language", do=f"One of {', '.join(LANGUAGES)}.")
        if self.device not in _DEVICES:
            raise AuditError("is unknown.", where="device", do=f"One of {', '.join(_DEVICES)}.")
        if self.mode not in MODES:
            raise AuditError("is unknown.", where="mode", do=f"One of {', '.join(MODES)}.")
        if not set(self.units) <= set(UNITS) or len(set(self.units)) != len(self.units):
            raise AuditError("is unknown.", where="units", do=f"One of {', '.join(UNITS)}.")
        if not self.scenarios or not set(self.scenarios) <= {1, 2}:
            raise AuditError("must be 1 or 2.", where="scenario", do="Choose one of the two.")
        is_repeated = any(len(set(x)) != len(x) for x in (self.scenarios, self.taggers))
        if is_repeated or len(self.taggers) > MAX_TAGGERS:
            raise AuditError(
                "The same is asked twice, or there are too many.", where="tagger or scenario"
            )
        self._check_numbers()

    def _check_numbers(self) -> None:
        is_rising = list(self.shares) == sorted(set(self.shares))
        is_inside = all(_is_number(s) and 0 < s < 1 for s in self.shares)
        if not is_inside or not is_rising or len(self.shares) > MAX_SHARES:
            raise AuditError(
                "Shares of missed names are rising numbers above 0 and below 1.", where="shares",
                do="For example 0.01,0.05,0.1.",
            )  # fmt: skip
        if not _is_number(self.epochs) or not 0 < self.epochs <= MAX_EPOCHS:
            raise AuditError(f"must be above 0 and at most {MAX_EPOCHS:g}.", where="epochs")
        # Other bounds are those of the attacks' own settings.
        PosteriorSettings(n_inputs=self.n_inputs, n_chain_inputs=0)
        GenerationSettings(n_documents=self.n_documents)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms: raw and perfect first, then taggers, then random misses."""
        taggers = tuple(Arm(TAGGER, tagger=tagger) for tagger in self.taggers)
        doses = tuple(Arm(unit, share) for unit in self.units for share in self.shares)
        return (Arm(RAW), Arm(PERFECT), *taggers, *doses)

    def to_json(self) -> dict[str, Any]:
        """Return the order as plain values; `leakage_order_from_json` reads it."""
        plain = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}


def quick(order: LeakageOrder) -> LeakageOrder:
    """Return an order of the same taggers that takes minutes: fewer arms, fewer epochs."""
    return replace(order, shares=(0.1, 0.5), units=(MENTIONS,), epochs=4.0, n_inputs=500)


def leakage_order_from_json(content: Mapping[str, Any]) -> LeakageOrder:
    """Return the order that `LeakageOrder.to_json` wrote.

    Raises
    ------
    AuditError
        If it is none.
    """
    try:
        if set(content) != {each.name for each in fields(LeakageOrder)}:
            raise ValueError
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in content.items()
        }
        return LeakageOrder(**values)
    except (ValueError, TypeError, AttributeError):
        raise AuditError("The order of the experiment cannot be read.", where="order") from None


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]  # a number by now


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

    order: LeakageOrder
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
        "order": tables.order.to_json(),
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

_FOLDER, _ARMS = "leakage", "arms"
_ID = re.compile(r"[0-9a-f]{12}")
_MAX_BYTES = 20_000_000


@dataclass(frozen=True, eq=False)
class KeptLeakage:
    """A finished experiment: its identifier, when it ended (seconds since 1970), its tables."""

    leakage_id: str
    at: float
    tables: Mapping[str, Any]


def leakage_id(order: LeakageOrder) -> str:
    """Return the identifier under which an experiment is kept: the same question has the same.

    Raises
    ------
    AuditError
        If there is no such tagger, or the demo's model is not there.
    """
    digests = tagger_digests(order)
    plain = {key: value for key, value in order.to_json().items() if key != "device"}
    general = model_digest(DEMO_HOSPITAL / order.language / "models" / "general")
    question = {"version": VERSION, "order": plain, "taggers": digests, "general": general}
    return question_digest(question)[:12]


def tagger_digests(order: LeakageOrder) -> dict[str, str]:
    """Return the digest of each of an order's taggers.

    Raises
    ------
    AuditError
        If there is no such tagger.
    """
    known = {tagger.tagger_id: tagger.digest for tagger in known_taggers()}
    if not set(order.taggers) <= set(known):
        raise AuditError(
            "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
        )
    return {tagger: known[tagger] for tagger in order.taggers}


def leakage_dir(leakage: str) -> Path:
    """Return the folder of an experiment, made with mode 700 if it is not there."""
    if not _ID.fullmatch(leakage):
        raise ValueError("an identifier has 12 hexadecimal digits")
    return private_folder(home_folder(_FOLDER) / leakage)


def arms_dir() -> Path:
    """Return the folder of the trained models, made with mode 700 if it is not there."""
    return private_folder(home_folder(_FOLDER) / _ARMS)


def keep_leakage(leakage: str, files: Mapping[str, bytes]) -> None:
    """Keep the files of a finished experiment; the tables that are read again come last."""
    folder = leakage_dir(leakage)
    for name in sorted(files, key=lambda name: name == LEAKAGE_JSON):
        write_whole(folder / name, files[name])


def is_kept(leakage: str) -> bool:
    """Return whether an experiment is finished."""
    folder = data_home() / _FOLDER / leakage
    return all((folder / name).is_file() for name in FILES)


def kept_files(leakage: str) -> dict[str, bytes]:
    """Return the files of a finished experiment by name.

    Raises
    ------
    AuditError
        If there is none under this identifier.
    """
    if not _ID.fullmatch(leakage):
        raise AuditError("There is no such experiment.", where="leakage")
    folder = data_home() / _FOLDER / leakage
    try:
        return {name: (folder / name).read_bytes() for name in FILES}
    except OSError:
        raise AuditError("There is no such experiment.", where="leakage") from None


def all_leakage() -> tuple[KeptLeakage, ...]:
    """Return the finished experiments, the newest first; what cannot be read is left out."""
    folder = data_home() / _FOLDER
    if not folder.is_dir():
        return ()
    found = [_read(path) for path in sorted(folder.iterdir()) if _ID.fullmatch(path.name)]
    return tuple(sorted((one for one in found if one), key=lambda one: one.at, reverse=True))


def _read(folder: Path) -> KeptLeakage | None:
    path = folder / LEAKAGE_JSON
    try:
        state = path.stat()
        if state.st_size > _MAX_BYTES:
            return None
        tables = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(tables, dict) or tables.get("schema") != SCHEMA:
        return None
    return KeptLeakage(folder.name, state.st_mtime, tables)


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
