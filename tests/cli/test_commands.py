from __future__ import annotations

import csv
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from audit.cli import main
from audit.cli.printing import format_result
from audit.home import results_dir
from cache.store import Store
from tests.corpus.make_notes import dummy_notes
from tests.models.make_models import make_bert, make_roberta

pytestmark = pytest.mark.usefixtures("home")
NAMES = """first_name,last_name,is_member,control_kind
Mary,Smith,1,
John,Brown,1,
Linda,Jones,0,easy
James,Smith,0,hard
"""
PASSAGES = "text\nservice : [NAME] is a 42 year old male . he was seen .\n[NAME] is well .\n"
WORDS = ["mary", "john", "linda", "james", "smith", "brown", "jones", "service", "is", "a"]
WORDS += ["year", "old", "male", "he", "was", "seen", "well"]


@pytest.fixture
def pair(tmp_path):
    general = make_bert(tmp_path / "general", seed=1, words=WORDS)
    hospital = make_bert(tmp_path / "hospital", seed=2, words=WORDS)
    (tmp_path / "names.csv").write_text(NAMES)
    (tmp_path / "passages.csv").write_text(PASSAGES)
    return {
        "--general": str(general),
        "--hospital": str(hospital),
        "--names": str(tmp_path / "names.csv"),
        "--passages": str(tmp_path / "passages.csv"),
    }


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def options(pair: dict[str, str], **extra: object) -> list[object]:
    chosen = [item for entry in pair.items() for item in entry]
    return chosen + [x for k, v in extra.items() for x in (f"--{k.replace('_', '-')}", v)]


def masked(pair: dict[str, str], **extra: object) -> list[object]:
    sizes = {"inputs": 250, "chain_inputs": 3} | extra
    return ["run", "--scenario", 2, *options(pair, **sizes)]


def generated(pair: dict[str, str], **extra: object) -> list[object]:
    sizes = {"documents": 120, "steps": 6} | extra
    return ["run", "--scenario", 1, *options(pair, **sizes)]


def call_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[Any, str]:
    """What a command that succeeds prints with --json, and what it says."""
    code, out, err = call(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out), err


def names_of(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((out / "names.csv").read_text(encoding="utf-8"))))


@pytest.mark.long
def test_scenario_2_is_a_job_that_writes_files_and_is_kept(pair, tmp_path, capsys):
    first_folder, second_folder = tmp_path / "one", tmp_path / "two"
    result, _ = call_json(capsys, *masked(pair, out=first_folder))
    digest = result["digest"]
    assert result["scenario"] == 2
    rows = names_of(first_folder)
    assert [row["first_name"] for row in rows] == ["Mary", "John", "Linda", "James"]
    assert {
        "name_id",
        "first_name",
        "last_name",
        "is_member",
        "control_kind",
        "n_pieces",
        "score",
        "standard_error",
        "p_value",
        "q_value",
        "decision",
        "hospital_posterior",
        "general_posterior",
        "difference",
        "log_ratio",
        "mean_log_ratio",
    } <= set(rows[0])
    for row in rows:
        difference = float(row["hospital_posterior"]) - float(row["general_posterior"])
        assert float(row["difference"]) == pytest.approx(difference, rel=1e-9, abs=1e-15)
    files = {path.name: path.read_bytes() for path in first_folder.iterdir()}
    assert sorted(files) == ["log_seal.txt", "measures.json", "names.csv", "report.json"]
    again, err = call_json(capsys, *masked(pair, out=second_folder))
    assert again["digest"] == digest and "Answered before" in err
    assert (second_folder / "names.csv").read_bytes() == files["names.csv"]
    (job,) = call_json(capsys, "jobs")[0]["jobs"]
    assert (job["state"], job["runner"], job["result"]) == ("done", "cli", [digest])
    assert job["question"] == digest
    assert job["finished"] == {"n_inputs": 250, "n_chain_inputs": 3}
    (line,) = call_json(capsys, "results")[0]["audits"]
    assert (line["n_names"], line["verdict"]) == (4, result["verdict"])
    call_json(capsys, "results", digest[:10], "--out", second_folder, "--names", "full")
    assert (second_folder / "names.csv").read_bytes().removeprefix(b"\xef\xbb\xbf") == files[
        "names.csv"
    ]
    seal, first = (second_folder / "log_seal.txt").read_text(), files["log_seal.txt"].decode()
    for seal_option, code in ((first, 0), (seal, 0), (f"9{seal}", 1), ("none", 2)):
        assert call(capsys, "log", "verify", "--seal", seal_option)[0] == code
    logged = [
        (line["action"], line["audit"], line["counts"])
        for line in call_json(capsys, "log", "show")[0]["entries"]
    ]
    assert logged == 3 * [("exported", digest[:12], {"names": "full"})]


@pytest.mark.long
def test_names_and_passages_in_other_forms_ask_the_same(pair, tmp_path, capsys):
    plain, _ = call_json(capsys, *masked(pair))
    book = openpyxl.Workbook()
    for line in NAMES.splitlines():
        book.active.append([int(cell) if cell.isdecimal() else cell for cell in line.split(",")])
    book.save(tmp_path / "names.csv")  # a workbook, whatever it is called
    packed = PASSAGES.replace("[NAME]", "@@").encode()
    pair["--passages"] = str(tmp_path / "passages.csv.gz")
    Path(pair["--passages"]).write_bytes(gzip.compress(packed))
    again, messages = call_json(capsys, *masked(pair), "--placeholder", "@@")
    assert again["digest"] == plain["digest"] and "Answered before" in messages
    assert "4 names read (xlsx)." in messages and "2 passages read" in messages
    rank = ("rank", "--scenario", 2, *options(pair, inputs=250, out=tmp_path / "ranks.csv"))
    assert call_json(capsys, *rank, "--placeholder", "@@")[0]["n_names"] == 4
    for words in (masked(pair), [*masked(pair), "--placeholder", "@@@"]):
        code, out, err = call(capsys, *words)
        assert (code, out) == (2, "") and ("placeholder" in err or "No text has a place" in err)
    (tmp_path / "names.csv").write_bytes((tmp_path / "names.csv").read_bytes()[:-99])
    code, out, err = call(capsys, *masked(pair), "--placeholder", "@@")
    assert (code, out) == (2, "") and "names: The archive is damaged" in err


@pytest.mark.long
def test_the_source_of_controls_is_stated_and_a_kept_audit_is_judged_again(pair, tmp_path, capsys):
    plain, _ = call_json(capsys, *masked(pair))
    stated, _ = call_json(capsys, *masked(pair, control_source="invented"))
    assert plain["digest"] != stated["digest"]
    judged, _ = call_json(
        capsys,
        "judge",
        plain["digest"][:10],
        "--control-source",
        "invented",
        "--out",
        tmp_path / "again",
    )
    assert judged["digest"] not in (plain["digest"], stated["digest"])
    assert judged["verdict"] == stated["verdict"]
    assert "judged again from its kept evidence" in judged["notes"][-1]
    report = json.loads((tmp_path / "again" / "report.json").read_text())
    assert report["verdict"]["control_source"] == "invented"
    assert len(call_json(capsys, "results")[0]["audits"]) == 3
    people = tmp_path / "people.csv"
    people.write_text("first_name,last_name\nLinda,Brown\nMary,Smith\n")
    own_report, _ = call_json(capsys, *masked(pair, own_controls=people))
    assert own_report["digest"] not in (plain["digest"], stated["digest"])
    code, out, err = call(capsys, *masked(pair, own_controls=people, control_source="held_out"))
    assert (code, out) == (2, "") and "Own controls have the source own" in err
    code, out, err = call(capsys, *masked(pair, sibling="ffff"))
    assert (code, out) == (2, "") and "--sibling: No kept audit, or more than one" in err
    code, out, err = call(capsys, *masked(pair, control_source="invented", sibling=plain["digest"]))
    assert code in (1, 2) and "does not say where its controls come from" in err


def test_what_is_said_without_json_has_every_value_and_tables_of_what_is_alike():
    records = [{"name": "a", "n": 1, "deep": {"x": 1}}, {"name": "b", "n": 0.123456, "deep": {}}]
    text = "\n".join(
        format_result(
            {
                "n_notes": 3,
                "none": None,
                "rows": records,
                "by": {"x": {"n": 1}, "y": {"n": 2}},
                "counts": {"easy": 2},
                "notes": ["One.", "Two."],
                "auc": 0.123456,
                "left": [],
                "covered": {"n": 1, "labels": {"x": {"f1": 0.5}}, "by_size": [1, 2], "none": {}},
            }
        )
    )
    assert text.splitlines() == [
        "n notes: 3",
        "rows:",
        "name      n",
        "   a      1",
        "   b 0.1235",
        "by:",
        "   n",
        "x  1",
        "y  2",
        "counts: easy 2",
        "notes: One.; Two.",
        "auc: 0.1235",
        "left: none",
        "covered: n 1",
        "covered, labels:",
        "   f1",
        "x 0.5",
        "covered, by size: 1; 2",
        "covered, none: none",
    ]


def test_a_refused_pair_is_a_failed_job_with_its_cause(pair, tmp_path, capsys):
    pair["--hospital"] = str(make_roberta(tmp_path / "other", seed=3))
    code, _, err = call(capsys, *masked(pair))
    (job,) = call_json(capsys, "jobs")[0]["jobs"]
    assert (code, job["state"]) == (2, "failed")
    assert job["failure"]["what"] in err and "tokenizers" in err


def test_guessed_kinds_of_controls_are_said_and_rows_are_those_of_the_file(pair, tmp_path, capsys):
    file_rows = ("", "Mary,Smith,1", "Mary,Smith,1", "John,Smith,0", "James,Jones,0", "")
    (tmp_path / "names.csv").write_text("\n".join(("first_name,last_name,is_member", *file_rows)))
    report, _ = call_json(capsys, *masked(pair, out=tmp_path / "out"))
    sentence = "The list does not say the kind of 2 controls. It was worked out, once,"
    assert any(note.startswith(sentence) for note in report["notes"])
    rows = names_of(tmp_path / "out")
    assert [(row["file_row"], row["name_id"], row["control_kind"]) for row in rows] == [
        ("3", "0", ""),
        ("5", "1", "hard"),
        ("6", "2", "easy"),
    ]


@pytest.mark.long
def test_a_list_in_capitals_with_titles_is_rewritten_and_twins_are_left_out_or_refused(
    pair, tmp_path, capsys
):
    rows = ["MR. MARY SMITH,1", "MÁRY SMITH,1", "JOHN JONES,0"]
    (tmp_path / "names.csv").write_text("\n".join(("name,is_member", *rows)), encoding="utf-8")
    report, err = call_json(capsys, *masked(pair, out=tmp_path / "out"))
    for sentence in (
        "3 of 3 names were in capitals",
        "1 of 3 names are the same name to this model",
    ):
        assert any(note.startswith(sentence) for note in report["notes"])
    assert "3 of 3 names were in capitals" in err and "row 2: Titles, degrees" in err
    names = names_of(tmp_path / "out")
    assert [row["first_name"] for row in names] == ["Mary", "Máry", "John"]
    assert [bool(row["score"]) for row in names] == [True, False, True]
    rows[1] = "MÁRY SMITH,0"
    (tmp_path / "names.csv").write_text("\n".join(("name,is_member", *rows)), encoding="utf-8")
    code, _, err = call(capsys, *masked(pair))
    assert code == 2 and "Rows 2 and 3 are the same name to this model" in err
    assert "MÁRY" not in err and "Máry" not in err


@pytest.mark.long
def test_controls_can_be_drawn(pair, tmp_path, capsys):
    (tmp_path / "names.csv").write_text("name,is_member\nMary Smith,1\nJohn Brown,1\n")
    call_json(capsys, *masked(pair, out=tmp_path / "out", draw_controls=4))
    rows = names_of(tmp_path / "out")
    assert [row["control_kind"] for row in rows] == ["", "", *["easy"] * 4, *["hard"] * 4]
    assert all(row["score"] for row in rows)  # none that the small vocabulary cannot spell
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    comparisons = [note["values"] for note in report["notes"] if "Members against" in note["key"]]
    assert [comparison["kind"] for comparison in comparisons] == ["easy", "hard"]
    assert comparisons[1]["value"] == comparisons[1]["value_2"] == 0


@pytest.mark.parametrize(
    ("option", "wrong", "fragment"),
    [
        ("--names", "absent.csv", "--names"),
        ("--passages", "absent.csv", "--passages"),
        ("--general", "absent", "--general"),
        ("--reference", "absent", "--reference"),
        ("--inputs", 0, "inputs"),
        ("--seed", 2**63, "seed: must be a whole number from 0 to "),
    ],
)
def test_bad_input_ends_with_2_and_one_paragraph(pair, option, wrong, fragment, capsys):
    code, out, err = call(capsys, *masked(pair), option, wrong)
    assert (code, out, shards()) == (2, "", set())
    assert fragment in err and "Traceback" not in err


@pytest.mark.parametrize(("option", "wrong"), [("--column", "text"), ("--snapshots", "one")])
def test_an_option_that_cannot_be_read_is_named(option, wrong, capsys):
    assert main(["pretrain", "--general", "x", option, wrong]) == 2
    assert capsys.readouterr().err.startswith(f"{option}: must be ")


def test_ctrl_c_ends_with_130(pair, monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("audit.run.run_audit", interrupted)
    code, out, err = call(capsys, *masked(pair))
    assert (code, out) == (130, "")
    assert "kept" in err


def score_rows(
    capsys: pytest.CaptureFixture[str], folder: Path, rows: str, threshold: float
) -> Any:
    (folder / "scores.csv").write_text("score,is_member\n" + rows)
    measures, _ = call_json(
        capsys, "score", "--scores", folder / "scores.csv", "--threshold", threshold
    )
    return measures, [measures[name] for name in ("tp", "fn", "fp", "tn")]


def test_score_gives_what_the_counts_say(tmp_path, capsys):
    # members 3, 2, 1; controls 2.5, 0: of six pairs the member is above in 3>2.5, 3>0, 2>0, 1>0
    result, counts = score_rows(capsys, tmp_path, "3,1\n2,1\n1,1\n2.5,0\n0,0\n", 1.5)
    assert result["auc"] == pytest.approx(4 / 6) and counts == [2, 1, 1, 1]
    assert result["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert set(result["tpr_at_fpr"]) == {"0.1", "0.01", "0.001"}
    assert result["tpr_at_fpr"]["0.1"] is None  # two controls cannot resolve 10 %


@pytest.mark.parametrize(
    "rows",
    [
        "score\n1\n",
        "score,is_member\nx,1\n0,0\n",
        "score,is_member\n1,maybe\n",
        "too large",
        "score,is_member\n1,1\n",
    ],
)
def test_score_refuses_what_it_cannot_read(rows, tmp_path, capsys):
    (tmp_path / "scores.csv").write_text(rows)
    if rows == "too large":
        os.truncate(tmp_path / "scores.csv", 10**12)  # takes no room on the disk
    code, out, err = call(capsys, "score", "--scores", tmp_path / "scores.csv", "--json")
    assert (code, out) == (2, "") and "Traceback" not in err
    assert ("scores: The file is larger than 50 MB." in err) == (rows == "too large")


def test_scores_of_a_real_pair_give_the_published_auc(tmp_path, capsys):
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "clinical_mlm_losses"
    if not folder.is_dir():
        pytest.skip("the losses of a real pair are not at hand")
    rows = []
    for group, truth in (("members", 1), ("nonmembers", 0)):
        target, reference = (
            np.loadtxt(folder / f"{group}_{model}.txt").ravel().tolist()
            for model in ("target", "reference")
        )
        rows += [f"{r - t!r},{truth}\n" for t, r in zip(target, reference, strict=True)]
    result, counts = score_rows(capsys, tmp_path, "".join(rows), 0)
    assert result["auc"] == pytest.approx(0.928009, abs=5e-7)
    tprs = [round(result["tpr_at_fpr"][k], 4) for k in ("0.1", "0.01", "0.001")]
    assert tprs == [0.8099, 0.6045, 0.3721] and counts == [13701, 282, 1054, 664]


LIST = """first_name,last_name,is_member,control_kind,role,n_mentions
Mary,Smith,1,,staff,2
John,Brown,1,,staff,1
Linda,Jones,0,easy,,
James,Smith,0,hard,,
"""
CANARIES = "Mary,Brown,1,,canary,4\nJohn,Smith,1,,canary,1\nLinda,Smith,0,canary,canary,\n"


@pytest.fixture
def reference(pair, tmp_path):
    """A third model; the pair's list has canaries."""
    (tmp_path / "names.csv").write_text(LIST + CANARIES)
    return str(make_bert(tmp_path / "reference", seed=3, words=WORDS))


def shards() -> set[str]:
    with Store(results_dir()) as store:
        return set(store.keys("shard/"))


@pytest.mark.long
@pytest.mark.parametrize("make_words", [masked, generated])
def test_only_the_references_own_evidence_is_made(pair, reference, tmp_path, capsys, make_words):
    call_json(capsys, *make_words(pair))
    one_pair = len(shards())
    report, err = call_json(capsys, *make_words(pair, reference=reference, out=tmp_path / "out"))
    assert "Answered before" in err
    assert len(shards()) == one_pair * 3 // 2  # of three models, not of four
    (other_report,) = report["references"]
    assert other_report["general"] == "reference" and report["general"] == "general"
    assert (
        other_report["digest"] != report["digest"]
        and other_report["hospital"] == report["hospital"]
    )
    score = report["fixed_score"]
    (pooled,) = [row for row in other_report["difference"]["aucs"] if row["stratum"] == "all"]
    aucs = [side["strata"]["all"]["scores"][score]["auc"] for side in (report, other_report)]
    assert pooled["difference"]["value"] == pytest.approx(aucs[0] - aucs[1])
    for folder, audit in (("", report), ("reference-1", other_report)):
        measures = json.loads((tmp_path / "out" / folder / "measures.json").read_text())
        assert measures["digest"] == audit["digest"]
    call_json(capsys, "results", report["digest"][:12], "--out", tmp_path / "report")
    text = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert other_report["digest"][:12] in text


def test_a_corpus_that_is_written_elsewhere_is_logged_as_handed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = dummy_notes(tmp_path)
    order = ("corpus", "build", "--notes", notes, "--column", "text=TEXT")
    call_json(capsys, *order, "--out", tmp_path / "corpus")
    call_json(capsys, *order)
    logged = [
        (line["action"], line["counts"]) for line in call_json(capsys, "log", "show")[0]["entries"]
    ]
    assert logged == [("exported", {"what": "corpus", "names": "full"})]
