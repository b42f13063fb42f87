"""The files of a tokenizer, read and checked without transformers.

transformers builds a tokenizer without vocabulary where the files are missing, and invents
entries for special tokens that no file holds; `TokenizerFiles.declared` is what it is held to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from audit.errors import AuditError
from audit.models.config import MAX_VOCABULARY, refuse_code_keys
from audit.models.folder import ModelFolder
from audit.models.headers import parse_json

CONFIG_FILE = "tokenizer_config.json"
FAST_FILE = "tokenizer.json"
ALL_FILES = (
    "vocab.txt", "vocab.json", "merges.txt", FAST_FILE, "added_tokens.json",
    "special_tokens_map.json",
)  # fmt: skip

_MAX_BYTES = 32_000_000
_MAX_CONFIG_BYTES = 8_000_000
_MAX_ADDED = 10_000
_MAX_ID_DIGITS = 9
_CLASSES = {
    "BertTokenizer": (("vocab.txt",), "WordPiece"),
    "DistilBertTokenizer": (("vocab.txt",), "WordPiece"),
    "RobertaTokenizer": (("vocab.json", "merges.txt"), "BPE"),
    "BertJapaneseTokenizer": (("vocab.txt",), ""),
    "PreTrainedTokenizerFast": ((), ""),
}
_DEFAULT_CLASS = {
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "distilbert": "DistilBertTokenizer",
}
_SPECIAL = tuple(f"{kind}_token" for kind in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_SETTINGS = {
    *_SPECIAL, "additional_special_tokens", "extra_special_tokens", "added_tokens_decoder",
    "do_lower_case", "tokenize_chinese_chars", "strip_accents", "never_split", "do_word_tokenize",
    "do_subword_tokenize", "word_tokenizer_type", "subword_tokenizer_type", "mecab_kwargs",
    "add_prefix_space", "trim_offsets", "errors", "model_max_length", "model_input_names",
    "padding_side", "truncation_side", "clean_up_tokenization_spaces",
}  # fmt: skip
# Patterns (Regex) are not among them: a hostile one ends the process inside the tokenizer.
_COMPONENTS = {
    "Sequence", "BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents",
    "Strip", "Replace", "Nmt", "Prepend", "BertPreTokenizer", "Whitespace", "WhitespaceSplit",
    "ByteLevel", "Punctuation", "Digits", "Split", "UnicodeScripts", "Metaspace",
    "BertProcessing", "RobertaProcessing", "TemplateProcessing", "WordPiece", "BPEDecoder",
    "ByteFallback", "Fuse", "CTC",
}  # fmt: skip
_MECAB = {"mecab_dic", "normalize_text", "mecab_option", "do_lower_case"}
_MECAB_DICTIONARIES = ("unidic_lite", "ipadic", "unidic")


@dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer's files, whole in memory.

    Attributes
    ----------
    kind
        Name of the tokenizer's class in transformers.
    settings
        What `tokenizer_config.json` says, by the allow-list.
    used
        Contents of the files that the tokenizer is built from, by name.
    present
        Contents of all tokenizer files that are there, by name.
    declared
        Token of each id, as the files say it.
    notes
        What the reader should know, in sentences.
    """

    kind: str
    settings: Mapping[str, object]
    used: Mapping[str, bytes]
    present: Mapping[str, bytes]
    declared: Mapping[int, str]
    notes: tuple[str, ...]


def read_tokenizer_files(
    folder: ModelFolder, *, architecture: str, model_config: Mapping[str, object]
) -> TokenizerFiles:
    """Read and check the tokenizer files of a model directory.

    Raises
    ------
    AuditError
        If files are missing, cannot be parsed, ask for another tokenizer or could load code.
    """
    where, raw = folder.where(CONFIG_FILE), {}
    if CONFIG_FILE in folder.files:
        raw = parse_json(folder.read(CONFIG_FILE, max_bytes=_MAX_CONFIG_BYTES), where=where)
    refuse_code_keys(raw, where=where)
    named = raw.get("tokenizer_class") or model_config.get("tokenizer_class")
    kind = _kind(named or _DEFAULT_CLASS[architecture], where=where)
    settings = {key: value for key, value in raw.items() if key in _SETTINGS}
    for value in settings.values():
        _check_n_added(value, where=where)
    if kind == "BertJapaneseTokenizer":
        _check_japanese(settings, where=where)
    present = {
        file: folder.read(file, max_bytes=_MAX_BYTES) for file in ALL_FILES if file in folder.files
    }
    used = {file: present[file] for file in _used(kind, present, where=folder.where())}
    declared, notes = _declared(folder, kind=kind, present=present, used=used)
    declared.update(_added(folder, settings, used=used))
    return TokenizerFiles(kind, settings, used, present, declared, notes)


def _check_n_added(value: object, *, where: str) -> None:
    # transformers adds them one by one, and takes the longer the more there are.
    if isinstance(value, list | dict) and len(value) > _MAX_ADDED:
        raise AuditError(
            f"The tokenizer adds more than {_MAX_ADDED:,} tokens to its vocabulary.",
            where=where,
            do="Save it with these tokens in the vocabulary itself.",
        )


def _kind(named: object, *, where: str) -> str:
    kind = str(named)
    kind = {"TokenizersBackend": "PreTrainedTokenizerFast"}.get(kind, kind)
    if kind not in _CLASSES:
        kind = kind.removesuffix("Fast")
    if kind not in _CLASSES:
        shown = kind[:60] if kind.isidentifier() else "?"
        raise AuditError(
            f"Tokenizers of the class {shown} are not supported.",
            where=where,
            do=f"The classes that are: {', '.join(_CLASSES)}.",
        )
    return kind


def _check_japanese(settings: dict[str, object], *, where: str) -> None:
    allowed = {
        "word_tokenizer_type": ("basic", "mecab"),
        "subword_tokenizer_type": ("wordpiece", "character"),
    }
    for key, values in allowed.items():
        if settings.get(key, values[0]) not in values:
            raise AuditError(
                f"This {key} is not supported.", where=where, do=f"Supported: {', '.join(values)}."
            )
    mecab = settings.get("mecab_kwargs") or {}
    if (
        not isinstance(mecab, dict)
        or not set(mecab) <= _MECAB
        or mecab.get("mecab_option")
        or mecab.get("mecab_dic", _MECAB_DICTIONARIES[0]) not in _MECAB_DICTIONARIES
    ):
        # mecab_option is a command line: it can name files anywhere.
        raise AuditError(
            "These mecab_kwargs are not supported.",
            where=where,
            do=f"Name a dictionary ({', '.join(_MECAB_DICTIONARIES)}) and no mecab_option.",
        )


def _used(kind: str, present: Mapping[str, bytes], *, where: str) -> list[str]:
    slow_files, _ = _CLASSES[kind]
    legacy = [file for file in ("added_tokens.json", "special_tokens_map.json") if file in present]
    if FAST_FILE in present and kind != "BertJapaneseTokenizer":
        return [FAST_FILE, *legacy]
    missing = [file for file in slow_files if file not in present]
    if missing or not slow_files:
        raise AuditError(
            f"The tokenizer's files are missing ({' and '.join(missing) or FAST_FILE}).",
            where=where,
            do="Copy the files that the tokenizer was saved with into the directory.",
        )
    return [*slow_files, *legacy]


def _declared(
    folder: ModelFolder, *, kind: str, present: Mapping[str, bytes], used: Mapping[str, bytes]
) -> tuple[dict[int, str], tuple[str, ...]]:
    lines: dict[int, str] = {}
    if "vocab.txt" in present:
        lines = _vocab_lines(present["vocab.txt"], where=folder.where("vocab.txt"))
    if FAST_FILE in used:
        declared = _fast_entries(used[FAST_FILE], kind=kind, where=folder.where(FAST_FILE))
        base = {i: token.rstrip() for i, token in declared.items() if i in lines}
        if lines and base != {i: token.rstrip() for i, token in lines.items()}:
            return declared, (
                "vocab.txt and tokenizer.json hold different vocabularies; tokenizer.json is used.",
            )
        return declared, ()
    if "vocab.json" in used:
        where = folder.where("vocab.json")
        declared = _by_id(parse_json(used["vocab.json"], where=where), where=where)
        _check_n_lines(used["merges.txt"], where=folder.where("merges.txt"))
    else:
        where, declared = folder.where("vocab.txt"), lines
    if not declared:
        raise AuditError("The vocabulary is empty.", where=where)
    return declared, ()


def _check_n_lines(data: bytes, *, where: str) -> None:
    # Counted in the bytes: as objects they would be a hundred times as large.
    if data.count(b"\n") > MAX_VOCABULARY:
        raise AuditError(f"The file has more than {MAX_VOCABULARY:,} lines.", where=where)


def _vocab_lines(data: bytes, *, where: str) -> dict[int, str]:
    _check_n_lines(data, where=where)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise AuditError("The vocabulary is not UTF-8 text.", where=where) from None
    lines = text.removesuffix("\n").split("\n") if text else []
    return {i: line.removesuffix("\r") for i, line in enumerate(lines)}


def _by_id(vocab: object, *, where: str) -> dict[int, str]:
    fits = isinstance(vocab, dict) and all(type(i) is int and i >= 0 for i in vocab.values())
    if not isinstance(vocab, dict) or not fits or len(set(vocab.values())) != len(vocab):
        raise AuditError("The vocabulary does not give each token its own number.", where=where)
    return {i: str(token) for token, i in vocab.items()}


def _fast_entries(data: bytes, *, kind: str, where: str) -> dict[int, str]:
    raw = parse_json(data, where=where)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        _check_component(raw.get(part), where=where)
    model = raw.get("model")
    if not isinstance(model, dict):
        raise AuditError("The tokenizer holds no model.", where=where)
    # Files from before 2021 have no type: only byte-pair models have merges.
    model_type = model.get("type") or ("BPE" if "merges" in model else "WordPiece")
    _, wanted = _CLASSES[kind]
    if (
        model_type not in (wanted,)
        if wanted
        else model_type not in ("WordPiece", "BPE", "WordLevel")
    ):
        raise AuditError(
            f"The tokenizer's model is not the one of a {kind}.",
            where=where,
            do="Check tokenizer_class in tokenizer_config.json.",
        )
    if model.get("dropout"):
        raise AuditError("The tokenizer splits words at random (dropout).", where=where)
    declared = _by_id(model.get("vocab"), where=where)
    if not declared:
        raise AuditError("The vocabulary is empty.", where=where)
    added = raw.get("added_tokens") or []
    _check_n_added(added, where=where)
    for entry in added if isinstance(added, list) else []:
        if isinstance(entry, dict) and type(entry.get("id")) is int:
            declared[entry["id"]] = str(entry.get("content"))
    return declared


def _check_component(component: object, *, where: str, _depth: int = 0) -> None:
    if isinstance(component, list):
        for item in component:
            _check_component(item, where=where, _depth=_depth + 1)
    if not isinstance(component, dict):
        return
    kind = component.get("type")
    known = kind is None or (isinstance(kind, str) and kind in _COMPONENTS)
    if _depth > 8 or "Regex" in component or not known:
        raise AuditError(
            "The tokenizer uses a part that is not supported (a pattern or an unknown component).",
            where=where,
            do="Supported are the tokenizers of BERT, DistilBERT and RoBERTa.",
        )
    for item in component.values():
        _check_component(item, where=where, _depth=_depth + 1)


def _added(
    folder: ModelFolder, settings: Mapping[str, object], *, used: Mapping[str, bytes]
) -> dict[int, str]:
    """Return the entries that the legacy files add to the vocabulary."""
    added: dict[int, str] = {}
    if "special_tokens_map.json" in used:
        where = folder.where("special_tokens_map.json")
        table = parse_json(used["special_tokens_map.json"], where=where)
        refuse_code_keys(table, where=where)
        for value in table.values():
            _check_n_added(value, where=where)
    if "added_tokens.json" in used:
        where = folder.where("added_tokens.json")
        table = parse_json(used["added_tokens.json"], where=where)
        _check_n_added(table, where=where)
        added |= _by_id(table, where=where)
    decoder = settings.get("added_tokens_decoder")
    if decoder is not None:
        where = folder.where(CONFIG_FILE)
        if not isinstance(decoder, dict) or not all(
            key.isdecimal() and len(key) <= _MAX_ID_DIGITS and isinstance(token, dict)
            for key, token in decoder.items()
        ):
            raise AuditError("added_tokens_decoder is not a table of tokens.", where=where)
        added |= {int(key): str(token.get("content")) for key, token in decoder.items()}
    return added
