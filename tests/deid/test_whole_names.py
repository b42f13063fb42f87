"""No name is released in part, however it is written: accents, marks, what nobody sees inside it.

Names are Faker's, of twenty languages, in sentences as they stand in notes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from faker import Faker
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.find.borders import extend_to_words, tag_whole_words
from audit.deid.find.rules import RuleTagger
from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import load_tagger
from audit.deid.redact.release import Release
from audit.deid.sets.tagged_sets import tag_text
from audit.deid.sets.tagging import tag_notes
from audit.notes.folding import fold_text
from audit.notes.mentions import find_mentions
from audit.notes.read import open_notes
from audit.notes.spans import Span
from audit.patients.register import read_register

LOCALES = (
    "de_DE",
    "fr_FR",
    "es_ES",
    "pl_PL",
    "cs_CZ",
    "tr_TR",
    "sv_SE",
    "da_DK",
    "hu_HU",
    "ro_RO",
    "pt_BR",
    "it_IT",
    "nl_NL",
    "hr_HR",
    "vi_VN",
    "lt_LT",
    "lv_LV",
    "fi_FI",
    "no_NO",
    "sk_SK",
)
TITLED = (0, 2, 6)
FRAMES = (
    "Mrs. {last} was seen today.",
    "Patient {first} {last} was admitted.",
    "Discussed in Dr. {last}'s clinic.",
    "{first} {last}, a 45-year-old man, came in.",
    "Plan agreed.\nSigned,\n{first} {last}, MD",
    "Name: {first} {last}",
    "Mr. {first} {last}’s wound is clean.",
    "Her husband {first} called.",
    "Dictated by: {first} {last}",
    "{first} {last} is a 62 year old woman with COPD.",
)
VIETNAMESE = ["Nguyễn", "Trần", "Lê", "Phạm", "Hoàng", "Huỳnh", "Võ", "Đặng", "Bùi", "Đỗ"]
VIETNAMESE_GIVEN = ["Ánh", "Bảo", "Cường", "Dũng", "Đức", "Hạnh", "Hiếu", "Lộc", "Mỹ", "Tuyết"]
Name = tuple[str, str]


@cache
def names_of(locale: str, n: int = 100) -> tuple[Name, ...]:
    """Return names of a locale, those with a letter beyond ASCII first."""
    if locale == "vi_VN":  # of which Faker has twenty
        return tuple(zip(VIETNAMESE_GIVEN * 10, sorted(VIETNAMESE * 10), strict=True))[:n]
    faker = Faker(locale)
    faker.seed_instance(11)
    names = dict.fromkeys((faker.first_name(), faker.last_name()) for _ in range(60 * n))
    return tuple(sorted(names, key=lambda name: "".join(name).isascii()))[:n]


def notes_with(names: Sequence[Name], *, form: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Yield notes of ten sentences, of ten names, and the names in each with their frames.

    Over ten notes each of ten names is in every frame.
    """
    for start in range(0, len(names), 10):
        for turn in range(10):
            lines, inside = [], []
            for place, (first, last) in enumerate(names[start : start + 10]):
                number = (place + turn) % 10
                line = FRAMES[number].format(first=first, last=last)
                lines.append(unicodedata.normalize(form, line))
                parts = [
                    part
                    for part, slot in ((first, "{first}"), (last, "{last}"))
                    if slot in FRAMES[number]
                ]
                name = unicodedata.normalize(form, " ".join(parts))
                inside.append((number, name))
            yield "\n\n".join(lines), inside


def parts_covered(text: str, spans: Sequence[Span], start: int, end: int) -> list[set[bool]]:
    """Return for each word of a place whether its characters are in marks."""
    marked = {place for span in spans for place in range(span.start, span.end)}
    return [
        {
            place in marked
            for place in range(start + word.start(), start + word.end())
            if text[place] not in ".,"
        }
        for word in re.finditer(r"\S+", text[start:end])
    ]


def shares(tagger: str, names: Sequence[Name], *, form: str) -> tuple[Counter[int], list[str]]:
    """Return how many names are marked whole in each frame, and the names that are cut."""
    notes = [*notes_with(names, form=form)]
    n_whole, cut_names = Counter[int](), []
    tags = tag_and_check(load_tagger(tagger, device="cpu"), [text for text, _ in notes])
    for (text, inside), spans in zip(notes, tags, strict=True):
        start = 0
        for number, name in inside:
            start = text.index(name, start)
            words = parts_covered(text, spans, start, start + len(name))
            start += len(name)
            n_whole[number] += all(word == {True} for word in words)
            if {True, False} in words:
                cut_names.append(name)
        assert all(text[span.end - 2 : span.end] not in ("'s", "’s") for span in spans)
    return n_whole, cut_names


@pytest.mark.long
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("tagger", ["rules", "default"])
def test_no_name_of_twenty_languages_is_released_in_part(tagger: str, form: str) -> None:
    names = [name for locale in LOCALES for name in names_of(locale)]
    assert len(names) == 2_000 and sum(not "".join(name).isascii() for name in names) > 1_200
    n_whole, cut_names = shares(tagger, names, form=form)
    assert cut_names == []
    n_plain, _ = shares(tagger, names_of("en_US"), form=form)
    for frame in TITLED:
        assert n_whole[frame] / len(names) >= n_plain[frame] / 100 - 0.005


@pytest.mark.parametrize(
    "name",
    [
        "Nuñez",
        "Lefèvre",
        "Brontë",
        "Müller",
        "O’Connor",
        "D'Angelo",
        "Łukasz",
        "Đorđević",
        "Jean-Luc",
        "Nguyễn",
        "İbrahim",
        "Kaʻiulani",
        "Ẹ̀bùn",
        "Ó Briain",
        "van der Berg",
        "Gal·la",
        "Smith‐Jones",
        "Őry-Ágh",
        "Þór",
        "Ĳssel",
        "MacÉoin",
        "Hawaiʼi",
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_title_is_followed_by_a_whole_name(name: str, form: str) -> None:
    normal_name = unicodedata.normalize(form, name)
    for text, rest in (
        (f"Mrs. {normal_name} came.", "Mrs. [NAME] came."),
        (f"Dr. {normal_name}'s note", "Dr. [NAME]'s note"),
        (f"Mr. {normal_name}’s pain", "Mr. [NAME]’s pain"),
    ):
        released = tag_text(text, tagger=load_tagger("default"), release=Release()).released
        assert released == rest


class Cutting:
    """Finds a part of a word, wherever it stands."""

    name, digest, labels = "cutting", "0", ("identifier",)

    def __init__(self, part: str) -> None:
        self.part = part

    def tag(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Return where the part stands."""
        return [
            tuple(Span(*match.span(), "identifier") for match in re.finditer(self.part, text))
            for text in texts
        ]


@pytest.mark.parametrize(
    ("text", "part", "word"),
    [
        ("Mrs. Nuñez's", "Nu", "Nuñez"),
        ("Mrs. Nuñez’s", "ez", "Nuñez"),
        ("for Smith-Jones,", "Jones", "Smith-Jones"),
        ("an O'Connor.", "nn", "O'Connor"),
        ("г-н Достоевский был", "стоев", "Достоевский"),
        ("ο Παπαδόπουλος", "Παπ", "Παπαδόπουλος"),
        ("Հայկ Պետրոսյան,", "րոս", "Պետրոսյան"),
        ("გიორგი მაისურაძე", "სურ", "მაისურაძე"),
        ("דָּוִד בֶּן־גוּרְיוֹן.", "גוּ", "בֶּן־גוּרְיוֹן"),
        ("السيد مُحَمَّد", "حَم", "مُحَمَّد"),
        ("श्री राजेन्द्र जी", "जेन", "राजेन्द्र"),
        ("환자 김철수 님", "철", "김철수"),
        ("患者田中さん", "田中", "田中"),
        ("ハナコさん", "ハナ", "ハナコ"),
        ("นายสมชาย", "สม", "สม"),
        ("さんタ\u3099ト", "[タダ]", "ダト"),
        ("70yoM Smith", "70", "70"),
        ("the Joneses' car", "one", "Joneses"),
    ],
)
def test_a_find_of_any_script_is_a_whole_word(text: str, part: str, word: str) -> None:
    tag = Cutting(part).tag
    (spans,) = tag_whole_words([text], tag)
    words = [fold_text(text[span.start : span.end]).text for span in spans]
    assert words and set(words) == {unicodedata.normalize("NFC", word)}
    # Also of a tagger that keeps no promise: nothing is released in part.
    released = tag_text(text, tagger=Cutting(part), release=Release()).document.spans
    assert {text[span.start : span.end] for span in released} >= {
        text[span.start : span.end] for span in spans
    }


@settings(max_examples=200)
@given(st.text("ab1é\u0301-'s .山タ\u200b", max_size=16), st.data())
def test_finds_stay_apart_and_inside_and_grow_over_no_blank(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = tuple(Span(a, b, "x") for a, b in zip(cuts[::2], cuts[1::2], strict=False) if a < b)
    word_spans = extend_to_words(text, spans)
    assert extend_to_words(text, word_spans) == word_spans
    for source_span, span, next_span in zip(
        spans, word_spans, [*word_spans[1:], None], strict=False
    ):
        assert span.start <= source_span.start < source_span.end <= span.end <= len(text)
        assert next_span is None or span.end <= next_span.start
        grown = text[span.start : source_span.start] + text[source_span.end : span.end]
        assert not re.search(r"\s", grown)


HIDDEN = ("\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u200e", "\u034f")
KANA_FRAMES = ("氏名：{}　70歳", "患者は{}さん、70歳男性。", "主治医：{}", "{}様が来院。")


def accented_parts(n: int) -> list[str]:
    parts = dict.fromkeys(
        part
        for locale in LOCALES
        for name in names_of(locale)
        for part in name
        if unicodedata.normalize("NFD", part) != part
    )
    assert len(parts) >= n
    return [*parts][:: len(parts) // n][:n]


def kana_names(n: int) -> list[str]:
    faker = Faker("ja_JP")
    faker.seed_instance(5)
    drawn_names = (f"{faker.last_kana_name()} {faker.first_kana_name()}" for _ in range(20 * n))
    names = dict.fromkeys(
        name for name in drawn_names if unicodedata.normalize("NFD", name) != name
    )
    assert len(names) >= n
    return [*names][:n]


def with_hidden(name: str, seed: int) -> str:
    """Return a name with something that is not shown behind each letter but the last."""
    return "".join(
        char + HIDDEN[(place + seed) % len(HIDDEN)] * (place < len(name) - 1)
        for place, char in enumerate(name)
    )


def list_differing_texts(tagger: str, plain: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the texts whose spans differ from those of the same texts in plain form."""
    loaded = load_tagger(tagger, device="cpu")
    clean_tags, tags = tag_and_check(loaded, plain), tag_and_check(loaded, texts)
    different = []
    for text, clean, spans, clean_spans in zip(texts, plain, tags, clean_tags, strict=True):
        folded = fold_text(text)
        assert folded.text == clean
        if folded.folded_spans(spans) != clean_spans:
            different.append(text)
        note = tag_text(text, tagger=loaded, release=Release())
        rest, end = "", 0  # nothing outside marks is changed
        for replacement in note.replacements:
            rest += text[end : replacement.start] + replacement.text
            end = replacement.end
        assert note.released == rest + text[end:]
    return different


@pytest.mark.long
@pytest.mark.parametrize("tagger", ["rules", "default"])
def test_decomposed_and_hidden_characters_change_no_find(tagger: str) -> None:
    parts = accented_parts(300)
    plain = [FRAMES[(0, 5, 7)[n % 3]].format(first=part, last=part) for n, part in enumerate(parts)]
    assert (
        list_differing_texts(tagger, plain, [unicodedata.normalize("NFD", text) for text in plain])
        == []
    )
    hidden = [
        text.replace(part, with_hidden(part, n))
        for n, (text, part) in enumerate(zip(plain, parts, strict=True))
    ]
    assert list_differing_texts(tagger, plain, hidden) == []


@pytest.mark.long
@pytest.mark.parametrize("tagger", ["rules", "default"])
def test_voicing_marks_apart_change_no_find(tagger: str) -> None:
    names = kana_names(240)
    plain = [KANA_FRAMES[n % 4].format(name) for n, name in enumerate(names)]
    apart = [unicodedata.normalize("NFD", text) for text in plain]
    assert list_differing_texts(tagger, plain, apart) == []
    for marks in ("゛゜", "ﾞﾟ"):
        table = str.maketrans("\u3099\u309a", marks)
        assert list_differing_texts(tagger, plain, [text.translate(table) for text in apart]) == []


@pytest.mark.long
@pytest.mark.parametrize("has_register", [True, False])
def test_what_is_not_shown_hides_no_name_from_a_register(
    has_register: bool, tmp_path: Path
) -> None:
    """Notes in small letters without a cue: the register alone, or the note itself, knows names."""
    parts = accented_parts(120)
    people = [*zip(parts[::2], parts[1::2], strict=True)]
    forms = ("NFC", "NFD")
    rows, lines = ["patient_id,first_name,last_name"], []
    for n, (first, last) in enumerate(people):
        form, register_form = forms[n % 2], forms[1 - n % 2]
        cells = ",".join(unicodedata.normalize(register_form, part) for part in (first, last))
        rows.append(f"p{n},{cells}")
        plain_name, hidden_name = (
            f"{first} {last}",
            f"{with_hidden(first, n)} {with_hidden(last, n)}",
        )
        again = unicodedata.normalize(form, last)
        text = f"👩\u200d⚕\ufe0f {hidden_name} ok.\nकर्\u200dम. then {again} left"
        if not has_register:
            text = f"Patient Name: {plain_name}\n{text}"
        lines.append(json.dumps({"note_id": str(n), "patient_id": f"p{n}", "text": text}))
    (tmp_path / "register.csv").write_text("\n".join(rows) + "\n", "utf-8")
    (tmp_path / "notes.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    register = read_register(tmp_path / "register.csv") if has_register else None
    tagger = Cutting("(?!)") if has_register else RuleTagger()
    tag_notes(
        open_notes(tmp_path / "notes.jsonl"),
        tagger=tagger,
        folder=tmp_path / "out",
        release=Release(),
        register=register,
    )
    released = (tmp_path / "out" / "redacted.jsonl").read_text("utf-8").splitlines()
    assert len(released) == len(people)
    for line, (first, last) in zip(released, people, strict=True):
        text = json.loads(line)["text"]
        left = unicodedata.normalize("NFD", fold_text(text).text)
        assert not any(unicodedata.normalize("NFD", part) in left for part in (first, last))
        assert "👩\u200d⚕\ufe0f [" in text and "कर्\u200dम. then [" in text  # as it was


def test_mentions_are_found_in_folded_text_with_offsets_of_the_text_itself() -> None:
    for plain in ("Zoë Brontë is a 70-year-old woman.", "加藤ダイゴは70歳の男性。"):
        (plain_mention,) = find_mentions(plain)
        hidden_text = with_hidden(unicodedata.normalize("NFD", plain), 0)
        (mention,) = find_mentions(hidden_text)
        named = (plain_mention.first, plain_mention.last, plain_mention.form)
        assert (mention.first, mention.last, mention.form) == named
        name = fold_text(hidden_text[mention.name_start : mention.name_end]).text
        assert name == plain[plain_mention.name_start : plain_mention.name_end]
        assert (
            fold_text(hidden_text[mention.start : mention.end]).text
            == (plain[plain_mention.start : plain_mention.end])
        )
