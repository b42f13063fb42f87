"""Taggers from packages that somebody installed: GiNZA, spaCy's English pipelines, Presidio.

The packages are detected by their metadata and imported on first use. Nothing is fetched: the error
names a package that is missing. Each tagger reads only notes in its language. Beside another tagger
(`default+ginza`) only its spans of people, places and organisations count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from audit.deid.find.borders import tag_whole_words
from audit.deid.find.rules import is_full_name
from audit.deid.find.windows import cut_windows, join_windows
from audit.errors import AuditError
from audit.notes.language import language_of
from audit.notes.mention_words import JAPANESE_NO_NAME, WORDS
from audit.notes.patterns import CAPITAL, SHARED_PARTS, SMALL, CompiledParts
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, TYPES, Span, Tags, drop_overlaps
from audit.shelf import digest_json
from audit.text import word_lists

PackageSpan = tuple[int, int, str]
"""Start, end and label of a span, as a package gives them."""
SpanFinder = Callable[[Sequence[str]], Iterable[Iterable[PackageSpan]]]
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
"""The beginnings of the names of English pipelines, in order of preference."""
_UNUSED = ("tagger", "parser", "attribute_ruler", "lemmatizer")
_SIZE, _OVERLAP = 4_000, 200
"""Characters of a window: Sudachi reads 49,149 bytes at most, spaCy a million characters."""
_MIN_SCORE = 0.4
"""Of Presidio: spans with a lower score are numbers without a word that explains them."""
_VERSION = 2


def list_installed() -> tuple[str, ...]:
    """Return the packaged taggers whose packages are installed; imports none of them."""
    return tuple(name for name in LANGUAGE if _versions(name))


def packaged_digest(name: str, *, is_beside: bool = False) -> str:
    """Return the digest of an installed tagger: its packages, their versions, its labels."""
    content = [_VERSION, name, is_beside, _versions(name), sorted(_KINDS[name].items())]
    return digest_json(content, sort_keys=False)


def _versions(name: str) -> list[str]:
    """Return the packages of a tagger with their versions; empty if one is not installed."""
    pipeline = _find_pipeline(name)
    try:
        versions = [
            f"{distribution} {version(distribution)}" for distribution in _DISTRIBUTIONS[name]
        ]
    except PackageNotFoundError:
        return []
    if pipeline is None or pipeline.dist is None:
        return []
    return [*versions, f"{pipeline.name} {pipeline.dist.version}"]


def _find_pipeline(name: str) -> EntryPoint | None:
    """Return the pipeline that a tagger uses, as its distribution registers it."""
    pipelines = sorted(entry_points(group="spacy_models"), key=lambda pipeline: pipeline.name)
    starts = ("ja_ginza",) if name == "ginza" else _PIPELINES
    return next(
        (pipeline for start in starts for pipeline in pipelines if pipeline.name.startswith(start)),
        None,
    )


def not_installed(name: str) -> AuditError:
    """Return the error that names the packages that a tagger needs."""
    return AuditError(
        "The packages of this tagger are not installed: {packages}",
        where="tagger",
        do="Install them with pip beside this program, or choose another tagger.",
        packages=_NEEDED[name],
    )


class PackagedTagger:
    """Gives the spans of a package in notes of its language, under the five types.

    If it is used beside another tagger (`is_beside`), it only gives people, places and
    organisations, and leaves out what looks harmless.
    """

    def __init__(self, name: str, *, is_beside: bool = False) -> None:
        if not _versions(name):
            raise not_installed(name)
        self.name, self._is_beside, self._kinds = name, is_beside, _KINDS[name]
        self._language = LANGUAGE[name]
        self.digest = packaged_digest(name, is_beside=is_beside)
        self._find = _load_finder(name, *_versions(name))

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of the five types that this tagger can give."""
        if self._is_beside:
            return (IDENTIFIER, QUASI_IDENTIFIER)
        return (IDENTIFIER, *(label for label in TYPES[1:] if label in self._kinds.values()))

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text; a text in another language has none."""
        return tag_whole_words(texts, self._tag_folded)

    def _tag_folded(self, texts: Sequence[str]) -> Sequence[Tags]:
        text_numbers = [
            number for number, text in enumerate(texts) if language_of(text) == self._language
        ]
        windows = {
            number: cut_windows(texts[number], size=_SIZE, overlap=_OVERLAP)
            for number in text_numbers
        }
        pieces = [
            texts[number][start:end] for number in text_numbers for start, end in windows[number]
        ]
        # No package can read half a surrogate pair.
        answers = iter(
            list(self._find([re.sub("[\ud800-\udfff]", "?", piece) for piece in pieces]))
        )
        tags: list[Tags] = [()] * len(texts)
        for number, text_windows in windows.items():
            text = texts[number]
            spans_of_windows = [
                self._make_spans(text[start:end], next(answers)) for start, end in text_windows
            ]
            tags[number] = join_windows(text_windows, spans_of_windows, n_chars=len(text))
        return tags

    def _make_spans(self, text: str, answer: Iterable[PackageSpan]) -> Tags:
        spans = []
        for *place, label in answer:
            kind = self._kinds.get(label, "")
            start, end = self._trim_to_name(text, place, kind) if self._is_beside else place
            if kind and start < end:
                spans.append(Span(start, end, _type_of(kind, text[start:end])))
        return drop_overlaps(spans)

    def _trim_to_name(self, text: str, place: Sequence[int], kind: str) -> Sequence[int]:
        """Return start and end of a possible name at a place: one line, without titles and roles.

        Both are 0 if it cannot be a name: if it has not the form of a name, or holds a word of
        Japanese notes that occurs in no name.
        """
        start, end = place
        language = self._language
        line = _LINE.match(text, start, end)
        end = line.end() if line else start
        while edge := _BEFORE[language].match(text, start, end):
            start = edge.end()
        while edge := _BEHIND[language].search(text, start, end):
            end = edge.start()
        name = text[start:end]
        is_word = kind == NAME and (
            JAPANESE_NO_NAME.search(name) or _EPONYMS[language].match(text, end)
        )
        is_fit = kind in (NAME, PLACE) and not is_word and _FITS[language].fullmatch(name)
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
_JA_KIN = f"{SHARED_PARTS['JA_KIN']}|孫|三男|三女"
_JA_ROLES = (
    "患者|主治医|担当医|担当|医師|看護師|助産師|保健師|薬剤師|研修医|術者|助手|読影|記載|隊長"
)
_EDGES = {
    "en": (rf"(?:{_EN_WORDS})(?:[\s.,:;]+|$)", rf"[\s.,:;]+(?:{_EN_WORDS})[\s.,:;]*$"),
    "ja": (
        rf"(?:{_JA_ROLES}|(?:{_JA_KIN})(?=[ \u3000\u3040-\u30ff]|$)|[A-Za-z][A-Za-z. ]*)[\s:：]*",
        rf"[\s]*(?:{SHARED_PARTS['JA_TITLE']}|師長|隊長|救急|[A-Za-z]+\.?)$",
    ),
}
_BEFORE, _BEHIND = (
    CompiledParts(
        {language: edges[side] for language, edges in _EDGES.items()},
        lambda pattern: re.compile(pattern, re.IGNORECASE),
    )
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
"""Words behind the name of a person who is no patient: a sign, a score, a disease."""
_LINE = re.compile(r"[^\n]*")
_FITS = {
    "en": re.compile(rf"(?:[{CAPITAL}]\. ?)*[^\W\d_]*[{CAPITAL}][{SMALL}][^\d\n]*"),
    "ja": re.compile(r"[^\dA-Za-z\n]*[\u3041-\u3096\u3400-\u9fff々][^\dA-Za-z\n]*"),
}
"""The form of names: no number, no abbreviation, not all in small letters. In Japanese notes a name
has no Latin letters and is not all in katakana: such words are drugs or scores far more often."""


@lru_cache(maxsize=3)
def _load_finder(name: str, *versions: str) -> SpanFinder:
    """Load the function of a package that finds spans; each is loaded once per process."""
    import spacy

    pipeline = _find_pipeline(name)
    assert pipeline is not None
    if name == "presidio":
        return _make_presidio_finder(spacy.load(pipeline.name))
    # GiNZA's own components need the output of the components before them.
    nlp = spacy.load(pipeline.name, exclude=_UNUSED if name == "spacy" else ())

    def find(texts: Sequence[str]) -> Iterable[Iterable[PackageSpan]]:
        for doc in nlp.pipe(texts):
            yield [(entity.start_char, entity.end_char, entity.label_) for entity in doc.ents]

    return find


def _make_presidio_finder(nlp: Any) -> SpanFinder:
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine
    from tldextract import TLDExtract, tldextract

    # By default it fetches a list of domains as soon as it finds an address.
    tldextract.TLD_EXTRACTOR = TLDExtract(suffix_list_urls=(), cache_dir=None)
    engine = SpacyNlpEngine()
    engine.nlp = {"en": nlp}  # by default it loads a pipeline by name, and fetches it
    analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])

    def find(texts: Sequence[str]) -> Iterable[Iterable[PackageSpan]]:
        for text in texts:
            entities = analyzer.analyze(text, language="en", score_threshold=_MIN_SCORE)
            sorted_entities = sorted(
                entities,
                key=lambda entity: (
                    -entity.score,
                    entity.start - entity.end,
                    entity.start,
                    entity.entity_type,
                ),
            )
            yield [(entity.start, entity.end, entity.entity_type) for entity in sorted_entities]

    return find
