"""The rules, group by group: what each finds, and what looks like it and is left alone."""

from __future__ import annotations

import pytest

from audit.deid.rules import RuleTagger
from audit.names.people import insurer_check_digit, my_number_check_digit

SHORT = {
    "identifier": "I", "quasi_identifier": "Q", "personal_id_code": "P", "linkage_code": "L",
    "contact": "C",
}  # fmt: skip


def found(text: str, *groups: str) -> list[str]:
    tagger = RuleTagger(groups) if groups else RuleTagger()
    return [f"{SHORT[s.label]}:{text[s.start : s.end]}" for s in tagger.tag([text])[0]]


@pytest.mark.parametrize(
    "date",
    [
        "2024年5月3日", "２０２４年５月３日", "2024 年 5 月 3 日", "2024年5月", "1998年",
        "平成元年9月26日",
        "令和６年５月３日", "昭和四十五年三月二日", "二〇二四年五月", "昭６３年９月", "5月3日",
        "十二月三日",
        "同年12月", "R6.5.10", "H30/1/5", "2024/05/03", "2024-5-3", "2024.5.3", "S45.3.2",
        "January 5, 2020", "Jan 5th, 2020", "5 January 2020", "05-Jan-2020", "March 2007",
        "03/04/1952", "1-5-08", "2020-01-05", "August 8", "'24/5/3",
    ],
)  # fmt: skip
def test_a_date_is_found_whole(date: str) -> None:
    assert found(f"検査日 {date} に", "dates") == [f"Q:{date}"]


@pytest.mark.parametrize(
    "text",
    [
        "血圧 120/80", "2か月後", "２ヶ月後に施行", "術後12日目に退院", "3日間入院",
        "Levine 3/6", "ＶＡＳ 5.3",
        "2023年版ガイドライン", "リンパ節(2/18)", "may be seen", "5 mg/dL", "HbA1c 6.5",
        "50 may 100",
        "1.5.2 項", "WBC 12000", "10代謝", "12歳以上", "ABO 5歳未満", "Apgar 8/9",
        "第3病日", "T11-12", "S1/2",
    ],
)  # fmt: skip
def test_what_looks_like_a_date_or_an_age_is_left_alone(text: str) -> None:
    assert found(text, "dates") == []


@pytest.mark.parametrize(
    ("text", "ages"),
    [
        ("７０歳，男性．", ["Q:７０歳", "Q:男性"]),
        ("七十二才の女性", ["Q:七十二才", "Q:女性"]),
        ("70代前半", ["Q:70代前半"]),
        ("60歳代", ["Q:60歳代"]),
        ("生後3か月の男児", ["Q:生後3か月", "Q:男児"]),
        ("3歳2か月", ["Q:3歳2か月"]),
        ("年齢：70 性別：女", ["Q:70", "Q:女"]),
        ("a 36-year-old African man", ["Q:36-year-old", "Q:man"]),
        ("a 72 y/o F with", ["Q:72 y/o", "Q:F"]),
        ("seventy-two-year-old", ["Q:seventy-two-year-old"]),
        ("in her 70s", ["Q:70s"]),
        ("at age 45,", ["Q:45"]),
    ],
)
def test_ages_and_the_sex_beside_them(text: str, ages: list[str]) -> None:
    assert found(text, "dates") == ages


def my_number(body: str) -> str:
    return body + my_number_check_digit(body)


def test_a_my_number_without_a_cue_is_known_by_its_check_digit() -> None:
    good = my_number("31415926535")
    wrong = good[:-1] + str((int(good[-1]) + 1) % 10)
    assert found(f"値 {good[:4]}-{good[4:8]}-{good[8:]} です", "numbers") == [
        f"P:{good[:4]}-{good[4:8]}-{good[8:]}"
    ]
    assert found(f"値 {good} です", "numbers") == [f"P:{good}"]
    assert found(f"値 {wrong} です", "numbers") == []
    assert found(f"個人番号：{wrong}", "numbers") == [f"P:{wrong}"]


def test_an_insurer_number_near_its_word_is_known_by_its_check_digit() -> None:
    good = "0613201" + insurer_check_digit("0613201")
    wrong = good[:-1] + str((int(good[-1]) + 1) % 10)
    assert found(f"協会けんぽ {good}", "numbers") == [f"P:{good}"]
    assert found(f"協会けんぽ {wrong}", "numbers") == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("カルテ番号：００１２３４５６", ["L:００１２３４５６"]),
        ("患者ID: A-1234567", ["L:A-1234567"]),
        ("診察券No.12345", ["L:12345"]),
        ("【カルテ番号】28367914", ["L:28367914"]),
        ("MRN: 1234567", ["L:1234567"]),
        ("Medical Record Number: 00-12-34", ["L:00-12-34"]),
        ("基礎年金番号 1234-567890", ["P:1234-567890"]),
        ("運転免許証番号：301234567890", ["P:301234567890"]),
        ("パスポート番号 TK1234567", ["P:TK1234567"]),
        ("SSN 123-45-6789", ["P:123-45-6789"]),
        ("Policy number: ABC12345", ["P:ABC12345"]),
        ("検査番号なし、WBC 12000、患者番号は不明", []),
    ],
)
def test_numbers_behind_their_cues(text: str, numbers: list[str]) -> None:
    assert found(text, "numbers") == numbers


@pytest.mark.parametrize(
    ("text", "contacts"),
    [
        ("電話：03-1234-5678", ["C:03-1234-5678"]),
        ("０９０−１１１１−２２２２へ", ["C:０９０−１１１１−２２２２"]),
        ("TEL 0312345678", ["C:0312345678"]),
        ("(045)123-4567", ["C:(045)123-4567"]),
        ("内線 1234", ["C:1234"]),
        ("call 617-555-1234", ["C:617-555-1234"]),
        ("(617) 555-1234", ["C:(617) 555-1234"]),
        ("taro.yamada@example.co.jp まで", ["C:taro.yamada@example.co.jp"]),
        ("https://example.org/a?b=1 を", ["C:https://example.org/a?b=1"]),
        ("〒113-8655 東京都文京区本郷7-3-1", ["Q:113-8655", "Q:東京都文京区本郷7-3-1"]),
        ("住所：みなと町1-2 202号\n", ["Q:みなと町1-2 202号"]),
        ("横浜市港北区在住", ["Q:横浜市港北区"]),
        ("12 Main Street, Boston, MA 02114", ["Q:12 Main Street", "Q:Boston, MA 02114"]),
        ("Ca 9.8-10.2, ALP 123-456", []),
    ],
)
def test_contacts_and_places(text: str, contacts: list[str]) -> None:
    assert found(text, "contact") == contacts


@pytest.mark.parametrize(
    ("text", "hospitals"),
    [
        ("岡谷塩嶺病院より紹介", ["Q:岡谷塩嶺病院"]),
        ("横浜市立みなと赤十字病院", ["Q:横浜市立みなと赤十字病院"]),
        ("紹介元：みなと医院", ["Q:みなと医院"]),
        ("seen at Massachusetts General Hospital", ["Q:Massachusetts General Hospital"]),
        ("当院、他院、近医、某病院、総合病院、療養型病院、当センター、A病院", []),
        ("the Hospital; Discharge Clinic; Pain Clinic", []),
    ],
)
def test_hospitals(text: str, hospitals: list[str]) -> None:
    assert found(text, "hospitals") == hospitals


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("患者氏名：山田　太郎（ヤマダ　タロウ）", ["I:山田　太郎", "I:ヤマダ　タロウ"]),
        ("主治医：佐藤花子　紹介元：別記", ["I:佐藤花子"]),
        ("担当：佐藤", ["Q:佐藤"]),
        ("【主治医】伊藤 麻衣子\n読影医 飯田", ["I:伊藤 麻衣子", "Q:飯田"]),
        ("記載者：上野くみ子　2018/1/1", ["I:上野くみ子"]),
        ("患者氏名：竹内美月　フリガナ：", ["I:竹内美月"]),
        ("診断：縦隔気腫、読影 異常なし", []),
        ("佐藤医師、鈴木先生、山田さん", ["Q:佐藤", "Q:鈴木", "Q:山田"]),
        ("患者さん、お母さん、看護師さん、担当医師、同様、多様", []),
        ("氏名：高橋健一\n高橋は退院", ["I:高橋健一", "Q:高橋"]),
        ("Patient: John A. Smith. Smith denied", ["I:John A. Smith", "Q:Smith"]),
        ("Dr. Emily Brown and Mr. Jones", ["I:Emily Brown", "Q:Jones"]),
        ("Emily Brown, M.D.", ["I:Emily Brown"]),
        ("seen by Dr. X. She is well. Mr. Jones's wife", ["Q:X", "Q:Jones"]),
        ("John Smith is a 70-year-old man", ["I:John Smith"]),
        ("Name: None. Patient: The patient is stable", []),
    ],
)
def test_names_and_whether_they_are_full(text: str, names: list[str]) -> None:
    assert found(text, "names") == names


def test_a_heavier_rule_takes_the_place_of_a_lighter() -> None:
    assert found("カルテ番号：20240503") == ["L:20240503"]
    assert found("受付 20240503 済") == ["Q:20240503"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("年齢：67歳", ["67歳"]),
        ("年齢 67", ["67"]),
        ("電話 (0594)22-6860", ["(0594)22-6860"]),
        ("TEL：022(874)3837", ["022(874)3837"]),
        ("電話（自宅）03-1234-5678", ["03-1234-5678"]),
        ("続柄：次女", []),
        ("麻酔科医：全身麻酔", []),
        ("かかりつけの田中医院を受診", ["田中医院"]),
        ("かかりつけのさくら病院", ["さくら病院"]),
        ("われわれの病院", []),
    ],
)
def test_what_belongs_to_a_find_and_what_does_not(text: str, found: list[str]) -> None:
    spans = RuleTagger().tag([text])[0]
    assert [text[span.start : span.end] for span in spans] == found
