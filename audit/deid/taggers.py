"""What was measured of the shipped taggers on invented notes that they were not made for.

Two kinds: notes written by hand by somebody who had seen neither rules nor output, and generated
ones in styles that were kept apart from the training.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
_PAIRS = {"(": ")", "（": "）", "「": "」", "[": "]", "［": "］", "<": ">", "＜": "＞"}
_NUMBER = re.compile(r"\d+(?:[-/.‐−－／．]\d+)+")
_VERSION = 4  # of how finds are put together


@dataclass(frozen=True)
class CombinedTagger:
    """Finds what either of two taggers finds, put together in one of `WAYS`."""

    rules: Tagger
    model: Tagger
    way: str
    title: str = "combined"

    def __post_init__(self) -> None:
        """Check the way, once."""
        if self.way not in WAYS:
            raise ValueError(f"{self.way}: no such way to put taggers together")

    @property
    def name(self) -> str:
        """What to call it."""
        return self.title

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
    ranked = [(_rank(span, is_rule=True, way=way), span) for span in by_rules]
    whole = with_whole_numbers(text, tidy, others=by_rules)
    ranked += [
        (_rank(span, is_rule=False, way=way), span) for span in without_clinical(text, whole)
    ]
    # Of two finds of one place that of the higher rank stays.
    order = [span for _, span in sorted(ranked, key=lambda one: (one[0], one[1]))]
    return _laid(text, order)


def without_edges(text: str, span: Span) -> Span | None:
    """Return a span without the punctuation and white space at its ends; None if nothing is left.

    A bracket stays where its partner is inside, a closing point where another one is: "A.B.".
    """
    start, end = span.start, span.end
    while start < end and _is_edge(text[start]):
        if _PAIRS.get(text[start], "\0") in text[start + 1 : end]:
            break
        start += 1
    while start < end and _is_edge(text[end - 1]):
        inside = text[start : end - 1]
        opening = next((one for one, other in _PAIRS.items() if other == text[end - 1]), "\0")
        if opening in inside or (text[end - 1] in ".．" and text[end - 1] in inside):
            break
        end -= 1
    return Span(start, end, span.label) if start < end else None


def with_whole_numbers(text: str, spans: Iterable[Span], *, others: Tags) -> list[Span]:
    """Return spans that end at the ends of numbers; what another span holds is left to it."""
    given = list(spans)
    numbers = [match.span() for match in _NUMBER.finditer(text)]
    found = []
    for span in given:
        start, end = span.start, span.end
        for first, last in numbers:
            if first < span.end and span.start < last:
                start, end = min(start, first), max(end, last)
        added = [Span(*ends, span.label) for ends in ((start, span.start), (span.end, end))
                 if ends[0] < ends[1]]  # fmt: skip
        if any(one.overlap(other) for one in added for other in (*given, *others)):
            start, end = span.start, span.end
        found.append(Span(start, end, span.label))
    return found


def _is_edge(char: str) -> bool:
    return char.isspace() or char in _PAIRS or unicodedata.category(char)[0] == "P"


def _rank(span: Span, *, is_rule: bool, way: str) -> tuple[int, int, int]:
    """Return what comes first: the lower; then the longer, then the model's."""
    first = {
        LONGEST: False,
        RULES_FIRST: is_rule,
        MODEL_FIRST: not is_rule,
        CODES_FIRST: is_rule and span.label in _CODES,
    }[way]
    second = not is_rule if way == CODES_FIRST else False
    return (0 if first else 1 if second else 2, -span.n_chars, int(is_rule))


def _laid(text: str, order: Iterable[Span]) -> Tags:
    """Lay spans one after the other; a later one keeps what is still free."""
    is_taken = bytearray(len(text))
    kept: list[Span] = []
    for span in order:
        at = span.start
        while at < span.end:
            free = is_taken.find(0, at, span.end)
            if free < 0:
                break
            taken = is_taken.find(1, free, span.end)
            at = span.end if taken < 0 else taken
            is_whole = (free, at) == (span.start, span.end)
            if is_whole or any(char.isalnum() for char in text[free:at]):
                start, end = (free, at) if is_whole else _trimmed(text, free, at)
                kept.append(Span(start, end, span.label))
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    return tuple(sorted(kept))


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end - 1 and text[start].isspace():
        start += 1
    while end - 1 > start and text[end - 1].isspace():
        end -= 1
    return start, end


TRAINED = "trained/"
"""What the identifier of a trained tagger begins with."""

_TRAINING = "training.json"


@dataclass(frozen=True)
class ValidationCounts:
    """What a tagger reached on the validation notes, on which its best weights were chosen.

    Of `n_gold` annotated spans `n_found` were found with the same place and type; of `n_predicted`
    marks `n_right` are an annotated span's.
    """

    n_gold: int
    n_found: int
    n_predicted: int
    n_right: int


@dataclass(frozen=True)
class TrainedTagger:
    """A tagger that was trained here; `tagger_id` is "trained/" and 12 hexadecimal digits.

    `title` is what a person called it, untrusted text; `training` and `measured` are plain values:
    how it was trained, and its figures on the validation notes. `points` are its curve.
    """

    tagger_id: str
    kind: str
    title: str
    digest: str
    created: str
    training: Mapping[str, Any]
    measured: Mapping[str, Any]
    points: tuple[LossPoint, ...] = ()

    @property
    def validation(self) -> ValidationCounts | None:
        """Its counts on the validation notes; None where spans were not counted."""
        match self.measured:
            case {
                "n_gold": int(n_gold), "n_missed": int(n_missed),
                "n_predicted": int(n_predicted), "n_spurious": int(n_spurious),
            } if 0 <= n_missed <= n_gold and 0 <= n_spurious <= n_predicted:  # fmt: skip
                n_right = n_predicted - n_spurious
                return ValidationCounts(n_gold, n_gold - n_missed, n_predicted, n_right)
            case _:
                return None


def _read_tagger(folder: Path) -> TrainedTagger:
    content = _plain_file(folder / TAGGER)
    return TrainedTagger(
        tagger_id=f"{TRAINED}{folder.name}",
        kind=str(content["kind"]),
        title=str(content.get("title", "")),
        digest=str(content["digest"]),
        created=str(content.get("created", "")),
        training=dict(content.get("training", {})),
        measured=dict(content.get("measured", {})),
        points=read_losses(folder),
    )


TAGGERS = Shelf("taggers", where="tagger", read=_read_tagger)


def tagger_dir(tagger_id: str) -> Path:
    """Return the folder of a trained tagger, be it there or not; AuditError if it is no such id."""
    return TAGGERS.place(_code(tagger_id))


def trained_tagger(tagger_id: str) -> TrainedTagger:
    """Return one trained tagger; AuditError where there is none, or it is not finished."""
    folder = tagger_dir(tagger_id)
    if (folder / _TRAINING).is_file() and not (folder / TAGGER).is_file():
        raise AuditError("This training is not finished.", where="tagger", do="Let its job go on.")
    return TAGGERS.get(_code(tagger_id))


def forget_tagger(tagger_id: str) -> None:
    """Remove a trained tagger with all that it holds; AuditError as `Shelf.forget`."""
    TAGGERS.forget(_code(tagger_id))


def _code(tagger_id: str) -> str:
    return tagger_id.removeprefix(TRAINED) if tagger_id.startswith(TRAINED) else ""


RULES, DEFAULT = "rules", "default"
KINDS = ("rules", "token", "generative", "combined")
SHIPPED = Path(__file__).resolve().parent / "default_tagger"
HOW = "how.json"
HAND_WRITTEN = "hand_written.json"


@dataclass(frozen=True)
class KnownTagger:
    """A tagger that can be chosen: "rules", "default" or "trained/<12 hexadecimal digits>".

    `title` is what its maker called it, untrusted text, empty for the shipped ones; `is_quick` says
    that it reads a page in an instant and needs no torch.
    """

    tagger_id: str
    kind: str
    title: str
    digest: str
    is_quick: bool

    def __post_init__(self) -> None:
        """Check the kind, once."""
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind}: no such kind of tagger")


def known_taggers() -> tuple[KnownTagger, ...]:
    """Return the taggers of this installation, the shipped ones first; reads no weights."""
    rules = KnownTagger(RULES, "rules", "", RuleTagger().digest, is_quick=True)
    default = KnownTagger(DEFAULT, "combined", "", _default_digest(), is_quick=False)
    trained = tuple(
        KnownTagger(one.tagger_id, one.kind, one.title, one.digest, is_quick=False)
        for one in TAGGERS.all()
        if one.kind in KINDS
    )
    return (default, rules, *trained)


def known_tagger(tagger_id: str) -> KnownTagger:
    """Return one of them."""
    found = next((one for one in known_taggers() if one.tagger_id == tagger_id), None)
    if found is None:
        raise _known_taggers_none()
    return found


def load_tagger(tagger_id: str, *, device: str = "auto") -> Tagger:
    """Return a tagger that is ready; those with models import torch here.

    Raises
    ------
    AuditError
        If there is no such tagger, or its model is refused.
    """
    if tagger_id == RULES:
        return RuleTagger()
    if tagger_id == DEFAULT:
        return load_default(SHIPPED, device=device)
    if tagger_id.startswith(TRAINED):
        trained_tagger(tagger_id)
        return load_tagger_folder(tagger_dir(tagger_id), device=device)
    raise _known_taggers_none()


def load_tagger_folder(folder: Path, *, device: str = "auto") -> Tagger:
    """Return the tagger of a folder with `tagger.json`, of whatever kind it is."""
    kind = _plain_file(folder / TAGGER).get("kind")
    if kind == TaggerFacts.kind:
        from audit.deid.network.model import load_token_tagger

        return load_token_tagger(folder, device=device)
    if kind == GenerativeFacts.kind:
        from audit.deid.generative.tagger import load_generative

        return load_generative(folder, device=device)
    raise _known_taggers_none()


def load_default(folder: Path, *, device: str = "auto") -> Tagger:
    """Return the default tagger of a folder: rules and a token classifier, as `how.json` says."""
    from audit.deid.network.model import load_token_tagger

    model = load_token_tagger(folder, device=device)
    return CombinedTagger(RuleTagger(), model, way_of(folder), title=DEFAULT)


def way_of(folder: Path) -> str:
    """Return how the default tagger of a folder puts rules and model together."""
    way = _plain_file(folder / HOW).get("way")
    if way not in WAYS:
        raise AuditError("It is damaged.", where="default tagger", do="Install it again.")
    return str(way)


@lru_cache(maxsize=1)
def _default_digest() -> str:
    model = TaggerFacts.of_folder(SHIPPED)
    return combined_digest(RuleTagger().digest, model.digest(), way=way_of(SHIPPED))


def _plain_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError):
        raise _known_taggers_none() from None
    return content if isinstance(content, dict) else {}


def _known_taggers_none() -> AuditError:
    return AuditError(
        "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
    )


LANGUAGES = ("ja", "en")
LABELS = ("identifier", "all")
_CRITERION = "label_relaxed"
_NAMES = {RULES: "rules alone", DEFAULT: "default"}
_DIGESTS = {RULES: "rules_digest", DEFAULT: "digest"}


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

    def __post_init__(self) -> None:
        """Check the share, once."""
        if not 0 <= self.found.value <= 1:
            raise ValueError("a share lies between 0 and 1")


def shipped_figures(tagger_id: str) -> tuple[ShippedFigure, ...]:
    """Return what was measured of a tagger, by hand first; empty where nothing is known of it."""
    return _figures(SHIPPED, tagger_id) if tagger_id in _NAMES else ()


@lru_cache(maxsize=4)
def _figures(folder: Path, tagger_id: str) -> tuple[ShippedFigure, ...]:
    how, by_hand = _shipped_figures_read(folder / HOW), _shipped_figures_read(folder / HAND_WRITTEN)
    digest = _DIGESTS[tagger_id]
    # Figures of another tagger are not this one's.
    is_of_it = bool(by_hand) and by_hand.get(digest) == how.get(digest)
    return (*(_figures_in(by_hand, tagger_id, is_by_hand=True) if is_of_it else ()),
            *_figures_in(how, tagger_id, is_by_hand=False))  # fmt: skip


def _shipped_figures_read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return dict(json.loads(file.read(MAX_BYTES)))
    except (OSError, ValueError, TypeError):
        return {}


def _figures_in(
    content: Mapping[str, Any], tagger_id: str, *, is_by_hand: bool
) -> tuple[ShippedFigure, ...]:
    try:
        measured = content["held_out"][_NAMES[tagger_id]]
        return tuple(
            _figure(measured[language], language, label, is_by_hand=is_by_hand)
            for language in LANGUAGES
            if language in measured
            for label in LABELS
        )
    except (ValueError, KeyError, TypeError):
        return ()


def _figure(
    measured: Mapping[str, Any], language: str, label: str, *, is_by_hand: bool
) -> ShippedFigure:
    counted = measured[_CRITERION][label]
    low, high = (counted.get("intervals") or {}).get("recall") or (float("nan"), float("nan"))
    return ShippedFigure(
        is_by_hand=is_by_hand,
        language=language,
        label=label,
        n_notes=int(measured["n_notes"]),
        n_gold=int(counted["n_gold"]),
        found=Estimate(float(counted["recall"]), float(low), float(high)),
    )
