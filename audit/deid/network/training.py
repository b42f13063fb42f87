"""Training of a token classifier, from nothing or from an encoder, killed and gone on with at will.

Comes in: a task. Goes out: a folder with `tagger.json` and `model/`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from audit.deid.incoming_notes import notes_of_paths
from audit.deid.network.decode import (
    END,
    FLAG,
    N_FEATURES,
    Ids,
    Scorer,
    TagScheme,
    TokenizerReader,
    places_of,
    runs_of,
    scores_of,
    spans_from,
)
from audit.deid.network.token_model import (
    TokenModel,
    WordNet,
    model_of_encoder,
    model_of_tagger,
    new_model,
    save_model_folder,
)
from audit.deid.network.token_tagger import TokenTagger, load_model, load_token_tagger
from audit.deid.network.word_features import LISTED, Words
from audit.deid.network.word_lists import usual_words
from audit.deid.rules import RuleTagger
from audit.deid.score_report import HEADLINE_CRITERION, Scored, score_pairs
from audit.deid.span_matching import ANY, COLUMNS
from audit.deid.span_metrics import Pair
from audit.deid.tagger import MODEL, TAGGER, Tagger, Tags, tag_checked
from audit.deid.tagger_config import WHERE, Shape, TaggerFacts, TaggerSettings, file_digests
from audit.deid.taggers import DEFAULT, CombinedTagger, network_folder
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
    make_type_error,
    relabel_document,
)
from audit.progress import ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import alone, now, whole_folder, write_whole
from audit.training.loop import (
    VERSIONS,
    Hardware,
    Learner,
    PointListener,
    adamw,
    own_tensors,
)

if TYPE_CHECKING:
    from audit.deid.tasks import TaggerTask

TRAIN = "training the tagger"
NO_TAG = -100
"""Stands where there is nothing to learn: white space, special tokens, padding."""
LEARNED = np.dtype([("id", np.int32, (N_FEATURES,)), ("tag", np.int8), ("span", np.int32)])
Lesson = NDArray[np.void]
"""A note that is learned from, each token a `LEARNED` with its tag and the number of its span."""
_READ_AT_ONCE = 256
_UNLISTED = 0.6
_LONG_ROW = 1024
_BEST, _WEIGHTS, _FIGURES = "best", "model.safetensors", "figures.json"
_VERSION = 1
_MOST_VALIDATION = 1000
_ERRORS = 2.0
"""By how many standard errors over patients a tagger must be better than the one it began as."""
_SHARE_APART, _SHARE_APART_ON_BASE = 0.1, 0.2
NOTES = "annotated notes"


@dataclass(frozen=True)
class Material:
    """Annotated notes to learn from and to measure on."""

    train: tuple[TaggedDocument, ...]
    validation: tuple[TaggedDocument, ...]

    def __post_init__(self) -> None:
        """Check that there is something of both, once."""
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
        found = hashlib.sha256(f"{len(self.train)}\n".encode())
        for document in (*self.train, *self.validation):
            found.update(format_jsonl_line(document).encode("utf-8", "surrogatepass"))
        return found.hexdigest()


def notes_to_learn(
    task: TaggerTask,
    *,
    seed: int,
    mapped: Callable[[Iterable[TaggedDocument]], Iterable[TaggedDocument]] = tuple,
) -> Material:
    """Return the notes of a task, `mapped`.

    Without validation notes those of some patients are kept apart, of more patients where the
    training goes on from a tagger: they also decide whether it got better.
    """
    gold, validation = (
        tuple(mapped(notes_of_paths(paths, what=NOTES))) for paths in (task.gold, task.validation)
    )
    if task.validation:
        return Material(gold, validation)
    return split_off(gold, seed=seed, share=_SHARE_APART_ON_BASE if task.base else _SHARE_APART)


def split_off(
    documents: Sequence[TaggedDocument], *, seed: int, share: float = _SHARE_APART
) -> Material:
    """Keep the notes of a share of the patients apart, to measure on; some thousand at most."""
    sizes = Counter(document.patient for document in documents)
    patients = sorted(sizes)
    order = generator(seed, "tagger validation").permutation(len(patients))
    wanted = min(_MOST_VALIDATION, max(1, round(share * len(documents))))
    kept: set[tuple[int, str]] = set()
    for place in order[:-1]:
        if sum(sizes[patient] for patient in kept) >= wanted:
            break
        kept.add(patients[place])
    return Material(
        tuple(d for d in documents if d.patient not in kept),
        tuple(d for d in documents if d.patient in kept),
    )


def lessons_of(
    documents: Sequence[TaggedDocument], *, reader: Words | TokenizerReader, scheme: TagScheme
) -> list[Lesson]:
    """Return annotated notes as lessons; spans of labels that the scheme lacks are left out."""
    found: list[Lesson] = []
    for start in range(0, len(documents), _READ_AT_ONCE):
        some = documents[start : start + _READ_AT_ONCE]
        for document, tokens in zip(some, reader.read([d.text for d in some]), strict=True):
            spans = [s for s in flatten_spans(document).spans if s.label in scheme.labels]
            runs, at = runs_of(spans, tokens=tokens), places_of(tokens)
            lesson = np.zeros(len(tokens), dtype=LEARNED)
            lesson["id"], lesson["tag"] = tokens["id"], NO_TAG
            lesson["tag"][at] = scheme.encode(runs, n_tokens=len(at))
            for number, (first, end, _) in enumerate(runs, start=1):
                lesson["span"][at[first:end]] = number
            found.append(lesson)
    return found


class Lessons:
    """All lessons of a training, and which rows belong to a step.

    A row has `size` tokens without special ones; `unknown_id` stands for one that is hidden.
    """

    def __init__(
        self, lessons: Sequence[Lesson], *, settings: TaggerSettings, size: int, unknown_id: int
    ) -> None:
        self._lessons = [one for one in lessons if len(one)]
        self._settings, self._size, self._unknown_id = settings, size, unknown_id
        self._lengths = np.array([len(one) for one in self._lessons], dtype=np.int64)
        starts = [(i, at) for i, n in enumerate(self._lengths) for at in range(0, n, size)]
        self._starts = np.array(starts, dtype=np.int64).reshape(-1, 2)
        self.n_rows = len(starts)
        self._per_epoch = max(1, -(-self.n_rows // settings.batch))
        self.n_steps = max(1, round(settings.n_epochs * self._per_epoch))
        self._epoch = lru_cache(maxsize=2)(self._rows_of_epoch)

    def of_step(self, step: int) -> list[Lesson]:
        """Return the rows of a step, 1 and on, the longest first, some of their tokens hidden."""
        settings = self._settings
        epoch, place = divmod(step - 1, self._per_epoch)
        rows = self._epoch(epoch)[place * settings.batch :][: settings.batch]
        rng = generator(settings.seed, "tagger noise", step)
        found = []
        for note, start in rows.tolist():
            row = self._lessons[note][start : start + self._size].copy()
            is_hidden = rng.random(len(row)) < settings.unknown_share
            spans = np.unique(row["span"])
            chosen = spans[(rng.random(len(spans)) < settings.hidden_share) & (spans > 0)]
            in_chosen = np.isin(row["span"], chosen)
            row["id"][is_hidden | in_chosen, : END + 1] = self._unknown_id
            # Lists know few of the names that there are: half of the hidden ones are in none.
            of_lists = in_chosen & np.isin(row["span"], chosen[rng.random(len(chosen)) < _UNLISTED])
            row["id"][of_lists | (rng.random(len(row)) < settings.unknown_share), FLAG] &= ~LISTED
            found.append(row)
        return sorted(found, key=lambda row: -len(row))

    def _rows_of_epoch(self, epoch: int) -> Ids:
        rng = generator(self._settings.seed, "tagger rows", epoch)
        rows: Ids = self._starts[rng.permutation(self.n_rows)]
        rows[:, 1] += rng.integers(self._size, size=self.n_rows) - self._size // 2
        last = np.maximum(self._lengths[rows[:, 0]] - self._size, 0)
        rows[:, 1] = np.clip(rows[:, 1], 0, last)
        return rows


def figures_of(pairs: Iterable[Pair], *, beta: float = 1.0) -> dict[str, Any]:
    """Return what a tagger reaches on some notes, gold beside predicted, all types together.

    Counts are of the strict criterion (same place and same type); shares of nothing are None; `f`
    is the F measure with `beta` (van Rijsbergen 1979), 0 where nothing is right.
    """
    return figures_of_scores(score_pairs(pairs), beta=beta)


def figures_of_scores(scored: Scored, *, beta: float) -> dict[str, Any]:
    """Return the figures of `figures_of` from scores."""
    row = dict(zip(COLUMNS, scored.criteria["strict"].row(ANY), strict=True))
    n_gold, n_predicted = row["n_gold"], row["n_predicted"]
    precision = (n_predicted - row["n_spurious"]) / n_predicted if n_predicted else None
    recall = (n_gold - row["n_missed"]) / n_gold if n_gold else None
    weighted = beta**2 * (precision or 0.0) + (recall or 0.0)
    both = (1 + beta**2) * (precision or 0.0) * (recall or 0.0)
    return {
        "criterion": "strict",
        **{name: row[name] for name in ("n_gold", "n_predicted", "n_missed", "n_spurious")},
        "beta": beta,
        "precision": precision,
        "recall": recall,
        "f": both / weighted if weighted else 0.0,
    }


def predicted(documents: Sequence[TaggedDocument], tags: Sequence[Tags]) -> list[Pair]:
    """Return annotated notes beside what was found in them."""
    return [(gold, gold.with_spans(spans)) for gold, spans in zip(documents, tags, strict=True)]


def in_five_types(
    documents: Iterable[TaggedDocument], *, label_map: Mapping[str, str] = MappingProxyType({})
) -> list[TaggedDocument]:
    """Return notes with labels mapped to the five types, those of `label_map` as it says.

    AuditError if a label is none of these, with how many spans have it.
    """
    by = LabelMap({**FIVE_TYPES.labels, **label_map})
    found: list[TaggedDocument] = []
    unknown: Counter[str] = Counter()
    for document in documents:
        unknown.update(s.label for s in document.spans if by.map_label(s.label) not in (*TYPES, ""))
        found.append(relabel_document(document, by=by).document)
    if unknown:
        raise make_type_error(unknown)
    return found


class TokenLearner(Learner):
    """A token classifier, its lessons and notes to measure it on; the best weights are kept.

    Without an encoder or a tagger to start from the task trains a small network of words of this
    shape; its weights are kept in float16 if `is_halved`. `facts` is what `training.json` says of
    the training, as plain values.
    """

    phase = TRAIN
    dropout = "tagger dropout"
    settings: TaggerSettings
    has_rules = False
    """Whether the tagger is asked beside the rules."""

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
        self.token_model = model = self._begun(seed=settings.seed)
        size = min(settings.n_tokens, model.n_positions)
        self.size, self.overlap = size, settings.overlap
        if isinstance(model.module, WordNet):
            # It reads rows of any length; with twice its reach shared, a token's score is that of
            # the whole note.
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
            lessons_of(material.train, reader=model.reader, scheme=self.scheme),
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
        self._notes = model.reader.read([one.text for one in self._documents])
        n = min(settings.n_evaluations, self.n_steps)
        self._measured_at = {-(-self.n_steps * (k + 1) // n) for k in range(n)}
        self.facts = self._facts(material)

    def _begun(self, *, seed: int) -> TokenModel:
        """Return the model as the training begins with it."""
        n_tags = len(self.scheme.tags)
        if self.task.start is not None:
            return model_of_encoder(self.task.start, n_tags=n_tags, seed=seed)
        return new_model(usual_words(), shape=self.shape, n_tags=n_tags, seed=seed)

    def _facts(self, material: Material) -> dict[str, Any]:
        """Say what the training is; a path or a note's text is none of it."""
        encoder = self.task.start
        content: dict[str, Any] = {
            "version": _VERSION,
            "settings": self.settings.plain(),
            "notes": material.digest,
            "encoder": None if encoder is None else file_digests(encoder.resolve()),
            "shape": self.shape.plain() if encoder is None else None,
            "is_halved": self.is_halved,
            **self._facts_of_start(),
        }
        text = json.dumps(content, sort_keys=True)
        return {
            **content,
            "encoder": None if encoder is None else encoder.resolve().name,
            "key": hashlib.sha256(text.encode("ascii")).hexdigest(),
            "n_steps": self.n_steps,
            "n_notes": len(material.train),
            "n_spans": sum(len(document.spans) for document in material.train),
            "n_validation_notes": len(material.validation),
            "device": self.hardware.device,
            "precision": self.hardware.precision,
            "versions": VERSIONS,
        }

    def passes(self, step: int) -> Iterator[tuple[list[Lesson], int]]:
        """Yield the rows of each pass, and how many tokens the step learns from."""
        rows, n = self.lessons.of_step(step), self.settings.micro_batch
        n_told = max(1, sum(int((row["tag"] != NO_TAG).sum()) for row in rows))
        for start in range(0, len(rows), n):
            yield rows[start : start + n], n_told

    def loss(self, rows: tuple[list[Lesson], int]) -> Tensor:
        """Return the summed loss of the rows' tokens over the number of tokens of the step."""
        (some, n_told), model = rows, self.token_model
        tags = torch.from_numpy(model.padded([row["tag"] for row in some], fill=NO_TAG))
        with self.hardware.numbers():
            logits = model.logits(some)
        summed = functional.cross_entropy(
            logits.float().flatten(end_dim=1),
            tags.to(model.device).flatten(),
            ignore_index=NO_TAG,
            reduction="sum",
        )
        return summed / n_told

    def is_point(self, step: int) -> bool:
        """Also where the tagger is measured."""
        return step in self._measured_at or super().is_point(step)

    def _facts_of_start(self) -> dict[str, Any]:
        """Say what tagger the training goes on from, if from any."""
        return {}

    def measured(self, step: int) -> Mapping[str, float | None]:
        """Measure the tagger with a bias of 0, where it is time for it, and keep the best."""
        folder = self.folder / _BEST
        if step == 0:
            shutil.rmtree(folder, ignore_errors=True)
        if step not in self._measured_at:
            return {}
        self.model.eval()
        bias, found = self._examined(self.token_model, biases=self._biases_at_points())
        if self._is_better(found):
            with whole_folder(folder, replaces=True) as partial:
                save_file(own_tensors(self.model.state_dict()), partial / _WEIGHTS)
                best = json.dumps({"step": step, "bias": bias, "f": found["f"]})
                (partial / _FIGURES).write_text(best, "ascii")
        return {name: found[name] for name in ("precision", "recall", "f")}

    def _biases_at_points(self) -> tuple[float, ...]:
        return (0.0,)

    def _examined(self, model: Scorer, *, biases: Iterable[float]) -> tuple[float, dict[str, Any]]:
        """Measure a model; returns the bias with the highest F, of equals that nearest to 0."""
        scores = scores_of(self._notes, model=model, size=self.size, overlap=self.overlap)
        tried = []
        for bias in biases:
            tags = spans_from(scores, notes=self._notes, scheme=self.scheme, bias=bias)
            pairs = predicted(self._documents, tags)
            tried.append((bias, figures_of(pairs, beta=self.settings.recall_weight)))
        return max(tried, key=lambda one: (one[1]["f"], -abs(one[0])))

    def _is_better(self, found: Mapping[str, Any]) -> bool:
        """Whether figures are better than those of the best weights so far."""
        return bool(found["f"] > self._best()["f"])

    def _best(self) -> dict[str, Any]:
        """Return step, bias and F of the best weights so far, the first of equals."""
        path = self.folder / _BEST / _FIGURES
        return dict(json.loads(path.read_bytes())) if path.is_file() else {"step": 0, "f": -1.0}

    def _biases_at_end(self) -> tuple[float, ...]:
        return self.settings.biases

    def _take_best(self) -> None:
        """Give the model the best weights."""
        weights = load_file(self.folder / _BEST / _WEIGHTS, device=self.hardware.device)
        self.model.load_state_dict(weights)

    def finish(self) -> None:
        """Write the best weights, choose the bias with the very ones that were written."""
        out = self.folder
        self._take_best()
        with whole_folder(out / MODEL, replaces=True) as partial:
            save_model_folder(self.token_model, partial, is_halved=self.is_halved)
        n_tags, device = len(self.scheme.tags), str(self.token_model.device)
        model = load_model(out / MODEL, n_tags=n_tags, device=device)
        bias, figures = self._examined(model, biases=self._biases_at_end())
        facts = TaggerFacts(
            title=self.task.title,
            labels=self.scheme.labels,
            n_tokens=self.size,
            overlap=self.overlap,
            bias=bias,
            files=file_digests(out / MODEL),
            created=now(),
            has_rules=self.has_rules,
            measured=figures,
            training={**self.facts, "best_step": self._best()["step"]},
        )
        write_whole(out / TAGGER, facts.file())


class ContinuedLearner(TokenLearner):
    """A tagger's network of words that learns on; the start is kept where that is no better.

    The tagger is measured as it will be asked: beside the rules if the start is. What was learned
    is better if on the validation notes it touches clearly more spans than the start and as many
    names, and takes out clearly fewer harmless characters.
    """

    def _begun(self, *, seed: int) -> TokenModel:
        """Return the start's network, its weights and lists."""
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

    def _facts_of_start(self) -> dict[str, Any]:
        """Say what tagger it is: its name, but no path, and its digest."""
        name, digest = Path(self.task.base).name, self._start.digest
        return {"base": {"name": name, "digest": digest, "has_rules": self.has_rules}}

    def _biases_at_points(self) -> tuple[float, ...]:
        return tuple(self._start.facts.bias + more for more in self.settings.biases)

    def _biases_at_end(self) -> tuple[float, ...]:
        return (float(self._best().get("bias", self._start.facts.bias)),)

    def _take_best(self) -> None:
        """Give the model the best weights; those of the start where none were better."""
        if self._best()["step"]:
            super()._take_best()
        else:
            self.model.load_state_dict(self._begun(seed=self.settings.seed).module.state_dict())

    def _examined(self, model: Scorer, *, biases: Iterable[float]) -> tuple[float, dict[str, Any]]:
        """Measure a model; returns the middle one of the biases with which it is better.

        A lower one touches less, a higher one takes out more.
        """
        tried = [(bias, self._figures(self._scored(model, bias=bias))) for bias in sorted(biases)]
        better = [one for one in tried if one[1]["beats_start"]] or tried
        return better[len(better) // 2]

    def _scored(self, model: Scorer, *, bias: float) -> Scored:
        """Score a model as it will be asked, on the validation notes."""
        tags = tag_checked(self._as_asked(model, bias=bias), [d.text for d in self._documents])
        return score_pairs(predicted(self._documents, tags))

    def _as_asked(self, model: Scorer, *, bias: float) -> Tagger:
        """Return the tagger of a model, beside the rules where the start is."""
        facts = self._start.facts.with_(
            bias=bias, n_tokens=self.size, overlap=self.overlap, has_rules=self.has_rules
        )
        tagger = TokenTagger(facts, model, self.folder)
        return CombinedTagger(self._rules, tagger) if self.has_rules else tagger

    def _figures(self, scored: Scored) -> dict[str, Any]:
        """Return figures of scores, what is touched and taken out, and whether that is better."""
        touched, names, harmless = (counts.sum() for counts in _by_patient(scored))
        figures = figures_of_scores(scored, beta=self.settings.recall_weight)
        return figures | {
            "n_touched": int(touched),
            "n_names_touched": int(names),
            "n_harmless_chars": int(harmless),
            "beats_start": self._beats_start(scored),
        }

    @cached_property
    def _rules(self) -> Tagger:
        return RuleTagger()

    @cached_property
    def _of_start(self) -> Scored:
        """The scores of the start."""
        return self._scored(self._start.model, bias=self._start.facts.bias)

    def _beats_start(self, scored: Scored) -> bool:
        """Whether scores are better than those of the start, by more than chance often gives."""
        touched, names, harmless = (
            now - before
            for now, before in zip(_by_patient(scored), _by_patient(self._of_start), strict=True)
        )
        is_touched = touched.sum() >= _ERRORS * np.sqrt((touched**2).sum())
        is_harmless = -harmless.sum() >= _ERRORS * np.sqrt((harmless**2).sum())
        is_changed = bool(touched.any() or harmless.any())
        return bool(is_changed and is_touched and names.sum() >= 0 and is_harmless)

    def _is_better(self, found: Mapping[str, Any]) -> bool:
        """Whether figures are better than those of the start, and F than the best so far."""
        return bool(found["beats_start"]) and super()._is_better(found)


def _by_patient(scored: Scored) -> list[NDArray[np.int64]]:
    """Return how many golds and names of each patient are touched, and harmless characters."""
    counts = scored.criteria[HEADLINE_CRITERION]
    n_gold, n_missed = (COLUMNS.index(name) for name in ("n_gold", "n_missed"))
    tables = [counts.of(label) for label in (ANY, IDENTIFIER)]
    touched = [table[:, n_gold] - table[:, n_missed] for table in tables]
    harmless = np.array([one.n_over_chars for one in scored.by_patient], dtype=np.int64)
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
    """Train the tagger of a task, or go on with a training that was stopped or killed.

    `shape` is that of a network of words, the usual one without; `is_halved` keeps weights in
    float16.
    """
    material = _material(task, seed=settings.seed, say=say)
    device = pick_device(task.device)
    with alone(task.folder), torch.random.fork_rng(), use_exact_float32(device):
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


def _material(task: TaggerTask, *, seed: int, say: Callable[[str], None]) -> Material:
    """Return the notes of a task, their labels mapped."""
    mapped = partial(in_five_types, label_map=task.label_map)
    material = notes_to_learn(task, seed=seed, mapped=mapped)
    n = len(material.train)
    say(f"{n} notes to learn from, {len(material.validation)} to measure on.")
    return material
