"""What the engine says, on the Japanese screen and in the Japanese report."""

from __future__ import annotations

from pathlib import Path

from audit.errors import Message
from audit.jobs import service, table
from audit.jobs.table import Failure
from audit.report.html import ReportChoice, report_html
from audit.task import Question
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
