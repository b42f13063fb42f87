"""Formats of annotated notes: what is written is read back the same, and real files are read."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.notes.formats import (
    FORMATS,
    file_name,
    flattened,
    guess_format,
    jsonl_line,
    read_conll,
    read_files,
    read_line,
    write_conll,
    write_files,
)
from audit.notes.spans import TYPES, Span, TaggedDocument, n_overlapping, tagged

LABELS = (*TYPES, "PATIENT", "LOCATION-OTHER", "フリガナ")
CHARS = st.one_of(
    st.sampled_from("山田太郎は７０歳 \n\t\rab<>&\"'\\/;［］　ｶﾞé\u2028\x85𠮷1-"),
    st.characters(exclude_categories=("Cs", "Cc")),
)


@st.composite
def documents(draw, doc_id=None, *, overlap: bool = True):
    text = draw(st.text(CHARS, min_size=1, max_size=40))
    cuts = st.integers(0, len(text))
    spans = []
    for _ in range(draw(st.integers(0, 5))):
        start, end = sorted((draw(cuts), draw(cuts)))
        if start < end:
            spans.append(Span(start, end, draw(st.sampled_from(LABELS))))
    name = doc_id or draw(st.text(CHARS, min_size=1, max_size=8))
    document = tagged(name, text=text, spans=spans, patient_id=draw(st.sampled_from((None, "p 1"))))
    return document if overlap else flattened(document)


def same(found: TaggedDocument, given_: TaggedDocument, *, has_patient: bool) -> bool:
    return (found.doc_id, found.text, found.spans, found.n_duplicates) == (
        given_.doc_id, given_.text, given_.spans, 0,
    ) and (not has_patient or found.patient_id == given_.patient_id)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(documents(), st.sampled_from(("jsonl", "brat", "i2b2")))
def test_round_trip_with_overlapping_spans(document, form):
    (found,) = read_files(write_files([document], form=form), form=form)
    assert same(found, document, has_patient=form == "jsonl")


def in_iobes(text: str) -> str:
    """A file in BIO with the ends of spans told apart."""
    lines = text.split("\n")
    for i, line in enumerate(lines[:-1]):
        if "\tI-" not in lines[i + 1]:
            lines[i] = re.sub(r"\t([BI])-", lambda mark: f"\t{'SE'[mark[1] == 'I']}-", line)
    return "\n".join(lines)


@settings(max_examples=150, deadline=None)
@given(documents("a", overlap=False), documents("b", overlap=False), st.booleans())
def test_round_trip_of_conll(first, second, is_iobes):
    text = write_conll([first, second])
    found = list(read_conll(in_iobes(text) if is_iobes else text, what="file"))
    assert len(found) == 2
    assert same(found[0], first, has_patient=True) and same(found[1], second, has_patient=True)


@settings(max_examples=150, deadline=None)
@given(documents(overlap=False), st.sampled_from(("ja", "en")))
def test_round_trip_of_inline_tags_or_a_refusal(document, language):
    try:
        files = write_files([document], form="inline", language=language)
    except AuditError as error:
        said = [document.text[s.start : s.end] for s in document.spans]
        assert "reads as a tag" in error.what and any(not text.strip() for text in said)
        return
    (found,) = read_files(files, form="inline", labels=LABELS)
    assert same(found, document, has_patient=False)


@settings(max_examples=200, deadline=None)
@given(documents())
def test_flattened_spans_cover_the_same_characters_without_overlap(document):
    flat = flattened(document)
    assert n_overlapping(flat.spans) == 0

    def covered(d):
        return {i for s in d.spans for i in range(s.start, s.end)}

    assert covered(flat) == covered(document)
    longest = max(document.spans, key=lambda s: s.n_chars, default=None)
    assert longest is None or any(s.n_chars == longest.n_chars for s in flat.spans)


def test_labels_in_english_and_japanese_are_the_same_type():
    line = {"doc_id": 7, "text": "山田太郎", "spans": [
        {"start": 0, "end": 4, "label": "識別子"},
        {"start": 0, "end": 2, "label": "Quasi-Identifier"},
        {"start": 0, "end": 4, "label": "identifier"}]}  # fmt: skip
    (found,) = read_files({"x.jsonl": json.dumps(line).encode()}, form="jsonl")
    assert [s.label for s in found.spans] == ["quasi_identifier", "identifier"]
    assert (found.doc_id, found.n_duplicates, found.patient_id) == ("7", 1, None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "no `text`"),
        ("{", "no JSON"),
        ('{"text": "a", "spans": []}', "no `doc_id`"),
        ('{"doc_id": 1, "text": "a", "spans": [{"start": 0, "end": 2, "label": "x"}]}', "behind"),
        ('{"doc_id": 1, "text": "a", "spans": [{"start": 0, "end": 0, "label": "x"}]}', "empty"),
        ('{"doc_id": 1, "text": "a", "spans": [{"start": 0, "end": 1}]}', "lacks"),
        ('{"doc_id": 1, "text": "a", "spans": [{"start": 0.0, "end": 1, "label": "x"}]}', "lacks"),
        ('{"doc_id": 1, "text": "a", "spans": {}}', "no list"),
    ],
)
def test_bad_lines_are_refused_with_their_number(line, said):
    with pytest.raises(AuditError, match=said) as refused:
        read_files({"x.jsonl": b"\n" + line.encode()}, form="jsonl")
    assert "line 2" in refused.value.where


def test_half_a_surrogate_pair_is_written_so_that_it_can_be_read_again():
    document = tagged("d\ud800", text="\udfff森健一😀", spans=[Span(1, 4, "identifier")])
    line = jsonl_line(document).encode("utf-8")
    assert read_line(line.decode("utf-8"), what="notes", number=1) == document
    assert "森健一😀" in jsonl_line(tagged("d", text="森健一😀", spans=()))


def test_brat_spans_with_gaps():
    text = "Dr. Ann\nBell saw him, Mr. X of Y"
    ann = (
        "T1\tDOCTOR 4 7;8 12\tAnn Bell\n#1\tAnnotatorNotes T1\tsure\nR1\tRel Arg1:T1 Arg2:T2\n"
        "T2\tPATIENT 22 25;31 32\tMr. Y\n"
    )
    (found,) = read_files({"a.txt": text.encode(), "a.ann": ann.encode()}, form="brat")
    assert found.spans == (Span(4, 12, "DOCTOR"), Span(22, 25, "PATIENT"), Span(31, 32, "PATIENT"))
    for bad in ("T1\tDOCTOR 4 8\tAnn Bell", "T1\tDOCTOR 4 99\tAnn", "T1 DOCTOR 4 7 Ann"):
        with pytest.raises(AuditError):
            read_files({"a.txt": text.encode(), "a.ann": bad.encode()}, form="brat")
    with pytest.raises(AuditError, match="missing"):
        read_files({"a.ann": b""}, form="brat")


def test_i2b2_files_as_they_are_published():
    xml = (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<deIdi2b2>\n<TEXT><![CDATA[\n'
        "Seen by Bell & <5 mg\n]]></TEXT>\n<TAGS>\n"
        '<NAME id="P0" start="9" end="13" text="Bell" TYPE="DOCTOR" comment="" />'
        "\n</TAGS>\n</deIdi2b2>"
    )
    (found,) = read_files({"110-01.xml": xml.encode()}, form="i2b2")
    assert (found.doc_id, found.text) == ("110-01", "\nSeen by Bell & <5 mg\n")
    assert found.spans == (Span(9, 13, "DOCTOR"),)
    for bad, said in (
        (xml.replace('"9"', '"7"'), "offsets"),
        (xml.replace("<deIdi2b2>", "<!DOCTYPE x [<!ENTITY e 'y'>]><deIdi2b2>", 1), "entities"),
        (xml.replace("</TAGS>", ""), "well-formed"),
        ("<a/>", "TEXT"),
    ):
        with pytest.raises(AuditError, match=said):
            read_files({"a.xml": bad.encode()}, form="i2b2")
    with pytest.raises(AuditError, match="control"):
        write_files([tagged("1", text="a\x01", spans=[])], form="i2b2")


def test_conll_of_two_columns():
    text = "-DOCSTART- -X- O O\n\nDr. O\nAnn I-PER\nBell I-PER\n\nBob B-PER\nBob B-PER\nX S-LOC\n"
    (found,) = read_conll(text, what="file")
    assert found.text == "Dr. Ann Bell\nBob Bob X"
    assert [found.text[s.start : s.end] for s in found.spans] == ["Ann Bell", "Bob", "Bob", "X"]
    assert [s.label for s in found.spans] == ["PER", "PER", "PER", "LOC"]
    for bad in ("word", "word X-PER", "# text = ab\nab\t0\t9\tO"):
        with pytest.raises(AuditError):
            list(read_conll(bad, what="file"))


def test_overlaps_are_refused_where_a_format_cannot_say_them():
    document = tagged("1", text="abcd", spans=[Span(0, 3, "x"), Span(1, 4, "y")])
    for form in ("conll", "inline"):
        with pytest.raises(AuditError, match="overlap"):
            write_files([document], form=form)
        assert write_files([flattened(document)], form=form)


def test_names_of_files_and_formats():
    assert guess_format(["a.txt", "a.ann"]) == "brat" and guess_format(["x.txt"]) == "inline"
    assert len(FORMATS) == 5 and file_name("../a.b") == "%2E%2E%2Fa%2Eb"
    with pytest.raises(AuditError, match="not known"):
        guess_format(["a.pdf"])
    with pytest.raises(AuditError, match="too long"):
        file_name("名" * 100)
    twice = tagged("1", text="a", spans=[])
    with pytest.raises(AuditError, match="there twice"):
        write_files([twice, twice], form="jsonl")
    with pytest.raises(AuditError, match="UTF-8"):
        read_files({"a.jsonl": b"\xff"}, form="jsonl")
