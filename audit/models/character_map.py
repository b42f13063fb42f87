"""Read the character map of a SentencePiece tokenizer, and refuse a damaged or hostile one.

A map (`precompiled_charsmap`) is a double-array trie of the characters that are replaced, followed
by their replacements, each ended by NUL. The tokenizers library follows the trie without a look at
the array's end, and a replacement may be of any length. So every place that the library can reach
is checked here first.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from audit.errors import AuditError
from audit.models.model_folder import COPY_TOKENIZER

MAX_MAP_BYTES = 1_000_000
"""Maximum for one map. The maps that SentencePiece makes itself have some 250,000 bytes."""
MAX_REPLACEMENT_BYTES = 64
"""Maximum for one replacement. The longest in Unicode's own compatibility forms has 33."""
_MAX_DEPTH = 256
"""Maximum length of a replaced text in bytes. Only the first five are ever followed."""
_UNIT_BYTES = 4
_END_OF_KEY = np.uint32(1 << 8)
_LABEL = np.uint32(1 << 31 | 0xFF)
_VALUE = np.uint32((1 << 31) - 1)
_LETTERS = np.arange(1, 256, dtype=np.uint32)

Units = NDArray[np.uint32]


@dataclass(frozen=True)
class CharacterMap:
    """A checked map: the units of the trie, and the replacements as one text of bytes."""

    units: Units
    texts: bytes

    def replace(self, text: str, *, besides: str = "") -> str:
        """Return a text with the characters replaced that the map replaces, `besides` left out."""
        return text.translate({ord(ch): self._look_up(ch) for ch in {*text}.difference(besides)})

    def _look_up(self, char: str) -> str:
        """Return what stands for a character: the value of the shortest key that it begins with."""
        place = _read_offset(int(self.units[0]))
        for byte in char.encode("utf-8"):
            place ^= byte
            unit = int(self.units[place])
            if unit & int(_LABEL) != byte:
                break
            place ^= _read_offset(unit)
            if unit & int(_END_OF_KEY):
                start = int(self.units[place]) & int(_VALUE)
                return self.texts[start:].split(b"\0", 1)[0].decode("utf-8")
        return char


def decode_character_map(text: JsonValue) -> CharacterMap:
    """Return the map in a setting of tokenizer.json, which is written in base 64."""
    if not isinstance(text, str) or len(text) > 2 * MAX_MAP_BYTES:
        raise _make_map_error()
    return _decode(text)


@lru_cache(maxsize=4)
def _decode(text: str) -> CharacterMap:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _make_map_error() from None
    return read_character_map(data)


def read_character_map(data: bytes) -> CharacterMap:
    """Return the map in the form of SentencePiece; refuse a damaged or hostile one."""
    n_bytes = int.from_bytes(data[:_UNIT_BYTES], "little")
    is_whole = _UNIT_BYTES <= n_bytes <= len(data) - _UNIT_BYTES and n_bytes % _UNIT_BYTES == 0
    if len(data) > MAX_MAP_BYTES or not is_whole:
        raise _make_map_error()
    units = np.frombuffer(data, dtype="<u4", offset=_UNIT_BYTES, count=n_bytes // _UNIT_BYTES)
    character_map = CharacterMap(units.astype(np.uint32), data[_UNIT_BYTES + n_bytes :])
    _check_replacements(_list_values(character_map.units), character_map.texts)
    return character_map


def _read_offset(unit: int) -> int:
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)


def _list_values(units: Units) -> Units:
    """Return the distinct values of all keys; refuse a trie that leads out of its array."""
    is_seen = np.zeros(len(units), dtype=np.bool_)
    values: list[Units] = []
    places = _follow(units, np.zeros(1, dtype=np.uint32))
    for _ in range(_MAX_DEPTH):
        places = np.unique(places)
        places = places[~is_seen[places]]
        if not len(places):
            return np.unique(np.concatenate([*values, np.zeros(0, dtype=np.uint32)]))
        is_seen[places] = True
        children = places[:, None] ^ _LETTERS  # [places, 255]
        is_child = (units[children] & _LABEL) == _LETTERS
        places = _follow(units, children[is_child])
        ends = places[(units[children[is_child]] & _END_OF_KEY) != 0]
        values.append(units[ends] & _VALUE)
    raise _make_map_error()


def _follow(units: Units, nodes: Units) -> Units:
    """Return where the children of some nodes are, before the letter is added."""
    node_units = units[nodes]
    shifts = (node_units & np.uint32(1 << 9)) >> np.uint32(6)
    # In 64 bits, because a large offset that is shifted would come back into the array.
    places = nodes ^ ((node_units.astype(np.uint64) >> np.uint64(10)) << shifts)
    if len(places) and int((places | np.uint64(0xFF)).max()) >= len(units):
        raise _make_map_error()
    return places.astype(np.uint32)


def _check_replacements(starts: Units, texts: bytes) -> None:
    """Refuse replacements that are too long, no UTF-8, or begin outside or inside a character."""
    try:
        texts.decode("utf-8")
    except UnicodeDecodeError:
        raise _make_map_error() from None
    codes = np.frombuffer(texts, dtype=np.uint8)
    if not len(starts):
        return
    if int(starts[-1]) >= len(codes) or ((codes[starts] & 0xC0) == 0x80).any():
        raise _make_map_error()
    ends = np.append(np.flatnonzero(codes == 0), len(codes))
    lengths = ends[np.searchsorted(ends, starts)] - starts
    if int(lengths.max()) > MAX_REPLACEMENT_BYTES:
        raise _make_map_error()


def _make_map_error() -> AuditError:
    return AuditError(
        "The tokenizer's character map (precompiled_charsmap) is damaged, or replaces a "
        "character with an unusually long text.",
        do=COPY_TOKENIZER,
    )
