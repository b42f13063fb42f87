"""Invented Japanese places of synthetic notes: addresses, hospitals, wards, homes, employers."""

from __future__ import annotations

from collections.abc import Callable

from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.grammar import word_list
from audit.deid.synthetic.people import japanese_name

_KINDS = (
    *("病院", "総合病院", "中央病院", "記念病院", "医療センター", "赤十字病院", "市民病院"),
    *("クリニック", "内科クリニック", "内科医院", "整形外科", "診療所", "医院", "厚生病院"),
    *("リハビリテーション病院", "胃腸科外科", "小児科", "眼科", "耳鼻咽喉科", "循環器病院"),
    *("こどもクリニック", "脳神経外科病院", "産婦人科", "皮フ科", "泌尿器科クリニック"),
)
_CITY_KINDS = (
    *("市立病院", "市民病院", "市立総合病院", "中央病院", "赤十字病院", "医師会病院", "労災病院"),
    *("大学病院", "大学医学部附属病院", "医科大学病院", "がんセンター", "総合医療センター"),
)
_SHORT_KINDS = (
    *(
        "日赤",
        "医大",
        "大",
        "大病院",
        "市民",
        "中央",
        "県立",
        "市立",
        "労災",
        "済生会",
        "医療センター",
    ),
    *("厚生", "大附属", "がんセンター", "こども", "逓信", "共済", "成人病センター", "病院"),
)
_SHORT_PRACTICES = (
    *("眼科", "内科", "医院", "クリニック", "皮膚科", "整形", "耳鼻科", "小児科", "歯科", "胃腸科"),
    *("産婦人科", "外科", "泌尿器科", "メンタル", "ペインクリニック", "脳外科", "レディース"),
)
_BEFORE = ("国立病院機構", "済生会", "医療法人社団", "独立行政法人", "社会医療法人", "聖", "JA")
_HOMES = ("苑", "荘", "の里", "の郷", "ホーム", "園")
_HOME_KINDS = (
    *("特別養護老人ホーム", "介護老人保健施設", "グループホーム", "有料老人ホーム", "ケアハウス"),
    *("サービス付き高齢者向け住宅", "デイサービス", "小規模多機能ホーム", "特養", "老健"),
)
_SCHOOLS = ("高校", "高等学校", "大学", "看護専門学校", "工業高校", "中学校")
_SCHOOLS_OF = (
    (6, ("幼稚園", "保育園", "こども園")),
    (12, ("小学校", "小学校", "学童クラブ")),
    (15, ("中学校", "中学")),
    (18, ("高校", "高等学校")),
)
_COMPANIES = ("工業", "商事", "建設", "運輸", "食品", "電機", "製作所", "不動産", "水産", "農園")
_ROOMS = ("号室", "号室", "号")
_MANSIONS = ("マンション", "ハイツ", "コーポ", "レジデンス", "団地", "メゾン", "荘")


def address(dice: Dice) -> str:
    """Return an address: with prefecture or without, with or without a building."""
    place = dice.pick(word_list("ja", "cities"))
    if dice.chance(0.65):
        place = dice.pick(word_list("ja", "prefectures")) + place
    place += dice.pick(word_list("ja", "towns"))
    one, two, three = dice.between(1, 9), dice.between(1, 40), dice.between(1, 30)
    number = (
        f"{one}-{two}-{three}",
        f"{one}丁目{two}番{three}号",
        f"{one}丁目{two}-{three}",
        f"{two}番地{three}",
        f"{two * 37 + three}",
        f"{two * 11}番地",
    )
    place += number[min(dice.between(0, 8), 5)] if dice.chance(0.6) else number[0]
    if dice.chance(0.2):
        building = dice.pick(word_list("ja", "hospital_words")) + dice.pick(_MANSIONS)
        place += f"{dice.pick((' ', '', '　'))}{building}{dice.between(1, 12)}0{dice.between(1, 9)}"
        place += dice.pick(("", "号室", "号"))
    return place


def hospital(dice: Dice) -> str:
    """Return the name of a hospital or clinic."""
    kind = dice.between(0, 9)
    if kind < 3:
        city = dice.pick(word_list("ja", "cities"))
        return city[:-1] + dice.pick(_CITY_KINDS)
    if kind == 3:
        return dice.pick(word_list("ja", "prefectures")) + dice.pick(("立中央病院", "立こども病院"))
    if kind == 4:
        own = dice.pick(word_list("ja", "hospital_words")) + "会"
        return dice.pick(_BEFORE) + own + dice.pick(("", " ", "")) + _plain(dice)
    return _plain(dice)


def clinic(dice: Dice) -> str:
    """Return the name of a practice, as often as not called after its doctor."""
    if dice.chance(0.55):
        name = japanese_name(dice, sex="M", birth_year=1960).surname
        own = name.kana if dice.chance(0.08) else name.written
        return own + dice.pick(_KINDS[7:])
    return _plain(dice)


def _plain(dice: Dice) -> str:
    words = word_list("ja", "towns" if dice.chance(0.5) else "hospital_words")
    return dice.pick(words) + dice.pick(_KINDS)


def home(dice: Dice) -> str:
    """Return the name of a home for old people, or of a day service."""
    name = dice.pick(word_list("ja", "hospital_words")) + dice.pick(_HOMES)
    return name if dice.chance(0.3) else dice.pick(_HOME_KINDS) + name


def pharmacy(dice: Dice) -> str:
    """Return the name of a pharmacy."""
    return dice.pick(word_list("ja", "hospital_words")) + dice.pick(
        ("薬局", "調剤薬局", "ファーマシー")
    )


def nursing_station(dice: Dice) -> str:
    """Return the name of a home nursing service or a care manager's office."""
    kind = dice.pick(("訪問看護ステーション", "居宅介護支援事業所", "地域包括支援センター"))
    name = dice.pick(word_list("ja", "hospital_words"))
    return name + kind if dice.chance(0.4) else kind + name


def ward(dice: Dice) -> str:
    """Return a ward."""
    number, letter = dice.between(2, 12), dice.pick("ABCEWNS東西南北")
    forms = (
        f"{letter}{number}病棟",
        f"{number}階{letter}病棟",
        f"{number}{letter}病棟",
        f"{letter}{number}",
    )
    return forms[dice.between(0, 2)] if dice.chance(0.9) else forms[0]


def room(dice: Dice) -> str:
    """Return a room."""
    return f"{dice.between(2, 12)}{dice.between(0, 3)}{dice.between(1, 9)}{dice.pick(_ROOMS)}"


def school(dice: Dice, *, age: int = 40) -> str:
    """Return a school for somebody of an age in years."""
    kinds = next((kinds for limit, kinds in _SCHOOLS_OF if age < limit), _SCHOOLS)
    place = dice.pick(word_list("ja", "cities")) if dice.chance(0.4) else ""
    kind = dice.pick(kinds)
    own = dice.pick(word_list("ja", "towns"))
    return f"{place}立{own}{kind}" if place and "大学" not in kind else own + kind


def company(dice: Dice) -> str:
    """Return an employer."""
    name = dice.pick(word_list("ja", "towns" if dice.chance(0.5) else "hospital_words"))
    name += dice.pick(_COMPANIES)
    return dice.pick(("株式会社{}", "{}株式会社", "(株){}", "有限会社{}", "{}")).format(name)


def nickname(dice: Dice) -> str:
    """Return what staff call a hospital or a practice: a town and 日赤, a surname and 眼科."""
    if dice.chance(0.5):
        return dice.pick(word_list("ja", "bare_places")) + dice.pick(_SHORT_KINDS)
    name = japanese_name(dice, sex="M", birth_year=1960, is_wide=True).surname
    return name.written + dice.pick(_SHORT_PRACTICES)


def listed(name: str) -> Callable[[Dice], str]:
    """Return a maker that picks from a list of words."""
    return lambda dice: dice.pick(word_list("ja", name))


PLACES: dict[str, Callable[[Dice], str]] = {
    "address": address,
    "hospital": hospital,
    "clinic": clinic,
    "home": home,
    "pharmacy": pharmacy,
    "station": nursing_station,
    "ward": ward,
    "room": room,
    "school": school,
    "company": company,
    "city": listed("cities"),
    "prefecture": listed("prefectures"),
    "job": listed("jobs"),
    "country": listed("countries"),
    "place": listed("bare_places"),
    "place2": listed("bare_places"),
    "craft": listed("jobs_more"),
    "nickname": nickname,
    "nickname2": nickname,
}
"""Makers of quasi-identifiers by the kind of a slot."""
