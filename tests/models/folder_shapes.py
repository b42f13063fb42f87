"""Folders of models as hospitals and papers have them, made small, and what becomes of each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

import torch
from safetensors.torch import load_file, save_file
from tokenizers import (
    ByteLevelBPETokenizer,
    Tokenizer,
    models,
    pre_tokenizers,
    processors,
)

from audit.names.candidates import Candidates, make_candidates
from tests.models.editing import (
    WEIGHTS,
    config,
    edit_json,
    remove,
    tokenizer_config,
    weights,
    write,
    write_pickle,
)
from tests.models.make_models import SPECIAL, WORDS, save_random_model
from tests.models.make_tokenizers import UNKNOWN, compile_dictionary, make_piece_file, pieces

Build = Callable[[Path], object]

FIRST = ("James", "Mary", "Robert", "Linda", "David", "Susan", "Paul", "Karen", "Mark", "Nancy")
LAST = (
    "Smith",
    "Jones",
    "Miller",
    "Davis",
    "Wilson",
    "Moore",
    "Taylor",
    "White",
    "Harris",
    "Clark",
)
FIRST_JA = ("太郎", "花子", "一郎", "幸子", "健", "恵", "誠", "愛", "修", "翔")
LAST_JA = ("佐藤", "鈴木", "高橋", "田中", "渡辺", "伊藤", "山本", "中村", "小林", "加藤")
_SENTENCES = ("the patient {} {} was seen by dr {} {} .", "Mr {} {} was seen for pain .")
_SENTENCES_JA = ("患者{1}{0}は受診した。", "{1}{0}さんを診察した。")
_LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
_MINIATURE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 66,
}


def list_names(language: str) -> Candidates:
    """Return ten members and ten controls with names that the small vocabularies hold."""
    first, last = (FIRST, LAST) if language == "en" else (FIRST_JA, LAST_JA)
    members = list(zip(first, last, strict=True))
    controls = list(zip(first, (*last[3:], *last[:3]), strict=True))
    return make_candidates(members, is_member=True) + make_candidates(
        controls, is_member=False, control_kind="easy"
    )


def list_passages(language: str) -> bytes:
    """Return a table of passages in which the name is a placeholder."""
    lines = (
        ("mr [NAME] was seen by dr john", "[NAME] was seen for pain", "mr [NAME] was seen")
        if language == "en"
        else ("患者[NAME]は受診した。", "[NAME]さんを診察した。", "患者[NAME]を診察した。")
    )
    return "\n".join(("text", *lines)).encode()


def _list_texts() -> list[str]:
    """Return texts from which vocabularies are learnt; every first name is with every last name."""
    english = [
        sentence.format(first, last, last, first)
        for sentence in _SENTENCES
        for first, last in product(FIRST, LAST)
    ]
    japanese = [
        sentence.format(first, last)
        for sentence in _SENTENCES_JA
        for first, last in product(FIRST_JA, LAST_JA)
    ]
    return [*english, *(text.lower() for text in english), *japanese] * 2


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


# Tokenizers: each writes its files and returns the number of its tokens.


def write_wordpiece(folder: Path, *, is_cased: bool = False, **settings: object) -> int:
    """Write vocab.txt with the words of the texts and all letters."""
    names = [*FIRST, *LAST]
    words = [*WORDS, *(name.lower() for name in names), *_LETTERS, *(f"##{c}" for c in _LETTERS)]
    if is_cased:
        words += [*names, *(c.upper() for c in _LETTERS), *(f"##{c.upper()}" for c in _LETTERS)]
    tokens = [*SPECIAL, *dict.fromkeys(words)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": not is_cased} | settings
    _write_json(folder / "tokenizer_config.json", settings)
    return len(tokens)


def write_mecab_wordpiece(folder: Path, *, subwords: str = "wordpiece", **settings: object) -> int:
    """Write vocab.txt for a tokenizer that splits words with MeCab."""
    words = ["患者", "受診", "診察", "さん", *FIRST_JA, *LAST_JA] if subwords == "wordpiece" else []
    letters = sorted({letter for text in (*FIRST_JA, *LAST_JA, *_SENTENCES_JA) for letter in text})
    words += letters if subwords == "character" else [*letters, *(f"##{c}" for c in letters)]
    tokens = [*SPECIAL, *dict.fromkeys(words)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    settings = {
        "tokenizer_class": "BertJapaneseTokenizer",
        "do_lower_case": False,
        "word_tokenizer_type": "mecab",
        "subword_tokenizer_type": subwords,
        "mecab_kwargs": {"mecab_dic": "unidic_lite"},
    } | settings
    _write_json(folder / "tokenizer_config.json", settings)
    return len(tokens)


@cache
def _learn_byte_pairs() -> tuple[str, str]:
    learner = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learner.train_from_iterator(
        _list_texts(), vocab_size=500, min_frequency=2, special_tokens=special, show_progress=False
    )
    state = json.loads(learner.to_str())["model"]
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in state["merges"]]
    return json.dumps(state["vocab"]), "\n".join(("#version: 0.2", *merges)) + "\n"


def write_byte_pairs(folder: Path, **settings: object) -> int:
    """Write vocab.json and merges.txt of a byte-level BPE."""
    vocabulary, merges = _learn_byte_pairs()
    for role in _ANGLES:
        if role in settings:
            vocabulary = vocabulary.replace(f'"{_ANGLES[role]}"', f'"{settings[role]}"')
    (folder / "vocab.json").write_text(vocabulary, encoding="utf-8")
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    settings = {"tokenizer_class": "RobertaTokenizer"} | settings
    _write_json(folder / "tokenizer_config.json", settings)
    return len(json.loads(vocabulary))


_BRACKETS = {
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "mask_token": "[MASK]",
}
_ANGLES = {
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}


def _write_fast(folder: Path, tokenizer: Tokenizer, tokens: Mapping[str, str], kind: str) -> int:
    """Write tokenizer.json with special tokens around a text."""
    tokenizer.add_special_tokens([*tokens.values()])
    around = tokens["cls_token"], tokens["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{around[0]} $A {around[1]}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in around],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", {"tokenizer_class": kind} | tokens)
    return int(tokenizer.get_vocab_size())


def write_fast_byte_pairs(folder: Path) -> int:
    """Write the tokenizer.json of a byte-level BPE, as ModernBERT has it."""
    vocabulary, merges = _learn_byte_pairs()
    pairs = [tuple(line.split(" ")) for line in merges.splitlines()[1:]]
    names = dict(zip(_ANGLES.values(), _BRACKETS.values(), strict=True))
    ids = {names.get(token, token): i for token, i in json.loads(vocabulary).items()}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _write_fast(folder, tokenizer, _BRACKETS, "PreTrainedTokenizerFast")


def _list_pieces(*, is_cased: bool = True) -> list[tuple[str, float]]:
    """Return pieces of a Unigram model with scores: names, words, letters and signs."""
    listed = dict(pieces(words=[*FIRST, *LAST], with_capitals=is_cased))
    letters = sorted({*"".join((*FIRST_JA, *LAST_JA, *_SENTENCES_JA))} - {*"{01}"})
    scores = {name: -6.0 for name in (*FIRST_JA, *LAST_JA)}
    scores |= dict.fromkeys(letters, -9.0) | listed
    # A tokenizer that folds capitals strips accents too.
    return [(text, scores[text]) for text in scores if is_cased or is_normalized("NFD", text)]


def write_fast_pieces(
    folder: Path, *, start: Sequence[str], kind: str, tokens: Mapping[str, str] = _ANGLES
) -> int:
    """Write the tokenizer.json of a Unigram model, whose vocabulary begins with `start`."""
    entries = [(token, 0.0) for token in start] + _list_pieces()
    entries += [(tokens["mask_token"], 0.0)]
    tokenizer = Tokenizer(models.Unigram(entries, start.index(tokens["unk_token"]), False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    return _write_fast(folder, tokenizer, tokens, kind)


def write_piece_file(
    folder: Path,
    *,
    file: str,
    start: Sequence[str],
    kind: str,
    n_more: int,
    unknown: str = "<unk>",
    **settings: object,
) -> int:
    """Write a SentencePiece file alone; the embedding has `n_more` rows than it has pieces."""
    is_cased = not settings.get("do_lower_case")
    entries = [*((token, 0.0) for token in start), *_list_pieces(is_cased=is_cased)]
    trainer = [(3, 1), (40, start.index(unknown))]
    data = make_piece_file(entries, kinds={unknown: UNKNOWN}, trainer=trainer)
    (folder / file).write_bytes(data)
    _write_json(folder / "tokenizer_config.json", {"tokenizer_class": kind} | settings)
    return len(entries) + n_more


# Whole models, each built once; a shape is a copy with a few changes.


def _make(kind: str, write_tokenizer: Callable[[Path], int], **settings: Any) -> Build:
    """Return a maker of a model of a kind, as large as its tokenizer needs."""

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        n_tokens = write_tokenizer(folder)
        sizes = {} if kind == "DistilBert" else _MINIATURE
        save_random_model(kind, folder, seed=1, **{"vocab_size": n_tokens, **sizes, **settings})

    return make


_FAIRSEQ_START = ("<unk>", "<s>", "</s>")
_CAMEMBERT_START = ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>")
_BRACKET_START = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
_ALBERT_START = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_ALBERT_TOKENS = {**_BRACKETS, "unk_token": "<unk>", "pad_token": "<pad>"}
_XLMR_START = ("<s>", "<pad>", "</s>", "<unk>")
_ROBERTA = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}


def _write_piece_file(**settings: Any) -> Callable[[Path], int]:
    return lambda folder: write_piece_file(folder, n_more=8, **settings)


def _write_fast_pieces(**settings: Any) -> Callable[[Path], int]:
    return lambda folder: write_fast_pieces(folder, **settings)


BASES: dict[str, Build] = {
    "bert": _make("Bert", write_wordpiece),
    "cased": _make("Bert", lambda folder: write_wordpiece(folder, is_cased=True)),
    "untied": _make("Bert", write_wordpiece, tie_word_embeddings=False),
    "distilbert": _make(
        "DistilBert",
        lambda folder: write_wordpiece(folder, tokenizer_class="DistilBertTokenizer"),
        dim=16,
        n_layers=2,
        n_heads=2,
        hidden_dim=32,
        max_position_embeddings=64,
    ),
    "roberta": _make("Roberta", write_byte_pairs, **_ROBERTA),
    "mecab": _make("Bert", write_mecab_wordpiece),
    "ipadic": _make(
        "Bert", lambda folder: write_mecab_wordpiece(folder, mecab_kwargs={"mecab_dic": "ipadic"})
    ),
    "characters": _make("Bert", lambda folder: write_mecab_wordpiece(folder, subwords="character")),
    "camembert": _make(
        "Camembert",
        _write_piece_file(
            file="sentencepiece.bpe.model", start=_FAIRSEQ_START, kind="CamembertTokenizer"
        ),
        **_ROBERTA,
    ),
    "drbert": _make(
        "Camembert",
        _write_fast_pieces(start=_CAMEMBERT_START, kind="CamembertTokenizer"),
        **_ROBERTA,
    ),
    "xlm-roberta": _make(
        "XLMRoberta",
        _write_piece_file(
            file="sentencepiece.bpe.model", start=_FAIRSEQ_START, kind="XLMRobertaTokenizer"
        ),
        **_ROBERTA,
    ),
    "jmedroberta": _make(
        "Roberta",
        _write_fast_pieces(start=_XLMR_START, kind="PreTrainedTokenizerFast"),
        **_ROBERTA,
    ),
    "rinna": _make(
        "Roberta",
        _write_piece_file(
            file="spiece.model",
            start=("<unk>", "<s>", "</s>", "[PAD]", "[CLS]", "[SEP]", "[MASK]"),
            kind="T5Tokenizer",
            bos_token="<s>",
            eos_token="</s>",
            unk_token="<unk>",
            pad_token="[PAD]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            mask_token="[MASK]",
            extra_ids=0,
            do_lower_case=True,
        ),
        pad_token_id=3,
        **_ROBERTA | {"max_position_embeddings": 68},
    ),
    "modernbert": _make(
        "ModernBert",
        write_fast_byte_pairs,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        cls_token_id=0,
        sep_token_id=2,
    ),
    "modernbert-ja": _make(
        "ModernBert",
        _write_fast_pieces(start=_XLMR_START, kind="PreTrainedTokenizerFast"),
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        cls_token_id=0,
        sep_token_id=2,
    ),
    "deberta": _make(
        "Deberta",
        lambda folder: write_byte_pairs(folder, tokenizer_class="DebertaTokenizer", **_BRACKETS),
        relative_attention=True,
        max_relative_positions=-1,
        position_biased_input=False,
        pos_att_type=["c2p", "p2c"],
    ),
    "deberta-v2": _make(
        "DebertaV2",
        _write_piece_file(
            file="spm.model",
            start=_BRACKET_START,
            kind="DebertaV2Tokenizer",
            unknown="[UNK]",
            split_by_punct=False,
            do_lower_case=False,
        ),
        relative_attention=True,
        position_buckets=16,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        max_relative_positions=-1,
        type_vocab_size=0,
    ),
    "electra": _make(
        "Electra",
        lambda folder: write_wordpiece(folder, tokenizer_class="ElectraTokenizer"),
        embedding_size=8,
    ),
    "longformer": _make(
        "Longformer",
        write_byte_pairs,
        attention_window=[16, 16],
        **_ROBERTA,
    ),
    "big_bird": _make(
        "BigBird",
        _write_piece_file(
            file="spiece.model",
            start=("<unk>", "<s>", "</s>", "<pad>", "[SEP]", "[CLS]", "[MASK]"),
            kind="BigBirdTokenizer",
        ),
        attention_type="block_sparse",
        block_size=64,
        max_position_embeddings=4096,
        pad_token_id=3,
    ),
    "megatron-bert": _make("MegatronBert", write_wordpiece),
    "albert": _make(
        "Albert",
        _write_piece_file(
            file="spiece.model", start=_ALBERT_START, kind="AlbertTokenizer", do_lower_case=True
        ),
        embedding_size=8,
    ),
}


@dataclass(frozen=True)
class Bases:
    """Models that are built when a shape first needs them, in one folder."""

    root: Path

    def copy(self, name: str, folder: Path) -> Path:
        """Write a copy of a model into a folder."""
        base = self.root / name
        if not base.exists():
            BASES[name](base)
        return Path(shutil.copytree(base, folder))


# Changes of a copy.


def _pickle_weights(folder: Path) -> None:
    """Replace the weights by pytorch_model.bin."""
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def _split_weights(folder: Path) -> None:
    """Replace the weights by two shards and their index."""
    tensors = load_file(folder / WEIGHTS)
    names = sorted(tensors)
    files = {}
    for i, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), start=1):
        file = f"model-{i:05}-of-00002.safetensors"
        save_file({name: tensors[name].clone() for name in part}, folder / file)
        files |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 0}, "weight_map": files}
    _write_json(folder / "model.safetensors.index.json", index)
    (folder / WEIGHTS).unlink()


def prefix_names(prefix: str) -> Build:
    """Return a change that puts a prefix before the names of all tensors."""
    return weights(lambda t: [t.update({prefix + name: t.pop(name)}) for name in sorted(t)])


def _change_type(dtype: torch.dtype) -> Build:
    return weights(lambda t: t.update({name: tensor.to(dtype) for name, tensor in t.items()}))


_HEADS = ("cls.", "lm_head.", "vocab_", "generator_", "head.", "decoder.")


def _drop_head(tensors: dict[str, Any]) -> None:
    for name in [name for name in tensors if name.startswith(_HEADS)]:
        del tensors[name]


def _save_body(tensors: dict[str, Any]) -> None:
    """Leave what BertModel.save_pretrained writes: names without the model's root."""
    _drop_head(tensors)
    for name in sorted(tensors):
        tensors[name.partition(".")[2]] = tensors.pop(name)


def _add(**tensors: tuple[int, ...]) -> Build:
    """Add tensors of ones; two underscores in a name stand for a dot."""
    return weights(
        lambda t: t.update(
            {n.replace("__", "."): torch.ones(shape) for n, shape in tensors.items()}
        )
    )


def _age_names(tensors: dict[str, Any]) -> None:
    for name in sorted(tensors):
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)


def _drop_settings(*keys: str) -> Build:
    def drop(folder: Path) -> None:
        path = folder / "config.json"
        settings = json.loads(path.read_text("utf-8"))
        _write_json(path, {key: item for key, item in settings.items() if key not in keys})

    return drop


def _replace_weights(*files: str) -> Build:
    """Replace the weights by files whose content is never read."""

    def replace_weights(folder: Path) -> None:
        (folder / WEIGHTS).unlink()
        for file in files:
            (folder / file).parent.mkdir(exist_ok=True)
            write_pickle(folder, file)

    return replace_weights


def _move_into_cache(*revisions: str) -> Build:
    """Turn the folder into a model's directory in a hub's cache, with links into blobs."""

    def move(folder: Path) -> None:
        model = folder.rename(folder.parent / "moved")
        blobs = folder / "blobs"
        blobs.mkdir(parents=True)
        hashes = {file.name: f"{i:040x}" for i, file in enumerate(sorted(model.iterdir()))}
        for name, number in hashes.items():
            (model / name).rename(blobs / number)
        for revision in revisions:
            (folder / "snapshots" / revision).mkdir(parents=True)
            for name, number in hashes.items():
                link = folder / "snapshots" / revision / name
                link.symlink_to(Path("../../blobs") / number)
        shutil.rmtree(model)

    return move


def _save_checkpoints(folder: Path) -> None:
    """Put a Trainer's checkpoints beside the model."""
    for step in (500, 1000):
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir()
        for file in [path for path in folder.iterdir() if path.is_file()]:
            shutil.copy(file, checkpoint)
        _add_training_states(checkpoint)


def _add_training_states(folder: Path) -> None:
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        write_pickle(folder, name)
    _write_json(folder / "trainer_state.json", {"global_step": 500})


def _remove_files(folder: Path) -> None:
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.unlink()


def _move_files(name: str) -> Build:
    def move(folder: Path) -> None:
        (folder / name).mkdir()
        for path in [path for path in folder.iterdir() if path.is_file()]:
            path.rename(folder / name / path.name)

    return move


def _quantise(tensors: dict[str, Any]) -> None:
    name = "bert.encoder.layer.0.output.dense.weight"
    tensors[name] = tensors[name].to(torch.int8)
    tensors[name.replace("weight", "SCB")] = torch.ones(16)


_LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 440473133\n"
_PAGE = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"
_NO_HEAD = "The weights were saved without the masked-language-model head"
_PICKLED = "The weights exist only as pytorch_model.bin"
_CLASSIFIER = "This is a classifier: it gives no word a probability."


@dataclass(frozen=True)
class FolderShape:
    """A folder of a model: the base that it is a copy of, the changes, and what becomes of it.

    `refusal` is the beginning of the sentence with which it is refused, "" if it is accepted.
    `conversion` are the options of `models convert` that make it acceptable, None if it cannot
    help. `place` is the part of the folder that a person chooses.
    """

    name: str
    base: str
    changes: tuple[Build, ...] = ()
    refusal: str = ""
    conversion: tuple[str, ...] | None = None
    place: str = ""
    language: str = "en"

    def build(self, bases: Bases, folder: Path) -> Path:
        """Write the folder, and return the path that a person would choose."""
        bases.copy(self.base, folder)
        for change in self.changes:
            change(folder)
        return folder / self.place


FOLDER_SHAPES = (
    FolderShape("BERT, uncased", "bert"),
    FolderShape("BERT, cased", "cased"),
    FolderShape(
        "BertForPreTraining",
        "bert",
        (
            _add(
                bert__pooler__dense__weight=(16, 16),
                bert__pooler__dense__bias=(16,),
                cls__seq_relationship__weight=(2, 16),
                cls__seq_relationship__bias=(2,),
            ),
        ),
    ),
    FolderShape(
        "Trainer with checkpoints beside the model",
        "bert",
        (
            _save_checkpoints,
            _add_training_states,
        ),
    ),
    FolderShape("Trainer's checkpoint", "bert", (_save_checkpoints,), place="checkpoint-500"),
    FolderShape(
        "Trainer's checkpoints alone",
        "bert",
        (_save_checkpoints, _remove_files),
        "The directory holds checkpoints of a training (checkpoint-1000, checkpoint-500)",
    ),
    FolderShape(
        "head with a matrix and two biases of its own",
        "untied",
        (
            weights(
                lambda t: t.update({"cls.predictions.bias": t["cls.predictions.decoder.bias"] + 1})
            ),
        ),
    ),
    FolderShape("float16", "bert", (_change_type(torch.float16),)),
    FolderShape("bfloat16", "bert", (_change_type(torch.bfloat16),)),
    FolderShape("float64", "bert", (_change_type(torch.float64),)),
    FolderShape(
        "names of TensorFlow, buffers",
        "bert",
        (
            weights(_age_names),
            weights(lambda t: t.update({"bert.embeddings.position_ids": torch.arange(66)[None]})),
        ),
    ),
    FolderShape(
        "embedding padded to a multiple of 64",
        "bert",
        (
            weights(
                lambda t: t.update(
                    {
                        "bert.embeddings.word_embeddings.weight": torch.nn.functional.pad(
                            t["bert.embeddings.word_embeddings.weight"], (0, 0, 0, 27)
                        ),
                        "cls.predictions.bias": torch.nn.functional.pad(
                            t["cls.predictions.bias"], (0, 27)
                        ),
                    }
                )
            ),
            lambda folder: edit_json(folder, "config.json", vocab_size=_count_rows(folder)),
        ),
    ),
    FolderShape(
        "vocab_size smaller than the embedding",
        "bert",
        (config(vocab_size=60),),
        'The word embedding has 101 rows, but config.json says "vocab_size": 60.',
    ),
    FolderShape("torch.compile", "bert", (prefix_names("_orig_mod."),)),
    FolderShape("DataParallel", "bert", (prefix_names("module."),)),
    FolderShape("DataParallel of torch.compile", "roberta", (prefix_names("module._orig_mod."),)),
    FolderShape("merged PEFT", "bert", (prefix_names("base_model.model."),)),
    FolderShape(
        "snapshot in a hub's cache",
        "bert",
        (_move_into_cache("0a1b"),),
        place="snapshots/0a1b",
    ),
    FolderShape("model's directory in a hub's cache", "bert", (_move_into_cache("0a1b"),)),
    FolderShape("DistilBERT", "distilbert"),
    FolderShape("DistilRoBERTa", "roberta"),
    FolderShape("BioMed-RoBERTa", "roberta", (_pickle_weights,), _PICKLED, ()),
    FolderShape("MedRoBERTa.nl", "roberta", (_pickle_weights,), _PICKLED, ()),
    FolderShape(
        "Bio_ClinicalBERT",
        "cased",
        (
            _pickle_weights,
            write("tokenizer_config.json", '{"do_lower_case": false}'),
        ),
        _PICKLED,
        (),
    ),
    FolderShape(
        "Bio_ClinicalBERT without tokenizer_config.json",
        "cased",
        (remove("tokenizer_config.json"),),
        "The tokenizer folds capitals or accents away",
    ),
    FolderShape("PubMedBERT", "bert", (_pickle_weights,), _PICKLED, ()),
    FolderShape("GatorTron", "megatron-bert", (_pickle_weights,), _PICKLED, ()),
    FolderShape("BioM-ALBERT", "albert", (_pickle_weights,), _PICKLED, ()),
    FolderShape("CamemBERT-bio", "camembert"),
    FolderShape("DrBERT", "drbert", (_pickle_weights,), _PICKLED, ()),
    FolderShape("XLM-RoBERTa", "xlm-roberta", language="ja"),
    FolderShape("JMedRoBERTa, SentencePiece", "jmedroberta", language="ja"),
    FolderShape(
        "JMedRoBERTa, Manbyo dictionary",
        "mecab",
        (
            tokenizer_config(mecab_kwargs={"mecab_option": "-u MANBYO.dic"}),
            lambda folder: compile_dictionary(folder / "MANBYO.dic", LAST_JA),
        ),
        language="ja",
    ),
    FolderShape(
        "JMedRoBERTa, dictionary elsewhere",
        "mecab",
        (tokenizer_config(mecab_kwargs={"mecab_option": "-u /usr/local/MANBYO.dic"}),),
        "MeCab's user dictionary MANBYO.dic is not in the model's directory.",
        language="ja",
    ),
    FolderShape(
        "UTH-BERT as downloaded",
        "mecab",
        (
            lambda folder: (folder / "config.json").rename(folder / "bert_config.json"),
            _replace_weights("bert_model.ckpt.index", "bert_model.ckpt.meta"),
        ),
        "The weights exist only as a TensorFlow checkpoint.",
    ),
    FolderShape(
        "UTH-BERT in PyTorch",
        "mecab",
        (
            _drop_settings("model_type", "architectures"),
            _pickle_weights,
        ),
        _PICKLED,
        ("--model-type", "bert"),
        language="ja",
    ),
    FolderShape("Tohoku BERT v2", "mecab", (_pickle_weights,), _PICKLED, (), language="ja"),
    FolderShape("Tohoku BERT v3", "mecab", language="ja"),
    FolderShape("Tohoku BERT v3, characters", "characters", language="ja"),
    FolderShape("Tohoku BERT with IPAdic", "ipadic", language="ja"),
    FolderShape("rinna japanese-roberta", "rinna", (_pickle_weights,), _PICKLED, (), language="ja"),
    FolderShape(
        "Waseda RoBERTa with Juman++",
        "mecab",
        (tokenizer_config(word_tokenizer_type="jumanpp", mecab_kwargs=None),),
        "Words cannot be split with jumanpp here.",
        language="ja",
    ),
    FolderShape("BioClinical-ModernBERT", "modernbert"),
    FolderShape("ModernBERT-ja", "modernbert-ja", language="ja"),
    FolderShape("DeBERTa", "deberta", (_pickle_weights,), _PICKLED, ()),
    FolderShape("mDeBERTa-v3", "deberta-v2"),
    FolderShape("ELECTRA, generator", "electra"),
    FolderShape(
        "ELECTRA, discriminator",
        "electra",
        (
            weights(_drop_head),
            _add(discriminator_predictions__dense__weight=(16, 16)),
        ),
        "This is an ELECTRA discriminator",
    ),
    FolderShape("Clinical-Longformer", "longformer"),
    FolderShape("Clinical-BigBird", "big_bird"),
    FolderShape(
        "shards of safetensors",
        "bert",
        (_split_weights,),
    ),
    FolderShape(
        "shards without their index",
        "bert",
        (_split_weights, remove("model.safetensors.index.json")),
        "The weights are split into several files (shards), and their index is missing.",
    ),
    FolderShape(
        "index beside the weights",
        "bert",
        (write("model.safetensors.index.json", '{"weight_map": {}}'),),
        "There is both a model.safetensors and an index of shards",
    ),
    FolderShape(
        "no head, BertModel",
        "bert",
        (weights(_save_body),),
        _NO_HEAD,
        ("--head-from", "bert"),
    ),
    FolderShape(
        "no head, RoBERTa",
        "roberta",
        (weights(_drop_head),),
        _NO_HEAD,
        ("--head-from", "roberta"),
    ),
    FolderShape(
        "no model_type",
        "bert",
        (_drop_settings("model_type", "architectures"),),
        "The file config.json does not say what kind of model this is (model_type). Its tensors "
        'and settings look like those of "bert".',
        ("--model-type", "bert"),
    ),
    FolderShape(
        "no model_type, RoBERTa",
        "roberta",
        (_drop_settings("model_type"),),
        "The file config.json does not say what kind of model this is (model_type). Its tensors "
        'and settings look like those of "roberta".',
        ("--model-type", "roberta"),
    ),
    FolderShape(
        "no model_type and pickled, RoBERTa",
        "roberta",
        (_drop_settings("model_type", "architectures"), _pickle_weights),
        _PICKLED,
        ("--model-type", "roberta"),
    ),
    FolderShape(
        "config.json of another kind",
        "roberta",
        (config(model_type="bert"),),
        'The tensors are those of a model of the kind "roberta", but config.json describes one of',
    ),
    FolderShape(
        "config.json with more layers",
        "bert",
        (config(num_hidden_layers=12),),
        "Tensors that config.json promises are missing (160, the first is "
        '"bert.encoder.layer.2.attention.self.query.weight").',
    ),
    FolderShape(
        "config.json with another width",
        "bert",
        (config(intermediate_size=64),),
        "Tensors do not have the shape that config.json promises (6, the first is "
        '"bert.encoder.layer.0.intermediate.dense.bias": 32 instead of 64).',
    ),
    FolderShape(
        "no config.json",
        "bert",
        (remove("config.json"),),
        "The file config.json is missing.",
    ),
    FolderShape(
        "two snapshots in a hub's cache",
        "bert",
        (_move_into_cache("0a1b", "2c3d"),),
        "This is a model's directory in the Hugging Face cache",
    ),
    FolderShape(
        "weights are a pointer of git-lfs",
        "bert",
        (write(WEIGHTS, _LFS),),
        "This is a Git LFS pointer, not the file itself.",
    ),
    FolderShape(
        "vocabulary is a pointer of git-lfs",
        "bert",
        (write("vocab.txt", _LFS),),
        "This is a Git LFS pointer, not the file itself.",
    ),
    FolderShape(
        "config.json is a pointer of git-lfs",
        "bert",
        (write("config.json", _LFS),),
        "This is a Git LFS pointer, not the file itself.",
    ),
    FolderShape(
        "weights are a web page",
        "bert",
        (write(WEIGHTS, _PAGE),),
        "This is a web page, not the file itself.",
    ),
    FolderShape(
        "weights are a pickle by another name",
        "bert",
        (lambda folder: write_pickle(folder, WEIGHTS),),
        "This file has the name of a safetensors file, but torch.save wrote it",
    ),
    FolderShape(
        "GGUF",
        "bert",
        (_replace_weights("model-q4_k_m.gguf"),),
        "The weights are in the format of llama.cpp (GGUF).",
    ),
    FolderShape(
        "TensorFlow 2",
        "bert",
        (_replace_weights("tf_model.h5"),),
        "The weights exist only in the format of TensorFlow 2 (tf_model.h5).",
    ),
    FolderShape(
        "Flax",
        "bert",
        (_replace_weights("flax_model.msgpack"),),
        "The weights exist only in the format of Flax (flax_model.msgpack).",
    ),
    FolderShape(
        "ONNX",
        "bert",
        (_replace_weights("onnx/model.onnx"),),
        "The model was exported to ONNX",
    ),
    FolderShape(
        "OpenVINO",
        "bert",
        (_replace_weights("openvino_model.xml", "openvino_model.bin"),),
        "The model was exported to OpenVINO",
    ),
    FolderShape(
        "DeepSpeed",
        "bert",
        (_replace_weights("global_step9/x_model_states.pt"),),
        "The weights are still in the parts in which a training on several devices",
    ),
    FolderShape(
        "weights in a file of another name",
        "bert",
        (_replace_weights("best.pt"),),
        "There is no model.safetensors, only a file of unknown content",
    ),
    FolderShape(
        "safetensors of another name",
        "bert",
        (lambda folder: (folder / WEIGHTS).rename(folder / "clinical.safetensors"),),
        "The file of the weights is not called model.safetensors.",
    ),
    FolderShape(
        "Rust",
        "bert",
        (_replace_weights("rust_model.ot"),),
        "The weights are in the format of another library",
    ),
    FolderShape(
        "adapter",
        "bert",
        (
            _replace_weights("adapter_model.safetensors"),
            write("adapter_config.json", "{}"),
        ),
        "The directory holds an adapter",
    ),
    FolderShape(
        "adapter that is not merged",
        "bert",
        (_add(bert__encoder__layer__0__attention__self__query__lora_A__default__weight=(2, 16)),),
        "The weights hold an adapter that was not merged",
    ),
    FolderShape(
        "OPT",
        "bert",
        (config(model_type="opt", architectures=["OPTForCausalLM"]),),
        'Causal language models of the kind "opt" cannot be audited',
    ),
    FolderShape(
        "causal model of a newer kind",
        "bert",
        (
            config(model_type="new", architectures=["NewForCausalLM"]),
            _pickle_weights,
        ),
        'Causal language models of the kind "new" cannot be audited',
    ),
    FolderShape(
        "T5",
        "bert",
        (config(model_type="t5"),),
        "This is an encoder-decoder model (t5)",
    ),
    FolderShape(
        "token classifier",
        "bert",
        (
            weights(_drop_head),
            _add(classifier__weight=(9, 16), classifier__bias=(9,)),
        ),
        _CLASSIFIER,
    ),
    FolderShape(
        "quantised with GPTQ",
        "bert",
        (config(quantization_config={"quant_method": "gptq", "bits": 4}),),
        "The weights are quantised (gptq), which changes every probability.",
    ),
    FolderShape(
        "quantised with bitsandbytes",
        "bert",
        (weights(_quantise),),
        'The weights are quantised ("bert.encoder.layer.0.output.dense.SCB")',
    ),
    FolderShape(
        "float8",
        "bert",
        (_change_type(torch.float8_e4m3fn),),
        'The tensor "bert.embeddings.LayerNorm.bias" has numbers of the type F8_E4M3',
    ),
    FolderShape(
        "sentence-transformers, of old",
        "bert",
        (
            _move_files("0_BERT"),
            write("modules.json", "[]"),
        ),
        "This is a sentence-transformers model, which",
    ),
    FolderShape(
        "sentence-transformers",
        "bert",
        (
            weights(_save_body),
            write("modules.json", "[]"),
        ),
        "This is a sentence-transformers model: it",
    ),
    FolderShape(
        "no tokenizer",
        "bert",
        (remove("vocab.txt"),),
        "The tokenizer's files are missing (vocab.txt).",
    ),
    FolderShape("empty", "bert", (_remove_files,), "The directory is empty."),
    FolderShape(
        "only tokenizer and config.json",
        "bert",
        (remove(WEIGHTS),),
        "The directory holds no model weights.",
    ),
    FolderShape(
        "layer_norm_eps of 0",
        "bert",
        (config(layer_norm_eps=0),),
        'The setting layer_norm_eps = "0" is not supported or out of bounds.',
    ),
)


def _count_rows(folder: Path) -> int:
    return len(load_file(folder / WEIGHTS)["bert.embeddings.word_embeddings.weight"])
