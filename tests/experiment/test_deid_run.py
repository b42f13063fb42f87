"""The leakage experiment for real, on the demo's Japanese notes with a few steps of training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch

from audit.attack import judgement, metrics
from audit.attack.cohort import cohort_test
from audit.errors import AuditCancelled
from audit.experiment import leakage
from audit.experiment.leakage import run_leakage
from audit.experiment.leakage_tables import LeakageTables, LeakageTask
from audit.models.inspect import model_digest, trained_name
from audit.notes.spans import Span
from audit.progress import Progress
from audit.training.small import PretrainSettings
from cache.store import Store
from tests.experiment.tiny_leakage import demo_notes

ORDER = LeakageTask(
    language="ja", taggers=("two",), shares=(0.5,), units=("mentions",), epochs=0.1, n_inputs=20,
    device="cpu",
)  # fmt: skip


class TwoCharacters:
    """Finds the two characters before は of every note that names somebody."""

    name, digest, labels = "two", "2" * 64, ("identifier",)

    def tag(self, texts):
        found = []
        for text in texts:
            at = text.find("は", text.find("現病歴"))
            found.append((Span(at - 2, at, "identifier"),) if at > 2 else ())
        return found


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judgement, "cohort_test", partial(cohort_test, n_permutations=99))
        patch.setattr(metrics, "N_REPLICATES", 100)
        patch.setattr(leakage, "N_REPLICATES", 100)
        small = PretrainSettings(n_rows=4, n_tokens_per_row=(32,))
        patch.setattr(leakage, "SETTINGS", small)
        patch.setattr(leakage, "hospital_notes", demo_notes)
        yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Done:
    folder: Path
    result: LeakageTables
    told: tuple[Progress, ...]
    said: tuple[str, ...]


def digests(tables: LeakageTables) -> set[str]:
    return {row.digest for row in tables.leaks}


def run(folder: Path, order: LeakageTask = ORDER, **how: object) -> LeakageTables:
    with Store(folder / "store") as store:
        return run_leakage(
            order, load=lambda _: TwoCharacters(), arms_folder=folder, store=store, **how
        )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("leakage")
    told: list[Progress] = []
    said: list[str] = []
    result = run(folder, progress=told.append, say=said.append)
    return Done(folder, result, tuple(told), tuple(said))


def test_every_arm_is_audited_and_the_misses_are_the_taggers(done):
    arms = {arm.code: arm for arm in done.result.arms}
    assert list(arms) == ["raw", "perfect", "tagger two", "mentions 50 %"]
    assert len(digests(done.result)) == 4
    assert arms["raw"].left.value == 1.0
    assert arms["perfect"].left.value == 0.0
    assert arms["mentions 50 %"].left.n_hits == round(0.5 * arms["raw"].n_mentions)
    lengths = [mention.span.n_chars for mention in demo_notes("ja").mentions]
    assert arms["tagger two"].n_whole == sum(n <= 2 for n in lengths)
    assert arms["tagger two"].n_part == sum(n > 2 for n in lengths)
    assert arms["tagger two"].tagger_digest == TwoCharacters.digest


def test_only_the_notes_differ(done):
    arms = done.result.arms
    for arm in arms:
        per_epoch = leakage.SETTINGS.steps_per_epoch(arm.n_tokens)
        assert arm.n_steps == max(1, round(0.1 * per_epoch))
    with Store(done.folder / "store") as store:
        reports = [store.get_record(f"audit/{digest}") for digest in sorted(digests(done.result))]
    questions = [{k: v for k, v in r["question"].items() if k != "hospital"} for r in reports]
    assert all(question == questions[0] for question in questions)
    assert len({report["question"]["hospital"] for report in reports}) == 4


def test_trained_arms_are_private_and_named_by_their_notes(done):
    models = sorted(done.folder.glob("*/model"))
    names = {trained_name(model) for model in models}
    assert "demo ja: tagger two" in names
    assert len(models) == 4
    assert {path.stat().st_mode & 0o777 for path in models} == {0o700}
    weights = models[0] / "model.safetensors"
    assert weights.stat().st_mode & 0o777 == 0o600


def test_progress_never_falls_and_ends(done):
    shares = [report.share for report in done.told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert any(report.phase.startswith("mentions 50 %: training") for report in done.told)
    assert len(done.said) == 4


def test_no_name_gets_into_the_tables(done):
    files = done.result.files()
    listed = demo_notes("ja").names
    text = b"".join(files.values()).decode()
    for first, last in zip(listed.first[:20], listed.last[:20], strict=True):
        assert f"{last}{first}" not in text
        assert first not in text


@pytest.mark.slow
def test_stopped_in_the_middle_it_goes_on_to_the_same_tables(done, tmp_path, monkeypatch):
    seen: list[str] = [""]

    def listen(progress: Progress) -> None:
        seen.append(progress.phase)

    for phase in ("raw: training", "perfect: training", "tagger two, scenario 2"):
        with pytest.raises(AuditCancelled):
            run(tmp_path, progress=listen,
                should_stop=lambda phase=phase: seen[-1].startswith(phase))  # fmt: skip
    result = run(tmp_path)
    assert digests(result) == digests(done.result)
    assert result.files() == done.result.files()
    monkeypatch.setattr(leakage, "pretrain", None)  # nothing is trained twice
    assert digests(run(tmp_path)) == digests(done.result)


@pytest.mark.slow
def test_another_seed_trains_other_models(done, tmp_path):
    other = run(tmp_path, ORDER.with_(seed=1, taggers=(), units=()))
    first = {model_digest(path) for path in done.folder.glob("*/model")}
    second = {model_digest(path) for path in tmp_path.glob("*/model")}
    assert len(second) == 2
    assert not first & second
    assert not digests(other) & digests(done.result)
