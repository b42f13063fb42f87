"""Which taggers there are, and how one is loaded by its identifier; torch-free until one is loaded.

"rules" and "default" are shipped; "trained/<id>" are those trained in this installation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from audit.deid.combined_tagger import WAYS, CombinedTagger, combined_digest
from audit.deid.generation.generative_file import KIND as GENERATIVE
from audit.deid.kept_taggers import TRAINED, tagger_dir, trained_tagger, trained_taggers
from audit.deid.rule_tagger import RuleTagger
from audit.deid.tagger import Tagger
from audit.deid.tagger_envelope import MAX_BYTES, TAGGER
from audit.deid.token.tagger_file import KIND as TOKEN
from audit.deid.token.tagger_file import read_tagger_file
from audit.errors import AuditError

RULES, DEFAULT = "rules", "default"
KINDS = ("rules", "token", "generative", "combined")
SHIPPED = Path(__file__).resolve().parent / "default_tagger"
HOW = "how.json"
HAND_WRITTEN = "hand_written.json"


@dataclass(frozen=True)
class KnownTagger:
    """A tagger that can be chosen.

    Attributes
    ----------
    tagger_id
        "rules", "default" or "trained/<12 hexadecimal digits>".
    kind
        One of `KINDS`.
    title
        What its maker called it: untrusted text; empty for the shipped ones.
    digest
        As `Tagger.digest`.
    is_quick
        Whether it reads a page in an instant and needs no torch.
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
        for one in trained_taggers()
        if one.kind in KINDS
    )
    return (default, rules, *trained)


def known_tagger(tagger_id: str) -> KnownTagger:
    """Return one of them.

    Raises
    ------
    AuditError
        If there is no such tagger.
    """
    found = next((one for one in known_taggers() if one.tagger_id == tagger_id), None)
    if found is None:
        raise _none()
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
    raise _none()


def load_tagger_folder(folder: Path, *, device: str = "auto") -> Tagger:
    """Return the tagger of a folder with `tagger.json`, of whatever kind it is.

    Raises
    ------
    AuditError
        If there is none, or its model is refused.
    """
    kind = _plain_file(folder / TAGGER).get("kind")
    if kind == TOKEN:
        from audit.deid.token.token_tagger import load_token_tagger

        return load_token_tagger(folder, device=device)
    if kind == GENERATIVE:
        from audit.deid.generation.generative_tagger import load_generative

        return load_generative(folder, device=device)
    raise _none()


def load_default(folder: Path, *, device: str = "auto") -> Tagger:
    """Return the default tagger of a folder: rules and a token classifier, as `how.json` says.

    Raises
    ------
    AuditError
        If a file is missing or damaged.
    """
    from audit.deid.token.token_tagger import load_token_tagger

    model = load_token_tagger(folder, device=device)
    return CombinedTagger(RuleTagger(), model, way_of(folder), title=DEFAULT)


def way_of(folder: Path) -> str:
    """Return how the default tagger of a folder puts rules and model together.

    Raises
    ------
    AuditError
        If the file does not say it.
    """
    way = _plain_file(folder / HOW).get("way")
    if way not in WAYS:
        raise AuditError("It is damaged.", where="default tagger", do="Install it again.")
    return str(way)


@lru_cache(maxsize=1)
def _default_digest() -> str:
    model = read_tagger_file(SHIPPED)
    return combined_digest(RuleTagger().digest, model.digest, way=way_of(SHIPPED))


def _plain_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError):
        raise _none() from None
    return content if isinstance(content, dict) else {}


def _none() -> AuditError:
    return AuditError(
        "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
    )
