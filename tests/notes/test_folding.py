"""The folded text of a note, and the way back: every offset leads to what stood there."""

from __future__ import annotations

import json
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.notes.folding import fold_document, fold_text, reads_alike
from audit.notes.formats import PairedFiles, format_jsonl_line, read_text
from audit.notes.spans import Span, TaggedDocument

CHARS = (
    "aÉe\u0301\u0323\u00ad\u200b\u200d\ufe0fカハ\u3099\u309a゛゜ｶﾞﾟ神葛\U000e0100각\u1100\u1161\u11a8\u212a"
    "\u0958\u0f71\u0f73 \n.👩"
)
TEXTS = st.text(st.sampled_from(CHARS) | st.characters(exclude_categories=()), max_size=14)


@settings(max_examples=400)
@given(TEXTS)
def test_every_character_is_known_by_its_place(text: str) -> None:
    folded = fold_text(text)
    assert unicodedata.is_normalized("NFC", folded.text)
    assert fold_text(folded.text).is_source
    places = [folded.source_place(place, place + 1) for place in range(len(folded.text))]
    for char, (start, end) in zip(folded.text, places, strict=True):
        assert start < end and char in fold_text(text[start:end]).text
    for place, next_place in pairwise(places):
        assert place == next_place or place[1] <= next_place[0]
    # What no character of the folded text stands for is not shown.
    visible_places = {place for start, end in places for place in range(start, end)}
    assert not fold_text(
        "".join(c for place, c in enumerate(text) if place not in visible_places)
    ).text
    (text_span,) = folded.folded_spans([Span(0, len(text), "x")] if folded.text else []) or [None]
    assert text_span is None or (text_span.start, text_span.end) == (0, len(folded.text))


@pytest.mark.parametrize(
    ("source", "text", "name", "written"),
    [
        ("Mrs. Nun\u0303ez", "Mrs. Nuñez", "Nuñez", "Nun\u0303ez"),
        ("Mr Mu\u00adl\u200bler, 70", "Mr Muller, 70", "Muller", "Mu\u00adl\u200bler"),
        ("Nguye\u0302\u0303n Va\u0306n", "Nguyễn Văn", "Văn", "Va\u0306n"),
        ("\ufeff\u200eSmith\u200b.", "Smith.", "Smith", "Smith"),
        ("葛\U000e0100城 様", "葛城 様", "葛", "葛\U000e0100"),
        ("カ\u3099ク ハ゜ンタﾞ", "ガク パンダ", "パンダ", "ハ゜ンタﾞ"),
        ("ㅤKim \u1100\u1175\u11b7", "Kim 김", "김", "\u1100\u1175\u11b7"),
        ("👩\u200d⚕\ufe0f Ann", "👩⚕ Ann", "Ann", "Ann"),
    ],
)
def test_a_find_covers_what_stood_there(source: str, text: str, name: str, written: str) -> None:
    folded = fold_text(source)
    assert folded.text == text
    start = text.index(name)
    span = Span(start, start + len(name), "identifier")
    (back,) = folded.source_spans([span])
    assert source[back.start : back.end] == written
    assert folded.folded_spans([back]) == (span,)


def test_a_note_is_folded_with_its_spans_and_texts_read_alike() -> None:
    source = "Mr. Nun\u0303ez\u00ad said"
    gold = TaggedDocument("1", source, (Span(4, 10, "x"), Span(10, 11, "hidden")), patient_id="7")
    folded = fold_document(gold)
    assert (folded.text, folded.patient_id) == ("Mr. Nuñez said", "7")
    assert [folded.text[span.start : span.end] for span in folded.spans] == ["Nuñez"]
    plain = TaggedDocument("2", "Nuñez")
    assert fold_document(plain) is plain
    assert reads_alike("Nun\u0303ez \n J\u00ado", "Nuñez Jo") and not reads_alike("Nunez", "Nuñez")


def test_gold_readers_read_what_was_written_otherwise(tmp_path: Path) -> None:
    """A note in one writing, its annotations or a tagger's answer in another."""
    decomposed, plain = "Mr. Nun\u0303ez\u00ad-Lo\u0301pez, 70", "Mr. Nuñez-López, 70"
    start, end = 4, 18
    assert fold_text(decomposed[start:end]).text == "Nuñez-López"
    brat = f"T1\tNAME {start} {end}\tNuñez-López\n"
    xml = (
        f"<deIdi2b2><TEXT>{decomposed}</TEXT><TAGS><NAME id='P0' start='{start}' end='{end}' "
        "text='Nuñez-López' TYPE='PATIENT' /></TAGS></deIdi2b2>"
    )
    conll = (
        f"-DOCSTART-\tO\n\n# text = {json.dumps(decomposed)}\nNuñez-López\t{start}\t{end}\tB-NAME\n"
    )
    for text, form, marks in ((decomposed, "brat", brat), (xml, "i2b2", ""), (conll, "conll", "")):
        (note,) = read_text(text, form=form, doc_id="1", subject="notes", annotations=marks)
        assert [(span.start, span.end) for span in note.spans] == [(start, end)]
    gold, predicted = tmp_path / "gold.jsonl", tmp_path / "predicted.jsonl"
    gold.write_text(
        format_jsonl_line(TaggedDocument("1", decomposed, (Span(4, 18, "x"),))), "utf-8"
    )
    predicted.write_text(
        format_jsonl_line(TaggedDocument("1", plain, (Span(4, 15, "x"),))), "utf-8"
    )
    ((gold_note, predicted_note),) = PairedFiles(gold, predicted)
    assert gold_note == predicted_note
    predicted.write_text(format_jsonl_line(TaggedDocument("1", "Mr. Nunez-López, 70")), "utf-8")
    with pytest.raises(AuditError, match="not that of the gold"):
        list(PairedFiles(gold, predicted))
