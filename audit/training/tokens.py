"""Held-out rows: what a training is measured on, and what guessing by frequency reaches there."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.corpus.truth import ListedNotes
from audit.errors import AuditError
from audit.notes.read import Note, NoteSource
from audit.notes.sentences import sentence_spans
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import private_folder, whole_folder, write_whole
from audit.training.config import TrainSettings

TEXT_VERSION = 1
"""Part of a token file's key: another preparation gives other tokens."""
MIN_SENTENCE_CHARS = 20

_DROPPED = re.compile(
    r"\[\*\*[^\[\]]{0,200}\*\*\]"  # a placeholder
    r"|_{2,}|-{2,}|={2,}"  # MIMIC-IV's blanks, and lines that somebody drew
    r"|(?m:^[ \t]*\d{1,3}[.)](?=\s))"  # a list's number
)
_SPACES = re.compile(r"\s+")


def cleaned(text: str) -> str:
    """Return a text without placeholders, drawn lines and list numbers; line ends stay."""
    return _DROPPED.sub(" ", text)


def prepared_sentences(text: str) -> list[str]:
    """Return the sentences of a note, white space made single, in their order.

    A sentence of fewer than 20 characters is glued to the one before; at the beginning of a note
    the next one is glued to it.
    """
    clean = cleaned(text)
    found: list[str] = []
    for start, end in sentence_spans(clean):
        sentence = _SPACES.sub(" ", clean[start:end]).strip()
        if not sentence:
            continue
        is_first_short = len(found) == 1 and len(found[0]) < MIN_SENTENCE_CHARS
        if found and (len(sentence) < MIN_SENTENCE_CHARS or is_first_short):
            found[-1] = f"{found[-1]}{'' if found[-1].endswith('。') else ' '}{sentence}"
        else:
            found.append(sentence)
    return found


TOKENS, ENDS, GROUPS, ABOUT = "tokens.bin", "ends.bin", "groups.bin", "about.json"
MISSING = "missing.bin"
_CHUNK = 1 << 22


@dataclass(frozen=True)
class TokenCounts:
    """What a token file holds.

    A [SEP] after each note is counted in `n_tokens`; a note of nobody is a group (patient) of its
    own; `n_refused` are rows that are no notes.
    """

    n_tokens: int
    n_documents: int
    n_empty: int
    n_refused: int
    n_groups: int
    dtype: str

    @property
    def n_read(self) -> int:
        """Rows that were read, notes or not."""
        return self.n_documents + self.n_missing

    @property
    def n_missing(self) -> int:
        """Rows that gave no document."""
        return self.n_empty + self.n_refused


@dataclass(frozen=True, eq=False)
class TokenFile:
    """Tokens of notes, mapped.

    Attributes
    ----------
    ids
        [n_tokens]; each note's ids and one [SEP].
    ends
        [n_documents]; where each note ends, its [SEP] included.
    groups
        [n_documents]; number of each note's patient, in order of first appearance.
    missing
        Positions among all rows read, from 0, of those that gave no document; rising.
    """

    ids: NDArray[Any]
    ends: NDArray[np.int64]
    groups: NDArray[np.int64]
    counts: TokenCounts
    missing: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each note, its [SEP] included."""
        return np.diff(self.ends, prepend=0)

    def documents_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the documents at positions among all rows read, if any."""
        there = positions[~np.isin(positions, self.missing)]
        return there - np.searchsorted(self.missing, there)


class TokenWriter:
    """Writes the files of a folder that is not in its place yet."""

    def __init__(self, folder: Path, *, sep: int, n_vocabulary: int) -> None:
        self._dtype = np.dtype("<u2" if n_vocabulary <= 1 << 16 else "<u4")
        self._sep = np.array([sep], dtype=self._dtype)
        self._folder = folder
        self._tokens = (folder / TOKENS).open("xb", buffering=1 << 20)
        self._ends: list[int] = []
        self._groups: list[int] = []
        self._missing: list[int] = []
        self._numbers: dict[str, int] = {}
        self._n_tokens = self._n_refused = self._n_groups = 0

    def add(self, ids: list[int], *, patient: str) -> None:
        """Append a note; `patient` is "" where nobody is told."""
        if not ids:
            self._miss()
            return
        array = np.array(ids, dtype=self._dtype)
        self._tokens.write(array.tobytes())
        self._tokens.write(self._sep.tobytes())
        self._n_tokens += len(ids) + 1
        self._ends.append(self._n_tokens)
        self._groups.append(self._group(patient))

    def refuse(self) -> None:
        """Count a row that is no note."""
        self._n_refused += 1
        self._miss()

    def finish(self, *, key: str) -> TokenCounts:
        """Write what is left and close."""
        self._tokens.close()
        np.array(self._ends, dtype="<i8").tofile(self._folder / ENDS)
        np.array(self._groups, dtype="<i8").tofile(self._folder / GROUPS)
        np.array(self._missing, dtype="<i8").tofile(self._folder / MISSING)
        counts = TokenCounts(
            n_tokens=self._n_tokens,
            n_documents=len(self._ends),
            n_empty=len(self._missing) - self._n_refused,
            n_refused=self._n_refused,
            n_groups=self._n_groups,
            dtype="uint16" if self._dtype.itemsize == 2 else "uint32",
        )
        about = asdict(counts) | {"key": key}
        write_whole(self._folder / ABOUT, json.dumps(about, indent=1).encode("ascii"))
        return counts

    def close(self) -> None:
        """Close without finishing."""
        self._tokens.close()

    def _miss(self) -> None:
        self._missing.append(len(self._ends) + len(self._missing))

    def _group(self, patient: str) -> int:
        if patient in self._numbers:
            return self._numbers[patient]
        number = self._n_groups
        self._n_groups += 1
        if patient:
            self._numbers[patient] = number
        return number


def open_tokens(folder: Path, *, key: str) -> TokenFile | None:
    """Return the tokens in a folder; None where there are none of this key, or not whole ones."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="ascii"))
        if about.pop("key") != key:
            return None
        counts = TokenCounts(**about)
        wanted = counts.n_tokens * np.dtype(counts.dtype).itemsize
        if (folder / TOKENS).stat().st_size != wanted:
            return None
        ends = np.fromfile(folder / ENDS, dtype="<i8")
        groups = np.fromfile(folder / GROUPS, dtype="<i8")
        if len(ends) != counts.n_documents or len(groups) != counts.n_documents:
            return None
        missing = np.empty(0, dtype="<i8")
        if counts.n_missing:
            missing = np.fromfile(folder / MISSING, dtype="<i8")
            if len(missing) != counts.n_missing:
                return None
        ids = np.memmap(folder / TOKENS, dtype=np.dtype(counts.dtype).newbyteorder("<"), mode="r")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return TokenFile(ids, ends, groups, counts, missing)


TOKENIZE = "tokenizing the notes"
_BATCH_CHARS = 500_000
_CHUNK_BYTES = 1 << 20
_NO_TOKENS = "The notes hold no text to train on."


def tokenized(
    sources: Sequence[NoteSource],
    tokenizer: Any,
    *,
    store: Path,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> TokenFile:
    """Return the tokens of notes, made now unless they are kept.

    Parameters
    ----------
    sources
        Read in this order.
    store
        Folder of token files; each has its own folder in it, named by its key.
    progress, should_stop
        The unit is bytes of the sources.
    """
    meter = Meter(
        {TOKENIZE: float(2 * sum(source.n_bytes for source in sources))},
        listener=progress,
        should_stop=should_stop,
    )
    key = _tokenizing_key(sources, tokenizer, meter=meter)
    folder = private_folder(store) / key[:32]
    kept = open_tokens(folder, key=key)
    if kept is None:
        with whole_folder(folder, replaces=True) as partial_folder:
            _write_tokens(sources, tokenizer, folder=partial_folder, key=key, meter=meter)
        kept = open_tokens(folder, key=key)
    meter.finish(TOKENIZE)
    if kept is None or not kept.counts.n_tokens:
        raise AuditError(_NO_TOKENS, where="notes")
    return kept


def special_ids_out(ids: list[int], *, special: frozenset[int], unknown: int) -> list[int]:
    """Return ids with the special tokens that a text spells out ("[MASK]") made unknown words."""
    if special.isdisjoint(ids):
        return ids
    return [unknown if token in special else token for token in ids]


def _write_tokens(
    sources: Sequence[NoteSource], tokenizer: Any, *, folder: Path, key: str, meter: Meter
) -> None:
    special = frozenset(tokenizer.all_special_ids)
    unknown = tokenizer.unk_token_id
    writer = TokenWriter(folder, sep=tokenizer.sep_token_id, n_vocabulary=len(tokenizer))
    try:
        for source in sources:
            for batch in _batches(source, meter):
                notes = [note for note in batch if isinstance(note, Note)]
                found = iter(_ids(notes, tokenizer))
                for note in batch:
                    if not isinstance(note, Note):
                        writer.refuse()
                        continue
                    plain = special_ids_out(next(found), special=special, unknown=unknown)
                    writer.add(plain, patient=note.patient_id)
        writer.finish(key=key)
    finally:
        writer.close()


def _batches(source: NoteSource, meter: Meter) -> Iterator[list[object]]:
    batch: list[object] = []
    n_chars = 0
    for note in source.read(on_bytes=partial(meter.add, TOKENIZE)):
        batch.append(note)
        n_chars += len(note.text) if isinstance(note, Note) else 0
        if n_chars >= _BATCH_CHARS:
            yield batch
            batch, n_chars = [], 0
    if batch:
        yield batch


def _ids(notes: Sequence[Note], tokenizer: Any) -> list[list[int]]:
    """Return each note's ids; sentences are cut one by one, so that no input is long."""
    pieces: list[str] = []
    ends: list[int] = []
    for note in notes:
        sentences = prepared_sentences(note.text)
        # A blank before all but the first: byte-level vocabularies tell words by it.
        pieces += [f" {s}" if at else s for at, s in enumerate(sentences)]
        ends.append(len(pieces))
    cut = _cut(pieces, tokenizer)
    starts = [0, *ends[:-1]]
    return [[i for piece in cut[a:b] for i in piece] for a, b in zip(starts, ends, strict=True)]


def _cut(pieces: list[str], tokenizer: Any) -> list[list[int]]:
    if not pieces:
        return []
    if not tokenizer.is_fast:
        return [list(ids) for ids in tokenizer(pieces, add_special_tokens=False)["input_ids"]]
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    with _all_cores():
        found = backend.encode_batch_fast(pieces, add_special_tokens=False)
        return [encoding.ids for encoding in found]


@contextmanager
def _all_cores() -> Iterator[None]:
    # The commands switch the library's threads off, since it warns of forks that never come here.
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _tokenizing_key(sources: Sequence[NoteSource], tokenizer: Any, *, meter: Meter) -> str:
    from audit.models.tokenizer import tokenizer_settings

    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items())).encode()
    content = {
        "text": TEXT_VERSION,
        "vocabulary": hashlib.sha256(vocabulary).hexdigest(),
        "tokenizer": dict(tokenizer_settings(tokenizer)),
        "notes": [
            {
                "kind": source.kind,
                "codec": source.codec,
                "columns": {k: list(v) for k, v in source.columns.items()},
                "digest": notes_digest(source.path, meter=meter),
            }
            for source in sources
        ],
    }
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def notes_digest(path: Path, *, meter: Meter | None = None) -> str:
    """Return the SHA-256 of a file of notes, or of all text files of a folder with their names."""
    digest = hashlib.sha256()
    is_folder = path.is_dir()
    files = sorted(p for p in path.rglob("*.txt") if p.is_file()) if is_folder else [path]
    try:
        for file in files:
            if is_folder:
                digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    if meter is not None:
                        meter.add(TOKENIZE, len(chunk))
    except OSError as error:
        raise AuditError(f"The notes cannot be read ({error.strerror}).", where="notes") from None
    return digest.hexdigest()


def token_counts(ids: NDArray[Any], *, n_vocabulary: int) -> NDArray[np.int64]:
    """Return how often each id occurs, [n_vocabulary]; in bounded memory."""
    counts = np.zeros(n_vocabulary, dtype=np.int64)
    for start in range(0, len(ids), _CHUNK):
        counts += np.bincount(ids[start : start + _CHUNK], minlength=n_vocabulary)
    return counts


def content_digest(tokens: TokenFile) -> str:
    """Return the SHA-256 of the tokens and of whose they are."""
    digest = hashlib.sha256(repr(asdict(tokens.counts)).encode())
    for array in (tokens.ids, tokens.ends, tokens.groups):
        for start in range(0, len(array), _CHUNK):
            digest.update(np.ascontiguousarray(array[start : start + _CHUNK]).tobytes())
    return digest.hexdigest()


Ids = NDArray[np.int64]


@dataclass(frozen=True)
class SpecialIds:
    """Ids that training needs: the special tokens, those that end a sentence, vocabulary size."""

    cls: int
    sep: int
    mask: int
    sentence_ends: tuple[int, ...]
    n_vocabulary: int


@dataclass(frozen=True, eq=False)
class MaskedRows:
    """Rows to learn from.

    `ids` is what the model sees, [B, L]; `positions` and `targets` are asked for, [B, M].
    """

    ids: Ids
    positions: Ids
    targets: Ids

    def parts(self, n: int) -> Iterator[MaskedRows]:
        """Yield `n` rows at a time."""
        for start in range(0, len(self.ids), n):
            part = slice(start, start + n)
            yield MaskedRows(self.ids[part], self.positions[part], self.targets[part])


def masked_rows(
    rows: Ids, *, special: SpecialIds, share: float, rng: np.random.Generator
) -> MaskedRows:
    """Mask rows [B, L]; [CLS] and [SEP] are never asked for while there are other tokens."""
    n_asked = max(1, round(share * rows.shape[1]))
    allowed = (rows != special.cls) & (rows != special.sep)
    order = np.argsort(np.where(allowed, rng.random(rows.shape), 2.0), axis=1)
    positions = order[:, :n_asked]
    targets = np.take_along_axis(rows, positions, axis=1)
    kind = rng.random(positions.shape)
    random_ids = rng.integers(special.n_vocabulary, size=positions.shape)
    shown = np.where(kind < 0.8, special.mask, np.where(kind < 0.9, random_ids, targets))
    masked = rows.copy()
    np.put_along_axis(masked, positions, shown, axis=1)
    return MaskedRows(masked, positions, targets)


MOST_HELD_OUT_ROWS = 512
"""Rows on which the held-out loss is measured, at most: 65,000 tokens of 128 a row."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which notes are trained on.

    Attributes
    ----------
    train, held_out
        Numbers of the notes, in their order.
    n_listed
        Patients with a listed note, who are never held out.
    """

    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    n_listed: int = 0


def split_notes(
    tokens: TokenFile, *, share: float, seed: int, listed: ListedNotes | None = None
) -> Split:
    """Keep some patients' notes out of the training, none of a patient with a listed note.

    Parameters
    ----------
    share
        Of all patients; drawn among those who are not listed, or all of these if they are fewer.
    listed
        Which notes hold a listed name. Where every patient has one, nothing is held out.
    """
    if listed is not None and listed.n_notes != tokens.counts.n_read:
        raise AuditError(
            f"The corpus has {listed.n_notes:,} notes, but {tokens.counts.n_read:,} were read.",
            where="corpus",
            do="Build the corpus again.",
        )
    everything = np.arange(tokens.counts.n_documents)
    n_groups = tokens.counts.n_groups
    if not share:
        return Split(everything, everything[:0])
    positions = np.array([] if listed is None else listed.notes, dtype=np.int64)
    kept = np.unique(tokens.groups[tokens.documents_at(positions)])
    if n_groups < 2 and not len(kept):
        raise AuditError(
            "All notes are of one patient, so none can be held out.",
            where="notes",
            do="Set `held_out_share` to 0.",
        )
    n_held_out = min(n_groups - 1, max(1, round(share * n_groups)))
    order = generator(seed, "held-out patients").permutation(n_groups)
    chosen = order[~np.isin(order, kept)][:n_held_out]
    is_held_out = np.isin(tokens.groups, chosen)
    return Split(everything[~is_held_out], everything[is_held_out], len(kept))


class Stream:
    """Some notes of a token file as one row of tokens, read where it is asked for."""

    def __init__(self, tokens: TokenFile, documents: NDArray[np.int64]) -> None:
        self._ids = tokens.ids
        lengths = tokens.lengths[documents]
        self._ends = np.cumsum(lengths)
        # From a place in the stream to the place in the file, note by note.
        self._shift = tokens.ends[documents] - self._ends

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def at(self, places: NDArray[np.int64]) -> Ids:
        """Return the ids at places 0 to len - 1, in the places' shape."""
        document = np.searchsorted(self._ends, places, side="right")
        return self._ids[places + self._shift[document]].astype(np.int64)


@dataclass(eq=False)
class Rows:
    """The rows of a training.

    Parameters
    ----------
    stream
        The tokens that are trained on.
    n_inner
        Tokens of notes in a row.
    batch
        Rows a step.
    """

    stream: Stream
    special: SpecialIds
    n_inner: int
    batch: int
    seed: int
    _order: tuple[int, int, NDArray[np.int64]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.n_rows:
            raise AuditError(
                f"The notes have {len(self.stream)} tokens to train on, fewer than one row of "
                f"{self.n_inner}.",
                where="notes",
                do="Take more notes, or shorter rows.",
            )

    @property
    def n_rows(self) -> int:
        """Rows of an epoch."""
        return len(self.stream) // self.n_inner

    def of_step(self, step: int) -> Ids:
        """Return the rows [batch, L] of a step, 1 and on."""
        first = (step - 1) * self.batch
        numbers = np.arange(first, first + self.batch)
        begins = np.concatenate(
            [
                self._begins(epoch, numbers[numbers // self.n_rows == epoch] % self.n_rows)
                for epoch in range(first // self.n_rows, int(numbers[-1]) // self.n_rows + 1)
            ]
        )
        places = (begins[:, None] + np.arange(self.n_inner)) % len(self.stream)
        return framed(self.stream.at(places), special=self.special)

    def _begins(self, epoch: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the rows of an epoch begin in the stream."""
        if self._order is None or self._order[0] != epoch:
            rng = generator(self.seed, "rows", epoch)
            offset = int(rng.integers(len(self.stream)))
            self._order = (epoch, offset, rng.permutation(self.n_rows))
        _, offset, order = self._order
        return offset + order[numbers] * self.n_inner


def held_out_rows(stream: Stream, *, special: SpecialIds, n_inner: int) -> Ids:
    """Return rows [n, L] of held-out notes, evenly spread, always the same; [0, L] without any."""
    n_inner = min(n_inner, len(stream)) or n_inner
    n_rows = len(stream) // n_inner
    chosen = np.arange(n_rows)
    if n_rows > MOST_HELD_OUT_ROWS:
        chosen = np.linspace(0, n_rows - 1, MOST_HELD_OUT_ROWS).astype(np.int64)
    places = chosen[:, None] * n_inner + np.arange(n_inner)
    return framed(stream.at(places), special=special)


def framed(inner: Ids, *, special: SpecialIds) -> Ids:
    """Put [CLS] before and [SEP] after rows [n, L - 2]."""
    frame = np.ones((len(inner), 1), dtype=np.int64)
    return np.concatenate([frame * special.cls, inner, frame * special.sep], axis=1)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that nothing is learned from; rows and masks are always the same.

    Attributes
    ----------
    rows
        With at least one row.
    unigram_loss
        Loss of guessing each token by its frequency in the notes that are trained on, in nats a
        token: a model that has learned only which words are frequent stays there.
    """

    rows: MaskedRows
    unigram_loss: float


def held_out(
    tokens: TokenFile, split: Split, *, special: SpecialIds, settings: TrainSettings
) -> HeldOut | None:
    """Return the held-out rows; None where no notes are held out."""
    stream = Stream(tokens, split.held_out)
    if not len(stream):
        return None
    rows = held_out_rows(stream, special=special, n_inner=settings.n_inner)
    rng = generator(settings.seed, "held-out masks")
    masked = masked_rows(rows, special=special, share=settings.mask_share, rng=rng)
    counts = _train_counts(tokens, split, n_vocabulary=special.n_vocabulary)
    counts[special.sep] = 0  # never asked for
    return HeldOut(masked, unigram_loss(counts, masked.targets))


def unigram_loss(counts: NDArray[Any], targets: NDArray[Any]) -> float:
    """Return the mean loss of targets guessed by counts, each raised by one, in nats a token."""
    share = (counts + 1.0) / (counts.sum() + len(counts))
    return -math.fsum(np.log(share[targets]).ravel()) / targets.size


def _train_counts(tokens: TokenFile, split: Split, *, n_vocabulary: int) -> NDArray[np.int64]:
    counts = token_counts(tokens.ids, n_vocabulary=n_vocabulary)
    ends = tokens.ends[split.held_out]
    for start, end in zip(ends - tokens.lengths[split.held_out], ends, strict=True):
        counts -= np.bincount(tokens.ids[start:end], minlength=n_vocabulary)
    return counts
