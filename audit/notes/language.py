"""The language of a note: Japanese, English or neither."""

from __future__ import annotations

import re
from pathlib import Path

from audit.text import word_lists

_SMALL_WORDS = word_lists(Path(__file__).with_suffix(".txt"))
_JAPANESE = re.compile(r"[ぁ-ゖァ-ヺｦ-ﾟ\u3400-\u9fff]")
_WORD = re.compile(r"[^\W\d_]+")
_MIN_FOREIGN = 3


def language_of(text: str) -> str:
    """Return the language of a note: "ja", "en", or "" if it is neither.

    A text with kana or Chinese characters is Japanese. A text in Latin letters is English unless
    it has more small words of other languages than of English.
    """
    if _JAPANESE.search(text):
        return "ja"
    words = [word.casefold() for word in _WORD.findall(text)]
    n_english, n_other = (
        sum(word in _SMALL_WORDS[name] for word in words) for name in ("english", "other")
    )
    n_latin = sum(word[0] < "\u0250" for word in words)
    is_foreign = 2 * n_latin < len(words) or n_other >= max(_MIN_FOREIGN, n_english + 1)
    return "" if is_foreign else "en"
