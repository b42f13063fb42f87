"""The default tagger, made from nothing: synthetic notes, a small network, the best combination.

Comes in: a folder, a number of notes, a seed. Goes out: `tagger.json`, `model/` and `how.json`,
which says how it was made and what it reaches on styles of notes that it was not trained on. The
same recipe made `audit/deid/default_tagger`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from audit.deid.matching import ANY, COLUMNS, OPTIMAL
from audit.deid.metrics import Pair
from audit.deid.network.config import (
    WHERE,
    Material,
    Shape,
    TaggerFacts,
    TaggerSettings,
    file_digests,
    synthetic,
    with_mixed_lines,
)
from audit.deid.network.config import notes_digest as digest_of_notes
from audit.deid.network.decode import Ids, Reader, Scores, TagScheme, Tokens, characters_of, runs_of
from audit.deid.network.model import (
    CharacterNet,
    TokenModel,
    load_model_folder,
    model_of_encoder,
    new_model,
    padded,
    save_model_folder,
)
from audit.deid.network.tagger import load_token_tagger, scores_of, spans_from
from audit.deid.rules import RuleTagger
from audit.deid.score import Scored, score_pairs, score_summary
from audit.deid.tagger import MODEL, TAGGER, Tags
from audit.deid.taggers import WAYS, combined_digest, put_together
from audit.errors import AuditError
from audit.models.forward import plain_float32
from audit.models.load import pick_device
from audit.notes.formats import flattened
from audit.notes.spans import FIVE_TYPES, TYPES, TaggedDocument, relabelled
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import alone, unwritable, whole_folder, write_whole
from audit.stats import N_REPLICATES
from audit.task import Record
from audit.training.loop import (
    Hardware,
    Learner,
    Loop,
    PointListener,
    adamw,
    claim,
    forget_checkpoints,
    own_tensors,
    pick_precision,
)

NO_TAG = -100
"""Stands where there is nothing to learn: white space, special tokens, padding."""
_READ_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Lesson:
    """A note that is learned from: ids, kinds, tags and the number of the span of each token."""

    ids: NDArray[np.int32]
    kinds: NDArray[np.uint8] | None
    tags: NDArray[np.int8]
    span_numbers: NDArray[np.int32]

    def part(self, start: int, end: int) -> Lesson:
        """Return some tokens of it."""
        kinds = None if self.kinds is None else self.kinds[start:end]
        return Lesson(
            self.ids[start:end], kinds, self.tags[start:end], self.span_numbers[start:end]
        )

    def piece(self) -> tuple[Ids, Ids | None]:
        """Return ids and kinds as a model takes them."""
        kinds = None if self.kinds is None else self.kinds.astype(np.int64)
        return self.ids.astype(np.int64), kinds


def lessons_of(
    documents: Sequence[TaggedDocument], *, reader: Reader, scheme: TagScheme
) -> list[Lesson]:
    """Return annotated notes as lessons; spans of labels that the scheme lacks are left out."""
    found: list[Lesson] = []
    for start in range(0, len(documents), _READ_AT_ONCE):
        some = documents[start : start + _READ_AT_ONCE]
        for document, tokens in zip(some, reader.read([d.text for d in some]), strict=True):
            spans = [s for s in flattened(document).spans if s.label in scheme.labels]
            runs = runs_of(spans, tokens=tokens)
            at = tokens.places
            tags = np.full(len(tokens), NO_TAG, dtype=np.int8)
            tags[at] = scheme.encode(runs, n_tokens=len(at))
            numbers = np.zeros(len(tokens), dtype=np.int32)
            for number, (first, end, _) in enumerate(runs, start=1):
                numbers[at[first:end]] = number
            kinds = None if tokens.kinds is None else tokens.kinds.astype(np.uint8)
            found.append(Lesson(tokens.ids.astype(np.int32), kinds, tags, numbers))
    return found


class Lessons:
    """All lessons of a training, and which rows belong to a step.

    Parameters
    ----------
    size
        Tokens of a row, without special ones.
    unknown_id
        Stands for a token that is hidden.
    """

    def __init__(
        self, lessons: Sequence[Lesson], *, settings: TaggerSettings, size: int, unknown_id: int
    ) -> None:
        self._lessons = [one for one in lessons if len(one.ids)]
        self._settings, self._size, self._unknown_id = settings, size, unknown_id
        starts = [(i, at) for i, one in enumerate(self._lessons)
                  for at in range(0, len(one.ids), size)]  # fmt: skip
        self._starts = np.array(starts, dtype=np.int64).reshape(-1, 2)
        self._epoch = lru_cache(maxsize=2)(self._rows_of_epoch)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self._starts)

    @property
    def n_steps(self) -> int:
        """How many steps the training takes."""
        return max(1, round(self._settings.n_epochs * self._per_epoch))

    @property
    def _per_epoch(self) -> int:
        return max(1, -(-self.n_rows // self._settings.batch))

    def of_step(self, step: int) -> list[Lesson]:
        """Return the rows of a step, 1 and on, the longest first, some of their tokens hidden."""
        epoch, place = divmod(step - 1, self._per_epoch)
        rows = self._epoch(epoch)[place * self._settings.batch :][: self._settings.batch]
        rng = generator(self._settings.seed, "tagger noise", step)
        parts = [
            self._lessons[note].part(start, start + self._size) for note, start in rows.tolist()
        ]
        hidden = [self._hidden(part, rng) for part in parts]
        return sorted(hidden, key=lambda part: -len(part.ids))

    def _rows_of_epoch(self, epoch: int) -> Ids:
        rng = generator(self._settings.seed, "tagger rows", epoch)
        rows: Ids = self._starts[rng.permutation(self.n_rows)]
        shift = rng.integers(self._size, size=self.n_rows) - self._size // 2
        lengths = np.array([len(one.ids) for one in self._lessons])[rows[:, 0]]
        last = np.maximum(lengths - self._size, 0)
        starts = np.clip(rows[:, 1] + shift, 0, last)
        return np.stack([rows[:, 0], starts], axis=1)

    def _hidden(self, part: Lesson, rng: np.random.Generator) -> Lesson:
        settings = self._settings
        is_hidden = rng.random(len(part.ids)) < settings.unknown_share
        numbers = np.unique(part.span_numbers)
        chosen = numbers[(rng.random(len(numbers)) < settings.hidden_share) & (numbers > 0)]
        is_hidden |= np.isin(part.span_numbers, chosen)
        ids = np.where(is_hidden, np.int32(self._unknown_id), part.ids)
        return replace(part, ids=ids)


def passes_of(rows: Sequence[Lesson], *, n: int) -> Iterator[list[Lesson]]:
    """Yield the rows of a step in forward passes of at most `n`."""
    for start in range(0, len(rows), n):
        yield list(rows[start : start + n])


CRITERION = "strict"
_ROWS = dict(zip(COLUMNS, range(len(COLUMNS)), strict=True))


@dataclass(frozen=True)
class Figures:
    """What a tagger reaches on some notes, all types together.

    Attributes
    ----------
    n_gold, n_predicted, n_missed, n_spurious
        Spans, by the strict criterion: same place and same type.
    beta
        How much more recall weighs than precision in `f`.
    """

    n_gold: int
    n_predicted: int
    n_missed: int
    n_spurious: int
    beta: float = 1.0

    @property
    def recall(self) -> float | None:
        """Share of the golds that are found; None without any."""
        return (self.n_gold - self.n_missed) / self.n_gold if self.n_gold else None

    @property
    def precision(self) -> float | None:
        """Share of the predictions that are right; None without any."""
        right = self.n_predicted - self.n_spurious
        return right / self.n_predicted if self.n_predicted else None

    @property
    def f(self) -> float:
        """The F measure with `beta` (van Rijsbergen 1979); 0 where nothing is right."""
        recall, precision = self.recall or 0.0, self.precision or 0.0
        weighted = self.beta**2 * precision + recall
        return (1 + self.beta**2) * precision * recall / weighted if weighted else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return counts and measures as plain values."""
        found = {"precision": self.precision, "recall": self.recall, "f": self.f}
        return {"criterion": CRITERION, **asdict(self), **found}


def figures_of(pairs: Iterable[Pair], *, beta: float = 1.0) -> Figures:
    """Return the figures of notes, gold beside predicted."""
    row = score_pairs(pairs).criteria[CRITERION].row(ANY)
    return Figures(
        n_gold=row[_ROWS["n_gold"]],
        n_predicted=row[_ROWS["n_predicted"]],
        n_missed=row[_ROWS["n_missed"]],
        n_spurious=row[_ROWS["n_spurious"]],
        beta=beta,
    )


def predicted(documents: Sequence[TaggedDocument], tags: Sequence[Tags]) -> list[Pair]:
    """Return annotated notes beside what was found in them."""
    return [(gold, gold.with_spans(spans)) for gold, spans in zip(documents, tags, strict=True)]


class Examiner:
    """Measures a model on notes that it does not learn from.

    Parameters
    ----------
    documents
        Annotated notes.
    size, overlap
        Of rows, in tokens.
    """

    def __init__(
        self,
        documents: Sequence[TaggedDocument],
        *,
        model: TokenModel,
        scheme: TagScheme,
        size: int,
        overlap: int,
    ) -> None:
        self._documents, self._scheme = documents, scheme
        self._size, self._overlap = size, overlap
        self._notes: list[Tokens] = model.reader.read([one.text for one in documents])

    @property
    def n_tokens(self) -> int:
        """How many tokens are read for one measurement."""
        return sum(len(note) for note in self._notes)

    def scores(self, model: TokenModel) -> list[Scores]:
        """Return the scores of the notes' tokens."""
        model.module.eval()
        return scores_of(self._notes, model=model, size=self._size, overlap=self._overlap)

    def figures(self, scores: Sequence[Scores], *, bias: float, beta: float) -> Figures:
        """Return the figures with a bias."""
        tags = spans_from(scores, notes=self._notes, scheme=self._scheme, bias=bias)
        return figures_of(predicted(self._documents, tags), beta=beta)

    def best_bias(
        self, scores: Sequence[Scores], *, biases: Iterable[float], beta: float
    ) -> tuple[float, Figures]:
        """Return the bias with the highest F, of equals that nearest to 0, and the figures."""
        tried = [(bias, self.figures(scores, bias=bias, beta=beta)) for bias in biases]
        return max(tried, key=lambda one: (one[1].f, -abs(one[0])))


def in_five_types(
    documents: Iterable[TaggedDocument],
) -> tuple[list[TaggedDocument], tuple[str, ...]]:
    """Return notes with labels mapped to the five types, and the labels that are none of them.

    Spans of those labels are left out.
    """
    found: list[TaggedDocument] = []
    unknown: set[str] = set()
    for document in documents:
        mapped = relabelled(document, by=FIVE_TYPES)
        unknown.update(mapped.unknown)
        kept = [span for span in mapped.document.spans if span.label in TYPES]
        found.append(document.with_spans(kept))
    return found, tuple(sorted(unknown))


_VERSION = 1
_LONG_ROW = 1024


@dataclass(frozen=True)
class TaggerOrder:
    """What is to be trained.

    `out` is new, or the folder of the same training; without an encoder to start from a small
    network of characters is trained; `is_halved` keeps weights in float16; `about` is said in
    `tagger.json` too.
    """

    out: Path
    settings: TaggerSettings
    encoder: Path | None = None
    shape: Shape = field(default_factory=Shape)
    title: str = ""
    device: str = "auto"
    is_halved: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Task:
    """Everything that a training needs before its first step.

    Attributes
    ----------
    facts
        What `training.json` says of it, as plain values.
    key
        Digest of all that decides the weights but hardware and libraries.
    tagging_rows
        Tokens of a row, and how many it shares with the one before, when notes are tagged.
    """

    settings: TaggerSettings
    scheme: TagScheme
    model: TokenModel
    lessons: Lessons
    examiner: Examiner
    hardware: Hardware
    facts: Mapping[str, Any]
    key: str
    tagging_rows: tuple[int, int]


def task_of(order: TaggerOrder, material: Material, *, device: str) -> Task:
    """Build the model and the rows of an order."""
    settings = order.settings
    scheme = TagScheme(TYPES, settings.scheme)
    model = _model(order, material, scheme=scheme)
    size = min(settings.n_tokens, model.n_positions)
    n_special = len(model.reader.prefix) + len(model.reader.suffix)
    tag_size, overlap = _tagging_rows(model, size=size, overlap=settings.overlap)
    if tag_size - n_special < max(4, 2 * overlap):
        raise AuditError(
            f"Rows of {size} tokens are too short for this overlap.",
            where=WHERE,
            do="Set `n_tokens` higher or `overlap` lower.",
        )
    model.module.to(device)
    lessons = Lessons(
        lessons_of(material.train, reader=model.reader, scheme=scheme),
        settings=settings, size=size - n_special, unknown_id=model.reader.unknown_id,
    )  # fmt: skip
    examiner = Examiner(
        material.validation, model=model, scheme=scheme, size=tag_size, overlap=overlap
    )
    hardware = Hardware(device, pick_precision(settings.precision, device=device))
    facts = _facts(order, material, lessons=lessons, hardware=hardware)
    key = str(facts["key"])
    return Task(
        settings, scheme, model, lessons, examiner, hardware, facts, key, (tag_size, overlap)
    )


def _tagging_rows(model: TokenModel, *, size: int, overlap: int) -> tuple[int, int]:
    """Return tokens of a row and how many are shared when notes are tagged.

    A network of characters reads rows of any length; with twice its reach shared, a token's score
    is that of the whole note.
    """
    if isinstance(model.module, CharacterNet):
        reach = model.module.reach
        return max(_LONG_ROW, size, 8 * reach), 2 * reach
    return size, overlap


def _model(order: TaggerOrder, material: Material, *, scheme: TagScheme) -> TokenModel:
    settings = order.settings
    if order.encoder is not None:
        return model_of_encoder(order.encoder, n_tags=len(scheme), seed=settings.seed)
    shape = order.shape
    texts = (document.text for document in material.train)
    reader = characters_of(texts, n_most=shape.n_characters, n_times=shape.n_times)
    return new_model(reader, shape=shape, n_tags=len(scheme), seed=settings.seed)


def _facts(
    order: TaggerOrder,
    material: Material,
    *,
    lessons: Lessons,
    hardware: Hardware,
) -> dict[str, Any]:
    """Say what the training is, as plain values; a path or a note's text is none of them."""
    content: dict[str, Any] = {
        "version": _VERSION,
        "settings": order.settings.plain(),
        "notes": material.digest,
        "encoder": None if order.encoder is None else file_digests(order.encoder.resolve()),
        "shape": order.shape.plain() if order.encoder is None else None,
        "is_halved": order.is_halved,
    }
    text = json.dumps(content, sort_keys=True)
    return {
        **content,
        "encoder": None if order.encoder is None else order.encoder.resolve().name,
        "key": hashlib.sha256(text.encode("ascii")).hexdigest(),
        "n_steps": lessons.n_steps,
        "n_rows": lessons.n_rows,
        "n_notes": len(material.train),
        "n_spans": sum(len(document.spans) for document in material.train),
        "n_validation_notes": len(material.validation),
        "n_threads": torch.get_num_threads(),
        "device": hardware.device,
        "precision": hardware.precision,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


TRAIN, MEASURE = "training the tagger", "measuring the tagger"
BEST = "best"
_WEIGHTS, _STATE = "model.safetensors", "state.json"


class _Best(Record):
    """Step and F of the best weights so far."""

    step: int
    f: float
    key: str


class TokenLearner(Learner):
    """A token classifier, its lessons and notes to measure it on; the best weights are kept."""

    phase = TRAIN
    dropout = "tagger dropout"

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(
            task.model.module,
            settings=task.settings,
            hardware=task.hardware,
            n_steps=task.lessons.n_steps,
            optimizer=adamw(task.model.module, task.settings, fused=True),
        )
        self._task, self._folder = task, folder

    def passes(self, step: int) -> Iterator[tuple[list[Lesson], int]]:
        """Yield the rows of each pass, and how many tokens the step learns from."""
        rows = self._task.lessons.of_step(step)
        n_told = max(1, sum(int((row.tags != NO_TAG).sum()) for row in rows))
        for some in passes_of(rows, n=self._task.settings.micro_batch):
            yield some, n_told

    def loss(self, rows: tuple[list[Lesson], int]) -> Tensor:
        """Return the summed loss of the rows' tokens over the number of tokens of the step."""
        (some, n_told), model = rows, self._task.model
        given = padded([row.piece() for row in some], reader=model.reader)
        tags = np.full(given.ids.shape, NO_TAG, dtype=np.int64)
        for i, row in enumerate(some):
            tags[i, given.n_before : given.n_before + len(row.tags)] = row.tags
        with self.hardware.numbers():
            logits = model.logits_of(given)
        summed = functional.cross_entropy(
            logits.float().flatten(end_dim=1),
            torch.from_numpy(tags).to(model.device).flatten(),
            ignore_index=NO_TAG,
            reduction="sum",
        )
        return summed / n_told

    def is_point(self, step: int) -> bool:
        """Also where the tagger is measured."""
        return self._is_measured(step) or super().is_point(step)

    def units(self, step: int) -> dict[str, float]:
        """Return steps, and measurements until then."""
        return {TRAIN: float(step), MEASURE: float(sum(map(self._is_measured, range(1, step + 1))))}

    def measured(self, step: int) -> Mapping[str, float | None]:
        """Measure the tagger with a bias of 0, where it is time for it, and keep the best."""
        if step == 0:
            shutil.rmtree(self._folder / BEST, ignore_errors=True)
        if not self._is_measured(step):
            return {}
        task = self._task
        scores = task.examiner.scores(task.model)
        found = task.examiner.figures(scores, bias=0.0, beta=task.settings.recall_weight)
        best = read_best(self._folder)
        # A best of this step or later was written just before a kill: it is made again.
        if best is None or best.step >= step or found.f > best.f:
            with whole_folder(self._folder / BEST, replaces=True) as partial:
                save_file(own_tensors(self.model.state_dict()), partial / _WEIGHTS)
                best = _Best(step=step, f=found.f, key=task.key)
                write_whole(partial / _STATE, best.written())
        return {"precision": found.precision, "recall": found.recall, "f": found.f}

    def take_best(self) -> None:
        """Put the best weights into the model."""
        weights = load_file(self._folder / BEST / _WEIGHTS)
        device = self.hardware.device
        self.model.load_state_dict({name: one.to(device) for name, one in weights.items()})
        self.model.eval()

    def _is_measured(self, step: int) -> bool:
        n = min(self._task.settings.n_evaluations, self.n_steps)
        return any(step == -(-self.n_steps * (k + 1) // n) for k in range(n))


def read_best(folder: Path) -> _Best | None:
    """Return step and F of the best weights so far; None where none were kept."""
    try:
        return _Best.read((folder / BEST / _STATE).read_bytes(), where=BEST)
    except (OSError, AuditError):
        return None


def train_tagger(
    order: TaggerOrder,
    material: Material,
    *,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> TaggerFacts:
    """Train a tagger, or go on with a training that was stopped or killed."""
    device = pick_device(order.device)
    with alone(order.out), torch.random.fork_rng(), plain_float32(device):
        task = task_of(order, material, device=device)
        claim(order.out, task.facts, result=TAGGER)
        if not (order.out / TAGGER).is_file():
            totals = {
                TRAIN: float(task.lessons.n_steps), MEASURE: float(order.settings.n_evaluations),
            }  # fmt: skip
            meter = Meter(totals, listener=progress, should_stop=should_stop)
            learner = TokenLearner(task, order.out)
            Loop(learner, order.out, task.key, meter, on_point).run()
            learner.take_best()
            _finish(order, task)
            meter.finish(MEASURE)
    forget_checkpoints(order.out)
    shutil.rmtree(order.out / BEST, ignore_errors=True)
    return TaggerFacts.of_folder(order.out)


def _finish(order: TaggerOrder, task: Task) -> None:
    """Write the model, choose the bias with the very weights that were written, say what it is."""
    settings = task.settings
    with whole_folder(order.out / MODEL, replaces=True) as partial:
        save_model_folder(task.model, partial, is_halved=order.is_halved)
    device = str(task.model.device)
    model = load_model_folder(order.out / MODEL, n_tags=len(task.scheme), device=device)
    bias, figures = task.examiner.best_bias(
        task.examiner.scores(model), biases=settings.biases, beta=settings.recall_weight
    )
    best = read_best(order.out)
    n_tokens, overlap = task.tagging_rows
    facts = TaggerFacts(
        title=order.title,
        labels=task.scheme.labels,
        scheme=task.scheme.kind,
        n_tokens=n_tokens,
        overlap=overlap,
        bias=bias,
        files=file_digests(order.out / MODEL),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        training={**task.facts, **order.about, "best_step": best.step if best else None},
        measured=figures.to_json(),
    )
    write_whole(order.out / TAGGER, facts.file())


HOW = "how.json"
LANGUAGES = ("ja", "en")
_BETA = 2.0


@dataclass(frozen=True)
class DefaultRecipe:
    """How the default tagger is made; sizes that train in minutes on two cores.

    Attributes
    ----------
    n_notes
        To learn from, all languages together; half of them made of lines of the others.
    n_validation
        Notes of the same styles and other patients: for the best weights and the bias.
    n_choosing, n_test
        Notes of styles that are not learned from: to choose the combination by, and to measure it.
    """

    n_notes: int = 16_000
    n_validation: int = 400
    n_choosing: int = 600
    n_test: int = 1000
    n_epochs: float = 1.0
    seed: int = 0

    def settings(self) -> TaggerSettings:
        """Return the settings of the training."""
        return TaggerSettings(
            n_tokens=192,
            n_epochs=self.n_epochs,
            learning_rate=2e-3,
            unknown_share=0.1,
            hidden_share=0.25,
            seed=self.seed,
        )


def make_default(
    work: Path,
    *,
    out: Path,
    recipe: DefaultRecipe,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> dict[str, Any]:
    """Train the default tagger in `work` and put it whole into `out`; returns `how.json`.

    Raises
    ------
    AuditError
        As `train_tagger`, or if `out` cannot be written.
    AuditCancelled
        If the person asked to stop; the same call goes on from there.
    """

    def notes(n: int, *, seed: int, is_held_out: bool = False) -> tuple[TaggedDocument, ...]:
        made = synthetic(n, seed=seed, languages=LANGUAGES, is_held_out=is_held_out,
                         should_stop=should_stop)  # fmt: skip
        return tuple(made)

    seed = recipe.seed
    plain = notes(recipe.n_notes - recipe.n_notes // 2, seed=seed)
    mixed = with_mixed_lines(plain[: recipe.n_notes // 2], seed=seed)
    material = Material((*plain, *mixed), notes(recipe.n_validation, seed=seed + 1))
    order = TaggerOrder(
        out=work, settings=recipe.settings(), shape=Shape(), is_halved=True,
        about={"synthetic": recipe.n_notes},
    )  # fmt: skip
    facts = train_tagger(
        order, material, progress=progress, should_stop=should_stop, on_point=on_point
    )
    how = _how(work, facts, recipe=recipe, notes_digest=material.digest, should_stop=should_stop)
    _put_down(work, out=out, how=how)
    return how


def _put_down(work: Path, *, out: Path, how: dict[str, Any]) -> None:
    """Write what is shipped, readable for everybody: no note and no name is in it."""
    partial = out.with_name(f".{out.name}.part")
    text = json.dumps(how, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        (partial / MODEL).mkdir(parents=True)
        for path in (work / TAGGER, *sorted((work / MODEL).iterdir())):
            (partial / path.relative_to(work)).write_bytes(path.read_bytes())
        (partial / HOW).write_text(text + "\n", encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    except OSError as error:
        raise unwritable(error) from None


def measure_again(out: Path, *, should_stop: StopQuestion = lambda: False) -> dict[str, Any]:
    """Choose the combination and measure it anew, as after a change of rules; trains nothing."""
    facts = TaggerFacts.of_folder(out)
    try:
        before = json.loads((out / HOW).read_text(encoding="utf-8"))
        recipe, digest = DefaultRecipe(**before["recipe"]), str(before["notes_digest"])
    except (OSError, ValueError, KeyError, TypeError):
        raise AuditError("It is damaged.", where="default tagger", do="Install it again.") from None
    how = _how(out, facts, recipe=recipe, notes_digest=digest, should_stop=should_stop)
    _put_down(out, out=out, how=how)
    return how


def _how(
    work: Path,
    facts: TaggerFacts,
    *,
    recipe: DefaultRecipe,
    notes_digest: str,
    should_stop: StopQuestion,
) -> dict[str, Any]:
    """Choose the combination on some held-out notes, and measure it on others."""
    chooser, test = (
        tuple(
            synthetic(
                n,
                seed=recipe.seed + place,
                languages=LANGUAGES,
                is_held_out=True,
                should_stop=should_stop,
            )
        )
        for n, place in ((recipe.n_choosing, 2), (recipe.n_test, 3))
    )
    model, rules = load_token_tagger(work, device="cpu"), RuleTagger()
    texts = [document.text for document in chooser]
    found = rules.tag(texts), model.tag(texts)
    tried = ways_tried(chooser, by_rules=found[0], by_model=found[1])
    way = max(WAYS, key=lambda name: (tried[name].f, -WAYS.index(name)))
    texts = [document.text for document in test]
    by_rules, by_model = rules.tag(texts), model.tag(texts)
    together = [put_together(t, a, b, way=way)
                for t, a, b in zip(texts, by_rules, by_model, strict=True)]  # fmt: skip
    return {
        "way": way,
        "digest": combined_digest(rules.digest, model.digest, way=way),
        "rules_digest": rules.digest,
        "model_digest": facts.digest(),
        "recipe": vars(recipe).copy(),
        "notes_digest": notes_digest,
        "test_digest": digest_of_notes(test),
        "chosen_by": {name: one.to_json() for name, one in tried.items()},
        "held_out": {
            "rules alone": _by_language(test, by_rules),
            "model alone": _by_language(test, by_model),
            "default": _by_language(test, together),
        },
    }


def ways_tried(
    documents: Sequence[TaggedDocument], *, by_rules: Sequence[Tags], by_model: Sequence[Tags]
) -> dict[str, Figures]:
    """Return the figures of rules alone, the model alone, and both by every way."""
    answers: dict[str, Sequence[Tags]] = {"rules alone": by_rules, "model alone": by_model}
    for way in WAYS:
        rows = zip(documents, by_rules, by_model, strict=True)
        answers[way] = [put_together(d.text, a, b, way=way) for d, a, b in rows]
    return {
        name: figures_of(predicted(documents, tags), beta=_BETA) for name, tags in answers.items()
    }


def _by_language(documents: Sequence[TaggedDocument], tags: Sequence[Tags]) -> dict[str, Any]:
    """Return the measures of held-out notes, for each language: those of `deid score`."""
    pairs = predicted(documents, tags)
    found: dict[str, Any] = {}
    for language in LANGUAGES:
        some = [pair for pair in pairs if pair[0].doc_id.startswith(f"{language}/")]
        if some:
            found[language] = shown_measures(score_pairs(some))
    if not found:
        raise AuditError("There is no note of a held-out style.", where="synthetic notes")
    return found


def shown_measures(scored: Scored) -> dict[str, Any]:
    """Return counts, rates and intervals by type, under two criteria, as the page shows them."""
    score = score_summary(scored, matcher=OPTIMAL, n_replicates=N_REPLICATES)
    summary = score.plain()
    criteria: dict[str, Any] = summary["criteria"]
    return {
        "n_notes": summary["n_documents"],
        "n_patients": summary["n_patients"],
        **{
            name: {
                label: _shortened(entry)
                for label, entry in (
                    *criteria[name]["labels"].items(),
                    ("all", criteria[name]["together"]),
                )
            }
            for name in ("strict", "label_relaxed")
        },
    }


def _shortened(entry: dict[str, Any]) -> dict[str, Any]:
    """Return counts, rates and their 95 % intervals over patients, to four digits."""
    counts = {name: entry[name] for name in ("n_gold", "n_predicted")}
    rates = {
        name: None if entry[name] is None else round(entry[name], 4)
        for name in ("precision", "recall", "f1", "complete")
    }
    intervals = {
        name: None
        if entry["intervals"][name] is None
        else [round(one, 4) for one in entry["intervals"][name]]
        for name in rates
    }
    return {**counts, **rates, "intervals": intervals}
