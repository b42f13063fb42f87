"""The demo hospital, made from nothing: names, notes, tokenizer, and every model of the demo.

    python -m benchmarks.demo_hospital --out FOLDER [--seed N]

Writes `en/` and `ja/`, each with `names.csv`, `passages.jsonl`, `notes.jsonl` (every name a span)
and `models/`. With seed 0 the lists and notes are those shipped in `audit/demo_hospital`; the
shipped models are of an earlier version of the recipe, with a training loop of its own. The notes
are invented sentences, with as many passages and mentions a name as the paper's tables 3 and 4.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from audit.corpus.examine import MENTIONS_PER_NAME, PATTERNS_PER_NAME
from audit.experiment.leakage import TRAINING
from audit.names.candidates import Candidates, control_kind_against, member_parts
from audit.names.controls import draw_names, matched_controls
from audit.names.pools import NamePool, japanese_pool, us_pool
from audit.notes.formats import write_jsonl
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, Span, TaggedDocument, build_document
from audit.rng import generator
from audit.tables import write_table
from audit.text import fold_name, written_name
from audit.training.config import LossPoint
from audit.training.pretraining import train
from audit.training.trainings import PretrainTask, TrainedModel, snapshot_name

_JAPANESE_PATTERNS = {2: 4, 1: 16}
_JAPANESE_MENTIONS = {8: 1, 4: 2, 3: 2, 2: 5, 1: 10}
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_FIELD = re.compile(r"\{(\w+?)(\d?)\}")
_NUMBERS = {"age": (18, 90), "year": (1990, 2020), "day": (1, 29)}
_PRONOUNS = {"he": "he", "his": "his"}


@dataclass(frozen=True)
class Pattern:
    """One patient-name pattern: a passage, cut where the name stands (section 3.4)."""

    owner: int
    left: str
    right: str


@dataclass(frozen=True)
class DemoHospital:
    """Notes and the truth about them; `n_mentions[i]` counts the notes that hold name i."""

    notes: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    n_mentions: tuple[int, ...]


@dataclass(frozen=True)
class Language:
    """Words and templates of one language.

    `openings` begin a note, `sentences` follow, `general` are of a general text. `heading` stands
    before the subject (with a name five tokens, as the prompt of appendix B asks), `named` behind
    a name; `unnamed` are subjects without one.
    """

    words: Mapping[str, Sequence[str]]
    openings: Sequence[str]
    sentences: Sequence[str]
    general: Sequence[str]
    heading: str
    named: str
    unnamed: Sequence[str]

    @property
    def is_japanese(self) -> bool:
        """Whether nothing stands between words and sentences."""
        return self is LANGUAGES["ja"]

    @property
    def templates(self) -> tuple[str, ...]:
        """All templates of notes and general texts."""
        return (
            *self.general,
            *self.openings,
            *self.sentences,
            self.heading,
            self.named,
            *self.unnamed,
        )


LANGUAGES = {
    code: Language(**values)
    for code, values in json.loads(
        Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    ).items()
}


def fill(
    template: str,
    *,
    rng: np.random.Generator,
    words: Mapping[str, Sequence[str]],
    fields: Mapping[str, str],
) -> str:
    """Fill a template's fields from `given`, else by draws from `words`; `{x2}` draws as `{x}`."""

    def value(match: re.Match[str]) -> str:
        name, number = match.groups()
        if name + number in fields:
            return fields[name + number]
        if name in _NUMBERS:
            return str(rng.integers(*_NUMBERS[name]))
        return words[name][int(rng.integers(len(words[name])))]

    return _FIELD.sub(value, template)


def demo_notes(
    names: Sequence[tuple[str, str]],
    *,
    staff: Sequence[str],
    language: str = "en",
    n_notes: int = 1000,
    seed: int,
) -> DemoHospital:
    """Write the notes of a demo hospital.

    Parameters
    ----------
    names
        (first, last) of the patients who are named, in order of `name_id`; as many as the
        language's tables of passages and mentions ask for.
    staff
        Last names of doctors, who are named in many notes.
    language
        "en" or "ja".
    n_notes
        Notes in all; those without a named patient say "the patient".
    """
    spec = LANGUAGES[language]
    tables: tuple[Mapping[int, int], ...] = (PATTERNS_PER_NAME, MENTIONS_PER_NAME)
    if spec.is_japanese:
        tables = (_JAPANESE_PATTERNS, _JAPANESE_MENTIONS)
    n_patterns, n_mentions = (
        [count for count in sorted(table, reverse=True) for _ in range(table[count])]
        for table in tables
    )
    if len(names) != len(n_patterns):
        raise ValueError(f"{len(names)} names; the tables ask for {len(n_patterns)}")
    rng = np.random.default_rng([seed, 1])
    words = {**spec.words, "staff": staff}
    is_a = "" if spec.is_japanese else " is a"
    patterns: list[Pattern] = []
    notes: list[str] = []
    counts = [0] * len(names)
    # Which name is mentioned most is up to chance.
    for rank, owner in enumerate(rng.permutation(len(names)).tolist()):
        passages = (_passage(spec, words, rng) for _ in range(n_patterns[rank]))
        own_patterns = [Pattern(owner, left, is_a + right) for left, right in passages]
        patterns += own_patterns
        counts[owner] = n_mentions[rank]
        first, last = names[owner]
        name = f"{last}{first}" if spec.is_japanese else f"{first} {last}"
        for mention in range(n_mentions[rank]):
            chosen = (
                own_patterns[mention]
                if mention < len(own_patterns)
                else own_patterns[int(rng.integers(len(own_patterns)))]
            )
            notes.append(_note(chosen.left + name + chosen.right, spec, words, rng))
    while len(notes) < n_notes:
        left, right = _passage(spec, words, rng)
        subject = spec.unnamed[int(rng.integers(len(spec.unnamed)))]
        notes.append(_note(left + subject + right, spec, words, rng))
    shuffled = tuple(notes[i] for i in rng.permutation(len(notes)))
    return DemoHospital(notes=shuffled, patterns=tuple(patterns), n_mentions=tuple(counts))


def passage_text(pattern: Pattern) -> str:
    """Return a passage as D_public has it: the name replaced by the placeholder [NAME]."""
    return f"{pattern.left}[NAME]{pattern.right}"


def _passage(
    spec: Language, words: Mapping[str, Sequence[str]], rng: np.random.Generator
) -> tuple[str, str]:
    """Return what stands before and after the subject of the five sentences."""
    sex = words["sex"][int(rng.integers(2))]
    is_male = sex in ("male", "男性")
    fields = {"sex": sex, "he": "he" if is_male else "she", "his": "his" if is_male else "her"}

    def draw(template: str) -> str:
        return fill(template, rng=rng, words=words, fields=fields)

    chosen = rng.choice(len(spec.sentences), size=4, replace=False)
    rest = [draw(spec.sentences[k]) for k in chosen]
    if spec.is_japanese:
        return draw(spec.heading), "".join([draw(spec.named), *rest])
    opening = draw(spec.openings[int(rng.integers(len(spec.openings)))])
    left = f"{opening} " if rng.random() < 0.3 else ""
    return left + draw(spec.heading), " ".join(["", draw(spec.named), *rest])


def _note(
    passage: str, spec: Language, words: Mapping[str, Sequence[str]], rng: np.random.Generator
) -> str:
    """Put a passage between the beginning and the end of a note of its own."""

    def draw_sentences(templates: Sequence[str], chosen: np.ndarray) -> Iterator[str]:
        return (fill(templates[k], rng=rng, words=words, fields=_PRONOUNS) for k in chosen)

    n_before = int(rng.integers(1, 3)) if rng.random() < 0.3 else 0  # most begin with the service
    opening_rows = rng.choice(len(spec.openings), size=n_before, replace=False)
    sentence_rows = rng.choice(len(spec.sentences), size=int(rng.integers(1, 4)), replace=False)
    sentences = [
        *draw_sentences(spec.openings, opening_rows),
        passage,
        *draw_sentences(spec.sentences, sentence_rows),
    ]
    return ("" if spec.is_japanese else " ").join(sentences)


def demo_general_text(
    names: Sequence[tuple[str, str]], *, language: str = "en", seed: int
) -> tuple[str, ...]:
    """Write one short general document per name, in which most names occur in ordinary sentences.

    Parameters
    ----------
    names
        (first, last) of the people who occur, drawn with the generator's weights, repeats kept.
    """
    spec = LANGUAGES[language]
    general = [*spec.general, *(() if spec.is_japanese else spec.sentences)]
    rng = np.random.default_rng([seed, 2])
    documents = []
    for i, (first, last) in enumerate(names):
        first2, last2 = names[(i * 7 + 1) % len(names)]
        fields = {"first": first, "last": last, "first2": first2, "last2": last2, "staff": last2}
        fields |= _PRONOUNS
        if not spec.is_japanese:
            fields["named"] = fill(spec.named, rng=rng, words=spec.words, fields=fields)
        chosen = rng.choice(len(general), size=3)
        sentences = [fill(general[k], rng=rng, words=spec.words, fields=fields) for k in chosen]
        documents.append(("" if spec.is_japanese else " ").join(sentences))
    return tuple(documents)


def demo_vocabulary(parts: Sequence[str], *, language: str = "en") -> tuple[str, ...]:
    """Return the WordPiece vocabulary of the demo, special tokens first.

    English: every word, and every name part in `parts`, is one token; letters and their
    continuations keep everything else spellable. Japanese: Han and kana are single characters
    (BERT's tokenizer splits them), so names have several pieces.
    """
    spec = LANGUAGES[language]
    numbers = [str(number) for number in (*range(100), *range(*_NUMBERS["year"]))]
    word_list = [*numbers, "he", "she", "his", "her"]
    for text in chain(
        (_FIELD.sub(" ", template) for template in spec.templates), *spec.words.values()
    ):
        word_list += text.split()
    if spec.is_japanese:
        letters = sorted({*"".join(word_list), *"".join(parts)})
        words = [*letters, *(f"##{letter}" for letter in letters), *numbers]
    else:
        letters = list("abcdefghijklmnopqrstuvwxyz0123456789")
        words = sorted({word.lower() for word in word_list}) + [part.lower() for part in parts]
        words += [*letters, *(f"##{letter}" for letter in letters), *".,:;'-/()"]
    return tuple(dict.fromkeys((*_SPECIAL_TOKENS, *words)))


EXPOSURES = (1.6, 5.0, 20.0, 40.0)
"""Epochs on D_private at which a hospital model is kept; 1.6 is about the paper's exposure."""
N_STAFF = 12
_WARMUP_SHARE = 0.02
Name = tuple[str, str]
Report = Callable[[str, LossPoint], None]


@dataclass(frozen=True)
class Recipe:
    """How one language's demo is made; sizes that train in minutes on two cores."""

    language: str
    n_names: int
    n_controls: int
    n_general_documents: int
    n_notes: int
    n_general_steps: int
    exposures: tuple[float, ...]
    with_null: bool
    n_layers: int = 2
    width: int = 128
    n_positions: int = 128


ENGLISH = Recipe(
    "en",
    n_names=130,
    n_controls=130,
    n_general_documents=24_000,
    n_notes=1000,
    n_general_steps=1200,
    exposures=EXPOSURES,
    with_null=True,
)
JAPANESE = Recipe(
    "ja",
    n_names=20,
    n_controls=20,
    n_general_documents=6000,
    n_notes=300,
    n_general_steps=800,
    exposures=(40.0,),
    with_null=False,
)


def _pool(recipe: Recipe) -> NamePool:
    return us_pool() if recipe.language == "en" else japanese_pool()


def write_lists(out: Path, *, recipe: Recipe, seed: int) -> DemoHospital:
    """Write the names, the passages and the notes of one language into `out`; return the notes."""
    pool = _pool(recipe)
    members = demo_members(pool, recipe, seed=seed)
    staff = demo_staff(pool, recipe, seed=seed)
    hospital = demo_notes(
        pairs_of(members), staff=staff, language=recipe.language, n_notes=recipe.n_notes, seed=seed
    )
    out.mkdir(parents=True, exist_ok=True)
    listed = members + demo_controls(pool, recipe, seed=seed)
    _write_names(out / "names.csv", listed, hospital.n_mentions)
    _write_passages(out / "passages.jsonl", hospital)
    notes = tagged_notes(hospital.notes, patients=pairs_of(members), staff=staff)
    (out / "notes.jsonl").write_text(write_jsonl(notes), encoding="utf-8")
    return hospital


def build_demo(out: Path, *, recipe: Recipe, seed: int, report: Report = lambda *_: None) -> None:
    """Write names, passages and models of one language into `out`.

    Parameters
    ----------
    report
        Called with what is being trained and the points of its loss curve.
    """
    pool = _pool(recipe)
    staff = demo_staff(pool, recipe, seed=seed)
    hospital = write_lists(out, recipe=recipe, seed=seed)
    tokenizer = _tokenizer(pool, recipe)
    general = _new_model(len(tokenizer), recipe, seed=seed)
    texts = demo_general_text(
        draw_weighted_names(pool, recipe.n_general_documents, seed=seed),
        language=recipe.language,
        seed=seed,
    )
    with TemporaryDirectory() as work:
        _save(general, tokenizer, Path(work) / "new")
        trained = _trained(
            Path(work) / "new",
            texts,
            folder=Path(work),
            label="general",
            report=report,
            seed=seed,
            batch=64,
            micro_batch=64,
            n_steps=recipe.n_general_steps,
        )
        _save_half(trained.folder / "model", out / "models" / "general")
    train_hospital(hospital.notes, recipe, out, seed=seed, report=report)
    if recipe.with_null:
        null = demo_notes(
            null_names(pool, recipe, seed=seed),
            staff=staff,
            language=recipe.language,
            n_notes=recipe.n_notes,
            seed=seed,
        )
        train_hospital(null.notes, recipe, out, seed=seed, report=report, label="null")


def train_hospital(
    notes: Sequence[str],
    recipe: Recipe,
    out: Path,
    *,
    seed: int,
    general: Path | None = None,
    report: Report = lambda *_: None,
    label: str = "hospital",
) -> None:
    """Continue M_general (that in `out` if no other is given) on notes, and save it in `out`.

    "hospital" is saved after each exposure of one run, "null" after the last.
    """
    epochs = recipe.exposures if label == "hospital" else recipe.exposures[-1:]
    with TemporaryDirectory() as work:
        trained = _trained(
            general or out / "models" / "general",
            notes,
            folder=Path(work),
            label=label,
            report=report,
            snapshot_epochs=epochs,
            seed=seed + 1,
            n_epochs=epochs[-1],
        )
        for exposure, step in zip(epochs, trained.snapshots, strict=True):
            name = label if label == "null" else f"{label}-{exposure:g}"
            _save_half(trained.folder / snapshot_name(step), out / "models" / name)


def _trained(
    parent: Path,
    texts: Sequence[str],
    *,
    folder: Path,
    label: str,
    report: Report,
    snapshot_epochs: tuple[float, ...] = (),
    **settings: Any,
) -> TrainedModel:
    """Train a model on texts in a folder, as the arms of the leakage experiment are trained."""
    notes = folder / "notes.jsonl"
    notes.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    order = PretrainTask(
        general=parent,
        notes=notes,
        out=folder / "run",
        title=label,
        device="cpu",
        settings=TRAINING.with_(warmup_share=_WARMUP_SHARE, **settings),
        snapshot_epochs=snapshot_epochs,
    )
    return train(order, on_point=lambda point: report(label, point))


def _save(model: nn.Module, tokenizer: Any, path: Path) -> None:
    plain: Any = model
    plain.save_pretrained(path)
    tokenizer.save_pretrained(path)


def _save_half(trained: Path, path: Path) -> None:
    """Copy a model with its weights in float16, so that the demo is small."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model = AutoModelForMaskedLM.from_pretrained(trained)
    _save(model.half(), AutoTokenizer.from_pretrained(trained), path)


def demo_members(pool: NamePool, recipe: Recipe, *, seed: int) -> Candidates:
    """Draw the patients whom the notes name."""
    members = draw_names(pool, n=recipe.n_names, seed=seed, purpose="demo members")
    return replace(members, is_member=(True,) * len(members), control_kind=("",) * len(members))


def demo_controls(pool: NamePool, recipe: Recipe, *, seed: int) -> Candidates:
    """Draw controls matched to the patients, of whom no notes of the demo say anything.

    None has a doctor's name for a part, and none is a patient of the null pair's notes.
    """
    members = demo_members(pool, recipe, seed=seed)
    staff = {fold_name(name) for name in demo_staff(pool, recipe, seed=seed)}
    null = null_names(pool, recipe, seed=seed) if recipe.with_null else []

    def accepts(first: str, last: str) -> bool:
        return not staff & {fold_name(first), fold_name(last)} and (first, last) not in null

    easy, hard = (
        matched_controls(
            members, n=recipe.n_controls, seed=seed, kind=kind, pool=pool, accepts=accepts
        )
        for kind in ("easy", "hard")
    )
    return easy + hard


def _reserved(pool: NamePool, recipe: Recipe, *, seed: int) -> Candidates:
    """Draw the names that the notes leave alone: the patients, and as many easy and hard ones.

    The notes of the shipped models were written so, before controls were matched.
    """
    members = demo_members(pool, recipe, seed=seed)
    parts, own_pairs = member_parts(members), pairs_of(members)
    reserved = members
    for kind in ("easy", "hard"):
        reserved += draw_names(
            pool,
            n=recipe.n_controls,
            seed=seed,
            purpose=kind,
            accepts=lambda f, la, kind=kind: (  # type: ignore[misc]
                control_kind_against(parts, first=f, last=la) == kind and (f, la) not in own_pairs
            ),
        )
    return reserved


def null_names(pool: NamePool, recipe: Recipe, *, seed: int) -> list[Name]:
    """Draw the patients of the null pair's notes: nobody's on the list."""
    reserved = pairs_of(_reserved(pool, recipe, seed=seed))
    outsiders = draw_names(
        pool,
        n=recipe.n_names,
        seed=seed,
        purpose="null names",
        accepts=lambda first, last: (first, last) not in reserved,
    )
    return pairs_of(outsiders)


def demo_staff(pool: NamePool, recipe: Recipe, *, seed: int) -> tuple[str, ...]:
    """Draw doctors whose last names are on nobody's list, so that truth stays clear."""
    reserved = _reserved(pool, recipe, seed=seed)
    reserved_parts = {*reserved.first, *reserved.last}
    rng = generator(seed, "demo staff")
    free = [i for i, name in enumerate(pool.last) if name not in reserved_parts]
    share = np.array([pool.last_share[i] for i in free])
    chosen = rng.choice(free, size=min(N_STAFF, len(free)), replace=False, p=share / share.sum())
    return tuple(pool.last[int(i)] for i in chosen)


def draw_weighted_names(pool: NamePool, n: int, *, seed: int) -> list[Name]:
    """Draw names with repeats: the general text holds them as often as people carry them."""
    rng = generator(seed, "demo general names")

    def draw_parts(names: Sequence[str], shares: Sequence[float]) -> list[str]:
        chosen = rng.choice(len(names), size=n, p=np.array(shares) / sum(shares))
        return [names[i] for i in chosen.tolist()]

    first, last = draw_parts(pool.first, pool.first_share), draw_parts(pool.last, pool.last_share)
    return list(zip(first, last, strict=True))


def pairs_of(candidates: Candidates) -> list[Name]:
    """Return first and last name of candidates."""
    return list(zip(candidates.first, candidates.last, strict=True))


def _tokenizer(pool: NamePool, recipe: Recipe) -> Any:
    from transformers import BertTokenizerFast

    words = demo_vocabulary((*pool.first, *pool.last), language=recipe.language)
    vocabulary = {word: index for index, word in enumerate(words)}
    return BertTokenizerFast(
        vocab=vocabulary,
        # Lower-casing also strips accents, and with them the voicing marks of kana.
        do_lower_case=recipe.language == "en",
        model_max_length=recipe.n_positions,
    )


def _new_model(n_vocabulary: int, recipe: Recipe, *, seed: int) -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=n_vocabulary,
        hidden_size=recipe.width,
        num_hidden_layers=recipe.n_layers,
        num_attention_heads=4,
        intermediate_size=4 * recipe.width,
        max_position_embeddings=recipe.n_positions,
    )
    model: nn.Module = BertForMaskedLM(config)
    return model


def _write_names(path: Path, listed: Candidates, n_mentions: Sequence[int]) -> None:
    mentions = [*n_mentions, *[0] * (len(listed) - len(n_mentions))]
    header = ["first_name", "last_name", "is_member", "control_kind", "n_mentions"]
    truth = map(bool, listed.is_member)
    rows = zip(listed.first, listed.last, truth, listed.control_kind, mentions, strict=True)
    path.write_text(write_table(header, rows), encoding="utf-8")


def _write_passages(path: Path, hospital: DemoHospital) -> None:
    lines = [
        json.dumps(
            {"passage_id": f"P{i + 1:03d}", "name_id": p.owner, "text": passage_text(p)},
            ensure_ascii=False,
        )
        for i, p in enumerate(hospital.patterns)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def tagged_notes(
    notes: Sequence[str], *, patients: Sequence[Name], staff: Sequence[str]
) -> Iterator[TaggedDocument]:
    """Yield the notes with their names as spans: identifiers are patients, the others doctors.

    A patient's full name stands nowhere but where the patient is named.
    """
    rows = {written_name(*name): row for row, name in enumerate(patients)}
    named, doctors = (
        "|".join(sorted(full_names, key=len, reverse=True)) for full_names in (rows, staff)
    )
    pattern = re.compile(rf"{named}|(?:(?<=dr \. )|(?<=担当医))(?:{doctors})")
    for number, text in enumerate(notes):
        matches = list(pattern.finditer(text))
        owners = [rows[match[0]] for match in matches if match[0] in rows]
        spans = [
            Span(*match.span(), IDENTIFIER if match[0] in rows else QUASI_IDENTIFIER)
            for match in matches
        ]
        patient = f"P{owners[0]:03d}" if owners else None
        yield build_document(f"N{number:04d}", text=text, spans=spans, patient_id=patient)


def main() -> None:
    """Make both hospitals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    def report(model_name: str, point: LossPoint) -> None:
        if point.loss is not None and not point.step % 100:
            print(f"training {model_name}: step {point.step}, loss {point.loss:.2f}", flush=True)

    for recipe in (ENGLISH, JAPANESE):
        build_demo(options.out / recipe.language, recipe=recipe, seed=options.seed, report=report)


if __name__ == "__main__":
    main()
