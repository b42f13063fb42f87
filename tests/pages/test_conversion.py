"""Conversion of refused models on the page New audit, through Streamlit's own tester."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.jobs import service, table
from audit.jobs.table import Job, read_order, table_contact
from audit.models.convert import CONVERTED, ConvertTask
from audit.models.registry import VARIABLE
from tests.models.editing import WEIGHTS, edit_weights
from tests.models.hostile_pickles import PICKLE
from tests.models.make_causal import make_adapter, make_causal
from tests.models.make_models import make_bert
from tests.pages.screen import keys, open_page, press, texts


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registered folder: a general model, one with pickled weights, one without a head."""
    folder = tmp_path / "models"
    make_bert(folder / "general")
    pickled, headless = make_bert(folder / "ward", seed=1), make_bert(folder / "body", seed=2)
    torch.save(load_file(pickled / WEIGHTS), pickled / PICKLE)
    (pickled / WEIGHTS).unlink()
    edit_weights(headless, lambda t: [t.pop(name) for name in [*t] if name.startswith("cls.")])
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


def do_job(job: Job) -> None:
    """Do a waiting job here, as its process would."""
    assert table.claim(job.job_id)
    task = ConvertTask.from_order(read_order(job.job_id))
    table.end(job.job_id, state="done", result=task.run(table_contact(job.job_id)))


def options(app: AppTest, key: str) -> list[str]:
    return list(app.selectbox(key=key).options)


@pytest.mark.long
def test_a_refused_model_is_converted_chosen_and_removed(models: Path) -> None:
    app = open_page("audit", convert="models/ward")
    assert "The weights exist only as pytorch_model.bin" in texts(app)
    assert options(app, "choice_convert") == ["models/body", "models/ward"]
    assert options(app, "pick_head")[0] == "models/general"
    press(app, "convert_start")
    (job,) = service.active_jobs()
    assert (job.kind, job.label, job.device) == ("convert", "ward", "short")
    assert read_order(job.job_id)["source"] == str(models / "ward")
    assert read_order(job.job_id)["head_from"] is None
    assert "Conversion of a model" in texts(app)
    do_job(job)
    app.run()
    assert not app.exception
    assert "can now be chosen above" in texts(app)
    (converted,) = CONVERTED.all()
    assert any(name.startswith("ward · converted here") for name in options(app, "pick_hospital"))
    app = open_page("audit", hospital=f"converted/{converted.conversion_id}", convert="models/ward")
    assert "with its own head" in texts(app) and "Vocabulary" in texts(app)
    press(app, "convert_start")  # done already: it is answered at once
    assert service.active_jobs() == () and "can now be chosen above" in texts(app)
    app = open_page("audit", converted=converted.conversion_id)
    press(app, "convert_forget_now")
    assert CONVERTED.all() == () and "convert_forget_now" not in keys(app)
    removed = next(line for line in entries() if line.action == "removed")
    assert dict(removed.counts)["what"] == "converted-model" and "ward" not in str(removed)


@pytest.mark.long
def test_a_model_without_a_head_asks_for_one(models: Path) -> None:
    app = open_page("audit", convert="models/body")
    assert app.button(key="convert_start").disabled
    assert "Choose the general model that its training started from" in texts(app)
    app = open_page("audit", convert="models/body", head="demo:en/general")
    press(app, "convert_start")
    assert "The model cannot take this head, because the two models differ in" in texts(app)
    assert service.active_jobs() == ()
    app = press(open_page("audit", convert="models/body", head="models/general"), "convert_start")
    (job,) = service.active_jobs()
    do_job(job)
    (converted,) = CONVERTED.all()
    assert converted.record.head_name == "general"
    page_text = texts(open_page("audit", lang="ja"))
    assert "出力層は general のもの" in page_text and "ここで変換" in page_text


@pytest.mark.long
def test_the_base_of_an_adapter_is_rounded_to_four_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = make_causal(tmp_path / "models" / "base", "llama")
    make_adapter(tmp_path / "models" / "adapter", base, declared="base")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models"))
    pair = {"hospital": "models/adapter", "general": "models/base"}
    app = open_page("audit", **pair, rounding="nf4-double")
    press(app, "convert_round")
    (job,) = service.active_jobs()
    assert read_order(job.job_id)["rounding"] == "nf4-double"
    do_job(job)
    app.run()
    assert not app.exception
    (converted,) = CONVERTED.all()
    assert converted.record.rounding == "nf4-double"
    name = next(name for name in options(app, "pick_general") if "rounded to 4 bits" in name)
    assert name.startswith("declared base · base rounded to 4 bits (nf4-double) · made here")
    rounded = pair | {"general": f"converted/{converted.conversion_id}"}
    app = open_page("audit", **rounded)
    assert "This base is rounded to 4 bits (nf4-double) and back" in texts(app)
    assert "convert_round" not in keys(app)
