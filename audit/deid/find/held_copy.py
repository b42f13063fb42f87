"""The rule of a copy that is held to its note: the next token goes on with the note or with a tag.

A tokenizer cuts a text where it likes, so a token may end inside a tag, join a tag with characters
of the note, or hold a part of a character. The rule therefore reads tokens as bytes. A copy is a
set of places of an automaton over bytes, because `<` may begin a tag or be a character of the note.
A token is allowed if its bytes lead from one of these places to another. Torch-free.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from audit.models.library import Tokenizer
from audit.notes.formats import MAX_SPAN_CHARS, ScannedTags
from audit.notes.spans import JAPANESE, Span

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_SPACE = "▁"
_SPELLING_DECODERS = {"ByteLevel", "ByteFallback", "Metaspace", "Replace", "Fuse", "Strip"}
"""Decoders of tokenizers whose tokens, put together, are the text. Others add or drop spaces."""
_ROOT = 0


def _map_byte_characters() -> dict[str, int]:
    """Return the byte for each character of byte-level vocabularies.

    Source: Radford et al. 2019, GPT-2: printable bytes stand for themselves, the others for the
    characters from 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + number): byte for number, byte in enumerate(unprintable)
    }


_BYTE_OF = _map_byte_characters()


class TokenSpelling:
    """The bytes of each token of a tokenizer, and a tree of them.

    `unknown` is the token for characters that no token spells; None if the tokenizer has none.
    """

    def __init__(self, tokenizer: Tokenizer, *, decoders: set[str]) -> None:
        self.bytes_of: dict[int, bytes] = {}
        self.unknown: int | None = getattr(tokenizer, "unk_token_id", None)
        self._normalizer = tokenizer.backend_tokenizer.normalizer
        self._children: dict[int, int] = {}
        self._tokens_at: dict[int, list[int]] = {}
        self._n_nodes = 1
        is_byte_level = "ByteLevel" in decoders
        marks_spaces = not decoders.isdisjoint(("Metaspace", "Replace"))
        added: Mapping[int, Any] = getattr(tokenizer, "added_tokens_decoder", {})
        left_out = {number for number, token in added.items() if getattr(token, "special", False)}
        left_out.update(tokenizer.all_special_ids)
        for token, number in tokenizer.get_vocab().items():
            if number in left_out:
                continue
            if number in added:
                content = str(added[number].content).encode()
            elif is_byte_level:
                is_bytes = all(char in _BYTE_OF for char in token)
                content = bytes(_BYTE_OF[char] for char in token) if is_bytes else b""
            elif (byte := _BYTE.fullmatch(token)) and "ByteFallback" in decoders:
                content = bytes([int(byte[1], 16)])
            else:
                content = (token.replace(_SPACE, " ") if marks_spaces else token).encode()
            if content:
                self.bytes_of[number] = content
                self._add(content, number)
        self._spelled: dict[str, tuple[bytes, ...]] = {}
        self._prefix = self._normalize("a").partition("a")[0]

    def _add(self, content: bytes, number: int) -> None:
        node = _ROOT
        for byte in content:
            key = node << 8 | byte
            if key not in self._children:
                self._children[key] = self._n_nodes
                self._n_nodes += 1
            node = self._children[key]
        self._tokens_at.setdefault(node, []).append(number)

    def find_child(self, node: int, byte: int) -> int | None:
        """Return the node of the tree behind a node and a byte; None if no token goes there."""
        return self._children.get(node << 8 | byte)

    def tokens_at(self, node: int) -> Sequence[int]:
        """Return the tokens whose bytes lead to a node."""
        return self._tokens_at.get(node, ())

    def spell(self, char: str) -> tuple[bytes, ...]:
        """Return the ways to write a character of a note in tokens; none if there is no way.

        The ways are the character itself, and what the tokenizer makes of it, as "A" of a wide A.
        """
        if char not in self._spelled:
            normal = self._normalize(char).removeprefix(self._prefix).replace(_SPACE, " ")
            forms = dict.fromkeys((char, normal))
            self._spelled[char] = tuple(
                form.encode() for form in forms if form and self.is_spelled(form)
            )
        return self._spelled[char]

    def is_spelled(self, text: str) -> bool:
        """Whether tokens exist for all characters, or bytes, of a text: a copy never gets stuck."""
        return all(
            self._is_token(char.encode()) or all(self._is_token(bytes([b])) for b in char.encode())
            for char in text
        )

    def _is_token(self, content: bytes) -> bool:
        node: int | None = _ROOT
        for byte in content:
            node = None if node is None else self.find_child(node, byte)
        return node in self._tokens_at

    def _normalize(self, text: str) -> str:
        return text if self._normalizer is None else str(self._normalizer.normalize_str(text))


def spell_tokens(tokenizer: Tokenizer) -> TokenSpelling | None:
    """Return the bytes of a tokenizer's tokens; None if its tokens do not add up to the text."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    decoders = _list_decoders(json.loads(tokenizer.backend_tokenizer.to_str()).get("decoder"))
    return TokenSpelling(tokenizer, decoders=decoders) if decoders <= _SPELLING_DECODERS else None


def _list_decoders(decoder: Mapping[str, Any] | None) -> set[str]:
    if decoder is None:
        return {""}
    parts = decoder.get("decoders")
    if parts is None:
        return {str(decoder["type"])}
    return {name for part in parts for name in _list_decoders(part)}


class _Place(NamedTuple):
    """A place in a copy.

    `n_read` characters of the note were copied. `label` is the number of the open tag, None outside
    tags, and `start` is the character that it stands before. `rest` are the bytes of a character or
    a tag that were not written yet; `then` is the place behind them. `spans` are the closed tags,
    the last one first, each with those before it.
    """

    n_read: int
    label: int | None = None
    start: int = 0
    spans: _Spans | None = None
    rest: bytes = b""
    then: _Place | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What decides how a copy goes on from here."""
        return self.n_read, self.label, self.start, self.rest, self.then and self.then.label


class _Spans(NamedTuple):
    last: Span
    earlier: _Spans | None


@dataclass(frozen=True)
class CopyRule:
    """The rule for the copy of one note; `tags` opens and closes each of `labels`.

    `note_tokens` are the tokens of the note as its tokenizer cuts it.

    The copy may begin with a space, which some tokenizers put before every text. A tag begins
    before a character that is not white space and ends within the longest span. A character that no
    token spells is left out, or the unknown token stands for it.
    """

    spelling: TokenSpelling
    text: str
    labels: tuple[str, ...]
    tags: tuple[tuple[bytes, bytes], ...]
    note_tokens: tuple[int, ...] = ()

    @cached_property
    def token_at(self) -> dict[int, int]:
        """The token of the note that begins at a character, for each character with one."""
        tokens: dict[int, int] = {}
        copy = self.begin()
        with suppress(KeyError):  # the tokenizer changed the note here
            for token in self.note_tokens:
                n_read = copy.n_read
                copy.take(token)
                tokens[n_read] = token
        return tokens

    def begin(self) -> HeldCopy:
        """Return a copy of which nothing is written."""
        return HeldCopy(self)

    def read(self, tokens: Iterable[int], forced: Collection[int] = ()) -> FinishedCopy:
        """Return the copy that allowed tokens make; `forced` are numbers of tokens."""
        copy, places = self.begin(), list[int]()
        number = -1
        for number, token in enumerate(tokens):
            if number in forced:
                places.append(copy.n_read)
            copy.take(token)
        if number + 1 in forced:
            places.append(copy.n_read)
        return FinishedCopy(copy.scanned(), tuple(places))


class FinishedCopy(NamedTuple):
    """A copy that was held to its note.

    At the characters `forced` of the note the model would have left it.
    """

    scanned: ScannedTags
    forced: tuple[int, ...]


def spell_tags(
    spelling: TokenSpelling, labels: Sequence[str], *, language: str
) -> tuple[tuple[bytes, bytes], ...] | None:
    """Return the opening and the closing tag of each label; None if tokens cannot write them."""
    names = [JAPANESE.get(label, label) if language == "ja" else label for label in labels]
    tags = [(f"<{name}>", f"</{name}>") for name in names]
    if not all(spelling.is_spelled(opening + closing) for opening, closing in tags):
        return None
    return tuple((opening.encode(), closing.encode()) for opening, closing in tags)


class HeldCopy:
    """A copy that is being written."""

    def __init__(self, rule: CopyRule) -> None:
        self._rule, self._tags = rule, rule.tags
        begin = _Place(0)
        self._places = self._reach([begin, _Place(0, rest=b" ", then=begin)])
        self._next: dict[int, list[_Place]] = {}

    def list_tokens(self) -> list[int]:
        """Return the tokens that may come next, without those that end an answer."""
        self._next = {}
        self._walk(_ROOT, self._places)
        unknown = self._rule.spelling.unknown
        if unknown is not None and (places := self._pass_unknown()):
            self._next[unknown] = places
        return sorted(self._next)

    def _walk(self, node: int, places: Sequence[_Place]) -> None:
        """Collect the tokens below a node of the tree that lead on from some places."""
        spelling = self._rule.spelling
        for byte, next_places in self._step(places).items():
            child = spelling.find_child(node, byte)
            if child is None:
                continue
            for token in spelling.tokens_at(child):
                self._next[token] = next_places
            self._walk(child, next_places)

    @property
    def is_whole(self) -> bool:
        """Whether the copy may end here: the note is copied, and no tag is open."""
        return any(map(self._is_end, self._places))

    @property
    def n_read(self) -> int:
        """The characters of the note that are copied."""
        return max(place.n_read for place in self._places)

    def _is_end(self, place: _Place) -> bool:
        return place.n_read == len(self._rule.text) and place.label is None and not place.rest

    def find_repair(self, token: int, allowed: Collection[int]) -> int | None:
        """Return the note's own token in place of one that a model would write instead of it.

        None if that one begins a tag, or if the note has no token that begins here.
        """
        if self._rule.spelling.bytes_of.get(token, b"").lstrip().startswith(b"<"):
            return None
        places = [place.n_read for place in self._places if place.then is None]
        repair = self._rule.token_at.get(max(places, default=-1))
        return repair if repair in allowed else None

    def take(self, token: int) -> None:
        """Go on by an allowed token."""
        if token in self._next:
            self._places = self._next[token]
        elif token == self._rule.spelling.unknown:
            self._places = self._pass_unknown()
        else:
            for byte in self._rule.spelling.bytes_of[token]:
                self._places = self._step(self._places)[byte]
        if not self._places:
            raise KeyError(token)
        self._next = {}

    def scanned(self) -> ScannedTags:
        """Return the copied text and the tags of the copy; an open tag ends where the copy does."""
        rule = self._rule
        place = next(filter(self._is_end, self._places), None) or max(
            self._places, key=lambda place: place.n_read
        )
        spans = [*_list_spans(place.spans)]
        if place.label is not None and place.n_read > place.start:
            spans.append(Span(place.start, place.n_read, rule.labels[place.label]))
        census = Counter(n_tags=len(spans), n_unclosed=int(place.label is not None))
        return ScannedTags(rule.text[: place.n_read], tuple(sorted(spans)), census)

    def _step(self, places: Iterable[_Place]) -> dict[int, list[_Place]]:
        """Return the places behind each byte that may follow."""
        behind: dict[int, list[_Place]] = {}
        for place in places:
            for content, then in self._list_ways(place):
                rest = content[1:]
                behind_byte = place._replace(rest=rest, then=then) if rest else then
                behind.setdefault(content[0], []).append(behind_byte)
        return {byte: self._reach(next_places) for byte, next_places in behind.items()}

    def _list_ways(self, place: _Place) -> Iterator[tuple[bytes, _Place]]:
        """Yield the bytes that may follow at a place, and the place behind all of them."""
        if place.then is not None:
            yield place.rest, place.then
            return
        rule, n_read = self._rule, place.n_read
        is_open = place.label is not None
        char = rule.text[n_read : n_read + 1]
        if char and (not is_open or n_read - place.start < MAX_SPAN_CHARS):
            for content in rule.spelling.spell(char):
                yield content, place._replace(n_read=n_read + 1)
        if place.label is not None and n_read > place.start:
            span = Span(place.start, n_read, rule.labels[place.label])
            yield self._tags[place.label][1], _Place(n_read, spans=_Spans(span, place.spans))
        if not is_open and char.strip() and rule.spelling.spell(char):
            for number, (tag, _) in enumerate(self._tags):
                yield tag, _Place(n_read, number, n_read, place.spans)

    def _reach(self, places: Iterable[_Place]) -> list[_Place]:
        """Return places and those behind characters that no token spells, each of them once."""
        reached: dict[object, _Place] = {}
        for first in places:
            place: _Place | None = first
            while place is not None and place.key not in reached:
                reached[place.key] = place
                place = self._pass_gap(place)
        return [*reached.values()]

    def _pass_gap(self, place: _Place) -> _Place | None:
        """Return the place behind a character that no token spells; None if it is another one."""
        char = self._rule.text[place.n_read : place.n_read + 1]
        if not char or place.then is not None or self._rule.spelling.spell(char):
            return None
        return place._replace(n_read=place.n_read + 1)

    def _pass_unknown(self) -> list[_Place]:
        return self._reach(filter(None, map(self._pass_gap, self._places)))


def _list_spans(spans: _Spans | None) -> Iterator[Span]:
    while spans is not None:
        yield spans.last
        spans = spans.earlier
