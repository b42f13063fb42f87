"""The taggers of this installation: the shipped ones, those trained here, two of them as one.

Also what was measured of the shipped ones on invented notes that they were not made for: notes
written by hand by somebody who had seen neither rules nor output, and generated ones in styles that
were kept apart from the training.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from audit.deid.generative.config import GenerativeFacts
from audit.deid.network.config import TaggerFacts
from audit.deid.rules import RuleTagger, without_clinical
from audit.deid.tagger import MAX_BYTES, TAGGER, Tagger, Tags
from audit.errors import AuditError
from audit.notes.spans import CONTACT, LINKAGE_CODE, PERSONAL_ID_CODE, Span
from audit.shelf import Shelf
from audit.stats import Estimate
from audit.training.config import LossPoint, read_losses

LONGEST, RULES_FIRST, MODEL_FIRST, CODES_FIRST = (
    "longest", "rules first", "model first", "codes by rule",
)  # fmt: skip
WAYS = (LONGEST, RULES_FIRST, MODEL_FIRST, CODES_FIRST)
"""Which of two finds that share a character stays whole: the longer; that of the rules; that of the
model; that of the rules for codes and contacts and else that of the model.

Of the other one stays what is left: no character that either of them found is released.
"""
_CODES = (PERSONAL_ID_CODE, LINKAGE_CODE, CONTACT)
_PAIRS = dict(zip("(（「[［<＜", ")）」]］>＞", strict=True))
_OPENING = {closing: opening for opening, closing in _PAIRS.items()}
_NUMBER = re.compile(r"\d+(?:[-/.‐−－／．]\d+)+")
_VERSION = 4  # of how finds are put together


@dataclass(frozen=True)
class CombinedTagger:
    """Finds what either of two taggers finds, put together in one of `WAYS`."""

    rules: Tagger
    model: Tagger
    way: str
    name: str = "combined"

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of both."""
        return tuple(dict.fromkeys((*self.rules.labels, *self.model.labels)))

    @property
    def digest(self) -> str:
        """SHA-256 of both and the way."""
        return combined_digest(self.rules.digest, self.model.digest, way=self.way)

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        rows = zip(texts, self.rules.tag(texts), self.model.tag(texts), strict=True)
        return tuple(put_together(text, one, other, way=self.way) for text, one, other in rows)


def combined_digest(rules: str, model: str, *, way: str) -> str:
    """Return the digest of two taggers put together, from theirs."""
    return hashlib.sha256(f"{_VERSION}|{way}|{rules}|{model}".encode()).hexdigest()


def put_together(text: str, by_rules: Tags, by_model: Tags, *, way: str) -> Tags:
    """Return the finds of two taggers as spans that share no character.

    A rest that is white space alone, or without a letter or digit, is left out; so are the marks of
    punctuation at the ends of what the model found, but for those that are part of it. A number in
    several parts, as 5/10 or 0564-23-8711, of which the model found some is taken whole. What the
    model found in clinical values alone is refused.
    """
    tidy = [span for span in (without_edges(text, span) for span in by_model) if span is not None]
    whole = without_clinical(text, with_whole_numbers(text, tidy, others=by_rules))

    def rank(find: tuple[bool, Span]) -> tuple[int, int, bool, Span]:
        is_rule, span = find
        is_first = {
            LONGEST: False, RULES_FIRST: is_rule, MODEL_FIRST: not is_rule,
            CODES_FIRST: is_rule and span.label in _CODES,
        }[way]  # fmt: skip
        is_second = way == CODES_FIRST and not is_rule
        return 0 if is_first else 1 if is_second else 2, -span.n_chars, is_rule, span

    finds = [*((True, span) for span in by_rules), *((False, span) for span in whole)]
    return _laid(text, [span for _, span in sorted(finds, key=rank)])


def without_edges(text: str, span: Span) -> Span | None:
    """Return a span without the punctuation and white space at its ends; None if nothing is left.

    A bracket stays where its partner is inside, a closing point where another one is: "A.B.".
    """
    start, end = span.start, span.end
    while start < end and _is_edge(text[start]):
        if _PAIRS.get(text[start], "\0") in text[start + 1 : end]:
            break
        start += 1
    while start < end and _is_edge(last := text[end - 1]):
        inside = text[start : end - 1]
        if _OPENING.get(last, "\0") in inside or (last in ".．" and last in inside):
            break
        end -= 1
    return Span(start, end, span.label) if start < end else None


def _is_edge(char: str) -> bool:
    return char.isspace() or char in _PAIRS or unicodedata.category(char)[0] == "P"


def with_whole_numbers(text: str, spans: Sequence[Span], *, others: Tags) -> list[Span]:
    """Return spans that end at the ends of numbers; what another span holds is left to it."""
    numbers = [match.span() for match in _NUMBER.finditer(text)]
    found = []
    for span in spans:
        touched = [n for n in numbers if n[0] < span.end and span.start < n[1]]
        start = min([span.start, *(n[0] for n in touched)])
        end = max([span.end, *(n[1] for n in touched)])
        ends = ((start, span.start), (span.end, end))
        is_taken = any(
            max(first, other.start) < min(last, other.end)
            for first, last in ends for other in (*spans, *others)
        )  # fmt: skip
        found.append(span if is_taken else Span(start, end, span.label))
    return found


def _laid(text: str, order: Iterable[Span]) -> Tags:
    """Lay spans one after the other; a later one keeps what is still free."""
    is_taken = bytearray(len(text))
    kept: list[Span] = []
    for span in order:
        for free in re.finditer(b"\0+", is_taken[span.start : span.end]):
            start, end = span.start + free.start(), span.start + free.end()
            rest = text[start:end]
            if end - start == span.n_chars:
                kept.append(span)
            elif any(char.isalnum() for char in rest):
                start += len(rest) - len(rest.lstrip())
                kept.append(Span(start, start + len(rest.strip()), span.label))
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    return tuple(sorted(kept))


RULES, DEFAULT = "rules", "default"
TRAINED = "trained/"
"""What the identifier of a trained tagger begins with."""
SHIPPED = Path(__file__).resolve().parent / "default_tagger"
HOW, HAND_WRITTEN = "how.json", "hand_written.json"
_KINDS = (TaggerFacts.kind, GenerativeFacts.kind)


@dataclass(frozen=True)
class KnownTagger:
    """A tagger that can be chosen: "rules", "default" or "trained/<12 hexadecimal digits>".

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
        return self.kind == RULES

    @property
    def validation(self) -> dict[str, int] | None:
        """Counts of the validation notes, on which its best weights were chosen.

        Of `n_gold` annotated spans `n_found` were found with the same place and type; of
        `n_predicted` marks `n_right` are an annotated span's. None where spans were not counted.
        """
        names = ("n_gold", "n_missed", "n_predicted", "n_spurious")
        counts = [self.measured.get(name) for name in names]
        if not all(isinstance(count, int) for count in counts):
            return None
        n_gold, n_missed, n_predicted, n_spurious = map(int, counts)  # type: ignore[arg-type]
        if not (0 <= n_missed <= n_gold and 0 <= n_spurious <= n_predicted):
            return None
        return {"n_gold": n_gold, "n_found": n_gold - n_missed, "n_predicted": n_predicted,
                "n_right": n_predicted - n_spurious}  # fmt: skip


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
    default = KnownTagger(DEFAULT, "combined", "", _default_digest())
    rules = KnownTagger(RULES, RULES, "", RuleTagger().digest)
    return (default, rules, *(one for one in TAGGERS.all() if one.kind in _KINDS))


@lru_cache(maxsize=1)
def _default_digest() -> str:
    model = TaggerFacts.of_folder(SHIPPED)
    return combined_digest(RuleTagger().digest, model.digest(), way=way_of(SHIPPED))


def load_tagger(tagger_id: str, *, device: str = "auto") -> Tagger:
    """Return a tagger that is ready; those with models import torch here."""
    if tagger_id == RULES:
        return RuleTagger()
    if tagger_id == DEFAULT:
        return load_default(SHIPPED, device=device)
    if tagger_id.startswith(TRAINED):
        trained_tagger(tagger_id)
        return load_tagger_folder(tagger_dir(tagger_id), device=device)
    raise _no_such_tagger()


def load_tagger_folder(folder: Path, *, device: str = "auto") -> Tagger:
    """Return the tagger of a folder with `tagger.json`, of whatever kind it is."""
    kind = _json_file(folder / TAGGER).get("kind")
    if kind == TaggerFacts.kind:
        from audit.deid.network.model import load_token_tagger

        return load_token_tagger(folder, device=device)
    if kind == GenerativeFacts.kind:
        from audit.deid.generative.tagger import load_generative

        return load_generative(folder, device=device)
    raise _no_such_tagger()


def load_default(folder: Path, *, device: str = "auto") -> CombinedTagger:
    """Return the default tagger of a folder: rules and a token classifier, as `how.json` says."""
    from audit.deid.network.model import load_token_tagger

    model = load_token_tagger(folder, device=device)
    return CombinedTagger(RuleTagger(), model, way_of(folder), DEFAULT)


def way_of(folder: Path) -> str:
    """Return how the default tagger of a folder puts rules and model together."""
    way = _json_file(folder / HOW).get("way")
    if way not in WAYS:
        raise AuditError("It is damaged.", where="default tagger", do="Install it again.")
    return str(way)


def _json_file(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one where there is none."""
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError):
        content = None
    return content if isinstance(content, dict) else {}


def _no_such_tagger() -> AuditError:
    return AuditError(
        "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
    )


LANGUAGES = ("ja", "en")
LABELS = ("identifier", "all")
_NAMES = {RULES: ("rules alone", "rules_digest"), DEFAULT: ("default", "digest")}


@dataclass(frozen=True)
class ShippedFigure:
    """The share 0-1 of gold spans of which a tagger found something, under any label.

    With its interval of 95 % where one was measured; `label` is "identifier", or "all" types
    together; the notes were written by hand or generated.
    """

    is_by_hand: bool
    language: str
    label: str
    n_notes: int
    n_gold: int
    found: Estimate


def shipped_figures(tagger_id: str) -> tuple[ShippedFigure, ...]:
    """Return what was measured of a tagger, by hand first; empty where nothing is known of it."""
    return _figures(SHIPPED, tagger_id) if tagger_id in _NAMES else ()


@lru_cache(maxsize=4)
def _figures(folder: Path, tagger_id: str) -> tuple[ShippedFigure, ...]:
    how, by_hand = _json_file(folder / HOW), _json_file(folder / HAND_WRITTEN)
    name, digest = _NAMES[tagger_id]
    # Figures of another tagger are not this one's.
    sides = [(by_hand, True)] if by_hand and by_hand.get(digest) == how.get(digest) else []
    found: list[ShippedFigure] = []
    for content, is_by_hand in [*sides, (how, False)]:
        try:
            measured = content["held_out"][name]
            found += [
                _figure(measured[language], language, label, is_by_hand=is_by_hand)
                for language in LANGUAGES if language in measured for label in LABELS
            ]  # fmt: skip
        except (ValueError, KeyError, TypeError):
            continue
    return tuple(found)


def _figure(
    measured: Mapping[str, Any], language: str, label: str, *, is_by_hand: bool
) -> ShippedFigure:
    counted = measured["label_relaxed"][label]
    low, high = (counted.get("intervals") or {}).get("recall") or (float("nan"), float("nan"))
    found = Estimate(float(counted["recall"]), float(low), float(high))
    if not 0 <= found.value <= 1:
        raise ValueError("a share lies between 0 and 1")
    n_notes, n_gold = int(measured["n_notes"]), int(counted["n_gold"])
    return ShippedFigure(is_by_hand, language, label, n_notes, n_gold, found)
