"""What the engine says, on the Japanese screen and in the Japanese report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from audit.errors import Message
from audit.jobs import service, table
from audit.jobs.table import Failure
from audit.models.registry import VARIABLE
from audit.report.html import ReportChoice, report_html
from audit.task import Question
from tests.models.make_models import WORDS, make_bert
from tests.pages.make_reports import keep, make_report
from tests.pages.screen import open_page, texts

NOTE = Message("{n_left_out} rows of the passage file were left out.", n_left_out=3)
NOTE_JA = "文章のファイルから 3 行を除きました。"
FAILURE = Failure(
    "Memory ran out in the middle of a shard; everything finished before it is kept.",
    where="micro-batch",
    do="Try a smaller micro-batch (scenario 2), or run on the CPU.",
)


def test_notes_of_a_run_on_the_overview_and_in_the_report(home: Path) -> None:
    report = make_report(2, notes=[NOTE.plain(), "Something <new>."])
    keep({"own": report}, directory=home, is_demo=False)
    printed = report_html(report, choice=ReportChoice(language="ja"), other=None)
    for shown in (texts(open_page("overview", lang="ja")), printed):
        assert NOTE_JA in shown
        assert NOTE not in shown
        assert "Something &lt;new&gt;." in shown  # what has no translation stays
    assert NOTE in report_html(report, choice=ReportChoice(language="en"), other=None)


def test_why_a_job_failed() -> None:
    job = service.ask(Question("audit", "a → b", 2, "cpu", "a", (), {}))
    assert table.claim(job.job_id)
    table.end(job.job_id, state="failed", failure=FAILURE)
    shown = texts(open_page("jobs", lang="ja"))
    assert "1回の計算でまとめる行数：計算の途中でメモリが足りなくなりました。" in shown
    assert "CPU で実行してください。" in shown
    english = texts(open_page("jobs"))
    assert f"{FAILURE.where}: {FAILURE.what}" in english
    assert FAILURE.do in english


def test_a_file_that_is_refused_and_remarks_on_rows() -> None:
    app = open_page("setup", lang="ja")
    app.file_uploader[0].upload("n.csv", b"first_name,last_name\nAnna\n", "text/csv").run()
    assert "氏名のリストの2行目：セルの数が 1 個で、見出しの 2 個と合いません。" in texts(app)
    data = b"first_name,last_name\nAnna,Smith\n\nAnna,Smith\n"
    app.file_uploader[0].upload("m.csv", data, "text/csv").run()
    assert "2行目と同じ氏名のため、除きました。" in texts(app)


def test_models_that_are_refused_and_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bert(tmp_path / "models" / "one")
    make_bert(tmp_path / "models" / "other", words=[*WORDS, "more"])
    (tmp_path / "models" / "broken").mkdir()
    (tmp_path / "models" / "broken" / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models"))
    app = open_page("setup", lang="ja", general="models/one", hospital="models/other")
    shown = texts(app)
    assert "broken/config.json：" in shown
    assert "one と other：2つのモデルのトークナイザーが異なります：語彙の" in shown
    body = re.sub(r"<style>.*?</style>|<[^>]*>", " ", shown, flags=re.DOTALL)
    assert not re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", body)
