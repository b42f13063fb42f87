"""Taggers out of packages that a person installed: GiNZA, spaCy's English pipelines, Presidio.

They are found by their metadata, imported once they are asked, and nothing is fetched: a package
that is not there is named in an error. Each reads notes of its language alone. Beside another
tagger (`default+ginza`) only what it says of people, places and organisations counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from audit.deid.borders import whole_finds
from audit.deid.release import language_of
from audit.deid.rules import is_full_name
from audit.deid.tagger import Tags, from_windows, windows_of, without_overlap
from audit.errors import AuditError
from audit.notes.mention_words import JAPANESE_NO_NAME, WORDS
from audit.notes.patterns import CAPITAL, SMALL
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, TYPES, Span
from audit.text import word_lists

Found = tuple[int, int, str]
"""Start, end and label, as a package says them."""
Finder = Callable[[Sequence[str]], Iterable[Iterable[Found]]]
NAME, PLACE, ORGANISATION = "name", "place", "organisation"
LANGUAGE = {"ginza": "ja", "spacy": "en", "presidio": "en"}
TITLES = {"ginza": "GiNZA", "spacy": "spaCy", "presidio": "Presidio"}
_LISTS = word_lists(Path(__file__).with_suffix(".txt"))
_KINDS = {
    name: {
        label: kind
        for kind in (NAME, PLACE, ORGANISATION, *TYPES)
        for label in sorted(_LISTS.get(f"{name}_{kind}", ()))
    }
    for name in LANGUAGE
}
_NEEDED = {
    "ginza": "ja-ginza",
    "spacy": "spacy, en-core-web-sm",
    "presidio": "presidio-analyzer, spacy, en-core-web-sm",
}
_DISTRIBUTIONS = {
    "ginza": ("spacy", "ginza"),
    "spacy": ("spacy",),
    "presidio": ("spacy", "presidio-analyzer"),
}
_PIPELINES = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm")
"""What the names of English pipelines begin with, the one to prefer first."""
_UNUSED = ("tagger", "parser", "attribute_ruler", "lemmatizer")
_SIZE, _OVERLAP = 4_000, 200
"""Characters of a window: Sudachi reads 49,149 bytes at most, spaCy a million characters."""
_MIN_SCORE = 0.4
"""Of Presidio: below stand numbers that no word beside them tells."""
_VERSION = 2


def installed() -> tuple[str, ...]:
    """Return the packaged taggers whose packages are here; imports none of them."""
    return tuple(name for name in LANGUAGE if _versions(name))


def packaged_digest(name: str, *, is_beside: bool = False) -> str:
    """Return the digest of one that is installed: its packages, their versions, its labels."""
    about = [_VERSION, name, is_beside, _versions(name), sorted(_KINDS[name].items())]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def _versions(name: str) -> list[str]:
    """Return the packages of a tagger with their versions; none where one is not installed."""
    pipeline = _pipeline(name)
    try:
        found = [f"{one} {version(one)}" for one in _DISTRIBUTIONS[name]]
    except PackageNotFoundError:
        return []
    if pipeline is None or pipeline.dist is None:
        return []
    return [*found, f"{pipeline.name} {pipeline.dist.version}"]


def _pipeline(name: str) -> EntryPoint | None:
    """Return the pipeline that a tagger reads with, as its distribution registers it."""
    known = sorted(entry_points(group="spacy_models"), key=lambda one: one.name)
    starts = ("ja_ginza",) if name == "ginza" else _PIPELINES
    return next((one for start in starts for one in known if one.name.startswith(start)), None)


def not_installed(name: str) -> AuditError:
    """Return the error that says which packages a tagger needs."""
    return AuditError(
        "The packages of this tagger are not installed: {packages}",
        where="tagger",
        do="Install them with pip beside this program, or choose another tagger.",
        packages=_NEEDED[name],
    )


class PackagedTagger:
    """Finds what a package finds in notes of its language, under the five types.

    With `is_beside` it says of people, places and organisations alone, and what looks harmless is
    left out: it then stands beside another tagger.
    """

    def __init__(self, name: str, *, is_beside: bool = False) -> None:
        if not _versions(name):
            raise not_installed(name)
        self.name, self._is_beside, self._kinds = name, is_beside, _KINDS[name]
        self._language = LANGUAGE[name]
        self.digest = packaged_digest(name, is_beside=is_beside)
        self._find = _loaded(name, *_versions(name))

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of the five types that it can give."""
        if self._is_beside:
            return (IDENTIFIER, QUASI_IDENTIFIER)
        return (IDENTIFIER, *(label for label in TYPES[1:] if label in self._kinds.values()))

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text; of a text in another language none."""
        return whole_finds(texts, self._tagged)

    def _tagged(self, texts: Sequence[str]) -> Sequence[Tags]:
        own = [place for place, text in enumerate(texts) if language_of(text) == self._language]
        windows = {place: windows_of(texts[place], size=_SIZE, overlap=_OVERLAP) for place in own}
        pieces = [texts[place][start:end] for place in own for start, end in windows[place]]
        # No package reads half a surrogate pair.
        answers = iter(list(self._find([re.sub("[\ud800-\udfff]", "?", one) for one in pieces])))
        tags: list[Tags] = [()] * len(texts)
        for place, found in windows.items():
            text = texts[place]
            parts = [self._spans(text[start:end], next(answers)) for start, end in found]
            tags[place] = from_windows(found, parts, n_chars=len(text))
        return tags

    def _spans(self, text: str, answer: Iterable[Found]) -> Tags:
        spans = []
        for *place, label in answer:
            kind = self._kinds.get(label, "")
            start, end = self._personal(text, place, kind) if self._is_beside else place
            if kind and start < end:
                spans.append(Span(start, end, _type_of(kind, text[start:end])))
        return without_overlap(spans)

    def _personal(self, text: str, place: Sequence[int], kind: str) -> Sequence[int]:
        """Return what may be a name in a find, in one line, without titles and roles.

        Nothing, an empty place, in most of what is harmless: what does not fit, or has a word of
        Japanese notes that no person has in a name.
        """
        start, end = place
        language = self._language
        line = _LINE.match(text, start, end)
        end = line.end() if line else start
        while edge := _BEFORE[language].match(text, start, end):
            start = edge.end()
        while edge := _BEHIND[language].search(text, start, end):
            end = edge.start()
        found = text[start:end]
        is_word = kind == NAME and (
            JAPANESE_NO_NAME.search(found) or _EPONYMS[language].match(text, end)
        )
        is_fit = kind in (NAME, PLACE) and not is_word and _FITS[language].fullmatch(found)
        return (start, end) if is_fit else (0, 0)


def _type_of(kind: str, text: str) -> str:
    if kind == NAME:
        return IDENTIFIER if is_full_name(text) else QUASI_IDENTIFIER
    return QUASI_IDENTIFIER if kind in (PLACE, ORGANISATION) else kind


_EN_WORDS = "|".join(
    sorted(
        map(
            re.escape,
            frozenset().union(
                *(
                    WORDS[name]
                    for name in (
                        "no_names",
                        "generic",
                        "relatives",
                        "shouted_no_names",
                        "titles",
                        "suffixes",
                    )
                )
            ),
        )
    )
)
_JA_KIN = "妻|夫|父|母|兄|弟|姉|妹|娘|息子|孫|長男|次男|三男|長女|次女|三女|祖父|祖母"
_JA_ROLES = (
    "患者|主治医|担当医|担当|医師|看護師|助産師|保健師|薬剤師|研修医|術者|助手|読影|記載|隊長"
)
_JA_TITLES = "さん|さま|様|氏|殿|君|くん|ちゃん|先生|医師|看護師|師長|隊長|救急"
_EDGES = {
    "en": (rf"(?:{_EN_WORDS})(?:[\s.,:;]+|$)", rf"[\s.,:;]+(?:{_EN_WORDS})[\s.,:;]*$"),
    "ja": (
        rf"(?:{_JA_ROLES}|(?:{_JA_KIN})(?=[ \u3000\u3040-\u30ff]|$)|[A-Za-z][A-Za-z. ]*)[\s:：]*",
        rf"[\s]*(?:{_JA_TITLES}|[A-Za-z]+\.?)$",
    ),
}
_BEFORE, _BEHIND = (
    {language: re.compile(edges[side], re.IGNORECASE) for language, edges in _EDGES.items()}
    for side in (0, 1)
)
_EPONYMS = {
    "en": re.compile(
        r"(?:'s)?[ -](?:signs?|tests?|scores?|scale|cells?|catheter|shunt|criteria|classification|"
        r"syndrome|disease|procedure|esophagus|mucosa|positive|negative|pos|neg)\b",
        re.IGNORECASE,
    ),
    "ja": re.compile(
        "の?(?:スコア|スケール|分類|徴候|反射|症候群|病(?![院棟室])|式|基準|法|療法|試験|テスト|検査)"
    ),
}
"""What stands behind the name of somebody who is no patient: a sign, a score, a disease."""
_LINE = re.compile(r"[^\n]*")
_FITS = {
    "en": re.compile(rf"(?:[{CAPITAL}]\. ?)*[^\W\d_]*[{CAPITAL}][{SMALL}][^\d\n]*"),
    "ja": re.compile(r"[^\dA-Za-z\n]*[\u3041-\u3096\u3400-\u9fff々][^\dA-Za-z\n]*"),
}
"""What may be a name: no number or abbreviation, nothing in small letters; in Japanese notes no
Latin letters and not katakana alone, which are drugs and scores far more often."""


@lru_cache(maxsize=3)
def _loaded(name: str, *versions: str) -> Finder:
    """Return what finds, ready; loaded once a process."""
    import spacy

    pipeline = _pipeline(name)
    assert pipeline is not None
    if name == "presidio":
        return _presidio(spacy.load(pipeline.name))
    # GiNZA's own parts read what those before them found.
    nlp = spacy.load(pipeline.name, exclude=_UNUSED if name == "spacy" else ())

    def find(texts: Sequence[str]) -> Iterable[Iterable[Found]]:
        for doc in nlp.pipe(texts):
            yield [(one.start_char, one.end_char, one.label_) for one in doc.ents]

    return find


def _presidio(nlp: Any) -> Finder:
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine
    from tldextract import TLDExtract, tldextract

    # Left alone, it asks the internet for a list of domains as soon as an address is found.
    tldextract.TLD_EXTRACTOR = TLDExtract(suffix_list_urls=(), cache_dir=None)
    engine = SpacyNlpEngine()
    engine.nlp = {"en": nlp}  # left alone, it loads a pipeline by name, and fetches it
    analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])

    def find(texts: Sequence[str]) -> Iterable[Iterable[Found]]:
        for text in texts:
            found = analyzer.analyze(text, language="en", score_threshold=_MIN_SCORE)
            order = sorted(
                found, key=lambda one: (-one.score, one.start - one.end, one.start, one.entity_type)
            )
            yield [(one.start, one.end, one.entity_type) for one in order]

    return find
