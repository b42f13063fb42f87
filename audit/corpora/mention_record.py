"""What the mention finder returns: a mention of a person, or why a subject is no mention."""

from __future__ import annotations

from dataclasses import dataclass

ENGLISH_FORMS = (
    "is_a",
    "is_old",
    "appositive",
    "comma",
    "bracket",
    "dash",
    "direct",
    "after_comma",
    "after_named",
    "after_direct",
    "after_bracket",
)
"""By what stands between name and age: "X is a 70-year-old", "X is 70 years old", "X, a 70-year-
old", "X, 70 yo M", "X (70 yo M)", "X - 70 yo M", "X 70 yo M"; and with the age first: "man, X,",
"man named X", "70-year-old X", "man (X)"."""
JAPANESE_FORMS = ("ja_is", "ja_bracket", "ja_comma", "ja_after", "ja_fields")
"""Xは70歳男性, X(70歳,男性), X、70歳、男性, 70歳男性のX, 氏名:X 年齢:70歳."""
FORMS = ENGLISH_FORMS + JAPANESE_FORMS

REASONS = ("generic", "relative", "stub", "none", "unclear")
"""Why an age has no mention: the subject is "the patient" or "he"; a relative; a letter or "ABC" in
a name's place; there is no subject beside it; a subject that was not understood."""


@dataclass(frozen=True)
class Mention:
    """One person's name, or the placeholder in its place, beside an age.

    Attributes
    ----------
    start, end
        Offsets in the text: from the name or the age, whichever is first, to the end of the other
        or of the word for the sex.
    name_start, name_end
        Offsets of the name with all between its first and last part, the title left out.
    first, last
        As written, without middle names and suffixes; either may be empty (a name of one part is
        the last name). Both are empty for placeholders.
    roles
        What is written, in order: ("first", "last"), ("last", "first"), ("last",), ("first",) or
        ("full",) for one placeholder that stands for the whole name.
    title
        "mr", "dr" ...; "" where there is none.
    age_years
        NaN where the age is a placeholder.
    sex
        "male", "female" or "" where it is not said.
    form
        One of `FORMS`.
    is_placeholder
        Whether the name is a placeholder.
    """

    start: int
    end: int
    name_start: int
    name_end: int
    first: str
    last: str
    roles: tuple[str, ...]
    title: str
    age_years: float
    sex: str
    form: str
    is_placeholder: bool

    def __post_init__(self) -> None:
        """Check offsets and form."""
        if not 0 <= self.start <= self.name_start < self.name_end <= self.end:
            raise ValueError("the name does not lie within the mention")
        if self.form not in FORMS:
            raise ValueError(f"unknown form {self.form!r}")

    @property
    def is_full(self) -> bool:
        """Whether first and last name, or a placeholder for the whole name, are there."""
        return self.roles == ("full",) or len(self.roles) == 2


@dataclass(frozen=True)
class Unnamed:
    """An age with no name beside it.

    `start` and `end` are the offsets of the age; `subject_start` and `subject_end` those of a
    generic subject before it ("The patient"), equal where there is none. `reason` is one of
    `REASONS`.
    """

    start: int
    end: int
    subject_start: int
    subject_end: int
    reason: str
