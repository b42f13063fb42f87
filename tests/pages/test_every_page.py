"""Every page in every state of an installation, in both languages; what is not a page's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit import demo
from audit.corpus.corpora import CORPORA
from audit.deid.measure.score_report import SCORES
from audit.deid.sets.tagged_sets import TAGGED_SETS
from audit.home import DEMO_HOSPITAL, HOME_VARIABLE
from audit.jobs import service, table
from audit.models.inspect import compute_model_digest
from audit.progress import Progress
from audit.task import Question
from audit.training.trainings import MODELS
from cache.store import Store
from pages.ui.main import HIDDEN, OF_ONE_AUDIT, PAGES
from pages.ui.state import words_of
from tests.pages.make_reports import keep, make_report
from tests.pages.screen import downloads, links, open_page, texts

ALL_PAGES = (*PAGES, *HIDDEN)


def arrange(state: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring the data directory into a state."""
    if state == "demo":  # one that still runs: known by its model, in no list of the demo's audits
        shipped = compute_model_digest(DEMO_HOSPITAL / "en" / "models" / demo.HOSPITAL)
        models = {"general": {"name": "general"}, "hospital": {"name": "h", "digest": shipped}}
        keep(make_report(2).changed(models=models))
    elif state == "damaged":
        with Store(home) as store:
            store.put_record(f"audit/{'a' * 64}", {"schema": -1})
        for shelf in (CORPORA, MODELS, SCORES, TAGGED_SETS):
            folder = shelf.place("0d0d0d0d0d0d")
            folder.mkdir(parents=True)
            for name in ("corpus.json", "training.json", "score.json", "tagged.json"):
                (folder / name).write_text("{broken")
    elif state == "running":
        job = service.ask(Question("corpus", "ward", 0, "cpu", "a", (), {"run_id": "b"}))
        assert table.claim(job.job_id)
        table.note_progress(job.job_id, Progress("building the corpus", 1, 4, None))
    elif state == "unusable":
        monkeypatch.setenv(HOME_VARIABLE, "not/from/the/root")


@pytest.mark.parametrize("page", ALL_PAGES)
@pytest.mark.parametrize("state", ["empty", "demo", "damaged", "running"])
def test_every_page_opens_in_both_languages(
    home: Path, monkeypatch: pytest.MonkeyPatch, state: str, page: str
) -> None:
    arrange(state, home, monkeypatch)
    app = open_page(page, lang="ja")
    for language in ("ja", "en"):
        say = words_of(language)
        app.radio(key="language").set_value(language).run()
        assert not app.exception
        assert app.title[0].value == say.text(f"{page}_title")
        page_text = texts(app)
        assert "匿名" not in page_text
        has_ribbon = state == "demo" and page in OF_ONE_AUDIT
        assert (
            page_text.count(say.html("is_demo"))
            == page_text.count('<p class="ka-ribbon"')
            == has_ribbon
        )
        if state in ("empty", "damaged") and page in OF_ONE_AUDIT[1:]:
            assert say.html("need_audit") in page_text
            assert not app.get("plotly_chart") and not downloads(app)
        stage = say.text("jobs_stage_corpus_building_the_corpus")
        line = say.text("job_line_now", stage=stage, percent=25)
        assert (line in [label for label, _, _ in links(app)]) == (state == "running")


@pytest.mark.parametrize("page", ALL_PAGES)
@pytest.mark.parametrize("language", ["ja", "en"])
def test_where_the_data_directory_cannot_be_used_every_page_says_so_and_nothing_else(
    home: Path, monkeypatch: pytest.MonkeyPatch, language: str, page: str
) -> None:
    arrange("unusable", home, monkeypatch)
    app = open_page(page, lang=language)
    assert words_of(language).html("no_data") in texts(app) and HOME_VARIABLE in texts(app)
    assert not app.title and not app.button and not app.get("page_link")


def test_without_an_audit_the_overview_says_how_to_make_the_demo(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page("verdict")
    assert "May this language model leave the building?" in texts(app)
    assert [page for _, page, _ in links(app)][:3] == ["audit", "deidentify", "check"]
    arrange("damaged", home, monkeypatch)
    app = open_page("verdict")
    assert "Audits that this version cannot read: 1." in texts(app)
    assert app.button(key="run_demo").label == "Run the demo"
    arrange("unusable", home, monkeypatch)
    page_text = texts(open_page("verdict"))
    assert "The results on this machine cannot be read." in page_text
    assert HOME_VARIABLE in page_text
