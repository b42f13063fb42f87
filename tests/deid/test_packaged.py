"""Taggers out of installed packages: by stand-ins for the packages, and by those that are here."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from audit.deid.find.packaged import PackagedTagger, list_installed
from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import find_tagger, list_taggers, load_tagger
from audit.errors import AuditError
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
)

SPACY = """
import re
from types import SimpleNamespace

WORDS = {words!r}


def load(name, exclude=()):
    def pipe(texts):
        for text in texts:
            text.encode()  # as spaCy does, which refuses half a surrogate pair
            found = [(m.start(), m.end(), label) for word, label in WORDS.items()
                     for m in re.finditer(word, text)]
            yield SimpleNamespace(ents=[
                SimpleNamespace(start_char=s, end_char=e, label_=label) for s, e, label in found
            ])
    return SimpleNamespace(pipe=pipe)
"""
PRESIDIO = """
import re
from types import SimpleNamespace


class AnalyzerEngine:
    def __init__(self, nlp_engine, supported_languages):
        assert list(nlp_engine.nlp) == supported_languages == ["en"]

    def analyze(self, text, language, score_threshold):
        import tldextract
        assert tldextract.tldextract.TLD_EXTRACTOR == ((), None), "it would ask the internet"
        found = [("078-05-1121", "PHONE_NUMBER", 0.4), ("078-05-1121", "US_SSN", 0.85),
                 ("Ann Lee", "PERSON", 0.85), ("a@b.org", "EMAIL_ADDRESS", 1.0)]
        return [SimpleNamespace(start=m.start(), end=m.end(), entity_type=label, score=score)
                for word, label, score in found for m in re.finditer(word, text)]
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put stand-ins of packages first on the path, and their metadata."""

    def write_stand_ins(*names: str, **words: str) -> None:
        (tmp_path / "spacy.py").write_text(SPACY.format(words=words), "utf-8")
        presidio = tmp_path / "presidio_analyzer"
        presidio.mkdir()
        (presidio / "__init__.py").write_text(PRESIDIO)
        (presidio / "nlp_engine.py").write_text("class SpacyNlpEngine:\n    nlp = None\n")
        (tmp_path / "tldextract").mkdir()
        (tmp_path / "tldextract/tldextract.py").write_text("")
        (tmp_path / "tldextract/__init__.py").write_text(
            "from . import tldextract\n\n\n"
            "def TLDExtract(suffix_list_urls, cache_dir):\n    return suffix_list_urls, cache_dir\n"
        )
        for name in names:
            folder = tmp_path / f"{name.replace('-', '_')}-0.{len(words)}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Name: {name}\nVersion: 0.{len(words)}\n")
            if name.startswith(("ja_ginza", "en_core")):
                (folder / "entry_points.txt").write_text(f"[spacy_models]\n{name} = {name}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    real_modules = {name: sys.modules.pop(name) for name in _modules()}
    yield write_stand_ins
    for name in _modules():
        del sys.modules[name]
    sys.modules.update(real_modules)


def _modules() -> list[str]:
    """Return what is imported of the packages that have stand-ins."""
    tops = ("spacy", "presidio_analyzer", "tldextract")
    return [name for name in sys.modules if name.partition(".")[0] in tops]


def marked(text: str, spans: object) -> list[tuple[str, str]]:
    """Return the words of spans with their labels."""
    return [(text[span.start : span.end], span.label) for span in spans]  # type: ignore[attr-defined]


def test_labels_become_the_five_types_in_notes_of_the_language(install: Install) -> None:
    install(
        "spacy",
        "ginza",
        "ja_ginza",
        山田太郎="Person",
        陽子="Person",
        小樽="City",
        五十歳="Age",
        緑商事="Company",
        七七一="ID_Number",
        三三九="Phone_Number",
        アスピリン="Drug",
    )
    note = "山田太郎と陽子は小樽の緑商事、五十歳、七七一、三三九、アスピリン\ud800。"
    long = "経過は良好である。\n" * 500 + "陽子が来た。" + "経過は良好である。\n" * 500
    tagger = load_tagger("ginza")
    first, none, second = tag_and_check(tagger, [note, "Ann met 陽子's friend"[:8], long])
    assert marked(note, first) == [
        ("山田太郎", IDENTIFIER),
        ("陽子", QUASI_IDENTIFIER),
        ("小樽", QUASI_IDENTIFIER),
        ("緑商事", QUASI_IDENTIFIER),
        ("五十歳", QUASI_IDENTIFIER),
        ("七七一", LINKAGE_CODE),
        ("三三九", CONTACT),
    ]
    assert none == () and marked(long, second) == [("陽子", QUASI_IDENTIFIER)]
    assert {span.label for span in first} == set(tagger.labels)


def test_beside_another_only_what_may_be_a_name_is_left(install: Install) -> None:
    words = {
        "担当 看護師 みどりさん": "Person",
        "MSW渚Dr": "Person",
        "妻": "Person",
        "既往歴": "Person",
        "ソルデム": "City",
        "小樽": "City",
        "岬眼科": "GOE_Other",
        "緑商事": "Company",
        "二日": "Date",
        "3階東": "Person",
        "松田(?=スコア)": "Person",
        "岸(?=病院)": "Person",
    }
    install("spacy", "ginza", "ja_ginza", "en_core_web_sm", **words)
    note = "。".join([*words, "松田スコア", "岸病院"])
    (spans,) = PackagedTagger("ginza", is_beside=True).tag([note])
    assert [word for word, _ in marked(note, spans)] == ["みどり", "渚", "小樽", "岬眼科", "岸"]
    default, united = (load_tagger(name, device="cpu") for name in ("default", "default+ginza"))
    (by_default,), (together,) = (tag_and_check(tagger, [note]) for tagger in (default, united))
    assert set(by_default) <= set(together) and united.digest != default.digest
    marked_places = {place for span in together for place in range(span.start, span.end)}
    assert all(marked_places.issuperset(range(span.start, span.end)) for span in spans)


def test_english_finds_beside_another(install: Install) -> None:
    words = {
        "Ann Lee MD\nPlan": "PERSON",
        "aspirin": "PERSON",
        "The Patient": "PERSON",
        "CT": "GPE",
        "N. Tran": "PERSON",
        "Ward 4": "FAC",
        "Acme": "ORG",
        "Oban": "GPE",
        "Reyes(?= sign)": "PERSON",
    }
    install("spacy", "en_core_web_sm_other", **words)
    note = " The note of. ".join([*words, "Reyes sign."])
    (spans,) = PackagedTagger("spacy", is_beside=True).tag([note])
    assert marked(note, spans) == [
        ("Ann Lee", IDENTIFIER),
        ("N. Tran", IDENTIFIER),
        ("Oban", QUASI_IDENTIFIER),
    ]


def test_the_surer_of_two_stays_and_no_list_of_domains_is_fetched(install: Install) -> None:
    install("spacy", "presidio-analyzer", "en_core_web_sm")
    note = "Ann Lee, SSN 078-05-1121, a@b.org, was seen on the ward."
    (spans,) = tag_and_check(load_tagger("presidio"), [note])
    assert marked(note, spans) == [
        ("Ann Lee", IDENTIFIER),
        ("078-05-1121", PERSONAL_ID_CODE),
        ("a@b.org", CONTACT),
    ]


def test_what_is_installed_is_listed_with_its_digest(install: Install) -> None:
    ids_before = [tagger.tagger_id for tagger in list_taggers()]
    install("spacy", "ginza", "ja_ginza", 陽子="Person")
    tagger_by_id = {tagger.tagger_id: tagger for tagger in list_taggers()}
    assert list(tagger_by_id)[:3] == ["default", "rules", "ginza"]
    for name in ("ginza", "default+ginza", "rules+ginza"):
        entry = find_tagger(name)
        assert (entry.kind, entry.is_quick) == ("packaged", False)
        tagger = load_tagger(name, device="cpu")
        assert (tagger.name, tagger.digest) == (name, entry.digest)
    assert (
        len({entry.digest for entry in tagger_by_id.values()})
        == len(tagger_by_id)
        >= len(ids_before)
    )


@pytest.mark.skipif(bool(list_installed()), reason="the packages are here")
@pytest.mark.parametrize(
    ("name", "package"),
    [("ginza", "ja-ginza"), ("default+spacy", "en-core-web-sm"), ("presidio", "presidio-analyzer")],
)
def test_what_is_not_installed_says_what_to_install(name: str, package: str) -> None:
    assert name not in [tagger.tagger_id for tagger in list_taggers()]
    for load in (load_tagger, find_tagger):
        with pytest.raises(AuditError, match=re.escape(package)) as refused:
            load(name)
        assert "pip" in str(refused.value)


@pytest.mark.parametrize("name", ["default+", "rules+rules", "ginza+nobody", "+default"])
def test_other_names_are_no_taggers(name: str) -> None:
    for load in (load_tagger, find_tagger):
        with pytest.raises(AuditError, match=r"no such tagger|not installed|each tagger once"):
            load(name)


@pytest.mark.skipif("ginza" not in list_installed(), reason="needs ja-ginza")
def test_ginza_finds_a_name_that_no_cue_tells() -> None:
    note = "昨日は高橋健一と小樽に出かけた。"
    (spans,) = tag_and_check(load_tagger("ginza"), [note])
    assert ("高橋健一", IDENTIFIER) in marked(note, spans)


@pytest.mark.skipif(
    "presidio" not in list_installed(), reason="needs presidio-analyzer and a pipeline"
)
@pytest.mark.parametrize("name", ["spacy", "presidio"])
def test_the_english_ones_find_names_and_addresses(name: str) -> None:
    note = "Yesterday John Smith from Duluth wrote to a.b@example.org about the visit."
    (spans,) = tag_and_check(load_tagger(name), [note])
    assert ("John Smith", IDENTIFIER) in marked(note, spans)
    assert (("a.b@example.org", CONTACT) in marked(note, spans)) == (name == "presidio")
