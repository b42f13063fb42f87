"""The catalogues: both complete, every sentence used, no key missing."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from audit.attack.metrics import GENERAL_ALONE
from audit.attack.scores import SCORES
from audit.attack.verdicts import State
from audit.jobs.service import KINDS
from audit.names.candidates import CONTROL_KINDS
from pages.ui.state import LANGUAGES, words_of

PAGES = Path(__file__).resolve().parents[3] / "pages"
ENGLISH, JAPANESE = words_of("en").sentences, words_of("ja").sentences


def places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


def test_both_catalogues_have_the_same_keys_and_places() -> None:
    assert set(ENGLISH) == set(JAPANESE)
    assert {k: places(v) for k, v in ENGLISH.items()} == {k: places(v) for k, v in JAPANESE.items()}


def test_no_file_has_a_key_twice() -> None:
    for path in sorted(PAGES.glob("ui/words/*/*.json")):
        pairs = json.loads(path.read_text("utf-8"), object_pairs_hook=list)
        assert len(dict(pairs)) == len(pairs) > 0, path.name


def test_no_sentence_is_empty_and_japanese_is_japanese() -> None:
    latin = {
        "app",
        "tab_title",
        "column_q",
        "csv",
        "kind_n",
        "column_f1",
        "column_counts",
        "check_digest",
    }
    for key in ENGLISH:
        assert ENGLISH[key].strip()
        assert ENGLISH[key].isascii() or re.fullmatch(r"[\x00-\x7f·×“”–]+", ENGLISH[key]), key
        has_words = re.search("[A-Za-z]", re.sub(r"\{\w+\}", "", JAPANESE[key]))
        is_latin = key in latin or not has_words
        assert is_latin or re.search("[\u3040-\u30ff\u4e00-\u9fff]", JAPANESE[key]), key


GONE_JAPANESE = {
    "匿名": "非識別化",
    "リスト": "名簿",
    "この機械": "このコンピューター",
    "マシン": "このコンピューター",
    "この環境": "このコンピューター",
    "この端末": "このコンピューター",
    "訓練": "学習",
    "種別": "種類",
    "メンバー": "記録にある人",
    "易しい対照": "見分けやすい対照",
    "難しい対照": "見分けにくい対照",
    "氏名の一覧": "名簿",
    "一覧の氏名": "名簿の氏名",
    "一覧の対照": "名簿の対照",
    "勧告": "監査者の判断",
    "選ばれていません": "未選択",
    "姉妹": "きょうだいモデル",
    "出所": "由来",
    "閾値": "しきい値",
    "際立": "目立つ",
    "知名度": "名前のありふれ度",
    "人気": "名前のありふれ度",
    "普及度": "名前のありふれ度",
    "所属": "記録にあるかどうか",
    "作業場": "準備室",
    "論文の 0": "0（論文の値）",
    "試させ": "攻撃を続ける",
    "診療記録の渡し方": "診療記録",
    "種類を示す札": "種類の名前",
    "患者名簿": "患者台帳",
    "アクセスログ": "アクセス記録",
    "ディレクトリー": "ディレクトリ",
    "メモリー": "メモリ",
    "影のモデル": "シャドーモデル",
    "シナリオ 1": "シナリオ1",
    "シナリオ 2": "シナリオ2",
    "シナリオ {": "シナリオ{",
    "ですか?": "ですか",
    "ましたか?": "ましたか",
    "語りません": "分かりません",
}
"""Japanese phrase that must not come back -> the one for it."""

GONE_ENGLISH = {
    "he": "they",
    "him": "them",
    "his": "their",
    "ask again": "audit again",
    "ask the question again": "start it again",
    "ask for more": "use more",
    "asked about": "tested",
    "asked differently": "set differently",
    "asked something else": "has other settings",
    "nothing has been asked": "there are no jobs",
    "gets this verdict from": "at most 5 % of such lists would give this verdict",
    "more or fewer within the error": "give or take",
    "it is the auditor's": "you decide, not the program",
    "may he try": "may the attack run",
    "what shall be made": "what to make",
    "what stands in": "what is in",
    "stands in the place of": "replace with",
    "stand in the notes": "occur in the notes",
    "names that stand elsewhere": "names that occur elsewhere",
    "whom the truth file knows": "in the truth file",
    "no gold is": "the gold notes have none",
    "the gold has": "the gold notes have",
    "golds": "gold spans",
    "what m_hospital adds": "added by the hospital's model",
    "unknown truth": "unknown status",
    "known truth": "a list that says who is a member",
    "in themselves": "without the hospital model",
    "told by": "told apart by",
    "taken over": "copied",
    "is to be chosen": "choose",
    "at work": "running",
    "its turn to": "its turn",
    "waiting its turn": "waiting for its turn",
    "stopped by a person": "somebody cancelled it",
    "whole or not at all": "not kept half-made",
    "costs next to nothing": "takes almost no time",
    "no part of the question": "not part of the question",
    "speak of the same words": "refer to the same words",
    "where it says the same": "where the answers agree",
    "come to its end": "finished",
    "mend": "correct",
    "but for": "except",
    "taken out for nothing": "taken out needlessly",
    "who is to be measured": "what is to be measured",
    "nobody's": "not personal",
    "look again": "refresh",
    "closed until": "not available until",
    "neither way": "either way",
    "as usual as": "as common as",
    "below everybody": "short of everybody",
    "nothing was there to be found": "there was nothing that the attack had to find",
}
"""English phrase that must not come back -> one that a native speaker would use."""


def find_gone(language: str, sentences: Mapping[str, str]) -> list[str]:
    """Return the phrases of the sentences that must not come back."""
    gone = GONE_JAPANESE if language == "ja" else GONE_ENGLISH
    edge = "" if language == "ja" else r"\b"
    return [
        f"{key}: {phrase} is {instead}"
        for phrase, instead in gone.items()
        for key, sentence in sentences.items()
        if re.search(f"{edge}{re.escape(phrase)}{edge}", sentence, re.IGNORECASE)
    ]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_no_odd_phrase_comes_back_and_one_word_stands_for_one_thing(language: str) -> None:
    mistakes = []
    for folder in (PAGES / "ui" / "words", PAGES.parent / "audit" / "catalogue"):
        for path in sorted((folder / language).glob("*.json")):
            mistakes += find_gone(language, json.loads(path.read_text(encoding="utf-8")))
    if language == "en":  # the engine's sentences are the keys of their translations
        mistakes += find_gone("en", {sentence: sentence for sentence in load_engine_sentences()})
    assert mistakes == []


def load_engine_sentences() -> list[str]:
    path = PAGES.parent / "audit" / "catalogue" / "ja" / "messages.json"
    return list(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("language", "gone"), [("en", GONE_ENGLISH), ("ja", GONE_JAPANESE)])
def test_each_odd_phrase_is_found(language: str, gone: dict[str, str]) -> None:
    for phrase, instead in gone.items():
        sentence = f"前{phrase}後" if language == "ja" else f"Here {phrase}, and more."
        assert f"key: {phrase} is {instead}" in find_gone(language, {"key": sentence})


ENDINGS = re.compile(
    r"below|alt|do|axis|caption|help|hint|title|now|why|see_job|(gone(_do)?)|eyebrow|heading|sentence|footer|\d+"
)
"""What a page's sections add to their key."""


def test_every_sentence_is_used_and_every_use_has_a_sentence() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in PAGES.rglob("*.py"))
    literal = set(re.findall(r"""["']([a-z][a-z0-9_]*)["']""", sources))
    endings = ("link", "title")  # what a page and the router add to its name
    literal |= {f"{page.stem}_{end}" for page in PAGES.glob("*.py") for end in endings}
    prefixes = {p for p in re.findall(r'f"([a-z_]+_)\{', sources)}
    for words in set(re.findall(r'words="([a-z_]+)"', sources)):  # a form's fields
        fields = [key.removeprefix(f"{words}_set_") for key in ENGLISH if f"{words}_set_" in key]
        prefixes |= {f"{words}_{part}_" for part in ("set", "help", *fields)}
    engine = (path.read_text(encoding="utf-8") for path in (PAGES.parent / "audit").rglob("*.py"))
    codes = literal | set(re.findall(r'"([a-z][a-z0-9_]*)"', "\n".join(engine)))

    def is_found(key: str) -> bool:
        """Whether a section adds the key's end to a key of its own: fixed ones, codes, columns."""
        for position in (position for position, letter in enumerate(key) if letter == "_"):
            end = key[position + 1 :].removeprefix("why_")
            if key[:position] in literal | {"column"} and (ENDINGS.fullmatch(end) or end in codes):
                return True
        return key in literal or any(map(key.startswith, prefixes))

    assert {key for key in ENGLISH if not is_found(key)} == set()
    used = set(re.findall(r'(?:say|words)\.(?:text|html)\(\s*"([a-z0-9_]+)"', sources))
    assert len(used) > 20
    assert used <= set(ENGLISH)


def test_every_word_of_the_engine_has_a_sentence_and_every_state_a_rule_of_style() -> None:
    required_keys = {f"kind_{kind}" for kind in ("member", "unknown", *CONTROL_KINDS)}
    required_keys |= {f"state_{state}" for state in get_args(State)}
    required_keys |= {f"who_{guess}" for guess in (GENERAL_ALONE, "popularity")}
    required_keys |= {f"axis_{score}" for score in ("product", "mean_log_ratio")}
    assert {"product", "mean_log_ratio"} <= {kind.name for kind in SCORES}
    required_keys |= {f"measures_score_{kind.name}" for kind in SCORES if kind.is_ranked}
    # Other tests put kinds of theirs beside the real ones.
    kinds = [kind for kind, task in KINDS.items() if task.startswith("audit.")]
    assert len(kinds) == 13
    required_keys |= {f"jobs_kind_{kind}" for kind in kinds if kind != "audit"}
    required_keys |= {"jobs_kind_audit_1", "jobs_kind_audit_2"}
    assert required_keys <= set(ENGLISH)
    sheet = (PAGES / "ui" / "style.css").read_text(encoding="utf-8")
    plain = [state for state in get_args(State) if f".ka-verdict.ka-{state}" not in sheet]
    assert plain == []


def test_values_in_html_are_escaped() -> None:
    html = words_of("en").html("recent_line", hospital="<b>", general="g", scenario=1, n=1, at="")
    assert "&lt;b&gt;" in html and "<b>" not in html


def test_an_unknown_language_and_an_unfilled_place_are_refused() -> None:
    with pytest.raises(ValueError, match="no catalogue"):
        words_of("../en")
    with pytest.raises(KeyError):
        words_of("en").text("k_of_n", k=1)
    assert list(LANGUAGES) == ["en", "ja"]
