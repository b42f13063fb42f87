"""Kinds of masks: what may have stood at a mask, by the names of typed placeholders.

`{{Patient Name}}`, `{{Physician Surname 3}}`, `{{Date|2151-8-4}}`, `{{Age|=70歳}}`:
a name of the list below, a number that tells two of a kind apart, the sex of a person, and after
`|` what is known of the value; after `|=` the value itself. Japanese names are understood too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from audit.deid.labels import (
    CONTACT,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
)
from audit.deid.name_variants import label_of

PATIENT, FAMILY, STAFF, OTHER = "patient", "family", "staff", "other"
_ROLE_NAMES = {
    PATIENT: "Patient",
    FAMILY: "Family Member",
    STAFF: "Physician",
    OTHER: "Other Person",
}
_FORM_NAMES = {
    "full": "Name",
    "reversed": "Name Reversed",
    "surname": "Surname",
    "given": "Given Name",
    "initials": "Initials",
    "kana": "Name Kana",
    "half_kana": "Name Half Kana",
    "hiragana": "Name Hiragana",
    "romaji": "Name Romaji",
}


@dataclass(frozen=True, slots=True)
class MaskKind:
    """What stood at a mask.

    Attributes
    ----------
    name
        As it is written in a typed placeholder.
    value
        Which value of an identity, or form of a name.
    role
        Of names: whose; "" for what is no name.
    label
        Of the five types; "" for what is none of them (a title before a name).
    """

    name: str
    value: str
    role: str
    label: str


_OTHERS = {
    QUASI_IDENTIFIER: "Birth Date:birth_date; Admission Date:admission_date; Discharge Date:"
    "discharge_date; Examination Date:examination_date; Date:date; Date Range:date_range; Age:age; "
    "Sex:sex; Hospital Name:hospital; Ward:ward; Address:address; City:city; State:state; Country:"
    "country; Postal Code:postcode; PO Box:po_box; Company:company; School:school; Occupation:job; "
    "Holiday:holiday; Ethnicity:ethnicity",
    CONTACT: "Telephone:telephone; Fax:telephone; Email:email; URL:url",
    LINKAGE_CODE: "Record Number:record_number; Identifier:identifier; Serial Number:serial_number",
    PERSONAL_ID_CODE: "My Number:my_number; Pension Number:pension; Insurer Number:insurer; "
    "Insured Number:insured; Resident Code:resident; Licence Number:licence; "
    "Passport Number:passport",
    "": "Title:prefix",
}


def _all_kinds() -> Iterator[MaskKind]:
    for role, who in _ROLE_NAMES.items():
        for form, what in _FORM_NAMES.items():
            label = label_of("joined" if form == "full" else form)
            yield MaskKind(f"{who} {what}", form, role, label)
    for label, names in _OTHERS.items():
        for one in names.split(";"):
            name, value = one.strip().split(":")
            yield MaskKind(name, value, "", label)


KINDS: dict[str, MaskKind] = {kind.name: kind for kind in _all_kinds()}
"""By their names."""

# Other names of the same kinds, in the form of `_folded`.
_SAME = {
    "Patient Name": "name, full name, patient, patient full name, typed name, 氏名, "
    "患者氏名, 患者名",
    "Patient Surname": "patient last name, last name, surname, 患者姓, 姓",
    "Patient Given Name": "patient first name, first name, given name, 患者名前, 名",
    "Patient Initials": "initials, イニシャル, 患者イニシャル",
    "Patient Name Kana": "kana, 氏名カナ, 患者氏名カナ, フリガナ, 患者カナ",
    "Family Member Name": "family name, relative name, relative, family member, 家族氏名, 家族名",
    "Physician Name": "doctor name, doctor, physician, attending, attending name, staff name, "
    "provider name, 医師氏名, 医師名, 担当医, 主治医",
    "Physician Surname": "doctor last name, physician last name, doctor surname, 医師姓",
    "Other Person Name": "person name, other name, その他氏名",
    "Birth Date": "date of birth, birthdate, birthday, dob, 生年月日",
    "Admission Date": "date of admission, 入院日",
    "Discharge Date": "date of discharge, 退院日",
    "Examination Date": "test date, exam date, date of examination, 検査日",
    "Date": "日付, 年月日",
    "Age": "年齢",
    "Sex": "gender, 性別",
    "Hospital Name": "hospital, clinic, facility, facility name, 病院名, 医療機関名, 施設名",
    "Ward": "unit, hospital ward, 病棟",
    "Address": "street address, 住所",
    "City": "location, place, 市町村, 地名",
    "Postal Code": "zip, zip code, postcode, 郵便番号",
    "Company": "employer, 勤務先, 会社名",
    "School": "university, 学校名, 学歴",
    "Occupation": "job, profession, 職業, 職歴",
    "Telephone": "phone, phone number, telephone number, pager, 電話番号, 連絡先",
    "Email": "e-mail, email address, mail, メールアドレス",
    "Record Number": "medical record number, mrn, record, patient id, "
    "カルテ番号, 患者番号, 患者id, 診療録番号",
    "Identifier": "id, id number, 識別番号",
    "My Number": "social security number, ssn, 個人番号, マイナンバー",
    "Pension Number": "basic pension number, 基礎年金番号",
    "Insurer Number": "insurance number, health plan number, 保険者番号",
    "Insured Number": "被保険者番号, 記号番号",
    "Resident Code": "住民票コード",
    "Licence Number": "license number, driving licence, driver's license, 運転免許証番号",
    "Passport Number": "passport, 旅券番号",
}  # fmt: skip


def _folded(name: str) -> str:
    text = unicodedata.normalize("NFKC", name).casefold().replace("_", " ")
    return " ".join(text.split())


_BY_NAME = {_folded(name): kind for name, kind in KINDS.items()}
_BY_NAME |= {
    _folded(other): KINDS[name] for name, others in _SAME.items() for other in others.split(",")
}


def known_kind(name: str) -> MaskKind | None:
    """Return the kind of a name, English or Japanese, in any case; None where there is none."""
    return KINDS.get(name) or _BY_NAME.get(_folded(name))


def kind_for(value: str, *, role: str = "") -> MaskKind | None:
    """Return the kind of a value, and of a role if it is a name's."""
    return _BY_VALUE.get((value, role))


_BY_VALUE: dict[tuple[str, str], MaskKind] = {}
for _kind in KINDS.values():
    _BY_VALUE.setdefault((_kind.value, _kind.role), _kind)


@dataclass(frozen=True, slots=True)
class Mark:
    """A typed placeholder in a text.

    Attributes
    ----------
    start, stop
        In characters of the text.
    kind
        None where the name is not known.
    number
        Tells two of a kind apart; "" where there is none.
    sex
        "M", "F" or "".
    content
        What is known of the value; None where nothing is. With a `=` before it, it is the value.
    """

    start: int
    stop: int
    kind: MaskKind | None
    number: str
    sex: str
    content: str | None


_MARK = re.compile(
    r"\{\{\s*(?P<name>[^{}|]{1,60}?)(?:\s+(?P<number>\d{1,20}))?(?:\s+(?P<sex>[MF]))?\s*"
    r"(?:\|(?P<content>[^{}]{0,200}))?\}\}"
)


def has_marks(text: str) -> bool:
    """Whether a text holds a typed placeholder of a known name."""
    return "{{" in text and any(mark.kind is not None for mark in find_marks(text))


def find_marks(text: str) -> tuple[Mark, ...]:
    """Return the typed placeholders of a text, in order, those of unknown names too."""
    if "{{" not in text:
        return ()
    return tuple(
        Mark(
            *match.span(),
            known_kind(match["name"]),
            match["number"] or "",
            match["sex"] or "",
            match["content"],
        )
        for match in _MARK.finditer(text)
    )


def mark_text(
    kind: MaskKind, *, number: str = "", sex: str = "", content: str | None = None
) -> str:
    """Return a typed placeholder as text.

    Raises
    ------
    ValueError
        If what is known of the value holds braces, or is longer than 200 characters.
    """
    if content is not None and (len(content) > 200 or "{" in content or "}" in content):
        raise ValueError("this content cannot be written into a placeholder")
    words = " ".join(part for part in (kind.name, number, sex) if part)
    return "{{" + words + ("" if content is None else f"|{content}") + "}}"
