"""The taggers of this installation: the shipped ones, those trained here, and several as one.

Also the figures of the shipped ones on invented notes, which somebody wrote by hand who had seen
neither rules nor output.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import JsonValue

from audit.deid.find.borders import (
    extend_to_names,
    identifies_nobody,
    is_possessive,
    tag_whole_words,
    tidy_spans,
)
from audit.deid.find.copies import (
    OUTPUTS,
    CopyingTagger,
    CopyReading,
    ShareListener,
    worst_reading,
)
from audit.deid.find.packaged import (
    LANGUAGE,
    PackagedTagger,
    list_installed,
    not_installed,
    packaged_digest,
)
from audit.deid.find.rules import RuleTagger, drop_clinical_values
from audit.deid.find.tagger import (
    MAX_BYTES,
    MODEL,
    TAGGER,
    TAGGER_VERSION,
    Tagger,
    is_light,
    tag_and_check,
)
from audit.deid.find.tagger_facts import LANGUAGES, GenerativeFacts, TaggerFacts, held_digest
from audit.errors import AuditError
from audit.foreign import open_regular
from audit.notes.spans import Span, TaggedDocument, Tags
from audit.progress import StopQuestion
from audit.shelf import Shelf
from audit.stats import Estimate
from audit.training.config import LossPoint, read_losses

JOIN_RULE = "rules first"
"""How rules and model are combined, as written into `how.json`: of two spans that share a character
the rules' span stays whole and the rest of the model's span is kept. No character that either of
them marked is released.
"""
RULES, DEFAULT, PACKAGED = "rules", "default", "packaged"
COMBINED = "combined"
"""The kind of the default tagger."""
_VERSION = 8  # of the way in which spans are combined


@dataclass(frozen=True)
class CombinedTagger:
    """Combines the spans of rules and of a model."""

    rules: Tagger
    model: Tagger
    name: str = COMBINED

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of both."""
        return tuple(dict.fromkeys((*self.rules.labels, *self.model.labels)))

    @property
    def is_light(self) -> bool:
        """Whether both are light."""
        return is_light(self.rules) and is_light(self.model)

    @property
    def digest(self) -> str:
        """SHA-256 of both digests and of the way in which they are combined."""
        return combined_digest(self.rules.digest, self.model.digest)

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        return tag_whole_words(texts, self._tag_folded)

    def _tag_folded(self, texts: Sequence[str]) -> Iterator[Tags]:
        rows = zip(texts, self.rules.tag(texts), self.model.tag(texts), strict=True)
        return (combine_spans(*row) for row in rows)


def combined_digest(rules: str, model: str) -> str:
    """Return the digest of rules and a model combined, from their digests."""
    return hashlib.sha256(f"{_VERSION}|{JOIN_RULE}|{rules}|{model}".encode()).hexdigest()


def combine_spans(text: str, rule_spans: Tags, model_spans: Tags) -> Tags:
    """Return the spans of rules and the rest of a model's spans, without overlap.

    A model's span is dropped if it holds only clinical values or, in a text with capitals, if it
    identifies nobody.
    """
    tidied_spans = tidy_spans(text, model_spans, rule_spans=rule_spans)
    if not text.islower():
        tidied_spans = [span for span in tidied_spans if not identifies_nobody(text, span)]
    return extend_to_names(
        text, unite_spans(text, rule_spans, drop_clinical_values(text, tidied_spans))
    )


def unite_spans(text: str, first: Tags, *later_spans: Iterable[Span]) -> Tags:
    """Return the spans of several taggers without overlap; no letter that one marked is lost.

    The first tagger's spans stay whole. Of each later span the rest is kept that no span before it
    covers, unless the rest has no letter or digit.
    """
    spans = list(first)
    is_taken = bytearray(len(text))
    for span in first:
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    for tagger_spans in later_spans:
        for span in sorted(tagger_spans, key=lambda span: (-span.n_chars, span)):
            for gap in re.finditer(b"\0+", is_taken[span.start : span.end]):
                start, end = span.start + gap.start(), span.start + gap.end()
                rest = text[start:end]
                if end - start == span.n_chars:
                    spans.append(span)
                elif any(char.isalnum() for char in rest) and not is_possessive(rest.strip()):
                    start += len(rest) - len(rest.lstrip())
                    spans.append(Span(start, start + len(rest.strip()), span.label))
            is_taken[span.start : span.end] = b"\1" * span.n_chars
    return tuple(sorted(spans))


@dataclass(frozen=True)
class UnitedTagger:
    """Unites the spans of several taggers.

    Shared characters get the label of the first tagger that marks them. The spans of a package are
    tidied in the same way as those of a model beside rules.
    """

    taggers: tuple[Tagger, ...]
    name: str

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all taggers."""
        return tuple(dict.fromkeys(label for tagger in self.taggers for label in tagger.labels))

    @property
    def is_light(self) -> bool:
        """Whether all taggers are light."""
        return all(map(is_light, self.taggers))

    @property
    def digest(self) -> str:
        """SHA-256 of the digests of all taggers, in their order."""
        return united_digest([tagger.digest for tagger in self.taggers])

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        return self._unite(texts, [tagger.tag(texts) for tagger in self.taggers])

    def _unite(
        self, texts: Sequence[str], tags_of_taggers: Sequence[Sequence[Tags]]
    ) -> tuple[Tags, ...]:
        """Return the spans of each text, given each tagger's spans of all texts."""
        tags = tuple(tags_of_taggers[0])
        for tagger, tagger_tags in zip(self.taggers[1:], tags_of_taggers[1:], strict=True):
            combine = combine_spans if isinstance(tagger, PackagedTagger) else unite_spans
            tags = tuple(combine(*row) for row in zip(texts, tags, tagger_tags, strict=True))
        return tags


def united_digest(digests: Sequence[str]) -> str:
    """Return the digest of several taggers as one, from their digests in order."""
    return hashlib.sha256("|".join((str(_VERSION), "united", *digests)).encode()).hexdigest()


@dataclass(frozen=True)
class UnitedCopies(UnitedTagger):
    """Several taggers as one, of which at least one writes copies."""

    @property
    def n_notes_at_once(self) -> int:
        """The most notes that may be given to `read`."""
        return min(
            tagger.n_notes_at_once for tagger in self.taggers if isinstance(tagger, CopyingTagger)
        )

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> tuple[CopyReading, ...]:
        """Read notes; each note has the reading of its worst copy, if there are several."""
        texts = [note.text for note in notes]
        tags_of_taggers: list[Sequence[Tags]] = []
        readings_of_taggers: list[Sequence[CopyReading]] = []
        n_copying = sum(isinstance(tagger, CopyingTagger) for tagger in self.taggers)
        for tagger in self.taggers:
            if not isinstance(tagger, CopyingTagger):
                tags_of_taggers.append(tagger.tag(texts))
                continue
            share = partial(_report_part, on_share, len(readings_of_taggers), n_copying)
            readings_of_taggers.append(tagger.read(notes, should_stop=should_stop, on_share=share))
            tags_of_taggers.append([reading.tags for reading in readings_of_taggers[-1]])
        tags = self._unite(texts, tags_of_taggers)
        rows = zip(zip(*readings_of_taggers, strict=True), tags, strict=True)
        return tuple(worst_reading(row).with_tags(spans) for row, spans in rows)


def _report_part(on_share: ShareListener, number: int, n_parts: int, share: float) -> None:
    on_share((number + share) / n_parts)


class _CopyingModel(Tagger, CopyingTagger, Protocol):
    """A tagger that writes copies."""


@dataclass(frozen=True)
class BackedTagger:
    """A model that writes copies; a second tagger marks what the model did not copy of a note.

    Only those spans of the second tagger are kept that share a character with text that was not
    copied.
    """

    model: _CopyingModel
    fallback: Tagger

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of both."""
        return tuple(dict.fromkeys((*self.model.labels, *self.fallback.labels)))

    @property
    def digest(self) -> str:
        """SHA-256 of both digests."""
        return backed_digest(self.model.digest, self.fallback.digest)

    @property
    def n_notes_at_once(self) -> int:
        """The model's limit."""
        return self.model.n_notes_at_once

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        notes = [TaggedDocument(doc_id=str(i), text=text) for i, text in enumerate(texts)]
        return tuple(reading.tags for reading in self.read(notes))

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> tuple[CopyReading, ...]:
        """Read notes; the fallback marks what was not copied."""
        readings = list(self.model.read(notes, should_stop=should_stop, on_share=on_share))
        numbers = [number for number, reading in enumerate(readings) if reading.uncopied]
        texts = [notes[number].text for number in numbers]
        answers = tag_and_check(self.fallback, texts) if texts else ()
        for number, text, spans in zip(numbers, texts, answers, strict=True):
            reading = readings[number]
            missing = [
                span
                for span in spans
                if any(span.start < end and start < span.end for start, end in reading.uncopied)
            ]
            readings[number] = reading.with_tags(unite_spans(text, reading.tags, missing))
        return tuple(readings)


def add_fallback(tagger: Tagger) -> Tagger:
    """Return a tagger; one that writes copies gets the default tagger as its fallback."""
    is_safe = isinstance(tagger, BackedTagger | UnitedCopies)
    if is_safe or not isinstance(tagger, CopyingTagger):
        return tagger
    return BackedTagger(cast(_CopyingModel, tagger), _default_tagger())


def backed_digest(model: str, fallback: str) -> str:
    """Return the digest of a model that writes copies and its fallback, from their digests."""
    return hashlib.sha256(f"{_VERSION}|backed|{model}|{fallback}".encode()).hexdigest()


TAGGER_SEPARATOR = "+"
"""Stands between the names of taggers that are used as one, as in "default+ginza"."""
TRAINED = "trained/"
"""The beginning of a trained tagger's identifier."""
SHIPPED = Path(__file__).resolve().parent / "default_tagger"
HAND_WRITTEN = "hand_written.json"
_KINDS = (TaggerFacts.kind, GenerativeFacts.kind)
_BY_PACE = (RULES, COMBINED, OUTPUTS, TaggerFacts.kind, PACKAGED, GenerativeFacts.kind)
"""The kinds of taggers, the quickest first."""


@dataclass(frozen=True)
class KnownTagger:
    """A tagger that can be chosen: "rules", "default", "trained/<12 hexadecimal digits>" ...

    Several as one have an identifier such as "default+trained/..."; their `kind` is that of the
    slowest. `title` is the one that its maker chose, untrusted text, empty for the shipped ones.
    For a tagger that was trained here, `training` has its settings, `measured` its figures on the
    validation notes (both plain values), and `points` its loss curve.
    """

    tagger_id: str
    kind: str
    title: str
    digest: str
    created: str = ""
    training: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)
    measured: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)
    points: tuple[LossPoint, ...] = ()
    kinds: tuple[str, ...] = ()
    """The kinds of all taggers, if these are several as one."""

    @property
    def has_rules(self) -> bool:
        """Whether the rules are a part of this tagger."""
        return not {RULES, COMBINED}.isdisjoint((self.kind, *self.kinds))

    @property
    def writes_copies(self) -> bool:
        """Whether it writes copies of notes, so that a part of a note may not be copied."""
        return not {GenerativeFacts.kind, OUTPUTS}.isdisjoint((self.kind, *self.kinds))

    @property
    def reads_outputs(self) -> bool:
        """Whether it reads copies that another system wrote into a file."""
        return OUTPUTS in (self.kind, *self.kinds)

    @property
    def is_quick(self) -> bool:
        """Whether it tags a page in an instant and needs no torch."""
        return self.kind in (RULES, COMBINED, OUTPUTS)

    @property
    def validation(self) -> dict[str, int] | None:
        """Counts of the validation notes, on which its best weights were chosen.

        `n_found` of `n_gold` annotated spans were found with the same place and type; `n_right` of
        `n_predicted` spans are annotated ones. None if spans were not counted.
        """
        n = {name: count for name, count in self.measured.items() if isinstance(count, int)}
        if "n_gold" not in n:
            return None
        return {
            "n_gold": n["n_gold"],
            "n_found": n["n_gold"] - n["n_missed"],
            "n_predicted": n["n_predicted"],
            "n_right": n["n_predicted"] - n["n_spurious"],
        }


def _read_tagger(folder: Path) -> KnownTagger:
    content = _json_file(folder / TAGGER)
    if content["version"] != TAGGER_VERSION:
        raise ValueError
    training, measured = content.get("training", {}), content.get("measured", {})
    if not (isinstance(training, dict) and isinstance(measured, dict)):
        raise ValueError
    return KnownTagger(
        f"{TRAINED}{folder.name}",
        _kind_of(content),
        str(content.get("title", "")),
        _digest_of(content),
        str(content.get("created", "")),
        training,
        measured,
        read_losses(folder),
    )


TAGGERS = Shelf("taggers", label="tagger", read=_read_tagger)


def tagger_dir(tagger_id: str) -> Path:
    """Return the folder of a trained tagger, even if it is missing; AuditError if the id is bad."""
    return TAGGERS.place(tagger_id.removeprefix(TRAINED) if tagger_id.startswith(TRAINED) else "")


def find_trained_tagger(tagger_id: str) -> KnownTagger:
    """Return a trained tagger; AuditError if there is none, or its training is not finished."""
    folder = tagger_dir(tagger_id)
    if (folder / "training.json").is_file() and not (folder / TAGGER).is_file():
        raise AuditError("This training is not finished.", where="tagger", do="Resume its job.")
    return TAGGERS.get(folder.name)


def _digest_of(content: Mapping[str, JsonValue]) -> str:
    """Return the digest of the tagger that a `tagger.json` describes, as it is loaded here."""
    digest = str(content["digest"])
    if content["kind"] == GenerativeFacts.kind:
        return backed_digest(held_digest(digest), _default_digest())
    if _kind_of(content) == COMBINED:
        return combined_digest(RuleTagger().digest, digest)
    return digest


def _kind_of(content: Mapping[str, JsonValue]) -> str:
    """Return the kind of the tagger that a `tagger.json` describes, as it is loaded here."""
    return COMBINED if content.get("has_rules") is True else str(content["kind"])


def list_taggers() -> tuple[KnownTagger, ...]:
    """Return the taggers of this installation, the shipped ones first; reads no weights."""
    default = KnownTagger(DEFAULT, COMBINED, "", _default_digest())
    rules = KnownTagger(RULES, RULES, "", RuleTagger().digest)
    packaged = (KnownTagger(name, PACKAGED, "", packaged_digest(name)) for name in list_installed())
    trained = (tagger for tagger in TAGGERS.all() if tagger.kind in (*_KINDS, COMBINED))
    return (default, rules, *packaged, *trained)


def find_tagger(tagger_id: str, *, elsewhere: Tagger | None = None) -> KnownTagger:
    """Return a tagger by its identifier or the absolute path of its folder; reads no weights.

    The names of several taggers have "+" between them. `elsewhere` is as in `load_tagger`.

    Raises
    ------
    AuditError
        If there is no such tagger, or its packages are not installed.
    """
    names = tagger_names(tagger_id)
    tagger_by_id = {tagger.tagger_id: tagger for tagger in list_taggers()}
    if elsewhere:
        digest = backed_digest(elsewhere.digest, _default_digest())
        tagger_by_id[elsewhere.name] = KnownTagger(elsewhere.name, elsewhere.name, "", digest)
    taggers = [tagger_by_id.get(name) or _folder_tagger(name) for name in names]
    if len(taggers) == 1:
        return taggers[0]
    digests = [taggers[0].digest]
    for name, tagger in zip(names[1:], taggers[1:], strict=True):
        is_packaged = tagger.kind == PACKAGED
        digests.append(packaged_digest(name, is_beside=True) if is_packaged else tagger.digest)
    kinds = tuple(tagger.kind for tagger in taggers)
    return KnownTagger(
        TAGGER_SEPARATOR.join(tagger.tagger_id for tagger in taggers),
        max(kinds, key=_BY_PACE.index),
        "",
        united_digest(digests),
        kinds=kinds,
    )


def tagger_names(tagger_id: str) -> tuple[str, ...]:
    """Return the names of the taggers in an identifier; a folder's path may contain a "+".

    Raises
    ------
    AuditError
        If a tagger is named twice.
    """
    names: list[str] = []
    pieces = tagger_id.split(TAGGER_SEPARATOR)
    while pieces:
        sizes = range(len(pieces), 0, -1) if pieces[0].startswith("/") else (1,)
        n_pieces = next(
            (n for n in sizes if (Path(TAGGER_SEPARATOR.join(pieces[:n])) / TAGGER).is_file()), 1
        )
        names.append(TAGGER_SEPARATOR.join(pieces[:n_pieces]))
        del pieces[:n_pieces]
    if len(set(names)) < len(names):
        raise AuditError("Name each tagger once.", where="tagger")
    return tuple(names)


@lru_cache(maxsize=1)
def _default_tagger() -> Tagger:
    return CombinedTagger(RuleTagger(), load_tagger_folder(SHIPPED), DEFAULT)


@lru_cache(maxsize=1)
def _default_digest() -> str:
    return combined_digest(RuleTagger().digest, TaggerFacts.of_folder(SHIPPED).digest())


def _folder_tagger(tagger_id: str) -> KnownTagger:
    """Return the tagger in the folder of an absolute path; its identifier is the folder's name."""
    if tagger_id in LANGUAGE and tagger_id not in list_installed():
        raise not_installed(tagger_id)
    content = _json_file(Path(tagger_id) / TAGGER) if Path(tagger_id).is_absolute() else {}
    if content.get("kind") not in _KINDS:
        raise no_such_tagger()
    return KnownTagger(Path(tagger_id).name, _kind_of(content), "", _digest_of(content))


def load_tagger(
    tagger_id: str, *, device: str = "auto", is_free: bool = False, elsewhere: Tagger | None = None
) -> Tagger:
    """Load a tagger by its identifier or the absolute path of its folder.

    Several taggers, with "+" between their names, are loaded as one. Encoders and generative
    taggers import torch here, packaged ones import their packages. The copies of a generative
    tagger are held to their notes unless `is_free`. `elsewhere` is a tagger whose copies are
    written elsewhere; the identifier has its name, and it gets the default tagger as its fallback.
    """
    taggers: list[Tagger] = []
    for name in tagger_names(tagger_id):
        if elsewhere and name == elsewhere.name:
            taggers.append(add_fallback(elsewhere))
        else:
            is_beside = bool(taggers)
            taggers.append(_load_single(name, device=device, is_beside=is_beside, is_free=is_free))
    if len(taggers) == 1:
        return taggers[0]
    is_copying = any(isinstance(tagger, CopyingTagger) for tagger in taggers)
    return (UnitedCopies if is_copying else UnitedTagger)(tuple(taggers), tagger_id)


def _load_single(name: str, *, device: str, is_beside: bool, is_free: bool) -> Tagger:
    if name == RULES:
        return RuleTagger()
    if name == DEFAULT:
        return _default_tagger()
    if name.startswith(TRAINED):
        find_trained_tagger(name)
        return load_tagger_folder(tagger_dir(name), device=device, is_free=is_free)
    if name in LANGUAGE:
        return PackagedTagger(name, is_beside=is_beside)
    if Path(name).is_absolute():
        return load_tagger_folder(Path(name), device=device, is_free=is_free)
    raise no_such_tagger()


def load_tagger_folder(folder: Path, *, device: str = "auto", is_free: bool = False) -> Tagger:
    """Load the tagger of any kind from a folder with `tagger.json`.

    A tagger that writes copies gets the default tagger as its fallback; its copies are held to
    their notes unless `is_free`.
    """
    kind = _json_file(folder / TAGGER).get("kind")
    if kind == TaggerFacts.kind:
        from audit.deid.find.network.token_tagger import load_token_tagger

        tagger = load_token_tagger(folder, device=device)
        return CombinedTagger(RuleTagger(), tagger) if tagger.facts.has_rules else tagger
    if kind == GenerativeFacts.kind:
        from audit.deid.find.causal_model import load_generative

        return add_fallback(load_generative(folder, device=device, is_free=is_free))
    raise no_such_tagger()


def network_folder(tagger_id: str) -> Path:
    """Return the folder of a tagger whose network of words a training can go on from.

    Raises
    ------
    AuditError
        If there is no such tagger, or it has no network of words.
    """
    from audit.deid.find.network.wordnet import LISTS

    if tagger_id == DEFAULT:
        return SHIPPED
    find_tagger(tagger_id)
    if tagger_id.startswith(TRAINED):
        folder = tagger_dir(find_trained_tagger(tagger_id).tagger_id)
    else:
        folder = Path(tagger_id)
    is_token = _json_file(folder / TAGGER).get("kind") == TaggerFacts.kind
    if not is_token or not (folder / MODEL / LISTS).is_file():
        raise AuditError(
            "A training goes on from a network of words alone; this tagger is of another kind.",
            where="--from",
            do="Choose default, or a tagger that was trained from it or without an encoder.",
        )
    return folder


def _json_file(path: Path) -> dict[str, JsonValue]:
    """Return the members of a JSON file; none if it is not one."""
    try:
        with open_regular(path) as file:
            content = json.loads(file.read(MAX_BYTES))
    except (AuditError, OSError, ValueError):
        content = None
    return content if isinstance(content, dict) else {}


def no_such_tagger() -> AuditError:
    """Return the error for an identifier that no tagger has."""
    return AuditError(
        "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
    )


@dataclass(frozen=True)
class ShippedFigures:
    """How much a tagger finds in the hand-written notes of a language.

    `recalls` has, for "identifier" and for "all" types together, the share 0-1 of gold spans of
    which something was found under any label, with its 95 % interval, and the number of gold spans.
    """

    language: str
    n_notes: int
    recalls: Mapping[str, tuple[Estimate, int]]


def shipped_figures(tagger_id: str) -> tuple[ShippedFigures, ...]:
    """Return the figures of a shipped tagger; empty if it was not measured."""
    content = json.loads((SHIPPED / HAND_WRITTEN).read_bytes())
    held_out = content["held_out"]
    if tagger_id == RULES and content["rules_digest"] == RuleTagger().digest:
        measured = held_out["rules alone"]
    elif tagger_id == DEFAULT and content["digest"] == _default_digest():
        measured = held_out["default"]
    else:  # figures of another tagger are not this one's
        return ()
    return tuple(_read_figures(language, measured[language]) for language in LANGUAGES)


def _read_figures(language: str, measured: Mapping[str, Any]) -> ShippedFigures:
    recalls = {}
    for label in ("identifier", "all"):
        counts = measured["label_relaxed"][label]
        recall = Estimate(counts["recall"], *counts["intervals"]["recall"])
        recalls[label] = recall, int(counts["n_gold"])
    return ShippedFigures(language, measured["n_notes"], recalls)
