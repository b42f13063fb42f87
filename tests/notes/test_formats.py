"""Formats of annotated notes: what is written is read back the same, and real files are read."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.notes.formats import (
    FORMATS,
    PairedFiles,
    escape_file_name,
    flatten_spans,
    format_jsonl_line,
    guess_format,
    read_line,
    read_text,
    scan_tags,
    write_files,
)
from audit.notes.spans import (
    FIVE_TYPES,
    FOREIGN,
    TYPES,
    LabelMap,
    Span,
    TaggedDocument,
    build_document,
    count_overlapping,
    merge_spans,
    normalize_label,
    order_labels,
    read_label_map,
    relabel_document,
)

LABELS = (*TYPES, "PATIENT", "LOCATION-OTHER", "フリガナ")
CHARS = st.one_of(
    st.sampled_from("山田太郎は７０歳 \n\t\rab<>&\"'\\/;［］　ｶﾞé\u2028\x85𠮷1-"),
    st.characters(exclude_categories=("Cs", "Cc")),
)


@st.composite
def documents(draw, doc_id=None):
    text = draw(st.text(CHARS, min_size=1, max_size=40))
    cuts = st.integers(0, len(text))
    spans = []
    for _ in range(draw(st.integers(0, 5))):
        start, end = sorted((draw(cuts), draw(cuts)))
        if start < end:
            spans.append(Span(start, end, draw(st.sampled_from(LABELS))))
    name = doc_id or draw(st.text(CHARS, min_size=1, max_size=8))
    return build_document(
        name, text=text, spans=spans, patient_id=draw(st.sampled_from((None, "p 1")))
    )


def same(document, form):
    """A document as a format can say it: patients are known to two of them."""
    patient = document.patient_id if form in ("jsonl", "conll") else None
    return build_document(
        document.doc_id, text=document.text, spans=document.spans, patient_id=patient
    )


def read_back(files: dict[str, bytes], form: str) -> tuple[TaggedDocument, ...]:
    texts = {name: data.decode() for name, data in files.items()}
    (name, text), *marks = sorted(texts.items(), key=lambda one: one[0].endswith(".ann"))
    marks = "".join(mark for _, mark in marks)
    name = unquote(PurePath(name).stem)
    return tuple(read_text(text, form=form, doc_id=name, subject="a", annotations=marks))


@given(documents(), st.sampled_from(("jsonl", "brat", "i2b2")))
def test_overlapping_spans_come_back(document, form):
    assert read_back(write_files([document], form=form), form) == (same(document, form),)


@given(documents("a"), documents("b"), st.booleans())
def test_conll_comes_back(first, second, is_iobes):
    flat_documents = (same(flatten_spans(first), "conll"), same(flatten_spans(second), "conll"))
    (text,) = write_files(flat_documents, form="conll").values()
    lines = text.decode().split("\n")
    for i, line in enumerate(lines[:-1] if is_iobes else ()):
        if "\tI-" not in lines[i + 1]:  # the ends of spans told apart
            lines[i] = re.sub(r"\t([BI])-", lambda mark: f"\t{'SE'[mark[1] == 'I']}-", line)
    assert (
        tuple(read_text("\n".join(lines), form="conll", doc_id="", subject="a")) == flat_documents
    )


@given(documents(), st.sampled_from(("ja", "en")))
def test_inline_tags_come_back_or_are_refused(document, language):
    document = flatten_spans(document)
    try:
        files = write_files([document], form="inline", language=language)
    except AuditError as error:
        contents = [document.text[s.start : s.end] for s in document.spans]
        is_unknown = any(span.label == "フリガナ" for span in document.spans)
        if "The label フリガナ cannot be written" in error.what:
            assert is_unknown
        else:
            assert "reads as a tag" in error.what and any(not text.strip() for text in contents)
        return
    assert read_back(files, "inline") == (same(document, "inline"),)


@pytest.mark.parametrize("form", FORMATS)
def test_every_known_label_of_every_format_comes_back(form: str) -> None:
    """No label that the tool knows is lost on the way out and in, whatever its spelling."""
    labels = [label for name in (*FOREIGN, *TYPES) for label in (name, name.upper())]
    text = "".join(f"Ann {n}. " for n in range(len(labels)))
    starts = [match.start() for match in re.finditer("Ann", text)]
    spans = [
        Span(start, start + 3, normalize_label(label))
        for start, label in zip(starts, labels, strict=True)
    ]
    document = build_document("a", text=text, spans=spans)
    assert read_back(write_files([document], form=form), form) == (document,)


def test_one_tag_of_a_foreign_label_is_text_and_a_pair_is_a_span() -> None:
    text = "Seen by <NAME> on <DATE>, <b>BP</b> <5. <Doctor>Bell</Doctor>, <contact>x1</contact>."
    (note,) = read_text(text, form="inline", doc_id="a", subject="a")
    assert note.text == "Seen by <NAME> on <DATE>, <b>BP</b> <5. Bell, x1."
    assert [(note.text[s.start : s.end], s.label) for s in note.spans] == [
        ("Bell", "Doctor"),
        ("x1", "contact"),
    ]
    for label in ("ROOM-X", "フリガナ"):
        odd = build_document("a", text="Ann", spans=[Span(0, 3, label)])
        with pytest.raises(AuditError, match=f"The label {label} cannot be written") as refused:
            write_files([odd], form="inline")
        assert label in refused.value.render("ja") and "ラベル" in refused.value.render("ja")


@given(documents())
def test_flattened_spans_cover_the_same_characters_without_overlap(document):
    def covered(d):
        return {i for s in d.spans for i in range(s.start, s.end)}

    flat = flatten_spans(document)
    assert count_overlapping(flat.spans) == 0 and covered(flat) == covered(document)
    assert covered(document) == {i for s, e in merge_spans(document.spans) for i in range(s, e)}
    longest = max(document.spans, key=lambda s: s.n_chars, default=None)
    assert longest is None or any(s.n_chars == longest.n_chars for s in flat.spans)


RICH = build_document(
    "n 1",
    text='Dr. <B>Bell</B>\tsaw\r\n山田 "x" &',
    patient_id="p",
    spans=[Span(0, 11, "DOCTOR"), Span(20, 25, "identifier"), Span(26, 29, "contact")],
)


@pytest.mark.parametrize("form", FORMATS)
def test_files_are_written_as_ever(form: str) -> None:
    folder = Path(__file__).with_name("written") / form
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert write_files([RICH], form=form) == contents


def test_labels_in_english_and_japanese_are_the_same_type():
    line = {
        "doc_id": 7,
        "text": "山田太郎",
        "unaligned": ["連絡先"],
        "spans": [
            {"start": 0, "end": 4, "label": "識別子"},
            {"start": 0, "end": 2, "label": "Quasi-Identifier"},
            {"start": 0, "end": 4, "label": "identifier"},
        ],
    }
    documents = tuple(read_text(json.dumps(line), form="jsonl", doc_id="", subject="a"))
    spans = (Span(0, 2, "quasi_identifier"), Span(0, 4, "identifier"))
    assert documents == (TaggedDocument("7", "山田太郎", spans, None, 1, ("contact",)),)
    document = build_document(
        "a",
        text="abcdef",
        unaligned=["PATIENT", "AGE", "odd"],
        spans=[
            Span(0, 1, "PATIENT"),
            Span(1, 2, "Odd"),
            Span(2, 3, "識別子"),
            Span(3, 4, "x-y"),
        ],
    )
    by = LabelMap({"patient": "identifier", "odd": "", "x_y": "contact", "age": "contact"})
    relabelling = relabel_document(document, by=by)
    assert (relabelling.n_left_out, relabelling.unknown) == (1, ())
    assert relabelling.document == build_document(
        "a",
        text="abcdef",
        unaligned=["identifier", "contact"],
        spans=[Span(0, 1, "identifier"), Span(2, 3, "identifier"), Span(3, 4, "contact")],
    )
    assert relabel_document(document, by=LabelMap({})).unknown == ("Odd", "PATIENT", "x-y")
    assert [
        FIVE_TYPES.map_label(label) for label in ("DOCTOR", "PHONE", "連絡先情報", "AGE", "?")
    ] == [
        "identifier",
        "contact",
        "contact",
        "quasi_identifier",
        None,
    ]
    assert order_labels(["z", "contact", "a", "identifier", "z"]) == (
        "identifier",
        "contact",
        "a",
        "z",
    )
    documents = read_label_map('{"Odd": null, "A b": "識別子"}', subject="map")
    assert documents == LabelMap({"odd": "", "a_b": "identifier"})
    deep = '{"a":' * 100_000
    many = json.dumps(dict.fromkeys(map(str, range(10_001))))
    for bad in ("[", "[]", '{"a": 1}', '{"a": "' + "x" * 101 + '"}', deep, many):
        with pytest.raises(AuditError, match=r"^map: This is no JSON object from label to type\."):
            read_label_map(bad, subject="map")


def test_what_is_wrong_with_a_span_is_no_span():
    for start, end, label in (
        (-1, 2, "a"),
        (2, 2, "a"),
        (0, 1, ""),
        (0, 1, "a b"),
        (0, 1, "a\n"),
        (0, 1, "a" * 101),
    ):
        with pytest.raises(ValueError):
            Span(start, end, label)
    for spans in ((Span(1, 2, "a"), Span(0, 1, "a")), (Span(0, 4, "a"),)):
        with pytest.raises(ValueError):
            TaggedDocument("a", "abc", spans)


def test_tags_of_a_tired_model_are_read_and_counted():
    output = (
        "<識別子>山田太郎</識別子>は<準識別子>70歳</識別子>、<contact>090\n電話 </contact>"
        " <PER>x</PER>"
        "<identifier><contact>a</identifier></contact><連絡先情報> </連絡先情報><b> < y >"
    )
    scanned = scan_tags(output, source="the note has <b>", labels=["PER"])
    assert scanned.plain == "山田太郎は70歳、090\n電話  xa <b> < y >"
    assert [(s.start, s.end, s.label) for s in scanned.spans] == [
        (0, 4, "identifier"),
        (5, 8, "quasi_identifier"),
        (9, 16, "contact"),
        (17, 18, "PER"),
        (18, 19, "contact"),
        (18, 19, "identifier"),
    ]
    assert +scanned.census == {"n_tags": 7, "n_crossing": 2, "n_unknown": 1, "n_empty": 1}
    long = scan_tags("<identifier>" + "a" * 201 + "</identifier>")
    assert long.spans == (Span(0, 200, "identifier"),)
    assert +long.census == {"n_tags": 1, "n_unclosed": 1, "n_stray": 1}
    nested = scan_tags("< Contact >a<identifier>b＜／identifier＞</contact>")
    assert +nested.census == {"n_tags": 2, "n_nested": 1}


LINE = '{"doc_id": 1, "text": "a", "spans": [{"start": 0, "end": 2, "label": "x"}]}'
I2B2 = (
    '<?xml version="1.0" encoding="UTF-8" ?>\n<deIdi2b2>\n<TEXT><![CDATA[\n'
    "Seen by Bell & <5 mg\n]]></TEXT>\n<TAGS>\n"
    '<NAME id="P0" start="9" end="13" text="Bell" TYPE="DOCTOR" comment="" />'
    "\n</TAGS>\n</deIdi2b2>"
)
REFUSED = [
    ("jsonl", "\n[1]", "line 2: This line has no `JSON` that can be used. A line is a JSON"),
    ("jsonl", '{"doc_id": 1}', "line 1: This line has no `text` that can be used."),
    ("jsonl", LINE, "line 1: This line has no `spans` that can be used."),
    ("jsonl", LINE.replace("2,", "1.0,"), "line 1: This line has no `spans` that can be used."),
    ("conll", "word", "a, line 1: This line of a CoNLL file is not understood. A line is a token"),
    ("conll", "a O\nword X-PER", "a, line 2: This line of a CoNLL file is not understood."),
    ("conll", "# text = ab\nab\t0\t9\tO", "a, line 2: This token is not what stands at its offse"),
    ("i2b2", I2B2.replace('"9"', '"7"'), "a, tag 1: The text of this tag is not what stands at i"),
    ("i2b2", I2B2.replace('"9"', '"x"'), "a, tag 1: This tag lacks a usable `start`, `end` or `T"),
    ("i2b2", f"<!DOCTYPE x [<!ENTITY e 'y'>]>{I2B2[40:]}", "a: The XML defines entities of its o"),
    ("i2b2", I2B2.replace("</TAGS>", ""), "a: This is no well-formed XML."),
    ("i2b2", "<a/>", "a: The XML has no element TEXT. Give i2b2 2014 files, one note each."),
    ("i2b2", "<" * 500_001, "a: The XML has too many tags for one note."),
]


@pytest.mark.parametrize(("form", "data", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_files_are_refused_with_their_place(form: str, data: str, message: str) -> None:
    with pytest.raises(AuditError) as refused:
        list(read_text(data, form=form, doc_id="a", subject="a"))
    assert message in str(refused.value)


def test_what_a_format_cannot_say_is_not_written():
    crossing = build_document("1", text="abcd", spans=[Span(0, 3, "x"), Span(1, 4, "y")])
    odd = build_document("1", text="a\x01", spans=[Span(0, 1, "a/b")])
    half = build_document("1", text="a\ud800", spans=[])
    for document, form, message in (
        (crossing, "conll", "Spans of a note overlap, and this format has one label for each"),
        (crossing, "inline", "Spans of a note overlap"),
        (odd, "i2b2", "A note holds a control character, for which XML has no form. Choose"),
        (half, "brat", "A note holds half a character, which no file of this format can."),
        (
            build_document("名" * 100, text="", spans=[]),
            "brat",
            "The name of a note is too long for a",
        ),
    ):
        with pytest.raises(AuditError, match=re.escape(message)):
            write_files([document], form=form)
    with pytest.raises(AuditError, match="note 2: This note is there twice"):
        write_files([odd, odd], form="jsonl")
    assert flatten_spans(crossing).spans == (Span(0, 3, "x"), Span(3, 4, "y"))
    document = build_document("d\ud800", text="\udfff森健一😀", spans=[Span(1, 4, "identifier")])
    line = format_jsonl_line(document).encode("utf-8")
    assert read_line(line.decode("utf-8"), subject="notes", number=1) == document


def test_published_files_are_read():
    text = "Dr. Ann\nBell saw him, Mr. X of Y"
    ann = (
        "T1\tDOCTOR 4 7;8 12\tAnn Bell\n#1\tAnnotatorNotes T1\tsure\nR1\tRel Arg1:T1 Arg2:T2\n"
        "T2\tPATIENT 22 25;31 32\tMr. Y\r\n"
    )
    (document,) = read_text(text, form="brat", doc_id="a", subject="a", annotations=ann)
    assert document.spans == (
        Span(4, 12, "DOCTOR"),
        Span(22, 25, "PATIENT"),
        Span(31, 32, "PATIENT"),
    )
    for bad, message in (
        ("T1\tDOCTOR 4 8\tAnn Bell", "a, line 1: The text of this span is not what stands at"),
        ("\nT1\tDOCTOR 4 99\tAnn", "a, line 2: The text of this span is not what stands"),
        ("T1 DOCTOR 4 7 Ann", "a, line 1: This line of a brat file is not understood. A span"),
        ("T1\tDOCTOR\x01 4 7\tAnn", "a, line 1: The label of this span cannot be used."),
    ):
        with pytest.raises(AuditError, match=message):
            read_text(text, form="brat", doc_id="a", subject="a", annotations=bad)
    (document,) = read_text(I2B2, form="i2b2", doc_id="110-01", subject="a")
    assert document == build_document(
        "110-01", text="\nSeen by Bell & <5 mg\n", spans=[Span(9, 13, "DOCTOR")]
    )
    columns = (
        "-DOCSTART- -X- O O\n\nDr. O\nAnn I-PER\nBell I-PER\n\nBob B-PER\nBob B-PER\nX S-LOC\n"
        "-DOCSTART-\n# doc_id = 7b\nA U-LOC\nB L-LOC"
    )
    document, next_document = read_text(columns, form="conll", doc_id="a", subject="a")
    assert document == build_document(
        "1",
        text="Dr. Ann Bell\nBob Bob X",
        spans=[
            Span(4, 12, "PER"),
            Span(13, 16, "PER"),
            Span(17, 20, "PER"),
            Span(21, 22, "LOC"),
        ],
    )
    assert next_document == build_document(
        "7b", text="A B", spans=[Span(0, 1, "LOC"), Span(2, 3, "LOC")]
    )


def test_names_of_files_tell_the_format():
    names = {"a.ann": "brat", "A.XML": "i2b2", "a.bio": "conll", "b.JSONL": "jsonl"}
    assert {name: guess_format([name, "y.txt"]) for name in names} == names
    assert guess_format(["y.txt"]) == "inline"
    assert escape_file_name("../a.b é_-%") == "%2E%2E%2Fa%2Eb é_-%25"


def test_two_files_are_paired_by_their_notes(tmp_path: Path) -> None:
    gold = [build_document(name, text=name * 3, spans=[Span(0, 1, "x")]) for name in "abc"]
    pred = [build_document(name, text=name * 3, spans=[Span(1, 2, "x")]) for name in "dca"]

    def paired(*sides: list[TaggedDocument] | bytes) -> PairedFiles:
        for name, notes in zip(("gold", "pred"), sides, strict=True):
            data = (
                "".join(map(format_jsonl_line, notes)).encode()
                if isinstance(notes, list)
                else notes
            )
            (tmp_path / name).write_bytes(data)
        return PairedFiles(tmp_path / "gold", tmp_path / "pred")

    pairs = paired(gold, pred)
    a, b, c = gold
    assert list(pairs) == [(a, pred[2]), (b, b.with_spans(())), (c, pred[1])]
    assert (pairs.n_gold_only, pairs.n_predicted_only) == (1, 1)
    for gold_lines, predicted_lines, message in (
        ([], pred, "gold notes: There is no note to score. Give files with at least one note."),
        (gold, pred[:1], "predicted notes: The two files have no note in common. Give every note"),
        (
            gold,
            [build_document("a", text="b", spans=[])],
            "predicted notes, line 1: The text of this note",
        ),
        (gold, [pred[1], pred[1]], "predicted notes, line 2: This note is there twice."),
        (gold, b"\n\xff", "predicted notes, line 2: This line is not UTF-8. Save the"),
    ):
        with pytest.raises(AuditError) as refused:
            list(paired(gold_lines, predicted_lines))
        assert str(refused.value).startswith(message)
