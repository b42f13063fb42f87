"""Invented Japanese places and telephones: addresses, postal codes, hospitals, wards, schools.

Comes in: a drawn number of 64 bits. Goes out: a text. Prefecture, town and code are drawn apart, so
that hardly any address exists; how common each is in life is not known here.
"""

from __future__ import annotations

import functools

from audit.corpora.identity_values import value_of
from audit.deid.name_variants import JAPANESE

_HOSPITALS = (
    *("市民病院", "総合病院", "中央病院", "記念病院", "医療センター", "赤十字病院"),
    *("クリニック", "内科医院", "整形外科", "大学病院", "診療所", "リハビリテーション病院"),
)
_WARDS = ("東", "西", "南", "北", "中央", "新館")
_SCHOOLS = ("小学校", "中学校", "高等学校", "大学", "専門学校")
_COMPANIES = ("工業", "商事", "建設", "運輸", "食品", "電機", "製作所", "不動産")
_JOBS = (
    *("会社員", "農業", "自営業", "公務員", "教員", "看護師", "運転手", "大工", "調理師", "事務員"),
    *(
        "漁業",
        "介護職員",
        "銀行員",
        "美容師",
        "溶接工",
        "警備員",
        "主婦",
        "学生",
        "元教員",
        "元会社員",
    ),
)
_ENGLISH_JOBS = (
    *("teacher", "carpenter", "nurse", "accountant", "truck driver", "farmer", "engineer"),
    *("cook", "lawyer", "librarian", "plumber", "postal worker", "clerk", "electrician"),
)
_AREA_CODES = ("03", "06", "011", "022", "025", "043", "045", "052", "075", "078", "082", "092")


def japanese_address(number: int) -> str:
    """Return an address without its postal code."""
    number, town = divmod(number, 1 << 16)
    block = f"{number % 9 + 1}-{number // 9 % 30 + 1}-{number // 270 % 20 + 1}"
    return _area(number // 5400) + _of("towns", town) + block


def japanese_postcode(number: int) -> str:
    """Return a postal code: 123-4567, not beginning with 000."""
    return f"{number % 990 + 10:03d}-{number // 990 % 10_000:04d}"


def japanese_city(number: int) -> str:
    """Return the name of a city or ward."""
    return _of("cities", number)


def prefecture(number: int) -> str:
    """Return the name of a prefecture."""
    return _of("prefectures", number)


def country(number: int) -> str:
    """Return the Japanese name of a country."""
    return _of("countries", number)


def japanese_hospital(number: int) -> str:
    """Return the name of a hospital or clinic."""
    number, kind = divmod(number, len(_HOSPITALS))
    name = _HOSPITALS[kind]
    return (_of("cities", number) if kind < 6 else _of("towns", number)) + name


def ward(number: int, *, locale: str) -> str:
    """Return the name of a ward."""
    if locale != JAPANESE:
        return value_of("ward", number)
    return f"{_WARDS[number % len(_WARDS)]}{number // 8 % 9 + 1}病棟"


def school(number: int, *, locale: str) -> str:
    """Return the name of a school."""
    if locale != JAPANESE:
        return value_of("university", number)
    return _of("towns", number // 8) + _SCHOOLS[number % len(_SCHOOLS)]


def company(number: int, *, locale: str) -> str:
    """Return the name of a company."""
    if locale != JAPANESE:
        return value_of("company", number)
    return f"株式会社{_of('towns', number // 8)}{_COMPANIES[number % len(_COMPANIES)]}"


def job(number: int, *, locale: str) -> str:
    """Return what somebody does for a living."""
    jobs = _JOBS if locale == JAPANESE else _ENGLISH_JOBS
    return jobs[number % len(jobs)]


def telephone(number: int, *, locale: str) -> str:
    """Return a telephone number: of a mobile or a fixed line, in the country's form."""
    if locale != JAPANESE:
        return value_of("phone", number)
    number, kind = divmod(number, 5)
    last = f"{number % 10_000:04d}"
    if kind < 3:
        return f"0{(70, 80, 90)[kind]}-{number // 10_000 % 9000 + 1000}-{last}"
    code = _AREA_CODES[number // 10_000 % len(_AREA_CODES)]
    digits = 10 - len(code) - 4
    local = number // 200_000 % (9 * 10 ** (digits - 1)) + 10 ** (digits - 1)
    return f"{code}-{local}-{last}"


def _area(number: int) -> str:
    return _of("prefectures", number) + _of("cities", number // 64)


def _of(table: str, number: int) -> str:
    values = _table(table)
    return values[number % len(values)]


@functools.cache
def _table(name: str) -> tuple[str, ...]:
    from faker.providers.address.ja_JP import Provider

    return tuple(getattr(Provider, name))
