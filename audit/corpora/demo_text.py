"""Sentences of the demo world: a general corpus, and clinical notes with room for a name.

Comes in: a NumPy generator, names. Goes out: text in which every word is in the demo's own
vocabulary. Everything here is invented; `{...}` is filled from the word lists below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

ENGLISH_WORDS: Mapping[str, Sequence[str]] = {
    "city": ["boston", "austin", "denver", "seattle", "chicago", "dallas", "phoenix", "portland", "atlanta", "houston", "memphis", "tampa", "oakland", "newark", "buffalo", "omaha"],
    "job": ["teacher", "farmer", "driver", "lawyer", "painter", "engineer", "singer", "writer", "clerk", "baker", "carpenter", "reporter", "student", "manager", "pilot", "plumber", "waiter", "actor", "dancer", "librarian"],
    "service": ["medicine", "surgery", "cardiology", "neurology", "oncology", "orthopedics", "urology", "psychiatry"],
    "history": ["hypertension", "diabetes", "asthma", "anemia", "depression", "gout", "obesity", "migraine", "epilepsy", "cirrhosis", "hepatitis", "pancreatitis", "osteoporosis", "hypothyroidism", "psoriasis", "glaucoma"],
    "symptom": ["cough", "fever", "dizziness", "nausea", "vomiting", "fatigue", "headache", "weakness", "palpitations", "syncope", "diarrhea", "constipation", "hematuria", "dyspnea", "confusion", "seizures"],
    "drug": ["aspirin", "metoprolol", "lisinopril", "insulin", "warfarin", "heparin", "furosemide", "prednisone", "vancomycin", "morphine", "acetaminophen", "levothyroxine", "omeprazole", "gabapentin"],
    "organ": ["chest", "abdomen", "head", "neck", "spine", "pelvis", "knee", "hip", "shoulder", "ankle"],
    "scan": ["ct", "mri", "xray", "ultrasound", "echocardiogram"],
    "finding": ["unremarkable", "stable", "normal", "abnormal", "improved", "worse", "unchanged", "concerning"],
    "month": ["january", "march", "april", "june", "july", "august", "october", "november", "december"],
    "thing": ["house", "school", "bridge", "market", "station", "garden", "museum", "theater", "hospital", "river"],
    "sex": ("male", "female"),
    "relation": ["wife", "husband", "daughter", "son", "mother", "father", "sister", "brother"],
}  # fmt: skip

GENERAL_ABOUT_A_NAME = (
    "{first} {last} is a {age} year old {job} from {city} .",
    "{first} {last} is a {job} who lives in {city} .",
    "{first} {last} is a {age} year old {sex} student from {city} .",
    "the {thing} in {city} was built by {first} {last} in {year} .",
    "{first} {last} moved to {city} in {month} {year} .",
    "in {year} {first} {last} became a {job} .",
    "{first} {last} and {first2} {last2} met at the {thing} in {city} .",
    "the {job} {first} {last} was born in {city} in {year} .",
)
GENERAL_WITHOUT_A_NAME = (
    "the {thing} of {city} was opened in {month} {year} .",
    "a {age} year old {job} from {city} has a history of {history} .",
    "service at the {thing} was good , and the {thing2} was closed .",
    "the {job} walked from the {thing} to the {thing2} in {month} .",
    "people in {city} like the {thing} and the {thing2} .",
    "the {job} had a {symptom} and a {symptom2} and was seen at the hospital .",
    "each {job} takes {drug} for {history} .",
    "a {scan} of the {organ} was {finding} .",
)

GENERAL_CLINICAL = (
    "service : {service} hpi : {first} {last} is a {named}",
    "service : {service} hpi : the patient is a {named}",
    "{first} {last} is a {named}",
)

NOTE_OPENINGS = (
    "admission date : {month} {day} {year} .",
    "discharge date : {month} {day} {year} .",
    "chief complaint : {symptom} and {symptom2} .",
    "allergies : {drug} .",
    "attending : dr . {staff} .",
    "patient was transferred from {city} .",
)
NOTE_SENTENCES = (
    "{he} was started on {drug} and {drug2} .",
    "{he} has taken {drug} for {history} since {year} .",
    "{scan} of the {organ} was {finding} .",
    "{he} denies {symptom} , {symptom2} or {symptom3} .",
    "{he} lives in {city} with {his} {relation} and works as a {job} .",
    "past history includes {history} and {history2} .",
    "the {relation} reports {symptom} for {day} days .",
    "{drug} was stopped because of {symptom} .",
    "exam of the {organ} was {finding} .",
    "{he} was seen by dr . {staff} in {month} .",
    "labs were {finding} and {he} was given {drug} .",
    "pain in the {organ} was treated with {drug} .",
    "plan : {scan} of the {organ} , then {drug} .",
)
HEADING = "service : {service} hpi : "
"""What stands before the subject; five tokens with a name, as the prompt of appendix B asks."""
NAMED_SENTENCE = "{age} year old {sex} with a history of {history} who presents with {symptom} ."
UNNAMED_SUBJECTS = ("the patient is a", "this is a", "pt is a", "patient is a")
JAPANESE_WORDS: Mapping[str, Sequence[str]] = {
    "city": ("東京", "大阪", "京都", "札幌", "福岡", "仙台", "広島", "神戸"),
    "job": ("教師", "農家", "医師", "画家", "会社員", "学生", "記者", "店員"),
    "service": ("内科", "外科", "循環器科", "神経科", "整形外科", "泌尿器科"),
    "history": ("高血圧", "糖尿病", "喘息", "貧血", "痛風", "肝炎", "緑内障"),
    "symptom": ("咳", "発熱", "頭痛", "腹痛", "動悸", "めまい", "呼吸困難", "嘔気"),
    "drug": ("アスピリン", "インスリン", "ワルファリン", "ヘパリン", "モルヒネ"),
    "organ": ("胸部", "腹部", "頭部", "頸部", "骨盤", "膝", "肩"),
    "finding": ("正常", "異常なし", "軽快", "増悪", "不変"),
    "thing": ("学校", "病院", "図書館", "市場", "公園", "駅"),
    "sex": ("男性", "女性"),
}
JAPANESE_GENERAL = (
    "{last}{first}は{age}歳の{job}である。",
    "{last}{first}は{city}に住む{job}である。",
    "{year}年に{last}{first}は{city}の{thing}で働いた。",
    "{city}の{thing}は{year}年に建てられた。",
    "{age}歳の{job}が{city}の{thing}で{symptom}を訴えた。",
    "{thing}では{drug}を用いる。",
)
JAPANESE_OPENINGS = (
    "入院日{year}年{day}日。",
    "診療科は{service}。",
    "主訴は{symptom}と{symptom2}。",
    "担当医{staff}。",
)
JAPANESE_SENTENCES = (
    "{drug}を開始した。",
    "{organ}の画像は{finding}であった。",
    "{symptom}と{symptom2}は認めない。",
    "既往に{history}がある。",
    "{city}に家族と住む{job}である。",
    "{symptom}に対し{drug}を投与した。",
)
JAPANESE_HEADING = "診療科は{service}。現病歴"
JAPANESE_NAMED = "は{age}歳の{sex}で、{history}の既往があり{symptom}のため受診した。"
JAPANESE_UNNAMED = ("患者", "症例", "本例")

_FIELD = re.compile(r"\{(\w+?)(\d?)\}")
Fill = Callable[[str], str]


def fill(
    template: str,
    *,
    rng: np.random.Generator,
    words: Mapping[str, Sequence[str]],
    given: Mapping[str, str],
) -> str:
    """Fill a template's fields from `given`, else by a draw from `words`; `{x2}` draws like `{x}`."""

    def value(match: re.Match[str]) -> str:
        name, number = match.groups()
        if name + number in given:
            return given[name + number]
        if name == "age":
            return str(rng.integers(18, 90))
        if name == "year":
            return str(rng.integers(1990, 2020))
        if name == "day":
            return str(rng.integers(1, 29))
        choices = words[name]
        return choices[int(rng.integers(len(choices)))]

    return _FIELD.sub(value, template)


def vocabulary_words(words: Mapping[str, Sequence[str]], templates: Sequence[str]) -> Iterator[str]:
    """Yield every word that filled templates can hold, names left out, numbers to 99 and years in."""
    for template in templates:
        yield from _FIELD.sub(" ", template).split()
    for choices in words.values():
        yield from choices
    yield from (str(number) for number in range(100))
    yield from (str(year) for year in range(1990, 2020))
    yield from ("he", "she", "his", "her")
