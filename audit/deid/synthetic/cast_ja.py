"""The people, places, days and numbers of one Japanese synthetic note.

A slot `{@kind}` of the grammar is answered here. People: patient, family, family2, doctor, doctor2,
doctor3, nurse, other, other2; behind a dot the form: surname, given, kana, half_kana, hiragana,
romaji, initials, initial, dotted; `new` draws somebody else each time. In wide notes some people
have names of other countries. Whole names are identifiers, parts
of names quasi-identifiers. Other kinds are those of `NUMBERS` and `PLACES`, age, sex, job, days.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from audit.deid.labels import IDENTIFIER
from audit.deid.labels import QUASI_IDENTIFIER as QUASI
from audit.deid.name_variants import PersonName
from audit.deid.synthetic.dates_ja import DateWriter, sexed_age
from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.names_foreign import foreign_name, foreign_parts
from audit.deid.synthetic.names_ja import named
from audit.deid.synthetic.numbers import NUMBERS
from audit.deid.synthetic.patients import PatientFacts
from audit.deid.synthetic.people import given_name, japanese_name
from audit.deid.synthetic.places_ja import PLACES, school
from audit.deid.synthetic.writer import Piece

_STAFF_BORN = (1945, 1998)
_FOREIGN_SHARE = 0.04
# By the patient's age: below 20, 45, 65, and above; then by the relative's sex.
_RELATIONS = (
    (20, {"F": ("母", "姉", "祖母", "母", "叔母"), "M": ("父", "兄", "祖父", "父", "叔父")}),
    (45, {"F": ("母", "妻", "姉", "妹", "婚約者"), "M": ("父", "夫", "兄", "弟", "友人")}),
    (65, {"F": ("妻", "長女", "母", "姉", "次女"), "M": ("夫", "長男", "弟", "父", "次男")}),
    (999, {"F": ("妻", "長女", "次女", "嫁", "姪"), "M": ("夫", "長男", "次男", "甥", "娘婿")}),
)
_ROLES = (
    "patient",
    "family",
    "family2",
    "doctor",
    "doctor2",
    "doctor3",
    "nurse",
    "other",
    "other2",
    "foreign",
)
# The values that stay the same within a note.
_STEADY = frozenset(
    {"phone", "mobile", "record", "address", "hospital", "clinic", "ward", "room", "home", "job"}
    | {"station", "pharmacy", "insurer", "insured", "city", "school", "company", "extension"}
    | {"craft", "place", "nickname"}
)


_FIELDS = ("", "", "heart", "lung", "gut", "gut", "brain", "bone", "gland", "onco", "skin", "mind")
_HOLIDAYS = ("正月", "お盆", "大型連休", "ゴールデンウィーク", "クリスマス", "敬老の日")


class JapaneseCast:
    """Answers the slots of one note."""

    def __init__(self, facts: PatientFacts, *, seed: int, note: str) -> None:
        self._facts = facts
        self._own = Dice(seed, "synthetic patient's values", facts.dice_key)
        self._dice = Dice(seed, "synthetic note's values", note)
        later = self._dice.between(0, 400) if self._dice.chance(0.6) else 0
        self._fields = Dice(seed, "synthetic field", note)
        self._today = facts.first_day + timedelta(days=later)
        self._years = (self._today - facts.birth).days * 4 // 1461
        self._admitted = self._today - timedelta(days=self._dice.between(2, 45))
        self._course = self._admitted
        self._dates = DateWriter(self._dice)
        self._people: dict[str, tuple[PersonName, str, str]] = {}
        self._steady: dict[str, str] = {}
        self._foreign: dict[str, tuple[str, ...]] = {}
        is_girl = facts.sex == "F"
        self._suffix = self._dice.pick(("ちゃん", "ちゃん" if is_girl else "くん", "さん"))
        self._form = self._dice.pick(("joined",) * 3 + ("spaced",) * 3 + ("wide",) * 2)

    @property
    def field(self) -> str:
        """Of which field of medicine the note is, as fits the patient."""
        if self._years < 15:
            return "child"
        own = "male" if self._facts.sex == "M" else "female"
        return self._fields.pick((*_FIELDS, own, own))

    def value(self, kind: str) -> Piece:
        """Return the value of a slot.

        Raises
        ------
        ValueError
            If there is no such kind.
        """
        who, _, form = kind.partition(".")
        if who in _ROLES:
            return self._named(who, form)
        if who == "job":
            return Piece(self._job(form), QUASI)
        if kind == "school":
            return Piece(self._kept(kind, lambda dice: school(dice, age=self._years)), QUASI)
        if kind == "holiday":
            return Piece(self._dice.pick(_HOLIDAYS), QUASI)
        if kind in ("record.new", "birth.new"):
            return self._of_another(kind)
        if kind in NUMBERS:
            label, maker = NUMBERS[kind]
            return Piece(self._kept(kind, maker), label)
        if kind in PLACES or kind in ("hospital2", "city2", "clinic2", "ward2", "room2"):
            return Piece(self._kept(kind, PLACES[kind.rstrip("2")]), QUASI)
        if kind == "postcode":
            text = f"{self._dice.between(1, 999):03d}-{self._dice.between(0, 9999):04d}"
            return Piece(text if self._dice.chance(0.9) else text.replace("-", ""), QUASI)
        if who in ("age", "sex"):
            return Piece(self._age(form) if who == "age" else self._sex(form), QUASI)
        return Piece(self._dated(kind), QUASI)

    def _of_another(self, kind: str) -> Piece:
        if kind == "record.new":
            label, maker = NUMBERS["record"]
            return Piece(maker(self._dice), label)
        born = self._today - timedelta(days=self._dice.between(400, 33_000))
        return Piece(self._dates.long(born), QUASI)

    def _job(self, form: str) -> str:
        if self._years < 18 and form != "adult":
            names = ("園児", "小学生", "中学生", "高校生")
            return names[min(3, max(0, self._years - 4) // 4)]
        if self._years < 23 and form != "adult":
            return "大学生"
        job = self._kept("job", PLACES["job"])
        is_old = self._years > 68 and form != "adult" and not job.startswith("元")
        return f"元{job}" if is_old and "主婦" not in job else job

    def _kept(self, kind: str, maker: Callable[[Dice], str]) -> str:
        if kind not in _STEADY:
            return maker(self._dice)
        if kind not in self._steady:
            # A record's number, a home and a job belong to the patient, the others to the note.
            is_own = kind in ("record", "address", "job", "school", "company", "insured", "craft")
            self._steady[kind] = maker(self._own if is_own else self._dice)
        return self._steady[kind]

    def _person(self, who: str) -> tuple[PersonName, str, str]:
        if who not in self._people:
            self._people[who] = self._new_person(who)
        return self._people[who]

    def _new_person(self, who: str) -> tuple[PersonName, str, str]:
        if who == "patient":
            return self._facts.name, self._facts.sex, "本人"
        dice = self._dice
        sex = dice.pick("MF")
        if who == "nurse":
            sex = "F" if dice.chance(0.85) else "M"
        born, is_wide = dice.between(*_STAFF_BORN), self._facts.is_wide
        name = japanese_name(dice, sex=sex, birth_year=born, is_wide=is_wide)
        if not who.startswith("family"):
            return name, sex, ""
        own = self._facts
        choices = next(by_sex[sex] for age, by_sex in _RELATIONS if self._years < age)
        relation = dice.pick(choices)
        if relation in ("妻", "夫") and sex == own.sex:
            relation = "姉" if sex == "F" else "兄"
        if dice.chance(0.7):
            given = given_name(dice, sex=sex, birth_year=dice.between(*_STAFF_BORN))
            name = PersonName(own.name.surname, given, "", name.locale)
        return name, sex, relation

    def _named(self, who: str, form: str) -> Piece:
        if who == "foreign":
            return self._of_abroad(who, form or "whole")
        if form == "new":
            self._people.pop(who, None)
            self._foreign.pop(who, None)
            form = ""
        name, _, relation = self._person(who)
        if form == "relation":
            return Piece(relation)
        if form == "suffix":
            return Piece(self._suffix)
        if form in ("", "surname", "given", "kana") and self._is_of_abroad(who):
            return self._of_abroad(who, "part" if form in ("surname", "given") else "whole")
        return named(name, form, usual=self._form, dice=self._dice)

    def _is_of_abroad(self, who: str) -> bool:
        if who not in self._foreign:
            dice = self._own if who == "patient" else self._dice
            is_foreign = self._facts.is_wide and dice.chance(_FOREIGN_SHARE)
            self._foreign[who] = foreign_parts(dice) if is_foreign else ()
        return bool(self._foreign[who])

    def _of_abroad(self, who: str, form: str) -> Piece:
        if not self._foreign.get(who):
            self._foreign[who] = foreign_parts(self._dice)
        parts = self._foreign[who]
        if form == "part":
            # Katakana names are told by their last part or their first, rarely by the middle one.
            return Piece(parts[self._dice.pick((0, -1))], QUASI)
        return Piece(foreign_name(parts, self._dice), IDENTIFIER)

    def _age(self, form: str) -> str:
        dice = self._dice
        if form == "other":
            return f"{dice.between(35, 88)}{dice.pick(('歳', '歳', '歳', '才'))}"
        days, years = (self._today - self._facts.birth).days, self._years
        if form in ("sexed", "other_sexed"):
            sex = self._facts.sex if form == "sexed" else dice.pick("MF")
            return sexed_age(years if form == "sexed" else dice.between(2, 97), sex, dice)
        if form == "earlier":
            return f"{dice.between(min(5, years), max(years - 1, 1))}歳"
        if form == "number":
            return str(years)
        if form == "latin":
            return dice.pick(
                (f"{years} y/o", f"{years}y.o.", f"{years}yo", f"{years}y/o", f"{years}Y")
            )
        if form == "tens":
            return self._dates.tens(years)
        return self._dates.age(years, days=days)

    def _sex(self, form: str) -> str:
        is_female = self._facts.sex == "F"
        if form == "short":
            return "男女"[is_female]
        if form == "latin":
            return "MF"[is_female]
        if form == "sign":
            return "♂♀"[is_female]
        return (("男児", "女児") if self._years < 12 else ("男性", "女性"))[is_female]

    def _dated(self, kind: str) -> str:
        what, _, form = kind.partition(".")
        day = self._day(what, kind_is_month=form == "month")
        writers: dict[str, Callable[[date], str]] = {
            "": self._dates.long,
            "short": self._dates.short,
            "month": self._dates.month,
            "year": self._dates.year,
            "dotted": lambda day: f"{day.month}.{day.day}",
            "slash": lambda day: f"{day.month}/{day.day}",
        }
        if form == "day":
            return f"{day.day}日"
        if form not in writers:
            raise ValueError(f"{kind}: no such value")
        return writers[form](day)

    def _day(self, what: str, *, kind_is_month: bool = False) -> date:
        dice = self._dice
        if what == "course":
            self._course += timedelta(days=dice.between(1, 4))
            return min(self._course, self._today)
        if what == "next":
            return self._today + timedelta(days=dice.between(3, 120))
        if what == "date":
            return self._today - timedelta(days=dice.between(1, 90))
        if what == "past":
            most = 900 if kind_is_month else 9000
            days = dice.between(
                100, max(101, min(most, (self._today - self._facts.birth).days - 1))
            )
            return self._today - timedelta(days=days)
        known = {
            "today": self._today,
            "admitted": self._admitted,
            "discharged": self._today,
            "birth": self._facts.birth,
        }
        if what not in known:
            raise ValueError(f"{what}: no such value")
        return known[what]
