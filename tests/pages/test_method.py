"""The Method page through Streamlit's own tester."""

from __future__ import annotations

import re

import pytest

from audit.attack import decisions, exposure, guards, verdicts
from audit.attack.question import GenerationSettings
from audit.stats import MIN_CONTROLS
from pages.ui.state import words_of
from tests.pages.screen import open_page, texts


@pytest.mark.long
@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_part_is_there_and_nothing_is_called_harmless(language: str) -> None:
    say, page_text = words_of(language), ""
    parts = {
        "measured": ("one", "verdict", "spans"),
        "limits": ("limits", "untried", "policy"),
        "terms": (),
        "sources": ("reproduce", "sources", "versions"),
    }
    for tab, headings in parts.items():
        app = open_page("method", lang=language, tab=tab)
        assert all(say.html(f"method_{part}") in texts(app) for part in headings)
        assert len(app.latex) == 15 * (tab == "measured")
        page_text += texts(app)
    assert "python -m audit run" in app.code[0].value
    assert "safe " not in page_text.lower() and "安全" not in page_text
    for term, translation in (("De-identification", "非識別化"), ("Member", "記録にある人")):
        assert re.search(f">{term}</td><td[^>]*>{translation}<", page_text)


def test_numbers_are_the_engines() -> None:
    page_text = texts(open_page("method"))
    assert f"share one error rate of {100 * decisions.ALPHA:g} % an audit" in page_text
    assert f"at least {100 * verdicts.MIN_RELIABILITY:g} % of the scores" in page_text
    assert f"leaves out one half by more than {guards.ILL_MATCHED_BEYOND:g}, with" in page_text
    assert f"a name stands out if q is at most {decisions.ALPHA:g}: if the" in page_text
    assert f"Up to {decisions.LOOK_ALPHA:g} it is worth a look" in page_text
    assert f"above {100 - 100 * exposure.EXPOSED_P:g} % of at least" in page_text
    assert f"fewer than {MIN_CONTROLS} comparable controls" in page_text
    assert f"{GenerationSettings().n_documents:,} documents by default" in page_text
    prose = " ".join(
        sentence
        for key, sentence in words_of("en").sentences.items()
        if key.startswith("method_") and not key.startswith(("method_term", "method_means"))
    )
    assert not re.search(r"0\.\d|\d{3,}", prose)  # constants come from the engine
