"""The place of a name in de-identified text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from audit.notes.placeholders import NameSlot, find_name_slot

FIRST_LAST, LAST_FIRST, FULL = ("first", "last"), ("last", "first"), ("full",)


def test_names_are_found_in_their_written_order() -> None:
    for names, roles, separator in (
        (("[NAME]", "[氏名]", "［氏名］"), FULL, ""),
        (("[FIRST] [LAST]", "[FIRST_NAME]\n[LAST NAME]", "[FIRST] [MIDDLE] [LAST]",
          "[FIRST] J. [LAST]", "[**Known firstname 123**] [**Known lastname 456**]",
          "[**First Name4 (NamePattern1) **] [**Initials (NamePattern4) **] "
          "[**Last Name (NamePattern1) 9**]",
          "[**Known firstname **] [**Name Initial (MD) 5**]. [**Known lastname **]",
          "[**Male First Name (un) 1**] [**Doctor Last Name 3**]",
          "[**Female First Name (un) 1**]\n[**Name (STitle) 3**]",
          "[**Name10 (NameIs) 1**] [**Name11 (NameIs) 2**]", "[**Name6 (MD) **] [**Name7 (MD) **]",
          "[**Known firstname 1**] [**Name5 (PTitle) 2**]"), FIRST_LAST, " "),
        (("[LAST] ,[FIRST]", "[**Known lastname 4**], [**Known firstname 1**]"), LAST_FIRST, ", "),
        (("[姓][名]",), LAST_FIRST, ""),
        (("[姓]　[名]",), LAST_FIRST, "\u3000"),
    ):  # fmt: skip
        for name in names:
            found = find_name_slot(f"Seen: {name} is a 40 year old man.")
            assert found == NameSlot("Seen: ", roles, separator, " is a 40 year old man."), name


def test_texts_without_a_full_name_have_no_place() -> None:
    for text in (
        "no placeholder", "Mr. [LAST] is well", "[FIRST] and [LAST]", "[2177] [name] is text",
        "seen by [FIRST]. [LAST] said", "[LAST] [DATE] [FIRST]", "[FIRST]" + " " * 30 + "[LAST]",
        "[**Hospital1 18**] [**Known lastname 3**]", "[**2177-12-5**] ___",
        "Dr. [**Name (NI)**] and [**Initials (NamePattern4) **] [**Last Name (un) 1**]",
    ):  # fmt: skip
        assert find_name_slot(text) is None, text


def test_other_placeholders_go_and_lines_become_spaces() -> None:
    for text, left, right in (
        ("On [DATE], [NAME] left [**Hospital1 18**] .", "On , ", " left ."),
        ("[NAME][SUFFIX] is old", "", " is old"),
        ("from [DATE][NAME] on", "from ", " on"),
        ("[NAME] and [NAME], [FIRST] [LAST]", "", " and ,"),
        ("a\n\n[NAME]\r\nb ___ c  d\n", "a ", " b c  d"),
        ("see [note 3] [NAME] [sic] [**Last Name (un) **]", "see [note 3] ", " [sic]"),
        ("[CLS] [MASK] [NAME] x [SEP]", "", " x"),
        ("[年齢]歳、[氏名]は[病院名]を受診[別紙]", "歳、", "はを受診[別紙]"),
        ("a\0b [NAME] \0 c", "ab ", "  c"),
    ):
        found = find_name_slot(text)
        assert found is not None and (found.left, found.right) == (left, right)


WORDS = st.lists(
    st.sampled_from(["a", "is", "[DATE]", "[**Hospital1 18**]", "___", "[sic]", "\n", ".", "  "]),
    max_size=8,
).map(" ".join)


@given(WORDS, WORDS, st.sampled_from(["[NAME]", "[FIRST] [LAST]", "[姓][名]"]))
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
