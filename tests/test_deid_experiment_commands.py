"""`python -m audit experiment --deid`: options, files, and what is refused."""

from __future__ import annotations

import json
import stat

import pytest

from audit.cli import FieldsOf, leakage_task, main, parsed
from audit.deid.taggers import known_taggers
from audit.experiment import leakage
from audit.experiment.leakage_tables import LeakageTask
from tests.experiment.tiny_leakage import tiny_tables


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))


def order_of(*options: str):
    given = parsed(["experiment", "--deid", "--out", "x", *options])
    return leakage_task(FieldsOf(LeakageTask).chosen(given), is_quick="quick" in given)


def test_one_command_writes_three_private_files(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(leakage, "run_leakage", lambda order, **_: tiny_tables(order))
    code = main(["experiment", "--deid", "--quick", "--out", str(tmp_path / "out"), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert [arm["kind"] for arm in json.loads(out)["arms"]] == ["raw", "perfect", "mentions"]
    assert "| Arm |" in err
    files = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in files] == ["leakage.csv", "leakage.json", "leakage.md"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    main(["jobs", "--json"])
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["kind"], job["state"]) == ("leakage", "done")


def test_options_become_an_order():
    given = (
        "--tagger rules --miss 0.2,0.4 --epochs 3 --language ja --mode surrogate --scenario 1 "
        "--inputs 7 --seed 2"
    )
    order = order_of(*given.split())
    assert (order.taggers, order.shares, order.epochs) == (("rules",), (0.2, 0.4), 3.0)
    assert (order.language, order.mode, order.scenarios) == ("ja", "surrogate", (1,))
    assert (order.n_inputs, order.seed) == (7, 2)


def test_without_a_choice_the_shipped_taggers_are_asked():
    listed = {tagger.tagger_id for tagger in known_taggers()} & {"rules", "default"}
    assert set(order_of().taggers) == listed
    assert "rules" in listed


def test_the_quick_form_keeps_what_was_asked_for():
    order = order_of("--quick", "--epochs", "1")
    assert order.epochs == 1.0
    assert len(order.arms) < len(order_of().arms)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--tagger", "nobody"), "tagger"),
        (("--miss", "0.5,0.1"), "shares"),
        (("--miss", "2"), "shares"),
        (("--epochs", "0"), "epochs"),
        (("--inputs", "0"), "inputs"),
    ],
)
def test_what_cannot_be_is_said_plainly(tmp_path, capsys, wrong, said):
    code = main(["experiment", "--deid", "--out", str(tmp_path), *wrong])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_without_deid_notes_and_a_model_are_asked_for(tmp_path, capsys):
    assert main(["experiment", "--out", str(tmp_path)]) == 2
    assert "--notes" in capsys.readouterr().err
