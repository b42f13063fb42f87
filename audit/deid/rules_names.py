"""Rules for names of people: behind a cue, before a title, beside an age, and where they return.

A full name identifies alone; a surname or a given name alone is a quasi-identifier (paper 2.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from audit.corpora.mention_words import (
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
from audit.corpora.mentions import find_mentions
from audit.deid.documents import Span
from audit.deid.labels import IDENTIFIER
from audit.deid.labels import QUASI_IDENTIFIER as QUASI
from audit.deid.rule import CUED, HAN, HIRA, KATA, LOOSE, SHAPED, Found

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
