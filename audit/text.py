"""Names of people as text: script, order of the parts, comparison, splitting, column headings.

Pure functions on strings; knows no file and no list.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.errors import Message

MAX_NAME_CHARS = 200

# Kana, 々 and 〆, Han (with compatibility and supplementary planes), half-width katakana.
_UNSPACED = re.compile(
    "[\u3040-\u30ff\u3005\u3006\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)

FIRST_HEADINGS = {"firstname", "givenname", "first", "given", "forename", "名"}
LAST_HEADINGS = {"lastname", "surname", "familyname", "last", "family", "姓", "氏", "名字", "苗字"}
FULL_HEADINGS = {"fullname", "氏名", "患者名", "患者氏名"}
# Beside a column of family names these two mean the given name; alone, the whole name.
FULL_OR_FIRST_HEADINGS = {"name", "名前"}


def is_unspaced(text: str) -> bool:
    """Whether `text` is in a script that writes names without spaces (Han, kana)."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def script_of(text: str) -> str:
    """Return the script of a name: "latin", "han_kana" or "other"."""
    if text.isascii():
        return "latin" if any(map(str.isalpha, text)) else "other"
    if is_unspaced(text):
        return "han_kana"
    letters = [ch for ch in text if unicodedata.category(ch).startswith("L")]
    is_latin = bool(letters) and all("LATIN" in unicodedata.name(ch, "") for ch in letters)
    return "latin" if is_latin else "other"


def fold_name(text: str) -> str:
    """Return the form in which names are compared: NFKC, no case, single spaces."""
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def written_name(first: str, last: str) -> str:
    """Return a name as running text has it: "First Last", or 姓名 without a space."""
    if is_unspaced(first + last):
        return last + first
    return " ".join(part for part in (first, last) if part)


def split_name(text: str) -> tuple[str, str]:
    """Split a name in one piece into (first, last).

    "Last, First" at the comma, "First Middle Last" at the last space, "姓 名" at the space. What
    has none of them cannot be split and comes back whole as the last name.
    """
    text = text.strip()
    comma = re.split(r"\s*[,，、]\s*", text, maxsplit=1)
    if len(comma) == 2 and all(comma):
        return comma[1], comma[0]
    words = text.split()
    if len(words) < 2:
        return "", text
    if is_unspaced(text):
        last, first = text.split(maxsplit=1)
    else:
        first, last = text.rsplit(maxsplit=1)
    return first, last


@dataclass(frozen=True)
class NameColumns:
    """Where a table holds names: column indices; either `first` and `last`, or `full`, or none."""

    first: int | None
    last: int | None
    full: int | None

    @property
    def is_empty(self) -> bool:
        """Whether the table holds no names."""
        return self.full is None and (self.first is None or self.last is None)

    @property
    def used(self) -> frozenset[int]:
        """Indices of the columns that are read."""
        return frozenset(c for c in (self.first, self.last, self.full) if c is not None)

    def read(self, row: Sequence[str]) -> tuple[str, str]:
        """Return a row's (first, last), white space stripped."""
        if self.full is not None:
            return split_name(row[self.full])
        assert self.first is not None and self.last is not None
        return row[self.first].strip(), row[self.last].strip()


def heading_key(text: str) -> str:
    """Return a column name without case, width, spaces, underscores and hyphens."""
    return re.sub(r"[\s_\-]+", "", unicodedata.normalize("NFKC", text).casefold())


def find_name_columns(header: Sequence[str]) -> NameColumns:
    """Find the columns that hold names; 姓 and 名 win over a whole name beside them."""
    keys = [heading_key(name) for name in header]
    first, last = _only(keys, FIRST_HEADINGS), _only(keys, LAST_HEADINGS)
    if first is None and last is not None:
        first = _only(keys, FULL_OR_FIRST_HEADINGS)
    if first is not None and last is not None:
        return NameColumns(first=first, last=last, full=None)
    return NameColumns(
        first=None, last=None, full=_only(keys, FULL_HEADINGS | FULL_OR_FIRST_HEADINGS)
    )


def _only(keys: Sequence[str], wanted: set[str]) -> int | None:
    found = [column for column, key in enumerate(keys) if key in wanted]
    if len(found) > 1:
        raise ValueError(
            Message(
                "Columns {one} and {other} hold the same part of the name.",
                one=found[0] + 1,
                other=found[1] + 1,
            )
        )
    return found[0] if found else None


def word_lists(path: Path) -> dict[str, frozenset[str]]:
    """Read lists of words that are shipped: [name] and the words below it; # begins a remark."""
    text = re.sub(r"^#.*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lists = re.findall(r"^\[(\w+)\]$([^\[]*)", text, re.MULTILINE)
    return {name: frozenset(words.split()) for name, words in lists}
