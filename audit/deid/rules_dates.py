"""Rules for dates and ages, Japanese and English: quasi-identifiers (paper 2.2)."""

from __future__ import annotations

import re

from audit.deid.labels import QUASI_IDENTIFIER as QUASI
from audit.deid.rule import CUED, KANJI_NUMBER, LOOSE, Rule, rule

_K = KANJI_NUMBER
_ERA = r"(?:明治|大正|昭和|平成|令和|[MTSHR]|[明大昭平令])"
_N2 = rf"(?:[0-9]{{1,2}}|[{_K}]{{1,3}})"
_YEAR4 = rf"(?:(?:1[89]|20)[0-9]{{2}}|[{_K}]{{4}})"
_ERA_YEAR = rf"(?:{_ERA}\.? ?(?:[0-9]{{1,2}}|[{_K}]{{1,3}}|元))"
_BLANK = " ?"
_REST = rf"(?:{_BLANK}{_N2}{_BLANK}月(?:{_BLANK}{_N2}{_BLANK}日)?)?"
_NO_DIGIT = rf"(?<![0-9.{_K}])"
_NO_GUIDE = r"(?!度?(?:版|ガイドライン|分類|基準|改訂|診療|規約))"
_VISIT = (
    r"入院|退院|受診|来院|初診|再診|再入院|緊急|手術|施行|転院|紹介|救急|搬送|検査|採血|撮影"
    r"|外来|分娩"
    r"|出生|死亡|永眠|転倒|受傷|発症|開始|内視鏡|造影|CT|MRI|予約|訪問"
)
_MONTHS = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?"
    r"(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_LONG_MONTHS = (
    r"(?:January|February|March|April|June|July|August|September|October|November|December)"
)
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?:1[89]|20)[0-9]{2}"
_YEARS = r"(?:years?|yrs?|y)"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ONES = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_WORD = rf"(?:(?:{_TENS})(?:[- ](?:{_ONES}))?|{_TEENS}|{_ONES})"


def _is_day(match: re.Match[str]) -> bool:
    """Whether the numbers of a match can be a date, in one of the orders of year, month and day."""
    numbers = [int(number) for number in re.findall(r"[0-9]+", match.group())]
    if len(numbers) == 3 and (numbers[0] > 31 or match.group()[0].isalpha()):
        numbers = numbers[1:]
    if len(numbers) == 3:
        numbers = numbers[:2]
    if len(numbers) != 2:
        return False
    small, large = sorted(numbers)
    return 1 <= small <= 12 and 1 <= large <= 31


def _is_packed_day(match: re.Match[str]) -> bool:
    digits = match["value"]
    return 1 <= int(digits[4:6]) <= 12 and 1 <= int(digits[6:]) <= 31


JAPANESE_DATES: tuple[Rule, ...] = (
    rule(
        "ja date from the year",
        QUASI,
        rf"{_NO_DIGIT}(?:西暦)?(?:{_YEAR4}|{_ERA_YEAR}){_BLANK}"
        rf"(?:[(（](?:{_YEAR4}|{_ERA_YEAR})年?[)）])?年{_REST}{_NO_GUIDE}",
        signs="年",
    ),
    rule(
        "ja date from the month",
        QUASI,
        rf"{_NO_DIGIT}(?:(?:同年|翌年|前年|昨年|今年|本年){_BLANK})?(?<![0-9{_K}]){_N2}月"
        rf"(?:{_BLANK}{_N2}{_BLANK}日)?(?!間|目|齢|例|経|号)",
        signs="月",
    ),
    rule(
        "ja month of a masked year",
        QUASI,
        rf"(?:同|翌|前)(?:年|月){_BLANK}{_N2}{_BLANK}(?:月(?:{_N2}日)?|日)(?!間|目)",
        signs="同 翌 前",
    ),
    rule(
        "ja day of a visit",
        QUASI,
        rf"(?<![0-9.{_K}第後前約計月病生院])(?P<value>{_N2}日)(?=(?:に|より|から|の|、|,)?"
        rf"(?:{_VISIT}))",
        weight=LOOSE,
        signs="日",
    ),
    rule(
        "date with signs",
        QUASI,
        r"(?<![0-9A-Za-z./-])(?:(?:18|19|20)[0-9]{2}|[RH](?:[0-9]{1,2}|元)(?!-)|(?:令和|昭和"
        r"|平成)[0-9元]{1,2})"
        r"([./-])(?:0?[1-9]|1[0-2])(?:\1(?:0?[1-9]|[12][0-9]|3[01]))?(?![0-9A-Za-z/-]|\.[0-9])",
    ),
    rule(
        "date with signs, a short year and a day",
        QUASI,
        r"(?<![0-9A-Za-z./-])(?:[MTSHR](?:[0-9]{1,2}|元)|'[0-9]{2})"
        r"([./-])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12][0-9]|3[01])(?![0-9A-Za-z/-]|\.[0-9])",
    ),
    rule(
        "packed date",
        QUASI,
        r"(?<![0-9A-Za-z.-])(?P<value>(?:19|20)[0-9]{6})(?![0-9A-Za-z.-])",
        weight=LOOSE,
        check=_is_packed_day,
    ),
    rule(
        "ja month and day",
        QUASI,
        rf"(?<![0-9./-])(?P<value>(?:0?[1-9]|1[0-2])/(?:0?[1-9]|[12][0-9]|3[01]))(?![0-9./-])"
        rf"(?=(?:[(](?:月|火|水|木|金|土|日)[)])?[ ]?(?:に|より|から|の|-|~|〜)?[ ]?(?:{_VISIT})"
        r"|[(](?:月|火|水|木|金|土|日)[)])",
        weight=LOOSE,
    ),
)

ENGLISH_DATES: tuple[Rule, ...] = (
    rule(
        "en month day year",
        QUASI,
        rf"\b{_MONTHS} ?{_DAY}(?:,? ?{_YEAR})?\b(?![./][0-9])",
        check=lambda match: match.group()[:3] != "May" or bool(re.search("[0-9]", match.group())),
    ),
    rule(
        "en day month year",
        QUASI,
        rf"\b{_DAY}(?: of)?[ -]{_MONTHS}(?:,?[ -](?:{_YEAR}|[0-9]{{2}}\b))?(?![a-z])",
    ),
    rule("en month year", QUASI, rf"\b{_MONTHS}(?: of|,)?[ -]{_YEAR}\b"),
    rule("en month", QUASI, rf"\b{_LONG_MONTHS}\b", weight=LOOSE),
    rule("en May", QUASI, r"\b(?:in|since|last|until|of|by|during) (?P<value>May)\b", weight=LOOSE),
    rule(
        "en numbers",
        QUASI,
        r"(?<![0-9A-Za-z./-])[0-9]{1,2}([/-])[0-9]{1,2}\1(?:[0-9]{4}|[0-9]{2})(?![0-9A-Za-z/-])",
        check=_is_day,
    ),
    rule(
        "en month and day after a cue",
        QUASI,
        r"\b(?:on|since|until|dated?|from|of|DOS|seen|admitted|discharged):? "
        r"(?P<value>(?:0?[1-9]|1[0-2])/(?:0?[1-9]|[12][0-9]|3[01]))(?![0-9/.%]| ?(?:L|liters?"
        r"|mg|ml|cc|of|cm|inch)\b)",
        weight=LOOSE,
        ignore_case=True,
    ),
    rule(
        "en end of a range of years",
        QUASI,
        r"(?<=[^0-9](?:19|20)[0-9]{2}[-/])(?P<value>(?:19|20)[0-9]{2})(?![0-9-]|[.,][0-9])",
        weight=LOOSE,
    ),
    rule(
        "en year after a word",
        QUASI,
        r"\b(?:in|since|from|until|of|year|during|to|early|late|around|circa|by|and|before|after)"
        r" (?P<value>(?:19[0-9]{2}|20[0-4][0-9])(?:s\b)?)(?![0-9%]|[.,][0-9]"
        r"| ?(?:mg|ml|mL|cc|mcg|units?|kcal|cal|calories|IU|g|grams?|hours?|hrs?)\b)",
        weight=LOOSE,
        ignore_case=True,
    ),
)

AGES: tuple[Rule, ...] = (
    rule(
        "ja age",
        QUASI,
        rf"(?<![0-9.{_K}])満?(?:[0-9]{{1,3}}|[{_K}]{{1,4}}) ?(?:歳|才)(?:代(?:前半|後半)?"
        rf"|{_BLANK}[0-9{_K}]{{1,2}}{_BLANK}(?:か|ヶ|カ|ヵ|ケ|箇)?月)?(?!以上|未満|以下|児神経)",
        signs="歳 才",
    ),
    rule(
        "ja age in tens",
        QUASI,
        rf"(?<![0-9.{_K}])(?:[1-9]0|[{_K}]{{1,2}}十|十)代(?:前半|後半)?(?!謝|表|替|わ|目)",
        signs="代",
    ),
    rule(
        "ja age of a child",
        QUASI,
        rf"(?:生後|日齢|月齢){_BLANK}[0-9{_K}]{{1,3}}{_BLANK}(?:日|週|(?:か|ヶ|カ|ヵ|ケ|箇)?月)?",
        signs="生後 日齢 月齢",
    ),
    rule(
        "age after a cue",
        QUASI,
        r"(?:年齢|年令|\b(?<!estational )(?<!bone )[Aa]ge|\bAGE"
        r"|\b[Aa]ged)[ ]?[:=]?[ ]?(?P<value>(?P<years>[0-9]{1,3})"
        r"(?:[ ]?[歳才]代?)?)(?![0-9.%/])",
        weight=CUED,
        check=lambda match: int(match["years"]) <= 120,
    ),
    rule(
        "en age",
        QUASI,
        rf"\b(?<![0-9.])[0-9]{{1,3}}(?: and (?:a )?(?:1/2|half))?[- ]?(?:{_YEARS}|months?|mos?"
        rf"|weeks?"
        r"|wks?|days?)[- ]?(?:of[- ]age\b|old\b|o\b)|\b[0-9]{1,3} ?(?:y\.?/?o\.?|Y\.?/?O\.?)"
        r"(?![a-zA-Z])",
    ),
    rule(
        "en age in words",
        QUASI,
        rf"\b{_WORD}[- ](?:{_YEARS}|months?|weeks?|days?)[- ]old\b",
        signs="old OLD Old",
        ignore_case=True,
    ),
    rule(
        "en age in tens",
        QUASI,
        r"\b(?:his|her|their) (?:(?:early|mid|late)[- ])?(?P<value>[1-9]0'?s)\b",
    ),
)

SEXES: tuple[Rule, ...] = (
    rule(
        "sex in a field",
        QUASI,
        r"(?:性別|\b[Ss]ex|\bSEX|\b[Gg]ender|\bGENDER) ?[:=] ?"
        r"(?P<value>男性|女性|男児|女児|男|女|[Mm]ale\b|[Ff]emale\b|MALE\b|FEMALE\b|[MF]\b)",
        weight=CUED,
    ),
    rule(
        "ja sex before an age",
        QUASI,
        r"(?<![一-鿿])(?P<value>男性|女性|男児|女児|男|女)(?=[ ,、・/]{1,2}[0-9]{1,3} ?[歳才])",
        signs="男 女",
    ),
    rule(
        "ja sex after an age",
        QUASI,
        r"(?<=[歳才代月日])(?:の|[,，、・/ ]){0,2}(?P<value>男性|女性|男児|女児|男子|女子|男|女)",
        signs="男 女",
    ),
    rule(
        "en sex after an age",
        QUASI,
        r"(?:old|[yY][./]?[oO])[.]?,? (?:[A-Za-z-]{1,20} )?"
        r"(?P<value>male|female|man|woman|gentleman|lady|boy|girl|[MF](?![a-zA-Z]))\b",
    ),
)

RULES = (*JAPANESE_DATES, *ENGLISH_DATES, *AGES, *SEXES)
