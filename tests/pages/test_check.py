"""The page Check a report: what came back is shown file by file, and bad files in words."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence

import pytest
from streamlit.testing.v1 import AppTest

from audit import access_log
from audit.attack.question import question_digest
from audit.home import results_dir
from audit.report.audit_store import keep_report
from audit.report.decision import Decision, decide, read_decision, sign
from audit.report.export import bundle, bundle_files
from audit.report.html import ReportChoice
from audit.report.report import AuditReport, kept_audit
from cache.store import Store
from pages.ui.state import words_of
from tests.pages.make_reports import MEMBERS, make_report
from tests.pages.screen import HOSTILE, links, open_page, texts

SAY = words_of("en")
MODELS = {
    role: {"name": role, "digest": code * 64}
    for role, code in zip(("general", "hospital"), "ab", strict=True)
}


def make_kept_report() -> AuditReport:
    report = make_report(2).changed(models=MODELS)
    report = report.changed(digest=question_digest(report.question))
    report = AuditReport.from_json(json.loads(json.dumps(report.to_json())))
    with Store(results_dir()) as store:
        keep_report(report, store=store)
    return report


def sign_release(report: AuditReport) -> Decision:
    """Decide and sign as people whose names are hostile."""
    with Store(results_dir()) as store:
        pair = [kept_audit(report)]
        decision = decide(
            read_decision([report.digest], store=store),
            pair=pair,
            recommendation="retrain",
            reasons="Two names stand out. Dr. Anthony Whitmore agrees.",
            language="en",
            by="anna",
            store=store,
        )
        return sign(decision, pair=pair, name=HOSTILE, role="officer", by="anna", store=store)


def hand_over(report: AuditReport, decision: Decision | None = None) -> dict[str, bytes]:
    choice = ReportChoice(decision=decision or Decision())
    return bundle_files(report, choice=choice, seal=access_log.log_seal())


def check(*files: tuple[str, bytes], lang: str = "en") -> AppTest:
    """Give files to the page; nothing of it fails."""
    app = open_page("check", lang=lang)
    app.file_uploader[0].set_value([(name, data, "text/plain") for name, data in files]).run()
    assert not app.exception
    return app


def states(app: AppTest) -> dict[str, str]:
    """Return the words beside each file."""
    words = {
        SAY.text(f"check_file_{state}"): state
        for state in ("unchanged", "altered", "unchecked", "missing")
    }
    lines = [f"{line}</p>" for line in texts(app).split("</p>") if 'class="ka-line"' in line]
    return {
        line.partition("<strong>")[2].partition("</strong>")[0]: state
        for line in lines
        for sentence, state in words.items()
        if line.endswith(f"</strong> {sentence}</p>")
    }


@pytest.mark.long
def test_a_report_as_it_was_handed_over_is_unchanged_signed_and_known(home: object) -> None:
    report = make_kept_report()
    files = hand_over(report, sign_release(report))
    app = check(("audit.zip", bundle(files, folder="audit")))
    page_text = texts(app)
    assert "Unchanged since it was written." in page_text
    assert states(app) == {f"\N{CHECK MARK} {name}": "unchanged" for name in files}
    assert SAY.text("check_here_yes", digest=report.digest[:12]) in page_text
    assert any(f"audit={report.digest[:12]}" in query for _, _, query in links(app))
    assert SAY.text("decision_retrain") in page_text and "&lt;img src=x&gt;" in page_text
    assert "Two names stand out. Dr. A" in page_text and "Whitmore" not in page_text
    assert "<img" not in page_text and all(code * 64 in page_text for code in "ab")
    assert not any(part in page_text for member in MEMBERS for part in member)
    japanese = texts(check(("audit.zip", bundle(files, folder="audit")), lang="ja"))
    assert words_of("ja").text("check_file_unchanged") in japanese


@pytest.mark.long
def test_files_given_one_by_one_are_told_apart_altered_unchecked_and_missing(home: object) -> None:
    report = make_kept_report()
    files = hand_over(report)
    start = "audit-0123-masked-en-"
    names = {"report.json": f"{start}report.json", "names.csv": f"{start}names (1).csv"}
    changed = {"names.csv": files["names.csv"].replace(b"0.", b"1.", 1)}
    app = check(*((name, (files | changed)[file]) for file, name in names.items()))
    assert states(app) == {
        "\N{CHECK MARK} report.json": "unchanged",
        "\N{BALLOT X} names.csv": "altered",
    }
    assert "Altered: names.csv." in texts(app) and SAY.text("check_undecided") in texts(app)
    app = check(("report.html", files["report.html"]))
    assert states(app) == {"? report.html": "unchecked"}
    assert SAY.text("check_here_unknown") in texts(app)
    assert "Not checked: nothing here confirms report.html." in texts(app)
    assert SAY.text("check_unchecked_do") in texts(app)
    app = check(*((name, files[name]) for name in ("MANIFEST.sha256", "report.html")))
    assert states(app)["\N{EN DASH} report.json"] == "missing"


def test_a_report_of_elsewhere_is_not_known_here(home: object) -> None:
    report = make_kept_report()
    files = hand_over(report)
    with Store(results_dir()) as store:
        store.remove(f"audit/{report.digest}")
    app = check(("report.json", files["report.json"]))
    assert SAY.text("check_here_no", digest=report.digest[:12]) in texts(app)
    assert not [label for label, *_ in links(app) if label == SAY.text("check_open")]


def make_zip(*entries: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "files",
    [
        [("x.zip", b"PK\x03\x04 broken")],
        [("x.zip", make_zip(("a/report.json", b"0" * 60_000_000)))],
        [("x.zip", make_zip(("../report.json", b"{}")))],
        [("x.zip", make_zip(("a/report.json", b"{}"), ("b/names.csv", b"")))],
        [("x.zip", make_zip(*((f"a/{i}", b"") for i in range(200))))],
        [("letter.txt", b"Dear Anna")],
        [("report.json", b"{}"), ("report.json", b"[]")],
        [("a-report.json", b"{}"), ("b-names.csv", b"x")],
    ],
    ids=["broken", "bomb", "up", "folders", "many", "letter", "twice", "two reports"],
)
def test_what_is_no_report_is_refused_in_words(
    home: object, files: Sequence[tuple[str, bytes]]
) -> None:
    page_text = texts(check(*files))
    assert "ka-refused" in page_text and "ka-unforeseen" not in page_text
    assert "Anna" not in page_text


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 99_999,
        b"[" + b"1," * 11_000_000 + b"1]",
        b'{"schema": 1',
        b"\xff\x00",
        b'{"schema": 7}',
    ],
    ids=["deep", "many", "broken", "bytes", "version"],
)
def test_a_report_that_cannot_be_read_is_a_line_and_not_a_fault_of_the_program(
    home: object, content: bytes
) -> None:
    page_text = texts(check(("report.json", content)))
    assert any(
        words in page_text
        for words in ("cannot be read", "another version", "too large to be checked")
    )


@pytest.mark.parametrize(
    "part",
    [
        {"names": {"name_id": [1], "is_undecided": [False]}},
        {"digest": "../../x"},
        {"made": {"decision": "x", "names": ["full"], "log_seal": {"a": 1}}},
        {"columns": ["nothing"]},
        {"models": {}},
    ],
    ids=["names", "digest", "made", "columns", "models"],
)
def test_a_hostile_report_is_called_altered(home: object, part: dict[str, object]) -> None:
    files = hand_over(make_kept_report())
    values = json.loads(files["report.json"])
    content = json.dumps(values | part).encode()
    app = check(("report.json", content), ("names.csv", files["names.csv"]))
    assert "altered" in states(app).values()
