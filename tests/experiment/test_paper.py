"""The paper's experiment: what is asked, its stages, its tables, all of it on invented notes."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from audit.attack import metrics
from audit.attack.measure_types import Confusion
from audit.attack.metrics import measure_membership
from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.cli import main
from audit.corpus.examine import Examination
from audit.errors import AuditCancelled, AuditError
from audit.experiment import paper
from audit.experiment.paper import (
    CORPUS,
    HOSPITAL,
    TRAINING,
    ExperimentTask,
    Tables,
    audit_stage,
    make_tables,
    run_experiment,
    tables_json,
    tables_markdown,
)
from audit.home import DEMO_HOSPITAL
from audit.models.inspect import compute_model_digest
from audit.names.candidates import make_candidates
from audit.progress import Progress
from audit.report.published import published_tables
from audit.report.report import AuditReport
from audit.stats import wilson
from audit.tables import write_table
from audit.training.loop import Learner
from cache.store import Store
from tests.attack.planted_table import given_attack
from tests.one_thread import one_thread
from tests.pages.make_reports import bare_report

pytestmark = pytest.mark.long

__all__ = ["one_thread"]
FOLDER = Path(__file__).parents[1] / "golden"
PUBLISHED = json.loads((FOLDER / "kart_tables.json").read_text(encoding="utf-8"))
GENERAL_MODEL = DEMO_HOSPITAL / "en" / "models" / "general"
NAME = "[**Known firstname 1**] [**Known lastname 2**]"
N_NOTES, N_PATIENTS = 24, 16
ROWS = {"batch": 8, "micro_batch": 8, "n_tokens": 32}


def write_notes(folder: Path) -> ExperimentTask:
    """Write notes with placeholders, and return what to make of them."""
    rows = [
        (
            number,
            number % N_PATIENTS,
            f"admission note . {NAME} is a {30 + number} year old "
            "female . she was seen for pain . she was given fluids . she went home .",
        )
        for number in range(N_NOTES)
    ]
    (folder / "notes.csv").write_text(write_table(("note_id", "patient_id", "text"), rows))
    return ExperimentTask(
        notes=folder / "notes.csv",
        general=GENERAL_MODEL,
        out=folder / "out",
        epochs=(1, 20),
        training=TRAINING.with_(learning_rate=2e-3, **ROWS),
        generation=GenerationSettings(n_documents=4, n_steps=4),
        posterior=PosteriorSettings(n_inputs=40, n_chain_inputs=0),
        single_tokens=False,
        device="cpu",
    )


ORDER = ExperimentTask(
    notes=Path("/n/notes.csv"),
    general=Path("/m/general"),
    out=Path("/o"),
    columns=(("text", "body"),),
    epochs=(0.5, 2, 20),
    training=TRAINING.with_(batch=32, learning_rate=1e-4),
    seed=3,
    generation=GenerationSettings(n_documents=7),
    posterior=PosteriorSettings(n_inputs=9),
)


def test_the_parts_of_an_order_follow_it() -> None:
    training, corpus = ORDER.training, ORDER.corpus()
    assert (training.n_epochs, training.schedule, training.held_out_share) == (20, "constant", 0)
    assert (training.seed, training.batch) == (3, 32)
    assert (corpus.tokenizer, corpus.seed) == (ORDER.general, 3)
    assert (corpus.notes, corpus.columns) == (ORDER.notes, ORDER.columns)
    assert ORDER.with_(single_tokens=False).corpus().tokenizer is None


def test_odd_epochs_are_refused() -> None:
    for epochs in ((), (2, 1), (1, 1), (0, 1), (1, float("inf"))):
        with pytest.raises(AuditError, match="epochs"):
            ORDER.with_(epochs=epochs)


def test_what_makes_another_question_and_what_another_training(tmp_path: Path) -> None:
    digests = ORDER.answer_digest(), ORDER.trained_digest()
    same = ORDER.with_(device="cpu", out=Path("/p"))
    assert (same.answer_digest(), same.trained_digest()) == digests
    other_order = ORDER.with_(single_tokens=False)
    assert other_order.answer_digest() != digests[0] and other_order.trained_digest() != digests[1]
    other_audits = ORDER.with_(posterior=ORDER.posterior.with_(n_inputs=10))
    assert (
        other_audits.answer_digest() != digests[0] and other_audits.trained_digest() == digests[1]
    )
    task = write_notes(tmp_path)
    question = task.question()
    assert (question.device, question.label) == ("cpu", "general")
    assert ExperimentTask.from_order(json.loads(json.dumps(question.order))) == task
    assert task.with_(out=tmp_path / "other").question().digest != question.digest


MENTIONS = (25, 7, 3, 2, 2, 1, 1, 1, 1, 1)
N = len(MENTIONS)
KINDS_OF_NAMES = np.array([""] * N + ["easy"] * 8 + ["hard"] * 6)
SCORES = {
    1: ("product", "product_log_ratio", "hits"),
    2: ("mean_log_ratio", "log_ratio", "difference"),
}


def fake_report(scenario: int, *, lift: float, digest: str) -> AuditReport:
    """Return a report, measured by the real measures: members score `lift` more when doubled."""
    rng = np.random.default_rng([0, scenario])
    score = rng.normal(size=len(KINDS_OF_NAMES))
    score[:N] += lift * np.log2(np.array(MENTIONS) + 1.0)
    general = rng.normal(size=len(score))
    members = make_candidates([("F", "L")] * N, is_member=True)
    listed = members + make_candidates(
        [("G", "M")] * (len(score) - N), is_member=False, control_kind="easy"
    )
    listed = replace(listed, control_kind=tuple(KINDS_OF_NAMES.tolist()))
    popularity = rng.random(len(score))
    values = dict.fromkeys(SCORES[scenario], score) | dict.fromkeys(
        ("general_product", "general_hits") if scenario == 1 else ("general_mean_log",), general
    )
    measured = given_attack(
        listed,
        {name: np.stack([x, np.zeros(len(x))]) for name, x in values.items()},
        scenario=scenario,
    )
    measured = replace(measured, popularity=popularity)
    measures = measure_membership(measured, seed=0).to_json()
    for stratum in measures["strata"].values():
        stratum["scores"] = {name: stratum["scores"][name] for name in SCORES[scenario]}
    columns: dict[str, list[Any]] = {
        "role": ["patient"] * N + [""] * (len(score) - N),
        "is_member": [int(kind == "") for kind in KINDS_OF_NAMES],
        "control_kind": KINDS_OF_NAMES.tolist(),
        "score": score.tolist(),
        "decision": ["flagged" if s > 3 else "not flagged" for s in score],
        "is_undecided": [False] * len(score),
        "n_mentions": [*MENTIONS, *([None] * (len(score) - N))],
    }
    settings = {1: {"n_documents": 40}, 2: {"n_inputs": 300}}[scenario]
    return bare_report(
        digest=digest,
        question={"seed": 0, "settings": settings},
        scenario={"number": scenario},
        fixed_score=SCORES[scenario][0],
        names=columns,
        measures=measures,
    )


REPORTS = {
    (epochs, scenario): fake_report(scenario, lift=lift, digest=f"e{epochs:g}-{scenario}")
    for epochs, lift in ((1.0, 0.3), (20.0, 2.0))
    for scenario in (1, 2)
}
EXAMINATION = cast(
    Examination,
    SimpleNamespace(
        n_notes=44,
        n_patients=10,
        n_passages=13,
        pattern_table=((2, 3), (1, 7)),
        mention_table=((25, 1), (7, 1), (3, 1), (2, 2), (1, 5)),
    ),
)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return make_tables(REPORTS, examination=EXAMINATION, exposures={1.0: 16, 20.0: 320})


def rounded(text: str) -> Any:
    """Return a text of JSON as values, numbers to nine digits."""
    return json.loads(text, parse_float=lambda digits: float(f"{float(digits):.9g}"))


def test_the_tables_are_written_as_they_always_were(tables: Tables) -> None:
    assert tables_markdown(tables) == (FOLDER / "experiment_tables.md").read_text()
    text = json.dumps(tables_json(tables), allow_nan=False)
    assert rounded(text) == rounded((FOLDER / "experiment_tables.json").read_text())


def test_numbers_agree_with_a_second_source(tables: Tables) -> None:
    value = tables_json(tables)
    for row in value["table1"]:
        scenario = {"generation": 1, "masked_lm": 2}[row["attack"]]
        score = np.array(REPORTS[row["epochs"], scenario].names["score"])
        counts = row["confusion"]
        assert counts["tp"] == (score[:N] > 0).sum()
        assert counts["fp"] == (score[row["controls"] == KINDS_OF_NAMES] > 0).sum()
        recall = wilson(counts["tp"] / N, n_total=N)
        assert (counts["recall"]["low"], counts["recall"]["high"]) == (recall.low, recall.high)
    for row in value["rankings"]:
        report = REPORTS[row["epochs"], {"generation": 1, "masked_lm": 2}[row["attack"]]]
        if row["score"] == report.fixed_score:
            rows = np.isin(KINDS_OF_NAMES, ["", row["controls"]])
            score = np.array(report.names["score"])[rows]
            assert row["auc"]["value"] == pytest.approx(
                roc_auc_score(KINDS_OF_NAMES[rows] == "", score)
            )
    for row in value["found"]:
        report = REPORTS[row["epochs"], {"generation": 1, "masked_lm": 2}[row["attack"]]]
        is_out = np.array(report.names["score"]) > 3
        for group, rows in (("members", KINDS_OF_NAMES == ""), ("controls", KINDS_OF_NAMES != "")):
            n_flagged = row[group]["n_hits"], row[group]["n_total"]
            assert n_flagged == (is_out[rows].sum(), rows.sum())


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_published_figures_are_the_papers_and_follow_from_its_counts(name: str) -> None:
    published = published_tables()
    for row, fact in zip(getattr(published, name), PUBLISHED[name], strict=True):
        assert (row.controls, row.attack) == (fact["negatives"], fact.get("attack", "generation"))
        assert row.model == fact.get("model", "hospital")
        rates = [fact[rate] for rate in ("f1", "accuracy", "recall", "precision")]
        assert [row.f1, row.accuracy, row.recall, row.precision] == rates
        four = tuple(fact[k] for k in ("tp", "fn", "fp", "tn")) if "tp" in fact else None
        assert (row.four, bool(row.implied)) == (four, "counts" in fact)
        published_row = published.row(controls=row.controls, attack=row.attack, model=row.model)
        assert published_row is not None and published_row.f1 == row.f1
        if row.four:
            counts = Confusion(**dict(zip(("tp", "fn", "fp", "tn"), row.four, strict=True)))
            measures = [
                counts.compute_f1(),
                counts.accuracy.value,
                counts.recall.value,
                counts.precision.value,
            ]
            assert measures == pytest.approx(rates, abs=5e-5)
            assert (counts.n_members, counts.n_controls) == (
                published.n_members,
                published.n_controls,
            )
    assert published.row(controls="easy", attack="masked_lm", model="general") is None


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "N_REPLICATES", 200)
        yield


@dataclass(frozen=True)
class Done:
    order: ExperimentTask
    folder: Path
    result: Tables
    reports: tuple[Progress, ...]
    sentences: tuple[str, ...]


@pytest.fixture(scope="module")
def experiment(small: None, tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("experiment")
    order = write_notes(folder)
    reports: list[Progress] = []
    sentences: list[str] = []
    with Store(folder / "store") as store:
        result = run_experiment(order, store=store, progress=reports.append, say=sentences.append)
    return Done(order, folder, result, tuple(reports), tuple(sentences))


def test_the_whole_experiment_finds_what_was_trained(experiment: Done) -> None:
    result, out = tables_json(experiment.result), experiment.folder / "out"
    assert [(row["epochs"], row["attack"]) for row in result["found"]] == [
        (e, a) for e in (1.0, 20.0) for a in ("generation", "masked_lm")
    ]
    assert len({row["digest"] for row in result["found"]}) == 4
    # 16 patients have 24 notes: eight have two, eight have one.
    text = (out / "tables.json").read_text()
    assert json.loads(text) == json.loads(json.dumps(result))
    assert json.loads(text)["table4"] == [[2, 8], [1, 8]]
    assert [result[name] for name in ("n_notes", "n_patients", "n_members", "n_passages")] == [
        N_NOTES,
        N_PATIENTS,
        N_PATIENTS,
        N_NOTES,
    ]
    first, last = (
        row["auc"]["value"]
        for row in result["rankings"]
        if (row["attack"], row["controls"], row["score"]) == ("masked_lm", "easy", "residual")
    )
    assert first < last > 0.9
    first, last = result["exposures"]
    assert last["step"] > 10 * first["step"] > 0
    text = (out / "tables.md").read_text()
    people = map(json.loads, (out / "corpus" / "people.jsonl").read_text().splitlines())
    names = {person["last"] for person in people if person.get("last")}
    assert len(names) >= N_PATIENTS // 2 and not any(f" {name} " in text for name in names)
    assert stat.S_IMODE((out / "tables.json").stat().st_mode) == 0o600
    assert experiment.reports[-1].share == 1.0
    phases = list(dict.fromkeys(report.phase.partition(":")[0] for report in experiment.reports))
    audits = [audit_stage(e, scenario=scenario) for scenario in (2, 1) for e in (1, 20)]
    assert phases == [CORPUS, HOSPITAL, *audits]
    assert experiment.sentences[0] == "Corpus: 24 notes, 16 members, 24 passages."
    assert [line.partition(":")[0] for line in experiment.sentences[1:3]] == [
        "Hospital model",
        "Audit after 1 epochs, scenario 2",
    ]


def test_stopped_it_goes_on_and_asked_again_nothing_is_made_twice(
    experiment: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, sentences = experiment.order.with_(out=tmp_path / "out"), [""]
    with Store(tmp_path / "store") as store:
        with pytest.raises(AuditCancelled):
            run_experiment(
                order,
                store=store,
                progress=lambda report: sentences.append(report.phase),
                should_stop=lambda: sentences[-1].startswith("hospital model: training"),
            )
        assert not (tmp_path / "out" / "tables.json").exists()
        monkeypatch.setattr(paper, "make_corpus", None)
        assert tables_json(run_experiment(order, store=store)) == tables_json(experiment.result)
        monkeypatch.setattr(Learner, "step", None)
        assert tables_json(run_experiment(order, store=store)) == tables_json(experiment.result)


def test_another_order_is_refused_in_its_folder(experiment: Done, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with Store(tmp_path / "store") as store:
        for changes, words in (
            ({"notes": tmp_path / "none.csv"}, "notes: Cannot be read"),
            ({"seed": 5}, "other notes or settings"),
            ({"out": tmp_path / "full"}, "something already"),
        ):
            with pytest.raises(AuditError, match=words):
                run_experiment(experiment.order.with_(**changes), store=store)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]


SMALL = (
    "--batch",
    8,
    "--tokens",
    32,
    "--learning-rate",
    "1e-3",
    "--documents",
    2,
    "--steps",
    2,
    "--inputs",
    20,
    "--epochs",
    "0.5",
    "--all-names",
    "--device",
    "cpu",
    "--json",
)


def test_one_command_goes_from_notes_to_tables_and_what_cannot_be_is_said_plainly(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    order = write_notes(tmp_path)
    places = ("--notes", order.notes, "--general", order.general, "--out", order.out)
    command = ["experiment", *map(str, (*places, *SMALL))]
    assert main(command) == 0
    out, err = capsys.readouterr()
    tables = json.loads(out)
    assert [row["epochs"] for row in tables["table1"]] == [0.5] * 4
    assert tables["table4"] == [[2, 8], [1, 8]]
    assert "**Table 1." in err
    assert main(["jobs", "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["kind"], job["state"]) == ("experiment", "done")
    with Store(tmp_path / "home" / "results") as store:
        reports = [store.get_record(f"audit/{digest}") for digest in job["result"]]
    assert [report["scenario"]["number"] for report in reports] == [2, 1]
    assert {r["models"]["general"]["digest"] for r in reports} == {
        compute_model_digest(GENERAL_MODEL)
    }
    for option, wrong, message in (
        ("--epochs", "2,1", "epochs"),
        ("--general", "/nowhere", "--general"),
        ("--notes", "/nowhere.csv", "notes"),
    ):
        assert main([*command, option, wrong]) == 2
        out, err = capsys.readouterr()
        assert not out and message in err and "Traceback" not in err
