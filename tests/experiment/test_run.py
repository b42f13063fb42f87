"""The whole experiment on invented notes, with the demo's small general model."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch

from audit.attack import judgement, metrics
from audit.attack.cohort import cohort_test
from audit.errors import AuditCancelled, AuditError
from audit.experiment import paper
from audit.experiment.paper import run_experiment
from audit.experiment.paper_tables import ExperimentTables, ExperimentTask
from audit.progress import Progress
from cache.store import Store
from tests.experiment.small_experiment import N_NOTES, N_PATIENTS, write_notes


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judgement, "cohort_test", partial(cohort_test, n_permutations=99))
        patch.setattr(metrics, "N_REPLICATES", 200)
        yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Done:
    order: ExperimentTask
    folder: Path
    result: ExperimentTables
    told: tuple[Progress, ...]
    said: tuple[str, ...]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("experiment")
    order = write_notes(folder)
    told: list[Progress] = []
    said: list[str] = []
    with Store(folder / "store") as store:
        result = run_experiment(
            order, out=folder / "out", store=store, progress=told.append, say=said.append
        )
    return Done(order, folder, result, tuple(told), tuple(said))


def test_every_exposure_is_audited_in_both_scenarios(done):
    assert len({row.digest for row in done.result.found}) == 4
    found = {(row.epochs, row.attack) for row in done.result.found}
    assert found == {(e, a) for e in (1.0, 20.0) for a in ("generation", "masked_lm")}


def test_tables_3_and_4_count_the_patients_of_the_notes(done):
    # 16 patients have 24 notes: eight have two, eight have one.
    assert done.result.table4 == ((2, 8), (1, 8))
    assert done.result.n_members == N_PATIENTS
    assert done.result.n_passages == N_NOTES


def test_training_on_the_notes_leaks_the_names(done):
    auc = {
        row.epochs: row.auc.value
        for row in done.result.rankings
        if (row.attack, row.controls, row.score) == ("masked_lm", "easy", "mean_log_ratio")
    }
    assert auc[20.0] > 0.9
    assert auc[1.0] < auc[20.0]


def test_the_loss_falls_along_the_exposures(done):
    first, last = done.result.exposures
    assert (first.epochs, last.epochs) == (1.0, 20.0)
    assert last.step > 10 * first.step > 0
    assert last.loss < first.loss


def test_files_hold_tables_and_no_name(done):
    out = done.folder / "out"
    text = (out / "tables.md").read_text()
    people = list(map(json.loads, (out / "corpus" / "people.jsonl").read_text().splitlines()))
    names = {person["last"] for person in people if person.get("last")}
    assert len(names) >= N_PATIENTS // 2
    assert not any(f" {name} " in text for name in names)
    assert json.loads((out / "tables.json").read_text())["table4"] == [[2, 8], [1, 8]]
    assert stat.S_IMODE((out / "tables.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(out.stat().st_mode) == 0o700


def test_progress_never_falls_and_ends(done):
    shares = [report.share for report in done.told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert {"corpus", "general model", "hospital model"} <= {
        report.phase.partition(":")[0] for report in done.told
    }
    assert any(line.startswith("Hospital model:") for line in done.said)


def test_asked_again_nothing_is_made_twice(done, monkeypatch):
    before = (done.folder / "out" / "tables.json").read_bytes()
    monkeypatch.setattr(paper, "make_corpus", None)
    with Store(done.folder / "store") as store:
        again = run_experiment(done.order, out=done.folder / "out", store=store)
    assert again.found == done.result.found
    assert (done.folder / "out" / "tables.json").read_bytes() == before


def test_a_folder_of_other_settings_or_notes_is_refused(done, tmp_path):
    with Store(tmp_path / "store") as store:
        with pytest.raises(AuditError, match="other notes or settings"):
            run_experiment(done.order.with_(seed=5), out=done.folder / "out", store=store)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "letter.txt").write_text("mine")
        with pytest.raises(AuditError, match="something already"):
            run_experiment(done.order, out=tmp_path / "full", store=store)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]


def test_stopped_anywhere_it_goes_on_to_the_same_tables(done, tmp_path):
    seen: list[str] = []

    def go_on(*, until: str) -> ExperimentTables:
        with Store(tmp_path / "store") as store:
            return run_experiment(
                done.order, out=tmp_path / "out", store=store,
                progress=lambda report: seen.append(report.phase),
                should_stop=lambda: bool(until) and seen[-1].startswith(until),
            )  # fmt: skip

    for phase in ("corpus", "hospital model: training", "audit after 1 epochs, scenario 2"):
        with pytest.raises(AuditCancelled):
            go_on(until=phase)
        assert not (tmp_path / "out" / "tables.json").exists()
    result = go_on(until="")
    assert result.table1 == done.result.table1
    assert result.found == done.result.found
