"""Read tables of patterns from text files, and bring texts into the form that they match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

try:
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # private modules of this Python version; without them patterns are only slower
    sre = _parser = None

_FOLD = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_FOLD |= dict.fromkeys(map(ord, "\u3000\u00a0\u2002\u2003\u2009\u202f\t"), ord(" "))
_FOLD |= dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff70"), ord("-"))
_FOLD |= dict.fromkeys(map(ord, "\u2018\u2019\u02bb\u02bc"), ord("'"))
_FOLD |= {code: ord(normalize("NFKC", chr(code))) for code in range(0x2F00, 0x2FD6)}


def _list_letters(categories: str) -> str:
    """Return the letters of some Unicode categories in scripts with capitals, as ranges."""
    blocks = (range(0x41, 0x590), range(0x1C80, 0x1CC0), range(0x1E00, 0x2000))
    codes = [code for block in blocks for code in block if category(chr(code)) in categories]
    begins = [code for code in codes if code - 1 not in codes]
    ends = [code for code in codes if code + 1 not in codes]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(begins, ends, strict=True))


CAPITAL, SMALL = _list_letters("Lu Lt"), _list_letters("Ll Mn")
"""Letters of the Latin, Greek, Cyrillic and Armenian scripts; accents count as small letters."""
HAN = r"\u3005\u3006\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaffヶ"
KATA = "ァ-ヴー"
HIRA = "ぁ-ゖ"
IN_KATAKANA = {code: code + 0x60 for code in range(ord("ぁ"), ord("ゖ") + 1)}
"""Hiragana to katakana, for `str.translate`."""


def fold_characters(text: str) -> str:
    """Return a text of the same length in the form that patterns match.

    Full-width letters, digits and signs become plain ones, white space other than line ends becomes
    spaces, dashes become hyphens, curly apostrophes become straight, and a radical used in place of
    a character becomes that character. Offsets do not change.
    """
    return text if text.isascii() and "\t" not in text else text.translate(_FOLD)


def read_pattern_table(
    module: str, **definitions: str
) -> tuple[dict[str, str], dict[str, list[tuple[str, str]]]]:
    """Read the table beside a module, given by its `__file__`; `rules.txt` explains the format.

    Returns
    -------
    parts, groups
        The named patterns, including `SHARED_PARTS` and `definitions`; and for each group its
        entries, each with its pattern.
    """
    return _read_table(Path(module).with_suffix(".txt"), SHARED_PARTS | definitions)


def _read_table(
    path: Path, definitions: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, list[tuple[str, str]]]]:
    parts = dict(definitions)
    groups: dict[str, list[tuple[str, str]]] = {}
    group: list[tuple[str, str]] = []
    text = re.sub(r"(?m)^(?:#.*)?\n", "", path.read_text(encoding="utf-8"))
    for block in re.sub(r"\n +", "\0", text).splitlines():
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


SHARED_PARTS = _read_table(
    Path(__file__).with_suffix(".txt"),
    {"HAN": HAN, "KATA": KATA, "HIRA": HIRA, "CAPITAL": CAPITAL, "SMALL": SMALL},
)[0]
"""The named patterns that every table can use: letters, and those of `patterns.txt`."""


class CompiledParts(dict[str, re.Pattern[str]]):
    """Named patterns, each compiled when it is first used.

    Compiling all of them takes longer than the rest of an import.
    """

    def __init__(
        self,
        parts: Mapping[str, str],
        compile_part: Callable[[str], re.Pattern[str]] = re.compile,
    ) -> None:
        super().__init__()
        self._parts, self._compile_part = parts, compile_part

    def __missing__(self, name: str) -> re.Pattern[str]:
        """Compile a pattern, and keep it."""
        pattern = self[name] = self._compile_part(self._parts[name])
        return pattern


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern so that it is fast where most characters begin no match.

    Python tries every branch at every character if a pattern begins with a look-behind or a word
    border. So the characters with which a match can begin are put in front as a look-ahead, if they
    can be determined.
    """
    beginnings = None
    has_flags = re.match(r"\(\?[a-zA-Z]+\)", pattern)  # these must stay at the very beginning
    if _parser is not None and not has_flags and not flags & re.VERBOSE:
        beginnings = _find_beginnings(_parser.parse(pattern, flags))
    if beginnings is None or beginnings[1]:
        return re.compile(pattern, flags)
    members = f"[{''.join(sorted(beginnings[0]))}]"
    if re.search(r"\(\?[a-z]*i", pattern):  # part of it is in either case
        members = f"(?i:{members})"
    return re.compile(f"(?={members})(?:{pattern})", flags)


def _find_beginnings(parsed: Iterable[Any]) -> tuple[set[str], bool] | None:
    """Return the characters with which a parsed pattern can begin, and whether it can be empty.

    The characters are members of a character class, in the case of the pattern. The result is None
    if they cannot be determined.
    """
    beginnings = set[str]()
    for kind, value in parsed:
        if kind in (sre.ASSERT, sre.ASSERT_NOT, sre.AT):
            continue
        if kind in (sre.LITERAL, sre.IN):
            members = _list_members([(kind, value)] if kind is sre.LITERAL else value)
            return None if members is None else (beginnings | members, False)
        if kind is sre.BRANCH:
            parts = [_find_beginnings(branch) for branch in value[1]]
        elif kind is sre.SUBPATTERN:
            parts = [_find_beginnings(value[3])]
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            parts = [_find_beginnings(value[2])]
        elif kind is sre.ATOMIC_GROUP:
            parts = [_find_beginnings(value)]
        else:
            return None
        certain_parts = [part for part in parts if part is not None]
        if len(certain_parts) < len(parts):
            return None
        beginnings.update(*(members for members, _ in certain_parts))
        is_left_out = "REPEAT" in str(kind) and value[0] == 0
        if not is_left_out and not any(is_empty for _, is_empty in certain_parts):
            return beginnings, False
    return beginnings, True


def _list_members(items: Iterable[Any]) -> set[str] | None:
    """Return characters and ranges as members of a character class; None for anything else."""
    members = set[str]()
    for kind, value in items:
        if kind is sre.RANGE:
            members.add("-".join(re.escape(chr(code)) for code in value))
        elif kind is sre.LITERAL:
            members.add(re.escape(chr(value)))
        else:
            return None
    return members
