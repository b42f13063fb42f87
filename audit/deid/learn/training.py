"""Training of a token classifier, from scratch, from an encoder or from a tagger.

A training that was killed continues where it was. Comes in: a task. Goes out: a folder with
`tagger.json` and `model/`.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import JsonValue
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from audit.deid.find.network.decode import (
    END,
    FLAG,
    N_FEATURES,
    Ids,
    Scorer,
    TagScheme,
    TokenizerReader,
    decode_spans,
    find_placed_tokens,
    score_notes,
    spans_to_runs,
)
from audit.deid.find.network.token_model import (
    TokenModel,
    WordNet,
    model_of_encoder,
    model_of_tagger,
    new_model,
    save_model_folder,
)
from audit.deid.find.network.token_tagger import TokenTagger, load_model, load_token_tagger
from audit.deid.find.network.word_features import LISTED, Words
from audit.deid.find.network.word_lists import make_words_reader
from audit.deid.find.network.wordnet import Shape
from audit.deid.find.rules import RuleTagger
from audit.deid.find.tagger import MODEL, TAGGER, Tagger, tag_and_check
from audit.deid.find.tagger_facts import TaggerFacts, file_digests
from audit.deid.find.taggers import DEFAULT, CombinedTagger, network_folder
from audit.deid.learn.tagger_task import WHERE, TaggerSettings
from audit.deid.measure.score_report import HEADLINE_CRITERION, ScoreCounts, score_pairs
from audit.deid.measure.span_matching import ANY, COLUMNS
from audit.deid.measure.span_metrics import Pair
from audit.deid.sets.incoming_notes import read_paths
from audit.errors import AuditError
from audit.models.forward import pick_precision, use_exact_float32
from audit.models.load import pick_device
from audit.notes.formats import flatten_spans, format_jsonl_line
from audit.notes.spans import (
    FIVE_TYPES,
    IDENTIFIER,
    TYPES,
    LabelMap,
    TaggedDocument,
    Tags,
    make_type_error,
    relabel_document,
)
from audit.progress import ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import (
    digest_json,
    hold_training_folder,
    make_time_stamp,
    whole_folder,
    write_whole,
)
from audit.task import Record
from audit.training.loop import (
    VERSIONS,
    Hardware,
    Learner,
    PointListener,
    adamw,
    copy_to_main_memory,
)

if TYPE_CHECKING:
    from audit.deid.learn.tagger_task import TaggerTask

TRAIN = "training the tagger"
NO_TAG = -100
"""The tag of tokens that the loss ignores: white space, special tokens, padding."""
LEARNED = np.dtype([("id", np.int32, (N_FEATURES,)), ("tag", np.int8), ("span", np.int32)])
Lesson = NDArray[np.void]
"""A note to learn from: each token is a `LEARNED` with its tag and the number of its span."""
_READ_AT_ONCE = 256
_UNLISTED = 0.6
_LONG_ROW = 1024
_BEST, _WEIGHTS, _FIGURES = "best", "model.safetensors", "figures.json"
_VERSION = 1
_MAX_VALIDATION = 1000
_N_ERRORS = 2.0
"""By so many standard errors over patients a tagger must be better than the one it started from."""
_SHARE_APART, _SHARE_APART_ON_BASE = 0.1, 0.2
NOTES = "annotated notes"


@dataclass(frozen=True)
class Material:
    """Annotated notes to train on and to measure on."""

    train: tuple[TaggedDocument, ...]
    validation: tuple[TaggedDocument, ...]

    def __post_init__(self) -> None:
        """Check that there are notes of both kinds, and spans to learn."""
        if not self.train or not self.validation:
            raise AuditError(
                "There are too few notes to train on some and measure on others.",
                where=NOTES,
                do="Give notes of two patients or more, or validation notes of their own.",
            )
        if not any(document.spans for document in self.train):
            raise AuditError("No note holds a span: there is nothing to learn.", where=NOTES)

    @property
    def digest(self) -> str:
        """SHA-256 of all notes and spans, in their order."""
        digest = hashlib.sha256(f"{len(self.train)}\n".encode())
        for document in (*self.train, *self.validation):
            digest.update(format_jsonl_line(document).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def read_material(
    task: TaggerTask,
    *,
    seed: int,
    map_labels: Callable[[Iterable[TaggedDocument]], Iterable[TaggedDocument]] = tuple,
) -> Material:
    """Return the notes of a task, passed through `map_labels`.

    If the task has no validation notes, the notes of some patients are kept apart. If the training
    goes on from a tagger, those of more patients are, since they also decide whether it got better.
    """
    gold, validation = (
        tuple(map_labels(read_paths(paths, subject=NOTES)))
        for paths in (task.gold, task.validation)
    )
    if task.validation:
        return Material(gold, validation)
    return split_material(
        gold, seed=seed, share=_SHARE_APART_ON_BASE if task.base else _SHARE_APART
    )


def split_material(
    documents: Sequence[TaggedDocument], *, seed: int, share: float = _SHARE_APART
) -> Material:
    """Keep the notes of some patients apart to measure on: a share of all, about 1000 at most."""
    sizes = Counter(document.patient for document in documents)
    patients = sorted(sizes)
    order = generator(seed, "tagger validation").permutation(len(patients))
    n_wanted = min(_MAX_VALIDATION, max(1, round(share * len(documents))))
    validation_patients: set[tuple[int, str]] = set()
    for rank in order[:-1]:
        if sum(sizes[patient] for patient in validation_patients) >= n_wanted:
            break
        validation_patients.add(patients[rank])
    return Material(
        tuple(document for document in documents if document.patient not in validation_patients),
        tuple(document for document in documents if document.patient in validation_patients),
    )


def make_lessons(
    documents: Sequence[TaggedDocument], *, reader: Words | TokenizerReader, scheme: TagScheme
) -> list[Lesson]:
    """Return annotated notes as lessons; spans whose labels the scheme lacks are left out."""
    lessons: list[Lesson] = []
    for start in range(0, len(documents), _READ_AT_ONCE):
        part = documents[start : start + _READ_AT_ONCE]
        for document, tokens in zip(
            part, reader.read([document.text for document in part]), strict=True
        ):
            spans = [span for span in flatten_spans(document).spans if span.label in scheme.labels]
            runs, places = spans_to_runs(spans, tokens=tokens), find_placed_tokens(tokens)
            lesson = np.zeros(len(tokens), dtype=LEARNED)
            lesson["id"], lesson["tag"] = tokens["id"], NO_TAG
            lesson["tag"][places] = scheme.encode(runs, n_tokens=len(places))
            for number, (first, end, _) in enumerate(runs, start=1):
                lesson["span"][places[first:end]] = number
            lessons.append(lesson)
    return lessons


class Lessons:
    """All lessons of a training, and the rows of each step.

    A row has `size` tokens without special ones; `unknown_id` stands for a hidden token.
    """

    def __init__(
        self, lessons: Sequence[Lesson], *, settings: TaggerSettings, size: int, unknown_id: int
    ) -> None:
        self._lessons = [lesson for lesson in lessons if len(lesson)]
        self._settings, self._size, self._unknown_id = settings, size, unknown_id
        self._lengths = np.array([len(lesson) for lesson in self._lessons], dtype=np.int64)
        starts = [
            (number, start)
            for number, length in enumerate(self._lengths)
            for start in range(0, length, size)
        ]
        self._starts = np.array(starts, dtype=np.int64).reshape(-1, 2)
        self.n_rows = len(starts)
        self._n_epoch_steps = max(1, -(-self.n_rows // settings.batch))
        self.n_steps = max(1, round(settings.n_epochs * self._n_epoch_steps))
        self._epoch_rows = lru_cache(maxsize=2)(self._draw_epoch_rows)

    def get_step_rows(self, step: int) -> list[Lesson]:
        """Return the rows of a step, counted from 1, the longest first, with some tokens hidden."""
        settings = self._settings
        epoch, step_in_epoch = divmod(step - 1, self._n_epoch_steps)
        rows = self._epoch_rows(epoch)[step_in_epoch * settings.batch :][: settings.batch]
        rng = generator(settings.seed, "tagger noise", step)
        noisy_rows = []
        for note, start in rows.tolist():
            row = self._lessons[note][start : start + self._size].copy()
            is_hidden = rng.random(len(row)) < settings.unknown_share
            spans = np.unique(row["span"])
            chosen = spans[(rng.random(len(spans)) < settings.hidden_share) & (spans > 0)]
            in_chosen = np.isin(row["span"], chosen)
            row["id"][is_hidden | in_chosen, : END + 1] = self._unknown_id
            # The lists lack most names that exist: most hidden spans lose their list flags too.
            of_lists = in_chosen & np.isin(row["span"], chosen[rng.random(len(chosen)) < _UNLISTED])
            row["id"][of_lists | (rng.random(len(row)) < settings.unknown_share), FLAG] &= ~LISTED
            noisy_rows.append(row)
        return sorted(noisy_rows, key=lambda row: -len(row))

    def _draw_epoch_rows(self, epoch: int) -> Ids:
        rng = generator(self._settings.seed, "tagger rows", epoch)
        rows: Ids = self._starts[rng.permutation(self.n_rows)]
        rows[:, 1] += rng.integers(self._size, size=self.n_rows) - self._size // 2
        last = np.maximum(self._lengths[rows[:, 0]] - self._size, 0)
        rows[:, 1] = np.clip(rows[:, 1], 0, last)
        return rows


class Figures(Record):
    """Figures of predicted notes against gold notes, all types together.

    Counts are by the strict criterion (same place and same type); a share of nothing is None; `f`
    is the F measure with `beta` (van Rijsbergen 1979), 0 if nothing is right.
    """

    criterion: str = "strict"
    n_gold: int
    n_predicted: int
    n_missed: int
    n_spurious: int
    beta: float
    precision: float | None
    recall: float | None
    f: float


class ContinuedFigures(Figures):
    """Figures of a tagger that a training goes on from, in comparison with the start."""

    n_touched: int
    n_names_touched: int
    n_harmless_chars: int
    beats_start: bool


class BestWeights(Record):
    """The step, bias and F of the best weights so far."""

    step: int = 0
    bias: float | None = None
    f: float = -1.0


def measure_pairs(pairs: Iterable[Pair], *, beta: float = 1.0) -> Figures:
    """Return the figures of predicted notes against gold notes."""
    return compute_figures(score_pairs(pairs), beta=beta)


def compute_figures(scored: ScoreCounts, *, beta: float) -> Figures:
    """Return the figures of `measure_pairs` from scores."""
    row = dict(zip(COLUMNS, scored.criteria["strict"].row(ANY), strict=True))
    n_gold, n_predicted = row["n_gold"], row["n_predicted"]
    precision = (n_predicted - row["n_spurious"]) / n_predicted if n_predicted else None
    recall = (n_gold - row["n_missed"]) / n_gold if n_gold else None
    weighted_sum = beta**2 * (precision or 0.0) + (recall or 0.0)
    weighted_product = (1 + beta**2) * (precision or 0.0) * (recall or 0.0)
    return Figures(
        n_gold=n_gold,
        n_predicted=n_predicted,
        n_missed=row["n_missed"],
        n_spurious=row["n_spurious"],
        beta=beta,
        precision=precision,
        recall=recall,
        f=weighted_product / weighted_sum if weighted_sum else 0.0,
    )


def pair_documents(documents: Sequence[TaggedDocument], tags: Sequence[Tags]) -> list[Pair]:
    """Return each annotated note with its prediction."""
    return [(gold, gold.with_spans(spans)) for gold, spans in zip(documents, tags, strict=True)]


def map_to_five_types(
    documents: Iterable[TaggedDocument], *, label_map: Mapping[str, str] = MappingProxyType({})
) -> list[TaggedDocument]:
    """Return notes with their labels mapped to the five types, by `label_map` first.

    AuditError if a label maps to none of them; it states the number of its spans.
    """
    full_map = LabelMap({**FIVE_TYPES.labels, **label_map})
    mapped_documents: list[TaggedDocument] = []
    unknown: Counter[str] = Counter()
    for document in documents:
        unknown.update(
            span.label
            for span in document.spans
            if full_map.map_label(span.label) not in (*TYPES, "")
        )
        mapped_documents.append(relabel_document(document, by=full_map).document)
    if unknown:
        raise make_type_error(unknown)
    return mapped_documents


class TokenLearner(Learner[tuple[list[Lesson], int]]):
    """A token classifier with its lessons and validation notes; it keeps the best weights.

    A task without an encoder or a tagger to start from trains a small network of words of this
    `shape`. Weights are saved in float16 if `is_halved`. `facts` is the content of `training.json`,
    in plain values.
    """

    phase = TRAIN
    dropout = "tagger dropout"
    settings: TaggerSettings
    has_rules = False
    """Whether the tagger is combined with the rules."""

    def __init__(
        self,
        task: TaggerTask,
        settings: TaggerSettings,
        material: Material,
        *,
        shape: Shape,
        is_halved: bool,
        device: str,
    ) -> None:
        self.task, self.shape, self.is_halved = task, shape, is_halved
        self.scheme = TagScheme(TYPES)
        self.token_model = model = self._make_start_model(seed=settings.seed)
        size = min(settings.n_tokens, model.n_positions)
        self.size, self.overlap = size, settings.overlap
        if isinstance(model.module, WordNet):
            # It reads rows of any length; with an overlap of twice its reach, a token has the same
            # score as in the whole note.
            reach = model.module.reach
            self.size, self.overlap = max(_LONG_ROW, size, 8 * reach), 2 * reach
        if self.size - model.n_special < max(4, 2 * self.overlap):
            raise AuditError(
                "Rows of {size} tokens are too short for this overlap.",
                where=WHERE,
                do="Set `n_tokens` higher or `overlap` lower.",
                size=size,
            )
        model.module.to(device)
        self.lessons = Lessons(
            make_lessons(material.train, reader=model.reader, scheme=self.scheme),
            settings=settings,
            size=size - model.n_special,
            unknown_id=model.reader.unknown_id,
        )
        super().__init__(
            model.module,
            settings=settings,
            n_steps=self.lessons.n_steps,
            hardware=Hardware(device, pick_precision(settings.precision, device=device)),
            optimizer=adamw(model.module, settings, fused=True),
        )
        self.n_step_tokens = settings.batch * self.size
        self._documents = material.validation
        self._notes = model.reader.read([document.text for document in self._documents])
        n_points = min(settings.n_evaluations, self.n_steps)
        self._measured_at = {
            -(-self.n_steps * (point + 1) // n_points) for point in range(n_points)
        }
        self.facts = self._collect_facts(material)

    def _make_start_model(self, *, seed: int) -> TokenModel:
        """Return the model that the training begins with."""
        n_tags = len(self.scheme.tags)
        if self.task.start is not None:
            return model_of_encoder(self.task.start, n_tags=n_tags, seed=seed)
        return new_model(make_words_reader(), shape=self.shape, n_tags=n_tags, seed=seed)

    def _collect_facts(self, material: Material) -> dict[str, JsonValue]:
        """Return the facts of the training, without paths and without text of notes."""
        encoder = self.task.start
        content: dict[str, JsonValue] = {
            "version": _VERSION,
            "settings": self.settings.plain(),
            "notes": material.digest,
            "encoder": None if encoder is None else {**file_digests(encoder.resolve())},
            "shape": self.shape.plain() if encoder is None else None,
            "is_halved": self.is_halved,
            **self._describe_start(),
        }
        return {
            **content,
            "encoder": None if encoder is None else encoder.resolve().name,
            "key": digest_json(content),
            "n_steps": self.n_steps,
            "n_notes": len(material.train),
            "n_spans": sum(len(document.spans) for document in material.train),
            "n_validation_notes": len(material.validation),
            "device": self.hardware.device,
            "precision": self.hardware.precision,
            "versions": {**VERSIONS},
        }

    def passes(self, step: int) -> Iterator[tuple[list[Lesson], int]]:
        """Yield the rows of each pass, and the number of tokens that the step learns from."""
        rows, n_rows = self.lessons.get_step_rows(step), self.settings.micro_batch
        n_targets = max(1, sum(int((row["tag"] != NO_TAG).sum()) for row in rows))
        for start in range(0, len(rows), n_rows):
            yield rows[start : start + n_rows], n_targets

    def loss(self, rows: tuple[list[Lesson], int]) -> Tensor:
        """Return the summed loss of the rows' tokens over the number of tokens of the step."""
        (lessons, n_targets), model = rows, self.token_model
        tags = torch.from_numpy(model.pad_rows([row["tag"] for row in lessons], fill=NO_TAG))
        with self.hardware.numbers():
            logits = model.logits(lessons)
        summed = functional.cross_entropy(
            logits.float().flatten(end_dim=1),
            tags.to(model.device).flatten(),
            ignore_index=NO_TAG,
            reduction="sum",
        )
        return summed / n_targets

    def is_point(self, step: int) -> bool:
        """Whether a step has a point of the curve; every step with a measurement has one."""
        return step in self._measured_at or super().is_point(step)

    def _describe_start(self) -> dict[str, JsonValue]:
        """Return the facts of the tagger that the training goes on from, if there is one."""
        return {}

    def measured(self, step: int) -> Mapping[str, float | None]:
        """Measure the tagger if the step has a measurement, and keep the best weights."""
        folder = self.folder / _BEST
        if step == 0:
            shutil.rmtree(folder, ignore_errors=True)
        if step not in self._measured_at:
            return {}
        self.model.eval()
        bias, figures = self._choose_bias(self.token_model, biases=self._list_point_biases())
        if self._is_better(figures):
            with whole_folder(folder, replaces=True) as partial:
                save_file(copy_to_main_memory(self.model.state_dict()), partial / _WEIGHTS)
                best = BestWeights(step=step, bias=bias, f=figures.f)
                (partial / _FIGURES).write_bytes(best.to_bytes())
        return {"precision": figures.precision, "recall": figures.recall, "f": figures.f}

    def _list_point_biases(self) -> tuple[float, ...]:
        return (0.0,)

    def _choose_bias(self, model: Scorer, *, biases: Iterable[float]) -> tuple[float, Figures]:
        """Return the bias with the highest F and its figures; of equals the bias nearest to 0."""
        scores = score_notes(self._notes, model=model, size=self.size, overlap=self.overlap)
        trials = []
        for bias in biases:
            tags = decode_spans(scores, notes=self._notes, scheme=self.scheme, bias=bias)
            pairs = pair_documents(self._documents, tags)
            trials.append((bias, measure_pairs(pairs, beta=self.settings.recall_weight)))
        return max(trials, key=lambda trial: (trial[1].f, -abs(trial[0])))

    def _is_better(self, figures: Figures) -> bool:
        """Whether figures are better than those of the best weights so far."""
        return figures.f > self._read_best().f

    def _read_best(self) -> BestWeights:
        path = self.folder / _BEST / _FIGURES
        if not path.is_file():
            return BestWeights()
        return BestWeights.read(path.read_bytes(), where=_FIGURES)

    def _list_end_biases(self) -> tuple[float, ...]:
        return self.settings.biases

    def _load_best(self) -> None:
        """Load the best weights into the model."""
        weights = load_file(self.folder / _BEST / _WEIGHTS, device=self.hardware.device)
        self.model.load_state_dict(weights)

    def finish(self) -> None:
        """Write the best weights, then choose the bias with the weights as written."""
        folder = self.folder
        self._load_best()
        with whole_folder(folder / MODEL, replaces=True) as partial:
            save_model_folder(self.token_model, partial, is_halved=self.is_halved)
        n_tags, device = len(self.scheme.tags), str(self.token_model.device)
        model = load_model(folder / MODEL, n_tags=n_tags, device=device)
        bias, figures = self._choose_bias(model, biases=self._list_end_biases())
        facts = TaggerFacts(
            title=self.task.title,
            labels=self.scheme.labels,
            n_tokens=self.size,
            overlap=self.overlap,
            bias=bias,
            files=file_digests(folder / MODEL),
            created=make_time_stamp(),
            has_rules=self.has_rules,
            measured=figures.plain(),
            training={**self.facts, "best_step": self._read_best().step},
        )
        write_whole(folder / TAGGER, facts.file())


class ContinuedLearner(TokenLearner):
    """Trains a tagger's network of words further; the start is kept if the result is not better.

    The tagger is measured as it will be used: with the rules if the start has them. It is better if
    on the validation notes it touches clearly more spans than the start, no fewer names, and marks
    clearly fewer harmless characters.
    """

    def _make_start_model(self, *, seed: int) -> TokenModel:
        """Return the network of words of the start, with its weights and lists."""
        folder = network_folder(self.task.base)
        self._start = load_token_tagger(folder)
        self.has_rules = self.task.base == DEFAULT or self._start.facts.has_rules
        if self._start.labels != self.scheme.labels:
            raise AuditError(
                "This tagger gives other labels than the five types, so no training goes on "
                "from it.",
                where="--from",
                do="Choose default, or a tagger that was trained on the five types.",
            )
        return model_of_tagger(folder / MODEL, n_tags=len(self.scheme.tags))

    def _describe_start(self) -> dict[str, JsonValue]:
        """Return the name of the start, without a path, and its digest."""
        name, digest = Path(self.task.base).name, self._start.digest
        return {"base": {"name": name, "digest": digest, "has_rules": self.has_rules}}

    def _list_point_biases(self) -> tuple[float, ...]:
        return tuple(self._start.facts.bias + bias for bias in self.settings.biases)

    def _list_end_biases(self) -> tuple[float, ...]:
        bias = self._read_best().bias
        return (self._start.facts.bias if bias is None else bias,)

    def _load_best(self) -> None:
        """Load the best weights into the model; those of the start if none were better."""
        if self._read_best().step:
            super()._load_best()
        else:
            self.model.load_state_dict(
                self._make_start_model(seed=self.settings.seed).module.state_dict()
            )

    def _choose_bias(
        self, model: Scorer, *, biases: Iterable[float]
    ) -> tuple[float, ContinuedFigures]:
        """Return the middle one of the biases with which the model is better, and its figures.

        With a lower bias it touches fewer spans, with a higher one it marks more harmless text.
        """
        trials = [
            (bias, self._compute_figures(self._score(model, bias=bias))) for bias in sorted(biases)
        ]
        better_trials = [trial for trial in trials if trial[1].beats_start] or trials
        return better_trials[len(better_trials) // 2]

    def _score(self, model: Scorer, *, bias: float) -> ScoreCounts:
        """Score a model, as it will be used, on the validation notes."""
        tags = tag_and_check(
            self._make_tagger(model, bias=bias), [document.text for document in self._documents]
        )
        return score_pairs(pair_documents(self._documents, tags))

    def _make_tagger(self, model: Scorer, *, bias: float) -> Tagger:
        """Return the tagger of a model, combined with the rules if the start is."""
        facts = self._start.facts.with_(
            bias=bias, n_tokens=self.size, overlap=self.overlap, has_rules=self.has_rules
        )
        tagger = TokenTagger(facts, model, self.folder)
        return CombinedTagger(self._rules, tagger) if self.has_rules else tagger

    def _compute_figures(self, scored: ScoreCounts) -> ContinuedFigures:
        """Return the figures of scores, and whether they are better than the start."""
        touched, names, harmless = (counts.sum() for counts in _count_by_patient(scored))
        figures = compute_figures(scored, beta=self.settings.recall_weight)
        return ContinuedFigures(
            **dict(figures),
            n_touched=int(touched),
            n_names_touched=int(names),
            n_harmless_chars=int(harmless),
            beats_start=self._beats_start(scored),
        )

    @cached_property
    def _rules(self) -> Tagger:
        return RuleTagger()

    @cached_property
    def _start_scores(self) -> ScoreCounts:
        """The scores of the start."""
        return self._score(self._start.model, bias=self._start.facts.bias)

    def _beats_start(self, scored: ScoreCounts) -> bool:
        """Whether scores are better than those of the start, beyond chance."""
        touched, names, harmless = (
            counts - start_counts
            for counts, start_counts in zip(
                _count_by_patient(scored), _count_by_patient(self._start_scores), strict=True
            )
        )
        is_touched = touched.sum() >= _N_ERRORS * np.sqrt((touched**2).sum())
        is_harmless = -harmless.sum() >= _N_ERRORS * np.sqrt((harmless**2).sum())
        is_changed = bool(touched.any() or harmless.any())
        return bool(is_changed and is_touched and names.sum() >= 0 and is_harmless)

    def _is_better(self, figures: Figures) -> bool:
        """Whether figures are better than those of the start, and F is the best so far."""
        assert isinstance(figures, ContinuedFigures)
        return figures.beats_start and super()._is_better(figures)


def _count_by_patient(scored: ScoreCounts) -> list[NDArray[np.int64]]:
    """Return each patient's numbers of touched gold spans, touched names, harmless characters."""
    counts = scored.criteria[HEADLINE_CRITERION]
    n_gold, n_missed = (COLUMNS.index(name) for name in ("n_gold", "n_missed"))
    tables = [counts.by_patient(label) for label in (ANY, IDENTIFIER)]
    touched = [table[:, n_gold] - table[:, n_missed] for table in tables]
    harmless = np.array([patient.n_over_chars for patient in scored.by_patient], dtype=np.int64)
    return [*touched, harmless]


def train_tagger(
    task: TaggerTask,
    settings: TaggerSettings,
    *,
    shape: Shape | None = None,
    is_halved: bool = False,
    say: Callable[[str], None] = lambda text: None,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> TaggerFacts:
    """Train the tagger of a task, or continue a training that was stopped or killed.

    `shape` is that of a network of words, the default one if None; `is_halved` saves weights in
    float16.
    """
    material = _read_mapped_material(task, seed=settings.seed, say=say)
    device = pick_device(task.device)
    with hold_training_folder(task.folder), torch.random.fork_rng(), use_exact_float32(device):
        learner = (ContinuedLearner if task.base else TokenLearner)(
            task, settings, material, shape=shape or Shape(), is_halved=is_halved, device=device
        )
        learner.complete(
            task.folder,
            learner.facts,
            result=TAGGER,
            progress=progress,
            should_stop=should_stop,
            on_point=on_point,
        )
    shutil.rmtree(task.folder / _BEST, ignore_errors=True)
    facts = TaggerFacts.of_folder(task.folder)
    if task.base and not facts.training["best_step"]:
        say("Nothing that was learned was better on the notes kept apart: the start is kept.")
    return facts


def _read_mapped_material(task: TaggerTask, *, seed: int, say: Callable[[str], None]) -> Material:
    """Return the notes of a task with their labels mapped."""
    map_labels = partial(map_to_five_types, label_map=task.label_map)
    material = read_material(task, seed=seed, map_labels=map_labels)
    n = len(material.train)
    say(f"{n} notes to learn from, {len(material.validation)} to measure on.")
    return material
