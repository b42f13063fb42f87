"""The text that is released: source and replacements, placeholders, surrogates, moved dates."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.redact.release import MASK_CHAR, MODES, Release, is_placeholder
from audit.deid.redact.sexes import sex_of_given_name
from audit.errors import AuditError
from audit.notes.dates import find_era_year
from audit.notes.language import language_of
from audit.notes.spans import TYPES, Span, TaggedDocument, build_document
from audit.text import is_unspaced
from tests.deid.unseen_notes import clinical_sentences, marked
from tests.linear_time import assert_linear_time


@st.composite
def documents(draw: st.DrawFn) -> TaggedDocument:
    text = draw(st.text("山田a7\n ", min_size=1, max_size=25))
    spans = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        spans.append(Span(start, end, draw(st.sampled_from(TYPES))))
    return build_document("1", text=text, spans=spans)


@settings(max_examples=200)
@given(documents(), st.sampled_from(MODES))
def test_every_character_of_every_span_goes_and_every_other_stays(
    document: TaggedDocument, mode: str
) -> None:
    redacted = Release(mode=mode).redact(document)
    rebuilt, position = "", 0
    for replacement in redacted.replacements:
        rebuilt += document.text[position : replacement.start] + replacement.text
        assert redacted.text[replacement.new_start : replacement.new_end] == replacement.text
        position = replacement.end
    assert rebuilt + document.text[position:] == redacted.text
    removed = {
        i
        for replacement in redacted.replacements
        for i in range(replacement.start, replacement.end)
    }
    assert removed == {i for s in document.spans for i in range(s.start, s.end)}
    if mode == "mask":
        assert redacted.text == "".join(
            MASK_CHAR if i in removed and char != "\n" else char
            for i, char in enumerate(document.text)
        )


def test_overlapping_spans_are_one_stretch_named_after_the_longest_then_by_risk() -> None:
    spans = [Span(0, 4, "quasi_identifier"), Span(2, 6, "identifier"), Span(6, 7, "contact")]
    redacted = Release().redact(build_document("1", text="abcdefgh", spans=spans))
    assert redacted.text == "[NAME][CONTACT]h"
    assert redacted.replacements[0].labels == ("identifier", "quasi_identifier")
    longer = build_document("1", text="abcdefgh", spans=[*spans, Span(0, 8, "phone")])
    assert Release().redact(longer).text == "[PHONE]"


@pytest.mark.parametrize("piece", ["12 - ", "1-", "1 1-", "令和1 "])
def test_a_mark_of_many_numbers_takes_linear_time(piece: str) -> None:
    def redact(text: str) -> None:
        note = build_document("1", text=f"{text}x", spans=[Span(0, len(text) + 1, TYPES[0])])
        assert Release(mode="surrogate").redact(note).replacements

    assert_linear_time(redact, piece, 500)


def test_what_decides_a_release_is_in_its_key() -> None:
    assert Release(seed=4).decisive() == {"mode": "placeholder", "seed": None, "version": 6}
    surrogate = Release(mode="surrogate", seed=2).decisive()
    assert surrogate == {"mode": "surrogate", "seed": 2, "version": 6}
    release, second_release = Release(mode="surrogate"), Release(mode="surrogate")
    assert release.decisive() == second_release.decisive() and release != second_release, (
        "a key of its own each time"
    )
    linked = [
        linked_release.with_(is_linked=True).decisive()
        for linked_release in (release, second_release)
    ]
    assert linked[0] != linked[1]
    for wrong in ({"mode": "blur"}, {"seed": -1}, {"language": "en"}):
        with pytest.raises(AuditError):
            Release(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "language", "placeholder"),
    [
        ("Seen by ⟦I:Ann Lee⟧ on 4/11/2026.", "en", "[NAME]"),
        ("山田は受診した。 ⟦I:Ann Lee⟧", "ja", "【氏名】"),
        ("Der Patient ⟦I:Ann Lee⟧ wurde mit Fieber und Husten gebracht", "", "[NAME]"),
        ("El paciente ⟦I:Ann Lee⟧ con dolor en el pecho, no fuma", "", "[NAME]"),
        ("Пациент ⟦I:Ann Lee⟧ поступил с болью в груди", "", "[NAME]"),
        ("환자 ⟦I:Ann Lee⟧ 는 흉통으로 입원하였다", "", "[NAME]"),
    ],
)
def test_placeholders_are_in_the_language_of_the_note(
    text: str, language: str, placeholder: str
) -> None:
    document = marked(text)
    redacted = Release().redact(document)
    assert redacted.language == language_of(document.text) == language
    assert redacted.text == text.replace("⟦I:Ann Lee⟧", placeholder)


def test_a_key_is_seen_in_no_record_and_no_text_of_its_release() -> None:
    release = Release(mode="surrogate")
    assert release.key is not None
    for text in (repr(release), str(release), release.to_bytes().decode(), str(release.plain())):
        assert str(release.key.secret)[2:-1] not in text and release.key.secret.hex() not in text
    assert pickle.loads(pickle.dumps(release)) == release, "other processes tag with it"
    assert release.with_(is_linked=True).key == release.key
    assert Release(mode="mask").key is Release(mode="surrogate", seed=1).key is None
    reversible = [Release(mode="surrogate", seed=seed).is_reversible for seed in (0, 5)]
    assert all(reversible) and not release.is_reversible and not Release(seed=5).is_reversible


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        # Nothing of the truth is left beside what was drawn: letters, other digits, times of day.
        ("licence plate ⟦L:ABC 1234⟧", "ABC"),
        ("plate: ⟦L:品川 300 あ 12-34⟧", "品川"),
        ("MRN: ⟦L:Smith 1234⟧", "Smith"),
        ("MRN: ⟦L:12 ٣٤⟧", "٣٤"),
        ("MRN: ⟦L:1234 Müller⟧", "ller"),
        ("seen on ⟦Q:2024-05-03 14:37⟧", "14:37"),
        ("⟦Q:2024年5月3日 14:37⟧入院", "14:37"),
    ],
)
def test_no_part_of_a_mark_stays(text: str, stays: str) -> None:
    for seed in range(5):
        released = Release(mode="surrogate", seed=seed).redact(marked(text)).text
        assert stays not in released, released


def test_words_that_say_which_number_it_is_stay() -> None:
    for text, pattern in (
        ("call ⟦C:617-555-0101 ext. 42⟧", r"call [0-9]{3}-[0-9]{3}-[0-9]{4} ext\. [0-9]{2}"),
        ("電話 ⟦C:03-1234-5678 内線 12⟧", "電話 0[0-9]-[0-9]{4}-[0-9]{4} 内線 [0-9]{2}"),
    ):
        assert re.fullmatch(pattern, Release(mode="surrogate").redact(marked(text)).text)


ROWS = (Path(__file__).parent / "released.txt").read_text("utf-8").split("\n\n")


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_placeholders_say_what_stood_there_and_surrogates_have_its_form(row: str) -> None:
    """A note of one patient, its placeholders and its surrogates: what nothing tells has none."""
    text, placeholders, released = row.strip().split("\n")
    assert Release().redact(marked(text)).text == placeholders
    assert Release(mode="surrogate", seed=1).redact(marked(text)).text == released
    if released != placeholders:
        other_surrogates = {
            Release(mode="surrogate", seed=1).redact(marked(text, patient=patient)).text
            for patient in ("p2", "p3", "p4", None)
        }
        assert len({released, *other_surrogates}) > 2


def test_no_clinical_value_is_invented_whatever_a_tagger_calls_it() -> None:
    for sentence in clinical_sentences():
        for value in sentence.spans:
            for label in TYPES:
                note = TaggedDocument("1", sentence.text, (replace(value, label=label),))
                redacted = Release(mode="surrogate", seed=1).redact(note)
                assert is_placeholder(redacted.replacements[0].text), sentence.text[
                    value.start : value.end
                ]


@pytest.mark.parametrize(
    ("text", "is_japanese"),
    [
        ("Mrs. ⟦I:Nuñez⟧ rests.", False),
        ("Dr. ⟦I:José García Márquez⟧ rests.", False),
        ("Mr. ⟦I:Λεωνίδας Παππάς⟧ rests.", False),
        ("氏名：⟦I:佐藤真綾⟧さん、80歳の女性。", True),
    ],
)
def test_a_surrogate_name_is_of_the_script_of_the_name(text: str, is_japanese: bool) -> None:
    for name in moved(text, 3):
        assert name and is_unspaced(name) is is_japanese


def test_eras_at_their_borders() -> None:
    for day, era in (
        (date(2019, 5, 1), ("令和", "R", 1)),
        (date(2019, 4, 30), ("平成", "H", 31)),
        (date(1989, 1, 7), ("昭和", "S", 64)),
        (date(1926, 12, 24), ("大正", "T", 15)),
        (date(1912, 7, 29), ("明治", "M", 45)),
    ):
        assert find_era_year(day) == era
    with pytest.raises(ValueError, match="era"):
        find_era_year(date(1860, 1, 2))


FORMS = {
    "iso": "{y}-{m:02}-{d:02}",
    "us": "{m}/{d}/{y}",
    "us short": "{m:02}/{d:02}/{short:02}",
    "name": "{b} {d}, {y}",
    "slashes": "{y}/{m}/{d}",
    "packed": "{y}{m:02}{d:02}",
    "japanese": "{y}年{m}月{d}日",
    "era": "{era}{n}年{m}月{d}日",
    "letter": "{letter}{n}.{m}.{d}",
}


def plain(day: date, form: str) -> str:
    era, letter, n = find_era_year(day)
    return form.format(
        y=day.year,
        m=day.month,
        d=day.day,
        b=f"{day:%B}",
        short=day.year % 100,
        era=era,
        letter=letter,
        n=n,
    )


def day_in(text: str) -> date:
    return date(*map(int, re.findall(r"\d+", text)))


DAYS = st.dates(date(1950, 1, 1), date(2030, 12, 31))
# In a Japanese note three short numbers begin with the year.
LATE, ENGLISH = st.dates(date(1975, 1, 1), date(2060, 1, 1)), ("iso", "us", "us short", "name")
CASES = st.lists(
    st.tuples(DAYS, st.sampled_from([f for f in FORMS if f != "us short"])), min_size=2, max_size=5
) | st.lists(st.tuples(LATE, st.sampled_from(ENGLISH)), min_size=2, max_size=5)


def moved(text: str, seed: int) -> list[str]:
    """Return what took the place of the marks of a patient's note."""
    redacted = Release(mode="surrogate", seed=seed).redact(marked(text))
    return [replacement.text for replacement in redacted.replacements]


@pytest.mark.long
@settings(max_examples=200)
@given(CASES, st.integers(0, 99))
def test_intervals_order_validity_and_form_of_whole_dates_stay(
    dates: list[tuple[date, str]], seed: int
) -> None:
    written_dates = [plain(day, FORMS[form]) for day, form in dates]
    new = moved("".join(f"visit, on ⟦Q:{text}⟧ he came.\n" for text in written_dates), seed)

    def unpadded(texts: list[str]) -> list[str]:
        return [re.sub(r"\b0", "", text).replace("元", "1") for text in texts]

    moves = [
        weeks
        for weeks in range(43, 257)
        if unpadded(new)
        == unpadded([plain(day - timedelta(weeks=weeks), FORMS[form]) for day, form in dates])
    ]
    assert len(moves) == 1


@settings(max_examples=100)
@given(
    DAYS,
    st.lists(st.integers(-150, 150), min_size=1, max_size=4),
    st.integers(0, 99),
    st.sampled_from(["{m}/{d}", "{m}月{d}日", "{b} {d}"]),
)
def test_days_without_a_year_keep_their_distance_to_the_date_before(
    first: date, steps: list[int], seed: int, form: str
) -> None:
    days = [first + timedelta(days=step) for step in steps]
    start = plain(first, "{y}/{m}/{d}")
    text = "".join(f"on ⟦Q:{start}⟧ and on ⟦Q:{plain(day, form)}⟧ again\n" for day in days)
    new = moved(text, seed)
    bases = [day_in(text) for text in new[::2]]
    assert new[1::2] == [
        plain(base + (day - first), form) for base, day in zip(bases, days, strict=True)
    ]


@settings(max_examples=100)
@given(DAYS, DAYS, st.integers(0, 99))
def test_months_and_years_never_contradict_whole_dates(
    day: date, other_day: date, seed: int
) -> None:
    form = (
        "⟦Q:{0.year}年{0.month}月{0.day}日⟧入院、⟦Q:{1.year}年{1.month}月⟧発症、⟦Q:{1.year}年⟧手術"
    )
    new = moved(form.format(day, other_day), seed)
    full_date = day_in(new[0])
    year, month, alone = (int(number) for text in new[1:] for number in re.findall(r"\d+", text))
    month_before, month_after = (day.year, day.month), (other_day.year, other_day.month)
    order = (full_date.year, full_date.month), (year, month)
    assert (order[0] <= order[1]) if month_before <= month_after else (order[0] >= order[1])
    assert (month_before != month_after) or order[0] == order[1]
    assert alone == full_date.year if day.year == other_day.year else abs(alone - year) <= 1
    months = (year - full_date.year) * 12 + month - full_date.month
    assert abs(months - (other_day.year - day.year) * 12 - other_day.month + day.month) <= 1


def test_a_patient_moves_as_one_and_others_otherwise() -> None:
    def offset(doc_id: str, patient: str | None, day: str) -> int:
        note = TaggedDocument(doc_id, f"on {day}.", (Span(3, 13, "quasi_identifier"),), patient)
        new = Release(mode="surrogate", seed=1).redact(note).replacements[0].text
        return (date.fromisoformat(new) - date.fromisoformat(day)).days

    move = offset("1", "p1", "2024-05-03")
    assert move == offset("2", "p1", "2019-01-31") and -256 * 7 <= move <= -56 * 7
    assert offset("1", "q", "2024-05-03") != move
    alone = {offset(str(i), None, "2024-05-03") for i in range(30)}
    assert len(alone) > 20, "a note of unknown owner is a patient of its own"


@pytest.mark.parametrize(
    ("text", "sexes"),
    [
        # Relatives and doctors: a name of a list has the sex that it has there.
        ("She came with ⟦I:Jane Roe⟧, seen by Dr. ⟦I:Kevin Roe⟧, Mr. ⟦Q:Brian⟧ at home", "FMM"),
        ("⟦I:高橋健一⟧さん、妻 ⟦I:高橋美咲⟧さん、⟦Q:美咲⟧さん、⟦I:佐藤 陽子⟧先生", "MFFF"),
        # One that no list has: as the words of the note say of the patient.
        ("72-year-old woman, Mrs. ⟦I:Zyrabel Roe⟧. She rests.", "F"),
        ("72-year-old man, Mr. ⟦I:Zyrabel Roe⟧. He rests.", "M"),
        ("氏名：⟦I:高橋鷹乃丞⟧さん、80歳の男性。", "M"),
        ("氏名：⟦I:高橋鷹乃丞⟧さん、80歳の女性。", "F"),
    ],
)
def test_the_sex_of_a_given_name_stays(text: str, sexes: str) -> None:
    for seed in range(8):
        new = moved(text, seed)
        given_names = [name.split()[0] if name.isascii() else name for name in new]
        # Of a Japanese full name the given name is what is left behind some surname; some names
        # are of both sexes.
        names = [
            {sex_of_given_name(name[n:]) for n in range(4) if name[n:]} - {""}
            for name in given_names
        ]
        pairs = zip(sexes, names, strict=True)
        assert all(sex in sexes_of_name or not sexes_of_name for sex, sexes_of_name in pairs), new
