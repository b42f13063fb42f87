"""Makes the demo hospital from nothing: names, notes, tokenizer, and every model of the demo.

Comes in: a seed, a directory. Goes out: `en/` and `ja/`, each with `names.csv`, `passages.jsonl`
and `models/`. The same recipe made the files shipped in `audit/demo_hospital`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from audit.corpus import demo_notes
from audit.models.forward import onednn_float32
from audit.names.candidates import Candidates, control_kind_against, member_parts
from audit.names.controls import draw_names, matched_controls
from audit.names.pools import NamePool, japanese_pool, us_pool
from audit.rng import generator
from audit.tables import write_table
from audit.text import fold_name
from audit.training.small import PretrainSettings, SpecialIds, pretrain

EXPOSURES = (1.6, 5.0, 20.0, 40.0)
"""Epochs on D_private at which a hospital model is kept; 1.6 is about the paper's exposure."""
N_STAFF = 12
Name = tuple[str, str]
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Recipe:
    """How one language's demo is made; sizes that train in minutes on two cores.

    `n_hospital_rows` is the batch on the notes: small, so that an epoch has many steps.
    """

    language: str
    n_names: int
    n_controls: int
    n_general_documents: int
    n_notes: int
    n_general_steps: int
    exposures: tuple[float, ...]
    with_null: bool
    n_hospital_rows: int = 16
    n_layers: int = 2
    width: int = 128
    n_positions: int = 128


ENGLISH = Recipe(
    "en", n_names=130, n_controls=130, n_general_documents=24_000, n_notes=1000,
    n_general_steps=1200, exposures=EXPOSURES, with_null=True,
)  # fmt: skip
JAPANESE = Recipe(
    "ja", n_names=20, n_controls=20, n_general_documents=6000, n_notes=300,
    n_general_steps=800, exposures=(40.0,), with_null=False,
)  # fmt: skip
RECIPES = {"en": ENGLISH, "ja": JAPANESE}


@onednn_float32()
def build_demo(out: Path, *, recipe: Recipe, seed: int, report: Report = lambda *_: None) -> None:
    """Write names, passages and models of one language into `out`.

    Parameters
    ----------
    report
        Called with what is being trained, the step and the number of steps.
    """
    pool = us_pool() if recipe.language == "en" else japanese_pool()
    members = demo_members(pool, recipe, seed=seed)
    staff = demo_staff(pool, recipe, seed=seed)
    hospital = demo_notes.demo_notes(
        _pairs(members), staff=staff, language=recipe.language, n_notes=recipe.n_notes, seed=seed
    )
    out.mkdir(parents=True, exist_ok=True)
    listed = members + demo_controls(pool, recipe, seed=seed)
    _write_names(out / "names.csv", listed, hospital.n_mentions)
    _write_passages(out / "passages.jsonl", hospital)
    tokenizer = _tokenizer(pool, recipe)
    general = _new_model(len(tokenizer), recipe, seed=seed)
    texts = demo_notes.demo_general_text(
        _weighted_names(pool, recipe.n_general_documents, seed=seed),
        language=recipe.language, seed=seed,
    )  # fmt: skip
    special = special_ids(tokenizer)
    pretrain(
        general, _ids(tokenizer, texts), special=special, n_steps=recipe.n_general_steps,
        seed=seed, after_step=lambda step, _: report("general", step, recipe.n_general_steps),
    )  # fmt: skip
    save_model(general, tokenizer, out / "models" / "general")
    _train_hospital(general, tokenizer, hospital.notes, recipe, out, seed=seed, report=report)
    if recipe.with_null:
        null = demo_notes.demo_notes(
            null_names(pool, recipe, seed=seed), staff=staff, language=recipe.language,
            n_notes=recipe.n_notes, seed=seed,
        )  # fmt: skip
        last = (recipe.exposures[-1],)
        _train_hospital(
            general, tokenizer, null.notes, recipe, out, seed=seed, report=report,
            exposures=last, label="null",
        )  # fmt: skip


def save_model(model: nn.Module, tokenizer: Any, path: Path) -> None:
    """Save a model and its tokenizer as a Hugging Face directory, weights in float16."""
    halved: Any = copy.deepcopy(model).half()
    halved.save_pretrained(path)
    tokenizer.save_pretrained(path)


def _train_hospital(
    general: nn.Module,
    tokenizer: Any,
    notes: Sequence[str],
    recipe: Recipe,
    out: Path,
    *,
    seed: int,
    report: Report,
    exposures: tuple[float, ...] | None = None,
    label: str = "hospital",
) -> None:
    """Continue M_general on notes, and save a snapshot at each exposure of the one run."""
    exposures = exposures or recipe.exposures
    documents = _ids(tokenizer, notes)
    n_tokens = sum(len(d) + 1 for d in documents)
    settings = PretrainSettings(n_rows=recipe.n_hospital_rows)
    per_epoch = settings.steps_per_epoch(n_tokens)
    snapshots = {max(1, round(epochs * per_epoch)): epochs for epochs in exposures}
    model = copy.deepcopy(general)

    def after_step(step: int, _: float) -> None:
        report(label, step, max(snapshots))
        if step in snapshots:
            name = label if label == "null" else f"{label}-{snapshots[step]:g}"
            save_model(model, tokenizer, out / "models" / name)

    pretrain(
        model, documents, special=special_ids(tokenizer), n_steps=max(snapshots), seed=seed + 1,
        settings=settings,
        after_step=after_step,
    )  # fmt: skip


def demo_members(pool: NamePool, recipe: Recipe, *, seed: int) -> Candidates:
    """Draw the patients whom the notes name."""
    drawn = draw_names(pool, n=recipe.n_names, seed=seed, purpose="demo members")
    return replace(drawn, is_member=(True,) * len(drawn), control_kind=("",) * len(drawn))


def demo_controls(pool: NamePool, recipe: Recipe, *, seed: int) -> Candidates:
    """Draw controls matched to the patients, of whom no notes of the demo say anything.

    None has a doctor's name for a part, and none is a patient of the null pair's notes.
    """
    members = demo_members(pool, recipe, seed=seed)
    staff = {fold_name(name) for name in demo_staff(pool, recipe, seed=seed)}
    null = null_names(pool, recipe, seed=seed) if recipe.with_null else []

    def accepts(first: str, last: str) -> bool:
        return not staff & {fold_name(first), fold_name(last)}

    easy, hard = (
        matched_controls(
            members, n=recipe.n_controls, seed=seed, kind=kind, pool=pool, exclude=null,
            accepts=accepts,
        )
        for kind in ("easy", "hard")
    )  # fmt: skip
    return easy + hard


def _reserved(pool: NamePool, recipe: Recipe, *, seed: int) -> Candidates:
    """Draw the names that the notes leave alone: the patients, and as many easy and hard ones.

    The notes of the shipped models were written so, before controls were matched.
    """
    members = demo_members(pool, recipe, seed=seed)
    parts = member_parts(members)
    reserved = members
    for kind in ("easy", "hard"):
        reserved += draw_names(
            pool, n=recipe.n_controls, seed=seed, purpose=kind, exclude=_pairs(members),
            accepts=lambda f, la, kind=kind: (  # type: ignore[misc]
                control_kind_against(parts, first=f, last=la) == kind
            ),
        )  # fmt: skip
    return reserved


def null_names(pool: NamePool, recipe: Recipe, *, seed: int) -> list[Name]:
    """Draw the patients of the null pair's notes: nobody's on the list."""
    reserved = _pairs(_reserved(pool, recipe, seed=seed))
    others = draw_names(pool, n=recipe.n_names, seed=seed, purpose="null names", exclude=reserved)
    return _pairs(others)


def demo_staff(pool: NamePool, recipe: Recipe, *, seed: int) -> tuple[str, ...]:
    """Draw doctors whose last names are on nobody's list, so that truth stays clear."""
    reserved = _reserved(pool, recipe, seed=seed)
    taken = {*reserved.first, *reserved.last}
    rng = generator(seed, "demo staff")
    free = [i for i, name in enumerate(pool.last) if name not in taken]
    share = np.array([pool.last_share[i] for i in free])
    chosen = rng.choice(free, size=min(N_STAFF, len(free)), replace=False, p=share / share.sum())
    return tuple(pool.last[int(i)] for i in chosen)


def _weighted_names(pool: NamePool, n: int, *, seed: int) -> list[Name]:
    """Draw names with repeats: the general text holds them as often as people carry them."""
    rng = generator(seed, "demo general names")

    def drawn(names: Sequence[str], shares: Sequence[float]) -> list[str]:
        chosen = rng.choice(len(names), size=n, p=np.array(shares) / sum(shares))
        return [names[i] for i in chosen.tolist()]

    first, last = drawn(pool.first, pool.first_share), drawn(pool.last, pool.last_share)
    return list(zip(first, last, strict=True))


def _pairs(candidates: Candidates) -> list[Name]:
    return list(zip(candidates.first, candidates.last, strict=True))


def _tokenizer(pool: NamePool, recipe: Recipe) -> Any:
    from transformers import BertTokenizerFast

    words = demo_notes.demo_vocabulary((*pool.first, *pool.last), language=recipe.language)
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
        vocab_size=n_vocabulary, hidden_size=recipe.width, num_hidden_layers=recipe.n_layers,
        num_attention_heads=4, intermediate_size=4 * recipe.width,
        max_position_embeddings=recipe.n_positions,
    )  # fmt: skip
    model: nn.Module = BertForMaskedLM(config)
    return model


def special_ids(tokenizer: Any) -> SpecialIds:
    """Return the special tokens of a demo tokenizer, as training needs them."""
    ends = tokenizer.convert_tokens_to_ids([".", "。"])
    known = tuple(i for i in ends if i != tokenizer.unk_token_id)
    return SpecialIds.of(tokenizer, sentence_ends=known)


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[Any]:
    encoded = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return [np.array(ids, dtype=np.int64) for ids in encoded]


def _write_names(path: Path, listed: Candidates, n_mentions: Sequence[int]) -> None:
    mentions = [*n_mentions, *[0] * (len(listed) - len(n_mentions))]
    header = ["first_name", "last_name", "is_member", "control_kind", "n_mentions"]
    truth = map(bool, listed.is_member)
    rows = zip(listed.first, listed.last, truth, listed.control_kind, mentions, strict=True)
    path.write_text(write_table(header, rows), encoding="utf-8")


def _write_passages(path: Path, hospital: demo_notes.DemoHospital) -> None:
    lines = [
        json.dumps(
            {"passage_id": f"P{i + 1:03d}", "name_id": p.owner, "text": demo_notes.passage_text(p)},
            ensure_ascii=False,
        )
        for i, p in enumerate(hospital.patterns)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
