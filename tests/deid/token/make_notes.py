"""Small annotated notes whose spans follow from the words around them, and an encoder's reader."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from audit.deid.find.network.decode import TokenizerReader
from audit.deid.find.network.wordnet import Shape
from audit.deid.find.tagger_facts import TaggerFacts
from audit.deid.learn.tagger_task import TaggerSettings, TaggerTask
from audit.deid.learn.training import train_tagger
from audit.notes.formats import write_jsonl
from audit.notes.spans import TaggedDocument
from tests.deid.unseen_notes import marked

SURNAMES = ["山田", "鈴木", "高橋", "中村", "小林", "吉川", "森田", "池上"]
GIVEN = ["太郎", "花子", "健一", "美咲", "直樹", "由美"]
SMALL = Shape(width=32, dilations=(1, 2, 4, 1))


def quick(**changes) -> TaggerSettings:
    all_settings = {
        "n_tokens": 16,
        "overlap": 8,
        "n_epochs": 4.0,
        "batch": 8,
        "micro_batch": 4,
        "learning_rate": 5e-3,
        "n_evaluations": 2,
        "checkpoint_every": 7,
        "hidden_share": 0.3,
        "precision": "float32",
    }
    return TaggerSettings(**all_settings | changes)


def notes(n: int) -> tuple[TaggedDocument, ...]:
    return tuple(
        marked(
            f"氏名：⟦I:{SURNAMES[number % 8]}{GIVEN[number // 8 % 6]}⟧　様\n"
            f"ID ⟦L:{1000 + 37 * number}⟧ 電話：⟦C:03-{number:04d}-55⟧。血圧は正常である。\n",
            doc_id=f"n{number}",
            patient=f"p{number}",
        )
        for number in range(n)
    )


def task(out: Path, **changes: Any) -> TaggerTask:
    """Return a task with 40 notes to learn from and 8 to measure on, in files beside its folder."""
    files = tuple(out.parent / f"{name}.jsonl" for name in ("gold", "validation"))
    for path, part in zip(files, (notes(40), notes(48)[40:]), strict=True):
        path.write_text(write_jsonl(part), "utf-8")
    fields = {"settings": quick(), "gold": files[:1], "validation": files[1:], "device": "cpu"}
    return TaggerTask(out=out, **fields | changes)


def train(out: Path, *, should_stop: Any = lambda: False, **changes: Any) -> TaggerFacts:
    """Train the small tagger of a task."""
    training_task: Any = task(out, **changes)
    return train_tagger(training_task, training_task.settings, shape=SMALL, should_stop=should_stop)


def reader_of(inner: Tokenizer, *, pad: str, unk: str | None) -> TokenizerReader:
    return TokenizerReader.from_tokenizer(
        PreTrainedTokenizerFast(tokenizer_object=inner, pad_token=pad, unk_token=unk)
    )


def wordpiece() -> TokenizerReader:
    signs = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = [*string.ascii_lowercase, *string.digits, "山", "田", "太", "郎", "##郎", "##b", "キ"]
    vocabulary = {sign: i for i, sign in enumerate([*signs, *pieces])}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.BertNormalizer(handle_chinese_chars=True)]
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return reader_of(inner, pad="[PAD]", unk="[UNK]")
