"""Surrogates: every value lies where it is said to lie, and identities are consistent."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.build import with_surrogates
from audit.corpus.truth import NoteTruth, Place
from audit.names.people import Facts
from audit.notes.read import Note
from tests.corpora.make_notes import CATEGORIES, DATES, every_category

FACTS = Facts("F", date(2177, 1, 1), date(2178, 1, 1))


def made(
    text: str, *, patient: str = "1", stay: str = "7", seed: int = 1, row: int = 2
) -> NoteTruth:
    note = Note("n", patient, stay, "", "2177-12-05", text, row)
    return with_surrogates(note, facts=FACTS, seed=seed)


def placed(note: NoteTruth) -> tuple[Place, ...]:
    return note.inserted or ()


def check_places(source: str, new: NoteTruth) -> None:
    """The new text is the source with each placeholder replaced, and nothing else."""
    rebuilt, done, length = [], 0, 0
    places = sorted([*placed(new), *new.left], key=lambda place: place.start)
    for place in places:
        between = source[done : place.source_start]
        value = new.private[place.start : place.stop]
        assert place.start == length + len(between)
        rebuilt += [between, value]
        length = place.stop
        done = place.source_stop
    assert "".join([*rebuilt, source[done:]]) == new.private
    for put in placed(new):
        assert new.private[put.start : put.stop] == put.value != ""
        assert source[put.source_start : put.source_stop].startswith("[**")
    for left in new.left:
        assert new.private[left.start : left.stop] == source[left.source_start : left.source_stop]


def test_every_category_is_replaced() -> None:
    source = every_category()
    new = made(source)
    check_places(source, new)
    assert "[**" not in new.private
    assert len(placed(new)) == 2 * len(CATEGORIES) + len(DATES)
    assert new.left == ()


def test_an_unknown_category_stays_and_is_listed() -> None:
    source = "é [**Spaceship 4**] [**Known lastname 1**] [** **] [**open"
    new = made(source)
    check_places(source, new)
    assert [left.category for left in new.left] == ["Spaceship", ""]
    assert "[**Spaceship 4**]" in new.private
    assert new.n_malformed == 1


pieces = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["Dr. ", "Mr. ", ", ", "\r\n", "[**", "**]", "___", " is a 42 year old "]),
    st.builds(
        "[**{} {}**]".format,
        st.sampled_from([*CATEGORIES, "Spaceship"]),
        st.sampled_from(["", "1", "23"]),
    ),
    st.sampled_from([f"[**{form}**]" for form in DATES]),
)


@given(st.lists(pieces, max_size=14).map("".join), st.integers(0, 3))
def test_every_value_lies_where_it_is_said_to(source: str, seed: int) -> None:
    new = made(source, seed=seed)
    check_places(source, new)
    assert made(source, seed=seed) == new


PATIENT = "[**Known firstname 1**] [**Initial (NamePattern1) **]. [**Known lastname 2**]"


def test_a_patient_is_the_same_person_in_all_notes() -> None:
    one = made(PATIENT + " is a 42 year old")
    other = made("Mrs. [**Known lastname 99**] [**Hospital 3**]", stay="8", row=9)
    assert placed(one)[2].value == placed(other)[0].value
    assert {place.identity for place in placed(one)} == {"patient:1"}
    assert {place.role for place in placed(one)} == {"patient"}
    assert made(PATIENT, patient="2").private != made(PATIENT).private
    assert made(PATIENT, seed=2).private != made(PATIENT).private


def test_an_initial_before_a_full_stop_has_none_of_its_own() -> None:
    text = made(PATIENT).private
    assert ".." not in text
    assert text.count(".") == 1
    assert made("[**Name Initial (MD) 1**] x").private[1] == "."


def test_staff_are_the_same_within_an_admission_only() -> None:
    text = (
        "Dr. [**Last Name (STitle) 44**] and [**Doctor Last Name 44**], [**Doctor Last Name 45**]"
    )
    new = made(text)
    assert placed(new)[0].value == placed(new)[1].value
    assert {placed(new)[0].identity, placed(new)[2].identity} == {
        "staff:patient:1/7/44",
        "staff:patient:1/7/45",
    }
    assert made(text, row=5).private == new.private
    names = {placed(made(text, stay=str(stay)))[0].value for stay in range(20)}
    assert len(names) > 10


def test_parts_without_a_number_belong_to_the_name_beside_them() -> None:
    new = made("[**First Name8 (NamePattern2) **] [**Doctor Last Name 45**], MD")
    assert {place.identity for place in placed(new)} == {"staff:patient:1/7/45"}
    assert {place.group for place in placed(new)} == {0}


def test_the_sex_of_the_facts_is_the_sex_of_the_name() -> None:
    from faker.providers.person.en_US import Provider

    for patient in range(40):
        first = made("[**Known firstname 1**]", patient=str(patient)).private
        assert first in Provider.first_names_female


def test_dates_of_a_patient_move_together() -> None:
    new = made("[**2177-12-5**] [**2177-12-25**]")
    days = [date(*map(int, place.value.split("-"))) for place in placed(new)]
    assert (days[1] - days[0]).days == 20
    assert 2000 <= days[0].year <= 2019


def test_blanks_of_mimic_iv() -> None:
    source = (
        "Name:  ___  Unit No:   ___\nDate of Birth:  ___\nMs. ___ is a ___ year old. Foo ___ bar"
    )
    note = Note("n", "1", "7", "", "2177-12-05", source, 2)
    new = with_surrogates(note, facts=FACTS, seed=1, has_blanks=True)
    kinds = [place.kind for place in placed(new)]
    assert kinds == ["full", "medical_record_number", "date", "last", "age"]
    full, _, birth, last, age = (place.value for place in placed(new))
    assert full.endswith(last)
    assert 17 <= int(age) <= 91
    assert date.fromisoformat(birth).year < 2003
    assert [left.category for left in new.left] == ["___"]
    assert new.private.endswith("Foo ___ bar")
    assert with_surrogates(note, facts=FACTS, seed=1).private == source
