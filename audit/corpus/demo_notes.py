"""The demo's notes, general texts and vocabulary, English and Japanese: invented sentences.

Comes in: names, a seed. Goes out: notes with as many passages and mentions a name as the paper's
tables 3 and 4 have, and what a general model is trained on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.corpus.examine import MENTIONS_PER_NAME, PATTERNS_PER_NAME

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


JAPANESE_PATTERNS: Mapping[int, int] = {2: 4, 1: 16}
JAPANESE_MENTIONS: Mapping[int, int] = {8: 1, 4: 2, 3: 2, 2: 5, 1: 10}

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Pattern:
    """One patient-name pattern: a passage, cut where the name stands (section 3.4)."""

    owner: int
    left: str
    right: str


@dataclass(frozen=True)
class DemoHospital:
    """Notes and the truth about them; `n_mentions[i]` counts the notes that hold name i."""

    notes: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    n_mentions: tuple[int, ...]


@dataclass(frozen=True)
class Language:
    """What differs between the English and the Japanese demo."""

    words: Mapping[str, Sequence[str]]
    openings: Sequence[str]
    sentences: Sequence[str]
    patterns_per_name: Mapping[int, int]
    mentions_per_name: Mapping[int, int]
    general: Sequence[str]
    joiner: str


ENGLISH = Language(
    words=ENGLISH_WORDS,
    openings=NOTE_OPENINGS,
    sentences=NOTE_SENTENCES,
    patterns_per_name=PATTERNS_PER_NAME,
    mentions_per_name=MENTIONS_PER_NAME,
    general=GENERAL_ABOUT_A_NAME + GENERAL_WITHOUT_A_NAME + GENERAL_CLINICAL + NOTE_SENTENCES,
    joiner=" ",
)
JAPANESE = Language(
    words=JAPANESE_WORDS,
    openings=JAPANESE_OPENINGS,
    sentences=JAPANESE_SENTENCES,
    patterns_per_name=JAPANESE_PATTERNS,
    mentions_per_name=JAPANESE_MENTIONS,
    general=JAPANESE_GENERAL,
    joiner="",
)
LANGUAGES = {"en": ENGLISH, "ja": JAPANESE}


def demo_notes(
    names: Sequence[tuple[str, str]],
    *,
    staff: Sequence[str],
    language: str = "en",
    n_notes: int = 1000,
    seed: int,
) -> DemoHospital:
    """Write the notes of a demo hospital.

    Parameters
    ----------
    names
        (first, last) of the patients who are named, in order of `name_id`; as many as the
        language's tables of passages and mentions ask for.
    staff
        Last names of doctors, who are named in many notes.
    language
        "en" or "ja".
    n_notes
        Notes in all; those without a named patient say "the patient".
    """
    spec = LANGUAGES[language]
    n_patterns, n_mentions = _spread(spec.patterns_per_name), _spread(spec.mentions_per_name)
    if len(names) != len(n_patterns):
        raise ValueError(f"{len(names)} names; the tables ask for {len(n_patterns)}")
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(len(names))  # which name is mentioned most is up to chance
    patterns: list[Pattern] = []
    notes: list[str] = []
    counts = [0] * len(names)
    for rank, owner in enumerate(order):
        own = [
            _pattern(int(owner), rng=rng, staff=staff, language=language)
            for _ in range(n_patterns[rank])
        ]
        patterns += own
        counts[owner] = n_mentions[rank]
        for mention in range(n_mentions[rank]):
            chosen = own[mention] if mention < len(own) else own[int(rng.integers(len(own)))]
            name = _surface(names[owner], language)
            notes.append(
                _note(chosen.left + name + chosen.right, rng=rng, staff=staff, language=language)
            )
    while len(notes) < n_notes:
        left, right = _passage(rng, staff=staff, language=language)
        subject = _unnamed_subject(rng, language)
        notes.append(_note(left + subject + right, rng=rng, staff=staff, language=language))
    shuffled = tuple(notes[i] for i in rng.permutation(len(notes)))
    return DemoHospital(notes=shuffled, patterns=tuple(patterns), n_mentions=tuple(counts))


def demo_general_text(
    names: Sequence[tuple[str, str]], *, language: str = "en", seed: int
) -> tuple[str, ...]:
    """Write one short general document per name, in which most names occur in ordinary sentences.

    Parameters
    ----------
    names
        (first, last) of the people who occur, drawn with the generator's weights, repeats kept.
    """
    spec = LANGUAGES[language]
    rng = np.random.default_rng([seed, 2])
    documents = []
    for i, (first, last) in enumerate(names):
        first2, last2 = names[(i * 7 + 1) % len(names)]
        given = {"first": first, "last": last, "first2": first2, "last2": last2, "staff": last2}
        given |= {"he": "he", "his": "his", "named": ""}
        if language == "en":
            given["named"] = fill(NAMED_SENTENCE, rng=rng, words=spec.words, given=given)
        chosen = rng.choice(len(spec.general), size=3)
        documents.append(
            spec.joiner.join(
                fill(spec.general[k], rng=rng, words=spec.words, given=given) for k in chosen
            )
        )
    return tuple(documents)


def demo_vocabulary(parts: Sequence[str], *, language: str = "en") -> tuple[str, ...]:
    """Return the WordPiece vocabulary of the demo, special tokens first.

    English: every word, and every name part in `parts`, is one token; letters and their
    continuations keep everything else spellable. Japanese: Han and kana are single characters
    (BERT's tokenizer splits them), so names have several pieces.
    """
    spec = LANGUAGES[language]
    if language == "ja":
        templates = (
            *spec.general,
            *spec.openings,
            *spec.sentences,
            JAPANESE_HEADING,
            JAPANESE_NAMED,
            *JAPANESE_UNNAMED,
        )
        found = "".join(vocabulary_words(spec.words, templates)) + "".join(parts)
        words = sorted(set(found)) + [f"##{ch}" for ch in sorted(set(found))]
        words += [str(n) for n in range(100)] + [str(y) for y in range(1990, 2020)]
    else:
        templates = (
            *spec.general,
            *spec.openings,
            *spec.sentences,
            HEADING,
            NAMED_SENTENCE,
            *UNNAMED_SUBJECTS,
        )
        letters = [chr(c) for c in (*range(ord("a"), ord("z") + 1), *range(ord("0"), ord("9") + 1))]
        words = sorted({w.lower() for w in vocabulary_words(spec.words, templates)})
        words += [p.lower() for p in parts] + letters + [f"##{ch}" for ch in letters]
        words += list(".,:;'-/()")
    return tuple(dict.fromkeys((*SPECIAL_TOKENS, *words)))


def passage_text(pattern: Pattern) -> str:
    """Return a passage as D_public has it: the name replaced by the placeholder [NAME]."""
    return f"{pattern.left}[NAME]{pattern.right}"


def _spread(table: Mapping[int, int]) -> list[int]:
    return [count for count in sorted(table, reverse=True) for _ in range(table[count])]


def _surface(name: tuple[str, str], language: str) -> str:
    first, last = name
    return f"{last}{first}" if language == "ja" else f"{first} {last}"


def _pattern(
    owner: int, *, rng: np.random.Generator, staff: Sequence[str], language: str
) -> Pattern:
    left, right = _passage(rng, staff=staff, language=language)
    return Pattern(owner=owner, left=left, right=right if language == "ja" else " is a" + right)


def _unnamed_subject(rng: np.random.Generator, language: str) -> str:
    subjects = JAPANESE_UNNAMED if language == "ja" else UNNAMED_SUBJECTS
    return subjects[int(rng.integers(len(subjects)))]


def _passage(rng: np.random.Generator, *, staff: Sequence[str], language: str) -> tuple[str, str]:
    """Return what stands before and after the subject of the five sentences."""
    spec = LANGUAGES[language]
    words = {**spec.words, "staff": staff}
    sex = spec.words["sex"][int(rng.integers(2))]
    male = sex in ("male", "男性")
    given = {"sex": sex, "he": "he" if male else "she", "his": "his" if male else "her"}

    def draw(template: str) -> str:
        return fill(template, rng=rng, words=words, given=given)

    rest = [draw(spec.sentences[k]) for k in rng.choice(len(spec.sentences), size=4, replace=False)]
    if language == "ja":
        left = draw(JAPANESE_HEADING)
        return left, "".join([draw(JAPANESE_NAMED), *rest])
    opening = draw(spec.openings[int(rng.integers(len(spec.openings)))])
    left = f"{opening} " if rng.random() < 0.3 else ""
    left += draw(HEADING)
    return left, " ".join(["", draw(NAMED_SENTENCE), *rest])


def _note(passage: str, *, rng: np.random.Generator, staff: Sequence[str], language: str) -> str:
    """Put a passage between the beginning and the end of a note of its own."""
    spec = LANGUAGES[language]
    words = {**spec.words, "staff": staff}
    given = {"he": "he", "his": "his"}
    n_before = int(rng.integers(1, 3)) if rng.random() < 0.3 else 0  # most begin with the service
    before = rng.choice(len(spec.openings), size=n_before, replace=False)
    after = rng.choice(len(spec.sentences), size=int(rng.integers(1, 4)), replace=False)
    sentences = [fill(spec.openings[k], rng=rng, words=words, given=given) for k in before]
    sentences.append(passage)
    sentences += [fill(spec.sentences[k], rng=rng, words=words, given=given) for k in after]
    return spec.joiner.join(sentences)
