"""Notes as tokens in a file, rows of tokens for training, and held-out rows.

Every row of every step follows from the seed, so a training can resume at any step.
"""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from audit.corpus.truth import ListedNotes
from audit.errors import AuditError
from audit.models.joined import build_joined_encoder
from audit.models.library import Tokenizer
from audit.notes.read import Note, NoteSource
from audit.notes.sentences import find_sentences
from audit.progress import Meter, Phase, ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import JSON, digest_json, fingerprint, private_folder, whole_folder
from audit.stats import BoolArray
from audit.training.config import TrainSettings

Ids = NDArray[np.int64]
_BYTE_SECONDS = 2e-7  # if nothing was timed yet
_TEXT_VERSION = 1
"""Part of a token file's key, since another preparation of the text gives other tokens."""
_MIN_SENTENCE_CHARS = 20

_DROPPED = re.compile(
    r"\[\*\*[^\[\]]{0,200}\*\*\]"  # a placeholder
    r"|_{2,}|-{2,}|={2,}"  # MIMIC-IV's blanks, and drawn lines
    r"|(?m:^[ \t]*\d{1,3}[.)](?=\s))"  # a list's number
)


def prepare_sentences(text: str) -> list[str]:
    """Return the sentences of a note with single spaces, without placeholders and drawn lines.

    A sentence of fewer than 20 characters is joined to the previous one, or at the beginning of a
    note to the next one.
    """
    clean = _DROPPED.sub(" ", text)
    sentences: list[str] = []
    for start, end in find_sentences(clean):
        sentence = re.sub(r"\s+", " ", clean[start:end]).strip()
        if not sentence:
            continue
        is_first_short = len(sentences) == 1 and len(sentences[0]) < _MIN_SENTENCE_CHARS
        if sentences and (len(sentence) < _MIN_SENTENCE_CHARS or is_first_short):
            sentences[-1] = (
                f"{sentences[-1]}{'' if sentences[-1].endswith('。') else ' '}{sentence}"
            )
        else:
            sentences.append(sentence)
    return sentences


TOKENIZE = "tokenizing the notes"
_TOKENS, _PLACES = "tokens.bin", "places.npz"
_CHUNK = 1 << 22
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class TokenFile:
    """Memory-mapped tokens of notes: for each note its `ids` [n_tokens] and one that ends it.

    `ends` [n_documents] is the end of each note, its end token included. `groups` [n_documents] is
    the number of its patient, in order of first appearance; a note without a patient is a group of
    its own. `missing` are the positions (ascending, from 0, among all rows read) of rows that gave
    no document; `n_refused` of them are not notes. `heads` [n_documents] counts the tokens that
    stand before each note's own; it is empty if there are none.
    """

    ids: NDArray[np.unsignedinteger]
    ends: Ids
    groups: Ids
    missing: Ids
    n_refused: int = 0
    heads: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def n_groups(self) -> int:
        """Number of patients."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def n_read(self) -> int:
        """Number of rows read, including rows that are not notes."""
        return len(self.ends) + len(self.missing)

    @property
    def lengths(self) -> Ids:
        """Tokens of each note, its end token included."""
        return np.diff(self.ends, prepend=0)

    def about(self) -> dict[str, JSON]:
        """Return counts of the file's content."""
        return {
            "n_tokens": len(self.ids),
            "n_documents": len(self.ends),
            "n_empty": len(self.missing) - self.n_refused,
            "n_refused": self.n_refused,
            "n_groups": self.n_groups,
            "dtype": self.ids.dtype.name,
        }

    def documents_at(self, positions: Ids) -> Ids:
        """Return the documents at positions among all rows read; skip positions without one."""
        present = positions[~np.isin(positions, self.missing)]
        return present - np.searchsorted(self.missing, present)

    def digest(self) -> str:
        """Return the SHA-256 of the tokens and their patients."""
        digest = hashlib.sha256(repr(self.about()).encode())
        for values in (self.ids, self.ends, self.groups, self.heads):
            for start in range(0, len(values), _CHUNK):
                digest.update(np.ascontiguousarray(values[start : start + _CHUNK]).tobytes())
        return digest.hexdigest()


class NoteEncoder(Protocol):
    """How a note becomes tokens."""

    @property
    def form(self) -> JSON:
        """A JSON value that tells this way of making tokens from others."""

    def encode(self, text: str) -> tuple[list[int], int]:
        """Return a note's ids with its end token, and how many stand before its own.

        There are no ids if the note holds no text.
        """


class SentenceEncoder:
    """Notes of a masked language model: sentences with single spaces, and one [SEP]."""

    form: JSON = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> tuple[list[int], int]:
        """Return a note's ids and its [SEP]."""
        ids = _split_to_ids(text, self._tokenizer)
        return ([*ids, self._tokenizer.sep_token_id] if ids else []), 0


def read_or_make_tokens(
    source: NoteSource,
    tokenizer: Tokenizer,
    *,
    store: Path,
    encoder: NoteEncoder | None = None,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> TokenFile:
    """Return the tokens of notes, from the store if they are there, otherwise made now.

    Parameters
    ----------
    store
        Folder of token files, with a subfolder for each file, named by its key.
    encoder
        How notes become tokens of the tokenizer; by default as a masked language model reads them.
    progress, should_stop
        The unit is bytes of the source.
    """
    meter = Meter([plan_tokenizing(source)], listener=progress, should_stop=should_stop)
    encoder = encoder or SentenceEncoder(tokenizer)
    key = _make_tokenizing_key(source, tokenizer, form=encoder.form, meter=meter)
    folder = private_folder(store) / key[:32]
    tokens = _open_tokens(folder, key=key)
    if tokens is None:
        with whole_folder(folder, replaces=True) as partial_folder:
            dtype = "<u2" if len(tokenizer) <= 1 << 16 else "<u4"
            _write_tokens(source, encoder, dtype, folder=partial_folder, key=key, meter=meter)
        tokens = _open_tokens(folder, key=key)
        assert tokens is not None
    meter.finish(TOKENIZE)
    return tokens


def plan_tokenizing(source: NoteSource) -> Phase:
    """Return tokenizing as a phase: the notes are read for their digest, then tokenized."""
    return Phase(TOKENIZE, 2 * source.n_bytes, _BYTE_SECONDS, TOKENIZE)


def _open_tokens(folder: Path, *, key: str) -> TokenFile | None:
    """Return the tokens in a folder; None if they are missing, incomplete, or of another key."""
    try:
        with np.load(folder / _PLACES, allow_pickle=False) as arrays:
            tokens = TokenFile(
                np.memmap(folder / _TOKENS, dtype=arrays["dtype"].item(), mode="r"),
                arrays["ends"],
                arrays["groups"],
                arrays["missing"],
                arrays["n_refused"].item(),
                arrays["heads"] if "heads" in arrays else np.zeros(0, dtype=np.int64),
            )
            is_whole = (arrays["key"].item(), len(tokens.ids)) == (key, tokens.ends[-1])
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
        return None
    return tokens if is_whole else None


def _write_tokens(
    source: NoteSource, encoder: NoteEncoder, dtype: str, *, folder: Path, key: str, meter: Meter
) -> None:
    ends, groups, missing, heads = array("q"), array("q"), array("q"), array("q")
    numbers: dict[str | int, int] = {}
    n_tokens = n_refused = 0
    with (folder / _TOKENS).open("xb", buffering=_CHUNK_BYTES) as file:
        for note in source.read(on_bytes=partial(meter.add, TOKENIZE)):
            ids, n_head = encoder.encode(note.text) if isinstance(note, Note) else ([], 0)
            if not ids or not isinstance(note, Note):
                n_refused += not isinstance(note, Note)
                missing.append(len(ends) + len(missing))
                continue
            file.write(np.array(ids, dtype=dtype).tobytes())
            n_tokens += len(ids)
            heads.append(n_head)
            groups.append(numbers.setdefault(note.patient_id or len(ends), len(numbers)))
            ends.append(n_tokens)
    if not n_tokens:
        raise AuditError("The notes hold no text to train on.", where="notes")
    np.savez(
        folder / _PLACES,
        ends=ends,
        groups=groups,
        missing=missing,
        n_refused=n_refused,
        heads=heads if any(heads) else array("q"),
        key=key,
        dtype=dtype,
    )


def _split_to_ids(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return a note's ids; sentences are tokenized one by one, so that no input is long.

    Special tokens that a text spells out ("[MASK]") become unknown words.
    """
    # A space precedes all sentences but the first: byte-level vocabularies mark words by it.
    # SentencePiece writes a mark before every text by itself.
    lead = "" if build_joined_encoder(tokenizer) else " "
    pieces = [
        f"{lead}{sentence}" if place else sentence
        for place, sentence in enumerate(prepare_sentences(text))
    ]
    if not pieces:
        return []
    ids_by_sentence = tokenizer(
        pieces,
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )["input_ids"]
    special, unknown = frozenset(tokenizer.all_special_ids), tokenizer.unk_token_id
    return [unknown if token in special else token for ids in ids_by_sentence for token in ids]


def _make_tokenizing_key(
    source: NoteSource, tokenizer: Tokenizer, *, form: JSON, meter: Meter
) -> str:
    from audit.models.tokenizer import read_tokenizer_settings

    notes = {
        "kind": source.kind,
        "codec": source.codec,
        "columns": {k: list(v) for k, v in source.columns.items()},
        "digest": digest_notes(source.path, on_bytes=partial(meter.add, TOKENIZE)),
    }
    content = {
        "text": _TEXT_VERSION,
        "vocabulary": digest_json(sorted(tokenizer.get_vocab().items())),
        "tokenizer": dict(read_tokenizer_settings(tokenizer)),
        "notes": [notes],
    } | ({} if form is None else {"form": form})
    return digest_json(content, default=str)


def digest_notes(path: Path, *, on_bytes: Callable[[int], None] = lambda n: None) -> str:
    """Return the SHA-256 of a file of notes, or of the names and content of a folder's texts."""
    try:
        if not path.is_dir():
            return fingerprint(path, on_bytes=on_bytes)
        files = sorted(file for file in path.rglob("*.txt") if file.is_file())
        digests = {
            str(file.relative_to(path)): fingerprint(file, on_bytes=on_bytes) for file in files
        }
        return digest_json(digests, sort_keys=False)
    except OSError as error:
        raise AuditError(
            "The notes cannot be read ({strerror}).", where="notes", strerror=error.strerror
        ) from None


@dataclass(frozen=True)
class SpecialIds:
    """The ids of special tokens and the size of the vocabulary."""

    cls: int
    sep: int
    mask: int
    n_vocabulary: int

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> SpecialIds:
        """Return the special ids of a tokenizer."""
        special = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
        return cls(*special, len(tokenizer))

    def add_frame(self, inner: Ids) -> Ids:
        """Put [CLS] before and [SEP] after rows [n, L - 2]."""
        return np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (self.cls, self.sep)))


@dataclass(frozen=True, eq=False)
class MaskedRows:
    """Masked rows for training.

    `ids` [B, L] is the input of the model; `positions` and `targets` [B, M] are to be predicted.
    """

    ids: Ids
    positions: Ids
    targets: Ids

    @property
    def n_asked(self) -> int:
        """Number of predicted tokens."""
        return self.targets.size

    def parts(self, n: int) -> Iterator[MaskedRows]:
        """Yield `n` rows at a time."""
        for start in range(0, len(self.ids), n):
            part = slice(start, start + n)
            yield MaskedRows(self.ids[part], self.positions[part], self.targets[part])


def mask_rows(
    rows: Ids, *, special: SpecialIds, share: float, rng: np.random.Generator
) -> MaskedRows:
    """Mask rows [B, L]; [CLS] and [SEP] are chosen only if there are no other tokens."""
    n_asked = max(1, round(share * rows.shape[1]))
    allowed = (rows != special.cls) & (rows != special.sep)
    order = np.argsort(np.where(allowed, rng.random(rows.shape), 2.0), axis=1)
    positions = order[:, :n_asked]
    targets = np.take_along_axis(rows, positions, axis=1)
    kind = rng.random(positions.shape)
    random_ids = rng.integers(special.n_vocabulary, size=positions.shape)
    inputs = np.where(kind < 0.8, special.mask, np.where(kind < 0.9, random_ids, targets))
    masked = rows.copy()
    np.put_along_axis(masked, positions, inputs, axis=1)
    return MaskedRows(masked, positions, targets)


_MOST_HELD_OUT_ROWS = 512
"""Maximum number of rows for the held-out loss: 65,000 tokens at 128 a row."""


@dataclass(frozen=True, eq=False)
class Split:
    """The numbers of the notes for training and of the held-out notes, in order.

    `n_listed` counts the patients with a listed note, who are never held out.
    """

    train: Ids
    held_out: Ids
    n_listed: int = 0


def split_notes(
    tokens: TokenFile, *, share: float, seed: int, listed: ListedNotes | None = None
) -> Split:
    """Hold out the notes of some patients, but of no patient with a listed note.

    Parameters
    ----------
    share
        Share of all patients; drawn among those without a listed note, or all of these if they
        are fewer.
    listed
        The notes that hold a listed name. If every patient has one, nothing is held out.
    """
    if listed is not None and listed.n_notes != tokens.n_read:
        raise AuditError(
            "The corpus has {n_notes:,} notes, but {n_read:,} were read.",
            where="corpus",
            do="Build the corpus again.",
            n_notes=listed.n_notes,
            n_read=tokens.n_read,
        )
    everything, n_groups = np.arange(len(tokens.ends)), tokens.n_groups
    if not share:
        return Split(everything, everything[:0])
    positions = np.array([] if listed is None else listed.notes, dtype=np.int64)
    listed_groups = np.unique(tokens.groups[tokens.documents_at(positions)])
    n_held_out = min(n_groups - 1, max(1, round(share * n_groups)))
    order = generator(seed, "held-out patients").permutation(n_groups)
    chosen = order[~np.isin(order, listed_groups)][:n_held_out]
    is_held_out = np.isin(tokens.groups, chosen)
    return Split(everything[~is_held_out], everything[is_held_out], len(listed_groups))


class Stream:
    """Some notes of a token file as one sequence of tokens, read on demand."""

    def __init__(self, tokens: TokenFile, documents: Ids) -> None:
        self._ids, self._documents = tokens.ids, documents
        self._ends = np.cumsum(tokens.lengths[documents])
        # Difference between a place in the file and in the stream, per note.
        self._shift = tokens.ends[documents] - self._ends
        starts = self._ends - tokens.lengths[documents]
        # Where each note's own tokens begin.
        self._own = starts + (tokens.heads[documents] if len(tokens.heads) else 0)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read_ids(self, places: Ids) -> Ids:
        """Return the ids at places 0 to len - 1, in the places' shape."""
        return self._ids[places + self._shift[self._find_documents(places)]].astype(np.int64)

    def is_own(self, places: Ids) -> BoolArray:
        """Return whether the tokens at places are a note's own, not those of its head."""
        return places >= self._own[self._find_documents(places)]

    def locate(self, document: int, tokens: Ids) -> Ids | None:
        """Return the places of tokens of a document, by their numbers in it; None if not here."""
        row = int(np.searchsorted(self._documents, document))
        if row == len(self._documents) or self._documents[row] != document:
            return None
        start = self._ends[row - 1] if row else 0
        return tokens + start

    def _find_documents(self, places: Ids) -> Ids:
        return np.searchsorted(self._ends, places, side="right")

    def counts(self, n_vocabulary: int) -> Ids:
        """Return how often each id occurs, [n_vocabulary], in bounded memory."""
        counts = np.zeros(n_vocabulary, dtype=np.int64)
        for start in range(0, len(self), _CHUNK):
            part = self.read_ids(np.arange(start, min(start + _CHUNK, len(self))))
            counts += np.bincount(part, minlength=n_vocabulary)
        return counts


class RowPlaces:
    """Where the rows of a training begin in a stream: `batch` rows of `n_inner` tokens a step.

    An epoch is a random offset and a random order of rows, so it leaves out fewer tokens than one
    row has, and each epoch others.
    """

    def __init__(self, stream: Stream, n_inner: int, batch: int, seed: int) -> None:
        if len(stream) < n_inner:
            raise AuditError(
                "The notes have {n_stream} tokens to train on, fewer than one row of {n_inner}.",
                where="notes",
                do="Take more notes, or shorter rows.",
                n_stream=len(stream),
                n_inner=n_inner,
            )
        self.stream, self.n_inner, self.batch, self.seed = stream, n_inner, batch, seed
        self.n_rows = len(stream) // n_inner
        self._begins = lru_cache(maxsize=2)(self._begins_of_epoch)

    def begins_of_step(self, step: int) -> Ids:
        """Return where the rows of a step (from 1) begin, [batch]."""
        numbers = np.arange((step - 1) * self.batch, step * self.batch)
        epochs, places = np.divmod(numbers, self.n_rows)
        return np.concatenate(
            [self._begins(int(epoch))[places[epochs == epoch]] for epoch in np.unique(epochs)]
        )

    def covers(self, places: Ids, *, n_steps: int, n_more: int = 0) -> BoolArray:
        """Return whether one row of the first `n_steps` steps holds each place and `n_more` behind.

        A row holds the `n_inner` tokens from its beginning on.
        """
        is_covered = np.zeros(places.shape, dtype=np.bool_)
        n_left = n_steps * self.batch
        for epoch in range(math.ceil(n_left / self.n_rows)):
            begins = np.sort(self._begins(epoch)[: n_left - epoch * self.n_rows])
            # Rows that follow the offset of an epoch may begin behind the end of the stream.
            for laps in (0, len(self.stream)):
                before = np.searchsorted(begins, places + laps, side="right") - 1
                distance = places + laps - begins[before]
                is_covered |= (before >= 0) & (distance + n_more < self.n_inner)
            if is_covered.all():
                break
        return is_covered

    def _begins_of_epoch(self, epoch: int) -> Ids:
        """Return where the rows of an epoch begin in the stream."""
        rng = generator(self.seed, "rows", epoch)
        begins: Ids = rng.integers(len(self.stream)) + rng.permutation(self.n_rows) * self.n_inner
        return begins


class Rows(RowPlaces):
    """Rows of which a masked language model predicts some tokens: `n_inner` tokens in a frame."""

    def __init__(
        self, stream: Stream, special: SpecialIds, n_inner: int, batch: int, seed: int
    ) -> None:
        super().__init__(stream, n_inner, batch, seed)
        self.special = special

    def of_step(self, step: int) -> Ids:
        """Return the rows [batch, L] of a step (from 1)."""
        places = self.begins_of_step(step)[:, None] + np.arange(self.n_inner)
        return self.special.add_frame(self.stream.read_ids(places % len(self.stream)))


Predicted = TypeVar("Predicted")


@dataclass(frozen=True, eq=False)
class HeldOut(Generic[Predicted]):
    """Held-out rows; the rows and their predicted tokens are always the same.

    `unigram_loss`, in nats per token, is the loss of predicting each token by its frequency in the
    training notes, with each count raised by one. A model that has learned only word frequencies
    does not get below it.
    """

    rows: Predicted
    unigram_loss: float


def draw_held_out(
    tokens: TokenFile, split: Split, *, special: SpecialIds, settings: TrainSettings
) -> HeldOut[MaskedRows] | None:
    """Return evenly spread rows of the held-out notes; None if no notes are held out."""
    stream = Stream(tokens, split.held_out)
    if not len(stream):
        return None
    n_inner = min(settings.n_inner, len(stream))
    places = spread_rows(stream, n_inner)[:, None] + np.arange(n_inner)
    rows = special.add_frame(stream.read_ids(places))
    rng = generator(settings.seed, "held-out masks")
    masked = mask_rows(rows, special=special, share=settings.mask_share, rng=rng)
    counts = Stream(tokens, split.train).counts(special.n_vocabulary)
    counts[special.sep] = 0  # never predicted
    return HeldOut(masked, compute_unigram_loss(counts, masked.targets))


def spread_rows(stream: Stream, n_inner: int) -> Ids:
    """Return where evenly spread rows of `n_inner` tokens begin, as many as are measured."""
    n_rows = len(stream) // n_inner
    chosen = np.linspace(0, n_rows - 1, min(n_rows, _MOST_HELD_OUT_ROWS)).astype(np.int64)
    return chosen * n_inner


def compute_unigram_loss(counts: Ids, targets: Ids) -> float:
    """Return the loss of predicting targets by counts [n_vocabulary] of training tokens."""
    share = (counts + 1.0) / (counts.sum() + len(counts))
    return -math.fsum(np.log(share[targets]).ravel()) / targets.size
