"""Shards made by workers, or as files by jobs of their own: same bytes, none under a wrong key."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from audit import shards
from audit.attack import evidence
from audit.attack.plan import list_phases
from audit.cli import main
from audit.errors import AuditCancelled, AuditError
from audit.executor import open_executor
from audit.home import HOME_VARIABLE, results_dir
from audit.progress import Meter
from audit.run import prepare_attack
from cache.store import Store
from tests.one_thread import one_thread
from tests.small_audit import answer, content, finished, models, request_of, shard_kinds, small

pytestmark = pytest.mark.long

__all__ = ["finished", "models", "one_thread", "shard_kinds", "small"]


def quiet(_: object) -> None:
    pass


def make(order: Path, *, part: int = 1, n_parts: int = 1) -> int:
    folder = order.with_name("shards")
    return shards.make_part(order, part=part, n_parts=n_parts, folder=folder, progress=quiet)


def merged(order: Path, results: Path) -> shards.MergeCounts:
    with Store(results) as store:
        return shards.merge_shards(order, folder=order.with_name("shards"), store=store)


@pytest.fixture
def order(models, tmp_path) -> Path:
    path = tmp_path / "order.json"
    with Store(tmp_path / "results") as store:
        assert len(shards.write_order(request_of(models, 1), path, store=store).keys) == 10
    return path


# --- jobs that do not talk to each other ---


@pytest.mark.parametrize("scenario", [1, 2])
def test_parts_that_are_merged_are_the_run_in_one_place(
    models, finished, tmp_path, shard_kinds, scenario
):
    request, path = request_of(models, scenario), tmp_path / "order.json"
    with Store(tmp_path / "results") as store:
        n_shards = len(shards.write_order(request, path, store=store).keys)
    n_shards_by_part = [make(path, part=part, n_parts=3) for part in (3, 1, 2)]
    assert sum(n_shards_by_part) == n_shards and max(n_shards_by_part) - min(n_shards_by_part) == 1
    assert merged(path, tmp_path / "results") == shards.MergeCounts(n_shards, 0, 0, ())
    shard_kinds.clear()
    answer(request, tmp_path / "results")
    assert shard_kinds == []
    assert content(tmp_path / "results") == content(finished[scenario][1])
    assert merged(path, tmp_path / "results") == shards.MergeCounts(0, n_shards, 0, ())
    with Store(tmp_path / "results") as store:
        assert shards.write_order(request, path, store=store).keys == ()


def test_the_commands_do_the_same(models, tmp_path, shard_kinds, capsys, monkeypatch):
    listed, names, order = request_of(models, 1).candidates, tmp_path / "names.csv", tmp_path / "o"
    rows = zip(listed.first, listed.last, listed.is_member, strict=True)
    names.write_text(
        "first_name,last_name,is_member\n" + "".join(f"{f},{n},{m:d}\n" for f, n, m in rows)
    )
    words_of_run = [
        "run",
        "--scenario=1",
        "--general",
        models.general,
        "--hospital",
        models.hospital,
        "--names",
        names,
        "--documents=250",
        "--steps=8",
        "--tokens=16",
        "--device=cpu",
    ]

    def call(*words: object) -> dict[str, object]:
        assert main([*map(str, words), "--json"]) == 0
        answer_json: dict[str, object] = json.loads(capsys.readouterr().out)
        return answer_json

    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "by parts"))
    assert call(*words_of_run, "--order", order)["n_shards"] == 6
    assert shard_kinds == []
    for part in ("1/2", "2/2"):
        assert call("shards", order, "--part", part)["n_shards"] == 3
    assert call("shards", "merge", order)["n_taken"] == 6
    shard_kinds.clear()
    call(*words_of_run)
    assert shard_kinds == []
    by_parts = content(results_dir())
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "alone"))
    call(*words_of_run)
    assert content(results_dir()) == by_parts


def test_files_are_for_their_owner_alone(order):
    make(order)
    folder = order.with_name("shards")
    assert stat.S_IMODE(order.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert len(files) == 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_damaged_file_is_refused_and_made_anew_and_no_other(order, tmp_path, shard_kinds):
    make(order)
    contents = {path: path.read_bytes() for path in order.with_name("shards").iterdir()}
    truncated, flipped, exchanged, source_file, gone, *_ = contents
    truncated.write_bytes(contents[truncated][:-1])
    middle = len(contents[flipped]) // 2
    flipped.write_bytes(
        contents[flipped][:middle]
        + bytes([contents[flipped][middle] ^ 1])
        + contents[flipped][middle + 1 :]
    )
    exchanged.write_bytes(contents[source_file])
    gone.unlink()
    merge = merged(order, tmp_path / "results")
    assert set(merge.refused) == {truncated.name, flipped.name, exchanged.name}
    assert (merge.n_taken, merge.n_missing) == (6, 1)
    shard_kinds.clear()
    make(order)
    assert len(shard_kinds) == 4
    assert {path: path.read_bytes() for path in contents} == contents
    shard_kinds.clear()
    make(order)  # a part that is made twice
    assert shard_kinds == []
    assert merged(order, tmp_path / "results") == shards.MergeCounts(4, 6, 0, ())


def test_a_machine_a_program_or_a_model_that_is_not_the_order_s_makes_nothing(
    order, models, monkeypatch
):
    order_json = json.loads(order.read_text())

    def refused(match: str, **changes: object) -> None:
        order.write_text(json.dumps(order_json | changes))
        with pytest.raises(AuditError, match=match):
            make(order)
        assert not list(order.with_name("shards").glob("*"))

    refused("torch is .* instead of 0.0", made_by=order_json["made_by"] | {"torch": "0.0"})
    refused("kernels is .* instead of other", made_by=order_json["made_by"] | {"kernels": "other"})
    refused(
        "not those of the order",
        request=order_json["request"] | {"general": str(models.other_hospital)},
    )
    refused("order", keys=7)
    with monkeypatch.context() as patch:
        patch.setattr(evidence, "VERSIONS", {**evidence.VERSIONS, "generation": 10**6})
        refused("not those of the order")
    with pytest.raises(AuditError, match="3/8"):
        make(order, part=2, n_parts=1)


# --- workers ---


@pytest.mark.slow
def test_workers_make_the_bytes_that_are_made_here(models, finished, tmp_path, shard_kinds):
    with open_executor(n_workers=2) as workers:
        for scenario in (1, 2):
            answer(request_of(models, scenario), tmp_path / str(scenario), executor=workers)
    for scenario in (1, 2):
        assert content(tmp_path / str(scenario)) == content(finished[scenario][1])
    assert shard_kinds == []  # in this process


def test_a_worker_refuses_what_it_would_file_under_a_wrong_key(models, shard_kinds):
    request = request_of(models, 1)
    meter = Meter(list_phases(request), listener=quiet)
    setup = prepare_attack(request)
    source = setup.source("general", "generation", store=None, meter=meter)
    order, *_ = evidence.list_shard_orders(source, setup.task, kind="generation", n_total=100)
    for changes, match in (
        ({"backend": order.backend | {"torch": "0.0"}}, "torch is .* instead of 0.0"),
        ({"folder": models.hospital}, "another model"),
        ({"model": "0" * 64}, "another model"),
    ):
        with pytest.raises(AuditError, match=match):
            evidence.make_shard_remotely(replace(order, **changes))
    assert shard_kinds == []
    for hidden in (order.task.prompt, order.folder, order.model):
        assert str(hidden) not in repr(order)  # workers print it in their logs


def test_a_run_that_is_stopped_keeps_what_workers_have_finished(models, finished, tmp_path):
    request = request_of(models, 1)

    def is_enough() -> bool:
        with Store(tmp_path) as store:
            return len(store.keys("shard/")) >= 2

    with ThreadPoolExecutor(2) as workers, pytest.raises(AuditCancelled):
        answer(request, tmp_path, executor=workers, should_stop=is_enough)
    with Store(tmp_path) as store:
        n_kept, n_of_both = len(store.keys("shard/")), 20
        assert 2 <= n_kept <= n_of_both / 2  # the other model's were not begun
    answer(request, tmp_path)
    assert content(tmp_path) == content(finished[1][1])
