"""The taggers of this installation: the shipped ones, those trained here, two of them as one.

Also what was measured of the shipped ones on invented notes that they were not made for, written by
hand by somebody who had seen neither rules nor output.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from audit.deid.borders import is_no_find, is_possessive, tidied, whole_finds, with_whole_names
from audit.deid.config import GenerativeFacts, TaggerFacts
from audit.deid.packaged import (
    LANGUAGE,
    PackagedTagger,
    installed,
    not_installed,
    packaged_digest,
)
from audit.deid.rules import RuleTagger, without_clinical
from audit.deid.tagger import MAX_BYTES, TAGGER, Tagger, Tags, is_light
from audit.errors import AuditError
from audit.notes.spans import Span
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
_VERSION = 7  # of how finds are put together


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

    A rest that is white space alone, or without a letter or digit, is left out. What the model
    found in clinical values alone is refused, and in a text that has capitals what is nobody's.
    """
    tidy = tidied(text, by_model, beside=by_rules)
    if not text.islower():
        tidy = [span for span in tidy if not is_no_find(text, span)]
    personal = without_clinical(text, tidy)
    kept = list(by_rules)
    is_taken = bytearray(len(text))
    for span in by_rules:
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    for span in sorted(personal, key=lambda span: (-span.n_chars, span)):
        for free in re.finditer(b"\0+", is_taken[span.start : span.end]):
            start, end = span.start + free.start(), span.start + free.end()
            rest = text[start:end]
            if end - start == span.n_chars:
                kept.append(span)
            elif any(char.isalnum() for char in rest) and not is_possessive(rest.strip()):
                start += len(rest) - len(rest.lstrip())
                kept.append(Span(start, start + len(rest.strip()), span.label))
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    return with_whole_names(text, tuple(sorted(kept)))


BESIDE = (("ginza",), ("spacy",), ("ginza", "spacy"), ("presidio",))
"""Packaged taggers that stand beside the default one, as in "default+ginza+spacy"."""
TRAINED = "trained/"
"""What the identifier of a trained tagger begins with."""
SHIPPED = Path(__file__).resolve().parent / "default_tagger"
HAND_WRITTEN = "hand_written.json"
_KINDS = (TaggerFacts.kind, GenerativeFacts.kind)


@dataclass(frozen=True)
class KnownTagger:
    """A tagger that can be chosen: "rules", "default", "trained/<12 hexadecimal digits>" ...

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
        return {"n_gold": n["n_gold"], "n_found": n["n_gold"] - n["n_missed"],
                "n_predicted": n["n_predicted"],
                "n_right": n["n_predicted"] - n["n_spurious"]}  # fmt: skip


def _read_tagger(folder: Path) -> KnownTagger:
    content = _json_file(folder / TAGGER)
    kind, digest = str(content["kind"]), str(content["digest"])
    return KnownTagger(
        f"{TRAINED}{folder.name}", kind, str(content.get("title", "")), digest,
        str(content.get("created", "")), dict(content.get("training", {})),
        dict(content.get("measured", {})), read_losses(folder),
    )  # fmt: skip


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


def known_taggers() -> tuple[KnownTagger, ...]:
    """Return the taggers of this installation, the shipped ones first; reads no weights."""
    default = KnownTagger(DEFAULT, COMBINED, "", _default_digest())
    rules = KnownTagger(RULES, RULES, "", RuleTagger().digest)
    trained = (one for one in TAGGERS.all() if one.kind in _KINDS)
    return (default, rules, *_packaged(), *trained)


def _packaged() -> Iterator[KnownTagger]:
    """Yield the taggers of installed packages: each alone, and beside the default one."""
    here = installed()
    for name in here:
        yield KnownTagger(name, PACKAGED, "", packaged_digest(name))
    for names in BESIDE:
        if set(names) <= set(here):
            digest = _default_digest()
            for name in names:
                digest = combined_digest(digest, packaged_digest(name, is_beside=True))
            yield KnownTagger("+".join((DEFAULT, *names)), PACKAGED, "", digest)


def known_tagger(tagger_id: str) -> KnownTagger:
    """Return one tagger of this installation by its identifier; reads no weights."""
    found = next((one for one in known_taggers() if one.tagger_id == tagger_id), None)
    if found is None:
        raise no_such_tagger()
    return found


@lru_cache(maxsize=1)
def _default_tagger() -> Tagger:
    return CombinedTagger(RuleTagger(), load_tagger_folder(SHIPPED), DEFAULT)


@lru_cache(maxsize=1)
def _default_digest() -> str:
    return combined_digest(RuleTagger().digest, TaggerFacts.of_folder(SHIPPED).digest())


def other_tagger(tagger_id: str) -> KnownTagger:
    """Return the tagger of a folder, given by its whole path and called as the folder is.

    Raises
    ------
    AuditError
        If there is none, or the identifier is that of packages which are not installed.
    """
    for name in tagger_id.removeprefix(f"{DEFAULT}+").split("+"):
        if name in LANGUAGE and name not in installed():
            raise not_installed(name)
    content = _json_file(Path(tagger_id) / TAGGER) if Path(tagger_id).is_absolute() else {}
    if content.get("kind") not in _KINDS:
        raise no_such_tagger()
    return KnownTagger(Path(tagger_id).name, content["kind"], "", str(content["digest"]))


def load_tagger(tagger_id: str, *, device: str = "auto") -> Tagger:
    """Return a tagger that is ready, by identifier or the whole path of its folder.

    Encoders and generative ones import torch here, those of packages their packages.
    """
    if tagger_id == RULES:
        return RuleTagger()
    if tagger_id == DEFAULT:
        return _default_tagger()
    if tagger_id.startswith(TRAINED):
        trained_tagger(tagger_id)
        return load_tagger_folder(tagger_dir(tagger_id), device=device)
    if tagger_id in LANGUAGE:
        return PackagedTagger(tagger_id)
    default, *names = tagger_id.split("+")
    if default == DEFAULT and tuple(names) in BESIDE:
        others = [PackagedTagger(name, is_beside=True) for name in names]
        found = load_tagger(DEFAULT, device=device)
        for other in others:
            found = CombinedTagger(found, other, tagger_id)
        return found
    if Path(tagger_id).is_absolute():
        return load_tagger_folder(Path(tagger_id), device=device)
    raise no_such_tagger()


def load_tagger_folder(folder: Path, *, device: str = "auto") -> Tagger:
    """Return the tagger of a folder with `tagger.json`, of whatever kind it is."""
    kind = _json_file(folder / TAGGER).get("kind")
    if kind == TaggerFacts.kind:
        from audit.deid.network.tagger import load_token_tagger

        return load_token_tagger(folder, device=device)
    if kind == GenerativeFacts.kind:
        from audit.deid.generative.model import load_generative

        return load_generative(folder, device=device)
    raise no_such_tagger()


def _json_file(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one where there is none."""
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError):
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
