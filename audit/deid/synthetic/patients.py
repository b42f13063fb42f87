"""Invented patients of synthetic notes: who somebody is in all of the notes about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from audit.deid.name_variants import PersonName
from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.people import english_name, japanese_name

_FIRST_DAY, _N_DAYS = date(2003, 4, 1), 22 * 365
_EARLY_SHARE, _EARLY_DAYS = 0.15, 30 * 365


@dataclass(frozen=True, slots=True)
class PatientFacts:
    """Who a patient is: sex is "M" or "F", `first_day` that of the first note."""

    name: PersonName
    sex: str
    birth: date
    first_day: date
    dice_key: str
    is_wide: bool = False


def patient_facts(seed: int, key: str, *, language: str, is_wide: bool = False) -> PatientFacts:
    """Return the invented patient of a key, of any age, more often old than young.

    Notes of a wide patient have more names and ways of writing, those of training alone.
    """
    dice = Dice(seed, "synthetic patient", key)
    sex = dice.pick("MF")
    first_day = _FIRST_DAY + timedelta(days=dice.between(0, _N_DAYS))
    if dice.chance(_EARLY_SHARE):
        first_day -= timedelta(days=dice.between(0, _EARLY_DAYS))
    kind = dice.between(0, 19)
    age = dice.between(20, 97) if kind > 2 else dice.between(0, 19)
    if kind > 11:
        age = dice.between(60, 94)
    days = age * 1461 // 4 + dice.between(1, 364)
    birth = first_day - timedelta(days=days if age or dice.chance(0.5) else dice.between(1, 27))
    if language == "en":
        name = english_name(dice, sex=sex, is_wide=is_wide)
    else:
        name = japanese_name(dice, sex=sex, birth_year=birth.year, is_wide=is_wide)
    return PatientFacts(name, sex, birth, first_day, key, is_wide)
