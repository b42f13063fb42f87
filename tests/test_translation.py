"""The engine's sentences in Japanese: none without a template, no template without a sentence."""

from __future__ import annotations

import ast
import json
import re
import time
from collections import Counter

import pytest

from audit.attack.question import GenerationSettings
from audit.corpus.register import read_register
from audit.errors import AuditError
from audit.foreign import ARCHIVES
from audit.names.files import read_names
from audit.notes.passages import read_passages
from audit.notes.read import open_notes
from audit.tables import RowNote
from audit.task import _WORDS
from audit.words import (
    Template,
    error_text,
    in_language,
    phrase_in_language,
    place_in_language,
    told,
)
from tests.engine_sentences import (
    COMMAND_LINE,
    REPOSITORY,
    Source,
    engine_sentences,
    first_arguments,
)

CATALOGUE = json.loads((REPOSITORY / "audit" / "sentences_ja.json").read_text(encoding="utf-8"))
SENTENCES, PLACES, WORDS = (CATALOGUE[kind] for kind in ("sentences", "places", "words"))
AS_THEY_ARE = {"KART_AUDIT_HOME", ".streamlit/secrets.toml", "{0}/{1}"}
"""Places that are names of files and variables."""
JAPANESE = re.compile(r"[ぁ-んァ-ヶ一-鿿]")
PLACE = re.compile(r"\{(\d+)(?::word)?\}")


def texts(kind: str) -> set[str]:
    return {found.text for found in engine_sentences()[0] if found.kind == kind}


def sample(template: str) -> str:
    return PLACE.sub(lambda place: f"<{place[1]}>", template)


def test_every_sentence_that_can_be_shown_has_a_template():
    found, unclear = engine_sentences()
    assert len(found) > 300  # the reading of the source has not gone blind
    missing = [one for one in found if one.kind == "sentence" and one.text not in SENTENCES]
    assert missing == []
    assert unclear == ()


def test_every_template_has_a_sentence():
    of_fields = {f"{words}." for words in _WORDS.values()}
    assert SENTENCES.keys() - texts("sentence") - of_fields == set()
    settings = set(first_arguments("audit/attack/question.py", "_whole"))
    assert len(settings) == 9
    where = texts("place") | settings
    given = {
        "{0}, row {1}",
        "register",
        "threshold",
        *("mode", "source", "units", "title", "order"),  # fields of records, by their names
        *(
            "{0} and {1}",
            "note {0}",
            "{0}, line {1}, span {2}",
            "{0}, file {1}",
        ),  # made of two places
    }  # "row 1" is one of them; readers are told what they read
    assert PLACES.keys() - where - given == set()


def test_every_place_of_an_error_has_words():
    settings = first_arguments("audit/attack/question.py", "_whole")
    for where in (texts("place") | set(settings)) - AS_THEY_ARE:
        shown = place_in_language(sample(where), language="ja")
        assert JAPANESE.search(shown), where


def test_places_are_the_same_in_both_languages():
    for table in (SENTENCES, PLACES, WORDS):
        for english, japanese in table.items():
            assert Counter(PLACE.findall(english)) == Counter(PLACE.findall(japanese)), english
            assert "{" not in PLACE.sub("", japanese), english
            numbers = [int(n) for n in PLACE.findall(english)]
            assert numbers == list(range(len(numbers))), english


def test_translations_are_japanese_sentences():
    for english, japanese in SENTENCES.items():
        assert JAPANESE.search(japanese), english
        assert "匿名化" not in japanese
        if english.endswith("."):
            assert japanese.endswith("。"), japanese
    assert all(JAPANESE.search(japanese) for japanese in (PLACES | WORDS).values())
    assert "非識別化" in SENTENCES["Scenario 2 needs the passages of the de-identified notes."]


def test_every_template_finds_its_own_sentence_and_no_other():
    for english, japanese in SENTENCES.items():
        assert in_language(sample(english), language="ja") == sample(japanese)


def test_words_that_the_source_puts_into_places_are_known():
    words = set(ARCHIVES.values())
    words |= {"easy", "hard", "recombined", "given", "general", "hospital", "attention", "hidden"}
    words |= {"members", "controls", "names", "passages", "demo names", "demo passages"}
    words |= {"notes", "register"}
    assert words <= WORDS.keys()
    assert phrase_in_language("3 entries of the vocabulary", language="ja") == "語彙の 3 項目"
    assert phrase_in_language("do_lower_case", language="ja") == "do_lower_case"


def test_english_is_as_it_was():
    error = AuditError("is unknown.", where="device", do="Choose auto or cpu.")
    assert error_text(error, language="en") == str(error)
    assert told(error.what, where=error.where, do=error.do, language="en") == str(error)
    assert in_language("is unknown.", language="en") == "is unknown."
    assert place_in_language("device", language="en") == "device"
    assert phrase_in_language("easy", language="en") == "easy"


@pytest.mark.parametrize(
    ("data", "told_ja"),
    [
        (b"", "氏名のリスト：ファイルが空です。"),
        (b"PK\x03\x04", "氏名のリスト：テキストではなく、zip の圧縮ファイルか Excel ブックです。"
         "ファイルを「CSV UTF-8」形式で保存し、もう一度お試しください。"),
        (b"first_name,last_name,is_member\nJane,Doe,perhaps\n", "氏名のリストの2行目：is_member"
         " の値を解釈できません。1（診療記録にある）、0（診療記録にない）、または空欄（不明）"
         "にしてください。"),
        (b"name,name2\nJane Doe,1,2\n", "氏名のリストの2行目：セルの数が 3 個で、見出しの 2 個"
         "と合いません。区切り文字を含むセルは、二重引用符で囲んでください。"),
    ],
)  # fmt: skip
def test_real_errors_of_the_reader(data, told_ja):
    with pytest.raises(AuditError) as caught:
        read_names(data)
    assert error_text(caught.value, language="ja") == told_ja
    assert in_language(str(caught.value), language="ja") == told_ja  # joined, as models' refusals


def test_remarks_on_rows():
    notes = read_names(b"name,colour\nJane Doe,1\n,2\nJane Doe,3\n").notes
    shown = [in_language(note.what, language="ja") for note in notes]
    assert "2 列目は読み込みません。" in shown
    assert "2行目と同じ氏名のため、除きました。" in shown
    notes = read_passages(b"text\nSeen [NAME] today.\nnobody\n", file_name="p.csv").notes
    assert [in_language(note.what, language="ja") for note in notes] == [
        "文章に氏名の全体が入る位置がないため、除きました。"
    ]


def test_remarks_of_the_corpus_builder(tmp_path):
    notes = tmp_path / "notes.csv"
    notes.write_bytes(b'patient_id,text\n1,seen\n2,""\n3,a,b\n4,"open\n5,seen\n')
    shown = [in_language(one.what, language="ja") for one in open_notes(notes).read()
             if isinstance(one, RowNote)]  # fmt: skip
    assert shown == [
        "診療記録の本文が空です。",
        "セルの数が 3 個で、見出しの 2 個と合いません。",
        "二重引用符が正しく閉じられていないか、行が 1 MB を超えているため、5行目を除きました。",
    ]
    with pytest.raises(AuditError) as caught:
        open_notes(notes, columns={"text": "words"})
    told_ja = "診療記録：text として指定された名前の列がありません。"
    assert error_text(caught.value, language="ja") == told_ja
    notes.write_bytes(b"PK\x03\x04rest")
    with pytest.raises(AuditError) as caught:
        open_notes(notes)
    assert error_text(caught.value, language="ja") == (
        "診療記録：zip の圧縮ファイルか Excel ブックです。先に展開するか、gzip を使ってください。"
    )
    with pytest.raises(AuditError) as caught:
        read_register(b"patient_id,first_name,last_name\n,Jane,Doe\n")
    assert error_text(caught.value, language="ja") == (
        "患者名簿：患者番号と氏名の両方がある行がありません。"
    )


def test_settings():
    with pytest.raises(AuditError) as caught:
        GenerationSettings(n_steps=0)
    assert error_text(caught.value, language="ja") == (
        "サンプリング回数：1 から 50000 までの整数にしてください。"
    )


def test_a_joined_error_is_taken_apart_at_the_known_sentence():
    refusal = AuditError(
        "The two models have different tokenizers: 12 entries of the vocabulary; do_lower_case; "
        "and 3 more.",
        where="a and b",
        do="Choose as general model the one that the hospital's training started from.",
    )
    expected = (
        "a と b：2つのモデルのトークナイザーが異なります：語彙の 12 項目、do_lower_case、ほか3件。"
        "汎用モデルには、病院での訓練の出発点になったモデルを選んでください。"
    )
    assert in_language(str(refusal), language="ja") == expected
    full = "/data: The disk is full. Free some space and start again: everything finished so far "
    shown = in_language(f"{full}is kept.", language="ja")
    assert shown.startswith("/data：ディスクがいっぱいです。")


def test_what_is_unknown_stays_as_it_is():
    for text in ("", "No such thing.", "a: b: c. d. e.", "Jane and John", "names"):
        assert in_language(text, language="ja") == text
    error = AuditError("Nobody knows.", where="names", do="Choose auto or cpu.")
    shown = error_text(error, language="ja")
    assert shown == "氏名のリスト：Nobody knows. auto か cpu を選んでください。"


def test_values_stay_as_they_are_whatever_they_hold():
    text = 'The tensor "{0}\\1{9:word}</b>" has the shape [1]; config.json promises [2].'
    shown = in_language(text, language="ja")
    assert shown.startswith("テンソル「{0}\\1{9:word}</b>」の形は [1] ですが")


def test_a_place_is_never_empty():
    template = Template(("The file ", " is missing."), "")
    assert template.values("The file  is missing.") is None
    assert template.values("The file is missing.") is None
    assert template.values("The file a is missing.") == ("a",)
    assert Template(("a", "b", ""), "").values("axbyz") == ("x", "yz")


@pytest.mark.parametrize("piece", ["a: ", "x. ", "The tensor \"", "The models differ in shape (; ",
                                   ": x. : "])  # fmt: skip
def test_long_and_hostile_texts_are_cheap(piece):
    text = (piece * 4000)[:4000]
    begun = time.process_time()
    assert in_language(text, language="ja") == text
    assert time.process_time() - begun < 0.5


def test_the_reading_of_the_source_sees_what_is_wrong(tmp_path):
    code = (
        "_A = 'One thing.'\n"
        "def f(x, n):\n"
        "    why = 'is bad' if n else 'is worse'\n"
        "    raise AuditError(f'Row {n} {why}.', do=_A)\n"
        "def g(x):\n"
        "    raise AuditError(x.text)\n"
    )
    path = tmp_path / "made.py"
    path.write_text(code, encoding="utf-8")
    source = Source(path)
    calls = [call for call, called in source.calls() if called == "AuditError"]
    assert all(isinstance(call, ast.Call) for call in calls)
    first, second = sorted(calls, key=lambda call: call.lineno)
    assert source.texts(first.args[0], at=first) == ["Row \0 is bad.", "Row \0 is worse."]
    assert source.texts(first.keywords[0].value, at=first) == ["One thing."]
    assert source.texts(second.args[0], at=second) is None


def test_modules_left_out_are_imported_by_no_page():
    imported = set()
    for path in (REPOSITORY / "pages").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= {str(node.module), *names}
    paths = [path.relative_to(REPOSITORY) for path in (REPOSITORY / "audit").rglob("*.py")]
    left_out = {
        ".".join(path.with_suffix("").parts) for path in paths if COMMAND_LINE.fullmatch(str(path))
    }
    assert len(left_out) > 2
    assert "audit.notes.passages" in imported
    assert imported & left_out == set()
