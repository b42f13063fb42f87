"""What stood at a mark: a name, a date, an age, a place, a number; and whether anything says so.

The types of a tagger are wider than that, and may be wrong: what is told by a rule or by a cue in
the note can be invented anew, all else only be named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from audit.corpora.mention_words import JAPANESE_SURNAMES, NO_NAMES
from audit.deid.documents import Span
from audit.deid.labels import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
)
from audit.deid.moved_dates import Written, is_day_first, written_dates
from audit.deid.rule import HAN, HIRA, KATA, folded_text
from audit.deid.rule_tagger import RuleTagger
from audit.deid.rules_clinical import without_clinical

NAME, DATE, AGE, SEX, PLACE, ID, CONTACT_DETAIL, OTHER = (
    "name", "date", "age", "sex", "place", "id", "contact", "other",
)  # fmt: skip
KINDS = (NAME, DATE, AGE, SEX, PLACE, ID, CONTACT_DETAIL, OTHER)
N_AROUND = 40
_MIN_DIGITS = 3
_KIND_OF_LABEL = {
    IDENTIFIER: NAME, PERSONAL_ID_CODE: ID, LINKAGE_CODE: ID, CONTACT: CONTACT_DETAIL,
}  # fmt: skip
_GROUPS = {
    NAME: "names", DATE: "dates", AGE: "dates", SEX: "dates", PLACE: "hospitals contact",
    ID: "numbers", CONTACT_DETAIL: "contact",
}  # fmt: skip
_AGE = re.compile(
    r"(?i)[0-9〇一二三四五六七八九十] ?(?:[歳才]|代(?!謝|表)|[- ]?y(?:ea)?rs?[- ]?(?:old"
    r"|of age)|[- ]?y\.?/?o\b)"
    r"|\bold\b|生後|日齢|月齢"
)
_AGE_AFTER = re.compile(
    r"(?i)\s?(?:[歳才]|代(?!謝|表)|[- ]?y(?:ea)?rs?[- ]?(?:old|of age)|[- ]?y\.?/?o\b)"
)
_AGE_BEFORE = re.compile(r"(?i)(?:年齢|年令|\bage[d]?)\s?[:=は]?\s?$")
_HOSPITAL = re.compile(
    r"(?:病院|医院|クリニック|診療所|センター|大学)|\b(?:Hospital|Clinic|Center|Centre|University"
    r"|Infirmary|Hospice|Nursing Home)\b"
)
_NAME = re.compile(rf"[{HAN}{KATA}{HIRA}ｦ-ﾟ ・=]+|[A-Z][A-Za-z.,'\- ]*")
_SEX = re.compile(r"(?i)[男女][性児子]?|male|female|m|f|man|woman|boy|girl|lady|gentleman")
_POSTCODE = re.compile(r"[0-9]{3}-[0-9]{4}|[0-9]{5}(?:-[0-9]{4})?")
_PLACE = re.compile(
    rf"[{HAN}{KATA}{HIRA}][都道府県市区町村郡島]|[0-9].*[A-Z][a-z]+|, [A-Z]{{2}}\b|丁目|番地"
    rf"|号室|病棟|[0-9]階"
)
_TITLE_AFTER = re.compile(
    r" ?(?:さん|様|さま|氏|殿|君|くん|ちゃん|先生|医師|看護師|Dr|Ns|PT|OT|ST|MSW|,? ?(?:M\.?D"
    r"|R\.?N|PA-C)\b)"
)
_TITLE_BEFORE = re.compile(
    r"(?:\b(?:Dr|Mr|Mrs|Ms|Miss|Mx|Prof|Nurse|Doctor|Professor)\.? |(?:氏名|患者名?|担当医?"
    r"|主治医|記載者?|医師"
    r"|[Nn]ame|NAME|Patient|Attending|Surgeon|Physician) ?[:=】] ?)$"
)
_WEEKDAY = re.compile(
    r"(?i)(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:days?)?|[月火水木金土日]曜日?"
)
_ID_BEFORE = re.compile(
    r"(?i)(?:\b(?:MRN?|ID|no|num(?:ber)?|nbr|record|account|acct|accession|chart|case|serial"
    r"|lot|SSN"
    r"|licen[sc]e|policy|member|badge|visit|encounter|CSN|FIN|plate|registration"
    r"|passport)\b\.?|#|№|番号"
    r"|記号|カルテ|診察券|被?保険者?証?|免許証?|コード|受付|検体|整理|登録)[\s:=#.(はが】-]*$"
)
_CONTACT_BEFORE = re.compile(
    r"(?i)(?:電話|携帯|連絡先|直通|自宅|FAX|ファックス|TEL|℡|☎|内線|PHS|ピッチ|\bphone"
    r"|\bpager|\bcell|\bbeeper"
    r"|\bmobile|\be-?mail|\bext(?:ension)?|\bx)(?:番号|\.|\s|[:=#(は])*$"
)
_TELEPHONE = re.compile(r"\+?[0-9(][0-9() -]{8,18}[0-9]")
_VISIT = (
    r"入院|退院|受診|来院|初診|再診|手術|施行|転院|紹介|救急|搬送|検査|採血|撮影|外来|分娩"
    r"|出生|死亡|永眠|転倒"
    r"|受傷|発症|開始|内視鏡|造影|CT|MRI|予約|訪問|面談|終了|中止|変更|術後"
)
_DAY_AFTER = re.compile(
    rf" ?(?:[(][月火水木金土日][)]|(?:に|より|から|の|まで)? ?(?:{_VISIT})"
    rf"|[-~〜] ?[0-9]{{1,2}}/[0-9])"
)
_DAY_BEFORE = re.compile(
    r"(?:(?i:\b(?:on|since|until|till|dated?|from|through|by|DOS|DOB|seen|admitted|discharged"
    r"|admission"
    r"|discharge|visit|surgery|due|next|last))|日付|日時|年月日|次回|前回|入院|退院|受診|再診"
    r"|初診|手術|予約|採血"
    r"|[0-9]/[0-9]{1,2} ?[-~〜])\s?[:=]?\s?$|(?:^|\n)[・*-]?\s?$"
)
_YEAR_BEFORE = re.compile(
    r"(?i)\b(?:in|since|from|until|of|year|during|to|early|late|mid|around|circa|by|and"
    r"|before|after)[ -]$"
)
_DAY_WORD = re.compile(r"[年月日]|[A-Za-z]{3}")


@dataclass(frozen=True)
class Mark:
    """A stretch of a note that is to be replaced: its place, its type, what stands around it."""

    start: int
    end: int
    label: str
    text: str
    before: str
    after: str

    @property
    def folded(self) -> str:
        """The text as rules read it."""
        return folded_text(self.text)


def mark_of(text: str, *, start: int, end: int, label: str) -> Mark:
    """Return the mark of a place in a note."""
    before, after = text[max(0, start - N_AROUND) : start], text[end : end + N_AROUND]
    return Mark(start, end, label, text[start:end], folded_text(before), folded_text(after))


def kind_of(mark: Mark) -> str:
    """Return which of `KINDS` stood there, by its type and form; "" for a label unknown here."""
    folded = mark.folded
    if mark.label != QUASI_IDENTIFIER:
        return _KIND_OF_LABEL.get(mark.label, "")
    if _HOSPITAL.search(folded):
        return PLACE
    if _is_age(mark):
        return AGE
    if _dates(folded, is_japanese=True, day_first=False) or _dates(
        folded, is_japanese=False, day_first=False
    ):
        return DATE
    if _WEEKDAY.fullmatch(folded):
        return DATE
    if _SEX.fullmatch(folded):
        return SEX
    if _POSTCODE.fullmatch(folded) or _PLACE.search(folded):
        return PLACE
    return NAME if _NAME.fullmatch(folded) and (folded[0].isascii() or _is_named(mark)) else OTHER


@dataclass(frozen=True)
class Stood:
    """What stood at a mark.

    Attributes
    ----------
    kind
        One of `KINDS`, or "".
    is_told
        Whether a rule or a cue in the note says so.
    dates
        Of which a mark consists that is a date.
    """

    kind: str
    is_told: bool
    dates: tuple[Written, ...] = ()


def what_stood(text: str, marks: Sequence[Mark], *, is_japanese: bool) -> tuple[Stood, ...]:
    """Return what stood at the marks of a note."""
    folded = folded_text(text)
    found = [(group, one.span) for group, one in RuleTagger().found(folded)] if marks else []
    day_first = not is_japanese and is_day_first([mark.folded for mark in marks])
    spans = [Span(mark.start, mark.end, mark.label) for mark in marks]
    personal = set(without_clinical(text, spans))
    answers = []
    for mark, span in zip(marks, spans, strict=True):
        kind = kind_of(mark)
        if span not in personal:
            answers.append(Stood(kind, is_told=False))
            continue
        groups = {
            group for group, one in found
            if 2 * (min(one.end, mark.end) - max(one.start, mark.start)) > mark.end - mark.start
        }  # fmt: skip
        is_told = not groups.isdisjoint(_GROUPS.get(kind, "").split())
        dates: tuple[Written, ...] = ()
        if kind == DATE:
            dates = _dates(mark.folded, is_japanese=is_japanese, day_first=day_first)
            is_told = bool(dates) and (is_told or _is_told_date(mark, dates))
        answers.append(Stood(kind, is_told or _is_told(mark, kind), dates))
    return tuple(answers)


def _is_told(mark: Mark, kind: str) -> bool:
    if kind == NAME:
        return bool(_NAME.fullmatch(mark.folded)) and _is_named(mark)
    if kind == AGE:
        return _is_age(mark)
    if kind == ID:
        return bool(_ID_BEFORE.search(mark.before)) and any(c.isdigit() for c in mark.folded)
    if kind == CONTACT_DETAIL:
        has_digits = sum(char.isdigit() for char in mark.folded) >= _MIN_DIGITS
        is_cued = has_digits and bool(_CONTACT_BEFORE.search(mark.before))
        return "@" in mark.text or is_cued or bool(_TELEPHONE.fullmatch(mark.folded))
    if kind == PLACE:
        return bool(_HOSPITAL.search(mark.folded)) or mark.before.endswith("〒")
    return False


def _is_age(mark: Mark) -> bool:
    folded = mark.folded
    if _AGE.search(folded):
        return True
    is_number = bool(re.fullmatch(r"[0-9]{1,3}", folded))
    return is_number and bool(_AGE_AFTER.match(mark.after) or _AGE_BEFORE.search(mark.before))


def _is_told_date(mark: Mark, dates: Sequence[Written]) -> bool:
    is_by_form = all(_is_by_form(one) for one in dates)
    if is_by_form or _DAY_AFTER.match(mark.after) or _DAY_BEFORE.search(mark.before):
        return True
    is_year = len(dates) == 1 and dates[0].month is None and dates[0].year is not None
    return is_year and bool(_YEAR_BEFORE.search(mark.before))


def _is_by_form(one: Written) -> bool:
    """Whether the form alone tells that this is a date."""
    has_word = bool(_DAY_WORD.search(one.match[0]))
    is_day_alone = one.year is None and one.month is None
    if not has_word and re.fullmatch(r"[0-9]([-./][0-9])+", one.match[0]):
        return False  # 4-4-4 may be a dose
    return (has_word and not is_day_alone) or (one.year is not None and one.month is not None)


def _dates(folded: str, *, is_japanese: bool, day_first: bool) -> tuple[Written, ...]:
    return written_dates(folded, is_japanese=is_japanese, is_day_first=day_first)


def _is_named(mark: Mark) -> bool:
    """Whether a title or a list of names says that this is somebody's name."""
    if _TITLE_AFTER.match(mark.after) or _TITLE_BEFORE.search(mark.before):
        return True
    name = mark.folded
    if not name.isascii():
        bare = name.replace(" ", "")
        return (
            any(bare[:n] in JAPANESE_SURNAMES for n in (2, 3) if n <= len(bare)) or bare in _given()
        )
    parts = [part.strip(".") for part in re.split(r"[ ,]+", name) if part]
    if any(part.lower() in NO_NAMES for part in parts):
        return False
    return any(part in _english() for part in parts) and all(part[:1].isupper() for part in parts)


@cache
def _given() -> frozenset[str]:
    from audit.deid.japanese_names import given_names

    tables = (given_names(sex, time) for sex in "MF" for time in ("old", "middle", "young"))
    return frozenset(
        part.written for table in tables for part in table.names if len(part.written) > 1
    )


@cache
def _english() -> frozenset[str]:
    from faker.providers.person.en_US import Provider

    return frozenset((*Provider.first_names, *Provider.last_names))
