"""Redaction: every character of every span goes, every other character stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.release import MASK_CHAR, Release, language_of
from audit.notes.spans import TYPES, Span, TaggedDocument, merged, n_overlapping, tagged


@st.composite
def documents(draw):
    text = draw(st.text("山田a7\n ", min_size=1, max_size=25))
    spans = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        spans.append(Span(start, end, draw(st.sampled_from(TYPES))))
    return tagged("1", text=text, spans=spans)


@settings(max_examples=200, deadline=None)
@given(documents(), st.sampled_from(("placeholder", "mask", "surrogate")))
def test_the_released_text_is_source_and_replacements(document, mode):
    done = Release(mode=mode).of(document)
    rebuilt, at = "", 0
    for one in done.replacements:
        rebuilt += document.text[at : one.start] + one.text
        assert done.text[one.new_start : one.new_end] == one.text
        at = one.end
    assert rebuilt + document.text[at:] == done.text
    removed = {i for one in done.replacements for i in range(one.start, one.end)}
    assert removed == {i for s in document.spans for i in range(s.start, s.end)}
    if mode == "mask":
        assert len(done.text) == len(document.text)
        for i, (old, new) in enumerate(zip(document.text, done.text, strict=True)):
            assert new == (MASK_CHAR if i in removed and old != "\n" else old)


def test_overlapping_spans_are_one_stretch_named_after_the_longest_then_by_risk():
    spans = [Span(0, 4, "quasi_identifier"), Span(2, 6, "identifier"), Span(6, 7, "contact")]
    done = Release().of(tagged("1", text="abcdefgh", spans=spans))
    assert done.text == "[NAME][CONTACT]h"
    assert done.replacements[0].labels == ("identifier", "quasi_identifier")
    longer = tagged("1", text="abcdefgh", spans=[*spans, Span(0, 8, "phone")])
    english = Release(language="en").of(longer)
    assert english.text == "[PHONE]"


def test_what_is_equal_to_what_it_replaces_is_counted():
    document = TaggedDocument("1", "[NAME] ■", (Span(0, 6, "identifier"), Span(7, 8, "x")), "p7")
    for mode, n_unchanged in (("placeholder", 1), ("surrogate", 1), ("mask", 1)):
        assert Release(mode=mode, language="en").of(document).n_unchanged == n_unchanged


def test_spans_and_documents_are_checked_once():
    for start, end, label in ((2, 2, "x"), (-1, 2, "x"), (0, 1, ""), (0, 1, "a b"), (0, 1, "a\n")):
        with pytest.raises(ValueError, match=r"span|label"):
            Span(start, end, label)
    with pytest.raises(ValueError, match="ends at 3"):
        tagged("1", text="ab", spans=[Span(0, 3, "x")])
    with pytest.raises(ValueError, match="sorted"):
        TaggedDocument("1", "abc", (Span(1, 2, "x"), Span(0, 1, "x")))
    doubled = tagged("1", text="abc", spans=[Span(1, 2, "x"), Span(1, 2, "x"), Span(0, 2, "x")])
    assert (doubled.n_duplicates, n_overlapping(doubled.spans)) == (1, 1)
    assert merged(doubled.spans) == ((0, 2),)


@pytest.mark.parametrize(
    ("text", "language", "said"),
    [
        ("Seen by Ann Lee on 4/11/2026.", "en", "[NAME]"),
        ("山田は受診した。 Ann Lee", "ja", "【氏名】"),
        ("Ann Lee", "en", "[NAME]"),
        ("Der Patient Ann Lee wurde mit Fieber und Husten in die Klinik gebracht", "", "[NAME]"),
        ("El paciente Ann Lee con dolor en el pecho, no fuma", "", "[NAME]"),
        ("Пациент Ann Lee поступил с болью в груди", "", "[NAME]"),
        ("환자 Ann Lee 는 흉통으로 입원하였다", "", "[NAME]"),
    ],
)
def test_placeholders_are_in_the_language_of_the_note(text, language, said):
    start = text.index("Ann Lee")
    done = Release().of(tagged("1", text=text, spans=[Span(start, start + 7, "identifier")]))
    assert done.language == language_of(text) == language
    assert done.text == text.replace("Ann Lee", said)
    for asked, words in (("ja", "【氏名】"), ("en", "[NAME]")):
        again = Release(language=asked).of(
            tagged("1", text="Ann", spans=[Span(0, 3, "identifier")])
        )
        assert again.text == words


@pytest.mark.parametrize(
    ("marked", "label", "said"),
    [
        ("on ⟦4/11/2026⟧", "quasi_identifier", "[DATE]"),
        ("at ⟦Mercy Hospital⟧", "quasi_identifier", "[PLACE]"),
        ("in ⟦Boston, MA⟧", "quasi_identifier", "[PLACE]"),
        ("MRN ⟦12345⟧", "linkage_code", "[ID]"),
        ("SSN ⟦123-45-6789⟧", "personal_id_code", "[ID]"),
        ("call ⟦555-0101⟧", "contact", "[CONTACT]"),
        ("a ⟦72-year-old⟧", "quasi_identifier", "[AGE]"),
        ("old ⟦woman⟧", "quasi_identifier", "[SEX]"),
        ("Mr. ⟦Smith⟧", "quasi_identifier", "[NAME]"),
        ("⟦令和6年5月⟧に", "quasi_identifier", "【日付】"),
        ("⟦港区⟧在住", "quasi_identifier", "【場所】"),
        ("⟦佐藤⟧さん", "quasi_identifier", "【氏名】"),
        ("電話⟦03-1234-5678⟧", "contact", "【連絡先】"),
    ],
)
def test_placeholders_say_what_stood_there(marked, label, said):
    before, _, rest = marked.partition("⟦")
    text, _, after = rest.partition("⟧")
    spans = [Span(len(before), len(before) + len(text), label)]
    done = Release().of(tagged("1", text=before + text + after, spans=spans))
    assert done.text == before + said + after
