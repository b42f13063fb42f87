"""Rules for hospitals, clinics and universities: quasi-identifiers (paper 2.2)."""

from __future__ import annotations

import re

from audit.corpora.mention_words import word_set
from audit.deid.labels import QUASI_IDENTIFIER as QUASI
from audit.deid.rule import HAN, HIRA, KATA, Rule, rule

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


RULES: tuple[Rule, ...] = (
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
