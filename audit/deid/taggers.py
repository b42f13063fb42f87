"""The taggers of this installation: the shipped ones, those trained here, several of them as one.

Also what was measured of the shipped ones on invented notes that they were not made for, written by
hand by somebody who had seen neither rules nor output.
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

from audit.deid.borders import is_no_find, is_possessive, tidied, whole_finds, with_whole_names
from audit.deid.copies import CopyingTagger, CopyReading, ShareListener, worst_reading
from audit.deid.packaged import (
    LANGUAGE,
    PackagedTagger,
    installed,
    not_installed,
    packaged_digest,
)
from audit.deid.rules import RuleTagger, without_clinical
from audit.deid.tagger import MAX_BYTES, MODEL, TAGGER, Tagger, Tags, is_light, tag_checked
from audit.deid.tagger_config import GenerativeFacts, TaggerFacts
from audit.errors import AuditError
from audit.foreign import open_regular
from audit.notes.spans import Span, TaggedDocument
from audit.progress import StopQuestion
from audit.shelf import Shelf
from audit.stats import Estimate
from audit.training.config import LossPoint, read_losses

WAY = "rules first"
"""How rules and model are put together, as `how.json` has it: of two finds that share a character
that of the rules stays whole, and of the other what is left. None that either found is released.
"""
RULES, DEFAULT, PACKAGED = "rules", "default", "packaged"
COMBINED = "combined"
"""The kind of the default tagger."""
_VERSION = 8  # of how finds are put together


@dataclass(frozen=True)
class CombinedTagger:
    """Finds what the rules find, and a model beside them."""

    rules: Tagger
    model: Tagger
    name: str = COMBINED

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of both."""
        return tuple(dict.fromkeys((*self.rules.labels, *self.model.labels)))

    @property
    def is_light(self) -> bool:
        """Whether both are."""
        return is_light(self.rules) and is_light(self.model)

    @property
    def digest(self) -> str:
        """SHA-256 of both and the way."""
        return combined_digest(self.rules.digest, self.model.digest)

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        return whole_finds(texts, self._tagged)

    def _tagged(self, texts: Sequence[str]) -> Iterator[Tags]:
        rows = zip(texts, self.rules.tag(texts), self.model.tag(texts), strict=True)
        return (put_together(*row) for row in rows)


def combined_digest(rules: str, model: str) -> str:
    """Return the digest of rules and a model put together, from theirs."""
    return hashlib.sha256(f"{_VERSION}|{WAY}|{rules}|{model}".encode()).hexdigest()


def put_together(text: str, by_rules: Tags, by_model: Tags) -> Tags:
    """Return the finds of rules, and what a model found beside them, as spans apart.

    What the model found in clinical values alone is refused, and in a text that has capitals what
    is nobody's.
    """
    tidy = tidied(text, by_model, beside=by_rules)
    if not text.islower():
        tidy = [span for span in tidy if not is_no_find(text, span)]
    return with_whole_names(text, united(text, by_rules, without_clinical(text, tidy)))


def united(text: str, first: Tags, *others: Iterable[Span]) -> Tags:
    """Return the spans of several taggers as spans apart: no letter that one found is lost.

    The spans of the first stay whole, of the others what is left; only a rest without a letter or
    digit is left out.
    """
    spans = list(first)
    is_taken = bytearray(len(text))
    for span in first:
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    for other in others:
        for span in sorted(other, key=lambda span: (-span.n_chars, span)):
            for free in re.finditer(b"\0+", is_taken[span.start : span.end]):
                start, end = span.start + free.start(), span.start + free.end()
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
    """Finds what any of several taggers finds; where two share characters the first one's name it.

    What a package finds beside the others is tidied as the finds of a network are beside rules.
    """

    taggers: tuple[Tagger, ...]
    name: str

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of all."""
        return tuple(dict.fromkeys(label for one in self.taggers for label in one.labels))

    @property
    def is_light(self) -> bool:
        """Whether all are."""
        return all(map(is_light, self.taggers))

    @property
    def digest(self) -> str:
        """SHA-256 of all, in their order."""
        return united_digest([one.digest for one in self.taggers])

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        return self._united(texts, [one.tag(texts) for one in self.taggers])

    def _united(self, texts: Sequence[str], answers: Sequence[Sequence[Tags]]) -> tuple[Tags, ...]:
        """Return the spans of each text, from the answers of each tagger."""
        tags = tuple(answers[0])
        for tagger, own in zip(self.taggers[1:], answers[1:], strict=True):
            join = put_together if isinstance(tagger, PackagedTagger) else united
            tags = tuple(join(*row) for row in zip(texts, tags, own, strict=True))
        return tags


def united_digest(digests: Sequence[str]) -> str:
    """Return the digest of several taggers as one, from theirs in their order."""
    return hashlib.sha256("|".join((str(_VERSION), "united", *digests)).encode()).hexdigest()


@dataclass(frozen=True)
class UnitedCopies(UnitedTagger):
    """Several taggers as one, of which at least one writes copies."""

    @property
    def n_notes_at_once(self) -> int:
        """How many notes it is given at most."""
        return min(one.n_notes_at_once for one in self.taggers if isinstance(one, CopyingTagger))

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> tuple[CopyReading, ...]:
        """Read notes; of two that write copies the worse copy of a note is told."""
        texts = [note.text for note in notes]
        answers: list[Sequence[Tags]] = []
        readings: list[Sequence[CopyReading]] = []
        n_copying = sum(isinstance(one, CopyingTagger) for one in self.taggers)
        for tagger in self.taggers:
            if not isinstance(tagger, CopyingTagger):
                answers.append(tagger.tag(texts))
                continue
            share = partial(_tell_part, on_share, len(readings), n_copying)
            readings.append(tagger.read(notes, should_stop=should_stop, on_share=share))
            answers.append([reading.tags for reading in readings[-1]])
        tags = self._united(texts, answers)
        rows = zip(zip(*readings, strict=True), tags, strict=True)
        return tuple(worst_reading(row).with_tags(own) for row, own in rows)


def _tell_part(on_share: ShareListener, number: int, n_parts: int, share: float) -> None:
    on_share((number + share) / n_parts)


class _CopyingModel(Tagger, CopyingTagger, Protocol):
    """A tagger that writes copies."""


@dataclass(frozen=True)
class BackedTagger:
    """A model that writes copies; what it did not copy of a note another tagger marks.

    Of the other one count the finds that share a character with what was not copied.
    """

    model: _CopyingModel
    fallback: Tagger

    @property
    def name(self) -> str:
        """That of the model."""
        return self.model.name

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of both."""
        return tuple(dict.fromkeys((*self.model.labels, *self.fallback.labels)))

    @property
    def digest(self) -> str:
        """SHA-256 of both."""
        return backed_digest(self.model.digest, self.fallback.digest)

    @property
    def n_notes_at_once(self) -> int:
        """That of the model."""
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
        """Read notes, and have marked what was not copied."""
        readings = list(self.model.read(notes, should_stop=should_stop, on_share=on_share))
        numbers = [number for number, reading in enumerate(readings) if reading.uncopied]
        texts = [notes[number].text for number in numbers]
        answers = tag_checked(self.fallback, texts) if texts else ()
        for number, text, spans in zip(numbers, texts, answers, strict=True):
            reading = readings[number]
            missing = [
                span
                for span in spans
                if any(span.start < end and start < span.end for start, end in reading.uncopied)
            ]
            readings[number] = reading.with_tags(united(text, reading.tags, missing))
        return tuple(readings)


def with_fallback(tagger: Tagger) -> Tagger:
    """Return a tagger behind which, if it writes copies, the default one stands."""
    is_safe = isinstance(tagger, BackedTagger | UnitedCopies)
    if is_safe or not isinstance(tagger, CopyingTagger):
        return tagger
    return BackedTagger(cast(_CopyingModel, tagger), _default_tagger())


def backed_digest(model: str, fallback: str) -> str:
    """Return the digest of a model that writes copies and the tagger behind it, from theirs."""
    return hashlib.sha256(f"{_VERSION}|backed|{model}|{fallback}".encode()).hexdigest()


BESIDE = "+"
"""What stands between the taggers that are asked as one, as in "default+ginza"."""
TRAINED = "trained/"
"""What the identifier of a trained tagger begins with."""
SHIPPED = Path(__file__).resolve().parent / "default_tagger"
HAND_WRITTEN = "hand_written.json"
_KINDS = (TaggerFacts.kind, GenerativeFacts.kind)
_BY_PACE = (RULES, COMBINED, TaggerFacts.kind, PACKAGED, GenerativeFacts.kind)
"""The kinds of taggers, the quickest first."""


@dataclass(frozen=True)
class KnownTagger:
    """A tagger that can be chosen: "rules", "default", "trained/<12 hexadecimal digits>" ...

    Several as one are called "default+trained/...": of these `kind` is that of the slowest.
    `title` is what its maker called it, untrusted text, empty for the shipped ones. Of one that was
    trained here: `training` says how, `measured` has its figures on the validation notes (both
    plain values), `points` are its curve.
    """

    tagger_id: str
    kind: str
    title: str
    digest: str
    created: str = ""
    training: Mapping[str, Any] = field(default_factory=dict, hash=False)
    measured: Mapping[str, Any] = field(default_factory=dict, hash=False)
    points: tuple[LossPoint, ...] = ()
    kinds: tuple[str, ...] = ()
    """Of several as one, each one's."""

    @property
    def has_rules(self) -> bool:
        """Whether rules are among what it is made of."""
        return not {RULES, COMBINED}.isdisjoint((self.kind, *self.kinds))

    @property
    def writes_copies(self) -> bool:
        """Whether it writes notes again, so that a part of one may not be copied."""
        return self.kind == GenerativeFacts.kind

    @property
    def is_quick(self) -> bool:
        """Whether it reads a page in an instant and needs no torch."""
        return self.kind in (RULES, COMBINED)

    @property
    def validation(self) -> dict[str, int] | None:
        """Counts of the validation notes, on which its best weights were chosen.

        Of `n_gold` annotated spans `n_found` were found with the same place and type; of
        `n_predicted` marks `n_right` are an annotated span's. None where spans were not counted.
        """
        n = self.measured
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
    return KnownTagger(
        f"{TRAINED}{folder.name}",
        _kind_of(content),
        str(content.get("title", "")),
        _digest_of(content),
        str(content.get("created", "")),
        dict(content.get("training", {})),
        dict(content.get("measured", {})),
        read_losses(folder),
    )


TAGGERS = Shelf("taggers", where="tagger", read=_read_tagger)


def tagger_dir(tagger_id: str) -> Path:
    """Return the folder of a trained tagger, be it there or not; AuditError if it is no such id."""
    return TAGGERS.place(tagger_id.removeprefix(TRAINED) if tagger_id.startswith(TRAINED) else "")


def trained_tagger(tagger_id: str) -> KnownTagger:
    """Return one trained tagger; AuditError where there is none, or it is not finished."""
    folder = tagger_dir(tagger_id)
    if (folder / "training.json").is_file() and not (folder / TAGGER).is_file():
        raise AuditError("This training is not finished.", where="tagger", do="Let its job go on.")
    return TAGGERS.get(folder.name)


def _digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of the tagger that a `tagger.json` describes, as it is loaded here."""
    digest = str(content["digest"])
    if content["kind"] == GenerativeFacts.kind:
        return backed_digest(digest, _default_digest())
    if _kind_of(content) == COMBINED:
        return combined_digest(RuleTagger().digest, digest)
    return digest


def _kind_of(content: Mapping[str, Any]) -> str:
    """Return the kind of the tagger that a `tagger.json` describes, as it is loaded here."""
    return COMBINED if content.get("has_rules") is True else str(content["kind"])


def known_taggers() -> tuple[KnownTagger, ...]:
    """Return the taggers of this installation, the shipped ones first; reads no weights."""
    default = KnownTagger(DEFAULT, COMBINED, "", _default_digest())
    rules = KnownTagger(RULES, RULES, "", RuleTagger().digest)
    packaged = (KnownTagger(name, PACKAGED, "", packaged_digest(name)) for name in installed())
    trained = (one for one in TAGGERS.all() if one.kind in (*_KINDS, COMBINED))
    return (default, rules, *packaged, *trained)


def known_tagger(tagger_id: str) -> KnownTagger:
    """Return a tagger by its identifier, or the whole path of its folder; reads no weights.

    Several are named with "+" between them.

    Raises
    ------
    AuditError
        If there is none, or the identifier is that of packages which are not installed.
    """
    names = tagger_names(tagger_id)
    listed = {one.tagger_id: one for one in known_taggers()}
    taggers = [listed.get(name) or _folder_tagger(name) for name in names]
    if len(taggers) == 1:
        return taggers[0]
    digests = [taggers[0].digest]
    for name, one in zip(names[1:], taggers[1:], strict=True):
        is_packaged = one.kind == PACKAGED
        digests.append(packaged_digest(name, is_beside=True) if is_packaged else one.digest)
    kinds = tuple(one.kind for one in taggers)
    return KnownTagger(
        BESIDE.join(one.tagger_id for one in taggers),
        max(kinds, key=_BY_PACE.index),
        "",
        united_digest(digests),
        kinds=kinds,
    )


def tagger_names(tagger_id: str) -> tuple[str, ...]:
    """Return the taggers that an identifier names, each once; a folder may have a "+" in its path.

    Raises
    ------
    AuditError
        If one is named twice.
    """
    names: list[str] = []
    pieces = tagger_id.split(BESIDE)
    while pieces:
        sizes = range(len(pieces), 0, -1) if pieces[0].startswith("/") else (1,)
        n_pieces = next((n for n in sizes if (Path(BESIDE.join(pieces[:n])) / TAGGER).is_file()), 1)
        names.append(BESIDE.join(pieces[:n_pieces]))
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
    """Return the tagger of a folder, given by its whole path and called as the folder is."""
    if tagger_id in LANGUAGE and tagger_id not in installed():
        raise not_installed(tagger_id)
    content = _json_file(Path(tagger_id) / TAGGER) if Path(tagger_id).is_absolute() else {}
    if content.get("kind") not in _KINDS:
        raise no_such_tagger()
    return KnownTagger(Path(tagger_id).name, _kind_of(content), "", _digest_of(content))


def load_tagger(tagger_id: str, *, device: str = "auto") -> Tagger:
    """Return a tagger that is ready, by identifier or the whole path of its folder.

    Several, named with "+" between them, are asked as one. Encoders and generative ones import
    torch here, those of packages their packages.
    """
    first, *others = tagger_names(tagger_id)
    taggers = [_load_one(first, device=device)]
    taggers += [_load_one(name, device=device, is_beside=True) for name in others]
    if not others:
        return taggers[0]
    is_copying = any(isinstance(one, CopyingTagger) for one in taggers)
    return (UnitedCopies if is_copying else UnitedTagger)(tuple(taggers), tagger_id)


def _load_one(name: str, *, device: str, is_beside: bool = False) -> Tagger:
    if name == RULES:
        return RuleTagger()
    if name == DEFAULT:
        return _default_tagger()
    if name.startswith(TRAINED):
        trained_tagger(name)
        return load_tagger_folder(tagger_dir(name), device=device)
    if name in LANGUAGE:
        return PackagedTagger(name, is_beside=is_beside)
    if Path(name).is_absolute():
        return load_tagger_folder(Path(name), device=device)
    raise no_such_tagger()


def load_tagger_folder(folder: Path, *, device: str = "auto") -> Tagger:
    """Return the tagger of a folder with `tagger.json`, of whatever kind it is.

    The default tagger marks what one that writes copies does not copy.
    """
    kind = _json_file(folder / TAGGER).get("kind")
    if kind == TaggerFacts.kind:
        from audit.deid.network.token_tagger import load_token_tagger

        tagger = load_token_tagger(folder, device=device)
        return CombinedTagger(RuleTagger(), tagger) if tagger.facts.has_rules else tagger
    if kind == GenerativeFacts.kind:
        from audit.deid.generative.causal_model import load_generative

        return with_fallback(load_generative(folder, device=device))
    raise no_such_tagger()


def network_folder(tagger_id: str) -> Path:
    """Return the folder of a tagger's network of words, from which a training can go on.

    Raises
    ------
    AuditError
        If there is no such tagger, or it is none with a network of words.
    """
    from audit.deid.network.wordnet import LISTS

    if tagger_id == DEFAULT:
        return SHIPPED
    known_tagger(tagger_id)
    if tagger_id.startswith(TRAINED):
        folder = tagger_dir(trained_tagger(tagger_id).tagger_id)
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


def _json_file(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one where there is none."""
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


LANGUAGES = ("ja", "en")


@dataclass(frozen=True)
class ShippedFigures:
    """What a tagger found in the notes of a language that were written by hand.

    `found` has for "identifier", and for "all" types together, the share 0-1 of gold spans of which
    something was found, under any label, with its 95 % interval, and how many golds there are.
    """

    language: str
    n_notes: int
    found: Mapping[str, tuple[Estimate, int]]


def shipped_figures(tagger_id: str) -> tuple[ShippedFigures, ...]:
    """Return what was measured of a tagger; empty where nothing is known of it."""
    content = json.loads((SHIPPED / HAND_WRITTEN).read_bytes())
    held_out = content["held_out"]
    if tagger_id == RULES and content["rules_digest"] == RuleTagger().digest:
        measured = held_out["rules alone"]
    elif tagger_id == DEFAULT and content["digest"] == _default_digest():
        measured = held_out["default"]
    else:  # figures of another tagger are not this one's
        return ()
    return tuple(_figures(language, measured[language]) for language in LANGUAGES)


def _figures(language: str, measured: Mapping[str, Any]) -> ShippedFigures:
    found = {}
    for label in ("identifier", "all"):
        counted = measured["label_relaxed"][label]
        share = Estimate(counted["recall"], *counted["intervals"]["recall"])
        found[label] = share, int(counted["n_gold"])
    return ShippedFigures(language, measured["n_notes"], found)
