"""Check a user dictionary of MeCab, which MeCab itself maps into memory and follows unchecked.

A compiled dictionary has a head, a trie of words (Darts: `base` and `check` of each unit), tokens
with the numbers of their left and right contexts, and features as text. A trie, token or context
that leads out of the file would end the process or read foreign memory; a word that ends inside a
character would fail in the middle of an audit.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from audit.errors import AuditError
from audit.models.model_folder import COPY_FILE

MAX_DICTIONARY_BYTES = 128_000_000
"""Maximum for one dictionary. The one of disease names (MANBYO) has some 50,000,000 bytes."""
_SUFFIX = ".dic"
_HEAD = struct.Struct("<10I32s")
_MAGIC, _VERSION, _IS_USER = 0xEF718F77, 102, 1
_UNIT = np.dtype([("base", "<i4"), ("check", "<u4")])
_TOKEN = np.dtype(
    [
        ("left", "<u2"),
        ("right", "<u2"),
        ("part_of_speech", "<u2"),
        ("cost", "<i2"),
        ("feature", "<u4"),
        ("compound", "<u4"),
    ]
)
_MAX_WORD_BYTES = 4_000
_USER_DICTIONARY = re.compile(r'\s*-u\s*(?:"([^"]+)"|([^\s"]+))\s*')
# Bytes that must still follow after each lead byte of UTF-8; -1: no character begins so.
_N_FOLLOWING = np.full(256, -1, dtype=np.int8)
for _first, _last, _n in ((0, 0x7F, 0), (0xC2, 0xDF, 1), (0xE0, 0xEF, 2), (0xF0, 0xF4, 3)):
    _N_FOLLOWING[_first : _last + 1] = _n

Ints = NDArray[np.int64]


class Head(NamedTuple):
    """The numbers at the beginning of a dictionary."""

    magic: int
    version: int
    kind: int
    n_words: int
    n_left: int
    n_right: int
    n_trie_bytes: int
    n_token_bytes: int
    n_feature_bytes: int
    reserved: int
    charset: bytes


def find_dictionary_name(option: JsonValue) -> str | None:
    """Return the file of an option `-u FILE.dic`, without its folder; None for other options."""
    match = _USER_DICTIONARY.fullmatch(option) if isinstance(option, str) else None
    name = re.split(r"[/\\]", match[1] or match[2])[-1] if match else ""
    return name if name.endswith(_SUFFIX) else None


def check_dictionary(data: bytes, *, system: str) -> None:
    """Refuse a damaged user dictionary, or one that was not made for the dictionary `system`."""
    if len(data) < _HEAD.size:
        raise _make_damage_error()
    head = _read_head(data)
    sizes = (head.n_trie_bytes, head.n_token_bytes, head.n_feature_bytes)
    is_whole = (
        head.magic ^ _MAGIC == len(data) == _HEAD.size + sum(sizes)
        and head.version == _VERSION
        and head.kind == _IS_USER
        and head.n_trie_bytes % _UNIT.itemsize == 0
        and head.n_token_bytes % _TOKEN.itemsize == 0
    )
    if not is_whole:
        raise _make_damage_error()
    places = np.cumsum([_HEAD.size, *sizes])
    trie, tokens, features = (data[first:last] for first, last in pairwise(places))
    _check_tokens(np.frombuffer(tokens, dtype=_TOKEN), features, head=head)
    _check_trie(np.frombuffer(trie, dtype=_UNIT), n_tokens=len(tokens) // _TOKEN.itemsize)
    _refuse_other_system(head, system=system)


def _read_head(data: bytes) -> Head:
    *numbers, charset = _HEAD.unpack_from(data)
    return Head._make([*numbers, charset.split(b"\0", 1)[0].lower().replace(b"-", b"")])


def _check_tokens(tokens: NDArray[np.void], features: bytes, *, head: Head) -> None:
    """Refuse contexts outside the matrix of costs, and features outside their text."""
    is_text = features.endswith(b"\0")
    try:
        features.decode("utf-8")
    except UnicodeDecodeError:
        is_text = False
    starts = tokens["feature"]
    codes = np.frombuffer(features, dtype=np.uint8)
    is_sound = is_text and len(tokens) > 0 and int(starts.max(initial=0)) < len(features)
    if (
        not is_sound
        or int(tokens["left"].max(initial=0)) >= head.n_right
        or int(tokens["right"].max(initial=0)) >= head.n_left
        or ((codes[starts] & 0xC0) == 0x80).any()
    ):
        raise _make_damage_error()


def _check_trie(units: NDArray[np.void], *, n_tokens: int) -> None:
    """Refuse a trie that leads out of its array, or has words that are no UTF-8."""
    base, check = units["base"].astype(np.int64), units["check"].astype(np.int64)
    places = np.arange(len(units))
    is_end = base < 0
    # MeCab looks up 257 units from every base; the end of a word is at the base itself.
    if (
        not len(units)
        or is_end[0]
        or int(base.max()) + 256 >= len(units)
        or (check[is_end] != places[is_end]).any()
    ):
        raise _make_damage_error()
    values = -base[is_end] - 1
    if ((values >> 8) + (values & 0xFF) > n_tokens).any():
        raise _make_damage_error()
    letters = places - check - 1
    is_edge = (letters >= 0) & (letters < 256) & ~is_end
    is_edge[0] = False
    edges = places[is_edge][np.argsort(check[is_edge], kind="stable")]
    _check_words(base, letters, edges, parents=check[edges], ends=places[is_end])


def _check_words(base: Ints, letters: Ints, edges: Ints, *, parents: Ints, ends: Ints) -> None:
    """Follow all words at once, letter by letter; refuse a trie that is no tree, or no UTF-8.

    `edges` are the units of letters, sorted by the base that they follow (`parents`); `ends` are
    the bases at which a word ends.
    """
    is_seen = np.zeros(len(base), dtype=np.bool_)
    is_word_end = np.zeros(len(base), dtype=np.bool_)
    is_word_end[ends] = True
    bases, n_open = base[:1], np.zeros(1, dtype=np.int8)
    for _ in range(_MAX_WORD_BYTES):
        if not len(bases):
            return
        is_twice = len(np.unique(bases)) < len(bases) or is_seen[bases].any()
        if is_twice or (is_word_end[bases] & (n_open != 0)).any():
            raise _make_damage_error()
        is_seen[bases] = True
        first, last = (np.searchsorted(parents, bases, side=side) for side in ("left", "right"))
        counts = last - first
        rows = np.repeat(np.arange(len(bases)), counts)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        children = edges[first[rows] + offsets]
        codes, open_before = letters[children], n_open[rows]
        is_following = (codes & 0xC0) == 0x80
        if (is_following != (open_before > 0)).any():
            raise _make_damage_error()
        n_open = np.where(is_following, open_before - 1, _N_FOLLOWING[codes]).astype(np.int8)
        if (n_open < 0).any():
            raise _make_damage_error()
        bases = base[children]
    raise _make_damage_error()


def _refuse_other_system(head: Head, *, system: str) -> None:
    """Refuse a dictionary for other contexts than the installed one's: MeCab would crash."""
    installed = _read_system_head(system)
    if installed is None:  # building the tokenizer reports what is missing
        return
    same = ("version", "n_left", "n_right", "charset")
    if any(getattr(head, name) != getattr(installed, name) for name in same):
        raise AuditError(
            "The user dictionary was not compiled for the dictionary {system}.",
            do="In tokenizer_config.json, name the dictionary that it was compiled for, for "
            'example "mecab_dic": "ipadic".',
            system=system,
        )


@lru_cache(maxsize=4)
def _read_system_head(system: str) -> Head | None:
    """Return the head of an installed dictionary; None if it is not installed."""
    spec = find_spec(system)
    if spec is None or spec.origin is None:
        return None
    for folder in ("dicdir", "."):
        file = Path(spec.origin).parent / folder / "sys.dic"
        if file.is_file():
            with file.open("rb") as stream:
                return _read_head(stream.read(_HEAD.size))
    return None


def _make_damage_error() -> AuditError:
    return AuditError("This is not a complete MeCab user dictionary in UTF-8.", do=COPY_FILE)
