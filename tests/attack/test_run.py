"""A whole audit: answered once, answered again from the store, and what its report says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from audit import run
from audit.report.export import write_report
from audit.report.report import AuditReport, kept_inspection
from cache.store import Store
from tests.cache.make_store import value_files
from tests.one_thread import one_thread
from tests.small_audit import (
    answer,
    content,
    finished,
    made,
    models,
    request_of,
    same_answer,
    small,
)

__all__ = ["finished", "made", "models", "one_thread", "small"]


def files_of(report: AuditReport, out: Path) -> dict[str, bytes]:
    """Return the bytes of the files an audit is given out in, `made` excluded."""
    paths = write_report(report.changed(made={}), out)
    return {path.name: path.read_bytes() for path in paths}


# --- the store ---


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_same_question_is_answered_without_loading_a_model(
    models, finished, tmp_path, monkeypatch, scenario
):
    def refuse(*args, **kwargs):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("audit.models.load.load_pair", refuse)
    report, directory = finished[scenario]
    again = answer(request_of(models, scenario), directory)
    assert again.made == report.made
    assert same_answer(report, again)
    assert files_of(report, tmp_path / "a") == files_of(again, tmp_path / "b")


@pytest.mark.parametrize("scenario", [1, 2])
def test_a_damaged_shard_is_made_again_to_the_same_bytes(
    models, finished, tmp_path, made, scenario
):
    report, directory = finished[scenario]
    answer(request_of(models, scenario), tmp_path)
    whole, n_made = content(tmp_path), len(made)
    assert whole == content(directory)
    made.clear()
    n_damaged = 0
    shards: list[Path] = []
    for path in value_files(tmp_path):
        data = bytearray(path.read_bytes())
        if b"shard/" in data[:60]:
            shards.append(path)
        if b"audit/" in data[:60] or path in shards[:1]:
            data[-40] ^= 1
            path.write_bytes(data)
            n_damaged += 1
    assert (len(shards), n_damaged) == (n_made, 2)
    with Store(tmp_path) as store:
        again = run.run_audit(request_of(models, scenario), store=store)
        assert store.n_corrupt == 2
    assert len(made) == 1
    assert same_answer(report, again)
    assert content(tmp_path) == whole


def test_a_report_of_another_version_is_made_again_from_its_evidence(models, tmp_path, made):
    first = answer(request_of(models, 1), tmp_path)
    made.clear()
    with Store(tmp_path) as store:
        store.put_record(f"audit/{first.digest}", {**first.to_json(), "schema": 0})
        again = run.run_audit(request_of(models, 1), store=store)
        assert same_answer(first, again)
        assert same_answer(first, AuditReport.from_json(store.get_record(f"audit/{first.digest}")))
    assert made == []


# --- what a report says ---


def test_blocks_of_the_inspection_add_up_to_the_scores(finished):
    report, directory = finished[2]
    with Store(directory) as store:
        found = kept_inspection(report.digest, store=store)
    weights = found.n_per_block[:, None] / found.n_per_block.sum()
    score = np.array(report.names["mean_log_ratio"], dtype=float)
    ratio = ((found.hospital - found.general) * weights).sum(axis=0)
    np.testing.assert_allclose(ratio, score, rtol=1e-3, atol=1e-5)
    assert found.passages
    assert (found.best_passages[:, 0] >= 0).all()
    assert len(found.reference_score) == report.candidates.n_reference
