"""The place of a name in de-identified text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.notes.placeholders import NameSlot, find_name_slot

FIRST_LAST, LAST_FIRST, FULL = ("first", "last"), ("last", "first"), ("full",)


@pytest.mark.parametrize(
    ("name", "roles", "separator"),
    [
        ("[NAME]", FULL, ""),
        ("[氏名]", FULL, ""),
        ("［氏名］", FULL, ""),
        ("[FIRST] [LAST]", FIRST_LAST, " "),
        ("[FIRST_NAME]\n[LAST NAME]", FIRST_LAST, " "),
        ("[LAST], [FIRST]", LAST_FIRST, ", "),
        ("[LAST] ,[FIRST]", LAST_FIRST, ", "),
        ("[姓][名]", LAST_FIRST, ""),
        ("[姓]　[名]", LAST_FIRST, "\u3000"),
        ("[FIRST] [MIDDLE] [LAST]", FIRST_LAST, " "),
        ("[FIRST] J. [LAST]", FIRST_LAST, " "),
        ("[**Known firstname 123**] [**Known lastname 456**]", FIRST_LAST, " "),
        ("[**Known lastname 456**], [**Known firstname 123**]", LAST_FIRST, ", "),
        (
            "[**First Name8 (NamePattern2) **] [**Last Name (NamePattern1) 12**]",
            FIRST_LAST,
            " ",
        ),
        (
            "[**First Name4 (NamePattern1) **] [**Initials (NamePattern4) **] "
            "[**Last Name (NamePattern1) 9**]",
            FIRST_LAST,
            " ",
        ),
        (
            "[**Known firstname **] [**Name Initial (MD) 5**]. [**Known lastname **]",
            FIRST_LAST,
            " ",
        ),
        ("[**Male First Name (un) 1**] [**Doctor Last Name 3**]", FIRST_LAST, " "),
        ("[**Female First Name (un) 1**]\n[**Name (STitle) 3**]", FIRST_LAST, " "),
        ("[**Name10 (NameIs) 1**] [**Name11 (NameIs) 2**]", FIRST_LAST, " "),
        ("[**Name6 (MD) **] [**Name7 (MD) **]", FIRST_LAST, " "),
        ("[**Known firstname 1**] [**Name5 (PTitle) 2**]", FIRST_LAST, " "),
    ],
)
def test_names_are_found_in_their_written_order(
    name: str, roles: tuple[str, ...], separator: str
) -> None:
    found = find_name_slot(f"Seen: {name} is a 40 year old man.")
    assert found == NameSlot("Seen: ", roles, separator, " is a 40 year old man.")


@pytest.mark.parametrize(
    "text",
    [
        "no placeholder",
        "Mr. [LAST] is well",
        "[FIRST] and [LAST]",
        "seen by [FIRST]. [LAST] said",
        "[LAST] [DATE] [FIRST]",
        "[FIRST]" + " " * 30 + "[LAST]",
        "[name] is text",
        "[**Hospital1 18**] [**Known lastname 3**]",
        "Dr. [**Name (NI)**] and [**Initials (NamePattern4) **] [**Last Name (un) 1**]",
        "[**2177-12-5**] ___",
    ],
)
def test_texts_without_a_full_name_have_no_place(text: str) -> None:
    assert find_name_slot(text) is None


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("[DATE] [NAME] is well", "", " is well"),
        ("On [DATE], [NAME] left [**Hospital1 18**] .", "On , ", " left ."),
        ("[NAME] [**Age over 90 **] is old", "", " is old"),
        ("[NAME][SUFFIX] is old", "", " is old"),
        ("from [DATE][NAME] on", "from ", " on"),
        ("[NAME] and [NAME], [FIRST] [LAST]", "", " and ,"),
        ("a\n\n[NAME]\r\nb ___ c  d\n", "a ", " b c  d"),
        ("see [note 3] [NAME] [sic] [**Last Name (un) **]", "see [note 3] ", " [sic]"),
        ("[CLS] [MASK] [NAME] x [SEP]", "", " x"),
        ("[年齢]歳、[氏名]は[病院名]を受診[別紙]", "歳、", "はを受診[別紙]"),
        ("a\0b [NAME] \0 c", "ab ", "  c"),
    ],
)
def test_other_placeholders_go_and_lines_become_spaces(text: str, left: str, right: str) -> None:
    found = find_name_slot(text)
    assert found is not None
    assert (found.left, found.right) == (left, right)


WORDS = st.lists(
    st.sampled_from(["a", "is", "[DATE]", "[**Hospital1 18**]", "___", "[sic]", "\n", ".", "  "]),
    max_size=8,
).map(" ".join)


@given(WORDS, WORDS, st.sampled_from(["[NAME]", "[FIRST] [LAST]", "[姓][名]"]))
@settings(max_examples=150, deadline=None)
def test_every_word_of_text_is_kept_and_every_placeholder_goes(
    before: str, after: str, name: str
) -> None:
    found = find_name_slot(f"{before} {name} {after}")
    assert found is not None

    def words(text: str) -> list[str]:
        return [word for word in text.split() if word.islower() or word in (".", "[sic]")]

    assert found.left.split() == words(before)
    assert found.right.split() == words(after)
    assert "\n" not in found.left + found.right


@pytest.mark.parametrize("filler", [" ", "[", "[**", "_", "\0", "[A", "[FIRST]"])
def test_long_hostile_texts_take_no_time(filler: str) -> None:
    text = filler * (100_000 // len(filler)) + "[NAME]"
    start = time.perf_counter()
    find_name_slot(text)
    assert time.perf_counter() - start < 3
