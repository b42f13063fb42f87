"""Days and ages as Japanese synthetic notes write them; one note keeps to one way, mostly."""

from __future__ import annotations

from datetime import date

from audit.deid.japanese_dates import era_year
from audit.deid.synthetic.dice import Dice

_KANJI = "〇一二三四五六七八九"
_LONG = (
    *("western", "western", "western", "era", "era", "slashes", "slashes", "plain slashes"),
    *("letter", "letter slashes", "dashes", "dots", "short", "kanji", "spaced", "packed", "big"),
)
_SHORT = ("月日", "月日", "月日", "/", "/", "0/", "wide /", ".", "kanji")


def kanji_number(number: int) -> str:
    """Return a number below 100 in kanji: 二十三."""
    tens, ones = divmod(number, 10)
    text = "" if not tens else ("十" if tens == 1 else f"{_KANJI[tens]}十")
    return text + (_KANJI[ones] if ones else "") or _KANJI[0]


def sexed_age(years: int, sex: str, dice: Dice) -> str:
    """Return an age in years and a sex, "M" or "F", in one piece: 34F, 58♂, 72歳男."""
    letter, sign, word = (sex, "♂♀"[sex == "F"], "男女"[sex == "F"])
    return dice.pick(
        (f"{years}{letter}",) * 4
        + (f"{years}{sign}",) * 3
        + (f"{years}歳{sign}", f"{years}歳{word}", f"{years}{word}", f"{years}y{letter}")
        + (f"{years}{letter}", f"{max(1, years // 10) * 10}代{sign}", f"{years}歳{letter}")
    )


class DateWriter:
    """Writes the days of one note."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._long = dice.pick(_LONG)
        self._short = dice.pick(_SHORT)
        self._is_steady = dice.chance(0.7)

    def long(self, day: date) -> str:
        """Return a day with its year."""
        style = self._long if self._is_steady else self._dice.pick(_LONG)
        year, month, of_month = day.year, day.month, day.day
        era, letter, n = era_year(day)
        numbered = "元" if n == 1 else str(n)
        if style == "kanji":
            first = "元" if n == 1 else kanji_number(n)
            return f"{era}{first}年{kanji_number(month)}月{kanji_number(of_month)}日"
        return {
            "western": f"{year}年{month}月{of_month}日",
            "era": f"{era}{numbered}年{month}月{of_month}日",
            "slashes": f"{year}/{month:02d}/{of_month:02d}",
            "plain slashes": f"{year}/{month}/{of_month}",
            "letter": f"{letter}{n}.{month}.{of_month}",
            "letter slashes": f"{letter}{n}/{month}/{of_month}",
            "dashes": day.isoformat(),
            "dots": f"{year}.{month}.{of_month}",
            "short": f"{letter}{n:02d}.{month:02d}.{of_month:02d}",
            "spaced": f"{era} {n}年 {month}月 {of_month}日",
            "packed": f"{year}{month:02d}{of_month:02d}",
            "big": f"西暦{year}年{month}月{of_month}日",
        }[style]

    def short(self, day: date) -> str:
        """Return a day without its year."""
        style = self._short if self._is_steady else self._dice.pick(_SHORT)
        if style == "kanji":
            return f"{kanji_number(day.month)}月{kanji_number(day.day)}日"
        sign = style[-1]
        if sign == "日":
            return f"{day.month}月{day.day}日"
        text = f"{day.month}{sign}{day.day}"
        if style.startswith("0"):
            text = f"{day.month:02d}{sign}{day.day:02d}"
        return text.translate(WIDE) if style.startswith("wide") else text.replace(".", "/")

    def month(self, day: date) -> str:
        """Return a month, with its year or without."""
        era, letter, n = era_year(day)
        return self._dice.pick(
            (
                f"{day.year}年{day.month}月",
                f"{era}{n}年{day.month}月",
                f"{day.month}月",
                f"{day.year}/{day.month}",
                f"{letter}{n}年{day.month}月",
            )
        )

    def year(self, day: date) -> str:
        """Return a year."""
        era, letter, n = era_year(day)
        return self._dice.pick(
            (f"{day.year}年", f"{era}{n}年", f"{letter}{n}年", f"{day.year}年", f"{era}{n}年")
        )

    def age(self, years: int, *, days: int) -> str:
        """Return an age with its unit; of infants in months or days."""
        dice = self._dice
        if years == 0:
            if days < 28:
                return dice.pick((f"日齢{days}", f"生後{days}日", f"生後{max(1, days // 7)}週"))
            month = dice.pick(("か月", "ヶ月", "カ月"))
            return dice.pick((f"生後{days // 30}{month}", f"{days // 30}{month}"))
        if years < 4:
            return f"{years}歳{days % 365 * 12 // 365}{dice.pick(('か月', 'ヶ月'))}"
        if dice.chance(0.04):
            return f"{kanji_number(years)}歳" if years < 100 else f"{years}歳"
        return f"{years}{dice.pick(('歳',) * 14 + ('才', ' 歳'))}"

    def tens(self, years: int) -> str:
        """Return an age in tens of years."""
        tens = years // 10 * 10
        return f"{tens}{self._dice.pick(('歳代', '代', '代'))}" if tens else "10歳未満"


WIDE = str.maketrans(
    "0123456789/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz()%+-=:.,",
    "０１２３４５６７８９／ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ（）％＋－＝：．，",
)
