"""Rules for numbers: record numbers, and public numbers by their cues and check digits."""

from __future__ import annotations

import re

from audit.deid.identity_numbers import insurer_check_digit, my_number_check_digit
from audit.deid.labels import LINKAGE_CODE, PERSONAL_ID_CODE
from audit.deid.rule import CUED, LOOSE, SHAPED, Rule, rule

_CODE = r"(?P<value>(?=[A-Za-z-]{0,6}[0-9])[A-Za-z0-9](?:[A-Za-z0-9]|[-/](?=[A-Za-z0-9])){2,23})"
_LINK = r"(?: ?(?:番号|No\.?|NO\.?|№|#|ID|Number|number|NUMBER))?(?: ?(?:は|が|[:=;#】]))? {0,3}"
_AFTER_CODE = r"(?![A-Za-z0-9]|年|月|歳|回|例|人|名|mg|ml|%)"
_NOT_IN_NUMBER = r"(?<![0-9A-Za-z.-])"
_NO_NUMBER_AFTER = r"(?![0-9A-Za-z-]|\.[0-9])"


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())


def _is_my_number(match: re.Match[str]) -> bool:
    digits = _digits(match["value"])
    return len(set(digits)) > 1 and my_number_check_digit(digits[:-1]) == digits[-1]


def _is_insurer(match: re.Match[str]) -> bool:
    digits = _digits(match["value"])
    return len(set(digits)) > 1 and insurer_check_digit(digits[:-1]) == digits[-1]


def _has_four_digits(match: re.Match[str]) -> bool:
    return len(_digits(match["value"])) >= 4


PUBLIC_NUMBERS: tuple[Rule, ...] = (
    rule(
        "My Number after a cue",
        PERSONAL_ID_CODE,
        rf"(?:マイナンバー|個人番号|[Mm]y ?[Nn]umber){_LINK}"
        rf"(?P<value>[0-9]{{4}}[- ]?[0-9]{{4}}[- ]?[0-9]{{4}}){_NO_NUMBER_AFTER}",
        weight=CUED + 1,
    ),
    rule(
        "My Number by its check digit",
        PERSONAL_ID_CODE,
        rf"{_NOT_IN_NUMBER}(?P<value>[0-9]{{4}}([- ]?)[0-9]{{4}}\2[0-9]{{4}}){_NO_NUMBER_AFTER}",
        weight=LOOSE,
        check=_is_my_number,
    ),
    rule(
        "ja public number after a cue",
        PERSONAL_ID_CODE,
        rf"(?:基礎年金|年金|年金手帳|住民票コード|住民票|運転免許証?|免許証|パスポート|旅券"
        rf"|在留カード"
        rf"|被保険者証?|保険証|保険者|公費負担者|公費受給者|受給者証?|介護保険|後期高齢者医療)"
        rf"(?:の?(?:記号)?[・ ]?)(?:番号)?{_LINK}{_CODE}{_AFTER_CODE}",
        weight=CUED + 1,
        check=_has_four_digits,
    ),
    rule(
        "ja insurance symbol and number",
        PERSONAL_ID_CODE,
        r"記号[・ ]?番号? ?[:=]? ?(?P<value>[0-9A-Za-z一-鿿]{1,10} ?[-・] ?[0-9]{1,8})",
        weight=CUED,
        signs="記号",
    ),
    rule(
        "insurer by its check digit",
        PERSONAL_ID_CODE,
        rf"(?:保険|協会けんぽ|国保|社保|組合).{{0,8}}?(?<![0-9])(?P<value>[0-9]{{8}}"
        rf"|[0-9]{{6}}){_NO_NUMBER_AFTER}",
        check=_is_insurer,
        signs="保険 協会けんぽ 国保 社保 組合",
    ),
    rule(
        "SSN",
        PERSONAL_ID_CODE,
        r"(?<![0-9A-Za-z-])(?!000|666)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![0-9A-Za-z-])",
    ),
    rule(
        "en public number after a cue",
        PERSONAL_ID_CODE,
        r"\b(?:SSN|social security|passport|driver'?s? licen[sc]e|licen[sc]e|medicare|medicaid"
        r"|health ?plan|insurance|policy|member|beneficiary|NHS|DEA)"
        rf"(?: (?:id|no\.?|number|card))?{_LINK}{_CODE}{_AFTER_CODE}",
        weight=CUED + 1,
        check=_has_four_digits,
        ignore_case=True,
    ),
    rule(
        "Japanese passport or residence card",
        PERSONAL_ID_CODE,
        rf"{_NOT_IN_NUMBER}(?P<value>[A-Z]{{2}}[0-9]{{8}}[A-Z]{{2}}){_NO_NUMBER_AFTER}",
    ),
)

RECORD_NUMBERS: tuple[Rule, ...] = (
    rule(
        "ja record number",
        LINKAGE_CODE,
        r"(?:カルテ|診察券|診療録|病歴|病録|患者|登録|検体|受付|入院|外来|標本|病理|検査"
        r"|オーダー?|依頼|処方(?:箋|せん)?"
        r"|レセプト|紹介状|症例|整理|管理|症例登録|受診者|職員)"
        rf"(?: ?(?:番号|コード|No\.?|NO\.?|№|#|ID|ＩＤ)) ?(?:は|が"
        rf"|[:=#】])? {{0,3}}{_CODE}{_AFTER_CODE}",
        weight=CUED,
    ),
    rule(
        "ID",
        LINKAGE_CODE,
        rf"(?<![A-Za-z])(?:ID|Id)(?: ?(?:番号|No\.?|#"
        rf"|Number))? ?[:=#]? {{0,2}}{_CODE}{_AFTER_CODE}",
        weight=CUED,
        check=_has_four_digits,
    ),
    rule(
        "en record number",
        LINKAGE_CODE,
        r"\b(?:MRN?|MR ?#|medical records?|med ?rec|record|account|acct|accession|chart"
        r"|patient|pt|case"
        r"|specimen|unit|hospital|job|dictation|document|encounter|visit|study|serial|lot|csn"
        r"|fin|report)"
        rf"(?: ?(?:id|no\.|no|num|number|#|nbr))+ ?(?:is|[:=#】])? {{0,3}}{_CODE}{_AFTER_CODE}",
        weight=CUED,
        ignore_case=True,
    ),
    rule(
        "MRN",
        LINKAGE_CODE,
        rf"\b(?:MRN|CSN|FIN|HAR) ?[:=#]? {{0,3}}{_CODE}{_AFTER_CODE}",
        weight=CUED,
        check=_has_four_digits,
    ),
    rule(
        "number behind a number sign",
        LINKAGE_CODE,
        r"#[:]? ?(?P<value>[0-9]{5,12}(?:-[0-9]{1,6})?)(?![0-9])",
        weight=SHAPED,
        signs="#",
    ),
)

RULES = (*PUBLIC_NUMBERS, *RECORD_NUMBERS)
