"""What stands at a mark: told by type, form and the cues around it."""

from __future__ import annotations

import pytest

from audit.deid.redact.kinds import KINDS, kind_of
from audit.notes.mention_words import JAPANESE_SURNAMES
from audit.notes.spans import QUASI_IDENTIFIER, Span
from tests.deid.unseen_notes import SETS, marked, unseen

# fmt: off
ROWS = {
    "at ⟦Q:14:30⟧, ⟦Q:7:15 pm⟧, ⟦Q:0630⟧, at ⟦Q:1845⟧, ⟦Q:午前9時⟧、⟦Q:十時半⟧、⟦Q:22:47⟧頃":
        "time " * 7,
    "room ⟦Q:1202⟧ ⟦Q:3:2⟧ ⟦Q:25:10⟧": "other " * 3,
    "in ⟦Q:2015⟧, ⟦Q:平成20年⟧に ⟦Q:昭和62年⟧ ⟦Q:1990s⟧ ⟦Q:2008年⟧": "year " * 5,
    "on ⟦Q:5/3⟧ ⟦Q:令和6年5月⟧ ⟦Q:Monday⟧ ⟦Q:1931⟧ ⟦Q:大正15年⟧ ⟦Q:昭和7年⟧": "date " * 6,
    "born ⟦Q:1985⟧, 生年：⟦Q:1985年⟧ ⟦Q:1985年⟧生": "date " * 3,
    "⟦Q:72歳⟧ ⟦Q:八十九歳⟧ ⟦Q:80代⟧ ⟦Q:3歳2か月⟧ ⟦Q:58⟧ y/o ⟦Q:eighty-nine-year-old⟧ ⟦Q:40s⟧":
        "age " * 7,
    "⟦Q:90歳⟧ ⟦Q:九十二才⟧ ⟦Q:百二歳⟧ ⟦Q:90代⟧ age ⟦Q:101⟧ ⟦Q:ninety-year-old⟧ ⟦Q:old⟧":
        "age_above_89 " * 7,
    "⟦Q:女性⟧ ⟦Q:男の子⟧ ⟦Q:F⟧ ⟦Q:gentleman⟧ ⟦Q:♂⟧": "sex " * 5,
    "in ⟦Q:長野県⟧ ⟦Q:ブラジル⟧ ⟦Q:Oregon⟧ ⟦Q:Japan⟧": "state " * 4,
    "from ⟦Q:Virginia⟧, ⟦Q:Jordan⟧ ⟦Q:Boston⟧": "name " * 3,
    "⟦Q:港区⟧ ⟦Q:Flat 3, 22 Kelvin Road⟧ ⟦Q:4階小児病棟⟧": "place " * 3,
    "〒⟦Q:1138655⟧ ⟦Q:113-8655⟧ zip ⟦Q:02114⟧": "postcode " * 3,
    "⟦Q:みなと病院⟧ ⟦Q:めばえ幼稚園⟧ ⟦Q:(株)丸弘フーズ⟧ ⟦Q:Gull Cove Primary⟧ ⟦Q:Fenwick Dental⟧":
        "organisation " * 5,
    "a ⟦Q:beekeeper⟧, ⟦Q:retired teacher⟧、⟦Q:会社員⟧で⟦Q:元教員⟧の⟦Q:大学生⟧": "profession " * 5,
    "⟦I:Ann Lee⟧ ⟦Q:佐藤⟧さん Mr. ⟦Q:Smith⟧ ⟦PATIENT:Ann⟧": "name " * 4,
    "call ⟦C:555-0101⟧ Fax: ⟦C:555-0102⟧ ⟦C:a@b.jp⟧ ⟦C:www.b.jp/ann⟧ ⟦C:10.1.1.9⟧ ⟦C:none⟧":
        "telephone fax email web_address ip_address other",
    "⟦P:123-45-6789⟧ マイナンバー：⟦P:1234 5678 9012⟧ Medicare no. ⟦P:1EG4⟧ 免許証番号 ⟦P:12345⟧":
        "social_security social_security health_plan licence",
    "MRN ⟦L:12⟧ SSN ⟦P:456⟧ acct # ⟦L:9⟧ serial no. ⟦L:77⟧ plate ⟦L:KT⟧ カルテ番号 ⟦L:3⟧ run ⟦L:5⟧":
        "record_number social_security account device vehicle record_number other_id",
    "the ⟦ward:3W⟧": "other",
}
# fmt: on


@pytest.mark.parametrize("text", ROWS)
def test_form_and_cues_tell_the_kind(text: str) -> None:
    note = marked(text)
    kinds = [kind_of(note.text, span) for span in note.spans]
    assert kinds == ROWS[text].split()


def test_every_gold_mark_of_a_hand_written_note_has_a_kind_of_its_type() -> None:
    of_type = {
        "identifier": {"name"},
        "contact": {"telephone", "fax", "email", "web_address", "ip_address", "other"},
    }
    for name in SETS:
        for note in (*unseen(name, "en"), *unseen(name, "ja")):
            for span in note.spans:
                kind = kind_of(note.text, span)
                assert kind in of_type.get(span.label, KINDS)


def surnames_like_places() -> list[str]:
    return sorted(
        surname for surname in JAPANESE_SURNAMES if kind_of(surname, span_of(surname)) == "place"
    )


def span_of(word: str) -> Span:
    return Span(0, len(word), QUASI_IDENTIFIER)


@pytest.mark.parametrize(
    "frame",
    [
        "{}さんは独居",
        "{}様",
        "{} 様",
        "{}医師に紹介",
        "{}先生",
        "担当Nsは{}",
        "主治医：{}",
        "看護師 {}が同席",
    ],
)
def test_a_title_or_a_role_beside_a_surname_that_is_a_place_too_decides(frame: str) -> None:
    """福島 and 中村 are towns and families."""
    names = surnames_like_places()
    assert len(names) > 30 and {"中村", "福島", "中島"} < set(names)
    start = frame.index("{")
    kinds = {
        kind_of(frame.format(name), Span(start, start + len(name), QUASI_IDENTIFIER))
        for name in names
    }
    assert kinds == {"name"}


def test_a_mark_in_full_width_characters_is_told_as_any_other() -> None:
    assert kind_of("（７３歳）", Span(1, 4, "quasi_identifier")) == "age"
