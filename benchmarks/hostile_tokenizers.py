"""Hostile tokenizers by the hundred: files that make the library hang, grow or fall over."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.models.make_models import SPECIAL, WORDS

TEXTS = (
    "Mr. O'Neil-Brown saw DR. müller at 10:45 a.m.",
    "a" * 3_000,
    "aé" * 1_500,
    "é" * 500,
    "山田花子は１２時に受診した。",
    "\ufdfa" * 200,
    "가나다" * 100,
    "Ǆ İ ß ﬀ " * 50,
    "\u0301" * 300,
    "a" + "\u0316" * 300,
    " " * 300 + "x",
    "[MASK]" * 100,
    "\U0001f468\u200d\U0001f469" * 50,
    "\0\x01",
)
Files = dict[str, str]
"""Name and content of the files that a good folder gets, or gets others of."""
Draw = Callable[[random.Random], Files]


def write_files(state: Mapping[str, Any], **settings: Any) -> Files:
    """Return a tokenizer that is taken as tokenizer.json has it."""
    roles = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
    settings_files = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{role}_token": token for role, token in roles.items()},
        **settings,
    }
    return {
        "tokenizer.json": json.dumps(state),
        "tokenizer_config.json": json.dumps(settings_files),
    }


def state(**changes: Any) -> dict[str, Any]:
    """Return a good tokenizer.json, with some parts changed."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": token, "special": True, **flags} for i, token in enumerate(SPECIAL)
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: i for i, word in enumerate((*SPECIAL, *WORDS))},
        },
    } | changes


def model(**changes: Any) -> dict[str, Any]:
    """Return the model of a good tokenizer.json, with some settings changed."""
    return {**state()["model"], **changes}


def sequence(part: str, components: list[Any]) -> dict[str, Any]:
    """Return a good tokenizer.json with a sequence of components in one of its parts."""
    key = {
        "normalizer": "normalizers",
        "pre_tokenizer": "pretokenizers",
        "post_processor": "processors",
        "decoder": "decoders",
    }[part]
    return state(**{part: {"type": "Sequence", key: components}})


def replacement(pattern: Any, content: str) -> dict[str, Any]:
    """Return a component that replaces text."""
    return {"type": "Replace", "pattern": pattern, "content": content}


def draw_growth(rng: random.Random) -> Files:
    """Replacements, prefixes and bytes that make a text longer again and again."""
    n, part = rng.randint(2, 60), rng.choice(("normalizer", "decoder"))
    grown = rng.choice("ae ") * rng.randint(2, 9)
    components: list[Any] = [replacement({"String": grown[0]}, grown)] * n
    match rng.randrange(6):
        case 0:
            components = [{"type": "Prepend", "prepend": "a" * rng.choice((1, 2, 10_000))}] * n
        case 1:
            components = [replacement({"String": ""}, rng.choice(("", "x", "xx")))] * rng.choice(
                (1, n)
            )
        case 2:
            part, components = (
                "pre_tokenizer",
                [{"type": "ByteLevel", "add_prefix_space": True}] * n,
            )
        case 3:
            part, components = "normalizer", [{"type": "ByteLevel"}] * n
        case 4:
            components = [replacement({"String": a}, b) for a, b in ("ab", "bc", "ca")] * n
    return write_files(sequence(part, components))


def draw_patterns(rng: random.Random) -> Files:
    """Patterns that take for ever, or never end."""
    pattern = rng.choice(("(a+)+$", "(a|a)*b", "(.*)*x", "", "(?=a)*", "(a?){40}a{40}", "[", "\\"))
    part = rng.choice(("normalizer", "pre_tokenizer", "decoder"))
    component = replacement({"Regex": pattern}, "")
    if part == "pre_tokenizer":
        of_split = rng.choice(({"Regex": pattern}, {"String": ""}, {}, None, pattern))
        component = {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": of_split}
    return write_files(sequence(part, [component] * rng.choice((1, 3))))


def draw_lengths(rng: random.Random) -> Files:
    """Too many components, too deep, or too many of something that a component holds."""
    part = rng.choice(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    n = rng.choice((13, 500, 20_000))
    plain = {
        "normalizer": "NFC",
        "pre_tokenizer": "Whitespace",
        "post_processor": "ByteLevel",
        "decoder": "Fuse",
    }[part]
    content = sequence(part, [{"type": plain}] * n)
    match rng.randrange(4):
        case 0:
            pieces = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * n
            tokens = {"[CLS]": {"id": "[CLS]", "ids": [2] * n, "tokens": ["[CLS]"] * n}}
            content = state(
                post_processor={
                    "type": "TemplateProcessing",
                    "single": pieces,
                    "pair": pieces,
                    "special_tokens": tokens,
                }
            )
        case 1:
            depth = rng.choice((2, 30, 900, 30_000))
            key = next(k for k in content[part] if k != "type")
            opened = f'{{"type":"Sequence","{key}":['
            deep = opened * depth + json.dumps({"type": plain}) + "]}" * depth
            files = write_files(state(**{part: "DEEP"}))
            return {**files, "tokenizer.json": files["tokenizer.json"].replace('"DEEP"', deep)}
        case 2:
            huge = 10 ** rng.randint(6, 18)
            padding = {
                "strategy": {"Fixed": huge},
                "direction": "Right",
                "pad_id": 0,
                "pad_to_multiple_of": rng.choice((None, huge)),
                "pad_type_id": 0,
                "pad_token": "[PAD]",
            }
            content = state(padding=padding)
        case 3:
            n, stride = rng.choice((0, 3, 10**18)), rng.choice((0, 3, 9, 10**18))
            truncation = {
                "direction": "Right",
                "max_length": n,
                "strategy": "LongestFirst",
                "stride": stride,
            }
            content = state(truncation=truncation)
    return write_files(content)


def draw_models(rng: random.Random) -> Files:
    """Models with evil merges, weights, prefixes and words."""
    letters = [chr(code) for code in range(97, 123)]
    doubled = ["a" * 2**k for k in range(rng.randint(2, 14))]
    vocab = {token: i for i, token in enumerate(dict.fromkeys((*SPECIAL, *letters, *doubled)))}
    pairs = [[piece, piece] for piece in doubled[:-1]] * rng.choice((1, 1, 3_000))
    bpe = {"type": "BPE", "unk_token": "[UNK]", "fuse_unk": True, "vocab": vocab, "merges": pairs}
    match rng.randrange(8):
        case 0:
            bpe |= {"merges": rng.choice(([["q", "q"]], [["a"]], ["a a a"], [[]], [1], ["  "]))}
        case 1:
            bpe |= {"continuing_subword_prefix": "x" * rng.choice((3, 10**6))}
        case 2:
            bpe |= {"dropout": rng.choice((0.5, 2, -1, "x"))}
        case 3:
            scores = [[word, rng.choice((-1e308, 0.0, 1e308))] for word in vocab]
            return write_files(state(model={"type": "Unigram", "vocab": scores, "unk_id": 10**9}))
        case 4:
            max_chars = rng.choice((0, -1, 10**9, 10**30, 1.5))
            return write_files(state(model=model(max_input_chars_per_word=max_chars)))
        case 5:
            return write_files(
                state(model=model(unk_token=rng.choice(("", "no such", "x" * 10**6))))
            )
        case 6:
            words = {**model()["vocab"], "z" * rng.choice((1_001, 10**6)): 37}
            return write_files(state(model=model(vocab=words)))
        case 7:
            ids = rng.choice(([-1, 0], [0, 0], [2**63, 1], [1.5, 1], ["0", 1], [None, 1]))
            return write_files(state(model=model(vocab=dict(zip(("a", "b"), ids, strict=True)))))
    return write_files(state(model=bpe))


def draw_added(rng: random.Random) -> Files:
    """Added tokens: too many, too long, empty, everywhere in the text, or of wrong kinds."""
    n, length = rng.choice(((9_990, 1), (20_000, 3), (9_000, 900), (3, 10**6), (500, 999)))
    flags = {
        key: rng.random() < 0.5
        for key in ("single_word", "lstrip", "rstrip", "normalized", "special")
    }
    added_tokens = [
        {"id": 37 + i, "content": f"{i:05d}" * max(1, length // 5), **flags} for i in range(n)
    ]
    if rng.random() < 0.3:
        wrong = rng.choice(("", "a", " ", "\n", "\0", 1, None, ["a"], {"a": "b"}, "[UNK]"))
        added_tokens = [{"id": rng.choice((0, 37, -1, 10**12)), "content": wrong, **flags}]
    if rng.random() < 0.5:
        return write_files(state(added_tokens=state()["added_tokens"] + added_tokens))
    key = rng.choice(("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"))
    if key == "added_tokens_decoder":
        return write_files(state(), **{key: {str(token["id"]): token for token in added_tokens}})
    return write_files(state(), **{key: [token["content"] for token in added_tokens]})


def draw_settings(rng: random.Random) -> Files:
    """Settings of wrong kinds and lengths, in every file that has some."""
    keys = (
        "mask_token",
        "unk_token",
        "do_lower_case",
        "strip_accents",
        "never_split",
        "errors",
        "model_max_length",
        "padding_side",
        "model_input_names",
        "tokenizer_class",
        "add_prefix_space",
        "added_tokens_decoder",
        "mecab_kwargs",
    )
    values: tuple[Any, ...] = (
        None,
        True,
        0,
        -1,
        10**30,
        1e308,
        "",
        "x" * rng.choice((3, 10**6)),
        [],
        ["x"] * 20_000,
        {},
        {"a": {"a": {"a": 1}}},
        {"__type": "AddedToken", "content": "x" * 5_000},
        [[[[]]]],
        "BertTokenizer",
        "BertJapaneseTokenizer",
        "../../x",
        {"content": "[MASK]", "special": 7},
    )
    changes = {rng.choice(keys): rng.choice(values) for _ in range(rng.randint(1, 4))}
    if rng.random() < 0.3:
        name = rng.choice(("special_tokens_map.json", "added_tokens.json"))
        return {name: json.dumps(changes)}
    if rng.random() < 0.5:  # of the tokenizer that is made from vocab.txt
        return {"tokenizer_config.json": json.dumps({"tokenizer_class": "BertTokenizer"} | changes)}
    return write_files(state(), **changes)


def draw_vocabularies(rng: random.Random) -> Files:
    """Files of words: long lines, endless ones, one word many times, and no words."""
    lines = [*SPECIAL, *WORDS]
    match rng.randrange(6):
        case 0:
            lines[20] = "x" * rng.choice((1_001, 10**6, 31 * 10**6))
        case 1:
            lines += ["same"] * rng.choice((10, 900_000))
        case 2:
            lines += [f"w{i}" for i in range(rng.choice((50, 400_000, 1_000_001)))]
        case 3:
            lines = [rng.choice(("", "\0", "\ufeff", "\u2028", "##", " ")) for _ in range(50)]
        case 4:
            lines[10:10] = ["", "##", " ", "\u0301", "A\u0301", "[unused1]"]
        case 5:
            rng.shuffle(lines)
    return {"vocab.txt": "\n".join(lines) + "\n"}


def draw_broken(rng: random.Random) -> Files:
    """A good tokenizer.json with numbers, keys and kinds that JSON or the format does not know."""
    files = write_files(state())
    text = files["tokenizer.json"]
    old = rng.choice(('"version": "1.0"', '"truncation": null', '"max_input_chars_per_word": 100'))
    new = rng.choice(
        (
            f"{old}, {old}",
            f'{old}, "x": NaN',
            f'{old}, "x": 1e999',
            f'{old}, "x": ' + "9" * 400,
            f'{old}, "x": "\\ud800"',
            f'{old}, "model": {{}}',
            f'{old}, "x": ' + "[" * 50_000,
            f'{old}, "auto_map": {{"a": "b"}}',
            "",
        )
    )
    return {**files, "tokenizer.json": text.replace(old, new)}


def draw_wrong_kinds(rng: random.Random) -> Files:
    """A good tokenizer.json in which something, anywhere, is of another kind."""
    content = json.loads(
        json.dumps(
            state(
                truncation={
                    "direction": "Right",
                    "max_length": 8,
                    "strategy": "LongestFirst",
                    "stride": 0,
                }
            )
        )
    )
    for _ in range(rng.randint(1, 3)):
        place: Any = content
        while True:
            key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not (isinstance(place[key], dict | list) and place[key]) or rng.random() < 0.3:
                break
            place = place[key]
        place[key] = rng.choice(
            (None, True, 0, -1, 2**70, 1.5, "", "x", [], {}, [[]], {"type": "x"})
        )
    return write_files(content)


def draw_known(rng: random.Random) -> Files:
    """Components that are all known, in any order and number: some of this is taken."""
    flag = rng.random() < 0.5
    normalizers = [
        {"type": "Lowercase"},
        {"type": "NFC"},
        {"type": "NFD"},
        {"type": "NFKC"},
        {"type": "NFKD"},
        {"type": "StripAccents"},
        {"type": "Nmt"},
        {"type": "ByteLevel"},
        {"type": "Strip", "strip_left": flag, "strip_right": True},
        {"type": "Prepend", "prepend": "a"},
        replacement({"String": "ab"}, "b"),
        {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": flag,
            "strip_accents": None,
            "lowercase": True,
        },
    ]
    splitters = [
        {"type": "BertPreTokenizer"},
        {"type": "Whitespace"},
        {"type": "WhitespaceSplit"},
        {"type": "UnicodeScripts"},
        {"type": "Digits", "individual_digits": flag},
        {"type": "Punctuation", "behavior": "Isolated"},
        {"type": "ByteLevel", "add_prefix_space": flag, "trim_offsets": True, "use_regex": flag},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": flag},
        {"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": flag},
    ]
    content = sequence("normalizer", rng.sample(normalizers, rng.randint(0, len(normalizers))))
    parts = rng.sample(splitters, rng.randint(0, len(splitters)))
    return write_files(content | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": parts}})


DRAWS: tuple[Draw, ...] = (
    draw_growth,
    draw_patterns,
    draw_lengths,
    draw_models,
    draw_added,
    draw_settings,
    draw_vocabularies,
    draw_broken,
    draw_wrong_kinds,
    draw_known,
)


def write_hostile(folder: Path, *, n: int, rng: random.Random) -> None:
    """Give a good folder the tokenizer files of the n-th hostile one."""
    for name, content in DRAWS[n % len(DRAWS)](rng).items():
        (folder / name).write_bytes(content.encode("utf-8", "surrogatepass"))


def split_texts(folder: Path) -> float:
    """Build a folder's tokenizer and use it; return the seconds of a processor that it took."""
    import time

    from audit.models.registry import load_tokenizer

    start = time.process_time()
    built = load_tokenizer(folder)
    for text in TEXTS:
        ids = built(text, add_special_tokens=False)["input_ids"]
        built.convert_tokens_to_ids(built.tokenize(text))
        built.decode(ids[:2_000], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return time.process_time() - start
