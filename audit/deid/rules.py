"""The tagger by rule: dates, ages, numbers, contacts, addresses, hospitals, names behind a cue.

It needs no model and no training; what it misses is counted by `deid score`, never assumed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from audit.deid.tagger import Tags
from audit.names.people import insurer_check_digit, my_number_check_digit
from audit.notes.mention_words import (
    ADVERBS,
    ARTICLES,
    AS,
    COPULAS,
    GENERIC,
    JAPANESE_KANA_NAMES,
    JAPANESE_NO_NAMES,
    JAPANESE_SURNAMES,
    NO_NAMES,
    OWNERS,
    RELATIVES,
    word_set,
)
from audit.notes.mentions import find_mentions
from audit.notes.spans import CONTACT, IDENTIFIER, LINKAGE_CODE, PERSONAL_ID_CODE, TYPES, Span
from audit.notes.spans import QUASI_IDENTIFIER as QUASI

CUED, SHAPED, LOOSE = 3, 2, 1
"""Weights: a cue stands beside it, its shape alone tells it, it is a guess of its surroundings."""

_FOLD = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_FOLD |= dict.fromkeys(map(ord, "\u3000\u00a0\u2002\u2003\u2009\u202f\t"), ord(" "))
_FOLD |= dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff70"), ord("-"))
_FOLD |= {ord("⼀"): ord("一"), ord("⽉"): ord("月"), ord("⽇"): ord("日"), ord("⽣"): ord("生")}
_FOLD |= {ord("⽐"): ord("比"), ord("⼈"): ord("人"), ord("⽒"): ord("氏"), ord("⼥"): ord("女")}

HAN = r"\u3005\u3006\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaffヶ"
KATA = "ァ-ヴー"
HIRA = "ぁ-ゖ"
KANJI_NUMBER = "〇一二三四五六七八九十百"

Check = Callable[[re.Match[str]], bool]


def folded_text(text: str) -> str:
    """Return a text of the same length, in which rules are looked for.

    Full-width letters, digits and signs become plain ones, all blanks but line ends become spaces,
    dashes become hyphens, and radicals that stand for a character become it. Offsets stay.
    """
    return text if text.isascii() and "\t" not in text else text.translate(_FOLD)


@dataclass(frozen=True, order=True)
class Found:
    """One find: the span, and the weight of the rule that made it."""

    span: Span
    weight: int


@dataclass(frozen=True)
class Rule:
    """A pattern and what it finds.

    Parameters
    ----------
    name
        What the rule is called.
    label
        The type of what it finds: the group `value` of the pattern, or the whole match.
    pattern
        Over folded text.
    weight
        Which of two finds stays where they share characters: the heavier, then the longer.
    check
        Whether a match is a find.
    signs
        Where given, the text must hold one of them for the pattern to be tried.
    """

    name: str
    label: str
    pattern: re.Pattern[str]
    weight: int = SHAPED
    check: Check | None = None
    signs: tuple[str, ...] = ()

    def find(self, folded: str) -> Iterator[Found]:
        """Yield the finds in a folded text."""
        if self.signs and not any(sign in folded for sign in self.signs):
            return
        has_value = "value" in self.pattern.groupindex
        for match in self.pattern.finditer(folded):
            start, end = match.span("value") if has_value else match.span()
            if start < end and (self.check is None or self.check(match)):
                yield Found(Span(start, end, self.label), self.weight)

    @property
    def wording(self) -> str:
        """All that decides its finds but the check, as text."""
        check = self.check.__name__ if self.check else ""
        flags = self.pattern.flags
        return f"{self.name}|{self.label}|{self.pattern.pattern}|{flags}|{self.weight}|{check}"


def rule(
    name: str,
    label: str,
    pattern: str,
    *,
    weight: int = SHAPED,
    check: Check | None = None,
    signs: str = "",
    ignore_case: bool = False,
) -> Rule:
    """Return a rule; `signs` are separated by blanks."""
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    return Rule(name, label, compiled, weight, check, tuple(signs.split()))


def strongest(found: Iterable[Found]) -> tuple[Span, ...]:
    """Return the finds that stay, sorted; no two share a character.

    The heavier of two stays, then the longer, then the one that begins first.
    """
    kept: list[Span] = []
    order = sorted(
        set(found), key=lambda f: (-f.weight, -f.span.n_chars, f.span.start, f.span.label)
    )
    taken: set[int] = set()
    for each in order:
        places = range(each.span.start, each.span.end)
        if taken.isdisjoint(places):
            taken.update(places)
            kept.append(each.span)
    return tuple(sorted(kept))


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

RULES_DATES_RULES = (*JAPANESE_DATES, *ENGLISH_DATES, *AGES, *SEXES)


PREFECTURES = (
    "北海道|青森県|岩手県|宮城県|秋田県|山形県|福島県|茨城県|栃木県|群馬県|埼玉県|千葉県"
    "|東京都|神奈川県"
    "|新潟県|富山県|石川県|福井県|山梨県|長野県|岐阜県|静岡県|愛知県|三重県|滋賀県|京都府"
    "|大阪府|兵庫県"
    "|奈良県|和歌山県|鳥取県|島根県|岡山県|広島県|山口県|徳島県|香川県|愛媛県|高知県|福岡県"
    "|佐賀県|長崎県"
    "|熊本県|大分県|宮崎県|鹿児島県|沖縄県"
)
_BIG_CITIES = (
    "札幌市|仙台市|さいたま市|千葉市|横浜市|川崎市|相模原市|新潟市|静岡市|浜松市|名古屋市"
    "|京都市|大阪市"
    "|堺市|神戸市|岡山市|広島市|北九州市|福岡市|熊本市|八王子市|金沢市|長崎市|鹿児島市|那覇市"
    "|宇都宮市"
)
_PLACE = rf"[{HAN}{KATA}{HIRA}]"
_BLOCK = r"(?:[0-9〇一二三四五六七八九十]+(?:丁目|番地|番|号|-|の(?=[0-9]))? ?){1,5}"
_BUILDING = (
    rf"(?: ?[{HAN}{KATA}A-Za-z0-9ぁ-ん・-]{{1,20}}(?:マンション|ハイツ|アパート|コーポ|荘|ビル"
    rf"|団地|レジデンス"
    r"|ハイム|メゾン|パレス|号室)(?: ?[0-9A-Z-]{1,6}(?:号室?|階)?)?)?"
)
_TOWNS = rf"(?:{_PLACE}{{1,6}}?(?:市|郡|区|町|村)){{1,3}}"
_DASH = r"[-.ー ]"
_STATES = (
    "AL|AK|AZ|AR|CA|CO|CT|DE|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ"
    "|NM|NY"
    "|NC|ND|OH|OK|OR|PA|RI|SC|SD|TN|TX|UT|VT|VA|WA|WV|WI|WY|DC"
)
_STREET = (
    r"(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Drive|Dr|Lane|Ln|Court|Ct|Way|Place|Pl|Parkway"
    r"|Pkwy|Terrace|Circle|Highway|Hwy|Square)"
)

CONTACTS: tuple[Rule, ...] = (
    rule(
        "e-mail",
        CONTACT,
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@"
        r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,5}[A-Za-z]{2,12}(?![A-Za-z0-9])",
        weight=CUED + 1,
        signs="@",
    ),
    rule(
        "web address",
        CONTACT,
        r"(?:https?://|www\.)[A-Za-z0-9][A-Za-z0-9./_~%#?&=:+-]{2,200}[A-Za-z0-9/]",
        weight=CUED + 1,
        signs="http www.",
    ),
    rule(
        "network address",
        CONTACT,
        r"(?<![0-9.])(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]"
        r"|1?[0-9]?[0-9])"
        r"(?![0-9.])",
    ),
    rule(
        "ja telephone",
        CONTACT,
        rf"(?<![0-9A-Za-z.-])(?:\+81 ?-? ?|0)(?:[0-9]{{1,4}}{_DASH}?\([0-9]{{1,4}}\){_DASH}?"
        rf"|[0-9]{{1,4}}{_DASH}[0-9]{{1,4}}{_DASH})[0-9]{{3,4}}(?![0-9-])",
    ),
    rule(
        "ja telephone with brackets",
        CONTACT,
        r"(?<![0-9A-Za-z.-])\(0[0-9]{1,4}\) ?[0-9]{1,4}[-ー ]?[0-9]{3,4}(?![0-9-])",
    ),
    rule("ja mobile in one piece", CONTACT, r"(?<![0-9A-Za-z.-])0[5789]0[0-9]{8}(?![0-9A-Za-z-])"),
    rule(
        "telephone after a cue",
        CONTACT,
        r"(?:電話|携帯|連絡先|直通|自宅|勤務先|FAX|Fax|ファックス|ファクス|TEL|Tel|℡|☎"
        r"|\b[Pp]hone|\b[Pp]ager"
        r"|\b[Cc]ell|\b[Tt]elephone|\b[Ff]ax|\b[Bb]eeper)(?:番号|電話|No\.?| number| no\.?)?\.?"
        r"(?: ?\([^()\n0-9]{1,6}\))? ?[:#=は]? ?(?P<value>\+?[(]?[0-9][0-9() -]{2,18}[0-9])"
        r"(?![0-9])",
        weight=CUED,
    ),
    rule(
        "extension",
        CONTACT,
        r"(?:内線|PHS|ピッチ|\b[Ee]xt(?:ension)?\.?|\bx(?=[0-9])) ?(?:番号)?[:=]? ?"
        r"(?P<value>[0-9]{3,6})(?![0-9])",
        weight=CUED,
    ),
    rule(
        "en telephone",
        CONTACT,
        r"(?<![0-9A-Za-z.-])(?:\+?1[-. ]?)?(?:\([2-9][0-9]{2}\) ?"
        r"|[2-9][0-9]{2}[-. ])[0-9]{3}[-. ][0-9]{4}"
        r"(?: ?x[0-9]{2,5})?(?![0-9-])",
    ),
)

PLACES: tuple[Rule, ...] = (
    rule(
        "ja postal code",
        QUASI,
        r"(?:〒|郵便番号) ?[:]? ?(?P<value>[0-9]{3}[-ー]?[0-9]{4})(?![0-9])",
        weight=CUED,
        signs="〒 郵便番号",
    ),
    rule(
        "ja address",
        QUASI,
        rf"(?:{PREFECTURES})(?:{_TOWNS}(?:{_PLACE}{{0,10}}?{_BLOCK}{_BUILDING})?)?"
        rf"(?!立|内の?病院|医師会|[{HAN}]{{0,6}}(?:病院|医院|大学|センター))",
        signs="都 道 府 県",
    ),
    rule(
        "ja address of a large city",
        QUASI,
        rf"(?:{_BIG_CITIES})(?:{_PLACE}{{1,5}}?区)?(?:{_PLACE}{{0,10}}?{_BLOCK}{_BUILDING})?"
        rf"(?!立|[{HAN}]{{0,6}}(?:病院|医院|大学|センター))",
        signs="市",
    ),
    rule(
        "ja address after a cue",
        QUASI,
        r"(?:住所|居住地|現住所|本籍|本籍地|出身地|勤務先住所) ?[:=] ?(?:〒?[0-9]{3}-?[0-9]{4} ?)?"
        r"(?P<value>[^\s,。、;:〒][^\n。、;:]{1,60}?)(?=\n|$|。|、|;| {2}| ?(?:電話|TEL|Tel|℡"
        r"|携帯|氏名|年齢|性別|生年))",
        weight=CUED,
        signs="住所 居住地 本籍 出身地",
    ),
    rule(
        "ja town where somebody lives",
        QUASI,
        rf"(?P<value>[{HAN}{KATA}]{{1,6}}(?:市|町|村|区|県|都|府|島))(?=在住|出身|に(?:住|在住"
        rf"|居住)|へ転居)",
        weight=LOOSE,
        signs="在住 出身 住 転居",
    ),
    rule(
        "en street",
        QUASI,
        rf"\b[0-9]{{1,5}} (?:[NSEW]\.? )?(?:[A-Z][a-z]+ ){{1,3}}{_STREET}\b\.?(?:,? (?:Apt"
        rf"|Suite|Unit|#)\.? ?[0-9A-Z-]{{1,6}})?",
    ),
    rule(
        "en town and state",
        QUASI,
        rf"\b(?:[A-Z][a-z]+ ){{0,2}}[A-Z][a-z]+, (?:{_STATES})(?: [0-9]{{5}}(?:-[0-9]{{4}})?)?\b",
    ),
    rule(
        "en postal code after a cue",
        QUASI,
        r"\b(?:[Zz]ip|ZIP)(?: ?[Cc]ode| CODE)? ?[:=]? ?(?P<value>[0-9]{5}(?:-[0-9]{4})?)\b",
        weight=CUED,
        signs="ip IP",
    ),
)

RULES_CONTACT_RULES = (*CONTACTS, *PLACES)


_CODE = r"(?P<value>(?=[A-Za-z-]{0,6}[0-9])[A-Za-z0-9](?:[A-Za-z0-9]|[-/](?=[A-Za-z0-9])){2,23})"
_RULES_NUMBERS_LINK = (
    r"(?: ?(?:番号|No\.?|NO\.?|№|#|ID|Number|number|NUMBER))?(?: ?(?:は|が|[:=;#】]))? {0,3}"
)
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
        rf"(?:マイナンバー|個人番号|[Mm]y ?[Nn]umber){_RULES_NUMBERS_LINK}"
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
        rf"(?:の?(?:記号)?[・ ]?)(?:番号)?{_RULES_NUMBERS_LINK}{_CODE}{_AFTER_CODE}",
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
        rf"(?: (?:id|no\.?|number|card))?{_RULES_NUMBERS_LINK}{_CODE}{_AFTER_CODE}",
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

RULES_NUMBERS_RULES = (*PUBLIC_NUMBERS, *RECORD_NUMBERS)


_ENDS = (
    "医科大学附属病院|医科大学病院|大学医学部附属病院|大学附属病院|大学病院|赤十字病院"
    "|総合病院|記念病院"
    "|医療センター|がんセンター|こども病院|子ども病院|市民病院|中央病院|病院|医院|クリニック|診療所"
    "|医療院|産院|老人保健施設|特別養護老人ホーム|医科大学|大学"
)
_GENERIC = re.compile(
    r"(?:現在|以後|その後|今回|前回|当初|近隣|近く|近所|紹介元|転院先|搬送先|かかりつけ|通院先"
    r"|入院先|勤務先|救急|二次"
    r"|三次|急性期|慢性期|療養型?|回復期|リハビリ(?:テーション)?|精神科?|一般|専門|基幹|拠点"
    r"|地域|地方|地元|連携|協力|関連"
    r"|個人|開業|各|両|全|国内|県内|市内|院内|都内|多|単|本|当該?|他の?|同|某|別の?|元|前|近"
    r"|旧|公立|私立|国立|総合|大|小"
    r"|中核|中小|動物|災害|癌|がん|認定|教育|研修|母校|周産期|母子|救命救急|[内外]科|整形外科"
    r"|小児科|皮膚科|眼科|耳鼻科"
    r"|耳鼻咽喉科|産婦人科|産科|婦人科|泌尿器科|脳神経外科|心療内科|歯科|病診|時|後|年|月|日"
    r"|施設|対象|参加|紹介|医師|医療"
    r"|[A-Za-z]|中|型|院|者|先|科|例)*"
)
_ENGLISH_ENDS = (
    "Hospital|Medical Cent(?:er|re)|Clinic|Infirmary|Health Cent(?:er|re)|Hospice|Nursing Home"
    "|Rehabilitation Cent(?:er|re)|Cancer Cent(?:er|re)|Health System|University"
)
_ENGLISH_GENERIC = word_set(
    """
    the this our a an at in to from of and hospital clinic pain emergency cardiology cardiac surgery
    surgical medical medicine discharge admission day eye dental heart cancer family outpatient
    inpatient urgent primary care community local outside general orthopedic orthopaedic
    rehabilitation rehab psychiatric state university veterans va children children's women's
    county regional diabetes wound coumadin anticoagulation sleep oncology neurology urology
    gynecology ob ob/gyn obstetrics dermatology ent fracture hand breast renal dialysis pediatric
    pediatrics podiatry vascular pulmonary follow-up followup return new another prior course
    health mental same please see brief initial private mobile teaching during
    """
)


def _is_named(match: re.Match[str]) -> bool:
    """Whether something is left of the name when all that any hospital may be called is taken."""
    name = match["name"]
    generic = _GENERIC.match(name)
    is_generic = generic is not None and generic.end() == len(name)
    return not is_generic and not name.endswith(("の", "は", "が", "を", "に", "で", "も"))


def _is_named_english(match: re.Match[str]) -> bool:
    words = [word.strip(".,").lower() for word in match["name"].split()]
    return any(word not in _ENGLISH_GENERIC for word in words)


RULES_HOSPITALS_RULES: tuple[Rule, ...] = (
    rule(
        "ja hospital",
        QUASI,
        rf"(?<![{HAN}{KATA}A-Za-z])(?:(?:現在|以後|その後|今回|前医|近医|紹介元|転院先|かかりつけ医?)の?)?"
        rf"(?P<value>(?P<name>"
        rf"(?:[{HAN}]{{1,6}}[立区市町村][{HIRA}]{{2,6}})?[{HAN}{KATA}A-Za-z・]{{1,16}}?)"
        rf"(?:{_ENDS})(?:附属|付属)?"
        rf"(?:[{HAN}{KATA}・]{{1,8}}?(?:病院|医療センター|分院))?)(?![{KATA}生長群])",
        check=_is_named,
        signs="院 クリニック センター 診療所 大学 ホーム 施設",
    ),
    rule(
        "ja hospital in hiragana",
        QUASI,
        rf"(?:(?<=^)|(?<=[\n 、。,.「『(:;・])|(?<=つけの))"
        r"(?!かかりつけ|われわれ|それぞれ|いずれ|すべて|ほかの)"
        rf"(?P<value>(?P<name>[{HIRA}]{{2,8}}[{HAN}]{{0,6}}?)"
        r"(?:病院|医院|クリニック|診療所|こども病院))",
        check=_is_named,
        signs="院 クリニック 診療所",
    ),
    rule(
        "en hospital",
        QUASI,
        rf"\b(?:the |The )?(?P<value>(?P<name>(?:[A-Z][A-Za-z.'&-]{{1,20}} (?:of |and "
        rf"|for )?){{1,4}}?)"
        rf"(?:{_ENGLISH_ENDS})(?: of [A-Z][a-z]+)?)\b",
        check=_is_named_english,
        signs="Hospital Medical Clinic Infirmary Health Hospice Nursing Center University",
    ),
)


_NUMBER = r"[<>≦≧±+-]?[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[<>≦≧±+-]?[0-9]{1,6}(?:\.[0-9]{1,4})?"
_RANGE = rf"(?:{_NUMBER})(?: ?[-~〜] ?(?:{_NUMBER}))?"
_NO_WORD = r"(?<![A-Za-z0-9.])"
_UNIT = (
    r"(?:(?:m|k|µ|μ|u|mc|n|p)?g|(?:m|d|µ|μ|u|c)?[lL]|cc|(?:m|k)?Eq|m?IU|m?U|[mµμn]?mol|mmHg|cmH2O"
    r"|[cmµμn]m|%|℃|°C?|[cm]?Gy|k?Hz|m(?:s|sec)|J|k?cal|bpm|[Gg]auge|[Ff]rench|Fr|G(?=針)"
    r"|copies|cells"
    r"|[Uu]nits?|[Pp]uffs?|[Tt]ab(?:let)?s?|[Cc]aps(?:ules?)?|[Dd]rops?|[Ff]ractions?|[Dd]egrees?"
    r"|[Pp]acks?|times?|beats|msec|mV|mA|kPa|単位|錠|カプセル|包|滴|パック|万|点|度|本|倍"
    r"|パーセント|ミリ|センチ|グラム|キロ|リットル|cc)"
)
_PER = r"(?:/(?:[a-zA-Zµμ]{1,4}[0-9²³]?|日|回|時間?|分|週|[0-9]{1,3} ?回))*"
_TESTS = (
    r"TSH|K(?= ?[0-9]\.[0-9])|F?T[34]|free [Tt][34]|Hb(?:A1c)?|Hgb|Hct|Ht|WBC|RBC|P[Ll][Tt]"
    r"|CRP|ESR|BUN|Cre?|eGFR|Glu"
    r"|Na|Cl|Ca|Mg|IP|BS|FBS|HDL|LDL|TG|AST|ALT|GOT|GPT|LDH|CK(?:-MB)?|ALP|[γr]-?GTP?|T-?[Bb]il"
    r"|D-?[Bb]il|Alb|TP|PT(?:-INR)?|APTT|INR|BNP|NT-proBNP|PSA|CEA|AFP|CA ?(?:19-9|125|15-3)"
    r"|SpO2|SaO2|FiO2|P(?:a?CO|a?O|EEP)2?|pCO2|pO2|pH|HCO3|BE|PEEP|HbA1c|ACTH|GH|IgE|IL-[0-9]{1,2}"
    r"|BP|HR|RR|PR|BT|KT|sat|BMI|EF|LVEF|QTc|E/e'|CVP|IOP|Ki-?67|HER2|CD[0-9]{1,2}|HIV|KL-6|SP-D"
    r"|[Ss]odium|[Pp]otassium|[Cc]hloride|[Bb]icarb(?:onate)?|[Cc]reatinine|[Gg]lucose|[Cc]alcium"
    r"|[Mm]agnesium|[Pp]hosph(?:ate|orus)|[Hh]emoglobin|[Hh]aemoglobin|[Hh]ematocrit"
    r"|[Pp]latelets?(?: count)?|[Ww]hite (?:blood )?(?:cell )?count|[Aa]lbumin|[Bb]ilirubin"
    r"|[Aa]lk(?:aline)? phos(?:phatase)?|[Tt]roponin(?: [IT])?|[Ll]actate|[Oo]smolality"
    r"|[Aa]mmonia|(?:[Aa]nion )?[Gg]ap|[Ff]erritin|[Ff]olate"
    r"|[Vv]itamin|[Tt]riglycerides|[Cc]holesterol|[Tt]rough|[Pp]rocalcitonin|D-?[Dd]imer"
    r"|[Tt]emp(?:erature)?|[Pp]ulse|[Rr]espirations?|[Hh]eart rate|[Rr]esp(?:iratory)? rate"
    r"|[Ss]aturation|[Bb]lood pressure|[Ss]pecific gravity|[Ee]jection fraction|[Rr]ate"
    r"|[Tt]idal volume|[Pp]eak flow|FEV1|FVC|[Hh]eight|[Ww]eight|T-score|Z-score"
    r"|[Ii]ntraocular pressure"
    r"|血圧|脈拍数?|脈|体温|心拍数?|呼吸数?|身長|体重|比重|血糖値?|乳酸|フェリチン|アルブミン"
    r"|ヘモグロビン"
    r"|血小板|白血球|赤血球|クレアチニン|コルチゾール|トロポニン[IT]?|Dダイマー|プロカルシトニン"
    r"|Cペプチド|眼圧|視力|一秒[量率]|羊水指数|抗体|尿量|出血量|酸素飽和度"
)
_SCORES = (
    r"GCS|JCS|NIHSS|mRS|Rankin|Apgar|PHQ-?9|GAD-?7|GAF|HAM-?[DA]|SDS|BDI|MELD|Child-Pugh|APACHE"
    r"|SOFA|CURB-?65|Wells|CHA2DS2-VASc|CHADS2?|HAS-BLED|Braden|Morse|Borg|ECOG|KPS|Karnofsky|PS"
    r"|ASA|Mallampati|NYHA|Gleason|BI-?RADS|[Ss]core|[Ss]cale|(?:ASA|NYHA) class|[Ss]tage|NRS|VAS"
    r"|MMSE|MoCA|HDS-?R|FIM|BI|DESIGN-R|アプガー(?:スコア)?|スコア|グレード|[Ss]ize"
)
_RULES_CLINICAL_LINK = (
    r"(?: ?[IiVv]{0,3})?(?:[ :=(は、]{0,3}| (?:was|is|of|at|to|score|count|level|score of"
    r"|class|about|below|above|over|under) ){1,2}"
)
_FRACTION = r"(?P<value>(?P<part>[0-9]{1,3})(?:[+-])? ?/ ?(?P<whole>[0-9]{1,3}))(?![0-9/.])"
_UNCUED = r"(?<![0-9A-Za-z./-])"

_VALUES = tuple(
    re.compile(pattern)
    for pattern in (
        # A number with its unit, also of sizes: "3 x 4 cm", "50Gy/25回", "80mL/h".
        rf"{_NO_WORD}(?P<value>(?:{_RANGE})(?: ?[x×*] ?(?:{_NUMBER})){{0,2}}[- ]?"
        rf"{_UNIT}{_PER})(?![A-Za-z])",
        rf"{_NO_WORD}(?P<value>(?:{_NUMBER})(?: ?[x×] ?(?:{_NUMBER})){{1,2}})(?![0-9])",
        # A result behind its test, a count behind its score.
        rf"(?<![A-Za-z])(?P<cue>{_TESTS}){_RULES_CLINICAL_LINK}"
        rf"(?P<value>[A-Z]?{_RANGE}(?:/[0-9]{{2,3}})?[+]?)(?![0-9/-])",
        rf"(?<![A-Za-z])(?P<cue>{_SCORES}){_RULES_CLINICAL_LINK}(?P<value>(?:[IVX]{{1,4}}"
        rf"|{_RANGE})(?:\+[0-9](?:=[0-9]{{1,2}})?)?)(?![0-9/-])",
        r"(?P<cue>CHA2DS2-VASc|HAS-BLED|C[0-9]{1,2}[-/][0-9]"
        r"|[TLS][0-9]{1,2}[-/][TLS]?[0-9]{1,2})(?P<value>)(?![0-9])",
        r"(?P<value>[0-9]{1,2} out of [0-9]{1,3})(?![0-9/])",
        # Decimals that no day is written as: 0.004, 37.2, 1.015.
        rf"{_UNCUED}(?P<value>[0-9]{{1,4}}\.[0-9]{{3,4}}|0\.[0-9]{{1,4}}|(?:1[3-9]"
        rf"|[2-9][0-9])\.[0-9]{{1,2}})(?![0-9.-])",
        # Sutures, and grades with a sign.
        rf"{_UNCUED}(?P<value>[0-9]{{1,2}}-0)(?= ?(?:[A-Za-z]|[ァ-ヴ]))",
        rf"{_UNCUED}(?P<value>[1-4][+])(?![0-9])",
    )
)
_NEAR = r"[^\n.。;；/]{0,28}?"
_SCALES: tuple[tuple[re.Pattern[str], frozenset[int]], ...] = tuple(
    (re.compile(rf"{cues}{_NEAR}{_UNCUED}{_FRACTION}"), frozenset(wholes))
    for cues, wholes in (
        (r"(?i:\b(?P<cue>pain|scores?|scale|rate[sd]?|rating|satisfaction|severity|intensity"
         r"|fatigue|nausea|anxiety|NRS|VAS|Borg|dyspn(?:o)?ea|itch)\b)", {10, 100}),
        (r"(?P<cue>NRS|VAS|FPS|痛み?|疼痛|しびれ|満足度|主食|副食|摂取|食事|スコア"
         r"|倦怠感|不安|悪心)", {10, 100}),
        (r"(?i:\b(?P<cue>recall|words|再生))", {3, 5}),
        (r"(?i:\b(?P<cue>strength|motor|power|MMT|grip|deltoid|quadriceps)\b)", {5}),
        (r"(?P<cue>MMT|筋力|握力)", {5}),
        (r"(?i:\b(?P<cue>reflex(?:es)?|DTRs?|pulses?|clock drawing|edema|oedema)\b)", {2, 3, 4}),
        (r"(?P<cue>反射|浮腫)", {4}),
        (r"(?i:\b(?P<cue>sensation|sensory|two-point)\b)", {2}),
        (r"(?P<cue>GCS|JCS)", {15}),
        (r"(?i:(?P<cue>MMSE|mini-mental|MoCA|HDS-?R|FAB|長谷川))", {18, 30}),
        (r"(?P<cue>FIM|Barthel|BI|機能的自立度)", {18, 35, 91, 100, 126}),
        (r"(?i:(?P<cue>Apgar|アプガー(?:スコア)?))", set(range(11))),
        (r"(?i:(?P<cue>Levine|murmur|grade|雑音))", {6}),
        (r"(?i:(?P<cue>\bnodes?\b|\bmargins?\b|リンパ節|転移|陽性))", set(range(1, 100))),
        (r"(?i:(?P<cue>\bacuity|\bvision|視力))",
         {15, 20, 25, 30, 40, 50, 60, 70, 80, 100, 200, 400}),
        (r"(?i:(?P<cue>\bBP\b|blood pressure|\bIOP|pressure|血圧|眼圧))", set(range(5, 151))),
    )
)  # fmt: skip
_BEHIND: tuple[tuple[re.Pattern[str], frozenset[int]], ...] = tuple(
    (re.compile(rf"{_UNCUED}{_FRACTION} ?(?P<cue>{cues})"), frozenset(wholes))
    for cues, wholes in (
        (r"(?i:(?:holo|pan|mid|early |late )?(?:systolic|diastolic)|(?:ejection )?murmur"
         r"|収縮期|拡張期)", {6}),
        (r"(?:positive|nodes|陽性|個)", set(range(1, 100))),
        (r"(?:on (?:delayed )?recall|words)", {3, 5}),
        (r"(?:strength|throughout|in all|bilaterally)", {5, 4}),
        (r"(?:mmHg|mm Hg)", set(range(20, 151))),
        (r"(?:pack|tablet|tab\b|錠)", {2, 3, 4}),
        (r"(?:on the (?:pain|satisfaction|VAS|NRS)|pain\b|点)", {5, 10, 15, 30, 100}),
    )
)  # fmt: skip
_ANY_FRACTION = re.compile(rf"{_UNCUED}{_FRACTION}")
_DAY_CUE = re.compile(
    r"(?i:\b(?:on|since|dated?|seen|DOS|admitted|discharged|due|by|until|of)\s*:?\s*)$|[(月日]$"
)
_SENTENCE = re.compile(r"[^\n.。;；]+(?:\.[0-9][^\n.。;；]*)*")
_MAX_MONTH, _MAX_YEAR = 12, 99


def without_clinical(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the spans but for those in which nothing but clinical values stands."""
    given = list(spans)
    if not given:
        return given
    folded = folded_text(text)
    is_clinical = bytearray(len(folded))
    for start, end in clinical_values(folded):
        is_clinical[start:end] = b"\1" * (end - start)
    return [span for span in given if not _is_clinical(folded, span, is_clinical)]


def _is_clinical(folded: str, span: Span, is_clinical: bytearray) -> bool:
    places = [i for i in range(span.start, span.end) if folded[i].isalnum()]
    return bool(places) and all(is_clinical[i] for i in places)


def clinical_values(folded: str) -> Iterator[tuple[int, int]]:
    """Yield where clinical values stand in a folded text, and the cues that tell them."""
    for pattern in _VALUES:
        for match in pattern.finditer(folded):
            yield match.span("value")
            if "cue" in pattern.groupindex:
                yield match.span("cue")
    for sentence in _SENTENCE.finditer(folded):
        yield from _fractions(folded, sentence.start(), sentence.end())


def _fractions(folded: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the fractions of a sentence that are told by a scale, and others of that scale."""
    told: set[int] = set()
    for patterns, is_before in ((_SCALES, True), (_BEHIND, False)):
        for pattern, wholes in patterns:
            for match in pattern.finditer(folded, start, end):
                day_cue = _DAY_CUE.search(folded, start, match.start("value"))
                if (
                    is_before
                    and day_cue
                    and match["cue"].lower()
                    not in folded[day_cue.start() - 9 : day_cue.start()].lower()
                ):
                    continue
                if int(match["whole"]) in wholes:
                    told.add(int(match["whole"]))
                    yield match.span("value")
    for match in _ANY_FRACTION.finditer(folded, start, end):
        part, whole = int(match["part"]), int(match["whole"])
        is_day = 1 <= min(part, whole) <= _MAX_MONTH and max(part, whole) <= _MAX_YEAR
        is_same_scale = whole in told and part <= whole
        if (is_same_scale and not _DAY_CUE.search(folded, start, match.start())) or not is_day:
            yield match.span("value")


_JA_PART = rf"(?:[{HAN}]{{1,5}}[{HIRA}]{{0,2}}|[{KATA}]{{2,10}}|[{HIRA}]{{2,6}})"
_JA_NAME = (
    rf"(?:[{HAN}]{{1,5}} {_JA_PART}|[{KATA}]{{2,10}}[ ・=][{KATA}]{{2,10}}"
    rf"(?:[ ・=][{KATA}]{{2,10}})?"
    rf"|[{HIRA}]{{2,6}} [{HIRA}]{{2,6}}|[{HAN}]{{1,4}}[{KATA}{HIRA}]{{2,5}}(?=[\s,、。;(]|様"
    rf"|殿|さん|$)"
    rf"|[{HAN}]{{1,4}}[{HIRA}]{{1,3}}[子美代江香恵]|[{HAN}]{{2,6}}|[{KATA}]{{2,14}}"
    rf"|[ｦ-ﾟ]{{2,12}} ?[ｦ-ﾟ]{{0,12}})"
)
_EN_PART = r"(?:[A-Z][a-z]+(?:[-'][A-Z]?[a-z]+)*|[A-Z]'[A-Z][a-z]+|Mc[A-Z][a-z]+|[A-Z]\.)"
_EN_NAME = rf"{_EN_PART}(?:,? {_EN_PART}){{0,3}}"
_JA_CUES = (
    "氏名|患者氏名|患者名|患者様氏名|お名前|名前|患者|担当医|主治医|執刀医|術者|助手|麻酔科?医"
    "|指導医|紹介医|読影医|診断医"
    "|報告者|記載者|記録者|記入者|作成者|担当者|担当看護師|看護師|担当|医師名|医師|保護者|家族"
    "|配偶者|夫|妻|父|母|長男|長女"
    "|次男|次女|キーパーソン|緊急連絡先|連絡者|続柄|署名|フリガナ|ふりがな|カナ|カナ氏名"
    "|依頼医|宛先|宛名"
)
_BEHIND_CUE = re.compile(
    rf"(?:{_JA_CUES}|読影|確認)(?:\([^()\n]{{1,8}}\))? {{0,2}}[:=】\]] {{0,2}}"
    rf"(?P<value>{_JA_NAME})"
    rf"|(?:氏名|患者名|患者氏名|フリガナ|(?:読影|主治|担当|紹介|執刀|診断|指導|依頼)医|記載者"
    rf"|報告者)[ \n]{{1,3}}(?P<spaced>{_JA_NAME})"
)
_READING = re.compile(
    rf" ?[(](?P<value>[{KATA}{HIRA}ｦ-ﾟ]{{2,12}}"
    rf"(?: [{KATA}{HIRA}ｦ-ﾟ]{{2,12}})?)[)]"
)
_FIELD_END = re.compile(rf"[{HAN}]{{0,3}}(?:[(][^()\n]{{0,8}}[)])? ?[:=]")
_FIELD = re.compile(
    r"(?:生年月日|生年|年齢|性別|住所|電話|携帯|連絡先|職業|続柄|身長|体重|血液型|病棟|病室|診断|主訴|診療科|入院日)"
)
_JA_TITLED = re.compile(
    rf"(?<![{HAN}{KATA}])(?P<value>[{HAN}]{{1,4}} [{HAN}{HIRA}]{{1,4}}|[{HAN}]{{1,6}}?"
    rf"|[{KATA}]{{2,10}}(?:[・ ][{KATA}]{{2,10}})?)"
    r"(?P<title> ?(?:さん|様|さま|氏|殿|君|くん|ちゃん|先生|医師|看護師|教授|准教授|助教|技師"
    r"|薬剤師|主任))"
    rf"(?![{HAN}]|々)"
)
_DOCTOR = re.compile(
    rf"\b(?:D[rR]|Prof|DR)(?:\.| |(?=[{HAN}])) ?(?P<value>{_EN_NAME}|(?-i:[{HAN}]{{1,5}}"
    rf"(?: [{HAN}]{{1,4}})?))"
)
_EN_TITLED = re.compile(rf"\b(?:Mr|Mrs|Ms|Miss|Mx|Professor|Doctor|Nurse)\.? (?P<value>{_EN_NAME})")
_EN_CUED = re.compile(
    r"(?:\b(?:Patient|Pt|Full|First|Last|Patient's|Surgeon|Attending|Physician|Doctor"
    r"|Assistant|Author|Provider"
    r"|Anesthesiologist|Resident|Dictated by|Signed by|Electronically signed by|Referring physician"
    r"|Attending physician|Referred by|Transcribed by|Nurse|Contact|Next of kin|Spouse|Wife|Husband"
    r"|Mother|Father|Daughter|Son|cc)(?:'s)?(?: [Nn]ame)?|\b[Nn]ame|NAME|PATIENT|PATIENT NAME"
    r"|ATTENDING|SURGEON)"
    rf" ?: {{0,3}}(?:Dr\.? )?(?P<value>{_EN_NAME}|[A-Z][A-Z'-]+, ?[A-Z][A-Z'-]+(?: [A-Z]\.?)?)"
)
_EN_DEGREE = re.compile(
    rf"\b(?P<value>{_EN_PART}(?: {_EN_PART}){{1,3}}),? (?:M\.?D\.?|D\.?O\.?|Ph\.?D\.?|R\.?N\.?"
    rf"|N\.?P\.?|PA-C|MBBS|FACS)(?![A-Za-z])"
)
_JA_NOT_BEFORE_TITLE = word_set(
    """
    患者 母 父 お母 お父 奥 旦那 息子 娘 嫁 妻 夫 兄 弟 姉 妹 祖父 祖母 看護師 医師 先生 皆 客
    御家族 家族 ご家族 本人
    御本人 同 仕 模 多 異 各 有 神 王 這 一 何 担当 主治 専門 内科 外科 当直 指導 執刀 麻酔科
    産業 救急 研修 専攻 上級 常勤
    非常勤 女性 男性 放射線科 病理 眼科 精神科 皮膚科 整形外科 小児科 産科 婦人科 循環器 消化器
    呼吸器 訪問 病棟 外来 認定
    専門看護 担任 主任 副主任 准 名誉 客員 特任 両 複数 近医 前医 校 保健 助産 臨床検査 検査
    診療放射線 臨床工学 薬剤 叔母
    叔父 伯母 伯父 孫 嬢 婿 義母 義父 隣 大工 職人 貴 諸 暴 主 細 諸君 歯科 獣 校長 施設 嘱託
    家庭 相談 紹介 依頼 報告 該当
    """
)
_JA_NO_NAME = re.compile(
    r"(?:なし|無し|不明|あり|有り|同上|本人|該当|未定|特記|健在|別記|患者|担当|主治|入院|外来"
    r"|病|科|氏名|年齢|男性|女性"
    r"|歳|死亡|高血圧|糖尿|癌|腫|炎|症|医師|看護|医院|クリニック|術|検査|投与|既往"
    r"|健康|生存|心筋|脳|肝|胃|肺|麻酔)"
)
_KINSHIP = word_set(
    """
    父 母 夫 妻 子 長男 次男 三男 長女 次女 三女 息子 娘 兄 弟 姉 妹 祖父 祖母 孫 叔父 叔母
    伯父 伯母 義父 義母 嫁 婿 甥 姪 友人 知人 内縁 同居人
    """
)
_MIN_SURNAME = 2
_NO_ENGLISH_NAMES = NO_NAMES | GENERIC | ADVERBS | COPULAS | ARTICLES | OWNERS | RELATIVES | AS


def find_names(folded: str) -> Iterator[Found]:
    """Yield the names in a folded text, then the places where a full name stands again."""
    found = [*_japanese(folded), *_english(folded), *_beside_ages(folded)]
    yield from found
    yield from _again(folded, found)


def _japanese(folded: str) -> Iterator[Found]:
    if folded.isascii():
        return
    for match in _BEHIND_CUE.finditer(folded):
        group = "value" if match["value"] else "spaced"
        if not _JA_NO_NAME.search(match[group]) and match[group] not in _KINSHIP:
            start, end = _trimmed(folded, *match.span(group))
            yield from _named(start, end, folded=folded, weight=CUED)
            yield from _reading(folded, start, end)
    for match in _JA_TITLED.finditer(folded):
        start, end = match.span("value")
        title = match["title"].strip()
        blank = folded.find(" ", start, end)
        if _is_titled(folded[start:end], title):
            yield from _named(start, end, folded=folded, weight=SHAPED)
        elif blank >= 0 and _is_titled(folded[blank + 1 : end], title):
            yield from _named(blank + 1, end, folded=folded, weight=SHAPED)


def _reading(folded: str, start: int, end: int) -> Iterator[Found]:
    """Yield the reading in kana that stands in brackets behind a name."""
    reading = _READING.match(folded, end)
    if reading:
        for name in _named(start, end, folded=folded, weight=CUED):
            yield Found(Span(*reading.span("value"), name.span.label), CUED)


def _is_titled(name: str, title: str) -> bool:
    """Whether what stands before a title is a name, by the list and by the title."""
    bare = name.replace(" ", "")
    if name in _JA_NOT_BEFORE_TITLE or any(
        word in bare for word in JAPANESE_NO_NAMES if len(word) > 1
    ):
        return False
    if bare.startswith(("お", "御")) or bare.endswith(tuple(_RELATIVE_ENDS)):
        return False
    is_listed = any(bare[:n] in JAPANESE_SURNAMES for n in (1, 2, 3) if n <= len(bare))
    if title in ("さん", "さま", "ちゃん", "くん", "先生"):
        is_kana = bool(re.fullmatch(rf"[{KATA}・]+", bare))
        return (is_listed or 2 <= len(bare) <= 5) and not _JA_NO_NAME.search(bare) and not is_kana
    is_short = len(bare) == 1 and title in ("様", "氏", "君", "殿", "医師")
    return is_listed and not is_short and not _JA_NO_NAME.search(bare)


_RELATIVE_ENDS = (
    "看護師",
    "医師",
    "母",
    "父",
    "夫",
    "妻",
    "娘",
    "息子",
    "孫",
    "業者",
    "屋",
    "員",
    "者",
    "手",
)


def _english(folded: str) -> Iterator[Found]:
    for pattern, weight in (
        (_DOCTOR, CUED), (_EN_TITLED, CUED), (_EN_CUED, CUED), (_EN_DEGREE, SHAPED)
    ):  # fmt: skip
        for match in pattern.finditer(folded):
            start, end = _english_trimmed(folded, *match.span("value"))
            if start < end:
                yield from _named(start, end, folded=folded, weight=weight)


def _english_trimmed(folded: str, start: int, end: int) -> tuple[int, int]:
    """Take words off both ends that are no names."""
    words = [m.span() for m in re.finditer(r"[^\s,]+", folded[start:end])]
    is_no_name = [_is_no_name(folded[start + a : start + b]) for a, b in words]
    first = next((i for i, word in enumerate(words) if not is_no_name[i]), len(words))
    after = next((i for i in range(first, len(words)) if is_no_name[i]), len(words))
    if first >= after:
        return start, start
    start, end = start + words[first][0], start + words[after - 1][1]
    name = folded[start:end]
    if name.endswith("'s"):
        return start, end - 2
    return start, end - (len(name) == 2 and name.endswith("."))  # the stop ends a sentence


def _is_no_name(word: str) -> bool:
    is_initial = len(word) == 1 or (len(word) == 2 and word.endswith("."))
    return not is_initial and word.lower().strip(".'") in _NO_ENGLISH_NAMES


def _trimmed(folded: str, start: int, end: int) -> tuple[int, int]:
    """Take off the end of a name what is a title, or the next field of a form."""
    blank = folded.find(" ", start, end)
    if blank >= 0 and (
        _FIELD_END.match(folded, end) or _FIELD.match(folded, blank + 1)
    ):  # "佐藤花子 紹介元:" is a name and a field
        end = blank
    name = folded[start:end]
    for title in ("看護師", "医師", "先生", "様", "殿", "氏", "君", "さん"):
        if name.endswith(title) and len(name) > len(title) + 1:
            return start, end - len(title)
    return start, end


def _beside_ages(folded: str) -> Iterator[Found]:
    for mention in find_mentions(folded):
        if not mention.is_placeholder and mention.name_end > mention.name_start:
            yield from _named(mention.name_start, mention.name_end, folded=folded, weight=SHAPED)


def _named(start: int, end: int, *, folded: str, weight: int) -> Iterator[Found]:
    if start < end:
        name = folded[start:end]
        yield Found(Span(start, end, IDENTIFIER if is_full_name(name) else QUASI), weight)


def is_full_name(name: str) -> bool:
    """Whether a name has more than one part: a surname or a given name alone identifies less."""
    n_given = 1 if re.search(rf"[{HAN}]", name) else 2
    if re.search(rf"\S[ ・=,]+[^\s.]{{{n_given}}}", name.strip()):
        return True
    if name.isascii() or name in JAPANESE_SURNAMES or re.fullmatch(rf"[{KATA}{HIRA}ｦ-ﾟ]+", name):
        return False
    is_listed = any(name[:n] in JAPANESE_SURNAMES for n in (2, 3, 1) if n < len(name))
    given = next((name[n:] for n in (3, 2, 1) if name[:n] in JAPANESE_SURNAMES), "")
    return len(name) >= 4 or (is_listed and bool(given)) or given in JAPANESE_KANA_NAMES


def _again(folded: str, found: list[Found]) -> Iterator[Found]:
    """Yield every other place of a full name, and of the surname in it."""
    for name, label in sorted(_parts_of(folded, found).items()):
        pattern = rf"\b{re.escape(name)}\b" if name.isascii() else re.escape(name)
        for match in re.finditer(pattern, folded):
            yield Found(Span(match.start(), match.end(), label), LOOSE)


def _parts_of(folded: str, found: list[Found]) -> dict[str, str]:
    names: dict[str, str] = {}
    for each in found:
        name = folded[each.span.start : each.span.end]
        if each.span.label != IDENTIFIER:
            continue
        names[name] = IDENTIFIER
        parts = re.split(r"[ ・=,]+", name)
        if name.isascii():
            for part in parts:
                if len(part) > 2 and part.lower() not in NO_NAMES:
                    names.setdefault(part, QUASI)
        elif len(parts) > 1:
            names.setdefault("".join(parts), IDENTIFIER)
            if len(parts[0]) >= _MIN_SURNAME:
                names.setdefault(parts[0], QUASI)
        else:
            surname = next((name[:n] for n in (3, 2) if name[:n] in JAPANESE_SURNAMES), "")
            if surname:
                names.setdefault(surname, QUASI)
    return names


GROUPS: dict[str, tuple[Rule, ...]] = {
    "dates": RULES_DATES_RULES,
    "numbers": RULES_NUMBERS_RULES,
    "contact": RULES_CONTACT_RULES,
    "hospitals": RULES_HOSPITALS_RULES,
    "names": (),
}
"""Rules by group; those for names are no plain patterns and stand in `rules_names`."""


RULES_VERSION = "rules 1"
"""Goes up with every change of what the rules find: figures measured of older rules are not theirs.

A test holds the answers of this version on synthetic notes.
"""


@dataclass(frozen=True)
class RuleTagger:
    """Finds spans by rule.

    Parameters
    ----------
    groups
        Names out of `GROUPS`.

    Raises
    ------
    ValueError
        If there is no such group, or none is given.
    """

    groups: tuple[str, ...] = tuple(GROUPS)

    def __post_init__(self) -> None:
        """Check the groups, once."""
        if not self.groups or not set(self.groups) <= set(GROUPS):
            raise ValueError("no such group of rules")

    @property
    def name(self) -> str:
        """What to call it."""
        return "rules"

    @property
    def labels(self) -> tuple[str, ...]:
        """The five types."""
        return TYPES

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the version of the rules and of the groups in use."""
        return hashlib.sha256(" ".join((RULES_VERSION, *self.groups)).encode()).hexdigest()

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        return tuple(self._tags(folded_text(text)) for text in texts)

    def _tags(self, folded: str) -> Tags:
        found = [each for _, each in self.found(folded)]
        guessed = [each.span for each in found if each.weight == LOOSE]
        accepted = set(without_clinical(folded, guessed))
        return strongest(each for each in found if each.weight != LOOSE or each.span in accepted)

    def found(self, folded: str) -> Iterator[tuple[str, Found]]:
        """Yield all finds in a folded text, also those that share characters, with their group."""
        for group in self.groups:
            for each in GROUPS[group]:
                yield from ((group, one) for one in each.find(folded))
        if "names" in self.groups:
            yield from (("names", one) for one in find_names(folded))
