"""The folder that a browser shows without a server: whole, self-contained, and without names."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from audit import cli
from audit.attack.question import question_digest
from audit.attack.scores import SCORES
from audit.errors import catalogue
from audit.home import HOME_VARIABLE, results_dir
from audit.report.audit_store import keep_report
from audit.report.export import bundle_files
from audit.report.html import ReportChoice, folder_html
from audit.report.name_table import COLUMNS
from audit.report.report import AuditReport
from cache.store import Store
from tests.pages.make_reports import MEMBERS, make_names, make_report

UNUSUAL = [
    ("Quenby", "O'Thrax<b>"),
    ("Ysolde-Maëlle", "Vandersnickt"),
    ("Xzavier", "Nakamurakami"),
    ("凜々蝶", "小鳥遊"),
    ("Ålfhild", 'Mc"Zibbin'),
]


@pytest.fixture(scope="module")
def report() -> AuditReport:
    members = [*UNUSUAL, *MEMBERS[len(UNUSUAL) :]]
    report = make_report(2, names=make_names(members=members))
    report = report.changed(digest=question_digest(report.question))
    return AuditReport.from_json(json.loads(json.dumps(report.to_json())))


class Page(HTMLParser):
    """The scripts and the addresses of a page, and the JSON of its figures."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[str] = []
        self.addresses: list[str] = []
        self.policy = ""
        self.figures: dict[str, Any] = {}
        self._open: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "action")]
        if "http-equiv" in attributes:
            self.policy = attributes["content"] or ""
        self._open = attributes if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None and self._open.get("id") == "figures":
            self.figures = json.loads(data)
        elif self._open is not None:
            self.scripts.append(data)


def test_it_fetches_nothing_and_only_its_own_scripts_may_run(report: AuditReport) -> None:
    text = folder_html(report, choice=ReportChoice())
    page = Page(text)
    assert page.addresses == [] and len(page.scripts) == 2
    assert page.policy.startswith("default-src 'none'; ") and "unsafe-eval" not in page.policy
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in page.scripts]
    assert all(f"'sha256-{digest}'" in page.policy for digest in hashes)
    assert {*page.figures} == {"en", "ja"}
    for figures in page.figures.values():
        assert {*figures} == {"scores", "aucs", "mentions"}
        assert all(f'data-figure="{key}"' in text for key in figures)
        n_points = sum(len(trace["x"]) for trace in figures["scores"]["data"])
        assert n_points == report.n_names
    assert text.count("<main ") == 2 and text.index('<main lang="en"') < text.index(
        'lang="ja" data-title'
    )
    japanese = folder_html(report, choice=ReportChoice(language="ja"))
    assert '<html lang="ja">' in japanese
    assert text.count("P-0002") >= 2  # the table of all names, in both languages


def test_every_text_of_it_is_in_both_languages_and_its_times_are_local(
    report: AuditReport,
) -> None:
    report = report.changed(made={"at": "2026-11-29T23:30:00+00:00"})
    choice = ReportChoice(language="ja", time_zone="Asia/Tokyo")
    files = {
        name: content.decode("utf-8-sig")
        for name, content in bundle_files(report, choice=choice, is_folder=True).items()
    }
    assert '<html lang="ja">' in files["report.html"]
    assert '<html lang="en">' in files["report_en.html"]
    for name in ("index.html", "report.html", "report_en.html"):
        assert "2026-11-30 08:30 JST" in files[name] and " UTC" not in files[name]
    titles = [catalogue(language, "report")["readme_title"] for language in ("ja", "en")]
    assert [line for line in files["README.txt"].splitlines() if line in titles] == titles
    plain = bundle_files(report, choice=choice.with_(time_zone="Mars/Olympus"))
    assert not {"report_en.html", "report_ja.html", "columns.csv"} & plain.keys()
    assert "2026-11-29 23:30 UTC" in plain["report.html"].decode()


def test_every_column_of_its_tables_is_explained_in_both_languages(report: AuditReport) -> None:
    files = bundle_files(report, choice=ReportChoice(), is_folder=True)
    _, *rows = csv.reader(files["columns.csv"].decode("utf-8-sig").splitlines())
    for name in ("names.csv", "measures.csv"):
        header = next(csv.reader(files[name].decode("utf-8-sig").splitlines()))
        assert [column for file, column, *_ in rows if file == name] == header
    assert all(all(row) for row in rows)
    columns = {column.kept_as for column in COLUMNS if column.kept_as}
    columns |= {score.column or score.name for score in SCORES}
    for language in ("en", "ja"):
        assert columns <= catalogue(language, "columns").keys()


def spell_alike(part: str) -> set[str]:
    """Return how a name's part could stand in HTML, JSON or a script."""
    spelled = {part, html.escape(part), html.escape(part, quote=False), part.upper(), part.lower()}
    spelled |= {str(escape(spelling)) for spelling in spelled}
    spelled |= {json.dumps(spelling)[1:-1] for spelling in spelled}
    return spelled | {spelling.replace("<", r"\u003c") for spelling in spelled}


@pytest.mark.long
@pytest.mark.parametrize("form", ["masked", "pseudonyms"])
def test_no_byte_of_the_masked_folder_tells_a_name_or_a_part_of_one(
    report: AuditReport, form: Any
) -> None:
    files = bundle_files(report, choice=ReportChoice(names=form), is_folder=True, seal="1-ab")
    assert "index.html" in files and b"index.html" in files["MANIFEST.sha256"]
    everything = b"\n".join(files.values()).decode()
    decoded = re.sub(
        r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), html.unescape(everything)
    )
    parts = {part for key in ("first_name", "last_name") for part in report.names[key] if part}
    assert len(parts) > 60
    leaked_parts = {
        part
        for part in parts
        for spelling in spell_alike(part)
        if spelling in everything or spelling in decoded
    }
    assert leaked_parts == set()
    full = bundle_files(report, choice=ReportChoice(names="full"), is_folder=True)["index.html"]
    assert all(escape(part).encode() in full for pair in UNUSUAL for part in pair)


@pytest.mark.long
def test_the_command_line_writes_it_and_its_files_can_be_checked(
    report: AuditReport,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    with Store(results_dir()) as store:
        keep_report(report, store=store)
    out = tmp_path / "out"
    assert cli.main(["results", report.digest[:12], "--out", str(out), "--folder"]) == 0
    assert (out / "index.html").stat().st_mode & 0o777 == 0o600
    assert cli.main(["verify", str(out)]) == 0
    page = out / "index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("P-0002", "P-0003"), encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["verify", str(out)]) == 1
    assert "index.html" in capsys.readouterr().err
    assert cli.main(["results", report.digest[:12], "--out", str(tmp_path / "plain")]) == 0
    assert not (tmp_path / "plain" / "index.html").exists()
