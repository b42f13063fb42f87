"""The tagger by rule: dates, ages, numbers, contacts, addresses, hospitals, names behind a cue.

It needs no model and no training; what it misses is counted by `deid score`, never assumed. The
patterns stand in `rules.txt`; kept by hand, since no library knows Japanese notes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from audit.deid.patterns import HAN, HIRA, KATA, folded_text, pattern_table
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
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, TYPES, Span

SURE, CUED, SHAPED, LOOSE = 4, 3, 2, 1
"""Weights of rules; what they mean stands in `rules.txt`."""

_PARTS, _TABLE = pattern_table("rules.txt", numbers="〇一二三四五六七八九十百")


@dataclass(frozen=True, order=True)
class Found:
    """One find: the span, and the weight of the rule that made it."""

    span: Span
    weight: int


Check = Callable[[re.Match[str]], bool]


@dataclass(frozen=True)
class Rule:
    """A pattern over folded text, and the type of what it finds.

    Of two finds that share characters the one of the larger weight stays, then the longer. `check`
    says whether a match is a find; of `signs`, where given, the text must hold one.
    """

    name: str
    label: str
    pattern: re.Pattern[str]
    weight: int
    check: Check
    signs: tuple[str, ...]

    def find(self, folded: str) -> Iterator[Found]:
        """Yield the finds in a folded text."""
        if self.signs and not any(sign in folded for sign in self.signs):
            return
        group = "value" if "value" in self.pattern.groupindex else 0
        for match in self.pattern.finditer(folded):
            start, end = match.span(group)
            if start < end and self.check(match):
                yield Found(Span(start, end, self.label), self.weight)


def _rule(entry: str, pattern: str) -> Rule:
    name, label, weight, *more = entry.split(" | ")
    options = {one.partition(" ")[0]: one.partition(" ")[2] for one in more}
    return Rule(
        name,
        QUASI_IDENTIFIER if label == "quasi" else label,
        re.compile(pattern, re.IGNORECASE if "any" in options else 0),
        {"sure": SURE, "cued": CUED, "shaped": SHAPED, "loose": LOOSE}[weight],
        _CHECKS[options.get("check", "")],
        tuple(options.get("signs", "").split()),
    )


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


def _is_no_modal_may(match: re.Match[str]) -> bool:
    return match.group()[:3] != "May" or bool(re.search("[0-9]", match.group()))


def _is_human_age(match: re.Match[str]) -> bool:
    return int(match["years"]) <= 120


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


_NO_HOSPITAL = re.compile(_PARTS["GENERIC"])


def _is_named(match: re.Match[str]) -> bool:
    """Whether something is left of the name when all that any hospital may be called is taken."""
    name = match["name"]
    generic = _NO_HOSPITAL.match(name)
    is_generic = generic is not None and generic.end() == len(name)
    return not is_generic and not name.endswith(("の", "は", "が", "を", "に", "で", "も"))


def _is_named_english(match: re.Match[str]) -> bool:
    words = [word.strip(".,").lower() for word in match["name"].split()]
    return any(word not in _ENGLISH_GENERIC for word in words)


_CHECKS: dict[str, Check] = {
    "": lambda match: True,
    "is_day": _is_day,
    "is_packed_day": _is_packed_day,
    "is_no_modal_may": _is_no_modal_may,
    "is_human_age": _is_human_age,
    "is_my_number": _is_my_number,
    "is_insurer": _is_insurer,
    "has_four_digits": _has_four_digits,
    "is_named": _is_named,
    "is_named_english": _is_named_english,
}

_VALUES = [re.compile(pattern) for _, pattern in _TABLE["values"]]
_ANY_FRACTION, _DAY_CUE, _SENTENCE = (
    re.compile(_PARTS[name]) for name in ("ANY_FRACTION", "DAY_CUE", "SENTENCE")
)
_MAX_MONTH, _MAX_YEAR = 12, 99


def _scale(wholes: str, pattern: str) -> tuple[re.Pattern[str], frozenset[int]]:
    first, dash, last = wholes.partition("-")
    numbers = range(int(first), int(last) + 1) if dash else map(int, wholes.split())
    return re.compile(pattern), frozenset(numbers)


_SCALES = [
    (*_scale(wholes, f"{cue}{_PARTS['NEAR']}{_PARTS['ANY_FRACTION']}"), True)
    for wholes, cue in _TABLE["scales"]
] + [
    (*_scale(wholes, f"{_PARTS['ANY_FRACTION']} ?(?P<cue>{cue})"), False)
    for wholes, cue in _TABLE["scales behind"]
]
"""Fractions that a scale tells, its possible wholes, and whether its cue stands before."""


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
    for pattern, wholes, is_before in _SCALES:
        for match in pattern.finditer(folded, start, end):
            day_cue = _DAY_CUE.search(folded, start, match.start("value"))
            if is_before and day_cue:
                near = folded[day_cue.start() - 9 : day_cue.start()].lower()
                if match["cue"].lower() not in near:
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


_BEHIND_CUE, _READING, _FIELD_END, _FIELD, _JA_TITLED, _JA_NO_NAME = (
    re.compile(_PARTS[name])
    for name in ("BEHIND_CUE", "READING", "FIELD_END", "FIELD", "JA_TITLED", "JA_NO_NAME")
)
_ENGLISH_NAMES = [
    (re.compile(_PARTS[name]), weight)
    for name, weight in (("DOCTOR", CUED), ("EN_TITLED", CUED), ("EN_CUED", CUED),
                         ("EN_DEGREE", SHAPED))
]  # fmt: skip
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
_KINSHIP = word_set(
    """
    父 母 夫 妻 子 長男 次男 三男 長女 次女 三女 息子 娘 兄 弟 姉 妹 祖父 祖母 孫 叔父 叔母
    伯父 伯母 義父 義母 嫁 婿 甥 姪 友人 知人 内縁 同居人
    """
)
_NO_ENGLISH_NAMES = NO_NAMES | GENERIC | ADVERBS | COPULAS | ARTICLES | OWNERS | RELATIVES | AS


_RELATIVE_ENDS = tuple(
    ["看護師", "医師", "母", "父", "夫", "妻", "娘", "息子", "孫", "業者", "屋", "員", "者", "手"]
)


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
    if bare.startswith(("お", "御")) or bare.endswith(_RELATIVE_ENDS):
        return False
    is_listed = any(bare[:n] in JAPANESE_SURNAMES for n in (1, 2, 3) if n <= len(bare))
    if title in ("さん", "さま", "ちゃん", "くん", "先生"):
        is_kana = bool(re.fullmatch(rf"[{KATA}・]+", bare))
        return (is_listed or 2 <= len(bare) <= 5) and not _JA_NO_NAME.search(bare) and not is_kana
    is_short = len(bare) == 1 and title in ("様", "氏", "君", "殿", "医師")
    return is_listed and not is_short and not _JA_NO_NAME.search(bare)


def _english(folded: str) -> Iterator[Found]:
    for pattern, weight in _ENGLISH_NAMES:
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
        yield Found(
            Span(start, end, IDENTIFIER if is_full_name(name) else QUASI_IDENTIFIER), weight
        )


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
                    names.setdefault(part, QUASI_IDENTIFIER)
        elif len(parts) > 1:
            names.setdefault("".join(parts), IDENTIFIER)
            if len(parts[0]) >= 2:
                names.setdefault(parts[0], QUASI_IDENTIFIER)
        else:
            surname = next((name[:n] for n in (3, 2) if name[:n] in JAPANESE_SURNAMES), "")
            if surname:
                names.setdefault(surname, QUASI_IDENTIFIER)
    return names


GROUPS: dict[str, tuple[Rule, ...]] = {
    group: tuple(_rule(*entry) for entry in _TABLE.get(group, ()))
    for group in ("dates", "numbers", "contact", "hospitals", "names")
}
"""Rules by group; those for names are no plain patterns (`find_names`)."""

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
