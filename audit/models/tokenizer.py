"""Build tokenizers from checked files, and compare two of them.

transformers itself builds them, so that text is split as in training, but only from a private copy
of the checked files: no other file, no network and no code of the model can take part.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Set
from contextlib import ExitStack
from pathlib import Path

from pydantic import JsonValue

from audit.models.library import Tokenizer

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported

import tokenizers
import transformers

from audit.errors import AuditError, Message
from audit.models.case import Normalizer, build_japanese_normalizer
from audit.models.mecab_dictionary import find_dictionary_name
from audit.models.model_config import ModelConfig
from audit.models.model_folder import (
    COPY_TOKENIZER,
    FAST_FILE,
    TOKENIZER_CONFIG_FILE,
    ModelFolder,
    require_members,
)
from audit.models.tokenizer_files import (
    TOKENIZER_CLASSES,
    TokenizerFiles,
    read_tokenizer_files,
)
from audit.shelf import digest_json, scratch_folder

_SPECIAL_ROLES = ("mask", "cls", "sep", "unk", "pad")
"""Special tokens that an audit of a masked model needs."""
_CAUSAL_ROLES = ("bos", "eos", "unk", "pad")
"""Special tokens that a causal model may have."""

# Tokenizers are known to differ in capitals, accents, hyphens, digits, Han and kana.
_PROBES = (
    "Mr. O'Neil-Brown saw DR. müller at 10:45 a.m.",
    "José's pulse was 72/min, WBC 11.3",
    "山田花子は１２時に受診した。カテーテル",
)

_SLOW_SETTINGS = (
    "do_lower_case",
    "do_word_tokenize",
    "do_subword_tokenize",
    "word_tokenizer_type",
    "subword_tokenizer_type",
    "never_split",
)


def import_classes() -> None:
    """Import the classes of all supported tokenizers, which transformers imports only on use."""
    for kind in TOKENIZER_CLASSES:
        getattr(transformers, kind)


def build_tokenizer(files: TokenizerFiles, *, config: ModelConfig, name: str) -> Tokenizer:
    """Build the tokenizer, and check it against its files and the model's embedding."""
    tokenizer = _build_from_copy(files, name=name)
    numbers, n_embeddings = set(tokenizer.get_vocab().values()), config.vocab_size
    tokens = {
        role: getattr(tokenizer, f"{role}_token")
        for role in (_CAUSAL_ROLES if config.is_causal else _SPECIAL_ROLES)
    }
    lacking = [
        role
        for role, token in tokens.items()
        if files.tokens_by_id.get(getattr(tokenizer, f"{role}_token_id")) != str(token)
        and not (config.is_causal and token is None)
    ]
    pads = tokenizer.pad_token_id, config.pad_token_id
    faults = (
        (
            lacking,
            Message(
                "The tokenizer has no {lacking} token in its vocabulary.", lacking=[*lacking, ""][0]
            ),
        ),
        # RoBERTa and Longformer count their positions from the padding token's number.
        (
            config.n_positions < config.n_position_rows and pads[0] != pads[1],
            Message(
                "The padding token is {own} in the tokenizer and {promised} in config.json.",
                own=pads[0],
                promised=pads[1],
            ),
        ),
        (
            max(numbers, default=0) >= n_embeddings or numbers - files.tokens_by_id.keys(),
            Message(
                "The tokenizer has tokens that its files or the model's {n} embeddings do "
                "not hold.",
                n=n_embeddings,
            ),
        ),
    )
    for is_faulty, message in faults:
        if is_faulty:
            raise AuditError(
                message,
                where=name,
                do="Copy all files of the tokenizer that was saved with this model.",
            )
    files.refuse_unfit_case(_read_built_normalizer(tokenizer, files), place=name)
    return tokenizer


def build_folder_tokenizer(folder: ModelFolder, *, config: ModelConfig) -> Tokenizer:
    """Build the tokenizer of a folder that holds no model, for a model of this configuration."""
    files = read_tokenizer_files(folder, model_config={"model_type": config.architecture})
    return build_tokenizer(files, config=config, name=folder.name)


def _read_built_normalizer(tokenizer: Tokenizer, files: TokenizerFiles) -> Normalizer:
    """Return the normalizer of a tokenizer that was built; None if it has none."""
    if not tokenizer.is_fast:
        return build_japanese_normalizer(files.settings)
    built = tokenizer.backend_tokenizer.normalizer
    return None if built is None else json.loads(built.__getstate__())


def _build_from_copy(files: TokenizerFiles, *, name: str) -> Tokenizer:
    try:
        with scratch_folder() as folder:
            settings = json.dumps(_name_dictionary(files)).encode("ascii")
            for file, data in {**files.used_files, TOKENIZER_CONFIG_FILE: settings}.items():
                (folder / file).write_bytes(data)
            tokenizer: Tokenizer = getattr(transformers, files.built_class).from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False
            )
        # Settings of a wrong type fail only in use.
        if FAST_FILE in files.used_files:
            tokenizers.Tokenizer.from_str(files.used_files[FAST_FILE].decode("utf-8"))
        for probe in _PROBES:
            tokenizer(probe, truncation=True, max_length=8)
            tokenizer(probe, add_special_tokens=False)
    except ImportError as fault:
        raise AuditError(
            "The tokenizer needs the package {package}, which is not installed.",
            where=name,
            do="Install fugashi and the dictionary that tokenizer_config.json names.",
            package=fault.name or "fugashi",
        ) from None
    except BaseException as fault:
        # The tokenizers library raises bare Exception, and panics outside Exception.
        if not isinstance(fault, Exception) and type(fault).__name__ != "PanicException":
            raise
        raise AuditError(
            "The tokenizer cannot be built from its files.",
            where=name,
            do=COPY_TOKENIZER,
        ) from None
    tokenizer.name_or_path = name
    for key in ("vocab", "merges", "vocab_file", "merges_file", "tokenizer_file", "name_or_path"):
        tokenizer.init_kwargs.pop(key, None)  # places in the private copy, which is gone
    return tokenizer


def _name_dictionary(files: TokenizerFiles) -> dict[str, JsonValue]:
    """Return a tokenizer's settings with the place of its user dictionary, which is kept."""
    settings: dict[str, JsonValue] = dict(files.built_settings)
    if files.dictionary:
        path = _keep_dictionary(files.all_files[files.dictionary])
        mecab = require_members(settings["mecab_kwargs"])
        settings["mecab_kwargs"] = {**mecab, "mecab_option": f'-u "{path}"'}
    return settings


_kept_files = ExitStack()
_kept_paths: dict[str, Path] = {}


def _keep_dictionary(data: bytes) -> Path:
    """Write a dictionary into a private folder that lasts as long as this process.

    A tokenizer that is copied or pickled opens its dictionary again.
    """
    digest = hashlib.sha256(data).hexdigest()
    path = _kept_paths.get(digest)
    if path is None or not path.is_file():
        path = _kept_files.enter_context(scratch_folder()) / f"{digest}.dic"
        path.write_bytes(data)
        _kept_paths[digest] = path
    return path


def _drop_kept_files(owner: int) -> None:
    if os.getpid() == owner:  # a fork leaves its parent's files alone
        _kept_files.close()


atexit.register(_drop_kept_files, os.getpid())


def _list_own_special(tokenizer: Tokenizer, tokens: Set[str]) -> set[str]:
    """Return which tokens a causal model's tokenizer has only as added special ones."""
    if tokenizer.cls_token is not None or not tokenizer.is_fast:
        return set()
    added_tokens = tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
    return {token.content for token in added_tokens if token.special and token.content in tokens}


def read_tokenizer_settings(
    tokenizer: Tokenizer, *, without: Collection[str] = ()
) -> Mapping[str, JsonValue]:
    """Return everything but the vocabulary that decides how a tokenizer splits text.

    Added tokens of `without` are left out. The padding token of a causal model's tokenizer does not
    count: trainings choose it as they like.
    """
    is_masked = tokenizer.cls_token is not None
    settings: dict[str, JsonValue] = {
        f"{role}_token": getattr(tokenizer, f"{role}_token_id")
        for role in (_SPECIAL_ROLES if is_masked else ("unk",))
    }
    settings["special tokens around a text"] = [*tokenizer("")["input_ids"]]
    settings["splitting of test sentences"] = [
        [*tokenizer(probe, add_special_tokens=False)["input_ids"]] for probe in _PROBES
    ]
    if not tokenizer.is_fast:
        # No mecab_kwargs at all means this dictionary.
        mecab: dict[str, JsonValue] = {"mecab_dic": "unidic_lite", **(tokenizer.mecab_kwargs or {})}
        if option := mecab.pop("mecab_option", None):
            mecab["user dictionary"] = find_dictionary_name(option)  # by digest
        chosen = {name: getattr(tokenizer, name) for name in _SLOW_SETTINGS}
        return settings | chosen | {name: v for name, v in mecab.items() if v is not None}
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    model = dict(state["model"])
    vocabulary = model.pop("vocab")
    settings["merges"] = digest_json(model.pop("merges", []), sort_keys=False)
    if model["type"] == "Unigram":
        settings["scores"] = digest_json([score for _, score in vocabulary])
    for part, value in (("normalizer", state["normalizer"]), ("model", model)):
        fields = value if isinstance(value, dict) else {"type": value}
        settings |= {f"{part}.{key}": item for key, item in fields.items()}
    settings["pre_tokenizer"] = state["pre_tokenizer"]
    settings["added tokens"] = [
        token for token in state["added_tokens"] if token["content"] not in without
    ]
    return settings


def refuse_unlike(general: Tokenizer, hospital: Tokenizer, *, names: tuple[str, str]) -> None:
    """Refuse two models, called `names`, whose tokenizers do not split every text alike.

    The contents are compared, not the files: one model may have vocab.txt and the other the same
    vocabulary in tokenizer.json. Trainings of causal models often add special tokens, for example
    one for padding; those that only one tokenizer has are in no text, and make no difference.
    """
    first, second = general.get_vocab(), hospital.get_vocab()
    own_tokens = {
        *_list_own_special(general, first.keys() - second.keys()),
        *_list_own_special(hospital, second.keys() - first.keys()),
    }
    tokens = (first.keys() | second.keys()) - own_tokens
    n_entries = sum(first.get(token) != second.get(token) for token in tokens)
    general_settings, hospital_settings = (
        read_tokenizer_settings(general, without=own_tokens),
        read_tokenizer_settings(hospital, without=own_tokens),
    )
    differences: list[str] = [
        n
        for n in sorted({*general_settings, *hospital_settings})
        if general_settings.get(n) != hospital_settings.get(n)
    ]
    if n_entries:
        differences.insert(0, Message("{n_entries} entries of the vocabulary", n_entries=n_entries))
    if differences:
        raise AuditError(
            "The two models have different tokenizers: {differences}.",
            where=Message("{one} and {other}", one=names[0], other=names[1]),
            do="Choose as general model the one that the hospital's training started from."
            if n_entries
            else "Choose as general model the one that the hospital's training started from. If it "
            "is that one already, its tokenizer was saved in another form, because the "
            "vocabularies are the same: copy the tokenizer files of the hospital's model into a "
            "copy of the general model's directory.",
            differences=differences,
        )
