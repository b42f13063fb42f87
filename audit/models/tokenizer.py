"""Tokenizers built from checked files, and what makes two of them the same.

Built by transformers itself, so that text is split as it was in training, but from a private copy
of the checked files only: no other file, no network and no code of the model's can take part.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported

import transformers
from tokenizers import Tokenizer

from audit.errors import AuditError, Message
from audit.models.inspect import CONFIG_FILE, FAST_FILE, ModelConfig, TokenizerFiles

_MAX_SHOWN = 6
_SPECIAL_ROLES = ("mask", "cls", "sep", "unk", "pad")
"""Special tokens that an audit needs."""

# Capitals, accents, hyphens, digits, Han and kana: what tokenizers are known to differ in.
_PROBES = (
    "Mr. O'Neil-Brown saw DR. müller at 10:45 a.m.",
    "José's pulse was 72/min, WBC 11.3",
    "山田花子は１２時に受診した。カテーテル",
)

_SLOW_SETTINGS = (
    "do_lower_case", "do_word_tokenize", "do_subword_tokenize", "word_tokenizer_type",
    "subword_tokenizer_type", "never_split",
)  # fmt: skip


def build_tokenizer(files: TokenizerFiles, *, config: ModelConfig, name: str) -> Any:
    """Build the tokenizer and hold it to what its files declare and to the model's embedding."""
    tokenizer = _from_private_copy(files, where=name)
    numbers = set(tokenizer.get_vocab().values())
    highest, n_invented = max(numbers, default=0), len(numbers - files.declared.keys())
    tokens = {role: getattr(tokenizer, f"{role}_token") for role in _SPECIAL_ROLES}
    held = {role: files.declared.get(getattr(tokenizer, f"{role}_token_id")) for role in tokens}
    lacking = [role for role, one in tokens.items() if one is None or held[role] != str(one)]
    # RoBERTa counts its positions from the padding token's number.
    is_shifted = config.architecture == "roberta" and tokenizer.pad_token_id != config.pad_token_id
    if highest >= config.vocab_size:
        what = Message(
            "The tokenizer numbers its tokens up to {highest}, but the model has only {vocab_size} "
            "embeddings.",
            highest=highest,
            vocab_size=config.vocab_size,
        )
    elif lacking:
        what = Message(
            "The tokenizer has no {lacking} token in its vocabulary.", lacking=lacking[0]
        )
    elif is_shifted:
        what = Message(
            "The padding token is {own} in the tokenizer and {promised} in config.json.",
            own=tokenizer.pad_token_id,
            promised=config.pad_token_id,
        )
    elif n_invented:
        what = Message(
            "The tokenizer has {n_invented} entries that its files do not hold.",
            n_invented=n_invented,
        )
    else:
        return tokenizer
    raise AuditError(
        what, where=name, do="Copy all files of the tokenizer that was saved with this model."
    )


def _from_private_copy(files: TokenizerFiles, *, where: str) -> Any:
    try:
        with tempfile.TemporaryDirectory(prefix="kart-audit-") as folder:
            settings = json.dumps(dict(files.settings)).encode("ascii")
            for file, data in {**files.used, CONFIG_FILE: settings}.items():
                (Path(folder) / file).write_bytes(data)
            tokenizer = getattr(transformers, files.kind).from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        # Settings of a wrong kind show only in use.
        if FAST_FILE in files.used:
            Tokenizer.from_str(files.used[FAST_FILE].decode("utf-8"))
        for probe in _PROBES:
            tokenizer(probe, truncation=True, max_length=8)
            tokenizer(probe, add_special_tokens=False)
    except ImportError as fault:
        raise AuditError(
            "The tokenizer needs the package {package}, which is not installed.",
            where=where,
            do="Install fugashi and the dictionary that tokenizer_config.json names.",
            package=fault.name or "fugashi",
        ) from None
    except BaseException as fault:
        # The tokenizers library raises bare Exception, and panics outside Exception.
        if not isinstance(fault, Exception) and type(fault).__name__ != "PanicException":
            raise
        raise AuditError(
            "The tokenizer cannot be built from its files.",
            where=where,
            do="Copy the tokenizer files again from where the model was saved.",
        ) from None
    tokenizer.name_or_path = where
    for key in ("vocab", "merges", "vocab_file", "merges_file", "tokenizer_file", "name_or_path"):
        tokenizer.init_kwargs.pop(key, None)  # places in the private copy, which is gone
    return tokenizer


def tokenizer_notes(tokenizer: Any, *, files: TokenizerFiles) -> tuple[str, ...]:
    """Return what the reader should know of how this tokenizer treats text, in sentences."""
    notes = []
    if FAST_FILE in files.used:
        saved = _backend_state(Tokenizer.from_str(files.used[FAST_FILE].decode("utf-8")))
        built = _backend_state(tokenizer.backend_tokenizer)
        if any(saved[part] != built[part] for part in ("normalizer", "pre_tokenizer")):
            notes.append(
                "tokenizer.json and tokenizer_config.json treat capitals, accents or word "
                "boundaries differently; the latter is followed, as transformers does."
            )
    elif files.kind in ("BertTokenizer", "DistilBertTokenizer"):
        n_capital = sum(t != t.lower() and not t.startswith("[") for t in files.declared.values())
        if "do_lower_case" not in files.settings and n_capital:
            notes.append(
                Message(
                    (
                        "Nothing says whether text is lower-cased; transformers does it, and "
                        "then {n_capital} entries of the vocabulary with capitals are never "
                        "used."
                    ),
                    n_capital=n_capital,
                )
            )
    return tuple(notes)


def _backend_state(backend: Any) -> Any:
    return json.loads(backend.to_str())


def tokenizer_settings(tokenizer: Any) -> Mapping[str, object]:
    """Return everything but the vocabulary that decides how a tokenizer splits text."""
    settings: dict[str, object] = {
        f"{role}_token": getattr(tokenizer, f"{role}_token_id") for role in _SPECIAL_ROLES
    }
    settings["special tokens around a text"] = tokenizer("")["input_ids"]
    settings["splitting of test sentences"] = [
        tokenizer(probe, add_special_tokens=False)["input_ids"] for probe in _PROBES
    ]
    if not tokenizer.is_fast:
        # No mecab_kwargs at all means this dictionary.
        mecab = {"mecab_dic": "unidic_lite", **(tokenizer.mecab_kwargs or {})}
        chosen = {name: getattr(tokenizer, name) for name in _SLOW_SETTINGS}
        return settings | chosen | {name: v for name, v in mecab.items() if v is not None}
    state = _backend_state(tokenizer.backend_tokenizer)
    model = {key: value for key, value in state["model"].items() if key != "vocab"}
    merges = json.dumps(model.pop("merges", []))
    settings["merges"] = hashlib.sha256(merges.encode("ascii")).hexdigest()
    for part, value in (("normalizer", state["normalizer"]), ("model", model)):
        fields = value if isinstance(value, dict) else {"type": value}
        settings |= {f"{part}.{key}": item for key, item in fields.items()}
    settings["pre_tokenizer"] = state["pre_tokenizer"]
    settings["added tokens"] = state["added_tokens"]
    return settings


def tokenizer_differences(one: Any, other: Any) -> tuple[str, ...]:
    """Say how two tokenizers differ; empty where they split every text alike.

    Contents are compared, not files: one model may ship vocab.txt and the other the same
    vocabulary in tokenizer.json.
    """
    first, second = one.get_vocab(), other.get_vocab()
    n_entries = sum(first.get(token) != second.get(token) for token in first.keys() | second.keys())
    differences = (
        [Message("{n_entries} entries of the vocabulary", n_entries=n_entries)] if n_entries else []
    )
    settings, others = tokenizer_settings(one), tokenizer_settings(other)
    names = sorted(settings.keys() | others.keys())
    return (*differences, *(name for name in names if settings.get(name) != others.get(name)))


def unlike_tokenizers(differences: Sequence[str], *, where: str) -> AuditError:
    """Return the refusal of a pair whose tokenizers differ."""
    n_more = len(differences) - _MAX_SHOWN
    known = "The two models have different tokenizers: {differences}."
    longer = "The two models have different tokenizers: {differences}; and {n_more} more."
    return AuditError(
        longer if n_more > 0 else known,
        differences=differences[:_MAX_SHOWN],
        n_more=n_more,
        where=where,
        do="Choose as general model the one that the hospital's training started from.",
    )
