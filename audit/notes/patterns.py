"""Tables of patterns in text files, and the form of a text in which they are looked for."""

from __future__ import annotations

import re
from pathlib import Path
from unicodedata import normalize

_FOLD = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_FOLD |= dict.fromkeys(map(ord, "\u3000\u00a0\u2002\u2003\u2009\u202f\t"), ord(" "))
_FOLD |= dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff70"), ord("-"))
_FOLD |= {code: ord(normalize("NFKC", chr(code))) for code in range(0x2F00, 0x2FD6)}

HAN = r"\u3005\u3006\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaffヶ"
KATA = "ァ-ヴー"
HIRA = "ぁ-ゖ"
IN_KATAKANA = {code: code + 0x60 for code in range(ord("ぁ"), ord("ゖ") + 1)}
"""From hiragana to katakana, for `str.translate`."""


def folded_text(text: str) -> str:
    """Return a text of the same length, in which patterns are looked for.

    Full-width letters, digits and signs become plain ones, all blanks but line ends become spaces,
    dashes become hyphens, and radicals that stand for a character become it. Offsets stay.
    """
    return text if text.isascii() and "\t" not in text else text.translate(_FOLD)


def pattern_table(
    module: str, **known: str
) -> tuple[dict[str, str], dict[str, list[tuple[str, str]]]]:
    """Read the table beside a module, its `__file__`; `rules.txt` says how one is written.

    Returns
    -------
    parts, groups
        The named patterns, HAN, KATA, HIRA and `known` ones among them, and by group each entry
        with its pattern.
    """
    parts = {"HAN": HAN, "KATA": KATA, "HIRA": HIRA, **known}
    groups: dict[str, list[tuple[str, str]]] = {}
    group: list[tuple[str, str]] = []
    text = Path(module).with_suffix(".txt").read_text(encoding="utf-8")
    for block in re.sub(r"\n +", "\0", re.sub(r"(?m)^(?:#.*)?\n", "", text)).splitlines():
        first, *lines = block.split("\0")
        named = re.match(r"([A-Z][A-Z0-9_]*) = ?", first)
        if named:
            lines = [first[named.end() :], *lines]
        pattern = re.sub(r"\{([A-Z][A-Z0-9_]*)\}", lambda m: parts[m[1]], "".join(lines))
        if named:
            parts[named[1]] = pattern
        elif first.startswith("["):
            group = groups.setdefault(first.strip("[]"), [])
        else:
            group.append((first, pattern))
    return parts, groups
