"""Contexts: passages and names as tokens for causal models; torch-free.

Input: passages, names and a tokenizer. Output: integers only. The tokens are those of the whole
string, text and name together, as the tokenizer splits it. Where the scored tokens begin depends on
the passage alone.

Legend: P passages, N names, K the most tokens that are scored for a name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from audit.errors import AuditError
from audit.models.library import Tokenizer
from audit.models.token_tree import TreePlan, build_tree, plan_passes
from audit.names.candidates import Candidates
from audit.names.spelling import NO_PIECE, PassageKind
from audit.notes.passages import Passage
from audit.rng import generator
from audit.stats import BoolArray, IntArray
from audit.text import is_unspaced

_N_PROBES = 8
"""Names by which the tokens before the names are found, and by which passages are compared."""
_LEAST_CONTEXT = 8
"""Fewest tokens before a name that a setting must leave room for."""


@dataclass(frozen=True)
class NameTokens:
    """Names as they go on after passages of one kind.

    Attributes
    ----------
    ids
        [N, K] tokens of each name and of the text between the context and the name, padded with
        `NO_PIECE`; all padding for a name that has no place in such passages.
    n_first
        [N] how many of these tokens end with the part that is written first.
    first_roles
        [N] role of the part that is written first, `FIRST` or `LAST`.
    has_end
        [N] whether the name ends a word: not in scripts without spaces.
    """

    ids: IntArray
    n_first: IntArray
    first_roles: IntArray
    has_end: BoolArray


@dataclass(frozen=True)
class ContinuationTask:
    """One question of scenario 2 to causal models, in integers; the same for both models."""

    contexts: tuple[tuple[int, ...], ...]  # P passages: the tokens before what is scored.
    kind_of_passage: IntArray  # [P] index into `names`.
    names: tuple[NameTokens, ...]  # Of each kind of passage; N names, listed ones first.
    is_known: BoolArray  # [N] whether the name can be scored in passages of every kind.
    n_listed: int
    ending_ids: IntArray  # Tokens that can follow the end of a word.
    seed: int

    name_fields: ClassVar = ("names", "is_known", "n_listed")
    n_tokens: ClassVar = 1.0
    """Rows are single tokens, so that a plan counts all the same."""

    @property
    def has_names(self) -> bool:
        """Whether there are names; evidence of no name does not exist."""
        return True

    @cached_property
    def plans(self) -> tuple[tuple[IntArray, TreePlan], ...]:
        """The rows [C] of the names of each kind of passage, and the passes that score them."""
        plans = []
        for names in self.names:
            rows = np.flatnonzero(self.is_known)
            tree = build_tree([[i for i in names.ids[row].tolist() if i >= 0] for row in rows])
            has_ends = bool(names.has_end[rows].any())
            plans.append((rows, plan_passes(tree, has_ends=has_ends)))
        return tuple(plans)

    @cached_property
    def n_mean_tokens(self) -> float:
        """Mean number of tokens that go through a model for a passage."""
        return float(np.mean([self.count_tokens(p) for p in range(len(self.contexts))]))

    def n_rows(self, kind: str, n: int) -> int:
        """Return about how many tokens go through a model for `n` passages."""
        return int(n * self.n_mean_tokens)

    def count_tokens(self, passage: int) -> int:
        """Return how many tokens go through a model for one passage."""
        _, plan = self.plans[int(self.kind_of_passage[passage])]
        return len(self.contexts[passage]) + plan.n_tokens

    def draw_passages(self) -> IntArray:
        """Return all passages [P] in random order: a longer run reads those of a shorter one too.

        Differs: the paper draws with replacement. Without dropout the same passage gives the same
        evidence, so it is read once.
        """
        order: IntArray = generator(self.seed, "passages").permutation(len(self.contexts))
        return order


@dataclass(frozen=True)
class _Ending:
    """A passage's text before a name, cut where the scored tokens begin."""

    context: tuple[int, ...]
    tail: str
    probes: tuple[tuple[int, ...], ...]


def make_continuation_task(
    names: Candidates,
    passages: Sequence[Passage],
    *,
    tokenizer: Tokenizer,
    is_known: BoolArray,
    n_listed: int,
    max_tokens: int,
    header: str,
    seed: int,
) -> ContinuationTask:
    """Put the question in integers.

    `is_known` [N] says which names the tokenizer can spell, `max_tokens` is the longest row,
    and `header` stood before every note in training.
    """
    kinds: dict[Any, int] = {}
    tokens_by_kind: list[NameTokens] = []
    contexts: list[tuple[int, ...]] = []
    kind_of_passage: list[int] = []
    probes = _choose_probes(names, is_known)
    beginning = list_first_tokens(tokenizer)
    for passage in passages:
        kind = PassageKind.from_passage(passage)
        left = header + passage.left
        ending = _cut_context(left, kind, names, probes, tokenizer=tokenizer)
        key = kind.slots, kind.separator, ending.tail, ending.probes
        if key not in kinds:
            kinds[key] = len(kinds)
            n_context = len(ending.context)
            tokens_by_kind.append(
                _spell_names(left, kind, names, tokenizer=tokenizer, n_context=n_context)
            )
        kind_of_passage.append(kinds[key])
        contexts.append(ending.context)
    scored = _find_scored_names(tokens_by_kind, is_known, tokenizer)
    longest = max(
        int((t.ids[scored] != NO_PIECE).sum(axis=1).max(initial=1)) for t in tokens_by_kind
    )
    room = _find_room(max_tokens, n_before=len(beginning), n_name_tokens=longest)
    return ContinuationTask(
        contexts=tuple((*beginning, *context[-room:]) for context in contexts),
        kind_of_passage=np.array(kind_of_passage, dtype=np.int64),
        names=tuple(tokens_by_kind),
        is_known=scored,
        n_listed=n_listed,
        ending_ids=list_ending_tokens(tokenizer),
        seed=seed,
    )


def _find_scored_names(
    tokens_by_kind: Sequence[NameTokens], is_known: BoolArray, tokenizer: Tokenizer
) -> BoolArray:
    """Return which names [N] have tokens, and no unknown one, in passages of every kind."""
    scored = is_known.copy()
    for tokens in tokens_by_kind:
        scored &= (tokens.ids != NO_PIECE).any(axis=1)
        if tokenizer.unk_token_id is not None:
            scored &= (tokens.ids != tokenizer.unk_token_id).all(axis=1)
    return scored


def _find_room(max_tokens: int, *, n_before: int, n_name_tokens: int) -> int:
    """Return how many tokens a passage may have beside the longest name."""
    room = max_tokens - n_before - n_name_tokens
    if room < _LEAST_CONTEXT:
        raise AuditError(
            "{max_tokens} tokens leave no room for a passage beside a name of {n_name_tokens}.",
            where="max_tokens",
            do="Raise the setting, or take a model with more positions.",
            max_tokens=max_tokens,
            n_name_tokens=n_name_tokens,
        )
    return room


def _choose_probes(names: Candidates, is_known: BoolArray) -> list[int]:
    """Return the rows of a few names, spread over the list."""
    rows = np.flatnonzero(is_known)
    if not len(rows):
        rows = np.arange(len(names))
    places = np.linspace(0, len(rows) - 1, min(_N_PROBES, len(rows))).round().astype(np.int64)
    return [int(row) for row in rows[places]]


def _write_name(kind: PassageKind, first: str, last: str) -> tuple[str, str, str]:
    """Return the part written first, the text between the parts, and the other part."""
    roles = [role for role, _ in kind.list_contexts(first, last)]
    texts = {"first": first, "last": last}
    if not roles:
        return "", "", ""
    if len(roles) == 1:
        return texts[roles[0]], "", ""
    separator = kind.separator
    if kind.slots == ("full",):
        separator = "" if is_unspaced(first + last) else " "
    return texts[roles[0]], separator, texts[roles[1]]


def find_last_boundary(text: str) -> int:
    """Return the place of the last word boundary in a text that a name follows.

    That is before the white space at its end. If it has none there, it is where the last run of
    characters of one kind begins: a bracket, or the last word of a script without spaces.
    """
    stripped = text.rstrip()
    if len(stripped) < len(text) or not text:
        return len(stripped)
    kinds = [_classify_character(ch) for ch in text[-50:]]
    n_last = 1
    while n_last < len(kinds) and kinds[-n_last - 1] == kinds[-1]:
        n_last += 1
    return len(text) - n_last


def _classify_character(ch: str) -> str:
    if ch.isspace():
        return "space"
    if not ch.isalnum():
        return "mark"
    return unicodedata.name(ch, "").partition(" ")[0]  # LATIN, CJK, HIRAGANA, DIGIT ...


def _cut_context(
    left: str,
    kind: PassageKind,
    names: Candidates,
    probes: Sequence[int],
    *,
    tokenizer: Tokenizer,
) -> _Ending:
    """Return the tokens before what is scored: those before the last boundary, whatever the name.

    A byte-pair tokenizer may join the text before a name to the name, so the string is split whole
    with several names, and only the tokens that all of these begin with count.
    """
    texts = [left + "".join(_write_name(kind, names.first[row], names.last[row])) for row in probes]
    encodings = tokenizer.backend_tokenizer.encode_batch(texts or [left], add_special_tokens=False)
    boundary = find_last_boundary(left)
    n = min(sum(end <= boundary for _, end in encoding.offsets) for encoding in encodings)
    first_ids = encodings[0].ids
    while n and any(encoding.ids[:n] != first_ids[:n] for encoding in encodings):
        n -= 1
    tail = left[encodings[0].offsets[n - 1][1] :] if n else left
    return _Ending(tuple(first_ids[:n]), tail, tuple(tuple(e.ids[n:]) for e in encodings))


def _spell_names(
    left: str, kind: PassageKind, names: Candidates, *, tokenizer: Tokenizer, n_context: int
) -> NameTokens:
    """Split every name as it goes on after a text, whose first tokens are no part of it."""
    name_parts = [
        _write_name(kind, first, last) for first, last in zip(names.first, names.last, strict=True)
    ]
    encodings = tokenizer.backend_tokenizer.encode_batch(
        [left + "".join(parts) for parts in name_parts], add_special_tokens=False
    )
    rows = [
        encoding.ids[n_context:] if any(parts) else []
        for encoding, parts in zip(encodings, name_parts, strict=True)
    ]
    width = max(1, *map(len, rows), 1)
    n_first = [
        max(1, sum(end <= len(left) + len(parts[0]) for _, end in encoding.offsets[n_context:]))
        for encoding, parts in zip(encodings, name_parts, strict=True)
    ]
    roles = [
        [role for role, _ in kind.list_contexts(first, last)]
        for first, last in zip(names.first, names.last, strict=True)
    ]
    return NameTokens(
        ids=np.array([[*ids, *[NO_PIECE] * (width - len(ids))] for ids in rows], dtype=np.int64),
        n_first=np.array(n_first, dtype=np.int64),
        first_roles=np.array([int(r[:1] == ["last"]) for r in roles], dtype=np.int64),
        has_end=np.array([not is_unspaced("".join(parts)) for parts in name_parts], dtype=np.bool_),
    )


def list_first_tokens(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the tokens that the tokenizer puts before a document, or one that ends documents.

    A model needs a token to begin with. GPT-2's tokenizer adds none, and its notes follow the end
    of another text in training.
    """
    text_ids, document_ids = (
        tokenizer("a", add_special_tokens=is_document)["input_ids"] for is_document in (False, True)
    )
    for n_first in range(1, len(document_ids) - len(text_ids) + 1):
        if document_ids[n_first : n_first + len(text_ids)] == text_ids:
            return tuple(document_ids[:n_first])
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return (int(token),)
    raise AuditError(
        "The tokenizer has no token for the beginning or the end of a text.",
        where="tokenizer",
        do="Copy all files of the tokenizer that was saved with this model.",
    )


_BYTE_SPACE, _PIECE_SPACE = "Ġ", "▁"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def list_ending_tokens(tokenizer: Tokenizer) -> IntArray:
    """Return the tokens before which a word may end: a space, a punctuation mark, a special token.

    A token that begins inside a character of several bytes counts as a letter.
    """
    has_word_pieces = type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece"
    special = set(tokenizer.all_special_ids)

    def can_follow(token: str) -> bool:
        if has_word_pieces:
            return not token.startswith("##")
        return _begins_word(token, vocabulary[token], tokenizer)

    vocabulary: dict[str, int] = tokenizer.get_vocab()
    ids = [i for token, i in vocabulary.items() if i in special or can_follow(token)]
    return np.array(sorted(ids), dtype=np.int64)


def _begins_word(token: str, number: int, tokenizer: Tokenizer) -> bool:
    """Return whether a token of byte pairs or pieces begins with what no word goes on with."""
    if match := _BYTE_TOKEN.fullmatch(token):
        byte = int(match[1], 16)
        return byte < 128 and not chr(byte).isalnum()
    if token.startswith((_BYTE_SPACE, _PIECE_SPACE)):
        return True
    text = token
    if not token.isascii():
        text = tokenizer.decode(
            [number], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
    start = text[:1]
    return bool(start) and start != "\N{REPLACEMENT CHARACTER}" and not start.isalnum()
