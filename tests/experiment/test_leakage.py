"""Leakage against missed names: what is asked, what an arm leaves, its numbers, and all of it."""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import cli
from audit.attack import metrics
from audit.cli.command_line import parse_words
from audit.cli.training_commands import deid_leakage, make_leakage_task
from audit.deid.find.taggers import list_taggers
from audit.demo import DemoTask
from audit.errors import AuditCancelled, AuditError
from audit.experiment import leakage
from audit.experiment.leakage import (
    LEAKAGE,
    MENTIONS,
    PATIENTS,
    PERFECT,
    RAW,
    TAGGER,
    Arm,
    LeakageTables,
    LeakageTask,
    choose_spans,
    count_misses,
    draw_missed,
    leakage_id,
    make_quick_order,
    release_texts,
    run_leakage,
)
from audit.models.model_folder import find_trained_name
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, Span
from audit.progress import Progress
from audit.training.loop import Learner
from cache.store import Store
from tests.deid.make_scores import quiet
from tests.experiment.tiny_leakage import demo_notes, tiny_notes, tiny_tables
from tests.one_thread import one_thread

pytestmark = pytest.mark.long

__all__ = ["one_thread"]
FOLDER = Path(__file__).parents[1] / "golden"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))


def test_an_order_says_its_arms_and_has_a_quick_form() -> None:
    order = LeakageTask(language="ja", taggers=("rules",), shares=(0.01, 0.5), seed=5)
    assert [arm.code for arm in order.arms] == [
        "raw",
        "perfect",
        "tagger rules",
        "mentions 1 %",
        "mentions 50 %",
        "patients 1 %",
        "patients 50 %",
    ]
    short = make_quick_order(order)
    assert (short.taggers, short.language, short.seed) == (("rules",), "ja", 5)
    assert (short.shares, short.units, short.epochs) == ((0.1, 0.5), ("mentions",), 4)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"language": "fr"}, "language"),
        ({"mode": "blur"}, "mode"),
        ({"epochs": 0}, "epochs"),
        ({"shares": (0.5, 0.1)}, "shares"),
        ({"shares": (0.1, 0.1)}, "shares"),
        ({"shares": (0.0,)}, "shares"),
        ({"shares": (1.0,)}, "shares"),
        ({"units": ("words",)}, "units"),
        ({"taggers": ("rules", "rules")}, "tagger"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(AuditError) as refused:
        LeakageTask(**wrong)
    assert field in refused.value.where


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_notes_are_the_shipped_ones_with_every_name_known(language: str) -> None:
    notes = demo_notes(language)
    names = DemoTask().request(2, language=language).candidates
    mention_counts, text = (
        Counter(mention.owner for mention in notes.mentions),
        "\n".join(notes.texts),
    )
    assert names.is_member[: notes.n_patients + 1] == (True,) * notes.n_patients + (False,)
    for owner in range(notes.n_patients):
        n_mentions = names.n_mentions[owner]
        assert mention_counts[owner] == n_mentions == text.count(names.full_name(owner))
    cue = {"en": "dr . ", "ja": "担当医"}[language]
    labels = Counter(span.label for document in notes.documents for span in document.spans)
    assert labels == {IDENTIFIER: len(notes.mentions), QUASI_IDENTIFIER: text.count(cue)}
    for document in notes.documents:
        assert all(
            document.text[: span.start].endswith(cue)
            for span in document.spans
            if span.label == QUASI_IDENTIFIER
        )
    owners = {mention.note: f"P{mention.owner:03d}" for mention in notes.mentions}
    assert [document.patient_id for document in notes.documents] == [
        owners.get(number) for number in range(len(notes.documents))
    ]


class HalfTagger:
    """Finds the first three characters of every note."""

    name, digest, labels = "half", "0" * 64, ("identifier",)

    def tag(self, texts: list[str]) -> list[tuple[Span, ...]]:
        return [(Span(0, 3, "identifier"),) for _ in texts]


def test_raw_leaves_everything_perfect_nothing_and_a_tagger_what_it_misses() -> None:
    notes, half = tiny_notes(), Arm(TAGGER, tagger="half")
    raw, perfect, tagged = (
        choose_spans(notes, arm=arm, tagger=HalfTagger() if arm == half else None, seed=0)
        for arm in (Arm(RAW), Arm(PERFECT), half)
    )
    for spans, n_whole, exposed, staff in (
        (raw, 0, [True, True], (1, 0)),
        (perfect, 3, [False, False], (1, 1)),
        (tagged, 0, [True, True], (1, 0)),  # "Ann" of "Ann Lee", "A" behind "x "
        (((), *perfect[1:]), 2, [True, False], (1, 1)),
    ):
        is_exposed, counts = count_misses(notes, spans)
        assert (counts.row(IDENTIFIER)[:2], is_exposed.tolist()) == ((3, n_whole), exposed)
        assert counts.row(QUASI_IDENTIFIER)[:2] == staff
    assert count_misses(notes, tagged)[1].n_over_chars == 2  # "x " is outside every name
    assert release_texts(notes, raw, mode="placeholder", seed=0) == notes.texts
    assert release_texts(notes, perfect, mode="placeholder", seed=0) == (
        "[NAME] is ill .",
        "[NAME] saw dr . [NAME] .",
        "x [NAME] .",
    )
    first, _, third = release_texts(notes, perfect, mode="surrogate", seed=0)
    assert "Ann Lee" not in first + third
    assert third == f"x {first.removesuffix(' is ill .')} ."
    with pytest.raises(AuditCancelled):
        choose_spans(notes, arm=half, tagger=HalfTagger(), seed=0, should_stop=lambda: True)


@pytest.mark.parametrize("unit", [MENTIONS, PATIENTS])
def test_shares_are_nested_as_large_as_asked_and_what_stays(unit: str) -> None:
    notes = demo_notes("ja")
    smaller_share: set[int] = set()
    for share in (0.01, 0.05, 0.1, 0.25, 0.5):
        left = set(draw_missed(notes, unit=unit, share=share, seed=0))
        owners = {notes.mentions[i].owner for i in left}
        n, total = (
            (len(left), len(notes.mentions))
            if unit == MENTIONS
            else (len(owners), notes.n_patients)
        )
        assert smaller_share <= left and n == max(1, round(share * total))
        if unit == PATIENTS:
            assert left == {i for i, m in enumerate(notes.mentions) if m.owner in owners}
        smaller_share = left
    assert left != set(draw_missed(notes, unit=unit, share=0.5, seed=1))
    spans = choose_spans(notes, arm=Arm(unit, 0.5), tagger=None, seed=0)
    is_exposed, counts = count_misses(notes, spans)
    assert {i for i, state in enumerate(is_exposed) if state} == {
        notes.mentions[i].owner for i in left
    }
    assert counts.row(IDENTIFIER)[:2] == (len(notes.mentions), len(notes.mentions) - len(left))
    texts = release_texts(notes, spans, mode="mask", seed=0)
    for i, mention in enumerate(notes.mentions):
        name = notes.texts[mention.note][mention.span.start : mention.span.end]
        assert (name in texts[mention.note]) == (i in left)


@given(st.lists(st.tuples(st.integers(0, 14), st.integers(1, 8)), max_size=4))
def test_a_patient_is_exposed_as_counting_characters_says(stretches: list[tuple[int, int]]) -> None:
    notes = tiny_notes()
    spans = tuple(
        tuple(
            sorted(
                {
                    Span(start, min(start + n, len(text)), "contact")
                    for start, n in stretches
                    if start < len(text)
                }
            )
        )
        for text in notes.texts
    )
    left = [
        mention.owner
        for mention in notes.mentions
        if {*range(mention.span.start, mention.span.end)}
        - {i for span in spans[mention.note] for i in range(span.start, span.end)}
    ]
    is_exposed, counts = count_misses(notes, spans)
    assert is_exposed.tolist() == [owner in left for owner in (0, 1)]
    assert counts.row(IDENTIFIER)[:2] == (3, 3 - len(left))


def test_numbers_of_three_arms_by_hand() -> None:
    tables = tiny_tables()
    rows = {(row.code, row.controls, row.group): row for row in tables.leaks}
    # Raw: patients 9 8 7 6; easy controls 1 2; hard controls 3 6.5. Perfect: patients 4 1 3 2,
    # easy 1.5 2.5, hard 3.5 0. Half missed: left 9 8, caught 3 2, controls as in perfect.
    assert {key: row.auc.value for key, row in rows.items() if key[1] == "easy"} == pytest.approx(
        {
            ("raw", "easy", "all"): 1.0,
            ("raw", "easy", "left"): 1.0,
            ("perfect", "easy", "all"): 5 / 8,
            ("perfect", "easy", "caught"): 5 / 8,
            ("mentions 50 %", "easy", "all"): 7 / 8,
            ("mentions 50 %", "easy", "left"): 1.0,
            ("mentions 50 %", "easy", "caught"): 3 / 4,
        }
    )
    assert rows["raw", "hard", "all"].auc.value == pytest.approx(7 / 8)
    left, caught = (rows["mentions 50 %", "easy", group] for group in ("left", "caught"))
    # On the perfect model the same two patients have 4 and 1 against 1.5 and 2.5.
    assert left.minus_perfect.value == pytest.approx(1.0 - 2 / 4)
    assert left.minus_perfect.low <= 0.5 <= left.minus_perfect.high
    assert (left.minus_raw.value, caught.minus_perfect.value) == pytest.approx((0, 0))
    assert caught.minus_raw.value == pytest.approx(3 / 4 - 1)
    assert math.isnan(rows["raw", "easy", "all"].minus_raw.value)
    assert math.isnan(rows["perfect", "easy", "all"].minus_perfect.value)
    assert (rows["raw", "easy", "all"].flagged.n_hits, caught.flagged.n_hits) == (1, 0)
    arm = tables.arms[2]
    assert (arm.left.n_hits, arm.left.n_total, arm.n_exposed) == (2, 4, 2)
    assert (arm.n_staff, arm.n_staff_whole) == (3, 2)
    assert arm.other_chars == pytest.approx(0.1)


def test_tables_are_written_as_they_always_were_and_read_again() -> None:
    tables = tiny_tables()
    files = {name: data.decode() for name, data in tables.files().items()}
    assert list(files) == ["leakage.md", "leakage.json"]
    assert files["leakage.md"] == (FOLDER / "leakage.md").read_text(encoding="utf-8")
    LEAKAGE.keep_files("0" * 12, tables.files())
    assert LEAKAGE.get("0" * 12).tables.files() == tables.files()
    rows = tables.select_rows(controls="hard")
    assert [arm.kind for arm, _ in rows] == ["raw", "perfect", "mentions"]
    assert [arm.code for arm, _ in rows] == [row.code for _, row in rows]
    ((arm, (left, caught)),) = tables.split(controls="easy")
    assert (arm.code, left.group, caught.group) == ("mentions 50 %", "left", "caught")


@pytest.mark.parametrize("changes", [{"schema": 2}, {"order": {"scenarios": [1, 2]}}])
def test_tables_of_another_version_are_refused(changes: dict[str, Any]) -> None:
    content = json.loads(tiny_tables().files()["leakage.json"])
    content |= {"order": content["order"] | changes.pop("order", {})} | changes
    LEAKAGE.home()
    with pytest.raises(AuditError, match="leakage: This was written by another version"):
        LEAKAGE.keep_files("0" * 12, {"leakage.json": json.dumps(content).encode()})


ORDER = LeakageTask(taggers=("rules",), device="cpu")


def test_the_same_question_has_the_same_identifier() -> None:
    identifier, question = leakage_id(ORDER), ORDER.question()
    assert leakage_id(ORDER.with_(device="auto")) == identifier
    other_orders = [ORDER.with_(seed=1), ORDER.with_(language="ja"), ORDER.with_(taggers=())]
    assert len({identifier, *map(leakage_id, other_orders)}) == 4
    assert (question.device, question.label) == ("cpu", "demo en")
    assert LeakageTask.from_order(json.loads(json.dumps(question.order))) == ORDER
    with pytest.raises(AuditError, match="no such tagger"):
        ORDER.with_(taggers=("trained/000000000000",)).question()


def test_what_was_answered_is_kept_and_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []

    def fake(order: LeakageTask, **how: Any) -> LeakageTables:
        stops.append((order, how["arms_folder"].name))
        return tiny_tables(order)

    monkeypatch.setattr(leakage, "run_leakage", fake)
    for _ in range(2):
        order = LeakageTask.from_order(ORDER.question().order)
        assert order.run(quiet()) == (leakage_id(ORDER),)
    assert stops == [(ORDER, "arms")]
    experiment = LEAKAGE.get(leakage_id(ORDER))
    assert (
        experiment.tables.order == ORDER and experiment.tables.files() == tiny_tables(ORDER).files()
    )
    assert math.isnan(experiment.tables.arms[0].share) and math.isnan(
        experiment.tables.leaks[0].minus_raw.low
    )
    older, damaged = "b" * 12, "c" * 12
    for name in (older, damaged):
        LEAKAGE.keep_files(name, tiny_tables().files())
    os.utime(LEAKAGE.place(older) / "leakage.json", (1, 1))
    (LEAKAGE.place(damaged) / "leakage.json").write_text("{")
    assert [experiment.leakage_id for experiment in LEAKAGE.all()] == [leakage_id(ORDER), older]


RUN = LeakageTask(
    language="ja",
    taggers=("two",),
    shares=(0.5,),
    units=("mentions",),
    epochs=0.1,
    n_inputs=20,
    device="cpu",
)


class TwoCharacters:
    """Finds the two characters before は of every note that names somebody."""

    name, digest, labels = "two", "2" * 64, ("identifier",)

    def tag(self, texts: list[str]) -> list[tuple[Span, ...]]:
        places = [text.find("は", text.find("現病歴")) for text in texts]
        return [(Span(place - 2, place, "identifier"),) if place > 2 else () for place in places]


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "N_REPLICATES", 100)
        patch.setattr(leakage, "N_REPLICATES", 100)
        patch.setattr(leakage, "TRAINING", leakage.TRAINING.with_(n_tokens=32, checkpoint_every=1))
        patch.setattr(leakage, "load_tagger", lambda *_, **__: TwoCharacters())
        patch.setattr(leakage, "read_hospital_notes", demo_notes)
        yield


@dataclass(frozen=True)
class Done:
    folder: Path
    result: LeakageTables
    reports: tuple[Progress, ...]
    sentences: tuple[str, ...]


def digests(tables: LeakageTables) -> set[str]:
    return {row.digest for row in tables.leaks}


def run(folder: Path, order: LeakageTask = RUN, **how: Any) -> LeakageTables:
    with Store(folder / "store") as store:
        return run_leakage(order, arms_folder=folder, store=store, **how)


@pytest.fixture(scope="module")
def experiment(small: None, tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("leakage")
    reports: list[Progress] = []
    sentences: list[str] = []
    result = run(folder, progress=reports.append, say=sentences.append)
    return Done(folder, result, tuple(reports), tuple(sentences))


def test_every_arm_is_trained_on_its_notes_and_audited_alike(experiment: Done) -> None:
    arms = {arm.code: arm for arm in experiment.result.arms}
    assert list(arms) == ["raw", "perfect", "tagger two", "mentions 50 %"]
    n = arms["raw"].n_mentions
    lengths = [mention.span.n_chars for mention in demo_notes("ja").mentions]
    assert [arm.left.n_hits for arm in arms.values()] == [
        n,
        0,
        sum(length > 2 for length in lengths),
        round(0.5 * n),
    ]
    two = arms["tagger two"]
    assert two.tagger_digest == TwoCharacters.digest
    for arm in arms.values():
        assert arm.n_steps == math.ceil(0.1 * (arm.n_tokens // 30) / 16)
    assert len(digests(experiment.result)) == 4
    with Store(experiment.folder / "store") as store:
        reports = [
            store.get_record(f"audit/{digest}") for digest in sorted(digests(experiment.result))
        ]
    questions = [{k: v for k, v in r["question"].items() if k != "hospital"} for r in reports]
    assert all(question == questions[0] for question in questions)
    assert len({report["question"]["hospital"] for report in reports}) == 4
    models = sorted(experiment.folder.glob("*/model"))
    assert {find_trained_name(model) for model in models} == {f"demo ja: {code}" for code in arms}
    assert experiment.reports[-1].share == pytest.approx(1.0)
    phases = list(dict.fromkeys(report.phase.partition(":")[0] for report in experiment.reports))
    assert phases[:5] == ["raw", "raw, attack", "perfect", "perfect, attack", "tagger two, tagging"]
    assert experiment.sentences[1].startswith(
        f"perfect: 0 of {n} mentions left, {arms['perfect'].n_steps} "
    )
    listed = DemoTask().request(2, language="ja").candidates
    text = b"".join(experiment.result.files().values()).decode()
    for first, last in zip(listed.first[:20], listed.last[:20], strict=True):
        assert f"{last}{first}" not in text and first not in text


def test_asked_again_nothing_is_trained_twice(
    experiment: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Learner, "step", None)
    assert run(experiment.folder).files() == experiment.result.files()


def order_of(*options: str) -> LeakageTask:
    _, words = parse_words(["deid", "leakage", "--out", "x", *options])
    arguments = deid_leakage.collect_arguments(words)
    return make_leakage_task(arguments["options"], is_quick="quick" in arguments)


def test_options_become_an_order() -> None:
    words = (
        "--tagger rules --miss 0.2,0.4 --epochs 3 --language ja --mode surrogate "
        "--inputs 7 --seed 2"
    )
    assert order_of(*words.split()) == LeakageTask(
        taggers=("rules",),
        shares=(0.2, 0.4),
        epochs=3.0,
        language="ja",
        mode="surrogate",
        n_inputs=7,
        seed=2,
    )
    listed = {tagger.tagger_id for tagger in list_taggers()} & {"rules", "default"}
    assert set(order_of().taggers) == listed >= {"rules"}
    short = order_of("--quick", "--epochs", "1")
    assert (short.epochs, len(short.arms)) == (1.0, 2 + len(listed) + 2)


def test_one_command_writes_its_private_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leakage, "run_leakage", lambda order, **_: tiny_tables(order))
    code = cli.main(["deid", "leakage", "--quick", "--out", str(tmp_path / "out"), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert [arm["kind"] for arm in json.loads(out)["arms"]] == ["raw", "perfect", "mentions"]
    assert "| Arm |" in err
    files = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in files] == ["leakage.json", "leakage.md"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert cli.main(["deid", "leakage", "--out", str(tmp_path), "--miss", "0.5,0.1"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "shares" in err and "Traceback" not in err
