"""The token tagger: it finds spans with a network of words or an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.deid.find.borders import tag_whole_words
from audit.deid.find.network.decode import Scorer, decode_spans, score_notes
from audit.deid.find.network.wordnet import LISTS, WordScorer, load_scorer
from audit.deid.find.tagger import MODEL
from audit.deid.find.tagger_facts import TaggerFacts, file_digests
from audit.errors import AuditError
from audit.models.model_folder import open_folder
from audit.notes.spans import Tags


@dataclass(frozen=True, eq=False)
class TokenTagger:
    """Finds spans by the scores that a model gives to tokens."""

    facts: TaggerFacts
    model: Scorer
    path: Path
    name = "token"

    @property
    def is_light(self) -> bool:
        """Whether the model is a network of words."""
        return isinstance(self.model, WordScorer)

    def __reduce__(self) -> tuple[Callable[[Path], TokenTagger], tuple[Path]]:
        """Pickle the path of the folder; the other process loads the tagger from there."""
        return load_token_tagger, (self.path,)

    @property
    def digest(self) -> str:
        """SHA-256 of weights and settings."""
        return self.facts.digest()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it was trained on."""
        return self.facts.labels

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        return tag_whole_words(texts, self._tag_folded)

    def _tag_folded(self, texts: Sequence[str]) -> Sequence[Tags]:
        facts = self.facts
        notes = self.model.reader.read(texts)
        scores = score_notes(notes, model=self.model, size=facts.n_tokens, overlap=facts.overlap)
        return decode_spans(scores, notes=notes, scheme=facts.tag_scheme, bias=facts.bias)


def load_token_tagger(path: Path, *, device: str = "auto") -> TokenTagger:
    """Load a folder with `tagger.json` and `model/`; an encoder imports torch here."""
    facts = TaggerFacts.of_folder(path)
    if file_digests(path / MODEL) != dict(facts.files):
        raise AuditError(
            "The files of the model are not those that the tagger was saved with.",
            where=path.name,
            do="Copy the whole folder again.",
        )
    n_tags = len(facts.tag_scheme.tags)
    return TokenTagger(facts, load_model(path / MODEL, n_tags=n_tags, device=device), path)


def load_model(path: Path, *, n_tags: int, device: str = "auto") -> Scorer:
    """Load the model of a tagger; a network of words always runs on the CPU."""
    folder = open_folder(path)
    if LISTS in folder.files:
        return load_scorer(folder, n_tags=n_tags)
    from audit.deid.find.network.token_model import load_encoder

    return load_encoder(path, n_tags=n_tags, device=device)
