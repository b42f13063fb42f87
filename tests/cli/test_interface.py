"""The Python interface: its docstrings are run, and it answers as the command line does."""

from __future__ import annotations

import doctest
import math

import pandas as pd
import plotly.graph_objects as go
import pytest

from audit import access_log, interface
from audit.home import DEMO_HOSPITAL
from pages.ui.charts import GREY, RUST
from tests.repository import REPOSITORY, source

LONG = {"interface", "score"}
EXAMPLES = [example for example in doctest.DocTestFinder().find(interface) if example.examples]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(example, id=name, marks=[pytest.mark.long] * (name in LONG))
        for example in EXAMPLES
        for name in (example.name.rpartition(".")[2],)
    ],
)
def test_docstrings_say_what_happens(example, home):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    report: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(example, out=report.append, clear_globs=False)
    assert report == []


def test_every_task_has_an_example_and_every_name_is_offered_by_the_package():
    calls = "".join(line.source for example in EXAMPLES for line in example.examples)
    for task in ("audit_pair", "score", "deidentify", "measure", "build_corpus"):
        assert f"{task}(" in calls, task
    package: dict[str, object] = {}
    exec(source(REPOSITORY / ".ci" / "kart_audit" / "__init__.py"), package)
    assert package["__all__"] == interface.__all__


def test_a_score_equals_that_of_the_command(run, home, tmp_path):
    scores, truth = [0.9, 0.7, math.nan, 0.3, 0.2, 0.1], [1, 0, 1, 1, 0, 0]
    rows = "".join(f"{s if s == s else ''},{t}\n" for s, t in zip(scores, truth, strict=True))
    (tmp_path / "scores.csv").write_text(f"score,is_member\n{rows}")
    reply = run("score", "--scores", tmp_path / "scores.csv", "--threshold", "0.5")
    table = interface.score(scores, truth, threshold=0.5)
    for name in ("auc", "n_members", "n_controls", "precision", "f1", "threshold"):
        assert table.at[name, "value"] == reply[name]
    assert table.loc["auc", ["low", "high"]].tolist() == [reply["auc_low"], reply["auc_high"]]
    by_fpr = {k: v for k, v in table["value"].items() if k.startswith("tpr_at_fpr_")}
    assert {k: None if math.isnan(v) else v for k, v in by_fpr.items()} == {
        f"tpr_at_fpr_{fpr}": value for fpr, value in reply["tpr_at_fpr"].items()
    }


def test_bad_input_is_refused_without_its_text(home):
    with pytest.raises(interface.AuditError, match="no members with a score"):
        interface.score([0.5], [0])
    with pytest.raises(interface.AuditError) as refused:
        interface.audit_pair(general="Secret", hospital="Secret", names="Jane Doe", scenario=1)
    assert "Jane" not in str(refused.value)
    with pytest.raises(interface.AuditError):
        interface.deidentify("Jane Doe", tagger="nobody")
    with pytest.raises(interface.AuditError):
        interface.measure([], [])


@pytest.mark.long
def test_a_pair_is_audited_kept_drawn_and_written(home, tmp_path):
    folder = DEMO_HOSPITAL / "en"
    names = pd.read_csv(folder / "names.csv", keep_default_na=False, dtype=str)
    question = {
        "general": folder / "models" / "general",
        "hospital": folder / "models" / "hospital-40",
        "passages": folder / "passages.jsonl",
        "scenario": 2,
        "posterior": interface.PosteriorSettings(n_inputs=10, n_chain_inputs=0),
    }
    report = interface.audit_pair(names=names, **question)
    assert len(report.table) == len(names)
    phases: list[object] = []
    again = interface.audit_pair(names=folder / "names.csv", **question, progress=phases.append)
    assert (again.digest, phases) == (report.digest, [])
    figure = interface.draw_scores(report)
    assert isinstance(figure, go.Figure)
    assert {box.marker.color for box in figure.data} == {RUST, GREY}  # as on the pages
    assert sum(len(box.x) for box in figure.data) == len(names)
    file_names = {path.name for path in interface.save_report(report, out=tmp_path / "out")}
    assert {"names.csv", "measures.json", "report.json", "log_seal.txt"} <= file_names
    assert access_log.entries()[0].action == "exported"
