"""Japanese notes without masks: given a header, mentions and a close with typed placeholders.

Comes in: a Japanese text in which nobody is named. Goes out: the same text with placeholders, so
that the chain can be tried without MIMIC. Ages, sexes and dates that the text has itself are marked
too and keep what they say, a cohort's mean age and the year of an approval as well. No word of the
text is lost.
"""

from __future__ import annotations

import re

from audit.corpora.identities import draw

_HEADERS = (
    "患者氏名：{{Patient Name}}　フリガナ：{{Patient Name Kana}}\n"
    "生年月日：{{Birth Date}}　性別：{{Sex}}\n"
    "患者ID：{{Record Number}}\n住所：〒{{Postal Code}} {{Address}}\n電話：{{Telephone}}\n\n",
    "【患者】{{Patient Name}}様（{{Patient Name Half Kana}}）{{Age}}歳 {{Sex}}\n"
    "【カルテ番号】{{Record Number}}\n【入院日】{{Admission Date}}\n【退院日】{{Discharge Date}}\n"
    "【主治医】{{Physician Name 1}}\n\n",
    "{{Hospital Name}}　{{Ward}}\nID {{Record Number}}　{{Patient Name}}　殿\n"
    "{{Birth Date}}生（{{Age}}歳）\n検査日：{{Examination Date}}　依頼医：{{Physician Name 1}}\n\n",
    "紹介患者：{{Patient Name}}（{{Patient Name Romaji}}）\n職業：{{Occupation}}\n"
    "保険者番号：{{Insurer Number}}　記号・番号：{{Insured Number}}\n"
    "緊急連絡先：{{Family Member Name 1}}（{{Telephone 1}}）\n\n",
    "No.{{Record Number}} {{Patient Initials}} {{Age}}歳{{Sex}}\n"
    "撮影日 {{Examination Date}}　読影医 {{Physician Surname 2}}\n\n",
    "氏名　{{Patient Name}}\n個人番号　{{My Number}}\n基礎年金番号　{{Pension Number}}\n"
    "現住所　{{Address}}\n勤務先　{{Company}}\n\n",
)
_MENTIONS = (
    "{{Patient Surname}}さんに結果を説明した。",
    "{{Patient Surname}}氏の同意を得た。",
    "{{Family Member Name 1}}さん（家族）にも同席していただいた。",
    "{{Physician Surname 1}}医師に相談した。",
    "{{Examination Date}}に{{Hospital Name 1}}より紹介された。",
    "{{Patient Name}}様は{{City}}在住である。",
    "次回は{{Date}}に{{Physician Surname 2}}が診察する。",
)
_CLOSES = (
    "\n\n以上\n{{Hospital Name}}　{{Physician Name 1}}",
    "\n\n記載者：{{Physician Name 1}}　{{Discharge Date}}\n連絡先：{{Telephone 2}}",
    "\n\n読影：{{Physician Name 2}}（確認：{{Physician Surname 1}}）",
    "\n\n問い合わせ：{{Email 1}}　FAX {{Fax 2}}",
    "",
)
N_HEADERS, N_MENTIONS, N_CLOSES = len(_HEADERS), len(_MENTIONS), len(_CLOSES)
_MAX_MENTIONS = 3

_DIGIT = "[0-9０-９]"
_ERA = "(?:明治|大正|昭和|平成|令和|[MTSHR])"
_KEPT = re.compile(
    rf"(?P<age>(?<![.．0-9０-９]){_DIGIT}{{1,3}}\s?(?:歳代|歳|才)(?:{_DIGIT}{{1,2}}[ヶか]月)?)"
    r"|(?P<sex>男性|女性|男児|女児)"
    rf"|(?P<date>(?:{_ERA}\s?{_DIGIT}{{1,2}}|{_DIGIT}{{4}})\s?年(?:\s?{_DIGIT}{{1,2}}\s?月"
    rf"(?:\s?{_DIGIT}{{1,2}}\s?日)?)?|(?<!{_DIGIT}){_DIGIT}{{4}}[/／.．]{_DIGIT}{{1,2}}[/／.．]"
    rf"{_DIGIT}{{1,2}}(?!{_DIGIT})|(?<!{_DIGIT}){_DIGIT}{{1,2}}月{_DIGIT}{{1,2}}日)"
)
_NAMES = {"age": "Age", "sex": "Sex", "date": "Date"}
# No decimal point (３．５), and not inside brackets.
_SENTENCE = re.compile(r"(?:。|(?<!\d)．|．(?!\d))(?=[^」）)\]]|\Z)\n?")


def with_template(text: str, *, seed: int, note: str) -> str:
    """Return a Japanese text with a header, up to three mentions and a close.

    Parameters
    ----------
    text
        Braces in it become brackets, so that nothing in it is taken for a placeholder.
    note
        Which note this is: the same note gets the same templates.
    """
    body = _marked(text.replace("{{", "［［").replace("}}", "］］"))
    header = _HEADERS[draw(seed, "header", note) % N_HEADERS]
    close = _CLOSES[draw(seed, "close", note) % N_CLOSES]
    return header + _with_mentions(body, seed=seed, note=note) + close


def _marked(text: str) -> str:
    def mark(match: re.Match[str]) -> str:
        return f"{{{{{_NAMES[match.lastgroup or 'date']}|={match[0]}}}}}"

    return _KEPT.sub(mark, text)


def _with_mentions(body: str, *, seed: int, note: str) -> str:
    ends = [match.end() for match in _SENTENCE.finditer(body)] or [len(body)]
    n = draw(seed, "mentions", note) % (_MAX_MENTIONS + 1)
    chosen: dict[int, str] = {}
    for place in range(n):
        end = ends[draw(seed, "mention place", note, str(place)) % len(ends)]
        mention = _MENTIONS[draw(seed, "mention", note, str(place)) % N_MENTIONS]
        # At a line's end the mention is a line of its own.
        line = f"{mention}\n" if body[:end].endswith("\n") else mention
        chosen[end] = line
    pieces, done = [], 0
    for end in sorted(chosen):
        pieces += [body[done:end], chosen[end]]
        done = end
    return "".join([*pieces, body[done:]])
