"""Tokens, their tags and the spans that the tags decode to: a token tagger without its network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.models.library import Tokenizer
from audit.notes.spans import Span

OUTSIDE = 0

Run = tuple[int, int, str]
"""First token, last token (exclusive) and the label of a run of tokens."""
Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
WORD, BEGIN, END, SHAPE, GAP, FLAG = range(6)
N_FEATURES = 6
"""Features of a token: the word, its beginning and end, its shape, the gap before it, and flags. A
tokenizer's token has only the first."""
TOKEN = np.dtype([("id", np.int32, (N_FEATURES,)), ("start", np.int32), ("end", np.int32)])
Tokens = NDArray[np.void]
"""The tokens of a text without special ones. Each is a `TOKEN`: its features, and its characters
`start` to `end` (exclusive), which are equal if the token has no place in the text."""


@dataclass(frozen=True)
class TagScheme:
    """The tags of some labels: O, then B and I of each label in turn."""

    labels: tuple[str, ...]

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The names of all tags, by number."""
        return ("O", *(f"{part}-{label}" for label in self.labels for part in "BI"))

    def encode(self, runs: Iterable[Run], *, n_tokens: int) -> NDArray[np.int64]:
        """Return the tags [n_tokens] of runs that share no token."""
        tags = np.zeros(n_tokens, dtype=np.int64)
        for first, end, label in runs:
            begin = 1 + 2 * self.labels.index(label)
            tags[first:end] = begin + 1
            tags[first] = begin
        return tags

    def decode(self, tags: NDArray[np.integer]) -> list[Run]:
        """Return the runs of tags, in order; the tags must follow the scheme."""
        runs: list[Run] = []
        for token in np.flatnonzero(tags).tolist():
            label, is_inside = divmod(int(tags[token]) - 1, 2)
            first = runs.pop()[0] if is_inside else token
            runs.append((first, token + 1, self.labels[label]))
        return runs


_NEVER = -np.inf
_MAX_CELLS = 400_000


def group_rows(lengths: Sequence[int], *, max_cells: float) -> list[list[int]]:
    """Return the numbers of rows in groups of at most `max_cells` cells, the longest rows first.

    A group has as many cells as its rows have if all are padded to its longest. A row of more cells
    has a group of its own.
    """
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if groups and lengths[groups[-1][0]] * (len(groups[-1]) + 1) <= max_cells:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def find_best_tags(
    scores: Sequence[Scores], *, scheme: TagScheme, bias: float = 0.0
) -> list[NDArray[np.uint8]]:
    """Return the best tags [tokens] of each text (Viterbi 1967); a text begins as if after O.

    `scores` of each text are [tokens, tags]: additive numbers such as logits. `bias` is added to
    the scores of every tag but O; with a bias above 0 more is found, right or wrong. Of equally
    good sequences the one with the lower tags, compared from the end, is returned, so that the
    answer never depends on the texts beside it.
    """
    tags_of_texts: list[NDArray[np.uint8]] = [np.zeros(0, dtype=np.uint8)] * len(scores)
    n_tags = len(scheme.tags)
    begins = np.arange(1, n_tags, 2)
    for group in group_rows([len(text_scores) for text_scores in scores], max_cells=_MAX_CELLS):
        if len(group) == 1:
            tags_of_texts[group[0]] = _find_best_alone(scores[group[0]], bias)
            continue
        rows, n_steps = np.arange(len(group))[:, None], len(scores[group[0]])
        # All texts end together; a shorter one is padded with O in front.
        padded_scores = np.full((n_steps, len(group), n_tags), _NEVER)
        padded_scores[:, :, OUTSIDE] = 0.0
        for column, i in enumerate(group):
            padded_scores[n_steps - len(scores[i]) :, column] = scores[i]
        padded_scores[:, :, OUTSIDE + 1 :] += bias
        origins = np.empty(padded_scores.shape, dtype=np.uint8)
        total = np.full(padded_scores.shape[1:], _NEVER)
        total[:, OUTSIDE] = 0.0
        for step_origins, step_scores in zip(origins, padded_scores, strict=True):
            step_origins[:] = total.argmax(axis=1)[:, None]
            # I only follows its own B or I.
            step_origins[:, 2::2] = begins + (total[:, 2::2] > total[:, 1::2])
            total = total[rows, step_origins] + step_scores
        tags = np.empty(padded_scores.shape[:2], dtype=np.uint8)
        last_tags = total.argmax(axis=1)
        for step in range(n_steps - 1, -1, -1):
            tags[step] = last_tags
            last_tags = origins[step, rows[:, 0], last_tags]
        for column, i in enumerate(group):
            tags_of_texts[i] = tags[n_steps - len(scores[i]) :, column]
    return tags_of_texts


def _find_best_alone(scores: Scores, bias: float) -> NDArray[np.uint8]:
    """Return the best tags of one text; this is quicker than arrays with a single row."""
    biased_scores = scores.astype(np.float64)
    biased_scores[:, OUTSIDE + 1 :] += bias
    n_tags = biased_scores.shape[1]
    total, origins = [0.0] + [_NEVER] * (n_tags - 1), []
    for step_scores in biased_scores.tolist():
        best = max(total)
        step_origins = [total.index(best)] * n_tags
        new_total = [best + score for score in step_scores]
        for inside in range(2, n_tags, 2):
            step_origins[inside] = inside if total[inside] > total[inside - 1] else inside - 1
            new_total[inside] = total[step_origins[inside]] + step_scores[inside]
        origins.append(step_origins)
        total = new_total
    tags = np.empty(len(origins), dtype=np.uint8)
    tag = total.index(max(total))
    for step in range(len(origins) - 1, -1, -1):
        tags[step] = tag
        tag = origins[step][tag]
    return tags


def find_placed_tokens(tokens: Tokens) -> Ids:
    """Return the indices of the tokens that have a place."""
    return np.flatnonzero(tokens["start"] < tokens["end"])


def spans_to_runs(spans: Iterable[Span], *, tokens: Tokens) -> list[Run]:
    """Return spans that share no character as runs of the tokens with a place.

    A token belongs to the first span that it shares a character with.
    """
    placed = tokens[find_placed_tokens(tokens)]
    runs: list[Run] = []
    min_first = 0
    for span in sorted(spans):
        first = max(min_first, int(np.searchsorted(placed["end"], span.start, side="right")))
        end = int(np.searchsorted(placed["start"], span.end, side="left"))
        if first < end:
            runs.append((first, end, span.label))
            min_first = end
    return runs


def runs_to_spans(runs: Iterable[Run], *, tokens: Tokens) -> tuple[Span, ...]:
    """Return runs of the tokens with a place as spans of the text, sorted and without overlap.

    If two tokens of different spans are parts of one character, it belongs to the first span.
    """
    placed = tokens[find_placed_tokens(tokens)]
    spans: list[Span] = []
    min_start = 0
    for first, end, label in runs:
        start, stop = (
            max(int(placed["start"][first]), min_start),
            int(placed["end"][first:end].max()),
        )
        if start < stop:
            spans.append(Span(start, stop, label))
            min_start = stop
    return tuple(spans)


def _make_tokens(ids: Sequence[int] | Ids, starts: Ids, ends: Ids) -> Tokens:
    tokens = np.zeros(len(ids), dtype=TOKEN)
    tokens["id"][:, WORD], tokens["start"], tokens["end"] = ids, starts, ends
    return tokens


_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, eq=False)
class TokenizerReader:
    """Makes tokens with a fast tokenizer of transformers.

    `prefix` and `suffix` are the special tokens before and behind a text, `pad_id` fills up rows,
    and `unknown_id` stands for what is not in the vocabulary.
    """

    tokenizer: Tokenizer
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    pad_id: int
    unknown_id: int

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> TokenizerReader:
        """Return a reader with the special tokens that the tokenizer puts around a text."""
        if not getattr(tokenizer, "is_fast", False):
            raise AuditError(
                "This tokenizer does not say where its tokens stand in a text.",
                where="tokenizer",
                do="Choose a model with a fast tokenizer (tokenizer.json).",
            )
        encoding = tokenizer("a", return_special_tokens_mask=True)
        ids, special = encoding["input_ids"], encoding["special_tokens_mask"]
        inner = [i for i, is_special in enumerate(special) if not is_special] or [len(ids)]
        pad_id = int(tokenizer.pad_token_id or 0)  # padding is masked
        special_ids = (getattr(tokenizer, name, None) for name in ("unk_token_id", "mask_token_id"))
        unknown_id = next(
            (int(token_id) for token_id in special_ids if token_id is not None), pad_id
        )
        return cls(
            tokenizer, tuple(ids[: inner[0]]), tuple(ids[inner[-1] + 1 :]), pad_id, unknown_id
        )

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text; half a surrogate pair is read as U+FFFD."""
        if not texts:
            return []
        valid_texts = [_LONE.sub("\ufffd", text) for text in texts]
        encodings = self.tokenizer(
            valid_texts,
            add_special_tokens=False,
            return_offsets_mapping=True,
            verbose=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        tokens_of_texts = []
        for text, ids, offsets in zip(
            valid_texts, encodings["input_ids"], encodings["offset_mapping"], strict=True
        ):
            sign_places = np.flatnonzero([not char.isspace() for char in text] + [True])
            first_signs, end_signs = np.searchsorted(
                sign_places, np.array(offsets, dtype=np.int64).reshape(-1, 2).T
            )
            is_placed = first_signs < end_signs  # the token holds a sign
            starts, ends = sign_places[first_signs], sign_places[end_signs - 1] + 1
            tokens_of_texts.append(_make_tokens(ids, starts * is_placed, ends * is_placed))
        return tokens_of_texts


class Row(NamedTuple):
    """Tokens `start` to `end` (exclusive) of a note, of which `first` to `last` count.

    The other tokens are only context: a token counts in the row where it has most context.
    """

    note: int
    start: int
    end: int
    first: int
    last: int


def cut_rows(note: int, *, n_tokens: int, size: int, overlap: int) -> list[Row]:
    """Cut a note of `n_tokens` into rows of at most `size` that share `overlap` tokens."""
    rows: list[Row] = []
    start = first = 0
    while first < n_tokens:
        end = min(start + size, n_tokens)
        # The last row is moved back so that it is full: tokens need context.
        start = max(0, end - size)
        last = n_tokens if end == n_tokens else end - overlap // 2
        rows.append(Row(note, start, end, first, last))
        start, first = end - overlap, last
    return rows


class TokenReader(Protocol):
    """Makes tokens of texts."""

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""


class Scorer(Protocol):
    """Gives every token a score for every tag."""

    @property
    def reader(self) -> TokenReader:
        """The reader that makes tokens of texts."""

    @property
    def n_special(self) -> int:
        """The number of special tokens in a row."""

    @property
    def max_batch_tokens(self) -> int:
        """The most tokens of rows that are scored at once, padded to the longest row."""

    def score_rows(self, rows: Sequence[Tokens]) -> Sequence[Scores]:
        """Return the scores [tokens, tags] of rows without special tokens."""


def score_notes(notes: Sequence[Tokens], *, model: Scorer, size: int, overlap: int) -> list[Scores]:
    """Return the scores [tokens with a place, tags] of each note.

    `size` and `overlap` of rows are in tokens; `size` includes special tokens.
    """
    inner = size - model.n_special
    rows = [
        row
        for i, note in enumerate(notes)
        for row in cut_rows(i, n_tokens=len(note), size=inner, overlap=overlap)
    ]
    lengths = [row.end - row.start for row in rows]
    parts_of_notes: list[dict[int, Scores]] = [{} for _ in notes]
    for batch in group_rows(lengths, max_cells=model.max_batch_tokens):
        batch_rows = [rows[i] for i in batch]
        batch_scores = model.score_rows(
            [notes[row.note][row.start : row.end] for row in batch_rows]
        )
        for row, scores in zip(batch_rows, batch_scores, strict=True):
            parts_of_notes[row.note][row.first] = scores[
                row.first - row.start : row.last - row.start
            ]
    no_scores = np.zeros((0, 1), dtype=np.float32)
    return [
        np.concatenate([note_parts[first] for first in sorted(note_parts)])[
            find_placed_tokens(note)
        ]
        if note_parts
        else no_scores
        for note_parts, note in zip(parts_of_notes, notes, strict=True)
    ]


def decode_spans(
    scores: Sequence[Scores], *, notes: Sequence[Tokens], scheme: TagScheme, bias: float
) -> tuple[tuple[Span, ...], ...]:
    """Return the spans of notes from the scores of their tokens with a place."""
    tags_of_notes = find_best_tags(scores, scheme=scheme, bias=bias)
    return tuple(
        runs_to_spans(scheme.decode(note_tags), tokens=note)
        for note_tags, note in zip(tags_of_notes, notes, strict=True)
    )
